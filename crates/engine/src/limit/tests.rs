//! The controller in front of a server that is one formula: work grows with the limit up to a knee, and shrinks
//! behind it. The simulation in `testkit` shows it in front of better ones.

use super::*;

/// A server with a knee.
#[derive(Clone, Copy, Debug)]
struct Server {
    /// Statements a second at the knee.
    peak: f64,
    knee: f64,
    /// What each slot beyond the knee costs, as a share of the peak.
    loss: f64,
    /// By how much of itself the rate goes up and down, another way each tenth of a second.
    scatter: f64,
    /// A statement waits for every slot.
    is_busy: bool,
    alarms: u64,
}

const BUSY: Server =
    Server { peak: 5000.0, knee: 12.0, loss: 0.005, scatter: 0.0, is_busy: true, alarms: 0 };

impl Server {
    fn rate(&self, limit: f64) -> f64 {
        let beyond = (limit - self.knee).max(0.0);
        self.peak * (limit / self.knee).min(1.0) / (1.0 + self.loss * beyond)
    }
}

const TICK: Duration = Duration::from_millis(20);

/// A controller and the world that it sees.
struct Run {
    auto: Auto,
    now: Duration,
    seen: LimitTotals,
    random: u64,
    due: f64,
    /// What the rate is multiplied by for now.
    weather: f64,
}

impl Run {
    fn new(bounds: LimitBounds, rhythm: Rhythm) -> Self {
        let now = Duration::from_secs(1_000_000_000);
        let auto = Auto::new(bounds, rhythm, now);
        Self { auto, now, seen: LimitTotals::default(), random: 7, due: 0.0, weather: 1.0 }
    }

    fn ticks(&mut self, server: Server, time: Duration) {
        for tick in 0..time.as_millis() / TICK.as_millis() {
            if tick % 5 == 0 {
                self.weather = 1.0 + server.scatter * (2.0 * self.draw() - 1.0);
            }
            let limit = f64::from(self.auto.limit());
            let rate = server.rate(limit) * self.weather;
            // Some noise: what completes in a tick is off by up to a tenth.
            let noise = 0.9 + 0.2 * self.draw();
            self.due += rate * TICK.as_secs_f64() * noise;
            let took = (1e6 * limit / rate) as u64;
            while self.due >= 1.0 {
                self.due -= 1.0;
                self.seen.add(took, server.is_busy);
            }
            self.seen.alarms += server.alarms;
            self.now += TICK;
            self.auto.tick(self.now, self.seen, server.is_busy.then_some(self.auto.limit()));
            assert!((1..=self.auto.bounds.ceiling).contains(&self.auto.limit()));
        }
    }

    /// Between 0 and 1.
    fn draw(&mut self) -> f64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 40) as f64 / f64::from(1 << 24)
    }

    fn reasons(&self) -> Vec<Why> {
        self.auto.trace().map(|it| it.why).collect()
    }
}

const WIDE: LimitBounds = LimitBounds { floor: 2, ceiling: 400, start: 16, rest: 16 };

const fn from(start: u32) -> LimitBounds {
    LimitBounds { start, rest: start, ..WIDE }
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn another_rhythm_goes_on_around_where_the_limit_is() {
    let mut run = Run::new(from(60), Rhythm::Own);
    run.ticks(BUSY, seconds(30));
    let (centre, decisions) = (run.auto.centre(), run.auto.trace().count());
    assert!(centre < 30.0, "{centre}: it has found the knee");
    run.auto.swing_by(Rhythm::Own, run.now);
    assert_eq!(run.auto.trace().count(), decisions, "the same rhythm changes nothing");
    run.auto.swing_by(Rhythm::Clock, run.now);
    assert_eq!((run.auto.centre(), run.auto.trace().count()), (centre, decisions));
    assert!((f64::from(run.auto.limit()) - centre).abs() < 6.0, "{}", run.auto.limit());
    run.ticks(BUSY, seconds(30));
    let last = run.auto.trace().last().expect("it has decided").at;
    assert!(run.now - last < seconds(10), "it decides on");
    assert!((6.0..30.0).contains(&run.auto.centre()), "{}", run.auto.centre());
}

#[test]
fn the_knee_is_found_from_both_sides() {
    for start in [2, 8, 16, 60, 300] {
        for knee in [4.0, 12.0, 50.0] {
            let server = Server { knee, ..BUSY };
            let mut run = Run::new(from(start), Rhythm::Own);
            run.ticks(server, seconds(20));
            let before = run.seen.completed;
            run.ticks(server, seconds(20));
            let share = (run.seen.completed - before) as f64 / 20.0 / server.peak;
            assert!(share > 0.87, "from {start} to {knee}: {share}");
        }
    }
}

#[test]
fn a_plateau_is_left_at_its_lower_edge() {
    let server = Server { loss: 0.0, ..BUSY };
    let mut run = Run::new(from(100), Rhythm::Own);
    run.ticks(server, seconds(60));
    let centre = run.auto.centre();
    assert!((0.8 * server.knee..1.8 * server.knee).contains(&centre), "{centre}");
}

#[test]
fn of_a_few_slots_one_is_given_up_only_where_that_brings_more() {
    let small = Server { knee: 2.0, ..BUSY };
    let centre = |loss: f64| {
        let mut run = Run::new(from(4), Rhythm::Own);
        run.ticks(Server { loss, ..small }, seconds(60));
        run.auto.centre()
    };
    let (flat, steep) = (centre(0.0), centre(0.1));
    assert!((5.0..14.0).contains(&flat), "{flat}");
    assert!(steep < 4.0, "{steep}");
}

#[test]
fn nothing_moves_while_nobody_waits() {
    let idle = Server { is_busy: false, ..BUSY };
    let mut run = Run::new(WIDE, Rhythm::Own);
    run.ticks(idle, seconds(20));
    assert_eq!(run.auto.centre(), 16.0);
    assert!(run.reasons().iter().all(|why| *why == Why::NotSaturated));
    // Nor while nothing happens at all.
    run.ticks(Server { peak: 0.01, ..idle }, seconds(20));
    assert_eq!(run.auto.centre(), 16.0);
}

/// Ends so many statements of half a millisecond a tick; no statement waits for their slots. Returns how long it takes
/// until the limit is this low.
fn sinks_to(limit: f64, each_tick: usize) -> Duration {
    let mut run = Run::new(from(4), Rhythm::Own);
    run.auto.centre = 64.0;
    let begun = run.now;
    while run.auto.centre() > limit {
        (0..each_tick).for_each(|_| run.seen.add(500, false));
        run.now += TICK;
        run.auto.tick(run.now, run.seen, None);
        assert!(run.now - begun < seconds(120), "stays at {}", run.auto.centre());
    }
    run.now - begun
}

#[test]
fn what_is_not_needed_is_given_up_sooner_where_much_gets_done() {
    // 4 of 64 slots are held.
    let at_work = sinks_to(5.0, 160);
    assert!(at_work < seconds(5), "{at_work:?}");
    // Where little is to do, half of it is kept for two seconds.
    let at_leisure = sinks_to(32.0, 1);
    assert!(seconds(2) < at_leisure, "{at_leisure:?}");
}

#[test]
fn a_pause_takes_nothing_away_and_few_clients_need_less_than_it_began_with() {
    let mut run = Run::new(LimitBounds { start: 8, rest: 4, ..WIDE }, Rhythm::Own);
    run.auto.centre = 40.0;
    run.ticks(Server { peak: 0.01, is_busy: false, ..BUSY }, seconds(60));
    assert_eq!(run.auto.centre(), 40.0);
    // Three slots are held.
    for _ in 0..1000 {
        (0..100).for_each(|_| run.seen.add(600, false));
        run.now += TICK;
        run.auto.tick(run.now, run.seen, None);
    }
    assert!((4.0..4.1).contains(&run.auto.centre()), "{}", run.auto.centre());
}

#[test]
fn the_start_far_below_the_knee_is_quick() {
    let server = Server { knee: 60.0, ..BUSY };
    let mut run = Run::new(from(4), Rhythm::Own);
    run.ticks(server, seconds(5));
    assert!(server.rate(run.auto.centre()) > 0.8 * server.peak, "{}", run.auto.centre());
    assert!(run.reasons().contains(&Why::Up(0.4)));
}

#[test]
fn alarms_halve_the_limit_once_in_two_seconds() {
    let mut run = Run::new(from(64), Rhythm::Own);
    run.ticks(Server { alarms: 1, is_busy: false, ..BUSY }, seconds(5));
    assert_eq!(run.reasons().iter().filter(|why| **why == Why::Alarms).count(), 3);
    assert_eq!(run.auto.centre(), 8.0);
}

#[test]
fn a_collapse_pulls_the_brake_and_a_false_one_lets_go() {
    // Learns a knee of 40, far above where it began.
    let healthy = Server { knee: 40.0, ..BUSY };
    let mut run = Run::new(from(8), Rhythm::Own);
    run.ticks(healthy, seconds(20));
    let before = run.auto.centre();
    assert!(before > 20.0, "{before}");
    // From now on more than ten at once are worse than one: four times slower, and more.
    run.ticks(Server { knee: 10.0, loss: 0.4, ..BUSY }, seconds(1));
    assert!(run.reasons().contains(&Why::Collapse), "{:?}", run.reasons());
    assert!(run.auto.centre() <= before / 2.0);

    // The same fall, but now because each statement takes eight times as long: fewer slots do not help.
    let mut run = Run::new(from(8), Rhythm::Own);
    run.ticks(healthy, seconds(20));
    let before = run.auto.centre();
    run.ticks(Server { peak: healthy.peak / 8.0, ..healthy }, seconds(3));
    assert!(run.reasons().contains(&Why::BrakeUndone), "{:?}", run.reasons());
    assert!(run.auto.centre() > 0.7 * before, "{} of {before}", run.auto.centre());
}

#[test]
fn longer_statements_are_no_collapse_though_fewer_slots_would_do_for_them() {
    let mut run = Run::new(from(8), Rhythm::Own);
    run.ticks(Server { knee: 40.0, ..BUSY }, seconds(20));
    let before = run.auto.centre();
    // A plateau: as much gets done with half of the slots, and with a quarter.
    run.ticks(Server { peak: BUSY.peak / 8.0, knee: 4.0, loss: 0.0, ..BUSY }, seconds(3));
    assert!(run.reasons().contains(&Why::BrakeUndone), "{:?}", run.reasons());
    assert!(run.auto.centre() > 0.5 * before, "{} of {before}", run.auto.centre());
}

#[test]
fn by_the_clock_a_collapse_pulls_the_brake_whenever_it_begins() {
    let healthy = Server { knee: 40.0, ..BUSY };
    for (begins, loss) in
        (0..25).flat_map(|at| [0.5, 0.6, 0.7, 0.8, 0.9].map(|loss| (20 * at, loss)))
    {
        let mut run = Run::new(from(8), Rhythm::Clock);
        run.ticks(healthy, seconds(40) + Duration::from_millis(begins));
        assert!(run.auto.centre() > 16.0, "{}", run.auto.centre());
        run.ticks(Server { knee: 2.0, loss, ..BUSY }, Duration::from_millis(1500));
        assert!(run.reasons().contains(&Why::Collapse), "{begins} ms, {loss}: {:?}", run.reasons());
    }
}

#[test]
fn a_full_line_of_long_statements_is_no_slack() {
    let mut run = Run::new(WIDE, Rhythm::Own);
    run.ticks(Server { knee: 40.0, ..BUSY }, seconds(20));
    // They get longer, until in each window one ends, or none, which says nothing.
    for peak in [100.0, 2.4] {
        run.ticks(Server { peak, knee: 40.0, ..BUSY }, seconds(20));
    }
    let before = run.auto.centre();
    assert!(before > 20.0, "{before}");
    run.ticks(Server { peak: 0.6, knee: 40.0, ..BUSY }, seconds(60));
    assert!(run.auto.centre() >= before, "{} of {before}", run.auto.centre());
}

#[test]
fn nothing_is_let_in_at_a_server_that_gives_no_slots() {
    let mut run = Run::new(WIDE, Rhythm::Own);
    for _ in 0..1000 {
        run.now += TICK;
        run.auto.tick(run.now, run.seen, Some(0));
    }
    assert_eq!(run.auto.centre(), 16.0);
}

#[test]
fn another_load_makes_it_forget() {
    let mut run = Run::new(WIDE, Rhythm::Own);
    run.ticks(BUSY, seconds(10));
    run.ticks(Server { peak: 2500.0, knee: 30.0, ..BUSY }, seconds(2));
    assert!(run.reasons().contains(&Why::Changed));
    run.ticks(Server { peak: 2500.0, knee: 30.0, ..BUSY }, seconds(10));
    assert!(run.auto.centre() > 20.0, "{}", run.auto.centre());
}

#[test]
fn a_load_that_jumps_all_the_time_is_no_other_one() {
    let wild = Server { scatter: 0.5, ..BUSY };
    let mut run = Run::new(from(4), Rhythm::Own);
    run.ticks(wild, seconds(10));
    let (before, now) = (run.seen.completed, run.now);
    run.ticks(wild, seconds(40));
    let (changes, decisions) = run
        .auto
        .trace()
        .filter(|it| it.at > now)
        .fold((0, 0), |sum, it| (sum.0 + u32::from(it.why == Why::Changed), sum.1 + 1));
    let share = (run.seen.completed - before) as f64 / 40.0 / wild.peak;
    println!("{changes} of {decisions}, {share}, {}", run.auto.centre());
    assert!(20 * changes <= decisions, "{changes} of {decisions}");
    assert!(share > 0.85, "{share}: {}", run.auto.centre());
}

#[test]
fn one_large_jump_is_another_load_and_not_what_is_usual() {
    let mut run = Run::new(from(4), Rhythm::Own);
    run.ticks(Server { peak: 50.0, ..BUSY }, seconds(10));
    // A thousand times as much gets done: what comes next is learnt as fast as at first.
    run.ticks(Server { peak: 50_000.0, knee: 60.0, ..BUSY }, seconds(5));
    assert!(run.auto.centre() > 40.0, "{}", run.auto.centre());
}

#[test]
fn the_clock_tells_all_the_same_side() {
    let (mut one, mut two) = (Run::new(WIDE, Rhythm::Clock), Run::new(WIDE, Rhythm::Clock));
    // The second began a little later.
    one.ticks(BUSY, Duration::from_millis(260));
    two.now = one.now;
    let (mut ups, mut downs) = (0, 0);
    for _ in 0..200 {
        one.ticks(BUSY, TICK);
        two.ticks(BUSY, TICK);
        assert_eq!(one.auto.side, two.auto.side);
        match one.auto.side {
            Side::Up => ups += 1,
            Side::Down => downs += 1,
        }
    }
    assert!(ups > 80 && downs > 80, "{ups} {downs}");
}

#[test]
fn a_clock_that_is_set_back_or_far_ahead_does_no_harm() {
    for rhythm in [Rhythm::Own, Rhythm::Clock] {
        let mut run = Run::new(WIDE, rhythm);
        run.ticks(BUSY, seconds(5));
        run.now -= seconds(100_000);
        run.ticks(BUSY, seconds(5));
        run.now += seconds(1_000_000);
        run.ticks(BUSY, seconds(10));
        let share = BUSY.rate(run.auto.centre()) / BUSY.peak;
        assert!(share > 0.8, "{rhythm:?}: {}", run.auto.centre());
    }
}

#[test]
fn odd_bounds_are_made_sense_of() {
    let bounds = LimitBounds { floor: 9, ceiling: 3, start: 0, rest: 7 };
    let mut run = Run::new(bounds, Rhythm::Own);
    run.ticks(BUSY, seconds(5));
    assert!(run.auto.limit() <= 3);
    let bounds = LimitBounds { floor: 0, ceiling: 0, start: 0, rest: 0 };
    let mut run = Run::new(bounds, Rhythm::Clock);
    run.ticks(BUSY, seconds(5));
    assert_eq!(run.auto.limit(), 1);
}

#[test]
fn the_trace_is_bounded_and_in_order() {
    let mut run = Run::new(WIDE, Rhythm::Own);
    run.ticks(BUSY, seconds(60));
    let times: Vec<_> = run.auto.trace().map(|it| it.at).collect();
    assert_eq!(times.len(), TRACE);
    assert!(times.is_sorted());
}

#[test]
fn counts_may_wrap() {
    let mut seen =
        LimitTotals { busy_squared: u64::MAX - 5, busy: u64::MAX, ..LimitTotals::default() };
    let before = seen;
    seen.add(10, true);
    let some = seen.since(before);
    assert_eq!((some.completed, some.followed, some.busy, some.busy_squared), (1, 1, 10, 100));
    seen.add(u64::MAX, false);
    assert_eq!(seen.since(before).plus(some).completed, 3);
}

/// Everybody inside sleeps, and others wait.
fn stall(run: &mut Run, time: Duration, line: impl Fn(u32) -> Option<u32>) {
    for _ in 0..time.as_millis() / TICK.as_millis() {
        run.now += TICK;
        let line = line(run.auto.limit());
        run.auto.tick(run.now, run.seen, line);
    }
}

#[test]
fn while_nothing_ends_one_more_after_the_other_is_let_in() {
    for rhythm in [Rhythm::Own, Rhythm::Clock] {
        let mut run = Run::new(WIDE, rhythm);
        stall(&mut run, seconds(1), Some);
        assert!((28..=36).contains(&run.auto.limit()), "{}", run.auto.limit());
        assert!(run.reasons().contains(&Why::Stalled));
        stall(&mut run, seconds(60), Some);
        assert_eq!(run.auto.limit(), WIDE.ceiling);
    }
}

#[test]
fn while_nobody_waits_nothing_stalls() {
    let mut run = Run::new(WIDE, Rhythm::Own);
    stall(&mut run, seconds(10), |_| None);
    assert!(!run.reasons().contains(&Why::Stalled));
    assert!(run.auto.limit() <= 18, "{}", run.auto.limit());
}

/// More statements may run than the limit says: those that must not wait do not wait.
#[test]
fn who_is_inside_beyond_the_limit_does_not_keep_others_out() {
    let mut run = Run::new(WIDE, Rhythm::Own);
    stall(&mut run, Duration::from_millis(100), |_| Some(40));
    assert_eq!(run.auto.limit(), 41);
}

#[test]
fn statements_that_stay_for_long_are_given_time() {
    let mut run = Run::new(WIDE, Rhythm::Own);
    let slow = Server { peak: 40.0, ..BUSY };
    run.ticks(slow, seconds(30));
    stall(&mut run, Duration::from_millis(600), Some);
    assert!(!run.reasons().contains(&Why::Stalled), "{:?}", run.reasons());
    stall(&mut run, seconds(3), Some);
    assert!(run.reasons().contains(&Why::Stalled));
}

#[test]
fn what_was_let_in_in_vain_is_given_back() {
    let mut run = Run::new(WIDE, Rhythm::Own);
    run.ticks(BUSY, seconds(20));
    stall(&mut run, seconds(20), Some);
    assert!(run.auto.centre() > 200.0);
    run.ticks(Server { loss: 0.02, ..BUSY }, seconds(20));
    assert!(run.auto.centre() < 24.0, "{}", run.auto.centre());
}

//! Every verdict and its bounds, and the course of trials on machines that are simulated.

use fastrand::Rng;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn starved() -> Look {
    let p99 = Some(Duration::from_millis(4));
    let length = 2 * SECOND;
    Look { length, ran: 0.6, waited: 0.4, idle: 0.12, rate: 45_000.0, p99, ..Look::default() }
}

#[test]
fn each_verdict_has_its_look() {
    let base = starved();
    let looks = [
        (Verdict::Unknown, Look { length: SECOND, ..base }),
        (Verdict::Idle, Look { rate: 3.0, ..base }),
        (Verdict::Stolen, Look { steal: 0.2, ..base }),
        (Verdict::Throttled, Look { throttled: 0.3, ..base }),
        (Verdict::Confined, Look { confined: true, idle: 0.5, ..base }),
        (Verdict::CpuBound, Look { ran: 0.98, waited: 0.01, ..base }),
        (Verdict::Contended, Look { idle: 0.01, ..base }),
        (Verdict::Starved, base),
        (Verdict::StarvedAnyway, Look { batch: true, ..base }),
        (Verdict::Well, Look { ran: 0.4, waited: 0.05, ..base }),
    ];
    assert_eq!(looks.map(|(verdict, _)| verdict), Verdict::ALL);
    for (verdict, look) in looks {
        assert_eq!(Verdict::of(&look), verdict, "{look:?}");
        assert!(!verdict.means().is_empty() && !verdict.name().is_empty());
    }
}

#[test]
fn the_signature_has_sharp_bounds() {
    let base = starved();
    for (change, verdict) in [
        ((0.81, 0.10, 0.2), Verdict::Well),
        ((0.81, 0.11, 0.2), Verdict::Starved),
        ((0.60, 0.30, 0.2), Verdict::Well),
        ((0.60, 0.31, 0.2), Verdict::Starved),
        ((0.60, 0.40, 0.06), Verdict::Contended),
        ((0.60, 0.40, 0.07), Verdict::Starved),
        ((0.95, 0.05, 0.2), Verdict::Well),
        ((0.96, 0.04, 0.2), Verdict::CpuBound),
    ] {
        let (ran, waited, idle) = change;
        assert_eq!(Verdict::of(&Look { ran, waited, idle, ..base }), verdict, "{change:?}");
    }
    let short = Look { length: Duration::from_millis(1899), ..base };
    assert_eq!(Verdict::of(&short), Verdict::Unknown);
}

#[test]
fn who_starves_now_and_then_is_left_alone() {
    let mut placement = Placement::new(Policy::Auto);
    let mut machine = Machine::new(1, 0.0, |_| 2.0);
    for idle in [0.14, 0.14, 0.0, 0.0, 0.0].into_iter().cycle().take(500) {
        machine.look.idle = idle;
        machine.step(&mut placement);
    }
    let seen = placement.told();
    assert!(seen.iter().any(|told| matches!(told, Told::Tries(_))), "it looks closer: {seen:?}");
    assert!(machine.orders.is_empty());
}

#[test]
fn two_looks_are_one_of_both_lengths() {
    let one = Look { length: SECOND, ran: 0.2, idle: 0.3, rate: 10.0, ..starved() };
    let two = Look { length: 3 * SECOND, ran: 0.6, idle: 0.1, rate: 50.0, ..starved() };
    let both = two.with(&one);
    assert_eq!(both.length, 4 * SECOND);
    assert!((both.ran - 0.5).abs() < 1e-9 && (both.idle - 0.15).abs() < 1e-9);
    assert!((both.rate - 40.0).abs() < 1e-9);
    assert_eq!(Look::default().with(&Look::default()).length, Duration::ZERO);
}

/// A machine on which remedies multiply the rate.
struct Machine {
    now: Instant,
    applied: Vec<Remedy>,
    gains: fn(Remedy) -> f64,
    /// What an order of this kind meets.
    refuses: fn(PlacementOrder) -> Done,
    noise: f64,
    random: Rng,
    look: Look,
    orders: Vec<PlacementOrder>,
}

impl Machine {
    fn new(seed: u64, noise: f64, gains: fn(Remedy) -> f64) -> Self {
        Self {
            now: Instant::now(),
            applied: Vec::new(),
            gains,
            refuses: |_| Done::Well,
            noise,
            random: Rng::with_seed(seed),
            look: Look { length: SECOND, ..starved() },
            orders: Vec::new(),
        }
    }

    /// From -1 to 1, the sum of a few: near the middle more often.
    fn draw(&mut self) -> f64 {
        let mut sum = 0.0;
        for _ in 0..4 {
            sum += self.random.f64() - 0.5;
        }
        sum / 2.0
    }

    fn step(&mut self, placement: &mut Placement) {
        self.now += SECOND;
        let gain: f64 = self.applied.iter().map(|it| (self.gains)(*it)).product();
        let wobble = 1.0 + self.noise * self.draw();
        let batch = self.applied.contains(&Remedy::Batch);
        let look = Look { rate: self.look.rate * gain * wobble, batch, ..self.look };
        let Some(order) = placement.see(self.now, &look) else { return };
        self.orders.push(order);
        let done = (self.refuses)(order);
        if done == Done::Well {
            match order {
                PlacementOrder::Apply(remedy) => {
                    assert!(!self.applied.contains(&remedy), "{remedy:?} twice");
                    self.applied.push(remedy);
                }
                PlacementOrder::Undo(remedy) => {
                    assert!(self.applied.contains(&remedy), "{remedy:?} is not there");
                    self.applied.retain(|it| *it != remedy);
                }
            }
        }
        placement.done(self.now, done);
    }

    fn run(&mut self, placement: &mut Placement, seconds: u32) {
        for _ in 0..seconds {
            self.step(placement);
        }
    }
}

fn only_batch(remedy: Remedy) -> f64 {
    if remedy == Remedy::Batch { 1.15 } else { 0.97 }
}

#[test]
fn what_helps_is_tried_before_with_and_before_again_and_then_kept() {
    let mut machine = Machine::new(1, 0.0, only_batch);
    let mut placement = Placement::new(Policy::Auto);
    machine.run(&mut placement, 20);
    let (apply, undo) = (PlacementOrder::Apply(Remedy::Batch), PlacementOrder::Undo(Remedy::Batch));
    assert_eq!(machine.orders[..3], [apply, undo, apply]);
    assert_eq!(placement.kept().next(), Some(Remedy::Batch));
    let told = placement.told();
    assert_eq!(told[..2], [Told::Verdict(Verdict::Starved), Told::Tries(Remedy::Batch)]);
    assert!(told.iter().any(|it| matches!(
        it,
        Told::Proof(Remedy::Batch, Proof::Helped { rate, .. }) if (rate - 1.15).abs() < 1e-9
    )));
}

#[test]
fn what_does_not_help_is_undone_and_the_next_is_tried_and_none_again() {
    let mut machine = Machine::new(1, 0.0, |_| 1.0);
    let mut placement = Placement::new(Policy::Auto);
    machine.run(&mut placement, 600);
    let tried = Remedy::TRIED
        .map(|remedy| [PlacementOrder::Apply(remedy), PlacementOrder::Undo(remedy)])
        .concat();
    assert_eq!(machine.orders, tried);
    assert!(machine.applied.is_empty());
    // After an hour they may be tried again.
    machine.run(&mut placement, 3600);
    assert_eq!(machine.orders.len(), 2 * tried.len());
}

#[test]
fn what_plainly_harms_is_undone_after_one_look() {
    let harm_of = |gain: fn(Remedy) -> f64| {
        let (mut machine, mut placement) =
            (Machine::new(1, 0.1, gain), Placement::new(Policy::Auto));
        let mut seconds = 0;
        for _ in 0..60 {
            seconds += u32::from(machine.applied.contains(&Remedy::Batch));
            machine.step(&mut placement);
        }
        assert!(machine.applied.is_empty(), "{:?}", machine.applied);
        seconds
    };
    // The first look behind the change does not count.
    assert_eq!(harm_of(|_| 0.5), 2);
    assert_eq!(harm_of(|_| 0.9), 5);
}

#[test]
fn one_remedy_is_added_to_another_while_there_is_starvation() {
    let mut machine = Machine::new(1, 0.0, |_| 1.10);
    machine.look.ran = 0.7;
    machine.look.waited = 0.25;
    let mut placement = Placement::new(Policy::Auto);
    machine.run(&mut placement, 60);
    // The workers do not fill a core of their own.
    assert_eq!(machine.applied, [Remedy::Batch, Remedy::Priority]);
    let mut machine = Machine::new(1, 0.0, |_| 1.10);
    machine.look.ran = 0.85;
    machine.look.waited = 0.14;
    let mut placement = Placement::new(Policy::Auto);
    machine.run(&mut placement, 60);
    assert_eq!(machine.applied, Remedy::TRIED);
    // Later they rest: the core is the server's again, and the rest stays.
    machine.look.ran = 0.2;
    machine.look.waited = 0.02;
    machine.run(&mut placement, 20);
    assert_eq!(machine.applied, [Remedy::Batch, Remedy::Priority]);
}

#[test]
fn without_the_signature_nothing_is_touched() {
    for change in [
        (|look: &mut Look| look.idle = 0.02) as fn(&mut Look),
        |look| look.rate = 5.0,
        |look| look.ran = 0.99,
        |look| look.steal = 0.3,
        |look| look.throttled = 0.3,
        |look| look.confined = true,
        |look| (look.ran, look.waited) = (0.3, 0.2),
    ] {
        let mut machine = Machine::new(1, 0.05, |_| 2.0);
        change(&mut machine.look);
        let mut placement = Placement::new(Policy::Auto);
        machine.run(&mut placement, 300);
        assert!(machine.orders.is_empty(), "{:?}", machine.look);
    }
}

#[test]
fn who_starves_only_for_a_moment_is_left_alone() {
    let mut machine = Machine::new(1, 0.0, |_| 2.0);
    let mut placement = Placement::new(Policy::Auto);
    for _ in 0..100 {
        (machine.look.ran, machine.look.waited) = (0.6, 0.4);
        machine.run(&mut placement, 4);
        (machine.look.ran, machine.look.waited) = (0.3, 0.02);
        machine.run(&mut placement, 4);
    }
    assert!(machine.orders.is_empty(), "{:?}", machine.orders);
}

#[test]
fn off_and_observe_touch_nothing() {
    for policy in [Policy::Off, Policy::Observe] {
        let mut machine = Machine::new(1, 0.0, |_| 2.0);
        let mut placement = Placement::new(policy);
        machine.run(&mut placement, 300);
        assert!(machine.orders.is_empty());
        let verdict = if policy == Policy::Off { Verdict::Unknown } else { Verdict::Starved };
        assert_eq!(placement.verdict(), verdict);
    }
}

#[test]
fn a_fixed_policy_is_carried_out_at_once_and_again_for_a_new_server() {
    let mut machine = Machine::new(1, 0.0, |_| 0.5);
    machine.look.rate = 0.0;
    let mut placement = Placement::new(Policy::Fixed(Remedy::PrivateCore));
    machine.run(&mut placement, 7200);
    assert_eq!(machine.orders, [PlacementOrder::Apply(Remedy::PrivateCore)]);
    machine.applied.clear();
    placement.server_is_new();
    machine.run(&mut placement, 5);
    assert_eq!(machine.orders.len(), 2);
    // One that is refused is not asked for every second.
    let mut placement = Placement::new(Policy::Fixed(Remedy::Priority));
    let mut machine = Machine::new(1, 0.0, |_| 1.0);
    machine.refuses = |_| Done::Refused;
    machine.run(&mut placement, 3000);
    assert_eq!(machine.orders.len(), 1);
}

#[test]
fn a_remedy_that_is_refused_gives_way_to_the_next() {
    let mut machine = Machine::new(1, 0.0, |_| 1.2);
    machine.refuses = |order| match order {
        PlacementOrder::Apply(Remedy::Batch) => Done::Refused,
        _ => Done::Well,
    };
    let mut placement = Placement::new(Policy::Auto);
    machine.run(&mut placement, 40);
    assert_eq!(machine.applied, [Remedy::Priority]);
    assert_eq!(
        machine.orders.iter().filter(|it| **it == PlacementOrder::Apply(Remedy::Batch)).count(),
        1
    );
}

#[test]
fn what_cannot_be_undone_ends_all_trying() {
    for stuck in [Done::Stuck, Done::Refused] {
        let mut machine = Machine::new(1, 0.0, |_| 1.0);
        machine.refuses = match stuck {
            Done::Stuck => {
                |it| if matches!(it, PlacementOrder::Undo(_)) { Done::Stuck } else { Done::Well }
            }
            _ => {
                |it| if matches!(it, PlacementOrder::Undo(_)) { Done::Refused } else { Done::Well }
            }
        };
        let mut placement = Placement::new(Policy::Auto);
        machine.run(&mut placement, 5000);
        assert_eq!(machine.orders.len(), 2, "{:?}", machine.orders);
    }
}

#[test]
fn what_is_kept_has_to_prove_itself_again() {
    let mut machine = Machine::new(1, 0.0, only_batch);
    let mut placement = Placement::new(Policy::Auto);
    machine.run(&mut placement, 30);
    assert_eq!(machine.applied, [Remedy::Batch]);
    // The load becomes one that it harms.
    machine.gains = |_| 0.96;
    machine.run(&mut placement, 3000);
    assert!(machine.applied.is_empty());
    assert_eq!(machine.orders.last(), Some(&PlacementOrder::Undo(Remedy::Batch)));
}

#[test]
fn a_load_that_changes_meanwhile_proves_nothing() {
    let mut machine = Machine::new(1, 0.0, |_| 1.0);
    let mut placement = Placement::new(Policy::Auto);
    while machine.orders.is_empty() {
        machine.step(&mut placement);
    }
    machine.look.rate *= 1.6;
    machine.run(&mut placement, 12);
    assert!(machine.applied.is_empty());
    assert!(placement.told().contains(&Told::Proof(Remedy::Batch, Proof::Unsteady)));
    // A minute later it has another chance.
    machine.gains = only_batch;
    machine.run(&mut placement, 120);
    assert_eq!(machine.applied, [Remedy::Batch]);
}

#[test]
fn a_server_that_is_new_in_the_middle_of_a_trial_begins_at_the_beginning() {
    let mut machine = Machine::new(1, 0.0, only_batch);
    let mut placement = Placement::new(Policy::Auto);
    while machine.orders.is_empty() {
        machine.step(&mut placement);
    }
    machine.applied.clear();
    placement.server_is_new();
    assert_eq!(placement.on_trial(), None);
    machine.run(&mut placement, 30);
    assert_eq!(machine.applied, [Remedy::Batch]);
}

/// How many of two hundred machines keep the first remedy after so many seconds, under noise.
fn kept_of_200(seconds: u32, noise: f64, gain: fn(Remedy) -> f64) -> usize {
    let is_kept = |seed: &u64| {
        let mut machine = Machine::new(*seed, noise, gain);
        let mut placement = Placement::new(Policy::Auto);
        machine.run(&mut placement, seconds);
        machine.applied.contains(&Remedy::Batch)
    };
    (1..=200).filter(is_kept).count()
}

#[test]
fn noise_is_seldom_taken_for_a_gain_and_gains_are_seldom_missed() {
    let (short, long) = (18, 120);
    for noise in [0.02, 0.05, 0.10, 0.20, 0.40] {
        for seconds in [short, long] {
            let false_ones = kept_of_200(seconds, noise, |_| 1.0);
            assert!(false_ones <= 8, "{noise}: {false_ones} of 200 without a gain");
        }
    }
    for noise in [0.02, 0.05, 0.10] {
        let found = kept_of_200(short, noise, |_| 1.12);
        assert!(found >= 195, "{noise}: {found} of 200 with a gain of 12 %");
        let harmful = kept_of_200(long, noise, |_| 0.96);
        assert_eq!(harmful, 0, "{noise}: with a loss of 4 %");
    }
    // What scatter hides is found with more looks.
    for (noise, gain) in [(0.20, (|_| 1.12) as fn(Remedy) -> f64), (0.40, |_| 1.28)] {
        let [first, last] = [short, long].map(|seconds| kept_of_200(seconds, noise, gain));
        assert!(first < 150 && last >= 185, "{noise}: {first} of 200, then {last}");
    }
}

#[test]
fn a_shorter_tail_at_the_same_rate_is_a_gain_and_a_much_longer_one_is_none() {
    let run = |tail: u64, rate: f64| {
        let mut machine = Machine::new(3, 0.0, |_| 1.0);
        let mut placement = Placement::new(Policy::Auto);
        for _ in 0..18 {
            let is_applied = machine.applied.contains(&Remedy::Batch);
            let tail = if is_applied { tail } else { 4000 };
            machine.look.p99 = Some(Duration::from_micros(tail));
            machine.look.rate = if is_applied { 45_000.0 * rate } else { 45_000.0 };
            machine.step(&mut placement);
        }
        machine.applied.contains(&Remedy::Batch)
    };
    assert!(run(2500, 1.0) && run(6000, 1.1));
    assert!(!run(3500, 1.0) && !run(2500, 0.9) && !run(12_000, 1.1));
}

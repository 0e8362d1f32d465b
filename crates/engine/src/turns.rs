//! What a worker's loop sees of itself: how long its turns are, how much of them it was not let run, how much it found
//! ready, and what share of time it wanted a CPU and had none.
//!
//! A turn lasts from waking until nothing is ready. Clocks are read by the loop; here they are arguments. The clock of
//! the thread's CPU time is a system call that costs as much as a small part of a statement: it is asked for behind a
//! long turn, in which something may have been stolen, and else behind every sixteenth. Invariants: nothing that is
//! told goes back; a clock that jumps back takes no time.

use std::time::{Duration, Instant};

/// Everything since the worker began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopTotals {
    pub turns: u64,
    /// The lengths of all turns.
    pub busy: Duration,
    /// Of that, what the thread did not run: another thread had its CPU.
    pub stolen: Duration,
    /// Turns of which other threads had [`NOTABLE`] or more.
    pub interrupted: u64,
    /// Sockets that were ready, of all turns.
    pub ready: u64,
    /// The kernel's account of the thread.
    pub schedule: Schedule,
}

/// What the kernel says of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    pub ran: Duration,
    /// Runnable, and without a CPU.
    pub waited: Duration,
}

/// What is told of the recent past: of the last one to two spans that [`Turns::close`] has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Recent {
    /// Shares of time.
    pub ran: f64,
    pub waited: f64,
    pub longest: Duration,
    /// The most sockets that were ready at once.
    pub ready_max: u32,
}

/// One worker's account.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    totals: LoopTotals,
    woke: Option<Instant>,
    /// The thread's CPU time when it was asked for last, and the turns since.
    cpu: Option<Duration>,
    since: Duration,
    count: u32,
    ready: u32,
    closed: Option<Instant>,
    recent: Recent,
    longest: Duration,
    ready_max: u32,
}

/// In a shorter turn nothing was stolen that would be noticed.
pub const LONG: Duration = Duration::from_micros(200);
/// Behind so many turns the thread's clock is read in any case.
pub const TURNS_MAX: u32 = 16;
/// Less than this is a cache that was cold, or an interrupt.
const NOTABLE: Duration = Duration::from_micros(500);

impl Turns {
    /// A turn begins.
    pub fn wake(&mut self, now: Instant) {
        self.woke = Some(now);
        self.ready = 0;
    }

    /// A socket was ready.
    pub fn see_ready(&mut self) {
        self.ready = self.ready.saturating_add(1);
    }

    /// A turn ends. `cpu` is what the thread has used since it began; it is asked for only where it is needed.
    pub fn rest(&mut self, now: Instant, cpu: impl FnOnce() -> Duration) {
        let Some(woke) = self.woke.take() else { return };
        let length = now.saturating_duration_since(woke);
        self.totals.turns += 1;
        self.totals.busy += length;
        self.totals.ready += u64::from(self.ready);
        self.longest = self.longest.max(length);
        self.ready_max = self.ready_max.max(self.ready);
        self.since += length;
        self.count += 1;
        if LONG <= length || TURNS_MAX <= self.count || self.cpu.is_none() {
            self.settle(cpu());
        }
    }

    /// Compares the turns since it was asked for last with what the thread has used.
    fn settle(&mut self, cpu: Duration) {
        if let Some(before) = self.cpu {
            // What it used also holds its going to sleep and waking: so much less seems stolen.
            let stolen = self.since.saturating_sub(cpu.saturating_sub(before));
            self.totals.stolen += stolen;
            self.totals.interrupted += u64::from(NOTABLE <= stolen);
        }
        self.cpu = Some(self.cpu.map_or(cpu, |before| before.max(cpu)));
        (self.since, self.count) = (Duration::ZERO, 0);
    }

    /// Ends a span of the recent past. `schedule` is the kernel's account, if it keeps one.
    pub fn close(&mut self, now: Instant, schedule: Option<Schedule>) {
        let span = self.closed.map_or(Duration::ZERO, |it| now.saturating_duration_since(it));
        let before = self.totals.schedule;
        let schedule = schedule.map_or(before, |it| Schedule {
            ran: it.ran.max(before.ran),
            waited: it.waited.max(before.waited),
        });
        let share = |time: Duration| {
            if span.is_zero() { 0.0 } else { (time.as_secs_f64() / span.as_secs_f64()).min(1.0) }
        };
        self.recent = Recent {
            ran: share(schedule.ran.saturating_sub(before.ran)),
            waited: share(schedule.waited.saturating_sub(before.waited)),
            longest: self.longest,
            ready_max: self.ready_max,
        };
        (self.longest, self.ready_max) = (Duration::ZERO, 0);
        self.totals.schedule = schedule;
        self.closed = Some(now);
    }

    pub const fn totals(&self) -> LoopTotals {
        self.totals
    }

    /// Of the span that was closed last, and of what has come since.
    pub fn recent(&self) -> Recent {
        Recent {
            longest: self.recent.longest.max(self.longest),
            ready_max: self.recent.ready_max.max(self.ready_max),
            ..self.recent
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A turn of so many microseconds, behind which the thread has used so many in all.
    fn turn(turns: &mut Turns, at: Instant, micros: u64, cpu: u64) {
        turns.wake(at);
        turns.rest(at + Duration::from_micros(micros), || Duration::from_micros(cpu));
    }

    #[test]
    fn what_the_thread_did_not_run_of_a_turn_was_stolen() {
        let (mut turns, begin) = (Turns::default(), Instant::now());
        turns.rest(begin, || panic!("no turn has begun"));
        turn(&mut turns, begin, 50, 1000);
        turns.wake(begin);
        turns.see_ready();
        turns.see_ready();
        turns.rest(begin + 5 * MS, || 3 * MS);
        turn(&mut turns, begin, 1000, 4100);
        let totals = turns.totals();
        let micros = Duration::from_micros(6050);
        assert_eq!((totals.turns, totals.busy, totals.stolen), (3, micros, 3 * MS));
        assert_eq!((totals.interrupted, totals.ready), (1, 2));
        let recent = turns.recent();
        assert_eq!((recent.longest, recent.ready_max), (5 * MS, 2));
    }

    #[test]
    fn behind_short_turns_the_costly_clock_is_seldom_asked() {
        let (mut turns, begin) = (Turns::default(), Instant::now());
        let mut asked = 0;
        for at in 0..160_u64 {
            turns.wake(begin);
            turns.rest(begin + Duration::from_micros(50), || {
                asked += 1;
                Duration::from_micros(40 * (at + 1))
            });
        }
        assert_eq!(asked, 10, "the first, and each sixteenth of the others");
        // What a tenth of the time went to is found all the same.
        let stolen = turns.totals().stolen.as_micros();
        assert!((1400..=1600).contains(&stolen), "{stolen}");
        assert_eq!(turns.totals().interrupted, 0);
        // A long turn is looked at by itself.
        turn(&mut turns, begin, 1200, 40 * 170);
        assert_eq!(turns.totals().interrupted, 1);
    }

    #[test]
    fn clocks_that_go_back_take_no_time() {
        let (mut turns, begin) = (Turns::default(), Instant::now());
        turn(&mut turns, begin, 50, 5000);
        turns.wake(begin + 5 * MS);
        turns.rest(begin, || 3 * MS);
        turns.wake(begin + 5 * MS);
        turns.rest(begin + 6 * MS, || MS);
        let totals = turns.totals();
        assert_eq!((totals.turns, totals.stolen), (3, MS));
        assert_eq!(totals.busy, MS + Duration::from_micros(50));
    }

    #[test]
    fn shares_are_of_the_span_that_was_closed() {
        let (mut turns, begin) = (Turns::default(), Instant::now());
        let schedule = |ran, waited| Some(Schedule { ran: ran * MS, waited: waited * MS });
        turns.close(begin, schedule(500, 100));
        assert_eq!(turns.recent().ran, 0.0, "what came before is of no span");
        turns.close(begin + 1000 * MS, schedule(1100, 500));
        let recent = turns.recent();
        assert!((recent.ran - 0.6).abs() < 1e-9 && (recent.waited - 0.4).abs() < 1e-9);
        // A kernel that keeps no such account tells nothing, and takes nothing back.
        turns.close(begin + 2000 * MS, None);
        assert_eq!(turns.recent().waited, 0.0);
        assert_eq!(turns.totals().schedule, schedule(1100, 500).expect("is one"));
    }

    #[test]
    fn the_longest_turn_is_forgotten_after_two_spans() {
        let (mut turns, begin) = (Turns::default(), Instant::now());
        turns.wake(begin);
        turns.rest(begin + 7 * MS, || MS);
        turns.close(begin + 8 * MS, None);
        assert_eq!(turns.recent().longest, 7 * MS);
        turns.close(begin + 9 * MS, None);
        assert_eq!(turns.recent().longest, Duration::ZERO);
    }
}

//! What a worker's loop sees of itself: how long its iterations are, how much of them it was not let run, how much it found
//! ready, and what share of time it wanted a CPU and had none.
//!
//! An iteration lasts from waking until nothing is ready. Clocks are read by the loop; here they are arguments. The clock of
//! the thread's CPU time is a system call that costs as much as a small part of a statement: it is asked for behind a
//! long iteration, in which something may have been stolen, and else behind every sixteenth. Invariants: nothing that is
//! told goes back; a clock that jumps back takes no time.

use std::time::{Duration, Instant};

/// Everything since the worker began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopTotals {
    pub iterations: u64,
    /// The lengths of all iterations.
    pub busy: Duration,
    /// Of that, what the thread did not run: another thread had its CPU.
    pub stolen: Duration,
    /// Iterations of which other threads had [`NOTABLE`] or more.
    pub interrupted: u64,
    /// Sockets that were ready, of all iterations.
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

/// What is told of the recent past: of the last one to two spans that [`Iterations::close`] has ended.
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
pub struct Iterations {
    totals: LoopTotals,
    woke: Option<Instant>,
    /// The thread's CPU time when it was asked for last, and the iterations since.
    cpu: Option<Duration>,
    since: Duration,
    count: u32,
    ready: u32,
    closed: Option<Instant>,
    recent: Recent,
    longest: Duration,
    ready_max: u32,
}

/// In a shorter iteration nothing was stolen that would be noticed.
pub const LONG: Duration = Duration::from_micros(200);
/// Behind so many iterations the thread's clock is read in any case.
pub const ITERATIONS_MAX: u32 = 16;
/// Less than this is a cache that was cold, or an interrupt.
const NOTABLE: Duration = Duration::from_micros(500);

impl Iterations {
    /// An iteration begins.
    pub fn wake(&mut self, now: Instant) {
        self.woke = Some(now);
        self.ready = 0;
    }

    /// A socket was ready.
    pub fn see_ready(&mut self) {
        self.ready = self.ready.saturating_add(1);
    }

    /// An iteration ends. `cpu` is what the thread has used since it began; it is asked for only where it is needed.
    pub fn rest(&mut self, now: Instant, cpu: impl FnOnce() -> Duration) {
        let Some(woke) = self.woke.take() else { return };
        let length = now.saturating_duration_since(woke);
        self.totals.iterations += 1;
        self.totals.busy += length;
        self.totals.ready += u64::from(self.ready);
        self.longest = self.longest.max(length);
        self.ready_max = self.ready_max.max(self.ready);
        self.since += length;
        self.count += 1;
        if LONG <= length || ITERATIONS_MAX <= self.count || self.cpu.is_none() {
            self.settle(cpu());
        }
    }

    /// Compares the iterations since it was asked for last with what the thread has used.
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

    /// An iteration of so many microseconds, behind which the thread has used so many in all.
    fn iteration(iterations: &mut Iterations, at: Instant, micros: u64, cpu: u64) {
        iterations.wake(at);
        iterations.rest(at + Duration::from_micros(micros), || Duration::from_micros(cpu));
    }

    #[test]
    fn what_the_thread_did_not_run_of_an_iteration_was_stolen() {
        let (mut iterations, begin) = (Iterations::default(), Instant::now());
        iterations.rest(begin, || panic!("no iteration has begun"));
        iteration(&mut iterations, begin, 50, 1000);
        iterations.wake(begin);
        iterations.see_ready();
        iterations.see_ready();
        iterations.rest(begin + 5 * MS, || 3 * MS);
        iteration(&mut iterations, begin, 1000, 4100);
        let totals = iterations.totals();
        let micros = Duration::from_micros(6050);
        assert_eq!((totals.iterations, totals.busy, totals.stolen), (3, micros, 3 * MS));
        assert_eq!((totals.interrupted, totals.ready), (1, 2));
        let recent = iterations.recent();
        assert_eq!((recent.longest, recent.ready_max), (5 * MS, 2));
    }

    #[test]
    fn behind_short_iterations_the_costly_clock_is_seldom_asked() {
        let (mut iterations, begin) = (Iterations::default(), Instant::now());
        let mut asked = 0;
        for at in 0..160_u64 {
            iterations.wake(begin);
            iterations.rest(begin + Duration::from_micros(50), || {
                asked += 1;
                Duration::from_micros(40 * (at + 1))
            });
        }
        assert_eq!(asked, 10, "the first, and each sixteenth of the others");
        // What a tenth of the time went to is found all the same.
        let stolen = iterations.totals().stolen.as_micros();
        assert!((1400..=1600).contains(&stolen), "{stolen}");
        assert_eq!(iterations.totals().interrupted, 0);
        // A long iteration is looked at by itself.
        iteration(&mut iterations, begin, 1200, 40 * 170);
        assert_eq!(iterations.totals().interrupted, 1);
    }

    #[test]
    fn clocks_that_go_back_take_no_time() {
        let (mut iterations, begin) = (Iterations::default(), Instant::now());
        iteration(&mut iterations, begin, 50, 5000);
        iterations.wake(begin + 5 * MS);
        iterations.rest(begin, || 3 * MS);
        iterations.wake(begin + 5 * MS);
        iterations.rest(begin + 6 * MS, || MS);
        let totals = iterations.totals();
        assert_eq!((totals.iterations, totals.stolen), (3, MS));
        assert_eq!(totals.busy, MS + Duration::from_micros(50));
    }

    #[test]
    fn shares_are_of_the_span_that_was_closed() {
        let (mut iterations, begin) = (Iterations::default(), Instant::now());
        let schedule = |ran, waited| Some(Schedule { ran: ran * MS, waited: waited * MS });
        iterations.close(begin, schedule(500, 100));
        assert_eq!(iterations.recent().ran, 0.0, "what came before is of no span");
        iterations.close(begin + 1000 * MS, schedule(1100, 500));
        let recent = iterations.recent();
        assert!((recent.ran - 0.6).abs() < 1e-9 && (recent.waited - 0.4).abs() < 1e-9);
        // A kernel that keeps no such account tells nothing, and takes nothing back.
        iterations.close(begin + 2000 * MS, None);
        assert_eq!(iterations.recent().waited, 0.0);
        assert_eq!(iterations.totals().schedule, schedule(1100, 500).expect("is one"));
    }

    #[test]
    fn the_longest_iteration_is_forgotten_after_two_spans() {
        let (mut iterations, begin) = (Iterations::default(), Instant::now());
        iterations.wake(begin);
        iterations.rest(begin + 7 * MS, || MS);
        iterations.close(begin + 8 * MS, None);
        assert_eq!(iterations.recent().longest, 7 * MS);
        iterations.close(begin + 9 * MS, None);
        assert_eq!(iterations.recent().longest, Duration::ZERO);
    }
}

//! What a worker has done with one server: counted where it happens, told by [`crate::dispatch::report`].
//!
//! Owned by the worker and touched by its thread alone; counting costs an addition. What all workers have in the queue
//! of a server is a number of the server's own ([`crate::cluster::queue_length`]).

use std::cell::Cell;
use std::time::Duration;

use crate::worker::counters::Counter;

/// The figures of one worker and one server.
#[derive(Debug, Default)]
pub(crate) struct ServerTraffic {
    /// Bytes that were sent to the server, and those that came from it.
    pub(crate) sent: Counter,
    pub(crate) received: Counter,
    pub(crate) opened: Counter,
    pub(crate) failed: Counter,
    /// Statements whose connection was lost before they were answered.
    pub(crate) lost: Counter,
    /// Errors that the server has answered clients with.
    pub(crate) errors: Counter,
    /// Commands of clients that were answered.
    pub(crate) answered: Counter,
    run: Cell<Duration>,
    waited: Cell<Duration>,
    run_max: Cell<Duration>,
    waited_max: Cell<Duration>,
}

/// The same, as it is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TrafficReport {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) opened: u64,
    pub(crate) failed: u64,
    pub(crate) lost: u64,
    pub(crate) errors: u64,
    pub(crate) answered: u64,
    pub(crate) run: Duration,
    pub(crate) waited: Duration,
    pub(crate) run_max: Duration,
    pub(crate) waited_max: Duration,
}

impl ServerTraffic {
    /// A client's command was answered, which has waited and run for so long.
    pub(crate) fn answer(&self, run: Duration, waited: Duration) {
        self.answered.add(1);
        self.run.set(self.run.get() + run);
        self.waited.set(self.waited.get() + waited);
        self.run_max.set(self.run_max.get().max(run));
        self.waited_max.set(self.waited_max.get().max(waited));
    }

    pub(crate) fn told(&self) -> TrafficReport {
        TrafficReport {
            sent: self.sent.get(),
            received: self.received.get(),
            opened: self.opened.get(),
            failed: self.failed.get(),
            lost: self.lost.get(),
            errors: self.errors.get(),
            answered: self.answered.get(),
            run: self.run.get(),
            waited: self.waited.get(),
            run_max: self.run_max.get(),
            waited_max: self.waited_max.get(),
        }
    }
}

impl TrafficReport {
    /// What two workers have done together.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            sent: self.sent + other.sent,
            received: self.received + other.received,
            opened: self.opened + other.opened,
            failed: self.failed + other.failed,
            lost: self.lost + other.lost,
            errors: self.errors + other.errors,
            answered: self.answered + other.answered,
            run: self.run + other.run,
            waited: self.waited + other.waited,
            run_max: self.run_max.max(other.run_max),
            waited_max: self.waited_max.max(other.waited_max),
        }
    }

    /// The mean time of a command in the server.
    pub(crate) fn mean_run(&self) -> Duration {
        mean(self.run, self.answered)
    }

    /// The mean time that a command has waited before.
    pub(crate) fn mean_waited(&self) -> Duration {
        mean(self.waited, self.answered)
    }
}

fn mean(sum: Duration, count: u64) -> Duration {
    sum.checked_div(u32::try_from(count).unwrap_or(u32::MAX)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_told_and_added_up() {
        let ms = Duration::from_millis;
        let (one, two) = (ServerTraffic::default(), ServerTraffic::default());
        one.answer(ms(4), ms(1));
        two.answer(ms(8), ms(0));
        two.sent.add(7);
        let both = one.told().plus(two.told());
        assert_eq!((both.answered, both.sent), (2, 7));
        assert_eq!((both.mean_run(), both.run_max), (ms(6), ms(8)));
        assert_eq!((both.mean_waited(), both.waited_max), (Duration::from_micros(500), ms(1)));
        assert_eq!(TrafficReport::default().mean_run(), Duration::ZERO);
    }
}

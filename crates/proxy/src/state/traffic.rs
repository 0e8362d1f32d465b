//! What a worker has done with one server: counted where it happens, told by [`crate::upkeep::report`].
//!
//! Owned by the worker and touched by its thread alone; counting costs an addition. What all workers have in the queue
//! of a server is a number of the server's own ([`crate::cluster::queue_length`]).

use std::cell::{Cell, RefCell};
use std::time::Duration;

use view::histogram::Histogram;

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
    /// How long commands of clients have run that were answered, and how long they have waited before, as far as that is
    /// known.
    pub(crate) run: RefCell<Histogram>,
    pub(crate) waited: RefCell<Histogram>,
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
    /// Those of which it is known how long they have waited.
    known_waits: u64,
    pub(crate) waited: Duration,
    pub(crate) run_max: Duration,
    pub(crate) waited_max: Duration,
}

impl ServerTraffic {
    /// A client's command was answered, which has waited and run for so long.
    pub(crate) fn answer(&self, run: Duration, waited: Option<Duration>) {
        self.run.borrow_mut().add(run);
        self.run_max.set(self.run_max.get().max(run));
        if let Some(waited) = waited {
            self.waited.borrow_mut().add(waited);
            self.waited_max.set(self.waited_max.get().max(waited));
        }
    }

    pub(crate) fn told(&self) -> TrafficReport {
        let (run, waited) = (self.run.borrow(), self.waited.borrow());
        TrafficReport {
            sent: self.sent.get(),
            received: self.received.get(),
            opened: self.opened.get(),
            failed: self.failed.get(),
            lost: self.lost.get(),
            errors: self.errors.get(),
            answered: run.count(),
            run: run.sum(),
            known_waits: waited.count(),
            waited: waited.sum(),
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
            known_waits: self.known_waits + other.known_waits,
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
        mean(self.waited, self.known_waits)
    }
}

/// One of these, of all servers together.
pub(crate) fn of_all<'a>(
    all: impl Iterator<Item = &'a ServerTraffic>,
    of: impl Fn(&ServerTraffic) -> &RefCell<Histogram>,
) -> Histogram {
    let mut sum = Histogram::default();
    all.for_each(|one| sum.merge(&of(one).borrow()));
    sum
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
        one.answer(ms(4), Some(ms(1)));
        two.answer(ms(8), Some(ms(0)));
        two.answer(ms(6), None);
        two.sent.add(7);
        let both = one.told().plus(two.told());
        assert_eq!((both.answered, both.sent), (3, 7));
        assert_eq!((both.mean_run(), both.run_max), (ms(6), ms(8)));
        assert_eq!((both.mean_waited(), both.waited_max), (Duration::from_micros(500), ms(1)));
        assert_eq!(TrafficReport::default().mean_run(), Duration::ZERO);
    }
}

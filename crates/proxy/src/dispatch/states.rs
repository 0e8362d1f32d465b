//! What each client and each backend of a worker is doing, and how many are doing each.
//!
//! A state is changed in one place, [`Counted::change`], which knows the steps that are allowed and keeps the counts
//! that the console and the metrics show. Invariant: the counts of a worker's clients and backends are those that a
//! look at each of them would find ([`crate::dispatch::report`] takes that look in debug builds).

use std::cell::Cell;

/// What a client is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientState {
    /// It may send a command.
    Reading,
    /// Its long command waits until there is room for it; see [`crate::dispatch::large_commands`].
    AwaitingMemory,
    /// Its command waits in the queue for a slot or a backend.
    Queued,
    /// Its backend is being told what its command needs.
    Preparing,
    /// The server works, or answers.
    Running,
    /// The run of another client's statement, which is the same, answers its own.
    Sharing,
    /// It has still to take the end of a reply.
    Writing,
    /// It is on its way to the Flifo that takes over; see [`crate::dispatch::departure`].
    Departing,
    /// It is gone, or Flifo has ended it. It does nothing else any more.
    Leaving,
}

/// What a backend is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BackendState {
    /// Any client that fits may have it.
    Idle,
    /// Its client keeps it, and runs nothing on it.
    Held,
    /// It is told or asked something for a client.
    Preparing,
    /// A client's statement runs on it.
    Busy,
    /// It answers what Flifo has asked it, or a statement whose client is gone: no client has it.
    Draining,
    /// Its session is reset.
    Resetting,
    /// It is closed.
    Closing,
}

impl ClientState {
    /// In the order of their numbers, with the names that the console and the metrics use.
    pub(crate) const ALL: [(Self, &'static str); 9] = [
        (Self::Reading, "reading"),
        (Self::AwaitingMemory, "awaiting_memory"),
        (Self::Queued, "queued"),
        (Self::Preparing, "preparing"),
        (Self::Running, "running"),
        (Self::Sharing, "sharing"),
        (Self::Writing, "writing"),
        (Self::Departing, "departing"),
        (Self::Leaving, "leaving"),
    ];

    pub(crate) const fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

impl BackendState {
    /// In the order of their numbers, with their names.
    pub(crate) const ALL: [(Self, &'static str); 7] = [
        (Self::Idle, "idle"),
        (Self::Held, "held"),
        (Self::Preparing, "preparing"),
        (Self::Busy, "busy"),
        (Self::Draining, "draining"),
        (Self::Resetting, "resetting"),
        (Self::Closing, "closing"),
    ];
}

/// A state whose bearers are counted in each thread.
pub(crate) trait State: Copy + PartialEq + std::fmt::Debug + 'static {
    /// No other state follows it.
    const LAST: Self;

    /// Whether this other state may follow it.
    fn may_become(self, next: Self) -> bool;

    /// How many are in this state.
    fn count(self, counts: &Counts) -> &Cell<u32>;
}

impl State for ClientState {
    const LAST: Self = Self::Leaving;

    fn may_become(self, next: Self) -> bool {
        match self {
            Self::Leaving => false,
            Self::Writing => matches!(next, Self::Reading | Self::Leaving),
            // There is room for its command, or it is refused.
            Self::AwaitingMemory => matches!(next, Self::Reading | Self::Writing | Self::Leaving),
            Self::Reading => true,
            // It has arrived, or stays here.
            Self::Departing => matches!(next, Self::Reading | Self::Leaving),
            Self::Preparing | Self::Running => {
                !matches!(next, Self::AwaitingMemory | Self::Departing)
            }
            Self::Queued => next != Self::AwaitingMemory,
            Self::Sharing => !matches!(next, Self::AwaitingMemory | Self::Departing),
        }
    }

    fn count(self, counts: &Counts) -> &Cell<u32> {
        &counts.clients[self as usize]
    }
}

impl State for BackendState {
    const LAST: Self = Self::Closing;

    fn may_become(self, _: Self) -> bool {
        self != Self::LAST
    }

    fn count(self, counts: &Counts) -> &Cell<u32> {
        &counts.backends[self as usize]
    }
}

/// How many are in each state.
#[derive(Default)]
pub(crate) struct Counts {
    clients: [Cell<u32>; ClientState::ALL.len()],
    backends: [Cell<u32>; BackendState::ALL.len()],
}

thread_local! {
    /// A worker is a thread, and its clients and backends stay in it.
    static COUNTS: Counts = Counts::default();
}

/// How many of this worker's clients and backends are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StateCounts {
    pub(crate) clients: [u32; ClientState::ALL.len()],
    pub(crate) backends: [u32; BackendState::ALL.len()],
}

impl StateCounts {
    /// Of several workers.
    pub(crate) fn sum(counts: impl Iterator<Item = Self>) -> Self {
        counts.fold(Self::default(), |one, two| Self {
            clients: std::array::from_fn(|at| one.clients[at] + two.clients[at]),
            backends: std::array::from_fn(|at| one.backends[at] + two.backends[at]),
        })
    }

    /// Of the thread that asks.
    pub(crate) fn now() -> Self {
        COUNTS.with(|counts| Self {
            clients: std::array::from_fn(|at| counts.clients[at].get()),
            backends: std::array::from_fn(|at| counts.backends[at].get()),
        })
    }
}

/// The state of one client or backend, which is counted as long as that lives.
#[derive(Debug)]
pub(crate) struct Counted<S: State>(Cell<S>);

impl<S: State> Counted<S> {
    pub(crate) fn new(state: S) -> Self {
        COUNTS.with(|counts| state.count(counts).update(|count| count + 1));
        Self(Cell::new(state))
    }

    pub(crate) fn get(&self) -> S {
        self.0.get()
    }

    /// Passes to another state. The last state stays: what would change it comes too late.
    pub(crate) fn change(&self, next: S) {
        let state = self.0.get();
        if state == next || state == S::LAST {
            return;
        }
        debug_assert!(state.may_become(next), "{state:?} becomes {next:?}");
        COUNTS.with(|counts| {
            state.count(counts).update(|count| count - 1);
            next.count(counts).update(|count| count + 1);
        });
        self.0.set(next);
    }
}

impl<S: State> Drop for Counted<S> {
    fn drop(&mut self) {
        COUNTS.with(|counts| self.0.get().count(counts).update(|count| count - 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_the_numbers_of_their_names() {
        assert!(ClientState::ALL.iter().enumerate().all(|(at, (state, _))| *state as usize == at));
        assert!(BackendState::ALL.iter().enumerate().all(|(at, (state, _))| *state as usize == at));
    }

    #[test]
    fn each_change_is_counted_and_the_last_state_stays() {
        let begin = StateCounts::now();
        let (one, two) = (Counted::new(ClientState::Reading), Counted::new(ClientState::Reading));
        one.change(ClientState::Queued);
        one.change(ClientState::Running);
        two.change(ClientState::Leaving);
        two.change(ClientState::Reading);
        assert_eq!(two.get(), ClientState::Leaving, "it comes too late");
        let mut counts = [0; ClientState::ALL.len()];
        counts[ClientState::Running as usize] = 1;
        counts[ClientState::Leaving as usize] = 1;
        assert_eq!(StateCounts::now().clients, counts);
        drop((one, two));
        assert_eq!(StateCounts::now(), begin);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "Writing becomes Running")]
    fn a_step_that_is_not_allowed_is_a_fault() {
        let client = Counted::new(ClientState::Writing);
        client.change(ClientState::Running);
    }
}

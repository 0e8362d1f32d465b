//! What each client and each backend of a worker is doing, and how many are doing each.
//!
//! What belongs to a client's state is in [`crate::state::doing`]. A backend's state is kept nowhere: it is what its parts
//! make it ([`crate::state::backend::Backend::state`]). They are counted when someone looks.

/// What a client is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientState {
    /// It may send a command.
    Reading,
    /// Its long command waits until there is room for it; see [`crate::road::large_commands`].
    AwaitingMemory,
    /// Its command waits in the queue for a slot or a backend.
    Queued,
    /// Its command waits until a server can take it; see [`crate::upkeep::stranded`].
    Stranded,
    /// Its backend is being told what its command needs, or its command waits for another answer.
    Preparing,
    /// It wants to be another user, and its task looks at the proof.
    ChangingUser,
    /// The server works, or answers.
    Running,
    /// The run of another client's statement, which is the same, answers its own.
    Sharing,
    /// It has still to take the end of a reply.
    Writing,
    /// It is on its way to the Flifo that takes over; see [`crate::succession::departure`].
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
    pub(crate) const ALL: [(Self, &'static str); 11] = [
        (Self::Reading, "reading"),
        (Self::AwaitingMemory, "awaiting_memory"),
        (Self::Queued, "queued"),
        (Self::Stranded, "stranded"),
        (Self::Preparing, "preparing"),
        (Self::ChangingUser, "changing_user"),
        (Self::Running, "running"),
        (Self::Sharing, "sharing"),
        (Self::Writing, "writing"),
        (Self::Departing, "departing"),
        (Self::Leaving, "leaving"),
    ];

    pub(crate) const fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    /// Whether this other state may follow it.
    pub(crate) const fn may_become(self, next: Self) -> bool {
        match self {
            Self::Leaving => false,
            Self::Writing => matches!(next, Self::Reading | Self::Leaving),
            // There is room for its command, or it is refused.
            Self::AwaitingMemory => matches!(next, Self::Reading | Self::Writing | Self::Leaving),
            Self::Reading => true,
            // It has arrived, or stays here.
            Self::Departing => matches!(next, Self::Reading | Self::Leaving),
            Self::ChangingUser => matches!(next, Self::Reading | Self::Writing | Self::Leaving),
            Self::Preparing | Self::Running | Self::Sharing => {
                !matches!(next, Self::AwaitingMemory | Self::ChangingUser | Self::Departing)
            }
            Self::Queued | Self::Stranded => {
                !matches!(next, Self::AwaitingMemory | Self::ChangingUser)
            }
        }
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_the_numbers_of_their_names() {
        assert!(ClientState::ALL.iter().enumerate().all(|(at, (state, _))| *state as usize == at));
        assert!(BackendState::ALL.iter().enumerate().all(|(at, (state, _))| *state as usize == at));
    }
}

//! What a client is doing, with what it has for that alone: its command while that waits, its place in the queue.
//!
//! A client's state is changed in one place ([`crate::state::client::Client::become_state`]), which knows the steps that
//! are allowed ([`ClientState::may_become`]). What belongs to a state is gone with it.

use engine::gate::Waiting;

use crate::pool::keys::KeyId;
use crate::state::client_state::ClientState;
use crate::state::command::{Awaits, Command};

/// A place in the queue of a gate.
pub(crate) type Ticket = Waiting<KeyId>;

/// A [`ClientState`], with what belongs to it.
pub(crate) enum Doing {
    Reading,
    AwaitingMemory,
    Queued {
        command: Box<Command>,
        ticket: Ticket,
    },
    Stranded {
        command: Box<Command>,
    },
    Preparing {
        command: Box<Command>,
        awaits: Awaits,
    },
    ChangingUser {
        /// What proves that it is the other user, until its task deals with it.
        proof: Option<Vec<u8>>,
    },
    /// A function goes on with the command that the client had: so it is in the middle of an event only.
    InHand,
    Running {
        /// The slot was left because the client kept the server waiting: this is the place on the way to another one.
        ticket: Option<Ticket>,
    },
    Sharing {
        command: Box<Command>,
    },
    Writing,
    Departing,
    Leaving,
}

impl Doing {
    pub(crate) const RUNNING: Self = Self::Running { ticket: None };

    pub(crate) const fn state(&self) -> ClientState {
        match self {
            Self::Reading => ClientState::Reading,
            Self::AwaitingMemory => ClientState::AwaitingMemory,
            Self::Queued { .. } => ClientState::Queued,
            Self::Stranded { .. } => ClientState::Stranded,
            Self::Preparing { .. } | Self::InHand => ClientState::Preparing,
            Self::ChangingUser { .. } => ClientState::ChangingUser,
            Self::Running { .. } => ClientState::Running,
            Self::Sharing { .. } => ClientState::Sharing,
            Self::Writing => ClientState::Writing,
            Self::Departing => ClientState::Departing,
            Self::Leaving => ClientState::Leaving,
        }
    }

    pub(crate) const fn command(&self) -> Option<&Command> {
        match self {
            Self::Queued { command, .. }
            | Self::Stranded { command }
            | Self::Preparing { command, .. }
            | Self::Sharing { command } => Some(command),
            _ => None,
        }
    }

    pub(crate) const fn command_mut(&mut self) -> Option<&mut Command> {
        match self {
            Self::Queued { command, .. }
            | Self::Stranded { command }
            | Self::Preparing { command, .. }
            | Self::Sharing { command } => Some(command),
            _ => None,
        }
    }

    /// Takes the command, if there is one.
    pub(crate) fn take_command(&mut self) -> Option<Box<Command>> {
        self.command()?;
        match std::mem::replace(self, Self::InHand) {
            Self::Queued { command, .. }
            | Self::Stranded { command }
            | Self::Preparing { command, .. }
            | Self::Sharing { command } => Some(command),
            _ => None,
        }
    }

    /// The place in the queue.
    pub(crate) const fn ticket(&self) -> Option<Ticket> {
        match self {
            Self::Queued { ticket, .. } => Some(*ticket),
            Self::Running { ticket } => *ticket,
            _ => None,
        }
    }

    /// What the command waits for that neither a slot nor a backend is missing to.
    pub(crate) const fn awaits(&self) -> Option<Awaits> {
        match self {
            Self::Preparing { awaits, .. } => Some(*awaits),
            _ => None,
        }
    }
}

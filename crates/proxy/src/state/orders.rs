//! Orders to kill a client, and their answers, as they travel between workers.

use engine::account::name::UserName;
use engine::kill::{Neighbour, Place, Scope};

use crate::cluster::servers::ServerId;

/// An order to kill a client.
#[derive(Debug)]
pub(crate) struct KillOrder {
    pub(crate) victim: u32,
    pub(crate) scope: Scope,
    pub(crate) user: UserName,
    pub(crate) killer: Killer,
    /// Where the victim is looked for now.
    pub(crate) place: Place,
}

/// Where an order comes from, and its answer goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Killer {
    Client {
        id: u32,
        worker: usize,
    },
    /// A client of another Flifo, which knows the order by this number.
    Other(Neighbour, u64),
}

impl Killer {
    pub(crate) const fn neighbour(self) -> Option<Neighbour> {
        match self {
            Self::Client { .. } => None,
            Self::Other(neighbour, _) => Some(neighbour),
        }
    }
}

/// What became of an order.
#[derive(Debug)]
pub(crate) struct KillAnswer {
    pub(crate) killer: u32,
    pub(crate) victim: u32,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    /// The killer is its own victim.
    Itself(Scope),
    NotOwner,
    Unknown,
    /// Only this server can do it; this is the victim's id there.
    AtServer(ServerId, u32),
}

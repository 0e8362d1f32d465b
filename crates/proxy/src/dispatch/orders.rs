//! Orders to kill a client, and their answers, as they travel between workers.

use engine::account::name::UserName;
use engine::kill::Scope;

use crate::cluster::servers::ServerId;
use crate::fault::Fault;

/// A client's order to kill another client.
#[derive(Debug)]
pub(crate) struct KillOrder {
    pub(crate) victim: u32,
    pub(crate) scope: Scope,
    pub(crate) user: UserName,
    pub(crate) killer: u32,
    pub(crate) killer_worker: usize,
}

/// What became of an order.
#[derive(Debug)]
pub(crate) struct KillAnswer {
    pub(crate) killer: u32,
    pub(crate) outcome: Outcome,
}

#[derive(Debug)]
pub(crate) enum Outcome {
    Done,
    /// The killer is its own victim.
    Itself(Scope),
    Refused(Fault),
    /// Only this server can do it; this is the victim's id there.
    AtServer(ServerId, u32),
}

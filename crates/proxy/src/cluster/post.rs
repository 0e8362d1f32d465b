//! What workers are told of servers.

use std::time::Instant;

use engine::checks::scheduler::Moving;

use crate::cluster::servers::ServerId;

#[derive(Debug)]
pub(crate) enum News {
    /// Slots may be free that were not, or are not that were.
    SlotFree(ServerId),
    /// A check goes on at this worker.
    Check(Moving),
    /// A check of this server is due now, at the worker that has it.
    CheckNow(ServerId),
    Down(ServerId),
    /// A check of the only server had no answer again.
    Silent(SilentServer),
    /// It answers, and cannot work in its cluster or group any more.
    Unable(ServerId),
    /// It is not the writer any more, or takes nothing new.
    NotWriter(ServerId),
    /// There are servers for statements that had none.
    Rerouted,
    /// All that is idle may be closed: no client is to be served for a while.
    CloseIdle(ServerId),
}

/// The only server, while checks have no answer from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SilentServer {
    pub(crate) id: ServerId,
    /// It is down since then.
    pub(crate) since: Instant,
    pub(crate) machine: Machine,
}

/// What is known of a machine whose server answers nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Machine {
    /// It takes connections, as far as is known.
    Answers,
    /// It takes no new connection, and refuses none.
    Gone,
}

/// Brings news to workers.
pub(crate) struct Post {
    workers: usize,
    send: Box<dyn Fn(usize, News) + Send + Sync>,
}

impl Post {
    pub(crate) fn new(workers: usize, send: impl Fn(usize, News) + Send + Sync + 'static) -> Self {
        Self { workers, send: Box::new(send) }
    }

    pub(crate) fn to(&self, worker: usize, news: News) {
        (self.send)(worker, news);
    }

    pub(crate) fn to_all(&self, news: impl Fn() -> News) {
        (0..self.workers).for_each(|worker| self.to(worker, news()));
    }
}

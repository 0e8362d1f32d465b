//! Mirrors: copies of statements run in another cluster, and what comes of them is compared with what clients have got.
//!
//! A worker hands a copy over when the statement's reply has ended ([`Mirrors::hand_over`]), and hears no more of it. All
//! else happens on a thread of its own ([`sender`]), over connections of its own ([`connection`]). Invariants: nothing
//! here waits for a worker, nor a worker for anything here; no gate, pool or cap of clients knows of these connections;
//! each copy that was handed over ends in a comparison or in a count ([`engine::mirror`]).

pub(crate) mod connection;
pub(crate) mod copies;
mod sender;

use std::sync::{Arc, OnceLock};

use engine::mirror::Unmirrored;
use engine::statement::rules::Rules;
use tokio::sync::mpsc;

use crate::cluster::Cluster;
use crate::mirror::copies::MirrorCopy;
use crate::mirror::sender::Sender;

/// Where workers hand copies over.
pub(crate) struct Mirrors {
    cluster: Arc<Cluster>,
    /// Made with the thread, when a rule mirrors for the first time. What is in it is bounded by the bytes that copies
    /// may take.
    queue: OnceLock<mpsc::UnboundedSender<Box<MirrorCopy>>>,
}

impl Mirrors {
    pub(crate) const fn new(cluster: Arc<Cluster>) -> Self {
        Self { cluster, queue: OnceLock::new() }
    }

    /// These rules are in force from now on, and those no more.
    pub(crate) fn adopt(&self, before: Option<&Rules>, rules: &Rules) {
        if let Some(before) = before {
            before.mirrors_beyond(rules).for_each(|state| state.remove());
        }
        if self.queue.get().is_some() || !rules.iter().any(|it| it.mirror.is_some()) {
            return;
        }
        let (queue, copies) = mpsc::unbounded_channel();
        match Sender::start(Arc::clone(&self.cluster), copies) {
            // Another reload cannot run at the same time.
            Ok(()) => drop(self.queue.set(queue)),
            Err(error) => tracing::error!(%error, "statements are not mirrored"),
        }
    }

    /// A statement has been answered: its copy may run.
    pub(crate) fn hand_over(&self, copy: Box<MirrorCopy>) {
        if let Some(queue) = self.queue.get()
            && queue.send(copy).is_err()
        {
            tracing::error!("the thread of mirrors has ended");
        }
    }
}

/// A copy came to nothing.
pub(crate) fn leave_out(copy: &MirrorCopy, why: Unmirrored) {
    copy.held.of().leave_out(why);
}

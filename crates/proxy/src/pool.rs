//! Connections of users to servers, without clients: which clients may share one, how one is opened, and how it travels
//! from one worker to another.

pub(crate) mod keys;
pub(crate) mod opener;
pub(crate) mod parcel;
pub(crate) mod room;
pub(crate) mod trial;

use std::cell::RefCell;
use std::sync::Arc;

use engine::session_variables::Interned;
use tokio::sync::oneshot;

use crate::cluster::Cluster;
use crate::cluster::servers::ServerId;
use crate::pool::keys::{KeyId, Keys};
use crate::users::User;
use crate::users::rights::Rights;

/// What a worker opens connections with.
pub(crate) struct Pool {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) rights: Arc<Rights>,
    pub(crate) keys: RefCell<Keys>,
    pub(crate) interned: RefCell<Interned>,
    pub(crate) others: Others,
}

/// The workers of the process, which may have connections to spare.
pub(crate) struct Others {
    pub(crate) own: usize,
    pub(crate) workers: usize,
    pub(crate) close_idle: Box<CloseIdle>,
}

/// Has a worker close a connection to this server that no client needs. True: there was one.
type CloseIdle = dyn Fn(usize, ServerId) -> oneshot::Receiver<bool>;

impl Pool {
    /// Asks something of the user whose connections have this key.
    pub(crate) fn user_of<R: Default>(&self, key: KeyId, ask: impl FnOnce(&User) -> R) -> R {
        self.keys.borrow().user(key).map(|user| ask(user)).unwrap_or_default()
    }

    /// All workers, its own before the others.
    fn nearest_first(&self) -> impl Iterator<Item = usize> + use<> {
        let own = self.others.own;
        std::iter::once(own).chain((0..self.others.workers).filter(move |other| *other != own))
    }

    fn close_idle(&self, worker: usize, server: ServerId) -> oneshot::Receiver<bool> {
        (self.others.close_idle)(worker, server)
    }
}

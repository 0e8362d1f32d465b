//! What one worker has of a server.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use engine::gate::Gate;
use engine::silence::Quiet;

use crate::cluster::servers::Server;
use crate::pool::keys::KeyId;
use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::likeness;
use crate::state::traffic::ServerTraffic;

/// The gate of a worker's clients and backends.
pub(crate) type ClientsGate = Gate<KeyId, Rc<Client>, Rc<Backend>>;

/// What one worker has of a server.
pub(crate) struct Local {
    pub(crate) server: Arc<Server>,
    pub(crate) gate: RefCell<ClientsGate>,
    /// A look at which backends could be given to waiting clients is due in a moment.
    pub(crate) looks_later: Cell<bool>,
    /// Backends that clients keep for their diagnostics only are about to be taken back.
    pub(crate) takes_back: Cell<bool>,
    /// Where the server was when its backends were looked at last; see [`crate::upkeep::moves`].
    pub(crate) place_version: Cell<u32>,
    pub(crate) traffic: ServerTraffic,
    /// What came from it, if it is the only one and checks have no answer.
    pub(crate) quiet: Cell<Option<Quiet<Instant>>>,
    /// How many statements of this worker the server's queue was last told to have.
    queued: Cell<u32>,
    /// The server is being asked how many statements wait for locks.
    pub(crate) is_watched: Cell<bool>,
    /// Which client holds the locks that statements wait for, as far as the server tells.
    pub(crate) lock_holders: RefCell<String>,
}

impl Local {
    pub(crate) fn new(worker: usize, server: &Arc<Server>) -> Self {
        let slots = Arc::clone(&server.slots);
        let (backends, classes) = (Arc::clone(&server.backends), server.classes());
        let mut gate = Gate::new(worker, slots, backends, classes);
        gate.tell_apart(likeness::of);
        Self {
            server: Arc::clone(server),
            gate: RefCell::new(gate),
            looks_later: Cell::new(false),
            takes_back: Cell::new(false),
            place_version: Cell::new(0),
            is_watched: Cell::new(false),
            lock_holders: RefCell::default(),
            traffic: ServerTraffic::default(),
            quiet: Cell::new(None),
            queued: Cell::new(0),
        }
    }

    /// Has the server's queue count what waits here now.
    pub(crate) fn count_queue(&self) {
        let now = u32::try_from(self.gate.borrow().waiting()).unwrap_or(u32::MAX);
        let before = self.queued.replace(now);
        if now != before {
            self.server.queue.change(before, now);
        }
    }
}

//! What a worker does when another plan is in force.

use std::rc::Rc;
use std::sync::Arc;

use engine::account::name::UserName;

use crate::cluster::servers::ServerId;
use crate::config::Plan;
use crate::features::cached::written;
use crate::frontend::listener;
use crate::frontend::watch;
use crate::routing::clusters;
use crate::state::worker::Worker;
use crate::upkeep::dismissed;
use crate::users::User;

/// A plan that is in force, and what it does to users.
pub(crate) struct Reloaded {
    pub(crate) plan: Arc<Plan>,
    /// Users whose clients are pooled.
    pub(crate) known: Vec<(UserName, Arc<User>)>,
    /// Users that are named no longer.
    pub(crate) gone: Vec<UserName>,
    /// Servers that there were not before.
    pub(crate) added: Vec<ServerId>,
}

pub(crate) fn adopt(worker: &Rc<Worker>, new: &Reloaded) {
    worker.adopt(&new.plan);
    written::adopt_plan(worker, &new.plan);
    worker.learnt.tally.keep_digests(new.plan.console.digests);
    worker.checks.adopt();
    worker.entrance.pass_through_logins.resize(new.plan.logins_max, worker.shared.worker_count());
    listener::set_backlog(worker, new.plan.backlog);
    listener::set_silence(worker, new.plan.limits.client_silence);
    let mut keys = worker.pool.keys.borrow_mut();
    for (name, user) in &new.known {
        keys.renew(name, user);
    }
    drop(keys);
    dismissed::dismiss(worker, &new.gone);
    if worker.index == 0 {
        worker.checks.begin(&new.added);
        watch::begin(worker, new.added.iter().copied());
    }
    for client in worker.clients.borrow().values() {
        clusters::move_home(worker, client);
    }
    // Clients may be too old by now.
    worker.upkeep.due.clients.set(crate::worker::clock::now());
}

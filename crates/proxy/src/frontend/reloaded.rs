//! Another plan is put in force: in what workers share, and in each of them.

use std::rc::Rc;
use std::sync::Arc;

use engine::account::name::UserName;
use tokio::sync::oneshot;

use crate::cluster::servers::{ServerId, Site};
use crate::config::Plan;
use crate::features::cached::written;
use crate::frontend::accounts;
use crate::frontend::hidden;
use crate::frontend::listener;
use crate::frontend::watch;
use crate::routing::clusters;
use crate::state::shared::Shared;
use crate::state::worker::Worker;
use crate::upkeep::dismissed;
use crate::users::User;
use crate::users::configured::Configured;

/// A plan that is in force, and what it does to users.
struct Reloaded {
    plan: Arc<Plan>,
    /// Users whose clients are pooled.
    known: Vec<(UserName, Arc<User>)>,
    /// Users that are named no longer.
    gone: Vec<UserName>,
    /// Servers that there were not before.
    added: Vec<ServerId>,
}

/// Puts a plan in force, with the servers at these places. Each answer comes when a worker goes by it.
pub(crate) fn put_in_force(
    shared: &Arc<Shared>,
    old: &Plan,
    plan: &Arc<Plan>,
    sites: Vec<Site>,
) -> Vec<oneshot::Receiver<()>> {
    shared.live.replace(Arc::clone(plan));
    shared.rule(plan);
    let before = shared.cluster.servers.places();
    shared.cluster.reconfigure(sites, plan);
    shared.follow();
    let added = (before..shared.cluster.servers.places()).map(ServerId).collect();
    let (known, gone) = shared.proofs.users.reconfigure(Configured::of(plan));
    if old.server.accounts_user != plan.server.accounts_user {
        accounts::change_reader(shared);
    }
    hidden::adopt(shared, old);
    let new = Arc::new(Reloaded { plan: Arc::clone(plan), known, gone, added });
    let adopt = |worker| {
        let new = Arc::clone(&new);
        shared.ask(worker, move |worker| adopt(worker, &new))
    };
    (0..shared.worker_count()).map(adopt).collect()
}

fn adopt(worker: &Rc<Worker>, new: &Reloaded) {
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

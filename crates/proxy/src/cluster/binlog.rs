//! Following the binary log of each cluster's writer: what was written beside this Flifo ends entries of the cache.
//!
//! Owns a thread of its own, which follows one server of each cluster on two connections, and what is published of that
//! ([`crate::cluster::followed`]). Decided by [`engine::binlog`]. Invariants: nothing of it is on the road; while a server
//! is not followed, no moment is covered; each time that following begins, all entries of the cluster end.

mod connection;

use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, LocalOptions};
use wire::auth::Secret;

use crate::cluster::Cluster;
use crate::cluster::checks;
use crate::cluster::followed::OFF;
use crate::cluster::members::ClusterId;
use crate::cluster::servers::ServerId;
use crate::config::Plan;

/// Is called when something may have changed that is no row.
pub(crate) type DefinitionsTold = Arc<dyn Fn() + Send + Sync>;

/// The thread that follows, which is started when it is first needed.
#[derive(Default)]
pub(crate) struct Followers {
    is_started: AtomicBool,
}

impl Followers {
    /// Goes by the plan that is in force.
    /// `told` is called when definitions may be others by now.
    pub(crate) fn attend(&self, cluster: &Arc<Cluster>, told: impl FnOnce() -> DefinitionsTold) {
        if !cluster.plan().cache.binlog || self.is_started.swap(true, Relaxed) {
            return;
        }
        let (cluster, told) = (Arc::downgrade(cluster), told());
        let run = move || {
            let runtime =
                Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
            match runtime {
                Ok(runtime) => runtime.block_on(run(cluster, told)),
                Err(error) => tracing::error!(%error, "no binary log is followed"),
            }
        };
        let builder = thread::Builder::new().name("binlog".to_owned());
        if let Err(error) = crate::worker::tasks::thread(builder, run) {
            self.is_started.store(false, Relaxed);
            tracing::error!(%error, "no binary log is followed: the next reload tries again");
        }
    }
}

/// So often the thread looks for what has changed around it.
const LOOK: Duration = Duration::from_millis(100);

/// Gives each cluster that there is, or comes, a task.
async fn run(cluster: Weak<Cluster>, told: DefinitionsTold) {
    let mut attended = 0;
    while let Some(all) = cluster.upgrade() {
        for members in all.clusters().skip(attended) {
            attended += 1;
            let task = Task { id: members.id, cluster: cluster.clone(), told: Arc::clone(&told) };
            crate::worker::tasks::vital(Rc::new(task).run());
        }
        drop(all);
        tokio::time::sleep(LOOK).await;
    }
}

/// Follows one cluster.
struct Task {
    id: ClusterId,
    cluster: Weak<Cluster>,
    told: DefinitionsTold,
}

/// What is followed, and by which account: if any of it is another one, following begins anew.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Subject {
    server: ServerId,
    /// Where that is now.
    version: u32,
    user: String,
    password: Secret,
    number: Option<u32>,
    lag_max: Duration,
    /// It is the only server, and may be a replica of one that Flifo does not know.
    is_only: bool,
}

/// Waits between attempts.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(5),
];

impl Task {
    async fn run(self: Rc<Self>) {
        let mut failures = 0;
        loop {
            let Some(cluster) = self.cluster.upgrade() else { return };
            let members = cluster.get(self.id);
            let subject = match subject(&cluster, self.id) {
                Ok(subject) => subject,
                Err(why) => {
                    members.followed.lost(why, false);
                    drop(cluster);
                    tokio::time::sleep(LOOK).await;
                    continue;
                }
            };
            let begun = crate::worker::clock::read();
            let why = connection::follow(&cluster, self.id, &subject, &self.told).await;
            // Nothing is served from here on. What is there ends again when following begins, and definitions, which may
            // change meanwhile, are read then: once.
            members.followed.lost(&why.to_string(), why.is_failure());
            members.generations.everything();
            let is_new = crate::worker::clock::since(begun) > PAUSES[PAUSES.len() - 1];
            failures = if is_new || !why.is_failure() { 0 } else { failures + 1 };
            drop(cluster);
            if why.is_failure() {
                tokio::time::sleep(PAUSES[failures.min(PAUSES.len() - 1)]).await;
            }
        }
    }
}

/// What is to be followed for a cluster now; or why nothing is.
fn subject(cluster: &Cluster, id: ClusterId) -> Result<Subject, &'static str> {
    let plan = cluster.plan();
    if !plan.cache.binlog {
        return Err(OFF);
    }
    let members = cluster.get(id);
    let is_only = !cluster.is_routed();
    let server = match is_only {
        true => members.servers().next().map(|server| server.id),
        false => members.writer().filter(|_| members.is_named()),
    };
    let server = server.ok_or("the cluster has no writer")?;
    let (user, password) = account(&plan, id, cluster).ok_or(
        "no account is known that could follow the server: name one in cache.binlog_user, with its password in [[users]] or in \
         checks.password",
    )?;
    Ok(Subject {
        server,
        version: cluster.server(server).place.version(),
        user: user.to_owned(),
        password: password.clone(),
        number: plan.cache.binlog_server_id,
        lag_max: plan.cache.binlog_lag_max,
        is_only,
    })
}

/// The account by which a server is followed: that of this name, or that of checks.
fn account<'a>(plan: &'a Plan, id: ClusterId, cluster: &Cluster) -> Option<(&'a str, &'a Secret)> {
    let checks = plan.governing(&cluster.get(id).name).checks;
    match &plan.cache.binlog_user {
        Some(user) => checks::account_of(plan, checks, user),
        None => checks::account(plan, checks),
    }
}

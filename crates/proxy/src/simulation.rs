//! A whole process in a simulated world: real workers, whose sockets are memory, and whose clock and dice are a seed's.
//!
//! The workers are tasks of one thread, whose runtime has a clock that stands still until nothing else is to be done.
//! What a process has besides them (console, metrics, logs, placement) is not there. What happens between two steps of
//! the world is the product's own code.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use backend::stream::Packed;
use backend::stream::memory::Memory;
use engine::descriptors::Descriptors;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::cluster::servers::Site;
use crate::config::{self, InForce, Listen, Live, MayPlace, Plan};
use crate::frontend::accepted::{Accepted, Socket};
use crate::frontend::listener;
use crate::frontend::reloaded;
use crate::records::Records;
use crate::road::invariants;
use crate::run::{event_loop, recovery};
use crate::state::shared::Shared;
use crate::state::worker::Worker;
use crate::users::Users;
use crate::users::configured::Configured;
use crate::users::tls::Tls;
use crate::worker::tasks;

fn plan(configuration: &str) -> Result<Plan, String> {
    let parsed = config::parse(configuration, "simulation.toml");
    parsed.map(|(plan, _)| plan).map_err(|problems| format!("{problems:?}"))
}

/// The workers of one process.
pub struct Process {
    shared: Arc<Shared>,
    workers: Vec<Rc<Worker>>,
    loops: Vec<JoinHandle<()>>,
    listen: Arc<Listen>,
}

impl Process {
    /// Starts by this configuration, in a local runtime of this thread. An error: why it cannot.
    pub fn start(configuration: &str) -> Result<Self, String> {
        let plan = plan(configuration)?;
        let listen = plan.listen.first().cloned().ok_or("no address is listened on")?;
        let sites = Site::all(&plan, None).map_err(|error| error.to_string())?;
        let users = Users::new(Configured::of(&plan));
        let tls = Tls::new(&plan).map_err(|error| error.to_string())?;
        let records = Records::open(&plan).map_err(|error| error.to_string())?;
        let (mailboxes, mails): (Vec<_>, Vec<_>) =
            (0..plan.worker_count()).map(|_| mpsc::unbounded_channel()).unzip();
        let descriptors = Descriptors::share(None, 0);
        let live = Arc::new(Live::new(plan));
        let shared = Shared::new(live, sites, users, tls, descriptors, records, mailboxes);
        let shared = Arc::new(shared);
        let (mut workers, mut loops) = (Vec::new(), Vec::new());
        for (index, mail) in mails.into_iter().enumerate() {
            let worker = Rc::new(Worker::new(index, Arc::clone(&shared)));
            recovery::ask_of_doubt(&worker);
            loops.push(tasks::vital(event_loop::run(Rc::clone(&worker), mail)));
            workers.push(worker);
        }
        Ok(Self { shared, workers, loops, listen: Arc::new(listen) })
    }

    /// A client connects.
    pub fn accept(&self, end: Memory) {
        let socket = Socket::Memory(Packed::of_memory(end));
        let accepted = Accepted { socket, listen: Arc::clone(&self.listen) };
        let worker = Rc::clone(&self.workers[0]);
        drop(tasks::contained(async move {
            listener::take(&worker, Ok::<_, io::Error>(accepted)).await;
        }));
    }

    /// The configuration is another one from now on. An error: why it is not.
    pub fn reload(&self, configuration: &str) -> Result<(), String> {
        let old = self.shared.plan();
        let InForce { plan, .. } = config::in_force(&old, plan(configuration)?, MayPlace::GivenUp);
        let sites = Site::all(&plan, None).map_err(|error| error.to_string())?;
        // Each worker adopts it when it comes to that.
        drop(reloaded::put_in_force(&self.shared, &old, &Arc::new(plan), sites));
        Ok(())
    }

    /// Clients are ended as soon as they may send.
    pub fn stop(&self) {
        self.shared.stop();
    }

    /// Whether all its workers have ended.
    pub fn has_ended(&self) -> bool {
        self.loops.iter().all(JoinHandle::is_finished)
    }

    /// Clients that are connected, logged in or not.
    pub fn clients(&self) -> usize {
        self.shared.clients.load(Relaxed)
    }

    /// What it has that it must not have when all its clients have gone; one line each.
    pub fn left(&self) -> Vec<String> {
        let mut left = Vec::new();
        let mut tell = |what: &str, count: usize| {
            if count > 0 {
                left.push(format!("{count} {what}"));
            }
        };
        for worker in &self.workers {
            tell("clients in a worker", worker.clients.borrow().len());
            let backends = worker.backends.borrow();
            let held = backends.values().filter(|backend| backend.holder.borrow().is_some());
            tell("backends that a client holds", held.count());
            let busy = backends.values().filter(|it| !it.in_flight.borrow().is_empty());
            tell("backends with something in flight", busy.count());
            tell("statements that no server takes", worker.upkeep.stranded.borrow().len());
            for local in worker.locals() {
                tell("statements in a queue", local.gate.borrow().waiting());
            }
        }
        for server in self.shared.cluster.servers.all() {
            tell("slots in use", server.slots.held() as usize);
        }
        left
    }

    /// What does not hold that must hold whenever no task runs; one line each.
    pub fn broken(&self) -> Vec<String> {
        self.workers.iter().flat_map(|worker| invariants::broken(worker)).collect()
    }
}

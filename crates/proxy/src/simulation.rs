//! A whole process in a simulated world: real workers, whose sockets are memory, and whose clock and dice are a seed's.
//!
//! The workers are tasks of one thread, whose runtime has a clock that stands still until nothing else is to be done.
//! What a process has besides them (console, metrics, logs, placement) is not there. What happens between two steps of
//! the world is the product's own code.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, channel};

use backend::stream::Packed;
use backend::stream::memory::Memory;
use engine::descriptors::Descriptors;
use engine::kill::Neighbour;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::cluster::servers::Site;
use crate::config::{self, InForce, Listen, Live, MayPlace, Plan};
use crate::frontend::accepted::{Accepted, Socket};
use crate::frontend::arrival::{self, NoArrival};
use crate::frontend::listener;
use crate::frontend::reloaded;
use crate::records::Records;
use crate::road::invariants;
use crate::road::kill_orders;
use crate::run::{event_loop, recovery};
use crate::state::client::Client;
use crate::state::description::{Departure, Reception};
use crate::state::shared::Shared;
use crate::state::worker::Worker;
use crate::succession::arrivals::{self, Coming};
use crate::succession::departure;
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
    /// What goes to the process that takes over, and where that is.
    departures: RefCell<Option<(Receiver<Departure>, Arc<Shared>)>>,
}

impl Process {
    /// Starts by this configuration, in a local runtime of this thread. An error: why it cannot.
    pub fn start(configuration: &str) -> Result<Self, String> {
        Self::start_as(configuration, 0)
    }

    /// Starts as the one after so many others.
    fn start_as(configuration: &str, generation: u32) -> Result<Self, String> {
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
        let shared = Arc::new(shared.of_generation(generation));
        let (mut workers, mut loops) = (Vec::new(), Vec::new());
        for (index, mail) in mails.into_iter().enumerate() {
            let worker = Rc::new(Worker::new(index, Arc::clone(&shared)));
            recovery::ask_of_doubt(&worker);
            loops.push(tasks::vital(event_loop::run(Rc::clone(&worker), mail)));
            workers.push(worker);
        }
        let (listen, departures) = (Arc::new(listen), RefCell::default());
        Ok(Self { shared, workers, loops, listen, departures })
    }

    /// Starts the process that takes over from this one: clients that come are the new one's from now on.
    pub fn hand_over(&self, configuration: &str) -> Result<Self, String> {
        let (before, generation) = (&self.shared, self.shared.succession.generation + 1);
        let new = Self::start_as(configuration, generation)?;
        let after = Arc::clone(&new.shared);
        before.depart(true);
        after.succession.predecessor.begin(0, "");
        let (tell, departures) = channel();
        let orders = tell.clone();
        let ask = Arc::new(move |message| drop(orders.send(Departure::Kill(message))));
        before.succession.neighbours.join(Neighbour::After, ask);
        let home = Arc::clone(before);
        let answer = Arc::new(move |message| kill_orders::hear(&home, Neighbour::After, message));
        after.succession.neighbours.join(Neighbour::Before, answer);
        for worker in 0..before.worker_count() {
            let tell = tell.clone();
            before.have_done(worker, move |worker| departure::begin(worker, tell));
        }
        *self.departures.borrow_mut() = Some((departures, after));
        Ok(new)
    }

    /// Takes what goes to the process that takes over there. When all clients have gone, the workers end.
    pub fn relay(&self) {
        let departures = self.departures.borrow();
        let Some((departures, after)) = &*departures else { return };
        departures.try_iter().for_each(|it| self.pass(it, after));
        if !self.shared.is_arriving() && self.clients() == 0 && !self.shared.is_stopping() {
            arrivals::end(after, false);
            kill_orders::part(&self.shared, Neighbour::After);
            self.stop();
        }
    }

    fn pass(&self, departure: Departure, after: &Arc<Shared>) {
        let home = |worker, client| arrivals::home(after, self.workers.len(), worker, client);
        let (worker, coming) = match departure {
            Departure::Client { worker, id, description, files } => {
                (worker, Coming { client: Some(id), description, files })
            }
            Departure::Backend { worker, description, file } => {
                (worker, Coming { client: None, description, files: vec![file] })
            }
            Departure::Yours { worker, id } => {
                return after
                    .have_done(home(worker, Some(id)), move |worker| arrival::take(worker, id));
            }
            Departure::Secret(bequest) => return after.proofs.bequeathed.add(bequest),
            Departure::Kill(message) => {
                return kill_orders::hear(after, Neighbour::Before, message);
            }
            Departure::Count(_) | Departure::Digests(_) | Departure::End => return,
        };
        let (before, client) = (Arc::clone(&self.shared), coming.client);
        let answer = move |expected: &Result<(), NoArrival>| {
            let verdict = match expected {
                Ok(()) => Reception::Taken,
                Err(_) => Reception::Refused,
            };
            let id = client.unwrap_or_default();
            before.have_done(worker, move |worker| departure::hear(worker, id, verdict));
            true
        };
        let take_in = move |worker: &Rc<Worker>| arrivals::take_in(worker, coming, answer);
        after.have_done(home(worker, client), take_in);
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

    /// What each client that has logged in is doing; one line each.
    pub fn doings(&self) -> Vec<String> {
        let tell = |client: &Rc<Client>| {
            let backend = client.backend().map(|backend| (backend.id, backend.state()));
            let (id, state, awaits) = (client.id, client.state(), client.awaits());
            let course = (client.departs(), client.is_closing(), client.is_draining());
            format!(
                "client {id}: {state:?} {awaits:?} on {backend:?}, departs, closes, drains: {course:?}"
            )
        };
        let of_worker = |worker: &Rc<Worker>| -> Vec<_> {
            worker.clients.borrow().values().map(tell).collect()
        };
        self.workers.iter().flat_map(of_worker).collect()
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
            let stranded = worker.upkeep.stranded.borrow();
            let waiting = stranded.iter().filter(|it| it.is_good()).count();
            tell("statements that no server takes", waiting);
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

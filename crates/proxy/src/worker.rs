//! A worker: one thread, one event loop, and all that it owns. Nothing of it is shared but through [`Shared`] and mail.

pub(crate) mod ages;

use engine::account::name::UserName;
use engine::numbers::NumberMap;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use engine::account::guessing::Guesses;
use engine::checks::desk::Moving;
use engine::classes::{ClassId, Classes};
use engine::descriptors::Descriptors;
use engine::gate::Slot;
use engine::intent::Readings;
use engine::kill::FIRST_CLIENT_ID;
use engine::pace::Pace;
use engine::rights::Era;
use engine::schemas::{Alterations, Schemas};
use engine::settings::Interned;
use engine::source::Sources;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::arrive::accounts::{self, Accounts};
use crate::arrive::held::Given;
use crate::arrive::login;
use crate::arrive::logins::Logins;
use crate::arrive::users::{User, Users};
use crate::buffers::Buffers;
use crate::checks::{self, Checks};
use crate::config::{Comer, Mode, Parking, Plan};
use crate::counters::Counters;
use crate::fault::Kind;
use crate::fleet::Fleet;
use crate::hidden::{self, Hidden};
use crate::links::Link;
use crate::links::keys::{KeyId, Keys, Numbers};
use crate::links::moves;
use crate::links::room;
use crate::links::supply;
use crate::links::transfers;
use crate::outside;
use crate::placement;
use crate::rights::{self, Rights};
use crate::road::admit;
use crate::road::ahead;
use crate::road::client::Client;
use crate::road::kill;
use crate::road::late;
use crate::road::past;
use crate::road::pins;
use crate::road::replies::Settled;
use crate::road::route::{self, Stranded};
use crate::road::steer;
use crate::road::waits;
use crate::road::whole::Memory;
use crate::server::State;
use crate::servers::{Local, Server, ServerId};
use crate::tally::Tally;

/// What all workers of the process have in common.
pub(crate) struct Shared {
    pub(crate) plan: Arc<Plan>,
    pub(crate) servers: Box<[Arc<Server>]>,
    /// What is decided of them, if there are several.
    pub(crate) fleet: Option<Fleet>,
    /// The classes of statements, by name; how they share a server is that server's.
    pub(crate) classes: Arc<Classes>,
    /// Ends of statements after which a schema may be gone.
    pub(crate) alterations: Alterations,
    /// Clients connected, logged in or not.
    pub(crate) clients: AtomicUsize,
    /// How the process shares its descriptors.
    pub(crate) descriptors: Descriptors,
    pub(crate) placement: placement::Board,
    /// The numbers of the keys of links, the same in all workers.
    pub(crate) key_numbers: Arc<Numbers>,
    pub(crate) users: Users,
    pub(crate) accounts: Accounts,
    pub(crate) given: Given,
    /// When rights have changed, and until when that is known.
    pub(crate) rights: Rights,
    /// Wrong passwords.
    pub(crate) guesses: Mutex<Guesses>,
    /// Views and triggers that do what no server reports.
    pub(crate) hidden: Hidden,
    pub(crate) tls: crate::tls::Tls,
    pub(crate) rsa: crate::arrive::rsa::RsaKey,
    stopping: AtomicBool,
    mailboxes: Vec<mpsc::UnboundedSender<Mail>>,
    loads: Vec<AtomicU32>,
}

/// What workers tell each other.
#[derive(Debug)]
pub(crate) enum Mail {
    /// A client was accepted, and given to this worker.
    Accepted(login::Accepted),
    /// A slot was given back that somebody here may wait for.
    SlotFree(ServerId),
    /// A link was closed, whose place somebody here may wait for.
    LinkFree(ServerId),
    /// Somebody elsewhere waits for a place under the cap on links: of this server, or of this user.
    LinkWanted(ServerId),
    LinkOfUserWanted(UserName),
    /// A link is wanted for which there is no room: one that is idle here is closed. The answer is whether there was one.
    GiveUpIdle(ServerId, oneshot::Sender<bool>),
    /// Clients here lack links: those that others keep for their messages only go back.
    TakeBackIdle(ServerId),
    /// A link that comes from another worker.
    Link(Box<transfers::Parcel>),
    /// A client asks to kill another one, which is here.
    Kill(kill::Order),
    /// A client of this worker need not wait any longer for what another link knows.
    Resume(u32),
    /// The answer to such an order.
    Killed(kill::Answer),
    /// Somebody outside wants to know what this worker has counted.
    Report(outside::Want, oneshot::Sender<outside::Report>),
    /// Placement wants to know how much is done, and how fast.
    Pulse(oneshot::Sender<placement::Pulse>),
    /// Somebody outside kills a client, which may be here.
    KillAnyones(outside::Kill),
    /// A check goes on here.
    Check(Moving),
    /// A check of this server, if it is here, is due now.
    CheckNow(ServerId),
    /// This server is down.
    ServerDown(ServerId),
    /// This server is not the writer any more.
    NotWriter(ServerId),
    /// There are servers for those who had none.
    Rerouted,
    /// All that is idle may be closed: nobody is to be served for a while.
    CloseIdle(ServerId),
    /// No new statements: clients are ended as soon as it is their turn.
    Stop,
    /// Everything ends now.
    Abort,
}

impl Shared {
    pub(crate) fn new(
        plan: Arc<Plan>,
        servers: Vec<Arc<Server>>,
        users: Users,
        tls: crate::tls::Tls,
        descriptors: Descriptors,
        mailboxes: Vec<mpsc::UnboundedSender<Mail>>,
    ) -> Self {
        let workers = mailboxes.len();
        let rights = Rights::new(servers.len(), plan.server.rights_bound);
        Self {
            alterations: Alterations::default(),
            classes: Arc::new(Classes::new(plan.all_classes(), workers)),
            clients: AtomicUsize::new(0),
            descriptors,
            rsa: crate::arrive::rsa::RsaKey::default(),
            stopping: AtomicBool::new(false),
            loads: (0..workers).map(|_| AtomicU32::new(0)).collect(),
            fleet: Fleet::new(&plan, workers),
            plan,
            rights,
            servers: servers.into(),
            placement: placement::Board::default(),
            key_numbers: Arc::default(),
            users,
            accounts: Accounts::default(),
            given: Given::default(),
            guesses: Mutex::default(),
            hidden: Hidden::default(),
            tls,
            mailboxes,
        }
    }

    pub(crate) fn mail(&self, worker: usize, mail: Mail) {
        // A worker that is gone needs no mail.
        let _ = self.mailboxes[worker].send(mail);
    }

    pub(crate) fn worker_count(&self) -> usize {
        self.mailboxes.len()
    }

    pub(crate) fn mail_all(&self, mail: impl Fn() -> Mail) {
        for worker in 0..self.mailboxes.len() {
            self.mail(worker, mail());
        }
    }

    /// Asks the other workers for something.
    pub(crate) fn mail_others(&self, worker: usize, mail: impl Fn() -> Mail) {
        for other in (0..self.mailboxes.len()).filter(|other| *other != worker) {
            self.mail(other, mail());
        }
    }

    pub(crate) fn server(&self, id: ServerId) -> &Server {
        &self.servers[id.0]
    }

    /// The server that is asked what all servers have in common.
    pub(crate) fn first(&self) -> &Server {
        &self.servers[0]
    }

    /// The less loaded of two workers, drawn by chance.
    pub(crate) fn choose_worker(&self) -> usize {
        let workers = self.loads.len();
        if workers == 1 {
            return 0;
        }
        let draw = getrandom::u32().unwrap_or(0) as usize;
        let one = draw % workers;
        let two = (one + 1 + (draw >> 16) % (workers - 1)) % workers;
        let load = |worker: usize| self.loads[worker].load(Ordering::Relaxed);
        if load(two) < load(one) { two } else { one }
    }

    pub(crate) fn add_load(&self, worker: usize) {
        self.loads[worker].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn drop_load(&self, worker: usize) {
        self.loads[worker].fetch_sub(1, Ordering::Relaxed);
    }

    /// How a server is.
    pub(crate) fn state_of(&self, server: &Server) -> State {
        match &self.fleet {
            Some(fleet) => State::of(fleet.watched(server.id)),
            None => server.facts.state(),
        }
    }

    /// Sets the limit of a server; see [`Server::set_limit`].
    pub(crate) fn set_limit(&self, server: &Server, limit: Option<u32>) -> u32 {
        let limit = server.set_limit(limit, |worker| self.mail(worker, Mail::SlotFree(server.id)));
        self.mail_all(|| Mail::SlotFree(server.id));
        limit
    }

    /// What is known of a server asks for another limit.
    pub(crate) fn settle_limit(&self, server: &Server) {
        server.settle_limit(|worker| self.mail(worker, Mail::SlotFree(server.id)));
        self.mail_all(|| Mail::SlotFree(server.id));
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.mail_all(|| Mail::Stop);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

/// One worker's own.
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) plan: Arc<Plan>,
    pub(crate) shared: Arc<Shared>,
    /// Its gates, one for each server.
    pub(crate) servers: Box<[Local]>,
    /// Logins that Flifo decides itself, and those that the server does.
    pub(crate) logins: Rc<Logins>,
    pub(crate) carried_logins: Rc<Logins>,
    pub(crate) keys: RefCell<Keys>,
    pub(crate) clients: RefCell<NumberMap<u32, Rc<Client>>>,
    pub(crate) links: RefCell<NumberMap<u64, Rc<Link>>>,
    pub(crate) buffers: Buffers,
    /// Room for long commands of clients.
    pub(crate) memory: Rc<Memory>,
    pub(crate) counters: Counters,
    pub(crate) tally: Tally,
    pub(crate) pace: RefCell<Pace>,
    pub(crate) readings: RefCell<Readings>,
    pub(crate) sources: RefCell<Sources>,
    pub(crate) interned: RefCell<Interned>,
    /// What logins may name as their schema.
    pub(crate) schemas: RefCell<Schemas<KeyId>>,
    /// Scratch space of [`crate::road::replies`].
    pub(crate) settled: RefCell<Vec<Settled>>,
    pub(crate) scratch: RefCell<Vec<u8>>,
    /// Slots that have been left and not been passed on yet.
    pub(crate) slots_left: RefCell<Vec<(ServerId, Slot)>>,
    pub(crate) is_passing_on: Cell<bool>,
    /// Somebody has joined a line who may be written ahead.
    pub(crate) has_waiters: Notify,
    /// The last era of rights that it has looked at its idle links for.
    pub(crate) era: Cell<Era>,
    /// Its checks of servers, if there are several.
    pub(crate) checks: Option<Checks>,
    /// Statements that no server can take for now.
    pub(crate) stranded: RefCell<Vec<Stranded>>,
    /// Where the next look for a reader begins.
    pub(crate) next_reader: Cell<usize>,
    /// When clients are looked at again for their age.
    pub(crate) clients_due: Cell<Instant>,
    next_client: Cell<u32>,
    next_link: Cell<u64>,
}

/// How often deadlines of those who wait are looked at.
const TICK: Duration = Duration::from_millis(100);

/// Everything else that has an age is looked at every so many ticks: ten thousand clients at rest must cost nothing.
const SLOW_TICKS: u32 = 10;

/// Where the ids of a worker's clients begin: anywhere, so that those of several Flifos before one server are hardly ever
/// the same. What a server's replicas know of a session's temporary tables goes by its number.
fn first_turn(workers: usize) -> u32 {
    let mut random = [0; 4];
    let known = getrandom::fill(&mut random);
    known.map_or(0, |()| u32::from_le_bytes(random) % (FIRST_CLIENT_ID / workers as u32))
}

impl Worker {
    pub(crate) fn new(index: usize, shared: Arc<Shared>) -> Self {
        let counters = Counters::default();
        Self {
            index,
            plan: Arc::clone(&shared.plan),
            servers: shared.servers.iter().map(|server| Local::new(index, server)).collect(),
            logins: Logins::own(&counters.statements),
            carried_logins: Logins::new(shared.plan.logins_max, shared.mailboxes.len()),
            keys: RefCell::new(Keys::new(&shared.key_numbers)),
            clients: RefCell::default(),
            links: RefCell::default(),
            buffers: Buffers::default(),
            memory: Rc::default(),
            counters,
            tally: Tally::new(shared.plan.console.digests),
            pace: RefCell::default(),
            readings: RefCell::default(),
            sources: RefCell::default(),
            interned: RefCell::default(),
            schemas: RefCell::default(),
            settled: RefCell::default(),
            scratch: RefCell::default(),
            slots_left: RefCell::default(),
            is_passing_on: Cell::new(false),
            has_waiters: Notify::new(),
            era: Cell::default(),
            checks: shared.fleet.as_ref().map(|fleet| Checks::new(index, &shared.plan, fleet)),
            stranded: RefCell::default(),
            next_reader: Cell::new(0),
            clients_due: Cell::new(crate::clock::now()),
            next_client: Cell::new(first_turn(shared.mailboxes.len())),
            next_link: Cell::new(1),
            shared,
        }
    }

    /// An id for a client; it says which worker the client belongs to.
    pub(crate) fn new_client_id(&self) -> u32 {
        let workers = self.shared.mailboxes.len() as u32;
        let span = FIRST_CLIENT_ID / workers;
        loop {
            let turn = self.next_client.get();
            self.next_client.set((turn + 1) % span);
            let id = FIRST_CLIENT_ID + turn * workers + self.index as u32;
            if !self.clients.borrow().contains_key(&id) {
                return id;
            }
        }
    }

    /// The worker that a client of this id belongs to.
    pub(crate) fn home_of(&self, client: u32) -> usize {
        ((client - FIRST_CLIENT_ID) as usize) % self.shared.mailboxes.len()
    }

    /// What this worker has of a server.
    pub(crate) fn at(&self, server: ServerId) -> &Local {
        &self.servers[server.0]
    }

    pub(crate) fn new_link_id(&self) -> u64 {
        let id = self.next_link.get();
        self.next_link.set(id + 1);
        id
    }

    /// Asks something of the user whose links have this key.
    pub(crate) fn user_of<R: Default>(&self, key: KeyId, ask: impl FnOnce(&User) -> R) -> R {
        self.keys.borrow().user(key).map(|user| ask(user)).unwrap_or_default()
    }

    /// The class of a client's statements, unless they name another one.
    pub(crate) fn class_of(
        &self,
        user: &UserName,
        schema: Option<&[u8]>,
        peer: Option<SocketAddr>,
    ) -> ClassId {
        let name = self.plan.class_of(user, schema, peer.map(|peer| peer.ip()));
        name.and_then(|name| self.shared.classes.named(name.as_bytes())).unwrap_or_default()
    }

    /// Where the statements of such a client go.
    pub(crate) fn mode_of(
        &self,
        listen: usize,
        user: &UserName,
        schema: Option<&[u8]>,
        class: ClassId,
    ) -> Mode {
        self.plan.mode_of(&Comer {
            listen: self.plan.listen.get(listen),
            user,
            schema,
            class: self.shared.classes.get(class).name.as_bytes(),
        })
    }

    /// The class that a statement names, if it exists.
    pub(crate) fn class_named_in(&self, text: &[u8]) -> Option<ClassId> {
        engine::classes::named_in(text).and_then(|name| self.shared.classes.named(name))
    }

    pub(crate) fn add_client(&self, client: &Rc<Client>) {
        self.clients.borrow_mut().insert(client.id, Rc::clone(client));
    }

    pub(crate) fn remove_client(&self, client: &Client) {
        self.clients.borrow_mut().remove(&client.id);
        self.give_back_place(client);
    }

    /// The client is none of its user's any more.
    pub(crate) fn give_back_place(&self, client: &Client) {
        if let Some(key) = client.key.get() {
            self.user_of(key, |user| user.clients.give_back());
        } else {
            self.shared.users.give_back_carried(&client.user.borrow());
        }
    }

    pub(crate) fn add_link(&self, link: &Rc<Link>) {
        self.links.borrow_mut().insert(link.id, Rc::clone(link));
    }

    pub(crate) fn count_fault(&self, kind: Kind) {
        self.counters.faults[kind as usize].add(1);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.shared.is_stopping()
    }
}

/// Runs a worker until it is told to abort, or until all its clients are gone after it was told to stop.
pub(crate) async fn run(worker: Rc<Worker>, mut mailbox: mpsc::UnboundedReceiver<Mail>) {
    tokio::task::spawn_local(checks::run(Rc::clone(&worker)));
    rights::watch::begin(&worker);
    if worker.plan.server.pipeline > 1 {
        tokio::task::spawn_local(ahead::run(Rc::clone(&worker)));
    }
    // What it opens is open from the beginning.
    crate::turns::look();
    let mut ticks = tokio::time::interval(TICK);
    let mut count: u32 = 0;
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let beat = tokio::time::sleep(steer::BEAT);
    tokio::pin!(beat);
    let is_steered = worker.shared.servers.iter().any(|server| server.steer.is_some());
    let parks_by_age = worker.plan.server.parking == Parking::Age;
    loop {
        tokio::select! {
            mail = mailbox.recv() => match mail {
                None | Some(Mail::Abort) => break,
                Some(mail) => open_mail(&worker, mail),
            },
            _ = ticks.tick() => {
                count = count.wrapping_add(1);
                tick(&worker, count.is_multiple_of(SLOW_TICKS));
            }
            () = &mut beat, if is_steered || parks_by_age => {
                crate::clock::tick();
                let moves = steer::beat(&worker);
                if parks_by_age {
                    admit::park_stuck(&worker);
                }
                let next = if moves || parks_by_age { steer::BEAT } else { steer::SLOW_BEAT };
                beat.as_mut().reset(tokio::time::Instant::now() + next);
            }
        }
        if worker.is_stopping() && worker.clients.borrow().is_empty() {
            break;
        }
    }
    let mut report = worker.counters.report();
    report.extend(class_report(&worker));
    let report: Vec<_> = report.iter().map(|(name, count)| format!("{name}={count}")).collect();
    tracing::info!(worker = worker.index, counters = report.join(" "), "worker ends");
}

/// What each class has had, if there are several.
fn class_report(worker: &Worker) -> Vec<(String, u64)> {
    if worker.shared.classes.len() == 1 {
        return Vec::new();
    }
    let mut report = std::collections::BTreeMap::new();
    for local in &worker.servers {
        for (class, counts) in local.gate.borrow().class_counts() {
            for (what, count) in [
                ("started", counts.started),
                ("waited", counts.waited),
                ("refused", counts.refused),
                ("busy_us", counts.busy),
            ] {
                *report.entry(format!("classes.{class}.{what}")).or_default() += count;
            }
        }
    }
    report.into_iter().filter(|(_, count)| *count > 0).collect()
}

fn open_mail(worker: &Rc<Worker>, mail: Mail) {
    match mail {
        Mail::Accepted(accepted) => login::begin(worker, accepted),
        Mail::SlotFree(server) | Mail::LinkFree(server) => admit::pump(worker, server),
        Mail::LinkOfUserWanted(user) => {
            supply::close_idle_of(worker, &user);
        }
        Mail::LinkWanted(server) => supply::give_idle(worker, server),
        Mail::GiveUpIdle(server, tell) => {
            // The worker that has asked may not wait any longer.
            let _ = tell.send(room::give_up_idle(worker, server));
        }
        Mail::TakeBackIdle(server) => {
            worker.at(server).takes_back.set(false);
            supply::take_back_idle(worker, server);
        }
        Mail::Link(parcel) => transfers::arrive(worker, *parcel),
        Mail::Kill(order) => kill::obey(worker, &order),
        Mail::Resume(client) => {
            let client = worker.clients.borrow().get(&client).cloned();
            if let Some(client) = client {
                past::resume(worker, &client);
            }
        }
        Mail::Killed(answer) => kill::answered(worker, answer),
        Mail::Report(want, tell) => {
            // Whoever asked may be gone.
            let _ = tell.send(outside::make_report(worker, want));
        }
        Mail::Pulse(tell) => {
            let _ = tell.send(placement::pulse(worker));
        }
        Mail::KillAnyones(order) => outside::kill(worker, &order),
        Mail::Check(moving) => {
            if let Some(checks) = &worker.checks {
                checks.arrive(moving);
            }
        }
        Mail::CheckNow(server) => {
            if let Some(checks) = &worker.checks {
                checks.hasten(server);
            }
        }
        Mail::ServerDown(server) => route::abandon(worker, server),
        Mail::NotWriter(server) => route::leave_line(worker, worker.at(server)),
        Mail::Rerouted => route::release(worker),
        Mail::CloseIdle(server) => ages::close_idle_for(worker, worker.at(server), Duration::ZERO),
        Mail::Stop => {
            pins::log(worker);
            for client in worker.clients.borrow().values() {
                ages::stop_client(worker, client);
            }
        }
        Mail::Abort => {}
    }
}

/// Looks at what has an age; at all of it if `all` is true.
fn tick(worker: &Rc<Worker>, all: bool) {
    crate::clock::tick();
    rights::look(worker);
    late::expire(worker);
    route::release(worker);
    if worker.plan.server.pipeline > 1 {
        ahead::look_after(worker);
    }
    if all {
        crate::turns::look();
        worker.servers.iter().for_each(|local| moves::look(worker, local));
    }
    if all || worker.is_stopping() {
        ages::expire_clients(worker);
        ages::expire_links(worker);
        accounts::look_after(worker);
        hidden::look_after(worker);
    }
    if worker.plan.server.parking == Parking::Locks {
        waits::look(worker);
    }
    // A waiter never depends on one wake-up alone.
    for local in &worker.servers {
        if local.gate.borrow().waiting() > 0 {
            supply::take_back_idle(worker, local.server.id);
            admit::pump(worker, local.server.id);
        }
    }
}

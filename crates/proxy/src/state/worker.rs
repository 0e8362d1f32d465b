//! A worker: one thread, one event loop ([`crate::run::event_loop`]), and all that it owns. Nothing of it is shared but
//! through [`Shared`] and mail.

use std::cell::{Cell, Ref, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use engine::account::guessing::Guesses;
use engine::account::name::UserName;
use engine::classes::{ClassId, Classes};
use engine::descriptors::Descriptors;
use engine::form_notes::FormNotes;
use engine::intent::Readings;
use engine::kept;
use engine::kill::FIRST_CLIENT_ID;
use engine::numbers::NumberMap;
use engine::pace::Pace;
use engine::rights::Era;
use engine::schemas::{Alterations, Schemas};
use engine::source::Sources;
use engine::statement::rules::Rules;
use engine::time_limits::{LineRate, TimeLimits};
use tokio::sync::{Notify, mpsc, oneshot};
use view::histogram::Histogram;

use crate::cluster::Cluster;
use crate::cluster::binlog::Followers;
use crate::cluster::checks::Checks;
use crate::cluster::post::{News, Post};
use crate::cluster::servers::{ServerId, Site};
use crate::config::{AcceptedClient, Listen, Live, Plan, allowance};
use crate::fault::Kind;
use crate::mirror::Mirrors;
use crate::placement::board::Board;
use crate::pool::keys::{KeyId, Keys, Numbers};
use crate::pool::parcel;
use crate::pool::{Others, Pool};
use crate::records::{Noting, Records};
use crate::state::agenda::Agenda;
use crate::state::backend::Backend;
use crate::state::client::{Client, Dismissed, Routed, Stranded};
use crate::state::description::{Arrival, Departures};
use crate::state::in_flight::Settled;
use crate::state::kept_replies::{CachesOn, WorkerCaches};
use crate::state::local::Local;
use crate::state::memory::Memory;
use crate::state::neighbours::Neighbours;
use crate::state::orders;
use crate::state::predecessor::Former;
use crate::state::rule_hits::WorkerRules;
use crate::state::shared_run::SharedReads;
use crate::state::tally::Tally;
use crate::state::traffic::{self, ServerTraffic};
use crate::users::accounts::Accounts;
use crate::users::bequeathed::Bequeathed;
use crate::users::given::Given;
use crate::users::logins::Logins;
use crate::users::rights::Rights;
use crate::users::sight::Hidden;
use crate::users::tls::Tls;
use crate::users::{User, Users};
use crate::worker::buffers::Buffers;
use crate::worker::counters::Counters;
use crate::worker::listening::Listening;
use crate::worker::open_listener::OpenListener;

/// What all workers of the process have in common.
pub(crate) struct Shared {
    pub(crate) live: Arc<Live>,
    pub(crate) cluster: Arc<Cluster>,
    /// Of servers' binary logs.
    pub(crate) followers: Followers,
    /// Ends of statements after which a schema may be gone.
    pub(crate) alterations: Alterations,
    /// Clients connected, logged in or not.
    pub(crate) clients: AtomicUsize,
    pub(crate) placement: Arc<Board>,
    /// How many Flifos have handed over before this one.
    pub(crate) generation: u32,
    /// Sockets that are listened on.
    pub(crate) listening: Listening,
    /// The slow log and the audit log.
    pub(crate) records: Records,
    /// The numbers of the keys of backends, the same in all workers.
    pub(crate) key_numbers: Arc<Numbers>,
    pub(crate) users: Users,
    /// What the Flifo before this one knew of their passwords.
    pub(crate) bequeathed: Bequeathed,
    pub(crate) accounts: Accounts,
    pub(crate) given: Given,
    /// When rights have changed, and until when that is known.
    pub(crate) rights: Arc<Rights>,
    /// Wrong passwords.
    pub(crate) guesses: Mutex<Guesses>,
    /// Views and triggers that do what no server reports.
    pub(crate) hidden: Hidden,
    /// The Flifos before and after this one, while they talk.
    pub(crate) neighbours: Neighbours,
    pub(crate) predecessor: Former,
    /// How many workers follow which tables are written.
    pub(crate) caches_on: CachesOn,
    /// Where copies of statements run.
    pub(crate) mirrors: Mirrors,
    rules: RwLock<Arc<Rules>>,
    tls: RwLock<Arc<Tls>>,
    pub(crate) rsa: crate::users::rsa::RsaKey,
    stopping: AtomicBool,
    departing: AtomicBool,
    arriving: AtomicBool,
    mailboxes: Vec<mpsc::UnboundedSender<Mail>>,
    loads: Vec<AtomicU32>,
}

/// What workers tell each other.
#[derive(Debug)]
pub(crate) enum Mail {
    /// A slot was given back that a statement here may wait for.
    SlotFree(ServerId),
    /// A backend was closed whose place a client here may wait for.
    BackendFree(ServerId),
    /// A client of another worker waits for a place under the cap on backends: of this server, or of this user.
    BackendWanted(ServerId),
    BackendOfUserWanted(UserName),
    /// A backend is wanted for which there is no room: one that is idle here is closed. The answer is whether there was
    /// one.
    GiveUpIdle(ServerId, oneshot::Sender<bool>),
    /// Clients here lack backends: those that others keep for their messages only go back.
    TakeBackIdle(ServerId),
    /// A backend is to be opened here, whose places are taken.
    OpenBackend(ServerId, KeyId),
    /// A backend that comes from another worker.
    Backend(Box<parcel::Parcel>),
    /// A client asks to kill another one, which is here.
    Kill(orders::KillOrder),
    /// A client of this worker need not wait any longer for what another backend knows.
    Resume(u32),
    /// The answer to such an order.
    Killed(orders::KillAnswer),
    /// A job that another thread has for this worker.
    Do(Job),
    /// Something has changed with servers.
    News(News),
    /// No new statements: clients are ended as soon as they may send.
    Stop,
    /// Everything ends now.
    Abort,
}

/// What is done on a worker's thread in an iteration of its loop.
pub(crate) struct Job(Box<Work>);

type Work = dyn FnOnce(&Rc<Worker>) + Send;

impl Job {
    pub(crate) fn run(self, worker: &Rc<Worker>) {
        (self.0)(worker);
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Job")
    }
}

impl Shared {
    pub(crate) fn new(
        live: Arc<Live>,
        sites: Vec<Site>,
        users: Users,
        tls: Tls,
        descriptors: Descriptors,
        records: Records,
        mailboxes: Vec<mpsc::UnboundedSender<Mail>>,
    ) -> Self {
        let workers = mailboxes.len();
        let boxes = mailboxes.clone();
        let post = Post::new(workers, move |worker, news| {
            // A worker that is gone needs no mail.
            let _ = boxes[worker].send(Mail::News(news));
        });
        let rules = ready_rules(&live.get(), None);
        let cluster = Arc::new(Cluster::new(&live, sites, descriptors, workers, post));
        let mirrors = Mirrors::new(Arc::clone(&cluster));
        mirrors.adopt(None, &rules);
        Self {
            alterations: Alterations::default(),
            clients: AtomicUsize::new(0),
            rsa: crate::users::rsa::RsaKey::default(),
            stopping: AtomicBool::new(false),
            loads: (0..workers).map(|_| AtomicU32::new(0)).collect(),
            live,
            rights: Arc::default(),
            cluster,
            followers: Followers::default(),
            placement: Arc::default(),
            generation: 0,
            listening: Listening::default(),
            departing: AtomicBool::new(false),
            arriving: AtomicBool::new(false),
            records,
            key_numbers: Arc::default(),
            users,
            bequeathed: Bequeathed::default(),
            accounts: Accounts::default(),
            given: Given::default(),
            guesses: Mutex::default(),
            hidden: Hidden::default(),
            neighbours: Neighbours::default(),
            predecessor: Former::default(),
            caches_on: CachesOn::default(),
            mirrors,
            rules: RwLock::new(Arc::new(rules)),
            tls: RwLock::new(Arc::new(tls)),
            mailboxes,
        }
    }

    /// Has binary logs followed, if the plan in force says so.
    pub(crate) fn follow(self: &Arc<Self>) {
        self.followers.attend(&self.cluster, || {
            let shared = Arc::downgrade(self);
            Arc::new(move || {
                if let Some(shared) = shared.upgrade() {
                    shared.alterations.add();
                }
            })
        });
    }

    /// So many Flifos have handed over before this one.
    pub(crate) fn of_generation(self, generation: u32) -> Self {
        let arriving = AtomicBool::new(generation > 0);
        Self { generation, arriving, ..self }
    }

    /// What is in force.
    pub(crate) fn plan(&self) -> Arc<Plan> {
        self.live.get()
    }

    /// The rules that are in force.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Rules of this plan are in force; each worker hears of it.
    pub(crate) fn rule(&self, plan: &Plan) {
        let before = self.rules();
        let rules = ready_rules(plan, Some(&before));
        self.mirrors.adopt(Some(&before), &rules);
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    /// What clients are offered that connect now.
    pub(crate) fn tls(&self) -> Arc<Tls> {
        Arc::clone(&self.tls.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn offer(&self, tls: Tls) {
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tls);
    }

    pub(crate) fn mail(&self, worker: usize, mail: Mail) {
        // A worker that is gone needs no mail.
        let _ = self.mailboxes[worker].send(mail);
    }

    /// Has this done on a worker's thread. Its answer comes when the worker has time for it, and never if it is gone.
    pub(crate) fn ask<R: Send + 'static>(
        &self,
        worker: usize,
        job: impl FnOnce(&Rc<Worker>) -> R + Send + 'static,
    ) -> oneshot::Receiver<R> {
        let (tell, answer) = oneshot::channel();
        self.have_done(worker, move |worker| {
            // The answer may not be awaited any longer.
            let _ = tell.send(job(worker));
        });
        answer
    }

    /// Has this done on a worker's thread.
    pub(crate) fn have_done(&self, worker: usize, job: impl FnOnce(&Rc<Worker>) + Send + 'static) {
        self.mail(worker, Mail::Do(Job(Box::new(job))));
    }

    pub(crate) fn worker_count(&self) -> usize {
        self.mailboxes.len()
    }

    pub(crate) fn mail_all(&self, mail: impl Fn() -> Mail) {
        for worker in 0..self.mailboxes.len() {
            self.mail(worker, mail());
        }
    }

    /// The worker that a client of this id belongs to.
    pub(crate) fn home_of(&self, client: u32) -> usize {
        (client.saturating_sub(FIRST_CLIENT_ID) as usize) % self.mailboxes.len()
    }

    /// Asks the other workers for something.
    pub(crate) fn mail_others(&self, worker: usize, mail: impl Fn() -> Mail) {
        for other in (0..self.mailboxes.len()).filter(|other| *other != worker) {
            self.mail(other, mail());
        }
    }

    /// The less loaded of two workers, drawn by chance.
    pub(crate) fn choose_worker(&self) -> usize {
        let workers = self.loads.len();
        if workers == 1 {
            return 0;
        }
        let draw = sys::random::number() as usize;
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

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.mail_all(|| Mail::Stop);
    }

    /// Another Flifo takes over, or does so no longer.
    pub(crate) fn depart(&self, is_departing: bool) {
        self.departing.store(is_departing, Ordering::Relaxed);
    }

    /// Whether another Flifo takes over.
    pub(crate) fn is_departing(&self) -> bool {
        self.departing.load(Ordering::Relaxed)
    }

    /// Clients come from the Flifo before, or none does any more.
    pub(crate) fn arrive(&self, is_arriving: bool) {
        self.arriving.store(is_arriving, Ordering::Relaxed);
    }

    pub(crate) fn is_arriving(&self) -> bool {
        self.arriving.load(Ordering::Relaxed)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

/// One worker's own.
pub(crate) struct Worker {
    pub(crate) index: usize,
    /// A copy of its own: a statement asks it without touching a count that other threads write.
    plan: RefCell<Rc<Plan>>,
    /// What it notes of statements by that plan, and how many it has looked at.
    pub(crate) noting: Cell<Noting>,
    pub(crate) noted: Cell<u64>,
    pub(crate) shared: Arc<Shared>,
    /// Its gates, one for each server. A server that is new gets one when this worker meets it.
    servers: boxcar::Vec<Local>,
    /// There are classes that a statement may name.
    pub(crate) has_classes: Cell<bool>,
    classes: RefCell<Arc<Classes>>,
    /// Logins that Flifo decides itself, and those that the server does.
    pub(crate) logins: Rc<Logins>,
    pub(crate) pass_through_logins: Rc<Logins>,
    pub(crate) pool: Pool,
    pub(crate) clients: RefCell<NumberMap<u32, Rc<Client>>>,
    pub(crate) backends: RefCell<NumberMap<u64, Rc<Backend>>>,
    pub(crate) buffers: Buffers,
    /// Room for long commands of clients.
    pub(crate) memory: Rc<Memory>,
    pub(crate) counters: Counters,
    pub(crate) tally: Tally,
    pub(crate) pace: RefCell<Pace>,
    pub(crate) readings: RefCell<Readings<Rc<FormNotes>>>,
    pub(crate) sources: RefCell<Sources>,
    /// What logins may name as their schema.
    pub(crate) schemas: RefCell<Schemas<KeyId>>,
    /// Scratch space of [`crate::road::replies`].
    pub(crate) settled: RefCell<Vec<Settled>>,
    pub(crate) scratch: RefCell<Vec<u8>>,
    pub(crate) agenda: Agenda,
    pub(crate) sharing: SharedReads,
    /// Replies that are kept.
    pub(crate) caches: WorkerCaches,
    /// A statement that may be pipelined has joined a line.
    pub(crate) has_waiters: Notify,
    /// The last era of rights that it has looked at its idle backends for.
    pub(crate) era: Cell<Era>,
    /// Its checks of servers, if there are several.
    pub(crate) checks: Rc<Checks>,
    /// The listeners that this worker serves.
    pub(crate) listeners: RefCell<HashMap<Arc<Listen>, OpenListener>>,
    /// Clients of users that the configuration names no longer, and until when they may end their transactions.
    pub(crate) dismissed: RefCell<Vec<Dismissed>>,
    /// What is under way to the Flifo that takes over, if one does.
    pub(crate) departures: RefCell<Option<Rc<Departures>>>,
    /// Clients that have come from the Flifo before, and are not this one's own yet.
    pub(crate) arrivals: RefCell<NumberMap<u32, Arrival>>,
    /// Statements that no server can take for now.
    pub(crate) stranded: RefCell<Vec<Stranded>>,
    /// What is done with some statements.
    pub(crate) ruled: WorkerRules,
    /// Where the next look for a reader begins.
    pub(crate) next_reader: Cell<usize>,
    pub(crate) due: DueLooks,
    time_limits: RefCell<Rc<TimeLimits>>,
    /// Lines of the log on clients that have passed one of these limits.
    pub(crate) limit_lines: RefCell<LineRate>,
    next_client: Cell<u32>,
    next_backend: Cell<u64>,
}

/// When something is looked at again that takes a look at all clients.
pub(crate) struct DueLooks {
    /// Their ages.
    pub(crate) clients: Cell<Instant>,
    /// Whether they, and backends, are there still.
    pub(crate) vanished: Cell<Instant>,
}

impl Default for DueLooks {
    fn default() -> Self {
        let now = crate::worker::clock::now();
        Self { clients: Cell::new(now), vanished: Cell::new(now) }
    }
}

/// The rules of a plan, whose check has made them ready before.
fn ready_rules(plan: &Plan, earlier: Option<&Rules>) -> Rules {
    let now = crate::worker::clock::now();
    Rules::new(&plan.rules, earlier, now).unwrap_or_else(|error| {
        tracing::error!(error, "rules are not in force");
        Rules::none(now)
    })
}

/// Where the ids of a worker's clients begin: anywhere, so that those of several Flifos before one server are hardly
/// ever the same. What a server's replicas know of a session's temporary tables goes by its number.
fn first_turn(workers: usize) -> u32 {
    let mut random = [0; 4];
    let known = sys::random::fill(&mut random);
    known.map_or(0, |()| u32::from_le_bytes(random) % (FIRST_CLIENT_ID / workers as u32))
}

/// Where the numbers of a worker's backends begin: no other worker has them, and no Flifo that has handed over to this
/// one has had them. A session may have the number of a backend that stayed behind.
const fn first_backend(generation: u32, worker: usize) -> u64 {
    ((generation as u64) << 44) | ((worker as u64) << 32) | 1
}

impl Worker {
    pub(crate) fn new(index: usize, shared: Arc<Shared>) -> Self {
        let generation = shared.generation;
        let counters = Counters::default();
        let mailed = Arc::clone(&shared);
        let close_idle = Box::new(move |worker, server| {
            let (tell, closed) = oneshot::channel();
            mailed.mail(worker, Mail::GiveUpIdle(server, tell));
            closed
        });
        let classes = shared.cluster.classes();
        let time_limits = shared.plan().time_limits(classes.times());
        Self {
            index,
            plan: RefCell::new(Rc::new(Plan::clone(&shared.plan()))),
            noting: Cell::new(Noting::of(&shared.plan())),
            noted: Cell::new(index as u64),
            servers: shared.cluster.servers.all().map(|it| Local::new(index, it)).collect(),
            has_classes: Cell::new(classes.len() > 1),
            classes: RefCell::new(classes),
            logins: Logins::own(&counters.statements),
            pass_through_logins: Logins::new(shared.plan().logins_max, shared.mailboxes.len()),
            pool: Pool {
                cluster: Arc::clone(&shared.cluster),
                rights: Arc::clone(&shared.rights),
                keys: RefCell::new(Keys::new(&shared.key_numbers)),
                interned: RefCell::default(),
                others: Others { own: index, workers: shared.worker_count(), close_idle },
            },
            clients: RefCell::default(),
            backends: RefCell::default(),
            buffers: Buffers::default(),
            memory: Rc::new(Memory::new(allowance().rooms(shared.worker_count()))),
            counters,
            tally: Tally::new(shared.plan().console.digests),
            pace: RefCell::default(),
            readings: RefCell::default(),
            sources: RefCell::default(),
            schemas: RefCell::default(),
            settled: RefCell::default(),
            scratch: RefCell::default(),
            agenda: Agenda::default(),
            sharing: SharedReads::of(&shared.plan()),
            caches: WorkerCaches::default(),
            has_waiters: Notify::new(),
            era: Cell::default(),
            checks: Rc::new(Checks::new(index, &shared.cluster)),
            listeners: RefCell::default(),
            dismissed: RefCell::default(),
            departures: RefCell::default(),
            arrivals: RefCell::default(),
            stranded: RefCell::default(),
            ruled: WorkerRules::new(shared.rules()),
            next_reader: Cell::new(0),
            due: DueLooks::default(),
            time_limits: RefCell::new(Rc::new(time_limits)),
            limit_lines: RefCell::default(),
            next_client: Cell::new(first_turn(shared.mailboxes.len())),
            next_backend: Cell::new(first_backend(generation, index)),
            shared,
        }
    }

    /// What is in force, as this worker has been told. The answer stays good while another plan is adopted.
    #[inline]
    pub(crate) fn plan(&self) -> Rc<Plan> {
        Rc::clone(&self.plan.borrow())
    }

    /// How long clients may do what.
    pub(crate) fn time_limits(&self) -> Rc<TimeLimits> {
        Rc::clone(&self.time_limits.borrow())
    }

    /// The classes of statements, by name.
    #[inline]
    pub(crate) fn classes(&self) -> Ref<'_, Classes> {
        Ref::map(self.classes.borrow(), |classes| &**classes)
    }

    /// Other classes are in force, in all gates at once.
    fn reclassify(&self) {
        let old = self.classes.replace(self.shared.cluster.classes());
        self.has_classes.set(self.classes().len() > 1);
        self.locals().for_each(|it| it.gate.borrow_mut().adopt(it.server.classes()));
        for client in self.clients.borrow().values() {
            let session = client.session.borrow();
            let class =
                self.class_of(&client.user.borrow(), session.schema.as_deref(), client.peer);
            // The schema of a pass-through client is not known: it stays in its class while that is there.
            let own = self.classes().named(old.get(client.class.get()).name.as_bytes());
            client.class.set(own.filter(|_| !client.is_pooled()).unwrap_or(class));
        }
    }

    /// Another plan is in force.
    pub(crate) fn adopt(&self, plan: &Plan) {
        *self.plan.borrow_mut() = Rc::new(plan.clone());
        self.reclassify();
        *self.time_limits.borrow_mut() = Rc::new(plan.time_limits(self.classes().times()));
        self.due.clients.set(crate::worker::clock::now());
        self.noting.set(Noting::of(plan));
        self.ruled.adopt(self.shared.rules());
        self.sharing.adopt(plan);
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

    /// What this worker has of a server.
    #[inline]
    pub(crate) fn at(&self, server: ServerId) -> &Local {
        match self.servers.get(server.0) {
            Some(local) => local,
            None => self.meet(server),
        }
    }

    #[cold]
    fn meet(&self, server: ServerId) -> &Local {
        for new in self.shared.cluster.servers.all().skip(self.servers.count()) {
            self.servers.push(Local::new(self.index, new));
        }
        &self.servers[server.0]
    }

    /// What this worker has of each server that it has met.
    pub(crate) fn locals(&self) -> impl Iterator<Item = &Local> {
        self.servers.iter().map(|(_, local)| local)
    }

    /// Times of commands, of all servers together.
    pub(crate) fn times(&self, of: impl Fn(&ServerTraffic) -> &RefCell<Histogram>) -> Histogram {
        traffic::of_all(self.locals().map(|local| &local.traffic), of)
    }

    pub(crate) fn new_backend_id(&self) -> u64 {
        let id = self.next_backend.get();
        self.next_backend.set(id + 1);
        id
    }

    /// Asks something of the user whose backends have this key.
    pub(crate) fn user_of<R: Default>(&self, key: KeyId, ask: impl FnOnce(&User) -> R) -> R {
        self.pool.user_of(key, ask)
    }

    /// The class of a client's statements, unless they name another one.
    pub(crate) fn class_of(
        &self,
        user: &UserName,
        schema: Option<&[u8]>,
        peer: Option<SocketAddr>,
    ) -> ClassId {
        let plan = self.plan();
        let name = plan.class_of(user, schema, peer.map(|peer| peer.ip()));
        name.and_then(|name| self.classes().named(name.as_bytes())).unwrap_or_default()
    }

    /// Where the statements of such a client go, if a route says so.
    pub(crate) fn routed(
        &self,
        listen: &Listen,
        user: &UserName,
        schema: Option<&[u8]>,
        class: ClassId,
    ) -> Option<Routed> {
        let plan = self.plan();
        let rule = plan.route_of(&AcceptedClient {
            listen: Some(listen),
            user,
            schema,
            class: self.classes().get(class).name.as_bytes(),
        })?;
        let cluster = rule.cluster.as_ref().and_then(|name| self.shared.cluster.named(name));
        Some(Routed { mode: rule.mode, cluster: cluster.map(|members| members.id) })
    }

    /// The class that a statement names, if it exists.
    pub(crate) fn class_named_in(&self, text: &[u8]) -> Option<ClassId> {
        engine::classes::named_in(text).and_then(|name| self.classes().named(name))
    }

    /// Whether the client's server is MySQL.
    pub(crate) fn is_mysql(&self, client: &Client) -> bool {
        self.at(client.routing.server.get()).server.facts.is_mysql()
    }

    pub(crate) fn knows_process_kill(&self, client: &Client) -> bool {
        self.at(client.routing.server.get()).server.facts.knows_process_kill()
    }

    /// Whose diagnostics the client's are.
    pub(crate) fn kind_of_server(&self, client: &Client) -> kept::Server {
        if self.is_mysql(client) { kept::Server::MySql } else { kept::Server::MariaDb }
    }

    /// The client waits for no slot any more.
    pub(crate) fn leave_queue(&self, client: &Client) {
        if let Some(ticket) = client.ticket() {
            self.at(client.routing.server.get()).gate.borrow_mut().leave(ticket);
            client.set_ticket(None);
        }
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
        match (client.key.get(), client.backend()) {
            (Some(key), _) => self.user_of(key, |user| user.clients.give_back()),
            (None, Some(own)) => drop(own.origin.places.take()),
            // It has gone with its backend.
            (None, None) => {}
        }
    }

    pub(crate) fn add_backend(&self, backend: &Rc<Backend>) {
        self.backends.borrow_mut().insert(backend.id, Rc::clone(backend));
    }

    pub(crate) fn count_fault(&self, kind: Kind) {
        self.counters.faults[kind as usize].add(1);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.shared.is_stopping()
    }

    /// Whether the caller, or a caller of it, is in the middle of changing what all of its clients depend on.
    pub(crate) fn is_being_changed(&self) -> bool {
        self.clients.try_borrow().is_err()
            || self.backends.try_borrow().is_err()
            || self.pool.keys.try_borrow().is_err()
            || self.locals().any(|local| local.gate.try_borrow().is_err())
    }
}

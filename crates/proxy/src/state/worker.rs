//! A worker: one thread, one event loop ([`crate::run::event_loop`]), and all that it owns. Nothing of it is shared but
//! through [`Shared`] and mail ([`crate::state::shared`]).

use std::cell::{Cell, Ref, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use engine::account::name::UserName;
use engine::classes::{ClassId, Classes};
use engine::form_notes::FormNotes;
use engine::intent::Readings;
use engine::kept;
use engine::kill::FIRST_CLIENT_ID;
use engine::numbers::NumberMap;
use engine::pace::Pace;
use engine::rights::Era;
use engine::schemas::Schemas;
use engine::source::Sources;
use engine::time_limits::{LineRate, TimeLimits};
use tokio::sync::{Notify, oneshot};
use view::histogram::Histogram;

use crate::cluster::checks::Checks;
use crate::cluster::servers::ServerId;
use crate::config::{AcceptedClient, Listen, Plan, allowance};
use crate::fault::Kind;
use crate::pool::keys::{KeyId, Keys};
use crate::pool::{Others, Pool};
use crate::records::Noting;
use crate::state::agenda::Agenda;
use crate::state::backend::Backend;
use crate::state::client::{Client, Dismissed, Routed, Stranded};
use crate::state::description::{Arrival, Departures};
use crate::state::in_flight::Settled;
use crate::state::kept_replies::WorkerCaches;
use crate::state::local::Local;
use crate::state::memory::Memory;
use crate::state::rule_hits::WorkerRules;
use crate::state::shared::{Mail, Shared};
use crate::state::shared_run::SharedReads;
use crate::state::tally::Tally;
use crate::state::traffic::{self, ServerTraffic};
use crate::users::User;
use crate::users::logins::Logins;
use crate::worker::buffers::Buffers;
use crate::worker::counters::Counters;
use crate::worker::open_listener::OpenListener;

/// One worker's own.
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
    in_force: InForce,
    /// Its gates, one for each server. A server that is new gets one when this worker meets it.
    servers: boxcar::Vec<Local>,
    pub(crate) clients: RefCell<NumberMap<u32, Rc<Client>>>,
    pub(crate) backends: RefCell<NumberMap<u64, Rc<Backend>>>,
    pub(crate) pool: Pool,
    pub(crate) entrance: Entrance,
    /// Room for long commands of clients.
    pub(crate) memory: Rc<Memory>,
    pub(crate) spare: Spare,
    pub(crate) counters: Counters,
    pub(crate) learnt: StatementNotes,
    pub(crate) features: Features,
    pub(crate) agenda: Agenda,
    /// A statement that may be pipelined has joined a queue.
    pub(crate) has_waiters: Notify,
    /// Its checks of servers, if there are several.
    pub(crate) checks: Rc<Checks>,
    pub(crate) moves: Moves,
    pub(crate) upkeep: Upkeep,
    next: Next,
}

/// What the plan in force says.
struct InForce {
    /// A copy of its own: a statement asks it without touching a count that other threads write.
    plan: RefCell<Rc<Plan>>,
    classes: RefCell<Arc<Classes>>,
    /// There are classes that a statement may name.
    has_classes: Cell<bool>,
    time_limits: RefCell<Rc<TimeLimits>>,
}

/// Where clients come in.
pub(crate) struct Entrance {
    /// The listeners that this worker serves.
    pub(crate) listeners: RefCell<HashMap<Arc<Listen>, OpenListener>>,
    /// Logins that Flifo decides itself, and those that the server does.
    pub(crate) logins: Rc<Logins>,
    pub(crate) pass_through_logins: Rc<Logins>,
    /// What logins may name as their schema.
    pub(crate) schemas: RefCell<Schemas<KeyId>>,
}

/// Memory that is used again.
#[derive(Default)]
pub(crate) struct Spare {
    pub(crate) buffers: Buffers,
    /// Scratch space of [`crate::road::replies`].
    pub(crate) settled: RefCell<Vec<Settled>>,
    pub(crate) scratch: RefCell<Vec<u8>>,
}

/// What was learnt of statements.
pub(crate) struct StatementNotes {
    pub(crate) tally: Tally,
    pub(crate) pace: RefCell<Pace>,
    pub(crate) readings: RefCell<Readings<Rc<FormNotes>>>,
    pub(crate) sources: RefCell<Sources>,
    /// What logs are told of statements, and how many were looked at for that.
    pub(crate) noting: Cell<Noting>,
    pub(crate) noted: Cell<u64>,
}

/// What else is done with some statements.
pub(crate) struct Features {
    pub(crate) ruled: WorkerRules,
    pub(crate) sharing: SharedReads,
    /// Replies that are kept.
    pub(crate) caches: WorkerCaches,
}

/// Clients on their way from one Flifo to another.
#[derive(Default)]
pub(crate) struct Moves {
    /// What is under way to the Flifo that takes over, if one does.
    pub(crate) departures: RefCell<Option<Rc<Departures>>>,
    /// Clients that have come from the Flifo before, and are not this one's own yet.
    pub(crate) arrivals: RefCell<NumberMap<u32, Arrival>>,
}

/// What is looked at now and then.
#[derive(Default)]
pub(crate) struct Upkeep {
    /// Statements that no server can take for now.
    pub(crate) stranded: RefCell<Vec<Stranded>>,
    /// Clients of users that the configuration names no longer, and until when they may end their transactions.
    pub(crate) dismissed: RefCell<Vec<Dismissed>>,
    pub(crate) due: DueLooks,
    /// The last era of rights that its idle backends were looked at for.
    pub(crate) era: Cell<Era>,
    /// Lines of the log on clients that have passed one of their limits of time.
    pub(crate) limit_lines: RefCell<LineRate>,
}

/// Which number comes next.
struct Next {
    client: Cell<u32>,
    backend: Cell<u64>,
    /// Where the next look for a reader begins.
    reader: Cell<usize>,
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
        let generation = shared.succession.generation;
        let counters = Counters::default();
        let mailed = Arc::clone(&shared);
        let close_idle = Box::new(move |worker, server| {
            let (tell, closed) = oneshot::channel();
            mailed.mail(worker, Mail::GiveUpIdle(server, tell));
            closed
        });
        let classes = shared.cluster.classes();
        let time_limits = shared.plan().time_limits(classes.times());
        let proofs = &shared.proofs;
        Self {
            index,
            in_force: InForce {
                plan: RefCell::new(Rc::new(Plan::clone(&shared.plan()))),
                has_classes: Cell::new(classes.len() > 1),
                classes: RefCell::new(classes),
                time_limits: RefCell::new(Rc::new(time_limits)),
            },
            servers: shared.cluster.servers.all().map(|it| Local::new(index, it)).collect(),
            clients: RefCell::default(),
            backends: RefCell::default(),
            pool: Pool {
                cluster: Arc::clone(&shared.cluster),
                rights: Arc::clone(&proofs.rights),
                keys: RefCell::new(Keys::new(&proofs.key_numbers)),
                interned: RefCell::default(),
                others: Others { own: index, workers: shared.worker_count(), close_idle },
            },
            entrance: Entrance {
                listeners: RefCell::default(),
                logins: Logins::own(&counters.statements),
                pass_through_logins: Logins::new(shared.plan().logins_max, shared.worker_count()),
                schemas: RefCell::default(),
            },
            memory: Rc::new(Memory::new(allowance().rooms(shared.worker_count()))),
            spare: Spare::default(),
            counters,
            learnt: StatementNotes {
                tally: Tally::new(shared.plan().console.digests),
                pace: RefCell::default(),
                readings: RefCell::default(),
                sources: RefCell::default(),
                noting: Cell::new(Noting::of(&shared.plan())),
                noted: Cell::new(index as u64),
            },
            features: Features {
                ruled: WorkerRules::new(shared.rules()),
                sharing: SharedReads::of(&shared.plan()),
                caches: WorkerCaches::default(),
            },
            agenda: Agenda::default(),
            has_waiters: Notify::new(),
            checks: Rc::new(Checks::new(index, &shared.cluster)),
            moves: Moves::default(),
            upkeep: Upkeep::default(),
            next: Next {
                client: Cell::new(first_turn(shared.worker_count())),
                backend: Cell::new(first_backend(generation, index)),
                reader: Cell::new(0),
            },
            shared,
        }
    }

    /// What is in force, as this worker has been told. The answer stays good while another plan is adopted.
    #[inline]
    pub(crate) fn plan(&self) -> Rc<Plan> {
        Rc::clone(&self.in_force.plan.borrow())
    }

    /// How long clients may do what.
    pub(crate) fn time_limits(&self) -> Rc<TimeLimits> {
        Rc::clone(&self.in_force.time_limits.borrow())
    }

    /// The classes of statements, by name.
    #[inline]
    pub(crate) fn classes(&self) -> Ref<'_, Classes> {
        Ref::map(self.in_force.classes.borrow(), |classes| &**classes)
    }

    /// Whether there are classes that a statement may name.
    pub(crate) fn has_classes(&self) -> bool {
        self.in_force.has_classes.get()
    }

    /// Other classes are in force, in all gates at once.
    fn reclassify(&self) {
        let old = self.in_force.classes.replace(self.shared.cluster.classes());
        self.in_force.has_classes.set(self.classes().len() > 1);
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
        *self.in_force.plan.borrow_mut() = Rc::new(plan.clone());
        self.reclassify();
        *self.in_force.time_limits.borrow_mut() = Rc::new(plan.time_limits(self.classes().times()));
        self.upkeep.due.clients.set(crate::worker::clock::now());
        self.learnt.noting.set(Noting::of(plan));
        self.features.ruled.adopt(self.shared.rules());
        self.features.sharing.adopt(plan);
    }

    /// An id for a client; it says which worker the client belongs to.
    pub(crate) fn new_client_id(&self) -> u32 {
        let workers = self.shared.worker_count() as u32;
        let span = FIRST_CLIENT_ID / workers;
        loop {
            let turn = self.next.client.get();
            self.next.client.set((turn + 1) % span);
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
        let id = self.next.backend.get();
        self.next.backend.set(id + 1);
        id
    }

    /// Where the look for a reader begins: each look one further.
    pub(crate) fn next_reader(&self) -> usize {
        let first = self.next.reader.get();
        self.next.reader.set(first.wrapping_add(1));
        first
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
            let server = client.routing.server.get();
            let mut gate = self.at(server).gate.borrow_mut();
            gate.leave(ticket);
            if gate.may_give_idle() {
                self.shared.mail(self.index, Mail::BackendWanted(server));
            }
            drop(gate);
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

//! The servers behind Flifo: what all workers have in common of each.
//!
//! Owns the numbers of a server that hold for the whole process: slots, backends, what sets its limit. What one worker
//! has of a server, its gate among it, is [`crate::state::local`]'s. Knows nothing of which server a statement goes
//! to. Invariant: servers keep their places for as long as the process lives, so that a [`ServerId`] is always good. One
//! that the configuration does not name any more is *retired*: it takes nothing new, and is shown no longer.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use backend::Address;
use backend::tls::TlsError;
use engine::classes::{Class, Classes};
use engine::places::ConnectionPlaces;
use engine::slots::Slots;

use crate::cluster::auto_limit::Steer;
use crate::cluster::facts::ServerFacts;
use crate::cluster::names::Place;
use crate::cluster::queue_length::QueueLength;
use crate::cluster::tls::ServerTls;
use crate::config::{Plan, ServerRule};

/// A server's place among all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ServerId(pub(crate) usize);

/// One server, as the whole process sees it.
pub(crate) struct Server {
    pub(crate) id: ServerId,
    pub(crate) name: String,
    /// The name of its cluster.
    pub(crate) cluster: String,
    pub(crate) address: Address,
    /// Where that is now.
    pub(crate) place: Place,
    /// Statements at once in the server.
    pub(crate) slots: Arc<Slots>,
    /// Sets the limit where the configuration sets none, and neither the console nor the agent does.
    pub(crate) steer: Steer,
    /// The limit that the configuration sets; zero is none.
    limit: AtomicU32,
    /// Limits that were set while Flifo runs, on the console and by the server's agent; zero is none.
    limit_by_hand: AtomicU32,
    limit_by_agent: AtomicU32,
    /// How much of its limit may be used, in thousandths: of a server that has just come up, not all.
    growth: AtomicU32,
    /// Its agent, which tells how it is.
    pub(crate) agent: Option<Place>,
    /// Pooled backends to it.
    pub(crate) backends: Arc<ConnectionPlaces>,
    /// How statements share the slots.
    classes: RwLock<Arc<Classes>>,
    pub(crate) facts: ServerFacts,
    pub(crate) queue: QueueLength,
    tls: RwLock<Arc<ServerTls>>,
    sends_header: AtomicBool,
    is_retired: AtomicBool,
}

/// All servers that the configuration has named since Flifo was started, by their places.
#[derive(Default)]
pub(crate) struct Servers(boxcar::Vec<Arc<Server>>);

impl Servers {
    /// Those that the configuration names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.all().filter(|server| !server.is_retired())
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.0.iter().map(|(_, server)| server)
    }

    /// How many the configuration names.
    pub(crate) fn len(&self) -> usize {
        self.iter().count()
    }

    /// How many places there are, those of retired servers among them.
    pub(crate) fn places(&self) -> usize {
        self.0.count()
    }

    pub(crate) fn get(&self, id: ServerId) -> &Arc<Server> {
        &self.0[id.0]
    }

    /// The same of one that may not be there yet.
    pub(crate) fn look(&self, id: ServerId) -> Option<&Arc<Server>> {
        self.0.get(id.0)
    }

    /// The server that this one is, retired or not. With another address or agent, or in another cluster, it is another
    /// one.
    pub(crate) fn find(&self, site: &Site) -> Option<&Arc<Server>> {
        let is_same = |server: &&Arc<Server>| {
            server.name == site.rule.name
                && server.cluster == site.rule.cluster
                && server.address == site.address
                && server.agent.as_ref().map(Place::address) == site.rule.agent.as_ref()
        };
        self.all().find(is_same)
    }

    /// One thread adds servers, and gives each the id of the next place.
    pub(crate) fn add(&self, server: Arc<Server>) {
        debug_assert_eq!(server.id.0, self.places());
        self.0.push(server);
    }
}

/// What a server is made of.
pub(crate) struct Site {
    pub(crate) rule: ServerRule,
    pub(crate) address: Address,
    pub(crate) tls: ServerTls,
}

impl Site {
    /// Those that a plan names. `found`: where the server is, if the plan does not say.
    pub(crate) fn all(plan: &Plan, found: Option<&Address>) -> Result<Vec<Self>, TlsError> {
        let address = plan.server.address.as_ref().or(found);
        let rules: Vec<_> = match &*plan.servers {
            [] => address.map(|address| plan.only_server(address.clone())).into_iter().collect(),
            rules => rules.to_vec(),
        };
        let site = |rule: ServerRule| {
            let address = rule.address.clone()?;
            let options = plan.governing(&rule.cluster).server;
            Some(ServerTls::new(&rule, options, &address).map(|tls| Self { rule, address, tls }))
        };
        rules.into_iter().filter_map(site).collect()
    }
}

impl Server {
    pub(crate) fn new(
        id: ServerId,
        site: Site,
        plan: &Plan,
        classes: &Classes,
        workers: usize,
    ) -> Self {
        let Site { rule, address, tls } = site;
        let options = plan.governing(&rule.cluster).server;
        let sends_header = rule.sends_header(options);
        let limit = rule.limit.or(options.limit);
        let (connections_max, rhythm) = (rule.connections_max(options), options.rhythm);
        let cpus = Steer::cpus_of(&address);
        let steer = Steer::new(workers, connections_max, rhythm, cpus);
        let first = limit.unwrap_or_else(|| steer.limit());
        let slots = Slots::new(first, workers, crate::worker::clock::now());
        slots.let_borrow(options.borrow.unwrap_or_default());
        Self {
            id,
            name: rule.name,
            cluster: rule.cluster,
            place: Place::new(address.clone()),
            address,
            slots: Arc::new(slots),
            steer,
            limit: AtomicU32::new(limit.unwrap_or(0)),
            limit_by_hand: AtomicU32::new(0),
            limit_by_agent: AtomicU32::new(0),
            growth: AtomicU32::new(WHOLE),
            agent: rule.agent.map(Place::new),
            backends: Arc::new(ConnectionPlaces::new(
                connections_max,
                workers,
                crate::worker::clock::now(),
            )),
            classes: RwLock::new(Arc::new(classes.of_another())),
            facts: ServerFacts::default(),
            queue: QueueLength::default(),
            tls: RwLock::new(Arc::new(tls)),
            sends_header: AtomicBool::new(sends_header),
            is_retired: AtomicBool::new(false),
        }
    }

    /// Whether the configuration does not name it any more.
    pub(crate) fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Relaxed)
    }

    pub(crate) fn retire(&self, is_retired: bool) {
        self.is_retired.store(is_retired, Ordering::Relaxed);
    }

    pub(crate) fn limit_by_hand(&self) -> Option<u32> {
        Some(self.limit_by_hand.load(Ordering::Relaxed)).filter(|limit| *limit > 0)
    }

    pub(crate) fn limit_by_agent(&self) -> Option<u32> {
        Some(self.limit_by_agent.load(Ordering::Relaxed)).filter(|limit| *limit > 0)
    }

    /// `None`: as many as prove best.
    pub(crate) fn limit_by_file(&self) -> Option<u32> {
        Some(self.limit.load(Ordering::Relaxed)).filter(|limit| *limit > 0)
    }

    pub(crate) fn classes(&self) -> Arc<Classes> {
        Arc::clone(&self.classes.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Classes of these plans have followed.
    pub(crate) fn reclassify(&self, plans: &[Class]) {
        let new = Arc::new(self.classes().succeeding(plans));
        *self.classes.write().unwrap_or_else(PoisonError::into_inner) = new;
    }

    pub(crate) fn tls(&self) -> Arc<ServerTls> {
        Arc::clone(&self.tls.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether connections to it begin with a PROXY header.
    pub(crate) fn sends_header(&self) -> bool {
        self.sends_header.load(Ordering::Relaxed)
    }

    /// Takes what the configuration says of it from now on. `wake` gets each worker that has something to start.
    pub(crate) fn reconfigure(&self, site: Site, plan: &Plan, mut wake: impl FnMut(usize)) {
        let Site { rule, tls, .. } = site;
        let options = plan.governing(&rule.cluster).server;
        let limit = rule.limit.or(options.limit);
        let (connections_max, borrow) = (rule.connections_max(options), options.borrow);
        self.sends_header.store(rule.sends_header(options), Ordering::Relaxed);
        *self.tls.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tls);
        self.slots.let_borrow(borrow.unwrap_or_default());
        self.backends.set_limit(connections_max, &mut wake);
        self.steer.adopt(connections_max, options.rhythm, &self.address);
        if self.limit.swap(limit.unwrap_or(0), Ordering::Relaxed) != limit.unwrap_or(0) {
            // What was set on the console was meant in place of the old one.
            self.limit_by_hand.store(0, Ordering::Relaxed);
        }
        self.settle_limit(wake);
    }

    /// The limit that is to be in force.
    pub(crate) fn wanted_limit(&self) -> u32 {
        let set = self.limit_by_hand().or_else(|| self.limit_by_agent());
        let limit = set.or_else(|| self.limit_by_file()).unwrap_or_else(|| self.steer.limit());
        let growth = self.growth.load(Ordering::Relaxed).min(WHOLE);
        (u64::from(limit) * u64::from(growth)).div_ceil(WHOLE.into()).max(1) as u32
    }

    /// Sets the limit, or has it be again what it was without that. Answers with what it is now; `wake` gets each
    /// worker that has something to start.
    pub(crate) fn set_limit(&self, limit: Option<u32>, wake: impl FnMut(usize)) -> u32 {
        self.limit_by_hand.store(limit.unwrap_or(0), Ordering::Relaxed);
        self.settle_limit(wake)
    }

    /// Takes in what checks and the agent have come to. True: the limit is to be another one.
    pub(crate) fn guide(&self, by_agent: Option<u32>, growth: f64) -> bool {
        let before = self.wanted_limit();
        self.limit_by_agent.store(by_agent.unwrap_or(0), Ordering::Relaxed);
        self.growth.store((growth * f64::from(WHOLE)) as u32, Ordering::Relaxed);
        self.wanted_limit() != before
    }

    /// Puts the limit in force that is wanted. `wake` as above.
    pub(crate) fn settle_limit(&self, wake: impl FnMut(usize)) -> u32 {
        let limit = self.wanted_limit();
        self.slots.set_limit(limit, wake);
        limit
    }
}

/// All of a limit.
const WHOLE: u32 = 1000;

//! The servers behind Flifo: where they are, what is known of each, which is for what, and to which cluster it belongs.

pub(crate) mod agent;
pub(crate) mod auto_limit;
pub(crate) mod binlog;
pub(crate) mod checks;
pub(crate) mod dial;
pub(crate) mod facts;
pub(crate) mod followed;
pub(crate) mod members;
pub(crate) mod memory;
pub(crate) mod names;
pub(crate) mod pasts;
pub(crate) mod post;
pub(crate) mod queue_length;
pub(crate) mod reports;
pub(crate) mod roles;
pub(crate) mod seats;
pub(crate) mod servers;
pub(crate) mod tls;

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, RwLock};

use engine::account::name::UserName;
use engine::checks::scheduler::Loads;
use engine::classes::Classes;
use engine::descriptors::Descriptors;

use crate::cluster::dial::Dialer;
use crate::cluster::facts::{ServerState, Standing};
use crate::cluster::members::{ClusterId, Members};
use crate::cluster::post::{News, Post};
use crate::cluster::seats::Seats;
use crate::cluster::servers::{Server, ServerId, Servers, Site};
use crate::config::{Live, Plan};

/// All servers of all clusters, as the whole process sees them.
pub(crate) struct Cluster {
    live: Arc<Live>,
    pub(crate) servers: Arc<Servers>,
    seats: Arc<Seats>,
    /// What is known and decided of each cluster. They keep their places for as long as the process lives.
    all: boxcar::Vec<Members>,
    /// The place of the first that the configuration names.
    first: AtomicUsize,
    pub(crate) dialer: Dialer,
    pub(crate) post: Arc<Post>,
    /// The classes of statements; how they share a server is that server's.
    classes: RwLock<Arc<Classes>>,
    workers: usize,
    /// How much each worker has to do, as far as checks ask.
    pub(crate) loads: Arc<Loads>,
}

impl Cluster {
    pub(crate) fn new(
        live: &Arc<Live>,
        sites: Vec<Site>,
        descriptors: Descriptors,
        workers: usize,
        post: Post,
    ) -> Self {
        let plan = live.get();
        let dialer = Dialer::new(Arc::clone(live), descriptors);
        let cluster = Self {
            live: Arc::clone(live),
            servers: Arc::default(),
            seats: Arc::default(),
            all: boxcar::Vec::new(),
            first: AtomicUsize::new(0),
            dialer,
            post: Arc::new(post),
            classes: RwLock::new(Arc::new(Classes::new(plan.all_classes(), workers))),
            workers,
            loads: Arc::new(Loads::new(workers)),
        };
        cluster.tell_apart(&plan);
        sites.into_iter().for_each(|site| cluster.add(site, &plan));
        cluster
    }

    /// Gives each cluster that this plan names its place, if it has none yet.
    fn tell_apart(&self, plan: &Plan) {
        for name in plan.cluster_names().filter(|name| self.named(name).is_none()) {
            let (servers, post) = (Arc::clone(&self.servers), Arc::clone(&self.post));
            let (id, seats) = (ClusterId(self.all.count()), Arc::clone(&self.seats));
            let options = plan.governing(name);
            self.all.push(Members::new(id, name.to_owned(), options, seats, (servers, post)));
        }
        if self.all.count() > 1 {
            self.seats.tell_apart();
        }
        let first = plan.cluster_names().next().and_then(|name| self.named(name));
        self.first.store(first.map_or(0, |members| members.id.0), Relaxed);
    }

    fn add(&self, site: Site, plan: &Plan) {
        let id = ServerId(self.servers.places());
        let members = self.named(&site.rule.cluster).unwrap_or_else(|| self.first_cluster());
        members.add(&site.rule, plan.governing(&members.name));
        let server = Server::new(id, site, plan, &self.classes(), self.workers);
        self.servers.add(Arc::new(server));
        if self.servers.places() > 1 || !plan.servers.is_empty() {
            self.seats.route();
        }
    }

    /// Goes by another plan, in which these servers are named.
    pub(crate) fn reconfigure(&self, sites: Vec<Site>, plan: &Plan) {
        self.tell_apart(plan);
        self.clusters().for_each(|members| members.reconfigure(plan.governing(&members.name)));
        let classes = plan.all_classes();
        self.servers.all().for_each(|server| server.reclassify(&classes));
        let new = Arc::new(self.classes().succeeding(&classes));
        *self.classes.write().unwrap_or_else(PoisonError::into_inner) = new;
        let mut named = Vec::new();
        for site in sites {
            let Some(server) = self.servers.find(&site) else {
                named.push(ServerId(self.servers.places()));
                self.add(site, plan);
                continue;
            };
            named.push(server.id);
            let members = self.of(server.id);
            if server.is_retired() {
                server.retire(false);
                members.revive(server.id, &site.rule, plan.governing(&members.name));
            } else {
                members.regroup(server.id, &site.rule);
            }
            server.reconfigure(site, plan, |worker| {
                self.post.to(worker, News::SlotFree(server.id));
            });
            self.post.to_all(|| News::SlotFree(server.id));
        }
        let gone: Vec<_> =
            self.servers.iter().filter(|server| !named.contains(&server.id)).cloned().collect();
        // All of them are known to be gone before a cluster decides which server takes a place.
        for server in &gone {
            tracing::info!(
                server = server.name,
                address = %server.address,
                "the server is not named any more: its clients leave it"
            );
            server.retire(true);
        }
        gone.iter().for_each(|server| self.of(server.id).retire(server.id));
    }

    /// The cluster of this name, if there is one or was.
    pub(crate) fn named(&self, name: &str) -> Option<&Members> {
        self.clusters().find(|members| members.name == name)
    }

    /// All clusters, those among them that the configuration does not name any more.
    pub(crate) fn clusters(&self) -> impl Iterator<Item = &Members> {
        self.all.iter().map(|(_, members)| members)
    }

    /// The cluster that serves those that name none.
    pub(crate) fn first_cluster(&self) -> &Members {
        // It is there before any server is.
        &self.all[self.first.load(Relaxed)]
    }

    /// The server in whose words pooled clients are greeted: one of the first cluster that has been met, if there is one.
    pub(crate) fn greeter(&self) -> &Server {
        self.greeter_in(self.first_cluster().id)
    }

    /// The same of another cluster.
    pub(crate) fn greeter_in(&self, cluster: ClusterId) -> &Server {
        let Some(members) = self.routes(cluster) else { return self.first() };
        let is_known = |id: &ServerId| self.server(*id).facts.greeting().is_some();
        let mut ids = members.servers().map(|server| server.id);
        let met = members.writer().filter(is_known).or_else(|| ids.find(is_known));
        self.server(met.unwrap_or_else(|| self.first_of(members)))
    }

    /// The server that is asked about a user: of the cluster of its clients.
    pub(crate) fn asked_of(&self, plan: &Plan, user: &UserName) -> &Server {
        match self.are_several() {
            true => self.greeter_in(self.serving(plan, user)),
            false => self.greeter(),
        }
    }

    /// The first server of a cluster that the configuration names. Of one that is not named any more, the first of all.
    pub(crate) fn first_of(&self, members: &Members) -> ServerId {
        members.servers().next().map_or_else(|| self.first().id, |server| server.id)
    }

    /// A server's cluster.
    pub(crate) fn of(&self, server: ServerId) -> &Members {
        &self.all[self.seats.get(server).cluster.0]
    }

    /// Whether there is, or was, more than one cluster.
    #[inline]
    pub(crate) fn are_several(&self) -> bool {
        self.seats.are_several()
    }

    /// A cluster by its place.
    pub(crate) fn get(&self, cluster: ClusterId) -> &Members {
        &self.all[cluster.0]
    }

    /// The cluster of a user's clients, as far as no schema says otherwise.
    pub(crate) fn serving(&self, plan: &Plan, user: &UserName) -> ClusterId {
        let named = plan.cluster_of_user(user).and_then(|name| self.named(name));
        named.unwrap_or_else(|| self.first_cluster()).id
    }

    /// Whether what `server.accounts_user` reads of definitions is this cluster's.
    pub(crate) fn is_common(&self, plan: &Plan, cluster: ClusterId) -> bool {
        let reader = plan.server.accounts_user.as_deref().map(UserName::of_account);
        !self.are_several() || reader.is_none_or(|it| self.serving(plan, &it) == cluster)
    }

    pub(crate) fn classes(&self) -> Arc<Classes> {
        Arc::clone(&self.classes.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is in force.
    pub(crate) fn plan(&self) -> Arc<Plan> {
        self.live.get()
    }

    pub(crate) fn server(&self, id: ServerId) -> &Server {
        self.servers.get(id)
    }

    /// The server that is meant where none is named: the only one, or the first of the configuration.
    pub(crate) fn first(&self) -> &Server {
        // One is always named: the configuration is refused otherwise.
        let first = self.first_cluster().servers().next().or_else(|| self.servers.iter().next());
        first.unwrap_or_else(|| self.servers.get(ServerId::default()))
    }

    /// Whether statements are routed: there is more than one server, or was, or a list of them.
    #[inline]
    pub(crate) fn is_routed(&self) -> bool {
        self.seats.are_routed()
    }

    /// What routes in this cluster go by, where statements are routed.
    #[inline]
    pub(crate) fn routes(&self, cluster: ClusterId) -> Option<&Members> {
        self.is_routed().then(|| self.get(cluster))
    }

    /// What routes go by that lead to this server, where statements are routed.
    #[inline]
    pub(crate) fn routes_at(&self, server: ServerId) -> Option<&Members> {
        self.is_routed().then(|| self.of(server))
    }

    /// How a server is. Of the only one, a connection that fails says that sooner than checks, of which one may fail.
    pub(crate) fn state_of(&self, server: &Server) -> ServerState {
        // What is paused is up as far as checks tell.
        if self.is_routed() && server.facts.standing() != Standing::Paused {
            return self.of(server.id).watched(server.id).into();
        }
        let seen = server.facts.state();
        match seen.name == "up" && self.asks() {
            true => self.of(server.id).watched(server.id).into(),
            false => seen,
        }
    }

    /// Whether statements can be served.
    pub(crate) fn is_ready(&self) -> bool {
        self.servers.iter().any(|server| {
            let is_served = matches!(self.state_of(server).name, "up" | "going down");
            server.facts.standing() == Standing::Up && is_served
        })
    }

    /// How each server is, and why.
    pub(crate) fn states(&self) -> String {
        let each = self.servers.iter().map(|server| {
            let state = self.state_of(server);
            let reason = state.reason.map(|reason| format!(": {reason}"));
            format!("{}: {}{}", server.name, state.name, reason.unwrap_or_default())
        });
        each.collect::<Vec<_>>().join("; ")
    }

    /// Whether servers are asked how they are. The only server is not where there is no account for that: a connection
    /// that ends before a login counts as an error of Flifo's host there, and a server that has seen a hundred of them
    /// in a row (`max_connect_errors`) refuses all that come from it.
    pub(crate) fn asks(&self) -> bool {
        self.is_routed() || checks::asks_only_server(&self.plan())
    }

    /// Sets the limit of a server; see [`Server::set_limit`].
    pub(crate) fn set_limit(&self, server: &Server, limit: Option<u32>) -> u32 {
        let wake = |worker| self.post.to(worker, News::SlotFree(server.id));
        let limit = server.set_limit(limit, wake);
        self.post.to_all(|| News::SlotFree(server.id));
        limit
    }
}

#[cfg(test)]
mod tests;

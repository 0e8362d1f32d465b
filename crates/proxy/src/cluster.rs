//! The servers behind Flifo: where they are, what is known of each, and which is for what.

pub(crate) mod agent;
pub(crate) mod auto_limit;
pub(crate) mod checks;
pub(crate) mod dial;
pub(crate) mod facts;
pub(crate) mod members;
pub(crate) mod names;
pub(crate) mod post;
pub(crate) mod queue_length;
pub(crate) mod reports;
pub(crate) mod roles;
pub(crate) mod servers;
pub(crate) mod tls;

use std::sync::{Arc, PoisonError, RwLock};

use engine::classes::Classes;
use engine::descriptors::Descriptors;

use crate::cluster::dial::Dialer;
use crate::cluster::facts::{ServerState, Standing};
use crate::cluster::members::Members;
use crate::cluster::post::{News, Post};
use crate::cluster::servers::{Server, ServerId, Servers, Site};
use crate::config::{Live, Plan};

/// All servers, as the whole process sees them.
pub(crate) struct Cluster {
    live: Arc<Live>,
    pub(crate) servers: Arc<Servers>,
    /// What is known and decided of them.
    pub(crate) members: Members,
    pub(crate) dialer: Dialer,
    pub(crate) post: Arc<Post>,
    /// The classes of statements; how they share a server is that server's.
    classes: RwLock<Arc<Classes>>,
    workers: usize,
}

impl Cluster {
    pub(crate) fn new(
        live: &Arc<Live>,
        sites: Vec<Site>,
        descriptors: Descriptors,
        workers: usize,
        post: Post,
    ) -> Self {
        let (servers, post) = (Arc::new(Servers::default()), Arc::new(post));
        let plan = live.get();
        let members = Members::new(&plan, workers, Arc::clone(&servers), Arc::clone(&post));
        let dialer = Dialer { live: Arc::clone(live), descriptors };
        let classes = RwLock::new(Arc::new(Classes::new(plan.all_classes(), workers)));
        let live = Arc::clone(live);
        let cluster = Self { live, servers, members, dialer, post, classes, workers };
        sites.into_iter().for_each(|site| cluster.add(site, &plan));
        cluster
    }

    fn add(&self, site: Site, plan: &Plan) {
        let id = ServerId(self.servers.places());
        self.members.add(&site.rule, plan);
        let server = Server::new(id, site, plan, &self.classes(), self.workers);
        self.servers.add(Arc::new(server));
    }

    /// Goes by another plan, in which these servers are named.
    pub(crate) fn reconfigure(&self, sites: Vec<Site>, plan: &Plan) {
        self.members.reconfigure(plan);
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
            if server.is_retired() {
                server.retire(false);
                self.members.revive(server.id, &site.rule, plan);
            } else {
                self.members.regroup(server.id, &site.rule);
            }
            server.reconfigure(site, plan, |worker| {
                self.post.to(worker, News::SlotFree(server.id));
            });
            self.post.to_all(|| News::SlotFree(server.id));
        }
        for server in self.servers.iter().filter(|server| !named.contains(&server.id)) {
            tracing::info!(
                server = server.name,
                address = %server.address,
                "the server is not named any more: its clients leave it"
            );
            server.retire(true);
            self.members.retire(server.id);
        }
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
        self.servers.iter().next().unwrap_or_else(|| self.servers.get(ServerId::default()))
    }

    /// What routes go by, where statements are routed.
    #[inline]
    pub(crate) fn routes(&self) -> Option<&Members> {
        self.members.is_routed().then_some(&self.members)
    }

    /// How a server is. Of the only one, a connection that fails says that sooner than checks, of which one may fail.
    pub(crate) fn state_of(&self, server: &Server) -> ServerState {
        // What is paused is up as far as checks tell.
        if self.members.is_routed() && server.facts.standing() != Standing::Paused {
            return self.members.watched(server.id).into();
        }
        let seen = server.facts.state();
        match seen.name == "up" && self.asks() {
            true => self.members.watched(server.id).into(),
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
        self.members.is_routed() || checks::asks_only_server(&self.plan())
    }

    /// Sets the limit of a server; see [`Server::set_limit`].
    pub(crate) fn set_limit(&self, server: &Server, limit: Option<u32>) -> u32 {
        let wake = |worker| self.post.to(worker, News::SlotFree(server.id));
        let limit = server.set_limit(limit, wake);
        self.post.to_all(|| News::SlotFree(server.id));
        limit
    }
}

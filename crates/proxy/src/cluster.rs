//! The servers behind Flifo: where they are, what is known of each, and which is for what.

pub(crate) mod agent;
pub(crate) mod auto_limit;
pub(crate) mod checks;
pub(crate) mod dial;
pub(crate) mod facts;
pub(crate) mod members;
pub(crate) mod names;
pub(crate) mod post;
pub(crate) mod roles;
pub(crate) mod servers;
pub(crate) mod tls;

use std::sync::Arc;

use engine::descriptors::Descriptors;

use crate::cluster::dial::Dialer;
use crate::cluster::facts::ServerState;
use crate::cluster::members::Members;
use crate::cluster::post::{News, Post};
use crate::cluster::servers::{Server, ServerId};
use crate::config::{Live, Plan};

/// All servers, as the whole process sees them.
pub(crate) struct Cluster {
    live: Arc<Live>,
    pub(crate) servers: Arc<[Arc<Server>]>,
    /// What is decided of them, if there are several.
    pub(crate) members: Option<Members>,
    pub(crate) dialer: Dialer,
    pub(crate) post: Arc<Post>,
}

impl Cluster {
    pub(crate) fn new(
        live: &Arc<Live>,
        servers: Vec<Arc<Server>>,
        descriptors: Descriptors,
        workers: usize,
        post: Post,
    ) -> Self {
        let (servers, post): (Arc<[_]>, _) = (servers.into(), Arc::new(post));
        let members = Members::new(&live.get(), workers, Arc::clone(&servers), Arc::clone(&post));
        let dialer = Dialer { live: Arc::clone(live), descriptors };
        Self { live: Arc::clone(live), servers, members, dialer, post }
    }

    /// What is in force.
    pub(crate) fn plan(&self) -> Arc<Plan> {
        self.live.get()
    }

    pub(crate) fn server(&self, id: ServerId) -> &Server {
        &self.servers[id.0]
    }

    /// The server that is asked what all servers have in common.
    pub(crate) fn first(&self) -> &Server {
        &self.servers[0]
    }

    /// How a server is.
    pub(crate) fn state_of(&self, server: &Server) -> ServerState {
        match &self.members {
            Some(members) => members.watched(server.id).into(),
            None => server.facts.state(),
        }
    }

    /// Sets the limit of a server; see [`Server::set_limit`].
    pub(crate) fn set_limit(&self, server: &Server, limit: Option<u32>) -> u32 {
        let wake = |worker| self.post.to(worker, News::SlotFree(server.id));
        let limit = server.set_limit(limit, wake);
        self.post.to_all(|| News::SlotFree(server.id));
        limit
    }
}

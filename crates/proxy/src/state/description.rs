//! Clients and backends as they are written down for the Flifo that takes over from this one.
//!
//! Servers and users go by their names: their places are others in each process. A reader refuses what it does not know
//! ([`engine::described`]), and then the client stays where it is. [`FORM`] is raised with each change of what is
//! written here or of a session (`engine`'s golden `session.json`).

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use engine::account::name::UserName;
use engine::backend_session::{BackendSession, Packed};
use engine::kill::Scope;
use engine::numbers::NumberMap;
use engine::pin::Pin;
use engine::rights::PreparedChanges;
use engine::session::Session;
use serde::{Deserialize, Serialize};
use view::digests::Told;
use wire::Capabilities;

use crate::cluster::servers::{Server, Servers};
use crate::config::Mode;
use crate::pool::keys::Key;
use crate::state::backend::Taint;
use crate::state::client::Client;
use crate::state::orders::KillOrder;
use crate::users::bequeathed::Bequest;
use crate::worker::counters::Totals;

/// The number of this form.
pub(crate) const FORM: u32 = 7;

/// A client at rest, with what it has sent that is still to be read.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClientDescription {
    pub(crate) id: u32,
    pub(crate) capabilities: u64,
    pub(crate) peer: Option<SocketAddr>,
    /// The address that it came in by, and the name of its program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) listener: Option<String>,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "engine::described::some_bytes"
    )]
    pub(crate) program: Option<Vec<u8>>,
    pub(crate) user: UserName,
    /// `None`: it is passed through.
    pub(crate) key: Option<KeyDescription>,
    pub(crate) session: Session,
    pub(crate) mode: Mode,
    /// The same, if a route says so: then it is so in all clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mode_by_route: Option<Mode>,
    /// The cluster that the route names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cluster_by_route: Option<String>,
    pub(crate) server: ServerDescription,
    pub(crate) several: Option<bool>,
    #[serde(with = "engine::described::some_bytes")]
    pub(crate) gtid: Option<Vec<u8>>,
    /// Servers that have taken its writes, that of the last one at the end.
    pub(crate) wrote: Vec<ServerDescription>,
    pub(crate) prepared_changes: Option<PreparedChanges>,
    pub(crate) pinned: Option<(Pin, Duration)>,
    /// How long its transaction has been open.
    pub(crate) transaction: Option<Duration>,
    /// How long ago it has logged in.
    pub(crate) age: Duration,
    #[serde(with = "engine::described::bytes")]
    pub(crate) more: Vec<u8>,
    pub(crate) login_sequence: Option<u8>,
    /// The backend that it holds.
    pub(crate) backend: Option<BackendDescription<BackendSession>>,
}

/// What a client and its backends have in common; see [`Key`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyDescription {
    user: UserName,
    capabilities: u64,
    collation: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerDescription {
    name: String,
    address: String,
}

/// A backend on which nothing is in flight.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackendDescription<S> {
    pub(crate) server: ServerDescription,
    pub(crate) key: Option<KeyDescription>,
    pub(crate) thread_id: u32,
    pub(crate) capabilities: u64,
    pub(crate) age: Duration,
    pub(crate) session: S,
    /// Ids of statements that are to be closed.
    pub(crate) statements: Vec<u32>,
    /// Commands without replies that go ahead of the next one.
    #[serde(with = "engine::described::bytes")]
    pub(crate) ahead: Vec<u8>,
    pub(crate) taint: Taint,
    /// It is closed when its client does without it.
    pub(crate) is_left_behind: bool,
}

impl<S> BackendDescription<S> {
    /// The same with a session of another form.
    pub(crate) fn map<T>(self, read: impl FnOnce(S) -> T) -> BackendDescription<T> {
        let Self { server, key, thread_id, capabilities, age, session, .. } = self;
        let Self { statements, ahead, taint, is_left_behind, .. } = self;
        let session = read(session);
        BackendDescription {
            server,
            key,
            thread_id,
            capabilities,
            age,
            session,
            statements,
            ahead,
            taint,
            is_left_behind,
        }
    }
}

/// A backend that no client has.
pub(crate) type IdleDescription = BackendDescription<Packed>;

impl KeyDescription {
    pub(crate) fn of(key: &Key) -> Self {
        let Key { user, capabilities, collation, era: _ } = key;
        Self { user: user.clone(), capabilities: capabilities.0, collation: *collation }
    }

    pub(crate) const fn user(&self) -> &UserName {
        &self.user
    }

    /// The key, for a user of this era, of clients or backends with these capabilities. Older Flifos do not keep those
    /// apart whose results end in different ways.
    pub(crate) fn key(&self, era: u32, own: u64) -> Key {
        let ends = Capabilities(own) & Capabilities::DEPRECATE_EOF;
        let capabilities = Capabilities(self.capabilities).without(Capabilities::DEPRECATE_EOF);
        Key::new(self.user.clone(), capabilities | ends, self.collation).of_era(era)
    }
}

impl ServerDescription {
    pub(crate) fn of(server: &Server) -> Self {
        Self { name: server.name.clone(), address: server.address.to_string() }
    }

    /// The server that the configuration of this process means by it.
    pub(crate) fn find<'a>(&self, servers: &'a Servers) -> Option<&'a Server> {
        servers.iter().map(|server| &**server).find(|server| Self::of(server) == *self)
    }
}

/// A client that has come, and is served as soon as it is this process's own.
#[derive(Default)]
pub(crate) struct Arrival {
    /// `None`: what it needs here is still looked for, or it is about to be served.
    pub(crate) arrived: Option<Arrived>,
    /// Orders to kill it, which wait for that.
    pub(crate) orders: Vec<KillOrder>,
}

pub(crate) struct Arrived {
    pub(crate) client: ClientDescription,
    pub(crate) socket: OwnedFd,
    pub(crate) backend_socket: Option<OwnedFd>,
}

/// What two Flifos tell each other of orders to kill whose victim the other one may have. A ticket is the sender's
/// number of its own order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) enum KillMessage {
    Order { ticket: u64, victim: u32, scope: Scope, user: UserName },
    Answer { ticket: u64, result: KillResult },
}

/// What the other process has found of a victim.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) enum KillResult {
    Done,
    NotOwner,
    AtServer(ServerDescription, u32),
    Unknown,
}

/// What a worker tells the other process.
#[derive(Debug)]
pub(crate) enum Departure {
    Client {
        worker: usize,
        id: u32,
        description: Vec<u8>,
        files: Vec<OwnedFd>,
    },
    Backend {
        worker: usize,
        description: Vec<u8>,
        file: OwnedFd,
    },
    /// The client is the other process's own now.
    Yours {
        worker: usize,
        id: u32,
    },
    /// What is known of the password of a user whose client comes next.
    Secret(Bequest),
    /// What was counted since that was last told.
    Count(Totals),
    /// What statements have cost.
    Digests(Vec<Told>),
    Kill(KillMessage),
    /// Nothing more comes.
    End,
}

/// What the other process says of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reception {
    Taken,
    /// It stays here for now.
    Refused,
}

/// What a worker has to do with its successor.
pub(crate) struct Departures {
    pub(crate) tell: mpsc::Sender<Departure>,
    /// Clients of which the other process has not said yet whether it takes them.
    pub(crate) under_way: RefCell<NumberMap<u32, Rc<Client>>>,
    /// Clients that the other process has not taken, until it is asked again.
    pub(crate) refused: RefCell<HashSet<u32>>,
    /// Users of whose passwords it has been told.
    pub(crate) told_of: RefCell<HashSet<UserName>>,
    pub(crate) ask_again: Cell<Instant>,
    /// Clients that read nothing any more, and go as soon as they have nothing to do.
    pub(crate) held: RefCell<Vec<Rc<Client>>>,
    pub(crate) has_sent_idle: Cell<bool>,
    pub(crate) is_over: Cell<bool>,
}

//! What a configuration says of several servers: where they are, how they are checked, what goes where.

use std::path::{Path, PathBuf};
use std::time::Duration;

use backend::tls::{ForBackends, Identity, Mode as TlsMode};
use engine::account::name::UserName;
use engine::checks::health::CheckRules;
use engine::cluster::{Gaps, Group, WriterReads};
use engine::time_limits::Bound;
use serde::{Deserialize, Serialize};
use wire::auth::Secret;

use super::{Listen, Plan, ServerOptions};

/// One of several servers.
#[derive(Clone, Debug)]
pub struct ServerRule {
    pub name: String,
    pub address: Option<backend::Address>,
    /// The cluster that it belongs to.
    pub cluster: String,
    pub group: Group,
    pub weight: u32,
    pub backup: bool,
    /// By default, that of all servers.
    pub limit: Option<u32>,
    /// Likewise.
    pub connections_max: Option<u32>,
    pub lag_max: Bound,
    /// What is another one than that of all servers.
    pub tls: ServerRuleTls,
    /// By default, as for all servers.
    pub send_proxy: Option<bool>,
    /// The address of its agent, which tells how it is.
    pub agent: Option<backend::Address>,
}

impl Default for ServerRule {
    fn default() -> Self {
        Self {
            name: String::new(),
            address: None,
            cluster: super::MAIN.to_owned(),
            group: Group::Auto,
            weight: 100,
            backup: false,
            limit: None,
            connections_max: None,
            lag_max: Bound::default(),
            tls: ServerRuleTls::default(),
            send_proxy: None,
            agent: None,
        }
    }
}

/// The TLS of connections to one server, as far as it is not that of all.
#[derive(Clone, Debug, Default)]
pub struct ServerRuleTls {
    pub mode: Option<TlsMode>,
    pub ca: Option<PathBuf>,
    pub identity: Option<Identity>,
    pub server_name: Option<String>,
}

impl ServerRule {
    /// The most backend connections to this server.
    pub(crate) fn connections_max(&self, options: &ServerOptions) -> u32 {
        self.connections_max.unwrap_or(options.connections_max)
    }

    /// Whether connections to this server begin with a PROXY header.
    pub(crate) fn sends_header(&self, options: &ServerOptions) -> bool {
        self.send_proxy.unwrap_or(options.send_proxy)
    }

    /// The TLS of connections to this server, and the name that it must show if one is told.
    pub(crate) fn tls_to<'a>(
        &'a self,
        options: &'a ServerOptions,
    ) -> (ForBackends, Option<&'a str>) {
        let (own, all) = (&self.tls, &options.tls);
        let mode = own.mode.unwrap_or(all.mode);
        let tls = ForBackends {
            mode,
            // What is named for all servers verifies those that are to be verified.
            ca: own.ca.as_ref().or(all.ca.as_ref()).filter(|_| mode.verifies()).cloned(),
            identity: own.identity.clone().or_else(|| all.identity.clone()),
        };
        (tls, own.server_name.as_deref().or(options.tls_server_name.as_deref()))
    }

    /// The files of its own TLS.
    pub(in crate::config) fn files(&self) -> impl Iterator<Item = &Path> {
        let own = self.tls.identity.as_ref();
        let identity = [own.map(|it| &*it.certificate), own.map(|it| &*it.key)];
        identity.into_iter().chain([self.tls.ca.as_deref()]).flatten()
    }
}

/// How results that are kept end by what was written beside this Flifo.
#[derive(Clone, Debug)]
pub struct CacheOptions {
    pub binlog: bool,
    pub binlog_lag_max: Duration,
    /// By default, the user of checks.
    pub binlog_user: Option<String>,
    /// By default, a random one.
    pub binlog_server_id: Option<u32>,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            binlog: false,
            binlog_lag_max: Duration::from_secs(1),
            binlog_user: None,
            binlog_server_id: None,
        }
    }
}

/// How servers are checked.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    pub kind: CheckKind,
    /// The user that checks log in as; by default, the first one whose password is known.
    pub user: Option<String>,
    /// Its password, where it is none of the users.
    pub password: Option<Secret>,
    /// Where that was read from, if from a file of its own.
    pub password_file: Option<PathBuf>,
    pub statement: Option<String>,
    pub expect: Option<String>,
    pub rules: CheckRules,
    pub timeout: Duration,
    /// How often agents are asked.
    pub agent_inter: Duration,
    /// CheckOptions that run in a worker at once.
    pub at_once: u32,
    /// Where is written down what is known of servers, for the next process.
    pub state_file: Option<PathBuf>,
}

impl Default for CheckOptions {
    fn default() -> Self {
        let second = Duration::from_secs(1);
        Self {
            kind: CheckKind::Auto,
            user: None,
            password: None,
            password_file: None,
            statement: None,
            expect: None,
            rules: CheckRules { inter: second, downinter: second, ..CheckRules::default() },
            timeout: second,
            agent_inter: second * 2,
            at_once: 32,
            state_file: None,
        }
    }
}

/// What a check does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckKind {
    /// Asks for the server's role, if there is a user to log in as.
    Auto,
    Connect,
    Handshake,
    Ping,
    Statement,
    /// Nothing.
    None,
}

impl CheckKind {
    /// Whether it needs a login.
    pub(crate) const fn needs_login(self) -> bool {
        matches!(self, Self::Ping | Self::Statement)
    }
}

/// Which statements go where.
#[derive(Clone, Debug)]
pub struct Routing {
    pub mode: Mode,
    pub reads: Freshness,
    pub reads_by: ReadsBy,
    /// What a text names in a comment is found where it reads.
    pub gtid_comments: bool,
    pub stay: Duration,
    pub lag_max: Option<Duration>,
    pub gaps: Gaps,
    /// So many readers are read from however far they are behind.
    pub readers_min: u32,
    /// So many nodes of a cluster are written to at once.
    pub writers: u32,
    pub writer_reads: WriterReads,
    /// How long a statement is held back that no server can take.
    pub hold: Duration,
}

impl Default for Routing {
    fn default() -> Self {
        Self {
            mode: Mode::Writer,
            reads: Freshness::OwnWrites,
            reads_by: ReadsBy::Connection,
            gtid_comments: false,
            stay: Duration::from_secs(5),
            lag_max: Some(Duration::from_secs(10)),
            gaps: Gaps::Confirm,
            readers_min: 0,
            writers: 1,
            writer_reads: WriterReads::WithoutReader,
            hold: Duration::from_secs(10),
        }
    }
}

/// Where a client's statements go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    #[default]
    Writer,
    Readers,
    /// What only reads goes to readers, all else to the writer.
    Split,
}

/// What a client sees of what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    OwnWrites,
    /// The same, and nothing older than it has read.
    Monotonic,
    Any,
}

/// Whose writes and reads are a client's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadsBy {
    Connection,
    /// Those of all connections of its user.
    User,
    /// Those of its user's that come from the same program.
    Program,
}

/// Where the statements of some clients go.
#[derive(Clone, Debug, Default)]
pub struct RouteRule {
    pub mode: Mode,
    /// `None`: that of the client's user.
    pub cluster: Option<String>,
    /// Of these; of all, where none is named.
    pub listen: Vec<Listen>,
    pub users: Vec<String>,
    pub schemas: Vec<String>,
    pub classes: Vec<String>,
}

/// A client, as far as routes ask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AcceptedClient<'a> {
    pub(crate) listen: Option<&'a Listen>,
    pub(crate) user: &'a UserName,
    pub(crate) schema: Option<&'a [u8]>,
    pub(crate) class: &'a [u8],
}

impl RouteRule {
    fn fits(&self, accepted: &AcceptedClient<'_>) -> bool {
        let is_of =
            |names: &[String], name: &[u8]| names.iter().any(|known| known.as_bytes() == name);
        (self.listen.is_empty() || accepted.listen.is_some_and(|it| self.listen.contains(it)))
            && (self.users.is_empty() || self.users.iter().any(|name| *accepted.user == **name))
            && (self.schemas.is_empty()
                || accepted.schema.is_some_and(|it| is_of(&self.schemas, it)))
            && (self.classes.is_empty() || is_of(&self.classes, accepted.class))
    }
}

impl Plan {
    /// What says where such a client's statements go, if one of the routes does; else its cluster says it.
    pub(crate) fn route_of(&self, accepted: &AcceptedClient<'_>) -> Option<&RouteRule> {
        self.routes.iter().find(|rule| rule.fits(accepted))
    }
}

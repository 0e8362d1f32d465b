//! What a configuration means: typed, complete and free of contradictions.
//!
//! Owns the default of every option: the reference and the sample read them from here. Knows no
//! text, no positions and no files; [`super::parse`] makes a [`Plan`] from a text. Secrets are
//! never shown.

mod clusters;
mod members;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::account::name::UserName;
use engine::classes::{CLASSES_MAX, Class};
use engine::cluster::Group;
use engine::init_connect::InitConnect;
use engine::limit::Rhythm;
use engine::placement::{Policy, Remedy};
use engine::sharing::ShareReads;
use engine::statement::firewall::FirewallMode;
use engine::statement::rule::Rule;
use engine::time_limits::{AllLimits, Bound, TimeBounds, TimeLimits};
use sys::cpus::Cpus;
use view::audit::AuditKind;
use view::logged::Literals;
use wire::auth::{Plugin, Secret, native, sha_crypt};

use super::allowance::allowance;

pub use self::clusters::{ClusterOptions, ClusterRule};
pub(crate) use self::clusters::{Governing, MAIN};
pub(crate) use self::members::AcceptedClient;
pub use self::members::{
    CacheOptions, CheckKind, CheckOptions, Freshness, Mode, ReadsBy, RouteRule, Routing, ServerRule,
};

/// Everything that Flifo has been told.
#[derive(Clone, Debug)]
pub struct Plan {
    pub listen: Vec<Listen>,
    /// By default, as many as suit the machine.
    pub workers: Option<u32>,
    pub clients_max: u32,
    pub logins_max: u32,
    pub backlog: u32,
    /// Whether files that options name are read again when they change.
    pub watch_files: bool,
    pub server: ServerOptions,
    pub tls: ClientTls,
    pub proxy_protocol: ProxyProtocol,
    pub limits: Limits,
    pub logs: Logs,
    pub console: Console,
    pub http: Http,
    pub placement: Placement,
    pub hardening: Hardening,
    pub users: Vec<UserOptions>,
    pub classes: Vec<ClassRule>,
    /// Instead of the one of `server`.
    pub servers: Vec<ServerRule>,
    /// Those that the servers belong to, if there are several.
    pub clusters: Vec<ClusterRule>,
    pub checks: CheckOptions,
    pub cache: CacheOptions,
    pub routing: Routing,
    pub routes: Vec<RouteRule>,
    pub rules: Vec<Rule>,
    /// Where the options that are set were set, by their names; of lists, none.
    pub(crate) sources: BTreeMap<String, &'static str>,
    /// What it was read from: options that are set on the console are added to that.
    pub(crate) text: Arc<Secret>,
    /// Marks of what was in the files of certificates and keys, by the options that name them.
    pub(crate) contents: BTreeMap<&'static str, u64>,
}

/// Where clients come in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Listen {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// The server, and how much of it is used.
/// Which statements are taken for such as wait in the server for something, and leave their slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parking {
    /// As many of those that seem stuck as the server says wait for locks.
    Locks,
    /// All that seem stuck.
    Age,
    Off,
}

#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// By default, the server of this machine is looked for.
    pub address: Option<backend::Address>,
    /// What the server is called in logs and metrics.
    pub name: String,
    /// Statements that run at once; without a number, as many as prove best.
    pub limit: Option<u32>,
    /// What it goes by where it finds itself.
    pub rhythm: Rhythm,
    /// Whether statements that seem to wait for something in the server count against the limit no longer.
    pub parking: Parking,
    /// Whether newcomers start in the place of slots that are on their way, and for how long others may wait then.
    pub borrow: Option<Duration>,
    pub connections_max: u32,
    /// Statements written to one shared backend at once.
    pub pipeline: u32,
    /// Whether identical reads that wait are run once.
    pub share_reads: ShareReads,
    /// So many bytes of replies are kept, in all workers together.
    pub cache_memory: u64,
    pub tls: backend::tls::ForBackends,
    /// By default, the host of the address.
    pub tls_server_name: Option<String>,
    /// What clients are told in the greeting that the server's version is, if not the truth.
    pub version: Option<String>,
    /// What each pooled client's session begins with, unless its user has another one.
    pub init_connect: Option<InitConnect>,
    /// When a pass-through client's connection to the server is in TLS.
    pub pass_through_tls: PassThroughTls,
    /// Whose address and TLS must meet what an account demands.
    pub account_terms: AccountTerms,
    /// Where the server sees Flifo, if that is not its own end of its connections.
    pub own_address: Option<IpAddr>,
    /// Whether a backend begins with a PROXY header of version 2.
    pub send_proxy: bool,
    /// The user that reads other users' hashes from the server's table of accounts.
    pub accounts_user: Option<String>,
    /// How often; and how often it is asked whether a learnt password is right still.
    pub accounts_period: Duration,
    /// For how long rights are believed that are not watched.
    pub rights_bound: Duration,
    /// Whether users are pooled whose clients have said their password in a login that was passed through.
    pub learn_passwords: bool,
    /// Whether definitions of views, routines and triggers are read.
    pub read_definitions: bool,
    /// How often a server's name is resolved again.
    pub resolve: Duration,
}

/// Which pass-through clients have TLS between Flifo and the server, where it can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassThroughTls {
    /// Those that have it to Flifo.
    AsClient,
    /// All: the server takes clients for such that are in TLS which are not.
    Always,
}

/// Whose address and TLS must meet what an account demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountTerms {
    /// The client's.
    Client,
    /// Flifo's, as the server sees it: clients have what it has.
    Flifo,
}

/// TLS as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTls {
    pub mode: ClientTlsMode,
    pub files: backend::tls::ForClients,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientTlsMode {
    /// Not offered.
    Off,
    /// Offered.
    Preferred,
    /// A client without TLS is refused. A Unix socket counts as secure.
    Required,
}

/// Whose word is taken for where a client comes from.
#[derive(Clone, Debug, Default)]
pub struct ProxyProtocol {
    pub from: Vec<Network>,
}

/// A range of IP addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    pub(super) address: IpAddr,
    /// How many leading bits count.
    pub(super) bits: u8,
}

/// How long things may take, and how large they may be. `None` is no limit.
#[derive(Clone, Debug)]
pub struct Limits {
    pub connect: Duration,
    pub login: Duration,
    /// Those that classes and users may change.
    pub times: AllLimits,
    pub wait: Option<Duration>,
    pub idle_client: Option<Duration>,
    pub idle_backend: Option<Duration>,
    pub backend_age: Option<Duration>,
    pub stop: Duration,
    pub upgrade: Option<Duration>,
    /// Over how long clients that stay after an upgrade are ended, one after the other.
    pub upgrade_waves: Option<Duration>,
    pub write_stall: Option<Duration>,
    pub upload: Option<Duration>,
    /// How long a client's machine, or a server's, may say nothing to what it is asked.
    pub client_silence: Option<Duration>,
    pub server_silence: Option<Duration>,
    pub packet_max: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logs {
    pub level: LogLevel,
    pub format: LogFormat,
    /// By default, standard error.
    pub file: Option<PathBuf>,
    pub slow: SlowLog,
    pub audit: AuditLog,
}

/// Which statements are told of one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowLog {
    pub kept: RecordOptions,
    /// Those that have taken so long.
    pub threshold: Option<Duration>,
    /// And one of so many, however long it has taken.
    pub sample: Option<u32>,
    pub literals: Literals,
}

/// What is told of clients, and of what they have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditLog {
    pub kept: RecordOptions,
    pub kinds: Vec<AuditKind>,
}

/// The files of a log of entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordOptions {
    /// Without one, there is no such log.
    pub file: Option<PathBuf>,
    /// A file of this size is renamed, and another one begun.
    pub size_max: u64,
    /// So many that were renamed are kept.
    pub files_max: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One line for people; in colours on a terminal.
    Text,
    Json,
}

/// What is asked and told by statements.
#[derive(Clone, Debug)]
pub struct Console {
    pub listen: Vec<Listen>,
    /// Without one, the console only shows.
    pub password: Option<Secret>,
    /// Different statements of which each worker keeps figures.
    pub digests: u32,
}

/// What is asked and told by HTTP.
#[derive(Clone, Debug)]
pub struct Http {
    pub listen: Vec<Listen>,
    pub token: Option<Secret>,
}

/// What is done to threads on the server's machine, if that is ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    pub policy: PlacementPolicy,
    pub worker_cpus: Option<Cpus>,
    pub server_cpus: Option<Cpus>,
    /// By default, in the folder of what runs.
    pub state_file: Option<PathBuf>,
}

/// Rights that the running proxy gives up.
#[derive(Clone, Debug)]
pub struct Hardening {
    /// The user that a Flifo becomes which is started as root.
    pub run_as: Option<String>,
    /// Whether it may serve as root, or as the user of the server.
    pub privileged_user: Permission,
    pub sandbox: Sandbox,
    pub core_dumps: Permission,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    Refused,
    Allowed,
}

/// Whether files and kernel calls are kept to what the configuration needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandbox {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlacementPolicy {
    Off,
    #[default]
    Observe,
    Auto,
    Batch,
    Priority,
    PrivateCore,
    Cpus,
}

impl PlacementPolicy {
    pub(super) const ALL: [(&'static str, Self); 7] = [
        ("off", Self::Off),
        ("observe", Self::Observe),
        ("auto", Self::Auto),
        ("batch", Self::Batch),
        ("priority", Self::Priority),
        ("private-core", Self::PrivateCore),
        ("cpus", Self::Cpus),
    ];

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, it)| *it == self).map_or("", |(name, _)| name)
    }

    pub(crate) const fn engine(self) -> Policy {
        match self {
            Self::Off => Policy::Off,
            Self::Observe => Policy::Observe,
            Self::Auto => Policy::Auto,
            Self::Batch => Policy::Fixed(Remedy::Batch),
            Self::Priority => Policy::Fixed(Remedy::Priority),
            Self::PrivateCore => Policy::Fixed(Remedy::PrivateCore),
            Self::Cpus => Policy::Fixed(Remedy::Cpus),
        }
    }
}

fn on_this_machine(port: u16) -> Vec<Listen> {
    vec![Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], port)))]
}

/// A user that Flifo has been told about.
#[derive(Clone, Debug)]
pub struct UserOptions {
    pub name: String,
    pub password: Option<Password>,
    /// Where the password was read from, if from a file of its own.
    pub password_file: Option<PathBuf>,
    /// One more password that is as good, while the user changes from one to the other.
    pub second_password: Option<Password>,
    /// Where that was read from.
    pub second_password_file: Option<PathBuf>,
    /// What clients are asked to prove the password with.
    pub plugin: Plugin,
    /// Whether clients share backends. Then the password is known; else each client is passed through.
    pub pooled: bool,
    pub clients_max: Option<u32>,
    pub connections_max: Option<u32>,
    pub routines: Unseen,
    pub triggers: Unseen,
    pub pins: Pins,
    /// Whether its clients' identical reads that wait are run once.
    pub share_reads: ShareReads,
    /// The schema of clients that name none.
    pub schema: Option<String>,
    /// The cluster that serves its clients; by default, the first.
    pub cluster: Option<String>,
    /// What its clients' sessions begin with. `None`: what the server's option says.
    pub init_connect: Option<InitConnect>,
    /// Age at which backends of this user are closed.
    pub backend_age: Bound,
    /// How long its clients' statements, transactions and connections may take.
    pub times: TimeBounds,
}

/// What becomes of a backend behind what is in no statement's text, and may have done anything to it: routines,
/// triggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// What definitions tell: it stays with its client where one does what no server reports, and is reset where they
    /// are not seen. Of triggers only.
    Read,
    /// It stays with its client.
    Pin,
    /// What the server reports is all there is.
    Trust,
    /// It is reset before another client has it.
    Reset,
}

/// What becomes of a statement that would pin its client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pins {
    #[default]
    Allow,
    Refuse,
}

/// A class of statements, and whose are of it.
#[derive(Clone, Debug)]
pub struct ClassRule {
    pub class: Class,
    /// Those of these users, schemas and networks; of all, where none is named.
    pub users: Vec<String>,
    pub schemas: Vec<String>,
    pub from: Vec<Network>,
}

/// What is known of a password. No form is ever shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Password {
    Plain(Secret),
    /// What the server stores for `mysql_native_password`.
    Native(native::NativeStored),
    /// What the server stores for `caching_sha2_password`.
    CachingSha2(sha_crypt::CryptStored),
}

impl Password {
    /// The one plugin that a hash is of use for.
    pub(crate) const fn plugin(&self) -> Option<Plugin> {
        match self {
            Self::Plain(_) => None,
            Self::Native(_) => Some(Plugin::NativePassword),
            Self::CachingSha2(_) => Some(Plugin::CachingSha2),
        }
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            listen: vec![Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 6033)))],
            workers: None,
            clients_max: 10_000,
            logins_max: 128,
            backlog: 4096,
            watch_files: true,
            server: ServerOptions::default(),
            tls: ClientTls::default(),
            proxy_protocol: ProxyProtocol::default(),
            limits: Limits::default(),
            logs: Logs::default(),
            console: Console::default(),
            http: Http::default(),
            placement: Placement::default(),
            hardening: Hardening::default(),
            users: Vec::new(),
            classes: Vec::new(),
            servers: Vec::new(),
            clusters: Vec::new(),
            checks: CheckOptions::default(),
            cache: CacheOptions::default(),
            routing: Routing::default(),
            routes: Vec::new(),
            rules: Vec::new(),
            sources: BTreeMap::new(),
            text: Arc::default(),
            contents: BTreeMap::new(),
        }
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            address: None,
            name: "main".to_owned(),
            limit: None,
            rhythm: Rhythm::Own,
            parking: Parking::Locks,
            borrow: None,
            connections_max: 128,
            pipeline: 8,
            share_reads: ShareReads::Off,
            cache_memory: 64 << 20,
            tls: backend::tls::ForBackends::default(),
            tls_server_name: None,
            version: None,
            init_connect: None,
            pass_through_tls: PassThroughTls::AsClient,
            account_terms: AccountTerms::Client,
            own_address: None,
            send_proxy: false,
            accounts_user: None,
            accounts_period: Duration::from_secs(30),
            rights_bound: Duration::from_secs(60),
            learn_passwords: true,
            read_definitions: true,
            resolve: Duration::from_secs(10),
        }
    }
}

impl Default for ClientTls {
    fn default() -> Self {
        Self { mode: ClientTlsMode::Preferred, files: backend::tls::ForClients::default() }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            login: Duration::from_secs(10),
            times: AllLimits::default(),
            wait: Some(Duration::from_secs(10)),
            idle_client: Some(Duration::from_hours(8)),
            idle_backend: Some(Duration::from_mins(1)),
            backend_age: Some(Duration::from_hours(1)),
            stop: Duration::from_secs(30),
            upgrade: Some(Duration::from_hours(1)),
            upgrade_waves: None,
            write_stall: Some(Duration::from_mins(1)),
            upload: Some(Duration::from_secs(30)),
            client_silence: Some(Duration::from_secs(40)),
            server_silence: Some(Duration::from_secs(40)),
            packet_max: 1 << 30,
        }
    }
}

impl Default for Logs {
    fn default() -> Self {
        Self {
            level: LogLevel::Info,
            format: LogFormat::Text,
            file: None,
            slow: SlowLog::default(),
            audit: AuditLog::default(),
        }
    }
}

impl Default for SlowLog {
    fn default() -> Self {
        Self {
            kept: RecordOptions::default(),
            threshold: Some(Duration::from_secs(1)),
            sample: None,
            literals: Literals::Show,
        }
    }
}

impl Default for AuditLog {
    fn default() -> Self {
        let kinds = AuditKind::ALL.into_iter().map(|(_, kind)| kind).collect();
        Self { kept: RecordOptions::default(), kinds }
    }
}

impl Logs {
    /// The files that are written to, each with the option that names it.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let all = [
            ("logs.file", &self.file),
            ("logs.slow.file", &self.slow.kept.file),
            ("logs.audit.file", &self.audit.kept.file),
        ];
        all.into_iter().filter_map(|(option, file)| Some((option, file.as_deref()?)))
    }
}

impl AuditLog {
    /// Whether this kind is told of.
    pub(crate) fn tells(&self, kind: AuditKind) -> bool {
        self.kept.file.is_some() && self.kinds.contains(&kind)
    }
}

impl Default for RecordOptions {
    fn default() -> Self {
        Self { file: None, size_max: 100 << 20, files_max: 5 }
    }
}

impl Default for Console {
    fn default() -> Self {
        Self { listen: on_this_machine(6032), password: None, digests: 500 }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self { listen: on_this_machine(6034), token: None }
    }
}

impl Default for Hardening {
    fn default() -> Self {
        Self {
            run_as: None,
            privileged_user: Permission::Refused,
            sandbox: Sandbox::On,
            core_dumps: Permission::Refused,
        }
    }
}

impl Default for UserOptions {
    fn default() -> Self {
        Self {
            name: String::new(),
            password: None,
            password_file: None,
            second_password: None,
            second_password_file: None,
            plugin: Plugin::NativePassword,
            pooled: true,
            clients_max: None,
            connections_max: None,
            routines: Unseen::Pin,
            triggers: Unseen::Read,
            pins: Pins::default(),
            share_reads: ShareReads::AsAbove,
            schema: None,
            cluster: None,
            init_connect: None,
            backend_age: Bound::default(),
            times: TimeBounds::default(),
        }
    }
}

impl Default for ClassRule {
    fn default() -> Self {
        let class = Class { name: String::new(), ..Class::default() };
        Self { class, users: Vec::new(), schemas: Vec::new(), from: Vec::new() }
    }
}

impl ClassRule {
    /// Whether all that it names fits this client. One that names nothing is for comments alone.
    pub(crate) fn fits(
        &self,
        user: &UserName,
        schema: Option<&[u8]>,
        from: Option<IpAddr>,
    ) -> bool {
        let names_any = !(self.users.is_empty() && self.schemas.is_empty() && self.from.is_empty());
        let is_of = |names: &[String], name: &[u8]| {
            names.is_empty() || names.iter().any(|it| it.as_bytes() == name)
        };
        names_any
            && (self.users.is_empty() || self.users.iter().any(|name| *user == **name))
            && (self.schemas.is_empty() || schema.is_some_and(|it| is_of(&self.schemas, it)))
            && (self.from.is_empty()
                || from.is_some_and(|it| self.from.iter().any(|network| network.contains(it))))
    }
}

impl Plan {
    /// All classes; the first is that of whatever is of no other.
    pub(crate) fn all_classes(&self) -> Vec<Class> {
        let (default, others): (Vec<_>, Vec<_>) =
            self.classes.iter().map(|rule| rule.class.clone()).partition(is_default);
        let default = default.into_iter().next().unwrap_or_default();
        let others = others.into_iter().take(CLASSES_MAX - 1);
        std::iter::once(default).chain(others).collect()
    }

    /// What holds for the server of `[server]`, which is at this address.
    pub(crate) fn only_server(&self, address: backend::Address) -> ServerRule {
        let (name, group) = (self.server.name.clone(), Group::Sole);
        ServerRule { name, address: Some(address), group, ..ServerRule::default() }
    }

    /// The files of certificates, keys and authorities, each with the option that names it.
    pub(crate) fn tls_files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let (clients, server) = (&self.tls.files, &self.server.tls);
        let (own, shown) = (clients.identity.as_ref(), server.identity.as_ref());
        let all = [
            ("tls.cert", own.map(|it| &*it.certificate)),
            ("tls.key", own.map(|it| &*it.key)),
            ("tls.client_ca", clients.ca.as_deref()),
            ("server.tls_ca", server.ca.as_deref()),
            ("server.tls_cert", shown.map(|it| &*it.certificate)),
            ("server.tls_key", shown.map(|it| &*it.key)),
        ];
        all.into_iter().filter_map(|(option, file)| Some((option, file?)))
    }

    /// The files of firewalls, and whether they are learnt into.
    pub(crate) fn firewalls(&self) -> impl Iterator<Item = (&Path, bool)> {
        let firewalls = self.rules.iter().filter_map(|rule| rule.acts.firewall.as_ref());
        firewalls.map(|it| (&*it.file, it.mode == FirewallMode::Learn))
    }

    /// All files that are read because an option names them.
    pub(crate) fn named_files(&self) -> impl Iterator<Item = &Path> {
        let passwords = self.users.iter();
        let passwords =
            passwords.flat_map(|user| [&user.password_file, &user.second_password_file]);
        let of_clusters = self.clusters.iter().map(|it| &it.options.checks.password_file);
        let passwords = passwords.chain([&self.checks.password_file]).chain(of_clusters);
        let own = self.tls_files().map(|(_, file)| file).chain(self.cluster_files());
        let own = own.chain(self.servers.iter().flat_map(ServerRule::files));
        let own =
            own.chain(self.firewalls().filter_map(|(file, learns)| (!learns).then_some(file)));
        own.chain(passwords.filter_map(|it| it.as_deref()))
    }

    /// The backend connections that all servers together may have, by `of` of those of one.
    pub(crate) fn connections_of_all(&self, of: impl Fn(u32) -> u32) -> u32 {
        let one =
            |rule: &ServerRule| of(rule.connections_max(self.governing(&rule.cluster).server));
        let several = self.servers.iter().map(one);
        let only = self.servers.is_empty().then(|| of(self.governing(MAIN).server.connections_max));
        several.chain(only).fold(0, u32::saturating_add)
    }

    /// What is said of the server of this name in the list of servers.
    pub(crate) fn server_rule(&self, name: &str) -> Option<&ServerRule> {
        self.servers.iter().find(|rule| rule.name == name)
    }

    /// The name of the class of such a client's statements.
    pub(crate) fn class_of(
        &self,
        user: &UserName,
        schema: Option<&[u8]>,
        from: Option<IpAddr>,
    ) -> Option<&str> {
        let rule = self.classes.iter().find(|rule| rule.fits(user, schema, from));
        rule.map(|rule| rule.class.name.as_str())
    }

    /// What is said of this user.
    pub(crate) fn user(&self, name: &UserName) -> Option<&UserOptions> {
        self.users.iter().find(|user| *name == *user.name)
    }

    /// What the sessions of this user's clients begin with.
    pub(crate) fn init_connect(&self, user: &UserName) -> Option<&InitConnect> {
        let own = self.user(user).and_then(|user| user.init_connect.as_ref());
        own.or(self.server.init_connect.as_ref()).filter(|init| !init.is_empty())
    }

    /// The schema of this user's clients that name none.
    pub(crate) fn default_schema(&self, user: &UserName) -> Option<&str> {
        self.user(user)?.schema.as_deref()
    }

    /// The age at which backends of this user are closed.
    pub(crate) fn backend_age(&self, user: &UserName) -> Option<Duration> {
        self.user(user).map(|user| user.backend_age).unwrap_or_default().or(self.limits.backend_age)
    }

    /// The age at which a backend may have to be closed, whichever user it is of.
    pub(crate) fn least_backend_age(&self) -> Option<Duration> {
        let of_users = self.users.iter().filter_map(|user| user.backend_age.or(None));
        of_users.chain(self.limits.backend_age).min()
    }

    /// The limits of time that are in force with these classes, in the order of their ids.
    pub(crate) fn time_limits(&self, classes: impl IntoIterator<Item = TimeBounds>) -> TimeLimits {
        let users = self.users.iter().map(|user| (user.name.as_bytes(), user.times));
        TimeLimits::new(&self.limits.times, classes, users)
    }

    /// How many workers there are.
    pub fn worker_count(&self) -> usize {
        self.workers.map_or_else(|| allowance().workers(), |workers| workers as usize)
    }
}

fn is_default(class: &Class) -> bool {
    class.name == Class::default().name
}

impl Network {
    /// Tells whether an address lies in the range. An IPv4 address that came as IPv6 is the same
    /// address.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let differ = u32::from(network) ^ u32::from(address);
                differ.leading_zeros() >= u32::from(self.bits)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let differ = u128::from(network) ^ u128::from(address);
                differ.leading_zeros() >= u32::from(self.bits)
            }
            _ => false,
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

//! What is known of a server: its version and capabilities, from its last greeting; what connecting to it has shown;
//! and whether an administrator holds statements back from it. Also which capabilities clients are offered for it.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use backend::Address;
use engine::account::name::Brand;
use engine::rights::Ledger;
use wire::Capabilities;
use wire::handshake::{Greeting, version_numbers};

use crate::cluster::post::Machine;
use crate::cluster::reports::SessionReports;

/// What Flifo has learnt of the server.
#[derive(Debug)]
pub(crate) struct ServerFacts {
    greeting: Mutex<Option<Greeting>>,
    /// Whether it is MariaDB or MySQL, as it has said: every statement asks for that, and takes no lock.
    brand: AtomicU8,
    /// How many prepared statements it allows all its connections together.
    statements_max: AtomicU32,
    /// TLS has failed on its Unix socket, and that clients are passed through in plain has been said.
    tls_fails: AtomicBool,
    told_plain: AtomicBool,
    /// It reports the GTIDs of writes.
    tells_gtids: AtomicBool,
    /// The second in which it was started, by its own clock; zero if that is not known.
    started: AtomicU64,
    /// What it says of its sessions, and what resets undo there.
    pub(crate) reports: SessionReports,
    standing: AtomicU8,
    evidence: Mutex<Evidence>,
    pub(crate) dials: Dials,
    /// What the watch of its tables of rights has seen.
    pub(crate) rights: Ledger,
}

/// How often a connection was wanted, and how often its machine has taken it, whatever the server did then.
#[derive(Debug, Default)]
pub(crate) struct Dials {
    wanted: AtomicU64,
    taken: AtomicU64,
}

impl Dials {
    pub(crate) fn want(&self) {
        self.wanted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn take(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> (u64, u64) {
        (self.wanted.load(Ordering::Relaxed), self.taken.load(Ordering::Relaxed))
    }

    /// What became of those that were wanted since.
    pub(crate) fn machine_since(&self, (wanted, taken): (u64, u64)) -> Machine {
        let (wanted_now, taken_now) = self.get();
        if wanted_now > wanted && taken_now == taken { Machine::Gone } else { Machine::Answers }
    }
}

impl Default for ServerFacts {
    fn default() -> Self {
        // What servers allow by default.
        Self {
            greeting: Mutex::default(),
            brand: AtomicU8::default(),
            statements_max: AtomicU32::new(16_382),
            tls_fails: AtomicBool::new(false),
            told_plain: AtomicBool::new(false),
            tells_gtids: AtomicBool::new(false),
            started: AtomicU64::default(),
            reports: SessionReports::default(),
            standing: AtomicU8::default(),
            evidence: Mutex::default(),
            dials: Dials::default(),
            rights: Ledger::default(),
        }
    }
}

/// Values of `brand`; zero before the server has said anything.
const MARIADB: u8 = 1;
const MYSQL: u8 = 2;

/// What connecting to the server has shown.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Why the last attempt failed, if it did.
    pub(crate) error: Option<String>,
    pub(crate) last: Option<SystemTime>,
    /// Since when it has been so, or ordered so.
    since: Option<Instant>,
}

impl Evidence {
    pub(crate) const fn result(&self) -> Option<&'static str> {
        match (&self.last, &self.error) {
            (None, _) => None,
            (_, None) => Some("passed"),
            (_, Some(_)) => Some("failed"),
        }
    }
}

/// The server's state, as the console and the metrics show it.
#[derive(Clone, Debug)]
pub(crate) struct ServerState {
    pub(crate) name: &'static str,
    pub(crate) since: Instant,
    pub(crate) reason: Option<String>,
}

/// What an administrator has ordered for the server. Transactions that have begun go on in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Standing {
    #[default]
    Up,
    /// Nothing new starts.
    Paused,
    /// The same, and idle backends are closed.
    Drain,
    /// The same, and no statement waits: statements are refused.
    Maintenance,
}

/// What becomes of the statements that a server would have taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takers {
    /// There is no other server.
    None,
    /// Other servers are read from.
    Read,
    /// They wait until there is another writer.
    Wait,
}

impl Standing {
    const ALL: [Self; 4] = [Self::Up, Self::Paused, Self::Drain, Self::Maintenance];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Paused => "paused",
            Self::Drain => "drain",
            Self::Maintenance => "maintenance",
        }
    }

    /// What becomes of new statements, where others may take what this server would, or where there is none.
    pub(crate) const fn means(self, takers: Takers) -> &'static str {
        match (self, takers) {
            (Self::Up, _) => "statements start",
            (Self::Paused, _) => "new statements wait",
            (Self::Drain, Takers::None) => {
                "new statements wait, and idle backend connections are closed"
            }
            (Self::Maintenance, Takers::None) => {
                "new statements are refused, and idle backend connections are closed"
            }
            (Self::Drain | Self::Maintenance, Takers::Read) => {
                "new reads go to other servers; clients that keep their connections, or are in a transaction, \
                 go on; other connections are closed as they become free"
            }
            (Self::Drain | Self::Maintenance, Takers::Wait) => {
                "new statements wait for another writer; clients that keep their connections, or are in a \
                 transaction, go on; other connections are closed as they become free"
            }
        }
    }
}

impl ServerFacts {
    /// It has reported the GTID of a write.
    pub(crate) fn see_gtid(&self) {
        if !self.tells_gtids() {
            self.tells_gtids.store(true, Ordering::Relaxed);
        }
    }

    /// Whether its sessions have GTIDs of their last writes.
    pub(crate) fn tells_gtids(&self) -> bool {
        self.tells_gtids.load(Ordering::Relaxed)
    }

    pub(crate) fn learn(&self, greeting: &Greeting) {
        let old = lock(&self.greeting).replace(greeting.clone());
        let is_other = old.is_none_or(|old| old.version != greeting.version);
        self.reports.greet(greeting.capabilities.has(Capabilities::SESSION_TRACK), is_other);
        let brand = if greeting.is_mariadb() { MARIADB } else { MYSQL };
        self.brand.store(brand, Ordering::Relaxed);
    }

    pub(crate) fn greeting(&self) -> Option<Greeting> {
        lock(&self.greeting).clone()
    }

    /// Whether it has said that it is MariaDB.
    pub(crate) fn is_mariadb(&self) -> bool {
        self.brand.load(Ordering::Relaxed) == MARIADB
    }

    /// Whether it has said that it is MySQL.
    pub(crate) fn is_mysql(&self) -> bool {
        self.brand.load(Ordering::Relaxed) == MYSQL
    }

    /// Whether it answers `COM_PROCESS_KILL`: a MySQL 9.7 says that the command is unknown.
    pub(crate) fn knows_process_kill(&self) -> bool {
        let is_new = |it: &Greeting| [9, 7, 0] <= version_numbers(&it.version);
        !self.is_mysql() || !lock(&self.greeting).as_ref().is_some_and(is_new)
    }

    /// When it was started, as it has said last.
    pub(crate) fn started(&self) -> Option<u64> {
        Some(self.started.load(Ordering::Relaxed)).filter(|it| *it != 0)
    }

    pub(crate) fn see_start(&self, second: u64) {
        self.started.store(second, Ordering::Relaxed);
    }

    pub(crate) fn does_tls_fail(&self) -> bool {
        self.tls_fails.load(Ordering::Relaxed)
    }

    /// Not to be tried again where it is not needed.
    pub(crate) fn see_tls_fail(&self) {
        self.tls_fails.store(true, Ordering::Relaxed);
    }

    /// Says, once, that clients are passed through to a server in plain that might have them in TLS.
    pub(crate) fn tell_plain(&self, address: &Address) {
        let is_remote = matches!(address, Address::Tcp { .. });
        let offers = || self.greeting().is_some_and(|it| it.capabilities.has(Capabilities::SSL));
        if is_remote
            && !self.told_plain.load(Ordering::Relaxed)
            && offers()
            && !self.told_plain.swap(true, Ordering::Relaxed)
        {
            tracing::info!(
                server = %address,
                "a pass-through client without TLS gets a connection without TLS to this server, \
                 so that accounts with REQUIRE SSL stay protected; server.pass_through_tls = \
                 \"always\" uses TLS for all"
            );
        }
    }

    /// By whose rules it reads names. One that has said nothing yet is taken for the stricter of the two.
    pub(crate) fn brand(&self) -> Brand {
        if self.is_mariadb() { Brand::MariaDb } else { Brand::MySql }
    }

    pub(crate) fn statements_max(&self) -> u32 {
        self.statements_max.load(Ordering::Relaxed)
    }

    pub(crate) fn learn_statements_max(&self, max: u32) {
        self.statements_max.store(max, Ordering::Relaxed);
    }

    pub(crate) fn standing(&self) -> Standing {
        let at = usize::from(self.standing.load(Ordering::Relaxed));
        Standing::ALL.get(at).copied().unwrap_or_default()
    }

    pub(crate) fn stand(&self, standing: Standing) {
        self.standing.store(standing as u8, Ordering::Relaxed);
        lock(&self.evidence).since = Some(crate::worker::clock::read());
    }

    /// Flifo has connected to the server, or could not.
    pub(crate) fn see<T, E: std::fmt::Display>(&self, attempt: &Result<T, E>) {
        let mut evidence = lock(&self.evidence);
        let error = attempt.as_ref().err().map(ToString::to_string);
        if error.is_some() {
            evidence.failed += 1;
        } else {
            evidence.passed += 1;
        }
        if evidence.last.is_none() || error.is_some() != evidence.error.is_some() {
            evidence.since = Some(crate::worker::clock::read());
        }
        evidence.error = error;
        evidence.last = Some(SystemTime::now());
    }

    pub(crate) fn evidence(&self) -> Evidence {
        lock(&self.evidence).clone()
    }

    pub(crate) fn state(&self) -> ServerState {
        let evidence = self.evidence();
        let since = evidence.since.unwrap_or_else(crate::worker::clock::read);
        match (self.standing(), evidence.result()) {
            (Standing::Up, None) => ServerState { name: "unknown", since, reason: None },
            (Standing::Up, Some("failed")) => {
                ServerState { name: "down", since, reason: evidence.error }
            }
            (Standing::Up, _) => ServerState { name: "up", since, reason: None },
            (standing, _) => {
                let reason = Some("by an order on the console".to_owned());
                ServerState { name: standing.name(), since, reason }
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What Flifo does not carry: compression, and metadata that is left out.
const NOT_PASS_THROUGH: Capabilities = Capabilities(
    Capabilities::COMPRESS.0
        | Capabilities::ZSTD.0
        | Capabilities::OPTIONAL_METADATA.0
        | Capabilities::COM_MULTI.0
        | Capabilities::SSL.0
        | Capabilities::MULTI_FACTOR.0,
);

/// What a pooled client is not offered beyond that: what would tie it to one backend, and query
/// attributes, which stand between a prepared statement's parameters; MySQL's clients leave them
/// out where they are not offered.
const NOT_POOLED: Capabilities =
    Capabilities(Capabilities::CACHE_METADATA.0 | Capabilities::QUERY_ATTRIBUTES.0);

/// The capabilities that a client is offered.
pub(crate) const fn offered(server: Capabilities, pooled: bool, tls: bool) -> Capabilities {
    let mut offered = server.without(NOT_PASS_THROUGH);
    if pooled {
        offered = offered.without(NOT_POOLED);
    }
    if tls { offered.with(Capabilities::SSL) } else { offered }
}

//! The doctor's own connection to the server: what the server says of itself, and the variables
//! that a cure sets.
//!
//! Reads variables and counters, sets global variables, and nothing else. Blocks; each step has a
//! deadline.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::time::{Duration, Instant};

use backend::Address;
use backend::login::Blocking;
use backend::stream::Peer;
use sys::tree::{Seen, Tree};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use wire::auth::Secret;

use crate::change::{GlobalVariables, set_global};

/// The account that the doctor logs in with.
#[derive(Clone)]
pub struct Account {
    pub user: String,
    pub password: Secret,
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Account({})", self.user)
    }
}

/// A server that answers.
pub struct AskedServer {
    address: Address,
    account: Account,
    backend: Blocking,
    /// How long connecting and logging in took.
    pub handshake: Duration,
}

/// Why the server does not answer.
#[derive(Debug)]
pub struct NoServer {
    address: String,
    user: String,
    why: String,
}

impl fmt::Display for NoServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, user, why } = self;
        write!(
            f,
            "{address} cannot be asked as user {user:?}: {why}; name another one with --user, and \
             his password in MYSQL_PWD or with --password-file"
        )
    }
}

impl AskedServer {
    pub fn connect(address: &Address, account: &Account) -> Result<Self, NoServer> {
        let refuse = |why: String| NoServer {
            address: address.to_string(),
            user: account.user.clone(),
            why,
        };
        let begun = Instant::now();
        let backend = log_in(address, account).map_err(refuse)?;
        let handshake = begun.elapsed();
        Ok(Self { address: address.clone(), account: account.clone(), backend, handshake })
    }

    /// Connects once more and hangs up: how long does that take?
    pub fn time_handshake(&self) -> Option<Duration> {
        let begun = Instant::now();
        log_in(&self.address, &self.account).ok()?;
        Some(begun.elapsed())
    }

    pub fn variables(&mut self) -> Seen<BTreeMap<String, String>> {
        self.table("SHOW GLOBAL VARIABLES")
    }

    pub fn status(&mut self) -> Seen<BTreeMap<String, String>> {
        self.table("SHOW GLOBAL STATUS")
    }

    /// How many of the server's statements run now, without the one that asks.
    pub fn running(&mut self) -> Seen<u64> {
        let one = self.table("SHOW GLOBAL STATUS LIKE 'Threads_running'");
        one.parse("Threads_running", |it| it.values().next()?.parse::<u64>().ok())
            .map(|running| running.saturating_sub(1))
    }

    /// What an NDB Cluster's data nodes were configured with, as far as it concerns threads.
    pub(crate) fn ndb_config(&mut self) -> Seen<BTreeMap<String, String>> {
        self.table(NDB_CONFIG)
    }

    /// By which methods each user of other machines may log in, as MariaDB has them. Names of users and methods alone
    /// are read.
    pub(crate) fn methods(&mut self) -> Seen<BTreeMap<String, String>> {
        self.table(METHODS).map(|mut users| {
            users.values_mut().for_each(|it| it.retain(|letter| !"[]\"".contains(letter)));
            users
        })
    }

    fn table(&mut self, text: &str) -> Seen<BTreeMap<String, String>> {
        match self.backend.ask(async |server| server.rows(text).await) {
            Ok(rows) => {
                let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
                Seen::Known(rows.into_iter().map(|(name, it)| (text(name), text(it))).collect())
            }
            Err(why) => Seen::Unknown(format!("{text}: {why}")),
        }
    }
}

/// The server's process, if it runs on this machine and can be seen from here. It need not answer
/// anything for that.
pub(crate) fn pid(address: &Address) -> Seen<u32> {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Seen::Unknown(error.to_string()),
    };
    let dial = async { backend::dial::dial(address).await.map_err(|error| error.to_string()) };
    let stream = match wait(&runtime, dial) {
        Ok(stream) => stream,
        Err(why) => return Seen::Unknown(format!("{address}: {why}")),
    };
    let found = match (address, stream.peer()) {
        // Of another world of processes the kernel tells none.
        (_, Peer::Unix { pid, .. }) => match pid.map(u32::try_from) {
            Some(Ok(pid)) => pid,
            _ => return hidden(),
        },
        (Address::Tcp { port, .. }, Peer::Tcp(peer)) if is_here(peer.ip(), &stream) => {
            match sys::sockets::listener(*port, |_| true) {
                Some(pid) => pid,
                None => return Seen::Denied(format!("which process listens on port {port}")),
            }
        }
        _ => return Seen::Unknown("the server runs on another machine".to_owned()),
    };
    match Tree::live().exists(&format!("/proc/{found}")) {
        true => Seen::Known(found),
        false => hidden(),
    }
}

impl GlobalVariables for AskedServer {
    fn get(&mut self, name: &str) -> io::Result<String> {
        let rows = self.table(&format!("SHOW GLOBAL VARIABLES LIKE '{name}'"));
        let value = rows.known().and_then(|rows| rows.get(name)).cloned();
        value.ok_or_else(|| io::Error::other(format!("the server has no variable {name}")))
    }

    fn set(&mut self, name: &str, value: &str) -> io::Result<()> {
        let text = set_global(name, value);
        let run = self.backend.ask(async |server| server.run(&text).await);
        run.map_err(|why| io::Error::other(format!("{text}: {why}")))
    }
}

fn log_in(address: &Address, account: &Account) -> Result<Blocking, String> {
    let password = account.password.clone();
    Blocking::log_in(address, &account.user, password, ANSWER_MAX).map_err(|why| why.to_string())
}

fn wait<T>(runtime: &Runtime, what: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let late = || Err(format!("no answer within {} s", ANSWER_MAX.as_secs()));
    runtime.block_on(async { timeout(ANSWER_MAX, what).await.unwrap_or_else(|_| late()) })
}

fn hidden<T>() -> Seen<T> {
    Seen::Unknown("the server's process is in another container".to_owned())
}

/// Whether an address is one of this machine's own.
fn is_here(peer: std::net::IpAddr, stream: &backend::Stream) -> bool {
    let same = || stream.addresses().is_some_and(|(near, _)| near.ip() == peer);
    peer.is_loopback() || same()
}

const NDB_CONFIG: &str = "SELECT p.param_name, MIN(v.config_value) \
    FROM ndbinfo.config_params p JOIN ndbinfo.config_values v ON p.param_number = v.config_param \
    WHERE p.param_name IN ('AutomaticThreadConfig', 'ThreadConfig', 'MaxNoOfExecutionThreads') \
    GROUP BY p.param_name";
/// An account that names none has `mysql_native_password`.
const METHODS: &str = "SELECT User, GROUP_CONCAT(DISTINCT \
    IFNULL(JSON_EXTRACT(Priv,'$.plugin','$.auth_or[*].plugin'),'mysql_native_password') SEPARATOR ', ') \
    FROM mysql.global_priv WHERE User<>'' AND Host NOT IN ('localhost','127.0.0.1','::1') \
    AND NOT JSON_EXISTS(Priv,'$.is_role') \
    AND NOT IFNULL(JSON_VALUE(Priv,'$.account_locked') IN ('1','true'),0) GROUP BY User LIMIT 1000";
const ANSWER_MAX: Duration = Duration::from_secs(5);

//! Finds the server of this machine, and tells why it thinks so.
//!
//! Looks in the usual places, in the server's configuration files and among the sockets that are open; the same server
//! found in several ways is one candidate with several reasons. Whether a candidate answers is the probe's to say.
//! Reads files only; every read is bounded. Invariants: Flifo's own listeners are never candidates; a Unix socket comes
//! before TCP; a socket of an untrusted user is shown, but never used.

mod my_cnf;
mod probe;
mod sockets;
#[cfg(test)]
mod tests;
mod trust;

use std::fmt;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use backend::Address;
use backend::address::DEFAULT_PORT;

use crate::config::Listen;

pub use self::probe::greeting;

/// What was found, the best first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    candidates: Vec<Candidate>,
}

/// A place where a server may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub address: Address,
    /// Why it was looked at; at least one reason.
    pub reasons: Vec<Reason>,
    /// What answered, such as "MariaDB 10.11.19", or why nothing did.
    pub answer: Result<String, String>,
}

/// Why a place was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A server's packages put their socket there.
    UsualPlace,
    /// An option of a group in the server's configuration, at a line of a file.
    Configured { option: String, group: String, file: PathBuf, line: usize },
    /// A process of this name listens there.
    Process { name: String, pid: u32 },
    /// A process listens there, and the socket is named like a server's.
    Named,
    /// It is what servers use if they are told nothing.
    DefaultPort,
}

/// Looks for servers. `root` is "/", or a folder that is looked at in its place; `own` is where
/// Flifo listens itself; `probe` tells what answers at an address.
pub fn find(
    root: &Path,
    own: &[Listen],
    mut probe: impl FnMut(&Address) -> Result<String, String>,
) -> Found {
    let mut places = Places { root, own, found: Vec::new() };
    let configured = my_cnf::read(root);
    for path in USUAL_SOCKETS {
        places.add_socket(Path::new(path), Reason::UsualPlace);
    }
    for (path, reason) in configured.sockets {
        // Named but not there: the server does not run, which is worth telling.
        places.add(Address::Unix(path), reason);
    }
    for (path, reason) in sockets::listening(root) {
        places.add_socket(&path, reason);
    }
    for (host, port, reason) in configured.ports {
        places.add(Address::Tcp { host, port }, reason);
    }
    let local = Address::Tcp { host: LOOPBACK.to_owned(), port: DEFAULT_PORT };
    places.add(local, Reason::DefaultPort);
    let owners = trust::Owners::of(root);
    let ask = |(address, reasons)| {
        let trusted = match &address {
            Address::Unix(path) => owners.check(root, path),
            Address::Tcp { .. } => Ok(()),
        };
        let answer = trusted.and_then(|()| probe(&address));
        Candidate { address, reasons, answer }
    };
    let mut candidates: Vec<_> = places.found.into_iter().map(ask).collect();
    // The order otherwise stays: those that answer, then the rest.
    candidates.sort_by_key(|candidate| candidate.answer.is_err());
    Found { candidates }
}

impl Found {
    /// The server to use: the first that answers.
    pub fn server(&self) -> Option<&Candidate> {
        self.candidates.first().filter(|candidate| candidate.answer.is_ok())
    }

    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }
}

/// The candidates so far.
struct Places<'a> {
    root: &'a Path,
    own: &'a [Listen],
    found: Vec<(Address, Vec<Reason>)>,
}

impl Places<'_> {
    /// Adds a socket if it is there.
    fn add_socket(&mut self, path: &Path, reason: Reason) {
        let is_socket = fs::metadata(under(self.root, path))
            .is_ok_and(|metadata| metadata.file_type().is_socket());
        if is_socket {
            self.add(Address::Unix(path.to_owned()), reason);
        }
    }

    fn add(&mut self, address: Address, reason: Reason) {
        if self.own.iter().any(|own| self.is_own(own, &address)) {
            return;
        }
        let known = self.found.iter().position(|(known, _)| self.is_same(known, &address));
        match known {
            Some(index) => {
                let reasons = &mut self.found[index].1;
                if !reasons.contains(&reason) {
                    reasons.push(reason);
                }
            }
            None if self.found.len() < CANDIDATES_MAX => self.found.push((address, vec![reason])),
            None => {}
        }
    }

    fn is_same(&self, one: &Address, other: &Address) -> bool {
        match (one, other) {
            (Address::Unix(one), Address::Unix(other)) => self.is_same_path(one, other),
            _ => one == other,
        }
    }

    fn is_own(&self, own: &Listen, address: &Address) -> bool {
        match (own, address) {
            (Listen::Unix(own), Address::Unix(path)) => self.is_same_path(own, path),
            (Listen::Tcp(own), Address::Tcp { host, port }) => {
                let is_host = host.parse::<IpAddr>().is_ok_and(|host| covers(own, host));
                own.port() == *port && is_host
            }
            _ => false,
        }
    }

    /// Folders such as /var/run are backends to others.
    fn is_same_path(&self, one: &Path, other: &Path) -> bool {
        let real = |path: &Path| {
            let path = under(self.root, path);
            match (path.parent().map(fs::canonicalize), path.file_name()) {
                (Some(Ok(folder)), Some(name)) => folder.join(name),
                _ => path,
            }
        };
        one == other || real(one) == real(other)
    }
}

/// Says whether a connection to `host` reaches a listener.
fn covers(listener: &SocketAddr, host: IpAddr) -> bool {
    let is_same_kind = listener.is_ipv4() == host.is_ipv4();
    listener.ip() == host || (is_same_kind && listener.ip().is_unspecified())
}

/// A path of the machine as it is found under another root.
fn under(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UsualPlace => f.write_str("a usual place"),
            Self::Configured { option, group, file, line } => {
                write!(f, "{option} of [{group}] in {}:{line}", file.display())
            }
            Self::Process { name, pid } => write!(f, "{name} (process {pid}) listens there"),
            Self::Named => f.write_str("listening, and named like a server's socket"),
            Self::DefaultPort => f.write_str("the default port"),
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reasons: Vec<_> = self.reasons.iter().map(ToString::to_string).collect();
        write!(f, "{} ({})", self.address, reasons.join("; "))?;
        match &self.answer {
            Ok(server) => write!(f, ": {server}"),
            Err(why) => write!(f, ": {why}"),
        }
    }
}

impl fmt::Display for Found {
    /// One line for the server that is used or for there being none, then one for each other
    /// candidate.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others = match self.server() {
            Some(server) => {
                write!(f, "found {server}")?;
                &self.candidates[1..]
            }
            None => {
                f.write_str(
                    "no server answers on this machine; start it, or name another one with \
                     --server or server.address",
                )?;
                &self.candidates[..]
            }
        };
        for other in others {
            match (&other.answer, self.server()) {
                (Ok(_), _) => write!(f, "\nnot used: {other}; --server takes it instead")?,
                (Err(_), _) => write!(f, "\nlooked at {other}")?,
            }
        }
        Ok(())
    }
}

/// Where packages of MySQL and MariaDB put their sockets: Debian and Ubuntu, Fedora and RHEL,
/// MySQL's own packages, Arch, Alpine, builds from source.
const USUAL_SOCKETS: [&str; 7] = [
    "/run/mysqld/mysqld.sock",
    "/var/run/mysqld/mysqld.sock",
    "/var/lib/mysql/mysql.sock",
    "/run/mariadb/mariadb.sock",
    "/run/mysql/mysql.sock",
    "/tmp/mysql.sock",
    "/var/mysql/mysql.sock",
];

const LOOPBACK: &str = "127.0.0.1";
const CANDIDATES_MAX: usize = 32;

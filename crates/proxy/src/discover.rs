//! Finds the MySQL or MariaDB server of this machine, and says why it takes it for one.
//!
//! Looks at the usual paths, at what `my.cnf` files name, at the sockets that processes listen on, and last at
//! MySQL's port. Whatever is found is asked for its greeting; nothing else is sent.

use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use link::Address;

use crate::config::Listen;

/// Something that may be a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub address: Address,
    /// Where it was found.
    pub why: String,
    /// It greets as MySQL servers do.
    pub answers: bool,
}

/// Where distributions put the socket.
const USUAL: [&str; 6] = [
    "/run/mysqld/mysqld.sock",
    "/var/run/mysqld/mysqld.sock",
    "/var/lib/mysql/mysql.sock",
    "/run/mysql/mysql.sock",
    "/tmp/mysql.sock",
    "/var/run/mysql.sock",
];

/// Files that name a socket or a port.
const FILES: [&str; 3] = ["/etc/my.cnf", "/etc/mysql/my.cnf", "/usr/etc/my.cnf"];

/// How deep files may include each other.
const DEPTH_MAX: usize = 8;

/// Time for a connection and a greeting.
const PATIENCE: Duration = Duration::from_millis(500);

/// The servers of this machine, the most likely one first. `root` is `/`, or a recorded tree; `own` is where this
/// Flifo listens, which is no server.
pub fn local(root: &Path, own: &[Listen]) -> Vec<Found> {
    let mut seen = HashSet::new();
    candidates(root)
        .into_iter()
        .filter(|(address, _)| !own.iter().any(|listen| is_same(listen, address)))
        .filter(|(address, _)| seen.insert(identity(address)))
        .map(|(address, why)| Found { answers: greets(&address), address, why })
        .collect()
}

/// Two paths of one socket are one server.
fn identity(address: &Address) -> Address {
    match address {
        Address::Unix(path) => {
            Address::Unix(fs::canonicalize(path).unwrap_or_else(|_| path.clone()))
        }
        other => other.clone(),
    }
}

fn is_same(listen: &Listen, address: &Address) -> bool {
    match (listen, address) {
        (Listen::Unix(own), Address::Unix(path)) => own == path,
        (Listen::Tcp(own), Address::Tcp { port, .. }) => own.port() == *port,
        _ => false,
    }
}

/// All addresses worth a try, and why; nothing is connected to.
fn candidates(root: &Path) -> Vec<(Address, String)> {
    let mut found = Vec::new();
    for path in USUAL {
        if below(root, Path::new(path)).exists() {
            found.push((Address::Unix(path.into()), "a usual place for the socket".to_owned()));
        }
    }
    let mut ports = Vec::new();
    for file in FILES {
        read_options(root, Path::new(file), 0, &mut |file, key, value| match key {
            "socket" if below(root, Path::new(value)).exists() => {
                let why = format!("{} names it", file.display());
                found.push((Address::Unix(value.into()), why));
            }
            "port" => {
                if let Ok(port) = value.parse() {
                    let why = format!("{} names its port", file.display());
                    ports.push((Address::Tcp { host: "127.0.0.1".to_owned(), port }, why));
                }
            }
            _ => {}
        });
    }
    for path in listening_sockets(root) {
        found.push((Address::Unix(path), "a process listens on it".to_owned()));
    }
    found.extend(ports);
    let port = Address::Tcp { host: "127.0.0.1".to_owned(), port: link::address::DEFAULT_PORT };
    found.push((port, "MySQL's port".to_owned()));
    found
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Tells each option of a server or client group, and those of the files that are included.
fn read_options(root: &Path, file: &Path, depth: usize, tell: &mut impl FnMut(&Path, &str, &str)) {
    let Ok(text) = fs::read_to_string(below(root, file)) else { return };
    let mut concerns_us = false;
    for line in text.lines().map(str::trim) {
        if let Some(group) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            let servers = ["mysqld", "mariadbd", "mariadb", "server", "client", "client-server"];
            concerns_us = servers.contains(&group);
        } else if let Some(other) = line.strip_prefix("!includedir ") {
            let folder = Path::new(other.trim());
            let entries = fs::read_dir(below(root, folder)).into_iter().flatten().flatten();
            let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
            names.sort();
            for name in names.iter().filter(|name| name.to_string_lossy().ends_with(".cnf")) {
                if depth < DEPTH_MAX {
                    read_options(root, &folder.join(name), depth + 1, tell);
                }
            }
        } else if let Some(other) = line.strip_prefix("!include ") {
            if depth < DEPTH_MAX {
                read_options(root, Path::new(other.trim()), depth + 1, tell);
            }
        } else if concerns_us && let Some((key, value)) = line.split_once('=') {
            let value = value.split('#').next().unwrap_or_default().trim();
            tell(file, key.trim(), value.trim_matches(['"', '\'']));
        }
    }
}

/// Paths of Unix sockets that are listened on and look like a server's.
fn listening_sockets(root: &Path) -> Vec<PathBuf> {
    /// `__SO_ACCEPTCON`: somebody listens.
    const LISTENS: &str = "00010000";
    let Ok(text) = fs::read_to_string(below(root, Path::new("/proc/net/unix"))) else {
        return Vec::new();
    };
    text.lines()
        .filter_map(|line| {
            let mut fields = line.split_whitespace();
            let flags = fields.nth(3)?;
            let path = fields.nth(3)?;
            let name = path.rsplit('/').next()?;
            let looks_right = name.contains("mysql") || name.contains("mariadb");
            let is_classic = !name.contains("mysqlx");
            (flags == LISTENS && path.starts_with('/') && looks_right && is_classic)
                .then(|| path.into())
        })
        .collect()
}

/// Whether something there greets in protocol version 10.
fn greets(address: &Address) -> bool {
    let mut start = [0; 5];
    let read = match address {
        Address::Unix(path) => UnixStream::connect(path).and_then(|mut stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.read_exact(&mut start)
        }),
        Address::Tcp { host, port } => {
            let Ok(ip) = host.parse() else { return false };
            let there = SocketAddr::new(ip, *port);
            TcpStream::connect_timeout(&there, PATIENCE).and_then(|mut stream| {
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.read_exact(&mut start)
            })
        }
    };
    // An error in the greeting's place ("too many connections") is a server's, too.
    read.is_ok() && matches!(start, [_, _, _, 0, 10 | 0xff])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree with a socket's path, an option file that includes others, and a table of sockets.
    fn tree() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("run/mysqld/mysqld.sock", "");
        write("srv/db.sock", "");
        write("etc/mysql/my.cnf", "[client]\nport = 3399 # here\n!includedir /etc/mysql/conf.d\n");
        write("etc/mysql/conf.d/a.cnf", "[mysqld]\nsocket = \"/srv/db.sock\"\n[other]\nport=1\n");
        write("etc/mysql/conf.d/b.txt", "[mysqld]\nport=2\n");
        write("etc/my.cnf", "!include /etc/my.cnf\n");
        write(
            "proc/net/unix",
            "Num RefCount Protocol Flags Type St Inode Path\n\
             0: 00000002 00000000 00010000 0001 01 1 /opt/mysql-8.sock\n\
             0: 00000002 00000000 00010000 0001 01 2 /opt/mysqlx.sock\n\
             0: 00000003 00000000 00000000 0001 03 3 /opt/mysql-9.sock\n\
             0: 00000002 00000000 00010000 0001 01 4 /run/dbus\n\
             0: 00000002 00000000 00010000 0001 01 5\n",
        );
        root
    }

    #[test]
    fn servers_are_found_in_order_with_reasons() {
        let root = tree();
        let found: Vec<_> = candidates(root.path())
            .into_iter()
            .map(|(address, why)| format!("{address}: {why}"))
            .collect();
        let want = [
            "/run/mysqld/mysqld.sock: a usual place for the socket",
            "/srv/db.sock: /etc/mysql/conf.d/a.cnf names it",
            "/opt/mysql-8.sock: a process listens on it",
            "127.0.0.1:3399: /etc/mysql/my.cnf names its port",
            "127.0.0.1:3306: MySQL's port",
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn only_what_greets_is_a_server_and_never_flifo_itself() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let there = Address::Tcp { host: "127.0.0.1".to_owned(), port: address.port() };
        let greeter = std::thread::spawn(move || {
            for greeting in [&b"\x4a\0\0\0\x0a10.11\0"[..], b"SSH-2.0-x\r\n"] {
                let (mut stream, _) = listener.accept().unwrap();
                std::io::Write::write_all(&mut stream, greeting).unwrap();
            }
        });
        assert!(greets(&there));
        assert!(!greets(&there));
        greeter.join().unwrap();
        assert!(is_same(&Listen::Tcp(address), &there));
        assert!(!is_same(&Listen::Unix("/a".into()), &there));
    }
}

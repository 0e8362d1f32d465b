//! Sockets that a supervisor has opened and passed on: they take the place of those that Flifo would open itself.
//!
//! A socket belongs to the option of its name, and to the address of that option on which it listens. So the
//! configuration names every address, passed or not; a socket that it does not name is an error, since clients would
//! come in there and find no answer. Invariant: what is passed stays its supervisor's. A path is not removed.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use socket2::{Socket, TcpKeepalive, Type};

use crate::config::Listen;
use crate::frontend::listener::{Listener, PathOwner};

/// Why passed sockets cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PassedError {
    #[error(
        "a socket was passed by the name {0:?}: give it FileDescriptorName=clients, console or http in its .socket unit"
    )]
    Name(String),
    #[error(
        "a socket was passed for {purpose} that takes no connections ({why}): its .socket unit must have ListenStream= \
         and Accept=no"
    )]
    Kind { purpose: Purpose, why: String },
    #[error(
        "a socket was passed for {purpose} that listens on {listen}, and {} does not name that address: name it there, or \
         remove it from the .socket unit",
        purpose.option()
    )]
    NotNamed { purpose: Purpose, listen: Listen },
    #[error(
        "every user of this machine could open the socket {listen}, which was passed for {purpose}, and so change what \
         Flifo does: its .socket unit must have SocketMode=0600, or 0660 with SocketGroup="
    )]
    OpenToAll { purpose: Purpose, listen: Listen },
}

/// What a passed socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Clients,
    Console,
    Http,
}

impl Purpose {
    const ALL: [Self; 3] = [Self::Clients, Self::Console, Self::Http];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Console => "console",
            Self::Http => "http",
        }
    }

    /// The option that names its addresses.
    pub(crate) const fn option(self) -> &'static str {
        match self {
            Self::Clients => "listen",
            Self::Console => "console.listen",
            Self::Http => "http.listen",
        }
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The sockets that are not in use yet.
#[derive(Debug, Default)]
pub(crate) struct Passed(Vec<PassedSocket>);

#[derive(Debug)]
struct PassedSocket {
    purpose: Purpose,
    listen: Listen,
    socket: Socket,
    owner: PathOwner,
}

impl Passed {
    /// Looks at what was passed: each socket with its name.
    pub(crate) fn read(sockets: Vec<(String, OwnedFd)>) -> Result<Self, PassedError> {
        let read = |(name, socket): (String, OwnedFd)| {
            let purpose = Purpose::ALL.into_iter().find(|purpose| purpose.name() == name);
            let purpose = purpose.ok_or(PassedError::Name(name))?;
            let kind = |error: io::Error| PassedError::Kind { purpose, why: error.to_string() };
            let socket = Socket::from(socket);
            let listen = address(&socket).map_err(kind)?;
            match purpose != Purpose::Clients && is_open_to_all(&listen).map_err(kind)? {
                true => Err(PassedError::OpenToAll { purpose, listen }),
                false => Ok(PassedSocket { purpose, listen, socket, owner: PathOwner::Supervisor }),
            }
        };
        sockets.into_iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// What another Flifo has listened on: for what, whether it has made their paths, and the sockets.
    pub(crate) fn taken_over(
        sockets: impl Iterator<Item = (String, bool, OwnedFd)>,
    ) -> Result<Self, PassedError> {
        let mut all = Self::default();
        for (name, is_own_path, socket) in sockets {
            let mut one = Self::read(vec![(name, socket)])?;
            if is_own_path {
                one.0.iter_mut().for_each(|it| it.owner = PathOwner::Flifo);
            }
            all.0.append(&mut one.0);
        }
        Ok(all)
    }

    /// The addresses whose paths stay.
    pub(crate) fn addresses(&self) -> Vec<Listen> {
        let passed = self.0.iter().filter(|it| it.owner == PathOwner::Supervisor);
        passed.map(|it| it.listen.clone()).collect()
    }

    /// Closes what is in no use.
    pub(crate) fn close(self) {
        for PassedSocket { listen, owner, .. } in self.0 {
            if let (Listen::Unix(path), PathOwner::Flifo) = (&listen, owner) {
                // It may be gone already.
                let _ = std::fs::remove_file(path);
            }
            tracing::info!(%listen, "the configuration does not name this address any more: it is closed");
        }
    }

    /// The socket that was passed for this address, which is to have so long a queue from now on.
    pub(crate) fn take(
        &mut self,
        purpose: Purpose,
        listen: &Listen,
        backlog: u32,
    ) -> Option<io::Result<Listener>> {
        let is_it = |it: &PassedSocket| it.purpose == purpose && it.listen == *listen;
        let at = self.0.iter().position(is_it)?;
        let PassedSocket { socket, owner, .. } = self.0.swap_remove(at);
        Some(ready(socket, listen, backlog, owner))
    }

    /// All are in use, or one is not named by the configuration.
    pub(crate) fn all_taken(self) -> Result<(), PassedError> {
        match self.0.into_iter().next() {
            Some(PassedSocket { purpose, listen, .. }) => {
                Err(PassedError::NotNamed { purpose, listen })
            }
            None => Ok(()),
        }
    }
}

/// Where a socket listens.
fn address(socket: &Socket) -> io::Result<Listen> {
    if socket.r#type()? != Type::STREAM || !socket.is_listener()? {
        return Err(io::Error::other("it is no stream socket that listens"));
    }
    let address = socket.local_addr()?;
    let tcp = address.as_socket().map(Listen::Tcp);
    let unix = || address.as_pathname().map(|path| Listen::Unix(path.to_owned()));
    let unknown = || io::Error::other("its address is neither one of TCP nor a path");
    tcp.or_else(unix).ok_or_else(unknown)
}

/// Whether it is a path that every user of the machine may connect to.
fn is_open_to_all(listen: &Listen) -> io::Result<bool> {
    match listen {
        Listen::Unix(path) => Ok(std::fs::metadata(path)?.mode() & 0o002 != 0),
        Listen::Tcp(_) => Ok(false),
    }
}

/// Makes a passed socket like those that Flifo opens: see `listener::bind`.
fn ready(socket: Socket, listen: &Listen, backlog: u32, owner: PathOwner) -> io::Result<Listener> {
    socket.set_nonblocking(true)?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok(match listen {
        Listen::Tcp(_) => {
            socket.set_tcp_nodelay(true)?;
            socket.set_tcp_keepalive(&TcpKeepalive::new())?;
            Listener::Tcp(socket.into())
        }
        Listen::Unix(_) => Listener::Unix(socket.into(), owner),
    })
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;

    use super::*;

    fn read(name: &str, socket: impl Into<OwnedFd>) -> Result<Passed, String> {
        Passed::read(vec![(name.to_owned(), socket.into())]).map_err(|error| error.to_string())
    }

    #[test]
    fn a_socket_is_taken_by_its_name_and_address() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("console");
        let tcp = TcpListener::bind("127.0.0.1:0").expect("binds");
        let client = Listen::Tcp(tcp.local_addr().expect("has one"));
        let unix = UnixListener::bind(&path).expect("binds");
        let is_open_to = |mode| {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("is its own");
            let same = unix.try_clone().expect("one more descriptor");
            read("console", same).is_err_and(|error| error.contains("SocketMode=0600"))
        };
        assert!(is_open_to(0o666) && is_open_to(0o622) && !is_open_to(0o660) && !is_open_to(0o600));
        let sockets = vec![("clients".into(), tcp.into()), ("console".into(), unix.into())];
        let mut passed = Passed::read(sockets).expect("both fit");
        assert_eq!(passed.addresses(), [client.clone(), Listen::Unix(path.clone())]);
        assert!(passed.take(Purpose::Http, &client, 1).is_none());
        assert!(passed.take(Purpose::Clients, &Listen::Unix(path.clone()), 1).is_none());
        let taken = passed.take(Purpose::Clients, &client, 1).expect("is there").expect("works");
        assert!(matches!(taken, Listener::Tcp(_)));
        let console = Listen::Unix(path);
        let taken = passed.take(Purpose::Console, &console, 1).expect("is there").expect("works");
        assert_eq!(taken.own_path(&console), None);
        passed.all_taken().expect("nothing is left");
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_line_to_change() {
        let tcp = || TcpListener::bind("127.0.0.1:0").expect("binds");
        let error = read("flifo.socket", tcp()).expect_err("is no name");
        assert!(error.contains("\"flifo.socket\"") && error.contains("FileDescriptorName="));
        let error = read("http", UdpSocket::bind("127.0.0.1:0").expect("binds")).expect_err("udp");
        assert!(error.contains("for http") && error.contains("ListenStream="), "{error}");
        let (one, _other) = std::os::unix::net::UnixStream::pair().expect("a pair");
        assert!(read("clients", one).expect_err("is connected").contains("Accept=no"));
        let file = tempfile::tempfile().expect("a file");
        assert!(read("clients", file).is_err());
        let passed = read("console", tcp()).expect("fits");
        let error = passed.all_taken().expect_err("nothing names it").to_string();
        assert!(error.contains("console.listen does not name"), "{error}");
    }
}

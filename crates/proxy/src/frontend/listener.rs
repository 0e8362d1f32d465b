//! Where clients come in: TCP and Unix sockets, bound before anything else starts. Accepts clients until Flifo stops.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use backend::dial::Probes;
use rustix::net::SocketFlags;
use socket2::{Domain, Socket, TcpKeepalive, Type};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

use crate::config::Listen;
use crate::fault::{Fault, Kind};
use crate::frontend::accepted::{Accepted, Socket as ClientSocket};
use crate::frontend::audited;
use crate::frontend::login;
use crate::frontend::passed::Purpose;
use crate::state::shared::Shared;
use crate::state::worker::Worker;
use crate::worker::open_listener::OpenListener;

/// A bound socket.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener, PathOwner),
}

/// Which process removes the path of a Unix socket that is listened on no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathOwner {
    Flifo,
    /// It has opened the socket, and may pass it to the next Flifo.
    Supervisor,
}

impl Listener {
    /// The same socket on another descriptor.
    fn copy(&self) -> io::Result<OwnedFd> {
        match self {
            Self::Tcp(it) => it.as_fd().try_clone_to_owned(),
            Self::Unix(it, _) => it.as_fd().try_clone_to_owned(),
        }
    }

    /// The path that is removed when this socket is listened on no longer.
    pub(crate) fn own_path(&self, listen: &Listen) -> Option<PathBuf> {
        match (self, listen) {
            (Self::Unix(_, PathOwner::Flifo), Listen::Unix(path)) => Some(path.clone()),
            _ => None,
        }
    }
}

/// Whose a Unix socket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Any user of the machine may connect: passwords decide, as on the server's own socket.
    Everybody,
    /// Flifo's own user.
    Owner,
}

/// Binds an address.
pub(crate) fn bind(listen: &Listen, backlog: u32, audience: Audience) -> io::Result<Listener> {
    match listen {
        Listen::Tcp(address) => bind_tcp(*address, backlog).map(Listener::Tcp),
        Listen::Unix(path) => {
            let bound = bind_unix(path, backlog, audience)?;
            Ok(Listener::Unix(bound, PathOwner::Flifo))
        }
    }
}

/// How an address is bound.
pub(crate) type Bind = fn(&Listen, u32, Audience) -> io::Result<Listener>;

/// The same where a Flifo was killed that had the address: the kernel takes its time to close what it had.
pub(crate) fn bind_behind(
    listen: &Listen,
    backlog: u32,
    audience: Audience,
) -> io::Result<Listener> {
    let mut looks = 0;
    loop {
        match bind(listen, backlog, audience) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && looks < LOOKS => {
                looks += 1;
                std::thread::sleep(LOOK);
            }
            bound => return bound,
        }
    }
}

const LOOK: Duration = Duration::from_millis(10);
const LOOKS: u32 = 500;

/// Why an address cannot be bound, and what to do about it. `option` is where the configuration has it.
pub(crate) fn explain(listen: &Listen, error: &io::Error, option: &str) -> String {
    if error.kind() != io::ErrorKind::AddrInUse {
        return error.to_string();
    }
    if let Listen::Tcp(address) = listen
        && let Some(pid) = sys::sockets::listener(address.port(), |_| true)
        && let Ok(name) = std::fs::read_to_string(format!("/proc/{pid}/comm"))
    {
        let (port, name) = (address.port(), name.trim_end());
        if pid == std::process::id() {
            return format!("port {port} is listened on already: the configuration names it twice");
        }
        return format!(
            "port {port} is taken by process {pid} ({name}); choose another with `{option}`"
        );
    }
    format!("another process listens there; choose another address with `{option}`")
}

fn bind_tcp(address: SocketAddr, backlog: u32) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // Whatever is accepted inherits these: small packets go out at once, a client that has vanished is noticed.
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&TcpKeepalive::new())?;
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// As the user that root becomes, if it does: another process of that user's may have put links there.
fn bind_unix(
    path: &Path,
    backlog: u32,
    audience: Audience,
) -> io::Result<std::os::unix::net::UnixListener> {
    sys::later_user::make(path, || bind_path(path, backlog, audience))
}

fn bind_path(
    path: &Path,
    backlog: u32,
    audience: Audience,
) -> io::Result<std::os::unix::net::UnixListener> {
    // A socket that a dead process left behind is in the way; one that answers belongs to a living process.
    if path.exists() {
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        std::fs::remove_file(path)?;
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&socket2::SockAddr::unix(path)?)?;
    let mode = if audience == Audience::Everybody { 0o777 } else { 0o600 };
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Keeps a socket for the Flifo that may take over.
pub(crate) fn keep(shared: &Shared, purpose: Purpose, listen: &Listen, listener: &Listener) {
    match listener.copy() {
        Ok(socket) => {
            let is_own_path = listener.own_path(listen).is_some();
            shared.listening.add((purpose.name(), listen.to_string()), socket, is_own_path);
        }
        Err(error) => {
            tracing::warn!(%listen, %error, "a Flifo that takes over will have to open this address anew");
        }
    }
}

/// Accepts clients there until Flifo stops, or [`close`] is called.
pub(crate) fn open(worker: &Rc<Worker>, listen: &Listen, listener: Listener) {
    keep(&worker.shared, Purpose::Clients, listen, &listener);
    let (listen, end) = (Arc::new(listen.clone()), Rc::new(Notify::new()));
    let own_path = listener.own_path(&listen);
    let (socket, kind): (OwnedFd, Wrap) = match listener {
        Listener::Tcp(it) => (it.into(), |it| ClientSocket::Tcp(it.into())),
        Listener::Unix(it, _) => (it.into(), |it| ClientSocket::Unix(it.into())),
    };
    probe(&listen, &socket, worker.plan().limits.client_silence);
    let socket = Rc::new(socket);
    let opened = OpenListener { socket: Rc::downgrade(&socket), end: Rc::clone(&end) };
    worker.entrance.listeners.borrow_mut().insert(Arc::clone(&listen), opened);
    let worker = Rc::clone(worker);
    crate::worker::tasks::vital(async move {
        serve(&worker, socket, (&listen, &end), kind).await?;
        let is_closed = !worker.is_stopping() && !worker.shared.is_departing();
        if let Some(path) = own_path.filter(|_| is_closed) {
            // It may be gone already.
            let _ = std::fs::remove_file(path);
        }
        Ok::<_, io::Error>(())
    });
}

/// Makes a client's socket of what was accepted there.
type Wrap = fn(OwnedFd) -> ClientSocket;

/// No more clients come in there. Those that are on their way are served.
pub(crate) fn close(worker: &Worker, listen: &Listen) {
    if let Some(opened) = worker.entrance.listeners.borrow_mut().remove(listen) {
        opened.end.notify_one();
        if !worker.shared.is_departing() {
            worker.shared.listening.remove(&(Purpose::Clients.name(), listen.to_string()));
        }
    }
}

/// So many clients wait in the kernel from now on, at each listener of this worker.
pub(crate) fn set_backlog(worker: &Worker, backlog: u32) {
    for (listen, opened) in &*worker.entrance.listeners.borrow() {
        let Some(socket) = opened.socket.upgrade() else { continue };
        // Linux takes the new number for a socket that listens already.
        let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
        if let Err(error) = rustix::net::listen(&*socket, backlog) {
            tracing::warn!(%listen, %error, "the backlog of this address stays as it was");
        }
    }
}

/// Clients that are accepted from now on are asked so whether they are there still.
pub(crate) fn set_silence(worker: &Worker, silence: Option<Duration>) {
    for (listen, opened) in &*worker.entrance.listeners.borrow() {
        if let Some(socket) = opened.socket.upgrade() {
            probe(listen, &socket, silence);
        }
    }
}

/// Whatever is accepted inherits that.
fn probe(listen: &Listen, socket: &OwnedFd, silence: Option<Duration>) {
    if let Err(error) = Probes::within(silence).set(socket.as_fd()) {
        tracing::warn!(%listen, %error, "clients of this address that vanish are noticed late");
    }
}

/// Registers a listener with the event loop.
#[expect(
    deprecated,
    reason = "the new call asks for proof for the sake of types that may close their descriptor early; a listener owns it"
)]
fn watch(listener: Rc<OwnedFd>) -> io::Result<AsyncFd<Rc<OwnedFd>>> {
    AsyncFd::with_interest(listener, Interest::READABLE)
}

/// Not by the runtime's own listener: that would make each client known to this worker's loop, only for it to be
/// forgotten again when the client is given to its worker.
async fn serve(
    worker: &Rc<Worker>,
    listener: Rc<OwnedFd>,
    (listen, end): (&Arc<Listen>, &Notify),
    kind: Wrap,
) -> io::Result<()> {
    let listener = watch(listener)?;
    let accept = |listener: &Rc<OwnedFd>| {
        Ok(rustix::net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?)
    };
    let accepted = |socket| Accepted { socket: kind(socket), listen: Arc::clone(listen) };
    while !worker.is_stopping() {
        tokio::select! {
            biased;
            () = end.notified() => break,
            socket = listener.async_io(Interest::READABLE, accept) => {
                take(worker, socket.map(accepted)).await;
            }
        }
    }
    while let (false, Ok(socket)) = (worker.is_stopping(), accept(listener.get_ref())) {
        take(worker, Ok(accepted(socket))).await;
    }
    Ok(())
}

pub(crate) async fn take(worker: &Rc<Worker>, accepted: io::Result<Accepted>) {
    match accepted {
        Ok(accepted) => {
            let clients = worker.shared.clients.fetch_add(1, Ordering::Relaxed);
            let refusal = match clients >= worker.plan().clients_max as usize {
                true => Some(format!("Flifo's clients_max is {}", worker.plan().clients_max)),
                false => lacks_descriptors(worker, &accepted.socket),
            };
            match refusal {
                None => login::hand_over(worker, accepted),
                Some(why) => {
                    worker.shared.clients.fetch_sub(1, Ordering::Relaxed);
                    refuse(worker, &accepted.socket, &why);
                }
            }
        }
        Err(error) => {
            // Out of descriptors or memory: those inside go on, those outside wait in the backlog.
            tracing::warn!(%error, "a client could not be accepted");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Why a client may not stay, if its descriptor is one of those that are kept for backends and administration.
fn lacks_descriptors(worker: &Worker, socket: &ClientSocket) -> Option<String> {
    let descriptor = match socket {
        ClientSocket::Tcp(stream) => stream.as_raw_fd(),
        ClientSocket::Unix(stream) => stream.as_raw_fd(),
        #[cfg(feature = "simulation")]
        ClientSocket::Memory(_) => 0,
    };
    let descriptors = &worker.shared.cluster.dialer.descriptors;
    if descriptors.admit_client(descriptor) {
        return None;
    }
    let limit = descriptors.limit().unwrap_or_default();
    let why = format!(
        "Flifo may open {limit} files, and reserves the rest for backend connections and \
         administration; raise LimitNOFILE= in its unit (ulimit -n)"
    );
    tracing::warn!(
        limit,
        "a client was refused: no more open files for clients (LimitNOFILE=, ulimit -n)"
    );
    Some(why)
}

/// Tells a client that there are too many. It is not waited for.
fn refuse(worker: &Worker, socket: &ClientSocket, why: &str) {
    worker.count_fault(Kind::TooManyClients);
    let message = format!("Too many connections: {why}");
    let fault = Fault::new(Kind::TooManyClients, message);
    audited::see_no_room(worker, socket, &fault);
    let greeting = fault.greeting();
    // A fresh socket's buffer is empty: it takes this at once, or the client is gone.
    let _ = match socket {
        ClientSocket::Tcp(stream) => (&*stream).write_all(&greeting),
        ClientSocket::Unix(stream) => (&*stream).write_all(&greeting),
        #[cfg(feature = "simulation")]
        ClientSocket::Memory(_) => Ok(()),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_that_has_the_port_is_named() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
        let address = taken.local_addr().expect("has one");
        let (listen, port) = (Listen::Tcp(address), address.port());
        let error = bind(&listen, 1, Audience::Everybody).expect_err("it is taken");
        let why = explain(&listen, &error, "console.listen");
        assert_eq!(
            why,
            format!("port {port} is listened on already: the configuration names it twice")
        );

        // The socket goes to another process, as its standard input.
        let given = OwnedFd::from(taken);
        let other = std::process::Command::new("sleep").arg("3600").stdin(given).spawn();
        let mut other = other.expect("starts");
        let why = explain(&listen, &error, "console.listen");
        let pid = other.id();
        other.kill().and_then(|()| other.wait()).expect("ends");
        let expected = format!(
            "port {port} is taken by process {pid} (sleep); choose another with `console.listen`"
        );
        assert_eq!(why, expected);
    }

    #[test]
    fn an_address_is_waited_for_whose_process_is_about_to_be_gone() {
        let folder = tempfile::tempdir().expect("a folder");
        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
        let tcp = Listen::Tcp(taken.local_addr().expect("an address"));
        let unix = Listen::Unix(folder.path().join("flifo.sock"));
        let other = bind(&unix, 1, Audience::Owner).expect("binds");
        let ends = std::thread::spawn(move || {
            std::thread::sleep(10 * LOOK);
            drop((taken, other));
        });
        for listen in [&tcp, &unix] {
            bind_behind(listen, 1, Audience::Owner).expect("binds in the end");
        }
        ends.join().expect("no panic");
    }

    #[test]
    fn a_socket_that_answers_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let listen = Listen::Unix(folder.path().join("flifo.sock"));
        let bound = bind(&listen, 1, Audience::Owner).expect("binds");
        let error = bind(&listen, 1, Audience::Owner).expect_err("it is taken");
        let why = explain(&listen, &error, "listen");
        assert_eq!(why, "another process listens there; choose another address with `listen`");
        drop(bound);
        bind(&listen, 1, Audience::Owner).expect("a socket that a process left behind is replaced");
    }
}

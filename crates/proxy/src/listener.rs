//! Where clients come in: TCP and Unix sockets, bound before anything else starts.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tokio::io::AsyncWriteExt;

use crate::config::Listen;
use crate::fault::{Fault, Kind};
use crate::login::{self, Accepted};
use crate::worker::Worker;

/// A bound socket.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener),
}

/// Binds an address. The error says which one and what to do.
pub(crate) fn bind(listen: &Listen, backlog: u32) -> io::Result<Listener> {
    match listen {
        Listen::Tcp(address) => bind_tcp(*address, backlog).map(Listener::Tcp),
        Listen::Unix(path) => bind_unix(path, backlog).map(Listener::Unix),
    }
}

fn bind_tcp(address: SocketAddr, backlog: u32) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn bind_unix(path: &Path, backlog: u32) -> io::Result<std::os::unix::net::UnixListener> {
    // A socket that a dead process left behind is in the way; one that answers is somebody's.
    if path.exists() {
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "somebody listens there"));
        }
        std::fs::remove_file(path)?;
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.bind(&socket2::SockAddr::unix(path)?)?;
    // Whoever may speak MySQL's protocol is decided by passwords, as on the server's own socket.
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777))?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Accepts clients until Flifo stops.
pub(crate) async fn serve(worker: Rc<Worker>, listener: Listener) -> io::Result<()> {
    match listener {
        Listener::Tcp(listener) => {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            while !worker.is_stopping() {
                let accepted = listener.accept().await;
                let accepted =
                    accepted.and_then(|(stream, _)| stream.into_std()).map(Accepted::Tcp);
                take(&worker, accepted).await;
            }
        }
        Listener::Unix(listener) => {
            let listener = tokio::net::UnixListener::from_std(listener)?;
            while !worker.is_stopping() {
                let accepted = listener.accept().await;
                let accepted =
                    accepted.and_then(|(stream, _)| stream.into_std()).map(Accepted::Unix);
                take(&worker, accepted).await;
            }
        }
    }
    Ok(())
}

async fn take(worker: &Rc<Worker>, accepted: io::Result<Accepted>) {
    match accepted {
        Ok(accepted) => {
            let clients = worker.shared.clients.fetch_add(1, Ordering::Relaxed);
            if clients >= worker.plan.clients_max as usize {
                worker.shared.clients.fetch_sub(1, Ordering::Relaxed);
                refuse(worker, accepted);
            } else {
                login::hand_over(worker, accepted);
            }
        }
        Err(error) => {
            // Out of descriptors or memory: those inside go on, those outside wait in the backlog.
            tracing::warn!(%error, "a client could not be accepted");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// Tells a client that there are too many. It is not waited for.
fn refuse(worker: &Worker, accepted: Accepted) {
    worker.count_fault(Kind::TooManyClients);
    let message =
        format!("Too many connections: Flifo's clients_max is {}", worker.plan.clients_max);
    let greeting = Fault::new(Kind::TooManyClients, message).greeting();
    tokio::task::spawn_local(async move {
        // A fresh socket's buffer is empty: the write does not block.
        let _ = match accepted {
            Accepted::Tcp(stream) => match tokio::net::TcpStream::from_std(stream) {
                Ok(mut stream) => stream.write_all(&greeting).await,
                Err(error) => Err(error),
            },
            Accepted::Unix(stream) => match tokio::net::UnixStream::from_std(stream) {
                Ok(mut stream) => stream.write_all(&greeting).await,
                Err(error) => Err(error),
            },
        };
    });
}

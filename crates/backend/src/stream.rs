//! One non-blocking socket, TCP or Unix, with or without TLS, shared by the tasks of one thread.
//!
//! A client's task reads from it while a backend's task writes replies to it, so every method takes
//! `&self`. Reading and writing never wait; waiting is done apart, by [`Stream::poll_readable`] and
//! [`Stream::poll_writable`], of which each wakes the last task that asked. Timeouts are the
//! caller's.
//!
//! Invariants: no wake-up is lost, also for bytes that are decrypted already; one message costs one
//! system call each way; what waits to be sent inside a stream is bounded, and nothing more is
//! taken while it waits.

#[cfg(feature = "simulation")]
pub mod memory;
mod session;
mod socket;
#[cfg(test)]
mod tests;
mod unix;

use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream};
use tokio::task::coop::poll_proceed;
use wire::auth::certificate::Fingerprint;

use self::session::Session;
use self::socket::Socket;

pub use self::session::TlsFacts;
pub(crate) use self::session::failure;

/// A connection's socket.
#[derive(Debug)]
pub struct Stream {
    tls: Option<Box<Session>>,
    socket: Socket,
}

/// The process or the address at the other end; for logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    Tcp(SocketAddr),
    /// A process on this machine, and the user it runs as.
    Unix {
        pid: Option<i32>,
        uid: u32,
    },
    /// The connection has ended.
    Gone,
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Self {
        Self { tls: None, socket: Socket::tcp(stream) }
    }
}

#[cfg(feature = "simulation")]
impl From<memory::Memory> for Stream {
    fn from(memory: memory::Memory) -> Self {
        Self { tls: None, socket: Socket::memory(memory) }
    }
}

impl TryFrom<UnixStream> for Stream {
    type Error = io::Error;

    fn try_from(stream: UnixStream) -> io::Result<Self> {
        Ok(Self { tls: None, socket: Socket::unix(stream)? })
    }
}

/// A stream on its way to another thread: no event loop watches it.
#[derive(Debug)]
pub struct Packed {
    tls: Option<Box<Session>>,
    socket: socket::Packed,
}

impl Packed {
    /// A connected socket that does not block, which another process has opened, and on which there is no TLS.
    pub fn of(file: OwnedFd) -> io::Result<Self> {
        Ok(Self { tls: None, socket: socket::Packed::of(file)? })
    }

    /// A connection whose other end is simulated.
    #[cfg(feature = "simulation")]
    pub const fn of_memory(memory: memory::Memory) -> Self {
        Self { tls: None, socket: socket::Packed::Memory(memory) }
    }

    /// Has this thread's event loop watch it.
    pub fn unpack(self) -> io::Result<Stream> {
        Ok(Stream { tls: self.tls, socket: self.socket.unpack()? })
    }
}

impl Stream {
    /// Takes the stream away from this thread's event loop, so that another thread can have it.
    pub fn pack(mut self) -> io::Result<Packed> {
        let socket = self.socket.pack()?;
        // What ends with this is not the connection, so the peer is not told that it does.
        Ok(Packed { tls: self.tls.take(), socket })
    }

    /// Reads what is there. `Ok(0)` is the end; `WouldBlock` means that nothing is there now.
    ///
    /// The buffer must not be empty.
    pub fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.tls {
            None => self.socket.try_read(buffer),
            Some(session) => session.try_read(&self.socket, buffer),
        }
    }

    /// Writes as much as the socket takes.
    ///
    /// With TLS, what was taken before goes first; then up to 64 KiB are taken, which the socket
    /// may not have taken when this returns (see [`Self::wants_flush`]).
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.tls {
            None => self.socket.try_write(bytes),
            Some(session) => session.try_write(&self.socket, &[IoSlice::new(bytes)]),
        }
    }

    /// As [`Self::try_write`], from several pieces.
    pub fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match &self.tls {
            None => self.socket.try_write_vectored(slices),
            Some(session) => session.try_write(&self.socket, slices),
        }
    }

    /// Sends what was taken and not sent yet. `WouldBlock` means that some of it is left.
    pub fn try_flush(&self) -> io::Result<()> {
        self.tls.as_ref().map_or(Ok(()), |session| session.try_flush(&self.socket))
    }

    /// Says whether something was taken that has not been sent.
    pub fn wants_flush(&self) -> bool {
        self.tls.as_ref().is_some_and(|session| session.wants_flush())
    }

    /// Ready as soon as [`Self::try_read`] may find something, or the end.
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let has_news = self.tls.as_ref().is_some_and(|session| session.has_news());
        if !has_news && !self.socket.has_left() {
            return self.socket.poll_readable(context);
        }
        // Uses up the task's budget in the runtime: a task that always has bytes to read must let other tasks run.
        ready!(poll_proceed(context)).made_progress();
        Poll::Ready(Ok(()))
    }

    /// Ready as soon as the socket may take something.
    pub fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_writable(context)
    }

    pub async fn readable(&self) -> io::Result<()> {
        poll_fn(|context| self.poll_readable(context)).await
    }

    pub async fn writable(&self) -> io::Result<()> {
        poll_fn(|context| self.poll_writable(context)).await
    }

    /// Looks away from what can be read now: [`Self::poll_readable`] waits for something new to
    /// arrive.
    ///
    /// Nothing is lost: [`Self::try_read`] reads what was looked away from, and what it leaves is
    /// announced again.
    pub fn clear_readable(&self) {
        if let Some(session) = &self.tls {
            session.set_aside();
        }
        self.socket.set_aside();
    }

    /// Says whether the peer has closed its side, as far as the event loop has heard; what it sent
    /// before may still be unread. Makes no system call.
    pub fn hung_up(&self) -> bool {
        self.tls.as_ref().is_some_and(|session| session.is_ended()) || self.socket.hung_up()
    }

    /// Waits for something to read, and reads it, also what was looked away from. `Ok(0)` is the end.
    pub async fn read_some(&self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.socket.is_set_aside() {
            match self.try_read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
        loop {
            self.readable().await?;
            match self.try_read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
    }

    /// Writes everything, and returns when the socket has taken it.
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.try_write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable().await?,
                Err(error) => return Err(error),
            }
        }
        self.flush().await
    }

    /// Waits until the socket has taken everything.
    pub async fn flush(&self) -> io::Result<()> {
        loop {
            match self.try_flush() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable().await?,
                done => return done,
            }
        }
    }

    /// Tells the peer that nothing more will be sent, behind what the socket takes at once of what
    /// is left to send. What the peer has sent can still be read.
    pub fn shutdown(&self) {
        if let Some(session) = &self.tls {
            session.close(&self.socket);
        }
        self.socket.shutdown();
    }

    /// Answers a client that asks for TLS. `already_read` is what was read behind its request.
    ///
    /// Those bytes can only be the beginning of the client's TLS: they are taken for nothing else. If an attacker in
    /// the network path puts bytes behind the request, they end the connection and never count as the client's.
    pub async fn accept_tls(
        self,
        config: Arc<rustls::ServerConfig>,
        already_read: &[u8],
    ) -> io::Result<Self> {
        let session = Session::server(config)?;
        self.shake_hands(session, already_read).await
    }

    /// The client was shown this certificate in the handshake.
    pub(crate) fn has_shown(&mut self, certificate: Fingerprint) {
        if let Some(session) = &mut self.tls {
            session.shown = Some(certificate);
        }
    }

    /// The certificate that the peer was shown, where it is a client.
    pub fn shown(&self) -> Option<Fingerprint> {
        self.tls.as_ref().and_then(|session| session.shown)
    }

    /// Begins TLS with a server that has been asked for it; `name` is whose certificate is
    /// expected.
    ///
    /// A server says nothing between its greeting and its part of the handshake. A caller that has
    /// read more than the greeting must give up the connection instead.
    pub async fn connect_tls(
        self,
        config: Arc<rustls::ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<Self> {
        let session = Session::client(config, name)?;
        self.shake_hands(session, &[]).await
    }

    /// Says whether the connection is safe from readers in the network path: TLS, or a Unix socket.
    pub const fn is_secure(&self) -> bool {
        self.is_tls() || self.socket.is_unix()
    }

    pub const fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    pub fn tls_facts(&self) -> Option<TlsFacts> {
        self.tls.as_ref().map(|session| session.facts())
    }

    /// The certificate that the peer has shown.
    pub fn peer_certificate(&self) -> Option<Fingerprint> {
        self.tls.as_ref().and_then(|session| session.peer_certificate())
    }

    pub fn peer(&self) -> Peer {
        if let Some(peer) = self.socket.peer_address() {
            return Peer::Tcp(peer);
        }
        match self.socket.process() {
            Some((pid, uid)) => Peer::Unix { pid, uid },
            None => Peer::Gone,
        }
    }

    /// The number by which the kernel knows the socket. No number that was free is lower, when it is opened.
    pub fn descriptor(&self) -> i32 {
        self.socket.descriptor()
    }

    /// The socket itself, to be asked about and tuned; but for one that is simulated.
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.socket.as_fd()
    }

    /// The same socket on another descriptor, for another process. `None`: its TLS cannot go there.
    pub fn file(&self) -> Option<io::Result<OwnedFd>> {
        self.tls.is_none().then(|| self.socket.file())
    }

    /// The address of the other end of a TCP connection.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.socket.peer_address()
    }

    /// The addresses of a TCP connection: the peer's and our own.
    pub fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        self.socket.addresses()
    }

    async fn shake_hands(mut self, session: Session, already_read: &[u8]) -> io::Result<Self> {
        if self.tls.is_some() {
            return Err(io::Error::other("TLS was asked for inside TLS"));
        }
        let session = self.tls.insert(Box::new(session));
        session.begin(already_read);
        loop {
            let progress = session.try_handshake(&self.socket);
            match progress {
                Ok(()) => return Ok(self),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if session.wants_flush() {
                poll_fn(|context| self.socket.poll_writable(context)).await?;
            } else {
                poll_fn(|context| self.socket.poll_readable(context)).await?;
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(session) = &self.tls {
            session.close(&self.socket);
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix { pid: Some(pid), uid } => write!(f, "process {pid} of user id {uid}"),
            Self::Unix { pid: None, uid } => write!(f, "a process of user id {uid}"),
            Self::Gone => f.write_str("a peer that is gone"),
        }
    }
}

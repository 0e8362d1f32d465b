//! A plain non-blocking socket, TCP or Unix, and what is known of its readiness.
//!
//! Owns the rule of *one system call per message*: a read that fills less than its buffer has
//! emptied the kernel's, so the readiness that the runtime remembers is cleared, and nothing asks
//! the kernel again before it has news. The same holds for a write that was not taken whole.
//!
//! Why clearing loses nothing. The runtime watches the socket edge-triggered and looks at events
//! only between the polls of this thread's tasks. Bytes that arrive after the read put the socket
//! on the kernel's list of events again, whether before or after the clearing, and the next look
//! finds them there. That the peer has closed is kept when readiness is cleared: once seen, it
//! makes the socket readable for good, so the end of the stream is read; not yet seen, it is an
//! event of its own. Bytes that a peer marks as urgent could end a read early; MySQL knows no
//! urgent bytes, and a peer that sends them keeps only itself waiting.
//!
//! Invariant: bytes that are known to be in the kernel and that the runtime does not announce are
//! noted in `unread`.

use std::cell::Cell;
use std::io::{self, IoSlice, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use rustix::net::{RecvFlags, SendFlags};
use socket2::{Domain, SockRef};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};

#[cfg(feature = "simulation")]
use super::memory::Memory;
use super::unix::Unix;

#[derive(Debug)]
pub(super) struct Socket {
    kind: Kind,
    unread: Cell<Unread>,
    #[cfg(test)]
    pub(super) reads: Cell<u32>,
}

#[derive(Debug)]
enum Kind {
    Tcp(TcpStream),
    Unix(Unix),
    #[cfg(feature = "simulation")]
    Memory(Memory),
}

/// A socket that no event loop watches.
#[derive(Debug)]
pub(super) enum Packed {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
    #[cfg(feature = "simulation")]
    Memory(Memory),
}

impl Packed {
    /// A connected socket that does not block, which another process has opened.
    pub(super) fn of(file: OwnedFd) -> io::Result<Self> {
        #[cfg(feature = "simulation")]
        if let Some(memory) = Memory::of_file(&file) {
            return Ok(Self::Memory(memory));
        }
        match SockRef::from(&file).domain()? {
            Domain::UNIX => Ok(Self::Unix(file.into())),
            _ => Ok(Self::Tcp(file.into())),
        }
    }

    /// Has this thread's event loop watch it: what has come meanwhile is an event then.
    pub(super) fn unpack(self) -> io::Result<Socket> {
        Ok(match self {
            Self::Tcp(socket) => Socket::tcp(TcpStream::from_std(socket)?),
            Self::Unix(socket) => Socket::new(Kind::Unix(Unix::from_std(socket)?)),
            #[cfg(feature = "simulation")]
            Self::Memory(memory) => Socket::memory(memory),
        })
    }
}

/// What the kernel may hold although the runtime does not say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unread {
    Nothing,
    /// The owner has looked away from it: it is read when asked for, but not announced.
    SetAside,
    /// It is to be announced.
    Left,
}

impl Socket {
    pub(super) const fn tcp(stream: TcpStream) -> Self {
        Self::new(Kind::Tcp(stream))
    }

    pub(super) fn unix(stream: UnixStream) -> io::Result<Self> {
        Ok(Self::new(Kind::Unix(Unix::new(stream)?)))
    }

    #[cfg(feature = "simulation")]
    pub(super) const fn memory(memory: Memory) -> Self {
        Self::new(Kind::Memory(memory))
    }

    /// The same socket on another descriptor, which no event loop watches.
    pub(super) fn pack(&self) -> io::Result<Packed> {
        #[cfg(feature = "simulation")]
        if let Kind::Memory(memory) = &self.kind {
            return Ok(Packed::Memory(memory.again()));
        }
        let socket = self.raw().try_clone()?;
        Ok(match &self.kind {
            Kind::Tcp(_) => Packed::Tcp(socket.into()),
            Kind::Unix(_) => Packed::Unix(socket.into()),
            #[cfg(feature = "simulation")]
            Kind::Memory(_) => unreachable!("it is no file"),
        })
    }

    const fn new(kind: Kind) -> Self {
        Self {
            kind,
            unread: Cell::new(Unread::Nothing),
            #[cfg(test)]
            reads: Cell::new(0),
        }
    }

    pub(super) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        debug_assert!(!buffer.is_empty(), "a read of nothing looks like the end");
        let result = if self.unread.get() == Unread::Nothing {
            self.try_read_io(|| self.read(buffer))
        } else {
            self.read(buffer)
        };
        match &result {
            Ok(0) => {}
            Ok(read) if *read == buffer.len() => self.restore(),
            Ok(_) => self.emptied(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.emptied(),
            Err(_) => {}
        }
        result
    }

    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.kind {
            Kind::Tcp(socket) => {
                let sent = socket.try_io(Interest::WRITABLE, || send(socket, bytes));
                after_write(socket, sent, bytes.len())
            }
            Kind::Unix(unix) => send(unix.socket(), bytes),
            #[cfg(feature = "simulation")]
            Kind::Memory(memory) => memory.write(&[IoSlice::new(bytes)]),
        }
    }

    pub(super) fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match &self.kind {
            Kind::Tcp(socket) => {
                let wanted = slices.iter().map(|slice| slice.len()).sum();
                after_write(socket, socket.try_write_vectored(slices), wanted)
            }
            Kind::Unix(unix) => unix.socket().write_vectored(slices),
            #[cfg(feature = "simulation")]
            Kind::Memory(memory) => memory.write(slices),
        }
    }

    pub(super) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.kind {
            Kind::Tcp(socket) => socket.poll_read_ready(context),
            Kind::Unix(unix) => unix.poll_read_ready(context),
            #[cfg(feature = "simulation")]
            Kind::Memory(memory) => memory.poll_read_ready(context),
        }
    }

    /// Says whether there may be something to read that [`Self::poll_readable`] does not know of.
    pub(super) fn has_left(&self) -> bool {
        self.unread.get() == Unread::Left
    }

    pub(super) fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.kind {
            Kind::Tcp(socket) => socket.poll_write_ready(context),
            Kind::Unix(unix) => unix.poll_write_ready(context),
            #[cfg(feature = "simulation")]
            Kind::Memory(memory) => memory.poll_write_ready(context),
        }
    }

    /// Looks away from what can be read now.
    pub(super) fn set_aside(&self) {
        self.unread.set(Unread::SetAside);
        self.clear_readable();
    }

    /// Says whether there may be something to read that was set aside.
    pub(super) fn is_set_aside(&self) -> bool {
        self.unread.get() == Unread::SetAside
    }

    /// Looks back at what was set aside.
    pub(super) fn restore(&self) {
        if self.unread.get() == Unread::SetAside {
            self.unread.set(Unread::Left);
        }
    }

    /// Says whether the peer has closed its side, as far as the event loop has heard.
    pub(super) fn hung_up(&self) -> bool {
        // That the peer has closed also makes the socket readable: without the one there is not the
        // other.
        if self.try_read_io(|| Ok(())).is_err() {
            return false;
        }
        let mut context = Context::from_waker(Waker::noop());
        let socket = match &self.kind {
            Kind::Tcp(socket) => socket,
            Kind::Unix(unix) => return unix.is_read_closed(&mut context),
            #[cfg(feature = "simulation")]
            Kind::Memory(memory) => return memory.is_read_closed(),
        };
        match pin!(socket.ready(Interest::READABLE)).poll(&mut context) {
            Poll::Ready(Ok(ready)) => ready.is_read_closed(),
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        }
    }

    /// Tells the peer that nothing more will be sent.
    pub(super) fn shutdown(&self) {
        #[cfg(feature = "simulation")]
        if let Kind::Memory(memory) = &self.kind {
            return memory.shutdown();
        }
        // A socket that is gone already needs no telling.
        let _ = self.raw().shutdown(std::net::Shutdown::Write);
    }

    pub(super) const fn is_unix(&self) -> bool {
        matches!(self.kind, Kind::Unix(_))
    }

    /// The same socket on another descriptor.
    pub(super) fn file(&self) -> io::Result<OwnedFd> {
        match &self.kind {
            Kind::Tcp(socket) => socket.as_fd().try_clone_to_owned(),
            Kind::Unix(unix) => unix.socket().as_fd().try_clone_to_owned(),
            #[cfg(feature = "simulation")]
            Kind::Memory(memory) => memory.file(),
        }
    }

    pub(super) fn descriptor(&self) -> i32 {
        #[cfg(feature = "simulation")]
        if matches!(self.kind, Kind::Memory(_)) {
            return 0;
        }
        self.raw().as_raw_fd()
    }

    /// The descriptor, if the kernel has the connection.
    pub(super) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.kind {
            Kind::Tcp(socket) => Some(socket.as_fd()),
            Kind::Unix(unix) => Some(unix.socket().as_fd()),
            #[cfg(feature = "simulation")]
            Kind::Memory(_) => None,
        }
    }

    pub(super) fn peer_address(&self) -> Option<SocketAddr> {
        match &self.kind {
            Kind::Tcp(socket) => socket.peer_addr().ok(),
            Kind::Unix(_) => None,
            #[cfg(feature = "simulation")]
            Kind::Memory(memory) => Some(memory.addresses().0),
        }
    }

    pub(super) fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        match &self.kind {
            Kind::Tcp(socket) => Some((socket.peer_addr().ok()?, socket.local_addr().ok()?)),
            Kind::Unix(_) => None,
            #[cfg(feature = "simulation")]
            Kind::Memory(memory) => Some(memory.addresses()),
        }
    }

    /// The process at the other end of a Unix socket and its user, when it connected.
    pub(super) fn process(&self) -> Option<(Option<i32>, u32)> {
        let Kind::Unix(unix) = &self.kind else { return None };
        let process = rustix::net::sockopt::socket_peercred(unix.socket()).ok()?;
        Some((Some(process.pid.as_raw_nonzero().get()), process.uid.as_raw()))
    }

    /// The one place where bytes are read, whatever the runtime believes.
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        #[cfg(test)]
        self.reads.set(self.reads.get() + 1);
        #[cfg(feature = "simulation")]
        if let Kind::Memory(memory) = &self.kind {
            return memory.read(buffer);
        }
        match &self.kind {
            Kind::Tcp(socket) => receive(socket, buffer),
            Kind::Unix(unix) => receive(unix.socket(), buffer),
            #[cfg(feature = "simulation")]
            Kind::Memory(_) => unreachable!("it is read above"),
        }
    }

    fn raw(&self) -> SockRef<'_> {
        match &self.kind {
            Kind::Tcp(socket) => SockRef::from(socket),
            Kind::Unix(unix) => SockRef::from(unix.socket()),
            #[cfg(feature = "simulation")]
            Kind::Memory(_) => unreachable!("it is no file"),
        }
    }

    fn emptied(&self) {
        self.unread.set(Unread::Nothing);
        self.clear_readable();
    }

    fn clear_readable(&self) {
        let _: io::Result<()> = self.try_read_io(|| Err(io::ErrorKind::WouldBlock.into()));
    }

    fn try_read_io<R>(&self, act: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        match &self.kind {
            Kind::Tcp(socket) => socket.try_io(Interest::READABLE, act),
            Kind::Unix(unix) => unix.try_read_io(act),
            #[cfg(feature = "simulation")]
            Kind::Memory(memory) => memory.try_read_io(act),
        }
    }
}

/// The system calls themselves: those of the C library are points of cancellation, and each of them takes as many
/// instructions for that as all else here.
fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let (read, _) = rustix::net::recv(socket, buffer, RecvFlags::empty())?;
    Ok(read)
}

/// The same to send.
fn send(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, bytes, SendFlags::NOSIGNAL)?)
}

/// What was not taken whole has filled the kernel's buffer: readiness is cleared without asking.
fn after_write(socket: &TcpStream, result: io::Result<usize>, wanted: usize) -> io::Result<usize> {
    if matches!(result, Ok(written) if written < wanted) {
        let full = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        let _: io::Result<()> = socket.try_io(Interest::WRITABLE, full);
    }
    result
}

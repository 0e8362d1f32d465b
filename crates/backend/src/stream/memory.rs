//! A connection whose other end is simulated: no kernel has it, and a world decides what arrives when.
//!
//! Owns the bytes that have arrived and those that wait to go out. It behaves as a non-blocking socket does that is
//! watched edge-triggered: readiness is remembered, cleared where nothing is found, and comes with the next event;
//! that the peer has closed is an event that stays. Invariant: bytes of one direction keep their order.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io::{self, PipeWriter, Write as _};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// The end that a stream has.
#[derive(Debug)]
pub struct Memory(Arc<Connection>);

/// The end that a simulated world has: what it does happens on the connection.
#[derive(Clone, Debug)]
pub struct Far(Arc<Connection>);

/// Is told of connections on which an end has done something: their numbers, in that order.
#[derive(Clone, Debug, Default)]
pub struct Post(Arc<Mutex<Notices>>);

#[derive(Debug, Default)]
struct Notices {
    connections: Vec<u64>,
    waker: Option<Waker>,
}

impl Post {
    fn notices(&self) -> MutexGuard<'_, Notices> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something has been done on a connection.
    pub fn tell(&self, connection: u64) {
        let mut notices = self.notices();
        notices.connections.push(connection);
        let waker = notices.waker.take();
        drop(notices);
        waker.into_iter().for_each(Waker::wake);
    }

    /// What was told since.
    pub fn take(&self) -> Vec<u64> {
        std::mem::take(&mut self.notices().connections)
    }

    /// Ready when something was told.
    pub fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let mut notices = self.notices();
        if notices.connections.is_empty() {
            notices.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}

#[derive(Debug)]
struct Connection {
    number: u64,
    /// The far end's address, and the near one's.
    addresses: (SocketAddr, SocketAddr),
    post: Post,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    arrived: VecDeque<u8>,
    /// No bytes come behind those.
    end: Option<End>,
    sent: Vec<u8>,
    /// So many bytes more are taken from the near end.
    room: usize,
    near: Near,
    /// So many handles there are of the near end.
    handles: u32,
    readable: Readiness,
    writable: Readiness,
}

/// How the far end has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Closed,
    Reset,
}

/// What the near end has done with its side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Near {
    #[default]
    Open,
    /// It sends nothing more, and reads on.
    Shut,
    Gone,
}

thread_local! {
    /// Ends that descriptors stand for: those are ends of pipes, whose other ends tell when they are closed.
    static PASSED: RefCell<HashMap<RawFd, (Memory, PipeWriter)>> = RefCell::default();
}

/// Closes ends whose descriptors were closed on their way.
pub fn close_passed() {
    let is_closed = |_: &RawFd, passed: &mut (Memory, PipeWriter)| passed.1.write(&[0]).is_err();
    let closed: Vec<_> = PASSED.with_borrow_mut(|all| all.extract_if(is_closed).collect());
    drop(closed);
}

/// What the event loop would remember, and the task that it would wake.
#[derive(Debug, Default)]
struct Readiness {
    is_ready: bool,
    waker: Option<Waker>,
}

impl Readiness {
    fn announce(&mut self) {
        self.is_ready = true;
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn poll(&mut self, context: &Context<'_>) -> Poll<io::Result<()>> {
        if self.is_ready {
            return Poll::Ready(Ok(()));
        }
        self.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

/// A new connection of this number between `far` and `near`, of which `room` bytes can be under way.
pub fn connection(
    number: u64,
    (far, near): (SocketAddr, SocketAddr),
    room: usize,
    post: &Post,
) -> (Memory, Far) {
    let writable = Readiness { is_ready: true, waker: None };
    let state = Mutex::new(State { room, handles: 1, writable, ..State::default() });
    let connection =
        Arc::new(Connection { number, addresses: (far, near), post: post.clone(), state });
    (Memory(Arc::clone(&connection)), Far(connection))
}

impl Connection {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The near end has done something.
    fn tell(&self) {
        self.post.tell(self.number);
    }
}

impl Memory {
    pub(super) fn addresses(&self) -> (SocketAddr, SocketAddr) {
        self.0.addresses
    }

    /// The same end, on its way to another thread. No event loop watches it: what it has is an event again.
    pub(super) fn again(&self) -> Self {
        Self::another(&self.0)
    }

    fn another(connection: &Arc<Connection>) -> Self {
        let mut state = connection.state();
        state.handles += 1;
        state.readable = Readiness { is_ready: !state.arrived.is_empty(), waker: None };
        state.writable = Readiness { is_ready: state.room > 0, waker: None };
        drop(state);
        Self(Arc::clone(connection))
    }

    /// A descriptor that stands for this end, on its way to another process of the same world.
    pub(super) fn file(&self) -> io::Result<OwnedFd> {
        let (file, other) = io::pipe()?;
        let file = OwnedFd::from(file);
        let passed = (Self::another(&self.0), other);
        // What the same number stood for is closed.
        let before = PASSED.with_borrow_mut(|all| all.insert(file.as_raw_fd(), passed));
        drop(before);
        Ok(file)
    }

    /// The end that a descriptor stands for.
    pub(super) fn of_file(file: &OwnedFd) -> Option<Self> {
        let (passed, _) = PASSED.with_borrow_mut(|all| all.remove(&file.as_raw_fd()))?;
        Some(passed)
    }

    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.0.state();
        if state.end == Some(End::Reset) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if state.arrived.is_empty() {
            let end = state.end.map(|_| 0);
            return end.ok_or_else(|| io::ErrorKind::WouldBlock.into());
        }
        let read = buffer.len().min(state.arrived.len());
        for (place, byte) in buffer.iter_mut().zip(state.arrived.drain(..read)) {
            *place = byte;
        }
        Ok(read)
    }

    pub(super) fn write(&self, slices: &[io::IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.0.state();
        if state.end == Some(End::Reset) || state.near != Near::Open {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let (mut written, mut wanted) = (0, 0);
        for slice in slices {
            let taken = slice.len().min(state.room);
            state.sent.extend_from_slice(&slice[..taken]);
            state.room -= taken;
            (written, wanted) = (written + taken, wanted + slice.len());
        }
        state.writable.is_ready &= written == wanted;
        drop(state);
        if written == 0 && wanted > 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.0.tell();
        Ok(written)
    }

    pub(super) fn poll_read_ready(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.state();
        match state.end {
            Some(_) => Poll::Ready(Ok(())),
            None => state.readable.poll(context),
        }
    }

    pub(super) fn poll_write_ready(&self, context: &Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.state();
        match state.end {
            Some(End::Reset) => Poll::Ready(Ok(())),
            _ => state.writable.poll(context),
        }
    }

    /// Runs `act` if there is something to read as far as is known; `WouldBlock` makes that be forgotten.
    pub(super) fn try_read_io<R>(&self, act: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        let state = self.0.state();
        if !state.readable.is_ready && state.end.is_none() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        drop(state);
        let result = act();
        if matches!(&result, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
            self.0.state().readable.is_ready = false;
        }
        result
    }

    /// Says whether the peer has closed its side.
    pub(super) fn is_read_closed(&self) -> bool {
        self.0.state().end.is_some()
    }

    /// Tells the peer that nothing more will be sent.
    pub(super) fn shutdown(&self) {
        let mut state = self.0.state();
        if state.near == Near::Open {
            state.near = Near::Shut;
            drop(state);
            self.0.tell();
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.handles -= 1;
        if state.handles == 0 {
            state.near = Near::Gone;
            drop(state);
            self.0.tell();
        }
    }
}

impl Far {
    /// Bytes arrive at the near end.
    pub fn deliver(&self, bytes: &[u8]) {
        let mut state = self.0.state();
        if state.end.is_none() && state.near != Near::Gone && !bytes.is_empty() {
            state.arrived.extend(bytes);
            state.readable.announce();
        }
    }

    /// Nothing comes any more behind what has arrived.
    pub fn close(&self) {
        self.end(End::Closed);
    }

    /// The connection is gone, with what was under way in both directions.
    pub fn reset(&self) {
        self.end(End::Reset);
    }

    fn end(&self, end: End) {
        let mut state = self.0.state();
        if state.end != Some(End::Reset) {
            state.end = Some(end);
            state.readable.announce();
            if end == End::Reset {
                state.writable.announce();
            }
        }
    }

    /// Takes what the near end has sent, up to `most` bytes. What is taken makes room for more.
    pub fn take(&self, most: usize) -> Vec<u8> {
        let mut state = self.0.state();
        let taken = most.min(state.sent.len());
        let rest = state.sent.split_off(taken);
        let bytes = std::mem::replace(&mut state.sent, rest);
        state.room += bytes.len();
        if !bytes.is_empty() {
            state.writable.announce();
        }
        bytes
    }

    /// So many bytes wait to be taken.
    pub fn waiting(&self) -> usize {
        self.0.state().sent.len()
    }

    /// Whether bytes that were delivered have not been read.
    pub fn has_unread(&self) -> bool {
        !self.0.state().arrived.is_empty()
    }

    pub fn near(&self) -> Near {
        self.0.state().near
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;
    use crate::Stream;

    fn pair(room: usize) -> (Stream, Far, Post) {
        let (address, post) = (SocketAddr::from((Ipv4Addr::LOCALHOST, 1)), Post::default());
        let (near, far) = connection(7, (address, address), room, &post);
        (near.into(), far, post)
    }

    fn is_readable(stream: &Stream) -> bool {
        stream.poll_readable(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn what_is_sent_is_taken_and_makes_room() {
        let (near, far, post) = pair(4);
        assert_eq!(near.try_write(b"abcdef").ok(), Some(4));
        assert!(near.try_write(b"ef").is_err_and(|it| it.kind() == io::ErrorKind::WouldBlock));
        let mut context = Context::from_waker(Waker::noop());
        assert!(near.poll_writable(&mut context).is_pending());
        assert_eq!((far.take(3), far.waiting()), (b"abc".to_vec(), 1));
        assert!(near.poll_writable(&mut context).is_ready());
        assert_eq!(near.try_write(b"ef").ok(), Some(2));
        assert_eq!(far.take(usize::MAX), b"def");
        near.shutdown();
        assert_eq!(far.near(), Near::Shut);
        drop(near);
        assert_eq!(far.near(), Near::Gone);
        assert_eq!(post.take(), [7, 7, 7, 7]);
    }

    #[test]
    fn readiness_is_an_event_and_the_end_stays() {
        let (near, far, _) = pair(4);
        let mut buffer = [0; 8];
        assert!(!is_readable(&near));
        far.deliver(b"ab");
        assert!(is_readable(&near) && far.has_unread());
        near.clear_readable();
        assert!(!is_readable(&near), "it was looked away from");
        far.deliver(b"c");
        assert!(is_readable(&near));
        assert_eq!(near.try_read(&mut buffer).ok(), Some(3));
        assert!(!is_readable(&near) && !near.hung_up());
        assert!(near.try_read(&mut buffer).is_err());
        far.close();
        assert!(is_readable(&near) && near.hung_up());
        assert_eq!(near.try_read(&mut buffer).ok(), Some(0));
        assert!(is_readable(&near));
        far.reset();
        assert!(
            near.try_read(&mut buffer).is_err_and(|it| it.kind() == io::ErrorKind::ConnectionReset)
        );
        assert!(near.try_write(b"x").is_err());
    }

    #[test]
    fn a_stream_keeps_its_connection_on_its_way_to_another_worker() {
        let (near, far, _) = pair(4);
        far.deliver(b"ab");
        let near = near.pack().unwrap().unpack().unwrap();
        assert_eq!(far.near(), Near::Open);
        let mut buffer = [0; 8];
        assert!(is_readable(&near));
        assert_eq!(near.try_read(&mut buffer).ok(), Some(2));
    }
}

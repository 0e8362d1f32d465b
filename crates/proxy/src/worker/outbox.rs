//! What was sent to a socket and not taken yet, on either side of the road.
//!
//! Sending never waits: what the socket does not take is kept, and the owner's task flushes it later. Bytes leave in
//! the order in which they were sent. How much is kept is bounded by the senders: they stop while it is not empty.

use std::cell::{Cell, RefCell};
use std::io;
use std::ops::Deref;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use backend::Stream;

use crate::worker::seldom::Seldom;

#[derive(Default)]
pub(crate) struct Outbox {
    /// What several sockets are sent, and this one has not taken yet. It goes before the bytes.
    shared: Seldom<SharedRest>,
    bytes: RefCell<Vec<u8>>,
    corked: Cell<bool>,
    /// When the socket last took something, or nothing was left for it.
    moved: Cell<Option<Instant>>,
}

/// Bytes that several sockets are sent when all of them are there. There is one copy of them, however many sockets have
/// not taken them yet.
#[derive(Debug)]
pub(crate) struct SharedBytes {
    bytes: Vec<u8>,
    /// How many such bytes a worker holds.
    held: Rc<Cell<usize>>,
}

impl SharedBytes {
    /// None yet.
    pub(crate) fn new(held: &Rc<Cell<usize>>) -> Self {
        Self { bytes: Vec::new(), held: Rc::clone(held) }
    }

    /// These, which do not count for a worker: what keeps them has a bound of its own.
    pub(crate) fn uncounted(bytes: Vec<u8>) -> Self {
        Self { bytes, held: Rc::default() }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.held.set(self.held.get() + bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    /// How many the worker holds.
    pub(crate) fn held(&self) -> usize {
        self.held.get()
    }

    /// None, of the same worker.
    pub(crate) fn none(&self) -> Self {
        Self::new(&self.held)
    }

    /// They are not wanted any more.
    pub(crate) fn clear(&mut self) {
        *self = self.none();
    }
}

impl Deref for SharedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for SharedBytes {
    fn drop(&mut self) {
        self.held.set(self.held.get().saturating_sub(self.bytes.len()));
    }
}

struct SharedRest {
    of: Rc<SharedBytes>,
    /// So many were taken.
    at: usize,
}

impl SharedRest {
    fn rest(&self) -> &[u8] {
        self.of.bytes.get(self.at..).unwrap_or_default()
    }
}

/// A shorter rest is copied.
const SHARED_MIN: usize = 16 << 10;

thread_local! {
    /// Memory of outboxes that are empty now, for the next that is corked: several messages go in one write again and
    /// again, and an idle client owns none of it.
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// How much is spared: corks nest, a backend's and those of the clients whose replies come in one read from it.
const SPARE_BUFFERS: usize = 72;
const SPARE_CAPACITY: usize = 16 << 10;

impl Outbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.borrow().is_empty() && !self.shared.is_some()
    }

    pub(crate) fn len(&self) -> usize {
        let shared = self.shared.with(|shared| shared.rest().len()).unwrap_or_default();
        self.bytes.borrow().len() + shared
    }

    /// Forgets what is left.
    pub(crate) fn clear(&self) {
        self.bytes.take();
        self.shared.take();
    }

    /// Whether the socket, or what encrypts for it, still has something to take.
    pub(crate) fn is_draining(&self, stream: &Stream) -> bool {
        !self.is_empty() || stream.wants_flush()
    }

    /// How long the socket has taken nothing of what is left for it.
    pub(crate) fn stalled_for(&self, now: Instant) -> Duration {
        self.moved.get().map_or(Duration::ZERO, |moved| now.saturating_duration_since(moved))
    }

    /// Sends bytes behind what is there. True: the socket has taken all.
    pub(crate) fn send(&self, stream: &Stream, bytes: &[u8]) -> io::Result<bool> {
        let mut kept = self.bytes.borrow_mut();
        let mut at = 0;
        let is_behind = self.shared.is_some();
        if kept.is_empty() && !self.corked.get() && !is_behind {
            while at < bytes.len() {
                match stream.try_write(&bytes[at..]) {
                    Ok(written) => at += written,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
        }
        if kept.is_empty() && at < bytes.len() && !is_behind {
            self.moved.set(Some(crate::worker::clock::now()));
        }
        kept.extend_from_slice(&bytes[at..]);
        Ok(kept.is_empty() && !is_behind && !stream.wants_flush())
    }

    /// The same of bytes that others are sent as well: what the socket does not take is not copied, unless it is short.
    pub(crate) fn send_shared(&self, stream: &Stream, of: &Rc<SharedBytes>) -> io::Result<bool> {
        if self.corked.get() || !self.is_empty() {
            return self.send(stream, &of.bytes);
        }
        let mut rest = SharedRest { of: Rc::clone(of), at: 0 };
        while !rest.rest().is_empty() {
            match stream.try_write(rest.rest()) {
                Ok(written) => rest.at += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        match rest.rest().len() {
            0 => return Ok(!stream.wants_flush()),
            1..SHARED_MIN => self.bytes.borrow_mut().extend_from_slice(rest.rest()),
            _ => self.shared.set(Some(rest)),
        }
        self.moved.set(Some(crate::worker::clock::now()));
        Ok(false)
    }

    /// Keeps what is sent from now on, so that several messages go in one write. Only within a iteration of the loop.
    pub(crate) fn cork(&self) {
        self.corked.set(true);
        let mut bytes = self.bytes.borrow_mut();
        if bytes.capacity() == 0 {
            *bytes = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        }
    }

    pub(crate) const fn is_corked(&self) -> bool {
        self.corked.get()
    }

    /// Sends what was kept. True: the socket has taken all.
    pub(crate) fn uncork(&self, stream: &Stream) -> io::Result<bool> {
        self.corked.set(false);
        let kept = self.bytes.take();
        let taken =
            if kept.is_empty() { Ok(!stream.wants_flush()) } else { self.send(stream, &kept) };
        spare(kept);
        taken
    }

    /// Waits until the socket has taken all.
    pub(crate) fn poll_flush(
        &self,
        stream: &Stream,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut kept = self.bytes.borrow_mut();
        loop {
            let shared = self.shared.with(|shared| {
                let written = stream.try_write(shared.rest());
                written.map(|written| {
                    shared.at += written;
                    shared.rest().is_empty()
                })
            });
            let done = if let Some(shared) = shared {
                shared.map(|is_taken| {
                    if is_taken {
                        self.shared.take();
                    }
                })
            } else if kept.is_empty() {
                stream.try_flush()
            } else {
                stream.try_write(&kept).map(|written| drop(kept.drain(..written)))
            };
            match done {
                Ok(()) if kept.is_empty() && !self.shared.is_some() && !stream.wants_flush() => {
                    *kept = Vec::new();
                    return Poll::Ready(Ok(()));
                }
                Ok(()) => self.moved.set(Some(crate::worker::clock::now())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    match stream.poll_writable(context) {
                        Poll::Ready(Ok(())) => {}
                        other => return other,
                    }
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

/// Builds something in memory that is spared, rather than taken for each packet anew.
pub(crate) fn in_spare<R>(build: impl FnOnce(&mut Vec<u8>) -> R) -> R {
    let mut memory = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
    let result = build(&mut memory);
    spare(memory);
    result
}

fn spare(mut memory: Vec<u8>) {
    memory.clear();
    if (1..=SPARE_CAPACITY).contains(&memory.capacity()) {
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < SPARE_BUFFERS {
                spare.push(memory);
            }
        });
    }
}

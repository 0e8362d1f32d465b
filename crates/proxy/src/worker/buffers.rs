//! Buffers for what passes through a worker: taken for one turn, given back, never owned by the idle.

use std::cell::RefCell;

/// Length of a buffer. One read takes at most this much from a server: a reply of a thousand rows, so that it costs its
/// client one wake-up. What a client does not take of it is kept for it.
pub(crate) const BUFFER: usize = 128 << 10;

/// One read takes at most this much from a client, and no more of what cannot be handled yet is kept.
pub(crate) const PIECE: usize = 64 << 10;

/// How many buffers a worker keeps. Iterations do not nest, so one is nearly always enough.
const KEPT: usize = 4;

/// A worker's free buffers.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    free: RefCell<Vec<Vec<u8>>>,
    small: RefCell<Vec<Vec<u8>>>,
}

/// Capacity of a small buffer, which holds a statement that waits in the queue.
const SMALL: usize = 1 << 10;

/// Small buffers kept for reuse: the usual length of a waiting line.
const SMALL_KEPT: usize = 1 << 10;

impl Buffers {
    /// A buffer of at least `len` bytes, all of them usable.
    pub(crate) fn take(&self, len: usize) -> Vec<u8> {
        if len > BUFFER {
            return vec![0; len];
        }
        self.free.borrow_mut().pop().unwrap_or_else(|| vec![0; BUFFER])
    }

    pub(crate) fn give(&self, buffer: Vec<u8>) {
        let mut free = self.free.borrow_mut();
        if buffer.len() == BUFFER && free.len() < KEPT {
            free.push(buffer);
        }
    }

    /// An empty buffer that holds a copy of `bytes`, for as long as a client waits.
    pub(crate) fn keep(&self, bytes: &[u8]) -> Vec<u8> {
        let mut kept = if bytes.len() <= SMALL {
            let free = self.small.borrow_mut().pop();
            free.unwrap_or_else(|| Vec::with_capacity(SMALL))
        } else {
            Vec::with_capacity(bytes.len())
        };
        kept.extend_from_slice(bytes);
        kept
    }

    pub(crate) fn forget(&self, mut kept: Vec<u8>) {
        let mut small = self.small.borrow_mut();
        if kept.capacity() == SMALL && small.len() < SMALL_KEPT {
            kept.clear();
            small.push(kept);
        }
    }
}

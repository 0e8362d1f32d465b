//! What panics on this worker's thread have left behind: the clients and backends that they were about.
//!
//! Noted here, and given back by [`crate::run::recovery`]. Invariant: what no panic meets costs nothing.

use std::cell::RefCell;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::thread;

use tokio::sync::Notify;

/// What a panic was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wreck {
    /// This client, whose task lives.
    Client(u32),
    /// This backend, whose task lives.
    Backend(u64),
    /// The task of this client, or of this backend, has ended by it.
    ClientTask(u32),
    BackendTask(u64),
}

thread_local! {
    static LEFT: RefCell<Vec<Wreck>> = const { RefCell::new(Vec::new()) };
    static COME: Rc<Notify> = Rc::default();
}

/// Dropped by a panic, it notes what that was about. What ends well calls [`Self::forget`].
pub(crate) struct PanicNote(Wreck);

impl PanicNote {
    #[inline]
    pub(crate) const fn new(wreck: Wreck) -> Self {
        Self(wreck)
    }

    /// It has ended well.
    #[inline]
    pub(crate) const fn forget(self) {
        mem::forget(self);
    }
}

impl Drop for PanicNote {
    fn drop(&mut self) {
        // Tasks are dropped at the process's end, too.
        if thread::panicking() {
            note(self.0);
        }
    }
}

#[cold]
fn note(wreck: Wreck) {
    LEFT.with_borrow_mut(|left| left.push(wreck));
    COME.with(|come| come.notify_one());
}

/// Does this for a client and its backend. A panic in it ends these two, and the caller goes on.
pub(crate) fn contain(client: u32, backend: Option<u64>, work: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        note(Wreck::Client(client));
        backend.map(Wreck::Backend).into_iter().for_each(note);
    }
}

/// Waits until a panic has left something.
pub(crate) async fn comes() {
    while LEFT.with_borrow(Vec::is_empty) {
        let come = COME.with(Rc::clone);
        come.notified().await;
    }
}

/// Whether a panic has left something that was not given back yet.
#[cfg(debug_assertions)]
pub(crate) fn is_left() -> bool {
    !LEFT.with_borrow(Vec::is_empty)
}

/// What has been left since this was asked last.
pub(crate) fn take() -> Vec<Wreck> {
    LEFT.take()
}

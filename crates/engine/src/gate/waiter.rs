//! One that waits in the queue, and where those are looked for that come next.

use crate::classes::ClassId;
use crate::intent::Digest;
use crate::likeness::Likeness;

/// What a statement is to the gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    pub class: ClassId,
    /// Its form, if that is known.
    pub digest: Option<Digest>,
    /// Its number as one that was started while others of its form waited in the server; else none.
    pub(crate) trial: u32,
}

impl Ask {
    pub const fn new(class: ClassId, digest: Option<Digest>) -> Self {
        Self { class, digest, trial: 0 }
    }
}

/// Which lanes are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Candidates {
    /// Those with nothing missing but a slot.
    Ready,
    All,
}

#[derive(Debug)]
pub(super) struct Waiter<W> {
    pub(super) waiter: W,
    pub(super) ask: Ask,
    /// What tells it from others of its form, once that was asked.
    pub(super) likeness: Option<Box<Likeness>>,
}

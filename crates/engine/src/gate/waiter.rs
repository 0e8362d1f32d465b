//! One that waits in the queue, and where those are looked for that come next.

use crate::classes::ClassId;
use crate::intent::Digest;

/// What a statement is to the gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    pub class: ClassId,
    /// Its kind, if that is known.
    pub digest: Option<Digest>,
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
}

//! The cache of results: for how long the reply to a read is as good as a new one.
//!
//! Pure decisions: which tables a text may write and which it reads ([`effects`]), what views, triggers and foreign keys
//! add to that ([`links`]), what of that is remembered ([`noted`]), and whether something was written since a reply was
//! read ([`generations`]). A reply is kept with the generations of its tables as they were *before* its run began, and is
//! good while they are the same and no write of them is under way. A write is under way from before it is sent until it has
//! ended, and then raises the generations of its tables before its client is told. So what a reply that is still good has
//! been read from was not written by any statement that had ended when the reply is asked for. See `docs/design/cache.md`.

pub mod effects;
pub mod generations;
pub mod links;
pub mod noted;
#[cfg(test)]
mod simulated;

pub use effects::Effects;
pub use generations::{Generations, Seen, TablePlace, Written};
pub use links::Links;
pub use noted::NotedEffects;

/// Why a statement under a rule that says `cache` gets no reply that is kept, and none is kept of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyNot {
    /// It is no plain read outside of a transaction whose reply any client of its user could have.
    Unfit,
    /// Views, triggers and foreign keys are not known, or not as they are by now.
    Definitions,
    /// Which tables it reads cannot be told.
    Tables,
    /// One of its tables is being written, or was while it ran.
    Written,
    /// It ran on a server that is not its cluster's writer.
    Reader,
    /// Its reply is too long.
    TooLarge,
    /// The server's binary log is not followed, or its events come late, or the client came after what is known.
    Binlog,
    /// Another Flifo takes over, or workers do not all go by the rules yet.
    HandOver,
}

impl WhyNot {
    pub const ALL: [Self; 8] = [
        Self::Unfit,
        Self::Definitions,
        Self::Tables,
        Self::Written,
        Self::Reader,
        Self::TooLarge,
        Self::Binlog,
        Self::HandOver,
    ];

    /// The name in counters.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unfit => "unfit",
            Self::Definitions => "definitions",
            Self::Tables => "tables",
            Self::Written => "written",
            Self::Reader => "reader",
            Self::TooLarge => "too_large",
            Self::Binlog => "binlog",
            Self::HandOver => "hand_over",
        }
    }
}

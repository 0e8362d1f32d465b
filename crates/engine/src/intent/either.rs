//! A text that servers read in two ways: what may be true of it is what is true of either.

use super::diagnostics_use::DiagnosticsUse;
use super::ends::Ends;
use super::inserts::Inserts;
use super::looks::LooksUp;
use super::moves::Moves;
use super::reader::Intent;
use super::traits::Trait;
use crate::counts::Finds;
use crate::pin::Pin;

impl Intent {
    /// This, or the other.
    pub(super) fn or(self, other: Self) -> Self {
        let mut traits = self.traits;
        for what in Trait::ALL {
            traits.add_if(what, other.has(what));
        }
        // What a text is and nothing else, it need not be.
        for sole in [Trait::Begin, Trait::End, Trait::Releases] {
            traits.remove(sole);
        }
        let sets = self.sets.or(other.sets).map(|_| Pin::Set);
        let mut counts = self.counts;
        counts.found |= other.counts.found;
        counts.affected |= other.counts.affected;
        Self {
            pin: self.pin.or(other.pin).or(sets),
            besides_routines: self.besides_routines.or(other.besides_routines).or(sets),
            ends: Ends::Perhaps,
            traits,
            inserts: match (self.inserts, other.inserts) {
                (Inserts::No, Inserts::No) => Inserts::No,
                (Inserts::Unreported, _) | (_, Inserts::Unreported) => Inserts::Unreported,
                _ => Inserts::Reported,
            },
            counts,
            finds: Finds::Unknown,
            looks_up: if self.looks_up == other.looks_up {
                self.looks_up
            } else {
                LooksUp::Perhaps
            },
            moves: Moves::No,
            diagnostics: match (self.diagnostics, other.diagnostics) {
                (one, same) if one == same => one,
                (one, two) if one.are_asked_for() || two.are_asked_for() => {
                    DiagnosticsUse::Diagnosed
                }
                _ => DiagnosticsUse::Unsure,
            },
            read: None,
            digest: self.digest,
            sets: None,
        }
    }
}

//! What a command asks of the link that it gets, and what it does to it, as far as its text tells.

use engine::counts::{Asked, Finds};
use engine::intent::{Digest, Ends, Inserts, Intent, LooksUp, Moves, Sets};
use engine::kept::{Format, Shows};
use engine::pin::Pin;
use engine::schemas::may_alter;
use engine::session::Messages;
use wire::lex::Dialect;

use crate::road::pins::Leaves;
use crate::road::prepared::InHand;

/// What a command asks of the link that it gets.
#[derive(Clone, Copy, Default)]
pub(crate) struct Asks {
    pub(crate) insert_id: bool,
    /// It shows that among others, if it is known.
    pub(crate) shows_variables: bool,
    /// It may read the number of its connection out of sight.
    pub(crate) reads_number: bool,
    pub(crate) sets_number: bool,
    pub(crate) inserts: Inserts,
    pub(crate) counts: Asked,
    /// It calls a routine or executes a text, which may ask for counts unseen.
    pub(crate) calls: bool,
    /// Where a text begins in which counts may stand in the place of calls.
    pub(crate) counts_at: Option<usize>,
    pub(crate) finds: Finds,
    pub(crate) looks_up: LooksUp,
    pub(crate) messages: Messages,
    /// Its OK tells this number of messages, whatever the link has.
    pub(crate) carried: Option<u16>,
    pub(crate) shows: Option<(Shows, Format)>,
    pub(crate) kind: Option<Digest>,
    pub(crate) read: Option<Digest>,
    pub(crate) sets: Option<Sets>,
    /// It may take a schema, or a right to one, from somebody.
    pub(crate) alters: bool,
    /// It changes nothing that anybody could read.
    pub(crate) is_still: bool,
    pub(crate) in_hand: Option<InHand>,
    pub(crate) passing_mode: bool,
    pub(crate) moves: Moves,
    pub(crate) leaves: Leaves,
    /// It must not wait if its client holds a link.
    pub(crate) urgent: bool,
    /// The connection ends with it.
    pub(crate) releases: bool,
    /// What becomes of its transaction, should nobody answer.
    pub(crate) ends: Ends,
}

impl Asks {
    pub(crate) fn of(intent: Intent, text: &[u8], dialect: Dialect, format: Format) -> Self {
        let shows = match intent.messages {
            Messages::Shown => Shows::read(text, dialect).map(|shows| (shows, format)),
            _ => None,
        };
        Self {
            shows,
            alters: intent.read.is_none() && may_alter(text),
            is_still: false,
            insert_id: intent.asks_insert_id,
            shows_variables: intent.shows_variables,
            reads_number: false,
            sets_number: intent.sets_number,
            inserts: intent.inserts,
            counts: intent.counts,
            calls: matches!(intent.pin, Some(Pin::Call | Pin::Function | Pin::TextPrepare)),
            counts_at: None,
            finds: intent.finds,
            looks_up: intent.looks_up,
            messages: intent.messages,
            carried: None,
            kind: Some(intent.digest),
            read: intent.read,
            sets: intent.sets,
            in_hand: None,
            passing_mode: intent.passing_mode,
            moves: intent.moves,
            leaves: Leaves::Nothing,
            urgent: intent.ends_transaction,
            releases: intent.releases,
            ends: intent.ends,
        }
    }
}

//! What a command asks of the link that it gets, and what it does to it, as far as its packet and its text tell.

use engine::counts::{Asked, Finds};
use engine::intent::{Digest, Ends, Inserts, Intent, LooksUp, Moves, Sets};
use engine::kept::{Format, Shows};
use engine::pin::Pin;
use engine::schemas::may_alter;
use engine::session::Messages;
use wire::lex::Dialect;

use crate::road::own_id::Reads;
use crate::road::pins::Leaves;
use crate::road::prepared::InHand;

#[derive(Clone, Copy, Default)]
pub(crate) struct Facts {
    /// It reads the session's last insert id.
    pub(crate) insert_id: bool,
    /// It shows that among others, if it is known.
    pub(crate) shows_variables: bool,
    /// Whether it may read the number of its connection out of sight.
    pub(crate) reads_number: Reads,
    /// It gives its connection another number.
    pub(crate) sets_number: bool,
    /// Whether it may give its session another last insert id.
    pub(crate) inserts: Inserts,
    pub(crate) counts: Asked,
    /// It calls a routine or executes a text, which may ask for counts unseen.
    pub(crate) calls: bool,
    pub(crate) finds: Finds,
    /// What becomes of the count of rows affected if it fails.
    pub(crate) looks_up: LooksUp,
    /// What it does with the messages of those before it.
    pub(crate) messages: Messages,
    /// Its OK tells this number of messages, whatever the link has.
    pub(crate) carried: Option<u16>,
    pub(crate) shows: Option<(Shows, Format)>,
    /// What kind of statement it is, if that is known.
    pub(crate) kind: Option<Digest>,
    /// The same, if all it does is to read. See [`crate::road::ahead`].
    pub(crate) read: Option<Digest>,
    /// What it sets, if that is all it does.
    pub(crate) sets: Option<Sets>,
    /// It may take a schema, or a right to one, from a session.
    pub(crate) alters: bool,
    /// It changes nothing that can be read, although it is no mere read.
    pub(crate) is_still: bool,
    /// The prepared statement that it names.
    pub(crate) in_hand: Option<InHand>,
    pub(crate) passing_mode: bool,
    pub(crate) moves: Moves,
    /// What becomes of its link behind it.
    pub(crate) leaves: Leaves,
    /// It must not wait if its client holds a link.
    pub(crate) urgent: bool,
    /// The server ends the connection with it.
    pub(crate) releases: bool,
    /// What becomes of its transaction, should no answer come.
    pub(crate) ends: Ends,
}

impl Facts {
    pub(crate) fn of(intent: Intent, text: &[u8], dialect: Dialect, format: Format) -> Self {
        let shows = match intent.messages {
            Messages::Shown => Shows::read(text, dialect).map(|shows| (shows, format)),
            _ => None,
        };
        Self {
            shows,
            alters: intent.read.is_none() && may_alter(text),
            insert_id: intent.asks_insert_id,
            shows_variables: intent.shows_variables,
            sets_number: intent.sets_number,
            inserts: intent.inserts,
            counts: intent.counts,
            calls: matches!(intent.pin, Some(Pin::Call | Pin::Function | Pin::TextPrepare)),
            finds: intent.finds,
            looks_up: intent.looks_up,
            messages: intent.messages,
            kind: Some(intent.digest),
            read: intent.read,
            sets: intent.sets,
            passing_mode: intent.passing_mode,
            moves: intent.moves,
            urgent: intent.ends_transaction,
            releases: intent.releases,
            ends: intent.ends,
            ..Self::default()
        }
    }

    /// Whether it surely leaves its link's last insert id as it is. At MySQL the question would clear the messages that a
    /// statement asks for, or that those of before have left.
    pub(crate) fn keeps_insert_id(&self) -> bool {
        let only_shows = self.messages.are_asked_for()
            && self.inserts == Inserts::No
            // A `CALL` that asks for messages as well may do anything, and so may what comes behind another statement.
            && self.finds != Finds::Unknown
            && !self.insert_id;
        self.is_still || only_shows
    }

    /// Whether it must find the client's own last insert id on its link.
    pub(crate) fn needs_insert_id(&self) -> bool {
        self.insert_id || self.shows_variables || self.inserts == Inserts::Unreported
    }

    /// Whether it may have changed rows, or have had them changed.
    pub(crate) const fn may_write(&self) -> bool {
        self.read.is_none() && self.sets.is_none() && !self.is_still
    }

    /// Whether it is a piece of a parameter, to which there is no answer.
    pub(crate) fn is_long_data(&self) -> bool {
        self.in_hand.is_some_and(|it| it.command == wire::command::Opcode::StmtSendLongData)
    }
}

//! What a command asks of the backend that it gets, and what it does to it, as far as its packet and its text tell.

use wire::command::Opcode;
use wire::text::Text;

use crate::counts::{Asked, Finds};
use crate::intent::{DiagnosticsUse, Digest, Ends, Inserts, Intent, LooksUp, Moves, Sets, Trait};
use crate::kept::{Format, Shows};
use crate::marks::Marks;
use crate::pin::Pin;

#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// What its text tells, and what else is found to be so; see [`Facts::has`].
    pub traits: Marks<Trait>,
    /// Whether it may read the number of its connection out of sight.
    pub reads_number: Reads,
    /// Whether it may give its session another last insert id.
    pub inserts: Inserts,
    pub counts: Asked,
    /// It calls a routine or executes a text, which may ask for counts unseen.
    pub calls: bool,
    pub finds: Finds,
    /// What becomes of the count of rows affected if it fails.
    pub looks_up: LooksUp,
    /// What it does with the diagnostics of those before it.
    pub diagnostics: DiagnosticsUse,
    /// Its OK tells this number of diagnostics, whatever the backend has.
    pub ok_warnings: Option<u16>,
    pub shows: Option<(Shows, Format)>,
    /// What kind of statement it is, if that is known.
    pub kind: Option<Digest>,
    /// The same, if all it does is to read. It can be pipelined.
    pub read: Option<Digest>,
    /// What it sets, if that is all it does.
    pub sets: Option<Sets>,
    /// It may take a schema, or a right to one, from a session.
    pub alters: bool,
    /// It changes nothing that can be read, although it is no mere read.
    pub is_still: bool,
    /// The prepared statement that it names.
    pub in_hand: Option<InHand>,
    pub moves: Moves,
    /// What becomes of its backend behind it.
    pub leaves: Leaves,
    /// What becomes of its transaction, should no answer come.
    pub ends: Ends,
}

impl Facts {
    #[inline]
    pub fn has(&self, what: Trait) -> bool {
        self.traits.has(what)
    }

    /// Learns what a statement's text tells.
    pub fn learn(&mut self, intent: Intent, text: Text<'_>, format: Format) {
        if intent.diagnostics == DiagnosticsUse::Shown {
            self.shows = Shows::read(text).map(|shows| (shows, format));
        }
        // Where a string with a backslash ends is not known of a client that is passed through: there may be more
        // statements than were read.
        let may_hide = |text: &[u8]| text.contains(&b'\\') && text.contains(&b';');
        self.alters = intent.has(Trait::Alters) || intent.read.is_none() && may_hide(text.bytes);
        self.traits = intent.traits;
        self.inserts = intent.inserts;
        self.counts = intent.counts;
        self.calls = matches!(intent.pin, Some(Pin::Call | Pin::Function | Pin::TextPrepare));
        self.finds = intent.finds;
        self.looks_up = intent.looks_up;
        self.diagnostics = intent.diagnostics;
        self.kind = Some(intent.digest);
        self.read = intent.read;
        self.sets = intent.sets;
        self.moves = intent.moves;
        self.ends = intent.ends;
    }

    /// Whether it surely leaves its backend's last insert id as it is. At MySQL the question would clear the
    /// diagnostics that a statement asks for, or that those of before have left.
    pub fn keeps_insert_id(&self) -> bool {
        let only_shows = self.diagnostics.are_asked_for()
            && self.inserts == Inserts::No
            // A `CALL` that asks for diagnostics as well may do anything, and so may what comes behind another
            // statement.
            && self.finds != Finds::Unknown
            && !self.has(Trait::AsksInsertId);
        self.is_still || only_shows
    }

    /// Whether it must find the client's own last insert id on its backend.
    pub fn needs_insert_id(&self) -> bool {
        self.has(Trait::AsksInsertId)
            || self.has(Trait::ShowsVariables)
            || self.inserts == Inserts::Unreported
    }

    /// Whether it may have changed rows, or have had them changed.
    pub const fn may_write(&self) -> bool {
        self.read.is_none() && self.sets.is_none() && !self.is_still
    }

    /// Whether it is a piece of a parameter, to which there is no answer.
    pub fn is_long_data(&self) -> bool {
        self.in_hand.is_some_and(|it| it.command == Opcode::StmtSendLongData)
    }
}

/// The command names this prepared statement of its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InHand {
    pub command: Opcode,
    pub id: u32,
    /// The server has a cursor open for it.
    pub has_cursor: bool,
    /// It was executed by a preparation that all share, and the server kept nothing of it for its client.
    pub is_shared: bool,
}

impl InHand {
    pub const fn new(command: Opcode, id: u32) -> Self {
        Self { command, id, has_cursor: false, is_shared: false }
    }
}

/// What a statement leaves on its backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leaves {
    /// Nothing that is not known.
    #[default]
    Nothing,
    /// What the server reports, and what a routine may have inserted.
    Reported,
    /// Whatever a routine or a trigger has done, to be undone before another client has the backend.
    Anything,
}

/// What a command may read out of sight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    #[default]
    Nothing,
    Number,
    /// And the count of rows that the statement before it has affected, which setting the number would hide.
    NumberAndCount,
}

impl Reads {
    pub const fn of(reads_number: bool, facts: &Facts) -> Self {
        match reads_number {
            false => Self::Nothing,
            true if facts.calls || facts.counts.affected => Self::NumberAndCount,
            true => Self::Number,
        }
    }
}

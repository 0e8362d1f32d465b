//! One command of a client: what was read of it, what was decided for it, and how far it has come.
//!
//! It has one owner at a time: the function that reads it; then its client's state ([`crate::state::doing::Doing`]) while
//! it waits in the queue, or while its backend is prepared; then the flight that carries it
//! ([`crate::state::in_flight::InFlight`]). A client that may send one has none, so nothing of a command is left to
//! be reset behind it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use engine::classes::ClassId;
use engine::cluster::position::Position;
use engine::passed_texts::PassedText;
use engine::rights::Change;
use engine::session::facts::Facts;
use engine::session::plan::Found;
use engine::statement::rule::RuleCache;
use engine::user_variables::Assignment;
use view::digests::Place;

use crate::cluster::members::ClusterId;
use crate::cluster::servers::ServerId;
use crate::records::Noted;
use crate::state::rule_hits::{Look, RuleWay, Ruled};
use crate::state::shared_run::{CountedRun, Sharing};
use crate::state::writes::Writes;

#[derive(Default)]
pub(crate) struct Command {
    /// What its packet and its text tell.
    pub(crate) facts: Facts,
    /// The class that its text names.
    pub(crate) class: Option<ClassId>,
    /// What its client's session has for it.
    pub(crate) found: Found,
    /// Its bytes, or the first piece of them, where they are still needed.
    pub(crate) packet: Vec<u8>,
    /// For the statistics of statements.
    pub(crate) begun: Option<Begun>,
    /// For the logs of statements.
    pub(crate) noted: Option<Box<Noted>>,
    /// How often it was sent once more; see [`crate::session::prepared`].
    pub(crate) again: u8,
    /// What it is to commands that ask the same.
    pub(crate) sharing: Sharing,
    /// It may take long: others that ask the same wait for its end. See [`crate::features::sharing::crowds`].
    pub(crate) counted: Option<CountedRun>,
    /// What hardly any command has.
    pub(crate) rare: Option<Box<Rare>>,
}

#[derive(Default)]
pub(crate) struct Rare {
    /// What it does to rights.
    pub(crate) change: Option<Rc<Change>>,
    /// The user variables that it sets, if that is all it does.
    pub(crate) assigns: Vec<Assignment>,
    /// The diagnostics that it asks for, if its backend does not have them.
    pub(crate) shown: Option<Shown>,
    /// A statement that sets user variables runs in the place of its `GET DIAGNOSTICS`.
    pub(crate) diagnoses: bool,
    /// The server that has just failed it.
    pub(crate) avoids: Option<ServerId>,
    /// It stood behind another statement and got no answer: the next time it stands behind none.
    pub(crate) goes_first: bool,
    /// Since when it is held back.
    pub(crate) stranded: Option<Instant>,
    /// What it prepares, if that is noted; see [`crate::features::ruled::passed`].
    pub(crate) prepares: Option<PassedText>,
    /// What rules have said of it.
    pub(crate) ruled: Option<Box<Ruled>>,
    /// What rules find in its text, if that is long.
    pub(crate) look: Option<Look>,
    /// What it writes, from before it is sent until it has ended; see [`crate::features::cached::written`].
    pub(crate) written: Cell<Option<Box<Writes>>>,
    /// What it names in a comment, and must find.
    pub(crate) named: Option<Box<Position>>,
    /// The cluster that it goes to, if that is not its client's; see [`crate::routing::clusters`].
    pub(crate) cluster: Option<(ClusterId, SentBy)>,
}

/// Why a command goes to another cluster than its client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SentBy {
    /// The schema that it enters, or that its statement was prepared in, lies there.
    Schema,
    /// A rule sends it there, whatever its schema is.
    Order,
}

/// What a command waits for that neither a slot nor a backend is missing to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// The answer to what its backend was told for it, or to an order.
    #[default]
    Answer,
    /// Until a backend that others use has said what its client's last insert id is.
    InsertId,
    /// Until the backend of its client has answered; then it is read again. See [`crate::session::questions`].
    Backend,
    /// The same, and adds to the diagnostics that the backend is asked for.
    Diagnostics,
    /// The same, and the session has begun anew then.
    Reset,
    /// Until a rule lets it go on; then it is read again.
    Rule,
    /// Until rules have looked through its text; then it is read again. See [`crate::features::ruled::long_texts`].
    Text,
    /// Until its client's account in another cluster is known; then it is read again. See [`crate::frontend::visits`].
    Account,
}

impl Awaits {
    /// Whether the backend of its client has to answer something first.
    pub(crate) const fn is_for_its_backend(self) -> bool {
        match self {
            Self::Backend | Self::Diagnostics | Self::Reset => true,
            Self::Answer | Self::InsertId | Self::Rule | Self::Text | Self::Account => false,
        }
    }

    /// Whether the command is read again when that has come.
    pub(crate) const fn reads_again(self) -> bool {
        match self {
            Self::Answer | Self::InsertId => false,
            Self::Backend
            | Self::Diagnostics
            | Self::Reset
            | Self::Rule
            | Self::Text
            | Self::Account => true,
        }
    }
}

thread_local! {
    /// Memory of commands that are over.
    #[allow(clippy::vec_box, reason = "it is the boxes that are spared")]
    static SPARE: RefCell<Vec<Box<Command>>> = const { RefCell::new(Vec::new()) };
}

/// As many as the clients of a busy worker have at once.
const SPARE_MAX: usize = 256;

impl Command {
    pub(crate) fn new() -> Box<Self> {
        SPARE.with_borrow_mut(Vec::pop).unwrap_or_default()
    }

    pub(crate) fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// It runs from now on, or waits for a connection: places under rules are for those that run.
    #[inline]
    pub(crate) fn set_runs(&mut self, runs: bool) {
        let ruled = self.rare.as_mut().and_then(|rare| rare.ruled.as_mut());
        ruled.into_iter().flat_map(|it| &mut it.permits).for_each(|it| it.set_runs(runs));
    }

    /// It does this to rights.
    pub(crate) fn changes(&mut self, change: Option<Change>) {
        if let Some(change) = change {
            self.rare().change = Some(Rc::new(change));
        }
    }

    /// Where a rule sends it.
    pub(crate) fn way(&self) -> Option<RuleWay> {
        let ruled = self.rare.as_ref()?.ruled.as_ref()?;
        // What is kept for others is read where nothing lags.
        ruled.sends.way.or_else(|| ruled.cache.map(|_| RuleWay::Writer))
    }

    /// For how long a rule has its reply kept.
    pub(crate) fn cache(&self) -> Option<RuleCache> {
        self.rare.as_ref()?.ruled.as_ref()?.cache
    }

    /// How often rules let it be run again, if they say.
    pub(crate) fn retries(&self) -> Option<u32> {
        self.rare.as_ref()?.ruled.as_ref()?.retries
    }

    /// The server that has just failed it.
    pub(crate) fn avoids(&self) -> Option<ServerId> {
        self.rare.as_ref()?.avoids
    }

    /// Whether a statement that sets user variables runs in the place of its `GET DIAGNOSTICS`.
    pub(crate) fn diagnoses(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.diagnoses)
    }

    /// Whether it may be sent behind another statement.
    pub(crate) fn may_follow(&self) -> bool {
        self.rare.as_ref().is_none_or(|rare| !rare.goes_first)
    }

    /// Where it goes, if that is not its client's cluster.
    pub(crate) fn sent_to(&self) -> Option<(ClusterId, SentBy)> {
        self.rare.as_ref()?.cluster
    }

    /// Has it go to this cluster. Said before it enters the gate ([`crate::road::admit::enter`]), where it is refused
    /// if its client is bound to another cluster.
    pub(crate) fn send_to(&mut self, cluster: ClusterId, by: SentBy) {
        self.rare().cluster = Some((cluster, by));
    }

    /// Keeps its memory for another one: each statement takes one. Returns its bytes, whose memory is kept elsewhere.
    pub(crate) fn end(mut self: Box<Self>) -> Vec<u8> {
        let packet = std::mem::take(&mut self.packet);
        *self = Self::default();
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < SPARE_MAX {
                spare.push(self);
            }
        });
        packet
    }
}

/// A statement that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) place: Place,
    pub(crate) since: Instant,
}

/// Rows, as packets hold them.
pub(crate) type Shown = Rc<[Vec<u8>]>;

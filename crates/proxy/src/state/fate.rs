//! What becomes of a backend: whether its connection goes on, where it goes, and what is done with it when it has
//! answered.

use std::cell::Cell;

#[derive(Default)]
pub(crate) struct Fate {
    pub(crate) life: Cell<Life>,
    kills: Cell<Kills>,
    /// What follows when it has answered what Flifo has asked it.
    pub(crate) then: Cell<AfterAnswers>,
    /// Its server has moved: it is closed when it is put back.
    pub(crate) is_left_behind: Cell<bool>,
    /// Its client keeps it for diagnostics only, was busy when another client needed one, and is asked at its statement's
    /// end.
    pub(crate) is_wanted: Cell<bool>,
    /// It goes to another worker, whose client has waited longer, or to another process; see [`crate::session::transfers`].
    pub(crate) leaves_for: Cell<Option<Destination>>,
}

/// Where a connection goes that leaves its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    Worker(usize),
    /// The Flifo that takes over.
    Successor,
}

/// Whether a connection goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Life {
    #[default]
    Open,
    /// Flifo ends it, whatever is in flight.
    Closing,
    /// The server has said that it ends it.
    Farewell,
    /// It is on its way to the Flifo that takes over: nothing is read here.
    Departing,
    /// That Flifo has it.
    Departed,
}

/// Orders to kill what runs on a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kills {
    /// So many have not been answered.
    under_way: u32,
    /// The backend was put back meanwhile, and is free once all of them have been.
    is_put_back: bool,
}

/// What becomes of a backend that has answered what Flifo has asked it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AfterAnswers {
    /// It stays with its client.
    #[default]
    Stay,
    /// No client has it.
    GiveBack,
    /// It has said what it alone knew.
    Close,
}

impl Fate {
    /// Whether a `KILL` for what runs on it is under way: a client that is served next could be hit.
    pub(crate) fn is_being_killed(&self) -> bool {
        self.kills.get().under_way > 0
    }

    /// One more `KILL` is under way.
    pub(crate) fn begin_kill(&self) {
        let kills = self.kills.get();
        self.kills.set(Kills { under_way: kills.under_way.saturating_add(1), ..kills });
    }

    /// One has been answered. The answer is whether the backend, which was put back meanwhile, is free now.
    pub(crate) fn end_kill(&self) -> bool {
        let kills = self.kills.get();
        let under_way = kills.under_way.saturating_sub(1);
        let is_free = under_way == 0 && kills.is_put_back;
        self.kills.set(Kills { under_way, is_put_back: kills.is_put_back && !is_free });
        is_free
    }

    /// It is put back while one is under way.
    pub(crate) fn put_back_behind_kills(&self) {
        self.kills.set(Kills { is_put_back: true, ..self.kills.get() });
    }

    /// It is not to be given back any more when it has answered.
    pub(crate) fn stay(&self) {
        if self.then.get() == AfterAnswers::GiveBack {
            self.then.set(AfterAnswers::Stay);
        }
    }

    /// No client has it: it goes back when it has answered what it is asked, unless it is to be closed then.
    pub(crate) fn give_back_later(&self) {
        self.then.set(self.then.get().max(AfterAnswers::GiveBack));
    }
}

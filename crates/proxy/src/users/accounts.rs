//! What is remembered of the server's table of accounts, over all workers.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::account::name::UserName;
use engine::rights::Era;

use crate::users::table::{Table, Unusable};

/// What is remembered of the table, over all workers.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    pub(crate) state: Mutex<TableState>,
    /// Held by the task that reads it.
    pub(crate) reading: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
pub(crate) struct TableState {
    /// When the last attempt to read it began.
    pub(crate) tried_at: Option<Instant>,
    /// How long that took.
    pub(crate) took: Duration,
    /// When the reading of this table began.
    pub(crate) read_at: Option<Instant>,
    pub(crate) table: Option<Arc<Table>>,
    /// Rights that have changed since then may have changed it.
    pub(crate) era: Era,
    /// Why clients of these are passed through.
    pub(crate) unusable: HashMap<UserName, Unusable>,
    /// Of these it has been said that they are passed through.
    pub(crate) told: HashSet<UserName>,
    /// The users that the table has told of are those of another reader, until this one has tried.
    pub(crate) is_of_another: bool,
    /// The last attempt has failed, and that has been said.
    pub(crate) failed: bool,
    /// It has been said that the table is too large.
    pub(crate) is_cut: bool,
}

impl TableState {
    /// Whether the table was read since then.
    pub(crate) fn is_since(&self, moment: Instant) -> bool {
        self.read_at.is_some_and(|at| at >= moment)
    }
}

impl Accounts {
    /// Another user reads the table from now on: what was read before is not asked any more.
    pub(crate) fn begin_anew(&self) {
        let mut state = self.lock();
        let told = std::mem::take(&mut state.told);
        *state = TableState { told, is_of_another: true, ..TableState::default() };
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, TableState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

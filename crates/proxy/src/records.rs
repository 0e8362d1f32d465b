//! The slow log and the audit log: entries are handed over without waiting, and a thread for each log writes them.
//!
//! Owns the two logs, and what a worker must know of them before it looks at a statement. How an entry looks is
//! [`view::slow`]'s and [`view::audit`]'s. Invariant: a file that cannot be written, or not fast enough, costs entries,
//! which are counted, and nothing else.

pub(crate) mod events;
mod file;
mod recorder;
mod statement;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use view::audit::{AuditEntry, AuditKind};
use view::logged::LogEntry;
use view::slow::SlowEntry;

pub use self::file::RecordError;
pub(crate) use self::recorder::RecordCounts;
use self::recorder::{Record, Recorder};
pub(crate) use self::statement::{
    LoggedClient, Noted, Noting, SlowClient, StatementEnd, ToldByRules,
};
use crate::config::{Logs, Plan};

/// Both logs.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    pub(crate) slow: Arc<Recorder<Timed<SlowEntry>>>,
    audit: Arc<Recorder<Timed<AuditEntry>>>,
}

/// An entry, and when what it tells of has ended.
#[derive(Debug)]
pub(crate) struct Timed<E> {
    pub(crate) at: Instant,
    pub(crate) entry: E,
}

impl Records {
    /// Opens what the plan names; nothing is written yet.
    pub(crate) fn open(plan: &Plan) -> Result<Self, RecordError> {
        let records = Self {
            slow: Arc::new(Recorder::new("logs.slow")),
            audit: Arc::new(Recorder::new("logs.audit")),
        };
        records.prepare(&plan.logs)?();
        Ok(records)
    }

    /// Makes ready what these options ask for; the answer puts it in force.
    pub(crate) fn prepare(&self, logs: &Logs) -> Result<impl FnOnce() + Send + use<>, RecordError> {
        let slow = self.slow.prepare(&logs.slow.kept)?;
        let audit = self.audit.prepare(&logs.audit.kept)?;
        Ok(move || {
            slow();
            audit();
        })
    }

    /// Starts to write. The threads have the rights of the process at this moment.
    pub(crate) fn start(&self) {
        self.slow.start();
        self.audit.start();
    }

    /// Goes on in the files that have the configured names now.
    pub(crate) fn reopen(&self) {
        self.slow.reopen();
        self.audit.reopen();
    }

    /// Writes what was handed over, for as long as that may take.
    pub(crate) fn end(&self) {
        let until = crate::worker::clock::read() + PATIENCE;
        self.slow.end(until);
        self.audit.end(until);
    }

    /// Tells of something, if the plan has that told.
    pub(crate) fn tell(
        &self,
        plan: &Plan,
        at: Instant,
        kind: AuditKind,
        entry: impl FnOnce() -> AuditEntry,
    ) {
        if plan.logs.audit.tells(kind) {
            self.tell_surely(at, entry());
        }
    }

    /// The same, where that is known already.
    pub(crate) fn tell_surely(&self, at: Instant, entry: AuditEntry) {
        self.audit.hand_over(Box::new(Timed { at, entry }));
    }

    /// What each log has written and lost, by its name.
    pub(crate) fn counts(&self) -> [(&'static str, RecordCounts); 2] {
        [("slow", self.slow.counts()), ("audit", self.audit.counts())]
    }
}

/// A disk that takes nothing does not keep Flifo from stopping for longer.
const PATIENCE: Duration = Duration::from_secs(2);

/// What an entry takes beside its texts.
const ENTRY: usize = 512;

impl<E: LogEntry + Send + 'static> Record for Timed<E> {
    const BREAK: &'static str = E::BREAK;

    fn size(&self) -> usize {
        ENTRY + self.entry.size()
    }

    fn at(&self) -> Instant {
        self.at
    }

    fn put(&self, at: SystemTime, lost: u64, out: &mut String) {
        self.entry.put(at, lost, out);
    }
}

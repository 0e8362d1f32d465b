//! What a worker keeps of replies: values, which know no client. [`crate::features::cached`] makes and finds them.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

use engine::cache::{Generations, Seen, TablePlace};
use engine::classes::ClassId;
use engine::marks::Marks;
use engine::rights::Era;
use engine::schemas::Since;
use engine::session_variables::SessionVariables;
use engine::source::Source;
use engine::trackers::Listen;
use quick_cache::Weighter;
use quick_cache::unsync::Cache;
use wire::capability::Capabilities;
use wire::response::Status;

use crate::cluster::members::ClusterId;
use crate::pool::keys::KeyId;
use crate::worker::outbox::SharedBytes;

/// What a worker has for rules that say `cache`.
pub(crate) struct WorkerCaches {
    /// There is such a rule.
    is_on: Cell<bool>,
    pub(crate) store: RefCell<Cache<u64, Rc<Entry>, ByBytes>>,
    pub(crate) filling: Rc<Filling>,
    memory: Cell<u64>,
}

/// The fills that are under way.
pub(crate) type Filling = RefCell<HashMap<u64, Rc<Fill>>>;

/// How many workers follow writes.
#[derive(Debug, Default)]
pub(crate) struct CachesOn(pub(crate) AtomicUsize);

/// What an entry takes beside its bytes.
const OVERHEAD: usize = 512;

#[derive(Clone, Copy, Debug)]
pub(crate) struct ByBytes;

impl Weighter<u64, Rc<Entry>> for ByBytes {
    fn weight(&self, _: &u64, entry: &Rc<Entry>) -> u64 {
        (entry.reply.len() + entry.asked.len() + OVERHEAD) as u64
    }
}

impl Default for WorkerCaches {
    fn default() -> Self {
        let (is_on, filling) = (Cell::new(false), Rc::default());
        Self {
            is_on,
            store: RefCell::new(Cache::with_weighter(0, 0, ByBytes)),
            filling,
            memory: Cell::new(0),
        }
    }
}

impl WorkerCaches {
    /// Whether there is a rule that has replies kept: then writes are followed.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.get()
    }

    /// Whether all workers follow writes.
    pub(crate) fn are_all_on(&self, on: &CachesOn, workers: usize) -> bool {
        self.is_on() && on.0.load(SeqCst) == workers
    }

    /// There is such a rule from now on, or none, and so much memory. Whether that is new.
    pub(crate) fn adopt(&self, is_on: bool, memory: u64) -> bool {
        let was_on = self.is_on.replace(is_on);
        let memory = if is_on { memory } else { 0 };
        if self.memory.replace(memory) != memory {
            let items = usize::try_from(memory / 1024).unwrap_or_default().clamp(16, 1 << 20);
            self.store.replace(Cache::with_weighter(items, memory, ByBytes));
        }
        was_on != is_on
    }
}

/// A reply that is kept.
pub(crate) struct Entry {
    pub(crate) asked: Asked,
    /// One copy, also for clients that take it slowly.
    pub(crate) reply: Rc<SharedBytes>,
    pub(crate) rows: u64,
    pub(crate) status: Status,
    /// What its tables were before its run.
    pub(crate) seen: Seen,
    pub(crate) generations: Arc<Generations>,
    /// What views and rights were.
    pub(crate) since: Since,
    pub(crate) era: Era,
    pub(crate) at: Instant,
    pub(crate) hits: Cell<u64>,
}

impl Entry {
    /// Whether nothing has changed since its run began.
    pub(crate) fn is_good(&self, since: Since, era: Era) -> bool {
        self.since == since && self.era == era && self.seen.holds(&self.generations)
    }
}

/// What was asked, and by what kind of session: all that a byte of the reply may depend on.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) cluster: ClusterId,
    pub(crate) key: KeyId,
    pub(crate) capabilities: [Capabilities; 2],
    pub(crate) class: ClassId,
    pub(crate) schema: Option<Rc<[u8]>>,
    pub(crate) settings: Option<Rc<SessionVariables>>,
    pub(crate) was_reset: bool,
    pub(crate) listens: Marks<Listen>,
    pub(crate) status: Status,
    pub(crate) what: AskedText,
}

#[derive(Clone, Debug)]
pub(crate) enum AskedText {
    /// And where its text begins.
    Query(Box<[u8]>, usize),
    Execute {
        source: Rc<Source>,
        values: Box<[u8]>,
        types: Option<Box<[u8]>>,
    },
}

impl Asked {
    /// Its text, as the server read it.
    pub(crate) fn text(&self) -> &[u8] {
        match &self.what {
            AskedText::Query(payload, at) => payload.get(*at..).unwrap_or_default(),
            AskedText::Execute { source, .. } => &source.text,
        }
    }

    fn len(&self) -> usize {
        match &self.what {
            AskedText::Query(payload, _) => payload.len(),
            AskedText::Execute { source, values, .. } => source.text.len() + values.len(),
        }
    }
}

/// The run that fills an entry. It belongs to the run of its first client; those that come later find it here.
#[derive(Debug)]
pub(crate) struct Fill {
    pub(crate) hash: u64,
    /// The number of the run.
    pub(crate) number: u64,
    pub(crate) asked: Asked,
    /// The longest reply that is kept.
    pub(crate) most: usize,
    pub(crate) places: Vec<TablePlace>,
    pub(crate) generations: Arc<Generations>,
    pub(crate) since: Since,
    pub(crate) era: Era,
    /// It was sent, and this is what its tables were before; `None` within: one was being written.
    pub(crate) begun: RefCell<Option<Option<Seen>>>,
    /// Clients that wait for it.
    pub(crate) late: RefCell<Vec<u32>>,
    /// Nothing more is to come of it.
    pub(crate) is_over: Cell<bool>,
    /// The fills of its worker.
    pub(crate) filling: Rc<Filling>,
    /// The end of the reply, which its first client has not been written yet.
    pub(crate) tail: RefCell<Vec<u8>>,
}

impl Fill {
    pub(crate) const fn reply_max(&self) -> usize {
        self.most
    }

    /// The end of its reply.
    pub(crate) fn keep_tail(&self, bytes: &[u8]) {
        if bytes.len() <= self.reply_max() {
            *self.tail.borrow_mut() = bytes.to_vec();
        }
    }

    /// Nothing comes of it: those that wait are the run's to send back.
    pub(crate) fn end(&self) -> Vec<u32> {
        self.is_over.set(true);
        let mut filling = self.filling.borrow_mut();
        if filling.get(&self.hash).is_some_and(|other| other.number == self.number) {
            filling.remove(&self.hash);
        }
        self.late.take()
    }

    /// Whether a client that comes now may wait for it: nothing was written since it was sent.
    pub(crate) fn may_join(&self) -> bool {
        !self.is_over.get()
            && match &*self.begun.borrow() {
                None => true,
                Some(seen) => seen.as_ref().is_some_and(|seen| seen.holds(&self.generations)),
            }
    }
}

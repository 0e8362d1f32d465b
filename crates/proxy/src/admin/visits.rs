//! The places at a door: which connections have one, and how one is told that its place is another's now.
//! [`engine::visits`] decides.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Instant;

use engine::visits::{Entry, VisitId, VisitOrigin, Visits};
use tokio::sync::oneshot;

/// A door with so many places.
#[derive(Clone)]
pub(super) struct Room(Rc<Inside>);

struct Inside {
    begun: Instant,
    visits: RefCell<Visits>,
    /// Tells a visit that its place is gone.
    tell: RefCell<HashMap<VisitId, oneshot::Sender<()>>>,
}

/// A place, until it is dropped or another one's.
pub(super) struct Visit {
    room: Room,
    id: VisitId,
    /// How many of its answers have begun and not ended.
    answers: Rc<Cell<usize>>,
}

/// Comes when the place is another one's.
pub(super) type Gone = oneshot::Receiver<()>;

/// While it lives, a visit is in the middle of an answer.
pub(super) struct Answering {
    room: Room,
    id: VisitId,
    answers: Rc<Cell<usize>>,
}

impl Room {
    pub(super) fn new(places: usize) -> Self {
        Self(Rc::new(Inside {
            begun: crate::worker::clock::read(),
            visits: RefCell::new(Visits::new(places)),
            tell: RefCell::default(),
        }))
    }

    /// Takes a place, if need be that of an idle one. `None`: all are in the middle of an answer.
    pub(super) fn enter(&self, origin: VisitOrigin) -> Option<(Visit, Gone)> {
        let entry =
            self.0.visits.borrow_mut().enter(origin, crate::worker::clock::since(self.0.begun));
        let id = match entry {
            Entry::Free(id) => id,
            Entry::InPlaceOf { id, gone } => {
                if let Some(tell) = self.0.tell.borrow_mut().remove(&gone) {
                    // It may be on its way out already.
                    let _ = tell.send(());
                }
                id
            }
            Entry::Full => return None,
        };
        let (tell, gone) = oneshot::channel();
        self.0.tell.borrow_mut().insert(id, tell);
        Some((Visit { room: self.clone(), id, answers: Rc::default() }, gone))
    }
}

impl Visit {
    /// An answer begins; it ends when what this gives is dropped.
    pub(super) fn answer(&self) -> Answering {
        self.room.0.visits.borrow_mut().begin(self.id);
        self.answers.set(self.answers.get() + 1);
        Answering { room: self.room.clone(), id: self.id, answers: Rc::clone(&self.answers) }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.room.0.visits.borrow_mut().leave(self.id);
        self.room.0.tell.borrow_mut().remove(&self.id);
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let Inside { begun, visits, .. } = &*self.room.0;
        self.answers.set(self.answers.get() - 1);
        if self.answers.get() > 0 {
            return;
        }
        visits.borrow_mut().rest(self.id, crate::worker::clock::since(*begun));
    }
}

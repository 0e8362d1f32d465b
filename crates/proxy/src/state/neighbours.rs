//! The Flifo that hands over to this one and the one that takes over from it, for as long as they talk, and the orders to
//! kill that were sent to them: the victim may be in the other process.
//!
//! Invariant: an order that was sent is given back once, with its answer or when the talk has ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::kill::Neighbour;

use crate::state::description::KillMessage;
use crate::state::orders::KillOrder;

/// Sends a message to the other process. One that is gone hears nothing.
pub(crate) type Tell = Arc<dyn Fn(KillMessage) + Send + Sync>;

#[derive(Default)]
pub(crate) struct Neighbours(Mutex<Both>);

#[derive(Default)]
struct Both {
    before: Side,
    after: Side,
    last_ticket: u64,
}

#[derive(Default)]
struct Side {
    tell: Option<Tell>,
    /// Orders that it has not answered yet. A client has one at most.
    asked: HashMap<u64, KillOrder>,
}

impl Neighbours {
    fn both(&self) -> MutexGuard<'_, Both> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on this neighbour is asked.
    pub(crate) fn join(&self, neighbour: Neighbour, tell: Tell) {
        self.both().side(neighbour).tell = Some(tell);
    }

    /// The talk with it has ended: what it has not answered.
    pub(crate) fn part(&self, neighbour: Neighbour) -> Vec<KillOrder> {
        std::mem::take(self.both().side(neighbour)).asked.into_values().collect()
    }

    /// Sends it an order, or gives that back where there is no such neighbour.
    pub(crate) fn ask(&self, neighbour: Neighbour, order: KillOrder) -> Result<(), KillOrder> {
        let mut both = self.both();
        let Some(tell) = both.side(neighbour).tell.clone() else { return Err(order) };
        both.last_ticket += 1;
        let ticket = both.last_ticket;
        let message = KillMessage::Order {
            ticket,
            victim: order.victim,
            scope: order.scope,
            user: order.user.clone(),
        };
        both.side(neighbour).asked.insert(ticket, order);
        // Sending may have to wait for the other process.
        drop(both);
        tell(message);
        Ok(())
    }

    /// The order that it answers.
    pub(crate) fn answered(&self, neighbour: Neighbour, ticket: u64) -> Option<KillOrder> {
        self.both().side(neighbour).asked.remove(&ticket)
    }

    /// Answers an order of its.
    pub(crate) fn answer(&self, neighbour: Neighbour, message: KillMessage) {
        let tell = self.both().side(neighbour).tell.clone();
        if let Some(tell) = tell {
            tell(message);
        }
    }
}

impl Both {
    const fn side(&mut self, neighbour: Neighbour) -> &mut Side {
        match neighbour {
            Neighbour::Before => &mut self.before,
            Neighbour::After => &mut self.after,
        }
    }
}

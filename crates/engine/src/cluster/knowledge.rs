//! What each server is known to hold of what every other one took.
//!
//! A server that takes writes is asked where it is, again and again; another one that covers such a place later holds
//! all that was acknowledged by the first one before it was asked. So nothing has to be known of a single write but
//! the server that took it, and when. Invariants:
//!
//! * What was proved of a server is forgotten when it is down: it may come back with less.
//! * What only the number of a position says is believed within one history (see [`Position::covers`]).
//! * A server that is gone cannot be asked any more. What a node of a cluster took is held by those that have gone on
//!   to a view without it, unless two nodes go between two checks. Elsewhere the next writer is all there is: what the
//!   lost server took is *settled* by it, and a server that follows the next writer has as much.

use std::time::{Duration, Instant};

use super::position::{History, Lag, Position};

/// What one server holds of what another one took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// One of both does not tell how far it is, or is not asked.
    Untold,
    /// Nothing is known to be there.
    Nothing,
    /// All that was acknowledged before this moment.
    Until(Instant),
    All,
}

/// What is known of all servers.
#[derive(Clone, Debug, Default)]
pub struct Knowledge {
    servers: Vec<Known>,
}

#[derive(Clone, Debug)]
struct Known {
    /// Where it is, if it was asked since it came up.
    position: Position,
    /// It tells where it is, when asked.
    tells: bool,
    /// Where it was while it took writes, and since.
    took: History,
    /// What clients were told that it has, as far as it says so.
    acknowledged: Position,
    /// The number of the view of its cluster, as it has said last.
    view: Option<u64>,
    /// Since when it cannot take writes, and is not asked with success.
    gone: Option<Instant>,
    /// It is not asked any more, as an operator wants it.
    is_unasked: bool,
    settled: Option<Settled>,
    /// Of each other server: everything that was acknowledged there before this moment is here.
    until: Vec<Option<Instant>>,
}

/// What a server took is what another one had at this moment.
#[derive(Clone, Copy, Debug)]
struct Settled {
    by: usize,
    at: Instant,
    /// This holds for what was noted before this moment: later than the other one, while the server is gone.
    until: Instant,
}

/// What a server has said.
#[derive(Clone, Copy, Debug)]
pub struct Said<'a> {
    pub position: &'a Position,
    pub view: Option<u64>,
    /// It can be written to.
    pub takes_writes: bool,
}

/// A transaction that a server has had for longer than this is taken to be acknowledged.
const WAITED: Duration = Duration::from_secs(1);

impl Knowledge {
    /// One more server, of which nothing is known.
    pub fn add(&mut self) {
        let count = self.servers.len() + 1;
        self.servers.push(Known {
            position: Position::Unknown,
            tells: false,
            took: History::default(),
            acknowledged: Position::Unknown,
            view: None,
            gone: None,
            is_unasked: false,
            settled: None,
            until: Vec::new(),
        });
        self.servers.iter_mut().for_each(|server| server.until.resize(count, None));
    }

    /// Where a server was while it took writes.
    pub fn took(&self, at: usize) -> &History {
        &self.servers[at].took
    }

    /// Where a server is, if it was asked since it came up.
    pub fn position(&self, at: usize) -> &Position {
        &self.servers[at].position
    }

    /// A client was told that its write is there, at this position.
    pub fn acknowledge(&mut self, at: usize, position: Position) {
        let known = std::mem::take(&mut self.servers[at].acknowledged);
        self.servers[at].acknowledged = known.plus(position);
    }

    /// What is known of a server to have been acknowledged: what clients were told, and what it has had for a while. A
    /// newer transaction may wait for another server's answer, and no client was told of it.
    pub fn had(&self, at: usize) -> Vec<&Position> {
        let server = &self.servers[at];
        let told = Some(&server.acknowledged).filter(|told| **told != Position::Unknown);
        told.into_iter().chain(server.took.older_than(WAITED)).collect()
    }

    /// A server was asked at `begun`, and has said this.
    pub fn hear(&mut self, at: usize, said: Said<'_>, begun: Instant) {
        let server = &mut self.servers[at];
        server.tells = *said.position != Position::Unknown;
        server.position = said.position.clone();
        server.view = said.view;
        (server.gone, server.is_unasked) = (None, false);
        let newest = server.took.newest();
        let is_anew = newest.is_some_and(|(newest, last)| {
            server.tells && begun > last && !said.position.covers(newest)
        });
        if is_anew {
            // It was set up anew, or its cluster was: numbers begin again, and mean something else.
            (server.took, server.acknowledged) = (History::default(), Position::Unknown);
            self.servers.iter_mut().for_each(|other| other.until[at] = None);
        }
        let server = &mut self.servers[at];
        if said.takes_writes || !server.took.is_empty() {
            server.took.note(said.position, begun);
        }
        for other in (0..self.servers.len()).filter(|other| *other != at) {
            self.prove(at, other, begun);
            self.prove(other, at, begun);
            self.outlive(at, other, begun);
        }
    }

    /// Compares where a server is with where another one was.
    fn prove(&mut self, at: usize, taker: usize, now: Instant) {
        let lag = self.servers[taker].took.lag(&self.servers[at].position, now);
        if let Lag::Behind { caught_up, .. } = lag {
            let until = &mut self.servers[at].until[taker];
            *until = (*until).max(Some(caught_up));
        }
    }

    /// A node that was asked after another one was gone, and has gone on to a view without it, has worked off all that
    /// came before that view.
    fn outlive(&mut self, at: usize, other: usize, begun: Instant) {
        let (server, lost) = (&self.servers[at], &self.servers[other]);
        let has_gone_on = server.view.zip(lost.view).is_some_and(|(view, last)| view > last);
        if has_gone_on && lost.gone.is_some_and(|since| since < begun) {
            let until = &mut self.servers[at].until[other];
            *until = (*until).max(Some(begun));
        }
    }

    /// A server is down, or cannot work.
    pub fn lose(&mut self, at: usize, now: Instant) {
        let server = &mut self.servers[at];
        server.gone.get_or_insert(now);
        server.position = Position::Unknown;
        server.until.fill(None);
    }

    /// A server is not asked from now on: what it takes is not learnt any more.
    pub fn leave(&mut self, at: usize) {
        self.servers[at].is_unasked = true;
    }

    /// What a server took is from now on what another one has: it is gone, or an operator has decided so.
    pub fn settle(&mut self, at: usize, by: usize, now: Instant) {
        self.servers[at].settled = Some(Settled { by, at: now, until: now });
    }

    /// While a server is gone, whatever is noted of it later was under way then.
    pub fn keep_settled(&mut self, at: usize, now: Instant) {
        let server = &mut self.servers[at];
        if let (Some(since), Some(settled)) = (server.gone, &mut server.settled)
            && settled.at >= since
        {
            settled.until = now;
        }
    }

    /// Whether a server is gone, and what it took has not been settled since.
    pub fn is_unsettled(&self, at: usize) -> bool {
        let server = &self.servers[at];
        server.gone.is_some_and(|since| server.settled.is_none_or(|settled| settled.at < since))
    }

    /// What a server holds of what another one took.
    pub fn holds(&self, at: usize, taker: usize) -> Holds {
        if at == taker {
            return Holds::All;
        }
        let (server, other) = (&self.servers[at], &self.servers[taker]);
        let settled = other.settled.filter(|settled| self.has_reached(at, *settled));
        match server.until[taker].max(settled.map(|settled| settled.until)) {
            _ if other.is_unasked => Holds::Untold,
            Some(moment) => Holds::Until(moment),
            None if !server.tells || other.took.is_empty() => Holds::Untold,
            None => Holds::Nothing,
        }
    }

    /// Whether a server has what another one had when it settled something. That one may be gone in its turn.
    fn has_reached(&self, at: usize, settled: Settled) -> bool {
        let Settled { by, at: moment, .. } = settled;
        let later = self.servers[by].settled.filter(|later| later.at > moment);
        at == by
            || self.servers[at].until[by].is_some_and(|until| until > moment)
            // Each step is later than the one before, so there is an end.
            || later.is_some_and(|later| self.has_reached(at, later))
    }
}

#[cfg(test)]
mod tests;

//! What each server is known to hold of what every other one took.
//!
//! A server that takes writes is asked where it is, again and again; another one that covers such a place later holds
//! all that was acknowledged by the first one before it was asked. So nothing has to be known of a single write but
//! the server that took it, and when. Invariants:
//!
//! * What was proved of a server is forgotten when it is down: it may come back with less.
//! * What only the number of a position says is believed within one history (see [`Position::covers`]).
//! * A server's place is compared with its own past: one that has less than before *went back*. It was restored from
//!   older data, or counts from the beginning again. What was acknowledged there before is kept as its past; what it
//!   takes from now on bears numbers that others may have from before, and a server that has them is *doubted*.
//! * A server that is gone cannot be asked any more. What a node of a cluster took is held by those that have gone on
//!   to a view without it, unless two nodes go between two checks. Elsewhere the next writer is all there is: what the
//!   lost server took is *settled* by it, and a server that follows the next writer has as much.

use std::time::{Duration, Instant};

use super::memory::Remembered;
use super::position::{Gtid, History, Lag, Position};

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
    /// Where it was when it was asked last, whatever has become of it since.
    last: Position,
    /// It tells where it is, when asked.
    tells: bool,
    /// When it was asked last with success.
    asked: Option<Instant>,
    /// Where it was while it took writes, and since.
    took: History,
    /// What clients were told that it has, as far as it says so.
    acknowledged: Position,
    went_back: Option<WentBack>,
    /// What was acknowledged there, as the process before this one has known.
    inherited: Vec<Position>,
    /// Answers to what was asked before this moment are not compared with where it was last.
    compared_from: Option<Instant>,
    /// Where it went back to last, and how far it had come before.
    base: Position,
    shown: Position,
    /// What it took was decided on while it was gone: what it has when it comes back is not compared with that.
    is_decided: bool,
    /// The number of the view of its cluster, as it has said last.
    view: Option<u64>,
    /// When it told a smaller number than before: its cluster was begun anew, and numbers its views from the beginning.
    begun_anew: Option<Instant>,
    /// Since when it cannot take writes, and is not asked with success.
    gone: Option<Instant>,
    /// It is not asked any more, as an operator wants it.
    is_unasked: bool,
    settled: Option<Settled>,
    /// Of each other server: everything that was acknowledged there before this moment is here.
    until: Vec<Option<Instant>>,
    /// Of each other server: that one went back, and this one may have its numbers from before.
    doubted: Vec<bool>,
}

/// A server has less than before.
#[derive(Clone, Debug)]
struct WentBack {
    /// It was asked at this moment.
    at: Instant,
    /// When it was asked last before that.
    before: Option<Instant>,
    /// It could be written to since: it may have given the numbers of its past once more.
    is_written_to: bool,
    /// What was acknowledged there before.
    past: Vec<Position>,
    /// These servers are doubted since.
    doubted: Vec<usize>,
}

/// So many places of its past are kept of a server that goes back again and again.
const PAST_MAX: usize = 16;

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
    /// It can be written to, or is the writer.
    pub takes_writes: bool,
    pub read_only: bool,
}

/// A transaction that a server has had for longer than this is taken to be acknowledged.
const WAITED: Duration = Duration::from_secs(1);

impl Knowledge {
    /// One more server, of which nothing is known.
    pub fn add(&mut self) {
        let count = self.servers.len() + 1;
        self.servers.push(Known {
            position: Position::Unknown,
            last: Position::Unknown,
            tells: false,
            asked: None,
            took: History::default(),
            acknowledged: Position::Unknown,
            went_back: None,
            inherited: Vec::new(),
            compared_from: None,
            base: Position::Unknown,
            shown: Position::Unknown,
            is_decided: false,
            view: None,
            begun_anew: None,
            gone: None,
            is_unasked: false,
            settled: None,
            until: Vec::new(),
            doubted: Vec::new(),
        });
        for server in &mut self.servers {
            server.until.resize(count, None);
            server.doubted.resize(count, false);
        }
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
        let known = server.inherited.iter().chain(told);
        known.chain(server.took.older_than(WAITED)).collect()
    }

    /// Writes down what is known of a server.
    pub fn describe(&self, at: usize) -> Remembered {
        let server = &self.servers[at];
        let is_open = server.went_back.is_some();
        let had = self.had(at).into_iter();
        let doubted = (0..self.servers.len()).filter(|taker| server.doubted[*taker]).collect();
        Remembered {
            last: server.last.clone(),
            view: server.view,
            // Of what is settled nothing is asked any more.
            had: match self.is_decided(at) {
                true => Vec::new(),
                false => had.cloned().collect(),
            },
            past: is_open.then(|| self.past(at).to_vec()),
            base: server.base.clone(),
            shown: server.shown.clone(),
            is_decided: self.is_decided(at),
            doubted,
            ..Remembered::default()
        }
    }

    /// Takes in what another process has known of a server. What this one was told itself counts more.
    pub fn inherit(&mut self, at: usize, known: Remembered, now: Instant) {
        let Remembered { last, view, had, past, base, shown, is_decided, doubted, .. } = known;
        let server = &mut self.servers[at];
        server.inherited = had.into_iter().take(PAST_MAX).collect();
        server.view = server.view.or(view);
        if server.base == Position::Unknown {
            (server.base, server.shown) = (base, shown);
        }
        server.is_decided |= is_decided;
        if let Some(past) = past.filter(|_| server.went_back.is_none()) {
            let (is_written_to, doubted) = (true, Vec::new());
            server.went_back =
                Some(WentBack { at: now, before: None, is_written_to, past, doubted });
        }
        for taker in doubted.into_iter().filter(|taker| *taker != at) {
            if let Some(is) = server.doubted.get_mut(taker) {
                *is = true;
            }
        }
        // What it says from now on is compared with that: an answer that is under way may be older.
        server.last = server.inherited.iter().cloned().fold(last, Position::plus);
        server.compared_from = Some(now);
        self.clear_doubts(at);
    }

    /// What was acknowledged on a server before it went back.
    pub fn past(&self, at: usize) -> &[Position] {
        self.servers[at].went_back.as_ref().map_or(&[], |back| &back.past)
    }

    /// What a server lacks of what was acknowledged on another one, or on itself, before that one went back. Numbers above
    /// where it went back to may be given twice: a server that was not so far by then cannot have what they meant.
    pub fn lost_past(&self, at: usize, other: usize) -> Option<&Position> {
        let (has, base) = (&self.servers[at].position, &self.servers[other].base);
        let back = self.servers[other].went_back.as_ref()?;
        let has_old = match at == other {
            true => !back.is_written_to,
            false => self.is_doubted(at, other),
        };
        let is_same = |past: &Position| has_old || !past.has_given_again(past, base);
        let is_there = |past: &Position| base.covers(past) || has.covers(past) && is_same(past);
        back.past.iter().find(|past| !is_there(past))
    }

    /// What a server lacks of what is known to have been acknowledged on another one. Numbers that it may have from before
    /// the other one went back say nothing of what was written there since.
    pub fn lost(&self, at: usize, other: usize) -> Option<&Position> {
        let (has, base) = (&self.servers[at].position, &self.servers[other].base);
        let is_doubted = self.is_doubted(at, other);
        let is_there = |had: &Position| has.covers(had) && (!is_doubted || base.covers(had));
        self.had(other).into_iter().find(|had| !is_there(had))
    }

    /// Where a server went back to, and what it lacks of its past, if that is known.
    pub fn went_back(&self, at: usize) -> Option<String> {
        let base = &self.servers[at].base;
        let lost = self.past(at).iter().find(|past| !base.covers(past));
        let had = lost.map(|past| format!(", and had {past} before"));
        self.servers[at].went_back.as_ref()?;
        Some(format!("it has {base}{}", had.unwrap_or_default()))
    }

    /// What a server had before it went back is not asked for any more: it has it again, another one has, or an operator
    /// has decided so.
    pub fn forget_past(&mut self, at: usize) {
        self.servers[at].went_back = None;
    }

    /// A server was set up anew, as an operator says: it has no numbers from before.
    pub fn trust(&mut self, at: usize) {
        self.servers[at].doubted.fill(false);
    }

    /// Whether a server may have numbers of another one from before that went back.
    pub fn is_doubted(&self, at: usize, taker: usize) -> bool {
        self.servers[at].doubted[taker]
    }

    /// How far a server is behind another one.
    pub fn lag(&self, at: usize, taker: usize, now: Instant) -> Lag {
        match self.is_doubted(at, taker) {
            true => Lag::Unknown,
            false => self.servers[taker].took.lag(&self.servers[at].position, now),
        }
    }

    /// A server was asked at `begun`, and has said this. Some: it went back, and this is where it is.
    pub fn hear(&mut self, at: usize, said: Said<'_>, begun: Instant) -> Option<String> {
        let is_decided = self.is_decided(at);
        let server = &mut self.servers[at];
        server.tells = *said.position != Position::Unknown;
        server.position = said.position.clone();
        let is_later = server.asked.max(server.compared_from).is_none_or(|asked| begun > asked);
        let before = server.asked;
        server.asked = server.asked.max(Some(begun));
        let last = match server.tells && is_later {
            true => {
                let last = std::mem::replace(&mut server.last, said.position.clone());
                // What clients were told before it was gone is there now, unless it went back.
                match server.gone.is_some_and(|gone| gone < begun) {
                    true => last.plus(server.acknowledged.clone()),
                    false => last,
                }
            }
            false => Position::Unknown,
        };
        if said.view.zip(server.view).is_some_and(|(view, last)| view < last) {
            server.begun_anew = Some(begun);
        }
        server.view = said.view;
        (server.gone, server.is_unasked) = (None, false);
        let is_back = said.position.is_back_from(&last);
        let past = if is_back { self.past_of(at, &last, said.takes_writes) } else { Vec::new() };
        let server = &mut self.servers[at];
        let newest = server.took.newest();
        let is_anew = newest.is_some_and(|(newest, last)| {
            server.tells && begun > last && !said.position.covers(newest)
        });
        if is_anew {
            // It was set up anew, or its cluster was: numbers begin again, and mean something else.
            (server.took, server.acknowledged) = (History::default(), Position::Unknown);
            self.servers.iter_mut().for_each(|other| other.until[at] = None);
        }
        if is_back {
            let (is_written_to, doubted) = (false, Vec::new());
            let back = WentBack { at: begun, before, is_written_to, past, doubted };
            self.go_back(at, last, back);
            if is_decided {
                self.forget_past(at);
            }
        }
        self.servers[at].is_decided = false;
        let server = &mut self.servers[at];
        let is_other = |had: &Position| !said.position.covers(had);
        if server.tells && is_later && server.inherited.iter().any(is_other) {
            // It was set up anew since, as another one's replica.
            server.inherited.clear();
        }
        self.clear_doubts(at);
        let server = &mut self.servers[at];
        if let Some(back) = &mut server.went_back {
            back.is_written_to |= !said.read_only;
        }
        let told = if is_back { self.went_back(at) } else { None };
        self.regain(at, begun);
        let server = &mut self.servers[at];
        if said.takes_writes || !server.took.is_empty() || !server.inherited.is_empty() {
            server.took.note(said.position, begun);
        }
        if let Some(older) = server.took.older_than(WAITED) {
            server.inherited.retain(|had| !older.covers(had));
        }
        for other in (0..self.servers.len()).filter(|other| *other != at) {
            self.prove(at, other, begun);
            self.prove(other, at, begun);
            self.outlive(at, other, begun);
        }
        told
    }

    /// A server has got again what it lacked, if that cannot be what was written there since.
    fn regain(&mut self, at: usize, begun: Instant) {
        let server = &mut self.servers[at];
        let has_all = |back: &mut WentBack| {
            !back.is_written_to && back.past.iter().all(|past| server.position.covers(past))
        };
        if let Some(back) = server.went_back.take_if(has_all) {
            // Where it was meanwhile says nothing of what it had before.
            let took = std::mem::take(&mut server.took);
            if !took.is_empty() {
                server.took.note(&server.position, begun);
            }
            // Its numbers mean what they meant.
            back.doubted.iter().for_each(|other| self.servers[*other].doubted[at] = false);
        }
    }

    /// What was acknowledged on a server, as far as that is known. Where it was last counts if that is not known, and if it
    /// is the writer: clients go on with it, and it lacks what it had shown.
    fn past_of(&self, at: usize, last: &Position, takes_writes: bool) -> Vec<Position> {
        let known = self.past(at).iter().chain(self.had(at));
        let mut past: Vec<_> = known.take(PAST_MAX - 1).cloned().collect();
        if takes_writes || past.is_empty() {
            past.push(last.clone());
        }
        past.dedup();
        past
    }

    fn go_back(&mut self, at: usize, last: Position, mut back: WentBack) {
        let server = &mut self.servers[at];
        server.base = server.position.clone();
        server.shown = last.plus(std::mem::take(&mut server.shown));
        server.until.fill(None);
        (server.took, server.acknowledged) = (History::default(), Position::Unknown);
        server.inherited.clear();
        // Nodes of a cluster that work in it have one history.
        let is_node = server.view.is_some();
        for (number, other) in self.servers.iter_mut().enumerate() {
            other.until[at] = None;
            if !other.doubted[at] && !is_node && number != at {
                back.doubted.push(number);
            }
            other.doubted[at] = !is_node && number != at;
        }
        self.servers[at].went_back = Some(back);
        (0..self.servers.len()).for_each(|other| self.clear_doubts(other));
    }

    /// A server that has not come to where another one went back to, or is just there, has none of the numbers that the
    /// other one gave before.
    fn clear_doubts(&mut self, at: usize) {
        for taker in 0..self.servers.len() {
            let own = &self.servers[at].position;
            let Known { base, shown, .. } = &self.servers[taker];
            let is_clean =
                !own.covers(base) || base.covers(own) || !own.has_given_again(shown, base);
            if *own != Position::Unknown && is_clean {
                self.servers[at].doubted[taker] = false;
            }
        }
    }

    /// Compares where a server is with where another one was. What that one had before it went back is not behind its
    /// place.
    fn prove(&mut self, at: usize, taker: usize, now: Instant) {
        if self.servers[taker].went_back.is_some() {
            return;
        }
        if let Lag::Behind { caught_up, .. } = self.lag(at, taker, now) {
            let until = &mut self.servers[at].until[taker];
            *until = (*until).max(Some(caught_up));
        }
    }

    /// A node that was asked after another one was gone, and has gone on to a view without it, has worked off all that
    /// came before that view. Where the cluster was begun anew meanwhile, what the node has is all there is.
    fn outlive(&mut self, at: usize, other: usize, begun: Instant) {
        let (server, lost) = (&self.servers[at], &self.servers[other]);
        let Some(gone) = lost.gone.filter(|gone| *gone < begun) else { return };
        let has_gone_on = server.view.zip(lost.view).is_some_and(|(view, last)| view > last)
            || server.begun_anew.is_some_and(|moment| moment > gone);
        if has_gone_on {
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

    /// A server that cannot work was asked at `begun`, and has said where it is: it took nothing behind that. If it has
    /// begun anew, that says nothing.
    pub fn hear_last(&mut self, at: usize, position: &Position, begun: Instant) {
        let server = &mut self.servers[at];
        if server.took.newest().is_none_or(|(newest, _)| !position.covers(newest)) {
            return;
        }
        server.took.note(position, begun);
        for other in (0..self.servers.len()).filter(|other| *other != at) {
            self.prove(other, at, begun);
        }
    }

    /// A server is not asked from now on: what it takes is not learnt any more.
    pub fn leave(&mut self, at: usize) {
        self.servers[at].is_unasked = true;
    }

    /// What a server took is from now on what another one has: an operator has decided so.
    pub fn settle(&mut self, at: usize, by: usize, now: Instant) {
        self.servers[at].settled = Some(Settled { by, at: now, until: now });
    }

    /// The same, as the server is gone, or went back. What it took since it went back is its own while it is there.
    pub fn settle_lost(&mut self, at: usize, by: usize, now: Instant) {
        let server = &mut self.servers[at];
        let until = match &server.went_back {
            Some(back) if server.gone.is_none() => back.before,
            _ => Some(now),
        };
        server.settled = until.map(|until| Settled { by, at: now, until });
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

    /// Whether a server was asked since another one is gone. What it has said before need not hold: it may have been
    /// away as well meanwhile.
    pub fn was_asked_since(&self, at: usize, gone: usize) -> bool {
        let (asked, since) = (self.servers[at].asked, self.servers[gone].left());
        asked.zip(since).is_some_and(|(asked, since)| asked > since)
    }

    /// Whether a server has answered what was asked after this moment.
    pub fn was_asked_behind(&self, at: usize, moment: Instant) -> bool {
        self.servers[at].asked.is_some_and(|asked| asked > moment)
    }

    /// Whether the cluster of a node was begun anew after another one was gone.
    pub fn was_begun_anew_since(&self, at: usize, gone: usize) -> bool {
        let (anew, since) = (self.servers[at].begun_anew, self.servers[gone].gone);
        anew.zip(since).is_some_and(|(anew, since)| anew > since)
    }

    /// Whether a server is gone, or went back, and what it took has not been settled since.
    pub fn is_unsettled(&self, at: usize) -> bool {
        let server = &self.servers[at];
        server.left().is_some_and(|since| server.settled.is_none_or(|settled| settled.at < since))
    }

    /// Whether a server is gone, or went back, and what it took was settled since.
    fn is_decided(&self, at: usize) -> bool {
        let server = &self.servers[at];
        server.is_decided || server.left().is_some() && !self.is_unsettled(at)
    }

    /// Whether all that a server took, up to when it was asked last, is known to be on another one.
    pub fn has_all(&self, at: usize, taker: usize) -> bool {
        let is_newer = |moment: Instant| {
            let newest = self.servers[taker].took.newest();
            newest.is_some_and(|(_, last)| last <= moment)
        };
        match self.holds(at, taker) {
            _ if self.servers[taker].went_back.is_some() => false,
            Holds::Until(moment) => is_newer(moment) && !self.is_unsettled(taker),
            Holds::Nothing => false,
            Holds::Untold | Holds::All => true,
        }
    }

    /// Whether a server has a write that another one took before it was gone; `gtid`: its number, without which there was
    /// none. What is not certain is not there.
    pub fn has_write(&self, at: usize, taker: usize, gtid: Option<Gtid>) -> bool {
        let (server, other) = (&self.servers[at], &self.servers[taker]);
        let is_sure = other.gone.is_some()
            && other.went_back.is_none()
            && server.went_back.is_none()
            && !self.is_doubted(at, taker);
        // Nodes of a cluster need not tell numbers of all that they take.
        let is_numbered = matches!(server.position, Position::Gtid(_));
        is_sure && is_numbered && gtid.is_none_or(|gtid| server.position.has(gtid))
    }

    /// Whether a server has come to this place, and none of its numbers can be from before another one went back. Nor can
    /// the place itself be, of which nothing was decided.
    pub fn has_come_to(&self, at: usize, named: &Position) -> bool {
        let server = &self.servers[at];
        let is_one = |other: &Known| other.went_back.is_none() || other.base.covers(named);
        let is_sure = server.went_back.is_none() && !server.doubted.contains(&true);
        is_sure && server.position.covers(named) && self.servers.iter().all(is_one)
    }

    /// What a server holds of what another one took.
    pub fn holds(&self, at: usize, taker: usize) -> Holds {
        if at == taker {
            return match self.servers[at].went_back {
                None => Holds::All,
                Some(_) => Holds::Nothing,
            };
        }
        let (server, other) = (&self.servers[at], &self.servers[taker]);
        let settled = other.settled.filter(|settled| self.has_reached(at, *settled));
        match server.until[taker].max(settled.map(|settled| settled.until)) {
            _ if other.is_unasked || other.is_silent() => Holds::Untold,
            Some(moment) => Holds::Until(moment),
            None if !server.tells || !other.is_known() => Holds::Untold,
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

impl Known {
    /// Whether anything is known of what it took.
    fn is_known(&self) -> bool {
        !self.took.is_empty() || !self.inherited.is_empty()
    }

    /// Since when it is not to be had what it took.
    fn left(&self) -> Option<Instant> {
        self.gone.max(self.went_back.as_ref().map(|back| back.at))
    }

    /// It is asked with success, and does not say any more where it is.
    fn is_silent(&self) -> bool {
        self.asked.is_some() && self.gone.is_none() && !self.tells
    }
}

#[cfg(test)]
mod tests;

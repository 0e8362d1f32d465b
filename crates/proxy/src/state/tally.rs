//! What statements have cost, as one worker has seen it: by digest, and by the server's errors. How long they took in
//! all is counted by server ([`crate::state::traffic`]).
//!
//! Owned by the worker and touched by its thread alone. A statement costs a look-up when it begins and a few additions
//! when it ends; neither takes a lock, reads a clock or allocates, unless the statement is new.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use engine::intent::Digest;
use view::digests::{Caller, Cost, Digests, Told};
use wire::command::Opcode;
use wire::frame::HEADER;
use wire::lex::Dialect;
use wire::response::ErrPacket;
use wire::text::{Lexed, Text};

use crate::cluster::servers::ServerId;
use crate::state::client::Client;
use crate::state::command::{Begun, Command};
use crate::state::in_flight::InFlight;
use crate::worker::counters::Totals;

/// The figures of one worker.
#[derive(Debug)]
pub(crate) struct Tally {
    /// `None` where the configuration wants none.
    digests: RefCell<Option<Digests>>,
    errors: RefCell<BTreeMap<u16, ServerError>>,
    pub(crate) rows: Cell<u64>,
}

/// An error that the server has answered with. Its messages are not kept: they hold users' data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerError {
    pub(crate) code: u16,
    pub(crate) sqlstate: [u8; 5],
    pub(crate) count: u64,
    pub(crate) last: Instant,
}

/// Different errors of the server that are told apart.
const ERRORS_MAX: usize = 256;

/// How the names of their totals begin.
const ERROR: &str = "errors.";

impl Tally {
    pub(crate) fn new(digests: u32) -> Self {
        let tally =
            Self { digests: RefCell::default(), errors: RefCell::default(), rows: Cell::default() };
        tally.keep_digests(digests);
        tally
    }

    /// Keeps figures of so many different statements from now on.
    pub(crate) fn keep_digests(&self, digests: u32) {
        let mut kept = self.digests.borrow_mut();
        match (&mut *kept, digests as usize) {
            (_, 0) => *kept = None,
            (Some(kept), digests) => kept.resize(digests),
            (None, digests) => *kept = Some(Digests::new(digests)),
        }
    }

    /// A statement begins, of which this is the text.
    pub(crate) fn ask(&self, digest: Digest, text: Text<'_>) -> Option<Begun> {
        let place = self.digests.borrow_mut().as_mut()?.place(digest.hash(), || text);
        Some(Begun { place, since: crate::worker::clock::now() })
    }

    /// A pass-through client's command begins: its text has not been read yet.
    pub(crate) fn ask_pass_through(
        &self,
        opcode: Option<Opcode>,
        query: Option<Text<'_>>,
    ) -> Option<Begun> {
        self.digests.borrow().as_ref()?;
        match query {
            Some(text) => self.ask(Digest::of(text), text),
            // Which statement it executes, only the server knows.
            None => {
                let opcode = opcode?;
                let lexed = Lexed::default();
                let name = lexed.text(opcode.name().as_bytes(), Dialect::default());
                self.ask(Digest::new(opcode as u64 + 1), name)
            }
        }
    }

    /// A client's command has been answered by a server, which has run for so long. Answers with how long it has waited before, if
    /// that is known.
    pub(crate) fn answer(
        &self,
        flight: &InFlight,
        (client, server): (&Client, ServerId),
        command: &Command,
        run: Duration,
    ) -> Option<Duration> {
        let rows = flight.follower.rows();
        self.rows.set(self.rows.get() + rows);
        let begun = command.begun?;
        // Mostly it began in the iteration of the loop in which it came.
        let waited = match flight.since <= begun.since {
            true => Duration::ZERO,
            false => flight.since - begun.since,
        };
        let (failed, affected) = (flight.failed, flight.affected);
        if let Some(digests) = &mut *self.digests.borrow_mut() {
            let sharers = flight.sharers;
            let cost = Cost { failed, rows, affected, run, sharers, waited };
            see(digests, begun, &cost, (client, server));
        }
        Some(waited)
    }

    /// Another client's run has answered this command.
    pub(crate) fn see_shared(&self, command: &Command) {
        if let (Some(begun), Some(digests)) = (command.begun, &mut *self.digests.borrow_mut()) {
            digests.add_shared(begun.place);
        }
    }

    /// A reply that was kept has answered this command, with so many rows.
    pub(crate) fn answer_cached(&self, client: &Client, command: &Command, rows: u64) {
        self.rows.set(self.rows.get() + rows);
        if let (Some(begun), Some(digests)) = (command.begun, &mut *self.digests.borrow_mut()) {
            let (run, waited) = (Duration::ZERO, Duration::ZERO);
            let cost = Cost { failed: false, rows, affected: 0, run, sharers: 0, waited };
            see(digests, begun, &cost, (client, client.routing.server.get()));
        }
    }

    /// The server has answered with an error.
    pub(crate) fn see_error(&self, packet: &[u8]) {
        let Some(Ok(error)) = packet.get(HEADER..).map(ErrPacket::decode) else { return };
        self.count_error(error.code, error.sqlstate, 1);
    }

    fn count_error(&self, code: u16, sqlstate: [u8; 5], count: u64) {
        let mut errors = self.errors.borrow_mut();
        if errors.len() >= ERRORS_MAX && !errors.contains_key(&code) {
            return;
        }
        let now = crate::worker::clock::now();
        let new = ServerError { code, sqlstate, count: 0, last: now };
        let seen = errors.entry(code).or_insert(new);
        seen.count += count;
        seen.last = now;
    }

    pub(crate) fn errors(&self) -> Vec<ServerError> {
        self.errors.borrow().values().copied().collect()
    }

    /// The text of a statement, without its literals, as long as its figures are kept.
    pub(crate) fn text(&self, digest: u64) -> Option<String> {
        self.digests.borrow().as_ref()?.text(digest).map(str::to_owned)
    }

    /// The figures of statements begin at zero.
    pub(crate) fn reset_digests(&self) {
        if let Some(digests) = &mut *self.digests.borrow_mut() {
            digests.reset();
        }
    }

    /// Adds what another Flifo has counted, whose servers have these numbers here.
    pub(crate) fn take_in(&self, told: Vec<Told>, number_of: impl Fn(&str) -> Option<u32>) {
        let now = crate::worker::clock::now();
        if let Some(digests) = &mut *self.digests.borrow_mut() {
            told.into_iter().for_each(|told| digests.take_in(told, now, &number_of));
        }
    }

    /// Servers have these names.
    pub(crate) fn digests(&self, name_of: impl Fn(u32) -> String) -> Vec<Told> {
        let now = crate::worker::clock::now();
        let digests = self.digests.borrow();
        digests.as_ref().map(|digests| digests.told(now, name_of)).unwrap_or_default()
    }

    /// The servers' errors by names, for another Flifo.
    pub(crate) fn error_totals(&self) -> impl Iterator<Item = (String, u64)> {
        let name = |error: &ServerError| {
            format!("{ERROR}{}.{}", error.code, String::from_utf8_lossy(&error.sqlstate))
        };
        self.errors().into_iter().map(move |error| (name(&error), error.count))
    }

    /// Adds those that another Flifo has counted.
    pub(crate) fn add_errors(&self, totals: &Totals) {
        for (name, count) in totals.of(ERROR).filter(|(_, count)| *count > 0) {
            let Some((code, sqlstate)) = name.split_once('.') else { continue };
            if let (Ok(code), Ok(sqlstate)) = (code.parse(), sqlstate.as_bytes().try_into()) {
                self.count_error(code, sqlstate, count);
            }
        }
    }
}

/// The statement of a client has ended at a server.
#[inline]
fn see(digests: &mut Digests, begun: Begun, cost: &Cost, (client, at): (&Client, ServerId)) {
    let (user, session) = (client.user.borrow(), client.session.borrow());
    let server = u32::try_from(at.0).unwrap_or(u32::MAX);
    let caller = Caller { user: user.as_bytes(), schema: session.schema.as_deref(), server };
    digests.add(begun.place, cost, caller, crate::worker::clock::now());
}

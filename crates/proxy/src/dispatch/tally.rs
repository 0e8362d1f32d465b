//! What statements have cost, as one worker has seen it: by digest, and by the server's errors. How long they took in
//! all is counted by server ([`crate::dispatch::traffic`]).
//!
//! Owned by the worker and touched by its thread alone. A statement costs a look-up when it begins and a few additions
//! when it ends; neither takes a lock, reads a clock or allocates, unless the statement is new.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use engine::intent::Digest;
use view::digests::{Cost, Digests, Told};
use wire::command::Opcode;
use wire::frame::HEADER;
use wire::lex::Dialect;
use wire::response::ErrPacket;
use wire::text::{Lexed, Text};

use crate::dispatch::command::{Begun, Command};
use crate::dispatch::in_flight::InFlight;

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

    /// A client's command has been answered, which has run for so long. Answers with how long it has waited before, if
    /// that is known.
    pub(crate) fn answer(
        &self,
        flight: &InFlight,
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
            digests.add(begun.place, &cost);
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
    pub(crate) fn answer_cached(&self, command: &Command, rows: u64) {
        self.rows.set(self.rows.get() + rows);
        if let (Some(begun), Some(digests)) = (command.begun, &mut *self.digests.borrow_mut()) {
            let (run, waited) = (Duration::ZERO, Duration::ZERO);
            let cost = Cost { failed: false, rows, affected: 0, run, sharers: 0, waited };
            digests.add(begun.place, &cost);
        }
    }

    /// The server has answered with an error.
    pub(crate) fn see_error(&self, packet: &[u8]) {
        let Some(Ok(error)) = packet.get(HEADER..).map(ErrPacket::decode) else { return };
        let mut errors = self.errors.borrow_mut();
        if errors.len() >= ERRORS_MAX && !errors.contains_key(&error.code) {
            return;
        }
        let now = crate::worker::clock::now();
        let seen = errors.entry(error.code).or_insert(ServerError {
            code: error.code,
            sqlstate: error.sqlstate,
            count: 0,
            last: now,
        });
        seen.count += 1;
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

    /// Adds what another Flifo has counted.
    pub(crate) fn take_in(&self, told: Vec<Told>) {
        if let Some(digests) = &mut *self.digests.borrow_mut() {
            told.into_iter().for_each(|told| digests.take_in(told));
        }
    }

    pub(crate) fn digests(&self) -> Vec<Told> {
        self.digests.borrow().as_ref().map(Digests::told).unwrap_or_default()
    }
}

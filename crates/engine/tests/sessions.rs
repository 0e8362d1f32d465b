//! Sessions of many clients on few backends, against a simple model of a server: whatever a client does, and on
//! whichever backend, it is as if it had a connection of its own.
//!
//! Plays the proxy's part: before a client's statement, the backend is told what it lacks; behind it, it is asked what
//! it does not report. Beside each client stands the session that it would have had alone. A failure names its seed.

use std::rc::Rc;

use engine::backend_session::BackendSession;
use engine::insert_id::{InsertId, OnBackend};
use engine::intent::{Intent, Moves};
use engine::session::{Reset, Session};
use engine::session_variables::{Interned, SessionVariables};
use fastrand::Rng;
use wire::lex::{Dialect, Lexer, Token};
use wire::response::{OkPacket, Status};
use wire::text::Lexed;
use wire::tracker::{Change, put_change};

const SEEDS: u64 = 200;
const STEPS: u32 = 5_000;

const CLIENTS: usize = 6;
const BACKENDS: usize = 3;

/// Variables and what they may be.
const VARIABLES: [(&str, [&str; 3]); 4] = [
    ("sql_mode", ["ANSI", "STRICT_TRANS_TABLES", ""]),
    ("time_zone", ["SYSTEM", "+01:00", "-02:30"]),
    ("wait_timeout", ["28800", "900", "1200"]),
    ("collation_connection", ["a_ci", "a_bin", "b_bin"]),
];

/// What a server keeps of one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Connection {
    schema: Option<u8>,
    /// Reset since it has chosen its schema.
    was_reset: bool,
    values: [&'static str; VARIABLES.len()],
    last_insert_id: u64,
}

impl Connection {
    fn new() -> Self {
        let values = VARIABLES.map(|(_, values)| values[0]);
        Self { schema: Some(b'a'), was_reset: false, values, last_insert_id: 0 }
    }

    /// Runs a `SET` as it is written. The answer is what a server reports of it.
    fn set(&mut self, text: &str) -> Vec<u8> {
        let mut changes = Vec::new();
        for assignment in text.strip_prefix("SET ").expect("a SET").split(',') {
            let (name, value) = assignment.split_once('=').expect("an assignment");
            let is_reported = !name.starts_with("@@");
            let name = name.trim_start_matches("@@");
            let at = VARIABLES.iter().position(|(known, _)| *known == name).expect("known");
            let value = value.trim_matches('\'');
            if value != format!("@@session.{name}") {
                let known = VARIABLES[at].1.iter().find(|known| **known == value);
                self.values[at] = known.expect("a value that the server has reported");
            }
            if is_reported {
                let (name, value) = (name.as_bytes(), self.values[at].as_bytes());
                put_change(&mut changes, Change::Variable { name, value });
            }
        }
        changes
    }
}

struct Backend {
    state: BackendSession,
    real: Connection,
}

struct Client {
    session: Session,
    /// What it would be on a connection of its own.
    alone: Connection,
}

struct World {
    random: Rng,
    interned: Interned,
    backends: Vec<Backend>,
    clients: Vec<Client>,
    next_number: u64,
    /// Fix-ups, probes, answers about insert ids: what must have happened for the test to say anything.
    told: [u32; 3],
}

fn ok(changes: &[u8], insert_id: u64) -> OkPacket<'_> {
    OkPacket { status: Status::AUTOCOMMIT, insert_id, changes, ..OkPacket::EMPTY }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut interned = Interned::default();
        let rows = VARIABLES.map(|(name, values)| (name.as_bytes(), values[0].as_bytes()));
        let fresh = interned.intern(SessionVariables::from_rows(rows.into_iter()));
        let backend = |id: usize| {
            let mut state = BackendSession::new(id as u64, Rc::clone(&fresh));
            state.schema = Some(b"a"[..].into());
            Backend { state, real: Connection::new() }
        };
        let client = |_| Client {
            session: Session::new(Some(b"a"[..].into()), Status::AUTOCOMMIT),
            alone: Connection::new(),
        };
        Self {
            random: Rng::with_seed(seed),
            interned,
            backends: (0..BACKENDS).map(backend).collect(),
            clients: (0..CLIENTS).map(client).collect(),
            next_number: 100,
            told: [0; 3],
        }
    }

    fn draw(&mut self, below: usize) -> usize {
        self.random.usize(..below)
    }

    fn step(&mut self) {
        let (client, backend) = (self.draw(CLIENTS), self.draw(BACKENDS));
        self.capture(client, backend);
        self.tell(client, backend);
        let (one, there) = (&self.clients[client], &self.backends[backend]);
        assert_eq!(there.real.values, one.alone.values, "the settings that it runs under");
        assert_eq!(there.real.schema, one.alone.schema);
        assert_eq!(there.real.was_reset, one.alone.was_reset, "what comes with the schema");
        match self.draw(6) {
            0 | 1 => self.set(client, backend),
            2 => self.change_schema(client, backend),
            3 | 4 => self.insert(client, backend),
            _ => self.ask(client),
        }
    }

    /// Before another client uses a backend that alone knows an insert id, the backend is asked for it.
    fn capture(&mut self, client: usize, backend: usize) {
        let own = self.clients[client].session.insert_id;
        let state = &mut self.backends[backend].state;
        let is_own = |it: &u32| *it as usize == client && own.is_on(backend as u64);
        let inserter = state.inserter.filter(|it| !is_own(it));
        let Some(inserter) = inserter.filter(|_| !state.insert_id.is_known()) else { return };
        let value = self.backends[backend].real.last_insert_id;
        let state = &mut self.backends[backend].state;
        (state.insert_id, state.inserter) = (OnBackend::known(value), None);
        let session = &mut self.clients[inserter as usize].session;
        session.insert_id = session.insert_id.resolve(backend as u64, Some(value));
    }

    fn tell(&mut self, client: usize, backend: usize) {
        let Backend { state, real } = &mut self.backends[backend];
        let session = &self.clients[client].session;
        let wanted = Rc::clone(state.wanted(session));
        if !Rc::ptr_eq(state.settings(), &wanted) {
            self.told[0] += 1;
            let changes = real.set(&wanted.setup(state.settings()));
            assert_eq!(state.see(&ok(&changes, 0), &mut self.interned), None);
            assert!(Rc::ptr_eq(state.settings(), &wanted), "it is what it was told to be");
        }
        if !state.has_schema_of(session) {
            state.enter_schema(session.schema.clone());
            state.was_reset = session.was_reset;
            real.schema = session.schema.as_ref().map(|name| name[0]);
            real.was_reset = session.was_reset;
        }
        assert!(state.suits(session));
    }

    fn set(&mut self, client: usize, backend: usize) {
        let mut text = String::from("SET ");
        for number in 0..=self.draw(2) {
            let (name, values) = VARIABLES[self.draw(VARIABLES.len())];
            let scope = ["", "@@"][self.draw(2)];
            let comma = if number == 0 { "" } else { "," };
            let quote = if name == "wait_timeout" { "" } else { "'" };
            text += &format!("{comma}{scope}{name}={quote}{}{quote}", values[self.draw(3)]);
        }
        let intent = Intent::read(Lexed::default().text(text.as_bytes(), Dialect::default()));
        assert_eq!(intent.pin, None, "{text}");
        let sets = intent.sets.expect("a SET of known variables");
        let Backend { state, real } = &mut self.backends[backend];
        let Client { session, alone } = &mut self.clients[client];
        alone.set(&text);
        let changes = real.set(&text);
        let ok_packet = ok(&changes, 0);
        let pin = session.see_ok(client as u32, &ok_packet, state, &mut self.interned, Some(sets));
        assert_eq!(pin, None, "{text}");
        if !sets.unreported.is_empty() {
            self.told[1] += 1;
            let probe = state
                .settings()
                .probe(sets.unreported)
                .expect("the backend connection has them all");
            let changes = real.set(&probe);
            assert_eq!(state.see(&ok(&changes, 0), &mut self.interned), None);
            session.see_settings(state);
        }
    }

    fn change_schema(&mut self, client: usize, backend: usize) {
        let name = [b'a' + self.draw(3) as u8];
        let mut changes = Vec::new();
        put_change(&mut changes, Change::Schema(&name));
        put_change(&mut changes, Change::State(b"1"));
        let Backend { state, real } = &mut self.backends[backend];
        let Client { session, alone } = &mut self.clients[client];
        (real.schema, alone.schema) = (Some(name[0]), Some(name[0]));
        (real.was_reset, alone.was_reset) = (false, false);
        let ok = ok(&changes, 0);
        session.enter(false, Moves::IntoSchema);
        assert_eq!(session.see_ok(client as u32, &ok, state, &mut self.interned, None), None);
        session.enter(false, Moves::No);
    }

    fn insert(&mut self, client: usize, backend: usize) {
        // Few numbers, so that those which are given are often those which were made before.
        self.next_number = 100 + (self.next_number + 1) % 7;
        let number = self.next_number;
        let is_given = self.draw(2) == 0;
        let is_reported = is_given || self.draw(4) > 0;
        if !is_reported {
            self.tell_insert_id(client, backend);
        }
        let Backend { state, real } = &mut self.backends[backend];
        let Client { session, alone } = &mut self.clients[client];
        if !is_given {
            (real.last_insert_id, alone.last_insert_id) = (number, number);
        }
        let ok = ok(b"", if is_reported { number } else { 0 });
        assert_eq!(session.see_ok(client as u32, &ok, state, &mut self.interned, None), None);
        if !is_reported {
            session.see_unreported_insert(client as u32, state);
        }
    }

    /// After this, the backend answers with this client's insert id, whatever it answered before; if that id is known.
    fn tell_insert_id(&mut self, client: usize, backend: usize) {
        let mut own = self.clients[client].session.insert_id;
        if let InsertId::OnBackend { backend, .. } = own {
            own = own.resolve(backend, Some(self.backends[backend as usize].real.last_insert_id));
            self.clients[client].session.insert_id = own;
        }
        let Backend { state, real } = &mut self.backends[backend];
        if let InsertId::Known(id) = own
            && !state.insert_id.is(own)
        {
            real.last_insert_id = id;
            (state.insert_id, state.inserter) = (OnBackend::known(id), Some(client as u32));
        }
    }

    /// The client asks for its last insert id: it gets the right one, or is told that the id is not available.
    fn ask(&mut self, client: usize) {
        let own = self.clients[client].session.insert_id;
        let told = match own {
            InsertId::OnBackend { backend, .. } => {
                own.resolve(backend, Some(self.backends[backend as usize].real.last_insert_id))
            }
            known => known,
        };
        if let InsertId::Known(told) = told {
            self.told[2] += 1;
            assert_eq!(told, self.clients[client].alone.last_insert_id);
        }
        if self.draw(50) == 0 {
            self.clients[client].session.reset(Reset::KeepsFound);
            let mut alone = Connection::new();
            (alone.schema, alone.was_reset) = (self.clients[client].alone.schema, true);
            self.clients[client].alone = alone;
        }
    }
}

#[test]
fn every_client_is_as_if_alone() {
    let mut told = [0; 3];
    for seed in 1..=SEEDS {
        let guard = Told(seed);
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
        }
        for (sum, count) in told.iter_mut().zip(world.told) {
            *sum += count;
        }
        drop(guard);
    }
    let least = (SEEDS as u32) * STEPS / 20;
    assert!(told.iter().all(|count| *count > least), "{told:?}, of {least} at least");
}

/// Whatever a setup is made of, it is a `SET` of known variables and nothing else.
#[test]
fn fix_ups_set_known_variables_only() {
    let mut world = World::new(1);
    for _ in 0..STEPS {
        world.step();
        let text = world.backends[0].state.settings().setup(world.backends[1].state.settings());
        if text != "SET " {
            let intent = Intent::read(Lexed::default().text(text.as_bytes(), Dialect::default()));
            assert!(intent.pin.is_none() && intent.sets.is_some(), "{text}");
            let mut tokens = Lexer::new(text.as_bytes(), Dialect::default());
            assert!(tokens.all(|token| token != Token::Symbol(b';')));
        }
    }
}

/// Names the seed if a panic passes by.
struct Told(u64);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}", self.0);
        }
    }
}

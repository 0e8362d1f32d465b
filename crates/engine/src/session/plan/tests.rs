//! Plans by a table, and by random clients that take turns on random backends.
//!
//! A model of a server carries out each plan. Invariant: what a statement meets on its backend is its own client's,
//! whichever clients have used that before.

use proptest::prelude::*;
use wire::lex::Dialect;
use wire::response::Status;

use super::*;
use crate::insert_id::OnBackend;
use crate::intent::{Digest, Inserts};
use crate::marks::Marks;

/// No client needs anything of another one's backend, or all do.
struct All(bool);

impl OtherClients for All {
    fn insert_id_is_on(&self, _: u32, _: u64) -> bool {
        self.0
    }

    fn found_is_on(&self, _: u32, _: u64) -> bool {
        self.0
    }
}

fn modes(interned: &mut Interned, mode: &str) -> Rc<SessionVariables> {
    let rows = [(&b"sql_mode"[..], mode.as_bytes())];
    interned.intern(SessionVariables::from_rows(rows.into_iter()))
}

/// A client, a backend and what is between them.
struct Scene {
    session: Session,
    backend: BackendSession,
    known: Known,
    interned: Interned,
    facts: Facts,
    found: Found,
    is_mysql: bool,
    others: All,
}

impl Scene {
    fn new() -> Self {
        let mut interned = Interned::default();
        let fresh = modes(&mut interned, "ANSI");
        Self {
            session: Session::new(None, Status::AUTOCOMMIT),
            backend: BackendSession::new(3, fresh),
            known: Known::default(),
            interned,
            facts: Facts::default(),
            found: Found::default(),
            is_mysql: false,
            others: All(false),
        }
    }

    fn plan(&mut self) -> Plan {
        self.plan_for(Opcode::Query, b"\x03DO 1")
    }

    fn plan_for(&mut self, opcode: Opcode, payload: &[u8]) -> Plan {
        let (facts, found) = (&self.facts, &self.found);
        let request = Request { opcode, payload, is_part: false, facts, found };
        let pair = Pair {
            session: &self.session,
            backend: &self.backend,
            client: 9,
            thread_id: 70,
            is_mysql: self.is_mysql,
            is_mariadb: !self.is_mysql,
            sends_several: false,
            others: &self.others,
        };
        pair.plan(&mut self.known, request, &mut self.interned)
    }

    /// What is told ahead, in order; `?` stands before what must be answered first.
    fn texts(&mut self) -> Vec<String> {
        texts(&self.plan())
    }
}

fn text(setup: &Setup) -> String {
    let body = String::from_utf8_lossy(&setup.body);
    match setup.opcode {
        Opcode::Query => body.into_owned(),
        opcode => format!("{} {body}", opcode.name()),
    }
}

fn texts(plan: &Plan) -> Vec<String> {
    match plan {
        Plan::Ready => Vec::new(),
        Plan::Told(told) => told.iter().map(text).collect(),
        Plan::Answered(setup) => vec![format!("? {}", text(setup))],
        Plan::Lost => vec!["lost".to_owned()],
    }
}

#[test]
fn each_difference_is_told_alone() {
    /// What makes the client differ from its backend.
    type Differ = fn(&mut Scene);
    let table: [(&str, Differ, &[&str]); 18] = [
        ("nothing", |_| {}, &[]),
        ("a schema", |it| it.session.schema = Some(b"a"[..].into()), &["? init_db a"]),
        (
            "another schema",
            |it| {
                it.session.schema = Some(b"a"[..].into());
                it.backend.enter_schema(Some(b"b"[..].into()));
            },
            &["? init_db a"],
        ),
        (
            "another schema for a mere read",
            |it| {
                it.facts.read = Some(Digest::default());
                it.session.schema = Some(b"a"[..].into());
                it.backend.enter_schema(Some(b"b"[..].into()));
            },
            &["init_db information_schema", "init_db a"],
        ),
        (
            "a schema that could not be entered",
            |it| {
                it.facts.read = Some(Digest::default());
                it.session.schema = Some(b"a"[..].into());
                it.session.see_schema(false);
            },
            &["? init_db a"],
        ),
        (
            "a schema that is not needed",
            |it| {
                it.session.schema = Some(b"a"[..].into());
                it.found.needs_no_schema = true;
            },
            &[],
        ),
        (
            "settings that no server has accepted",
            |it| it.session.settings = Some(modes(&mut it.interned, "")),
            &["? SET sql_mode=''"],
        ),
        (
            "settings that a server has accepted",
            |it| {
                it.session.settings = Some(modes(&mut it.interned, ""));
                it.interned.accept("SET sql_mode=''");
            },
            &["SET sql_mode=''"],
        ),
        ("a transaction", |it| it.session.begin(), &["BEGIN"]),
        (
            "a last insert id that is asked for",
            |it| {
                it.session.insert_id = InsertId::Known(5);
                it.facts.traits.add(Trait::AsksInsertId);
            },
            &["SET last_insert_id=5"],
        ),
        (
            "one that is lost",
            |it| {
                it.session.insert_id = InsertId::Lost;
                it.facts.traits.add(Trait::AsksInsertId);
            },
            &["lost"],
        ),
        (
            "an insert id of another client's, before a statement that may insert",
            |it| {
                it.backend.see_insert(4, Some(8), InsertId::Known(0));
            },
            &["SET last_insert_id=LAST_INSERT_ID()"],
        ),
        (
            "rows that another client has found, and its insert id",
            |it| {
                it.others = All(true);
                it.backend.finder = Some(4);
                it.backend.see_insert(4, Some(8), InsertId::Known(0));
            },
            &["SELECT FOUND_ROWS(), LAST_INSERT_ID()"],
        ),
        ("a count of rows", |it| it.found.affected = Some(-1), &["SELECT 0"]),
        (
            "a count of rows, at MySQL, which forgets diagnostics at statements",
            |it| (it.is_mysql, it.found.affected) = (true, Some(-1)),
            &["set_option \u{1}\0"],
        ),
        (
            "a count of none, at MySQL",
            |it| (it.is_mysql, it.found.affected) = (true, Some(0)),
            &["ping "],
        ),
        (
            "a number that the server may refuse",
            |it| it.facts.reads_number = Reads::Number,
            &["? SET pseudo_thread_id=9"],
        ),
        (
            "a number that is another client's",
            |it| it.backend.number.show(Some(4)),
            &["SET pseudo_thread_id=70"],
        ),
    ];
    for (what, differ, told) in table {
        let mut scene = Scene::new();
        differ(&mut scene);
        assert_eq!(scene.texts(), told, "{what}");
    }
}

#[test]
fn what_finds_rows_of_its_own_comes_after_the_question_for_rows() {
    let mut scene = Scene::new();
    scene.others = All(true);
    scene.backend.finder = Some(4);
    scene.session.schema = Some(b"a"[..].into());
    scene.session.begin();
    scene.found.affected = Some(0);
    scene.facts.read = Some(Digest::default());
    assert_eq!(scene.texts(), ["SELECT FOUND_ROWS()", "init_db a", "DO 0", "BEGIN"]);
}

#[test]
fn mysql_is_asked_for_no_number() {
    let mut scene = Scene::new();
    scene.is_mysql = true;
    scene.facts.reads_number = Reads::Number;
    assert!(scene.texts().is_empty());
}

#[test]
fn a_statement_is_prepared_once_in_the_schema_and_mode_that_it_was_prepared_in() {
    let mut scene = Scene::new();
    let mode = modes(&mut scene.interned, "");
    let (schema, text) = (Some(b"a"[..].into()), b"SELECT 1"[..].into());
    let source = Rc::new(Source::new(schema, text, Rc::clone(&mode), Dialect::default()));
    let id = scene.session.statements.add(Rc::clone(&source), 0).expect("there is room");
    let mut execute = vec![Opcode::StmtExecute as u8];
    execute.extend(id.to_le_bytes());
    execute.extend([0, 1, 0, 0, 0]);
    let plan = |scene: &mut Scene| texts(&scene.plan_for(Opcode::StmtExecute, &execute));
    assert_eq!(plan(&mut scene), ["? SET sql_mode=''"]);
    scene.backend.set(b"sql_mode", b"", &mut scene.interned);
    assert_eq!(plan(&mut scene), ["? init_db a"]);
    scene.backend.enter_schema(Some(b"a"[..].into()));
    assert_eq!(plan(&mut scene), ["? stmt_prepare SELECT 1"]);
    assert!(scene.known.add(source, 40, 10).is_empty());
    // The client itself is in no schema and in another mode.
    scene.session.schema = Some(b"b"[..].into());
    scene.interned.accept("SET sql_mode='ANSI'");
    assert_eq!(plan(&mut scene), ["? init_db b"]);
    scene.facts.read = Some(Digest::default());
    let own = ["SET sql_mode='ANSI'", "init_db information_schema", "init_db b"];
    assert_eq!(plan(&mut scene), own);
}

/// What a random client does when it has its turn.
#[derive(Clone, Copy, Debug)]
enum Act {
    Use(u8),
    SetMode(u8),
    /// The server makes this number.
    Insert(u8),
    AskInsertId,
    Plain,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (0..3_u8).prop_map(Act::Use),
        (0..3_u8).prop_map(Act::SetMode),
        (1..9_u8).prop_map(Act::Insert),
        Just(Act::AskInsertId),
        Just(Act::Plain),
    ]
}

/// What the server knows of one connection.
#[derive(Clone, Debug, Default)]
struct Real {
    schema: Option<Vec<u8>>,
    mode: Vec<u8>,
    insert_id: u64,
}

/// What a client should meet, and what Flifo knows of it.
struct Person {
    session: Session,
    real: Real,
}

struct World {
    clients: Vec<Person>,
    backends: Vec<(BackendSession, Real)>,
    interned: Interned,
}

/// The sessions, as far as other clients' plans go by them.
struct Sessions<'a>(Vec<&'a Session>);

impl OtherClients for Sessions<'_> {
    fn insert_id_is_on(&self, client: u32, backend: u64) -> bool {
        self.0[client as usize].insert_id.is_on(backend)
    }

    fn found_is_on(&self, client: u32, backend: u64) -> bool {
        self.0[client as usize].counts.are_found_on(backend)
    }
}

impl World {
    fn new(clients: usize, backends: u64) -> Self {
        let mut interned = Interned::default();
        let fresh = modes(&mut interned, "0");
        let person = || Person {
            session: Session::new(None, Status::AUTOCOMMIT),
            real: Real { mode: b"0".to_vec(), ..Real::default() },
        };
        let backend = |id| {
            let real = Real { mode: b"0".to_vec(), ..Real::default() };
            (BackendSession::new(id, Rc::clone(&fresh)), real)
        };
        Self {
            clients: (0..clients).map(|_| person()).collect(),
            backends: (1..=backends).map(backend).collect(),
            interned,
        }
    }

    /// One client runs a statement on one backend, and meets there what it should.
    fn step(&mut self, client: usize, backend: usize, act: Act) -> Result<(), TestCaseError> {
        // One that has a schema serves no client that has none.
        if self.backends[backend].0.schema.is_some()
            && self.clients[client].session.schema.is_none()
        {
            return Ok(());
        }
        let facts = match act {
            Act::AskInsertId => {
                Facts { traits: Marks::default().with(Trait::AsksInsertId), ..Facts::default() }
            }
            Act::Insert(_) => Facts { inserts: Inserts::Reported, ..Facts::default() },
            _ => Facts { is_still: true, ..Facts::default() },
        };
        if let (Act::AskInsertId, InsertId::OnBackend { backend: knows, .. }) =
            (act, self.clients[client].session.insert_id)
            && knows != self.backends[backend].0.id
        {
            // The backend that knows is asked before: its answer is heard.
            self.ask(knows);
        }
        for _ in 0..8 {
            match self.plan(client, backend, &facts) {
                Plan::Ready => break,
                Plan::Lost => return Ok(()),
                Plan::Answered(setup) => self.carry_out(client, backend, &setup),
                Plan::Told(told) => {
                    told.iter().for_each(|setup| self.carry_out(client, backend, setup));
                    break;
                }
            }
        }
        let (state, met) = &mut self.backends[backend];
        let own = &mut self.clients[client];
        prop_assert_eq!(&met.schema, &own.real.schema);
        prop_assert_eq!(&met.mode, &own.real.mode);
        match act {
            Act::Use(name) => {
                let name = vec![b'a' + name];
                state.enter_schema(Some(name[..].into()));
                own.session.schema.clone_from(&state.schema);
                (met.schema, own.real.schema) = (Some(name.clone()), Some(name));
            }
            Act::SetMode(mode) => {
                let mode = vec![b'0' + mode];
                state.set(b"sql_mode", &mode, &mut self.interned);
                own.session.see_settings(state);
                (met.mode, own.real.mode) = (mode.clone(), mode);
            }
            Act::Insert(number) => {
                let number = u64::from(number);
                own.session.insert_id =
                    state.see_insert(client as u32, Some(number), own.session.insert_id);
                (met.insert_id, own.real.insert_id) = (number, number);
            }
            Act::AskInsertId => prop_assert_eq!(met.insert_id, own.real.insert_id),
            Act::Plain => {}
        }
        if own.session.settings.is_none() {
            own.session.see_settings(state);
        }
        state.last_client = client as u32;
        Ok(())
    }

    fn plan(&mut self, client: usize, backend: usize, facts: &Facts) -> Plan {
        let sessions = Sessions(self.clients.iter().map(|it| &it.session).collect());
        let found = Found::default();
        let (opcode, payload) = (Opcode::Query, &b"\x03DO 1"[..]);
        let request = Request { opcode, payload, is_part: false, facts, found: &found };
        let pair = Pair {
            session: &self.clients[client].session,
            backend: &self.backends[backend].0,
            client: client as u32,
            thread_id: 70,
            is_mysql: false,
            is_mariadb: true,
            sends_several: false,
            others: &sessions,
        };
        pair.plan(&mut Known::default(), request, &mut self.interned)
    }

    /// The server does what it is told, and Flifo learns what it reports.
    fn carry_out(&mut self, client: usize, backend: usize, setup: &Setup) {
        let (state, real) = &mut self.backends[backend];
        match &setup.purpose {
            Purpose::NoSchema => real.schema = Some(HARMLESS.to_vec()),
            Purpose::Schema(name) => {
                real.schema = Some(name.to_vec());
                state.enter_schema(Some(Rc::clone(name)));
            }
            Purpose::SessionVariables(wanted, text) => {
                real.mode = wanted.get("sql_mode").expect("it is told").to_vec();
                state.set(b"sql_mode", &real.mode, &mut self.interned);
                self.interned.accept(text);
            }
            Purpose::InsertId(of, id) => {
                assert_eq!(*of as usize, client);
                real.insert_id = *id;
                (state.insert_id, state.inserter) = (OnBackend::known(*id), Some(*of));
            }
            Purpose::AskInsertId(_) => {
                let id = state.id;
                self.ask(id);
            }
            other => panic!("nothing asks for {other:?}"),
        }
    }

    /// A backend says what its last insert id is.
    fn ask(&mut self, id: u64) {
        let (state, real) = self.backends.iter_mut().find(|it| it.0.id == id).expect("it lives");
        if let Some(inserter) = state.inserter.take() {
            let own = &mut self.clients[inserter as usize].session.insert_id;
            *own = own.resolve(id, Some(real.insert_id));
        }
        state.insert_id = OnBackend::known(real.insert_id);
    }
}

proptest! {
    #[test]
    fn each_client_meets_its_own(
        steps in proptest::collection::vec((0..4_usize, 0..2_usize, act()), 1..120)
    ) {
        let mut world = World::new(4, 2);
        for (client, backend, act) in steps {
            world.step(client, backend, act)?;
        }
    }
}

//! Rules that send statements to servers, made by chance, while servers are down, paused, drained, in maintenance or full. A
//! statement runs where its rule sends it, or where the rule's fallback does, or is refused with an error that names the
//! rule; what belongs to an open transaction, and what ends it, stays where that is.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use testkit::client::Client;
use testkit::differ::random_rules::Chance;
use testkit::fake_client::{Answer, FakeClient, Refusal};
use testkit::fake_server::{Entry, FakeServer};
use testkit::flifo::Flifo;
use testkit::reply::{Reply, honest};
use testkit::scene::{PASSWORD, USER, user, wait_for};
use wire::response::Status;

/// So many connections each server takes.
const PLACES: usize = 2;

/// The first server is written to, the others are read from.
const SERVERS: usize = 3;

/// What becomes of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Up,
    /// No check has found it down yet.
    Gone,
    Down,
    Paused,
    Drained,
    Maintained,
    /// Others hold all its connections.
    Full,
}

const STATES: [State; 7] = [
    State::Up,
    State::Gone,
    State::Down,
    State::Paused,
    State::Drained,
    State::Maintained,
    State::Full,
];

impl State {
    /// Whether statements wait for it, which are not sent elsewhere.
    const fn is_waited_for(self) -> bool {
        matches!(self, Self::Paused | Self::Full)
    }

    const fn is_lost(self) -> bool {
        matches!(self, Self::Gone | Self::Down)
    }

    /// The order on the console, and what that calls the state.
    const fn order(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Paused => Some(("PAUSE", "paused")),
            Self::Drained => Some(("DRAIN", "drain")),
            Self::Maintained => Some(("DISABLE", "maintenance")),
            _ => None,
        }
    }
}

/// A rule refuses all but one statement, unless a transaction is open.
const RATED: &str = "rate = { statements = 1, within = \"1h\" }";

/// A rule that sends what has its tag to a server, or to a role.
struct Rule {
    name: String,
    is_rated: bool,
    server: Option<usize>,
    /// Beside a server, its fallback.
    role: Option<&'static str>,
}

impl Rule {
    fn route(&self) -> String {
        let server = self.server.map(|server| format!("server = \"db{}\"", server + 1));
        let name = if server.is_some() { "fallback" } else { "role" };
        let role = self.role.map(|role| format!("{name} = \"{role}\""));
        let parts: Vec<_> = server.into_iter().chain(role).collect();
        format!("{{ {} }}", parts.join(", "))
    }

    /// Whether it would have a transaction leave a reader. One with a fallback may have begun there.
    fn leaves(&self, reader: usize) -> bool {
        match self.server {
            Some(server) => server != reader && self.role.is_none(),
            None => self.role == Some("writer"),
        }
    }
}

/// Each server with each fallback, and each role, in an order of chance.
fn rules(chance: &mut Chance) -> (Vec<Rule>, String) {
    const MORE: &[&str] = &[
        "",
        "retries = 1",
        "at_once = 100",
        "share_reads = \"off\"",
        "then = \"next\"",
        RATED,
        RATED,
    ];
    let roles = [None, Some("reader"), Some("writer")];
    let servers = (0..SERVERS).flat_map(|server| roles.map(|role| (Some(server), role)));
    let mut all: Vec<_> = servers.chain([(None, roles[1]), (None, roles[2])]).collect();
    let (mut rules, mut text) = (Vec::new(), String::new());
    while !all.is_empty() {
        let (server, role) = all.swap_remove(chance.below(all.len()));
        let tag = rules.len();
        let act = chance.one_of(MORE);
        let name = format!("rule {tag} of chance");
        let rule = Rule { name, is_rated: act == RATED, server, role };
        let (name, route) = (&rule.name, rule.route());
        let _ = writeln!(
            text,
            "[[rules]]\nname = {name:?}\nroute = {route}\nmatch.tag = {{ to = \"{tag}\" }}\n{act}"
        );
        rules.push(rule);
    }
    (rules, text)
}

/// Where a statement must run.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    At(Vec<usize>),
    /// Nowhere: error 1637, which names the rule.
    Refused,
}

/// What the manual promises of a statement outside of transactions, if one server is in this state. `None`: it may go to
/// a server that takes none, or to another one.
fn place_of(rule: &Rule, fallen: usize, state: State) -> Option<Place> {
    let others = || (1..SERVERS).filter(|it| *it != fallen || state == State::Up).collect();
    let named = match (rule.server, rule.role) {
        (Some(server), _) => server,
        (None, Some("writer")) => 0,
        (None, _) if fallen != 0 && state.is_waited_for() => return None,
        (None, _) => return Some(Place::At(others())),
    };
    Some(if named != fallen || state == State::Up {
        Place::At(vec![named])
    } else if state.is_waited_for() {
        Place::Refused
    } else {
        match rule.role {
            Some("reader") => Place::At(others()),
            Some("writer") if fallen != 0 => Place::At(vec![0]),
            _ => Place::Refused,
        }
    })
}

/// Servers behind Flifo, whose rules are of chance.
struct Stage {
    servers: Vec<FakeServer>,
    rules: Vec<Rule>,
    chance: Chance,
    console: Client,
    flifo: Flifo,
    /// Numbers statements.
    next: usize,
    _folder: tempfile::TempDir,
}

/// A client in a transaction.
struct Open {
    client: FakeClient,
    home: usize,
}

impl Stage {
    fn start(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let servers: Vec<_> = (0..SERVERS).map(|_| transactional()).collect();
        let (rules, mut text) = rules(&mut chance);
        for (at, server) in servers.iter().enumerate() {
            let group = if at == 0 { "writer" } else { "readers" };
            let (number, port) = (at + 1, server.port());
            let _ = writeln!(
                text,
                "[[rules]]\nname = \"home {at}\"\nroute = {{ server = \"db{number}\" }}\n\
                 match.tag = {{ home = \"{at}\" }}\n[[servers]]\nname = \"db{number}\"\n\
                 address = \"127.0.0.1:{port}\"\ngroup = \"{group}\"\nconnections_max = {PLACES}"
            );
        }
        let folder = tempfile::tempdir().expect("a folder");
        let socket: PathBuf = folder.path().join("console.sock");
        let flifo = Flifo::start(&format!(
            "workers = 1\n[checks]\nkind = \"handshake\"\ninter = \"50ms\"\nfastinter = \"50ms\"\ndowninter = \"50ms\"\n\
             [routing]\nmode = \"split\"\nreads = \"any\"\nhold = \"1m\"\n[limits]\nwait = \"1m\"\n\
             [server]\nread_definitions = \"off\"\n[console]\nlisten = [{socket:?}]\n[http]\nlisten = []\n{text}{}",
            user("")
        ));
        let address = socket.to_str().expect("a path").parse().expect("an address");
        let console = Client::builder(address, "admin", "").connect().expect("a console");
        Self { servers, rules, chance, console, flifo, next: 0, _folder: folder }
    }

    fn client(&self) -> FakeClient {
        FakeClient::login(self.flifo.port(), USER, PASSWORD).expect("a login")
    }

    fn order(&mut self, text: &str) {
        self.console.query(text).expect("the console obeys");
    }

    /// Waits until the console calls a server's state so.
    fn wait_for(&mut self, server: usize, state: &str) {
        let text = format!("SHOW FULL SERVERS WHERE name = 'db{}'", server + 1);
        wait_for(state, || self.console.query(&text).expect("servers")[0][2] == state);
    }

    /// What Flifo's clients wait for at most: long where a statement must run.
    fn patience(&mut self, hold: &str, wait: &str) {
        self.order(&format!("SET routing.hold = '{hold}'"));
        self.order(&format!("SET limits.wait = '{wait}'"));
    }

    /// Runs a statement; tells what became of it, and at which servers it came in.
    fn run(&mut self, client: &mut FakeClient, text: &str, tag: &str) -> (Answer, Vec<usize>) {
        self.next += 1;
        let mark = format!("n={};", self.next);
        let answer = client.query(&format!("{text} /* {tag} */ /* {mark} */"));
        let came = |at: &usize| self.servers[*at].received(mark.as_bytes()) > 0;
        (answer, (0..SERVERS).filter(came).collect())
    }

    /// A transaction, open at this server.
    fn open(&mut self, home: usize) -> Open {
        let mut client = self.client();
        let (begin, text) = match home {
            0 => ("BEGIN", "UPDATE t SET a = 1"),
            _ => ("START TRANSACTION READ ONLY", "SELECT a FROM t"),
        };
        let tag = format!("home={home}");
        self.run(&mut client, begin, &tag).0.expect("it begins");
        let (answer, came) = self.run(&mut client, text, &tag);
        assert_eq!((answer, came), (Ok(Vec::new()), vec![home]), "{text}");
        Open { client, home }
    }

    /// Has a server with one open transaction be in this state. What fills it ends when the value is dropped.
    fn fall(&mut self, server: usize, state: State) -> Vec<Open> {
        if let Some((order, name)) = state.order() {
            self.order(&format!("{order} db{}", server + 1));
            self.wait_for(server, name);
        }
        if state.is_lost() {
            self.servers[server].enter(Entry::Cut(0));
            self.servers[server].hang_up();
        }
        match state {
            State::Down => self.wait_for(server, "down"),
            State::Full => return (1..PLACES).map(|_| self.open(server)).collect(),
            _ => {}
        }
        Vec::new()
    }

    fn rise(&mut self, server: usize, state: State) {
        self.servers[server].enter(Entry::Well);
        if state.order().is_some() {
            self.order(&format!("ENABLE db{}", server + 1));
        }
        self.wait_for(server, "up");
    }

    /// A statement outside of transactions.
    fn try_one(&mut self, fallen: usize, state: State) {
        let tag = self.chance.below(self.rules.len());
        let text = self.chance.one_of(&["SELECT a FROM t", "UPDATE t SET a = 1", "SHOW VARIABLES"]);
        let Some(place) = place_of(&self.rules[tag], fallen, state) else { return };
        // A write on a connection that is lost meanwhile may have run, as far as Flifo knows.
        if state == State::Gone && text.starts_with("UPDATE") {
            return;
        }
        if place == Place::Refused {
            let hold = self.chance.one_of(&["100ms", "0ms"]);
            self.patience(hold, "100ms");
        }
        let mut client = self.client();
        let (answer, came) = self.run(&mut client, text, &format!("to={tag}"));
        let what = self.told(tag, fallen, state, text);
        let is_rated = self.rules[tag].is_rated && came.is_empty();
        match place {
            _ if is_rated && matches!(answer, Err(Refusal::Error { code: 1226, .. })) => {
                self.is_named(tag, 1226, &answer, &what);
                self.patience("1m", "1m");
            }
            Place::At(places) => {
                assert_eq!(answer, Ok(Vec::new()), "{what}");
                assert!(
                    came.len() == 1 && places.contains(&came[0]),
                    "{what}: {came:?}, not {places:?}"
                );
            }
            Place::Refused => {
                assert_eq!(came, [0; 0], "{what}: {answer:?}");
                self.is_named(tag, 1637, &answer, &what);
                self.patience("1m", "1m");
            }
        }
    }

    /// A statement of a transaction for each rule, and its end.
    fn try_open(&mut self, open: Open, fallen: usize, state: State) {
        let Open { mut client, home } = open;
        let is_lost = home == fallen && state.is_lost();
        let place = format!("in a transaction at db{}", home + 1);
        for tag in 0..self.rules.len() {
            let text = self.chance.one_of(&["SELECT a FROM t", "UPDATE t SET a = 1"]);
            let (answer, came) = self.run(&mut client, text, &format!("to={tag}"));
            let what = format!("{place}: {}", self.told(tag, fallen, state, text));
            assert!(came.iter().all(|it| *it == home), "{what}: {came:?}");
            if is_lost {
                // Its client is told, and what it asks then is a new beginning.
                assert!(answer.is_err(), "{what}: {answer:?}");
                return;
            }
            if answer.is_err() {
                // It is told when a rule would have it leave a reader: see "route" in the manual.
                assert!(home != 0 && self.rules[tag].leaves(home), "{what}: {answer:?}");
                self.is_named(tag, 1235, &answer, &what);
            }
        }
        let tag = self.chance.below(self.rules.len());
        let end = self.chance.one_of(&["COMMIT", "ROLLBACK"]);
        let (answer, came) = self.run(&mut client, end, &format!("to={tag}"));
        let what = format!("{place}: {}", self.told(tag, fallen, state, end));
        assert_eq!((answer, came), (Ok(Vec::new()), vec![home]), "{what}");
    }

    /// A transaction begins on the writer, whatever rules say.
    fn try_begin(&mut self) {
        let begins: Vec<_> =
            (0..self.rules.len()).filter(|tag| !self.rules[*tag].is_rated).collect();
        let tag = format!("to={}", begins[self.chance.below(begins.len())]);
        let mut client = self.client();
        for text in ["BEGIN", "UPDATE t SET a = 1", "COMMIT"] {
            let (answer, came) = self.run(&mut client, text, &tag);
            assert_eq!(answer, Ok(Vec::new()), "{text}, {tag}");
            assert!(came.iter().all(|it| *it == 0), "{text}, {tag}: {came:?}");
        }
    }

    fn is_named(&self, tag: usize, number: u16, answer: &Answer, what: &str) {
        let Err(Refusal::Error { code, message }) = answer else { panic!("{what}: {answer:?}") };
        let name = format!("{:?}", self.rules[tag].name);
        assert!(*code == number && message.contains(&name), "{what}: {code}, {message}");
    }

    fn told(&self, tag: usize, fallen: usize, state: State, text: &str) -> String {
        let route = self.rules[tag].route();
        format!("{text:?} by a route {route}, while db{} is {state:?}", fallen + 1)
    }

    /// Servers fall and rise, one after the other.
    fn round(&mut self, fallen: usize, state: State) {
        let homes = [fallen, (fallen + 1 + self.chance.below(SERVERS - 1)) % SERVERS];
        let opened: Vec<_> = homes.into_iter().map(|home| self.open(home)).collect();
        let fillers = self.fall(fallen, state);
        for _ in 0..6 {
            self.try_one(fallen, state);
        }
        if fallen != 0 || state == State::Up {
            self.try_begin();
        }
        for open in opened {
            self.try_open(open, fallen, state);
        }
        drop(fillers);
        self.rise(fallen, state);
    }
}

/// A server that knows which of its connections are in a transaction.
fn transactional() -> FakeServer {
    const OPEN: u16 = Status::IN_TRANSACTION.0;
    let server = FakeServer::start();
    let open: Mutex<HashMap<u32, u16>> = Mutex::default();
    server.answer_each(move |connection, command| {
        let text = command.strip_prefix(b"\x03").map(String::from_utf8_lossy);
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        match text.as_deref().and_then(|text| text.split([' ', ';']).next()) {
            Some("BEGIN") => open.insert(connection, OPEN),
            Some("START") => open.insert(connection, OPEN | Status::IN_READONLY_TRANSACTION.0),
            Some("COMMIT" | "ROLLBACK") => open.remove(&connection),
            Some(_) if text.as_deref().is_some_and(|text| text.contains("n=")) => None,
            _ => return honest(command),
        };
        let more = open.get(&connection).copied().unwrap_or(0);
        Reply::Status(Status(Status::AUTOCOMMIT.0 | more))
    });
    server
}

#[test]
fn statements_that_rules_send_to_servers_run_there_or_tell_of_their_rule() {
    let mut stage = Stage::start(3);
    for server in 0..SERVERS {
        stage.wait_for(server, "up");
    }
    for state in STATES {
        let reader = 1 + stage.chance.below(SERVERS - 1);
        for fallen in [0, reader] {
            stage.round(fallen, state);
        }
    }
}

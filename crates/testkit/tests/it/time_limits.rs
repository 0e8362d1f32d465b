//! Limits of time, for all, per class and per user, before a real server: whom they end, what that client is told, and
//! what becomes of its transaction.

use std::thread;

use backend::Address;
use bench::private_server::PrivateServer;
use rustix::process::{Pid, Signal, kill_process};
use testkit::client::{Client, Problem};
use testkit::fake_client::FakeClient;
use testkit::flifo::Flifo;
use testkit::scene::wait_for;

struct Scene {
    flifo: Flifo,
    server: PrivateServer,
    folder: tempfile::TempDir,
}

/// Users of the server. Each has the password that is its name.
const USERS: [&str; 5] = ["plain", "classed", "twice", "free", "passed"];

impl Scene {
    /// All users but `passed` are pooled. `of_user`: what stands in the section of a user.
    fn start(rest: &str, of_user: impl Fn(&str) -> String) -> Self {
        Self::start_with("", rest, of_user)
    }

    /// `of_server`: further lines of its section.
    fn start_with(of_server: &str, rest: &str, of_user: impl Fn(&str) -> String) -> Self {
        let server = PrivateServer::start_default().expect("a private server");
        server
            .sql("CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY, a INT) ENGINE=InnoDB")
            .expect("a table");
        let mut users = String::new();
        for name in USERS {
            let text = format!(
                "CREATE USER {name}@'%' IDENTIFIED BY '{name}'; GRANT ALL ON *.* TO {name}@'%'"
            );
            server.sql(&text).expect("it is created");
            let mode = match name {
                "passed" => "mode = \"pass-through\"".to_owned(),
                _ => format!("password = \"{name}\""),
            };
            users += &format!("[[users]]\nname = \"{name}\"\n{mode}\n{}\n", of_user(name));
        }
        let folder = tempfile::tempdir().expect("a folder");
        let console = folder.path().join("console.sock");
        let flifo = Flifo::start(&format!(
            "[server]\naddress = \"{}\"\nlearn_passwords = \"off\"\n{of_server}\
             [console]\nlisten = [{console:?}]\n[http]\nlisten = []\n{rest}\n{users}",
            server.socket().display()
        ));
        Self { flifo, server, folder }
    }

    fn client(&self, user: &str) -> Client {
        let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: self.flifo.port() };
        Client::builder(address, user, user).connect().expect("a login")
    }

    /// A client that can be listened to without a question.
    fn listener(&self, user: &str) -> FakeClient {
        FakeClient::login(self.flifo.port(), user, user).expect("a login")
    }

    fn console(&self) -> Client {
        let address = Address::Unix(self.folder.path().join("console.sock"));
        Client::builder(address, "admin", "").connect().expect("the console")
    }

    fn counted(&self, fault: &str) -> u64 {
        let rows = self.console().query("SELECT * FROM stats").expect("counters");
        let name = format!("faults.{fault}");
        let row = rows.into_iter().find(|row| row[0] == name).expect("it is counted");
        row[1].parse().expect("a number")
    }

    /// What the server has of a row, as another connection sees it, which waits for no lock.
    fn row(&self, id: u32) -> String {
        let text = format!(
            "SET innodb_lock_wait_timeout = 0; SELECT a FROM shop.t WHERE id = {id} FOR UPDATE"
        );
        self.server.sql(&text).map(|rows| rows.trim().to_owned()).unwrap_or_default()
    }

    fn wait_for_row(&self, id: u32, value: &str) {
        wait_for("the transaction to be rolled back", || self.row(id) == value);
    }

    /// The lines of the log that name this limit.
    fn lines(&self, limit: &str) -> Vec<String> {
        let log = self.flifo.log();
        let named = format!("\"{limit}\"");
        log.lines().filter(|line| line.contains(&named)).map(ToOwned::to_owned).collect()
    }

    fn end(self) {
        let (status, log) = self.flifo.stop();
        assert!(status.success() && !log.contains("panicked"), "{log}");
    }
}

/// What a client is refused with.
fn refusal<T: std::fmt::Debug>(answer: Result<T, Problem>) -> (u16, String, String) {
    match answer {
        Err(Problem::Refused { code, sqlstate, message }) => (code, sqlstate, message),
        other => panic!("{other:?}"),
    }
}

/// What becomes of a statement that would run for minutes.
fn killed(client: &mut Client) -> String {
    let (code, sqlstate, message) = refusal(client.query("SELECT SLEEP(600)"));
    assert_eq!((code, &*sqlstate), (1969, "70100"), "{message}");
    assert!(message.contains("max_statement_time exceeded"), "as the server says it: {message}");
    message
}

#[test]
fn of_several_rules_for_a_statement_the_narrowest_counts() {
    let rules = "[limits]\nstatement = \"400ms\"\n\
        [[classes]]\nname = \"batch\"\nusers = [\"classed\", \"twice\"]\nstatement = \"none\"\n";
    let scene = Scene::start(rules, |user| {
        let own = match user {
            "twice" => "statement = \"500ms\"",
            "free" => "statement = 0",
            "passed" => "statement = \"600ms\"",
            _ => "",
        };
        own.to_owned()
    });
    let mut plain = scene.client("plain");
    assert!(killed(&mut plain).contains("it ran for 400ms (limits.statement)"));
    assert_eq!(plain.query("SELECT 'on'").unwrap(), [["on"]], "the client goes on");
    let own = "(users.twice.statement)";
    assert!(killed(&mut scene.client("twice")).contains(own));
    // Longer than what holds for all.
    for user in ["classed", "free"] {
        assert_eq!(scene.client(user).query("SELECT SLEEP(3)").unwrap(), [["0"]], "{user}");
    }
    assert_eq!(plain.query("/* class=batch */ SELECT SLEEP(3)").unwrap(), [["0"]]);
    let mut passed = scene.client("passed");
    assert!(killed(&mut passed).contains("(users.passed.statement)"));
    assert!(passed.query("SELECT 1").is_err(), "its connection is gone");

    // A transaction outlives a statement that is killed in it, as at the server.
    plain.query("BEGIN").unwrap();
    plain.query("INSERT INTO shop.t VALUES (1, 5)").unwrap();
    killed(&mut plain);
    plain.query("COMMIT").unwrap();
    assert_eq!(scene.row(1), "5");

    let lines = scene.lines("limits.statement");
    assert_eq!(lines.len(), 2, "{lines:?}");
    for part in ["\"INFO\"", "\"plain\"", "127.0.0.1:", "\"digest\":\"", "SELECT SLEEP ( ? )"] {
        let part = part.replace(' ', "").to_lowercase();
        let line = lines[0].replace(' ', "").to_lowercase();
        assert!(line.contains(&part), "{part} in {line}");
    }
    assert_eq!(scene.lines("users.twice.statement").len(), 1);
    assert_eq!(scene.counted("statement_too_long"), 4);
    scene.end();
}

/// Which option says so is asked for while the reply is being read on the statement's backend.
#[test]
fn statements_that_pass_the_limit_of_their_class_are_answered_and_leave_their_slots() {
    let rules = "[limits]\nstatement = \"none\"\n\
        [[classes]]\nname = \"batch\"\nusers = [\"classed\", \"passed\"]\nstatement = \"400ms\"\n";
    let scene = Scene::start_with("limit = 4\n", rules, |_| String::new());
    let users = ["classed", "classed", "classed", "passed"];
    let clients: Vec<_> = users.iter().map(|user| scene.client(user)).collect();
    let told = |mut client: Client| thread::spawn(move || killed(&mut client));
    for message in clients.into_iter().map(told).collect::<Vec<_>>() {
        let message = message.join().expect("it is answered");
        assert!(message.contains("it ran for 400ms (classes.batch.statement)"), "{message}");
    }
    // By its comment, from a client of another class; and all slots are free again.
    let mut plain = scene.client("plain");
    let named = refusal(plain.query("/* class=batch */ SELECT SLEEP(600)")).2;
    assert!(named.contains("(classes.batch.statement)"), "{named}");
    assert_eq!(plain.query("SELECT 'on'").unwrap(), [["on"]]);
    assert_eq!(scene.counted("statement_too_long"), 5);
    drop(plain);
    scene.end();
}

#[test]
fn a_client_that_is_idle_in_its_transaction_ends_and_loses_it() {
    let rules = "[limits]\nidle_transaction = \"1s\"\n\
        [[classes]]\nname = \"slow\"\nusers = [\"classed\"]\nidle_transaction = \"none\"\n";
    let scene = Scene::start(rules, |_| String::new());
    scene.server.sql("INSERT INTO shop.t VALUES (1, 0), (2, 0), (3, 0), (4, 0)").unwrap();
    let mut outside = scene.client("plain");
    outside.query("SELECT 1").unwrap();
    let mut unbounded = scene.client("classed");
    unbounded.query("BEGIN").unwrap();
    unbounded.query("UPDATE shop.t SET a = 1 WHERE id = 4").unwrap();
    for (id, user, begin) in
        [(1, "plain", "BEGIN"), (2, "passed", "BEGIN"), (3, "plain", "SET autocommit = 0")]
    {
        let mut client = scene.listener(user);
        client.query(begin).unwrap();
        client.query(&format!("UPDATE shop.t SET a = 1 WHERE id = {id}")).unwrap();
        assert_eq!(scene.row(id), "", "it is locked");
        let end = client.read_payload().unwrap_err();
        assert_eq!(end.code(), 4031, "{end:?}");
        assert!(format!("{end:?}").contains("(limits.idle_transaction)"), "{end:?}");
        assert!(client.is_closed());
        scene.wait_for_row(id, "0");
    }
    // What was theirs is in no transaction of theirs any more.
    for _ in 0..8 {
        assert_eq!(outside.query("SELECT @@in_transaction, @@autocommit").unwrap(), [["0", "1"]]);
    }
    unbounded.query("COMMIT").unwrap();
    assert_eq!(scene.row(4), "1");
    assert_eq!(scene.counted("idle_in_transaction"), 3);
    assert_eq!(scene.lines("limits.idle_transaction").len(), 3);
    scene.end();
}

#[test]
fn a_transaction_may_be_open_so_long() {
    let scene = Scene::start("[limits]\ntransaction = \"2s\"\n", |_| String::new());
    scene.server.sql("INSERT INTO shop.t VALUES (1, 0), (2, 0), (3, 0)").unwrap();
    // At rest, and with a statement that runs: pooled, and passed through.
    let mut idle = scene.listener("plain");
    idle.query("BEGIN").unwrap();
    idle.query("UPDATE shop.t SET a = 1 WHERE id = 1").unwrap();
    let mut busy = scene.client("plain");
    busy.query("BEGIN").unwrap();
    busy.query("UPDATE shop.t SET a = 1 WHERE id = 2").unwrap();
    assert!(killed(&mut busy).contains("its transaction was open for 2s (limits.transaction)"));
    assert!(busy.query("SELECT 1").is_err(), "its connection is gone");
    let mut passed = scene.client("passed");
    passed.query("BEGIN").unwrap();
    passed.query("UPDATE shop.t SET a = 1 WHERE id = 3").unwrap();
    assert!(killed(&mut passed).contains("(limits.transaction)"));
    let end = idle.read_payload().unwrap_err();
    assert_eq!(end.code(), 4031, "{end:?}");
    scene.wait_for_row(1, "0");
    scene.wait_for_row(2, "0");
    // Flifo cannot kill the statement; the server sees that its client is gone.
    scene.server.sql("KILL USER passed").unwrap();
    scene.wait_for_row(3, "0");

    // Many transactions, each of them short, and none of them outside of one.
    let mut chained = scene.client("plain");
    chained.query("BEGIN").unwrap();
    for _ in 0..4 {
        assert_eq!(chained.query("SELECT SLEEP(1)").unwrap(), [["0"]]);
        chained.query("COMMIT AND CHAIN").unwrap();
    }
    chained.query("COMMIT").unwrap();
    assert_eq!(scene.counted("transaction_too_long"), 3);
    scene.end();
}

#[test]
fn a_client_may_be_connected_so_long_and_ends_outside_of_a_transaction() {
    let scene = Scene::start("", |user| match user {
        "plain" | "passed" => "client_age = \"2s\"".to_owned(),
        _ => String::new(),
    });
    scene.server.sql("INSERT INTO shop.t VALUES (1, 0), (2, 0)").unwrap();
    let mut other = scene.client("free");
    for (id, user) in [(1, "plain"), (2, "passed")] {
        let mut idle = scene.listener(user);
        let end = idle.read_payload().unwrap_err();
        assert_eq!(end.code(), 4031, "{end:?}");
        assert!(format!("{end:?}").contains(&format!("(users.{user}.client_age)")), "{end:?}");
        // It is older than that, and is answered until its transaction is over.
        let mut within = scene.listener(user);
        within.query("BEGIN").unwrap();
        within.query(&format!("UPDATE shop.t SET a = 1 WHERE id = {id}")).unwrap();
        assert!(within.query("SELECT SLEEP(4)").is_ok());
        assert_eq!(within.query("COMMIT"), Ok(vec![]));
        let end = within.read_payload().unwrap_err();
        assert_eq!(end.code(), 4031, "{end:?}");
        assert_eq!(scene.row(id), "1");
        // One that hardly ever rests ends as well.
        let mut busy = scene.client(user);
        wait_for("the busy client to end", || {
            (0..20).any(|_| busy.query("SELECT SLEEP(0.05)").is_err())
        });
    }
    assert_eq!(other.query("SELECT 'on'").unwrap(), [["on"]]);
    assert_eq!(scene.counted("client_too_old"), 6);
    scene.end();
}

#[test]
fn limits_come_and_go_by_a_reload_while_clients_are_connected() {
    let scene = Scene::start("[limits]\nidle_client = \"1h\"\n", |_| String::new());
    let reload = |change: &dyn Fn(&str) -> String| {
        scene.flifo.change_configuration(change);
        let rows = scene.console().query("RELOAD").expect("a good file");
        rows.iter().map(|row| format!("{} {}", row[0], row[row.len() - 1])).collect::<Vec<_>>()
    };
    let mut within = scene.listener("plain");
    within.query("BEGIN").unwrap();
    let mut other = scene.client("twice");
    other.query("BEGIN").unwrap();
    let own = "name = \"plain\"\n";
    let told = reload(&|text| text.replace(own, &format!("{own}idle_transaction = \"1s\"\n")));
    assert_eq!(told, ["users.plain.idle_transaction now"]);
    assert_eq!(within.read_payload().unwrap_err().code(), 4031);
    assert_eq!(other.query("SELECT 'on'").unwrap(), [["on"]]);
    let (usual, limit) = ("idle_client = \"1h\"\n", "statement = \"300ms\"\n");
    let told = reload(&|text| text.replace(usual, &format!("{usual}{limit}")));
    assert_eq!(told, ["limits.statement now"]);
    killed(&mut other);
    let told = reload(&|text| text.replace(limit, ""));
    assert_eq!(told, ["limits.statement now"]);
    assert_eq!(other.query("SELECT SLEEP(2)").unwrap(), [["0"]]);
    scene.end();
}

/// A server that stands still until this is dropped.
struct Still(Pid);

impl Still {
    fn new(server: &PrivateServer) -> Self {
        let pid = server.pid().and_then(|pid| Pid::from_raw(pid.cast_signed())).expect("it runs");
        kill_process(pid, Signal::STOP).expect("it stops");
        Self(pid)
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        kill_process(self.0, Signal::CONT).expect("it goes on");
    }
}

#[test]
fn a_server_that_stands_still_does_not_keep_a_client_beyond_its_limit() {
    let scene = Scene::start("[limits]\nstatement = \"500ms\"\n", |_| String::new());
    let (mut client, mut within) = (scene.client("plain"), scene.client("plain"));
    // Each of them has a backend connection when the server stands still.
    within.query("BEGIN").unwrap();
    within.query("SELECT * FROM shop.t").unwrap();
    client.query("SELECT 1").unwrap();
    // No order reaches the server, and no answer comes from it.
    let still = Still::new(&scene.server);
    thread::scope(|scope| {
        let within = scope.spawn(|| {
            killed(&mut within);
            within.query("SELECT 1").is_err()
        });
        killed(&mut client);
        assert!(within.join().unwrap(), "it would not hear that its transaction is gone");
    });
    drop(still);
    wait_for("the client to be served again", || client.query("SELECT 'on'").is_ok());
    scene.end();
}

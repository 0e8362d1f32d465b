//! Rights follow: what a new client may do, and begins with, is what the server would let it, whoever changed it and where.
//!
//! Each change is made on a server of its own while a link of its user is idle, which a session would have gone on with.

use std::thread;
use std::time::{Duration, Instant};

use bench::private_server::PrivateServer;
use link::Address;
use testkit::client::{Client, Problem};
use testkit::flifo::Flifo;
use wire::Capabilities;

use crate::shared::{fails, ok};

/// What a client of `app` gets: the answer to a read of `d.t` and the settings that it begins with, or an error.
type Seen = Result<String, u16>;
type Expected = Result<&'static str, u16>;

const READS: &str =
    "SELECT CONCAT_WS(' ', MAX(a), @@div_precision_increment, @@max_sort_length) FROM d.t";

/// What changes rights or what sessions begin with, what a client of `app` gets behind it, and what undoes it.
const CHANGES: [(&str, Expected, &str); 10] = [
    ("REVOKE SELECT ON d.* FROM app@'%'", Err(1142), "GRANT SELECT ON d.* TO app@'%'"),
    ("REVOKE ALL, GRANT OPTION FROM app@'%'", Err(1142), "GRANT SELECT ON d.* TO app@'%'"),
    ("ALTER USER app@'%' ACCOUNT LOCK", Err(4151), "ALTER USER app@'%' ACCOUNT UNLOCK"),
    (
        "SET PASSWORD FOR app@'%' = PASSWORD('other')",
        Err(1045),
        "SET PASSWORD FOR app@'%' = PASSWORD('one')",
    ),
    ("RENAME USER app@'%' TO gone@'%'", Err(1045), "RENAME USER gone@'%' TO app@'%'"),
    (
        "DROP USER app@'%'",
        Err(1045),
        "CREATE USER app@'%' IDENTIFIED BY 'one'; GRANT SELECT ON d.* TO app@'%'",
    ),
    (
        "REVOKE SELECT ON d.* FROM app@'%'; GRANT reads TO app@'%'; SET DEFAULT ROLE reads FOR app@'%'",
        Ok("7 4 1024"),
        "REVOKE reads FROM app@'%'; GRANT SELECT ON d.* TO app@'%'",
    ),
    (
        "SET GLOBAL div_precision_increment = 7",
        Ok("7 7 1024"),
        "SET GLOBAL div_precision_increment = 4",
    ),
    ("SET @@global.max_sort_length = 99", Ok("7 4 99"), "SET GLOBAL max_sort_length = 1024"),
    (
        "SET GLOBAL init_connect = 'SET max_sort_length = 77'",
        Ok("7 4 77"),
        "SET GLOBAL init_connect = ''",
    ),
];

const UNCHANGED: Expected = Ok("7 4 1024");

struct Scene {
    server: PrivateServer,
    flifo: Flifo,
}

impl Scene {
    /// Flifo knows `app`, `admin` and `reader` by their passwords, and nobody else. `told`: what it is told of its server.
    fn start(told: &str, workers: u32) -> Self {
        let server = PrivateServer::builder().start().expect("a private server");
        server
            .sql(
                "CREATE DATABASE d; CREATE TABLE d.t (a INT); INSERT INTO d.t VALUES (7); \
                 CREATE ROLE reads; GRANT SELECT ON d.* TO reads; \
                 CREATE USER app@'%' IDENTIFIED BY 'one'; GRANT SELECT ON d.* TO app@'%'; \
                 CREATE USER reader@'%' IDENTIFIED BY 'look'; GRANT SELECT ON mysql.* TO reader@'%'; \
                 CREATE USER admin@'%' IDENTIFIED BY 'can'; CREATE USER boss@'%' IDENTIFIED BY 'can'; \
                 GRANT ALL ON *.* TO admin@'%' WITH GRANT OPTION; GRANT reads TO admin@'%' WITH ADMIN OPTION; \
                 GRANT ALL ON *.* TO boss@'%' WITH GRANT OPTION; GRANT reads TO boss@'%' WITH ADMIN OPTION",
            )
            .expect("users");
        let user = |name: &str, password: &str| {
            format!("[[users]]\nname = \"{name}\"\npassword = \"{password}\"\n")
        };
        let flifo = Flifo::start(&format!(
            "workers = {workers}\n[server]\naddress = \"{}\"\n{told}\n{}{}{}",
            server.socket().display(),
            user("app", "one"),
            user("admin", "can"),
            user("reader", "look"),
        ));
        Self { server, flifo }
    }

    fn client(&self, user: &str, password: &str) -> Result<Client, Problem> {
        let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: self.flifo.port() };
        Client::builder(address, user, password).with(Capabilities::MULTI_STATEMENTS).connect()
    }

    /// What a new client of `app` gets.
    fn sees(&self) -> Seen {
        let code = |problem: Problem| match problem {
            Problem::Refused { code, .. } => code,
            other => panic!("{other:?}"),
        };
        let mut client = self.client("app", "one").map_err(code)?;
        let rows = client.query(READS).map_err(code)?;
        Ok(rows.concat().concat())
    }

    /// All workers have links of `app` that somebody has used.
    fn use_links(&self, clients: usize) {
        let clients: Vec<_> = (0..clients).map(|_| self.sees()).collect();
        assert_eq!(clients, vec![owned(UNCHANGED); clients.len()]);
    }

    fn sql(&self, text: &str) {
        self.server.sql(text).expect(text);
    }

    fn end(self) -> impl Fn(&str) -> u64 {
        let (status, log) = self.flifo.stop();
        assert!(status.success() && !log.contains("panicked"), "{log}");
        move |name| {
            let words = log.split([' ', '"', ',']).filter_map(|word| word.split_once('='));
            let counts = words.filter(|(word, _)| *word == name);
            counts.map(|(_, count)| count.parse::<u64>().expect("a number")).sum()
        }
    }
}

fn owned(seen: Expected) -> Seen {
    seen.map(str::to_owned)
}

/// Waits until new clients get this. Longer than any promise: the machine may be busy.
#[track_caller]
fn await_seen(scene: &Scene, what: &str, expected: Expected) {
    let begun = Instant::now();
    loop {
        let seen = scene.sees();
        if seen == owned(expected) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}: {seen:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn what_is_changed_through_flifo_takes_effect_at_once() {
    // Were it not seen by itself, it would take an hour.
    let scene = Scene::start("rights_bound = \"1h\"", 2);
    for maker in ["admin", "boss"] {
        for (change, expected, undo) in CHANGES {
            scene.use_links(4);
            let mut maker = scene.client(maker, "can").expect("a login");
            ok(&mut maker, change);
            for _ in 0..4 {
                assert_eq!(scene.sees(), owned(expected), "{change}");
            }
            ok(&mut maker, undo);
            for _ in 0..4 {
                assert_eq!(scene.sees(), owned(UNCHANGED), "{undo}");
            }
        }
    }
    drop(scene.end());
}

#[test]
fn a_change_that_hides_in_another_text_is_seen() {
    let scene = Scene::start("rights_bound = \"1h\"", 2);
    let mut admin = scene.client("admin", "can").expect("a login");
    for text in [
        "DO 1; REVOKE SELECT ON d.* FROM app@'%'",
        "/* why */ REVOKE SELECT ON d.* FROM app@'%'",
        "EXECUTE IMMEDIATE 'REVOKE SELECT ON d.* FROM app@\"%\"'",
        "PREPARE s FROM 'REVOKE SELECT ON d.* FROM app@\"%\"'; EXECUTE s",
        "SET STATEMENT max_statement_time = 9 FOR REVOKE SELECT ON d.* FROM app@'%'",
        "DELETE FROM mysql.db WHERE User = 'app'; FLUSH PRIVILEGES",
    ] {
        scene.use_links(4);
        ok(&mut admin, text);
        assert_eq!(scene.sees(), Err(1142), "{text}");
        ok(&mut admin, "GRANT SELECT ON d.* TO app@'%'");
    }
    drop(admin);
    drop(scene.end());
}

#[test]
fn what_is_changed_elsewhere_is_watched() {
    let scene = Scene::start("accounts_user = \"reader\"\nrights_bound = \"1h\"", 2);
    let begun = Instant::now();
    while !scene.flifo.log().contains("within two seconds") {
        assert!(begun.elapsed() < Duration::from_secs(30), "{}", scene.flifo.log());
        thread::sleep(Duration::from_millis(20));
    }
    // The tables are seen to change before the server reads them.
    let by_hand = "DELETE FROM mysql.db WHERE User = 'app'; DO SLEEP(2.5); FLUSH PRIVILEGES";
    let by_hand = (by_hand, Err(1142), "GRANT SELECT ON d.* TO app@'%'");
    for (change, expected, undo) in CHANGES.into_iter().chain([by_hand]) {
        scene.use_links(4);
        scene.sql(change);
        await_seen(&scene, change, expected);
        scene.sql(undo);
        await_seen(&scene, undo, UNCHANGED);
    }
    drop(scene.end());
}

#[test]
fn what_nobody_watches_takes_effect_within_the_bound() {
    let scene = Scene::start("rights_bound = \"5s\"", 1);
    for (change, expected, undo) in [CHANGES[0], CHANGES[2]] {
        scene.use_links(2);
        scene.sql(change);
        // Used all the while, so that no link is old because it rests.
        await_seen(&scene, change, expected);
        scene.sql(undo);
        await_seen(&scene, undo, UNCHANGED);
    }
    drop(scene.end());
}

#[test]
fn a_client_that_keeps_its_link_keeps_it() {
    let scene = Scene::start("accounts_user = \"reader\"\nrights_bound = \"5s\"", 1);
    let mut admin = scene.client("admin", "can").expect("a login");
    ok(&mut admin, "GRANT CREATE TEMPORARY TABLES, INSERT ON d.* TO app@'%'");
    let mut pinned = scene.client("app", "one").expect("a login");
    ok(&mut pinned, "CREATE TEMPORARY TABLE d.mine AS SELECT 5 AS a");
    let mut open = scene.client("app", "one").expect("a login");
    ok(&mut open, "BEGIN");
    ok(&mut open, "INSERT INTO d.t VALUES (3)");
    ok(&mut admin, "SET GLOBAL div_precision_increment = 5");
    ok(&mut admin, "FLUSH PRIVILEGES");
    scene.sql("SET GLOBAL div_precision_increment = 4; ALTER USER app@'%' ACCOUNT LOCK");
    await_seen(&scene, "ACCOUNT LOCK", Err(4151));
    assert_eq!(ok(&mut pinned, "SELECT a FROM d.mine"), "5");
    assert_eq!(ok(&mut open, "SELECT MIN(a) FROM d.t"), "3");
    ok(&mut open, "COMMIT");
    ok(&mut admin, "ALTER USER app@'%' ACCOUNT UNLOCK");
    assert_eq!(scene.sees(), owned(UNCHANGED));
    assert_eq!(ok(&mut pinned, "SELECT a FROM d.mine"), "5");
    drop((pinned, open, admin));
    drop(scene.end());
}

/// A client without rights costs no other user its links; one with some, only those that it names.
#[test]
fn a_change_costs_no_other_user_its_links() {
    let scene = Scene::start("rights_bound = \"1h\"", 1);
    let mut admin = scene.client("admin", "can").expect("a login");
    ok(&mut admin, "DO 1");
    scene.use_links(1);
    let mut app = scene.client("app", "one").expect("a login");
    for (text, code) in [
        ("GRANT ALL ON *.* TO app@'%'", 1045),
        ("FLUSH PRIVILEGES", 1227),
        ("SET GLOBAL max_sort_length = 99", 1227),
        ("DROP USER admin@'%'", 1227),
    ] {
        assert_eq!(fails(&mut app, text), code, "{text}");
    }
    assert_eq!(ok(&mut app, READS), "7 4 1024");
    for text in [
        "CREATE USER other@'%'",
        "GRANT SELECT ON d.* TO other@'%'",
        "SET PASSWORD FOR other@'%' = PASSWORD('x')",
        "DROP USER other@'%'",
    ] {
        ok(&mut admin, text);
        assert_eq!(scene.sees(), owned(UNCHANGED));
    }
    drop((app, admin));
    // One of `app`, and of `admin` the one that each of its changes has closed.
    assert!(scene.end()("links_opened") <= 1 + 5);
}

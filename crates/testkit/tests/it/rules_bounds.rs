//! Rules that bound a statement's time and its wait, that have it logged, that keep or share a client's backend
//! connection, and that run a lost read again; in front of real servers.

use std::path::Path;
use std::thread;

use backend::Address;
use testkit::client::{Client, Problem};
use testkit::fake_client::FakeClient;
use testkit::scene::wait_for;

use crate::reload::{Scene, code, user};

const RULES: &str = r#"
[[rules]]
name = "a moment"
statement_time = "300ms"
match.tag = { time = "short" }
[[rules]]
name = "a while"
statement_time = "1h"
match.tag = { time = "%" }
[[rules]]
name = "impatient"
queue_timeout = "1ms"
match.tag = { wait = "no" }
[[rules]]
name = "one an hour"
rate = { statements = 1, within = "1h", per = "user" }
match.tag = { rated = "%" }
[[rules]]
name = "never"
refuse = true
match.tag = { refused = "%" }
[[rules]]
name = "one"
at_once = 1
match.tag = { at_once = "1" }
[[rules]]
name = "kept"
connection = "keep"
match.tag = { connection = "keep" }
[[rules]]
name = "shared"
connection = "share"
match.tag = { connection = "share" }
[[rules]]
name = "again"
retries = 1
match.tag = { again = "yes" }
[[rules]]
name = "never again"
retries = 0
match.tag = { again = "no" }
"#;

fn start() -> Scene {
    let scene = Scene::start("workers = 1", &(user("app", "") + RULES));
    scene
        .server
        .sql("CREATE DATABASE test; CREATE TABLE test.t (v INT); INSERT INTO test.t VALUES (7)")
        .expect("a table");
    scene
}

fn told(answer: Result<Vec<Vec<String>>, Problem>) -> (u16, String) {
    let problem = answer.expect_err("an error");
    (code(&problem).unwrap_or_default(), problem.to_string())
}

/// The server's numbers of the connections that run such a statement.
fn running(scene: &Scene, text: &str) -> Vec<String> {
    let asked = format!(
        "SELECT id FROM information_schema.processlist WHERE info LIKE '{text}%' AND info NOT LIKE '%processlist%'"
    );
    let rows = scene.server.sql(&asked).expect("a list");
    rows.lines().filter(|line| line.parse::<u64>().is_ok()).map(str::to_owned).collect()
}

#[test]
fn a_statement_ends_in_the_time_of_its_rule() {
    let scene = start();
    // One is pooled, and goes on; the other passed through, and loses its connection.
    for (name, goes_on) in [("app", true), ("report", false)] {
        let mut client = scene.client(name).expect("a login");
        let (code, why) = told(client.query("SELECT SLEEP(600) /* time=short */"));
        assert_eq!(code, 1969, "{why}");
        assert!(why.contains("statement_time of the rule \"a moment\""), "{why}");
        assert_eq!(client.query("SELECT 1").is_ok(), goes_on);
    }
    let mut client = FakeClient::login(scene.flifo.port(), "app", "app's").expect("a login");
    let id = client.prepare("SELECT SLEEP(600) /* time=short */").expect("prepared");
    let execute = [&[0x17][..], &id.to_le_bytes(), b"\0\x01\0\0\0"].concat();
    assert_eq!(client.command(&execute).map_err(|refusal| refusal.code()), Err(1969));
    assert_eq!(client.query("SELECT 1"), Ok(vec![b"1".to_vec()]));
    // A limit that is longer than another one bounds nothing.
    scene.console().query("SET limits.statement = '400ms'").expect("an option");
    let mut client = scene.client("app").expect("a login");
    let (code, why) = told(client.query("SELECT SLEEP(600) /* time=long */"));
    assert!(code == 1969 && why.contains("limits.statement"), "{why}");
    scene.end();
}

#[test]
fn what_belongs_to_an_open_transaction_is_not_refused_for_its_rate_and_its_end_by_no_rule() {
    let scene = start();
    for name in ["app", "report"] {
        let mut client = scene.client(name).expect("a login");
        client.query("SELECT 1 /* rated=1 */").expect("the first one of the hour");
        assert_eq!(told(client.query("SELECT 1 /* rated=1 */")).0, 1226, "{name}");
        for end in ["COMMIT", "ROLLBACK WORK"] {
            client.query("BEGIN").expect("a transaction");
            client.query("SELECT 1").expect("the server knows of it");
            client.query("SELECT 2 /* rated=1 */").expect("it is part of the transaction");
            assert_eq!(told(client.query("SELECT 3 /* refused=1 */")).0, 1227, "{name}");
            let both = format!("{end}; SELECT 4 /* refused=1 */");
            assert_ne!(told(client.query(&both)).0, 0, "{name}: it does more than to end it");
            client.query(&format!("{end} /* rated=1 refused=1 */")).expect("the end");
            assert_eq!(told(client.query(&format!("{end} /* refused=1 */"))).0, 1227, "{name}");
        }
        assert_eq!(told(client.query("SELECT 1 /* rated=1 */")).0, 1226, "{name}");
        for (held, released) in [
            ("SELECT GET_LOCK('rules', 0)", &["DO RELEASE_LOCK('rules')"][..]),
            ("LOCK TABLES test.t READ", &["UNLOCK TABLES"]),
            ("XA START 'rules'", &["XA END 'rules'", "XA ROLLBACK 'rules'"]),
        ] {
            client.query(held).expect(held);
            // Of a client that is passed through, Flifo knows transactions alone.
            let within = client.query("DO 2 /* rated=1 */");
            let is_known = name == "app" || held.starts_with("XA");
            assert_eq!(within.is_ok(), is_known, "{name}, {held}: {within:?}");
            assert_eq!(told(client.query("DO 3 /* refused=1 */")).0, 1227, "{held}");
            for text in released {
                client.query(&format!("{text} /* rated=1 refused=1 */")).expect(text);
            }
        }
    }
    scene.end();
}

#[test]
fn a_statement_waits_no_longer_than_its_rule_lets_it() {
    let scene = start();
    scene.console().query("SET server.parking = 'off'").expect("an option");
    scene.console().query("SET server.borrow = false").ok();
    scene.console().query("SET server.limit = 1").expect("an option");
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let mut client = scene.client("app").expect("a login");
            let begun = "SELECT SLEEP(600) /* time=long at_once=1 */";
            client.query(begun).map_err(|problem| problem.to_string())
        });
        wait_for("the statement to run", || !running(&scene, "SELECT SLEEP").is_empty());
        let mut client = scene.client("app").expect("a login");
        for text in ["SELECT 1 /* wait=no */", "SELECT 1 /* wait=no at_once=1 */"] {
            let (code, why) = told(client.query(text));
            assert_eq!(code, 1637, "{text}: {why}");
            assert!(why.contains("queue_timeout of the rule \"impatient\""), "{text}: {why}");
        }
        for id in running(&scene, "SELECT SLEEP") {
            scene.server.sql(&format!("KILL QUERY {id}")).expect("it ends");
        }
        let why = sleeper.join().expect("no panic").expect_err("it is killed");
        assert!(why.contains("1317"), "{why}");
        let answer = |client: &mut Client| client.query("SELECT 1 /* at_once=1 */");
        assert_eq!(answer(&mut client).expect("there is room"), [["1"]]);
    });
    scene.end();
}

#[test]
fn a_client_keeps_its_connection_until_a_rule_shares_it() {
    let scene = start();
    // What the console shows may be a moment old.
    let await_pins = |reason: &str, count: &str| {
        let asked = format!("SELECT now FROM pins WHERE pin = '{reason}'");
        wait_for("the pin to be counted", || {
            scene.console().query(&asked).expect("reasons")[0][0] == count
        });
    };
    let await_backends = |count: &str| {
        let asked = "SELECT COUNT(*) FROM clients WHERE backend IS NOT NULL";
        wait_for("so many connections to be kept", || {
            scene.console().query(asked).expect("clients")[0][0] == count
        });
    };
    let mut client = scene.client("app").expect("a login");
    let mut other = scene.client("app").expect("a login");
    client.query("SELECT 1").unwrap();
    other.query("SELECT 1").unwrap();
    await_backends("0");
    client.query("SET time_zone = '+03:00' /* connection=keep */").unwrap();
    other.query("SELECT 1").unwrap();
    await_pins("rule", "1");
    await_backends("1");
    client.query("SELECT 1 /* connection=share */").unwrap();
    await_pins("rule", "0");
    await_backends("0");
    // What it has set while it kept it goes along, and stays with it alone.
    for _ in 0..5 {
        assert_eq!(client.query("SELECT @@time_zone").unwrap(), [["+03:00"]]);
        assert_eq!(other.query("SELECT @@time_zone").unwrap(), [["SYSTEM"]]);
    }
    // What else keeps it goes on to do so.
    client.query("SELECT 1 /* connection=keep */").unwrap();
    client.query("CREATE TEMPORARY TABLE test.own (v INT)").unwrap();
    client.query("SELECT 1 /* connection=share */").unwrap();
    for _ in 0..5 {
        other.query("SELECT 1").unwrap();
        assert_eq!(client.query("SELECT COUNT(*) FROM test.own").unwrap(), [["0"]]);
    }
    await_pins("temporary_table", "1");
    await_pins("rule", "0");
    await_backends("1");
    scene.end();
}

#[test]
fn a_read_whose_connection_is_lost_runs_again_as_often_as_its_rule_says() {
    let scene = start();
    let address = Address::Unix(scene.server.socket().to_owned());
    let mut locker = Client::builder(address, "app", "app's").connect().expect("a login");
    let mut lost = |text: &str, kills: usize| {
        locker.query("LOCK TABLES test.t WRITE").expect("a lock");
        let answer = thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut client = scene.client("app").expect("a login");
                let answer = client.query(text).map_err(|problem| problem.to_string());
                (answer, client.query("SELECT 1").is_ok())
            });
            let mut killed: Vec<String> = Vec::new();
            for _ in 0..kills {
                let (begun, mut new) = (&text[..20], Vec::new());
                wait_for("the statement to run", || {
                    new = running(&scene, begun);
                    new.retain(|id| !killed.contains(id));
                    !new.is_empty()
                });
                scene.server.sql(&format!("KILL {}", new[0])).expect("it ends");
                killed.extend(new);
            }
            wait_for("all that was killed to be gone", || {
                running(&scene, &text[..20]).iter().all(|id| !killed.contains(id))
            });
            locker.query("UNLOCK TABLES").expect("no lock");
            reader.join().expect("no panic")
        });
        assert!(answer.1, "the client goes on");
        answer.0
    };
    let seven = Ok(vec![vec!["7".to_owned()]]);
    assert_eq!(lost("SELECT v FROM test.t /* again=yes */", 1), seven);
    for (text, kills) in [
        ("SELECT v FROM test.t /* again=yes */", 2),
        ("SELECT v FROM test.t /* again=no */", 1),
        ("SELECT v FROM test.t /* no rule */", 1),
        ("INSERT INTO test.t VALUES (8) /* again=yes */", 1),
    ] {
        let why = lost(text, kills).expect_err(text);
        assert!(why.contains("1430"), "{text}: {why}");
    }
    let count = scene.server.sql("SELECT COUNT(*) FROM test.t").expect("a count");
    assert!(count.trim().ends_with('1'), "a write is never run again: {count}");
    scene.end();
}

#[test]
fn logs_have_what_rules_tell() {
    let folder = tempfile::tempdir().expect("a folder");
    let (slow, audit) = (folder.path().join("slow.log"), folder.path().join("audit.log"));
    let logs = format!(
        "[logs.slow]\nfile = {slow:?}\nthreshold = \"1h\"\n[logs.audit]\nfile = {audit:?}\nkinds = [\"logins\"]\n\
         [[rules]]\nname = \"told\"\nlog = [\"slow\", \"audit\"]\nmatch.tag = {{ log = \"yes\" }}\n"
    );
    let scene = Scene::start("", &(logs + &user("app", "")));
    let has =
        |file: &Path, text: &str| std::fs::read_to_string(file).is_ok_and(|log| log.contains(text));
    for name in ["app", "report"] {
        let mut client = scene.client(name).expect("a login");
        client.query(&format!("SELECT 'quiet {name}'")).unwrap();
        client.query(&format!("SELECT 'loud {name}' /* log=yes */")).unwrap();
        client.query("SELECT 'after'").unwrap();
        let loud = format!("loud {name}");
        wait_for("the slow log to have it", || has(&slow, "SELECT ?") || has(&slow, &loud));
        wait_for("the audit log to have it", || has(&audit, &loud));
    }
    let entries = std::fs::read_to_string(&audit).expect("a log");
    assert_eq!(entries.matches("\"event\":\"statement\"").count(), 2, "{entries}");
    assert!(!entries.contains("quiet") && !entries.contains("after"), "{entries}");
    let entries = std::fs::read_to_string(&slow).expect("a log");
    assert_eq!(entries.matches("# User@Host").count(), 2, "{entries}");
    scene.end();
}

#[test]
fn the_demo_shows_rules_at_work() {
    let output = std::process::Command::new(testkit::flifo::program())
        .args(["demo", "--rules"])
        .output()
        .expect("it runs");
    let (told, why) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{why}");
    for text in [
        "0.80 EUR",
        "ERROR 1104 (42000) at line 1: name the products that you want to see",
        "SELECT COUNT(*) FROM orders_2020\n        4\n",
        "SHOW RULES",
        "| prices are in euros now ",
        "| old orders lie in the archive ",
    ] {
        assert!(told.contains(text), "{text}: {told}\n{why}");
    }
}

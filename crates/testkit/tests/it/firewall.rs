//! A rule's firewall learns what an application asks, then tells or refuses what is something else.

use std::path::Path;

use testkit::client::{Client, Problem};
use testkit::fake_client::FakeClient;
use testkit::scene::wait_for;

use crate::reload::{Scene, code, user};

fn rule(mode: &str, file: &Path) -> String {
    format!(
        "[[rules]]\nname = \"shop\"\nfirewall = {{ mode = \"{mode}\", file = {file:?} }}\n\
         match.user = [\"app\", \"report\"]\n"
    )
}

/// What the application does, with other values each time.
fn work(client: &mut Client, id: u32) {
    for text in [
        format!("SELECT v FROM t WHERE id = {id}"),
        format!("INSERT INTO t (v) VALUES ({id}), ({id})"),
        format!("SELECT v FROM t WHERE name = 'n{id}' AND secret = 's{id}'"),
        "BEGIN; SELECT 1; COMMIT".to_owned(),
    ] {
        client.query(&text).unwrap_or_else(|problem| panic!("{text}: {problem:?}"));
    }
}

fn refused(answer: Result<Vec<Vec<String>>, Problem>) -> u16 {
    code(&answer.expect_err("it is refused")).expect("a number")
}

/// What is smuggled into it, and how that shows.
const INJECTED: &[(&str, &str)] = &[
    ("SELECT v FROM t WHERE id = 1 OR 1 = 1", "\"OR\" stands behind a literal"),
    ("SELECT v FROM t WHERE id = 1 UNION SELECT 7", "\"UNION\" stands behind a literal"),
    ("SELECT v FROM t WHERE name = 'admin' -- ' AND secret = ''", "ends behind a literal"),
];

fn connect(scene: &Scene, user: &str) -> Client {
    let address = backend::Address::Tcp { host: "127.0.0.1".to_owned(), port: scene.flifo.port() };
    let client = Client::builder(address, user, &format!("{user}'s")).schema("s");
    client.with(wire::Capabilities::MULTI_STATEMENTS).connect().expect("a login")
}

#[test]
fn a_firewall_learns_detects_and_protects() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("shop.forms");
    let scene = Scene::start("", &(user("app", "") + &rule("learn", &file)));
    scene
        .server
        .sql(
            "CREATE DATABASE s; CREATE TABLE s.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT, \
             name VARCHAR(9), secret VARCHAR(9)); INSERT INTO s.t (v) VALUES (7)",
        )
        .unwrap();
    // One is pooled, the other passed through.
    let mut clients = ["app", "report"].map(|user| connect(&scene, user));
    for _ in 0..2 {
        clients.iter_mut().for_each(|client| work(client, 3));
    }
    let lines = || std::fs::read_to_string(&file).unwrap_or_default();
    wait_for("what was learnt to be kept", || lines().lines().count() == 4);
    assert!(lines().contains("INSERT INTO t ( v ) VALUES ( ? )\n"), "{}", lines());

    scene.reload(|text| text.replace("\"learn\"", "\"detect\""));
    for client in &mut clients {
        work(client, 4);
        INJECTED.iter().for_each(|(text, _)| drop(client.query(text).expect("it runs")));
    }
    let mut console = scene.console();
    let told = console.query("SELECT times, sign, form FROM strangers").unwrap();
    assert_eq!(told.len(), INJECTED.len(), "{told:?}");
    for (_, sign) in INJECTED {
        assert!(told.iter().any(|row| row[0] == "2" && row[1].contains(sign)), "{sign}: {told:?}");
    }
    assert!(scene.flifo.log().contains("does not know a statement"), "{}", scene.flifo.log());

    scene.reload(|text| text.replace("\"detect\"", "\"protect\""));
    for client in &mut clients {
        work(client, 5);
        for (text, sign) in INJECTED {
            let Err(Problem::Refused { code, message, .. }) = client.query(text) else {
                panic!("{text} has run")
            };
            assert_eq!(code, 1227, "{text}");
            assert!(message.contains("\"shop\"") && message.contains(sign), "{message}");
        }
        for hidden in [
            "PREPARE s FROM 'DROP TABLE t'",
            "EXECUTE IMMEDIATE CONCAT('DROP', ' TABLE t')",
            "SELECT v FROM t WHERE id = 1 /*!50000 OR 1 = 1 */",
            "SELECT v FROM t WHERE id = 'x",
        ] {
            assert_eq!(refused(client.query(hidden)), 1227, "{hidden}");
        }
        work(client, 6);
    }
    let mut prepares = FakeClient::login(scene.flifo.port(), "app", "app's").unwrap();
    assert_eq!(prepares.query("USE s").unwrap_err().code(), 1227);
    assert_eq!(prepares.prepare("SELECT v FROM s.t WHERE id = ?").unwrap_err().code(), 1227);
    let known = prepares.prepare("SELECT v FROM t WHERE id = ?");
    assert_eq!(known.unwrap_err().code(), 1046, "the server says that no schema is selected");
    let explain = |console: &mut Client, text: &str| {
        console.query(&format!("EXPLAIN RULES FOR '{text}' USER 'app'")).unwrap()[0][3].clone()
    };
    let known = explain(&mut console, "SELECT v FROM t WHERE id = 77");
    assert!(known.ends_with("its form is known"), "{known}");
    let strange = explain(&mut console, "SELECT v FROM t WHERE id = 77 OR 1");
    assert!(strange.contains("\"OR\" stands behind a literal"), "{strange}");
    let rows = console.query("SELECT rule, mode, forms FROM firewalls").unwrap();
    assert_eq!(rows, [["shop", "protect", "4"]]);

    // What an operator writes into the file is known without a reload by hand.
    let more = format!("# by hand\n{}SELECT VERSION ( )\n", lines());
    std::fs::write(&file, more).unwrap();
    wait_for("the file to be read again", || clients[0].query("SELECT VERSION()").is_ok());
    std::fs::remove_file(&file).unwrap();
    clients[0].query("SELECT VERSION()").expect("what is in force stays");
    scene.end();
}

#[test]
fn a_firewall_without_its_file_does_not_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("none");
    let checked = |mode: &str| {
        let text = format!("[server]\naddress = \"/tmp/none.sock\"\n{}", rule(mode, &file));
        let path = folder.path().join("flifo.toml");
        std::fs::write(&path, text).unwrap();
        let done = std::process::Command::new(testkit::flifo::program())
            .arg("check-config")
            .arg(&path)
            .output()
            .expect("it runs");
        (
            done.status.success(),
            String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned(),
        )
    };
    assert!(checked("learn").0);
    let (is_good, told) = checked("protect");
    assert!(
        !is_good && told.contains("cannot be read") && told.contains("rules.firewall.file"),
        "{told}"
    );
    let (is_good, told) = checked("forget");
    assert!(!is_good && told.contains("\"learn\", \"detect\" or \"protect\""), "{told}");
}

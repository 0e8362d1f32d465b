//! What is set on the console: it is in force as if the file said so, until the file is read again.

use testkit::client::Problem;
use testkit::scene::wait_for;

use crate::reload::{Scene, code, pair, user};

/// What the console answers.
fn said(scene: &Scene, text: &str) -> String {
    match scene.console().query(text) {
        Ok(mut rows) => rows.swap_remove(0).swap_remove(0),
        Err(Problem::Refused { message, .. }) => message,
        Err(problem) => panic!("{text}: {problem}"),
    }
}

#[test]
fn options_are_set_until_the_file_is_read_again() {
    let scene = Scene::start("clients_max = 100", &user("app", ""));
    let shown = |name: &str| scene.shown(name).unwrap()[1..].to_vec();
    assert_eq!(said(&scene, "SET clients_max = 1"), "clients_max: 100 -> 1 (now)");
    assert_eq!(shown("clients_max"), ["1", "10000", "console"]);
    let client = scene.client("app").expect("one");
    assert_eq!(code(&scene.client("app").err().unwrap()), Some(1040), "clients_max");
    assert_eq!(said(&scene, "SET LIMITS.wait TO 7s"), "limits.wait: \"5m\" -> \"7s\" (now)");
    assert_eq!(said(&scene, "SET clients_max = DEFAULT"), "clients_max: 1 -> 100 (now)");
    assert_eq!(shown("clients_max"), ["100", "10000", "file"]);
    assert_eq!(shown("limits.wait"), ["\"7s\"", "\"10s\"", "console"], "the other one stays");
    assert_eq!(said(&scene, "SET limits.wait = '7s'"), "limits.wait: no change");
    // The file has changed, and nothing of it is in force by a SET.
    scene.flifo.change_configuration(|text| text.replace("clients_max = 100", "clients_max = 50"));
    let told = said(&scene, "SET limits.idle_client = none");
    assert_eq!(told, "limits.idle_client: \"8h\" -> \"none\" (now)");
    assert_eq!(shown("clients_max"), ["100", "10000", "file"]);
    // By a reload, all that the file says is in force, and no more.
    let told = scene.reload(str::to_owned);
    let expected = ["clients_max", "limits.wait", "limits.idle_client"].map(|it| pair(it, "now"));
    assert_eq!(told, expected);
    assert_eq!(shown("limits.wait"), ["\"5m\"", "\"10s\"", "file"]);
    assert_eq!(shown("limits.idle_client"), ["\"8h\"", "\"8h\"", "default"]);
    said(&scene, "SET server.limit = 3");
    assert_eq!(shown("server.limit")[2], "console");
    assert!(scene.reload(str::to_owned).is_empty());
    assert_eq!(shown("server.limit")[2], "default");
    drop(client);
    scene.end();
}

#[test]
fn what_cannot_be_set_changes_nothing_and_says_why() {
    let scene = Scene::start("clients_max = 100", &user("app", ""));
    for (text, why) in [
        ("SET clients_max = 0", "console: clients_max: out of range"),
        ("SET clients_max = many", "console: clients_max: a text cannot stand here"),
        ("SET limits.wait = 5", "its unit"),
        ("SET limits.weit = 5s", "did you mean limits.wait?"),
        (
            "SET workers = 1",
            "workers is set when Flifo is started: each client lives in one worker",
        ),
        ("SET hardening.sandbox = off", "what a process has given up"),
        ("SET server.accounts_user = nemo", "is not among [[users]]"),
        ("SET tls.cert = '/nowhere'", "tls.key is missing"),
        ("SET users.app.clients_mux = 5", "did you mean users.clients_max?"),
        ("SET users.nemo.clients_max = 5", "there is no such option"),
        ("SET nothing = DEFAULT", "nothing was not set on the console"),
    ] {
        let told = said(&scene, text);
        assert!(told.contains(why), "{text}: {told}");
    }
    assert!(scene.reload(str::to_owned).is_empty(), "nothing has changed");
    scene.end();
}

#[test]
fn secrets_lists_and_members_of_lists_are_set() {
    let file = "[logs]\naudit.file = \"audit\"\n";
    let folder = tempfile::tempdir().unwrap();
    let audit = folder.path().join("audit");
    let file = file.replace("\"audit\"", &format!("{audit:?}"));
    let scene = Scene::start("", &format!("{file}{}", user("app", "")));
    let shown = |name: &str| scene.shown(name).unwrap()[1..].to_vec();
    assert_eq!(shown("http.token"), ["not set", "NULL", "default"]);
    assert_eq!(said(&scene, "SET http.token = 'hunter2'"), "http.token: not set -> set (now)");
    assert_eq!(shown("http.token"), ["set", "NULL", "console"]);
    wait_for("the entry", || std::fs::read_to_string(&audit).unwrap().contains("http.token"));
    let (audit, log) = (std::fs::read_to_string(&audit).unwrap(), scene.flifo.log());
    assert!(!audit.contains("hunter2") && !log.contains("hunter2"), "{audit}{log}");
    let told = said(&scene, "SET users.app.clients_max = 1");
    assert_eq!(told, "users.app.clients_max: \"none\" -> 1 (now)");
    let client = scene.client("app").expect("one");
    assert_eq!(code(&scene.client("app").err().unwrap()), Some(1226), "clients_max");
    said(&scene, "SET users.app.clients_max = DEFAULT");
    let more = scene.client("app").expect("more");
    said(&scene, "SET proxy_protocol.from = \"['10.0.0.0/8', '10.1.0.0/16']\"");
    assert_eq!(shown("proxy_protocol.from")[0], "[\"10.0.0.0/8\", \"10.1.0.0/16\"]");
    said(&scene, "SET proxy_protocol.from = '10.0.0.0/8'");
    assert_eq!(shown("proxy_protocol.from")[0], "[\"10.0.0.0/8\"]");
    drop((client, more));
    scene.end();
}

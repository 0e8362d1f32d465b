//! What Flifo says of itself while it runs: that it is ready, which logins it refuses, in which form.

use bench::private_server::PrivateServer;
use serde_json::Value;
use testkit::cluster::Cluster;
use testkit::fake_client::FakeClient;
use testkit::fake_server::FakeServer;
use testkit::flifo::Flifo;
use testkit::scene::{USER, configuration, user, wait_for};

use crate::cluster;

/// All lines with this text, as objects.
fn lines(flifo: &Flifo, message: &str) -> Vec<Value> {
    let log = flifo.log();
    let all = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    all.filter(|line| line["message"].as_str().is_some_and(|it| it.contains(message))).collect()
}

#[test]
fn one_line_says_that_flifo_is_ready_and_which_server_is_for_what() {
    let servers = Cluster::replicated(1);
    let flifo = cluster::flifo(&servers, "");
    wait_for("the line", || !lines(&flifo, "Flifo is ready").is_empty());
    let said = lines(&flifo, "Flifo is ready");
    let [line] = &said[..] else { panic!("{said:?}") };
    let [writer, reader] = [0, 1].map(|at: usize| servers.servers[at].port());
    assert_eq!(
        line["servers"],
        format!("db1 127.0.0.1:{writer}: writer, db2 127.0.0.1:{reader}: reader"),
        "{line}"
    );
    let clients = format!("127.0.0.1:{}", flifo.port());
    assert!(line["clients"].as_str().is_some_and(|it| it.starts_with(&clients)), "{line}");
    assert!(line["version"].is_string() && line["level"] == "INFO", "{line}");
}

#[test]
fn a_second_writer_and_a_reader_that_is_left_out_are_warned_of() {
    let servers = Cluster::replicated(1);
    let flifo = cluster::flifo(&servers, "[routing]\nlag_max = \"1s\"\n");
    wait_for("the line", || !lines(&flifo, "Flifo is ready").is_empty());
    let reader = &servers.servers[1];
    let warned = |text: &str| {
        let said = lines(&flifo, text);
        said.iter().any(|line| line["server"] == "db2" && line["level"] == "WARN")
    };
    let log = flifo.log();
    assert!(!log.contains("two servers of a cluster can be written to"), "only one can: {log}");
    reader.sql("SET GLOBAL read_only = 0").expect("it is set");
    wait_for("the warning", || warned("two servers of a cluster can be written to"));
    reader.sql("SET GLOBAL read_only = 1").expect("it is set");
    wait_for("it to be used again", || !lines(&flifo, "a server is read from again").is_empty());
    assert!(!warned("a server is not read from"), "{}", flifo.log());
    reader.sql("STOP SLAVE SQL_THREAD").expect("it is stopped");
    servers.servers[0].sql("CREATE DATABASE behind").expect("it is written");
    wait_for("the other warning", || warned("a server is not read from"));
}

#[test]
fn a_server_that_an_operator_takes_out_is_no_error_and_one_that_is_gone_is() {
    let mut watched = cluster::Watched::start(Cluster::replicated(1), "");
    wait_for("the line", || !lines(&watched.flifo, "Flifo is ready").is_empty());
    watched.console.query("DISABLE db2").expect("an order");
    let changed = |watched: &cluster::Watched| {
        let said = lines(&watched.flifo, "a server has changed");
        said.into_iter().find(|line| line["state"] == "maintenance")
    };
    wait_for("the order to be told", || changed(&watched).is_some());
    assert_eq!(changed(&watched).expect("a line")["level"], "INFO");
    watched.console.query("ENABLE db2").expect("an order");
    let up = "SELECT name FROM servers WHERE name = 'db2' AND state = 'up'";
    wait_for("it to be up", || watched.console.query(up).is_ok_and(|rows| rows.len() == 1));
    watched.cluster.servers[1].kill().expect("it ends");
    wait_for("its end to be told", || !lines(&watched.flifo, "a server is down").is_empty());
    let line = &lines(&watched.flifo, "a server is down")[0];
    assert_eq!((&line["level"], &line["server"]), (&"ERROR".into(), &"db2".into()), "{line}");
    assert!(line["reason"].as_str().is_some_and(|it| !it.is_empty()), "{line}");
}

#[test]
fn what_keeps_flifo_from_being_ready_is_said() {
    // Servers are looked at, and one that is not there is found to be down.
    let mut server = PrivateServer::start_default().expect("a private server");
    server.stop().expect("it stops");
    let listed =
        format!("[[servers]]\nname = \"db1\"\naddress = \"127.0.0.1:{}\"\n", server.port());
    let (name, password) = (PrivateServer::USER, server.password());
    let flifo = Flifo::start(&format!(
        "workers = 1\n{listed}[[users]]\nname = \"{name}\"\npassword = \"{password}\"\n"
    ));
    wait_for("the line", || !lines(&flifo, "Flifo is not ready yet").is_empty());
    let line = &lines(&flifo, "Flifo is not ready yet")[0];
    assert_eq!(line["level"], "WARN", "{line}");
    assert!(
        line["servers"].as_str().is_some_and(|it| it.contains("db1: not used: down")),
        "{line}"
    );
    server.start().expect("it starts");
    wait_for("the other line", || !lines(&flifo, "Flifo is ready").is_empty());
    assert_eq!(lines(&flifo, "Flifo is not ready yet").len(), 1);
}

#[test]
fn a_refused_login_is_named_with_its_user_address_and_reason() {
    let server = FakeServer::start();
    let flifo = Flifo::start(&configuration(server.port(), "workers = 1", &user("")));
    let mut client = FakeClient::connect(flifo.port());
    let from = client.port();
    client.log_in(USER, "a wrong password").expect_err("it is refused");
    wait_for("the line", || !lines(&flifo, "a login was refused").is_empty());
    let line = &lines(&flifo, "a login was refused")[0];
    assert_eq!((&line["level"], &line["user"]), (&"INFO".into(), &USER.into()), "{line}");
    assert_eq!(line["address"], format!("127.0.0.1:{from}"), "{line}");
    assert!(line["kind"].as_str().is_some_and(|it| it.ends_with("(1045)")), "{line}");
    assert!(line["reason"].as_str().is_some_and(|it| it.contains("denied")), "{line}");
    let log = flifo.log();
    assert!(!log.contains("a wrong password"), "{log}");
}

#[test]
fn a_storm_of_refusals_is_counted_in_one_line() {
    const STORM: u64 = 500;
    let server = FakeServer::start();
    let flifo =
        Flifo::start(&configuration(server.port(), "workers = 1\nclients_max = 1", &user("")));
    let _client = {
        // The one that looked whether Flifo greets may still have its place.
        let mut in_it = None;
        wait_for("the only place", || {
            in_it = FakeClient::login(flifo.port(), USER, testkit::scene::PASSWORD).ok();
            in_it.is_some()
        });
        in_it
    };
    let before = lines(&flifo, "a login was refused").len();
    for _ in 0..STORM {
        assert_eq!(FakeClient::connect(flifo.port()).read_greeting().unwrap_err().code(), 1040);
    }
    let said = || lines(&flifo, "a login was refused");
    let is_summary = |line: &&Value| line["more"].is_u64();
    let counted = || {
        let said = said();
        let more = said.iter().filter_map(|line| line["more"].as_u64()).sum::<u64>();
        let single = said.iter().filter(|line| !is_summary(line)).count() as u64;
        (single, more)
    };
    wait_for("all to be counted", || {
        let (single, more) = counted();
        single + more >= STORM + before as u64
    });
    let said = said();
    let summary = said.iter().find(is_summary).expect("a summary");
    let text = summary["message"].as_str().expect("a text");
    assert!(text.starts_with("… and ") && text.contains(" more of this kind in "), "{text}");
    assert!(text.contains("too_many_clients (1040)"), "{text}");
}

#[test]
fn a_log_is_text_without_colours_unless_objects_are_asked_for() {
    let server = FakeServer::start();
    let rest = format!("[logs]\nformat = \"text\"\n{}", user(""));
    let flifo = Flifo::start(&configuration(server.port(), "workers = 1", &rest));
    wait_for("a line", || flifo.log().contains(" INFO Flifo is ready version=\""));
    let log = flifo.log();
    assert!(!log.contains('\x1b') && !log.contains('{'), "{log}");
}

//! What the configuration gives a client's session to begin with: the version in the greeting, a schema, and the
//! variables of `init_connect`.

use backend::Address;
use bench::private_server::PrivateServer;
use testkit::client::{Client, Problem};
use testkit::fake_client::FakeClient;
use testkit::flifo::Flifo;
use wire::auth::Plugin;

struct Scene {
    flifo: Flifo,
    server: PrivateServer,
    folder: tempfile::TempDir,
}

impl Scene {
    /// `server`: what stands in its section; users `app` and `report` exist at the server, with a schema `shop`.
    fn start(server_options: &str, rest: &str) -> Self {
        let server = PrivateServer::start_default().expect("a private server");
        server.sql("CREATE DATABASE shop; CREATE DATABASE other").expect("schemas");
        server.sql("CREATE TABLE shop.t (a INT) ENGINE=InnoDB").expect("a table");
        for name in ["app", "report"] {
            let text = format!(
                "CREATE USER {name}@'%' IDENTIFIED BY '{name}'; GRANT ALL ON *.* TO {name}@'%'"
            );
            server.sql(&text).expect("it is created");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let console = folder.path().join("console.sock");
        let flifo = Flifo::start(&format!(
            "[server]\naddress = \"{}\"\nlearn_passwords = \"off\"\n{server_options}\n\
             [console]\nlisten = [{console:?}]\n[http]\nlisten = []\n{rest}",
            server.socket().display()
        ));
        Self { flifo, server, folder }
    }

    fn address(&self) -> Address {
        Address::Tcp { host: "127.0.0.1".to_owned(), port: self.flifo.port() }
    }

    fn client(&self, user: &str) -> Client {
        Client::builder(self.address(), user, user).connect().expect("a login")
    }

    fn direct(&self, user: &str) -> Client {
        let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: self.server.port() };
        Client::builder(address, user, user).connect().expect("a login")
    }

    fn reload(&self, change: impl Fn(&str) -> String) -> Vec<String> {
        self.flifo.change_configuration(change);
        let address = Address::Unix(self.folder.path().join("console.sock"));
        let mut console = Client::builder(address, "admin", "").connect().expect("the console");
        let rows = console.query("RELOAD").expect("a good file");
        rows.iter().map(|row| format!("{} {}", row[0], row[row.len() - 1])).collect()
    }

    fn end(self) {
        let (status, log) = self.flifo.stop();
        assert!(status.success() && !log.contains("panicked"), "{log}");
    }
}

fn user(name: &str, more: &str) -> String {
    format!("[[users]]\nname = \"{name}\"\npassword = \"{name}\"\n{more}\n")
}

fn code<T: std::fmt::Debug>(answer: Result<T, Problem>) -> u16 {
    match answer {
        Err(Problem::Refused { code, .. }) => code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn clients_are_told_the_version_that_the_configuration_names() {
    let scene = Scene::start("version = \"8.0.36-here\"", &user("app", ""));
    let told = || {
        let greeting = FakeClient::connect(scene.flifo.port()).read_greeting().expect("a greeting");
        String::from_utf8(greeting.version).expect("text")
    };
    assert_eq!(told(), "8.0.36-here");
    let mut client = scene.client("app");
    let version = client.query("SELECT VERSION()").unwrap()[0][0].clone();
    assert!(version.contains("MariaDB"), "it is the server that answers: {version}");
    let changed = scene.reload(|text| text.replace("version = \"8.0.36-here\"", ""));
    assert_eq!(changed, ["server.version for new connections"]);
    assert!(told().ends_with(&version), "the server's own: {}", told());
    scene.end();
}

#[test]
fn a_client_that_names_no_schema_is_in_its_users() {
    let carried = "[[users]]\nname = \"report\"\nmode = \"pass-through\"\nschema = \"shop\"\n";
    let rest = format!("{}{carried}", user("app", "schema = \"shop\""));
    let scene = Scene::start("", &rest);
    for name in ["app", "report"] {
        let mut client = scene.client(name);
        assert_eq!(client.query("SELECT DATABASE()").unwrap(), [["shop"]], "{name}");
        let builder = Client::builder(scene.address(), name, name).schema("other");
        let mut named = builder.connect().expect("a login");
        assert_eq!(named.query("SELECT DATABASE()").unwrap(), [["other"]], "{name}");
    }
    let mut client = scene.client("app");
    client.query("USE other").unwrap();
    for name in ["app", "report"] {
        client.change_user(name, name, &Plugin::NativePassword).expect("it is right");
        assert_eq!(client.query("SELECT DATABASE()").unwrap(), [["shop"]], "{name}");
    }
    let told = scene.reload(|text| text.replacen("schema = \"shop\"", "schema = \"gone\"", 1));
    assert_eq!(told, ["users.app.schema for new connections"]);
    let refused = Client::builder(scene.address(), "app", "app").connect();
    assert_eq!(code(refused.map(|_| ())), 1049);
    scene.end();
}

/// What sessions differ in, as a client sees it.
const VARIABLES: &str = "SELECT @@sql_mode, @@time_zone, @@autocommit, @@character_set_client, \
    @@character_set_results, @@character_set_connection, @@collation_connection, @@sql_select_limit";

#[test]
fn a_session_begins_as_if_its_client_had_run_init_connect() {
    for init in [
        "SET sql_mode = 'ANSI', time_zone = '+05:00'",
        "SET NAMES latin1",
        "SET NAMES utf8mb4 COLLATE utf8mb4_bin, sql_mode = 'NO_BACKSLASH_ESCAPES'",
        "SET @@sql_select_limit = 5, autocommit = 0",
        "SET character_set_results = NULL, collation_connection = utf8mb4_polish_ci",
    ] {
        let options = format!("connections_max = 2\nlimit = 2\ninit_connect = \"{init}\"");
        let rest = format!("{}{}", user("app", ""), user("report", "init_connect = \"\""));
        let scene = Scene::start(&options, &rest);
        let mut direct = scene.direct("app");
        direct.query(init).unwrap();
        let expected = direct.query(VARIABLES).unwrap();
        let mut plain = scene.direct("report");
        let usual = plain.query(VARIABLES).unwrap();
        assert_ne!(expected, usual, "{init}");
        // More clients than backends, some of which set something of their own.
        let mut clients: Vec<_> = (0..6).map(|_| scene.client("app")).collect();
        let mut others: Vec<_> = (0..2).map(|_| scene.client("report")).collect();
        for turn in 0..3 {
            for (at, client) in clients.iter_mut().enumerate() {
                assert_eq!(client.query(VARIABLES).unwrap(), expected, "{init}: {at}, {turn}");
                client.query("COMMIT").unwrap();
            }
            for other in &mut others {
                assert_eq!(other.query(VARIABLES).unwrap(), usual, "{init}");
            }
        }
        clients[0].query("SET time_zone = '+01:00'").unwrap();
        clients[0].query("COMMIT").unwrap();
        assert_eq!(clients[1].query(VARIABLES).unwrap(), expected, "{init}");
        assert_eq!(clients[0].query("SELECT @@time_zone").unwrap(), [["+01:00"]]);
        scene.end();
    }
}

#[test]
fn the_first_command_is_read_as_the_session_has_begun() {
    let init = "SET sql_mode = 'NO_BACKSLASH_ESCAPES', autocommit = 0";
    let scene = Scene::start(&format!("init_connect = \"{init}\""), &user("app", ""));
    assert_eq!(scene.client("app").query(r"SELECT 'a\', '\'").unwrap(), [[r"a\", r"\"]]);
    // What a client does first is in a transaction: another connection does not see it before its end.
    let count = || scene.server.sql("SELECT COUNT(*) FROM shop.t").unwrap().trim().to_owned();
    let mut first = scene.client("app");
    first.query("INSERT INTO shop.t VALUES (1)").unwrap();
    assert_eq!(count(), "0");
    first.query("COMMIT").unwrap();
    assert_eq!(count(), "1");
    // A transaction that was begun before the server heard of its client.
    let mut begun = scene.client("app");
    begun.query("BEGIN").unwrap();
    begun.query("INSERT INTO shop.t VALUES (2)").unwrap();
    begun.query("ROLLBACK").unwrap();
    assert_eq!(count(), "1");
    // A statement that is prepared first, and a schema at the login.
    let mut prepares = FakeClient::login(scene.flifo.port(), "app", "app").expect("a login");
    let id = prepares.prepare("SELECT @@sql_mode").expect("it is prepared");
    let execute = [&[0x17], &id.to_le_bytes()[..], &[0, 1, 0, 0, 0]].concat();
    let row = prepares.command(&execute).expect("a row");
    assert_eq!(row, [b"NO_BACKSLASH_ESCAPES".to_vec()]);
    let mut named =
        Client::builder(scene.address(), "app", "app").schema("shop").connect().expect("a login");
    assert_eq!(named.query("SELECT DATABASE(), @@autocommit").unwrap(), [["shop", "0"]]);
    // As at the server, what resets the session ends it.
    assert_eq!(prepares.query("ROLLBACK"), Ok(vec![]));
    assert_eq!(prepares.command(b"\x1f"), Ok(vec![]));
    assert_eq!(prepares.query("SELECT @@autocommit").unwrap(), [b"1".to_vec()]);
    scene.end();
}

#[test]
fn an_init_connect_that_fails_is_told_to_its_clients_alone() {
    let rest = format!(
        "{}{}",
        user("app", "init_connect = \"SET sql_mode = 'ANSI', time_zone = 'Nowhere/None'\""),
        user("report", "")
    );
    let scene = Scene::start("", &rest);
    let mut usual = scene.client("report");
    let mode = usual.query("SELECT @@sql_mode").unwrap();
    let mut client = scene.client("app");
    for _ in 0..3 {
        assert_eq!(code(client.query("SELECT 1")), 1298, "the server's own error");
    }
    assert!(scene.flifo.log().contains("init_connect failed"));
    assert_eq!(usual.query("SELECT @@sql_mode").unwrap(), mode);
    let told = scene.reload(|text| text.replace(", time_zone = 'Nowhere/None'", ""));
    assert_eq!(told, ["users.app.init_connect for new connections"]);
    let mut later = scene.client("app");
    let ansi = later.query("SELECT @@sql_mode").unwrap();
    assert!(ansi[0][0].contains("ANSI_QUOTES"), "{ansi:?}");
    assert_eq!(code(client.query("SELECT 1")), 1298, "it has connected before");
    scene.end();
}

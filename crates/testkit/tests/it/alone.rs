//! Servers that report no changes of session state: a pooled user's client is alone on its backend there, and the next
//! client finds nothing of it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use testkit::client::Client;
use testkit::fake_client::FakeClient;
use testkit::fake_server::{Brand, FakeServer};
use testkit::reply::{Reply, honest};
use testkit::scene::{PASSWORD, Scene, USER, row, user, wait_for};

/// What a session of the server has.
#[derive(Clone, Debug, Default)]
struct State {
    variable: Option<String>,
    mode: bool,
    manual: bool,
    table: bool,
    statement: bool,
    lock: bool,
    schema: String,
}

/// What `COM_RESET_CONNECTION` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resets {
    /// The session begins anew.
    All,
    /// User variables stay.
    AllButVariables,
    /// The command is unknown.
    Nothing,
}

/// A server of another make: it keeps sessions as a server does, and says nothing of them.
#[derive(Default)]
struct Sessions(Mutex<HashMap<u32, State>>);

impl Sessions {
    fn answer(&self, resets: Resets, number: u32, command: &[u8]) -> Reply {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let state = sessions.entry(number).or_default();
        let (opcode, body) = command.split_first().unwrap_or((&0, b""));
        let text = String::from_utf8_lossy(body);
        match opcode {
            0x1f if resets == Resets::Nothing => Reply::Err(1047, "Unknown command"),
            0x1f => {
                let variable = state.variable.take().filter(|_| resets != Resets::All);
                *state = State { variable, schema: state.schema.clone(), ..State::default() };
                Reply::Ok
            }
            0x02 if text == "nowhere" => Reply::Err(1049, "Unknown database 'nowhere'"),
            0x02 => {
                state.schema = text.into_owned();
                Reply::Ok
            }
            0x03 => Self::query(state, &text).unwrap_or_else(|| honest(command)),
            _ => honest(command),
        }
    }

    fn query(state: &mut State, text: &str) -> Option<Reply> {
        let flag = |is: bool| Reply::row(if is { "1" } else { "0" });
        let refused = || Reply::Err(1146, "it is not there");
        Some(match text {
            _ if text.starts_with("SHOW SESSION VARIABLES") => {
                let pairs = [["sql_mode", "STRICT"], ["autocommit", "ON"]];
                Reply::Table(pairs.map(|pair| pair.map(Some).to_vec()).to_vec())
            }
            _ if text.starts_with("SELECT @@session.") => {
                let mode = if state.mode { "ANSI_QUOTES" } else { "STRICT" };
                let manual = if state.manual { "0" } else { "1" };
                let values = text["SELECT ".len()..].split(',').map(|name| match name {
                    "@@session.sql_mode" => mode,
                    "@@session.autocommit" => manual,
                    _ => "",
                });
                Reply::Table(vec![values.map(Some).collect()])
            }
            "SET ROLE NONE" => Reply::Err(1064, "no roles"),
            _ if text.starts_with("SELECT SCHEMA_NAME") => Reply::row("shop"),
            _ if text.starts_with("SET @") => {
                state.variable = text.split("= ").nth(1).map(str::to_owned);
                Reply::Ok
            }
            "SELECT @flifo_trial IS NULL" => flag(state.variable.is_none()),
            "SELECT @a" => Reply::row(state.variable.as_deref().unwrap_or("none")),
            "SELECT DATABASE()" => Reply::row(&state.schema),
            _ if text.starts_with("CREATE TEMPORARY") => {
                state.table = true;
                Reply::Ok
            }
            _ if text.starts_with("SELECT COUNT(*) FROM `shop`") && state.table => Reply::row("0"),
            _ if text.starts_with("SELECT COUNT(*) FROM `shop`") => refused(),
            _ if text.starts_with("PREPARE") => {
                state.statement = true;
                Reply::Ok
            }
            "EXECUTE flifo_trial" if state.statement => Reply::row("7"),
            "EXECUTE flifo_trial" => refused(),
            _ if text.starts_with("SELECT GET_LOCK") => {
                state.lock = true;
                Reply::row("1")
            }
            _ if text.starts_with("SELECT IS_FREE_LOCK") => flag(!state.lock),
            "SET SESSION sql_mode = 'ANSI_QUOTES'" => {
                state.mode = true;
                Reply::Ok
            }
            "SELECT @@SESSION.sql_mode LIKE '%ANSI_QUOTES%'" => flag(state.mode),
            "SET SESSION autocommit = 0" => {
                state.manual = true;
                Reply::Ok
            }
            "SELECT @@SESSION.autocommit" => flag(!state.manual),
            _ => return None,
        })
    }
}

fn stage(resets: Resets) -> Scene {
    let (server, sessions) = (FakeServer::start_as(Brand::Silent), Sessions::default());
    server.answer_each(move |number, command| sessions.answer(resets, number, command));
    let scene =
        Scene::start_before(server, "workers = 1", &format!("connections_max = 2\n{}", user("")));
    // The first client has left.
    wait_for("the trial of a reset", || scene.server.received(b"SET SESSION autocommit = 0") > 0);
    scene
}

/// A client leaves, and its backend is reset or closed.
fn leave(scene: &Scene, client: FakeClient) {
    let (open, resets) = (scene.server.open(), scene.server.received(b"\x1f"));
    drop(client);
    wait_for("the backend connection to be free or closed", || {
        scene.server.open() < open || scene.server.received(b"\x1f") > resets
    });
}

fn client_in(scene: &Scene, schema: &str) -> Result<Client, testkit::client::Problem> {
    let address = format!("127.0.0.1:{}", scene.flifo.port()).parse().expect("an address");
    Client::builder(address, USER, PASSWORD).schema(schema).connect()
}

#[test]
fn each_client_has_a_session_of_its_own_and_leaves_nothing() {
    for resets in [Resets::All, Resets::AllButVariables, Resets::Nothing] {
        let scene = stage(resets);
        let mut first = scene.client();
        let mut second = scene.client();
        assert!(first.query("SET @a = 5").is_ok() && second.query("SET @a = 6").is_ok());
        for _ in 0..3 {
            assert_eq!(first.query("SELECT @a"), row("5"), "{resets:?}");
            assert_eq!(second.query("SELECT @a"), row("6"), "{resets:?}");
        }
        leave(&scene, first);
        leave(&scene, second);
        let opened = scene.server.opened();
        for round in 0..4 {
            let mut next = scene.client();
            assert_eq!(next.query("SELECT @a"), row("none"), "{resets:?}, round {round}");
            assert!(next.query("SET @a = 7").is_ok());
            leave(&scene, next);
        }
        // Only where a reset is known to leave nothing, a backend has a second client.
        let more = scene.server.opened() - opened;
        match resets {
            Resets::All => assert!(more < 2, "{more}"),
            Resets::AllButVariables | Resets::Nothing => assert_eq!(more, 4, "{resets:?}"),
        }
        let log = scene.end_with_log();
        assert!(log.contains("pins.unreported="), "{log}");
    }
}

#[test]
fn what_a_client_asks_goes_to_its_server_as_it_is() {
    let scene = stage(Resets::All);
    let mut client = scene.client();
    assert!(client.query("BEGIN").is_ok());
    assert_eq!(scene.server.received(b"\x03BEGIN"), 1, "Flifo answers nothing itself");
    assert_eq!(client.query("SELECT 1"), row("1"));
    assert!(client.query("COMMIT").is_ok());
    // No counts, warnings or ids are put in the place of calls.
    for text in ["SELECT ROW_COUNT()", "SELECT LAST_INSERT_ID()", "SELECT FOUND_ROWS()"] {
        assert_eq!(client.query(text), row(&text["SELECT ".len()..]));
    }
    // Prepared statements have the server's own ids.
    let text = "SELECT 12345";
    assert_eq!(client.prepare(text).expect("an id") as usize, text.len());
    let id = (text.len() as u32).to_le_bytes();
    let execute = [&[0x17][..], &id, &[0, 1, 0, 0, 0]].concat();
    assert!(client.command(&execute).is_ok());
    // Its own reset is the server's, on the same backend.
    assert!(client.query("SET @a = 5").is_ok());
    assert!(client.command(b"\x1f").is_ok());
    assert_eq!(client.query("SELECT @a"), row("none"));
    drop(client);
    let mut named = client_in(&scene, "shop").expect("a login");
    assert_eq!(named.query("SELECT DATABASE()").expect("a row"), [["shop"]]);
    assert!(client_in(&scene, "nowhere").is_err());
    drop(named);
    scene.end();
}

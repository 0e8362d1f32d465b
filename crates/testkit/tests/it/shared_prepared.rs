//! Prepared statements of clients that share one backend: each client's mean what they meant when it prepared them, and
//! none keeps the backend for longer than the server keeps something for it.

use std::sync::atomic::Ordering::SeqCst;

use bench::private_server::PrivateServer;
use testkit::fake_client::{FakeClient, Refusal};
use testkit::flifo::Flifo;
use testkit::reply::{Reply, honest};
use testkit::scene::{Scene, row, wait_for};

use crate::shared::{Shared, USER, ok, server};

/// `COM_STMT_*` for a statement, with this behind its id.
fn about(command: u8, id: u32, rest: &[u8]) -> Vec<u8> {
    [&[command][..], &id.to_le_bytes(), rest].concat()
}

/// An execute without parameters.
fn execute(id: u32) -> Vec<u8> {
    about(0x17, id, b"\0\x01\0\0\0")
}

/// The id that means the statement prepared last.
const LAST: u32 = u32::MAX;

fn client(port: u16, schema: &str) -> FakeClient {
    let mut client = FakeClient::login(port, USER, server().password()).expect("a login");
    client.query(&format!("USE {schema}")).expect("the schema");
    client
}

fn value(text: &str) -> Result<Vec<Vec<u8>>, Refusal> {
    Ok(vec![text.as_bytes().to_vec()])
}

#[test]
fn a_text_means_what_it_meant_when_it_was_prepared() {
    let shared = Shared::start("prepared_meaning");
    let mut noise = shared.client();
    ok(&mut noise, "CREATE TABLE t (a VARCHAR(9))");
    ok(&mut noise, "INSERT INTO t VALUES ('row')");
    ok(&mut noise, "CREATE DATABASE prepared_meaning_other");
    let text = "SELECT \"a\" FROM t";
    for port in [server().port(), shared.flifo.port()] {
        let mut client = client(port, "prepared_meaning");
        let letter = client.prepare(text).expect("prepared");
        client.query("SET sql_mode='ANSI_QUOTES'").expect("set");
        let column = client.prepare(text).expect("prepared");
        client.query("USE prepared_meaning_other").expect("another schema");
        for _ in 0..2 {
            assert_eq!(client.command(&execute(letter)), value("a"), "port {port}");
            assert_eq!(client.command(&execute(column)), value("row"), "port {port}");
            // The session is as the client has set it, whatever its statements needed.
            assert_eq!(client.query("SELECT @@sql_mode"), value("ANSI_QUOTES"));
            assert_eq!(client.query("SELECT DATABASE()"), value("prepared_meaning_other"));
        }
        // Another client's backend is as new.
        drop(client);
        ok(&mut noise, "SELECT \"a\"");
    }
    // The server goes to the other schema and back, and says no more than that something may have changed.
    let counted = shared.end();
    assert_eq!((counted("pins."), counted("pins.state")), (1, 1));
}

#[test]
fn the_statement_prepared_last_is_the_clients_own() {
    let shared = Shared::start("prepared_last");
    let mut other = client(shared.flifo.port(), "prepared_last");
    for port in [server().port(), shared.flifo.port()] {
        let mut client = client(port, "prepared_last");
        let unknown = client.command(&execute(LAST)).unwrap_err();
        assert_eq!(unknown.code(), 1243, "none was prepared: {unknown:?}");
        let first = client.prepare("SELECT 'first'").expect("prepared");
        other.prepare("SELECT 'other'").expect("prepared");
        assert_eq!(client.command(&execute(LAST)), value("first"));
        // A text that cannot be prepared is none, and the one before it is not the last any more.
        assert_eq!(client.prepare("SELECT nonsense FROM").unwrap_err().code(), 1064);
        let seen = client.command(&execute(LAST));
        assert_eq!(seen.map_err(|it| it.code()), Err(1243), "port {port}");
        assert_eq!(client.command(&execute(first)), value("first"));
        let closed = client.prepare("SELECT 'closed'").expect("prepared");
        client.send_packet(0, &about(0x19, closed, b""));
        let seen = client.command(&execute(LAST));
        assert_eq!(seen.map_err(|it| it.code()), Err(1243), "port {port}");
    }
    drop(other);
    assert_eq!(shared.end()("pins."), 0);
}

/// An execute with one parameter, a text; `types`: with its type.
fn execute_text(id: u32, text: &[u8], types: bool) -> Vec<u8> {
    let mut rest = b"\0\x01\0\0\0\0".to_vec();
    rest.extend_from_slice(if types { &[1, 0xfd, 0] } else { &[0] });
    wire::bytes::Write::put_lenenc_bytes(&mut rest, text);
    about(0x17, id, &rest)
}

#[test]
fn the_collation_of_a_login_outlives_a_reset() {
    const UNICODE: u8 = 224;
    let shared = Shared::start("prepared_collation");
    for port in [server().port(), shared.flifo.port()] {
        let mut client = FakeClient::connect(port);
        let greeting = client.read_greeting().expect("a greeting");
        let mut login = FakeClient::login_payload(&greeting, USER, server().password());
        // Behind capabilities and the longest packet.
        login[8] = UNICODE;
        client.send_packet(1, &login);
        client.read_answer().expect("a login");
        for _ in 0..2 {
            let id = client.prepare("SELECT COLLATION(?)").expect("prepared");
            let answer = client.command(&execute_text(id, b"a", true));
            assert_eq!(answer, value("utf8mb4_unicode_ci"), "port {port}");
            // What a lock leaves there is gone with a reset.
            client.query("SELECT GET_LOCK('prepared_collation', 0)").expect("a lock");
            client.command(&[0x1f]).expect("a reset");
        }
    }
}

/// A piece of the only parameter.
fn piece(id: u32, text: &[u8]) -> Vec<u8> {
    about(0x18, id, &[b"\0\0", text].concat())
}

#[test]
fn a_cursor_keeps_the_backend_until_its_rows_are_fetched() {
    let shared = Shared::start("prepared_cursor");
    for port in [server().port(), shared.flifo.port()] {
        let mut client = client(port, "prepared_cursor");
        let id = client.prepare("VALUES ('1'), ('2'), ('3')").expect("prepared");
        let none = client.command(&about(0x1c, id, b"\x02\0\0\0")).unwrap_err();
        assert_eq!(none.code(), 1421, "no cursor is open: {none:?}");
        for end in ["fetched", "reset", "closed"] {
            assert_eq!(open(&mut client, id), 1, "{end}: definitions of columns and nothing more");
            let fetched = fetch(&mut client, id, 2);
            assert_eq!(fetched, 2);
            let is_proxy = port == shared.flifo.port();
            assert!(!is_proxy || !shared.is_free(), "{end}: rows are left");
            match end {
                "fetched" => assert_eq!(fetch(&mut client, id, 9), 1),
                "reset" => assert_eq!(client.command(&about(0x1a, id, b"")), Ok(vec![])),
                _ => client.send_packet(0, &about(0x19, id, b"")),
            }
            // The answer comes behind that of what has none.
            client.query("DO 1").expect("an answer");
            assert!(!is_proxy || shared.is_free(), "{end}: nothing is left");
        }
    }
    let counted = shared.end();
    assert_eq!(counted("pins.cursor"), 3);
    assert_eq!(counted("backends_reset"), 0);
}

/// Executes with a cursor. The answer is how many columns it has.
fn open(client: &mut FakeClient, id: u32) -> u8 {
    client.send_packet(0, &about(0x17, id, b"\x01\x01\0\0\0"));
    let columns = client.read_payload().expect("a count")[0];
    // They end, and nothing comes behind that.
    for _ in 0..=columns {
        client.read_payload().expect("a definition");
    }
    columns
}

/// Fetches rows. The answer is how many came.
fn fetch(client: &mut FakeClient, id: u32, rows: u8) -> usize {
    client.send_packet(0, &about(0x1c, id, &[rows, 0, 0, 0]));
    let mut count = 0;
    while client.read_payload().expect("a row").first() != Some(&0xfe) {
        count += 1;
    }
    count
}

#[test]
fn a_parameter_in_pieces_keeps_the_backend_until_it_is_used() {
    let shared = Shared::start("prepared_pieces");
    for port in [server().port(), shared.flifo.port()] {
        let is_proxy = port == shared.flifo.port();
        let mut client = client(port, "prepared_pieces");
        let id = client.prepare("SELECT CONCAT('<', ?, '>')").expect("prepared");
        let other = client.prepare("SELECT CONCAT('<', ?, '>')").expect("prepared");
        for round in 0..2 {
            client.send_packet(0, &piece(id, b"lo"));
            client.send_packet(0, &piece(id, b"ng"));
            // The same text, and not the same statement.
            assert_eq!(client.command(&execute_text(other, b"x", round == 0)), value("<x>"));
            assert!(!is_proxy || !shared.is_free(), "a piece is there");
            let with_pieces = about(0x17, id, b"\0\x01\0\0\0\0\x01\xfd\0");
            assert_eq!(client.command(&with_pieces), value("<long>"), "port {port}");
            assert!(!is_proxy || shared.is_free(), "it was used");
            assert_eq!(client.command(&execute_text(id, b"y", false)), value("<y>"));
            client.send_packet(0, &piece(id, b"forgotten"));
            assert_eq!(client.command(&about(0x1a, id, b"")), Ok(vec![]));
            assert_eq!(client.command(&execute_text(id, b"z", false)), value("<z>"));
            assert!(!is_proxy || shared.is_free(), "it was forgotten");
        }
    }
    assert_eq!(shared.end()("pins.long_data"), 4);
}

#[test]
fn what_is_set_while_a_cursor_is_open_is_learnt() {
    let shared = Shared::start("prepared_cursor_sets");
    let look = "SELECT CONCAT_WS(' ', @@sql_mode, @@collation_connection)";
    let mut noise = shared.client();
    let mut client = client(shared.flifo.port(), "prepared_cursor_sets");
    let rows = client.prepare("SELECT 1 UNION SELECT 2 UNION SELECT 3").expect("prepared");
    let text = client.prepare("SELECT CONCAT('<', ?, '>')").expect("prepared");
    for is_cursor in [true, false] {
        client.query("SET NAMES utf8mb4, sql_mode = ''").expect("set");
        if is_cursor {
            open(&mut client, rows);
        } else {
            client.send_packet(0, &piece(text, b"long"));
        }
        // The backend is kept; what Flifo does not ask it now will be unknown when the backend is given back.
        client.query("SET @@sql_mode = 'ANSI_QUOTES'").expect("set");
        client.query("SET NAMES latin1 COLLATE latin1_bin").expect("set");
        assert!(!shared.is_free(), "for as long as the server keeps something");
        let id = if is_cursor { rows } else { text };
        assert_eq!(client.command(&about(0x1a, id, b"")), Ok(vec![]));
        ok(&mut noise, "SELECT 1");
        assert_eq!(client.query(look), value("ANSI_QUOTES latin1_bin"), "cursor: {is_cursor}");
        assert_ne!(ok(&mut noise, look), "ANSI_QUOTES latin1_bin");
    }
}

#[test]
fn a_piece_of_no_parameter_spoils_a_statement_until_it_is_reset() {
    let shared = Shared::start("prepared_spoilt");
    for port in [server().port(), shared.flifo.port()] {
        let is_proxy = port == shared.flifo.port();
        let mut client = client(port, "prepared_spoilt");
        let id = client.prepare("SELECT CONCAT('<', ?, '>')").expect("prepared");
        for _ in 0..2 {
            client.send_packet(0, &about(0x18, id, b"\x09\0bee"));
            for _ in 0..2 {
                let refusal = client.command(&execute_text(id, b"x", true)).unwrap_err();
                let message = "Incorrect arguments to mysqld_stmt_send_long_data".to_owned();
                assert_eq!(refusal, Refusal::Error { code: 1210, message }, "port {port}");
            }
            assert_eq!(client.query("SELECT @@warning_count"), value("1"));
            assert!(!is_proxy || shared.is_free(), "no backend connection has to remember it");
            assert_eq!(client.command(&about(0x1a, id, b"")), Ok(vec![]));
            assert_eq!(client.command(&execute_text(id, b"y", true)), value("<y>"));
        }
        let none = client.prepare("SELECT 'none'").expect("prepared");
        client.send_packet(0, &piece(none, b"x"));
        assert_eq!(client.command(&execute(none)).unwrap_err().code(), 1210, "it has no first");
    }
}

#[test]
fn what_was_prepared_in_no_schema_is_in_none() {
    let shared = Shared::start("prepared_nowhere");
    let text = "SELECT DATABASE(), SCHEMA() AS s, CONCAT(IFNULL(DATABASE(), 'none'), 1)";
    let answers = [server().port(), shared.flifo.port()].map(|port| {
        let mut client = FakeClient::login(port, USER, server().password()).expect("a login");
        let id = client.prepare(text).expect("prepared");
        client.query("USE prepared_nowhere").expect("a schema");
        // It is reset when its client has left: nothing is prepared on it any more.
        let mut noise = shared.client();
        ok(&mut noise, "SELECT GET_LOCK('nowhere', 0)");
        drop(noise);
        assert!(shared.is_free());
        client.send_packet(0, &execute(id));
        // How many columns, what they are, and the row.
        (0..5).map(|_| client.read_payload().expect("a packet")).collect::<Vec<_>>()
    });
    assert_eq!(answers[0], answers[1]);
    assert!(answers[0][4].ends_with(b"none1"));
    assert!(shared.end()("backends_reset") > 0);
}

#[test]
fn errors_are_cut_off_where_the_server_cuts_them() {
    let shared = Shared::start("prepared_wide");
    for charset in ["utf16", "utf16le", "ucs2", "utf32", "latin1", "utf8mb4"] {
        let refusals = [server().port(), shared.flifo.port()].map(|port| {
            let mut client = client(port, "prepared_wide");
            client.query(&format!("SET character_set_results = {charset}")).expect("set");
            let of_server = client.query("SELECT * FROM absent").unwrap_err();
            (of_server, client.command(&execute(77)).unwrap_err())
        });
        assert_eq!(refusals[0], refusals[1], "{charset}");
    }
}

#[test]
fn long_executes_share_and_find_their_parameter_types() {
    let shared = Shared::start("prepared_long");
    let long = vec![b'l'; 300_000];
    for port in [server().port(), shared.flifo.port()] {
        let (mut one, mut other) = (client(port, "prepared_long"), client(port, "prepared_long"));
        let text = "SELECT CONCAT(LENGTH(CONCAT(?, '.')), '')";
        let (id, same) = (one.prepare(text).unwrap(), other.prepare(text).unwrap());
        assert_eq!(one.command(&execute_text(id, b"1234", true)), value("5"));
        // The other client gives its parameter as a number, of which the server remembers the type.
        let number = about(0x17, same, b"\0\x01\0\0\0\0\x01\x03\0\x07\0\0\0");
        assert_eq!(other.command(&number), value("2"));
        for types in [false, true] {
            let answer = one.command(&execute_text(id, &long, types));
            assert_eq!(answer, value("300001"), "port {port}");
        }
        let number = about(0x17, same, b"\0\x01\0\0\0\0\0\x07\0\0\0");
        assert_eq!(other.command(&number), value("2"), "port {port}");
    }
    assert_eq!(shared.end()("pins."), 0);
}

#[test]
fn a_statement_that_the_server_calls_stale_is_prepared_again() {
    let scene = Scene::pooled("connections_max = 1").witnessed();
    let mut client = scene.client();
    let id = client.prepare("SELECT stale").expect("prepared");
    let refuse = |times: usize| {
        let left = std::sync::atomic::AtomicUsize::new(times);
        scene.server.answer(move |command| {
            let is_it = command.first() == Some(&0x17);
            let take = |left: usize| left.checked_sub(1);
            if is_it && left.fetch_update(SeqCst, SeqCst, take).is_ok() {
                return Reply::Err(1615, "Prepared statement needs to be re-prepared");
            }
            honest(command)
        });
    };
    let prepared = || scene.server.received(b"\x16SELECT stale");
    assert_eq!((client.command(&execute(id)), prepared()), (row("executed"), 1));
    refuse(2);
    assert_eq!((client.command(&execute(id)), prepared()), (row("executed"), 3));
    // Not for ever: then the client hears of it.
    refuse(3);
    assert_eq!(client.command(&execute(id)).unwrap_err().code(), 1615);
    assert_eq!(client.command(&execute(id)), row("executed"));
    drop(client);
    scene.end();
}

#[test]
fn the_servers_bound_on_statements_is_kept() {
    let server = PrivateServer::builder().start().expect("a private server");
    let bound = |max: u32| {
        server.sql(&format!("SET GLOBAL max_prepared_stmt_count={max}")).expect("set");
    };
    let flifo = start(&server);
    let mut client = FakeClient::login(flifo.port(), USER, server.password()).expect("a login");
    let texts: Vec<_> = (0..12).map(|number| format!("SELECT 'bound {number}'")).collect();
    let first = client.prepare("SELECT 'before'").expect("prepared");
    // Lower than what the backend was told: the server refuses the fourth.
    bound(3);
    let ids: Vec<_> = texts.iter().map(|text| client.prepare(text).expect("prepared")).collect();
    for round in 0..2 {
        for (number, id) in ids.iter().enumerate() {
            let want = format!("bound {number}");
            assert_eq!(client.command(&execute(*id)), value(&want), "round {round}");
        }
        assert_eq!(client.command(&execute(first)), value("before"));
    }
    bound(0);
    assert_eq!(client.prepare("SELECT 'none'").unwrap_err().code(), 1461, "not even one");
    // A backend that is told of the bound keeps half of it to itself, however many there are.
    bound(8);
    let counted = || server.sql("SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'").expect("a row");
    drop(client);
    drop(flifo);
    let flifo = start(&server);
    let mut client = FakeClient::login(flifo.port(), USER, server.password()).expect("a login");
    for text in &texts {
        client.prepare(text).expect("prepared");
        client.query("DO 1").expect("what is too much has been closed");
        let count = counted().split_whitespace().last().map(str::to_owned);
        assert!(count.and_then(|it| it.parse::<u32>().ok()).is_some_and(|it| it <= 4));
    }
    drop(client);
    let (_, log) = flifo.stop();
    assert!(!log.contains("pins.") && !log.contains("panicked"), "{log}");
}

fn start(server: &PrivateServer) -> Flifo {
    Flifo::start(&format!(
        "workers = 1\n[server]\naddress = \"{}\"\nconnections_max = 1\n\
         [[users]]\nname = \"{USER}\"\npassword = \"{}\"\n",
        server.socket().display(),
        server.password(),
    ))
}

/// As a driver sends it that writes its execute behind a prepare, which then fails.
#[test]
fn a_long_execute_of_an_unknown_statement_is_refused_and_costs_no_connection() {
    let shared = Shared::start("prepared_unknown");
    let long = about(0x17, LAST, &vec![0; 100_000]);
    for port in [server().port(), shared.flifo.port()] {
        for holds in ["BEGIN", "CREATE TEMPORARY TABLE held (a INT)", "DO 1"] {
            let mut client = client(port, "prepared_unknown");
            client.query(holds).expect("done");
            let refusal = client.command(&long);
            let is_unknown = matches!(refusal, Err(Refusal::Error { code: 1243, .. }));
            assert!(is_unknown, "port {port}, {holds}");
            assert_eq!(client.query("SELECT 'goes on'"), value("goes on"), "port {port}, {holds}");
        }
    }
}

/// What is too long for a buffer is dropped, rather than sent to the server in the middle of nothing; a server reads but the
/// beginning of some commands.
#[test]
fn a_command_for_an_unknown_statement_is_answered_alike_however_long_it_is() {
    const HELD: [&str; 3] = ["BEGIN", "CREATE TEMPORARY TABLE held (a INT)", "DO 1"];
    // Execute, a piece of a parameter, reset, fetch, close.
    const COMMANDS: [u8; 5] = [0x17, 0x18, 0x1a, 0x1c, 0x19];
    let shared = Shared::start("prepared_unknown_long");
    let answers = [server().port(), shared.flifo.port()].map(|port| {
        let mut answers = Vec::new();
        for held in HELD {
            let mut client = client(port, "prepared_unknown_long");
            client.query(held).expect("done");
            let known = client.prepare("SELECT ?").expect("prepared");
            for (command, id, len) in COMMANDS
                .iter()
                .flat_map(|command| [(*command, 12_345), (*command, known)])
                .flat_map(|(command, id)| [14, 100_000, 3_000_000].map(|len| (command, id, len)))
                .filter(|(command, id, _)| *id != known || !matches!(command, 0x17 | 0x19))
            {
                // A known statement gets pieces of a parameter that it does not have.
                let payload = about(command, id, &vec![1; len]);
                let answer = match command {
                    0x18 | 0x19 => {
                        client.send_packet(0, &payload);
                        Ok(Vec::new())
                    }
                    _ => client.command(&payload),
                };
                let answer = answer.map_err(|refusal| refusal.code());
                let goes_on = client.query("SELECT 'goes on'");
                answers.push((held, command, id == known, len, answer, goes_on));
            }
            let execute = about(0x17, known, b"\0\x01\0\0\0\0\x01\x03\0\x07\0\0\0");
            answers.push((
                held,
                0,
                true,
                0,
                client.command(&execute).map_err(|it| it.code()),
                Ok(vec![]),
            ));
        }
        answers
    });
    for (directly, through) in answers[0].iter().zip(&answers[1]) {
        assert_eq!(directly, through);
        assert!(directly.1 == 0 || directly.5 == value("goes on"), "{directly:?}");
    }
}

/// What Flifo answers by a statement of its own takes nothing of the client's.
#[test]
fn bytes_behind_an_execute_are_dropped_whatever_it_becomes() {
    let shared = Shared::start("prepared_behind");
    let answers = [server().port(), shared.flifo.port()].map(|port| {
        let mut client = client(port, "prepared_behind");
        let mut answers = Vec::new();
        for held in ["DO 1", "BEGIN"] {
            client.query(held).expect("done");
            for text in ["KILL QUERY ?", "GET DIAGNOSTICS @n = NUMBER", "SELECT ?", "DO ?"] {
                // A number as Flifo gives them to clients, and none has.
                let parameter = b"\0\x01\0\0\0\0\x01\x08\0\x07\0\0\x70\0\0\0\0";
                let values = if text.contains('?') { &parameter[..] } else { &parameter[..5] };
                for len in [0, 10, 100_000] {
                    let id = client.prepare(text).expect("prepared");
                    let execute = about(0x17, id, &[values, &vec![1; len]].concat());
                    let answer = client.command(&execute).map_err(|refusal| refusal.code());
                    answers.push((held, text, len, answer, client.query("SELECT 'goes on'")));
                }
            }
        }
        answers
    });
    for (directly, through) in answers[0].iter().zip(&answers[1]) {
        assert_eq!(directly, through);
        assert_eq!(directly.4, value("goes on"), "{directly:?}");
    }
}

/// Drivers leave the types out from the second execute on, whatever became of the first.
#[test]
fn the_types_of_an_execute_that_flifo_refuses_are_known() {
    let server = server();
    let flifo = Flifo::start(&format!(
        "workers = 1\n[server]\naddress = \"{}\"\nconnections_max = 1\n[limits]\nwait = \"300ms\"\n\
         [[users]]\nname = \"{USER}\"\npassword = \"{}\"\n",
        server.socket().display(),
        server.password()
    ));
    let login = || FakeClient::login(flifo.port(), USER, server.password()).expect("a login");
    let (mut one, mut other) = (login(), login());
    let id = one.prepare("SELECT ?").expect("prepared");
    other.query("BEGIN").expect("begins");
    other.query("SELECT 1").expect("holds the only backend");
    assert_eq!(one.command(&execute_text(id, b"a", true)).unwrap_err().code(), 1637);
    other.query("COMMIT").expect("ends");
    let mut answer = one.command(&execute_text(id, b"b", false));
    // A busy machine may take longer to give the backend back.
    while answer.as_ref().is_err_and(|error| error.code() == 1637) {
        answer = one.command(&execute_text(id, b"b", false));
    }
    assert_eq!(answer, value("b"));
}

/// The same of a client that is passed through: its server has not seen them.
#[test]
fn the_types_of_a_passed_through_execute_that_flifo_refuses_reach_the_server() {
    let server = server();
    let flifo = Flifo::start(&format!(
        "workers = 1\n[server]\naddress = \"{}\"\nlimit = 1\n[limits]\nwait = \"300ms\"\n",
        server.socket().display(),
    ));
    let login = |port| FakeClient::login(port, USER, server.password()).expect("a login");
    let (mut one, mut other) = (login(flifo.port()), login(flifo.port()));
    let mut beside = login(server.port());
    let id = one.prepare("SELECT ?").expect("prepared");
    beside.query("SELECT GET_LOCK('types', 0)").expect("a lock");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| other.query("SELECT GET_LOCK('types', 60)"));
        let look = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock' \
            AND info LIKE '%types%'";
        wait_for("the only slot to be taken", || beside.query(look) == value("1"));
        assert_eq!(one.command(&execute_text(id, b"a", true)).unwrap_err().code(), 1637);
        beside.query("DO RELEASE_LOCK('types')").expect("released");
        waits.join().expect("no panic").expect("the lock");
    });
    let mut answer = one.command(&execute_text(id, b"b", false));
    while answer.as_ref().is_err_and(|error| error.code() == 1637) {
        answer = one.command(&execute_text(id, b"b", false));
    }
    assert_eq!(answer, value("b"));
    // From here on the server has them.
    assert_eq!(one.command(&execute_text(id, b"c", false)), value("c"));
}

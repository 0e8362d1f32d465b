//! Statements that are made to be misread: none is guessed at. A client that sends one keeps the backend, or is
//! refused; the next client finds the backend as a new one, and Flifo's memory stays as it was.

use std::time::{Duration, Instant};

use bench::private_server::PrivateServer;
use testkit::fake_client::FakeClient;

use testkit::scene::wait_for;

use crate::shared::{Shared, USER, ok, server};

/// What a client sees of its session.
const LOOK: &str = "SELECT CONCAT_WS(' ', @@sql_mode, @@time_zone, @@autocommit, \
    @@character_set_client, @@collation_connection, @@sql_select_limit, @@timestamp > 1000, \
    IFNULL(@x, 'none'), DATABASE(), IS_FREE_LOCK('hostile'), @@tx_isolation, LAST_INSERT_ID(), \
    @@max_statement_time)";

fn login(port: u16, password: &str, schema: &str) -> FakeClient {
    let mut client = FakeClient::login(port, USER, password).expect("a login");
    client.query(&format!("USE {schema}")).expect("its schema");
    client
}

/// Clients send these, one each; all must keep the backend. Their effect on the server is the same as directly, and no
/// other client ever sees it.
fn is_never_guessed(schema: &str, texts: &[&[u8]]) {
    let shared = Shared::start_with(schema, "[logs]\nlevel = \"debug\"");
    ok(&mut shared.direct(), "CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY)");
    let pinned = || shared.flifo.log().matches("\"pinned\"").count();
    let (port, password) = (shared.flifo.port(), server().password());
    // One after the other, as there are locks among them.
    let run = |port: u16, text: &[u8]| {
        let mut client = login(port, password, schema);
        let before = pinned();
        let answer = client.command(&[&[3], text].concat()).map_err(|error| error.code());
        (answer, pinned() > before, look(&mut client))
    };
    let clean = look(&mut login(server().port(), password, schema));
    for text in texts {
        let shown = String::from_utf8_lossy(text).into_owned();
        let (there, _, left_there) = run(server().port(), text);
        let (here, is_pinned, left_here) = run(port, text);
        assert_eq!((here, left_here), (there, left_there), "{shown}");
        assert!(is_pinned, "{shown}");
        let begun = Instant::now();
        let mut next = loop {
            match FakeClient::login(port, USER, password) {
                Ok(next) => break next,
                Err(error) => assert!(begun.elapsed() < Duration::from_secs(60), "{error:?}"),
            }
        };
        next.query(&format!("USE {schema}")).expect("its schema");
        assert_eq!(look(&mut next), clean, "{shown}");
    }
}

fn look(client: &mut FakeClient) -> Vec<String> {
    let rows = client.query(LOOK).expect("it may look");
    rows.iter().map(|row| String::from_utf8_lossy(row).into_owned()).collect()
}

#[test]
fn what_cannot_be_lexed_is_not_guessed() {
    is_never_guessed(
        "hostile_lexed",
        &[
            b"SELECT 'abc",
            b"SELECT \"abc",
            b"SELECT `abc",
            b"SELECT 1 /* abc",
            b"SELECT 1 /*! INTO @x",
            b"SET time_zone='+03:00",
            b"SET time_zone='+03:00' /* ",
            b"'SET @x=1",
            b"SELECT 'a\\",
            b"\\",
            b"\0SET @x=1",
            b"; ; SET\0@x=1",
        ],
    );
}

#[test]
fn what_is_no_utf8_is_not_guessed() {
    is_never_guessed(
        "hostile_utf8",
        &[
            b"\xff\xfe",
            b"\xc0\xafSELECT 1",
            b"SET \xff=1",
            b"SET @@\xff=1",
            b"SET time_zone='+03:00', \xff='\xfe'",
            b"\xe2\x80\x8bSET @@sql_mode=''",
            b"\xa0SET timestamp=5",
            b"SELECT f\xff(1)",
            b"CALL \xff()",
        ],
    );
}

#[test]
fn keywords_that_comments_hide_are_not_guessed() {
    is_never_guessed(
        "hostile_comments",
        &[
            b"/*!50000 SET sql_mode='ANSI_QUOTES' */",
            b"/*M! SET sql_mode='ANSI_QUOTES' */",
            b"/*M!100000 SET time_zone='+03:00' */",
            b"/*!999999 SET time_zone='+03:00' */",
            b"/*!50700 SET time_zone='+03:00' */",
            b"SET /*!50000 SESSION */ time_zone='+03:00'",
            b"SET /*! GLOBAL */ /*!999999 x */ sql_select_limit=DEFAULT",
            b"SET time_zone='+03:00' /*!, timestamp=5 */",
            b"SET time_zone='+03:00' /*M!50000 , @@sql_mode='ANSI_QUOTES' */",
            b"SEL/**/ECT 1; SET @@sql_mode='ANSI_QUOTES'",
            b"SELECT 1 /*! ; SET time_zone='+03:00' */",
            b"SELECT GET_LOCK /*!50000 ( */ 'hostile', 1)",
            b"/*!50000 SELECT GET_LOCK('hostile', 1) */",
            b"SELECT /*! 1 INTO */ @x /*!999999 , @y */",
            b"SELECT 7 /*/ */ INTO @x /* /*/",
            b"-- a\nSET @@timestamp=5",
            b"#a\nSET @@timestamp=5",
            b"--\x01\nSET @@timestamp=5",
            b"/*!50000 CREATE */ TEMPORARY TABLE x (a INT)",
            b"/*!*/ /*!50000*/ SET timestamp=5",
        ],
    );
}

#[test]
fn several_statements_that_mix_state_are_not_guessed() {
    is_never_guessed(
        "hostile_several",
        &[
            b"SET sql_mode='ANSI_QUOTES'; SELECT 1",
            b"SELECT 1; SET time_zone='+03:00'",
            b"SET NAMES latin1; SET NAMES utf8mb4 COLLATE utf8mb4_bin",
            b"BEGIN; SET autocommit=0; COMMIT",
            b"SET sql_mode='NO_BACKSLASH_ESCAPES'; SELECT '\\'; SET @x=1 -- '",
            b"SET sql_mode='ANSI_QUOTES'; SELECT a AS \"; SET @x=1; -- \" FROM t",
            b"SET @@time_zone='+03:00'; SET @@sql_mode='ANSI_QUOTES'; nonsense",
            b"INSERT INTO t () VALUES (); SET @@last_insert_id=77",
            b"USE mysql; SET time_zone='+03:00'",
            b"SELECT 1; CREATE TEMPORARY TABLE x AS SELECT 1; SELECT 2",
            b"SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SET SESSION tx_isolation='READ-COMMITTED'",
            b"SET STATEMENT time_zone='+03:00' FOR SELECT 1; SET max_statement_time=10",
            b"SELECT 1;;; ;SET timestamp=5",
        ],
    );
}

/// Texts of up to 32 MiB are read as a whole, and so many of them at once as find room in 64 MiB; others wait.
#[test]
fn who_never_ends_a_text_takes_a_place_that_comes_back() {
    let schema = "never_ends";
    let shared = Shared::start(schema);
    ok(&mut shared.client(), "CREATE TABLE t (a LONGTEXT)");
    let insert = |size: usize| {
        let text = format!("INSERT INTO {schema}.t VALUES ('')");
        text.replace("''", &format!("'{}'", "x".repeat(size - 1 - text.len())))
    };
    // Clients announce a packet as long as can be and send a part of it.
    const LONGEST: usize = 0xff_fffe;
    let password = server().password();
    let before = shared.flifo.memory();
    let stalled = [(); 62].map(|()| {
        let mut client = FakeClient::login(shared.flifo.port(), USER, password).expect("a login");
        let header = [&(LONGEST as u32).to_le_bytes()[..3], &[0, 3]].concat();
        client.send_what_is_taken(&[&header[..], insert(900 << 10).as_bytes()].concat());
        client
    });
    // Others go on.
    let mut one = shared.client();
    (0..200).for_each(|_| drop(ok(&mut one, "SELECT 1")));
    assert!(shared.flifo.memory() < before + (96 << 20), "{}", shared.flifo.memory() >> 20);
    ok(&mut one, &insert(100 << 10));
    assert!(shared.is_free());
    // One as long as theirs, of the same user, waits for them.
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| ok(&mut one, &insert(8 << 20)));
        drop(stalled);
        waits.join().expect("it has its turn");
    });
    drop(one);
    assert!(shared.is_free());
    let (mut one, mut other) = (shared.client(), shared.client());
    for size in [65 << 10, 300 << 10, 8 << 20] {
        ok(&mut one, &insert(size));
        ok(&mut other, &insert(size));
    }
    assert_eq!(ok(&mut one, "SELECT COUNT(*), COUNT(DISTINCT LENGTH(a)) FROM t"), "8 4");
    assert!(shared.is_free());
    assert_eq!(shared.end()("pins.unreadable"), 0);
}

#[test]
fn texts_of_several_packets_are_judged_and_arrive() {
    const PACKET: usize = 0xff_ffff;
    let server = PrivateServer::builder().argument("--max-allowed-packet=128M");
    let server = server.start().expect("a private server");
    let shared = Shared::before(&server, PrivateServer::DATABASE, "");
    let mut other = shared.client();
    let id = ok(&mut other, "SELECT CONNECTION_ID()");
    assert_eq!(id.parse::<u32>().map(|id| id > 0), Ok(true));
    let text = |size: usize, what: &str| {
        let text = format!("SELECT LENGTH(''), {what}");
        // With the command's byte it is as long as asked for.
        text.replace("''", &format!("'{}'", "x".repeat(size - 1 - text.len())))
    };
    let mut client = shared.client();
    let own = ok(&mut client, "SELECT CONNECTION_ID()");
    for size in [PACKET - 1, PACKET, PACKET + 1, 2 * PACKET, 32 << 20] {
        let asks = "CONNECTION_ID() = 1 + ";
        let length = size - 1 - "SELECT LENGTH(''), 7".len();
        assert_eq!(ok(&mut client, &text(size, "7")), format!("{length} 7"), "{size}");
        assert!(shared.is_free(), "{size}");
        // The id is put in, and the text may be longer for it.
        let length = size - 1 - "SELECT LENGTH(''), ".len() - asks.len() - own.len();
        let seen = ok(&mut client, &text(size, &format!("{asks}{own}")));
        assert_eq!(seen, format!("{length} 0"), "{size}");
    }
    // What Flifo answers by itself follows as many packets.
    let comment = "x".repeat(PACKET);
    ok(&mut client, &format!("BEGIN /*{comment}*/"));
    ok(&mut client, "COMMIT");
    assert!(shared.is_free());
    // What it does besides is seen, wherever it stands; and what is longer is not read.
    for size in [PACKET + 1, 32 << 20, (32 << 20) + 1] {
        let mut client = shared.client();
        ok(&mut client, &text(size, "GET_LOCK('several', 5)"));
        assert!(!shared.is_free(), "{size}");
        drop(client);
        // It is gone when the server has noticed that its connection is, where that had to be closed.
        wait_for("the lock to be given back", || {
            ok(&mut other, "SELECT IS_FREE_LOCK('several')") == "1"
        });
    }
    let counted = shared.end();
    assert_eq!(counted("pins.user_lock"), 2, "those that were read");
    assert_eq!(counted("pins.unreadable"), 1);
}

#[test]
fn parentheses_in_millions_take_no_memory_and_no_time() {
    let server = PrivateServer::builder().argument("--max-allowed-packet=128M");
    let server = server.start().expect("a private server");
    server.sql("SELECT 1").expect("it answers");
    let shared = Shared::before(&server, PrivateServer::DATABASE, "");
    assert!(shared.is_free());
    let before = shared.flifo.memory();
    for (open, between, close) in [("(", "1", ")"), ("(((/*", "*/1", ")))"), ("SELECT(", "1", ")")]
    {
        let half = (32 << 20) / open.len();
        let text = format!("SELECT {}{between}{}", open.repeat(half), close.repeat(half));
        let mut client =
            FakeClient::login(shared.flifo.port(), USER, server.password()).expect("a login");
        // The server finds no end of it, or too many: it is an error in any case.
        let refused = client.query(&text).expect_err("too deep");
        assert_ne!(refused.code(), u16::MAX, "{refused:?}");
        // What may be collected of it, and no more.
        assert!(shared.flifo.memory() < before + (80 << 20), "{}", shared.flifo.memory() >> 20);
        drop(client);
        let begun = Instant::now();
        while !shared.is_free() {
            assert!(
                begun.elapsed() < Duration::from_secs(120),
                "the backend connection comes back"
            );
        }
    }
    // Within a buffer they are read, and still nothing grows with their depth.
    let mut client = shared.client();
    let (open, close) = ("(".repeat(30_000), ")".repeat(30_000));
    let spent = shared.flifo.cpu();
    for _ in 0..10 {
        // Whether it is too deep is the server's affair.
        drop(client.query(&format!("SELECT {open}1{close}")));
    }
    let spent = shared.flifo.cpu() - spent;
    assert!(spent < Duration::from_secs(5), "{spent:?}");
    assert!(shared.flifo.memory() < before + (80 << 20));
    assert_eq!(shared.end()("pins.unreadable"), 3);
}

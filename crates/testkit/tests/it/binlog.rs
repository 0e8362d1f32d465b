//! A real server's binary log, followed: what was written, by whatever way it was, is told before it is certain that all
//! is known.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use backend::Address;
use bench::private_server::PrivateServer;
use engine::cache::{Seen, TablePlace};
use testkit::binlog::Watch;
use testkit::client::Client;
use testkit::mysql::Mysql;

/// A server that logs, with two schemas.
fn server(arguments: &[&str]) -> PrivateServer {
    let builder = PrivateServer::builder()
        .argument("--log-bin=bin")
        .argument("--server-id=1")
        .argument("--innodb-buffer-pool-size=32M");
    let server = arguments.iter().fold(builder, |builder, it| builder.argument(*it)).start();
    let server = server.expect("a server starts");
    let (definitions, function) = schemas();
    let text = format!(
        "SET GLOBAL log_bin_trust_function_creators = 1; {definitions};\nDELIMITER //\n{function}//\n"
    );
    server.sql(&text).expect("schemas");
    server
}

const SCHEMAS: &str = "CREATE DATABASE a; CREATE DATABASE b; USE a; \
    CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT) ENGINE=InnoDB; \
    CREATE TABLE p (id INT PRIMARY KEY, v INT) ENGINE=InnoDB; \
    CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE) ENGINE=InnoDB; \
    CREATE TABLE m (id INT) ENGINE=MyISAM; \
    CREATE TABLE b.audit (n INT AUTO_INCREMENT PRIMARY KEY, id INT) ENGINE=InnoDB; \
    CREATE TRIGGER written AFTER UPDATE ON p FOR EACH ROW INSERT INTO b.audit (id) VALUES (NEW.id); \
    CREATE PROCEDURE fill() INSERT INTO b.audit (id) VALUES (7); \
    CREATE FUNCTION told() RETURNS INT BEGIN INSERT INTO b.audit (id) VALUES (9); RETURN 1; END";

/// All but the function, and that.
fn schemas() -> (&'static str, &'static str) {
    let at = SCHEMAS.find("; CREATE FUNCTION").expect("it is the last");
    (&SCHEMAS[..at], &SCHEMAS[at + 2..])
}

/// A user that may follow, and one that may not.
const USERS: &str = "CREATE USER follower@'%' IDENTIFIED BY 'x'; \
    GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO follower@'%'; \
    CREATE USER half@'%' IDENTIFIED BY 'x'; GRANT BINLOG MONITOR ON *.* TO half@'%'; \
    CREATE USER none@'%' IDENTIFIED BY 'x'";

fn watch(server: &PrivateServer) -> Watch {
    Watch::begin(&Address::Unix(server.socket()), "root", server.password())
        .expect("it is followed")
}

/// What each statement ends.
const WRITES: &[(&str, &[&str])] = &[
    ("SELECT COUNT(*) FROM a.t", &[]),
    ("INSERT INTO a.t VALUES (1, 'x'), (2, 'y')", &["a.t"]),
    ("INSERT INTO a.p VALUES (1, 1), (2, 2); INSERT INTO a.c VALUES (1, 1)", &["a.p", "a.c"]),
    // Triggers, procedures, functions, foreign keys.
    ("UPDATE a.p SET v = 9 WHERE id = 2", &["a.p", "b.audit"]),
    ("CALL a.fill()", &["b.audit"]),
    ("SELECT a.told()", &["b.audit"]),
    ("DELETE FROM a.p WHERE id = 1", &["a.p", "a.c"]),
    // Some that change nothing, or are taken back.
    ("UPDATE a.t SET v = 'x' WHERE id = 99", &[]),
    ("BEGIN; INSERT INTO a.t VALUES (7, 'z'); ROLLBACK", &[]),
    // A table without transactions is written although they are rolled back.
    ("BEGIN; INSERT INTO a.m VALUES (1); ROLLBACK", &["a.m"]),
    (
        "BEGIN; DELETE FROM a.t; SAVEPOINT s; INSERT INTO a.c VALUES (9, 2); ROLLBACK TO s; COMMIT",
        &["a.t"],
    ),
    ("INSERT INTO a.t VALUES (1, 'x') ON DUPLICATE KEY UPDATE v = 'z'", &["a.t"]),
    ("REPLACE INTO a.t SELECT id, v FROM a.p", &["a.t"]),
    ("UPDATE a.t JOIN a.p USING (id) SET t.v = 'j', p.v = 3", &["a.t", "a.p", "b.audit"]),
    (
        "XA START 'x'; INSERT INTO a.t VALUES (30, 'xa'); XA END 'x'; XA COMMIT 'x' ONE PHASE",
        &["a.t"],
    ),
    (
        "CREATE TEMPORARY TABLE a.k (id INT); INSERT INTO a.k VALUES (1); DROP TEMPORARY TABLE a.k",
        &[],
    ),
    // Definitions and rights.
    ("TRUNCATE a.t", &["*"]),
    ("ALTER TABLE a.t ADD COLUMN w INT", &["**"]),
    ("GRANT SELECT ON a.* TO follower@'%'", &["**"]),
    ("FLUSH TABLES", &[]),
    ("FLUSH BINARY LOGS; INSERT INTO a.t VALUES (40, 'n', 1)", &["a.t"]),
    ("FLUSH BINARY LOGS; FLUSH BINARY LOGS", &[]),
    ("DROP TABLE a.c", &["**"]),
    ("DROP DATABASE a", &["**"]),
];

fn writes_are_told(server: &PrivateServer) {
    server.sql(USERS).unwrap();
    let mut watch = watch(server);
    assert!(watch.logs_rows());
    for (statement, want) in WRITES {
        server.sql(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        let mut got = watch.ends().unwrap_or_else(|error| panic!("{statement}: {error}"));
        let changes: Vec<_> = got.extract_if(.., |end| end == "+").collect();
        assert!(changes.len() <= 1);
        assert_eq!(got, *want, "{statement}");
    }
}

#[test]
fn all_that_is_written_is_told_where_rows_are_logged() {
    writes_are_told(&server(&["--binlog-format=ROW"]));
}

#[test]
fn a_log_that_is_compressed_and_has_no_checksums_tells_the_same() {
    let compressed =
        ["--binlog-format=ROW", "--log-bin-compress=ON", "--log-bin-compress-min-len=10"];
    writes_are_told(&server(
        &[&compressed[..], &["--binlog-checksum=NONE", "--binlog-row-image=MINIMAL"]].concat(),
    ));
}

#[test]
fn texts_end_all_where_statements_are_logged() {
    for format in ["STATEMENT", "MIXED"] {
        let server = server(&[&format!("--binlog-format={format}")]);
        let mut watch = watch(&server);
        assert!(!watch.logs_rows());
        for statement in [
            "INSERT INTO a.t VALUES (1, 'x')",
            "CALL a.fill()",
            "BEGIN; UPDATE a.t SET v = 'y'; INSERT INTO a.p VALUES (3, 3); COMMIT",
        ] {
            server.sql(statement).unwrap();
            assert_eq!(watch.ends().unwrap(), ["*"], "{format}: {statement}");
        }
        server.sql("SELECT * FROM a.t; CREATE TEMPORARY TABLE a.k (id INT)").unwrap();
        let ends = watch.ends().unwrap();
        assert!(ends.is_empty() || ends == ["*"], "{ends:?}");
        if format == "MIXED" {
            // What is not the same when it is run again is logged as rows.
            server.sql("INSERT INTO a.t VALUES (2, UUID())").unwrap();
            assert_eq!(watch.ends().unwrap(), ["a.t"]);
        }
    }
}

#[test]
fn a_large_transaction_is_followed_in_little_memory() {
    let server = server(&["--binlog-format=ROW", "--max-allowed-packet=128M"]);
    let mut watch = watch(&server);
    server.sql("INSERT INTO a.t VALUES (1, REPEAT('abcdefgh', 4 << 20))").unwrap();
    assert_eq!(watch.ends().unwrap(), ["a.t"]);
    server.sql("INSERT INTO a.p SELECT seq, seq FROM a.t JOIN seq_1_to_200000").unwrap();
    assert_eq!(watch.ends().unwrap(), ["a.p"]);
    assert!(watch.held() <= 2 << 20, "{}", watch.held());
}

#[test]
fn a_transaction_that_was_prepared_ends_all_when_it_is_committed() {
    let server = server(&["--binlog-format=ROW"]);
    let mut watch = watch(&server);
    server
        .sql("XA START 'x'; INSERT INTO a.t VALUES (1, 'x'); XA END 'x'; XA PREPARE 'x'")
        .unwrap();
    // Its rows are in the log already, and may come to be seen later.
    assert_eq!(watch.ends().unwrap(), ["a.t"]);
    server.sql("XA COMMIT 'x'").unwrap();
    assert_eq!(watch.ends().unwrap(), ["*"]);
}

#[test]
fn what_ends_a_log_ends_its_following() {
    let mut server = server(&["--binlog-format=ROW"]);
    let mut watched = watch(&server);
    server.stop().unwrap();
    assert!(watched.ends().is_err());
    server.start().unwrap();
    let mut watched = watch(&server);
    server.sql("INSERT INTO a.t VALUES (1, 'x')").unwrap();
    assert_eq!(watched.ends().unwrap(), ["a.t"]);
    server.kill().unwrap();
    assert!(watched.ends().is_err());
    server.start().unwrap();
    let mut watched = watch(&server);
    // It deletes all files, and begins again with the first.
    let _ = server.sql("FLUSH BINARY LOGS");
    assert!(watched.ends().unwrap().is_empty());
    if server.sql("RESET MASTER").is_ok() {
        let error = watched.ends().unwrap_err();
        assert!(error.contains("RESET MASTER") || error.contains("closed"), "{error}");
    }
}

#[test]
fn a_server_that_cannot_be_followed_says_why() {
    let logging = server(&["--binlog-format=ROW"]);
    logging.sql(USERS).unwrap();
    let address = || Address::Unix(logging.socket());
    let begin = |user| Watch::begin(&address(), user, "x").err();
    assert_eq!(begin("follower"), None);
    let refused = begin("half").expect("it may not");
    assert!(refused.contains("Access denied"), "{refused}");
    let refused = begin("none").expect("it may not");
    assert!(refused.contains("BINLOG MONITOR"), "{refused}");
    for (arguments, want) in [
        (&["--skip-log-bin"][..], "no binary log"),
        (&["--log-bin=bin", "--binlog-ignore-db=b"], "binlog_ignore_db = b"),
        (&["--log-bin=bin", "--binlog-do-db=a"], "binlog_do_db = a"),
        (&["--log-bin=bin", "--skip-binlog-optimize-thread-scheduling"], "another order"),
    ] {
        let builder =
            arguments.iter().fold(PrivateServer::builder(), |it, more| it.argument(*more));
        let server = builder.start().unwrap();
        let refused = Watch::begin(&Address::Unix(server.socket()), "root", server.password());
        let refused = refused.err().expect("it cannot be followed");
        assert!(refused.contains(want), "{refused}");
    }
}

#[test]
fn many_writers_are_followed_while_files_change() {
    let server = server(&["--binlog-format=ROW"]);
    let mut watch = watch(&server);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let server = &server;
                scope.spawn(move || {
                    for round in 0..25 {
                        let id = writer * 1000 + round;
                        let insert = format!("INSERT INTO a.t VALUES ({id}, 'x')");
                        let flush = if round % 10 == 9 { "; FLUSH BINARY LOGS" } else { "" };
                        server.sql(&(insert + flush)).unwrap();
                    }
                })
            })
            .collect();
        let mut told = 0;
        while !writers.iter().all(|writer| writer.is_finished()) {
            let ends = watch.ends().unwrap();
            assert!(ends.is_empty() || ends == ["a.t"], "{ends:?}");
            told += ends.len();
            thread::sleep(Duration::from_millis(5));
        }
        assert!(told > 0);
    });
    watch.ends().unwrap();
    assert!(watch.ends().unwrap().is_empty());
}

/// What one register is known to hold: its acknowledged values, with the moments of the acknowledgements.
type Acknowledged = Mutex<Vec<(Instant, u64)>>;

/// What a reader keeps of one register: its table's generation from before it was read, and the value.
type KeptValue = Mutex<Option<(Seen, u64)>>;

/// Writers beside it, by statements, a trigger and a procedure; readers that keep what they have read while its table's
/// generation is the same: a million uses of what is kept.
#[test]
fn what_is_kept_is_never_older_than_the_moment_up_to_which_all_is_known() {
    const TABLES: usize = 4;
    const USES: usize = 1_000_000;
    const FILLS: usize = 500;
    let server = server(&["--binlog-format=ROW"]);
    for table in 0..TABLES {
        server
            .sql(&format!("CREATE TABLE b.r{table} (v INT); INSERT INTO b.r{table} VALUES (0)"))
            .unwrap();
    }
    server
        .sql(
            "CREATE TABLE a.w (id INT); INSERT INTO a.w VALUES (0); \
             CREATE TRIGGER b.by_trigger AFTER UPDATE ON b.r0 FOR EACH ROW UPDATE b.r1 SET v = NEW.v; \
             CREATE PROCEDURE a.bump() UPDATE b.r2 SET v = v + 1",
        )
        .unwrap();
    let mut watch = watch(&server);
    let generations = watch.generations();
    let places = |table: usize| {
        [TablePlace::EVERYTHING, TablePlace::of_table(b"b", format!("r{table}").as_bytes())]
    };
    let connect = || {
        let address = Address::Unix(server.socket());
        Client::builder(address, "root", server.password()).connect().expect("root logs in")
    };
    let acknowledged: [Acknowledged; TABLES] = Default::default();
    let kept: [KeptValue; TABLES] = Default::default();
    let (covered, is_over) = (Mutex::new(watch.covered()), AtomicBool::new(false));
    let (used, fills) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for (text, tables) in [
            ("UPDATE b.r0 SET v = v + 1", &[0, 1][..]),
            ("CALL a.bump()", &[2]),
            ("UPDATE b.r3 SET v = v + 1", &[3]),
        ] {
            let (acknowledged, is_over, mut writer) = (&acknowledged, &is_over, connect());
            scope.spawn(move || {
                let mut value = 0;
                while !is_over.load(Relaxed) {
                    writer.query(text).expect("it writes");
                    value += 1;
                    let now = Instant::now();
                    tables
                        .iter()
                        .for_each(|at| acknowledged[*at].lock().unwrap().push((now, value)));
                    thread::sleep(Duration::from_millis(3));
                }
            });
        }
        for _ in 0..2 {
            let (kept, generations, is_over, fills, mut reader) =
                (&kept, &generations, &is_over, &fills, connect());
            scope.spawn(move || {
                while !is_over.load(Relaxed) {
                    for (table, kept) in kept.iter().enumerate() {
                        let mark = generations.look(&places(table)).expect("no write is under way");
                        if kept.lock().unwrap().as_ref().is_some_and(|it| it.0 == mark) {
                            continue;
                        }
                        let rows =
                            reader.query(&format!("SELECT v FROM b.r{table}")).expect("it reads");
                        let value = rows[0][0].parse().expect("a number");
                        *kept.lock().unwrap() = Some((mark, value));
                        fills.fetch_add(1, Relaxed);
                    }
                    thread::sleep(Duration::from_micros(300));
                }
            });
        }
        let (kept, generations, acknowledged) = (&kept, &generations, &acknowledged);
        let (covered, is_over, used, fills) = (&covered, &is_over, &used, &fills);
        scope.spawn(move || {
            let begun = Instant::now();
            for round in 1_u32.. {
                let is_enough = used.load(Relaxed) >= USES && fills.load(Relaxed) >= FILLS;
                if is_enough || begun.elapsed() >= Duration::from_secs(120) {
                    break;
                }
                // The writers' processor.
                if round.is_multiple_of(256) {
                    thread::sleep(Duration::from_micros(500));
                }
                for table in 0..TABLES {
                    let since = *covered.lock().unwrap();
                    let it = kept[table].lock().unwrap().clone();
                    let Some((mark, value)) = it else { continue };
                    if !mark.holds(generations) {
                        continue;
                    }
                    used.fetch_add(1, Relaxed);
                    let all = acknowledged[table].lock().unwrap();
                    let must = all.iter().rev().find(|it| it.0 <= since).map_or(0, |it| it.1);
                    if value < must {
                        is_over.store(true, Relaxed);
                        panic!("r{table} is {value}, and {must} was acknowledged");
                    }
                }
            }
            is_over.store(true, Relaxed);
        });
        let mut longest = Duration::ZERO;
        while !is_over.load(Relaxed) {
            if let Err(error) = watch.ends() {
                is_over.store(true, Relaxed);
                panic!("{error}");
            }
            *covered.lock().unwrap() = watch.covered();
            longest = longest.max(watch.covered().elapsed());
        }
        println!(
            "{} uses of {} reads, covered up to {longest:?} ago",
            used.load(Relaxed),
            fills.load(Relaxed)
        );
    });
    assert!(used.load(Relaxed) >= USES, "{} uses", used.load(Relaxed));
    assert!(acknowledged.iter().all(|it| it.lock().unwrap().len() > 50));
}

#[test]
fn mysqls_log_is_followed_by_the_names_of_transactions() {
    let arguments =
        ["--log-bin=bin", "--server-id=5", "--gtid-mode=ON", "--enforce-gtid-consistency=ON"];
    let Some(server) = Mysql::start(&arguments) else { return };
    let (definitions, function) = schemas();
    let mut admin = server.admin().unwrap();
    for statement in definitions.split("; ") {
        admin.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
    admin.query("SET GLOBAL log_bin_trust_function_creators = 1").unwrap();
    admin.query(function).unwrap();
    let address = || Address::Unix(server.socket());
    let mut watch = Watch::begin(&address(), Mysql::ADMIN, "").expect("it is followed");
    for (statements, want) in [
        (&["INSERT INTO a.t VALUES (1, 'x')"][..], &["a.t"][..]),
        (
            &["INSERT INTO a.p VALUES (1, 1), (2, 2)", "INSERT INTO a.c VALUES (1, 1)"],
            &["a.p", "a.c"],
        ),
        // What foreign keys change is not logged: it is known of the table that it may have been.
        (&["DELETE FROM a.p WHERE id = 1"], &["a.p", "+"]),
        (&["UPDATE a.p SET v = 9 WHERE id = 2"], &["a.p", "+", "b.audit"]),
        (&["CALL a.fill()"], &["b.audit"]),
        (&["SELECT a.told()"], &["b.audit"]),
        (&["BEGIN", "INSERT INTO a.t VALUES (2, 'x')", "ROLLBACK"], &[]),
        (
            &["XA START 'x'", "INSERT INTO a.t VALUES (3, 'x')", "XA END 'x'", "XA PREPARE 'x'"],
            &["a.t"],
        ),
        (&["XA COMMIT 'x'"], &["*"]),
        (&["FLUSH BINARY LOGS", "INSERT INTO a.t VALUES (4, 'x')"], &["a.t"]),
        (&["TRUNCATE a.t"], &["*"]),
    ] {
        for statement in statements {
            admin.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        assert_eq!(watch.ends().unwrap(), *want, "{statements:?}");
    }
    drop(watch);
    let Some(server) = Mysql::start(&["--log-bin=bin", "--server-id=5"]) else { return };
    let refused = Watch::begin(&Address::Unix(server.socket()), Mysql::ADMIN, "").err();
    assert!(refused.as_ref().is_some_and(|it| it.contains("gtid_mode")), "{refused:?}");
}

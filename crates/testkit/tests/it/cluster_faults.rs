//! What befalls servers that replicate: roles that flip, readers that stop to follow, backends that fall silent, disks
//! and doors that are full.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use bench::private_server::PrivateServer;
use rustix::process::Signal;
use testkit::client::{Client, Problem};
use testkit::cluster::{Cluster, wait};
use testkit::flifo::Flifo;
use testkit::overdue::Over;
use testkit::relay::Relay;

use crate::cluster::{CHECKS, client, flifo, one, server_id};

const SPLIT: &str = "[routing]\nmode = \"split\"\n";

/// Error 1290: the server is `read_only`.
const READ_ONLY: u16 = 1290;

fn code(problem: &Problem) -> Option<u16> {
    match problem {
        Problem::Refused { code, .. } => Some(*code),
        _ => None,
    }
}

#[test]
fn a_writer_that_is_read_only_for_a_while_is_waited_for() {
    let cluster = Cluster::replicated(1);
    // Checks are seldom: that it is noticed nevertheless is owed to what the writer answers.
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("console.sock");
    let outside = format!("[console]\nlisten = [{socket:?}]\n[http]\nlisten = []\n");
    let checks = "[checks]\ninter = \"2m\"\nfastinter = \"200ms\"\n[routing]\nhold = \"5m\"\n";
    let flifo = start(checks, &outside, &cluster.listed());
    let address = socket.to_str().unwrap().parse().unwrap();
    let mut console = Client::builder(address, "admin", "").connect().unwrap();
    let mut setup = client(&flifo).unwrap();
    setup.query("CREATE TABLE sums (client INT PRIMARY KEY, n INT)").unwrap();
    for number in 0..8 {
        setup.query(&format!("INSERT INTO sums VALUES ({number}, 0)")).unwrap();
    }
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let outcomes = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|number| {
                let (flifo, stop, done) = (&flifo, &stop, &done);
                scope.spawn(move || {
                    let mut client = client(flifo).unwrap();
                    let mut sure = 0;
                    while !stop.load(Relaxed) {
                        let text = format!("UPDATE sums SET n = n + 1 WHERE client = {number}");
                        match client.query(&text) {
                            Ok(_) => sure += 1,
                            Err(problem) => {
                                assert_eq!(code(&problem), Some(READ_ONLY), "{problem}");
                            }
                        }
                        done.fetch_add(1, Relaxed);
                    }
                    sure
                })
            })
            .collect();
        let _over = Over(&stop);
        wait("work", || done.load(Relaxed) > 100);
        // Statements of a server's own administrators are not held up by this.
        cluster.servers[0].sql("SET GLOBAL read_only = 1").unwrap();
        let flipped = Instant::now();
        wait("it to be noticed", || {
            let rows = console.query("SHOW FULL SERVERS WHERE name = 'db1'").unwrap();
            rows[0][16] != "writer"
        });
        // Far sooner than the next check, however busy the machine is.
        assert!(flipped.elapsed() < Duration::from_secs(60), "{:?}", flipped.elapsed());
        // The first answers may be those of statements that were on their way.
        let mut before = 0;
        wait("statements to be held back", || {
            before = done.load(Relaxed);
            thread::sleep(Duration::from_millis(800));
            done.load(Relaxed) == before
        });
        cluster.servers[0].sql("SET GLOBAL read_only = 0").unwrap();
        wait("work to go on", || done.load(Relaxed) > before + 100);
        stop.store(true, Relaxed);
        threads.into_iter().map(|it| it.join().unwrap()).collect::<Vec<_>>()
    });
    for (number, sure) in outcomes.into_iter().enumerate() {
        let text = format!("SELECT n FROM sums WHERE client = {number}");
        assert_eq!(one(&mut setup, &text).unwrap(), sure.to_string());
    }
}

#[test]
fn a_transaction_that_a_read_only_server_has_refused_writes_nothing_there_later() {
    let cluster = Cluster::replicated(1);
    let flifo = flifo(&cluster, SPLIT);
    let mut clients: Vec<_> = (0..3).map(|_| client(&flifo).unwrap()).collect();
    clients[0].query("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    for (id, client) in clients.iter_mut().enumerate() {
        client.query("BEGIN").unwrap();
        client.query(&format!("INSERT INTO t VALUES ({id})")).unwrap();
    }
    // What is refused for another reason leaves a transaction as it is.
    let file = "SELECT 1 INTO OUTFILE '/nowhere/file'";
    assert!(clients[0].query(file).is_err());
    clients[0].query("INSERT INTO t VALUES (10)").unwrap();
    cluster.servers[0].sql("SET GLOBAL read_only = 1").unwrap();
    let [writes, commits, undoes] = &mut clients[..] else { unreachable!() };
    for (client, text) in [
        (&mut *writes, "INSERT INTO t VALUES (11)"),
        (&mut *commits, "COMMIT"),
        (&mut *undoes, "INSERT INTO t VALUES (12)"),
    ] {
        assert_eq!(code(&client.query(text).unwrap_err()), Some(READ_ONLY), "{text}");
    }
    cluster.servers[0].sql("SET GLOBAL read_only = 0").unwrap();
    for (client, text) in [(&mut *writes, "INSERT INTO t VALUES (13)"), (&mut *commits, "COMMIT")] {
        let problem = client.query(text).unwrap_err();
        assert!(matches!(&problem, Problem::Refused { code: 1213, .. }), "{text}: {problem}");
    }
    undoes.query("ROLLBACK").unwrap();
    // Each goes on.
    wait("a write", || commits.query("INSERT INTO t VALUES (20)").is_ok());
    for client in &mut clients {
        assert_eq!(client.query("SELECT id FROM t").unwrap(), [["20"]]);
    }
}

#[test]
fn a_reader_that_stops_to_follow_is_left_until_it_has_caught_up() {
    let cluster = Cluster::replicated(2);
    let flifo = flifo(&cluster, &format!("{SPLIT}lag_max = \"500ms\"\n"));
    let mut client = client(&flifo).unwrap();
    client.query("CREATE TABLE t (id INT PRIMARY KEY, v INT)").unwrap();
    client.query("INSERT INTO t VALUES (1, 0)").unwrap();
    let seen = |from: Duration, client: &mut Client, v: &mut u32| {
        let (begun, mut on) = (Instant::now(), [0; 4]);
        while begun.elapsed() < Duration::from_secs(3) {
            *v += 1;
            client.query(&format!("UPDATE t SET v = {v} WHERE id = 1")).unwrap();
            thread::sleep(Duration::from_millis(250));
            for _ in 0..4 {
                let row = client.query("SELECT v, @@server_id FROM t WHERE id = 1").unwrap();
                assert_eq!(row[0][0], v.to_string(), "a stale read from server {}", row[0][1]);
                if begun.elapsed() > from {
                    on[row[0][1].parse::<usize>().unwrap()] += 1;
                }
            }
        }
        on
    };
    let mut v = 0;
    let on = seen(Duration::ZERO, &mut client, &mut v);
    assert!(on[2] > 0 && on[3] > 0, "{on:?}");
    cluster.servers[1].sql("STOP SLAVE SQL_THREAD").unwrap();
    let on = seen(Duration::from_secs(1), &mut client, &mut v);
    assert!(on[2] == 0 && on[3] > 0, "{on:?}");
    cluster.servers[1].sql("START SLAVE SQL_THREAD").unwrap();
    wait("it to be read from again", || server_id(&mut client) == "2");
    let on = seen(Duration::ZERO, &mut client, &mut v);
    assert!(on[2] > 0 && on[3] > 0, "{on:?}");
}

#[test]
fn a_frozen_writer_is_found_and_is_the_writer_again_when_it_thaws() {
    let cluster = Cluster::replicated(1);
    let flifo = flifo(&cluster, SPLIT);
    let mut client = client(&flifo).unwrap();
    client.query("CREATE TABLE t (id INT PRIMARY KEY, v INT)").unwrap();
    client.query("INSERT INTO t VALUES (1, 0)").unwrap();
    cluster.signal(0, Signal::STOP);
    let frozen = Instant::now();
    // On a busy machine it stops a moment later.
    let mut ran = 0;
    let problem = loop {
        match client.query("UPDATE t SET v = v + 1") {
            Ok(_) => ran += 1,
            Err(problem) => break problem,
        }
    };
    // Three checks of half a second each, an interval, and what a busy machine adds.
    assert!(frozen.elapsed() < Duration::from_secs(60), "{:?}", frozen.elapsed());
    assert!(problem.to_string().contains("may have been executed"), "{problem}");
    // What was not sent is held back, and runs once.
    let held = thread::spawn(move || client.query("UPDATE t SET v = v + 10").map(|_| client));
    thread::sleep(Duration::from_millis(500));
    assert!(!held.is_finished());
    cluster.signal(0, Signal::CONT);
    let mut client = held.join().unwrap().unwrap();
    let v: u32 = one(&mut client, "SELECT v FROM t").unwrap().parse().unwrap();
    assert!(v == ran + 10 || v == ran + 11, "{v}, {ran} before");
}

/// The network swallows everything: no reset, no refusal.
#[test]
fn a_backend_that_falls_silent_is_found_and_reads_go_elsewhere() {
    let cluster = Cluster::replicated(2);
    let relays: Vec<_> = cluster.servers.iter().map(|server| Relay::to(server.port())).collect();
    let flifo = behind(&relays, SPLIT);
    let mut client = client(&flifo).unwrap();
    client.query("CREATE TABLE t (id INT PRIMARY KEY, v INT)").unwrap();
    wait("a read on the first reader", || server_id(&mut client) == "2");
    relays[1].set_silent(true);
    let begun = Instant::now();
    let mut longest = Duration::ZERO;
    while begun.elapsed() < Duration::from_secs(5) {
        let asked = Instant::now();
        server_id(&mut client);
        longest = longest.max(asked.elapsed());
    }
    assert!(longest < Duration::from_secs(4), "{longest:?}");
    assert_eq!(server_id(&mut client), "3");
    relays[1].set_silent(false);
    wait("it to be read from again", || server_id(&mut client) == "2");
    // The writer's backends break, all at once, again and again: no statement runs twice.
    client.query("INSERT INTO t VALUES (1, 0)").unwrap();
    let (mut sure, mut unsure) = (0, 0);
    for turn in 0..200 {
        if turn % 10 == 0 {
            relays[0].cut();
        }
        match client.query("UPDATE t SET v = v + 1 WHERE id = 1") {
            Ok(_) => sure += 1,
            Err(problem) => {
                assert!(problem.to_string().contains("may have been executed"), "{problem}");
                unsure += 1;
            }
        }
    }
    let v: u32 = one(&mut client, "SELECT v FROM t WHERE id = 1").unwrap().parse().unwrap();
    assert!((sure..=sure + unsure).contains(&v), "{sure} to {sure} + {unsure}, and it is {v}");
    assert!(sure >= 100, "{sure}");
}

/// Flifo in front of servers behind relays.
fn behind(relays: &[Relay], more: &str) -> Flifo {
    let listed: String = relays
        .iter()
        .enumerate()
        .map(|(at, relay)| {
            let (number, port) = (at + 1, relay.port());
            format!("[[servers]]\nname = \"db{number}\"\naddress = \"127.0.0.1:{port}\"\n")
        })
        .collect();
    start(CHECKS, more, &listed)
}

fn start(checks: &str, more: &str, listed: &str) -> Flifo {
    let (user, password) = (PrivateServer::USER, Cluster::password());
    Flifo::start(&format!(
        "workers = 2\n{checks}{more}\n{listed}[[users]]\nname = \"{user}\"\npassword = \"{password}\"\n"
    ))
}

#[test]
fn a_full_table_space_is_the_clients_affair_and_not_the_servers_death() {
    let cluster = Cluster::replicated_with(
        1,
        &["--innodb-data-file-path=ibdata1:12M:autoextend:max:20M", "--innodb-file-per-table=0"],
    );
    let flifo = flifo(&cluster, SPLIT);
    let mut client = client(&flifo).unwrap();
    client.query("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v LONGBLOB)").unwrap();
    let (mut rows, mut refused) = (0, 0);
    for _ in 0..40 {
        match client.query("INSERT INTO t (v) VALUES (REPEAT('x', 1000000))") {
            Ok(_) => rows += 1,
            Err(problem) => {
                // ER_RECORD_FILE_FULL, or ER_DISK_FULL.
                assert!(matches!(code(&problem), Some(1114 | 1021)), "{problem}");
                refused += 1;
            }
        }
    }
    assert!(rows > 0 && refused > 0, "{rows} rows, {refused} refused");
    assert_eq!(one(&mut client, "SELECT COUNT(*) FROM t").unwrap(), rows.to_string());
    let log = flifo.log();
    assert!(!log.contains("\"server\":\"db1\",\"state\":\"down\""), "{log}");
}

#[test]
fn a_server_with_too_many_connections_is_busy_and_not_down() {
    let cluster = Cluster::replicated(2);
    let flifo = flifo(&cluster, SPLIT);
    let mut clients: Vec<_> = (0..8).map(|_| client(&flifo).unwrap()).collect();
    wait("a read on the first reader", || server_id(&mut clients[0]) == "2");
    // Others have taken all its connections.
    cluster.servers[1].sql("SET GLOBAL max_connections = 10").unwrap();
    let others = crowd(&cluster.servers[1]);
    let kill = "SELECT GROUP_CONCAT('KILL ', id SEPARATOR ';') FROM information_schema.processlist \
                WHERE user = 'sbtest' AND info IS NULL AND db IS NULL";
    // Those of the checks and of Flifo's clients are lost; they are not to be had again.
    let ours = cluster.servers[1].sql(kill).unwrap();
    let more = thread::scope(|scope| {
        let crowd = scope.spawn(|| crowd(&cluster.servers[1]));
        // It may have killed the one that asks for it.
        let _ = cluster.servers[1].sql(ours.trim());
        crowd.join().unwrap()
    });
    let full = Instant::now();
    while full.elapsed() < Duration::from_secs(3) {
        for client in &mut clients {
            one(client, "SELECT SLEEP(0.01), @@server_id").unwrap();
        }
    }
    let log = flifo.log();
    assert!(!log.contains("\"state\":\"down\""), "{log}");
    drop((others, more));
    wait("it to be read from again", || clients.iter_mut().any(|it| server_id(it) == "2"));
}

/// Clients that take connections until there are none.
fn crowd(server: &PrivateServer) -> Vec<Client> {
    let address = format!("127.0.0.1:{}", server.port());
    let connect = || {
        Client::builder(address.parse().unwrap(), PrivateServer::USER, Cluster::password())
            .connect()
    };
    (0..20).map_while(|_| connect().ok()).collect()
}

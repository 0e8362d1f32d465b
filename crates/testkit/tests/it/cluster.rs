//! Several real servers behind Flifo: which one is written to and which are read from, and what clients notice when one
//! fails.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use bench::private_server::PrivateServer;
use rustix::process::Signal;
use testkit::client::{Client, Problem};
use testkit::cluster::{Cluster, wait};
use testkit::flifo::Flifo;
use testkit::overdue::Over;

pub(crate) const CHECKS: &str = "[checks]\ninter = \"100ms\"\nfastinter = \"100ms\"\ndowninter = \"100ms\"\n\
                      timeout = \"500ms\"\n";

/// Flifo in front of a cluster.
pub(crate) fn flifo(cluster: &Cluster, more: &str) -> Flifo {
    let (user, password) = (PrivateServer::USER, Cluster::password());
    Flifo::start(&format!(
        "workers = 2\n{CHECKS}{more}\n{}[[users]]\nname = \"{user}\"\npassword = \"{password}\"\n",
        cluster.listed()
    ))
}

/// Flifo in front of a cluster, splitting reads, with its console beside it; the fields end in this order.
pub(crate) struct Watched {
    pub(crate) console: Client,
    pub(crate) flifo: Flifo,
    pub(crate) cluster: Cluster,
    _folder: tempfile::TempDir,
}

impl Watched {
    /// `routing` is more of that section.
    pub(crate) fn start(cluster: Cluster, routing: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("console.sock");
        let more = format!(
            "[routing]\nmode = \"split\"\n{routing}[console]\nlisten = [{socket:?}]\n[http]\nlisten = []\n"
        );
        let flifo = flifo(&cluster, &more);
        let address = socket.to_str().unwrap().parse().unwrap();
        let console = Client::builder(address, "admin", "").connect().unwrap();
        Self { console, flifo, cluster, _folder: folder }
    }

    /// Waits until the roles begin so.
    pub(crate) fn wait_for_roles(&mut self, roles: &[&str]) {
        // A cluster takes its time to agree on which node is gone, and more beside other tests.
        const PATIENCE: Duration = Duration::from_secs(90);
        let begun = Instant::now();
        loop {
            let are = roles_of(&mut self.console);
            if are.iter().zip(roles).all(|(is, wanted)| is.starts_with(wanted)) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "waited in vain for {roles:?}: {are:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// What servers are, in their order.
pub(crate) fn roles_of(console: &mut Client) -> Vec<String> {
    /// The column of `SHOW FULL SERVERS`.
    const ROLE: usize = 16;
    let rows = console.query("SHOW FULL SERVERS").unwrap();
    rows.into_iter().map(|row| row[ROLE].clone()).collect()
}

pub(crate) fn client(flifo: &Flifo) -> Result<Client, Problem> {
    let address = format!("127.0.0.1:{}", flifo.port()).parse().unwrap();
    Client::builder(address, PrivateServer::USER, Cluster::password())
        .schema(PrivateServer::DATABASE)
        .connect()
}

pub(crate) fn one(client: &mut Client, text: &str) -> Result<String, Problem> {
    let rows = client.query(text)?;
    Ok(rows.first().and_then(|row| row.first()).cloned().unwrap_or_default())
}

pub(crate) fn server_id(client: &mut Client) -> String {
    one(client, "SELECT @@server_id").unwrap()
}

#[test]
fn reads_are_split_and_a_session_reads_what_it_has_written() {
    let cluster = Cluster::replicated(2);
    let flifo = flifo(&cluster, "[routing]\nmode = \"split\"\n");
    let mut client = client(&flifo).unwrap();
    client.query("CREATE TABLE t (id INT PRIMARY KEY, v INT)").unwrap();
    client.query("INSERT INTO t VALUES (1, 0)").unwrap();
    let mut on_readers = 0;
    for turn in 1..=2000 {
        client.query(&format!("UPDATE t SET v = {turn} WHERE id = 1")).unwrap();
        let row = client.query("SELECT v, @@server_id FROM t WHERE id = 1").unwrap();
        assert_eq!(row[0][0], turn.to_string(), "a stale read from server {}", row[0][1]);
        on_readers += u32::from(row[0][1] != "1");
        if turn % 100 == 0 {
            // Now and then the client pauses.
            thread::sleep(Duration::from_millis(300));
            let row = client.query("SELECT v, @@server_id FROM t WHERE id = 1").unwrap();
            assert_eq!(row[0][0], turn.to_string());
            on_readers += u32::from(row[0][1] != "1");
        }
    }
    assert!(on_readers >= 10, "{on_readers} reads on readers");
    // What may do more than read goes to the writer.
    thread::sleep(Duration::from_millis(500));
    for text in [
        "SELECT @@server_id, v FROM t FOR UPDATE",
        "SELECT @@server_id, v FROM t LOCK IN SHARE MODE",
        "SELECT @@server_id, @a := 1",
        "SELECT @@server_id, GET_LOCK('x', 0)",
    ] {
        let mut other = self::client(&flifo).unwrap();
        assert_eq!(one(&mut other, text).unwrap(), "1", "{text}");
    }
    let mut other = self::client(&flifo).unwrap();
    other.query("START TRANSACTION").unwrap();
    assert_eq!(server_id(&mut other), "1", "in a transaction");
    other.query("COMMIT").unwrap();
    let mut seen = std::collections::BTreeSet::new();
    let mut reader = self::client(&flifo).unwrap();
    // The login has asked the writer for the schema, and has written nothing.
    for _ in 0..20 {
        seen.insert(server_id(&mut reader));
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["2", "3"]);
}

#[test]
fn the_writer_is_killed_under_load_and_no_increment_is_lost_or_doubled() {
    let mut cluster = Cluster::replicated(2);
    // The writer answers when a reader has what was written: else what dies with it was acknowledged.
    let wait_for_one = "SET GLOBAL rpl_semi_sync_master_enabled = 1, \
                        rpl_semi_sync_master_timeout = 60000, \
                        rpl_semi_sync_master_wait_point = AFTER_SYNC";
    let answer = "SET GLOBAL rpl_semi_sync_slave_enabled = 1";
    for reader in [1, 2] {
        cluster.servers[reader].sql(&format!("{answer}; STOP SLAVE; START SLAVE")).unwrap();
    }
    cluster.servers[0].sql(wait_for_one).unwrap();
    let flifo = flifo(&cluster, "");
    const CLIENTS: u32 = 16;
    let mut setup = client(&flifo).unwrap();
    setup.query("CREATE TABLE ledger (client INT, turn INT, PRIMARY KEY (client, turn))").unwrap();
    setup.query("CREATE TABLE sums (client INT PRIMARY KEY, n INT)").unwrap();
    for number in 0..CLIENTS {
        setup.query(&format!("INSERT INTO sums VALUES ({number}, 0)")).unwrap();
    }
    cluster.wait_for(1, 0);
    cluster.wait_for(2, 0);
    let (stop, last_write) = (AtomicBool::new(false), AtomicU64::new(0));
    let begun = Instant::now();
    let (outcomes, writer) = thread::scope(|scope| {
        let _over = Over(&stop);
        let threads: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (flifo, stop, last_write) = (&flifo, &stop, &last_write);
                scope.spawn(move || {
                    let mut client = client(flifo).unwrap();
                    // Writes that were acknowledged, and writes whose outcome is unknown.
                    let (mut sure, mut unsure) = (Vec::new(), Vec::new());
                    for turn in 0_u32.. {
                        if stop.load(Relaxed) {
                            break;
                        }
                        let text = format!("UPDATE sums SET n = n + 1 WHERE client = {number}");
                        match client.query(&text) {
                            Ok(_) => sure.push(turn),
                            Err(problem) => {
                                let said = problem.to_string();
                                assert!(said.contains("may have been executed"), "{said}");
                                unsure.push(turn);
                            }
                        }
                        let now = begun.elapsed().as_millis() as u64;
                        last_write.fetch_max(now, Relaxed);
                    }
                    (sure, unsure)
                })
            })
            .collect();
        thread::sleep(Duration::from_secs(1));
        cluster.servers[0].kill().unwrap();
        let killed = begun.elapsed().as_millis() as u64;
        let before = Instant::now();
        let writer = cluster.promote_the_furthest(&[1, 2]);
        let promoted = before.elapsed();
        // Statements were held back meanwhile, and go on.
        wait("writes to go on", || {
            last_write.load(Relaxed) > killed + promoted.as_millis() as u64 + 300
        });
        thread::sleep(Duration::from_secs(1));
        stop.store(true, Relaxed);
        let outcomes: Vec<_> = threads.into_iter().map(|it| it.join().unwrap()).collect();
        (outcomes, writer)
    });
    let mut checked = client(&flifo).unwrap();
    let mut errors = 0;
    for (number, (sure, unsure)) in outcomes.iter().enumerate() {
        let text = format!("SELECT n FROM sums WHERE client = {number}");
        let found: usize = one(&mut checked, &text).unwrap().parse().unwrap();
        let (least, most) = (sure.len(), sure.len() + unsure.len());
        assert!((least..=most).contains(&found), "{number}: {found} of {least} to {most}");
        // Each client had one statement in flight when the writer died.
        assert!(unsure.len() <= 1, "{number}: {unsure:?}");
        errors += unsure.len();
    }
    assert!(errors <= CLIENTS as usize);
    // The old writer comes back, believes that it is the writer still, and is not used.
    cluster.servers[0].start().unwrap();
    thread::sleep(Duration::from_secs(2));
    for _ in 0..10 {
        assert_eq!(server_id(&mut checked), (writer + 1).to_string());
        checked.query("UPDATE sums SET n = n + 1 WHERE client = 0").unwrap();
    }
}

#[test]
fn diagnostics_on_a_readers_backend_keep_nobody_from_writing() {
    let cluster = Cluster::replicated(1);
    let flifo = flifo(&cluster, "[routing]\nmode = \"split\"\n");
    let mut client = client(&flifo).unwrap();
    client.query("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    for turn in 0..5 {
        wait("a read on the reader", || server_id(&mut client) == "2");
        let row = client.query("SELECT @@server_id, 1 / 0").unwrap();
        assert_eq!(row[0][0], "2", "it leaves a warning there");
        if turn % 2 == 0 {
            let rows = client.query("SHOW WARNINGS").unwrap();
            assert_eq!(rows[0][1], "1365", "{rows:?}");
        }
        client.query(&format!("INSERT INTO t VALUES ({turn})")).unwrap();
        assert!(client.query(&format!("INSERT INTO t VALUES ({turn})")).is_err());
        let rows = client.query("SHOW WARNINGS").unwrap();
        assert_eq!(rows[0][1], "1062", "{rows:?}");
        assert_eq!(one(&mut client, "SELECT COUNT(*) FROM t").unwrap(), (turn + 1).to_string());
    }
}

#[test]
fn a_client_is_told_the_gtid_of_its_own_last_write() {
    let cluster = Cluster::replicated(1);
    let flifo = flifo(&cluster, "");
    let mut clients = [client(&flifo).unwrap(), client(&flifo).unwrap()];
    clients[0].query("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    let mut id = 0;
    for _ in 0..20 {
        let told = clients.each_mut().map(|client| {
            id += 1;
            client.query(&format!("INSERT INTO t VALUES ({id})")).unwrap();
            cluster.servers[0].sql("SELECT @@global.gtid_binlog_pos").unwrap().trim().to_owned()
        });
        for (client, told) in clients.iter_mut().zip(told) {
            assert_eq!(one(client, "SELECT @@last_gtid").unwrap(), told);
            for list in ["LIKE 'last\\_gtid'", "WHERE Variable_name = 'last_gtid'"] {
                let rows = client.query(&format!("SHOW VARIABLES {list}")).unwrap();
                assert_eq!(rows, [["last_gtid", &told]], "{list}");
            }
            assert_eq!(
                one(client, "SELECT 1 FROM DUAL WHERE @@session.last_gtid <> ''").unwrap(),
                "1"
            );
        }
    }
    let mut other = client(&flifo).unwrap();
    assert_eq!(one(&mut other, "SELECT @@last_gtid").unwrap(), "", "it has written nothing");
    let all = other.query("SHOW SESSION VARIABLES").unwrap();
    let direct = cluster.servers[0].sql("SHOW SESSION VARIABLES").unwrap();
    let is_listed = |row: &Vec<String>| direct.contains(&format!("{}\t", row[0]));
    assert!(all.len() > 500 && all.iter().all(is_listed), "{all:?}");
    assert!(all.iter().any(|row| row[0] == "last_gtid" && row[1].is_empty()));
}

#[test]
fn a_frozen_reader_is_found_and_its_reads_go_elsewhere() {
    let cluster = Cluster::replicated(2);
    let flifo = flifo(&cluster, "[routing]\nmode = \"split\"\n");
    let mut clients: Vec<_> = (0..4).map(|_| client(&flifo).unwrap()).collect();
    wait("reads on both readers", || {
        let mut seen = std::collections::BTreeSet::new();
        for client in &mut clients {
            seen.extend((0..4).map(|_| server_id(client)));
        }
        seen.into_iter().collect::<Vec<_>>() == ["2", "3"]
    });
    cluster.signal(1, Signal::STOP);
    let frozen = Instant::now();
    let longest = clients
        .into_iter()
        .map(|mut client| {
            thread::spawn(move || {
                let mut longest = Duration::ZERO;
                while frozen.elapsed() < Duration::from_secs(6) {
                    let begun = Instant::now();
                    one(&mut client, "SELECT @@server_id").unwrap();
                    longest = longest.max(begun.elapsed());
                    thread::sleep(Duration::from_millis(5));
                }
                assert_eq!(server_id(&mut client), "3");
                longest
            })
        })
        .collect::<Vec<_>>()
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .max()
        .unwrap();
    cluster.signal(1, Signal::CONT);
    // Three checks of half a second each, and what a busy machine adds.
    assert!(longest < Duration::from_secs(4), "{longest:?}");
    let mut client = client(&flifo).unwrap();
    wait("the reader to come back", || server_id(&mut client) == "2");
}

#[test]
fn servers_are_restarted_one_after_the_other_and_nobody_notices() {
    let mut cluster = Cluster::replicated(2);
    let console = tempfile::tempdir().unwrap();
    let socket = console.path().join("console.sock");
    let more = format!(
        "[routing]\nmode = \"split\"\n[console]\nlisten = [{socket:?}]\n[http]\nlisten = []\n"
    );
    let flifo = flifo(&cluster, &more);
    let mut setup = client(&flifo).unwrap();
    setup.query("CREATE TABLE t (id INT PRIMARY KEY, v INT)").unwrap();
    for id in 0..8 {
        setup.query(&format!("INSERT INTO t VALUES ({id}, 0)")).unwrap();
    }
    let stop = AtomicBool::new(false);
    let done = AtomicU64::new(0);
    thread::scope(|scope| {
        let _over = Over(&stop);
        for id in 0..8 {
            let (flifo, stop, done) = (&flifo, &stop, &done);
            scope.spawn(move || {
                let mut client = client(flifo).unwrap();
                while !stop.load(Relaxed) {
                    client.query("START TRANSACTION").unwrap();
                    client.query(&format!("UPDATE t SET v = v + 1 WHERE id = {id}")).unwrap();
                    client.query("COMMIT").unwrap();
                    one(&mut client, &format!("SELECT v FROM t WHERE id = {id}")).unwrap();
                    done.fetch_add(1, Relaxed);
                }
            });
        }
        let address = socket.to_str().unwrap().parse().unwrap();
        let mut console = Client::builder(address, "admin", "").connect().unwrap();
        let backends = |console: &mut Client, name: &str| {
            let text = format!("SHOW FULL SERVERS WHERE name = '{name}'");
            console.query(&text).unwrap()[0][11].parse::<u32>().unwrap()
        };
        // The readers first.
        for at in [1, 2] {
            let name = format!("db{}", at + 1);
            console.query(&format!("DRAIN {name}")).unwrap();
            wait("its backend connections to be gone", || backends(&mut console, &name) == 0);
            cluster.servers[at].stop().unwrap();
            cluster.servers[at].start().unwrap();
            console.query(&format!("ENABLE {name}")).unwrap();
            wait("it to be used again", || {
                let rows =
                    console.query(&format!("SHOW FULL SERVERS WHERE name = '{name}'")).unwrap();
                rows[0][2] == "up" && rows[0][16] == "reader"
            });
        }
        // Then the writer, whose place a reader takes.
        console.query("DRAIN db1").unwrap();
        wait("its backend connections to be gone", || backends(&mut console, "db1") == 0);
        cluster.servers[0].sql("SET GLOBAL read_only = 1").unwrap();
        cluster.wait_for(1, 0);
        cluster.promote(1, &[2, 0]);
        cluster.servers[0].replace_argument("--read-only", "--read-only=1");
        cluster.servers[0].stop().unwrap();
        cluster.servers[0].start().unwrap();
        console.query("ENABLE db1").unwrap();
        let before = done.load(Relaxed);
        wait("work to go on", || done.load(Relaxed) > before + 100);
        stop.store(true, Relaxed);
    });
    let mut client = client(&flifo).unwrap();
    client.query("START TRANSACTION").unwrap();
    assert_eq!(server_id(&mut client), "2");
}

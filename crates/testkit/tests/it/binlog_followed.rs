//! A Flifo that follows its servers' binary logs: what it shows of that, and when it does not follow.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use bench::private_server::PrivateServer;
use rustix::process::Signal;
use testkit::client::Client;
use testkit::cluster::{Cluster, wait};
use testkit::flifo::Flifo;

use crate::cluster::{CHECKS, client, flifo};

/// The columns of `SHOW FULL BINLOGS`.
const SERVER: usize = 1;
const STATE: usize = 2;
const AGE: usize = 3;
const TRANSACTIONS: usize = 5;
const GAPS: usize = 7;
const REASON: usize = 8;

/// The user of checks may follow.
fn grant(server: &PrivateServer) {
    let user = PrivateServer::USER;
    let text = format!("GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO {user}@'%'");
    server.sql(&text).expect("rights");
}

/// Flifo with its console; the fields end in this order.
struct Scene {
    console: Client,
    flifo: Flifo,
    folder: tempfile::TempDir,
}

impl Scene {
    fn start(start: impl FnOnce(&str) -> Flifo) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("console.sock");
        let flifo = start(&format!("[console]\nlisten = [{socket:?}]\n[http]\nlisten = []\n"));
        let address = socket.to_str().unwrap().parse().unwrap();
        let console = Client::builder(address, "admin", "").connect().unwrap();
        Self { console, flifo, folder }
    }

    fn before(cluster: &Cluster, cache: &str) -> Self {
        grant(&cluster.servers[0]);
        Self::start(|more| flifo(cluster, &format!("[cache]\nbinlog = \"on\"\n{cache}{more}")))
    }

    fn row(&mut self) -> Vec<String> {
        self.console.query("SHOW FULL BINLOGS").unwrap().remove(0)
    }

    fn count(&mut self, column: usize) -> u64 {
        self.row()[column].parse().expect("a number")
    }

    fn wait_for(&mut self, state: &str, server: &str) {
        wait(&format!("{state} of {server}"), || {
            let row = self.row();
            row[STATE] == state && (server.is_empty() || row[SERVER] == server)
        });
    }
}

#[test]
fn the_writer_is_followed_through_restarts_and_a_failover() {
    let mut cluster = Cluster::replicated(2);
    let mut scene = Scene::before(&cluster, "binlog_lag_max = \"500ms\"\n");
    scene.wait_for("followed", "db1");
    assert_eq!(scene.count(TRANSACTIONS), 0);
    let text = "CREATE TABLE bench.t (id INT PRIMARY KEY); INSERT INTO bench.t VALUES (1); INSERT INTO bench.t VALUES (2)";
    cluster.servers[0].sql(&text.replace("bench", PrivateServer::DATABASE)).unwrap();
    wait("what was written to be known", || scene.count(TRANSACTIONS) == 3);
    let age: f64 = scene.row()[AGE].parse().unwrap();
    assert!(age < 5.0, "{age} s");
    assert_eq!(scene.count(GAPS), 0);
    // It is stopped and started again, with a file that follows.
    cluster.servers[0].stop().unwrap();
    scene.wait_for("not followed", "");
    cluster.servers[0].start().unwrap();
    scene.wait_for("followed", "db1");
    assert!(scene.count(GAPS) >= 1);
    cluster.wait_for(1, 0);
    cluster.wait_for(2, 0);
    cluster.servers[0].kill().unwrap();
    scene.wait_for("not followed", "");
    let new = cluster.promote_the_furthest(&[1, 2]);
    scene.wait_for("followed", &format!("db{}", new + 1));
    let before = scene.count(TRANSACTIONS);
    let text = format!("INSERT INTO {}.t VALUES (3)", PrivateServer::DATABASE);
    cluster.servers[new].sql(&text).unwrap();
    wait("what was written to be known", || scene.count(TRANSACTIONS) == before + 1);
    let log = scene.flifo.log();
    assert!(log.contains("the server's binary log is followed"), "{log}");
    assert!(log.contains("is not followed"), "{log}");
}

#[test]
fn a_server_that_hangs_is_late_and_then_not_followed() {
    let cluster = Cluster::replicated(0);
    let mut scene = Scene::before(&cluster, "binlog_lag_max = \"100ms\"\n");
    scene.wait_for("followed", "db1");
    let pid = cluster.servers[0].pid().expect("it runs");
    let signal = |signal| {
        let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a process");
        rustix::process::kill_process(pid, signal).expect("a signal");
    };
    signal(Signal::STOP);
    wait("what is known to be late", || scene.row()[STATE] != "followed");
    scene.wait_for("not followed", "");
    signal(Signal::CONT);
    scene.wait_for("followed", "db1");
}

#[test]
fn a_user_that_may_not_follow_is_named_with_what_it_needs() {
    let cluster = Cluster::replicated(0);
    let weak = "CREATE USER weak@'%' IDENTIFIED BY 'x'";
    cluster.servers[0].sql(weak).unwrap();
    let configuration = "binlog_user = \"weak\"\nbinlog_server_id = 4711\n[[users]]\nname = \"weak\"\npassword = \"x\"\n";
    let mut scene = Scene::before(&cluster, configuration);
    wait("the reason", || scene.row()[REASON].contains("BINLOG MONITOR"));
    assert_eq!(scene.row()[STATE], "not followed");
    cluster.servers[0].sql("GRANT BINLOG MONITOR ON *.* TO weak@'%'").unwrap();
    wait("the next reason", || scene.row()[REASON].contains("REPLICATION SLAVE"));
    let log = scene.flifo.log();
    assert!(log.contains("ERROR") && log.contains("nothing is cached"), "{log}");
    cluster.servers[0].sql("GRANT REPLICATION SLAVE ON *.* TO weak@'%'").unwrap();
    scene.wait_for("followed", "db1");
    let replicas = cluster.servers[0].sql("SHOW SLAVE HOSTS").unwrap();
    assert!(replicas.contains("4711\tflifo"), "{replicas}");
}

#[test]
fn a_reload_begins_and_ends_it() {
    let server = PrivateServer::builder().argument("--skip-log-bin").start().unwrap();
    grant(&server);
    let (user, password) = (PrivateServer::USER, server.password());
    let rest = format!(
        "{CHECKS}[server]\naddress = {:?}\n[[users]]\nname = \"{user}\"\npassword = \"{password}\"\n",
        server.socket()
    );
    let mut scene = Scene::start(|more| Flifo::start(&format!("{rest}{more}")));
    assert_eq!(scene.row()[REASON], "cache.binlog is off");
    scene.console.query("SET cache.binlog = 'on'").unwrap();
    wait("the reason", || scene.row()[REASON].contains("no binary log"));
    scene.console.query("SET cache.binlog = 'off'").unwrap();
    wait("the end", || scene.row()[REASON] == "cache.binlog is off");
    assert!(fs::read_dir(scene.folder.path()).is_ok());
    thread::sleep(Duration::from_millis(200));
    assert_eq!(scene.row()[STATE], "not followed");
}

/// A Flifo that keeps replies, whose users read definitions for themselves, and one of its clients.
struct KeptScene {
    scene: Scene,
    cluster: Cluster,
    client: Client,
}

impl KeptScene {
    const READ: &str = "SELECT COUNT(*) FROM kept";

    fn start() -> Self {
        let cluster = Cluster::replicated(0);
        let server = &cluster.servers[0];
        let (user, schema) = (PrivateServer::USER, PrivateServer::DATABASE);
        let rights = format!("GRANT ALL ON *.* TO {user}@'%'");
        server.sql(&format!("{rights}; CREATE TABLE {schema}.kept (id INT)")).unwrap();
        server.sql(&format!("CREATE TABLE {schema}.other (id INT)")).unwrap();
        let rule = "[[rules]]\nname = \"kept\"\ncache = \"10m\"\nmatch.kind = \"read\"\n";
        let mut scene = Scene::before(&cluster, rule);
        scene.wait_for("followed", "db1");
        let client = client(&scene.flifo).unwrap();
        let mut kept = Self { scene, cluster, client };
        kept.wait_for_hit("the first reply");
        kept
    }

    fn count(&mut self, name: &str) -> u64 {
        let rows = self.scene.console.query(&format!("SHOW STATS LIKE '{name}'")).unwrap();
        rows[0][1].parse().expect("a number")
    }

    /// How long it takes until replies are kept and given.
    fn wait_for_hit(&mut self, behind: &str) -> Duration {
        let (begun, before) = (Instant::now(), self.count("cache_hits"));
        wait(&format!("a reply that is kept behind {behind}"), || {
            self.client.query(Self::READ).unwrap();
            self.client.query(Self::READ).unwrap();
            thread::sleep(Duration::from_millis(20));
            self.count("cache_hits") > before
        });
        begun.elapsed()
    }

    fn direct(&self, text: &str) {
        let text = text.replace("kept.", &format!("{}.", PrivateServer::DATABASE));
        self.cluster.servers[0].sql(&text).unwrap();
    }
}

#[test]
fn texts_in_the_log_that_define_nothing_end_replies_and_leave_the_cache_on() {
    let mut kept = KeptScene::start();
    for text in [
        "SET SESSION binlog_format = 'STATEMENT'; INSERT INTO kept.other VALUES (1)",
        "SET SESSION binlog_format = 'STATEMENT'; UPDATE kept.other SET id = 2",
        "SET SESSION binlog_format = 'STATEMENT'; REPLACE INTO kept.other VALUES (3)",
        "SET SESSION binlog_format = 'STATEMENT'; DELETE FROM kept.other",
        "TRUNCATE TABLE kept.kept",
    ] {
        let before = kept.count("cache_not.definitions");
        let seen = kept.scene.count(TRANSACTIONS);
        kept.direct(text);
        wait("what was written to be known", || kept.scene.count(TRANSACTIONS) > seen);
        kept.wait_for_hit(text);
        assert_eq!(kept.count("cache_not.definitions"), before, "{text}");
    }
    // What was written ends what is kept all the same.
    assert_eq!(kept.client.query(KeptScene::READ).unwrap(), [["0"]]);
    let text = "SET SESSION binlog_format = 'STATEMENT'; INSERT INTO kept.kept VALUES (1)";
    kept.direct(text);
    wait("the row", || kept.client.query(KeptScene::READ).unwrap() == [["1"]]);
}

#[test]
fn behind_definitions_and_losses_the_cache_is_off_for_a_moment() {
    let mut kept = KeptScene::start();
    let mut took = Vec::new();
    kept.direct("ALTER TABLE kept.other ADD COLUMN v INT");
    took.push(kept.wait_for_hit("a definition"));
    for number in 0..2 {
        let gaps = kept.scene.count(GAPS);
        let text = "SELECT ID FROM information_schema.PROCESSLIST WHERE COMMAND = 'Binlog Dump'";
        let thread = kept.cluster.servers[0].sql(text).unwrap();
        kept.direct(&format!("KILL {}", thread.trim()));
        wait("the loss", || kept.scene.count(GAPS) > gaps);
        took.push(kept.wait_for_hit(&format!("loss {number}")));
    }
    // Not so long as definitions are believed that no statement may have changed.
    assert!(took.iter().all(|it| *it < Duration::from_secs(30)), "{took:?}");
    println!("off for {took:?}");
}

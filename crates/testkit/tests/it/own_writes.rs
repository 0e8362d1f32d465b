//! A client that reads its own writes finds them, whatever becomes of the servers: what was acknowledged and is not
//! known to be on a server is not read there, and a server that lacks it is not written to unless an operator says so.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use testkit::cluster::{Cluster, wait};
use testkit::overdue::Over;

use crate::cluster::{Watched, client, one, roles_of, server_id};

#[test]
fn a_writer_that_becomes_read_only_reads_for_those_who_have_written_there() {
    let cluster = Cluster::replicated(1);
    let mut scene = Watched::start(cluster, "stay = \"200ms\"\nhold = \"1s\"\n");
    scene.wait_for_roles(&["writer", "reader"]);
    let mut client = client(&scene.flifo).unwrap();
    client.query("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    scene.cluster.wait_for(1, 0);
    scene.cluster.servers[1].sql("STOP SLAVE SQL_THREAD").unwrap();
    client.query("INSERT INTO t VALUES (1)").unwrap();
    scene.cluster.servers[0].sql("SET GLOBAL read_only = 1").unwrap();
    scene.wait_for_roles(&["reader", "reader"]);
    for _ in 0..50 {
        let rows = client.query("SELECT id, @@server_id FROM t").unwrap();
        assert_eq!(rows, [["1", "1"]], "a stale read");
        thread::sleep(Duration::from_millis(10));
    }
    // A write that is refused says no more of where the client's writes are.
    assert!(client.query("INSERT INTO t VALUES (2)").is_err());
    for _ in 0..50 {
        let rows = client.query("SELECT id, @@server_id FROM t").unwrap();
        assert_eq!(rows, [["1", "1"]], "a stale read");
    }
    // The reader catches up, and may read.
    scene.cluster.servers[1].sql("START SLAVE SQL_THREAD").unwrap();
    wait("a read on the reader", || {
        let rows = client.query("SELECT id, @@server_id FROM t").unwrap();
        assert_eq!(rows[0][0], "1");
        rows[0][1] == "2"
    });
}

#[test]
fn a_server_that_lacks_what_was_acknowledged_is_the_writer_once_it_is_confirmed() {
    let cluster = Cluster::replicated(1);
    let mut scene = Watched::start(cluster, "hold = \"1s\"\n");
    scene.wait_for_roles(&["writer", "reader"]);
    let mut client = client(&scene.flifo).unwrap();
    client.query("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    scene.cluster.wait_for(1, 0);
    assert!(scene.console.query("CONFIRM WRITER db2").is_err(), "it is read_only");
    scene.cluster.servers[1].sql("STOP SLAVE").unwrap();
    client.query("INSERT INTO t VALUES (1)").unwrap();
    scene.cluster.servers[0].kill().unwrap();
    scene.cluster.servers[1].sql("SET GLOBAL read_only = 0").unwrap();
    scene.wait_for_roles(&[
        "not used: down",
        "not used: it lacks what was acknowledged: it has 0-1-",
    ]);
    let problem = client.query("INSERT INTO t VALUES (2)").unwrap_err().to_string();
    assert!(problem.contains("CONFIRM WRITER"), "{problem}");
    assert!(client.query("SELECT id FROM t").is_err(), "no server has what it wrote");
    assert!(scene.flifo.log().contains("lacks what was acknowledged"), "{}", scene.flifo.log());
    scene.console.query("CONFIRM WRITER db2").unwrap();
    scene.wait_for_roles(&["not used: down", "writer"]);
    client.query("INSERT INTO t VALUES (3)").unwrap();
    assert_eq!(client.query("SELECT id, @@server_id FROM t").unwrap(), [["3", "2"]]);
    let problem = scene.console.query("CONFIRM WRITER db2").unwrap_err().to_string();
    assert!(problem.contains("it is the writer"), "{problem}");
}

#[test]
fn a_gap_can_be_accepted_beforehand_and_is_named() {
    let cluster = Cluster::replicated(1);
    let mut scene = Watched::start(cluster, "gaps = \"accept\"\n");
    scene.wait_for_roles(&["writer", "reader"]);
    let mut client = client(&scene.flifo).unwrap();
    client.query("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    scene.cluster.wait_for(1, 0);
    scene.cluster.servers[1].sql("STOP SLAVE").unwrap();
    client.query("INSERT INTO t VALUES (1)").unwrap();
    scene.cluster.servers[0].kill().unwrap();
    scene.cluster.servers[1].sql("SET GLOBAL read_only = 0").unwrap();
    client.query("INSERT INTO t VALUES (2)").unwrap();
    assert_eq!(one(&mut client, "SELECT id FROM t").unwrap(), "2");
    assert_eq!(server_id(&mut client), "2");
    let log = scene.flifo.log();
    assert!(log.contains("and lacks what was acknowledged"), "{log}");
}

#[test]
fn in_a_cluster_own_writes_are_found_while_nodes_keep_apart_and_stop_to_apply() {
    const CLIENTS: usize = 8;
    let Some(cluster) = Cluster::clustered(3) else { return };
    let mut scene = Watched::start(cluster, "");
    scene.wait_for_roles(&["writer", "reader", "reader"]);
    let mut setup = client(&scene.flifo).unwrap();
    setup.query("CREATE TABLE t (id BIGINT AUTO_INCREMENT PRIMARY KEY, c INT, n INT)").unwrap();
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let Watched { console, flifo, cluster, .. } = &mut scene;
    let flifo = &*flifo;
    thread::scope(|scope| {
        let _over = Over(&stop);
        for number in 0..CLIENTS {
            let (stop, done) = (&stop, &done);
            scope.spawn(move || {
                let mut client = client(flifo).unwrap();
                for n in 0.. {
                    if stop.load(Relaxed) {
                        break;
                    }
                    let insert = format!("INSERT INTO t (c, n) VALUES ({number}, {n})");
                    // A node that cannot write for a moment says so, and nothing was written.
                    if client.query(&insert).is_err() {
                        continue;
                    }
                    let text = format!("SELECT COUNT(*) FROM t WHERE c = {number} AND n = {n}");
                    let found = client.query(&text).map(|rows| rows[0][0].clone());
                    assert!(
                        found.is_err() || found.as_deref().is_ok_and(|it| it == "1"),
                        "{found:?}"
                    );
                    done.fetch_add(1, Relaxed);
                }
            });
        }
        let pairs = || done.load(Relaxed);
        for turn in 0..4 {
            let writer = roles_of(console).iter().position(|role| role == "writer").unwrap();
            let before = pairs();
            let server = &cluster.servers[writer];
            match turn % 2 {
                0 => {
                    server.sql("SET GLOBAL wsrep_desync = ON").unwrap();
                    wait("pairs", || pairs() > before + 100);
                    server.sql("SET GLOBAL wsrep_desync = OFF").unwrap();
                }
                _ => {
                    let text = "FLUSH TABLES WITH READ LOCK; DO SLEEP(1); UNLOCK TABLES";
                    server.sql(text).unwrap();
                }
            }
            let before = pairs();
            wait("pairs", || pairs() > before + 100);
            wait("all to be used", || {
                let roles = roles_of(console);
                let count = |is: &str| roles.iter().filter(|role| role.starts_with(is)).count();
                count("writer") == 1 && count("reader") == 2
            });
        }
        stop.store(true, Relaxed);
    });
}

/// The last check of the writer was before the write, and it is asked nothing any more.
#[test]
fn what_a_dead_writer_took_is_read_where_its_number_is_known_to_be() {
    let cluster = Cluster::replicated(1);
    let mut scene = Watched::start(cluster, "hold = \"2s\"\n");
    scene.wait_for_roles(&["writer", "reader"]);
    let mut client = client(&scene.flifo).unwrap();
    client.query("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    let mut other = crate::cluster::client(&scene.flifo).unwrap();
    // It is not checked until traffic fails.
    scene.console.query("SET checks.inter = '1h'").unwrap();
    thread::sleep(Duration::from_millis(300));
    client.query("INSERT INTO t VALUES (1)").unwrap();
    scene.cluster.wait_for(1, 0);
    scene.cluster.servers[1].sql("STOP SLAVE").unwrap();
    // This one's write is nowhere else.
    other.query("INSERT INTO t VALUES (2)").unwrap();
    scene.cluster.servers[0].kill().unwrap();
    let rows = client.query("SELECT id, @@server_id FROM t").unwrap();
    assert_eq!(rows, [["1", "2"]]);
    let problem = other.query("SELECT id FROM t").unwrap_err().to_string();
    assert!(problem.contains("did not run this statement"), "{problem}");
}

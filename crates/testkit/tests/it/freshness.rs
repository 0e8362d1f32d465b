//! What clients that come and go find again (`routing.reads`, `routing.reads_by`), and what they name themselves: behind
//! replicas that are a second late.

use std::thread;
use std::time::{Duration, Instant};

use bench::private_server::PrivateServer;
use testkit::client::Client;
use testkit::cluster::{Cluster, wait};
use testkit::flifo::Flifo;

use crate::cluster::{Watched, client, flifo, one};

/// Replicas of the first server, of which these apply what they get after a second.
fn late(readers: usize, late: &[usize]) -> Cluster {
    let cluster = Cluster::replicated(readers);
    let table = format!("CREATE TABLE {}.t (id INT PRIMARY KEY, v INT)", PrivateServer::DATABASE);
    cluster.servers[0].sql(&table).unwrap();
    (1..=readers).for_each(|reader| cluster.wait_for(reader, 0));
    for reader in late {
        let text = "STOP SLAVE; CHANGE MASTER TO MASTER_DELAY = 1; START SLAVE";
        cluster.servers[*reader].sql(text).unwrap();
    }
    cluster
}

/// How many of so many clients miss what the one before them has written, and how many read on readers.
fn reconnect(flifo: &Flifo, from: usize) -> (u32, u32) {
    const CLIENTS: usize = 20;
    let (mut missed, mut on_readers) = (0, 0);
    for id in from..from + CLIENTS {
        let text = format!("INSERT INTO t VALUES ({id}, 0)");
        client(flifo).unwrap().query(&text).unwrap();
        let mut next = client(flifo).unwrap();
        let text = format!("SELECT COUNT(*), @@server_id FROM t WHERE id = {id}");
        let rows = next.query(&text).unwrap();
        missed += u32::from(rows[0][0] != "1");
        on_readers += u32::from(rows[0][1] != "1");
    }
    (missed, on_readers)
}

#[test]
fn clients_that_connect_anew_find_what_their_user_has_written() {
    let mut scene = Watched::start(late(2, &[1, 2]), "reads_by = \"user\"\n");
    scene.wait_for_roles(&["writer", "reader", "reader"]);
    let (missed, _) = reconnect(&scene.flifo, 0);
    assert_eq!(missed, 0);
    // The same program, and another one.
    scene.console.query("SET routing.reads_by = 'program'").unwrap();
    let (missed, _) = reconnect(&scene.flifo, 100);
    assert_eq!(missed, 0);
    // Once readers have all of it, they are read from, also by clients that come then.
    wait("a read on a reader", || {
        one(&mut client(&scene.flifo).unwrap(), "SELECT @@server_id").unwrap() != "1"
    });
    // It is the option that does it.
    scene.console.query("SET routing.reads_by = 'connection'").unwrap();
    let (missed, on_readers) = reconnect(&scene.flifo, 200);
    assert!(missed > 0 && on_readers > 0, "{missed} of {on_readers}");
}

/// How often a client reads less than before, while another one counts up.
fn goes_back(flifo: &Flifo) -> u32 {
    let (mut writer, mut reader) = (client(flifo).unwrap(), client(flifo).unwrap());
    let (mut last, mut back) = (0, 0);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        writer.query("UPDATE t SET v = v + 1").unwrap();
        for _ in 0..4 {
            let v: u32 = one(&mut reader, "SELECT v FROM t").unwrap().parse().unwrap();
            back += u32::from(v < last);
            last = v;
        }
        thread::sleep(Duration::from_millis(20));
    }
    back
}

#[test]
fn a_client_reads_nothing_older_than_it_has_read() {
    let cluster = late(2, &[2]);
    let insert = format!("INSERT INTO {}.t VALUES (1, 0)", PrivateServer::DATABASE);
    cluster.servers[0].sql(&insert).unwrap();
    (1..=2).for_each(|reader| cluster.wait_for(reader, 0));
    let mut scene = Watched::start(cluster, "reads = \"monotonic\"\n");
    scene.wait_for_roles(&["writer", "reader", "reader"]);
    assert_eq!(goes_back(&scene.flifo), 0);
    scene.console.query("SET routing.reads_by = 'user'").unwrap();
    assert_eq!(goes_back(&scene.flifo), 0);
    // A client that rests is not bound to its server for ever.
    scene.console.query("SET routing.reads_by = 'connection'").unwrap();
    let mut resting = client(&scene.flifo).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    wait("reads on both readers", || {
        seen.insert(one(&mut resting, "SELECT @@server_id").unwrap());
        thread::sleep(Duration::from_millis(500));
        seen.contains("2") && seen.contains("3")
    });
    scene.console.query("SET routing.reads = 'own_writes'").unwrap();
    assert!(goes_back(&scene.flifo) > 0);
}

#[test]
fn a_gtid_in_a_comment_is_found_through_another_flifo() {
    let cluster = late(1, &[1]);
    let options = "[routing]\nmode = \"split\"\ngtid_comments = \"on\"\n";
    let flifos = [flifo(&cluster, options), flifo(&cluster, options)];
    let [mut here, mut there] = flifos.each_ref().map(|flifo| client(flifo).unwrap());
    // Both know the servers.
    for client in [&mut here, &mut there] {
        wait("a read on the reader", || one(client, "SELECT @@server_id").unwrap() == "2");
    }
    let mut missed = 0;
    let count = |client: &mut Client, text: &str| one(client, text).unwrap() != "1";
    for id in 0..20 {
        here.query(&format!("INSERT INTO t VALUES ({id}, 0)")).unwrap();
        let gtid = one(&mut here, "SELECT @@last_gtid").unwrap();
        let text = format!("SELECT COUNT(*) FROM t WHERE id = {id}");
        missed += u32::from(count(&mut there, &text));
        for named in
            [format!("/* flifo gtid={gtid} */ {text}"), format!("{text} /* flifo gtid='{gtid}' */")]
        {
            assert!(!count(&mut there, &named), "{named}");
        }
    }
    assert!(missed > 0, "the reader is not late");
    let gtid = one(&mut here, "SELECT @@last_gtid").unwrap();
    let text = format!("/* flifo gtid={gtid} */ SELECT @@server_id");
    wait("a read on the reader", || one(&mut there, &text).unwrap() == "2");
    // What no server has, and what cannot be read, is the writer's affair.
    for named in ["0-1-999999999", "0-1-x", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5"] {
        let text = format!("SELECT @@server_id /* flifo gtid='{named}' */");
        assert_eq!(one(&mut there, &text).unwrap(), "1");
    }
}

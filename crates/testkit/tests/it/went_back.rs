//! A writer that has less than before: restored from older data, or with its binary log begun anew. It is not used before an
//! operator says so, and what it takes then is not read where the numbers are those from before.

use std::path::Path;
use std::process::Command;

use testkit::client::Client;
use testkit::cluster::Cluster;

use crate::cluster::{Watched, client};

const DOUBTED: &str = "not used: it may have numbers from before";

/// Writes, and reads that; not one read may lack it.
fn write_and_read(client: &mut Client, from: u32, count: u32) {
    for v in from..from + count {
        client.query(&format!("REPLACE INTO t VALUES (1, {v})")).unwrap();
        let row = client.query("SELECT v, @@server_id FROM t WHERE id = 1").unwrap();
        assert_eq!(row[0][0], v.to_string(), "a stale read from server {}", row[0][1]);
        if v % 10 == 0 {
            // For checks of all servers.
            std::thread::sleep(std::time::Duration::from_millis(150));
        }
    }
}

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(done.success(), "{} is not copied", from.display());
}

#[test]
fn a_writer_that_has_less_than_before_is_used_once_it_is_confirmed() {
    let mut cluster = Cluster::replicated(1);
    let data = cluster.servers[0].folder().join("data");
    let older = cluster.servers[0].folder().join("older");
    let mut scene = {
        cluster.wait_for(1, 0);
        cluster.servers[0].stop().unwrap();
        copy(&data, &older);
        cluster.servers[0].start().unwrap();
        Watched::start(cluster, "hold = \"1s\"\n")
    };
    scene.wait_for_roles(&["writer", "reader"]);
    let mut client = client(&scene.flifo).unwrap();
    client.query("CREATE TABLE t (id INT PRIMARY KEY, v INT)").unwrap();
    write_and_read(&mut client, 1, 100);
    scene.cluster.wait_for(1, 0);

    // It is restored from older data.
    scene.cluster.servers[0].stop().unwrap();
    scene.wait_for_roles(&["not used: down"]);
    std::fs::remove_dir_all(&data).unwrap();
    copy(&older, &data);
    scene.cluster.servers[0].start().unwrap();
    scene.wait_for_roles(&["not used: it lacks what was acknowledged: it has"]);
    let problem =
        client.query("CREATE TABLE t (id INT PRIMARY KEY, v INT)").unwrap_err().to_string();
    assert!(problem.contains("CONFIRM WRITER"), "{problem}");
    let log = scene.flifo.log();
    assert!(log.contains("a server has less than before"), "{log}");
    scene.console.query("CONFIRM WRITER db1").unwrap();
    scene.wait_for_roles(&["writer", DOUBTED]);
    client.query("CREATE TABLE t (id INT PRIMARY KEY, v INT)").unwrap();
    write_and_read(&mut client, 1000, 50);
}

#[test]
fn a_writer_whose_binary_log_begins_anew_is_used_once_it_is_confirmed() {
    let mut scene = Watched::start(Cluster::replicated(1), "hold = \"1s\"\n");
    scene.wait_for_roles(&["writer", "reader"]);
    let mut client = client(&scene.flifo).unwrap();
    client.query("CREATE TABLE t (id INT PRIMARY KEY, v INT)").unwrap();
    write_and_read(&mut client, 1, 100);
    scene.cluster.wait_for(1, 0);
    scene.cluster.servers[0].sql("RESET MASTER").unwrap();
    scene.wait_for_roles(&["not used: it lacks what was acknowledged: it has"]);
    scene.console.query("CONFIRM WRITER db1").unwrap();
    scene.wait_for_roles(&["writer", DOUBTED]);
    write_and_read(&mut client, 2000, 50);
    // An operator vouches for the reader, which has the numbers from before.
    scene.console.query("ENABLE db2").unwrap();
    scene.wait_for_roles(&["writer", "reader"]);
}

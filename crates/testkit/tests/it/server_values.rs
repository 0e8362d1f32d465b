//! Values that one of several servers has for itself, and when the writer is read from; all of them changed by a reload.

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::process::Signal;
use testkit::client::{Client, Problem};
use testkit::cluster::{Cluster, wait};

use crate::cluster::{Watched, client, server_id};
use crate::reload_servers::reload;

/// A line of this server's own in the list of servers.
fn with_own(text: &str, server: &str, line: &str) -> String {
    let name = format!("name = \"{server}\"\n");
    text.replace(&name, &format!("{name}{line}\n"))
}

/// Which servers answer the reads of new clients while the writer goes on.
fn read_from(scene: &Watched, writes: &mut Client) -> Vec<String> {
    let mut seen = BTreeSet::new();
    for _ in 0..24 {
        writes.query("INSERT INTO lag VALUES (1)").unwrap();
        let mut reader = client(&scene.flifo).unwrap();
        seen.extend(reader.query("SELECT @@server_id").into_iter().flatten().flatten());
    }
    seen.into_iter().collect()
}

#[test]
fn lag_is_bounded_by_server_and_the_writer_is_read_from_as_is_asked() {
    const LAG: &str = "lag_max = \"400ms\"\n";
    let cluster = Cluster::replicated(2);
    let mut scene = Watched::start(cluster, &format!("reads = \"any\"\nhold = \"1s\"\n{LAG}"));
    scene.wait_for_roles(&["writer", "reader", "reader"]);
    let mut writes = client(&scene.flifo).unwrap();
    writes.query("CREATE TABLE lag (v INT)").unwrap();
    scene.cluster.wait_for(1, 0);
    scene.cluster.wait_for(2, 0);
    reload(&mut scene, |text| with_own(text, "db3", "lag_max = \"none\""));
    for reader in &scene.cluster.servers[1..] {
        reader.sql("STOP SLAVE SQL_THREAD").unwrap();
    }
    wait("db2 alone to be too late", || read_from(&scene, &mut writes) == ["3"]);

    let mut before = LAG.to_owned();
    for (more, wanted) in [
        ("readers_min = 2", vec!["2", "3"]),
        ("writer_reads = \"always\"", vec!["1", "3"]),
        ("writer_reads = \"never\"", vec!["3"]),
    ] {
        let now = format!("{LAG}{more}\n");
        reload(&mut scene, |text| text.replace(&before, &now));
        before = now;
        wait(more, || read_from(&scene, &mut writes) == wanted);
    }
    // Where there is no reader, a read waits for one, and is refused then: the writer is not asked.
    scene.cluster.signal(2, Signal::STOP);
    wait("reads to be refused", || {
        let mut reader = client(&scene.flifo).unwrap();
        let answer = reader.query("SELECT @@server_id");
        assert!(!answer.as_ref().is_ok_and(|rows| rows[0][0] == "1"), "{answer:?}");
        let told = |message: &str| message.contains("no server of group \"readers\"");
        matches!(answer, Err(Problem::Refused { message, .. }) if told(&message))
    });
    scene.cluster.signal(2, Signal::CONT);
    for reader in &scene.cluster.servers[1..] {
        reader.sql("START SLAVE SQL_THREAD").unwrap();
    }
    wait("both readers", || read_from(&scene, &mut writes) == ["2", "3"]);
}

#[test]
fn tls_can_be_asked_of_one_server_alone() {
    let mut scene = Watched::start(Cluster::replicated(1), "");
    scene.wait_for_roles(&["writer", "reader"]);
    // These servers have no TLS: Flifo logs in no more to one of which that is asked.
    reload(&mut scene, |text| with_own(text, "db2", "tls = \"required\""));
    scene.cluster.servers[1].stop().unwrap();
    scene.wait_for_roles(&["writer", "not used: down"]);
    scene.cluster.servers[1].start().unwrap();
    let refused = |scene: &mut Watched| {
        let rows = scene.console.query("SHOW FULL CHECKS").unwrap();
        rows.iter().any(|row| row[0] == "db2" && row[3].contains("TLS"))
    };
    wait("a login without TLS to be refused", || refused(&mut scene));
    scene.wait_for_roles(&["writer", "not used"]);
    let mut client = client(&scene.flifo).unwrap();
    assert_eq!(server_id(&mut client), "1");
    reload(&mut scene, |text| text.replace("tls = \"required\"\n", ""));
    scene.wait_for_roles(&["writer", "reader"]);
}

#[test]
fn backend_connections_are_bounded_by_server() {
    /// The column of `SHOW FULL SERVERS`.
    const CONNECTIONS_MAX: usize = 12;
    let mut scene = Watched::start(Cluster::replicated(1), "");
    let bounds = |scene: &mut Watched| {
        let rows = scene.console.query("SHOW FULL SERVERS").unwrap();
        rows.into_iter().map(|mut row| row.swap_remove(CONNECTIONS_MAX)).collect::<Vec<_>>()
    };
    let before = bounds(&mut scene);
    reload(&mut scene, |text| with_own(text, "db2", "connections_max = 2"));
    assert_eq!(bounds(&mut scene), [before[0].clone(), "2".to_owned()]);
    scene.wait_for_roles(&["writer", "reader"]);

    // Eight clients read at once: the reader never has more connections of theirs than two, and all are answered.
    let sleepers: Vec<_> = (0..8)
        .map(|_| {
            let mut client = client(&scene.flifo).unwrap();
            std::thread::spawn(move || server_id(&mut client))
        })
        .collect();
    let on: BTreeSet<_> = sleepers.into_iter().map(|it| it.join().unwrap()).collect();
    assert_eq!(on, BTreeSet::from(["2".to_owned()]));
    std::thread::sleep(Duration::from_millis(200));
    let rows = scene.console.query("SHOW FULL SERVERS").unwrap();
    assert!(rows[1][11].parse::<u32>().unwrap() <= 2, "{rows:?}");
}

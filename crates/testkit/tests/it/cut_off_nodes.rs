//! Galera nodes that answer and cannot work: cut off from their cluster, or told to refuse statements. What is open there
//! ends, and its clients go on elsewhere.

use testkit::client::{Client, Problem};
use testkit::cluster::{Cluster, wait};

use crate::cluster::{Watched, client, server_id};

fn code(problem: &Problem) -> Option<u16> {
    match problem {
        Problem::Refused { code, .. } => Some(*code),
        _ => None,
    }
}

/// A cluster of three nodes, if there can be one here, with a table.
fn scene(more: &str) -> Option<Watched> {
    let mut scene = Watched::start(Cluster::clustered(3)?, more);
    scene.wait_for_roles(&["writer", "reader", "reader"]);
    client(&scene.flifo).unwrap().query("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    Some(scene)
}

/// A client that has written in a transaction that is open.
fn open(scene: &Watched, id: u32) -> Client {
    let mut client = client(&scene.flifo).unwrap();
    client.query("BEGIN").unwrap();
    client.query(&format!("INSERT INTO t VALUES ({id})")).unwrap();
    client
}

/// Goes on with this statement until the loss has been told once, and then in a transaction elsewhere.
fn goes_on(client: &mut Client, text: &str, id: u32, from: &str) {
    let mut told = Vec::new();
    // The node may refuse for a moment before it is known what has become of it.
    wait("the end of a transaction to be told", || match client.query(text) {
        Ok(_) => true,
        Err(problem) => {
            let code = code(&problem);
            assert!(matches!(code, Some(1047 | 1180 | 1213)), "{text}: {problem}");
            told.extend(code);
            code == Some(1213)
        }
    });
    assert!(told.iter().filter(|code| **code != 1213).count() <= 1, "{text}: {told:?}");
    client.query("BEGIN").unwrap();
    client.query(&format!("INSERT INTO t VALUES ({id})")).unwrap();
    assert_ne!(server_id(client), from, "{text}");
    client.query("COMMIT").unwrap();
}

#[test]
fn a_transaction_at_a_node_without_its_cluster_ends_and_its_client_goes_on_elsewhere() {
    let Some(mut scene) = scene("") else { return };
    let mut clients: Vec<_> = (0..4).map(|id| open(&scene, id)).collect();
    let isolate = "SET GLOBAL wsrep_provider_options = 'gmcast.isolate=1'";
    scene.cluster.servers[0].sql(isolate).unwrap();
    scene.wait_for_roles(&["not used: its state in the cluster is", "writer", "reader"]);
    for (at, text) in
        ["COMMIT", "ROLLBACK", "BEGIN", "INSERT INTO t VALUES (50)"].iter().enumerate()
    {
        goes_on(&mut clients[at], text, 10 + at as u32, "1");
    }
    // The client that has written last finds what all have written before: nodes apply in one order, another one later.
    let rows = clients[3].query("SELECT id FROM t ORDER BY id").unwrap();
    assert_eq!(rows, [["10"], ["11"], ["12"], ["13"]], "nothing of what was lost is kept");
    let join = "SET GLOBAL wsrep_provider_options = 'gmcast.isolate=0'";
    scene.cluster.servers[0].sql(join).unwrap();
    scene.wait_for_roles(&["reader", "writer", "reader"]);
}

#[test]
fn a_node_that_is_told_to_refuse_statements_is_not_used() {
    let Some(mut scene) = scene("") else { return };
    let mut clients: Vec<_> = (0..2).map(|id| open(&scene, id)).collect();
    scene.cluster.servers[0].sql("SET GLOBAL wsrep_reject_queries = ALL").unwrap();
    scene.wait_for_roles(&["not used: it refuses statements (wsrep_reject_queries", "writer"]);
    goes_on(&mut clients[0], "COMMIT", 10, "1");
    goes_on(&mut clients[1], "ROLLBACK", 11, "1");
    // So is a reader: without an error for clients that read.
    scene.cluster.servers[2].sql("SET GLOBAL wsrep_reject_queries = ALL").unwrap();
    scene.wait_for_roles(&["not used", "writer", "not used"]);
    assert_eq!(clients[1].query("SELECT COUNT(*) FROM t").unwrap(), [["2"]]);
    for at in [0, 2] {
        scene.cluster.servers[at].sql("SET GLOBAL wsrep_reject_queries = NONE").unwrap();
    }
    scene.wait_for_roles(&["reader", "writer", "reader"]);
}

//! What each client gets on a worker that has more clients than the other workers.
//!
//! Which worker has which client is read from the kernel: Flifo does not report it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use testkit::fake_client::FakeClient;
use testkit::flifo::Flifo;
use testkit::overdue::Over;
use testkit::scene::{PASSWORD, USER};
use testkit::virtual_server::VirtualServer;

use crate::{SERVER, alone, flifo};

/// Half of the clients on one worker of four: all get the same, within a tenth.
#[test]
fn a_crowded_worker_s_clients_get_their_shares() {
    let _alone = alone();
    let server = VirtualServer::start(SERVER, 4.0);
    let flifo = flifo(&server, "workers = 4", "limit = 10\nconnections_max = 400\npipeline = 1");
    let mut rooms = by_worker(&flifo, 420);
    assert_eq!(rooms.len(), 4, "{:?}", rooms.iter().map(Vec::len).collect::<Vec<_>>());
    // Connections that are not chosen stay, and ask nothing.
    let crowded: Vec<_> = rooms.remove(0).into_iter().take(96).collect();
    let others: Vec<_> = rooms.into_iter().flat_map(|room| room.into_iter().take(32)).collect();
    assert_eq!((crowded.len(), others.len()), (96, 96), "the workers had too few to choose from");
    let stop = AtomicBool::new(false);
    let [ours, theirs] = [AtomicU64::new(0), AtomicU64::new(0)];
    thread::scope(|scope| {
        let _over = Over(&stop);
        let each = crowded.into_iter().map(|client| (client, &ours));
        for (mut client, count) in each.chain(others.into_iter().map(|client| (client, &theirs))) {
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(SeqCst) {
                    client.query("SELECT 1").expect("an answer");
                    count.fetch_add(1, SeqCst);
                }
            });
        }
        thread::sleep(Duration::from_millis(500));
        let before = [&ours, &theirs].map(|count| count.load(SeqCst));
        thread::sleep(Duration::from_secs(3));
        let after = [&ours, &theirs].map(|count| count.load(SeqCst));
        stop.store(true, SeqCst);
        let [ours, theirs] = [0, 1].map(|at| (after[at] - before[at]) as f64);
        println!("the crowded worker's clients: {ours}, the others': {theirs}");
        assert!((0.9..1.1).contains(&(ours / theirs)), "{ours} and {theirs}");
    });
}

/// Clients, sorted by the worker that has them: each worker has its own epoll, and the kernel tells
/// which sockets an epoll watches.
fn by_worker(flifo: &Flifo, clients: usize) -> Vec<Vec<FakeClient>> {
    let login = || FakeClient::login(flifo.port(), USER, PASSWORD);
    let clients: Vec<_> = (0..clients).map(|_| login().expect("a login")).collect();
    let inodes = inodes_by_peer(flifo.port());
    let process = format!("/proc/{}", flifo.pid());
    let mut worker_of = HashMap::new();
    for entry in std::fs::read_dir(format!("{process}/fd")).expect("flifo runs") {
        let entry = entry.expect("an entry");
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        if !target.to_string_lossy().contains("eventpoll") {
            continue;
        }
        let epoll = entry.file_name();
        let info = format!("{process}/fdinfo/{}", epoll.to_string_lossy());
        for line in std::fs::read_to_string(info).expect("an epoll").lines() {
            // tfd: 12 events: 2019 data: 7f… pos:0 ino:1a2b sdev:9
            let inode = line.split("ino:").nth(1).and_then(|rest| rest.split(' ').next());
            if let Some(inode) = inode.and_then(|inode| u64::from_str_radix(inode, 16).ok()) {
                worker_of.insert(inode, epoll.clone());
            }
        }
    }
    let mut rooms: HashMap<_, Vec<_>> = HashMap::new();
    for client in clients {
        let inode = inodes.get(&client.port()).expect("a connection");
        let worker = worker_of.get(inode).expect("a worker watches it");
        rooms.entry(worker.clone()).or_default().push(client);
    }
    rooms.into_values().collect()
}

/// The inodes of sockets on this port, by their peers' ports.
fn inodes_by_peer(port: u16) -> HashMap<u16, u64> {
    let table = std::fs::read_to_string("/proc/net/tcp").expect("Linux has it");
    let port_of = |address: &str| u16::from_str_radix(address.split(':').nth(1)?, 16).ok();
    let entry = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (local, peer) = (port_of(fields.get(1)?)?, port_of(fields.get(2)?)?);
        (local == port).then_some((peer, fields.get(9)?.parse().ok()?))
    };
    table.lines().filter_map(entry).collect()
}

//! MySQL's Group Replication behind Flifo: three members, of which one is the primary until it is killed.
//!
//! Where there is no MySQL with that plugin these tests print so and test nothing.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use testkit::client::Client;
use testkit::flifo::Flifo;
use testkit::group::Group;
use testkit::overdue::Over;

use crate::cluster::CHECKS;

const USER: &str = "app";
const PASSWORD: &str = "correct-horse";

fn roles(console: &mut Client) -> Vec<String> {
    let rows = console.query("SHOW FULL SERVERS").unwrap();
    rows.into_iter().map(|row| row[16].clone()).collect()
}

fn wait_for_roles(console: &mut Client, are: impl Fn(&[String]) -> bool) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let roles = roles(console);
        if are(&roles) {
            return roles;
        }
        assert!(begun.elapsed() < Duration::from_secs(300), "{roles:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn the_primary_of_a_group_is_written_to_and_the_next_one_when_it_is_gone() {
    let Some(group) = Group::start(None, (USER, PASSWORD, "app")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("console.sock");
    let listed = group.listed();
    let mut members = group.members;
    let flifo = Flifo::start(&format!(
        "workers = 2\n{CHECKS}[routing]\nmode = \"split\"\nhold = \"60s\"\n\
         [console]\nlisten = [{socket:?}]\n[http]\nlisten = []\n{listed}\
         [[users]]\nname = \"{USER}\"\npassword = \"{PASSWORD}\"\n"
    ));
    let address = socket.to_str().unwrap().parse().unwrap();
    let mut console = Client::builder(address, "admin", "").connect().unwrap();
    // Configured for a group, but not in it: what is written there would reach no other member.
    let is_offline = |role: &String| role.contains("its state in the group is OFFLINE");
    wait_for_roles(&mut console, |roles| roles.iter().all(is_offline));

    members[0].sql(&[
        "SET GLOBAL group_replication_bootstrap_group = ON",
        "START GROUP_REPLICATION",
        "SET GLOBAL group_replication_bootstrap_group = OFF",
        "CREATE DATABASE app",
        "CREATE TABLE app.t (id INT PRIMARY KEY, v INT)",
        "INSERT INTO app.t VALUES (1, 0)",
    ]);
    wait_for_roles(&mut console, |roles| roles[0] == "writer");
    members[1].sql(&["START GROUP_REPLICATION"]);
    members[2].sql(&["START GROUP_REPLICATION"]);
    wait_for_roles(&mut console, |roles| roles == ["writer", "reader", "reader"]);

    let address = format!("127.0.0.1:{}", flifo.port()).parse().unwrap();
    let mut client = Client::builder(address, USER, PASSWORD).schema("app").connect().unwrap();
    let mut on_readers = 0;
    for turn in 1..=200 {
        client.query(&format!("UPDATE t SET v = {turn} WHERE id = 1")).unwrap();
        if turn % 10 == 0 {
            std::thread::sleep(Duration::from_millis(400));
        }
        let row = client.query("SELECT v, @@server_id FROM t WHERE id = 1").unwrap();
        assert_eq!(row[0][0], turn.to_string(), "a stale read from server {}", row[0][1]);
        on_readers += u32::from(row[0][1] != "1");
    }
    assert!(on_readers >= 5, "{on_readers} reads on readers");

    // The primary leaves its group and answers still: it never says where it was when it took the last write.
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = Over(&stop);
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                // Refused while the group has no primary, and on the way there.
                let _ = client.query("UPDATE t SET v = v + 1 WHERE id = 1");
            }
        });
        members[0].sql(&["STOP GROUP_REPLICATION"]);
        wait_for_roles(&mut console, |roles| {
            roles[0].contains("its state in the group is OFFLINE")
                && roles[1..].iter().any(|role| role == "writer")
        });
        stop.store(true, Relaxed);
    });
    client.query("UPDATE t SET v = 500 WHERE id = 1").unwrap();
    assert_eq!(client.query("SELECT v FROM t WHERE id = 1").unwrap()[0][0], "500");
    members[0].sql(&["START GROUP_REPLICATION"]);
    wait_for_roles(&mut console, |roles| roles[0] == "reader");

    let rows = members[1].sql(&["SELECT @@global.read_only"]);
    let primary = if rows[0][0] == "0" { 1 } else { 2 };
    drop(members.remove(primary));
    client.query("UPDATE t SET v = 1000 WHERE id = 1").unwrap();
    let roles = wait_for_roles(&mut console, |roles| roles.iter().any(|role| role == "writer"));
    assert!(roles[primary].starts_with("not used: down"), "{roles:?}");
    let row = client.query("SELECT v FROM t WHERE id = 1 FOR UPDATE").unwrap();
    assert_eq!(row[0][0], "1000");
}

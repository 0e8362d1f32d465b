//! Servers that are addressed by name: the name comes to mean another address, or cannot be resolved any more.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use testkit::client::Client;
use testkit::fake_client::FakeClient;
use testkit::fake_server::FakeServer;
use testkit::flifo::{Flifo, free_port};
use testkit::need::Need;
use testkit::relay::Relay;
use testkit::reply::{Reply, honest};
use testkit::scene::{PASSWORD, USER, row, user, wait_for};

/// Two servers on two addresses of this machine, at the same port, and Flifo that knows one name for both.
struct Town {
    old: FakeServer,
    new: FakeServer,
    relays: Vec<Relay>,
    hosts: PathBuf,
    flifo: Flifo,
    console: PathBuf,
    _folder: tempfile::TempDir,
}

const NAME: &str = "db.example";
const OLD: [u8; 4] = [127, 0, 0, 2];
const NEW: [u8; 4] = [127, 0, 0, 3];

impl Town {
    /// `None` where a process cannot have a file of names of its own.
    fn start(top: &str, entry: impl Fn(&str) -> String) -> Option<Self> {
        let (old, new) = (FakeServer::start(), FakeServer::start());
        let folder = tempfile::tempdir().unwrap();
        let (hosts, console) = (folder.path().join("hosts"), folder.path().join("console.sock"));
        let port = free_port();
        let relays = [(OLD, old.port()), (NEW, new.port())];
        let relays = relays.map(|(ip, to)| Relay::at(SocketAddr::from((ip, port)), to));
        for (server, name) in [(&old, "old"), (&new, "new")] {
            server.answer(move |command| match command {
                b"\x03SELECT who" => Reply::row(name),
                command => honest(command),
            });
        }
        means(&hosts, OLD);
        let outside = format!("[console]\nlisten = [{console:?}]\n[http]\nlisten = []\n");
        let entry = entry(&format!("{NAME}:{port}"));
        let rest = format!("workers = 2\n{top}\n{outside}{entry}{}", user(""));
        let Some(flifo) = Flifo::start_with_hosts(&hosts, &rest) else {
            Need::Namespaces.skip("no name space for mounts can be made (unshare)");
            return None;
        };
        Some(Self { old, new, relays: relays.into(), hosts, flifo, console, _folder: folder })
    }

    fn client(&self) -> FakeClient {
        FakeClient::login(self.flifo.port(), USER, PASSWORD).unwrap()
    }

    fn console(&self) -> Client {
        let address = self.console.to_str().unwrap().parse().unwrap();
        Client::builder(address, "admin", "").connect().unwrap()
    }
}

/// From now on the name means this. The file stays the same one: it is mounted.
fn means(hosts: &PathBuf, ip: [u8; 4]) {
    let [a, b, c, d] = ip;
    std::fs::write(hosts, format!("127.0.0.1 localhost\n{a}.{b}.{c}.{d} {NAME}\n")).unwrap();
}

fn one(address: &str) -> String {
    format!("[server]\naddress = {address:?}\nresolve = \"100ms\"\n")
}

#[test]
fn new_backends_follow_the_name_and_old_ones_end_as_they_become_free() {
    let Some(town) = Town::start("", one) else { return };
    let (mut busy, mut client) = (town.client(), town.client());
    assert_eq!(client.query("SELECT who"), row("old"));
    // A client that must keep its backend is not moved.
    busy.query("SELECT GET_LOCK('a', 1)").unwrap();
    assert_eq!(busy.query("SELECT who"), row("old"));
    means(&town.hosts, NEW);
    wait_for("the move", || client.query("SELECT who") == row("new"));
    assert_eq!(busy.query("SELECT who"), row("old"));
    assert!(town.old.open() > 0);
    drop(busy);
    wait_for("the old backend connections to end", || town.old.open() == 0);
    let rows = town.console().query("SHOW FULL SERVERS").unwrap();
    assert!(rows[0][1].starts_with(NAME) && rows[0][20].starts_with("127.0.0.3:"), "{rows:?}");
}

#[test]
fn who_cannot_connect_finds_the_server_where_it_is_now() {
    let entry = |address: &str| format!("[server]\naddress = {address:?}\nresolve = \"1h\"\n");
    let Some(mut town) = Town::start("", entry) else { return };
    let mut client = town.client();
    assert_eq!(client.query("SELECT who"), row("old"));
    means(&town.hosts, NEW);
    // Later than a second after it was resolved, so that it may be again.
    std::thread::sleep(Duration::from_millis(1100));
    drop(town.relays.remove(0));
    wait_for("the backend connections to break", || town.old.open() == 0);
    let begun = Instant::now();
    wait_for("the server", || {
        let mut client = town.client();
        client.query("SELECT who") == row("new")
    });
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn a_name_that_cannot_be_resolved_keeps_its_last_address_and_says_so() {
    let Some(town) = Town::start("", one) else { return };
    let (mut client, mut console) = (town.client(), town.console());
    assert_eq!(client.query("SELECT who"), row("old"));
    std::fs::write(&town.hosts, "127.0.0.1 localhost\n").unwrap();
    let told = "SHOW FULL CHECKS WHERE kind = 'name'";
    wait_for("it to fail", || console.query(told).unwrap()[0][2] == "failed");
    let reason = console.query(told).unwrap()[0][3].clone();
    assert!(reason.contains(NAME) && reason.contains("last known address is used"), "{reason}");
    // New backends as well.
    wait_for("the backend connections to break", || {
        // One that was being opened is there only now.
        town.old.hang_up();
        town.old.open() == 0
    });
    wait_for("a new backend connection", || town.client().query("SELECT who") == row("old"));
    means(&town.hosts, NEW);
    wait_for("the move", || client.query("SELECT who") == row("new"));
    wait_for("it to be well", || console.query(told).unwrap()[0][2] == "passed");
}

/// Of several servers one moves: its checks go along.
#[test]
fn checks_go_to_where_the_server_is_now() {
    let fixed = FakeServer::start();
    let top = "[checks]\nkind = \"ping\"\ninter = \"50ms\"\nfastinter = \"50ms\"\n\
               downinter = \"50ms\"\ntimeout = \"300ms\"\n[server]\nresolve = \"100ms\"\n\
               [routing]\nmode = \"readers\"\n";
    let port = fixed.port();
    let entry = |address: &str| {
        format!(
            "[[servers]]\nname = \"db1\"\naddress = \"127.0.0.1:{port}\"\ngroup = \"writer\"\n\
             [[servers]]\nname = \"db2\"\naddress = {address:?}\ngroup = \"readers\"\n"
        )
    };
    let Some(town) = Town::start(top, entry) else { return };
    let mut client = town.client();
    wait_for("checks", || town.old.received(b"\x0e") > 3 && fixed.received(b"\x0e") > 3);
    assert_eq!(client.query("SELECT who"), row("old"));
    means(&town.hosts, NEW);
    wait_for("checks of the new one", || town.new.received(b"\x0e") > 3);
    wait_for("the old backend connections to end", || town.old.open() == 0);
    assert_eq!(client.query("SELECT who"), row("new"));
}

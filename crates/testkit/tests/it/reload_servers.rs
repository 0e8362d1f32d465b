//! Servers come, change and go by a reload: statements go on, and what is bound to a server that leaves has its time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use backend::Address;
use bench::private_server::PrivateServer;
use testkit::client::{Client, Problem};
use testkit::cluster::Cluster;
use testkit::flifo::Flifo;
use testkit::overdue::Over;
use testkit::scene::wait_for;

use crate::cluster::{Watched, client, one, server_id};

/// The part of a configuration that names the server at this place.
fn entry(text: &str, name: &str) -> String {
    let begin = text.find(&format!("[[servers]]\nname = \"{name}\"")).expect("it is listed");
    let end = text[begin + 1..].find("[[").map_or(text.len(), |at| begin + 1 + at);
    text[begin..end].to_owned()
}

pub(crate) fn reload(scene: &mut Watched, change: impl Fn(&str) -> String) -> Vec<Vec<String>> {
    scene.flifo.change_configuration(change);
    let rows = scene.console.query("RELOAD").expect("a good file");
    rows.into_iter().map(|row| vec![row[0].clone(), row.last().unwrap().clone()]).collect()
}

/// The servers that the console shows, by name.
fn shown(scene: &mut Watched) -> Vec<String> {
    let rows = scene.console.query("SHOW FULL SERVERS").unwrap();
    rows.into_iter().map(|mut row| row.swap_remove(0)).collect()
}

#[test]
fn a_reader_comes_and_goes_under_load() {
    let mut scene = Watched::start(Cluster::replicated(2), "reads = \"any\"\n");
    let names = shown(&mut scene);
    scene.wait_for_roles(&["writer", "reader", "reader"]);
    let mut first = client(&scene.flifo).unwrap();
    first.query("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)").unwrap();
    let (stop, done, last) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        let _over = Over(&stop);
        for _ in 0..4 {
            let (mut client, stop) = (client(&scene.flifo).unwrap(), &stop);
            let (done, last) = (&done, &last);
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    client.query("INSERT INTO t (v) VALUES (1)").expect("writes go on");
                    let id = server_id(&mut client);
                    last.fetch_or(1 << id.parse::<u64>().unwrap(), Relaxed);
                    done.fetch_add(1, Relaxed);
                }
            });
        }
        let met = |last: &AtomicU64, server: u32| last.load(Relaxed) & (1 << server) != 0;
        wait_for("both readers to be read from", || met(&last, 2) && met(&last, 3));

        let gone = names[2].clone();
        let told = reload(&mut scene, |text| text.replacen(&entry(text, &gone), "", 1));
        assert_eq!(told, [[format!("servers.{gone}"), "now".to_owned()]]);
        assert_eq!(shown(&mut scene), names[..2]);
        let before = done.load(Relaxed);
        wait_for("what was on its way", || done.load(Relaxed) > before + 20);
        last.store(0, Relaxed);
        let before = done.load(Relaxed);
        wait_for("more to be done", || done.load(Relaxed) > before + 200);
        assert!(met(&last, 2) && !met(&last, 3), "the server that is gone is read from");

        let port = scene.cluster.servers[2].port();
        let back = format!("[[servers]]\nname = \"{gone}\"\naddress = \"127.0.0.1:{port}\"\n");
        let told =
            reload(&mut scene, |text| text.replacen("[[users]]", &format!("{back}[[users]]"), 1));
        assert_eq!(told, [[format!("servers.{gone}"), "now".to_owned()]]);
        wait_for("the reader that is back", || met(&last, 3));
        assert_eq!(shown(&mut scene), names);

        // Under another name it is another server.
        let other = back.replacen(&gone, "other", 1);
        let told = reload(&mut scene, |text| text.replacen(&entry(text, &gone), &other, 1));
        assert_eq!(told.len(), 2, "{told:?}");
        last.store(0, Relaxed);
        wait_for("the reader of another name", || met(&last, 3));
        assert_eq!(shown(&mut scene)[2], "other");
        stop.store(true, Relaxed);
    });
    let rows: u64 =
        one(&mut first, "SELECT COUNT(*) FROM t WHERE 1 FOR UPDATE").unwrap().parse().unwrap();
    assert!(rows >= done.load(Relaxed));
    let (status, log) = scene.flifo.stop();
    assert!(status.success() && !log.contains("panicked"), "{log}");
}

#[test]
fn the_limit_of_one_server_is_in_force_at_once() {
    let mut scene = Watched::start(Cluster::replicated(1), "");
    let names = shown(&mut scene);
    scene.wait_for_roles(&["writer", "reader"]);
    let limit = |scene: &mut Watched, at: usize| {
        let rows = scene.console.query("SHOW FULL SERVERS").unwrap();
        rows[at][6..8].join(" ")
    };
    let usual = limit(&mut scene, 0);
    let mut connected = client(&scene.flifo).unwrap();
    let named = format!("name = \"{}\"\n", names[1]);
    let told = reload(&mut scene, |text| text.replacen(&named, &format!("{named}limit = 3\n"), 1));
    assert_eq!(told, [[format!("servers.{}.limit", names[1]), "now".to_owned()]]);
    assert!(limit(&mut scene, 1).starts_with("3 "), "{}", limit(&mut scene, 1));
    assert_eq!(limit(&mut scene, 0), usual, "the other server's");
    connected.query("SELECT 1").expect("it goes on");
    let told = reload(&mut scene, |text| text.replacen("limit = 3\n", "limit = 5\n", 1));
    assert_eq!(told, [[format!("servers.{}.limit", names[1]), "now".to_owned()]]);
    assert!(limit(&mut scene, 1).starts_with("5 "), "{}", limit(&mut scene, 1));
    connected.query("SELECT 1").expect("it goes on");
    let (status, log) = scene.flifo.stop();
    assert!(status.success() && !log.contains("panicked"), "{log}");
}

/// One server, and then another one in its place.
struct Moved {
    flifo: Flifo,
    servers: [PrivateServer; 2],
    folder: tempfile::TempDir,
}

impl Moved {
    fn start() -> Self {
        let servers = [(); 2].map(|()| PrivateServer::start_default().expect("a private server"));
        for (at, server) in servers.iter().enumerate() {
            server
                .sql(&format!(
                    "CREATE USER app@'%' IDENTIFIED BY 'app'; GRANT ALL ON *.* TO app@'%'; \
                     CREATE USER passed@'%' IDENTIFIED BY 'passed'; \
                     CREATE DATABASE d; CREATE TABLE d.t (v INT); CREATE TABLE d.which AS SELECT {at} AS v"
                ))
                .expect("it is created");
        }
        let folder = tempfile::tempdir().unwrap();
        let console = folder.path().join("console.sock");
        let flifo = Flifo::start(&format!(
            "[server]\naddress = \"{}\"\nlearn_passwords = \"off\"\n[limits]\nstop = \"2s\"\n\
             [console]\nlisten = [{console:?}]\n[http]\nlisten = []\n\
             [[users]]\nname = \"app\"\npassword = \"app\"\n",
            servers[0].socket().display()
        ));
        Self { flifo, servers, folder }
    }

    fn client(&self, user: &str) -> Result<Client, Problem> {
        let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: self.flifo.port() };
        Client::builder(address, user, user).connect()
    }

    fn move_to(&self, from: usize, to: usize) {
        let [from, to] = [from, to].map(|at| self.servers[at].socket().display().to_string());
        self.flifo.change_configuration(|text| text.replacen(&from, &to, 1));
        let address = Address::Unix(self.folder.path().join("console.sock"));
        let mut console = Client::builder(address, "admin", "").connect().expect("the console");
        let told = console.query("RELOAD").expect("a good file");
        assert_eq!((&*told[0][0], &*told[0][3]), ("server.address", "now"));
    }
}

#[test]
fn the_only_server_is_another_one() {
    let scene = Moved::start();
    const WHICH: &str = "SELECT v FROM d.which";
    let [mut idle, mut busy, mut bound] = [(); 3].map(|()| scene.client("app").unwrap());
    let mut passed = scene.client("passed").unwrap();
    passed.query("SELECT 1").unwrap();
    bound.query("CREATE TEMPORARY TABLE d.mine (v INT)").unwrap();
    for client in [&mut idle, &mut busy] {
        assert_eq!(one(client, WHICH).unwrap(), "0");
    }
    idle.query("SET lock_wait_timeout = 77").unwrap();
    busy.query("BEGIN").unwrap();
    busy.query("INSERT INTO d.t VALUES (1)").unwrap();
    scene.move_to(0, 1);
    assert_eq!(
        idle.query("SELECT v, @@lock_wait_timeout FROM d.which").unwrap(),
        [["1", "77"]],
        "its session goes along"
    );
    assert_eq!(one(&mut busy, WHICH).unwrap(), "0", "a transaction stays");
    busy.query("COMMIT").unwrap();
    assert_eq!(one(&mut busy, WHICH).unwrap(), "1", "behind it, the client goes along");
    // What cannot go along ends, and says why.
    for client in [&mut bound, &mut passed] {
        wait_for("the client to end", || client.query("SELECT 1").is_err());
    }
    assert_eq!(one(&mut scene.client("app").unwrap(), WHICH).unwrap(), "1");
    scene.client("passed").unwrap().query("SELECT 1").unwrap();
    let counted = scene.servers[0].sql("SELECT COUNT(*) FROM d.t").unwrap();
    assert_eq!(counted.trim(), "1", "what was committed is there");
    scene.move_to(1, 0);
    assert_eq!(one(&mut idle, WHICH).unwrap(), "0", "and back");
    // A transaction that does not end has `limits.stop`.
    busy.query("BEGIN").unwrap();
    busy.query("INSERT INTO d.t VALUES (2)").unwrap();
    scene.move_to(0, 1);
    wait_for("the transaction to be cut off", || {
        thread::sleep(Duration::from_millis(100));
        busy.query("SELECT 1").is_err()
    });
    let (status, log) = scene.flifo.stop();
    assert!(status.success() && !log.contains("panicked"), "{log}");
}

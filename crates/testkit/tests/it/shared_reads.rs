//! Identical reads that wait are run once: each client gets the reply, in its own form, and none reads what is older
//! than its own request.
//!
//! One slot and one backend before a real server. A statement that waits for a table in the server holds them, until
//! the table is free; meanwhile others queue. What has been shared is told by Flifo's counters.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use backend::Address;
use bench::private_server::PrivateServer;
use testkit::client::Client;
use testkit::cluster::Cluster;
use testkit::fake_client::{Answer, FakeClient};
use testkit::flifo::Flifo;
use testkit::linear::{self, campaign};
use testkit::overdue::Over;
use testkit::scene::wait_for;

use crate::cluster::{Watched, client, one};
use crate::shared::USER;

const SCHEMA: &str = "shared_reads";

const READ: &str = "SELECT v FROM t WHERE id = 1";

/// The tables. `gate` and `slow` are what statements wait for.
const TABLES: &str = "CREATE TABLE t (id INT PRIMARY KEY, v BIGINT, w VARCHAR(20)); \
    INSERT INTO t VALUES (1, 10, 'ten'), (2, 20, 'twenty'); \
    CREATE TABLE gate (a INT); CREATE TABLE slow (a INT); INSERT INTO slow VALUES (7); \
    CREATE TABLE large (id INT PRIMARY KEY, b VARCHAR(2000)); \
    INSERT INTO large SELECT seq, REPEAT('x', 1000) FROM seq_1_to_2000; \
    CREATE VIEW random AS SELECT id, RAND() AS r FROM t; \
    CREATE VIEW steady AS SELECT id, v + 1 AS r FROM t;";

struct Scene {
    server: PrivateServer,
    flifo: Flifo,
    console: Client,
    /// What hold the tables that statements wait for: the gate, and the slow one.
    holder: Client,
    slow: Client,
    folder: tempfile::TempDir,
}

fn connect(address: &Address, user: &str, password: &str) -> Client {
    Client::builder(address.clone(), user, password).connect().expect("a login")
}

/// A client of the server itself.
fn direct(server: &PrivateServer) -> Client {
    let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: server.port() };
    let mut client = connect(&address, USER, server.password());
    client.query(&format!("USE {SCHEMA}")).expect("the schema");
    client
}

impl Scene {
    fn start() -> Self {
        let server = PrivateServer::builder().start().expect("a private server");
        server
            .sql(&format!(
                "GRANT ALL ON *.* TO {USER}@'%'; CREATE DATABASE {SCHEMA}; \
                 GRANT ALL ON *.* TO alone@'%' IDENTIFIED BY 'alone'"
            ))
            .unwrap();
        server.sql(&format!("USE {SCHEMA}; {TABLES}")).expect("tables");
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("console.sock");
        let flifo = Flifo::start(&format!(
            "workers = 1\n[server]\naddress = \"{}\"\nconnections_max = 1\nlimit = 1\nparking = \"off\"\n\
             share_reads = \"on\"\n[limits]\nwait = \"120s\"\n[console]\nlisten = [{socket:?}]\n[http]\nlisten = []\n\
             [[classes]]\nname = \"alone\"\nusers = [\"another\"]\nshare_reads = \"off\"\n\
             [[users]]\nname = \"{USER}\"\npassword = \"{}\"\n\
             [[users]]\nname = \"alone\"\npassword = \"alone\"\nshare_reads = \"off\"\n\
             [[rules]]\nname = \"never\"\nmatch = {{ tag = {{ share = \"never\" }} }}\nshare_reads = \"off\"\n\
             [[rules]]\nname = \"always\"\nmatch = {{ tag = {{ share = \"always\" }} }}\nshare_reads = \"on\"\n\
             [[rules]]\nname = \"any\"\nmatch = {{ tag = {{ rule = \"any\" }} }}\nretries = 1\n\
             [[rules]]\nname = \"half\"\nmatch = {{ tag = {{ rule = \"half\" }}, share = 0.5 }}\nretries = 1\n",
            server.socket().display(),
            server.password(),
        ));
        let console = connect(&socket.to_str().unwrap().parse().unwrap(), "admin", "");
        let (holder, slow) = (direct(&server), direct(&server));
        Self { server, flifo, console, holder, slow, folder }
    }

    fn client(&self) -> FakeClient {
        self.client_of(USER, self.server.password())
    }

    fn client_of(&self, user: &str, password: &str) -> FakeClient {
        let mut client = FakeClient::login(self.flifo.port(), user, password).expect("a login");
        client.query(&format!("USE {SCHEMA}")).expect("the schema");
        client
    }

    fn clients(&self, count: usize) -> Vec<FakeClient> {
        (0..count).map(|_| self.client()).collect()
    }

    /// A client of another kind, which expects EOF packets.
    fn older_client(&self) -> Client {
        let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: self.flifo.port() };
        let mut client = connect(&address, USER, self.server.password());
        client.query(&format!("USE {SCHEMA}")).unwrap();
        client
    }

    /// How many clients are in this state.
    fn in_state(&mut self, state: &str) -> usize {
        let text = format!("SELECT id FROM clients WHERE state = '{state}'");
        self.console.query(&text).expect("clients").len()
    }

    fn wait_for(&mut self, state: &str, count: usize) {
        wait_for(&format!("{count} to be {state}"), || self.in_state(state) == count);
    }

    fn counted(&mut self, name: &str) -> u64 {
        let rows = self.console.query(&format!("SHOW STATS LIKE '{name}'")).expect("counters");
        rows.first().map_or(0, |row| row[1].parse().expect("a number"))
    }

    /// Joined, spared.
    fn shared(&mut self) -> (u64, u64) {
        (self.counted("share_joined"), self.counted("share_spared"))
    }

    /// Has a statement hold the slot and the backend until [`Self::release`].
    fn hold(&mut self) -> FakeClient {
        self.holder.query("LOCK TABLES gate WRITE, t WRITE").expect("locks");
        let mut front = self.client();
        send(&mut front, "SELECT a FROM gate");
        self.wait_for("running", 1);
        front
    }

    /// The same; these statements wait in the queue, in this order, when it returns.
    fn hold_before(&mut self, asks: &mut [(&mut FakeClient, &str)]) -> FakeClient {
        let front = self.hold();
        for (at, (client, text)) in asks.iter_mut().enumerate() {
            send(client, text);
            self.wait_for("queued", at + 1);
        }
        front
    }

    fn release(&mut self) {
        self.holder.query("UNLOCK TABLES").expect("no locks");
    }

    /// All of these ask this while nothing can run; what each is answered, and how many have joined and been spared.
    fn stampede(&mut self, clients: &mut [FakeClient], text: &str) -> (Vec<Answer>, (u64, u64)) {
        let before = self.shared();
        let mut front = self.hold();
        clients.iter_mut().for_each(|client| send(client, text));
        self.wait_for("queued", clients.len());
        self.release();
        let answers = clients.iter_mut().map(FakeClient::read_answer).collect();
        front.read_answer().expect("the gate's rows");
        let after = self.shared();
        (answers, (after.0 - before.0, after.1 - before.1))
    }

    /// The same of a long reply of so many lines, which all read at once, until it was seen: if the machine lets a
    /// leader wait, its followers go their own ways.
    fn stampede_until(
        &mut self,
        clients: &mut [FakeClient],
        text: &str,
        lines: usize,
        is_seen: impl Fn(&mut Self, u64) -> bool,
    ) {
        let rows = Ok(vec![vec![b'x'; 1000]; lines]);
        for _ in 0..50 {
            let before = self.shared().1;
            let mut front = self.hold();
            clients.iter_mut().for_each(|client| send(client, text));
            self.wait_for("queued", clients.len());
            self.release();
            thread::scope(|scope| {
                for client in &mut *clients {
                    let rows = &rows;
                    scope.spawn(move || assert!(client.read_answer() == *rows, "another reply"));
                }
            });
            front.read_answer().expect("the gate's rows");
            let spared = self.shared().1 - before;
            if is_seen(self, spared) {
                return;
            }
        }
        panic!("never seen: {text}");
    }
}

fn send(client: &mut FakeClient, text: &str) {
    client.send_packet(0, &[&[3], text.as_bytes()].concat());
}

fn value(text: &str) -> Answer {
    Ok(vec![text.as_bytes().to_vec()])
}

fn is_alike(answers: &[Answer], one: &Answer) -> bool {
    answers.iter().all(|answer| answer == one)
}

#[test]
fn identical_reads_that_wait_are_run_once() {
    let mut scene = Scene::start();
    each_client_gets_the_reply_and_its_own_counts(&mut scene);
    only_what_is_equal_is_shared(&mut scene);
    what_was_written_before_the_run_is_read(&mut scene);
    errors_and_warnings_are_each_clients_own(&mut scene);
    prepared_statements_are_shared_by_text_and_parameters(&mut scene);
    large_replies_and_slow_readers(&mut scene);
    a_run_is_charged_in_parts(&mut scene);
    kills_and_losses(&mut scene);
    what_is_off_is_not_shared(&mut scene);
    let Scene { flifo, folder, .. } = scene;
    let (status, log) = flifo.stop();
    assert!(status.success() && !log.contains("panicked"), "{log}");
    drop(folder);
}

/// The long run is `cargo xtask linear`.
#[test]
fn what_clients_see_of_registers_is_linear() {
    let extent = campaign::Extent {
        operations: 12_000,
        readers: 24,
        writers: 2,
        both: 4,
        registers: 2,
        kills: 20,
    };
    let outcome = campaign::run(None, extent, 1);
    assert_eq!(linear::check(&outcome.history), None);
    assert!(outcome.spared > 100 && outcome.history.len() > 5_000, "{}", outcome.spared);
    assert_eq!(outcome.unexplained(), 0, "{:?} after {} kills", outcome.failed, outcome.kills);
}

/// Clients that write and clients that merely read ask the same of two readers, of which one or the other lags.
#[test]
fn a_shared_read_has_what_its_client_wrote_before_although_readers_lag() {
    const KEYS: usize = 3;
    const TURNS: usize = 150;
    let options =
        "hold = \"60s\"\n[server]\nshare_reads = \"on\"\nlimit = 1\n[limits]\nwait = \"120s\"\n";
    let mut scene = Watched::start(Cluster::replicated(2), options);
    scene.wait_for_roles(&["writer", "reader", "reader"]);
    let mut setup = client(&scene.flifo).unwrap();
    setup.query("CREATE TABLE own (id INT PRIMARY KEY, v INT)").unwrap();
    setup.query("CREATE TABLE long_way (n INT PRIMARY KEY)").unwrap();
    setup.query("INSERT INTO own VALUES (0, 0), (1, 0), (2, 0)").unwrap();
    setup.query("INSERT INTO long_way SELECT seq FROM seq_1_to_2000").unwrap();
    (1..=2).for_each(|reader| scene.cluster.wait_for(reader, 0));
    let Watched { console, flifo, cluster, .. } = &mut scene;
    let (flifo, over) = (&*flifo, AtomicBool::new(false));
    let text =
        |key: usize| format!("SELECT MAX(v + 0 * n) FROM own JOIN long_way WHERE id = {key}");
    thread::scope(|scope| {
        let stop = Over(&over);
        for number in 0..4 * KEYS {
            let over = &over;
            scope.spawn(move || {
                let mut client = client(flifo).unwrap();
                while !over.load(Relaxed) {
                    one(&mut client, &text(number % KEYS)).unwrap();
                }
            });
        }
        let writer = |key: usize| {
            move || {
                let mut client = client(flifo).unwrap();
                for turn in 1..=TURNS {
                    client.query(&format!("UPDATE own SET v = {turn} WHERE id = {key}")).unwrap();
                    assert_eq!(one(&mut client, &text(key)).unwrap(), turn.to_string());
                }
            }
        };
        let writers: Vec<_> = (0..KEYS).map(|key| scope.spawn(writer(key))).collect();
        // A pause is a lag; how long it is does not matter.
        for turn in 0.. {
            let reader = &mut cluster.servers[1 + turn % 2];
            reader.sql("STOP SLAVE SQL_THREAD").unwrap();
            thread::sleep(Duration::from_millis(5));
            reader.sql("START SLAVE SQL_THREAD").unwrap();
            if writers.iter().all(thread::ScopedJoinHandle::is_finished) {
                break;
            }
        }
        drop(stop);
    });
    let spared = console.query("SHOW STATS LIKE 'share_spared'").unwrap();
    assert!(spared[0][1].parse::<u64>().unwrap() > 100, "{spared:?}");
}

fn each_client_gets_the_reply_and_its_own_counts(scene: &mut Scene) {
    let mut clients = scene.clients(30);
    let (answers, shared) = scene.stampede(&mut clients, READ);
    assert!(is_alike(&answers, &value("10")), "{answers:?}");
    assert_eq!(shared, (29, 29));
    for client in &mut clients {
        assert_eq!(client.query("SELECT FOUND_ROWS()"), value("1"));
    }
    let text = "SELECT w FROM t WHERE id > 0 ORDER BY id";
    let (answers, shared) = scene.stampede(&mut clients, text);
    assert!(is_alike(&answers, &Ok(vec![b"ten".to_vec(), b"twenty".to_vec()])), "{answers:?}");
    assert_eq!(shared, (29, 29));
    for client in &mut clients {
        assert_eq!(client.query("SELECT ROW_COUNT()"), value("-1"));
        assert_eq!(client.query("SELECT @@warning_count"), value("0"));
    }
    // Clients that expect EOF packets share among themselves.
    let before = scene.shared();
    let older: Vec<_> = (0..4).map(|_| scene.older_client()).collect();
    let mut front = scene.hold();
    let ask = |mut client: Client| {
        thread::spawn(move || {
            let first = client.query(READ).expect("a row");
            (first, client.query("SELECT FOUND_ROWS()").expect("a count"))
        })
    };
    let older: Vec<_> = older.into_iter().map(ask).collect();
    clients.iter_mut().for_each(|client| send(client, READ));
    scene.wait_for("queued", 34);
    scene.release();
    let one = |text: &str| vec![vec![text.to_owned()]];
    for client in older {
        assert_eq!(client.join().unwrap(), (one("10"), one("1")));
    }
    assert!(clients.iter_mut().all(|client| client.read_answer() == value("10")));
    front.read_answer().unwrap();
    assert_eq!(scene.shared().1 - before.1, 29 + 3);
    let text = "SELECT shared FROM digests WHERE shared > 0";
    let mut of_digests = scene.console.query(text).unwrap();
    of_digests.sort_unstable();
    assert_eq!(of_digests, [["29"], ["61"]]);
}

fn only_what_is_equal_is_shared(scene: &mut Scene) {
    let mut clients = scene.clients(9);
    // Another text, another schema, other variables, and what may vary.
    clients[1].query("USE information_schema").unwrap();
    clients[2].query("SET time_zone='+03:00'").unwrap();
    clients[3].query("SET @a = 1").unwrap();
    clients[4].query("SET sql_mode='ANSI_QUOTES'").unwrap();
    let before = scene.shared();
    let texts = [
        READ,
        "SELECT v FROM shared_reads.t WHERE id = 1",
        READ,
        READ,
        READ,
        "SELECT v FROM t WHERE id = 2",
        "SELECT v FROM t  WHERE id = 1",
        "SELECT v FROM t WHERE id = 1 AND NOW() > 0",
        "SELECT v FROM t WHERE id = 1 AND NOW() > 0",
    ];
    let mut front = scene.hold();
    for (client, text) in clients.iter_mut().zip(texts) {
        send(client, text);
    }
    scene.wait_for("queued", 9);
    scene.release();
    for (at, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.read_answer(), value(if at == 5 { "20" } else { "10" }), "{at}");
    }
    front.read_answer().unwrap();
    assert_eq!(scene.shared(), before);
    let mut clients = scene.clients(6);
    let (answers, shared) = scene.stampede(&mut clients, "SELECT r FROM random WHERE id = 1");
    let all: std::collections::BTreeSet<_> = answers.iter().map(|it| it.clone().unwrap()).collect();
    assert_eq!((all.len(), shared), (6, (0, 0)), "each has a number of its own");
    let (answers, shared) = scene.stampede(&mut clients, "SELECT r FROM steady WHERE id = 1");
    assert!(is_alike(&answers, &value("11")), "{answers:?}");
    assert_eq!(shared, (5, 5));
}

fn what_was_written_before_the_run_is_read(scene: &mut Scene) {
    let before = scene.shared();
    let mut clients = scene.clients(3);
    let [one, two, three] = &mut clients[..] else { unreachable!("three") };
    let mut front = scene.hold_before(&mut [(one, READ)]);
    scene.holder.query("UPDATE t SET v = v + 1 WHERE id = 1").expect("it has the lock");
    send(two, READ);
    scene.wait_for("queued", 2);
    scene.release();
    assert_eq!((one.read_answer(), two.read_answer()), (value("11"), value("11")));
    front.read_answer().unwrap();
    assert_eq!(scene.shared().1 - before.1, 1);
    // What runs already is not joined, although it has not come to its rows.
    let text = "SELECT a FROM slow";
    scene.slow.query("LOCK TABLES slow WRITE").unwrap();
    send(one, text);
    scene.wait_for("running", 1);
    send(two, text);
    send(three, text);
    scene.wait_for("queued", 2);
    scene.slow.query("UNLOCK TABLES").unwrap();
    for client in &mut clients {
        assert_eq!(client.read_answer(), value("7"));
    }
    assert_eq!(scene.shared().1 - before.1, 2, "the last two share");
    scene.holder.query("UPDATE t SET v = 10 WHERE id = 1").unwrap();
}

fn errors_and_warnings_are_each_clients_own(scene: &mut Scene) {
    let mut clients = scene.clients(8);
    let (answers, shared) = scene.stampede(&mut clients, "SELECT v FROM missing WHERE id = 1");
    let codes: Vec<_> = answers.into_iter().map(|it| it.unwrap_err().code()).collect();
    assert_eq!((codes, shared), (vec![1146; 8], (7, 7)));
    for client in &mut clients {
        assert_eq!(client.query("SELECT @@error_count"), value("1"));
        assert_eq!(client.query("SHOW ERRORS"), value("Error"));
    }
    let text = "SELECT v FROM t WHERE id = 1 AND w > 1";
    let (_, shared) = scene.stampede(&mut clients, text);
    assert_eq!(shared, (0, 0), "they have diagnostics of before");
    let mut clients = scene.clients(8);
    let (answers, shared) = scene.stampede(&mut clients, text);
    assert!(is_alike(&answers, &Ok(vec![])), "{answers:?}");
    assert_eq!(shared, (7, 0), "only the backend knows the warnings");
    for client in &mut clients {
        assert_eq!(client.query("SELECT @@warning_count"), value("1"));
    }
    let mut clients = scene.clients(8);
    let (_, shared) = scene.stampede(&mut clients, text);
    assert_eq!(shared, (0, 0), "it is known now that this is in vain");
    assert_eq!(scene.counted("share_cut_out.unfit"), 7);
}

fn prepared_statements_are_shared_by_text_and_parameters(scene: &mut Scene) {
    let mut clients = scene.clients(8);
    let text = "SELECT w FROM t WHERE id = ?";
    let ids: Vec<_> = clients.iter_mut().map(|it| it.prepare(text).expect("prepared")).collect();
    let execute = |id: u32, parameter: i32, types: bool| {
        let types: &[u8] = if types { &[0, 1, 3, 0] } else { &[0, 0] };
        [&[0x17][..], &id.to_le_bytes(), b"\0\x01\0\0\0", types, &parameter.to_le_bytes()].concat()
    };
    for has_types in [true, false] {
        let before = scene.shared();
        let mut front = scene.hold();
        for (at, client) in clients.iter_mut().enumerate() {
            client.send_packet(0, &execute(ids[at], 1 + (at % 2) as i32, has_types));
        }
        scene.wait_for("queued", 8);
        scene.release();
        for (at, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.read_answer(), value(["ten", "twenty"][at % 2]), "{at} {has_types}");
        }
        front.read_answer().unwrap();
        assert_eq!(scene.shared().1 - before.1, 6, "two runs");
    }
}

fn large_replies_and_slow_readers(scene: &mut Scene) {
    let mut clients = scene.clients(5);
    // Eighteen megabytes: too much, or more than its first client takes at once. Each has it by a run of its own.
    let text = "SELECT l.b FROM large l JOIN large m ON m.id <= 9";
    let cut_out = |scene: &mut Scene| {
        scene.counted("share_cut_out.too_large") + scene.counted("share_cut_out.again")
    };
    let before = cut_out(scene);
    scene.stampede_until(&mut clients[..3], text, 18_000, |scene, spared| {
        assert_eq!(spared, 0);
        assert!(cut_out(scene) >= before + 2);
        true
    });
    // Six hundred kilobytes.
    let text = "SELECT b FROM large WHERE id <= 600 AND id > 0";
    scene.stampede_until(&mut clients, text, 600, |_, spared| spared == 4);
    // Two hundred kilobytes, in more than one read.
    let text = "SELECT b FROM large WHERE id <= 200";
    let (answers, shared) = scene.stampede(&mut clients, text);
    assert!(is_alike(&answers, &Ok(vec![vec![b'x'; 1000]; 200])) && shared == (4, 4), "{shared:?}");
    // A client that reads nothing keeps no other one waiting, and has its reply when it reads.
    let before = scene.shared();
    let mut front = scene.hold();
    clients.iter_mut().for_each(|client| send(client, text));
    scene.wait_for("queued", 5);
    scene.release();
    for client in clients.iter_mut().skip(1).chain([&mut front]) {
        assert!(client.read_answer().is_ok());
    }
    assert_eq!(scene.client().query(READ), value("10"), "the slot is free");
    assert_eq!(clients[0].read_answer().map(|rows| rows.len()), Ok(200));
    assert_eq!(scene.shared().1 - before.1, 4);
}

/// One run that several have shared counts as one, in parts.
fn a_run_is_charged_in_parts(scene: &mut Scene) {
    let mut clients = scene.clients(9);
    let text = "SELECT w, v FROM t WHERE id = 2";
    let (_, shared) = scene.stampede(&mut clients, text);
    assert_eq!(shared, (8, 8));
    let rows = scene
        .console
        .query(
            "SELECT shared, charged_ms, total_ms FROM digests WHERE text LIKE 'SELECT w, v FROM t%'",
        )
        .expect("digests");
    let number = |at: usize| rows[0][at].parse::<f64>().expect("a number");
    let (charged, total) = (number(1), number(2));
    assert_eq!(number(0) as u64, 8);
    // Times are rounded to microseconds.
    assert!((charged * 9.0 - total).abs() < 0.1, "{charged} of {total} ms are charged");
}

fn kills_and_losses(scene: &mut Scene) {
    let text = "SELECT a FROM slow";
    let mut killer = scene.client();
    for what in ["leader leaves", "leader is killed", "backend is lost"] {
        let mut clients = scene.clients(5);
        let id = |client: &mut FakeClient| {
            let rows = client.query("SELECT CONNECTION_ID()").expect("an id");
            String::from_utf8(rows[0].clone()).expect("a number")
        };
        let ids: Vec<_> = clients.iter_mut().map(id).collect();
        let mut asks: Vec<_> = clients.iter_mut().map(|client| (client, text)).collect();
        scene.slow.query("LOCK TABLES slow WRITE").unwrap();
        let mut front = scene.hold_before(&mut asks);
        scene.release();
        front.read_answer().expect("the gate's rows");
        drop(front);
        scene.wait_for("sharing", 4);
        // One follower leaves, one is killed.
        drop(clients.pop());
        assert!(killer.query(&format!("KILL QUERY {}", ids[3])).is_ok());
        assert_eq!(clients.pop().unwrap().read_answer().unwrap_err().code(), 1317);
        scene.wait_for("sharing", 2);
        let again = scene.counted("share_cut_out.again");
        match what {
            "leader leaves" => drop(clients.remove(0)),
            "leader is killed" => {
                assert!(killer.query(&format!("KILL QUERY {}", ids[0])).is_ok());
                assert_eq!(clients.remove(0).read_answer().unwrap_err().code(), 1317);
            }
            _ => {
                let find = "SELECT id FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT a FROM slow%'";
                let rows = scene.holder.query(find).unwrap();
                scene.holder.query(&format!("KILL {}", rows[0][0])).unwrap();
                assert!(clients.remove(0).read_answer().is_err());
            }
        }
        // One of the two that are left leads now.
        wait_for("the others to share again", || {
            scene.counted("share_cut_out.again") == again + 2 && scene.in_state("sharing") == 1
        });
        scene.slow.query("UNLOCK TABLES").unwrap();
        for client in &mut clients {
            assert_eq!(client.read_answer(), value("7"), "{what}");
            assert_eq!(client.query(READ), value("10"), "{what}");
        }
    }
}

fn what_is_off_is_not_shared(scene: &mut Scene) {
    let mut clients = scene.clients(4);
    let text = format!("/* class=alone */ {READ}");
    let (answers, shared) = scene.stampede(&mut clients, &text);
    assert!(is_alike(&answers, &value("10")) && shared == (0, 0), "{answers:?} {shared:?}");
    let mut others: Vec<_> = (0..4).map(|_| scene.client_of("alone", "alone")).collect();
    let (answers, shared) = scene.stampede(&mut others, READ);
    assert!(is_alike(&answers, &value("10")) && shared == (0, 0), "{answers:?} {shared:?}");
    rules_say_what_is_shared(scene, &mut clients);
    scene.console.query("SET server.share_reads = 'off'").expect("an option");
    let (answers, shared) = scene.stampede(&mut clients, READ);
    assert!(is_alike(&answers, &value("10")) && shared == (0, 0), "{answers:?} {shared:?}");
    let always = format!("/* share='always' */ {READ}");
    let (answers, shared) = scene.stampede(&mut clients, &always);
    assert!(is_alike(&answers, &value("10")) && shared == (3, 3), "{answers:?} {shared:?}");
    rules_are_of_those_that_share(scene);
}

fn rules_say_what_is_shared(scene: &mut Scene, clients: &mut [FakeClient]) {
    for (tag, wanted) in [("share='never'", (0, 0)), ("rule='any'", (3, 3))] {
        let (answers, shared) = scene.stampede(clients, &format!("/* {tag} */ {READ}"));
        assert!(
            is_alike(&answers, &value("10")) && shared == wanted,
            "{tag}: {answers:?} {shared:?}"
        );
    }
    let hits = scene.console.query("SELECT hits FROM rules WHERE name = 'any'").expect("rules");
    assert_eq!(hits, [["4"]], "each is counted");
}

/// A rule that hits half of what is asked: those that it has hit share a run, and those that it has not share another one.
fn rules_are_of_those_that_share(scene: &mut Scene) {
    scene.console.query("SET server.share_reads = 'on'").expect("an option");
    let mut clients = scene.clients(40);
    let before = scene.console.query("SELECT hits FROM rules WHERE name = 'half'").expect("rules");
    let text = format!("/* rule='half' */ {READ}");
    let (answers, shared) = scene.stampede(&mut clients, &text);
    let after = scene.console.query("SELECT hits FROM rules WHERE name = 'half'").expect("rules");
    let count = |rows: &[Vec<String>]| rows[0][0].parse::<u64>().expect("a number");
    let hit = count(&after) - count(&before);
    assert!((1..40).contains(&hit), "{hit}");
    assert!(is_alike(&answers, &value("10")) && shared == (38, 38), "{answers:?} {shared:?} {hit}");
}

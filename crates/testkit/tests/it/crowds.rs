//! Reads that take long wait for equal ones that run, although slots are free: a stampede costs three runs at most.

use std::time::Instant;

use backend::Address;
use bench::private_server::PrivateServer;
use testkit::client::Client;
use testkit::fake_client::FakeClient;
use testkit::flifo::Flifo;
use testkit::scene::wait_for;

use crate::shared::USER;

const SCHEMA: &str = "crowds";

/// A statement that waits for a table in the server until the table is free.
const READ: &str = "SELECT v FROM t WHERE id = 1";

struct Scene {
    server: PrivateServer,
    flifo: Flifo,
    console: Client,
    /// Holds the table.
    holder: Client,
    _folder: tempfile::TempDir,
}

impl Scene {
    fn start() -> Self {
        let server = PrivateServer::builder().start().expect("a private server");
        server
            .sql(&format!(
                "GRANT ALL ON *.* TO {USER}@'%'; CREATE DATABASE {SCHEMA}; USE {SCHEMA}; \
                 CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 10)"
            ))
            .expect("tables");
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("console.sock");
        let flifo = Flifo::start(&format!(
            "workers = 1\n[server]\naddress = \"{}\"\nconnections_max = 64\nlimit = 64\nparking = \"off\"\n\
             share_reads = \"on\"\n[limits]\nwait = \"120s\"\n[console]\nlisten = [{socket:?}]\n[http]\nlisten = []\n\
             [[users]]\nname = \"{USER}\"\npassword = \"{}\"\n",
            server.socket().display(),
            server.password(),
        ));
        let connect = |address, user: &str, password: &str| {
            Client::builder(address, user, password).connect().expect("a login")
        };
        let console = connect(socket.to_str().unwrap().parse().unwrap(), "admin", "");
        let port = server.port();
        let address = Address::Tcp { host: "127.0.0.1".to_owned(), port };
        let mut holder = connect(address, USER, server.password());
        holder.query(&format!("USE {SCHEMA}")).expect("the schema");
        Self { server, flifo, console, holder, _folder: folder }
    }

    fn clients(&self, count: usize) -> Vec<FakeClient> {
        let client = |_| {
            let password = self.server.password();
            let mut client = FakeClient::login(self.flifo.port(), USER, password).expect("a login");
            client.query(&format!("USE {SCHEMA}")).expect("the schema");
            client
        };
        (0..count).map(client).collect()
    }

    /// How often the server has read the table.
    fn runs(&self) -> u64 {
        let text = "SELECT variable_value FROM information_schema.global_status \
                    WHERE variable_name = 'HANDLER_READ_KEY'";
        self.server.sql(text).expect("a number").trim().parse().expect("a number")
    }

    fn counted(&mut self, name: &str) -> u64 {
        let rows = self.console.query(&format!("SHOW STATS LIKE '{name}'")).expect("counters");
        rows.first().map_or(0, |row| row[1].parse().expect("a number"))
    }

    fn in_state(&mut self, state: &str) -> usize {
        let text = format!("SELECT id FROM clients WHERE state = '{state}'");
        self.console.query(&text).expect("clients").len()
    }

    /// All of these ask the same while the table is held. Then each is answered this; answers with how often it was read.
    fn stampede(&mut self, clients: &mut [FakeClient], value: &str) -> u64 {
        let before = self.runs();
        self.holder.query("LOCK TABLES t WRITE").expect("a lock");
        let begun = Instant::now();
        for client in clients.iter_mut() {
            client.send_packet(0, &[&[3], READ.as_bytes()].concat());
        }
        let count = clients.len();
        wait_for(&format!("{count} to wait"), || {
            self.in_state("running") + self.in_state("sharing") == count
        });
        self.holder.query(&format!("UPDATE t SET v = {value} WHERE id = 1")).expect("it writes");
        self.holder.query("UNLOCK TABLES").expect("no lock");
        let late = begun.elapsed().as_secs();
        let expected = Ok(vec![value.as_bytes().to_vec()]);
        for client in clients {
            assert_eq!(client.read_answer(), expected);
        }
        // The write looks the row up as well. A crowd that has waited for a second begins another run.
        (self.runs() - before - 1).saturating_sub(late)
    }
}

#[test]
fn a_stampede_is_answered_by_three_runs_although_slots_are_free() {
    let mut scene = Scene::start();
    let mut clients = scene.clients(200);
    for turn in 11..14 {
        let runs = scene.stampede(&mut clients, &turn.to_string());
        assert!((1..=3).contains(&runs), "turn {turn}: {runs} runs");
    }
    assert!(scene.counted("share_crowded") >= 3 * 100);
    clients_that_leave_their_crowd_harm_no_other(&mut scene);
    what_differs_runs_at_once(&mut scene);
    let (status, log) = scene.flifo.stop();
    assert!(status.success() && !log.contains("panicked"), "{log}");
}

fn clients_that_leave_their_crowd_harm_no_other(scene: &mut Scene) {
    let mut clients = scene.clients(20);
    scene.holder.query("LOCK TABLES t WRITE").expect("a lock");
    for client in &mut clients {
        client.send_packet(0, &[&[3], READ.as_bytes()].concat());
    }
    wait_for("20 to wait", || scene.in_state("running") + scene.in_state("sharing") == 20);
    // Some of them run, others stand in the crowd.
    let stay: Vec<_> = clients.into_iter().enumerate().filter(|(at, _)| at % 3 != 0).collect();
    wait_for("13 to be left", || scene.in_state("running") + scene.in_state("sharing") == 13);
    scene.holder.query("UNLOCK TABLES").expect("no lock");
    for (at, mut client) in stay {
        assert_eq!(client.read_answer(), Ok(vec![b"13".to_vec()]), "client {at}");
    }
}

fn what_differs_runs_at_once(scene: &mut Scene) {
    let mut clients = scene.clients(8);
    scene.holder.query("LOCK TABLES t WRITE").expect("a lock");
    for (at, client) in clients.iter_mut().enumerate() {
        let text = format!("SELECT v FROM t WHERE id = 1 AND {at} < 100");
        client.send_packet(0, &[&[3], text.as_bytes()].concat());
    }
    wait_for("all to run", || scene.in_state("running") == 8);
    scene.holder.query("UNLOCK TABLES").expect("no lock");
    for client in &mut clients {
        assert_eq!(client.read_answer(), Ok(vec![b"13".to_vec()]));
    }
}

//! Replies that are kept: a read under a rule that says `cache` gets one until something is written that it may have read.
//!
//! Two workers before a real server. After each kind of write that passes Flifo, all clients must read what the server
//! has; before it, they must have been answered without the server, or the test would show nothing.

use std::thread;
use std::time::{Duration, Instant};

use backend::Address;
use bench::private_server::PrivateServer;
use testkit::client::Client;
use testkit::fake_client::FakeClient;
use testkit::flifo::Flifo;
use testkit::kept_keys;
use testkit::relay::Relay;

use crate::shared::USER;

const SCHEMA: &str = "kept";

const TABLES: &str = "CREATE TABLE t (id INT PRIMARY KEY, v INT) ENGINE=InnoDB; INSERT INTO t VALUES (1, 0), (2, 0); \
    CREATE TABLE fires (a INT); CREATE TRIGGER fires_t AFTER INSERT ON fires FOR EACH ROW UPDATE t SET v = v + 1; \
    CREATE TABLE other (a INT); CREATE TABLE swapped (id INT PRIMARY KEY, v INT); \
    CREATE TABLE parent (id INT PRIMARY KEY) ENGINE=InnoDB; INSERT INTO parent VALUES (1), (2), (3); \
    CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE) ENGINE=InnoDB; \
    INSERT INTO child VALUES (1, 1), (2, 2), (3, 3); \
    CREATE VIEW seen AS SELECT id, v FROM t; \
    CREATE TABLE part (id INT, v INT, KEY (id)) ENGINE=MyISAM; INSERT INTO part VALUES (1, 1); \
    CREATE TABLE merged (id INT, v INT, KEY (id)) ENGINE=MERGE UNION=(part) INSERT_METHOD=LAST; \
    CREATE VIEW seen_merged AS SELECT v FROM merged; \
    CREATE TABLE past (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING; INSERT INTO past VALUES (1, 1); \
    CREATE SEQUENCE numbers; CREATE TABLE csv (v INT NOT NULL) ENGINE=CSV; \
    CREATE TABLE tags (id INT PRIMARY KEY, acts INT) ENGINE=InnoDB; INSERT INTO tags VALUES (1, 5); \
    CREATE PROCEDURE adds() UPDATE t SET v = v + 1;";

const FUNCTION: &str = "CREATE FUNCTION adding() RETURNS INT MODIFIES SQL DATA BEGIN UPDATE t SET v = v + 1; RETURN 1; END";

const READ: &str = "SELECT v FROM t WHERE id = 1";

struct Scene {
    server: PrivateServer,
    flifo: Flifo,
    console: Client,
    /// Of both workers.
    readers: Vec<Client>,
    _folder: tempfile::TempDir,
}

fn connect(address: &Address, user: &str, password: &str) -> Client {
    Client::builder(address.clone(), user, password).schema(SCHEMA).connect().expect("a login")
}

fn rules(cache: &str) -> String {
    format!("[[rules]]\nname = \"kept\"\ncache = {cache}\nmatch.kind = \"read\"\n")
}

impl Scene {
    fn start(cache: &str) -> Self {
        let server = PrivateServer::builder().start().expect("a private server");
        server
            .sql(&format!(
                "GRANT ALL ON *.* TO {USER}@'%' WITH GRANT OPTION; CREATE DATABASE {SCHEMA}; \
                 GRANT ALL ON *.* TO passed@'%' IDENTIFIED BY 'passed'"
            ))
            .expect("users");
        server.sql(&format!("USE {SCHEMA}; {TABLES}")).expect("tables");
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("console.sock");
        let flifo = Flifo::start(&format!(
            "workers = 2\n[server]\naddress = \"{}\"\n[console]\nlisten = [{socket:?}]\n[http]\nlisten = []\n\
             [[users]]\nname = \"{USER}\"\npassword = \"{}\"\n{}",
            server.socket().display(),
            server.password(),
            rules(cache),
        ));
        let console: Address = socket.to_str().expect("a path").parse().expect("an address");
        let console = Client::builder(console, "admin", "").connect().expect("a console");
        let mut scene = Self { server, flifo, console, readers: Vec::new(), _folder: folder };
        scene.direct().query(FUNCTION).expect("a function");
        scene.readers = (0..8).map(|_| scene.client()).collect();
        scene
    }

    fn address(&self) -> Address {
        Address::Tcp { host: "127.0.0.1".to_owned(), port: self.flifo.port() }
    }

    fn client(&self) -> Client {
        connect(&self.address(), USER, self.server.password())
    }

    fn direct(&self) -> Client {
        let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: self.server.port() };
        connect(&address, USER, self.server.password())
    }

    fn counted(&mut self, name: &str) -> u64 {
        // Answers to the console are as old as this.
        thread::sleep(Duration::from_millis(25));
        let rows = self.console.query(&format!("SHOW STATS LIKE '{name}'")).expect("counters");
        rows.first().map_or(0, |row| row[1].parse().expect("a number"))
    }

    /// Has all clients ask until each of them was given a reply that is kept.
    fn warm(&mut self, text: &str) {
        let begun = Instant::now();
        loop {
            let before = self.counted("cache_hits");
            for reader in &mut self.readers {
                reader.query(text).expect("rows");
            }
            if self.counted("cache_hits") - before == self.readers.len() as u64 {
                return;
            }
            if begun.elapsed() > Duration::from_secs(30) {
                let why = self.console.query("SHOW STATS LIKE 'cache%'").expect("counters");
                panic!("{text} is not kept: {why:?}");
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// All clients read what the server has now, at once.
    fn see(&mut self, text: &str, what: &str) -> Vec<Vec<String>> {
        let want = self.direct().query(text).expect("rows");
        for reader in &mut self.readers {
            assert_eq!(reader.query(text).expect("rows"), want, "{text} behind {what}");
        }
        want
    }

    /// This write, by a client of this user, changes what is read.
    fn changes(&mut self, read: &str, by: &mut Client, writes: &[&str]) {
        self.warm(read);
        let before = self.direct().query(read).expect("rows");
        for write in writes {
            by.query(write).unwrap_or_else(|error| panic!("{write}: {error:?}"));
        }
        let after = self.see(read, &writes.join("; "));
        assert_ne!(before, after, "{writes:?} changes nothing");
    }
}

#[test]
fn writes_that_pass_flifo_end_replies_that_are_kept() {
    let mut scene = Scene::start("\"60s\"");
    let mut writer = scene.client();
    let address = scene.address();
    let mut passed = connect(&address, "passed", "passed");
    let by_view = "SELECT v FROM seen WHERE id = 1";
    let children = "SELECT COUNT(*) FROM child";
    for read in [READ, by_view] {
        for writes in [
            &["UPDATE t SET v = v + 1 WHERE id = 1"][..],
            &[
                "UPDATE kept.t, other SET v = v + 1",
                "UPDATE t JOIN parent ON parent.id = 1 SET v = v + 1",
            ],
            &["INSERT INTO t VALUES (1, 1) ON DUPLICATE KEY UPDATE v = v + 1"],
            &["REPLACE INTO t SELECT id, v + 1 FROM t WHERE id = 1"],
            &["DELETE FROM t WHERE id = 1", "INSERT INTO t VALUES (1, 4711)"],
            &["UPDATE seen SET v = v + 1"],
            &["INSERT INTO fires VALUES (1)"],
            &["CALL adds()"],
            &["SELECT adding()"],
            &["DO adding()"],
            &["PREPARE p FROM 'UPDATE t SET v = v + 1'", "EXECUTE p"],
            &["EXECUTE IMMEDIATE 'UPDATE t SET v = v + 1'"],
            &["BEGIN", "UPDATE t SET v = v + 1", "COMMIT"],
            &["SET autocommit = 0", "UPDATE t SET v = v + 1", "SET autocommit = 1"],
            &[
                "BEGIN",
                "UPDATE t SET v = v + 1",
                "CREATE TABLE commits (a INT)",
                "DROP TABLE commits",
            ],
            &["UPDATE t SET v = v + 7"],
        ] {
            scene.changes(read, &mut writer, writes);
        }
        scene.changes(read, &mut passed, &["UPDATE t SET v = v + 1"]);
        scene.changes(read, &mut passed, &["USE mysql", "UPDATE kept.t SET v = v + 1", "USE kept"]);
        scene.changes(read, &mut passed, &["BEGIN", "UPDATE t SET v = v + 1", "COMMIT"]);
        scene.changes(read, &mut passed, &["CALL adds()"]);
    }
    scene.changes(children, &mut writer, &["DELETE FROM parent WHERE id = 1"]);
    scene.changes(children, &mut passed, &["DELETE FROM parent WHERE id = 2"]);
    scene.changes(children, &mut writer, &["TRUNCATE child"]);
    scene.changes(READ, &mut writer, &["RENAME TABLE t TO u, swapped TO t, u TO swapped"]);
    scene.changes(READ, &mut writer, &["RENAME TABLE t TO u, swapped TO t, u TO swapped"]);
    scene.changes(
        READ,
        &mut writer,
        &["ALTER TABLE t DROP COLUMN v", "ALTER TABLE t ADD v INT DEFAULT 5"],
    );
    let changed = "CREATE OR REPLACE VIEW seen AS SELECT id, v + 100 AS v FROM t";
    scene.changes(by_view, &mut writer, &[changed]);
    what_is_not_committed_is_not_seen(&mut scene);
    what_is_not_written_stays(&mut scene);
    what_is_not_to_be_kept_is_not(&mut scene);
    let (status, log) = scene.flifo.stop();
    assert!(status.success() && !log.contains("panicked"), "{log}");
}

fn what_is_not_committed_is_not_seen(scene: &mut Scene) {
    let mut writer = scene.client();
    scene.warm(READ);
    let before = scene.see(READ, "nothing");
    for query in ["BEGIN", "UPDATE t SET v = v + 1"] {
        writer.query(query).expect("a statement");
    }
    assert_eq!(scene.see(READ, "a write that is not committed"), before);
    assert_ne!(writer.query(READ).expect("its own"), before);
    writer.query("ROLLBACK").expect("a statement");
    assert_eq!(scene.see(READ, "a rollback"), before);
    assert_eq!(writer.query(READ).expect("rows"), before);
    scene.warm(READ);
}

/// Writes of other tables end nothing, and what is kept is given to each worker's clients.
fn what_is_not_written_stays(scene: &mut Scene) {
    let mut writer = scene.client();
    scene.warm(READ);
    let before = (scene.counted("cache_hits"), scene.counted("cache_fills"));
    for _ in 0..10 {
        writer.query("INSERT INTO other VALUES (1)").expect("a write");
        for reader in &mut scene.readers {
            reader.query(READ).expect("rows");
        }
    }
    let after = (scene.counted("cache_hits"), scene.counted("cache_fills"));
    assert_eq!((after.0 - before.0, after.1 - before.1), (80, 0));
    // What is beside Flifo is not seen.
    let before = scene.readers[0].query(READ).expect("rows");
    scene.direct().query("UPDATE t SET v = v + 1").expect("a write");
    assert_eq!(scene.readers[0].query(READ).expect("rows"), before);
    let found = scene.readers[0].query("SELECT FOUND_ROWS()").expect("a count");
    assert_eq!(found, [["1"]]);
}

fn what_is_not_to_be_kept_is_not(scene: &mut Scene) {
    let before = scene.counted("cache_hits");
    for text in [
        "SELECT RAND() FROM t WHERE id = 1",
        "SELECT v FROM t WHERE id = 1 FOR UPDATE",
        "SELECT v FROM t WHERE id = (SELECT 1)",
        "SELECT NOW() FROM t",
        // What is written may not name them.
        "SELECT v FROM merged WHERE id = 1",
        "SELECT m.v FROM t JOIN merged AS m ON m.id = t.id",
        "SELECT v FROM seen_merged",
        "SELECT v FROM csv",
        "SELECT v FROM past FOR SYSTEM_TIME ALL WHERE id = 1",
        "SELECT next_not_cached_value FROM numbers",
        "SELECT 1",
    ] {
        for reader in &mut scene.readers {
            reader.query(text).expect("rows");
        }
    }
    assert_eq!(scene.counted("cache_hits"), before);
    assert!(scene.counted("cache_not.unfit") > 0);
}

/// What cannot be read, or names a column like a view that may do anything, ends no reply that it could not change.
#[test]
fn what_could_not_write_ends_nothing() {
    let mut scene = Scene::start("\"60s\"");
    let mut direct = scene.direct();
    direct.query("CREATE VIEW acts AS SELECT adding() AS x").expect("a view");
    let address = scene.address();
    let mut writer = scene.client();
    let mut passed = connect(&address, "passed", "passed");
    writer.query("CREATE VIEW later AS SELECT 1").expect("definitions are read again");
    scene.warm(READ);
    scene.warm("SELECT acts FROM tags WHERE id = 1");
    let mut ended = Vec::new();
    for text in [
        "SELECT /*! 1 */",
        "SELECT /*!50701 v */ FROM t",
        "/*!40101 SET NAMES utf8mb4 */",
        "FROBNICATE",
        "SELECT 'never ends",
        "CREATE TABLE",
        "DROP VIEW seen acts",
        "SELECT acts FROM tags WHERE id IN (SELECT acts FROM tags)",
        "CREATE TEMPORARY TABLE IF NOT EXISTS own (a INT) SELECT id AS a FROM t",
        "DROP TEMPORARY TABLE IF EXISTS own",
    ] {
        for (client, by) in [(&mut writer, "pooled"), (&mut passed, "passed through")] {
            // Of these it is not known which views there are.
            if by == "passed through" && (text.contains(" FROM t") || text.contains("/*!")) {
                continue;
            }
            scene.warm(READ);
            let before = scene.counted("cache_fills");
            // Some of these fail.
            let _ = client.query(text);
            for reader in &mut scene.readers {
                reader.query(READ).expect("rows");
            }
            if scene.counted("cache_fills") != before {
                ended.push((text, by));
            }
        }
    }
    assert!(ended.is_empty(), "{ended:?} have ended replies");
    scene.changes(READ, &mut writer, &["SELECT x FROM acts WHERE x IN (SELECT acts FROM tags)"]);
    scene.changes(READ, &mut writer, &["SELECT /*!100100 adding */ ()"]);
    scene.changes(READ, &mut writer, &["UPDATE /*!100100 t */ SET v = v + 1"]);
    scene.changes(READ, &mut writer, &["DROP VIEW later", "UPDATE t SET v = v + 1"]);
}

/// A client's temporary table may have its rows in others, which it writes under its own name.
#[test]
fn what_a_temporary_table_writes_elsewhere_is_not_missed() {
    let mut scene = Scene::start("\"60s\"");
    let address = scene.address();
    let read = "SELECT v FROM part WHERE id = 1";
    for client in ["pooled", "passed"] {
        let mut writer = match client {
            "pooled" => scene.client(),
            _ => connect(&address, "passed", "passed"),
        };
        let own = "CREATE TEMPORARY TABLE own (id INT, v INT, KEY (id)) ENGINE=MERGE UNION=(part)";
        writer.query(own).expect("a table");
        scene.changes(read, &mut writer, &["UPDATE own SET v = v + 1"]);
        scene.changes(
            read,
            &mut writer,
            &["INSERT INTO other VALUES (1)", "UPDATE own SET v = v + 1"],
        );
        writer.query("DROP TEMPORARY TABLE own").expect("no table");
    }
}

/// A rule that can have no effect says so: in the log, and where it is explained.
#[test]
fn rules_that_have_nothing_kept_say_so() {
    let mut scene = Scene::start("\"60s\"");
    let server = &scene.server;
    server.sql("GRANT SELECT, INSERT ON kept.* TO poor@'%' IDENTIFIED BY 'poor'").expect("a user");
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("console.sock");
    let flifo = Flifo::start(&format!(
        "workers = 1\n[server]\naddress = \"{}\"\n[console]\nlisten = [{socket:?}]\n[http]\nlisten = []\n\
         [[users]]\nname = \"poor\"\npassword = \"poor\"\n{}",
        server.socket().display(),
        rules("\"60s\""),
    ));
    let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: flifo.port() };
    let mut client = connect(&address, "poor", "poor");
    client.query(READ).expect("rows");
    let console: Address = socket.to_str().expect("a path").parse().expect("an address");
    let mut console = Client::builder(console, "admin", "").connect().expect("a console");
    let explain =
        |user: &str| format!("EXPLAIN RULES FOR '{READ}' USER '{user}' SCHEMA '{SCHEMA}'");
    let told = format!("{:?}", console.query(&explain("poor")).expect("rules"));
    assert!(told.contains("lacks TRIGGER or SHOW VIEW"), "{told}");
    let (_, log) = flifo.stop();
    assert_eq!(log.matches("no replies are kept by what it sees").count(), 1, "{log}");
    scene.warm(READ);
    let told = format!("{:?}", scene.console.query(&explain(USER)).expect("rules"));
    assert!(told.contains("its reply is kept"), "{told}");
    let merged =
        format!("EXPLAIN RULES FOR 'SELECT v FROM merged' USER '{USER}' SCHEMA '{SCHEMA}'");
    let told = format!("{:?}", scene.console.query(&merged).expect("rules"));
    assert!(told.contains("its rows are another table's"), "{told}");
    let (_, log) = scene.flifo.stop();
    assert!(!log.contains("no replies are kept"), "{log}");
}

#[test]
fn replies_that_are_kept_end_with_their_time_their_server_and_their_rule() {
    let mut scene = Scene::start("{ for = \"300ms\", stale = \"100ms\" }");
    scene.warm(READ);
    scene.direct().query("UPDATE t SET v = 77").expect("a write beside Flifo");
    thread::sleep(Duration::from_millis(500));
    assert_eq!(scene.see(READ, "its time"), [["77"]]);
    scene.flifo.change_configuration(|text| {
        text.replace("{ for = \"300ms\", stale = \"100ms\" }", "\"1h\"")
    });
    scene.console.query("RELOAD").expect("another configuration");
    scene.warm(READ);
    // The server ends without a word, and comes back with other rows.
    scene.server.kill().expect("it is killed");
    scene.server.start().expect("it is back");
    scene.direct().query("UPDATE t SET v = 78").expect("a write beside Flifo");
    scene.readers = (0..8).map(|_| scene.client()).collect();
    assert_eq!(scene.see(READ, "a restart"), [["78"]]);
    scene.warm(READ);
    // Another right of the user.
    scene.direct().query("UPDATE t SET v = 79").expect("a write beside Flifo");
    scene.client().query("GRANT SELECT ON kept.t TO passed@'%'").expect("a right");
    assert_eq!(scene.see(READ, "a change of rights"), [["79"]]);
    scene.warm(READ);
    scene.direct().query("UPDATE t SET v = 80").expect("a write beside Flifo");
    scene.flifo.change_configuration(|text| text.replace(&rules("\"1h\""), ""));
    scene.console.query("RELOAD").expect("another configuration");
    let before = scene.counted("cache_hits");
    assert_eq!(scene.see(READ, "a reload"), [["80"]]);
    assert_eq!(scene.counted("cache_hits"), before);
}

/// The connection is lost, at each question that is asked of definitions: they are read again soon.
#[test]
fn definitions_whose_reading_fails_are_read_again_soon() {
    let scene = Scene::start("\"60s\"");
    let relay = Relay::to(scene.server.port());
    for question in [
        "FROM information_schema.VIEWS",
        "FROM information_schema.USER_PRIVILEGES",
        "FROM information_schema.REFERENTIAL_CONSTRAINTS",
        "TABLE_TYPE IN (",
        "VARIABLE_NAME='UPTIME'",
    ] {
        relay.break_at(question.as_bytes());
        let flifo = Flifo::start(&format!(
            "workers = 1\n[server]\naddress = \"127.0.0.1:{}\"\n[[users]]\nname = \"{USER}\"\npassword = \"{}\"\n{}",
            relay.port(),
            scene.server.password(),
            rules("\"60s\""),
        ));
        let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: flifo.port() };
        let mut client = connect(&address, USER, scene.server.password());
        assert!(relay.has_broken(), "{question} is not asked");
        let mut direct = scene.direct();
        // Nothing that is written is seen, so what is kept shows.
        let begun = Instant::now();
        let is_kept = |client: &mut Client, direct: &mut Client| {
            let before = client.query(READ).expect("rows");
            direct.query("UPDATE t SET v = v + 1").expect("a write beside Flifo");
            client.query(READ).expect("rows") == before
        };
        while !is_kept(&mut client, &mut direct) {
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "lost at {question}: nothing is kept"
            );
            thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Many ask the same at once: the server runs it once for each worker.
#[test]
fn clients_that_ask_the_same_wait_for_one_run() {
    let mut scene = Scene::start("\"60s\"");
    scene.warm(READ);
    let mut holder = scene.direct();
    holder.query("LOCK TABLES t WRITE").expect("a lock");
    let (fills, joined) = (scene.counted("cache_fills"), scene.counted("cache_joined"));
    let address = scene.address();
    let password = scene.server.password().to_owned();
    let ask = |_| {
        let mut client = connect(&address, USER, &password);
        thread::spawn(move || client.query("SELECT v + 1 FROM t WHERE id = 1").expect("rows"))
    };
    let asking: Vec<_> = (0..40).map(ask).collect();
    testkit::scene::wait_for("all to wait", || scene.counted("cache_joined") - joined == 38);
    holder.query("UNLOCK TABLES").expect("no lock");
    for client in asking {
        assert_eq!(client.join().expect("it ends"), [["1"]]);
    }
    assert_eq!(scene.counted("cache_fills") - fills, 2);
}

/// Forty clients ask for six megabytes that are kept, and read nothing: each has what its socket takes, and what is left is
/// there once.
#[test]
fn slow_readers_of_a_kept_reply_share_one_copy() {
    const MEGABYTE: u64 = 1 << 20;
    const CLIENTS: u64 = 40;
    let mut scene = Scene::start("{ for = \"60s\", large = true }");
    let mut direct = scene.direct();
    direct.query("CREATE TABLE large (b LONGTEXT)").expect("a table");
    for _ in 0..6 {
        direct.query("INSERT INTO large VALUES (REPEAT('x', 1048576))").expect("a row");
    }
    let text = format!("SELECT b FROM {SCHEMA}.large");
    let login = |_| {
        let mut client = FakeClient::connect_with_room(64 << 10, scene.flifo.port());
        client.log_in(USER, scene.server.password()).expect("a login");
        client
    };
    let mut clients: Vec<_> = (0..CLIENTS).map(login).collect();
    testkit::scene::wait_for("it to be kept by both workers", || {
        let before = scene.counted("cache_hits");
        for client in &mut clients {
            assert_eq!(client.query(&text).map(|rows| rows.len()), Ok(6));
        }
        scene.counted("cache_hits") == before + CLIENTS
    });
    let (hits, memory) = (scene.counted("cache_hits"), scene.flifo.memory());
    for client in &mut clients {
        client.send_packet(0, &[b"\x03", text.as_bytes()].concat());
    }
    testkit::scene::wait_for("all to be answered", || {
        scene.counted("cache_hits") == hits + CLIENTS
    });
    let grown = scene.flifo.memory().saturating_sub(memory);
    assert!(grown < CLIENTS * MEGABYTE, "{grown} bytes");
    let row = vec![b'x'; MEGABYTE as usize];
    for client in clients.iter_mut().take(3) {
        assert_eq!(client.read_answer(), Ok(vec![row.clone(); 6]));
    }
}

/// Twenty times as many as there is memory for; `cargo xtask linear --cache --keys 1000000` has more.
#[test]
fn many_keys_stay_in_the_memory_that_replies_may_take() {
    let extent = kept_keys::Extent { keys: 20_000, clients: 4, memory: 1 << 20 };
    let outcome = kept_keys::run(testkit::flifo::program(), extent);
    assert!(outcome.is_good(extent), "{outcome:?}");
}

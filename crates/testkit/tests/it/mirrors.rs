//! Copies of statements in a second cluster: compared with what clients get, and never in their way.

use std::path::Path;

use bench::private_server::PrivateServer;
use rustix::process::Signal;
use testkit::client::Client;
use testkit::cluster::Cluster;
use testkit::fake_client::FakeClient;
use testkit::flifo::Flifo;
use testkit::scene::wait_for;

const USER: &str = PrivateServer::USER;

/// The cluster "near", which clients are in, and the cluster "next", where copies run.
struct Scene {
    console: Client,
    flifo: Flifo,
    next: Cluster,
    rules: String,
    _near: Cluster,
    _folder: tempfile::TempDir,
}

impl Scene {
    fn start(rules: &str) -> Self {
        let (near, next) = (Cluster::replicated(0), Cluster::replicated(0));
        let tables = "CREATE TABLE same (id INT PRIMARY KEY, v VARCHAR(10)); INSERT INTO same VALUES (1, 'a'), (2, 'b'); \
                      CREATE TABLE other LIKE same; CREATE TABLE more LIKE same; INSERT INTO more SELECT * FROM same; \
                      CREATE TABLE written (id INT PRIMARY KEY)";
        for cluster in [&near, &next] {
            cluster.servers[0].sql(tables).expect("tables");
        }
        near.servers[0]
            .sql("INSERT INTO other VALUES (1, 'x'); CREATE TABLE gone LIKE same")
            .expect("rows");
        next.servers[0]
            .sql("INSERT INTO other VALUES (1, 'y'); INSERT INTO more VALUES (3, 'c')")
            .expect("other rows");
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("console.sock");
        let flifo = Flifo::start(&Self::configuration(&near, &next, &socket, rules));
        let address = backend::Address::Unix(socket);
        let mut console = Client::builder(address, "admin", "").connect().expect("a console");
        // A copy for which there is no server yet is dropped.
        wait_for("each cluster to have its writer", || {
            let rows = console.query("SELECT role FROM servers").expect("an answer");
            rows == [["writer"], ["writer"]]
        });
        let rules = rules.to_owned();
        Self { console, flifo, next, rules, _near: near, _folder: folder }
    }

    fn configuration(near: &Cluster, next: &Cluster, socket: &Path, rules: &str) -> String {
        let password = Cluster::password();
        // A server of a busy machine that answers late is none that is down: its copies would be dropped.
        format!(
            "workers = 2\n[checks]\ninter = \"100ms\"\ndowninter = \"100ms\"\ntimeout = \"30s\"\n\
             [console]\nlisten = [{socket:?}]\n[http]\nlisten = []\n\
             [[clusters]]\nname = \"near\"\n[[clusters]]\nname = \"next\"\n{}{}\
             [[users]]\nname = \"{USER}\"\npassword = \"{password}\"\n{rules}",
            near.listed_as("near", "cluster = \"near\"\n"),
            next.listed_as("next", "cluster = \"next\"\n"),
        )
    }

    fn reload(&mut self, rules: &str) {
        self.flifo.change_configuration(|text| text.replace(&self.rules, rules));
        self.rules = rules.to_owned();
        self.console.query("RELOAD").expect("a reload");
    }

    fn client(&self) -> Client {
        let address = format!("127.0.0.1:{}", self.flifo.port()).parse().expect("an address");
        let builder = Client::builder(address, USER, Cluster::password());
        builder.schema(PrivateServer::DATABASE).connect().expect("a login")
    }

    /// What the console says of the statement: how often the replies were the same, how often not, and what the last
    /// difference was.
    fn compared(&mut self, statement: &str) -> (u64, u64, String) {
        let text = format!(
            "SELECT same, differ, last_difference FROM mirrored WHERE statement = '{statement}'"
        );
        let rows = self.console.query(&text).expect("an answer");
        let Some(row) = rows.first() else { return (0, 0, String::new()) };
        (row[0].parse().expect("a number"), row[1].parse().expect("a number"), row[2].clone())
    }

    /// How often a statement was not compared, for this reason.
    fn left_out(&mut self, why: &str) -> u64 {
        let rows = self.console.query("SELECT why FROM mirrors").expect("an answer");
        let counts = rows.first().map(|row| row[0].clone()).unwrap_or_default();
        let of = |part: &str| part.trim().strip_prefix(why)?.trim().parse().ok();
        counts.split(',').find_map(of).unwrap_or(0)
    }
}

const ALL: &str =
    "[[rules]]\nname = \"to next\"\nmirror = { cluster = \"next\", within = \"60s\" }\n";

fn eventually(scene: &mut Scene, what: &str, is_so: impl Fn(&mut Scene) -> bool) {
    wait_for(what, || is_so(scene));
}

#[test]
fn replies_are_compared_by_statement_in_both_protocols() {
    let mut scene = Scene::start(ALL);
    let mut client = scene.client();
    for text in [
        "SELECT v FROM same WHERE id = 1",
        "SELECT v FROM same WHERE id = 2",
        "SELECT v FROM other WHERE id = 1",
        "SELECT id FROM more ORDER BY id",
        "SELECT id FROM gone",
    ] {
        client.query(text).expect(text);
    }
    client.query("SELECT missing FROM same").expect_err("there is no such column");
    let prepared = client.prepare("SELECT v FROM same ORDER BY id").expect("a statement");
    for _ in 0..3 {
        assert_eq!(client.execute(prepared).expect("rows"), [["a"], ["b"]]);
    }
    for (statement, want) in [
        ("SELECT v FROM same WHERE id = ?", (2, 0, "NULL")),
        ("SELECT v FROM other WHERE id = ?", (0, 1, "1 rows, with other values")),
        ("SELECT id FROM more ORDER BY id", (0, 1, "2 rows, the mirror 3")),
        ("SELECT id FROM gone", (0, 1, "no error, the mirror error 1146 (42S02)")),
        ("SELECT missing FROM same", (1, 0, "NULL")),
        ("SELECT v FROM same ORDER BY id", (3, 0, "NULL")),
    ] {
        eventually(&mut scene, statement, |scene| {
            let (same, differ, last) = scene.compared(statement);
            (same, differ, last.as_str()) == want
        });
    }
    // Statements are counted from now on.
    scene.console.query("RESET MIRRORED").expect("a reset");
    assert_eq!(scene.compared("SELECT id FROM gone").1, 0);
}

/// The types of parameters are sent with the first execution only: a copy has them each time.
#[test]
fn executions_have_their_parameters() {
    let mut scene = Scene::start(ALL);
    let mut client =
        FakeClient::login(scene.flifo.port(), USER, Cluster::password()).expect("a login");
    client.query(&format!("USE {}", PrivateServer::DATABASE)).expect("a schema");
    let id = client.prepare("SELECT v FROM other WHERE id = ? OR v = ?").expect("a statement");
    let execute = |types: &[u8], number: i32, text: &[u8]| {
        let mut payload = vec![0x17];
        payload.extend_from_slice(&id.to_le_bytes());
        payload.extend_from_slice(&[0, 1, 0, 0, 0, 0]);
        payload.push(u8::from(!types.is_empty()));
        payload.extend_from_slice(types);
        payload.extend_from_slice(&number.to_le_bytes());
        payload.push(u8::try_from(text.len()).expect("a short one"));
        payload.extend_from_slice(text);
        payload
    };
    // A number and a text.
    client.command(&execute(&[3, 0, 253, 0], 1, b"-")).expect("rows");
    client.command(&execute(&[], 5, b"-")).expect("rows");
    client.command(&execute(&[], 5, b"x")).expect("rows");
    // Other values, none in both, and a row that only one has.
    eventually(&mut scene, "three comparisons", |scene| {
        let (same, differ, last) = scene.compared("SELECT v FROM other WHERE id = ? OR v = ?");
        // Copies run side by side: which difference is the last one is not known.
        let is_told = ["1 rows, with other values", "1 rows, the mirror 0"].contains(&&*last);
        (same, differ, is_told) == (1, 2, true)
    });
}

#[test]
fn only_reads_outside_of_transactions_are_copied_unless_writes_are_asked_for() {
    let mut scene = Scene::start(ALL);
    let mut client = scene.client();
    client.query("INSERT INTO written VALUES (1)").expect("a write");
    client.query("BEGIN").expect("a transaction");
    client.query("SELECT v FROM same WHERE id = 1").expect("a read");
    client.query("COMMIT").expect("its end");
    eventually(&mut scene, "both to be left out", |scene| {
        scene.left_out("kind") >= 1 && scene.left_out("transaction") >= 1
    });
    let count = "SELECT COUNT(*) FROM written";
    assert_eq!(scene.next.servers[0].sql(count).expect("a count").trim(), "0");

    scene.reload(&ALL.replace("within", "writes = true, within"));
    client.query("INSERT INTO written VALUES (2)").expect("a write");
    client.query("DELETE FROM written WHERE id = 1").expect("another one");
    eventually(&mut scene, "writes to be compared", |scene| {
        let insert = scene.compared("INSERT INTO written VALUES (?)");
        let delete = scene.compared("DELETE FROM written WHERE id = ?");
        insert.0 == 1 && delete.2 == "1 rows affected, by the mirror 0"
    });
    assert_eq!(scene.next.servers[0].sql(count).expect("a count").trim(), "1");

    // Without the rule nothing is copied any more.
    scene.reload("# No rules.\n");
    client.query("INSERT INTO written VALUES (3)").expect("a write");
    assert!(scene.console.query("SELECT * FROM mirrors").expect("an answer").is_empty());
    assert_eq!(scene.next.servers[0].sql(count).expect("a count").trim(), "1");
}

/// A mirror that answers nothing has its line full, and no client waits for it.
#[test]
fn a_mirror_that_is_silent_or_gone_holds_up_no_client() {
    const READS: u64 = 200;
    let rule = "[[rules]]\nname = \"to next\"\n\
                mirror = { cluster = \"next\", within = \"60s\", at_once = 1, queue = 2 }\n";
    let mut scene = Scene::start(rule);
    let mut client = scene.client();
    let read = |client: &mut Client| {
        let rows = client.query("SELECT v FROM same WHERE id = 1").expect("a row");
        assert_eq!(rows, [["a"]]);
    };
    let text = "SELECT v FROM same WHERE id = ?";
    eventually(&mut scene, "a comparison", |scene| {
        read(&mut scene.client());
        scene.compared(text).0 > 0
    });
    scene.next.signal(0, Signal::STOP);
    (0..READS).for_each(|_| read(&mut client));
    // One is under way, two wait, and the server may have answered some before it stopped. Checks may find it down.
    eventually(&mut scene, "copies to be dropped", |scene| {
        let dropped = ["full", "unreachable", "no_server", "lost", "late"];
        dropped.iter().map(|why| scene.left_out(why)).sum::<u64>() >= READS - 10
    });
    let rows = scene.console.query("SELECT waiting, running FROM mirrors").expect("an answer");
    let [waiting, running] = &rows[0][..] else { panic!("{rows:?}") };
    assert!(
        waiting.parse::<u32>().expect("a number") <= 2 && ["0", "1"].contains(&running.as_str())
    );
    scene.next.signal(0, Signal::CONT);
    let before = scene.compared(text).0;
    eventually(&mut scene, "copies to run again", |scene| {
        read(&mut scene.client());
        scene.compared(text).0 > before + 3
    });
    scene.next.servers[0].kill().expect("it is killed");
    (0..READS).for_each(|_| read(&mut client));
    eventually(&mut scene, "copies to have no server", |scene| {
        read(&mut scene.client());
        scene.left_out("no_server") + scene.left_out("unreachable") + scene.left_out("lost") > 0
    });
    // All that was held is given back.
    eventually(&mut scene, "no copy to be held", |scene| {
        let rows = scene.console.query("SELECT waiting, running, bytes FROM mirrors").expect("it");
        rows == [["0", "0", "0"]]
    });
}

/// Long statements fill a mirror's memory before its line is full.
#[test]
fn copies_take_no_more_memory_than_they_may() {
    let rule = "[[rules]]\nname = \"to next\"\n\
                mirror = { cluster = \"next\", within = \"60s\", queue = 1000, memory = \"64KiB\" }\n";
    let mut scene = Scene::start(rule);
    let mut client = scene.client();
    scene.next.signal(0, Signal::STOP);
    let text = format!("SELECT v FROM same WHERE v = '{}'", "x".repeat(10_000));
    for _ in 0..20 {
        client.query(&text).expect("no row");
        let rows = scene.console.query("SELECT bytes FROM mirrors").expect("an answer");
        assert!(rows[0][0].parse::<u32>().expect("a number") <= 64 << 10, "{rows:?}");
    }
    // Checks may find the server down before that.
    eventually(&mut scene, "copies to be dropped", |scene| {
        scene.left_out("memory") + scene.left_out("no_server") + scene.left_out("unreachable") > 0
    });
    scene.next.signal(0, Signal::CONT);
}

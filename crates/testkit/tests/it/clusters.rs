//! Two clusters behind one Flifo, a replication and a single server: which one serves whom, what changes it, and that
//! what happens in one leaves the other alone.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use bench::private_server::PrivateServer;
use testkit::client::{Client, Problem};
use testkit::cluster::Cluster;
use testkit::fake_client::FakeClient;
use testkit::flifo::Flifo;
use testkit::overdue::Over;
use testkit::scene::wait_for;

use crate::cluster::{CHECKS, one, roles_of, server_id};

const USER: &str = PrivateServer::USER;

/// The cluster "shop", whose writer is server 1, and the cluster "archive", which is server 9 and has the schemas
/// `old` and `old_2`.
struct Scene {
    console: Client,
    flifo: Flifo,
    shop: Cluster,
    archive: PrivateServer,
    _folder: tempfile::TempDir,
}

impl Scene {
    fn start() -> Self {
        Self::with_rules("")
    }

    fn with_rules(rules: &str) -> Self {
        let shop = Cluster::replicated(1);
        let archive = PrivateServer::builder()
            .password(Cluster::password())
            .argument("--innodb-buffer-pool-size=32M")
            .argument("--innodb-log-file-size=16M")
            .argument("--server-id=9")
            .start()
            .expect("a server starts");
        let report = format!("CREATE USER report IDENTIFIED BY '{}'", Cluster::password());
        let all = format!("GRANT ALL ON *.* TO '{USER}'@'%'; CREATE DATABASE common");
        shop.servers[0].sql(&all).unwrap();
        archive
            .sql(&format!(
                "{all}; CREATE DATABASE old; CREATE DATABASE old_2; {report}; \
                 GRANT SELECT ON *.* TO report"
            ))
            .unwrap();
        shop.wait_for(1, 0);
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("console.sock");
        let (password, port) = (Cluster::password(), archive.port());
        let servers = shop.listed().replace("address", "cluster = \"shop\"\naddress");
        let flifo = Flifo::start(&format!(
            "workers = 2\n{CHECKS}[console]\nlisten = [{socket:?}]\n[http]\nlisten = []\n\
             [[clusters]]\nname = \"shop\"\nrouting.mode = \"split\"\n\
             [[clusters]]\nname = \"archive\"\nschemas = [\"old\", \"old_%\"]\n\
             {servers}[[servers]]\nname = \"cold\"\naddress = \"127.0.0.1:{port}\"\n\
             cluster = \"archive\"\n\
             [[users]]\nname = \"{USER}\"\npassword = \"{password}\"\n\
             [[users]]\nname = \"report\"\npassword = \"{password}\"\ncluster = \"archive\"\n{rules}"
        ));
        let address = socket.to_str().unwrap().parse().unwrap();
        let mut console = Client::builder(address, "admin", "").connect().unwrap();
        wait_for("each server to have its role", || {
            let roles = roles_of(&mut console);
            ["writer", "reader", "writer"].iter().zip(&roles).all(|(want, is)| is.starts_with(want))
        });
        Self { console, flifo, shop, archive, _folder: folder }
    }

    fn try_client(&self, user: &str, schema: Option<&str>) -> Result<Client, Problem> {
        let address = format!("127.0.0.1:{}", self.flifo.port()).parse().unwrap();
        let builder = Client::builder(address, user, Cluster::password());
        schema.into_iter().fold(builder, testkit::client::Builder::schema).connect()
    }

    fn client(&self) -> Client {
        self.try_client(USER, Some(PrivateServer::DATABASE)).expect("a login")
    }
}

/// Fails, and tells why.
fn refusal(client: &mut Client, text: &str) -> String {
    client.query(text).expect_err(text).to_string()
}

/// The column of `SHOW FULL SERVERS`.
const CLUSTER: usize = 21;

#[test]
fn users_schemas_and_prepared_statements_lead_to_their_clusters() {
    let mut scene = Scene::start();
    let columns = scene.console.query("SHOW FULL SERVERS").unwrap();
    let clusters: Vec<_> = columns.iter().map(|row| row[CLUSTER].as_str()).collect();
    assert_eq!(clusters, ["shop", "shop", "archive"]);

    // A user's cluster; a schema's, at the login and by USE.
    assert_eq!(server_id(&mut scene.try_client("report", None).unwrap()), "9");
    assert_eq!(server_id(&mut scene.try_client(USER, Some("old")).unwrap()), "9");
    let Err(missing) = scene.try_client(USER, Some("old_missing")) else { panic!("there is none") };
    assert!(missing.to_string().contains("1049"), "{missing}");
    let mut client = scene.client();
    client.query("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT)").unwrap();
    client.query("SET time_zone = '+03:00'").unwrap();
    client.query("INSERT INTO t (v) VALUES (1), (2)").unwrap();
    for (schema, servers) in
        [("old", &["9"][..]), ("`old_2`", &["9"]), ("common", &["1", "2"]), ("sbtest", &["1", "2"])]
    {
        client.query(&format!("USE {schema}")).unwrap();
        let row = &client.query("SELECT DATABASE(), @@time_zone, @@server_id").unwrap()[0];
        assert_eq!(row[..2], [schema.trim_matches('`'), "+03:00"], "{schema}");
        assert!(servers.contains(&row[2].as_str()), "{schema}: {row:?}");
    }
    // What is refused changes nothing.
    let why = refusal(&mut client, "USE old_missing");
    assert!(why.contains("1049"), "{why}");
    assert_eq!(one(&mut client, "SELECT DATABASE()").unwrap(), "sbtest");

    // What was written is read, and its id is known, behind a visit elsewhere.
    client.query("INSERT INTO t (v) VALUES (3)").unwrap();
    client.query("USE old").unwrap();
    assert_eq!(one(&mut client, "SELECT LAST_INSERT_ID()").unwrap(), "3");
    client.query("CREATE TABLE a (v INT)").unwrap();
    client.query("INSERT INTO a VALUES (1)").unwrap();
    client.query("USE sbtest").unwrap();
    assert_eq!(one(&mut client, "SELECT MAX(v) FROM t").unwrap(), "3");

    // A USE does to messages what it does at a server.
    let warnings = |client: &mut Client, schema: &str| {
        client.query("SELECT 1 / 0").unwrap();
        client.query(&format!("USE {schema}")).unwrap();
        client.query("SHOW WARNINGS").unwrap()
    };
    let address = format!("127.0.0.1:{}", scene.shop.servers[0].port()).parse().unwrap();
    let mut direct = Client::builder(address, USER, Cluster::password()).connect().unwrap();
    assert_eq!(warnings(&mut client, "old"), warnings(&mut direct, "common"));

    let mut prepared =
        FakeClient::login(scene.flifo.port(), USER, Cluster::password()).expect("a login");
    let execute = |id: u32| [&[0x17][..], &id.to_le_bytes(), b"\0\x01\0\0\0"].concat();
    prepared.query("USE old").expect("the schema");
    let count = prepared.prepare("SELECT COUNT(*) FROM a WHERE 1 = 1").expect("prepared");
    prepared.query("USE sbtest").expect("the schema");
    let tables = prepared.prepare("SELECT CAST(COUNT(*) AS CHAR) FROM t").expect("prepared");
    for _ in 0..2 {
        prepared.command(&execute(count)).expect("it is executed where it was prepared");
        assert_eq!(prepared.command(&execute(tables)), Ok(vec![b"3".to_vec()]));
        assert_eq!(prepared.query("SELECT DATABASE()"), Ok(vec![b"sbtest".to_vec()]));
    }

    let (status, log) = scene.flifo.stop();
    assert!(status.success() && !log.contains("panicked"), "{log}");
}

#[test]
fn a_client_that_is_bound_stays_in_its_cluster() {
    let mut scene = Scene::start();
    let mut client = scene.client();
    client.query("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    client.query("BEGIN").unwrap();
    client.query("INSERT INTO t VALUES (1)").unwrap();
    let why = refusal(&mut client, "USE old");
    assert!(why.contains("1192") && why.contains("in a transaction"), "{why}");
    assert!(why.contains("\"archive\"") && why.contains("\"shop\""), "{why}");
    // It goes on: nothing is lost, and nothing has ended it.
    client.query("INSERT INTO t VALUES (2)").unwrap();
    client.query("USE common").expect("it lies in the same cluster");
    client.query("ROLLBACK").unwrap();
    assert_eq!(one(&mut client, "SELECT COUNT(*) FROM sbtest.t").unwrap(), "0");
    client.query("USE old").expect("nothing binds it any more");
    assert_eq!(server_id(&mut client), "9");

    // A transaction of which no server knows yet begins where its first statement goes.
    client.query("BEGIN").unwrap();
    client.query("USE sbtest").unwrap();
    client.query("INSERT INTO t VALUES (3)").unwrap();
    client.query("COMMIT").unwrap();
    assert_eq!(one(&mut client, "SELECT COUNT(*) FROM t").unwrap(), "1");

    client.query("CREATE TEMPORARY TABLE own (v INT)").unwrap();
    let why = refusal(&mut client, "USE old_2");
    assert!(why.contains("1192") && why.contains("keeps its connection"), "{why}");
    client.query("INSERT INTO own VALUES (1)").expect("it is there still");
    let faults = "SELECT value FROM stats WHERE name = 'faults.other_cluster'";
    assert_eq!(one(&mut scene.console, faults).unwrap(), "2");
    let (status, log) = scene.flifo.stop();
    assert!(status.success() && !log.contains("panicked"), "{log}");
}

#[test]
fn a_failover_and_a_reload_in_one_cluster_leave_the_other_alone() {
    let mut scene = Scene::start();
    let (stop, wrong) = (AtomicBool::new(false), AtomicU64::new(0));
    let (in_shop, in_archive, visits) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let archive_port = scene.archive.port();
    let mut clients: Vec<_> = (0..4).map(|_| scene.client()).collect();
    let mut reporters: Vec<_> =
        (0..4).map(|_| scene.try_client("report", None).expect("a login")).collect();
    let mut guest = scene.client();
    let check = |client: &mut Client, servers: &[&str], count: &AtomicU64| {
        let id = server_id(client);
        wrong.fetch_add(u64::from(!servers.contains(&id.as_str())), Relaxed);
        count.fetch_add(1, Relaxed);
    };
    thread::scope(|scope| {
        let _over = Over(&stop);
        for client in &mut clients {
            let (stop, check, in_shop) = (&stop, &check, &in_shop);
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    check(client, &["1", "2"], in_shop);
                }
            });
        }
        for client in &mut reporters {
            let (stop, check, in_archive) = (&stop, &check, &in_archive);
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    check(client, &["9"], in_archive);
                }
            });
        }
        let (stop_visits, check, visits) = (&stop, &check, &visits);
        scope.spawn(move || {
            while !stop_visits.load(Relaxed) {
                guest.query("USE old").expect("another cluster");
                check(&mut guest, &["9"], visits);
                // Where its server is killed at that moment, it is not known whether it has run.
                while guest.query("USE sbtest").is_err() {}
                check(&mut guest, &["1", "2"], visits);
            }
        });
        let goes_on = |count: &AtomicU64, what: &str| {
            let before = count.load(Relaxed);
            wait_for(what, || count.load(Relaxed) > before + 500);
        };
        goes_on(&in_shop, "the shop");
        goes_on(&in_archive, "the archive");
        // Nothing is written, so the reader lacks nothing.
        scene.shop.servers[0].kill().unwrap();
        goes_on(&in_archive, "the archive, while the shop has no writer");
        scene.shop.promote(1, &[]);
        goes_on(&in_shop, "the shop, with its new writer");
        goes_on(visits, "visits");

        // The server of the archive is from now on in a cluster of another name.
        scene.flifo.change_configuration(|text| text.replace("\"archive\"", "\"cellar\""));
        let told = scene.console.query("RELOAD").expect("a good file");
        assert!(told.iter().any(|row| row[0] == "clusters.cellar"), "{told:?}");
        goes_on(&in_archive, "the cluster of another name");
        goes_on(&in_shop, "the shop");
        goes_on(visits, "visits");
        // One more cluster comes, on the same server as another one.
        scene.flifo.change_configuration(|text| {
            let added = format!(
                "[[clusters]]\nname = \"extra\"\n[[servers]]\nname = \"more\"\n\
                 address = \"localhost:{archive_port}\"\ncluster = \"extra\"\n[[users]]"
            );
            text.replacen("[[users]]", &added, 1)
        });
        scene.console.query("RELOAD").expect("a good file");
        goes_on(&in_archive, "the archive beside one more cluster");
        stop.store(true, Relaxed);
    });
    assert_eq!(wrong.load(Relaxed), 0, "statements in the wrong cluster");
    let rows = scene.console.query("SHOW FULL SERVERS").unwrap();
    let clusters: Vec<_> = rows.iter().map(|row| row[CLUSTER].as_str()).collect();
    assert_eq!(clusters, ["shop", "shop", "cellar", "extra"]);
    let (status, log) = scene.flifo.stop();
    assert!(status.success() && !log.contains("panicked"), "{log}");
}

const RULES: &str = r#"
[[rules]]
name = "to the archive"
route = { cluster = "archive" }
match.tag = { to = "archive" }
[[rules]]
name = "old things"
route = { server = "cold" }
match.table = "ancient"
[[rules]]
name = "shop windows"
route = { cluster = "shop", role = "reader" }
match.tag = { to = "window" }
"#;

/// Rules that say where a statement would go without them.
const PLACES: &str = r#"
[[rules]]
name = "writer of the shop"
answer = { columns = ["a"], rows = [["shop writer"]] }
match = { cluster = "shop", role = "writer", text_matches = "place" }
[[rules]]
name = "reader of the shop"
answer = { columns = ["a"], rows = [["shop reader"]] }
match = { cluster = "shop", role = "reader", text_matches = "place" }
[[rules]]
name = "archive"
answer = { columns = ["a"], rows = [["archive"]] }
match = { cluster = "archive", text_matches = "place" }
"#;

#[test]
fn rules_know_where_a_statement_would_go() {
    let scene = Scene::with_rules(PLACES);
    let mut client = scene.client();
    let place = |client: &mut Client, text: &str| one(client, text).expect("an answer");
    assert_eq!(place(&mut client, "SELECT 'place'"), "shop reader");
    assert_eq!(place(&mut client, "SHOW TABLES LIKE 'place'"), "shop writer", "it is no mere read");
    client.query("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    client.query("BEGIN").unwrap();
    assert_eq!(place(&mut client, "SELECT place FROM t"), "shop writer", "it has begun");
    client.query("INSERT INTO t VALUES (1)").unwrap();
    assert_eq!(place(&mut client, "SELECT place FROM t"), "shop writer");
    client.query("COMMIT").unwrap();
    assert_eq!(place(&mut client, "SELECT place FROM t"), "shop reader");
    client.query("USE old").unwrap();
    assert_eq!(place(&mut client, "SELECT place FROM t"), "archive");
    assert_eq!(place(&mut scene.try_client("report", None).unwrap(), "SELECT place"), "archive");
    let (status, log) = scene.flifo.stop();
    assert!(status.success() && !log.contains("panicked"), "{log}");
}

/// What a client is told by a rule that would tear it off its cluster.
fn refused_by_rule(problem: &str, rule: &str) {
    assert!(problem.contains("1235") && problem.contains(rule), "{problem}");
    assert!(problem.contains("\"archive\"") && problem.contains("\"shop\""), "{problem}");
}

#[test]
fn rules_lead_into_other_clusters_and_transactions_stay() {
    let scene = Scene::with_rules(RULES);
    scene.archive.sql("CREATE TABLE common.ancient (id INT AUTO_INCREMENT PRIMARY KEY)").unwrap();
    let mut client = scene.try_client(USER, Some("common")).unwrap();
    // Not by the client: what it has written, it reads where that is.
    scene.shop.servers[0].sql("CREATE TABLE common.t (id INT PRIMARY KEY)").unwrap();
    scene.shop.wait_for(1, 0);
    let at = |client: &mut Client, to: &str| {
        one(client, &format!("SELECT @@server_id /* to={to} */")).expect("a number")
    };
    for _ in 0..3 {
        assert_eq!(at(&mut client, "archive"), "9");
        assert!(["1", "2"].contains(&at(&mut client, "home").as_str()));
        assert_eq!(at(&mut client, "window"), "2");
    }
    // A user has an account wherever rules may send it.
    let account = format!("CREATE USER report IDENTIFIED BY '{}'", Cluster::password());
    scene.shop.servers[0].sql(&account).unwrap();
    scene.shop.wait_for(1, 0);
    let mut report = scene.try_client("report", None).unwrap();
    assert_eq!(at(&mut report, "home"), "9");
    assert_eq!(at(&mut report, "window"), "2", "its user lives in the archive");

    // What such a statement leaves is known behind it, wherever the next one goes.
    client.query("INSERT INTO ancient VALUES (41)").unwrap();
    client.query("INSERT INTO ancient VALUES ()").unwrap();
    assert_eq!(one(&mut client, "SELECT LAST_INSERT_ID()").unwrap(), "42");
    client.query("SELECT 1 / 0 /* to=archive */").unwrap();
    assert_eq!(client.query("SHOW WARNINGS").unwrap()[0][1], "1365");
    assert_eq!(scene.archive.sql("SELECT COUNT(*) FROM common.ancient").unwrap().trim(), "2");

    // A schema that is not there is the server's error, and no more than that. What needs none is answered.
    scene.shop.servers[0].sql("CREATE DATABASE here").unwrap();
    client.query("USE here").unwrap();
    assert_eq!(one(&mut client, "SELECT 1 /* to=archive */").unwrap(), "1");
    let why = refusal(&mut client, "SELECT 1 FROM t /* to=archive */");
    assert!(why.contains("here"), "{why}");
    client.query("USE common").unwrap();
    assert_eq!(at(&mut client, "archive"), "9");

    client.query("BEGIN").unwrap();
    client.query("INSERT INTO t VALUES (1)").unwrap();
    refused_by_rule(&refusal(&mut client, "SELECT 1 /* to=archive */"), "\"to the archive\"");
    refused_by_rule(&refusal(&mut client, "SELECT 1 FROM ancient"), "\"old things\"");
    assert_eq!(at(&mut client, "home"), "1", "the transaction goes on");
    client.query("COMMIT").unwrap();
    assert_eq!(one(&mut client, "SELECT COUNT(*) FROM t").unwrap(), "1");
    // A transaction that no server knows of yet begins where its first statement leads.
    client.query("BEGIN").unwrap();
    client.query("INSERT INTO ancient VALUES ()").unwrap();
    assert_eq!(at(&mut client, "home"), "9", "it is in the archive now");
    client.query("ROLLBACK").unwrap();
    assert!(["1", "2"].contains(&at(&mut client, "window").as_str()));

    client.query("CREATE TEMPORARY TABLE own (v INT)").unwrap();
    let why = refusal(&mut client, "SELECT 1 /* to=archive */");
    refused_by_rule(&why, "\"to the archive\"");
    assert!(why.contains("temporary_table"), "{why}");
    assert_eq!(one(&mut client, "SELECT COUNT(*) FROM own").unwrap(), "0");
    let (status, log) = scene.flifo.stop();
    assert!(status.success() && !log.contains("panicked"), "{log}");
}

#[test]
fn rules_lead_prepared_statements_into_other_clusters() {
    let scene = Scene::with_rules(RULES);
    let mut client =
        FakeClient::login(scene.flifo.port(), USER, Cluster::password()).expect("a login");
    client.query("USE common").expect("the schema");
    scene.shop.servers[0].sql("CREATE TABLE common.t (id INT PRIMARY KEY)").unwrap();
    scene.shop.wait_for(1, 0);
    let execute = |id: u32| [&[0x17][..], &id.to_le_bytes(), b"\0\x01\0\0\0"].concat();
    let text = |to: &str| format!("SELECT CAST(@@server_id AS CHAR) /* to={to} */");
    let archive = client.prepare(&text("archive")).expect("prepared");
    let window = client.prepare(&text("window")).expect("prepared");
    let insert = client.prepare("INSERT INTO t VALUES (1)").expect("prepared");
    wait_for("the reader to be known to have all", || {
        client.command(&execute(window)) == Ok(vec![b"2".to_vec()])
    });
    for _ in 0..3 {
        assert_eq!(client.command(&execute(archive)), Ok(vec![b"9".to_vec()]));
        assert_eq!(client.command(&execute(window)), Ok(vec![b"2".to_vec()]));
    }
    client.query("BEGIN").expect("a transaction");
    client.command(&execute(insert)).expect("a row");
    let refused = client.command(&execute(archive)).expect_err("it would leave the transaction");
    assert_eq!(refused.code(), 1235);
    assert!(format!("{refused:?}").contains("to the archive"), "{refused:?}");
    let refused = client.prepare(&text("archive")).expect_err("so would its preparation");
    assert_eq!(refused.code(), 1235);
    client.query("COMMIT").expect("the transaction has gone on");
    assert_eq!(client.query("SELECT COUNT(*) FROM t"), Ok(vec![b"1".to_vec()]));
    assert_eq!(client.command(&execute(archive)), Ok(vec![b"9".to_vec()]));
    let (status, log) = scene.flifo.stop();
    assert!(status.success() && !log.contains("panicked"), "{log}");
}

#[test]
fn a_route_names_the_cluster_of_its_clients() {
    let routes = "[[routes]]\nmode = \"writer\"\ncluster = \"archive\"\nschemas = [\"common\"]\n\
                  [[routes]]\nmode = \"writer\"\ncluster = \"shop\"\nusers = [\"report\"]\n";
    let scene = Scene::with_rules(routes);
    let (other, password) = ("other", Cluster::password());
    for server in [&scene.shop.servers[0], &scene.archive] {
        let account =
            format!("CREATE USER {other} IDENTIFIED BY '{password}'; GRANT ALL ON *.* TO {other}");
        server.sql(&account).unwrap();
    }
    // Pooled, and passed through: no user is called so.
    for user in [USER, other] {
        let mut client = scene.try_client(user, Some("common")).expect("a login");
        for text in ["SELECT 1", "BEGIN", "COMMIT", "USE old", "USE common"] {
            client.query(text).unwrap();
            assert_eq!(server_id(&mut client), "9", "{user}: {text}");
        }
        let mut client = scene.try_client(user, None).expect("a login");
        assert_ne!(server_id(&mut client), "9", "{user}");
    }
    // The route counts and not the user's entry; and there is no such account there.
    let answer = scene.try_client("report", None).and_then(|mut it| it.query("SELECT 1"));
    let why = answer.expect_err("there is no account").to_string();
    assert!(why.contains("Access denied"), "{why}");
    let (status, log) = scene.flifo.stop();
    assert!(status.success() && !log.contains("panicked"), "{log}");
}

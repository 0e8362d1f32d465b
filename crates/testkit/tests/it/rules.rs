//! Rules in front of real servers: statements are refused, answered, rewritten, held back and routed, and nothing else of
//! a session changes.

use backend::Address;
use engine::intent::Digest;
use testkit::client::{Client, Problem};
use testkit::cluster::Cluster;
use testkit::fake_client::FakeClient;
use wire::Capabilities;
use wire::lex::Dialect;
use wire::text::Lexed;

use crate::cluster::{Watched, client, server_id};
use crate::reload::{Scene, code, pair, user};

const RULES: &str = r#"
[[rules]]
name = "tables stay"
refuse = { number = 1370, state = "42000", message = "tables stay here" }
match = { kind = "ddl", digest_matches = "^drop table" }

[[rules]]
name = "ping"
answer = "ok"
match.text_matches = "^select 'ping'$"

[[rules]]
name = "fixed"
answer = { columns = ["a", "b"], rows = [["1", "x"], ["2", "y'"]] }
match.table = "nowhere"

[[rules]]
name = "moved"
rewrite = { from = "SELECT ?a FROM old_t WHERE id = ?b", to = "SELECT ?a FROM new_t WHERE id = ?b" }

[[rules]]
name = "renamed"
replace = { find = '\bcolour\b', with = "color" }
match.table = "paints"

[[rules]]
name = "told"
comment = "rule=told"
hint = "MAX_EXECUTION_TIME(60000)"
match.table = "processlist"

[[rules]]
name = "some"
rate = { statements = 2, within = "1h", per = "user" }
match.table = "rated"

[[rules]]
name = "late"
delay = "50ms"
match.table = "late_t"

[[rules]]
name = "two"
at_once = 2
match.digest_matches = "sleep"

[[rules]]
name = "no report in a transaction"
refuse = true
match = { in_transaction = true, tag = { kind = "report" } }
"#;

fn tables(scene: &Scene) {
    scene
        .server
        .sql(
            "CREATE DATABASE IF NOT EXISTS test; USE test; \
             CREATE TABLE old_t (id INT PRIMARY KEY, v INT); \
             CREATE TABLE new_t (id INT PRIMARY KEY, v INT); INSERT INTO new_t VALUES (1, 10), (2, 20); \
             CREATE TABLE paints (color INT); INSERT INTO paints VALUES (7); \
             CREATE TABLE rated (a INT); CREATE TABLE late_t (a INT); INSERT INTO late_t VALUES (1)",
        )
        .expect("tables");
}

fn connect(scene: &Scene, user: &str) -> Client {
    let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: scene.flifo.port() };
    let client = Client::builder(address, user, &format!("{user}'s"))
        .schema("test")
        .with(Capabilities::MULTI_STATEMENTS)
        .with(Capabilities::MULTI_RESULTS);
    client.connect().expect("a login")
}

fn refused(answer: Result<Vec<Vec<String>>, Problem>) -> u16 {
    code(&answer.expect_err("it is refused")).expect("a number")
}

/// What all users see of the rules above.
fn look_as(scene: &Scene, user: &str) {
    let mut client = connect(scene, user);
    assert_eq!(refused(client.query("DROP TABLE new_t")), 1370);
    assert_eq!(refused(client.query("/* x */ drop\ntable if exists new_t")), 1370);
    assert_eq!(
        refused(client.query("SELECT 1; DROP TABLE new_t")),
        1370,
        "each statement is judged"
    );
    assert_eq!(refused(client.query("SELECT 'DROP")), 1370, "what cannot be read may be anything");
    assert_eq!(client.query("SELECT 'DROP TABLE new_t'").unwrap(), [["DROP TABLE new_t"]]);
    assert!(client.query("SELECT 'ping'").unwrap().is_empty(), "it is answered with OK");
    assert_eq!(client.query("SELECT * FROM nowhere").unwrap(), [["1", "x"], ["2", "y'"]]);
    assert_eq!(
        refused(client.query("SELECT 1; SELECT 'ping'")),
        1235,
        "one of several has no answer of its own"
    );
    assert_eq!(client.query("select v from old_t where id = 2").unwrap(), [["20"]]);
    assert_eq!(
        client.query("SELECT v FROM old_t WHERE id = 1; SELECT v FROM old_t WHERE id = 2").unwrap(),
        [["10"], ["20"]]
    );
    assert!(client.query("SELECT v FROM old_t WHERE id = 1 OR 1 = 1").unwrap().is_empty());
    assert_eq!(client.query("SELECT colour FROM paints").unwrap(), [["7"]]);
    let info = "SELECT info FROM information_schema.processlist WHERE id = CONNECTION_ID()";
    let own = client.query(info).unwrap();
    if let Some(row) = own.first() {
        // Pooled clients have an id that the server does not know.
        assert!(
            row[0].starts_with("SELECT /*+ MAX_EXECUTION_TIME(60000) */ /* rule=told */ info"),
            "{row:?}"
        );
    }
    client.query("SELECT a FROM rated").unwrap();
    client.query("SELECT a FROM rated WHERE a = 1").unwrap();
    assert_eq!(refused(client.query("SELECT a FROM rated")), 1226);
    let begun = std::time::Instant::now();
    assert_eq!(client.query("SELECT a FROM late_t").unwrap(), [["1"]]);
    assert!(begun.elapsed().as_millis() >= 50, "{:?}", begun.elapsed());
    assert_eq!(client.query("SELECT 2 /* kind=report */").unwrap(), [["2"]]);
    client.query("BEGIN").unwrap();
    assert_eq!(refused(client.query("SELECT 2 /* kind=report */")), 1227);
    client.query("INSERT INTO old_t VALUES (9, 9)").unwrap();
    assert_eq!(refused(client.query("SELECT 2 /* kind=report */")), 1227);
    client.query("ROLLBACK").unwrap();
    assert!(client.query("SELECT v FROM old_t").unwrap().is_empty(), "the transaction was its own");
}

/// Executes a statement with one number. The answer is its first column.
fn execute(client: &mut FakeClient, id: u32, value: u64) -> Result<usize, u16> {
    let mut payload = vec![0x17];
    payload.extend_from_slice(&id.to_le_bytes());
    payload.extend_from_slice(&[0, 1, 0, 0, 0, 0, 1, 8, 0]);
    payload.extend_from_slice(&value.to_le_bytes());
    client.command(&payload).map(|rows| rows.len()).map_err(|refusal| refusal.code())
}

fn prepare_as(scene: &Scene, user: &str) {
    let mut client = FakeClient::login(scene.flifo.port(), user, &format!("{user}'s")).unwrap();
    client.query("USE test").unwrap();
    assert_eq!(client.prepare("DROP TABLE new_t").unwrap_err().code(), 1370);
    let moved = client.prepare("SELECT v FROM old_t WHERE id = ?").unwrap();
    assert_eq!(execute(&mut client, moved, 1), Ok(1), "it reads the other table");
    assert_eq!(execute(&mut client, moved, 3), Ok(0));
    let fixed = client.prepare("SELECT * FROM nowhere WHERE id = ?").unwrap();
    assert_eq!(execute(&mut client, fixed, 1), Ok(2));
    let other = client.prepare("SELECT v FROM new_t WHERE id = ?").unwrap();
    assert_eq!(execute(&mut client, other, 2), Ok(1));
}

/// A long text is looked through on another thread, and the client sees no more of that than its rule. Of a client that
/// is passed through, it would go on in pieces.
fn long_texts_as(scene: &Scene, user: &str) {
    let filler = "x".repeat(300_000);
    let allowed = format!("SELECT LENGTH('{filler}')");
    let forbidden = format!("SELECT LENGTH('{filler}'), 'forbidden'");
    let mut client = connect(scene, user);
    client.query("BEGIN; INSERT INTO new_t VALUES (9, 9)").unwrap();
    for _ in 0..2 {
        assert_eq!(client.query(&allowed).unwrap(), [["300000"]]);
        assert_eq!(refused(client.query(&forbidden)), 1644);
        assert_eq!(refused(client.query(&format!("SELECT 1; {forbidden}"))), 1644);
        let several = format!("SELECT 1; {allowed}; SELECT 2");
        assert_eq!(client.query(&several).unwrap(), [["1"], ["300000"], ["2"]]);
    }
    assert_eq!(client.query("SELECT v FROM new_t WHERE id = 9").unwrap(), [["9"]]);
    client.query("ROLLBACK").unwrap();
    assert!(client.query("SELECT v FROM new_t WHERE id = 9").unwrap().is_empty());

    let mut client = FakeClient::login(scene.flifo.port(), user, &format!("{user}'s")).unwrap();
    client.query("USE test").unwrap();
    assert_eq!(client.prepare(&forbidden).unwrap_err().code(), 1644);
    let long = client.prepare(&format!("{allowed}, ? + 0")).unwrap();
    for value in [1, 2] {
        assert_eq!(execute(&mut client, long, value), Ok(1));
    }
    // It leaves while its text is looked through.
    for _ in 0..8 {
        let mut leaving =
            FakeClient::login(scene.flifo.port(), user, &format!("{user}'s")).unwrap();
        leaving.send_packet(0, &[b"\x03", allowed.as_bytes()].concat());
    }
    assert_eq!(execute(&mut client, long, 3), Ok(1));
}

#[test]
fn long_texts_are_judged_like_short_ones() {
    const LONG: &str = "[[rules]]\nname = \"no\"\nmatch.text_matches = \"forbidden'$\"\n\
        refuse = { number = 1644, state = \"45000\", message = \"no\" }\n";
    let scene = Scene::start("", &(user("app", "") + LONG));
    tables(&scene);
    long_texts_as(&scene, "app");
}

#[test]
fn statements_are_refused_answered_and_rewritten() {
    let scene = Scene::start("", &(user("app", "") + RULES));
    tables(&scene);
    // One is pooled, the other passed through.
    for user in ["app", "report"] {
        look_as(&scene, user);
        prepare_as(&scene, user);
    }
    wait_in_line(&scene);
    let mut console = scene.console();
    let rows = console.query("SELECT name, hits, last_hit_seconds FROM rules").unwrap();
    let hits = |name: &str| -> u64 {
        rows.iter().find(|row| row[0] == name).expect("the rule")[1].parse().expect("a count")
    };
    for name in ["tables stay", "ping", "fixed", "moved", "renamed", "told", "late"] {
        assert!(hits(name) >= 2, "{name}: {rows:?}");
    }
    assert_eq!(hits("some"), 6, "{rows:?}");
    assert_eq!(console.query("SHOW RULES").unwrap().len(), rows.len());
    let told = console.query("EXPLAIN RULES FOR 'DROP TABLE x' USER 'app'").unwrap();
    assert_eq!(told[0][1..4], ["tables stay", "yes", "hit"]);
    assert_eq!(told[1][1..4], ["ping", "no", "a rule before it ends the way"]);
    let named = "SELECT rule_id, active, apply, comment FROM runtime_mysql_query_rules WHERE comment = 'ping'";
    assert_eq!(console.query(named).unwrap(), [["2", "1", "1", "ping"]]);
    let counted = "SELECT hits FROM stats_mysql_query_rules WHERE rule_id = 7";
    assert_eq!(console.query(counted).unwrap(), [["6"]]);
    scene.end();
}

/// A statement that reads another table, with the digest of this one: a name at its end makes up for all else.
fn forged(target: &str) -> String {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let inverse = (0..6).fold(MULTIPLIER, |found, _| {
        found.wrapping_mul(2_u64.wrapping_sub(MULTIPLIER.wrapping_mul(found)))
    });
    let begins = (0..1 << 20).map(|at| format!("SELECT v AS c{at} FROM new_t AS "));
    let mut all = begins.filter_map(|begin| {
        let hash = (number(&begin).rotate_left(5) ^ 4).wrapping_mul(MULTIPLIER);
        let name = (number(target).wrapping_mul(inverse) ^ hash.rotate_left(5)).to_le_bytes();
        let is_name = |byte: &u8| byte.is_ascii_graphic() && *byte != b'`';
        let name =
            name.iter().all(is_name).then(|| name.map(char::from).iter().collect::<String>())?;
        Some(format!("{begin}`{name}`"))
    });
    all.next().expect("one of so many")
}

fn number(text: &str) -> u64 {
    Digest::of(Lexed::default().text(text.as_bytes(), Dialect::default())).hash()
}

#[test]
fn a_statement_with_a_forged_digest_is_not_taken_for_the_other_one() {
    const KNOWN: &str = "SELECT color FROM paints WHERE color = 7";
    let forged = forged(KNOWN);
    assert_eq!(number(&forged), number(KNOWN), "{forged}");
    for named in
        ["SELECT color FROM paints WHERE color = ?".to_owned(), format!("0x{:016x}", number(KNOWN))]
    {
        let rules = format!(
            "[[rules]]\nname = 'paints'\nthen = 'stop'\nmatch.any = [{{ digest = '{named}' }}, {{ kind = 'administration' }}]\n\
             [[rules]]\nname = 'no more'\nrefuse = true\n"
        );
        let scene = Scene::start("", &(user("app", "") + &rules));
        tables(&scene);
        // One is pooled, the other passed through.
        for user in ["app", "report"] {
            let mut client = connect(&scene, user);
            let login = (scene.flifo.port(), user, format!("{user}'s"));
            let mut executes = FakeClient::login(login.0, login.1, &login.2).unwrap();
            executes.query("USE test").unwrap();
            for _ in 0..4 {
                assert_eq!(client.query(KNOWN).unwrap(), [["7"]], "{named}");
                assert_eq!(refused(client.query(&forged)), 1227, "{named}");
                let known = executes.prepare(KNOWN).unwrap();
                let packet = [&[0x17][..], &known.to_le_bytes(), b"\0\x01\0\0\0"].concat();
                assert_eq!(executes.command(&packet).map(|rows| rows.len()).ok(), Some(1));
                assert_eq!(executes.prepare(&forged).unwrap_err().code(), 1227);
            }
        }
        // The server would have run it.
        assert!(scene.server.sql(&format!("USE test; {forged}")).is_ok());
        scene.end();
    }
}

/// Never more than two run, and all of them do.
fn wait_in_line(scene: &Scene) {
    let most = std::thread::scope(|scope| {
        let sleep = |user: &'static str| {
            scope.spawn(move || {
                let mut client = connect(scene, user);
                for _ in 0..3 {
                    assert_eq!(client.query("SELECT SLEEP(0.2)").unwrap(), [["0"]]);
                }
            })
        };
        let sleepers: Vec<_> = ["app", "app", "app", "report", "report"].map(sleep).into();
        let mut most = 0;
        let text =
            "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP%'";
        while sleepers.iter().any(|sleeper| !sleeper.is_finished()) {
            let running = scene.server.sql(text).expect("a count");
            most =
                most.max(running.lines().last().expect("a row").parse::<u32>().expect("a count"));
        }
        most
    });
    assert!((1..=2).contains(&most), "{most} at once");
    // A text takes one place, however many of its statements the rule hits.
    for user in ["app", "report"] {
        let text = "SELECT SLEEP(0); SELECT SLEEP(0); SELECT SLEEP(0)";
        assert!(connect(scene, user).query(text).is_ok());
    }
    // A client in a transaction does not wait, and one that leaves takes no place with it.
    let mut holder = connect(scene, "app");
    holder.query("BEGIN").unwrap();
    holder.query("INSERT INTO late_t VALUES (2)").unwrap();
    assert_eq!(holder.query("SELECT SLEEP(0)").unwrap(), [["0"]]);
    holder.query("ROLLBACK").unwrap();
}

#[test]
fn executions_of_pass_through_clients_are_judged() {
    let scene = Scene::start("", &(user("app", "") + RULES));
    tables(&scene);
    let mut client = FakeClient::login(scene.flifo.port(), "report", "report's").unwrap();
    client.query("USE test").unwrap();
    let command = |client: &mut FakeClient, id: u32| {
        let packet = [&[0x17][..], &id.to_le_bytes(), b"\0\x01\0\0\0"].concat();
        client.command(&packet).map(|rows| rows.len()).map_err(|refusal| refusal.code())
    };
    let report = client.prepare("SELECT 2 /* kind=report */").unwrap();
    let rated = client.prepare("SELECT a FROM rated").unwrap();
    assert_eq!(command(&mut client, report), Ok(1));
    assert_eq!(command(&mut client, rated), Ok(0));
    assert_eq!(command(&mut client, rated), Ok(0));
    assert_eq!(command(&mut client, rated), Err(1226), "two may run");
    client.query("BEGIN").unwrap();
    client.query("INSERT INTO late_t VALUES (7)").unwrap();
    assert_eq!(command(&mut client, report), Err(1227), "it is in a transaction");
    client.query("ROLLBACK").unwrap();
    assert_eq!(command(&mut client, report), Ok(1));
    // A rule of later on finds it as well; what was rewritten is known by what its client has written.
    let moved = client.prepare("SELECT v FROM old_t WHERE id = 1").unwrap();
    assert_eq!(command(&mut client, moved), Ok(1));
    let more = "[[rules]]\nname = 'closed'\nrefuse = true\nmatch.table = 'old_t'\n";
    assert_eq!(scene.reload(|text| format!("{text}\n{more}")), [pair("rules.closed", "now")]);
    assert_eq!(command(&mut client, moved), Err(1227));
    let closed = [&[0x19][..], &moved.to_le_bytes()].concat();
    client.send_packet(0, &closed);
    assert_eq!(command(&mut client, moved), Err(1243), "the server knows it no more");
    assert_eq!(command(&mut client, report), Ok(1));
    scene.end();
}

#[test]
fn other_rules_are_in_force_with_the_next_statement() {
    let scene = Scene::start("", &(user("app", "") + RULES));
    tables(&scene);
    let mut client = connect(&scene, "app");
    let mut fake = FakeClient::login(scene.flifo.port(), "app", "app's").unwrap();
    fake.query("USE test").unwrap();
    let moved = fake.prepare("SELECT v FROM old_t WHERE id = ?").unwrap();
    assert_eq!(execute(&mut fake, moved, 1), Ok(1));
    assert!(client.query("SELECT 'ping'").unwrap().is_empty());
    let told = scene.reload(|text| text.replace("^select 'ping'$", "^select 'pong'$"));
    assert_eq!(told, [pair("rules.ping", "now")]);
    assert_eq!(client.query("SELECT 'ping'").unwrap(), [["ping"]]);
    assert!(client.query("SELECT 'pong'").unwrap().is_empty());
    // What was prepared is known by what its client has written.
    let more = "[[rules]]\nname = 'closed'\nrefuse = true\nmatch.table = 'old_t'\n";
    assert_eq!(scene.reload(|text| format!("{text}\n{more}")), [pair("rules.closed", "now")]);
    assert_eq!(execute(&mut fake, moved, 1), Err(1227));
    assert_eq!(refused(client.query("SELECT v FROM old_t WHERE id = 1")), 1227);
    scene.flifo.change_configuration(|text| {
        text.replace("match.table = 'old_t'", "match.tables = 'old_t'")
    });
    assert!(scene.console().query("RELOAD").is_err(), "a rule that is wrong");
    assert_eq!(execute(&mut fake, moved, 1), Err(1227), "nothing has changed");
    let none = |text: &str| text.split("[[rules]]").next().unwrap().to_owned();
    let told = scene.reload(none);
    let rules = told.iter().filter(|(name, _)| name.starts_with("rules."));
    assert_eq!(rules.count(), 11, "{told:?}");
    assert_eq!(execute(&mut fake, moved, 1), Ok(1), "it was prepared so");
    assert_eq!(client.query("SELECT 'pong'").unwrap(), [["pong"]]);
    scene.end();
}

#[test]
fn statements_go_where_rules_send_them_and_transactions_stay() {
    let rules = r#"reads = "any"
[[rules]]
name = "to the writer"
route = { role = "writer" }
match.tag = { to = "writer" }
[[rules]]
name = "to the second"
route = { server = "db2" }
match.tag = { to = "db2" }
[[rules]]
name = "to a reader"
route = { role = "reader" }
match.tag = { to = "reader" }
"#;
    let mut scene = Watched::start(Cluster::replicated(1), rules);
    scene.wait_for_roles(&["writer", "reader"]);
    let mut client = client(&scene.flifo).unwrap();
    client.query("CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    client.query("INSERT INTO t VALUES (1)").unwrap();
    scene.cluster.wait_for(1, 0);
    assert_eq!(server_id(&mut client), "2", "a read");
    for _ in 0..3 {
        for (text, server) in [
            ("SELECT @@server_id /* to=writer */", "1"),
            ("SELECT @@server_id /* to=db2 */", "2"),
            ("SHOW VARIABLES LIKE 'server_id'", "1"),
            ("SHOW VARIABLES LIKE 'server_id' /* to=reader */", "2"),
        ] {
            let rows = client.query(text).unwrap();
            assert_eq!(rows[0].last().map(String::as_str), Some(server), "{text}");
        }
    }
    client.query("BEGIN").unwrap();
    client.query("INSERT INTO t VALUES (2)").unwrap();
    for text in [
        "SELECT COUNT(*), @@server_id FROM t /* to=db2 */",
        "SELECT COUNT(*), @@server_id FROM t /* to=reader */",
        "SELECT COUNT(*), @@server_id FROM t",
    ] {
        assert_eq!(client.query(text).unwrap(), [["2", "1"]], "{text}");
    }
    client.query("COMMIT").unwrap();
    assert_eq!(client.query("SELECT @@server_id /* to=db2 */").unwrap(), [["2"]]);
    // What begins on a reader stays there, and cannot write.
    client.query("START TRANSACTION READ ONLY /* to=reader */").unwrap();
    assert_eq!(client.query("SELECT @@server_id").unwrap(), [["2"]]);
    let problem = client.query("SELECT @@server_id /* to=writer */").unwrap_err();
    assert!(problem.to_string().contains("\"to the writer\""), "{problem}");
    client.query("COMMIT").unwrap();
    transactions_that_may_write_begin_on_the_writer(&mut client);
}

/// Whatever rules say of their first read.
fn transactions_that_may_write_begin_on_the_writer(client: &mut Client) {
    for begin in [
        "BEGIN",
        "START TRANSACTION /* to=reader */",
        "START TRANSACTION /* to=db2 */",
        "SET autocommit = 0",
    ] {
        for read in [
            "SELECT id, @@server_id FROM t WHERE id = 1 /* to=reader */",
            "SELECT id, @@server_id FROM t WHERE id = 1 /* to=db2 */",
        ] {
            client.query(begin).unwrap();
            assert_eq!(client.query(read).unwrap(), [["1", "1"]], "{begin}, {read}");
            client.query("UPDATE t SET id = 1 WHERE id = 1").unwrap();
            client.query("COMMIT").unwrap();
        }
    }
    client.query("SET SESSION TRANSACTION READ ONLY").unwrap();
    let read = "SELECT id, @@server_id FROM t WHERE id = 1 /* to=reader */";
    assert_eq!(client.query(read).unwrap(), [["1", "2"]], "it cannot write");
    client.query("COMMIT").unwrap();
    client.query("SET SESSION TRANSACTION READ WRITE").unwrap();
    client.query("SET autocommit = 1").unwrap();
    assert_eq!(client.query(read).unwrap(), [["1", "2"]]);
}

#[test]
fn a_server_that_a_rule_names_may_be_down() {
    let rules = r#"reads = "any"
hold = "300ms"
[[rules]]
name = "only there"
route = { server = "db2" }
match.tag = { to = "db2" }
[[rules]]
name = "rather there"
route = { server = "db2", fallback = "reader" }
match.tag = { to = "db2-or-reader" }
[[rules]]
name = "there or to the writer"
route = { server = "db2", fallback = "writer" }
match.tag = { to = "db2-or-writer" }
"#;
    let mut scene = Watched::start(Cluster::replicated(1), rules);
    scene.wait_for_roles(&["writer", "reader"]);
    let mut client = client(&scene.flifo).unwrap();
    let read = |to: &str| format!("SELECT @@server_id /* to={to} */");
    for to in ["db2", "db2-or-reader", "db2-or-writer"] {
        assert_eq!(client.query(&read(to)).unwrap(), [["2"]], "{to}");
    }
    scene.cluster.servers[1].kill().unwrap();
    for to in ["db2-or-reader", "db2-or-writer"] {
        // Also while it is not known yet that it is down, and from the backend that it has then.
        for text in [read(to), read(to), "BEGIN".to_owned(), read(to), "COMMIT".to_owned()] {
            let rows = client.query(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert!(rows.is_empty() || rows == [["1"]], "{text}: {rows:?}");
        }
    }
    let problem = client.query(&read("db2")).unwrap_err().to_string();
    for word in ["1637", "\"only there\"", "\"db2\"", "fallback"] {
        assert!(problem.contains(word), "{word}: {problem}");
    }
}

#[test]
fn clients_are_known_by_how_they_came() {
    let rules = r#"
[[rules]]
name = "no dumps"
refuse = true
match.program = "%dump"
[[rules]]
name = "by the socket"
answer = { columns = ["by"], rows = [["socket"]] }
match = { listener = "/%", table = "door" }
[[rules]]
name = "by TCP"
answer = { columns = ["by"], rows = [["TCP"]] }
match = { listener = "127.0.0.1:%", table = "door" }
[[rules]]
name = "alone"
answer = { columns = ["where"], rows = [["main writer"]] }
match = { cluster = "main", role = "writer", table = "place" }
"#;
    let scene = Scene::start("", &(user("app", "") + rules));
    let tcp = Address::Tcp { host: "127.0.0.1".to_owned(), port: scene.flifo.port() };
    let socket = Address::Unix(scene.flifo.socket());
    // One is pooled, the other passed through.
    for user in ["app", "report"] {
        let connect = |address: &Address, program: &str| {
            let builder = Client::builder(address.clone(), user, &format!("{user}'s"));
            builder.program(program).connect().expect("a login")
        };
        assert_eq!(refused(connect(&tcp, "mysqldump").query("SELECT 1")), 1227);
        let mut client = connect(&tcp, "dump of mysql");
        assert_eq!(client.query("SELECT * FROM door").unwrap(), [["TCP"]]);
        assert_eq!(client.query("SELECT * FROM place").unwrap(), [["main writer"]]);
        let mut client = connect(&socket, "mysql");
        assert_eq!(client.query("SELECT * FROM door").unwrap(), [["socket"]]);
    }
    let asked = "EXPLAIN RULES FOR 'SELECT 1' PROGRAM 'mysqldump' LISTENER '/run/x'";
    assert_eq!(scene.console().query(asked).unwrap()[0][1..4], ["no dumps", "yes", "hit"]);
    scene.end();
}

//! The slow log and the audit log, as they are read: by the programs that are made for them, line by line, and on a disk
//! that is full.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use backend::Address;
use bench::private_server::PrivateServer;
use serde_json::Value;
use testkit::client::{Client, Problem};
use testkit::fake_client::FakeClient;
use testkit::flifo::Flifo;
use testkit::scene::wait_for;
use testkit::slow_logs::{classes, dump};

struct Scene {
    flifo: Flifo,
    server: PrivateServer,
    folder: tempfile::TempDir,
}

impl Scene {
    /// Users `app` and `report` are pooled, `passed` is known to the server alone. FOLDER in `logs` is a folder of the
    /// test's own.
    fn start(logs: &str) -> Self {
        let server = PrivateServer::start_default().expect("a private server");
        for name in ["app", "report", "passed"] {
            let text = format!(
                "CREATE USER {name}@'%' IDENTIFIED BY \"{name}'s\"; \
                 GRANT ALL ON *.* TO {name}@'%' WITH GRANT OPTION"
            );
            server.sql(&text).expect("it is created");
        }
        server.sql("CREATE DATABASE shop; CREATE TABLE shop.t (a INT, b TEXT)").expect("tables");
        let folder = tempfile::tempdir().expect("a folder");
        let users = ["app", "report"]
            .map(|name| format!("[[users]]\nname = \"{name}\"\npassword = \"{name}'s\"\n"));
        let console = folder.path().join("console.sock");
        let flifo = Flifo::start(&format!(
            "[server]\naddress = \"{}\"\nlearn_passwords = \"off\"\n[console]\nlisten = [{console:?}]\n\
             [http]\nlisten = []\n{}{}",
            server.socket().display(),
            logs.replace("FOLDER", &folder.path().display().to_string()),
            users.concat(),
        ));
        Self { flifo, server, folder }
    }

    fn client(&self, user: &str) -> FakeClient {
        FakeClient::login(self.flifo.port(), user, &format!("{user}'s")).expect("a login")
    }

    fn console(&self) -> Client {
        let address = Address::Unix(self.folder.path().join("console.sock"));
        Client::builder(address, "admin", "").connect().expect("the console")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn reload(&self, change: impl Fn(&str) -> String) -> Result<(), Problem> {
        self.flifo.change_configuration(change);
        self.console().query("RELOAD").map(|_| ())
    }

    /// A counter, as the console shows it.
    fn counted(&self, name: &str) -> u64 {
        let rows = self.console().query("SHOW STATS").expect("statistics");
        let row = rows.into_iter().find(|row| row[0] == name).expect("it is counted");
        row[1].parse().expect("a number")
    }

    /// Ends Flifo, which writes what is left; its log.
    fn end(self) -> (String, tempfile::TempDir, PrivateServer) {
        let (status, log) = self.flifo.stop();
        assert!(status.success() && !log.contains("panicked"), "{log}");
        (log, self.folder, self.server)
    }
}

/// How often each kind of statement is in a slow log, and whose it is.
fn digested(path: &Path) -> BTreeMap<String, (u64, String)> {
    let class = |class: &Value| {
        let user = class["metrics"]["user"]["value"].as_str().unwrap_or_default().to_owned();
        let kind = class["fingerprint"].as_str().expect("a fingerprint").to_owned();
        (kind, (class["query_count"].as_u64().expect("a number"), user))
    };
    classes(path).iter().map(class).collect()
}

/// The same as [`digested`], as `mysqldumpslow` does it.
fn dumped(path: &Path) -> BTreeMap<String, (u64, String)> {
    let text = dump(path);
    let mut found = BTreeMap::new();
    for part in text.split("Count: ").skip(1) {
        let (head, statement) = part.split_once('\n').expect("two lines");
        let count = head.split(' ').next().and_then(|count| count.parse().ok()).expect("a number");
        let (_, user) = head.rsplit_once(' ').expect("a user");
        found.insert(statement.trim().to_owned(), (count, user.to_owned()));
    }
    found
}

const EACH: &str = "[logs.slow]\nfile = \"FOLDER/slow.log\"\nthreshold = \"0s\"\n";

#[test]
fn the_programs_for_slow_logs_read_it() {
    let scene = Scene::start(EACH);
    let mut app = scene.client("app");
    app.query("USE shop").expect("a schema");
    for number in 0..5 {
        app.query(&format!("SELECT a FROM t WHERE a = {number} AND b = 'x{number}'"))
            .expect("rows");
    }
    let id = app.prepare("SELECT b FROM t WHERE a < 7").expect("prepared");
    for _ in 0..3 {
        app.command(&[&[0x17][..], &id.to_le_bytes(), b"\0\x01\0\0\0"].concat()).expect("rows");
    }
    app.query("SELECT nonsense FROM t").expect_err("there is no such column");
    let mut report = scene.client("report");
    report.query("INSERT INTO shop.t VALUES (1, 'a'), (2, 'b')").expect("inserted");
    report.query("SELECT 1 FROM shop.t;\n# User@Host: root[root] @ x []").expect("rows");
    let mut passed = scene.client("passed");
    passed.query("SELECT a, b FROM shop.t").expect("rows");
    scene.console().query("DISABLE").expect("it takes no statement");
    app.query("SELECT 'refused' FROM t").expect_err("it reaches no server");
    drop((app, report, passed));
    let (log, folder, _server) = scene.end();
    assert!(
        log.contains("a statement was not run") && log.contains("It is safe to try again"),
        "{log}"
    );
    let path = folder.path().join("slow.log");
    let text = std::fs::read_to_string(&path).expect("a log");

    let digested = digested(&path);
    let dumped = dumped(&path);
    for (count, user, fingerprint, statement) in [
        (
            5,
            "app",
            "select a from t where a = ? and b = ?",
            "SELECT a FROM t WHERE a = N AND b = 'S'",
        ),
        (3, "app", "select b from t where a < ?", "SELECT b FROM t WHERE a < N"),
        (1, "app", "select nonsense from t", "SELECT nonsense FROM t"),
        (
            1,
            "report",
            "insert into shop.t values(?+)",
            "INSERT INTO shop.t VALUES (N, 'S'), (N, 'S')",
        ),
        (1, "passed", "select a, b from shop.t", "SELECT a, b FROM shop.t"),
        (1, "app", "select ? from t", "SELECT 'S' FROM t"),
    ] {
        assert_eq!(
            digested.get(fingerprint),
            Some(&(count, user.to_owned())),
            "{digested:#?}\n{text}"
        );
        let user = format!("{user}[{user}]@127.0.0.1");
        assert_eq!(dumped.get(statement), Some(&(count, user)), "{dumped:#?}\n{text}");
    }
    assert!(digested.values().all(|(_, user)| user != "root"), "{digested:#?}");
    assert!(text.contains("Rows_affected: 2  Queued_time: 0."), "{text}");
    let without_backend = text.matches("# Time: ").count() - text.matches("  Backend_id: ").count();
    assert_eq!(without_backend, 1, "{text}");
    assert!(text.contains("Last_errno: 1054") && text.contains("\nuse shop;\n"), "{text}");
}

#[test]
fn slow_statements_are_told_from_others_and_literals_are_hidden() {
    let scene = Scene::start(
        "[logs.slow]\nfile = \"FOLDER/slow.log\"\nthreshold = \"1h\"\nliterals = \"hide\"\n",
    );
    let mut app = scene.client("app");
    // However busy the machine is, each is quicker than an hour, and none takes no time.
    app.query("SELECT 'quick'").expect("a row");
    scene.reload(|text| text.replace("\"1h\"", "\"0s\"")).expect("a good file");
    app.query("SELECT SLEEP(0.2), 'secret' -- by hand").expect("a row");
    wait_for("the entry", || scene.read("slow.log").contains("SLEEP"));
    app.query("SELECT SLEEP(0.2), PASSWORD('hunter2')").expect("a row");
    scene.reload(|text| text.replace("\"hide\"", "\"show\"")).expect("a good file");
    app.query("SELECT SLEEP(0.2), 'shown'").expect("a row");
    app.query("SELECT SLEEP(0.2), PASSWORD('hunter2')").expect("a row");
    scene.reload(|text| text.replace("\"0s\"", "\"none\"")).expect("a good file");
    app.query("SELECT SLEEP(0.2), 'too late'").expect("a row");
    scene.reload(|text| text.replace("\"none\"", "\"none\"\nsample = 1")).expect("a good file");
    app.query("SELECT 'sampled'").expect("a row");
    drop(app);
    let (_, folder, _server) = scene.end();
    let text = std::fs::read_to_string(folder.path().join("slow.log")).expect("a log");
    let statements: Vec<_> = text.lines().filter(|line| line.starts_with("SELECT")).collect();
    assert_eq!(
        statements,
        [
            "SELECT SLEEP(?), ?;",
            "SELECT SLEEP(?), PASSWORD(?);",
            "SELECT SLEEP(0.2), 'shown';",
            "SELECT SLEEP(?), PASSWORD(?);",
            "SELECT 'sampled';",
        ],
        "{text}"
    );
    assert_eq!(text.matches("Sampled: Yes").count(), 1, "{text}");
    for part in ["hunter2", "secret", "by hand", "too late", "quick"] {
        assert!(!text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_reload_turns_logs_on_and_off_and_names_what_it_cannot() {
    let scene = Scene::start("");
    let mut app = scene.client("app");
    app.query("SELECT 'before'").expect("a row");
    let on = EACH.replace("FOLDER", &scene.folder.path().display().to_string());
    let with = |text: &str| text.replacen("[[users]]", &format!("{on}[[users]]"), 1);
    scene.reload(with).expect("a good file");
    let log = scene.flifo.log();
    let told = log.lines().find(|line| line.contains("the configuration was read again"));
    assert!(told.is_some_and(|line| line.contains("logs.slow.file: not set -> ")), "{log}");
    app.query("SELECT 'while'").expect("a row");
    let moved = |text: &str| text.replace("/slow.log", "/other.log");
    scene.reload(moved).expect("a good file");
    app.query("SELECT 'moved'").expect("a row");
    scene.reload(|text| text.replace(&moved(&on), "")).expect("a good file");
    app.query("SELECT 'after'").expect("a row");
    wait_for("the entries", || {
        scene.read("slow.log").contains("while") && scene.read("other.log").contains("moved")
    });

    // A folder that was not named at the start, where this kernel keeps Flifo from it.
    let elsewhere = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder");
    let there = EACH.replace("FOLDER", &elsewhere.path().display().to_string());
    let refused = scene.reload(|text| text.replacen("[[users]]", &format!("{there}[[users]]"), 1));
    match refused {
        Ok(()) => assert!(scene.flifo.log().contains("Landlock"), "{}", scene.flifo.log()),
        Err(problem) => {
            let why = format!("{problem:?}");
            for part in ["nothing has changed", "cannot write logs.slow.file", "hardening.sandbox"]
            {
                assert!(why.contains(part), "{part}: {why}");
            }
        }
    }
    app.query("SELECT 'on'").expect("it goes on");
    drop(app);
    let (_, folder, _server) = scene.end();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("a log");
    assert!(!read("slow.log").contains("before") && !read("slow.log").contains("moved"));
    assert!(!read("other.log").contains("after") && !read("other.log").contains("while"));
}

#[test]
fn full_files_are_renamed_and_a_signal_opens_them_anew() {
    let scene = Scene::start(&format!("{EACH}size_max = \"64KiB\"\nfiles_max = 2\n"));
    let mut app = scene.client("app");
    let long = "x".repeat(4000);
    let number = std::cell::Cell::new(0);
    let mut tell = |until: &dyn Fn() -> bool| {
        while !until() {
            number.set(number.get() + 1);
            app.query(&format!("SELECT {}, '{long}'", number.get())).expect("a row");
        }
    };
    tell(&|| scene.path("slow.log.2").exists());
    let first = scene.read("slow.log.2");
    tell(&|| scene.path("slow.log.2").exists() && scene.read("slow.log.2") != first);
    // None is renamed any more.
    wait_for("all entries", || scene.counted("logs.slow.written") == number.get());
    assert!(!scene.path("slow.log.3").exists());
    for name in ["slow.log", "slow.log.1", "slow.log.2"] {
        let len = std::fs::metadata(scene.path(name)).expect("it is there").len();
        assert!(len <= 64 << 10, "{name}: {len}");
    }
    std::fs::rename(scene.path("slow.log"), scene.path("taken")).expect("it is renamed");
    scene.flifo.ask_to_reopen();
    wait_for("another file", || scene.path("slow.log").exists());
    tell(&|| scene.read("slow.log").contains("SELECT"));
    let (_, folder, _server) = scene.end();
    let names: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").collect();
    assert!(names.len() <= 5, "{names:?}");
}

#[test]
fn on_a_full_disk_the_road_goes_on_and_the_loss_is_counted_and_told() {
    let both = "[logs.slow]\nfile = \"/dev/full\"\nthreshold = \"0s\"\n";
    let scene = Scene::start(both);
    let mut app = scene.client("app");
    for number in 0..20 {
        app.query(&format!("SELECT {number}")).expect("the road goes on");
    }
    wait_for("the losses", || scene.counted("logs.slow.lost") >= 20);
    assert_eq!(scene.counted("logs.slow.written"), 0);
    wait_for("the log to tell", || scene.flifo.log().contains("entries of a log were lost"));
    let file = scene.path("slow.log");
    scene
        .reload(|text| text.replace("/dev/full", &file.display().to_string()))
        .expect("a good file");
    wait_for("the file", || {
        app.query("SELECT 'again'").expect("a row");
        scene.read("slow.log").contains("again")
    });
    let lost = scene.counted("logs.slow.lost");
    drop(app);
    let (log, folder, _server) = scene.end();
    let text = std::fs::read_to_string(folder.path().join("slow.log")).expect("a log");
    let first = text.lines().nth(4).expect("a line of attributes");
    assert!(first.ends_with(&format!("  Lost_before: {lost}")), "{lost}: {first}");
    assert_eq!(text.matches("Lost_before").count(), 1, "{text}");
    assert_eq!(log.matches("entries of a log were lost").count(), 1, "{log}");
    assert!(log.contains("No space left on device"), "{log}");
}

/// The lines of an audit log, each of which is an object.
fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// Those of one event and one user.
fn of<'a>(lines: &'a [Value], event: &str, user: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["event"] == event && line["user"] == user).collect()
}

#[test]
fn the_audit_log_tells_who_did_what_and_no_password() {
    let scene = Scene::start(
        "[logs.audit]\nfile = \"FOLDER/audit.log\"\n[logs.slow]\nfile = \"FOLDER/slow.log\"\nthreshold = \"0s\"\n",
    );
    let mut app = scene.client("app");
    app.query("SELECT 'DROP TABLE t'").expect("a row");
    app.query("CREATE TABLE shop.made (a INT)").expect("made");
    app.query("DROP TABLE shop.missing").expect_err("there is none");
    app.query("GRANT SELECT ON shop.* TO report@'%'").expect("granted");
    for text in [
        "CREATE USER new@'%' IDENTIFIED BY 'hunter2'",
        "ALTER USER new@'%' IDENTIFIED BY 'hunter2'",
        "SET PASSWORD FOR new@'%' = PASSWORD('hunter2')",
        "GRANT SELECT ON shop.* TO new@'%' IDENTIFIED BY 'hunter2'",
        "EXECUTE IMMEDIATE 'SET PASSWORD FOR new@''%'' = PASSWORD(''hunter2'')'",
    ] {
        app.query(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    }
    app.query("CHANGE MASTER TO MASTER_HOST = 'h', MASTER_PASSWORD = 'hunter2'").expect("changed");
    let id = app.prepare("DROP TABLE shop.made").expect("prepared");
    app.command(&[&[0x17][..], &id.to_le_bytes(), b"\0\x01\0\0\0"].concat()).expect("dropped");
    drop(app);
    let mut passed = scene.client("passed");
    passed.query("TRUNCATE shop.t").expect("emptied");
    drop(passed);
    for user in ["app", "passed", "unknown"] {
        FakeClient::login(scene.flifo.port(), user, "hunter2").expect_err("a wrong password");
    }
    let mut console = scene.console();
    console.query("SHOW SERVERS").expect("servers");
    console.query("SET server.limit = 7").expect("set");
    console.query("SET http.token = 'hunter2'").expect("set");
    drop(console);
    wait_for("the last entries", || {
        let text = scene.read("audit.log");
        text.matches("\"logout\"").count() >= 3
    });
    let (log, folder, _server) = scene.end();
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("a log");
    let (audit, slow) = (read("audit.log"), read("slow.log"));
    for text in [&audit, &slow, &log] {
        assert!(!text.contains("hunter2"), "{text}");
    }
    assert!(slow.contains("CREATE USER new@'%' IDENTIFIED BY ?;"), "{slow}");
    let lines = lines(&audit);

    let login = of(&lines, "login", "app")[0];
    assert_eq!((&login["mode"], &login["address"]), (&"pooled".into(), &"127.0.0.1".into()));
    assert_eq!(of(&lines, "login", "passed")[0]["mode"], "pass-through");
    assert_eq!(of(&lines, "logout", "app")[0]["client"], login["client"]);
    for user in ["app", "passed", "unknown"] {
        let refusals = of(&lines, "refusal", user);
        assert_eq!(refusals.len(), 1, "{user}: {audit}");
        assert_eq!(refusals[0]["error"], 1045, "{audit}");
        assert!(refusals[0]["message"].as_str().expect("a text").contains("denied"), "{audit}");
        assert!(refusals[0]["reason"].is_string(), "{audit}");
    }
    let told = |event, user| -> Vec<(String, bool)> {
        let told = of(&lines, event, user).into_iter();
        let text = |line: &Value| line["statement"].as_str().expect("a text").to_owned();
        told.map(|line| (text(line), line["ok"] == true)).collect()
    };
    let pairs = |pairs: &[(&str, bool)]| -> Vec<(String, bool)> {
        pairs.iter().map(|(text, ok)| ((*text).to_owned(), *ok)).collect()
    };
    let ddl = [
        ("CREATE TABLE shop.made (a INT)", true),
        ("DROP TABLE shop.missing", false),
        ("DROP TABLE shop.made", true),
    ];
    assert_eq!(told("ddl", "app"), pairs(&ddl));
    assert_eq!(told("ddl", "passed"), pairs(&[("TRUNCATE shop.t", true)]));
    let accounts = [
        ("GRANT SELECT ON shop.* TO report@'%'", true),
        ("CREATE USER new@'%' IDENTIFIED BY ?", true),
        ("ALTER USER new@'%' IDENTIFIED BY ?", true),
        ("SET PASSWORD FOR new@'%' = PASSWORD(?)", true),
        ("GRANT SELECT ON shop.* TO new@'%' IDENTIFIED BY ?", true),
        ("EXECUTE IMMEDIATE ?", true),
    ];
    assert_eq!(told("account", "app"), pairs(&accounts));
    let orders = [("SET server.limit = 7", true), ("SET http.token = ?", true)];
    assert_eq!(told("console", "admin"), pairs(&orders));
    assert_eq!(of(&lines, "login", "admin")[0]["mode"], "console");
}

#[test]
fn only_the_kinds_that_are_named_are_told() {
    let scene = Scene::start(
        "[logs.audit]\nfile = \"FOLDER/audit.log\"\nkinds = [\"refusals\", \"accounts\"]\n",
    );
    let mut app = scene.client("app");
    app.query("CREATE TABLE shop.made (a INT)").expect("made");
    app.query("CREATE USER new@'%'").expect("made");
    FakeClient::login(scene.flifo.port(), "app", "wrong").expect_err("a wrong password");
    let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: scene.flifo.port() };
    let elsewhere = Client::builder(address, "app", "app's").schema("nowhere").connect();
    elsewhere.expect_err("there is no such schema");
    drop(app);
    let (_, folder, _server) = scene.end();
    let lines = lines(&std::fs::read_to_string(folder.path().join("audit.log")).expect("a log"));
    let told: Vec<_> = lines.iter().map(|line| (&line["event"], &line["error"])).collect();
    let pairs = [("account", Value::Null), ("refusal", 1045.into()), ("refusal", 1049.into())];
    let pairs = pairs.map(|(event, error)| (Value::from(event), error));
    assert_eq!(told, pairs.iter().map(|(event, error)| (event, error)).collect::<Vec<_>>());
}

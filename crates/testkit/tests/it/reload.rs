//! A reload: what has changed in the configuration is in force, and clients go on as if nothing had happened.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use backend::Address;
use backend::tls::{ForBackends, Mode};
use bench::private_server::{PrivateServer, free_port};
use rustix::process::Signal;
use testkit::client::{Client, Problem};
use testkit::flifo::Flifo;
use testkit::overdue::Over;
use testkit::scene::wait_for;

pub(crate) struct Scene {
    pub(crate) flifo: Flifo,
    pub(crate) server: PrivateServer,
    pub(crate) folder: tempfile::TempDir,
}

/// The numbers of the errors that a client gets.
pub(crate) fn code(problem: &Problem) -> Option<u16> {
    match problem {
        Problem::Refused { code, .. } => Some(*code),
        _ => None,
    }
}

pub(crate) fn user(name: &str, more: &str) -> String {
    format!("[[users]]\nname = \"{name}\"\npassword = \"{name}'s\"\n{more}\n")
}

impl Scene {
    /// `top` stands at the beginning of the file, `rest` at its end; users `app` and `report` exist on the server.
    pub(crate) fn start(top: &str, rest: &str) -> Self {
        let server = PrivateServer::start_default().expect("a private server");
        for name in ["app", "report"] {
            let text = format!(
                "CREATE USER {name}@'%' IDENTIFIED BY \"{name}'s\"; GRANT ALL ON *.* TO {name}@'%'"
            );
            server.sql(&text).expect("it is created");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let console = folder.path().join("console.sock");
        let flifo = Flifo::start(&format!(
            "{top}\n[server]\naddress = \"{}\"\nlearn_passwords = \"off\"\n\
             [console]\nlisten = [{console:?}]\n[http]\nlisten = []\n{rest}",
            server.socket().display()
        ));
        Self { flifo, server, folder }
    }

    pub(crate) fn client(&self, user: &str) -> Result<Client, Problem> {
        self.client_at(self.flifo.port(), user)
    }

    pub(crate) fn client_at(&self, port: u16, user: &str) -> Result<Client, Problem> {
        let address = Address::Tcp { host: "127.0.0.1".to_owned(), port };
        Client::builder(address, user, &format!("{user}'s")).connect()
    }

    /// A client of a user whose `clients_max` may be reached until Flifo has seen that an earlier one is gone.
    pub(crate) fn client_in_a_free_place(&self, user: &str) -> Client {
        let mut client = None;
        wait_for("the place of a client that is gone", || {
            client = match self.client(user) {
                Err(problem) if code(&problem) == Some(1226) => None,
                login => Some(login.expect("a login")),
            };
            client.is_some()
        });
        client.expect("it was waited for")
    }

    pub(crate) fn console(&self) -> Client {
        let address = Address::Unix(self.folder.path().join("console.sock"));
        Client::builder(address, "admin", "").connect().expect("the console")
    }

    /// Changes the file and reloads it: names of options, and when they are in force.
    pub(crate) fn reload(&self, change: impl Fn(&str) -> String) -> Vec<(String, String)> {
        self.flifo.change_configuration(change);
        let rows = self.console().query("RELOAD").expect("a good file");
        rows.into_iter().map(|mut row| (row.swap_remove(0), row.swap_remove(0))).collect()
    }

    /// The rows of clients and backends of a user, as the console shows them.
    pub(crate) fn shown(&self, name: &str) -> Option<Vec<String>> {
        let rows = self.console().query("SHOW FULL CONFIG").expect("options");
        rows.into_iter().find(|row| row[0] == name)
    }

    pub(crate) fn end(self) {
        let (status, log) = self.flifo.stop();
        assert!(status.success() && !log.contains("panicked"), "{log}");
    }
}

pub(crate) fn pair(name: &str, when: &str) -> (String, String) {
    (name.to_owned(), when.to_owned())
}

#[test]
fn users_come_change_and_go_while_the_others_go_on() {
    let scene = Scene::start("", &user("app", ""));
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let _over = Over(&stop);
        for _ in 0..4 {
            let (scene, stop, done) = (&scene, &stop, &done);
            scope.spawn(move || {
                let mut client = scene.client("app").expect("a login");
                while !stop.load(Relaxed) {
                    client.query("BEGIN").expect("it goes on");
                    client.query("SELECT 1").expect("it goes on");
                    client.query("COMMIT").expect("it goes on");
                    done.fetch_add(1, Relaxed);
                }
            });
        }
        // Known to the server only: passed through, with a backend of its own.
        let mut passed = scene.client("report").expect("a login");
        let own = passed.query("SELECT CONNECTION_ID()").unwrap();

        let told = scene.reload(|text| format!("{text}{}", user("report", "clients_max = 1")));
        assert_eq!(told, [pair("users.report", "now")]);
        let mut pooled = scene.client("report").expect("it is pooled");
        assert_eq!(code(&scene.client("report").err().unwrap()), Some(1226), "clients_max");
        assert_eq!(passed.query("SELECT CONNECTION_ID()").unwrap(), own, "it goes on as it was");
        drop(passed);

        let told = scene.reload(|text| text.replace("clients_max = 1", "clients_max = 2"));
        assert_eq!(told, [pair("users.report.clients_max", "now")]);
        let more = scene.client("report").expect("one more");
        assert_eq!(code(&scene.client("report").err().unwrap()), Some(1226), "clients_max");
        drop(more);

        // In a transaction a client is left alone; it ends behind it, and an idle one at once.
        let mut idle = scene.client_in_a_free_place("report");
        pooled.query("BEGIN").unwrap();
        let begun = done.load(Relaxed);
        let without =
            |text: &str| text.split("[[users]]\nname = \"report\"").next().unwrap().into();
        assert_eq!(scene.reload(without), [pair("users.report", "now")]);
        wait_for("the idle client to be told", || idle.query("SELECT 1").is_err());
        pooled.query("SELECT 1").expect("its transaction goes on");
        pooled.query("COMMIT").unwrap();
        wait_for("the client to end behind its transaction", || pooled.query("SELECT 1").is_err());
        let mut passed = scene.client("report").expect("it is passed through again");
        passed.query("SELECT 1").unwrap();
        wait_for("work to go on", || done.load(Relaxed) > begun + 100);
        stop.store(true, Relaxed);
    });
    scene.end();
}

#[test]
fn a_password_is_changed_in_the_file_as_on_the_server() {
    let scene = Scene::start("", &user("app", ""));
    let mut before = scene.client("app").expect("a login");
    before.query("SET @a = 1").unwrap();
    scene.server.sql("ALTER USER app@'%' IDENTIFIED BY 'new'").unwrap();
    assert_eq!(
        scene.reload(|text| text.replace("\"app's\"", "\"new\"")),
        [pair("users.app.password", "for new connections")]
    );
    assert_eq!(code(&scene.client("app").err().unwrap()), Some(1045), "the old password");
    let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: scene.flifo.port() };
    let mut after = Client::builder(address, "app", "new").connect().expect("the new password");
    assert_eq!(after.query("SELECT CURRENT_USER()").unwrap(), [["app@%"]]);
    assert_eq!(before.query("SELECT @a").unwrap(), [["1"]], "its session goes on");
    scene.end();
}

#[test]
fn listeners_are_opened_and_closed() {
    let scene = Scene::start("", &user("app", ""));
    let (port, other) = (scene.flifo.port(), free_port().expect("a port"));
    let mut before = scene.client("app").expect("a login");
    let socket = scene.folder.path().join("more.sock");
    let (first, second) = (format!("127.0.0.1:{port}"), format!("127.0.0.1:{other}"));
    let told = scene.reload(|text| {
        text.replacen(&format!("\"{first}\""), &format!("\"{first}\", \"{second}\", {socket:?}"), 1)
    });
    assert_eq!(told, [pair("listen", "now")]);
    scene.client_at(other, "app").expect("the new port").query("SELECT 1").unwrap();
    let by_socket = || Client::builder(Address::Unix(socket.clone()), "app", "app's").connect();
    by_socket().expect("the new socket").query("SELECT 1").unwrap();
    let told = scene.reload(|text| text.replacen(&format!("\"{first}\", "), "", 1));
    assert_eq!(told, [pair("listen", "now")]);
    wait_for("the first port to be closed", || scene.client("app").is_err());
    before.query("SELECT 1").expect("its clients go on");
    assert_eq!(scene.reload(|text| text.replacen(&format!(", {socket:?}"), "", 1)).len(), 1);
    wait_for("the socket to be gone", || !socket.exists() && by_socket().is_err());
    scene.client_at(other, "app").expect("the port that is left");
    scene.end();
}

#[test]
fn a_bad_file_changes_nothing() {
    let scene = Scene::start("clients_max = 100", &user("app", ""));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let good = std::cell::RefCell::new(String::new());
    scene.flifo.change_configuration(|text| {
        good.replace(text.to_owned());
        text.to_owned()
    });
    let good = good.into_inner();
    let more = user("report", "");
    let fewer = good.replace("clients_max = 100", "clients_max = 1");
    for (bad, why) in [
        (format!("{fewer}{more}colour = 1\n"), "colour"),
        (
            fewer.replacen("listen = [", &format!("listen = [\"{taken}\", "), 1) + &more,
            "cannot listen on",
        ),
        (format!("{fewer}[tls]\ncert = \"/nowhere\"\nkey = \"/nowhere\"\n{more}"), "/nowhere"),
        (format!("{fewer}= ="), "nothing has changed"),
    ] {
        scene.flifo.change_configuration(|_| bad.clone());
        let problem = scene.console().query("RELOAD").unwrap_err().to_string();
        assert!(problem.contains("nothing has changed") && problem.contains(why), "{problem}");
        assert_eq!(scene.shown("clients_max").unwrap()[1], "100");
        let _clients = [scene.client("app").unwrap(), scene.client("app").unwrap()];
        // Its password is the server's affair still.
        let mut passed = scene.client("report").unwrap();
        assert_eq!(passed.query("SELECT 1").unwrap(), [["1"]]);
    }
    scene.flifo.change_configuration(|_| good.clone());
    assert!(scene.console().query("RELOAD").unwrap().is_empty());
    scene.end();
}

/// Writes a certificate of its own authority, for `localhost`.
pub(crate) fn write_identity(certificate: &PathBuf, key: &PathBuf) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    // As renewal programs do it: a new file in the place of the old one.
    for (path, pem) in [(certificate, made.cert.pem()), (key, made.signing_key.serialize_pem())] {
        let new = path.with_extension("new");
        std::fs::write(&new, pem).unwrap();
        std::fs::rename(&new, path).unwrap();
    }
}

#[test]
fn a_renewed_certificate_is_shown_to_new_clients() {
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key, first] =
        ["cert.pem", "key.pem", "first.pem"].map(|it| folder.path().join(it));
    write_identity(&certificate, &key);
    std::fs::copy(&certificate, &first).unwrap();
    let tls = format!("[tls]\ncert = {certificate:?}\nkey = {key:?}\n");
    let scene = Scene::start("watch_files = \"off\"", &format!("{tls}{}", user("app", "")));
    let trusting = |ca: &PathBuf| {
        let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: scene.flifo.port() };
        let tls =
            ForBackends { mode: Mode::VerifyCa, ca: Some(ca.clone()), ..ForBackends::default() };
        Client::builder(address, "app", "app's").tls_with(&tls).connect()
    };
    let mut before = trusting(&first).expect("the first certificate");
    assert_eq!(scene.reload(str::to_owned), [], "nothing has changed");
    write_identity(&certificate, &key);
    assert!(trusting(&first).is_ok(), "it is not read again by itself");
    let renewed = ["tls.cert", "tls.key"].map(|it| pair(it, "for new connections"));
    assert_eq!(scene.reload(str::to_owned), renewed);
    trusting(&certificate).expect("the second certificate").query("SELECT 1").unwrap();
    assert!(trusting(&first).is_err(), "the first one is not shown any more");
    before.query("SELECT 1").expect("its connection goes on");
    // A key that does not fit is told, and the certificate in force stays.
    let other = folder.path().join("other.pem");
    write_identity(&other, &folder.path().join("unused.pem"));
    std::fs::copy(&other, &certificate).unwrap();
    let problem = scene.console().query("RELOAD").unwrap_err().to_string();
    assert!(problem.contains("nothing has changed"), "{problem}");
    scene.end();
}

#[test]
fn limits_are_in_force_at_once() {
    let rest = format!("[limits]\nidle_client = \"1h\"\n{}", user("app", ""));
    let scene = Scene::start("clients_max = 100", &rest);
    let mut idle = scene.client("app").unwrap();
    idle.query("SELECT 1").unwrap();
    let told = scene.reload(|text| {
        text.replace("clients_max = 100", "clients_max = 1")
            .replace("idle_client = \"1h\"", "idle_client = \"1s\"\npacket_max = \"64KiB\"")
            .replace("[server]\n", "[server]\nlimit = 3\nconnections_max = 5\nrhythm = \"clock\"\n")
    });
    let names: Vec<_> = told.iter().map(|(name, when)| format!("{name} {when}")).collect();
    let expected = [
        "clients_max now",
        "server.limit now",
        "server.rhythm now",
        "server.connections_max now",
        "limits.idle_client now",
        "limits.packet_max now",
    ];
    assert_eq!(names, expected);
    assert_eq!(code(&scene.client("app").err().unwrap()), Some(1040), "clients_max");
    wait_for("the idle client to end", || {
        scene.console().query("SHOW CLIENTS").unwrap().is_empty()
    });
    assert!(idle.query("SELECT 1").is_err());
    wait_for("a place", || scene.client("app").is_ok());
    let server =
        |column: usize| scene.console().query("SHOW FULL SERVERS").unwrap()[0][column].clone();
    assert_eq!(server(6), "3", "the limit");
    assert_eq!(scene.shown("server.limit").unwrap()[1..], ["3", "\"auto\"", "file"]);
    scene.console().query("SET server.limit = 4").unwrap();
    assert_eq!(scene.shown("server.limit").unwrap()[1..], ["4", "\"auto\"", "console"]);
    assert_eq!(scene.shown("limits.upload").unwrap()[3], "default");
    assert_eq!(scene.shown("server.rhythm").unwrap()[1..], ["\"clock\"", "\"own\"", "file"]);
    let text = format!("SELECT LENGTH('{}')", "x".repeat(70_000));
    let long = |text: &str| scene.client("app").and_then(|mut client| client.query(text));
    wait_for("the long statement to be refused", || {
        long(&text).is_err_and(|problem| code(&problem) == Some(1153))
    });
    let told =
        scene.reload(|text| text.replace("limit = 3\n", "").replace("\"64KiB\"", "\"1MiB\""));
    assert!(told.contains(&pair("server.limit", "now")), "{told:?}");
    assert_eq!(scene.console().query("SHOW FULL SERVERS").unwrap()[0][7], "auto");
    wait_for("the long statement to be taken", || long(&text).is_ok());
    scene.end();
}

#[test]
fn classes_come_change_and_go_and_count_what_runs() {
    let class = "[[classes]]\nname = \"few\"\nusers = [\"app\"]\n";
    let scene = Scene::start("", &format!("{}{class}", user("app", "")));
    let states = || {
        let rows = scene.console().query("SELECT state FROM clients ORDER BY state").unwrap();
        rows.into_iter().map(|mut row| row.swap_remove(0)).collect::<Vec<_>>()
    };
    thread::scope(|scope| {
        let mut busy = scene.client("app").unwrap();
        let long = scope.spawn(move || busy.query("SELECT SLEEP(600), 'long'"));
        wait_for("the long statement to run", || states() == ["running"]);
        // It has begun where there was no maximum, and counts against the new one.
        let told = scene.reload(|text| text.replace(class, &format!("{class}maximum = 1\n")));
        assert_eq!(told, [pair("classes.few.maximum", "now")]);
        let mut other = scene.client("app").unwrap();
        let short = scope.spawn(move || {
            let answer = other.query("SELECT 'short'").expect("in the end it runs");
            (other, answer)
        });
        wait_for("the short statement to wait", || states() == ["queued", "running"]);
        let told = scene.reload(|text| text.replace("maximum = 1", "maximum = 2"));
        assert_eq!(told, [pair("classes.few.maximum", "now")]);
        let (mut other, answer) = short.join().unwrap();
        assert_eq!(answer, [["short"]]);
        // Another class in its place, in which the client that is there is, too.
        let told = scene.reload(|text| {
            text.replace("name = \"few\"", "name = \"fewer\"").replace("maximum = 2", "maximum = 1")
        });
        assert_eq!(told, [pair("classes.few", "now"), pair("classes.fewer", "now")]);
        let short = scope.spawn(move || other.query("SELECT 'again'"));
        wait_for("the short statement to wait", || states() == ["queued", "running"]);
        let classes = scene.console().query("SELECT name FROM classes ORDER BY name").unwrap();
        assert_eq!(classes, [["default"], ["fewer"]]);
        let last = class.replace("few", "fewer") + "maximum = 1\n";
        let told = scene.reload(|text| text.replace(&last, ""));
        assert_eq!(told, [pair("classes.fewer", "now")]);
        assert_eq!(short.join().unwrap().unwrap(), [["again"]]);
        let ids = scene.console().query("SELECT id FROM clients WHERE state = 'running'").unwrap();
        scene.console().query(&format!("KILL {}", ids[0][0])).unwrap();
        assert!(long.join().unwrap().is_err());
    });
    scene.end();
}

#[test]
fn a_signal_reloads_as_well() {
    let scene = Scene::start("", &user("app", ""));
    scene.flifo.change_configuration(|text| format!("{text}{}", user("report", "clients_max = 1")));
    scene.flifo.signal(Signal::HUP);
    wait_for("the new user's bound", || {
        let _one = scene.client_in_a_free_place("report");
        scene.client("report").is_err_and(|problem| code(&problem) == Some(1226))
    });
    scene.flifo.change_configuration(|text| format!("{text}colour = 1\n"));
    scene.flifo.signal(Signal::HUP);
    wait_for("the complaint", || scene.flifo.log().contains("nothing has changed"));
    scene.client("app").unwrap().query("SELECT 1").unwrap();
    scene.end();
}

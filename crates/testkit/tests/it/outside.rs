//! What is seen of Flifo from outside and done to it: the console with a client of MySQL's protocol, the HTTP port with
//! bytes on a socket.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use backend::Address;
use backend::tls::{ForBackends, Mode};
use bench::programs::MARIADB;
use testkit::client::{Client, Problem};
use testkit::fake_server::{Brand, FakeServer};
use testkit::flifo::free_port;
use testkit::reply::{Flag, Reply, honest};
use testkit::scene::{Scene, USER, row, user, wait_for};

/// A scene with a console on a socket and on a port, and with an HTTP port.
struct Watched {
    scene: Scene,
    console: u16,
    http: u16,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Watched {
    fn start(more: &str) -> Self {
        Self::start_with(more, "", "")
    }

    fn start_with(more: &str, console_more: &str, http_more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("console.sock");
        let (console, http) = (free_port(), free_port());
        let rest = format!(
            "{more}\n[console]\nlisten = [\"127.0.0.1:{console}\", {socket:?}]\n{console_more}\n\
             [http]\nlisten = \"127.0.0.1:{http}\"\n{http_more}\n{}",
            user("")
        );
        let scene = Scene::start(Brand::MariaDb, "workers = 2", &rest);
        Self { scene, console, http, socket, _folder: folder }
    }

    /// A client of the console that may change things.
    fn console(&self) -> Client {
        let address = self.socket.to_str().unwrap().parse().unwrap();
        Client::builder(address, "admin", "").connect().unwrap()
    }

    fn console_by_port(&self, password: &str) -> Result<Client, Problem> {
        let address = format!("127.0.0.1:{}", self.console).parse().unwrap();
        Client::builder(address, "anybody", password).connect()
    }

    /// The head and the body of an answer to a GET.
    fn get(&self, path: &str) -> (String, String) {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
    }

    fn ask(&self, request: &str) -> (String, String) {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        (head.to_owned(), body.to_owned())
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.http)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }
}

fn one(client: &mut Client, text: &str) -> String {
    let rows = client.query(text).unwrap();
    assert_eq!((rows.len(), rows[0].len()), (1, 1), "{text}: {rows:?}");
    rows[0][0].clone()
}

#[test]
fn the_console_shows_what_was_done() {
    let watched = Watched::start("");
    let mut client = watched.scene.client();
    for number in 0..5 {
        client.query(&format!("SELECT {number} FROM t /* x */")).unwrap();
    }
    let mut console = watched.console_by_port("").unwrap();
    let digest = console.query("SHOW FULL DIGESTS WHERE text = 'select ? from t'").unwrap();
    assert_eq!(digest.len(), 1, "{digest:?}");
    assert_eq!(digest[0][1..5], ["SELECT ? FROM t", "5", "0", "5"]);
    let clients = console.query("show full clients").unwrap();
    assert_eq!((clients.len(), &*clients[0][1], &*clients[0][4]), (1, "app", "pooled"));
    assert_eq!(one(&mut console, "SELECT 1"), "1");
    let servers = console.query("SELECT * FROM servers WHERE running = 0").unwrap();
    assert_eq!((&*servers[0][0], &*servers[0][2]), ("main", "up"));
    assert_eq!(console.query("SHOW WORKERS ORDER BY worker DESC LIMIT 1").unwrap()[0][0], "1");
    let statements = console.query("SHOW STATS LIKE 'statements'").unwrap();
    assert_eq!(statements, [["statements", "6"]]);
    for table in [
        "POOLS",
        "GATES",
        "PINS",
        "CHECKS",
        "CONFIG",
        "CLASSES",
        "PROCESSLIST",
        "USERS",
        "LISTENERS",
        "MEMORY",
        "BACKENDS",
    ] {
        assert!(!console.query(&format!("SHOW {table}")).unwrap().is_empty(), "{table}");
    }
    assert!(console.query("HELP").unwrap().len() > 20);
    drop((client, console));
    watched.scene.end_with_backends(6);
}

#[test]
fn errors_say_what_there_is_instead() {
    let watched = Watched::start("");
    let mut console = watched.console();
    for (text, code, says) in [
        ("SHOW NOTHING", 1146, "SERVERS"),
        ("SHOW CLIENTS WHERE size = 1", 1054, "user"),
        ("DROP TABLE x", 1064, "HELP"),
        ("PAUSE other", 1105, "main"),
        ("KILL 7", 1094, "SHOW CLIENTS"),
        ("SET limits.wait = 1", 1105, "unit"),
        ("SET limits.weight = 1", 1105, "limits.wait"),
        ("SET workers = 1", 1105, "started"),
        ("SET server.limit = 0", 1105, "auto"),
        ("SELECT @@nothing", 1193, "nothing"),
    ] {
        let Problem::Refused { code: got, message, .. } = console.query(text).unwrap_err() else {
            panic!("{text}")
        };
        assert_eq!(got, code, "{text}: {message}");
        assert!(message.contains(says), "{text}: {message}");
    }
    drop(console);
    watched.scene.end_with_backends(6);
}

#[test]
fn who_has_proved_nothing_only_looks() {
    let watched = Watched::start("");
    let mut console = watched.console_by_port("whatever").unwrap();
    for text in ["PAUSE", "KILL 1", "SET server.limit = 3", "RELOAD", "DISABLE main"] {
        let error = console.query(text).unwrap_err();
        assert!(matches!(error, Problem::Refused { code: 1227, .. }), "{text}: {error:?}");
    }
    drop(console);
    watched.scene.end_with_backends(6);

    let watched = Watched::start_with("", "password = \"open sesame\"", "");
    for wrong in ["guess", ""] {
        let error = watched.console_by_port(wrong).unwrap_err();
        assert!(matches!(error, Problem::Refused { code: 1045, .. }), "{wrong:?}: {error:?}");
    }
    let mut console = watched.console_by_port("open sesame").unwrap();
    assert!(one(&mut console, "SET server.limit = 3").contains("is 3"));
    drop(console);
    watched.scene.end_with_backends(6);
}

#[test]
fn a_paused_server_gets_nothing_new_and_then_everything() {
    let watched = Watched::start("");
    let mut console = watched.console();
    assert!(one(&mut console, "PAUSE").contains("wait"));
    let waiters: Vec<_> = (0..4)
        .map(|_| {
            let mut client = watched.scene.client();
            thread::spawn(move || client.query("SELECT late"))
        })
        .collect();
    wait_for("statements in the queue", || {
        one(&mut console, "SELECT 1");
        console.query("SHOW FULL SERVERS").unwrap()[0][9] == "4"
    });
    thread::sleep(Duration::from_millis(300));
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
    assert_eq!(console.query("SHOW FULL SERVERS").unwrap()[0][2], "paused");
    let states = console.query("SHOW CLIENTS WHERE state = 'queued'").unwrap();
    assert_eq!(states.len(), 4);
    let (_, metrics) = watched.get("/metrics");
    assert!(metrics.contains("flifo_clients{state=\"queued\"} 4\n"), "{metrics}");
    assert!(metrics.contains("flifo_backends_by_state{state=\"busy\"} 0\n"), "{metrics}");
    console.query("RESUME main").unwrap();
    for waiter in waiters {
        assert_eq!(waiter.join().unwrap(), row("late"));
    }
    drop(console);
    watched.scene.end_with_backends(8);
}

#[test]
fn a_reload_says_what_has_changed_and_shows_no_secret() {
    let watched = Watched::start("limit = 8");
    let mut console = watched.console();
    assert_eq!(console.query("RELOAD").unwrap(), Vec::<Vec<String>>::new());
    watched.scene.flifo.change_configuration(|text| {
        let text = text
            .replace("limit = 8", "limit = 9")
            .replace("password = ", "clients_max = 5\npassword = ");
        format!("{text}\n[[users]]\nname = \"report\"\npassword = \"hunter2\"\n")
    });
    let told = console.query("RELOAD").unwrap();
    let clients_max = format!("users.{USER}.clients_max");
    let want = [
        ["server.limit", "8", "9", "now"],
        [&clients_max, "\"none\"", "5", "now"],
        ["users.report", "NULL", "added", "now"],
    ];
    assert_eq!(told, want.map(|row| row.map(str::to_owned).to_vec()));
    assert_eq!(console.query("SHOW FULL SERVERS").unwrap()[0][6], "9");
    watched.scene.flifo.change_configuration(|text| text.replace("limit = 9", "limt = 9"));
    let error = console.query("RELOAD").unwrap_err().to_string();
    assert!(error.contains("nothing has changed") && error.contains("did you mean"), "{error}");
    drop(console);
    watched.scene.end();
}

#[test]
fn a_disabled_server_refuses_and_an_enabled_one_serves() {
    let watched = Watched::start("");
    let mut console = watched.console();
    console.query("DISABLE").unwrap();
    let mut client = watched.scene.client();
    let begun = Instant::now();
    let refusal = client.query("SELECT no").unwrap_err();
    assert_eq!(refusal.code(), 1637);
    assert!(begun.elapsed() < Duration::from_secs(60));
    let (head, body) = watched.get("/ready");
    assert!(head.starts_with("HTTP/1.1 503") && body.contains("maintenance"), "{head}\n{body}");
    let asked = |more: &[&str]| {
        let address = format!("127.0.0.1:{}", watched.http);
        let mut command = Command::new(testkit::flifo::program());
        command.args(["health", "--patience", "5m", "--http", &address]).args(more);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(asked(&[]), (Some(0), String::new()), "its workers answer all the same");
    let (status, said) = asked(&["--ready"]);
    assert!(status == Some(69) && said.contains("maintenance"), "{said}");
    console.query("ENABLE").unwrap();
    assert_eq!(asked(&["--ready"]), (Some(0), String::new()));
    assert_eq!(client.query("SELECT yes"), row("yes"));
    assert!(watched.get("/ready").0.starts_with("HTTP/1.1 200"));
    drop((console, client));
    watched.scene.end_with_backends(6);
}

#[test]
fn a_client_is_killed_wherever_it_is() {
    let watched = Watched::start("");
    let killed = Flag::default();
    let seen = std::sync::Arc::clone(&killed);
    watched.scene.server.answer(move |command| {
        if command.starts_with(b"\x03KILL") {
            seen.store(true, std::sync::atomic::Ordering::SeqCst);
        }
        match command.ends_with(b"long") {
            true => Reply::Err(1317, "Query execution was interrupted").when(&seen),
            false => honest(command),
        }
    });
    let mut console = watched.console();
    let mut client = watched.scene.client();
    let running = thread::spawn(move || (client.query("SELECT long").unwrap_err().code(), client));
    let mut id = String::new();
    wait_for("the statement", || {
        let rows = console.query("SHOW CLIENTS WHERE state = 'running'").unwrap();
        id = rows.first().map(|row| row[0].clone()).unwrap_or_default();
        !id.is_empty()
    });
    console.query(&format!("KILL QUERY {id}")).unwrap();
    let (code, mut client) = running.join().unwrap();
    assert_eq!(code, 1317);
    console.query(&format!("KILL {id}")).unwrap();
    assert!(client.is_closed());
    assert!(console.query("SHOW CLIENTS").unwrap().is_empty());
    drop(console);
    watched.scene.end_with_backends(6);
}

#[test]
fn pages_are_what_their_readers_expect() {
    let watched = Watched::start("limit = 24");
    watched.scene.works();
    let (head, metrics) = watched.get("/metrics");
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("version=0.0.4"), "{head}");
    assert_eq!(view::metrics::faults(&metrics), Vec::<String>::new());
    assert!(metrics.contains("flifo_statements_total 2\n"), "{metrics}");
    assert!(metrics.contains("flifo_statement_run_seconds_count{server=\"main\"} 2\n"));
    let (_, stats) = watched.get("/stats;csv");
    let lines: Vec<_> = stats.lines().collect();
    assert!(lines[0].starts_with("# pxname,svname,qcur,qmax,scur,smax,slim,stot,bin,bout,"));
    assert!(lines[1].starts_with("mysql,FRONTEND,") && lines[1].contains(",OPEN,"));
    assert!(lines[2].starts_with("mysql,main,") && lines[2].contains(",UP,"));
    assert!(lines[3].starts_with("mysql,BACKEND,"));
    assert!(lines.iter().all(|line| line.matches(',').count() == lines[0].matches(',').count()));
    let (_, json) = watched.get("/api/servers?where=state+%3D+'up'");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json[0]["name"], &json[0]["limit"]), (&"main".into(), &24.into()));
    let (_, names) = watched.get("/api");
    for name in serde_json::from_str::<Vec<String>>(&names).unwrap() {
        let (head, body) = watched.get(&format!("/api/{name}"));
        assert!(head.starts_with("HTTP/1.1 200"), "{name}: {head}");
        assert!(serde_json::from_str::<serde_json::Value>(&body).unwrap().is_array(), "{name}");
    }
    assert_eq!(watched.get("/health").1, "ok\n");
    assert!(watched.get("/api/servers?where=size=1").0.starts_with("HTTP/1.1 400"));
    assert!(watched.get("/nothing").0.starts_with("HTTP/1.1 404"));
    watched.scene.end_with_backends(6);
}

#[test]
fn a_token_opens_and_nothing_else() {
    let watched = Watched::start_with("", "", "token = \"s3cret\"");
    let get = |field: &str| {
        let request =
            format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{field}Connection: close\r\n\r\n");
        watched.ask(&request).0
    };
    assert!(get("").starts_with("HTTP/1.1 401"));
    assert!(get("Authorization: Bearer wrong\r\n").starts_with("HTTP/1.1 401"));
    assert!(get("Authorization: Bearer s3cret\r\n").starts_with("HTTP/1.1 200"));
    // A request that only checks whether Flifo is alive needs no secret.
    assert!(watched.get("/health").0.starts_with("HTTP/1.1 200"));
    watched.scene.end_with_backends(6);
}

#[test]
fn hostile_http_costs_nothing() {
    let watched = Watched::start("");
    let long = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "x".repeat(1 << 20));
    let fields = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(100));
    for request in [
        "\0\0\0\0\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\nx",
        "GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
        "GET /api/clients?where=((((((((((( HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        &fields,
        &long,
    ] {
        let mut stream = watched.connect();
        // It may be closed before all has been written.
        let _ = stream.write_all(request.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        let is_refused = answer.is_empty() || answer.starts_with("HTTP/1.1 4");
        assert!(is_refused, "{:?}: {answer}", &request[..20]);
    }
    watched.scene.end_with_backends(6);
}

#[test]
fn a_request_that_does_not_say_for_whom_it_is_is_refused() {
    let watched = Watched::start("");
    for (request, status) in [
        ("GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n", 400),
        ("GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n", 400),
        ("GET /health HTTP/1.0\r\n\r\n", 200),
        (
            "GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            403,
        ),
        (
            "GET http://localhost/metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            200,
        ),
    ] {
        let (head, _) = watched.ask(request);
        assert_eq!(head.split(' ').nth(1), Some(&*status.to_string()), "{request}: {head}");
    }
    watched.scene.end_with_backends(6);
}

/// A client of the HTTP port that reads nothing of many long answers.
fn stuck(port: u16) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&std::net::SocketAddr::from(([127, 0, 0, 1], port)).into()).unwrap();
    let mut stream = TcpStream::from(socket);
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(100);
    // It may be closed again.
    let _ = stream.write_all(request.as_bytes());
    stream
}

#[test]
fn connections_that_ask_nothing_keep_nobody_from_http() {
    let watched = Watched::start("");
    let idle: Vec<_> = (0..300).map(|_| watched.connect()).collect();
    assert_eq!(watched.get("/health").1, "ok\n");
    assert!(watched.get("/metrics").0.starts_with("HTTP/1.1 200"));
    // Clients that ask and do not read keep their places; `/health` is answered all the same.
    let mut crowd: Vec<_> = (0..64).map(|_| stuck(watched.http)).collect();
    wait_for("all places to be taken", || {
        crowd.push(stuck(watched.http));
        watched.get("/metrics").0.starts_with("HTTP/1.1 503")
    });
    for _ in 0..100 {
        assert_eq!(watched.get("/health").1, "ok\n");
        assert!(watched.get("/ready").0.starts_with("HTTP/1.1 200"));
    }
    drop((idle, crowd));
    wait_for("places", || watched.get("/metrics").0.starts_with("HTTP/1.1 200"));
    watched.scene.end_with_backends(6);
}

#[test]
fn idle_clients_of_the_console_give_up_their_places() {
    let watched = Watched::start_with("", "password = \"open sesame\"", "");
    // By the socket: the one that is idle longest goes, and is told.
    let mut crowd: Vec<_> = (0..32).map(|_| watched.console()).collect();
    assert!(crowd[0].query("SHOW WORKERS").is_ok());
    let mut administrator = watched.console();
    assert!(administrator.query("SHOW WORKERS").is_ok());
    assert!(crowd[1].query("SHOW WORKERS").is_err());
    assert!(crowd[0].query("SHOW WORKERS").is_ok());
    // By the port: a client that has not proved the password takes no place of one that has.
    let mut by_port = watched.console_by_port("open sesame").unwrap();
    let strangers: Vec<_> =
        (0..100).map(|_| TcpStream::connect(("127.0.0.1", watched.console)).unwrap()).collect();
    assert!(watched.console_by_port("open sesame").unwrap().query("SHOW WORKERS").is_ok());
    assert!(by_port.query("SHOW WORKERS").is_ok());
    assert!(administrator.query("RESUME").is_ok());
    drop((crowd, strangers, by_port, administrator));
    watched.scene.end_with_backends(6);
}

#[test]
fn hostile_visitors_of_the_console_are_sent_away() {
    let watched = Watched::start("");
    let greeted = || {
        let mut stream = TcpStream::connect(("127.0.0.1", watched.console)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut greeting = [0; 4];
        stream.read_exact(&mut greeting).unwrap();
        stream
    };
    for bytes in [&b"\xff\xff\xff\x01"[..], b"\0\0\0\x01", b"\x03\0\0\x07abc", b"\x20\0\0\x01"] {
        let mut stream = greeted();
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        // Reset or ended: both are an end.
        let _ = stream.read_to_end(&mut rest);
    }
    let mut console = watched.console();
    let long = format!("SHOW CLIENTS WHERE user = '{}'", "x".repeat(70_000));
    assert!(console.query(&long).is_err());
    watched.scene.end_with_backends(6);
}

/// Makes a certificate that is its own authority, for this machine.
fn certificate(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (folder.join(format!("{name}.pem")), folder.join(format!("{name}-key.pem")));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    (cert, key)
}

#[test]
fn the_console_speaks_tls_with_clients_who_look_at_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = certificate(folder.path(), "flifo");
    let (other, _) = certificate(folder.path(), "other");
    let watched = Watched::start_with(
        &format!("[tls]\ncert = {cert:?}\nkey = {key:?}\n"),
        "password = \"s3cret\"",
        "",
    );
    let asked = "SHOW FULL SERVERS WHERE name = 'main'; PAUSE; RESUME";
    let mariadb = |ca: &Path, password: &str| {
        let mut client = Command::new(MARIADB.find().unwrap());
        client.args(["--no-defaults", "--batch", "--protocol=tcp", "--host=localhost"]);
        client.args(["--ssl", "--ssl-verify-server-cert", "--user=admin"]);
        client.arg(format!("--ssl-ca={}", ca.display()));
        client.arg(format!("--port={}", watched.console)).arg(format!("--password={password}"));
        let output = client.args(["--execute", asked]).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    };
    let (is_well, said, error) = mariadb(&cert, "s3cret");
    assert!(is_well && said.contains("\nmain\t127.0.0.1:"), "{said} {error}");
    let (is_well, _, error) = mariadb(&other, "s3cret");
    assert!(!is_well && error.to_lowercase().contains("certificate"), "{error}");
    let (is_well, _, error) = mariadb(&cert, "guess");
    assert!(!is_well && error.contains("1045"), "{error}");
    for (ca, is_trusted) in [(&cert, true), (&other, false)] {
        let address = format!("127.0.0.1:{}", watched.console).parse().unwrap();
        let tls = ForBackends { mode: Mode::VerifyFull, ca: Some(ca.clone()), identity: None };
        let client = Client::builder(address, "admin", "s3cret").tls_with(&tls).connect();
        assert_eq!(client.is_ok_and(|mut it| it.query("SHOW WORKERS").is_ok()), is_trusted);
    }
    watched.scene.end_with_backends(6);
}

#[test]
fn where_clients_must_use_tls_so_must_those_of_the_console() {
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = certificate(folder.path(), "flifo");
    let (console, socket) = (free_port(), folder.path().join("console.sock"));
    let rest = format!(
        "[server]\naddress = \"127.0.0.1:{}\"\n[console]\nlisten = [\"127.0.0.1:{console}\", \
         {socket:?}]\n[http]\nlisten = []\n[tls]\nmode = \"required\"\ncert = {cert:?}\nkey = {key:?}\n{}",
        free_port(),
        user("")
    );
    let flifo = testkit::flifo::Flifo::start(&rest);
    let address: Address = format!("127.0.0.1:{console}").parse().unwrap();
    let session = |address: &Address| Client::builder(address.clone(), "anybody", "");
    let error = session(&address).connect().unwrap_err();
    assert!(matches!(error, Problem::Refused { code: 3159, .. }), "{error:?}");
    let tls = ForBackends { mode: Mode::VerifyFull, ca: Some(cert), identity: None };
    for session in [session(&address).tls_with(&tls), session(&Address::Unix(socket))] {
        assert!(session.connect().unwrap().query("SHOW WORKERS").is_ok());
    }
    let (ended, log) = flifo.stop();
    assert!(ended.success(), "{log}");
}

#[test]
fn it_is_ready_again_when_its_server_is() {
    let port = free_port();
    let (console, http) = (free_port(), free_port());
    let rest = format!(
        "[server]\naddress = \"127.0.0.1:{port}\"\n[console]\nlisten = \"127.0.0.1:{console}\"\n\
         [http]\nlisten = \"127.0.0.1:{http}\"\n{}",
        user("")
    );
    let flifo = testkit::flifo::Flifo::start(&rest);
    let status = || {
        let mut stream = TcpStream::connect(("127.0.0.1", http)).unwrap();
        let request = b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let down = status();
    assert!(down.starts_with("HTTP/1.1 503") && down.contains("down"), "{down}");
    let server = FakeServer::start_at(Brand::MariaDb, port);
    wait_for("readiness", || status().starts_with("HTTP/1.1 200"));
    drop(server);
    let (ended, log) = flifo.stop();
    assert!(ended.success(), "{log}");
}

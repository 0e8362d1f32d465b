//! From start to stop, and what happens to Flifo, its server and its machine in between.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use bench::private_server::PrivateServer;
use rustix::process::{Pid, Signal, kill_process};
use testkit::fake_client::{FakeClient, Refusal};
use testkit::fake_server::FakeServer;
use testkit::flifo::Flifo;
use testkit::overdue::Over;
use testkit::reply::{Flag, Reply, honest};
use testkit::scene::{PASSWORD, Scene, USER, configuration, row, user, wait_for};
use wire::response::Status;

/// A stop is noticed by a machine that may be busy.
const LATE: Duration = Duration::from_secs(6);

#[test]
fn asked_to_stop_it_lets_statements_and_transactions_finish() {
    for mut scene in [Scene::pooled(""), Scene::pass_through("")] {
        let done = Flag::default();
        let flag = Flag::clone(&done);
        scene.server.answer(move |command| match command {
            b"\x03BEGIN" | b"\x03UPDATE" => Reply::Status(Status(0x0003)),
            b"\x03SELECT long" => honest(command).when(&flag),
            _ => honest(command),
        });
        let (mut idle, mut busy, mut within) = (scene.client(), scene.client(), scene.client());
        assert_eq!(within.query("BEGIN"), Ok(vec![]));
        busy.send_packet(0, b"\x03SELECT long");
        wait_for("the statement", || scene.server.received(b"SELECT long") == 1);
        scene.flifo.ask_to_stop();
        // An idle client is told, and its connection is closed.
        assert_eq!(idle.read_payload().unwrap_err().code(), 1053);
        assert_eq!(idle.read_payload(), Err(Refusal::Closed), "told once");
        // A new client is refused, by an error or because the port is closed.
        wait_for("new clients to be refused", || {
            match TcpStream::connect(("127.0.0.1", scene.flifo.port())) {
                Ok(stream) => {
                    let login = FakeClient::over(stream).log_in(USER, PASSWORD);
                    login.is_err_and(|end| matches!(end.code(), 0 | 1053))
                }
                Err(_) => true,
            }
        });
        // A client within a transaction or a statement finishes it.
        assert_eq!(within.query("UPDATE"), Ok(vec![]));
        assert_eq!(within.query("COMMIT"), Ok(vec![]));
        assert!(!scene.flifo.has_ended());
        done.store(true, SeqCst);
        assert_eq!(busy.read_answer(), row("long"));
        wait_for("the end", || scene.flifo.has_ended());
        let (status, log) = scene.flifo.stop();
        assert!(status.success() && !log.contains("panicked"), "{log}");
        assert!(!log.contains("did not finish in time"), "{log}");
    }
}

#[test]
fn asked_to_stop_it_serves_those_who_are_in_line() {
    let mut scene = Scene::pooled("limit = 1\nconnections_max = 1\n");
    let done = Flag::default();
    let flag = Flag::clone(&done);
    scene.server.answer(move |command| match command {
        b"\x03SELECT long" => honest(command).when(&flag),
        _ => honest(command),
    });
    let (mut one, mut other) = (scene.client(), scene.client());
    one.send_packet(0, b"\x03SELECT long");
    wait_for("the statement", || scene.server.received(b"SELECT long") == 1);
    other.send_packet(0, b"\x03SELECT other");
    // This client has sent its command later than the others: when it is answered, theirs were read.
    assert_eq!(scene.client().command(b"\x0e"), Ok(vec![]));
    let opened = scene.server.opened();
    scene.flifo.ask_to_stop();
    done.store(true, SeqCst);
    assert_eq!(one.read_answer(), row("long"));
    assert_eq!(other.read_answer(), row("other"));
    wait_for("the end", || scene.flifo.has_ended());
    assert!(scene.server.opened() <= opened + 1, "backend connections were opened to be closed");
}

#[test]
fn asked_to_stop_it_waits_so_long_and_no_longer() {
    for mut scene in
        [Scene::pooled, Scene::pass_through].map(|start| start("[limits]\nstop = \"500ms\"\n"))
    {
        scene.server.answer(|command| match command {
            b"\x03SELECT never" => Reply::Silence,
            b"\x03BEGIN" => Reply::Status(Status(0x0003)),
            _ => honest(command),
        });
        let (mut stuck, mut within) = (scene.client(), scene.client());
        stuck.send_packet(0, b"\x03SELECT never");
        assert_eq!(within.query("BEGIN"), Ok(vec![]));
        // One that never logs in, and one that does not even listen.
        let mute = FakeClient::connect(scene.flifo.port());
        scene.flifo.ask_to_stop();
        let begun = Instant::now();
        wait_for("the end", || scene.flifo.has_ended());
        let took = begun.elapsed();
        assert!(took >= Duration::from_millis(450) && took < LATE, "{took:?}");
        assert_eq!(stuck.read_answer(), Err(Refusal::Closed));
        drop((mute, within));
        let (status, log) = scene.flifo.stop();
        assert!(status.success() && !log.contains("panicked"), "{log}");
        assert!(log.contains("did not finish in time"), "{log}");
    }
}

/// Flifo before a real server, and its clients' password.
fn before(server: &PrivateServer, limits: &str) -> (Flifo, String) {
    let flifo = Flifo::start(&format!(
        "[server]\naddress = \"{}\"\nlimit = 4\nconnections_max = 4\n{limits}\n\
         [[users]]\nname = \"{}\"\npassword = \"{}\"\n",
        server.socket().display(),
        PrivateServer::USER,
        server.password()
    ));
    (flifo, server.password().to_owned())
}

/// Whether every thread of a process is stopped.
fn has_paused(pid: Pid) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()));
    tasks.expect("it lives").all(|task| {
        let status = std::fs::read_to_string(task.expect("a task").path().join("status"));
        status.is_ok_and(|status| status.contains("\nState:\tT "))
    })
}

#[test]
fn a_server_that_pauses_is_waited_for() {
    let server = PrivateServer::start_default().expect("a private server");
    let (flifo, password) = before(&server, "[limits]\nwait = \"500ms\"\nconnect = \"500ms\"\n");
    let login = || FakeClient::login(flifo.port(), PrivateServer::USER, &password);
    let mut running: Vec<_> = (0..4).map(|_| login().unwrap()).collect();
    // At the same time, so that each has a backend.
    for client in &mut running {
        client.send_packet(0, b"\x03SELECT SLEEP(0.3)");
    }
    for client in &mut running {
        assert_eq!(client.read_answer(), row("0"));
    }
    let pid = Pid::from_raw(server.pid().unwrap() as i32).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    // A thread on another core may run on for a moment, and answer.
    wait_for("all of the server's threads to pause", || has_paused(pid));
    for client in &mut running {
        client.send_packet(0, b"\x03SELECT 2");
    }
    // All slots are taken by those: the next one waits, and is told so in time.
    let refused = login().unwrap().query("SELECT 3").unwrap_err();
    assert_eq!(refused.code(), 1637, "{refused:?}");
    kill_process(pid, Signal::CONT).unwrap();
    for client in &mut running {
        assert_eq!(client.read_answer(), row("2"));
        assert_eq!(client.query("SELECT 4"), row("4"));
    }
    let (status, log) = flifo.stop();
    assert!(status.success() && !log.contains("panicked"), "{log}");
}

/// A long transaction is undone in minutes. Its locks are there until then, and its client is told nothing before.
#[test]
fn a_reset_takes_as_long_as_the_server_needs() {
    let server = PrivateServer::start_default().expect("a private server");
    let (flifo, password) = before(&server, "[checks]\nkind = \"none\"\n");
    let login = || FakeClient::login(flifo.port(), PrivateServer::USER, &password);
    let mut client = login().unwrap();
    client.query("SELECT GET_LOCK('long', 1)").unwrap();
    let pid = Pid::from_raw(server.pid().unwrap() as i32).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    wait_for("all of the server's threads to pause", || has_paused(pid));
    client.send_packet(0, &[0x1f]);
    let (tell, told) = channel();
    let waits = thread::spawn(move || {
        let answer = client.read_answer();
        let _ = tell.send(());
        (client, answer)
    });
    // A command for which no client waits has ten seconds.
    let early = told.recv_timeout(Duration::from_secs(13));
    kill_process(pid, Signal::CONT).unwrap();
    assert_eq!(early, Err(RecvTimeoutError::Timeout), "the server has not answered");
    let (mut client, answer) = waits.join().unwrap();
    assert_eq!(answer, Ok(vec![]));
    assert_eq!(login().unwrap().query("SELECT IS_FREE_LOCK('long')"), row("1"));
    assert_eq!(client.query("SELECT 4"), row("4"));
    let (status, log) = flifo.stop();
    assert!(status.success() && !log.contains("panicked"), "{log}");
}

#[test]
fn a_server_that_is_killed_and_started_again_is_used_again_by_all() {
    let mut server = PrivateServer::start_default().expect("a private server");
    let (flifo, password) = before(&server, "");
    let (stop, lost, right) = (AtomicBool::new(false), AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        let _over = Over(&stop);
        for number in 0..16 {
            let (stop, lost, right, password) = (&stop, &lost, &right, &password);
            let flifo = &flifo;
            scope.spawn(move || {
                let login = || FakeClient::login(flifo.port(), PrivateServer::USER, password);
                let mut client = login().unwrap();
                while !stop.load(SeqCst) {
                    match client.query(&format!("SELECT {number}")) {
                        Ok(rows) => {
                            assert_eq!(rows, row(&number.to_string()).unwrap());
                            right.fetch_add(1, SeqCst);
                        }
                        // A pooled client keeps its connection whatever becomes of the server.
                        Err(Refusal::Error { code: 1429 | 1430, .. }) => {
                            lost.fetch_add(1, SeqCst);
                            thread::sleep(Duration::from_millis(10));
                        }
                        Err(other) => panic!("{other:?}"),
                    }
                    thread::sleep(Duration::from_millis(1));
                }
                // To the last one.
                assert_eq!(client.query("SELECT 'on'"), row("on"));
            });
        }
        for _ in 0..2 {
            let before = right.load(SeqCst);
            wait_for("statements to run", || right.load(SeqCst) > before + 100);
            let before = lost.load(SeqCst);
            server.kill().unwrap();
            wait_for("clients to be told", || lost.load(SeqCst) > before + 16);
            server.start().unwrap();
        }
        let before = right.load(SeqCst);
        wait_for("statements to run again", || right.load(SeqCst) > before + 100);
        stop.store(true, SeqCst);
    });
    let (status, log) = flifo.stop();
    assert!(status.success() && !log.contains("panicked"), "{log}");
}

#[test]
fn out_of_descriptors_it_serves_those_it_has() {
    let scene = Scene::pooled("connections_max = 2\nlimit = 2\n").witnessed();
    let mut clients: Vec<_> = (0..5).map(|_| scene.client()).collect();
    scene.flifo.limit_descriptors(scene.flifo.descriptors() as u64 + 10);
    // More than there are places: the last ones are connected by the kernel, and wait.
    let waiting: Vec<_> = (0..30).map(|_| FakeClient::connect(scene.flifo.port())).collect();
    wait_for("the last place to be taken", || scene.flifo.log().contains("could not be accepted"));
    for client in &mut clients {
        assert_eq!(client.query("SELECT in"), row("in"));
    }
    drop(waiting);
    wait_for("places", || {
        let mut client = FakeClient::connect(scene.flifo.port());
        client.log_in(USER, PASSWORD).is_ok()
    });
    drop(clients);
    scene.end();
}

#[test]
fn clients_leave_descriptors_to_backends_and_administration() {
    let server = FakeServer::start();
    let (console, http) = (testkit::flifo::free_port(), testkit::flifo::free_port());
    let rest = format!(
        "{}\n[console]\nlisten = \"127.0.0.1:{console}\"\n[http]\nlisten = \"127.0.0.1:{http}\"\n",
        user("")
    );
    let rest = configuration(server.port(), "workers = 1", &rest);
    server.answer(|command| match command {
        b"\x03BEGIN" => Reply::Status(Status(0x0003)),
        _ => honest(command),
    });
    let flifo = Flifo::start_with_descriptors("-n 64", &rest);
    let mut clients = Vec::new();
    let refusal = loop {
        match FakeClient::login(flifo.port(), USER, PASSWORD) {
            Ok(client) => clients.push(client),
            Err(refusal) => break refusal,
        }
        assert!(clients.len() < 64);
    };
    let Refusal::Error { code: 1040, message } = refusal else { panic!("{refusal:?}") };
    assert!(message.contains("may open 64 files") && clients.len() >= 4, "{message}");
    // Each client that is in gets a backend, at the same time.
    for client in &mut clients {
        assert_eq!(client.query("BEGIN"), Ok(vec![]));
    }
    for client in &mut clients {
        assert_eq!(client.query("SELECT in"), row("in"));
    }
    let address = backend::Address::Tcp { host: "127.0.0.1".to_owned(), port: console };
    let console = testkit::client::Client::builder(address, "anybody", "").connect();
    assert!(console.unwrap().query("SHOW WORKERS").is_ok());
    let mut health = TcpStream::connect(("127.0.0.1", http)).unwrap();
    let request = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    std::io::Write::write_all(&mut health, request).unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut health, &mut answer).unwrap();
    assert!(answer.ends_with("ok\n"), "{answer}");
    clients.pop();
    wait_for("a place", || FakeClient::login(flifo.port(), USER, PASSWORD).is_ok());
    let (status, log) = flifo.stop();
    assert!(status.success() && log.contains("need more open files"), "{log}");
}

#[test]
fn the_soft_limit_of_descriptors_is_raised_to_the_hard_one() {
    let server = FakeServer::start();
    let rest = configuration(server.port(), "workers = 1\nclients_max = 100", &user(""));
    let flifo = Flifo::start_with_descriptors("-Sn 64", &rest);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", flifo.pid())).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let numbers: Vec<_> = line.unwrap().split_whitespace().collect();
    assert_eq!(numbers[0], numbers[1], "{limits}");
}

#[test]
fn a_log_that_cannot_be_written_does_no_harm() {
    let server = FakeServer::start();
    let rest = format!("[logs]\nlevel = \"debug\"\n{}", user(""));
    let flifo = Flifo::start_on_full_disk(&configuration(server.port(), "workers = 1", &rest));
    let mut client = FakeClient::login(flifo.port(), USER, PASSWORD).unwrap();
    // Each wrong password is worth a line; more of them are answered later and later.
    for number in 0..8 {
        assert_eq!(
            FakeClient::login(flifo.port(), USER, "wrong").map(|_| ()).unwrap_err().code(),
            1045
        );
        assert_eq!(client.query(&format!("SELECT {number}")), row(&number.to_string()));
        server.hang_up();
        // The backend is lost each time, at once or while it is being used.
        let again = client.query("SELECT again");
        assert!(again == row("again") || again.as_ref().unwrap_err().code() == 1430, "{again:?}");
    }
    let (status, _) = flifo.stop();
    assert!(status.success());
}

#[test]
fn a_log_that_was_renamed_goes_on_under_its_name() {
    let server = FakeServer::start();
    let folder = tempfile::tempdir().unwrap();
    let (path, old) = (folder.path().join("log"), folder.path().join("log.1"));
    let rest = format!("[logs]\nfile = {path:?}\n{}", user(""));
    let flifo = Flifo::start(&configuration(server.port(), "workers = 1", &rest));
    let mut client = FakeClient::login(flifo.port(), USER, PASSWORD).unwrap();
    assert!(FakeClient::login(flifo.port(), USER, "wrong").is_err());
    wait_for("its line", || {
        std::fs::read_to_string(&path).unwrap().contains("a login was refused")
    });
    std::fs::rename(&path, &old).unwrap();
    flifo.ask_to_reopen();
    wait_for("the new file", || path.exists());
    // A connected client notices nothing.
    assert_eq!(client.query("SELECT on"), row("on"));
    let (status, _) = flifo.stop();
    assert!(status.success());
    let [before, after] = [old, path].map(|path| std::fs::read_to_string(path).unwrap());
    assert!(before.contains("a login was refused") && !before.contains("stopping"), "{before}");
    assert!(after.contains("stopping") && !after.contains("a login was refused"), "{after}");
}

#[test]
fn no_signal_ends_it_but_those_that_ask_it_to_stop() {
    for last in [Signal::TERM, Signal::INT, Signal::QUIT] {
        let mut scene = Scene::pooled("");
        let mut client = scene.client();
        let others = [Signal::ALARM, Signal::VTALARM, Signal::PROF, Signal::IO, Signal::POWER];
        for signal in others.into_iter().chain([Signal::PIPE, Signal::XFSZ]) {
            scene.flifo.signal(signal);
        }
        for (signal, line) in [
            (Signal::HUP, "SIGHUP: there is nothing to reopen"),
            (Signal::USR1, "SIGUSR1: nothing is done"),
            (Signal::USR2, "SIGUSR2: nothing is done"),
        ] {
            scene.flifo.signal(signal);
            wait_for(line, || scene.flifo.log().contains(line) || scene.flifo.has_ended());
            assert_eq!(client.query("SELECT on"), row("on"), "{line}");
        }
        drop(client);
        scene.flifo.signal(last);
        wait_for("the end", || scene.flifo.has_ended());
        let (status, log) = scene.flifo.stop();
        assert!(status.success() && log.contains("stopping"), "{status:?}: {log}");
    }
}

#[test]
fn the_first_line_says_what_runs() {
    let mut scene = Scene::pooled("limit = 7\n");
    let pid = scene.flifo.pid();
    scene.works();
    scene.flifo.ask_to_stop();
    wait_for("the end", || scene.flifo.has_ended());
    let (_, log) = scene.flifo.stop();
    let line = log.lines().find(|line| line.contains("\"Flifo serves\""));
    let line: serde_json::Value = serde_json::from_str(line.expect(&log)).unwrap();
    assert_eq!((&line["pid"], &line["workers"]), (&pid.into(), &1.into()), "{line}");
    let server = format!("127.0.0.1:{} (limit 7)", scene.server.port());
    assert_eq!(line["servers"], server.as_str(), "{line}");
    assert!(line["listen"].as_str().unwrap().starts_with("127.0.0.1:"), "{line}");
    assert!(line["version"].is_string() && line["http"] == "", "{line}");
}

#[test]
fn equal_lines_of_the_log_are_bounded_and_counted() {
    let server = FakeServer::start();
    let flifo = Flifo::start(&configuration(server.port(), "workers = 1", &user("")));
    let mut clients: Vec<_> =
        (0..8).map(|_| FakeClient::login(flifo.port(), USER, PASSWORD).unwrap()).collect();
    drop(server);
    // Each of these statements wants a backend, and there is none.
    for _ in 0..100 {
        for client in &mut clients {
            assert!(client.query("SELECT 1").is_err());
        }
    }
    wait_for("the summary", || flifo.log().contains("more lines like: no backend connection"));
    let (status, log) = flifo.stop();
    assert!(status.success(), "{log}");
    let lines: Vec<serde_json::Value> =
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let said = |start: &str| {
        let begins = |it: &str| it.starts_with(start);
        let is_one = |line: &&serde_json::Value| {
            line["level"] == "WARN" && line["message"].as_str().is_some_and(begins)
        };
        lines.iter().filter(is_one).collect::<Vec<_>>()
    };
    let counts = said("more lines like: no backend connection");
    let counted: u64 = counts.iter().map(|line| line["more"].as_u64().unwrap()).sum();
    let single = said("no backend connection").len() as u64;
    assert!(single <= 100 && single + counted >= 400, "{single} lines, {counted} counted: {log}");
}

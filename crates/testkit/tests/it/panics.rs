//! Panics, planted at every step of the road and beside it: a client and a backend end by it, or the process does;
//! everybody else goes on, and what was held is given back.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use testkit::fake_client::{FakeClient, Refusal};
use testkit::fake_server::{Brand, FakeServer};
use testkit::flifo::{Flifo, free_port, program};
use testkit::reply::{Flag, honest};
use testkit::scene::{PASSWORD, USER, configuration, row, user, wait_for};

/// Passed while a client logs in, asks and leaves.
const BEFORE: [&str; 11] = [
    "login", "enter", "wait", "read", "command", "intent", "gate", "plan", "launch", "fly", "send",
];

/// Passed while a reply comes.
const BEHIND: [&str; 7] = ["reply", "learn", "end", "leave", "pipelining", "settled", "out"];

/// Passed when something ends, or waits.
const ASIDE: [&str; 7] = ["queue", "begin", "gone", "lost", "open", "age", "console"];

/// What cannot be done without: the process ends.
const VITAL: [&str; 6] = ["tick", "suits", "recovery", "check", "placement", "vanished"];

/// On threads and ports of their own.
const ELSEWHERE: [&str; 3] = ["http", "query", "mirror"];

struct Scene {
    server: FakeServer,
    flifo: Flifo,
    http: u16,
    file: PathBuf,
    _folder: tempfile::TempDir,
    panics: u32,
}

impl Scene {
    /// One slot and one backend: were either lost, nothing would go on.
    fn start(top: &str, rest: &str) -> Self {
        let server = FakeServer::start_as(Brand::MariaDb);
        let folder = tempfile::tempdir().expect("a folder");
        let (file, http) = (folder.path().join("panic-at"), free_port());
        let console = folder.path().join("console.sock");
        let rest = format!(
            "limit = 1\nconnections_max = 1\n[console]\nlisten = [{console:?}]\n\
             [http]\nlisten = [\"127.0.0.1:{http}\"]\n[hardening]\nsandbox = \"off\"\n{rest}\n{}",
            user("")
        );
        let start = || {
            let mut command = Command::new(program());
            command.env("FLIFO_PANIC_AT", &file);
            command
        };
        let top = format!("workers = 1\n{top}");
        let flifo = Flifo::start_by(start, &configuration(server.port(), &top, &rest));
        Self { server, flifo, http, file, _folder: folder, panics: 0 }
    }

    fn plant(&self, step: &str) {
        // At once, or a thread could read the half of it.
        let made = self.file.with_extension("new");
        std::fs::write(&made, step).expect("it is written");
        std::fs::rename(made, &self.file).expect("it is there");
    }

    fn is_planted(&self) -> bool {
        self.file.exists()
    }

    fn client(&self) -> FakeClient {
        FakeClient::login(self.flifo.port(), USER, PASSWORD).expect("a login")
    }

    fn health(&self) -> String {
        self.get("/health")
    }

    /// What is answered. Nothing, if the connection was lost.
    fn get(&self, path: &str) -> String {
        let mut answer = String::new();
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.http)) {
            let request =
                format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
            let asked = stream.write_all(request.as_bytes());
            let _ = asked.and_then(|()| stream.read_to_string(&mut answer));
        }
        answer
    }

    /// It has come to the panic: it is counted and told, and a new client is served with the slot and the backend.
    fn recovers(&mut self, step: &str) {
        wait_for(step, || !self.is_planted());
        self.panics += 1;
        let told = format!("panics: {},", self.panics);
        wait_for(&format!("{step} in /health"), || self.health().contains(&told));
        assert_eq!(self.client().query("SELECT on"), row("on"), "{step}");
    }

    fn end(self) {
        wait_for("all clients to be gone", || self.health().contains("200 OK"));
        let (status, log) = self.flifo.stop();
        assert!(status.success(), "{log}");
        let lines: Vec<_> = log.lines().filter(|line| line.contains("panicked")).collect();
        assert_eq!(lines.len(), self.panics as usize, "{log}");
        for line in lines {
            assert!(line.contains("ERROR") && line.contains(".rs:"), "{line}");
        }
    }
}

#[test]
fn a_panic_at_a_step_of_the_road_ends_one_client_and_gives_back_what_it_held() {
    let mut scene = Scene::start("", "");
    let mut bystander = scene.client();
    assert_eq!(bystander.query("SELECT before"), row("before"));
    let descriptors = scene.flifo.descriptors();
    for step in BEFORE.iter().chain(&BEHIND) {
        scene.plant(step);
        let login = FakeClient::login(scene.flifo.port(), USER, PASSWORD);
        // It may be answered before the panic.
        let _ = login.and_then(|mut victim| victim.query("SELECT victim"));
        scene.recovers(step);
        assert_eq!(bystander.query("SELECT beside"), row("beside"), "{step}");
    }
    drop(bystander);
    wait_for("descriptors to be given back", || scene.flifo.descriptors() <= descriptors);
    scene.end();
}

#[test]
fn a_client_that_waits_is_served_behind_a_panic() {
    let mut scene = Scene::start("", "");
    for step in BEHIND.iter().chain(&["begin", "gone", "lost"]) {
        let flag = Flag::default();
        let done = Arc::clone(&flag);
        scene.server.answer(move |command| match command.ends_with(b"long") {
            true => honest(command).when(&done),
            false => honest(command),
        });
        let before = scene.server.received(b"\x03SELECT long");
        let (mut victim, mut waiter) = (scene.client(), scene.client());
        victim.send_packet(0, b"\x03SELECT long");
        wait_for("it runs", || scene.server.received(b"\x03SELECT long") > before);
        waiter.send_packet(0, b"\x03SELECT waits");
        // It has come to the queue when one behind it has been answered.
        let mut other = scene.client();
        assert!(other.command(b"\x0e").is_ok(), "a ping");
        scene.plant(step);
        match *step {
            "gone" => drop(victim),
            "lost" => scene.server.hang_up(),
            _ => {}
        }
        flag.store(true, SeqCst);
        scene.recovers(step);
        let answer = waiter.read_answer();
        let is_told = matches!(&answer, Err(Refusal::Error { code: 1430, .. }));
        // Its statement was what the panic was about, or runs on the backend that ends by it.
        let may_end = ["begin", "pipelining", "settled", "out"].contains(step);
        assert!(
            answer == row("waits") || may_end && (is_told || *step == "begin"),
            "{step}: {answer:?}"
        );
    }
    scene.end();
}

#[test]
fn a_panic_beside_the_road_is_told_and_nothing_else_ends() {
    let mut scene = Scene::start("", "");
    let mut bystander = scene.client();
    assert_eq!(bystander.query("SELECT before"), row("before"));
    for step in ["queue", "open", "console", "http", "query"] {
        let flag = Flag::default();
        let done = Arc::clone(&flag);
        scene.server.answer(move |command| match command.ends_with(b"long") {
            true => honest(command).when(&done),
            false => honest(command),
        });
        match step {
            "queue" => {
                let (mut other, mut victim) = (scene.client(), scene.client());
                other.send_packet(0, b"\x03SELECT long");
                wait_for("it runs", || scene.server.received(b"SELECT long") == 1);
                scene.plant(step);
                victim.send_packet(0, b"\x03SELECT victim");
                wait_for(step, || !scene.is_planted());
                flag.store(true, SeqCst);
                assert_eq!(other.read_answer(), row("long"));
            }
            "open" => {
                scene.plant(step);
                scene.server.hang_up();
                wait_for(step, || {
                    let _ = scene.client().query("SELECT victim");
                    !scene.is_planted()
                });
                wait_for("it is opened again", || scene.client().query("SELECT on").is_ok());
            }
            "console" => {
                scene.plant(step);
                let at = backend::Address::Unix(scene.file.with_file_name("console.sock"));
                let console = testkit::client::Client::builder(at, "admin", "").connect();
                console
                    .expect("a login")
                    .query("SHOW STATS")
                    .expect_err("this connection has ended");
            }
            "http" => {
                scene.plant(step);
                assert_eq!(scene.health(), "", "this connection has ended");
            }
            _ => {
                scene.plant(step);
                assert!(scene.get("/api/clients?where=1=1").contains(" 500 "));
            }
        }
        scene.recovers(step);
        assert_eq!(bystander.query("SELECT beside"), row("beside"), "{step}");
    }
    scene.end();
}

/// A statement that is to be ended for its age.
#[test]
fn a_panic_while_a_client_is_looked_at_ends_that_client() {
    let mut scene = Scene::start("", "[limits]\nstatement = \"300ms\"\n");
    let mut bystander = scene.client();
    let flag = Flag::default();
    let done = Arc::clone(&flag);
    scene.server.answer(move |command| match command.ends_with(b"long") {
        true => honest(command).when(&done),
        false => honest(command),
    });
    scene.plant("age");
    let mut victim = scene.client();
    victim.send_packet(0, b"\x03SELECT long");
    victim.read_answer().expect_err("it has ended");
    scene.recovers("age");
    assert_eq!(bystander.query("SELECT beside"), row("beside"));
    scene.end();
}

#[test]
fn a_panic_where_a_worker_would_be_in_doubt_ends_the_process() {
    let checks = "[checks]\ninter = \"100ms\"\n[placement]\npolicy = \"observe\"\n";
    for step in VITAL {
        let is_aside = step == "check" || step == "placement";
        let mut scene = Scene::start(if is_aside { checks } else { "" }, "");
        // One that is recovered from, and one while it is.
        scene.plant(if step == "recovery" { "command\nrecovery" } else { step });
        let login = FakeClient::login(scene.flifo.port(), USER, PASSWORD);
        let _ = login.and_then(|mut victim| victim.query("SELECT 1"));
        wait_for(step, || scene.flifo.has_ended());
        let (status, log) = scene.flifo.stop();
        assert_eq!(status.code(), Some(70), "{step}: {log}");
        assert!(log.contains("a supervisor starts it again"), "{step}: {log}");
    }
}

/// A step that no test plants a panic at, or a test of a step that there is no more.
#[test]
fn each_step_is_tried() {
    let tried = BEFORE.iter().chain(&BEHIND).chain(&ASIDE).chain(&VITAL).chain(&ELSEWHERE);
    let tried: BTreeSet<String> = tried.map(|step| (*step).to_owned()).collect();
    let mut there = BTreeSet::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../proxy/src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a source file");
            for at in text.split("step!(\"").skip(1) {
                there.extend(at.split('"').next().map(ToOwned::to_owned));
            }
            // Nothing is spawned whose panic would be swallowed.
            let spawns = ["spawn_local(", "thread::spawn(", "tokio::spawn(", ".spawn(work)"];
            let is_own = path.ends_with("worker/tasks.rs");
            let product = text.split("#[cfg(test)]").next().unwrap_or_default();
            for spawn in spawns.iter().filter(|_| !is_own) {
                assert!(!product.contains(spawn), "{path:?}: {spawn}: use worker::tasks");
            }
        }
    }
    assert_eq!(there, tried);
}

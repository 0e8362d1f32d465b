//! `flifo doctor` from outside: a healthy server under load, planted faults, cures and their
//! undoing.
//!
//! Faults are planted in servers and proxies of the tests' own. Where the machine does not permit
//! one to be planted, the test ends there and says so.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use backend::Address;
use bench::private_server::{Builder, PrivateServer};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sys::cpus::Cpus;
use sys::threads::{Policy, Thread, threads};
use sys::tree::Tree;
use testkit::client::Client;
use testkit::flifo::Flifo;
use testkit::need::Need;
use wire::auth::Plugin;

/// Clients that ask until they are dropped.
struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Stay,
    Reconnect,
}

impl Load {
    fn start(address: &Address, password: &str, count: usize, manner: Manner) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let client = |_| {
            let (stop, address) = (Arc::clone(&stop), address.clone());
            let password = password.to_owned();
            thread::spawn(move || ask(&stop, &address, &password, manner))
        };
        let clients = (0..count).map(client).collect();
        Self { stop, clients }
    }
}

fn ask(stop: &AtomicBool, address: &Address, password: &str, manner: Manner) {
    while !stop.load(Ordering::Relaxed) {
        let client = Client::builder(address.clone(), PrivateServer::USER, password);
        // A server whose queue is full on purpose may refuse.
        let Ok(mut client) = client.plugin(Plugin::NativePassword).connect() else { continue };
        while client.query("SELECT 1").is_ok() {
            if stop.load(Ordering::Relaxed) || manner == Manner::Reconnect {
                break;
            }
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            let _ = client.join();
        }
    }
}

/// What the doctor said.
struct Said {
    code: Option<i32>,
    report: Value,
    complaint: String,
}

impl Said {
    fn verdict(&self, finding: &str) -> &str {
        self.field(finding, "verdict")
    }

    fn field(&self, finding: &str, field: &str) -> &str {
        let all = self.report["findings"].as_array().expect("a list");
        let it = all.iter().find(|it| it["name"] == finding);
        let it = it.unwrap_or_else(|| panic!("no {finding} in {}", self.complaint));
        it[field].as_str().unwrap_or_default()
    }

    fn is(&self, finding: &str, verdict: &str, remedy: &str) {
        let evidence = self.field(finding, "evidence");
        assert_eq!(self.verdict(finding), verdict, "{finding}: {evidence}");
        let told = self.field(finding, "remedy");
        assert!(told.contains(remedy), "{finding}: {told}");
    }
}

fn command(server: &PrivateServer, arguments: &[&str]) -> Command {
    let mut command = Command::new(testkit::flifo::program());
    command.arg("doctor").args(["--user", PrivateServer::ADMIN]).args(arguments);
    command.env("MYSQL_PWD", server.password()).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn said(output: &Output) -> Said {
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = serde_json::from_slice(&output.stdout);
    let report = report.unwrap_or_else(|error| panic!("{error}: {complaint}"));
    Said { code: output.status.code(), report, complaint }
}

fn examine(server: &PrivateServer, arguments: &[&str]) -> Said {
    let socket = server.socket();
    let socket = socket.to_str().expect("text");
    let all = [&["--json", "--server", socket], arguments].concat();
    said(&command(server, &all).output().expect("runs"))
}

fn by_socket(server: &PrivateServer) -> Address {
    Address::Unix(server.socket())
}

fn by_tcp(port: u16) -> Address {
    Address::Tcp { host: "127.0.0.1".to_owned(), port }
}

/// A server as one finds it.
fn ordinary() -> Builder {
    PrivateServer::builder().argument("--max-connections=151").argument("--back-log=80")
}

#[test]
fn an_untouched_server_under_load_has_nothing_bad() {
    let server = ordinary().start().expect("a private server");
    let load = Load::start(&by_socket(&server), server.password(), 4, Manner::Stay);
    let said = examine(&server, &["--watch", "3s"]);
    drop(load);
    let all = said.report["findings"].as_array().expect("a list");
    let bad: Vec<_> = all.iter().filter(|it| it["verdict"] == "bad").collect();
    assert!(bad.is_empty(), "{bad:#?}");
    assert!(matches!(said.code, Some(0 | 1)), "{:?}", said.code);
    // It has seen the load and the settings, and does not only not know.
    for finding in ["starvation", "faults", "thread-cache", "big-buffers", "malloc-environment"] {
        assert_eq!(said.verdict(finding), "ok", "{}", said.field(finding, "evidence"));
    }
}

#[test]
fn planted_settings_are_found_with_their_remedies() {
    let server = PrivateServer::builder()
        .environment("MALLOC_MMAP_THRESHOLD_", "131072")
        .argument("--sort-buffer-size=64M")
        .argument("--thread-cache-size=0")
        .argument("--back-log=5")
        .start()
        .expect("a private server");
    let address = by_tcp(server.port());
    let stay = Load::start(&address, server.password(), 1, Manner::Stay);
    let load = Load::start(&address, server.password(), 3, Manner::Reconnect);
    let socket = server.socket();
    let mut doctor = command(&server, &["--json", "--watch", "5s"]);
    doctor.arg("--server").arg(&socket);
    let doctor = thread::spawn(move || doctor.output());
    // Again and again: when the doctor begins to watch is not told.
    while !doctor.is_finished() {
        overflow(&server);
        thread::sleep(Duration::from_millis(700));
    }
    let said = said(&doctor.join().expect("no panic").expect("runs"));
    drop((load, stay));
    assert_eq!(said.code, Some(2));
    said.is("malloc-environment", "bad", "UnsetEnvironment");
    said.is("big-buffers", "bad", "SET GLOBAL sort_buffer_size");
    said.is("thread-cache", "bad", "SET GLOBAL thread_cache_size");
    said.is("reconnects", "warn", "pool");
    said.is("tcp-local", "warn", socket.to_str().expect("text"));
    said.is("listen-queue", "bad", "back_log");
    // The text says the same, also of what was written down.
    let folder = tempfile::tempdir().expect("a folder");
    let facts = folder.path().join("facts.json");
    let facts = facts.to_str().expect("text");
    examine(&server, &["--watch", "0s", "--save", facts]);
    let output = command(&server, &["--facts", facts]).output().expect("runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("BAD  Settings of the allocator"), "{text}");
    let kept = std::fs::read_to_string(facts).expect("reads");
    assert!(!kept.contains(server.password()) && kept.contains("MALLOC_MMAP_THRESHOLD_"));
}

/// More connections than the server's queue holds, while it does not accept any.
fn overflow(server: &PrivateServer) {
    let pid = server.pid().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)).expect("runs");
    kill_process(pid, Signal::STOP).expect("stops");
    let address = SocketAddr::from(([127, 0, 0, 1], server.port()));
    let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(30));
    let held: Vec<_> = (0..30).map(|_| connect()).collect();
    kill_process(pid, Signal::CONT).expect("goes on");
    assert!(held.iter().any(Result::is_err), "the queue took all of them");
}

/// Flifo in front of a server, and clients behind it.
struct Front {
    server: PrivateServer,
    flifo: Flifo,
    load: Option<Load>,
}

impl Front {
    fn start() -> Self {
        let server = ordinary().start().expect("a private server");
        let rest = format!("[server]\naddress = {:?}\n", server.socket());
        let flifo = Flifo::start(&rest);
        let address = Address::Unix(flifo.socket());
        let load = Load::start(&address, server.password(), 2, Manner::Stay);
        // Until the load has its backends.
        thread::sleep(Duration::from_millis(300));
        Self { server, flifo, load: Some(load) }
    }

    fn pids(&self) -> [u32; 2] {
        [self.server.pid().expect("runs"), self.flifo.pid()]
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        // Clients go before what they ask.
        drop(self.load.take());
    }
}

fn all_threads(pid: u32) -> Vec<Thread> {
    threads(&Tree::live(), pid).known().expect("is there").clone()
}

fn pin(pid: u32, cpus: &Cpus) {
    for thread in all_threads(pid) {
        // One may end meanwhile.
        let _ = sys::scheduling::set_cpus(thread.tid, cpus);
    }
}

/// How all threads are scheduled, and how many files may be open.
fn state(pids: [u32; 2]) -> String {
    let of = |pid| {
        let limit = sys::details::open_files_limit(&Tree::live(), pid);
        let mut threads: Vec<_> =
            all_threads(pid).into_iter().map(|it| (it.policy, it.priority, it.cpus)).collect();
        threads.sort_by_key(|(_, _, cpus)| cpus.to_string());
        threads.dedup();
        format!("{pid}: {:?} {threads:?}", limit.known())
    };
    pids.map(of).join("\n")
}

#[test]
fn planted_placements_are_found_cured_and_set_back() {
    let mut front = Front::start();
    let [server, flifo] = front.pids();
    // One client that rests keeps a backend. Without load, what else the machine does decides nothing.
    let address = Address::Unix(front.flifo.socket());
    let client = Client::builder(address, PrivateServer::USER, front.server.password());
    let resting = client.plugin(Plugin::NativePassword).connect().expect("logs in");
    drop(front.load.take());
    let cpus = all_threads(server)[0].cpus.clone();
    if cpus.len() < 2 {
        Need::Cpus.skip("on one CPU nothing can be misplaced");
        return;
    }
    let one: Cpus = cpus.iter().take(1).collect();
    pin(server, &one);
    pin(flifo, &one);
    let hard = sys::details::open_files_limit(&Tree::live(), flifo);
    let hard = hard.known().expect("is there").hard;
    sys::process::set_open_files(flifo, Some(1024), hard).expect("lowers");
    let planted = state([server, flifo]);
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("undo.sh");
    let undo = script.to_str().expect("text");
    let said = examine(&front.server, &["--fix", "--yes", "--watch", "2s", "--undo", undo]);
    said.is("pinned", "bad", "taskset --all-tasks");
    said.is("descriptors", "warn", "prlimit --pid");
    assert!(said.complaint.contains("kept:"), "{}", said.complaint);
    assert_ne!(state([server, flifo]), planted, "{}", said.complaint);
    run(&script);
    assert_eq!(state([server, flifo]), planted);
    drop(resting);
}

fn run(script: &Path) {
    let output = Command::new("sh").arg("-e").arg(script).output().expect("sh runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_certificate_that_nothing_vouches_for_is_found() {
    let front = Front::start();
    let ask = || examine(&front.server, &["--watch", "100ms"]);
    front.server.sql("CREATE USER away@'%' IDENTIFIED BY 'x'").expect("an account");
    ask().is("certificate", "ok", "");
    front.flifo.change_configuration(|text| text.replace("[\"127.0.0.1:", "[\"0.0.0.0:"));
    let said = ask();
    said.is("certificate", "warn", "server.accounts_user");
    assert!(said.field("certificate", "evidence").contains("away"));
    front.flifo.change_configuration(|text| {
        let text = text.replace("[server]\n", "[server]\naccounts_user = \"reader\"\n");
        text + "[[users]]\nname = \"reader\"\npassword = \"x\"\n"
    });
    ask().is("certificate", "ok", "");
    let pam = "UPDATE mysql.global_priv SET Priv=JSON_SET(Priv,'$.plugin','pam') WHERE User='away'";
    front.server.sql(pam).expect("another method");
    let said = ask();
    said.is("certificate", "warn", "tls.cert");
    assert!(said.field("certificate", "evidence").contains("away (pam)"));
}

#[test]
fn half_a_taskset_and_a_realtime_proxy_are_found() {
    let front = Front::start();
    let [server, flifo] = front.pids();
    let cpus = all_threads(server)[0].cpus.clone();
    if cpus.len() > 1 {
        let one: Cpus = cpus.iter().take(1).collect();
        sys::scheduling::set_cpus(server, &one).expect("is ours");
    }
    let is_realtime = sys::scheduling::set_policy(flifo, Policy::RoundRobin, 1);
    let said = examine(&front.server, &["--watch", "500ms"]);
    if cpus.len() > 1 {
        said.is(
            "half-pinned",
            "bad",
            &format!("--pid {} {server}", cpus.iter().next().unwrap_or(0)),
        );
    }
    match is_realtime {
        Ok(()) => said.is("realtime", "bad", &format!("chrt --all-tasks --other --pid 0 {flifo}")),
        Err(error) => eprintln!("real-time policies are not permitted here: {error}"),
    }
}

/// A group of half a CPU, which goes with this value.
struct Quota(PathBuf);

impl Quota {
    fn create() -> std::io::Result<Self> {
        let name = format!("flifo-doctor-{}", std::process::id());
        let first = Path::new("/sys/fs/cgroup/cpu");
        let (root, files): (_, &[_]) = match first.exists() {
            true => (first, &[("cpu.cfs_period_us", "100000"), ("cpu.cfs_quota_us", "50000")]),
            false => (Path::new("/sys/fs/cgroup"), &[("cpu.max", "50000 100000")]),
        };
        let quota = Self(root.join(name));
        std::fs::create_dir(&quota.0)?;
        for (file, value) in files {
            std::fs::write(quota.0.join(file), value)?;
        }
        Ok(quota)
    }

    fn hold(&self, pid: u32) -> std::io::Result<()> {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string())
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn half_a_cpu_is_found_to_be_too_little() {
    let mut server = ordinary().start().expect("a private server");
    let quota = Quota::create().and_then(|quota| {
        quota.hold(server.pid().unwrap_or(0))?;
        Ok(quota)
    });
    let quota = match quota {
        Ok(quota) => quota,
        Err(error) => return eprintln!("no quota can be set here: {error}"),
    };
    let load = Load::start(&by_socket(&server), server.password(), 6, Manner::Stay);
    // Beside other tests the server may not even get half a CPU for a while.
    let begun = Instant::now();
    let said = loop {
        let said = examine(&server, &["--watch", "3s"]);
        if said.verdict("throttled") == "bad" || begun.elapsed() > Duration::from_mins(3) {
            break said;
        }
    };
    drop(load);
    server.stop().expect("stops");
    drop(quota);
    assert!(said.field("throttled", "evidence").contains("0.50 CPUs"));
    said.is("throttled", "bad", "cpu");
}

#[test]
fn a_server_that_does_not_answer_leaves_the_machine_to_be_examined() {
    let folder = tempfile::tempdir().expect("a folder");
    let nobody = folder.path().join("nobody.sock");
    let mut command = Command::new(testkit::flifo::program());
    command.args(["doctor", "--json", "--watch", "100ms", "--server"]).arg(&nobody);
    let said = said(&command.output().expect("runs"));
    assert!(said.complaint.contains("cannot be asked"), "{}", said.complaint);
    for finding in ["big-buffers", "pinned", "starvation", "descriptors", "tcp-local"] {
        assert_eq!(said.verdict(finding), "unknown");
    }
    // What the hypervisor takes is the machine's affair; that it was looked at is the doctor's.
    assert_ne!(said.verdict("steal"), "unknown", "{}", said.field("steal", "evidence"));
    let wrong = Command::new(testkit::flifo::program()).args(["doctor", "--watch", "x"]).output();
    assert_eq!(wrong.expect("runs").status.code(), Some(64));
}

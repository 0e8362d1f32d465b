//! Placement from outside: what Flifo changes of a real server's threads, and that nothing of it is left, however Flifo
//! ends.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use bench::private_server::PrivateServer;
use rustix::process::{Pid, Signal, kill_process};
use sys::cpus::Cpus;
use sys::threads::{Policy, Thread, threads};
use sys::tree::Tree;
use testkit::client::Client;
use testkit::flifo::{Flifo, program};
use testkit::need::Need;
use wire::auth::Plugin;

/// A real server, and where Flifos write what they change.
struct Stand {
    server: PrivateServer,
    folder: tempfile::TempDir,
}

/// What of a thread is changed by placement.
type Schedule = (u32, Policy, i32, Cpus);

const PATIENCE: Duration = Duration::from_secs(20);

impl Stand {
    fn new() -> Self {
        let server = PrivateServer::start_default().expect("a private server");
        Self { server, folder: tempfile::tempdir().expect("a folder") }
    }

    fn journal(&self) -> PathBuf {
        self.folder.path().join("placement.json")
    }

    fn flifo(&self, placement: &str) -> Flifo {
        Flifo::start(&format!(
            "server.address = {:?}\n[placement]\nstate_file = {:?}\n{placement}\n",
            self.server.socket(),
            self.journal()
        ))
    }

    fn threads(&self) -> Vec<Thread> {
        let pid = self.server.pid().expect("runs");
        threads(&Tree::live(), pid).known().expect("are ours to read").clone()
    }

    fn schedules(&self) -> Vec<Schedule> {
        self.threads().into_iter().map(|it| (it.tid, it.policy, it.nice, it.cpus)).collect()
    }

    fn await_all(&self, policy: Policy) {
        let begun = Instant::now();
        while self.threads().iter().any(|it| it.policy != policy) {
            assert!(begun.elapsed() < PATIENCE, "not all are {policy}: {:?}", self.schedules());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn restore(&self) -> Output {
        let mut command = Command::new(program());
        command.args(["placement", "restore", "--state"]).arg(self.journal());
        command.output().expect("flifo runs")
    }

    /// A client of the server, which has a thread there.
    fn client(&self) -> Client {
        let address = backend::Address::Unix(self.server.socket());
        let client = Client::builder(address, PrivateServer::USER, self.server.password());
        client.plugin(Plugin::NativePassword).connect().expect("logs in")
    }
}

/// Those of `before` that still live are as they were, and those that were born since are as the first.
fn assert_restored(before: &[Schedule], after: &[Schedule], when: &str) {
    let plain = |it: &Schedule| (it.1, it.2, it.3.clone());
    for now in after {
        let was = before.iter().find(|it| it.0 == now.0).unwrap_or(&before[0]);
        assert_eq!(plain(now), plain(was), "{when}: thread {}", now.0);
    }
}

fn kill(flifo: &Flifo) {
    let pid = Pid::from_raw(i32::try_from(flifo.pid()).expect("a pid")).expect("a pid");
    // Until it is dropped it can be named, whether it has ended or not.
    kill_process(pid, Signal::KILL).expect("is our child");
}

#[test]
fn all_threads_of_the_server_are_placed_also_later_ones_and_put_back_at_the_end() {
    let stand = Stand::new();
    let before = stand.schedules();
    let flifo = stand.flifo("policy = \"batch\"");
    stand.await_all(Policy::Batch);
    assert!(stand.journal().exists());
    // A thread for each of these.
    let mut clients: Vec<_> = (0..5).map(|_| stand.client()).collect();
    clients.iter_mut().for_each(|client| drop(client.query("SELECT 1").expect("answers")));
    stand.await_all(Policy::Batch);
    let refused = stand.restore();
    assert_eq!(refused.status.code(), Some(69), "a Flifo that runs undoes it itself");
    let (status, log) = flifo.stop();
    assert!(status.success(), "{log}");
    assert_restored(&before, &stand.schedules(), "at the end");
    assert!(!stand.journal().exists());
    assert!(log.contains("chrt --all-tasks --batch"), "{log}");
}

#[test]
fn a_flifo_that_is_killed_at_any_moment_leaves_nothing_that_cannot_be_restored() {
    let stand = Stand::new();
    let before = stand.schedules();
    let policies = ["batch", "private-core", "priority"];
    for round in 0..12_u64 {
        let policy = policies[round as usize % policies.len()];
        let flifo = stand.flifo(&format!("policy = {policy:?}"));
        // Before, while and after threads are changed.
        std::thread::sleep(Duration::from_millis(round * round * 3));
        if round % 4 == 3 {
            // In the middle of undoing.
            flifo.ask_to_stop();
            std::thread::sleep(Duration::from_millis(round));
        }
        kill(&flifo);
        drop(flifo);
        let output = stand.restore();
        assert!(output.status.success(), "{policy}: {output:?}");
        assert_restored(&before, &stand.schedules(), &format!("{policy}, round {round}"));
        assert!(!stand.journal().exists());
    }
}

#[test]
fn the_next_start_undoes_what_one_that_was_killed_has_left() {
    let stand = Stand::new();
    let before = stand.schedules();
    let flifo = stand.flifo("policy = \"batch\"");
    stand.await_all(Policy::Batch);
    kill(&flifo);
    drop(flifo);
    assert!(stand.threads().iter().all(|it| it.policy == Policy::Batch));
    let flifo = stand.flifo("policy = \"off\"");
    assert_restored(&before, &stand.schedules(), "after the next start");
    let (_, log) = flifo.stop();
    assert!(log.contains("a Flifo that was killed had changed this machine"), "{log}");
    assert!(!stand.journal().exists());
}

#[test]
fn a_server_that_dies_and_comes_back_is_placed_anew() {
    let mut stand = Stand::new();
    let flifo = stand.flifo("policy = \"batch\"");
    stand.await_all(Policy::Batch);
    stand.server.kill().expect("is killed");
    stand.server.start().expect("comes back");
    stand.await_all(Policy::Batch);
    let (status, log) = flifo.stop();
    assert!(status.success(), "{log}");
    assert!(stand.threads().iter().all(|it| it.policy == Policy::Other));
    assert!(!stand.journal().exists());
}

#[test]
fn a_hand_made_affinity_is_kept_and_put_back() {
    let stand = Stand::new();
    let all = stand.threads()[0].cpus.clone();
    if all.len() < 2 {
        Need::Cpus.skip("there is nothing to choose");
        return;
    }
    let last: Cpus = all.iter().skip(all.len() - 1).collect();
    let own = stand.threads()[1].tid;
    sys::scheduling::set_cpus(own, &last).expect("is ours");
    let before = stand.schedules();
    let flifo = stand.flifo("policy = \"private-core\"");
    let begun = Instant::now();
    // The last CPU becomes the worker's; whose only CPU it is, keeps it.
    while stand.threads().iter().any(|it| it.tid != own && it.cpus.meets(&last)) {
        assert!(begun.elapsed() < PATIENCE, "{:?}", stand.schedules());
        std::thread::sleep(Duration::from_millis(20));
    }
    let pinned = stand.threads().into_iter().find(|it| it.tid == own).expect("lives");
    assert_eq!(pinned.cpus, last);
    // The server's threads are moved first.
    loop {
        let ours = threads(&Tree::live(), flifo.pid()).known().expect("are ours").clone();
        let workers: Vec<_> = ours.iter().filter(|it| it.name.starts_with("worker")).collect();
        if !workers.is_empty() && workers.iter().all(|it| it.cpus == last) {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{workers:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    flifo.stop();
    assert_restored(&before, &stand.schedules(), "at the end");
}

#[test]
fn to_observe_changes_nothing_and_writes_nothing() {
    let stand = Stand::new();
    let before = stand.schedules();
    let flifo = stand.flifo("");
    std::thread::sleep(Duration::from_millis(2500));
    let now = stand.schedules();
    assert_restored(&before, &now, "while it looks");
    assert!(!stand.journal().exists());
    let output = stand.restore();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("nothing is changed"), "{text}");
    flifo.stop();
}

#[test]
fn without_permission_the_command_is_told_and_nothing_changed() {
    if !sys::process::is_root() {
        Need::Root.skip("only root can become a user without permission");
        return;
    }
    let stand = Stand::new();
    let before = stand.schedules();
    let folder = stand.folder.path();
    let (config, journal) = (folder.join("flifo.toml"), folder.join("own").join("placement.json"));
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(stand.server.folder(), open).expect("is ours");
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\nserver.address = {:?}\n[console]\nlisten = []\n[http]\nlisten = []\n\
         [placement]\npolicy = \"batch\"\nstate_file = {journal:?}\n",
        stand.server.socket()
    );
    std::fs::write(&config, text).expect("writes");
    let log = folder.join("log");
    // A program that may be read by everybody, and a folder of the other user's own.
    let script = format!(
        "chmod 755 {folder:?} && mkdir {own:?} && chown 65534 {own:?} && chmod 644 {config:?} && \
         cp {program:?} {folder:?}/flifo && chmod 755 {folder:?}/flifo && \
         exec setpriv --reuid 65534 --regid 65534 --clear-groups {folder:?}/flifo run --config {config:?} 2>{log:?}",
        own = folder.join("own"),
        program = program(),
    );
    let mut command = Command::new("sh");
    command.arg("-c").arg(script);
    let mut child = sys::child::spawn(command).expect("sh runs");
    let begun = Instant::now();
    let read = || std::fs::read_to_string(&log).unwrap_or_default();
    let command = format!("chrt --all-tasks --batch --pid 0 {}", stand.server.pid().expect("runs"));
    let is_told = |log: &str| log.contains(&format!("An administrator would run: {command}"));
    while !is_told(&read()) && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = sys::child::stop(&mut child, PATIENCE);
    assert!(is_told(&read()), "{}", read());
    assert_restored(&before, &stand.schedules(), "without permission");
    assert!(!journal.exists());
}

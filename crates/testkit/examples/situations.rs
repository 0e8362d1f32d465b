//! Prepares situations of a server and its proxy on this machine, and asks Flifo three times in a row what it takes
//! them for.
//!
//! `cargo run --release -p testkit --example situations` takes two minutes on a machine that does nothing else, and
//! wants root's rights for some of them. Everything is its own, in temporary folders, and changes of the machine are
//! undone. What a machine of few CPUs cannot be brought to (a worker that fills its CPU, a hypervisor that steals) is
//! tested with recorded machines, in `crates/proxy/src/placement/observer/tests.rs`.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use backend::Address;
use bench::private_server::PrivateServer;
use sys::cpus::Cpus;
use sys::placing::{Deed, Placed};
use sys::tree::Tree;
use testkit::client::Client;
use testkit::flifo::{Flifo, program};
use wire::auth::Plugin;

/// Threads that do something until they are dropped.
struct Crowd {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Crowd {
    fn new(count: usize, work: impl Fn(&AtomicBool) + Send + Clone + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let start = |_| {
            let (stop, work) = (Arc::clone(&stop), work.clone());
            thread::spawn(move || work(&stop))
        };
        let threads = (0..count).map(start).collect();
        Self { stop, threads }
    }

    fn clients(stand: &Stand, flifo: &Flifo, count: usize, statement: &'static str) -> Self {
        let address = Address::Unix(flifo.socket());
        let password = stand.server.password().to_owned();
        Self::new(count, move |stop| {
            let client = Client::builder(address.clone(), PrivateServer::USER, &password);
            let Ok(mut client) = client.plugin(Plugin::NativePassword).connect() else { return };
            while !stop.load(Ordering::Relaxed) && client.query(statement).is_ok() {}
        })
    }

    fn spinners(count: usize) -> Self {
        Self::new(count, |stop| while !stop.load(Ordering::Relaxed) {})
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

struct Stand {
    server: PrivateServer,
    folder: tempfile::TempDir,
}

impl Stand {
    fn flifo(&self, policy: &str) -> Flifo {
        let console = self.folder.path().join("console.sock");
        let _ = fs::remove_file(&console);
        Flifo::start_program(
            program(),
            &format!(
                "workers = 1\nserver = {{ address = {:?}, limit = 512, connections_max = 512, pipeline = 1 }}\n\
                 [placement]\npolicy = {policy:?}\nstate_file = {:?}\n[console]\nlisten = {console:?}\n[http]\nlisten = []\n",
                self.server.socket(),
                self.folder.path().join("placement.json"),
            ),
        )
    }

    fn verdicts(&self) -> [String; 3] {
        thread::sleep(SETTLE);
        [(); 3].map(|()| self.verdict())
    }

    /// What Flifo takes it for.
    fn verdict(&self) -> String {
        thread::sleep(LOOK);
        let address = Address::Unix(self.folder.path().join("console.sock"));
        let console = Client::builder(address, "any", "").plugin(Plugin::NativePassword);
        let rows =
            console.connect().expect("a console").query("SHOW FULL PLACEMENT").expect("answers");
        let value = |name: &str| {
            rows.iter().find(|row| row[0] == name).map_or_else(String::new, |row| row[1].clone())
        };
        let of = ["worker_ran", "worker_waited", "machine_idle"].map(value);
        println!("    {:<34} ran {}, waited {}, idle {}", value("verdict"), of[0], of[1], of[2]);
        value("verdict")
    }
}

/// Clients come, and the look of before goes.
const SETTLE: Duration = Duration::from_secs(3);
/// Two looks of Flifo's.
const LOOK: Duration = Duration::from_millis(4500);

fn main() {
    let stand = Stand {
        server: PrivateServer::builder()
            .argument("--max-connections=1000")
            .start()
            .expect("a private server"),
        folder: tempfile::tempdir().expect("a folder"),
    };
    let groups = Kept::write("/proc/sys/kernel/sched_autogroup_enabled", "0");
    if groups.is_none() {
        println!("sessions stay grouped, which this user may not change: starvation is milder");
    }
    let mut wrong = Vec::new();
    let mut check = |want: &[&str], got: [String; 3]| {
        let is_right = got.iter().all(|it| want.contains(&it.as_str()));
        println!("{} {}", if is_right { "right" } else { "WRONG" }, want.join(" or "));
        if !is_right {
            wrong.push(want.join(" or "));
        }
    };
    let flifo = stand.flifo("observe");
    check(&["idle"], stand.verdicts());
    {
        let _one = Crowd::clients(&stand, &flifo, 1, "SELECT BENCHMARK(200000, 1)");
        check(&["well"], stand.verdicts());
    }
    {
        let _crowd = Crowd::clients(&stand, &flifo, 64, "DO 0");
        let _others = Crowd::spinners(4);
        check(&["contended"], stand.verdicts());
    }
    let starving = [8, 16, 32, 100].into_iter().find(|count| {
        let _crowd = Crowd::clients(&stand, &flifo, *count, "DO 0");
        println!("  {count} clients");
        stand.verdict() == "starved"
    });
    match starving {
        Some(count) => {
            let crowd = Crowd::clients(&stand, &flifo, count, "DO 0");
            check(&["starved"], stand.verdicts());
            drop(crowd);
            pinned(&stand, &flifo, count, &mut check);
        }
        None => println!("this machine does not starve; see the recorded ones"),
    }
    throttled(&stand, &flifo, &mut check);
    drop(flifo);
    if let Some(count) = starving {
        let flifo = stand.flifo("batch");
        let _crowd = Crowd::clients(&stand, &flifo, count, "DO 0");
        // It may have helped.
        check(
            &["starved, the server batch already", "contended", "well", "CPU-bound"],
            stand.verdicts(),
        );
    }
    drop(groups);
    println!(
        "{}",
        if wrong.is_empty() { "all are right".to_owned() } else { format!("wrong: {wrong:?}") }
    );
    std::process::exit(i32::from(!wrong.is_empty()));
}

/// Server and worker on one CPU.
fn pinned(
    stand: &Stand,
    flifo: &Flifo,
    count: usize,
    check: &mut impl FnMut(&[&str], [String; 3]),
) {
    let tree = Tree::live();
    let online = sys::placing::online(&tree).unwrap_or_default();
    if online.len() < 2 {
        return;
    }
    let last: Cpus = online.iter().last().into_iter().collect();
    let pin = |pid: u32| {
        let mut placed =
            Placed::read(&tree, pid, Deed::Cpus(last.clone()), Vec::new()).expect("reads");
        placed.apply(&tree, &mut |_| Ok(())).expect("is ours");
        placed
    };
    let both = [flifo.pid(), stand.server.pid().expect("runs")].map(pin);
    {
        let _crowd = Crowd::clients(stand, flifo, count, "DO 0");
        check(&["pinned together"], stand.verdicts());
    }
    both.iter().for_each(|it| drop(it.restore(&tree)));
}

/// The server in a group with a quota of three tenths of a CPU.
fn throttled(stand: &Stand, flifo: &Flifo, check: &mut impl FnMut(&[&str], [String; 3])) {
    let folders = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"];
    let is_there = |folder: &&&str| Path::new(folder).join("cgroup.procs").exists();
    let Some(root) = folders.iter().find(is_there) else { return };
    let group = Path::new(root).join(format!("flifo-situations-{}", std::process::id()));
    let set_up = || {
        fs::create_dir(&group)?;
        match *root == "/sys/fs/cgroup" {
            true => fs::write(group.join("cpu.max"), "30000 100000")?,
            false => fs::write(group.join("cpu.cfs_quota_us"), "30000")?,
        }
        let pid = stand.server.pid().expect("runs").to_string();
        fs::write(group.join("cgroup.procs"), pid)
    };
    match set_up() {
        Ok(()) => {
            let _crowd = Crowd::clients(stand, flifo, 32, "DO 0");
            check(&["throttled"], stand.verdicts());
        }
        Err(error) => println!("no quota can be set here: {error}"),
    }
    let pid = stand.server.pid().expect("runs").to_string();
    let _ = fs::write(Path::new(root).join("cgroup.procs"), pid);
    let _ = fs::remove_dir(&group);
}

/// A file of the kernel's that is put back.
struct Kept {
    path: &'static str,
    before: String,
}

impl Kept {
    fn write(path: &'static str, value: &str) -> Option<Self> {
        let before = fs::read_to_string(path).ok()?;
        fs::write(path, value).ok()?;
        Some(Self { path, before })
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = fs::write(self.path, self.before.trim());
    }
}

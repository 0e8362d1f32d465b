//! `flifo bench run --place` from outside: what is bound while a run lasts, as the kernel tells it of each thread, and what
//! of it is left behind. On a machine of one CPU there is nothing to bind, and nothing to see.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use bench::private_server::PrivateServer;
use bench::results::{Ending, Results, Role};
use rustix::process::{Pid, Signal, kill_process};
use sys::cpus::Cpus;
use sys::tree::Tree;
use testkit::need::Need;
use testkit::scene::wait_for;

/// A server that ran before any run, with tables.
struct Found {
    server: PrivateServer,
    folder: tempfile::TempDir,
    /// The CPUs of this test, and what `beside-clients` makes of them.
    all: Cpus,
    last: Cpus,
    rest: Cpus,
}

impl Found {
    fn new() -> Option<Self> {
        let all = sys::scheduling::own_cpus().expect("told");
        let last: Cpus = all.iter().max().into_iter().collect();
        let rest = all.without(&last);
        if rest.is_empty() {
            Need::Cpus.skip("there are no CPUs beside those of clients");
            return None;
        }
        let server = PrivateServer::start_default().expect("a private server");
        let found =
            Self { server, folder: tempfile::tempdir().expect("a folder"), all, last, rest };
        let made = found.bench("prepare").args(["--tables", "1", "--rows", "1000"]).output();
        assert!(made.expect("runs").status.success());
        Some(found)
    }

    fn pid(&self) -> u32 {
        self.server.pid().expect("runs")
    }

    fn bench(&self, command: &str) -> Command {
        let target = format!("direct=unix:{}", self.server.socket().display());
        let mut bench = bench(&[command, "--target", &target]);
        bench.env("MYSQL_PWD", self.server.password());
        bench
    }

    fn json(&self) -> PathBuf {
        self.folder.path().join("results.json")
    }

    fn run(&self, place: &str, seconds: &str) -> Command {
        let mut run = self.bench("run");
        run.args(["--clients", "4", "--rounds", "1", "--warm-up", "0", "--repeats", "0"]);
        run.args(["--place", place, "--seconds", seconds, "--json"]).arg(self.json());
        run
    }

    /// Begins a run, and waits until its clients work and all that takes part is where it belongs.
    fn begin(&self) -> Child {
        let child = self.run("beside-clients", "600").spawn().expect("starts");
        let own = child.id();
        wait_for("the clients", || names(own).iter().any(|name| name.starts_with("load")));
        wait_for("the server on its CPU", || are_all_on(self.pid(), &self.last));
        wait_for("the clients on theirs", || are_all_on(own, &self.rest));
        child
    }

    fn results(&self) -> Results {
        read(&self.json())
    }
}

fn bench(arguments: &[&str]) -> Command {
    let mut bench = Command::new(testkit::flifo::program());
    bench.arg("bench").args(arguments);
    bench.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    bench
}

fn read(json: &std::path::Path) -> Results {
    let text = std::fs::read_to_string(json).expect("results were written");
    serde_json::from_str(&text).expect("they are of the format")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The threads of a process, each with its CPUs, by the kernel's own words.
fn threads(pid: u32) -> BTreeMap<u32, Cpus> {
    let tids = Tree::live().numbers(&format!("/proc/{pid}/task"));
    let cpus = |tid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some((tid, line.trim().parse().expect("a set")))
    };
    tids.known().into_iter().flatten().filter_map(|tid| cpus(*tid)).collect()
}

fn names(pid: u32) -> Vec<String> {
    let tids = threads(pid).into_keys();
    let name = |tid| std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).ok();
    tids.filter_map(name).collect()
}

fn are_all_on(pid: u32, cpus: &Cpus) -> bool {
    let threads = threads(pid);
    !threads.is_empty() && threads.values().all(|its| its == cpus)
}

/// The children of a process, by their names.
fn children(parent: u32) -> Vec<(String, u32)> {
    let tree = Tree::live();
    let child = |pid: u32| {
        let line = sys::threads::line(&tree, pid).known()?.clone();
        (line.parent == parent).then_some((line.name, pid))
    };
    sys::account::pids().expect("listed").into_iter().filter_map(child).collect()
}

fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a number")).expect("is not 0");
    kill_process(pid, signal).expect("it runs");
}

#[test]
fn a_found_server_has_its_cpus_back_after_the_end_ctrl_c_a_signal_and_a_kill() {
    let Some(found) = Found::new() else { return };
    // One thread is somewhere else than the others, and goes back there.
    let odd = *threads(found.pid()).keys().last().expect("has threads");
    sys::scheduling::set_cpus(odd, &found.rest).expect("binds");
    let is_as_it_was = || {
        let now = threads(found.pid());
        now.iter()
            .all(|(tid, its)| *its == if *tid == odd { &found.rest } else { &found.all }.clone())
    };
    assert!(is_as_it_was(), "{:?}", threads(found.pid()));

    let ended = found.run("beside-clients", "0.5").output().expect("runs");
    assert!(ended.status.success(), "{}", said(&ended));
    assert!(is_as_it_was(), "{:?}", threads(found.pid()));
    let topology = &found.results().topologies[0];
    let seen: Vec<_> = topology.processes.iter().map(|it| (it.role, it.pid)).collect();
    assert_eq!(seen[0], (Role::Server, found.pid()), "{topology:?}");
    assert_eq!(topology.processes[0].cpus.known(), Some(&found.last), "{topology:?}");
    assert_eq!(topology.processes[1].cpus.known(), Some(&found.rest), "{topology:?}");
    assert_eq!(topology.cautions, [""; 0]);

    for (signal, code) in
        [(Signal::INT, Some(130)), (Signal::TERM, Some(130)), (Signal::KILL, None)]
    {
        let mut child = found.begin();
        let watcher: Vec<_> = children(child.id()).iter().map(|(_, pid)| *pid).collect();
        assert_eq!(watcher.len(), 1, "one child that undoes what a killed run cannot");
        // What ends a run does not end the watcher before it.
        send(watcher[0], Signal::INT);
        send(watcher[0], Signal::TERM);
        send(child.id(), signal);
        let status = child.wait().expect("ends");
        assert_eq!(status.code(), code, "{signal:?}");
        if code.is_some() {
            assert!(is_as_it_was(), "{signal:?}: {:?}", threads(found.pid()));
        }
        wait_for("the CPUs that it had before", is_as_it_was);
        wait_for("the watcher's end", || threads(watcher[0]).is_empty());
    }
}

#[test]
fn what_is_started_is_bound_and_topologies_take_turns() {
    let all = sys::scheduling::own_cpus().expect("told");
    let last: Cpus = all.iter().max().into_iter().collect();
    let rest = all.without(&last);
    if rest.is_empty() {
        Need::Cpus.skip("there are no CPUs beside those of clients");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("run.json");
    let small =
        ["run", "--start", "direct,flifo", "--tables", "1", "--rows", "1000", "--warm-up", "0"];
    let short = ["--clients", "2", "--repeats", "0", "--rounds", "2", "--seconds", "0.2"];
    let output = bench(&small)
        .args(short)
        .args(["--place", "beside-clients", "--place", "together", "--json"])
        .arg(&json)
        .output()
        .expect("runs");
    assert!(output.status.success(), "{}", said(&output));
    let results = read(&json);
    let cells: Vec<_> =
        results.cells.iter().map(|it| (it.topology.as_str(), it.target.as_str())).collect();
    let both = [("beside-clients", "direct"), ("beside-clients", "flifo")];
    assert_eq!(cells, [both, [("together", "direct"), ("together", "flifo")]].concat());
    assert!(results.cells.iter().all(|cell| cell.kept().count() == 2));
    assert!(results.ratios.iter().any(|ratio| ratio.topology == "together"));
    for (topology, server, others) in
        [(&results.topologies[0], &last, &rest), (&results.topologies[1], &all, &all)]
    {
        let roles: Vec<_> = topology.processes.iter().map(|it| it.role).collect();
        assert_eq!(roles, [Role::Server, Role::Proxy, Role::Generator], "{topology:?}");
        for place in &topology.processes {
            let wanted = if place.role == Role::Server { server } else { others };
            assert_eq!(place.cpus.known(), Some(wanted), "{place:?}");
            assert!(place.cgroup.known().is_some() || !place.cgroup.reason().is_empty());
        }
        assert_eq!(topology.cautions, [""; 0]);
    }
    let [one, other] = [0, 1].map(|at: usize| results.topologies[at].processes[1].pid);
    assert_ne!(one, other, "a proxy counts its CPUs when it begins");

    // While it runs, and by what the kernel says.
    let mut child = bench(&small)
        .args(["--clients", "2", "--rounds", "1", "--seconds", "600"])
        .args(["--place", "beside-server", "--json"])
        .arg(&json)
        .spawn()
        .expect("starts");
    let own = child.id();
    wait_for("the clients", || names(own).iter().any(|name| name.starts_with("load")));
    let children = children(own);
    for name in ["mariadbd", "flifo"] {
        let its = children.iter().find(|(known, _)| known == name).expect("runs").1;
        assert!(are_all_on(its, &last), "{name}: {:?}", threads(its));
    }
    assert!(are_all_on(own, &rest), "{:?}", threads(own));
    send(own, Signal::INT);
    assert_eq!(child.wait().expect("ends").code(), Some(130));
    let results = read(&json);
    assert_eq!(results.ending, Ending::Interrupted);
    assert_eq!(results.topologies[0].name, "beside-server");
    wait_for("the end of what was started", || {
        children.iter().all(|(_, pid)| threads(*pid).is_empty())
    });
}

#[test]
fn topologies_that_cannot_be_had_are_refused() {
    let all = sys::scheduling::own_cpus().expect("told");
    let most_two: Cpus = all.iter().take(2).collect();
    let refused = |places: &[&str], want: &str| {
        let mut run = bench(&["run", "--start", "direct"]);
        for place in places {
            run.args(["--place", place]);
        }
        sys::child::run_on(&mut run, &most_two).expect("binds");
        let output = run.output().expect("runs");
        assert_eq!(output.status.code(), Some(64), "{places:?}: {}", said(&output));
        assert!(said(&output).contains(want), "{places:?}: {}", said(&output));
    };
    refused(&["apart"], "the topology apart needs 3 CPUs, and this process may use ");
    refused(&["beside"], "--place: \"beside\" is no topology; there are together, beside-server,");
    refused(&["server=8000"], "and 8000 are not among them");
    refused(&["together", "together"], "--place together: it is named twice");
}

#[test]
fn what_may_not_be_bound_is_said_and_the_rest_is() {
    let Some(found) = Found::new() else { return };
    if !sys::process::is_root() {
        Need::Root.skip(
            "only root can start a process of another user, and give up the right to schedule it",
        );
        return;
    }
    let mut foreign = Command::new("sleep").arg("1000").uid(65534).spawn().expect("starts");
    let run = found.run("beside-clients", "0.3");
    let output = Command::new("setpriv")
        .args(["--inh-caps=-all", "--bounding-set=-sys_nice"])
        .arg(run.get_program())
        .args(run.get_args())
        .arg(format!("--process=server={}", foreign.id()))
        .env("MYSQL_PWD", found.server.password())
        .output()
        .expect("runs");
    foreign.kill().and_then(|()| foreign.wait().map(drop)).expect("ends");
    let foreign = foreign.id();
    assert!(output.status.success(), "{}", said(&output));
    let want = format!("(process {foreign}) stays on CPUs ");
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    for told in [said(&output), table] {
        assert!(told.contains(&want) && told.contains("CAP_SYS_NICE may bind it"), "{told}");
    }
    let topology = &found.results().topologies[0];
    assert!(topology.cautions.iter().any(|it| it.contains(&want)), "{topology:?}");
    let own = topology.processes.iter().find(|it| it.role == Role::Generator).expect("took part");
    assert_eq!(own.cpus.known(), Some(&found.rest), "{topology:?}");
}

//! Changes are made on this process and on files of the test's own, and undone in both ways.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::mpsc;

use super::*;

/// Variables of a server that is not there.
#[derive(Default)]
struct Table(BTreeMap<String, String>);

impl GlobalVariables for Table {
    fn get(&mut self, name: &str) -> io::Result<String> {
        self.0.get(name).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn set(&mut self, name: &str, value: &str) -> io::Result<()> {
        self.0.insert(name.to_owned(), value.to_owned());
        Ok(())
    }
}

/// A process of its own, which sleeps until it is let go.
struct Sleeper(std::process::Child);

impl Sleeper {
    fn new() -> Self {
        Self(Command::new("sleep").arg("60").spawn().expect("sleep runs"))
    }

    fn thread(&self) -> Thread {
        let seen = threads::threads(&Tree::live(), self.0.id());
        seen.known().expect("reads").first().expect("has one").clone()
    }

    fn limit(&self) -> Option<u64> {
        let seen = sys::details::open_files_limit(&Tree::live(), self.0.id());
        seen.known().expect("reads").soft
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(script: &str) {
    let status = Command::new("sh").arg("-ec").arg(script).status().expect("sh runs");
    assert!(status.success(), "{script}");
}

/// Makes a change, lets something look, undoes it: once directly, once by the script.
fn there_and_back(change: &Change, look: impl Fn() -> String) {
    let tree = Tree::live();
    let mut server = Table::default();
    let first = look();
    for by_script in [false, true] {
        let before = change.before(&tree, &mut server).expect("is read");
        change.apply(&tree, &mut server).expect("is made");
        assert_ne!(look(), first, "{change} changes nothing");
        match by_script {
            true => run(&format!("{SCRIPT}{}", before.script("false"))),
            false => before.restore(&tree, &mut server).expect("is undone"),
        }
        assert_eq!(look(), first, "{change} is not undone");
    }
}

#[test]
fn a_policy_is_set_and_set_back() {
    let sleeper = Sleeper::new();
    let change = Change::Policy { pid: sleeper.0.id(), policy: Policy::Batch };
    there_and_back(&change, || sleeper.thread().policy.to_string());
}

#[test]
fn cpus_are_set_and_set_back() {
    let sleeper = Sleeper::new();
    let one: Cpus = sleeper.thread().cpus.iter().take(1).collect();
    if sleeper.thread().cpus == one {
        // On one CPU there is nothing to choose.
        return;
    }
    let change = Change::Cpus { pid: sleeper.0.id(), cpus: one };
    there_and_back(&change, || sleeper.thread().cpus.to_string());
}

#[test]
fn the_limit_of_open_files_is_raised_and_lowered() {
    let sleeper = Sleeper::new();
    let pid = sleeper.0.id();
    let seen = sys::details::open_files_limit(&Tree::live(), pid);
    let hard = seen.known().expect("reads").hard;
    sys::process::set_open_files(pid, Some(64), hard).expect("lowers");
    let change = Change::OpenFiles { pid };
    there_and_back(&change, || format!("{:?}", sleeper.limit()));
}

#[test]
fn a_file_is_written_and_written_back() {
    let folder = tempfile::tempdir().expect("makes");
    let path = folder.path().join("it's").to_string_lossy().into_owned();
    std::fs::write(&path, "ondemand").expect("writes");
    let change = Change::File { path: path.clone(), value: "performance".to_owned() };
    there_and_back(&change, || std::fs::read_to_string(&path).expect("reads"));
}

#[test]
fn of_a_choice_the_chosen_is_written_back() {
    let folder = tempfile::tempdir().expect("makes");
    let path = folder.path().join("enabled").to_string_lossy().into_owned();
    std::fs::write(&path, "[always] madvise never\n").expect("writes");
    let change = Change::File { path: path.clone(), value: "madvise".to_owned() };
    let before = change.before(&Tree::live(), &mut Table::default()).expect("is read");
    assert_eq!(before, Before::File { path, value: "always".to_owned() });
}

#[test]
fn a_variable_is_set_and_set_back() {
    let mut server = Table::default();
    server.set("query_cache_type", "ON").expect("sets");
    let change = Change::Variable { name: "query_cache_type".to_owned(), value: "OFF".to_owned() };
    let before = change.before(&Tree::live(), &mut server).expect("is read");
    change.apply(&Tree::live(), &mut server).expect("is made");
    assert_eq!(server.0["query_cache_type"], "OFF");
    before.restore(&Tree::live(), &mut server).expect("is undone");
    assert_eq!(server.0["query_cache_type"], "ON");
    let want = "mariadb -e 'SET GLOBAL query_cache_type = '\\''ON'\\'''\n";
    assert_eq!(before.script("mariadb"), want);
    let absent = Change::Variable { name: "nothing".to_owned(), value: "1".to_owned() };
    assert!(absent.before(&Tree::live(), &mut server).is_err());
}

#[test]
fn values_cannot_end_their_quotes() {
    assert_eq!(set_global("a", "12"), "SET GLOBAL a = 12");
    assert_eq!(set_global("a", "x'; DROP"), "SET GLOBAL a = 'x''; DROP'");
    assert_eq!(set_global("a", "x\\"), "SET GLOBAL a = 'x\\\\'");
}

#[test]
fn a_later_process_of_the_same_number_is_left_alone() {
    let sleeper = Sleeper::new();
    let mut server = Table::default();
    let change = Change::Policy { pid: sleeper.0.id(), policy: Policy::Batch };
    let before = change.before(&Tree::live(), &mut server).expect("is read");
    change.apply(&Tree::live(), &mut server).expect("is made");
    let Before::Threads(placed) = before else { panic!("threads") };
    let other = Before::Threads(Placed { started: placed.started + 1, ..placed });
    other.restore(&Tree::live(), &mut server).expect("does nothing");
    run(&format!("{SCRIPT}{}", other.script("false")));
    assert_eq!(sleeper.thread().policy, Policy::Batch);
}

#[test]
fn a_thread_of_its_own_kind_stays_one_in_the_script() {
    let thread = |tid, policy| Thread { tid, policy, ..Thread::default() };
    let threads = vec![thread(7, Policy::Other), thread(8, Policy::Other), thread(9, Policy::Idle)];
    let deed = Deed::Policy(Policy::Batch);
    let placed = Placed { pid: 7, started: 1, deed, only: Vec::new(), threads };
    let script = Before::Threads(placed).script("false");
    let told: Vec<_> = script.lines().filter(|line| line.contains("chrt")).map(str::trim).collect();
    let all = "chrt --other --all-tasks --pid 0 7 || :";
    assert_eq!(told, [all, all, "chrt --idle --pid 0 9 || :"]);
}

#[test]
fn all_threads_are_changed_and_those_born_later_are_set_back() {
    // The policy of this test's own process is that of its other threads: a child does it.
    let program = "import threading,sys\n\
        e=threading.Event()\n\
        for _ in range(3): threading.Thread(target=e.wait,daemon=True).start()\n\
        print('ready',flush=True)\n\
        sys.stdin.readline()\n\
        threading.Thread(target=e.wait,daemon=True).start()\n\
        print('more',flush=True)\n\
        sys.stdin.readline()\n";
    let mut child = Command::new("python3")
        .args(["-c", program])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("python3 runs");
    let (told, hear) = mpsc::channel();
    let out = child.stdout.take().expect("piped");
    let mut input = child.stdin.take().expect("piped");
    let pid = child.id();
    std::thread::spawn(move || {
        for line in io::BufRead::lines(io::BufReader::new(out)).map_while(Result::ok) {
            let _ = told.send(line);
        }
    });
    let policies = || {
        let seen = threads::threads(&Tree::live(), pid);
        seen.known().expect("reads").iter().map(|it| it.policy).collect::<Vec<_>>()
    };
    assert_eq!(hear.recv().expect("begins"), "ready");
    let mut server = Table::default();
    let change = Change::Policy { pid, policy: Policy::Batch };
    let before = change.before(&Tree::live(), &mut server).expect("is read");
    change.apply(&Tree::live(), &mut server).expect("is made");
    assert_eq!(policies(), [Policy::Batch; 4]);
    io::Write::write_all(&mut input, b"\n").expect("writes");
    assert_eq!(hear.recv().expect("goes on"), "more");
    assert_eq!(policies(), [Policy::Batch; 5]);
    before.restore(&Tree::live(), &mut server).expect("is undone");
    assert_eq!(policies(), [Policy::Other; 5]);
    change.apply(&Tree::live(), &mut server).expect("is made");
    run(&format!("{SCRIPT}{}", before.script("false")));
    assert_eq!(policies(), [Policy::Other; 5]);
    drop(input);
    child.wait().expect("ends");
}

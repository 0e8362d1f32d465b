//! Processes of the test's own are changed, interfered with, and set back.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::*;

/// A process that makes a thread for each line that it is sent, and says so.
struct Threaded {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Threaded {
    fn new() -> Self {
        let program = "import threading,sys\n\
            e=threading.Event()\n\
            print('ready',flush=True)\n\
            for line in sys.stdin:\n\
            \u{20} threading.Thread(target=e.wait,daemon=True).start()\n\
            \u{20} print('more',flush=True)\n";
        let mut child = Command::new("python3")
            .args(["-c", program])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 runs");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut threaded = Self { child, input, output };
        threaded.hear();
        threaded.more();
        threaded.more();
        threaded
    }

    fn hear(&mut self) {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("reads");
        assert!(!line.is_empty(), "it has ended");
    }

    fn more(&mut self) {
        self.input.write_all(b"\n").expect("writes");
        self.hear();
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn threads(&self) -> Vec<Thread> {
        threads::threads(&Tree::live(), self.pid()).known().expect("reads").clone()
    }

    fn schedule(&self) -> Vec<(u32, Policy, i32, Cpus)> {
        let of = |it: Thread| (it.tid, it.policy, it.nice, it.cpus);
        self.threads().into_iter().map(of).collect()
    }
}

impl Drop for Threaded {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn nothing(_: &Placed) -> io::Result<()> {
    Ok(())
}

fn one_cpu(threaded: &Threaded) -> Option<Cpus> {
    let cpus = &threaded.threads()[0].cpus;
    (cpus.len() > 1).then(|| cpus.iter().take(1).collect())
}

#[test]
fn every_deed_is_undone_exactly_also_on_threads_that_are_born_meanwhile() {
    let mut threaded = Threaded::new();
    let one = one_cpu(&threaded);
    let mut deeds = vec![Deed::Policy(Policy::Batch)];
    // To lower a nice value again takes a right.
    if crate::process::is_root() {
        // Another one than the test itself was started with.
        let own = threaded.threads()[0].nice;
        deeds.push(Deed::Nice(if own == 5 { 6 } else { 5 }));
    }
    deeds.extend(one.iter().flat_map(|one| [Deed::Cpus(one.clone()), Deed::Avoid(one.clone())]));
    for deed in deeds {
        let before = threaded.schedule();
        let tree = Tree::live();
        let mut placed =
            Placed::read(&tree, threaded.pid(), deed.clone(), Vec::new()).expect("reads");
        placed.apply(&tree, &mut nothing).expect("is done");
        assert!(threaded.threads().iter().all(|it| !deed.changes(it)), "{deed:?}");
        threaded.more();
        assert!(threaded.threads().iter().all(|it| !deed.changes(it)), "{deed:?}: a new thread");
        // A new thread's number may be a low one: the kernel begins again at the end of its numbers.
        let split = || -> (Vec<_>, Vec<_>) {
            let was_there = |tid| before.iter().any(|it| it.0 == tid);
            threaded.schedule().into_iter().partition(|it| was_there(it.0))
        };
        assert_ne!(split().0, before, "{deed:?} changes nothing");
        assert!(placed.restore(&tree).expect("is undone").is_nothing());
        let (old, new) = split();
        assert_eq!(old, before, "{deed:?} is not undone");
        let [new] = &new[..] else { panic!("{deed:?}: one new thread, not {new:?}") };
        assert_eq!((new.1, new.2, &new.3), (before[0].1, before[0].2, &before[0].3));
    }
}

#[test]
fn each_thread_is_set_back_to_what_itself_was() {
    let threaded = Threaded::new();
    let Some(one) = one_cpu(&threaded) else { return };
    let own = threaded.threads()[1].tid;
    scheduling::set_cpus(own, &one).expect("is ours");
    scheduling::set_policy(own, Policy::Batch, 0).expect("is ours");
    let before = threaded.schedule();
    let tree = Tree::live();
    for deed in [Deed::Policy(Policy::Batch), Deed::Avoid(one.clone()), Deed::Cpus(one.clone())] {
        let mut placed = Placed::read(&tree, threaded.pid(), deed, Vec::new()).expect("reads");
        placed.apply(&tree, &mut nothing).expect("is done");
        assert!(placed.restore(&tree).expect("is undone").is_nothing());
        assert_eq!(threaded.schedule(), before);
    }
}

#[test]
fn what_somebody_else_has_changed_since_is_left_alone() {
    let threaded = Threaded::new();
    let tree = Tree::live();
    let deed = Deed::Policy(Policy::Batch);
    let mut placed = Placed::read(&tree, threaded.pid(), deed, Vec::new()).expect("reads");
    placed.apply(&tree, &mut nothing).expect("is done");
    let own = threaded.threads()[1].tid;
    scheduling::set_policy(own, Policy::Idle, 0).expect("is ours");
    let left = placed.restore(&tree).expect("is undone");
    assert_eq!(left, Left { others: vec![own], failed: vec![] });
    let policies: Vec<_> = threaded.threads().iter().map(|it| it.policy).collect();
    assert_eq!(policies, [Policy::Other, Policy::Idle, Policy::Other]);
}

#[test]
fn the_record_is_kept_before_any_thread_is_changed() {
    let threaded = Threaded::new();
    let tree = Tree::live();
    let deed = Deed::Policy(Policy::Batch);
    let mut placed = Placed::read(&tree, threaded.pid(), deed, Vec::new()).expect("reads");
    // As if a thread had been born unchanged since it was read.
    let born = placed.threads.pop().expect("three");
    let before = threaded.schedule();
    let mut kept = Vec::new();
    let mut keep = |record: &Placed| {
        let now = threaded.threads();
        let born = now.iter().find(|it| it.tid == born.tid).expect("lives");
        kept.push((record.threads.len(), born.policy));
        Ok(())
    };
    placed.apply(&tree, &mut keep).expect("is done");
    assert_eq!(kept, [(3, Policy::Other)]);
    placed.restore(&tree).expect("is undone");
    // A record that cannot be kept forbids the change.
    let mut placed = Placed { threads: Vec::new(), ..placed };
    let refused = placed.apply(&tree, &mut |_| Err(io::ErrorKind::StorageFull.into()));
    assert_eq!(refused.expect_err("is refused").kind(), io::ErrorKind::StorageFull);
    assert_eq!(threaded.schedule(), before);
}

#[test]
fn a_later_process_of_the_same_number_is_left_alone() {
    let threaded = Threaded::new();
    let tree = Tree::live();
    let deed = Deed::Policy(Policy::Batch);
    let mut placed = Placed::read(&tree, threaded.pid(), deed, Vec::new()).expect("reads");
    placed.apply(&tree, &mut nothing).expect("is done");
    let mut other = Placed { started: placed.started + 1, ..placed };
    assert!(other.restore(&tree).expect("does nothing").is_nothing());
    assert!(threaded.threads().iter().all(|it| it.policy == Policy::Batch));
    assert!(other.apply(&tree, &mut nothing).is_err());
    assert!(threaded.threads().iter().all(|it| it.policy == Policy::Batch));
}

#[test]
fn a_change_that_fails_in_the_middle_changes_nothing() {
    let threaded = Threaded::new();
    let before = threaded.schedule();
    let tree = Tree::live();
    // A set of CPUs that no machine has.
    let nowhere: Cpus = [1000].into_iter().collect();
    let deed = Deed::Cpus(nowhere);
    let mut placed = Placed::read(&tree, threaded.pid(), deed, Vec::new()).expect("reads");
    assert!(placed.apply(&tree, &mut nothing).is_err());
    assert_eq!(threaded.schedule(), before);
}

#[test]
fn only_the_threads_that_are_meant_are_changed() {
    let threaded = Threaded::new();
    let tree = Tree::live();
    let own = threaded.threads()[2].tid;
    let deed = Deed::Policy(Policy::Batch);
    let mut placed = Placed::read(&tree, threaded.pid(), deed, vec![own]).expect("reads");
    assert_eq!(placed.command(), format!("chrt --batch --pid 0 {own}"));
    placed.apply(&tree, &mut nothing).expect("is done");
    let policies: Vec<_> = threaded.threads().iter().map(|it| it.policy).collect();
    assert_eq!(policies, [Policy::Other, Policy::Other, Policy::Batch]);
}

#[test]
fn a_cpu_that_went_offline_is_nobodys_doing() {
    let set = |text: &str| text.parse::<Cpus>().expect("reads");
    let thread = |cpus: &str| Thread { cpus: set(cpus), ..Thread::default() };
    let deed = Deed::Avoid(set("0"));
    let was = thread("0-3");
    assert!(deed.made(&thread("1-3"), &was, None));
    assert!(deed.made(&thread("1-2"), &was, Some(&set("0-2"))));
    assert!(!deed.made(&thread("1-2"), &was, Some(&set("0-3"))));
    assert!(!deed.made(&thread("2"), &was, Some(&set("0-2"))));
}

#[test]
fn commands_are_those_of_an_administrator() {
    let thread = Thread { tid: 7, cpus: "0-3".parse().expect("reads"), ..Thread::default() };
    let command = |deed, only| {
        Placed { pid: 7, started: 1, deed, only, threads: vec![thread.clone()] }.command()
    };
    let core: Cpus = [3].into_iter().collect();
    for (deed, only, want) in [
        (Deed::Policy(Policy::Batch), vec![], "chrt --all-tasks --batch --pid 0 7"),
        (Deed::Nice(-10), vec![], "renice -n -10 -p $(ls /proc/7/task)"),
        (Deed::Nice(-10), vec![8, 9], "renice -n -10 -p 8 9"),
        (Deed::Avoid(core.clone()), vec![], "taskset --all-tasks --cpu-list --pid 0-2 7"),
        (Deed::Cpus(core), vec![8, 9], "for t in 8 9; do taskset --cpu-list --pid 3 $t; done"),
    ] {
        assert_eq!(command(deed, only), want);
    }
}

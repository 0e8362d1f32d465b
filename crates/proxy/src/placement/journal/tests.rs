//! A Flifo that is killed at each step of its work, as the journal and the threads are then; and books that are not
//! believed.

use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command};

use sys::placing::Deed;
use sys::threads::{Policy, Thread};

use super::*;

/// A process whose threads are changed.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Self {
        Self(Command::new("sleep").arg("60").spawn().expect("sleep runs"))
    }

    fn thread(&self) -> Thread {
        let seen = threads::threads(&Tree::live(), self.0.id());
        let thread = seen.known().expect("reads").first().expect("has one").clone();
        // What it has run meanwhile is not of interest.
        Thread { ran: 0, waited: 0, slices: 0, voluntary: 0, involuntary: 0, ..thread }
    }

    fn placed(&self, deed: Deed) -> Change {
        let placed = Placed::read(&Tree::live(), self.0.id(), deed, Vec::new());
        Change::Threads(placed.expect("reads"))
    }

    fn batch(&self) -> Change {
        self.placed(Deed::Policy(Policy::Batch))
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Scene {
    folder: tempfile::TempDir,
    journal: Journal,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("makes");
        let journal = Journal::new(folder.path().join("placement.json"), Tree::live());
        Self { folder, journal }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("placement.json")
    }

    /// The process that wrote the journal is gone.
    fn kill(&self) {
        let text = fs::read_to_string(self.path()).expect("there is a journal");
        let mut page: Page = serde_json::from_str(&text).expect("is whole");
        page.started += 1;
        write(&self.path(), &page).expect("writes");
    }

    fn restore(&self) -> Result<Option<Undone>, JournalError> {
        restore_left(&self.path(), &Tree::live())
    }
}

#[test]
fn a_remedy_is_written_down_made_and_undone_and_the_journal_goes() {
    let (sleeper, mut scene) = (Sleeper::new(), Scene::new());
    let before = sleeper.thread();
    let cpus = before.cpus.iter().take(1).collect();
    let changes = vec![sleeper.batch(), sleeper.placed(Deed::Cpus(cpus))];
    scene.journal.apply("two", changes).expect("are made");
    assert_eq!(sleeper.thread().policy, Policy::Batch);
    assert!(scene.path().exists());
    let undone = scene.journal.undo("two");
    assert_eq!(undone, Undone { changes: 2, ..Undone::default() });
    assert_eq!(sleeper.thread(), before);
    assert!(!scene.path().exists() && scene.journal.undo_all() == Undone::default());
}

#[test]
fn whoever_is_killed_at_any_step_leaves_what_can_be_restored() {
    // Nothing done yet, one of two changes made, all made, one undone again, all undone and the journal still there.
    for step in 0..5 {
        let (one, other) = (Sleeper::new(), Sleeper::new());
        let before = (one.thread(), other.thread());
        let mut scene = Scene::new();
        scene.journal.apply("batch", vec![one.batch(), other.batch()]).expect("are made");
        let made = [(false, false), (true, false), (true, true), (true, false), (false, false)];
        for (sleeper, made) in [(&one, made[step].0), (&other, made[step].1)] {
            if !made {
                sys::scheduling::set_policy(sleeper.0.id(), Policy::Other, 0).expect("is ours");
            }
        }
        scene.kill();
        // One that was killed while it wrote has left a piece of a file.
        fs::write(scene.path().with_extension("new"), "{\"version\":").expect("writes");
        let undone = scene.restore().expect("is believed").expect("is there");
        assert!(undone.failed.is_empty() && undone.others.is_empty(), "{step}: {undone:?}");
        assert_eq!((one.thread(), other.thread()), before, "{step}");
        assert!(!scene.path().exists(), "{step}");
        assert_eq!(scene.restore().expect("nothing to believe"), None, "{step}");
    }
}

#[test]
fn a_remedy_that_fails_in_the_middle_leaves_nothing() {
    let (sleeper, mut scene) = (Sleeper::new(), Scene::new());
    let before = sleeper.thread();
    let nowhere = Deed::Cpus([1000].into_iter().collect());
    let refused = scene.journal.apply("two", vec![sleeper.batch(), sleeper.placed(nowhere)]);
    let Refused { command, is_stuck, .. } = refused.expect_err("there is no such CPU");
    assert!(command.starts_with("taskset") && !is_stuck, "{command}");
    assert_eq!(sleeper.thread(), before);
    assert!(!scene.path().exists());
}

#[test]
fn nothing_is_changed_where_nothing_can_be_written_down() {
    let (sleeper, mut scene) = (Sleeper::new(), Scene::new());
    let before = sleeper.thread();
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(scene.folder.path(), open).expect("is ours");
    let refused =
        scene.journal.apply("batch", vec![sleeper.batch()]).expect_err("is no safe place");
    assert!(refused.error.to_string().contains("placement.state_file"), "{refused:?}");
    assert_eq!(sleeper.thread(), before);
    scene.journal.path = "/proc/nowhere/placement.json".into();
    assert!(scene.journal.apply("batch", vec![sleeper.batch()]).is_err());
    assert_eq!(sleeper.thread(), before);
}

#[test]
fn a_process_that_has_ended_or_is_another_one_needs_nothing() {
    let mut scene = Scene::new();
    let sleeper = Sleeper::new();
    scene.journal.apply("batch", vec![sleeper.batch()]).expect("is made");
    drop(sleeper);
    scene.kill();
    assert_eq!(scene.restore().expect("reads").expect("is there").failed, Vec::<String>::new());
    assert!(!scene.path().exists());
}

#[test]
fn of_a_flifo_that_runs_nothing_is_undone_by_others() {
    let (sleeper, mut scene) = (Sleeper::new(), Scene::new());
    scene.journal.apply("batch", vec![sleeper.batch()]).expect("is made");
    // As if another process had written it that still lives.
    let text = fs::read_to_string(scene.path()).expect("there is a journal");
    let mut page: Page = serde_json::from_str(&text).expect("is whole");
    page.owner = sleeper.0.id();
    page.started = threads::line(&Tree::live(), page.owner).known().expect("lives").started;
    write(&scene.path(), &page).expect("writes");
    assert!(matches!(scene.restore(), Err(JournalError::Busy { .. })));
    assert_eq!(sleeper.thread().policy, Policy::Batch);
    // After the machine was started anew, the same numbers are other processes.
    page.boot = "another".to_owned();
    write(&scene.path(), &page).expect("writes");
    assert_eq!(scene.restore().expect("is believed"), Some(Undone::default()));
    assert_eq!(sleeper.thread().policy, Policy::Batch);
    assert!(!scene.path().exists());
}

#[test]
fn books_that_others_could_have_written_are_not_believed() {
    let (sleeper, mut scene) = (Sleeper::new(), Scene::new());
    scene.journal.apply("batch", vec![sleeper.batch()]).expect("is made");
    scene.kill();
    let path = scene.path();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("is ours");
    assert!(matches!(scene.restore(), Err(JournalError::Foreign { .. })));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("is ours");
    let elsewhere = path.with_extension("elsewhere");
    fs::rename(&path, &elsewhere).expect("is ours");
    std::os::unix::fs::symlink(&elsewhere, &path).expect("links");
    assert!(matches!(scene.restore(), Err(JournalError::Io { .. })));
    fs::remove_file(&path).expect("is ours");
    for garbled in ["", "{}", "{\"version\":1}", "[1]"] {
        fs::write(&path, garbled).expect("writes");
        assert!(matches!(scene.restore(), Err(JournalError::Garbled { .. })), "{garbled}");
    }
    assert_eq!(sleeper.thread().policy, Policy::Batch);
}

#[test]
fn a_thread_that_was_born_unplaced_is_found_by_the_sweep() {
    let (sleeper, mut scene) = (Sleeper::new(), Scene::new());
    scene.journal.apply("batch", vec![sleeper.batch()]).expect("is made");
    // A new thread inherits its policy from its parent. Here the test undoes the policy, which looks the same.
    sys::scheduling::set_policy(sleeper.0.id(), Policy::Other, 0).expect("is ours");
    scene.journal.sweep().expect("is made");
    assert_eq!(sleeper.thread().policy, Policy::Batch);
    drop(sleeper);
    scene.journal.sweep().expect("has nobody left");
}

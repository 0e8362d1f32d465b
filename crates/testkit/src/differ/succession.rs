//! Flifos that take over from each other for as long as a program runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::differ::campaign::Between;
use crate::differ::peer::Door;
use crate::differ::site::Server;
use crate::flifo::{Flifo, take_over};

/// Between two hand-overs clients get on with their programs.
const PAUSE: Duration = Duration::from_millis(100);

/// Flifo, and the next one, and the next.
pub struct ThroughSuccessors {
    program: PathBuf,
    took_over: Arc<AtomicU64>,
    running: Option<Succession>,
}

impl ThroughSuccessors {
    /// `took_over` counts how many Flifos did.
    pub const fn of(program: PathBuf, took_over: Arc<AtomicU64>) -> Self {
        Self { program, took_over, running: None }
    }
}

impl Between for ThroughSuccessors {
    fn door(&mut self, server: &Server, backends: u32) -> Door {
        // Those before are gone before the next one logs in.
        self.running = None;
        let folder = tempfile::tempdir().expect("a folder");
        let console = folder.path().join("console.sock");
        let more = format!("[console]\nlisten = [{console:?}]\n[http]\nlisten = []\n");
        let first = server.flifo_with(&self.program, backends, "", &more);
        let door = server.door_of(&first);
        let stop = Arc::new(AtomicBool::new(false));
        let (program, took_over) = (self.program.clone(), Arc::clone(&self.took_over));
        let told = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut pids = Vec::new();
            while !told.load(Relaxed) {
                thread::sleep(PAUSE);
                pids.push(take_over(&program, &console)?.pid);
                took_over.fetch_add(1, Relaxed);
            }
            Ok(pids)
        });
        self.running = Some(Succession { first, stop, thread: Some(thread), _folder: folder });
        door
    }
}

/// The Flifos of one program.
struct Succession {
    first: Flifo,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Vec<Pid>, String>>>,
    _folder: tempfile::TempDir,
}

impl Drop for Succession {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            // One that hands over, and sees the next one end, serves again: so those before end first.
            Some(Ok(Ok(pids))) => {
                pids.into_iter().filter(|pid| self.is_own(*pid)).for_each(|pid| {
                    // Most have ended by themselves.
                    let _ = kill_process(pid, Signal::KILL);
                })
            }
            Some(Ok(Err(why))) => panic!("{why}\n{}", self.first.log()),
            _ => {}
        }
    }
}

impl Succession {
    /// Whether the process of this number is still one of these.
    fn is_own(&self, pid: Pid) -> bool {
        let socket = self.first.socket();
        let folder = socket.parent().map(|it| it.display().to_string()).unwrap_or_default();
        let line =
            std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
        !folder.is_empty() && String::from_utf8_lossy(&line).contains(&folder)
    }
}

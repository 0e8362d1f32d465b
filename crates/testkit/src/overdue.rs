//! Ends a test that does not end by itself, and prints its name: a run that hangs as a whole does not show which of its
//! tests hangs. A test that fails tells its threads ([`Over`]).
//!
//! Owns a watch over each thread that a test runs on. Does not know what tests do: what nearly all of them begin with
//! (the program, a fake server) asks for the watch.

use std::fs;
use std::io::{self, Write};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use sys::account;

/// No test takes as long, on any machine that has nothing else to do.
const PATIENCE: Duration = Duration::from_secs(1200);

/// How often is looked how busy the machine is: while many more threads want to run than it has CPUs, a test gets less of
/// it, and less of this time counts.
const LOOK: Duration = Duration::from_secs(5);

/// Ends threads that work until a flag is raised. Raises the flag when it is dropped, also if the test fails: a scope
/// of threads waits for all of them.
#[derive(Debug)]
pub struct Over<'a>(pub &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Watches over the test on this thread, from the first call on until the thread ends.
pub fn watch() {
    thread_local!(static WATCH: Sender<()> = begin(PATIENCE));
    WATCH.with(|_| ());
}

/// The watch ends when what is returned is dropped.
fn begin(patience: Duration) -> Sender<()> {
    // The harness calls a test's thread by the test's name.
    let name = thread::current().name().unwrap_or("a thread of a test").to_owned();
    let ((watch, ends), begun) = (mpsc::channel(), Instant::now());
    thread::spawn(move || {
        let (look, mut passed) = (LOOK.min(patience), Duration::ZERO);
        while passed < patience {
            if ends.recv_timeout(look) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
            let cpus = thread::available_parallelism().map_or(1, usize::from);
            passed += counted(look, &load, cpus);
        }
        let (waits, children) = (begun.elapsed().as_secs_f64(), children().join("\n"));
        let said =
            format!("{name} has not ended in {waits:.1} s. What it may wait for:\n{children}\n");
        // Not by a macro: the harness would keep it for the end of the test.
        let _ = io::stderr().write_all(said.as_bytes());
        process::abort();
    });
    watch
}

/// How much of a time counts at this load, the first of the kernel's three averages.
fn counted(time: Duration, load: &str, cpus: usize) -> Duration {
    let running = load.split(' ').next().and_then(|load| load.parse::<f64>().ok()).unwrap_or(0.0);
    time.div_f64((running / cpus as f64).max(1.0))
}

/// The command lines of processes that this one has started and not waited for.
fn children() -> Vec<String> {
    let ours = |pid: &u32| account::stat(*pid).is_ok_and(|stat| stat.parent == process::id());
    let line = |pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let pids = account::pids().unwrap_or_default().into_iter().filter(ours);
    pids.map(|pid| format!("{pid}: {}", line(pid).replace('\0', " ").trim_end())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    const HANGS: &str = "FLIFO_THIS_TEST_HANGS";

    #[test]
    fn a_test_that_hangs_is_named_with_what_it_waits_for() {
        if std::env::var_os(HANGS).is_some() {
            let mut child =
                Command::new("sleep").arg("5.25").stderr(Stdio::null()).spawn().unwrap();
            let _watch = begin(Duration::from_millis(50));
            child.wait().unwrap();
        }
        let name = thread::current().name().unwrap().to_owned();
        let mut again = Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", &name]).env(HANGS, "1");
        again.stdout(Stdio::null()).stderr(Stdio::piped()).stdin(Stdio::null());
        let output = again.spawn().unwrap().wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.signal(), Some(6), "{said}");
        assert!(said.contains(&name) && said.contains(": sleep 5.25"), "{said}");
    }

    #[test]
    fn on_a_busy_machine_less_of_the_time_counts() {
        let second = Duration::from_secs(1);
        assert_eq!(counted(second, "1.90 2.00 3.00 1/200 5", 2), second);
        assert_eq!(counted(second, "20.00 2.00 3.00 1/200 5", 2), second / 10);
        assert_eq!(counted(second, "", 2), second);
    }

    #[test]
    fn one_that_ends_is_let_be() {
        thread::spawn(|| drop(begin(Duration::from_millis(50)))).join().unwrap();
        thread::sleep(Duration::from_millis(200));
    }
}

//! Child processes that end when they should: on request, within a bound, never after their parent.
//!
//! Does not know what the children are. Invariants: a child started here is killed by the kernel
//! when this process ends in any way, SIGKILL included; it has a session of its own, so that Ctrl-C in
//! a terminal reaches only the parent, which decides in which order its children stop, and so that
//! the kernel shares CPU between children as it does between services: with `sched_autogroup`, the
//! threads of one session share what another session gets alone. In one session, a proxy with one
//! thread competes with each thread of its server and its clients, and numbers mean little.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Mutex, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, getppid, kill_process, set_parent_process_death_signal, setsid,
};
use rustix::thread::sched_setaffinity;

use crate::cpus::Cpus;
use crate::scheduling;

/// Starts `command` as a child that cannot outlive this process.
///
/// The kernel ties the promise to the *thread* that forks, not to the process. All children are
/// therefore forked by one thread that never ends; the caller's thread may.
pub fn spawn(command: Command) -> io::Result<Child> {
    static KEEPER: OnceLock<Mutex<mpsc::Sender<Order>>> = OnceLock::new();
    let keeper = KEEPER.get_or_init(|| {
        let (orders, inbox) = mpsc::channel::<Order>();
        // Should the thread not start, its inbox is gone and `send` below reports it.
        let _ = thread::Builder::new().name("children".into()).spawn(move || {
            for Order { mut command, reply } in inbox {
                let _ = reply.send(live_alone_and_not_longer(&mut command).spawn());
            }
        });
        Mutex::new(orders)
    });
    let (reply, answer) = mpsc::channel();
    let order = Order { command, reply };
    let gone = || io::Error::other("the thread that starts children has ended");
    keeper.lock().map_err(|_| gone())?.send(order).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}

/// Has the child of a command run on these CPUs only, from its first instruction on: programs count the CPUs that they
/// have when they begin.
pub fn run_on(command: &mut Command, cpus: &Cpus) -> io::Result<()> {
    let set = scheduling::set_of(cpus)?;
    let bind = move || Ok(sched_setaffinity(None, &set)?);
    // SAFETY: between fork and exec only async-signal-safe functions may run. `bind` makes one plain system call with a
    // set that is ready, and allocates nothing: its error is a number.
    unsafe { command.pre_exec(bind) };
    Ok(())
}

/// Has the child of a command outlive this process: it has a session of its own, and no signal tells it of the end.
pub fn live_on(command: &mut Command) {
    let leave = || Ok(setsid().map(drop)?);
    // SAFETY: as above: `leave` is one plain system call.
    unsafe { command.pre_exec(leave) };
}

/// Asks a child to stop (SIGTERM), and kills it (SIGKILL) if it has not after `grace`.
pub fn stop(child: &mut Child, grace: Duration) -> io::Result<ExitStatus> {
    if let Some(status) = child.try_wait()? {
        return Ok(status);
    }
    signal(child, Signal::TERM)?;
    let deadline = Instant::now() + grace;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        thread::sleep(POLL);
    }
    child.kill()?;
    child.wait()
}

/// Sends a signal to a child that has not been waited for, so the number cannot be another's yet.
fn signal(child: &Child, signal: Signal) -> io::Result<()> {
    Ok(kill_process(Pid::from_child(child), signal)?)
}

fn live_alone_and_not_longer(command: &mut Command) -> &mut Command {
    let parent = std::process::id();
    let tie = move || {
        setsid()?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended between fork and the call above: then no signal will come.
        let orphaned = getppid().is_none_or(|now| now.as_raw_nonzero().get() as u32 != parent);
        if orphaned { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    };
    // SAFETY: between fork and exec only async-signal-safe functions may run. `tie` makes three plain
    // system calls, allocates nothing and takes no lock: its errors are built without a heap.
    unsafe { command.pre_exec(tie) }
}

struct Order {
    command: Command,
    reply: mpsc::Sender<io::Result<Child>>,
}

const POLL: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::Stdio;

    fn sleeper(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).stdin(Stdio::null()).stdout(Stdio::piped());
        spawn(command).expect("sh starts")
    }

    #[test]
    fn a_child_outlives_the_thread_that_asked_for_it() {
        let mut child = thread::spawn(|| sleeper("exec sleep 60")).join().expect("no panic");
        thread::sleep(Duration::from_millis(50));
        assert!(child.try_wait().expect("waits").is_none());
        let status = stop(&mut child, Duration::from_secs(5)).expect("stops");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(15));
    }

    #[test]
    fn a_deaf_child_is_killed_after_its_grace() {
        let mut child = sleeper("trap '' TERM; echo deaf; while :; do sleep 0.05; done");
        let told = child.stdout.as_mut().expect("a pipe").read_exact(&mut [0; 5]);
        told.expect("it says when it is deaf");
        let status = stop(&mut child, Duration::from_millis(100)).expect("stops");
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    }

    #[test]
    fn a_stopped_child_may_be_stopped_again() {
        let mut child = sleeper("exit 3");
        child.wait().expect("ends");
        let status = stop(&mut child, Duration::ZERO).expect("stops");
        assert_eq!(status.code(), Some(3));
    }

    #[test]
    fn a_child_has_its_cpus_before_it_runs_and_a_thread_tells_its_own() {
        let own = scheduling::own_cpus().expect("told");
        let one: Cpus = own.iter().take(1).collect();
        let mut command = Command::new("grep");
        command.args(["Cpus_allowed_list", "/proc/self/status"]).stdout(Stdio::piped());
        run_on(&mut command, &one).expect("a set that the kernel has");
        let output = spawn(command).and_then(Child::wait_with_output).expect("runs");
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(told.split_whitespace().nth(1), Some(one.to_string().as_str()), "{told}");
        assert_eq!(scheduling::own_cpus().expect("told"), own);
    }

    #[test]
    fn a_missing_program_is_an_error_of_the_caller() {
        let missing = spawn(Command::new("/nonexistent/program"));
        assert_eq!(missing.expect_err("does not start").kind(), io::ErrorKind::NotFound);
    }
}

//! A small process beside this one that starts the next one.
//!
//! A process that has given up the right to start programs cannot start its successor. So it has a *keeper*, which it
//! starts before it gives anything up: the same program, in a mode that does one thing. Asked by its socket, it starts
//! one program with the arguments that it was started with, which gets a file as its standard input. It ends when the
//! process that it was started by does. It is asked for nothing else, and takes no other argument: an intruder in the
//! process beside it can start the program that runs there already, as it was started, [`AT_ONCE_MAX`] times at once. That
//! program trusts what it gets no more than this one does: it gives up root before it reads of it.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use crate::passing::{Delivery, Passage};

/// The process that starts the next one.
#[derive(Debug)]
pub struct Keeper(Passage);

/// Set in the environment of a process that a keeper has started: its standard input leads to the one before it.
pub const SUCCEEDS: &str = "FLIFO_SUCCEEDS";

/// So many that it has started live at once: the one that takes over, and those before that could not.
const AT_ONCE_MAX: usize = 4;

/// Starting a program is a matter of milliseconds; on a machine that is very busy, of seconds.
const PATIENCE: Duration = Duration::from_secs(30);

impl Keeper {
    /// Starts one: `program` in its mode as a keeper, which `arguments` ask for. It has the environment, and the output,
    /// of this process.
    pub fn start(program: &Path, arguments: &[OsString]) -> io::Result<Self> {
        let (own, its) = Passage::pair()?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::from(its.into_file()));
        // It is told that this process is gone by the end of its input, and is not waited for.
        drop(command.spawn()?);
        own.wait_at_most(Some(PATIENCE))?;
        Ok(Self(own))
    }

    /// Has it start the next process, with this as its standard input. The answer is its number.
    pub fn start_next(&self, input: &OwnedFd) -> io::Result<u32> {
        self.0.send(b"start", &[input.as_fd()])?;
        let ended = || io::Error::other("the keeper (flifo-keeper) has ended");
        let answer = self.0.receive()?.ok_or_else(ended)?;
        let text = String::from_utf8_lossy(&answer.bytes).into_owned();
        text.parse().map_err(|_| io::Error::other(text))
    }
}

/// Is the keeper of the process at the other end of the standard input, until that ends: starts `program` with
/// `arguments` when it is asked to.
pub fn keep(program: &Path, arguments: &[OsString]) -> io::Result<()> {
    outlive_signals()?;
    // Only a name for people.
    let _ = rustix::thread::set_name(c"flifo-keeper");
    let own = Passage::of(io::stdin().as_fd().try_clone_to_owned()?);
    let living = Arc::new(AtomicUsize::new(0));
    while let Some(Delivery { files, .. }) = own.receive()? {
        let answer = match files.into_iter().next().map(UnixStream::from) {
            Some(_) if living.load(SeqCst) >= AT_ONCE_MAX => {
                Err(io::Error::other(format!("{AT_ONCE_MAX} that it has started have not ended")))
            }
            Some(input) if input.peer_addr().is_ok() => {
                start(program, arguments, input.into(), &living)
            }
            _ => Err(io::Error::other("there is no socket to start it with")),
        };
        let answer = answer.map_or_else(
            |error| format!("{} cannot be started: {error}", program.display()),
            |pid| pid.to_string(),
        );
        own.send(answer.as_bytes(), &[])?;
    }
    Ok(())
}

fn start(
    program: &Path,
    arguments: &[OsString],
    input: OwnedFd,
    living: &Arc<AtomicUsize>,
) -> io::Result<u32> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::from(input)).env(SUCCEEDS, "1");
    // They were meant for the process before; what a supervisor wants to be told stays.
    for variable in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"] {
        command.env_remove(variable);
    }
    let mut child = command.spawn()?;
    let pid = child.id();
    living.fetch_add(1, SeqCst);
    let living = Arc::clone(living);
    // One that ends at once must not stay as a zombie.
    thread::spawn(move || {
        let ended = child.wait();
        living.fetch_sub(1, SeqCst);
        ended
    });
    Ok(pid)
}

/// From now on the end of the input alone ends this process: signals for a whole group of processes, or for all of one
/// name, are for the process that it keeps. A program that is started has its own ways with them again.
fn outlive_signals() -> io::Result<()> {
    extern "C" fn nothing(_: libc::c_int) {}
    for signal in [
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGALRM,
        libc::SIGPIPE,
    ] {
        // SAFETY: all-zero bytes are a valid `sigaction`: no flags, an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: the handler does nothing, so it may run at any point; the old action is not asked for.
        if unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

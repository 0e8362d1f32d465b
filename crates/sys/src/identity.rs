//! One process, told from all others: from those that have its number later, and after the next start of the machine.
//!
//! A number alone is not enough to end a process by. Invariant: a signal goes to the process that was meant, or to none:
//! it goes by a handle (a *pidfd*) that was opened before the start time was compared.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::placing::known;
use crate::tree::Tree;
use crate::{kernel, threads};

/// Which process it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub pid: u32,
    /// When it began, in hundredths of a second since the machine did.
    started: u64,
    /// The start of the machine.
    boot: String,
}

/// What came of a request to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It had ended before it was asked.
    Before,
    Now,
    /// It has not ended in the time that it had.
    NotYet,
}

impl Identity {
    /// Of a process that has this number now.
    pub fn of(pid: u32) -> io::Result<Self> {
        let tree = Tree::live();
        let started = known(threads::line(&tree, pid))?.started;
        Ok(Self { pid, started, boot: kernel::boot(&tree) })
    }

    pub fn has_ended(&self) -> io::Result<bool> {
        match self.open()? {
            Some(process) => has_ended_within(&process, Duration::ZERO),
            None => Ok(true),
        }
    }

    /// Asks it to end (SIGTERM), and waits for that.
    pub fn end(&self, patience: Duration) -> io::Result<Ended> {
        let Some(process) = self.open()? else { return Ok(Ended::Before) };
        if has_ended_within(&process, Duration::ZERO)? {
            return Ok(Ended::Before);
        }
        match pidfd_send_signal(&process, Signal::TERM) {
            Err(Errno::SRCH) => return Ok(Ended::Before),
            sent => sent?,
        }
        Ok(if has_ended_within(&process, patience)? { Ended::Now } else { Ended::NotYet })
    }

    /// A handle of this process and of no other.
    fn open(&self) -> io::Result<Option<OwnedFd>> {
        let number = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let process = match number.map(|pid| pidfd_open(pid, PidfdFlags::empty())) {
            None | Some(Err(Errno::SRCH | Errno::INVAL)) => return Ok(None),
            Some(opened) => opened?,
        };
        let is_same = Self::of(self.pid).is_ok_and(|now| now == *self);
        Ok(is_same.then_some(process))
    }
}

/// A hold on a process, by which its end is seen also where /proc cannot be read any more.
#[derive(Debug)]
pub struct Watched(OwnedFd);

impl Watched {
    /// The process that has this number now. None: there is none.
    pub fn of(pid: u32) -> io::Result<Option<Self>> {
        match i32::try_from(pid)
            .ok()
            .and_then(Pid::from_raw)
            .map(|it| pidfd_open(it, PidfdFlags::empty()))
        {
            None | Some(Err(Errno::SRCH | Errno::INVAL)) => Ok(None),
            Some(opened) => Ok(Some(Self(opened?))),
        }
    }

    pub fn has_ended_within(&self, patience: Duration) -> io::Result<bool> {
        has_ended_within(&self.0, patience)
    }
}

/// A handle can be read when its process has ended, whether its parent has heard of that or not.
fn has_ended_within(process: &OwnedFd, patience: Duration) -> io::Result<bool> {
    let until = Instant::now() + patience;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&left)) {
            Err(Errno::INTR) => {}
            polled => return Ok(polled? > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    fn child() -> Child {
        let command = &mut Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat runs")
    }

    #[test]
    fn a_process_is_asked_to_end_once() {
        let mut child = child();
        let identity = Identity::of(child.id()).expect("it lives");
        assert!(!identity.has_ended().expect("seen"));
        assert_eq!(identity.end(Duration::from_secs(60)).expect("asked"), Ended::Now);
        // Its parent has not waited for it yet.
        let watched = Watched::of(child.id()).expect("opened").expect("it is there");
        assert!(watched.has_ended_within(Duration::ZERO).expect("seen"));
        assert!(identity.has_ended().expect("seen"));
        child.wait().expect("ends");
        assert_eq!(identity.end(Duration::from_secs(60)).expect("asked"), Ended::Before);
        assert!(identity.has_ended().expect("seen"));
    }

    #[test]
    fn another_process_of_the_same_number_is_left_alone() {
        let mut child = child();
        let own = Identity::of(child.id()).expect("it lives");
        for other in [
            Identity { started: own.started + 1, ..own.clone() },
            Identity { boot: "another".to_owned(), ..own.clone() },
        ] {
            assert_eq!(other.end(Duration::ZERO).expect("asked"), Ended::Before);
            assert!(other.has_ended().expect("seen"));
        }
        assert!(!own.has_ended().expect("seen"));
        child.kill().and_then(|()| child.wait()).expect("ends");
    }

    #[test]
    fn a_number_that_no_process_can_have_is_no_process() {
        let identity = Identity { pid: u32::MAX, started: 1, boot: String::new() };
        assert!(identity.has_ended().expect("seen"));
    }
}

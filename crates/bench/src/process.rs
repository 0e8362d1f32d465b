//! A child process that is stopped when it goes out of scope, and whose lines are read as they
//! come.
//!
//! Does not know what the lines mean. Invariants: every wait here has a deadline; a signal to this process ends
//! each wait; the output of a child is read even when it is not used, so that the child never blocks.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::interrupt::Interrupt;

/// A running child.
pub struct Running {
    child: Child,
    name: String,
}

impl Running {
    pub fn start(name: &str, command: Command) -> Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        let child = sys::child::spawn(command)
            .with_context(|| format!("cannot start {name} ({program})"))?;
        Ok(Self { child, name: name.to_owned() })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells how the child ended, if it has.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Ends it at once, without a word to it.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(error) = sys::child::stop(&mut self.child, STOP_MAX) {
            eprintln!("flifo: cannot stop {} (process {}): {error}", self.name, self.pid());
        }
    }
}

/// A running child whose output and complaints arrive here, line by line.
pub struct Talker {
    running: Running,
    lines: mpsc::Receiver<String>,
    deadline: Instant,
}

/// What a [`Talker`] has to say.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    Line(String),
    /// Nothing for the time being.
    Nothing,
    /// It has closed its mouth, and will end.
    End,
}

impl Talker {
    /// Starts a child that must have ended before `limit` has passed.
    pub fn start(name: &str, mut command: Command, limit: Duration) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running::start(name, command)?;
        let (sender, lines) = mpsc::sync_channel(LINES_MAX);
        if let (Some(out), Some(err)) = (running.child.stdout.take(), running.child.stderr.take()) {
            pass_lines(out, sender.clone())?;
            pass_lines(err, sender)?;
        }
        Ok(Self { running, lines, deadline: Instant::now() + limit })
    }

    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// Waits a moment for the next line.
    pub fn listen(&mut self, interrupt: &Interrupt) -> Result<Said> {
        interrupt.check()?;
        if self.deadline < Instant::now() {
            bail!("{} did not end in time and was stopped", self.running.name);
        }
        Ok(match self.lines.recv_timeout(POLL) {
            Ok(line) => Said::Line(line),
            Err(mpsc::RecvTimeoutError::Timeout) => Said::Nothing,
            Err(mpsc::RecvTimeoutError::Disconnected) => Said::End,
        })
    }

    /// Waits for the end, after [`Said::End`].
    pub fn wait(mut self, interrupt: &Interrupt) -> Result<ExitStatus> {
        loop {
            if let Some(status) = self.running.ended()? {
                return Ok(status);
            }
            self.listen(interrupt)?;
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn pass_lines(from: impl Read + Send + 'static, to: mpsc::SyncSender<String>) -> Result<()> {
    let pass = move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        loop {
            line.clear();
            match from.by_ref().take(LINE_MAX).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            if to.send(text).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("lines".into()).spawn(pass)?;
    Ok(())
}

const STOP_MAX: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);
const LINE_MAX: u64 = 4096;
const LINES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    /// Also where the machine is busy.
    const ENOUGH: Duration = Duration::from_mins(2);

    fn shell(script: &str, limit: Duration) -> Talker {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Talker::start("the script", command, limit).expect("starts")
    }

    fn listen_to_the_end(talker: &mut Talker, interrupt: &Interrupt) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        loop {
            match talker.listen(interrupt)? {
                Said::Line(line) => lines.push(line),
                Said::Nothing => {}
                Said::End => return Ok(lines),
            }
        }
    }

    #[test]
    fn output_and_complaints_arrive_line_by_line() {
        let interrupt = Interrupt::never();
        let mut talker = shell("echo out; sleep 0.1; echo err >&2; exit 7", ENOUGH);
        let lines = listen_to_the_end(&mut talker, &interrupt).expect("in time");
        assert_eq!(lines, ["out", "err"]);
        assert_eq!(talker.wait(&interrupt).expect("in time").code(), Some(7));
    }

    #[test]
    fn a_child_that_does_not_end_is_stopped() {
        let interrupt = Interrupt::never();
        let mut talker = shell("exec sleep 60", Duration::from_millis(100));
        let pid = talker.pid();
        let error = listen_to_the_end(&mut talker, &interrupt).expect_err("too late");
        assert_eq!(error.to_string(), "the script did not end in time and was stopped");
        drop(talker);
        assert!(sys::account::stat(pid).is_err());
    }

    #[test]
    fn a_child_that_says_more_than_is_heard_does_not_block_its_stop() {
        let mut talker = shell("yes", ENOUGH);
        let said = loop {
            match talker.listen(&Interrupt::never()).expect("speaks") {
                Said::Nothing => {}
                said => break said,
            }
        };
        assert_eq!(said, Said::Line("y".into()));
    }
}

//! The watcher: a process of its own that makes found processes as they were, if the run cannot.
//!
//! It reads from a pipe which threads are bound, and what they were. When the run ends in any way, SIGKILL included, the
//! kernel closes the pipe, and the watcher undoes what it was told last. Owns both ends of the pipe and the form of its
//! lines. Does not decide what is bound. Invariants: the pipe holds the record of a thread before the thread is bound; a
//! line that was cut off is of threads that were not bound, and is left alone; Ctrl-C and other signals that ask for an
//! end do not reach the watcher, or have no effect on it: it ends with the run.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, Result, ensure};
use sys::placing::Placed;
use sys::tree::Tree;
use tokio::signal::unix::{SignalKind, signal};

/// The run's end of the pipe.
#[derive(Debug)]
pub(super) struct Watcher {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Watcher {
    /// This program once more, which is flifo-bench.
    pub(super) fn start() -> Result<Self> {
        let mut command =
            Command::new(std::env::current_exe().context("cannot find this program")?);
        command.args(["bench", COMMAND]).stdin(Stdio::piped()).stdout(Stdio::piped());
        sys::child::live_on(&mut command);
        let mut child = command.spawn().context("cannot start the watcher")?;
        let pipe = child.stdin.take();
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line).context("the watcher does not speak")?;
        }
        let watcher = Self { child, pipe };
        ensure!(line.trim_end() == READY, "the watcher did not start");
        Ok(watcher)
    }

    /// Tells everything that is bound, in the place of what was told before.
    pub(super) fn keep<'a>(&mut self, all: impl Iterator<Item = &'a Placed>) -> io::Result<()> {
        let mut line = serde_json::to_string(&all.collect::<Vec<_>>())?;
        line.push('\n');
        let ended = || io::Error::new(io::ErrorKind::BrokenPipe, "the watcher has ended");
        self.pipe.as_mut().ok_or_else(ended)?.write_all(line.as_bytes())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.pipe.take());
        // It has nothing to tell that the run does not know.
        let _ = self.child.wait();
    }
}

/// The watcher itself: waits for the end of its input, and undoes what it was told last.
pub fn run() -> Result<()> {
    ignore_signals()?;
    // Nothing listens behind this line.
    let mut out = io::stdout();
    writeln!(out, "{READY}").and_then(|()| out.flush()).context("cannot say that it is ready")?;
    let last = last_told(BufReader::new(io::stdin().lock()));
    let tree = Tree::live();
    for placed in last.iter().rev() {
        match super::binding::restore(&tree, placed) {
            Ok(()) => eprintln!(
                "flifo: the run ended early: process {} has the CPUs that it had before",
                placed.pid
            ),
            Err(why) => eprintln!("flifo: {why}"),
        }
    }
    Ok(())
}

/// The last whole line.
fn last_told(mut input: impl BufRead) -> Vec<Placed> {
    let mut last = Vec::new();
    let mut line = String::new();
    while matches!(input.read_line(&mut line), Ok(length) if 0 < length) {
        if line.ends_with('\n')
            && let Ok(told) = serde_json::from_str(&line)
        {
            last = told;
        }
        line.clear();
    }
    last
}

/// A signal that is listened for does not end a process, also if nothing comes of it.
fn ignore_signals() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
            drop(signal(kind).context("cannot listen for signals")?);
        }
        Ok(())
    })
}

/// The name of the command, which no help shows.
pub const COMMAND: &str = "watch-bindings";
const READY: &str = "ready";

#[cfg(test)]
mod tests {
    use super::*;
    use sys::placing::Deed;

    #[test]
    fn the_last_whole_line_counts() {
        let placed = |pid| Placed {
            pid,
            started: 5,
            deed: Deed::Cpus("1".parse().expect("a set")),
            only: Vec::new(),
            threads: Vec::new(),
        };
        let line = |pids: &[u32]| {
            let all: Vec<_> = pids.iter().map(|pid| placed(*pid)).collect();
            serde_json::to_string(&all).expect("writes") + "\n"
        };
        let told = |text: &str| -> Vec<u32> {
            last_told(text.as_bytes()).iter().map(|placed| placed.pid).collect()
        };
        let (one, two) = (line(&[7]), line(&[7, 8]));
        let cut = &two[..two.len() - 1];
        for (text, want) in [
            (String::new(), &[][..]),
            (one.clone(), &[7]),
            (format!("{one}{two}"), &[7, 8]),
            (format!("{one}{cut}"), &[7]),
            (format!("{two}nonsense\n"), &[7, 8]),
            (format!("{two}{}", line(&[])), &[]),
        ] {
            assert_eq!(told(&text), want, "{text}");
        }
    }
}

//! Programs whose lines are read as they come, and kept in a file to look for a cause later.
//!
//! Does not know what the lines mean. Invariant: a program ends within its time or is stopped.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bench::interrupt::Interrupt;
use bench::process::{Said, Talker};

/// Runs a command that must succeed, and returns what it said: its end, if that was much.
pub(crate) fn run(name: &str, command: Command, interrupt: &Interrupt) -> Result<String> {
    run_within(TIME_MAX, name, command, interrupt)
}

/// The same, for a command that may take longer than others.
pub(crate) fn run_within(
    limit: Duration,
    name: &str,
    command: Command,
    interrupt: &Interrupt,
) -> Result<String> {
    let mut said = String::new();
    let status = listen(limit, name, command, interrupt, |line| {
        if SAID_MAX < said.len() {
            said.clear();
        }
        said.push_str(line);
        said.push('\n');
        Ok(())
    })?;
    ensure!(status.success(), "{name} failed ({status}): {}", said.trim());
    Ok(said)
}

/// Runs a command and writes its lines to a file, too.
pub(crate) fn follow(
    name: &str,
    command: Command,
    file: &Path,
    interrupt: &Interrupt,
    mut hear: impl FnMut(&str),
) -> Result<ExitStatus> {
    let cannot = || format!("cannot write {}", file.display());
    let mut copy = BufWriter::new(File::create(file).with_context(cannot)?);
    let status = listen(TIME_MAX, name, command, interrupt, |line| {
        hear(line);
        writeln!(copy, "{line}").with_context(cannot)
    })?;
    copy.flush().with_context(cannot)?;
    Ok(status)
}

fn listen(
    limit: Duration,
    name: &str,
    command: Command,
    interrupt: &Interrupt,
    mut hear: impl FnMut(&str) -> Result<()>,
) -> Result<ExitStatus> {
    let mut talker = Talker::start(name, command, limit)?;
    loop {
        match talker.listen(interrupt)? {
            Said::Line(line) => hear(&line)?,
            Said::Nothing => {}
            Said::End => return talker.wait(interrupt),
        }
    }
}

const TIME_MAX: Duration = Duration::from_secs(600);
const SAID_MAX: usize = 4000;

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_failure_quotes_what_was_said() {
        let never = Interrupt::never();
        assert_eq!(run("it", shell("echo 8.2"), &never).expect("succeeds"), "8.2\n");
        let error = run("it", shell("echo no such package; exit 3"), &never).expect_err("fails");
        assert!(error.to_string().ends_with("3): no such package"), "{error}");
    }

    #[test]
    fn lines_are_heard_and_kept() {
        let folder = tempfile::tempdir().expect("makes");
        let file = folder.path().join("log");
        let mut heard = Vec::new();
        let hear = |line: &str| heard.push(line.to_owned());
        let script = shell("echo a; echo b; exit 1");
        let status = follow("it", script, &file, &Interrupt::never(), hear).expect("runs");
        assert_eq!((heard, status.code()), (vec!["a".to_owned(), "b".to_owned()], Some(1)));
        assert_eq!(std::fs::read_to_string(file).expect("is there"), "a\nb\n");
    }
}

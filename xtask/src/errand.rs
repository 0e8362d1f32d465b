//! A program that is run to its end for its effect: a client with a file to read or to write.
//!
//! Does not know what the program does. Invariants: it ends within its time or is stopped, as it is
//! on Ctrl-C; if it fails, the error quotes what it complained about.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bench::interrupt::Interrupt;
use bench::process::Running;

/// Runs `command`, whose standard input and output the caller has set; returns how long it took.
/// Its complaints go to a file in `folder`. Calls `tick` some times a second.
pub(crate) fn run(
    name: &str,
    mut command: Command,
    folder: &Path,
    limit: Duration,
    interrupt: &Interrupt,
    mut tick: impl FnMut(),
) -> Result<Duration> {
    let complaints = folder.join("complaints.txt");
    command.stderr(File::create(&complaints).context("cannot make a file for complaints")?);
    let begin = Instant::now();
    let mut running = Running::start(name, command)?;
    let status = loop {
        if let Some(status) = running.ended()? {
            break status;
        }
        if limit < begin.elapsed() {
            bail!("{name} did not end within {limit:?} and was stopped");
        }
        tick();
        interrupt.sleep(POLL)?;
    };
    let time = begin.elapsed();
    let said = fs::read(&complaints).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    ensure!(status.success(), "{name} failed ({status}): {}", shorten(said.trim()));
    Ok(time)
}

/// The beginning: what a client complains of later may follow from its first error.
fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(SHOWN_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

const POLL: Duration = Duration::from_millis(10);
const SHOWN_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<Duration> {
        let folder = bench::folder::Folder::create()?;
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run("the script", command, folder.path(), limit, &Interrupt::never(), || {})
    }

    #[test]
    fn a_failure_quotes_the_complaint() {
        let minute = Duration::from_secs(60);
        assert!(shell("echo fine >&2", minute).is_ok());
        let error = shell("echo no such table >&2; exit 3", minute).expect_err("fails");
        let text = error.to_string();
        assert!(text.contains("the script failed (exit status: 3): no such table"), "{text}");
    }

    #[test]
    fn what_takes_too_long_is_stopped() {
        let error = shell("exec sleep 60", Duration::from_millis(30)).expect_err("too slow");
        assert!(error.to_string().contains("did not end within 30ms"), "{error}");
    }
}

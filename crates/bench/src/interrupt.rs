//! Turns Ctrl-C and its kin into an error at the next check, so that what was started is stopped.
//!
//! Stops nothing itself. Invariants: after the first signal every [`Interrupt::check`] fails; a
//! second one ends the process at once, and the kernel then kills its children; but while something
//! of the machine is changed, the second only tells what is still to be undone, and the third ends
//! the process and tells what it leaves behind.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use tokio::signal::unix::{SignalKind, signal};

/// The user asked us to stop. The error of a run that did as it was told.
#[derive(Clone, Copy, Debug)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted: everything that was started has been stopped")
    }
}

impl std::error::Error for Interrupted {}

#[derive(Clone, Debug)]
pub struct Interrupt {
    asked: Arc<AtomicBool>,
    changes: Changes,
}

/// What is changed on the machine and will be undone, in words for the user.
#[derive(Clone, Debug, Default)]
pub struct Changes(Arc<Mutex<Vec<String>>>);

impl Changes {
    pub fn begin(&self, name: &str) {
        self.list().push(name.to_owned());
    }

    /// To be called when it is undone, or was found to be impossible to undo.
    pub fn end(&self, name: &str) {
        let mut list = self.list();
        if let Some(at) = list.iter().rposition(|it| it == name) {
            list.remove(at);
        }
    }

    fn list(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        // A list of texts is whole after each step of its changing.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Interrupt {
    /// Listens for signals from now on, for the rest of the process's life.
    pub fn listen() -> Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        let (ready, listening) = mpsc::channel();
        let changes = Changes::default();
        let (flag, seen) = (Arc::clone(&asked), changes.clone());
        thread::Builder::new()
            .name("signals".into())
            .spawn(move || wait_for_signals(&flag, &seen, &ready))
            .context("cannot start the thread that waits for signals")?;
        listening.recv().map_err(|_| anyhow!("cannot listen for signals"))??;
        Ok(Self { asked, changes })
    }

    /// One that no signal sets, for callers that leave signals to their defaults.
    pub fn never() -> Self {
        Self { asked: Arc::default(), changes: Changes::default() }
    }

    pub fn changes(&self) -> &Changes {
        &self.changes
    }

    /// As a signal would.
    pub(crate) fn raise(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    pub fn check(&self) -> Result<()> {
        if self.asked.load(Ordering::Relaxed) { Err(Interrupted.into()) } else { Ok(()) }
    }

    /// Sleeps, but not through a signal.
    pub fn sleep(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        loop {
            self.check()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(POLL));
        }
    }
}

fn wait_for_signals(asked: &AtomicBool, changes: &Changes, ready: &mpsc::Sender<Result<()>>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return drop(ready.send(Err(error.into()))),
    };
    runtime.block_on(async {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [mut interrupt, mut terminate, mut hangup] = match kinds.map(signal) {
            [Ok(a), Ok(b), Ok(c)] => [a, b, c],
            [a, b, c] => {
                let error = [a, b, c].into_iter().find_map(Result::err);
                let error = error.expect("one of the three has failed");
                return drop(ready.send(Err(error.into())));
            }
        };
        let _ = ready.send(Ok(()));
        for count in 1_u32.. {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            asked.store(true, Ordering::Relaxed);
            match answer(count, &changes.list()) {
                Answer::Stop => {}
                Answer::Say(text) => eprintln!("flifo: {text}"),
                Answer::Exit(text) => {
                    text.iter().for_each(|text| eprintln!("flifo: {text}"));
                    std::process::exit(EXIT_INTERRUPTED);
                }
            }
        }
    });
}

/// What a signal is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    /// Everybody sees the flag.
    Stop,
    Say(String),
    Exit(Option<String>),
}

fn answer(signal: u32, changes: &[String]) -> Answer {
    let list = changes.join(", ");
    match (signal, changes.is_empty()) {
        (1, _) => Answer::Stop,
        (_, true) => Answer::Exit(None),
        (2, false) => {
            Answer::Say(format!("still undoing: {list}; a third signal leaves it as it is"))
        }
        (_, false) => Answer::Exit(Some(format!("not undone, please do it by hand: {list}"))),
    }
}

const POLL: Duration = Duration::from_millis(20);
/// What shells report of a program that Ctrl-C ended.
const EXIT_INTERRUPTED: i32 = 130;

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn only_the_third_signal_leaves_changes_behind_and_names_them() {
        let changes = Changes::default();
        for name in ["a", "b", "a"] {
            changes.begin(name);
        }
        changes.end("a");
        let left = changes.list().clone();
        assert_eq!(left, ["a", "b"]);
        assert_eq!([answer(1, &left), answer(1, &[])], [Answer::Stop, Answer::Stop]);
        assert!(matches!(answer(2, &left), Answer::Say(text) if text.contains("undoing: a, b;")));
        assert!(matches!(answer(3, &left), Answer::Exit(Some(text)) if text.ends_with(": a, b")));
        assert_eq!(answer(2, &[]), Answer::Exit(None));
    }

    #[test]
    fn a_signal_ends_a_sleep() {
        let interrupt = Interrupt::listen().expect("listens");
        interrupt.sleep(Duration::from_millis(1)).expect("no signal yet");
        let me = std::process::id().to_string();
        assert!(Command::new("kill").args(["-TERM", &me]).status().expect("runs").success());
        let error = interrupt.sleep(Duration::from_secs(20)).expect_err("a signal came");
        assert!(error.is::<Interrupted>(), "{error}");
    }
}

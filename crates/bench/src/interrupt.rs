//! Turns Ctrl-C and its kin into an error at the next check, so that what was started is stopped.
//!
//! Stops nothing itself. Invariant: after the first signal every [`Interrupt::check`] fails; a
//! second signal ends the process at once, and the kernel then kills its children.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
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
}

impl Interrupt {
    /// Listens for signals from now on, for the rest of the process's life.
    pub fn listen() -> Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        let (ready, listening) = mpsc::channel();
        let flag = Arc::clone(&asked);
        thread::Builder::new()
            .name("signals".into())
            .spawn(move || wait_for_signals(&flag, &ready))
            .context("cannot start the thread that waits for signals")?;
        listening.recv().map_err(|_| anyhow!("cannot listen for signals"))??;
        Ok(Self { asked })
    }

    /// One that no signal sets, for callers who leave signals to their defaults.
    pub fn never() -> Self {
        Self { asked: Arc::default() }
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

fn wait_for_signals(asked: &AtomicBool, ready: &mpsc::Sender<Result<()>>) {
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
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            if asked.swap(true, Ordering::Relaxed) {
                std::process::exit(EXIT_INTERRUPTED);
            }
        }
    });
}

const POLL: Duration = Duration::from_millis(20);
/// What shells report of a program that Ctrl-C ended.
const EXIT_INTERRUPTED: i32 = 130;

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

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

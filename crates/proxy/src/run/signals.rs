//! What signals ask of Flifo. No signal ends it but those that ask it to stop.
//!
//! Invariant: each signal that would end a process by default, and that is no sign of a fault or of a limit of the
//! machine, has a handler before the first client is accepted.

use std::io;

use rustix::process::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that are waited for.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// By default it leaves a core dump, in which passwords would be.
    quit: Signal,
    hangup: Signal,
    first: Signal,
    second: Signal,
}

impl Signals {
    /// From now on no signal ends Flifo at once. Needs a runtime around it.
    pub(crate) fn catch() -> io::Result<Self> {
        // They ask for nothing. The last one comes when a log grows beyond a limit: its write fails, no more.
        for number in
            [Number::ALARM, Number::VTALARM, Number::PROF, Number::IO, Number::POWER, Number::XFSZ]
        {
            drop(signal(SignalKind::from_raw(number.as_raw()))?);
        }
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hangup: signal(SignalKind::hangup())?,
            first: signal(SignalKind::user_defined1())?,
            second: signal(SignalKind::user_defined2())?,
        })
    }

    /// Waits until Flifo is asked to stop, and does what other signals ask for meanwhile.
    pub(crate) async fn stop(&mut self, hang_up: impl AsyncFn()) {
        let nothing = |name| {
            tracing::info!(
                "{name}: nothing is done at this signal; SIGHUP reopens the logs and reads the configuration again"
            );
        };
        loop {
            tokio::select! {
                biased;
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.quit.recv() => return,
                _ = self.hangup.recv() => hang_up().await,
                _ = self.first.recv() => nothing("SIGUSR1"),
                _ = self.second.recv() => nothing("SIGUSR2"),
            }
        }
    }
}

//! A thread that computes the answers to queries, so that a costly one keeps nothing else of the console and of the HTTP
//! port waiting: `/health` is answered by another thread.
//!
//! One answer is computed at a time. Invariants: how much an answer may cost is bounded ([`view::sql`]); so is how many
//! wait; and behind each the thread rests, so that questions without an end leave the machine to statements.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;

use tokio::sync::oneshot;
use view::sql::SqlError;

use crate::worker::steps::step;
use crate::worker::tasks;

/// So many wait.
const WAITING_MAX: usize = 64;

type Computation = Box<dyn FnOnce() + Send>;

pub(super) struct Queries(SyncSender<Computation>);

impl Queries {
    /// Starts the thread, which rests for so many times as long as an answer has taken.
    pub(super) fn start(name: &str, rest: u32) -> io::Result<Self> {
        let (sender, asked) = sync_channel::<Computation>(WAITING_MAX);
        let builder = thread::Builder::new().name(name.to_owned()).stack_size(view::sql::STACK);
        tasks::thread(builder, move || {
            while let Ok(work) = asked.recv() {
                let begun = crate::worker::clock::read();
                // It is logged, and the visitor is told.
                let _ = catch_unwind(AssertUnwindSafe(work));
                thread::sleep(crate::worker::clock::since(begun) * rest);
            }
        })?;
        Ok(Self(sender))
    }

    /// Has this computed. An error is what the visitor is told.
    pub(super) async fn ask<R: Send + 'static>(
        &self,
        compute: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, SqlError> {
        let (tell, answer) = oneshot::channel();
        let work = Box::new(move || {
            step!("query");
            // It may not be awaited any longer.
            let _ = tell.send(compute());
        });
        let refused = |message: String| SqlError { code: 1040, sqlstate: b"08004", message };
        match self.0.try_send(work) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                let message = format!("Too many queries: {WAITING_MAX} wait already; try again");
                return Err(refused(message));
            }
            Err(TrySendError::Disconnected(_)) => return Err(refused("Flifo ends".to_owned())),
        }
        let fault = || "Flifo met a fault of its own; its log has it as ERROR".to_owned();
        answer.await.map_err(|_| SqlError { code: 1105, sqlstate: b"HY000", message: fault() })
    }
}

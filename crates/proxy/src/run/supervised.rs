//! What the supervisor is told of a running Flifo, and when: it serves, it reads its configuration again, it stops, its
//! workers are alive.
//!
//! Invariant: a beat is told only when every worker has answered in an iteration of its loop. So a supervisor that
//! watches ends a Flifo in which one of them is stuck.

use std::time::Duration;

use sys::supervisor::{Message, Supervisor};
use tokio::sync::oneshot;

use crate::admin::reload::ReloadStage;
use crate::config::{Listen, Plan};
use crate::state::shared::Shared;

/// How much longer than `limits.stop` a stop may take: logs are written, the machine is put back as it was.
const STOP_MARGIN: Duration = Duration::from_secs(10);

/// Tells it.
pub(crate) struct Reports(Supervisor);

impl Reports {
    pub(crate) const fn new(supervisor: Supervisor) -> Self {
        Self(supervisor)
    }

    pub(crate) fn serving(&self, shared: &Shared) {
        self.tell(Message::Ready(&serving(shared)));
    }

    fn reloading(&self) {
        self.tell(Message::Reloading);
    }

    /// How far a reload is.
    pub(crate) fn tell_of_reload(&self, shared: &Shared, stage: ReloadStage<'_>) {
        match stage {
            ReloadStage::Begins => self.reloading(),
            ReloadStage::Ended(why) => self.reloaded(shared, why),
        }
    }

    /// `why` nothing has changed, if so: it serves as before.
    fn reloaded(&self, shared: &Shared, why: Option<&str>) {
        match why {
            None => self.serving(shared),
            Some(why) => {
                self.tell(Message::Ready(&format!("the configuration was not read again: {why}")));
            }
        }
    }

    /// It may take so long until no client is left.
    pub(crate) fn stopping(&self, limit: Duration) {
        self.tell(Message::Stopping(limit.saturating_add(STOP_MARGIN)));
    }

    /// Another process serves what this one has served.
    pub(crate) fn succeeded_by(&self, pid: u32) {
        self.tell(Message::Successor(pid));
    }

    /// Tells for ever that the workers are alive, if the supervisor watches.
    pub(crate) async fn beat(&self, shared: &Shared) {
        let Some(rhythm) = self.0.beat() else { return std::future::pending().await };
        let ask = || (0..shared.worker_count()).map(|worker| shared.ask(worker, |_| ())).collect();
        beats(rhythm, ask, || self.tell(Message::Beat)).await;
    }

    fn tell(&self, message: Message<'_>) {
        if let Err(error) = self.0.tell(message) {
            tracing::warn!(%error, ?message, "the supervisor (NOTIFY_SOCKET) could not be told");
        }
    }
}

/// Tells in this rhythm for ever; each time, all that are asked have answered.
async fn beats(rhythm: Duration, ask: impl Fn() -> Vec<oneshot::Receiver<()>>, tell: impl Fn()) {
    let mut beats = tokio::time::interval(rhythm);
    beats.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        beats.tick().await;
        for answer in ask() {
            // A worker that has ended is not stuck.
            let _ = answer.await;
        }
        tell();
    }
}

/// One line of what is served, and where.
fn serving(shared: &Shared) -> String {
    let servers = shared.cluster.servers.iter().map(|server| server.address.to_string());
    line(&shared.plan(), servers)
}

fn line(plan: &Plan, servers: impl Iterator<Item = String>) -> String {
    let listen = plan.listen.iter().map(Listen::to_string).collect::<Vec<_>>().join(", ");
    format!("serving on {listen}, in front of {}", servers.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[test]
    fn a_worker_that_does_not_answer_is_waited_for() {
        let (asked, told) = (Cell::new(0), Cell::new(0));
        let stuck = RefCell::new(Vec::new());
        let ask = || {
            asked.set(asked.get() + 1);
            let (ends, answers) = oneshot::channel::<()>();
            let (answer, other) = oneshot::channel();
            // One worker has ended, the other answers twice.
            drop(ends);
            match asked.get() {
                1 | 2 => answer.send(()).expect("is waited for"),
                _ => stuck.borrow_mut().push(answer),
            }
            vec![answers, other]
        };
        let tell = || told.set(told.get() + 1);
        let is_stuck = async {
            while stuck.borrow().is_empty() {
                tokio::task::yield_now().await;
            }
            // What the beats would do next, they may.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async {
            tokio::select! {
                biased;
                () = beats(Duration::from_millis(1), ask, tell) => {}
                () = is_stuck => {}
            }
        });
        assert_eq!((asked.get(), told.get()), (3, 2));
    }

    #[test]
    fn the_status_says_where_and_in_front_of_what() {
        let text = "listen = [\"127.0.0.1:1\", \"/run/flifo/flifo.sock\"]";
        let (plan, _) = crate::config::parse(text, "test").expect("a plan");
        let servers = ["db1:3306".to_owned(), "db2:3306".to_owned()].into_iter();
        let want = "serving on 127.0.0.1:1, /run/flifo/flifo.sock, in front of db1:3306, db2:3306";
        assert_eq!(line(&plan, servers), want);
    }
}

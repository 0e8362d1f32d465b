//! Writes whose connection is lost: the server may still be at work for them.
//!
//! They count as under way until the server's list of processes has the session no more or shows it asleep, the server
//! has been started since, or another server is written to in its place. Invariant: a write is not taken for ended while
//! its session may change a row that a reply could be read from.

use std::rc::Rc;
use std::time::{Duration, Instant};

use backend::login::LoggedIn;
use engine::account::name::UserName;
use wire::handshake::UTF8MB4;

use crate::cluster::dial;
use crate::cluster::servers::ServerId;
use crate::state::worker::Worker;
use crate::state::writes::Writes;

/// How often it is asked whether a session has ended, and how long its writes count as under way if that is not told.
const LOOK: Duration = Duration::from_millis(200);
const UNTOLD: Duration = Duration::from_secs(3600);

/// A session that was lost.
struct Lost {
    server: ServerId,
    /// As whom its server can be asked.
    name: Option<UserName>,
    thread: u32,
    at: Instant,
    /// When its server had been started, as far as that was known then.
    started: Option<u64>,
}

/// Has these writes end when the server has ended their session.
pub(super) fn await_end(
    worker: &Rc<Worker>,
    server: ServerId,
    name: Option<UserName>,
    thread: u32,
    writes: Writes,
) {
    let started = worker.shared.cluster.server(server).facts.started();
    let lost = Lost { server, name, thread, at: crate::worker::clock::now(), started };
    let worker = Rc::clone(worker);
    crate::worker::tasks::vital(async move {
        let mut was_asleep = false;
        while lost.elapsed() < UNTOLD && !lost.is_replaced(&worker) {
            tokio::time::sleep(LOOK).await;
            match lost.look(&worker).await {
                Seen::Ended => break,
                // Between two statements that were sent together it sleeps as well, but never for long.
                Seen::Asleep if was_asleep => break,
                seen => was_asleep = seen == Seen::Asleep,
            }
        }
        let now = worker.shared.changes.alterations.now();
        if writes.defines {
            worker.shared.changes.alterations.add();
        }
        writes.end(now);
    });
}

impl Lost {
    #[expect(clippy::disallowed_methods, reason = "a task of its own, which looks now and then")]
    fn elapsed(&self) -> Duration {
        crate::worker::clock::read().saturating_duration_since(self.at)
    }

    /// Whether clients write to another server by now: what this one writes is in no reply any more.
    fn is_replaced(&self, worker: &Worker) -> bool {
        let members = worker.shared.cluster.of(self.server);
        let is_other = members.writer().is_some_and(|writer| writer != self.server);
        is_other
            && !members.is_writer(self.server)
            && worker.shared.cluster.routes(members.id).is_some()
    }

    /// Asks the server for the session. If it has been started since, the number may be another session's.
    async fn look(&self, worker: &Worker) -> Seen {
        let Some(name) = &self.name else { return Seen::Unknown };
        let user = worker.shared.proofs.users.get(name);
        let Some(credential) = user.and_then(|user| user.credential()) else {
            return Seen::Unknown;
        };
        let server = worker.shared.cluster.server(self.server);
        let dialer = &worker.shared.cluster.dialer;
        let reader = dialer.log_in_as(server, name, &credential, dial::POOLED, UTF8MB4).await;
        let Ok(mut reader) = reader else { return Seen::Unknown };
        let within = worker.plan().limits.connect;
        let seen = tokio::time::timeout(within, self.ask(&mut reader)).await;
        let _ = tokio::time::timeout(LOOK, reader.leave()).await;
        seen.ok().flatten().unwrap_or(Seen::Unknown)
    }

    async fn ask(&self, reader: &mut LoggedIn) -> Option<Seen> {
        let thread = self.thread;
        let text =
            format!("SELECT ID, COMMAND FROM information_schema.PROCESSLIST WHERE ID={thread}");
        let rows = reader.rows(&text).await.ok()?;
        let Some((_, command)) = rows.first() else { return Some(Seen::Ended) };
        // Nothing is at work, and what is open can only be rolled back.
        let seen = if command == b"Sleep" { Seen::Asleep } else { Seen::Unknown };
        let is_of_later = |times: ServerTimes| times.are_of_later(self.started, self.elapsed());
        match times(reader).await.is_some_and(is_of_later) {
            true => Some(Seen::Ended),
            false => Some(seen),
        }
    }
}

/// What a server says of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Ended,
    Asleep,
    /// It is at work, or not told of.
    Unknown,
}

/// What a server says of its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServerTimes {
    /// Seconds since 1970.
    now: u64,
    /// Seconds since it was started.
    uptime: u64,
}

impl ServerTimes {
    /// The second in which it was started. It is the same whenever it is asked for, also if the server's clock is set.
    pub(crate) const fn started(self) -> u64 {
        self.now.saturating_sub(self.uptime)
    }

    /// Whether the server was started when a session had been lost, so long ago. `known`: when it had been started, as
    /// was known then.
    fn are_of_later(self, known: Option<u64>, lost: Duration) -> bool {
        // It is told in whole seconds.
        let is_later = Duration::from_secs(self.uptime.saturating_add(1)) < lost;
        is_later || known.is_some_and(|known| known != self.started())
    }
}

/// Asks a server. `None`: it does not say.
pub(crate) async fn times(reader: &mut LoggedIn) -> Option<ServerTimes> {
    let schema = if reader.is_mariadb { "information_schema" } else { "performance_schema" };
    let text = format!(
        "SELECT UNIX_TIMESTAMP(), VARIABLE_VALUE FROM {schema}.GLOBAL_STATUS WHERE VARIABLE_NAME='UPTIME'"
    );
    let rows = reader.rows(&text).await.ok()?;
    let (now, uptime) = rows.first()?;
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse().ok();
    Some(ServerTimes { now: number(now)?, uptime: number(uptime)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_was_started_again_has_ended_all_sessions() {
        let is_later = |now, uptime, known, lost| {
            let times = ServerTimes { now, uptime };
            times.are_of_later(known, Duration::from_millis(lost))
        };
        // It has run for longer than the session is lost.
        assert!(!is_later(1000, 500, Some(500), 3000) && !is_later(1000, 500, None, 3000));
        // Its start is known to be another one.
        assert!(is_later(1000, 1, Some(998), 1300) && is_later(1000, 3, Some(900), 1300));
        // It is not known, and may be just before or just behind the loss.
        assert!(!is_later(1000, 1, None, 1300) && is_later(1000, 1, None, 2300));
    }
}

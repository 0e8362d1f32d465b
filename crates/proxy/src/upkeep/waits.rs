//! Statements that wait for locks: the server is asked which ones do, and those leave their slots.
//!
//! From outside, a statement that waits for a row looks like one that computes. The server knows which connections wait,
//! and for which other one, and tells a user with `PROCESS`: it is asked as the user that checks log in as. It tells each
//! user how many wait: if that is all, it is asked as a user whose statement seems stuck, and no more of those that seem
//! stuck leave their slots. It is asked on a connection of its own, and only while a statement seems stuck and another
//! one waits for a slot.
//!
//! Not known where only the number is told: locks that waiters of *another* Flifo or of direct clients wait for are
//! counted as well, so with those in the server one that computes may be parked in their stead.

use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

use backend::login::LoggedIn;

use crate::cluster::checks;
use crate::cluster::dial::NoBackend;
use crate::cluster::servers::ServerId;
use crate::pool::keys::KeyId;
use crate::pool::opener;
use crate::road::admit::{self, Waits};
use crate::state::local::Local;
use crate::state::worker::Worker;

/// How often the server is asked how many wait, while something seems stuck.
const PERIOD: Duration = Duration::from_millis(20);

/// How long at least, and how much longer at most, between two questions which ones. InnoDB answers from a copy, and makes
/// a new one only if none has read that for 0.1 s: one that asks more often always gets the same answer. So may those get
/// that ask beside others, each of them in step. So the time is another one each time; and the number decides how many are
/// parked, this only which ones come first.
const PERIOD_OF_THREADS: Duration = Duration::from_millis(130);
const PERIOD_VARIES: Duration = Duration::from_millis(300);

/// After so long in which nothing did, the connection is closed.
const QUIET: Duration = Duration::from_secs(1);

/// If the server does not tell, it is not asked again for so long.
const REPENT: Duration = Duration::from_secs(10);

/// MariaDB: statements that wait for a row, and those of the same user that wait for a table, for metadata or for a
/// lock with a name.
const MARIADB: &str = "SELECT \
    (SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS \
    WHERE VARIABLE_NAME='INNODB_ROW_LOCK_CURRENT_WAITS'),\
    (SELECT COUNT(*) FROM information_schema.PROCESSLIST \
    WHERE STATE LIKE 'Waiting for %lock' OR STATE='User lock')";

/// MySQL's.
const MYSQL: &str = "SELECT \
    (SELECT VARIABLE_VALUE FROM performance_schema.global_status \
    WHERE VARIABLE_NAME='Innodb_row_lock_current_waits'),\
    (SELECT COUNT(*) FROM performance_schema.processlist \
    WHERE STATE LIKE 'Waiting for %lock' OR STATE='User lock')";

/// Which connections wait, and for which other ones that do not wait themselves. MariaDB's.
const MARIADB_THREADS: &str = "SELECT r.trx_mysql_thread_id,COALESCE(h.holder,0) FROM information_schema.innodb_trx r \
    LEFT JOIN (SELECT w.requesting_trx_id AS waiter, b.trx_mysql_thread_id AS holder \
    FROM information_schema.innodb_lock_waits w JOIN information_schema.innodb_trx b \
    ON b.trx_id=w.blocking_trx_id AND b.trx_state<>'LOCK WAIT') h ON h.waiter=r.trx_id \
    WHERE r.trx_state='LOCK WAIT' UNION SELECT ID,0 FROM information_schema.PROCESSLIST \
    WHERE STATE LIKE 'Waiting for %lock' OR STATE='User lock'";

/// MySQL's.
const MYSQL_THREADS: &str = "SELECT r.trx_mysql_thread_id,COALESCE(h.holder,0) FROM information_schema.innodb_trx r \
    LEFT JOIN (SELECT w.requesting_engine_transaction_id AS waiter, b.trx_mysql_thread_id AS holder \
    FROM performance_schema.data_lock_waits w JOIN information_schema.innodb_trx b \
    ON b.trx_id=w.blocking_engine_transaction_id AND b.trx_state<>'LOCK WAIT') h ON h.waiter=r.trx_id \
    WHERE r.trx_state='LOCK WAIT' UNION SELECT ID,0 FROM performance_schema.processlist \
    WHERE STATE LIKE 'Waiting for %lock' OR STATE='User lock'";

/// Bytes of numbers that a server may answer with.
const BYTES_MAX: usize = 1 << 20;

/// So many holders of locks are named at most.
const NAMED: usize = 4;

/// Begins to watch each server where a statement seems stuck while another one waits for a slot.
pub(crate) fn look(worker: &Rc<Worker>) {
    for local in worker.locals().filter(|local| !local.is_watched.get()) {
        let Some(key) = admit::stuck(worker, local, &Waits::Number) else { continue };
        local.is_watched.set(true);
        let (worker, server) = (Rc::clone(worker), local.server.id);
        crate::worker::tasks::vital(async move {
            let local = worker.at(server);
            if let Err(error) = watch(&worker, local, key).await {
                tracing::warn!(
                    server = local.server.name,
                    %error,
                    "statements seem to wait for locks, and the server does not tell how many: they keep their \
                     slots (server.parking)"
                );
                tokio::time::sleep(REPENT).await;
            }
            local.lock_holders.borrow_mut().clear();
            local.is_watched.set(false);
        });
    }
}

async fn watch(worker: &Rc<Worker>, local: &Local, key: KeyId) -> Result<(), NoBackend> {
    let mut asked = match Asked::of_threads(worker, local).await {
        Some(asked) => asked,
        None => Asked::of_number(worker, local, key).await?,
    };
    let (mut quiet, mut said) = (Duration::ZERO, Said::default());
    while quiet <= QUIET && !worker.is_stopping() {
        quiet += PERIOD;
        // The error of a statement that is held back names the holder of the lock.
        let is_told = asked.threads.is_some();
        let holds_back = || local.gate.borrow().has_parked() && local.gate.borrow().has_aside();
        let is_due = is_told && quiet >= QUIET && holds_back();
        if is_due || admit::stuck(worker, local, &asked.which).is_some() {
            let waits = match asked.ask(worker).await {
                Ok(waits) => waits,
                // It has taken the right away, or more wait than it is to tell.
                Err(_) if asked.threads.is_some() => {
                    asked = Asked::of_number(worker, local, key).await?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            local.server.slots.see_waits(waits);
            admit::park_stuck_at(worker, local, &asked.which);
            admit::work_off(worker);
            if said.threads != asked.holders {
                said.threads.clone_from(&asked.holders);
                said.text = name_holders(worker, local.server.id, &asked.holders).await;
                local.lock_holders.borrow_mut().clone_from(&said.text);
            }
            if local.gate.borrow().has_parked() {
                said.say(local, waits, is_told);
            }
            quiet = Duration::ZERO;
        }
        tokio::time::sleep(PERIOD).await;
        crate::worker::clock::tick();
    }
    Ok(())
}

/// What has been said of holders.
#[derive(Default)]
struct Said {
    threads: BTreeSet<u32>,
    text: String,
    /// So many answers came while statements were parked.
    answers: u32,
    is_said: bool,
}

/// After so many answers it is said that statements wait, although no holder is known.
const ANSWERS_WITHOUT_HOLDER: u32 = 50;

impl Said {
    /// Says once that statements wait: when the holder is known, if the server may tell it.
    fn say(&mut self, local: &Local, waits: u32, is_told: bool) {
        self.answers += 1;
        let may_be_told = is_told && self.text.is_empty();
        if self.is_said || may_be_told && self.answers < ANSWERS_WITHOUT_HOLDER {
            return;
        }
        self.is_said = true;
        let holder = match self.text.as_str() {
            "" => "not known: let the user that checks log in as (checks.user) have PROCESS",
            holders => holders,
        };
        tracing::warn!(
            server = local.server.name,
            waits,
            holder,
            "statements wait for locks in the server: they leave their slots, and those that would wait with them \
             are held back"
        );
    }
}

/// A connection on which a server is asked what waits, and what it has told last.
struct Asked {
    backend: LoggedIn,
    number: &'static str,
    /// What tells which ones wait, and when it is to be asked again.
    threads: Option<(&'static str, Option<Instant>)>,
    which: Waits,
    /// Connections that others wait for, and that do not wait themselves.
    holders: BTreeSet<u32>,
}

impl Asked {
    /// One that tells which ones wait. `None`: no user is known that may ask.
    async fn of_threads(worker: &Rc<Worker>, local: &Local) -> Option<Self> {
        let plan = worker.plan();
        let (user, password) =
            checks::account(&plan, plan.governing(&local.server.cluster).checks)?;
        let backend = checks::log_in(&worker.shared.cluster, &local.server, user, password);
        let backend = tokio::time::timeout(plan.limits.connect, backend).await.ok()?.ok()?;
        let mut asked = Self::on(backend);
        let text = if asked.backend.is_mariadb { MARIADB_THREADS } else { MYSQL_THREADS };
        asked.threads = Some((text, None));
        match asked.ask_which(worker).await {
            Ok(()) => Some(asked),
            Err(_) => {
                asked.backend.quit().await;
                None
            }
        }
    }

    /// One that tells how many do, as a client's user.
    async fn of_number(worker: &Rc<Worker>, local: &Local, key: KeyId) -> Result<Self, NoBackend> {
        Ok(Self::on(opener::log_in(&worker.pool, &local.server, key).await?))
    }

    fn on(backend: LoggedIn) -> Self {
        let number = if backend.is_mariadb { MARIADB } else { MYSQL };
        Self { backend, number, threads: None, which: Waits::Number, holders: BTreeSet::new() }
    }

    /// How many wait. Which ones is asked as well, when that may be known anew.
    async fn ask(&mut self, worker: &Rc<Worker>) -> Result<u32, NoBackend> {
        if let Some((_, due)) = self.threads
            && due.is_none_or(|due| due <= crate::worker::clock::now())
        {
            self.ask_which(worker).await?;
        }
        Ok(waits(&self.rows(worker, self.number).await?))
    }

    async fn ask_which(&mut self, worker: &Rc<Worker>) -> Result<(), NoBackend> {
        let Some((text, _)) = self.threads else { return Ok(()) };
        let rows = self.rows(worker, text).await?;
        let (which, holders) = threads(&rows);
        let share = f64::from(sys::random::number()) / f64::from(u32::MAX);
        let pause = PERIOD_OF_THREADS + PERIOD_VARIES.mul_f64(share);
        self.threads = Some((text, Some(crate::worker::clock::now() + pause)));
        (self.which, self.holders) = (Waits::Of(which), holders);
        Ok(())
    }

    async fn rows(
        &mut self,
        worker: &Rc<Worker>,
        text: &str,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>, NoBackend> {
        let limit = worker.plan().limits.connect;
        let rows = tokio::time::timeout(limit, self.backend.rows_within(text, BYTES_MAX));
        Ok(rows.await.map_err(|_| NoBackend::Late("limits.connect", limit))??.rows)
    }
}

fn number(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Rows of a connection that waits, and one that it waits for: the former, and those that hold what others wait for.
fn threads(rows: &[(Vec<u8>, Vec<u8>)]) -> (HashSet<u32>, BTreeSet<u32>) {
    let which = rows.iter().filter_map(|(thread, _)| number(thread)).collect();
    let holders = rows.iter().filter_map(|(_, holder)| number(holder)).filter(|it| *it > 0);
    (which, holders.collect())
}

/// The numbers of one row, together.
fn waits(rows: &[(Vec<u8>, Vec<u8>)]) -> u32 {
    let both = rows.first().map(|(rows, others)| [number(rows), number(others)]);
    both.into_iter().flatten().flatten().fold(0, u32::saturating_add)
}

/// Which clients these connections are, in words.
async fn name_holders(worker: &Rc<Worker>, server: ServerId, threads: &BTreeSet<u32>) -> String {
    let mut names = Vec::new();
    for thread in threads.iter().copied().take(NAMED) {
        let mut name = None;
        for other in 0..worker.shared.worker_count() {
            let told = worker.shared.ask(other, move |worker| name_holder(worker, server, thread));
            name = name.or(told.await.ok().flatten());
        }
        names.push(name.unwrap_or_else(|| {
            format!("connection {thread} of the server, which no client of Flifo has, holds it")
        }));
    }
    if threads.len() > NAMED {
        names.push(format!("{} more hold others", threads.len() - NAMED));
    }
    names.join("; ")
}

fn name_holder(worker: &Rc<Worker>, server: ServerId, thread: u32) -> Option<String> {
    let clients = worker.clients.borrow();
    let holder = clients.values().find(|client| {
        client.backend().is_some_and(|it| it.server == server && it.thread_id == thread)
    })?;
    let user = String::from_utf8_lossy(holder.user.borrow().as_bytes()).into_owned();
    let state = holder.state().name();
    Some(format!("client {} of user {user:?} holds it, and is {state}", holder.id))
}

#[cfg(test)]
mod tests {
    use super::{threads, waits};

    fn told(first: &str, second: &str) -> u32 {
        waits(&[(first.as_bytes().to_vec(), second.as_bytes().to_vec())])
    }

    #[test]
    fn what_is_no_number_is_nobody() {
        assert_eq!(told("3", "2"), 5);
        assert_eq!(told("", "2"), 2);
        assert_eq!(told("-1", "many"), 0);
        assert_eq!(told("4294967295", "7"), u32::MAX);
        assert_eq!(waits(&[]), 0);
    }

    #[test]
    fn each_connection_that_waits_is_told_once() {
        let row = |waits: &str, holds: &str| (waits.as_bytes().to_vec(), holds.as_bytes().to_vec());
        let (which, holders) =
            threads(&[row("7", "3"), row("7", "4"), row("8", "3"), row("9", ""), row("x", "0")]);
        assert_eq!((which.len(), holders.into_iter().collect()), (3, vec![3, 4]));
    }
}

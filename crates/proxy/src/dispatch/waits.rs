//! Statements that wait for locks: the server is asked how many do, and so many of those that seem stuck leave their
//! slots.
//!
//! From outside, a statement that waits for a row looks like one that computes. The server knows how many wait, and
//! tells every user. It is asked on a connection of its own, as a user whose statement seems stuck, and only while one
//! does and another statement waits for a slot.
//!
//! Not known here: locks that waiters of *another* Flifo or of direct clients wait for are counted as well, so with
//! those in the server one that computes may be parked in their stead.

use std::rc::Rc;
use std::time::Duration;

use crate::cluster::dial::NoBackend;
use crate::dispatch::admit;
use crate::dispatch::local::Local;
use crate::dispatch::worker::Worker;
use crate::pool::keys::KeyId;
use crate::pool::opener;

/// How often the server is asked while something seems stuck.
const PERIOD: Duration = Duration::from_millis(20);

/// After so many periods in which nothing did, the connection is closed.
const QUIET: u32 = 50;

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

/// Begins to watch each server where a statement seems stuck while another one waits for a slot.
pub(crate) fn look(worker: &Rc<Worker>) {
    for local in worker.locals().filter(|local| !local.is_watched.get()) {
        let Some(key) = admit::stuck(worker, local) else { continue };
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
            local.is_watched.set(false);
        });
    }
}

async fn watch(worker: &Rc<Worker>, local: &Local, key: KeyId) -> Result<(), NoBackend> {
    let mut backend = opener::log_in(&worker.pool, &local.server, key).await?;
    let text = if backend.is_mariadb { MARIADB } else { MYSQL };
    let limit = worker.plan().limits.connect;
    let mut quiet = 0;
    while quiet < QUIET && !worker.is_stopping() {
        quiet += 1;
        if admit::stuck(worker, local).is_some() {
            let rows = tokio::time::timeout(limit, backend.rows(text)).await;
            let rows = rows.map_err(|_| NoBackend::Late("limits.connect", limit))??;
            local.server.slots.see_waits(waits(&rows));
            admit::park_stuck_at(worker, local);
            admit::work_off(worker);
            quiet = 0;
        }
        tokio::time::sleep(PERIOD).await;
        crate::worker::clock::tick();
    }
    Ok(())
}

/// The numbers of one row, together.
fn waits(rows: &[(Vec<u8>, Vec<u8>)]) -> u32 {
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u32>().ok();
    let both = rows.first().map(|(rows, others)| [number(rows), number(others)]);
    both.into_iter().flatten().flatten().fold(0, u32::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::waits;

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
}

//! Room for one more backend where the server has no connection left, or Flifo no descriptor: an idle backend gives
//! way, of any user, in this worker or in another.
//!
//! Invariants: only backends that no client waits for are closed; each attempt closes one at most, and waits until the
//! server may have noticed; no client waits longer than `limits.connect` for it.

use std::time::Duration;

use crate::cluster::dial::NoBackend;
use crate::cluster::servers::{Server, ServerId};
use crate::pool::Pool;

/// How long the server may take to notice that a backend has been closed: asked again after the first, and from then on
/// after twice the time, until the last.
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(64);

/// Where no backend can be closed, a client that has just left may still count at the server for so long.
const GRACE: Duration = Duration::from_millis(100);

/// A worker's turn takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(1);

/// Tries to get what needs a new connection. Where there is no room for one, idle backends are closed until there is.
pub(crate) async fn with_room<T>(
    pool: &Pool,
    server: &Server,
    attempt: impl AsyncFn() -> Result<T, NoBackend>,
) -> Result<T, NoBackend> {
    let begun = crate::worker::clock::read();
    let mut pause = PAUSE_MAX;
    loop {
        let error = match attempt().await {
            Err(error) if error.lacks_room() => error,
            other => return other,
        };
        let waited = crate::worker::clock::since(begun);
        if waited >= pool.cluster.plan().limits.connect {
            return Err(error);
        }
        if pause < PAUSE_MAX {
            pause *= 2;
        } else if make(pool, server.id).await || waited < GRACE {
            pause = PAUSE_MIN;
        } else {
            return Err(error);
        }
        tokio::time::sleep(pause).await;
    }
}

/// Has an idle backend to this server closed: here, or else in another worker. False: there is none.
pub(crate) async fn make(pool: &Pool, server: ServerId) -> bool {
    for worker in pool.nearest_first() {
        let closed = pool.close_idle(worker, server);
        if matches!(tokio::time::timeout(PATIENCE, closed).await, Ok(Ok(true))) {
            return true;
        }
    }
    false
}

//! Tries on a connection of its own what a server's `COM_RESET_CONNECTION` leaves, before a backend of a server that
//! reports nothing goes from one client to the next. What is tried is decided by [`engine::trial`].
//!
//! Invariant: the connection serves no client; whatever is not as it should be makes the reset unclean.

use std::rc::Rc;

use backend::login::{LoggedIn, LoginError};
use engine::trial::{self, Left, TrialAnswer};

use crate::cluster::dial::NoBackend;
use crate::cluster::servers::ServerId;
use crate::pool::Pool;
use crate::pool::keys::{Key, KeyId};
use crate::pool::opener;
use crate::pool::room::with_room;

/// Whether a session of this key's user has nothing left when it was reset. Remembered by the server's facts.
pub(crate) async fn run(pool: &Pool, server: ServerId, key: KeyId) {
    let server = pool.cluster.server(server);
    let name: Rc<Key> = pool.keys.borrow().get(key);
    if !server.facts.reports.may_try(&name.user) {
        return;
    }
    let tried = try_reset(pool, server, key).await;
    let (is_clean, why) = match tried {
        Ok(None) => (true, "it leaves nothing".to_owned()),
        Ok(Some(left)) => (false, format!("it may leave {left}")),
        Err(error) => (false, error.to_string()),
    };
    server.facts.reports.see_trial(is_clean);
    tracing::info!(
        server = %server.address,
        user = %name.user,
        is_clean,
        why,
        "tried what a reset leaves on a server that reports no changes of session state"
    );
}

/// What a reset leaves, or may leave.
async fn try_reset(
    pool: &Pool,
    server: &crate::cluster::servers::Server,
    key: KeyId,
) -> Result<Option<&'static str>, NoBackend> {
    let limit = pool.cluster.plan().limits.connect;
    let mut logged_in =
        with_room(pool, server, async || opener::log_in(pool, server, key).await).await?;
    let found = tokio::time::timeout(limit, leave_and_look(&mut logged_in)).await;
    let found = found.map_err(|_| NoBackend::Late("limits.connect", limit))?;
    logged_in.quit().await;
    Ok(found?)
}

async fn leave_and_look(session: &mut LoggedIn) -> Result<Option<&'static str>, LoginError> {
    if ask(session, trial::ROLE).await? != TrialAnswer::Refused {
        return Ok(Some("a role"));
    }
    let TrialAnswer::Text(schema) = ask(session, trial::SCHEMA).await? else {
        return Ok(Some("a temporary table"));
    };
    let tag = u64::from(sys::random::number()) << 32 | u64::from(session.thread_id);
    let mut left = Vec::new();
    for trace in trial::traces(&schema, tag) {
        match trace.is_left(&ask(session, &trace.leave).await?) {
            Left::No => {}
            Left::Unclean => return Ok(Some(trace.name)),
            Left::Yes if !trace.is_there(&ask(session, &trace.look).await?) => {
                return Ok(Some(trace.name));
            }
            Left::Yes => left.push(trace),
        }
    }
    match session.reset().await {
        Ok(()) => {}
        Err(LoginError::Refused { .. }) => return Ok(Some("everything")),
        Err(error) => return Err(error),
    }
    for trace in left {
        if !trace.is_gone(&ask(session, &trace.look).await?) {
            return Ok(Some(trace.name));
        }
    }
    Ok(None)
}

async fn ask(session: &mut LoggedIn, text: &str) -> Result<TrialAnswer, LoginError> {
    match session.text(text).await {
        Ok(Some(text)) => Ok(TrialAnswer::Text(text)),
        Ok(None) => Ok(TrialAnswer::Nothing),
        Err(LoginError::Refused { .. }) => Ok(TrialAnswer::Refused),
        Err(error) => Err(error),
    }
}

//! Opens backends: for waiting clients, for a client's login, for a single order.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

use backend::Stream;
use backend::login::{Credential, Greeted, LoggedIn, LoginError};
use engine::rights::Era;
use engine::session::alone;
use engine::session_variables::SessionVariables;
use wire::Capabilities;

use crate::cluster::dial::{NoBackend, POOLED};
use crate::cluster::servers::{Server, ServerId};
use crate::pool::Pool;
use crate::pool::keys::{Key, KeyId};
use crate::pool::room::with_room;

/// Has the server report what it can of changes to a session. What it cannot is read off the statements.
pub(crate) const TRACK: &str = "SET SESSION session_track_system_variables='*', session_track_schema=ON, \
    session_track_state_change=ON, session_track_transaction_info='CHARACTERISTICS'";

/// What a session of MySQL's has anew when it is reset: the server's own, in the place of the login's.
const RENEWED: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN \
    ('character_set_client','character_set_results','collation_connection')";

/// The variable that bounds the server's prepared statements.
const STATEMENTS_MAX: &str = "max_prepared_stmt_count";

/// A connection that has been opened for clients of this key.
pub(crate) struct Opened {
    pub(crate) server: ServerId,
    pub(crate) key: KeyId,
    pub(crate) thread_id: u32,
    pub(crate) stream: Stream,
    pub(crate) capabilities: Capabilities,
    /// When its login began, and in which era: rights that have changed since are not the ones that it has.
    pub(crate) begun: Instant,
    pub(crate) era: Era,
    /// Whether its server reports changes of its session.
    pub(crate) reports: bool,
    /// What its session is, and what that is after a reset.
    pub(crate) fresh: Rc<SessionVariables>,
    pub(crate) renewed: Rc<SessionVariables>,
}

/// Connects and reads the greeting. Where there is no room for a connection, idle backends give way.
pub(crate) async fn greeted(
    pool: &Pool,
    server: &Server,
    client: Option<SocketAddr>,
) -> Result<Greeted, NoBackend> {
    with_room(pool, server, async || pool.cluster.dialer.greeted_once(server, client).await).await
}

/// Opens a connection for clients of this key. Its places under the caps have been taken.
pub(crate) async fn pooled(pool: &Pool, server: &Server, key: KeyId) -> Result<Opened, NoBackend> {
    let (era, begun) = (pool.rights.eras.now(), crate::worker::clock::read());
    let mut logged_in = with_room(pool, server, async || log_in(pool, server, key).await).await?;
    let limit = pool.cluster.plan().limits.connect;
    let ask = async {
        let reports = track(&mut logged_in).await?;
        server.facts.reports.see(reports, &server.address);
        let question =
            format!("{} OR Variable_name='{STATEMENTS_MAX}'", SessionVariables::question());
        let rows = match logged_in.rows(&question).await {
            // Another make may have no such variables: then nothing is compared, and no backend is used again.
            Err(LoginError::Refused { .. }) if !reports => Vec::new(),
            rows => rows?,
        };
        let renewed = match logged_in.is_mariadb || !reports {
            true => Vec::new(),
            false => logged_in.rows(RENEWED).await?,
        };
        Ok::<_, NoBackend>((reports, rows, renewed))
    };
    let answers = tokio::time::timeout(limit, ask).await;
    let (reports, rows, renewed) =
        answers.map_err(|_| NoBackend::Late("limits.connect", limit))??;
    let rows = || rows.iter().map(|(name, value)| (&name[..], &value[..]));
    let renewed = || renewed.iter().map(|(name, value)| (&name[..], &value[..]));
    if let Some((_, max)) = rows().find(|(name, _)| *name == STATEMENTS_MAX.as_bytes())
        && let Some(max) = std::str::from_utf8(max).ok().and_then(|max| max.parse().ok())
    {
        server.facts.learn_statements_max(max);
    }
    let intern = |settings| pool.interned.borrow_mut().intern(settings);
    let fresh = intern(SessionVariables::from_rows(rows()));
    // Of two values for a name, the first counts.
    let renewed = intern(SessionVariables::from_rows(renewed().chain(rows())));
    let LoggedIn { talk, thread_id, capabilities, .. } = logged_in;
    let (stream, _) = talk.into_parts();
    pool.user_of(key, |user| user.rights.confirmed.confirm(era, begun));
    Ok(Opened {
        server: server.id,
        key,
        thread_id,
        stream,
        capabilities,
        begun,
        era,
        reports,
        fresh,
        renewed,
    })
}

/// Has the server report changes of the session. False: it does not, whatever it has said in its greeting.
pub(crate) async fn track(logged_in: &mut LoggedIn) -> Result<bool, LoginError> {
    if !logged_in.capabilities.has(Capabilities::SESSION_TRACK) {
        return Ok(false);
    }
    for text in [TRACK, PROVE] {
        match logged_in.changes(text).await {
            Ok(changes) if alone::shows_reports(&changes) => return Ok(true),
            Ok(_) => {}
            Err(LoginError::Refused { code, .. }) if NOT_KNOWN.contains(&code) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// What any server that reports must report, should it leave out the variables that say what it reports.
const PROVE: &str = "SET SESSION sql_mode=@@SESSION.sql_mode";

/// The server does not know the variables, or the syntax. Other errors lie in the account, or pass.
const NOT_KNOWN: [u16; 6] = [1064, 1105, 1193, 1231, 1235, 1238];

/// Logs in as the user of this key.
pub(crate) async fn log_in(pool: &Pool, server: &Server, id: KeyId) -> Result<LoggedIn, NoBackend> {
    let user = pool.keys.borrow().user(id).cloned().ok_or(NoBackend::NoCredential)?;
    let key: Rc<Key> = pool.keys.borrow().get(id);
    let mut capabilities = key.capabilities | POOLED;
    if !key.capabilities.has(Capabilities::DEPRECATE_EOF) {
        capabilities = capabilities.without(Capabilities::DEPRECATE_EOF);
    }
    let dialer = &pool.cluster.dialer;
    let attempt = async |credential: &Credential| {
        dialer.log_in_as(server, &key.user, credential, capabilities, key.collation).await
    };
    let logged_in =
        user.log_in(attempt).await.inspect_err(|error| user.see_failure(&key.user, error))?;
    if user.trust().is_some() && !logged_in.has_proved_sha2 {
        return Err(NoBackend::NoProof);
    }
    Ok(logged_in)
}

/// Runs one statement on a backend of its own, as the user of this key.
pub(crate) async fn run_once(
    pool: &Pool,
    server: ServerId,
    key: KeyId,
    text: &str,
) -> Result<(), NoBackend> {
    let server = pool.cluster.server(server);
    let mut logged_in = with_room(pool, server, async || log_in(pool, server, key).await).await?;
    let limit = pool.cluster.plan().limits.connect;
    let run = tokio::time::timeout(limit, logged_in.run(text));
    match run.await.map_err(|_| NoBackend::Late("limits.connect", limit))? {
        // The thread to be killed may be gone already.
        Err(LoginError::Refused { code: 1094, .. }) => Ok(()),
        other => Ok(other?),
    }
}

//! Opens links: for those who wait for one, for a client's login, for a single order.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use engine::account::name::{Brand, Unsure, UserName};
use engine::link_state::LinkState;
use engine::settings::Settings;
use link::login::{Credential, Greeted, LoggedIn, LoginError, Request};
use wire::Capabilities;
use wire::handshake::Greeting;

use crate::arrive::learnt;
use crate::fault::{Fault, Kind};
use crate::links::keys::{Key, KeyId};
use crate::links::moves;
use crate::links::room::with_room;
use crate::links::supply;
use crate::links::{self, Link};
use crate::road::admit;
use crate::road::route;
use crate::servers::{Local, Server, ServerId};
use crate::worker::Worker;

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoLink {
    #[error("it cannot be reached: {0}")]
    Unreachable(std::io::Error),
    #[error(
        "Flifo may open no more files: raise LimitNOFILE= in its unit (ulimit -n), or lower clients_max and \
         server.links_max"
    )]
    NoDescriptor,
    #[error("it did not answer within {0} ({1:?})")]
    Late(&'static str, Duration),
    #[error("{0}")]
    Login(#[from] LoginError),
    #[error(
        "no password is known for the user: the one that was known is right no longer, or only its hash is known, and \
         no client has proved it yet"
    )]
    NoCredential,
    #[error("it lets the user in without a proof of the password by caching_sha2_password")]
    NoProof,
    #[error(
        "it shows the user's account (SHOW CREATE USER) in a way that Flifo does not understand, so that it is not known \
         what the account demands; set the user's mode to \"carried\""
    )]
    NoTerms,
    #[error("{0}")]
    Name(#[from] Unsure),
    #[error("it does not report changes of session state; set the user's mode to \"carried\"")]
    NoTracking,
}

impl NoLink {
    /// Whether one more connection is what there is no room for, at the server or here.
    pub(crate) const fn lacks_room(&self) -> bool {
        match self {
            Self::NoDescriptor => true,
            Self::Login(LoginError::Refused { code, .. }) => *code == TOO_MANY_CONNECTIONS,
            _ => false,
        }
    }

    /// Whether the server has too much to do: a wrong password says nothing of that, nor does a dead server.
    const fn is_distress(&self) -> bool {
        let code = match self {
            Self::Login(LoginError::Refused { code, .. }) => *code,
            _ => 0,
        };
        matches!(self, Self::Late(..)) || code == TOO_MANY_CONNECTIONS
    }

    /// Whether another server might do, because this one does not answer.
    const fn speaks_against_server(&self) -> bool {
        let is_shutting_down = match self {
            Self::Login(LoginError::Refused { code, .. }) => *code == SHUTTING_DOWN,
            Self::Login(LoginError::Talk(_)) => true,
            _ => false,
        };
        is_shutting_down || matches!(self, Self::Unreachable(_) | Self::Late(..))
    }

    /// What a client is told.
    pub(crate) fn fault(&self, server: &Server) -> Fault {
        if let Self::Login(LoginError::Refused { code, sqlstate, message }) = self {
            return Fault::relayed(*code, sqlstate, message);
        }
        let message = format!("Flifo has no link to the server at {}: {self}", server.address);
        Fault::new(Kind::ServerUnreachable, message)
    }
}

/// By whose rules the server that greeted so reads names.
pub(crate) fn brand(greeting: &Greeting) -> Brand {
    if greeting.is_mariadb() { Brand::MariaDb } else { Brand::MySql }
}

/// The server's own refusal, `ER_CON_COUNT_ERROR`.
pub(crate) const TOO_MANY_CONNECTIONS: u16 = 1040;

/// `ER_SERVER_SHUTDOWN`.
const SHUTTING_DOWN: u16 = 1053;

/// What a pooled link asks for beyond what its clients have.
pub(crate) const POOLED: Capabilities = Capabilities(
    Capabilities::LONG_PASSWORD.0
        | Capabilities::LONG_FLAG.0
        | Capabilities::PROTOCOL_41.0
        | Capabilities::TRANSACTIONS.0
        | Capabilities::SECURE_CONNECTION.0
        | Capabilities::PLUGIN_AUTH.0
        | Capabilities::LENENC_AUTH.0
        | Capabilities::CONNECT_ATTRS.0
        | Capabilities::SESSION_TRACK.0
        // Else what a SELECT has changed would be told with the next statement, which may be another client's.
        | Capabilities::DEPRECATE_EOF.0,
);

/// Has the server report what it can of changes to a session. What it cannot is read off the statements.
pub(crate) const TRACK: &str = "SET SESSION session_track_system_variables='*', session_track_schema=ON, \
    session_track_state_change=ON, session_track_transaction_info='CHARACTERISTICS'";

/// What a session of MySQL's has anew when it is reset: the server's own, in the place of the login's.
const RENEWED: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN \
    ('character_set_client','character_set_results','collation_connection')";

/// The variable that bounds the server's prepared statements.
const STATEMENTS_MAX: &str = "max_prepared_stmt_count";

/// Connects and reads the greeting. Where there is no room for a connection, idle links give way.
pub(crate) async fn greeted(
    worker: &Worker,
    server: &Server,
    client: Option<SocketAddr>,
) -> Result<Greeted, NoLink> {
    with_room(worker, server, async || greeted_once(worker, server, client).await).await
}

/// Connects and reads the greeting, within the time that is allowed.
pub(crate) async fn greeted_once(
    worker: &Worker,
    server: &Server,
    client: Option<SocketAddr>,
) -> Result<Greeted, NoLink> {
    let limit = worker.plan.limits.connect;
    let connect = async {
        let stream = server.place.dial().await.map_err(not_dialled)?;
        if !worker.shared.descriptors.admit_link(stream.descriptor()) {
            return Err(NoLink::NoDescriptor);
        }
        crate::arrive::proxy_protocol::send(worker, &stream, client)
            .await
            .map_err(NoLink::Unreachable)?;
        link::login::greet(stream).await.map_err(NoLink::from)
    };
    let greeted = match tokio::time::timeout(limit, connect).await {
        Ok(greeted) => greeted,
        Err(_) => Err(NoLink::Late("limits.connect", limit)),
    };
    server.facts.see(&greeted);
    let greeted = greeted?;
    server.facts.learn(&greeted.greeting);
    Ok(greeted)
}

/// Why there is no connection. That Flifo has no descriptor left does not speak against the server.
fn not_dialled(error: std::io::Error) -> NoLink {
    match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => NoLink::NoDescriptor,
        _ => NoLink::Unreachable(error),
    }
}

/// Opens a link for those of this key who wait. Its places under the caps have been taken.
pub(crate) fn open(worker: &Rc<Worker>, server: ServerId, key: KeyId) {
    let worker = Rc::clone(worker);
    tokio::task::spawn_local(async move {
        let local = worker.at(server);
        let opened = pooled(&worker, &local.server, key).await;
        match opened {
            Ok(link) => {
                link.is_left_behind.set(moves::is_left_behind(&local.server, &link));
                local.gate.borrow_mut().opened(key);
                worker.counters.links_opened.add(1);
                worker.add_link(&link);
                supply::put(&worker, key, &link);
                tokio::task::spawn_local(links::serve(Rc::clone(&worker), link));
            }
            Err(error) => failed(&worker, local, key, &error),
        }
        admit::pump(&worker, server);
    });
}

/// No link could be opened: if there is no other one either, those who wait are told why.
fn failed(worker: &Rc<Worker>, local: &Local, key: KeyId, error: &NoLink) {
    let server = &local.server;
    worker.counters.links_failed.add(1);
    supply::give_back_place(worker, key);
    let user = worker.keys.borrow().get(key).user.clone();
    tracing::warn!(server = %server.address, %user, %error, "no link");
    learnt::link_refused(worker, server.id, key, error);
    if error.is_distress() {
        local.gate.borrow_mut().alarm();
    }
    let other = local.gate.borrow_mut().failed(key, crate::clock::now());
    if let Some(other) = other {
        worker.shared.mail(other, crate::worker::Mail::LinkFree(server.id));
    }
    let fault = error.fault(server);
    let elsewhere = error.speaks_against_server();
    if let Some(fleet) = worker.shared.fleet.as_ref().filter(|_| elsewhere) {
        fleet.suspect(&worker.shared, server.id, &error.to_string());
    }
    loop {
        let waiter = local.gate.borrow_mut().give_up(key);
        match waiter {
            Some(client) if elsewhere && route::elsewhere(worker, &client, server.id) => {}
            Some(client) => admit::refuse_held(worker, &client, &fault),
            None => break,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "to open a connection is not on the road")]
async fn pooled(worker: &Worker, server: &Server, key: KeyId) -> Result<Rc<Link>, NoLink> {
    let (era, begun) = (worker.shared.rights.eras.now(), Instant::now());
    let mut logged_in =
        with_room(worker, server, async || log_in(worker, server, key).await).await?;
    if !logged_in.capabilities.has(Capabilities::SESSION_TRACK) {
        return Err(NoLink::NoTracking);
    }
    let limit = worker.plan.limits.connect;
    let ask = async {
        logged_in.run(TRACK).await?;
        let question = format!("{} OR Variable_name='{STATEMENTS_MAX}'", Settings::question());
        let rows = logged_in.rows(&question).await?;
        let renewed =
            if logged_in.is_mariadb { Vec::new() } else { logged_in.rows(RENEWED).await? };
        Ok::<_, NoLink>((rows, renewed))
    };
    let answers = tokio::time::timeout(limit, ask).await;
    let (rows, renewed) = answers.map_err(|_| NoLink::Late("limits.connect", limit))??;
    let rows = || rows.iter().map(|(name, value)| (&name[..], &value[..]));
    let renewed = || renewed.iter().map(|(name, value)| (&name[..], &value[..]));
    if let Some((_, max)) = rows().find(|(name, _)| *name == STATEMENTS_MAX.as_bytes())
        && let Some(max) = std::str::from_utf8(max).ok().and_then(|max| max.parse().ok())
    {
        server.facts.learn_statements_max(max);
    }
    let intern = |settings| worker.interned.borrow_mut().intern(settings);
    let fresh = intern(Settings::from_rows(rows()));
    // Of two values for a name, the first counts.
    let renewed = intern(Settings::from_rows(renewed().chain(rows())));
    let LoggedIn { talk, thread_id, capabilities, .. } = logged_in;
    let (stream, _) = talk.into_parts();
    let id = worker.new_link_id();
    let link = Link::new(id, server.id, thread_id, stream, capabilities, Some(key));
    let link = Link { opened: begun, era, ..link };
    worker.user_of(key, |user| user.rights.confirmed.confirm(era, begun));
    link.state.replace(LinkState::new(id, fresh).renewed_as(renewed));
    Ok(Rc::new(link))
}

/// Logs in as the user of this key.
pub(crate) async fn log_in(
    worker: &Worker,
    server: &Server,
    key: KeyId,
) -> Result<LoggedIn, NoLink> {
    let credential = worker.user_of(key, |user| user.credential()).ok_or(NoLink::NoCredential)?;
    let must_prove = worker.user_of(key, |user| user.trust().is_some());
    let key: Rc<Key> = worker.keys.borrow().get(key);
    let capabilities = key.capabilities | POOLED;
    let logged_in =
        log_in_as(worker, server, &key.user, &credential, capabilities, key.collation).await?;
    if must_prove && !logged_in.has_proved_sha2 {
        return Err(NoLink::NoProof);
    }
    Ok(logged_in)
}

/// Logs in as somebody.
pub(crate) async fn log_in_as(
    worker: &Worker,
    server: &Server,
    user: &UserName,
    credential: &Credential,
    capabilities: Capabilities,
    collation: u8,
) -> Result<LoggedIn, NoLink> {
    let greeted = greeted_once(worker, server, None).await?;
    log_in_on(worker, server, greeted, user, credential, capabilities, collation).await
}

/// The same on a connection whose server has greeted.
pub(crate) async fn log_in_on(
    worker: &Worker,
    server: &Server,
    greeted: Greeted,
    user: &UserName,
    credential: &Credential,
    capabilities: Capabilities,
    collation: u8,
) -> Result<LoggedIn, NoLink> {
    let sent = user.in_login(collation.into(), brand(&greeted.greeting))?;
    let request = Request {
        user: &sent,
        credential,
        capabilities,
        collation,
        packet_max: u32::try_from(worker.plan.limits.packet_max).unwrap_or(u32::MAX),
        schema: None,
    };
    let limit = worker.plan.limits.login;
    let login = greeted.login(&request, server.tls.as_ref());
    let login = tokio::time::timeout(limit, login).await;
    Ok(login.map_err(|_| NoLink::Late("limits.login", limit))??)
}

/// Runs one statement on a link of its own, as the user of this key.
pub(crate) async fn run_once(
    worker: &Worker,
    server: ServerId,
    key: KeyId,
    text: &str,
) -> Result<(), NoLink> {
    let server = &worker.at(server).server;
    let mut logged_in =
        with_room(worker, server, async || log_in(worker, server, key).await).await?;
    let limit = worker.plan.limits.connect;
    let run = tokio::time::timeout(limit, logged_in.run(text));
    match run.await.map_err(|_| NoLink::Late("limits.connect", limit))? {
        // The thread to be killed may be gone already.
        Err(LoginError::Refused { code: 1094, .. }) => Ok(()),
        other => Ok(other?),
    }
}

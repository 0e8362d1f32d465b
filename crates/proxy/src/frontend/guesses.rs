//! Wrong passwords at logins: how they are slowed down ([`engine::account::guessing`]) and refused.
//!
//! A proof that Flifo finds wrong is refused by the server: a login that fails is made there, and its error passed on.
//! So a wrong password is answered by the same words, after the same questions and the same work, whether Flifo knows
//! the user, or only the server does, or neither; and the server counts it (`max_password_errors`). Once a password was
//! wrong, a right one is believed when the server has taken it, too.

use std::borrow::Borrow;
use std::net::SocketAddr;
use std::time::Duration;

use backend::login::{Credential, LoginError};
use backend::{Stream, Talk};
use engine::account::guessing::Guesses;
use engine::account::name::UserName;
use wire::auth::{Nonce, Plugin, Secret};
use wire::handshake::{AuthPacket, Greeting, Login};
use wire::response::ErrPacket;

use crate::cluster::dial::{self, ACCESS_DENIED, NO_PASSWORD, NoBackend};
use crate::cluster::servers::ServerId;
use crate::fault::{Fault, Kind};
use crate::frontend::confirm;
use crate::frontend::pending_login::NoLogin;
use crate::frontend::prove;
use crate::pool::opener;
use crate::state::worker::Worker;
use crate::users::User;
use crate::users::logins::Pass;

/// An attempt to log in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt<'a> {
    pub(crate) user: &'a UserName,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) login: &'a Login,
    /// The server that refuses it.
    pub(crate) server: ServerId,
}

/// How a client has answered before it was found wrong.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    /// It had a password to prove at all.
    pub(crate) has_password: bool,
    /// It was asked once more for its proof, by this plugin, as a server asks a client that Flifo has greeted.
    pub(crate) asked_by: Option<(Plugin, Nonce)>,
    /// It was asked for the password itself.
    pub(crate) was_asked_itself: bool,
}

/// Waits until a password may be looked at, for half of the time that a login may take. A fault: that is not long
/// enough.
pub(crate) async fn wait(
    worker: &Worker,
    user: &UserName,
    peer: Option<SocketAddr>,
) -> Result<(), Fault> {
    let patience = worker.plan().limits.login / 2;
    let (from, now) = (peer.map(|it| it.ip()), crate::worker::clock::now());
    match with(worker, |guesses| guesses.begin(user, from, now, patience)) {
        Some(Duration::ZERO) => Ok(()),
        Some(delay) => {
            tokio::time::sleep(delay).await;
            Ok(())
        }
        None => {
            tokio::time::sleep(patience.min(TURNED_AWAY)).await;
            Err(too_many(user, peer))
        }
    }
}

/// A client that is not looked at hears of it after this time: a flood is no faster for it.
const TURNED_AWAY: Duration = Duration::from_secs(1);

/// It says the same of each user, whether there is one or not.
fn too_many(user: &UserName, peer: Option<SocketAddr>) -> Fault {
    let message = format!(
        "Access denied for user '{user}'@'{}': too many wrong passwords came from there or for this user, and more wait to be \
         looked at; this one was not. Try again in a few seconds",
        host(peer)
    );
    Fault::new(Kind::AccessDenied, message)
}

/// The server has let the user in.
pub(crate) fn is_right(worker: &Worker, user: &UserName, peer: Option<SocketAddr>) {
    with(worker, |guesses| {
        guesses.is_right(user, peer.map(|it| it.ip()));
        guesses.is_confirmed(user);
    });
}

/// The server has refused the user with this packet.
pub(crate) fn is_refused(
    worker: &Worker,
    user: &UserName,
    peer: Option<SocketAddr>,
    packet: &[u8],
) {
    let is_guess =
        |error: ErrPacket<'_>| matches!(error.code, ACCESS_DENIED | NO_PASSWORD | BLOCKED);
    if ErrPacket::decode(packet).is_ok_and(is_guess) {
        is_wrong(worker, user, peer);
    }
}

fn is_wrong(worker: &Worker, user: &UserName, peer: Option<SocketAddr>) {
    with(worker, |guesses| {
        guesses.is_wrong(user, peer.map(|it| it.ip()), crate::worker::clock::now())
    });
}

/// `ER_USER_IS_BLOCKED`.
const BLOCKED: u16 = 4150;

/// Why the server does not let in a client whose proof is right.
#[derive(Debug)]
pub(crate) enum Unconfirmed {
    /// It blocks the account, and looks at no password.
    Blocked(Fault),
    Refused(Fault),
}

/// A client's proof is right. Has the server say so too, where wrong ones have come before.
pub(crate) async fn confirm(
    worker: &Worker,
    attempt: Attempt<'_>,
    user: &User,
) -> Result<(), Unconfirmed> {
    let Attempt { user: name, peer, login, server } = attempt;
    let is_suspect = with(worker, |guesses| {
        guesses.is_right(name, peer.map(|it| it.ip()));
        guesses.is_suspect(name)
    });
    if !is_suspect || user.credential().is_none() {
        return Ok(());
    }
    let at = worker.shared.cluster.server(server);
    let capabilities = login.capabilities | dial::POOLED;
    let dialer = &worker.shared.cluster.dialer;
    let attempt = async |credential: &Credential| {
        dialer.log_in_as(at, name, credential, capabilities, login.collation).await
    };
    match user.log_in(attempt).await {
        Ok(_) => with(worker, |guesses| guesses.is_confirmed(name)),
        Err(error) if is_blocked(&error) || error.is_refusal() => {
            confirm::see_refusal(worker, name, user, &error);
            let fault = error.fault(at).of_kind(Kind::AccessDenied);
            return Err(match is_blocked(&error) {
                true => Unconfirmed::Blocked(fault),
                false => Unconfirmed::Refused(fault),
            });
        }
        // It cannot be asked; backends will tell.
        Err(_) => {}
    }
    Ok(())
}

const fn is_blocked(error: &NoBackend) -> bool {
    matches!(error, NoBackend::Login(LoginError::Refused { code: BLOCKED, .. }))
}

/// Has the server refuse an attempt that was found wrong. The answer is what the client is told; a fault that ends the
/// questions is still to be told.
pub(crate) async fn refuse<S: Borrow<Stream>>(
    worker: &Worker,
    talk: &mut Talk<S>,
    attempt: Attempt<'_>,
    known: &User,
    answered: Answered,
    pass: &Pass,
) -> Result<Fault, NoLogin> {
    let Answered { mut has_password, asked_by, was_asked_itself } = answered;
    let Attempt { user, peer, login, server } = attempt;
    is_wrong(worker, user, peer);
    let at = worker.shared.cluster.server(server);
    let greeted = match pass.lend(opener::greeted(&worker.pool, at, None)).await {
        Ok(greeted) => greeted,
        Err(error) => return Ok(error.fault(at)),
    };
    let (plugin, nonce) = match asked_by {
        Some(asked_by) => asked_by,
        None => {
            let (plugin, nonce) = (plugin_for(known, &greeted.greeting), random_nonce()?);
            let mut switch = Vec::new();
            AuthPacket::encode_switch(plugin.name(), nonce.as_bytes(), &mut switch);
            talk.write(&switch).await?;
            let response = pass.lend(talk.read()).await?;
            has_password = !matches!(response[..], [] | [0]);
            (plugin, nonce)
        }
    };
    if plugin == Plugin::CachingSha2 && has_password && !was_asked_itself {
        prove::ask_itself(talk).await?;
        prove::receive_password(worker, talk, &nonce, pass).await?;
    }
    let password = match has_password {
        true => Secret::from(random_nonce()?.as_bytes().to_vec()),
        false => Secret::from(""),
    };
    let wrong = Credential::Password(password);
    let capabilities = login.capabilities | dial::POOLED;
    let refused = worker.shared.cluster.dialer.log_in_on(
        at,
        greeted,
        user,
        &wrong,
        capabilities,
        login.collation,
    );
    Ok(match pass.lend(refused).await {
        Err(error) => error.fault(at).of_kind(Kind::AccessDenied),
        // It takes whatever password, or none; Flifo does not.
        Ok(_) => denied(user, peer, has_password),
    })
}

/// The plugin by which the server asks for this user's password, or would ask if it had no such user.
fn plugin_for(known: &User, greeting: &Greeting) -> Plugin {
    let default = Plugin::from_name(&greeting.plugin);
    match known.plugin_of_hash() {
        Some(plugin) => plugin,
        None if !greeting.is_mariadb() && known.can_check(&default) => default,
        None => known.plugin(),
    }
}

fn denied(user: &UserName, peer: Option<SocketAddr>, has_password: bool) -> Fault {
    let host = host(peer);
    let using = if has_password { "YES" } else { "NO" };
    let message = format!("Access denied for user '{user}'@'{host}' (using password: {using})");
    Fault::new(Kind::AccessDenied, message)
}

fn host(peer: Option<SocketAddr>) -> String {
    peer.map_or_else(|| "localhost".to_owned(), |peer| peer.ip().to_string())
}

/// A nonce that cannot be foreseen.
pub(crate) fn random_nonce() -> Result<Nonce, Fault> {
    let mut random = [0; Nonce::LEN];
    sys::random::fill(&mut random).map_err(|error| {
        Fault::new(Kind::BadHandshake, format!("Flifo got no random numbers: {error}"))
    })?;
    Ok(Nonce::from_random(random))
}

fn with<R>(worker: &Worker, ask: impl FnOnce(&mut Guesses) -> R) -> R {
    let mut guesses =
        worker.shared.proofs.guesses.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    ask(&mut guesses)
}

//! How a client proves its password to Flifo itself, from its first answer on.
//!
//! Speaks with the client; what is right is [`crate::users`]' to say, or the server's. Backends and
//! [`crate::frontend::pass_through`] prove passwords to the server. Invariant: a client is asked for the password
//! itself only under Flifo's RSA key, or where no third party can read along.

use std::borrow::Borrow;
use std::sync::Arc;

use backend::{Stream, Talk};
use engine::account::name::UserName;
use wire::auth::rsa::RsaEnd;
use wire::auth::{Nonce, Plugin, Secret, caching_sha2};
use wire::handshake::AuthPacket;

use crate::fault::{Fault, Kind};
use crate::frontend::accounts;
use crate::frontend::learnt;
use crate::frontend::pending_login::NoLogin;
use crate::state::worker::Worker;
use crate::users::logins::Pass;
use crate::users::{User, Verdict};

/// What a client answered first.
#[derive(Debug)]
pub(crate) struct PasswordProof {
    pub(crate) plugin: Plugin,
    pub(crate) nonce: Nonce,
    pub(crate) response: Vec<u8>,
}

/// What came of a client's proof.
pub(crate) enum Proved {
    /// It is right: this user's, or of the one that has the name by now.
    Right(Arc<User>),
    /// `was_asked_itself`: the client was asked for the password itself.
    Wrong { was_asked_itself: bool },
}

/// Whether a client proves a user's password. A fault is still to be told.
pub(crate) async fn prove<S: Borrow<Stream>>(
    worker: &Worker,
    talk: &mut Talk<S>,
    name: &UserName,
    user: &Arc<User>,
    answer: &PasswordProof,
    pass: &Pass,
) -> Result<Proved, NoLogin> {
    let PasswordProof { plugin, nonce, response } = answer;
    let mut verdict = user.check(plugin, nonce, response);
    if verdict == Verdict::Wrong && pass.lend(accounts::is_renewed(worker, user)).await {
        verdict =
            if user.can_check(plugin) { user.check(plugin, nonce, response) } else { verdict };
    }
    match verdict {
        Verdict::Wrong => Ok(Proved::Wrong { was_asked_itself: false }),
        Verdict::Right => {
            if *plugin == Plugin::CachingSha2 && !response.is_empty() {
                write_more(talk, &[caching_sha2::FAST_OK]).await?;
            }
            Ok(Proved::Right(Arc::clone(user)))
        }
        Verdict::Unknown => {
            ask_itself(talk).await?;
            let password = match receive_password(worker, talk, nonce, pass).await {
                Ok(password) => password,
                Err(error) => {
                    pass.lend(learnt::doubt(worker, name, user)).await;
                    return Err(error);
                }
            };
            let right = match user.trust() {
                Some(_) => pass.lend(learnt::prove(worker, name, user, &password)).await?,
                None => {
                    let is_right = pass.lend(is_right_itself(worker, user, password)).await;
                    is_right.then(|| Arc::clone(user))
                }
            };
            Ok(right.map_or(Proved::Wrong { was_asked_itself: true }, Proved::Right))
        }
    }
}

/// Whether this is the user's password, or is since the accounts were read. It is checked in another thread, and one of a
/// user's at a time.
async fn is_right_itself(worker: &Worker, user: &User, password: Secret) -> bool {
    user.check_itself(password.clone()).await
        || accounts::is_renewed(worker, user).await && user.check_itself(password).await
}

/// Asks a client of caching_sha2_password for the password itself.
pub(crate) async fn ask_itself<S: Borrow<Stream>>(talk: &mut Talk<S>) -> Result<(), NoLogin> {
    write_more(talk, &[caching_sha2::FULL]).await
}

/// Receives the password itself from a client of caching_sha2_password that has been asked for it: as it is where no
/// third party can read along, else under Flifo's public key. A fault is still to be told.
pub(crate) async fn receive_password<S: Borrow<Stream>>(
    worker: &Worker,
    talk: &mut Talk<S>,
    nonce: &Nonce,
    pass: &Pass,
) -> Result<Secret, NoLogin> {
    let sent = Secret::from(pass.lend(talk.read()).await?);
    take_password(worker, talk, &sent, nonce, pass).await
}

/// The same for a client that has sent the first of it.
pub(crate) async fn take_password<S: Borrow<Stream>>(
    worker: &Worker,
    talk: &mut Talk<S>,
    sent: &Secret,
    nonce: &Nonce,
    pass: &Pass,
) -> Result<Secret, NoLogin> {
    // Some clients trust no Unix socket.
    let password = if asks_for_key(sent) {
        let key = own_key(worker, pass).await?;
        write_more(talk, key.public_pem().as_bytes()).await?;
        key.decrypt(&pass.lend(talk.read()).await?, nonce)
    } else if talk.stream().is_secure() {
        caching_sha2::clear(sent)
    } else {
        return Err(denied(
            "the client encrypted its password with a key that is not Flifo's; connect in TLS, or \
             let the client ask for the public key",
        ));
    };
    password.ok_or_else(|| denied("what the client sent hides no password"))
}

/// Flifo's own key. Half of a login's time is for the rest of it, and for the client to hear that it has no more.
async fn own_key(worker: &Worker, pass: &Pass) -> Result<Arc<RsaEnd>, NoLogin> {
    let limit = worker.plan().limits.login;
    match pass.lend(tokio::time::timeout(limit / 2, worker.shared.proofs.rsa.end())).await {
        Ok(key) => key.map_err(|error| bad(&error)),
        Err(_) => {
            let message = format!(
                "Too many connections: Flifo has not made its RSA key yet; this client waited for it for {:.1} s (half of \
                 limits.login). It is safe to try again, or connect in TLS",
                limit.as_secs_f64() / 2.0
            );
            Err(Fault::new(Kind::LoginWaitedTooLong, message).into())
        }
    }
}

/// Whether a client that was asked for the password wants the public key first.
pub(crate) fn asks_for_key(sent: &Secret) -> bool {
    sent.as_bytes() == [caching_sha2::REQUEST_PUBLIC_KEY]
}

async fn write_more<S: Borrow<Stream>>(talk: &mut Talk<S>, data: &[u8]) -> Result<(), NoLogin> {
    let mut packet = Vec::new();
    AuthPacket::encode_more(data, &mut packet);
    Ok(talk.write(&packet).await?)
}

/// As a server says it that cannot read a password.
fn denied(why: &str) -> NoLogin {
    Fault::new(Kind::AccessDenied, format!("Access denied by Flifo: {why}")).into()
}

fn bad(why: &str) -> NoLogin {
    Fault::new(Kind::BadHandshake, format!("Bad handshake: {why}")).into()
}

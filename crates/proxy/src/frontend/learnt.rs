//! Passwords that clients have said in logins that Flifo passed through (`caching_sha2_password`, where the server asks
//! for the password itself), and that the server has taken: their users are pooled from then on, with nothing
//! configured.
//!
//! Owns which users are learnt and forgotten, and when the server is asked again: before the first client is pooled,
//! once a period (`server.accounts_period`), and when a client proves another password. It is asked by a login as the
//! user, as its backends make it. What a client is asked is [`crate::frontend::prove`]'s, where passwords are heard
//! [`crate::frontend::pass_through`]'s, the list of users [`crate::users::learnt`]'s.
//!
//! Invariants: what is learnt is in memory only, bounded in number, and wiped when it is forgotten; no client is pooled
//! by a password that the server has not taken from Flifo itself, by a proof of it; a user that is learnt again shares
//! nothing with those of its name before; a server that cannot be reached makes nothing forgotten.

use std::rc::Rc;
use std::sync::Arc;

use backend::Address;
use backend::login::{Credential, LoginError};
use engine::account::name::UserName;
use wire::auth::Secret;
use wire::handshake::UTF8MB4;

use crate::cluster::dial::{self, ACCESS_DENIED, NoBackend};
use crate::config::Plan;
use crate::fault::{Fault, Kind};
use crate::frontend::namesake;
use crate::pool::opener;
use crate::state::worker::Worker;
use crate::users::User;
use crate::users::learnt::{SOON, Trust};

/// What the server says of a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Right,
    Wrong,
    /// It cannot be asked, or has no room for the question.
    None,
}

/// When the server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// After a period.
    Due,
    /// Unless it was just now.
    Soon,
    Now,
}

/// Whether a password may be learnt of this user.
///
/// Not where the server's table of accounts tells all passwords; nor where the server is shown the client's address,
/// and so may choose an account by it that is not the one that Flifo's own backends get; nor of a name that says
/// something else in another character set; nor of the name as which the server might let Flifo in without a password.
pub(crate) fn may_learn(worker: &Worker, name: &UserName) -> bool {
    let is_plain = !name.is_empty() && name.is_ascii();
    let is_on_socket = |address: &Address| matches!(address, Address::Unix(_));
    let mut servers = worker.shared.cluster.servers.iter();
    is_on(&worker.plan())
        && is_plain
        && !worker.shared.proofs.users.is_configured(name)
        && !(namesake::is_own(name) && servers.any(|server| is_on_socket(&server.address)))
}

fn is_on(plan: &Plan) -> bool {
    let server = &plan.server;
    server.learn_passwords && server.accounts_user.is_none() && !plan.sends_headers()
}

/// The server has taken this password from a client of a user whose password may be learnt.
pub(crate) fn learn(worker: &Rc<Worker>, name: &UserName, password: &Secret) {
    if password.is_empty() {
        return;
    }
    let Some(user) = worker.shared.proofs.users.learn(name, password) else { return };
    let (worker, name) = (Rc::clone(worker), name.clone());
    crate::worker::tasks::vital(async move { confirm(&worker, &name, &user, When::Due).await });
}

/// Whether a learnt user's clients may be pooled. The server is asked if it was not for a period.
pub(crate) async fn is_right(worker: &Worker, name: &UserName, user: &Arc<User>) -> bool {
    let Some(trust) = user.trust() else { return true };
    if trust.is_believed() {
        return true;
    }
    match confirm(worker, name, user, When::Due).await {
        Word::Right => true,
        Word::Wrong => false,
        // The server cannot be asked: a pooled client would get no further than a pass-through one.
        Word::None => trust.belief().is_confirmed,
    }
}

/// A client of a learnt user has said another password than the one that is known. Answers with the user whose it is,
/// if it is right; the fault is the server's, or still to be told.
pub(crate) async fn prove(
    worker: &Worker,
    name: &UserName,
    user: &Arc<User>,
    password: &Secret,
) -> Result<Option<Arc<User>>, Fault> {
    if password.is_empty() {
        return Ok(None);
    }
    if user.is_password(password) && is_right(worker, name, user).await {
        return Ok(Some(Arc::clone(user)));
    }
    if let Err(error) = ask(worker, name, password).await {
        // It may be right, of an account that is not what it was: whose plugin is another one, or that may only change
        // its password. Then its clients are to be passed through.
        let is_wrong =
            matches!(error, NoBackend::Login(LoginError::Refused { code: ACCESS_DENIED, .. }));
        if error.is_refusal() && !is_wrong {
            confirm(worker, name, user, When::Soon).await;
        }
        return Err(error.fault(asked(worker, name)));
    }
    match confirm(worker, name, user, When::Now).await {
        // MySQL lets a user have two, while he changes from one to the other.
        Word::Right => Ok(Some(Arc::clone(user))),
        Word::Wrong => {
            let renewed = worker.shared.proofs.users.learn(name, password).ok_or_else(changes)?;
            renewed.trust().into_iter().for_each(|trust| believe(worker, name, trust));
            Ok(Some(renewed))
        }
        Word::None => Err(changes()),
    }
}

/// A client of a learnt user has proved another password than the one that is known, and cannot be asked for it: it has
/// encrypted it for the server alone, or says nothing where others could read along. If the server does not take the
/// known one any more, such clients are passed through from the next one on.
pub(crate) async fn doubt(worker: &Worker, name: &UserName, user: &Arc<User>) {
    confirm(worker, name, user, When::Soon).await;
}

/// Asks the server whether the password is right still, if that is due.
async fn confirm(worker: &Worker, name: &UserName, user: &Arc<User>, when: When) -> Word {
    let Some(trust) = user.trust() else { return Word::Right };
    let _alone = trust.asking.lock().await;
    // Another login may have found out meanwhile.
    let Some(Credential::Password(password)) = user.credential() else { return Word::Wrong };
    let belief = trust.belief();
    let is_early = match when {
        When::Due => belief.until.is_some_and(|until| crate::worker::clock::read() < until),
        When::Soon => belief.asked.is_some_and(|asked| crate::worker::clock::since(asked) < SOON),
        When::Now => false,
    };
    if is_early {
        return if belief.is_confirmed { Word::Right } else { Word::None };
    }
    match ask(worker, name, &password).await {
        Ok(()) => {
            believe(worker, name, trust);
            Word::Right
        }
        Err(error) if error.is_refusal() => {
            worker.shared.proofs.users.forget_refused(name, user, &error);
            Word::Wrong
        }
        Err(error) => {
            tracing::debug!(user = %name, %error, "a password cannot be confirmed");
            trust.postpone();
            Word::None
        }
    }
}

/// The server has taken the password just now.
fn believe(worker: &Worker, name: &UserName, trust: &Trust) {
    if trust.confirm(worker.plan().server.accounts_period) {
        tracing::info!(
            user = %name,
            "clients of this user are pooled from now on: one of them has said its password in a login that the \
             server has accepted (server.learn_passwords)"
        );
    }
}

/// The server that is asked whether a password is right.
fn asked<'w>(worker: &'w Worker, name: &UserName) -> &'w crate::cluster::servers::Server {
    worker.shared.cluster.asked_of(&worker.plan(), name)
}

/// Logs in as the user and leaves, as one of its backends would.
async fn ask(worker: &Worker, name: &UserName, password: &Secret) -> Result<(), NoBackend> {
    let _place = worker.entrance.pass_through_logins.enter_again().await;
    let credential = Credential::Password(password.clone());
    let logged_in = worker
        .shared
        .cluster
        .dialer
        .log_in_as(asked(worker, name), name, &credential, dial::POOLED, UTF8MB4)
        .await;
    let mut logged_in = logged_in?;
    if !logged_in.has_proved_sha2 {
        return Err(NoBackend::NoProof);
    }
    let limit = worker.plan().limits.connect;
    let tracks = tokio::time::timeout(limit, opener::track(&mut logged_in)).await;
    match tracks.map_err(|_| NoBackend::Late("limits.connect", limit))? {
        Ok(false) | Err(LoginError::Refused { .. }) => return Err(NoBackend::NoTracking),
        Ok(true) => {}
        Err(error) => return Err(error.into()),
    }
    logged_in.quit().await;
    Ok(())
}

fn changes() -> Fault {
    let message = "Access denied by Flifo: the user's password is changing, and the server does not \
        say which one is right. It is safe to try again";
    Fault::new(Kind::AccessDenied, message)
}

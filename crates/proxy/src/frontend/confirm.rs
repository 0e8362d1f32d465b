//! Logins that Flifo decides itself: a client that proves the password is let in only if the server would still let its
//! user in.
//!
//! The server is asked by a login as the user when rights may have changed since it was asked last, or that was as long
//! ago as `server.rights_bound`; each backend that is opened asks the same. Invariants: one login of a user asks at a
//! time, and those that waited take its answer; what the server refuses is told in its own words; a server that does
//! not answer keeps no client out, since without a backend none gets further.

use backend::login::Credential;
use engine::account::name::UserName;
use engine::account::terms::Terms;
use wire::handshake::UTF8MB4;

use crate::cluster::dial::{self, NoBackend};
use crate::fault::Fault;
use crate::state::worker::Worker;
use crate::users::User;

/// A client has proved the user's password, and its account is known to have these terms. The fault is why the server
/// would not let it in. Where the terms say that it would not, it is asked whatever it said before.
pub(crate) async fn confirm(
    worker: &Worker,
    name: &UserName,
    user: &User,
    terms: &Terms,
) -> Result<(), Fault> {
    let is_asked = || terms.are_refused() || !is_confirmed(worker, name, user);
    if !is_asked() {
        return Ok(());
    }
    let _alone = user.rights.confirmed.asking.lock().await;
    if !is_asked() {
        return Ok(());
    }
    let (era, begun) = (worker.shared.proofs.rights.eras.now(), crate::worker::clock::read());
    match ask(worker, name, user).await {
        Ok(()) => {
            user.rights.confirmed.confirm(era, begun);
            Ok(())
        }
        Err(error) if error.is_refusal() || terms.are_refused() => {
            see_refusal(worker, name, user, &error);
            tracing::debug!(user = %name, %error, "the server does not let a user in any more");
            Err(error.fault(worker.shared.cluster.asked_of(&worker.plan(), name)))
        }
        Err(error) => {
            tracing::debug!(user = %name, %error, "a user's rights cannot be confirmed");
            Ok(())
        }
    }
}

/// A login as the user has failed. If the server has refused it, what was learnt of the user is forgotten: an account that
/// is made again with its name and password shares no connection with it.
pub(crate) fn see_refusal(worker: &Worker, name: &UserName, user: &User, error: &NoBackend) {
    user.see_failure(name, error);
    if user.trust().is_some()
        && error.is_refusal()
        && let Some(known) = worker.shared.proofs.users.get(name)
        && std::ptr::eq(&*known, user)
    {
        worker.shared.proofs.users.forget_refused(name, &known, error);
    }
}

fn is_confirmed(worker: &Worker, name: &UserName, user: &User) -> bool {
    let rights = &worker.shared.proofs.rights;
    let (era, at) = user.rights.confirmed.last(rights);
    let now = crate::worker::clock::read();
    !rights.eras.is_over(era, &user.rights.changed) && {
        let server = worker.shared.cluster.asked_of(&worker.plan(), name);
        let bound = worker.plan().server.rights_bound;
        !rights.is_beyond(&server.facts.rights, at, now, bound)
    }
}

/// Logs in as the user and leaves.
async fn ask(worker: &Worker, name: &UserName, user: &User) -> Result<(), NoBackend> {
    let _place = worker.entrance.pass_through_logins.enter_again().await;
    let server = worker.shared.cluster.asked_of(&worker.plan(), name);
    let dialer = &worker.shared.cluster.dialer;
    let attempt = async |credential: &Credential| {
        dialer.log_in_as(server, name, credential, dial::POOLED, UTF8MB4).await
    };
    let login = user.log_in(attempt).await?;
    if user.trust().is_some() && !login.has_proved_sha2 {
        return Err(NoBackend::NoProof);
    }
    login.quit().await;
    Ok(())
}

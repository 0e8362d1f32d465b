//! A client comes to a cluster that is not its user's own, by a schema or a rule: it has there what its own account has
//! there.
//!
//! Before its first statement there is sent, its account in that cluster is looked at as at a login
//! ([`crate::frontend::held`]), and the definitions there are read once ([`crate::frontend::hidden`]). The statement is
//! held meanwhile ([`crate::routing::clusters`]). An account that changes later changes nothing for a client that was
//! admitted, as on a connection of its own. Bounds of connections are left to the server: the client's place is in its
//! own cluster.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::timeout;
use wire::command::Opcode;
use wire::frame::HEADER;

use crate::answers::answer;
use crate::cluster::members::ClusterId;
use crate::fault::{Fault, Kind};
use crate::frontend::held;
use crate::frontend::hidden;
use crate::road::resume;
use crate::state::client::Client;
use crate::state::command::Awaits;
use crate::state::worker::Worker;

/// How soon a cluster is asked again that does not answer.
const AGAIN: Duration = Duration::from_millis(100);

/// Asks, and has the client's statement go on or refuses it.
pub(crate) async fn run(worker: &Rc<Worker>, client: &Rc<Client>, cluster: ClusterId) {
    let asked = ask(worker, client, cluster).await;
    if asked.is_ok() {
        client.routing.visits.change(|visits| visits.admitted.push(cluster));
    }
    if client.awaits() != Some(Awaits::Account) {
        // Its statement was ended meanwhile.
        return;
    }
    let Err(fault) = asked else { return resume::resume(worker, client) };
    // A piece of a parameter has no reply.
    let is_piece = client.command().is_some_and(|command| {
        command.packet.get(HEADER) == Some(&(Opcode::StmtSendLongData as u8))
    });
    match is_piece {
        true => answer::refuse_and_close(worker, client, &fault),
        false => answer::refuse_held(worker, client, &fault),
    }
}

/// A cluster that does not answer is waited for as it is with any statement.
async fn ask(worker: &Worker, client: &Client, cluster: ClusterId) -> Result<(), Fault> {
    let members = worker.shared.cluster.get(cluster);
    let deadline = crate::worker::clock::read() + members.hold();
    let limit = worker.plan().limits.login;
    loop {
        let fault = match timeout(limit, judge(worker, client, cluster)).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(fault)) => fault,
            Err(_) => {
                let message = format!(
                    "The cluster {:?} did not say within {limit:?} (limits.login) what the client's account there is. \
                     Flifo did not run the statement; it is safe to try again",
                    members.name
                );
                Fault::new(Kind::ServerUnreachable, message)
            }
        };
        if fault.kind != Kind::ServerUnreachable || crate::worker::clock::read() >= deadline {
            return Err(fault);
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn judge(worker: &Worker, client: &Client, cluster: ClusterId) -> Result<(), Fault> {
    let name = client.user.borrow().clone();
    let Some(user) = worker.shared.proofs.users.get(&name) else {
        let message =
            format!("Access denied for user '{name}': it was dropped or changed just now");
        return Err(Fault::new(Kind::AccessDenied, message));
    };
    let peer = client.peer.map(|peer| peer.ip());
    held::pooled(worker, cluster, &name, &user, &client.stream, peer).await?;
    hidden::begin(worker, cluster, &name, &user).await;
    Ok(())
}

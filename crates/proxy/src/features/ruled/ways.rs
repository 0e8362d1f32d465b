//! Where rules send a command: into another cluster, to a role, to a server.
//!
//! Invariants: a client that keeps its backend stays in its cluster, and in a transaction on its server as well. A rule
//! that would have one of its statements run elsewhere is an error, which names the rule; nothing of the statement has
//! reached a server then. A pass-through client stays where it is.

use engine::intent::Digest;
use engine::pin::Pin;
use engine::statement::rule::{RuleConnection, RuleRole, RuleRoute, RuleTarget};
use engine::statement::rules::ReadyRule;
use wire::response::Status;

use crate::cluster::members::Members;
use crate::cluster::servers::ServerId;
use crate::fault::Fault;
use crate::features::ruled::refusals::refused;
use crate::routing::clusters;
use crate::routing::route;
use crate::session::pins;
use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::rule_hits::{RuleSends, RuleWay};
use crate::state::worker::Worker;

/// Where a route leads by now, and whether this client may go there.
pub(super) fn find(
    worker: &Worker,
    client: &Client,
    route: &RuleRoute,
    ready: &ReadyRule,
) -> Result<RuleSends, Fault> {
    if !worker.shared.cluster.is_routed() || !client.is_pooled() {
        return Ok(RuleSends::default());
    }
    let sends = sends(worker, route, ready)?;
    let Some(backend) = client.backend() else { return Ok(sends) };
    let own = worker.shared.cluster.of(backend.server);
    match sends.cluster.filter(|cluster| *cluster != own.id) {
        Some(cluster) if !client.session.borrow().can_do_without() => {
            let other = &worker.shared.cluster.get(cluster).name;
            Err(refused(ready, &binds(client, other, &own.name)))
        }
        Some(_) => Ok(sends),
        None => stays(own, client, &backend, sends.way, ready).map(|()| sends),
    }
}

/// Where a text would go if no rule sent it: the cluster, and to which of its servers. `reads`: it is a mere read;
/// `schema`: it was prepared there.
pub(super) fn place<'w>(
    worker: &'w Worker,
    client: &Client,
    reads: bool,
    schema: Option<&[u8]>,
) -> (&'w Members, RuleRole) {
    let clusters = &worker.shared.cluster;
    let session = client.session.borrow();
    let bound = client.backend().filter(|_| !client.is_pooled() || !session.can_do_without());
    if let Some(backend) = bound {
        let members = clusters.of(backend.server);
        let is_reader = !members.is_writer(backend.server) && members.is_reader(backend.server);
        return (members, if is_reader { RuleRole::Reader } else { RuleRole::Writer });
    }
    let reads = reads && session.is_plain() && !session.in_transaction();
    drop(session);
    let cluster = match clusters.are_several() {
        true => clusters::own(worker, client, schema),
        false => client.routing.cluster.get(),
    };
    let members = clusters.get(cluster);
    let to_reader = clusters.is_routed() && route::goes_to_reader(members, client, reads);
    (members, if to_reader { RuleRole::Reader } else { RuleRole::Writer })
}

fn sends(worker: &Worker, route: &RuleRoute, ready: &ReadyRule) -> Result<RuleSends, Fault> {
    let clusters = &worker.shared.cluster;
    let named = match &route.cluster {
        None => None,
        // It was there when the file was read.
        Some(name) => match clusters.named(name) {
            Some(members) => Some(members.id),
            None => {
                let why = format!("leads into the cluster {name:?}, which is not there any more");
                return Err(refused(ready, &why));
            }
        },
    };
    Ok(match &route.target {
        None => RuleSends { way: None, cluster: named },
        Some(RuleTarget::Role(role)) => {
            let way = match role {
                RuleRole::Writer => RuleWay::Writer,
                RuleRole::Reader => RuleWay::Reader,
            };
            RuleSends { way: Some(way), cluster: named }
        }
        Some(RuleTarget::Server(name)) => {
            let found = clusters.servers.iter().find(|server| server.name == *name);
            let way = found.as_ref().map(|server| RuleWay::To(server.id, route.fallback));
            let cluster = named.or_else(|| Some(clusters.of(found?.id).id));
            RuleSends { way, cluster }
        }
    })
}

/// Has a client keep its backend from now on, or share it again as soon as nothing else keeps it.
pub(super) fn keep(worker: &Worker, client: &Client, connection: RuleConnection, digest: Digest) {
    let keeps = connection == RuleConnection::Keep;
    if !client.is_pooled() || !client.session.borrow_mut().keep_by_rule(keeps) {
        return;
    }
    let is_kept_for = client.pinned.with(|pinned| pinned.pin);
    match keeps {
        true => worker.hold(client, Pin::Rule, digest),
        false if is_kept_for == Some(Pin::Rule) => pins::ended(client),
        false => {}
    }
}

/// Why a client cannot leave the cluster that it is in.
fn binds(client: &Client, other: &str, own: &str) -> String {
    let session = client.session.borrow();
    let why = match session.pin() {
        _ if session.in_transaction() => "is in a transaction".to_owned(),
        Some(pin) => format!("keeps its connection ({})", pin.name()),
        None => "keeps its connection".to_owned(),
    };
    format!(
        "would have it run in the cluster {other:?}, and its client {why} in the cluster {own:?}. End that first"
    )
}

/// A client in a transaction stays on its server.
fn stays(
    members: &Members,
    client: &Client,
    backend: &Backend,
    way: Option<RuleWay>,
    ready: &ReadyRule,
) -> Result<(), Fault> {
    let server: ServerId = backend.server;
    let is_there = match way {
        None => true,
        Some(RuleWay::Writer) => members.is_writer(server) || may_write(client),
        // What the transaction has written is where it is, and only there.
        Some(RuleWay::Reader) => true,
        Some(RuleWay::To(wanted, fallback)) => {
            let leaves_writer = may_write(client) && !members.is_writer(wanted);
            // It may have begun on the other one because this one could not take it.
            wanted == server || members.has(wanted) && (leaves_writer || fallback.is_some())
        }
    };
    if is_there || !client.session.borrow().in_transaction() {
        return Ok(());
    }
    Err(refused(
        ready,
        "would have it run on another server than the transaction that it is part of",
    ))
}

/// Whether a client's transaction may write: then its server was the writer when it began, whatever it is by now. One that
/// is drained has its transactions go on.
fn may_write(client: &Client) -> bool {
    let session = client.session.borrow();
    session.in_transaction() && !session.status().has(Status::IN_READONLY_TRANSACTION)
}

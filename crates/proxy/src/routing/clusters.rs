//! Which cluster a client's statement goes to, where there are several: the one that it is sent to, else that of its
//! client's schema, else that of its client's user.
//!
//! Owns the way from one cluster to another; which server of a cluster it is, [`crate::routing::route`] says. A client
//! that keeps its backend (a transaction, a pin) stays in the cluster of that. Invariants: a statement that would leave
//! it is refused, and no server has seen anything of it; no server is told the schema of another cluster before a
//! command that enters a schema, or that executes what was prepared in one; no server of a cluster that is not the
//! client's own sees a command before its account there was looked at.

use std::rc::Rc;

use engine::intent::{self, Moves};
use engine::session::facts::Facts;
use wire::command::{Opcode, query_text_at};
use wire::frame::{HEADER, put_packet};
use wire::lex::Dialect;
use wire::text::Lexed;

use crate::answers::answer;
use crate::answers::diagnostics;
use crate::cluster::members::ClusterId;
use crate::cluster::servers::ServerId;
use crate::fault::{Fault, Kind};
use crate::session::questions;
use crate::session::supply;
use crate::state::client::Client;
use crate::state::command::{Awaits, Command, SentBy};
use crate::state::worker::Worker;

/// How a command goes to its cluster.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// As it is.
    Free,
    /// As this packet. A server is told its client's schema before a text, and not before a command that enters one.
    As(Vec<u8>),
    /// The command is put on hold, and read again when that has come.
    Waits(Awaits),
}

/// The cluster that a command goes to.
pub(crate) fn of(client: &Client, command: &Command) -> ClusterId {
    command.sent_to().map_or_else(|| client.routing.cluster.get(), |(cluster, _)| cluster)
}

/// Sends a pooled client's command to its cluster. Called where there are several.
pub(crate) fn lead(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    command: &mut Command,
    packet: &[u8],
) -> Result<Way, Fault> {
    settle(worker, client);
    let mut way = Way::Free;
    if !matches!(command.sent_to(), Some((_, SentBy::Order))) {
        forget(command);
        way = match command.facts.moves {
            Moves::IntoSchema => into_schema(worker, client, command, packet),
            Moves::No => {
                to_prepared(worker, client, command);
                Way::Free
            }
        };
    }
    let cluster = of(client, command);
    if !leave_others(worker, client, cluster)? {
        return Ok(Way::Waits(Awaits::Backend));
    }
    // One that has its backend there has been there before.
    if client.backend.borrow().is_none() && !client.is_admitted(cluster) {
        client.begin_visit(cluster);
        return Ok(Way::Waits(Awaits::Account));
    }
    Ok(way)
}

/// The cluster of a schema may be another one by now.
pub(crate) fn forget(command: &mut Command) {
    if let Some(rare) = &mut command.rare
        && matches!(rare.cluster, Some((_, SentBy::Schema)))
    {
        rare.cluster = None;
        command.found.schema = None;
    }
}

/// Finds out where the client's statements go, if nothing else is said of them.
pub(crate) fn settle(worker: &Worker, client: &Client) {
    let bound = client.backend().filter(|_| !client.session.borrow().can_do_without());
    let cluster = match bound {
        // What has entered a schema of another cluster unseen goes there when it lets go of this one.
        Some(backend) => worker.shared.cluster.of(backend.server).id,
        None => serving(worker, client, client.session.borrow().schema.as_deref()),
    };
    enter(worker, client, cluster);
}

/// Whether a server is in the cluster that the client's statements go to, if nothing else is said of them.
pub(crate) fn is_own(worker: &Worker, client: &Client, server: ServerId) -> bool {
    if !worker.shared.cluster.are_several() {
        return true;
    }
    settle(worker, client);
    worker.shared.cluster.of(server).id == client.routing.cluster.get()
}

/// The cluster that a client's text goes to, if nothing else is said of it. `schema`: it was prepared there.
pub(crate) fn own(worker: &Worker, client: &Client, schema: Option<&[u8]>) -> ClusterId {
    settle(worker, client);
    match schema {
        Some(_) => serving(worker, client, schema),
        None => client.routing.cluster.get(),
    }
}

/// The cluster that serves a client which is in this schema.
pub(crate) fn serving(worker: &Worker, client: &Client, schema: Option<&[u8]>) -> ClusterId {
    let routed = client.routing.routed.get().and_then(|routed| routed.cluster);
    let is_named = |cluster: &ClusterId| worker.shared.cluster.get(*cluster).is_named();
    let home = routed.filter(is_named).unwrap_or_else(|| client.routing.home.get());
    serving_at(worker, home, schema)
}

/// The same of a client that is served by this cluster as far as no schema says otherwise.
pub(crate) fn serving_at(worker: &Worker, home: ClusterId, schema: Option<&[u8]>) -> ClusterId {
    let plan = worker.plan();
    let named = schema.and_then(|schema| plan.cluster_of_schema(schema));
    named.and_then(|name| worker.shared.cluster.named(name)).map_or(home, |members| members.id)
}

/// The client's statements go to this cluster from now on.
fn enter(worker: &Worker, client: &Client, cluster: ClusterId) {
    if client.routing.cluster.replace(cluster) == cluster {
        return;
    }
    if client.routing.routed.get().is_none() {
        client.routing.mode.set(worker.shared.cluster.get(cluster).mode());
    }
}

/// Another plan is in force, or the client is another user: its user's cluster may be another one.
pub(crate) fn move_home(worker: &Worker, client: &Client) {
    let plan = worker.plan();
    client.routing.home.set(worker.shared.cluster.serving(&plan, &client.user.borrow()));
    if client.is_pooled() {
        settle(worker, client);
    }
}

/// A command that enters a schema goes to the cluster in which that lies.
fn into_schema(worker: &Rc<Worker>, client: &Client, command: &mut Command, packet: &[u8]) -> Way {
    let Some(schema) = entered(client, packet) else { return Way::Free };
    let cluster = serving(worker, client, Some(&schema));
    if cluster == client.routing.cluster.get() {
        return Way::Free;
    }
    command.send_to(cluster, SentBy::Schema);
    if packet.get(HEADER) == Some(&(Opcode::InitDb as u8)) {
        return Way::Free;
    }
    // A text would clear what the command leaves.
    answer::clear(worker, client);
    let of_command = diagnostics::facts(worker, client, Opcode::InitDb);
    let Facts { diagnostics, ok_warnings, .. } = of_command;
    let own = std::mem::take(&mut command.facts);
    command.facts = Facts { diagnostics, ok_warnings, is_still: true, ..own };
    let mut instead = Vec::new();
    put_packet(&mut instead, 0, &[&[Opcode::InitDb as u8], &schema[..]].concat());
    Way::As(instead)
}

/// The schema that a command enters.
fn entered(client: &Client, packet: &[u8]) -> Option<Vec<u8>> {
    let payload = packet.get(HEADER..)?;
    match Opcode::decode(*payload.first()?)? {
        Opcode::InitDb => Some(payload[1..].to_vec()),
        Opcode::Query => {
            let text = payload.get(query_text_at(payload, client.capabilities)?..)?;
            intent::entered(Lexed::default().text(text, Dialect::default()))
        }
        _ => None,
    }
}

/// A prepared statement means what it meant where it was prepared: it goes there.
fn to_prepared(worker: &Worker, client: &Client, command: &mut Command) {
    let Some(in_hand) = command.facts.in_hand else { return };
    let schema = {
        let mut session = client.session.borrow_mut();
        session.statements.get(in_hand.id).and_then(|prepared| prepared.source.schema.clone())
    };
    let Some(schema) = schema else { return };
    let cluster = serving(worker, client, Some(&schema));
    if cluster != client.routing.cluster.get() {
        command.send_to(cluster, SentBy::Schema);
        command.found.schema = Some(schema);
    }
}

/// Gives up a backend that is in another cluster than this. False: that is asked first for what it alone knows. An
/// error: the client is bound to it.
fn leave_others(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    cluster: ClusterId,
) -> Result<bool, Fault> {
    let Some(backend) = client.backend() else { return Ok(true) };
    if worker.shared.cluster.of(backend.server).id == cluster {
        return Ok(true);
    }
    let session = client.session.borrow();
    if !session.can_do_without() {
        drop(session);
        return Err(is_bound(worker, client, cluster));
    }
    let is_unseen = session.can_leave_unseen();
    drop(session);
    if !is_unseen {
        questions::begin(worker, client, &backend);
        return Ok(false);
    }
    supply::yield_backend(client, &backend);
    backend.release();
    supply::give_back(worker, &backend);
    Ok(true)
}

/// What a client is told whose statement would leave the cluster that the client is bound to.
fn is_bound(worker: &Worker, client: &Client, cluster: ClusterId) -> Fault {
    let session = client.session.borrow();
    let why = match session.pin() {
        _ if session.in_transaction() => "is in a transaction".to_owned(),
        Some(pin) => format!("keeps its connection ({})", pin.name()),
        None if session.has_characteristics() => {
            "has told the server of its next transaction (SET TRANSACTION)".to_owned()
        }
        None if session.is_kept_by_rule() => "keeps its connection by a rule".to_owned(),
        None => "has a cursor or long data of a prepared statement".to_owned(),
    };
    let name = |id| &worker.shared.cluster.get(id).name;
    let message = format!(
        "Flifo did not run this statement: it leads into the cluster {:?}, and the client {why} in \
         the cluster {:?}. End that first",
        name(cluster),
        name(client.routing.cluster.get()),
    );
    Fault::new(Kind::OtherCluster, message)
}

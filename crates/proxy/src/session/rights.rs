//! Rights follow: when rights may have changed, backends that logged in before serve no client that logs in after that.
//!
//! Owns what a command may change of rights, when an era rises, and when a backend is stale. What all workers know of rights is [`crate::users::rights`]';
//! which statements change rights, and how eras are counted, is `engine::rights`'. Changes made beside Flifo are seen
//! by [`crate::frontend::watch`], or bounded by `server.rights_bound`; what logins of clients are asked for is
//! [`crate::frontend::confirm`]'s. Invariants: a backend that its client keeps is left to it, as the server leaves a
//! session its rights; an era rises before the client is told of what it did.

use std::rc::Rc;
use std::time::Instant;

use engine::account::name::UserName;
use engine::intent::Intent;
use engine::rights::{Change, Era, PreparedChanges, Whose, is_refusal};
use wire::command::Opcode;
use wire::frame::HEADER;
use wire::reply::Kind;
use wire::response::ErrPacket;
use wire::text::Text;

use crate::pool::keys::KeyId;
use crate::session::capture;
use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::in_flight::InFlight;
use crate::state::shared::Shared;
use crate::state::worker::Worker;
use crate::users::rights::{self, SHARES};

/// What a statement does to rights.
pub(crate) fn change(
    worker: &Worker,
    client: &Client,
    intent: Intent,
    text: Text<'_>,
) -> Option<Change> {
    if intent.read.is_some() {
        return None;
    }
    change_by_text(worker, client, text)
}

/// The same of a text that may be more than a read.
pub(crate) fn change_by_text(worker: &Worker, client: &Client, text: Text<'_>) -> Option<Change> {
    let server = worker.kind_of_server(client);
    let change = Change::read(text, server);
    if change.is_some() || !PreparedChanges::may_concern(text) {
        return change;
    }
    client.prepared_changes.change(|prepared| prepared.read(text, server))
}

/// The same of a command that is no query.
pub(crate) fn change_by_opcode(opcode: Option<Opcode>, packet: &[u8]) -> Option<Change> {
    let payload = packet.get(HEADER..).unwrap_or_default();
    match opcode {
        // `REFRESH_GRANT`, which is `FLUSH PRIVILEGES`.
        Some(Opcode::Refresh) if payload.get(1).is_some_and(|it| it & 1 == 1) => {
            Some(Change::of_all())
        }
        _ => None,
    }
}

/// A statement has ended that may have changed the rights of these users. Before its client is told.
fn raise(worker: &Worker, backend: &Backend, flight: &InFlight, whose: &Whose) {
    let shared = &worker.shared;
    let eras = &shared.proofs.rights.eras;
    match whose {
        Whose::All => eras.raise(),
        Whose::Own(names) => {
            let own = match (backend.key.get(), &flight.client) {
                (Some(key), _) => Some(worker.pool.keys.borrow().get(key).user.clone()),
                (None, Some(client)) => Some(client.user.borrow().clone()),
                (None, None) => None,
            };
            let named = names.iter().filter_map(|name| std::str::from_utf8(name).ok());
            let names = named.map(UserName::of_account).chain(own);
            let users: Vec<_> = names.filter_map(|name| shared.proofs.users.named(&name)).collect();
            eras.raise_of(users.iter().map(|user| &user.rights.changed));
        }
    }
    // What a login may name as its schema is a right, too.
    shared.changes.alterations.add();
}

/// A packet of a reply, on its way to the client.
#[inline]
pub(crate) fn see_reply(
    worker: &Worker,
    backend: &Backend,
    flight: &InFlight,
    kind: Kind,
    packet: &[u8],
) {
    if let Some(change) = flight.change() {
        see_reply_to(worker, backend, flight, change, kind, packet);
    }
}

fn see_reply_to(
    worker: &Worker,
    backend: &Backend,
    flight: &InFlight,
    change: &Change,
    kind: Kind,
    packet: &[u8],
) {
    let is_refused = || {
        let error = packet.get(HEADER..).map(ErrPacket::decode);
        change.is_sole && matches!(error, Some(Ok(error)) if is_refusal(error.code))
    };
    match kind {
        Kind::Ok | Kind::Eof => raise(worker, backend, flight, &change.whose),
        Kind::Err if !is_refused() => raise(worker, backend, flight, &change.whose),
        _ => {}
    }
}

/// The reply has not come, and never will: the statement may have run nevertheless.
pub(crate) fn see_lost(worker: &Worker, backend: &Backend, flight: &InFlight) {
    if let Some(change) = flight.change() {
        raise(worker, backend, flight, &change.whose);
    }
}

/// The watch has seen that rights of some user have changed on a server.
pub(crate) fn see_elsewhere(shared: &Shared) {
    shared.proofs.rights.eras.raise();
    shared.changes.alterations.add();
}

/// Whether a backend must not be lent to another client: its login may have found other rights than one would now.
#[inline]
pub(crate) fn is_stale(worker: &Worker, backend: &Backend, now: Instant) -> bool {
    let rights = &worker.shared.proofs.rights;
    let is_over = backend.origin.era != rights.eras.now()
        && is_over(worker, backend.key.get(), backend.origin.era);
    is_over || !backend.is_young(now) && is_beyond(worker, backend, now)
}

/// Until when a backend that was opened at this time is too old for nothing: neither for what is known of rights, nor
/// for `limits.backend_age`.
pub(crate) fn young_until(worker: &Worker, opened: Instant) -> Instant {
    let plan = worker.plan();
    let soonest = rights::soonest(plan.server.rights_bound);
    opened + plan.least_backend_age().map_or(soonest, |age| age.min(soonest))
}

fn is_beyond(worker: &Worker, backend: &Backend, now: Instant) -> bool {
    let share = (backend.id % u64::from(SHARES)) as u32;
    let bound = rights::of_backend(worker.plan().server.rights_bound, share);
    let ledger = &worker.at(backend.server).server.facts.rights;
    worker.shared.proofs.rights.is_beyond(ledger, backend.origin.opened, now, bound)
}

fn is_over(worker: &Worker, key: Option<KeyId>, era: Era) -> bool {
    let eras = &worker.shared.proofs.rights.eras;
    key.is_some_and(|key| worker.user_of(key, |user| eras.is_over(era, &user.rights.changed)))
}

/// Closes idle backends of an era that is over: before one of them is lent. One comparison if there is no new era.
#[inline]
pub(crate) fn look(worker: &Worker) {
    let era = worker.shared.proofs.rights.eras.now();
    if worker.upkeep.era.get() != era {
        worker.upkeep.era.set(era);
        close_stale(worker);
    }
}

/// Closes idle backends that must not be lent any more.
pub(crate) fn close_stale(worker: &Worker) {
    let now = crate::worker::clock::now();
    for local in worker.locals() {
        loop {
            let is_stale = |backend: &Rc<Backend>| is_stale(worker, backend, now);
            let idle = local.gate.borrow_mut().take_idle_backend(is_stale);
            let Some(backend) = idle else { break };
            capture::retire(worker, &backend);
        }
    }
}

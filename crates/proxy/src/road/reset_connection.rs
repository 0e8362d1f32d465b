//! Sessions that begin anew on their client's word, with its connection going on.
//!
//! Invariant: what the client is told to be undone is undone for others as well by then, and what a reset leaves at the
//! server stays with its client: its schema, what it has said of texts of several statements, a role, on MySQL a
//! prepared XA transaction.

use std::rc::Rc;

use engine::session::Reset;

use crate::answers::answer;
use crate::pool::keys::Key;
use crate::road::leaving;
use crate::state::client::Client;
use crate::state::command::{Awaits, Command};
use crate::state::worker::Worker;

/// `COM_RESET_CONNECTION`. Others must not see what was undone when the client hears that it was.
pub(crate) fn reset(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    command: Box<Command>,
    packet: &[u8],
) {
    let kept = leaving::keep(worker, client);
    let waits = kept.is_some() || leaving::give_up(worker, client);
    let forgets = forgets(worker, client);
    let mut session = client.session.borrow_mut();
    session.reset(forgets);
    if let Some(pin) = kept {
        session.keep(pin);
    }
    drop(session);
    client.routing.gtid.take();
    keep_option(worker, client);
    if waits {
        answer::hold(worker, client, command, packet, Awaits::Reset);
    } else {
        answer::ok(client, command);
    }
}

/// What its server forgets of a session that begins anew.
pub(crate) fn forgets(worker: &Worker, client: &Client) -> Reset {
    match worker.is_mysql(client) {
        true => Reset::ForgetsFound,
        false => Reset::KeepsFound,
    }
}

/// What a client has said of texts of several statements outlives its session: its next backends are opened so.
fn keep_option(worker: &Worker, client: &Client) {
    let (Some(_), Some(old)) = (client.several.get(), client.key.get()) else { return };
    let mut keys = worker.pool.keys.borrow_mut();
    let Key { user, collation, era, .. } = &*keys.get(old);
    let key = Key::new(user.clone(), client.capabilities_now(), *collation).of_era(*era);
    let owner = keys.user(old).cloned();
    if let (Some(key), Some(owner)) = (keys.id(key), owner) {
        keys.own(key, &owner);
        client.key.set(Some(key.with_schema(old.has_schema())));
    }
}

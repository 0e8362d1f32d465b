//! The schema that a pooled client names at its login, or with a change of user.
//!
//! The login is complete when the server has accepted it, as on a connection of one's own. What the server has said a
//! moment ago is not asked again ([`engine::schemas`]).

use std::rc::Rc;

use engine::schemas::Entered;
use engine::session::setup::Purpose;
use wire::command::Opcode;
use wire::frame::{put_packet, put_packet_with};
use wire::response::{OK, OkPacket};
use wire::tracker;

use crate::answers::notes;
use crate::road::commands;
use crate::routing::clusters;
use crate::state::client::Client;
use crate::state::command::Awaits;
use crate::state::worker::Worker;
use crate::worker::outbox;

/// Puts the client into the schema. Its login is answered now, or by the server's reply.
pub(crate) fn enter(worker: &Rc<Worker>, client: &Rc<Client>, schema: &[u8]) {
    let (name, since) = (Rc::from(schema), worker.shared.changes.alterations.now());
    let now = crate::worker::clock::now();
    let find = |key| worker.entrance.schemas.borrow().find(key, name, since, now);
    // Its account in that cluster comes first.
    let is_admitted = client.is_admitted(clusters::own(worker, client, Some(schema)));
    match client.key.get().filter(|_| is_admitted).and_then(find) {
        Some(entered) => {
            accept(client, entered);
            notes::see_login(worker, client);
        }
        None => {
            let mut packet = Vec::new();
            put_packet(&mut packet, 0, &[&[Opcode::InitDb as u8], schema].concat());
            commands::handle(worker, client, &mut packet, Awaits::default());
        }
    }
}

/// The server has accepted a schema for a client.
pub(crate) fn learn(worker: &Worker, client: &Client, purpose: &Purpose) {
    let Purpose::LoginSchema(name, since) = purpose else { return };
    if worker.plan().init_connect(&client.user.borrow()).is_some() {
        // What a session begins with may be more than its variables.
        return;
    }
    let session = client.session.borrow();
    let (Some(key), Some(schema)) = (client.key.get(), session.schema.clone()) else { return };
    let entered = Entered { schema, settings: session.settings.clone() };
    let now = crate::worker::clock::now();
    worker.entrance.schemas.borrow_mut().learn(key, Rc::clone(name), entered, *since, now);
}

/// Answers in the server's place, and in its words.
fn accept(client: &Client, entered: Entered) {
    let sequence = client.input.login_sequence.take().unwrap_or(1);
    outbox::in_spare(|changes| {
        let status = client.session.borrow().status();
        tracker::put_schema(&entered.schema, changes);
        let vouched = client.input.vouched.take().unwrap_or_default();
        let packet = OkPacket { status, changes, info: &vouched, ..OkPacket::EMPTY };
        outbox::in_spare(|out| {
            put_packet_with(out, sequence, |out| packet.encode(OK, client.capabilities, out));
            let mut session = client.session.borrow_mut();
            session.schema = Some(entered.schema);
            session.was_reset = false;
            session.settings = entered.settings;
            drop(session);
            client.write_last(out);
        });
    });
}

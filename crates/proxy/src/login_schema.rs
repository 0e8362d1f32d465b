//! The schema that a pooled client names at its login, or with a change of user.
//!
//! The login is complete when the server has accepted it, as on a connection of one's own. What the server has said a
//! moment ago is not asked again ([`engine::schemas`]).

use std::rc::Rc;

use wire::command::Command;
use wire::frame::{put_packet, put_packet_with};
use wire::response::{OK, OkPacket};
use wire::tracker;

use crate::client::Client;
use crate::commands;
use crate::links::Purpose;
use crate::outbox;
use crate::worker::Worker;

/// Puts the client into the schema. Its login is answered now, or by the server's reply.
pub(crate) fn enter(worker: &Rc<Worker>, client: &Rc<Client>, schema: &[u8]) {
    let (name, since) = (Rc::from(schema), worker.shared.alterations.now());
    let user = Rc::clone(&client.user.borrow());
    let found = worker.schemas.borrow().find(&user, &name, since, crate::clock::now());
    match found {
        Some(schema) => accept(client, schema),
        None => {
            let mut packet = Vec::new();
            put_packet(&mut packet, 0, &[&[Command::InitDb as u8], schema].concat());
            commands::handle(worker, client, &mut packet, None);
        }
    }
}

/// The server has accepted a schema for a client.
pub(crate) fn learn(worker: &Worker, client: &Client, purpose: &Purpose) {
    let Purpose::LoginSchema(name, since) = purpose else { return };
    let Some(schema) = client.session.borrow().schema.clone() else { return };
    let user = Rc::clone(&client.user.borrow());
    let now = crate::clock::now();
    worker.schemas.borrow_mut().learn(user, Rc::clone(name), schema, *since, now);
}

/// Answers in the server's place, and in its words.
fn accept(client: &Client, schema: Rc<[u8]>) {
    let sequence = client.login_sequence.take().unwrap_or(1);
    outbox::in_spare(|changes| {
        let status = client.session.borrow().status();
        tracker::put_schema(&schema, changes);
        let packet = OkPacket { status, changes, ..OkPacket::EMPTY };
        outbox::in_spare(|out| {
            put_packet_with(out, sequence, |out| packet.encode(OK, client.capabilities, out));
            client.session.borrow_mut().schema = Some(schema);
            client.write_last(out);
        });
    });
}

//! Statements whose words only Flifo can give their meaning, put for the server before they are sent: ids and counts
//! that are the client's own, and messages that are kept here.

use std::rc::Rc;

use engine::counts::Asked;
use engine::intent::Intent;
use engine::kept::SavedDiagnostics;
use engine::session::{Diagnostics, Messages};
use engine::{gtid, own_id};
use wire::command::Opcode;
use wire::frame::{HEADER, put_joined};
use wire::text::Text;

use crate::dispatch::backend::Backend;
use crate::dispatch::client::Client;
use crate::dispatch::command::Command;
use crate::dispatch::route;
use crate::dispatch::session_setup;
use crate::dispatch::worker::Worker;

/// The packet with the client's own id in the place of `CONNECTION_ID()`, if that occurs, and whether the backend is
/// asked for it all the same.
pub(crate) fn with_own_id(
    worker: &Worker,
    client: &Client,
    text_at: usize,
    packet: &[u8],
    text: Text<'_>,
) -> (Option<Vec<u8>>, bool) {
    if client.session.borrow().has_own_number() {
        return (None, true);
    }
    let brand = worker.shared.cluster.server(client.server.get()).facts.brand();
    let own = own_id::put(text, client.id, brand);
    let packet = own.text.map(|text| {
        let mut out = Vec::new();
        put_joined(&mut out, 0, &[&packet[HEADER..HEADER + text_at], &text]);
        out
    });
    (packet, own.asks_backend)
}

/// The packet with counts of rows in the place of the calls that ask for them, and what must still be asked.
pub(crate) fn with_counts(
    worker: &Worker,
    client: &Client,
    command: &Command,
    text_at: usize,
    packet: &[u8],
    text: Text<'_>,
) -> (Option<Vec<u8>>, Asked) {
    let session = client.session.borrow();
    // Where something goes ahead, the backend counts that.
    let knows = |backend: &Rc<Backend>| {
        session_setup::counts_anew(worker, client, command, backend).is_none()
    };
    let on = client.backend().filter(knows).map(|backend| backend.id);
    let (text, left) = session.counts.put(text, command.facts.counts, on);
    let packet = text.map(|text| {
        let mut out = Vec::new();
        put_joined(&mut out, 0, &[&packet[HEADER..HEADER + text_at], &text]);
        out
    });
    (packet, left)
}

/// The packet with the GTID of the client's own last write in the place of the variable that asks for it.
pub(crate) fn with_gtid(
    worker: &Worker,
    client: &Client,
    text_at: usize,
    packet: &[u8],
    text: Text<'_>,
) -> Option<Vec<u8>> {
    // No other server has such a variable, and it says so.
    if !worker.at(route::greeter(worker)).server.facts.is_mariadb() {
        return None;
    }
    let text = gtid::put(text, &client.gtid.borrow())?;
    let mut out = Vec::new();
    put_joined(&mut out, 0, &[&packet[HEADER..HEADER + text_at], &text]);
    Some(out)
}

/// The packet with a `GET DIAGNOSTICS` that no backend can answer replaced by what answers it.
pub(crate) fn with_diagnostics(
    worker: &Worker,
    client: &Client,
    text_at: usize,
    packet: &[u8],
    text: Text<'_>,
) -> Option<Vec<u8>> {
    let session = client.session.borrow();
    if session.diagnostics() == Diagnostics::OnBackend {
        return None;
    }
    let affected = session.counts.affected()?;
    let text =
        SavedDiagnostics::get(session.kept(), affected, text, worker.kind_of_server(client))?;
    let mut out = Vec::new();
    put_joined(&mut out, 0, &[&packet[HEADER..HEADER + text_at], &text]);
    Some(out)
}

/// The same for a `GET DIAGNOSTICS` that was prepared with this text: a query, which is answered alike.
pub(crate) fn diagnoses(
    worker: &Worker,
    client: &Client,
    intent: Intent,
    text: Text<'_>,
) -> Option<Vec<u8>> {
    if intent.messages != Messages::Diagnosed {
        return None;
    }
    let mut query = Vec::new();
    put_joined(&mut query, 0, &[&[Opcode::Query as u8], text.bytes]);
    with_diagnostics(worker, client, 1, &query, text)
}

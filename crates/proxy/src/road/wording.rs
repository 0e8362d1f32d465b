//! Statements whose words only Flifo can give their meaning, put for the server before they are sent: ids and counts that
//! are the client's own, and messages that are kept here.

use engine::counts::Asked;
use engine::kept::Kept;
use engine::kill::replace_connection_id;
use engine::session::Diagnostics;
use wire::command::{Command, query_text_at};
use wire::frame::{HEADER, put_packet};

use crate::road::client::Client;

/// The packet with `CONNECTION_ID()` replaced by the client's own id, if that occurs.
pub(crate) fn with_own_id(
    client: &Client,
    command: Option<Command>,
    packet: &[u8],
) -> Option<Vec<u8>> {
    let payload = &packet[HEADER..];
    let text_at = match command? {
        Command::Query => query_text_at(payload, client.capabilities)?,
        Command::StmtPrepare => 1,
        _ => return None,
    };
    let text =
        replace_connection_id(&payload[text_at..], client.session.borrow().dialect(), client.id)?;
    let mut out = Vec::with_capacity(packet.len() + 16);
    put_packet(&mut out, 0, &[&payload[..text_at], &text[..]].concat());
    Some(out)
}

/// The packet with counts of rows in the place of the calls that ask for them, and what must still be asked.
pub(crate) fn with_counts(
    client: &Client,
    text_at: usize,
    packet: &[u8],
    asked: Asked,
    insert_id: bool,
) -> (Option<Vec<u8>>, Asked) {
    let (head, text) = packet[HEADER..].split_at(text_at);
    let session = client.session.borrow();
    // Where the link must be asked for the insert id first, it counts anew.
    let is_asked = |link: u64| {
        insert_id && session.insert_id.is_on(link) && !session.insert_id.is_plainly_on(link)
    };
    let on = client.link().map(|link| link.id).filter(|link| !is_asked(*link));
    let (text, left) = session.counts.put(text, session.dialect(), asked, on);
    let packet = text.map(|text| {
        let mut out = Vec::with_capacity(packet.len() + 32);
        put_packet(&mut out, 0, &[head, &text[..]].concat());
        out
    });
    (packet, left)
}

/// The packet with a `GET DIAGNOSTICS` that no link can answer replaced by what answers it.
pub(crate) fn with_diagnostics(client: &Client, text_at: usize, packet: &[u8]) -> Option<Vec<u8>> {
    let (head, text) = packet[HEADER..].split_at(text_at);
    let session = client.session.borrow();
    if session.diagnostics() == Diagnostics::OnLink {
        return None;
    }
    let (affected, dialect) = (session.counts.affected(), session.dialect());
    let text = Kept::get(session.kept(), affected, text, dialect)?;
    let mut out = Vec::with_capacity(packet.len() + text.len());
    put_packet(&mut out, 0, &[head, &text[..]].concat());
    Some(out)
}

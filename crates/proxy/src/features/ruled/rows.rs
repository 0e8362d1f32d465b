//! A result of fixed rows, which a rule gives in the server's place.

use wire::bytes::Write;
use wire::capability::Capabilities;
use wire::frame::put_packet_with;
use wire::response::{EOF, EofPacket, OkPacket};

use crate::state::client::Client;
use crate::state::command::Command;
use crate::worker::outbox;

/// Answers a query with these rows.
pub(crate) fn answer(
    client: &Client,
    command: Box<Command>,
    columns: &[String],
    rows: &[Vec<String>],
) {
    command.end();
    let status = client.session.borrow().status();
    // As behind any result: no count of rows affected.
    client.session.borrow_mut().counts.answer(-1);
    let capabilities = client.capabilities;
    let mut sequence = client.take_sequence();
    let end = |out: &mut Vec<u8>| match capabilities.has(Capabilities::DEPRECATE_EOF) {
        true => OkPacket { status, ..OkPacket::EMPTY }.encode(EOF, capabilities, out),
        false => out.extend_from_slice(&EofPacket { warnings: 0, status }.encode()),
    };
    outbox::in_spare(|out| {
        let mut put = |write: &dyn Fn(&mut Vec<u8>)| {
            put_packet_with(out, sequence, |out| write(out));
            sequence = sequence.wrapping_add(1);
        };
        put(&|out| {
            // Columns follow, where a client might do without.
            if capabilities.has(Capabilities::OPTIONAL_METADATA) {
                out.push(1);
            }
            out.put_lenenc(columns.len() as u64);
            if capabilities.has(Capabilities::CACHE_METADATA) {
                out.push(1);
            }
        });
        columns.iter().for_each(|name| put(&|out| put_column(name, capabilities, out)));
        if !capabilities.has(Capabilities::DEPRECATE_EOF) {
            put(&end);
        }
        for row in rows {
            put(&|out| row.iter().for_each(|value| out.put_lenenc_bytes(value.as_bytes())));
        }
        put(&end);
        client.write_last(out);
    });
}

/// A column of texts in UTF-8.
fn put_column(name: &str, capabilities: Capabilities, out: &mut Vec<u8>) {
    const UTF8MB4: u16 = 45;
    const VAR_STRING: u8 = 0xfd;
    for text in ["def", "", "", "", name, ""] {
        out.put_lenenc_bytes(text.as_bytes());
    }
    if capabilities.has(Capabilities::EXTENDED_METADATA) {
        out.push(0);
    }
    out.push(0x0c);
    out.put_u16(UTF8MB4);
    out.put_u32(1 << 16);
    out.push(VAR_STRING);
    out.put_u16(0);
    out.push(31);
    out.extend_from_slice(&[0; 2]);
}

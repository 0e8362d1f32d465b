//! Packets of the server's as clients must see them. Learns nothing from them but a GTID that is passed by.

use std::cell::RefCell;

use engine::marks::Marks;
use engine::trackers::Listen;
use wire::capability::Capabilities;
use wire::frame::{HEADER, put_packet_with};
use wire::response::{OkPacket, Status};
use wire::tracker::{Change, Changes, put_change};

/// The OK packet as the client would have got it: without what only Flifo asked the server to report. The GTID of a
/// write, if it is reported, is told to `note`.
pub(crate) fn ok(
    ok: &OkPacket<'_>,
    packet: &[u8],
    capabilities: Capabilities,
    listens: Marks<Listen>,
    scratch: &RefCell<Vec<u8>>,
    note: impl Fn(&[u8]),
) -> Option<Vec<u8>> {
    // MariaDB reports now and then that nothing has changed.
    if ok.changes.is_empty() && !ok.status.has(Status::STATE_CHANGED) {
        return None;
    }
    let mut changes = Vec::new();
    for change in Changes::new(ok.changes).flatten() {
        if let Change::Variable { name: b"last_gtid", value } = change {
            note(value);
        }
        match change {
            Change::Schema(_) => put_change(&mut changes, change),
            Change::Variable { name, .. }
                if listens.has(Listen::Variables) || TRACKED.contains(&name) =>
            {
                put_change(&mut changes, change);
            }
            Change::State if listens.has(Listen::State) => put_change(&mut changes, change),
            Change::TransactionCharacteristics(_) | Change::TransactionState(_)
                if listens.has(Listen::Transactions) =>
            {
                put_change(&mut changes, change);
            }
            // Flifo does not ask for them: its client has, and keeps the backend.
            Change::Gtids(_) => put_change(&mut changes, change),
            _ => {}
        }
    }
    Some(written(&OkPacket { changes: &changes, ..*ok }, packet, capabilities, scratch))
}

/// This in the place of the packet.
pub(crate) fn written(
    ok: &OkPacket<'_>,
    packet: &[u8],
    capabilities: Capabilities,
    scratch: &RefCell<Vec<u8>>,
) -> Vec<u8> {
    // Statements in a transaction report that they are: no allocation for each.
    let mut out = scratch.take();
    out.clear();
    put_packet_with(&mut out, packet[HEADER - 1], |out| {
        ok.encode(packet[HEADER], capabilities, out);
    });
    out
}

/// The variables that servers report by default to a client that asks for session tracking.
const TRACKED: [&[u8]; 5] = [
    b"autocommit",
    b"character_set_client",
    b"character_set_connection",
    b"character_set_results",
    b"time_zone",
];

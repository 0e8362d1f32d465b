//! Packets of the server's as clients must see them. Learns nothing from them but a GTID that is passed by.

use std::cell::RefCell;

use engine::marks::Marks;
use engine::trackers::Listen;
use wire::capability::Capabilities;
use wire::frame::{HEADER, put_packet_with};
use wire::response::{OkPacket, Status};
use wire::tracker::{Change, Changes, put_change};

/// The OK packet as the client would have got it: without what only Flifo asked the server to report, and with what a
/// server begins its reports with, if the client `listened` to less before it. The GTID of a write, if it is reported, is
/// told to `note`.
pub(crate) fn ok(
    ok: &OkPacket<'_>,
    packet: &[u8],
    capabilities: Capabilities,
    (listened, listens): (Marks<Listen>, Marks<Listen>),
    scratch: &RefCell<Vec<u8>>,
    note: impl Fn(&[u8]),
) -> Option<Vec<u8>> {
    // MariaDB reports now and then that nothing has changed.
    if ok.changes.is_empty() && !ok.status.has(Status::STATE_CHANGED) {
        return None;
    }
    let mut changes = Vec::new();
    let begins = listens.has(Listen::Transactions) && !listened.has(Listen::Transactions);
    let is_told = || {
        let mut told = Changes::new(ok.changes).flatten();
        told.any(|change| matches!(change, Change::TransactionState(_)))
    };
    if begins && is_whole_reply(packet, ok.status) && !is_told() {
        // To the server this is not new, if it has told Flifo of transactions before.
        put_change(&mut changes, Change::TransactionState(NO_TRANSACTION));
    }
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
            Change::State(_) if listens.has(Listen::State) => put_change(&mut changes, change),
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

/// Whether nothing comes before or behind this packet in a reply, so that it may be replaced by a longer one.
pub(crate) fn is_whole_reply(packet: &[u8], status: Status) -> bool {
    packet.get(HEADER - 1) == Some(&1) && !status.has(Status::MORE_RESULTS)
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

/// What servers take for the state when they are first asked for it, whatever it is.
const NO_TRANSACTION: &[u8] = b"________";

/// The variables that servers report by default to a client that asks for session tracking.
const TRACKED: [&[u8]; 5] = [
    b"autocommit",
    b"character_set_client",
    b"character_set_connection",
    b"character_set_results",
    b"time_zone",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_asks_for_transactions_is_told_where_reports_begin() {
        let capabilities = Capabilities::PROTOCOL_41 | Capabilities::SESSION_TRACK;
        let told = |sequence: u8, more: u16, listened: Marks<Listen>| {
            let mut changes = Vec::new();
            put_change(&mut changes, Change::State(b"1"));
            put_change(&mut changes, Change::TransactionCharacteristics(b""));
            let status = Status(Status::STATE_CHANGED.0 | more);
            let ok_packet = OkPacket { changes: &changes, status, ..OkPacket::EMPTY };
            let scratch = RefCell::default();
            let packet = written(&ok_packet, &[0, 0, 0, sequence, 0], capabilities, &scratch);
            let listens = Marks::default().with(Listen::Transactions);
            let out = ok(&ok_packet, &packet, capabilities, (listened, listens), &scratch, |_| {});
            let out = out.expect("it is another one");
            let changes = OkPacket::decode(&out[HEADER..], capabilities).unwrap().changes.to_vec();
            Changes::new(&changes)
                .flatten()
                .any(|it| it == Change::TransactionState(NO_TRANSACTION))
        };
        let all = Marks::default().with(Listen::Transactions);
        assert!(told(1, 0, Marks::default()));
        assert!(!told(1, 0, all), "it was told before");
        assert!(!told(2, 0, Marks::default()), "there is no room for more");
        assert!(!told(1, Status::MORE_RESULTS.0, Marks::default()), "nor here");
    }

    #[test]
    fn what_the_server_tells_by_itself_is_not_told_twice() {
        let capabilities = Capabilities::PROTOCOL_41 | Capabilities::SESSION_TRACK;
        let mut changes = Vec::new();
        put_change(&mut changes, Change::TransactionState(NO_TRANSACTION));
        let ok_packet =
            OkPacket { changes: &changes, status: Status::STATE_CHANGED, ..OkPacket::EMPTY };
        let scratch = RefCell::default();
        let packet = written(&ok_packet, &[0, 0, 0, 1, 0], capabilities, &scratch);
        let listens = (Marks::default(), Marks::default().with(Listen::Transactions));
        let out = ok(&ok_packet, &packet, capabilities, listens, &scratch, |_| {});
        assert_eq!(out.expect("it is written anew"), packet);
    }
}

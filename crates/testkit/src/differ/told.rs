//! What a client that asks for it is told of changes to its session, as two servers that are equal tell it.
//!
//! Rewrites OK packets: what is reported stands in one order, each change by itself, and numbers that only one server has
//! are masked. Which these are is said in [`super::peer`].
//!
//! The schema that a client knows to be in is not told again. A routine of another schema comes back to it; where it has
//! failed, servers report that with whatever changes next of what they have been asked to report, which is more for Flifo.
//! A schema is reported as a change of state, too.

use wire::Capabilities;
use wire::response::{EOF, OK, OkPacket, Status};
use wire::tracker::{Change, Changes, put_change};

use super::program::Abilities;
use super::reading::Packet;

/// What a client has been told.
#[derive(Debug, Default)]
pub(super) struct Told {
    schema: Vec<u8>,
    /// It is MySQL from 9.0 on, which tells every client what transaction is open, whatever that has asked for (seen at
    /// 9.7).
    pub tells_transactions: bool,
}

impl Told {
    /// Rewrites the packet that was read last, if it is an OK of a client that is told of changes.
    pub(super) fn sort_last(&mut self, packets: &mut [Packet], abilities: Abilities) {
        let Some(packet) = packets.last_mut().filter(|_| abilities.track) else { return };
        let Some(&first) = packet.payload.first() else { return };
        if first == OK || first == EOF {
            self.sort(first, &mut packet.payload);
        }
    }

    fn sort(&mut self, first: u8, payload: &mut Vec<u8>) {
        let capabilities = Capabilities::PROTOCOL_41 | Capabilities::SESSION_TRACK;
        let Ok(ok) = OkPacket::decode(payload, capabilities) else { return };
        let (mut told, mut is_back): (Vec<Vec<u8>>, bool) = (Vec::new(), false);
        for change in Changes::new(ok.changes) {
            let Ok(change) = change else { return };
            if let Change::Schema(name) = change {
                if name == self.schema {
                    is_back = true;
                    continue;
                }
                self.schema = name.to_vec();
            }
            let is_own = match change {
                Change::TransactionState(_) => self.tells_transactions,
                Change::Variable { name, .. } => name == COUNTED,
                _ => false,
            };
            if is_own {
                continue;
            }
            let masked = match change {
                Change::Variable { name, .. } if OWN.contains(&name) => {
                    Change::Variable { name, value: b"#" }
                }
                other => other,
            };
            let mut bytes = Vec::new();
            put_change(&mut bytes, masked);
            told.push(bytes);
        }
        if is_back {
            told.retain(|change| {
                !matches!(Changes::new(change).next(), Some(Ok(Change::State(_))))
            });
        }
        told.sort();
        let (changes, mut status) = (told.concat(), ok.status);
        status.0 &= !Status::STATE_CHANGED.0;
        if !changes.is_empty() {
            status.0 |= Status::STATE_CHANGED.0;
        }
        let mut out = Vec::new();
        OkPacket { changes: &changes, status, ..ok }.encode(first, capabilities, &mut out);
        *payload = out;
    }
}

/// Variables whose values are a server's own.
const OWN: [&[u8]; 2] = [b"last_gtid", b"timestamp"];

/// MySQL's newer servers count their statements, and tell the number with whatever is told next.
const COUNTED: &[u8] = b"statement_id";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_a_servers_own_numbers_are_no_difference_and_all_else_is() {
        let told = |changes: &[Change<'_>], status: u16| {
            let mut bytes = Vec::new();
            changes.iter().for_each(|change| put_change(&mut bytes, *change));
            let capabilities = Capabilities::PROTOCOL_41 | Capabilities::SESSION_TRACK;
            let ok = OkPacket { changes: &bytes, status: Status(status), ..OkPacket::EMPTY };
            let mut payload = Vec::new();
            ok.encode(OK, capabilities, &mut payload);
            let mut packets = [Packet { sequence: 1, payload }];
            let abilities = Abilities { track: true, no_eof: true, ..Abilities::default() };
            Told { schema: b"known".to_vec(), ..Told::default() }
                .sort_last(&mut packets, abilities);
            packets[0].payload.clone()
        };
        let gtid = |value: &'static [u8]| Change::Variable { name: b"last_gtid", value };
        let changed = 2 | Status::STATE_CHANGED.0;
        let both = told(&[Change::State(b"1"), gtid(b"0-1-7")], changed);
        assert_eq!(told(&[gtid(b"0-1-9"), Change::State(b"1")], changed), both);
        assert_ne!(told(&[gtid(b"0-1-9")], changed), both);
        assert_ne!(told(&[Change::State(b"1"), gtid(b"0-1-7")], changed | 1), both);
        assert_eq!(told(&[], changed), told(&[], 2), "a flag without changes");
        assert_eq!(told(&[Change::Schema(b"known")], changed), told(&[], 2));
        assert_ne!(told(&[Change::Schema(b"other")], changed), told(&[], 2));
    }
}

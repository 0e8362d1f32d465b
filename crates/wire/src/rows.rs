//! Reads small replies as a whole: the rows of a question of one's own, in the text protocol.

use crate::bytes::{Malformed, Reader};
use crate::frame::{HEADER, Header};
use crate::response::EOF;

/// Values in the order of their columns; `None` stands for NULL.
pub type Row = Vec<Option<Vec<u8>>>;

/// The rows of the first result of a reply, all of whose packets are there. `None`: it has none, or is malformed.
pub fn read(reply: &[u8]) -> Option<Vec<Row>> {
    read_rows(reply).filter(|(_, is_whole)| *is_whole).map(|(rows, _)| rows)
}

/// The same of a reply that may be cut off: the rows that are there. `None`: not even the first one is.
pub fn read_first(reply: &[u8]) -> Option<Vec<Row>> {
    read_rows(reply).filter(|(rows, is_whole)| *is_whole || !rows.is_empty()).map(|(rows, _)| rows)
}

/// Rows, and whether they are all.
fn read_rows(reply: &[u8]) -> Option<(Vec<Row>, bool)> {
    let mut packets = Packets(reply);
    let columns = usize::from(*packets.next()?.first()?);
    if columns == 0 || columns > 250 {
        return None;
    }
    if packets.by_ref().take(columns).count() < columns {
        return None;
    }
    let mut rows = Vec::new();
    // Behind an EOF packet at the columns there may be no other one: then there are no rows.
    let mut is_whole = false;
    for (at, packet) in packets.by_ref().enumerate() {
        match *packet.first()? {
            // Between columns and rows, or behind rows.
            EOF if at == 0 && packet.len() < 6 => is_whole = true,
            EOF => return Some((rows, true)),
            _ => {
                rows.push(read_row(packet, columns)?);
                is_whole = false;
            }
        }
    }
    Some((rows, is_whole && packets.0.is_empty()))
}

/// The first two values of the first row, as far as these are numbers; takes no memory.
pub fn numbers(reply: &[u8]) -> [Option<u64>; 2] {
    let mut packets = Packets(reply);
    let columns = packets.next().and_then(|packet| packet.first().copied()).unwrap_or(0);
    let row = packets.skip(columns.into()).find(|packet| packet.first() != Some(&EOF));
    let mut reader = Reader::new(row.unwrap_or_default());
    let mut number = || {
        let value = reader.lenenc_bytes("number").ok()?;
        std::str::from_utf8(value).ok()?.parse().ok()
    };
    [number(), number()]
}

fn read_row(packet: &[u8], columns: usize) -> Option<Row> {
    let mut reader = Reader::new(packet);
    let mut value = || Some(value(&mut reader).ok()?.map(<[u8]>::to_vec));
    (0..columns).map(|_| value()).collect()
}

/// The next value of a row; `None` stands for NULL.
pub fn value<'a>(row: &mut Reader<'a>) -> Result<Option<&'a [u8]>, Malformed> {
    const NULL: u8 = 0xfb;
    match row.rest().first() {
        Some(&NULL) => row.u8("NULL").map(|_| None),
        _ => row.lenenc_bytes("value").map(Some),
    }
}

/// The name of a column, from its definition.
pub fn column_name(definition: &[u8]) -> Result<&[u8], Malformed> {
    let mut reader = Reader::new(definition);
    for part in ["catalog", "schema", "table", "table's own name"] {
        reader.lenenc_bytes(part)?;
    }
    reader.lenenc_bytes("column's name")
}

/// Payloads, one after the other.
struct Packets<'a>(&'a [u8]);

impl<'a> Iterator for Packets<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let header = Header::peek(self.0)?;
        let (packet, rest) = self.0.split_at_checked(HEADER + header.len)?;
        self.0 = rest;
        Some(&packet[HEADER..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::put_packet;

    fn reply(payloads: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        payloads.iter().fold(1, |sequence, payload| put_packet(&mut out, sequence, payload));
        out
    }

    #[test]
    fn columns_have_names() {
        let definition = b"\x03def\x01s\x01t\x01o\x04name\x04real\x0c\x3f\0";
        assert_eq!(column_name(definition), Ok(&b"name"[..]));
        assert!(column_name(&definition[..12]).is_err());
    }

    #[test]
    fn rows_are_read_with_and_without_packets_between() {
        let row = Some(vec![vec![Some(b"a".to_vec()), None]]);
        let (a, eof, ok) = (&b"\x01a\xfb"[..], &b"\xfe\0\0\x02\0"[..], &b"\xfe\0\0\x02\0\0\0"[..]);
        assert_eq!(read(&reply(&[b"\x02", b"c", b"c", eof, a, eof])), row);
        assert_eq!(read(&reply(&[b"\x02", b"c", b"c", a, ok])), row);
        assert_eq!(read(&reply(&[b"\x02", b"c", b"c", eof, eof])), Some(Vec::new()));
        assert_eq!(read(&reply(&[b"\x02", b"c", b"c", ok])), Some(Vec::new()));
        assert_eq!(read(&reply(&[b"\x02", b"c", b"c", a])), None, "cut off");
        let cut = reply(&[b"\x02", b"c", b"c", eof, a, a]);
        assert_eq!(read_first(&cut).map(|rows| rows.len()), Some(2));
        assert_eq!(read_first(&cut[..cut.len() - 1]), row, "the last one is cut off");
        assert_eq!(read_first(&cut[..cut.len() - 9]), None, "the first one as well");
        assert_eq!(read_first(&reply(&[b"\x02", b"c", b"c", eof, eof])), Some(Vec::new()));
        assert_eq!(read(&reply(&[b"\xff\x01\x02"])), None, "an error");
        for packets in [&[b"\x01", b"c", eof, b"\x0242", eof][..], &[b"\x01", b"c", b"\x0242", ok]]
        {
            assert_eq!(numbers(&reply(packets))[0], Some(42));
        }
        let two = [&b"\x02"[..], b"c", b"c", eof, b"\x0242\x017", eof];
        assert_eq!(numbers(&reply(&two)), [Some(42), Some(7)]);
        for packets in
            [&[b"\x01", b"c", eof, eof][..], &[b"\x01", b"c", a], &[b"\xff\x01\x02"], &[]]
        {
            assert_eq!(numbers(&reply(packets)), [None; 2], "{packets:?}");
        }
        assert_eq!(read(&reply(&[b"\0\0\0"])), None, "no rows");
        assert_eq!(read(&reply(&[b"\x02", b"c", b"c", b"\x09a", ok])), None);
    }
}

//! A reply is followed the same way whether it comes at once or byte by byte.

use super::*;
use crate::frame::put_packet;

/// Follows `bytes` in pieces of `piece` bytes as a backend would, and tells the packets seen and the end.
fn follow(
    shape: Shape,
    capabilities: Capabilities,
    bytes: &[u8],
    piece: usize,
) -> Result<(Vec<Kind>, Option<usize>), Malformed> {
    let mut follower = Follower::new(shape, capabilities);
    let mut kinds = Vec::new();
    let mut held: Vec<u8> = Vec::new();
    let mut gone = 0;
    for chunk in bytes.chunks(piece) {
        held.extend_from_slice(chunk);
        let mut at = 0;
        loop {
            match follower.advance(&mut held, at)? {
                Step::More { from } => {
                    held.drain(..from);
                    gone += from;
                    break;
                }
                Step::Packet { kind, end, .. } => {
                    kinds.push(kind);
                    at = end;
                }
                Step::End { at } => return Ok((kinds, Some(gone + at))),
            }
        }
    }
    Ok((kinds, None))
}

/// Checks that a reply made of these payloads ends with its last byte, whatever the pieces, and not before.
fn check(shape: Shape, capabilities: Capabilities, payloads: &[&[u8]], want: &[Kind]) {
    let mut bytes = Vec::new();
    let mut sequence = 1;
    for payload in payloads {
        sequence = put_packet(&mut bytes, sequence, payload);
    }
    let len = bytes.len();
    bytes.extend_from_slice(b"\x01\x00\x00\x00next reply");
    for piece in [1, 2, 3, 5, 7, 64, bytes.len()] {
        let got = follow(shape, capabilities, &bytes, piece);
        assert_eq!(got, Ok((want.to_vec(), Some(len))), "pieces of {piece}");
    }
    for cut in 0..len {
        let (_, end) = follow(shape, capabilities, &bytes[..cut], 4096).unwrap();
        assert_eq!(end, None, "ended {cut} bytes early");
    }
}

const OLD: Capabilities = Capabilities::NONE;
const NEW: Capabilities = Capabilities::DEPRECATE_EOF;
const OK_PACKET: &[u8] = &[0, 0, 0, 2, 0, 0, 0];
const OK_MORE: &[u8] = &[0, 0, 0, 10, 0, 0, 0];
const EOF_PACKET: &[u8] = &[0xfe, 0, 0, 2, 0];
const EOF_MORE: &[u8] = &[0xfe, 0, 0, 10, 0];
const EOF_CURSOR: &[u8] = &[0xfe, 0, 0, 0x42, 0];
const OK_AS_EOF: &[u8] = &[0xfe, 0, 0, 2, 0, 0, 0];
const ERR_PACKET: &[u8] = b"\xff\x28\x04#42000no";
const PROGRESS: &[u8] = b"\xff\xff\xff\x01\x01\x02\x00\x00\x00\x03one";
const COLUMN: &[u8] = b"\x03def and so on";
const ROW: &[u8] = b"\x01a\x01b";

#[test]
fn simple_replies() {
    check(Shape::Simple, OLD, &[OK_PACKET], &[Kind::Ok]);
    check(Shape::Simple, OLD, &[EOF_PACKET], &[Kind::Eof]);
    check(Shape::Simple, NEW, &[OK_AS_EOF], &[Kind::Ok]);
    check(Shape::Simple, OLD, &[ERR_PACKET], &[Kind::Err]);
    check(Shape::Text, OLD, &[b"Uptime: 1"], &[Kind::Text]);
    check(Shape::Text, OLD, &[ERR_PACKET], &[Kind::Err]);
}

#[test]
fn result_sets_with_and_without_eof_packets() {
    let old: &[&[u8]] = &[b"\x02", COLUMN, COLUMN, EOF_PACKET, ROW, ROW, EOF_PACKET];
    check(Shape::Results, OLD, old, &[Kind::Eof, Kind::Eof]);
    let new: &[&[u8]] = &[b"\x02", COLUMN, COLUMN, ROW, ROW, OK_AS_EOF];
    check(Shape::Results, NEW, new, &[Kind::Ok]);
    let broken: &[&[u8]] = &[b"\x01", COLUMN, ROW, ERR_PACKET];
    check(Shape::Results, NEW, broken, &[Kind::Err]);
}

#[test]
fn several_results_are_one_reply() {
    let mixed: &[&[u8]] = &[
        OK_MORE, b"\x01", COLUMN, EOF_PACKET, ROW, EOF_MORE, b"\x01", COLUMN, EOF_PACKET,
        EOF_PACKET,
    ];
    check(Shape::Results, OLD, mixed, &[Kind::Ok, Kind::Eof, Kind::Eof, Kind::Eof, Kind::Eof]);
    check(Shape::Results, NEW, &[OK_MORE, ERR_PACKET], &[Kind::Ok, Kind::Err]);
}

#[test]
fn a_cursor_has_no_rows_until_they_are_fetched() {
    check(Shape::Results, OLD, &[b"\x01", COLUMN, EOF_CURSOR], &[Kind::Eof]);
    check(Shape::Rows, OLD, &[ROW, ROW, EOF_CURSOR], &[Kind::Eof]);
    check(Shape::Rows, NEW, &[b"\x00\x00\x01a", OK_AS_EOF], &[Kind::Ok]);
}

#[test]
fn a_file_is_asked_for_and_then_confirmed() {
    check(Shape::Results, NEW, &[b"\xfb/tmp/x", OK_PACKET], &[Kind::LocalInfile, Kind::Ok]);
}

#[test]
fn progress_ends_nothing() {
    check(
        Shape::Results,
        NEW | Capabilities::PROGRESS,
        &[PROGRESS, PROGRESS, OK_PACKET],
        &[Kind::Progress, Kind::Progress, Kind::Ok],
    );
}

#[test]
fn prepared_statements() {
    const BOTH: &[u8] = &[0, 1, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0];
    const NOTHING: &[u8] = &[0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    const COLUMNS: &[u8] = &[0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    let old: &[&[u8]] = &[BOTH, COLUMN, COLUMN, EOF_PACKET, COLUMN, EOF_PACKET];
    check(Shape::Prepared, OLD, old, &[Kind::Prepared, Kind::Eof, Kind::Eof]);
    check(Shape::Prepared, NEW, &[BOTH, COLUMN, COLUMN, COLUMN], &[Kind::Prepared]);
    check(Shape::Prepared, OLD, &[NOTHING], &[Kind::Prepared]);
    check(Shape::Prepared, OLD, &[OK_PACKET], &[Kind::Ok]);
    // MySQL 9.7, to one that is told of its session.
    let told = b"\0\0\0\x02\x40\0\0\0\x13\0\x11\x0cstatement_id\x03681";
    check(Shape::Prepared, OLD, &[told], &[Kind::Ok]);
    check(Shape::Prepared, NEW, &[COLUMNS, COLUMN], &[Kind::Prepared]);
    check(Shape::Prepared, NEW, &[ERR_PACKET], &[Kind::Err]);
}

#[test]
fn field_lists_end_with_an_eof() {
    check(Shape::Fields, OLD, &[COLUMN, COLUMN, EOF_PACKET], &[Kind::Eof]);
    check(Shape::Fields, NEW, &[COLUMN, OK_AS_EOF], &[Kind::Ok]);
}

#[test]
fn cached_column_definitions_are_left_out() {
    let cached = NEW | Capabilities::CACHE_METADATA;
    check(Shape::Results, cached, &[b"\x02\x00", ROW, OK_AS_EOF], &[Kind::Ok]);
    check(Shape::Results, cached, &[b"\x01\x01", COLUMN, ROW, OK_AS_EOF], &[Kind::Ok]);
}

#[test]
fn a_change_of_user_is_a_conversation() {
    let switch: &[u8] = b"\xfemysql_native_password\x0001234567890123456789\x00";
    let kinds = &[Kind::Authentication, Kind::Authentication, Kind::Ok];
    check(Shape::Authentication, NEW, &[switch, b"\x01\x03", OK_PACKET], kinds);
}

#[test]
fn what_flifo_says_in_a_change_of_user_is_numbered_behind_the_clients_answer() {
    let mut follower = Follower::new(Shape::Authentication, NEW);
    // The client's answers are 2 and 4.
    for (sequence, payload, next) in
        [(1, &b"\xfedialog\0"[..], 3), (3, b"\x01\x04", 5), (5, b"\x01\x03", 6)]
    {
        let mut bytes = Vec::new();
        put_packet(&mut bytes, sequence, payload);
        let kind = Kind::Authentication;
        let step = Step::Packet { kind, start: 0, end: bytes.len() };
        assert_eq!(follower.advance(&mut bytes, 0), Ok(step));
        assert_eq!(follower.next_sequence(), next, "{payload:?}");
    }
}

#[test]
fn a_row_of_more_than_one_packet_is_not_mistaken_for_its_end() {
    // Its first column is longer than 16 MiB, so the row begins with 0xfe as an EOF does; and its continuation
    // begins like an error.
    let mut row = vec![b'x'; PAYLOAD_MAX + 9];
    row[..9].copy_from_slice(&[0xfe, 0, 0, 0, 1, 0, 0, 0, 0]);
    row[PAYLOAD_MAX] = ERR;
    for (capabilities, end) in [(NEW, OK_AS_EOF), (OLD, EOF_PACKET)] {
        let mut bytes = Vec::new();
        for payload in [&row[..], end] {
            put_packet(&mut bytes, 1, payload);
        }
        let (kinds, ended) = follow(Shape::Rows, capabilities, &bytes, 65_536).unwrap();
        assert_eq!((kinds.len(), ended), (1, Some(bytes.len())));
    }
}

#[test]
fn a_row_of_exactly_the_longest_packet_goes_on_in_an_empty_one() {
    let mut bytes = Vec::new();
    put_packet(&mut bytes, 1, &vec![b'x'; PAYLOAD_MAX]);
    put_packet(&mut bytes, 3, OK_AS_EOF);
    let (kinds, end) = follow(Shape::Rows, NEW, &bytes, 65_536).unwrap();
    assert_eq!((kinds, end), (vec![Kind::Ok], Some(bytes.len())));
}

#[test]
fn nonsense_is_refused() {
    for payloads in [&[&b""[..]], &[&b"\x00"[..]], &[&b"\xfc\xff"[..]]] {
        let mut bytes = Vec::new();
        put_packet(&mut bytes, 1, payloads[0]);
        bytes.push(0);
        assert!(follow(Shape::Results, NEW, &bytes, 4096).is_err(), "{payloads:?}");
    }
    let huge = Header { len: CONTROL_MAX + 1, sequence: 1 }.encode();
    let bytes = [&huge[..], &[OK, 0, 0]].concat();
    assert!(follow(Shape::Simple, NEW, &bytes, 4096).is_err());
}

#[test]
fn a_reply_has_begun_even_where_its_sequence_ids_begin_anew() {
    let mut follower = Follower::new(Shape::Results, Capabilities::DEPRECATE_EOF);
    assert!(!follower.has_begun());
    let mut bytes = Vec::new();
    put_packet(&mut bytes, 1, &[1]);
    put_packet(&mut bytes, 2, b"column");
    for sequence in 3..=255 {
        put_packet(&mut bytes, sequence, b"\x03row");
    }
    // In the middle of the packet that is numbered zero.
    put_packet(&mut bytes, 0, b"\x03row");
    let cut = bytes.len() - 2;
    assert_eq!(follower.advance(&mut bytes[..cut], 0), Ok(Step::More { from: cut }));
    assert!(follower.has_begun() && !follower.is_between_packets());
    assert_eq!(follower.next_sequence(), 1);
}

/// A result of one row for a client that wants EOF packets, whose flags are these.
fn with_eofs(first: u16, last: u16, rows: bool) -> Vec<u8> {
    let eof = |status| EofPacket { warnings: 0, status: Status(status) }.encode();
    let mut bytes = Vec::new();
    let mut sequence = put_packet(&mut bytes, 1, &[1]);
    sequence = put_packet(&mut bytes, sequence, b"column");
    sequence = put_packet(&mut bytes, sequence, &eof(first));
    if rows {
        sequence = put_packet(&mut bytes, sequence, b"\x03row");
        put_packet(&mut bytes, sequence, &eof(last));
    }
    bytes
}

#[test]
fn a_row_of_parameters_is_not_the_last_result_though_its_end_does_not_say_so() {
    const PARAMETERS: u16 = 0x100a;
    for (first, is_done) in [(PARAMETERS, false), (0x1002, true), (0x000a, true)] {
        let mut follower = Follower::new(Shape::Results, OLD);
        let mut bytes = with_eofs(first, 0x0002, true);
        let mut at = 0;
        while let Ok(Step::Packet { end, .. }) = follower.advance(&mut bytes, at) {
            at = end;
        }
        assert_eq!(follower.is_done(), is_done, "{first:x}");
    }
}

#[test]
fn a_flag_of_a_cursor_that_was_not_asked_for_leaves_the_rows_where_they_are() {
    const CURSOR: u16 = 0x0042;
    for (asked, rows) in [(true, false), (false, true)] {
        let mut follower = Follower::new(Shape::Results, OLD);
        if !asked {
            follower = follower.without_cursor();
        }
        let mut bytes = with_eofs(CURSOR, 0x0002, rows);
        let mut at = 0;
        while let Ok(Step::Packet { end, .. }) = follower.advance(&mut bytes, at) {
            at = end;
        }
        assert!(follower.is_done() && at == bytes.len());
    }
}

#[test]
fn a_result_may_have_more_columns_than_two_bytes_count() {
    let mut follower = Follower::new(Shape::Results, NEW);
    let mut bytes = Vec::new();
    put_packet(&mut bytes, 1, &[0xfd, 0, 0, 1]);
    let len = bytes.len();
    assert_eq!(follower.advance(&mut bytes, 0), Ok(Step::More { from: len }));
    assert!(!follower.is_done());
}

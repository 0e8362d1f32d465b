//! Files that real servers have written, event by event.

use super::*;

const MARIADB: [&[u8]; 2] =
    [include_bytes!("golden/mariadb-10.11.crc"), include_bytes!("golden/mariadb-10.11.none")];
const MYSQL: [&[u8]; 2] =
    [include_bytes!("golden/mysql-8.0.15.crc"), include_bytes!("golden/mysql-8.0.15.none")];

/// What both were told, with the tables that each statement has written: `+` where rows were changed that were there.
const BOTH: &[&str] = &[
    "create database a",
    "create table p",
    "create table c",
    "create table l",
    "CREATE DEFINER=`root`@`localhost` trigger t",
    "CREATE DEFINER=`root`@`localhost` PROCEDURE",
    "a.p",
    "a.c a.p+ a.l",
    "DELETED",
    "a.l",
    "truncate l",
    "insert into p values(3",
    "a.p",
    "everything",
    "a.p",
];

/// Compressed.
const MORE: &[&str] = &["a.p", "a.p+ a.l", "a.p+ a.c", "alter table p comment 'abcdefghabcdefgh"];

/// The packets that a file's events would be sent in.
fn packets(file: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = file.strip_prefix(b"\xfebin").expect("a binary log");
    let mut all = Vec::new();
    while let Ok(header) = EventHeader::decode(rest) {
        let (event, after) = rest.split_at(header.len as usize);
        all.push([&[0], event].concat());
        rest = after;
    }
    all
}

fn intake() -> Intake {
    Intake::new(Checksum::None)
}

/// What each transaction of a file has written, and where the file ends.
fn follow(file: &[u8], piece: usize) -> (Vec<Group>, Vec<u8>) {
    let (mut intake, mut groups, mut all) = (intake(), Groups::default(), Vec::new());
    let mut next = Vec::new();
    for packet in packets(file) {
        packet.chunks(piece).for_each(|piece| intake.take(piece));
        let Packet::Event(header, event) = intake.end().expect("it is whole") else {
            panic!("no event: {packet:?}")
        };
        if let Event::Rotate { file, position } = &event {
            assert_eq!(*position, 4);
            next = file.to_vec();
        }
        all.extend(groups.take(&header, event));
    }
    assert!(!groups.is_within());
    (all, next)
}

fn shown(group: &Group) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if group.is_everything {
        return "everything".to_owned();
    }
    let tables = group.tables.iter().map(|it| {
        let sign = if it.has_changes { "+" } else { "" };
        format!("{}.{}{sign}", text(&it.schema), text(&it.name))
    });
    let texts = group.texts.iter().map(|it| text(&it.text));
    tables.chain(texts).collect::<Vec<_>>().join(" ")
}

#[test]
fn what_transactions_have_written_is_read_from_real_logs() {
    let (mariadb, mysql) = ([BOTH, MORE].concat(), BOTH.to_vec());
    for (files, deleted, want) in [(MARIADB, "a.p+ a.c", mariadb), (MYSQL, "a.p+", mysql)] {
        for (file, piece) in files.iter().flat_map(|file| [(file, 1), (file, 7), (file, 1 << 20)]) {
            let (groups, next) = follow(file, piece);
            let got: Vec<_> = groups.iter().map(shown).collect();
            assert_eq!(got.len(), want.len(), "{got:#?}");
            for (got, want) in got.iter().zip(&want) {
                let want = if *want == "DELETED" { deleted } else { want };
                assert!(
                    got == want || want.len() > 9 && got.starts_with(want),
                    "{got} is not {want}"
                );
            }
            assert_eq!(next, b"bin.000002");
            assert!(groups.iter().all(|group| group.timestamp > 1_700_000_000));
            let numbers: Vec<u64> = groups
                .iter()
                .map(|group| match group.gtid {
                    Some(Gtid::MariaDb { domain: 0, server: 1, sequence }) => sequence,
                    Some(Gtid::MySql { number, .. }) => number,
                    other => panic!("{other:?}"),
                })
                .collect();
            assert!(numbers.iter().copied().eq(1..=want.len() as u64), "{numbers:?}");
            let schemas = groups.iter().flat_map(|group| &group.texts).map(|it| &*it.schema);
            assert!(schemas.clone().count() >= 8 && schemas.skip(1).all(|schema| schema == b"a"));
        }
    }
}

#[test]
fn a_bit_that_is_wrong_is_found() {
    for file in [MARIADB[0], MYSQL[0]] {
        let all = packets(file);
        for (at, packet) in all.iter().enumerate() {
            // Not the first byte of the packet, and not what says how long the event is, which has an error of its own.
            for wrong in (1..packet.len()).filter(|at| !(10..14).contains(at)) {
                let mut intake = intake();
                for good in &all[..at] {
                    intake.take(good);
                    intake.end().expect("it is whole");
                }
                let mut bad = packet.clone();
                bad[wrong] ^= 0x10;
                intake.take(&bad);
                let got = intake.end();
                // The type of the checksum says whether there is one.
                let is_format = at == 0;
                assert!(got.is_err() || is_format, "byte {wrong} of event {at}: {got:?}");
                if got.is_ok() {
                    assert!(wrong == 5 || wrong + 5 == packet.len(), "byte {wrong}: {got:?}");
                }
            }
        }
    }
}

#[test]
fn packets_that_hold_no_event_are_told_apart() {
    let end = |packet: &[u8]| {
        let mut intake = intake();
        intake.take(packet);
        format!("{:?}", intake.end())
    };
    assert_eq!(end(b"\xfe\0\0\0\0"), "Ok(End)");
    assert!(end(b"\xff\xd4\x04#HY000no").starts_with("Ok(Refused"));
    for (packet, what) in [
        (&b""[..], "an empty packet"),
        (b"\x01abc", "first byte"),
        (b"\xfe123456789", "first byte"),
        (b"\0abc", "timestamp"),
    ] {
        let got = end(packet);
        assert!(got.contains(what), "{got}");
    }
    let mut short = packets(MARIADB[1])[2].clone();
    short.pop();
    assert!(end(&short).contains("Length"), "{}", end(&short));
}

/// An event without a checksum, as a packet.
fn event(kind: u8, flags: u16, body: &[u8]) -> Vec<u8> {
    let len = (HEADER + body.len()) as u32;
    let mut out = vec![0; 1];
    out.extend_from_slice(&7_u32.to_le_bytes());
    out.push(kind);
    out.extend_from_slice(&1_u32.to_le_bytes());
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend_from_slice(body);
    out
}

fn query(text: &[u8]) -> Vec<u8> {
    let body = [&[0; 8][..], &[1, 0, 0, 0, 0], b"a\0", text].concat();
    event(kind::QUERY, 0, &body)
}

fn table(number: u8, name: &str) -> Vec<u8> {
    let body = [
        &[number, 0, 0, 0, 0, 0, 0, 0, 1][..],
        b"a\0",
        &[name.len() as u8],
        name.as_bytes(),
        b"\0",
    ];
    event(kind::TABLE_MAP, 0, &body.concat())
}

fn rows(number: u8) -> Vec<u8> {
    event(23, 0, &[number, 0, 0, 0, 0, 0, 0, 0])
}

fn gtid(flags: u8) -> Vec<u8> {
    let body = [&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, flags][..], &[0; 6]].concat();
    event(kind::MARIADB_GTID, 0, &body)
}

fn groups(packets: &[Vec<u8>]) -> Vec<String> {
    let (mut intake, mut groups, mut all) = (intake(), Groups::default(), Vec::new());
    for packet in packets {
        intake.take(packet);
        let Packet::Event(header, event) = intake.end().expect("it is whole") else {
            panic!("no event: {packet:?}")
        };
        all.extend(groups.take(&header, event).map(|group| shown(&group)));
    }
    all
}

#[test]
fn what_is_not_understood_is_everything() {
    const COMMIT: &[u8] = b"COMMIT";
    let begin = || gtid(0);
    let commit = || query(COMMIT);
    for (packets, want) in [
        (vec![begin(), table(1, "t"), rows(1), commit()], vec!["a.t"]),
        // Rows of a table that was not named.
        (vec![begin(), table(1, "t"), rows(2), commit()], vec!["everything"]),
        // An event of a later version, within a transaction and outside of one.
        (vec![begin(), event(99, 0, b"?"), table(1, "t"), commit()], vec!["everything"]),
        (vec![event(99, 0, b"?")], vec!["everything"]),
        (
            vec![event(99, EventHeader::IGNORABLE, b"?"), event(kind::HEARTBEAT, 0, b"bin.000001")],
            vec![],
        ),
        // A loss of events.
        (vec![event(26, 0, &[1, 0, 0])], vec!["everything"]),
        // A transaction as a whole, compressed.
        (
            vec![event(kind::ANONYMOUS_GTID, 0, b""), event(kind::TRANSACTION_PAYLOAD, 0, b"?")],
            vec!["everything"],
        ),
        // One that was cut off, by another one or the file's end.
        (vec![begin(), table(1, "t"), begin(), table(1, "u"), commit()], vec!["everything", "a.u"]),
        (vec![begin(), event(kind::ROTATE, 0, &[0; 9])], vec!["everything"]),
        // Statements that fill a file's place.
        (vec![gtid(STANDALONE), query(b"DROP TABLE t")], vec!["DROP TABLE t"]),
        (
            vec![
                query(b"BEGIN"),
                query(b"INSERT"),
                query(b"SAVEPOINT a"),
                query(b"UPDATE"),
                query(b"ROLLBACK TO a"),
                commit(),
            ],
            vec!["INSERT UPDATE"],
        ),
        (vec![begin(), query(b"XA COMMIT X'61',X'',1")], vec!["everything"]),
        (vec![query(&[b'x'; KEPT_MAX + 1])], vec!["everything"]),
        (
            vec![begin(), query(&[b'x'; KEPT_MAX / 2]), query(&[b'x'; KEPT_MAX / 2]), commit()],
            vec!["everything"],
        ),
    ] {
        assert_eq!(groups(&packets), want, "{} packets", packets.len());
    }
    let mut many = vec![begin()];
    many.extend((0..1100).map(|at| table((at % 250) as u8, &format!("t{at}"))));
    many.push(commit());
    assert_eq!(groups(&many), ["everything"]);
}

#[test]
fn a_compressed_text_is_as_long_as_it_says() {
    let zlib = miniz_oxide::deflate::compress_to_vec_zlib(b"INSERT INTO t", 6);
    let text = |head: &[u8]| inflate::inflate(&[head, &zlib].concat(), 100);
    assert_eq!(text(&[0x81, 13]).as_deref(), Some(&b"INSERT INTO t"[..]));
    assert_eq!(text(&[0x82, 0, 13]).as_deref(), Some(&b"INSERT INTO t"[..]));
    for wrong in [&[0x81, 12][..], &[0x81, 14], &[0x01, 13], &[0x91, 13], &[0x80], &[0x85, 13], &[]]
    {
        assert_eq!(text(wrong), None, "{wrong:?}");
    }
    assert_eq!(inflate::inflate(&[&[0x81, 13], &zlib[..]].concat(), 12), None);
}

#[test]
fn of_a_long_event_only_the_beginning_is_held() {
    let mut intake = intake();
    let mut packet = rows(1);
    let len = 64_u32 << 20;
    packet[10..14].copy_from_slice(&len.to_le_bytes());
    intake.take(&packet);
    let left = len as usize + 1 - packet.len();
    let piece = vec![7; 1 << 20];
    let mut sent = 0;
    while sent < left {
        let now = piece.len().min(left - sent);
        intake.take(&piece[..now]);
        sent += now;
    }
    let got = intake.end().expect("it is whole");
    assert!(
        matches!(got, Packet::Event(_, Event::Rows { number: 1, is_change: false })),
        "{got:?}"
    );
    assert!(intake.held() <= 2 * KEPT_MAX, "{}", intake.held());
    intake.take(&rows(1));
    assert!(intake.held() <= KEPT_MAX / 8, "{}", intake.held());
}

//! What is written is read again as it was, for values of any kind.

use proptest::collection::vec;
use proptest::prelude::*;

use wire::Capabilities;
use wire::bytes::{Reader, Write};
use wire::frame::{HEADER, PAYLOAD_MAX, first_packet, put_packet};
use wire::handshake::{FirstPacket, Greeting, Login};
use wire::response::{EOF, EofPacket, ErrPacket, OK, OkPacket, Status};
use wire::tracker::{Change, Changes, put_change};

/// Bytes without a zero, as names are.
fn name() -> impl Strategy<Value = Vec<u8>> {
    vec(1..=u8::MAX, 0..40)
}

/// Bytes whose length takes one byte or three.
fn blob() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..600)
}

/// Numbers of every length, not only the longest, and those around which the length changes.
fn number() -> impl Strategy<Value = u64> {
    let edges = [0xfb, 0x1_0000, 0x100_0000, 1 << 32];
    prop_oneof![
        (any::<u64>(), 0..64_u32).prop_map(|(number, shift)| number >> shift),
        (0..edges.len(), 0..8_u64).prop_map(move |(edge, off)| edges[edge] - 4 + off),
    ]
}

/// How many bytes a number should take.
const fn written_len(number: u64) -> usize {
    match number {
        0..=0xfa => 1,
        0xfb..=0xffff => 3,
        0x1_0000..=0xff_ffff => 4,
        _ => 9,
    }
}

prop_compose! {
    fn greeting()(
        version in name(),
        connection_id in any::<u32>(),
        nonce in vec(1..=u8::MAX, 20..=254),
        bits in any::<u64>(),
        collation in any::<u8>(),
        status in any::<u16>(),
        plugin in name(),
    ) -> Greeting {
        let modern = Capabilities::SECURE_CONNECTION | Capabilities::PLUGIN_AUTH;
        let mut capabilities = Capabilities(bits) | modern;
        if capabilities.has(Capabilities::LONG_PASSWORD) {
            capabilities = Capabilities::from_parts(capabilities.low(), 0);
        }
        let status = Status(status);
        Greeting { version, connection_id, nonce, capabilities, collation, status, plugin }
    }
}

prop_compose! {
    fn login()(
        bits in any::<u64>(),
        (packet_max, collation) in any::<(u32, u8)>(),
        (user, response) in (name(), vec(any::<u8>(), 0..=255)),
        schema in name(),
        plugin in name(),
        attributes in blob(),
    ) -> Login {
        let mut capabilities = (Capabilities(bits) | Capabilities::PROTOCOL_41
            | Capabilities::SECURE_CONNECTION).without(Capabilities::ZSTD);
        if capabilities.has(Capabilities::LONG_PASSWORD) {
            capabilities = Capabilities::from_parts(capabilities.low(), 0);
        }
        let has = |capability, field| capabilities.has(capability).then_some(field);
        Login {
            capabilities,
            packet_max,
            collation,
            user,
            response,
            schema: has(Capabilities::CONNECT_WITH_DB, schema).filter(|it| !it.is_empty()),
            plugin: has(Capabilities::PLUGIN_AUTH, plugin),
            attributes: has(Capabilities::CONNECT_ATTRS, attributes).unwrap_or_default(),
            zstd_level: None,
        }
    }
}

proptest! {
    #[test]
    fn numbers_and_strings(number in number(), text in blob(), word in name(), rest in blob()) {
        let mut bytes = Vec::new();
        bytes.put_lenenc(number);
        prop_assert_eq!(bytes.len(), written_len(number));
        bytes.put_lenenc_bytes(&text);
        bytes.put_nul_bytes(&word);
        bytes.extend_from_slice(&rest);
        let mut reader = Reader::new(&bytes);
        prop_assert_eq!(reader.lenenc("number"), Ok(number));
        prop_assert_eq!(reader.lenenc_bytes("text"), Ok(&text[..]));
        prop_assert_eq!(reader.nul_bytes("word"), Ok(&word[..]));
        prop_assert_eq!(reader.rest(), &rest[..]);
        // Each cut before the end misses something.
        let len = bytes.len() - rest.len();
        let mut cut = Reader::new(&bytes[..len - 1]);
        let read = cut.lenenc("number").and_then(|_| cut.lenenc_bytes("text"));
        let read = read.and_then(|_| cut.nul_bytes("word"));
        prop_assert!(read.is_err());
    }

    #[test]
    fn greetings(greeting in greeting()) {
        let mut bytes = Vec::new();
        greeting.encode(&mut bytes);
        prop_assert_eq!(Greeting::decode(&bytes), Ok(greeting));
    }

    #[test]
    fn logins(login in login()) {
        let mut bytes = Vec::new();
        login.encode(&mut bytes);
        prop_assert_eq!(FirstPacket::decode(&bytes), Ok(FirstPacket::Login(login)));
    }

    #[test]
    fn ok_packets(
        (affected_rows, insert_id) in (number(), number()),
        (status, warnings) in any::<(u16, u16)>(),
        info in blob(),
        changes in blob(),
        ends_rows in any::<bool>(),
    ) {
        let status = Status(status).without(Status::STATE_CHANGED);
        let (info, changes) = (&info[..], &changes[..]);
        let ok = OkPacket { affected_rows, insert_id, status, warnings, info, changes };
        let first = if ends_rows { EOF } else { OK };
        let mut bytes = Vec::new();
        ok.encode(first, Capabilities::SESSION_TRACK, &mut bytes);
        let tracked = if changes.is_empty() { 0 } else { Status::STATE_CHANGED.0 };
        let want = OkPacket { status: Status(status.0 | tracked), ..ok };
        prop_assert_eq!(OkPacket::decode(&bytes, Capabilities::SESSION_TRACK), Ok(want));

        bytes.clear();
        ok.encode(first, Capabilities::NONE, &mut bytes);
        let want = OkPacket { changes: b"", ..ok };
        prop_assert_eq!(OkPacket::decode(&bytes, Capabilities::NONE), Ok(want));
    }

    #[test]
    fn errors_and_ends(
        code in any::<u16>(),
        sqlstate in any::<[u8; 5]>(),
        message in blob(),
        (warnings, status) in any::<(u16, u16)>(),
    ) {
        let err = ErrPacket { code, sqlstate, message: &message };
        let mut bytes = Vec::new();
        err.encode(&mut bytes);
        prop_assert_eq!(ErrPacket::decode(&bytes), Ok(err));
        let eof = EofPacket { warnings, status: Status(status) };
        prop_assert_eq!(EofPacket::decode(&eof.encode()), Ok(eof));
    }

    #[test]
    fn changes(words in vec((0..6_u8, blob(), blob()), 0..6)) {
        let changes: Vec<_> = words.iter().map(|(kind, a, b)| match kind {
            0 => Change::Variable { name: a, value: b },
            1 => Change::Schema(a),
            2 => Change::State(b"1"),
            3 => Change::Gtids(a),
            4 => Change::TransactionCharacteristics(a),
            _ => Change::TransactionState(a),
        }).collect();
        let mut bytes = Vec::new();
        for change in &changes {
            put_change(&mut bytes, *change);
        }
        let read: Result<Vec<_>, _> = Changes::new(&bytes).collect();
        prop_assert_eq!(read, Ok(changes));
    }
}

proptest! {
    // Each takes 32 MiB.
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn payloads_of_more_than_one_packet(
        (full, off) in (0..3_usize, 0..4_usize),
        sequence in any::<u8>(),
    ) {
        let len = (PAYLOAD_MAX * full + 1).saturating_sub(off);
        let payload: Vec<u8> = (0..len).map(|at| at as u8 ^ (at >> 9) as u8).collect();
        let mut bytes = Vec::new();
        let next = put_packet(&mut bytes, sequence, &payload);
        let (mut rest, mut joined, mut packets) = (&bytes[..], Vec::with_capacity(len), 0_usize);
        loop {
            let (header, part) = first_packet(rest).expect("a packet");
            prop_assert_eq!(header.sequence, sequence.wrapping_add(packets as u8));
            joined.extend_from_slice(part);
            rest = &rest[HEADER + part.len()..];
            packets += 1;
            if !header.is_continued() {
                break;
            }
        }
        prop_assert!(rest.is_empty());
        prop_assert!(joined == payload);
        prop_assert_eq!(packets, len / PAYLOAD_MAX + 1);
        prop_assert_eq!(next, sequence.wrapping_add(packets as u8));
    }
}

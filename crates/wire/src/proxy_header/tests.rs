//! Headers as HAProxy and others send them, broken ones, and any bytes at all.

use proptest::prelude::*;

use super::*;

fn tcp(source: &str, destination: &str) -> ProxyHeader {
    ProxyHeader::Tcp { source: source.parse().unwrap(), destination: destination.parse().unwrap() }
}

fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let len = u16::try_from(body.len()).unwrap().to_be_bytes();
    [&V2_START[..], &[command, family], &len, body].concat()
}

/// Reads a whole header with data behind it, and sees that no part of it is taken for the whole.
#[track_caller]
fn check(bytes: &[u8], header: &ProxyHeader) {
    let complete = Parsed::Complete { header: header.clone(), consumed: bytes.len() };
    assert_eq!(parse(&[bytes, b"\x0a\0\0\0"].concat()), Ok(complete));
    for len in 0..bytes.len() {
        assert_eq!(parse(&bytes[..len]), Ok(Parsed::Incomplete), "{len}");
    }
}

#[track_caller]
fn refuse(bytes: &[u8], why: &str) {
    let error = parse(bytes).unwrap_err();
    assert!(error.what.contains(why), "{error}");
}

#[test]
fn lines_are_read() {
    for (line, header) in [
        ("TCP4 192.0.2.1 198.51.100.2 56324 3306", tcp("192.0.2.1:56324", "198.51.100.2:3306")),
        ("TCP4 255.255.255.255 0.0.0.0 65535 0", tcp("255.255.255.255:65535", "0.0.0.0:0")),
        ("TCP6 2001:db8::1 ::1 1 3306", tcp("[2001:db8::1]:1", "[::1]:3306")),
        ("TCP6 ::ffff:192.0.2.1 ::1 1 2", tcp("[::ffff:192.0.2.1]:1", "[::1]:2")),
        ("UNKNOWN", ProxyHeader::Unknown),
        ("UNKNOWN ffff::1 ffff::2 1 2", ProxyHeader::Unknown),
        ("UNKNOWN ?", ProxyHeader::Unknown),
    ] {
        check(format!("PROXY {line}\r\n").as_bytes(), &header);
    }
    // The longest of all.
    let full = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    let line = format!("PROXY UNKNOWN {full} {full} 65535 65535\r\n");
    assert_eq!(line.len(), V1_MAX);
    check(line.as_bytes(), &ProxyHeader::Unknown);
}

#[test]
fn bad_lines_are_refused() {
    for (line, why) in [
        ("UDP4 192.0.2.1 192.0.2.2 1 2", "neither TCP4"),
        ("tcp4 192.0.2.1 192.0.2.2 1 2", "neither TCP4"),
        ("", "neither TCP4"),
        ("TCP4", "an address"),
        ("TCP4 192.0.2.1", "an address"),
        ("TCP4  192.0.2.1 192.0.2.2 1 2", "an address"),
        ("TCP4 192.0.2.01 192.0.2.2 1 2", "an address"),
        ("TCP4 192.0.2.256 192.0.2.2 1 2", "an address"),
        ("TCP4 ::1 ::1 1 2", "an address"),
        ("TCP6 192.0.2.1 192.0.2.2 1 2", "an address"),
        ("TCP6 [::1] ::1 1 2", "an address"),
        ("TCP4 192.0.2.1 192.0.2.2 1", "a port"),
        ("TCP4 192.0.2.1 192.0.2.2 1 65536", "a port"),
        ("TCP4 192.0.2.1 192.0.2.2 +1 2", "a port"),
        ("TCP4 192.0.2.1 192.0.2.2 01 2", "a port"),
        ("TCP4 192.0.2.1 192.0.2.2 1 ", "a port"),
        ("TCP4 192.0.2.1 192.0.2.2 1 2 ", "a port"),
        ("TCP4 192.0.2.1 192.0.2.2 1 2 3", "a port"),
        ("TCP4 192.0.2.1 192.0.2.2 1 2\r", "a port"),
    ] {
        refuse(format!("PROXY {line}\r\n").as_bytes(), why);
    }
    refuse(b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n", "its line");
    refuse(b"PROXY \xff\r\n", "its line");
    let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(V1_MAX - 15));
    assert_eq!(long.len(), V1_MAX + 1);
    refuse(long.as_bytes(), "too long");
}

#[test]
fn what_is_no_header_is_refused_at_its_first_wrong_byte() {
    assert_eq!(parse(b""), Ok(Parsed::Incomplete));
    for bytes in [&b"\x4a\0\0\x01"[..], b"GET / HTTP/1.1\r\n", b"PROXz", b"\r\n\r\n\0\r\nQUIt"] {
        refuse(bytes, "there is none");
        let wrong = parse(&bytes[..bytes.len() - 1]);
        let is_start = bytes.starts_with(b"P") || bytes.starts_with(b"\r");
        assert_eq!(wrong.is_ok(), is_start, "{bytes:?}");
    }
}

#[test]
fn binary_headers_are_read() {
    let four = [192, 0, 2, 1, 198, 51, 100, 2, 0xdc, 0x04, 0x0c, 0xea];
    let header = tcp("192.0.2.1:56324", "198.51.100.2:3306");
    check(&v2(V2_PROXY, V2_TCP4, &four), &header);
    // With extra fields: a name, a checksum, and padding without any bytes.
    let fields = b"\x02\0\x0adb.example\x03\0\x04abcd\x04\0\0";
    check(&v2(V2_PROXY, V2_TCP4, &[&four[..], fields].concat()), &header);
    let longest = [&four[..], &[0xea, 0x07, 0xf1], &[0; 0x7f1]].concat();
    assert_eq!(longest.len(), V2_BODY_MAX);
    check(&v2(V2_PROXY, V2_TCP4, &longest), &header);

    let mut six = [0; 36];
    six[..2].copy_from_slice(&[0x20, 0x01]);
    six[15] = 1;
    six[31] = 2;
    six[33] = 7;
    six[34..].copy_from_slice(&[0x0c, 0xea]);
    check(&v2(V2_PROXY, V2_TCP6, &six), &tcp("[2001::1]:7", "[::2]:3306"));

    let mut unix = [0; 216];
    unix[108..112].copy_from_slice(b"/s\0x");
    let header = ProxyHeader::Unix { source: [].into(), destination: b"/s\0x"[..].into() };
    check(&v2(V2_PROXY, V2_UNIX, &unix), &header);

    check(&v2(V2_PROXY, 0, &[]), &ProxyHeader::Unknown);
    check(&v2(V2_LOCAL, 0, &[]), &ProxyHeader::Local);
    check(&v2(V2_LOCAL, V2_TCP4, &four), &ProxyHeader::Local);
    check(&v2(V2_LOCAL, 0xff, b"?"), &ProxyHeader::Local);
}

#[test]
fn bad_binary_headers_are_refused() {
    let four = [0; 12];
    refuse(&v2(0x11, V2_TCP4, &four), "its version or command");
    refuse(&v2(0x22, V2_TCP4, &four), "its version or command");
    refuse(&v2(0x31, 0, &[])[..13], "its version or command");
    for family in [0x01, 0x10, 0x12, 0x22, 0x32, 0x41, 0xff] {
        refuse(&v2(V2_PROXY, family, &[0; 300]), "neither TCP nor");
    }
    for (family, len) in [(V2_TCP4, 12), (V2_TCP6, 36), (V2_UNIX, 216)] {
        for len in 0..len {
            refuse(&v2(V2_PROXY, family, &vec![0; len]), "an address");
        }
        refuse(&v2(V2_PROXY, family, &vec![1; len + 1]), "an extra field");
        refuse(&v2(V2_PROXY, family, &vec![1; len + 3]), "an extra field");
    }
    refuse(&v2(V2_PROXY, V2_TCP4, &[0; V2_BODY_MAX + 1])[..16], "longer than");
    refuse(&v2(V2_LOCAL, 0, &[0; 0xffff])[..16], "longer than");
}

#[test]
fn two_kinds_of_addresses_are_written_as_one() {
    let (four, six) = ("192.0.2.1:5".parse().unwrap(), "[2001:db8::1]:6".parse().unwrap());
    let mapped = "[::ffff:192.0.2.1]:5";
    for (source, destination, header) in
        [(four, six, tcp(mapped, "[2001:db8::1]:6")), (six, four, tcp("[2001:db8::1]:6", mapped))]
    {
        let (mut one, mut two) = (Vec::new(), Vec::new());
        encode_v1(source, destination, &mut one);
        encode_v2(source, destination, &mut two);
        check(&one, &header);
        check(&two, &header);
    }
    let mut local = Vec::new();
    encode_v2_local(&mut local);
    check(&local, &ProxyHeader::Local);
}

/// Two addresses of the same kind.
fn addresses() -> impl Strategy<Value = (SocketAddr, SocketAddr)> {
    prop_oneof![
        any::<([u8; 4], u16, [u8; 4], u16)>()
            .prop_map(|(from, port, to, to_port)| ((from, port).into(), (to, to_port).into())),
        any::<([u8; 16], u16, [u8; 16], u16)>()
            .prop_map(|(from, port, to, to_port)| ((from, port).into(), (to, to_port).into())),
    ]
}

/// Bytes that begin as a header does, to get past the first checks.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let start = prop_oneof![
        Just(b"PROXY ".to_vec()),
        Just(b"PROXY TCP4 1.2.3.4 ".to_vec()),
        Just(V2_START.to_vec()),
        (
            prop::sample::select(&[V2_LOCAL, V2_PROXY][..]),
            prop::sample::select(&[0, V2_TCP4, V2_TCP6, V2_UNIX][..]),
            0..400_u16,
        )
            .prop_map(|(command, family, len)| {
                [&V2_START[..], &[command, family], &len.to_be_bytes()].concat()
            }),
    ];
    (start, prop::collection::vec(any::<u8>(), 0..400))
        .prop_map(|(start, rest)| [start, rest].concat())
}

proptest! {
    #[test]
    fn no_bytes_do_harm(bytes in prop_oneof![any::<Vec<u8>>(), nearly()]) {
        match parse(&bytes) {
            Ok(Parsed::Complete { consumed, .. }) => {
                prop_assert!((1..=bytes.len().min(HEADER_MAX)).contains(&consumed));
                // What follows a header does not change it.
                prop_assert_eq!(parse(&bytes[..consumed]), parse(&bytes));
            }
            Ok(Parsed::Incomplete) => prop_assert!(bytes.len() < HEADER_MAX),
            Err(_) => {
                // More bytes do not make it good.
                prop_assert!(parse(&[&bytes[..], b"\r\n"].concat()).is_err());
            }
        }
    }

    #[test]
    fn what_is_written_is_read((source, destination) in addresses()) {
        let header = ProxyHeader::Tcp { source, destination };
        let (mut one, mut two) = (Vec::new(), Vec::new());
        encode_v1(source, destination, &mut one);
        encode_v2(source, destination, &mut two);
        for bytes in [one, two] {
            let consumed = bytes.len();
            let complete = Parsed::Complete { header: header.clone(), consumed };
            prop_assert_eq!(parse(&bytes), Ok(complete));
        }
    }
}

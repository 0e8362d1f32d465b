//! A PROXY header is the same whatever follows it, and is asked for only while it can still become
//! one.

use wire::proxy_header::{HEADER_MAX, Parsed, ProxyHeader, encode_v1, encode_v2, parse};

/// The bytes are what comes first on a connection.
pub fn run(data: &[u8]) {
    match parse(data) {
        Ok(Parsed::Complete { header, consumed }) => {
            assert!(consumed <= data.len() && consumed <= HEADER_MAX);
            for cut in (0..consumed).rev().take(64) {
                assert_eq!(parse(&data[..cut]), Ok(Parsed::Incomplete), "cut at {cut}");
            }
            let exact = parse(&data[..consumed]);
            assert_eq!(exact, Ok(Parsed::Complete { header: header.clone(), consumed }));
            survives(&header);
        }
        Ok(Parsed::Incomplete) => {
            assert!(data.len() < HEADER_MAX);
            if let Some((_, shorter)) = data.split_last() {
                assert_eq!(parse(shorter), Ok(Parsed::Incomplete));
            }
        }
        Err(malformed) => {
            let longer = [data, b"\r\n"].concat();
            assert!(parse(&longer).is_err(), "{malformed} is for good");
        }
    }
}

fn survives(header: &ProxyHeader) {
    let ProxyHeader::Tcp { source, destination } = *header else { return };
    for encode in [encode_v1, encode_v2] {
        let mut bytes = Vec::new();
        encode(source, destination, &mut bytes);
        let read = Parsed::Complete { header: header.clone(), consumed: bytes.len() };
        assert_eq!(parse(&bytes), Ok(read));
    }
}

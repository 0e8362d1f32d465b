//! The PROXY protocol, versions 1 and 2: which client is behind a connection that another proxy has made.
//!
//! Owns reading and writing the header that comes before anything else. The caller must decide whether a peer may send
//! one: the header is believed, so its sender can pretend to have any address.
//!
//! Invariants: at most [`HEADER_MAX`] bytes are asked for; what cannot become a header is refused
//! at its first wrong byte; of extra fields only their form is looked at.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::bytes::{Malformed, Reader};

/// What a header says of the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// The other proxy speaks for itself, as in a health check: the connection's own addresses
    /// count.
    Local,
    /// The other proxy does not know: the connection's own addresses count.
    Unknown,
    Tcp {
        source: SocketAddr,
        destination: SocketAddr,
    },
    /// The paths of the two Unix sockets, mostly empty on the client's side.
    Unix {
        source: Box<[u8]>,
        destination: Box<[u8]>,
    },
}

/// How far the bytes go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// What follows the `consumed` bytes is the connection's first data.
    Complete { header: ProxyHeader, consumed: usize },
    /// More bytes are needed.
    Incomplete,
}

/// No header is longer. The protocol would allow 64 KiB, which is no length to wait for from a
/// stranger.
pub const HEADER_MAX: usize = V2_FIXED + V2_BODY_MAX;

/// The longest first version's, its line end included.
const V1_MAX: usize = 107;
const V1_START: &[u8] = b"PROXY ";

const V2_START: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const V2_FIXED: usize = 16;
const V2_BODY_MAX: usize = 2048;
const V2_LOCAL: u8 = 0x20;
const V2_PROXY: u8 = 0x21;
const V2_TCP4: u8 = 0x11;
const V2_TCP6: u8 = 0x21;
const V2_UNIX: u8 = 0x31;
const UNIX_PATH: usize = 108;

/// Reads the header at the front of `bytes`.
pub fn parse(bytes: &[u8]) -> Result<Parsed, Malformed> {
    let begins = |start: &[u8]| bytes.iter().zip(start).all(|(byte, start)| byte == start);
    if begins(V1_START) {
        parse_v1(bytes)
    } else if begins(V2_START) {
        parse_v2(bytes)
    } else {
        Err(Malformed::new("PROXY header (there is none)"))
    }
}

/// Appends a header of version 2.
pub fn encode_v2(source: SocketAddr, destination: SocketAddr, out: &mut Vec<u8>) {
    out.extend_from_slice(V2_START);
    out.push(V2_PROXY);
    match (source.ip(), destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            out.extend_from_slice(&[V2_TCP4, 0, 12]);
            out.extend_from_slice(&from.octets());
            out.extend_from_slice(&to.octets());
        }
        // Of two kinds at once there is no header: the older is written in the way of the newer.
        (from, to) => {
            out.extend_from_slice(&[V2_TCP6, 0, 36]);
            out.extend_from_slice(&as_v6(from).octets());
            out.extend_from_slice(&as_v6(to).octets());
        }
    }
    out.extend_from_slice(&source.port().to_be_bytes());
    out.extend_from_slice(&destination.port().to_be_bytes());
}

/// Appends a header of version 2 that says that we speak for ourselves.
pub fn encode_v2_local(out: &mut Vec<u8>) {
    out.extend_from_slice(V2_START);
    out.extend_from_slice(&[V2_LOCAL, 0, 0, 0]);
}

/// Appends a header of version 1.
pub fn encode_v1(source: SocketAddr, destination: SocketAddr, out: &mut Vec<u8>) {
    let (from_port, to_port) = (source.port(), destination.port());
    let line = match (source.ip(), destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => format!("TCP4 {from} {to} {from_port} {to_port}"),
        (from, to) => format!("TCP6 {} {} {from_port} {to_port}", as_v6(from), as_v6(to)),
    };
    out.extend_from_slice(V1_START);
    out.extend_from_slice(line.as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn parse_v1(bytes: &[u8]) -> Result<Parsed, Malformed> {
    let longest = &bytes[..bytes.len().min(V1_MAX)];
    let Some(end) = memchr::memchr(b'\n', longest) else {
        if longest.len() == V1_MAX {
            return Err(Malformed::new("PROXY header (its line is too long)"));
        }
        return Ok(Parsed::Incomplete);
    };
    let line = bytes[V1_START.len()..end]
        .strip_suffix(b"\r")
        .and_then(|line| str::from_utf8(line).ok())
        .ok_or_else(|| Malformed::new("PROXY header (its line)"))?;
    Ok(Parsed::Complete { header: parse_line(line)?, consumed: end + 1 })
}

fn parse_line(line: &str) -> Result<ProxyHeader, Malformed> {
    let mut words = line.split(' ');
    let family = words.next();
    if family == Some("UNKNOWN") {
        // What follows, if anything, is to be ignored.
        return Ok(ProxyHeader::Unknown);
    }
    let is_v4 = match family {
        Some("TCP4") => true,
        Some("TCP6") => false,
        _ => return Err(Malformed::new("PROXY header (neither TCP4, TCP6 nor UNKNOWN)")),
    };
    let mut address = || {
        let address = words.next()?.parse::<IpAddr>().ok()?;
        (address.is_ipv4() == is_v4).then_some(address)
    };
    let addresses = address().zip(address());
    let (from, to) = addresses.ok_or_else(|| Malformed::new("PROXY header (an address)"))?;
    let mut port = || {
        let port = words.next()?;
        let is_plain = port.bytes().all(|byte| byte.is_ascii_digit());
        let is_plain = is_plain && (port == "0" || !port.starts_with('0'));
        port.parse().ok().filter(|_| is_plain)
    };
    let ports = port().zip(port()).filter(|_| words.next().is_none());
    let (from_port, to_port) = ports.ok_or_else(|| Malformed::new("PROXY header (a port)"))?;
    Ok(ProxyHeader::Tcp {
        source: SocketAddr::new(from, from_port),
        destination: SocketAddr::new(to, to_port),
    })
}

fn parse_v2(bytes: &[u8]) -> Result<Parsed, Malformed> {
    let rest = bytes.get(V2_START.len()..).unwrap_or_default();
    let command = rest.first().copied();
    if command.is_some_and(|command| !matches!(command, V2_LOCAL | V2_PROXY)) {
        return Err(Malformed::new("PROXY header (its version or command)"));
    }
    let Some(&[command, family, high, low]) = rest.first_chunk::<4>() else {
        return Ok(Parsed::Incomplete);
    };
    let len = usize::from(u16::from_be_bytes([high, low]));
    if len > V2_BODY_MAX {
        return Err(Malformed::new("PROXY header (longer than 2 KiB)"));
    }
    let Some(body) = rest[4..].get(..len) else { return Ok(Parsed::Incomplete) };
    let header = if command == V2_LOCAL {
        // The rest means nothing, its form neither.
        ProxyHeader::Local
    } else {
        let mut reader = Reader::new(body);
        let header = parse_addresses(family, &mut reader)?;
        check_fields(reader)?;
        header
    };
    Ok(Parsed::Complete { header, consumed: V2_FIXED + len })
}

fn parse_addresses(family: u8, reader: &mut Reader<'_>) -> Result<ProxyHeader, Malformed> {
    let (from, to): (IpAddr, IpAddr) = match family {
        0 => return Ok(ProxyHeader::Unknown),
        V2_TCP4 => (array::<4>(reader)?.into(), array::<4>(reader)?.into()),
        V2_TCP6 => (array::<16>(reader)?.into(), array::<16>(reader)?.into()),
        V2_UNIX => {
            let source = path(&array::<UNIX_PATH>(reader)?);
            return Ok(ProxyHeader::Unix {
                source,
                destination: path(&array::<UNIX_PATH>(reader)?),
            });
        }
        _ => return Err(Malformed::new("PROXY header (neither TCP nor a Unix socket's stream)")),
    };
    let from_port = u16::from_be_bytes(array(reader)?);
    let to_port = u16::from_be_bytes(array(reader)?);
    Ok(ProxyHeader::Tcp {
        source: SocketAddr::new(from, from_port),
        destination: SocketAddr::new(to, to_port),
    })
}

fn array<const N: usize>(reader: &mut Reader<'_>) -> Result<[u8; N], Malformed> {
    let what = "PROXY header (an address)";
    reader.take(N, what)?.try_into().map_err(|_| Malformed::new(what))
}

/// A path ends at its zero bytes; one that begins with a zero byte is a name that is no file's.
fn path(padded: &[u8; UNIX_PATH]) -> Box<[u8]> {
    let len = padded.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    padded[..len].into()
}

/// Sees that what follows the addresses is a row of fields: a type, a length of two bytes, a value.
fn check_fields(mut reader: Reader<'_>) -> Result<(), Malformed> {
    while !reader.is_empty() {
        let what = "PROXY header (an extra field)";
        reader.u8(what)?;
        let len = u16::swap_bytes(reader.u16(what)?);
        reader.take(usize::from(len), what)?;
    }
    Ok(())
}

fn as_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::to_ipv6_mapped(&address),
        IpAddr::V6(address) => address,
    }
}

#[cfg(test)]
mod tests;

//! Texts of addresses: where Flifo listens, where its server is, and ranges of IP addresses.

use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::plan::{Listen, Network};

pub(super) const LISTEN: &str =
    "an address: \"127.0.0.1:6033\", \"[::]:6033\", \"/path/of.sock\" or \"unix:/path/of.sock\"";

pub(super) fn listen(text: &str) -> Result<Listen, String> {
    let path = text.strip_prefix("unix:");
    if let Some(path) = path.or_else(|| text.starts_with('/').then_some(text)) {
        check_socket_path(Path::new(path))?;
        return Ok(Listen::Unix(path.into()));
    }
    text.parse().map(Listen::Tcp).map_err(|_| {
        let hint = match (text.parse::<IpAddr>(), text.strip_prefix("*:"), text.rsplit_once(':')) {
            (Ok(ip), ..) => {
                format!("; a port is missing: write \"{}\"", SocketAddr::new(ip, 6033))
            }
            (_, Some(port), _) => {
                format!("; for all addresses write \"[::]:{port}\" or \"0.0.0.0:{port}\"")
            }
            (.., Some((host, _))) if host.parse::<IpAddr>().is_err() && !host.starts_with('[') => {
                "; a host must be given as an IP address, so that it is clear which are meant"
                    .to_owned()
            }
            _ => String::new(),
        };
        format!("{text:?} is no address to listen on{hint}")
    })
}

pub(super) const SERVER: &str =
    "\"auto\" or an address: \"/path/of.sock\", \"host:port\", \"host\"";

pub(super) fn server(text: &str) -> Result<Option<backend::Address>, String> {
    if text == AUTO {
        return Ok(None);
    }
    // The text is not repeated: there may be a password in it.
    if text.contains("://") || text.contains('@') {
        return Err(
            "this is a URL, not an address: write \"host:port\" alone, and users with their \
                    passwords as [[users]]"
                .to_owned(),
        );
    }
    let address = text.parse::<backend::Address>().map_err(|error| error.to_string())?;
    if let backend::Address::Unix(path) = &address {
        check_socket_path(path)?;
    }
    Ok(Some(address))
}

/// Where an agent is: there is no port that all have.
pub(super) fn agent(text: &str) -> Result<backend::Address, String> {
    let needs_port = "an agent needs its port: write \"host:port\", or \"/path/of.sock\"";
    let has_port = text.rsplit_once(':').is_some_and(|(host, port)| {
        let is_whole = !host.contains(':') || host.ends_with(']');
        is_whole && port.parse::<u16>().is_ok()
    });
    match server(text)? {
        Some(address @ backend::Address::Unix(_)) => Ok(address),
        Some(address) if has_port => Ok(address),
        _ => Err(needs_port.to_owned()),
    }
}

pub(super) const AUTO: &str = "auto";

pub(super) const NETWORK: &str = "a network: \"10.0.0.0/8\", \"fd00::/8\", or one IP address";

pub(super) fn network(text: &str) -> Result<Network, String> {
    let refuse = || format!("{text:?} is no network; write \"10.0.0.0/8\" or \"192.0.2.1\"");
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| refuse())?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().map_err(|_| refuse())?;
    let width = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(width);
    if bits > width {
        return Err(format!("{text:?} is no network: its addresses have only {width} bits"));
    }
    let network = Network { address: first(address, bits), bits };
    if network.address != address {
        return Err(format!(
            "{text:?} names one address and a whole network: write \"{network}\" or \"{address}\""
        ));
    }
    // An IPv4 address that comes as IPv6 is looked up as IPv4.
    match (address.to_canonical(), bits.checked_sub(96)) {
        (address @ IpAddr::V4(_), Some(bits)) if width == 128 => Ok(Network { address, bits }),
        _ => Ok(network),
    }
}

/// The first address of the network in which an address lies.
fn first(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}

fn check_socket_path(path: &Path) -> Result<(), String> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() || bytes.ends_with(b"/") {
        return Err(format!("{path:?} is not the path of a socket"));
    }
    if bytes.contains(&0) {
        return Err(format!("{path:?} is not a path: it contains a zero byte"));
    }
    if SOCKET_PATH_MAX < bytes.len() {
        return Err(format!(
            "the path of a Unix socket must not be longer than {SOCKET_PATH_MAX} bytes, and this \
             one has {}",
            bytes.len()
        ));
    }
    Ok(())
}

/// What Linux leaves for the path in `sockaddr_un`, beside a closing zero.
const SOCKET_PATH_MAX: usize = 107;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_sockets_of_either_kind() {
        for (text, shown) in [
            ("127.0.0.1:6033", "127.0.0.1:6033"),
            ("[::]:6033", "[::]:6033"),
            ("/run/flifo.sock", "/run/flifo.sock"),
            ("unix:flifo.sock", "flifo.sock"),
        ] {
            assert_eq!(listen(text).map(|listen| listen.to_string()).as_deref(), Ok(shown));
        }
        for (text, want) in [
            ("127.0.0.1", "write \"127.0.0.1:6033\""),
            ("::1", "write \"[::1]:6033\""),
            ("*:6033", "\"[::]:6033\""),
            ("localhost:6033", "as an IP address"),
            ("6033", "no address"),
            ("127.0.0.1:99999", "no address"),
            ("unix:", "not the path"),
            ("/run/", "not the path"),
            ("", "no address"),
        ] {
            let error = listen(text).expect_err(text);
            assert!(error.contains(want), "{text}: {error}");
        }
        assert!(listen(&format!("/{}", "x".repeat(107))).is_err());
        assert!(listen(&format!("/{}", "x".repeat(106))).is_ok());
    }

    #[test]
    fn the_server_is_found_or_named() {
        assert_eq!(server("auto"), Ok(None));
        assert!(matches!(server("/run/mysqld/mysqld.sock"), Ok(Some(backend::Address::Unix(_)))));
        assert!(matches!(server("db1"), Ok(Some(backend::Address::Tcp { port: 3306, .. }))));
        assert!(server("db1:x").is_err());
        let error = server("mysql://root:secret@db1:3306").expect_err("is a URL");
        assert!(error.contains("[[users]]") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn an_agent_has_a_port_of_its_own() {
        for text in ["db1:9999", "[::1]:9999", "/run/agent.sock"] {
            assert_eq!(agent(text).map(|it| it.to_string()).as_deref(), Ok(text));
        }
        for text in ["db1", "::1", "auto", "db1:", "db1:0", "mysql://db1:9999"] {
            assert!(agent(text).is_err(), "{text}");
        }
    }

    #[test]
    fn networks_hold_their_addresses() {
        let holds = |range: &str, address: &str| {
            network(range).expect(range).contains(address.parse().expect(address))
        };
        assert!(holds("10.0.0.0/8", "10.255.0.1"));
        assert!(!holds("10.0.0.0/8", "11.0.0.1"));
        assert!(holds("10.0.0.0/8", "::ffff:10.1.2.3"));
        assert!(holds("::ffff:10.0.0.0/104", "10.1.2.3"));
        assert!(holds("0.0.0.0/0", "192.0.2.1"));
        assert!(!holds("0.0.0.0/0", "2001:db8::1"));
        assert!(holds("::/0", "2001:db8::1"));
        assert!(holds("192.0.2.1", "192.0.2.1"));
        assert!(!holds("192.0.2.1", "192.0.2.2"));
        assert!(holds("fd00::/8", "fd12::1"));
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/x", "host/8", "::/129"] {
            assert!(network(text).is_err(), "{text}");
        }
        let error = network("10.1.2.3/8").expect_err("has bits too many");
        assert!(error.contains("\"10.0.0.0/8\" or \"10.1.2.3\""), "{error}");
    }
}

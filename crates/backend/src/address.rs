//! Where a server is: a Unix socket's path, or a host and port.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    Unix(PathBuf),
    Tcp { host: String, port: u16 },
}

/// MySQL's registered port.
pub const DEFAULT_PORT: u16 = 3306;

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no address: {why}; write \"/path/of.sock\", \"host\" or \"host:port\"")]
pub struct NoAddress {
    text: String,
    why: &'static str,
}

impl FromStr for Address {
    type Err = NoAddress;

    fn from_str(text: &str) -> Result<Self, NoAddress> {
        let refuse = |why| Err(NoAddress { text: text.to_owned(), why });
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { refuse("no path") } else { Ok(Self::Unix(path.into())) };
        }
        // No name of a host has one.
        if text.contains('/') {
            return Ok(Self::Unix(text.into()));
        }
        // The colons of an IPv6 address are no port's unless it stands in brackets.
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
            _ => (text, None),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return refuse("no host");
        }
        let port = match port.map(str::parse) {
            None => DEFAULT_PORT,
            Some(Ok(port)) if port != 0 => port,
            Some(_) => return refuse("the port is not a number from 1 to 65535"),
        };
        Ok(Self::Tcp { host: host.to_owned(), port })
    }
}

impl Address {
    /// Whether it names this machine itself. One that does not may still be this machine's.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp { host, .. } => {
                host == "localhost" || host.parse().is_ok_and(|it: IpAddr| it.is_loopback())
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "{}", path.display()),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_known_by_its_names() {
        for (text, is_local) in [
            ("/run/mysqld/mysqld.sock", true),
            ("127.0.0.1:3307", true),
            ("127.1.2.3", true),
            ("[::1]:3307", true),
            ("localhost", true),
            ("10.0.0.1", false),
            ("localhost.example.org", false),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().is_local(), is_local, "{text}");
        }
    }

    #[test]
    fn addresses_are_read_and_written() {
        for (text, shown) in [
            ("/run/mysqld/mysqld.sock", "/run/mysqld/mysqld.sock"),
            ("unix:rel.sock", "rel.sock"),
            ("./rel.sock", "./rel.sock"),
            ("run/rel.sock", "run/rel.sock"),
            ("../rel:1.sock", "../rel:1.sock"),
            ("db1", "db1:3306"),
            ("127.0.0.1:3307", "127.0.0.1:3307"),
            ("[::1]:3307", "[::1]:3307"),
            ("::1", "[::1]:3306"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), shown);
        }
        for text in ["", ":3306", "db:0", "db:x", "db:70000", "unix:"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}

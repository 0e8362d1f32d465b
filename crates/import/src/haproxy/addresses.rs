//! Addresses and times as HAProxy writes them.

/// Where Flifo listens for a `bind`. `None`: it cannot be said here.
pub(super) fn listen(text: &str) -> Option<String> {
    let text = text.strip_prefix("ipv4@").or_else(|| text.strip_prefix("ipv6@")).unwrap_or(text);
    if let Some(path) = text.strip_prefix("unix@").or_else(|| text.starts_with('/').then_some(text))
    {
        return path.starts_with('/').then(|| path.to_owned());
    }
    let (host, port) = text.rsplit_once(':')?;
    let port: u16 = port.parse().ok()?;
    match host.trim_start_matches('[').trim_end_matches(']') {
        "" | "*" | "0.0.0.0" => Some(format!("0.0.0.0:{port}")),
        "::" => Some(format!("[::]:{port}")),
        host => {
            let ip: std::net::IpAddr = host.parse().ok()?;
            Some(std::net::SocketAddr::new(ip, port).to_string())
        }
    }
}

/// A server's address. `None`: it cannot be said here.
pub(super) fn server(text: &str) -> Option<String> {
    let text = text.strip_prefix("ipv4@").or_else(|| text.strip_prefix("ipv6@")).unwrap_or(text);
    if let Some(path) = text.strip_prefix("unix@").or_else(|| text.starts_with('/').then_some(text))
    {
        return path.starts_with('/').then(|| path.to_owned());
    }
    if text.is_empty() || text.contains(['$', '@', ' ']) {
        return None;
    }
    match text.rsplit_once(':') {
        // The port of the client's connection, or one beside it.
        Some((_, port)) if port.starts_with(['+', '-']) || port.is_empty() => None,
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            let port: u16 = port.parse().ok()?;
            Some(format!("{host}:{port}"))
        }
        _ => Some(crate::draft::address(text, 3306)),
    }
}

/// A time in milliseconds, which is also the unit of a bare number.
pub(super) fn milliseconds(text: &str) -> Option<u64> {
    let at = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let number: u64 = number.parse().ok()?;
    match unit {
        "us" => Some(number / 1000),
        "" | "ms" => Some(number),
        "s" => number.checked_mul(1000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        "d" => number.checked_mul(86_400_000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_here() {
        let cases = [
            (":3306", Some("0.0.0.0:3306")),
            ("*:3306", Some("0.0.0.0:3306")),
            ("10.0.0.1:3306", Some("10.0.0.1:3306")),
            ("ipv6@::1:3306", Some("[::1]:3306")),
            ("[::]:3306", Some("[::]:3306")),
            ("/run/my.sock", Some("/run/my.sock")),
            ("host:3306", None),
            (":3306-3310", None),
        ];
        for (text, want) in cases {
            assert_eq!(listen(text).as_deref(), want, "{text}");
        }
        let cases = [
            ("10.0.0.1:3306", Some("10.0.0.1:3306")),
            ("db1.example.com:3306", Some("db1.example.com:3306")),
            ("db1", Some("db1:3306")),
            ("[::1]:3307", Some("[::1]:3307")),
            ("unix@/run/my.sock", Some("/run/my.sock")),
            ("db1:", None),
            ("db1:+1", None),
            ("${DB}:3306", None),
        ];
        for (text, want) in cases {
            assert_eq!(server(text).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn times_have_units() {
        for (text, want) in [
            ("5000", Some(5000)),
            ("10s", Some(10_000)),
            ("1h", Some(3_600_000)),
            ("x", None),
            ("1w", None),
        ] {
            assert_eq!(milliseconds(text), want);
        }
    }
}

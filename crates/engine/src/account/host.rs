//! Patterns of host names, as accounts have them: whether one matches a client's address, and which of two is tried
//! first.
//!
//! Both were measured on MariaDB 10.11; MySQL's order is the manual's, and where it does not hold for a version that
//! was measured (8.0.15), two hosts are equal, and nothing is said. Invariants: what cannot be told is never said to
//! match, nor not to match; a comparison is bounded by the product of both lengths.

use std::cmp::Ordering;
use std::net::{IpAddr, Ipv4Addr};

use wire::handshake::version_numbers;

/// Whose accounts they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostBrand {
    MariaDb,
    MySql,
    /// Before 8.0.23, which knows no `10.0.0.0/8`.
    OldMySql,
}

impl HostBrand {
    /// Of a MySQL that says this of its version.
    pub fn of_mysql(version: &[u8]) -> Self {
        if version_numbers(version) < [8, 0, 23] { Self::OldMySql } else { Self::MySql }
    }
}

/// Where a client comes from, as a server sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// None on a Unix socket.
    pub ip: Option<IpAddr>,
    pub name: Name,
}

/// The host name that a server has for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// `localhost`: on a Unix socket, and for 127.0.0.1 and ::1 where the server resolves addresses.
    Local,
    /// None: the server resolves no addresses.
    None,
    /// What the server's resolver says, which is not known here.
    Unknown,
}

/// Whether a server resolves addresses to host names (`skip_name_resolve`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolving {
    On,
    Off,
    Unknown,
}

/// Whether a pattern matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    Yes,
    No,
    /// It depends on a host name that is not known.
    Unclear,
}

impl Origin {
    /// A client of the server's Unix socket.
    pub const LOCAL: Self = Self { ip: None, name: Name::Local };

    /// A client of this address, at a server that resolves addresses or does not.
    pub fn of(ip: IpAddr, resolving: Resolving) -> Self {
        let ip = ip.to_canonical();
        let is_loopback = match ip {
            // Others of the network 127 are looked up like any address.
            IpAddr::V4(ip) => ip == Ipv4Addr::LOCALHOST,
            IpAddr::V6(ip) => ip.is_loopback(),
        };
        let name = match resolving {
            Resolving::Off => Name::None,
            Resolving::On if is_loopback => Name::Local,
            Resolving::On | Resolving::Unknown => Name::Unknown,
        };
        Self { ip: Some(ip), name }
    }
}

/// Whether an account of this host may be of a client from there.
pub fn matches(pattern: &[u8], origin: Origin, brand: HostBrand) -> Match {
    if pattern.is_empty() {
        return Match::Yes;
    }
    if let (Some(network), Some(IpAddr::V4(ip))) = (Network::parse(pattern, brand), origin.ip) {
        let is_in = u32::from(ip) & network.mask == network.ip;
        return if is_in { Match::Yes } else { Match::No };
    }
    if let Some(ip) = origin.ip
        && is_like(pattern, ip.to_string().as_bytes(), u8::eq)
    {
        return Match::Yes;
    }
    match origin.name {
        Name::Local if is_like(pattern, b"localhost", u8::eq_ignore_ascii_case) => Match::Yes,
        Name::Local | Name::None => Match::No,
        // A server believes a name only if it leads back to the address.
        Name::Unknown
            if pattern.eq_ignore_ascii_case(b"localhost")
                && origin.ip.is_some_and(|ip| !ip.is_loopback()) =>
        {
            Match::No
        }
        Name::Unknown if may_be_name(pattern) => Match::Unclear,
        Name::Unknown => Match::No,
    }
}

/// Which of two hosts a server tries first. Among equal ones MariaDB takes a name before none, and then the greater
/// text.
pub fn compare(first: &[u8], second: &[u8], brand: HostBrand) -> Ordering {
    match brand {
        HostBrand::MariaDb => Rank::of(first).cmp(&Rank::of(second)),
        _ => MysqlRank::of(first, brand).cmp(&MysqlRank::of(second, brand)),
    }
}

/// How special a pattern is to MariaDB; the most special comes first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    has_wildcards: bool,
    /// So many characters a match has at least; more come first.
    least: std::cmp::Reverse<usize>,
    /// Runs of `%`.
    runs: usize,
    ones: usize,
    first_wildcard: usize,
}

impl Rank {
    fn of(pattern: &[u8]) -> Self {
        let (mut least, mut runs, mut ones, mut first, mut in_run) = (0, 0, 0, None, false);
        for (at, byte) in pattern.iter().enumerate() {
            match byte {
                b'%' => runs += usize::from(!in_run),
                b'_' => ones += 1,
                _ => {}
            }
            in_run = *byte == b'%';
            if matches!(byte, b'%' | b'_') {
                first.get_or_insert(at);
            }
            least += usize::from(!in_run);
        }
        let Some(first_wildcard) = first else {
            // All hosts without wildcards are equal, but for none at all, which means any.
            let has_wildcards = pattern.is_empty();
            let runs = if has_wildcards { usize::MAX } else { 0 };
            let least = std::cmp::Reverse(0);
            return Self { has_wildcards, least, runs, ones: 0, first_wildcard: 0 };
        };
        Self { has_wildcards: true, least: std::cmp::Reverse(least), runs, ones, first_wildcard }
    }
}

/// How special a host is to MySQL; the most special comes first. Equal ones are tried in an order that is not told.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MysqlRank {
    Address,
    Network(Form, std::cmp::Reverse<u32>),
    /// Where its first wildcard is.
    Text(std::cmp::Reverse<usize>),
}

impl MysqlRank {
    fn of(host: &[u8], brand: HostBrand) -> Self {
        let text = Self::Text(std::cmp::Reverse(wildcard_at(host)));
        // 8.0.15 tries an address, a network and a wider network in the order in which they were made.
        if brand == HostBrand::OldMySql {
            return text;
        }
        match Network::parse(host, brand) {
            Some(network) => Self::Network(network.form, std::cmp::Reverse(network.mask)),
            None if address(host).is_some() => Self::Address,
            None => text,
        }
    }
}

/// Where the first wildcard is, from 2 on; 129 where there is none. What is but `%` comes behind the others (measured
/// on 8.0.15 and 9.7.4), and nothing at all behind that.
fn wildcard_at(pattern: &[u8]) -> usize {
    match pattern.iter().position(|byte| matches!(byte, b'%' | b'_')) {
        None if pattern.is_empty() => 0,
        Some(_) if pattern == b"%" => 1,
        Some(at) => (at + 2).min(128),
        None => 129,
    }
}

/// A network of IPv4 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    ip: u32,
    mask: u32,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    /// `10.0.0.0/8`, which MariaDB does not know.
    Cidr,
    /// `10.0.0.0/255.0.0.0`.
    Mask,
}

impl Network {
    fn parse(pattern: &[u8], brand: HostBrand) -> Option<Self> {
        let slash = pattern.iter().position(|byte| *byte == b'/')?;
        let ip = address(&pattern[..slash])?;
        let rest = &pattern[slash + 1..];
        let network = if let Some(mask) = address(rest) {
            Self { ip, mask, form: Form::Mask }
        } else if brand == HostBrand::MySql {
            let bits: u32 = std::str::from_utf8(rest).ok()?.parse().ok()?;
            let mask = u32::MAX.checked_shl(32u32.checked_sub(bits)?).unwrap_or(0);
            Self { ip, mask, form: Form::Cidr }
        } else {
            return None;
        };
        // A mask of zero is taken for none.
        (network.mask != 0).then_some(network)
    }
}

/// An address as servers read it in an account's host: each number may have spaces, a plus sign and zeros before it.
fn address(text: &[u8]) -> Option<u32> {
    let mut address = 0;
    let mut count = 0;
    for part in text.split(|byte| *byte == b'.') {
        let part = part.trim_ascii_start();
        let part = part.strip_prefix(b"+").unwrap_or(part);
        let is_number = !part.is_empty() && part.iter().all(u8::is_ascii_digit);
        let number = std::str::from_utf8(part).ok().filter(|_| is_number)?.parse::<u64>().ok()?;
        address = address << 8 | u32::from(u8::try_from(number).ok()?);
        count += 1;
    }
    (count == 4).then_some(address)
}

/// Whether a host name could match: numbers and dots are of addresses only, which are not taken for names.
fn may_be_name(pattern: &[u8]) -> bool {
    !pattern.contains(&b':')
        && pattern.iter().any(|byte| byte.is_ascii_alphabetic() || !byte.is_ascii())
        || pattern.first().is_some_and(|byte| matches!(byte, b'_' | b'%' | b'\\'))
}

/// Matches `%` and `_`, and what follows a backslash as it is.
fn is_like(pattern: &[u8], text: &[u8], is_same: impl Fn(&u8, &u8) -> bool) -> bool {
    let (mut at, mut read) = (0, 0);
    // Where to go on if what follows the last `%` does not match here.
    let mut retry = None;
    while read < text.len() {
        let (step, is_match) = match pattern.get(at) {
            Some(b'%') => {
                retry = Some((at + 1, read));
                at += 1;
                continue;
            }
            Some(b'_') => (1, true),
            Some(b'\\') if at + 1 < pattern.len() => (2, is_same(&pattern[at + 1], &text[read])),
            Some(byte) => (1, is_same(byte, &text[read])),
            None => (0, false),
        };
        if is_match {
            (at, read) = (at + step, read + 1);
        } else if let Some((after, from)) = retry {
            retry = Some((after, from + 1));
            (at, read) = (after, from + 1);
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'%')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(ip: &str, resolving: Resolving) -> Origin {
        Origin::of(ip.parse().unwrap(), resolving)
    }

    fn is_match(pattern: &str, origin: Origin) -> Match {
        matches(pattern.as_bytes(), origin, HostBrand::MariaDb)
    }

    #[test]
    fn hosts_match_as_measured() {
        let one = from("127.0.0.1", Resolving::Off);
        let five = from("127.0.0.5", Resolving::Off);
        for (pattern, first, second, local) in [
            ("%", true, true, true),
            ("", true, true, true),
            ("localhost", false, false, true),
            ("LOCALHOST", false, false, true),
            ("localhos_", false, false, true),
            ("Local%", false, false, true),
            ("127.0.0.1", true, false, false),
            ("127.0.0._", true, true, false),
            ("127.%.1", true, false, false),
            ("%%", true, true, true),
            ("1%.0.0.1", true, false, false),
            ("127.0.0.0/255.255.255.0", true, true, false),
            (" 127.0.0.0/255.0.0.0", true, true, false),
            ("+127.0.0.0/+255.0.0.0", true, true, false),
            ("126.0.0.0/254.0.0.0", true, true, false),
            ("127.0.0.5/255.0.0.0", false, false, false),
            ("127.0.0.1/24", false, false, false),
            ("127.0.0.0/8", false, false, false),
            ("127.0.0/255.0.0.0", false, false, false),
            ("0.0.0.0/0.0.0.0", false, false, false),
            ("127.0.0.0/255.255.%", false, false, false),
            ("::1", false, false, false),
        ] {
            for (origin, want) in [(one, first), (five, second), (Origin::LOCAL, local)] {
                let want = if want { Match::Yes } else { Match::No };
                assert_eq!(is_match(pattern, origin), want, "{pattern} {origin:?}");
            }
        }
    }

    #[test]
    fn a_name_that_is_not_known_makes_a_match_unclear() {
        let far = from("10.1.2.3", Resolving::On);
        assert_eq!(is_match("10.%", far), Match::Yes);
        assert_eq!(is_match("11.%", far), Match::No);
        assert_eq!(is_match("%.example.com", far), Match::Unclear);
        assert_eq!(is_match("%.example.com", from("10.1.2.3", Resolving::Off)), Match::No);
        assert_eq!(is_match("localhost", from("127.0.0.1", Resolving::On)), Match::Yes);
        assert_eq!(is_match("localhost", from("127.0.0.1", Resolving::Unknown)), Match::Unclear);
        assert_eq!(is_match("localhost", from("::ffff:127.0.0.1", Resolving::On)), Match::Yes);
        assert_eq!(is_match("127.0.0.1", from("::ffff:127.0.0.1", Resolving::Off)), Match::Yes);
        assert_eq!(is_match("localhost", far), Match::No);
    }

    #[test]
    fn mysql_knows_networks_by_their_bits() {
        let is_match = |pattern: &str, ip: &str| {
            matches(pattern.as_bytes(), from(ip, Resolving::Off), HostBrand::MySql)
        };
        assert_eq!(is_match("10.0.0.0/8", "10.9.9.9"), Match::Yes);
        assert_eq!(is_match("10.0.0.0/33", "10.9.9.9"), Match::No);
        assert_eq!(is_match("10.0.0.0/16", "10.9.9.9"), Match::No);
        assert_eq!(is_match("10.0.0.0/255.0.0.0", "10.9.9.9"), Match::Yes);
    }

    #[test]
    fn mariadb_tries_the_most_special_host_first() {
        // Each list in the order that a server has shown.
        for list in [
            &["_27.0.0.1", "127.0.0.1%", "127.0.0.%", "1%.0.0.1", "127.%.1", "127.0.%", "%0.0.1"][..],
            &["%0.0.1", "%.0.1", "127.%", "%.1", "12%", "%1", "%", ""],
            &[
                "127.0.0.1",
                "%27.0.0.1",
                "1%7.0.0.1",
                "12%.0.0.1",
                "127%0.0.1",
                "127.0%0.1",
                "127.0.%.1",
                "127.0.0.%",
            ],
            &[
                "127.0.0.%",
                "_27.0.0.%",
                "1_7.%.0.1",
                "127._.%.1",
                "127.0._.%",
                "1%.0.0.1",
                "127.0._%",
                "%%.0.0.1",
            ],
            &["127.0.0._", "__7.0.0.1", "1__.0.0.1", "12_.0.0._", "127.0._._"],
            &["%.0.%.1", "%.%.%.1", "%0.1", "127%", "%1%.1", "_%_%1", "1%1", "%.0%"],
            &[
                "_________",
                "127.0.0.1%",
                "_27.0.0.1%",
                "________1%",
                "1%27%.0.0.1",
                "1%2%7%.0%.0.1",
            ],
        ] {
            for pair in list.windows(2) {
                let order = compare(pair[0].as_bytes(), pair[1].as_bytes(), HostBrand::MariaDb);
                assert_eq!(order, Ordering::Less, "{pair:?}");
            }
        }
    }

    #[test]
    fn mysql_tries_addresses_before_patterns() {
        for (list, brand) in [
            (
                &["10.0.0.5", "10.0.0.0/16", "10.0.0.0/8", "10.0.0.0/255.255.0.0"][..],
                HostBrand::MySql,
            ),
            (
                &["10.0.0.0/255.0.0.0", "localhost", "10.0.%", "10.%", "%%", "%", ""],
                HostBrand::MySql,
            ),
            (&["10.0.0.0/255.0.0.0", "10.0.%", "10.%", "%_", "%", ""], HostBrand::OldMySql),
        ] {
            for pair in list.windows(2) {
                let order = compare(pair[0].as_bytes(), pair[1].as_bytes(), brand);
                assert_eq!(order, Ordering::Less, "{pair:?}");
            }
        }
        for other in [&b"localhost"[..], b"127.0.0.0/255.0.0.0", b"127.0.0.0/255.255.255.0"] {
            assert_eq!(compare(other, b"127.0.0.1", HostBrand::OldMySql), Ordering::Equal);
        }
    }

    #[test]
    fn wildcards_take_time_that_is_bounded() {
        let (pattern, text) = ("%a".repeat(2000), "a".repeat(1000));
        assert!(!is_like(pattern.as_bytes(), text.as_bytes(), u8::eq));
        assert!(is_like(b"a%b_c\\%", b"axxbyc%", u8::eq) && !is_like(b"a\\_", b"ab", u8::eq));
    }
}

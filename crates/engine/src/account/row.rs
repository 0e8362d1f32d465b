//! The account that a server chooses for a client, by its name and where it comes from.
//!
//! Invariant: where two accounts could be meant, none is chosen.

use std::cmp::Ordering;

use super::host::{self, HostBrand, Match, Origin};
use super::terms::Terms;

/// An account, without what proves its password.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Empty: of any name that has no account of its own that is as special.
    pub user: Vec<u8>,
    pub host: Vec<u8>,
    pub terms: Terms,
}

impl Row {
    /// Whether both are the same account.
    pub fn is(&self, other: &Self) -> bool {
        self.user == other.user && self.host == other.host
    }
}

/// What is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice<T> {
    One(T),
    /// The server knows no account for such a client.
    None,
    /// It depends on a host name that is not known, or on the server's version.
    Unclear,
}

/// Chooses among the accounts of this name and the anonymous ones; others must not be among `rows`.
pub fn choose<'a>(
    rows: impl IntoIterator<Item = &'a Row>,
    origin: Origin,
    brand: HostBrand,
) -> Choice<&'a Row> {
    let mut best: Option<(&Row, Match)> = None;
    // Two that are tried in an order that is not known.
    let mut is_tied = false;
    for row in rows {
        let is_match = host::matches(&row.host, origin, brand);
        if is_match == Match::No {
            continue;
        }
        let order = best.map_or(Ordering::Less, |(best, _)| compare(row, best, brand));
        match order {
            Ordering::Less => (best, is_tied) = (Some((row, is_match)), false),
            Ordering::Equal => is_tied = true,
            Ordering::Greater => {}
        }
    }
    match best {
        None => Choice::None,
        Some((row, Match::Yes)) if !is_tied => Choice::One(row),
        Some(_) => Choice::Unclear,
    }
}

/// Which of two accounts is tried first.
fn compare(first: &Row, second: &Row, brand: HostBrand) -> Ordering {
    let hosts = host::compare(&first.host, &second.host, brand);
    // At equal hosts, an account with a name comes before one without.
    let named = || first.user.is_empty().cmp(&second.user.is_empty());
    let by_text = || match brand {
        HostBrand::MariaDb => second.host.cmp(&first.host),
        HostBrand::MySql | HostBrand::OldMySql => Ordering::Equal,
    };
    hosts.then_with(named).then_with(by_text)
}

#[cfg(test)]
mod tests {
    use super::super::host::Resolving;
    use super::*;

    fn row(account: &str) -> Row {
        let (user, host) = account.split_once('@').unwrap();
        let (user, host) = (user.as_bytes().to_vec(), host.as_bytes().to_vec());
        Row { user, host, terms: Terms::default() }
    }

    fn chosen(accounts: &[&str], origin: Origin, brand: HostBrand) -> String {
        let rows: Vec<_> = accounts.iter().map(|account| row(account)).collect();
        match choose(&rows, origin, brand) {
            Choice::One(row) => {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                format!("{}@{}", text(&row.user), text(&row.host))
            }
            Choice::None => "none".to_owned(),
            Choice::Unclear => "unclear".to_owned(),
        }
    }

    #[test]
    fn the_account_is_the_servers_choice() {
        let at = |ip: &str| Origin::of(ip.parse().unwrap(), Resolving::Off);
        for (accounts, origin, want) in [
            (&["u@%", "u@10.%", "u@10.0.%"][..], at("10.0.0.1"), "u@10.0.%"),
            (&["u@%", "u@10.%", "u@10.0.%"], at("10.1.0.1"), "u@10.%"),
            (&["u@10.%", "@localhost"], Origin::LOCAL, "@localhost"),
            (&["u@10.%", "@localhost"], at("10.1.0.1"), "u@10.%"),
            (&["u@%", "@10.%"], at("10.1.0.1"), "@10.%"),
            (&["u@%", "@%"], at("10.1.0.1"), "u@%"),
            (&["u@10.%"], at("11.0.0.1"), "none"),
            (&["u@localhost", "u@127.0.0.1"], at("127.0.0.1"), "u@127.0.0.1"),
            // Measured: by their texts, the greater one first.
            (&["u@127.0.0.1", "u@127.0.0.0/255.0.0.0"], at("127.0.0.1"), "u@127.0.0.1"),
            (&["u@127.0.0.1", "@127.0.0.1/255.255.255.255"], at("127.0.0.1"), "u@127.0.0.1"),
        ] {
            assert_eq!(
                chosen(accounts, origin, HostBrand::MariaDb),
                want,
                "{accounts:?} {origin:?}"
            );
        }
    }

    #[test]
    fn what_depends_on_a_host_name_is_unclear() {
        let at = Origin::of("10.0.0.1".parse().unwrap(), Resolving::On);
        for brand in [HostBrand::MariaDb, HostBrand::MySql, HostBrand::OldMySql] {
            assert_eq!(chosen(&["u@%", "u@db.example.com"], at, brand), "unclear");
            assert_eq!(chosen(&["u@%.example.com"], at, brand), "unclear");
            assert_eq!(chosen(&["u@10.0.0.1", "u@%.example.com"], at, brand), "u@10.0.0.1");
        }
        let local = Origin::of("127.0.0.1".parse().unwrap(), Resolving::On);
        let both = ["u@localhost", "u@127.0.0.1"];
        assert_eq!(chosen(&both, local, HostBrand::MariaDb), "u@localhost");
        assert_eq!(chosen(&both, local, HostBrand::OldMySql), "unclear");
        assert_eq!(chosen(&both, local, HostBrand::MySql), "u@127.0.0.1");
    }
}

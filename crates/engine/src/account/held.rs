//! Whether a client may have the account that the server gives Flifo in its name.
//!
//! The server chooses accounts by Flifo's address. What it would have chosen for the client's own address is told by
//! the table of accounts, or bounded by what the server says of the one that it has chosen.

use std::fmt;
use std::net::IpAddr;

use super::host::{HostBrand, Match, Origin, Resolving, matches};
use super::row::{Choice, Row, choose};

/// One end of a connection, as the server sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerPlace {
    /// On the server's Unix socket.
    Socket,
    Ip(IpAddr),
}

/// Where a client would come from without Flifo, and where Flifo comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerPlaces {
    pub client: PeerPlace,
    pub flifo: PeerPlace,
}

/// By which rules a server matches accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountRules {
    pub brand: HostBrand,
    pub resolving: Resolving,
}

/// Why a client is refused that the server would let in as Flifo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountRefusal {
    /// The server has no account for it.
    NoAccount,
    /// The server has this account for it, and another one for Flifo.
    OtherAccount { own: String, given: String },
    /// The account that the server gives Flifo is not for where the client is.
    OtherHost { given: String },
    /// The account that the server gives Flifo is anonymous; the client may have one of its own elsewhere.
    Anonymous { given: String },
}

impl PeerPlace {
    fn of(ip: IpAddr) -> Self {
        Self::Ip(ip.to_canonical())
    }

    fn is_loopback(self) -> bool {
        matches!(self, Self::Ip(ip) if ip.is_loopback())
    }

    /// How a server of these rules sees it.
    pub fn origin(self, rules: AccountRules) -> Origin {
        match self {
            Self::Socket => Origin::LOCAL,
            Self::Ip(ip) => Origin::of(ip, rules.resolving),
        }
    }
}

impl PeerPlaces {
    /// Of a client with this address, if it does not come by a Unix socket, and of Flifo's own, if that does not reach
    /// the server by one.
    pub fn new(client: Option<IpAddr>, flifo: Option<IpAddr>) -> Self {
        let flifo = flifo.map_or(PeerPlace::Socket, PeerPlace::of);
        let client = match client.map(PeerPlace::of) {
            // It is on Flifo's machine: so is the server, or it would come from there as Flifo does.
            None => flifo,
            Some(client) if client.is_loopback() && !flifo.is_loopback() => match flifo {
                PeerPlace::Socket => client,
                PeerPlace::Ip(_) => flifo,
            },
            Some(client) => client,
        };
        Self { client, flifo }
    }

    /// Whether the server chooses for Flifo what it would choose for the client.
    pub fn are_same(self) -> bool {
        self.client == self.flifo
    }
}

/// The account of a client, by the rows of its name and the anonymous ones; `None` where they do not tell it.
pub fn by_rows<'a>(
    rows: impl Iterator<Item = &'a Row> + Clone,
    places: PeerPlaces,
    rules: AccountRules,
) -> Result<Option<&'a Row>, AccountRefusal> {
    let given = choose(rows.clone(), places.flifo.origin(rules), rules.brand);
    let own = choose(rows, places.client.origin(rules), rules.brand);
    match (own, given) {
        (Choice::One(own), Choice::One(given)) if own.is(given) => Ok(Some(own)),
        (Choice::One(own), Choice::One(given)) => {
            Err(AccountRefusal::OtherAccount { own: own.to_string(), given: given.to_string() })
        }
        (Choice::None, _) => Err(AccountRefusal::NoAccount),
        _ => Ok(None),
    }
}

/// Holds a client to the account that the server has given Flifo, where nothing is known of others.
pub fn by_account(
    given: &Row,
    places: PeerPlaces,
    rules: AccountRules,
) -> Result<(), AccountRefusal> {
    if places.are_same() {
        return Ok(());
    }
    match matches(&given.host, places.client.origin(rules), rules.brand) {
        Match::No => Err(AccountRefusal::OtherHost { given: given.to_string() }),
        _ if given.user.is_empty() => Err(AccountRefusal::Anonymous { given: given.to_string() }),
        Match::Yes | Match::Unclear => Ok(()),
    }
}

impl fmt::Display for PeerPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket => f.write_str("localhost"),
            Self::Ip(ip) => ip.fmt(f),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy;
        write!(f, "'{}'@'{}'", text(&self.user), text(&self.host))
    }
}

impl fmt::Display for AccountRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAccount => f.write_str("the server has no account for it"),
            Self::OtherAccount { own, given } => {
                write!(f, "its account is {own}, and the server gives Flifo {given}")
            }
            Self::OtherHost { given } => {
                write!(f, "the server gives Flifo {given}, which is not for that host")
            }
            Self::Anonymous { given } => write!(
                f,
                "the server gives Flifo the anonymous account {given}, and it is not known whether it has another one \
                 for the client"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFF: AccountRules = AccountRules { brand: HostBrand::MariaDb, resolving: Resolving::Off };

    fn row(account: &str) -> Row {
        let (user, host) = account.split_once('@').unwrap();
        Row { user: user.into(), host: host.into(), ..Row::default() }
    }

    fn places(client: &str, flifo: &str) -> PeerPlaces {
        let ip = |text: &str| (text != "socket").then(|| text.parse().unwrap());
        PeerPlaces::new(ip(client), ip(flifo))
    }

    #[test]
    fn a_client_on_flifos_machine_comes_from_there() {
        let shown = |client, flifo| {
            let PeerPlaces { client, flifo } = places(client, flifo);
            format!("{client} {flifo}")
        };
        for (client, flifo, want) in [
            ("socket", "socket", "localhost localhost"),
            ("socket", "127.0.0.1", "127.0.0.1 127.0.0.1"),
            ("socket", "10.0.0.5", "10.0.0.5 10.0.0.5"),
            ("127.0.0.1", "socket", "127.0.0.1 localhost"),
            ("127.0.0.2", "127.0.0.1", "127.0.0.2 127.0.0.1"),
            ("127.0.0.1", "10.0.0.5", "10.0.0.5 10.0.0.5"),
            ("10.1.1.1", "10.0.0.5", "10.1.1.1 10.0.0.5"),
            ("10.1.1.1", "127.0.0.1", "10.1.1.1 127.0.0.1"),
            ("::ffff:10.1.1.1", "10.1.1.1", "10.1.1.1 10.1.1.1"),
        ] {
            assert_eq!(shown(client, flifo), want, "{client} {flifo}");
            assert_eq!(
                places(client, flifo).are_same(),
                want.split(' ').all(|it| want.starts_with(it))
            );
        }
    }

    #[test]
    fn a_table_tells_the_account_of_the_clients_own_address() {
        let judge = |accounts: &[&str], client, flifo| {
            let rows: Vec<_> = accounts.iter().map(|it| row(it)).collect();
            let judged = by_rows(rows.iter(), places(client, flifo), OFF);
            judged.map(|row| row.map_or_else(|| "not told".to_owned(), Row::to_string))
        };
        let is = |account: &str| Ok(row(account).to_string());
        let other = |own: &str, given: &str| {
            let (own, given) = (row(own).to_string(), row(given).to_string());
            Err(AccountRefusal::OtherAccount { own, given })
        };
        // Issue 29, 14: from the client's address alice needs her password.
        let alice = &["@localhost", "alice@10.%"];
        assert_eq!(judge(alice, "10.1.1.1", "socket"), other("alice@10.%", "@localhost"));
        assert_eq!(judge(alice, "127.0.0.1", "socket"), Err(AccountRefusal::NoAccount));
        assert_eq!(judge(alice, "socket", "socket"), is("@localhost"));
        assert_eq!(judge(&["a@%", "a@10.%"], "10.1.1.1", "127.0.0.1"), other("a@10.%", "a@%"));
        assert_eq!(judge(&["a@%", "@10.%"], "11.1.1.1", "127.0.0.1"), is("a@%"));
        assert_eq!(judge(&["a@localhost"], "10.1.1.1", "socket"), Err(AccountRefusal::NoAccount));
        assert_eq!(judge(&["a@10.%"], "10.1.1.1", "socket"), Ok("not told".to_owned()));
    }

    #[test]
    fn an_account_is_for_clients_of_its_host_and_an_anonymous_one_for_flifo_alone() {
        let judge =
            |account: &str, client, flifo| by_account(&row(account), places(client, flifo), OFF);
        assert_eq!(judge("a@%", "10.1.1.1", "socket"), Ok(()));
        assert_eq!(judge("a@10.%", "10.1.1.1", "10.2.2.2"), Ok(()));
        let other = |given: &str| Err(AccountRefusal::OtherHost { given: row(given).to_string() });
        assert_eq!(judge("a@localhost", "10.1.1.1", "socket"), other("a@localhost"));
        assert_eq!(judge("@localhost", "127.0.0.1", "socket"), other("@localhost"));
        assert_eq!(judge("@localhost", "socket", "socket"), Ok(()));
        let anonymous = AccountRefusal::Anonymous { given: row("@%").to_string() };
        assert_eq!(judge("@%", "10.1.1.1", "socket"), Err(anonymous));
    }

    #[test]
    fn a_host_that_only_a_name_server_knows_is_let_in() {
        let given = row("a@%.example.com");
        let judge = |resolving| {
            by_account(&given, places("10.1.1.1", "10.0.0.5"), AccountRules { resolving, ..OFF })
        };
        assert_eq!(judge(Resolving::On), Ok(()));
        assert!(judge(Resolving::Off).is_err());
    }
}

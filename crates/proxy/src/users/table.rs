//! The server's table of accounts, as it was read: which account the server chooses for a client, and which users'
//! hashes are enough to log in with.
//!
//! Invariants: hashes are wiped as soon as they are sorted, but for those by which Flifo pools a user's clients or vouches
//! for its certificate; of a table that is too large to be held, what is known is
//! known of each name as a whole, or not at all.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::LazyLock;

use backend::login::Pair;
use engine::account::held::{self, AccountRefusal, AccountRules, PeerPlaces};
use engine::account::name::UserName;
use engine::account::row::{Choice, Row, choose};
use engine::account::terms::{Terms, Transport};
use wire::auth::{Plugin, Secret, certificate, ed25519, native, parsec, sha_crypt};

use crate::config::Password;
use crate::users::proof::Passwords;

/// MariaDB's table, as rows of a name and a text of its other columns: host, whether it is locked, whether its password
/// has expired, what it demands of a connection, its bounds, its plugin, what that stores; and, of an account with
/// several, each other plugin with what that stores.
pub(crate) static MARIADB: LazyLock<String> = LazyLock::new(|| {
    // One of them, an empty one, stands for the plugin above.
    let others = (0..OTHERS_MAX).map(|index| {
        let path = format!("$.auth_or[{index}]");
        format!(
            "CONCAT(JSON_VALUE(Priv,'{path}.plugin'),' ',\
             HEX(IFNULL(JSON_VALUE(Priv,'{path}.authentication_string'),'')))"
        )
    });
    let others = others.collect::<Vec<_>>().join(", ");
    format!(
        "SELECT User, CONCAT_WS(' ', HEX(Host), \
         IFNULL(JSON_VALUE(Priv,'$.account_locked') IN ('1','true'),0), \
         IFNULL(JSON_VALUE(Priv,'$.password_last_changed')='0',0), \
         IFNULL(JSON_VALUE(Priv,'$.ssl_type'),0), \
         IFNULL(JSON_VALUE(Priv,'$.max_user_connections'),0), \
         IFNULL(JSON_VALUE(Priv,'$.max_connections'),0), IFNULL(JSON_VALUE(Priv,'$.plugin'),''), \
         HEX(IFNULL(JSON_VALUE(Priv,'$.authentication_string'),'')), \
         IF(JSON_EXISTS(Priv,'$.auth_or'), CONCAT_WS(' ', {others}, \
         IF(JSON_EXISTS(Priv,'$.auth_or[{OTHERS_MAX}]'), 'more ', NULL)), NULL)) \
         FROM mysql.global_priv WHERE NOT JSON_EXISTS(Priv,'$.is_role') ORDER BY HEX(User)"
    )
});

/// So many places are looked at in a list of an account's other plugins. What is behind them the server alone checks.
const OTHERS_MAX: usize = 8;

/// MySQL's, with the password before this one where it is retained.
pub(crate) const MYSQL: &str = "SELECT User, CONCAT_WS(' ', HEX(Host), account_locked='Y', password_expired='Y', \
    FIELD(ssl_type,'ANY','X509','SPECIFIED'), max_user_connections, max_connections, plugin, HEX(IFNULL(authentication_string,'')), \
    CONCAT(plugin,' ',HEX(User_attributes->>'$.additional_password'))) \
    FROM mysql.user ORDER BY HEX(User)";

/// That of a MySQL that retains none.
pub(crate) const OLD_MYSQL: &str = "SELECT User, CONCAT_WS(' ', HEX(Host), account_locked='Y', password_expired='Y', \
    FIELD(ssl_type,'ANY','X509','SPECIFIED'), max_user_connections, max_connections, plugin, HEX(IFNULL(authentication_string,''))) \
    FROM mysql.user ORDER BY HEX(User)";

/// `ER_BAD_FIELD_ERROR`: what such a server says of the newer statement.
pub(crate) const NO_SUCH_COLUMN: u16 = 1054;

/// So many bytes of it are held: some 100 000 accounts.
pub(crate) const BYTES_MAX: usize = 32 << 20;

/// Accounts by their names.
#[derive(Debug)]
pub(crate) struct Table {
    rows: HashMap<UserName, Vec<Row>>,
    /// What clients of all accounts of a name can prove.
    provable: HashMap<UserName, Vec<Provable>>,
    anonymous: Vec<Row>,
    /// The first name that is not known any more, where not all are.
    end: Option<UserName>,
    rules: AccountRules,
    /// Where Flifo came from that read it; `None`: by a Unix socket.
    own: Option<IpAddr>,
}

/// A password of an account, as far as a client's proof of it can be checked.
#[derive(Clone, Debug)]
pub(crate) struct Provable {
    pub(crate) host: Vec<u8>,
    /// By this Flifo can vouch for its certificate; `None`: the empty password.
    pub(crate) stored: Option<certificate::Stored>,
}

/// Why an account does not tell what is needed to pool its clients.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unusable {
    #[error(
        "the server has no account of this name for Flifo's address, or it is not certain which"
    )]
    Elsewhere,
    #[error("its account is locked, or its password has expired")]
    Locked,
    #[error("what the server stores for {0} is not enough to log in with")]
    Plugin(String),
}

/// The table, and which users can be pooled, with what the server stores of their passwords.
#[derive(Debug)]
pub(crate) struct Sorted {
    pub(crate) table: Table,
    pub(crate) usable: HashMap<UserName, Passwords>,
    pub(crate) unusable: HashMap<UserName, Unusable>,
}

/// An account with what proves its passwords: for each a plugin, a space, and a hash in hexadecimal.
struct Stored {
    row: Row,
    proofs: Secret,
}

/// What is stored for one plugin.
enum Proof {
    Password(Password),
    /// The server alone can check it.
    Other(Plugin),
}

impl Table {
    /// The account of a client of this name; `None`: it is not known. Spaces at a name's end are not in the table, and
    /// an account that was made with some has them in the server's memory until that reads the table again.
    pub(crate) fn judge(
        &self,
        name: &UserName,
        client: Option<IpAddr>,
        own: Option<IpAddr>,
    ) -> Result<Option<&Row>, AccountRefusal> {
        let is_beyond = self.end.as_ref().is_some_and(|end| end <= name);
        if is_beyond || name.as_bytes().ends_with(b" ") {
            return Ok(None);
        }
        held::by_rows(self.of(name), PeerPlaces::new(client, own), self.rules)
    }

    pub(crate) const fn own(&self) -> Option<IpAddr> {
        self.own
    }

    pub(crate) const fn end(&self) -> Option<&UserName> {
        self.end.as_ref()
    }

    /// What clients of this name can prove. It is looked up without the spaces at its end, which the table lacks: it
    /// counts only for a client that has itself proved it.
    pub(crate) fn provable(&self, name: &UserName) -> &[Provable] {
        let name = name.as_bytes();
        let end = name.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
        name.get(..end).and_then(|name| self.provable.get(name)).map_or(&[], Vec::as_slice)
    }

    fn of(&self, name: &UserName) -> impl Iterator<Item = &Row> + Clone {
        self.rows.get(name).into_iter().flatten().chain(&self.anonymous)
    }
}

/// Sorts what was read. Not all was, if it is not whole.
pub(crate) fn sort(
    rows: Vec<Pair>,
    is_whole: bool,
    rules: AccountRules,
    own: Option<IpAddr>,
) -> Sorted {
    let mut stored: HashMap<UserName, Vec<Stored>> = HashMap::new();
    let mut last = None;
    for (name, text) in rows {
        let text = Secret::from(text);
        // Read in UTF-8, which it is stored in.
        let Ok(name) = std::str::from_utf8(&name) else { continue };
        let name = UserName::of_account(name);
        if let Some(it) = parse(&name, text.as_bytes()) {
            stored.entry(name.clone()).or_default().push(it);
        }
        last = Some(name);
    }
    let end = last.filter(|_| !is_whole);
    if let Some(name) = &end {
        stored.remove(name);
    }
    let rows_of = |of: Vec<Stored>| of.into_iter().map(|it| it.row).collect::<Vec<_>>();
    let anonymous = stored.remove(&b""[..]).map(rows_of).unwrap_or_default();
    let origin = PeerPlaces::new(None, own).flifo.origin(rules);
    let (mut usable, mut unusable) = (HashMap::new(), HashMap::new());
    for (name, of) in &stored {
        let all = of.iter().map(|it| &it.row).chain(&anonymous);
        let given = match choose(all, origin, rules.brand) {
            Choice::One(given) => of.iter().find(|it| it.row.is(given)),
            Choice::None | Choice::Unclear => None,
        };
        match given.ok_or(Unusable::Elsewhere).and_then(Stored::passwords) {
            Ok(passwords) => drop(usable.insert(name.clone(), passwords)),
            Err(why) => drop(unusable.insert(name.clone(), why)),
        }
    }
    let provable = |of: &Vec<Stored>| of.iter().flat_map(Stored::provable).collect::<Vec<_>>();
    let provable = stored.iter().map(|(name, of)| (name.clone(), provable(of)));
    let provable = provable.filter(|(_, of)| !of.is_empty()).collect();
    let rows = stored.into_iter().map(|(name, of)| (name, rows_of(of))).collect();
    let table = Table { rows, provable, anonymous, end, rules, own };
    Sorted { table, usable, unusable }
}

fn parse(name: &UserName, text: &[u8]) -> Option<Stored> {
    let mut parts = text.splitn(7, |byte| *byte == b' ');
    let host = wire::auth::from_hex(parts.next()?)?;
    let mut number = || std::str::from_utf8(parts.next()?).ok()?.parse::<i64>().ok();
    let [locked, expired, transport, at_once, per_hour] =
        [number()?, number()?, number()?, number()?, number()?];
    let terms = Terms {
        transport: match transport {
            0 => Transport::Any,
            1 => Transport::Tls,
            _ => Transport::Certificate,
        },
        is_locked: locked != 0,
        has_expired: expired != 0,
        at_once: Some(at_once).filter(|max| *max != 0),
        per_hour: u64::try_from(per_hour).ok().filter(|max| *max != 0),
    };
    let row = Row { user: name.as_bytes().to_vec(), host, terms };
    Some(Stored { row, proofs: Secret::from(parts.next()?) })
}

impl Stored {
    fn passwords(&self) -> Result<Passwords, Unusable> {
        if self.row.terms.is_locked || self.row.terms.has_expired {
            return Err(Unusable::Locked);
        }
        let (mut passwords, mut other) = (Passwords::default(), None);
        for (plugin, stored) in self.each() {
            match Proof::read(plugin, stored) {
                Proof::Password(password) => passwords.known.push(password),
                Proof::Other(plugin) => other = other.or(Some(plugin)),
            }
        }
        passwords.has_others = other.is_some();
        match other.filter(|_| passwords.known.is_empty()) {
            Some(plugin) => Err(Unusable::Plugin(plugin.to_string())),
            None => Ok(passwords),
        }
    }

    /// Each plugin, with what is stored for it.
    fn each(&self) -> impl Iterator<Item = (Plugin, Option<Secret>)> {
        let mut words = self.proofs.as_bytes().split(|byte| *byte == b' ');
        std::iter::from_fn(move || {
            let (name, hex) = (words.next()?, words.next().unwrap_or_default());
            let plugin = match name {
                b"" => Plugin::NativePassword,
                name => Plugin::from_name(name),
            };
            Some((plugin, wire::auth::from_hex(hex).map(Secret::from)))
        })
    }

    /// What its clients can prove.
    fn provable(&self) -> impl Iterator<Item = Provable> {
        use certificate::Stored;
        let host = &self.row.host;
        self.each().filter_map(|(plugin, stored)| {
            let stored = stored?;
            let text = stored.as_bytes();
            let stored = match plugin.name() {
                b"mysql_native_password" if text.is_empty() => None,
                b"mysql_native_password" => {
                    Some(Stored::Native(native::NativeStored::parse(text).ok()?))
                }
                // The account's side of the plugin has a name of its own.
                b"ed25519" => Some(Stored::Ed25519(ed25519::PublicKey::parse(text).ok()?)),
                b"parsec" => Some(Stored::Parsec(parsec::ParsecStored::parse(text)?)),
                _ => return None,
            };
            Some(Provable { host: host.clone(), stored })
        })
    }
}

impl Proof {
    fn read(plugin: Plugin, stored: Option<Secret>) -> Self {
        let password = stored.and_then(|stored| {
            let text = stored.as_bytes();
            match plugin {
                Plugin::NativePassword | Plugin::CachingSha2 if stored.is_empty() => {
                    Some(Password::Plain(Secret::from("")))
                }
                Plugin::NativePassword => {
                    native::NativeStored::parse(text).ok().map(Password::Native)
                }
                Plugin::CachingSha2 => {
                    sha_crypt::CryptStored::parse(text).ok().map(Password::CachingSha2)
                }
                _ => None,
            }
        });
        password.map_or(Self::Other(plugin), Self::Password)
    }
}

#[cfg(test)]
mod tests {
    use engine::account::host::{HostBrand, Resolving};

    use super::*;

    const RULES: AccountRules =
        AccountRules { brand: HostBrand::MariaDb, resolving: Resolving::Off };

    fn hex(text: &str) -> String {
        text.bytes().map(|byte| format!("{byte:02X}")).collect()
    }

    fn native(password: &str) -> String {
        let stored = native::NativeStage1::of(password.as_bytes()).stored().reveal();
        format!("mysql_native_password {}", hex(&stored))
    }

    /// A row as the statement answers it, from an account, its terms and its proof.
    fn row((account, terms, proof): (&str, &str, &str)) -> Pair {
        let (user, host) = account.split_once('@').unwrap();
        (user.into(), format!("{} {terms} {proof}", hex(host)).into_bytes())
    }

    fn name(text: &str) -> UserName {
        UserName::of_account(text)
    }

    #[test]
    fn accounts_are_sorted_by_whether_a_hash_is_enough() {
        let (secret, other) = (native("secret"), native("other"));
        let free = "0 0 0 0 0";
        let rows = [
            ("app@%", free, &secret[..]),
            ("far@%", free, &secret),
            ("far@localhost", free, &other),
            ("elsewhere@10.%", free, &secret),
            ("hidden@%", free, &secret),
            ("@localhost", free, "mysql_native_password "),
            ("hidden@10.%", free, &secret),
            ("locked@localhost", "1 0 0 0 0", &secret),
            ("expired@localhost", "0 1 0 0 0", &secret),
            ("both@localhost", free, &format!("ed25519 4142 {secret}")),
            ("renewed@localhost", free, &format!("{other} {secret}")),
            ("key@localhost", free, "ed25519 4142"),
            ("socket@localhost", free, "unix_socket "),
            ("invalid@localhost", free, "mysql_native_password 696E76616C6964"),
            ("torn@localhost", free, "mysql_native_password 6"),
            ("open@localhost", free, "mysql_native_password "),
            ("old@localhost", free, " "),
        ]
        .map(row);
        let Sorted { usable, unusable, .. } = sort(rows.to_vec(), true, RULES, None);
        let mut names: Vec<_> = usable.keys().map(ToString::to_string).collect();
        names.sort();
        assert_eq!(names, ["both", "far", "old", "open", "renewed"]);
        let other = native::NativeStored::parse(
            &native::NativeStage1::of(b"other").stored().reveal().into_bytes(),
        );
        let other = Password::Native(other.unwrap());
        assert_eq!(usable[&b"far"[..]], other.clone().into());
        assert_eq!(usable[&b"open"[..]], Password::Plain("".into()).into());
        let both = &usable[&b"both"[..]];
        assert!(both.has_others && matches!(both.known[..], [Password::Native(_)]));
        let renewed = &usable[&b"renewed"[..]];
        assert!(!renewed.has_others && renewed.known.len() == 2 && renewed.known[0] == other);
        for name in ["app", "elsewhere", "hidden"] {
            assert_eq!(unusable[name.as_bytes()], Unusable::Elsewhere, "{name}");
        }
        for name in ["locked", "expired"] {
            assert_eq!(unusable[name.as_bytes()], Unusable::Locked, "{name}");
        }
        for name in ["key", "socket", "invalid", "torn"] {
            assert!(matches!(unusable[name.as_bytes()], Unusable::Plugin(_)), "{name}");
        }
    }

    #[test]
    fn what_is_provable_is_found_for_a_name_with_spaces_at_its_end() {
        let secret = native("secret");
        let rows = [("app@%", "0 0 0 0 0", &secret[..]), ("@%", "0 0 0 0 0", &secret)].map(row);
        let table = sort(rows.to_vec(), true, RULES, None).table;
        for (user, found) in [("app", 1), ("app ", 1), ("app  ", 1), (" app", 0), ("  ", 0)] {
            assert_eq!(table.provable(&name(user)).len(), found, "{user:?}");
        }
    }

    #[test]
    fn an_account_is_read_with_its_terms() {
        let parse = |terms: &str| {
            let (_, text) = row(("a@10.%", terms, "p 00"));
            parse(&name("a"), &text).map(|it| it.row)
        };
        let read = parse("1 1 2 -1 7").unwrap();
        assert_eq!((&read.user[..], &read.host[..]), (&b"a"[..], &b"10.%"[..]));
        let terms = Terms {
            transport: Transport::Certificate,
            is_locked: true,
            has_expired: true,
            at_once: Some(-1),
            per_hour: Some(7),
        };
        assert_eq!(read.terms, terms);
        assert_eq!(parse("0 0 1 0 0").unwrap().terms.transport, Transport::Tls);
        for torn in ["", "0 0 1 0", "0 0 x 0 0", "0 0 1 0 99999999999999999999"] {
            assert!(parse(torn).is_none(), "{torn}");
        }
    }

    #[test]
    fn of_a_table_that_is_cut_names_are_known_as_a_whole_or_not_at_all() {
        let free = "0 0 0 0 0";
        let all = [("@%", free, ""), ("a@%", free, ""), ("b@%", free, ""), ("b@10.%", free, "")];
        let rows: Vec<_> = all.map(row).to_vec();
        let (client, own) = (Some("11.0.0.1".parse().unwrap()), None);
        let judge = |table: &Table, user: &str| {
            table.judge(&name(user), client, own).unwrap().map(ToString::to_string)
        };
        let whole = sort(rows.clone(), true, RULES, own).table;
        assert_eq!(judge(&whole, "b").unwrap(), "'b'@'%'");
        assert_eq!(judge(&whole, "c").unwrap(), "''@'%'");
        // In the server's memory, `c ` may have an account that the table says is `c`'s.
        assert_eq!((judge(&whole, "c "), judge(&whole, " c").is_some()), (None, true));
        let cut = sort(rows, false, RULES, own).table;
        assert_eq!(judge(&cut, "a").unwrap(), "'a'@'%'");
        assert_eq!((judge(&cut, "b"), judge(&cut, "c")), (None, None));
        assert_eq!(cut.end(), Some(&name("b")));
    }
}

//! The name of a user, as the server will read it.
//!
//! A server does not compare the bytes that a client sends: it converts them from the character set of the login,
//! takes one pair of quotes off, and cuts what is too long. Names that differ on the wire can be one user, so names are
//! compared as [`UserName`] only, and one can be made only by the rules below. They were measured on MariaDB 10.11 and
//! MySQL 8.0 (the tests below, and `testkit`'s `user_names`):
//!
//! | | login packet | `COM_CHANGE_USER` |
//! |---|---|---|
//! | character set | converted to UTF-8 | converted to UTF-8 |
//! | one pair of `'` around it | taken off, after the conversion | kept |
//! | longer than 80 (MariaDB), 32 (MySQL) letters | cut, after the quotes | no account has it |
//! | `"`, `` ` ``, spaces at either end, case | kept, and tell names apart | the same |
//! | not of the character set, or not of the first plane of Unicode | `?`, or the name ends there | the same |
//!
//! Invariant: a name of which these rules do not say for certain what the server makes of it is refused.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Whose rules a name is read by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brand {
    MariaDb,
    MySql,
}

impl Brand {
    /// So many letters a user's name has at most.
    pub const fn longest(self) -> usize {
        match self {
            Self::MariaDb => 80,
            Self::MySql => 32,
        }
    }
}

/// In which of two packets a name comes: they are not read alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet {
    Login,
    ChangeUser,
}

/// A user's name, in UTF-8. Equal names are the same user to the server, and different ones are not.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UserName(#[serde(with = "crate::described::bytes")] Arc<[u8]>);

/// Why it is not certain what the server would make of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsure {
    /// It has more letters than this, and the server would cut it.
    Long(usize),
    /// It has letters that are not of the login's character set, or that no user's name can have.
    Letters,
    /// It has letters that depend on the character set of this collation, which is not known here.
    Charset(u16),
}

impl std::error::Error for Unsure {}

impl fmt::Display for Unsure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Long(max) => write!(f, "the user name has more than {max} letters"),
            Self::Letters => f.write_str(
                "the user name has letters that are not of the login's character set, or that no user name can have",
            ),
            Self::Charset(collation) => write!(
                f,
                "the user name has letters beyond ASCII, and Flifo does not know the character set of the login's \
                 collation {collation}; log in with utf8mb4 or latin1"
            ),
        }
    }
}

impl UserName {
    /// The name of an account, as it is written in a configuration or in the server's table of accounts.
    pub fn of_account(name: &str) -> Self {
        Self(name.as_bytes().into())
    }

    /// The user that the server sees where a packet of a client has this name.
    pub fn read(
        bytes: &[u8],
        collation: u16,
        packet: Packet,
        brand: Brand,
    ) -> Result<Self, Unsure> {
        let text = decode(bytes, Charset::of(collation, brand), collation)?;
        let name = match packet {
            Packet::Login => unquoted(&text),
            Packet::ChangeUser => &text,
        };
        let max = brand.longest();
        // UTF-8 has at least as many bytes as letters.
        if max < name.len() && max < name.chars().count() {
            return Err(Unsure::Long(max));
        }
        Ok(Self::of_account(name))
    }

    /// What a login packet of this collation has in the name's place, for the server to see this user.
    pub fn in_login(&self, collation: u16, brand: Brand) -> Result<Vec<u8>, Unsure> {
        let text = std::str::from_utf8(&self.0).map_err(|_| Unsure::Letters)?;
        let name = match unquoted(text) == text {
            true => text.to_owned(),
            // The server takes one pair off.
            false => format!("'{text}'"),
        };
        let bytes = encode(&name, Charset::of(collation, brand), collation)?;
        match Self::read(&bytes, collation, Packet::Login, brand) {
            Ok(read) if read == *self => Ok(bytes),
            Ok(_) => Err(Unsure::Letters),
            Err(why) => Err(why),
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// No name at all: an anonymous account's.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn is_ascii(&self) -> bool {
        self.0.is_ascii()
    }
}

/// Users are found by their names alone, so that an account's name need not be copied for it.
impl Borrow<[u8]> for UserName {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl PartialEq<str> for UserName {
    fn eq(&self, account: &str) -> bool {
        *self.0 == *account.as_bytes()
    }
}

impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

/// The name without the one pair of quotes that a server takes off.
fn unquoted(name: &str) -> &str {
    let inner = name.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    inner.unwrap_or(name)
}

/// What is known of a login's character set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Charset {
    Utf8,
    /// The server's latin1 is Windows' code page 1252, with controls where that has nothing.
    Latin1,
    /// Bytes, which the server takes for the first letters of Unicode.
    Binary,
    /// Its first half is ASCII, all but the last byte.
    Ascii,
    /// It has national letters in the places of some of ASCII's signs.
    National,
}

impl Charset {
    const fn of(collation: u16, brand: Brand) -> Self {
        match collation {
            10 | 82 => Self::National,
            5 | 8 | 15 | 31 | 47 | 48 | 49 | 94 => Self::Latin1,
            63 => Self::Binary,
            33 | 45 | 46 | 76 | 83 | 192..=215 | 223..=247 => Self::Utf8,
            // Where a server knows no such collation, it takes its own default.
            255..=323 if matches!(brand, Brand::MySql) => Self::Utf8,
            _ => Self::Ascii,
        }
    }
}

fn decode(bytes: &[u8], charset: Charset, collation: u16) -> Result<String, Unsure> {
    let text = match charset {
        Charset::Utf8 => std::str::from_utf8(bytes).map_err(|_| Unsure::Letters)?.to_owned(),
        Charset::Latin1 => bytes.iter().map(|byte| of_latin1(*byte)).collect(),
        Charset::Binary => bytes.iter().copied().map(char::from).collect(),
        Charset::Ascii | Charset::National => {
            let is_sure = |byte: &u8| match charset {
                Charset::National => byte.is_ascii_alphanumeric() || b" _-.'".contains(byte),
                _ => (0x01..0x7f).contains(byte),
            };
            if !bytes.iter().all(is_sure) {
                return Err(Unsure::Charset(collation));
            }
            bytes.iter().copied().map(char::from).collect()
        }
    };
    // The server's own UTF-8 has three bytes a letter at most.
    let is_of_first_plane = |letter: char| u32::from(letter) <= 0xffff && letter != '\0';
    if text.chars().all(is_of_first_plane) { Ok(text) } else { Err(Unsure::Letters) }
}

fn encode(name: &str, charset: Charset, collation: u16) -> Result<Vec<u8>, Unsure> {
    let by = |letter: char| match charset {
        Charset::Latin1 => to_latin1(letter),
        Charset::Binary => u8::try_from(letter).ok(),
        Charset::Utf8 | Charset::Ascii | Charset::National => None,
    };
    match charset {
        Charset::Utf8 => Ok(name.as_bytes().to_vec()),
        Charset::Latin1 | Charset::Binary => {
            name.chars().map(|letter| by(letter).ok_or(Unsure::Letters)).collect()
        }
        Charset::Ascii | Charset::National if name.is_ascii() => Ok(name.as_bytes().to_vec()),
        Charset::Ascii | Charset::National => Err(Unsure::Charset(collation)),
    }
}

const fn of_latin1(byte: u8) -> char {
    match byte {
        0x80..=0x9f => WINDOWS[(byte - 0x80) as usize],
        byte => byte as char,
    }
}

fn to_latin1(letter: char) -> Option<u8> {
    let windows = WINDOWS.iter().position(|it| *it == letter);
    match windows {
        Some(at) => u8::try_from(0x80 + at).ok(),
        None => u8::try_from(letter).ok().filter(|byte| !(0x80..0xa0).contains(byte)),
    }
}

/// Where the server's latin1 is not the first letters of Unicode.
const WINDOWS: [char; 32] = [
    '\u{20ac}', '\u{81}', '\u{201a}', '\u{192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}',
    '\u{2c6}', '\u{2030}', '\u{160}', '\u{2039}', '\u{152}', '\u{8d}', '\u{17d}', '\u{8f}',
    '\u{90}', '\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}', '\u{2022}', '\u{2013}', '\u{2014}',
    '\u{2dc}', '\u{2122}', '\u{161}', '\u{203a}', '\u{153}', '\u{9d}', '\u{17e}', '\u{178}',
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UTF8MB4: u16 = 45;
    const LATIN1: u16 = 8;

    fn login(bytes: &[u8], collation: u16) -> Result<UserName, Unsure> {
        UserName::read(bytes, collation, Packet::Login, Brand::MariaDb)
    }

    fn change(bytes: &[u8], collation: u16) -> Result<UserName, Unsure> {
        UserName::read(bytes, collation, Packet::ChangeUser, Brand::MariaDb)
    }

    /// What `SELECT USER()` said on MariaDB 10.11 and on MySQL 8.0 for each, in the two packets.
    #[test]
    fn names_are_read_as_the_server_reads_them() {
        for (bytes, collation, in_login, in_change) in [
            (&b"capped"[..], UTF8MB4, "capped", "capped"),
            (b"'capped'", UTF8MB4, "capped", "'capped'"),
            (b"''capped''", UTF8MB4, "'capped'", "''capped''"),
            (b"'capped", UTF8MB4, "'capped", "'capped"),
            (b"capped'", UTF8MB4, "capped'", "capped'"),
            (b"\"capped\"", UTF8MB4, "\"capped\"", "\"capped\""),
            (b"`capped`", UTF8MB4, "`capped`", "`capped`"),
            (b"CAPPED", UTF8MB4, "CAPPED", "CAPPED"),
            (b"capped ", UTF8MB4, "capped ", "capped "),
            (b" capped", UTF8MB4, " capped", " capped"),
            (b"'capped '", UTF8MB4, "capped ", "'capped '"),
            (b"", UTF8MB4, "", ""),
            (b"'", UTF8MB4, "'", "'"),
            (b"''", UTF8MB4, "", "''"),
            (b"'''", UTF8MB4, "'", "'''"),
            (b"''''", UTF8MB4, "''", "''''"),
            (b"tab\t", UTF8MB4, "tab\t", "tab\t"),
            ("j\u{fc}rg".as_bytes(), UTF8MB4, "j\u{fc}rg", "j\u{fc}rg"),
            ("j\u{fc}rg".as_bytes(), 33, "j\u{fc}rg", "j\u{fc}rg"),
            ("j\u{fc}rg".as_bytes(), 240, "j\u{fc}rg", "j\u{fc}rg"),
            ("j\u{fc}rg".as_bytes(), LATIN1, "j\u{c3}\u{bc}rg", "j\u{c3}\u{bc}rg"),
            (b"j\xfcrg", LATIN1, "j\u{fc}rg", "j\u{fc}rg"),
            (b"'j\xfcrg'", LATIN1, "j\u{fc}rg", "'j\u{fc}rg'"),
            (b"j\xfcrg", 63, "j\u{fc}rg", "j\u{fc}rg"),
            (b"\x80c", LATIN1, "\u{20ac}c", "\u{20ac}c"),
            (b"capped", 0, "capped", "capped"),
            (b"capped", 255, "capped", "capped"),
            (b"capped", 10, "capped", "capped"),
            (b"'capped'", 28, "capped", "'capped'"),
        ] {
            let shown = String::from_utf8_lossy(bytes);
            assert_eq!(login(bytes, collation), Ok(UserName::of_account(in_login)), "{shown}");
            assert_eq!(change(bytes, collation), Ok(UserName::of_account(in_change)), "{shown}");
        }
    }

    #[test]
    fn what_is_not_certain_is_refused() {
        for (bytes, collation, why) in [
            // The server makes these `r?ot` or `r`, `a?`, and `j?rg`.
            (&b"r\xffot"[..], UTF8MB4, Unsure::Letters),
            ("a\u{1f600}".as_bytes(), UTF8MB4, Unsure::Letters),
            (b"j\xfcrg", 11, Unsure::Charset(11)),
            (b"capp\xc1\xa5d", UTF8MB4, Unsure::Letters),
            // National letters.
            (b"ro@t", 10, Unsure::Charset(10)),
            (b"ro[t", 82, Unsure::Charset(82)),
            // The server's default, which is not known.
            (b"j\xfcrg", 0, Unsure::Charset(0)),
            ("j\u{fc}rg".as_bytes(), 255, Unsure::Charset(255)),
        ] {
            assert_eq!(login(bytes, collation), Err(why));
            assert_eq!(change(bytes, collation), Err(why));
        }
        let mysql = |bytes: &[u8], packet| UserName::read(bytes, 255, packet, Brand::MySql);
        assert!(mysql("j\u{fc}rg".as_bytes(), Packet::Login).is_ok());
        for packet in [Packet::Login, Packet::ChangeUser] {
            assert!(mysql(&[b'x'; 32], packet).is_ok());
            assert_eq!(mysql(&[b'x'; 33], packet), Err(Unsure::Long(32)));
            // Letters count, not bytes.
            assert!(mysql("\u{fc}".repeat(32).as_bytes(), packet).is_ok());
        }
        assert!(login(&[b'x'; 80], UTF8MB4).is_ok());
        assert_eq!(login(&[b'x'; 81], UTF8MB4), Err(Unsure::Long(80)));
        let quoted = [b"'", &[b'x'; 80][..], b"'"].concat();
        assert!(login(&quoted, UTF8MB4).is_ok());
        assert_eq!(change(&quoted, UTF8MB4), Err(Unsure::Long(80)));
    }

    #[test]
    fn a_name_is_sent_so_that_the_server_reads_the_same() {
        let sent =
            |name: &str, collation| UserName::of_account(name).in_login(collation, Brand::MariaDb);
        for (name, collation, bytes) in [
            ("root", UTF8MB4, Ok(&b"root"[..])),
            ("'root'", UTF8MB4, Ok(&b"''root''"[..])),
            ("''", UTF8MB4, Ok(b"''''")),
            ("'", UTF8MB4, Ok(&b"'"[..])),
            ("j\u{fc}rg", LATIN1, Ok(&b"j\xfcrg"[..])),
            ("\u{20ac}", LATIN1, Ok(&b"\x80"[..])),
            ("\u{439}", LATIN1, Err(Unsure::Letters)),
            ("j\u{fc}rg", 28, Err(Unsure::Charset(28))),
            ("ro@t", 10, Err(Unsure::Charset(10))),
        ] {
            assert_eq!(sent(name, collation), bytes.map(<[u8]>::to_vec), "{name}");
        }
    }

    #[test]
    fn each_byte_of_latin1_is_a_letter_of_its_own() {
        let mut letters: Vec<char> = (0..=255).map(of_latin1).collect();
        for (byte, letter) in (0..=255).zip(&letters) {
            assert_eq!(to_latin1(*letter), Some(byte));
        }
        letters.sort_unstable();
        letters.dedup();
        assert_eq!(letters.len(), 256);
    }

    proptest! {
        #[test]
        fn what_was_read_is_sent_as_the_same_name(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\''), any::<u8>(), b'a'..b'd'], 0..100),
            collation in prop_oneof![Just(8), Just(10), Just(28), Just(45), Just(63), Just(255)],
            packet in prop_oneof![Just(Packet::Login), Just(Packet::ChangeUser)],
            brand in prop_oneof![Just(Brand::MariaDb), Just(Brand::MySql)],
        ) {
            if let Ok(name) = UserName::read(&bytes, collation, packet, brand) {
                let sent = name.in_login(collation, brand).unwrap();
                prop_assert!(!sent.contains(&0));
                prop_assert_eq!(UserName::read(&sent, collation, Packet::Login, brand), Ok(name));
            }
        }
    }
}

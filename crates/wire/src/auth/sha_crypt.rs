//! The form in which MySQL stores passwords of `caching_sha2_password`: `$A$005$`, a salt, a
//! digest.
//!
//! The digest is that of SHA-crypt (Ulrich Drepper's, with SHA-256) over a salt of 20 bytes instead
//! of at most 16, so it is slow by intent: 5000 rounds take milliseconds. Not for an event loop.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::caching_sha2::PASSWORD_MAX;
use super::from_hex;

/// A password as `mysql.user` has it.
#[derive(Clone, PartialEq, Eq)]
pub struct CryptStored {
    salt: [u8; SALT_LEN],
    /// In the alphabet of SHA-crypt.
    digest: [u8; DIGEST_LEN],
    rounds: u32,
}

/// A text that is no stored password of this plugin. The text is not repeated, for it may be a
/// password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a hash of caching_sha2_password: it has the form $A$005$..., with 63 characters at the \
     end, or is all that in hexadecimal digits"
)]
pub struct NotShaCrypt;

/// How long a salt is.
pub const SALT_LEN: usize = 20;
const ROUNDS: u32 = 5000;
const DIGEST_LEN: usize = 43;

impl CryptStored {
    /// What a server stores of a password, with as many rounds as servers use by default. The salt is a random one.
    pub fn of(password: &[u8], salt: [u8; SALT_LEN]) -> Self {
        let rounds = ROUNDS;
        Self { salt, digest: digest(password, &salt, rounds), rounds }
    }

    /// The text that `authentication_string` holds: the digest, which is a secret.
    pub fn reveal(&self) -> Vec<u8> {
        let head = format!("$A${:03X}$", self.rounds / 1000).into_bytes();
        [&head[..], &self.salt, &self.digest].concat()
    }

    /// Reads what `authentication_string` holds.
    pub fn parse(text: &[u8]) -> Result<Self, NotShaCrypt> {
        let rest = text.strip_prefix(b"$A$").ok_or(NotShaCrypt)?;
        let (thousands, rest) = rest.split_first_chunk::<3>().ok_or(NotShaCrypt)?;
        let rest = rest.strip_prefix(b"$").ok_or(NotShaCrypt)?;
        let (salt, digest) = rest.split_first_chunk::<SALT_LEN>().ok_or(NotShaCrypt)?;
        let digest = <[u8; DIGEST_LEN]>::try_from(digest).map_err(|_| NotShaCrypt)?;
        let mut rounds = 0;
        for character in thousands {
            // Hexadecimal, of which most servers use only 005.
            let digit = char::from(*character).to_digit(16).ok_or(NotShaCrypt)?;
            rounds = rounds * 16 + digit * 1000;
        }
        if rounds == 0 {
            return Err(NotShaCrypt);
        }
        Ok(Self { salt: *salt, digest, rounds })
    }

    /// Reads it as people can write it down: as it is; as hexadecimal digits, with or without `0x`
    /// (`HEX()`, `print_identified_with_as_hex`); or with the backslashes of `SHOW CREATE USER`.
    pub fn parse_written(text: &[u8]) -> Result<Self, NotShaCrypt> {
        let digits = text.strip_prefix(b"0x").unwrap_or(text);
        // Only one of the three has the right length: each digit or backslash is one byte more.
        Self::parse(text)
            .or_else(|_| Self::parse(&from_hex(digits).ok_or(NotShaCrypt)?))
            .or_else(|_| Self::parse(&without_backslashes(text)))
    }

    /// Checks a password, which takes as long as its server wanted.
    pub fn check(&self, password: &[u8]) -> bool {
        password.len() <= PASSWORD_MAX
            && digest(password, &self.salt, self.rounds).ct_eq(&self.digest).into()
    }
}

impl std::fmt::Debug for CryptStored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CryptStored({} rounds)", self.rounds)
    }
}

/// Undoes what MySQL does to a text that it prints between quotes.
fn without_backslashes(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter();
    while let Some(&byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next() {
                Some(b'0') => 0,
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(b'Z') => 0x1a,
                Some(&other) => other,
                None => byte,
            },
            _ => byte,
        });
    }
    bytes
}

fn digest(password: &[u8], salt: &[u8], rounds: u32) -> [u8; DIGEST_LEN] {
    let first = first_digest(password, salt);
    // The password and the salt are not hashed themselves in the rounds, but as many bytes made of
    // them.
    let repeated = (0..password.len()).map(|_| password);
    let password = stretched(&hash(repeated), password.len());
    let repeated = (0..16 + usize::from(first[0])).map(|_| salt);
    let salt = stretched(&hash(repeated), salt.len());

    let mut digest = first;
    for round in 0..rounds {
        let is_odd = round % 2 == 1;
        let mut parts: [&[u8]; 4] = [&[]; 4];
        parts[0] = if is_odd { &password } else { &*digest };
        if round % 3 != 0 {
            parts[1] = &salt;
        }
        if round % 7 != 0 {
            parts[2] = &password;
        }
        parts[3] = if is_odd { &*digest } else { &password };
        digest = hash(parts);
    }
    text(&digest)
}

fn first_digest(password: &[u8], salt: &[u8]) -> Zeroizing<[u8; 32]> {
    let inner = hash([password, salt, password]);
    let stretched = stretched(&inner, password.len());
    let mut parts = vec![password, salt, &stretched];
    let mut len = password.len();
    while len > 0 {
        parts.push(if len % 2 == 1 { &*inner } else { password });
        len /= 2;
    }
    hash(parts)
}

/// Repeats `bytes` up to a length.
fn stretched(bytes: &[u8; 32], len: usize) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(bytes.iter().copied().cycle().take(len).collect())
}

fn hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Zeroizing<[u8; 32]> {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    Zeroizing::new(hash.finalize().into())
}

/// Writes a digest as SHA-crypt does: three bytes from its three thirds become four characters,
/// lowest bits first.
fn text(digest: &[u8; 32]) -> [u8; DIGEST_LEN] {
    const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut text = [0; DIGEST_LEN];
    for (group, characters) in text.chunks_mut(4).enumerate() {
        let [a, b, c] = match group {
            10 => [0, digest[31], digest[30]],
            // The thirds take turns in being the first.
            _ => [0, 10, 20].map(|third| digest[(third + 21 * group) % 30]),
        };
        let mut bits = u32::from_be_bytes([0, a, b, c]);
        for character in characters {
            *character = ALPHABET[(bits & 0x3f) as usize];
            bits >>= 6;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_crypt() {
        // From glibc's crypt(3), which takes salts of up to 16 bytes.
        let long = "pässwörd and then some more than thirty-two bytes of it";
        for (password, salt, rounds, expected) in [
            ("secret", "saltstring", 5000, "C3o4O1TC6aRHF4FI.QSZMXtHbaj2gSXr4sUc/3NcUi."),
            ("", "0123456789abcdef", 5000, "Zn36wCiXtVKLQsl4EZaBU/Ag5FUHHzFRXevhCLkg7x/"),
            (&"a".repeat(32), "x", 5000, "5MlyXDQ0fwP3pnqw5QVRjGuTJw5R6QstT9ym93TBB7."),
            (long, ".VE0a9rWfA/zzzzz", 5000, "uvHBqwxdXEEwzQvPhVjA3hCX/N4h1wXWlFesvh0uPm0"),
            ("secret", "saltstring", 4095, "6B60e7F.y88oIO0QpzvYcP56ipVkYZiNx2uHu0bU/N."),
        ] {
            let digest = digest(password.as_bytes(), salt.as_bytes(), rounds);
            assert_eq!(digest.escape_ascii().to_string(), expected);
        }
    }

    /// What a MySQL 8 stores for "foobar".
    const FOOBAR: &[u8] = b"$A$005$\x03\x1ai%\x1c4)\\K5\x16|\x7f\x1eZ{c\t\x13I\
          P9tbM4PKZBFy5HV3hhhoRHZsnJs3hxnBuuQlsDdiIe7";

    #[test]
    fn a_stored_password_is_checked() {
        let stored = CryptStored::parse(FOOBAR).unwrap();
        assert!(stored.check(b"foobar"));
        assert!(!stored.check(b"foobaz"));
        assert!(!stored.check(b""));
        assert!(!stored.check(&[b'x'; PASSWORD_MAX + 1]));
    }

    #[test]
    fn it_is_read_in_each_form_that_servers_print() {
        let hex: String = FOOBAR.iter().map(|byte| format!("{byte:02x}")).collect();
        // As SHOW CREATE USER has it: of what is in this salt, only a backslash needs one.
        let shown = FOOBAR.iter().flat_map(|byte| match byte {
            b'\\' => vec![b'\\', b'\\'],
            0x1a => b"\\Z".to_vec(),
            byte => vec![*byte],
        });
        let shown: Vec<u8> = shown.collect();
        for text in [FOOBAR, hex.as_bytes(), hex.to_uppercase().as_bytes(), &shown] {
            let stored = CryptStored::parse_written(text);
            assert!(stored.unwrap().check(b"foobar"), "{}", text.escape_ascii());
        }
        assert!(
            CryptStored::parse_written(format!("0x{hex}").as_bytes()).unwrap().check(b"foobar")
        );
        let all = without_backslashes(br"\0\n\r\Z\\\'\a\");
        assert_eq!(all, b"\0\n\r\x1a\\'a\\");
        for text in [&hex[1..], &hex[2..], &format!("{hex}00"), &format!("0x0x{hex}"), ""] {
            assert!(CryptStored::parse_written(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn the_number_of_rounds_is_hexadecimal_and_bounded() {
        let with = |rounds: &[u8]| {
            let mut text = FOOBAR.to_vec();
            text[3..6].copy_from_slice(rounds);
            CryptStored::parse(&text).map(|stored| stored.rounds)
        };
        assert_eq!(with(b"005"), Ok(5000));
        assert_eq!(with(b"00A"), Ok(10_000));
        assert_eq!(with(b"fff"), Ok(4_095_000));
        for bad in [b"000", b"-05", b"5  ", b"00G"] {
            assert_eq!(with(bad), Err(NotShaCrypt));
        }
    }

    #[test]
    fn what_is_no_stored_password_is_refused() {
        for len in 0..FOOBAR.len() {
            assert!(CryptStored::parse(&FOOBAR[..len]).is_err(), "{len}");
        }
        assert!(CryptStored::parse(&[FOOBAR, b"x"].concat()).is_err());
        assert!(CryptStored::parse(b"*14E65567ABDB5135D0CFD9A70B3032C179A49EE7").is_err());
        // An account that no client can log in to: MySQL makes such accounts for itself.
        let locked = b"$A$005$THISISACOMBINATIONOFINVALIDSALTANDPASSWORDTHATMUSTNEVERBRBEUSED";
        assert!(!CryptStored::parse(locked).unwrap().check(b""));
    }
}

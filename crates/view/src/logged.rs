//! Texts of statements as logs show them: cut at a bound, with their literals or without, and never with a password.

use std::time::SystemTime;

use wire::lex::Dialect;
use wire::text::{Lexed, Text};

use crate::digests::normalise;

/// Bytes of a statement's text that are kept for a log; with its literals hidden, it is shorter.
pub const TEXT_MAX: usize = 8 << 10;

/// What stands for a name that is not known.
pub(crate) const NONE: &str = "<none>";

/// An entry of a log.
pub trait LogEntry {
    /// Ends an entry that was broken off, so that the next one can be told from it.
    const BREAK: &'static str;

    /// How much memory it takes, beside what each one does.
    fn size(&self) -> usize;

    /// Appends it. `at`: when what it tells of has ended; `lost`: how many entries are missing before this one.
    fn put(&self, at: SystemTime, lost: u64, out: &mut String);
}

/// Whether logs show the literals of statements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Literals {
    #[default]
    Show,
    Hide,
}

/// What a client has asked for, as far as logs show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoggedText {
    /// The beginning of a statement's text, and how long all of it is.
    Statement { bytes: Box<[u8]>, len: usize, dialect: Dialect },
    /// A command without a text, by its name.
    Command(&'static str),
}

impl LoggedText {
    pub fn new(text: Text<'_>) -> Self {
        let (len, dialect) = (text.bytes.len(), text.dialect);
        let kept = text.bytes.get(..TEXT_MAX).unwrap_or(text.bytes);
        Self::Statement { bytes: kept.into(), len, dialect }
    }

    /// How much memory it takes.
    pub fn size(&self) -> usize {
        match self {
            Self::Statement { bytes, .. } => bytes.len(),
            Self::Command(_) => 0,
        }
    }

    /// The text to be shown. Control characters that a terminal might obey are not in it.
    pub fn show(&self, literals: Literals) -> String {
        let (bytes, len, dialect) = match self {
            Self::Command(name) => return format!("administrator command: {name}"),
            Self::Statement { bytes, len, dialect } => (bytes, *len, *dialect),
        };
        let shown = match may_hold_secret(bytes) || literals == Literals::Hide {
            true => {
                let readable = readable(bytes);
                let mut shown = normalise(Lexed::default().text(readable, dialect));
                if readable.len() < bytes.len() && !shown.ends_with('…') {
                    shown.push('…');
                }
                shown
            }
            false => String::from_utf8_lossy(bytes).into_owned(),
        };
        let is_odd = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
        let mut shown = shown.replace(is_odd, "\u{fffd}");
        let kept = shown.trim_end_matches([';', ' ', '\n', '\t']).len();
        shown.truncate(kept);
        if bytes.len() < len {
            shown.push_str(&format!(" /* cut: {len} bytes */"));
        }
        shown
    }
}

/// Words that statements with passwords and keys have in common; those of texts within texts are found as well.
const SECRETS: [&[u8]; 5] =
    [b"password", b"identified", b"_encrypt", b"_decrypt", b"wsrep_sst_auth"];

/// Whether a text may have a password in it. It may be one that is built of others, or of an address with a password.
fn may_hold_secret(text: &[u8]) -> bool {
    let has = |word: &[u8]| text.windows(word.len()).any(|it| it.eq_ignore_ascii_case(word));
    // A text within a text may be written with escapes, or put together of pieces.
    let letters = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(**byte, b'_' | b':' | b'/');
    let squeezed: Vec<u8> = text.iter().filter(letters).copied().collect();
    let is_built =
        |word: &[u8]| squeezed.windows(word.len()).any(|it| it.eq_ignore_ascii_case(word));
    SECRETS.into_iter().any(is_built) || has(b"connection") && has(b"://")
}

/// The part of a text whose quotes are surely where they seem to be: in some character sets of several bytes the second
/// byte of a letter may be that of a backslash, or of a back-tick.
fn readable(text: &[u8]) -> &[u8] {
    if std::str::from_utf8(text).map_or_else(|error| error.error_len().is_none(), |_| true) {
        return text;
    }
    let is_unsure = |pair: &[u8]| !pair[0].is_ascii() && matches!(pair[1], b'\\' | b'`');
    let end = text.windows(2).position(is_unsure).unwrap_or(text.len());
    &text[..end]
}

/// A name as logs show it: one word, as the programs that read them want it.
pub(crate) fn word(name: &str) -> String {
    if name.is_empty() {
        return NONE.to_owned();
    }
    let is_odd = |letter: char| {
        letter.is_whitespace() || letter.is_control() || matches!(letter, '[' | ']' | '@' | ';')
    };
    name.replace(is_odd, "?")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(text: &[u8], literals: Literals) -> String {
        LoggedText::new(Lexed::default().text(text, Dialect::default())).show(literals)
    }

    #[test]
    fn literals_are_shown_or_hidden() {
        use Literals::{Hide, Show};
        for (text, literals, shown) in [
            (&b"SELECT 'a', 1"[..], Show, "SELECT 'a', 1"),
            (b"SELECT 'a', 1 ; \n", Show, "SELECT 'a', 1"),
            (b"SELECT 'a' /* x */", Hide, "SELECT ?"),
            (b"SELECT\n\t1", Show, "SELECT\n\t1"),
            (b"SELECT '\x1b[31m\x00'", Show, "SELECT '\u{fffd}[31m\u{fffd}'"),
            (b"SELECT '\xff'", Show, "SELECT '\u{fffd}'"),
            (b"SELECT '\xff'", Hide, "SELECT ?"),
            // A letter of gbk whose second byte is a backslash's: what is behind it may be inside or outside of quotes.
            (b"SELECT 'x\x81\\', 'secret'", Hide, "SELECT…"),
            ("SELECT 'é\\n', a".as_bytes(), Hide, "SELECT ? a"),
        ] {
            assert_eq!(show(text, literals), shown, "{}", String::from_utf8_lossy(text));
        }
        assert_eq!(LoggedText::Command("Execute").show(Show), "administrator command: Execute");
    }

    #[test]
    fn passwords_are_never_shown() {
        for text in [
            "CREATE USER a IDENTIFIED BY 'hunter2'",
            "create user a identified by \"hunter2\"",
            "ALTER USER a IDENTIFIED VIA ed25519 USING PASSWORD('hunter2')",
            "GRANT ALL ON *.* TO 'a'@'%' IDENTIFIED BY 'hunter2'",
            "SET PASSWORD = 'hunter2'",
            "SET PASSWORD FOR a = PASSWORD('hunter2')",
            "SELECT OLD_PASSWORD('hunter2')",
            "CHANGE MASTER TO MASTER_HOST = 'h', MASTER_PASSWORD = 'hunter2'",
            "CHANGE REPLICATION SOURCE TO SOURCE_PASSWORD='hunter2'",
            "START SLAVE USER='u' PASSWORD='hunter2'",
            "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (USER 'u', PASSWORD 'hunter2')",
            "CREATE TABLE t (a INT) ENGINE=FEDERATED CONNECTION = 'mysql://u:hunter2@h/d/t'",
            "EXECUTE IMMEDIATE 'CREATE USER a IDENTIFIED BY ''hunter2'''",
            "PREPARE s FROM \"SET PASSWORD = 'hunter2'\"",
            "SET @sql = 'GRANT ALL ON *.* TO a IDENTIFIED BY \"hunter2\"'",
            "CREATE USER a /*!50000 IDENTIFIED*/ BY 'hunter2'",
            "CREATE USER a IDENTIFIED /* by */ BY /* hunter2 */ 'hunter2' -- hunter2",
            "UPDATE users SET password = 'hunter2'",
            "SELECT AES_ENCRYPT('x', 'hunter2')",
            "CREATE USER a IDENTIFIED BY 'hunter2",
        ] {
            for literals in [Literals::Show, Literals::Hide] {
                let shown = show(text.as_bytes(), literals);
                assert!(!shown.contains("hunter2") && !shown.is_empty(), "{shown}");
            }
        }
        assert_eq!(
            show(b"CREATE USER 'a'@'%' IDENTIFIED BY 'x'", Literals::Show),
            "CREATE USER ?@'%' IDENTIFIED BY ?"
        );
    }

    #[test]
    fn a_long_text_is_cut() {
        let text = [b"SELECT '".to_vec(), vec![b'x'; 100_000], b"'".to_vec()].concat();
        let shown = show(&text, Literals::Show);
        let end = " /* cut: 100009 bytes */";
        assert!(shown.starts_with("SELECT 'xxx") && shown.ends_with(end), "{shown}");
        assert_eq!(shown.len(), TEXT_MAX + end.len());
        assert_eq!(show(&text, Literals::Hide), format!("SELECT{end}"));
        let logged = LoggedText::new(Lexed::default().text(&text, Dialect::default()));
        assert_eq!(logged.size(), TEXT_MAX);
    }

    #[test]
    fn names_are_words() {
        for (name, shown) in [("ann", "ann"), ("", NONE), ("a b\n[c]@d;", "a?b??c??d?")] {
            assert_eq!(word(name), shown);
        }
    }
}

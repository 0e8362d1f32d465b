//! `@@last_gtid` of clients that share backends: MariaDB reports it behind each write, so the value of the client's own
//! last write can stand in the text in its place.

use wire::lex::scope_and_name;
use wire::text::Text;

use crate::calls::{self, CallPlace};

/// A list of GTIDs is no longer than this.
const LEN_MAX: usize = 256;

/// Whether this is the variable, with its signs and its scope.
fn is_last_gtid(variable: &[u8]) -> bool {
    let written = variable.strip_prefix(b"@@");
    written.is_some_and(|it| scope_and_name(it).1.eq_ignore_ascii_case(b"last_gtid"))
}

/// The text with the variable replaced by this value. `None`: it does not occur, or where it does, columns would be
/// named otherwise.
pub fn put(text: Text<'_>, gtid: &[u8]) -> Option<Vec<u8>> {
    let is_plain = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b',');
    if gtid.len() > LEN_MAX || !gtid.iter().all(is_plain) {
        return None;
    }
    let literal = format!("'{}'", std::str::from_utf8(gtid).ok()?);
    let mut is_missed = false;
    let replaced = calls::replace(text, |name, place| {
        if !is_last_gtid(name) {
            return None;
        }
        is_missed |= place == CallPlace::Within;
        Some(literal.clone()).filter(|_| place != CallPlace::Within)
    });
    replaced.filter(|_| !is_missed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::lex::Dialect;
    use wire::text::Lexed;

    #[test]
    fn the_variable_becomes_the_value_and_keeps_its_name() {
        let put = |text: &str| {
            put(Lexed::default().text(text.as_bytes(), Dialect::default()), b"0-1-42")
                .map(|text| String::from_utf8(text).unwrap())
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(put("SELECT @@last_gtid"), some("SELECT '0-1-42' AS `@@last_gtid`"));
        let all = "SELECT 1, @@session.LAST_GTID, 2 FROM t";
        let want = "SELECT 1, '0-1-42' AS `@@session.LAST_GTID`, 2 FROM t";
        assert_eq!(put(all), some(want));
        assert_eq!(put("SELECT @@last_gtid AS g"), some("SELECT '0-1-42' AS g"));
        assert_eq!(put("DO @@last_gtid"), some("DO '0-1-42'"));
        for text in ["SELECT '@@last_gtid'", "SELECT @@last_insert_id", "SELECT last_gtid()"] {
            assert_eq!(put(text), None, "{text}");
        }
        assert_eq!(
            super::put(Lexed::default().text(b"SELECT @@last_gtid", Dialect::default()), b"'"),
            None
        );
    }
}

//! `@@last_gtid` of clients that share backends: MariaDB reports it behind each write, so the value of the client's own
//! last write can stand in the text in its place.

use wire::lex::{Token, scope_and_name};
use wire::text::Text;

use crate::calls::{self, CallPlace};

/// A list of GTIDs is no longer than this.
const LEN_MAX: usize = 256;

/// Whether this is the variable, with its signs and its scope.
fn is_last_gtid(variable: &[u8]) -> bool {
    let written = variable.strip_prefix(b"@@");
    written.is_some_and(|it| scope_and_name(it).1.eq_ignore_ascii_case(b"last_gtid"))
}

/// A `SHOW VARIABLES` that shows the variable, as a query that shows this value of it. `None`: it does not show it, or is
/// no such text.
pub fn put_in_list(text: Text<'_>, gtid: &[u8]) -> Option<Vec<u8>> {
    let literal = literal(gtid)?;
    let mut tokens = text.tokens();
    tokens.next().filter(|token| token.is_word("SHOW"))?;
    let mut token = tokens.next()?;
    if token.is_word("SESSION") || token.is_word("LOCAL") {
        token = tokens.next()?;
    }
    if !token.is_word("VARIABLES") {
        return None;
    }
    let behind = tokens.span().1;
    let first = tokens.next();
    let begin = tokens.span().0;
    let (condition, mut last) = match first {
        None | Some(Token::Symbol(b';')) => (b"1"[..].to_vec(), first),
        Some(like) if like.is_word("LIKE") => {
            let pattern = tokens.next()?;
            if !matches!(pattern, Token::String(it) if fits(it, NAME)) {
                return None;
            }
            let end = tokens.span().1;
            let condition = [b"Variable_name ", text.bytes.get(begin..end)?].concat();
            (condition, tokens.next())
        }
        Some(of) if of.is_word("WHERE") => {
            let (begin, mut end) = (tokens.span().1, behind);
            let last = loop {
                match tokens.next() {
                    Some(Token::Symbol(b';')) => break Some(Token::Symbol(b';')),
                    None => break None,
                    Some(_) => end = tokens.span().1,
                }
            };
            (text.bytes.get(begin..end)?.to_vec(), last)
        }
        Some(_) => return None,
    };
    if last == Some(Token::Symbol(b';')) {
        last = tokens.next();
    }
    if last.is_some() || tokens.is_cut() {
        return None;
    }
    let list = format!(
        "SELECT Variable_name, Value FROM (SELECT LOWER(VARIABLE_NAME) AS Variable_name, \
         IF(VARIABLE_NAME = 'LAST_GTID', {literal}, VARIABLE_VALUE) AS Value \
         FROM information_schema.SESSION_VARIABLES) AS SESSION_VARIABLES WHERE "
    );
    Some([list.as_bytes(), &condition, ORDER].concat())
}

/// That of `SHOW`: by names as they are in the server, of which three have capitals.
const ORDER: &[u8] =
    b" ORDER BY BINARY REPLACE(REPLACE(REPLACE(Variable_name, 'wsrep_osu', 'wsrep_OSU'), \
                       'wsrep_sr', 'wsrep_SR'), 'slave_uk', 'slave_UK')";

const NAME: &[u8] = b"last_gtid";

/// Whether a pattern of `LIKE` fits a name in small letters. One with a backslash may do so.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    if pattern.contains(&b'\\') {
        return true;
    }
    // Behind the last `%`, and the letters that it stands for so far.
    let (mut at, mut of, mut any) = (0, 0, None);
    while of < name.len() {
        match pattern.get(at) {
            Some(b'%') => {
                any = Some((at + 1, of));
                at += 1;
            }
            Some(letter) if *letter == b'_' || letter.to_ascii_lowercase() == name[of] => {
                (at, of) = (at + 1, of + 1);
            }
            _ => match any {
                Some((behind, from)) => {
                    (at, of) = (behind, from + 1);
                    any = Some((behind, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|letter| *letter == b'%')
}

fn literal(gtid: &[u8]) -> Option<String> {
    let is_plain = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b',');
    if gtid.len() > LEN_MAX || !gtid.iter().all(is_plain) {
        return None;
    }
    Some(format!("'{}'", std::str::from_utf8(gtid).ok()?))
}

/// The text with the variable replaced by this value. `None`: it does not occur, or where it does, columns would be
/// named otherwise.
pub fn put(text: Text<'_>, gtid: &[u8]) -> Option<Vec<u8>> {
    let literal = literal(gtid)?;
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
    fn lists_of_variables_show_the_value() {
        let put = |text: &str| {
            let lexed = Lexed::default();
            let put = put_in_list(lexed.text(text.as_bytes(), Dialect::default()), b"0-1-42");
            put.map(|text| {
                let text = String::from_utf8(text).unwrap();
                let behind = text.split_once("AS SESSION_VARIABLES WHERE ").unwrap().1;
                behind.split_once(" ORDER BY BINARY ").unwrap().0.to_owned()
            })
        };
        for (text, condition) in [
            ("SHOW VARIABLES", "1"),
            ("show session variables;", "1"),
            ("SHOW LOCAL VARIABLES LIKE 'Last\\_gtid' -- it", "Variable_name LIKE 'Last\\_gtid'"),
            ("SHOW VARIABLES LIKE '%gt_d'", "Variable_name LIKE '%gt_d'"),
            ("SHOW VARIABLES WHERE Value > 3 OR 1;", " Value > 3 OR 1"),
        ] {
            assert_eq!(put(text).as_deref(), Some(condition), "{text}");
        }
        for text in [
            "SHOW GLOBAL VARIABLES",
            "SHOW VARIABLES LIKE 'gtid%'",
            "SHOW VARIABLES LIKE 'last_gtid_'",
            "SHOW VARIABLES; SELECT 1",
            "SHOW VARIABLES LIKE 'last_gtid' OR 1",
            "SHOW VARIABLES WHERE 1; SELECT 2",
            "SELECT @@last_gtid",
        ] {
            assert_eq!(put(text), None, "{text}");
        }
    }

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

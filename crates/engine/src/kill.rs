//! Connection ids as clients know them: `KILL` that names one, and `CONNECTION_ID()` that asks for one.
//!
//! A client's id is Flifo's own: it lies in a range that no server reaches, so a `KILL` of a number that Flifo gave
//! out and a `KILL` of a number that a server shows in its process list never mean each other.

use wire::lex::{Dialect, Lexer, Token};

use crate::calls;

/// The lowest id that Flifo gives to a client. Servers count their own from 1.
pub const FIRST_CLIENT_ID: u32 = 0x4000_0000;

/// What a `KILL` ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Connection,
    Query,
}

/// A `KILL` of one connection or its query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    pub scope: Scope,
    pub id: u32,
    /// It says `HARD` or `SOFT`, which only MariaDB knows.
    pub has_manner: bool,
    /// Where the number stands in the text.
    pub id_at: (usize, usize),
}

impl Kill {
    /// Reads a `KILL` statement that names a number. `None` for other forms (`KILL USER x`, `KILL QUERY ID 5`).
    pub fn read(text: &[u8]) -> Option<Self> {
        let mut lexer = Lexer::new(text, Dialect::default());
        if !lexer.next()?.is_word("KILL") {
            return None;
        }
        let mut token = lexer.next()?;
        let has_manner = token.is_word("HARD") || token.is_word("SOFT");
        if has_manner {
            token = lexer.next()?;
        }
        let is_query = token.is_word("QUERY");
        if is_query || token.is_word("CONNECTION") {
            token = lexer.next()?;
        }
        let Token::Number(digits) = token else { return None };
        let id = std::str::from_utf8(digits).ok()?.parse().ok()?;
        let id_at = lexer.span();
        let ends = match lexer.next() {
            None => true,
            Some(token) => token == Token::Symbol(b';') && lexer.next().is_none(),
        };
        let scope = if is_query { Scope::Query } else { Scope::Connection };
        ends.then_some(Self { scope, id, has_manner, id_at })
    }

    pub const fn names_client(&self) -> bool {
        self.id >= FIRST_CLIENT_ID
    }
}

/// The text with each `CONNECTION_ID()` replaced by this id; `None` if there is none.
///
/// Where the call is a whole item of a select list, its text stays the column's name.
pub fn replace_connection_id(text: &[u8], dialect: Dialect, id: u32) -> Option<Vec<u8>> {
    calls::replace(text, dialect, |name, _| {
        name.eq_ignore_ascii_case(b"CONNECTION_ID").then(|| id.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manner_of_a_kill_is_seen() {
        let has_manner = |text: &str| Kill::read(text.as_bytes()).map(|kill| kill.has_manner);
        assert_eq!(has_manner("KILL SOFT CONNECTION 5"), Some(true));
        assert_eq!(has_manner("KILL CONNECTION 5"), Some(false));
    }

    #[test]
    fn kills_are_read() {
        let read = |text: &str| Kill::read(text.as_bytes()).map(|kill| (kill.scope, kill.id));
        assert_eq!(read("KILL 5"), Some((Scope::Connection, 5)));
        assert_eq!(read("kill hard query 1073741824;"), Some((Scope::Query, 1 << 30)));
        assert_eq!(read("KILL /* x */ CONNECTION 7"), Some((Scope::Connection, 7)));
        for text in [
            "KILL QUERY HARD 5",
            "KILL QUERY QUERY 5",
            "KILL USER bob",
            "KILL QUERY ID 5",
            "KILL 5; SELECT 1",
            "KILL -1",
            "KILL",
            "X",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn the_number_can_be_replaced_in_place() {
        let text = b"KILL QUERY 1073741830 ";
        let kill = Kill::read(text).unwrap();
        assert!(kill.names_client());
        assert_eq!(&text[kill.id_at.0..kill.id_at.1], b"1073741830");
    }

    #[test]
    fn connection_id_becomes_the_clients_own() {
        let replace = |text: &str| {
            replace_connection_id(text.as_bytes(), Dialect::default(), 9)
                .map(|text| String::from_utf8(text).unwrap())
        };
        assert_eq!(
            replace("SELECT CONNECTION_ID()").as_deref(),
            Some("SELECT 9 AS `CONNECTION_ID()`")
        );
        assert_eq!(
            replace("select connection_id( ) , 'CONNECTION_ID()' from t").as_deref(),
            Some("select 9 AS `connection_id( )` , 'CONNECTION_ID()' from t")
        );
        assert_eq!(
            replace("SELECT 1 FROM t WHERE id = CONNECTION_ID() AND x").as_deref(),
            Some("SELECT 1 FROM t WHERE id = 9 AND x")
        );
        assert_eq!(
            replace("SELECT CONNECTION_ID() + 1, CONNECTION_ID() AS me").as_deref(),
            Some("SELECT 9 + 1 AS `CONNECTION_ID() + 1`, 9 AS me")
        );
        assert_eq!(
            replace("SELECT CONNECTION_ID(/*`*/)").as_deref(),
            Some("SELECT 9 AS `CONNECTION_ID(/*``*/)`")
        );
        assert_eq!(replace("SELECT 'CONNECTION_ID()'"), None);
        assert_eq!(replace("SELECT connection_id FROM t"), None);
    }
}

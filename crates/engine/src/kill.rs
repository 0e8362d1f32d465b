//! Connection ids as clients know them: `KILL` that names one. For `CONNECTION_ID()`, see [`crate::own_id`].
//!
//! A client's id is Flifo's own: it lies in a range that no server reaches, so a `KILL` of a number that Flifo gave
//! out and a `KILL` of a number that a server shows in its process list never mean each other.

use serde::{Deserialize, Serialize};
use wire::lex::Token;
use wire::statement::Value;
use wire::text::Text;

/// The lowest id that Flifo gives to a client. Servers count their own from 1.
pub const FIRST_CLIENT_ID: u32 = 0x4000_0000;

/// What a `KILL` ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    Connection,
    Query,
}

/// Another Flifo that may have a client while sessions are handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Neighbour {
    /// It hands over to this one.
    Before,
    /// It takes over from this one.
    After,
}

/// Where the client is looked for that an order to kill names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Here,
    At(Neighbour),
    /// A client that another process had refused, or had just sent, is here by now.
    HereAtLast,
}

impl Place {
    /// The place to look at after this one, for an order of a client of this process (`None`) or of a neighbour's. An
    /// order never goes back to where it came from, which looks at itself once more.
    pub const fn next(self, from: Option<Neighbour>) -> Option<Self> {
        match (self, from) {
            (Self::Here, None | Some(Neighbour::Before)) => Some(Self::At(Neighbour::After)),
            (Self::Here, Some(Neighbour::After)) | (Self::At(Neighbour::After), None) => {
                Some(Self::At(Neighbour::Before))
            }
            (Self::At(Neighbour::Before), None) => Some(Self::HereAtLast),
            (Self::At(_), Some(_)) | (Self::HereAtLast, _) => None,
        }
    }
}

/// A `KILL` of one connection or its query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    pub scope: Scope,
    pub id: u32,
    /// It says `HARD` or `SOFT`, which only MariaDB knows.
    pub has_manner: bool,
    /// Where the number, or a sum of numbers, stands in the text.
    pub id_at: (usize, usize),
}

impl Kill {
    /// Reads a `KILL` statement that names a number, as its session reads texts. `None` for other forms (`KILL USER x`,
    /// `KILL QUERY ID 5`).
    pub fn read(text: Text<'_>) -> Option<Self> {
        if !text.may_begin_with(&["KILL"]) {
            return None;
        }
        let mut tokens = text.tokens();
        if !tokens.next()?.is_word("KILL") {
            return None;
        }
        let mut token = tokens.next()?;
        let has_manner = token.is_word("HARD") || token.is_word("SOFT");
        if has_manner {
            token = tokens.next()?;
        }
        let is_query = token.is_word("QUERY");
        if is_query || token.is_word("CONNECTION") {
            token = tokens.next()?;
        }
        let mut id = i64::from(number(token)?);
        let (start, mut end) = tokens.span();
        let ends = loop {
            match tokens.next() {
                None => break true,
                Some(Token::Symbol(b';')) => break tokens.next().is_none(),
                Some(Token::Symbol(sign @ (b'+' | b'-'))) => {
                    let more = i64::from(number(tokens.next()?)?);
                    id = id.checked_add(if sign == b'+' { more } else { -more })?;
                }
                Some(_) => break false,
            }
            (_, end) = tokens.span();
        };
        let (id, id_at) = (u32::try_from(id).ok()?, (start, end));
        let scope = if is_query { Scope::Query } else { Scope::Connection };
        ends.then_some(Self { scope, id, has_manner, id_at })
    }

    pub const fn names_client(&self) -> bool {
        self.id >= FIRST_CLIENT_ID
    }
}

/// The text of a `KILL` that was prepared, with its only parameter as a number in its place. `None`: it is no such text,
/// or its parameter does not name a client of Flifo's.
pub fn with_value(text: Text<'_>, value: &Value<'_>) -> Option<Vec<u8>> {
    let digits = client_id(value)?.to_string();
    let mut tokens = text.tokens();
    let mut place = None;
    while let Some(token) = tokens.next() {
        if token == Token::Symbol(b'?') && place.replace(tokens.span()).is_some() {
            return None;
        }
    }
    let (start, end) = place?;
    Some([&text.bytes[..start], digits.as_bytes(), &text.bytes[end..]].concat())
}

/// The id of a client that a parameter names: as a number, or in digits, as drivers send it that know no numbers.
fn client_id(value: &Value<'_>) -> Option<u32> {
    let id = match *value {
        Value::Signed(id) => u32::try_from(id).ok()?,
        Value::Unsigned(id) => u32::try_from(id).ok()?,
        Value::Text(digits) => std::str::from_utf8(digits).ok()?.trim().parse().ok()?,
        // Drivers whose numbers are all of this type send an id so (Node.js).
        Value::Double(id) if id.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&id) => {
            format!("{id:.0}").parse().ok()?
        }
        _ => return None,
    };
    (id >= FIRST_CLIENT_ID).then_some(id)
}

fn number(token: Token<'_>) -> Option<u32> {
    let (Token::Number(digits) | Token::String(digits)) = token else { return None };
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::lex::Dialect;
    use wire::text::Lexed;

    #[test]
    fn the_manner_of_a_kill_is_seen() {
        let has_manner = |text: &str| {
            Kill::read(Lexed::default().text(text.as_bytes(), Dialect::default()))
                .map(|kill| kill.has_manner)
        };
        assert_eq!(has_manner("KILL SOFT CONNECTION 5"), Some(true));
        assert_eq!(has_manner("KILL CONNECTION 5"), Some(false));
    }

    #[test]
    fn kills_are_read() {
        let read = |text: &str| {
            Kill::read(Lexed::default().text(text.as_bytes(), Dialect::default()))
                .map(|kill| (kill.scope, kill.id))
        };
        assert_eq!(read("KILL 5"), Some((Scope::Connection, 5)));
        assert_eq!(read("kill hard query 1073741824;"), Some((Scope::Query, 1 << 30)));
        assert_eq!(read("KILL /* x */ CONNECTION 7"), Some((Scope::Connection, 7)));
        assert_eq!(read("KILL 1073741830 + 3 - 1;"), Some((Scope::Connection, 1_073_741_832)));
        for text in [
            "KILL QUERY HARD 5",
            "KILL QUERY QUERY 5",
            "KILL USER bob",
            "KILL QUERY ID 5",
            "KILL 5; SELECT 1",
            "KILL -1",
            "KILL 1-2",
            "KILL 1+",
            "KILL 1+x",
            "KILL 4294967295+1",
            "KILL",
            "X",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn a_parameter_is_put_as_a_number_if_it_names_a_client() {
        let lexed = Lexed::default();
        let put = |text: &str, value: Value<'_>| {
            let lexed = Lexed::default();
            let put = with_value(lexed.text(text.as_bytes(), Dialect::default()), &value);
            put.map(|it| String::from_utf8(it).unwrap())
        };
        let id = i64::from(FIRST_CLIENT_ID) + 6;
        let values = [
            Value::Signed(id),
            Value::Unsigned(id.cast_unsigned()),
            Value::Text(b"1073741830"),
            Value::Double(1_073_741_830.0),
        ];
        for value in values {
            assert_eq!(put("KILL QUERY ? -- ?", value).unwrap(), "KILL QUERY 1073741830 -- ?");
        }
        let text = put("kill hard ?;", values[0]).unwrap();
        assert_eq!(
            Kill::read(lexed.text(text.as_bytes(), Dialect::default())).unwrap().id,
            1073741830
        );
        for other in [
            Value::Signed(5),
            Value::Signed(-1),
            Value::Signed(1 << 33),
            Value::Text(b"x"),
            Value::Double(1_073_741_830.5),
            Value::Double(f64::NAN),
            Value::Null,
            Value::Unknown,
        ] {
            assert_eq!(put("KILL ?", other), None, "{other:?}");
        }
        assert_eq!(put("KILL ? + ?", values[0]), None);
        assert_eq!(put("KILL '?'", values[0]), None);
    }

    #[test]
    fn a_victim_is_looked_for_where_it_can_be_and_not_where_the_order_came_from() {
        let places = |from| {
            std::iter::successors(Some(Place::Here), |place| place.next(from)).collect::<Vec<_>>()
        };
        let (before, after) = (Place::At(Neighbour::Before), Place::At(Neighbour::After));
        assert_eq!(places(None), [Place::Here, after, before, Place::HereAtLast]);
        assert_eq!(places(Some(Neighbour::Before)), [Place::Here, after]);
        assert_eq!(places(Some(Neighbour::After)), [Place::Here, before]);
    }

    #[test]
    fn the_number_can_be_replaced_in_place() {
        let text = b"KILL QUERY 1073741830 ";
        let kill = Kill::read(Lexed::default().text(text, Dialect::default())).unwrap();
        assert!(kill.names_client());
        assert_eq!(&text[kill.id_at.0..kill.id_at.1], b"1073741830");
        let text = b"KILL 1073741830+ 1 ;";
        let (start, end) =
            Kill::read(Lexed::default().text(text, Dialect::default())).unwrap().id_at;
        assert_eq!(&text[start..end], b"1073741830+ 1");
    }
}

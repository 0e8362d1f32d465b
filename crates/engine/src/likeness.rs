//! What tells a statement from others of its form: the values in it.
//!
//! Two statements of a form that name the same row have a value in common, and mostly all of them. So where statements
//! of a form wait for a lock, their values tell which others would wait with them ([`parked`](crate::parked)).
//!
//! Owns the reading of values, from a text or from the parameters of a prepared statement, and their comparison. A
//! value is the same however it is spelled: with or without quotes, with zeros in front, in other white space, beside
//! another comment. Only hashes are kept, made with a secret, so no client can choose values that seem to be another's.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::OnceLock;

use wire::lex::Token;
use wire::statement::Value;
use wire::text::Text;

/// Hashes of a statement's values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Likeness {
    whole: Option<u64>,
    values: Vec<u64>,
}

/// So many values are told one by one; those behind them count for the whole only.
const VALUES_MAX: usize = 16;

impl Likeness {
    /// That of a text that is executed in this schema.
    pub fn of_text(text: Text<'_>, schema: Option<&[u8]>) -> Self {
        let mut reader = Reader::new(schema);
        for token in text.tokens() {
            match token {
                Token::String(value) | Token::Number(value) => reader.add(value),
                // What it stands for is not in the text.
                Token::UserVariable(_) | Token::Unfinished => reader.is_told = false,
                Token::Symbol(b'-') => reader.whole.write_u8(b'-'),
                _ => {}
            }
        }
        reader.end()
    }

    /// That of a prepared statement that is executed with these values. `text` is what was prepared.
    pub fn of_values<'a, E>(
        text: &[u8],
        schema: Option<&[u8]>,
        values: impl Iterator<Item = Result<Value<'a>, E>>,
    ) -> Self {
        let mut reader = Reader::new(schema);
        text.hash(&mut reader.whole);
        for value in values {
            match value {
                Ok(Value::Null) => reader.add(b"NULL"),
                Ok(Value::Signed(number)) => reader.add(number.to_string().as_bytes()),
                Ok(Value::Unsigned(number)) => reader.add(number.to_string().as_bytes()),
                Ok(Value::Float(number)) => reader.add(number.to_string().as_bytes()),
                Ok(Value::Double(number)) => reader.add(number.to_string().as_bytes()),
                Ok(Value::Text(text)) => reader.add(text),
                Ok(Value::Time(packed)) => reader.add(packed),
                // What follows cannot be told apart.
                Ok(Value::Unknown) | Err(_) => {
                    reader.is_told = false;
                    break;
                }
            }
        }
        reader.end()
    }

    /// That of anything, by the hashes of its values: all together, and one by one.
    pub fn of_hashes(whole: Option<u64>, values: &[u64]) -> Self {
        Self { whole, values: values.iter().copied().take(VALUES_MAX).collect() }
    }

    /// All that tells it apart, as one number, if that is known.
    pub const fn whole(&self) -> Option<u64> {
        self.whole
    }

    /// Its values, each with its place.
    pub fn values(&self) -> &[u64] {
        &self.values
    }
}

struct Reader {
    schema: u64,
    whole: <RandomState as BuildHasher>::Hasher,
    values: Vec<u64>,
    is_told: bool,
}

impl Reader {
    fn new(schema: Option<&[u8]>) -> Self {
        let schema = secret().hash_one(schema);
        let mut whole = secret().build_hasher();
        whole.write_u64(schema);
        Self { schema, whole, values: Vec::new(), is_told: true }
    }

    fn add(&mut self, value: &[u8]) {
        let value = plain(value);
        value.hash(&mut self.whole);
        let at = self.values.len();
        if at < VALUES_MAX {
            self.values.push(secret().hash_one((self.schema, at, value)));
        }
    }

    fn end(self) -> Likeness {
        let whole = self.is_told.then(|| self.whole.finish());
        Likeness { whole, values: self.values }
    }
}

/// A number without the zeros in front, which say nothing.
fn plain(value: &[u8]) -> &[u8] {
    let zeros = value.iter().take_while(|byte| **byte == b'0').count();
    match value.get(zeros) {
        Some(byte) if byte.is_ascii_digit() => value.get(zeros..).unwrap_or(value),
        None if zeros > 0 => b"0",
        _ => value,
    }
}

fn secret() -> &'static RandomState {
    static SECRET: OnceLock<RandomState> = OnceLock::new();
    SECRET.get_or_init(RandomState::new)
}

#[cfg(test)]
mod tests {
    use wire::bytes::Malformed;
    use wire::lex::Dialect;
    use wire::text::Lexed;

    use super::*;

    fn of(text: &str) -> Likeness {
        Likeness::of_text(Lexed::default().text(text.as_bytes(), Dialect::default()), Some(b"shop"))
    }

    #[test]
    fn spelling_makes_no_other_values() {
        let plain = of("UPDATE acct SET bal = bal + 1 WHERE id = 7");
        for same in [
            "update acct  set bal = bal+1 where id=7",
            "UPDATE acct SET bal = bal + 1 WHERE id = '7' /* trace 12 */",
            "UPDATE acct SET bal = bal + 1 WHERE id = 007 -- now",
            "UPDATE acct SET bal = bal + \"1\" WHERE id = 7",
        ] {
            assert_eq!(of(same), plain, "{same}");
        }
        assert!(plain.whole().is_some() && plain.values().len() == 2);
    }

    #[test]
    fn other_values_are_others_and_have_in_common_what_is_equal() {
        let one = of("UPDATE acct SET bal = bal + 1 WHERE id = 7");
        let other = of("UPDATE acct SET bal = bal + 2 WHERE id = 7");
        assert_ne!(one.whole(), other.whole());
        assert!(one.values()[0] != other.values()[0] && one.values()[1] == other.values()[1]);
        // A value in another place is another one, and so is one in another schema.
        let turned = of("UPDATE acct SET bal = bal + 7 WHERE id = 1");
        assert!(turned.values().iter().all(|value| !one.values().contains(value)));
        let lexed = Lexed::default();
        let text = lexed.text(b"UPDATE acct SET bal = bal + 1 WHERE id = 7", Dialect::default());
        assert_ne!(Likeness::of_text(text, None), one);
        for pair in [("id = 7", "id = -7"), ("id = 0", "id = ''"), ("id = 10", "id = 1")] {
            assert_ne!(of(pair.0).whole(), of(pair.1).whole(), "{pair:?}");
        }
        assert_eq!(of("id = 0"), of("id = 00"));
    }

    #[test]
    fn what_is_not_in_the_text_is_not_known() {
        let one = of("UPDATE acct SET bal = 1 WHERE id = @id");
        assert!(one.whole().is_none() && one.values().len() == 1);
        assert_eq!(of("UPDATE acct SET bal = 'x").whole(), None);
        let many = of(&format!("SELECT 1 IN ({}1)", "2, ".repeat(100)));
        assert_eq!(many.values().len(), VALUES_MAX);
        assert_ne!(many.whole(), of(&format!("SELECT 1 IN ({}2)", "2, ".repeat(100))).whole());
    }

    #[test]
    fn parameters_are_values() {
        let with = |values: &[Value<'_>]| {
            let values = values.iter().map(|value| Ok::<_, Malformed>(*value));
            Likeness::of_values(b"UPDATE acct SET bal = ? WHERE id = ?", None, values)
        };
        let one = with(&[Value::Signed(5), Value::Unsigned(7)]);
        assert_eq!(one, with(&[Value::Text(b"5"), Value::Signed(7)]));
        let other = with(&[Value::Double(1.5), Value::Signed(7)]);
        assert!(one.whole() != other.whole() && one.values()[1] == other.values()[1]);
        assert_eq!(with(&[Value::Null, Value::Unknown]).whole(), None);
        assert_ne!(with(&[Value::Null]), with(&[Value::Time(b"")]));
    }
}

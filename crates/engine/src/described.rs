//! How parts of a session are written down for another process of Flifo, and read there.
//!
//! The form is that of serde, with names: a reader refuses names that it does not know. Bytes become text, each byte the
//! character of its number, so that names and statements can be read by people.

/// Bytes: text in the place of a list of numbers.
pub mod bytes {
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(crate) fn text(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| char::from(*byte)).collect()
    }

    pub(crate) fn from_text(text: &str) -> Option<Vec<u8>> {
        text.chars().map(|letter| u8::try_from(letter).ok()).collect()
    }

    pub fn serialize<T: AsRef<[u8]>, S: Serializer>(bytes: &T, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&text(bytes.as_ref()))
    }

    pub fn deserialize<'de, T: From<Vec<u8>>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<T, D::Error> {
        let text = String::deserialize(from)?;
        let bytes = from_text(&text).ok_or_else(|| de::Error::custom("no bytes"))?;
        Ok(bytes.into())
    }
}

/// What need not be written.
pub const fn is_zero(number: &u16) -> bool {
    *number == 0
}

/// How texts are read: a number in the place of names.
pub mod dialect {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use wire::lex::Dialect;

    pub fn serialize<S: Serializer>(dialect: &Dialect, to: S) -> Result<S::Ok, S::Error> {
        dialect.bits().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Dialect, D::Error> {
        u16::deserialize(from).map(Dialect::from_bits)
    }

    pub fn is_usual(dialect: &Dialect) -> bool {
        *dialect == Dialect::default()
    }
}

/// Bytes, if there are any.
pub mod some_bytes {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    use super::bytes;

    pub fn serialize<T: AsRef<[u8]>, S: Serializer>(
        some: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        some.as_ref().map(|it| bytes::text(it.as_ref())).serialize(to)
    }

    pub fn deserialize<'de, T: From<Vec<u8>>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        let read = |text: String| {
            bytes::from_text(&text).map(T::from).ok_or_else(|| de::Error::custom("no bytes"))
        };
        text.map(read).transpose()
    }
}

/// A table whose keys are bytes: a list of pairs.
pub(crate) mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    use super::bytes;

    pub(crate) fn serialize<V: Serialize, S: Serializer>(
        table: &BTreeMap<Box<[u8]>, V>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(table.iter().map(|(key, value)| (bytes::text(key), value)))
    }

    pub(crate) fn deserialize<'de, V: Deserialize<'de>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<BTreeMap<Box<[u8]>, V>, D::Error> {
        let pairs = Vec::<(String, V)>::deserialize(from)?;
        let read = |(key, value): (String, V)| {
            let key = bytes::from_text(&key).ok_or_else(|| de::Error::custom("no bytes"))?;
            Ok((key.into(), value))
        };
        pairs.into_iter().map(read).collect()
    }
}

/// The status flags of a session: their number.
pub(crate) mod status {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use wire::response::Status;

    pub(crate) fn serialize<S: Serializer>(status: &Status, to: S) -> Result<S::Ok, S::Error> {
        status.0.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Status, D::Error> {
        u16::deserialize(from).map(Status)
    }
}

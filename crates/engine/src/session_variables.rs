//! Session variables that a backend can be told: which ones, their values, and the statement that makes one session's
//! of another's.
//!
//! Only a value that a server has reported is ever kept, and only if it is plain: replaying it then yields it again. A
//! variable that is not in [`KNOWN`] is none of these; a client that sets it keeps its backend.
//!
//! Invariants: two equal [`SessionVariables`] of one [`Interned`] are the same allocation, so that comparing costs
//! nothing; `character_set_connection` is never kept, as `collation_connection` implies it.

mod collations;
mod interned;

use std::hash::{Hash, Hasher};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::described::bytes;
use crate::pin::Pin;

use collations::Collations;
pub use collations::{Becomes, Collates};
pub use interned::Interned;

/// How a value is written in a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Number,
    /// A character set; none at all is reported as nothing and written as `NULL`.
    CharacterSet,
}

struct Variable {
    /// Its names, in the order in which they are looked for.
    names: &'static [&'static str],
    form: Form,
}

const fn variable(names: &'static [&'static str], form: Form) -> Variable {
    Variable { names, form }
}

/// Variables that mean the same in every session that has them at this value, and nothing but this session.
///
/// Not here: what counts or marks (`last_insert_id`, `timestamp`, `rand_seed1`), what needs a privilege, what a setup
/// itself could fail by (`max_statement_time`), what servers do not report as they take it.
const KNOWN: &[Variable] = &[
    variable(&["autocommit"], Form::Text),
    variable(&["character_set_client"], Form::CharacterSet),
    variable(&["character_set_results"], Form::CharacterSet),
    variable(&["collation_connection"], Form::Text),
    variable(&["sql_mode"], Form::Text),
    variable(&["time_zone"], Form::Text),
    variable(&["transaction_isolation", "tx_isolation"], Form::Text),
    variable(&["transaction_read_only", "tx_read_only"], Form::Text),
    variable(&["foreign_key_checks"], Form::Text),
    variable(&["unique_checks"], Form::Text),
    variable(&["wait_timeout"], Form::Number),
    variable(&["interactive_timeout"], Form::Number),
    variable(&["net_read_timeout"], Form::Number),
    variable(&["net_write_timeout"], Form::Number),
    variable(&["sql_auto_is_null"], Form::Text),
    variable(&["sql_safe_updates"], Form::Text),
    variable(&["sql_select_limit"], Form::Number),
    variable(&["group_concat_max_len"], Form::Number),
    variable(&["max_execution_time"], Form::Number),
    variable(&["lc_time_names"], Form::Text),
    variable(&["lock_wait_timeout"], Form::Number),
    variable(&["innodb_lock_wait_timeout"], Form::Number),
    variable(&["max_join_size"], Form::Number),
    variable(&["sql_big_selects"], Form::Text),
    variable(&["default_storage_engine"], Form::Text),
    variable(&["optimizer_switch"], Form::Text),
    variable(&["sql_notes"], Form::Text),
    variable(&["sql_warnings"], Form::Text),
    variable(&["div_precision_increment"], Form::Number),
    variable(&["default_week_format"], Form::Number),
    variable(&["completion_type"], Form::Text),
    variable(&["sort_buffer_size"], Form::Number),
    variable(&["join_buffer_size"], Form::Number),
    variable(&["tmp_table_size"], Form::Number),
    variable(&["max_heap_table_size"], Form::Number),
    variable(&["auto_increment_increment"], Form::Number),
    variable(&["auto_increment_offset"], Form::Number),
    variable(&["sql_quote_show_create"], Form::Text),
    variable(&["innodb_strict_mode"], Form::Text),
    variable(&["long_query_time"], Form::Number),
    variable(&["max_error_count"], Form::Number),
    variable(&["low_priority_updates"], Form::Text),
    variable(&["query_cache_type"], Form::Text),
];

const CLIENT: usize = 1;
const RESULTS: usize = 2;
const COLLATION: usize = 3;

/// One of the known variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionVariable(u8);

impl SessionVariable {
    pub const COLLATION: Self = Self(COLLATION as u8);

    /// The variable of this name, in any case of its letters.
    pub fn named(name: &[u8]) -> Option<Self> {
        let is_it = |known: &&'static str| known.as_bytes().eq_ignore_ascii_case(name);
        let at = KNOWN.iter().position(|variable| variable.names.iter().any(is_it))?;
        u8::try_from(at).ok().map(Self)
    }
}

/// Several of the known variables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Several(u64);

impl Several {
    pub const fn add(&mut self, setting: SessionVariable) {
        self.0 |= 1 << setting.0;
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    const fn has(self, at: usize) -> bool {
        self.0 & 1 << at != 0
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Value {
    /// As this server calls the variable.
    name: &'static str,
    value: Box<[u8]>,
}

/// The values of all known variables in one session. Those that the server does not have are missing.
#[derive(Clone, Debug, Default)]
pub struct SessionVariables {
    values: Vec<Option<Value>>,
    collations: Collations,
    /// Stands for those values that tell how the server reads a statement. Follows from the values.
    mode: u32,
}

impl PartialEq for SessionVariables {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values && self.collations == other.collations
    }
}

impl Eq for SessionVariables {}

impl Hash for SessionVariables {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.values.hash(state);
        self.collations.hash(state);
    }
}

/// Settings as they are written down for another process.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename = "SessionVariables")]
struct Written {
    values: Vec<(String, String)>,
    collations: Collations,
}

impl Serialize for SessionVariables {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let write = |value: &Value| (value.name.to_owned(), bytes::text(&value.value));
        let values = self.values.iter().flatten().map(write).collect();
        Written { values, collations: self.collations.clone() }.serialize(to)
    }
}

impl<'de> Deserialize<'de> for SessionVariables {
    /// A variable that this Flifo does not know, or a value that it would not keep, is an error.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Written { values: written, collations } = Written::deserialize(from)?;
        let unknown =
            |name: &str| de::Error::custom(format!("{name} is not known with this value"));
        let mut values = Vec::new();
        for (name, value) in &written {
            values.resize(KNOWN.len(), None);
            let at = SessionVariable::named(name.as_bytes()).ok_or_else(|| unknown(name))?;
            let variable = &KNOWN[usize::from(at.0)];
            let own = variable.names.iter().find(|it| *it == name).ok_or_else(|| unknown(name))?;
            let value = bytes::from_text(value).filter(|value| is_plain(variable.form, value));
            let value = value.ok_or_else(|| unknown(name))?.into();
            values[usize::from(at.0)] = Some(Value { name: own, value });
        }
        Ok(Self { values, collations, mode: 0 })
    }
}

/// What a statement is read by when it is prepared. A server that may only read refuses already to prepare a write. MySQL
/// works out then, from 8.0.22 on, what types results have and which constants stand for what a function has been left:
/// so those that decide that are among them.
const MODE: [&str; 9] = [
    "sql_mode",
    "character_set_client",
    "collation_connection",
    "transaction_read_only",
    "time_zone",
    "group_concat_max_len",
    "lc_time_names",
    "div_precision_increment",
    "default_week_format",
];

/// Longer values are not kept.
const VALUE_MAX: usize = 2048;

/// A session that the server would end sooner than this is not shared: an idle backend must not end because of it.
const SHORTEST_WAIT: u64 = 600;

impl SessionVariables {
    /// The statement that asks a new session for all of them, as rows of name and value.
    pub fn question() -> String {
        let names: Vec<_> = KNOWN.iter().flat_map(|variable| variable.names).copied().collect();
        format!("SHOW SESSION VARIABLES WHERE Variable_name IN ('{}')", names.join("','"))
    }

    /// Reads the answer to [`Self::question`]. A variable with a value that cannot be replayed is left out.
    pub fn from_rows<'a>(rows: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Self {
        let mut settings = Self { values: vec![None; KNOWN.len()], ..Self::default() };
        for (name, value) in rows {
            let Some(SessionVariable(at)) = SessionVariable::named(name) else { continue };
            let variable = &KNOWN[usize::from(at)];
            let rank = |it: &str| variable.names.iter().position(|name| *name == it);
            let name = variable.names.iter().find(|it| it.as_bytes().eq_ignore_ascii_case(name));
            let slot = &mut settings.values[usize::from(at)];
            let is_better = slot
                .as_ref()
                .is_none_or(|old| name.is_some_and(|name| rank(name) < rank(old.name)));
            if let Some(name) = name.filter(|_| is_better && is_plain(variable.form, value)) {
                *slot = Some(Value { name, value: value.into() });
            }
        }
        settings.collations =
            Collations::at_first(settings.get("collation_connection").unwrap_or_default());
        settings
    }

    /// The statement that asks a session for those that these have, as one row in their order. Unlike a `SHOW` it may
    /// run while an XA transaction is prepared.
    pub fn question_of_values(&self) -> String {
        let names: Vec<_> = self.values.iter().flatten().map(|value| value.name).collect();
        format!("SELECT @@session.{}", names.join(",@@session."))
    }

    /// Reads the answer to [`Self::question_of_values`]: switches are numbers there, and no character set is `NULL`.
    pub fn from_row(&self, row: &[Option<Vec<u8>>]) -> Self {
        let pairs = self.values.iter().flatten().zip(row).map(|(here, there)| {
            let is_switch = matches!(&*here.value, b"ON" | b"OFF");
            let value = match there.as_deref().unwrap_or_default() {
                b"1" if is_switch => &b"ON"[..],
                b"0" if is_switch => &b"OFF"[..],
                value => value,
            };
            (here.name.as_bytes(), value)
        });
        Self::from_rows(pairs)
    }

    /// The settings after the server has reported this change. `None`: nothing has changed. An error is why the
    /// change cannot be told to another backend; [`forbids`] knows what should not be.
    pub fn after(&self, name: &[u8], value: &[u8]) -> Result<Option<Self>, Pin> {
        // The second is a result, not a setting: a server with a binary log reports it behind each write.
        if name == b"character_set_connection" || name == b"last_gtid" {
            return Ok(None);
        }
        let Some(SessionVariable(at)) = SessionVariable::named(name) else {
            return Err(Pin::SessionVariable);
        };
        let variable = &KNOWN[usize::from(at)];
        let Some(Some(old)) = self.values.get(usize::from(at)) else {
            return Err(Pin::SessionVariable);
        };
        if *old.value == *value {
            return Ok(None);
        }
        if !is_plain(variable.form, value) {
            return Err(Pin::SessionVariable);
        }
        let mut after = self.clone();
        after.values[usize::from(at)] = Some(Value { name: old.name, value: value.into() });
        after.collations.leave(usize::from(at));
        Ok(Some(after))
    }

    /// These, as far as they do not tell how the server reads a statement: for that it is `other`.
    #[must_use]
    pub fn in_mode_of(&self, other: &Self) -> Self {
        let mut mixed = Self { collations: other.collations.clone(), ..self.clone() };
        // Results have the names of what clients send.
        for name in MODE.into_iter().chain(["character_set_results"]) {
            let at =
                SessionVariable::named(name.as_bytes()).map(|SessionVariable(at)| usize::from(at));
            if let Some(at) = at
                && let (Some(value), Some(theirs)) =
                    (mixed.values.get_mut(at), other.values.get(at))
            {
                value.clone_from(theirs);
            }
        }
        mixed
    }

    /// The statement that makes a session with `other` settings one with these.
    pub fn setup(&self, other: &Self) -> String {
        let mut text = String::from("SET ");
        let names = self.names(other);
        if let Some(names) = &names {
            text.push_str(names);
        }
        for (at, (wanted, there)) in self.values.iter().zip(&other.values).enumerate() {
            let is_told = match at {
                CLIENT | RESULTS => self.tells_set(at, other, names.is_some()),
                // Behind names, with which it is not reported.
                COLLATION => names.is_some() || wanted != there,
                _ => wanted != there,
            };
            let Some(wanted) = wanted.as_ref().filter(|_| is_told) else { continue };
            separate(&mut text);
            text.push_str(wanted.name);
            text.push('=');
            // Plain values are ASCII.
            let value = String::from_utf8_lossy(&wanted.value);
            match KNOWN[at].form {
                Form::Number => text.push_str(&value),
                Form::CharacterSet if value.is_empty() => text.push_str("NULL"),
                Form::Text | Form::CharacterSet => {
                    text.push('\'');
                    text.push_str(&value);
                    text.push('\'');
                }
            }
        }
        text
    }

    /// The statement that changes nothing, and has the server report what these variables are.
    /// `None`: it does not have them all.
    pub fn probe(&self, settings: Several) -> Option<String> {
        let mut text = String::from("SET ");
        for (at, value) in self.values.iter().enumerate().filter(|(at, _)| settings.has(*at)) {
            let Some(value) = value else { return None };
            separate(&mut text);
            text.push_str(value.name);
            text.push_str("=@@session.");
            text.push_str(KNOWN[at].names.iter().find(|name| **name == value.name)?);
        }
        Some(text)
    }

    /// The statement that has the server report what it has of those that may be set unseen and tell how it reads a
    /// statement. It takes nothing from character sets, which have their own collation once they are set.
    pub fn ask_mode(&self) -> Option<String> {
        let mut asked = Several::default();
        for name in ["sql_mode", "collation_connection"] {
            asked.add(SessionVariable::named(name.as_bytes())?);
        }
        self.probe(asked)
    }

    /// All variables that the server has.
    pub fn all(&self) -> Several {
        let mut all = Several::default();
        for at in 0..self.values.len() {
            if let (Some(Some(_)), Ok(at)) = (self.values.get(at), u8::try_from(at)) {
                all.add(SessionVariable(at));
            }
        }
        all
    }

    /// Those that are not changed by being set to what they are: a character set would have its own collation then.
    pub fn unchanged(&self) -> Several {
        Several(self.all().0 & !(1 << CLIENT | 1 << RESULTS))
    }

    /// Those that are missing are as in `other`.
    #[must_use]
    pub fn or(mut self, other: &Self) -> Self {
        if self.set(CLIENT).is_none() && self.set(RESULTS).is_none() {
            self.collations = other.collations.clone();
        }
        for (value, other) in self.values.iter_mut().zip(&other.values) {
            if value.is_none() {
                value.clone_from(other);
            }
        }
        self
    }

    /// Settings with the same mode read a statement alike.
    pub const fn mode(&self) -> u32 {
        self.mode
    }

    /// Whether a variable has this value.
    pub fn has(&self, name: &[u8], value: &[u8]) -> bool {
        std::str::from_utf8(name).is_ok_and(|name| self.get(name) == Some(value))
    }

    /// The value of a variable, if the server has it.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let SessionVariable(at) = SessionVariable::named(name.as_bytes())?;
        self.values.get(usize::from(at))?.as_ref().map(|value| &*value.value)
    }
}

fn separate(text: &mut String) {
    if !text.ends_with(' ') {
        text.push(',');
    }
}

/// Values that make a session unlike others in ways that a statement's text does not show: why its client keeps it.
pub fn forbids(name: &[u8], value: &[u8]) -> Option<Pin> {
    match name {
        // The letters of these may hide quotes and backslashes.
        b"character_set_client"
            if matches!(value, b"big5" | b"sjis" | b"gbk" | b"cp932" | b"gb18030") =>
        {
            Some(Pin::Charset)
        }
        // A comparison with NULL then reads the last insert id. COMMIT then begins or ends more than it says.
        b"completion_type" if value != b"NO_CHAIN" => Some(Pin::State),
        b"sql_auto_is_null" if value != b"OFF" => Some(Pin::InsertId),
        b"wait_timeout" | b"interactive_timeout" => {
            let seconds = std::str::from_utf8(value).ok().and_then(|text| text.parse::<u64>().ok());
            seconds.is_none_or(|seconds| seconds < SHORTEST_WAIT).then_some(Pin::SessionVariable)
        }
        _ => None,
    }
}

/// Whether a value can be written in a statement in any character set, and means itself there.
fn is_plain(form: Form, value: &[u8]) -> bool {
    let is_safe = |byte: &u8| byte.is_ascii_alphanumeric() || b"_,.:+/=-".contains(byte);
    let is_digit = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    value.len() <= VALUE_MAX
        && match form {
            Form::Number => !value.is_empty() && value.iter().all(is_digit),
            Form::Text | Form::CharacterSet => value.iter().all(is_safe),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(rows: &[(&str, &str)]) -> SessionVariables {
        SessionVariables::from_rows(
            rows.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())),
        )
    }

    fn some() -> SessionVariables {
        settings(&[
            ("autocommit", "ON"),
            ("character_set_results", "utf8mb4"),
            ("character_set_client", "utf8mb4"),
            ("sql_mode", "STRICT_TRANS_TABLES,ANSI"),
            ("tx_isolation", "REPEATABLE-READ"),
            ("wait_timeout", "28800"),
            ("sql_auto_is_null", "OFF"),
        ])
    }

    fn after(settings: &SessionVariables, name: &str, value: &str) -> SessionVariables {
        settings.after(name.as_bytes(), value.as_bytes()).unwrap().expect("a change")
    }

    #[test]
    fn the_difference_is_what_a_backend_is_told() {
        let (old, none) = (some(), "SET ");
        assert_eq!(old.setup(&old), none);
        let new = after(&after(&old, "sql_mode", ""), "TX_ISOLATION", "READ-COMMITTED");
        assert_eq!(new.setup(&old), "SET sql_mode='',tx_isolation='READ-COMMITTED'");
        assert_eq!(
            old.setup(&new),
            "SET sql_mode='STRICT_TRANS_TABLES,ANSI',tx_isolation='REPEATABLE-READ'"
        );
        let numbers = after(&after(&old, "wait_timeout", "900"), "character_set_results", "");
        assert_eq!(numbers.setup(&old), "SET character_set_results=NULL,wait_timeout=900");
        assert_eq!(old.after(b"sql_mode", b"STRICT_TRANS_TABLES,ANSI"), Ok(None));
        assert_eq!(old.after(b"character_set_connection", b"latin1"), Ok(None));
    }

    #[test]
    fn a_statement_is_read_in_the_mode_of_others_settings() {
        let (own, other) = (after(&some(), "wait_timeout", "900"), after(&some(), "sql_mode", ""));
        let other = after(&other, "character_set_client", "latin1");
        let mixed = own.in_mode_of(&other);
        assert_eq!(mixed.setup(&own), "SET character_set_client='latin1',sql_mode=''");
        assert_eq!(own.setup(&mixed), own.setup(&after(&other, "wait_timeout", "900")));
    }

    #[test]
    fn what_cannot_be_told_is_a_pin() {
        for (name, value, pin) in [
            ("timestamp", "5.000000", Pin::SessionVariable),
            ("max_statement_time", "1.000000", Pin::SessionVariable),
            ("unique_checks", "ON", Pin::SessionVariable),
            ("sql_mode", "a'b", Pin::SessionVariable),
            ("sql_mode", "a\\", Pin::SessionVariable),
            ("wait_timeout", "1 OR 1", Pin::SessionVariable),
        ] {
            assert_eq!(some().after(name.as_bytes(), value.as_bytes()), Err(pin), "{name}={value}");
        }
        for (name, value, pin) in [
            ("wait_timeout", "5", Some(Pin::SessionVariable)),
            ("wait_timeout", "900", None),
            ("completion_type", "CHAIN", Some(Pin::State)),
            ("sql_auto_is_null", "ON", Some(Pin::InsertId)),
            ("character_set_client", "gbk", Some(Pin::Charset)),
        ] {
            assert_eq!(forbids(name.as_bytes(), value.as_bytes()), pin, "{name}={value}");
        }
        let long = vec![b'x'; VALUE_MAX + 1];
        assert_eq!(some().after(b"sql_mode", &long), Err(Pin::SessionVariable));
        assert_eq!(some().after(b"last_gtid", b"0-1-42"), Ok(None), "nobody can set it");
    }

    #[test]
    fn a_probe_asks_and_changes_nothing() {
        let mut wanted = Several::default();
        wanted.add(SessionVariable::named(b"transaction_isolation").unwrap());
        wanted.add(SessionVariable::named(b"SQL_MODE").unwrap());
        let text = "SET sql_mode=@@session.sql_mode,tx_isolation=@@session.tx_isolation";
        assert_eq!(some().probe(wanted).as_deref(), Some(text));
        wanted.add(SessionVariable::COLLATION);
        assert_eq!(some().probe(wanted), None, "this server has none");
    }

    #[test]
    fn a_row_of_values_says_what_rows_of_names_do() {
        let fresh =
            [("autocommit", "ON"), ("character_set_results", "utf8mb4"), ("wait_timeout", "1")];
        let fresh = settings(&fresh);
        let question =
            "SELECT @@session.autocommit,@@session.character_set_results,@@session.wait_timeout";
        assert_eq!(fresh.question_of_values(), question);
        let row = [Some(b"0".to_vec()), None, Some(b"1".to_vec())];
        let changed = [("autocommit", "OFF"), ("character_set_results", ""), ("wait_timeout", "1")];
        assert_eq!(fresh.from_row(&row), settings(&changed));
        assert_ne!(fresh.from_row(&row[..2]).all(), fresh.all(), "one is missing");
    }

    #[test]
    fn a_variable_with_two_names_is_called_by_the_first() {
        let both = settings(&[("tx_isolation", "A"), ("transaction_isolation", "A")]);
        let other = after(&both, "tx_isolation", "B");
        assert_eq!(other.setup(&both), "SET transaction_isolation='B'");
    }

    #[test]
    fn the_table_fits_its_numbers() {
        assert!(KNOWN.len() <= 64);
        assert_eq!(
            SessionVariable::named(b"collation_connection"),
            Some(SessionVariable::COLLATION)
        );
        let names: std::collections::HashSet<_> =
            KNOWN.iter().flat_map(|variable| variable.names).collect();
        assert_eq!(names.len(), KNOWN.iter().map(|variable| variable.names.len()).sum::<usize>());
    }
}

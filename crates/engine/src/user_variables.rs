//! User variables that a session has set to literals only. Flifo can set them again on another backend, so they hold
//! the session's backend only until another client needs it.
//!
//! Every statement may read them, unseen, in a trigger or a routine. So a client's statements run only on a backend
//! that has its variables, and no other client's statements run there before the backend is reset. Invariant: their
//! names and values are bounded, and mean the same on every backend that is told them under the settings that they were
//! set in.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::rc::Rc;

use wire::lex::Token;
use wire::text::{Text, Tokens};

use crate::session_variables::{Interned, SessionVariables};

/// The plain user variables of one session. Most have none, and no memory for them.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserVariables {
    kept: Option<Box<Kept>>,
    on_backend: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    #[serde(with = "crate::described::pairs")]
    values: BTreeMap<Box<[u8]>, Value>,
    bytes: usize,
    /// What strings among them were read by.
    settings: Rc<SessionVariables>,
}

/// What a variable was set to.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Value {
    /// As written; where it is NULL now, what it was before: that gives a NULL its type.
    #[serde(with = "crate::described::bytes")]
    literal: Box<[u8]>,
    is_null: bool,
}

/// A variable and the literal that it was set to, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    name: Box<[u8]>,
    value: Box<[u8]>,
}

/// Bytes of names and values that one session may keep.
pub const BYTES_MAX: usize = 16 << 10;

impl UserVariables {
    pub const fn is_empty(&self) -> bool {
        self.kept.is_none()
    }

    /// Whether these may be kept as well, set under these settings, if there are any yet.
    pub fn has_room(
        &self,
        assignments: &[Assignment],
        settings: Option<&Rc<SessionVariables>>,
    ) -> bool {
        let bytes: usize = assignments.iter().map(Assignment::bytes).sum();
        let there = self.kept.as_ref().map_or(0, |kept| kept.bytes);
        let is_alike = |kept: &Kept| settings.is_some_and(|it| it.mode() == kept.settings.mode());
        there + bytes <= BYTES_MAX && self.kept.as_deref().is_none_or(is_alike)
    }

    /// They were set on the backend that the session has.
    pub fn set(&mut self, assignments: Vec<Assignment>, settings: &Rc<SessionVariables>) {
        let kept = self.kept.get_or_insert_with(|| {
            let (values, settings) = (BTreeMap::new(), Rc::clone(settings));
            Box::new(Kept { values, bytes: 0, settings })
        });
        kept.settings = Rc::clone(settings);
        for Assignment { name, value } in assignments {
            let is_null = value.eq_ignore_ascii_case(b"NULL");
            if let Some(old) = kept.values.get_mut(&name)
                && is_null
            {
                old.is_null = true;
                continue;
            }
            kept.bytes += name.len() + value.len();
            let name_len = name.len();
            if let Some(old) = kept.values.insert(name, Value { literal: value, is_null }) {
                kept.bytes -= name_len + old.literal.len();
            }
        }
        self.on_backend = true;
    }

    /// Whether they are on the backend that the session has.
    pub fn are_on_backend(&self) -> bool {
        self.on_backend && !self.is_empty()
    }

    /// The backend has been told.
    pub const fn are_told(&mut self) {
        self.on_backend = true;
    }

    /// The session has given its backend up.
    pub const fn leave(&mut self) {
        self.on_backend = false;
    }

    /// They have come from another process.
    pub(crate) fn settle(&mut self, interned: &mut Interned) {
        if let Some(kept) = &mut self.kept {
            kept.settings = interned.intern((*kept.settings).clone());
        }
    }

    /// What they must be told under.
    pub fn settings(&self) -> Option<&Rc<SessionVariables>> {
        self.kept.as_ref().map(|kept| &kept.settings)
    }

    /// The statement that sets them on another backend. `None`: there are none.
    pub fn setup(&self) -> Option<Vec<u8>> {
        // Asked ahead of each statement of each client: nearly none has any.
        let kept = self.kept.as_ref()?;
        let mut text = b"SET ".to_vec();
        let mut tell = |name: &[u8], value: &[u8]| {
            text.push(b'@');
            text.extend_from_slice(name);
            text.push(b'=');
            text.extend_from_slice(value);
            text.push(b',');
        };
        for (name, Value { literal, is_null }) in &kept.values {
            tell(name, literal);
            if *is_null && !literal.eq_ignore_ascii_case(b"NULL") {
                tell(name, b"NULL");
            }
        }
        text.pop();
        Some(text)
    }
}

impl Assignment {
    fn bytes(&self) -> usize {
        self.name.len() + self.value.len()
    }

    /// Reads a text that is one `SET` of user variables to plain literals. `None`: it is anything else.
    pub fn read_all(text: Text<'_>) -> Option<Vec<Self>> {
        let mut tokens = text.tokens();
        let mut assignments = Vec::new();
        if !tokens.next()?.is_word("SET") {
            return None;
        }
        loop {
            let Token::UserVariable(name) = tokens.next()? else { return None };
            let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_$".contains(byte);
            if name.is_empty() || !name.iter().all(is_plain) {
                return None;
            }
            if !matches!(tokens.next()?, Token::Symbol(b'=') | Token::Assign) {
                return None;
            }
            let value = literal(&mut tokens, text.bytes)?;
            assignments.push(Self { name: name.to_ascii_lowercase().into(), value: value.into() });
            match tokens.next() {
                Some(Token::Symbol(b',')) => {}
                Some(Token::Symbol(b';')) if tokens.next().is_none() => break,
                None => break,
                Some(_) => return None,
            }
        }
        (!tokens.saw_executable_comment()).then_some(assignments)
    }
}

/// A number with its sign, a string that needs no escapes in any character set, or a word for a value.
fn literal<'a>(tokens: &mut Tokens<'a>, text: &'a [u8]) -> Option<&'a [u8]> {
    let mut token = tokens.next()?;
    let (start, _) = tokens.span();
    if matches!(token, Token::Symbol(b'-' | b'+')) {
        token = tokens.next()?;
        if !matches!(token, Token::Number(_)) {
            return None;
        }
    }
    let (_, end) = tokens.span();
    let written = text.get(start..end)?;
    let is_plain = match token {
        Token::Number(_) => {
            written.iter().all(|it| it.is_ascii_alphanumeric() || b"+-. ".contains(it))
        }
        Token::String(string) => {
            // In double quotes it may be a name.
            let is_safe = |byte: &u8| (b' '..=b'~').contains(byte) && !b"'\\".contains(byte);
            written.first() == Some(&b'\'') && string.iter().all(is_safe)
        }
        token => ["NULL", "TRUE", "FALSE"].iter().any(|word| token.is_word(word)),
    };
    is_plain.then_some(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session_variables::Interned;
    use wire::lex::Dialect;
    use wire::text::Lexed;

    fn read(text: &str) -> Option<Vec<Assignment>> {
        Assignment::read_all(Lexed::default().text(text.as_bytes(), Dialect::default()))
    }

    fn setup(variables: &UserVariables) -> String {
        String::from_utf8(variables.setup().expect("there are some")).unwrap()
    }

    #[test]
    fn plain_literals_are_kept_as_they_were_written() {
        for (text, told) in [
            ("SET @a=1", "SET @a=1"),
            ("set @B := 'it is', @a = -1.5e3;", "SET @a=-1.5e3,@b='it is'"),
            ("SET @a=NULL, @b=true -- why not", "SET @a=NULL,@b=true"),
            ("SET @a=1, @A=2", "SET @a=2"),
            ("SET @a=0x4d", "SET @a=0x4d"),
            ("SET @`a`=1", "SET @a=1"),
            ("SET @a=''", "SET @a=''"),
        ] {
            let mut variables = UserVariables::default();
            variables.set(read(text).expect(text), &Rc::default());
            assert_eq!(setup(&variables), told);
        }
    }

    #[test]
    fn a_null_has_the_type_of_what_was_before() {
        for (texts, told) in [
            (&["SET @a='x'", "SET @a=null"][..], "SET @a='x',@a=NULL"),
            (&["SET @a='x', @a=NULL, @a=NULL"], "SET @a='x',@a=NULL"),
            (&["SET @a=NULL", "SET @a=NULL"], "SET @a=NULL"),
            (&["SET @a=NULL", "SET @a=5"], "SET @a=5"),
            (&["SET @a='x'", "SET @a=NULL", "SET @a=5", "SET @a=NULL"], "SET @a=5,@a=NULL"),
        ] {
            let mut variables = UserVariables::default();
            for text in texts {
                variables.set(read(text).expect(text), &Rc::default());
            }
            assert_eq!(setup(&variables), told);
        }
    }

    #[test]
    fn anything_else_is_not_plain() {
        for text in [
            "SET @a=1+1",
            "SET @a=@b",
            "SET @a=(SELECT 1)",
            "SET @a=NOW()",
            "SET @a=b",
            "SET @a=\"x\"",
            "SET @a='x' 'y'",
            "SET @a='it''s'",
            "SET @a='\\n'",
            "SET @a='é'",
            "SET @a=_latin1'x'",
            "SET @a='x' COLLATE utf8mb4_bin",
            "SET @a=- - 1",
            "SET @a=-'x'",
            "SET @a=1, sql_mode=''",
            "SET @a=1; SELECT 1",
            "SET @a=1,",
            "SET @'a b'=1",
            "SET @@a=1",
            "SET /*!50000 @a=1 */",
            "SELECT @a",
            "SET",
            "",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn they_are_bounded_and_of_one_mode() {
        let mut interned = Interned::default();
        let mut settings = |mode: &str| {
            let rows = [(&b"sql_mode"[..], mode.as_bytes())];
            interned.intern(SessionVariables::from_rows(rows.into_iter()))
        };
        let (ansi, other) = (settings("ANSI"), settings(""));
        let mut variables = UserVariables::default();
        assert!(variables.has_room(&[], None));
        let long = read(&format!("SET @a='{}'", "x".repeat(BYTES_MAX / 2))).unwrap();
        assert!(variables.has_room(&long, Some(&ansi)));
        variables.set(long.clone(), &ansi);
        assert!(!variables.has_room(&long, Some(&ansi)));
        let short = read("SET @b=1").unwrap();
        assert!(
            variables.has_room(&short, Some(&ansi)) && !variables.has_room(&short, Some(&other))
        );
        variables.set(read("SET @a=1").unwrap(), &ansi);
        assert!(variables.has_room(&long, Some(&ansi)), "the old value is gone");
    }

    #[test]
    fn they_are_on_one_backend() {
        let mut variables = UserVariables::default();
        variables.are_told();
        assert!(!variables.are_on_backend(), "there are none");
        variables.set(read("SET @a=1").unwrap(), &Rc::default());
        assert!(variables.are_on_backend());
        variables.leave();
        assert!(!variables.are_on_backend());
        variables.are_told();
        assert!(variables.are_on_backend());
    }
}

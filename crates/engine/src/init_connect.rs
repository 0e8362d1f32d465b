//! What sessions begin with: one `SET` of variables that any backend can be told, as the configuration has it.
//!
//! It is run on a client's first backend, before the client's first command is read; what it has set is then the
//! session's own, as if the client had set it. So nothing may stand in it that Flifo could not tell to another backend:
//! that is refused when the configuration is read, and not when a client comes.

use std::sync::Arc;

use wire::lex::{Dialect, Token, scope_and_name};
use wire::text::Lexed;

use crate::intent::{Intent, SetMark, Sets};

/// A text that has been found good. An empty one sets nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitConnect {
    text: Arc<str>,
    sets: Sets,
}

/// A longer one would not fit into a line of the log.
const TEXT_MAX: usize = 4096;

/// What a client asks to be told of it says itself.
const TRACKS: [SetMark; 3] = [SetMark::Tracks, SetMark::TracksState, SetMark::TracksTransactions];

impl InitConnect {
    /// Reads a text. The error says why it cannot be what sessions begin with.
    pub fn read(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self { text: "".into(), sets: Sets::default() });
        }
        if text.len() > TEXT_MAX || !text.is_ascii() {
            return Err(format!("this is longer than {TEXT_MAX} bytes, or not ASCII"));
        }
        let lexed = Lexed::default();
        let read = lexed.text(text.as_bytes(), Dialect::default());
        if !read.first_word().eq_ignore_ascii_case(b"SET") {
            return Err("this is not one SET: write all variables into one, like \
                        \"SET sql_mode = 'ANSI', time_zone = '+00:00'\""
                .to_owned());
        }
        if let Some(word) = not_of_session(text) {
            return Err(format!("{word} is not what one session begins with"));
        }
        let intent = Intent::read(read);
        match (intent.sets, intent.pin) {
            (Some(sets), None) if !TRACKS.iter().any(|mark| sets.has(*mark)) => {
                Ok(Self { text: text.into(), sets })
            }
            (_, pin) => {
                let why = pin.map_or("", |pin| pin.name());
                Err(format!(
                    "this sets what Flifo cannot tell to another backend connection ({why}): only \
                     session variables that it knows can be set, by one SET without a query"
                ))
            }
        }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// What it does, as it is read off its text.
    pub const fn sets(&self) -> Sets {
        self.sets
    }
}

/// A word that makes of a `SET` what outlives the session, or ends before it.
fn not_of_session(text: &str) -> Option<&'static str> {
    const WORDS: [&str; 5] = ["GLOBAL", "PERSIST", "PERSIST_ONLY", "TRANSACTION", "STATEMENT"];
    let lexed = Lexed::default();
    let mut tokens = lexed.text(text.as_bytes(), Dialect::default()).tokens();
    tokens.find_map(|token| match token {
        Token::Word(word) => WORDS.into_iter().find(|it| it.as_bytes().eq_ignore_ascii_case(word)),
        Token::SystemVariable(name) => {
            let (scope, _) = scope_and_name(name);
            WORDS.into_iter().find(|it| it.as_bytes().eq_ignore_ascii_case(scope))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_any_backend_can_be_told_may_be_a_beginning() {
        for text in [
            "",
            " ",
            "SET sql_mode = 'ANSI'",
            "set session sql_mode='', TIME_ZONE = '+00:00';",
            "SET NAMES utf8mb4 COLLATE utf8mb4_bin, autocommit = 0",
            "SET @@session.group_concat_max_len = 1000000",
            "SET sql_mode = CONCAT(@@sql_mode, ',ANSI')",
        ] {
            let init = InitConnect::read(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(init.is_empty(), text.trim().is_empty());
        }
    }

    #[test]
    fn what_could_not_be_told_is_refused() {
        for text in [
            "SELECT 1",
            "SET @a = 1",
            "SET sql_mode = '', @a = 1",
            "SET sql_mode = ''; SET time_zone = '+00:00'",
            "SET GLOBAL sql_mode = ''",
            "SET @@global.sql_mode = ''",
            "SET PERSIST sql_mode = ''",
            "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
            "SET max_statement_time = 1",
            "SET sql_mode = (SELECT a FROM t)",
            "SET ROLE boss",
            "SET PASSWORD = PASSWORD('x')",
            "SET STATEMENT sql_mode = '' FOR SELECT 1",
            "SET session_track_system_variables = ''",
            "SET sql_mode = '\u{fc}'",
            "SET nonsense",
            "SET",
        ] {
            assert!(InitConnect::read(text).is_err(), "{text}");
        }
        assert!(InitConnect::read(&format!("SET sql_mode = '{}'", "x".repeat(TEXT_MAX))).is_err());
    }
}

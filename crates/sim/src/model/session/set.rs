//! `SET` of all kinds.

use wire::tracker::{Change, put_change};

use super::read::items;
use super::{Assignment, Done, Session, VARIABLES, ok};
use crate::model::reply::ModelError;
use crate::model::tables::Tables;
use crate::model::tokens::Token;

impl Session {
    pub(super) fn set(&mut self, tables: &mut Tables, tokens: &[Token]) -> Done {
        let word = |at: usize| tokens.get(at).and_then(Token::name).unwrap_or_default();
        let at = usize::from(matches!(word(0), "session" | "local" | "global"));
        if word(at) == "transaction" {
            return self.set_transaction(tables, &tokens[at + 1..], word(0) == "session");
        }
        let mut assigned = Vec::new();
        let mut scope = "session".to_owned();
        for item in items(tokens) {
            let mut item = item;
            if let [Token::Word(names), set, collate @ ..] = item
                && names == "names"
            {
                assigned.extend(names_of(set, collate)?);
                continue;
            }
            if let [Token::Word(first), rest @ ..] = item
                && matches!(&**first, "session" | "local" | "global")
            {
                (scope, item) = (first.clone(), rest);
            }
            let (target, mut value) = item.split_first().ok_or_else(ModelError::syntax)?;
            while let [Token::Sign(b':' | b'='), rest @ ..] = value {
                value = rest;
            }
            match target {
                Token::User(name) => assigned.push((None, name.clone(), self.value(value, 0)?)),
                Token::Word(name) => {
                    if scope == "global" {
                        return Err(denied());
                    }
                    assigned.push(self.assignment(name, value)?);
                }
                Token::System(scope, _) if scope == "global" => return Err(denied()),
                Token::System(_, name) => assigned.push(self.assignment(name, value)?),
                _ => return Err(ModelError::syntax()),
            }
        }
        for (variable, name, value) in assigned {
            match variable {
                Some("last_insert_id") => {
                    let value = value.unwrap_or_default();
                    self.report("last_insert_id", &value);
                    self.last_insert_id = String::from_utf8_lossy(&value).parse().unwrap_or(0);
                }
                Some(variable) => self.assign(tables, variable, value.unwrap_or_default()),
                None => {
                    match value {
                        Some(value) => self.user_variables.insert(name, value),
                        None => self.user_variables.remove(&name),
                    };
                }
            }
        }
        self.track_state();
        Ok(ok(0))
    }

    pub(super) fn set_transaction(
        &mut self,
        tables: &mut Tables,
        tokens: &[Token],
        is_session: bool,
    ) -> Done {
        let words: Vec<_> = tokens.iter().filter_map(Token::name).collect();
        match &words[..] {
            ["read", access @ ("only" | "write")] => {
                let is_read_only = *access == "only";
                if is_session {
                    let value = if is_read_only { "ON" } else { "OFF" };
                    self.assign(tables, "tx_read_only", value.into());
                    self.track_state();
                } else if self.transaction.is_some() {
                    let message = "Transaction characteristics can't be changed while a transaction is in progress";
                    return Err(ModelError::new(1568, b"25001", message));
                } else {
                    self.next_is_read_only = is_read_only;
                    self.characterize(if is_read_only { "SET TRANSACTION READ ONLY;" } else { "" });
                }
                Ok(ok(0))
            }
            ["isolation", "level", level @ ..] if is_session => {
                let level = level.join("-").to_uppercase();
                self.assign(tables, "tx_isolation", level.into_bytes());
                self.track_state();
                Ok(ok(0))
            }
            _ => Err(ModelError::syntax()),
        }
    }

    /// What a variable is to become.
    pub(super) fn assignment(
        &mut self,
        name: &str,
        value: &[Token],
    ) -> Result<Assignment, ModelError> {
        let name = if name == "transaction_isolation" { "tx_isolation" } else { name };
        if name == "pseudo_thread_id" {
            return Err(denied());
        }
        if name == "last_insert_id" {
            return Ok((Some("last_insert_id"), String::new(), self.value(value, 0)?));
        }
        let known = VARIABLES.iter().find(|(known, _)| *known == name);
        let (variable, default) = known.ok_or_else(|| {
            ModelError::new(1193, b"HY000", format!("Unknown system variable '{name}'"))
        })?;
        let given = match value {
            [Token::Word(word)] if word == "default" => default.as_bytes().to_vec(),
            [Token::Word(word)] => word.to_uppercase().into_bytes(),
            _ => self.value(value, 0)?.unwrap_or_default(),
        };
        let wrong = || {
            let given = String::from_utf8_lossy(&given);
            let message = format!("Variable '{name}' can't be set to the value of '{given}'");
            ModelError::new(1231, b"42000", message)
        };
        let value = match *default {
            "ON" | "OFF" if name != "session_track_transaction_info" => match &given[..] {
                b"1" | b"ON" | b"on" | b"TRUE" => b"ON".to_vec(),
                b"0" | b"OFF" | b"off" | b"FALSE" => b"OFF".to_vec(),
                _ => return Err(wrong()),
            },
            number if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                let is_number = given.iter().all(u8::is_ascii_digit) && !given.is_empty();
                if is_number { given.clone() } else { return Err(wrong()) }
            }
            _ => given.clone(),
        };
        Ok((Some(variable), String::new(), Some(value)))
    }

    /// Reports a variable's new value, if it is tracked.
    fn report(&mut self, variable: &str, value: &[u8]) {
        let tracked = self.variable("session_track_system_variables");
        let is_tracked = tracked == b"*"
            || tracked.split(|byte| *byte == b',').any(|name| name == variable.as_bytes());
        if is_tracked {
            put_change(&mut self.changes, Change::Variable { name: variable.as_bytes(), value });
        }
    }

    pub(super) fn assign(&mut self, tables: &mut Tables, variable: &'static str, value: Vec<u8>) {
        self.report(variable, &value);
        if variable == "autocommit" && value == b"ON" && self.variable("autocommit") == b"OFF" {
            self.commit(tables);
        }
        self.variables.insert(variable, value);
    }
}

/// What `SET NAMES` sets.
fn names_of(set: &Token, collate: &[Token]) -> Result<Vec<Assignment>, ModelError> {
    let text = |token: &Token| match token {
        Token::Word(word) => Ok(word.clone()),
        Token::Quoted(text) => Ok(String::from_utf8_lossy(text).into_owned()),
        _ => Err(ModelError::syntax()),
    };
    let set = text(set)?;
    let known = CHARACTER_SETS.iter().find(|(name, _)| *name == set);
    let (name, own) = known.ok_or_else(|| {
        ModelError::new(1115, b"42000", format!("Unknown character set: '{set}'"))
    })?;
    let collation = match collate {
        [collate, collation] if collate.is_word("collate") => text(collation)?,
        _ => (*own).to_owned(),
    };
    let to = |variable, value: &str| (Some(variable), String::new(), Some(value.into()));
    Ok(vec![
        to("character_set_client", name),
        to("character_set_connection", name),
        to("character_set_results", name),
        to("collation_connection", &collation),
    ])
}

fn denied() -> ModelError {
    let message =
        "Access denied; you need (at least one of) the SUPER privilege(s) for this operation";
    ModelError::new(1227, b"42000", message)
}

const CHARACTER_SETS: [(&str, &str); 4] = [
    ("utf8mb4", "utf8mb4_general_ci"),
    ("utf8mb3", "utf8mb3_general_ci"),
    ("latin1", "latin1_swedish_ci"),
    ("ascii", "ascii_general_ci"),
];

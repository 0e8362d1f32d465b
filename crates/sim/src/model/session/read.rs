//! What statements read: values of expressions, variables, messages, and hashes for what is not known otherwise.

use super::write::no_table;
use super::{Done, Outcome, Session, rows, text};
use crate::model::reply::{Answer, ModelError};
use crate::model::tables::{Place, Tables, hash};
use crate::model::tokens::Token;

impl Session {
    pub(super) fn show(&mut self, tables: &Tables, tokens: &[Token]) -> Done {
        let words: Vec<_> = tokens.iter().filter_map(Token::name).collect();
        match &words[..] {
            ["show", "warnings" | "errors", ..] => {
                let shown = self
                    .diagnostics
                    .iter()
                    .map(|(level, code, message)| vec![text(level), text(code), text(message)]);
                Ok(rows(&["Level", "Code", "Message"], shown.collect()))
            }
            ["show", "count", ..] => {
                Ok(rows(&["@@session.warning_count"], vec![vec![text(&self.diagnostics.len())]]))
            }
            ["show", "create", "user", ..] => {
                let account =
                    format!("CREATE USER `{}`@`%` IDENTIFIED BY PASSWORD '*0'", self.user);
                Ok(rows(&["CREATE USER for model"], vec![vec![text(&account)]]))
            }
            ["show", "session" | "global" | "variables", ..] => {
                let names = tokens.iter().filter_map(|token| match token {
                    Token::Quoted(name) => Some(String::from_utf8_lossy(name).into_owned()),
                    _ => None,
                });
                let names: Vec<String> = names.collect();
                let fits = |name: &str| {
                    names.is_empty()
                        || names.iter().any(|it| match it.strip_suffix('%') {
                            Some(start) => name.starts_with(start),
                            None => it == name,
                        })
                };
                let shown = self.variables.iter().filter(|(name, _)| fits(name));
                let shown = shown.map(|(name, value)| vec![text(name), Some(value.clone())]);
                Ok(rows(&["Variable_name", "Value"], shown.collect()))
            }
            _ => {
                let digest = self.digest(tables, tokens)?;
                Ok(rows(&["shown"], vec![vec![text(&format!("{digest:016x}"))]]))
            }
        }
    }

    pub(super) fn select(&mut self, tables: &mut Tables, tokens: &[Token], by: u64) -> Done {
        if let Some(told) = waits_told(tables, tokens) {
            return Ok(told);
        }
        if let Some(told) = described(tables, tokens) {
            return Ok(told);
        }
        let is_from = |token: &Token| token.is_word("from");
        if tokens.iter().any(is_from) {
            self.touch()?;
            let digest = self.digest(tables, tokens)?;
            if digest % 7 == 0 {
                self.warn(digest);
            }
            let shown = (0..digest % 4).map(|at| vec![text(&format!("{:016x}", digest + at))]);
            return Ok(rows(&["found"], shown.collect()));
        }
        let mut shown = Vec::new();
        let mut columns = Vec::new();
        let mut delay = None;
        for part in tokens.split(|token| token.is_word("union")) {
            let part: &[Token] = match part {
                [all, rest @ ..] if all.is_word("all") => rest,
                part => part,
            };
            let items = items(part.get(1..).unwrap_or_default());
            if columns.is_empty() {
                columns = items.iter().map(|item| name_of(item)).collect();
            }
            let mut row = Vec::new();
            for item in items {
                if let [Token::Word(sleep), Token::Sign(b'('), Token::Number(seconds), ..] = item
                    && sleep == "sleep"
                {
                    let seconds: f64 = seconds.parse().unwrap_or(0.0);
                    delay = Some((seconds * 1000.0) as u64);
                    row.push(text(&0));
                    continue;
                }
                row.push(self.value(without_alias(item), by)?);
            }
            shown.push(row);
        }
        let answer = Answer::Rows { columns, rows: shown };
        Ok(match delay {
            Some(delay) => Outcome::Later(delay, answer),
            None => Outcome::Answer(answer),
        })
    }

    /// The value of an expression.
    pub(super) fn value(&mut self, item: &[Token], by: u64) -> Result<Option<Vec<u8>>, ModelError> {
        Ok(match item {
            [Token::Quoted(value)] => Some(value.clone()),
            [Token::Number(digits)] => Some(digits.clone().into_bytes()),
            [Token::Word(word)] if word == "null" => None,
            [Token::Word(word)] => Some(word.clone().into_bytes()),
            [Token::User(name)] => self.user_variables.get(name).cloned(),
            [Token::User(name), Token::Sign(b':'), Token::Sign(b'='), value @ ..] => {
                let value = self.value(value, by)?;
                match &value {
                    Some(value) => self.user_variables.insert(name.clone(), value.clone()),
                    None => self.user_variables.remove(name),
                };
                self.track_state();
                value
            }
            // It logs in as itself.
            [Token::System(_, name)] if name == "proxy_user" => None,
            [Token::System(scope, name)] => Some(self.system(scope, name)?),
            [Token::Word(call), Token::Sign(b'('), arguments @ .., Token::Sign(b')')] => {
                self.call(call, arguments, by)?
            }
            _ => text(&format!("{:016x}", self.digest(&Tables::default(), item)?)),
        })
    }

    pub(super) fn system(&self, scope: &str, name: &str) -> Result<Vec<u8>, ModelError> {
        let name = if name == "transaction_isolation" { "tx_isolation" } else { name };
        let number = |it: u64| it.to_string().into_bytes();
        Ok(match (scope, name) {
            (_, "last_insert_id" | "identity") => number(self.last_insert_id),
            (_, "skip_name_resolve") => b"1".to_vec(),
            (_, "warning_count") => number(self.diagnostics.len() as u64),
            (_, "error_count") => {
                number(self.diagnostics.iter().filter(|it| it.0 == "Error").count() as u64)
            }
            ("global", "read_only") => u8::from(self.server.0 == Place::Reader).to_string().into(),
            ("global", "log_bin") => u8::from(self.server.0 == Place::Writer).to_string().into(),
            ("global", "wsrep_on") => b"0".to_vec(),
            ("global", "gtid_binlog_state") if self.server.0 == Place::Writer => {
                self.server.1.clone().into_bytes()
            }
            ("global", "gtid_slave_pos") if self.server.0 == Place::Reader => {
                self.server.1.clone().into_bytes()
            }
            ("global", "gtid_binlog_state" | "gtid_slave_pos") => Vec::new(),
            _ => match self.variable(name) {
                _ if !self.variables.contains_key(name) => {
                    let message = format!("Unknown system variable '{name}'");
                    return Err(ModelError::new(1193, b"HY000", message));
                }
                b"ON" => b"1".to_vec(),
                b"OFF" => b"0".to_vec(),
                value => value.to_vec(),
            },
        })
    }

    pub(super) fn call(
        &mut self,
        call: &str,
        arguments: &[Token],
        by: u64,
    ) -> Result<Option<Vec<u8>>, ModelError> {
        Ok(match (call, arguments) {
            ("last_insert_id", []) => text(&self.last_insert_id),
            ("last_insert_id", [Token::Number(number)]) => {
                self.last_insert_id = number.parse().unwrap_or(0);
                text(&self.last_insert_id)
            }
            ("repeat", [Token::Quoted(part), Token::Sign(b','), Token::Number(times)]) => {
                Some(part.repeat(times.parse().unwrap_or(0)))
            }
            ("cast", [value @ .., as_word, Token::Word(_)]) if as_word.is_word("as") => {
                self.value(value, by)?
            }
            ("hex", value) => self.value(value, by)?.map(|value| {
                let digits: String = value.iter().map(|byte| format!("{byte:02X}")).collect();
                digits.into_bytes()
            }),
            ("row_count", []) => text(&self.row_count),
            ("found_rows", []) => text(&1),
            ("connection_id", []) => text(&by),
            ("database" | "schema", []) => self.schema.clone().map(String::into_bytes),
            ("user" | "current_user", []) => text(&format!("{}@%", self.user)),
            ("get_lock", [Token::Quoted(name), ..]) => {
                *self.named_locks.entry(name.clone()).or_default() += 1;
                text(&1)
            }
            ("release_lock", [Token::Quoted(name)]) => match self.named_locks.get_mut(name) {
                Some(count) => {
                    *count -= 1;
                    if *count == 0 {
                        self.named_locks.remove(name);
                    }
                    text(&1)
                }
                None => None,
            },
            ("release_all_locks", []) => {
                let count: u32 = self.named_locks.values().sum();
                self.named_locks.clear();
                text(&count)
            }
            ("is_used_lock", [Token::Quoted(name)]) => {
                self.named_locks.contains_key(name).then(|| by.to_string().into_bytes())
            }
            ("ifnull" | "coalesce", arguments) => {
                for item in items(arguments) {
                    if let Some(value) = self.value(item, by)? {
                        return Ok(Some(value));
                    }
                }
                None
            }
            _ => text(&format!("{:016x}", self.digest(&Tables::default(), arguments)?)),
        })
    }

    /// A hash of a statement's words and of all that it may depend on. An error: a table that it names is not there.
    pub(super) fn digest(&self, tables: &Tables, tokens: &[Token]) -> Result<u64, ModelError> {
        let mut sum = hash(0, format!("{tokens:?}").as_bytes());
        for (name, value) in &self.variables {
            // What these say is only what is reported.
            if !name.starts_with("session_track") {
                sum = hash(hash(sum, name.as_bytes()), value);
            }
        }
        sum = hash(sum, self.schema.as_deref().unwrap_or_default().as_bytes());
        for (at, token) in tokens.iter().enumerate() {
            match token {
                Token::User(name) => {
                    let value = self.user_variables.get(name).map_or(&b"no value"[..], |it| it);
                    sum = hash(sum, value);
                }
                Token::Word(word) if matches!(&**word, "from" | "join" | "update" | "into") => {
                    let Ok((schema, name)) = self.table_at(tokens, at + 1) else { continue };
                    if let Some(table) = self.temporary.get(&name) {
                        sum = hash(sum ^ table.state, b"temporary");
                        continue;
                    }
                    let table = tables.get((&schema, &name));
                    let table = table.ok_or_else(|| no_table(&schema, &name))?;
                    // What all write to says nothing.
                    if !name.starts_with("hot") {
                        let open = self.transaction.as_ref();
                        let own =
                            open.and_then(|open| open.own.get(&(schema.clone(), name.clone())));
                        let state = own.copied().unwrap_or(table.state);
                        sum = hash(sum, &state.to_le_bytes());
                    }
                }
                _ => {}
            }
        }
        Ok(sum)
    }
}

/// The parts of a list, between commas that are in no brackets.
pub(super) fn items(tokens: &[Token]) -> Vec<&[Token]> {
    let (mut all, mut depth, mut from) = (Vec::new(), 0_u32, 0);
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Sign(b'(') => depth += 1,
            Token::Sign(b')') => depth = depth.saturating_sub(1),
            Token::Sign(b',') if depth == 0 => {
                all.push(&tokens[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    all.push(&tokens[from..]);
    all
}

/// What the information schema tells: of schemas, of rights, which all users have, and of views, routines, triggers,
/// foreign keys and odd tables, of which there are none.
fn described(tables: &Tables, tokens: &[Token]) -> Option<Outcome> {
    let parts: Vec<_> = tokens.iter().filter_map(Token::name).collect();
    let view = parts.windows(3).find(|it| it[0] == "from" && it[1] == "information_schema")?[2];
    match view {
        "views" | "routines" | "triggers" | "referential_constraints" | "tables" => {
            Some(rows(&["name", "body"], Vec::new()))
        }
        "user_privileges" => {
            let rights = ["SELECT", "INSERT", "UPDATE", "DELETE", "TRIGGER", "SHOW VIEW"];
            let everywhere = rights.map(|right| vec![text(right), text("")]);
            Some(rows(&["PRIVILEGE_TYPE", ""], everywhere.to_vec()))
        }
        "schemata" => {
            let first = tables.schemas().take(1).map(|name| vec![text(name)]);
            Some(rows(&["SCHEMA_NAME"], first.collect()))
        }
        _ => None,
    }
}

/// What InnoDB tells of waits for rows: how many there are, or which connection waits for which.
fn waits_told(tables: &Tables, tokens: &[Token]) -> Option<Outcome> {
    let number = Token::Quoted(b"INNODB_ROW_LOCK_CURRENT_WAITS".to_vec());
    let waits = tables.waits();
    if tokens.contains(&number) {
        return Some(rows(&["rows", "others"], vec![vec![text(&waits.len()), text(&0)]]));
    }
    let is_which = tokens.iter().any(|token| token.is_word("innodb_lock_waits"));
    let told = waits.iter().map(|(waiter, holder)| vec![text(waiter), text(holder)]);
    is_which.then(|| rows(&["waiter", "holder"], told.collect()))
}

fn without_alias(item: &[Token]) -> &[Token] {
    match item {
        [rest @ .., as_word, _] if as_word.is_word("as") => rest,
        item => item,
    }
}

/// What the column of an item is called.
fn name_of(item: &[Token]) -> Vec<u8> {
    match item {
        [.., as_word, Token::Word(name)] if as_word.is_word("as") => name.clone().into_bytes(),
        [.., as_word, Token::Quoted(name)] if as_word.is_word("as") => name.clone(),
        item => {
            let words = item.iter().map(|token| match token {
                Token::Word(word) | Token::Number(word) => word.clone(),
                Token::Quoted(text) => format!("'{}'", String::from_utf8_lossy(text)),
                Token::User(name) => format!("@{name}"),
                Token::System(scope, name) => format!("@@{scope}.{name}"),
                Token::Sign(sign) => char::from(*sign).to_string(),
            });
            words.collect::<String>().into_bytes()
        }
    }
}

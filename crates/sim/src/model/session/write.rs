//! What statements write, create and drop.

use wire::tracker::{Change, put_change};

use super::{Done, FIRST_MARK, Outcome, Session, ok};
use crate::model::reply::{Answer, ModelError};
use crate::model::tables::{Table, Tables, hash};
use crate::model::tokens::Token;

impl Session {
    pub(super) fn write(&mut self, tables: &mut Tables, tokens: &[Token], by: u64) -> Done {
        let is_insert = tokens[0].is_word("insert") || tokens[0].is_word("replace");
        let mut at = 1;
        while let Some(Token::Word(word)) = tokens.get(at)
            && matches!(&**word, "into" | "from" | "ignore" | "low_priority")
        {
            at += 1;
        }
        let (schema, name) = self.table_at(tokens, at)?;
        if let Some(row) = name.strip_prefix("hot") {
            self.may_write(tables)?;
            let row = row.parse().unwrap_or(0);
            self.touch()?;
            if !tables.lock_row(row, by) {
                return Ok(Outcome::Waits(row));
            }
        }
        let digest = self.digest(tables, tokens)?;
        let names = &self.temporary;
        if let Some(table) = names.get(&name) {
            let mut table = table.clone();
            table.state = digest;
            self.temporary.insert(name, table);
            return Ok(ok(1 + digest % 3));
        }
        self.may_write(tables)?;
        self.touch()?;
        if self.transaction.as_ref().is_some_and(|it| it.is_read_only) {
            let message = "Cannot execute statement in a READ ONLY transaction";
            return Err(ModelError::new(1792, b"25006", message));
        }
        let place = (&*schema, &*name);
        let table = tables.get_mut(place).ok_or_else(|| no_table(&schema, &name))?;
        if digest % 11 == 0 {
            let message = format!("Duplicate entry '{digest:x}' for key 'PRIMARY'");
            return Err(ModelError::new(1062, b"23000", message));
        }
        let mark = tokens.iter().find_map(|token| match token {
            Token::Number(digits) => digits.parse().ok().filter(|number| *number >= FIRST_MARK),
            _ => None,
        });
        let mut insert_id = 0;
        if is_insert {
            table.last_id += 1;
            insert_id = table.last_id;
            self.last_insert_id = insert_id;
        }
        match &mut self.transaction {
            Some(open) => {
                open.own.insert((schema.clone(), name.clone()), digest);
                open.marks.extend(mark);
            }
            None => {
                table.state = digest;
                mark.into_iter().for_each(|mark| *tables.marks.entry(mark).or_default() += 1);
            }
        }
        if digest % 5 == 0 {
            self.warn(digest);
        }
        let affected = if is_insert { 1 } else { digest % 4 };
        Ok(Outcome::Answer(Answer::Ok { affected, insert_id }))
    }

    pub(super) fn warn(&mut self, digest: u64) {
        for at in 0..=digest % 3 {
            self.add_condition("Warning", 1265, format!("Data truncated {:x}", digest + at));
        }
    }

    /// The table whose name begins here, and how many tokens it has.
    pub(super) fn table_at(
        &self,
        tokens: &[Token],
        at: usize,
    ) -> Result<(String, String), ModelError> {
        let first = tokens.get(at).and_then(Token::name).ok_or_else(ModelError::syntax)?.to_owned();
        if tokens.get(at + 1).is_some_and(|token| token.is_sign(b'.')) {
            let name = tokens.get(at + 2).and_then(Token::name).ok_or_else(ModelError::syntax)?;
            return Ok((first, name.to_owned()));
        }
        let schema = self
            .schema
            .clone()
            .ok_or_else(|| ModelError::new(1046, b"3D000", "No database selected"))?;
        Ok((schema, first))
    }

    pub(super) fn define(&mut self, tables: &mut Tables, tokens: &[Token]) -> Done {
        let words: Vec<_> = tokens.iter().filter_map(Token::name).collect();
        let is_soft = words.contains(&"exists");
        let at = tokens.iter().position(|token| {
            matches!(token, Token::Word(word) if matches!(&**word, "table" | "database" | "schema"))
        });
        let at = at.ok_or_else(ModelError::syntax)?;
        let skipped = match &words[..] {
            _ if tokens.get(at + 1).is_some_and(|it| it.is_word("if")) => {
                if tokens[at + 2].is_word("not") { 4 } else { 3 }
            }
            _ => 1,
        };
        let place = at + skipped;
        if !tokens[at].is_word("table") {
            self.may_write(tables)?;
            let name = tokens.get(place).and_then(Token::name).ok_or_else(ModelError::syntax)?;
            self.commit(tables);
            return match words[0] {
                "create" => {
                    if !tables.create_schema(name) && !is_soft {
                        let message = format!("Can't create database '{name}'; database exists");
                        return Err(ModelError::new(1007, b"HY000", message));
                    }
                    Ok(ok(1))
                }
                _ if tables.drop_schema(name) => {
                    if self.schema.as_deref() == Some(name) {
                        self.schema = None;
                        if self.is_on("session_track_schema") {
                            put_change(&mut self.changes, Change::Schema(b""));
                        }
                        self.track_state();
                    }
                    Ok(ok(0))
                }
                _ if is_soft => Ok(ok(0)),
                _ => Err(ModelError::new(1008, b"HY000", format!("Can't drop database '{name}'"))),
            };
        }
        let (schema, name) = self.table_at(tokens, place)?;
        let is_temporary = words.contains(&"temporary");
        if is_temporary && words[0] == "create" {
            if self.temporary.contains_key(&name) {
                if is_soft {
                    return Ok(ok(0));
                }
                return Err(ModelError::new(
                    1050,
                    b"42S01",
                    format!("Table '{name}' already exists"),
                ));
            }
            let state = self.digest(&Tables::default(), tokens)?;
            self.temporary.insert(name, Table { state, last_id: 0 });
            self.track_state();
            return Ok(ok(0));
        }
        if words[0] == "drop" && self.temporary.remove(&name).is_some() {
            self.track_state();
            return Ok(ok(0));
        }
        if is_temporary {
            return if is_soft { Ok(ok(0)) } else { Err(unknown_table(&schema, &name)) };
        }
        self.may_write(tables)?;
        self.commit(tables);
        let place = (&*schema, &*name);
        match words[0] {
            "create" if tables.get(place).is_some() => match is_soft {
                true => Ok(ok(0)),
                false => {
                    Err(ModelError::new(1050, b"42S01", format!("Table '{name}' already exists")))
                }
            },
            "create" => match tables.put(place, Table::default()) {
                true => Ok(ok(0)),
                false => {
                    Err(ModelError::new(1049, b"42000", format!("Unknown database '{schema}'")))
                }
            },
            "drop" if tables.remove(place) || is_soft => Ok(ok(0)),
            "drop" => Err(unknown_table(&schema, &name)),
            _ => match tables.get_mut(place) {
                Some(table) => {
                    table.state = hash(table.state, words[0].as_bytes());
                    Ok(ok(0))
                }
                None => Err(no_table(&schema, &name)),
            },
        }
    }
}

pub(super) fn no_table(schema: &str, name: &str) -> ModelError {
    ModelError::new(1146, b"42S02", format!("Table '{schema}.{name}' doesn't exist"))
}

fn unknown_table(schema: &str, name: &str) -> ModelError {
    ModelError::new(1051, b"42S02", format!("Unknown table '{schema}.{name}'"))
}

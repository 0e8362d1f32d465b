//! What the model's server stores. A table is a chain of hashes: each write goes into it, and each read shows it. So a
//! write that is lost, done twice, done elsewhere or done in another order shows when the table is read next.

use std::collections::BTreeMap;

/// A hash of bytes, the same everywhere (FNV-1a).
pub fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let start = seed ^ 0xcbf2_9ce4_8422_2325;
    bytes.iter().fold(start, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    pub state: u64,
    /// The last number that it has given to a row.
    pub last_id: u64,
}

/// A server's place in replication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    #[default]
    Alone,
    Writer,
    /// It takes over what the writer has, and is `read_only`.
    Reader,
}

/// Tables by their schemas and names.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    schemas: BTreeMap<String, BTreeMap<String, Table>>,
    /// So many changes have been made: the position in replication.
    pub changes: u64,
    pub place: Place,
    /// Sessions report all changes if they are asked to; else Flifo has each client keep a connection.
    pub reports: bool,
    /// Numbers that committed statements have written, and how often: they tell what was lost or done twice.
    pub marks: BTreeMap<u64, u32>,
    /// Rows that all clients write to: which connection has each, and which wait for it.
    pub rows: BTreeMap<u32, RowLock>,
}

#[derive(Clone, Debug, Default)]
pub struct RowLock {
    pub holder: Option<u64>,
    pub waiters: Vec<u64>,
}

impl Tables {
    pub fn create_schema(&mut self, name: &str) -> bool {
        let is_new = !self.schemas.contains_key(name);
        self.changes += u64::from(is_new);
        self.schemas.entry(name.to_owned()).or_default();
        is_new
    }

    pub fn drop_schema(&mut self, name: &str) -> bool {
        let was_there = self.schemas.remove(name).is_some();
        self.changes += u64::from(was_there);
        was_there
    }

    pub fn schemas(&self) -> impl Iterator<Item = &str> {
        self.schemas.keys().map(String::as_str)
    }

    pub fn has_schema(&self, name: &str) -> bool {
        self.schemas.contains_key(name)
    }

    pub fn get(&self, (schema, name): (&str, &str)) -> Option<&Table> {
        self.schemas.get(schema)?.get(name)
    }

    /// A table that is going to be changed.
    pub fn get_mut(&mut self, (schema, name): (&str, &str)) -> Option<&mut Table> {
        let table = self.schemas.get_mut(schema)?.get_mut(name)?;
        self.changes += 1;
        Some(table)
    }

    /// False: its schema is not there.
    pub fn put(&mut self, (schema, name): (&str, &str), table: Table) -> bool {
        let Some(tables) = self.schemas.get_mut(schema) else { return false };
        tables.insert(name.to_owned(), table);
        self.changes += 1;
        true
    }

    pub fn remove(&mut self, (schema, name): (&str, &str)) -> bool {
        let tables = self.schemas.get_mut(schema);
        let was_there = tables.is_some_and(|tables| tables.remove(name).is_some());
        self.changes += u64::from(was_there);
        was_there
    }

    /// What a reader takes over: all that is stored, and how far the writer has come.
    pub fn stored(&self) -> Self {
        Self { schemas: self.schemas.clone(), changes: self.changes, ..Self::default() }
    }

    /// Takes over what the writer had stored.
    pub fn apply(&mut self, stored: &Self) {
        self.schemas.clone_from(&stored.schemas);
        self.changes = stored.changes;
    }

    /// The position in replication, as MariaDB writes it.
    pub fn position(&self) -> String {
        if self.changes == 0 { String::new() } else { format!("0-1-{}", self.changes) }
    }

    /// Takes a row for a connection. False: another one has it, and this one waits.
    pub fn lock_row(&mut self, row: u32, by: u64) -> bool {
        let lock = self.rows.entry(row).or_default();
        if lock.holder.is_none_or(|holder| holder == by) {
            lock.holder = Some(by);
            return true;
        }
        if !lock.waiters.contains(&by) {
            lock.waiters.push(by);
        }
        false
    }

    /// A connection has no row any more, and waits for none. The answer: those that have got a row now.
    pub fn release_rows(&mut self, of: u64) -> Vec<u64> {
        let mut granted = Vec::new();
        for lock in self.rows.values_mut() {
            lock.waiters.retain(|waiter| *waiter != of);
            if lock.holder == Some(of) {
                lock.holder = None;
                if !lock.waiters.is_empty() {
                    let next = lock.waiters.remove(0);
                    lock.holder = Some(next);
                    granted.push(next);
                }
            }
        }
        granted
    }

    /// Waits no longer for any row.
    pub fn give_up_rows(&mut self, of: u64) {
        self.rows.values_mut().for_each(|lock| lock.waiters.retain(|waiter| *waiter != of));
    }

    /// Connections that wait for rows, each with the one that has it.
    pub fn waits(&self) -> Vec<(u64, u64)> {
        let waits = self.rows.values().flat_map(|lock| {
            let holder = lock.holder.unwrap_or_default();
            lock.waiters.iter().map(move |waiter| (*waiter, holder))
        });
        waits.collect()
    }

    /// Whether connections wait for each other in a circle, and this one is in it.
    pub fn is_deadlock(&self, of: u64) -> bool {
        let holder_before = |waiter: u64| {
            let lock = self.rows.values().find(|lock| lock.waiters.contains(&waiter))?;
            lock.holder
        };
        let (mut at, mut steps) = (of, 0);
        while let Some(holder) = holder_before(at) {
            if holder == of {
                return true;
            }
            (at, steps) = (holder, steps + 1);
            if steps > self.rows.len() {
                return false;
            }
        }
        false
    }
}

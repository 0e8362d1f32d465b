//! What is asked of a running ProxySQL's administration, and what its answers mean.
//!
//! Does not connect: the caller puts the questions and hands the answers in.

use std::sync::Arc;

use crate::report::Place;
use crate::tables::{KNOWN, Tables};

/// A table that is to be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    table: &'static str,
    stored: String,
    schema: &'static str,
}

impl Wanted {
    /// All of them. What is in force is asked for, not what has been edited since.
    pub fn all() -> Vec<Self> {
        let wanted = |table: &&'static str| match *table {
            "stats_mysql_query_digest" => {
                Self { table, stored: (*table).to_owned(), schema: "stats" }
            }
            _ => Self { table, stored: format!("runtime_{table}"), schema: "main" },
        };
        KNOWN.iter().map(wanted).collect()
    }

    /// Asks for its rows; of digests only for those that rules name. An error: there is no such table.
    pub fn question(&self) -> String {
        let Self { table, stored, schema } = self;
        let which = match *table {
            "stats_mysql_query_digest" => {
                " WHERE digest IN (SELECT digest FROM main.runtime_mysql_query_rules) LIMIT 1000"
            }
            _ => "",
        };
        format!("SELECT * FROM {schema}.{stored}{which}")
    }
}

/// What was answered.
#[derive(Debug, Default)]
pub struct Answers {
    tables: Vec<AnsweredTable>,
}

#[derive(Debug)]
struct AnsweredTable {
    table: &'static str,
    columns: Vec<String>,
    rows: Vec<Vec<Option<String>>>,
}

impl Answers {
    /// Takes the names of a table's columns, and its rows.
    pub fn add(&mut self, wanted: &Wanted, columns: Vec<String>, rows: Vec<Vec<Option<String>>>) {
        self.tables.push(AnsweredTable { table: wanted.table, columns, rows });
    }

    /// Whether there are servers among them, without which nothing else is of use.
    pub fn have_servers(&self) -> bool {
        self.tables.iter().any(|it| {
            it.table == "mysql_servers" && it.columns.iter().any(|name| name == "hostname")
        })
    }

    pub(crate) fn tables(&self, source: &Arc<str>) -> Tables {
        let mut tables = Tables::default();
        for AnsweredTable { table, columns, rows } in &self.tables {
            let file: Arc<str> = format!("{source}:{table}").into();
            for (line, row) in (1..).zip(rows) {
                let place = Place::new(Arc::clone(&file), line);
                tables.add_values(place, table, columns.iter().map(|it| &**it), row.clone());
            }
        }
        tables
    }
}

//! What is asked of a running ProxySQL's administration, and what its answers mean.
//!
//! Does not connect: the caller puts the questions and hands the answers in.

use std::sync::Arc;

use crate::create_table;
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

    /// Whether it is the table without which nothing else is of use.
    pub fn is_of_servers(&self) -> bool {
        self.table == "mysql_servers"
    }

    /// Asks how the table was made: the second column of the first row tells. An error: there is none.
    pub fn columns_question(&self) -> String {
        format!("SHOW CREATE TABLE {}.{}", self.schema, self.stored)
    }

    /// Asks for its rows. Of digests only those that rules name.
    pub fn rows_question(&self) -> String {
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
    /// Takes how a table was made, and its rows.
    pub fn add(&mut self, wanted: &Wanted, made: &str, rows: Vec<Vec<Option<String>>>) {
        let columns = create_table::columns(made).into_iter().map(|column| column.name);
        self.tables.push(AnsweredTable { table: wanted.table, columns: columns.collect(), rows });
    }

    pub(crate) fn tables(&self, source: &Arc<str>) -> Tables {
        let mut tables = Tables::default();
        for AnsweredTable { table, columns, rows } in &self.tables {
            for row in rows {
                tables.add_values(source, table, columns.iter().map(|it| &**it), row.clone());
            }
        }
        tables
    }
}

//! What SQL on the console is answered from: which schemas there are, and which tables are in each.
//!
//! A table is made when a statement names it, and not before; what makes it is told in [`super::tables`],
//! [`super::any_server`] and [`super::proxysql`].

use std::cell::RefCell;
use std::sync::Arc;

use view::narrow::{self, Narrow};
use view::sql::{Answer, Query, Session, Source, SqlError, TableForm, TableName};
use view::table::{Column, Table, Value};

use super::queries::Queries;
use super::tables::{SHOWN, Shown};
use super::{Outside, any_server, help, proxysql};

/// The schema of Flifo's own tables, which are found from every other one too.
pub(super) const OWN_SCHEMA: &str = "flifo";

/// The schema of the tables that tell of tables.
pub(super) const INFORMATION: &str = "information_schema";

/// All schemas. ProxySQL has `main` and `stats`; tools ask for a user in `mysql`.
pub(super) const SCHEMAS: [&str; 5] = [OWN_SCHEMA, INFORMATION, "main", "mysql", "stats"];

/// What a visitor may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rights {
    Look,
    Change,
}

/// Different tables in one statement.
const TABLES_MAX: usize = 16;

/// A schema by its name in any case.
pub(super) fn schema(name: &str) -> Option<&'static str> {
    SCHEMAS.into_iter().find(|known| known.eq_ignore_ascii_case(name))
}

/// A table that stands in a schema.
#[derive(Clone, Copy)]
pub(super) struct Listed {
    pub(super) schema: &'static str,
    pub(super) name: &'static str,
    pub(super) columns: &'static [Column],
}

/// All tables of all schemas.
pub(super) fn all() -> impl Iterator<Item = Listed> {
    let of = |schema: fn(&Shown) -> &'static str| {
        move |shown: &'static Shown| Listed {
            schema: schema(shown),
            name: shown.name,
            columns: shown.columns,
        }
    };
    let own = SHOWN.iter().map(of(|_| OWN_SCHEMA));
    let theirs = proxysql::TABLES.iter().map(of(proxysql::schema_of));
    let any = any_server::TABLES.iter();
    own.chain(theirs).chain(any.map(|&(schema, name, columns)| Listed { schema, name, columns }))
}

/// The table that is meant by a name with or without a schema.
pub(super) fn find(schema: Option<&str>, name: &str, session: &Session) -> Option<Listed> {
    let named = || all().filter(|listed| listed.name.eq_ignore_ascii_case(name));
    match schema {
        Some(INFORMATION | "mysql") => named().find(|it| Some(it.schema) == schema),
        // The schemas of Flifo and ProxySQL are one: no name is in two of them.
        Some(_) => named().find(|it| ![INFORMATION, "mysql"].contains(&it.schema)),
        None => {
            let here = session.schema.as_deref();
            named().find(|it| Some(it.schema) == here).or_else(|| named().next())
        }
    }
}

/// The answer to a statement, computed by these.
pub(super) async fn answer(
    outside: &Outside,
    session: &Session,
    rights: Rights,
    query: Query,
    queries: &Queries,
) -> Result<Answer, SqlError> {
    let query = Arc::new(query);
    let mut source =
        Made { session: session.clone(), tables: Vec::new(), missing: RefCell::default() };
    let answer = loop {
        let asked = Arc::clone(&query);
        let run = move || {
            let answer = asked.run(&source);
            (source, answer)
        };
        let (given_back, answer) = queries.ask(run).await?;
        source = given_back;
        match answer {
            Ok(answer) => break answer,
            Err(error) => {
                let Some(name) = source.missing.take() else { return Err(error) };
                if source.tables.len() == TABLES_MAX {
                    let message = format!("Too many tables: a statement may name {TABLES_MAX}");
                    return Err(own_error(1116, b"HY000", message));
                }
                let table = make(outside, session, rights, &name).await?;
                source.tables.push((name, table));
            }
        }
    };
    let narrowed = query.shown().filter(|shown| shown.form == TableForm::Shown);
    let columns = narrowed.and_then(|shown| match shown.name.as_str() {
        "help" => Some(help::NARROW),
        name => Shown::named(name).map(|shown| shown.narrow),
    });
    Ok(match columns {
        Some(columns) if !columns.is_empty() => narrow::narrow(&answer, columns, session.now),
        _ => answer,
    })
}

const fn own_error(code: u16, sqlstate: &'static [u8; 5], message: String) -> SqlError {
    SqlError { code, sqlstate, message }
}

/// The tables of one statement, as far as they have been made.
struct Made {
    session: Session,
    tables: Vec<(TableName, Table)>,
    /// What the statement has named that has not been made.
    missing: RefCell<Option<TableName>>,
}

impl Source for Made {
    fn table(&self, name: &TableName) -> Option<&Table> {
        let found = self.tables.iter().find(|(known, _)| known == name).map(|(_, table)| table);
        if found.is_none() {
            *self.missing.borrow_mut() = Some(name.clone());
        }
        found
    }

    fn titles(&self, name: &TableName) -> &'static [Narrow] {
        Shown::named(&name.name).map_or(&[], |shown| shown.narrow)
    }

    fn variable(&self, name: &str) -> Option<Value> {
        any_server::variable(name)
    }

    fn session(&self) -> &Session {
        &self.session
    }
}

async fn make(
    outside: &Outside,
    session: &Session,
    rights: Rights,
    name: &TableName,
) -> Result<Table, SqlError> {
    let given = name.schema.as_deref();
    let unknown = |name: &str| own_error(1049, b"42000", format!("Unknown database '{name}'"));
    let schema = given.map(|given| schema(given).ok_or_else(|| unknown(given))).transpose()?;
    if name.form != TableForm::Selected {
        if name.name == "help" {
            let found = help::help(name.of.as_deref().map(str::to_ascii_uppercase).as_deref());
            return found.map_err(|message| own_error(1064, b"42000", message));
        }
        if let Some(made) = any_server::shown(outside, session, schema, name).await? {
            return Ok(made);
        }
        let found = Shown::named(&name.name).ok_or_else(|| {
            let names: Vec<_> = SHOWN.iter().map(|it| it.name.to_uppercase()).collect();
            let message = format!("there is no {}; SHOW knows {}", name.name, names.join(", "));
            own_error(1146, b"42S02", message)
        })?;
        return Ok(found.make(outside).await);
    }
    let listed = find(schema, &name.name, session);
    let missing = || {
        let schema = schema.or(session.schema.as_deref()).unwrap_or(OWN_SCHEMA);
        let message =
            format!("Table '{schema}.{}' doesn't exist; SHOW TABLES lists them", name.name);
        own_error(1146, b"42S02", message)
    };
    let listed = listed.ok_or_else(missing)?;
    let own = Shown::named(listed.name).filter(|_| listed.schema == OWN_SCHEMA);
    let theirs =
        || proxysql::named(listed.name).filter(|it| proxysql::schema_of(it) == listed.schema);
    match own.or_else(theirs) {
        Some(shown) => {
            if shown.name == proxysql::DIGEST_RESET && rights == Rights::Look {
                let message = "Access denied: reading this table has its figures begin at zero";
                return Err(own_error(1227, b"42000", message.to_owned()));
            }
            let table = shown.make(outside).await;
            if shown.name == proxysql::DIGEST_RESET {
                // It cannot fail: the name is known.
                let _ = outside.reset(Some("digests")).await;
            }
            Ok(table)
        }
        None => Ok(any_server::table(outside, listed).await),
    }
}

//! Reads configurations of other proxies, and writes one for Flifo with a report of what became what.
//!
//! Owns the syntax and the meaning of what ProxySQL, MaxScale and HAProxy are told, and of lists of users. Reads no
//! file and asks no server: bytes come in, texts go out. Whether Flifo takes the result, `proxy::config` says.
//!
//! Each kind of source has a file that reads its syntax and others that know its meaning; all of them fill one draft
//! ([`draft`]) and one report. How rules and clusters are written, [`form`] alone knows.
//!
//! Invariants: no input panics; memory is in proportion to the input; nothing is left out without a line in the report.

pub mod admin;
mod draft;
mod dump;
mod form;
mod haproxy;
mod ini;
mod libconfig;
mod maxscale;
mod password;
mod proxysql;
mod recognize;
mod report;
mod settle;
mod syntax;
mod tables;
mod userlist;
mod value;
mod work;

use std::sync::Arc;

pub use self::recognize::Kind;
pub use self::report::{Finding, Outcome, Place, Report};
pub use self::syntax::SyntaxError;

use self::admin::Answers;
use self::work::Work;

/// One thing to read.
#[derive(Debug)]
pub struct Source {
    /// What it is called in the report.
    pub name: String,
    pub contents: Contents,
}

/// What is to be read.
#[derive(Debug)]
pub enum Contents {
    /// A file; without a kind, its content tells it.
    File { bytes: Vec<u8>, kind: Option<Kind> },
    /// What ProxySQL's administration has answered.
    Admin(Answers),
}

/// What comes out.
#[derive(Debug)]
pub struct Imported {
    /// The configuration. There may be passwords in it.
    pub text: String,
    pub report: Report,
}

/// Why something cannot be read. Then nothing comes out.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("{0} is of no known kind: name it with --from")]
    UnknownKind(String),
    #[error("{0} is not UTF-8 text")]
    NoText(String),
    #[error("{0}: {1}")]
    Syntax(String, SyntaxError),
    #[error(
        "{0} is ProxySQL's database itself. `sqlite3 {0} .dump > proxysql.sql` makes a text of it that can be \
         imported; a running ProxySQL is asked with --proxysql"
    )]
    Database(String),
    #[error("there is nothing in {0} that a proxy could be made of")]
    Nothing(String),
}

/// Makes one configuration of all sources.
pub fn import(sources: &[Source]) -> Result<Imported, ImportError> {
    let mut work = Work::default();
    for source in sources {
        read(source, &mut work)?;
    }
    let names: Vec<_> = sources.iter().map(|source| report::plain(&source.name)).collect();
    let names = names.join(" ");
    if work.report.findings().is_empty() {
        return Err(ImportError::Nothing(names));
    }
    settle::settle(&mut work, &names);
    let Work { draft, mut report } = work;
    report.sort();
    let head = [
        format!(
            "Made of {names} by `flifo import`, whose report tells what differs there and what is missing here."
        ),
        "Passwords may stand here: let Flifo's user alone read this file.".to_owned(),
    ];
    Ok(Imported { text: draft.written(&head), report })
}

fn read(source: &Source, work: &mut Work) -> Result<(), ImportError> {
    let name = || source.name.clone();
    let file: Arc<str> = report::plain(&source.name).into();
    let (bytes, kind) = match &source.contents {
        Contents::Admin(answers) => {
            proxysql::convert(&answers.tables(&file), work);
            return Ok(());
        }
        Contents::File { bytes, kind } => (bytes, *kind),
    };
    if bytes.starts_with(b"SQLite format 3\0") {
        return Err(ImportError::Database(name()));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| ImportError::NoText(name()))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let kind = kind.or_else(|| recognize::kind(text));
    let read = match kind.ok_or_else(|| ImportError::UnknownKind(name()))? {
        Kind::ProxySql => {
            tables::of_file(&file, text, work).map(|tables| proxysql::convert(&tables, work))
        }
        Kind::ProxySqlDump => {
            dump::read(&file, text).map(|tables| proxysql::convert(&tables, work))
        }
        Kind::MaxScale => {
            ini::parse(text).map(|sections| maxscale::convert(&file, &sections, work))
        }
        Kind::HaProxy => haproxy::convert(&file, text, work),
        Kind::UserList => userlist::convert(&file, text, work),
    };
    read.map_err(|error| ImportError::Syntax(name(), error))
}

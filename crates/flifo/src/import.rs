//! `flifo import`: files are read, ProxySQL's administration is asked, and a configuration is written.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use ::import::admin::{Answers, Wanted};
use ::import::{Contents, ImportError, Imported, Kind, Source};
use backend::login::{self, Blocking, BlockingError, LoggedIn, LoginError};
use proxy::Address;
use proxy::config;
use shell::{CONFIG, UNAVAILABLE, USAGE, complain, print};
use wire::auth::Secret;
use wire::bytes::Reader;
use wire::command::Opcode;
use wire::rows;

use crate::arguments::{Import, SourceKind};

/// Something that ends the import, with its exit status; the reason has been told.
type Failure = u8;

pub(crate) fn run(arguments: &Import) -> u8 {
    let made = sources(arguments).and_then(|sources| {
        ::import::import(&sources).map_err(|error| {
            complain(&error);
            if matches!(error, ImportError::UnknownKind(_)) { USAGE } else { CONFIG }
        })
    });
    let made = match made {
        Ok(made) => made,
        Err(status) => return status,
    };
    match put(arguments, &made.text) {
        Ok(()) => tell(arguments, &made),
        Err(error) => {
            complain(format_args!("{} cannot be written: {error}", arguments.output.display()));
            if error.kind() == io::ErrorKind::AlreadyExists {
                complain("--force replaces it");
            }
            UNAVAILABLE
        }
    }
}

/// Prints the report, and what Flifo says of the configuration.
fn tell(arguments: &Import, made: &Imported) -> u8 {
    let name = arguments.output.display().to_string();
    let problems = config::parse(&made.text, &name).err().unwrap_or_default();
    let text = match arguments.json {
        true => serde_json::to_string_pretty(&made.report).unwrap_or_default() + "\n",
        false => made.report.to_string(),
    };
    match is_standard(&arguments.output) {
        true => eprint!("{text}"),
        false => print(&text),
    }
    for problem in &problems {
        complain(problem);
    }
    let is_complete = problems.is_empty();
    if is_complete { made.report.status() } else { NOT_CONVERTED }
}

/// As a report has it that something was not converted.
const NOT_CONVERTED: u8 = 2;

fn is_standard(output: &Path) -> bool {
    output.as_os_str() == "-"
}

/// Writes the configuration so that its user alone can read it.
fn put(arguments: &Import, text: &str) -> io::Result<()> {
    if is_standard(&arguments.output) {
        print(text);
        return Ok(());
    }
    let output = &arguments.output;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    if !arguments.force {
        return options.open(output)?.write_all(text.as_bytes());
    }
    // The old file is there until the new one is whole.
    let mut beside = output.as_os_str().to_owned();
    beside.push(".new");
    // It may be there from a run that was interrupted.
    let _ = std::fs::remove_file(&beside);
    options.open(&beside)?.write_all(text.as_bytes())?;
    std::fs::rename(&beside, output)
}

fn sources(arguments: &Import) -> Result<Vec<Source>, Failure> {
    let mut sources = Vec::new();
    if let Some(text) = &arguments.proxysql {
        let address = text.parse::<Address>().map_err(|error| {
            complain(format_args!("--proxysql: {error}"));
            USAGE
        })?;
        let answers = ask(&address, arguments).map_err(|error| {
            complain(format_args!("ProxySQL's administration on {address}: {error}"));
            UNAVAILABLE
        })?;
        sources.push(Source { name: text.clone(), contents: Contents::Admin(answers) });
    }
    let kind = arguments.from.map(|from| match from {
        SourceKind::Proxysql => Kind::ProxySql,
        SourceKind::ProxysqlDump => Kind::ProxySqlDump,
        SourceKind::Maxscale => Kind::MaxScale,
        SourceKind::Haproxy => Kind::HaProxy,
        SourceKind::Userlist => Kind::UserList,
    });
    for path in &arguments.files {
        let bytes = read(path).map_err(|error| {
            complain(format_args!("{} cannot be read: {error}", path.display()));
            UNAVAILABLE
        })?;
        let name = path.display().to_string();
        sources.push(Source { name, contents: Contents::File { bytes, kind } });
    }
    Ok(sources)
}

/// Reads a file of bounded length.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 <= BYTES_MAX {
        true => Ok(bytes),
        false => Err(io::Error::other("it has more than 64 MiB")),
    }
}

const BYTES_MAX: u64 = 64 << 20;

/// Why ProxySQL could not be asked.
#[derive(Debug, thiserror::Error)]
enum AskError {
    #[error(transparent)]
    Failed(#[from] BlockingError),
    #[error("the password cannot be read: {0}")]
    Password(io::Error),
    #[error("it has no table of servers: is it the administration's port?")]
    NoTables,
    #[error("{0} has more than {ROWS_MAX} rows")]
    TooMany(String),
}

fn ask(address: &Address, arguments: &Import) -> Result<Answers, AskError> {
    let password = match &arguments.password_file {
        Some(file) => std::fs::read_to_string(file)
            .map_err(AskError::Password)?
            .trim_end_matches(['\r', '\n'])
            .to_owned(),
        None => std::env::var("MYSQL_PWD").unwrap_or_else(|_| "admin".to_owned()),
    };
    let mut admin =
        Blocking::log_in(address, &arguments.user, Secret::from(password.as_str()), PATIENCE)?;
    let mut answers = Answers::default();
    for wanted in Wanted::all() {
        let question = wanted.question();
        let Some(Answer { columns, rows }) = answer(&mut admin, &question)? else { continue };
        if ROWS_MAX < rows.len() {
            return Err(AskError::TooMany(question));
        }
        answers.add(&wanted, columns, rows);
    }
    if answers.have_servers() { Ok(answers) } else { Err(AskError::NoTables) }
}

/// The columns of a table, and its rows; `None` is NULL.
struct Answer {
    columns: Vec<String>,
    rows: Vec<Vec<Option<String>>>,
}

/// A table; `None` if there is none of this name.
fn answer(admin: &mut Blocking, question: &str) -> Result<Option<Answer>, AskError> {
    match admin.ask(async |admin| table(admin, question).await) {
        Ok(answer) => Ok(Some(answer)),
        Err(BlockingError::Login(LoginError::Refused { .. })) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn table(admin: &mut LoggedIn, question: &str) -> Result<Answer, LoginError> {
    let query = [&[Opcode::Query as u8], question.as_bytes()].concat();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (mut columns, mut found) = (Vec::new(), Vec::new());
    let capabilities = admin.capabilities;
    let define = |definition: &[u8]| {
        columns.push(text(rows::column_name(definition)?));
        Ok(())
    };
    let take = |row: &mut Reader<'_>| {
        let mut values = Vec::new();
        while !row.is_empty() {
            values.push(rows::value(row)?.map(text));
        }
        found.push(values);
        Ok(found.len() <= ROWS_MAX)
    };
    login::each_row_of_columns(&mut admin.talk, capabilities, &query, define, take).await?;
    Ok(Answer { columns, rows: found })
}

/// More rows are no configuration.
const ROWS_MAX: usize = 100_000;

const PATIENCE: Duration = Duration::from_secs(30);

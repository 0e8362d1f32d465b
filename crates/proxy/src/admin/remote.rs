//! Asks a Flifo that runs for something, by its console: `flifo reload`, `flifo upgrade`.

use std::time::Duration;

use backend::Address;
use backend::login::{self, Blocking, BlockingError, LoggedIn, LoginError};
use serde::Serialize;
use wire::command::Opcode;
use wire::rows;

use crate::config::{Listen, Plan};

/// An option that a reload has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReloadedOption {
    pub name: String,
    /// As the file has it; `None`: not set.
    pub old: Option<String>,
    pub new: Option<String>,
    /// When the new value is in force: now, for new connections, or when Flifo is started again.
    pub in_force: String,
}

/// Why a running Flifo did not do as it was asked.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    #[error(
        "the console cannot be asked to change anything: console.listen names no Unix socket, and console.password is \
         not set. Name one of them, or send the process SIGHUP, which reloads as well"
    )]
    NoConsole,
    #[error("no Flifo can be asked on {address}: {error}")]
    Unreachable { address: Address, error: std::io::Error },
    #[error("Flifo's console on {address}: {error}")]
    Failed { address: Address, error: LoginError },
    #[error("Flifo's console on {0} has not answered within {1:?}")]
    Late(Address, Duration),
    #[error("{0}")]
    Refused(String),
}

/// A reload tries certificates and addresses, and waits for each worker; another Flifo has more than a minute to be ready.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the console of a Flifo with this plan is reached at: a Unix socket, or a port with its password. `address`
/// replaces the plan's.
fn console(plan: &Plan, address: Option<Address>) -> Option<Address> {
    let is_socket = |listen: &&Listen| matches!(listen, Listen::Unix(_));
    let has_password = plan.console.password.is_some();
    let listed = || {
        let listen = &plan.console.listen;
        listen.iter().find(is_socket).or_else(|| listen.first().filter(|_| has_password))
    };
    address.or_else(|| {
        Some(match listed()? {
            Listen::Unix(path) => Address::Unix(path.clone()),
            Listen::Tcp(address) => {
                let host = match address.ip() {
                    ip if ip.is_unspecified() => "localhost".to_owned(),
                    ip => ip.to_string(),
                };
                Address::Tcp { host, port: address.port() }
            }
        })
    })
}

/// What another Flifo that takes over has told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TakenOver {
    pub pid: u32,
    pub version: String,
    /// Clients that it has already, and those that go to it as soon as they can.
    pub moved: u64,
    pub left: u64,
    /// Why these have not gone yet; an older Flifo does not say.
    pub why: String,
}

/// Has the Flifo that runs with this plan, or an older version of it, read its configuration again.
pub fn reload(plan: &Plan, address: Option<Address>) -> Result<Vec<ReloadedOption>, RemoteError> {
    let change = |row: Row| {
        let mut row = row.into_iter();
        let mut next = || row.next().flatten();
        let (name, old, new, in_force) = (next(), next(), next(), next());
        let (name, in_force) = (name.unwrap_or_default(), in_force.unwrap_or_default());
        ReloadedOption { name, old, new, in_force }
    };
    Ok(ask(plan, address, "RELOAD")?.into_iter().map(change).collect())
}

/// Has the Flifo that runs with this plan, or an older version of it, hand over to the program that is installed now.
pub fn upgrade(plan: &Plan, address: Option<Address>) -> Result<TakenOver, RemoteError> {
    let read = |row: &Row| {
        let [Some(pid), Some(version), Some(moved), Some(left), rest @ ..] = &row[..] else {
            return None;
        };
        let why = rest.first().cloned().flatten().unwrap_or_default();
        let (pid, moved, left) = (pid.parse().ok()?, moved.parse().ok()?, left.parse().ok()?);
        Some(TakenOver { pid, version: version.clone(), moved, left, why })
    };
    let told = ask(plan, address, "UPGRADE")?.first().and_then(read);
    told.ok_or_else(|| RemoteError::Refused("the console has not said what was done".to_owned()))
}

/// The statements that a running Flifo has counted, without their literals, and how often it has.
pub fn digests(plan: &Plan, address: Option<Address>) -> Result<Vec<(String, u64)>, RemoteError> {
    let rows = ask(plan, address, "SELECT text, count FROM digests")?;
    let read = |row: Row| {
        let [text, count] = <[Option<String>; 2]>::try_from(row).ok()?;
        // Those that have made room for others have no text.
        Some((text.filter(|it| !it.is_empty())?, count?.parse().ok()?))
    };
    Ok(rows.into_iter().filter_map(read).collect())
}

/// Values of a row of the console's.
type Row = Vec<Option<String>>;

fn ask(plan: &Plan, address: Option<Address>, text: &str) -> Result<Vec<Row>, RemoteError> {
    let address = console(plan, address).ok_or(RemoteError::NoConsole)?;
    let failed = |error| match error {
        BlockingError::Unreachable(error) => {
            RemoteError::Unreachable { address: address.clone(), error }
        }
        BlockingError::Login(error) => RemoteError::Failed { address: address.clone(), error },
        BlockingError::Late(patience) => RemoteError::Late(address.clone(), patience),
    };
    let password = plan.console.password.clone().unwrap_or_default();
    let mut console = Blocking::log_in(&address, USER, password, PATIENCE).map_err(failed)?;
    match console.ask(async |console| rows_of(console, text).await) {
        Err(BlockingError::Login(LoginError::Refused { message, .. })) => {
            Err(RemoteError::Refused(message))
        }
        told => told.map_err(failed),
    }
}

async fn rows_of(console: &mut LoggedIn, text: &str) -> Result<Vec<Row>, LoginError> {
    let query = [&[Opcode::Query as u8], text.as_bytes()].concat();
    let mut answer = Vec::new();
    let capabilities = console.capabilities;
    let told = login::each_row(&mut console.talk, capabilities, &query, |row| {
        let mut values = Row::new();
        while !row.is_empty() {
            let text = rows::value(row)?;
            values.push(text.map(|text| String::from_utf8_lossy(text).into_owned()));
        }
        answer.push(values);
        Ok(true)
    });
    told.await.map(|_| answer)
}

/// The console asks for no name.
const USER: &str = "flifo";

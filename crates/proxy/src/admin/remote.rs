//! Asks a Flifo that runs to read its configuration again, by its console: `flifo reload`.

use std::time::Duration;

use backend::login::{self, Credential, LoginError, Request};
use backend::{Address, dial};
use serde::Serialize;
use wire::capability::Capabilities;
use wire::command::Opcode;
use wire::handshake::UTF8MB4;
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

/// A reload tries certificates and addresses, and waits for each worker.
const PATIENCE: Duration = Duration::from_secs(60);

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

/// Has the Flifo that runs with this plan, or an older version of it, read its configuration again.
pub fn reload(plan: &Plan, address: Option<Address>) -> Result<Vec<ReloadedOption>, RemoteError> {
    let address = console(plan, address).ok_or(RemoteError::NoConsole)?;
    let unreachable = |error| RemoteError::Unreachable { address: address.clone(), error };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(unreachable)?.block_on(async {
        let asked = tokio::time::timeout(PATIENCE, ask(plan, &address));
        asked.await.map_err(|_| RemoteError::Late(address.clone(), PATIENCE))?
    })
}

async fn ask(plan: &Plan, address: &Address) -> Result<Vec<ReloadedOption>, RemoteError> {
    let unreachable = |error| RemoteError::Unreachable { address: address.clone(), error };
    let failed = |error| RemoteError::Failed { address: address.clone(), error };
    let stream = dial::dial(address).await.map_err(unreachable)?;
    let credential = Credential::Password(plan.console.password.clone().unwrap_or_default());
    let request = Request {
        user: USER.as_bytes(),
        credential: &credential,
        capabilities: Capabilities::QUESTIONS,
        collation: UTF8MB4,
        packet_max: 1 << 24,
        schema: None,
    };
    let greeted = login::greet(stream).await.map_err(failed)?;
    let mut console = greeted.login(&request, None).await.map_err(failed)?;
    let query = [&[Opcode::Query as u8], &b"RELOAD"[..]].concat();
    let mut changed = Vec::new();
    let capabilities = console.capabilities;
    let told = login::each_row(&mut console.talk, capabilities, &query, |row| {
        let mut next = || {
            let text = rows::value(row)?;
            Ok(text.map(|text| String::from_utf8_lossy(text).into_owned()))
        };
        let (name, old, new, in_force) = (next()?, next()?, next()?, next()?);
        let (name, in_force) = (name.unwrap_or_default(), in_force.unwrap_or_default());
        changed.push(ReloadedOption { name, old, new, in_force });
        Ok(true)
    });
    match told.await {
        Ok(_) => Ok(changed),
        Err(LoginError::Refused { message, .. }) => Err(RemoteError::Refused(message)),
        Err(error) => Err(failed(error)),
    }
}

/// The console asks for no name.
const USER: &str = "flifo";

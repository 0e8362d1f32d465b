//! The account that the clients log in with, and how a connection is opened.

use std::time::Duration;

use backend::Address;
use backend::login::{BackendTls, Credential, LoginError, Request, greet};
use tokio::time::timeout;
use wire::Capabilities;
use wire::handshake::UTF8MB4;

use super::connection::Connection;

/// What a client shows at the door.
#[derive(Clone, Debug)]
pub struct Account {
    pub user: String,
    pub credential: Credential,
    pub schema: String,
    pub tls: Option<BackendTls>,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{0} cannot be reached: {1}")]
    Unreachable(Address, std::io::Error),
    #[error("{0} did not let a client in within {OPEN_MAX:?}")]
    Late(Address),
    #[error("{0} refused the login: {1}")]
    Login(Address, LoginError),
}

impl OpenError {
    /// The server's number of the error; 0 if it is not the server's.
    pub const fn code(&self) -> u16 {
        match self {
            Self::Login(_, LoginError::Refused { code, .. }) => *code,
            _ => 0,
        }
    }
}

impl Account {
    /// Connects and logs in.
    pub async fn open(&self, address: &Address) -> Result<Connection, OpenError> {
        let open = async {
            let dialled = backend::dial::dial(address).await;
            let stream = dialled.map_err(|error| OpenError::Unreachable(address.clone(), error))?;
            let refused = |error| OpenError::Login(address.clone(), error);
            let greeted = greet(stream).await.map_err(refused)?;
            let version = String::from_utf8_lossy(&greeted.greeting.version).into_owned();
            let request = Request {
                user: self.user.as_bytes(),
                credential: &self.credential,
                capabilities: CAPABILITIES,
                collation: UTF8MB4,
                packet_max: PACKET_MAX,
                schema: Some(self.schema.as_bytes()).filter(|schema| !schema.is_empty()),
            };
            let logged_in = greeted.login(&request, self.tls.as_ref()).await.map_err(refused)?;
            let capabilities = logged_in.capabilities;
            let (stream, _) = logged_in.talk.into_parts();
            Ok(Connection::new(stream, capabilities, version))
        };
        // On the heap, and only as long as it lasts: the login is what a client's task needs most
        // memory for.
        let opened = Box::pin(timeout(OPEN_MAX, open)).await;
        opened.map_err(|_| OpenError::Late(address.clone()))?
    }
}

/// Opens a connection and runs a conversation on it, apart from any load.
pub fn connect_once<T>(
    account: &Account,
    address: &Address,
    talk: impl AsyncFnOnce(Connection) -> T,
) -> Result<T, OpenError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| OpenError::Unreachable(address.clone(), error))?;
    runtime.block_on(async { Ok(talk(account.open(address).await?).await) })
}

/// What sysbench's client library asks for too, as far as it changes what a server sends.
const CAPABILITIES: Capabilities = Capabilities(
    Capabilities::LONG_FLAG.0
        | Capabilities::PROTOCOL_41.0
        | Capabilities::TRANSACTIONS.0
        | Capabilities::SECURE_CONNECTION.0
        | Capabilities::MULTI_STATEMENTS.0
        | Capabilities::MULTI_RESULTS.0
        | Capabilities::PS_MULTI_RESULTS.0
        | Capabilities::PLUGIN_AUTH.0
        | Capabilities::LENENC_AUTH.0
        | Capabilities::CONNECT_ATTRS.0
        | Capabilities::SESSION_TRACK.0
        | Capabilities::DEPRECATE_EOF.0
        | Capabilities::CACHE_METADATA.0,
);
const PACKET_MAX: u32 = 1 << 24;
const OPEN_MAX: Duration = Duration::from_secs(20);

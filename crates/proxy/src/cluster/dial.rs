//! Connections to a server: connecting, the PROXY header, the greeting, a login as a user; each within its time.
//!
//! Knows neither clients nor pools. Invariant: what came of an attempt is told to the server's facts.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backend::dial::Probes;
use backend::login::{BackendTls, Credential, Greeted, LoggedIn, LoginError, Request};
use backend::tls::Mode;
use backend::{Address, Stream};
use engine::account::name::{Brand, Unsure, UserName};
use engine::descriptors::Descriptors;
use wire::Capabilities;
use wire::handshake::Greeting;
use wire::proxy_header::{encode_v2, encode_v2_local};

use crate::cluster::servers::Server;
use crate::config::Live;
use crate::fault::{Fault, Kind};

/// Opens connections to servers.
pub(crate) struct Dialer {
    pub(crate) live: Arc<Live>,
    /// How the process shares its descriptors.
    pub(crate) descriptors: Descriptors,
    /// Users whose accounts want TLS on a Unix socket as well (`REQUIRE SSL`).
    want_tls: Mutex<HashSet<UserName>>,
}

/// More of them are found out again at each login.
const WANT_TLS_MAX: usize = 1000;

/// Why there is no backend.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoBackend {
    #[error("it cannot be reached: {0}")]
    Unreachable(io::Error),
    #[error(
        "Flifo may open no more files: raise LimitNOFILE= in its unit (ulimit -n), or lower \
         clients_max and server.connections_max"
    )]
    NoDescriptor,
    #[error("it did not answer within {0} ({1:?})")]
    Late(&'static str, Duration),
    #[error("{0}")]
    Login(#[from] LoginError),
    #[error(
        "no password is known for the user: the one that was known is right no longer, or only its \
         hash is known, and no client has proved it yet"
    )]
    NoCredential,
    #[error("it lets the user in without a proof of the password by caching_sha2_password")]
    NoProof,
    #[error(
        "Flifo does not understand the server's answer to SHOW CREATE USER, and so does not know \
         what the account requires; set the user's mode to \"pass-through\""
    )]
    NoTerms,
    #[error("{0}")]
    Name(#[from] Unsure),
    #[error(
        "it does not report changes of session state, and the password of a user that shares no backends there is not \
         kept"
    )]
    NoTracking,
    #[error("Flifo met a fault of its own while it connected; the log has it as ERROR")]
    Panicked,
}

impl NoBackend {
    /// Whether one more connection is what there is no room for, at the server or here.
    pub(crate) const fn lacks_room(&self) -> bool {
        match self {
            Self::NoDescriptor => true,
            Self::Login(LoginError::Refused { code, .. }) => *code == TOO_MANY_CONNECTIONS,
            _ => false,
        }
    }

    /// Whether the server has too much to do: a wrong password says nothing of that, nor does a dead server.
    pub(crate) const fn is_distress(&self) -> bool {
        let code = match self {
            Self::Login(LoginError::Refused { code, .. }) => *code,
            _ => 0,
        };
        matches!(self, Self::Late(..)) || code == TOO_MANY_CONNECTIONS
    }

    /// Whether another server might do, because this one does not answer.
    pub(crate) const fn speaks_against_server(&self) -> bool {
        let is_shutting_down = match self {
            Self::Login(LoginError::Refused { code, .. }) => *code == SHUTTING_DOWN,
            Self::Login(LoginError::Talk(_)) => true,
            _ => false,
        };
        is_shutting_down || matches!(self, Self::Unreachable(_) | Self::Late(..))
    }

    /// Whether the server says by it that backends of this user cannot be opened by this password. Whatever else goes
    /// wrong may pass: it has too much to do, or is not there.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::Login(LoginError::Refused { code, sqlstate, .. }) => {
                sqlstate.starts_with("28") || REFUSALS.contains(code)
            }
            Self::Login(
                LoginError::Plugin(_)
                | LoginError::Insecure
                | LoginError::UnknownKey
                | LoginError::Unverified,
            ) => true,
            Self::NoTracking | Self::NoProof => true,
            _ => false,
        }
    }

    /// Whether the server says by it that the password is not the account's; or that the account is not for this host.
    pub(crate) const fn is_wrong_password(&self) -> bool {
        let code = match self {
            Self::Login(LoginError::Refused { code, .. }) => *code,
            _ => 0,
        };
        matches!(code, ACCESS_DENIED | NO_PASSWORD)
    }

    /// What a client is told.
    pub(crate) fn fault(&self, server: &Server) -> Fault {
        if let Self::Login(LoginError::Refused { code, sqlstate, message }) = self {
            return Fault::relayed(*code, sqlstate, message);
        }
        let message =
            format!("Flifo has no backend connection to the server at {}: {self}", server.address);
        Fault::new(Kind::ServerUnreachable, message)
    }
}

/// Access denied for any reason that lies in the account: its host, its plugin, its password, which may have expired, a
/// lock.
const REFUSALS: [u16; 10] = [1045, 1130, 1251, 1524, 1698, 1820, 1862, 3118, 3955, 4151];

/// By whose rules the server that greeted so reads names.
pub(crate) fn brand(greeting: &Greeting) -> Brand {
    if greeting.is_mariadb() { Brand::MariaDb } else { Brand::MySql }
}

/// The server's own refusal, `ER_CON_COUNT_ERROR`.
pub(crate) const TOO_MANY_CONNECTIONS: u16 = 1040;

/// `ER_SERVER_SHUTDOWN`.
const SHUTTING_DOWN: u16 = 1053;

/// What a pooled backend asks for beyond what its clients have.
pub(crate) const POOLED: Capabilities = Capabilities(
    Capabilities::LONG_PASSWORD.0
        | Capabilities::LONG_FLAG.0
        | Capabilities::PROTOCOL_41.0
        | Capabilities::TRANSACTIONS.0
        | Capabilities::SECURE_CONNECTION.0
        | Capabilities::PLUGIN_AUTH.0
        | Capabilities::LENENC_AUTH.0
        | Capabilities::CONNECT_ATTRS.0
        | Capabilities::SESSION_TRACK.0
        // Else what a SELECT has changed would be told with the next statement. Clients that cannot do with it have
        // backends without it; see `crate::road::unreported`.
        | Capabilities::DEPRECATE_EOF.0,
);

impl Dialer {
    pub(crate) fn new(live: Arc<Live>, descriptors: Descriptors) -> Self {
        Self { live, descriptors, want_tls: Mutex::default() }
    }

    /// Connects and reads the greeting, within the time that is allowed.
    pub(crate) async fn greeted_once(
        &self,
        server: &Server,
        client: Option<SocketAddr>,
    ) -> Result<Greeted, NoBackend> {
        let limits = &self.live.get().limits;
        let (limit, probes) = (limits.connect, Probes::within(limits.server_silence));
        let connect = async {
            server.facts.dials.want();
            let stream = server.place.dial().await.map_err(not_dialled)?;
            server.facts.dials.take();
            probes.set_on(&stream).map_err(NoBackend::Unreachable)?;
            if !self.descriptors.admit_backend(stream.descriptor()) {
                return Err(NoBackend::NoDescriptor);
            }
            self.send_header(server, &stream, client).await.map_err(NoBackend::Unreachable)?;
            backend::login::greet(stream).await.map_err(NoBackend::from)
        };
        let greeted = match tokio::time::timeout(limit, connect).await {
            Ok(greeted) => greeted,
            Err(_) => Err(NoBackend::Late("limits.connect", limit)),
        };
        server.facts.see(&greeted);
        let greeted = greeted?;
        server.facts.learn(&greeted.greeting);
        Ok(greeted)
    }

    /// Connects, and logs in as this user.
    pub(crate) async fn log_in_as(
        &self,
        server: &Server,
        user: &UserName,
        credential: &Credential,
        capabilities: Capabilities,
        collation: u8,
    ) -> Result<LoggedIn, NoBackend> {
        let greeted = self.greeted_once(server, None).await?;
        // On a Unix socket TLS is not needed for secrecy, but an account may demand it.
        let is_spared = matches!(server.address, Address::Unix(_))
            && greeted.greeting.capabilities.has(Capabilities::SSL)
            && server.tls().pooled.as_ref().is_some_and(|tls| tls.mode == Mode::Preferred);
        let wants_tls = is_spared && self.want_tls().contains(user);
        let login = async |greeted: Greeted, tls: OnSocket| {
            self.log_in(server, greeted, user, credential, capabilities, collation, tls).await
        };
        let first = login(greeted, if wants_tls { OnSocket::Tls } else { OnSocket::Plain }).await;
        let is_denied =
            matches!(first, Err(NoBackend::Login(LoginError::Refused { code: ACCESS_DENIED, .. })));
        if !is_spared || wants_tls || !is_denied {
            return first;
        }
        let again = self.greeted_once(server, None).await?;
        match login(again, OnSocket::Tls).await {
            Ok(logged_in) => {
                let mut want_tls = self.want_tls();
                if want_tls.len() < WANT_TLS_MAX {
                    want_tls.insert(user.clone());
                }
                Ok(logged_in)
            }
            // That says no more.
            Err(_) => first,
        }
    }

    fn want_tls(&self) -> MutexGuard<'_, HashSet<UserName>> {
        self.want_tls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same on a connection whose server has greeted.
    pub(crate) async fn log_in_on(
        &self,
        server: &Server,
        greeted: Greeted,
        user: &UserName,
        credential: &Credential,
        capabilities: Capabilities,
        collation: u8,
    ) -> Result<LoggedIn, NoBackend> {
        let tls = OnSocket::Plain;
        self.log_in(server, greeted, user, credential, capabilities, collation, tls).await
    }

    #[expect(clippy::too_many_arguments, reason = "all that a login says")]
    async fn log_in(
        &self,
        server: &Server,
        greeted: Greeted,
        user: &UserName,
        credential: &Credential,
        capabilities: Capabilities,
        collation: u8,
        on_socket: OnSocket,
    ) -> Result<LoggedIn, NoBackend> {
        let sent = user.in_login(collation.into(), brand(&greeted.greeting))?;
        let request = Request {
            user: &sent,
            credential,
            capabilities,
            collation,
            packet_max: u32::try_from(self.live.get().limits.packet_max).unwrap_or(u32::MAX),
            schema: None,
        };
        let limit = self.live.get().limits.login;
        let tls = server.tls();
        let tls = match (tls.pooled.clone(), on_socket) {
            (Some(tls), OnSocket::Tls) => Some(BackendTls { mode: Mode::Required, ..tls }),
            (tls, _) => tls,
        };
        let login = greeted.login(&request, tls.as_ref());
        let login = tokio::time::timeout(limit, login).await;
        Ok(login.map_err(|_| NoBackend::Late("limits.login", limit))??)
    }

    /// Begins a backend with a header, if the server expects one: the client's addresses, or none for a backend that is
    /// shared.
    async fn send_header(
        &self,
        server: &Server,
        stream: &Stream,
        client: Option<SocketAddr>,
    ) -> io::Result<()> {
        if !server.sends_header() {
            return Ok(());
        }
        let mut header = Vec::new();
        match (client, stream.addresses()) {
            (Some(source), Some((destination, _))) => encode_v2(source, destination, &mut header),
            _ => encode_v2_local(&mut header),
        }
        stream.write_all(&header).await
    }
}

/// What a Unix socket has of TLS that need not have any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnSocket {
    Plain,
    Tls,
}

/// `ER_ACCESS_DENIED_ERROR`: the password is wrong, or there is no such user.
pub(crate) const ACCESS_DENIED: u16 = 1045;

/// `ER_ACCESS_DENIED_NO_PASSWORD_ERROR`.
pub(crate) const NO_PASSWORD: u16 = 1698;

/// Why there is no connection. That Flifo has no descriptor left does not speak against the server.
fn not_dialled(error: io::Error) -> NoBackend {
    match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => NoBackend::NoDescriptor,
        _ => NoBackend::Unreachable(error),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn refusals_lie_in_the_account() {
        let refused = |code: u16, sqlstate: &str| {
            let (sqlstate, message) = (sqlstate.to_owned(), String::new());
            NoBackend::Login(LoginError::Refused { code, sqlstate, message }).is_refusal()
        };
        assert!(refused(1045, "28000") && refused(1698, "28000") && refused(3118, "HY000"));
        assert!(refused(1862, "HY000") && refused(9999, "28000"));
        // Too many connections, of all or of the user; the server shuts down.
        assert!(!refused(1040, "08004") && !refused(1203, "42000") && !refused(1226, "42000"));
        assert!(!refused(1053, "08S01"));
        assert!(NoBackend::NoProof.is_refusal() && NoBackend::NoTracking.is_refusal());
        assert!(!NoBackend::Late("limits.connect", Duration::ZERO).is_refusal());
        assert!(!NoBackend::NoCredential.is_refusal());
    }
}

//! The operating system's user that Flifo runs as, and the server's account of that name.
//!
//! On a Unix socket a server may ask the kernel which user is at the other end, and want no password of that user
//! (`unix_socket`, `auth_socket`). That user is Flifo's, whichever client it serves. So the account of this name would
//! be open to every client of Flifo. Before a client is passed through under this name, Flifo therefore tries the name
//! with a password that cannot be right. Accounts that are told to accept another name (`VIA unix_socket AS`) are found
//! by what the server shows of them ([`crate::frontend::held`]).
//!
//! The names that matter most are root's and the server's own: servers are installed with an
//! account that may do everything for each. Flifo serves as neither unless it is told to (`crate::run::hardening`).

use std::sync::LazyLock;

use backend::Stream;
use backend::login::LoginError;
use backend::stream::Peer;
use engine::account::name::UserName;
use wire::handshake::UTF8MB4;
use wire::handshake::{AuthPacket, Login};
use wire::{Capabilities, Malformed};

use crate::cluster::dial::{self, NoBackend};
use crate::cluster::servers::Server;
use crate::fault::{Fault, Kind};
use crate::pool::opener;
use crate::state::worker::Worker;

static OWN: LazyLock<(u32, Option<Vec<u8>>)> = LazyLock::new(sys::process::user);

/// Says whether this is the name of the user that Flifo runs as.
pub(crate) fn is_own(user: &UserName) -> bool {
    OWN.1.as_deref() == Some(user.as_bytes())
}

/// Says whether the server could take Flifo for this user, and the client is another user's.
pub(crate) fn is_named(user: &UserName, client: &Stream, server: &Stream) -> bool {
    is_lent(client, server) && is_own(user)
}

/// Says whether the server sees Flifo's process where the client is another user's: on its Unix socket, TLS or not.
pub(crate) fn is_lent(client: &Stream, server: &Stream) -> bool {
    let (uid, _) = &*OWN;
    let is_unix = server.addresses().is_none();
    let is_same = matches!(client.peer(), Peer::Unix { uid: client, .. } if client == *uid);
    is_unix && !is_same
}

/// Says whether the server lets Flifo in as this user without the password, or whether that cannot be found out.
pub(crate) async fn is_open(worker: &Worker, server: &Server, user: &UserName) -> bool {
    let limit = worker.plan().limits.login;
    match tokio::time::timeout(limit, is_let_in(worker, server, user)).await {
        Ok(Ok(is_let_in)) => is_let_in,
        Ok(Err(error)) => {
            tracing::debug!(%user, %error, "it is not known whether the server asks this user for a password");
            true
        }
        Err(_) => true,
    }
}

/// Logs in with proofs that are wrong, whatever plugin they are asked for by.
async fn is_let_in(worker: &Worker, server: &Server, user: &UserName) -> Result<bool, NoBackend> {
    let greeted = opener::greeted(&worker.pool, server, None).await?;
    let mut login = Login {
        capabilities: CAPABILITIES & greeted.greeting.capabilities,
        packet_max: u32::MAX,
        collation: UTF8MB4,
        user: user.in_login(UTF8MB4.into(), dial::brand(&greeted.greeting))?,
        response: wrong(NATIVE)?,
        schema: None,
        plugin: Some(NATIVE.to_vec()),
        attributes: Vec::new(),
        zstd_level: None,
    };
    let mut talk = greeted.secure(server.tls().pooled.as_ref(), &mut login).await?.talk;
    let mut payload = Vec::new();
    login.encode(&mut payload);
    talk.write(&payload).await.map_err(LoginError::from)?;
    for _ in 0..QUESTIONS_MAX {
        let payload = talk.read().await.map_err(LoginError::from)?;
        let plugin = match AuthPacket::decode(&payload).map_err(LoginError::from)? {
            AuthPacket::Ok => return Ok(true),
            AuthPacket::Err => return Ok(false),
            AuthPacket::Switch { plugin, .. } => plugin,
            AuthPacket::More(_) | AuthPacket::Bare(_) => b"",
        };
        talk.write(&wrong(plugin)?).await.map_err(LoginError::from)?;
    }
    Err(LoginError::from(Malformed::new("number of questions in a login")).into())
}

/// A proof that is wrong, and as long as the plugin wants it: the next one of an account is tried only then.
fn wrong(plugin: &[u8]) -> Result<Vec<u8>, NoBackend> {
    let len = match plugin {
        NATIVE => 20,
        b"client_ed25519" => 64,
        _ => 32,
    };
    let mut proof = vec![0; len];
    sys::random::fill(&mut proof)
        .map_err(|error| NoBackend::Unreachable(std::io::Error::other(error)))?;
    // Some want a text, up to a zero byte.
    proof.iter_mut().for_each(|byte| *byte |= 1);
    if len == 32 {
        proof.push(0);
    }
    Ok(proof)
}

/// What a client is told that the server would have let in as Flifo.
pub(crate) fn denied(user: &UserName) -> Fault {
    let name = user;
    let message = format!(
        "Access denied for user '{name}': the server asks for no password, because Flifo itself \
         runs as the operating system's user '{name}' (plugin unix_socket), and Flifo does not \
         extend this to its clients. Run Flifo as a user of its own, or connect to the server \
         directly"
    );
    Fault::new(Kind::AccessDenied, message)
}

const CAPABILITIES: Capabilities = Capabilities(
    Capabilities::LONG_PASSWORD.0
        | Capabilities::LENENC_AUTH.0
        | Capabilities::PROTOCOL_41.0
        | Capabilities::SECURE_CONNECTION.0
        | Capabilities::PLUGIN_AUTH.0,
);
/// No plugin asks for more than a few answers.
const QUESTIONS_MAX: usize = 16;

const NATIVE: &[u8] = b"mysql_native_password";

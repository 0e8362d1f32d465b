//! The operating system's user that Flifo runs as, and the server's account of that name.
//!
//! On a Unix socket a server may ask the kernel who is at the other end, and want no password of
//! him (`unix_socket`, `auth_socket`): that is Flifo, whoever its client is. Through Flifo, the
//! account of its name would be open to everybody. So before a client is carried under this name,
//! Flifo tries the name with a password that cannot be right. Not known here: accounts that are
//! told to accept another name (`VIA unix_socket AS`).
//!
//! The names that matter most are root's and the server's own: servers are installed with an
//! account that may do everything for each. Who lets Flifo run as either is warned at the start.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::LazyLock;

use engine::account::name::UserName;
use link::login::LoginError;
use link::stream::Peer;
use link::{Address, Stream};
use wire::handshake::{AuthPacket, Login};
use wire::{Capabilities, Malformed};

use crate::fault::{Fault, Kind};
use crate::links::opener::{self, NoLink};
use crate::servers::Server;
use crate::worker::Worker;

static OWN: LazyLock<(u32, Option<Vec<u8>>)> = LazyLock::new(sys::process::user);

/// Warns of a user that Flifo should not run as, before this server.
pub(crate) fn warn(server: &Address) {
    let (uid, name) = &*OWN;
    let socket = match server {
        Address::Unix(path) => Some(path),
        Address::Tcp { .. } => None,
    };
    let name = name.as_deref().map(String::from_utf8_lossy);
    let name = name.map_or_else(|| uid.to_string(), Into::into);
    let owns = |path: &Path| std::fs::metadata(path).is_ok_and(|socket| socket.uid() == *uid);
    let owns_socket = socket.is_some_and(|path| owns(path));
    if let Some(warning) = warning(*uid, &name, owns_socket) {
        tracing::warn!("{warning}");
    }
}

/// What is wrong with running as this user, who may own the server's socket, and what to do.
fn warning(uid: u32, name: &str, owns_socket: bool) -> Option<String> {
    let why = if uid == 0 {
        "it needs none of root's rights, and a mistake in it would have them all"
    } else if owns_socket || ["mysql", "mariadb"].contains(&name) {
        "that is the user of the server, and a mistake in Flifo could change the server's files"
    } else {
        return None;
    };
    Some(format!(
        "Flifo runs as {name}: {why}. On its Unix socket a server may also take Flifo for its \
         account '{name}', which is refused to clients for that reason. Let Flifo run as a user of \
         its own, for example with User= in its systemd unit"
    ))
}

/// Says whether this is the name of the user that Flifo runs as.
pub(crate) fn is_own(user: &UserName) -> bool {
    OWN.1.as_deref() == Some(user.as_bytes())
}

/// Says whether the server could take Flifo for this user, and the client is somebody else.
pub(crate) fn is_named(user: &UserName, client: &Stream, server: &Stream) -> bool {
    let (uid, _) = &*OWN;
    let is_unix = server.is_secure() && !server.is_tls();
    let is_same = matches!(client.peer(), Peer::Unix { uid: client, .. } if client == *uid);
    is_unix && !is_same && is_own(user)
}

/// Says whether the server lets Flifo in as this user without the password, or whether that cannot be found out.
pub(crate) async fn is_open(worker: &Worker, server: &Server, user: &UserName) -> bool {
    let limit = worker.plan.limits.login;
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
async fn is_let_in(worker: &Worker, server: &Server, user: &UserName) -> Result<bool, NoLink> {
    let greeted = opener::greeted(worker, server, None).await?;
    let mut login = Login {
        capabilities: CAPABILITIES & greeted.greeting.capabilities,
        packet_max: u32::MAX,
        collation: UTF8MB4,
        user: user.in_login(UTF8MB4.into(), opener::brand(&greeted.greeting))?,
        response: wrong(NATIVE)?,
        schema: None,
        plugin: Some(NATIVE.to_vec()),
        attributes: Vec::new(),
        zstd_level: None,
    };
    let mut talk = greeted.secure(server.tls.as_ref(), &mut login).await?.talk;
    let mut payload = Vec::new();
    login.encode(&mut payload);
    talk.write(&payload).await.map_err(LoginError::from)?;
    for _ in 0..QUESTIONS_MAX {
        let payload = talk.read().await.map_err(LoginError::from)?;
        let plugin = match AuthPacket::decode(&payload).map_err(LoginError::from)? {
            AuthPacket::Ok => return Ok(true),
            AuthPacket::Err => return Ok(false),
            AuthPacket::Switch { plugin, .. } => plugin,
            AuthPacket::More(_) => b"",
        };
        talk.write(&wrong(plugin)?).await.map_err(LoginError::from)?;
    }
    Err(LoginError::from(Malformed::new("number of questions in a login")).into())
}

/// A proof that is wrong, and as long as the plugin wants it: the next one of an account is tried only then.
fn wrong(plugin: &[u8]) -> Result<Vec<u8>, NoLink> {
    let len = match plugin {
        NATIVE => 20,
        b"client_ed25519" => 64,
        _ => 32,
    };
    let mut proof = vec![0; len];
    getrandom::fill(&mut proof)
        .map_err(|error| NoLink::Unreachable(std::io::Error::other(error)))?;
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
        "Access denied for user '{name}': the server wants no password of it, since Flifo runs as \
         the operating system's user '{name}' (plugin unix_socket); Flifo lends that to nobody. \
         Let Flifo run as a user of its own, or connect past it"
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

/// The collation that Flifo's own names are sent in: utf8mb4_general_ci.
const UTF8MB4: u8 = 45;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_the_servers_user_are_warned_of() {
        for (uid, name, owns_socket, want) in [
            (0, "root", true, Some("root's rights")),
            (0, "root", false, Some("root's rights")),
            (104, "mysql", false, Some("the user of the server")),
            (1000, "ann", true, Some("the user of the server")),
            (105, "flifo", false, None),
        ] {
            let warning = warning(uid, name, owns_socket);
            assert_eq!(warning.is_some(), want.is_some(), "{name}");
            let text = warning.unwrap_or_default();
            assert!(text.contains(want.unwrap_or_default()), "{text}");
            assert!(text.is_empty() || text.contains(&format!("account '{name}'")), "{text}");
        }
    }
}

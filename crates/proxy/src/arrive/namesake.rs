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

use link::login::{Credential, Request};
use link::stream::Peer;
use link::{Address, Stream};
use wire::Capabilities;
use wire::auth::Secret;
use wire::frame::HEADER;

use crate::fault::{Fault, Kind};
use crate::links::opener;
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
pub(crate) fn is_own(user: &[u8]) -> bool {
    OWN.1.as_deref() == Some(user)
}

/// Says whether the server could take Flifo for this user, and the client is somebody else.
pub(crate) fn is_named(user: &[u8], client: &Stream, server: &Stream) -> bool {
    let (uid, _) = &*OWN;
    let is_unix = server.is_secure() && !server.is_tls();
    let is_same = matches!(client.peer(), Peer::Unix { uid: client, .. } if client == *uid);
    is_unix && !is_same && is_own(user)
}

/// Says whether the server lets Flifo in as this user without the password.
pub(crate) async fn is_open(worker: &Worker, server: &Server, user: &[u8]) -> bool {
    let mut random = [0; 16];
    if getrandom::fill(&mut random).is_err() {
        return true;
    }
    let credential = Credential::Password(Secret::from(&random[..]));
    let request = Request {
        user,
        credential: &credential,
        capabilities: CAPABILITIES,
        collation: ASCII,
        packet_max: u32::MAX,
        schema: None,
    };
    match opener::greeted(worker, server, None).await {
        Ok(greeted) => greeted.login(&request, server.tls.as_ref()).await.is_ok(),
        // The client's own login meets, and tells, what is wrong.
        Err(_) => false,
    }
}

/// What a client is told that the server would have let in as Flifo.
pub(crate) fn denied(user: &[u8]) -> Fault {
    let name = String::from_utf8_lossy(user);
    let message = format!(
        "Access denied for user '{name}': the server wants no password of it, since Flifo runs as \
         the operating system's user '{name}' (plugin unix_socket); Flifo lends that to nobody. \
         Let Flifo run as a user of its own, or connect past it"
    );
    Fault::new(Kind::AccessDenied, message)
}

/// Why a carried client may not change to the user of its command: the server could take Flifo for
/// it. This cannot be tried in the middle of a command, so only a user that was tried at the login
/// may be changed to.
pub(crate) fn change(packet: &[u8], own: &[u8], client: &Stream, server: &Stream) -> Option<Fault> {
    let user = packet.get(HEADER + 1..)?.split(|byte| *byte == 0).next()?;
    if user == own || !is_named(user, client, server) {
        return None;
    }
    let name = String::from_utf8_lossy(user);
    let message = format!(
        "Access denied for user '{name}': Flifo runs as the operating system's user '{name}', so \
         the server might want no password of it. Log in as '{name}' instead of changing to it"
    );
    Some(Fault::new(Kind::AccessDenied, message))
}

const CAPABILITIES: Capabilities = Capabilities(
    Capabilities::LONG_PASSWORD.0
        | Capabilities::PROTOCOL_41.0
        | Capabilities::SECURE_CONNECTION.0
        | Capabilities::PLUGIN_AUTH.0,
);
/// The collation latin1_swedish_ci, which every server has.
const ASCII: u8 = 8;

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

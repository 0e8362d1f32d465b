//! The operating system's user that Flifo runs as, and the server's account of that name.
//!
//! On a Unix socket a server may ask the kernel who is at the other end, and want no password of
//! him (`unix_socket`, `auth_socket`): that is Flifo, whoever its client is. Through Flifo, the
//! account of its name would be open to everybody. So before a client is carried under this name,
//! Flifo tries the name with a password that cannot be right. Not known here: accounts that are
//! told to accept another name (`VIA unix_socket AS`).

use std::sync::LazyLock;

use link::Stream;
use link::login::{Credential, Request};
use link::stream::Peer;
use wire::Capabilities;
use wire::auth::Secret;
use wire::frame::HEADER;

use crate::fault::{Fault, Kind};
use crate::opener;
use crate::worker::Worker;

static OWN: LazyLock<(u32, Option<Vec<u8>>)> = LazyLock::new(sys::process::user);

/// Says whether the server could take Flifo for this user, and the client is somebody else.
pub(crate) fn is_named(user: &[u8], client: &Stream, server: &Stream) -> bool {
    let (uid, name) = &*OWN;
    let is_unix = server.is_secure() && !server.is_tls();
    let is_same = matches!(client.peer(), Peer::Unix { uid: client, .. } if client == *uid);
    is_unix && !is_same && name.as_deref() == Some(user)
}

/// Says whether the server lets Flifo in as this user without the password.
pub(crate) async fn is_open(worker: &Worker, user: &[u8]) -> bool {
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
    };
    match opener::greeted(worker, None).await {
        Ok(greeted) => greeted.login(&request, worker.shared.tls.server.as_ref()).await.is_ok(),
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

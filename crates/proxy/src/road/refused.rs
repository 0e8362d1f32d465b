//! Statements that a server refuses because of what it has become: read-only, or a node without its cluster.
//!
//! Owns what such an answer shows, and the end of transactions that are open there. Invariant: a transaction does not go
//! on where a write of its was refused so, or where it cannot be committed: its client would hear the same refusal for
//! ever, although another server could serve it, or would write where what was acknowledged elsewhere is missing.

use std::rc::Rc;

use wire::frame::HEADER;
use wire::response::ErrPacket;

use crate::cluster::servers::ServerId;
use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::worker::Worker;

/// A server has refused a statement. If it did since it cannot serve any more as it did, its role is asked for at once.
pub(crate) fn see(worker: &Worker, server: ServerId, packet: &[u8]) {
    let Some(members) = worker.shared.cluster.routes_at(server) else { return };
    match error(packet).map(|error| error.code) {
        Some(NOT_PREPARED | ERROR_DURING_COMMIT | HOOK_FAILED) => members.ask_again(server),
        Some(READ_ONLY_OPTION | READ_ONLY_MODE) => members.doubt(server),
        _ => {}
    }
}

fn error(packet: &[u8]) -> Option<ErrPacket<'_>> {
    packet.get(HEADER..).map(ErrPacket::decode)?.ok()
}

/// A node that is not prepared. On MySQL: an unknown command.
const NOT_PREPARED: u16 = 1047;

/// A commit has failed: of a node, since its cluster could not be reached.
const ERROR_DURING_COMMIT: u16 = 1180;

/// A commit was refused by a plug-in: of a member that leaves its MySQL group, among others. Others may have it.
const HOOK_FAILED: u16 = 3100;

/// An option forbids it, of which `read_only` is one.
const READ_ONLY_OPTION: u16 = 1290;

const READ_ONLY_MODE: u16 = 1836;

/// A server that is read-only, or a node that is not prepared, has refused a statement of a transaction that is open
/// there. A read-only one may be written to again later, when it lacks what was acknowledged elsewhere meanwhile; and
/// the node refuses whatever comes, a `ROLLBACK` too. So the transaction ends here. Its client has had the server's
/// error, and hears of the end before anything else of its runs.
pub(crate) fn end_transaction(worker: &Worker, client: &Client, backend: &Backend, packet: &[u8]) {
    if worker.shared.cluster.is_routed()
        && let Some(why) = reason(packet)
        && has_open(client)
    {
        tell(worker, client, backend, why);
        backend.close();
    }
}

/// A node cannot work in its cluster any more, or a member in its group: what is open there cannot be committed. A
/// statement that runs ends first; what the server answers to it decides.
pub(crate) fn end_idle_transactions(worker: &Rc<Worker>, server: ServerId) {
    let mut ended = Vec::new();
    let backends = worker.backends.borrow();
    for backend in backends.values().filter(|backend| backend.server == server) {
        let holder = backend.holder.borrow();
        if let Some(client) = holder.as_ref().filter(|client| has_open(client))
            && backend.in_flight.borrow().is_empty()
        {
            tell(worker, client, backend, "it cannot work in its cluster any more");
            ended.push(Rc::clone(backend));
        }
    }
    drop(backends);
    ended.iter().for_each(|backend| backend.close());
}

/// Whether a client has a transaction open that Flifo may end.
fn has_open(client: &Client) -> bool {
    client.is_pooled() && client.session.borrow().in_transaction()
}

fn tell(worker: &Worker, client: &Client, backend: &Backend, why: &str) {
    tracing::info!(
        client = client.id,
        server = worker.at(backend.server).server.name.as_str(),
        why,
        "a transaction ends: its server can take nothing more of it"
    );
}

/// Why a transaction does not go on where a statement of its was refused so. Numbers alone do not tell: 1290 is of
/// options of all kinds, 1047 of commands that MySQL does not know, 1180 of disks that are full.
fn reason(packet: &[u8]) -> Option<&'static str> {
    let error = error(packet)?;
    let message = error.message.to_ascii_lowercase();
    let says = |text: &[u8]| message.windows(text.len()).any(|part| part == text);
    match error.code {
        READ_ONLY_OPTION | READ_ONLY_MODE if says(b"read-only") => Some("it is read-only"),
        NOT_PREPARED if says(b"wsrep") => Some("it is a node that is not prepared"),
        ERROR_DURING_COMMIT if says(b"primary component") => {
            Some("it is a node that has lost its cluster")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(code: u16, message: &str) -> Vec<u8> {
        let mut packet = vec![0; HEADER];
        packet.push(0xFF);
        packet.extend_from_slice(&code.to_le_bytes());
        packet.extend_from_slice(b"#HY000");
        packet.extend_from_slice(message.as_bytes());
        packet
    }

    #[test]
    fn it_is_told_by_number_and_text_what_ends_a_transaction() {
        let read_only = "The MariaDB server is running with the --read-only option so it cannot";
        let not_prepared = "WSREP has not yet prepared node for application use";
        let lost = "Got error 5 \"WSREP: Not connected to Primary Component\" during COMMIT";
        for (code, message, ends) in [
            (1290, read_only, true),
            (1290, "The MySQL server is running with the --secure-file-priv option", false),
            (1836, "Running in read-only mode", true),
            (1047, not_prepared, true),
            (1047, "Unknown command", false),
            (1180, lost, true),
            (1180, "Got error 28 \"No space left on device\" during COMMIT", false),
            (1064, "WSREP read-only primary component", false),
        ] {
            assert_eq!(reason(&packet(code, message)).is_some(), ends, "{code} {message}");
        }
        assert!(reason(b"").is_none() && error(b"").is_none());
    }
}

//! Logins that failed, for the log and the audit log. What becomes of a client that is in is told by
//! [`crate::answers::notes`].
//!
//! Each has a line at level info, with user, address and reason; the log bounds lines of one reason (`kind`), so that
//! strangers cannot fill it.

use std::net::SocketAddr;

use view::audit::{AuditEntry, AuditKind, Fact};
use wire::response::ErrPacket;

use crate::answers::notes;
use crate::fault::Fault;
use crate::frontend::accepted::Socket;
use crate::frontend::pending_login::Applicant;
use crate::state::worker::Worker;

/// Flifo has refused a client, or the server has by its words.
pub(crate) fn see_fault(worker: &Worker, applicant: &Applicant, fault: &Fault) {
    tell(worker, applicant, (fault.kind.name(), fault.code().0, &fault.message));
}

/// The server has refused a client, with this packet.
pub(crate) fn see_refusal(worker: &Worker, applicant: &Applicant, packet: &[u8]) {
    let (code, message) = match ErrPacket::decode(packet) {
        Ok(error) => (error.code, notes::shown(error.message)),
        Err(_) => (0, String::new()),
    };
    tell(worker, applicant, ("server_refused", code, &message));
}

/// A login has broken off. What has not even said a name is no login: it may have come to see whether Flifo answers.
pub(crate) fn see_break(worker: &Worker, applicant: &Applicant, why: &str) {
    match applicant.user.borrow().is_some() {
        true => tell(worker, applicant, ("bad_handshake", 0, why)),
        false => tracing::debug!(address = shown(applicant.peer.get()), why, "a login broke off"),
    }
}

/// A client was refused before it could say anything.
pub(crate) fn see_no_room(worker: &Worker, socket: &Socket, fault: &Fault) {
    let peer = match socket {
        Socket::Tcp(stream) => stream.peer_addr().ok(),
        Socket::Unix(_) => None,
        #[cfg(feature = "simulation")]
        Socket::Memory(_) => None,
    };
    see_fault(worker, &Applicant { peer: peer.into(), ..Applicant::default() }, fault);
}

/// `why`: a name for the reason, the number of the error, and its message.
fn tell(worker: &Worker, applicant: &Applicant, why: (&'static str, u16, &str)) {
    let (reason, code, message) = why;
    let kind = match code {
        0 => reason.to_owned(),
        code => format!("{reason} ({code})"),
    };
    let user = applicant.user.borrow();
    let (user, address) = (user.as_deref(), shown(applicant.peer.get()));
    tracing::info!(user, address, kind, reason = message, "a login was refused");
    let (now, kind) = (crate::worker::clock::now(), AuditKind::Refusals);
    worker.shared.records.tell(&worker.plan(), now, kind, || {
        let mut facts = vec![("reason", Fact::Text(reason.to_owned()))];
        facts.extend((code != 0).then_some(("error", Fact::Number(code.into()))));
        facts.push(("message", Fact::Text(message.to_owned())));
        AuditEntry {
            kind,
            client: None,
            user: user.map(str::to_owned),
            address: applicant.peer.get().map(|peer| peer.ip()),
            facts,
            text: None,
        }
    });
}

/// Where a client comes from.
fn shown(peer: Option<SocketAddr>) -> String {
    peer.map_or_else(|| "a Unix socket".to_owned(), |peer| peer.to_string())
}

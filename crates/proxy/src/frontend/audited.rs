//! Logins that failed, for the audit log. What becomes of a client that is in is told by [`crate::dispatch::notes`].

use std::net::SocketAddr;

use view::audit::{AuditEntry, AuditKind, Fact};
use wire::response::ErrPacket;

use crate::dispatch::notes;
use crate::dispatch::worker::Worker;
use crate::fault::Fault;
use crate::frontend::accepted::Socket;
use crate::frontend::pending_login::Applicant;

/// Flifo has refused a client, or the server has by its words.
pub(crate) fn see_fault(worker: &Worker, applicant: &Applicant, fault: &Fault) {
    tell(worker, applicant, || (fault.kind.name(), fault.code().0, fault.message.clone()));
}

/// The server has refused a client, with this packet.
pub(crate) fn see_refusal(worker: &Worker, applicant: &Applicant, packet: &[u8]) {
    tell(worker, applicant, || {
        let error = ErrPacket::decode(packet);
        let (code, message) =
            error.map_or((0, String::new()), |error| (error.code, notes::shown(error.message)));
        ("server_refused", code, message)
    });
}

/// A login has broken off. What has not even said a name is no login: it may have come to see whether Flifo answers.
pub(crate) fn see_break(worker: &Worker, applicant: &Applicant, why: &str) {
    if applicant.user.borrow().is_some() {
        tell(worker, applicant, || ("bad_handshake", 0, why.to_owned()));
    }
}

/// A client was refused before it could say anything.
pub(crate) fn see_no_room(worker: &Worker, socket: &Socket, fault: &Fault) {
    if !worker.plan().logs.audit.tells(AuditKind::Refusals) {
        return;
    }
    let peer: Option<SocketAddr> = match socket {
        Socket::Tcp(stream) => stream.peer_addr().ok(),
        Socket::Unix(_) => None,
    };
    see_fault(worker, &Applicant { peer: peer.into(), ..Applicant::default() }, fault);
}

/// `why`: a name for the reason, the number of the error, and its message.
fn tell(worker: &Worker, applicant: &Applicant, why: impl FnOnce() -> (&'static str, u16, String)) {
    let (now, kind) = (crate::worker::clock::now(), AuditKind::Refusals);
    worker.shared.records.tell(&worker.plan(), now, kind, || {
        let (reason, code, message) = why();
        let mut facts = vec![("reason", Fact::Text(reason.to_owned()))];
        facts.extend((code != 0).then_some(("error", Fact::Number(code.into()))));
        facts.push(("message", Fact::Text(message)));
        AuditEntry {
            kind,
            client: None,
            user: applicant.user.borrow().clone(),
            address: applicant.peer.get().map(|peer| peer.ip()),
            facts,
            text: None,
        }
    });
}

//! The PROXY protocol: the real address of a client that comes through another proxy. The server is told the same.
//!
//! A header is read from the networks that the configuration lists, and from those it is required: a peer that is
//! trusted to say where clients come from must not be able to forget it. From anywhere else it is no header but a
//! malformed login.

use std::rc::Rc;

use backend::{Stream, Talk};
use tokio::time::Instant;
use wire::proxy_header::{HEADER_MAX, Parsed, ProxyHeader, parse};

use crate::fault::{Fault, Kind};
use crate::frontend::pending_login::{NoLogin, PendingLogin};
use crate::state::worker::Worker;

/// Reads the header that a trusted peer sends first, until the deadline, and takes the client's address from it.
pub(crate) async fn receive(
    worker: &Rc<Worker>,
    pending_login: PendingLogin,
    deadline: Instant,
) -> Result<PendingLogin, NoLogin> {
    let networks = &worker.plan().proxy_protocol.from;
    let is_trusted = pending_login
        .peer
        .is_some_and(|peer| networks.iter().any(|network| network.contains(peer.ip())));
    if !is_trusted {
        return Ok(pending_login);
    }
    let (stream, mut bytes) = pending_login.talk.into_parts();
    let mut chunk = [0; 512];
    loop {
        match parse(&bytes) {
            Ok(Parsed::Complete { header, consumed }) => {
                let peer = match header {
                    ProxyHeader::Tcp { source, .. } => Some(source),
                    _ => pending_login.peer,
                };
                bytes.drain(..consumed);
                pending_login.applicant.peer.set(peer);
                return Ok(PendingLogin {
                    talk: Talk::resume(stream, bytes, 0),
                    peer,
                    ..pending_login
                });
            }
            Ok(Parsed::Incomplete) if bytes.len() <= HEADER_MAX => {}
            Ok(Parsed::Incomplete) => return Err(refuse(&stream, "it is too long").await),
            Err(error) => return Err(refuse(&stream, error.what).await),
        }
        match tokio::time::timeout_at(deadline, stream.read_some(&mut chunk)).await {
            Ok(Ok(0)) => {
                let why = "the connection was closed before it was whole";
                return Err(refuse(&stream, why).await);
            }
            Ok(Ok(read)) => bytes.extend_from_slice(&chunk[..read]),
            Ok(Err(error)) => return Err(refuse(&stream, &error.to_string()).await),
            Err(_) => {
                let why = "none came within limits.login; a client that is no load balancer must \
                           not come from a network that proxy_protocol.from names";
                return Err(refuse(&stream, why).await);
            }
        }
    }
}

/// What is no PROXY header gets an error in the place of a greeting: the peer is misconfigured, not the client.
async fn refuse(stream: &Stream, why: &str) -> NoLogin {
    tracing::warn!(why, "a peer in proxy_protocol.from sent no valid PROXY header");
    let fault = Fault::new(Kind::BadHandshake, format!("Bad PROXY header: {why}"));
    // It may be gone.
    let _ = stream.write_all(&fault.greeting()).await;
    NoLogin::Fault(fault)
}

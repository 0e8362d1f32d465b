//! What a pass-through login's connection to the server has of TLS: never more than the client's own connection.
//!
//! A server holds an account to `REQUIRE SSL`, `X509`, `SUBJECT` or `ISSUER` by the connection that it sees, which is
//! Flifo's. So Flifo shows no certificate of its own there, and speaks TLS there only for a client that speaks TLS; a
//! setting that names the risk allows it for all (`server.pass_through_tls`). Pooled backends are another matter.

use backend::Stream;
use backend::login::{BackendTls, Greeted, LoginError};
use backend::tls::Mode;
use wire::Capabilities;
use wire::handshake::Login;

use crate::cluster::servers::Server;
use crate::config::PassThroughTls;
use crate::fault::{Fault, Kind};
use crate::state::worker::Worker;

/// What is tried.
#[derive(Clone, Debug)]
pub(crate) enum Leg {
    Plain,
    /// As [`Greeted::secure`] has it.
    Tls(BackendTls),
    /// On a Unix socket, where TLS is not needed for secrecy: in plain if it fails.
    TlsOnSocket(BackendTls),
}

/// Why it did not come about.
#[derive(Debug)]
pub(crate) enum NoLeg {
    Failed(LoginError),
    /// The server is to be asked again, without TLS.
    Again,
}

impl Leg {
    /// Decides it for this client; the fault is still to be told.
    pub(crate) fn of(worker: &Worker, client: &Stream, at: &Server) -> Result<Self, Fault> {
        let Some(tls) = at.tls().pass_through.clone() else { return Ok(Self::Plain) };
        let is_on_socket = matches!(at.address, backend::Address::Unix(_));
        match decide(worker.plan().server.pass_through_tls, client.is_tls(), tls.mode, is_on_socket)
        {
            Decision::Plain => {
                at.facts.tell_plain(&at.address);
                Ok(Self::Plain)
            }
            Decision::Tls => Ok(Self::Tls(tls)),
            Decision::TlsOnSocket if at.facts.does_tls_fail() => Ok(Self::Plain),
            Decision::TlsOnSocket => {
                Ok(Self::TlsOnSocket(BackendTls { mode: Mode::Required, ..tls }))
            }
            Decision::Refused => Err(refused(tls.mode)),
        }
    }

    /// Goes on in TLS, or in plain.
    pub(crate) async fn secure(
        &self,
        server: Greeted,
        at: &Server,
        login: &mut Login,
    ) -> Result<Greeted, NoLeg> {
        let is_offered = server.greeting.capabilities.has(Capabilities::SSL);
        match self {
            Self::TlsOnSocket(tls) if is_offered => {
                server.secure(Some(tls), login).await.map_err(|error| {
                    at.facts.see_tls_fail();
                    tracing::info!(server = %at.address, %error, "no TLS on the server's Unix socket");
                    NoLeg::Again
                })
            }
            Self::Tls(tls) => server.secure(Some(tls), login).await.map_err(NoLeg::Failed),
            Self::Plain | Self::TlsOnSocket(_) => {
                server.secure(None, login).await.map_err(NoLeg::Failed)
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Plain,
    Tls,
    TlsOnSocket,
    Refused,
}

fn decide(policy: PassThroughTls, client_is_tls: bool, mode: Mode, is_on_socket: bool) -> Decision {
    match (policy, client_is_tls) {
        _ if mode == Mode::Off => Decision::Plain,
        (PassThroughTls::Always, _) => Decision::Tls,
        // An account may demand TLS, and the client has it.
        (PassThroughTls::AsClient, true) if is_on_socket && !mode.is_required() => {
            Decision::TlsOnSocket
        }
        (PassThroughTls::AsClient, true) => Decision::Tls,
        (PassThroughTls::AsClient, false) if mode.is_required() => Decision::Refused,
        (PassThroughTls::AsClient, false) => Decision::Plain,
    }
}

fn refused(mode: Mode) -> Fault {
    let message = format!(
        "Connections using insecure transport are prohibited for this user: server.tls is \
         \"{mode}\", and the server would treat this client, which does not use TLS, as one that \
         does. Connect with TLS, name the user with its password in [[users]], or set \
         server.pass_through_tls = \"always\" if no account relies on REQUIRE SSL"
    );
    Fault::new(Kind::TlsRequired, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_through_leg_has_no_more_than_the_client_has() {
        use Decision::{Plain, Refused, Tls, TlsOnSocket};
        for (mode, is_on_socket, [plain, tls, always]) in [
            (Mode::Off, false, [Plain, Plain, Plain]),
            (Mode::Off, true, [Plain, Plain, Plain]),
            (Mode::Preferred, false, [Plain, Tls, Tls]),
            (Mode::Preferred, true, [Plain, TlsOnSocket, Tls]),
            (Mode::Required, false, [Refused, Tls, Tls]),
            (Mode::Required, true, [Refused, Tls, Tls]),
            (Mode::VerifyCa, false, [Refused, Tls, Tls]),
            (Mode::VerifyFull, true, [Refused, Tls, Tls]),
        ] {
            let decide = |policy, client| decide(policy, client, mode, is_on_socket);
            let case = format!("{mode} {is_on_socket}");
            assert_eq!(decide(PassThroughTls::AsClient, false), plain, "{case}");
            assert_eq!(decide(PassThroughTls::AsClient, true), tls, "{case}");
            assert_eq!(decide(PassThroughTls::Always, false), always, "{case}");
            assert_eq!(decide(PassThroughTls::Always, true), always, "{case}");
        }
    }
}

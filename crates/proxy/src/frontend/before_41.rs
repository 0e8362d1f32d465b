//! A client that speaks the protocol before 4.1: HAProxy's check (`mysql-check user x pre-41`), which asks only whether
//! the server would let it in, and leaves.
//!
//! The question is passed on as it is, to a server that has such a protocol, and its answer back. Invariant: no command
//! of such a client is passed on, so it has nothing of the account that lets it in.

use backend::talk::TalkError;
use wire::command::Opcode;
use wire::handshake::OldLogin;
use wire::response::{ERR, ErrPacket};

use crate::fault::{Fault, Kind};
use crate::frontend::pending_login::{self, NoLogin, PendingLogin};
use crate::pool::opener;
use crate::state::worker::Worker;
use crate::users::logins::Pass;

/// Has the server answer such a client, and says that no command of it is served.
pub(crate) async fn answer(
    worker: &Worker,
    mut pending_login: PendingLogin,
    login: &OldLogin,
    pass: &Pass,
) -> NoLogin {
    let at = worker.shared.cluster.server(pending_login.server);
    let asked = async {
        let mut greeted = opener::greeted(&worker.pool, at, pending_login.peer)
            .await
            .map_err(|error| error.fault(at))?;
        let told = async {
            greeted.talk.write(login.payload()).await?;
            greeted.talk.read().await
        };
        told.await.map_err(|error: TalkError| {
            let message = format!("Flifo lost the server during the login: {error}");
            Fault::new(Kind::ServerUnreachable, message)
        })
    };
    let answer = match pass.lend(asked).await {
        Ok(answer) => answer,
        Err(fault) => return pending_login::tell(pending_login, fault).await,
    };
    if let Err(error) = pending_login.talk.write(&answer).await {
        return error.into();
    }
    if answer.first() != Some(&0) {
        return NoLogin::Told(answer);
    }
    pending_login.talk.set_sequence(0);
    match pass.lend(pending_login.talk.read()).await {
        Ok(command) if command.first() == Some(&(Opcode::Quit as u8)) => NoLogin::Asked,
        // It is gone.
        Err(_) => NoLogin::Asked,
        Ok(_) => {
            let message = "Flifo serves no statements of clients that speak the protocol before \
                           4.1: use a newer client";
            let fault = Fault::new(Kind::BadHandshake, message);
            let mut payload = vec![ERR];
            payload.extend_from_slice(&BAD_HANDSHAKE.to_le_bytes());
            payload.extend_from_slice(message.as_bytes());
            debug_assert!(ErrPacket::decode(&payload).is_ok());
            let _ = pending_login.talk.write(&payload).await;
            NoLogin::Fault(fault)
        }
    }
}

/// `ER_HANDSHAKE_ERROR`.
const BAD_HANDSHAKE: u16 = 1043;

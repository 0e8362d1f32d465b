//! The login of a carried client: relayed end to end, so that any user and any plugin works with nothing configured.
//!
//! Client and server speak with each other; Flifo passes their packets on. It steps in only where the two legs are
//! not equally secure: caching_sha2_password sends the password itself where nobody can read along, and under a
//! public key elsewhere, so Flifo decrypts on the one leg or encrypts on the other.

use std::rc::Rc;

use engine::session::Session;
use link::Talk;
use link::login::{Greeted, LoginError, prove_fully};
use wire::auth::{Nonce, Plugin, Secret, caching_sha2};
use wire::handshake::{AuthPacket, Login};
use wire::response::OkPacket;

use crate::client;
use crate::fault::{Fault, Kind};
use crate::links::{self, Link};
use crate::login::{Newcomer, NoLogin, tell, too_many_of_user};
use crate::namesake;
use crate::opener;
use crate::worker::Worker;

/// Whose greeting the client has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GreetedBy {
    /// The server's: its nonce, its connection id.
    Server,
    /// Flifo's own: the client's answer means nothing to the server.
    Flifo { id: u32 },
}

/// What no account uses, so that the server asks for the right plugin with a nonce of its own.
const NO_PLUGIN: &[u8] = b"flifo_relay";

/// Logs the client in at the server, on a link of its own.
pub(crate) async fn log_in(
    worker: &Rc<Worker>,
    newcomer: Newcomer,
    login: Login,
    server: Option<Greeted>,
    greeted_by: GreetedBy,
) -> Result<client::Login, NoLogin> {
    let cap = worker.shared.users.carried(&login.user);
    let place = cap.map(|cap| cap.reserve().ok_or(cap)).transpose();
    let place = match place {
        Ok(place) => place,
        Err(cap) => {
            let bound = "clients_max or links_max";
            return Err(tell(newcomer, too_many_of_user(&login.user, bound, cap)).await);
        }
    };
    let greeted = match server {
        Some(greeted) => greeted,
        None => match opener::greeted(worker, newcomer.peer).await {
            Ok(greeted) => greeted,
            Err(error) => return Err(tell(newcomer, error.fault(worker)).await),
        },
    };
    let mut request = login.clone();
    request.capabilities = login.capabilities & greeted.greeting.capabilities;
    if let GreetedBy::Flifo { .. } = greeted_by {
        request.plugin = Some(NO_PLUGIN.to_vec());
        request.response = Vec::new();
    }
    let greeted = match greeted.secure(worker.shared.tls.server.as_ref(), &mut request).await {
        Ok(greeted) => greeted,
        Err(error) => {
            return Err(tell(newcomer, opener::NoLink::from(error).fault(worker)).await);
        }
    };
    let Greeted { talk: mut server, greeting } = greeted;
    if namesake::is_named(&login.user, newcomer.talk.stream(), server.stream())
        && namesake::is_open(worker, &login.user).await
    {
        return Err(tell(newcomer, namesake::denied(&login.user)).await);
    }
    let mut payload = Vec::new();
    request.encode(&mut payload);
    if let Err(error) = server.write(&payload).await {
        let error = opener::NoLink::from(LoginError::from(error));
        return Err(tell(newcomer, error.fault(worker)).await);
    }
    let mut relay = Relay {
        worker,
        plugin: Plugin::from_name(&greeting.plugin),
        nonce: greeting.nonce.clone(),
        client: newcomer.talk,
        server,
    };
    let ok = relay.run().await?;
    let capabilities = request.capabilities;
    let status = OkPacket::decode(&ok, capabilities).map(|ok| ok.status).unwrap_or_default();
    let (stream, more) = relay.client.into_parts();
    let (server, unread) = relay.server.into_parts();
    let id = worker.new_link_id();
    let link = Link::new(id, greeting.connection_id, server, capabilities, None, None);
    *link.carry.borrow_mut() = unread;
    let link = Rc::new(link);
    worker.add_link(&link);
    tokio::task::spawn_local(links::serve(Rc::clone(worker), Rc::clone(&link)));
    if let Some(place) = place {
        place.keep();
    }
    Ok(client::Login {
        id: match greeted_by {
            GreetedBy::Server => greeting.connection_id,
            GreetedBy::Flifo { id } => id,
        },
        stream,
        capabilities,
        user: login.user.as_slice().into(),
        key: None,
        session: Session::new(None, status),
        link: Some(link),
        more,
        sequence: None,
    })
}

/// Two conversations that are one login.
struct Relay<'a> {
    worker: &'a Worker,
    client: Talk,
    server: Talk,
    plugin: Plugin,
    nonce: Vec<u8>,
}

impl Relay<'_> {
    /// Passes packets on until the server has decided. The answer is its OK packet's payload.
    async fn run(&mut self) -> Result<Vec<u8>, NoLogin> {
        loop {
            let payload = match self.server.read().await {
                Ok(payload) => payload,
                Err(error) => return Err(self.server_left(&error.to_string()).await),
            };
            let packet = match AuthPacket::decode(&payload) {
                Ok(packet) => packet,
                Err(error) => return Err(self.server_left(&error.to_string()).await),
            };
            match packet {
                AuthPacket::Ok => {
                    self.client.write(&payload).await?;
                    return Ok(payload);
                }
                AuthPacket::Err => {
                    self.client.write(&payload).await?;
                    return Err(NoLogin::Told);
                }
                AuthPacket::Switch { plugin, data } => {
                    self.plugin = Plugin::from_name(plugin);
                    self.nonce = data.to_vec();
                    self.allow_clear_password().await?;
                    self.client.write(&payload).await?;
                    self.pass_answer().await?;
                }
                AuthPacket::More(&[caching_sha2::FAST_OK]) => self.client.write(&payload).await?,
                AuthPacket::More(&[caching_sha2::FULL]) => {
                    self.client.write(&payload).await?;
                    self.pass_password().await?;
                }
                AuthPacket::More(_) => {
                    self.client.write(&payload).await?;
                    self.pass_answer().await?;
                }
            }
        }
    }

    async fn pass_answer(&mut self) -> Result<(), NoLogin> {
        let answer = Secret::from(self.client.read().await?);
        self.server.write(answer.as_bytes()).await?;
        Ok(())
    }

    /// The server wants the password: as it is on a secure leg, under a public key on a plain one.
    async fn pass_password(&mut self) -> Result<(), NoLogin> {
        match (self.client.stream().is_secure(), self.server.stream().is_secure()) {
            // The same on both legs: the client asks for the key or sends the password, the server answers.
            (true, true) | (false, false) => self.pass_answer().await,
            (true, false) => {
                let sent = Secret::from(self.client.read().await?);
                let Some(password) = caching_sha2::clear(&sent) else {
                    return Err(self
                        .client_erred("the password does not end in a zero byte")
                        .await);
                };
                let nonce = self.nonce().await?;
                let proved = prove_fully(&mut self.server, password.as_bytes(), &nonce).await;
                match proved {
                    Ok(()) => Ok(()),
                    Err(error) => Err(self.server_left(&error.to_string()).await),
                }
            }
            (false, true) => self.decrypt_password().await,
        }
    }

    /// Flifo is the RSA end: the client asks for a key, and gets Flifo's.
    async fn decrypt_password(&mut self) -> Result<(), NoLogin> {
        let asked = self.client.read().await?;
        if asked != [caching_sha2::REQUEST_PUBLIC_KEY] {
            let why = "it encrypted its password with a key of its own; connect in TLS, or let the \
                client ask for the public key";
            return Err(self.client_erred(why).await);
        }
        let rsa = match self.worker.shared.rsa.end().await {
            Ok(rsa) => rsa,
            Err(error) => return Err(self.server_left(&error).await),
        };
        let mut packet = Vec::new();
        AuthPacket::encode_more(rsa.public_pem().as_bytes(), &mut packet);
        self.client.write(&packet).await?;
        let sent = self.client.read().await?;
        let nonce = self.nonce().await?;
        match rsa.decrypt(&sent, &nonce) {
            Some(password) => {
                let clear = Secret::from([password.as_bytes(), &[0]].concat());
                self.server.write(clear.as_bytes()).await?;
                Ok(())
            }
            None => Err(self.client_erred("its password cannot be decrypted").await),
        }
    }

    async fn nonce(&mut self) -> Result<Nonce, NoLogin> {
        match Nonce::from_server(&self.plugin, &self.nonce) {
            Ok(nonce) => Ok(nonce),
            Err(error) => Err(self.server_left(&error.to_string()).await),
        }
    }

    /// A password is sent as it is only where nobody can read along.
    async fn allow_clear_password(&mut self) -> Result<(), NoLogin> {
        let is_clear = self.plugin == Plugin::ClearPassword;
        if !is_clear || self.client.stream().is_secure() && self.server.stream().is_secure() {
            return Ok(());
        }
        let message = "The server asks for the password in clear text, and Flifo passes it on only \
            where both the client's and the server's connection are TLS or a Unix socket";
        let fault = Fault::new(Kind::TlsRequired, message);
        self.client.write(&fault.payload()).await?;
        Err(NoLogin::Fault(fault))
    }

    async fn server_left(&mut self, why: &str) -> NoLogin {
        let address = &self.worker.shared.address;
        let message = format!("Flifo lost the server at {address} during the login: {why}");
        self.refuse(Fault::new(Kind::ServerUnreachable, message)).await
    }

    async fn client_erred(&mut self, why: &str) -> NoLogin {
        let message = format!("Flifo cannot pass this login on: {why}");
        self.refuse(Fault::new(Kind::BadHandshake, message)).await
    }

    async fn refuse(&mut self, fault: Fault) -> NoLogin {
        // The client may be gone as well.
        let _ = self.client.write(&fault.payload()).await;
        NoLogin::Fault(fault)
    }
}

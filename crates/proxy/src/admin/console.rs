//! The console: SHOW, SET, PAUSE and so on, over the protocol that every MySQL client speaks.
//!
//! Owns the login and the conversation; what is shown is made in [`super::tables`], what is done in [`super::actions`].
//! Invariants: so many clients and no more, of which an idle one keeps no other out, and one that has proved nothing
//! never takes the place of one that has; a statement is of bounded size; only a client that has proved the password,
//! or came by a socket of Flifo's own user, changes anything.

mod answers;
mod audited;
mod prepared;

use std::io;
use std::rc::Rc;
use std::time::Duration;

use backend::talk::TalkError;
use backend::{Stream, Talk};
use engine::visits::VisitOrigin;
use wire::Capabilities;
use wire::auth::{Nonce, Plugin, native};
use wire::command::Opcode;
use wire::frame::put_packet_with;
use wire::handshake::{AuthPacket, FirstPacket, Greeting, Login};
use wire::response::{ErrPacket, Status};

use self::audited::Audited;
use self::prepared::Prepared;
use super::Outside;
use super::any_server::VERSION;
use super::catalog::{self, Rights};
use super::resultset::{Form, Packets};
use super::visits::{Gone, Visit};
use crate::frontend::listener::Listener;
use crate::worker::steps::step;

/// Clients at once that may change things, and as many that may not. For one more, an idle one is sent away.
pub(super) const CLIENTS_MAX: usize = 32;

/// Time for a login, and for a client to take an answer.
const PATIENCE: Duration = Duration::from_secs(30);

const CAPABILITIES: Capabilities = Capabilities(
    Capabilities::LONG_PASSWORD.0
        | Capabilities::LONG_FLAG.0
        | Capabilities::CONNECT_WITH_DB.0
        | Capabilities::PROTOCOL_41.0
        | Capabilities::TRANSACTIONS.0
        | Capabilities::SECURE_CONNECTION.0
        | Capabilities::PLUGIN_AUTH.0
        | Capabilities::CONNECT_ATTRS.0
        | Capabilities::LENENC_AUTH.0
        | Capabilities::DEPRECATE_EOF.0,
);

/// A client of the console.
struct ConsoleSession {
    outside: Rc<Outside>,
    talk: Talk,
    capabilities: Capabilities,
    origin: VisitOrigin,
    rights: Rights,
    id: u32,
    /// Where tables are looked for of which no schema is named.
    schema: &'static str,
    prepared: Prepared,
    audited: Audited,
}

/// An error as a client sees it: number, SQLSTATE, message.
#[derive(Debug)]
struct Refusal(u16, &'static [u8; 5], String);

/// Why a client has not come in.
enum NotIn {
    Gone,
    Refused(Refusal),
}

/// Accepts clients for as long as the process lives.
pub(super) async fn serve(outside: Rc<Outside>, listener: Listener) -> io::Result<()> {
    match listener {
        Listener::Tcp(listener) => {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            loop {
                match listener.accept().await {
                    Ok((stream, peer)) => {
                        // Answers are short: each goes at once.
                        let _ = backend::dial::tune(&stream);
                        begin(&outside, Stream::from(stream), peer.ip().into());
                    }
                    Err(error) => super::pause(&error).await,
                }
                // A client that has come speaks first; else a crowd would take the places of clients that have not been
                // heard.
                tokio::task::yield_now().await;
            }
        }
        Listener::Unix(listener, _) => {
            let listener = tokio::net::UnixListener::from_std(listener)?;
            loop {
                let accepted = listener.accept().await;
                match accepted.and_then(|(stream, _)| Stream::try_from(stream)) {
                    Ok(stream) => begin(&outside, stream, VisitOrigin::Socket),
                    Err(error) => super::pause(&error).await,
                }
                tokio::task::yield_now().await;
            }
        }
    }
}

fn begin(outside: &Rc<Outside>, stream: Stream, origin: VisitOrigin) {
    // A client that comes by a port has proved nothing yet.
    let room =
        if origin == VisitOrigin::Socket { &outside.administrators } else { &outside.lookers };
    let place = room.enter(origin);
    let (outside, talk) = (Rc::clone(outside), Talk::new(stream));
    crate::worker::tasks::contained(async move {
        let Some((visit, mut gone)) = place else { return greet_with(&talk, &full()).await };
        let entered = tokio::select! {
            biased;
            _ = &mut gone => return,
            entered = enter(&outside, talk, origin) => entered,
        };
        let Some(session) = entered else { return };
        if origin == VisitOrigin::Socket || session.rights == Rights::Look {
            return session.converse(visit, gone).await;
        }
        let place = outside.administrators.enter(origin);
        drop((visit, gone));
        match place {
            Some((visit, gone)) => session.converse(visit, gone).await,
            None => refuse(&session.talk, session.capabilities, &full()).await,
        }
    });
}

fn full() -> Refusal {
    let message = format!(
        "Too many connections: all {CLIENTS_MAX} clients of the console are being answered"
    );
    Refusal(1040, b"08004", message)
}

/// Logs a client in. `None`: it is gone, or was sent away.
async fn enter(outside: &Rc<Outside>, talk: Talk, origin: VisitOrigin) -> Option<ConsoleSession> {
    let id = outside.next_session.get();
    outside.next_session.set(id.wrapping_add(1));
    let arrived = tokio::time::timeout(PATIENCE, arrive(outside, talk, id)).await;
    let Arrival { talk, nonce, login } = arrived.ok()??;
    let capabilities = CAPABILITIES & login.capabilities;
    let audited = Audited::new(id, &login.user, origin);
    let (outside, prepared) = (Rc::clone(outside), Prepared::default());
    // Until it has proved more.
    let rights = Rights::Look;
    let schema = login.schema.as_deref().and_then(|name| std::str::from_utf8(name).ok());
    let schema = schema.and_then(catalog::schema).unwrap_or(catalog::OWN_SCHEMA);
    let mut session = ConsoleSession {
        outside,
        talk,
        capabilities,
        origin,
        rights,
        id,
        schema,
        prepared,
        audited,
    };
    match tokio::time::timeout(PATIENCE, session.log_in(&nonce, &login)).await {
        Ok(Ok(())) => {
            session.audited.log_in(&session.outside);
            Some(session)
        }
        Ok(Err(NotIn::Refused(refusal))) => {
            session.audited.is_refused(&session.outside, &refusal);
            refuse(&session.talk, session.capabilities, &refusal).await;
            None
        }
        Ok(Err(NotIn::Gone)) | Err(_) => None,
    }
}

/// A client that has sent its login. Its password is not checked yet.
struct Arrival {
    talk: Talk,
    nonce: Nonce,
    login: Login,
}

/// Greets a client, and goes on in TLS if it wants to, with the certificate that other clients are shown. `None`: it
/// is gone, or was sent away.
async fn arrive(outside: &Outside, mut talk: Talk, id: u32) -> Option<Arrival> {
    let mut random = [0; Nonce::LEN];
    sys::random::fill(&mut random).ok()?;
    let nonce = Nonce::from_random(random);
    let tls = outside.shared.tls().clients.clone();
    let greeting = Greeting {
        version: VERSION.as_bytes().to_vec(),
        connection_id: id,
        nonce: nonce.as_bytes().to_vec(),
        capabilities: match &tls {
            Some(_) => CAPABILITIES | Capabilities::SSL,
            None => CAPABILITIES,
        },
        collation: 45,
        status: Status::AUTOCOMMIT,
        plugin: Plugin::NativePassword.name().to_vec(),
    };
    let mut payload = Vec::new();
    greeting.encode(&mut payload);
    talk.write(&payload).await.ok()?;
    let mut first = FirstPacket::decode(&talk.read().await.ok()?);
    if let (Ok(FirstPacket::TlsRequest { .. }), Some(offer)) = (&first, tls) {
        let sequence = talk.sequence();
        let (stream, unread) = talk.into_parts();
        let stream = offer.accept(stream, &unread).await.ok()?;
        talk = Talk::resume(stream, Vec::new(), sequence);
        first = FirstPacket::decode(&talk.read().await.ok()?);
    }
    let bad = |why: String| Refusal(1043, b"08S01", format!("Bad handshake: {why}"));
    let must_be_secure = outside.shared.tls().clients_required;
    let refusal = match first {
        Ok(FirstPacket::Login(_)) if must_be_secure && !talk.stream().is_secure() => {
            let message = "Connections using insecure transport are prohibited: Flifo's tls.mode is \
                \"required\", also for its console. Use TLS, or a Unix socket in console.listen";
            Refusal(3159, b"HY000", message.to_owned())
        }
        Ok(FirstPacket::Login(login)) => return Some(Arrival { talk, nonce, login }),
        Ok(FirstPacket::TlsRequest { .. }) => {
            bad("TLS was asked for, which was not offered".into())
        }
        Ok(FirstPacket::Old(_)) => bad("the protocol before 4.1 is not spoken".into()),
        Err(error) => bad(error.to_string()),
    };
    refuse(&talk, CAPABILITIES, &refusal).await;
    None
}

async fn refuse(talk: &Talk, capabilities: Capabilities, refusal: &Refusal) {
    let mut packets = Packets::new(talk.sequence(), capabilities);
    packets.put_refusal(refusal);
    // It is gone, or will be.
    let _ = talk.stream().write_all(&packets.bytes).await;
}

async fn greet_with(talk: &Talk, refusal: &Refusal) {
    let mut bytes = Vec::new();
    put_packet_with(&mut bytes, 0, |out| refusal.packet().encode_greeting(out));
    // It is gone, or will be.
    let _ = tokio::time::timeout(PATIENCE, talk.stream().write_all(&bytes)).await;
}

impl ConsoleSession {
    /// Lets a client in.
    async fn log_in(&mut self, nonce: &Nonce, login: &Login) -> Result<(), NotIn> {
        let Some(rights) = self.prove(nonce, login).await? else {
            // Guessing is made slow.
            tokio::time::sleep(Duration::from_millis(500)).await;
            let user = String::from_utf8_lossy(&login.user).into_owned();
            let message = format!("Access denied for user '{user}' on Flifo's console");
            return Err(NotIn::Refused(Refusal(1045, b"28000", message)));
        };
        self.rights = rights;
        let mut ok = Packets::new(self.talk.sequence(), self.capabilities);
        ok.put_ok();
        Ok(self.talk.stream().write_all(&ok.bytes).await?)
    }

    /// What the client may do by what it has proved. `None`: it does not know the password.
    async fn prove(&mut self, nonce: &Nonce, login: &Login) -> Result<Option<Rights>, NotIn> {
        if self.origin == VisitOrigin::Socket {
            return Ok(Some(Rights::Change));
        }
        let plan = self.outside.shared.plan();
        let Some(password) = &plan.console.password else { return Ok(Some(Rights::Look)) };
        let stored = native::NativeStage1::of(password.as_bytes()).stored();
        let native = Plugin::NativePassword;
        let mut response = login.response.clone();
        if login.plugin.as_ref().is_some_and(|plugin| plugin != native.name()) {
            let mut switch = Vec::new();
            AuthPacket::encode_switch(native.name(), nonce.as_bytes(), &mut switch);
            self.talk.write(&switch).await?;
            response = self.talk.read().await?;
        }
        Ok(stored.check(nonce, &response).map(|_| Rights::Change))
    }

    /// Answers commands until the client leaves, or its place is another one's.
    async fn converse(mut self, visit: Visit, gone: Gone) {
        self.answer_all(visit, gone).await;
        self.audited.log_out(&self.outside);
    }

    async fn answer_all(&mut self, visit: Visit, mut gone: Gone) {
        let idle = self.outside.shared.plan().limits.idle_client;
        loop {
            self.talk.set_sequence(0);
            let read = async {
                let read = self.talk.read();
                match idle {
                    Some(limit) => {
                        tokio::time::timeout(limit, read).await.ok().and_then(Result::ok)
                    }
                    None => read.await.ok(),
                }
            };
            let payload = tokio::select! {
                biased;
                _ = &mut gone => return self.send_away().await,
                payload = read => payload,
            };
            let Some(payload) = payload else { return };
            if self.outside.shared.is_departing() {
                return self.send_on().await;
            }
            let _answering = visit.answer();
            let Some(reply) = self.reply(&payload).await else { return };
            let sent = tokio::time::timeout(PATIENCE, self.talk.stream().write_all(&reply)).await;
            if !matches!(sent, Ok(Ok(()))) {
                return;
            }
        }
    }

    /// Another Flifo has taken over: what is ordered here would reach only clients that are still here, and what is shown
    /// is what this one has left.
    async fn send_on(&self) {
        let message =
            "Another Flifo has taken over, and has the console: connect anew. Nothing was done";
        let refusal = Refusal(1053, b"08S01", message.to_owned());
        let told = refuse(&self.talk, self.capabilities, &refusal);
        let _ = tokio::time::timeout(PATIENCE, told).await;
    }

    /// Tells a client that its place is another one's. It is idle: the socket takes these few bytes, or it is not told.
    async fn send_away(&self) {
        let message = "Too many connections: another client of the console got this place, which was idle longest";
        let mut packets = Packets::new(0, self.capabilities);
        packets.put_refusal(&Refusal(1040, b"08004", message.to_owned()));
        let write = self.talk.stream().write_all(&packets.bytes);
        let _ = tokio::time::timeout(Duration::from_secs(1), write).await;
    }

    /// The packets that answer a command. `None`: the client takes its leave.
    async fn reply(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        step!("console");
        let mut packets = Packets::new(1, self.capabilities);
        let (byte, body) = payload.split_first()?;
        match Opcode::decode(*byte) {
            Some(Opcode::Quit) => return None,
            Some(Opcode::Query) => {
                if let Err(refusal) = self.answer(body, &mut packets).await {
                    packets.put_refusal(&refusal);
                }
            }
            Some(Opcode::Ping) => packets.put_ok(),
            Some(Opcode::InitDb) => match self.use_schema(&String::from_utf8_lossy(body)) {
                Ok(()) => packets.put_ok(),
                Err(refusal) => packets.put_refusal(&refusal),
            },
            Some(Opcode::ResetConnection) => {
                self.prepared.clear();
                packets.put_ok();
            }
            Some(Opcode::SetOption) => packets.put_eof(),
            Some(Opcode::Statistics) => packets.put(b"Flifo's console; HELP lists statements"),
            Some(Opcode::StmtPrepare) => {
                if let Err(refusal) = self.prepared.prepare(body, &mut packets) {
                    packets.put_refusal(&refusal);
                }
            }
            Some(Opcode::StmtExecute) => {
                packets = packets.in_form(Form::Binary);
                let answered = match self.prepared.execute(payload) {
                    Ok(text) => self.answer(&text, &mut packets).await,
                    Err(refusal) => Err(refusal),
                };
                if let Err(refusal) = answered {
                    packets.put_refusal(&refusal);
                }
            }
            Some(Opcode::StmtReset) => match self.prepared.reset(payload) {
                Ok(()) => packets.put_ok(),
                Err(refusal) => packets.put_refusal(&refusal),
            },
            // These two have no answer.
            Some(Opcode::StmtSendLongData) => self.prepared.take_piece(payload),
            Some(Opcode::StmtClose) => self.prepared.close(payload),
            _ => packets.put_refusal(&Refusal(1047, b"08S01", "Unknown command".to_owned())),
        }
        Some(packets.bytes)
    }
}

impl From<TalkError> for NotIn {
    fn from(_: TalkError) -> Self {
        Self::Gone
    }
}

impl From<io::Error> for NotIn {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

impl Refusal {
    fn packet(&self) -> ErrPacket<'_> {
        ErrPacket { code: self.0, sqlstate: *self.1, message: self.2.as_bytes() }
    }
}

impl Packets {
    fn put_refusal(&mut self, refusal: &Refusal) {
        let mut payload = Vec::new();
        refusal.packet().encode(&mut payload);
        self.put(&payload);
    }
}

//! Clients that answer whatever they are asked: each tells its password wherever some driver would.

use std::fmt;
use std::time::Duration;

use backend::login::{BackendTls, LoginError, greet, prove_by_sha256, prove_fully};
use backend::login::{ServerKeys, is_sha256};
use backend::talk::TalkError;
use backend::tls::{ForBackends, Mode, server_name};
use backend::{Address, Talk, dial};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use wire::auth::{Nonce, Plugin, Secret, caching_sha2};
use wire::bytes::Write as _;
use wire::command::Opcode;
use wire::handshake::{AuthPacket, Login};
use wire::response::{EOF, ERR};

use super::{PASSWORD, Visit};
use crate::fake_client::CAPABILITIES;

#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    pub(super) is_tls: bool,
    /// The plugin that it answers the greeting by. Without TLS it does not tell the password unasked.
    pub(super) first: &'static str,
    pub(super) habit: Habit,
}

impl Client {
    fn first_plugin(self) -> Plugin {
        match Plugin::from_name(self.first.as_bytes()) {
            Plugin::ClearPassword if !self.is_tls => Plugin::NativePassword,
            plugin => plugin,
        }
    }
}

/// How a client reads what is asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Habit {
    Exact,
    /// It looks at the first byte, as PyMySQL does, and goes by caching_sha2_password whatever was asked.
    Hasty,
}

/// What became of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    Served,
    Error(u16),
    /// Of its own will: it does not know what it is asked.
    Left,
    /// Without a word.
    Closed,
    /// It was sent a packet of another number than the next one.
    OutOfOrder,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(code) => write!(f, "error {code}"),
            other => write!(f, "{other:?}"),
        }
    }
}

/// A client that is logged in.
pub(super) struct Connected {
    runtime: Runtime,
    talk: Talk,
    /// That of the greeting.
    nonce: Nonce,
}

/// What takes longer has no end.
const PATIENCE: Duration = Duration::from_secs(180);

/// Logs in, asks one thing, and goes.
pub(super) fn visit(port: u16, visit: Visit) -> End {
    match connect(port, visit.user, visit.client).and_then(|mut client| ask(&mut client)) {
        Ok(()) => End::Served,
        Err(end) => end,
    }
}

pub(super) fn connect(port: u16, user: &str, client: Client) -> Result<Connected, End> {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let talk = runtime.block_on(async { timeout(PATIENCE, log_in(port, user, client)).await });
    let (talk, nonce) = talk.expect("a login ends in time")?;
    Ok(Connected { runtime, talk, nonce })
}

/// Becomes the visit's user, asks one thing, and goes.
pub(super) fn change(mut client: Connected, visit: Visit) -> End {
    let Connected { runtime, talk, nonce } = &mut client;
    let become_user = async {
        let first = visit.client.first_plugin();
        let response = first.respond(&Secret::from(PASSWORD), nonce).unwrap_or_default();
        let mut payload = vec![Opcode::ChangeUser as u8];
        payload.put_nul_bytes(visit.user.as_bytes());
        payload.push(response.len() as u8);
        payload.extend_from_slice(&response);
        payload.put_nul_bytes(b"");
        payload.put_u16(45);
        payload.put_nul_bytes(first.name());
        talk.set_sequence(0);
        talk.write(&payload).await.map_err(|_| End::Closed)?;
        prove(talk, visit.client.habit, first, *nonce).await
    };
    let become_user = async { timeout(PATIENCE, become_user).await };
    let became = runtime.block_on(become_user).expect("a change of user ends in time");
    match became.and_then(|()| ask(&mut client)) {
        Ok(()) => End::Served,
        Err(end) => end,
    }
}

pub(super) fn ask(client: &mut Connected) -> Result<(), End> {
    let Connected { runtime, talk, .. } = client;
    let asked = async {
        talk.set_sequence(0);
        talk.write(b"\x03SELECT it").await.map_err(|_| End::Closed)?;
        // A count, a column, the row, the end.
        loop {
            let payload = read(talk).await?;
            if payload.first() == Some(&EOF) {
                return Ok(());
            }
        }
    };
    let asked = async { timeout(PATIENCE, asked).await };
    runtime.block_on(asked).expect("a reply ends in time")
}

/// The next payload that is not an error.
async fn read(talk: &mut Talk) -> Result<Vec<u8>, End> {
    let payload = talk.read().await.map_err(|error| end(&error.into()))?;
    match payload.first() {
        Some(&ERR) => Err(end(&LoginError::refused(&payload))),
        _ => Ok(payload),
    }
}

fn end(error: &LoginError) -> End {
    match error {
        LoginError::Refused { code, .. } => End::Error(*code),
        LoginError::Talk(TalkError::OutOfOrder { .. }) => End::OutOfOrder,
        LoginError::Talk(_) | LoginError::Tls(_) => End::Closed,
        _ => End::Left,
    }
}

async fn log_in(port: u16, user: &str, client: Client) -> Result<(Talk, Nonce), End> {
    let address = Address::Tcp { host: "127.0.0.1".to_owned(), port };
    let stream = dial::dial(&address).await.expect("Flifo listens");
    let greeted = greet(stream).await.map_err(|error| end(&error))?;
    let tls = client.is_tls.then(any_server);
    let nonce = Nonce::from_server(&Plugin::NativePassword, &greeted.greeting.nonce);
    let nonce = nonce.map_err(|_| End::Left)?;
    let first = client.first_plugin();
    let mut login = Login {
        capabilities: CAPABILITIES & greeted.greeting.capabilities,
        packet_max: 1 << 24,
        collation: 45,
        user: user.as_bytes().to_vec(),
        response: first.respond(&Secret::from(PASSWORD), &nonce).unwrap_or_default(),
        schema: None,
        plugin: Some(first.name().to_vec()),
        attributes: Vec::new(),
        zstd_level: None,
    };
    let greeted = greeted.secure(tls.as_ref(), &mut login).await.map_err(|error| end(&error))?;
    let mut talk = greeted.talk;
    let mut payload = Vec::new();
    login.encode(&mut payload);
    talk.write(&payload).await.map_err(|_| End::Closed)?;
    prove(&mut talk, client.habit, first, nonce).await?;
    Ok((talk, nonce))
}

fn any_server() -> BackendTls {
    let tls = ForBackends { mode: Mode::Required, ..ForBackends::default() };
    let config = tls.config().expect("no files").expect("a mode other than off");
    BackendTls { mode: tls.mode, config, name: server_name("localhost").expect("a name") }
}

/// Answers until it is in. What it is asked is bounded by the impostor.
async fn prove(
    talk: &mut Talk,
    habit: Habit,
    mut plugin: Plugin,
    mut nonce: Nonce,
) -> Result<(), End> {
    let password = Secret::from(PASSWORD);
    let (bytes, any) = (PASSWORD.as_bytes(), ServerKeys::Any);
    loop {
        let payload = read(talk).await?;
        let answer = match AuthPacket::decode(&payload).map_err(|_| End::Left)? {
            AuthPacket::Ok => return Ok(()),
            AuthPacket::Err => return Err(End::Left),
            AuthPacket::Switch { plugin: name, data } => {
                plugin = Plugin::from_name(name);
                if let Ok(next) = Nonce::from_server(&plugin, data) {
                    nonce = next;
                }
                if is_sha256(&plugin) {
                    prove_by_sha256(talk, bytes, &nonce, any).await.map_err(|it| end(&it))?;
                    continue;
                }
                match &plugin {
                    Plugin::Other(name) if **name == *b"dialog" => [bytes, b"\0"].concat(),
                    // A nonce that cannot be one for this plugin.
                    Plugin::Ed25519 if nonce.as_bytes().len() != Nonce::ED25519_LEN => {
                        return Err(End::Left);
                    }
                    plugin => plugin.respond(&password, &nonce).ok_or(End::Left)?,
                }
            }
            AuthPacket::More(&[caching_sha2::FAST_OK]) => continue,
            AuthPacket::More(data)
                if data == [caching_sha2::FULL]
                    || habit == Habit::Hasty && data.first() == Some(&caching_sha2::FULL) =>
            {
                prove_fully(talk, bytes, &nonce, any).await.map_err(|it| end(&it))?;
                continue;
            }
            AuthPacket::More(_) | AuthPacket::Bare(_) if plugin.name() == b"dialog" => {
                [bytes, b"\0"].concat()
            }
            AuthPacket::More(_) | AuthPacket::Bare(_) => return Err(End::Left),
        };
        talk.write(&answer).await.map_err(|_| End::Closed)?;
    }
}

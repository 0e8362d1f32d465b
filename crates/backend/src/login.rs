//! Logs in at a server: reads the greeting, goes on in TLS where that is wanted, proves the password.

mod blocking;

use std::borrow::Borrow;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use wire::auth::{Nonce, Plugin, Secret, caching_sha2, native, rsa};
use wire::bytes::Reader;
use wire::command::Opcode;
use wire::handshake::{AuthPacket, Greeting, Login};
use wire::response::{ERR, ErrPacket, OkPacket, Status};
use wire::{Capabilities, Malformed};

use crate::stream::{Stream, failure};
use crate::talk::{Talk, TalkError};
use crate::tls::{Mode, is_mismatch};

pub use blocking::{Blocking, BlockingError};

/// Why a login failed.
#[derive(Debug, thiserror::Error)]
pub enum LoginError {
    #[error("{message} (error {code}, SQLSTATE {sqlstate})")]
    Refused { code: u16, sqlstate: String, message: String },
    #[error(
        "the server asks for the plugin {0}, which Flifo cannot answer with what it knows of the \
         password: clients of such an account can be passed through, not pooled"
    )]
    Plugin(Plugin),
    #[error(
        "the server wants the password itself, and the connection to it is neither TLS nor a Unix socket"
    )]
    Insecure,
    #[error(
        "the server wants the password itself, under a public key that it sends on a connection without TLS: so could \
         any other server, which would then know the password. Let the server offer TLS, or, where the network \
         between cannot be intercepted, set server.tls = \"off\""
    )]
    UnknownKey,
    #[error(
        "the server wants the password in clear text (mysql_clear_password), and its certificate is not verified: so \
         could any other server. Set server.tls = \"verify-ca\" or \"verify-full\", with server.tls_ca"
    )]
    Unverified,
    #[error("the server does not speak TLS, and the mode is {0}")]
    NoTls(Mode),
    #[error(transparent)]
    Rsa(#[from] rsa::RsaError),
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error(transparent)]
    Talk(#[from] TalkError),
    #[error("TLS: {0}")]
    Tls(std::io::Error),
    #[error(
        "the server has no cipher in common with Flifo, which speaks TLS 1.2 and 1.3 with \
         ephemeral keys and authenticated ciphers; servers as old as MySQL 8.0.15 may know \
         neither. Use a newer server, or, where the network between cannot be intercepted, \
         server.tls = \"off\" ({0})"
    )]
    NoCipher(rustls::Error),
}

impl LoginError {
    /// Why TLS did not come about.
    fn tls(error: std::io::Error) -> Self {
        match failure(&error) {
            Some(failure) if is_mismatch(failure) => Self::NoCipher(failure.clone()),
            _ => Self::Tls(error),
        }
    }

    /// The server's refusal, from an error packet's payload.
    pub fn refused(payload: &[u8]) -> Self {
        match ErrPacket::decode(payload) {
            Ok(err) => Self::Refused {
                code: err.code,
                sqlstate: String::from_utf8_lossy(&err.sqlstate).into_owned(),
                message: String::from_utf8_lossy(err.message).into_owned(),
            },
            Err(error) => error.into(),
        }
    }
}

/// How a backend uses TLS.
#[derive(Clone, Debug)]
pub struct BackendTls {
    pub mode: Mode,
    pub config: Arc<rustls::ClientConfig>,
    pub name: ServerName<'static>,
}

/// Whether a public key that a server sends is taken, under which it is told a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKeys {
    Any,
    /// Another server could have sent it.
    None,
}

impl ServerKeys {
    /// By what is said of TLS to the server: only without any, it is not expected that the network is intercepted. A
    /// Unix socket is none.
    pub fn by(tls: Option<&BackendTls>, stream: &Stream) -> Self {
        let is_local = stream.addresses().is_none();
        match is_local || tls.is_none_or(|tls| tls.mode == Mode::Off) {
            true => Self::Any,
            false => Self::None,
        }
    }
}

/// Whether a server may be told a password in clear text: nothing can read along, and no other server could have asked
/// for it.
pub fn is_verified(stream: &Stream, tls: Option<&BackendTls>) -> bool {
    let is_local = stream.is_secure() && stream.addresses().is_none();
    is_local || stream.is_tls() && tls.is_some_and(|tls| tls.mode.verifies())
}

/// What is known to prove a user with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    Password(Secret),
    /// The SHA-1 of the password, which `mysql_native_password` takes for it.
    Native(native::NativeStage1),
}

/// A connection whose server has greeted.
#[derive(Debug)]
pub struct Greeted {
    pub talk: Talk,
    pub greeting: Greeting,
}

/// A connection that is logged in.
#[derive(Debug)]
pub struct LoggedIn {
    pub talk: Talk,
    pub thread_id: u32,
    pub capabilities: Capabilities,
    pub status: Status,
    pub is_mariadb: bool,
    /// The server has taken a proof of the password by `caching_sha2_password`. On a Unix socket it may let in a user
    /// that it believes to know, without a proof.
    pub has_proved_sha2: bool,
}

/// The user that logs in, and how.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    pub user: &'a [u8],
    pub credential: &'a Credential,
    /// Those of them that the server has will be used.
    pub capabilities: Capabilities,
    pub collation: u8,
    pub packet_max: u32,
    /// The schema to be in from the begin.
    pub schema: Option<&'a [u8]>,
}

/// Reads the server's greeting.
pub async fn greet(stream: Stream) -> Result<Greeted, LoginError> {
    let mut talk = Talk::new(stream);
    let payload = talk.read().await?;
    if payload.first() == Some(&ERR) {
        return Err(LoginError::refused(&payload));
    }
    Ok(Greeted { greeting: Greeting::decode(&payload)?, talk })
}

impl Greeted {
    /// Goes on in TLS, if that is wanted. `login` is what will be sent next.
    pub async fn secure(
        mut self,
        tls: Option<&BackendTls>,
        login: &mut Login,
    ) -> Result<Self, LoginError> {
        login.capabilities = login.capabilities.without(Capabilities::SSL);
        let Some(tls) = tls.filter(|tls| tls.mode != Mode::Off) else { return Ok(self) };
        // On a Unix socket no third party can read along: there TLS is used only if the mode requires it.
        let is_enough = self.talk.stream().is_secure() && !tls.mode.is_required();
        if is_enough {
            return Ok(self);
        }
        if !self.greeting.capabilities.has(Capabilities::SSL) {
            return if tls.mode.is_required() {
                Err(LoginError::NoTls(tls.mode))
            } else {
                Ok(self)
            };
        }
        login.capabilities = login.capabilities | Capabilities::SSL;
        let mut request = Vec::new();
        login.encode_tls_request(&mut request);
        self.talk.write(&request).await?;
        let sequence = self.talk.sequence();
        let (stream, unread) = self.talk.into_parts();
        if !unread.is_empty() {
            return Err(Malformed::new("bytes between the greeting and TLS").into());
        }
        let stream = stream.connect_tls(Arc::clone(&tls.config), tls.name.clone()).await;
        let stream = stream.map_err(LoginError::tls)?;
        Ok(Self { talk: Talk::resume(stream, Vec::new(), sequence), ..self })
    }

    /// Logs in with what is known of the user.
    pub async fn login(
        self,
        request: &Request<'_>,
        tls: Option<&BackendTls>,
    ) -> Result<LoggedIn, LoginError> {
        let mut login = request.login(self.greeting.capabilities);
        let Self { mut talk, greeting } = self.secure(tls, &mut login).await?;
        let mut plugin = Plugin::from_name(&greeting.plugin);
        let mut nonce = Nonce::from_server(&plugin, &greeting.nonce).ok();
        let trust = Trust::by(tls, talk.stream());
        // A plugin that cannot be answered now is switched by the server, if the user has another one.
        let prove = |nonce| respond(request.credential, &plugin, &nonce, talk.stream(), trust).ok();
        let first = nonce.and_then(prove);
        login.plugin = Some(plugin.name().to_vec());
        login.response = first.unwrap_or_default();
        let mut payload = Vec::new();
        login.encode(&mut payload);
        talk.write(&payload).await?;
        let (mut has_proved_sha2, mut unanswered, mut questions) = (false, None, 0);
        loop {
            let payload = talk.read().await?;
            match AuthPacket::decode(&payload)? {
                AuthPacket::Ok => {
                    let (capabilities, thread_id) = (login.capabilities, greeting.connection_id);
                    let status = OkPacket::decode(&payload, capabilities)?.status;
                    return Ok(LoggedIn {
                        talk,
                        thread_id,
                        capabilities,
                        status,
                        is_mariadb: greeting.is_mariadb(),
                        has_proved_sha2,
                    });
                }
                // Else it says only that none of its methods was answered.
                AuthPacket::Err => {
                    return Err(unanswered.unwrap_or_else(|| LoginError::refused(&payload)));
                }
                AuthPacket::Switch { plugin: name, data } => {
                    has_proved_sha2 = false;
                    plugin = Plugin::from_name(name);
                    if answers_sha256(&mut talk, request.credential, &plugin, data, trust).await? {
                        continue;
                    }
                    match answer_switch(request.credential, &plugin, data, talk.stream(), trust) {
                        Ok((next, answer)) => {
                            nonce = Some(next);
                            talk.write(&answer).await?;
                        }
                        // The account may have another method, which MariaDB asks for behind a wrong answer.
                        Err(error @ LoginError::Plugin(_)) if greeting.is_mariadb() => {
                            unanswered.get_or_insert(error);
                            talk.write(NO_ANSWER).await?;
                        }
                        Err(error) => return Err(error),
                    }
                }
                AuthPacket::More(&[caching_sha2::FAST_OK]) => {
                    has_proved_sha2 = plugin == Plugin::CachingSha2;
                }
                AuthPacket::More(&[caching_sha2::FULL]) => {
                    let Credential::Password(password) = request.credential else {
                        return Err(LoginError::Plugin(plugin));
                    };
                    let nonce = nonce.ok_or(Malformed::new("nonce"))?;
                    prove_fully(&mut talk, password.as_bytes(), &nonce, trust.keys).await?;
                    has_proved_sha2 = plugin == Plugin::CachingSha2;
                }
                // More of a method that was answered wrongly, on purpose.
                AuthPacket::More(_) | AuthPacket::Bare(_)
                    if unanswered.is_some() && questions < QUESTIONS_MAX =>
                {
                    questions += 1;
                    talk.write(NO_ANSWER).await?;
                }
                AuthPacket::More(_) => return Err(LoginError::Plugin(plugin)),
                AuthPacket::Bare(_) => return Err(Malformed::new("authentication packet").into()),
            }
        }
    }
}

impl LoggedIn {
    /// Asks for a sign of life.
    pub async fn ping(&mut self) -> Result<(), LoginError> {
        self.command(&[Opcode::Ping as u8]).await
    }

    /// Says that it leaves. A server that is gone need not hear it.
    pub async fn quit(mut self) {
        self.talk.set_sequence(0);
        let _ = self.talk.write(&[Opcode::Quit as u8]).await;
    }

    /// The same, and waits until the server has ended the connection, and does not count it any more.
    pub async fn leave(mut self) {
        self.talk.set_sequence(0);
        if self.talk.write(&[Opcode::Quit as u8]).await.is_ok() {
            let _ = self.talk.read().await;
        }
    }

    /// Runs a statement that answers OK; for what a backend is told before it is used.
    pub async fn run(&mut self, text: &str) -> Result<(), LoginError> {
        self.command(&[&[Opcode::Query as u8], text.as_bytes()].concat()).await
    }

    /// The same; answers with the changes of the session that the server reports.
    pub async fn changes(&mut self, text: &str) -> Result<Vec<u8>, LoginError> {
        let payload = self.ask(&[&[Opcode::Query as u8], text.as_bytes()].concat()).await?;
        Ok(OkPacket::decode(&payload, self.capabilities)?.changes.to_vec())
    }

    /// Has its session begin anew.
    pub async fn reset(&mut self) -> Result<(), LoginError> {
        self.command(&[Opcode::ResetConnection as u8]).await
    }

    async fn command(&mut self, bytes: &[u8]) -> Result<(), LoginError> {
        self.ask(bytes).await.map(|_| ())
    }

    /// Sends a command, and answers with the OK packet's payload.
    async fn ask(&mut self, bytes: &[u8]) -> Result<Vec<u8>, LoginError> {
        self.talk.set_sequence(0);
        self.talk.write(bytes).await?;
        let payload = self.talk.read().await?;
        match payload.first() {
            Some(&wire::response::OK) => Ok(payload),
            Some(&ERR) => Err(LoginError::refused(&payload)),
            _ => Err(Malformed::new("answer to a statement without rows").into()),
        }
    }

    /// Runs a statement that answers with rows of two texts, of which there are few. Servers that answer OK have none.
    pub async fn rows(&mut self, text: &str) -> Result<Vec<Pair>, LoginError> {
        let query = [&[Opcode::Query as u8], text.as_bytes()].concat();
        let mut rows = Vec::new();
        let taken = each_row(&mut self.talk, self.capabilities, &query, |row| {
            rows.push(pair(row)?);
            Ok(rows.len() <= ROWS_MAX)
        });
        match taken.await? {
            true => Ok(rows),
            false => Err(Malformed::new("rows").into()),
        }
    }

    /// The same of many rows, up to so many bytes of them. If there are more, the connection is of no more use.
    pub async fn rows_within(&mut self, text: &str, max: usize) -> Result<Many, LoginError> {
        let query = [&[Opcode::Query as u8], text.as_bytes()].concat();
        let (mut rows, mut left) = (Vec::new(), max);
        let taken = each_row(&mut self.talk, self.capabilities, &query, |row| {
            let (name, value) = pair(row)?;
            let size = name.len() + value.len() + size_of::<Pair>();
            let rest = left.checked_sub(size);
            if let Some(rest) = rest {
                left = rest;
                rows.push((name, value));
            }
            Ok(rest.is_some())
        });
        let is_whole = taken.await?;
        Ok(Many { rows, is_whole })
    }

    /// The first text of the first row that a statement answers with, if there is one.
    pub async fn text(&mut self, text: &str) -> Result<Option<Vec<u8>>, LoginError> {
        let query = [&[Opcode::Query as u8], text.as_bytes()].concat();
        let mut found = None;
        let taken = each_row(&mut self.talk, self.capabilities, &query, |row| {
            found.get_or_insert(row.lenenc_bytes("text")?.to_vec());
            Ok(true)
        });
        taken.await?;
        Ok(found)
    }
}

/// A row of two texts.
pub type Pair = (Vec<u8>, Vec<u8>);

/// Rows of which there may be too many.
#[derive(Debug, Default)]
pub struct Many {
    pub rows: Vec<Pair>,
    /// All are there.
    pub is_whole: bool,
}

fn pair(row: &mut Reader<'_>) -> Result<Pair, Malformed> {
    let name = row.lenenc_bytes("name")?.to_vec();
    Ok((name, row.lenenc_bytes("value")?.to_vec()))
}

/// Runs a statement, and has each row of its answer taken, until one is too many: then the answer is false, and what
/// follows is left unread.
pub async fn each_row<S: Borrow<Stream>>(
    talk: &mut Talk<S>,
    capabilities: Capabilities,
    query: &[u8],
    take: impl FnMut(&mut Reader<'_>) -> Result<bool, Malformed>,
) -> Result<bool, LoginError> {
    each_row_of_columns(talk, capabilities, query, |_| Ok(()), take).await
}

/// The same; before the rows, the definition of each column is taken.
pub async fn each_row_of_columns<S: Borrow<Stream>>(
    talk: &mut Talk<S>,
    capabilities: Capabilities,
    query: &[u8],
    define: impl FnMut(&[u8]) -> Result<(), Malformed>,
    take: impl FnMut(&mut Reader<'_>) -> Result<bool, Malformed>,
) -> Result<bool, LoginError> {
    talk.set_sequence(0);
    talk.write(query).await?;
    rows_of_answer(talk, capabilities, define, take).await
}

/// Has each row taken of the answer to a statement that was sent.
pub(crate) async fn each_row_of_answer<S: Borrow<Stream>>(
    talk: &mut Talk<S>,
    capabilities: Capabilities,
    take: impl FnMut(&mut Reader<'_>) -> Result<bool, Malformed>,
) -> Result<bool, LoginError> {
    rows_of_answer(talk, capabilities, |_| Ok(()), take).await
}

async fn rows_of_answer<S: Borrow<Stream>>(
    talk: &mut Talk<S>,
    capabilities: Capabilities,
    mut define: impl FnMut(&[u8]) -> Result<(), Malformed>,
    mut take: impl FnMut(&mut Reader<'_>) -> Result<bool, Malformed>,
) -> Result<bool, LoginError> {
    talk.set_sequence(1);
    let first = talk.read().await?;
    match first.first() {
        Some(&wire::response::OK) => return Ok(true),
        Some(&ERR) => return Err(LoginError::refused(&first)),
        Some(&columns) => {
            for _ in 0..columns {
                define(&talk.read().await?)?;
            }
            if !capabilities.has(Capabilities::DEPRECATE_EOF) {
                talk.read().await?;
            }
        }
        None => return Err(Malformed::new("an empty answer").into()),
    }
    loop {
        let payload = talk.read().await?;
        match payload.first() {
            Some(&wire::response::EOF) => return Ok(true),
            Some(&ERR) => return Err(LoginError::refused(&payload)),
            _ if take(&mut Reader::new(&payload))? => {}
            _ => return Ok(false),
        }
    }
}

/// No caller asks for more rows than this.
const ROWS_MAX: usize = 1024;

/// Proves a password to a caching_sha2 server that does not remember it: in clear on a secure connection, else
/// encrypted with the server's public key.
pub async fn prove_fully(
    talk: &mut Talk,
    password: &[u8],
    nonce: &Nonce,
    keys: ServerKeys,
) -> Result<(), LoginError> {
    prove(talk, password, nonce, caching_sha2::REQUEST_PUBLIC_KEY, keys).await
}

/// Proves a password to a server by `sha256_password`.
pub async fn prove_by_sha256(
    talk: &mut Talk,
    password: &[u8],
    nonce: &Nonce,
    keys: ServerKeys,
) -> Result<(), LoginError> {
    prove(talk, password, nonce, REQUEST_SHA256_KEY, keys).await
}

/// The plugin from which caching_sha2_password has its full login; MySQL also pretends that users
/// have it whom it does not know.
pub fn is_sha256(plugin: &Plugin) -> bool {
    plugin.name() == b"sha256_password"
}

/// What asks a server for its public key in that plugin.
const REQUEST_SHA256_KEY: u8 = 0x01;

async fn prove(
    talk: &mut Talk,
    password: &[u8],
    nonce: &Nonce,
    request_key: u8,
    keys: ServerKeys,
) -> Result<(), LoginError> {
    // The older plugin trusts TLS alone, the newer one Unix sockets as well.
    let is_secure = match request_key {
        REQUEST_SHA256_KEY => talk.stream().is_tls(),
        _ => talk.stream().is_secure(),
    };
    if is_secure || password.is_empty() {
        talk.write(&[password, &[0]].concat()).await?;
        return Ok(());
    }
    if keys == ServerKeys::None {
        return Err(LoginError::UnknownKey);
    }
    talk.write(&[request_key]).await?;
    let payload = talk.read().await?;
    match AuthPacket::decode(&payload)? {
        AuthPacket::More(pem) => {
            let encrypted = rsa::encrypt(pem, password, nonce)?;
            talk.write(&encrypted).await?;
            Ok(())
        }
        AuthPacket::Err => Err(LoginError::refused(&payload)),
        _ => Err(Malformed::new("public key").into()),
    }
}

/// A method that is answered wrongly may ask so many times more.
const QUESTIONS_MAX: usize = 8;

impl Request<'_> {
    /// The login to a server of these capabilities, still without its proof.
    fn login(&self, of_server: Capabilities) -> Login {
        let schema = self.schema.map_or(Capabilities::NONE, |_| Capabilities::CONNECT_WITH_DB);
        Login {
            capabilities: (self.capabilities | schema) & of_server,
            packet_max: self.packet_max,
            collation: self.collation,
            user: self.user.to_vec(),
            response: Vec::new(),
            schema: self.schema.map(<[u8]>::to_vec),
            plugin: None,
            attributes: attributes(),
            zstd_level: None,
        }
    }
}

/// What the other end of a connection may be told.
#[derive(Clone, Copy, Debug)]
struct Trust {
    keys: ServerKeys,
    is_verified: bool,
}

impl Trust {
    fn by(tls: Option<&BackendTls>, stream: &Stream) -> Self {
        Self { keys: ServerKeys::by(tls, stream), is_verified: is_verified(stream, tls) }
    }
}

/// What no method takes for a proof.
const NO_ANSWER: &[u8] = &[0];

/// Proves a password by `sha256_password`, if that is what the server asks for, and the password is known.
async fn answers_sha256(
    talk: &mut Talk,
    credential: &Credential,
    plugin: &Plugin,
    data: &[u8],
    trust: Trust,
) -> Result<bool, LoginError> {
    match credential {
        Credential::Password(password) if is_sha256(plugin) => {
            let nonce = Nonce::from_server(plugin, data)?;
            prove_by_sha256(talk, password.as_bytes(), &nonce, trust.keys).await?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// What is answered to a server that asks for another plugin, and the nonce that it came with.
fn answer_switch(
    credential: &Credential,
    plugin: &Plugin,
    data: &[u8],
    stream: &Stream,
    trust: Trust,
) -> Result<(Nonce, Vec<u8>), LoginError> {
    let nonce = match plugin {
        // What comes with it is no nonce that is known here.
        Plugin::ClearPassword => Nonce::from_random([1; Nonce::LEN]),
        Plugin::Other(_) => return Err(LoginError::Plugin(plugin.clone())),
        _ => Nonce::from_server(plugin, data)?,
    };
    Ok((nonce, respond(credential, plugin, &nonce, stream, trust)?))
}

fn respond(
    credential: &Credential,
    plugin: &Plugin,
    nonce: &Nonce,
    stream: &Stream,
    trust: Trust,
) -> Result<Vec<u8>, LoginError> {
    match plugin {
        Plugin::ClearPassword if !stream.is_secure() => return Err(LoginError::Insecure),
        Plugin::ClearPassword if !trust.is_verified => return Err(LoginError::Unverified),
        _ => {}
    }
    let answer = match (credential, plugin) {
        (Credential::Password(password), plugin) => plugin.respond(password, nonce),
        (Credential::Native(stage1), Plugin::NativePassword) => {
            Some(stage1.respond(nonce).to_vec())
        }
        (Credential::Native(_), _) => None,
    };
    answer.ok_or_else(|| LoginError::Plugin(plugin.clone()))
}

/// How a backend introduces itself in the server's list of connections.
fn attributes() -> Vec<u8> {
    use wire::bytes::Write;
    let mut out = Vec::new();
    for (key, value) in [("_client_name", "flifo"), ("_client_version", env!("CARGO_PKG_VERSION"))]
    {
        out.put_lenenc_bytes(key.as_bytes());
        out.put_lenenc_bytes(value.as_bytes());
    }
    out
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;
    use wire::frame::put_packet;

    use super::*;
    use crate::tls::{ForBackends, server_name};

    /// A server that wants TLS, and answers its beginning with a fatal alert.
    async fn alerted(alert: u8) -> LoginError {
        let (near, mut far) = UnixStream::pair().unwrap();
        let capabilities = Capabilities::SSL | Capabilities::PROTOCOL_41;
        let greeting = Greeting {
            version: b"8.0.15".to_vec(),
            connection_id: 1,
            nonce: vec![b'x'; Nonce::LEN],
            capabilities,
            collation: 45,
            status: Status::default(),
            plugin: Plugin::CachingSha2.name().to_vec(),
        };
        let (mut payload, mut packet) = (Vec::new(), Vec::new());
        greeting.encode(&mut payload);
        put_packet(&mut packet, 0, &payload);
        let serve = async {
            far.write_all(&packet).await.unwrap();
            // The request for TLS, and the first record's header.
            far.read_exact(&mut [0; 36 + 5]).await.unwrap();
            far.write_all(&[0x15, 3, 3, 0, 2, 2, alert]).await.unwrap();
            far
        };
        let tls = ForBackends { mode: Mode::Required, ..ForBackends::default() };
        let config = tls.config().unwrap().unwrap();
        let tls = BackendTls { mode: tls.mode, config, name: server_name("localhost").unwrap() };
        let log_in = async {
            let stream = Stream::try_from(near).unwrap();
            let credential = Credential::Password(Secret::from("secret"));
            let request = Request {
                user: b"app",
                credential: &credential,
                capabilities,
                collation: 45,
                packet_max: 1 << 24,
                schema: None,
            };
            greet(stream).await.unwrap().login(&request, Some(&tls)).await.unwrap_err()
        };
        tokio::join!(serve, log_in).1
    }

    #[tokio::test]
    async fn a_server_without_a_cipher_in_common_is_told_of_with_what_to_do() {
        let told = alerted(40).await.to_string();
        for word in ["no cipher in common", "newer server", "server.tls = \"off\""] {
            assert!(told.contains(word), "{told}");
        }
        // Another alert is another failure.
        let told = alerted(80).await.to_string();
        assert!(told.contains("InternalError") && !told.contains("cipher"), "{told}");
    }
}

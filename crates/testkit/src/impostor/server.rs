//! The server that lies: one thread for each connection, which does as the conduct of its seed says, and keeps all that
//! it hears.
//!
//! It knows the private part of each key that it sends. Invariants: it listens on 127.0.0.1 and a Unix socket only; its
//! connections are closed when it is dropped.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use backend::offer::Offer as Shown;
use backend::tls::{ForClients, Identity};
use backend::{Stream, Talk};
use tokio::runtime::Builder;
use tokio::time::timeout;
use wire::Capabilities;
use wire::auth::rsa::RsaEnd;
use wire::auth::{Nonce, Plugin, caching_sha2};
use wire::command::Opcode;
use wire::handshake::{AuthPacket, FirstPacket, Login};
use wire::response::{ERR, ErrPacket, OK, OkPacket};

use super::{Conduct, Data, Demand, Last, Offer};
use crate::fake_server::{Brand, greeting_with, is_greeting, is_tracking, reporting};
use crate::reply::honest;
use crate::scene::wait_for;

/// From which the conduct of each connection follows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lies {
    Seed(u64),
    /// That of the server itself, where it does not remember the password.
    FullLogin,
    /// The same without TLS.
    FullLoginInPlain,
}

pub(super) struct Impostor {
    port: u16,
    socket: PathBuf,
    shared: Arc<Shared>,
}

struct Shared {
    lies: Mutex<Option<(Lies, u32)>>,
    heard: Mutex<Vec<Heard>>,
    connections: Mutex<HashMap<u32, Connection>>,
    opened: AtomicU32,
    is_over: AtomicBool,
    made_up: Shown,
    of_another: Shown,
    signed: Shown,
}

struct Connection {
    socket: Socket,
    is_lied_to: bool,
    /// The one that has logged in; empty before.
    user: String,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    fn second(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
        })
    }

    /// It may be closed already.
    fn shut_down(&self) {
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    fn into_stream(self) -> io::Result<Stream> {
        match self {
            Self::Tcp(stream) => {
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                Ok(tokio::net::TcpStream::from_std(stream)?.into())
            }
            Self::Unix(stream) => {
                stream.set_nonblocking(true)?;
                tokio::net::UnixStream::from_std(stream)?.try_into()
            }
        }
    }
}

/// What was heard on a connection.
#[derive(Clone)]
pub(super) struct Heard {
    conduct: Conduct,
    /// It has lied in this connection.
    is_lied_to: bool,
    /// This connection was honest until its client changed its user.
    pub(super) has_changed_user: bool,
    pub(super) user: String,
    pub(super) is_tls: bool,
    /// The certificate that was shown.
    pub(super) shown: Certificate,
    pub(super) nonces: Vec<Nonce>,
    pub(super) said: Vec<Said>,
}

/// Whose certificate a peer has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Certificate {
    /// That of an authority which Flifo does not trust, or none.
    MadeUp,
    /// One of Flifo's authority, which names another host.
    OfAnother,
    /// The server's own.
    Own,
}

#[derive(Clone)]
pub(super) struct Said {
    /// The plugin that was asked last.
    pub(super) asked_by: String,
    pub(super) bytes: Vec<u8>,
}

impl fmt::Debug for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { conduct, user, is_tls, shown, said, .. } = self;
        write!(f, "{user}, TLS {is_tls}, certificate {shown:?}, {conduct:?}, heard ")?;
        let shown = |said: &Said| {
            let start = &said.bytes[..said.bytes.len().min(64)];
            format!("{}: {}", said.asked_by, start.escape_ascii())
        };
        f.debug_list().entries(said.iter().map(shown)).finish()
    }
}

/// No peer is waited for longer, where it is lied to.
const PATIENCE: Duration = Duration::from_secs(5);

impl Impostor {
    /// It begins as the server itself. In the folder are the certificates.
    pub(super) fn start(folder: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let signed = |name: &str| Identity {
            certificate: folder.join(format!("{name}.pem")),
            key: folder.join(format!("{name}-key.pem")),
        };
        let offer = |identity| ForClients { identity, ca: None }.offer().expect("certificates");
        let shared = Arc::new(Shared {
            lies: Mutex::default(),
            heard: Mutex::default(),
            connections: Mutex::default(),
            opened: AtomicU32::new(0),
            is_over: AtomicBool::new(false),
            made_up: offer(None),
            of_another: offer(Some(signed("client"))),
            signed: offer(Some(signed("server"))),
        });
        let socket = folder.join("impostor.sock");
        let by_socket = UnixListener::bind(&socket).expect("a path");
        let (first, second) = (Arc::clone(&shared), Arc::clone(&shared));
        thread::spawn(move || {
            accept(&first, || listener.accept().map(|(stream, _)| Socket::Tcp(stream)));
        });
        thread::spawn(move || {
            accept(&second, || by_socket.accept().map(|(stream, _)| Socket::Unix(stream)));
        });
        Self { port, socket, shared }
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// How connections, and changes of users, are treated from now on; `first`: how many count as made before.
    pub(super) fn lie(&self, lies: Lies, first: u32) {
        *lock(&self.shared.lies) = Some((lies, first));
    }

    /// From now on they are treated honestly.
    pub(super) fn lie_no_more(&self) {
        *lock(&self.shared.lies) = None;
    }

    /// Closes the connections that are lied to, and gives what was heard on them.
    pub(super) fn leave(&self) -> Vec<Heard> {
        self.close(|connection| connection.is_lied_to);
        std::mem::take(&mut lock(&self.shared.heard))
    }

    /// Closes the connections of this user: its next client needs a new one.
    pub(super) fn end(&self, user: &str) {
        self.close(|connection| connection.user == user);
    }

    fn close(&self, is_one: impl Fn(&Connection) -> bool) {
        let are_gone = || {
            let connections = lock(&self.shared.connections);
            let mut are_gone = true;
            for connection in connections.values().filter(|it| is_one(it)) {
                connection.socket.shut_down();
                are_gone = false;
            }
            are_gone
        };
        wait_for("the impostor's threads", are_gone);
    }
}

/// Of each connection, one of these; they take long to make.
pub(super) fn keys() -> &'static [RsaEnd; 2] {
    static KEYS: OnceLock<[RsaEnd; 2]> = OnceLock::new();
    KEYS.get_or_init(|| [(); 2].map(|()| RsaEnd::generate().expect("a key")))
}

impl Drop for Impostor {
    fn drop(&mut self) {
        self.shared.is_over.store(true, SeqCst);
        for connection in lock(&self.shared.connections).values() {
            connection.socket.shut_down();
        }
        // Wakes the threads that accept.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        let _ = UnixStream::connect(&self.socket);
    }
}

fn accept(shared: &Arc<Shared>, next: impl Fn() -> io::Result<Socket>) {
    while let Ok(socket) = next() {
        if shared.is_over.load(SeqCst) {
            return;
        }
        let number = shared.opened.fetch_add(1, SeqCst) + 1;
        let second = socket.second().expect("a second descriptor");
        // Noted while nothing changes how it is treated.
        let mut lies = lock(&shared.lies);
        let conduct = next_conduct(&mut lies);
        let is_lied_to = conduct.is_some();
        let connection = Connection { socket: second, is_lied_to, user: String::new() };
        lock(&shared.connections).insert(number, connection);
        drop(lies);
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            let mut heard = Heard::new(conduct);
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let stream = socket.into_stream().expect("a socket");
                match heard.is_lied_to {
                    false => drop(serve(stream, &shared, number, &mut heard).await),
                    // Late, or the peer is gone: both are ends.
                    true => {
                        drop(timeout(PATIENCE, serve(stream, &shared, number, &mut heard)).await);
                    }
                }
            });
            if heard.is_lied_to {
                lock(&shared.heard).push(heard);
            }
            lock(&shared.connections).remove(&number);
        });
    }
}

/// That of the next connection, or change of a user.
fn next_conduct(lies: &mut Option<(Lies, u32)>) -> Option<Conduct> {
    let (lies, made) = lies.as_mut()?;
    *made += 1;
    Some(Conduct::of(*lies, *made))
}

impl Heard {
    fn new(conduct: Option<Conduct>) -> Self {
        Self {
            is_lied_to: conduct.is_some(),
            has_changed_user: false,
            conduct: conduct.unwrap_or_else(Conduct::honest),
            user: String::new(),
            is_tls: false,
            shown: Certificate::MadeUp,
            nonces: Vec::new(),
            said: Vec::new(),
        }
    }

    /// Whether a client's answers are passed on to it: also those of a user whose methods Flifo does not have.
    pub(super) fn is_passed_through(&self) -> bool {
        const RELAYED: &str = "flifo_relay";
        self.said.iter().any(|said| said.asked_by == RELAYED)
    }

    /// Whether it numbers packets wrongly here.
    pub(super) fn misnumbers(&self) -> bool {
        self.conduct.demands.iter().any(|demand| matches!(demand, Demand::Misnumbered(_)))
    }

    fn hear(&mut self, asked_by: &str, bytes: &[u8]) {
        self.said.push(Said { asked_by: asked_by.to_owned(), bytes: bytes.to_vec() });
    }
}

/// `None`: the connection is over.
async fn serve(stream: Stream, shared: &Shared, number: u32, heard: &mut Heard) -> Option<()> {
    let conduct = heard.conduct.clone();
    let mut greeting = greeting_with(Brand::MariaDb, number);
    greeting.plugin = conduct.greets_with.as_bytes().to_vec();
    greeting.nonce = nonce_bytes(number, 0).to_vec();
    if conduct.offer != Offer::None {
        greeting.capabilities = greeting.capabilities | Capabilities::SSL;
    }
    heard.nonces.push(nonce(&greeting.nonce));
    let mut talk = Talk::new(stream);
    let mut payload = Vec::new();
    greeting.encode(&mut payload);
    talk.write(&payload).await.ok()?;
    let (mut talk, login) = secured(talk, shared, heard).await?;
    heard.user = String::from_utf8_lossy(&login.user).into_owned();
    if let Some(connection) = lock(&shared.connections).get_mut(&number) {
        connection.user.clone_from(&heard.user);
    }
    let plugin = login.plugin.unwrap_or(greeting.plugin);
    let mut lies = Lying { number, plugin: String::from_utf8_lossy(&plugin).into_owned() };
    heard.hear(&lies.plugin, &login.response);
    lies.let_in(&mut talk, &conduct, heard).await?;
    answer(&mut talk, shared, login.capabilities, (number, heard)).await
}

/// The connection as it is behind the offer of TLS, and the login that came on it.
async fn secured(mut talk: Talk, shared: &Shared, heard: &mut Heard) -> Option<(Talk, Login)> {
    let payload = talk.read().await.ok()?;
    heard.hear("the greeting", &payload);
    match FirstPacket::decode(&payload).ok()? {
        FirstPacket::Login(login) => return Some((talk, login)),
        FirstPacket::Old(_) => return None,
        FirstPacket::TlsRequest { .. } => {}
    }
    let (certificate, shown) = match heard.conduct.offer {
        Offer::Signed => (&shared.signed, Certificate::Own),
        Offer::OfAnother => (&shared.of_another, Certificate::OfAnother),
        Offer::Broken(bytes) => {
            talk.stream().write_all(bytes).await.ok()?;
            return listen(talk, "broken TLS", heard).await.map(|()| unreachable!());
        }
        Offer::None | Offer::MadeUp => (&shared.made_up, Certificate::MadeUp),
    };
    let sequence = talk.sequence();
    let (stream, unread) = talk.into_parts();
    let stream = certificate.accept(stream, &unread).await.ok()?;
    heard.is_tls = true;
    heard.shown = shown;
    let mut talk = Talk::resume(stream, Vec::new(), sequence);
    let payload = talk.read().await.ok()?;
    heard.hear("the greeting in TLS", &payload);
    let login = Login::decode(&payload).ok()?;
    Some((talk, login))
}

/// Hears what comes, until the peer goes.
async fn listen(talk: Talk, asked_by: &str, heard: &mut Heard) -> Option<()> {
    let (stream, mut bytes) = talk.into_parts();
    heard.hear(asked_by, &bytes);
    // What comes in pieces is looked at as a whole.
    let mut piece = [0; 2048];
    while bytes.len() < 1 << 16 {
        match stream.read_some(&mut piece).await {
            Ok(read @ 1..) => bytes.extend_from_slice(&piece[..read]),
            _ => break,
        }
        heard.hear(asked_by, &bytes);
    }
    None
}

/// Answers commands as the server would.
async fn answer(
    talk: &mut Talk,
    shared: &Shared,
    capabilities: Capabilities,
    (number, heard): (u32, &mut Heard),
) -> Option<()> {
    loop {
        talk.set_sequence(0);
        let command = talk.read().await.ok()?;
        if command.first() == Some(&(Opcode::ChangeUser as u8)) {
            let (user, plugin) = user_and_plugin(&command[1..])?;
            if let Some(conduct) = lies_now(shared, number, &user) {
                heard.is_lied_to = true;
                heard.has_changed_user = true;
                heard.conduct = conduct.clone();
                heard.user = user;
                heard.hear(&plugin, &command);
                let mut lies = Lying { number, plugin };
                lies.let_in(talk, &conduct, heard).await?;
                continue;
            }
        }
        heard.hear("the session", &command);
        let mut sequence = talk.sequence();
        let bytes = match &command {
            it if is_tracking(it) => reporting(sequence),
            it if is_greeting(it, Brand::MariaDb) => {
                crate::reply::Reply::Ok.encode(capabilities, &mut sequence)
            }
            it => honest(it).encode(capabilities, &mut sequence),
        };
        if command.first() == Some(&1) {
            return None;
        }
        talk.stream().write_all(&bytes).await.ok()?;
    }
}

/// How the change to this user is answered, unless it is answered honestly.
fn lies_now(shared: &Shared, number: u32, user: &str) -> Option<Conduct> {
    let mut lies = lock(&shared.lies);
    let conduct = next_conduct(&mut lies);
    if let Some(connection) = lock(&shared.connections).get_mut(&number) {
        user.clone_into(&mut connection.user);
        connection.is_lied_to |= conduct.is_some();
    }
    conduct
}

/// Which user a `COM_CHANGE_USER` asks for, and the plugin of its answer.
fn user_and_plugin(payload: &[u8]) -> Option<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let ended = |bytes: &[u8]| bytes.iter().position(|byte| *byte == 0);
    let user = ended(payload)?;
    let answer = usize::from(*payload.get(user + 1)?);
    let schema = payload.get(user + 2 + answer..)?;
    let plugin = schema.get(ended(schema)? + 3..).unwrap_or_default();
    let end = ended(plugin).unwrap_or(plugin.len());
    Some((text(&payload[..user]), text(&plugin[..end])))
}

/// A connection in which demands are made.
struct Lying {
    number: u32,
    /// That was asked for last.
    plugin: String,
}

impl Lying {
    /// Makes all demands, and lets the peer in, or not. `None`: the connection is over.
    async fn let_in(
        &mut self,
        talk: &mut Talk,
        conduct: &Conduct,
        heard: &mut Heard,
    ) -> Option<()> {
        for demand in &conduct.demands {
            self.demand(talk, *demand, heard).await?;
        }
        let mut payload = Vec::new();
        match conduct.last {
            Last::Close => return None,
            Last::Silence => {
                let said = talk.read().await.ok()?;
                heard.hear(&self.plugin, &said);
                return None;
            }
            Last::Denied => {
                let denied =
                    ErrPacket { code: 1045, sqlstate: *b"28000", message: b"Access denied" };
                denied.encode(&mut payload);
                debug_assert_eq!(payload.first(), Some(&ERR));
                talk.write(&payload).await.ok()?;
                return None;
            }
            Last::Ok => {}
        }
        OkPacket::EMPTY.encode(OK, Capabilities::PROTOCOL_41, &mut payload);
        talk.write(&payload).await.ok()
    }

    async fn demand(&mut self, talk: &mut Talk, demand: Demand, heard: &mut Heard) -> Option<()> {
        let mut payload = Vec::new();
        match demand {
            Demand::Misnumbered(by) => {
                talk.set_sequence(talk.sequence().wrapping_add(by));
                return Some(());
            }
            Demand::Switch(plugin, data) => {
                plugin.clone_into(&mut self.plugin);
                let data = self.data(plugin, data, heard);
                AuthPacket::encode_switch(plugin.as_bytes(), &data, &mut payload);
            }
            Demand::Full(rest) => {
                if rest.is_empty() {
                    "caching_sha2_password".clone_into(&mut self.plugin);
                }
                AuthPacket::encode_more(&[&[caching_sha2::FULL], rest].concat(), &mut payload);
            }
            Demand::Fast => {
                AuthPacket::encode_more(&[caching_sha2::FAST_OK], &mut payload);
                return talk.write(&payload).await.ok();
            }
            Demand::Key => AuthPacket::encode_more(self.key(), &mut payload),
            Demand::More(data) => AuthPacket::encode_more(data, &mut payload),
            Demand::Bare(data) => payload.extend_from_slice(data),
        }
        talk.write(&payload).await.ok()?;
        let said = talk.read().await.ok()?;
        heard.hear(&self.plugin, &said);
        // One byte that asks for the key, in either plugin that has one.
        if matches!(*said, [1 | caching_sha2::REQUEST_PUBLIC_KEY]) {
            let mut payload = Vec::new();
            AuthPacket::encode_more(self.key(), &mut payload);
            talk.write(&payload).await.ok()?;
            let said = talk.read().await.ok()?;
            heard.hear(&self.plugin, &said);
        }
        Some(())
    }

    fn data(&self, plugin: &str, data: Data, heard: &mut Heard) -> Vec<u8> {
        match data {
            Data::None => Vec::new(),
            Data::Prompt => b"\x04Password: ".to_vec(),
            Data::Nonce => {
                let mut bytes = nonce_bytes(self.number, heard.nonces.len()).to_vec();
                heard.nonces.push(nonce(&bytes));
                if plugin == "client_ed25519" {
                    bytes.resize(Nonce::ED25519_LEN - 1, b'e');
                }
                bytes
            }
        }
    }

    /// The next connection has another one.
    fn key(&self) -> &'static [u8] {
        keys()[self.number as usize % 2].public_pem().as_bytes()
    }
}

fn nonce_bytes(number: u32, of_connection: usize) -> [u8; Nonce::LEN] {
    let mut bytes = *b"a nonce of 20 bytes.";
    let own = number.to_le_bytes().map(|byte| b'a' + byte % 26);
    bytes[..4].copy_from_slice(&own);
    bytes[4] = b'A' + (of_connection % 26) as u8;
    bytes
}

fn nonce(bytes: &[u8]) -> Nonce {
    Nonce::from_server(&Plugin::CachingSha2, bytes).expect("20 bytes")
}

/// A thread that panicked has said why.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

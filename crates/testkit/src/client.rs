//! A client that says what it saw: how it was asked for its password, and what it was answered.
//!
//! Speaks the protocol's plain form, packet by packet, and waits where it must; what real drivers
//! do is tested with real drivers. Not for large results: a packet has at most 64 KiB.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use backend::login::{self, BackendTls, Greeted, LoginError, ServerKeys};
use backend::tls::{ForBackends, Mode};
use backend::{Address, Stream, Talk};
use bench::private_server::PrivateServer;
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;
use wire::auth::certificate::{BY_SHA256, Stored};
use wire::auth::{Nonce, Plugin, Secret, caching_sha2, ed25519, native, rsa};
use wire::bytes::{Reader, Write};
use wire::command::Opcode;
use wire::handshake::UTF8MB4;
use wire::handshake::{AuthPacket, Login};
use wire::response::{EOF, ERR, OK, OkPacket, Status};
use wire::{Capabilities, Malformed};

/// What went wrong, and what the server said of it.
pub type Problem = LoginError;

/// What a client is asked during a login, beyond its first answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// To answer by another plugin.
    Switch(String),
    /// Nothing more: its answer was good.
    Fast,
    /// For the password itself.
    Full,
}

/// The login of a user: the address, the user, and how the login is done.
#[derive(Clone, Debug)]
pub struct Builder {
    address: Address,
    user: Vec<u8>,
    collation: u8,
    password: String,
    plugin: Plugin,
    tls: Option<BackendTls>,
    key: Option<String>,
    /// The answer by plugins that are not spoken here; MySQL pretends that unknown users have one.
    other: Vec<u8>,
    capabilities: Capabilities,
    schema: Option<String>,
    /// The address of its own end.
    source: Option<IpAddr>,
    /// What it says of itself, as packets have it.
    attributes: Vec<u8>,
    /// What it answers first, whatever was right.
    first: Option<Vec<u8>>,
}

/// A client that is logged in.
#[derive(Debug)]
pub struct Client {
    runtime: Runtime,
    talk: Talk,
    nonce: Nonce,
    key: Option<String>,
    capabilities: Capabilities,
    /// What it was asked during its last login.
    pub asked: Vec<Asked>,
    /// Whether the other end has vouched for its certificate by the password, and rightly, whatever scramble a client
    /// takes for it: that of the greeting, or that of the last question. `None`: it has not.
    pub vouched: Option<bool>,
    /// The number of its connection, as the greeting tells it.
    pub greeted_id: u32,
}

/// What any client of today can do, without what changes the form of results.
const CAPABILITIES: Capabilities = Capabilities(
    Capabilities::LONG_PASSWORD.0
        | Capabilities::PROTOCOL_41.0
        | Capabilities::TRANSACTIONS.0
        | Capabilities::SECURE_CONNECTION.0
        | Capabilities::MULTI_STATEMENTS.0
        | Capabilities::MULTI_RESULTS.0
        | Capabilities::PLUGIN_AUTH.0
        | Capabilities::LENENC_AUTH.0,
);

/// No login and no statement of a test takes longer.
const PATIENCE: Duration = Duration::from_secs(180);

impl Builder {
    /// The plugin that the client answers the greeting by, if the greeting's nonce is meant for it.
    #[must_use]
    pub fn plugin(self, plugin: Plugin) -> Self {
        Self { plugin, ..self }
    }

    /// Answers this first, instead of a proof, also where it is asked for one.
    #[must_use]
    pub fn first(self, answer: &[u8]) -> Self {
        Self { first: Some(answer.to_vec()), ..self }
    }

    /// Goes on in TLS, without a check of the server's identity.
    #[must_use]
    pub fn tls(self) -> Self {
        self.tls_with(&ForBackends { mode: Mode::Required, ..ForBackends::default() })
    }

    /// Goes on in TLS as these settings say.
    ///
    /// # Panics
    /// If their files cannot be read.
    #[must_use]
    pub fn tls_with(self, tls: &ForBackends) -> Self {
        let config = tls.config().expect("files").expect("a mode other than off");
        let name = backend::tls::server_name("localhost").expect("a name");
        Self { tls: Some(BackendTls { mode: tls.mode, config, name }), ..self }
    }

    /// Goes on in TLS so.
    #[must_use]
    pub fn over(self, tls: BackendTls) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// Comes from this address, by TCP.
    #[must_use]
    pub fn from(self, source: IpAddr) -> Self {
        Self { source: Some(source), ..self }
    }

    /// Encrypts the password with this public key instead of asking for the server's.
    #[must_use]
    pub fn with_key(self, pem: &str) -> Self {
        Self { key: Some(pem.to_owned()), ..self }
    }

    /// Answers by plugins that are not spoken here with this.
    #[must_use]
    pub fn answering(self, other: &str) -> Self {
        Self { other: other.as_bytes().to_vec(), ..self }
    }

    /// Says its name in these bytes, in the character set of this collation.
    #[must_use]
    pub fn named(self, user: &[u8], collation: u8) -> Self {
        Self { user: user.to_vec(), collation, ..self }
    }

    /// Asks for a schema.
    #[must_use]
    pub fn schema(self, schema: &str) -> Self {
        Self { schema: Some(schema.to_owned()), ..self }.with(Capabilities::CONNECT_WITH_DB)
    }

    /// Asks for more capabilities.
    #[must_use]
    pub fn with(self, capabilities: Capabilities) -> Self {
        Self { capabilities: self.capabilities | capabilities, ..self }
    }

    /// Says that this program connects.
    #[must_use]
    pub fn program(self, name: &str) -> Self {
        let mut attributes = Vec::new();
        attributes.put_lenenc_bytes(b"program_name");
        attributes.put_lenenc_bytes(name.as_bytes());
        Self { attributes, ..self }.with(Capabilities::CONNECT_ATTRS)
    }

    /// Connects and logs in.
    pub fn connect(self) -> Result<Client, Problem> {
        self.connect_asked().1
    }

    /// The same; and says what it was asked, also where it is refused.
    pub fn connect_asked(self) -> (Vec<Asked>, Result<Client, Problem>) {
        let mut asked = Vec::new();
        let connected = self.connect_into(&mut asked);
        (asked, connected)
    }

    fn connect_into(self, asked: &mut Vec<Asked>) -> Result<Client, Problem> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(Problem::Tls)?;
        let opened =
            runtime.block_on(async { tokio::time::timeout(PATIENCE, self.open(asked)).await });
        let Opened { talk, nonce, capabilities, key, vouched, greeted_id } =
            opened.map_err(|_| late())??;
        let asked = asked.clone();
        Ok(Client { runtime, talk, nonce, key, capabilities, asked, vouched, greeted_id })
    }

    async fn dial(&self) -> io::Result<Stream> {
        let (Some(source), Address::Tcp { host, port }) = (self.source, &self.address) else {
            return backend::dial::dial(&self.address).await;
        };
        let host = host.parse().map_err(io::Error::other)?;
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(source, 0))?;
        Ok(socket.connect(SocketAddr::new(host, *port)).await?.into())
    }

    async fn open(self, asked: &mut Vec<Asked>) -> Result<Opened, Problem> {
        let stream = self.dial().await.map_err(Problem::Tls)?;
        let greeted = login::greet(stream).await?;
        let mut login = Login {
            capabilities: self.capabilities & greeted.greeting.capabilities,
            packet_max: 1 << 24,
            collation: self.collation,
            user: self.user,
            response: Vec::new(),
            schema: self.schema.map(String::into_bytes),
            plugin: Some(self.plugin.name().to_vec()),
            attributes: self.attributes,
            zstd_level: None,
        };
        let Greeted { mut talk, greeting } = greeted.secure(self.tls.as_ref(), &mut login).await?;
        let nonce = Nonce::from_server(&self.plugin, &greeting.nonce)?;
        // A nonce that is meant for another plugin is not answered, as MySQL's own clients do.
        if Plugin::from_name(&greeting.plugin) == self.plugin {
            let right = || answer(&self.plugin, &self.password, &nonce, &self.other);
            login.response = self.first.clone().unwrap_or_else(right);
        }
        let mut payload = Vec::new();
        login.encode(&mut payload);
        talk.write(&payload).await?;
        let (key, other) = (self.key.as_deref(), &self.other[..]);
        let plugin = self.plugin.clone();
        let first = self.first.as_deref();
        let mut proof = Proof { talk: &mut talk, plugin, nonce, key, other, first, asked: vec![] };
        let proved = proof.run(&self.password).await;
        let Proof { plugin, nonce, asked: questions, .. } = proof;
        *asked = questions;
        let ok = proved?;
        let capabilities = login.capabilities;
        let said = OkPacket::decode(&ok, capabilities)?.info;
        let certificate = talk.stream().peer_certificate();
        let vouched = certificate.filter(|_| said.first() == Some(&BY_SHA256)).map(|certificate| {
            let password = self.password.as_bytes();
            let stored = match plugin {
                Plugin::Ed25519 => Stored::Ed25519(ed25519::SigningKey::of(password).public()),
                _ => Stored::Native(native::NativeStage1::of(password).stored()),
            };
            let first = Nonce::from_server(&Plugin::NativePassword, &greeting.nonce);
            let last = if plugin == Plugin::NativePassword { Ok(nonce) } else { first };
            [first, last].iter().flatten().all(|it| certificate.vouched_by(&stored, it) == said)
        });
        let (key, greeted_id) = (self.key, greeting.connection_id);
        Ok(Opened { talk, nonce, capabilities, key, vouched, greeted_id })
    }
}

/// A connection that is logged in.
struct Opened {
    talk: Talk,
    nonce: Nonce,
    capabilities: Capabilities,
    key: Option<String>,
    vouched: Option<bool>,
    greeted_id: u32,
}

impl Client {
    /// Logs in as [`PrivateServer::ADMIN`].
    pub fn admin(server: &PrivateServer) -> Result<Self, Problem> {
        let address = Address::Unix(server.socket());
        Self::builder(address, PrivateServer::ADMIN, server.password())
            .plugin(Plugin::NativePassword)
            .connect()
    }

    pub fn builder(address: Address, user: &str, password: &str) -> Builder {
        Builder {
            address,
            user: user.as_bytes().to_vec(),
            collation: UTF8MB4,
            password: password.to_owned(),
            plugin: Plugin::CachingSha2,
            tls: None,
            key: None,
            other: Vec::new(),
            capabilities: CAPABILITIES,
            schema: None,
            source: None,
            attributes: Vec::new(),
            first: None,
        }
    }

    /// Runs statements. Returns the rows of all their results; NULL is written so.
    pub fn query(&mut self, text: &str) -> Result<Vec<Vec<String>>, Problem> {
        self.query_bytes(text.as_bytes())
    }

    /// The same for a text in any character set.
    pub fn query_bytes(&mut self, text: &[u8]) -> Result<Vec<Vec<String>>, Problem> {
        let (talk, capabilities) = (&mut self.talk, self.capabilities);
        let results = async {
            talk.set_sequence(0);
            // Where attributes are agreed on, it is said that there are none.
            let attributes: &[u8] =
                if capabilities.has(Capabilities::QUERY_ATTRIBUTES) { &[0, 1] } else { &[] };
            let command = [Opcode::Query as u8];
            talk.write(&[&command[..], attributes, text].concat()).await?;
            let mut rows = Vec::new();
            while read_result(talk, &mut rows, Rows::Text).await?.has(Status::MORE_RESULTS) {}
            Ok(rows)
        };
        let results = async { tokio::time::timeout(PATIENCE, results).await };
        self.runtime.block_on(results).map_err(|_| late())?
    }

    /// Has a statement without parameters prepared. The answer is its number.
    pub fn prepare(&mut self, text: &str) -> Result<u32, Problem> {
        let talk = &mut self.talk;
        let prepared = async {
            talk.set_sequence(0);
            talk.write(&[&[Opcode::StmtPrepare as u8], text.as_bytes()].concat()).await?;
            let first = talk.read().await?;
            if first.first() == Some(&ERR) {
                return Err(Problem::refused(&first));
            }
            let mut reader = Reader::new(first.get(1..).unwrap_or_default());
            let id = reader.u32("statement")?;
            for of_each in ["columns", "parameters"] {
                let count = reader.u16(of_each)?;
                // Behind them, there is an EOF packet.
                for _ in 0..if count == 0 { 0 } else { count + 1 } {
                    talk.read().await?;
                }
            }
            Ok(id)
        };
        let prepared = async { tokio::time::timeout(PATIENCE, prepared).await };
        self.runtime.block_on(prepared).map_err(|_| late())?
    }

    /// Executes it. All its columns must be texts.
    pub fn execute(&mut self, id: u32) -> Result<Vec<Vec<String>>, Problem> {
        self.execute_with(id, &[])
    }

    /// Executes it with these numbers, eight at most, as its parameters.
    pub fn execute_with(&mut self, id: u32, numbers: &[u32]) -> Result<Vec<Vec<String>>, Problem> {
        let mut parameters = Vec::new();
        if !numbers.is_empty() {
            // None is NULL, and their types follow: integers of four bytes.
            parameters.extend([0, 1]);
            numbers.iter().for_each(|_| parameters.extend([3, 0]));
            numbers.iter().for_each(|number| parameters.extend(number.to_le_bytes()));
        }
        self.execute_bytes(id, &parameters)
    }

    /// The same with parameters as they stand in the packet.
    pub fn execute_bytes(
        &mut self,
        id: u32,
        parameters: &[u8],
    ) -> Result<Vec<Vec<String>>, Problem> {
        let talk = &mut self.talk;
        let rows = async {
            talk.set_sequence(0);
            let command =
                [&[Opcode::StmtExecute as u8][..], &id.to_le_bytes(), &[0, 1, 0, 0, 0], parameters];
            talk.write(&command.concat()).await?;
            let mut rows = Vec::new();
            read_result(talk, &mut rows, Rows::Binary).await?;
            Ok(rows)
        };
        let rows = async { tokio::time::timeout(PATIENCE, rows).await };
        self.runtime.block_on(rows).map_err(|_| late())?
    }

    /// Becomes another user on the same connection.
    pub fn change_user(
        &mut self,
        user: &str,
        password: &str,
        plugin: &Plugin,
    ) -> Result<(), Problem> {
        self.change_user_named(user.as_bytes(), UTF8MB4.into(), password, plugin)
    }

    /// The same with a name in these bytes, in the character set of this collation.
    pub fn change_user_named(
        &mut self,
        user: &[u8],
        collation: u16,
        password: &str,
        plugin: &Plugin,
    ) -> Result<(), Problem> {
        let Self { runtime, talk, nonce, key, asked, .. } = self;
        let mut payload = vec![Opcode::ChangeUser as u8];
        payload.put_nul_bytes(user);
        let response = answer(plugin, password, nonce, &[]);
        payload.push(u8::try_from(response.len()).map_err(|_| Malformed::new("response"))?);
        payload.extend_from_slice(&response);
        payload.put_nul_bytes(b"");
        payload.put_u16(collation);
        payload.put_nul_bytes(plugin.name());
        let change = async {
            talk.set_sequence(0);
            talk.write(&payload).await?;
            let key = key.as_deref();
            let (nonce_now, plugin) = (*nonce, plugin.clone());
            let mut proof = Proof {
                talk,
                plugin,
                nonce: nonce_now,
                key,
                other: &[],
                first: None,
                asked: vec![],
            };
            proof.run(password).await?;
            *asked = proof.asked;
            *nonce = proof.nonce;
            Ok(())
        };
        let change = async { tokio::time::timeout(PATIENCE, change).await };
        runtime.block_on(change).map_err(|_| late())?
    }

    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }
}

/// A password that is being proved, from the first answer on.
struct Proof<'a> {
    talk: &'a mut Talk,
    plugin: Plugin,
    nonce: Nonce,
    key: Option<&'a str>,
    other: &'a [u8],
    first: Option<&'a [u8]>,
    asked: Vec<Asked>,
}

impl Proof<'_> {
    /// The answer is the OK packet's payload.
    async fn run(&mut self, password: &str) -> Result<Vec<u8>, Problem> {
        loop {
            let payload = self.talk.read().await?;
            match AuthPacket::decode(&payload)? {
                AuthPacket::Ok => return Ok(payload),
                AuthPacket::Err => return Err(Problem::refused(&payload)),
                AuthPacket::Switch { plugin: name, data } => {
                    let plugin = Plugin::from_name(name);
                    self.plugin = plugin.clone();
                    self.asked.push(Asked::Switch(plugin.to_string()));
                    if login::is_sha256(&plugin) && self.other.is_empty() {
                        let nonce = Nonce::from_server(&plugin, data)?;
                        login::prove_by_sha256(
                            self.talk,
                            password.as_bytes(),
                            &nonce,
                            ServerKeys::Any,
                        )
                        .await?;
                        continue;
                    }
                    let has_nonce = !matches!(plugin, Plugin::ClearPassword | Plugin::Other(_));
                    if has_nonce {
                        self.nonce = Nonce::from_server(&plugin, data)?;
                    }
                    let right = || answer(&plugin, password, &self.nonce, self.other);
                    let answer = self.first.map_or_else(right, <[u8]>::to_vec);
                    self.talk.write(&answer).await?;
                }
                AuthPacket::More(&[caching_sha2::FAST_OK]) => self.asked.push(Asked::Fast),
                AuthPacket::More(&[caching_sha2::FULL]) => {
                    self.asked.push(Asked::Full);
                    match self.key {
                        Some(pem) if !self.talk.stream().is_secure() => {
                            let sent =
                                rsa::encrypt(pem.as_bytes(), password.as_bytes(), &self.nonce)?;
                            self.talk.write(&sent).await?;
                        }
                        _ => {
                            login::prove_fully(
                                self.talk,
                                password.as_bytes(),
                                &self.nonce,
                                ServerKeys::Any,
                            )
                            .await?;
                        }
                    }
                }
                AuthPacket::More(_) | AuthPacket::Bare(_) => {
                    return Err(Malformed::new("more data").into());
                }
            }
        }
    }
}

/// What a client answers by a plugin; `other` by one that is not spoken here.
fn answer(plugin: &Plugin, password: &str, nonce: &Nonce, other: &[u8]) -> Vec<u8> {
    plugin.respond(&Secret::from(password), nonce).unwrap_or_else(|| other.to_vec())
}

/// How the rows of a result are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    Text,
    Binary,
}

/// Reads one result, whose rows join those of the ones before. Returns its last status.
async fn read_result(
    talk: &mut Talk,
    rows: &mut Vec<Vec<String>>,
    written: Rows,
) -> Result<Status, Problem> {
    let first = talk.read().await?;
    match first.first() {
        Some(&OK) => return Ok(OkPacket::decode(&first, CAPABILITIES)?.status),
        Some(&ERR) => return Err(Problem::refused(&first)),
        _ => {}
    }
    let columns = Reader::new(&first).lenenc("columns")?;
    for _ in 0..=columns {
        talk.read().await?;
    }
    loop {
        let row = talk.read().await?;
        match row.first() {
            Some(&ERR) => return Err(Problem::refused(&row)),
            Some(&EOF) if row.len() < 9 => {
                let mut end = Reader::new(&row[1..]);
                end.u16("warnings")?;
                return Ok(Status(end.u16("status")?));
            }
            _ => rows.push(match written {
                Rows::Text => read_row(&row)?,
                Rows::Binary => read_binary_row(&row, columns)?,
            }),
        }
    }
}

fn read_row(row: &[u8]) -> Result<Vec<String>, Malformed> {
    let mut reader = Reader::new(row);
    let mut values = Vec::new();
    while !reader.is_empty() {
        if reader.rest().first() == Some(&0xfb) {
            reader.u8("NULL")?;
            values.push("NULL".to_owned());
        } else {
            values.push(String::from_utf8_lossy(reader.lenenc_bytes("value")?).into_owned());
        }
    }
    Ok(values)
}

/// A row of texts, as the binary protocol has it: one bit for each NULL, from the third bit on.
fn read_binary_row(row: &[u8], columns: u64) -> Result<Vec<String>, Malformed> {
    let columns = usize::try_from(columns).map_err(|_| Malformed::new("columns"))?;
    let (nulls, values) = row
        .get(1..)
        .and_then(|row| row.split_at_checked((columns + 9) / 8))
        .ok_or(Malformed::new("row"))?;
    let mut reader = Reader::new(values);
    let is_null = |column: usize| nulls[(column + 2) / 8] & (1 << ((column + 2) % 8)) != 0;
    let value = |column| match is_null(column) {
        true => Ok("NULL".to_owned()),
        false => Ok(String::from_utf8_lossy(reader.lenenc_bytes("value")?).into_owned()),
    };
    (0..columns).map(value).collect()
}

fn late() -> Problem {
    Problem::Tls(io::Error::new(io::ErrorKind::TimedOut, "nothing came in time"))
}

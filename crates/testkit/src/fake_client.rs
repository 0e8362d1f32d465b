//! A client that says exactly what it is told to: whole commands, single packets, or bytes that are neither.
//!
//! It understands replies as far as tests need: one column of text, errors with their numbers. Nothing waits longer
//! than [`PATIENCE`].

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use wire::Capabilities;
use wire::auth::{Nonce, Plugin, Secret};
use wire::bytes::Reader;
use wire::frame::{HEADER, Header, put_packet};
use wire::handshake::{Greeting, Login};
use wire::response::{EOF, ERR, ErrPacket, LOCAL_INFILE, OK, OkPacket, Status};

use crate::relay::deafen;

/// A connection to Flifo.
#[derive(Debug)]
pub struct FakeClient {
    stream: TcpStream,
    /// The sequence id of the packet that was read last.
    sequence: u8,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An error packet.
    Error { code: u16, message: String },
    /// The connection was closed, or reset.
    Closed,
}

/// What a client got for a command.
pub type Answer = Result<Vec<Vec<u8>>, Refusal>;

/// An answer that takes longer is none.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// What a client of today asks for.
pub const CAPABILITIES: Capabilities = Capabilities(
    Capabilities::LONG_PASSWORD.0
        | Capabilities::PROTOCOL_41.0
        | Capabilities::LOCAL_FILES.0
        | Capabilities::TRANSACTIONS.0
        | Capabilities::SECURE_CONNECTION.0
        | Capabilities::MULTI_STATEMENTS.0
        | Capabilities::MULTI_RESULTS.0
        | Capabilities::PLUGIN_AUTH.0
        | Capabilities::DEPRECATE_EOF.0,
);

impl FakeClient {
    /// Connects, and says and reads nothing.
    ///
    /// # Panics
    /// If no process listens.
    pub fn connect(port: u16) -> Self {
        Self::over(TcpStream::connect(("127.0.0.1", port)).expect("Flifo listens"))
    }

    /// Connects from another address of this machine's loopback network.
    ///
    /// # Panics
    /// If no process listens.
    pub fn connect_from(host: Ipv4Addr, port: u16) -> Self {
        Self::connect_by(port, |socket| socket.bind(&SocketAddr::new(IpAddr::V4(host), 0).into()))
    }

    /// Connects. The kernel takes about so many bytes for this client that it has not read.
    ///
    /// # Panics
    /// If no process listens.
    pub fn connect_with_room(bytes: usize, port: u16) -> Self {
        Self::connect_by(port, |socket| socket.set_recv_buffer_size(bytes))
    }

    fn connect_by(port: u16, prepare: impl FnOnce(&Socket) -> io::Result<()>) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        prepare(&socket).expect("the kernel allows it");
        let flifo = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        socket.connect(&flifo.into()).expect("Flifo listens");
        Self::over(socket.into())
    }

    /// Takes a connection, and says and reads nothing.
    ///
    /// # Panics
    /// If the socket is none any more.
    pub fn over(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Self { stream, sequence: 0 }
    }

    /// The port at this end.
    ///
    /// # Panics
    /// If the socket is none any more.
    pub fn port(&self) -> u16 {
        self.stream.local_addr().expect("an address").port()
    }

    /// Logs in as this user.
    pub fn login(port: u16, user: &str, password: &str) -> Result<Self, Refusal> {
        let mut client = Self::connect(port);
        client.log_in(user, password)?;
        Ok(client)
    }

    /// Reads the greeting and answers it, and a nonce if there is one more. It knows no other plugin.
    pub fn log_in(&mut self, user: &str, password: &str) -> Result<(), Refusal> {
        let greeting = self.read_greeting()?;
        let login = Self::login_payload(&greeting, user, password);
        self.send_packet(1, &login);
        let payload = self.read_payload()?;
        if let Some(nonce) = payload.strip_prefix(b"\xfemysql_native_password\0") {
            self.send_packet(self.sequence + 1, &prove(nonce, password));
            self.read_payload()?;
        }
        Ok(())
    }

    /// # Panics
    /// If what comes is neither a greeting nor an error.
    pub fn read_greeting(&mut self) -> Result<Greeting, Refusal> {
        let payload = self.read_payload()?;
        Ok(Greeting::decode(&payload).expect("a greeting"))
    }

    /// The payload of a login that the greeting asks for.
    pub fn login_payload(greeting: &Greeting, user: &str, password: &str) -> Vec<u8> {
        let login = Login {
            capabilities: CAPABILITIES & greeting.capabilities | Capabilities::LONG_PASSWORD,
            packet_max: 1 << 24,
            collation: 45,
            user: user.as_bytes().to_vec(),
            response: prove(&greeting.nonce, password),
            schema: None,
            plugin: Some(b"mysql_native_password".to_vec()),
            attributes: Vec::new(),
            zstd_level: None,
        };
        let mut payload = Vec::new();
        login.encode(&mut payload);
        payload
    }

    /// Sends a statement and reads all of its results: the rows' first columns, one result after another.
    pub fn query(&mut self, text: &str) -> Answer {
        self.command(&[&[3], text.as_bytes()].concat())
    }

    /// Sends a command and reads all of its results. A request for a file is answered with an empty one.
    pub fn command(&mut self, payload: &[u8]) -> Answer {
        self.send_packet(0, payload);
        self.read_answer()
    }

    /// Prepares a statement. The answer is its id.
    pub fn prepare(&mut self, text: &str) -> Result<u32, Refusal> {
        self.send_packet(0, &[&[0x16], text.as_bytes()].concat());
        let payload = self.read_payload()?;
        let mut reader = Reader::new(&payload[1..]);
        let id = reader.u32("id").expect("an id");
        let columns = reader.u16("columns").expect("a count");
        let parameters = reader.u16("parameters").expect("a count");
        for _ in 0..u32::from(columns) + u32::from(parameters) {
            self.read_payload()?;
        }
        Ok(id)
    }

    /// Sends a payload as one packet or several. A peer that is gone is noticed by reading.
    pub fn send_packet(&mut self, sequence: u8, payload: &[u8]) {
        let mut bytes = Vec::with_capacity(payload.len() + HEADER);
        put_packet(&mut bytes, sequence, payload);
        self.send(&bytes);
    }

    /// Sends bytes. False: the peer is gone.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Sends bytes for as long as the peer takes some. The answer is how many were sent.
    ///
    /// # Panics
    /// If the socket is none any more.
    pub fn send_what_is_taken(&mut self, bytes: &[u8]) -> usize {
        const NOT_TAKEN: Duration = Duration::from_millis(300);
        let mut sent = 0;
        self.stream.set_write_timeout(Some(NOT_TAKEN)).expect("a timeout");
        while sent < bytes.len()
            && let Ok(taken) = self.stream.write(&bytes[sent..])
        {
            sent += taken;
        }
        self.stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        sent
    }

    /// Nothing that comes is acknowledged from now on, as if this client's machine were gone.
    pub fn vanish(&self) {
        deafen(&self.stream);
    }

    /// Ends what this client sends; it can still read.
    pub fn half_close(&mut self) {
        // It may be closed already.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Reads an answer that is OK, an error, or results with one column.
    pub fn read_answer(&mut self) -> Answer {
        let mut rows = Vec::new();
        loop {
            let payload = self.read_payload()?;
            let status = match payload.first() {
                Some(&OK) => status(&payload),
                Some(&LOCAL_INFILE) => {
                    let sequence = self.sequence.wrapping_add(1);
                    self.send_packet(sequence, b"");
                    Status(Status::MORE_RESULTS.0)
                }
                _ => {
                    let columns = payload.first().copied().unwrap_or(0);
                    for _ in 0..columns {
                        self.read_payload()?;
                    }
                    self.read_rows(&mut rows)?
                }
            };
            if !status.has(Status::MORE_RESULTS) {
                return Ok(rows);
            }
        }
    }

    /// Reads the next payload. An error packet is a refusal.
    pub fn read_payload(&mut self) -> Result<Vec<u8>, Refusal> {
        let mut payload = Vec::new();
        loop {
            let mut header = [0; HEADER];
            self.read_exact(&mut header)?;
            let header = Header::decode(header);
            self.sequence = header.sequence;
            let at = payload.len();
            payload.resize(at + header.len, 0);
            self.read_exact(&mut payload[at..])?;
            if !header.is_continued() {
                break;
            }
        }
        if payload.first() == Some(&ERR) {
            return Err(refusal(&payload));
        }
        Ok(payload)
    }

    /// Whether nothing comes for so long, not even the connection's end.
    ///
    /// # Panics
    /// If the socket is none any more.
    pub fn is_silent_for(&mut self, time: Duration) -> bool {
        self.stream.set_read_timeout(Some(time)).expect("a timeout");
        let seen = self.stream.peek(&mut [0]);
        self.stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        seen.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// The sequence id of the packet that was read last.
    pub const fn sequence(&self) -> u8 {
        self.sequence
    }

    /// Whether the peer ends the connection without another word.
    pub fn is_closed(&mut self) -> bool {
        self.read_payload() == Err(Refusal::Closed)
    }

    /// Whether the peer says why it ends the connection, and ends it.
    pub fn is_refused(&mut self) -> bool {
        matches!(self.read_payload(), Err(Refusal::Error { .. })) && self.is_closed()
    }

    /// The number of its connection, which stands in the text that a fake server of MariaDB's brand repeats.
    ///
    /// # Panics
    /// If the answer is another one.
    pub fn id(&mut self) -> u32 {
        let rows = self.query("SELECT 0 + CONNECTION_ID()").expect("an id");
        let text = String::from_utf8(rows[0].to_vec()).expect("text");
        // Behind the number comes the column's name, which must stay what it was.
        let digits = text.strip_prefix("0 + CAST(").and_then(|rest| rest.split(' ').next());
        digits.expect("the text").parse().expect("a number")
    }

    /// # Panics
    /// If nothing comes for too long.
    fn read_exact(&mut self, bytes: &mut [u8]) -> Result<(), Refusal> {
        match self.stream.read_exact(bytes) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                panic!("Flifo says nothing for {PATIENCE:?}")
            }
            Err(_) => Err(Refusal::Closed),
        }
    }

    fn read_rows(&mut self, rows: &mut Vec<Vec<u8>>) -> Result<Status, Refusal> {
        loop {
            let payload = self.read_payload()?;
            if payload.first() == Some(&EOF) && payload.len() < 9 {
                return Ok(status(&payload));
            }
            // A binary row has a zero byte and one of NULL bits in front.
            let row = payload.strip_prefix(&[0, 0]).unwrap_or(&payload);
            let value = Reader::new(row).lenenc_bytes("value").unwrap_or(row);
            rows.push(value.to_vec());
        }
    }
}

impl Refusal {
    /// The error's number; zero if the connection was closed.
    pub const fn code(&self) -> u16 {
        match self {
            Self::Error { code, .. } => *code,
            Self::Closed => 0,
        }
    }
}

/// The answer of `mysql_native_password`.
pub fn prove(nonce: &[u8], password: &str) -> Vec<u8> {
    let plugin = Plugin::NativePassword;
    let nonce = Nonce::from_server(&plugin, nonce).expect("a nonce");
    plugin.respond(&Secret::from(password), &nonce).unwrap_or_default()
}

fn status(payload: &[u8]) -> Status {
    OkPacket::decode(payload, Capabilities::NONE).expect("an OK packet").status
}

fn refusal(payload: &[u8]) -> Refusal {
    match ErrPacket::decode(payload) {
        Ok(error) => {
            let message = String::from_utf8_lossy(error.message).into_owned();
            Refusal::Error { code: error.code, message }
        }
        // Whatever it is, it is no answer.
        Err(error) => Refusal::Error { code: u16::MAX, message: error.to_string() },
    }
}

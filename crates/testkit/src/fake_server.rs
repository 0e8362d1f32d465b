//! A server that greets, accepts every login, and then answers as a test says: well, badly, late or never.
//!
//! One thread for each connection. Does not check passwords, and keeps no sessions. Invariants: it listens on
//! 127.0.0.1 only; all its connections are closed when it is dropped.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use wire::Capabilities;
use wire::frame::{HEADER, Header, put_packet_with};
use wire::handshake::{Greeting, Login};
use wire::response::{OK, OkPacket, Status};
use wire::tracker::{Change, put_change};

use crate::reply::{Reply, honest, pieces};

/// A running fake server.
pub struct FakeServer {
    port: u16,
    shared: Arc<Shared>,
}

/// How a connection begins.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A greeting, a login, an OK.
    Well,
    /// Of what the server says until the login's end, only so many bytes; then the connection is closed.
    Cut(usize),
    /// These bytes in the greeting's place; then nothing, until the peer goes.
    Bytes(Vec<u8>),
    /// A greeting, and these bytes as the login's answer; then nothing, until the peer goes.
    Answer(Vec<u8>),
}

/// What the server pretends to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brand {
    MySql,
    MariaDb,
    /// A server of another make, which speaks of MySQL and reports no changes of session state.
    Silent,
}

/// What is answered to a command; the number tells connections apart.
type Script = Arc<dyn Fn(u32, &[u8]) -> Reply + Send + Sync>;
type Farewell = Arc<dyn Fn(u32) + Send + Sync>;

struct Shared {
    brand: Brand,
    entry: Mutex<Entry>,
    script: Mutex<Script>,
    farewell: Mutex<Farewell>,
    /// The beginnings of the commands received.
    commands: Mutex<Vec<Vec<u8>>>,
    streams: Mutex<HashMap<u32, TcpStream>>,
    /// Connections so far; the number of one is its thread id.
    opened: AtomicU32,
    open: AtomicU32,
    logged_in: AtomicU32,
    stopping: AtomicBool,
}

/// Of each command, so much is remembered and shown to the script.
const REMEMBERED: usize = 1 << 10;

impl FakeServer {
    /// A MariaDB that answers as an honest server would.
    pub fn start() -> Self {
        Self::start_as(Brand::MariaDb)
    }

    /// # Panics
    /// If it cannot listen.
    pub fn start_as(brand: Brand) -> Self {
        Self::start_at(brand, 0)
    }

    /// On a given port, to which a proxy may try to connect already; 0 takes a free one.
    ///
    /// # Panics
    /// If it cannot listen.
    pub fn start_at(brand: Brand, port: u16) -> Self {
        crate::overdue::watch();
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared {
            brand,
            entry: Mutex::new(Entry::Well),
            script: Mutex::new(Arc::new(|_, command| honest(command))),
            farewell: Mutex::new(Arc::new(|_| {})),
            commands: Mutex::default(),
            streams: Mutex::default(),
            opened: AtomicU32::new(0),
            open: AtomicU32::new(0),
            logged_in: AtomicU32::new(0),
            stopping: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &accepting));
        Self { port, shared }
    }

    pub const fn port(&self) -> u16 {
        self.port
    }

    /// How connections begin from now on.
    pub fn enter(&self, entry: Entry) {
        *lock(&self.shared.entry) = entry;
    }

    /// What is answered from now on.
    pub fn answer(&self, script: impl Fn(&[u8]) -> Reply + Send + Sync + 'static) {
        self.answer_each(move |_, command| script(command));
    }

    /// What is answered from now on, by connections with numbers of their own.
    pub fn answer_each(&self, script: impl Fn(u32, &[u8]) -> Reply + Send + Sync + 'static) {
        *lock(&self.shared.script) = Arc::new(script);
    }

    /// What is done from now on when a connection has ended.
    pub fn when_gone(&self, farewell: impl Fn(u32) + Send + Sync + 'static) {
        *lock(&self.shared.farewell) = Arc::new(farewell);
    }

    /// How often a command was received that contains these bytes.
    pub fn received(&self, part: &[u8]) -> usize {
        let commands = lock(&self.shared.commands);
        let has = |command: &&Vec<u8>| command.windows(part.len()).any(|window| window == part);
        commands.iter().filter(has).count()
    }

    /// Connections that were ever opened.
    pub fn opened(&self) -> u32 {
        self.shared.opened.load(SeqCst)
    }

    /// Connections that are open now.
    pub fn open(&self) -> u32 {
        self.shared.open.load(SeqCst)
    }

    /// Logins that were ever answered with OK.
    pub fn logged_in(&self) -> u32 {
        self.shared.logged_in.load(SeqCst)
    }

    /// Closes all connections.
    pub fn hang_up(&self) {
        for stream in lock(&self.shared.streams).values() {
            // It may be closed already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Sends bytes on every connection, even where no command waits for a reply.
    pub fn blurt(&self, bytes: &[u8]) {
        let streams: Vec<_> = lock(&self.shared.streams)
            .values()
            .map(|stream| stream.try_clone().expect("one more descriptor"))
            .collect();
        for mut stream in streams {
            // It may be closed already.
            let _ = stream.write_all(bytes);
        }
    }

    /// Bytes that a login of the usual length takes from the server: greeting and OK.
    pub fn login_len(&self) -> usize {
        greeting(self.shared.brand, 1).len() + ok(2).len()
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.shared.stopping.store(true, SeqCst);
        self.hang_up();
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept() {
        if shared.stopping.load(SeqCst) {
            return;
        }
        let shared = Arc::clone(shared);
        let number = shared.opened.fetch_add(1, SeqCst) + 1;
        shared.open.fetch_add(1, SeqCst);
        let second = stream.try_clone().expect("a second descriptor");
        lock(&shared.streams).insert(number, second);
        thread::spawn(move || {
            // An error is the peer's way to go.
            let _ = Connection { stream: &stream, shared: &shared, sequence: 0 }.serve(number);
            let _ = stream.shutdown(Shutdown::Both);
            let farewell = Arc::clone(&lock(&shared.farewell));
            farewell(number);
            lock(&shared.streams).remove(&number);
            shared.open.fetch_sub(1, SeqCst);
        });
    }
}

struct Connection<'a> {
    stream: &'a TcpStream,
    shared: &'a Shared,
    /// The sequence id of the next packet.
    sequence: u8,
}

impl Connection<'_> {
    fn serve(&mut self, number: u32) -> io::Result<()> {
        let Some(capabilities) = self.log_in(number)? else { return self.read_to_end() };
        self.shared.logged_in.fetch_add(1, SeqCst);
        loop {
            let command = self.read_payload()?;
            lock(&self.shared.commands).push(command.clone());
            let script = Arc::clone(&lock(&self.shared.script));
            // The session that Flifo asks for is set up in any case: what comes later is to be tested.
            let reply = match &command {
                it if is_tracking(it) => Reply::Raw(reporting(self.sequence)),
                it if is_greeting(it, self.shared.brand) => Reply::Ok,
                it => script(number, it),
            };
            if !self.send(&reply, capabilities)? {
                return Ok(());
            }
        }
    }

    /// The capabilities of the peer; nothing if the connection is to end here.
    fn log_in(&mut self, number: u32) -> io::Result<Option<Capabilities>> {
        let greeting = greeting(self.shared.brand, number);
        let entry = lock(&self.shared.entry).clone();
        match entry {
            Entry::Bytes(bytes) => {
                self.write(&bytes)?;
                return Ok(None);
            }
            Entry::Cut(count) if count <= greeting.len() => {
                self.write(&greeting[..count])?;
                self.stream.shutdown(Shutdown::Both)?;
                return Ok(None);
            }
            _ => self.write(&greeting)?,
        }
        let login = self.read_payload()?;
        let login = Login::decode(&login).map_err(|_| io::ErrorKind::InvalidData)?;
        let ok = ok(self.sequence);
        match entry {
            Entry::Answer(bytes) => {
                self.write(&bytes)?;
                return Ok(None);
            }
            Entry::Cut(count) if count < greeting.len() + ok.len() => {
                self.write(&ok[..count - greeting.len()])?;
                self.stream.shutdown(Shutdown::Both)?;
                return Ok(None);
            }
            _ => self.write(&ok)?,
        }
        Ok(Some(login.capabilities))
    }

    /// False: the connection ends.
    fn send(&mut self, reply: &Reply, capabilities: Capabilities) -> io::Result<bool> {
        match reply {
            Reply::Silence => return Ok(true),
            Reply::Close => return Ok(false),
            Reply::After(time, reply) => {
                thread::sleep(*time);
                return self.send(reply, capabilities);
            }
            Reply::When(flag, reply) => {
                while !flag.load(SeqCst) && !self.shared.stopping.load(SeqCst) {
                    thread::sleep(Duration::from_millis(2));
                }
                return self.send(reply, capabilities);
            }
            Reply::All(replies) => {
                for reply in replies {
                    if !self.send(reply, capabilities)? {
                        return Ok(false);
                    }
                }
                return Ok(true);
            }
            _ => {}
        }
        let mut sequence = self.sequence;
        pieces(reply, capabilities, &mut sequence, |piece| self.write(piece))?;
        self.sequence = sequence;
        if let Reply::File { packets } = reply {
            self.read_file(*packets)?;
        }
        Ok(!matches!(reply, Reply::Cut(..)))
    }

    fn read_file(&mut self, packets: Option<usize>) -> io::Result<()> {
        let mut count = 0;
        while packets.is_none_or(|packets| count < packets) {
            count += 1;
            if self.read_payload()?.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// The beginning of the next payload, which is read to its end.
    fn read_payload(&mut self) -> io::Result<Vec<u8>> {
        let mut payload = Vec::new();
        loop {
            let mut header = [0; HEADER];
            self.stream.read_exact(&mut header)?;
            let header = Header::decode(header);
            let wanted = header.len.min(REMEMBERED.saturating_sub(payload.len()));
            io::copy(&mut self.stream.take(wanted as u64), &mut payload)?;
            let rest = (header.len - wanted) as u64;
            let passed = io::copy(&mut self.stream.take(rest), &mut io::sink())?;
            if passed < rest {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.sequence = header.sequence.wrapping_add(1);
            if !header.is_continued() {
                return Ok(payload);
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    fn read_to_end(&mut self) -> io::Result<()> {
        self.stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        io::copy(&mut self.stream, &mut io::sink()).map(|_| ())
    }
}

fn greeting(brand: Brand, number: u32) -> Vec<u8> {
    let greeting = greeting_with(brand, number);
    let mut out = Vec::new();
    put_packet_with(&mut out, 0, |out| greeting.encode(out));
    out
}

/// How such a server greets on the connection of this number.
pub fn greeting_with(brand: Brand, number: u32) -> Greeting {
    let common = Capabilities::FOUND_ROWS
        | Capabilities::LONG_FLAG
        | Capabilities::CONNECT_WITH_DB
        | Capabilities::LOCAL_FILES
        | Capabilities::PROTOCOL_41
        | Capabilities::TRANSACTIONS
        | Capabilities::SECURE_CONNECTION
        | Capabilities::MULTI_STATEMENTS
        | Capabilities::MULTI_RESULTS
        | Capabilities::PS_MULTI_RESULTS
        | Capabilities::PLUGIN_AUTH
        | Capabilities::CONNECT_ATTRS
        | Capabilities::LENENC_AUTH
        | Capabilities::SESSION_TRACK
        | Capabilities::DEPRECATE_EOF;
    let (version, capabilities) = match brand {
        Brand::Silent => (&b"8.0.33-other"[..], common.without(Capabilities::SESSION_TRACK)),
        Brand::MySql => (&b"8.4.0"[..], common | Capabilities::LONG_PASSWORD),
        Brand::MariaDb => (&b"11.4.0-MariaDB"[..], common | Capabilities::BULK),
    };
    Greeting {
        version: version.to_vec(),
        connection_id: number,
        nonce: b"a nonce of 20 bytes.".to_vec(),
        capabilities,
        collation: 45,
        status: Status::AUTOCOMMIT,
        plugin: b"mysql_native_password".to_vec(),
    }
}

fn ok(sequence: u8) -> Vec<u8> {
    let mut out = Vec::new();
    put_packet_with(&mut out, sequence, |out| {
        OkPacket::EMPTY.encode(OK, Capabilities::PROTOCOL_41, out);
    });
    out
}

/// Reports on variables, as a server does that reports its changes.
pub(crate) fn reporting(sequence: u8) -> Vec<u8> {
    let mut changes = Vec::new();
    put_change(&mut changes, Change::Variable { name: b"session_track_schema", value: b"ON" });
    let packet = OkPacket { changes: &changes, status: Status::AUTOCOMMIT, ..OkPacket::EMPTY };
    let mut out = Vec::new();
    put_packet_with(&mut out, sequence, |out| {
        packet.encode(OK, Capabilities::PROTOCOL_41 | Capabilities::SESSION_TRACK, out);
    });
    out
}

/// A test that panicked has said why; the others go on.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a command asks for reports of changes.
pub(crate) fn is_tracking(command: &[u8]) -> bool {
    command.starts_with(b"\x03SET SESSION session_track")
}

/// Whether a command sets up a backend: the scripts of tests do not answer such commands.
pub(crate) fn is_greeting(command: &[u8], brand: Brand) -> bool {
    command.starts_with(b"\x03SHOW SESSION VARIABLES WHERE") && brand != Brand::Silent
        || command.starts_with(b"\x03SHOW CREATE USER")
        || command.starts_with(b"\x03SELECT CAST(@@skip_name_resolve")
        || command.starts_with(b"\x03SELECT HEX(COALESCE(@@proxy_user")
}

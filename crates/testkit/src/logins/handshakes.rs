//! Handshakes of chance, byte by byte, each directly and through Flifo: what any client may say from its first byte on,
//! and what it hears.
//!
//! A [`Handshake`] is what a client sends: perhaps a PROXY header, a login of any capabilities in the protocol of today
//! or in that before 4.1, whole or damaged, and what it asks behind it. [`compare`] has it said at a server and at Flifo, and
//! compares what was heard: answers and numbers of errors where the client keeps to the protocol, and else
//! whether it was let in, told why not, or left without a word.

use std::fmt;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;
use std::time::Duration;

use bench::private_server::PrivateServer;
use wire::Capabilities;
use wire::auth::{Nonce, Plugin, caching_sha2};
use wire::bytes::{Reader, Write};
use wire::response::{EOF, OK};

use crate::differ::generate::Random;
use crate::fake_client::{FakeClient, Refusal, prove};
use crate::flifo::Flifo;

/// The accounts that these log in as: what makes them, and the schema that is there.
const ACCOUNTS: &str = "CREATE DATABASE hs; CREATE TABLE hs.t (a INT); INSERT INTO hs.t VALUES (1), (2); \
    CREATE USER open_to_all@'%' IDENTIFIED BY ''; CREATE USER single@'%' IDENTIFIED BY 'o'; \
    GRANT ALL ON hs.* TO open_to_all@'%'; GRANT ALL ON hs.* TO single@'%'";

/// Each with its password; the last one does not exist.
const USERS: [(&str, &str); 3] = [("open_to_all", ""), ("single", "o"), ("nowhere", "")];

/// The network of which PROXY headers are taken.
const PROXIES: &str = "127.2.0.0/16";

/// What a client sends.
#[derive(Clone, Debug)]
struct Handshake {
    from: Ipv4Addr,
    header: Option<Vec<u8>>,
    login: Login,
    damage: Damage,
    asks: Vec<Ask>,
}

#[derive(Clone, Debug)]
struct Login {
    /// Whether it is one of the protocol of today.
    is_modern: bool,
    capabilities: Capabilities,
    user: usize,
    is_right: bool,
    plugin: &'static str,
    schema: Option<&'static str>,
    attributes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    None,
    /// Of the payload, only so many hundredths come.
    Cut(usize),
    /// Of the packet, only so many hundredths come, and no more.
    CutPacket(usize),
    Longer(usize),
    Sequence(u8),
    /// The byte at so many hundredths is another one.
    Flip(usize, u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    Query(&'static str),
    /// A statement, behind which the client ends its own side.
    Last(&'static str),
    Schema(&'static str),
    Ping,
    Unknown,
    ChangeUser {
        user: usize,
        is_right: bool,
        schema: &'static str,
    },
}

/// What it hears, answer by answer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Heard {
    Ok {
        affected: u64,
    },
    Rows(Vec<Vec<u8>>),
    Error(u16),
    Closed,
    /// Nothing for [`SILENCE`].
    Silence,
}

const SILENCE: Duration = Duration::from_secs(30);

const QUERIES: [&str; 9] = [
    "SELECT 1",
    "SELECT DATABASE()",
    "SELECT CURRENT_USER()",
    "SELECT COUNT(*) FROM t",
    "SELECT COUNT(*) FROM hs.t",
    "UPDATE hs.t SET a = 1 WHERE a = 1",
    "UPDATE t SET a = 2 WHERE a = 2",
    "SELECT 1 FROM no_such_table",
    "SELECT SLEEP (0)",
];

/// What a client may ask for beyond what makes its login readable.
const OPTIONAL: [Capabilities; 18] = [
    Capabilities::FOUND_ROWS,
    Capabilities::LONG_FLAG,
    Capabilities::NO_SCHEMA,
    Capabilities::ODBC,
    Capabilities::LOCAL_FILES,
    Capabilities::IGNORE_SPACE,
    Capabilities::INTERACTIVE,
    Capabilities::IGNORE_SIGPIPE,
    Capabilities::TRANSACTIONS,
    Capabilities::RESERVED,
    Capabilities::MULTI_STATEMENTS,
    Capabilities::MULTI_RESULTS,
    Capabilities::PS_MULTI_RESULTS,
    Capabilities::CONNECT_ATTRS,
    Capabilities::LENENC_AUTH,
    Capabilities::EXPIRED_PASSWORDS,
    Capabilities::SESSION_TRACK,
    Capabilities::DEPRECATE_EOF,
];

const PLUGINS: [&str; 5] = [
    "mysql_native_password",
    "mysql_native_password",
    "caching_sha2_password",
    "mysql_clear_password",
    "no_such_plugin",
];

impl Handshake {
    /// The one of this seed.
    fn of(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        let is_proxy = random.once_in(4);
        let damage = damage(random);
        let login = login(random);
        let asks = match login.is_modern {
            true => (0..1 + random.below(5)).map(|_| ask(random)).collect(),
            false => Vec::new(),
        };
        // Wrong passwords from one address would wait for each other.
        let mut part = || u8::try_from(1 + random.below(250)).unwrap_or(1);
        let from = Ipv4Addr::new(127, if is_proxy { 2 } else { 3 }, part(), part());
        // One that is missing is waited for, for as long as a login may take.
        let has_header = is_proxy || random.once_in(8);
        Self { from, header: has_header.then(|| header(random)), login, damage, asks }
    }

    /// Whether Flifo passes the client through because it refuses names of schemas.
    fn has_no_schemas(&self) -> bool {
        self.login.capabilities.has(Capabilities::NO_SCHEMA)
    }

    fn keeps_to_the_protocol(&self) -> bool {
        let has_due_header = (self.from.octets()[1] == 2) == self.header.is_some();
        self.damage == Damage::None && has_due_header
    }
}

fn header(random: &mut Random) -> Vec<u8> {
    let signature = b"\r\n\r\n\0\r\nQUIT\n";
    match random.below(4) {
        0 => b"PROXY UNKNOWN\r\n".to_vec(),
        1 => {
            let one = u8::try_from(1 + random.below(250)).unwrap_or(1);
            let addresses = [127, 9, 250, one, 127, 0, 0, 1, 0, 80, 0, 81];
            [&signature[..], b"\x21\x11\0\x0c", &addresses].concat()
        }
        _ => {
            let (one, other) = (1 + random.below(250), 1 + random.below(250));
            format!("PROXY TCP4 127.9.{one}.{other} 127.0.0.1 80 81\r\n").into_bytes()
        }
    }
}

fn damage(random: &mut Random) -> Damage {
    match random.below(20) {
        0 | 1 => Damage::Cut(random.below(100)),
        2 => Damage::CutPacket(random.below(100)),
        3 => Damage::Longer(1 + random.below(300)),
        4 => Damage::Sequence([0, 2, 3, 255][random.below(4)]),
        5 | 6 => Damage::Flip(random.below(100), 1 << random.below(8)),
        _ => Damage::None,
    }
}

fn login(random: &mut Random) -> Login {
    let mut capabilities = Capabilities::LONG_PASSWORD
        | Capabilities::PROTOCOL_41
        | Capabilities::SECURE_CONNECTION
        | Capabilities::PLUGIN_AUTH;
    for optional in OPTIONAL {
        if random.once_in(3) {
            capabilities = capabilities | optional;
        }
    }
    if random.once_in(6) {
        capabilities = capabilities.without(Capabilities::PLUGIN_AUTH);
    }
    let schema = ["hs", "hs", "no_such_schema", ""][random.below(4)];
    let schema = random.once_in(3).then_some(schema);
    if schema.is_some() {
        capabilities = capabilities | Capabilities::CONNECT_WITH_DB;
    }
    let attributes = match random.below(4) {
        0 => Vec::new(),
        1 => vec![9; 4],
        _ => b"\x05_name\x05value".to_vec(),
    };
    Login {
        is_modern: !random.once_in(8),
        capabilities,
        user: random.below(USERS.len()),
        is_right: !random.once_in(4),
        plugin: PLUGINS[random.below(PLUGINS.len())],
        schema,
        attributes,
    }
}

fn ask(random: &mut Random) -> Ask {
    match random.below(12) {
        0 => Ask::Last(QUERIES[random.below(QUERIES.len())]),
        1 | 2 => Ask::Schema(["hs", "no_such_schema"][random.below(2)]),
        3 => Ask::Ping,
        4 => Ask::Unknown,
        5 | 6 => Ask::ChangeUser {
            user: random.below(USERS.len()),
            is_right: random.once_in(2),
            schema: ["", "hs", "no_such_schema"][random.below(3)],
        },
        _ => Ask::Query(QUERIES[random.below(QUERIES.len())]),
    }
}

/// Compares the handshakes of these seeds at a server and at two Flifos before it, of which one knows the users. What is
/// found is told with its seed.
///
/// # Panics
/// If server or Flifo do not start.
pub fn compare(program: &Path, seeds: Range<u64>) -> Vec<String> {
    let networks = format!("--proxy-protocol-networks={PROXIES}");
    let server = PrivateServer::builder().argument(networks).start().expect("a private server");
    server.sql(ACCOUNTS).expect("accounts");
    let known = USERS[..2]
        .iter()
        .map(|(name, password)| format!("[[users]]\nname = {name:?}\npassword = {password:?}\n"));
    let mut found = Vec::new();
    for (knows, users) in [(Knows::Users, known.collect()), (Knows::NoUser, String::new())] {
        let port = server.port();
        let flifo = Flifo::start_program(
            program,
            &format!(
                "[server]\naddress = \"127.0.0.1:{port}\"\n{users}\n\
                 [proxy_protocol]\nfrom = [\"{PROXIES}\"]\n"
            ),
        );
        let try_it = |seed: u64| {
            let handshake = Handshake::of(seed);
            let direct = run(&handshake, server.port());
            let through = run(&handshake, flifo.port());
            let what = judge(&handshake, &direct, &through)?;
            if is_documented(&handshake, &direct, &through, knows) {
                return None;
            }
            let heard = format!("directly {direct:?}, through Flifo {through:?}");
            Some(format!("seed {seed}, Flifo knows {knows:?}: {what}: {handshake}: {heard}"))
        };
        let try_it = &try_it;
        // Those that are refused take their time.
        thread::scope(|scope| {
            let part = |at: usize| seeds.clone().skip(at).step_by(AT_ONCE).filter_map(try_it);
            let runs: Vec<_> =
                (0..AT_ONCE).map(|at| scope.spawn(move || part(at).collect::<Vec<_>>())).collect();
            runs.into_iter().for_each(|it| {
                found.extend(it.join().unwrap_or_else(|why| resume_unwind(why)));
            });
        });
    }
    found
}

const AT_ONCE: usize = 8;

/// Says it at this port. What is heard stands in the order of what was asked, the login first.
fn run(handshake: &Handshake, port: u16) -> Vec<Heard> {
    let mut client = FakeClient::connect_from(handshake.from, port);
    if let Some(header) = &handshake.header {
        client.send(header);
    }
    if client.is_silent_for(SILENCE) {
        return vec![Heard::Silence];
    }
    let greeting = match client.read_greeting() {
        Ok(greeting) => greeting,
        Err(refusal) => return vec![Heard::from(refusal)],
    };
    let payload = handshake.login.payload(&greeting.nonce, greeting.capabilities);
    let is_whole = handshake.damage.send(&mut client, &payload);
    if !is_whole {
        client.half_close();
    }
    let mut talk = Talk { client, capabilities: handshake.login.capabilities };
    let (_, password) = USERS[handshake.login.user];
    let mut heard = vec![talk.prove(handshake.login.password(password))];
    for ask in &handshake.asks {
        if !is_whole
            || matches!(heard.last(), Some(Heard::Closed | Heard::Silence))
            || !talk.is_in(&heard)
        {
            break;
        }
        heard.push(talk.ask(*ask, &greeting.nonce));
        if matches!(ask, Ask::Last(_)) {
            break;
        }
    }
    heard
}

impl Login {
    fn password(&self, right: &'static str) -> &'static str {
        if self.is_right { right } else { "wrong" }
    }

    fn payload(&self, nonce: &[u8], of_server: Capabilities) -> Vec<u8> {
        let (user, password) = USERS[self.user];
        let password = self.password(password);
        let mut out = Vec::new();
        if !self.is_modern {
            // What proves a password is not that of this protocol: no server takes one of it any more.
            out.extend(b"\x00\x80\x00\x00\x01");
            out.put_nul_bytes(user.as_bytes());
            out.put_nul_bytes(if password.is_empty() { b"" } else { b"notproof" });
            return out;
        }
        let has = |capability| self.capabilities.has(capability);
        let said = self.capabilities & (of_server | Capabilities::LONG_PASSWORD);
        out.put_u32(u32::try_from(said.0 & 0xffff_ffff).unwrap_or_default());
        out.put_u32(1 << 24);
        out.push(45);
        out.extend([0; 23]);
        out.put_nul_bytes(user.as_bytes());
        let proof = match self.plugin {
            "mysql_native_password" => prove(nonce, password),
            "mysql_clear_password" => b"clear\0".to_vec(),
            "caching_sha2_password" => {
                let plugin = Plugin::CachingSha2;
                let nonce = Nonce::from_server(&plugin, nonce).ok();
                let proof = nonce.and_then(|nonce| plugin.respond(&password.into(), &nonce));
                proof.unwrap_or_default()
            }
            _ => b"?".to_vec(),
        };
        let proof = if password.is_empty() { Vec::new() } else { proof };
        out.push(u8::try_from(proof.len()).unwrap_or(0));
        out.extend(proof);
        if let Some(schema) = self.schema {
            out.put_nul_bytes(schema.as_bytes());
        }
        if has(Capabilities::PLUGIN_AUTH) {
            out.put_nul_bytes(self.plugin.as_bytes());
        }
        if has(Capabilities::CONNECT_ATTRS) {
            out.put_lenenc_bytes(&self.attributes);
        }
        out
    }
}

impl Damage {
    /// Whether the packet is a whole one.
    fn send(self, client: &mut FakeClient, payload: &[u8]) -> bool {
        let part = |hundredths: usize| payload.len() * hundredths / 100;
        match self {
            Self::None => client.send_packet(1, payload),
            Self::Cut(to) => client.send_packet(1, &payload[..part(to)]),
            Self::Longer(by) => client.send_packet(1, &[payload, &vec![7; by]].concat()),
            Self::Sequence(sequence) => client.send_packet(sequence, payload),
            Self::Flip(at, bits) => {
                let mut damaged = payload.to_vec();
                damaged[part(at)] ^= bits;
                client.send_packet(1, &damaged);
            }
            Self::CutPacket(to) => {
                let length = u32::try_from(payload.len()).unwrap_or_default().to_le_bytes();
                client.send(&[&length[..3], &[1], &payload[..part(to)]].concat());
                return false;
            }
        }
        true
    }
}

/// A client that has sent its login.
struct Talk {
    client: FakeClient,
    capabilities: Capabilities,
}

impl Talk {
    /// Answers what it is asked for its password.
    fn prove(&mut self, password: &str) -> Heard {
        loop {
            if self.client.is_silent_for(SILENCE) {
                return Heard::Silence;
            }
            let payload = match self.client.read_payload() {
                Ok(payload) => payload,
                Err(refusal) => return refusal.into(),
            };
            if payload.first() == Some(&OK) {
                return Heard::Ok { affected: 0 };
            }
            if payload == [1, caching_sha2::FAST_OK] {
                continue;
            }
            let nonce = payload.strip_prefix(b"\xfemysql_native_password\0");
            let sequence = self.client.sequence().wrapping_add(1);
            // It has no other plugin.
            let proof = nonce.map(|nonce| prove(nonce, password)).unwrap_or_default();
            self.client.send_packet(sequence, &proof);
        }
    }

    /// Whether it has been let in.
    fn is_in(&self, heard: &[Heard]) -> bool {
        matches!(heard.first(), Some(Heard::Ok { .. }))
    }

    fn ask(&mut self, ask: Ask, nonce: &[u8]) -> Heard {
        let command = |opcode: u8, rest: &str| [&[opcode], rest.as_bytes()].concat();
        match ask {
            Ask::Query(text) => self.client.send_packet(0, &command(3, text)),
            Ask::Last(text) => {
                self.client.send_packet(0, &command(3, text));
                self.client.half_close();
            }
            Ask::Schema(name) => self.client.send_packet(0, &command(2, name)),
            Ask::Ping => self.client.send_packet(0, &[14]),
            Ask::Unknown => self.client.send_packet(0, &[0x77]),
            Ask::ChangeUser { user, is_right, schema } => {
                let (user, password) = USERS[user];
                let password = if is_right { password } else { "wrong" };
                let proof = prove(nonce, password);
                let mut payload = vec![17];
                payload.put_nul_bytes(user.as_bytes());
                payload.push(u8::try_from(proof.len()).unwrap_or(0));
                payload.extend(proof);
                payload.put_nul_bytes(schema.as_bytes());
                payload.put_u16(45);
                if self.capabilities.has(Capabilities::PLUGIN_AUTH) {
                    payload.put_nul_bytes(b"mysql_native_password");
                }
                if self.capabilities.has(Capabilities::CONNECT_ATTRS) {
                    payload.put_lenenc_bytes(b"");
                }
                self.client.send_packet(0, &payload);
                return self.prove(password);
            }
        }
        self.answer().unwrap_or_else(Heard::from)
    }

    fn answer(&mut self) -> Result<Heard, Refusal> {
        if self.client.is_silent_for(SILENCE) {
            return Ok(Heard::Silence);
        }
        let payload = self.client.read_payload()?;
        if payload.first() == Some(&OK) {
            let affected = Reader::new(&payload[1..]).lenenc("affected").unwrap_or(u64::MAX);
            return Ok(Heard::Ok { affected });
        }
        for _ in 0..payload.first().copied().unwrap_or(0) {
            self.client.read_payload()?;
        }
        if !self.capabilities.has(Capabilities::DEPRECATE_EOF) {
            self.client.read_payload()?;
        }
        let mut rows = Vec::new();
        loop {
            let row = self.client.read_payload()?;
            if row.first() == Some(&EOF) {
                return Ok(Heard::Rows(rows));
            }
            rows.push(row);
        }
    }
}

impl From<Refusal> for Heard {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Error { code, .. } => Self::Error(code),
            Refusal::Closed => Self::Closed,
        }
    }
}

/// What is wrong with what was heard through Flifo.
fn judge(handshake: &Handshake, direct: &[Heard], through: &[Heard]) -> Option<&'static str> {
    let first = |heard: &[Heard]| heard.first().cloned().unwrap_or(Heard::Closed);
    match (first(direct), first(through)) {
        (Heard::Error(_), Heard::Closed) => Some("closed without a word"),
        // A login that ends too soon is read as far as it goes: no client gets anything by that without the password.
        (Heard::Error(_) | Heard::Closed, Heard::Ok { .. }) => {
            (!handshake.login.is_right || handshake.keeps_to_the_protocol()).then_some("let in")
        }
        (Heard::Ok { .. }, Heard::Error(_) | Heard::Closed) => Some("not let in"),
        (Heard::Error(_) | Heard::Closed, _) => None,
        _ if handshake.damage != Damage::None => None,
        _ => (direct != through).then_some("another answer"),
    }
}

/// Whether this is why a client hears less than directly: it compresses; it is passed through, has a password, and cannot
/// be asked for it anew; or it is passed through, or a new schema is refused, and a change of user that is refused ends it.
fn is_documented(handshake: &Handshake, direct: &[Heard], through: &[Heard], knows: Knows) -> bool {
    if handshake.damage == Damage::Flip(0, Capabilities::COMPRESS.0 as u8) {
        return through == [Heard::Error(1043)];
    }
    let is_passed = knows == Knows::NoUser || handshake.has_no_schemas();
    let cannot_be_asked = !handshake.login.capabilities.has(Capabilities::PLUGIN_AUTH);
    if is_passed && cannot_be_asked {
        let same = direct.iter().zip(through).take_while(|(direct, through)| direct == through);
        let at = same.count();
        let is_login = at == 0 && knows == Knows::Users;
        let is_change = at > 0 && matches!(handshake.asks[at - 1], Ask::ChangeUser { .. });
        if through.get(at) == Some(&Heard::Error(1045)) && (is_login || is_change) {
            return true;
        }
    }
    let Some((Heard::Closed, before)) = through.split_last() else { return false };
    let ends = |(ask, heard): (&Ask, &Heard)| match (ask, heard) {
        (Ask::ChangeUser { .. }, Heard::Error(code)) => is_passed || matches!(code, 1044 | 1049),
        _ => false,
    };
    let asked = before.get(1..).unwrap_or_default();
    direct.starts_with(before) && handshake.asks.iter().zip(asked).any(ends)
}

/// Which users Flifo knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knows {
    Users,
    NoUser,
}

impl fmt::Display for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

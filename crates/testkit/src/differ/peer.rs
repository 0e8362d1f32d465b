//! One client of a program: does one step after the other, and says what it was answered.
//!
//! Invariant: all that may differ between two equal servers is masked here and in `masks`, and nowhere else. These are
//! the masks:
//!
//! 1. The greeting, and of a login or change of user every packet but the last, whose sequence id depends on how the
//!    password was asked for.
//! 2. The id of a prepared statement in the answer to its preparation, and in errors 1243 and 1421, also where they are
//!    shown as messages.
//! 3. Connection ids in errors 1094 and 1095, which repeat what a `KILL` has named, and in error 1064 where it repeats
//!    a `KILL`.
//! 4. The flag 0x4000 (state has changed) where no changes follow: it says nothing without them, and MariaDB sets it now
//!    and then, a statement late. They follow in the OK packets of clients that ask for them; there, the order of
//!    changes, the values of `last_gtid` and `timestamp`, and a schema that the client is in already are masked, too.
//! 5. The flag 0x0400 (other columns than when the statement was prepared): Flifo prepares statements anew, on other
//!    backends and after changes, and a server that has just prepared one finds nothing changed. The columns are there.
//! 6. How a killed connection ends: with error 1927 (MariaDB), with an end of the stream, or with a reset.
//! 7. The flags 0x0010 and 0x0020 (no good index, no index) of MySQL, which plans queries on its data dictionary now this
//!    way and now that: two direct runs of `SHOW TABLES` differ in them.

use std::collections::HashMap;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use wire::Capabilities;
use wire::auth::{Nonce, Plugin, Secret, caching_sha2, rsa};
use wire::bytes::Write;
use wire::command::Opcode;
use wire::handshake::{AuthPacket, Greeting, Login, version_numbers};
use wire::response::{ERR, ErrPacket, OK};
use wire::statement;

use super::masks;
use super::program::{Abilities, Action, How, Plan, Slot, Value, find_all, replace};
use super::reading::{Packets, Shape};

pub use super::reading::{Link, Packet};

/// What came of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Reply(Vec<Packet>),
    /// The connection ended, after these packets.
    Closed(Vec<Packet>),
    /// There is no connection any more.
    Skipped,
    /// Nothing came for [`PATIENCE`].
    Stuck(Vec<Packet>),
}

/// Where a client logs in.
#[derive(Clone, Debug)]
pub struct Door {
    pub port: u16,
    pub password: String,
    /// How the password is proved, unless another way is asked for.
    pub plugin: Plugin,
    /// The first clients log in here instead: they are so many. To break a rule, and see that found.
    pub beside: Option<(usize, u16)>,
}

/// Connects to what listens on this port.
pub type Dial = dyn Fn(u16) -> io::Result<Box<dyn Link>> + Send + Sync;

fn dial(port: u16) -> io::Result<Box<dyn Link>> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(Box::new(stream))
}

/// One client.
pub struct Peer {
    dial: Arc<Dial>,
    door: Door,
    number: usize,
    plan: Plan,
    connection: Option<Connection>,
}

/// A connection that is logged in.
struct Connection {
    packets: Packets,
    id: u32,
    nonce: Vec<u8>,
    /// Prepared statements of each slot.
    statements: HashMap<u8, Prepared>,
    is_mysql: bool,
}

/// A statement that has had no answer for so long will never get one.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The name of a user of programs.
pub fn user(number: usize) -> String {
    format!("f{number}")
}

/// The schema of a client.
pub fn schema(client: usize) -> String {
    format!("d{client}")
}

/// The id of a statement that was never prepared.
const UNKNOWN: u32 = 1 << 20;

impl Peer {
    pub fn new(door: Door, number: usize, plan: Plan) -> Self {
        Self::over(Arc::new(dial), door, number, plan)
    }

    /// One that connects otherwise than over this machine's network.
    pub fn over(dial: Arc<Dial>, mut door: Door, number: usize, plan: Plan) -> Self {
        if let Some((_, port)) = door.beside.filter(|(clients, _)| number < *clients) {
            door.port = port;
        }
        Self { dial, door, number, plan, connection: None }
    }

    /// The connection id; zero without a connection.
    pub fn id(&self) -> u32 {
        self.connection.as_ref().map_or(0, |it| it.id)
    }

    /// Does one step. `ids` are the connection ids of all clients.
    pub async fn act(&mut self, action: &Action, ids: &[u32]) -> Outcome {
        let mut packets = Vec::new();
        let done = match action {
            Action::Connect => {
                self.connection = None;
                self.connect(&mut packets).await
            }
            Action::Quit | Action::Vanish => {
                if let Some(mut connection) = self.connection.take()
                    && *action == Action::Quit
                {
                    // It may be closed already.
                    let _ = connection.packets.send(0, &[Opcode::Quit as u8]).await;
                    let _ = connection.packets.read(&mut Vec::new()).await;
                }
                Ok(())
            }
            Action::Beside(text) => {
                let plan = Plan { in_schema: false, ..self.plan };
                let (dial, door) = (Arc::clone(&self.dial), self.door.clone());
                let mut other = Self { dial, door, plan, connection: None, number: self.number };
                Box::pin(other.act(&Action::Connect, ids)).await;
                let outcome = Box::pin(other.act(&Action::Query(text.clone()), ids)).await;
                Box::pin(other.act(&Action::Quit, ids)).await;
                return outcome;
            }
            Action::Leave { text, reads } => match self.connection.take() {
                None => return Outcome::Skipped,
                Some(mut connection) => {
                    let own = Own { number: self.number, abilities: self.plan.abilities, ids };
                    // It may be closed already.
                    let _ = connection.leave(&own, text, *reads, &mut packets).await;
                    return Outcome::Closed(packets);
                }
            },
            _ => match &mut self.connection {
                None => return Outcome::Skipped,
                Some(connection) => {
                    let own = Own { number: self.number, abilities: self.plan.abilities, ids };
                    connection.ask(&self.door, &own, action, &mut packets).await
                }
            },
        };
        let killed = packets.last().is_some_and(|packet| is_killed(&packet.payload));
        let Err(error) = done else {
            if killed {
                self.connection = None;
                packets.pop();
                return Outcome::Closed(packets);
            }
            if matches!(action, Action::Unjudged(_)) {
                packets.clear();
            }
            return Outcome::Reply(packets);
        };
        self.connection = None;
        if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
            return Outcome::Stuck(packets);
        }
        packets.retain(|packet| !is_killed(&packet.payload));
        Outcome::Closed(packets)
    }

    async fn connect(&mut self, packets: &mut Vec<Packet>) -> io::Result<()> {
        let mut connection = Packets::new((self.dial)(self.door.port)?);
        let mut seen = Vec::new();
        let greeting = connection.read(&mut seen).await?;
        if greeting.first() == Some(&ERR) {
            packets.append(&mut seen);
            return Ok(());
        }
        let greeting = Greeting::decode(&greeting).map_err(io::Error::other)?;
        let schema = self.plan.in_schema.then(|| schema(self.number).into_bytes());
        let login = Login {
            capabilities: capabilities(self.plan, greeting.capabilities),
            packet_max: 1 << 24,
            collation: 45,
            user: user(self.plan.user).into_bytes(),
            response: prove(&self.door.plugin, &greeting.nonce, &self.door.password)?,
            schema,
            plugin: Some(self.door.plugin.name().to_vec()),
            attributes: Vec::new(),
            zstd_level: None,
        };
        let mut payload = Vec::new();
        login.encode(&mut payload);
        connection.send(1, &payload).await?;
        // MariaDB calls itself a server with extended abilities by leaving this one out.
        let is_mysql = greeting.capabilities.has(Capabilities::LONG_PASSWORD);
        connection.hides_plans = is_mysql;
        connection.told.tells_transactions =
            is_mysql && [9, 0, 0] <= version_numbers(&greeting.version);
        let mut connection = Connection {
            packets: connection,
            id: greeting.connection_id,
            nonce: greeting.nonce,
            statements: HashMap::new(),
            is_mysql,
        };
        let is_in = connection.finish_login(&self.door, self.plan.abilities, packets).await?;
        self.connection = is_in.then_some(connection);
        Ok(())
    }
}

/// What a connection is told of its client.
struct Own<'a> {
    number: usize,
    abilities: Abilities,
    ids: &'a [u32],
}

impl Connection {
    /// Answers questions for the password until there is an end. True: it is in.
    async fn finish_login(
        &mut self,
        door: &Door,
        abilities: Abilities,
        packets: &mut Vec<Packet>,
    ) -> io::Result<bool> {
        loop {
            let mut seen = Vec::new();
            let payload = self.packets.read(&mut seen).await?;
            let Some(mut packet) = seen.pop() else { continue };
            let sequence = packet.sequence.wrapping_add(1);
            match AuthPacket::decode(&payload).map_err(io::Error::other)? {
                AuthPacket::Switch { plugin, data } => {
                    self.nonce = data.strip_suffix(&[0]).unwrap_or(data).to_vec();
                    let plugin = Plugin::from_name(plugin);
                    let proof = prove(&plugin, &self.nonce, &door.password)?;
                    self.packets.send(sequence, &proof).await?;
                }
                AuthPacket::More(&[caching_sha2::FULL]) => {
                    self.packets.send(sequence, &[caching_sha2::REQUEST_PUBLIC_KEY]).await?;
                }
                AuthPacket::More(pem) if pem.starts_with(b"-----BEGIN") => {
                    let nonce = nonce(&Plugin::CachingSha2, &self.nonce)?;
                    let sealed = rsa::encrypt(pem, door.password.as_bytes(), &nonce);
                    self.packets.send(sequence, &sealed.map_err(io::Error::other)?).await?;
                }
                AuthPacket::More(_) | AuthPacket::Bare(_) => {}
                AuthPacket::Ok | AuthPacket::Err => {
                    packet.sequence = 0;
                    packets.push(packet);
                    self.packets.told.sort_last(packets, abilities);
                    return Ok(payload.first() == Some(&OK));
                }
            }
        }
    }

    async fn ask(
        &mut self,
        door: &Door,
        own: &Own<'_>,
        action: &Action,
        packets: &mut Vec<Packet>,
    ) -> io::Result<()> {
        if let Action::ChangeUser { user: number, in_schema } = action {
            let payload = self.change_user(door, own, *number, *in_schema)?;
            self.statements.clear();
            self.packets.send(0, &payload).await?;
            return self.finish_login(door, own.abilities, packets).await.map(|_| ());
        }
        let (payload, shape) = self.encode(own, action);
        // What was said before the connection ended is read in any case.
        let sent = self.packets.send(0, &payload).await;
        self.packets.read_reply(shape, own.abilities, packets).await?;
        sent?;
        if let (Action::Prepare { slot, .. }, Some(first)) = (action, packets.first_mut()) {
            if first.payload.first() == Some(&OK) {
                self.statements.insert(*slot, Prepared::read(&first.payload));
                statement::set_id(&mut first.payload, u32::from(*slot));
            } else if self.is_mysql {
                // The values that follow are meant for another statement. From 8.0.22 on, what an older one makes of them
                // depends on the types that it was executed with before.
                self.statements.remove(slot);
            }
        }
        if *action == Action::Reset {
            self.statements.clear();
        }
        packets.iter_mut().for_each(|packet| masks::mask(&mut packet.payload));
        Ok(())
    }

    /// Asks, and goes away in the middle of the answer.
    async fn leave(
        &mut self,
        own: &Own<'_>,
        text: &[u8],
        reads: bool,
        packets: &mut Vec<Packet>,
    ) -> io::Result<()> {
        let payload = [&[Opcode::Query as u8], &with_ids(text, own)[..]].concat();
        self.packets.send(0, &payload).await?;
        if reads {
            self.packets.read_definitions(own.abilities, packets).await?;
        }
        Ok(())
    }

    fn change_user(
        &self,
        door: &Door,
        own: &Own<'_>,
        number: usize,
        in_schema: bool,
    ) -> io::Result<Vec<u8>> {
        let response = prove(&door.plugin, &self.nonce, &door.password)?;
        let mut payload = vec![Opcode::ChangeUser as u8];
        payload.put_nul_bytes(user(number).as_bytes());
        payload.push(response.len() as u8);
        payload.extend_from_slice(&response);
        let schema = if in_schema { schema(own.number) } else { String::new() };
        payload.put_nul_bytes(schema.as_bytes());
        payload.put_u16(45);
        payload.put_nul_bytes(door.plugin.name());
        Ok(payload)
    }

    fn encode(&self, own: &Own<'_>, action: &Action) -> (Vec<u8>, Shape) {
        let of = |command: Opcode, rest: &[u8]| [&[command as u8], rest].concat();
        let id = |slot: u8| self.id_of(slot).to_le_bytes();
        match action {
            Action::Query(text)
            | Action::Unjudged(text)
            | Action::Beside(text)
            | Action::Leave { text, .. } => {
                (of(Opcode::Query, &with_ids(text, own)), Shape::Results)
            }
            Action::Prepare { text, .. } => {
                (of(Opcode::StmtPrepare, &with_ids(text, own)), Shape::Prepared)
            }
            Action::Execute { slot, how, values } => {
                let values: Vec<_> = values.iter().map(|value| with_id(value, own)).collect();
                let (id, filled) = match slot {
                    Slot::Is(slot) => (self.id_of(*slot), self.filled(*slot, &values)),
                    Slot::Last => (statement::LAST_PREPARED, values),
                };
                (execute(id, *how, &filled), Shape::Results)
            }
            Action::Bulk { slot, rows } => (self.bulk(*slot, rows), Shape::Results),
            Action::LongData { slot, parameter, bytes } => {
                let rest = [&id(*slot)[..], &parameter.to_le_bytes(), &filled(bytes)].concat();
                (of(Opcode::StmtSendLongData, &rest), Shape::Nothing)
            }
            Action::Fetch { slot, rows } => {
                let rest = [id(*slot), rows.to_le_bytes()].concat();
                (of(Opcode::StmtFetch, &rest), Shape::Rows)
            }
            Action::ResetStatement { slot } => (of(Opcode::StmtReset, &id(*slot)), Shape::One),
            Action::Close { slot } => (of(Opcode::StmtClose, &id(*slot)), Shape::Nothing),
            Action::InitDb(name) => (of(Opcode::InitDb, name), Shape::One),
            Action::Reset => (of(Opcode::ResetConnection, b""), Shape::One),
            Action::SetOption(option) => (of(Opcode::SetOption, &option.to_le_bytes()), Shape::One),
            Action::FieldList(table) => {
                (of(Opcode::FieldList, &[table, &b"\0"[..]].concat()), Shape::Fields)
            }
            Action::Kill(client) => {
                let id = own.ids.get(*client).copied().unwrap_or(0);
                (of(Opcode::ProcessKill, &id.to_le_bytes()), Shape::One)
            }
            Action::Raw(bytes) => (filled(bytes), Shape::One),
            Action::Ping
            | Action::Connect
            | Action::Quit
            | Action::Vanish
            | Action::ChangeUser { .. } => (of(Opcode::Ping, b""), Shape::One),
        }
    }

    fn id_of(&self, slot: u8) -> u32 {
        self.statements.get(&slot).map_or_else(|| UNKNOWN + u32::from(slot), |it| it.id)
    }

    /// A MySQL server that lacks values in an execute, or types for the next one, reads what is in its memory behind the
    /// packet, as MariaDB does in a bulk execution. So there are as many values as the statement has parameters. They are
    /// numbers: from 8.0.22 on, a NULL is of the type that its parameter had before.
    fn filled(&self, slot: u8, values: &[Value]) -> Vec<Value> {
        let mut values = values.to_vec();
        if self.is_mysql {
            let parameters = self.statements.get(&slot).map_or(0, |it| it.parameters);
            values.resize(values.len().max(parameters), Value::Int(1));
        }
        values
    }

    /// A MariaDB that lacks values in a bulk execution reads what is in its memory behind the packet: what comes of
    /// that is not told in advance. So each row has as many as the statement has parameters.
    fn bulk(&self, slot: u8, rows: &[Vec<Value>]) -> Vec<u8> {
        let parameters = self.statements.get(&slot).map_or(0, |it| it.parameters);
        let filled = rows.iter().map(|row| {
            let mut row = row.clone();
            row.resize(row.len().max(parameters), Value::Null);
            row
        });
        bulk(self.id_of(slot), &filled.collect::<Vec<_>>())
    }
}

/// A statement that the server has prepared.
struct Prepared {
    id: u32,
    parameters: usize,
}

impl Prepared {
    /// Reads the first packet of the answer.
    fn read(payload: &[u8]) -> Self {
        match statement::Prepared::decode(payload) {
            Ok(it) => Self { id: it.id, parameters: it.parameters.into() },
            Err(_) => Self { id: UNKNOWN, parameters: 0 },
        }
    }
}

fn capabilities(plan: Plan, offered: Capabilities) -> Capabilities {
    let able = plan.abilities;
    let mut wanted = Capabilities::LONG_FLAG
        | Capabilities::PROTOCOL_41
        | Capabilities::LOCAL_FILES
        | Capabilities::TRANSACTIONS
        | Capabilities::SECURE_CONNECTION
        | Capabilities::PLUGIN_AUTH
        | Capabilities::BULK;
    // A client of MariaDB does not say that it is MySQL's, or its extended abilities count for nothing.
    if offered.has(Capabilities::LONG_PASSWORD) {
        wanted = wanted | Capabilities::LONG_PASSWORD;
    }
    let several = Capabilities::MULTI_RESULTS | Capabilities::PS_MULTI_RESULTS;
    for (is, capability) in [
        (!able.single, several),
        (able.no_eof, Capabilities::DEPRECATE_EOF),
        (able.track, Capabilities::SESSION_TRACK),
        (able.multi, Capabilities::MULTI_STATEMENTS),
        (able.found, Capabilities::FOUND_ROWS),
        (able.cache, Capabilities::CACHE_METADATA),
        (plan.in_schema, Capabilities::CONNECT_WITH_DB),
    ] {
        if is {
            wanted = wanted | capability;
        }
    }
    wanted & offered
}

fn prove(plugin: &Plugin, data: &[u8], password: &str) -> io::Result<Vec<u8>> {
    let nonce = nonce(plugin, data)?;
    Ok(plugin.respond(&Secret::from(password), &nonce).unwrap_or_default())
}

fn nonce(plugin: &Plugin, data: &[u8]) -> io::Result<Nonce> {
    Nonce::from_server(plugin, data).map_err(io::Error::other)
}

/// The text with connection ids put in.
fn with_ids(text: &[u8], own: &Own<'_>) -> Vec<u8> {
    if !text.windows(3).any(|window| window == b"{id") {
        return text.to_vec();
    }
    let id_of = |client: usize| own.ids.get(client).copied().unwrap_or(0).to_string();
    let mut text = replace(text, b"{id}", id_of(own.number).as_bytes());
    for client in 0..own.ids.len() {
        text = replace(&text, format!("{{id:{client}}}").as_bytes(), id_of(client).as_bytes());
    }
    text
}

/// As many bytes as `{fill:100000}` at its end names, so that programs with long values stay short to read.
fn filled(text: &[u8]) -> Vec<u8> {
    const MOST: usize = 1 << 24;
    const FILL: &[u8] = b"{fill:";
    let named = find_all(text, FILL).last().and_then(|&at| {
        let digits = text[at + FILL.len()..].strip_suffix(b"}")?;
        Some((at, std::str::from_utf8(digits).ok()?.parse().ok()?))
    });
    let (at, length): (usize, usize) = named.unwrap_or((text.len(), 0));
    let mut filled = text[..at].to_vec();
    filled.resize(at + length.min(MOST), b'x');
    filled
}

/// A value with connection ids in the place of those that it names.
fn with_id(value: &Value, own: &Own<'_>) -> Value {
    match value {
        Value::Text(text) => Value::Text(filled(&with_ids(text, own))),
        Value::Number(text) => {
            let digits = String::from_utf8_lossy(&with_ids(text, own)).into_owned();
            Value::Int(digits.parse().unwrap_or(0))
        }
        other => other.clone(),
    }
}

const TYPE_LONGLONG: u8 = 8;
const TYPE_VAR_STRING: u8 = 0xfd;
const TYPE_BLOB: u8 = 0xfc;

fn type_of(value: &Value) -> [u8; 2] {
    match value {
        Value::Int(_) | Value::Number(_) => [TYPE_LONGLONG, 0],
        Value::Null | Value::Text(_) => [TYPE_VAR_STRING, 0],
        Value::Long => [TYPE_BLOB, 0],
    }
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Int(value) => out.extend_from_slice(&value.to_le_bytes()),
        // In a bulk execution, where it names no client.
        Value::Number(_) => out.extend_from_slice(&0_i64.to_le_bytes()),
        Value::Text(value) => out.put_lenenc_bytes(value),
        Value::Null | Value::Long => {}
    }
}

fn execute(id: u32, how: How, values: &[Value]) -> Vec<u8> {
    let mut out = vec![Opcode::StmtExecute as u8];
    out.put_u32(id);
    out.push(u8::from(how == How::Cursor));
    out.put_u32(1);
    if values.is_empty() {
        return out;
    }
    let mut nulls = vec![0_u8; values.len().div_ceil(8)];
    for (at, value) in values.iter().enumerate() {
        if *value == Value::Null {
            nulls[at / 8] |= 1 << (at % 8);
        }
    }
    out.extend_from_slice(&nulls);
    out.push(u8::from(how != How::Untyped));
    if how != How::Untyped {
        values.iter().for_each(|value| out.extend_from_slice(&type_of(value)));
    }
    values.iter().for_each(|value| put_value(&mut out, value));
    out
}

/// MariaDB's bulk execute: all rows of parameters in one command, their types in front.
fn bulk(id: u32, rows: &[Vec<Value>]) -> Vec<u8> {
    const SEND_TYPES: u16 = 128;
    let mut out = vec![Opcode::StmtBulkExecute as u8];
    out.put_u32(id);
    out.put_u16(SEND_TYPES);
    let first = rows.first().map(Vec::as_slice).unwrap_or_default();
    first.iter().for_each(|value| out.extend_from_slice(&type_of(value)));
    for value in rows.iter().flatten() {
        out.push(u8::from(*value == Value::Null));
        put_value(&mut out, value);
    }
    out
}

/// Whether this says that its connection was killed.
fn is_killed(payload: &[u8]) -> bool {
    const KILLED: u16 = 1927;
    ErrPacket::decode(payload).is_ok_and(|error| error.code == KILLED)
}

//! Connections on which a server tells what it writes: one sends its binary log, as to a replica; on the other one it is
//! asked how far it has committed.
//!
//! Owns what is said and asked there; what follows from it is not known here. Invariants: an event is never held as a
//! whole (`wire::binlog`); what a server answers has a bound.

use std::io;

use wire::Malformed;
use wire::binlog::{Checksum, Damage, Intake, Packet, dump, dump_gtid, register};
use wire::command::Opcode;
use wire::frame::{HEADER, Header};

use crate::login::{LoggedIn, LoginError, Pair, each_row, each_row_of_answer};
use crate::stream::Stream;
use crate::talk::TalkError;

/// What a server says of its binary log, by names and values.
#[derive(Clone, Debug, Default)]
pub struct Described {
    pub variables: Vec<Pair>,
    /// Schemas that alone are logged, and that are not; both empty: all are.
    pub filters: [Vec<u8>; 2],
}

/// How far a server has committed, as readers see it, and what it is while that is so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// The file of a MariaDB server and the place in it; or the set of transactions of a MySQL server, and nothing.
    pub at: Vec<u8>,
    pub position: u64,
    /// How many transactions a MariaDB server has committed there since it was started, definitions left out. `None`:
    /// some were committed while it was asked.
    pub commits: Option<u64>,
    pub is_read_only: bool,
    /// Threads that replicate from other servers are running; not known of MySQL.
    pub is_replicating: bool,
}

/// From where events are wanted.
#[derive(Clone, Debug)]
pub enum Start {
    File {
        name: Vec<u8>,
        position: u32,
    },
    /// Transactions that are not among these, as MySQL encodes them.
    Executed(Vec<u8>),
}

/// Variables of both makes.
const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('log_bin', 'binlog_format', \
    'binlog_checksum', 'log_slave_updates', 'log_replica_updates', 'gtid_mode', 'read_only', 'server_id', 'hostname', \
    'port', 'binlog_optimize_thread_scheduling', 'server_uuid')";

/// What the first statement of them is called in MySQL 8.4 and later.
const STATUS: [&str; 2] = ["SHOW MASTER STATUS", "SHOW BINARY LOG STATUS"];

/// The statement makes no sense to the server.
const SYNTAX: u16 = 1064;

/// Asks a server for what it says of its binary log. It needs the right `BINLOG MONITOR` or `REPLICATION CLIENT`.
pub async fn describe(server: &mut LoggedIn) -> Result<Described, LoginError> {
    let variables = server.rows(VARIABLES).await?;
    let mut filters = None;
    for text in STATUS {
        let query = [&[Opcode::Query as u8], text.as_bytes()].concat();
        let taken = each_row(&mut server.talk, server.capabilities, &query, |row| {
            row.lenenc_bytes("file")?;
            row.lenenc_bytes("position")?;
            let only = row.lenenc_bytes("schemas")?.to_vec();
            filters = Some([only, row.lenenc_bytes("schemas")?.to_vec()]);
            Ok(true)
        });
        match taken.await {
            Err(LoginError::Refused { code: SYNTAX, .. }) if text == STATUS[0] => {}
            taken => {
                return taken
                    .map(|_| Described { variables, filters: filters.unwrap_or_default() });
            }
        }
    }
    Ok(Described { variables, filters: filters.unwrap_or_default() })
}

/// Before it is asked how far it has committed.
const PREPARE: &str = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ";

/// MariaDB's place in its log as of a snapshot, which is taken between two commits.
const SNAPSHOT: [&str; 5] = [
    "SHOW STATUS LIKE 'Binlog_commits'",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    "SHOW STATUS WHERE Variable_name IN ('Binlog_snapshot_file', 'Binlog_snapshot_position', 'Binlog_commits', \
     'Slaves_running')",
    "COMMIT",
    "SELECT 'read_only', @@global.read_only",
];

/// MySQL adds a transaction to this set when it has committed it.
const EXECUTED: &str = "SELECT @@global.gtid_executed, @@global.read_only";

/// Makes a connection ready for [`committed`].
pub async fn prepare(server: &mut LoggedIn) -> Result<(), LoginError> {
    server.run(PREPARE).await
}

/// Asks how far the server has committed: all that a reader of it sees by the time that the answer comes, was committed
/// in this sense or will be; all that was answered before the question is in it.
pub async fn committed(server: &mut LoggedIn) -> Result<Committed, LoginError> {
    if !server.is_mariadb {
        let (at, read_only) = server.rows(EXECUTED).await?.pop().unwrap_or_default();
        let is_read_only = read_only != b"0";
        return Ok(Committed { at, is_read_only, ..Committed::default() });
    }
    // In one go: each answer comes as if the statement had been sent by itself.
    for text in SNAPSHOT {
        server.talk.set_sequence(0);
        server.talk.write(&[&[Opcode::Query as u8], text.as_bytes()].concat()).await?;
    }
    let mut committed = Committed::default();
    let mut before = None;
    for _ in SNAPSHOT {
        let capabilities = server.capabilities;
        each_row_of_answer(&mut server.talk, capabilities, |row| {
            let (name, value) = (row.lenenc_bytes("name")?, row.lenenc_bytes("value")?);
            let number = || number(value).ok_or(Malformed::new("position"));
            match name {
                b"Binlog_snapshot_file" => committed.at = value.to_vec(),
                b"Binlog_snapshot_position" => committed.position = number()?,
                b"Binlog_commits" => {
                    committed.commits =
                        Some(number()?).filter(|it| before.is_none_or(|was| was == *it));
                    before = Some(number()?);
                }
                b"Slaves_running" => committed.is_replicating = value != b"0",
                b"read_only" => committed.is_read_only = value != b"0",
                _ => {}
            }
            Ok(true)
        })
        .await?;
    }
    Ok(committed)
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Tables that change with those that they refer to, in pairs of both. Needs the right `PROCESS`; `None`: without.
pub async fn references(server: &mut LoggedIn) -> Result<Option<Vec<Pair>>, LoginError> {
    let many = server.rows_within(REFERENCES, REFERENCES_MAX).await;
    match many {
        Ok(many) if many.is_whole => Ok(Some(many.rows)),
        Ok(_) => Err(Malformed::new("too many foreign keys").into()),
        Err(LoginError::Refused { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The lowest bits are the rules for `DELETE` and `UPDATE`.
const REFERENCES: &str =
    "SELECT FOR_NAME, REF_NAME FROM information_schema.INNODB_FOREIGN WHERE TYPE & 15";

/// Bytes of them.
const REFERENCES_MAX: usize = 8 << 20;

/// Why no event comes.
#[derive(Debug, thiserror::Error)]
pub enum EventsError {
    #[error(transparent)]
    Login(#[from] LoginError),
    #[error(transparent)]
    Talk(#[from] TalkError),
    #[error(transparent)]
    Damage(#[from] Damage),
    #[error("the server has ended the binary log's stream")]
    End,
}

impl From<io::Error> for EventsError {
    fn from(error: io::Error) -> Self {
        Self::Talk(error.into())
    }
}

/// A connection on which a server sends its binary log.
#[derive(Debug)]
pub struct Events {
    stream: Stream,
    unread: Box<[u8]>,
    /// What was read and not taken.
    from: usize,
    to: usize,
    sequence: u8,
    intake: Intake,
}

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// The number and the name that a replica has at its source.
#[derive(Clone, Copy, Debug)]
pub struct Replica<'a> {
    pub number: u32,
    pub uuid: &'a str,
    pub name: &'a str,
    /// So often the server says that nothing was written.
    pub heartbeat: std::time::Duration,
}

impl Events {
    /// Asks for events. It needs the right `REPLICATION SLAVE`.
    pub async fn begin(
        mut server: LoggedIn,
        replica: &Replica<'_>,
        from: &Start,
    ) -> Result<Self, EventsError> {
        let (nanos, uuid) = (replica.heartbeat.as_nanos(), replica.uuid);
        // The newer names first: a server that knows one of them takes it, and leaves the other one alone.
        server
            .run(&format!(
                "SET @source_binlog_checksum = @@global.binlog_checksum, @master_binlog_checksum = \
                 @@global.binlog_checksum, @source_heartbeat_period = {nanos}, @master_heartbeat_period = {nanos}, \
                 @replica_uuid = '{uuid}', @slave_uuid = '{uuid}', @mariadb_slave_capability = 4"
            ))
            .await?;
        let checksum = server.text("SELECT @master_binlog_checksum").await?.unwrap_or_default();
        let checksum = Checksum::by_name(&checksum)
            .ok_or_else(|| LoginError::from(Malformed::new("checksum")))?;
        server.talk.set_sequence(0);
        server.talk.write(&register(replica.number, replica.name)).await?;
        let payload = server.talk.read().await?;
        if payload.first() != Some(&wire::response::OK) {
            return Err(LoginError::refused(&payload).into());
        }
        let request = match from {
            Start::File { name, position } => dump(replica.number, name, *position),
            Start::Executed(set) => dump_gtid(replica.number, set),
        };
        server.talk.set_sequence(0);
        server.talk.write(&request).await?;
        let (stream, unread) = server.talk.into_parts();
        let to = unread.len();
        let mut buffer = vec![0; CHUNK.max(to)].into_boxed_slice();
        buffer[..to].copy_from_slice(&unread);
        let intake = Intake::new(checksum);
        Ok(Self { stream, unread: buffer, from: 0, to, sequence: 1, intake })
    }

    /// The next event. If the answer is not waited for, the connection is of no more use.
    pub async fn next(&mut self) -> Result<Packet<'_>, EventsError> {
        loop {
            let header = loop {
                match Header::peek(&self.unread[self.from..self.to]) {
                    Some(header) => break header,
                    None => self.fill().await?,
                }
            };
            if header.sequence != self.sequence {
                let (want, got) = (self.sequence, header.sequence);
                return Err(TalkError::OutOfOrder { want, got }.into());
            }
            self.sequence = self.sequence.wrapping_add(1);
            self.from += HEADER;
            let mut left = header.len;
            while left > 0 {
                if self.from == self.to {
                    self.fill().await?;
                }
                let end = self.to.min(self.from + left);
                self.intake.take(&self.unread[self.from..end]);
                left -= end - self.from;
                self.from = end;
            }
            if !header.is_continued() {
                return Ok(self.intake.end()?);
            }
        }
    }

    /// Bytes that are held of an event.
    pub const fn held(&self) -> usize {
        self.intake.held()
    }

    /// Whether more was read than was taken: an event that is whole may be there.
    pub const fn has_more(&self) -> bool {
        self.to - self.from > HEADER
    }

    async fn fill(&mut self) -> Result<(), EventsError> {
        self.unread.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        match self.stream.read_some(&mut self.unread[self.to..]).await? {
            0 => Err(TalkError::Closed.into()),
            read => {
                self.to += read;
                Ok(())
            }
        }
    }
}

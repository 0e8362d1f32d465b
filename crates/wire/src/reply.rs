//! Follows a server's reply at packet headers, to know where it ends and what it says on the way.
//!
//! A [`Follower`] is shown the bytes of one backend as they come. Rows and column definitions pass by uninspected, in
//! pieces of any size. Packets that say something (OK, EOF, ERR, a request for a file…) are pointed out once they
//! are there as a whole, so that the owner can read or change them before they go on.
//!
//! Invariants: it keeps no bytes; it asks to see again at most one unfinished packet of [`CONTROL_MAX`] bytes.

use std::ops::RangeInclusive;

use crate::auth::caching_sha2;
use crate::bytes::{Malformed, Reader};
use crate::capability::Capabilities;
use crate::command::Shape;
use crate::frame::{HEADER, Header, PAYLOAD_MAX};
use crate::handshake::AUTH_MORE;
use crate::response::{EOF, ERR, EofPacket, ErrPacket, LOCAL_INFILE, OK, OkPacket, Status};
use crate::statement::Prepared;

/// The longest packet that must be seen as a whole. An OK packet with the widest trackers stays far below.
pub const CONTROL_MAX: usize = 1 << 20;

/// What the follower found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Bytes before `from` have been followed and may go on; show the rest again together with more.
    More { from: usize },
    /// A packet that says something stands at `start..end`, header included. Go on at `end`.
    Packet { kind: Kind, start: usize, end: usize },
    /// The reply ended at `at`.
    End { at: usize },
}

/// Packets that say something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An OK packet, also one that ends rows in place of an EOF.
    Ok,
    Eof,
    Err,
    /// MariaDB reports how far a statement has come.
    Progress,
    /// The server wants a file of the client: packets from it, ended by an empty one.
    LocalInfile,
    /// The answer to a prepare; the statement's id is at bytes 1..5 of the payload.
    Prepared,
    /// One packet of text.
    Text,
    /// The login goes on: the client may answer.
    Authentication,
}

/// State of one reply.
#[derive(Clone, Copy, Debug)]
pub struct Follower {
    capabilities: Capabilities,
    phase: Phase,
    /// Payload bytes of the current packet that still pass by.
    skip: usize,
    /// The current packet is continued by the next one.
    continued: bool,
    /// Sequence id of the last packet whose header was read, as the client sees it.
    sequence: u8,
    /// What the client's sequence ids are ahead of the server's.
    shift: u8,
    rows_in: RowsIn,
    begun: bool,
    rows: u64,
}

/// Where rows may be that are flagged to be in a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowsIn {
    ReplyOrCursor,
    Reply,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Simple,
    Text,
    /// A result begins.
    Result,
    /// Column definitions of a result.
    Columns(u64),
    /// The EOF between columns and rows.
    ColumnsEnd,
    Rows,
    /// The row that a routine gives back. Another result follows, which MySQL says in front of it only.
    OutParameters,
    Fields,
    Prepare,
    /// Definitions of parameters, then of columns, of a prepared statement.
    Parameters {
        left: u16,
        columns: u16,
    },
    ParametersEnd {
        columns: u16,
    },
    PreparedColumns(u16),
    PreparedEnd,
    Stream,
    Authentication,
    Done,
}

/// How one packet is treated.
enum Treatment {
    Pass(Phase),
    Inspect(Kind),
}

/// How long an answer to a preparation is: a zero, the statement's id, two counts; mostly a filler and a count of warnings,
/// and whether definitions follow.
const PREPARED: RangeInclusive<usize> = 9..=13;

const FAST_OK: &[u8] = &[AUTH_MORE, caching_sha2::FAST_OK];

impl Follower {
    /// Starts to follow the reply to a command of this shape on a backend with these capabilities.
    pub fn new(shape: Shape, capabilities: Capabilities) -> Self {
        let phase = match shape {
            Shape::None => Phase::Done,
            Shape::Simple => Phase::Simple,
            Shape::Text => Phase::Text,
            Shape::Results => Phase::Result,
            Shape::Fields => Phase::Fields,
            Shape::Prepared => Phase::Prepare,
            Shape::Rows => Phase::Rows,
            Shape::Stream => Phase::Stream,
            Shape::Authentication => Phase::Authentication,
        };
        Self {
            capabilities,
            phase,
            skip: 0,
            continued: false,
            sequence: 0,
            shift: 0,
            rows_in: RowsIn::ReplyOrCursor,
            begun: false,
            rows: 0,
        }
    }

    /// The reply goes to a client whose sequence ids are ahead by `shift`.
    #[must_use]
    pub const fn shifted(self, shift: u8) -> Self {
        Self { shift, ..self }
    }

    /// The command has not asked for a cursor: MySQL shows the flag of one that a function has used, and sends the rows.
    #[must_use]
    pub const fn without_cursor(self) -> Self {
        Self { rows_in: RowsIn::Reply, ..self }
    }

    /// What the client's sequence ids are ahead of the server's.
    pub const fn shift(&self) -> u8 {
        self.shift
    }

    /// Sequence id that the next packet from Flifo itself would have.
    pub const fn next_sequence(&self) -> u8 {
        self.sequence.wrapping_add(1)
    }

    /// Whether the reply's last byte has been followed.
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done && self.is_between_packets()
    }

    /// How many rows have passed by.
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// Whether any of the reply has been followed.
    pub const fn has_begun(&self) -> bool {
        self.begun
    }

    /// Whether the last byte seen ended a packet, so that a packet of Flifo's own could follow.
    pub const fn is_between_packets(&self) -> bool {
        self.skip == 0 && !self.continued
    }

    /// Goes on at `bytes[at..]`, and renumbers the packets there. Call again from where the step says until it is
    /// `More` or `End`.
    pub fn advance(&mut self, bytes: &mut [u8], mut at: usize) -> Result<Step, Malformed> {
        loop {
            if self.skip > 0 {
                let passed = self.skip.min(bytes.len() - at);
                self.skip -= passed;
                at += passed;
                if self.skip > 0 {
                    return Ok(Step::More { from: at });
                }
            }
            if self.is_done() {
                return Ok(Step::End { at });
            }
            let Some(header) = Header::peek(&bytes[at..]) else {
                return Ok(Step::More { from: at });
            };
            if self.continued {
                self.pass(header, &mut bytes[at..]);
                at += HEADER;
                continue;
            }
            let Some(&first) = bytes.get(at + HEADER) else {
                if header.len == 0 {
                    return Err(Malformed::new("empty packet in a reply"));
                }
                return Ok(Step::More { from: at });
            };
            if header.len == 0 {
                return Err(Malformed::new("empty packet in a reply"));
            }
            match self.treat(first, header.len) {
                Treatment::Pass(next) => {
                    self.pass(header, &mut bytes[at..]);
                    self.go_on_to(next);
                    at += HEADER;
                }
                Treatment::Inspect(kind) => {
                    if header.len > CONTROL_MAX {
                        return Err(Malformed::new("a control packet of more than 1 MiB"));
                    }
                    let end = at + HEADER + header.len;
                    let Some(packet) = bytes.get_mut(at..end) else {
                        return Ok(Step::More { from: at });
                    };
                    self.number(header, packet);
                    match self.inspect(kind, &packet[HEADER..])? {
                        Some(kind) => return Ok(Step::Packet { kind, start: at, end }),
                        // The column count: it only moves the phase on.
                        None => at = end,
                    }
                }
            }
        }
    }

    fn pass(&mut self, header: Header, packet: &mut [u8]) {
        self.skip = header.len;
        self.continued = header.is_continued();
        self.number(header, packet);
    }

    fn number(&mut self, header: Header, packet: &mut [u8]) {
        self.sequence = header.sequence.wrapping_add(self.shift);
        packet[HEADER - 1] = self.sequence;
        self.begun = true;
    }

    /// Moves on behind a packet that passed by.
    fn go_on_to(&mut self, next: Phase) {
        let was_row = matches!(self.phase, Phase::Rows | Phase::OutParameters);
        self.rows += u64::from(was_row && self.phase == next);
        self.phase = next;
    }

    /// Decides by the first byte and the length what a packet is in this phase.
    fn treat(&self, first: u8, len: usize) -> Treatment {
        use Treatment::{Inspect, Pass};
        match (self.phase, first) {
            (Phase::Text, ERR) => Inspect(Kind::Err),
            (Phase::Text, _) => Inspect(Kind::Text),
            (_, ERR) => Inspect(Kind::Err),
            (Phase::Simple, EOF) if len < 9 && !self.deprecates_eof() => Inspect(Kind::Eof),
            (Phase::Simple, _) => Inspect(Kind::Ok),
            (Phase::Result, LOCAL_INFILE) => Inspect(Kind::LocalInfile),
            (Phase::Result, _) => Inspect(Kind::Ok),
            (Phase::Columns(left), _) => Pass(self.after_column(left - 1)),
            (Phase::ColumnsEnd | Phase::ParametersEnd { .. } | Phase::PreparedEnd, _) => {
                Inspect(Kind::Eof)
            }
            (Phase::Rows, EOF) if self.deprecates_eof() && len < PAYLOAD_MAX => Inspect(Kind::Ok),
            (Phase::Rows | Phase::OutParameters, EOF) if len < 9 => Inspect(Kind::Eof),
            (Phase::Rows, _) => Pass(Phase::Rows),
            (Phase::OutParameters, _) => Pass(Phase::OutParameters),
            (Phase::Fields, EOF) => {
                Inspect(if self.deprecates_eof() { Kind::Ok } else { Kind::Eof })
            }
            (Phase::Fields, _) => Pass(Phase::Fields),
            // MySQL (8.0.15, 9.7) answers OK to a user that may not run the statement: nothing has been prepared. What the
            // session has changed may stand behind it.
            (Phase::Prepare, OK) if !PREPARED.contains(&len) => Inspect(Kind::Ok),
            (Phase::Prepare, _) => Inspect(Kind::Prepared),
            (Phase::Parameters { left, columns }, _) => {
                Pass(self.after_parameter(left - 1, columns))
            }
            (Phase::PreparedColumns(left), _) => Pass(self.after_prepared_column(left - 1)),
            (Phase::Stream, EOF) if len < 9 => Inspect(Kind::Eof),
            (Phase::Stream, _) => Pass(Phase::Stream),
            (Phase::Authentication, _) => Inspect(Kind::Authentication),
            // `advance` has returned `End` before it could come here.
            (Phase::Done, _) => Pass(Phase::Done),
        }
    }

    /// Reads a whole packet and moves the phase on. `None` for packets that the owner need not see.
    fn inspect(&mut self, kind: Kind, payload: &[u8]) -> Result<Option<Kind>, Malformed> {
        match kind {
            Kind::Err => {
                if ErrPacket::decode(payload)?.code == ErrPacket::PROGRESS
                    && self.capabilities.has(Capabilities::PROGRESS)
                {
                    return Ok(Some(Kind::Progress));
                }
                self.phase = Phase::Done;
            }
            Kind::Ok if self.phase == Phase::Result && payload[0] != OK => {
                self.phase = self.read_column_count(payload)?;
                return Ok(None);
            }
            Kind::Ok => {
                let status = OkPacket::decode(payload, self.capabilities)?.status;
                self.phase = self.after_result(status);
            }
            Kind::Eof => {
                let status = EofPacket::decode(payload)?.status;
                let has_parameters =
                    status.has(Status::OUT_PARAMETERS) && status.has(Status::MORE_RESULTS);
                self.phase = match self.phase {
                    // An open cursor has no rows yet: they come when they are fetched.
                    Phase::ColumnsEnd if has_parameters => Phase::OutParameters,
                    Phase::ColumnsEnd
                        if self.rows_in == RowsIn::Reply || !status.has(Status::CURSOR_EXISTS) =>
                    {
                        Phase::Rows
                    }
                    Phase::ParametersEnd { columns } => self.after_parameters(columns),
                    Phase::PreparedEnd => Phase::Done,
                    _ => self.after_result(status),
                };
            }
            Kind::Prepared => {
                let Prepared { columns, parameters, .. } = Prepared::decode(payload)?;
                self.phase = if parameters > 0 {
                    Phase::Parameters { left: parameters, columns }
                } else {
                    self.after_parameters(columns)
                };
            }
            Kind::Text => self.phase = Phase::Done,
            Kind::Authentication if payload[0] == OK => {
                self.phase = Phase::Done;
                return Ok(Some(Kind::Ok));
            }
            // The client's answer takes the next number; that a short login has sufficed has no answer.
            Kind::Authentication if payload != FAST_OK => {
                self.sequence = self.sequence.wrapping_add(1);
            }
            // After the file comes an OK or an ERR, as a result of its own.
            Kind::LocalInfile | Kind::Progress | Kind::Authentication => {}
        }
        Ok(Some(kind))
    }

    const fn deprecates_eof(&self) -> bool {
        self.capabilities.has(Capabilities::DEPRECATE_EOF)
    }

    fn read_column_count(&self, payload: &[u8]) -> Result<Phase, Malformed> {
        let mut reader = Reader::new(payload);
        let count = reader.lenenc("column count")?;
        // Servers count them in 32 bits.
        if count == 0 || count > u64::from(u32::MAX) {
            return Err(Malformed::new("column count"));
        }
        let cached = self.capabilities.has(Capabilities::CACHE_METADATA)
            && !reader.is_empty()
            && reader.u8("metadata flag")? == 0;
        Ok(if cached { self.after_column(0) } else { Phase::Columns(count) })
    }

    const fn after_column(&self, left: u64) -> Phase {
        match left {
            0 if self.deprecates_eof() => Phase::Rows,
            0 => Phase::ColumnsEnd,
            left => Phase::Columns(left),
        }
    }

    const fn after_parameter(&self, left: u16, columns: u16) -> Phase {
        match left {
            0 if self.deprecates_eof() => self.after_parameters(columns),
            0 => Phase::ParametersEnd { columns },
            left => Phase::Parameters { left, columns },
        }
    }

    const fn after_parameters(&self, columns: u16) -> Phase {
        match columns {
            0 => Phase::Done,
            columns => Phase::PreparedColumns(columns),
        }
    }

    const fn after_prepared_column(&self, left: u16) -> Phase {
        match left {
            0 if self.deprecates_eof() => Phase::Done,
            0 => Phase::PreparedEnd,
            left => Phase::PreparedColumns(left),
        }
    }

    fn after_result(&self, status: Status) -> Phase {
        let has_more = match self.phase {
            Phase::OutParameters => true,
            Phase::Result | Phase::ColumnsEnd | Phase::Rows => status.has(Status::MORE_RESULTS),
            _ => false,
        };
        if has_more { Phase::Result } else { Phase::Done }
    }
}

#[cfg(test)]
mod tests;

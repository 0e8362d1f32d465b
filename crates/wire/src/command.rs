//! Commands: the first byte of what a client asks, and which shape of reply each one gets.

/// The kind of a command, from its first payload byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    Sleep = 0x00,
    Quit = 0x01,
    InitDb = 0x02,
    Query = 0x03,
    FieldList = 0x04,
    CreateDb = 0x05,
    DropDb = 0x06,
    Refresh = 0x07,
    Shutdown = 0x08,
    Statistics = 0x09,
    ProcessInfo = 0x0a,
    ProcessKill = 0x0c,
    Debug = 0x0d,
    Ping = 0x0e,
    ChangeUser = 0x11,
    BinlogDump = 0x12,
    TableDump = 0x13,
    RegisterReplica = 0x15,
    StmtPrepare = 0x16,
    StmtExecute = 0x17,
    StmtSendLongData = 0x18,
    StmtClose = 0x19,
    StmtReset = 0x1a,
    SetOption = 0x1b,
    StmtFetch = 0x1c,
    BinlogDumpGtid = 0x1e,
    ResetConnection = 0x1f,
    StmtBulkExecute = 0xfa,
}

/// What the server sends back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Nothing at all.
    None,
    /// One OK, EOF or ERR packet.
    Simple,
    /// One packet of text, or ERR.
    Text,
    /// Result sets as of a query: OK, ERR, a request for a local file, or columns and rows; maybe several.
    Results,
    /// Column definitions up to an EOF.
    Fields,
    /// The answer to a prepare: a header, parameters, columns.
    Prepared,
    /// Rows of an open cursor.
    Rows,
    /// Events until the connection ends or an EOF comes.
    Stream,
    /// A login's packets.
    Authentication,
}

impl Opcode {
    pub const fn decode(byte: u8) -> Option<Self> {
        Some(match byte {
            0x00 => Self::Sleep,
            0x01 => Self::Quit,
            0x02 => Self::InitDb,
            0x03 => Self::Query,
            0x04 => Self::FieldList,
            0x05 => Self::CreateDb,
            0x06 => Self::DropDb,
            0x07 => Self::Refresh,
            0x08 => Self::Shutdown,
            0x09 => Self::Statistics,
            0x0a => Self::ProcessInfo,
            0x0c => Self::ProcessKill,
            0x0d => Self::Debug,
            0x0e => Self::Ping,
            0x11 => Self::ChangeUser,
            0x12 => Self::BinlogDump,
            0x13 => Self::TableDump,
            0x15 => Self::RegisterReplica,
            0x16 => Self::StmtPrepare,
            0x17 => Self::StmtExecute,
            0x18 => Self::StmtSendLongData,
            0x19 => Self::StmtClose,
            0x1a => Self::StmtReset,
            0x1b => Self::SetOption,
            0x1c => Self::StmtFetch,
            0x1e => Self::BinlogDumpGtid,
            0x1f => Self::ResetConnection,
            0xfa => Self::StmtBulkExecute,
            _ => return None,
        })
    }

    pub const fn shape(self) -> Shape {
        match self {
            Self::Quit | Self::StmtClose | Self::StmtSendLongData => Shape::None,
            Self::Query | Self::ProcessInfo | Self::StmtExecute | Self::StmtBulkExecute => {
                Shape::Results
            }
            Self::FieldList => Shape::Fields,
            Self::Statistics => Shape::Text,
            Self::ChangeUser => Shape::Authentication,
            Self::StmtPrepare => Shape::Prepared,
            Self::StmtFetch => Shape::Rows,
            Self::BinlogDump | Self::BinlogDumpGtid | Self::TableDump => Shape::Stream,
            Self::Sleep
            | Self::InitDb
            | Self::CreateDb
            | Self::DropDb
            | Self::Refresh
            | Self::Shutdown
            | Self::ProcessKill
            | Self::Debug
            | Self::Ping
            | Self::RegisterReplica
            | Self::StmtReset
            | Self::SetOption
            | Self::ResetConnection => Shape::Simple,
        }
    }

    /// Whether it executes a prepared statement, for one row of parameters or for several.
    pub const fn executes(self) -> bool {
        matches!(self, Self::StmtExecute | Self::StmtBulkExecute)
    }

    /// The name that logs, counters and the console show.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::Quit => "quit",
            Self::InitDb => "init_db",
            Self::Query => "query",
            Self::FieldList => "field_list",
            Self::CreateDb => "create_db",
            Self::DropDb => "drop_db",
            Self::Refresh => "refresh",
            Self::Shutdown => "shutdown",
            Self::Statistics => "statistics",
            Self::ProcessInfo => "process_info",
            Self::ProcessKill => "process_kill",
            Self::Debug => "debug",
            Self::Ping => "ping",
            Self::ChangeUser => "change_user",
            Self::BinlogDump => "binlog_dump",
            Self::TableDump => "table_dump",
            Self::RegisterReplica => "register_replica",
            Self::StmtPrepare => "stmt_prepare",
            Self::StmtExecute => "stmt_execute",
            Self::StmtSendLongData => "stmt_send_long_data",
            Self::StmtClose => "stmt_close",
            Self::StmtReset => "stmt_reset",
            Self::SetOption => "set_option",
            Self::StmtFetch => "stmt_fetch",
            Self::BinlogDumpGtid => "binlog_dump_gtid",
            Self::ResetConnection => "reset_connection",
            Self::StmtBulkExecute => "stmt_bulk_execute",
        }
    }
}

/// Where a `COM_QUERY`'s text begins in its payload: after the command byte, and after the query attributes
/// where both ends speak of them. `None` if the attributes are malformed or not all there.
pub fn query_text_at(payload: &[u8], capabilities: crate::Capabilities) -> Option<usize> {
    if !capabilities.has(crate::Capabilities::QUERY_ATTRIBUTES) {
        return Some(1);
    }
    let mut reader = crate::bytes::Reader::new(payload.get(1..)?);
    let count = reader.lenenc("attribute count").ok()?;
    reader.lenenc("attribute sets").ok()?;
    if count > 0 {
        // The values' lengths depend on their types; statements with attributes are rare: the caller pins.
        return None;
    }
    Some(payload.len() - reader.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_and_its_command_agree() {
        let mut known = 0;
        for byte in 0..=255 {
            if let Some(command) = Opcode::decode(byte) {
                assert_eq!(command as u8, byte);
                assert!(!command.name().is_empty());
                known += 1;
            }
        }
        assert_eq!(known, 28);
    }

    #[test]
    fn query_attributes_precede_the_text() {
        let attributes = crate::Capabilities::QUERY_ATTRIBUTES;
        assert_eq!(query_text_at(b"\x03SELECT 1", crate::Capabilities::NONE), Some(1));
        assert_eq!(query_text_at(b"\x03\x00\x01SELECT 1", attributes), Some(3));
        assert_eq!(query_text_at(b"\x03\x01\x01\x00", attributes), None);
        assert_eq!(query_text_at(b"\x03", attributes), None);
    }
}

//! Errors of Flifo's own: each kind has one number, one SQLSTATE, one counter, and a message that says what
//! happened, why, and what to do.
//!
//! The numbers are those that a MySQL user knows for the same thing. Those of the client library (2000 and above, as
//! 2013 for a lost connection) are never sent: a client takes a server that sends one for an impostor. SQLSTATE class
//! 08 is used only where the client's connection ends, since drivers take it as the loss of the connection.

use engine::account::name::{Brand, Unsure};
use wire::frame::put_packet_with;
use wire::response::ErrPacket;

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    TooManyClients,
    UserLimit,
    BadHandshake,
    AccessDenied,
    TlsRequired,
    ServerUnreachable,
    ServerRefused,
    BackendLost,
    TransactionLost,
    NotAsMeant,
    WaitedTooLong,
    LoginWaitedTooLong,
    OutOfOrder,
    Malformed,
    UnknownCommand,
    UnknownStatement,
    NoCursor,
    TooManyStatements,
    PacketTooLarge,
    UploadTooSlow,
    StatementTooLong,
    TransactionTooLong,
    IdleInTransaction,
    ClientTooOld,
    Idle,
    Stopping,
    Killed,
    UnknownThread,
    NotOwner,
    CannotTell,
    PinRefused,
    OtherCluster,
    Unsupported,
    NonsenseFromServer,
    RuleRefused,
}

impl Kind {
    pub(crate) const ALL: [Self; 35] = [
        Self::TooManyClients,
        Self::UserLimit,
        Self::BadHandshake,
        Self::AccessDenied,
        Self::TlsRequired,
        Self::ServerUnreachable,
        Self::ServerRefused,
        Self::BackendLost,
        Self::TransactionLost,
        Self::NotAsMeant,
        Self::WaitedTooLong,
        Self::LoginWaitedTooLong,
        Self::OutOfOrder,
        Self::Malformed,
        Self::UnknownCommand,
        Self::UnknownStatement,
        Self::NoCursor,
        Self::TooManyStatements,
        Self::PacketTooLarge,
        Self::UploadTooSlow,
        Self::StatementTooLong,
        Self::TransactionTooLong,
        Self::IdleInTransaction,
        Self::ClientTooOld,
        Self::Idle,
        Self::Stopping,
        Self::Killed,
        Self::UnknownThread,
        Self::NotOwner,
        Self::CannotTell,
        Self::PinRefused,
        Self::OtherCluster,
        Self::Unsupported,
        Self::NonsenseFromServer,
        Self::RuleRefused,
    ];

    /// MySQL's error number and SQLSTATE.
    pub(crate) const fn code(self) -> (u16, &'static [u8; 5]) {
        match self {
            Self::TooManyClients | Self::LoginWaitedTooLong => (1040, b"08004"),
            Self::UserLimit => (1226, b"42000"),
            Self::BadHandshake => (1043, b"08S01"),
            Self::AccessDenied => (1045, b"28000"),
            Self::TlsRequired => (3159, b"HY000"),
            Self::ServerUnreachable => (1429, b"HY000"),
            Self::BackendLost | Self::NotAsMeant => (1430, b"HY000"),
            // A deadlock's: a client that gets it runs the whole transaction again.
            Self::TransactionLost => (1213, b"40001"),
            Self::WaitedTooLong => (1637, b"HY000"),
            Self::OutOfOrder => (1156, b"08S01"),
            Self::Malformed => (1835, b"HY000"),
            Self::UnknownCommand => (1047, b"08S01"),
            Self::UnknownStatement => (1243, b"HY000"),
            Self::NoCursor => (1421, b"HY000"),
            Self::TooManyStatements => (1461, b"42000"),
            Self::PacketTooLarge => (1153, b"08S01"),
            Self::UploadTooSlow => (1159, b"08S01"),
            Self::StatementTooLong => (3024, b"HY000"),
            Self::Idle
            | Self::IdleInTransaction
            | Self::TransactionTooLong
            | Self::ClientTooOld => (4031, b"HY000"),
            Self::Stopping => (1053, b"08S01"),
            Self::Killed => (1317, b"70100"),
            Self::UnknownThread => (1094, b"HY000"),
            Self::NotOwner => (1095, b"HY000"),
            Self::CannotTell | Self::NonsenseFromServer | Self::ServerRefused => (1105, b"HY000"),
            Self::PinRefused => (1290, b"HY000"),
            // "Can't execute the given command because you have active locked tables or an active transaction".
            Self::OtherCluster => (1192, b"HY000"),
            Self::Unsupported => (1235, b"42000"),
            Self::RuleRefused => (1227, b"42000"),
        }
    }

    /// The name in counters and logs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::TooManyClients => "too_many_clients",
            Self::UserLimit => "user_limit",
            Self::BadHandshake => "bad_handshake",
            Self::AccessDenied => "access_denied",
            Self::TlsRequired => "tls_required",
            Self::ServerUnreachable => "server_unreachable",
            Self::ServerRefused => "server_refused",
            Self::BackendLost => "backend_lost",
            Self::TransactionLost => "transaction_lost",
            Self::NotAsMeant => "not_as_meant",
            Self::WaitedTooLong => "waited_too_long",
            Self::LoginWaitedTooLong => "login_waited_too_long",
            Self::OutOfOrder => "out_of_order",
            Self::Malformed => "malformed",
            Self::UnknownCommand => "unknown_command",
            Self::UnknownStatement => "unknown_statement",
            Self::NoCursor => "no_cursor",
            Self::TooManyStatements => "too_many_statements",
            Self::PacketTooLarge => "packet_too_large",
            Self::UploadTooSlow => "upload_too_slow",
            Self::StatementTooLong => "statement_too_long",
            Self::TransactionTooLong => "transaction_too_long",
            Self::IdleInTransaction => "idle_in_transaction",
            Self::ClientTooOld => "client_too_old",
            Self::Idle => "idle",
            Self::Stopping => "stopping",
            Self::Killed => "killed",
            Self::UnknownThread => "unknown_thread",
            Self::NotOwner => "not_owner",
            Self::CannotTell => "cannot_tell",
            Self::PinRefused => "pin_refused",
            Self::OtherCluster => "other_cluster",
            Self::Unsupported => "unsupported",
            Self::NonsenseFromServer => "nonsense_from_server",
            Self::RuleRefused => "rule_refused",
        }
    }
}

/// One error, ready to be sent, counted and logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) message: String,
    /// The number and SQLSTATE that the server gave it, where it is the server's.
    relayed: Option<(u16, [u8; 5])>,
}

impl Fault {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), relayed: None }
    }

    /// The server's own refusal, passed on as it came.
    pub(crate) fn relayed(code: u16, sqlstate: &str, message: &str) -> Self {
        let sqlstate = sqlstate.as_bytes().first_chunk().copied().unwrap_or(*b"HY000");
        let relayed = Some((code, sqlstate));
        Self { kind: Kind::ServerRefused, message: message.to_owned(), relayed }
    }

    /// The same, counted otherwise.
    pub(crate) fn of_kind(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// The error as a packet with this sequence id.
    pub(crate) fn packet(&self, sequence: u8) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.message.len() + 16);
        put_packet_with(&mut out, sequence, |out| self.err().encode(out));
        out
    }

    /// The error as a client gets it whose results are in this character set. Servers convert what they say, and cut
    /// it off at the first zero byte; what only Flifo says stays readable.
    pub(crate) fn packet_in(&self, sequence: u8, charset: &[u8]) -> Vec<u8> {
        let is_said_by_servers = self.relayed.is_some()
            || matches!(
                self.kind,
                Kind::UnknownStatement
                    | Kind::UnknownCommand
                    | Kind::NoCursor
                    | Kind::UnknownThread
                    | Kind::NotOwner
                    | Kind::Killed
            );
        let kept = match charset {
            b"utf16" | b"ucs2" | b"utf32" if is_said_by_servers => 0,
            b"utf16le" if is_said_by_servers => 1,
            _ => self.message.len(),
        };
        let message = self.message.as_bytes().get(..kept).unwrap_or_default();
        let mut out = Vec::with_capacity(message.len() + 16);
        put_packet_with(&mut out, sequence, |out| ErrPacket { message, ..self.err() }.encode(out));
        out
    }

    /// The error as what a client gets in a greeting's place, where SQLSTATEs are not sent yet.
    pub(crate) fn greeting(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.message.len() + 16);
        put_packet_with(&mut out, 0, |out| self.err().encode_greeting(out));
        out
    }

    /// The error's number and SQLSTATE.
    pub(crate) fn code(&self) -> (u16, [u8; 5]) {
        self.relayed.unwrap_or_else(|| {
            let (code, sqlstate) = self.kind.code();
            (code, *sqlstate)
        })
    }

    /// The error's payload.
    pub(crate) fn payload(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.err().encode(&mut out);
        out
    }

    fn err(&self) -> ErrPacket<'_> {
        let (code, sqlstate) = self.code();
        ErrPacket { code, sqlstate, message: self.message.as_bytes() }
    }
}

/// What a client is told whose name the server might read as another one than Flifo.
pub(crate) fn unsure(name: &str, why: Unsure) -> Fault {
    // It may be as long as a packet.
    let name: String = name.chars().take(Brand::MariaDb.longest()).collect();
    let message = format!(
        "Access denied for user '{name}': {why}. Flifo lets in only users of whom it knows for certain what the server \
         makes of their name"
    );
    Fault::new(Kind::AccessDenied, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_name_of_its_own_and_a_valid_sqlstate() {
        let names: std::collections::HashSet<_> =
            Kind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), Kind::ALL.len());
        for kind in Kind::ALL {
            let (code, sqlstate) = kind.code();
            assert!((1000..2000).contains(&code) || (3000..5000).contains(&code), "{kind:?}");
            assert!(sqlstate.iter().all(u8::is_ascii_alphanumeric), "{kind:?}");
        }
    }
}

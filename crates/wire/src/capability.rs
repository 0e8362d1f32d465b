//! The capability bits that both ends of a connection agree on.
//!
//! The low 32 bits are MySQL's `CLIENT_*` flags, the high 32 bits MariaDB's extended ones, which travel in bytes
//! that MySQL leaves zero and count only where MySQL's own bit 0 (`CLIENT_MYSQL`) is *not* set by the server.

use std::fmt;
use std::ops::{BitAnd, BitOr, Not};

/// A set of capability bits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Capabilities(pub u64);

impl Capabilities {
    pub const NONE: Self = Self(0);
    /// Those of a connection on which something is asked by texts, whose rows are read.
    pub const QUESTIONS: Self = Self(
        Self::PROTOCOL_41.0
            | Self::SECURE_CONNECTION.0
            | Self::PLUGIN_AUTH.0
            | Self::TRANSACTIONS.0,
    );
    /// MySQL: always set. MariaDB: a server that clears it speaks of its extended bits.
    pub const LONG_PASSWORD: Self = Self(1);
    pub const FOUND_ROWS: Self = Self(1 << 1);
    pub const LONG_FLAG: Self = Self(1 << 2);
    pub const CONNECT_WITH_DB: Self = Self(1 << 3);
    pub const NO_SCHEMA: Self = Self(1 << 4);
    pub const COMPRESS: Self = Self(1 << 5);
    pub const ODBC: Self = Self(1 << 6);
    pub const LOCAL_FILES: Self = Self(1 << 7);
    pub const IGNORE_SPACE: Self = Self(1 << 8);
    pub const PROTOCOL_41: Self = Self(1 << 9);
    pub const INTERACTIVE: Self = Self(1 << 10);
    pub const SSL: Self = Self(1 << 11);
    pub const IGNORE_SIGPIPE: Self = Self(1 << 12);
    pub const TRANSACTIONS: Self = Self(1 << 13);
    pub const RESERVED: Self = Self(1 << 14);
    pub const SECURE_CONNECTION: Self = Self(1 << 15);
    pub const MULTI_STATEMENTS: Self = Self(1 << 16);
    pub const MULTI_RESULTS: Self = Self(1 << 17);
    pub const PS_MULTI_RESULTS: Self = Self(1 << 18);
    pub const PLUGIN_AUTH: Self = Self(1 << 19);
    pub const CONNECT_ATTRS: Self = Self(1 << 20);
    pub const LENENC_AUTH: Self = Self(1 << 21);
    pub const EXPIRED_PASSWORDS: Self = Self(1 << 22);
    pub const SESSION_TRACK: Self = Self(1 << 23);
    pub const DEPRECATE_EOF: Self = Self(1 << 24);
    pub const OPTIONAL_METADATA: Self = Self(1 << 25);
    pub const ZSTD: Self = Self(1 << 26);
    pub const QUERY_ATTRIBUTES: Self = Self(1 << 27);
    pub const MULTI_FACTOR: Self = Self(1 << 28);
    pub const EXTENSION: Self = Self(1 << 29);
    pub const VERIFY_SERVER_CERT: Self = Self(1 << 30);
    pub const REMEMBER_OPTIONS: Self = Self(1 << 31);

    /// Progress of long statements (ALTER TABLE) in error packets numbered 0xffff.
    pub const PROGRESS: Self = Self(1 << 32);
    pub const COM_MULTI: Self = Self(1 << 33);
    /// `COM_STMT_BULK_EXECUTE`.
    pub const BULK: Self = Self(1 << 34);
    /// Column definitions name their extended type (JSON, UUID, point…).
    pub const EXTENDED_METADATA: Self = Self(1 << 35);
    /// Column definitions that the client already has are not sent again.
    pub const CACHE_METADATA: Self = Self(1 << 36);
    /// A bulk execute answers with one result per row of parameters.
    pub const BULK_UNIT_RESULTS: Self = Self(1 << 37);

    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub const fn low(self) -> u32 {
        self.0 as u32
    }

    pub const fn extended(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub const fn from_parts(low: u32, extended: u32) -> Self {
        Self((extended as u64) << 32 | low as u64)
    }
}

impl BitOr for Capabilities {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}

impl BitAnd for Capabilities {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Not for Capabilities {
    type Output = Self;
    fn not(self) -> Self {
        Self(!self.0)
    }
}

impl fmt::Debug for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Capabilities({:#x})", self.0)
    }
}

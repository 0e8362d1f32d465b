//! What rules ask of a client beside its session: how it came, and as which program.

use std::fmt;

use wire::handshake::Login;

/// How a client came to Flifo.
#[derive(Clone, Default)]
pub(crate) struct CameBy {
    /// The address that it came in by, as the configuration writes it.
    pub(crate) listener: Box<str>,
    /// The name of the program, as it has said itself at its login. Empty: it has said none.
    pub(crate) program: Box<[u8]>,
}

/// So much is kept of a program's name.
const PROGRAM_MAX: usize = 128;

impl CameBy {
    pub(crate) fn new(listener: &impl fmt::Display, login: &Login) -> Self {
        let program = login.attribute(b"program_name").unwrap_or_default();
        let program = program.get(..PROGRAM_MAX).unwrap_or(program).into();
        Self { listener: listener.to_string().into(), program }
    }
}

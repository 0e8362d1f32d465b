//! What the command says on standard output and standard error.
//!
//! Invariant: the command goes on when the reader of its output has gone away. `flifo check-config FILE | head -1` is
//! no failure, and the proxy keeps running when the process that started it has closed its standard error.

use std::fmt::Display;
use std::io::{self, Write};

/// Prints what was asked for.
pub(crate) fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Tells of something that went wrong, or may.
pub(crate) fn complain(message: impl Display) {
    let _ = writeln!(io::stderr().lock(), "flifo: {message}");
}

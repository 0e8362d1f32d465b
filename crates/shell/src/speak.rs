//! What a program says on standard output and standard error.
//!
//! Invariant: the program goes on when the reader of its output has gone away. `flifo check-config FILE | head -1` is
//! no failure, and the proxy keeps running when the process that started it has closed its standard error.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

/// Prints what was asked for.
pub fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Whether what is printed may have colours: a person reads it, and has not asked for none (<https://no-color.org>).
pub fn wants_colours() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Tells of something that went wrong, or may, under the name that was typed.
pub fn complain(message: impl Display) {
    let typed = std::env::args_os().next().unwrap_or_default();
    let name = Path::new(&typed).file_name().unwrap_or_else(|| "flifo".as_ref()).display();
    let _ = writeln!(io::stderr().lock(), "{name}: {message}");
}

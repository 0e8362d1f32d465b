//! `flifo bench`, `flifo lab` and `flifo demo`: commands of the program flifo-bench, which takes the place of this one.
//!
//! Does not read what is typed behind them. Invariant: flifo-bench gets every argument as it was typed.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use shell::{UNAVAILABLE, complain};

/// Whether a manual page of this name is flifo-bench's.
pub(crate) fn is_about(page: &str) -> bool {
    page.split('-').next().is_some_and(|command| ["bench", "demo", "lab"].contains(&command))
}

/// Starts flifo-bench in the place of this program. Returns, with the exit status, only where that is impossible.
pub(crate) fn run() -> u8 {
    let mut typed = std::env::args_os();
    let own = typed.next().unwrap_or_default();
    let Some(program) = sys::programs::beside("flifo-bench") else {
        complain(missing(&typed.next().unwrap_or_default().display()));
        return UNAVAILABLE;
    };
    // It goes by the name that was typed: its help, its messages and its results say `flifo bench`.
    let error = Command::new(&program).arg0(own).args(typed).exec();
    complain(format_args!("cannot start {}: {error}", program.display()));
    UNAVAILABLE
}

fn missing(command: &impl std::fmt::Display) -> String {
    let own = std::env::current_exe().unwrap_or_default();
    let folder = own.parent().unwrap_or_else(|| Path::new("")).display();
    format!(
        "flifo-bench is not installed: `flifo {command}` starts it, and it is neither in {folder}, beside flifo, nor in \
         PATH. Put it into one of these folders: each release has it as an archive of its own, and `cargo build \
         --release` builds it"
    )
}

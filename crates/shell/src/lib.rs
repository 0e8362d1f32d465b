//! What the programs `flifo` and `flifo-bench` have in common as commands of a shell.
//!
//! Owns exit statuses (those of `sysexits.h`), messages, and what is written from the definition of the arguments. Does
//! not know what any command does.

mod manual;
mod speak;

use std::process::ExitCode;
use std::sync::LazyLock;

use clap::Parser;

pub use self::manual::{Manual, check_reference, reference};
pub use self::speak::{complain, print, wants_colours};

pub const OK: u8 = 0;
pub const USAGE: u8 = 64;
pub const UNAVAILABLE: u8 = 69;
pub const SOFTWARE: u8 = 70;
pub const CONFIG: u8 = 78;
/// As a shell reports a program that was interrupted.
pub const INTERRUPTED: u8 = 130;

/// The version, with the commit if `FLIFO_COMMIT` named it at build time.
pub static VERSION: LazyLock<String> = LazyLock::new(|| {
    let version = env!("CARGO_PKG_VERSION");
    match option_env!("FLIFO_COMMIT") {
        None | Some("") => version.to_owned(),
        Some(commit) => format!("{version} ({commit})"),
    }
});

/// Does what the arguments ask for. Help and the version, which are asked for too, and mistakes are told here.
pub fn main<A: Parser>(perform: impl FnOnce(A) -> u8) -> ExitCode {
    let status = match A::try_parse() {
        Ok(arguments) => perform(arguments),
        Err(error) => {
            let _ = error.print();
            if error.use_stderr() { USAGE } else { OK }
        }
    };
    status.into()
}

/// Prints what was asked for, and nothing else.
pub fn show(text: &str) -> u8 {
    print(text);
    OK
}

//! What the commands have in common that ask the console of a running Flifo.

use std::fs::Metadata;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

use clap::Args;
use proxy::config::{self, Overrides, Plan};
use proxy::{Address, NoAddress};
use serde::Serialize;
use shell::{CONFIG, OK, SOFTWARE, USAGE, complain, print};

/// Which Flifo is asked.
#[derive(Debug, Args)]
pub(crate) struct Console {
    /// The configuration that the Flifo runs with: its console is asked.
    #[arg(long, short, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The console, instead of the configuration's: "path/of.sock" or "host:port".
    #[arg(long, value_name = "ADDRESS")]
    console: Option<String>,
}

impl Console {
    /// The plan that it runs with, and the address that replaces the plan's. An error is an exit status, of which the
    /// reason has been told.
    pub(crate) fn find(&self) -> Result<(Plan, Option<Address>), u8> {
        let (plan, _) =
            config::load(self.config.as_deref(), &Overrides::default()).map_err(|problems| {
                problems.iter().for_each(complain);
                complain("nothing has changed");
                CONFIG
            })?;
        let address = self.console.as_deref().map(address).transpose();
        let address = address.map_err(|error| {
            complain(format_args!("--console: {error}"));
            USAGE
        })?;
        Ok((plan, address))
    }
}

/// Where a console is. What names a socket in the current folder is that one, and no host.
pub(crate) fn address(text: &str) -> Result<Address, NoAddress> {
    let is_socket = |found: Metadata| found.file_type().is_socket();
    match std::fs::metadata(text).is_ok_and(is_socket) {
        true => Ok(Address::Unix(text.into())),
        false => text.parse(),
    }
}

/// Prints an answer as JSON.
pub(crate) fn print_json(answer: &(impl Serialize + ?Sized)) -> u8 {
    match serde_json::to_string_pretty(answer) {
        Ok(text) => {
            print(&format!("{text}\n"));
            OK
        }
        Err(error) => {
            complain(format_args!("the answer cannot be written as JSON: {error}"));
            SOFTWARE
        }
    }
}

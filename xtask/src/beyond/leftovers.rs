//! What a client leaves behind must not reach the next one that gets its backend connection.
//!
//! Each case is tried directly first: what a new session says there is what the next client must be told. What the
//! server does not know is left out.

use std::path::Path;

use anyhow::Result;
use testkit::client::Client;
use testkit::flifo::Flifo;

use super::make::{Make, Standing};
use super::{PASSWORD, USERS};

const SCHEMA: &str = "test1";

/// What is left, and what shows it.
type Case = (&'static [&'static str], &'static str);

const OF_ALL: [Case; 7] = [
    (&["SET @left = 1"], "SELECT @left"),
    (&["SET SESSION sql_mode = 'ANSI_QUOTES'"], "SELECT @@sql_mode"),
    (&["SET autocommit = 0"], "SELECT @@autocommit"),
    (&["SET NAMES latin1"], "SELECT @@character_set_client, @@collation_connection"),
    (&["CREATE TEMPORARY TABLE passing (id INT)"], "SELECT COUNT(*) FROM passing"),
    (&["BEGIN", "INSERT INTO leftover VALUES (2)"], "SELECT COUNT(*) FROM leftover"),
    (&["USE test2"], "SELECT DATABASE()"),
];

/// A branch is a session's, and a revision of a database is a schema.
const OF_DOLT: [Case; 3] = [
    (&["CALL dolt_checkout('other')"], "SELECT active_branch(), DATABASE()"),
    (&["USE `test1/other`"], "SELECT active_branch(), DATABASE()"),
    (&["SET @@dolt_transaction_commit = 1"], "SELECT @@dolt_transaction_commit"),
];

/// A tablet's type is part of a schema's name, and what vtgate knows of a session is its own.
const OF_VITESS: [Case; 3] = [
    (&["USE `test1@rdonly`"], "SELECT DATABASE()"),
    (&["SET workload = 'olap'"], "SELECT @@workload"),
    (&["SET transaction_mode = 'single'"], "SELECT @@transaction_mode"),
];

/// Returns what has come through.
pub(super) fn run(make: Make, server: &Standing, flifo: &Path) -> Result<Vec<String>> {
    eprintln!("{}: what clients leave", make.name());
    server.empty(&["test1", "test2"])?;
    let mut maker = open(server.port)?;
    maker.query("CREATE TABLE leftover (id INT PRIMARY KEY)")?;
    maker.query("INSERT INTO leftover VALUES (1)")?;
    if make == Make::Dolt {
        maker.query("CALL dolt_commit('-Am', 'a table')")?;
        maker.query("CALL dolt_branch('other')")?;
    }
    // One backend: where it is kept, the next client has the one of the client before.
    let proxy =
        Flifo::start_program(flifo, &format!("{}{}", super::head(server.port, 1), super::users()));
    let (direct, pooled) = (server.port, proxy.port());
    let of_make: &[Case] = match make {
        Make::Gms => &[],
        Make::Dolt => &OF_DOLT,
        Make::Vitess => &OF_VITESS,
    };
    let (mut faults, mut told) = (Vec::new(), Vec::new());
    for (leave, look) in OF_ALL.iter().chain(of_make) {
        let shown = leave.join("; ");
        let wanted = answer(&mut open(direct)?, look);
        let mut client = open(direct)?;
        if leave.iter().any(|text| client.query(text).is_err()) {
            told.push(format!("`{shown}` (not known to the server)"));
            continue;
        }
        // Otherwise the case would show nothing.
        let differs = answer(&mut client, look) != wanted;
        drop(client);
        told.push(format!("`{shown}`{}", if differs { "" } else { " (of no effect)" }));
        for _ in 0..ROUNDS {
            let mut client = open(pooled)?;
            for text in *leave {
                client.query(text)?;
            }
            drop(client);
            let found = answer(&mut open(pooled)?, look);
            if found != wanted {
                faults.push(format!("{shown}: the next client is told {found}, not {wanted}"));
                break;
            }
        }
    }
    println!("Left by one client and looked for by the next: {}.\n", told.join(", "));
    Ok(faults)
}

fn open(port: u16) -> Result<Client> {
    let address = backend::Address::Tcp { host: "127.0.0.1".into(), port };
    Ok(Client::builder(address, USERS[0], PASSWORD).schema(SCHEMA).connect()?)
}

/// An error is an answer, too, whatever its words are.
fn answer(client: &mut Client, look: &str) -> String {
    client.query(look).map_or_else(|_| "an error".to_owned(), |rows| format!("{rows:?}"))
}

/// The first resets are tried before one is trusted, and that backend is closed.
const ROUNDS: u32 = 5;

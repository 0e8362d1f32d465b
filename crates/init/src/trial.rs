//! Tries what was set up: the console, a login, a pooled statement.

use std::time::{Duration, Instant};

use backend::login::Blocking;
use proxy::Address;

use crate::{InitError, NAME, Wishes, read_password, undo};

/// What a trial has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The client's number by Flifo's count: its clients share connections.
    pub client: u64,
}

/// Starting takes a moment, and a busy machine more.
const PATIENCE: Duration = Duration::from_secs(60);

/// The first number that Flifo gives a pooled client.
const FIRST_CLIENT: u64 = 1 << 30;

/// One attempt may take so long: something else may listen there, and not answer.
const ATTEMPT: Duration = Duration::from_secs(5);

/// Logs in at what was set up, as Flifo's own account.
pub fn try_out(wishes: &Wishes) -> Result<Tried, InitError> {
    let password = read_password(&wishes.layout.password())
        .map_err(|error| InitError::Trial(format!("its password cannot be read: {error}")))?;
    // By way of its socket: the account is for this machine, which a server that resolves no names knows by that only.
    let address = Address::Unix(wishes.layout.socket());
    let begun = Instant::now();
    loop {
        match attempt(&address, &password) {
            Ok(client) if client >= FIRST_CLIENT => return Ok(Tried { client }),
            Ok(_) => {
                let why = "a login works, and is passed through where it should be pooled";
                return Err(InitError::Trial(why.to_owned()));
            }
            Err(_) if undo::has_ended(&wishes.layout)? => {
                let log = std::fs::read_to_string(&wishes.layout.log).unwrap_or_default();
                let last = log.lines().last().unwrap_or("it has said nothing");
                return Err(InitError::Trial(format!("it has ended: {last}")));
            }
            Err(why) if begun.elapsed() > PATIENCE => {
                return Err(InitError::Trial(format!("no login at {address}: {why}")));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

fn attempt(address: &Address, password: &str) -> Result<u64, String> {
    let mut flifo = Blocking::log_in(address, NAME, password.into(), ATTEMPT)
        .map_err(|error| error.to_string())?;
    let answer = flifo.ask(async |flifo| flifo.text("SELECT CONNECTION_ID()").await);
    let number = answer
        .map_err(|error| error.to_string())?
        .and_then(|text| String::from_utf8_lossy(&text).parse().ok());
    number.ok_or_else(|| "no number".to_owned())
}

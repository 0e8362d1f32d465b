//! The load of an application without a pool: connect, log in, one statement, disconnect, again and
//! again; and of the same application as it would be if it stayed connected.
//!
//! One client, one thing at a time, as the report had it. Counts and measures nothing but how many
//! times it went round. Invariants: no step waits without a deadline; a signal ends it.

use std::io;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use link::Address;
use link::login::{Credential, LoggedIn, Request, greet};
use wire::Capabilities;
use wire::command::Command;

use crate::interrupt::Interrupt;

/// Who connects where, and what he says there.
pub(super) struct Client<'a> {
    pub(super) address: &'a Address,
    pub(super) user: &'a str,
    pub(super) password: &'a str,
    pub(super) statement: &'a str,
}

/// When the client goes round again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pace {
    /// So many times a second, at even distances; what is late is caught up with.
    Rate(f64),
    FullSpeed,
    /// At full speed, and without ever disconnecting.
    Staying,
}

impl Client<'_> {
    /// Goes round for so long; tells how often.
    pub(super) fn run(&self, pace: Pace, time: Duration, interrupt: &Interrupt) -> Result<u64> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let begin = Instant::now();
            let mut rounds = 0_u64;
            let mut stays = match pace {
                Pace::Staying => Some(bounded(self.connect()).await?),
                _ => None,
            };
            loop {
                interrupt.check()?;
                if let Pace::Rate(rate) = pace {
                    let due = begin + Duration::from_secs_f64(rounds as f64 / rate);
                    tokio::time::sleep_until(due.into()).await;
                }
                if time <= begin.elapsed() {
                    break;
                }
                match &mut stays {
                    Some(connection) => bounded(self.ask(connection)).await?,
                    None => bounded(self.go_round()).await?,
                }
                rounds += 1;
            }
            if let Some(connection) = stays {
                bounded(leave(connection)).await?;
            }
            Ok(rounds)
        })
    }

    async fn go_round(&self) -> Result<()> {
        let mut connection = self.connect().await?;
        self.ask(&mut connection).await?;
        leave(connection).await
    }

    async fn connect(&self) -> Result<LoggedIn> {
        let stream = link::dial::dial(self.address).await;
        let stream = stream.with_context(|| format!("cannot connect to {}", self.address))?;
        let credential = Credential::Password(self.password.into());
        let request = Request {
            user: self.user.as_bytes(),
            credential: &credential,
            capabilities: CAPABILITIES,
            collation: UTF8MB4,
            packet_max: 1 << 24,
            schema: None,
        };
        let logged_in = greet(stream).await?.login(&request, None).await;
        logged_in.with_context(|| format!("cannot log in at {}", self.address))
    }

    async fn ask(&self, connection: &mut LoggedIn) -> Result<()> {
        connection.run(self.statement).await.with_context(|| format!("`{}`", self.statement))
    }
}

async fn leave(mut connection: LoggedIn) -> Result<()> {
    connection.talk.set_sequence(0);
    connection.talk.write(&[Command::Quit as u8]).await?;
    Ok(())
}

async fn bounded<T>(step: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(PATIENCE, step)
        .await
        .map_err(|_| anyhow!(io::Error::from(io::ErrorKind::TimedOut)))?
}

/// What any client of today can do.
const CAPABILITIES: Capabilities = Capabilities(
    Capabilities::LONG_PASSWORD.0
        | Capabilities::PROTOCOL_41.0
        | Capabilities::TRANSACTIONS.0
        | Capabilities::SECURE_CONNECTION.0
        | Capabilities::PLUGIN_AUTH.0,
);
const UTF8MB4: u8 = 45;
const PATIENCE: Duration = Duration::from_secs(20);

//! A login for a program that asks one question after the other and waits for each answer.

use std::fmt;
use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use wire::Capabilities;
use wire::auth::Secret;
use wire::handshake::UTF8MB4;

use super::{Credential, LoggedIn, LoginError, Request, greet};
use crate::{Address, dial};

/// A connection that is logged in. Each call blocks, and no answer is waited for longer than its patience.
pub struct Blocking {
    runtime: Runtime,
    server: LoggedIn,
    patience: Duration,
}

impl fmt::Debug for Blocking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocking").field("server", &self.server).finish_non_exhaustive()
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum BlockingError {
    #[error(transparent)]
    Unreachable(io::Error),
    #[error(transparent)]
    Login(LoginError),
    #[error("no answer within {} s", .0.as_secs())]
    Late(Duration),
}

impl Blocking {
    /// Connects and logs in, without TLS: for servers of this machine.
    pub fn log_in(
        address: &Address,
        user: &str,
        password: Secret,
        patience: Duration,
    ) -> Result<Self, BlockingError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(BlockingError::Unreachable)?;
        let credential = Credential::Password(password);
        let request = Request {
            user: user.as_bytes(),
            credential: &credential,
            capabilities: Capabilities::QUESTIONS,
            collation: UTF8MB4,
            packet_max: 1 << 24,
            schema: None,
        };
        let login = async {
            let stream = dial::dial(address).await.map_err(BlockingError::Unreachable)?;
            let greeted = greet(stream).await.map_err(BlockingError::Login)?;
            greeted.login(&request, None).await.map_err(BlockingError::Login)
        };
        let server = runtime.block_on(async { timeout(patience, login).await });
        let server = server.map_err(|_| BlockingError::Late(patience))??;
        Ok(Self { runtime, server, patience })
    }

    /// Asks, and waits for the answer.
    pub fn ask<T>(
        &mut self,
        question: impl AsyncFnOnce(&mut LoggedIn) -> Result<T, LoginError>,
    ) -> Result<T, BlockingError> {
        let asked = async { timeout(self.patience, question(&mut self.server)).await };
        let answer = self.runtime.block_on(asked);
        answer.map_err(|_| BlockingError::Late(self.patience))?.map_err(BlockingError::Login)
    }
}

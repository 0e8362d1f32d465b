//! The accounts that servers have given Flifo for clients whose logins are passed through.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::account::held::AccountRules;
use engine::account::name::UserName;
use engine::account::row::Row;

use crate::cluster::servers::ServerId;

/// The accounts that servers have given Flifo for pass-through clients.
#[derive(Debug, Default)]
pub(crate) struct Given {
    known: Mutex<HashMap<(ServerId, UserName), (Instant, GivenAccount)>>,
}

/// What a server says of such an account.
#[derive(Clone, Debug)]
pub(crate) struct GivenAccount {
    pub(crate) account: Row,
    pub(crate) rules: AccountRules,
    /// It may trust the process at the other end of a Unix socket.
    pub(crate) looks_at_process: bool,
}

/// So many are remembered.
pub(crate) const GIVEN_MAX: usize = 1000;

/// A server that did not answer is not asked again sooner; what it said of a pass-through client is not believed for
/// longer.
pub(crate) const SOON: Duration = Duration::from_secs(1);

impl Given {
    pub(crate) fn get(&self, server: ServerId, name: &UserName) -> Option<GivenAccount> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, answer) = known.get(&(server, name.clone()))?;
        (crate::worker::clock::since(*at) < SOON).then(|| answer.clone())
    }

    pub(crate) fn remember(
        &self,
        server: ServerId,
        name: &UserName,
        answer: GivenAccount,
    ) -> GivenAccount {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= GIVEN_MAX {
            known.retain(|_, (at, _)| crate::worker::clock::since(*at) < SOON);
        }
        if known.len() < GIVEN_MAX {
            known.insert((server, name.clone()), (crate::worker::clock::read(), answer.clone()));
        }
        answer
    }
}

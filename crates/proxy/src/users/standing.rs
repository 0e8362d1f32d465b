//! What the server has said of the account that it gives Flifo for a user.

use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Instant;

use engine::account::held::AccountRules;
use engine::account::row::Row;
use engine::account::terms::Hour;

/// Where the server sees Flifo; `None`: on its Unix socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own(pub(crate) Option<IpAddr>);

/// What the server has said of the account that it gives Flifo for a pooled user.
#[derive(Debug, Default)]
pub(crate) struct AccountStanding {
    pub(crate) known: Mutex<Option<Known>>,
    /// Held by the client whose login asks.
    pub(crate) asking: tokio::sync::Mutex<()>,
    pub(crate) hour: Mutex<Hour>,
}

#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// To be asked again after this.
    pub(crate) until: Instant,
    /// `None`: the server does not show it.
    pub(crate) account: Option<Row>,
    pub(crate) rules: AccountRules,
    pub(crate) own: Own,
}

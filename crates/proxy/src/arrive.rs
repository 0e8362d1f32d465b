//! How a client arrives: from its socket to a session that may speak.
//!
//! Reads in the order of a login: [`listener`], [`proxy_protocol`], [`logins`], [`login`]; then [`prove`] where Flifo
//! knows the user, or [`carry`] where only the server does ([`learnt`] is what Flifo comes to know by it), and [`held`]:
//! whether it may have that account from where it is. Ends where [`crate::road`] begins.

pub(crate) mod accounts;
pub(crate) mod carry;
pub(crate) mod guesses;
pub(crate) mod held;
pub(crate) mod learnt;
pub(crate) mod leg;
pub(crate) mod listener;
pub(crate) mod login;
pub(crate) mod login_schema;
pub(crate) mod logins;
pub(crate) mod namesake;
pub(crate) mod prove;
pub(crate) mod proxy_protocol;
pub(crate) mod rsa;
pub(crate) mod table;
pub(crate) mod users;

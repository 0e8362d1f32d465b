//! How a client arrives: from its socket to a session that may speak.
//!
//! Reads in the order of a login: [`listener`], [`proxy_protocol`], [`crate::users::logins`], [`login`]; then [`prove`]
//! where Flifo knows the user, or [`pass_through`] where only the server does ([`learnt`] is what Flifo comes to know
//! by it);
//! [`held`]: whether it may have that account from where it is; [`confirm`]: whether the server would still let it in.
//! Ends where [`crate::road`] begins: [`client_task`] serves the client from then on, and [`change_user`] makes it
//! another user.
//!
//! What is asked of servers beside that: [`accounts`], [`hidden`], [`watch`]. Logins that fail are told to the audit log
//! by [`audited`].

pub(crate) mod accepted;
pub(crate) mod accounts;
pub(crate) mod arrival;
pub(crate) mod audited;
pub(crate) mod before_41;
pub(crate) mod change_user;
pub(crate) mod client_task;
pub(crate) mod confirm;
pub(crate) mod guesses;
pub(crate) mod held;
pub(crate) mod hidden;
pub(crate) mod learnt;
pub(crate) mod leg;
pub(crate) mod listener;
pub(crate) mod login;
pub(crate) mod namesake;
pub(crate) mod pass_through;
pub(crate) mod passed;
pub(crate) mod pending_login;
pub(crate) mod prove;
pub(crate) mod proxy_protocol;
pub(crate) mod reloaded;
pub(crate) mod visits;
pub(crate) mod vouch;
pub(crate) mod watch;

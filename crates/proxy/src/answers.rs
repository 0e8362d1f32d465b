//! Replies of Flifo's own, and what is changed in packets of clients and servers.
//!
//! [`answer`] answers in a server's place; [`query_rewrite`] and [`ok_rewrite`] put what is the client's own in the place
//! of what is the backend's; [`notes`] writes slow and audit logs.

pub(crate) mod answer;
pub(crate) mod diagnostics;
pub(crate) mod interrupted;
pub(crate) mod lost_transaction;
pub(crate) mod notes;
pub(crate) mod ok_rewrite;
pub(crate) mod query_rewrite;

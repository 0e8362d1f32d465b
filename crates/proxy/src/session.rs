//! What a client's session needs of a backend, what a backend owes its clients, and the way from one to the other.
//!
//! [`session_setup`] tells a backend what a session is; [`capture`] and [`questions`] ask a backend what it alone knows;
//! [`pins`] says what keeps a backend with its client; [`supply`] hands out backends and takes them back.

pub(crate) mod alone;
pub(crate) mod backend_reset;
pub(crate) mod capture;
pub(crate) mod own_id;
pub(crate) mod passed_types;
pub(crate) mod pins;
pub(crate) mod pipeline;
pub(crate) mod prepared;
pub(crate) mod questions;
pub(crate) mod rights;
pub(crate) mod schema_gone;
pub(crate) mod session_setup;
pub(crate) mod supply;
pub(crate) mod transfers;

//! A pooled client's session: what its next statement needs from a backend, and whether it may give its backend back.

pub mod alone;
pub mod beginning;
mod diagnostics;
pub mod earlier;
pub mod facts;
mod kept_diagnostics;
pub mod leftover;
mod listens;
mod moved;
pub mod observe;
pub mod plan;
pub mod prepared;
mod reading;
pub mod setup;
pub(crate) mod state;
mod transaction;

pub use crate::intent::DiagnosticsUse;
pub use diagnostics::{CHARSET, Diagnostics};
pub use state::{Reset, Session};
pub use transaction::{Loss, LossVerdict, Reached};

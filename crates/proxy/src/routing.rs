//! Which cluster and which server a statement goes to, and what it must find there.

pub(crate) mod clusters;
pub(crate) mod earlier;
pub(crate) mod freshness;
pub(crate) mod out_of_sight;
pub(crate) mod route;

//! Clients and backends on their way to the Flifo that takes over ([`departure`]), and from the one before
//! ([`arrivals`]).

pub(crate) mod arrivals;
pub(crate) mod departure;

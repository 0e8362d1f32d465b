//! What can be switched on for statements: rules, the cache, shared reads, mirrors.

pub(crate) mod cached;
pub(crate) mod mirrored;
pub(crate) mod ruled;
pub(crate) mod sharing;

//! A connection taken apart, on its way to another worker.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use backend::stream;
use engine::backend_session;
use engine::rights::Era;
use wire::Capabilities;

use crate::cluster::servers::ServerId;
use crate::pool::keys::Key;
use crate::users::User;

/// What the other worker gets.
pub(crate) struct Parcel {
    pub(crate) server: ServerId,
    pub(crate) thread_id: u32,
    pub(crate) stream: stream::Packed,
    pub(crate) capabilities: Capabilities,
    pub(crate) key: Key,
    pub(crate) user: Option<Arc<User>>,
    pub(crate) opened: Instant,
    pub(crate) era: Era,
    pub(crate) state: backend_session::Packed,
    /// Ids of statements that are still prepared.
    pub(crate) statements: Vec<u32>,
    pub(crate) is_left_behind: bool,
}

impl fmt::Debug for Parcel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parcel").field("thread_id", &self.thread_id).finish_non_exhaustive()
    }
}

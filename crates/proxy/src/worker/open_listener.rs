//! A listener that a worker serves, as others of its thread reach it.

use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};

use tokio::sync::Notify;

/// It lives as long as the task that serves it.
#[derive(Debug)]
pub(crate) struct OpenListener {
    pub(crate) socket: Weak<OwnedFd>,
    /// Ends that task.
    pub(crate) end: Rc<Notify>,
}

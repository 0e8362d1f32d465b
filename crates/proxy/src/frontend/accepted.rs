//! A socket that a listener has accepted.

use std::sync::Arc;

use crate::config::Listen;

/// A socket that a listener has accepted.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) socket: Socket,
    /// Where it came in.
    pub(crate) listen: Arc<Listen>,
}

#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
    #[cfg(feature = "simulation")]
    Memory(backend::stream::Packed),
}

//! A socket that a listener has accepted.

/// A socket that a listener has accepted.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) socket: Socket,
    /// The place of the listener in the plan.
    pub(crate) listen: usize,
}

#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

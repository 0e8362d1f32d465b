//! A Unix socket whose owner is woken for reading only.
//!
//! A Unix socket announces that it can be written to each time its peer has read something, whether a task waits for
//! that or not. A backend would be woken for every command that the server takes. So readiness for writing is asked for
//! only while a write waits, on a descriptor of its own.

use std::cell::RefCell;
use std::io;
use std::os::unix::net::UnixStream;
use std::task::{Context, Poll, ready};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

#[derive(Debug)]
pub(super) struct Unix {
    socket: AsyncFd<UnixStream>,
    /// The same socket once more, while a write waits for it.
    waiting: RefCell<Option<AsyncFd<UnixStream>>>,
}

impl Unix {
    pub(super) fn new(stream: tokio::net::UnixStream) -> io::Result<Self> {
        Self::from_std(stream.into_std()?)
    }

    /// Watches a socket that does not block.
    pub(super) fn from_std(socket: UnixStream) -> io::Result<Self> {
        let socket = watch(socket, Interest::READABLE)?;
        Ok(Self { socket, waiting: RefCell::new(None) })
    }

    pub(super) fn socket(&self) -> &UnixStream {
        self.socket.get_ref()
    }

    pub(super) fn poll_read_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.poll_read_ready(context).map_ok(drop)
    }

    /// Ready once the socket can be written to. Registering anew tells how it is now, so no event is missed.
    pub(super) fn poll_write_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut waiting = self.waiting.borrow_mut();
        let socket = match &mut *waiting {
            Some(socket) => socket,
            none => {
                let again = self.socket().try_clone()?;
                none.insert(watch(again, Interest::WRITABLE)?)
            }
        };
        let result = ready!(socket.poll_write_ready(context)).map(drop);
        *waiting = None;
        Poll::Ready(result)
    }

    /// Runs `act` if the socket is readable as far as is known; `WouldBlock` makes that be forgotten.
    pub(super) fn try_read_io<R>(&self, act: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        self.socket.try_io(Interest::READABLE, |_| act())
    }

    /// Says whether the peer has closed its side, as far as the event loop has heard.
    pub(super) fn is_read_closed(&self, context: &mut Context<'_>) -> bool {
        match self.socket.poll_read_ready(context) {
            Poll::Ready(Ok(guard)) => guard.ready().is_read_closed(),
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        }
    }
}

/// Registers a socket with the event loop for one kind of event.
#[expect(
    deprecated,
    reason = "the new call asks for proof for the sake of types that may close their descriptor early; a UnixStream owns it"
)]
fn watch(socket: UnixStream, interest: Interest) -> io::Result<AsyncFd<UnixStream>> {
    AsyncFd::with_interest(socket, interest)
}

//! Tells a visit when it is in the middle of an answer: from its request until the last byte is with the kernel.
//!
//! Two guards see to it: one is part of the answer's body and goes with it, the other one lives while the socket takes
//! no more.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::admin::visits::{Answering, Visit};

/// The body of an answer, with the guard.
pub(super) struct Guarded {
    body: Full<Bytes>,
    _answering: Answering,
}

impl Guarded {
    pub(super) const fn new(body: Full<Bytes>, answering: Answering) -> Self {
        Self { body, _answering: answering }
    }
}

impl Body for Guarded {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A socket that is watched for not taking what is written.
pub(super) struct Watched<S> {
    stream: S,
    visit: Rc<Visit>,
    blocked: Option<Answering>,
}

impl<S> Watched<S> {
    pub(super) const fn new(stream: S, visit: Rc<Visit>) -> Self {
        Self { stream, visit, blocked: None }
    }

    fn see<T>(&mut self, wrote: Poll<T>) -> Poll<T> {
        match wrote {
            Poll::Ready(_) => self.blocked = None,
            Poll::Pending if self.blocked.is_none() => self.blocked = Some(self.visit.answer()),
            Poll::Pending => {}
        }
        wrote
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.see(wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.see(wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

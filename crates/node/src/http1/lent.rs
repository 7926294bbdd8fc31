//! Connection as hyper sees it: for a single request, or for the rest of it.

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Number of bytes that are read ahead while hyper handles a request.
const AHEAD_BYTES: usize = 4 << 10;

/// Connection from which some bytes were already read.
pub struct Rest<S> {
    bytes: Bytes,
    stream: S,
    /// Whether an HTTP/1 request was answered. After it, no other version may follow (RFC 9113,
    /// section 3.4).
    pub is_http1: bool,
}

impl<S> Rest<S> {
    /// Creates the connection with bytes to be read first.
    pub fn new(bytes: Vec<u8>, stream: S, is_http1: bool) -> Self {
        let bytes = bytes.into();
        Rest {
            bytes,
            stream,
            is_http1,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Rest<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if give(&mut self.bytes, buffer) {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rest<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
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

/// Progress of hyper with a request.
#[derive(Debug, Default)]
pub struct Progress {
    /// Whether hyper's buffer has received the whole reply.
    has_answer: AtomicBool,
    /// Whether all of hyper's output has been sent since.
    is_sent: AtomicBool,
}

impl Progress {
    /// Returns true if the reply was sent, so that hyper waits for another request.
    pub fn is_complete(&self) -> bool {
        self.is_sent.load(Relaxed)
    }
}

/// Connection that gives hyper one request. While hyper handles it, reads from the client continue,
/// so that hyper notices the end of the connection, but the bytes are kept back.
pub struct Once<S> {
    request: Bytes,
    rest: Rest<S>,
    progress: Arc<Progress>,
}

impl<S> Once<S> {
    /// Lends a connection to hyper for a request. `ahead` has the bytes that follow it.
    pub fn new(request: Bytes, ahead: Vec<u8>, stream: S, progress: Arc<Progress>) -> Self {
        Once {
            request,
            rest: Rest::new(ahead, stream, true),
            progress,
        }
    }

    /// Returns the bytes that followed the request, and the connection.
    pub fn into_parts(self) -> (Vec<u8>, S) {
        debug_assert!(self.request.is_empty());
        (self.rest.bytes.into(), self.rest.stream)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Once<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if give(&mut self.request, buffer) {
            return Poll::Ready(Ok(()));
        }
        if self.rest.bytes.is_empty() {
            let mut room = [MaybeUninit::uninit(); AHEAD_BYTES];
            let mut ahead = ReadBuf::uninit(&mut room);
            ready!(Pin::new(&mut self.rest.stream).poll_read(context, &mut ahead))?;
            if ahead.filled().is_empty() {
                // The client has gone.
                return Poll::Ready(Ok(()));
            }
            self.rest.bytes = Bytes::copy_from_slice(ahead.filled());
        }
        // hyper gets no more input before the reply is done. Its task is woken by what the reply
        // waits for.
        Poll::Pending
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Once<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.rest).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.rest).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.rest.is_write_vectored()
    }

    /// hyper flushes after it has written everything.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let had_answer = self.progress.has_answer.load(Relaxed);
        ready!(Pin::new(&mut self.rest).poll_flush(context))?;
        if had_answer {
            self.progress.is_sent.store(true, Relaxed);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper closes the connection.
        self.progress.is_sent.store(false, Relaxed);
        self.progress.has_answer.store(false, Relaxed);
        Pin::new(&mut self.rest).poll_shutdown(context)
    }
}

/// Copies bytes to a reader's buffer. Returns false if there are none.
fn give(bytes: &mut Bytes, buffer: &mut ReadBuf<'_>) -> bool {
    let count = bytes.len().min(buffer.remaining());
    buffer.put_slice(&bytes[..count]);
    bytes.advance(count);
    count > 0
}

/// Body of a reply, which records when hyper has received all of it.
pub struct Noted<B> {
    body: B,
    progress: Arc<Progress>,
}

impl<B> Noted<B> {
    /// Creates a body that updates `progress`.
    pub fn new(body: B, progress: Arc<Progress>) -> Self {
        Noted { body, progress }
    }
}

impl<B> Drop for Noted<B> {
    fn drop(&mut self) {
        self.progress.has_answer.store(true, Relaxed);
    }
}

impl<B: Body + Unpin> Body for Noted<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

//! A connection as hyper sees it: for one request, or for the rest of it.

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that are read at once while hyper has a request.
const AHEAD_BYTES: usize = 4 << 10;

/// A connection of which some bytes were read already.
pub struct Rest<S> {
    bytes: Bytes,
    stream: S,
    /// Whether a request in HTTP/1 was answered, after which no other version may follow (RFC 9113,
    /// section 3.4).
    pub is_http1: bool,
}

impl<S> Rest<S> {
    /// Puts bytes back in front of a connection.
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

/// How far hyper is with a request.
#[derive(Debug, Default)]
pub struct Progress {
    /// Whether the whole reply is in hyper's buffer or sent.
    has_answer: AtomicBool,
    /// Whether everything was sent since.
    is_sent: AtomicBool,
}

impl Progress {
    /// Whether the reply was sent, so that hyper waits for another request.
    pub fn is_complete(&self) -> bool {
        self.is_sent.load(Relaxed)
    }
}

/// A connection that has one request for hyper. Reading it also reads from the client, as hyper
/// does during a request to notice its end, but keeps what comes.
pub struct Once<S> {
    request: Bytes,
    rest: Rest<S>,
    progress: Arc<Progress>,
}

impl<S> Once<S> {
    /// Lends a connection for a request, which `ahead` follows.
    pub fn new(request: Bytes, ahead: Vec<u8>, stream: S, progress: Arc<Progress>) -> Self {
        Once {
            request,
            rest: Rest::new(ahead, stream, true),
            progress,
        }
    }

    /// Returns the connection, and the bytes that followed the request.
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
        // Not before the reply, whose task is woken by what it waits for.
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

    /// hyper flushes after it has written all that it has.
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

/// Gives bytes to a reader. Returns false if there are none.
fn give(bytes: &mut Bytes, buffer: &mut ReadBuf<'_>) -> bool {
    let count = bytes.len().min(buffer.remaining());
    buffer.put_slice(&bytes[..count]);
    bytes.advance(count);
    count > 0
}

/// A reply's body, which notes that hyper has all of it.
pub struct Noted<B> {
    body: B,
    progress: Arc<Progress>,
}

impl<B> Noted<B> {
    /// Makes a body of which `progress` is notified.
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

//! A connection with a limit on the time without progress.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// A connection that fails if neither side has moved a byte for a time. The timer is set again only
/// when it fires, so that progress costs a clock reading.
pub struct Watched<S> {
    stream: S,
    idle: Duration,
    progress_at: Instant,
    timer: Pin<Box<Sleep>>,
}

impl<S> Watched<S> {
    /// Watches a connection.
    pub fn new(stream: S, idle: Duration) -> Self {
        let now = Instant::now();
        Watched {
            stream,
            idle,
            progress_at: now,
            timer: Box::pin(sleep_until(now + idle)),
        }
    }

    /// Notes progress, or returns an error if there was none for too long.
    fn check<T>(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.progress_at = Instant::now();
            return result;
        }
        while self.timer.as_mut().poll(context).is_ready() {
            let end = self.progress_at + self.idle;
            if end <= Instant::now() {
                let error = io::Error::new(io::ErrorKind::TimedOut, "the client is idle");
                return Poll::Ready(Err(error));
            }
            self.timer.as_mut().reset(end);
        }
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.check(context, result)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check(context, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.check(context, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        self.check(context, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(context);
        self.check(context, result)
    }
}

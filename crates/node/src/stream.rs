//! A connection with a limit on the time without progress.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// Parts of the time without progress at whose ends is looked whether there was any.
const PARTS: u32 = 8;

/// A connection that fails if neither side has moved a byte for a time, or up to an eighth more.
/// Progress only sets a flag, which a timer takes: it reads no clock.
pub struct Watched<S> {
    stream: S,
    part: Duration,
    has_progressed: bool,
    /// Parts of the time that are left.
    left: u32,
    timer: Pin<Box<Sleep>>,
}

impl<S> Watched<S> {
    /// Watches a connection.
    pub fn new(stream: S, idle: Duration) -> Self {
        let part = idle / PARTS;
        Watched {
            stream,
            part,
            has_progressed: true,
            left: PARTS,
            timer: Box::pin(sleep_until(Instant::now() + part)),
        }
    }

    /// Notes progress, or returns an error if there was none for too long.
    fn check<T>(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.has_progressed = true;
            return result;
        }
        while self.timer.as_mut().poll(context).is_ready() {
            self.left = match self.has_progressed {
                true => PARTS,
                false => self.left.saturating_sub(1),
            };
            self.has_progressed = false;
            if self.left == 0 {
                let error = io::Error::new(io::ErrorKind::TimedOut, "the client is idle");
                return Poll::Ready(Err(error));
            }
            let next = Instant::now() + self.part;
            self.timer.as_mut().reset(next);
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

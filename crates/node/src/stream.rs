//! Connection with a limit on the time without progress.

use crate::alarm::Alarm;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

/// Number of parts into which the time limit is divided. At the end of each part, the timer checks
/// for progress.
const PARTS: u32 = 8;

/// Connection that fails if neither side has transferred a byte for the time limit, or up to an
/// eighth longer. Progress only sets a flag, which the timer clears; it reads no clock.
///
/// Flushes and shutdowns do not count as progress: the HTTP/2 server flushes each time it is
/// polled, even if the timer is the only reason.
pub struct Watched<S> {
    stream: S,
    part: Duration,
    has_progressed: bool,
    /// Number of parts of the time limit that are left.
    left: u32,
    timer: Alarm,
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
            timer: Alarm::new(Instant::now() + part),
        }
    }

    /// Returns a result if there is one, and an error if there was no progress for too long.
    fn check<T>(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            return result;
        }
        while self.timer.poll(context).is_ready() {
            self.left = match self.has_progressed {
                true => PARTS,
                false => self.left.saturating_sub(1),
            };
            self.has_progressed = false;
            if self.left == 0 {
                let error = io::Error::new(io::ErrorKind::TimedOut, "the connection is idle");
                return Poll::Ready(Err(error));
            }
            let next = Instant::now() + self.part;
            self.timer.reset(next);
        }
        Poll::Pending
    }

    /// Registers progress if bytes were written, like [`Self::check`].
    fn written(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        self.has_progressed |= matches!(result, Poll::Ready(Ok(1..)));
        self.check(context, result)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.has_progressed |= buffer.filled().len() > before;
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
        self.written(context, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.written(context, result)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::{sleep, timeout};

    const IDLE: Duration = Duration::from_secs(60);

    /// Reads, and flushes after each read as the HTTP/2 server does. Returns the error.
    async fn served(stream: &mut Watched<DuplexStream>) -> io::Error {
        let serve = poll_fn(|context| {
            loop {
                let mut bytes = [0; 8];
                let mut buffer = ReadBuf::new(&mut bytes);
                let read = Pin::new(&mut *stream).poll_read(context, &mut buffer);
                let flushed = Pin::new(&mut *stream).poll_flush(context);
                match (read, flushed) {
                    (Poll::Ready(Err(error)), _) | (_, Poll::Ready(Err(error))) => {
                        return Poll::Ready(error);
                    }
                    (Poll::Ready(Ok(())), _) if !buffer.filled().is_empty() => {}
                    _ => return Poll::Pending,
                }
            }
        });
        let error = timeout(20 * IDLE, serve).await;
        error.expect("the connection fails")
    }

    /// Regression: a flush with nothing to write counted as progress.
    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_only_flushed_is_idle() {
        let (near, _far) = duplex(64);
        let start = Instant::now();
        let mut stream = Watched::new(near, IDLE);
        let error = served(&mut stream).await;
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(start.elapsed() >= IDLE);
        assert!(start.elapsed() <= IDLE + 2 * IDLE / PARTS);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_moves_bytes_is_not_idle() {
        let (near, mut far) = duplex(64);
        let start = Instant::now();
        let mut stream = Watched::new(near, IDLE);
        let writes = async {
            for _ in 0..5 {
                sleep(IDLE * 2 / 3).await;
                far.write_all(b"x").await.expect("the other side is open");
            }
        };
        let (error, ()) = tokio::join!(served(&mut stream), writes);
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let last = IDLE * 10 / 3;
        assert!(start.elapsed() >= last + IDLE);
        assert!(start.elapsed() <= last + IDLE + 2 * IDLE / PARTS);
    }
}

//! Bodies of replies to clients and of requests to origins.

use crate::access_log::Record;
use crate::budget::{Budget, Charge};
use crate::encode::{Encoded, Encoder};
use crate::fill::{End, Reader};
use crate::object::Pieces;
use crate::rules::ranges::Range;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

/// Source of a body's bytes.
pub enum Source {
    /// One piece of memory, until it is sent.
    Single(Option<Bytes>),
    /// Several pieces of memory.
    Chunks(VecDeque<Bytes>),
    /// Content that is being fetched.
    Following(Following),
    /// Content from the disk tier or from other nodes.
    Pieces(Box<dyn Pieces>, Option<Bytes>),
    /// Body passed through from the other side of the proxy.
    Passed(Passed),
    /// The same, compressed.
    Encoded(Box<Encoded<Content>>),
}

/// Body of a message. When it is dropped, the record of the request is complete.
pub struct Content {
    source: Source,
    left: Option<u64>,
    record: Option<Record>,
    /// Entry in the account of memory, if the source has none of its own.
    charge: Option<Arc<Charge>>,
}

impl Content {
    /// Creates an empty body.
    pub fn empty() -> Self {
        Content {
            source: Source::Single(None),
            left: Some(0),
            record: None,
            charge: None,
        }
    }

    /// Creates a body of one piece.
    pub fn single(chunk: Bytes) -> Self {
        Content {
            left: Some(chunk.len() as u64),
            source: Source::Single(Some(chunk).filter(|chunk| !chunk.is_empty())),
            record: None,
            charge: None,
        }
    }

    /// Creates a body of several pieces.
    pub fn chunks(chunks: Vec<Bytes>) -> Self {
        let left = chunks.iter().map(|chunk| chunk.len() as u64).sum();
        Content {
            source: Source::Chunks(chunks.into()),
            left: Some(left),
            record: None,
            charge: None,
        }
    }

    /// Creates a body of text.
    pub fn text(text: impl Into<Bytes>) -> Self {
        Content::single(text.into())
    }

    /// Creates a body that follows a fetch, in full or for a range. `length` is the length of the
    /// whole content, if the origin announced it.
    pub fn following(reader: Reader, range: Option<Range>, length: Option<u64>) -> Self {
        Content {
            source: Source::Following(Following {
                state: Some(Wait::Ready(reader)),
                skip: range.map_or(0, |range| range.start),
                left: range.map(|range| range.len()),
            }),
            left: range.map(|range| range.len()).or(length),
            record: None,
            charge: None,
        }
    }

    /// Creates a body of `length` bytes that is read from disk.
    pub fn pieces(pieces: Box<dyn Pieces>, length: u64) -> Self {
        Content {
            source: Source::Pieces(pieces, None),
            left: Some(length),
            record: None,
            charge: None,
        }
    }

    /// Creates a body that another node sends. Its length may be unknown.
    pub fn relayed(pieces: Box<dyn Pieces>, length: Option<u64>) -> Self {
        Content {
            source: Source::Pieces(pieces, None),
            left: length,
            record: None,
            charge: None,
        }
    }

    /// Reads the first bytes of a body from disk or other nodes, so that damage is found before a
    /// reply begins.
    ///
    /// # Errors
    /// Returns an error if the content is damaged or cannot be read.
    pub async fn prepare(&mut self) -> io::Result<()> {
        if let Source::Pieces(pieces, first) = &mut self.source {
            *first = poll_fn(|context| pieces.poll(context)).await.transpose()?;
        }
        Ok(())
    }

    /// Creates a body that is passed through within limits.
    pub fn passed(body: Incoming, limits: PassedLimits) -> Self {
        Content {
            left: body.size_hint().exact(),
            source: Source::Passed(Passed::new(body, limits)),
            record: None,
            charge: None,
        }
    }

    /// Creates a body that is compressed while it is sent.
    pub fn encoded(self, encoder: Encoder) -> Self {
        Content {
            source: Source::Encoded(Box::new(Encoded::new(self, Some(encoder)))),
            left: None,
            record: None,
            charge: None,
        }
    }

    /// Counts the content in the account of memory, unless its source does so already.
    pub fn account(&mut self, budget: &Arc<Budget>) {
        let is_counted = matches!(self.source, Source::Single(_) | Source::Chunks(_));
        if !is_counted && !matches!(self.source, Source::Following(_)) {
            self.charge = Some(Charge::new(budget));
        }
    }

    /// Attaches the record of the request, which counts all bytes sent from now on.
    pub fn record(&mut self, record: Record) {
        self.record = Some(record);
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        if let Some(charge) = &this.charge {
            ready!(charge.poll_room(context));
        }
        let next = match &mut this.source {
            Source::Single(chunk) => chunk.take().map(Ok),
            Source::Chunks(chunks) => chunks.pop_front().map(Ok),
            Source::Following(following) => ready!(following.poll(context)),
            Source::Pieces(pieces, first) => match first.take() {
                Some(first) => Some(Ok(first)),
                None => ready!(pieces.poll(context)),
            },
            Source::Passed(passed) => ready!(passed.poll(context)),
            Source::Encoded(encoded) => {
                let frame = ready!(Pin::new(encoded).poll_frame(context));
                frame.map(|frame| frame.map(|frame| frame.into_data().unwrap_or_default()))
            }
        };
        match next {
            None => Poll::Ready(None),
            Some(Ok(chunk)) => {
                let chunk = match (&this.charge, &this.source) {
                    (None, _) => chunk,
                    // Content from disk and other nodes is in buffers of its size.
                    (Some(charge), Source::Pieces(..)) => charge.count_as_is(chunk),
                    (Some(charge), _) => charge.count(chunk),
                };
                let length = chunk.len() as u64;
                if let Some(left) = &mut this.left {
                    *left = left.saturating_sub(length);
                }
                if let Some(record) = &mut this.record {
                    record.bytes += length;
                }
                Poll::Ready(Some(Ok(Frame::data(chunk))))
            }
            Some(Err(error)) => {
                if let Some(record) = &mut this.record {
                    record.is_cut = true;
                }
                Poll::Ready(Some(Err(error)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Single(chunk) => chunk.is_none(),
            Source::Chunks(chunks) => chunks.is_empty(),
            _ => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.left
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

type Waiting = Pin<Box<dyn Future<Output = Reader> + Send + Sync>>;

enum Wait {
    Ready(Reader),
    Waiting(Waiting),
}

/// Content that is being fetched.
pub struct Following {
    state: Option<Wait>,
    skip: u64,
    left: Option<u64>,
}

impl Following {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            if self.left == Some(0) {
                return Poll::Ready(None);
            }
            let mut reader = match self.state.take() {
                None => return Poll::Ready(None),
                Some(Wait::Ready(reader)) => reader,
                Some(Wait::Waiting(mut waiting)) => match waiting.as_mut().poll(context) {
                    Poll::Ready(reader) => reader,
                    Poll::Pending => {
                        self.state = Some(Wait::Waiting(waiting));
                        return Poll::Pending;
                    }
                },
            };
            match reader.try_next() {
                None => self.state = Some(Wait::Waiting(Box::pin(reader.wait()))),
                Some(Ok(chunk)) => {
                    self.state = Some(Wait::Ready(reader));
                    let chunk = self.cut(chunk);
                    if !chunk.is_empty() {
                        return Poll::Ready(Some(Ok(chunk)));
                    }
                }
                Some(Err(End::Complete)) => return Poll::Ready(None),
                Some(Err(End::Failed)) => {
                    let error = io::Error::other("the content is not complete");
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }

    /// Returns the bytes of a chunk that are in the range.
    fn cut(&mut self, mut chunk: Bytes) -> Bytes {
        let skipped = self.skip.min(chunk.len() as u64);
        self.skip -= skipped;
        let mut chunk = chunk.split_off(skipped as usize);
        if let Some(left) = &mut self.left {
            chunk.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= chunk.len() as u64;
        }
        chunk
    }
}

/// Limits of a body that is passed through.
#[derive(Clone, Copy, Debug)]
pub struct PassedLimits {
    /// Maximum number of bytes.
    pub bytes_max: u64,
    /// Maximum time between two parts.
    pub idle: Duration,
    /// Instant at which the body must have ended, if there is one.
    pub end: Option<Instant>,
}

/// Body from the other side of the proxy, limited in bytes and time.
pub struct Passed<B = Incoming> {
    body: B,
    bytes_left: u64,
    limits: PassedLimits,
    /// Whether the last poll waited for the sender. Time during which this side reads nothing is
    /// not the sender's fault.
    is_awaited: bool,
    timer: Pin<Box<Sleep>>,
}

impl<B> Passed<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn new(body: B, limits: PassedLimits) -> Self {
        Passed {
            body,
            bytes_left: limits.bytes_max,
            limits,
            is_awaited: false,
            timer: Box::pin(sleep_until(Instant::now() + limits.idle)),
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Pending => {
                    if !std::mem::replace(&mut self.is_awaited, true) {
                        let idle = Instant::now() + self.limits.idle;
                        let until = self.limits.end.map_or(idle, |end| end.min(idle));
                        self.timer.as_mut().reset(until);
                    }
                    ready!(self.timer.as_mut().poll(context));
                    let error = io::Error::new(io::ErrorKind::TimedOut, "the sender is too slow");
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Err(error))) => {
                    return Poll::Ready(Some(Err(io::Error::other(error))));
                }
                Poll::Ready(Some(Ok(frame))) => {
                    self.is_awaited = false;
                    // Trailers are not forwarded.
                    let Ok(chunk) = frame.into_data() else {
                        continue;
                    };
                    if self.limits.end.is_some_and(|end| Instant::now() >= end) {
                        let text = "the body has taken too long";
                        return Poll::Ready(Some(Err(io::Error::other(text))));
                    }
                    let Some(left) = self.bytes_left.checked_sub(chunk.len() as u64) else {
                        return Poll::Ready(Some(Err(io::Error::other("the body is too long"))));
                    };
                    self.bytes_left = left;
                    return Poll::Ready(Some(Ok(chunk)));
                }
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::task::Waker;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
    use tokio::time::advance;

    const IDLE: Duration = Duration::from_secs(30);

    /// Content that a test supplies by hand. It ends when its sender is dropped.
    pub(crate) struct Fed(pub(crate) UnboundedReceiver<Bytes>);

    impl Body for Fed {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let next = self.0.poll_recv(context);
            next.map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
        }
    }

    /// Regression: time during which a client read nothing counted against the origin, so that the
    /// reply was cut off if no data was ready afterwards.
    #[tokio::test(start_paused = true)]
    async fn a_sender_has_its_time_from_the_instant_at_which_it_is_awaited() {
        let (sender, receiver) = unbounded_channel();
        let limits = PassedLimits {
            bytes_max: 1_000,
            idle: IDLE,
            end: None,
        };
        let mut passed = Passed::new(Fed(receiver), limits);
        let mut context = Context::from_waker(Waker::noop());
        let chunk = Bytes::from_static(b"a");
        for _ in 0..2 {
            sender.send(chunk.clone()).expect("it is received");
            let next = passed.poll(&mut context);
            assert!(matches!(next, Poll::Ready(Some(Ok(next))) if next == chunk));
            // The client reads nothing during this time.
            advance(2 * IDLE).await;
            for _ in 0..2 {
                assert!(passed.poll(&mut context).is_pending());
                advance(IDLE / 2 - Duration::from_secs(1)).await;
            }
        }
        assert!(passed.poll(&mut context).is_pending());
        advance(Duration::from_secs(3)).await;
        let next = passed.poll(&mut context);
        assert!(matches!(next, Poll::Ready(Some(Err(_)))));
    }
}

//! An HTTP/1.1 connection: plain requests for responses in memory are answered here, and hyper
//! answers all others.
//!
//! A hit on a small object is two system calls, a look-up and a head of 200 bytes; hyper's part of
//! it, with a map of fields for the request and for the reply, was more than all of this program's.
//! The arriving bytes are therefore examined before hyper gets them (`rules/plain.rs`), and there
//! are three cases:
//!
//! * A plain request for a fresh response in one piece ([`Node::direct`]). Head and content are
//!   written at once, short content as one buffer.
//! * Another request that ends with its head. hyper gets the connection for this request
//!   (`http1/lent.rs`) and exactly its bytes; the result of the look-up is passed on, so that a
//!   request is counted once. When the reply is sent, the connection returns.
//! * Anything else: content, an upgrade, a malformed head, HTTP/2. The rest of the connection is
//!   hyper's, with every byte that was read.
//!
//! A connection has one request at a time, so that replies keep their order. The limits are the
//! same as hyper's: the length of a head, the number of its fields, the time for it from its first
//! byte on, and the time without progress, which belongs to the stream. hyper refuses
//! what exceeds them. An incomplete head is parsed again when its end may have arrived, so that
//! single bytes do not cost a pass each.

mod lent;

use crate::alarm::Alarm;
use crate::config::Limits;
use crate::proxy::{Client, Direct, Looked, Node};
use crate::rules::plain::{Begin, FIELDS_MAX, begin};
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
pub use lent::Rest;
use lent::{Noted, Once, Progress};
use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// Number of bytes that an idle connection has room for.
const READ_BYTES: usize = 4 << 10;
/// Lower bound of the maximum size of a head, which hyper also has.
const HEAD_BYTES_MIN: usize = 8 << 10;

/// Error that ended a connection.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Returns the maximum size of a request's head in bytes.
pub fn head_bytes_max(limits: &Limits) -> usize {
    limits.head_bytes.max(HEAD_BYTES_MIN)
}

/// Serves a connection until it ends or `stop` changes. Returns the connection if hyper must serve
/// the rest of it.
///
/// # Errors
/// Returns an error if the connection fails or a client exceeds a limit.
pub async fn serve<S>(
    node: &Arc<Node>,
    client: Client,
    stream: S,
    mut stop: watch::Receiver<bool>,
) -> Result<Option<Rest<S>>, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = &node.config.limits;
    let mut stopped = pin!(async move {
        // An error means that the node stops.
        let _ = stop.changed().await;
    });
    let mut out = Vec::new();
    let mut timer = HeadTimer::new(limits);
    let (mut stream, mut received, mut is_http1) = (stream, Received::new(limits), false);
    loop {
        match next(node, client, &mut received, &mut out) {
            Next::Wait => {
                let is_open = tokio::select! {
                    biased;
                    count = stream.read_buf(received.room()) => count? > 0,
                    () = stopped.as_mut() => {
                        if received.has_bytes() {
                            // hyper ends the connection after this request.
                            return Ok(Some(Rest::new(received.take(), stream, is_http1)));
                        }
                        false
                    }
                    () = timer.end() => return Err("no head within the time".into()),
                };
                if !is_open {
                    let _ = timeout(limits.stop_time, stream.shutdown()).await;
                    return Ok(None);
                }
                timer.begin();
            }
            Next::Reply(content) => {
                let write = write_all(&mut stream, &out, &content);
                let is_stopped = finish(write, stopped.as_mut(), limits).await?;
                if is_stopped {
                    let _ = timeout(limits.stop_time, stream.shutdown()).await;
                    return Ok(None);
                }
                is_http1 = true;
                timer.restart(&received);
            }
            Next::Single(request, looked) => {
                let ahead = received.take();
                let lent = by_hyper(
                    node,
                    client,
                    request,
                    looked,
                    (ahead, stream),
                    stopped.as_mut(),
                );
                let Some((ahead, returned)) = lent.await? else {
                    return Ok(None);
                };
                stream = returned;
                received.put_back(ahead);
                is_http1 = true;
                timer.restart(&received);
            }
            Next::Rest => return Ok(Some(Rest::new(received.take(), stream, is_http1))),
        }
    }
}

/// Next step for a connection.
enum Next {
    /// Wait for more bytes.
    Wait,
    /// Send the head that was written, and then this content.
    Reply(Bytes),
    /// Let hyper answer a request, which consists of these bytes.
    Single(Bytes, Option<Looked>),
    /// Let hyper serve the rest of the connection.
    Rest,
}

fn next(node: &Node, client: Client, received: &mut Received, out: &mut Vec<u8>) -> Next {
    if !received.may_have_end() {
        return received.wait_or_pass();
    }
    let mut room = [const { MaybeUninit::uninit() }; FIELDS_MAX];
    let (length, looked) = match begin(received.bytes(), &mut room) {
        Begin::Partial => return received.wait_or_pass(),
        Begin::Other => return Next::Rest,
        Begin::Single(length) => (length, None),
        Begin::Plain(_, length) if length > received.bytes_max => (length, None),
        Begin::Plain(plain, length) => {
            out.clear();
            match node.direct(&plain, client, out) {
                Direct::Reply(content) => {
                    received.skip(length);
                    return Next::Reply(content);
                }
                Direct::Other(looked) => (length, looked),
            }
        }
    };
    if length > received.bytes_max {
        return Next::Rest;
    }
    let request = Bytes::copy_from_slice(&received.bytes()[..length]);
    received.skip(length);
    Next::Single(request, looked)
}

/// Received bytes that have not been used yet.
struct Received {
    bytes: Vec<u8>,
    /// Number of bytes already used.
    start: usize,
    /// Number of bytes of the head that was found incomplete.
    partial: usize,
    /// Maximum size of a head in bytes.
    bytes_max: usize,
}

impl Received {
    fn new(limits: &Limits) -> Self {
        Received {
            bytes: Vec::with_capacity(READ_BYTES),
            start: 0,
            partial: 0,
            bytes_max: head_bytes_max(limits),
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn has_bytes(&self) -> bool {
        self.start < self.bytes.len()
    }

    /// Returns true if a complete head may have arrived: there are bytes, and if the head was
    /// incomplete before, the new bytes contain the end of a head.
    fn may_have_end(&self) -> bool {
        let bytes = self.bytes();
        if self.partial == 0 {
            return !bytes.is_empty();
        }
        // A head ends with LF LF or LF CR LF, and at least its last byte is new.
        let new = &bytes[self.partial.saturating_sub(2)..];
        let ends = |at: usize| new[..at].ends_with(b"\n") || new[..at].ends_with(b"\n\r");
        (0..new.len()).any(|at| new[at] == b'\n' && ends(at))
    }

    fn wait_or_pass(&mut self) -> Next {
        self.partial = self.bytes().len();
        match self.partial < self.bytes_max {
            true => Next::Wait,
            false => Next::Rest,
        }
    }

    /// Returns the buffer with room for more bytes at its end.
    fn room(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..self.start);
        self.start = 0;
        if self.bytes.is_empty() && self.bytes.capacity() > 2 * READ_BYTES {
            // A long head was received. Its memory is freed, because the connection may be idle
            // from now on.
            self.bytes = Vec::new();
        }
        if self.bytes.capacity() - self.bytes.len() < READ_BYTES / 2 {
            self.bytes.reserve(READ_BYTES);
        }
        &mut self.bytes
    }

    fn skip(&mut self, count: usize) {
        self.start += count;
        self.partial = 0;
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
    }

    /// Removes and returns all unused bytes.
    fn take(&mut self) -> Vec<u8> {
        let bytes = self.bytes().to_vec();
        self.skip(bytes.len());
        bytes
    }

    fn put_back(&mut self, bytes: Vec<u8>) {
        debug_assert!(!self.has_bytes());
        self.bytes.extend_from_slice(&bytes);
    }
}

/// Time limit for a head, counted from its first byte, or from the end of the previous reply if it
/// had begun to arrive before. Without a byte, the stream limits the time. Each request only stores
/// an instant; the timer is set when that instant is reached.
struct HeadTimer {
    limit: std::time::Duration,
    /// Start of the time limit, if it is running.
    since: Option<Instant>,
    alarm: Option<Alarm>,
}

impl HeadTimer {
    fn new(limits: &Limits) -> Self {
        HeadTimer {
            limit: limits.head_time,
            since: None,
            alarm: None,
        }
    }

    /// Starts the time limit if it is not running.
    fn begin(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// Begins the next request, of which some bytes may have arrived.
    fn restart(&mut self, received: &Received) {
        self.since = received.has_bytes().then(Instant::now);
    }

    /// Waits until the time limit is reached.
    fn end(&mut self) -> impl Future<Output = ()> + '_ {
        poll_fn(|context| {
            let Some(since) = self.since else {
                return Poll::Pending;
            };
            let end = since + self.limit;
            let alarm = self.alarm.get_or_insert_with(|| Alarm::new(end));
            loop {
                ready!(alarm.poll(context));
                if Instant::now() >= end {
                    return Poll::Ready(());
                }
                alarm.reset(end);
            }
        })
    }
}

/// Writes two parts of a reply, with one system call if the client takes everything.
async fn write_all<S>(stream: &mut S, first: &[u8], second: &[u8]) -> io::Result<()>
where
    S: AsyncWrite + Unpin,
{
    if second.is_empty() {
        stream.write_all(first).await?;
        return stream.flush().await;
    }
    let mut slices = [IoSlice::new(first), IoSlice::new(second)];
    let mut left = &mut slices[..];
    while !left.is_empty() {
        let count = stream.write_vectored(left).await?;
        if count == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        IoSlice::advance_slices(&mut left, count);
    }
    stream.flush().await
}

/// Waits for the end of a reply, for a limited time once the node stops. Returns true if the node
/// stops.
async fn finish(
    reply: impl Future<Output = io::Result<()>>,
    stopped: Pin<&mut impl Future<Output = ()>>,
    limits: &Limits,
) -> Result<bool, Failure> {
    let mut reply = pin!(reply);
    tokio::select! {
        biased;
        result = reply.as_mut() => {
            result?;
            return Ok(false);
        }
        () = stopped => {}
    }
    timeout(limits.stop_time, reply).await??;
    Ok(true)
}

/// Lets hyper answer one request. Returns the connection with the bytes that followed the request,
/// or `None` if it has ended.
async fn by_hyper<S>(
    node: &Arc<Node>,
    client: Client,
    request: Bytes,
    looked: Option<Looked>,
    (ahead, stream): (Vec<u8>, S),
    stopped: Pin<&mut impl Future<Output = ()>>,
) -> Result<Option<(Vec<u8>, S)>, Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = &node.config.limits;
    let progress = Arc::<Progress>::default();
    let lent = Once::new(request, ahead, stream, progress.clone());
    let answer = {
        let (node, progress, looked) = (node.clone(), progress.clone(), Cell::new(looked));
        move |request: Request<Incoming>| {
            let answer = node.clone().serve(request, client, looked.take());
            let progress = progress.clone();
            async move {
                let reply: Response<_> = answer.await;
                Ok::<_, Infallible>(reply.map(|content| Noted::new(content, progress)))
            }
        }
    };
    let mut builder = Builder::new();
    builder
        // No time limit is needed, because the head is complete.
        .header_read_timeout(None)
        .max_buf_size(head_bytes_max(limits))
        .max_headers(limits.fields);
    let mut connection = builder.serve_connection(TokioIo::new(lent), service_fn(answer));
    let replied = poll_fn(|context| match Pin::new(&mut connection).poll(context) {
        Poll::Ready(result) => Poll::Ready(result.map(|()| false)),
        Poll::Pending if progress.is_complete() => Poll::Ready(Ok(true)),
        Poll::Pending => Poll::Pending,
    });
    let is_open = tokio::select! {
        biased;
        is_open = replied => is_open?,
        () = stopped => {
            Pin::new(&mut connection).graceful_shutdown();
            timeout(limits.stop_time, &mut connection).await??;
            false
        }
    };
    if !is_open {
        return Ok(None);
    }
    let parts = connection.into_parts();
    debug_assert!(parts.read_buf.is_empty());
    Ok(Some(parts.io.into_inner().into_parts()))
}

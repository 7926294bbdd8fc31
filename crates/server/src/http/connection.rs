//! One connection: the bytes of a request, and the unsent bytes of the reply.

use super::request::{HEAD_BYTES_MAX, Method, Request, Status, parse};
use crate::metrics::page::Format;
use mio::net::TcpStream;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum time for a request and its reply.
pub const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);
/// Maximum time between two requests of a connection.
const IDLE_TIME_MAX: Duration = Duration::from_secs(120);

/// Maximum time that a connection whose last reply was sent waits for the client to close it.
const CLOSING_TIME_MAX: Duration = Duration::from_secs(1);
/// Maximum number of bytes that a closing connection discards.
const DISCARDED_BYTES_MAX: usize = 1 << 20;

/// A reply.
pub struct Reply {
    /// Status.
    pub status: Status,
    /// Type of the content.
    pub content_type: &'static str,
    /// Content, which several connections may share.
    pub body: Arc<[u8]>,
}

/// Activity of a connection.
enum State {
    /// Waits for a request or for the rest of one.
    Reading,
    /// Waits for a census, until the given time.
    Waiting(Request, Instant),
    /// Sends a reply: the head, then the body. The number counts the bytes sent so far.
    Writing(Vec<u8>, Option<Arc<[u8]>>, usize),
    /// Has sent its last reply, and discards at most this number of bytes until the client closes,
    /// because the system would discard the reply if bytes were left unread.
    Closing(usize),
}

/// Next action of the caller.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Waits for the socket, until the time of [`Connection::deadline`].
    Wait,
    /// Answers this request.
    Answer(Request),
    /// Answers with this error and closes.
    Refuse(Status),
    /// Closes the connection.
    Close,
}

/// One connection.
pub struct Connection {
    /// The socket.
    pub stream: TcpStream,
    input: Vec<u8>,
    state: State,
    keeps_alive: bool,
    deadline: Instant,
}

impl Connection {
    /// Creates the state of an accepted connection.
    pub fn new(stream: TcpStream, now: Instant) -> Connection {
        Connection {
            stream,
            input: Vec::new(),
            state: State::Reading,
            keeps_alive: true,
            deadline: now + REQUEST_TIME_MAX,
        }
    }

    /// Time at which the connection is closed, or at which its reply no longer waits for a census.
    pub fn deadline(&self) -> Instant {
        match &self.state {
            State::Waiting(_, until) => *until,
            _ => self.deadline,
        }
    }

    /// Rank of the connection among those that may give way to a new one: first those that wait for
    /// a request, then those whose request is incomplete, then those whose client does not take the
    /// reply, the oldest first. `None` if it waits for a census, which takes a bounded time.
    pub fn rank(&self) -> Option<(u8, Instant)> {
        let class = match self.state {
            State::Reading if self.input.is_empty() => 0,
            State::Reading => 1,
            State::Writing(..) | State::Closing(_) => 2,
            State::Waiting(..) => return None,
        };
        Some((class, self.deadline))
    }

    /// Reads and sends as much as the socket allows.
    pub fn serve(&mut self, now: Instant) -> Next {
        if let State::Writing(..) = self.state
            && self.write(now) == Next::Close
        {
            return Next::Close;
        }
        match self.state {
            State::Reading => self.read(now),
            State::Closing(left) => self.discard(left),
            _ => Next::Wait,
        }
    }

    /// Discards input from the client, up to `left` bytes.
    fn discard(&mut self, mut left: usize) -> Next {
        let mut bytes = [0; 2048];
        while left > 0 {
            match self.stream.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => left = left.saturating_sub(count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.state = State::Closing(left);
                    return Next::Wait;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        Next::Close
    }

    fn read(&mut self, now: Instant) -> Next {
        loop {
            match parse(&self.input) {
                Ok(Some(request)) => {
                    self.input.drain(..request.len);
                    self.keeps_alive = request.keeps_alive;
                    return Next::Answer(request);
                }
                Ok(None) => {}
                Err(status) => return Next::Refuse(status),
            }
            let mut bytes = [0; 2048];
            let left = (HEAD_BYTES_MAX - self.input.len()).min(bytes.len());
            match self.stream.read(&mut bytes[..left]) {
                Ok(0) => return Next::Close,
                Ok(count) => {
                    if self.input.is_empty() {
                        self.deadline = now + REQUEST_TIME_MAX;
                    }
                    self.input.extend_from_slice(&bytes[..count]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Next::Wait,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Next::Close,
            }
        }
    }

    /// Keeps a request until a census is complete or the given time has passed.
    pub fn wait(&mut self, request: Request, until: Instant) {
        self.state = State::Waiting(request, until);
    }

    /// Returns the format of the request that waits for a census.
    pub fn waiting(&self) -> Option<Format> {
        match &self.state {
            State::Waiting(request, _) => Some(request.format),
            _ => None,
        }
    }

    /// Takes the request that waits for a census.
    pub fn take_waiting(&mut self) -> Option<Request> {
        match std::mem::replace(&mut self.state, State::Reading) {
            State::Waiting(request, _) => Some(request),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Begins to send a reply. Without a request the connection is closed afterwards.
    pub fn answer(&mut self, request: Option<&Request>, reply: &Reply, now: Instant) -> Next {
        self.keeps_alive &= request.is_some();
        let (code, reason) = reply.status;
        let mut head = format!(
            "HTTP/1.1 {code} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n",
            reply.content_type,
            reply.body.len()
        );
        if code == 405 {
            head.push_str("Allow: GET, HEAD\r\n");
        }
        if !self.keeps_alive {
            head.push_str("Connection: close\r\n");
        }
        head.push_str("\r\n");
        let is_head = request.is_some_and(|request| request.method == Method::Head);
        let body = (!is_head).then(|| Arc::clone(&reply.body));
        self.state = State::Writing(head.into_bytes(), body, 0);
        self.write(now)
    }

    /// Sends as much as the socket takes. After the whole reply, the state is `Reading` or
    /// `Closing`.
    fn write(&mut self, now: Instant) -> Next {
        while let State::Writing(head, body, sent) = &mut self.state {
            let body: &[u8] = body.as_deref().unwrap_or_default();
            let left = match sent.checked_sub(head.len()) {
                None => &head[*sent..],
                Some(sent) => &body[sent..],
            };
            if left.is_empty() {
                if self.keeps_alive {
                    self.state = State::Reading;
                    // Bytes that have been read already belong to the next request.
                    self.deadline = now
                        + match self.input.is_empty() {
                            true => IDLE_TIME_MAX,
                            false => REQUEST_TIME_MAX,
                        };
                } else {
                    self.state = State::Closing(DISCARDED_BYTES_MAX);
                    self.deadline = now + CLOSING_TIME_MAX;
                    let _ = self.stream.shutdown(Shutdown::Write);
                }
                break;
            }
            match self.stream.write(left) {
                Ok(0) => return Next::Close,
                Ok(count) => *sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Next::Wait,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Next::Close,
            }
        }
        Next::Wait
    }
}

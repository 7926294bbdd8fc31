//! The load generator: many non-blocking connections on one thread.
//!
//! A [`Driver`] chooses requests and evaluates replies. It encodes requests directly into a
//! connection's output buffer, and replies are not copied, so that the generator uses less CPU time
//! than any server. There are two modes:
//!
//! - *batches*: a connection sends `pipeline` requests and waits for all replies, like a pipelining
//!   client. A request caused by a reply (a SET after a miss) is the first of the next batch.
//! - *stream*: each request is sent when it is due. A connection has up to `pipeline` requests in
//!   flight.

use crate::error::{Error, Result};
use crate::protocol::Protocol;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Maximum time to wait for a server. A run that waits longer fails.
const PATIENCE: Duration = Duration::from_secs(60);
const SCRATCH_BYTES: usize = 1 << 18;

/// Next action requested by a driver.
pub(crate) enum Next<T> {
    /// Send this request, which was encoded into the output. The token is kept until the reply
    /// arrives.
    Request(T),
    /// Wait until this instant.
    NotBefore(Instant),
    /// There are no more requests.
    End,
}

/// Driver of a load: it chooses requests and evaluates replies.
pub(crate) trait Driver {
    /// Data kept with each request in flight.
    type Token;
    /// Appends the next request to `out`.
    fn next(&mut self, now: Instant, out: &mut Vec<u8>) -> Next<Self::Token>;
    /// Evaluates the reply to a request. It may append one more request for the same connection to
    /// `out`.
    fn reply(&mut self, token: Self::Token, reply: &[u8], out: &mut Vec<u8>)
    -> Option<Self::Token>;
}

/// Number of requests in flight, and the mode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub connections: usize,
    /// Maximum number of requests in flight on each connection.
    pub pipeline: usize,
    /// Whether requests are sent when they are due (stream) instead of in batches.
    pub is_stream: bool,
}

struct Connection<T> {
    stream: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    in_flight: VecDeque<T>,
    /// Number of replies that the current batch still waits for.
    batch_left: usize,
}

/// Connections to one server.
pub(crate) struct Load<T> {
    label: String,
    protocol: Protocol,
    shape: Shape,
    poll: Poll,
    connections: Vec<Connection<T>>,
    scratch: Vec<u8>,
    /// Index of the connection at which the search for a free one starts in stream mode.
    turn: usize,
}

impl<T> Load<T> {
    /// Opens connections to a server that speaks RESP.
    pub(crate) fn connect(label: &str, address: SocketAddr, shape: Shape) -> Result<Load<T>> {
        Load::speaking(Protocol::Resp, label, address, shape)
    }

    pub(crate) fn speaking(
        protocol: Protocol,
        label: &str,
        address: SocketAddr,
        shape: Shape,
    ) -> Result<Load<T>> {
        assert!(shape.connections > 0);
        assert!(shape.pipeline > 0);
        let failed = || Error::system(format!("{label}: cannot connect to {address}"));
        let poll = Poll::new().map_err(failed())?;
        let mut connections = Vec::new();
        for index in 0..shape.connections {
            let stream = std::net::TcpStream::connect(address).map_err(failed())?;
            stream.set_nodelay(true).map_err(failed())?;
            stream.set_nonblocking(true).map_err(failed())?;
            let mut stream = TcpStream::from_std(stream);
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry()
                .register(&mut stream, Token(index), interest)
                .map_err(failed())?;
            connections.push(Connection {
                stream,
                input: Vec::new(),
                output: Vec::new(),
                written: 0,
                in_flight: VecDeque::new(),
                batch_left: 0,
            });
        }
        Ok(Load {
            label: label.into(),
            protocol,
            shape,
            poll,
            connections,
            scratch: vec![0; SCRATCH_BYTES],
            turn: 0,
        })
    }

    /// Runs until the driver has no more requests and all replies have arrived.
    pub(crate) fn run<D: Driver<Token = T>>(&mut self, driver: &mut D) -> Result<()> {
        let mut events = Events::with_capacity(1024);
        let mut is_over = false;
        let mut last_reply = Instant::now();
        if !self.shape.is_stream {
            for index in 0..self.connections.len() {
                is_over |= self.refill(index, driver);
                self.write(index)?;
            }
        }
        loop {
            let wait = if self.shape.is_stream && !is_over {
                let (wait, over) = self.send_due(driver)?;
                is_over = over;
                wait
            } else {
                Duration::from_millis(100)
            };
            if is_over && self.connections.iter().all(|c| c.in_flight.is_empty()) {
                return Ok(());
            }
            self.poll_once(&mut events, wait)?;
            for event in &events {
                let index = event.token().0;
                if event.is_readable() && self.read(index, driver)? {
                    last_reply = Instant::now();
                }
                let connection = &self.connections[index];
                if !self.shape.is_stream && connection.batch_left == 0 {
                    is_over |= self.refill(index, driver);
                }
                self.write(index)?;
            }
            let is_idle = self.connections.iter().all(|c| c.in_flight.is_empty());
            if !is_idle && last_reply.elapsed() > PATIENCE {
                return Err(Error::server(
                    &self.label,
                    format!("no reply in {PATIENCE:?}"),
                ));
            }
            if is_idle {
                last_reply = Instant::now();
            }
        }
    }

    fn poll_once(&mut self, events: &mut Events, wait: Duration) -> Result<()> {
        match self.poll.poll(events, Some(wait)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => {
                Err(Error::system("cannot wait for replies")(error))
            }
            _ => Ok(()),
        }
    }

    /// Starts a new batch. Returns true if the driver has no more requests.
    fn refill<D: Driver<Token = T>>(&mut self, index: usize, driver: &mut D) -> bool {
        let connection = &mut self.connections[index];
        let mut is_over = false;
        let now = Instant::now();
        while connection.in_flight.len() < self.shape.pipeline {
            match driver.next(now, &mut connection.output) {
                Next::Request(token) => connection.in_flight.push_back(token),
                Next::NotBefore(_) => break,
                Next::End => {
                    is_over = true;
                    break;
                }
            }
        }
        connection.batch_left = connection.in_flight.len();
        is_over
    }

    /// Sends all due requests. Returns the maximum time to wait, and whether the driver is out of
    /// requests.
    fn send_due<D: Driver<Token = T>>(&mut self, driver: &mut D) -> Result<(Duration, bool)> {
        let outcome = self.queue_due(driver);
        // Requests that are due at once are sent in one write per connection.
        for index in 0..self.connections.len() {
            if !self.connections[index].output.is_empty() {
                self.write(index)?;
            }
        }
        Ok(outcome)
    }

    /// Encodes all due requests without sending them, and returns the same results as
    /// [`Load::send_due`].
    fn queue_due<D: Driver<Token = T>>(&mut self, driver: &mut D) -> (Duration, bool) {
        let count = self.connections.len();
        let mut now = Instant::now();
        loop {
            let free = (0..count)
                .map(|offset| (self.turn + offset) % count)
                .find(|&index| self.connections[index].in_flight.len() < self.shape.pipeline);
            let Some(index) = free else {
                return (Duration::from_millis(100), false);
            };
            let connection = &mut self.connections[index];
            match driver.next(now, &mut connection.output) {
                Next::Request(token) => {
                    connection.in_flight.push_back(token);
                    self.turn = index + 1;
                }
                Next::NotBefore(instant) => {
                    now = Instant::now();
                    let wait = instant.saturating_duration_since(now);
                    if wait > Duration::ZERO {
                        // The timeout of a poll is in whole milliseconds. A shorter wait is spent
                        // polling.
                        return (Duration::from_millis(wait.as_millis() as u64), false);
                    }
                }
                Next::End => return (Duration::from_millis(100), true),
            }
        }
    }

    /// Reads all replies that have arrived. Returns true if there was at least one.
    fn read<D: Driver<Token = T>>(&mut self, index: usize, driver: &mut D) -> Result<bool> {
        let mut has_replies = false;
        loop {
            let connection = &mut self.connections[index];
            let read = match connection.stream.read(&mut self.scratch) {
                Ok(0) => return Err(Error::server(&self.label, "it closed a connection")),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(has_replies),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(source) => {
                    let doing = format!("{}: cannot receive", self.label);
                    return Err(Error::System { doing, source });
                }
            };
            has_replies |= connection
                .take_replies(self.protocol, &self.scratch[..read], driver)
                .map_err(|text| Error::server(&self.label, text))?;
            if read < self.scratch.len() {
                return Ok(has_replies);
            }
        }
    }

    /// Writes as many bytes of the output as the socket accepts.
    fn write(&mut self, index: usize) -> Result<()> {
        let connection = &mut self.connections[index];
        while connection.written < connection.output.len() {
            match connection
                .stream
                .write(&connection.output[connection.written..])
            {
                Ok(written) => connection.written += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    let doing = format!("{}: cannot send", self.label);
                    return Err(Error::System { doing, source });
                }
            }
        }
        connection.output.clear();
        connection.written = 0;
        Ok(())
    }
}

impl<T> Connection<T> {
    /// Passes all complete replies in the unparsed rest and `bytes` to the driver.
    fn take_replies<D: Driver<Token = T>>(
        &mut self,
        protocol: Protocol,
        bytes: &[u8],
        driver: &mut D,
    ) -> std::result::Result<bool, &'static str> {
        let mut joined = std::mem::take(&mut self.input);
        let input: &[u8] = if joined.is_empty() {
            bytes
        } else {
            joined.extend_from_slice(bytes);
            &joined
        };
        let mut at = 0;
        while at < input.len() {
            let Some(len) = protocol.skip(&input[at..])? else {
                break;
            };
            let token = self
                .in_flight
                .pop_front()
                .ok_or("a reply without a request")?;
            self.batch_left = self.batch_left.saturating_sub(1);
            if let Some(more) = driver.reply(token, &input[at..at + len], &mut self.output) {
                self.in_flight.push_back(more);
            }
            at += len;
        }
        self.input.extend_from_slice(&input[at..]);
        Ok(at > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A server that answers GETs with nothing and SETs with OK, a few bytes at a time, until its
    /// clients disconnect.
    fn serve(listener: TcpListener, connections: usize) {
        for _ in 0..connections {
            let (mut stream, _) = listener.accept().expect("a client comes");
            stream.set_nodelay(true).expect("it is connected");
            std::thread::spawn(move || {
                let mut input = Vec::new();
                let mut bytes = [0; 100];
                while let Ok(read @ 1..) = stream.read(&mut bytes) {
                    input.extend_from_slice(&bytes[..read]);
                    let mut replies = Vec::new();
                    while let Ok(Some(len)) = wire::skip_reply(&input) {
                        let is_get = input
                            .windows(3)
                            .position(|w| w == b"GET")
                            .is_some_and(|at| at < len);
                        replies.extend_from_slice(if is_get { b"$-1\r\n" } else { b"+OK\r\n" });
                        input.drain(..len);
                    }
                    for chunk in replies.chunks(3) {
                        stream.write_all(chunk).expect("the client reads");
                    }
                }
            });
        }
    }

    /// Sends GETs, each followed by a SET, and checks that each reply belongs to its request.
    struct Pairs {
        left: u32,
        due: Option<Instant>,
        sets: u32,
    }

    impl Driver for Pairs {
        type Token = bool;
        fn next(&mut self, now: Instant, out: &mut Vec<u8>) -> Next<bool> {
            if let Some(due) = self.due.filter(|due| *due > now) {
                return Next::NotBefore(due);
            }
            let Some(left) = self.left.checked_sub(1) else {
                return Next::End;
            };
            self.left = left;
            self.due = self.due.map(|due| due + Duration::from_micros(100));
            wire::encode_command(out, &["GET", "k"]);
            Next::Request(true)
        }
        fn reply(&mut self, is_get: bool, reply: &[u8], out: &mut Vec<u8>) -> Option<bool> {
            if is_get {
                assert_eq!(reply, b"$-1\r\n");
                wire::encode_command(out, &["SET", "k", "v"]);
                return Some(false);
            }
            assert_eq!(reply, b"+OK\r\n");
            self.sets += 1;
            None
        }
    }

    fn run(shape: Shape, due: Option<Instant>) -> u32 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let server = std::thread::spawn(move || serve(listener, shape.connections));
        let mut load = Load::connect("test", address, shape).expect("it listens");
        server.join().expect("all connected");
        let mut driver = Pairs {
            left: 300,
            due,
            sets: 0,
        };
        load.run(&mut driver).expect("it answers");
        driver.sets
    }

    #[test]
    fn every_request_meets_its_reply_in_batches() {
        for (connections, pipeline) in [(1, 1), (3, 1), (2, 7), (4, 200)] {
            let shape = Shape {
                connections,
                pipeline,
                is_stream: false,
            };
            assert_eq!(run(shape, None), 300, "{shape:?}");
        }
    }

    #[test]
    fn every_request_meets_its_reply_in_a_stream() {
        for (connections, pipeline) in [(1, 1), (3, 5)] {
            let shape = Shape {
                connections,
                pipeline,
                is_stream: true,
            };
            let start = Instant::now();
            assert_eq!(run(shape, Some(start)), 300, "{shape:?}");
            // Request i is due i × 100 µs after the start.
            assert!(start.elapsed() >= Duration::from_micros(299 * 100));
        }
    }
}

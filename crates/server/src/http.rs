//! The HTTP server for metrics and health checks: a separate thread with three paths.
//!
//! | path | reply |
//! |---|---|
//! | `/metrics` | metrics, in the format that the header Accept prefers |
//! | `/health` | 200 while all workers serve, else 503 |
//! | `/ready` | 200 if clients are served, 503 while a file is loaded and during a stop |
//!
//! Only GET and HEAD are served, without bodies. Connections, the bytes and the time of a request,
//! and replies are bounded, so that nobody can take more than a few megabytes and this thread's
//! time. A connection gets a limited number of replies per turn of the event loop, so that it does
//! not delay the others or the server's stop. A census disturbs the workers at most ten times per
//! second, regardless of the number of requests.

mod connection;
pub mod request;

use crate::metrics::page::Format;
use crate::state::Server;
use crate::{command, metrics};
use connection::{Connection, Next, Reply};
use durability::restart::handover::{Handover, Place};
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};
use request::{Method, Request, Status};
use rustix::process::{Resource, getrlimit};
use settings::{Config, Id, value};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum number of connections. If all are taken, `Connection::rank` determines which one gives
/// way to a new one.
const CONNECTIONS_MAX: usize = 32;
/// Number of files that the process may open for each connection. One that may open few needs them
/// for clients.
const FILES_PER_CONNECTION: u64 = 8;
/// Maximum number of connections that are accepted before others are served.
const ACCEPTS_MAX: usize = 32;
/// Maximum number of requests of a connection that are answered before others are served.
const ANSWERS_MAX: usize = 16;
/// Maximum age of a census that is reused.
const CENSUS_AGE_MAX: Duration = Duration::from_millis(100);
/// Maximum time that a request waits for a census. After that, the last one is used.
const CENSUS_WAIT_MAX: Duration = Duration::from_secs(1);
/// Time after which a worker that has run no periodic task counts as blocked. Scripts may take
/// half of it.
const STALL_MS_MAX: u64 = 10_000;
/// Pause after a failure to accept connections, which is mostly a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const WAKER: Token = Token(CONNECTIONS_MAX);
const LISTENER: Token = Token(CONNECTIONS_MAX + 1);

const OK: Status = (200, "OK");
const NOT_FOUND: Status = (404, "Not Found");
const METHOD_NOT_ALLOWED: Status = (405, "Method Not Allowed");
const UNAVAILABLE: Status = (503, "Service Unavailable");

const TEXT: &str = "text/plain; charset=utf-8";

/// Binds the configured address, or continues to listen on an inherited socket; `None` if there is
/// no address.
///
/// # Errors
/// The address cannot be bound. The message is meant for users.
pub fn bind(
    address: Option<SocketAddr>,
    inherited: &mut Handover,
) -> Result<Option<std::net::TcpListener>, String> {
    let Some(address) = address else {
        return Ok(None);
    };
    if let Some(socket) = inherited.take_tcp(&Place::Http, address) {
        return Ok(Some(socket.into()));
    }
    let bound = std::net::TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    let named = |error| format!("cannot listen on {address} for HTTP: {error}");
    bound.map(Some).map_err(named)
}

/// Starts the thread.
///
/// # Errors
/// An error of the operating system.
pub fn start(
    server: &Arc<Server>,
    listener: std::net::TcpListener,
) -> Result<JoinHandle<Result<(), String>>, String> {
    let named = |error: std::io::Error| format!("thread for HTTP: {error}");
    let poll = Poll::new().map_err(named)?;
    let mut listener = TcpListener::from_std(listener);
    let registry = poll.registry();
    let readable = Interest::READABLE;
    registry
        .register(&mut listener, LISTENER, readable)
        .map_err(named)?;
    let waker = Waker::new(registry, WAKER).map_err(named)?;
    server.observability.scrape.set_waker(waker);
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let mut http = Http::new(Arc::clone(server), poll, listener, connections_max(files));
    let thread = std::thread::Builder::new().name("http".to_owned());
    let spawned = thread.spawn(move || {
        let result = http.run();
        http.leave();
        result
    });
    spawned.map_err(named)
}

/// Returns the maximum number of connections of a process that may open this many files.
pub fn connections_max(files: u64) -> usize {
    (files / FILES_PER_CONNECTION).clamp(1, CONNECTIONS_MAX as u64) as usize
}

/// A page with the time of the census that it shows.
type CachedPage = Option<(Instant, Arc<[u8]>)>;

/// State of the thread.
struct Http {
    server: Arc<Server>,
    poll: Poll,
    listener: TcpListener,
    /// Places of connections, at most [`CONNECTIONS_MAX`].
    connections: Vec<Option<Connection>>,
    /// Whether each connection may have bytes to read or may take bytes. The system reports a
    /// change only once.
    ready: [bool; CONNECTIONS_MAX],
    /// Whether connections may be waiting.
    may_accept: bool,
    /// Time at which accepting is retried after a failure.
    accepts_at: Option<Instant>,
    /// The last page in each format.
    pages: [CachedPage; 2],
}

impl Http {
    fn new(server: Arc<Server>, poll: Poll, listener: TcpListener, places: usize) -> Http {
        Http {
            server,
            poll,
            listener,
            connections: (0..places).map(|_| None).collect(),
            ready: [false; CONNECTIONS_MAX],
            may_accept: true,
            accepts_at: None,
            pages: [None, None],
        }
    }

    /// Keeps the listening socket for the next process if the server restarts.
    fn leave(self) {
        let kept = self
            .server
            .lifecycle
            .restart
            .keep_socket(Place::Http, self.listener.into());
        drop(kept);
    }

    fn run(&mut self) -> Result<(), String> {
        let mut events = Events::with_capacity(CONNECTIONS_MAX + 2);
        while !self.server.lifecycle.stops() {
            let timeout = self.timeout(Instant::now());
            if let Err(error) = self.poll.poll(&mut events, timeout)
                && error.kind() != ErrorKind::Interrupted
            {
                // Metrics are not worth the end of the server.
                log::error!("HTTP ends: {error}");
                return Ok(());
            }
            let now = Instant::now();
            for event in &events {
                match event.token() {
                    WAKER => {}
                    LISTENER => self.may_accept = true,
                    Token(index) => self.ready[index] = true,
                }
            }
            self.serve_ready(now);
            self.end_waits(now);
            self.close_late(now);
            if self.accepts_at.is_some_and(|at| at <= now) {
                self.accepts_at = None;
                self.may_accept = true;
            }
            if self.may_accept {
                self.accept(now);
            }
        }
        Ok(())
    }

    /// Returns how long to wait for events; `None` means without a limit.
    fn timeout(&self, now: Instant) -> Option<Duration> {
        if self.may_accept || self.ready.contains(&true) {
            return Some(Duration::ZERO);
        }
        let connections = self.connections.iter().flatten();
        let deadlines = connections.map(Connection::deadline);
        let next = deadlines.chain(self.accepts_at).min();
        // A millisecond more, because the system rounds down.
        next.map(|at| at.saturating_duration_since(now) + Duration::from_millis(1))
    }

    fn accept(&mut self, now: Instant) {
        self.may_accept = false;
        for _ in 0..ACCEPTS_MAX {
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(stream, now),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                    ) => {}
                Err(error) => {
                    log::debug!("accepting an HTTP connection failed: {error}");
                    self.accepts_at = Some(now + ACCEPT_PAUSE);
                    return;
                }
            }
        }
        self.may_accept = true;
    }

    /// Adds a connection. If there is no place, the connection with the lowest rank is closed; if
    /// none has a rank, the new one is.
    fn admit(&mut self, mut stream: mio::net::TcpStream, now: Instant) {
        let free = self.connections.iter().position(Option::is_none);
        let index = free.or_else(|| {
            let all = self.connections.iter().enumerate();
            let ranks = all.filter_map(|(index, connection)| {
                let rank = connection.as_ref().and_then(Connection::rank)?;
                Some((rank, index))
            });
            ranks.min().map(|(_, index)| index)
        });
        let Some(index) = index else {
            return;
        };
        self.connections[index] = None;
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = self
            .poll
            .registry()
            .register(&mut stream, Token(index), interest);
        if registered.is_ok() {
            let _ = stream.set_nodelay(true);
            self.connections[index] = Some(Connection::new(stream, now));
            self.serve(index, now);
        }
    }

    /// Serves the connections that may be ready. One with further requests remains so.
    fn serve_ready(&mut self, now: Instant) {
        for index in 0..self.connections.len() {
            if std::mem::take(&mut self.ready[index]) {
                self.serve(index, now);
            }
        }
    }

    /// Serves a connection as far as its socket and the limit per turn allow. Requests that were
    /// sent together are answered one after the other.
    fn serve(&mut self, index: usize, now: Instant) {
        for _ in 0..ANSWERS_MAX {
            let Some(connection) = self.connections[index].as_mut() else {
                return;
            };
            let next = match connection.serve(now) {
                Next::Wait => return,
                Next::Answer(request) => self.answer(index, request, now),
                Next::Refuse(status) => {
                    let reply = text(status, format!("{}\n", status.1));
                    connection.answer(None, &reply, now)
                }
                Next::Close => Next::Close,
            };
            if next == Next::Close {
                self.connections[index] = None;
            }
        }
        self.ready[index] = true;
    }

    /// Answers a request, or keeps it until there is a census.
    fn answer(&mut self, index: usize, request: Request, now: Instant) -> Next {
        let reply = match (request.method, &request.path[..]) {
            (Method::Other, _) => text(METHOD_NOT_ALLOWED, "only GET and HEAD are served\n".into()),
            (_, "/metrics") => {
                let scrape = &self.server.observability.scrape;
                let last = scrape.last();
                if last.is_none_or(|taken| now.saturating_duration_since(taken.at) > CENSUS_AGE_MAX)
                {
                    scrape.request();
                    self.server.workers.inboxes[0].wake();
                    if let Some(connection) = self.connections[index].as_mut() {
                        connection.wait(request, now + CENSUS_WAIT_MAX);
                    }
                    return Next::Wait;
                }
                self.metrics(request.format, now)
            }
            (_, "/health") => self.health(),
            (_, "/ready") => match self.server.why_not_ready() {
                None => text(OK, "ready\n".into()),
                Some(why) => text(UNAVAILABLE, format!("{why}\n")),
            },
            _ => text(
                NOT_FOUND,
                "the paths are /metrics, /health and /ready\n".into(),
            ),
        };
        match self.connections[index].as_mut() {
            Some(connection) => connection.answer(Some(&request), &reply, now),
            None => Next::Close,
        }
    }

    /// Answers the requests whose census is complete or late.
    fn end_waits(&mut self, now: Instant) {
        if !self
            .connections
            .iter()
            .flatten()
            .any(|one| one.waiting().is_some())
        {
            return;
        }
        let is_complete = !self.server.observability.scrape.is_wanted();
        for index in 0..self.connections.len() {
            let Some(connection) = self.connections[index].as_mut() else {
                continue;
            };
            if connection.waiting().is_none() || !is_complete && connection.deadline() > now {
                continue;
            }
            let Some(request) = connection.take_waiting() else {
                continue;
            };
            let reply = self.metrics(request.format, now);
            let next = match self.connections[index].as_mut() {
                Some(connection) => connection.answer(Some(&request), &reply, now),
                None => continue,
            };
            match next {
                Next::Wait => self.serve(index, now),
                _ => self.connections[index] = None,
            }
        }
    }

    fn close_late(&mut self, now: Instant) {
        for place in &mut self.connections {
            let is_late = |connection: &Connection| {
                connection.waiting().is_none() && connection.deadline() <= now
            };
            if place.as_ref().is_some_and(is_late) {
                *place = None;
            }
        }
    }

    /// Returns the page of metrics with the last census.
    fn metrics(&mut self, format: Format, now: Instant) -> Reply {
        let Some(taken) = self.server.observability.scrape.last() else {
            return text(UNAVAILABLE, "the worker has not answered yet\n".into());
        };
        let age = now.saturating_duration_since(taken.at);
        let cached = &mut self.pages[format as usize];
        let page = match cached {
            // A stale page would hide that its census is stale.
            Some((at, page)) if *at == taken.at && age <= CENSUS_AGE_MAX => Arc::clone(page),
            _ => {
                let table = command::table();
                let page = metrics::render(&self.server, table, &taken.census, age, format);
                let page: Arc<[u8]> = page.into_bytes().into();
                *cached = Some((taken.at, Arc::clone(&page)));
                page
            }
        };
        Reply {
            status: OK,
            content_type: format.content_type(),
            body: page,
        }
    }

    /// Reports whether all workers run their periodic tasks.
    fn health(&self) -> Reply {
        let now = self.server.clock.moment();
        let workers = self.server.observability.stats.workers.iter().enumerate();
        let mut ages = workers.map(|(index, worker)| {
            let alive = session::clock::Moment(worker.alive_ms.load(Relaxed));
            (now.since(alive), index)
        });
        match ages.find(|(age_ms, _)| *age_ms > STALL_MS_MAX) {
            None => text(OK, "healthy\n".into()),
            Some((age_ms, worker)) => {
                let seconds = age_ms / 1000;
                text(
                    UNAVAILABLE,
                    format!("worker {worker} has not responded for {seconds} seconds\n"),
                )
            }
        }
    }
}

fn text(status: Status, body: String) -> Reply {
    Reply {
        status,
        content_type: TEXT,
        body: body.into_bytes().into(),
    }
}

/// Returns the configured address.
pub fn address(config: &Config) -> Option<SocketAddr> {
    value::address(&config.text(Id::Http)).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use connection::REQUEST_TIME_MAX;
    use session::clock::Clock;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    const REQUEST: &[u8] = b"GET /none HTTP/1.1\r\n\r\n";

    fn http() -> Http {
        let server = Server::new(Config::default(), Clock::System).expect("a server");
        let listener = TcpListener::bind("127.0.0.1:0".parse().expect("an address"));
        let poll = Poll::new().expect("a poll");
        let listener = listener.expect("a free port");
        Http::new(Arc::new(server), poll, listener, CONNECTIONS_MAX)
    }

    /// With 64 files, all that were left for clients was one.
    #[test]
    fn a_process_that_may_open_few_files_has_few_connections() {
        let files = [0, 16, 64, 256, 1024, u64::MAX];
        assert_eq!(files.map(connections_max), [1, 2, 8, 32, 32, 32]);
    }

    /// Connects a client that has sent these bytes.
    fn client(http: &Http, bytes: &[u8]) -> TcpStream {
        let address = http.listener.local_addr().expect("an address");
        let mut client = TcpStream::connect(address).expect("a connection");
        client.write_all(bytes).expect("sent");
        client
    }

    /// Returns the number of replies that a client has received but not read.
    fn replies(client: &mut TcpStream) -> usize {
        client.set_nonblocking(true).expect("nonblocking");
        let (mut text, mut bytes) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = client.read(&mut bytes) {
            text.extend_from_slice(&bytes[..count]);
        }
        text.windows(9).filter(|part| part == b"HTTP/1.1 ").count()
    }

    #[test]
    fn one_turn_answers_a_bounded_number_of_requests_of_a_connection() {
        let mut http = http();
        let now = Instant::now();
        let mut many = client(&http, &REQUEST.repeat(ANSWERS_MAX + 3));
        http.accept(now);
        assert_eq!(replies(&mut many), ANSWERS_MAX);
        assert_eq!(http.timeout(now), Some(Duration::ZERO));
        let mut one = client(&http, REQUEST);
        http.accept(now);
        assert_eq!(replies(&mut one), 1);
        http.serve_ready(now);
        assert_eq!(replies(&mut many), 3);
        http.accept(now);
        assert_ne!(http.timeout(now), Some(Duration::ZERO));
    }

    #[test]
    fn a_request_that_begins_behind_another_has_the_time_of_a_request() {
        let mut http = http();
        let now = Instant::now();
        let _client = client(&http, &[REQUEST, b"G"].concat());
        http.accept(now);
        let connection = http.connections[0].as_ref().expect("a connection");
        assert_eq!(connection.deadline(), now + REQUEST_TIME_MAX);
    }

    #[test]
    fn the_oldest_incomplete_request_gives_way_to_a_new_connection() {
        let mut http = http();
        let now = Instant::now();
        let parts = [REQUEST, b"G"].concat();
        let _clients: Vec<TcpStream> = (0..CONNECTIONS_MAX as u64)
            .map(|index| {
                let client = client(&http, &parts);
                http.accept(now + Duration::from_millis(index ^ 8));
                client
            })
            .collect();
        assert!(http.connections.iter().all(Option::is_some));
        let mut last = client(&http, REQUEST);
        http.accept(now + Duration::from_secs(1));
        assert_eq!(replies(&mut last), 1);
        // The ninth connection was accepted first. Its place now waits for the next request.
        let kept = http.connections[8].as_ref().expect("a connection");
        assert!(kept.deadline() > now + REQUEST_TIME_MAX * 2);
    }
}

//! The HTTP server for metrics and health checks: a thread of its own with three paths.
//!
//! | path | reply |
//! |---|---|
//! | `/metrics` | metrics, in the format that the header Accept prefers |
//! | `/health` | 200 while all workers serve, else 503 |
//! | `/ready` | 200 if clients are served, 503 while a file is loaded and during a stop |
//!
//! Only GET and HEAD are served, without bodies. Connections, the bytes and the time of a request,
//! and replies are bounded, so that nobody can take more than a few megabytes and this thread's
//! time. Workers are disturbed by a census at most ten times per second, however many requests
//! there are.

mod connection;
pub mod request;

use crate::command;
use crate::config::{Config, Id, value};
use crate::metrics;
use crate::metrics::page::Format;
use crate::state::Server;
use connection::{Connection, Next, Reply};
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};
use request::{Method, Request, Status};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum number of connections. One that waits for its next request gives way to a new one.
pub const CONNECTIONS_MAX: usize = 32;
/// Maximum number of connections that are accepted before others are served.
const ACCEPTS_MAX: usize = 32;
/// Age of a census up to which it is used again.
const CENSUS_AGE_MAX: Duration = Duration::from_millis(100);
/// Maximum time for which a request waits for a census. Then the last one is used.
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

/// Binds the configured address; `None` if there is none.
///
/// # Errors
/// The address cannot be bound. The message is meant for users.
pub fn bind(address: Option<SocketAddr>) -> Result<Option<std::net::TcpListener>, String> {
    let Some(address) = address else {
        return Ok(None);
    };
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
    server.scrape.set_waker(waker);
    let mut http = Http {
        server: Arc::clone(server),
        poll,
        listener,
        connections: (0..CONNECTIONS_MAX).map(|_| None).collect(),
        may_accept: true,
        accepts_at: None,
        pages: [None, None],
    };
    let thread = std::thread::Builder::new().name("http".to_owned());
    thread.spawn(move || http.run()).map_err(named)
}

/// A page with the time of the census that it shows.
type CachedPage = Option<(Instant, Arc<[u8]>)>;

/// State of the thread.
struct Http {
    server: Arc<Server>,
    poll: Poll,
    listener: TcpListener,
    connections: Vec<Option<Connection>>,
    /// Whether connections may be waiting.
    may_accept: bool,
    /// Time at which accepting is tried again after a failure.
    accepts_at: Option<Instant>,
    /// The last page in each format.
    pages: [CachedPage; 2],
}

impl Http {
    fn run(&mut self) -> Result<(), String> {
        let mut events = Events::with_capacity(CONNECTIONS_MAX + 2);
        while !self.server.stops() {
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
                    Token(index) => self.serve(index, now),
                }
            }
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
        if self.may_accept {
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

    /// Adds a connection. If there is no place, the one that has been idle the longest is closed;
    /// if none is idle, the new one is.
    fn admit(&mut self, mut stream: mio::net::TcpStream, now: Instant) {
        let free = self.connections.iter().position(Option::is_none);
        let index = free.or_else(|| {
            let all = self.connections.iter().enumerate();
            let idle = all.filter_map(|(index, connection)| {
                let connection = connection.as_ref().filter(|one| one.is_idle())?;
                Some((connection.deadline(), index))
            });
            idle.min().map(|(_, index)| index)
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

    /// Serves a connection as far as its socket allows. Requests that were sent together are
    /// answered one after the other.
    fn serve(&mut self, index: usize, now: Instant) {
        while let Some(connection) = self.connections[index].as_mut() {
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
    }

    /// Answers a request, or keeps it until there is a census.
    fn answer(&mut self, index: usize, request: Request, now: Instant) -> Next {
        let reply = match (request.method, &request.path[..]) {
            (Method::Other, _) => text(METHOD_NOT_ALLOWED, "only GET and HEAD are served\n".into()),
            (_, "/metrics") => {
                let scrape = &self.server.scrape;
                let last = scrape.last();
                if last.is_none_or(|taken| now.saturating_duration_since(taken.at) > CENSUS_AGE_MAX)
                {
                    scrape.request();
                    self.server.inboxes[0].wake();
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
        let is_complete = !self.server.scrape.is_wanted();
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
        let Some(taken) = self.server.scrape.last() else {
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
        let workers = self.server.stats.workers.iter().enumerate();
        let mut ages = workers.map(|(index, worker)| {
            let alive = crate::clock::Moment(worker.alive_ms.load(Relaxed));
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

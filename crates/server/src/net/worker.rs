//! A worker: one thread with an event loop, the connections that it serves, and the shards that it
//! expires keys in.
//!
//! An iteration of the loop waits for socket events until the earliest deadline, serves the ready
//! connections, delivers messages from other workers, and spends a time slice on expiry. The clock
//! is read once per iteration, and again in iterations longer than a millisecond.

mod leaving;
mod memory;
mod messages;
mod periodic;
mod replicas;
mod slots;
mod sockets;
mod stopping;
mod waits;

use crate::dispatch::Executor;
use crate::expiry::ExpiryDriver;
use crate::net::connection::sync::{Progress, Verdict};
use crate::net::connection::{Connection, Next, Scratch};
use crate::net::listener::{FIRST_LISTENER, LISTENERS_MAX, Listeners};
use crate::saving::work as saving;
use crate::state::Server;
use mio::event::Event;
use mio::{Events, Interest, Poll, Token, Waker};
use session::clock::Moment;
use session::inbox;
use session::message::Message;
use std::collections::{BTreeSet, VecDeque};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use store::{Census, Tick};

/// Token of the inbox. Tokens of listeners count down from the next lower number; tokens of
/// connections count up from 0.
const WAKER: Token = Token(usize::MAX - 1);
/// Maximum number of socket events per iteration.
const EVENTS_MAX: usize = 1024;
/// Interval of periodic tasks, and maximum delay until a jump of the clock is noticed.
const PERIODIC_INTERVAL: Duration = Duration::from_millis(100);
/// Pause before calling a shard again that was due but had nothing to expire.
const IDLE_SHARD_PAUSE: Duration = Duration::from_millis(1);
/// Number of connections served between two readings of the clock within an iteration.
const CONNECTIONS_PER_CLOCK_CHECK: usize = 4;
/// Maximum number of reads for TLS handshakes per iteration. One may take a millisecond for a
/// signature.
const HANDSHAKES_PER_TURN: usize = 4;
/// Duration of an iteration after which the clock is read again and due keys are expired.
const LONG_TURN: Duration = Duration::from_millis(1);

/// State of one worker thread.
pub struct Worker {
    index: usize,
    server: Arc<Server>,
    poll: Poll,
    listeners: Listeners,
    connections: Vec<Option<Box<Connection>>>,
    free: Vec<usize>,
    /// Connections to serve again without a socket event.
    again: Vec<usize>,
    /// Connections held by CLIENT PAUSE.
    held: BTreeSet<usize>,
    /// Connections whose client has hung up or must be disconnected, in this order. An index is
    /// ignored if the connection there is not marked as leaving.
    leaving: VecDeque<usize>,
    /// Number of leaving clients that may still be served in this iteration.
    leaving_left: usize,
    /// Number of reads for TLS handshakes that are left in this iteration.
    handshakes_left: usize,
    /// Connections waiting for a long command, with their client ids, in the order in which they
    /// began to wait. They may include clients that have disconnected.
    waiting: VecDeque<(usize, u64)>,
    /// Number of these connections that have to try again.
    retry_count: usize,
    /// Ticket of a delayed `flush_all` that waits for a long command.
    flush_ticket: Option<u64>,
    /// Connections whose replies are held for the append-only file or for replicas.
    syncing: Vec<(usize, u64)>,
    /// Connections of replicas.
    replicas: Vec<(usize, u64)>,
    /// Position of the feed at the end of the last iteration.
    fed_until: u64,
    /// Whether more can be sent to a replica at once.
    has_feed: bool,
    /// Blocked connections with a timeout: end of the timeout, index and client id, ordered by the
    /// end.
    waits: BTreeSet<(Moment, usize, u64)>,
    /// Connections that wait to authenticate: time, index and client id, ordered by the time.
    delayed: BTreeSet<(Moment, usize, u64)>,
    /// Connections with a message added to their output, which must be flushed.
    touched: Vec<usize>,
    messages: Vec<Message>,
    scratch: Scratch,
    expiry_driver: ExpiryDriver,
    /// Earliest time at which expiry must run, as of the last query.
    due: Option<Tick>,
    /// Whether expiry had more work at the end of the last iteration.
    is_busy: bool,
    /// Total of the clients' bytes at which clients to evict are searched again; 0 after the total
    /// was within its limit.
    searched_at_bytes: u64,
    periodic_at: Instant,
    periodic_count: u64,
    /// Whether the log has named queues whose keys may be evicted.
    has_named_queues: bool,
    /// Census of the keyspace that is not complete yet. Only the first worker takes it.
    census: Option<Box<Census>>,
}

impl Worker {
    /// Creates a worker. The first worker gets the listeners and distributes the accepted
    /// connections.
    ///
    /// # Errors
    /// An error of the operating system.
    pub fn new(server: Arc<Server>, index: usize, mut listeners: Listeners) -> io::Result<Worker> {
        let poll = Poll::new()?;
        listeners.register(poll.registry())?;
        server.workers.inboxes[index].set_waker(Waker::new(poll.registry(), WAKER)?);
        let expiry_driver = ExpiryDriver::new(&server, index);
        Ok(Worker {
            index,
            server,
            poll,
            listeners,
            connections: Vec::new(),
            free: Vec::new(),
            again: Vec::new(),
            held: BTreeSet::new(),
            leaving: VecDeque::new(),
            leaving_left: 0,
            handshakes_left: HANDSHAKES_PER_TURN,
            waiting: VecDeque::new(),
            retry_count: 0,
            flush_ticket: None,
            syncing: Vec::new(),
            replicas: Vec::new(),
            fed_until: 0,
            has_feed: false,
            waits: BTreeSet::new(),
            delayed: BTreeSet::new(),
            touched: Vec::new(),
            messages: Vec::new(),
            scratch: Scratch::default(),
            expiry_driver,
            due: None,
            is_busy: false,
            searched_at_bytes: 0,
            periodic_at: Instant::now(),
            periodic_count: 0,
            has_named_queues: false,
            census: None,
        })
    }

    /// Serves until the server is stopped.
    ///
    /// # Errors
    /// The operating system's error from polling.
    pub fn run(&mut self) -> io::Result<()> {
        inbox::enter(self.index);
        let server = Arc::clone(&self.server);
        let mut executor = Executor::new(&server, self.index, server.clock.now());
        executor.has_written = true;
        let stats = &server.observability.stats.workers[self.index];
        stats.alive_ms.store(server.clock.moment().0, Relaxed);
        let thread = rustix::thread::gettid().as_raw_pid();
        stats.thread_id.store(thread as u64, Relaxed);
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !server.lifecycle.stops() {
            self.step(&mut events, &mut executor)?;
        }
        self.drain(&mut events, &mut executor);
        self.close_all(&mut executor);
        Ok(())
    }

    /// Waits for events and handles them.
    fn step(&mut self, events: &mut Events, executor: &mut Executor<'_>) -> io::Result<()> {
        let timeout = self.timeout(executor);
        if let Err(error) = self.poll.poll(events, Some(timeout))
            && error.kind() != ErrorKind::Interrupted
        {
            return Err(error);
        }
        let server = executor.server();
        executor.begin_work();
        server.workers.inboxes[self.index].plan(0);
        let start = Instant::now();
        executor.set_now(server.clock.now());
        // While clients write, their writes evict. A round would cost more than it frees.
        if events.is_empty() && self.expiry_driver.must_evict(&server.data.keyspace) {
            self.expiry_driver.request_background_work();
        }
        let expired_at = self.turn(events, executor, start);
        executor.finish();
        executor.begin_work();
        if !server.clients.watches.is_empty() {
            server
                .clients
                .watches
                .step(&server.data.keyspace, executor.now());
        }
        if server.clients.pubsub.has_forgotten() {
            server.clients.pubsub.step();
        }
        self.is_busy = self.run_expiry(executor, start, expired_at);
        saving::walk(server, self.index, expired_at.elapsed(), executor.now());
        if self.index == 0 && server.persistence.saving.has_request() {
            saving::begin(server, executor.now());
        }
        if start >= self.periodic_at {
            self.run_periodic_tasks(executor, start);
        }
        // Events of the last batch and of expiry are sent now, not after the next wait.
        self.deliver(executor);
        executor.finish();
        self.has_feed = self.feed_replicas(executor);
        if self.index == 0 {
            self.check_waits(executor);
        }
        if self.index == 0 && server.observability.scrape.is_wanted() {
            let keyspace = &server.data.keyspace;
            server
                .observability
                .scrape
                .take(&mut self.census, keyspace, executor.now());
        }
        self.publish_memory();
        self.evict_clients(executor);
        self.count_traffic();
        executor.rest();
        Ok(())
    }

    /// Returns how long to wait for socket events.
    fn timeout(&mut self, executor: &mut Executor<'_>) -> Duration {
        let server = executor.server();
        let (workers, clock, files) = (&server.workers, &server.clock, &server.persistence);
        // With several workers, others also write to this worker's shards.
        if executor.has_written
            || workers.count > 1
            || self.due.is_some_and(|due| due <= executor.now())
        {
            executor.has_written = false;
            self.due = self.expiry_driver.earliest(&server.data);
        }
        let inbox = &workers.inboxes[self.index];
        let has_retry = self.retry_count > 0 || workers.long.has_retry(self.index);
        if has_retry
            || self.has_synced(server)
            || self.has_feed
            || self.is_busy
            || inbox.is_filled()
            || self.has_waiting()
            || self.listeners.is_ready
        {
            return Duration::ZERO;
        }
        if workers.count > 1 {
            let plan = |due: Option<Tick>| due.map_or(u64::MAX, |due| due.0.max(1));
            inbox.plan(plan(self.due));
            // Another worker may have stored an earlier deadline before the plan was published.
            self.due = self.expiry_driver.earliest(&server.data);
            inbox.plan(plan(self.due));
            if inbox.is_filled() || workers.long.has_retry(self.index) {
                return Duration::ZERO;
            }
        }
        let mut timeout = self.periodic_at.saturating_duration_since(Instant::now());
        let span = |tick: Tick| {
            let now_us = clock.now_us();
            Duration::from_micros(tick.0.saturating_mul(1000).saturating_sub(now_us))
        };
        if let Some(due) = self.due
            && server.data.keyspace.expires_by_clock()
        {
            let min = match self.expiry_driver.found_nothing() {
                true => IDLE_SHARD_PAUSE,
                false => Duration::ZERO,
            };
            timeout = timeout.min(span(due).max(min));
        }
        let now = clock.moment();
        if !self.held.is_empty() {
            let left = |end: Moment| Duration::from_millis(end.since(now));
            timeout = timeout.min(server.data.pause.until(now).map_or(Duration::ZERO, left));
        }
        let watches = self.index == 0 && !server.clients.watches.is_empty();
        if watches || self.expiry_driver.must_evict(&server.data.keyspace) {
            timeout = timeout.min(IDLE_SHARD_PAUSE);
        }
        if let Some(pause) = saving::next_walk(&files.saving, workers, clock, self.index) {
            timeout = timeout.min(pause);
        }
        if let Some(pause) = self.pause_of_waits(&files.aof, &server.replication, now) {
            timeout = timeout.min(pause);
        }
        if let Some((deadline, _, _)) = self.waits.first() {
            timeout = timeout.min(Duration::from_millis(deadline.since(now) + 1));
        }
        if let Some((at, _, _)) = self.delayed.first() {
            timeout = timeout.min(Duration::from_millis(at.since(now)));
        }
        timeout
    }

    /// Whether connections, a census or the removal of subscriptions must continue without an
    /// event.
    fn has_waiting(&self) -> bool {
        let has_connections = !self.again.is_empty() || !self.leaving.is_empty();
        has_connections || self.census.is_some() || self.server.clients.pubsub.has_forgotten()
    }

    /// Serves the ready connections. Returns the time at which expiry last ran.
    fn turn(&mut self, events: &Events, executor: &mut Executor<'_>, start: Instant) -> Instant {
        let mut expired_at = start;
        self.flush_at(executor);
        self.handshakes_left = HANDSHAKES_PER_TURN;
        self.serve_leaving(executor);
        self.close_vanished(events, executor);
        let again = std::mem::take(&mut self.again);
        for (number, index) in again.into_iter().enumerate() {
            // A connection that was closed meanwhile remains in the list.
            if let Some(connection) = self.connection(index)
                && std::mem::take(&mut connection.lists.is_in_again)
            {
                self.serve(index, executor);
            }
            self.expire_in_long_turn(number, &mut expired_at, executor);
        }
        for (number, event) in events.iter().enumerate() {
            match event.token() {
                WAKER => {}
                Token(token) if token > FIRST_LISTENER - LISTENERS_MAX => {
                    self.listeners.is_ready = true;
                }
                Token(index) => self.ready(index, event, executor),
            }
            self.expire_in_long_turn(number, &mut expired_at, executor);
        }
        if self.listeners.is_ready {
            self.accept(executor);
        }
        self.release_held(executor);
        self.release_synced(executor);
        self.retry_waiting(executor);
        self.end_timed_out_waits(executor);
        self.end_delays(executor);
        self.deliver(executor);
        expired_at
    }

    /// Runs expiry in a long iteration. `number` is the number of connections served so far.
    fn expire_in_long_turn(
        &mut self,
        number: usize,
        expired_at: &mut Instant,
        executor: &mut Executor<'_>,
    ) {
        if number % CONNECTIONS_PER_CLOCK_CHECK != CONNECTIONS_PER_CLOCK_CHECK - 1 {
            return;
        }
        let turn = expired_at.elapsed();
        if turn < LONG_TURN {
            return;
        }
        executor.finish();
        executor.set_now(executor.server().clock.now());
        self.expiry_driver.run(executor.server(), turn);
        *expired_at = Instant::now();
    }

    /// Disconnects clients that have hung up and are blocked or held by CLIENT PAUSE. It comes
    /// before the commands of other clients, because these could pass elements to a client that
    /// cannot receive them.
    fn close_vanished(&mut self, events: &Events, executor: &mut Executor<'_>) {
        for event in events.iter() {
            if !(event.is_read_closed() || event.is_error()) {
                continue;
            }
            let Token(index) = event.token();
            let is_held = self.held.contains(&index);
            let is_blocked = |connection: &Connection| is_held || connection.session.is_blocked();
            let connection = self.connections.get(index).and_then(Option::as_deref);
            if connection.is_some_and(is_blocked) {
                self.cut_off(index, executor);
            }
        }
    }

    fn ready(&mut self, index: usize, event: &Event, executor: &mut Executor<'_>) {
        let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) else {
            return;
        };
        let has_hung_up = event.is_read_closed() || event.is_error();
        if has_hung_up {
            connection.hang_up();
        }
        if event.is_writable() && connection.replies.waits_to_write {
            let next = connection.flush(&mut self.scratch);
            self.after(index, next, executor);
        }
        if has_hung_up {
            self.leave(index, executor);
        } else if event.is_readable() {
            self.serve(index, executor);
        }
    }

    fn serve(&mut self, index: usize, executor: &mut Executor<'_>) {
        let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) else {
            return;
        };
        if connection.is_handshaking() {
            if self.handshakes_left == 0 {
                return self.after(index, Next::Again, executor);
            }
            self.handshakes_left -= 1;
        }
        let next = connection.serve(executor, &mut self.scratch);
        if executor.is_turn_spent() {
            // The next connection must not receive what has expired meanwhile.
            executor.set_now(executor.server().clock.now());
        }
        self.after(index, next, executor);
    }

    /// Acts on the event that a connection waits for.
    fn after(&mut self, index: usize, next: Next, executor: &mut Executor<'_>) {
        // This may close the connection.
        self.account(executor);
        let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) else {
            return;
        };
        if connection.begin_feeding() {
            self.replicas.push((index, connection.session.info.id));
        }
        if next != Next::Close && connection.begin_sync() {
            self.syncing.push((index, connection.session.info.id));
            executor.server().persistence.aof.count_held();
        }
        if connection.is_over_limit(&executor.server().config, executor.moment()) {
            connection.report_excess(&executor.server().observability, &executor.server().clock);
            return self.close(index, executor);
        }
        let has_pending = connection.pending_bytes() > 0;
        if has_pending != connection.replies.waits_to_write && next != Next::Close {
            connection.replies.waits_to_write = has_pending;
            let interest = if has_pending {
                Interest::READABLE | Interest::WRITABLE
            } else {
                Interest::READABLE
            };
            let registry = self.poll.registry();
            let registered = registry.reregister(&mut connection.stream, Token(index), interest);
            if registered.is_err() {
                return self.close(index, executor);
            }
        }
        match next {
            Next::Wait => {}
            Next::Again if connection.lists.is_in_again => {}
            Next::Again => {
                connection.lists.is_in_again = true;
                self.again.push(index);
            }
            Next::Waits if connection.lists.is_in_waiting => {}
            Next::Waits => {
                connection.lists.is_in_waiting = true;
                self.waiting.push_back((index, connection.session.info.id));
            }
            Next::Held => {
                self.held.insert(index);
            }
            Next::Delayed(at) => {
                let id = connection.session.info.id;
                self.delayed.insert((at, index, id));
            }
            Next::Blocked => {
                let waiter = connection.session.waiter().cloned();
                if connection.input.may_have_more && !connection.lists.is_in_again {
                    connection.lists.is_in_again = true;
                    self.again.push(index);
                }
                if let Some(waiter) = waiter {
                    self.plan_wait(index, &waiter);
                }
            }
            Next::Close => self.close(index, executor),
        }
    }

    /// Whether the replies of a connection need not be held any longer. If there are connections
    /// whose replies are held, requests to be woken.
    fn has_synced(&self, server: &Server) -> bool {
        if self.syncing.is_empty() {
            return false;
        }
        // The requests come before the comparison, so that no change is missed.
        server.persistence.aof.wait();
        server.cluster.seat.await_change();
        let progress = Progress::of(server);
        let is_over = |(index, id): &(usize, u64)| {
            let connection = self.connections.get(*index).and_then(Option::as_ref);
            connection
                .is_none_or(|c| c.session.info.id != *id || c.verdict(&progress) != Verdict::Waits)
        };
        self.syncing.iter().any(is_over)
    }

    /// Sends the replies that need not be held any longer, and serves their connections again.
    fn release_synced(&mut self, executor: &mut Executor<'_>) {
        if self.syncing.is_empty() {
            return;
        }
        let server = executor.server();
        let progress = Progress::of(server);
        for (index, id) in std::mem::take(&mut self.syncing) {
            let connection = self.connections.get_mut(index).and_then(Option::as_mut);
            let Some(connection) = connection.filter(|c| c.session.info.id == id) else {
                continue;
            };
            let next = match connection.verdict(&progress) {
                Verdict::Waits => {
                    self.syncing.push((index, id));
                    continue;
                }
                Verdict::Over => connection.release_replies(&mut self.scratch),
                Verdict::GivenUp => connection.give_up_replies(server, &mut self.scratch),
            };
            let next = match next {
                Next::Wait if !connection.session.is_blocked() => Next::Again,
                next => next,
            };
            self.after(index, next, executor);
        }
    }

    fn connection(&mut self, index: usize) -> Option<&mut Connection> {
        self.connections.get_mut(index)?.as_deref_mut()
    }

    /// Returns the connection at this index if it still belongs to the client.
    fn client(&mut self, slot: usize, id: u64) -> Option<&mut Connection> {
        let connection = self.connection(slot)?;
        (connection.session.info.id == id).then_some(connection)
    }

    /// Runs a time slice of expiry. Returns whether more is due.
    fn run_expiry(
        &mut self,
        executor: &mut Executor<'_>,
        start: Instant,
        expired_at: Instant,
    ) -> bool {
        let server = executor.server();
        let may_be_due = executor.has_written
            || server.workers.count > 1
            || self.expiry_driver.has_background_work()
            || self.due.is_some_and(|due| due <= server.clock.now());
        if !may_be_due && start < self.periodic_at {
            return false;
        }
        if start >= self.periodic_at {
            self.expiry_driver.request_background_work();
        }
        let is_busy = self.expiry_driver.run(server, expired_at.elapsed());
        executor.has_written = true;
        is_busy
    }

    /// Adds the iteration's traffic to the counters.
    fn count_traffic(&mut self) {
        let traffic = std::mem::take(&mut self.scratch.traffic);
        let stats = &self.server.observability.stats.workers[self.index];
        stats.turns.fetch_add(1, Relaxed);
        for (counter, amount) in [
            (&stats.input_bytes, traffic.input_bytes),
            (&stats.output_bytes, traffic.output_bytes),
            (&stats.reads, traffic.reads),
            (&stats.writes, traffic.writes),
        ] {
            if amount > 0 {
                counter.fetch_add(amount, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests;

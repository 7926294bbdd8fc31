//! A worker: one thread, one readiness loop, the connections that it serves, the shards whose deadlines
//! it keeps.
//!
//! A turn of the loop: wait for readiness (until the earliest deadline), serve each ready connection,
//! deliver messages of other workers, spend a slice on expiry. The time is read once a turn, and again
//! when a turn takes longer than a millisecond.

mod waits;

use crate::clock::Moment;
use crate::config::Id;
use crate::dispatch::Executor;
use crate::expiry::ExpiryDriver;
use crate::inbox;
use crate::message::Message;
use crate::message::Speech;
use crate::net::connection::{Connection, Next, Scratch};
use crate::net::listener::{Accepted, FIRST_LISTENER, LISTENERS_MAX, Listeners};
use crate::session::Session;
use crate::state::Server;
use mio::event::Event;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token, Waker};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use store::Tick;

/// The inbox's token; listeners count down from the one below, connections up from 0.
const WAKER: Token = Token(usize::MAX - 1);
/// Readiness events taken at once.
const EVENTS_MAX: usize = 1024;
/// Chores come round so often, and a jump of the clock is noticed so soon.
const CHORES: Duration = Duration::from_millis(100);
/// How long a shard is left alone that was due and had nothing.
const BOUNCE: Duration = Duration::from_millis(1);
/// Connections served between two looks at the clock within a turn.
const LOOK_EVERY: usize = 4;
/// After so long within one turn the time is read again, and what is due is looked at.
const TURN_LOOK: Duration = Duration::from_millis(1);

/// One thread's loop.
pub struct Worker {
    index: usize,
    server: Arc<Server>,
    poll: Poll,
    listeners: Listeners,
    connections: Vec<Option<Box<Connection>>>,
    free: Vec<usize>,
    /// To be served again without readiness.
    again: Vec<usize>,
    /// Held by CLIENT PAUSE.
    held: Vec<usize>,
    /// Those that wait for a key for some time only, by the end of that time: place and id.
    waits: BTreeSet<(Moment, usize, u64)>,
    /// Messages have been added to their output.
    touched: Vec<usize>,
    messages: Vec<Message>,
    scratch: Scratch,
    expiry_driver: ExpiryDriver,
    /// The earliest moment at which a shard wants to run, as it was last asked.
    due: Option<Tick>,
    /// More is due now than the last turn had time for.
    is_busy: bool,
    chores_at: Instant,
    chores_count: u64,
}

impl Worker {
    /// A worker; the first one is given the listeners, and shares what it accepts with the others.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn new(server: Arc<Server>, index: usize, mut listeners: Listeners) -> io::Result<Worker> {
        let poll = Poll::new()?;
        listeners.register(poll.registry())?;
        server.inboxes[index].set_waker(Waker::new(poll.registry(), WAKER)?);
        let expiry_driver = ExpiryDriver::new(&server, index);
        Ok(Worker {
            index,
            server,
            poll,
            listeners,
            connections: Vec::new(),
            free: Vec::new(),
            again: Vec::new(),
            held: Vec::new(),
            waits: BTreeSet::new(),
            touched: Vec::new(),
            messages: Vec::new(),
            scratch: Scratch::default(),
            expiry_driver,
            due: None,
            is_busy: false,
            chores_at: Instant::now(),
            chores_count: 0,
        })
    }

    /// Serves until the server is asked to stop.
    ///
    /// # Errors
    /// What the operating system says about the poll.
    pub fn run(&mut self) -> io::Result<()> {
        inbox::enter(self.index);
        let server = Arc::clone(&self.server);
        let mut executor = Executor::new(&server, self.index, server.clock.now());
        executor.has_written = true;
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !server.stops() {
            self.step(&mut events, &mut executor)?;
        }
        self.close_all(&mut executor);
        Ok(())
    }

    /// Waits until there is something to do, and does it.
    fn step(&mut self, events: &mut Events, executor: &mut Executor<'_>) -> io::Result<()> {
        let timeout = self.timeout(executor);
        if let Err(error) = self.poll.poll(events, Some(timeout))
            && error.kind() != ErrorKind::Interrupted
        {
            return Err(error);
        }
        let server = executor.server();
        server.inboxes[self.index].plan(0);
        let start = Instant::now();
        executor.set_now(server.clock.now());
        let looked = self.turn(events, executor, start);
        executor.finish();
        self.is_busy = self.tend_deadlines(executor, start, looked);
        if start >= self.chores_at {
            self.chores(executor, start);
        }
        // Events of the last batch and of deadlines go out now, not when the worker wakes again.
        self.deliver(executor);
        executor.finish();
        self.tally();
        Ok(())
    }

    /// How long to wait for readiness.
    fn timeout(&mut self, executor: &mut Executor<'_>) -> Duration {
        let server = executor.server();
        // With several workers, others write to these shards too.
        if executor.has_written
            || server.threads > 1
            || self.due.is_some_and(|due| due <= executor.now())
        {
            executor.has_written = false;
            self.due = self.expiry_driver.earliest(server);
        }
        let inbox = &server.inboxes[self.index];
        if self.is_busy || inbox.is_filled() || !self.again.is_empty() || self.listeners.is_ready {
            return Duration::ZERO;
        }
        if server.threads > 1 {
            let plan = |due: Option<Tick>| due.map_or(u64::MAX, |due| due.0.max(1));
            inbox.plan(plan(self.due));
            // Between the look and the plan another worker may have written an earlier one.
            self.due = self.expiry_driver.earliest(server);
            inbox.plan(plan(self.due));
            if inbox.is_filled() {
                return Duration::ZERO;
            }
        }
        let mut timeout = self.chores_at.saturating_duration_since(Instant::now());
        let span = |tick: Tick| {
            let now_us = server.clock.now_us();
            Duration::from_micros(tick.0.saturating_mul(1000).saturating_sub(now_us))
        };
        if let Some(due) = self.due {
            let least = if self.expiry_driver.is_shard_busy() {
                BOUNCE
            } else {
                Duration::ZERO
            };
            timeout = timeout.min(span(due).max(least));
        }
        let now = server.clock.moment();
        if !self.held.is_empty()
            && let Some(end) = server.pause.until(now)
        {
            timeout = timeout.min(Duration::from_millis(end.since(now)));
        }
        if let Some((deadline, _, _)) = self.waits.first() {
            timeout = timeout.min(Duration::from_millis(deadline.since(now) + 1));
        }
        timeout
    }

    /// Serves what is ready.
    /// Serves who is ready; when deadlines were last looked at.
    fn turn(&mut self, events: &Events, executor: &mut Executor<'_>, start: Instant) -> Instant {
        let mut looked = start;
        let again = std::mem::take(&mut self.again);
        for (number, index) in again.into_iter().enumerate() {
            if let Some(connection) = self.connection(index) {
                connection.is_listed = false;
                self.serve(index, executor);
            }
            self.look(number, &mut looked, executor);
        }
        for (number, event) in events.iter().enumerate() {
            match event.token() {
                WAKER => {}
                Token(token) if token > FIRST_LISTENER - LISTENERS_MAX => {
                    self.listeners.is_ready = true;
                }
                Token(index) => self.ready(index, event, executor),
            }
            self.look(number, &mut looked, executor);
        }
        if self.listeners.is_ready {
            self.accept(executor);
        }
        self.release_held(executor);
        self.end_waits(executor);
        self.deliver(executor);
        looked
    }

    /// A long turn keeps deadlines too: after the connection of this number in it.
    fn look(&mut self, number: usize, looked: &mut Instant, executor: &mut Executor<'_>) {
        if number % LOOK_EVERY != LOOK_EVERY - 1 {
            return;
        }
        let turn = looked.elapsed();
        if turn < TURN_LOOK {
            return;
        }
        executor.finish();
        executor.set_now(executor.server().clock.now());
        self.expiry_driver.run(executor.server(), turn);
        *looked = Instant::now();
    }

    fn ready(&mut self, index: usize, event: &Event, executor: &mut Executor<'_>) {
        let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) else {
            return;
        };
        if event.is_read_closed() || event.is_error() {
            connection.hang_up();
        }
        if event.is_writable() && connection.waits_to_write {
            let next = connection.flush(&mut self.scratch);
            self.after(index, next, executor);
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            self.serve(index, executor);
        }
    }

    fn serve(&mut self, index: usize, executor: &mut Executor<'_>) {
        let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) else {
            return;
        };
        let next = connection.serve(executor, &mut self.scratch);
        self.after(index, next, executor);
    }

    /// Does what a connection asks for.
    fn after(&mut self, index: usize, next: Next, executor: &mut Executor<'_>) {
        let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) else {
            return;
        };
        let has_pending = connection.pending_bytes() > 0;
        if has_pending && connection.is_over_limit(executor.server(), executor.moment()) {
            let stats = &executor.server().stats;
            stats.output_limit_disconnections.fetch_add(1, Relaxed);
            log::warn!(
                "client {} ({}) exceeds client-output-buffer-limit with {} bytes and is closed",
                connection.session.info.id,
                connection.session.info.address,
                connection.pending_bytes()
            );
            return self.close(index, executor);
        }
        if has_pending != connection.waits_to_write && next != Next::Close {
            connection.waits_to_write = has_pending;
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
            Next::Again if connection.is_listed => {}
            Next::Again => {
                connection.is_listed = true;
                self.again.push(index);
            }
            Next::Held if self.held.contains(&index) => {}
            Next::Held => self.held.push(index),
            Next::Blocked => {
                let waiter = connection.session.waiter();
                if let Some(deadline) = waiter.and_then(|waiter| waiter.deadline) {
                    let id = connection.session.info.id;
                    self.waits.insert((deadline, index, id));
                }
            }
            Next::Close => self.close(index, executor),
        }
    }

    fn close(&mut self, index: usize, executor: &mut Executor<'_>) {
        let Some(mut connection) = self.connections[index].take() else {
            return;
        };
        let _ = self.poll.registry().deregister(&mut connection.stream);
        connection.release(&mut self.scratch);
        self.forget_wait(index, &connection.session);
        executor.forget(&mut connection.session);
        let server = executor.server();
        server.clients.remove(connection.session.info.id);
        server.clients.release();
        server.stats.workers[self.index]
            .connections
            .fetch_sub(1, Relaxed);
        self.held.retain(|held| *held != index);
        self.again.retain(|again| *again != index);
        self.touched.retain(|touched| *touched != index);
        self.free.push(index);
    }

    fn accept(&mut self, executor: &mut Executor<'_>) {
        let server = Arc::clone(&self.server);
        let mut accepted = Vec::new();
        self.listeners.accept(&server, &mut accepted);
        for Accepted {
            speech,
            stream,
            address,
        } in accepted
        {
            let connections =
                |worker: usize| server.stats.workers[worker].connections.load(Relaxed);
            let worker = (0..server.threads)
                .min_by_key(|worker| connections(*worker))
                .unwrap_or(self.index);
            server.stats.workers[worker]
                .connections
                .fetch_add(1, Relaxed);
            if worker == self.index {
                self.adopt(stream, address, speech, executor);
            } else {
                server.inboxes[worker].push(worker, Message::Adopt(stream, address, speech));
            }
        }
    }

    /// Starts to serve a connection.
    fn adopt(
        &mut self,
        mut stream: TcpStream,
        address: SocketAddr,
        speech: Speech,
        executor: &mut Executor<'_>,
    ) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        let registry = self.poll.registry();
        let registered = registry.register(&mut stream, Token(index), Interest::READABLE);
        let server = executor.server();
        if let Err(error) = registered {
            log::warn!("a connection from {address} could not be registered: {error}");
            server.clients.release();
            server.stats.workers[self.index]
                .connections
                .fetch_sub(1, Relaxed);
            self.free.push(index);
            return;
        }
        let place = self.listeners.place(&stream, address, self.index, index);
        let info = server.clients.add(place, executor.moment());
        let mut session = Session::of(info);
        session.is_authenticated = !server.needs_password();
        let mut connection = Connection::new(stream, session);
        if speech == Speech::Memcached {
            connection.speak_memcached();
        }
        self.connections[index] = Some(Box::new(connection));
        // What came before the registration makes no event of its own on every system.
        self.serve(index, executor);
    }

    /// Lets those go on that CLIENT PAUSE held.
    fn release_held(&mut self, executor: &mut Executor<'_>) {
        if self.held.is_empty() || executor.server().pause.until(executor.moment()).is_some() {
            return;
        }
        for index in std::mem::take(&mut self.held) {
            self.serve(index, executor);
        }
    }

    /// Does what other workers have asked for, and this one's own commands.
    fn deliver(&mut self, executor: &mut Executor<'_>) {
        let server = executor.server();
        if !server.inboxes[self.index].is_filled() {
            return;
        }
        let mut messages = std::mem::take(&mut self.messages);
        server.inboxes[self.index].take(&mut messages);
        for message in messages.drain(..) {
            match message {
                Message::Adopt(stream, address, speech) => {
                    self.adopt(stream, address, speech, executor);
                }
                Message::Deliver(to, publication, pattern) => {
                    let Some(connection) = self.client(to.slot, to.client) else {
                        continue;
                    };
                    if connection.session.is_closing {
                        continue;
                    }
                    let was_idle = connection.pending_bytes() == 0;
                    connection.deliver(&publication, pattern.as_deref());
                    if was_idle {
                        self.touched.push(to.slot);
                    } else if connection.is_over_limit(server, executor.moment()) {
                        self.after(to.slot, Next::Wait, executor);
                    }
                }
                Message::Answer(slot, client, reply) => {
                    self.answer(slot, client, &reply, executor);
                }
                Message::Kill(slot, client) => {
                    if self.client(slot, client).is_some() {
                        self.close(slot, executor);
                    }
                }
            }
        }
        self.messages = messages;
        for index in std::mem::take(&mut self.touched) {
            if let Some(connection) = self.connections[index].as_mut() {
                let next = connection.flush(&mut self.scratch);
                self.after(index, next, executor);
            }
        }
    }

    fn connection(&mut self, index: usize) -> Option<&mut Connection> {
        self.connections.get_mut(index)?.as_deref_mut()
    }

    /// The connection at this place, if it is still that client's.
    fn client(&mut self, slot: usize, id: u64) -> Option<&mut Connection> {
        let connection = self.connection(slot)?;
        (connection.session.info.id == id).then_some(connection)
    }

    /// A slice of expiry; whether more is due now.
    fn tend_deadlines(
        &mut self,
        executor: &mut Executor<'_>,
        start: Instant,
        looked: Instant,
    ) -> bool {
        let server = executor.server();
        let may_be_due = executor.has_written
            || server.threads > 1
            || self.due.is_some_and(|due| due <= server.clock.now());
        if !may_be_due && start < self.chores_at {
            return false;
        }
        if start >= self.chores_at {
            self.expiry_driver.ask_tending();
        }
        let is_busy = self.expiry_driver.run(server, looked.elapsed());
        executor.has_written = true;
        is_busy
    }

    /// What comes round every 100 ms.
    fn chores(&mut self, executor: &mut Executor<'_>, now: Instant) {
        self.chores_at = now + CHORES;
        self.chores_count += 1;
        let server = executor.server();
        if self.index == 0 {
            server.stats.sample_rates(server.clock.now_us());
            server.used_bytes();
            self.flush_at(executor);
        }
        // After a failure to accept, for want of file descriptors say.
        if self.listeners.has_failed {
            self.accept(executor);
        }
        if self.chores_count.is_multiple_of(10) {
            self.look_at_clients(executor);
        }
    }

    /// Empties memcached's database when the delay of a `flush_all` is over.
    fn flush_at(&mut self, executor: &mut Executor<'_>) {
        let server = executor.server();
        let at_ms = server.flush_at_ms.load(Relaxed);
        if at_ms == 0 || server.clock.now().0 < at_ms {
            return;
        }
        executor.finish();
        // Another worker may have been given a new delay meanwhile: that one stands.
        let taken = server
            .flush_at_ms
            .compare_exchange(at_ms, 0, Relaxed, Relaxed);
        if taken.is_ok() {
            server.flush(crate::memcached::DATABASE, server.clock.now());
        }
    }

    /// Closes idle clients and those too slow to read, once a second.
    fn look_at_clients(&mut self, executor: &mut Executor<'_>) {
        let server = executor.server();
        let timeout_ms = server.config.number(Id::Timeout) as u64 * 1000;
        let now = executor.moment();
        for index in 0..self.connections.len() {
            let Some(connection) = self.connections[index].as_mut() else {
                continue;
            };
            let active = Moment(connection.session.info.active_ms.load(Relaxed));
            let is_idle = timeout_ms > 0
                && !connection.session.waits()
                && now.since(active) > timeout_ms
                && !connection.session.is_subscriber();
            if is_idle {
                self.close(index, executor);
            } else if connection.pending_bytes() > 0 {
                self.after(index, Next::Wait, executor);
            }
        }
    }

    /// Adds the turn's tally to the counters.
    fn tally(&mut self) {
        let tally = std::mem::take(&mut self.scratch.tally);
        let stats = &self.server.stats.workers[self.index];
        stats.turns.fetch_add(1, Relaxed);
        for (counter, amount) in [
            (&stats.input_bytes, tally.input_bytes),
            (&stats.output_bytes, tally.output_bytes),
            (&stats.reads, tally.reads),
            (&stats.writes, tally.writes),
        ] {
            if amount > 0 {
                counter.fetch_add(amount, Relaxed);
            }
        }
        if tally.held_bytes != 0 {
            stats
                .buffer_bytes
                .fetch_add(tally.held_bytes as u64, Relaxed);
        }
    }

    fn close_all(&mut self, executor: &mut Executor<'_>) {
        for index in 0..self.connections.len() {
            if let Some(connection) = self.connections[index].as_mut() {
                connection.flush(&mut self.scratch);
                self.close(index, executor);
            }
        }
    }
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;

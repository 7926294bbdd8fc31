//! Tasks of a worker that are due every 100 ms or every second.

use super::{PERIODIC_INTERVAL, Worker};
use crate::aof::work as aof;
use crate::command::{self, tracking};
use crate::dispatch::Executor;
use crate::net::connection::Next;
use crate::replication::{failover, primary};
use crate::saving::work as saving;
use crate::state::Workers;
use crate::{doctor, effects};
use session::clock::Moment;
use session::notices::Kind;
use settings::{Id, process};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Maximum duration of a TLS handshake in milliseconds.
const HANDSHAKE_MS_MAX: u64 = 10_000;

impl Worker {
    /// Runs the tasks that are due every 100 ms.
    pub(super) fn run_periodic_tasks(&mut self, executor: &mut Executor<'_>, now: Instant) {
        self.periodic_at = now + PERIODIC_INTERVAL;
        self.periodic_count += 1;
        self.searched_at_bytes = 0;
        let server = executor.server();
        let alive_ms = &server.observability.stats.workers[self.index].alive_ms;
        alive_ms.store(server.clock.moment().0, Relaxed);
        if self.index == 0 {
            server
                .observability
                .stats
                .sample_rates(server.clock.now_us());
            server.sample_peak();
            saving::check_points(server);
            aof::check(server);
            let is_second = self.periodic_count.is_multiple_of(10);
            primary::check(server, is_second);
            failover::check(server);
            let period = 10 * server.config.number(Id::ReplPingPeriod) as u64;
            if self.periodic_count.is_multiple_of(period) {
                primary::ping(server);
            }
        }
        if self.index == 0 && server.cluster.is_routed() {
            // Those that have waited for too long get an error.
            server.workers.long.request_retries();
        }
        if server.clients.tracking.is_on() {
            executor.finish();
            let shards =
                (self.index..server.data.keyspace.shard_count()).step_by(server.workers.count);
            shards.for_each(|shard| {
                tracking::limit(
                    &server.clients,
                    &server.workers,
                    &server.config,
                    &server.data.keyspace,
                    shard,
                    executor.now(),
                )
            });
        }
        if self.index == 0 && self.periodic_count.is_multiple_of(10) {
            self.follow_memory_limit(executor);
            self.name_queues(executor);
        }
        // Accepting may have failed for lack of file descriptors.
        if self.listeners.has_failed {
            self.accept(executor);
        }
        if self.periodic_count.is_multiple_of(10) {
            server.scripting.free_removed();
            self.check_clients(executor);
        }
    }

    /// Logs once that keys which clients use as queues may be evicted.
    fn name_queues(&mut self, executor: &Executor<'_>) {
        if !self.has_named_queues
            && let Some(text) = doctor::queues_at_risk(executor.server(), command::table())
        {
            log::warn!("{text}");
            self.has_named_queues = true;
        }
    }

    /// Applies `maxmemory` again if it is a share of a limit that has changed. Only in that case,
    /// it reads files.
    fn follow_memory_limit(&mut self, executor: &mut Executor<'_>) {
        let server = executor.server();
        if server.config.number(Id::MaxMemory) >= 0
            || !server.config.set_memory_limit(process::memory_limit())
        {
            return;
        }
        executor.finish();
        let bytes = server.config.maxmemory_bytes();
        server.apply_maxmemory();
        match server.data.engine().allow_change() {
            Ok(()) => log::info!("the memory limit has changed: maxmemory is {bytes} bytes"),
            Err(error) => log::warn!("the memory limit has changed: maxmemory {error}"),
        }
    }

    /// Empties memcached's database if the delay of a `flush_all` has passed and writes are not
    /// held. Each worker does so before it serves clients, so that none reads an item later. Waits
    /// for a long command with a ticket, like a client. A server that has become a replica forgets
    /// it, because its primary decides what is deleted.
    pub(super) fn flush_at(&mut self, executor: &mut Executor<'_>) {
        let server = executor.server();
        let at_ms = server.data.flush_at_ms.load(Relaxed);
        // It waits for the end of the moves, for which long commands need not wait.
        let is_held = || {
            server.cluster.moves.is_active() || server.data.pause.until(executor.moment()).is_some()
        };
        if at_ms == 0 || server.clock.now().0 < at_ms || is_held() {
            return self.end_flush_wait(&server.workers);
        }
        executor.finish();
        let (db, now) = (crate::memcached::DATABASE, server.clock.now());
        // If another worker has set a new delay in the meantime, that one remains.
        let take = || {
            let flush_at_ms = &server.data.flush_at_ms;
            let taken = flush_at_ms.compare_exchange(at_ms, 0, Relaxed, Relaxed);
            taken.is_ok() && !server.replication.is_replica()
        };
        if server.data.segments.is_some() {
            if take() {
                server.data.engine().clear(db, now);
            }
        } else if !effects::flush(server, db, now, take) {
            self.flush_ticket = Some(server.workers.long.wait(self.flush_ticket));
            return;
        }
        self.end_flush_wait(&server.workers);
    }

    /// Lets long commands begin that a delayed `flush_all` has kept waiting.
    fn end_flush_wait(&mut self, workers: &Workers) {
        if let Some(ticket) = self.flush_ticket.take()
            && workers.long.leave(ticket)
        {
            workers.wake_all();
        }
    }

    /// Closes idle clients and clients that read too slowly. Runs once per second.
    pub(super) fn check_clients(&mut self, executor: &mut Executor<'_>) {
        let server = executor.server();
        let timeout_ms = server.config.number(Id::Timeout) as u64 * 1000;
        let now = executor.moment();
        for index in 0..self.connections.len() {
            let Some(connection) = self.connections[index].as_mut() else {
                continue;
            };
            let active = Moment(connection.session.info.active_ms.load(Relaxed));
            let is_idle = timeout_ms > 0
                && !connection.session.is_blocked()
                && now.since(active) > timeout_ms
                && !connection.session.is_subscriber();
            let is_late = connection.is_handshaking()
                && now.since(connection.session.info.created) > HANDSHAKE_MS_MAX;
            if is_late {
                let info = &connection.session.info;
                let (id, address) = (info.id, &info.address);
                server.observability.notices.warn(
                    Kind::Handshake,
                    now,
                    format_args!(
                        "client {id} ({address}): the TLS handshake failed: it took longer than {} s",
                        HANDSHAKE_MS_MAX / 1000
                    ),
                );
            }
            if is_idle || is_late {
                self.cut_off(index, executor);
            } else if connection.pending_bytes() > 0 {
                self.after(index, Next::Wait, executor);
            }
        }
    }
}

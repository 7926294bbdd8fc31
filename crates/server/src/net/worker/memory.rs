//! Memory of the clients together: the published sum, and the eviction of clients when it exceeds
//! `maxmemory-clients`.

use super::Worker;
use crate::dispatch::Executor;
use session::clients::{ClientInfo, flag};
use session::message::Message;
use session::notices::Kind;
use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Minimum change of the connections' bytes that a worker publishes immediately. A smaller one is
/// published at the end of the iteration, so that workers do not write to one cache line with every
/// request.
const UNPUBLISHED_BYTES_MAX: u64 = 64 << 10;
/// Divisor of the limit that gives the share that clients without NO-EVICT may hold in any case.
const SHARE_OF_OTHERS: u64 = 8;
/// Growth of the sum after which clients are searched again, if the last search did not free
/// enough.
const SEARCH_STEP_BYTES: u64 = 1 << 20;

impl Worker {
    /// Publishes the change of the connections' bytes if it is large, and evicts clients if their
    /// total exceeds its limit.
    #[inline]
    pub(super) fn account(&mut self, executor: &mut Executor<'_>) {
        if self.scratch.traffic.held_bytes.unsigned_abs() >= UNPUBLISHED_BYTES_MAX {
            self.publish_memory();
            self.evict_clients(executor);
        }
    }

    /// Publishes the change of the connections' bytes.
    pub(super) fn publish_memory(&mut self) {
        let change = std::mem::take(&mut self.scratch.traffic.held_bytes);
        if change != 0 {
            self.server.data.keyspace.add_outside_bytes(change);
        }
    }

    /// Disconnects the clients with the most memory until the rest is within `maxmemory-clients`.
    pub(super) fn evict_clients(&mut self, executor: &mut Executor<'_>) {
        let limit = self.server.config.client_bytes_max();
        let keyspace = &self.server.data.keyspace;
        keyspace.set_outside_bytes_max(limit.unwrap_or(0));
        let Some(limit) = limit else {
            return;
        };
        let sum = self.server.data.client_bytes();
        if sum <= limit {
            self.searched_at_bytes = 0;
        } else if sum >= self.searched_at_bytes {
            self.searched_at_bytes = sum + SEARCH_STEP_BYTES;
            self.evict(limit, executor);
            self.publish_memory();
        }
    }

    /// Disconnects the clients with the most memory until the rest is within `limit`.
    ///
    /// Clients with NO-EVICT count, too. The others may hold a share of the limit in any case,
    /// because otherwise one protected client could cause all of them to be disconnected.
    fn evict(&mut self, limit: u64, executor: &mut Executor<'_>) {
        let server = executor.server();
        let mut clients = server.clients.registry.list();
        // Clients that another thread has selected are closed now, because their message waits
        // until the end of this iteration.
        for info in clients.extract_if(.., |info| info.is_killed()) {
            if info.worker == self.index {
                self.end_client(&info, executor);
            }
        }
        let (mut protected, mut held) = (0, 0);
        for info in &clients {
            let sum = if is_protected(info) {
                &mut protected
            } else {
                &mut held
            };
            *sum += held_by(info);
        }
        let budget = limit.saturating_sub(protected).max(limit / SHARE_OF_OTHERS);
        clients.retain(|info| !is_protected(info));
        clients.sort_by_cached_key(|info| Reverse(held_by(info)));
        for info in clients {
            if held <= budget {
                return;
            }
            if !info.kill() {
                continue;
            }
            let bytes = held_by(&info);
            held = held.saturating_sub(bytes);
            server
                .observability
                .stats
                .evicted_clients
                .fetch_add(1, Relaxed);
            server.observability.notices.warn(
                Kind::Closed,
                server.clock.moment(),
                format_args!(
                    "evicting client {} ({}), which holds {bytes} bytes: all clients together exceed maxmemory-clients",
                    info.id, info.address
                ),
            );
            self.end_client(&info, executor);
        }
    }

    /// Closes a connection of this worker immediately, or requests another worker to close its own.
    fn end_client(&mut self, info: &Arc<ClientInfo>, executor: &mut Executor<'_>) {
        if info.worker != self.index {
            let inbox = &executor.server().workers.inboxes[info.worker];
            inbox.push(info.worker, Message::Kill(info.slot, info.id));
        } else if self.client(info.slot, info.id).is_some() {
            self.close(info.slot, executor);
        }
    }
}

fn held_by(info: &ClientInfo) -> u64 {
    info.memory_bytes.load(Relaxed)
}

fn is_protected(info: &ClientInfo) -> bool {
    info.flags.load(Relaxed) & flag::NO_EVICT != 0
}

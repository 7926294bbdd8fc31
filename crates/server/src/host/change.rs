//! Failovers that are requested: the primary holds writes until the replica has all of them, hands
//! the shard over in one transaction, and becomes a replica. No write is lost.
//!
//! The request is a record, so that an operator, the replica and the primary see the same one. The
//! primary removes it, whether the shard changes hands or not.

use super::{Host, Message};
use crate::effects;
use crate::state::Server;
use ::cluster::{Action, Instant, Name};
use membership::kv::{Failure, Guard, Kv, Write};
use membership::records::{FAILOVERS, encode_failover};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Maximum time in milliseconds for which writes are held. A replica that follows needs a few.
const HOLD_MS_MAX: u64 = 2_000;

/// A failover that this primary carries out.
#[derive(Debug)]
pub(super) struct Change {
    shard: Name,
    to: Name,
    /// Revision of the request.
    request: i64,
    deadline: Instant,
    /// Whether the transaction was sent.
    is_sent: bool,
}

impl<K: Kv> Host<K> {
    /// Begins, continues or ends a failover.
    pub(super) fn pursue_change(&mut self, now: Instant) {
        self.request_change();
        match self.change.take() {
            Some(change) => self.continue_change(change, now),
            None => self.begin_change(now),
        }
    }

    /// Writes the request of a client of this replica.
    fn request_change(&mut self) {
        let seat = &self.server.cluster.seat;
        if !seat.wants_failover.swap(false, Relaxed) {
            return;
        }
        let shard = seat.place().as_ref().map(|place| place.shard);
        let (Some(shard), Some(config)) = (shard, self.directory.config()) else {
            return;
        };
        let value = encode_failover(self.me, config.cluster);
        let writes = vec![Write::Put(format!("{FAILOVERS}{shard}"), value, None)];
        let kv = Arc::clone(&self.kv);
        let task = async move { kv.commit(Vec::new(), writes).await };
        self.spawn(task, Message::Requested);
    }

    pub(super) fn requested(&mut self, result: Result<Option<i64>, Failure>) {
        if let Err(failure) = result {
            log::warn!("cluster: the request for a failover: {failure}");
        }
    }

    fn begin_change(&mut self, now: Instant) {
        let (shard, to, request) = {
            let mut place = self.server.cluster.seat.place();
            let Some(place) = place.as_mut().filter(|place| place.member.serves(now)) else {
                return;
            };
            let Some((to, request)) = self.directory.failover(place.shard) else {
                return;
            };
            let number = place.numbers.of(to);
            if to == self.me {
                // Its former primary removes the request.
                return;
            }
            if !place.member.record().value.in_sync.contains(&number) {
                log::warn!("cluster: node {to} cannot become the primary: it is not in sync");
                let shard = place.shard;
                return self.remove_request(shard, request);
            }
            (place.shard, to, request)
        };
        log::info!("cluster: writes are held until node {to} has all of them");
        hold(&self.server);
        // The last request before the change: later bytes would not be in the replica's history.
        self.ask_soon();
        self.lead(now);
        self.change = Some(Change {
            shard,
            to,
            request,
            deadline: now.after(HOLD_MS_MAX),
            is_sent: false,
        });
    }

    fn continue_change(&mut self, mut change: Change, now: Instant) {
        let mut actions = Vec::new();
        let is_over = {
            let seat = &self.server.cluster.seat;
            let mut place = seat.place();
            let Some(place) = place.as_mut() else {
                return;
            };
            if place.member.is_primary()
                && !change.is_sent
                && !self.server.workers.long.is_running()
            {
                let (to, end) = (place.numbers.of(change.to), self.server.feed.end());
                // Afterwards, replies that still wait are given up.
                let waits = seat.is_sync() && place.confirm(end).position < end;
                place.member.wrote(end);
                if !waits {
                    actions = place.member.hand_over(to, now);
                }
                change.is_sent = has_transaction(&actions);
            }
            // Once it was sent, the outcome is known before anything is served.
            let is_settled = place.member.serves(now) || !place.member.is_primary();
            is_settled && change.is_sent && actions.is_empty() || now >= change.deadline
        };
        self.send(actions);
        if !is_over {
            self.change = Some(change);
            return;
        }
        self.reconcile(now);
        self.server.cluster.seat.is_changing.store(false, Relaxed);
        self.server.data.hold_for_failover(false);
        self.server.workers.wake_all();
        let has_moved = self.server.replication.is_replica();
        match has_moved {
            true => log::info!("cluster: node {} is the primary now", change.to),
            false => log::warn!("cluster: node {} did not become the primary", change.to),
        }
        self.remove_request(change.shard, change.request);
    }

    fn remove_request(&self, shard: Name, request: i64) {
        let key = format!("{FAILOVERS}{shard}");
        let guards = vec![Guard::Revision(key.clone(), request)];
        let kv = Arc::clone(&self.kv);
        let task = async move { kv.commit(guards, vec![Write::Delete(key)]).await };
        self.spawn(task, Message::Requested);
    }
}

/// Holds writes. When this returns, the effects of all earlier ones are in the feed.
fn hold(server: &Server) {
    server.cluster.seat.is_changing.store(true, Relaxed);
    server.data.hold_for_failover(true);
    let mut view = server.data.keyspace.lock_all(server.clock.now());
    if server.feed.is_on() {
        effects::add_all_removals(&server.data.keyspace, &server.feed, &mut view);
    }
}

/// Whether a transaction is among actions.
fn has_transaction(actions: &[Action]) -> bool {
    actions
        .iter()
        .any(|action| matches!(action, Action::Send(_)))
}

//! Failovers that are requested: the primary waits until the replica is near, holds writes until it
//! has all of them, hands the shard over in one transaction, and becomes a replica. No write is
//! lost.
//!
//! The request is a record, so that an operator, the replica and the primary see the same one. The
//! primary removes it, whether the shard changes hands or not.

use super::{Host, Message};
use crate::cluster::install;
use crate::effects;
use crate::state::Server;
use ::cluster::{Action, Instant, Name};
use membership::kv::{Failure, Guard, Kv, Write};
use membership::records::{FAILOVERS, encode_failover};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Maximum time in milliseconds for which a replica that does not follow is awaited. Writes are not
/// held meanwhile.
const WAIT_MS_MAX: u64 = 2_000;

/// Maximum time in milliseconds for which writes are held. A replica that follows needs a few.
const HOLD_MS_MAX: u64 = 2_000;

/// A failover that this primary carries out.
#[derive(Debug)]
pub(super) struct Change {
    shard: Name,
    to: Name,
    /// Revision of the request.
    request: i64,
    /// End of the step.
    deadline: Instant,
    step: Step,
}

/// Step of a failover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The replica cannot take over at once.
    Waits,
    /// Writes are held.
    Holds,
    /// The transaction was sent.
    Sent,
}

impl Change {
    /// Whether writes are held.
    pub(super) fn holds(&self) -> bool {
        self.step != Step::Waits
    }

    /// Whether the transaction was sent.
    pub(super) fn is_sent(&self) -> bool {
        self.step == Step::Sent
    }
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
            self.removed_request = 0;
        }
    }

    fn begin_change(&mut self, now: Instant) {
        let (shard, to, request, is_in_sync) = {
            let mut place = self.server.cluster.seat.place();
            let Some(place) = place.as_mut().filter(|place| place.member.serves(now)) else {
                return;
            };
            let Some((to, request)) = self.directory.failover(place.shard) else {
                return;
            };
            if request == self.removed_request {
                // It must not be carried out again before the directory reads its removal.
                return;
            }
            let number = place.numbers.of(to);
            if to == self.me {
                // Its former primary removes the request.
                return;
            }
            let is_in_sync = place.member.record().value.in_sync.contains(&number);
            (place.shard, to, request, is_in_sync)
        };
        if !is_in_sync {
            log::warn!("cluster: node {to} cannot become the primary: it is not in sync");
            return self.remove_request(shard, request);
        }
        let change = Change {
            shard,
            to,
            request,
            deadline: now.after(WAIT_MS_MAX),
            step: Step::Waits,
        };
        self.await_replica(change, now);
    }

    fn continue_change(&mut self, change: Change, now: Instant) {
        match change.step {
            Step::Waits => self.await_replica(change, now),
            Step::Holds | Step::Sent => self.hand_over(change, now),
        }
    }

    /// Holds writes as soon as the replica can take over, or gives the failover up.
    fn await_replica(&mut self, mut change: Change, now: Instant) {
        let is_primary = {
            let place = self.server.cluster.seat.place();
            place.as_ref().is_some_and(|place| place.member.serves(now))
        };
        if is_primary && self.can_take_over(change.to) {
            log::info!(
                "cluster: writes are held until node {} has all of them",
                change.to
            );
            hold(&self.server);
            // The last request before the change: later bytes would not be in the history of the
            // replica.
            self.ask_soon();
            self.lead(now);
            (change.step, change.deadline) = (Step::Holds, now.after(HOLD_MS_MAX));
        } else if !is_primary || now >= change.deadline {
            log::warn!(
                "cluster: node {} did not become the primary: it does not follow this node, or this node no longer serves",
                change.to
            );
            return self.remove_request(change.shard, change.request);
        }
        self.change = Some(change);
    }

    fn hand_over(&mut self, mut change: Change, now: Instant) {
        let can_take_over = self.can_take_over(change.to);
        let mut actions = Vec::new();
        let is_over = {
            let seat = &self.server.cluster.seat;
            let mut place = seat.place();
            let Some(place) = place.as_mut() else {
                return;
            };
            if place.member.is_primary()
                && !change.is_sent()
                && can_take_over
                && !self.server.workers.long.is_running()
            {
                let (to, end) = (place.numbers.of(change.to), self.server.feed.end());
                // Afterwards, replies that still wait are given up.
                let waits = seat.is_sync() && place.confirm(end).position < end;
                place.member.wrote(end);
                if !waits {
                    actions = place.member.hand_over(to, now);
                }
                if has_transaction(&actions) {
                    change.step = Step::Sent;
                }
            }
            // Once it was sent, the outcome is known before anything is served.
            let is_settled = place.member.serves(now) || !place.member.is_primary();
            is_settled && change.is_sent() && actions.is_empty() || now >= change.deadline
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

    fn remove_request(&mut self, shard: Name, request: i64) {
        self.removed_request = request;
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
    // Transactions that release their shards in between have begun before.
    install::change(server, |_| {});
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

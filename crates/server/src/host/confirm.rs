//! Replies that wait for replicas, in a cluster with strength `sync`: members that do not confirm
//! writes in time leave the in-sync set, so that replies need not wait for them.

use super::Host;
use ::cluster::{Instant, NodeId};
use membership::kv::Kv;
use membership::records::Strength;
use std::collections::BTreeMap;

/// Number of lease times, in addition to the time limit for replicas, after which a reply is given
/// up: etcd has not recorded meanwhile that a silent replica has left.
const PATIENCE_LEASES: u64 = 2;

/// Pause in milliseconds between two attempts to remove silent members.
const PAUSE_MS: u64 = 50;

/// Members that have not confirmed writes.
#[derive(Debug, Default)]
pub(super) struct Silent {
    members: BTreeMap<NodeId, Gap>,
    /// Instant of the next attempt to remove some.
    tries_at: Instant,
}

/// What a member has not confirmed.
#[derive(Debug)]
struct Gap {
    /// Position in the feed.
    position: u64,
    since: Instant,
    is_logged: bool,
}

impl<K: Kv> Host<K> {
    /// Applies the strength of the cluster, removes members that do not answer, and wakes workers
    /// with replies that may not have to wait any longer.
    pub(super) fn confirm(&mut self, now: Instant) {
        let Some(config) = self.directory.config() else {
            return;
        };
        let (strength, timeout_ms) = (config.strength, config.sync_timeout_ms);
        let patience_ms = timeout_ms + PATIENCE_LEASES * config.lease_ms;
        let seat = &self.server.cluster.seat;
        if seat.set_strength(strength, patience_ms) {
            log::info!("cluster: the strength is {}", strength.word());
            self.ask_soon();
        }
        match strength {
            Strength::Async => self.silent.members.clear(),
            Strength::Sync => self.remove_silent(timeout_ms, now),
        }
        if self.server.cluster.seat.has_awaiting() {
            self.server.workers.wake_all();
        }
    }

    fn remove_silent(&mut self, timeout_ms: u64, now: Instant) {
        let end = self.server.feed.end();
        let mut actions = Vec::new();
        if let Some(place) = self.server.cluster.seat.place().as_mut() {
            place.confirm(end);
            let is_open =
                |id: &NodeId, gap: &mut Gap| place.member.behind(gap.position).contains(id);
            self.silent.members.retain(is_open);
            let may_try = now >= self.silent.tries_at;
            for id in place.member.behind(end) {
                let gap = self.silent.members.entry(id).or_insert(Gap {
                    position: end,
                    since: now,
                    is_logged: false,
                });
                if now < gap.since.after(timeout_ms) || !may_try {
                    continue;
                }
                let leaves = place.member.leave(id, now);
                if leaves.is_empty() {
                    continue;
                }
                self.silent.tries_at = now.after(PAUSE_MS);
                if let (Some(name), false) = (
                    place.numbers.name(id),
                    std::mem::replace(&mut gap.is_logged, true),
                ) {
                    log::warn!(
                        "cluster: replica {name} has not confirmed writes for {timeout_ms} ms: it leaves the in-sync set before clients get replies"
                    );
                }
                actions.extend(leaves);
            }
        }
        self.send(actions);
    }
}

//! What a primary does for its replicas: it requests promises, and adds replicas to the in-sync set
//! and removes them.

use super::Host;
use crate::seat::{self, Place};
use crate::state::Server;
use ::cluster::{Instant, Name, NodeId};
use durability::replication::{Phase, ReplicaState};
use membership::kv::Kv;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Number of lease times after which an in-sync replica that is absent leaves the set.
const ABSENT_LEASES: u64 = 5;

/// State of a primary.
#[derive(Debug, Default)]
pub(super) struct Lead {
    /// Instant of the last request for promises.
    asked_at: Option<Instant>,
    /// Replicas that were connected at the last step.
    connected: BTreeSet<NodeId>,
    /// In-sync replicas that are absent, and since when.
    absent: BTreeMap<NodeId, Instant>,
    /// Connections whose replicas have caught up, with the position after the first request that
    /// says so. A replica enters the in-sync set when it has received that: it could not replace
    /// this primary before.
    named: BTreeMap<u64, u64>,
}

/// A replica that follows.
struct Follower {
    id: NodeId,
    link: u64,
    acked: u64,
    /// Whether it has acknowledged something recently.
    answers: bool,
}

impl<K: Kv> Host<K> {
    /// Does what is due for replicas, if this node is the primary.
    pub(super) fn lead(&mut self, now: Instant) {
        let Some(config) = self.directory.config() else {
            return;
        };
        let (absence_ms, beat_ms) = (config.lease_ms * ABSENT_LEASES, config.timing().beat_ms());
        let replicas = self.server.replication.replicas();
        let mut actions = Vec::new();
        {
            let mut place = self.server.cluster.seat.place();
            let Some(place) = place.as_mut().filter(|place| place.member.is_primary()) else {
                self.lead = Lead::default();
                return;
            };
            let followers = followers(place, &replicas, Duration::from_millis(absence_ms));
            let epoch = place.member.record().value.epoch;
            for follower in &followers {
                place.member.received(follower.id, epoch, follower.acked);
            }
            let connected: BTreeSet<NodeId> = followers.iter().map(|one| one.id).collect();
            for gone in self.lead.connected.difference(&connected) {
                place.member.disconnected(*gone);
            }
            self.lead.connected = connected;
            let in_sync = place.member.record().value.in_sync.clone();
            let answers: BTreeSet<NodeId> = followers
                .iter()
                .filter(|one| one.answers)
                .map(|one| one.id)
                .collect();
            self.lead
                .absent
                .retain(|id, _| in_sync.contains(id) && !answers.contains(id));
            for id in in_sync.difference(&answers) {
                let since = *self.lead.absent.entry(*id).or_insert(now);
                if now >= since.after(absence_ms) {
                    actions.extend(place.member.leave(*id, now));
                }
            }
            let named = &mut self.lead.named;
            named.retain(|link, _| followers.iter().any(|one| one.link == *link));
            let mut is_new = false;
            for follower in &followers {
                if !follower.answers || !place.member.has_caught_up(follower.id) {
                    continue;
                }
                match named.get(&follower.link) {
                    Some(position) if follower.acked >= *position => {
                        actions.extend(place.member.enter(follower.id, now));
                    }
                    Some(_) => {}
                    None => is_new = true,
                }
            }
            let due = self.lead.asked_at.map(|at| at.after(beat_ms));
            let is_due = is_new || due.is_none_or(|due| now >= due);
            if is_due && self.change.is_none() {
                self.lead.asked_at = Some(now);
                for link in ask(&self.server, place, &followers, now) {
                    let end = self.server.feed.end();
                    self.lead.named.entry(link).or_insert(end);
                }
            }
        }
        self.send(actions);
    }

    /// Makes the next step request promises and acknowledgements.
    pub(super) fn ask_soon(&mut self) {
        self.lead.asked_at = None;
    }
}

/// Requests promises and acknowledgements from all replicas. From now on, a replica that has
/// acknowledged the feed up to here has caught up. Returns the connections of those that have
/// caught up until now.
fn ask(server: &Server, place: &mut Place, followers: &[Follower], now: Instant) -> Vec<u64> {
    let epoch = place.member.record().value.epoch;
    let is_complete = |one: &&Follower| place.member.has_caught_up(one.id);
    let links = followers.iter().filter(is_complete).map(|one| one.link);
    let links: Vec<u64> = links.take(seat::LINKS_MAX).collect();
    if server.replication.has_replicas() && !server.replication.is_replica() {
        server.feed.append_raw(&seat::ask(epoch, now, &links));
        server.workers.wake_all();
    }
    place.member.wrote(server.feed.end());
    links
}

/// Returns the replicas that follow this node as members of its shard.
fn followers(place: &mut Place, replicas: &[ReplicaState], patience: Duration) -> Vec<Follower> {
    let mut found = Vec::new();
    for replica in replicas {
        let name = replica
            .node_id
            .as_deref()
            .and_then(|id| Name::parse(id.as_bytes()));
        let (Some(name), Phase::Follows, 1..) = (name, &replica.phase, replica.link) else {
            continue;
        };
        found.push(Follower {
            id: place.numbers.of(name),
            link: replica.link,
            acked: replica.acked,
            answers: replica.acked_at.elapsed() < patience,
        });
    }
    found
}

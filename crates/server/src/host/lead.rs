//! What a primary does for its replicas: it requests promises, and adds replicas to the in-sync set
//! and removes them.

use super::Host;
use crate::seat::{self, Place};
use crate::state::Server;
use ::cluster::{Action, Instant, Name, NodeId};
use durability::replication::{Phase, ReplicaState};
use membership::kv::Kv;
use membership::records::{Config, Strength};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Number of lease times after which an in-sync replica that is absent leaves the set.
const ABSENT_LEASES: u64 = 5;

/// Maximum number of requests whose acknowledgement is awaited.
const REQUESTS_MAX: usize = 16;

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
    /// End of the feed at the last request.
    asked_end: u64,
    /// Last requests that not all in-sync replicas have acknowledged, each with the end of the feed
    /// after it and its instant.
    requests: VecDeque<(u64, Instant)>,
    /// Last request that all in-sync replicas have acknowledged.
    covered: (u64, Instant),
    /// Last known position of each replica, also after its connection has ended.
    positions: BTreeMap<NodeId, u64>,
    /// Replicas for which acknowledgements wait because they are about to enter, and since when.
    joining: BTreeMap<NodeId, Instant>,
}

/// A replica that follows.
struct Follower {
    id: NodeId,
    link: u64,
    acked: u64,
    /// Whether it has acknowledged something recently.
    answers: bool,
}

/// Time in milliseconds after which an in-sync replica that is absent leaves the set.
fn absence_ms(config: &Config) -> u64 {
    config.lease_ms * ABSENT_LEASES
}

impl<K: Kv> Host<K> {
    /// Does what is due for replicas, if this node is the primary.
    pub(super) fn lead(&mut self, now: Instant) {
        let Some(config) = self.directory.config() else {
            return;
        };
        let (absence_ms, beat_ms) = (absence_ms(config), config.timing().beat_ms());
        let replicas = self.server.replication.replicas();
        let mut actions = Vec::new();
        {
            let is_replica = self.server.replication.is_replica();
            let mut place = self.server.cluster.seat.place();
            let leads = |place: &&mut Place| place.member.is_primary() && !is_replica;
            let Some(place) = place.as_mut().filter(leads) else {
                self.lead = Lead::default();
                self.server.cluster.seat.covered(None);
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
            if self.lead.covered.1 == Instant::default() {
                self.lead.covered = (self.server.feed.end(), now);
            }
            let least = self.lead.note_positions(&followers, &in_sync);
            let at = self.lead.covered.1;
            self.server
                .cluster
                .seat
                .covered(least.map(|least| (least, at)));
            let absent = self
                .lead
                .remove_absent(place, (&followers, &in_sync), absence_ms, now);
            actions.extend(absent);
            if config.strength == Strength::Sync {
                let timeout_ms = config.sync_timeout_ms;
                self.lead.join(place, &followers, timeout_ms, now);
            }
            let (entries, is_new) = self.lead.enter(place, &followers, now);
            actions.extend(entries);
            let due = self.lead.asked_at.map(|at| at.after(beat_ms));
            // Writes that are held must not wait for a request that can come later, and what the
            // primary adds after it has handed the shard over is not in the next one's history.
            let is_due = match self.change.as_ref().filter(|change| change.holds()) {
                None => is_new || due.is_none_or(|due| now >= due),
                Some(change) => is_new && !change.is_sent(),
            };
            if is_due {
                self.lead.asked_at = Some(now);
                let links = ask(&self.server, place, &followers, config.strength, now);
                let end = self.server.feed.end();
                self.lead.asked_end = end;
                self.lead.requests.push_back((end, now));
                if self.lead.requests.len() > REQUESTS_MAX {
                    self.lead.requests.pop_front();
                }
                for link in links {
                    self.lead.named.entry(link).or_insert(end);
                }
            }
        }
        self.send(actions);
    }

    /// Whether a replica can take over the shard at once: it follows, has what this node had at the
    /// last request, and has received that it has caught up. Without that, it would wait for a
    /// primary as a node that may lack writes.
    pub(super) fn can_take_over(&self, replica: Name) -> bool {
        let replicas = self.server.replication.replicas();
        let mut place = self.server.cluster.seat.place();
        let Some(place) = place.as_mut() else {
            return false;
        };
        let id = place.numbers.of(replica);
        let patience = Duration::from_millis(self.directory.config().map_or(0, absence_ms));
        let followers = followers(place, &replicas, patience);
        followers.iter().any(|one| {
            let is_near = one.answers && one.acked >= self.lead.asked_end;
            one.id == id && is_near && self.lead.has_received_name(one)
        })
    }

    /// Makes the next step request promises and acknowledgements.
    pub(super) fn ask_soon(&mut self) {
        self.lead.asked_at = None;
    }
}

impl Lead {
    /// Removes in-sync replicas that have been absent for `absence_ms`.
    fn remove_absent(
        &mut self,
        place: &mut Place,
        (followers, in_sync): (&[Follower], &BTreeSet<NodeId>),
        absence_ms: u64,
        now: Instant,
    ) -> Vec<Action> {
        let answering = followers.iter().filter(|one| one.answers);
        let answers: BTreeSet<NodeId> = answering.map(|one| one.id).collect();
        self.absent
            .retain(|id, _| in_sync.contains(id) && !answers.contains(id));
        let mut actions = Vec::new();
        for id in in_sync.difference(&answers) {
            let since = *self.absent.entry(*id).or_insert(now);
            if now >= since.after(absence_ms) {
                actions.extend(place.member.leave(*id, now));
            }
        }
        actions
    }

    /// Adds to the in-sync set the replicas that have caught up and have acknowledged a request
    /// that says so. Also returns whether further replicas have caught up, which the next request
    /// must name.
    fn enter(
        &mut self,
        place: &mut Place,
        followers: &[Follower],
        now: Instant,
    ) -> (Vec<Action>, bool) {
        self.named
            .retain(|link, _| followers.iter().any(|one| one.link == *link));
        let (mut actions, mut is_new) = (Vec::new(), false);
        for follower in followers {
            if !follower.answers || !place.member.has_caught_up(follower.id) {
                continue;
            }
            if self.has_received_name(follower) {
                actions.extend(place.member.enter(follower.id, now));
            }
            is_new |= !self.named.contains_key(&follower.link);
        }
        (actions, is_new)
    }

    /// Whether a replica has received that it has caught up.
    fn has_received_name(&self, follower: &Follower) -> bool {
        let named_at = self.named.get(&follower.link);
        named_at.is_some_and(|position| follower.acked >= *position)
    }

    /// Takes the positions of replicas, and removes the requests that all in-sync ones have
    /// acknowledged. Returns the least position of these.
    fn note_positions(
        &mut self,
        followers: &[Follower],
        in_sync: &BTreeSet<NodeId>,
    ) -> Option<u64> {
        for follower in followers {
            self.positions.insert(follower.id, follower.acked);
        }
        let least = in_sync.iter().map(|id| self.position(*id)).min();
        while let (Some(&(end, at)), Some(least)) = (self.requests.front(), least)
            && end <= least
        {
            self.covered = (end, at);
            self.requests.pop_front();
        }
        least
    }

    /// Last known position of a replica. One that has not connected in this term has at least what
    /// precedes its first request.
    fn position(&self, replica: NodeId) -> u64 {
        let known = self.positions.get(&replica).copied();
        known.unwrap_or(self.covered.0)
    }

    /// Makes acknowledgements wait for replicas that have caught up with the last request, until
    /// they have entered or have not answered for `timeout_ms`.
    fn join(&mut self, place: &mut Place, followers: &[Follower], timeout_ms: u64, now: Instant) {
        let in_sync = &place.member.record().value.in_sync;
        let may_enter = |one: &&Follower| {
            let is_near = one.answers && one.acked >= self.asked_end;
            is_near && !in_sync.contains(&one.id)
        };
        let near: BTreeSet<NodeId> = followers.iter().filter(may_enter).map(|f| f.id).collect();
        for id in self.joining.keys().filter(|id| !near.contains(id)) {
            place.member.join(*id, false);
        }
        self.joining.retain(|id, _| near.contains(id));
        for id in near {
            let since = *self.joining.entry(id).or_insert(now);
            place.member.join(id, now < since.after(timeout_ms));
        }
    }
}

/// Requests promises and acknowledgements from all replicas. From now on, a replica that has
/// acknowledged the feed up to here has caught up. Returns the connections of those that have
/// caught up.
fn ask(
    server: &Server,
    place: &mut Place,
    followers: &[Follower],
    strength: Strength,
    now: Instant,
) -> Vec<u64> {
    let epoch = place.member.record().value.epoch;
    let is_complete = |one: &&Follower| place.member.has_caught_up(one.id);
    let links = followers.iter().filter(is_complete).map(|one| one.link);
    let links: Vec<u64> = links.take(seat::LINKS_MAX).collect();
    if server.replication.has_replicas() && !server.replication.is_replica() {
        server
            .feed
            .append_raw(&seat::ask(epoch, now, strength, &links));
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

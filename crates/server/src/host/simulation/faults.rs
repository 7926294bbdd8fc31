//! Faults of the simulated cluster, and their end.

use super::node::Node;
use super::store::Path;
use super::{KEYS, LEASE_MS, World, config, name};
use ::cluster::Name;
use membership::records::{CONFIG, Shard, Strength};
use std::sync::atomic::Ordering::Relaxed;

impl World {
    /// Causes one of the faults.
    pub fn fault(&mut self) {
        let count = self.nodes.len() as u64;
        let (number, other) = (
            self.random.below(count) as usize,
            self.random.below(count) as usize,
        );
        let until = self.now + 50 + self.random.below(4 * LEASE_MS);
        let has_moves = self.layout.shards > 1;
        let kind = self.random.below(12 + 2 * u64::from(has_moves));
        // Without the others, no node loses writes even if replies do not wait for replicas.
        if self.layout.is_calm && !matches!(kind, 2 | 3 | 5 | 6 | 7 | 9 | 12 | 13) {
            return;
        }
        self.note(format!(
            "fault {kind} of node {number}, {other}, until {until} ms"
        ));
        let seat = &self.nodes[number].server.cluster.seat;
        match kind {
            0 => self.nodes[number].paused_until = until,
            1 => self.paths[number].cut_until = until,
            2 => self.paths[number].lags_until = until,
            3 => {
                self.links_cut_until[number][other] = until;
                self.links_cut_until[other][number] = until;
            }
            4 => self
                .paths
                .iter_mut()
                .for_each(|path| path.cut_until = until),
            5 => self.store.compact(),
            6 => self.store.revoke(),
            7 => seat.wants_failover.store(true, Relaxed),
            8 => seat.is_forced.store(true, Relaxed),
            9 => self.links.retain(|link| link.replica != number),
            // A primary writes its record before it reads that slots have left.
            12 => {
                self.paths[number].lags_until = until;
                self.isolate(number, until);
            }
            13 => seat.wants_failover.store(true, Relaxed),
            _ => self.restart(number),
        }
    }

    /// Cuts the links between a node and the others of its shard.
    pub fn isolate(&mut self, number: usize, until: u64) {
        let shard = self.nodes[number].shard();
        for other in 0..self.nodes.len() {
            if self.nodes[other].shard() == shard {
                self.links_cut_until[number][other] = until;
                self.links_cut_until[other][number] = until;
            }
        }
    }

    /// Ends a process and starts another one, with the local copy that is in its file. It loses its
    /// keys if another node of the record has all writes that clients were shown, and stays in the
    /// record. Otherwise a primary keeps its keys, as those of an append-only file, and other nodes
    /// do not end.
    fn restart(&mut self, number: usize) {
        let node = &self.nodes[number];
        let Some((at, record)) = node.shard().and_then(|shard| self.record_of(shard)) else {
            return;
        };
        let me = name(number);
        let has_copy = |id: &Name| {
            let node = self.nodes.iter().find(|node| node.host.me == *id);
            node.is_some_and(|node| node.number() != number && node.is_complete())
        };
        let other_has = record.in_sync.iter().chain(&record.primary).any(has_copy);
        // If its campaign applies after it has lost its keys, it is the primary of a term without
        // any write of it, and the former primary, which has all writes, is not in sync. If its
        // removal of a replica applies, it is alone, and the replica that had all writes is not in
        // sync. The rules do not exclude these losses.
        let is_fatal = |sent: &Shard| {
            let campaigns = sent.primary == Some(me) && record.primary != Some(me);
            let removes = record.in_sync.iter().any(|id| !sent.in_sync.contains(id));
            campaigns || sent.primary == Some(me) && removes
        };
        let may_lose_keys = other_has && !self.sent_records(number).iter().any(is_fatal);
        let term = node.saved.as_ref().map_or(0, |copy| copy.term);
        // A term that begins with a campaign is in the file a moment later. A primary that ends in
        // between may lack writes for all that it knows at its next start, and waits for a replica
        // or for an operator.
        let has_term = self.has_resumed[at] || term >= record.epoch;
        let has_begun = record.primary == Some(me) && node.host.roles.term >= record.epoch;
        let may_end = may_lose_keys || has_begun && has_term;
        if !may_end {
            return;
        }
        let keys = match may_lose_keys {
            true => [0; KEYS.len()],
            false => node.values(),
        };
        let (rate, saved) = (node.rate, node.saved.clone());
        self.note(format!("node {number} starts with {keys:?}, term {term}"));
        self.links
            .retain(|link| link.replica != number && link.primary != number);
        self.end_sendings(number);
        self.nodes[number].follower.abort();
        self.store.forget(number);
        self.process_count += 1;
        let process = self.process_count;
        self.nodes[number] = Node::start((number, process), &self.store, rate, saved);
        self.nodes[number].load(keys);
    }

    /// Records of shards that a node has sent and the store has not written.
    fn sent_records(&self, number: usize) -> Vec<Shard> {
        let sent = self.store.sent_records(number);
        let decoded = sent
            .iter()
            .map(|value| Shard::decode(value, World::cluster()));
        decoded.map(|shard| shard.expect("it is valid")).collect()
    }

    /// Ends all faults.
    pub fn heal(&mut self) {
        self.paths = vec![Path::default(); self.nodes.len()];
        let count = self.nodes.len();
        self.links_cut_until = vec![vec![0; count]; count];
        self.nodes.iter_mut().for_each(|node| node.paused_until = 0);
        self.layout.strength = Strength::Sync;
        self.store.put(CONFIG, config(self.layout).encode());
    }
}

//! Which nodes answer for a key and which have its chunks, by the map and by which nodes are down.
//!
//! # Idea
//! The map of the nodes that are up is computed from the first map and the set of nodes that are
//! down, and from nothing else. So nodes that see the same set use the same map, in whatever order
//! they have seen failures. Nodes with different views place chunks on different servers; a reader
//! tries the servers of its present map, of the first map, and of the last few maps that it used.
//!
//! Deliberately absent: connections, a clock.

use edge::{BucketId, Change, Map, ServerId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Number of earlier maps that are kept for reads.
const EARLIER_MAX: usize = 4;
/// Failures in a row after which a node counts as down.
const FAILURES_MAX: u32 = 3;

/// Maps of a cluster as a node sees it.
#[derive(Clone, Debug)]
pub struct View {
    base: Arc<Map>,
    current: Arc<Map>,
    /// Latest first, without the current one.
    earlier: Vec<Arc<Map>>,
    down: BTreeSet<ServerId>,
}

impl View {
    /// Creates the view of a cluster without failures.
    pub fn new(base: Map) -> Self {
        let base = Arc::new(base);
        View {
            current: base.clone(),
            base,
            earlier: vec![],
            down: BTreeSet::new(),
        }
    }

    /// Returns the view after a change of the nodes that are down. Unknown nodes are ignored.
    pub fn with_down(&self, down: &BTreeSet<ServerId>) -> Self {
        let is_member = |id: &ServerId| {
            let members = self.base.members();
            members.iter().any(|member| member.id == *id)
        };
        let down: BTreeSet<ServerId> = down.iter().copied().filter(is_member).collect();
        let changes: Vec<Change> = down.iter().map(|&id| Change::Down(id)).collect();
        let current = if changes.is_empty() {
            self.base.clone()
        } else {
            match self.base.next(&changes, &[]) {
                Ok(map) => Arc::new(map),
                // The members are the same as those of the first map.
                Err(_) => self.base.clone(),
            }
        };
        let mut earlier = self.earlier.clone();
        earlier.insert(0, self.current.clone());
        earlier.retain(|map| map.id() != current.id() && map.id() != self.base.id());
        earlier.dedup_by_key(|map| map.id());
        earlier.truncate(EARLIER_MAX);
        View {
            base: self.base.clone(),
            current,
            earlier,
            down,
        }
    }

    /// The present map.
    pub fn map(&self) -> &Map {
        &self.current
    }

    /// Nodes that are down.
    pub fn down(&self) -> &BTreeSet<ServerId> {
        &self.down
    }

    /// Whether a node is up.
    pub fn is_up(&self, server: ServerId) -> bool {
        self.current.is_up(server)
    }

    /// Returns the nodes that answer for a bucket's keys, in the order in which to try them.
    pub fn owners(&self, bucket: BucketId) -> Vec<ServerId> {
        self.current.replicas(bucket).collect()
    }

    /// Returns the servers of the chunks that are written to a bucket; `None` for a chunk without
    /// one.
    pub fn targets(&self, bucket: BucketId) -> &[Option<ServerId>] {
        self.current.chunks(bucket)
    }

    /// Returns the servers that may have each chunk of a bucket's objects, in the order in which to
    /// try them.
    pub fn sources(&self, bucket: BucketId) -> Vec<Vec<ServerId>> {
        let maps = || [&self.current, &self.base].into_iter().chain(&self.earlier);
        let chunks = self.current.chunks(bucket).len();
        let of_chunk = |chunk: usize| {
            let mut servers = vec![];
            for server in maps().filter_map(|map| *map.chunks(bucket).get(chunk)?) {
                if self.is_up(server) && !servers.contains(&server) {
                    servers.push(server);
                }
            }
            servers
        };
        (0..chunks).map(of_chunk).collect()
    }

    /// Returns all servers that may have a chunk of a bucket's objects.
    pub fn holders(&self, bucket: BucketId) -> Vec<ServerId> {
        let holders: BTreeSet<ServerId> = self.sources(bucket).into_iter().flatten().collect();
        holders.into_iter().collect()
    }
}

/// Which nodes are up, by the results of requests.
#[derive(Clone, Debug, Default)]
pub struct Liveness {
    /// Failures in a row.
    failures: Vec<(ServerId, u32)>,
}

impl Liveness {
    /// Creates the state of nodes that are all up.
    pub fn new(servers: impl Iterator<Item = ServerId>) -> Self {
        Liveness {
            failures: servers.map(|server| (server, 0)).collect(),
        }
    }

    /// Records an answer. Returns whether the node was down.
    pub fn answered(&mut self, server: ServerId) -> bool {
        self.set(server, |_| 0)
    }

    /// Records a failure. Returns whether the node is down now and was up before.
    pub fn failed(&mut self, server: ServerId) -> bool {
        self.set(server, |failures| failures.saturating_add(1))
    }

    fn set(&mut self, server: ServerId, change: impl Fn(u32) -> u32) -> bool {
        let Some((_, failures)) = self.failures.iter_mut().find(|(id, _)| *id == server) else {
            return false;
        };
        let was_down = *failures >= FAILURES_MAX;
        *failures = change(*failures);
        was_down != (*failures >= FAILURES_MAX)
    }

    /// Nodes that are down.
    pub fn down(&self) -> BTreeSet<ServerId> {
        let is_down = |(_, failures): &&(ServerId, u32)| *failures >= FAILURES_MAX;
        self.failures
            .iter()
            .filter(is_down)
            .map(|(id, _)| *id)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use edge::{Config, Scheme};
    use proptest::prelude::*;

    fn view(servers: u32) -> View {
        let servers: Vec<_> = (0..servers).map(|id| (ServerId(id), 1)).collect();
        let config = Config::new(Scheme::coded(3, 1));
        View::new(Map::new(config, &servers).expect("the input is valid"))
    }

    fn set(ids: impl IntoIterator<Item = u32>) -> BTreeSet<ServerId> {
        ids.into_iter().map(ServerId).collect()
    }

    #[test]
    fn a_node_is_down_after_failures_in_a_row_and_up_after_an_answer() {
        let mut liveness = Liveness::new((0..3).map(ServerId));
        assert!(!liveness.failed(ServerId(1)));
        assert!(!liveness.failed(ServerId(1)));
        assert!(!liveness.answered(ServerId(1)));
        for _ in 1..FAILURES_MAX {
            assert!(!liveness.failed(ServerId(1)));
        }
        assert!(liveness.failed(ServerId(1)));
        assert!(!liveness.failed(ServerId(1)));
        assert!(!liveness.failed(ServerId(9)));
        assert_eq!(liveness.down(), set([1]));
        assert!(liveness.answered(ServerId(1)));
        assert_eq!(liveness.down(), set([]));
    }

    #[test]
    fn a_node_that_comes_back_has_its_buckets_again() {
        let before = view(6);
        let after = before.with_down(&set([2])).with_down(&set([]));
        assert_eq!(before.map(), after.map());
        // What was written while it was down is still found.
        let between = before.with_down(&set([2]));
        for bucket in (0..200).map(BucketId) {
            for (chunk, server) in between.targets(bucket).iter().enumerate() {
                let server = server.expect("five nodes are enough");
                assert!(after.sources(bucket)[chunk].contains(&server));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_map_depends_on_the_set_of_failures_and_not_on_their_order(
            steps in prop::collection::vec(prop::collection::btree_set(0u32..8, 0..5), 1..8),
        ) {
            let mut view = view(7);
            for step in &steps {
                view = view.with_down(&set(step.iter().copied()));
            }
            let last = set(steps.last().expect("there is one").iter().copied());
            let direct = self::view(7).with_down(&last);
            prop_assert_eq!(view.map(), direct.map());
            prop_assert!(view.earlier.len() <= EARLIER_MAX);
            for bucket in (0..200).map(BucketId) {
                let owners = view.owners(bucket);
                prop_assert!(!owners.is_empty());
                prop_assert!(owners.iter().all(|server| !last.contains(server)));
                for (chunk, sources) in view.sources(bucket).iter().enumerate() {
                    prop_assert!(sources.iter().all(|server| !last.contains(server)));
                    let first = view.targets(bucket)[chunk];
                    prop_assert!(first.is_none_or(|server| sources.first() == Some(&server)));
                }
            }
        }
    }
}

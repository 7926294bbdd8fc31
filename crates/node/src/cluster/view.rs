//! View of a cluster: which nodes answer for a key and which store its chunks, according to the map
//! and the nodes that are down.
//!
//! # Idea
//! The *base* is the map that all nodes have, from the cluster file or from etcd. The map of the
//! nodes that are up is computed only from the base, the loads for which its parity was placed, and
//! the set of nodes that are down. Nodes that see the same set therefore use the same map,
//! regardless of the order in which they saw failures. Nodes with different views place chunks on
//! different servers. A reader tries the servers of its current map, of the base, and of the last
//! few maps that it used.
//!
//! Before the first map arrives, a node has a view without one: it answers for all keys, and no
//! object is coded.
//!
//! Deliberately absent: connections and a clock.

use edge::{BucketId, BucketWrites, Change, Map, MapId, OLDER_MAPS_MAX, ServerId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum number of earlier maps that are kept for reads.
const EARLIER_MAX: usize = OLDER_MAPS_MAX;
/// Number of consecutive failures after which a node counts as down.
const FAILURES_MAX: u32 = 3;

/// Maps of a cluster as one node sees it.
#[derive(Clone, Debug)]
pub struct View {
    /// Number of buckets, the same in all maps.
    buckets: u32,
    maps: Option<Maps>,
    /// Earlier maps, latest first, without the current ones.
    earlier: Vec<Arc<Map>>,
    down: BTreeSet<ServerId>,
}

/// The current maps.
#[derive(Clone, Debug)]
struct Maps {
    base: Arc<Map>,
    /// Writes for which the base's parity was placed; empty if none were recorded.
    loads: Arc<[BucketWrites]>,
    /// The base map without the nodes that are down.
    current: Arc<Map>,
}

impl Maps {
    fn new(base: Arc<Map>, loads: Arc<[BucketWrites]>, down: &BTreeSet<ServerId>) -> Self {
        let is_change = |id: &&ServerId| base.is_up(**id);
        let changes = down.iter().filter(is_change).map(|&id| Change::Down(id));
        let changes: Vec<Change> = changes.collect();
        let current = match changes.is_empty() {
            true => base.clone(),
            // This cannot fail, because the members are members of the base.
            false => base
                .next(&changes, &loads)
                .map_or_else(|_| base.clone(), Arc::new),
        };
        Maps {
            base,
            loads,
            current,
        }
    }
}

impl View {
    /// Creates the view of a cluster without failures.
    pub fn new(base: Map) -> Self {
        let loads: Arc<[BucketWrites]> = Arc::from([]);
        View::without_map(base.config().buckets).with_map(Arc::new(base), loads)
    }

    /// Creates the view of a node that has no map.
    pub fn without_map(buckets: u32) -> Self {
        View {
            buckets,
            maps: None,
            earlier: vec![],
            down: BTreeSet::new(),
        }
    }

    /// Returns the view after a change to the set of nodes that are down. Nodes that are not
    /// members are ignored.
    pub fn with_down(&self, down: &BTreeSet<ServerId>) -> Self {
        match &self.maps {
            None => self.clone(),
            Some(maps) => self.after(maps.base.clone(), maps.loads.clone(), down),
        }
    }

    /// Returns the view with another base. `loads` are the writes for which its parity was placed.
    pub fn with_map(&self, base: Arc<Map>, loads: Arc<[BucketWrites]>) -> Self {
        self.after(base, loads, &self.down)
    }

    fn after(&self, base: Arc<Map>, loads: Arc<[BucketWrites]>, down: &BTreeSet<ServerId>) -> Self {
        let is_member = |id: &ServerId| base.members().iter().any(|member| member.id == *id);
        let down: BTreeSet<ServerId> = down.iter().copied().filter(is_member).collect();
        let maps = Maps::new(base, loads, &down);
        let present = [maps.current.id(), maps.base.id()];
        let before = self.maps.iter();
        let before = before.flat_map(|maps| [maps.current.clone(), maps.base.clone()]);
        let mut earlier: Vec<Arc<Map>> = vec![];
        for map in before.chain(self.earlier.iter().cloned()) {
            let is_known = earlier.iter().any(|known| known.id() == map.id());
            if !is_known && !present.contains(&map.id()) {
                earlier.push(map);
            }
        }
        earlier.truncate(EARLIER_MAX);
        View {
            buckets: self.buckets,
            maps: Some(maps),
            earlier,
            down,
        }
    }

    fn current(&self) -> Option<&Map> {
        self.maps.as_ref().map(|maps| &*maps.current)
    }

    /// Returns the map that all nodes have, regardless of the nodes that are down.
    pub fn base(&self) -> Option<&Arc<Map>> {
        self.maps.as_ref().map(|maps| &maps.base)
    }

    /// Returns the identity of the base.
    pub fn id(&self) -> Option<MapId> {
        self.base().map(|base| base.id())
    }

    /// Returns the bucket of a hashed name.
    pub fn bucket_of(&self, name_hash: u64) -> BucketId {
        BucketId::of(name_hash, self.buckets)
    }

    /// Returns true if enough nodes are up to code objects.
    pub fn is_coding(&self) -> bool {
        self.current().is_some_and(Map::is_coding)
    }

    /// Returns the nodes that have stopped answering and have not answered since then.
    pub fn down(&self) -> &BTreeSet<ServerId> {
        &self.down
    }

    /// Returns true if a node is a member and answers. A node that is down in the base may already
    /// answer, and still has its data.
    fn is_reachable(&self, server: ServerId) -> bool {
        let is_member = |base: &Arc<Map>| base.members().iter().any(|one| one.id == server);
        !self.down.contains(&server) && self.base().is_some_and(is_member)
    }

    /// Returns the nodes that answer for a bucket's keys, in the order in which to try them. The
    /// list is empty without a map.
    pub fn owners(&self, bucket: BucketId) -> Vec<ServerId> {
        let map = self.current();
        map.map_or(vec![], |map| map.replicas(bucket).collect())
    }

    /// Returns the servers to which a bucket's chunks are written; `None` for a chunk without a
    /// server.
    pub fn targets(&self, bucket: BucketId) -> &[Option<ServerId>] {
        self.current().map_or(&[], |map| map.chunks(bucket))
    }

    /// Returns, for each chunk of a bucket's objects, the servers that may have it, in the order in
    /// which to try them.
    pub fn sources(&self, bucket: BucketId) -> Vec<Vec<ServerId>> {
        let Some(present) = &self.maps else {
            return vec![];
        };
        let maps = || {
            let present = [&present.current, &present.base];
            present.into_iter().chain(&self.earlier)
        };
        let chunks = present.current.chunks(bucket).len();
        let of_chunk = |chunk: usize| {
            let mut servers = vec![];
            for server in maps().filter_map(|map| *map.chunks(bucket).get(chunk)?) {
                if self.is_reachable(server) && !servers.contains(&server) {
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

/// State of all nodes, up or down, derived from the results of requests.
#[derive(Clone, Debug, Default)]
pub struct Liveness {
    /// Number of consecutive failures of each node.
    failures: Vec<(ServerId, u32)>,
}

impl Liveness {
    /// Creates the state of nodes that are all up.
    pub fn new(servers: impl Iterator<Item = ServerId>) -> Self {
        Liveness {
            failures: servers.map(|server| (server, 0)).collect(),
        }
    }

    /// Replaces the list of nodes. Nodes that stay keep their state; a new node that is down in the
    /// map counts as down until it answers.
    pub fn set_nodes(&mut self, nodes: impl Iterator<Item = (ServerId, bool)>) {
        let state = |(server, is_up): (ServerId, bool)| {
            let known = self.failures.iter().find(|(id, _)| *id == server);
            let failures = if is_up { 0 } else { FAILURES_MAX };
            (server, known.map_or(failures, |(_, failures)| *failures))
        };
        self.failures = nodes.map(state).collect();
    }

    /// Records an answer. Returns true if the node was down.
    pub fn answered(&mut self, server: ServerId) -> bool {
        self.set(server, |_| 0)
    }

    /// Records a failure. Returns true if the node goes down by it.
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

    /// Returns the nodes that are down.
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
        assert_eq!(before.current(), after.current());
        // Data that was written while the node was down is still found.
        let between = before.with_down(&set([2]));
        for bucket in (0..200).map(BucketId) {
            for (chunk, server) in between.targets(bucket).iter().enumerate() {
                let server = server.expect("five nodes are enough");
                assert!(after.sources(bucket)[chunk].contains(&server));
            }
        }
    }

    #[test]
    fn a_node_without_a_map_answers_for_every_key() {
        let view = View::without_map(200);
        assert!(view.owners(BucketId(7)).is_empty());
        assert!(view.sources(BucketId(7)).is_empty());
        assert!(view.targets(BucketId(7)).is_empty());
        assert!(!view.is_coding());
        assert_eq!(view.with_down(&set([1])).id(), None);
        assert_eq!(view.bucket_of(u64::MAX), BucketId(199));
    }

    #[test]
    fn what_was_written_under_earlier_maps_is_found() {
        let mut view = view(6);
        let first = view.base().expect("there is a map").clone();
        let mut maps = vec![first];
        for number in 0..OLDER_MAPS_MAX as u32 {
            let last = maps.last().expect("there is one");
            let changes = [Change::Join(ServerId(10 + number), 1)];
            let next = last.next(&changes, &[]).expect("the input is valid");
            maps.push(Arc::new(next));
        }
        for map in &maps[1..] {
            view = view.with_map(map.clone(), Arc::from([]));
        }
        for bucket in (0..200).map(BucketId) {
            for map in &maps {
                for (chunk, server) in map.chunks(bucket).iter().enumerate() {
                    let server = server.expect("all are up");
                    assert!(view.sources(bucket)[chunk].contains(&server));
                }
            }
        }
        assert!(view.earlier.len() <= EARLIER_MAX);
    }

    #[test]
    fn a_node_that_is_down_in_the_map_is_read_as_soon_as_it_answers() {
        let before = view(6);
        let base = before.base().expect("there is a map");
        let next = base.next(&[Change::Down(ServerId(2))], &[]);
        let next = Arc::new(next.expect("the input is valid"));
        let mut liveness = Liveness::default();
        liveness.set_nodes(next.members().iter().map(|one| (one.id, one.is_up)));
        let view = before.with_map(next, Arc::from([]));
        let view = view.with_down(&liveness.down());
        let has = |view: &View| {
            let holders = |bucket| view.holders(BucketId(bucket));
            (0..200).any(|bucket| holders(bucket).contains(&ServerId(2)))
        };
        assert!(!has(&view));
        assert!(liveness.answered(ServerId(2)));
        let view = view.with_down(&liveness.down());
        assert!(has(&view));
        // The node answers for no key and receives no chunk until it is up in the map.
        for bucket in (0..200).map(BucketId) {
            assert!(!view.owners(bucket).contains(&ServerId(2)));
            assert!(!view.targets(bucket).contains(&Some(ServerId(2))));
        }
        // Nodes that stay keep their state.
        liveness.set_nodes([(ServerId(2), false), (ServerId(3), true)].into_iter());
        assert!(liveness.down().is_empty());
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
            prop_assert_eq!(view.current(), direct.current());
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

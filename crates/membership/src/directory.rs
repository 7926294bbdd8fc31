//! The records of a cluster as one node has read them.
//!
//! A record that cannot be used changes nothing: the last good one stays in force, and
//! [`Directory::problems`] has the reason. A record that is removed stays in force as well, except
//! for registrations, which end with their leases, and for moves, which cannot be committed then.

use crate::kv::{Entry, Event};
use crate::moves::{MOVES, Move, PLAN};
use crate::records::{
    self, BEATS, CONFIG, Config, FAILOVERS, MAP, Map, NODES, PLACE, Refusal, Registration, SHARDS,
    Shard, encode_map,
};
use cluster::{Health, Name, Node, Replica, SLOTS, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of registered nodes. Further ones are refused.
const NODES_MAX: usize = 4096;
/// Maximum number of records whose refusal is kept for operators. All are counted.
const PROBLEMS_MAX: usize = 64;

/// Last known registration of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The last registration.
    pub registration: Registration,
    /// Revision of the registration; 0 if it has ended.
    pub revision: i64,
}

/// A shard's record and the revision of its last write.
pub type Versioned = (Shard, i64);

/// Records of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    revision: i64,
    config: Option<Config>,
    config_revision: i64,
    map: Option<(Map, i64)>,
    shards: BTreeMap<Name, Versioned>,
    beats: BTreeMap<Name, i64>,
    nodes: BTreeMap<Name, Known>,
    /// Revision of the last placement; 0 if there was none.
    placed: i64,
    /// Replicas that are requested to become primaries of shards, each with the revision.
    failovers: BTreeMap<Name, (Name, i64)>,
    /// Moves of slots, each with the revision.
    moves: BTreeMap<Name, (Move, i64)>,
    /// Revision of the last creation of a move; 0 if there was none.
    planned: i64,
    problems: BTreeMap<String, String>,
    refused: u64,
}

impl Directory {
    /// Loads all records at one revision. Registrations that are not among them have ended.
    pub fn load(&mut self, revision: i64, entries: Vec<Entry>) {
        self.problems.clear();
        self.failovers.clear();
        self.moves.clear();
        for known in self.nodes.values_mut() {
            known.revision = 0;
        }
        self.apply_all(entries.into_iter().map(Event::Put).collect());
        self.revision = self.revision.max(revision);
        self.forget();
    }

    /// Applies changes that were made together.
    pub fn apply_all(&mut self, mut events: Vec<Event>) {
        // The settings have the identifier of the cluster, and the map names shards.
        events.sort_by_key(|event| match event {
            Event::Put(entry) if entry.key == CONFIG => 0,
            Event::Put(entry) if entry.key == MAP => 2,
            _ => 1,
        });
        events.into_iter().for_each(|event| self.apply(event));
    }

    /// Applies a change.
    pub fn apply(&mut self, event: Event) {
        match event {
            Event::Put(entry) => self.put(entry),
            Event::Delete(key) => {
                self.problems.remove(&key);
                let shard = key.strip_prefix(FAILOVERS).map(str::as_bytes);
                if let Some(shard) = shard.and_then(Name::parse) {
                    self.failovers.remove(&shard);
                }
                self.forget_move(&key);
                let id = key.strip_prefix(NODES).map(str::as_bytes);
                if let Some(known) = id
                    .and_then(Name::parse)
                    .and_then(|id| self.nodes.get_mut(&id))
                {
                    known.revision = 0;
                    self.forget();
                }
            }
        }
    }

    /// Forgets nodes that are neither registered nor named by a shard.
    fn forget(&mut self) {
        let mut named = BTreeSet::new();
        for (shard, _) in self.shards.values() {
            named.extend(
                shard
                    .primary
                    .into_iter()
                    .chain(shard.in_sync.iter().copied()),
            );
        }
        self.nodes
            .retain(|id, known| known.revision != 0 || named.contains(id));
    }

    fn put(&mut self, entry: Entry) {
        self.revision = self.revision.max(entry.revision);
        match self.take(&entry) {
            Ok(()) => _ = self.problems.remove(&entry.key),
            Err(refusal) => {
                self.refused += 1;
                // No commit with the revision of the former record can apply.
                self.forget_move(&entry.key);
                if self.problems.len() < PROBLEMS_MAX {
                    self.problems.insert(entry.key, refusal.to_string());
                }
            }
        }
    }

    fn forget_move(&mut self, key: &str) {
        let id = key.strip_prefix(MOVES).map(str::as_bytes);
        if let Some(id) = id.and_then(Name::parse) {
            self.moves.remove(&id);
        }
    }

    fn take(&mut self, entry: &Entry) -> Result<(), Refusal> {
        let (key, value) = (entry.key.as_str(), entry.value.as_slice());
        if key == CONFIG {
            let config = Config::decode(value)?;
            if let Some(own) = &self.config
                && own.cluster != config.cluster
            {
                return Err(Refusal::Foreign(config.cluster.to_string()));
            }
            (self.config, self.config_revision) = (Some(config), entry.revision);
            return Ok(());
        }
        let missing = || Refusal::Value(format!("there is no usable record '{CONFIG}'"));
        let cluster = self.config.as_ref().ok_or_else(missing)?.cluster;
        if key == MAP {
            let map = records::decode_map(value, cluster)?;
            let is_unknown = |(_, _, shard): &&(u16, u16, Name)| !self.shards.contains_key(shard);
            if let Some((first, last, shard)) = map.iter().find(is_unknown) {
                return Err(Refusal::Value(format!(
                    "slots {first}-{last}: shard {shard} has no record"
                )));
            }
            self.map = Some((map, entry.revision));
        } else if let Some(id) = key.strip_prefix(SHARDS) {
            let (id, shard) = (named(id)?, Shard::decode(value, cluster)?);
            self.shards.insert(id, (shard, entry.revision));
        } else if let Some(id) = key.strip_prefix(BEATS) {
            self.beats.insert(named(id)?, entry.revision);
        } else if key == PLACE {
            self.placed = entry.revision;
        } else if let Some(id) = key.strip_prefix(FAILOVERS) {
            let to = records::decode_failover(value, cluster)?;
            self.failovers.insert(named(id)?, (to, entry.revision));
        } else if let Some(id) = key.strip_prefix(MOVES) {
            let moved = Move::decode(value, cluster)?;
            self.moves.insert(named(id)?, (moved, entry.revision));
        } else if key == PLAN {
            self.planned = entry.revision;
        } else if let Some(id) = key.strip_prefix(NODES) {
            let id = named(id)?;
            let registration = Registration::decode(id, value, cluster)?;
            if self.nodes.len() >= NODES_MAX && !self.nodes.contains_key(&id) {
                return Err(Refusal::Value(format!(
                    "expected at most {NODES_MAX} nodes"
                )));
            }
            let revision = entry.revision;
            self.nodes.insert(
                id,
                Known {
                    registration,
                    revision,
                },
            );
        }
        Ok(())
    }

    /// Revision of the newest record.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// Returns the settings, if there is a cluster.
    pub fn config(&self) -> Option<&Config> {
        self.config.as_ref()
    }

    /// Revision of the settings; 0 if they are those of a local copy.
    pub fn config_revision(&self) -> i64 {
        self.config_revision
    }

    /// Returns the map and its revision.
    pub fn map(&self) -> Option<&(Map, i64)> {
        self.map.as_ref()
    }

    /// Returns the shards with their names.
    pub fn shards(&self) -> &BTreeMap<Name, Versioned> {
        &self.shards
    }

    /// Returns the revision of a shard's beat; 0 if there was none.
    pub fn beat(&self, shard: Name) -> i64 {
        self.beats.get(&shard).copied().unwrap_or(0)
    }

    /// Returns the nodes with their names.
    pub fn nodes(&self) -> &BTreeMap<Name, Known> {
        &self.nodes
    }

    /// Revision of the last placement; 0 if there was none.
    pub fn placed(&self) -> i64 {
        self.placed
    }

    /// Returns the replica that is requested to become the primary of a shard, and the revision of
    /// the request.
    pub fn failover(&self, shard: Name) -> Option<(Name, i64)> {
        self.failovers.get(&shard).copied()
    }

    /// Returns the moves with their names and revisions.
    pub fn moves(&self) -> &BTreeMap<Name, (Move, i64)> {
        &self.moves
    }

    /// Revision of the last creation of a move; 0 if there was none.
    pub fn planned(&self) -> i64 {
        self.planned
    }

    /// Returns the names of records that are not used, each with the reason.
    pub fn problems(&self) -> &BTreeMap<String, String> {
        &self.problems
    }

    /// Number of records that were refused.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns all records except beats, for a local copy.
    pub fn entries(&self) -> Vec<Entry> {
        let Some(config) = &self.config else {
            return Vec::new();
        };
        let cluster = config.cluster;
        let entry = |key: String, value: String, revision: i64| Entry {
            key,
            value: value.into_bytes(),
            created: revision,
            revision,
        };
        let mut entries = vec![entry(CONFIG.into(), config.encode(), 0)];
        entries.extend(
            self.map
                .iter()
                .map(|(map, revision)| entry(MAP.into(), encode_map(map, cluster), *revision)),
        );
        entries.extend(self.shards.iter().map(|(id, (shard, revision))| {
            entry(format!("{SHARDS}{id}"), shard.encode(cluster), *revision)
        }));
        entries.extend(self.nodes.iter().map(|(id, known)| {
            let value = known.registration.encode(cluster);
            entry(format!("{NODES}{id}"), value, known.revision)
        }));
        entries
    }

    /// Returns the topology for clients. A node that a shard names and that was never registered
    /// has no address. Slots of a shard without a primary have no owner.
    ///
    /// # Errors
    /// There is no map, or the records contradict each other.
    pub fn topology(&self) -> Result<Topology, String> {
        let (map, _) = self.map.as_ref().ok_or("there is no usable map")?;
        let mut nodes: BTreeMap<Name, Node> = BTreeMap::new();
        for (id, known) in &self.nodes {
            let mut node = known.registration.node.clone();
            if known.revision == 0 {
                node.health = Health::Fail;
            }
            nodes.insert(*id, node);
        }
        let mut indexes = BTreeMap::new();
        let mut shards = Vec::new();
        for (id, (shard, _)) in &self.shards {
            let Some(primary) = shard.primary else {
                continue;
            };
            let mut replicas = Vec::new();
            for member in std::iter::once(&primary).chain(&shard.in_sync) {
                nodes
                    .entry(*member)
                    .or_insert_with(|| Node::unknown(*member));
            }
            replicas.extend(shard.in_sync.iter().map(|id| Replica {
                id: *id,
                is_in_sync: true,
            }));
            let others = self
                .members(*id)
                .into_iter()
                .filter(|member| !shard.names(*member));
            replicas.extend(others.map(|id| Replica {
                id,
                is_in_sync: false,
            }));
            indexes.insert(*id, shards.len());
            let (id, epoch) = (*id, shard.epoch);
            shards.push(cluster::Shard {
                id,
                epoch,
                primary,
                replicas,
            });
        }
        let owned = map.iter().filter_map(|(first, last, shard)| {
            let index = indexes.get(shard)?;
            Some((*first..=*last, *index))
        });
        let owned: Vec<_> = owned.collect();
        let nodes = nodes.into_values().collect();
        Topology::new(self.revision as u64, shards, nodes, &owned)
            .map_err(|error| error.to_string())
    }

    /// Returns the nodes of a shard: the nodes named in its record, and the nodes registered for it
    /// that no record names.
    pub fn members(&self, shard: Name) -> Vec<Name> {
        let is_free = |id: &Name| !self.shards.values().any(|(shard, _)| shard.names(*id));
        let record = self.shards.get(&shard).map(|(shard, _)| shard);
        let named = record
            .into_iter()
            .flat_map(|record| record.primary.iter().chain(&record.in_sync));
        let registered = self.nodes.iter().filter(|(id, known)| {
            known.revision != 0 && known.registration.shard == Some(shard) && is_free(id)
        });
        named
            .copied()
            .chain(registered.map(|(id, _)| *id))
            .collect()
    }

    /// Returns the shard to which the rule assigns a node without a shard: one without nodes, or
    /// else one that lacks replicas, first the one with the fewest nodes, then the one with the
    /// fewest in the node's zone. Returns `None` if no shard lacks a node.
    pub fn place(&self, zone: &str) -> Option<Name> {
        let wanted = self.config.as_ref()?.replicas as usize + 1;
        let in_zone = |members: &[Name]| {
            let is_same = |id: &&Name| {
                let known = self.nodes.get(id);
                known.is_some_and(|known| known.registration.node.zone == zone)
            };
            members.iter().filter(is_same).count()
        };
        let found = self.shards.keys().map(|id| {
            let members = self.members(*id);
            (members.len(), in_zone(&members), *id)
        });
        let found = found.filter(|(count, ..)| *count < wanted);
        found.min().map(|(.., id)| id)
    }

    /// Returns the shard whose record names a node, or for which it is registered.
    pub fn shard_of(&self, id: Name) -> Option<Name> {
        let named = self.shards.iter().find(|(_, (shard, _))| shard.names(id));
        let known = self.nodes.get(&id).filter(|known| known.revision != 0);
        let named = named.map(|(id, _)| *id);
        named.or_else(|| known.and_then(|known| known.registration.shard))
    }
}

impl Shard {
    /// Whether the record names a node.
    pub fn names(&self, id: Name) -> bool {
        self.primary == Some(id) || self.in_sync.contains(&id)
    }
}

/// Returns the records of a new cluster, whose slots are shared evenly among the shards.
pub fn initial(config: &Config, shards: &[Name]) -> Vec<(String, String)> {
    let count = shards.len().max(1) as u32;
    let start = |index: u32| (u32::from(SLOTS) * index).div_ceil(count) as u16;
    let range = |(index, shard): (usize, &Name)| {
        let index = index as u32;
        (start(index), start(index + 1) - 1, *shard)
    };
    let map: Map = shards.iter().enumerate().map(range).collect();
    let mut records = vec![
        (CONFIG.to_owned(), config.encode()),
        (MAP.to_owned(), encode_map(&map, config.cluster)),
    ];
    let vacant = Shard::vacant().encode(config.cluster);
    records.extend(
        shards
            .iter()
            .map(|id| (format!("{SHARDS}{id}"), vacant.clone())),
    );
    records
}

fn named(id: &str) -> Result<Name, Refusal> {
    let expected = || Refusal::Value("expected 40 hexadecimal digits in its name".into());
    Name::parse(id.as_bytes()).ok_or_else(expected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Strength;
    use cluster::Role;

    fn id(number: u8) -> Name {
        Name::parse(format!("{number:040x}").as_bytes()).expect("40 digits")
    }

    fn config() -> Config {
        Config {
            cluster: id(99),
            shards: 3,
            replicas: 1,
            lease_ms: 2_000,
            strength: Strength::Async,
            sync_timeout_ms: 1_000,
        }
    }

    fn entry(key: &str, value: String, revision: i64) -> Entry {
        Entry {
            key: key.to_owned(),
            value: value.into_bytes(),
            created: revision,
            revision,
        }
    }

    fn put(directory: &mut Directory, key: &str, value: String) {
        let revision = directory.revision() + 1;
        directory.apply(Event::Put(entry(key, value, revision)));
    }

    fn register(directory: &mut Directory, node: u8, zone: &str, shard: Option<Name>) {
        let mut registration = Registration {
            node: Node::unknown(id(node)),
            shard,
            run: "run".into(),
        };
        registration.node.inside = format!("10.0.0.{node}:7000");
        registration.node.zone = zone.into();
        put(
            directory,
            &format!("{NODES}{}", id(node)),
            registration.encode(id(99)),
        );
    }

    fn promote(directory: &mut Directory, shard: u8, primary: u8, in_sync: &[u8]) {
        let record = Shard {
            epoch: 1,
            primary: Some(id(primary)),
            in_sync: in_sync.iter().map(|number| id(*number)).collect(),
            position: 0,
        };
        put(
            directory,
            &format!("{SHARDS}{}", id(shard)),
            record.encode(id(99)),
        );
    }

    fn started() -> Directory {
        let mut directory = Directory::default();
        let records = initial(&config(), &[id(1), id(2), id(3)]);
        let entries = records
            .into_iter()
            .map(|(key, value)| entry(&key, value, 5));
        directory.load(5, entries.collect());
        assert!(
            directory.problems().is_empty(),
            "{:?}",
            directory.problems()
        );
        directory
    }

    #[test]
    fn a_map_of_shards_without_records_is_refused() {
        let mut directory = started();
        let before = directory.map().cloned();
        let map = encode_map(&vec![(0, SLOTS - 1, id(9))], id(99));
        put(&mut directory, MAP, map.clone());
        let problem = format!("slots 0-16383: shard {} has no record", id(9));
        assert_eq!(directory.problems().get(MAP), Some(&problem));
        assert_eq!(directory.map().cloned(), before);
        // The shard may come in the same step, in any order.
        let shard = entry(
            &format!("{SHARDS}{}", id(9)),
            Shard::vacant().encode(id(99)),
            8,
        );
        directory.apply_all(vec![Event::Put(entry(MAP, map, 8)), Event::Put(shard)]);
        assert!(directory.problems().is_empty() && directory.map().cloned() != before);
    }

    #[test]
    fn slots_are_shared_evenly() {
        let directory = started();
        let (map, _) = directory.map().expect("a map");
        let ranges: Vec<(u16, u16)> = map.iter().map(|(first, last, _)| (*first, *last)).collect();
        assert_eq!(ranges, [(0, 5461), (5462, 10_922), (10_923, 16_383)]);
        for count in 1..=200u8 {
            let shards: Vec<Name> = (0..count).map(id).collect();
            let text = &initial(&config(), &shards)[1].1;
            let map = records::decode_map(text.as_bytes(), id(99)).expect("no overlap");
            let lengths = map.iter().map(|(first, last, _)| last - first + 1);
            assert_eq!(lengths.clone().sum::<u16>(), SLOTS);
            assert!(lengths.clone().max() <= lengths.min().map(|least| least + 1));
        }
    }

    #[test]
    fn nodes_are_placed_first_on_empty_shards_and_then_in_other_zones() {
        let mut directory = started();
        for (node, zone, expected) in [(11, "a", 1), (12, "a", 2), (13, "b", 3)] {
            let shard = directory.place(zone);
            assert_eq!(shard, Some(id(expected)));
            register(&mut directory, node, zone, shard);
        }
        // The shard whose node is in another zone comes first.
        assert_eq!(directory.place("a"), Some(id(3)));
        promote(&mut directory, 3, 13, &[]);
        assert_eq!(directory.place("a"), Some(id(3)));
        for (node, zone) in [(14, "a"), (15, "b"), (16, "b")] {
            let shard = directory.place(zone).expect("a shard lacks a replica");
            register(&mut directory, node, zone, Some(shard));
        }
        assert_eq!(directory.place("c"), None);
        // A node that has gone is replaced, unless the record names it.
        directory.apply(Event::Delete(format!("{NODES}{}", id(16))));
        directory.apply(Event::Delete(format!("{NODES}{}", id(13))));
        assert_eq!(directory.place("c").into_iter().count(), 1);
        assert_ne!(directory.place("c"), Some(id(3)));
    }

    #[test]
    fn the_topology_has_primaries_replicas_and_nodes_that_are_gone() {
        let mut directory = started();
        assert_eq!(directory.topology().expect("valid").assigned(), 0);
        promote(&mut directory, 1, 11, &[12]);
        for node in [11, 13] {
            register(&mut directory, node, "", Some(id(1)));
        }
        let topology = directory.topology().expect("valid");
        assert_eq!(topology.role(id(11)), Role::Primary(0));
        for node in [12, 13] {
            assert_eq!(topology.role(id(node)), Role::Replica(0), "{node}");
        }
        assert_eq!(
            topology.node(id(12)).map(|node| node.health),
            Some(Health::Fail)
        );
        assert_eq!(topology.owner(0), Some(0));
        assert_eq!(topology.owner(5462), None);
        // The address of a primary that has gone is still known.
        directory.apply(Event::Delete(format!("{NODES}{}", id(11))));
        directory.apply(Event::Delete(format!("{NODES}{}", id(13))));
        let topology = directory.topology().expect("valid");
        let gone = topology.node(id(11)).expect("it is named");
        assert_eq!(
            (gone.health, gone.inside.as_str()),
            (Health::Fail, "10.0.0.11:7000")
        );
        assert_eq!(topology.role(id(13)), Role::Spare);
        assert_eq!(topology.node(id(13)), None);
    }

    #[test]
    fn the_last_good_record_stays_in_force() {
        let mut directory = started();
        promote(&mut directory, 1, 11, &[]);
        let good = directory.topology().expect("valid");
        let key = format!("{SHARDS}{}", id(1));
        let foreign = Shard::vacant().encode(id(98));
        for (key, value) in [
            (
                CONFIG,
                Config {
                    cluster: id(98),
                    ..config()
                }
                .encode(),
            ),
            (MAP, "{".to_owned()),
            (&key, foreign),
            ("shards/x", Shard::vacant().encode(id(99))),
            ("nodes/x", "{}".to_owned()),
        ] {
            let before = directory.refused();
            put(&mut directory, key, value);
            assert_eq!(directory.refused(), before + 1, "{key}");
            assert!(directory.problems().contains_key(key), "{key}");
            let found = directory.topology().expect("valid");
            assert_eq!(found.shards(), good.shards());
        }
        directory.apply(Event::Delete(MAP.into()));
        assert_eq!(
            directory.topology().expect("valid").assigned(),
            good.assigned()
        );
    }

    #[test]
    fn a_request_for_a_failover_ends_when_it_is_removed() {
        let mut directory = started();
        let key = format!("{FAILOVERS}{}", id(1));
        put(
            &mut directory,
            &key,
            records::encode_failover(id(12), id(99)),
        );
        assert_eq!(
            directory.failover(id(1)),
            Some((id(12), directory.revision()))
        );
        directory.apply(Event::Delete(key));
        assert_eq!(directory.failover(id(1)), None);
        put(&mut directory, PLACE, String::new());
        assert_eq!(directory.placed(), directory.revision());
    }

    #[test]
    fn a_copy_has_the_same_topology() {
        let mut directory = started();
        promote(&mut directory, 2, 11, &[12]);
        register(&mut directory, 11, "z", Some(id(2)));
        let mut copy = Directory::default();
        copy.load(directory.revision(), directory.entries());
        assert_eq!(copy.topology(), directory.topology());
        assert_eq!(copy.entries(), directory.entries());
        assert!(Directory::default().entries().is_empty());
    }

    #[test]
    fn refusals_and_nodes_are_bounded() {
        let mut directory = started();
        for number in 0..2 * PROBLEMS_MAX {
            put(&mut directory, &format!("shards/{number}"), String::new());
        }
        assert_eq!(directory.problems().len(), PROBLEMS_MAX);
        assert_eq!(directory.refused(), 2 * PROBLEMS_MAX as u64);
        let value = |name: Name| {
            let mut node = Node::unknown(name);
            node.inside = "10.0.0.1:1".into();
            let (shard, run) = (None, String::new());
            Registration { node, shard, run }.encode(id(99))
        };
        for number in 0..=NODES_MAX {
            let id = Name::parse(format!("{number:040x}").as_bytes()).expect("40 digits");
            put(&mut directory, &format!("{NODES}{id}"), value(id));
        }
        assert_eq!(directory.nodes().len(), NODES_MAX);
    }
}

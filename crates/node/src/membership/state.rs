//! State of a cluster's values in etcd, and the rules that determine which change of them is due.
//!
//! # Rules
//! - The map with the greatest identity read so far is the current one. Damaged values, older maps,
//!   and maps of other clusters change nothing.
//! - If the stored map is absent, damaged or older than the current map, any node replaces it by
//!   the current one.
//! - If the registered nodes differ from the members of the current map, the *coordinator* makes
//!   the next version. It is the node that has been registered for the longest time.
//! - The coordinator also makes a version that only places parity again if the writes have drifted
//!   (`balance.rs`).
//! - Each write of the map is conditional on the revision of the value that was read. If two nodes
//!   both consider themselves the coordinator, only one of them succeeds.
//!
//! Deliberately absent: connections and a clock.

use super::record::{Record, Refusal, read_registration};
use crate::config::{SERVERS_MAX, Server};
use ::membership::kv::{Entry, Event, Guard, Write};
use edge::{BucketWrites, Change, Config as MapConfig, Map, MapId, ServerId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Name of the map.
pub const MAP: &str = "map";
const NODES: &str = "nodes/";
const LEAVING: &str = "leave/";

/// Content of the value that should be the map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stored {
    Nothing,
    Map(MapId),
    Damaged,
    Foreign,
}

/// Registration of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Registered {
    server: Server,
    created: i64,
    revision: i64,
}

/// A change of the map that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Due {
    /// Store the current map again.
    Restore,
    /// Make the next version.
    Next,
}

/// Values of a cluster, as known by one node.
#[derive(Debug)]
pub struct State {
    own: ServerId,
    config: MapConfig,
    /// Whether nodes connect without TLS, between loopback addresses only.
    is_plain: bool,
    record: Option<Arc<Record>>,
    stored: Stored,
    map_revision: i64,
    nodes: BTreeMap<ServerId, Registered>,
    leaving: BTreeSet<ServerId>,
    refused: u64,
}

impl State {
    /// Creates the state of a node that has read nothing except perhaps a copy of a map.
    pub fn new(
        own: ServerId,
        config: MapConfig,
        is_plain: bool,
        copy: Option<Arc<Record>>,
    ) -> Self {
        State {
            own,
            config,
            is_plain,
            record: copy,
            stored: Stored::Nothing,
            map_revision: 0,
            nodes: BTreeMap::new(),
            leaving: BTreeSet::new(),
            refused: 0,
        }
    }

    /// Returns the current map.
    pub fn record(&self) -> Option<&Arc<Record>> {
        self.record.as_ref()
    }

    /// Returns the number of values that were refused.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns the numbers of the registered nodes.
    pub fn registered(&self) -> BTreeSet<ServerId> {
        self.nodes.keys().copied().collect()
    }

    /// Returns the registration of this node and the revision of its last change.
    pub fn own(&self) -> Option<(&Server, i64)> {
        let own = self.nodes.get(&self.own)?;
        Some((&own.server, own.revision))
    }

    /// Returns the node that makes the next map.
    pub fn coordinator(&self) -> Option<ServerId> {
        let first = self.nodes.iter().min_by_key(|(_, node)| node.created);
        first.map(|(id, _)| *id)
    }

    /// Replaces all known values. Returns true if the current map has changed.
    pub fn load(&mut self, entries: Vec<Entry>) -> bool {
        let before = std::mem::take(&mut self.nodes);
        self.leaving.clear();
        (self.stored, self.map_revision) = (Stored::Nothing, 0);
        let mut has_changed = false;
        for entry in entries {
            if let Some(id) = node_of(&entry.key)
                && let Some(node) = before.get(&id)
            {
                // If the value cannot be decoded, the previous registration of the node stays.
                self.nodes.insert(id, node.clone());
            }
            has_changed |= self.put(entry);
        }
        has_changed
    }

    /// Applies a change of one value. Returns true if the current map has changed.
    pub fn apply(&mut self, event: Event) -> bool {
        match event {
            Event::Put(entry) => self.put(entry),
            Event::Delete(key) => {
                if key == MAP {
                    (self.stored, self.map_revision) = (Stored::Nothing, 0);
                } else if let Some(id) = node_of(&key) {
                    self.nodes.remove(&id);
                } else if let Some(id) = leaving_of(&key) {
                    self.leaving.remove(&id);
                }
                false
            }
        }
    }

    fn put(&mut self, entry: Entry) -> bool {
        if entry.key == MAP {
            return self.put_map(&entry);
        }
        if let Some(id) = node_of(&entry.key) {
            match read_registration(id, &entry.value, self.is_plain) {
                Ok(server) => {
                    let node = Registered {
                        server,
                        created: entry.created,
                        revision: entry.revision,
                    };
                    self.nodes.insert(id, node);
                }
                Err(error) => {
                    self.refused += 1;
                    log::warn!("etcd: '{}' is not used: {error}", entry.key);
                }
            }
        } else if let Some(id) = leaving_of(&entry.key) {
            self.leaving.insert(id);
        }
        false
    }

    fn put_map(&mut self, entry: &Entry) -> bool {
        self.map_revision = entry.revision;
        let record = match Record::decode(&entry.value, &self.config, self.is_plain) {
            Ok(record) => record,
            Err(refusal) => {
                self.refused += 1;
                log::warn!(
                    "etcd: the map of revision {} is not used, and {} stays: {refusal}",
                    entry.revision,
                    self.version_text()
                );
                self.stored = match refusal {
                    Refusal::Damaged(_) => Stored::Damaged,
                    Refusal::Foreign(_) => Stored::Foreign,
                };
                return false;
            }
        };
        let id = record.map.id();
        self.stored = Stored::Map(id);
        let is_newer = self.current_id().is_none_or(|current| id > current);
        if is_newer {
            self.record = Some(Arc::new(record));
        } else if self.current_id() != Some(id) {
            log::warn!(
                "etcd: the map of version {} is older than what this node has: {} stays",
                id.version,
                self.version_text()
            );
        }
        is_newer
    }

    fn current_id(&self) -> Option<MapId> {
        self.record.as_ref().map(|record| record.map.id())
    }

    fn version_text(&self) -> String {
        match self.current_id() {
            None => "no map".into(),
            Some(id) => format!("version {}", id.version),
        }
    }

    /// Returns the change of the map that this node must make.
    pub fn due(&self) -> Option<Due> {
        match (self.stored, self.current_id()) {
            (Stored::Foreign, _) | (Stored::Damaged, None) => return None,
            (Stored::Nothing | Stored::Damaged, Some(_)) => return Some(Due::Restore),
            (Stored::Map(stored), Some(current)) if stored < current => return Some(Due::Restore),
            _ => {}
        }
        if self.coordinator() != Some(self.own) {
            return None;
        }
        let is_due = match &self.record {
            None => self.with_weight() >= self.config.scheme.servers_min(),
            Some(record) => {
                let (changes, servers) = self.changes(record);
                !changes.is_empty() || servers != record.servers
            }
        };
        is_due.then_some(Due::Next)
    }

    /// Returns the current map if this node would make the next one and no change is due.
    pub fn settled(&self) -> Option<&Arc<Record>> {
        let is_stored = matches!(self.stored, Stored::Map(id) if Some(id) == self.current_id());
        let is_own = self.coordinator() == Some(self.own);
        let record = self.record.as_ref();
        record.filter(|_| is_stored && is_own && self.due().is_none())
    }

    /// Returns true if a node that is up in the current map is not registered.
    pub fn is_any_missing(&self) -> bool {
        self.record.as_ref().is_some_and(|record| {
            let mut members = record.map.members().iter();
            members.any(|member| member.is_up && !self.nodes.contains_key(&member.id))
        })
    }

    /// Returns the number of registered nodes that can be members of a first map.
    pub fn with_weight(&self) -> usize {
        let nodes = self.nodes.values();
        nodes.filter(|node| node.server.weight > 0).count()
    }

    /// Returns the differences between the members of a map and the registered nodes.
    fn changes(&self, record: &Record) -> (Vec<Change>, Vec<Server>) {
        let mut changes = vec![];
        let mut servers: BTreeMap<ServerId, Server> = BTreeMap::new();
        let addresses: BTreeSet<_> = self.nodes.values().map(|one| one.server.address).collect();
        for server in &record.servers {
            let id = server.id;
            let is_up = record.map.is_up(id);
            let Some(node) = self.nodes.get(&id) else {
                // A node with another number has replaced the server at this address.
                if self.leaving.contains(&id) || addresses.contains(&server.address) {
                    changes.push(Change::Leave(id));
                    continue;
                }
                if is_up {
                    changes.push(Change::Down(id));
                }
                servers.insert(id, server.clone());
                continue;
            };
            if node.server.weight != server.weight {
                changes.push(Change::Reweigh(id, node.server.weight));
            }
            if !is_up {
                changes.push(Change::Up(id));
            }
            servers.insert(id, node.server.clone());
        }
        for (&id, node) in &self.nodes {
            let is_free = servers.len() < SERVERS_MAX;
            if !servers.contains_key(&id) && is_free {
                changes.push(Change::Join(id, node.server.weight));
                servers.insert(id, node.server.clone());
            }
        }
        (changes, servers.into_values().collect())
    }

    /// Returns the map that must be stored.
    ///
    /// # Errors
    /// Returns the reason if no map can be made of the registered nodes.
    pub fn next(&self, due: Due, loads: Vec<BucketWrites>) -> Result<Record, String> {
        if due == Due::Restore {
            let record = self.record.as_deref().cloned();
            return record.ok_or_else(|| "there is no map".into());
        }
        let (map, servers, loads) = match &self.record {
            None => {
                let servers = self.nodes.values().map(|node| node.server.clone());
                let servers: Vec<Server> = servers.take(SERVERS_MAX).collect();
                let weights: Vec<_> = servers.iter().map(|one| (one.id, one.weight)).collect();
                (Map::new(self.config, &weights), servers, vec![])
            }
            Some(record) => {
                let (changes, servers) = self.changes(record);
                let is_recorded = loads.iter().any(|load| load.chunk_bytes > 0);
                let loads = if is_recorded { loads } else { vec![] };
                (record.map.next(&changes, &loads), servers, loads)
            }
        };
        let mut addresses = BTreeSet::new();
        for server in &servers {
            if !addresses.insert(server.address) {
                return Err(format!("{}: the address of two servers", server.address));
            }
        }
        Ok(Record {
            map: Arc::new(map.map_err(|error| error.to_string())?),
            servers,
            loads,
        })
    }

    /// Returns the conditions and the writes for storing a map by a node with this lease.
    pub fn install(&self, record: &Record, lease: i64) -> (Vec<Guard>, Vec<Write>) {
        let guards = vec![
            Guard::Revision(MAP.into(), self.map_revision),
            Guard::Lease(node_key(self.own), lease),
        ];
        let mut writes = vec![Write::Put(MAP.into(), record.encode(), None)];
        for id in &self.leaving {
            if record.servers.iter().all(|server| server.id != *id) {
                writes.push(Write::Delete(format!("{LEAVING}{}", id.0)));
            }
        }
        (guards, writes)
    }
}

/// Returns the name of a node's registration.
pub fn node_key(id: ServerId) -> String {
    format!("{NODES}{}", id.0)
}

fn node_of(key: &str) -> Option<ServerId> {
    key.strip_prefix(NODES)?.parse().ok().map(ServerId)
}

fn leaving_of(key: &str) -> Option<ServerId> {
    key.strip_prefix(LEAVING)?.parse().ok().map(ServerId)
}

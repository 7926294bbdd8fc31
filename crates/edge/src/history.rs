//! The cluster maps stored by a node: the current one and older ones.
//!
//! # Idea
//! An object stays on the servers of the map under which it was written until it is evicted. A node
//! therefore keeps the most recent maps, and looks for a chunk on the servers that had it, newest
//! map first. Maps are totally ordered by [`crate::MapId`], and a node keeps those with the
//! greatest ids it was offered. Nodes that were offered the same maps therefore agree, regardless
//! of order and repetition.
//!
//! # Bounds
//! The number of maps kept is fixed. A map older than all of them is not stored.

use crate::map::{Map, MapId};
use crate::ring::{BucketId, ServerId};

/// Default number of older maps kept. A day has about five changes (section 5.4 of the source), and
/// a median failure ends after two hundred minutes.
pub const OLDER_MAPS_MAX: usize = 8;

/// The current map and older ones. There is always a current one.
#[derive(Clone, Debug)]
pub struct MapHistory {
    /// Maps in descending order of ids.
    maps: Vec<Map>,
    older_max: usize,
}

/// Result of adding a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OfferOutcome {
    /// The map is now the current one.
    Current,
    /// The map was stored as an older one, because it is older than the current one, or has the
    /// same version and a smaller fingerprint.
    Older,
    /// The map was already stored.
    Known,
    /// The map was not stored, because the maximum number of maps is kept and all of them are
    /// newer.
    TooOld,
    /// The map was not stored, because its configuration shows that it belongs to another cluster.
    Foreign,
}

/// Age of a request's map compared with the current one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapAge {
    /// The maps are the same.
    Current,
    /// The request's map is older. The requester should fetch the current one, but still gets an
    /// answer.
    Older,
    /// The request's map is newer. This node should fetch it, and answers from the maps it has.
    Newer,
}

impl MapHistory {
    /// Creates the maps of a node that keeps up to `older_max` maps in addition to the current one.
    pub fn new(map: Map, older_max: usize) -> MapHistory {
        MapHistory {
            maps: vec![map],
            older_max,
        }
    }

    /// Returns the current map.
    pub fn current(&self) -> &Map {
        &self.maps[0]
    }

    /// Returns all maps kept, in descending order of ids.
    pub fn all(&self) -> &[Map] {
        &self.maps
    }

    /// Adds a map if it belongs to the cluster and is new enough.
    pub fn offer(&mut self, map: Map) -> OfferOutcome {
        if map.config() != self.current().config() {
            return OfferOutcome::Foreign;
        }
        let at = self.maps.partition_point(|known| known.id() > map.id());
        if self
            .maps
            .get(at)
            .is_some_and(|known| known.id() == map.id())
        {
            return OfferOutcome::Known;
        }
        if at > self.older_max {
            return OfferOutcome::TooOld;
        }
        self.maps.insert(at, map);
        self.maps.truncate(self.older_max + 1);
        if at == 0 {
            OfferOutcome::Current
        } else {
            OfferOutcome::Older
        }
    }

    /// Returns the age of a request's map. The request is answered in any case, with
    /// [`MapHistory::chunk`] and [`MapHistory::whole`].
    pub fn age_of(&self, id: MapId) -> MapAge {
        match id.cmp(&self.current().id()) {
            std::cmp::Ordering::Equal => MapAge::Current,
            std::cmp::Ordering::Less => MapAge::Older,
            std::cmp::Ordering::Greater => MapAge::Newer,
        }
    }

    /// Returns the servers that may have a chunk of a bucket's objects, in the order in which to
    /// try them, beginning with the newest map. Servers that are down are left out.
    pub fn chunk(&self, bucket: BucketId, chunk: usize) -> Vec<ServerId> {
        let servers = self
            .maps
            .iter()
            .filter_map(|map| *map.chunks(bucket).get(chunk)?);
        self.up(servers)
    }

    /// Returns the servers that may have a replicated object, in the order in which to try them.
    pub fn whole(&self, bucket: BucketId) -> Vec<ServerId> {
        self.up(self.maps.iter().flat_map(|map| map.replicas(bucket)))
    }

    fn up(&self, servers: impl Iterator<Item = ServerId>) -> Vec<ServerId> {
        let mut found = vec![];
        for server in servers {
            if self.current().is_up(server) && !found.contains(&server) {
                found.push(server);
            }
        }
        found
    }
}

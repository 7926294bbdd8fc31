//! The maps that a node knows: the one that holds, and older ones.
//!
//! # Idea
//! What was written under an old map lies where that map said, until it is evicted. So a node keeps the last few
//! maps, and who looks for a chunk asks the servers that had it, newest map first. Which map holds is a matter of
//! order alone ([`crate::MapId`]): a node keeps the greatest ids that it was ever offered, so that nodes that heard of the
//! same maps, in whatever order and however often, agree.
//!
//! # Bounds
//! The number of maps kept is fixed. A map that is smaller than all of them is not kept.

use crate::map::{Map, MapId};
use crate::ring::{BucketId, ServerId};

/// MapHistory that are kept beside the one that holds, unless another number is given. A day has some five changes
/// (section 5.4 of the source), and a median failure ends after two hundred minutes.
pub const OLDER_MAPS_MAX: usize = 8;

/// The maps that a node knows. There is always one.
#[derive(Clone, Debug)]
pub struct MapHistory {
    /// The greatest id first.
    maps: Vec<Map>,
    older_max: usize,
}

/// What became of a map that was offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OfferOutcome {
    /// It holds from now on.
    Current,
    /// It is older than the one that holds, or lost against another of the same version; it is kept.
    Older,
    /// It was known.
    Known,
    /// It is smaller than all that are kept, and there is no room for it.
    TooOld,
    /// It is another cluster's: its scheme, its buckets or its seed differ.
    Foreign,
}

/// How a request's map stands to the one that holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapAge {
    /// It is the same.
    Current,
    /// It is smaller: the asker should fetch the map that holds, and is answered meanwhile.
    Older,
    /// It is greater: this node should fetch it, and answers by what it knows.
    Newer,
}

impl MapHistory {
    /// A node's maps; `older_max` are kept beside the one that holds.
    pub fn new(map: Map, older_max: usize) -> MapHistory {
        MapHistory {
            maps: vec![map],
            older_max,
        }
    }

    /// The map that holds.
    pub fn current(&self) -> &Map {
        &self.maps[0]
    }

    /// All that are kept, the greatest id first.
    pub fn all(&self) -> &[Map] {
        &self.maps
    }

    /// Hears of a map.
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

    /// How the map of a request stands. Whatever it says, the request is answered: by [`MapHistory::chunk`] and
    /// [`MapHistory::whole`].
    pub fn age_of(&self, id: MapId) -> MapAge {
        match id.cmp(&self.current().id()) {
            std::cmp::Ordering::Equal => MapAge::Current,
            std::cmp::Ordering::Less => MapAge::Older,
            std::cmp::Ordering::Greater => MapAge::Newer,
        }
    }

    /// The servers that may have a chunk of a bucket's objects, in the order in which to ask them: those of the newest
    /// map first, and only those that are up.
    pub fn chunk(&self, bucket: BucketId, chunk: usize) -> Vec<ServerId> {
        let servers = self
            .maps
            .iter()
            .filter_map(|map| *map.chunks(bucket).get(chunk)?);
        self.up(servers)
    }

    /// The servers that may have an object that is kept whole, in the order in which to ask them.
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

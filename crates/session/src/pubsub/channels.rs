//! Map from the names of channels to their subscribers.
//!
//! It is divided into parts by the hashes of the names. A part is copied when it grows; a single
//! table of a million channels would delay all clients for a tenth of a second. The parts grow at
//! about the same time, and the smaller they are, the fewer of them grow while a client adds some
//! subscriptions: with 64 parts, 300,000 channels delayed other clients by 3 ms.

use super::Listeners;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

/// Number of parts.
const PARTS: usize = 256;

type Part = HashMap<Vec<u8>, Listeners>;

/// Channels with subscribers.
pub(super) struct Channels {
    parts: Vec<Part>,
    /// Hasher that selects the part. The parts have their own hash keys.
    hasher: RandomState,
}

impl Default for Channels {
    fn default() -> Self {
        Channels {
            parts: vec![Part::default(); PARTS],
            hasher: RandomState::new(),
        }
    }
}

impl Channels {
    fn part_of(&self, name: &[u8]) -> usize {
        self.hasher.hash_one(name) as usize % PARTS
    }

    /// Returns the subscribers of a channel.
    pub(super) fn get(&self, name: &[u8]) -> Option<&Listeners> {
        self.parts[self.part_of(name)].get(name)
    }

    /// Returns the subscribers of a channel.
    pub(super) fn get_mut(&mut self, name: &[u8]) -> Option<&mut Listeners> {
        let part = self.part_of(name);
        self.parts[part].get_mut(name)
    }

    /// Returns a channel's subscribers, adding the channel if it is missing.
    pub(super) fn entry(&mut self, name: &[u8]) -> &mut Listeners {
        let part = self.part_of(name);
        self.parts[part].entry(name.to_vec()).or_default()
    }

    /// Removes a channel. The memory of a part is freed with its last channel.
    pub(super) fn remove(&mut self, name: &[u8]) {
        let part = self.part_of(name);
        self.parts[part].remove(name);
        if self.parts[part].is_empty() {
            self.parts[part] = Part::default();
        }
    }

    /// Returns the number of channels.
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(HashMap::len).sum()
    }

    /// Returns all channels with their subscribers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Vec<u8>, &Listeners)> {
        self.parts.iter().flatten()
    }
}

//! Operations of an exclusive owner, which need no lock.

use super::{KeysOf, Leaving, Shard};
use crate::cause::Cause;
use crate::map::Found;
use policy::Tick;
use std::sync::PoisonError;

impl<K, V> Shard<K, V> {
    /// Returns the position and slot of a live entry.
    pub(crate) fn find_mut(
        &mut self,
        hash: u64,
        is_key: impl FnMut(&K) -> bool,
    ) -> Option<(u32, u32)> {
        let writer = self
            .writer
            .0
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        let found = self.map.find_held(&writer.map_state, hash, is_key)?;
        Some((found.position, found.slot))
    }

    /// Registers a hit.
    pub(crate) fn hit_mut<H: Fn(&K) -> u64>(&mut self, position: u32, hash_of: &H, now: Tick) {
        let writer = self
            .writer
            .0
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        writer.core.begin();
        view!(view = self, writer, hash_of, now);
        writer.core.hit(&mut view, position);
    }

    /// Returns the value at a position that `find_mut` has returned.
    pub(crate) fn value_mut(&mut self, position: u32) -> &mut V {
        let writer = self
            .writer
            .0
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        self.map.value_mut(&mut writer.map_state, position)
    }

    /// Returns an iterator over all entries.
    pub(crate) fn each_mut(&mut self) -> impl Iterator<Item = Found<'_, K, V>> {
        let writer = self
            .writer
            .0
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        self.map.each_held(&writer.map_state)
    }

    /// Removes the entries at the given positions.
    pub(crate) fn remove_all<H: Fn(&K) -> u64>(
        &mut self,
        positions: &[u32],
        hash_of: &H,
        now: Tick,
        leaving: &mut Leaving<K, V>,
    ) {
        let mut guard = self.writer();
        for &position in positions {
            self.remove_at(&mut guard, position, Cause::Removed, hash_of, now, leaving);
        }
        self.publish(&guard);
    }

    /// Returns the entries that have left, each with its cause.
    pub(crate) fn take_all(&mut self, leaving: Leaving<K, V>) -> Vec<(K, V, Cause)> {
        let writer = self
            .writer
            .0
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        let mut left = Vec::with_capacity(leaving.loose.len());
        for (loose, cause) in leaving.loose {
            let (key, value) = self.map.take_pair(&mut writer.map_state, loose);
            left.push((key, value, cause));
        }
        left.extend(leaving.rejected);
        left
    }
}

//! Growth of the table: a larger one takes its place, and the entries move there bucket by bucket.

use super::{Map, Replaced, WriterState};
use crate::epoch::READERS;
use crate::rows::FAR;
use crate::table::{Table, Tables, WAYS, tag_of};
use std::ptr::null_mut;
use std::sync::atomic::{
    AtomicPtr,
    Ordering::{Relaxed, Release},
};

impl<K, V> Map<K, V> {
    /// Returns true if one more entry needs a larger table.
    pub(crate) fn is_full(&self, state: &WriterState, len: usize) -> bool {
        len >= Table::room(self.tables(state).current.bucket_count())
    }

    /// Creates an empty table with twice as many buckets as the current one. New entries are
    /// inserted there, and [`Map::move_bucket`] moves the others.
    pub(crate) fn begin_growth(&self, state: &mut WriterState) {
        let tables = self.tables(state);
        // One bucket moves per insertion, and the new table can take more insertions than the older
        // one has buckets.
        assert!(tables.older.is_none(), "one growth at a time");
        let old = tables.current;
        let new = Box::new(Table::new(2 * old.bucket_count(), old.number() + 1));
        state.next_bucket = 0;
        self.older.store(self.table.load(Relaxed), Release);
        self.table.store(Box::into_raw(new), Release);
    }

    /// Returns true while entries move to a larger table.
    #[inline]
    pub(crate) fn is_growing(&self) -> bool {
        !self.older.load(Relaxed).is_null()
    }

    /// Moves the entries of one bucket to the larger table. `moved` is called with the old position
    /// and the new one of each entry when the old one is vacant. `hash_of` may panic, but only
    /// before anything has changed.
    pub(crate) fn move_bucket(
        &self,
        state: &mut WriterState,
        hash_of: impl Fn(&K) -> u64,
        mut moved: impl FnMut(&WriterState, u32, u32),
    ) {
        let Tables {
            current,
            older: Some(older),
        } = self.tables(state)
        else {
            return;
        };
        let mut entries = [(0, 0, 0); WAYS];
        let mut count = 0;
        older.each_of(state.next_bucket, |position, slot| {
            entries[count] = (position, slot, hash_of(self.key_of(state, slot)));
            count += 1;
        });
        for &(from, slot, hash) in &entries[..count] {
            let (at, way, distance) = current.reserve(hash);
            // Only the writer reads the distance.
            let old_distance = self.rows.distance(slot).load(Relaxed);
            let distance = u8::try_from(distance).unwrap_or(FAR);
            self.rows.distance(slot).store(distance, Relaxed);
            current.bucket(at).publish(way, tag_of(hash), slot);
            older.vacate(
                from,
                (old_distance != FAR).then_some(usize::from(old_distance)),
            );
            moved(state, from, current.position(at, way));
        }
        let bucket_count = older.bucket_count();
        let is_last = state.next_bucket + 1 == bucket_count;
        state.next_bucket += 1;
        if is_last {
            let old = self.older.swap(null_mut(), Release);
            let epoch = READERS.advance();
            state.tables.push(Replaced {
                epoch,
                bucket_count,
                table: AtomicPtr::new(old),
            });
        }
    }
}

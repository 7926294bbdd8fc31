//! Map from hashes to keys and values: look-ups take no locks, and one writer at a time changes it.
//!
//! A pair is immutable from its publication until no reader can see it. Replacing a value stores a
//! new pair in another slot, and publishes that slot at the same position of the table. A slot that
//! was unlinked is *loose*. It is *retired* after its listener has been called, and reused after a
//! grace period (see [`epoch`](crate::epoch)).
//!
//! Writers need exclusive access to the map's [`WriterState`], which a shard keeps behind its lock.

#![expect(
    unsafe_code,
    reason = "typed access to raw memory; tidy lists this file"
)]

use crate::epoch::{Guard, Pinned};
use crate::rows::{Columns, FAR, Lane, Rows};
use crate::table::{Table, Tables, WAYS, tag_of};
use std::alloc::Layout;
use std::marker::PhantomData;
use std::mem::{needs_drop, take};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{
    AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed},
};

mod growth;
mod reclaim;

/// Number of retired slots at which a grace period begins, if pairs own no memory.
const BATCH_PLAIN: usize = 128;
/// Number of retired slots at which a grace period begins, if pairs own memory. It is lower so that
/// the memory is freed earlier.
const BATCH_OWNING: usize = 32;

/// Part of a map that readers use.
pub(crate) struct Map<K, V> {
    table: AtomicPtr<Table>,
    /// Table from which entries move to `table`, or null if no table is growing. This word is
    /// stored before the new table is, and an entry leaves this table only after it was published
    /// in the new one.
    older: AtomicPtr<Table>,
    rows: Rows,
    /// Number of the map, which detects the state or a slot of another map.
    id: u64,
    pairs: PhantomData<(K, V)>,
}

/// Table replaced by a larger one.
struct Replaced {
    /// First epoch whose readers cannot use the table.
    epoch: u64,
    bucket_count: usize,
    /// The table, as a pointer because readers may still hold references to it.
    table: AtomicPtr<Table>,
}

/// Part of a map that only the writer uses.
pub(crate) struct WriterState {
    id: u64,
    free: Vec<u32>,
    /// Slots of the last chunk that have never been used.
    fresh: Range<u32>,
    chunks: usize,
    /// Slots retired since the last grace period began.
    young: Vec<u32>,
    /// Slots that can be reused when no reader's epoch is below `old_epoch`.
    old: Vec<u32>,
    old_epoch: u64,
    /// Tables that were replaced by larger ones.
    tables: Vec<Replaced>,
    /// Index of the next bucket of the older table whose entries move.
    next_bucket: usize,
    batch: usize,
}

// SAFETY: other threads receive pairs only by reference, and any thread may drop them.
unsafe impl<K: Send + Sync, V: Send + Sync> Sync for Map<K, V> {}
// SAFETY: the map owns its pairs, and the pointer owns the table.
unsafe impl<K: Send, V: Send> Send for Map<K, V> {}

/// An entry that was found.
pub(crate) struct Found<'a, K, V> {
    pub key: &'a K,
    pub value: &'a V,
    pub lane: Lane<'a>,
    pub position: u32,
    pub slot: u32,
}

impl<K, V> Clone for Found<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Found<'_, K, V> {}

/// Slot that was unlinked and is not retired yet.
#[derive(Debug)]
#[must_use = "a loose slot is retired or taken, else its memory is lost"]
pub(crate) struct Loose {
    slot: u32,
    id: u64,
}

impl<K, V> Map<K, V> {
    /// Creates an empty map with `bucket_count` buckets, and its writer state. The first chunk of
    /// memory has at least `slot_count` slots.
    pub(crate) fn new(
        columns: Columns,
        bucket_count: usize,
        slot_count: usize,
    ) -> (Self, WriterState) {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Relaxed);
        let slots = u32::try_from(slot_count).unwrap_or(u32::MAX);
        let map = Map {
            table: AtomicPtr::new(Box::into_raw(Box::new(Table::new(bucket_count, 0)))),
            older: AtomicPtr::new(null_mut()),
            rows: Rows::new(columns, Layout::new::<(K, V)>(), slots),
            id,
            pairs: PhantomData,
        };
        let batch = if needs_drop::<(K, V)>() {
            BATCH_OWNING
        } else {
            BATCH_PLAIN
        };
        let state = WriterState {
            id,
            free: Vec::new(),
            fresh: 0..0,
            chunks: 0,
            young: Vec::new(),
            old: Vec::new(),
            old_epoch: 0,
            tables: Vec::new(),
            next_bucket: 0,
            // The batch is small in a small cache, which would otherwise hold more retired pairs
            // than live ones.
            batch: batch.min(slot_count / 8).max(8),
        };
        (map, state)
    }

    /// Returns the usual maximum number of retired slots in addition to the live ones.
    pub(crate) fn spare(slot_count: usize) -> usize {
        2 * BATCH_PLAIN.min(slot_count / 8).max(8) + 8
    }

    pub(crate) fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Returns the tables for the writer.
    #[inline(always)]
    pub(crate) fn tables<'a>(&'a self, state: &'a WriterState) -> Tables<'a> {
        self.check(state);
        // SAFETY: only a writer with exclusive access to the writer state replaces the tables.
        let current = unsafe { &*self.table.load(Acquire) };
        // SAFETY: likewise; the pointer is null or valid.
        let older = unsafe { self.older.load(Acquire).as_ref() };
        Tables { current, older }
    }

    #[inline(always)]
    fn check(&self, state: &WriterState) {
        assert_eq!(self.id, state.id, "the state belongs to this map");
    }

    /// Returns the pair in a slot that the table holds.
    ///
    /// # Safety
    /// The slot was read from the table while the thread was pinned or held the writer state, or it
    /// is loose, and the reference is not used after that condition has ended.
    #[inline(always)]
    unsafe fn pair<'a>(&self, slot: u32) -> &'a (K, V) {
        // SAFETY: the caller promises the same.
        unsafe { Self::pair_in(self.rows.lane(slot)) }
    }

    /// Returns the pair in the lane of a slot.
    ///
    /// # Safety
    /// See `pair`.
    #[inline(always)]
    unsafe fn pair_in<'a>(lane: Lane<'_>) -> &'a (K, V) {
        let pair = lane.pair::<(K, V)>();
        // SAFETY: the pair was written before the slot was published, and is neither changed nor
        // dropped before the end of the condition that the caller promises.
        unsafe { &*pair }
    }

    /// Returns the entry of a key. Values that only the rare paths need are copied for them, so
    /// that the common path keeps the originals in registers.
    #[inline(always)]
    pub(crate) fn find<'a>(
        &'a self,
        _guard: &'a impl Guard,
        hash: u64,
        is_key: impl Fn(&K) -> bool + Copy,
    ) -> Option<Found<'a, K, V>> {
        let current = self.table.load(Acquire);
        // The older table is loaded before the look-up: if a growth has ended by then, all its
        // entries are in `current`. Loaded after the look-up, the pointer could be null because the
        // last entry has moved in between.
        let older = self.older.load(Acquire);
        // SAFETY: the pointer is always valid; a table that is replaced is dropped only after a
        // grace period, and the thread is pinned.
        let table = unsafe { &*current };
        if let Some(found) = self.find_in(table, hash, is_key) {
            return Some(found);
        }
        if older.is_null() && self.table.load(Acquire) == current {
            return None;
        }
        // SAFETY: the thread is pinned.
        let (position, slot) = unsafe { self.find_moving(hash, &{ is_key }) }?;
        let lane = self.rows.lane(slot);
        // SAFETY: the slot was read from a table while the thread was pinned.
        let (key, value) = unsafe { Self::pair_in(lane) };
        Some(Found {
            key,
            value,
            lane,
            position,
            slot,
        })
    }

    /// Finds an entry while entries move to a larger table, and returns its position and slot. An
    /// entry is published there before it leaves the older table. A look-up in the older table and
    /// then in the current one therefore finds it, unless another growth has begun meanwhile.
    ///
    /// # Safety
    /// The thread is pinned.
    #[cold]
    unsafe fn find_moving(&self, hash: u64, is_key: &dyn Fn(&K) -> bool) -> Option<(u32, u32)> {
        loop {
            let current = self.table.load(Acquire);
            for table in [self.older.load(Acquire), current] {
                // SAFETY: a table that is replaced is dropped only after a grace period, and the
                // thread is pinned.
                let table = unsafe { table.as_ref() };
                if let Some(table) = table
                    && let Some(found) = self.find_in(table, hash, is_key)
                {
                    return Some((found.position, found.slot));
                }
            }
            if self.table.load(Acquire) == current {
                return None;
            }
        }
    }

    /// Returns the entry of a key, for the writer.
    #[inline]
    pub(crate) fn find_held<'a>(
        &'a self,
        state: &'a WriterState,
        hash: u64,
        mut is_key: impl FnMut(&K) -> bool,
    ) -> Option<Found<'a, K, V>> {
        let tables = self.tables(state);
        let found = self.find_in(tables.current, hash, &mut is_key);
        match tables.older {
            Some(older) if found.is_none() => self.find_in(older, hash, &mut is_key),
            _ => found,
        }
    }

    #[inline(always)]
    fn find_in<'a>(
        &'a self,
        table: &'a Table,
        hash: u64,
        mut is_key: impl FnMut(&K) -> bool,
    ) -> Option<Found<'a, K, V>> {
        let tag = tag_of(hash);
        let mut probe = table.probe(hash);
        loop {
            let bucket = probe.bucket();
            let mut matches = bucket.matches(tag);
            while matches != 0 {
                let way = matches.trailing_zeros() as usize;
                let slot = bucket.slot(way);
                let lane = self.rows.lane(slot);
                // SAFETY: both callers pass a table of a pinned thread or of the writer.
                let (key, value) = unsafe { Self::pair_in(lane) };
                if is_key(key) {
                    return Some(Found {
                        key,
                        value,
                        lane,
                        position: table.position(probe.at(), way),
                        slot,
                    });
                }
                matches &= matches - 1;
            }
            if bucket.overflow() == 0 {
                return None;
            }
            if !probe.next() {
                return None;
            }
        }
    }

    /// Calls `see` with each entry. An entry that stays throughout the call is visited exactly
    /// once; others may be.
    pub(crate) fn visit<'a>(&'a self, _pinned: &'a Pinned, mut see: impl FnMut(Found<'a, K, V>)) {
        // Slots that were already visited. An entry may move to a table that is visited later.
        let mut seen: Vec<u64> = Vec::new();
        let mut is_new = |slot: u32| {
            let (at, bit) = (slot as usize / 64, 1 << (slot % 64));
            if at >= seen.len() {
                seen.resize((at + 1).next_power_of_two(), 0);
            }
            let was_seen = seen[at] & bit != 0;
            seen[at] |= bit;
            !was_seen
        };
        loop {
            let current = self.table.load(Acquire);
            let older = Some(self.older.load(Acquire)).filter(|older| *older != current);
            for table in older.into_iter().chain([current]) {
                // SAFETY: a table that is replaced is dropped only after a grace period, and the
                // thread is pinned.
                let Some(table) = (unsafe { table.as_ref() }) else {
                    continue;
                };
                table.each(|position, slot| {
                    if !is_new(slot) {
                        return;
                    }
                    let lane = self.rows.lane(slot);
                    // SAFETY: the thread is pinned.
                    let (key, value) = unsafe { Self::pair_in(lane) };
                    see(Found {
                        key,
                        value,
                        lane,
                        position,
                        slot,
                    });
                });
            }
            if self.table.load(Acquire) == current {
                return;
            }
        }
    }

    /// Returns all entries in the order of their positions, for the writer.
    pub(crate) fn each_held<'a>(
        &'a self,
        state: &'a WriterState,
    ) -> impl Iterator<Item = Found<'a, K, V>> {
        self.tables(state).each().flat_map(move |table| {
            let places = (0..table.bucket_count() * WAYS).map(|at| (at / WAYS, at % WAYS));
            places.filter_map(move |(bucket, way)| {
                let position = table.position(bucket, way);
                let slot = table.slot_at(position)?;
                let lane = self.rows.lane(slot);
                // SAFETY: the table holds the slot, and the writer state is borrowed as long as the
                // references exist.
                let (key, value) = unsafe { Self::pair_in(lane) };
                Some(Found {
                    key,
                    value,
                    lane,
                    position,
                    slot,
                })
            })
        })
    }

    /// Returns the key in a slot that the table holds.
    pub(crate) fn key_of<'a>(&'a self, state: &'a WriterState, slot: u32) -> &'a K {
        self.check(state);
        // SAFETY: the caller has read the slot from the table and holds the writer state.
        &unsafe { self.pair(slot) }.0
    }

    /// Writes a pair to a free slot, and returns the slot, which is not in the table yet.
    fn store(&self, state: &mut WriterState, key: K, value: V) -> u32 {
        self.check(state);
        let slot = state.take_slot(&self.rows);
        let pair = self.rows.pair::<(K, V)>(slot);
        // SAFETY: the slot is free, so that no thread reads it and it holds no pair.
        unsafe { pair.write((key, value)) };
        slot
    }

    /// Adds a pair whose key is absent, with cleared policy bits, and publishes it. Returns its
    /// position and slot. `prepare` is called with the slot before it is published. The table must
    /// have room.
    pub(crate) fn insert(
        &self,
        state: &mut WriterState,
        hash: u64,
        key: K,
        value: V,
        prepare: impl FnOnce(&Rows, u32),
    ) -> (u32, u32) {
        let slot = self.store(state, key, value);
        let table = self.tables(state).current;
        let (at, way, distance) = table.reserve(hash);
        let distance = u8::try_from(distance).unwrap_or(FAR);
        self.rows.distance(slot).store(distance, Relaxed);
        self.rows.set_bits(slot, 0);
        prepare(&self.rows, slot);
        table.bucket(at).publish(way, tag_of(hash), slot);
        (table.position(at, way), slot)
    }

    /// Replaces the pair at a position, and returns the new slot and the old one. `prepare`
    /// receives the old slot and the new one before the new one is published.
    pub(crate) fn replace(
        &self,
        state: &mut WriterState,
        position: u32,
        key: K,
        value: V,
        prepare: impl FnOnce(&Rows, u32, u32),
    ) -> (u32, Loose) {
        let slot = self.store(state, key, value);
        let table = self.tables(state).of(position);
        let old = table.slot_at(position).expect("an entry is replaced");
        let distance = self.rows.distance(old).load(Relaxed);
        self.rows.distance(slot).store(distance, Relaxed);
        self.rows.set_bits(slot, self.rows.bits(old));
        prepare(&self.rows, old, slot);
        table.replace(position, slot);
        let loose = Loose {
            slot: old,
            id: self.id,
        };
        (slot, loose)
    }

    /// Removes the entry at a position from the table.
    pub(crate) fn unlink(&self, state: &mut WriterState, position: u32) -> Loose {
        let table = self.tables(state).of(position);
        let slot = table.slot_at(position).expect("an entry is unlinked");
        let distance = self.rows.distance(slot).load(Relaxed);
        table.vacate(position, (distance != FAR).then_some(usize::from(distance)));
        Loose { slot, id: self.id }
    }

    /// Returns the pair of a loose slot.
    pub(crate) fn pair_of<'a>(&'a self, loose: &'a Loose) -> (&'a K, &'a V) {
        assert_eq!(self.id, loose.id, "the slot is one of this map");
        // SAFETY: a loose slot is neither retired nor reused, and the token that represents it is
        // borrowed.
        let (key, value) = unsafe { self.pair(loose.slot) };
        (key, value)
    }

    /// Takes the pair of a loose slot at once. No reader can exist, because the map is borrowed
    /// exclusively.
    pub(crate) fn take_pair(&mut self, state: &mut WriterState, loose: Loose) -> (K, V) {
        self.check(state);
        assert_eq!(self.id, loose.id, "the slot is one of this map");
        let pair = self.rows.pair::<(K, V)>(loose.slot);
        state.free.push(loose.slot);
        // SAFETY: the slot is unlinked, the token is used up, and no other reference exists.
        unsafe { pair.read() }
    }

    /// Returns the value at a position. No reader can exist, because the map is borrowed
    /// exclusively.
    pub(crate) fn value_mut(&mut self, state: &mut WriterState, position: u32) -> &mut V {
        let slot = self
            .tables(state)
            .slot_at(position)
            .expect("an entry is there");
        let pair = self.rows.pair::<(K, V)>(slot);
        // SAFETY: the table holds the slot, so that it has a pair, and no other reference exists.
        &mut unsafe { &mut *pair }.1
    }

    fn free_old(&self, state: &mut WriterState, garbage: &mut Vec<(K, V)>) {
        for slot in &state.old {
            if needs_drop::<(K, V)>() {
                let pair = self.rows.pair::<(K, V)>(*slot);
                // SAFETY: the grace period has ended, so that no reader refers to the pair. The
                // slot leaves the list, so that the pair is read only once.
                garbage.push(unsafe { pair.read() });
            }
        }
        if state.free.is_empty() {
            std::mem::swap(&mut state.free, &mut state.old);
        } else {
            state.free.append(&mut state.old);
        }
    }

    /// Drops all pairs. It is called once, when the map is dropped together with its writer state.
    pub(crate) fn drop_all(&mut self, state: &mut WriterState) {
        self.check(state);
        let mut slots = take(&mut state.young);
        slots.append(&mut state.old);
        for table in self.tables(state).each() {
            table.each(|position, slot| {
                slots.push(slot);
                table.vacate(position, None);
            });
        }
        if !needs_drop::<(K, V)>() {
            return;
        }
        let mut pairs = Vec::with_capacity(slots.len());
        for slot in slots {
            let pair = self.rows.pair::<(K, V)>(slot);
            // SAFETY: each slot with a pair is either in the table or retired, and was removed from
            // both above, so that the pair is read only once.
            pairs.push(unsafe { pair.read() });
        }
        // The vector drops the other pairs even if one of the destructors panics.
        drop(pairs);
    }
}

impl<K, V> Drop for Map<K, V> {
    fn drop(&mut self) {
        let table = std::mem::replace(self.table.get_mut(), null_mut());
        // SAFETY: the pointer came from a box, and no thread uses the map any more.
        drop(unsafe { Box::from_raw(table) });
        let older = std::mem::replace(self.older.get_mut(), null_mut());
        if !older.is_null() {
            // SAFETY: likewise.
            drop(unsafe { Box::from_raw(older) });
        }
    }
}

impl WriterState {
    fn take_slot(&mut self, rows: &Rows) -> u32 {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        if self.fresh.is_empty() {
            self.fresh = rows.add_chunk(self.chunks);
            self.chunks += 1;
        }
        self.fresh.next().expect("a chunk has slots")
    }

    /// Drops the replaced tables that no reader uses. `oldest` is the earliest epoch of a reader.
    fn drop_tables(&mut self, oldest: u64) {
        self.tables.retain(|replaced| {
            let is_used = oldest < replaced.epoch;
            if !is_used {
                // SAFETY: `begin_growth` made the pointer from a box, and the pointer leaves the
                // list here.
                drop(unsafe { Box::from_raw(replaced.table.load(Relaxed)) });
            }
            is_used
        });
    }

    /// Returns the heap memory of the lists and of replaced tables in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let buckets: usize = self
            .tables
            .iter()
            .map(|replaced| replaced.bucket_count)
            .sum();
        4 * (self.free.capacity() + self.young.capacity() + self.old.capacity())
            + buckets * size_of::<[u64; 8]>()
    }
}

impl Drop for WriterState {
    fn drop(&mut self) {
        // No reader is left, because the map is dropped together with its writer state.
        self.drop_tables(u64::MAX);
    }
}

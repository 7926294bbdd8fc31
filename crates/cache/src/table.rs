//! The hash table that finds a key's slot: buckets of one cache line, in subtables that split.
//!
//! ```text
//! hash (64 bits)   prefix of the subtable, from the top │ … │ home bucket 16 │ tag 8 │ shard 8
//! bucket (64 B)    12 tags of 8 bits (0: free) │ overflow count 1 │ spare 3 │ 12 slots of 32 bits
//! ```
//!
//! A key is stored in its home bucket or, if that is full, in one of the next buckets of the same
//! subtable. Each bucket counts the keys that have overflowed past it, so that a search ends at the
//! first bucket with a count of zero. The scheme comes from F14 (Bronson and Shi, "Open-sourcing
//! F14 for faster, more memory-efficient hash tables", 2019).
//!
//! A full subtable splits in two by one more bit of the prefix (extendible hashing: Fagin,
//! Nievergelt, Pippenger and Strong, TODS 1979). Growth is therefore one bounded step, and there
//! are never two copies of the whole table.
//!
//! Hashes are uniform, so all subtables of a table fill at about the same time, and a single table
//! costs between 5.9 and 11.9 bytes per key. The tables of a keyspace are therefore *staggered*:
//! each has subtables of a different size, between 64 and 128 buckets. The sum over all tables
//! stays near the mean of 8.6 bytes per key for any number of keys.
//!
//! The table does not see keys. The host compares them and hashes them again.

use policy::Slot;

const WAYS: usize = 12;
const BUCKETS_MIN: usize = 64;
/// Tenths of a subtable's ways in use at which it splits.
const FULL_TENTHS: usize = 9;
/// Tenths of one subtable's ways that the slots of two subtables may fill for a merge.
const MERGE_TENTHS: usize = 6;
/// Like [`MERGE_TENTHS`], but for [`Table::shrink`]. It is higher because nothing waits for that
/// work, and lower than the fill at which a subtable splits, so that splits and merges do not
/// alternate.
const SHRINK_TENTHS: usize = 8;
/// Maximum prefix bits of a directory: 2^20 subtables, at least 700 million keys per table.
const DEPTH_MAX: u8 = 20;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Bucket {
    tags: [u8; WAYS],
    /// Number of keys whose home bucket is this one or an earlier one, but which are stored in a
    /// later one. A count that has reached 255 is never decremented.
    overflow: u8,
    spare: [u8; 3],
    slots: [u32; WAYS],
}
const _: () = assert!(size_of::<Bucket>() == 64);

const EMPTY: Bucket = Bucket {
    tags: [0; WAYS],
    overflow: 0,
    spare: [0; 3],
    slots: [0; WAYS],
};
const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;

impl Bucket {
    /// Returns one bit for each way whose tag is `tag`, at bit 8 × way + 7 of a 96-bit number.
    #[inline(always)]
    fn matches(&self, tag: u8) -> u128 {
        let (low, high) = self.tags.split_at(8);
        let low = u64::from_le_bytes(low.try_into().expect("eight tags"));
        let high = u32::from_le_bytes(high.try_into().expect("four tags"));
        let pattern = u64::from(tag) * 0x0101_0101_0101_0101;
        let zero_bytes = |x: u64| !(((x & LOW_BITS) + LOW_BITS) | x | LOW_BITS);
        let high = zero_bytes(u64::from(high) ^ pattern) & 0xffff_ffff;
        u128::from(zero_bytes(low ^ pattern)) | u128::from(high) << 64
    }
}

#[inline(always)]
fn first_way(matches: u128) -> usize {
    (matches.trailing_zeros() / 8) as usize
}

struct SubTable {
    buckets: Box<[Bucket]>,
    count: u32,
    /// Number of hash prefix bits that all keys of this subtable share.
    depth: u8,
    prefix: u32,
}

/// Number of buckets by which prefetching is ahead of the use of keys in a split.
const PREFETCHED_BUCKETS: usize = 2;

/// Position of a scan, which stays valid while subtables split and merge: every key before it has
/// been returned. Positions are ordered by home bucket, then by hash prefix.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Position {
    /// Home bucket at which the scan continues.
    pub bucket: u16,
    /// First 32 bits of the hash at which the scan continues.
    pub prefix: u32,
}

/// Slots by hash, with 12 slots per cache line.
pub struct Table {
    directory: Vec<u32>,
    subtables: Vec<SubTable>,
    depth: u8,
    buckets: usize,
    len: usize,
    /// Number of subtables at each depth. The directory is halved when none has the full depth.
    by_depth: [u32; DEPTH_MAX as usize + 1],
    /// Number of the subtable that [`Table::shrink`] examines next.
    swept: u32,
    /// Number of subtables examined without a merge since the last removal.
    examined: u32,
}

/// Returns the 8-bit tag of a hash. 0 marks a free way.
#[inline(always)]
fn tag_of(hash: u64) -> u8 {
    ((hash >> 8) as u8).max(1)
}

impl Table {
    /// Creates an empty table. `stagger` in [0, 1) selects the size of its subtables between 64 and
    /// 128 buckets. The tables of one keyspace use evenly spaced values.
    pub fn new(stagger: f64) -> Table {
        assert!((0.0..1.0).contains(&stagger));
        let buckets = (BUCKETS_MIN as f64 * stagger.exp2()).round() as usize;
        let mut table = Table {
            directory: vec![0],
            subtables: Vec::new(),
            depth: 0,
            buckets,
            len: 0,
            by_depth: [0; DEPTH_MAX as usize + 1],
            swept: 0,
            examined: 0,
        };
        table.add_subtable(0, 0);
        table
    }

    fn add_subtable(&mut self, depth: u8, prefix: u32) -> u32 {
        let buckets = vec![EMPTY; self.buckets].into_boxed_slice();
        let subtable = SubTable {
            buckets,
            count: 0,
            depth,
            prefix,
        };
        self.by_depth[depth as usize] += 1;
        self.subtables.push(subtable);
        self.subtables.len() as u32 - 1
    }

    #[inline(always)]
    fn subtable_number(&self, hash: u64) -> u32 {
        // Two shifts, because a single shift by 64 (at depth 0) would overflow.
        self.directory[(hash >> 1 >> (63 - self.depth)) as usize]
    }

    #[inline(always)]
    fn subtable_of(&self, hash: u64) -> &SubTable {
        &self.subtables[self.subtable_number(hash) as usize]
    }

    /// Returns the home bucket of a hash within its subtable.
    #[inline(always)]
    pub fn home(&self, hash: u64) -> usize {
        ((hash >> 16 & 0xffff) as usize * self.buckets) >> 16
    }

    /// Returns the position at which a scan returns the key with this hash.
    pub fn position_of(&self, hash: u64) -> Position {
        Position {
            bucket: self.home(hash) as u16,
            prefix: (hash >> 32) as u32,
        }
    }

    /// Returns the number of slots.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the table holds no slot.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Prefetches the home bucket.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        crate::prefetch::prefetch(&self.subtable_of(hash).buckets[self.home(hash)]);
    }

    /// Returns the first slot with the tag of `hash` for which `is_it` returns true.
    #[inline]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(Slot) -> bool) -> Option<Slot> {
        let subtable = self.subtable_of(hash);
        let (tag, mut at) = (tag_of(hash), self.home(hash));
        for _ in 0..subtable.buckets.len() {
            let bucket = &subtable.buckets[at];
            let mut matches = bucket.matches(tag);
            while matches != 0 {
                let slot = Slot(bucket.slots[first_way(matches)]);
                if is_it(slot) {
                    return Some(slot);
                }
                matches &= matches - 1;
            }
            if bucket.overflow == 0 {
                return None;
            }
            at = if at + 1 == subtable.buckets.len() {
                0
            } else {
                at + 1
            };
        }
        None
    }

    /// Adds an absent slot. For a split, `hash_of` returns the hash of the key at a slot, and
    /// `prefetch` prefetches the key.
    pub fn insert(
        &mut self,
        hash: u64,
        slot: Slot,
        hash_of: impl Fn(Slot) -> u64,
        prefetch: impl Fn(Slot),
    ) {
        debug_assert!(self.find(hash, |other| other == slot).is_none());
        loop {
            let number = self.subtable_number(hash);
            let full = self.buckets * WAYS * FULL_TENTHS / 10;
            let subtable = &self.subtables[number as usize];
            let may_split = subtable.depth < DEPTH_MAX;
            if (subtable.count as usize) < full || !may_split && subtable.has_room() {
                break;
            }
            assert!(may_split, "a table holds at most 2^20 subtables");
            self.split(number, &hash_of, &prefetch);
        }
        let home = self.home(hash);
        let number = self.subtable_number(hash) as usize;
        self.subtables[number].place(home, tag_of(hash), slot);
        self.len += 1;
    }

    /// Removes a slot, which must be present.
    pub fn remove(&mut self, hash: u64, slot: Slot, hash_of: impl Fn(Slot) -> u64) {
        assert!(self.len > 0, "the slot must be in the table");
        let home = self.home(hash);
        let number = self.subtable_number(hash);
        let subtable = &mut self.subtables[number as usize];
        let (at, way) = subtable.position_of(home, tag_of(hash), slot);
        subtable.buckets[at].tags[way] = 0;
        subtable.decrement_overflow(home, at);
        subtable.count -= 1;
        self.len -= 1;
        self.examined = 0;
        if (subtable.count as usize) < self.buckets * WAYS * MERGE_TENTHS / 20 {
            self.merge(number, MERGE_TENTHS, hash_of);
        }
    }

    /// Examines up to `steps` subtables and merges at most one of them, with up to 1,200 keys.
    /// Returns whether another call may merge more.
    ///
    /// Nothing is examined while the subtables of the greatest depth are as full as after a split,
    /// judging by the expected share of keys. The mean over all subtables would be misleading: it
    /// rises with every merge, so that about half of the pairs would stay unmerged.
    ///
    /// A removal merges the subtable of its key. If the other half is split further at that time,
    /// the subtable remains, and once it is empty no removal examines it again.
    pub fn shrink(&mut self, steps: u32, hash_of: impl Fn(Slot) -> u64) -> bool {
        let sparse = self.buckets * WAYS * SHRINK_TENTHS / 20;
        for _ in 0..steps {
            let count = self.subtables.len();
            let is_dense = self.len >> self.depth >= sparse;
            if count == 1 || self.examined as usize >= count || is_dense {
                return false;
            }
            let number = self.swept as usize % count;
            self.swept = number as u32 + 1;
            self.examined += 1;
            let is_sparse = (self.subtables[number].count as usize) < sparse;
            if is_sparse && self.merge(number as u32, SHRINK_TENTHS, &hash_of) {
                self.examined = 0;
                return true;
            }
        }
        true
    }

    /// Replaces a key's slot `old` by `new`.
    pub fn replace(&mut self, hash: u64, old: Slot, new: Slot) {
        debug_assert_ne!(old, new);
        let home = self.home(hash);
        let number = self.subtable_number(hash) as usize;
        let subtable = &mut self.subtables[number];
        let (at, way) = subtable.position_of(home, tag_of(hash), old);
        subtable.buckets[at].slots[way] = new.0;
    }

    fn split(&mut self, number: u32, hash_of: &impl Fn(Slot) -> u64, prefetch: &impl Fn(Slot)) {
        debug_assert!(self.subtables[number as usize].depth < DEPTH_MAX);
        let SubTable { depth, prefix, .. } = self.subtables[number as usize];
        if depth == self.depth {
            self.directory = self.directory.iter().flat_map(|&s| [s, s]).collect();
            self.depth += 1;
        }
        let buckets = vec![EMPTY; self.buckets].into_boxed_slice();
        let old = &mut self.subtables[number as usize];
        let old_buckets = std::mem::replace(&mut old.buckets, buckets);
        (old.count, old.depth, old.prefix) = (0, depth + 1, prefix << 1);
        self.by_depth[depth as usize] -= 1;
        self.by_depth[depth as usize + 1] += 1;
        let upper = self.add_subtable(depth + 1, prefix << 1 | 1);
        let width = 1 << (self.depth - depth - 1);
        let first = (prefix as usize * 2 + 1) * width;
        self.directory[first..first + width].fill(upper);
        for (at, bucket) in old_buckets.iter().enumerate() {
            if let Some(next) = old_buckets.get(at + PREFETCHED_BUCKETS) {
                let used = next
                    .tags
                    .iter()
                    .zip(next.slots)
                    .filter(|(tag, _)| **tag != 0);
                used.for_each(|(_, slot)| prefetch(Slot(slot)));
            }
            for (way, &tag) in bucket.tags.iter().enumerate().filter(|(_, t)| **t != 0) {
                let slot = Slot(bucket.slots[way]);
                let hash = hash_of(slot);
                let home = self.home(hash);
                let target = self.subtable_number(hash) as usize;
                self.subtables[target].place(home, tag, slot);
            }
        }
    }

    /// Merges a subtable with its other half if the slots of both fill at most this many tenths of
    /// one subtable. Returns whether they were merged.
    fn merge(&mut self, number: u32, tenths: usize, hash_of: impl Fn(Slot) -> u64) -> bool {
        let SubTable {
            depth,
            prefix,
            count,
            ..
        } = self.subtables[number as usize];
        if depth == 0 {
            return false;
        }
        let width = 1usize << (self.depth - depth);
        let other = self.directory[(prefix ^ 1) as usize * width];
        let buddy = &self.subtables[other as usize];
        let together = (count + buddy.count) as usize;
        if buddy.depth != depth || together > self.buckets * WAYS * tenths / 10 {
            return false;
        }
        let moving = std::mem::take(&mut self.subtables[other as usize].buckets);
        self.by_depth[depth as usize] -= 2;
        self.by_depth[depth as usize - 1] += 1;
        let kept = &mut self.subtables[number as usize];
        (kept.depth, kept.prefix) = (depth - 1, prefix >> 1);
        let first = (prefix >> 1) as usize * width * 2;
        self.directory[first..first + width * 2].fill(number);
        for bucket in &moving {
            for (way, &tag) in bucket.tags.iter().enumerate().filter(|(_, t)| **t != 0) {
                let slot = Slot(bucket.slots[way]);
                let home = self.home(hash_of(slot));
                self.subtables[number as usize].place(home, tag, slot);
            }
        }
        while self.depth > 0 && self.by_depth[self.depth as usize] == 0 {
            self.directory = self.directory.iter().copied().step_by(2).collect();
            self.depth -= 1;
        }
        self.remove_subtable(other);
        true
    }

    /// Removes a subtable without directory entries. The last subtable gets its number.
    fn remove_subtable(&mut self, number: u32) {
        self.subtables.swap_remove(number as usize);
        if let Some(SubTable { depth, prefix, .. }) = self.subtables.get(number as usize) {
            let width = 1usize << (self.depth - depth);
            let first = *prefix as usize * width;
            self.directory[first..first + width].fill(number);
        }
        if self.subtables.len() < self.subtables.capacity() / 4 {
            self.subtables.shrink_to(self.subtables.len() * 2);
        }
    }

    /// Returns the slot at the position (a way of a bucket) selected by `random`; every slot is
    /// equally likely. Returns `None` if the position is free.
    pub fn sample(&self, random: u64) -> Option<Slot> {
        let subtable = &self.subtables[((random >> 32) as usize * self.subtables.len()) >> 32];
        let way = ((random & 0xffff_ffff) as usize * self.buckets * WAYS) >> 32;
        let bucket = subtable.buckets.get(way / WAYS)?;
        (bucket.tags[way % WAYS] != 0).then_some(Slot(bucket.slots[way % WAYS]))
    }

    /// Passes all slots whose home is one bucket to `each`. Slots of neighbouring buckets may be
    /// passed as well; the host compares their `home` and skips them. Returns the next position, or
    /// `None` at the end.
    pub fn scan(&self, at: Position, mut each: impl FnMut(Slot)) -> Option<Position> {
        let home = at.bucket as usize;
        if home >= self.buckets {
            return None;
        }
        let subtable = self.subtable_of(u64::from(at.prefix) << 32);
        let mut bucket = home;
        for _ in 0..subtable.buckets.len() {
            let line = &subtable.buckets[bucket];
            for (way, _) in line.tags.iter().enumerate().filter(|(_, t)| **t != 0) {
                each(Slot(line.slots[way]));
            }
            if line.overflow == 0 {
                break;
            }
            bucket = (bucket + 1) % subtable.buckets.len();
        }
        let behind = (u64::from(subtable.prefix) + 1) << (32 - subtable.depth);
        match u32::try_from(behind) {
            Ok(prefix) => Some(Position { prefix, ..at }),
            Err(_) if home + 1 == self.buckets => None,
            Err(_) => Some(Position {
                bucket: at.bucket + 1,
                prefix: 0,
            }),
        }
    }

    /// Returns the number of bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.subtables.len() * self.buckets * size_of::<Bucket>()
            + self.subtables.capacity() * size_of::<SubTable>()
            + self.directory.capacity() * 4
    }

    /// Panics if directory, subtables and counts disagree. Takes time proportional to the number of
    /// slots.
    pub fn check(&self, hash_of: impl Fn(Slot) -> u64) {
        assert_eq!(self.directory.len(), 1 << self.depth);
        let mut len = 0;
        for (number, subtable) in self.subtables.iter().enumerate() {
            let width = 1 << (self.depth - subtable.depth);
            let first = subtable.prefix as usize * width;
            assert!(
                self.directory[first..first + width]
                    .iter()
                    .all(|&s| s as usize == number)
            );
            let mut count = 0;
            for bucket in &subtable.buckets {
                for (way, &tag) in bucket.tags.iter().enumerate().filter(|(_, t)| **t != 0) {
                    let hash = hash_of(Slot(bucket.slots[way]));
                    assert_eq!(tag, tag_of(hash));
                    assert_eq!(self.subtable_number(hash) as usize, number);
                    assert!(self.find(hash, |s| s.0 == bucket.slots[way]).is_some());
                    count += 1;
                }
            }
            assert_eq!(count, subtable.count);
            len += count as usize;
        }
        assert_eq!(len, self.len);
    }
}

impl SubTable {
    fn has_room(&self) -> bool {
        (self.count as usize) < self.buckets.len() * WAYS
    }

    /// Puts a slot into the first free way at or after `home`. There must be one.
    fn place(&mut self, home: usize, tag: u8, slot: Slot) {
        debug_assert!(tag != 0);
        debug_assert!(self.has_room());
        let mut at = home;
        loop {
            let bucket = &mut self.buckets[at];
            let free = bucket.matches(0);
            if free != 0 {
                let way = first_way(free);
                (bucket.tags[way], bucket.slots[way]) = (tag, slot.0);
                self.count += 1;
                return;
            }
            bucket.overflow = bucket.overflow.saturating_add(1);
            at = if at + 1 == self.buckets.len() {
                0
            } else {
                at + 1
            };
        }
    }

    /// Returns the bucket and the way of a slot, which must be present.
    fn position_of(&self, home: usize, tag: u8, slot: Slot) -> (usize, usize) {
        let mut at = home;
        for _ in 0..self.buckets.len() {
            let bucket = &self.buckets[at];
            let mut matches = bucket.matches(tag);
            while matches != 0 {
                let way = first_way(matches);
                if bucket.slots[way] == slot.0 {
                    return (at, way);
                }
                matches &= matches - 1;
            }
            assert!(bucket.overflow > 0, "the slot must be in the table");
            at = if at + 1 == self.buckets.len() {
                0
            } else {
                at + 1
            };
        }
        unreachable!("the slot must be in the table");
    }

    /// Decrements the overflow counts of the buckets from a key's home up to the bucket `at` that
    /// held it.
    fn decrement_overflow(&mut self, home: usize, at: usize) {
        let mut bucket = home;
        while bucket != at {
            let overflow = &mut self.buckets[bucket].overflow;
            if *overflow < u8::MAX {
                *overflow -= 1;
            }
            bucket = if bucket + 1 == self.buckets.len() {
                0
            } else {
                bucket + 1
            };
        }
    }
}

#[cfg(test)]
mod tests;

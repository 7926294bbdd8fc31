//! Memory of entries: rows of four, in chunks that are never moved or freed while the cache exists.
//!
//! ```text
//! row     pairs     4 × (K, V), first, so that their addresses need no offset
//!         policy    4 × 1, 2, 4 or 8 bytes, as the policy needs
//!         weights   4 × 4 bytes, if the cache has a weigher
//!         distances 4 × 1 byte: buckets between the key's home and its bucket; 255 is "unknown"
//!         deadlines 4 × 8 bytes, if the cache has deadlines
//!         limits    4 × 8 bytes, if it has idle times too: the latest deadline a read can set
//! ```
//!
//! A row of two `u64` without deadlines takes 72 bytes under S3-FIFO, 18 per entry, and 104 bytes
//! with deadlines. The word of a deadline holds the instant in its high 48 bits and the expiry
//! index's link in the low 16. A word of 0 means "no deadline".
//!
//! Everything but the pairs is atomic, because readers mark entries and extend idle times. A pair
//! is written before its slot is published, and does not change until no reader can see it.
//!
//! Slots are numbered through all chunks. The first chunk has as many slots as the cache needs at
//! first. The sizes of the others are powers of two that double, starting at the next power of two.

#![expect(unsafe_code, reason = "raw memory; tidy lists this file")]

use policy::Tick;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::Range;
use std::sync::atomic::{
    AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Number of entries in a row.
const LANES: usize = 4;
/// Maximum number of chunks; together they hold more slots than a shard can have.
const CHUNKS: usize = 28;
/// Number of low bits of a deadline's word that hold the index's link.
pub(crate) const LINK_BITS: u32 = 16;
/// Value of the distance column that means "unknown".
pub(crate) const FAR: u8 = u8::MAX;

/// Columns of a cache's rows in addition to the pairs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns {
    pub has_deadlines: bool,
    pub has_limits: bool,
    pub has_weights: bool,
    /// Number of bits that the policy needs per entry.
    pub policy_bits: u32,
}

/// Offset that means "no such column". Pairs or the policy's bits may have this offset, but never
/// deadlines.
const ABSENT: u32 = 0;

/// Offsets within a row, in bytes.
#[derive(Clone, Copy, Debug)]
struct Offsets {
    /// [`ABSENT`] in a cache without deadlines.
    deadlines: u32,
    limits: u32,
    policy: u32,
    weights: u32,
    distances: u32,
    row: u32,
}

/// Rows of one shard.
pub(crate) struct Rows {
    chunks: [AtomicPtr<u8>; CHUNKS],
    /// Binary logarithm of the first slot number that is not in the first chunk.
    first_bits: u32,
    /// Number of slots in the first chunk.
    first_slots: u32,
    columns: Columns,
    policy_bytes: u32,
    /// Size of a pair in bytes, against which the map's typed access is checked.
    pair_bytes: usize,
    offsets: Offsets,
    layout: Layout,
}

/// Columns of one slot.
#[derive(Clone, Copy)]
pub(crate) struct Lane<'a> {
    rows: &'a Rows,
    row: *mut u8,
    lane: usize,
}

impl Rows {
    /// Creates rows for pairs of this layout, without any chunk. The first chunk will have at least
    /// `first_slots` slots.
    pub(crate) fn new(columns: Columns, pair: Layout, first_slots: u32) -> Self {
        let first_slots = first_slots.clamp(1, 1 << 29).next_multiple_of(LANES as u32);
        let first_bits = first_slots.next_power_of_two().trailing_zeros();
        let policy_bytes = match columns.policy_bits {
            0..=8 => 1,
            9..=16 => 2,
            17..=32 => 4,
            _ => 8,
        };
        let mut at = 0;
        let mut place = |is_there: bool, bytes: usize, align: usize| {
            let start = usize::next_multiple_of(at, align);
            if is_there {
                at = start + bytes;
            }
            u32::try_from(start).expect("a row is below 4 GiB")
        };
        let pairs = place(true, pair.size() * LANES, pair.align());
        assert_eq!(pairs, 0);
        let policy = place(true, policy_bytes * LANES, policy_bytes);
        let weights = place(columns.has_weights, 4 * LANES, 4);
        let distances = place(true, LANES, 1);
        let deadlines = place(columns.has_deadlines, 8 * LANES, 8);
        let limits = place(columns.has_limits, 8 * LANES, 8);
        let align = pair.align().max(8);
        let row = place(false, 0, align);
        Rows {
            chunks: [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS],
            first_bits,
            first_slots,
            columns,
            policy_bytes: policy_bytes as u32,
            pair_bytes: pair.size(),
            offsets: Offsets {
                deadlines: if columns.has_deadlines {
                    deadlines
                } else {
                    ABSENT
                },
                limits,
                policy,
                weights,
                distances,
                row,
            },
            layout: Layout::from_size_align(row as usize, align).expect("a row is small"),
        }
    }

    pub(crate) fn columns(&self) -> Columns {
        self.columns
    }

    /// Returns the number of the slot's chunk and the first slot of that chunk.
    #[inline(always)]
    fn chunk_of(&self, slot: u32) -> (usize, u32) {
        if slot >> self.first_bits == 0 {
            return (0, 0);
        }
        let chunk = 32 - (slot >> self.first_bits).leading_zeros();
        let first = ((1u32 << chunk) >> 1) << self.first_bits;
        (chunk as usize, first)
    }

    /// Returns the number of slots in a chunk.
    fn slots_of(&self, chunk: usize) -> u32 {
        match chunk {
            0 => self.first_slots,
            _ => 1 << (self.first_bits as usize + chunk - 1),
        }
    }

    fn layout_of(&self, chunk: usize) -> Layout {
        let rows = self.slots_of(chunk) as usize / LANES;
        Layout::from_size_align(rows * self.layout.size(), self.layout.align())
            .expect("a chunk fits in the address space")
    }

    /// Allocates chunk `chunk`, which must be the next one, and returns its slots.
    pub(crate) fn add_chunk(&self, chunk: usize) -> Range<u32> {
        assert!(self.chunks[chunk].load(Relaxed).is_null());
        let layout = self.layout_of(chunk);
        // SAFETY: a chunk has at least one row, and a row at least 8 bytes.
        let memory = unsafe { alloc_zeroed(layout) };
        if memory.is_null() {
            handle_alloc_error(layout);
        }
        self.chunks[chunk].store(memory, Release);
        let first = ((1u32 << chunk) >> 1) << self.first_bits;
        first..first + self.slots_of(chunk)
    }

    /// Returns the columns of a slot.
    #[inline(always)]
    pub(crate) fn lane(&self, slot: u32) -> Lane<'_> {
        // If the size of a cache is known, all its slots are in the first chunk.
        let (memory, index) = if slot < self.first_slots {
            (self.chunks[0].load(Acquire), slot)
        } else {
            self.later(slot)
        };
        assert!(!memory.is_null(), "a slot that was handed out has memory");
        let index = index as usize;
        let at = index / LANES * self.offsets.row as usize;
        // SAFETY: the chunk has memory for all its slots, and the slot is one of them.
        let row = unsafe { memory.add(at) };
        Lane {
            rows: self,
            row,
            lane: index % LANES,
        }
    }

    /// Returns the memory of a slot's chunk, which is not the first one, and the slot's index
    /// there.
    #[inline(always)]
    fn later(&self, slot: u32) -> (*mut u8, u32) {
        let (chunk, first) = self.chunk_of(slot);
        (self.chunks[chunk].load(Acquire), slot - first)
    }

    /// Returns the memory of the slot's pair. `P` is its type.
    #[inline(always)]
    pub(crate) fn pair<P>(&self, slot: u32) -> *mut P {
        self.lane(slot).pair()
    }

    /// Returns the word of the deadline. The cache must have deadlines.
    #[inline(always)]
    pub(crate) fn deadline(&self, slot: u32) -> &AtomicU64 {
        self.lane(slot).deadline()
    }

    /// Returns the word of the limit, if the cache has limits.
    #[inline]
    pub(crate) fn limit(&self, slot: u32) -> Option<&AtomicU64> {
        self.lane(slot).limit()
    }

    /// Returns the word of the weight, if the cache has a weigher.
    #[inline]
    pub(crate) fn weight(&self, slot: u32) -> Option<&AtomicU32> {
        self.lane(slot).weight()
    }

    /// Returns the byte of the distance.
    #[inline]
    pub(crate) fn distance(&self, slot: u32) -> &AtomicU8 {
        self.lane(slot).distance()
    }

    /// Returns the policy's bits.
    #[inline]
    pub(crate) fn bits(&self, slot: u32) -> u64 {
        self.lane(slot).bits()
    }

    /// Stores the policy's bits.
    #[inline]
    pub(crate) fn set_bits(&self, slot: u32, bits: u64) {
        self.lane(slot).set_bits(bits);
    }

    /// Returns the size of all chunks in bytes, including memory that was never touched.
    pub(crate) fn bytes(&self) -> usize {
        let is_there = |chunk: &usize| !self.chunks[*chunk].load(Relaxed).is_null();
        let chunks = (0..CHUNKS).filter(is_there);
        chunks.map(|chunk| self.layout_of(chunk).size()).sum()
    }
}

impl<'a> Lane<'a> {
    #[inline(always)]
    fn column(self, offset: u32, bytes: usize) -> *mut u8 {
        // SAFETY: the columns lie within the row, whose lanes are below LANES.
        unsafe { self.row.add(offset as usize + self.lane * bytes) }
    }

    /// Returns the memory of the slot's pair. `P` is its type.
    #[inline(always)]
    pub(crate) fn pair<P>(self) -> *mut P {
        debug_assert_eq!(size_of::<P>(), self.rows.pair_bytes);
        self.column(0, size_of::<P>()).cast()
    }

    /// Returns the word of the deadline. The cache must have deadlines.
    #[inline(always)]
    pub(crate) fn deadline(self) -> &'a AtomicU64 {
        let offset = self.rows.offsets.deadlines;
        assert_ne!(offset, ABSENT, "the cache has deadlines");
        let word = self.column(offset, 8).cast::<AtomicU64>();
        // SAFETY: the column holds zeroed words of 8 bytes, aligned by `new`, that are only
        // accessed as atomics and exist as long as the rows.
        unsafe { &*word }
    }

    /// Returns the deadline, if the cache has deadlines and the entry has one.
    #[inline(always)]
    pub(crate) fn deadline_if_any(self) -> Option<Tick> {
        if self.rows.offsets.deadlines == ABSENT {
            return None;
        }
        let deadline = self.deadline().load(Relaxed) >> LINK_BITS;
        (deadline != 0).then_some(Tick(deadline))
    }

    /// Returns the word of the limit, if the cache has limits.
    #[inline(always)]
    pub(crate) fn limit(self) -> Option<&'a AtomicU64> {
        if !self.rows.columns.has_limits {
            return None;
        }
        let word = self.column(self.rows.offsets.limits, 8).cast::<AtomicU64>();
        // SAFETY: as in `deadline`.
        Some(unsafe { &*word })
    }

    /// Returns the word of the weight, if the cache has a weigher.
    #[inline]
    pub(crate) fn weight(self) -> Option<&'a AtomicU32> {
        if !self.rows.columns.has_weights {
            return None;
        }
        let word = self
            .column(self.rows.offsets.weights, 4)
            .cast::<AtomicU32>();
        // SAFETY: as in `deadline`, with words of 4 bytes.
        Some(unsafe { &*word })
    }

    /// Returns the byte of the distance.
    #[inline]
    pub(crate) fn distance(self) -> &'a AtomicU8 {
        let byte = self
            .column(self.rows.offsets.distances, 1)
            .cast::<AtomicU8>();
        // SAFETY: as in `deadline`, with bytes.
        unsafe { &*byte }
    }

    /// Returns the policy's byte. The policy must have at most 8 bits.
    #[inline(always)]
    pub(crate) fn byte(self) -> &'a AtomicU8 {
        debug_assert_eq!(self.rows.policy_bytes, 1);
        let byte = self.column(self.rows.offsets.policy, 1).cast::<AtomicU8>();
        // SAFETY: the column holds at least one byte per lane, only accessed as atomics.
        unsafe { &*byte }
    }

    /// Returns the policy's bits.
    #[inline]
    pub(crate) fn bits(self) -> u64 {
        let at = self.column(self.rows.offsets.policy, self.rows.policy_bytes as usize);
        match self.rows.policy_bytes {
            // SAFETY: the column holds integers of this size, accessed as atomics only.
            1 => u64::from(unsafe { &*at.cast::<AtomicU8>() }.load(Relaxed)),
            // SAFETY: likewise.
            2 => u64::from(unsafe { &*at.cast::<AtomicU16>() }.load(Relaxed)),
            // SAFETY: likewise.
            4 => u64::from(unsafe { &*at.cast::<AtomicU32>() }.load(Relaxed)),
            // SAFETY: likewise.
            _ => unsafe { &*at.cast::<AtomicU64>() }.load(Relaxed),
        }
    }

    /// Stores the policy's bits.
    #[inline]
    pub(crate) fn set_bits(self, bits: u64) {
        let at = self.column(self.rows.offsets.policy, self.rows.policy_bytes as usize);
        match self.rows.policy_bytes {
            // SAFETY: the column holds integers of this size, accessed as atomics only.
            1 => unsafe { &*at.cast::<AtomicU8>() }.store(bits as u8, Relaxed),
            // SAFETY: likewise.
            2 => unsafe { &*at.cast::<AtomicU16>() }.store(bits as u16, Relaxed),
            // SAFETY: likewise.
            4 => unsafe { &*at.cast::<AtomicU32>() }.store(bits as u32, Relaxed),
            // SAFETY: likewise.
            _ => unsafe { &*at.cast::<AtomicU64>() }.store(bits, Relaxed),
        }
    }

    /// Stores new policy bits unless they have changed since `old` was read. If two threads mark at
    /// the same time, one mark may be lost. Bits stored by a writer are never lost.
    #[inline]
    pub(crate) fn mark(self, old: u64, new: u64) {
        let at = self.column(self.rows.offsets.policy, self.rows.policy_bytes as usize);
        match self.rows.policy_bytes {
            1 => {
                // SAFETY: the column holds integers of this size, accessed as atomics only.
                let byte = unsafe { &*at.cast::<AtomicU8>() };
                let _ = byte.compare_exchange(old as u8, new as u8, Relaxed, Relaxed);
            }
            2 => {
                // SAFETY: likewise.
                let half = unsafe { &*at.cast::<AtomicU16>() };
                let _ = half.compare_exchange(old as u16, new as u16, Relaxed, Relaxed);
            }
            4 => {
                // SAFETY: likewise.
                let word = unsafe { &*at.cast::<AtomicU32>() };
                let _ = word.compare_exchange(old as u32, new as u32, Relaxed, Relaxed);
            }
            _ => {
                // SAFETY: likewise.
                let long = unsafe { &*at.cast::<AtomicU64>() };
                let _ = long.compare_exchange(old, new, Relaxed, Relaxed);
            }
        }
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        for chunk in 0..CHUNKS {
            let memory = *self.chunks[chunk].get_mut();
            if !memory.is_null() {
                let layout = self.layout_of(chunk);
                // SAFETY: `add_chunk` allocated it with this layout, and nothing refers to it.
                unsafe { dealloc(memory, layout) };
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn rows(has_all: bool, policy_bits: u32, pair: Layout) -> Rows {
        let columns = Columns {
            has_deadlines: has_all,
            has_limits: has_all,
            has_weights: has_all,
            policy_bits,
        };
        Rows::new(columns, pair, 10)
    }

    #[test]
    fn rows_take_the_bytes_that_the_module_states() {
        let pair = Layout::new::<(u64, u64)>();
        assert_eq!(rows(false, 8, pair).offsets.row, 72);
        let mut columns = rows(false, 8, pair).columns;
        columns.has_deadlines = true;
        assert_eq!(Rows::new(columns, pair, 10).offsets.row, 104);
    }

    #[test]
    fn a_pair_too_large_for_offsets_of_32_bits_is_refused() {
        // Regression: the offset of the next column was truncated, so that it was within the pair.
        let pair = Layout::array::<u8>(1 << 30).expect("it fits");
        let built = std::panic::catch_unwind(|| drop(rows(true, 8, pair)));
        assert!(built.is_err());
    }

    #[test]
    fn columns_of_all_slots_are_apart() {
        for (policy_bits, pair) in [
            (8, Layout::new::<(u64, u64)>()),
            (7, Layout::new::<(u8, u8)>()),
            (16, Layout::new::<()>()),
            (32, Layout::new::<u128>()),
            (64, Layout::new::<[u8; 3]>()),
        ] {
            let rows = rows(true, policy_bits, pair);
            let slots: Vec<u32> = (0..5).flat_map(|chunk| rows.add_chunk(chunk)).collect();
            assert_eq!(slots.len(), 12 + 16 + 32 + 64 + 128);
            for &slot in &slots {
                rows.deadline(slot)
                    .store(u64::from(slot) << 40 | 1, Relaxed);
                rows.limit(slot)
                    .expect("limits")
                    .store(u64::from(slot) << 8 | 2, Relaxed);
                rows.weight(slot)
                    .expect("weights")
                    .store(slot << 8 | 3, Relaxed);
                rows.distance(slot).store(slot as u8 ^ 4, Relaxed);
                rows.set_bits(slot, u64::from(slot) & 0x7f);
                let at = rows.lane(slot).column(0, pair.size());
                assert_eq!(at.align_offset(pair.align()), 0);
                // SAFETY: the caller may write to the memory of a pair.
                unsafe { at.write_bytes(slot as u8, pair.size()) };
            }
            for &slot in &slots {
                assert_eq!(rows.deadline(slot).load(Relaxed), u64::from(slot) << 40 | 1);
                assert_eq!(
                    rows.limit(slot).expect("limits").load(Relaxed),
                    u64::from(slot) << 8 | 2
                );
                assert_eq!(
                    rows.weight(slot).expect("weights").load(Relaxed),
                    slot << 8 | 3
                );
                assert_eq!(rows.distance(slot).load(Relaxed), slot as u8 ^ 4);
                rows.lane(slot).mark(u64::from(slot) & 0x7f, 5);
                assert_eq!(rows.bits(slot), 5);
                rows.lane(slot).mark(6, 7);
                assert_eq!(rows.bits(slot), 5, "another value is kept");
                for byte in 0..pair.size() {
                    // SAFETY: the byte is within the pair.
                    let at = unsafe { rows.lane(slot).column(0, pair.size()).add(byte) };
                    // SAFETY: the byte was written above.
                    assert_eq!(unsafe { at.read() }, slot as u8);
                }
            }
        }
    }
}

//! A trace in memory: one column for each thing that replays ask about, keys interned to dense ids.
//!
//! ```text
//! by request   id 4 · gap to the request before 4* · operation 1* · TTL 4* · size 4* · next 4*
//! by object    size 4 · TTL 4* · requests 4*
//! ```
//! A column marked * reaches only as far as the last value that is not its default: reads, requests of
//! an object at its first size, and the like cost nothing. `next` is computed when a policy asks for
//! the future, `requests` when a replay is to be explained.

use crate::{Error, Rules, Unit};
use std::sync::OnceLock;
use trace::Op;

/// The most requests of one trace: their numbers fit 32 bits, and one number is left to say "never".
pub const REQUESTS_MAX: usize = u32::MAX as usize - 1;
/// Requests interned between two checks of the memory in use.
pub(crate) const ROWS_BETWEEN_CHECKS: usize = 1 << 12;

/// A column that reaches only as far as its last value that is not the default.
#[derive(Clone, Debug, Default)]
pub(crate) struct Late<T> {
    values: Vec<T>,
}

impl<T: Copy + Default + PartialEq> Late<T> {
    /// Sets the value of a row that has none yet, or another.
    pub(crate) fn set(&mut self, row: usize, value: T) {
        if row < self.values.len() {
            self.values[row] = value;
        } else if value != T::default() {
            self.values.resize(row, T::default());
            self.values.push(value);
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self, row: usize) -> T {
        self.values.get(row).copied().unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.values.capacity() * size_of::<T>()
    }

    pub(crate) fn shrink(&mut self) {
        self.values.shrink_to_fit();
    }

    /// Bytes that the next push may allocate beside the old ones.
    pub(crate) fn growth_bytes(&self) -> usize {
        growth_bytes(&self.values)
    }
}

/// Bytes that a vector may allocate within the next few pushes, while it still holds the old ones.
pub(crate) fn growth_bytes<T>(values: &Vec<T>) -> usize {
    let is_near = values.capacity() - values.len() < ROWS_BETWEEN_CHECKS;
    if is_near {
        2 * values.capacity() * size_of::<T>()
    } else {
        0
    }
}

/// A span of time in 32 bits: milliseconds below 2^31 (24 days), above that seconds, rounded up.
/// 0 says that there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShortTtl(u32);

impl ShortTtl {
    const SECONDS: u32 = 1 << 31;

    pub(crate) fn of_ms(ms: u64) -> Self {
        if ms < u64::from(Self::SECONDS) {
            return ShortTtl(ms as u32);
        }
        let seconds = ms.div_ceil(1000).min(u64::from(Self::SECONDS - 1));
        ShortTtl(seconds as u32 | Self::SECONDS)
    }

    #[inline]
    pub(crate) fn ms(self) -> u64 {
        if self.0 & Self::SECONDS == 0 {
            u64::from(self.0)
        } else {
            u64::from(self.0 & !Self::SECONDS) * 1000
        }
    }
}

/// A gap that does not fit its column says this there and stands in `long_gaps`.
pub(crate) const LONG_GAP: u32 = u32::MAX;

/// A whole trace, interned. Made by [`crate::Interner`].
#[derive(Debug, Default)]
pub struct Columns {
    pub(crate) name: String,
    pub(crate) ids: Vec<u32>,
    pub(crate) gaps: Late<u32>,
    pub(crate) long_gaps: Vec<(u32, u64)>,
    pub(crate) ops: Late<u8>,
    /// By request; the last that was told for the object.
    pub(crate) ttls: Late<ShortTtl>,
    /// By object, from a mix; instead of `ttls`.
    pub(crate) object_ttls: Late<ShortTtl>,
    /// By object, at its first request; at least 1.
    pub(crate) sizes: Vec<u32>,
    /// By request; 0: as at the object's first request.
    pub(crate) new_sizes: Late<u32>,
    pub(crate) footprint_bytes: u64,
    /// Whether the trace tells of a future that is not its own: it is a part of another.
    pub(crate) is_part: bool,
    pub(crate) has_deletes: bool,
    /// The share of all objects that was looked at.
    pub(crate) share: f64,
    pub(crate) next: OnceLock<Vec<u32>>,
    pub(crate) counts: OnceLock<Vec<u32>>,
}

impl Columns {
    /// What the trace is called in reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many requests there are.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// How many objects are asked for.
    pub fn objects(&self) -> usize {
        self.sizes.len()
    }

    /// What all objects weigh at their first request, in bytes.
    pub fn footprint_bytes(&self) -> u64 {
        self.footprint_bytes
    }

    /// The share of all objects that was looked at: below 1 in a sample.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// What all objects of the trace weigh together; estimated where these are a sample.
    pub fn footprint(&self, unit: Unit) -> u64 {
        let held = match unit {
            Unit::Objects => self.objects() as u64,
            Unit::Bytes => self.footprint_bytes(),
        };
        match self.share() {
            1.0 => held,
            share => (held as f64 / share) as u64,
        }
    }

    /// Whether some object weighs more than one byte.
    pub fn has_sizes(&self) -> bool {
        self.footprint_bytes > self.objects() as u64
    }

    /// Whether some object has another size later than at first.
    pub fn has_size_changes(&self) -> bool {
        !self.new_sizes.is_empty()
    }

    /// Whether the trace tells when requests came.
    pub fn has_time(&self) -> bool {
        !self.gaps.is_empty()
    }

    /// From the first request to the last in milliseconds, under a gap of its own between any two or as told.
    pub fn span_ms(&self, gap_ms: Option<f64>) -> u64 {
        match gap_ms {
            Some(gap_ms) => (self.len() as f64 * gap_ms) as u64,
            None => (0..self.len()).map(|index| self.gap_ms(index)).sum(),
        }
    }

    /// Whether some object lives for a limited time.
    pub fn has_ttls(&self) -> bool {
        !self.ttls.is_empty() || !self.object_ttls.is_empty()
    }

    /// Whether some request is not a read.
    pub fn has_writes(&self) -> bool {
        !self.ops.is_empty()
    }

    /// Whether ids tell all that matters under these rules: nothing expires, is deleted, changes
    /// its weight or is kept out by a filter, and nobody looks on.
    pub(crate) fn is_plain(&self, rules: &Rules) -> bool {
        let keeps_weight = rules.unit == Unit::Objects || !self.has_size_changes();
        let is_read_only = !self.has_writes() || rules.counts_writes && !self.has_deletes();
        let is_bare = rules.admission.is_none() && !rules.explains;
        let expires = self.has_ttls() && !rules.ignores_ttls;
        let is_object_alone = rules.unit == Unit::Objects || rules.overhead == 0;
        keeps_weight && is_read_only && is_bare && is_object_alone && !expires
    }

    /// Whether some request removes its object.
    pub fn has_deletes(&self) -> bool {
        self.has_deletes
    }

    /// Bytes in memory.
    pub fn heap_bytes(&self) -> u64 {
        let lazy = [&self.next, &self.counts].map(|column| column.get().map_or(0, Vec::capacity));
        let bytes = self.ids.capacity() * 4
            + self.gaps.heap_bytes()
            + self.long_gaps.capacity() * size_of::<(u32, u64)>()
            + self.ops.heap_bytes()
            + self.ttls.heap_bytes()
            + self.object_ttls.heap_bytes()
            + self.sizes.capacity() * 4
            + self.new_sizes.heap_bytes()
            + lazy.iter().sum::<usize>() * 4;
        bytes as u64
    }

    /// Bytes asked for from request `first` on.
    pub fn bytes_from(&self, first: usize) -> u64 {
        let requests = self.ids.iter().enumerate().skip(first);
        requests
            .map(|(index, &id)| u64::from(self.size(index, id)))
            .sum()
    }

    /// The size of the object of request `index`, as that request has it.
    #[inline]
    pub(crate) fn size(&self, index: usize, id: u32) -> u32 {
        match self.new_sizes.get(index) {
            0 => self.sizes[id as usize],
            size => size,
        }
    }

    #[inline]
    pub(crate) fn op(&self, index: usize) -> Op {
        Op::ALL[usize::from(self.ops.get(index))]
    }

    /// How long the object of request `index` lives when written by it; `None` when for ever.
    #[inline]
    pub(crate) fn ttl_ms(&self, index: usize, id: u32) -> Option<u64> {
        let ttl = if self.object_ttls.is_empty() {
            self.ttls.get(index)
        } else {
            self.object_ttls.get(id as usize)
        };
        (ttl != ShortTtl::default()).then(|| ttl.ms())
    }

    /// Milliseconds between request `index` and the one before.
    #[inline(always)]
    pub(crate) fn gap_ms(&self, index: usize) -> u64 {
        match self.gaps.get(index) {
            LONG_GAP => self.long_gap_ms(index),
            gap => u64::from(gap),
        }
    }

    #[cold]
    fn long_gap_ms(&self, index: usize) -> u64 {
        let found = self
            .long_gaps
            .binary_search_by_key(&(index as u32), |&(row, _)| row);
        let at = found.expect("a gap that says so stands in the list of long ones");
        self.long_gaps[at].1
    }

    /// For each request, the number of the next one for the same object; `u32::MAX`: never.
    ///
    /// # Errors
    /// The trace is a part of another: its objects' future lies outside.
    pub fn future(&self) -> Result<&[u32], Error> {
        if self.is_part {
            return Err(Error::NoFuture {
                trace: self.name.clone(),
            });
        }
        Ok(self.next_accesses())
    }

    /// The same within what is here, whether it is the whole trace or not.
    pub(crate) fn next_accesses(&self) -> &[u32] {
        self.next.get_or_init(|| {
            let mut next = vec![u32::MAX; self.ids.len()];
            let mut known = vec![u32::MAX; self.objects()];
            for (index, &id) in self.ids.iter().enumerate().rev() {
                next[index] = std::mem::replace(&mut known[id as usize], index as u32);
            }
            next
        })
    }

    /// By object, how often it is asked for.
    pub(crate) fn request_counts(&self) -> &[u32] {
        self.counts.get_or_init(|| {
            let mut counts = vec![0; self.objects()];
            self.ids.iter().for_each(|&id| counts[id as usize] += 1);
            counts
        })
    }
}

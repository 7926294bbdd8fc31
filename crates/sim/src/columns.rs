//! A trace in memory, as columns, with keys interned to dense ids: the part of a
//! [`trace::prepared::Prepared`] that replays use.
//!
//! ```text
//! by request   id 4 · gap to the previous one 4* · operation 1* · TTL 4* · size 4* · next 4*
//! by object    size 4 · TTL 4* · requests 4*
//! ```
//!
//! A column marked * ends at its last value that differs from the default, so that reads, unchanged
//! sizes and the like take no memory. The next access is computed when a policy needs future
//! requests, the number of requests when a replay is explained.

use crate::{Error, Rules, Unit};
use std::sync::OnceLock;
use trace::Op;
pub use trace::prepared::REQUESTS_MAX;
use trace::prepared::{Column, Gaps, ShortTtl};

/// A whole interned trace, made by [`crate::Interner`] or read in its prepared form
/// ([`crate::read`]).
#[derive(Debug, Default)]
pub struct Columns {
    pub(crate) name: String,
    pub(crate) ids: Vec<u32>,
    pub(crate) gaps: Gaps,
    pub(crate) ops: Column<u8>,
    /// By request: the last TTL given for its object.
    pub(crate) ttls: Column<ShortTtl>,
    /// By object: TTLs of a mix, which replace `ttls`.
    pub(crate) object_ttls: Column<ShortTtl>,
    /// By object: size at its first request, at least 1.
    pub(crate) sizes: Vec<u32>,
    /// By request: size, or 0 for the size at the object's first request.
    pub(crate) new_sizes: Column<u32>,
    pub(crate) footprint_bytes: u64,
    /// Whether the trace is part of another one, in which case the next accesses that it states may
    /// lie outside of it.
    pub(crate) is_part: bool,
    pub(crate) has_deletes: bool,
    /// Share of the objects that was sampled.
    pub(crate) share: f64,
    pub(crate) next: OnceLock<Vec<u32>>,
    pub(crate) counts: OnceLock<Vec<u32>>,
}

impl Columns {
    /// Name of the trace in reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of requests.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether the trace has no requests.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Number of distinct objects.
    pub fn objects(&self) -> usize {
        self.sizes.len()
    }

    /// Total size of all objects, in bytes: at the first request that states a size above 1,
    /// because the first one may be a miss, logged before the size was known.
    pub fn footprint_bytes(&self) -> u64 {
        self.footprint_bytes
    }

    /// Share of all objects that was interned, below 1 in a sample.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Total weight of all objects of the trace, estimated if these are a sample.
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

    /// Whether any object is larger than one byte at any of its requests.
    pub fn has_sizes(&self) -> bool {
        self.footprint_bytes > self.objects() as u64
    }

    /// Whether the size of some object changes.
    pub fn has_size_changes(&self) -> bool {
        !self.new_sizes.is_empty()
    }

    /// Whether the trace has timestamps.
    pub fn has_time(&self) -> bool {
        !self.gaps.is_empty()
    }

    /// Milliseconds from the first request to the last, by a fixed gap between requests or by the
    /// trace's timestamps.
    pub fn span_ms(&self, gap_ms: Option<f64>) -> u64 {
        match gap_ms {
            Some(gap_ms) => (self.len() as f64 * gap_ms) as u64,
            None => (0..self.len()).map(|index| self.gap_ms(index)).sum(),
        }
    }

    /// Whether some object has a TTL.
    pub fn has_ttls(&self) -> bool {
        !self.ttls.is_empty() || !self.object_ttls.is_empty()
    }

    /// Whether some request is not a read.
    pub fn has_writes(&self) -> bool {
        !self.ops.is_empty()
    }

    /// Whether a replay under these rules depends only on ids. Then nothing expires, is deleted,
    /// changes weight, is rejected by a filter or removed by an oracle, and no statistics are
    /// collected.
    pub(crate) fn is_plain(&self, rules: &Rules) -> bool {
        let keeps_weight = rules.unit == Unit::Objects || !self.has_size_changes();
        let is_read_only = !self.has_writes() || rules.counts_writes && !self.has_deletes();
        let is_bare = rules.admission.is_none() && !rules.explains && rules.foresight.is_none();
        let expires = self.has_ttls() && !rules.ignores_ttls;
        let is_object_alone = rules.unit == Unit::Objects || rules.overhead == 0;
        keeps_weight && is_read_only && is_bare && is_object_alone && !expires
    }

    /// Whether some request deletes its object.
    pub fn has_deletes(&self) -> bool {
        self.has_deletes
    }

    /// Bytes of memory in use.
    pub fn heap_bytes(&self) -> u64 {
        let lazy = [&self.next, &self.counts].map(|column| column.get().map_or(0, Vec::capacity));
        let bytes = self.ids.capacity() * 4
            + self.gaps.heap_bytes()
            + self.ops.heap_bytes()
            + self.ttls.heap_bytes()
            + self.object_ttls.heap_bytes()
            + self.sizes.capacity() * 4
            + self.new_sizes.heap_bytes()
            + lazy.iter().sum::<usize>() * 4;
        bytes as u64
    }

    /// Bytes requested from request `first` on.
    pub fn bytes_from(&self, first: usize) -> u64 {
        let requests = self.ids.iter().enumerate().skip(first);
        requests
            .map(|(index, &id)| u64::from(self.size(index, id)))
            .sum()
    }

    /// Size of the object as of request `index`.
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

    /// Returns the TTL that the object of request `index` gets if the request writes it; `None` if
    /// it does not expire.
    #[inline]
    pub(crate) fn ttl_ms(&self, index: usize, id: u32) -> Option<u64> {
        let ttl = if self.object_ttls.is_empty() {
            self.ttls.get(index)
        } else {
            self.object_ttls.get(id as usize)
        };
        (ttl != ShortTtl::default()).then(|| ttl.ms())
    }

    /// Milliseconds between request `index` and the previous one.
    #[inline(always)]
    pub(crate) fn gap_ms(&self, index: usize) -> u64 {
        self.gaps.get(index)
    }

    /// Returns, for each request, the number of the next request for the same object; `u32::MAX` if
    /// there is none.
    ///
    /// # Errors
    /// The trace is a part of another, so that the future requests of its objects are unknown.
    pub fn future(&self) -> Result<&[u32], Error> {
        if self.is_part {
            return Err(Error::NoFuture {
                trace: self.name.clone(),
            });
        }
        Ok(self.next_accesses())
    }

    /// Next accesses within this trace, even if it is a part of another.
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

    /// Number of requests by object.
    pub(crate) fn request_counts(&self) -> &[u32] {
        self.counts.get_or_init(|| {
            let mut counts = vec![0; self.objects()];
            self.ids.iter().for_each(|&id| counts[id as usize] += 1);
            counts
        })
    }
}

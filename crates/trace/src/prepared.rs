//! The prepared form of a trace: columns of dense ids, made once, so that replays can read them
//! directly into memory and hash no key.
//!
//! All numbers are little-endian. Sections follow each other in the order of their kinds, each
//! beginning at a multiple of 64 bytes with zeros in between:
//!
//! ```text
//! header, 48 bytes    magic "mayflytr" 8 | version u32 | flags u32 (bit 0: part of a trace)
//!                     | requests u64 | objects u64 | time of the first request in ms u64
//!                     | number of sections u32 | CRC-32 of the rest of header and table u32
//! table, by section   kind u16 | width u8 | coding u8 | CRC-32 of its bytes u32 | items u64
//!   dense, coding 0   items × number of `width` 1, 2, 4 or 8 bytes; rows after them are 0
//!   sparse, coding 1  items × (row u32, number of `width` bytes), rows ascending; others are 0
//! kinds by request    1 id · 4 size if it differs from the object's first · 5 ms since the request
//!                     before · 6 operation · 7 TTL · 9 size of the key if it differs · 10 client
//! kinds by object     2 key · 3 first size · 8 first size of the key
//! ```
//!
//! Ids are numbered in the order of first requests. Sections 1 to 3 are dense and complete; the
//! others may be missing. The file is read in one pass into newly allocated memory, which takes a
//! few milliseconds per 10 MB. A memory map would need unsafe code, and truncating the file while
//! it is mapped would end the process.
//!
//! It differs from the trace in four ways, all of which replays treat as equal: a time before the
//! previous one is replaced by it, a size of 0 becomes 1, a TTL of 2^31 ms and more is rounded up
//! to whole seconds, and next accesses are not stored, because they follow from the ids.

mod column;
mod ids;
mod kinds;
mod read;
mod write;

pub(crate) use read::Unreadable;

pub use column::{Column, Gaps, Number, PerObject, ROWS_BETWEEN_CHECKS, ShortTtl, growth_bytes};

use crate::random::Random;
use crate::request::{NextAccess, Op, Request};
use ids::Ids;
use std::io::{self, Read, Write};

/// Maximum number of requests of a prepared trace: request numbers fit 32 bits, and one value is
/// left for "never".
pub const REQUESTS_MAX: usize = u32::MAX as usize - 1;
/// Version of the format.
const VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"mayflytr";
const HEADER_BYTES: usize = 48;
/// Bytes of a row of the table of sections.
const SECTION_BYTES: usize = 16;
/// Sections begin at multiples of this number of bytes.
const ALIGNMENT: usize = 64;
/// Bytes of a row number of a sparse section.
const ROW_BYTES: usize = 4;

/// A whole trace in columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// By request: id of the object. Ids are numbered in the order of the first requests.
    pub ids: Vec<u32>,
    /// By object: key.
    pub keys: Vec<u64>,
    /// Time of the first request in milliseconds.
    pub start_ms: u64,
    /// By request: milliseconds since the previous request.
    pub gaps: Gaps,
    /// For each request, the operation as its position in [`Op::ALL`].
    pub ops: Column<u8>,
    /// By request: TTL as the request states it.
    pub ttls: Column<ShortTtl>,
    /// Sizes of objects, at least 1.
    pub sizes: PerObject,
    /// Sizes of keys.
    pub key_sizes: PerObject,
    /// By request: number of the client.
    pub clients: Column<u32>,
    /// Whether the trace is part of another one, so that the next accesses it stated lie outside.
    pub is_part: bool,
}

impl Prepared {
    /// Number of requests.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Number of objects.
    pub fn objects(&self) -> usize {
        self.keys.len()
    }

    /// Bytes of memory in use.
    pub fn heap_bytes(&self) -> usize {
        self.ids.capacity() * 4
            + self.keys.capacity() * 8
            + self.gaps.heap_bytes()
            + self.ops.heap_bytes()
            + self.ttls.heap_bytes()
            + self.sizes.heap_bytes()
            + self.key_sizes.heap_bytes()
            + self.clients.heap_bytes()
    }

    /// Maximum bytes that the next requests may allocate before the next check of memory.
    fn growth_bytes(&self) -> usize {
        growth_bytes(&self.ids)
            + growth_bytes(&self.keys)
            + self.gaps.growth_bytes()
            + self.ops.growth_bytes()
            + self.ttls.growth_bytes()
            + self.sizes.growth_bytes()
            + self.key_sizes.growth_bytes()
            + self.clients.growth_bytes()
    }

    fn shrink(&mut self) {
        self.ids.shrink_to_fit();
        self.keys.shrink_to_fit();
        self.gaps.shrink();
        self.ops.shrink();
        self.ttls.shrink();
        self.sizes.shrink();
        self.key_sizes.shrink();
        self.clients.shrink();
    }

    /// Reads the decompressed file of a prepared trace.
    pub(crate) fn read(
        input: &mut impl Read,
        memory_limit: Option<u64>,
    ) -> Result<Prepared, Unreadable> {
        read::read(input, memory_limit)
    }

    /// Writes the file of a prepared trace.
    ///
    /// # Errors
    /// The stream cannot be written.
    pub fn write(&self, output: &mut impl Write) -> io::Result<()> {
        write::write(self, &mut |bytes| output.write_all(bytes))
    }

    /// Writes the file through a function that takes its bytes in order.
    pub(crate) fn write_to(&self, sink: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        write::write(self, sink)
    }

    /// Iterates over the requests.
    pub fn requests(&self) -> impl Iterator<Item = Request> + '_ {
        let mut time_ms = self.start_ms;
        (0..self.len()).map(move |row| {
            time_ms = time_ms.saturating_add(self.gaps.get(row));
            self.request(row, time_ms)
        })
    }

    /// Returns the request of a row, which has this time.
    pub(crate) fn request(&self, row: usize, time_ms: u64) -> Request {
        let id = self.ids[row] as usize;
        let size = self.sizes.get(row, id);
        let key_size = self.key_sizes.get(row, id);
        Request {
            time_ms,
            key: self.keys[id],
            ttl_ms: self.ttls.get(row).ms(),
            size,
            key_size,
            value_size: size.saturating_sub(key_size),
            client: self.clients.get(row),
            op: Op::ALL[usize::from(self.ops.get(row))],
            next_access: NextAccess::Unknown,
        }
    }
}

/// Error of a trace with more requests than a prepared one may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyRequests;

/// Checks the next accesses that a trace states against the requests that follow. Two sets of
/// request numbers are treated as equal if the sums of their hashes are.
#[derive(Clone, Copy, Debug, Default)]
struct Annotations {
    announced: u64,
    observed: u64,
    never_count: usize,
    is_any: bool,
}

impl Annotations {
    fn add(&mut self, row: usize, next: NextAccess, is_new: bool) {
        let hash = |number: u64| Random::new(number).bits();
        match next {
            NextAccess::Unknown => {}
            NextAccess::Never => {
                self.never_count += 1;
                self.is_any = true;
            }
            NextAccess::At(number) => {
                self.announced = self.announced.wrapping_add(hash(number));
                self.is_any = true;
            }
        }
        if !is_new {
            self.observed = self.observed.wrapping_add(hash(row as u64));
        }
    }

    /// Whether next accesses lie outside of a trace with this number of objects.
    fn are_foreign(&self, objects: usize) -> bool {
        let is_own = self.announced == self.observed && self.never_count == objects;
        self.is_any && !is_own
    }
}

/// Prepares a trace, request by request.
///
/// ```
/// use trace::prepared::Preparer;
/// let mut preparer = Preparer::new(false);
/// for key in [7, 9, 7] {
///     preparer.push(&trace::Request::new(0, key, 10)).unwrap();
/// }
/// assert_eq!(preparer.finish().ids, [0, 1, 0]);
/// ```
#[derive(Debug)]
pub struct Preparer {
    prepared: Prepared,
    ids: Ids,
    latest_ms: u64,
    annotations: Annotations,
    has_details: bool,
}

impl Preparer {
    /// Creates an empty one. With `has_details`, it keeps data that replays do not use: sizes of
    /// keys, and clients.
    pub fn new(has_details: bool) -> Self {
        Preparer {
            prepared: Prepared::default(),
            ids: Ids::new(),
            latest_ms: 0,
            annotations: Annotations::default(),
            has_details,
        }
    }

    /// Returns the columns collected so far.
    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// Bytes of memory in use.
    pub fn heap_bytes(&self) -> usize {
        self.prepared.heap_bytes() + self.ids.heap_bytes()
    }

    /// Maximum bytes that the next 4,096 requests may allocate in addition.
    pub fn growth_bytes(&self) -> usize {
        self.prepared.growth_bytes() + self.ids.growth_bytes(self.prepared.keys.len())
    }

    /// Adds the next request. Returns the id of its object.
    ///
    /// # Errors
    /// The trace has [`REQUESTS_MAX`] requests already.
    pub fn push(&mut self, request: &Request) -> Result<u32, TooManyRequests> {
        let prepared = &mut self.prepared;
        let row = prepared.ids.len();
        if row >= REQUESTS_MAX {
            return Err(TooManyRequests);
        }
        let (id, is_new) = self.ids.id(&mut prepared.keys, request.key);
        self.annotations.add(row, request.next_access, is_new);
        prepared.ids.push(id);
        prepared.sizes.set(row, (id, is_new), request.size.max(1));
        if row == 0 {
            prepared.start_ms = request.time_ms;
            self.latest_ms = request.time_ms;
        }
        let gap_ms = request.time_ms.saturating_sub(self.latest_ms);
        self.latest_ms += gap_ms;
        prepared.gaps.set(row, gap_ms);
        prepared.ops.set(row, request.op as u8);
        let ttl = ShortTtl::of_ms(request.ttl_ms);
        prepared.ttls.set(row, ttl);
        if self.has_details {
            prepared.key_sizes.set(row, (id, is_new), request.key_size);
            prepared.clients.set(row, request.client);
        }
        Ok(id)
    }

    /// Returns the columns.
    pub fn finish(mut self) -> Prepared {
        let objects = self.prepared.objects();
        self.prepared.is_part = self.annotations.are_foreign(objects);
        self.prepared.shrink();
        self.prepared
    }
}

#[cfg(test)]
mod tests;

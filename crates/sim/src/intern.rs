//! Interning: converts a stream of requests to [`Columns`] in one pass.

use crate::Error;
use crate::columns::{
    Columns, LONG_GAP, REQUESTS_MAX, ROWS_BETWEEN_CHECKS, ShortTtl, SparseColumn, growth_bytes,
};
use policy::parts::chance::scramble;
use policy::{Slot, Tick};
use trace::{NextAccess, Op, Request, Sample, TtlMix};

/// The table is doubled when more than this number of eighths of it are full.
const FULL_EIGHTHS: usize = 5;
const VACANT: u32 = u32::MAX;
/// Maximum duration of a trace with TTLs. The other half of the range of a tick is left for the
/// TTLs.
const SPAN_MS_MAX: u64 = Tick::MAX.0 / 2;

/// Assigns ids to keys in the order of first appearance: open addressing over ids, with the keys in
/// a vector.
#[derive(Debug)]
struct Ids {
    keys: Vec<u64>,
    /// Ids, or [`VACANT`]; the length is a power of two.
    table: Vec<u32>,
}

impl Ids {
    fn new() -> Self {
        Ids {
            keys: Vec::new(),
            table: vec![VACANT; 1 << 10],
        }
    }

    /// Returns the table position of a key, or the vacant position where it would be inserted.
    #[inline]
    fn place(&self, key: u64) -> usize {
        let mask = self.table.len() - 1;
        let mut at = scramble(key) as usize & mask;
        loop {
            match self.table[at] {
                VACANT => return at,
                id if self.keys[id as usize] == key => return at,
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// Returns the id of a key and whether the key is new.
    #[inline]
    fn id(&mut self, key: u64) -> (u32, bool) {
        let at = self.place(key);
        if self.table[at] != VACANT {
            return (self.table[at], false);
        }
        let id = self.keys.len() as u32;
        self.table[at] = id;
        self.keys.push(key);
        if self.keys.len() > self.table.len() / 8 * FULL_EIGHTHS {
            self.grow();
        }
        (id, true)
    }

    #[cold]
    fn grow(&mut self) {
        self.table = vec![VACANT; self.table.len() * 2];
        for id in 0..self.keys.len() {
            let at = self.place(self.keys[id]);
            self.table[at] = id as u32;
        }
    }

    fn heap_bytes(&self) -> usize {
        self.keys.capacity() * 8 + self.table.len() * 4
    }

    fn growth_bytes(&self) -> usize {
        let is_near = self.keys.len() + ROWS_BETWEEN_CHECKS > self.table.len() / 8 * FULL_EIGHTHS;
        growth_bytes(&self.keys) + if is_near { self.table.len() * 8 } else { 0 }
    }
}

/// Options of interning.
#[derive(Clone, Debug)]
pub struct Interning {
    /// TTLs drawn by key from a mix with this seed, instead of the trace's own.
    pub ttl_mix: Option<(TtlMix, u64)>,
    /// Whether TTLs are ignored, so that nothing expires.
    pub ignores_ttls: bool,
    /// Whether the replay uses its own timing ([`Rules::gap_ms`](crate::Rules::gap_ms)).
    pub ignores_time: bool,
    /// Sample of the objects to intern; other objects are skipped. Policies that need future
    /// requests are refused then.
    pub sample: Option<Sample>,
    /// Maximum bytes of memory in use.
    pub memory_limit: u64,
}

impl Default for Interning {
    fn default() -> Self {
        Interning {
            ttl_mix: None,
            ignores_ttls: false,
            ignores_time: false,
            sample: None,
            memory_limit: u64::MAX,
        }
    }
}

/// Checks the next accesses that the trace states against the requests that follow. Two sets of
/// request numbers are treated as equal if the sums of their hashes are.
#[derive(Clone, Copy, Debug, Default)]
struct Annotations {
    announced: u64,
    observed: u64,
    never_count: usize,
    is_any: bool,
}

/// Interns requests one by one.
#[derive(Debug)]
pub struct Interner {
    options: Interning,
    columns: Columns,
    ids: Ids,
    /// For each object, the last TTL given.
    last_ttls: SparseColumn<ShortTtl>,
    first_ms: u64,
    latest_ms: u64,
    annotations: Annotations,
}

impl Interner {
    /// Creates an interner for the trace of this name.
    pub fn new(name: &str, how: Interning) -> Self {
        Interner {
            options: how,
            columns: Columns {
                name: name.into(),
                ..Columns::default()
            },
            ids: Ids::new(),
            last_ttls: SparseColumn::default(),
            first_ms: 0,
            latest_ms: 0,
            annotations: Annotations::default(),
        }
    }

    /// Interns a whole trace.
    ///
    /// # Errors
    /// A request that cannot be read, and those of [`Interner::push`] and [`Interner::finish`].
    pub fn all(
        name: &str,
        how: Interning,
        requests: impl IntoIterator<Item = Result<Request, trace::Error>>,
    ) -> Result<Columns, Error> {
        let mut interner = Interner::new(name, how);
        for request in requests {
            interner.push(&request?)?;
        }
        interner.finish()
    }

    /// Interns the next request. A timestamp before the previous one counts as equal to it.
    ///
    /// # Errors
    /// Too many requests or objects, or more memory than allowed.
    pub fn push(&mut self, request: &Request) -> Result<(), Error> {
        if self
            .options
            .sample
            .is_some_and(|sample| !sample.has(request.key))
        {
            return Ok(());
        }
        let row = self.columns.ids.len();
        if row.is_multiple_of(ROWS_BETWEEN_CHECKS) {
            self.check_memory()?;
        }
        if row >= REQUESTS_MAX {
            return Err(self.too_many("requests", REQUESTS_MAX));
        }
        let (id, is_new) = self.ids.id(request.key);
        if id >= Slot::LIMIT {
            return Err(self.too_many("objects", Slot::LIMIT as usize));
        }
        self.annotate(row, request.next_access, is_new);
        let size = request.size.max(1);
        let columns = &mut self.columns;
        columns.ids.push(id);
        if is_new {
            columns.sizes.push(size);
            columns.footprint_bytes += u64::from(size);
            if let Some((mix, seed)) = &self.options.ttl_mix {
                let ttl = ShortTtl::of_ms(mix.ttl_ms(request.key, *seed));
                columns.object_ttls.set(id as usize, ttl);
            }
        } else if size != columns.sizes[id as usize] {
            columns.new_sizes.set(row, size);
        }
        if row == 0 {
            self.first_ms = request.time_ms;
            self.latest_ms = request.time_ms;
        }
        let gap_ms = request.time_ms.saturating_sub(self.latest_ms);
        self.latest_ms += gap_ms;
        if gap_ms >= u64::from(LONG_GAP) {
            columns.long_gaps.push((row as u32, gap_ms));
        }
        let gap = u32::try_from(gap_ms).unwrap_or(LONG_GAP);
        columns.gaps.set(row, gap);
        columns.ops.set(row, request.op as u8);
        columns.has_deletes |= request.op == Op::Delete;
        if !self.options.ignores_ttls && self.options.ttl_mix.is_none() {
            self.record_ttl(row, id, request);
        }
        Ok(())
    }

    /// Records the TTL of a request. A read without a TTL keeps the one that the last write gave.
    fn record_ttl(&mut self, row: usize, id: u32, request: &Request) {
        let ttl = ShortTtl::of_ms(request.ttl_ms);
        if request.ttl_ms > 0 || !request.op.is_read() && request.op != Op::Delete {
            self.last_ttls.set(id as usize, ttl);
        }
        self.columns.ttls.set(row, self.last_ttls.get(id as usize));
    }

    fn annotate(&mut self, row: usize, next: NextAccess, is_new: bool) {
        let annotations = &mut self.annotations;
        match next {
            NextAccess::Unknown => {}
            NextAccess::Never => {
                annotations.never_count += 1;
                annotations.is_any = true;
            }
            NextAccess::At(number) => {
                annotations.announced = annotations.announced.wrapping_add(scramble(number));
                annotations.is_any = true;
            }
        }
        if !is_new {
            annotations.observed = annotations.observed.wrapping_add(scramble(row as u64));
        }
    }

    /// Bytes of memory in use.
    pub fn heap_bytes(&self) -> u64 {
        self.columns.heap_bytes() + (self.ids.heap_bytes() + self.last_ttls.heap_bytes()) as u64
    }

    fn too_many(&self, what: &'static str, limit: usize) -> Error {
        Error::TooMany {
            trace: self.columns.name.clone(),
            what,
            limit,
        }
    }

    fn check_memory(&self) -> Result<(), Error> {
        let columns = &self.columns;
        let growth = growth_bytes(&columns.ids)
            + growth_bytes(&columns.sizes)
            + columns.gaps.growth_bytes()
            + columns.ops.growth_bytes()
            + columns.ttls.growth_bytes()
            + columns.new_sizes.growth_bytes()
            + self.ids.growth_bytes();
        let needed = self.heap_bytes() + growth as u64;
        if needed <= self.options.memory_limit {
            return Ok(());
        }
        Err(Error::TooLarge {
            trace: columns.name.clone(),
            requests: columns.len() as u64,
            objects: columns.objects() as u64,
            needed,
            limit: self.options.memory_limit,
        })
    }

    /// Returns the interned trace.
    ///
    /// # Errors
    /// A trace without requests, or one with TTLs that is too long for deadlines.
    pub fn finish(self) -> Result<Columns, Error> {
        let mut columns = self.columns;
        if columns.is_empty() {
            return Err(Error::Empty {
                trace: columns.name,
            });
        }
        let span_ms = self.latest_ms - self.first_ms;
        if columns.has_ttls() && !self.options.ignores_time && span_ms > SPAN_MS_MAX {
            return Err(Error::TooLong {
                trace: columns.name,
            });
        }
        let annotations = self.annotations;
        let is_own = annotations.announced == annotations.observed
            && annotations.never_count == columns.objects();
        columns.is_part = annotations.is_any && !is_own || self.options.sample.is_some();
        columns.share = self.options.sample.map_or(1.0, |sample| sample.share());
        columns.ids.shrink_to_fit();
        columns.sizes.shrink_to_fit();
        columns.gaps.shrink();
        columns.ops.shrink();
        columns.ttls.shrink();
        columns.new_sizes.shrink();
        Ok(columns)
    }
}

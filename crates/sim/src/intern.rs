//! Interning: converts a stream of requests, or a prepared trace, to [`Columns`] in one pass.

use crate::Error;
use crate::columns::{Columns, REQUESTS_MAX};
use policy::{Slot, Tick};
use trace::prepared::{Column, Prepared, Preparer, ROWS_BETWEEN_CHECKS, ShortTtl};
use trace::{Op, Reader, Request, Sample, TtlMix};

/// Requests between two calls that report progress.
const READ_STRIDE: u64 = 1 << 16;
/// Maximum duration of a trace with TTLs. The other half of the range of a tick is left for the
/// TTLs.
const SPAN_MS_MAX: u64 = Tick::MAX.0 / 2;

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

/// Interns requests one by one.
#[derive(Debug)]
pub struct Interner {
    name: String,
    options: Interning,
    preparer: Preparer,
}

impl Interner {
    /// Creates an interner for the trace of this name.
    pub fn new(name: &str, how: Interning) -> Self {
        Interner {
            name: name.into(),
            options: how,
            preparer: Preparer::new(false),
        }
    }

    /// Interns a whole trace.
    ///
    /// # Errors
    /// A request cannot be read, or [`Interner::push`] or [`Interner::finish`] fails.
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
        let sample = self.options.sample;
        if sample.is_some_and(|sample| !sample.has(request.key)) {
            return Ok(());
        }
        let row = self.preparer.prepared().len() as u64;
        if row.is_multiple_of(ROWS_BETWEEN_CHECKS) {
            self.check_memory()?;
        }
        let ignores_ttls = self.options.ignores_ttls || self.options.ttl_mix.is_some();
        let ttl_ms = if ignores_ttls { 0 } else { request.ttl_ms };
        let pushed = self.preparer.push(&Request { ttl_ms, ..*request });
        match pushed {
            Ok(id) if id < Slot::LIMIT => Ok(()),
            Ok(_) => Err(too_many(&self.name, "objects", Slot::LIMIT as usize)),
            Err(_) => Err(too_many(&self.name, "requests", REQUESTS_MAX)),
        }
    }

    /// Bytes of memory in use.
    pub fn heap_bytes(&self) -> u64 {
        self.preparer.heap_bytes() as u64
    }

    fn check_memory(&self) -> Result<(), Error> {
        let needed = self.heap_bytes() + self.preparer.growth_bytes() as u64;
        if needed <= self.options.memory_limit {
            return Ok(());
        }
        Err(Error::TooLarge {
            trace: self.name.clone(),
            requests: self.preparer.prepared().len() as u64,
            objects: self.preparer.prepared().objects() as u64,
            needed,
            limit: self.options.memory_limit,
        })
    }

    /// Returns the interned trace.
    ///
    /// # Errors
    /// The trace has no requests, or it has TTLs and is too long for deadlines.
    pub fn finish(self) -> Result<Columns, Error> {
        columns_of(&self.name, &self.options, self.preparer.finish())
    }
}

fn too_many(name: &str, what: &'static str, limit: usize) -> Error {
    Error::TooMany {
        trace: name.into(),
        what,
        limit,
    }
}

/// Reads a whole trace. The columns of a prepared trace are taken unchanged. `done` is called with
/// the number of requests read so far, every 65,536 requests.
///
/// # Errors
/// A request cannot be read, or [`Interner::push`] or [`Interner::finish`] fails.
pub fn read(
    name: &str,
    how: Interning,
    reader: &mut Reader<'_>,
    mut done: impl FnMut(u64),
) -> Result<Columns, Error> {
    if let Some(prepared) = reader.take_prepared() {
        return Columns::of_prepared(name, how, prepared);
    }
    let mut interner = Interner::new(name, how);
    for (number, request) in (1u64..).zip(reader) {
        interner.push(&request?)?;
        if number.is_multiple_of(READ_STRIDE) {
            done(number);
        }
    }
    interner.finish()
}

impl Columns {
    /// Takes the columns of a prepared trace. A sample of its objects is interned again.
    ///
    /// # Errors
    /// Returns the errors of [`Interner::push`] and [`Interner::finish`].
    pub fn of_prepared(name: &str, how: Interning, prepared: Prepared) -> Result<Columns, Error> {
        if how.sample.is_some() {
            return Interner::all(name, how, prepared.requests().map(Ok));
        }
        if prepared.objects() > Slot::LIMIT as usize {
            return Err(too_many(name, "objects", Slot::LIMIT as usize));
        }
        columns_of(name, &how, prepared)
    }
}

/// Returns the columns that replays use.
fn columns_of(name: &str, how: &Interning, prepared: Prepared) -> Result<Columns, Error> {
    if prepared.is_empty() {
        return Err(Error::Empty { trace: name.into() });
    }
    let ttls = match how.ignores_ttls || how.ttl_mix.is_some() {
        true => Column::default(),
        false => last_ttls(&prepared),
    };
    let mut object_ttls = Column::default();
    if let Some((mix, seed)) = &how.ttl_mix {
        for (id, &key) in prepared.keys.iter().enumerate() {
            object_ttls.set(id, ShortTtl::of_ms(mix.ttl_ms(key, *seed)));
        }
    }
    let columns = Columns {
        name: name.into(),
        footprint_bytes: footprint_bytes(&prepared),
        has_deletes: prepared.ops.values().contains(&(Op::Delete as u8)),
        is_part: prepared.is_part || how.sample.is_some(),
        share: how.sample.map_or(1.0, |sample| sample.share()),
        ids: prepared.ids,
        gaps: prepared.gaps,
        ops: prepared.ops,
        ttls,
        object_ttls,
        sizes: prepared.sizes.first,
        new_sizes: prepared.sizes.changed,
        ..Columns::default()
    };
    if columns.has_ttls() && !how.ignores_time && columns.span_ms(None) > SPAN_MS_MAX {
        return Err(Error::TooLong { trace: name.into() });
    }
    Ok(columns)
}

/// Total size of all objects, each at the first request that states one above 1 byte. Where misses
/// are logged without sizes, the first request of an object has none.
fn footprint_bytes(prepared: &Prepared) -> u64 {
    let sizes = &prepared.sizes;
    let at_first: u64 = sizes.first.iter().copied().map(u64::from).sum();
    if sizes.changed.is_empty() {
        return at_first;
    }
    let mut is_known: Vec<bool> = sizes.first.iter().map(|&size| size > 1).collect();
    let mut added = 0;
    for (&id, &size) in prepared.ids.iter().zip(sizes.changed.values()) {
        if size > 1 && !std::mem::replace(&mut is_known[id as usize], true) {
            added += u64::from(size) - 1;
        }
    }
    at_first + added
}

/// Returns, for each request, the last TTL given for its object. A read without a TTL keeps the TTL
/// of the last write.
fn last_ttls(prepared: &Prepared) -> Column<ShortTtl> {
    let mut ttls = Column::default();
    if prepared.ttls.is_empty() {
        return ttls;
    }
    let mut last = vec![ShortTtl::default(); prepared.objects()];
    for (row, &id) in prepared.ids.iter().enumerate() {
        let ttl = prepared.ttls.get(row);
        let op = Op::ALL[usize::from(prepared.ops.get(row))];
        let last = &mut last[id as usize];
        if ttl != ShortTtl::default() || !op.is_read() && op != Op::Delete {
            *last = ttl;
        }
        ttls.set(row, *last);
    }
    ttls.shrink();
    ttls
}

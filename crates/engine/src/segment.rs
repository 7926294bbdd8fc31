//! The segment engine in the server: one engine for all workers, and a writer for each worker.
//!
//! Any worker can serve any key. Reads take no lock. Writes use the worker's own [`Writer`], whose
//! mutex no other worker locks. Because there are no shards to lock, a command on several keys or
//! in several steps is not atomic; commands that must be atomic are refused. A change that depends
//! on the stored value ([`Handle::edit`]) is repeated if the value has changed in the meantime.
//!
//! With this engine, the server also has a keyspace, which stays empty and on which commands
//! without keys run.
//!
//! Start reading with [`Handle`], a worker's access to the engine.

mod facts;
mod file;
mod items;
pub mod learning;
mod marks;
mod setup;
mod strings;

pub use marks::Marks;
pub use setup::check;

use crate::lifetime::DeadlineChange;
use file::SegmentFile;
use segment::{Condition, Item, Key, Payload, Receipt, Refused, Segcache, Unchanged, Writer};
use session::stats::{Stats, WorkerStats};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use store::{NewDeadline, Tick};
use wire::Output;

/// The engine and its writers.
#[derive(Debug)]
pub struct Segments {
    /// The engine, shared by all workers.
    pub cache: Segcache,
    /// Writers by worker.
    writers: Vec<Mutex<Writer>>,
    /// File of the segments, together with the hash secret, if there is one.
    file: Option<(SegmentFile, [u64; 2])>,
    /// State of the model's training, shared with the learner thread.
    pub learning: learning::Learning,
    /// Seed of the random choices in training.
    pub seed: u64,
    /// Number of expired objects that have already been reported by [`Segments::newly_expired`].
    expired_seen: AtomicU64,
    /// Expired objects at the last CONFIG RESETSTAT.
    expired_before: AtomicU64,
    /// Evicted objects at the last CONFIG RESETSTAT.
    evicted_before: AtomicU64,
}

impl Segments {
    /// Whether a restart continues with the current keys.
    pub fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Completes the segment file, if there is one, so that the next start continues with it. All
    /// workers must have ended.
    pub fn keep(&self) {
        let Some((file, hash_key)) = &self.file else {
            return;
        };
        let start = Instant::now();
        for worker in 0..self.writers.len() {
            self.cache.settle(&mut self.writer(worker));
        }
        let saved = self.cache.save();
        let saved = saved.ok_or_else(|| "a segment is in use".to_owned());
        let kept = saved.and_then(|saved| {
            let written = file.complete(*hash_key, &saved);
            written.map_err(|error| error.to_string())
        });
        match kept {
            Ok(()) => log::info!(
                "segment-file: {} objects are kept, {:.3} s",
                self.cache.len(),
                start.elapsed().as_secs_f64()
            ),
            Err(why) => log::warn!("segment-file: the next start is empty: {why}"),
        }
    }

    /// Locks a worker's writer, even if a panic has poisoned the lock.
    pub fn writer(&self, worker: usize) -> MutexGuard<'_, Writer> {
        self.writers[worker]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Requested TTL of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// Keeps the key's TTL; none for a new key.
    Keep,
    /// No expiration.
    None,
    /// Milliseconds from now.
    Millis(u64),
    /// An absolute deadline, taken from another object.
    Until(Tick),
    /// A deadline that has already passed.
    Past,
}

impl Ttl {
    /// Converts a change of the deadline to a TTL.
    pub fn of(expiration: DeadlineChange, now: Tick) -> Ttl {
        match expiration {
            DeadlineChange::Past => Ttl::Past,
            DeadlineChange::To(NewDeadline::Keep) => Ttl::Keep,
            DeadlineChange::To(NewDeadline::Clear) => Ttl::None,
            DeadlineChange::To(NewDeadline::At(at)) => Ttl::Millis(at.0.saturating_sub(now.0)),
        }
    }
}

/// Metadata that is stored with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Put {
    /// Requested TTL.
    pub ttl: Ttl,
    /// Client flags of memcached.
    pub client_flags: u32,
    /// Marks of memcached's meta commands.
    pub marks: Marks,
    /// CAS number chosen by a memcached client.
    pub cas: Option<u64>,
}

impl Put {
    /// A plain string.
    pub fn plain(ttl: Ttl) -> Put {
        Put {
            ttl,
            client_flags: 0,
            marks: Marks::default(),
            cas: None,
        }
    }
}

/// Result of storing a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutReceipt {
    /// CAS number, chosen by the client or the engine.
    pub cas: u64,
    /// Deadline after rounding.
    pub deadline: Option<Tick>,
}

impl PutReceipt {
    fn of(receipt: Receipt, chosen: Option<u64>) -> PutReceipt {
        PutReceipt {
            cas: chosen.unwrap_or(u64::from(receipt.cas)),
            deadline: receipt.deadline,
        }
    }
}

/// Result of an edit: what [`Handle::edit`] is to do with the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Leaves the key unchanged.
    Leave,
    /// Deletes the key.
    Delete,
    /// Stores the new value.
    Put(Put),
}

/// An unexpired object, as it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Length of the value in bytes.
    pub len: usize,
    /// Client flags of memcached.
    pub client_flags: u32,
    /// Marks of memcached's meta commands.
    pub marks: Marks,
    /// CAS number for memcached.
    pub cas: u64,
    /// Deadline after rounding.
    pub deadline: Option<Tick>,
    /// Version of the object, which [`Condition::Unchanged`] compares.
    version: u32,
}

impl Found {
    /// Describes an item as it was found. `chosen` is the CAS number stored after the value if a
    /// client has chosen one.
    fn of(item: &Item, chosen: Option<u64>) -> Found {
        let marks = Marks::of(item.marks);
        Found {
            // A concurrent write may make these bytes anything until they are verified.
            len: item
                .len
                .saturating_sub(if marks.has_cas { CAS_BYTES } else { 0 }),
            client_flags: item.client_flags,
            marks,
            cas: chosen.unwrap_or(u64::from(item.cas)),
            deadline: item.deadline,
            version: item.cas,
        }
    }

    fn unchanged(&self) -> Condition {
        Condition::Unchanged(self.version)
    }
}

/// Bytes of a client-chosen CAS number, which is stored after the value.
const CAS_BYTES: usize = 8;
/// Bytes that a copy of a value may need beyond the value: a line end, and up to one word that the
/// engine copies past the end.
const VALUE_MARGIN: usize = 16;

/// A worker's access to the engine, kept from one request to the next.
pub struct Handle<'s> {
    /// The engine.
    pub cache: &'s Segcache,
    segments: &'s Segments,
    stats: &'s WorkerStats,
    worker: usize,
    /// Time at which requests run.
    pub now: Tick,
    /// Guard of the worker's writer, locked from the first write to the end of the turn.
    writer: Option<MutexGuard<'s, Writer>>,
    old: Vec<u8>,
    new: Vec<u8>,
}

impl<'s> Handle<'s> {
    /// Creates a worker's handle.
    pub fn new(segments: &'s Segments, stats: &'s Stats, worker: usize, now: Tick) -> Handle<'s> {
        Handle {
            cache: &segments.cache,
            segments,
            stats: &stats.workers[worker],
            worker,
            now,
            writer: None,
            old: Vec::new(),
            new: Vec::new(),
        }
    }

    /// Unlocks the writer at the end of a turn, because expiry uses the same writer between turns.
    pub fn release(&mut self) {
        self.writer = None;
    }

    /// Hashes a key.
    #[inline]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<&'k [u8]> {
        self.cache.key(bytes)
    }

    fn writer(&mut self) -> &mut Writer {
        let (segments, worker) = (self.segments, self.worker);
        self.writer.get_or_insert_with(|| segments.writer(worker))
    }

    /// Counts a hit or a miss.
    #[inline]
    fn count(&self, is_hit: bool) {
        let counter = match is_hit {
            true => &self.stats.segment_hits,
            false => &self.stats.segment_misses,
        };
        // Only this worker writes the counter, so no increment is lost.
        counter.store(counter.load(Relaxed) + 1, Relaxed);
    }

    /// Calls `frame`, which appends the part of the reply before the value, and then appends the
    /// value of a key. Counts a hit or a miss.
    #[inline]
    pub fn get(
        &self,
        key: &Key<&[u8]>,
        out: &mut Output,
        mut frame: impl FnMut(&mut Output, &Found),
    ) -> Option<Found> {
        let begin = out.len();
        let mut value_at = begin;
        let mut bytes = out.take_bytes();
        let item = self
            .cache
            .get_framed(key, self.now, &mut bytes, |bytes, item| {
                out.put_back(std::mem::take(bytes));
                frame(out, &Found::of(item, None));
                value_at = out.len();
                let has_room = out.reserve(item.len + VALUE_MARGIN);
                *bytes = out.take_bytes();
                has_room
            });
        out.put_back(bytes);
        self.count(item.is_some());
        let item = item?;
        if !Marks::of(item.marks).has_cas || out.is_cut_off() {
            return Some(Found::of(&item, None));
        }
        let value = out[value_at..].to_vec();
        out.truncate(begin);
        let (value, cas) = split_cas(&value);
        let found = Found::of(&item, Some(cas));
        frame(out, &found);
        out.extend_from_slice(value);
        Some(found)
    }

    /// Returns the metadata of a key without counting an access.
    pub fn look(&self, key: &Key<&[u8]>) -> Option<Found> {
        let item = self.cache.look(key, self.now)?;
        if Marks::of(item.marks).has_cas {
            return self.peek(key, &mut Vec::new());
        }
        Some(Found::of(&item, None))
    }

    /// Appends the value of a key without counting an access.
    pub fn peek(&self, key: &Key<&[u8]>, out: &mut Vec<u8>) -> Option<Found> {
        let item = self.cache.peek(key, self.now, out)?;
        let chosen = Marks::of(item.marks).has_cas.then(|| {
            let (value, cas) = split_cas(out);
            let len = value.len();
            out.truncate(len);
            cas
        });
        Some(Found::of(&item, chosen))
    }

    /// Calls `frame` with a key's metadata to append a reply. Counts a hit or a miss.
    pub fn get_head(
        &self,
        key: &Key<&[u8]>,
        out: &mut Output,
        mut frame: impl FnMut(&mut Output, &Found),
    ) -> Option<Found> {
        let found = self.look(key);
        self.count(found.is_some());
        if let Some(found) = &found {
            let _used = self.cache.contains(key, self.now);
            frame(out, found);
        }
        found
    }

    /// Whether a key exists. Counts a hit or a miss.
    pub fn contains(&self, key: &Key<&[u8]>) -> bool {
        let is_there = self.cache.contains(key, self.now);
        self.count(is_there);
        is_there
    }

    /// Stores a value. If the deadline is in the past, the key is deleted instead, and the returned
    /// CAS number is the chosen one or 0.
    ///
    /// # Errors
    ///
    /// See [`Refused`].
    #[inline]
    pub fn put(
        &mut self,
        key: &Key<&[u8]>,
        value: &[u8],
        put: &Put,
        condition: Condition,
    ) -> Result<PutReceipt, Refused> {
        if put.ttl == Ttl::Past {
            self.cache.delete(key, condition, self.now)?;
            return Ok(PutReceipt {
                cas: put.cas.unwrap_or(0),
                deadline: Some(self.now),
            });
        }
        let receipt = match put.cas {
            Some(cas) => {
                let bytes = [value, &cas.to_le_bytes()].concat();
                self.store(key, &bytes, put, condition)?
            }
            None => self.store(key, value, put, condition)?,
        };
        Ok(PutReceipt::of(receipt, put.cas))
    }

    #[inline]
    fn store(
        &mut self,
        key: &Key<&[u8]>,
        bytes: &[u8],
        put: &Put,
        condition: Condition,
    ) -> Result<Receipt, Refused> {
        let value = segment::Value {
            bytes,
            client_flags: put.client_flags,
            marks: put.marks.bits(put.cas.is_some()),
        };
        let (cache, now) = (self.cache, self.now);
        let ttl_ms = match put.ttl {
            Ttl::Millis(ttl_ms) => Some(ttl_ms),
            Ttl::Until(at) => {
                let (value, at) = (Payload::Bytes(value), Some(at));
                return cache.store_until(self.writer(), key, value, at, condition, now);
            }
            Ttl::Keep | Ttl::None | Ttl::Past => None,
        };
        cache.set(self.writer(), key, value, ttl_ms, condition, now)
    }

    /// Changes a number in place, like [`Segcache::update_number`]. An object with a client-chosen
    /// CAS number does not count as a number here, because the CAS number follows the digits;
    /// [`Handle::edit`] changes such objects.
    ///
    /// # Errors
    ///
    /// See [`Unchanged`].
    pub fn update_number(
        &mut self,
        key: &Key<&[u8]>,
        number_of: impl Fn(&[u8]) -> Option<u64>,
        change: impl Fn(u64) -> Option<u64>,
    ) -> Result<(u64, Found), Unchanged> {
        let (cache, now) = (self.cache, self.now);
        let number_of = |item: &Item, bytes: &[u8]| match Marks::of(item.marks).has_cas {
            true => None,
            false => number_of(bytes),
        };
        let (number, item) = cache.update_number(self.writer(), key, now, number_of, change)?;
        Ok((number, Found::of(&item, None)))
    }

    /// Changes the deadline of a key. `ttl` receives the old deadline and returns the new TTL, or
    /// `None` to keep the deadline. Returns `None` if the deadline was kept or the key does not
    /// exist.
    ///
    /// # Errors
    ///
    /// There is no room.
    pub fn change_deadline(
        &mut self,
        key: &Key<&[u8]>,
        ttl: impl Fn(Option<Tick>) -> Option<Option<u64>>,
    ) -> Result<Option<Receipt>, Refused> {
        let (cache, now) = (self.cache, self.now);
        loop {
            match cache.touch_if(self.writer(), key, now, |item| ttl(item.deadline)) {
                Err(Refused::IsAbsent) => return Ok(None),
                // Other clients have changed the object during each attempt.
                Err(Refused::IsChanged) => {}
                done => return done,
            }
        }
    }

    /// Returns the deadline that an object with this TTL would get now, after rounding.
    pub fn would_end(&mut self, ttl_ms: u64) -> Tick {
        let (cache, now) = (self.cache, self.now);
        cache.would_end(self.writer(), ttl_ms, now)
    }

    /// Changes a key's marks in place, unless `change` returns `None`. Returns the old marks. If
    /// `is_new` is true, the CAS number changes too.
    pub fn change_marks(
        &self,
        key: &Key<&[u8]>,
        is_new: bool,
        change: impl FnOnce(Marks) -> Option<Marks>,
    ) -> Option<Marks> {
        let change = |bits: u8, _| {
            let old = Marks::of(bits);
            change(old).map(|marks| marks.bits(old.has_cas))
        };
        let old = self.cache.update_marks(key, self.now, is_new, change)?;
        Some(Marks::of(old))
    }

    /// Sets the marks of an object that was found earlier. Returns false if the object has changed
    /// since, or if a neighbour that shares its version has. Returns true if the key no longer
    /// exists, because it needs no marks then.
    pub fn mark_if_unchanged(&self, key: &Key<&[u8]>, found: &Found, marks: Marks) -> bool {
        let mut is_same = true;
        let change = |bits: u8, version: u32| {
            is_same = version == found.version && Marks::of(bits) == found.marks;
            is_same.then(|| marks.bits(found.marks.has_cas))
        };
        self.cache.update_marks(key, self.now, false, change);
        is_same
    }

    /// Stores a number under a new key in a form that can be changed in place.
    ///
    /// # Errors
    ///
    /// See [`Refused`].
    pub fn put_number(
        &mut self,
        key: &Key<&[u8]>,
        number: u64,
        ttl_ms: Option<u64>,
    ) -> Result<Receipt, Refused> {
        let number = Payload::Number {
            number,
            client_flags: 0,
            marks: 0,
        };
        let (cache, now) = (self.cache, self.now);
        cache.store(self.writer(), key, number, ttl_ms, Condition::Absent, now)
    }

    /// Edits a key atomically depending on its value. `edit` receives the object and an empty
    /// buffer for the new value. It is called again if another client has changed the object in the
    /// meantime; each repetition means that another client has made progress. Returns the result of
    /// `edit` and the receipt.
    ///
    /// # Errors
    ///
    /// The value is too large, or there is no room.
    pub fn edit<R>(
        &mut self,
        key: &Key<&[u8]>,
        mut edit: impl FnMut(Option<(&Found, &[u8])>, &mut Vec<u8>) -> (Edit, R),
    ) -> Result<(R, PutReceipt), Refused> {
        let (mut old, mut new) = (std::mem::take(&mut self.old), std::mem::take(&mut self.new));
        let result = loop {
            old.clear();
            new.clear();
            let found = self.peek(key, &mut old);
            let shown = found.as_ref().map(|found| (found, &old[..]));
            let (edit, result) = edit(shown, &mut new);
            let condition = found.map_or(Condition::Absent, |found| found.unchanged());
            let done = match edit {
                Edit::Leave => Ok(PutReceipt::default()),
                Edit::Delete => {
                    let deleted = self.cache.delete(key, condition, self.now);
                    deleted.map(|_| PutReceipt::default())
                }
                Edit::Put(put) => {
                    let ttl = match (put.ttl, found.and_then(|found| found.deadline)) {
                        (Ttl::Keep, Some(at)) => Ttl::Until(at),
                        (ttl, _) => ttl,
                    };
                    let put = Put { ttl, ..put };
                    self.put(key, &new, &put, condition)
                }
            };
            match done {
                Ok(kept) => break Ok((result, kept)),
                Err(Refused::IsChanged | Refused::IsAbsent | Refused::IsPresent) => {}
                Err(refused) => break Err(refused),
            }
        };
        (self.old, self.new) = (old, new);
        shrink(&mut self.old);
        shrink(&mut self.new);
        result
    }
}

/// Maximum capacity in bytes that a worker's buffers keep between edits.
const KEPT_BYTES_MAX: usize = 64 << 10;

fn shrink(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.shrink_to(KEPT_BYTES_MAX);
}

/// Splits stored bytes into the value and the CAS number after it.
fn split_cas(bytes: &[u8]) -> (&[u8], u64) {
    match bytes.split_last_chunk::<CAS_BYTES>() {
        Some((value, cas)) => (value, u64::from_le_bytes(*cas)),
        None => (bytes, 0),
    }
}

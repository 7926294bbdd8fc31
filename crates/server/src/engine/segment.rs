//! The segment engine as the server runs it: one engine for all workers, and a writer for each.
//!
//! Any worker answers any key. What reads takes no lock; what writes goes through the worker's own
//! [`Writer`], whose mutex nobody else asks for. So there are no shards to lock, and nothing that takes
//! several keys or several steps is one step for others: what would have to be is refused ([`command`]).
//! A change that depends on what is there ([`Hand::edit`]) is tried again when that has changed meanwhile.
//!
//! The keyspace stays empty beside it: commands without keys run on that as ever.
//!
//! Start reading with [`Hand`], what one worker works with.

mod facts;
mod items;
pub mod learning;
mod marks;
mod setup;
mod strings;

pub use marks::Marks;

use crate::command::lifetime::Fate;
use crate::stats::{Stats, WorkerStats};
use segment::{Condition, Item, Key, Payload, Receipt, Refused, Segcache, Unchanged, Writer};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use store::{NewDeadline, Tick};

/// The engine with its writers.
#[derive(Debug)]
pub struct Segments {
    /// The engine.
    pub cache: Segcache,
    /// By worker.
    writers: Vec<Mutex<Writer>>,
    /// What is learned beside it.
    pub learning: learning::Learning,
    /// Seed of what is random in learning.
    pub seed: u64,
    /// Objects whose expiry was told of.
    expired_seen: AtomicU64,
    /// Counts at the last CONFIG RESETSTAT.
    expired_before: AtomicU64,
    /// See `expired_before`.
    evicted_before: AtomicU64,
}

impl Segments {
    /// A worker's writer. Who panicked with it had asserted something.
    pub fn writer(&self, worker: usize) -> MutexGuard<'_, Writer> {
        self.writers[worker]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// What becomes of a key's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// As it is; for ever where there is none.
    Keep,
    /// For ever.
    Endless,
    /// So many milliseconds from now.
    For(u64),
    /// Until then, as somebody else's was.
    Until(Tick),
    /// It is over already.
    Over,
}

impl Life {
    /// What such a deadline means.
    pub fn of(fate: Fate, now: Tick) -> Life {
        match fate {
            Fate::IsDead => Life::Over,
            Fate::Lives(NewDeadline::Keep) => Life::Keep,
            Fate::Lives(NewDeadline::Clear) => Life::Endless,
            Fate::Lives(NewDeadline::At(at)) => Life::For(at.0.saturating_sub(now.0)),
        }
    }
}

/// What is stored, beside the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Put {
    /// How long.
    pub life: Life,
    /// memcached's.
    pub client_flags: u32,
    /// memcached's.
    pub marks: Marks,
    /// A cas number of memcached's client's own choice.
    pub cas: Option<u64>,
}

impl Put {
    /// A plain string.
    pub fn plain(life: Life) -> Put {
        Put {
            life,
            client_flags: 0,
            marks: Marks::default(),
            cas: None,
        }
    }
}

/// What was stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// memcached's: of the client's choice, or the engine's.
    pub cas: u64,
    /// The deadline that counts.
    pub deadline: Option<Tick>,
}

impl Kept {
    fn of(receipt: Receipt, chosen: Option<u64>) -> Kept {
        Kept {
            cas: chosen.unwrap_or(u64::from(receipt.cas)),
            deadline: receipt.deadline,
        }
    }
}

/// What [`Hand::edit`] is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Nothing.
    Leave,
    /// The key goes.
    Delete,
    /// The new value is stored.
    Put(Put),
}

/// A live key, as it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Bytes of the value.
    pub len: usize,
    /// memcached's.
    pub client_flags: u32,
    /// memcached's.
    pub marks: Marks,
    /// memcached's.
    pub cas: u64,
    /// When it is dead.
    pub deadline: Option<Tick>,
    /// For the engine's own comparison.
    version: u32,
}

impl Found {
    /// `chosen` is the cas number behind the value, where a client has chosen one.
    fn of(item: &Item, chosen: Option<u64>) -> Found {
        let marks = Marks::of(item.marks);
        Found {
            // What a reader meets may be anything, until it is found to be that.
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

/// Bytes of a chosen cas number, behind the value.
const CAS_BYTES: usize = 8;

/// What one worker works on the engine with, from one request to the next.
pub struct Hand<'s> {
    /// The engine.
    pub cache: &'s Segcache,
    segments: &'s Segments,
    stats: &'s WorkerStats,
    worker: usize,
    /// The instant at which requests run.
    pub now: Tick,
    /// Held from the first write to the end of the turn.
    writer: Option<MutexGuard<'s, Writer>>,
    old: Vec<u8>,
    new: Vec<u8>,
}

impl<'s> Hand<'s> {
    /// A worker's hand.
    pub fn new(segments: &'s Segments, stats: &'s Stats, worker: usize, now: Tick) -> Hand<'s> {
        Hand {
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

    /// Ends a turn: deadlines are kept with the same writer.
    pub fn release(&mut self) {
        self.writer = None;
    }

    /// A key, hashed.
    #[inline]
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<&'k [u8]> {
        self.cache.key(bytes)
    }

    fn writer(&mut self) -> &mut Writer {
        let (segments, worker) = (self.segments, self.worker);
        self.writer.get_or_insert_with(|| segments.writer(worker))
    }

    /// Counts a read.
    #[inline]
    fn count(&self, is_hit: bool) {
        let counter = match is_hit {
            true => &self.stats.segment_hits,
            false => &self.stats.segment_misses,
        };
        // The worker alone counts here: no other's count is lost.
        counter.store(counter.load(Relaxed) + 1, Relaxed);
    }

    /// Appends the value of a key, behind what `frame` appends; counts a hit or a miss.
    #[inline]
    pub fn get(
        &self,
        key: &Key<&[u8]>,
        out: &mut Vec<u8>,
        mut frame: impl FnMut(&mut Vec<u8>, &Found),
    ) -> Option<Found> {
        let begin = out.len();
        let mut value_at = begin;
        let item = self.cache.get_framed(key, self.now, out, |out, item| {
            frame(out, &Found::of(item, None));
            value_at = out.len();
        });
        self.count(item.is_some());
        let item = item?;
        if !Marks::of(item.marks).has_cas {
            return Some(Found::of(&item, None));
        }
        let value = out.split_off(value_at);
        out.truncate(begin);
        let (value, cas) = split_cas(&value);
        let found = Found::of(&item, Some(cas));
        frame(out, &found);
        out.extend_from_slice(value);
        Some(found)
    }

    /// What is known of a key; that is no read.
    pub fn look(&self, key: &Key<&[u8]>) -> Option<Found> {
        let item = self.cache.look(key, self.now)?;
        if Marks::of(item.marks).has_cas {
            return self.peek(key, &mut Vec::new());
        }
        Some(Found::of(&item, None))
    }

    /// Appends the value of a key; that is no read.
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

    /// What is known of a key, behind what `frame` appends of it; counts a hit or a miss.
    pub fn get_head(
        &self,
        key: &Key<&[u8]>,
        out: &mut Vec<u8>,
        mut frame: impl FnMut(&mut Vec<u8>, &Found),
    ) -> Option<Found> {
        let found = self.look(key);
        self.count(found.is_some());
        if let Some(found) = &found {
            let _used = self.cache.contains(key, self.now);
            frame(out, found);
        }
        found
    }

    /// Whether a key is there; counts a hit or a miss.
    pub fn contains(&self, key: &Key<&[u8]>) -> bool {
        let is_there = self.cache.contains(key, self.now);
        self.count(is_there);
        is_there
    }

    /// Stores a value. What is over already is gone with what was there, and has no cas number but a chosen one.
    ///
    /// # Errors
    /// See [`Refused`].
    #[inline]
    pub fn put(
        &mut self,
        key: &Key<&[u8]>,
        value: &[u8],
        put: &Put,
        condition: Condition,
    ) -> Result<Kept, Refused> {
        if put.life == Life::Over {
            self.cache.delete(key, condition, self.now)?;
            return Ok(Kept {
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
        Ok(Kept::of(receipt, put.cas))
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
        let ttl_ms = match put.life {
            Life::For(ttl_ms) => Some(ttl_ms),
            Life::Until(at) => {
                let (value, at) = (Payload::Bytes(value), Some(at));
                return cache.store_until(self.writer(), key, value, at, condition, now);
            }
            Life::Keep | Life::Endless | Life::Over => None,
        };
        cache.set(self.writer(), key, value, ttl_ms, condition, now)
    }

    /// Counts in place, as [`Segcache::update_number`]. What has a chosen cas number is no number here: its
    /// bytes stand behind the digits, and a number has nothing behind it. [`Hand::edit`] changes that.
    ///
    /// # Errors
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

    /// Gives a key the life that `life` tells for its deadline; `None` when it declined by that, or the key is gone.
    ///
    /// # Errors
    /// No room.
    pub fn change_deadline(
        &mut self,
        key: &Key<&[u8]>,
        life: impl Fn(Option<Tick>) -> Option<Option<u64>>,
    ) -> Result<Option<Receipt>, Refused> {
        let (cache, now) = (self.cache, self.now);
        loop {
            match cache.touch_if(self.writer(), key, now, |item| life(item.deadline)) {
                Err(Refused::IsAbsent) => return Ok(None),
                // Others were faster again and again.
                Err(Refused::IsChanged) => {}
                done => return done,
            }
        }
    }

    /// The deadline that a TTL would become now.
    pub fn would_end(&mut self, ttl_ms: u64) -> Tick {
        let (cache, now) = (self.cache, self.now);
        cache.would_end(self.writer(), ttl_ms, now)
    }

    /// Changes a key's marks in place, unless `change` declines; tells them as they were. `is_new` tells whether
    /// the cas number changes with them.
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

    /// Gives what was found other marks; false when it has changed since, or a neighbour that shares its number.
    /// A key that is gone needs none.
    pub fn mark_if_unchanged(&self, key: &Key<&[u8]>, found: &Found, marks: Marks) -> bool {
        let mut is_same = true;
        let change = |bits: u8, version: u32| {
            is_same = version == found.version && Marks::of(bits) == found.marks;
            is_same.then(|| marks.bits(found.marks.has_cas))
        };
        self.cache.update_marks(key, self.now, false, change);
        is_same
    }

    /// Stores a number that was not there, to be counted in place.
    ///
    /// # Errors
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

    /// Changes a key by what is there, in one step for everybody else. `edit` is shown that and an empty buffer for
    /// the new value, and asked again when another was faster: each time that is somebody's progress. Tells what
    /// `edit` told, and what was stored.
    ///
    /// # Errors
    /// Too large, or no room.
    pub fn edit<R>(
        &mut self,
        key: &Key<&[u8]>,
        mut edit: impl FnMut(Option<(&Found, &[u8])>, &mut Vec<u8>) -> (Edit, R),
    ) -> Result<(R, Kept), Refused> {
        let (mut old, mut new) = (std::mem::take(&mut self.old), std::mem::take(&mut self.new));
        let result = loop {
            old.clear();
            new.clear();
            let found = self.peek(key, &mut old);
            let shown = found.as_ref().map(|found| (found, &old[..]));
            let (edit, result) = edit(shown, &mut new);
            let condition = found.map_or(Condition::Absent, |found| found.unchanged());
            let done = match edit {
                Edit::Leave => Ok(Kept::default()),
                Edit::Delete => {
                    let deleted = self.cache.delete(key, condition, self.now);
                    deleted.map(|_| Kept::default())
                }
                Edit::Put(put) => {
                    let life = match (put.life, found.and_then(|found| found.deadline)) {
                        (Life::Keep, Some(at)) => Life::Until(at),
                        (life, _) => life,
                    };
                    let put = Put { life, ..put };
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

/// Room that a worker's buffers keep from one edit to the next.
const KEPT_BYTES_MAX: usize = 64 << 10;

fn shrink(buffer: &mut Vec<u8>) {
    buffer.clear();
    buffer.shrink_to(KEPT_BYTES_MAX);
}

/// The value, and the cas number behind it.
fn split_cas(bytes: &[u8]) -> (&[u8], u64) {
    match bytes.split_last_chunk::<CAS_BYTES>() {
        Some((value, cas)) => (value, u64::from_le_bytes(*cas)),
        None => (bytes, 0),
    }
}

//! The engine: table, heap and chains joined; what every request does.

use crate::config::{Config, ConfigError};
use crate::eviction::evict::Job;
use crate::eviction::learned::Learning;
use crate::eviction::switch::{self, Choice};
use crate::storage::chains::Chains;
use crate::storage::content::Objects;
use crate::storage::heap::{HEADER_BYTES, Heap, Place, SegmentId};
use crate::storage::hint::prefetch;
use crate::storage::line::Slot;
use crate::storage::memory::Memory;
use crate::storage::open::{Life, OpenSegments};
use crate::storage::stored::Stored;
use crate::storage::table::{Cell, Table};
use crate::storage::ttl::{FLUSHED, NEVER};
use crate::storage::words::{LINE, WORD};
use crate::sync::Ordering::Relaxed;
use crate::sync::{Mutex, MutexGuard};
use policy::Tick;
use std::sync::PoisonError;

/// Chains that one insertion splits at most.
const SPLITS: u32 = 2;

/// A key with its hash, which is computed once.
#[derive(Clone, Copy, Debug)]
pub struct Key<K> {
    pub(crate) key: K,
    pub(crate) hash: u64,
}

impl<K> Key<K> {
    /// A key whose hash was told before.
    #[inline(always)]
    pub fn hashed(key: K, hash: u64) -> Self {
        Key { key, hash }
    }

    /// The hash, which only the engine that computed it understands.
    #[inline(always)]
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// When an object may be stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// In any case.
    Always,
    /// The key is absent.
    Absent,
    /// The key is present.
    Present,
    /// The key is present, and nothing in its bucket has changed since this was told.
    Unchanged(u32),
}

/// Why an object was not stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Larger than a segment, or the key longer than allowed.
    TooLarge,
    /// There is no memory, and nothing may be evicted.
    Full,
    /// The key is there.
    IsPresent,
    /// The key is not there.
    IsAbsent,
    /// The key, or another in its bucket, has changed.
    IsChanged,
}

/// What a stored object got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Receipt {
    /// For [`Condition::Unchanged`].
    pub cas: u32,
    /// When it is dead, which may be earlier than asked for; `None`: never.
    pub deadline: Option<Tick>,
}

/// What one writing thread keeps: which segments it fills, and the eviction that it has begun.
#[derive(Debug)]
pub struct Writer {
    pub(crate) id: u16,
    pub(crate) open: OpenSegments,
    pub(crate) job: Option<Job>,
    /// For values that are read to be written again.
    pub(crate) scratch: Vec<u8>,
    /// The heap's changes when nothing could be evicted ahead: until there are more, nothing can.
    pub(crate) in_vain_at: Option<u32>,
    /// Objects written since the last segment was begun.
    pub(crate) writes: u64,
}

/// A cache of segments. Reads take no lock; any thread may read, and write with a [`Writer`] of its own.
#[derive(Debug)]
pub struct Segcache<C = Stored> {
    pub(crate) heap: Heap,
    pub(crate) table: Table,
    pub(crate) content: C,
    pub(crate) config: Config,
    writers: Mutex<Vec<u16>>,
    pub(crate) choice: Choice,
    pub(crate) learning: Learning,
    writer_bytes: u64,
}

/// The deadline as callers know it.
pub(crate) fn told(deadline: Tick) -> Option<Tick> {
    (deadline != NEVER).then_some(deadline)
}

impl<C: Objects> Segcache<C> {
    /// An empty cache.
    ///
    /// # Errors
    /// Sizes out of bounds, and memory that does not do for them.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        let capacity = (config.segment_bytes / WORD).max(LINE);
        let by_writer = OpenSegments::BYTES_MAX + size_of::<Writer>();
        let rows = Chains::new(0, 0, None).heap_bytes();
        let learning = Learning::new();
        let mut fixed = (by_writer * usize::from(config.writers) + rows + size_of::<Self>()) as u64;
        if config.eviction.learns() {
            learning.watch.prepare(config.memory_bytes);
            fixed += learning.watch.bytes(config.memory_bytes);
        }
        let links = Chains::new(1, 0, None).heap_bytes() - rows;
        let directory = 2 * WORD + capacity / 256;
        let ranked = 32;
        let headers = HEADER_BYTES + links + directory + ranked;
        let each = (Memory::bytes_of_one(capacity as u32) + headers) as u64;
        let count = config.segments(each, fixed)?;
        let ranked = switch::ranked(config, count);
        let chains = Chains::new(count, config.reserve(), ranked);
        let heap = Heap::new(count, capacity as u32, C::FILLS, chains);
        let too_small = ConfigError::TooSmall {
            needed_bytes: fixed + 8 * each,
        };
        let table = Table::new(&heap).ok_or(too_small)?;
        Ok(Segcache {
            table,
            content: C::new(count, config.hash_key),
            config: *config,
            writers: Mutex::new((0..config.writers).rev().collect()),
            choice: Choice::new(config, count),
            learning,
            writer_bytes: (by_writer * usize::from(config.writers)) as u64,
            heap,
        })
    }

    /// A key, hashed.
    #[inline]
    pub fn key<'k>(&self, key: C::Key<'k>) -> Key<C::Key<'k>> {
        Key {
            key,
            hash: Slot::tagged(self.content.hash(key)),
        }
    }

    /// The hash of the key of the object here.
    #[inline]
    pub(crate) fn hash_at(&self, place: Place) -> u64 {
        Slot::tagged(self.content.hash_at(&self.heap, place))
    }

    /// A place for one more thread that writes; `None` when there are as many as were configured.
    pub fn writer(&self) -> Option<Writer> {
        let id = self.writer_ids().pop()?;
        Some(Writer {
            id,
            open: OpenSegments::new(self.config.open_most()),
            job: None,
            scratch: Vec::new(),
            in_vain_at: None,
            writes: 0,
        })
    }

    fn writer_ids(&self) -> MutexGuard<'_, Vec<u16>> {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a writer: what it fills is sealed, what it evicts is finished.
    pub fn close(&self, mut writer: Writer) {
        self.finish_job(&mut writer);
        while !writer.open.is_empty() {
            self.leave(&mut writer, 0);
        }
        self.writer_ids().push(writer.id);
    }

    /// All the memory that may be taken.
    pub fn memory_limit(&self) -> u64 {
        self.config.memory_bytes
    }

    /// Bytes that the contents take besides the segments: none where these hold the bytes.
    pub fn content_bytes(&self) -> u64 {
        self.content.heap_bytes() as u64
    }

    /// Asks the processor for the first cache line that this key needs.
    #[inline]
    pub fn prefetch(&self, key: &Key<C::Key<'_>>) {
        prefetch(self.table.line_of(&self.heap, key.hash));
    }

    /// Whether a slot of a chain that is locked names the object of a key.
    #[inline(always)]
    pub(crate) fn has_key(&self, slot: Slot, key: &Key<C::Key<'_>>) -> bool {
        let view = self.content.view(&self.heap, slot.place());
        view.is_some_and(|view| self.content.has_key(view, key.key))
    }

    /// Stores an object under a condition, for `ttl_ms` milliseconds or for ever.
    ///
    /// # Errors
    /// See [`Refused`]. Whatever was there stays then.
    pub fn store(
        &self,
        writer: &mut Writer,
        key: &Key<C::Key<'_>>,
        value: C::Value<'_>,
        ttl_ms: Option<u64>,
        condition: Condition,
        now: Tick,
    ) -> Result<Receipt, Refused> {
        let life = ttl_ms.map_or(Life::Endless, Life::For);
        self.store_for(writer, key, value, life, condition, now)
    }

    /// Stores an object that is to keep a deadline, as it was told before. Deadlines of the one that are kept
    /// again and again become earlier once, and by less than a width.
    ///
    /// # Errors
    /// See [`Refused`]. Whatever was there stays then.
    pub fn store_until(
        &self,
        writer: &mut Writer,
        key: &Key<C::Key<'_>>,
        value: C::Value<'_>,
        deadline: Option<Tick>,
        condition: Condition,
        now: Tick,
    ) -> Result<Receipt, Refused> {
        let life = deadline.map_or(Life::Endless, Life::Until);
        self.store_for(writer, key, value, life, condition, now)
    }

    #[inline]
    fn store_for(
        &self,
        writer: &mut Writer,
        key: &Key<C::Key<'_>>,
        value: C::Value<'_>,
        life: Life,
        condition: Condition,
        now: Tick,
    ) -> Result<Receipt, Refused> {
        let words = C::words(key.key, value).filter(|&words| words <= self.heap.capacity);
        let words = words.ok_or(Refused::TooLarge)?;
        // Most refusals cost no room; those by a race are found below.
        if condition != Condition::Always {
            let cas = self.read(key, now, false, |_, receipt| Some(receipt.cas));
            condition.judge(cas)?;
        }
        let place = self.reserve(writer, life, words, now)?;
        let segment = self.heap.segment(place.segment);
        self.content.write(&self.heap, place, words, key.key, value);
        segment.add_live(words);
        match self.link(key, place, condition, now) {
            Ok((cas, left)) => {
                segment.written();
                writer.writes += 1;
                if self.learning.watch.covers(key.hash) {
                    self.learning.watch.gone(key.hash);
                }
                if let Some(left) = left {
                    self.release(left);
                }
                self.work_ahead(writer, words, now);
                let deadline = told(self.heap.deadline(place.segment));
                Ok(Receipt { cas, deadline })
            }
            Err(refused) => {
                segment.take_live(words);
                self.content.unwritten(place);
                segment.unreserve(words);
                self.release(place.segment);
                Err(refused)
            }
        }
    }

    /// Puts a written object into the table; tells the new `cas`, and the segment of what it replaced.
    fn link(
        &self,
        key: &Key<C::Key<'_>>,
        place: Place,
        condition: Condition,
        now: Tick,
    ) -> Result<(u32, Option<SegmentId>), Refused> {
        let heap = &self.heap;
        let mut chain = self.table.lock(heap, key.hash);
        let found = chain.find(key.hash, |slot| self.has_key(slot, key));
        let is_live = |cell: &Cell<'_>| now <= heap.deadline(cell.slot.place().segment);
        let live = found.filter(is_live);
        condition.judge(live.map(|_| chain.cas()))?;
        // What was asked for often as it was is expected to be so as it is now.
        let frequency = live.map_or(0, |cell| cell.reload().frequency());
        let is_here = live.is_some_and(|cell| cell.slot.place().segment == place.segment);
        if frequency > 0 && !is_here {
            heap.segment(place.segment)
                .known
                .requested
                .fetch_add(1, Relaxed);
        }
        let slot = Slot::object(key.hash, frequency, place);
        let replaced = match found {
            Some(cell) => {
                chain.replace(cell, slot, frequency);
                Some(cell)
            }
            None if chain.insert(slot) => None,
            None => {
                heap.counters.crowded_out.fetch_add(1, Relaxed);
                let weakest = chain.weakest().expect("a chain without room holds objects");
                chain.replace(weakest, slot, 0);
                Some(weakest)
            }
        };
        chain.changed();
        let cas = chain.cas();
        let left = replaced.map(|cell| self.forget(cell.slot.place()));
        drop(chain);
        if left.is_none() {
            let items = heap.counters.items.fetch_add(1, Relaxed) + 1;
            self.grow(items);
        }
        Ok((cas, left))
    }

    /// The object here is no longer in the table, whose chain is still locked: nobody gives its segment
    /// away before it is counted out.
    pub(crate) fn forget(&self, place: Place) -> SegmentId {
        let words = self.content.words_at(&self.heap, place);
        self.heap.segment(place.segment).take_live(words);
        place.segment
    }

    #[inline]
    fn grow(&self, items: u64) {
        for _ in 0..SPLITS {
            let hash_at = |slot: Slot| self.hash_at(slot.place());
            if !self.table.is_crowded(items) || !self.table.grow(&self.heap, hash_at) {
                return;
            }
        }
    }

    /// Removes a key under a condition; tells whether it was there and alive.
    ///
    /// # Errors
    /// The condition.
    pub fn delete(
        &self,
        key: &Key<C::Key<'_>>,
        condition: Condition,
        now: Tick,
    ) -> Result<bool, Refused> {
        let heap = &self.heap;
        let mut chain = self.table.lock(heap, key.hash);
        let found = chain.find(key.hash, |slot| self.has_key(slot, key));
        let is_live = |cell: &Cell<'_>| now <= heap.deadline(cell.slot.place().segment);
        let live = found.filter(is_live);
        condition.judge(live.map(|_| chain.cas()))?;
        let Some(cell) = found else {
            return Ok(false);
        };
        chain.remove(cell);
        chain.changed();
        let left = self.forget(cell.slot.place());
        drop(chain);
        if self.learning.watch.covers(key.hash) {
            self.learning.watch.gone(key.hash);
        }
        heap.counters.items.fetch_sub(1, Relaxed);
        self.release(left);
        Ok(live.is_some())
    }

    /// Everything that is here now is over; its memory comes back by [`Segcache::maintain`].
    pub fn clear(&self) {
        let mut chains = self.heap.chains();
        for row in chains.rows_from(0) {
            for id in chains.row(chains.head(row)) {
                self.heap.segment(id).seal();
                self.heap.stamp(id).set_deadline(FLUSHED);
            }
        }
        self.heap.next_due.store(FLUSHED.0, Relaxed);
        self.learning.watch.flushed();
        let ranking = std::mem::take(&mut chains.ranking);
        // Freed when nobody waits for the lock any more.
        drop(chains);
        drop(ranking);
    }

    /// Bytes of what is there to learn about segments, besides what fits into their headers' cache lines.
    pub fn learning_bytes(&self) -> u64 {
        self.learning.watch.bytes(self.config.memory_bytes)
    }

    /// Bytes of everything that is not in segments.
    pub(crate) fn directory_bytes(&self) -> u64 {
        let chains = self.heap.chains().heap_bytes();
        let table = self.table.directory_bytes();
        self.writer_bytes
            + self.learning_bytes()
            + (size_of::<Self>() + self.heap.header_bytes() + chains + table) as u64
    }
}

impl Condition {
    /// `cas` of the key that is present, or none.
    fn judge(self, present: Option<u32>) -> Result<(), Refused> {
        match (self, present) {
            (Condition::Absent, Some(_)) => Err(Refused::IsPresent),
            (Condition::Present | Condition::Unchanged(_), None) => Err(Refused::IsAbsent),
            (Condition::Unchanged(cas), Some(now)) if cas != now => Err(Refused::IsChanged),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Eviction;
    use crate::storage::stored::Value;
    use policy::Budget;

    fn engine() -> (Segcache, Writer) {
        let config = Config {
            memory_bytes: 1 << 20,
            segment_bytes: 4 << 10,
            ..Config::default()
        };
        let cache: Segcache = Segcache::new(&config).expect("valid");
        let writer = cache.writer().expect("the first");
        (cache, writer)
    }

    /// Which of these numbers a reader finds, each with its value.
    fn found(cache: &Segcache, numbers: u32) -> Vec<u32> {
        let mut out = vec![];
        let is_found = |number: &u32| {
            out.clear();
            let name = number.to_be_bytes();
            let item = cache.get(&cache.key(&name), Tick(9), &mut out);
            assert_eq!(item.is_some(), out == [*number as u8; 40]);
            item.is_some()
        };
        (0..numbers).filter(is_found).collect()
    }

    /// Every lock that there is is held, an object is half written and a merge half done: whoever took a lock, or
    /// waited for a writer, would do so for ever.
    #[test]
    fn readers_wait_for_nobody() {
        const NUMBERS: u32 = if cfg!(miri) { 400 } else { 2_000 };
        let config = Config {
            memory_bytes: 256 << 10,
            segment_bytes: 4 << 10,
            writers: 2,
            ..Config::default()
        };
        let cache: Segcache = Segcache::new(&config).expect("valid");
        let mut merger = cache.writer().expect("the first");
        let mut other = cache.writer().expect("the second");
        for number in 0..NUMBERS {
            let (name, bytes) = (number.to_be_bytes(), [number as u8; 40]);
            let (key, value) = (cache.key(&name), Value::plain(&bytes));
            let stored = cache.set(&mut merger, &key, value, None, Condition::Always, Tick(9));
            assert!(stored.is_ok());
        }
        cache.finish_job(&mut merger);
        merger.job = cache.begin_eviction(Tick(9), false);
        assert!(merger.job.is_some());
        assert!(!cache.step_job(&mut merger, &mut Budget(30), u64::MAX));
        let place = cache.reserve(&mut other, Life::Endless, 8, Tick(9));
        let place = place.expect("there is room");
        let before = found(&cache, NUMBERS);
        assert!(
            before.len() > NUMBERS as usize / 2,
            "{} found",
            before.len()
        );
        let chains: Vec<_> = cache.table.locked_chains(&cache.heap).collect();
        let extents = chains.iter().map(|chain| chain.extent().0);
        assert!(extents.max() > Some(1), "chains of one line alone");
        let locks = (cache.heap.chains(), cache.writer_ids(), cache.table.held());
        assert_eq!(found(&cache, NUMBERS), before);
        drop((locks, chains));
        cache.heap.segment(place.segment).unreserve(8);
        cache.finish_job(&mut merger);
        cache.check();
    }

    /// S3-FIFO keeps taking from its small queue, in which there are segments that are being filled alone.
    #[test]
    fn a_policy_that_names_open_segments_alone_keeps_nothing_from_leaving() {
        let config = Config {
            memory_bytes: 80 << 10,
            segment_bytes: 4 << 10,
            writers: 2,
            eviction: Eviction::S3Fifo,
            ..Config::default()
        };
        let cache: Segcache = Segcache::new(&config).expect("valid");
        let mut writers = [(); 2].map(|()| cache.writer().expect("one of two"));
        let set = |writer: &mut Writer, number: u32, ttl_ms| {
            let (name, always) = (number.to_be_bytes(), Condition::Always);
            let key = cache.key(&name);
            let stored = cache.set(
                writer,
                &key,
                Value::plain(&[7; 400]),
                ttl_ms,
                always,
                Tick(9),
            );
            assert!(stored.is_ok());
        };
        let all = || {
            cache
                .heap
                .ids()
                .filter(|id| cache.heap.segment(*id).live().0 > 0)
        };
        (0..200).for_each(|number| set(&mut writers[0], number, None));
        for writer in &mut writers {
            for ttl_ms in [60_000, 600_000, 6_000_000] {
                set(writer, ttl_ms as u32, Some(ttl_ms));
            }
        }
        for id in all() {
            let segment = cache.heap.segment(id);
            segment.uses.store(3 * segment.live().0, Relaxed);
        }
        let sealed = all()
            .filter(|id| cache.heap.segment(*id).is_sealed())
            .count();
        for left in (0..sealed).rev() {
            let mut job = cache.begin_eviction(Tick(9), false);
            assert!(job.is_some(), "{left} more could leave");
            writers[0].job = job.take();
            cache.finish_job(&mut writers[0]);
        }
        assert!(cache.begin_eviction(Tick(9), false).is_none());
        assert!(cache.begin_eviction(Tick(9), true).is_some());
    }

    #[test]
    fn there_are_as_many_writers_as_configured() {
        let (cache, writer) = engine();
        assert!(cache.writer().is_none());
        cache.close(writer);
        assert!(cache.writer().is_some());
    }
}

//! The engine: storage and eviction combined, and the requests that all kinds of content share.

use crate::config::{Config, ConfigError, Eviction};
use crate::eviction::{EvictionState, Evictor, Learning, Plan, Ranked, Store, ranked};
use crate::storage::{
    Condition, Directory, Heap, Key, LINE, Lifetime, Objects, OpenSegments, Receipt, Refused,
    Storage, Stored, WORD, heap_bytes_of_segment, saved_words_max,
};
use crate::sync::{Mutex, MutexGuard};
use crate::writer::Writer;
use policy::Tick;
use std::sync::PoisonError;

/// Cache of segments. Reads take no lock. Any thread may read, and may write with its own
/// [`Writer`].
#[derive(Debug)]
pub struct Segcache<C = Stored> {
    pub(crate) storage: Store<C>,
    pub(crate) eviction: EvictionState,
    /// Numbers of writers that are not in use.
    writers: Mutex<Vec<u16>>,
    writer_bytes: u64,
}

/// Sizes of an engine's data in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSizes {
    /// Number of segments.
    pub segment_count: u32,
    /// Total size of the segments in bytes.
    pub segments_bytes: u64,
    /// Maximum number of words that [`Segcache::save`] returns.
    pub saved_words_max: u64,
}

/// Sizes of an engine, which follow from its configuration.
struct Sizes {
    /// Number of segments.
    count: u32,
    /// Words of a segment.
    capacity: u32,
    /// Size of a segment with its share of the directories, in bytes.
    each_bytes: u64,
    /// Memory in bytes that does not depend on the number of segments.
    fixed_bytes: u64,
    writer_bytes: u64,
    learning: Learning,
}

fn directory(config: &Config, count: u32, ranked: Option<Ranked>) -> Directory<Plan> {
    Directory::new(count, config.reserve(), Plan::new(count, ranked))
}

impl<C: Objects> Segcache<C> {
    /// Checks a configuration without allocating an engine.
    ///
    /// # Errors
    /// Returns the same errors as [`Segcache::new`].
    pub fn check_config(config: &Config) -> Result<(), ConfigError> {
        Self::sizes(config).map(drop)
    }

    /// Creates an empty cache.
    ///
    /// # Errors
    /// Returns an error if a size is out of bounds or the memory is too small for the sizes.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        let sizes = Self::sizes(config)?;
        let count = sizes.count;
        let storage = Storage::new(
            Heap::new(count, sizes.capacity, C::FILLS),
            directory(config, count, ranked(config, count)),
            config.hash_key,
            config.seed,
        );
        let too_small = ConfigError::TooSmall {
            needed_bytes: sizes.fixed_bytes + 8 * sizes.each_bytes,
        };
        Ok(Self::with(config, storage.ok_or(too_small)?, sizes))
    }

    /// Returns the sizes of the data that an engine in a file stores there.
    ///
    /// # Errors
    /// Returns the same errors as [`Segcache::new`].
    pub fn file_sizes(config: &Config) -> Result<FileSizes, ConfigError> {
        let Sizes {
            count, capacity, ..
        } = Self::sizes(config)?;
        Ok(FileSizes {
            segment_count: count,
            segments_bytes: Heap::file_bytes(count, capacity),
            saved_words_max: saved_words_max(count, capacity),
        })
    }

    /// Creates an engine whose segments are stored in a file, beginning at byte `offset`, which
    /// must be a multiple of the page size. From there, the file must have
    /// [`FileSizes::segments_bytes`], fully backed by storage. It must keep them while the engine
    /// is in use, and nothing else may change them. With `saved`, the engine continues with the
    /// objects of an engine that returned these words from [`Segcache::save`], under the same
    /// `hash_key`; otherwise it is empty.
    ///
    /// Returns `None` if the saved words and the segments are damaged or do not match. The duration
    /// of a restore grows with the number of objects, not with the size of their values.
    ///
    /// # Errors
    /// Returns the same errors as [`Segcache::new`], or an error of the operating system.
    #[cfg(all(target_os = "linux", not(any(loom, miri))))]
    pub fn in_file(
        config: &Config,
        file: impl rustix::fd::AsFd,
        offset: u64,
        saved: Option<&[u64]>,
    ) -> std::io::Result<Option<Self>> {
        let sizes = Self::sizes(config).map_err(std::io::Error::other)?;
        let count = sizes.count;
        let heap = Heap::mapped(count, sizes.capacity, file, offset)?;
        let directory = directory(config, count, ranked(config, count));
        let (hash_key, seed) = (config.hash_key, config.seed);
        let storage = match saved {
            Some(saved) => Storage::restore(heap, directory, hash_key, seed, saved),
            None => Storage::new(heap, directory, hash_key, seed),
        };
        Ok(storage.map(|storage| Self::with(config, storage, sizes)))
    }

    fn with(config: &Config, storage: Store<C>, sizes: Sizes) -> Self {
        Segcache {
            storage,
            eviction: EvictionState::new(config, sizes.count, sizes.learning),
            writers: Mutex::new((0..config.writers).rev().collect()),
            writer_bytes: sizes.writer_bytes,
        }
    }

    /// Finishes a writer's eviction and seals its segments, like [`Segcache::close`]. The writer
    /// can still be used.
    pub fn settle(&self, writer: &mut Writer) {
        self.finish_job(writer);
        while !writer.open.is_empty() {
            self.seal(writer, 0);
        }
    }

    /// Returns the data outside of the segments that an engine needs to continue with them. All
    /// writers must be closed or settled, and no thread may write from now on; otherwise the result
    /// is `None`.
    pub fn save(&self) -> Option<Vec<u64>> {
        self.storage.save()
    }

    fn sizes(config: &Config) -> Result<Sizes, ConfigError> {
        config.check()?;
        let capacity = (config.segment_bytes / WORD).max(LINE) as u32;
        let by_writer = OpenSegments::BYTES_MAX + size_of::<Writer>();
        let writer_bytes = (by_writer * usize::from(config.writers)) as u64;
        let empty_bytes = directory(config, 0, None).lock().heap_bytes();
        let learning = Learning::new();
        let mut fixed_bytes = writer_bytes + (empty_bytes + size_of::<Self>()) as u64;
        if config.eviction.learns() {
            learning.watch.prepare(config.memory_bytes);
            fixed_bytes += learning.watch.bytes(config.memory_bytes);
        }
        let links = directory(config, 1, None).lock().heap_bytes() - empty_bytes;
        // Directories of the table, and the state of a replacement policy over segments.
        let table = 2 * WORD + capacity as usize / 256;
        let ranked_bytes = 32;
        let each = heap_bytes_of_segment(capacity) + links + table + ranked_bytes;
        let each_bytes = each as u64;
        Ok(Sizes {
            count: config.segments(each_bytes, fixed_bytes)?,
            capacity,
            each_bytes,
            fixed_bytes,
            writer_bytes,
            learning,
        })
    }

    /// Hashes a key.
    #[inline]
    pub fn key<'k>(&self, key: C::Key<'k>) -> Key<C::Key<'k>> {
        self.storage.key(key)
    }

    #[inline]
    pub(crate) fn evictor(&self) -> Evictor<'_, C> {
        Evictor::new(&self.storage, &self.eviction)
    }

    /// Creates a writer for one more thread. Returns `None` if all configured writers are in use.
    pub fn writer(&self) -> Option<Writer> {
        let id = self.writer_ids().pop()?;
        Some(Writer::new(id, self.eviction.config().open_max()))
    }

    fn writer_ids(&self) -> MutexGuard<'_, Vec<u16>> {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a writer: finishes its eviction and seals its segments.
    pub fn close(&self, mut writer: Writer) {
        self.settle(&mut writer);
        self.writer_ids().push(writer.id);
    }

    /// Returns the maximum memory of the engine in bytes.
    pub fn memory_limit(&self) -> u64 {
        self.eviction.config().memory_bytes
    }

    /// Returns the memory in bytes that contents take outside the segments; 0 if segments hold the
    /// objects.
    pub fn content_bytes(&self) -> u64 {
        self.storage.content_bytes() as u64
    }

    /// Prefetches the first cache line that a request for this key needs.
    #[inline]
    pub fn prefetch(&self, key: &Key<C::Key<'_>>) {
        self.storage.prefetch(key.hash);
    }

    /// Reads an unexpired object without a lock. `take` copies the data that the caller needs. It
    /// may be called again, and must first drop its earlier copy. If `counts`, the read counts as a
    /// request for the object.
    #[inline(always)]
    pub(crate) fn read<R>(
        &self,
        key: &Key<C::Key<'_>>,
        now: Tick,
        counts: bool,
        take: impl FnMut(C::View<'_>, Receipt) -> Option<R>,
    ) -> Option<R> {
        let (taken, is_counted) = self.storage.read(key, now, counts, take);
        let watch = &self.eviction.learning.watch;
        if is_counted && watch.covers(key.hash) {
            watch.requested(key.hash, now);
        }
        taken
    }

    /// Returns true if a key is present. This counts as a request for the key.
    #[inline]
    pub fn contains(&self, key: &Key<C::Key<'_>>, now: Tick) -> bool {
        self.read(key, now, true, |_, _| Some(())).is_some()
    }

    /// Stores an object if a condition holds. It expires after `ttl_ms` milliseconds, or never if
    /// that is `None`.
    ///
    /// # Errors
    /// Returns [`Refused`] if the object was not stored, in which case nothing has changed.
    pub fn store(
        &self,
        writer: &mut Writer,
        key: &Key<C::Key<'_>>,
        value: C::Value<'_>,
        ttl_ms: Option<u64>,
        condition: Condition,
        now: Tick,
    ) -> Result<Receipt, Refused> {
        let lifetime = ttl_ms.map_or(Lifetime::Endless, Lifetime::For);
        self.store_for(writer, key, value, lifetime, condition, now)
    }

    /// Stores an object with a deadline that the engine returned earlier. If a deadline is kept
    /// repeatedly, it becomes earlier once, by less than the width of its TTL bucket.
    ///
    /// # Errors
    /// Returns [`Refused`] if the object was not stored, in which case nothing has changed.
    pub fn store_until(
        &self,
        writer: &mut Writer,
        key: &Key<C::Key<'_>>,
        value: C::Value<'_>,
        deadline: Option<Tick>,
        condition: Condition,
        now: Tick,
    ) -> Result<Receipt, Refused> {
        let lifetime = deadline.map_or(Lifetime::Endless, Lifetime::Until);
        self.store_for(writer, key, value, lifetime, condition, now)
    }

    #[inline]
    fn store_for(
        &self,
        writer: &mut Writer,
        key: &Key<C::Key<'_>>,
        value: C::Value<'_>,
        lifetime: Lifetime,
        condition: Condition,
        now: Tick,
    ) -> Result<Receipt, Refused> {
        let capacity = self.storage.heap().capacity();
        let words = C::words(key.key, value).filter(|&words| words <= capacity);
        let words = words.ok_or(Refused::TooLarge)?;
        // Most refusals are found here, before room is reserved. The insertion checks the condition
        // again.
        if condition != Condition::Always {
            let cas = self.read(key, now, false, |_, receipt| Some(receipt.cas));
            condition.check(cas)?;
        }
        let location = self.reserve(writer, lifetime, words, now)?;
        let inserted = self
            .storage
            .insert(key, value, location, words, condition, now);
        match inserted {
            Ok(inserted) => {
                writer.writes += 1;
                self.forget_watched(key.hash);
                if let Some(replaced) = inserted.replaced {
                    self.storage.free_if_empty(replaced);
                }
                self.work_ahead(writer, words, now);
                Ok(inserted.receipt)
            }
            Err(refused) => {
                self.storage.free_if_empty(location.segment);
                Err(refused)
            }
        }
    }

    /// Removes a key if a condition holds. Returns true if it was present and had not expired.
    ///
    /// # Errors
    /// Returns [`Refused`] if the condition did not hold.
    pub fn delete(
        &self,
        key: &Key<C::Key<'_>>,
        condition: Condition,
        now: Tick,
    ) -> Result<bool, Refused> {
        let Some(deleted) = self.storage.delete(key, condition, now)? else {
            return Ok(false);
        };
        self.forget_watched(key.hash);
        self.storage.free_if_empty(deleted.segment);
        Ok(deleted.was_live)
    }

    /// Removes a key that is overwritten or deleted from the watched keys, because its old value
    /// will not be requested again.
    #[inline]
    fn forget_watched(&self, hash: u64) {
        let watch = &self.eviction.learning.watch;
        if watch.covers(hash) {
            watch.forget(hash);
        }
    }

    /// Removes all objects: they expire at once, and [`Segcache::maintain`] frees their memory.
    pub fn clear(&self) {
        self.evictor().flush();
    }

    /// Returns the current eviction.
    pub fn eviction(&self) -> Eviction {
        self.eviction.eviction()
    }

    /// Changes the eviction. Any thread may call this at any time.
    ///
    /// # Errors
    /// Returns an error if there are fewer segments than a merging eviction needs with its reserve,
    /// in which case nothing has changed.
    pub fn set_eviction(&self, eviction: Eviction) -> Result<(), ConfigError> {
        self.evictor().set(eviction)
    }

    /// Returns the size of the table of watched keys in bytes, which `gl-cache` needs.
    pub fn learning_bytes(&self) -> u64 {
        let memory_bytes = self.eviction.config().memory_bytes;
        self.eviction.learning.watch.bytes(memory_bytes)
    }

    /// Returns the memory outside of the segments, in bytes.
    pub(crate) fn directory_bytes(&self) -> u64 {
        let storage = self.storage.directory_bytes() + size_of::<Self>();
        self.writer_bytes + self.learning_bytes() + storage as u64
    }

    /// Panics if the engine's data structures are inconsistent. Slow; for tests and fuzzers. No
    /// thread may write meanwhile.
    pub fn check(&self) {
        self.storage.check();
        let taken = self.storage.taken_bytes() + self.storage.directory_bytes();
        assert!(taken as u64 <= self.memory_limit(), "{taken} bytes");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Eviction;
    use crate::storage::Value;
    use policy::Budget;
    use std::sync::atomic::Ordering;

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

    /// Returns the numbers below `numbers` that a reader finds, each with its value.
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

    /// All locks are held, an object is half written, and a merge is half done. A reader that took
    /// a lock or waited for a writer would never return.
    #[test]
    fn readers_wait_for_no_lock() {
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
        merger.job = cache.evictor().begin_eviction(Tick(9), false);
        assert!(merger.job.is_some());
        assert!(
            !cache
                .evictor()
                .step_job(&mut merger.job, &mut Budget(30), u64::MAX)
        );
        let location = cache.reserve(&mut other, Lifetime::Endless, 8, Tick(9));
        let location = location.expect("there is room");
        let before = found(&cache, NUMBERS);
        assert!(
            before.len() > NUMBERS as usize / 2,
            "{} found",
            before.len()
        );
        let (table, longest) = cache.storage.lock_table();
        assert!(longest > 1, "chains of one line alone");
        let locks = (table, cache.storage.directory().lock(), cache.writer_ids());
        assert_eq!(found(&cache, NUMBERS), before);
        drop(locks);
        cache.storage.heap().header(location.segment).unreserve(8);
        cache.finish_job(&mut merger);
        cache.check();
    }

    /// Regression: writers went on while the thread that split a chain was suspended, until the
    /// chains were full and further objects replaced others.
    #[test]
    fn a_writer_waits_for_a_suspended_split_before_the_chains_are_full() {
        const NUMBERS: u32 = if cfg!(miri) { 4_000 } else { 40_000 };
        let config = Config {
            memory_bytes: u64::from(NUMBERS) * 100,
            segment_bytes: 4 << 10,
            ..Config::default()
        };
        let cache: Segcache = Segcache::new(&config).expect("valid");
        let table = cache.storage.table();
        let stored_max = table.items_without_split(1);
        assert!(stored_max < u64::from(NUMBERS) / 4);
        std::thread::scope(|scope| {
            let suspended = table.hold_split();
            let filler = scope.spawn(|| {
                let mut writer = cache.writer().expect("the first");
                for number in 0..NUMBERS {
                    let (name, bytes) = (number.to_be_bytes(), [number as u8; 40]);
                    let (key, value) = (cache.key(&name), Value::plain(&bytes));
                    let stored =
                        cache.set(&mut writer, &key, value, None, Condition::Always, Tick(9));
                    assert!(stored.is_ok());
                }
                cache.close(writer);
            });
            // Either event occurs, however long it takes.
            while table.waits.load(Ordering::Relaxed) == 0 && !filler.is_finished() {
                std::thread::yield_now();
            }
            assert!(!filler.is_finished(), "the writer did not wait");
            assert!(cache.len() <= stored_max, "{} objects", cache.len());
            drop(suspended);
        });
        assert_eq!(found(&cache, NUMBERS).len(), NUMBERS as usize);
        assert_eq!(cache.stats().crowded_out, 0);
        cache.check();
    }

    /// S3-FIFO keeps choosing from its small queue, which holds open segments only.
    #[test]
    fn a_policy_that_chooses_only_open_segments_does_not_prevent_eviction() {
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
                .storage
                .heap()
                .ids()
                .filter(|id| cache.storage.heap().header(*id).live().0 > 0)
        };
        (0..200).for_each(|number| set(&mut writers[0], number, None));
        for writer in &mut writers {
            for ttl_ms in [60_000, 600_000, 6_000_000] {
                set(writer, ttl_ms as u32, Some(ttl_ms));
            }
        }
        for id in all() {
            let header = cache.storage.heap().header(id);
            (0..3 * header.live().0).for_each(|_| header.usage.count_hit(false));
        }
        let sealed = all()
            .filter(|id| cache.storage.heap().header(*id).is_sealed())
            .count();
        for left in (0..sealed).rev() {
            let mut job = cache.evictor().begin_eviction(Tick(9), false);
            assert!(job.is_some(), "{left} more could leave");
            writers[0].job = job.take();
            cache.finish_job(&mut writers[0]);
        }
        assert!(cache.evictor().begin_eviction(Tick(9), false).is_none());
        assert!(cache.evictor().begin_eviction(Tick(9), true).is_some());
    }

    #[test]
    fn there_are_no_more_writers_than_configured() {
        let (cache, writer) = engine();
        assert!(cache.writer().is_none());
        cache.close(writer);
        assert!(cache.writer().is_some());
    }
}

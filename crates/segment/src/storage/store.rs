//! Storage: the heap, the segment directory, the hash table and the contents, and the steps that
//! make up requests and evictions. Each step leaves all four consistent.
//!
//! Storage does not decide where an object is written, and evicts nothing: the engine reserves the
//! room for a write, and the eviction chooses the segments to remove.

use super::chain::Chain;
use super::content::Objects;
use super::directory::{Directory, LockedDirectory};
use super::heap::Heap;
use super::hint::prefetch;
use super::line::{SlotRef, SlotWord, with_tag};
use super::lists::State;
use super::location::{Location, SegmentId};
use super::plan::EvictionPlan;
use super::request::{Condition, Key, Receipt, Refused};
use super::search::Search;
use super::table::Table;
use super::ttl::{FLUSHED, TtlBucket};
use super::words::LINE;
use crate::sync::AtomicU64;
use crate::sync::Ordering::Relaxed;
use policy::Tick;

/// Maximum number of chains that one insertion splits.
const SPLITS: u32 = 2;

/// Exact counters of objects, readable at any time.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Counters {
    items: AtomicU64,
    crowded_out: AtomicU64,
}

/// All stored objects. `P` is the eviction's state for each segment.
#[derive(Debug)]
pub(crate) struct Storage<C, P> {
    heap: Heap,
    directory: Directory<P>,
    table: Table,
    content: C,
    counters: Counters,
    /// Seed of the random part of frequencies.
    pub(super) seed: u64,
}

/// An object found in a scan of its segment. It may have been removed from the table.
#[derive(Clone, Copy)]
pub(crate) struct ScannedObject {
    pub(crate) location: Location,
    pub(crate) words: u32,
    pub(crate) hash: u64,
}

/// Result of an insertion.
pub(crate) struct Inserted {
    pub(crate) receipt: Receipt,
    /// Segment of the object that was replaced, if there was one.
    pub(crate) replaced: Option<SegmentId>,
}

/// Result of a deletion.
pub(crate) struct Deleted {
    /// Whether the object had not expired yet.
    pub(crate) was_live: bool,
    pub(crate) segment: SegmentId,
}

/// An unexpired object whose chain is locked.
pub(crate) struct LockedObject<'s> {
    chain: Chain<'s>,
    pub(crate) location: Location,
    deadline: Tick,
}

impl LockedObject<'_> {
    /// Returns the version and the deadline.
    pub(crate) fn receipt(&self) -> Receipt {
        Receipt::new(self.chain.cas(), self.deadline)
    }

    /// Records that the value has changed, and so gives it a new version.
    pub(crate) fn changed(&mut self) {
        self.chain.changed();
    }
}

impl<C: Objects, P: EvictionPlan> Storage<C, P> {
    /// Creates an empty storage from a heap and its directory. Returns `None` if the heap has no
    /// segment for the table.
    pub(crate) fn new(
        heap: Heap,
        directory: Directory<P>,
        hash_key: [u64; 2],
        seed: u64,
    ) -> Option<Self> {
        Some(Storage {
            table: Table::new(&heap, &directory)?,
            content: C::new(heap.count(), hash_key),
            counters: Counters::default(),
            seed,
            heap,
            directory,
        })
    }

    /// Creates a storage from restored parts. `counts` are the numbers of objects and of objects
    /// that were crowded out.
    pub(super) fn of_parts(
        heap: Heap,
        directory: Directory<P>,
        table: Table,
        content: C,
        counts: (u64, u64),
        seed: u64,
    ) -> Self {
        Storage {
            heap,
            directory,
            table,
            content,
            counters: Counters {
                items: AtomicU64::new(counts.0),
                crowded_out: AtomicU64::new(counts.1),
            },
            seed,
        }
    }

    #[inline(always)]
    pub(crate) fn heap(&self) -> &Heap {
        &self.heap
    }

    #[inline(always)]
    pub(crate) fn directory(&self) -> &Directory<P> {
        &self.directory
    }

    #[inline(always)]
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    #[inline(always)]
    pub(super) fn content(&self) -> &C {
        &self.content
    }

    /// Returns the number of objects in the table, including expired ones.
    #[inline]
    pub(crate) fn item_count(&self) -> u64 {
        self.counters.items.load(Relaxed)
    }

    /// Returns the number of objects that were dropped because their chain was full.
    pub(crate) fn crowded_out(&self) -> u64 {
        self.counters.crowded_out.load(Relaxed)
    }

    /// Returns the memory in bytes that contents take outside of the segments.
    pub(crate) fn content_bytes(&self) -> usize {
        self.content.heap_bytes()
    }

    /// Returns the memory outside of the segments in bytes: headers, directories and the plan.
    pub(crate) fn directory_bytes(&self) -> usize {
        self.heap.header_bytes() + self.directory.lock().heap_bytes() + self.table.directory_bytes()
    }

    /// Returns the size of all segments that were ever taken, in bytes.
    pub(crate) fn taken_bytes(&self) -> usize {
        let taken = self.directory.lock().lists.taken_count();
        self.heap.taken_bytes(taken)
    }

    /// Hashes a key.
    #[inline]
    pub(crate) fn key<'k>(&self, key: C::Key<'k>) -> Key<C::Key<'k>> {
        Key {
            key,
            hash: with_tag(self.content.hash(key)),
        }
    }

    /// Returns the key hash of the object at a location.
    #[inline]
    pub(super) fn hash_at(&self, location: Location) -> u64 {
        with_tag(self.content.hash_at(&self.heap, location))
    }

    /// Prefetches the first cache line of the table that a key needs.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        prefetch(self.table.line_of(&self.heap, hash));
    }

    /// Prefetches the cache lines in which a key's object probably begins, once its line of the
    /// table has been loaded. If no slot of the first line has the key's tag, the chain's next line
    /// is prefetched instead.
    #[inline]
    pub(crate) fn prefetch_object(&self, hash: u64) {
        let line = self.table.line_of(&self.heap, hash);
        let Some(location) = Table::likely_in(line, hash) else {
            if let Some(next) = self.table.line_after(&self.heap, line) {
                prefetch(next);
            }
            return;
        };
        if let Some(words) = self.heap.words(location) {
            prefetch(&words[0]);
            // An object that is longer than a line continues in the next one.
            prefetch(&words[LINE.min(words.len() - 1)]);
        }
    }

    #[inline]
    pub(super) fn lock(&self, hash: u64) -> Chain<'_> {
        self.table.lock(&self.heap, &self.directory, hash)
    }

    /// Returns true if a slot of a locked chain refers to the object of this key.
    #[inline(always)]
    fn has_key(&self, slot: SlotWord, key: &Key<C::Key<'_>>) -> bool {
        let view = self.content.view(&self.heap, slot.location());
        view.is_some_and(|view| self.content.has_key(view, key.key))
    }

    #[inline(always)]
    fn is_live(&self, slot: &SlotRef<'_>, now: Tick) -> bool {
        now <= self.heap.deadline(slot.word.location().segment)
    }

    /// Locks the chain of a key, and returns its object unless it has expired.
    pub(crate) fn lock_live(&self, key: &Key<C::Key<'_>>, now: Tick) -> Option<LockedObject<'_>> {
        let chain = self.lock(key.hash);
        let slot = chain.find(key.hash, |slot| self.has_key(slot, key))?;
        let location = slot.word.location();
        let deadline = self.heap.deadline(location.segment);
        (now <= deadline).then_some(LockedObject {
            chain,
            location,
            deadline,
        })
    }

    /// Writes an object into room reserved by the caller, and enters it into the table if the
    /// condition holds. Otherwise the room is freed.
    pub(crate) fn insert(
        &self,
        key: &Key<C::Key<'_>>,
        value: C::Value<'_>,
        location: Location,
        words: u32,
        condition: Condition,
        now: Tick,
    ) -> Result<Inserted, Refused> {
        let header = self.heap.header(location.segment);
        self.content
            .write(&self.heap, location, words, key.key, value);
        header.add_live(words);
        let linked = self.link(key, location, condition, now);
        match linked {
            Ok((cas, replaced)) => {
                header.written();
                let deadline = self.heap.deadline(location.segment);
                let receipt = Receipt::new(cas, deadline);
                Ok(Inserted { receipt, replaced })
            }
            Err(refused) => {
                header.take_live(words);
                self.content.undo(location);
                header.unreserve(words);
                Err(refused)
            }
        }
    }

    /// Enters a written object into the table. Returns the new `cas`, and the segment of the object
    /// that it replaced.
    fn link(
        &self,
        key: &Key<C::Key<'_>>,
        location: Location,
        condition: Condition,
        now: Tick,
    ) -> Result<(u32, Option<SegmentId>), Refused> {
        let mut chain = self.lock(key.hash);
        let found = chain.find(key.hash, |slot| self.has_key(slot, key));
        let live = found.filter(|slot| self.is_live(slot, now));
        condition.check(live.map(|_| chain.cas()))?;
        // The new object inherits the frequency of the one that it replaces.
        let frequency = live.map_or(0, |slot| slot.reload().frequency());
        let is_here = live.is_some_and(|slot| slot.word.location().segment == location.segment);
        if frequency > 0 && !is_here {
            self.heap.header(location.segment).usage.count_requested();
        }
        let word = SlotWord::object(key.hash, frequency, location);
        let replaced = match found {
            Some(slot) => {
                chain.replace(slot, word, frequency);
                Some(slot)
            }
            None if chain.insert(word) => None,
            None => {
                self.counters.crowded_out.fetch_add(1, Relaxed);
                let weakest = chain.weakest().expect("a chain without room holds objects");
                chain.replace(weakest, word, 0);
                Some(weakest)
            }
        };
        chain.changed();
        let cas = chain.cas();
        let replaced = replaced.map(|slot| self.count_out(slot.word.location()));
        drop(chain);
        if replaced.is_none() {
            let items = self.counters.items.fetch_add(1, Relaxed) + 1;
            self.grow(items);
        }
        Ok((cas, replaced))
    }

    /// Removes an object, to which the table no longer refers, from its segment's counts of live
    /// objects. Its chain is still locked, so that the segment is not freed earlier.
    fn count_out(&self, location: Location) -> SegmentId {
        let words = self.content.words_at(&self.heap, location);
        self.heap.header(location.segment).take_live(words);
        location.segment
    }

    #[inline]
    fn grow(&self, items: u64) {
        for _ in 0..SPLITS {
            let hash_at = |slot: SlotWord| self.hash_at(slot.location());
            let table = &self.table;
            if !table.is_crowded(items) || !table.grow(&self.heap, &self.directory, items, hash_at)
            {
                return;
            }
        }
    }

    /// Removes a key under a condition. Returns `None` if it was absent.
    pub(crate) fn delete(
        &self,
        key: &Key<C::Key<'_>>,
        condition: Condition,
        now: Tick,
    ) -> Result<Option<Deleted>, Refused> {
        let mut chain = self.lock(key.hash);
        let found = chain.find(key.hash, |slot| self.has_key(slot, key));
        let live = found.filter(|slot| self.is_live(slot, now));
        condition.check(live.map(|_| chain.cas()))?;
        let Some(slot) = found else {
            return Ok(None);
        };
        chain.remove(slot);
        chain.changed();
        let segment = self.count_out(slot.word.location());
        drop(chain);
        self.counters.items.fetch_sub(1, Relaxed);
        let was_live = live.is_some();
        Ok(Some(Deleted { was_live, segment }))
    }

    /// Opens a segment that was taken from the free ones, for a writer.
    pub(crate) fn open_segment(
        &self,
        id: SegmentId,
        writer: u16,
        bucket: TtlBucket,
        deadline: Tick,
    ) {
        self.content.prepare(&self.heap, id);
        self.heap.open(id, writer, bucket, deadline);
    }

    /// Reads the object at a location, whether removed or not, and prefetches its line of the
    /// table.
    #[inline]
    pub(crate) fn scan(&self, location: Location) -> ScannedObject {
        let words = self.content.words_at(&self.heap, location);
        let hash = self.hash_at(location);
        self.prefetch(hash);
        ScannedObject {
            location,
            words,
            hash,
        }
    }

    /// Returns the slot that refers to a scanned object. `None` if the object was removed or moved.
    pub(crate) fn slot_of(&self, object: &ScannedObject) -> Option<SlotRef<'_>> {
        let mut search = Search::new(&self.table, &self.heap, object.hash);
        search.find(|slot| slot.word.location() == object.location)
    }

    /// Removes a scanned object. Returns false if the table no longer refers to it.
    pub(crate) fn remove(&self, object: &ScannedObject) -> bool {
        let mut chain = self.lock(object.hash);
        let found = chain.find(object.hash, |slot| slot.location() == object.location);
        let Some(slot) = found else {
            return false;
        };
        chain.remove(slot);
        let header = self.heap.header(object.location.segment);
        header.take_live(object.words);
        drop(chain);
        self.counters.items.fetch_sub(1, Relaxed);
        true
    }

    /// Moves a scanned object to the end of the segment that a merge fills. Returns false if the
    /// table no longer refers to the object.
    pub(crate) fn move_to(&self, object: &ScannedObject, to: Location, frequency: u8) -> bool {
        let (heap, content) = (&self.heap, &self.content);
        content.copy(heap, object.location, to, object.words);
        let mut chain = self.lock(object.hash);
        let found = chain.find(object.hash, |slot| slot.location() == object.location);
        let Some(slot) = found else {
            content.undo(to);
            return false;
        };
        content.copy_changes(heap, object.location, to);
        let target = heap.header(to.segment);
        target.add_live(object.words);
        target.filled(object.words);
        let word = slot.word.moved_to(to).with_frequency(frequency);
        chain.replace(slot, word, slot.word.frequency());
        heap.header(object.location.segment).take_live(object.words);
        true
    }

    /// Seals all segments and makes their objects expire now.
    pub(crate) fn expire_all(&self, directory: &LockedDirectory<'_, P>) {
        for id in directory.lists.all() {
            self.heap.header(id).seal();
            self.heap.stamp(id).set_deadline(FLUSHED);
        }
        directory.set_next_due(FLUSHED.0);
    }

    /// Frees a sealed segment immediately if none of its objects is left.
    #[inline]
    pub(crate) fn free_if_empty(&self, id: SegmentId) {
        let header = self.heap.header(id);
        if header.live().0 == 0 && header.is_sealed() {
            self.free_empty(id);
        }
    }

    #[cold]
    fn free_empty(&self, id: SegmentId) {
        let mut directory = self.directory.lock();
        let can_leave = directory.lists.can_leave(&self.heap, id);
        if can_leave && self.heap.header(id).live().0 == 0 {
            directory.lists.set_state(id, State::Leaving);
            directory.free(&self.heap, id);
        }
    }

    /// Locks the whole table. Returns the locks, and the number of lines of the longest chain.
    #[cfg(test)]
    pub(crate) fn lock_table(&self) -> (impl Sized + '_, usize) {
        let chains = self.table.locked_chains(&self.heap, &self.directory);
        let chains: Vec<Chain<'_>> = chains.collect();
        let longest = chains.iter().map(|chain| chain.extent().0).max();
        ((self.table.held(), chains), longest.unwrap_or(0))
    }
}

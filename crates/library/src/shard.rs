//! One part of a cache: a map that readers use without a lock, and, behind a lock, the policy, the
//! expiry index and everything else needed for a change.
//!
//! Under the lock, the only code of the caller that runs is the key's `Eq` and `Hash`. A panic in
//! `Eq` happens before anything has changed. A panic in `Hash` in the middle of a change is caught,
//! and the policy then remembers the entry under a hash that matches nothing. Values are dropped
//! and listeners are called without the lock.

use crate::cause::Cause;
use crate::clock::system_now;
use crate::core::{Core, Keys, deadline_in};
use crate::hits::HitBuffers;
use crate::loads::Loads;
use crate::map::{Loose, Map, WriterState};
use crate::rows::Columns;
use crate::sync::lock;
use crate::table::WAYS;
use policy::any::AnyPolicy;
use policy::{Budget, Due, OnHit, Tick};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, SeqCst},
};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of references that the expiry index reads under one lock.
pub(crate) const SLICE: u32 = 128;
/// Maximum time in milliseconds before the timer frees pairs that a call has retired but not freed.
const COLLECT_MS: u64 = 10;

/// Function that is called with each entry that has left, and the cause.
pub(crate) type Listener<K, V> = dyn Fn(&K, &V, Cause) + Send + Sync;

/// Wrapper that keeps the data of two threads on different cache lines.
#[repr(align(128))]
pub(crate) struct Apart<T>(pub T);

/// State of a shard that its lock protects.
pub(crate) struct Writer {
    pub map_state: WriterState,
    pub core: Core,
    loads: Loads,
}

/// One part of a cache, with its own lock, policy and expiry index.
pub(crate) struct Shard<K, V> {
    pub map: Map<K, V>,
    pub hits: Option<HitBuffers>,
    writer: Apart<Mutex<Writer>>,
    /// Earliest instant at which the index has work.
    due: AtomicU64,
    /// Instant of the system's clock at which the timer must free retired pairs, or `u64::MAX` if
    /// no retired pair owns memory.
    collect_at: AtomicU64,
    /// Set of entries whose hits do not count; see [`policy::Marker::young`].
    young: AtomicU64,
    /// False if no load is current. If true, the set of loads must be searched.
    may_have_loads: AtomicBool,
}

/// Entries removed by one change, kept until the lock is released.
pub(crate) struct Leaving<K, V> {
    has_listener: bool,
    loose: Vec<(Loose, Cause)>,
    rejected: Option<(K, V, Cause)>,
    garbage: Vec<(K, V)>,
}

impl<K, V> Leaving<K, V> {
    pub(crate) fn new(has_listener: bool) -> Self {
        Leaving {
            has_listener,
            loose: Vec::new(),
            rejected: None,
            garbage: Vec::new(),
        }
    }

    /// Returns the number of entries to report to the listener.
    #[inline]
    pub(crate) fn reported(&self) -> usize {
        self.loose.len() + usize::from(self.rejected.is_some())
    }

    /// Returns the number of entries to report or drop.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.reported() + self.garbage.len()
    }
}

struct KeysOf<'a, K, V, H> {
    map: &'a Map<K, V>,
    map_state: &'a WriterState,
    hash_of: &'a H,
}

impl<K, V, H: Fn(&K) -> u64> Keys for KeysOf<'_, K, V, H> {
    fn hash_in(&self, slot: u32) -> u64 {
        let key = self.map.key_of(self.map_state, slot);
        // A structure is being changed, and a panic must not interrupt that.
        catch_unwind(AssertUnwindSafe(|| (self.hash_of)(key))).unwrap_or(0)
    }
}

/// Creates the view of a writer: `view!(shard, writer, hash_of, now)`.
macro_rules! view {
    ($view:ident = $shard:expr, $writer:expr, $hash_of:expr, $now:expr) => {
        let keys = KeysOf {
            map: &$shard.map,
            map_state: &$writer.map_state,
            hash_of: $hash_of,
        };
        let tables = $shard.map.tables(&$writer.map_state);
        #[allow(unused_mut, reason = "some calls only read")]
        let mut $view = $writer.core.view($shard.map.rows(), tables, &keys, $now);
    };
}

mod change;
mod owned;

pub(crate) use change::{Expect, Inserted, Removed, Terms};

impl<K, V> Shard<K, V> {
    /// Creates an empty shard with room for `expected` entries.
    pub(crate) fn new(
        columns: Columns,
        policy: AnyPolicy,
        capacity: u64,
        expected: usize,
        now: Tick,
    ) -> Self {
        let bucket_count = buckets_for(expected);
        let slot_count = expected + Map::<K, V>::spare(expected);
        let (map, map_state) = Map::new(columns, bucket_count, slot_count);
        let hits = (policy.on_hit() == OnHit::Reorder).then(HitBuffers::default);
        let core = Core::new(policy, capacity, columns.has_deadlines, now);
        Shard {
            map,
            hits,
            writer: Apart(Mutex::new(Writer {
                map_state,
                core,
                loads: Loads::default(),
            })),
            due: AtomicU64::new(u64::MAX),
            collect_at: AtomicU64::new(u64::MAX),
            young: AtomicU64::new(0),
            may_have_loads: AtomicBool::new(false),
        }
    }

    pub(crate) fn writer(&self) -> MutexGuard<'_, Writer> {
        lock(&self.writer.0)
    }

    /// Returns the earliest instant at which the index has work.
    pub(crate) fn due(&self) -> u64 {
        self.due.load(SeqCst)
    }

    /// Returns the instant at which the timer must free retired pairs.
    #[inline]
    pub(crate) fn collect_at(&self) -> u64 {
        self.collect_at.load(SeqCst)
    }

    /// Publishes the instant at which the timer must free retired pairs. It is called after every
    /// change, and usually costs one comparison.
    #[inline]
    fn publish_garbage(&self, writer: &Writer) {
        if self.map.has_garbage(&writer.map_state) && self.collect_at.load(Relaxed) == u64::MAX {
            let at = system_now().0 + COLLECT_MS;
            self.collect_at.store(at, SeqCst);
        }
    }

    /// Returns the set of entries whose hits do not count.
    #[inline(always)]
    pub(crate) fn young(&self) -> u64 {
        self.young.load(Relaxed)
    }

    /// Publishes the state that readers and the timer use. It is called after every change, before
    /// the lock is released.
    fn publish(&self, writer: &Writer) {
        let due = writer.core.due();
        if self.due.load(Relaxed) != due {
            self.due.store(due, SeqCst);
        }
        // The set changes about fifty times while a queue is renewed.
        if let Some(young) = writer.core.young()
            && self.young.load(Relaxed) != young
        {
            self.young.store(young, Relaxed);
        }
        self.publish_garbage(writer);
    }

    /// Passes the buffered hits to the policy.
    fn replay<H: Fn(&K) -> u64>(&self, writer: &mut Writer, hash_of: &H, now: Tick) {
        let Some(hits) = &self.hits else { return };
        if hits.is_empty() {
            return;
        }
        view!(view = self, writer, hash_of, now);
        hits.drain(|position, slot| {
            writer.core.begin();
            view.requests = writer.core.requests();
            if view.tables.slot_at(position) == Some(slot) {
                writer.core.hit(&mut view, position);
            }
        });
    }

    /// Registers a hit with a policy that changes its structure, unless another thread holds the
    /// lock.
    pub(crate) fn reorder<H: Fn(&K) -> u64>(
        &self,
        thread: usize,
        position: u32,
        slot: u32,
        hash_of: &H,
        now: impl FnOnce() -> Tick,
    ) {
        let Some(hits) = &self.hits else { return };
        if hits.push(thread, position, slot) {
            return;
        }
        if let Ok(mut writer) = self.writer.0.try_lock() {
            self.replay(&mut writer, hash_of, now());
        } else {
            hits.forget(thread);
        }
    }

    fn depart(&self, writer: &mut Writer, loose: Loose, cause: Cause, leaving: &mut Leaving<K, V>) {
        if leaving.has_listener {
            leaving.loose.push((loose, cause));
        } else {
            self.map.retire(&mut writer.map_state, loose);
        }
    }

    /// Removes a live entry that is no longer in the policy and the index.
    fn unlink(
        &self,
        writer: &mut Writer,
        position: u32,
        cause: Cause,
        leaving: &mut Leaving<K, V>,
    ) {
        let slot = self.map.tables(&writer.map_state).slot_at(position);
        let weight = self.weight(slot.expect("the entry is live"));
        writer.core.left(weight, cause);
        let loose = self.map.unlink(&mut writer.map_state, position);
        self.depart(writer, loose, cause, leaving);
    }

    /// Evicts entries until an entry of this weight fits.
    fn make_room<H: Fn(&K) -> u64>(
        &self,
        writer: &mut Writer,
        weight: u64,
        hash_of: &H,
        now: Tick,
        leaving: &mut Leaving<K, V>,
    ) {
        while writer.core.weight + weight > writer.core.capacity {
            let victim = {
                view!(view = self, writer, hash_of, now);
                let victim = writer.core.victim(&mut view);
                if let Some(position) = victim {
                    writer.core.unfile(&mut view, position);
                }
                victim
            };
            let Some(position) = victim else { return };
            self.unlink(writer, position, Cause::Evicted, leaving);
        }
    }

    /// Makes room in the table for one more entry. While a table grows, each call moves the entries
    /// of one bucket, at most twelve, from the old table. An insertion that replaces an expired
    /// entry need not call this, because the number of entries does not grow.
    fn grow<H: Fn(&K) -> u64>(&self, writer: &mut Writer, hash_of: &H, now: Tick) {
        if self.map.is_full(&writer.map_state, writer.core.len) {
            self.map.begin_growth(&mut writer.map_state);
        }
        if !self.map.is_growing() {
            self.map.reclaim_tables(&mut writer.map_state);
            return;
        }
        let Writer {
            map_state, core, ..
        } = writer;
        // The caller's hash function may panic here, before any entry of this bucket has moved.
        self.map
            .move_bucket(map_state, hash_of, |map_state, from, to| {
                let keys = KeysOf {
                    map: &self.map,
                    map_state,
                    hash_of,
                };
                let mut view = core.view(self.map.rows(), self.map.tables(map_state), &keys, now);
                core.moved(&mut view, from, to);
            });
    }

    /// Removes the due entries that the index finds within `steps` steps. Returns their number, and
    /// whether more may be due.
    fn expire_some<H: Fn(&K) -> u64>(
        &self,
        writer: &mut Writer,
        now: Tick,
        steps: u32,
        hash_of: &H,
        leaving: &mut Leaving<K, V>,
    ) -> (usize, bool) {
        let mut budget = Budget(steps);
        let mut count = 0;
        loop {
            let position = {
                view!(view = self, writer, hash_of, now);
                match writer.core.expired(&mut view, &mut budget) {
                    Due::Slot(slot) => {
                        let deadline = policy::Facts::deadline(&view, slot);
                        writer.core.lag.record(lateness_ms(deadline, now));
                        writer.core.forget(&mut view, slot.0);
                        slot.0
                    }
                    Due::Again => return (count, true),
                    Due::Nothing => return (count, false),
                }
            };
            self.unlink(writer, position, Cause::Expired, leaving);
            count += 1;
        }
    }

    /// Removes all due entries, one slice per acquisition of the lock. Returns their number, and
    /// whether more may be due.
    pub(crate) fn expire<H: Fn(&K) -> u64>(
        &self,
        now: Tick,
        hash_of: &H,
        leaving: &mut Leaving<K, V>,
    ) -> (usize, bool) {
        let mut writer = self.writer();
        let result = self.expire_some(&mut writer, now, SLICE, hash_of, leaving);
        self.map
            .reclaim(&mut writer.map_state, false, &mut leaving.garbage);
        self.publish(&writer);
        result
    }

    /// Frees retired pairs that no reader can see.
    pub(crate) fn reclaim(&self, leaving: &mut Leaving<K, V>) {
        let mut writer = self.writer();
        if writer.map_state.has_retired() {
            self.map
                .reclaim(&mut writer.map_state, true, &mut leaving.garbage);
        }
        if self.collect_at.load(Relaxed) != u64::MAX {
            // The timer tries again later if a reader can still see some pairs.
            self.collect_at.store(u64::MAX, SeqCst);
            self.publish_garbage(&writer);
        }
    }

    fn weight(&self, slot: u32) -> u32 {
        let word = self.map.rows().weight(slot);
        word.map_or(1, |word| word.load(Relaxed))
    }

    fn is_dead(&self, slot: u32, now: Tick) -> bool {
        self.deadline(slot).is_some_and(|deadline| deadline < now)
    }

    /// Returns the deadline of the entry in a slot that the caller has found.
    #[inline]
    pub(crate) fn deadline(&self, slot: u32) -> Option<Tick> {
        self.map.rows().lane(slot).deadline_if_any()
    }

    /// Returns the limit of a found entry: its deadline without the idle time.
    pub(crate) fn limit(&self, slot: u32) -> Option<Tick> {
        match self.map.rows().limit(slot) {
            Some(word) => deadline_in(word.load(Acquire)),
            None => self.deadline(slot),
        }
    }

    /// Begins a load of a key and returns its number.
    pub(crate) fn begin_load(&self, hash: u64) -> u64 {
        let mut writer = self.writer();
        self.may_have_loads.store(true, Relaxed);
        writer.loads.begin(hash)
    }

    /// Returns true if the key of a load has not been changed since the load began.
    pub(crate) fn is_current(&self, hash: u64, load: u64) -> bool {
        self.writer().loads.is_current(hash, load)
    }

    /// Ends a load that stores nothing.
    pub(crate) fn end_load(&self, hash: u64, load: u64) {
        self.writer().loads.end(hash, load);
    }

    /// Registers a change of a key that is neither an insertion nor a removal. It takes no lock if
    /// no load is in progress.
    pub(crate) fn changed(&self, hash: u64) {
        // If this thread does not see the beginning of a load yet, the load began at the same time.
        if self.may_have_loads.load(Relaxed) {
            let mut writer = self.writer();
            writer.loads.changed(hash);
            self.may_have_loads.store(!writer.loads.is_empty(), Relaxed);
        }
    }

    /// Registers a change of every key.
    pub(crate) fn all_changed(&self) {
        self.writer().loads.all_changed();
    }

    /// Sets the capacity. Returns true if [`Shard::shrink`] must evict entries.
    pub(crate) fn resize(&self, capacity: u64) {
        self.writer().core.resize(capacity);
    }

    /// Evicts up to one slice of entries that exceed the capacity. Returns true if more must be
    /// evicted.
    pub(crate) fn shrink<H: Fn(&K) -> u64>(
        &self,
        hash_of: &H,
        now: Tick,
        leaving: &mut Leaving<K, V>,
    ) -> bool {
        let mut guard = self.writer();
        let writer = &mut *guard;
        for _ in 0..SLICE {
            if writer.core.weight <= writer.core.capacity {
                break;
            }
            let capacity = writer.core.capacity;
            // This lowers the capacity so that exactly one entry is evicted at a time.
            writer.core.capacity = writer.core.weight - 1;
            self.make_room(writer, 0, hash_of, now, leaving);
            writer.core.capacity = capacity;
        }
        self.map
            .reclaim(&mut writer.map_state, false, &mut leaving.garbage);
        self.publish(writer);
        writer.core.weight > writer.core.capacity
    }

    /// Registers that the clock has gone back.
    pub(crate) fn clock_went_back(&self, now: Tick) {
        let mut writer = self.writer();
        writer.core.clock_went_back(now);
        self.publish(&writer);
    }

    /// Calls the listener, if any, with the entries that have left, and drops their values. Must be
    /// called without the lock. A panic in the listener is passed on after all entries have been
    /// handled.
    pub(crate) fn release(&self, mut leaving: Leaving<K, V>, listener: Option<&Listener<K, V>>) {
        let mut panic = None;
        if let Some(listener) = listener {
            let mut call = |key: &K, value: &V, cause| {
                let call = AssertUnwindSafe(|| listener(key, value, cause));
                if let Err(payload) = catch_unwind(call) {
                    panic.get_or_insert(payload);
                }
            };
            for (loose, cause) in &leaving.loose {
                let (key, value) = self.map.pair_of(loose);
                call(key, value, *cause);
            }
            if let Some((key, value, cause)) = &leaving.rejected {
                call(key, value, *cause);
            }
        }
        let is_unreported = leaving.has_listener && listener.is_none();
        if !leaving.loose.is_empty() || is_unreported {
            let mut writer = self.writer();
            if is_unreported {
                writer.core.departures.unreported += leaving.reported() as u64;
            }
            for (loose, _) in leaving.loose.drain(..) {
                self.map.retire(&mut writer.map_state, loose);
            }
            self.map
                .reclaim(&mut writer.map_state, false, &mut leaving.garbage);
            self.publish_garbage(&writer);
        }
        drop(leaving);
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }

    /// Returns the size of the table, the rows and all other structures in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let writer = self.writer();
        let table = self.map.tables(&writer.map_state).bucket_count() * size_of::<[u64; 8]>();
        let lists = writer.map_state.heap_bytes() + writer.core.heap_bytes();
        table + self.map.rows().bytes() + lists
    }

    /// Panics if a structure is inconsistent with itself or with the entries.
    pub(crate) fn check<H: Fn(&K) -> u64>(&self, hash_of: &H, now: Tick) {
        let mut guard = self.writer();
        let writer = &mut *guard;
        let (len, weight) = (writer.core.len, writer.core.weight);
        assert!(weight <= writer.core.capacity || writer.core.capacity == 0);
        let (mut count, mut sum) = (0, 0);
        let rows = self.map.rows();
        for table in self.map.tables(&writer.map_state).each() {
            table.each(|_, slot| {
                count += 1;
                sum += rows
                    .weight(slot)
                    .map_or(1, |word| u64::from(word.load(Relaxed)));
            });
        }
        assert_eq!((count, sum), (len, weight));
        view!(view = self, writer, hash_of, now);
        writer.core.check(&view);
    }
}

/// Returns the number of buckets for `entries`: a power of two, of which at most seven eighths are
/// used.
pub(crate) fn buckets_for(entries: usize) -> usize {
    let ways = entries + entries / 7 + 1;
    ways.div_ceil(WAYS).max(1).next_power_of_two()
}

/// Returns the number of entries that fill seven eighths of the buckets.
pub(crate) fn entries_for(buckets: usize) -> usize {
    buckets * WAYS / 8 * 7
}

/// Returns the number of milliseconds by which a due entry is removed late. An entry is due in the
/// millisecond after its deadline. A reader whose cached time is behind may store a later deadline
/// (`Inner::postpone`) after the index has returned the entry; the entry then counts as removed on
/// time.
fn lateness_ms(deadline: Option<Tick>, now: Tick) -> u64 {
    deadline.map_or(0, |deadline| {
        now.0.saturating_sub(deadline.0).saturating_sub(1)
    })
}

impl<K, V> Drop for Shard<K, V> {
    fn drop(&mut self) {
        let writer = self.writer.0.get_mut();
        let writer = writer.unwrap_or_else(PoisonError::into_inner);
        self.map.drop_all(&mut writer.map_state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Regression: the subtraction overflowed if a reader had stored a later deadline after the
    // index returned the entry.
    #[test]
    fn a_deadline_stored_after_the_entry_was_popped_is_not_late() {
        for (deadline, late) in [(98, 1), (99, 0), (100, 0), (101, 0), (u64::MAX, 0)] {
            assert_eq!(lateness_ms(Some(Tick(deadline)), Tick(100)), late);
        }
        assert_eq!(lateness_ms(None, Tick(100)), 0);
    }
}

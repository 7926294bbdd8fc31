//! The part of a shard's writer state that does not depend on the types of keys and values: the
//! policy, the expiry index, weights and counters. It is compiled once, in this crate.

use crate::cause::Cause;
use crate::lag::Lag;
use crate::rows::{LINK_BITS, Rows};
use crate::table::{Tables, WAYS};
use policy::any::AnyPolicy;
use policy::expire::wheel::{Link, Wheel};
use policy::{
    Admit, Budget, Cells, Due, Eviction, ExpiryIndex, Facts, Marker, Meta, OnHit, Policy, Slot,
    Tick,
};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

const LINK_MASK: u64 = (1 << LINK_BITS) - 1;
/// Number of random slots of the table that a sample tries before it scans the buckets in turn.
const SAMPLE_TRIES: u64 = 32;

/// Returns the word stored in a row for a deadline that the index has not filed.
pub(crate) fn word_of(deadline: Option<Tick>) -> u64 {
    deadline.map_or(0, |deadline| {
        debug_assert!((1..=Tick::MAX.0).contains(&deadline.0));
        deadline.0 << LINK_BITS
    })
}

/// Returns the deadline stored in a word.
#[inline(always)]
pub(crate) fn deadline_in(word: u64) -> Option<Tick> {
    let deadline = word >> LINK_BITS;
    (deadline != 0).then_some(Tick(deadline))
}

/// Source of the hashes of keys, for policies that remember hashes.
pub(crate) trait Keys {
    /// Returns the hash of the key in a slot.
    fn hash_in(&self, slot: u32) -> u64;
}

/// A shard's entries as seen by the policy and the index. Their [`Slot`] is a position in the
/// table.
pub(crate) struct View<'a> {
    pub rows: &'a Rows,
    pub tables: Tables<'a>,
    pub keys: &'a dyn Keys,
    pub now: Tick,
    pub requests: u64,
    pub len: usize,
}

impl View<'_> {
    #[inline]
    fn slot(&self, slot: Slot) -> Option<u32> {
        self.tables.slot_at(slot.0)
    }

    #[inline]
    fn live(&self, slot: Slot) -> u32 {
        self.slot(slot).expect("the entry is live")
    }

    fn word(&self, slot: u32) -> u64 {
        if self.rows.columns().has_deadlines {
            self.rows.deadline(slot).load(Acquire)
        } else {
            0
        }
    }
}

impl Facts for View<'_> {
    fn now(&self) -> Tick {
        self.now
    }
    fn requests(&self) -> u64 {
        self.requests
    }
    #[inline]
    fn is_live(&self, slot: Slot) -> bool {
        self.slot(slot).is_some()
    }
    #[inline]
    fn weight(&self, slot: Slot) -> u32 {
        let slot = self.live(slot);
        self.rows.weight(slot).map_or(1, |word| word.load(Relaxed))
    }
    #[inline]
    fn key_hash(&self, slot: Slot) -> u64 {
        self.keys.hash_in(self.live(slot))
    }
    #[inline]
    fn deadline(&self, slot: Slot) -> Option<Tick> {
        deadline_in(self.word(self.slot(slot)?))
    }
    fn len(&self) -> usize {
        self.len
    }
    fn sample(&self, random: u64) -> Option<Slot> {
        if self.len == 0 {
            return None;
        }
        let buckets = self.tables.bucket_count() as u64;
        for turn in 0..SAMPLE_TRIES {
            let random = policy::parts::chance::scramble(random.wrapping_add(turn));
            let (bucket, way) = ((random >> 32) % buckets, random as u32 as usize % WAYS);
            let (table, bucket) = self.tables.bucket(bucket as usize);
            let position = Slot(table.position(bucket, way));
            if self.is_live(position) {
                return Some(position);
            }
        }
        let start = (random >> 32) % buckets;
        let mut found = None;
        for turn in 0..buckets {
            let (table, bucket) = self.tables.bucket(((start + turn) % buckets) as usize);
            table.each_of(bucket, |position, _| found = Some(Slot(position)));
            if found.is_some() {
                break;
            }
        }
        found
    }
}

impl Cells<u64> for View<'_> {
    #[inline]
    fn get(&self, slot: Slot) -> u64 {
        self.slot(slot).map_or(0, |slot| self.rows.bits(slot))
    }
    #[inline]
    fn set(&mut self, slot: Slot, meta: u64) {
        self.rows.set_bits(self.live(slot), meta);
    }
}

impl Cells<Link> for View<'_> {
    #[inline]
    fn get(&self, slot: Slot) -> Link {
        Link::unpack(
            self.slot(slot)
                .map_or(0, |slot| self.word(slot) & LINK_MASK),
        )
    }
    #[inline]
    fn set(&mut self, slot: Slot, link: Link) {
        let word = self.rows.deadline(self.live(slot));
        // A reader may change the deadline at the same time.
        let set = |word: u64| Some(word & !LINK_MASK | link.pack());
        let _ = word.fetch_update(AcqRel, Acquire, set);
    }
}

/// Numbers of entries that have left a shard, by cause, and of entries that were never stored.
#[derive(Clone, Copy, Default)]
pub(crate) struct Departures {
    pub by_cause: [u64; Cause::COUNT],
    pub inserted: u64,
    pub rejected: u64,
    /// Number of entries rejected because they were heavier than the shard's capacity.
    pub too_heavy: u64,
    /// Number of entries that have left without a call of the listener.
    pub unreported: u64,
}

/// Policy, expiry index and counters of one shard.
pub(crate) struct Core {
    policy: AnyPolicy,
    on_hit: OnHit,
    marker: Marker,
    wheel: Option<Wheel>,
    pub(crate) len: usize,
    pub(crate) weight: u64,
    pub(crate) capacity: u64,
    requests: u64,
    pub(crate) departures: Departures,
    pub(crate) lag: Lag,
}

impl Core {
    pub(crate) fn new(policy: AnyPolicy, capacity: u64, has_deadlines: bool, now: Tick) -> Self {
        Core {
            on_hit: policy.on_hit(),
            marker: policy.marker(),
            policy,
            wheel: has_deadlines.then(|| Wheel::new(now, &(), 1)),
            len: 0,
            weight: 0,
            capacity,
            requests: 0,
            departures: Departures::default(),
            lag: Lag::default(),
        }
    }

    /// Returns the set of young entries, whose hits need no mark, if the policy's marking rule has
    /// one.
    pub(crate) fn young(&self) -> Option<u64> {
        // Only a windowed rule has such a set, and a rule never changes its kind.
        self.marker.young()?;
        self.policy.marker().young()
    }

    /// Counts a request.
    pub(crate) fn begin(&mut self) {
        self.requests += 1;
    }

    /// Returns the number of requests: insertions, and hits that the policy has received.
    pub(crate) fn requests(&self) -> u64 {
        self.requests
    }

    /// Returns the view of the entries for a request at `now`.
    pub(crate) fn view<'a>(
        &self,
        rows: &'a Rows,
        tables: Tables<'a>,
        keys: &'a dyn Keys,
        now: Tick,
    ) -> View<'a> {
        View {
            rows,
            tables,
            keys,
            now,
            // Readers do not count requests, because they would all write to one cache line. A
            // policy that stamps entries with the number of the request gets the time instead.
            requests: match self.marker {
                Marker::Stamp => now.0,
                _ => self.requests,
            },
            len: self.len,
        }
    }

    /// Returns true if the policy admits an absent key.
    pub(crate) fn admits(&mut self, view: &View<'_>, hash: u64, weight: u32) -> bool {
        self.policy.miss(view, hash, weight) == Admit::Yes
    }

    /// Registers an entry that was just published.
    pub(crate) fn inserted(&mut self, view: &mut View<'_>, position: u32) {
        let slot = Slot(position);
        self.len += 1;
        view.len = self.len;
        self.weight += u64::from(view.weight(slot));
        self.departures.inserted += 1;
        self.policy.insert(view, slot);
        if view.deadline(slot).is_some() {
            self.wheel().insert(view, slot);
        }
    }

    fn wheel(&mut self) -> &mut Wheel {
        self.wheel
            .as_mut()
            .expect("a cache with deadlines has an index")
    }

    /// Registers a hit.
    pub(crate) fn hit(&mut self, view: &mut View<'_>, position: u32) {
        if view.is_live(Slot(position)) && self.on_hit != OnHit::Ignore {
            // `reorder` applies marks, too.
            self.policy.reorder(view, Slot(position));
        }
    }

    /// Chooses an entry to evict, and removes it from the policy.
    pub(crate) fn victim(&mut self, view: &mut View<'_>) -> Option<u32> {
        loop {
            match self.policy.evict(view, &mut Budget(1 << 16)) {
                Eviction::Victim(slot) => return Some(slot.0),
                Eviction::Again => {}
                Eviction::Empty => return None,
            }
        }
    }

    /// Removes a live entry from the policy.
    pub(crate) fn forget(&mut self, view: &mut View<'_>, position: u32) {
        self.policy.remove(view, Slot(position));
    }

    /// Removes a live entry from the index, if it has a deadline.
    pub(crate) fn unfile(&mut self, view: &mut View<'_>, position: u32) {
        if view.deadline(Slot(position)).is_some() {
            self.wheel().remove(view, Slot(position));
        }
    }

    /// Counts an entry that leaves, after it was removed from the policy and the index.
    pub(crate) fn left(&mut self, weight: u32, cause: Cause) {
        self.len -= 1;
        self.weight -= u64::from(weight);
        self.departures.by_cause[cause as usize] += 1;
    }

    /// Registers that the deadline of a live entry has changed from `old`.
    pub(crate) fn refiled(&mut self, view: &mut View<'_>, position: u32, old: Option<Tick>) {
        let slot = Slot(position);
        match (old, view.deadline(slot)) {
            (Some(old), Some(_)) => self.wheel().update(view, slot, old),
            (None, Some(_)) => self.wheel().insert(view, slot),
            (_, None) => {}
        }
    }

    /// Registers that the weight of a live entry has changed from `old`.
    pub(crate) fn reweighed(&mut self, view: &mut View<'_>, position: u32, old: u32) {
        let new = view.weight(Slot(position));
        if new != old {
            self.weight = self.weight - u64::from(old) + u64::from(new);
            self.policy.reweigh(view, Slot(position), old);
        }
    }

    /// Returns an entry whose deadline has passed, and removes it from the index.
    pub(crate) fn expired(&mut self, view: &mut View<'_>, budget: &mut Budget) -> Due {
        let Some(wheel) = &mut self.wheel else {
            return Due::Nothing;
        };
        let now = view.now;
        wheel.pop_expired(view, now, budget)
    }

    /// Registers that an entry has moved from one position to another. The old position is vacant
    /// in the view.
    pub(crate) fn moved(&mut self, view: &mut View<'_>, old: u32, new: u32) {
        let (old, new) = (Slot(old), Slot(new));
        self.policy.moved(view, old, new);
        if view.deadline(new).is_some() {
            self.wheel().moved(view, old, new);
        }
    }

    /// Returns the earliest instant at which the index has work; `u64::MAX` if there is none.
    pub(crate) fn due(&self) -> u64 {
        let due = self.wheel.as_ref().and_then(|wheel| wheel.next_due());
        due.map_or(u64::MAX, |due| due.0)
    }

    /// Returns an upper bound on the number of expired entries still stored.
    pub(crate) fn backlog(&self, now: Tick) -> usize {
        self.wheel.as_ref().map_or(0, |wheel| wheel.backlog(now))
    }

    /// Registers that the clock has gone back.
    pub(crate) fn clock_went_back(&mut self, now: Tick) {
        if let Some(wheel) = &mut self.wheel {
            wheel.clock_went_back(now);
        }
    }

    /// Sets the capacity without evicting anything.
    pub(crate) fn resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.policy.resize(capacity);
    }

    /// Returns the heap memory of the policy and the index in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.policy.heap_bytes() + self.wheel.as_ref().map_or(0, |wheel| wheel.heap_bytes())
    }

    /// Panics if a structure is inconsistent with itself or with the entries.
    pub(crate) fn check(&self, view: &View<'_>) {
        self.policy.check(view);
        if let Some(wheel) = &self.wheel {
            wheel.check(view);
        }
    }
}

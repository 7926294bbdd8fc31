//! Replay of one trace with one policy through the shard that serves, addressed by ids.
//!
//! There are two loops. The plain one reads only ids, for traces in which nothing expires, is
//! deleted or changes size. The full one handles all of these. Both follow one convention: a miss
//! inserts; entries are evicted while the new one does not fit; an object larger than the cache is
//! not inserted.

use crate::columns::Columns;
use crate::cpu::thread_cpu_time;
use crate::dense::{self, Dense, Fixed, OWNER, Traits, Varying, hash_of};
use crate::explain::Observer;
use crate::foresight::Oracle;
use crate::learned::{self, Learned};
use crate::never::Never;
use crate::result::{Counts, ReplayResult};
use crate::rules::{Rules, Unit};
use cache::{Entries, Shape, Shard};
use policy::admit::any::AnyAdmission;
use policy::admit::{Admission, MissedKey};
use policy::any::Visitor;
use policy::expire::any::AnyExpiry;
use policy::{Admit, Budget, Due, Eviction, ExpiryIndex, Facts, OnHit, Policy, Slot, Tick};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use trace::Op;

/// Bit of the counter of requests that ends a sweep. After a caller has set it, each replay stops
/// within 65,536 requests, and the sweep returns [`crate::Error::Stopped`].
pub const STOPPED: u64 = 1 << 63;

/// Number of requests by which prefetching is ahead.
const AHEAD: usize = 16;
/// Number of requests between two updates of the progress counter.
const STRIDE: usize = 1 << 16;
/// Maximum number of steps in one call of an algorithm. It is called again until it is done.
const STEPS: u32 = 1000;
/// Maximum number of runs of the index between two requests. After these, all remaining due entries
/// are expired at once.
const RUNS_BETWEEN_REQUESTS: u32 = 10_000;

/// Parameters of one replay, as a visitor for [`policy::any::PolicySpec::visit`].
pub(crate) struct Job<'a> {
    pub(crate) columns: &'a Columns,
    pub(crate) rules: &'a Rules,
    pub(crate) capacity: u64,
    /// For each request, the number of its object's next request; empty unless the policy needs it.
    pub(crate) future: &'a [u32],
    /// Oracle that removes entries that will not be hit.
    pub(crate) oracle: Option<&'a Oracle<'a>>,
    /// Total weight of the requests after the warm-up.
    pub(crate) requested_weight: u64,
    /// Counts finished requests.
    pub(crate) done: &'a AtomicU64,
    /// Whether the misses of each object are counted.
    pub(crate) counts_objects: bool,
}

/// Maximum bytes per object of a replay, without the policy's own heap.
pub(crate) struct BytesPerObject<'a>(pub(crate) &'a Rules);

impl Visitor for BytesPerObject<'_> {
    type Output = u64;

    fn visit<P: Policy>(self, _config: &P::Config) -> u64 {
        dense::bytes_per_object::<P::Meta>() + Varying::bytes_per_object(self.0.expiry.link_bits())
    }
}

impl Job<'_> {
    /// Maximum weight of an object that is inserted.
    fn largest(&self) -> u64 {
        match self.rules.largest_share {
            1.0 => self.capacity,
            share => (self.capacity as f64 * share) as u64,
        }
    }

    fn weights(&self) -> Fixed<'_> {
        match self.rules.unit {
            Unit::Objects => Fixed::ones(),
            Unit::Bytes => Fixed::by_object(&self.columns.sizes),
        }
    }
}

impl Visitor for Job<'_> {
    /// Result, and each object's misses after the warm-up if they are counted.
    type Output = (ReplayResult, Vec<u32>);

    fn visit<P: Policy + 'static>(self, config: &P::Config) -> Self::Output {
        let policy = P::new(self.capacity, config, self.rules.seed);
        let objects = self.columns.objects();
        if self.columns.is_plain(self.rules) {
            let entries = Dense::new(objects, self.weights(), P::NEEDS_FUTURE);
            let shard = Shard::with_policy(entries, policy, Never);
            let (mut found, misses) =
                Replay::new(&self, shard).run(|replay, from, to| replay.plain(from, to));
            found.counts.requested_weight = self.requested_weight;
            return (found, misses);
        }
        let expiry = AnyExpiry::new(Tick(0), &self.rules.expiry, self.rules.seed);
        let traits = Varying::new(objects, expiry.link_bits());
        let entries = Dense::new(objects, traits, P::NEEDS_FUTURE);
        let shard = Shard::with_policy(entries, policy, expiry);
        Replay::new(&self, shard).run(|replay, from, to| replay.full(from, to))
    }
}

/// State of a replay.
struct Replay<'a, P: Policy, T: Traits, X> {
    job: &'a Job<'a>,
    shard: Shard<Dense<P::Meta, T>, P, X>,
    occupied: u64,
    now: Tick,
    counts: Counts,
    /// Time at the end of the warm-up.
    start: Tick,
    /// Weight × milliseconds held by expired entries.
    expired_weight_ms: u128,
    /// Time of the last run of the index.
    ran_at: Tick,
    filter: Option<AnyAdmission>,
    /// Whether the filter must be notified of hits and evictions.
    filter_listens: bool,
    /// Number of misses of each object; empty if they are not counted.
    object_misses: Vec<u32>,
    observer: Option<Observer<'a>>,
    /// Number of the current request.
    index: usize,
}

impl<'a, P, T, X> Replay<'a, P, T, X>
where
    P: Policy + 'static,
    T: Traits,
    X: ExpiryIndex<Link = T::Link>,
{
    fn new(job: &'a Job<'a>, shard: Shard<Dense<P::Meta, T>, P, X>) -> Self {
        let rules = job.rules;
        let filter = rules.admission.as_ref();
        let filter = filter.map(|spec| AnyAdmission::new(job.capacity, spec, rules.seed));
        Replay {
            job,
            shard,
            occupied: 0,
            now: Tick(0),
            counts: Counts::default(),
            start: Tick(0),
            expired_weight_ms: 0,
            ran_at: Tick(0),
            filter_listens: filter.as_ref().is_some_and(AnyAdmission::listens),
            filter,
            object_misses: match job.counts_objects {
                true => vec![0; job.columns.objects()],
                false => Vec::new(),
            },
            observer: rules
                .explains
                .then(|| Observer::new(job.columns, rules.unit, job.capacity, rules.warm_up)),
            index: 0,
        }
    }

    /// Replays the whole trace in stretches of requests.
    fn run(mut self, stretch: impl Fn(&mut Self, usize, usize)) -> (ReplayResult, Vec<u32>) {
        let before = thread_cpu_time();
        let len = self.job.columns.len();
        let warm_up = self.job.rules.warm_up.min(len);
        let mut at_start = Counts::default();
        let mut from = 0;
        while from < len {
            let end = if from < warm_up { warm_up } else { len };
            let to = end.min(from + STRIDE);
            stretch(&mut self, from, to);
            let done = self.job.done;
            if done.fetch_add((to - from) as u64, Ordering::Relaxed) & STOPPED != 0 {
                break;
            }
            if to == warm_up {
                at_start = self.counts;
                self.start = self.now;
                self.expired_weight_ms = 0;
                self.object_misses.fill(0);
            }
            from = to;
        }
        let cpu_time = thread_cpu_time().saturating_sub(before + learned::comparing_time());
        let object_misses = std::mem::take(&mut self.object_misses);
        (self.found(at_start, cpu_time), object_misses)
    }

    fn found(mut self, at_start: Counts, cpu_time: Duration) -> ReplayResult {
        if cfg!(debug_assertions) {
            self.shard.check_algorithms();
        }
        self.index = self.job.columns.len();
        let rest: Vec<Slot> = self.shard.entries.slots().collect();
        rest.into_iter()
            .for_each(|slot| self.record_removal(slot, self.now));
        let span_ms = self.now.0 - self.start.0;
        let counts = self.counts.since(&at_start);
        let hits = match P::ON_HIT {
            OnHit::Reorder => counts.requests - counts.misses,
            OnHit::Ignore | OnHit::Mark => 0,
        };
        let (mut policy_bytes, index_bytes) = self.shard.algorithm_bytes();
        policy_bytes += self.filter.as_ref().map_or(0, Admission::heap_bytes) as u64;
        let explained = self.observer.as_ref().map(|observer| {
            let miss_ratio = counts.misses as f64 / counts.requests.max(1) as f64;
            Box::new(observer.explained(self.job.capacity, miss_ratio))
        });
        let observer_bytes = self.observer.as_ref().map_or(0, Observer::heap_bytes);
        let learning_stats =
            (self.shard.policy().0).and_then(|policy| learn::any::lessons_of(policy));
        let entries = &self.shard.entries;
        let meta_bytes = entries.len() * size_of::<P::Meta>() + entries.traits.deadline_count() * 8;
        ReplayResult {
            counts,
            promotions: hits + counts.kept,
            metadata_bytes: policy_bytes + index_bytes + meta_bytes as u64,
            held: entries.len() as u64,
            replay_bytes: policy_bytes
                + index_bytes
                + (entries.heap_bytes() + observer_bytes) as u64,
            expired_held: self.expired_weight_ms as f64 / span_ms.max(1) as f64,
            replayed: self.job.columns.len() as u64,
            flash_written: None,
            cpu_time,
            explained,
            learned: learning_stats.map(|learning_stats| {
                let requests = self.job.columns.len() as u64;
                Box::new(Learned::of(learning_stats, requests, entries.len() as u64))
            }),
        }
    }

    /// Advances the time to the request's.
    #[inline(always)]
    fn tick(&mut self, index: usize) {
        let columns = self.job.columns;
        let gap_ms = || columns.gap_ms(index);
        self.now = self.job.rules.time_after(self.now, index, gap_ms);
    }

    /// Replays requests `from` to `to` when only ids matter.
    fn plain(&mut self, from: usize, to: usize) {
        let columns = self.job.columns;
        let largest = self.job.largest();
        for index in from..to {
            if let Some(&ahead) = columns.ids.get(index + AHEAD) {
                self.shard.entries.prefetch(Slot(ahead));
            }
            let slot = Slot(columns.ids[index]);
            self.tick(index);
            self.shard.entries.begin(self.now);
            if P::NEEDS_FUTURE {
                self.shard
                    .entries
                    .set_upcoming(slot, self.job.future[index]);
            }
            if self.shard.entries.contains(slot) {
                if P::READS_COUNT || !columns.op(index).is_read() {
                    self.shard.hit(slot);
                }
                continue;
            }
            let weight = self.shard.entries.weight(slot);
            self.missed(slot, weight, 1);
            if u64::from(weight) > largest || !self.is_admitted(slot, weight, None) {
                self.counts.refusals += 1;
                continue;
            }
            self.make_room(u64::from(weight));
            self.add(slot, weight, None);
        }
        self.counts.requests += (to - from) as u64;
    }

    #[inline]
    fn missed(&mut self, slot: Slot, weight: u32, counted: u64) {
        self.counts.misses += counted;
        self.counts.missed_weight += counted * u64::from(weight);
        if let Some(misses) = self.object_misses.get_mut(slot.0 as usize) {
            *misses += counted as u32;
        }
    }

    #[inline]
    fn is_admitted(&mut self, slot: Slot, weight: u32, deadline: Option<Tick>) -> bool {
        if !T::IS_FIXED
            && let Some(filter) = &mut self.filter
        {
            let missed = MissedKey {
                key_hash: hash_of(slot),
                weight,
                has_room: self.occupied + u64::from(weight) <= self.job.capacity,
            };
            if filter.admit(&self.shard.entries, missed) == Admit::No {
                return false;
            }
        }
        self.shard.admit(hash_of(slot), weight, deadline) == Admit::Yes
    }

    #[inline]
    fn make_room(&mut self, weight: u64) {
        while self.occupied + weight > self.job.capacity {
            let mut budget = Budget(STEPS);
            let eviction = self.shard.evict(&mut budget);
            self.counts.kept += u64::from(STEPS - budget.0);
            match eviction {
                Eviction::Victim(victim) => {
                    // The last step of an eviction returned the victim, so it did not keep an
                    // entry.
                    self.counts.kept = self.counts.kept.saturating_sub(1);
                    self.counts.evictions += 1;
                    if !T::IS_FIXED {
                        self.record_eviction(victim);
                    }
                    self.take(victim);
                }
                Eviction::Again => {}
                Eviction::Empty => panic!("the cache is full, but the policy returns no victim"),
            }
        }
    }

    #[inline]
    fn add(&mut self, slot: Slot, weight: u32, deadline: Option<Tick>) {
        self.occupied += u64::from(weight);
        self.shard.entries.add(slot);
        let shape = Shape {
            deadline,
            owner: OWNER,
        };
        self.shard.inserted(slot, shape);
    }

    /// Removes an entry that the algorithms no longer track.
    #[inline]
    fn take(&mut self, slot: Slot) {
        self.occupied -= u64::from(self.shard.entries.weight(slot));
        self.shard.entries.take(slot);
    }

    /// Notifies filter, observer and index that a victim is evicted.
    fn record_eviction(&mut self, victim: Slot) {
        if self.filter_listens
            && let Some(filter) = &mut self.filter
        {
            filter.evicted(&self.shard.entries, victim);
        }
        let weight = self.shard.entries.weight(victim);
        if let Some(observer) = &mut self.observer {
            observer.evicted(self.index, victim, weight);
        }
        if self.shard.entries.deadline(victim).is_some() {
            self.count_expired_time(victim, self.now);
            self.shard.deadline_lost(victim);
        }
    }

    /// Records that an entry is removed for another reason than eviction, or that the trace ends.
    fn record_removal(&mut self, slot: Slot, at: Tick) {
        let weight = self.shard.entries.weight(slot);
        if let Some(observer) = &mut self.observer {
            observer.removed(self.index, slot, weight);
        }
        self.count_expired_time(slot, at);
    }

    /// Adds the time for which an entry removed at `at` had been expired.
    fn count_expired_time(&mut self, slot: Slot, at: Tick) {
        if let Some(deadline) = self.shard.entries.deadline(slot)
            && deadline < at
        {
            let weight = u128::from(self.shard.entries.weight(slot));
            self.expired_weight_ms += weight * u128::from(at.0 - deadline.max(self.start).0);
        }
    }
}

impl<P: Policy + 'static> Replay<'_, P, Varying, AnyExpiry> {
    /// Replays requests `from` to `to` with expiry, deletions and changes of size.
    fn full(&mut self, from: usize, to: usize) {
        for index in from..to {
            let columns = self.job.columns;
            if let Some(&ahead) = columns.ids.get(index + AHEAD) {
                self.shard.entries.prefetch(Slot(ahead));
            }
            let slot = Slot(columns.ids[index]);
            self.index = index;
            self.tick(index);
            self.expire();
            self.shard.entries.begin(self.now);
            if P::NEEDS_FUTURE {
                self.shard
                    .entries
                    .set_upcoming(slot, self.job.future[index]);
            }
            self.request(index, slot, columns.op(index));
        }
    }

    fn request(&mut self, index: usize, slot: Slot, op: Op) {
        let columns = self.job.columns;
        let is_live = self.shard.entries.contains(slot);
        let deadline = self.shard.entries.deadline(slot);
        let is_expired = deadline.is_some_and(|deadline| deadline < self.now);
        if is_expired {
            self.remove(slot, self.now);
            self.counts.expirations += 1;
        }
        if op == Op::Delete {
            if is_live && !is_expired {
                self.remove(slot, self.now);
            }
            return;
        }
        let size = columns.size(index, slot.0);
        let counted = u64::from(op.is_read() || self.job.rules.counts_writes);
        self.counts.requests += counted;
        let weight = self.weight_of(size);
        self.counts.requested_weight += counted * u64::from(weight);
        let ttl_ms = match self.job.rules.ignores_ttls {
            true => None,
            false => columns.ttl_ms(index, slot.0),
        };
        let next_deadline =
            ttl_ms.map(|ttl_ms| Tick(self.now.0.saturating_add(ttl_ms).min(Tick::MAX.0)));
        let is_miss = !is_live || is_expired;
        if let Some(observer) = &mut self.observer {
            observer.requested(index, slot, is_miss, counted > 0);
        }
        if !is_miss {
            if P::READS_COUNT || !op.is_read() {
                self.shard.hit(slot);
            }
            if self.filter_listens
                && let Some(filter) = &mut self.filter
            {
                filter.hit(&self.shard.entries, slot);
            }
            if !op.is_read() {
                self.change_deadline(slot, deadline, next_deadline);
            }
            if self.job.rules.follows_sizes {
                self.change_weight(slot, size);
            }
            let deadline = self.shard.entries.deadline(slot);
            if self.is_useless(index, deadline) && self.shard.entries.contains(slot) {
                self.remove(slot, self.now);
            }
            return;
        }
        self.missed(slot, weight, counted);
        let weight = self.held_weight_of(size);
        let is_admitted = u64::from(weight) <= self.job.largest()
            && self.is_admitted(slot, weight, next_deadline)
            && !self.is_useless(index, next_deadline);
        if !is_admitted {
            self.counts.refusals += 1;
            return;
        }
        self.make_room(u64::from(weight));
        self.shard.entries.traits.set_weight(slot, weight);
        self.shard.entries.traits.set_deadline(slot, next_deadline);
        self.add(slot, weight, next_deadline);
        if let Some(observer) = &mut self.observer {
            observer.inserted(index, slot);
        }
    }

    /// Returns whether an oracle knows that an entry with this deadline will not be hit.
    fn is_useless(&self, index: usize, deadline: Option<Tick>) -> bool {
        let oracle = self.job.oracle;
        oracle.is_some_and(|oracle| oracle.is_useless(index, deadline))
    }

    fn weight_of(&self, size: u32) -> u32 {
        match self.job.rules.unit {
            Unit::Objects => 1,
            Unit::Bytes => size,
        }
    }

    /// Weight of an entry, its overhead included.
    fn held_weight_of(&self, size: u32) -> u32 {
        match self.job.rules.unit {
            Unit::Objects => 1,
            Unit::Bytes => size.saturating_add(self.job.rules.overhead),
        }
    }

    fn change_deadline(&mut self, slot: Slot, old: Option<Tick>, new: Option<Tick>) {
        if old == new {
            return;
        }
        if old.is_some() && new.is_none() {
            self.shard.deadline_lost(slot);
        }
        self.shard.entries.traits.set_deadline(slot, new);
        if new.is_some() {
            self.shard.deadline_changed(slot, old);
        }
    }

    fn change_weight(&mut self, slot: Slot, size: u32) {
        let (old, new) = (self.shard.entries.weight(slot), self.held_weight_of(size));
        if old == new {
            return;
        }
        if u64::from(new) > self.job.largest() {
            self.remove(slot, self.now);
            return;
        }
        self.shard.entries.traits.set_weight(slot, new);
        self.occupied = self.occupied - u64::from(old) + u64::from(new);
        self.shard.weight_changed(slot, old);
        self.make_room(0);
    }

    /// Removes an entry that was deleted or found expired.
    fn remove(&mut self, slot: Slot, at: Tick) {
        self.record_removal(slot, at);
        self.shard.remove_from_policy(slot);
        if self.shard.entries.deadline(slot).is_some() {
            self.shard.deadline_lost(slot);
        }
        self.take(slot);
    }

    /// Runs the index at each time that it requested since the last request, as an otherwise idle
    /// server would.
    fn expire(&mut self) {
        let mut runs = RUNS_BETWEEN_REQUESTS;
        while let Some(due) = self.shard.expiry().next_due()
            && due <= self.now
        {
            let at = if runs > 0 {
                due.max(self.ran_at)
            } else {
                self.now
            };
            runs = runs.saturating_sub(1);
            self.ran_at = at;
            self.shard.entries.set_now(at);
            self.run_index(at);
            if self.shard.expiry().next_due().is_some_and(|due| due <= at) {
                return;
            }
        }
    }

    fn run_index(&mut self, at: Tick) {
        loop {
            match self.shard.pop_expired(at, &mut Budget(STEPS)) {
                Due::Slot(slot) => {
                    self.record_removal(slot, at);
                    self.counts.expirations += 1;
                    self.shard.remove_from_policy(slot);
                    self.take(slot);
                }
                Due::Again => {}
                Due::Nothing => return,
            }
        }
    }
}

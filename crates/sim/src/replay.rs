//! One policy over one trace: the shard that serves, driven by ids.
//!
//! Two loops. The plain one reads nothing but ids: for traces in which nothing expires, is deleted or
//! changes its size. The full one does all of it. Both follow one convention: a miss inserts; entries
//! are evicted while the new one does not fit; what is larger than the cache is not inserted.

use crate::columns::Columns;
use crate::cpu::thread_cpu_time;
use crate::dense::{self, Dense, Fixed, OWNER, Traits, Varying, hash_of};
use crate::explain::Observer;
use crate::learned::{self, Learned};
use crate::never::Never;
use crate::result::{Counts, Found};
use crate::rules::{Rules, Unit};
use cache::{Entries, Shape, Shard};
use policy::admit::any::AnyAdmission;
use policy::admit::{Admission, Newcomer};
use policy::any::Visitor;
use policy::expire::any::AnyExpiry;
use policy::{Admit, Budget, Due, Eviction, ExpiryIndex, Facts, OnHit, Policy, Slot, Tick};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use trace::Op;

/// How many requests ahead the entries are asked for.
const AHEAD: usize = 16;
/// Requests between two reports of progress.
const STRIDE: usize = 1 << 16;
/// Steps that one call of an algorithm may take; it is called again until it is done.
const STEPS: u32 = 1000;
/// How often the index may ask to run between two requests before it must take the rest at once.
const RUNS_BETWEEN_REQUESTS: u32 = 10_000;

/// One replay, for [`policy::any::PolicySpec::visit`].
pub(crate) struct Work<'a> {
    pub(crate) columns: &'a Columns,
    pub(crate) rules: &'a Rules,
    pub(crate) capacity: u64,
    /// For each request, the number of the next one for its object, for a policy that asks.
    pub(crate) future: &'a [u32],
    /// What the requests after the warm-up weigh.
    pub(crate) requested_weight: u64,
    /// Counts requests done.
    pub(crate) done: &'a AtomicU64,
    /// Whether each object's misses are counted.
    pub(crate) counts_objects: bool,
}

/// The bytes by object that a replay takes at most, but for the policy's own heap.
pub(crate) struct BytesPerObject<'a>(pub(crate) &'a Rules);

impl Visitor for BytesPerObject<'_> {
    type Output = u64;

    fn visit<P: Policy>(self, _config: &P::Config) -> u64 {
        dense::bytes_per_object::<P::Meta>() + Varying::bytes_per_object(self.0.expiry.link_bits())
    }
}

impl Work<'_> {
    /// The most that an object may weigh to be inserted.
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

impl Visitor for Work<'_> {
    /// What was found, and each object's misses after the warm-up where they are counted.
    type Output = (Found, Vec<u32>);

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

/// A shard on its way through a trace.
struct Replay<'a, P: Policy, T: Traits, X> {
    work: &'a Work<'a>,
    shard: Shard<Dense<P::Meta, T>, P, X>,
    occupied: u64,
    now: Tick,
    counts: Counts,
    /// When counting began.
    start: Tick,
    /// Weight times milliseconds, held by the dead.
    dead_weight_ms: u128,
    /// When the index ran last.
    ran_at: Tick,
    filter: Option<AnyAdmission>,
    /// Whether the filter is to be told of hits and evictions.
    filter_listens: bool,
    /// Misses by object, or none at all.
    object_misses: Vec<u32>,
    observer: Option<Observer<'a>>,
    /// The number of the request.
    index: usize,
}

impl<'a, P, T, X> Replay<'a, P, T, X>
where
    P: Policy + 'static,
    T: Traits,
    X: ExpiryIndex<Link = T::Link>,
{
    fn new(work: &'a Work<'a>, shard: Shard<Dense<P::Meta, T>, P, X>) -> Self {
        let rules = work.rules;
        let filter = rules.admission.as_ref();
        let filter = filter.map(|spec| AnyAdmission::new(work.capacity, spec, rules.seed));
        Replay {
            work,
            shard,
            occupied: 0,
            now: Tick(0),
            counts: Counts::default(),
            start: Tick(0),
            dead_weight_ms: 0,
            ran_at: Tick(0),
            filter_listens: filter.as_ref().is_some_and(AnyAdmission::listens),
            filter,
            object_misses: match work.counts_objects {
                true => vec![0; work.columns.objects()],
                false => Vec::new(),
            },
            observer: rules
                .explains
                .then(|| Observer::new(work.columns, rules.unit, work.capacity, rules.warm_up)),
            index: 0,
        }
    }

    /// Goes through the whole trace, `stretch` by stretch.
    fn run(mut self, stretch: impl Fn(&mut Self, usize, usize)) -> (Found, Vec<u32>) {
        let before = thread_cpu_time();
        let len = self.work.columns.len();
        let warm_up = self.work.rules.warm_up.min(len);
        let mut at_start = Counts::default();
        let mut from = 0;
        while from < len {
            let end = if from < warm_up { warm_up } else { len };
            let to = end.min(from + STRIDE);
            stretch(&mut self, from, to);
            self.work
                .done
                .fetch_add((to - from) as u64, Ordering::Relaxed);
            if to == warm_up {
                at_start = self.counts;
                self.start = self.now;
                self.dead_weight_ms = 0;
                self.object_misses.fill(0);
            }
            from = to;
        }
        let cpu_time = thread_cpu_time().saturating_sub(before + learned::comparing_time());
        let object_misses = std::mem::take(&mut self.object_misses);
        (self.found(at_start, cpu_time), object_misses)
    }

    fn found(mut self, at_start: Counts, cpu_time: Duration) -> Found {
        if cfg!(debug_assertions) {
            self.shard.check_algorithms();
        }
        self.index = self.work.columns.len();
        let rest: Vec<Slot> = self.shard.entries.slots().collect();
        rest.into_iter()
            .for_each(|slot| self.watch_leave(slot, self.now));
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
            Box::new(observer.explained(self.work.capacity, miss_ratio))
        });
        let watching = self.observer.as_ref().map_or(0, Observer::heap_bytes);
        let lessons = (self.shard.policy().0).and_then(|policy| learn::any::lessons_of(policy));
        let entries = &self.shard.entries;
        let meta_bytes = entries.len() * size_of::<P::Meta>() + entries.traits.deadline_count() * 8;
        Found {
            counts,
            promotions: hits + counts.kept,
            metadata_bytes: policy_bytes + index_bytes + meta_bytes as u64,
            held: entries.len() as u64,
            replay_bytes: policy_bytes + index_bytes + (entries.heap_bytes() + watching) as u64,
            expired_held: self.dead_weight_ms as f64 / span_ms.max(1) as f64,
            replayed: self.work.columns.len() as u64,
            flash_written: None,
            cpu_time,
            explained,
            learned: lessons.map(|lessons| {
                let requests = self.work.columns.len() as u64;
                Box::new(Learned::of(lessons, requests, entries.len() as u64))
            }),
        }
    }

    /// Time passes until the request of this number.
    #[inline(always)]
    fn tick(&mut self, index: usize) {
        match self.work.rules.gap_ms {
            Some(gap_ms) => self.now = Tick((index as f64 * gap_ms) as u64),
            None => self.now.0 += self.work.columns.gap_ms(index),
        }
    }

    /// Requests `from` to `to`, where ids tell all.
    fn plain(&mut self, from: usize, to: usize) {
        let columns = self.work.columns;
        let largest = self.work.largest();
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
                    .set_upcoming(slot, self.work.future[index]);
            }
            if self.shard.entries.lives(slot) {
                self.shard.hit(slot);
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
            let newcomer = Newcomer {
                key_hash: hash_of(slot),
                weight,
                has_room: self.occupied + u64::from(weight) <= self.work.capacity,
            };
            if filter.admit(&self.shard.entries, newcomer) == Admit::No {
                return false;
            }
        }
        self.shard.admit(hash_of(slot), weight, deadline) == Admit::Yes
    }

    #[inline]
    fn make_room(&mut self, weight: u64) {
        while self.occupied + weight > self.work.capacity {
            let mut budget = Budget(STEPS);
            let eviction = self.shard.evict(&mut budget);
            self.counts.kept += u64::from(STEPS - budget.0);
            match eviction {
                Eviction::Victim(victim) => {
                    // The step that found it kept nothing.
                    self.counts.kept = self.counts.kept.saturating_sub(1);
                    self.counts.evictions += 1;
                    if !T::IS_FIXED {
                        self.watch_eviction(victim);
                    }
                    self.take(victim);
                }
                Eviction::Again => {}
                Eviction::Empty => panic!("the cache is full, and the policy knows of no entry"),
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

    /// Removes an entry that the algorithms have forgotten.
    #[inline]
    fn take(&mut self, slot: Slot) {
        self.occupied -= u64::from(self.shard.entries.weight(slot));
        self.shard.entries.take(slot);
    }

    /// A victim is about to leave.
    fn watch_eviction(&mut self, victim: Slot) {
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
            self.count_dead(victim, self.now);
            self.shard.deadline_lost(victim);
        }
    }

    /// An entry is about to leave for another reason than eviction, or the trace ends.
    fn watch_leave(&mut self, slot: Slot, at: Tick) {
        let weight = self.shard.entries.weight(slot);
        if let Some(observer) = &mut self.observer {
            observer.left(self.index, slot, weight);
        }
        self.count_dead(slot, at);
    }

    /// An entry leaves at `at`, or the trace ends: for how long has it been dead?
    fn count_dead(&mut self, slot: Slot, at: Tick) {
        if let Some(deadline) = self.shard.entries.deadline(slot)
            && deadline < at
        {
            let weight = u128::from(self.shard.entries.weight(slot));
            self.dead_weight_ms += weight * u128::from(at.0 - deadline.max(self.start).0);
        }
    }
}

impl<P: Policy + 'static> Replay<'_, P, Varying, AnyExpiry> {
    /// Requests `from` to `to`, whatever they are.
    fn full(&mut self, from: usize, to: usize) {
        for index in from..to {
            let columns = self.work.columns;
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
                    .set_upcoming(slot, self.work.future[index]);
            }
            self.request(index, slot, columns.op(index));
        }
    }

    fn request(&mut self, index: usize, slot: Slot, op: Op) {
        let columns = self.work.columns;
        let is_live = self.shard.entries.lives(slot);
        let deadline = self.shard.entries.deadline(slot);
        let is_dead = deadline.is_some_and(|deadline| deadline < self.now);
        if is_dead {
            self.remove(slot, self.now);
            self.counts.expirations += 1;
        }
        if op == Op::Delete {
            if is_live && !is_dead {
                self.remove(slot, self.now);
            }
            return;
        }
        let size = columns.size(index, slot.0);
        let counted = u64::from(op.is_read() || self.work.rules.counts_writes);
        self.counts.requests += counted;
        let weight = self.weight_of(size);
        self.counts.requested_weight += counted * u64::from(weight);
        let ttl_ms = match self.work.rules.ignores_ttls {
            true => None,
            false => columns.ttl_ms(index, slot.0),
        };
        let next_deadline =
            ttl_ms.map(|ttl_ms| Tick(self.now.0.saturating_add(ttl_ms).min(Tick::MAX.0)));
        let is_miss = !is_live || is_dead;
        if let Some(observer) = &mut self.observer {
            observer.requested(index, slot, is_miss, counted > 0);
        }
        if !is_miss {
            self.shard.hit(slot);
            if self.filter_listens
                && let Some(filter) = &mut self.filter
            {
                filter.hit(&self.shard.entries, slot);
            }
            if !op.is_read() {
                self.change_deadline(slot, deadline, next_deadline);
            }
            if self.work.rules.follows_sizes {
                self.change_weight(slot, size);
            }
            return;
        }
        self.missed(slot, weight, counted);
        let weight = self.held_weight_of(size);
        if u64::from(weight) > self.work.largest() || !self.is_admitted(slot, weight, next_deadline)
        {
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

    fn weight_of(&self, size: u32) -> u32 {
        match self.work.rules.unit {
            Unit::Objects => 1,
            Unit::Bytes => size,
        }
    }

    /// The same with what the entry takes beside its object.
    fn held_weight_of(&self, size: u32) -> u32 {
        match self.work.rules.unit {
            Unit::Objects => 1,
            Unit::Bytes => size.saturating_add(self.work.rules.overhead),
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
        if u64::from(new) > self.work.capacity {
            self.remove(slot, self.now);
            return;
        }
        self.shard.entries.traits.set_weight(slot, new);
        self.occupied = self.occupied - u64::from(old) + u64::from(new);
        self.shard.weight_changed(slot, old);
        self.make_room(0);
    }

    /// Removes a live entry that somebody deleted or found dead.
    fn remove(&mut self, slot: Slot, at: Tick) {
        self.watch_leave(slot, at);
        self.shard.remove_from_policy(slot);
        if self.shard.entries.deadline(slot).is_some() {
            self.shard.deadline_lost(slot);
        }
        self.take(slot);
    }

    /// The index runs whenever it asked to since the request before, as it does in a server that has
    /// nothing else to do.
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
                    self.watch_leave(slot, at);
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

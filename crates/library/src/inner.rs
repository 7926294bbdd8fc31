//! State shared by all clones of a cache, and the steps of its operations.

use crate::builder::{Listener, Weigher};
use crate::clock::{Clock, RECENT_MS};
use crate::delivery::{self, Reports};
use crate::epoch::{Guard, Pinned, pin, pin_outermost};
use crate::expiry::Expiry;
use crate::flight::Flights;
use crate::map::Found;
use crate::rows::Lane;
use crate::shard::{Expect, Inserted, Leaving, Removed, Shard};
use crate::stats::{Counters, Read};
use crate::timer::{self, Alarm, Timed, Timer};
use policy::any::AnyPolicy;
use policy::{Marker, OnHit, Policy, Tick};
use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Relaxed, SeqCst},
};
use std::thread;
use std::time::Duration;

mod build;
mod deadlines;

pub(crate) use build::{absent_capacity, part};
pub(crate) use deadlines::IDLE_SLACK;

/// Number of slices per shard that a timer removes before it serves other caches or tasks.
const SLICES_PER_TURN: usize = 4;

/// TTL of remembered absences, and a cache of the keys that have no value.
pub(crate) type Negative<K, S> = (Duration, Arc<Inner<K, (), S>>);

/// State that all clones of a cache share.
pub(crate) struct Inner<K, V, S> {
    pub(crate) shards: Box<[Shard<K, V>]>,
    pub(crate) hasher: S,
    pub(crate) on_hit: OnHit,
    pub(crate) marker: Marker,
    /// Whether a hit needs only `quick`.
    has_quick: bool,
    /// Marking rule of `marker`, if it has this simple form.
    quick: Quick,
    pub(crate) has_deadlines: bool,
    /// Whether changes need the current time, for deadlines or because hits store it.
    pub(crate) has_time: bool,
    /// Idle time in milliseconds.
    pub(crate) tti: Option<u64>,
    /// Whether `Expiry::after_read` is called.
    pub(crate) has_read_hook: bool,
    pub(crate) refresh_ahead: Option<u64>,
    pub(crate) clock: Clock,
    pub(crate) timer: Timer,
    pub(crate) counters: Option<Counters>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) jitter: f64,
    pub(crate) expiry: Option<Arc<dyn Expiry<K, V>>>,
    pub(crate) weigher: Option<Arc<Weigher<K, V>>>,
    pub(crate) listener: Option<Arc<Listener<K, V>>>,
    pub(crate) flights: Arc<Flights<K, V>>,
    pub(crate) negative: Option<Negative<K, S>>,
    pub(crate) alarm: Arc<Alarm>,
    pub(crate) is_registered: AtomicBool,
    pub(crate) capacity: AtomicU64,
    /// Instant of the last removal of expired entries, which reveals a clock that has gone back.
    pub(crate) reached: AtomicU64,
}

/// Marking rule for the reads of most caches: one byte per entry that counts hits, without idle
/// times and hooks.
#[derive(Default)]
struct Quick {
    mask: u8,
    max: u8,
    one: u8,
}

impl Quick {
    /// Returns the rule if the policy and the cache allow it.
    fn of(policy: &AnyPolicy) -> Option<Quick> {
        let (Marker::Count(count) | Marker::Windowed { count, .. }) = policy.marker() else {
            return None;
        };
        let byte = |word: u64| u8::try_from(word).ok();
        let is_byte = policy.meta_bits() <= 8;
        is_byte.then_some(Quick {
            mask: byte(count.mask)?,
            max: byte(count.max)?,
            one: byte(count.one)?,
        })
    }

    /// Marks an entry like [`Marker::mark`]. `young` is 0 if the rule is not windowed.
    #[inline(always)]
    fn mark(&self, lane: Lane<'_>, young: u64) {
        let byte = lane.byte();
        let bits = byte.load(Relaxed);
        if young >> (bits & 63) & 1 == 0 && bits & self.mask < self.max {
            // If two threads mark at the same time, one mark may be lost.
            let _ = byte.compare_exchange(bits, bits.wrapping_add(self.one), Relaxed, Relaxed);
        }
    }
}

/// Age of an entry, compared with its deadline.
enum Age {
    Fresh,
    /// In the refresh window before the deadline, when the entry is reloaded.
    Stale,
    Dead,
}

/// An entry found by a look-up.
pub(crate) struct Seen<'a, K, V> {
    pub shard: &'a Shard<K, V>,
    pub found: Found<'a, K, V>,
    /// Whether the entry is in the refresh window before its deadline, when it is reloaded.
    pub is_stale: bool,
}

/// Result of a change that expects a certain entry. The error contains key and value, if another
/// entry was found.
pub(crate) type Attempt<K, V> = Result<Inserted, (K, V)>;

impl<K, V, S> Inner<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    /// Returns the live entry of a key without counting the look-up.
    pub(crate) fn find_live<'a, Q>(&'a self, pinned: &'a Pinned, key: &Q) -> Option<Seen<'a, K, V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let inner = self;
        let hash = inner.hash(key);
        let shard = inner.shard(hash);
        let found = shard
            .map
            .find(pinned, hash, |other| other.borrow() == key)?;
        let deadline = shard.deadline(found.slot);
        let is_live = deadline.is_none_or(|deadline| inner.now() <= deadline);
        is_live.then_some(Seen {
            shard,
            found,
            is_stale: false,
        })
    }

    /// Inserts a value if the current entry is the expected one. Otherwise returns the key and the
    /// value.
    pub(crate) fn store_if(
        self: &Arc<Self>,
        hash: u64,
        key: K,
        value: V,
        ttl: Option<Duration>,
        expect: Expect,
    ) -> Attempt<K, V> {
        let inner = self;
        let now = if inner.has_time {
            inner.now()
        } else {
            Tick(1 << 10)
        };
        let terms = inner.terms(hash, &key, &value, ttl, now);
        let shard = inner.shard(hash);
        let mut leaving = inner.leaving();
        let hash_of = inner.hash_of();
        let (inserted, back) =
            shard.insert(hash, key, value, terms, expect, now, &hash_of, &mut leaving);
        if terms.deadline.is_some() {
            self.notify(shard.due());
        }
        if back.is_none() {
            self.forget_absence(hash);
        }
        inner.release(shard, leaving);
        back.map_or(Ok(inserted), Err)
    }

    /// Removes the remembered absence of a key after the key was changed. A load that finds no
    /// value stores the absence first and then looks for changes of the key, so that one of the two
    /// sees the other. Keys are compared by their hashes, because the key may have been moved into
    /// the cache.
    fn forget_absence(self: &Arc<Self>, hash: u64) {
        if let Some((_, absent)) = &self.negative {
            let is_key = |other: &K| absent.hash(other) == hash;
            absent.remove_where(hash, is_key, Expect::Anything);
        }
    }

    /// Wakes the timer if it would sleep beyond `due`.
    pub(crate) fn notify(self: &Arc<Self>, due: u64) {
        match self.timer {
            Timer::Manual => {}
            Timer::Task => self.alarm.notify(due),
            Timer::Thread => {
                self.register();
                timer::notify_thread(due);
            }
        }
    }

    /// Registers the cache with the shared thread, if that is its timer.
    pub(crate) fn register(self: &Arc<Self>) {
        if self.timer == Timer::Thread
            && !self.is_registered.load(Relaxed)
            && !self.is_registered.swap(true, SeqCst)
        {
            let inner: Arc<dyn Timed> = self.clone();
            timer::register(Arc::downgrade(&inner));
        }
    }

    /// Removes the entry and the remembered absence of a key if the current entry is the expected
    /// one.
    pub(crate) fn remove_if<Q>(self: &Arc<Self>, hash: u64, key: &Q, expect: Expect) -> Removed
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let removed = self.remove_where(hash, |other| other.borrow() == key, expect);
        if removed != Removed::Conflict {
            self.forget_absence(hash);
        }
        removed
    }

    /// Removes the entry of a key if it is the expected one, and keeps a remembered absence.
    pub(crate) fn remove_where(
        self: &Arc<Self>,
        hash: u64,
        is_key: impl FnMut(&K) -> bool,
        expect: Expect,
    ) -> Removed {
        let inner = self;
        let shard = inner.shard(hash);
        let mut leaving = inner.leaving();
        let hash_of = inner.hash_of();
        let removed = shard.remove(hash, is_key, expect, inner.now(), &hash_of, &mut leaving);
        inner.release(shard, leaving);
        removed
    }

    /// Calls the listener with entries that have left a shard, and drops their values. If the
    /// thread is already within such a call, both are done after that call.
    pub(crate) fn release(self: &Arc<Self>, shard: &Shard<K, V>, leaving: Leaving<K, V>) {
        let len = leaving.len();
        if len == 0 {
            return self.notify_collection(shard);
        }
        if !delivery::is_under_way() {
            let listener = self.listener.as_deref();
            delivery::run(len, || shard.release(leaving, listener));
            return self.notify_collection(shard);
        }
        let inner = self.clone();
        let is_same = |other: &Shard<K, V>| std::ptr::eq(other, shard);
        let number = self.shards.iter().position(is_same);
        let number = number.expect("the shard is one of this cache");
        let has_listener = self.listener.is_some();
        let reported = if has_listener { leaving.reported() } else { 0 };
        delivery::append(reported, move |reports| {
            let listener = inner.listener.as_deref();
            let listener = listener.filter(|_| reports == Reports::All);
            inner.shards[number].release(leaving, listener);
            inner.notify_collection(&inner.shards[number]);
        });
    }

    /// Wakes the timer in time to free the pairs that a change has retired.
    fn notify_collection(self: &Arc<Self>, shard: &Shard<K, V>) {
        let at = shard.collect_at();
        if at != u64::MAX {
            self.notify(at);
        }
    }
}

impl<K, V, S> Inner<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    #[inline(always)]
    pub(crate) fn hash<Q: Hash + ?Sized>(&self, key: &Q) -> u64 {
        self.hasher.hash_one(key)
    }

    pub(crate) fn hash_of(&self) -> impl Fn(&K) -> u64 + '_ {
        |key| self.hasher.hash_one(key)
    }

    #[inline(always)]
    pub(crate) fn shard(&self, hash: u64) -> &Shard<K, V> {
        let number = ((hash >> 32) * self.shards.len() as u64) >> 32;
        &self.shards[number as usize]
    }

    #[inline(always)]
    pub(crate) fn now(&self) -> Tick {
        self.clock.now()
    }

    #[inline(always)]
    pub(crate) fn count(&self, guard: &impl Guard, read: Read) {
        if let Some(counters) = &self.counters {
            counters.count(guard, read);
        }
    }

    /// Calls `see` with the value of a live entry, and registers a hit. There are two variants of
    /// the code, so that the common one keeps few values in registers.
    #[inline(always)]
    pub(crate) fn read<Q, R>(&self, key: &Q, see: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = self.hash(key);
        if !self.has_quick {
            return self.read_slowly(hash, key, see);
        }
        let Some(guard) = pin_outermost() else {
            return self.read_slowly(hash, key, see);
        };
        let seen = self.look(&guard, hash, key)?;
        self.count_hit(&guard, seen.is_stale);
        self.quick.mark(seen.found.lane, seen.shard.young());
        Some(see(seen.found.value))
    }

    #[inline(never)]
    fn read_slowly<Q, R>(&self, hash: u64, key: &Q, see: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let pinned = pin();
        let seen = self.look(&pinned, hash, key)?;
        self.touch(&pinned, &seen);
        Some(see(seen.found.value))
    }

    #[inline(always)]
    fn count_hit(&self, guard: &impl Guard, is_stale: bool) {
        if is_stale {
            self.count(guard, Read::StaleHit);
        }
        self.count(guard, Read::Hit);
    }

    /// Returns the live entry of a key, or counts a miss.
    #[inline(always)]
    pub(crate) fn look<'a, Q>(
        &'a self,
        guard: &'a impl Guard,
        hash: u64,
        key: &Q,
    ) -> Option<Seen<'a, K, V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let shard = self.shard(hash);
        let Some(found) = shard.map.find(guard, hash, |other| other.borrow() == key) else {
            self.count(guard, Read::Absent);
            return None;
        };
        let mut is_stale = false;
        if let Some(deadline) = found.lane.deadline_if_any() {
            match self.age(deadline) {
                Age::Fresh => {}
                Age::Stale => is_stale = true,
                Age::Dead => {
                    self.count(guard, Read::Expired);
                    return None;
                }
            }
        }
        Some(Seen {
            shard,
            found,
            is_stale,
        })
    }

    /// Compares a deadline with the clock. It is not inlined, because a call of the clock makes its
    /// caller save all registers.
    #[inline(never)]
    fn age(&self, deadline: Tick) -> Age {
        let ahead = self.refresh_ahead.unwrap_or(0).saturating_add(RECENT_MS);
        if deadline.0 > self.clock.recent().0.saturating_add(ahead) {
            // Even without the exact instant the entry is certainly fresh.
            return Age::Fresh;
        }
        let now = self.now();
        if now > deadline {
            return Age::Dead;
        }
        match self.refresh_ahead {
            Some(window) if now.0.saturating_add(window) > deadline.0 => Age::Stale,
            _ => Age::Fresh,
        }
    }

    /// Registers a hit on an entry.
    #[inline(always)]
    pub(crate) fn touch(&self, pinned: &Pinned, seen: &Seen<'_, K, V>) {
        self.count_hit(pinned, seen.is_stale);
        if self.has_quick {
            self.quick.mark(seen.found.lane, seen.shard.young());
        } else {
            self.touch_slowly(pinned.number(), seen.shard, seen.found);
        }
    }

    #[inline(never)]
    fn touch_slowly(&self, thread: usize, shard: &Shard<K, V>, found: Found<'_, K, V>) {
        match self.on_hit {
            OnHit::Ignore => {}
            OnHit::Mark => {
                let lane = found.lane;
                let bits = lane.bits();
                let marked = match self.marker {
                    Marker::Stamp => self.marker.mark(bits, self.now().0),
                    Marker::Windowed { .. } => self.marker.with_young(shard.young()).mark(bits, 0),
                    marker => marker.mark(bits, 0),
                };
                if let Some(marked) = marked {
                    lane.mark(bits, marked);
                }
            }
            OnHit::Reorder => {
                let hash_of = self.hash_of();
                let now = || self.now();
                shard.reorder(thread, found.position, found.slot, &hash_of, now);
            }
        }
        if self.tti.is_some() || self.has_read_hook {
            self.extend(shard, &found);
        }
    }

    pub(crate) fn leaving(&self) -> Leaving<K, V> {
        Leaving::new(self.listener.is_some())
    }
}

impl<K, V, S> Inner<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    /// Returns the earliest instant at which an entry may expire, or `u64::MAX` if no entry can.
    pub(crate) fn expiry_due(&self) -> u64 {
        self.shards.iter().map(Shard::due).min().unwrap_or(u64::MAX)
    }

    pub(crate) fn expire_all(self: &Arc<Self>) -> usize {
        self.expire_slices(usize::MAX).0
    }

    /// Removes at most `slices` slices of expired entries per shard. Returns the number of entries
    /// removed, and whether more are due.
    pub(crate) fn expire_slices(self: &Arc<Self>, slices: usize) -> (usize, bool) {
        self.flights.wake_stalled();
        let now = self.now();
        if self.reached.fetch_max(now.0, SeqCst) > now.0 {
            self.reached.store(now.0, SeqCst);
            self.shards
                .iter()
                .for_each(|shard| shard.clock_went_back(now));
        }
        let hash_of = self.hash_of();
        let (mut count, mut is_any_left) = (0, false);
        for shard in &self.shards {
            let mut is_more = shard.due() <= now.0;
            let mut left = slices;
            while is_more && left > 0 {
                left -= 1;
                let mut leaving = self.leaving();
                let (removed, again) = shard.expire(now, &hash_of, &mut leaving);
                self.release(shard, leaving);
                count += removed;
                is_more = again;
                if again {
                    // Threads that wait for the lock go first.
                    thread::yield_now();
                }
            }
            is_any_left |= is_more;
            let mut leaving = Leaving::new(false);
            shard.reclaim(&mut leaving);
            self.release(shard, leaving);
        }
        (count, is_any_left)
    }
}

impl<K, V, S> Timed for Inner<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    fn due(&self) -> u64 {
        let collect_at = self.shards.iter().map(Shard::collect_at).min();
        let collect_at = collect_at.unwrap_or(u64::MAX);
        self.expiry_due()
            .min(collect_at)
            .min(self.flights.check_at())
    }

    fn run_some(self: Arc<Self>) -> bool {
        self.expire_slices(SLICES_PER_TURN).1
    }
}

//! Configuration of a cache.

use crate::cause::Cause;
use crate::clock::{Clock, ms_of};
use crate::expiry::Expiry;
use crate::timer::Timer;
use policy::any::{AnyPolicy, PolicySpec};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Hasher of caches that name none: `foldhash` with a random seed per cache.
pub type RandomState = foldhash::quality::RandomState;

/// Largest number of shards.
const SHARDS_MAX: usize = 1 << 16;

/// Function that returns an entry's weight.
pub(crate) type Weigher<K, V> = dyn Fn(&K, &V) -> u32 + Send + Sync;
/// See [`crate::shard::Listener`].
pub(crate) type Listener<K, V> = dyn Fn(&K, &V, Cause) + Send + Sync;

/// Error in a builder's settings.
#[derive(Clone, PartialEq, Debug)]
pub enum BuildError {
    /// The text names no policy, or its knobs are wrong.
    Policy(policy::knobs::SpecError),
    /// The policy needs to know future requests, or more bits in an entry than a cache has.
    NotServed(&'static str),
    /// The jitter is not between 0 and 1.
    Jitter(f64),
    /// The number of shards is 0 or above 65,536.
    Shards(usize),
    /// A setting needs another one.
    Needs {
        /// The setting.
        setting: &'static str,
        /// What it needs.
        needed: &'static str,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Policy(error) => error.fmt(f),
            BuildError::NotServed(name) => write!(
                f,
                "policy '{name}' runs in the simulator only: expected a policy that needs at most 64 \
                 bits per entry and no future requests"
            ),
            BuildError::Jitter(share) => {
                write!(f, "jitter {share}: expected a share between 0 and 1")
            }
            BuildError::Shards(count) => {
                write!(f, "shards {count}: expected 1 to {SHARDS_MAX}")
            }
            BuildError::Needs { setting, needed } => {
                write!(f, "{setting}: expected {needed}")
            }
        }
    }
}

impl std::error::Error for BuildError {}

/// Settings of a cache that is built with [`CacheBuilder::build`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct CacheBuilder<K, V, S = RandomState> {
    pub(crate) capacity: u64,
    pub(crate) weigher: Option<Arc<Weigher<K, V>>>,
    pub(crate) policy: Result<PolicySpec, BuildError>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) tti: Option<Duration>,
    pub(crate) jitter: f64,
    pub(crate) expiry: Option<Arc<dyn Expiry<K, V>>>,
    pub(crate) has_deadlines: bool,
    pub(crate) refresh_ahead: Option<Duration>,
    pub(crate) negative_ttl: Option<Duration>,
    pub(crate) timer: Timer,
    pub(crate) clock: Clock,
    pub(crate) listener: Option<Arc<Listener<K, V>>>,
    pub(crate) shards: Option<usize>,
    pub(crate) expected: Option<usize>,
    pub(crate) has_statistics: bool,
    pub(crate) hasher: S,
}

impl<K, V> CacheBuilder<K, V> {
    pub(crate) fn new(capacity: u64) -> Self {
        CacheBuilder {
            capacity,
            weigher: None,
            policy: Ok(PolicySpec::default()),
            ttl: None,
            tti: None,
            jitter: 0.0,
            expiry: None,
            has_deadlines: true,
            refresh_ahead: None,
            negative_ttl: None,
            timer: Timer::default(),
            clock: Clock::default(),
            listener: None,
            shards: None,
            expected: None,
            has_statistics: true,
            hasher: RandomState::default(),
        }
    }
}

impl<K, V, S> CacheBuilder<K, V, S> {
    /// Makes the capacity a total of weights instead of a number of entries. A weight of 0 counts
    /// as 1, so that the number of entries is bounded.
    ///
    /// An entry may weigh as much as the capacity. A heavier one is not stored, and removes an
    /// entry with its key; the listener is called with it, and [`Stats::too_heavy`](crate::Stats)
    /// counts it. So that this does not depend on the machine, a cache with a weigher has one
    /// [shard](CacheBuilder::shards), unless the program says otherwise.
    ///
    /// The function is called once per insertion, without locks.
    ///
    /// ```
    /// # fn main() -> Result<(), mayfly::BuildError> {
    /// let cache = mayfly::Cache::builder(64 << 20)
    ///     .weigher(|_: &String, value: &Vec<u8>| value.len() as u32)
    ///     .build()?;
    /// cache.insert("page".into(), vec![0; 4_096]);
    /// assert_eq!(cache.stats().weight, 4_096);
    /// # Ok(())
    /// # }
    /// ```
    pub fn weigher(mut self, weigher: impl Fn(&K, &V) -> u32 + Send + Sync + 'static) -> Self {
        self.weigher = Some(Arc::new(weigher));
        self
    }

    /// Sets the eviction policy; S3-FIFO-W by default. A policy is given by its type in
    /// [`PolicySpec`] with its knobs, or by name with [`CacheBuilder::policy_named`].
    ///
    /// ```
    /// use mayfly::{Cache, PolicySpec};
    ///
    /// # fn main() -> Result<(), mayfly::BuildError> {
    /// let sieve: Cache<u64, u64> = Cache::builder(1_000).policy(PolicySpec::Sieve(())).build()?;
    /// let lru: Cache<u64, u64> = Cache::builder(1_000).policy_named("lru").build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn policy(mut self, policy: PolicySpec) -> Self {
        self.policy = Ok(policy);
        self
    }

    /// Sets the eviction policy by its name, with knobs after colons: `"s3fifo:small=0.2"`,
    /// `"w-tinylfu"`. An unknown name is reported by [`CacheBuilder::build`].
    pub fn policy_named(mut self, name: &str) -> Self {
        self.policy = name.parse().map_err(BuildError::Policy);
        self
    }

    /// Sets the time to live: how long after its insertion or replacement an entry expires.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets the time to idle: how long after its last read an entry expires. An entry expires at
    /// the earlier of both times if there is a TTL, too.
    ///
    /// A read stores a new deadline only if the entry would otherwise expire before its idle time
    /// has passed. So that few reads do, an entry may stay up to a 64th of the idle time longer.
    pub fn tti(mut self, tti: Duration) -> Self {
        self.tti = Some(tti);
        self
    }

    /// Shortens each TTL by a random share of up to `share`, so that entries inserted together do
    /// not expire together. No entry expires later than without jitter.
    pub fn jitter(mut self, share: f64) -> Self {
        self.jitter = share;
        self
    }

    /// Sets a hook that decides each entry's time to live.
    pub fn expiry(mut self, expiry: impl Expiry<K, V> + 'static) -> Self {
        self.expiry = Some(Arc::new(expiry));
        self
    }

    /// Omits the deadline of each entry: 8 bytes less per entry, and 4 in the expiry index.
    /// Nothing can expire then.
    pub fn without_expiry(mut self) -> Self {
        self.has_deadlines = false;
        self
    }

    /// Reloads entries ahead of time: during the last `window` before its deadline an entry is
    /// *stale*. Of the callers of [`Cache::get_with`](crate::Cache::get_with) and its variants, one
    /// loads a new value; the others get the present one meanwhile.
    ///
    /// With a TTL of 10 minutes and a window of 9, entries have a *soft* TTL of one minute.
    pub fn refresh_ahead(mut self, window: Duration) -> Self {
        self.refresh_ahead = Some(window);
        self
    }

    /// Remembers for this time that a loader of
    /// [`Cache::optionally_get_with`](crate::Cache::optionally_get_with) found no value. As many
    /// such keys are remembered as a tenth of the capacity in entries, at least 16. A cache with a
    /// weigher takes the [expected entries](CacheBuilder::expected_entries) for its capacity, or
    /// 10,240 if they are not given.
    pub fn negative_ttl(mut self, ttl: Duration) -> Self {
        self.negative_ttl = Some(ttl);
        self
    }

    /// Says what removes expired entries; a shared thread by default.
    pub fn timer(mut self, timer: Timer) -> Self {
        self.timer = timer;
        self
    }

    /// Sets the source of time. With a manual clock, the timer is [`Timer::Manual`].
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets a function that is called with each entry that has left, and the cause. It is called
    /// without locks, by the thread that removed the entry, as soon as that has happened; for
    /// expired entries that is the timer. It may use the cache.
    ///
    /// Entries that leave by its own calls, of this cache or another one, are reported when it has
    /// returned, before the operation ends that it was called by. So it may put back what was
    /// evicted. For each entry that leaves by a call of the program, 100 that leave by calls of
    /// listeners are reported; those beyond leave at once without a call
    /// ([`Stats::unreported`](crate::Stats::unreported)), so that an operation ends even if each
    /// call makes another entry leave.
    ///
    /// If it panics, the panic reaches the caller of the operation after all entries of that
    /// operation were handled; a panic in the timer is ignored.
    ///
    /// ```
    /// use mayfly::{Cache, Cause};
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// # fn main() -> Result<(), mayfly::BuildError> {
    /// let (sender, receiver) = mpsc::channel();
    /// let cache: Cache<u32, String> = Cache::builder(100)
    ///     .listener(move |key, _value, cause| _ = sender.send((*key, cause)))
    ///     .build()?;
    /// cache.insert_with_ttl(7, "short".into(), Duration::from_millis(5));
    /// // No call to the cache is needed for the entry to leave.
    /// assert_eq!(receiver.recv(), Ok((7, Cause::Expired)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn listener(mut self, listener: impl Fn(&K, &V, Cause) + Send + Sync + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// Sets the number of parts with a lock for writers, a policy and an index of their own. By
    /// default there are four per processor and one per 43,008 entries; one alone below 4,096
    /// entries, and with a weigher.
    ///
    /// Each has an equal part of the capacity, so that an entry can weigh no more than that: with
    /// 16 shards, a sixteenth of the capacity. More than one are worthwhile for caches with a
    /// weigher that several threads write to at the same time.
    pub fn shards(mut self, count: usize) -> Self {
        self.shards = Some(count);
        self
    }

    /// Sets the number of entries for which tables are made at first, for caches with a weigher. It
    /// is a hint: tables are made for at most 67 million, and grow.
    pub fn expected_entries(mut self, count: usize) -> Self {
        self.expected = Some(count);
        self
    }

    /// Says whether look-ups are counted; they are by default. Entries that leave always are.
    pub fn statistics(mut self, is_on: bool) -> Self {
        self.has_statistics = is_on;
        self
    }

    /// Sets the hash function.
    ///
    /// It should distribute all 64 bits well: the high half selects the shard, the low one the
    /// place in its table. Under a function that leaves the high bits alone, such as the identity,
    /// all keys share one shard and its part of the capacity.
    pub fn hasher<T>(self, hasher: T) -> CacheBuilder<K, V, T> {
        CacheBuilder {
            capacity: self.capacity,
            weigher: self.weigher,
            policy: self.policy,
            ttl: self.ttl,
            tti: self.tti,
            jitter: self.jitter,
            expiry: self.expiry,
            has_deadlines: self.has_deadlines,
            refresh_ahead: self.refresh_ahead,
            negative_ttl: self.negative_ttl,
            timer: self.timer,
            clock: self.clock,
            listener: self.listener,
            shards: self.shards,
            expected: self.expected,
            has_statistics: self.has_statistics,
            hasher,
        }
    }

    /// Checks the settings and returns the policy.
    pub(crate) fn check(&self) -> Result<PolicySpec, BuildError> {
        let policy = self.policy.clone()?;
        if AnyPolicy::build(&policy, 1, 1).is_none() || policy.needs_future() {
            return Err(BuildError::NotServed(policy.name()));
        }
        if !(0.0..=1.0).contains(&self.jitter) {
            return Err(BuildError::Jitter(self.jitter));
        }
        if let Some(count) = self.shards
            && !(1..=SHARDS_MAX).contains(&count)
        {
            return Err(BuildError::Shards(count));
        }
        let needs = |setting, needed| Err(BuildError::Needs { setting, needed });
        let expires = self.ttl.is_some() || self.tti.is_some() || self.expiry.is_some();
        if !self.has_deadlines && (expires || self.negative_ttl.is_some()) {
            return needs(
                "without_expiry",
                "no TTL, idle time, negative TTL or expiry hook",
            );
        }
        if !self.has_deadlines && self.refresh_ahead.is_some() {
            return needs("refresh_ahead", "a cache whose entries have deadlines");
        }
        Ok(policy)
    }

    /// Returns the timer. None can follow a manual clock.
    pub(crate) fn timer_in_use(&self) -> Timer {
        match self.clock {
            Clock::System => self.timer,
            Clock::Manual(_) => Timer::Manual,
        }
    }

    /// Idle time in milliseconds.
    pub(crate) fn tti_ms(&self) -> Option<u64> {
        self.tti.map(ms_of)
    }
}

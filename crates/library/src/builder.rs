//! Builder of a cache, its settings, and the errors that they can cause.

use crate::cause::Cause;
use crate::clock::{Clock, ms_of};
use crate::expiry::Expiry;
use crate::timer::Timer;
use policy::any::{AnyPolicy, PolicySpec};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Default hasher of a cache: `foldhash`, with a random seed per cache.
pub type RandomState = foldhash::quality::RandomState;

/// Maximum number of shards.
const SHARDS_MAX: usize = 1 << 16;

/// Function that returns an entry's weight.
pub(crate) type Weigher<K, V> = dyn Fn(&K, &V) -> u32 + Send + Sync;
/// Function that is called with each entry that has left; see [`crate::shard::Listener`].
pub(crate) type Listener<K, V> = dyn Fn(&K, &V, Cause) + Send + Sync;

/// Error that [`CacheBuilder::build`] returns for invalid settings.
#[derive(Clone, PartialEq, Debug)]
pub enum BuildError {
    /// The name of the policy is unknown, or one of its knobs is invalid.
    Policy(policy::knobs::SpecError),
    /// The policy, given by its name, runs only in the simulator, because it needs future requests
    /// or more bits per entry than a cache has.
    NotServed(&'static str),
    /// The jitter is not between 0 and 1.
    Jitter(f64),
    /// The number of shards is 0 or greater than 65,536.
    Shards(usize),
    /// Two settings contradict each other.
    Needs {
        /// Name of the setting.
        setting: &'static str,
        /// State of the other settings that this one requires.
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

/// Builder of a [`Cache`](crate::Cache), from [`Cache::builder`](crate::Cache::builder).
///
/// ```
/// use mayfly::Cache;
/// use std::time::Duration;
///
/// # fn main() -> Result<(), mayfly::BuildError> {
/// let cache: Cache<String, u64> = Cache::builder(10_000)
///     .ttl(Duration::from_secs(600))
///     .tti(Duration::from_secs(60))
///     .policy_named("sieve")
///     .build()?;
/// assert_eq!(cache.capacity(), 10_000);
/// # Ok(())
/// # }
/// ```
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
    /// Measures the capacity in weight instead of in entries. `weigher` returns the weight of an
    /// entry; 0 counts as 1, so that the number of entries is bounded.
    ///
    /// An entry may weigh as much as the whole capacity. A heavier entry is not stored: it removes
    /// the existing entry of its key, is passed to the listener, and is counted by
    /// [`Stats::too_heavy`](crate::Stats::too_heavy). A cache with a weigher has a single
    /// [shard](CacheBuilder::shards) by default, so that this limit is the same on every machine.
    ///
    /// The weigher is called once per insertion, without locks.
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

    /// Sets the eviction policy. The default is S3-FIFO-W.
    ///
    /// Pass a variant of [`PolicySpec`] with its knobs, or use [`CacheBuilder::policy_named`] to
    /// choose a policy by its name.
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

    /// Sets the eviction policy by its name, with knobs after colons, such as `"w-tinylfu"` or
    /// `"s3fifo:small=0.2"`. [`CacheBuilder::build`] returns an error if the name is unknown.
    ///
    /// ```
    /// # fn main() -> Result<(), mayfly::BuildError> {
    /// use mayfly::{BuildError, Cache};
    ///
    /// let cache: Cache<u64, u64> =
    ///     Cache::builder(1_000).policy_named("s3fifo:small=0.2").build()?;
    /// let wrong = Cache::<u64, u64>::builder(1_000).policy_named("no-such-policy").build();
    /// assert!(matches!(wrong, Err(BuildError::Policy(_))));
    /// # Ok(())
    /// # }
    /// ```
    pub fn policy_named(mut self, name: &str) -> Self {
        self.policy = name.parse().map_err(BuildError::Policy);
        self
    }

    /// Sets the time to live (TTL): an entry expires this long after it was inserted or replaced.
    ///
    /// ```
    /// use mayfly::{Cache, Clock, ManualClock};
    /// use std::time::Duration;
    ///
    /// # fn main() -> Result<(), mayfly::BuildError> {
    /// let clock = ManualClock::new();
    /// let cache: Cache<&str, u32> = Cache::builder(100)
    ///     .ttl(Duration::from_secs(60))
    ///     .clock(Clock::Manual(clock.clone()))
    ///     .build()?;
    /// cache.insert("key", 1);
    /// clock.advance(Duration::from_secs(61));
    /// assert_eq!(cache.get("key"), None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets the time to idle: an entry expires this long after its last read. If the cache also has
    /// a [TTL](CacheBuilder::ttl), an entry expires at the earlier of the two instants.
    ///
    /// An entry may stay up to 1/64 of the idle time longer, so that few reads have to store a new
    /// deadline.
    pub fn tti(mut self, tti: Duration) -> Self {
        self.tti = Some(tti);
        self
    }

    /// Shortens each TTL by a random share of up to `share`, from 0 to 1, so that entries inserted
    /// together do not all expire together. No entry expires later than without jitter.
    pub fn jitter(mut self, share: f64) -> Self {
        self.jitter = share;
        self
    }

    /// Sets a hook that determines the time to live of each entry; see [`Expiry`] for an example.
    pub fn expiry(mut self, expiry: impl Expiry<K, V> + 'static) -> Self {
        self.expiry = Some(Arc::new(expiry));
        self
    }

    /// Builds a cache without deadlines, which saves 8 bytes per entry and 4 in the expiry index.
    /// No entry can expire.
    pub fn without_expiry(mut self) -> Self {
        self.has_deadlines = false;
        self
    }

    /// Reloads entries before they expire. During the last `window` before its deadline, an entry
    /// is *stale*: one caller of [`Cache::get_with`](crate::Cache::get_with) or one of its variants
    /// loads a new value, and all others meanwhile receive the current value.
    ///
    /// For example, a TTL of 10 minutes with a window of 9 minutes gives entries a *soft* TTL of
    /// one minute. [`Cache::get_or_refresh`](crate::Cache::get_or_refresh) has an example.
    pub fn refresh_ahead(mut self, window: Duration) -> Self {
        self.refresh_ahead = Some(window);
        self
    }

    /// Remembers for `ttl` that a loader of
    /// [`Cache::optionally_get_with`](crate::Cache::optionally_get_with) found no value.
    ///
    /// The cache remembers at least 16 such keys, and at most a tenth of the capacity in entries.
    /// With a weigher, the [expected entries](CacheBuilder::expected_entries) replace the capacity,
    /// or 10,240 if they are not set.
    pub fn negative_ttl(mut self, ttl: Duration) -> Self {
        self.negative_ttl = Some(ttl);
        self
    }

    /// Selects what removes expired entries. The default is [`Timer::Thread`], a thread that all
    /// caches of the process share.
    pub fn timer(mut self, timer: Timer) -> Self {
        self.timer = timer;
        self
    }

    /// Sets the time source. With a manual clock, the timer is always [`Timer::Manual`].
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets a function that is called with each entry that has left the cache, and with the cause.
    ///
    /// The listener is called as soon as the entry has left, by the thread that removed it and
    /// without locks. For expired entries, that thread is the timer. The listener may use the
    /// cache, for example to put back an evicted entry.
    ///
    /// If the listener itself makes entries leave this cache or another one, these are reported
    /// after it has returned and before the outer operation ends. A call by the program that makes
    /// one entry leave can cause at most 100 further reports in this way. Entries beyond that leave
    /// without a call and are counted by [`Stats::unreported`](crate::Stats::unreported), so that
    /// an operation ends even if every call of the listener makes another entry leave.
    ///
    /// # Panics
    ///
    /// If the listener panics, the panic reaches the caller of the operation after all entries of
    /// the operation have been handled. A panic in the timer is ignored.
    ///
    /// # Examples
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

    /// Sets the number of shards, from 1 to 65,536. Each shard has its own lock for writers, its
    /// own policy and its own expiry index.
    ///
    /// The default is four shards per processor plus one per 43,008 entries, but a single shard
    /// below 4,096 entries or with a weigher.
    ///
    /// The capacity is divided evenly, so no entry can weigh more than one shard's part: with 16
    /// shards, a sixteenth of the capacity. With a weigher, more than one shard is worthwhile only
    /// if several threads write at the same time.
    pub fn shards(mut self, count: usize) -> Self {
        self.shards = Some(count);
        self
    }

    /// Sets the number of entries for which a cache with a weigher initially allocates its tables.
    /// Tables grow beyond it as needed. Room is allocated for at most 67 million entries.
    pub fn expected_entries(mut self, count: usize) -> Self {
        self.expected = Some(count);
        self
    }

    /// Turns the counting of look-ups on or off; it is on by default. Entries that leave are always
    /// counted.
    pub fn statistics(mut self, is_on: bool) -> Self {
        self.has_statistics = is_on;
        self
    }

    /// Sets the hash function.
    ///
    /// The function must distribute all 64 bits well, because the high half selects the shard and
    /// the low half the bucket. If it leaves the high bits constant, as the identity function does,
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

    /// Checks the settings and returns the eviction policy.
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

    /// Returns the timer to use: [`Timer::Manual`] with a manual clock, which no thread can follow.
    pub(crate) fn timer_in_use(&self) -> Timer {
        match self.clock {
            Clock::System => self.timer,
            Clock::Manual(_) => Timer::Manual,
        }
    }

    /// Returns the idle time in milliseconds.
    pub(crate) fn tti_ms(&self) -> Option<u64> {
        self.tti.map(ms_of)
    }
}

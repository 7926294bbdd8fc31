//! Times to live of single entries, and the removal of expired entries by the program.

use super::Cache;
use crate::clock::{after, ms_of, until};
use crate::epoch::pin;
use crate::inner::IDLE_SLACK;
#[cfg(doc)]
use crate::timer::Timer;
use crate::timer::{self, Timed};
use policy::Tick;
use std::borrow::Borrow;
use std::future::Future;
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, Weak};
use std::time::Duration;

impl<K, V, S> Cache<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    /// Inserts or replaces a value with its own time to live. A `ttl` of 0 removes the key instead.
    ///
    /// # Panics
    ///
    /// Panics if the cache was built [without expiry](crate::CacheBuilder::without_expiry).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let cache = mayfly::Cache::new(10);
    /// cache.insert_with_ttl("session", 7, Duration::from_secs(60));
    /// assert!(cache.time_to_live("session") > Some(Duration::from_secs(50)));
    /// ```
    pub fn insert_with_ttl(&self, key: K, value: V, ttl: Duration) {
        assert!(
            self.inner.has_deadlines,
            "insert_with_ttl: the cache was built without expiry"
        );
        self.store(key, value, Some(ttl));
    }

    /// Returns the time until the entry of a key expires, or `None` if the key is absent or its
    /// entry does not expire.
    pub fn time_to_live<Q>(&self, key: &Q) -> Option<Duration>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let pinned = pin();
        let seen = self.inner.find_live(&pinned, key)?;
        let deadline = seen.shard.deadline(seen.found.slot)?;
        Some(until(self.inner.now(), deadline))
    }

    /// Sets the time to live of an entry, counted from now. With `None`, the entry expires only by
    /// its idle time, if the cache has one. Returns false if the key has no live entry.
    ///
    /// # Panics
    ///
    /// Panics if the cache was built [without expiry](crate::CacheBuilder::without_expiry).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let cache = mayfly::Cache::new(10);
    /// cache.insert("key", 1);
    /// assert!(cache.set_ttl("key", Some(Duration::from_secs(60))));
    /// assert!(cache.time_to_live("key").is_some());
    /// assert!(cache.set_ttl("key", None));
    /// assert_eq!(cache.time_to_live("key"), None);
    /// ```
    pub fn set_ttl<Q>(&self, key: &Q, ttl: Option<Duration>) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let inner = &*self.inner;
        assert!(
            inner.has_deadlines,
            "set_ttl: the cache was built without expiry"
        );
        loop {
            let pinned = pin();
            let Some(seen) = self.inner.find_live(&pinned, key) else {
                return false;
            };
            // This must precede the new deadline, which a load that ends in between would replace.
            seen.shard.changed(inner.hash(key));
            let now = inner.now();
            let limit = ttl.map(|ttl| after(now, ms_of(ttl)));
            let idle = inner
                .tti
                .map(|tti| after(now, tti.saturating_add(tti / IDLE_SLACK)));
            let wanted = match (limit, idle) {
                (Some(limit), Some(idle)) => Some(limit.min(idle)),
                (limit, idle) => limit.or(idle),
            };
            let present = seen.shard.deadline(seen.found.slot);
            if inner.set_deadline(seen.shard, &seen.found, present, wanted, limit, now) {
                if wanted.is_some() {
                    self.inner.notify(seen.shard.due());
                }
                return true;
            }
        }
    }

    /// Removes all expired entries, a bounded number at a time under one lock, and returns how many
    /// it removed.
    ///
    /// Call it when the timer is [`Timer::Manual`]. With any other timer, it only does early what
    /// the timer would soon do. It also frees the memory of entries that left earlier.
    ///
    /// ```
    /// use mayfly::{Cache, Clock, ManualClock};
    /// use std::time::Duration;
    ///
    /// # fn main() -> Result<(), mayfly::BuildError> {
    /// let clock = ManualClock::new();
    /// let cache: Cache<&str, u32> =
    ///     Cache::builder(100).clock(Clock::Manual(clock.clone())).build()?;
    /// cache.insert_with_ttl("key", 1, Duration::from_secs(5));
    /// clock.advance(Duration::from_secs(6));
    /// assert_eq!(cache.expire(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn expire(&self) -> usize {
        let count = self.inner.expire_all();
        if let Some((_, absent)) = &self.inner.negative {
            absent.expire_all();
        }
        count
    }

    /// Removes expired entries like [`Cache::expire`], but at most `slices` slices of 128 entries
    /// per shard, for programs that must not be blocked for long. Returns true if more entries are
    /// due.
    pub fn expire_within(&self, slices: usize) -> bool {
        let is_more = self.inner.expire_slices(slices).1;
        let absent = self.inner.negative.as_ref();
        absent.is_some_and(|(_, absent)| absent.expire_slices(slices).1) || is_more
    }

    /// Returns the time until [`Cache::expire`] has work, or `None` if no entry has a deadline. The
    /// result may be earlier than the next deadline, never later.
    pub fn next_expiry(&self) -> Option<Duration> {
        let due = self.inner.expiry_due();
        (due != u64::MAX).then(|| until(self.inner.now(), Tick(due)))
    }

    /// Returns the task for [`Timer::Task`]: a future that removes expired entries on time, and
    /// ends when the cache is dropped. Spawn it on your runtime, and pass the runtime's sleep
    /// function:
    ///
    /// ```text
    /// tokio::spawn(cache.expiry_task(tokio::time::sleep));
    /// ```
    pub fn expiry_task<F, Sleep>(
        &self,
        sleep: F,
    ) -> impl Future<Output = ()> + use<F, Sleep, K, V, S>
    where
        F: Fn(Duration) -> Sleep,
        Sleep: Future<Output = ()>,
    {
        let inner: Arc<dyn Timed> = self.inner.clone();
        let inner: Weak<dyn Timed> = Arc::downgrade(&inner);
        timer::run_task(inner, self.inner.alarm.clone(), sleep)
    }
}

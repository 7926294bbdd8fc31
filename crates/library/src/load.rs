//! Values that are loaded when they are missing, at most once per key at a time.

use crate::cache::Cache;
use crate::epoch::pin;
use crate::flight::{AnyError, Joined, Lead, Outcome, Wait};
use crate::shard::Expect;
use crate::stats::Read;
use std::any::Any;
use std::future::Future;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

/// The right to load the value of a key. While it exists, nobody else loads it; those that wait for
/// the value get it from [`Loading::complete`]. Dropping it without a value lets another caller
/// load.
#[must_use = "others wait for the value until this is dropped"]
pub struct Loading<K, V, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    cache: Cache<K, V, S>,
    lead: Option<Lead<K, V>>,
}

/// What a caller is to do about a key.
enum Step<K, V, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    /// Use this value.
    Ready(V),
    /// Load. A present value is stale.
    Load(Option<V>, Loading<K, V, S>),
    /// Wait for another's load.
    Wait(Wait<K, V>),
    /// The key is remembered as having no value.
    Absent,
}

impl<K, V, S> Loading<K, V, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    fn lead(&self) -> &Lead<K, V> {
        self.lead.as_ref().expect("it is taken with `self` only")
    }

    /// Returns the key to be loaded.
    pub fn key(&self) -> &K {
        self.lead().key()
    }

    /// Stores the value, with the builder's time to live, and hands it to those that wait.
    pub fn complete(self, value: V) {
        let ttl = self.cache.inner.ttl;
        self.finish(value, ttl);
    }

    /// Stores the value with a time to live of its own, and hands it to those that wait.
    pub fn complete_with_ttl(self, value: V, ttl: Duration) {
        self.finish(value, Some(ttl));
    }

    fn finish(mut self, value: V, ttl: Option<Duration>) {
        let (hash, key) = (self.lead().hash(), self.key().clone());
        let stored = value.clone();
        let _ = self
            .cache
            .inner
            .store_if(hash, key, stored, ttl, Expect::Anything);
        self.cache.inner.count(&pin(), Read::Load);
        if let Some(lead) = self.lead.take() {
            lead.finish(Outcome::Value(value));
        }
    }

    fn fail(mut self, outcome: Outcome<V>) {
        self.cache.inner.count(&pin(), Read::FailedLoad);
        if let Some(lead) = self.lead.take() {
            lead.finish(outcome);
        }
    }

    /// Remembers that the key has no value.
    fn end_absent(self) {
        if let Some((_, absent)) = &self.cache.inner.negative {
            let (key, hash) = (self.key().clone(), self.lead().hash());
            let _ = absent.store_if(hash, key, (), absent.ttl, Expect::Anything);
        }
        self.fail(Outcome::Absent);
    }
}

impl<K, V, S> Drop for Loading<K, V, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    fn drop(&mut self) {
        if self.lead.take().is_some() {
            self.cache.inner.count(&pin(), Read::FailedLoad);
        }
    }
}

/// Whether a caller blocks its thread while it loads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Blocking,
    Async,
}

impl<K, V, S> Cache<K, V, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    /// Looks a key up and joins its load if there is no fresh value.
    fn begin(&self, key: &K, manner: Manner, is_optional: bool) -> Step<K, V, S> {
        let inner = &*self.inner;
        let hash = inner.hash(key);
        let mut stale = None;
        {
            let pinned = pin();
            if let Some(seen) = inner.look(&pinned, hash, key) {
                inner.touch(&pinned, &seen);
                let value = seen.found.value.clone();
                if !seen.is_stale {
                    return Step::Ready(value);
                }
                stale = Some(value);
            } else if is_optional
                && let Some((_, absent)) = &inner.negative
                && absent.find_live(&pinned, key).is_some()
            {
                inner.count(&pinned, Read::Negative);
                return Step::Absent;
            }
        }
        let blocks = manner == Manner::Blocking;
        match (inner.flights.join(hash, key.clone(), blocks), stale) {
            (Joined::Lead(lead), stale) => {
                // Another load may have ended between the look-up and now.
                if stale.is_none()
                    && let Some(value) = self.peek(key)
                {
                    return Step::Ready(value);
                }
                let loading = Loading {
                    cache: self.clone(),
                    lead: Some(lead),
                };
                Step::Load(stale, loading)
            }
            (Joined::Wait(_), Some(value)) => Step::Ready(value),
            (Joined::Wait(flight), None) => Step::Wait(Wait::new(flight)),
        }
    }

    /// Returns the value of a key, or the result of `load`, which is stored. Of several callers at
    /// the same time one loads, the others wait for its value. If it panics, another one loads.
    ///
    /// `load` is called without locks and may use the cache, but not request the same key. Loaders
    /// of two keys that request each other's key wait forever.
    ///
    /// ```
    /// let cache = mayfly::Cache::new(100);
    /// let length = cache.get_with("text", || "text".len());
    /// assert_eq!(length, 4);
    /// assert_eq!(cache.get("text"), Some(4));
    /// ```
    ///
    /// # Panics
    /// If `load` requests the key that it loads.
    pub fn get_with(&self, key: K, load: impl FnOnce() -> V) -> V {
        loop {
            match self.begin(&key, Manner::Blocking, false) {
                Step::Ready(value) => return value,
                Step::Load(_, loading) => {
                    let value = load();
                    loading.complete(value.clone());
                    return value;
                }
                Step::Wait(wait) => {
                    if let Some(Outcome::Value(value)) = wait.block() {
                        return value;
                    }
                }
                Step::Absent => {}
            }
        }
    }

    /// Returns the value of a key, or that of `load`. An error is not stored; callers that waited
    /// get the same error if theirs has the same type, else they load themselves.
    ///
    /// ```
    /// let cache = mayfly::Cache::<&str, i32>::new(100);
    /// let error = cache.try_get_with("x", || "x".parse::<i32>()).expect_err("no number");
    /// assert_eq!(error.to_string(), "invalid digit found in string");
    /// assert_eq!(cache.try_get_with("7", || "7".parse::<i32>()), Ok(7));
    /// ```
    pub fn try_get_with<E>(&self, key: K, load: impl FnOnce() -> Result<V, E>) -> Result<V, Arc<E>>
    where
        E: Send + Sync + 'static,
    {
        loop {
            match self.begin(&key, Manner::Blocking, false) {
                Step::Ready(value) => return Ok(value),
                Step::Load(stale, loading) => return tried(load(), stale, loading),
                Step::Wait(wait) => {
                    if let Some(result) = wait.block().and_then(shared) {
                        return result;
                    }
                }
                Step::Absent => {}
            }
        }
    }

    /// Returns the value of a key, or that of `load`. `None` is remembered for the builder's
    /// [negative TTL](crate::CacheBuilder::negative_ttl), during which `load` is not called.
    ///
    /// ```
    /// use mayfly::Cache;
    /// use std::time::Duration;
    ///
    /// # fn main() -> Result<(), mayfly::BuildError> {
    /// let cache: Cache<u32, String> =
    ///     Cache::builder(100).negative_ttl(Duration::from_secs(5)).build()?;
    /// assert_eq!(cache.optionally_get_with(404, || None), None);
    /// assert_eq!(cache.optionally_get_with(404, || panic!("it is not called")), None);
    /// cache.insert(404, "found".into());
    /// assert_eq!(cache.optionally_get_with(404, || None).as_deref(), Some("found"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn optionally_get_with(&self, key: K, load: impl FnOnce() -> Option<V>) -> Option<V> {
        loop {
            match self.begin(&key, Manner::Blocking, true) {
                Step::Ready(value) => return Some(value),
                Step::Absent => return None,
                Step::Load(_, loading) => return optional(load(), loading),
                Step::Wait(wait) => match wait.block() {
                    Some(Outcome::Value(value)) => return Some(value),
                    Some(Outcome::Absent) => return None,
                    _ => {}
                },
            }
        }
    }

    /// The asynchronous form of [`Cache::get_with`], for any runtime. If the future of the caller
    /// that loads is dropped, another one loads.
    ///
    /// Threads and tasks may wait for each other's loads. A thread that blocks on the load of a
    /// task must not be the one that runs the task. A future that requests the key that it loads
    /// waits forever.
    pub async fn get_with_async(&self, key: K, load: impl Future<Output = V>) -> V {
        loop {
            match self.begin(&key, Manner::Async, false) {
                Step::Ready(value) => return value,
                Step::Load(_, loading) => {
                    let value = load.await;
                    loading.complete(value.clone());
                    return value;
                }
                Step::Wait(wait) => {
                    if let Some(Outcome::Value(value)) = wait.await {
                        return value;
                    }
                }
                Step::Absent => {}
            }
        }
    }

    /// The asynchronous form of [`Cache::try_get_with`].
    pub async fn try_get_with_async<E>(
        &self,
        key: K,
        load: impl Future<Output = Result<V, E>>,
    ) -> Result<V, Arc<E>>
    where
        E: Send + Sync + 'static,
    {
        loop {
            match self.begin(&key, Manner::Async, false) {
                Step::Ready(value) => return Ok(value),
                Step::Load(stale, loading) => return tried(load.await, stale, loading),
                Step::Wait(wait) => {
                    if let Some(result) = wait.await.and_then(shared) {
                        return result;
                    }
                }
                Step::Absent => {}
            }
        }
    }

    /// The asynchronous form of [`Cache::optionally_get_with`].
    pub async fn optionally_get_with_async(
        &self,
        key: K,
        load: impl Future<Output = Option<V>>,
    ) -> Option<V> {
        loop {
            match self.begin(&key, Manner::Async, true) {
                Step::Ready(value) => return Some(value),
                Step::Absent => return None,
                Step::Load(_, loading) => return optional(load.await, loading),
                Step::Wait(wait) => match wait.await {
                    Some(Outcome::Value(value)) => return Some(value),
                    Some(Outcome::Absent) => return None,
                    _ => {}
                },
            }
        }
    }

    /// Returns the present value, stale or fresh, without waiting. If there is none or it is stale
    /// (see [`refresh_ahead`](crate::CacheBuilder::refresh_ahead)), and nobody loads the key,
    /// `start` receives the right to load it, for example to pass it to a thread or a task.
    ///
    /// ```
    /// use mayfly::{Cache, Clock, ManualClock};
    /// use std::time::Duration;
    ///
    /// # fn main() -> Result<(), mayfly::BuildError> {
    /// let clock = ManualClock::new();
    /// let cache = Cache::builder(100)
    ///     .ttl(Duration::from_secs(60))
    ///     .refresh_ahead(Duration::from_secs(50))
    ///     .clock(Clock::Manual(clock.clone()))
    ///     .build()?;
    /// cache.insert("rate", 1.25);
    /// clock.advance(Duration::from_secs(20));
    ///
    /// let mut loading = None;
    /// assert_eq!(cache.get_or_refresh("rate", |right| loading = Some(right)), Some(1.25));
    /// // Others get the stale value meanwhile, and start no second load.
    /// assert_eq!(cache.get_or_refresh("rate", |_| panic!("one loads")), Some(1.25));
    /// loading.expect("the value was stale").complete(1.5);
    /// assert_eq!(cache.get_or_refresh("rate", |_| panic!("it is fresh")), Some(1.5));
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_or_refresh(&self, key: K, start: impl FnOnce(Loading<K, V, S>)) -> Option<V> {
        match self.begin(&key, Manner::Async, false) {
            Step::Ready(value) => Some(value),
            Step::Load(stale, loading) => {
                start(loading);
                stale
            }
            Step::Wait(_) | Step::Absent => None,
        }
    }
}

/// Ends a load that may fail. A stale value is better than an error.
fn tried<K, V, S, E>(
    result: Result<V, E>,
    stale: Option<V>,
    loading: Loading<K, V, S>,
) -> Result<V, Arc<E>>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    match (result, stale) {
        (Ok(value), _) => {
            loading.complete(value.clone());
            Ok(value)
        }
        (Err(_), Some(stale)) => {
            drop(loading);
            Ok(stale)
        }
        (Err(error), None) => {
            let error = Arc::new(error);
            let any: AnyError = error.clone();
            loading.fail(Outcome::Error(any));
            Err(error)
        }
    }
}

/// Returns the result of another's load, if it is one of this type.
fn shared<V, E: Any + Send + Sync>(outcome: Outcome<V>) -> Option<Result<V, Arc<E>>> {
    match outcome {
        Outcome::Value(value) => Some(Ok(value)),
        Outcome::Absent => None,
        Outcome::Error(error) => error.downcast().ok().map(Err),
    }
}

fn optional<K, V, S>(value: Option<V>, loading: Loading<K, V, S>) -> Option<V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    match &value {
        Some(value) => loading.complete(value.clone()),
        None => loading.end_absent(),
    }
    value
}

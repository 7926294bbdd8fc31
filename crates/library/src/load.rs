//! Loading of missing values, at most once per key at a time.

use crate::cache::Cache;
use crate::epoch::pin;
use crate::flight::{AnyError, Joined, Manner, Outcome, Wait};
use crate::stats::Read;
use std::any::Any;
use std::borrow::Borrow;
use std::future::Future;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

mod loading;

pub use loading::Loading;

/// Next step of a caller that requests a key.
enum Step<K, V, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    /// Return this value.
    Ready(V),
    /// Load the value. An existing value is stale.
    Load(Option<V>, Loading<K, V, S>),
    /// Wait for the load of another caller.
    Wait(Wait<K, V>),
    /// Return no value, because the key is remembered as having none.
    Absent,
}

impl<K, V, S> Cache<K, V, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    /// Begins a load even if a value exists or is being loaded, for programs that coordinate their
    /// loads themselves. No other caller waits for it.
    ///
    /// ```
    /// let cache = mayfly::Cache::new(10);
    /// let loading = cache.begin_load("page");
    /// assert!(loading.is_current());
    /// // The page was changed, so that the value being loaded may be outdated.
    /// cache.remove("page");
    /// assert!(!loading.is_current());
    /// loading.complete(1);
    /// assert_eq!(cache.get("page"), None);
    /// ```
    pub fn begin_load(&self, key: K) -> Loading<K, V, S> {
        let hash = self.inner.hash(&key);
        let load = self.inner.shard(hash).begin_load(hash);
        Loading {
            cache: self.clone(),
            lead: Some(self.inner.flights.lead_apart(hash, key, load)),
        }
    }

    /// Looks up a key, and joins its load if it has no fresh value.
    fn begin<Q>(&self, key: &Q, manner: Manner, is_optional: bool) -> Step<K, V, S>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
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
        let shard = inner.shard(hash);
        let joined = inner.flights.join(
            hash,
            key,
            manner,
            || shard.begin_load(hash),
            |load| shard.is_current(hash, load),
        );
        match (joined, stale) {
            (Joined::Lead(lead), stale) => {
                let mut loading = Loading {
                    cache: self.clone(),
                    lead: Some(lead),
                };
                // Another load may have ended since the look-up.
                if stale.is_none()
                    && let Some(value) = self.peek(key)
                {
                    drop(loading.release());
                    return Step::Ready(value);
                }
                Step::Load(stale, loading)
            }
            (Joined::Wait(_), Some(value)) => Step::Ready(value),
            (Joined::Wait(flight), None) => {
                // The timer wakes the waiting callers if the load stalls.
                self.inner.register();
                Step::Wait(Wait::new(flight))
            }
        }
    }

    /// Returns the value of a key, or calls `load` and stores its result. If several callers
    /// request the key at the same time, one of them loads and the others wait for its value. If
    /// `load` panics, one of the waiting callers loads.
    ///
    /// `load` is called without locks and may use the cache, but must not request the same key. Two
    /// loaders that request each other's keys wait forever.
    ///
    /// ```
    /// let cache = mayfly::Cache::new(100);
    /// let length = cache.get_with("text", || "text".len());
    /// assert_eq!(length, 4);
    /// assert_eq!(cache.get("text"), Some(4));
    /// ```
    ///
    /// If the key changes during the load (it is inserted, removed, cleared, or gets a new time to
    /// live), the loaded value is returned but not stored, and callers that come after the change
    /// load again.
    ///
    /// # Panics
    /// Panics if `load` requests the key that it loads.
    pub fn get_with(&self, key: K, load: impl FnOnce() -> V) -> V {
        self.get_with_by_ref(&key, load)
    }

    /// Returns or loads a value like [`Cache::get_with`], but takes a borrowed key, and makes an
    /// owned one only to load. A hit does not allocate.
    ///
    /// ```
    /// let cache: mayfly::Cache<String, usize> = mayfly::Cache::new(100);
    /// assert_eq!(cache.get_with_by_ref("text", || 4), 4);
    /// assert_eq!(cache.get_with_by_ref("text", || unreachable!("it is present")), 4);
    /// ```
    ///
    /// # Panics
    /// Panics if `load` requests the key that it loads.
    pub fn get_with_by_ref<Q>(&self, key: &Q, load: impl FnOnce() -> V) -> V
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        loop {
            match self.begin(key, Manner::Thread, false) {
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

    /// Returns the value of a key, or calls `load`, which may fail, and stores its value.
    ///
    /// ```
    /// let cache = mayfly::Cache::<&str, i32>::new(100);
    /// let error = cache.try_get_with("x", || "x".parse::<i32>()).expect_err("no number");
    /// assert_eq!(error.to_string(), "invalid digit found in string");
    /// assert_eq!(cache.try_get_with("7", || "7".parse::<i32>()), Ok(7));
    /// ```
    ///
    /// # Errors
    /// Returns the error of `load`, which is not stored. Callers that waited for the load receive
    /// the same error if their loaders have the same error type; otherwise they load themselves. If
    /// a stale value is present, it is returned instead of an error.
    ///
    /// # Panics
    /// Panics if `load` requests the key that it loads.
    pub fn try_get_with<E>(&self, key: K, load: impl FnOnce() -> Result<V, E>) -> Result<V, Arc<E>>
    where
        E: Send + Sync + 'static,
    {
        self.try_get_with_by_ref(&key, load)
    }

    /// Returns or loads a value like [`Cache::try_get_with`], but takes a borrowed key; see
    /// [`Cache::get_with_by_ref`].
    ///
    /// # Errors
    /// Returns the error of `load`, like [`Cache::try_get_with`].
    ///
    /// # Panics
    /// Panics if `load` requests the key that it loads.
    pub fn try_get_with_by_ref<Q, E>(
        &self,
        key: &Q,
        load: impl FnOnce() -> Result<V, E>,
    ) -> Result<V, Arc<E>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        E: Send + Sync + 'static,
    {
        loop {
            match self.begin(key, Manner::Thread, false) {
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

    /// Returns the value of a key, or calls `load`, which may find no value, and stores its value.
    ///
    /// If `load` returns `None`, the cache remembers that for the builder's [negative
    /// TTL](crate::CacheBuilder::negative_ttl) and does not call `load` for the key meanwhile. If
    /// `load` was called to [refresh](crate::CacheBuilder::refresh_ahead) a value, `None` removes
    /// the value.
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
    ///
    /// # Panics
    /// Panics if `load` requests the key that it loads.
    pub fn optionally_get_with(&self, key: K, load: impl FnOnce() -> Option<V>) -> Option<V> {
        self.optionally_get_with_by_ref(&key, load)
    }

    /// Returns or loads a value like [`Cache::optionally_get_with`], but takes a borrowed key; see
    /// [`Cache::get_with_by_ref`].
    ///
    /// # Panics
    /// Panics if `load` requests the key that it loads.
    pub fn optionally_get_with_by_ref<Q>(
        &self,
        key: &Q,
        load: impl FnOnce() -> Option<V>,
    ) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        loop {
            match self.begin(key, Manner::Thread, true) {
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

    /// Returns or loads a value like [`Cache::get_with`], but with a future, on any runtime. If the
    /// future of the caller that loads is dropped, another caller loads.
    ///
    /// Threads and tasks may wait for each other's loads. A thread that blocks on a task's load
    /// must not be the thread that runs the task. A `load` that requests its own key waits forever.
    ///
    /// If the loading caller's future is kept without being polled, the other callers do not wait
    /// forever: when `load` could continue but has not been polled for half a second, one of them
    /// loads, too. The first value is stored and returned to all waiting callers. A `load` that
    /// itself waits for something, for however long, is not repeated.
    ///
    /// ```
    /// # fn block_on<F: Future>(future: F) -> F::Output {
    /// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     match std::pin::pin!(future).poll(&mut context) {
    /// #         std::task::Poll::Ready(output) => output,
    /// #         std::task::Poll::Pending => unreachable!("nothing waits"),
    /// #     }
    /// # }
    /// # block_on(async {
    /// let cache = mayfly::Cache::new(100);
    /// let length = cache.get_with_async("text", async { "text".len() }).await;
    /// assert_eq!(length, 4);
    /// # })
    /// ```
    pub async fn get_with_async(&self, key: K, load: impl Future<Output = V>) -> V {
        self.get_with_by_ref_async(&key, load).await
    }

    /// Returns or loads a value like [`Cache::get_with_async`], but takes a borrowed key; see
    /// [`Cache::get_with_by_ref`].
    pub async fn get_with_by_ref_async<Q>(&self, key: &Q, load: impl Future<Output = V>) -> V
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        loop {
            match self.begin(key, Manner::Task, false) {
                Step::Ready(value) => return value,
                Step::Load(_, loading) => {
                    let value = loading.run(load).await;
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

    /// Returns or loads a value like [`Cache::try_get_with`], but with a future; see
    /// [`Cache::get_with_async`].
    ///
    /// # Errors
    /// Returns the error of `load`, like [`Cache::try_get_with`].
    pub async fn try_get_with_async<E>(
        &self,
        key: K,
        load: impl Future<Output = Result<V, E>>,
    ) -> Result<V, Arc<E>>
    where
        E: Send + Sync + 'static,
    {
        self.try_get_with_by_ref_async(&key, load).await
    }

    /// Returns or loads a value like [`Cache::try_get_with_async`], but takes a borrowed key; see
    /// [`Cache::get_with_by_ref`].
    ///
    /// # Errors
    /// Returns the error of `load`, like [`Cache::try_get_with`].
    pub async fn try_get_with_by_ref_async<Q, E>(
        &self,
        key: &Q,
        load: impl Future<Output = Result<V, E>>,
    ) -> Result<V, Arc<E>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
        E: Send + Sync + 'static,
    {
        loop {
            match self.begin(key, Manner::Task, false) {
                Step::Ready(value) => return Ok(value),
                Step::Load(stale, loading) => {
                    return tried(loading.run(load).await, stale, loading);
                }
                Step::Wait(wait) => {
                    if let Some(result) = wait.await.and_then(shared) {
                        return result;
                    }
                }
                Step::Absent => {}
            }
        }
    }

    /// Returns or loads a value like [`Cache::optionally_get_with`], but with a future; see
    /// [`Cache::get_with_async`].
    pub async fn optionally_get_with_async(
        &self,
        key: K,
        load: impl Future<Output = Option<V>>,
    ) -> Option<V> {
        self.optionally_get_with_by_ref_async(&key, load).await
    }

    /// Returns or loads a value like [`Cache::optionally_get_with_async`], but takes a borrowed
    /// key; see [`Cache::get_with_by_ref`].
    pub async fn optionally_get_with_by_ref_async<Q>(
        &self,
        key: &Q,
        load: impl Future<Output = Option<V>>,
    ) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        loop {
            match self.begin(key, Manner::Task, true) {
                Step::Ready(value) => return Some(value),
                Step::Absent => return None,
                Step::Load(_, loading) => return optional(loading.run(load).await, loading),
                Step::Wait(wait) => match wait.await {
                    Some(Outcome::Value(value)) => return Some(value),
                    Some(Outcome::Absent) => return None,
                    _ => {}
                },
            }
        }
    }

    /// Returns the current value, stale or fresh, without waiting.
    ///
    /// If there is no value, or it is stale (see
    /// [`refresh_ahead`](crate::CacheBuilder::refresh_ahead)), and no other caller is loading the
    /// key, `start` receives the right to load it. It can pass the right to a thread or a task, for
    /// example. Other callers wait for a missing value until the right is used or dropped.
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
    /// // Other callers receive the stale value meanwhile, and start no second load.
    /// assert_eq!(cache.get_or_refresh("rate", |_| panic!("one loads")), Some(1.25));
    /// loading.expect("the value was stale").complete(1.5);
    /// assert_eq!(cache.get_or_refresh("rate", |_| panic!("it is fresh")), Some(1.5));
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_or_refresh(&self, key: K, start: impl FnOnce(Loading<K, V, S>)) -> Option<V> {
        self.get_or_refresh_by_ref(&key, start)
    }

    /// Returns the current value like [`Cache::get_or_refresh`], but takes a borrowed key; see
    /// [`Cache::get_with_by_ref`].
    pub fn get_or_refresh_by_ref<Q>(
        &self,
        key: &Q,
        start: impl FnOnce(Loading<K, V, S>),
    ) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        match self.begin(key, Manner::Right, false) {
            Step::Ready(value) => Some(value),
            Step::Load(stale, loading) => {
                start(loading);
                stale
            }
            Step::Wait(_) | Step::Absent => None,
        }
    }
}

/// Ends a load that may fail. If it has failed, a stale value is returned instead of the error.
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

/// Returns the result of another caller's load, unless its error has another type.
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

//! The right to load the value of a key.

use crate::cache::Cache;
use crate::epoch::pin;
use crate::flight::{Lead, Outcome};
use crate::shard::{Expect, Removed};
use crate::stats::Read;
use std::hash::{BuildHasher, Hash};
use std::time::Duration;

/// Right to load the value of a key, from [`Cache::begin_load`] or [`Cache::get_or_refresh`].
///
/// While it exists, no other caller loads the key, unless it came from [`Cache::begin_load`].
/// Callers waiting for the value receive it from [`Loading::complete`]. If the right is dropped
/// without a value, another caller may load.
#[must_use = "others wait for the value until this is dropped"]
pub struct Loading<K, V, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    pub(super) cache: Cache<K, V, S>,
    pub(super) lead: Option<Lead<K, V>>,
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

    /// Returns true if the key has not changed since the load began, so that [`Loading::complete`]
    /// would store its value.
    pub fn is_current(&self) -> bool {
        let shard = self.cache.inner.shard(self.lead().hash());
        shard.is_current(self.lead().hash(), self.lead().load())
    }

    /// Returns the value to the callers waiting for it, and stores it with the builder's time to
    /// live, unless the key has changed since the load began.
    ///
    /// ```
    /// let cache = mayfly::Cache::new(10);
    /// let mut right = None;
    /// cache.get_or_refresh("page", |loading| right = Some(loading));
    /// // The page was changed, so that the value being loaded may be outdated.
    /// cache.remove("page");
    /// right.expect("no other caller loads").complete(1);
    /// assert_eq!(cache.get("page"), None);
    /// ```
    pub fn complete(self, value: V) {
        let ttl = self.cache.inner.ttl;
        self.finish(value, ttl);
    }

    /// Completes the load like [`Loading::complete`], but with its own time to live.
    ///
    /// A cache that was built [without expiry](crate::CacheBuilder::without_expiry) ignores `ttl`.
    pub fn complete_with_ttl(self, value: V, ttl: Duration) {
        self.finish(value, Some(ttl));
    }

    /// Runs the load of a task, and measures its pace if there is one.
    pub(super) async fn run<F: Future>(&self, load: F) -> F::Output {
        match self.lead().pace() {
            Some(pace) => pace.run(load).await,
            None => load.await,
        }
    }

    fn finish(self, value: V, ttl: Option<Duration>) {
        let (hash, key) = (self.lead().hash(), self.key().clone());
        let (stored, expect) = (value.clone(), self.expect());
        // If the key has changed, only the waiting callers receive the value.
        let _ = self.cache.inner.store_if(hash, key, stored, ttl, expect);
        self.end(Read::Load, Outcome::Value(value));
    }

    fn expect(&self) -> Expect {
        Expect::Unchanged(self.lead().load())
    }

    fn end(mut self, read: Read, outcome: Outcome<V>) {
        self.cache.inner.count(&pin(), read);
        if let Some(lead) = self.release() {
            lead.finish(outcome);
        }
    }

    /// Ends the load in its shard, and returns the duty to report its result.
    pub(super) fn release(&mut self) -> Option<Lead<K, V>> {
        let lead = self.lead.take()?;
        let shard = self.cache.inner.shard(lead.hash());
        shard.end_load(lead.hash(), lead.load());
        Some(lead)
    }

    pub(super) fn fail(self, outcome: Outcome<V>) {
        self.end(Read::FailedLoad, outcome);
    }

    /// Removes the entry and remembers that the key has no value, unless the key has changed since
    /// the load began.
    pub(super) fn end_absent(self) {
        let inner = &self.cache.inner;
        let hash = self.lead().hash();
        let is_key = |other: &K| other == self.key();
        // `Inner::forget_absence` says why this order is needed.
        if let Some((_, absent)) = &inner.negative {
            let (key, ttl) = (self.key().clone(), absent.ttl);
            let _ = absent.store_if(hash, key, (), ttl, Expect::Anything);
        }
        let removed = inner.remove_where(hash, is_key, self.expect());
        if let (Removed::Conflict, Some((_, absent))) = (removed, &inner.negative) {
            absent.remove_where(hash, is_key, Expect::Anything);
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
        if self.release().is_some() {
            self.cache.inner.count(&pin(), Read::FailedLoad);
        }
    }
}

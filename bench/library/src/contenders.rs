//! The caches that are compared, behind one trait. Keys and values are `u64`.

use foyer_memory::{Cache as Foyer, CacheBuilder as FoyerBuilder, S3FifoConfig};
use std::num::NonZeroUsize;
use std::time::Duration;

/// Operations that the measurements need from a cache.
pub trait Contender: Send + Sync {
    /// Returns the value of a key.
    fn get(&self, key: u64) -> Option<u64>;
    /// Inserts a value.
    fn put(&self, key: u64, value: u64);
    /// Inserts a value with a time to live, if the cache supports it.
    fn put_for(&self, key: u64, value: u64, _ttl: Duration) {
        self.put(key, value);
    }
    /// Number of entries.
    fn len(&self) -> usize;
    /// Does what the cache leaves to its callers.
    fn maintain(&self) {}
}

type Mayfly = mayfly::Cache<u64, u64>;

impl Contender for Mayfly {
    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        mayfly::Cache::get(self, &key)
    }
    #[inline]
    fn put(&self, key: u64, value: u64) {
        self.insert(key, value);
    }
    fn put_for(&self, key: u64, value: u64, ttl: Duration) {
        self.insert_with_ttl(key, value, ttl);
    }
    fn len(&self) -> usize {
        mayfly::Cache::len(self)
    }
}

impl Contender for quick_cache::sync::Cache<u64, u64> {
    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        quick_cache::sync::Cache::get(self, &key)
    }
    #[inline]
    fn put(&self, key: u64, value: u64) {
        self.insert(key, value);
    }
    fn len(&self) -> usize {
        quick_cache::sync::Cache::len(self)
    }
}

type Moka = moka::sync::Cache<u64, u64, ahash::RandomState>;

impl Contender for Moka {
    fn get(&self, key: u64) -> Option<u64> {
        moka::sync::Cache::get(self, &key)
    }
    fn put(&self, key: u64, value: u64) {
        self.insert(key, value);
    }
    fn len(&self) -> usize {
        self.entry_count() as usize
    }
    fn maintain(&self) {
        self.run_pending_tasks();
    }
}

type MiniMoka = mini_moka::sync::Cache<u64, u64, ahash::RandomState>;

impl Contender for MiniMoka {
    fn get(&self, key: u64) -> Option<u64> {
        mini_moka::sync::Cache::get(self, &key)
    }
    fn put(&self, key: u64, value: u64) {
        self.insert(key, value);
    }
    fn len(&self) -> usize {
        self.entry_count() as usize
    }
    fn maintain(&self) {
        mini_moka::sync::ConcurrentCacheExt::sync(self);
    }
}

impl Contender for Foyer<u64, u64> {
    fn get(&self, key: u64) -> Option<u64> {
        Foyer::get(self, &key).map(|entry| *entry.value())
    }
    fn put(&self, key: u64, value: u64) {
        self.insert(key, value);
    }
    fn len(&self) -> usize {
        self.usage()
    }
}

type Lru = parking_lot::Mutex<lru::LruCache<u64, u64, ahash::RandomState>>;

impl Contender for Lru {
    fn get(&self, key: u64) -> Option<u64> {
        self.lock().get(&key).copied()
    }
    fn put(&self, key: u64, value: u64) {
        self.lock().put(key, value);
    }
    fn len(&self) -> usize {
        self.lock().len()
    }
}

/// Names of all contenders.
pub const NAMES: [&str; 8] = [
    "mayfly",
    "mayfly-sieve",
    "mayfly-plain",
    "quick_cache",
    "moka",
    "mini-moka",
    "foyer",
    "lru",
];

/// A use of a contender's own type.
pub trait Visit {
    /// Result of the use.
    type Output;
    /// Uses the cache.
    fn visit<C: Contender + 'static>(self, cache: C) -> Self::Output;
}

/// Builds a contender and passes it to `visit`. `mayfly` has deadlines, `mayfly-plain` has none.
pub fn build<T: Visit>(name: &str, capacity: usize, visit: T) -> Option<T::Output> {
    let entries = capacity as u64;
    Some(match name {
        "mayfly" => visit.visit(Mayfly::new(entries)),
        "mayfly-sieve" | "mayfly-plain" => {
            let mut builder = Mayfly::builder(entries).without_expiry();
            if name == "mayfly-sieve" {
                builder = builder.policy_named("sieve");
            }
            visit.visit(builder.build().expect("the settings are valid"))
        }
        "quick_cache" => visit.visit(quick_cache::sync::Cache::<u64, u64>::new(capacity)),
        "moka" => visit.visit(
            moka::sync::Cache::<u64, u64>::builder()
                .max_capacity(entries)
                .build_with_hasher(ahash::RandomState::new()),
        ),
        "mini-moka" => visit.visit(
            mini_moka::sync::Cache::<u64, u64>::builder()
                .max_capacity(entries)
                .build_with_hasher(ahash::RandomState::new()),
        ),
        "foyer" => visit.visit(
            FoyerBuilder::new(capacity)
                .with_shards(8)
                .with_eviction_config(S3FifoConfig::default())
                .build(),
        ),
        "lru" => {
            let capacity = NonZeroUsize::new(capacity)?;
            let cache = lru::LruCache::with_hasher(capacity, ahash::RandomState::new());
            visit.visit(Lru::new(cache))
        }
        _ => return None,
    })
}

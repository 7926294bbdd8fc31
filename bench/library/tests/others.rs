//! The left columns of `docs/guide/library-from-others.md`: each call exists as it is written.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn calls_of_moka() {
    use moka::sync::Cache;
    let cache: Cache<u64, u64> = Cache::builder()
        .max_capacity(10)
        .weigher(|_: &u64, _: &u64| 1)
        .time_to_live(Duration::from_secs(60))
        .time_to_idle(Duration::from_secs(30))
        .eviction_listener(|_: Arc<u64>, _: u64, _| {})
        .eviction_policy(moka::policy::EvictionPolicy::tiny_lfu())
        .support_invalidation_closures()
        .build();
    assert_eq!(cache.get_with(1, || 2), 2);
    let failed = cache.try_get_with(3, || Err::<u64, &str>("no"));
    assert_eq!(*failed.expect_err("an error"), "no");
    assert_eq!(cache.optionally_get_with(3, || None), None);
    assert_eq!(cache.entry(4).or_insert_with(|| 5).into_value(), 5);
    cache
        .entry(4)
        .and_compute_with(|present| match present.map(|entry| entry.into_value()) {
            Some(value) => moka::ops::compute::Op::Put(value + 1),
            None => moka::ops::compute::Op::Nop,
        });
    cache.invalidate(&1);
    assert_eq!(cache.remove(&4), Some(6));
    cache
        .invalidate_entries_if(|_, _| true)
        .expect("closures are supported");
    cache.invalidate_all();
    cache.run_pending_tasks();
    assert_eq!(cache.entry_count(), 0);
    let _: Cache<u64, u64> = Cache::new(10);
    struct After;
    impl moka::Expiry<u64, u64> for After {
        fn expire_after_create(&self, _: &u64, _: &u64, _: std::time::Instant) -> Option<Duration> {
            None
        }
    }
    let _: Cache<u64, u64> = Cache::builder().expire_after(After).build();
    let _ = moka::policy::EvictionPolicy::lru();
}

#[test]
fn calls_of_quick_cache() {
    use quick_cache::sync::{Cache, GuardResult};
    let cache: Cache<u64, u64> = Cache::new(10);
    cache.insert(1, 2);
    assert_eq!((cache.get(&1), cache.peek(&1)), (Some(2), Some(2)));
    assert_eq!(cache.get_or_insert_with(&3, || Ok::<_, ()>(4)), Ok(4));
    match cache.get_value_or_guard(&5, None) {
        GuardResult::Guard(guard) => assert!(guard.insert(6).is_ok()),
        GuardResult::Value(_) | GuardResult::Timeout => unreachable!("the key is absent"),
    }
    drop(cache.get_or_insert_async(&7, async { Ok::<_, ()>(8) }));
    #[derive(Clone)]
    struct One;
    impl quick_cache::Weighter<u64, u64> for One {
        fn weight(&self, _: &u64, _: &u64) -> u64 {
            1
        }
    }
    let _ = Cache::with_weighter(10, 100, One);
    let mut own = quick_cache::unsync::Cache::<u64, u64>::new(10);
    own.insert(1, 2);
    assert_eq!(own.get(&1), Some(&2));
}

#[test]
fn calls_of_foyer() {
    use foyer_memory::{CacheBuilder, S3FifoConfig};
    let cache: foyer_memory::Cache<u64, u64> = CacheBuilder::new(10)
        .with_shards(1)
        .with_weighter(|_: &u64, _: &u64| 1)
        .with_eviction_config(S3FifoConfig::default())
        .build();
    cache.insert(1, 2);
    assert_eq!(cache.get(&1).map(|entry| *entry.value()), Some(2));
}

#[test]
fn calls_of_lru() {
    let capacity = NonZeroUsize::new(2).expect("above 0");
    let mut cache = lru::LruCache::new(capacity);
    assert_eq!(cache.put(1, 2), None);
    assert_eq!(cache.get(&1), Some(&2));
    assert_eq!(cache.pop(&1), Some(2));
    cache.put(3, 4);
    *cache.get_mut(&3).expect("it is there") += 1;
    cache.resize(NonZeroUsize::new(1).expect("above 0"));
    assert_eq!(cache.iter().count(), 1);
}

//! Tests of the single-threaded cache: values that leave are returned or dropped immediately.

mod support;

use mayfly::unsync::{Cache, Settings};
use mayfly::{Clock, ManualClock, PolicySpec};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use support::{Census, Counted};

const MS: Duration = Duration::from_millis(1);

fn manual(capacity: u64) -> (Cache<u64, Counted>, ManualClock) {
    let clock = ManualClock::new();
    let settings = Settings {
        clock: Clock::Manual(clock.clone()),
        ..Settings::new(capacity)
    };
    (settings.build().expect("the settings are valid"), clock)
}

#[test]
fn whatever_leaves_is_dropped_at_once() {
    let census = Census::default();
    let (mut cache, clock) = manual(10);
    for number in 0..100 {
        let _ = cache.insert(number, census.value(number));
        assert_eq!(census.count() as usize, cache.len());
    }
    assert_eq!(cache.len(), 10);
    let kept: Vec<u64> = cache.iter().map(|(key, _)| *key).collect();
    let replaced = cache.insert(kept[0], census.value(7)).expect("it is live");
    assert_eq!((replaced.number, census.count()), (kept[0], 11));
    drop(replaced);
    assert_eq!(cache.set_capacity(4).len(), 6);
    assert_eq!((cache.capacity(), cache.len(), census.count()), (4, 4, 4));
    let kept: Vec<u64> = cache.iter().map(|(key, _)| *key).collect();
    cache.retain(|key, _| *key != kept[1]);
    assert_eq!((cache.contains_key(&kept[1]), census.count()), (false, 3));
    cache.insert_with_ttl(200, census.value(1), 5 * MS);
    clock.advance(6 * MS);
    assert!(!cache.contains_key(&200));
    assert!(cache.iter().all(|(key, _)| *key != 200), "it has expired");
    cache.retain(|_, _| true);
    assert_eq!(census.count(), 3, "expired entries leave as well");
    cache.clear();
    assert_eq!((cache.len(), census.count()), (0, 0));
    cache.insert(1, census.value(1));
    drop(cache);
    assert_eq!(census.count(), 0);
}

#[test]
fn values_need_be_neither_send_nor_owned() {
    let (text, number) = (String::from("key"), Rc::new(5));
    let mut cache: Cache<&str, Rc<i32>> = Cache::new(10);
    cache.insert(&text, number.clone());
    assert_eq!(cache.get("key").map(|number| **number), Some(5));
    let loaded = cache.get_or_insert_with(&text, || unreachable!("it is present"));
    assert_eq!(loaded.map(|number| Rc::strong_count(number)), Some(2));
    cache.clear();
    assert_eq!(Rc::strong_count(&number), 1);
    let mut empty: Cache<u32, u32> = Cache::new(0);
    assert_eq!(empty.get_or_insert_with(1, || 2), None);
}

/// Random operations compared with a map that is updated from the cache's results.
#[test]
fn every_policy_agrees_with_a_map() {
    let rounds = if cfg!(miri) { 200 } else { 3_000 };
    for policy in policy::any::POLICIES {
        let Some(spec) = policy.meta_bits.and_then(|_| policy.name.parse().ok()) else {
            continue;
        };
        if cfg!(miri) && spec != PolicySpec::default() {
            continue;
        }
        let mut settings = Settings::new(40);
        settings.policy = spec;
        let mut cache: Cache<u64, u64> = settings.build().expect("the policy is served");
        let mut model = BTreeMap::new();
        let mut random = policy::parts::chance::Chance::new(7);
        for number in 0..rounds {
            let key = random.bits() % 90;
            match random.bits() % 8 {
                0..3 => {
                    let before = cache.insert(key, number);
                    let known = model.insert(key, number);
                    assert!(before.is_none() || before == known);
                }
                3 => {
                    let removed = cache.remove(&key);
                    let known = model.remove(&key);
                    assert!(removed.is_none() || removed == known);
                }
                4 if number % 64 == 0 => {
                    for (key, value) in cache.set_capacity(20 + key % 40) {
                        assert_eq!(model.remove(&key), Some(value));
                    }
                }
                5 if number % 64 == 0 => {
                    cache.retain(|key, _| key % 3 != 0);
                    model.retain(|key, _| key % 3 != 0);
                }
                _ => {
                    let found = cache.get(&key).copied();
                    assert!(found.is_none() || found == model.get(&key).copied());
                }
            }
            // What was evicted is known only from what is left.
            if number % 16 == 0 {
                let left: BTreeMap<u64, u64> = cache.iter().map(|(k, v)| (*k, *v)).collect();
                assert_eq!(left.len(), cache.len());
                assert!(
                    left.iter()
                        .all(|(key, value)| model.get(key) == Some(value))
                );
                model = left;
            }
            assert!(cache.len() as u64 <= cache.capacity());
        }
    }
}

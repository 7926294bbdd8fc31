//! Changes of a key while its value is loaded: a load must not undo them.
//!
//! Regression: a load stored its value even if the key had changed since the load began, so that a
//! newer value was lost, and a value that had been invalidated was cached again.

use mayfly::{Cache, Clock, Loading, ManualClock, Op};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

type Settings = mayfly::CacheBuilder<u32, u32>;
type Right = Loading<u32, u32, mayfly::RandomState>;

fn build(set: impl FnOnce(Settings) -> Settings) -> (Cache<u32, u32>, ManualClock) {
    let clock = ManualClock::new();
    let settings = Cache::builder(100).clock(Clock::Manual(clock.clone()));
    let cache = set(settings).build().expect("the settings are valid");
    (cache, clock)
}

type Change = fn(&Cache<u32, u32>);
type Load = fn(&Cache<u32, u32>, &dyn Fn()) -> Option<u32>;

/// Changes of key 1, and the value afterwards.
const CHANGES: [(&str, Change, Option<u32>); 11] = [
    ("insert", |cache| cache.insert(1, 2), Some(2)),
    (
        "insert_with_ttl",
        |cache| cache.insert_with_ttl(1, 2, SECOND),
        Some(2),
    ),
    (
        "an insertion that expires at once",
        |cache| cache.insert_with_ttl(1, 2, Duration::ZERO),
        None,
    ),
    ("remove", |cache| _ = cache.remove(&1), None),
    ("take", |cache| _ = cache.take(&1), None),
    ("clear", |cache| cache.clear(), None),
    (
        "invalidate_if",
        |cache| _ = cache.invalidate_if(|key, _| *key == 1),
        None,
    ),
    (
        "compute that stores",
        |cache| _ = cache.compute(1, |_| Op::Put(2)),
        Some(2),
    ),
    (
        "compute that removes",
        |cache| _ = cache.compute(1, |_| Op::Remove),
        None,
    ),
    (
        "entry",
        |cache| _ = cache.entry(1).and_modify(|_| 2).or_insert(2),
        Some(2),
    ),
    (
        "set_ttl of a new entry",
        |cache| {
            cache.insert(1, 2);
            cache.set_ttl(&1, Some(SECOND));
        },
        Some(2),
    ),
];

/// Loads of key 1 by every call that loads. Each calls a function during the load.
const LOADS: [(&str, Load); 8] = [
    ("get_with", |cache, during| {
        Some(cache.get_with(1, || {
            during();
            1
        }))
    }),
    ("try_get_with", |cache, during| {
        let load = || {
            during();
            Ok::<u32, u8>(1)
        };
        cache.try_get_with(1, load).ok()
    }),
    ("optionally_get_with", |cache, during| {
        cache.optionally_get_with(1, || {
            during();
            Some(1)
        })
    }),
    ("optionally_get_with without a value", |cache, during| {
        cache.optionally_get_with(1, || {
            during();
            None
        })
    }),
    ("get_with_async", |cache, during| {
        let load = async {
            during();
            1
        };
        Some(ready(cache.get_with_async(1, load)))
    }),
    ("entry().or_insert_with", |cache, during| {
        Some(cache.entry(1).or_insert_with(|| {
            during();
            1
        }))
    }),
    ("get_or_refresh", |cache, during| {
        let mut right = None;
        cache.get_or_refresh(1, |loading| right = Some(loading));
        during();
        right.expect("nobody else loads").complete(1);
        Some(1)
    }),
    ("begin_load", |cache, during| {
        let loading = cache.begin_load(1);
        assert!(loading.is_current());
        during();
        assert!(!loading.is_current());
        loading.complete(1);
        Some(1)
    }),
];

/// Returns the output of a future that does not wait.
fn ready<F: Future>(future: F) -> F::Output {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => unreachable!("the future does not wait"),
    }
}

#[test]
fn no_load_undoes_a_change_of_its_key() {
    for (change_name, change, after) in CHANGES {
        for (load_name, load) in LOADS {
            let (cache, _) = build(|settings| settings.negative_ttl(100 * SECOND));
            let loaded = load(&cache, &|| change(&cache));
            let has_value = !load_name.ends_with("without a value");
            assert_eq!(loaded, has_value.then_some(1), "{load_name}");
            let present = cache.get(&1);
            assert_eq!(present, after, "{change_name} during {load_name}");
            // No absence is remembered either.
            cache.remove(&1);
            let next = cache.optionally_get_with(1, || Some(3));
            assert_eq!(next, Some(3), "{change_name} during {load_name}");
            cache.check();
        }
    }
}

#[test]
fn a_reload_undoes_no_change_of_its_key() {
    let long = 1_000 * SECOND;
    let refreshing = || {
        let (cache, clock) = build(|settings| settings.ttl(60 * SECOND).refresh_ahead(50 * SECOND));
        cache.insert(1, 0);
        clock.advance(20 * SECOND);
        let mut right = None;
        let stale = cache.get_or_refresh(1, |loading| right = Some(loading));
        assert_eq!(stale, Some(0));
        (cache, right.expect("nobody else loads"))
    };
    for (name, change, after) in CHANGES {
        let (cache, right) = refreshing();
        change(&cache);
        right.complete(1);
        assert_eq!(cache.get(&1), after, "{name}");
    }
    let (cache, right) = refreshing();
    assert!(cache.set_ttl(&1, Some(long)));
    right.complete(1);
    assert_eq!(cache.get(&1), Some(0));
    assert_eq!(cache.time_to_live(&1), Some(long), "the new time is kept");
}

#[test]
fn a_load_stores_its_value_if_the_entry_was_evicted_or_has_expired() {
    let (cache, clock) = build(|settings| settings.ttl(60 * SECOND).refresh_ahead(50 * SECOND));
    let reload = || {
        cache.insert(1, 0);
        clock.advance(20 * SECOND);
        let mut right = None;
        cache.get_or_refresh(1, |loading| right = Some(loading));
        right.expect("nobody else loads")
    };
    let right = reload();
    clock.advance(100 * SECOND);
    assert_eq!(cache.expire(), 1);
    right.complete(1);
    assert_eq!(cache.get(&1), Some(1));
    let right = reload();
    cache.set_capacity(0);
    cache.set_capacity(100);
    right.complete(2);
    assert_eq!(cache.get(&1), Some(2));
}

#[test]
fn callers_after_a_change_do_not_wait_for_a_load_that_began_before_it() {
    let (cache, _) = build(|settings| settings);
    let right = |cache: &Cache<u32, u32>| {
        let mut right = None;
        cache.get_or_refresh(1, |loading| right = Some(loading));
        right
    };
    let old = right(&cache).expect("nobody else loads");
    assert!(right(&cache).is_none(), "one loads");
    cache.remove(&1);
    let new = right(&cache).expect("the other load began before the removal");
    assert!(right(&cache).is_none(), "one loads");
    old.complete(1);
    assert_eq!(cache.get(&1), None);
    assert!(right(&cache).is_none(), "the newer load goes on");
    new.complete(2);
    assert_eq!(cache.get(&1), Some(2));
}

#[test]
fn the_first_of_several_loads_that_a_program_coordinates_stores_its_value() {
    let (cache, _) = build(|settings| settings);
    let (first, second) = (cache.begin_load(1), cache.begin_load(1));
    drop(cache.begin_load(1));
    assert_eq!(cache.get_with(2, || 2), 2, "others load as usual");
    second.complete_with_ttl(3, SECOND);
    assert!(!first.is_current());
    first.complete(1);
    assert_eq!(cache.get(&1), Some(3));
    assert_eq!(cache.time_to_live(&1), Some(SECOND));
    // A value that is present does not end a load.
    cache.begin_load(1).complete(4);
    assert_eq!(cache.get(&1), Some(4));
    let stats = cache.stats();
    assert_eq!((stats.loads, stats.failed_loads), (4, 1));
    cache.check();
}

#[test]
fn a_reload_that_finds_nothing_removes_the_value_and_is_remembered() {
    // Regression: the old value stayed until its deadline, and each call loaded again.
    let (cache, clock) = build(|settings| {
        let settings = settings.ttl(60 * SECOND).refresh_ahead(50 * SECOND);
        settings.negative_ttl(5 * SECOND)
    });
    cache.insert(1, 1);
    clock.advance(20 * SECOND);
    assert_eq!(cache.optionally_get_with(1, || None), None);
    assert_eq!(cache.get(&1), None);
    let again = cache.optionally_get_with(1, || unreachable!("the absence is remembered"));
    assert_eq!(again, None);
    let stats = cache.stats();
    assert_eq!((stats.removed, stats.negative_hits), (1, 1));
    clock.advance(6 * SECOND);
    assert_eq!(cache.optionally_get_with(1, || Some(2)), Some(2));
}

#[test]
fn a_change_of_a_key_forgets_its_absence() {
    for (name, change, after) in CHANGES {
        let (cache, _) = build(|settings| settings.negative_ttl(5 * SECOND));
        assert_eq!(cache.optionally_get_with(1, || None), None);
        change(&cache);
        let next = cache.optionally_get_with(1, || Some(3));
        assert_eq!(next, after.or(Some(3)), "{name}");
    }
}

/// A step of a history: an operation on a key.
#[derive(Clone, Copy, Debug)]
enum Step {
    Begin,
    Complete,
    Fail,
    Insert,
    Remove,
    SetTtl,
    Clear,
    Invalidate,
}

/// Runs a history of loads and changes, and compares each step with a model: of each key the value,
/// and the load that may store.
fn run(steps: &[(Step, u32)]) {
    let (cache, _) = build(|settings| settings);
    let mut values: BTreeMap<u32, u32> = BTreeMap::new();
    let mut current: BTreeMap<u32, u32> = BTreeMap::new();
    let mut rights: Vec<(u32, Right)> = Vec::new();
    for (number, &(step, key)) in steps.iter().enumerate() {
        let number = number as u32;
        match step {
            Step::Begin => {
                let mut right = None;
                let found = cache.get_or_refresh(key, |loading| right = Some(loading));
                assert_eq!(found, values.get(&key).copied());
                let is_leader = found.is_none() && !current.contains_key(&key);
                assert_eq!(right.is_some(), is_leader, "one current load per key");
                if let Some(right) = right {
                    current.insert(key, number);
                    rights.push((number, right));
                }
            }
            Step::Complete | Step::Fail => {
                if rights.is_empty() {
                    continue;
                }
                let (load, right) = rights.swap_remove(key as usize % rights.len());
                let key = *right.key();
                let may_store = current.get(&key) == Some(&load);
                if may_store {
                    current.remove(&key);
                }
                match step {
                    Step::Complete => {
                        right.complete(load);
                        if may_store {
                            values.insert(key, load);
                        }
                    }
                    _ => drop(right),
                }
            }
            Step::Insert => {
                cache.insert(key, number);
                values.insert(key, number);
                current.remove(&key);
            }
            Step::Remove => {
                assert_eq!(cache.remove(&key), values.remove(&key).is_some());
                current.remove(&key);
            }
            Step::SetTtl => {
                let is_there = cache.set_ttl(&key, Some(100 * SECOND));
                assert_eq!(is_there, values.contains_key(&key));
                if is_there {
                    current.remove(&key);
                }
            }
            Step::Clear => {
                cache.clear();
                values.clear();
                current.clear();
            }
            Step::Invalidate => {
                cache.invalidate_if(|other, _| *other == key);
                values.remove(&key);
                current.clear();
            }
        }
        for key in 0..4 {
            assert_eq!(cache.peek(&key), values.get(&key).copied(), "step {number}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn loads_and_changes_in_any_order_behave_as_the_model(
        steps in prop::collection::vec(
            (prop::sample::select(vec![
                Step::Begin, Step::Begin, Step::Complete, Step::Complete, Step::Fail, Step::Insert,
                Step::Remove, Step::SetTtl, Step::Clear, Step::Invalidate,
            ]), 0..4_u32),
            0..60,
        ),
    ) {
        run(&steps);
    }
}

#[test]
fn a_value_that_was_invalidated_is_never_returned_to_a_later_caller() {
    // Writers change the source and then invalidate the key. A caller that begins afterwards must
    // see the change.
    let cache: Cache<u32, u64> = Cache::new(100);
    let source: Arc<[AtomicU64; 2]> = Arc::default();
    let (done, start) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(4)));
    let rounds = if cfg!(miri) { 20 } else { 3_000 };
    let spawn = |number: usize| {
        let (cache, source) = (cache.clone(), source.clone());
        let (done, start) = (done.clone(), start.clone());
        thread::spawn(move || {
            start.wait();
            let key = number % 2;
            let load = || {
                let value = source[key].load(SeqCst);
                thread::yield_now();
                value
            };
            if number < 2 {
                for round in 1..rounds {
                    source[key].store(round, SeqCst);
                    match round % 3 {
                        0 => cache.clear(),
                        1 => _ = cache.remove(&(key as u32)),
                        _ => _ = cache.invalidate_if(|other, _| *other == key as u32),
                    }
                    assert_eq!(cache.get_with(key as u32, load), round);
                    assert_eq!(cache.get(&(key as u32)).unwrap_or(round), round);
                }
                done.store(true, SeqCst);
            } else {
                while !done.load(SeqCst) {
                    let least = source[key].load(SeqCst).saturating_sub(1);
                    assert!(cache.get_with(key as u32, load) >= least);
                }
            }
        })
    };
    let threads: Vec<_> = (0..4).map(spawn).collect();
    for thread in threads {
        thread.join().expect("no panic");
    }
    cache.check();
}

/// A key that counts its clones.
#[derive(Debug)]
struct Dear<'a>(u32, &'a AtomicU64);

impl Clone for Dear<'_> {
    fn clone(&self) -> Self {
        self.1.fetch_add(1, SeqCst);
        Dear(self.0, self.1)
    }
}
impl PartialEq for Dear<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl Eq for Dear<'_> {}
impl std::hash::Hash for Dear<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

#[test]
fn a_look_up_by_reference_makes_a_key_only_to_load() {
    static CLONES: AtomicU64 = AtomicU64::new(0);
    let count = || CLONES.swap(0, SeqCst);
    let cache: Cache<Dear<'static>, u32> = Cache::builder(100)
        .negative_ttl(SECOND)
        .build()
        .expect("the settings are valid");
    let key = Dear(1, &CLONES);
    assert_eq!(cache.get_with_by_ref(&key, || 5), 5);
    assert_eq!(count(), 2, "for those that wait, and for the entry");
    assert_eq!(cache.get_with_by_ref(&key, || 6), 5);
    assert_eq!(cache.try_get_with_by_ref(&key, || Err::<u32, u8>(1)), Ok(5));
    assert_eq!(cache.optionally_get_with_by_ref(&key, || None), Some(5));
    assert_eq!(ready(cache.get_with_by_ref_async(&key, async { 6 })), 5);
    let load = async { Err::<u32, u8>(1) };
    assert_eq!(ready(cache.try_get_with_by_ref_async(&key, load)), Ok(5));
    let load = async { None };
    assert_eq!(
        ready(cache.optionally_get_with_by_ref_async(&key, load)),
        Some(5)
    );
    assert_eq!(cache.get_or_refresh_by_ref(&key, drop), Some(5));
    assert_eq!(count(), 0, "a hit needs no key");
    let other = Dear(2, &CLONES);
    let mut right = None;
    cache.get_or_refresh_by_ref(&other, |loading| right = Some(loading));
    assert_eq!(count(), 1);
    assert_eq!(cache.get_or_refresh_by_ref(&other, drop), None);
    assert_eq!(count(), 0, "a caller that does not load needs no key");
    drop(right);
}

#[test]
fn borrowed_forms_of_a_key_find_it() {
    let cache: Cache<String, usize> = Cache::new(100);
    let length = |key: &str| cache.get_with_by_ref(key, || key.len());
    assert_eq!((length("one"), length("three"), length("one")), (3, 5, 3));
    assert_eq!(cache.len(), 2);
    assert_eq!(cache.get("three"), Some(5));
}

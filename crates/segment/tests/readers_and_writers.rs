//! Many threads at once: readers never return another key's bytes or half a value, and no write or
//! increment is lost.

use policy::groups::{Features, Groups};
use policy::{Budget, Tick};
use segment::{Condition, Config, Eviction, Item, Segcache, Unchanged, Value, Writer};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// Rounds of each writer, enough for every segment to be reused many times.
const ROUNDS: u64 = if cfg!(miri) { 150 } else { 60_000 };
/// Hits that writers wait for, because readers may run late on a busy machine; for at most a
/// multiple of the rounds.
const HITS: u64 = if cfg!(miri) { 10 } else { 1_000 };
const PATIENCE: u64 = 50;
const KEYS: u64 = if cfg!(miri) { 40 } else { 2_000 };
const READERS: u64 = 2;
const WRITERS: u16 = 2;

fn mix(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

fn name(key: u64) -> Vec<u8> {
    format!("key-{key:08}{}", "k".repeat((key % 23) as usize)).into_bytes()
}

/// Returns a value that contains its key, its version and its length in every byte.
fn value_of(key: u64, version: u64) -> Vec<u8> {
    let len = 16 + mix(key ^ version) % 300;
    let mut value = key.to_le_bytes().to_vec();
    value.extend(version.to_le_bytes());
    value.extend((16..len).map(|at| mix(key ^ version << 20 ^ at) as u8));
    value
}

fn assert_whole(key: u64, value: &[u8]) {
    let (of_key, rest) = value.split_first_chunk::<8>().expect("a key");
    let (version, _) = rest.split_first_chunk::<8>().expect("a version");
    assert_eq!(u64::from_le_bytes(*of_key), key, "another key's bytes");
    assert_eq!(
        value,
        value_of(key, u64::from_le_bytes(*version)),
        "a torn value"
    );
}

fn small(eviction: Eviction, segments: u64) -> Segcache {
    let config = Config {
        memory_bytes: segments * 4_500 + 96_000,
        segment_bytes: 4 << 10,
        writers: WRITERS,
        eviction,
        ..Config::default()
    };
    Segcache::new(&config).expect("large enough")
}

/// Runs one writer: sets with many TTLs, deletes and touches, while time passes. It continues until
/// there were enough hits.
fn write(cache: &Segcache, number: u64, clock: &AtomicU64, hits: &AtomicU64) {
    let mut writer = cache.writer().expect("one of those configured");
    for round in 0..ROUNDS * PATIENCE {
        if round >= ROUNDS && hits.load(Ordering::Relaxed) >= HITS {
            break;
        }
        let random = mix(round << 8 | number);
        let now = Tick(clock.fetch_add(random % 3, Ordering::Relaxed));
        let key = random >> 16 & 0xffff;
        let key = key % KEYS;
        let name = name(key);
        let hashed = cache.key(&name);
        let ttl = [None, Some(300), Some(3_000), Some(20_000)][(random >> 40 & 3) as usize];
        match random >> 48 & 15 {
            0 => {
                let _was_there = cache.delete(&hashed, Condition::Always, now);
            }
            1 => {
                let _absent = cache.touch(&mut writer, &hashed, ttl, now);
            }
            2 => {
                cache.maintain(&mut writer, now, &mut Budget(20));
            }
            3 | 4 => add_one(cache, &mut writer, key, now),
            _ => {
                let value = value_of(key, round << 1 | number);
                let value = Value::plain(&value);
                let always = Condition::Always;
                let stored = cache.set(&mut writer, &hashed, value, ttl, always, now);
                assert!(stored.is_ok(), "{stored:?}");
            }
        }
    }
    cache.close(writer);
}

/// Returns the name of a key, with its number in the high half.
fn name_of_number(key: u64) -> Vec<u8> {
    format!("number-{key}").into_bytes()
}

/// Increments a key's number, or stores it.
fn add_one(cache: &Segcache, writer: &mut Writer, key: u64, now: Tick) {
    let name = name_of_number(key);
    let hashed = cache.key(&name);
    let change = |old: u64| {
        assert_eq!(old >> 32, key, "another key's number");
        old.checked_add(1)
    };
    let number_of = |_: &Item, text: &[u8]| segment::decimal(text);
    let added = cache.update_number(writer, &hashed, now, number_of, change);
    match added {
        Ok((number, _)) => assert_eq!(number >> 32, key),
        Err(Unchanged::Absent) => {
            let digits = (key << 32).to_string();
            let value = Value::plain(digits.as_bytes());
            let ttl = Some(3_000);
            let stored = cache.set(writer, &hashed, value, ttl, Condition::Always, now);
            assert!(stored.is_ok(), "{stored:?}");
        }
        Err(Unchanged::Refused(_)) => {}
        Err(why) => panic!("{why:?}"),
    }
}

fn read(cache: &Segcache, number: u64, clock: &AtomicU64, is_over: &AtomicBool, hits: &AtomicU64) {
    let mut out = vec![];
    let mut round = 0;
    while !is_over.load(Ordering::Relaxed) {
        round += 1;
        let key = mix(round << 8 | number) % KEYS;
        out.clear();
        let now = Tick(clock.load(Ordering::Relaxed));
        if let Some(item) = cache.get(&cache.key(&name(key)), now, &mut out) {
            assert!(item.deadline.is_none_or(|deadline| now <= deadline));
            assert_eq!(item.len, out.len());
            assert_whole(key, &out);
            hits.fetch_add(1, Ordering::Relaxed);
        }
        out.clear();
        let name = name_of_number(key);
        if cache.get(&cache.key(&name), now, &mut out).is_some() {
            let digits = std::str::from_utf8(&out).expect("digits");
            let number: u64 = digits.parse().expect("digits");
            assert_eq!(number >> 32, key, "another key's number");
        }
    }
}

#[test]
fn a_reader_never_returns_other_bytes_while_segments_are_reused() {
    for eviction in Eviction::ALL {
        if eviction == Eviction::None || cfg!(miri) && eviction != Eviction::Rent {
            continue;
        }
        let cache = small(eviction, if cfg!(miri) { 24 } else { 64 });
        let clock = AtomicU64::new(1_700_000_000_000);
        let (is_over, hits) = (AtomicBool::new(false), AtomicU64::new(0));
        thread::scope(|scope| {
            let (cache, clock, is_over, hits) = (&cache, &clock, &is_over, &hits);
            for number in 0..READERS {
                scope.spawn(move || read(cache, number, clock, is_over, hits));
            }
            let writers = (0..u64::from(WRITERS))
                .map(|number| scope.spawn(move || write(cache, number, clock, hits)));
            let writers: Vec<_> = writers.collect();
            for writer in writers {
                writer.join().expect("no writer panics");
            }
            is_over.store(true, Ordering::Relaxed);
        });
        cache.check();
        let (stats, hits) = (cache.stats(), hits.into_inner());
        assert!(hits >= HITS, "{hits} hits");
        if !cfg!(miri) {
            assert!(
                stats.segments_evicted + stats.segments_expired > 1_000,
                "{stats:?}"
            );
        }
    }
}

/// While the table grows, a thread finds what it has stored, and so does another thread that was
/// notified.
#[test]
fn no_object_is_missed_while_the_table_grows() {
    let keys: u64 = if cfg!(miri) { 300 } else { 120_000 };
    let cache = small(Eviction::None, if cfg!(miri) { 40 } else { 5_000 });
    let stored = [AtomicU64::new(0), AtomicU64::new(0)];
    thread::scope(|scope| {
        let (cache, stored) = (&cache, &stored);
        for number in 0..2u64 {
            scope.spawn(move || {
                let mut writer = cache.writer().expect("one of those configured");
                let mut out = vec![];
                for index in 0..keys {
                    let key = index * 2 + number;
                    let value = key.to_le_bytes();
                    let bytes = key.to_be_bytes();
                    let name = cache.key(&bytes);
                    let value = Value::plain(&value);
                    let set =
                        cache.set(&mut writer, &name, value, None, Condition::Absent, Tick(9));
                    assert!(set.is_ok(), "{set:?}");
                    stored[number as usize].store(index + 1, Ordering::Release);
                    // One of this thread's keys, and one of the other's.
                    for other in 0..2u64 {
                        let count = stored[other as usize].load(Ordering::Acquire);
                        if count == 0 {
                            continue;
                        }
                        let key = mix(index) % count * 2 + other;
                        out.clear();
                        let found = cache.get(&cache.key(&key.to_be_bytes()), Tick(9), &mut out);
                        assert!(found.is_some(), "{key} was missed");
                        assert_eq!(out, key.to_le_bytes());
                    }
                }
                cache.close(writer);
            });
        }
    });
    cache.check();
    assert_eq!(cache.len(), 2 * keys);
    assert!(cfg!(miri) || cache.stats().table_chains > 20_000);
}

/// Increments numbers in place while merges move the numbers. An evicted number starts again from a
/// start that was not used before, so that no two increments return the same sum.
#[test]
fn no_increment_is_lost() {
    const COUNTERS: u64 = 40;
    let rounds = if cfg!(miri) { 200 } else { 60_000u64 };
    let cache = small(Eviction::Rent, 24);
    let clock = AtomicU64::new(1);
    let births = AtomicU64::new(1);
    let sums = thread::scope(|scope| {
        let add = |number: u64| {
            let (cache, clock, births) = (&cache, &clock, &births);
            move || add_up(cache, clock, births, number, COUNTERS, rounds)
        };
        let adders = (0..u64::from(WRITERS)).map(|number| scope.spawn(add(number)));
        let adders: Vec<_> = adders.collect();
        let sums = adders
            .into_iter()
            .map(|adder| adder.join().expect("no adder panics"));
        sums.flatten().collect::<Vec<_>>()
    });
    let count = sums.len();
    let distinct: std::collections::BTreeSet<_> = sums.into_iter().collect();
    assert_eq!(distinct.len(), count, "an addition was lost");
    cache.check();
    let stats = cache.stats();
    assert!(
        cfg!(miri) || stats.kept > 1_000 && stats.merges > 100,
        "{stats:?}"
    );
}

fn add_up(
    cache: &Segcache,
    clock: &AtomicU64,
    births: &AtomicU64,
    number: u64,
    counters: u64,
    rounds: u64,
) -> Vec<(u64, u64)> {
    let mut writer = cache.writer().expect("one of those configured");
    let mut sums = vec![];
    for round in 0..rounds {
        // Seconds pass, so that incremented keys are counted as requested.
        let now = Tick(clock.fetch_add(100, Ordering::Relaxed));
        let random = mix(round << 4 | number);
        let counter = random % counters;
        let name = name(counter);
        let key = cache.key(&name);
        let _seen = cache.contains(&key, now);
        let number_of = |_: &Item, text: &[u8]| segment::decimal(text);
        match cache.update_number(&mut writer, &key, now, number_of, |old| old.checked_add(1)) {
            Ok((sum, _)) => sums.push((counter, sum)),
            Err(Unchanged::Absent) => {
                let first = births.fetch_add(1, Ordering::Relaxed) << 32;
                let digits = first.to_string().into_bytes();
                let value = Value::plain(&digits);
                let _met = cache.set(&mut writer, &key, value, None, Condition::Absent, now);
            }
            // It was evicted, or other keys of its chain change often.
            Err(Unchanged::Refused(_)) => {}
            Err(why) => panic!("{why:?}"),
        }
        let other = value_of(1_000 + random % 5_000, round);
        let other_name = name_of_other(random);
        let other = Value::plain(&other);
        let key = cache.key(&other_name);
        let set = cache.set(&mut writer, &key, other, None, Condition::Always, now);
        assert!(set.is_ok(), "{set:?}");
    }
    cache.close(writer);
    sums
}

fn name_of_other(random: u64) -> Vec<u8> {
    name(1_000 + random % 5_000)
}

/// Any eviction takes over from any other while segments are reused, and none runs out of room.
#[test]
fn evictions_take_over_from_each_other_under_load() {
    let all = Eviction::ALL
        .into_iter()
        .filter(|&one| one != Eviction::None);
    let pairs = all
        .clone()
        .flat_map(|one| all.clone().map(move |other| [one, other]));
    let pairs = pairs.take(if cfg!(miri) { 3 } else { usize::MAX });
    let cache = small(Eviction::Fifo, if cfg!(miri) { 24 } else { 64 });
    let clock = AtomicU64::new(1_700_000_000_000);
    let (is_over, hits) = (AtomicBool::new(false), AtomicU64::new(0));
    // The writers continue until all changes were made.
    let (made, samples) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        let (cache, clock, is_over, hits, made) = (&cache, &clock, &is_over, &hits, &made);
        let samples = &samples;
        let reader = scope.spawn(move || read(cache, 1, clock, is_over, hits));
        let learner = scope.spawn(move || learn(cache, clock, is_over, samples));
        let writers = (0..u64::from(WRITERS))
            .map(|number| scope.spawn(move || write(cache, number, clock, made)));
        let writers: Vec<_> = writers.collect();
        let work = || {
            let stats = cache.stats();
            stats.segments_evicted + stats.segments_expired
        };
        for eviction in pairs.flatten() {
            assert_eq!(cache.set_eviction(eviction), Ok(()));
            assert_eq!(cache.eviction(), eviction);
            let before = work();
            while work() == before && writers.iter().any(|writer| !writer.is_finished()) {
                thread::yield_now();
            }
        }
        // Some rankings are applied, too; Miri's cache is too small to learn.
        assert_eq!(cache.set_eviction(Eviction::GlCache), Ok(()));
        let is_heeded = || samples.load(Ordering::Relaxed) > 0 && cache.stats().segments_ranked > 0;
        while !cfg!(miri) && !is_heeded() && writers.iter().any(|writer| !writer.is_finished()) {
            thread::yield_now();
        }
        assert!(cfg!(miri) || is_heeded(), "{:?}", cache.stats());
        made.store(HITS, Ordering::Relaxed);
        for writer in writers {
            writer.join().expect("no writer panics");
        }
        is_over.store(true, Ordering::Relaxed);
        reader.join().expect("no reader panics");
        learner.join().expect("no learner panics");
    });
    cache.check();
}

/// Samples, takes samples and ranks all the time, whether that is used or not; the segments
/// requested least come first. Counts the samples taken.
fn learn(cache: &Segcache, clock: &AtomicU64, is_over: &AtomicBool, samples: &AtomicU64) {
    let mut round = 0;
    while !is_over.load(Ordering::Relaxed) {
        round += 1;
        let now = Tick(clock.load(Ordering::Relaxed));
        let _is_sampled = cache.sample(mix(round), now);
        if round % 16 == 0 {
            let mut each = |features: &Features, utility: f64| {
                assert!(features.iter().all(|feature| feature.is_finite()));
                assert!(utility.is_finite() && utility >= 0.0);
                samples.fetch_add(1, Ordering::Relaxed);
            };
            cache.take_samples(Tick(now.0.saturating_sub(100)), &mut each);
        }
        if cache.wants_ranking() {
            let mut groups = vec![];
            cache.each_group(now, &mut |name, features| groups.push((features[5], name)));
            groups.sort_by(|a, b| a.0.total_cmp(&b.0));
            let names: Vec<_> = groups.into_iter().map(|(_, name)| name).collect();
            cache.rank(&names[..names.len().min(8)], 4);
        }
        thread::yield_now();
    }
}

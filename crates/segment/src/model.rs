//! Loom models of the lock-free code. Loom runs each model in every order of its threads' steps,
//! with every value that the language lets a load see, up to a number of preemptions.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --package mayfly-cache-segment --lib model      2 preemptions
//! LOOM_MAX_PREEMPTIONS=3 …                                                    more
//! ```
//! The models run the engine's own code. Its segments have one cache line, and its table begins
//! with one chain.

use crate::config::{Config, ConfigError, Eviction};
use crate::engine::Segcache;
use crate::storage::{Condition, Stored, Value, decimal};
use crate::sync::explore;
use crate::writer::Writer;
use loom::thread;
use policy::Tick;
use std::sync::Arc;

const NOW: Tick = Tick(5_000);

/// Creates the smallest possible engine.
fn engine(eviction: Eviction, writers: u16) -> Arc<Segcache> {
    let config = |memory_bytes| Config {
        memory_bytes,
        segment_bytes: 64,
        writers,
        eviction,
        merged: 2,
        ..Config::default()
    };
    let Err(ConfigError::TooSmall { needed_bytes }) = Segcache::<Stored>::new(&config(0)) else {
        panic!("no memory is too little");
    };
    Arc::new(Segcache::new(&config(needed_bytes)).expect("as much as is needed"))
}

fn value_of(key: &[u8; 1]) -> [u8; 30] {
    [key[0]; 30]
}

fn set(cache: &Segcache, writer: &mut Writer, key: &[u8; 1]) {
    let value = value_of(key);
    let value = Value::plain(&value);
    let hashed = cache.key(key);
    let stored = cache.set(writer, &hashed, value, None, Condition::Always, NOW);
    assert!(stored.is_ok());
}

/// Returns true if a key is found. Panics if the value belongs to another key.
fn get(cache: &Segcache, key: &[u8; 1]) -> bool {
    let mut out = vec![];
    let found = cache.get(&cache.key(key), NOW, &mut out);
    if found.is_some() {
        assert_eq!(out, value_of(key), "another key's bytes, or half a value");
    }
    found.is_some()
}

/// With one object in each segment: the last set evicts the first object, and is written to its
/// memory.
#[test]
fn a_reader_gets_its_value_or_nothing_while_the_segment_is_freed() {
    explore(|| {
        let cache = engine(Eviction::Fifo, 1);
        let mut writer = cache.writer().expect("the first");
        for key in [b"a", b"b", b"c", b"d"] {
            set(&cache, &mut writer, key);
        }
        assert!(get(&cache, b"a"));
        let reader = {
            let cache = Arc::clone(&cache);
            thread::spawn(move || {
                get(&cache, b"a");
                get(&cache, b"e");
            })
        };
        set(&cache, &mut writer, b"e");
        reader.join().expect("no panic");
        assert!(get(&cache, b"e"));
        assert!(!get(&cache, b"a"), "nothing was evicted");
    });
}

/// A value is overwritten in another segment. A reader finds either the old or the new value.
#[test]
fn an_overwritten_key_is_never_missed() {
    explore(|| {
        let cache = engine(Eviction::None, 1);
        let mut writer = cache.writer().expect("the first");
        set(&cache, &mut writer, b"a");
        let reader = {
            let cache = Arc::clone(&cache);
            thread::spawn(move || assert!(get(&cache, b"a"), "it was missed"))
        };
        set(&cache, &mut writer, b"a");
        reader.join().expect("no panic");
    });
}

/// The segment of a number is merged into another while the number is incremented.
#[test]
fn a_merge_loses_no_increment() {
    explore(|| {
        let cache = engine(Eviction::Merge, 2);
        let mut writer = cache.writer().expect("the first");
        let mut other = cache.writer().expect("the second");
        let add = |writer: &mut _| {
            let key = cache.key(b"n");
            let change = |old: u64| old.checked_add(1);
            let updated = cache.update_number(writer, &key, NOW, |_, text| decimal(text), change);
            updated.expect("it is a number").0
        };
        let key = cache.key(b"n");
        let digits = Value::plain(b"40");
        let stored = cache.set(&mut writer, &key, digits, None, Condition::Always, NOW);
        assert!(stored.is_ok());
        assert_eq!(add(&mut writer), 41);
        // The first segment then holds only the number, and the second only the last x. Both fit
        // into one.
        for key in [b"x", b"x", b"y"] {
            set(&cache, &mut writer, key);
        }
        let merger = {
            let cache = Arc::clone(&cache);
            thread::spawn(move || {
                writer.job = cache.evictor().begin_eviction(NOW, false);
                assert!(writer.job.is_some(), "two segments are full");
                cache.finish_job(&mut writer);
            })
        };
        assert_eq!(add(&mut other), 42);
        merger.join().expect("no panic");
        let mut out = vec![];
        assert!(cache.get(&key, NOW, &mut out).is_some());
        assert_eq!(out, b"42");
    });
}

//! Loom's models of what goes on without locks: each runs in every order of its threads' steps, with every value
//! that the language lets a load see, as far as a number of interruptions allows.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --package mayfly-segment --lib model      2 interruptions
//! LOOM_MAX_PREEMPTIONS=3 …                                                    more
//! ```
//! The code is the engine's own; its segments are of one cache line, its table begins with one chain.

use crate::config::{Config, ConfigError, Eviction};
use crate::engine::{Condition, Segcache};
use crate::storage::chain::Chain;
use crate::storage::chains::Chains;
use crate::storage::heap::{Heap, Place, SegmentId};
use crate::storage::line::Slot;
use crate::storage::stored::{Stored, Value, decimal};
use crate::storage::table::{Search, Table};
use crate::sync::Ordering::AcqRel;
use loom::thread;
use policy::Tick;
use std::sync::Arc;

const PREEMPTIONS: usize = 2;
const NOW: Tick = Tick(5_000);

fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(PREEMPTIONS));
    builder.max_branches = 1_000_000;
    builder.check(model);
}

/// The smallest engine that there is.
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

fn set(cache: &Segcache, writer: &mut crate::engine::Writer, key: &[u8; 1]) {
    let value = value_of(key);
    let value = Value::plain(&value);
    let hashed = cache.key(key);
    let stored = cache.set(writer, &hashed, value, None, Condition::Always, NOW);
    assert!(stored.is_ok());
}

/// Of this key's value or nothing.
fn get(cache: &Segcache, key: &[u8; 1]) -> bool {
    let mut out = vec![];
    let found = cache.get(&cache.key(key), NOW, &mut out);
    if found.is_some() {
        assert_eq!(out, value_of(key), "another key's bytes, or half a value");
    }
    found.is_some()
}

/// One object a segment: the last set evicts the first, and is written where it stood.
#[test]
fn a_reader_sees_a_value_or_nothing_while_its_segment_is_given_away() {
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
        assert!(!get(&cache, b"a"), "nothing was given away");
    });
}

/// A value is written over, in another segment; whoever reads finds the one or the other.
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

/// The segment of a number is merged into another while it is added to.
#[test]
fn no_addition_is_lost_to_a_merge() {
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
        // The first segment keeps the number alone, the second the last x; both fit into one.
        for key in [b"x", b"x", b"y"] {
            set(&cache, &mut writer, key);
        }
        let merger = {
            let cache = Arc::clone(&cache);
            thread::spawn(move || {
                writer.job = cache.begin_eviction(NOW, false);
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

/// A table by itself, of slots that name nothing.
struct Bare {
    heap: Heap,
    table: Table,
}

fn hash(number: u32) -> u64 {
    u64::from(number + 1) << 52 | u64::from(number & 1)
}

fn slot(number: u32) -> Slot {
    let place = Place {
        segment: SegmentId(number + 1),
        offset: 0,
    };
    Slot::object(hash(number), 0, place)
}

impl Bare {
    fn new(objects: u32) -> Arc<Self> {
        let heap = Heap::new(6, 8, false, Chains::new(6, 0, None));
        let table = Table::new(&heap).expect("there are segments");
        let bare = Bare { heap, table };
        for number in 0..objects {
            assert!(bare.lock(number).insert(slot(number)));
        }
        Arc::new(bare)
    }

    fn lock(&self, number: u32) -> Chain<'_> {
        self.table.lock(&self.heap, hash(number))
    }

    fn remove(&self, number: u32) {
        let mut chain = self.lock(number);
        let cell = chain.find(hash(number), |_| true).expect("it is there");
        chain.remove(cell);
    }

    /// What a reader finds of a number.
    fn find(&self, number: u32) -> Option<Slot> {
        let mut search = Search::new(&self.table, &self.heap, hash(number));
        search.next().map(|cell| cell.slot)
    }
}

/// A thread that looks for these, which are there all the time, while `change` goes on in this one.
fn looked_for(
    objects: u32,
    numbers: &'static [u32],
    change: impl Fn(&Bare) + Send + Sync + 'static,
) {
    explore(move || {
        let bare = Bare::new(objects);
        let reader = {
            let bare = Arc::clone(&bare);
            thread::spawn(move || {
                for &number in numbers {
                    assert!(bare.find(number).is_some(), "{number} was missed");
                }
            })
        };
        change(&bare);
        reader.join().expect("no panic");
        for &number in numbers {
            assert!(bare.find(number).is_some());
        }
    });
}

#[test]
fn nothing_is_missed_while_a_chain_is_prolonged() {
    looked_for(7, &[6], |bare| assert!(bare.lock(7).insert(slot(7))));
}

#[test]
fn nothing_is_missed_while_a_chain_is_shortened() {
    looked_for(8, &[7], |bare| {
        bare.remove(0);
        bare.remove(1);
    });
}

/// 7 is asked for often and comes into the first line, whose 0 makes room.
#[test]
fn nothing_is_missed_while_the_popular_comes_first() {
    looked_for(8, &[7, 0], |bare| {
        let mut chain = bare.lock(7);
        let cell = chain.find(hash(7), |_| true).expect("it is there");
        let place = Place {
            segment: SegmentId(100),
            offset: 3,
        };
        chain.replace(cell, Slot::object(hash(7), 5, place), 5);
        chain.changed();
    });
}

#[test]
fn nothing_is_missed_while_a_chain_is_split() {
    looked_for(4, &[1, 2], |bare| {
        let hash_at = |slot: Slot| hash(slot.place().segment.0 - 1);
        assert!(bare.table.grow(&bare.heap, hash_at));
    });
}

/// A request is counted in a slot that is given to another object meanwhile: that one keeps its own. By an
/// exchange, since Loom does not put an exchange and a plain store of one word into one order, as the language does.
#[test]
fn a_count_never_brings_a_slot_back() {
    explore(|| {
        let bare = Bare::new(1);
        let reader = {
            let bare = Arc::clone(&bare);
            thread::spawn(move || {
                let mut search = Search::new(&bare.table, &bare.heap, hash(0));
                if let Some(cell) = search.next() {
                    cell.count(5, |frequency| frequency.checked_add(1));
                }
            })
        };
        let chain = bare.lock(0);
        let cell = chain.find(hash(0), |_| true).expect("it is there");
        cell.line[cell.index].swap(slot(2).0, AcqRel);
        drop(chain);
        reader.join().expect("no panic");
        assert_eq!(bare.find(0), None);
        assert_eq!(bare.find(2), Some(slot(2)));
    });
}

#[test]
fn writers_of_a_chain_exclude_each_other_and_counting_readers_do_not_disturb() {
    explore(|| {
        let bare = Bare::new(1);
        let insert = |bare: &Bare, number: u32| {
            let mut chain = bare.lock(number);
            assert!(chain.insert(slot(number)));
            chain.changed();
        };
        let other = {
            let bare = Arc::clone(&bare);
            thread::spawn(move || insert(&bare, 1))
        };
        let reader = {
            let bare = Arc::clone(&bare);
            thread::spawn(move || {
                let mut search = Search::new(&bare.table, &bare.heap, hash(0));
                let cell = search.next().expect("it stays");
                cell.count(5, |frequency| frequency.checked_add(1));
            })
        };
        insert(&bare, 2);
        other.join().expect("no panic");
        reader.join().expect("no panic");
        let chain = bare.lock(0);
        assert_eq!((chain.extent(), chain.cas()), ((1, 3), 2));
    });
}

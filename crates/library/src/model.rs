//! Loom models of the lock-free code. Loom explores every memory order that the language allows:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --package mayfly-cache --lib model
//! ```
//!
//! A model uses the cache's atomic words, and represents a pair by two words without any ordering.
//! A reader that sees two different numbers has read a slot that was reused too early.

use crate::epoch::Domain;
use crate::sync::{AtomicU32, Ordering};
use crate::table::{Table, tag_of};
use loom::sync::{Arc, Mutex};
use loom::thread;

const HASH: u64 = 7;

/// Shard with few slots. A pair consists of two halves that must be equal.
struct Small {
    domain: Domain,
    table: Table,
    pairs: Vec<[AtomicU32; 2]>,
    writer: Mutex<()>,
}

impl Small {
    fn new(slots: usize) -> Self {
        Small {
            domain: Domain::new(),
            table: Table::new(1, 0),
            pairs: (0..slots)
                .map(|_| [AtomicU32::new(0), AtomicU32::new(0)])
                .collect(),
            writer: Mutex::new(()),
        }
    }

    fn write(&self, slot: u32, number: u32) {
        let [first, second] = &self.pairs[slot as usize];
        first.store(number, Ordering::Relaxed);
        second.store(number, Ordering::Relaxed);
    }

    fn publish(&self, slot: u32) -> u32 {
        let (bucket, way, _) = self.table.reserve(HASH);
        self.table.bucket(bucket).publish(way, tag_of(HASH), slot);
        self.table.position(bucket, way)
    }

    /// Reads the entry in the way of `Map::find`.
    fn read(&self) -> Option<u32> {
        let (pin, _) = self.domain.claim();
        let outer = self.domain.enter(pin);
        let bucket = self.table.bucket(0);
        let ways = bucket.matches(tag_of(HASH));
        let found = (ways != 0).then(|| {
            let slot = bucket.slot(ways.trailing_zeros() as usize);
            let [first, second] = &self.pairs[slot as usize];
            let halves = [
                first.load(Ordering::Relaxed),
                second.load(Ordering::Relaxed),
            ];
            assert_eq!(
                halves[0], halves[1],
                "the pair was written while it was read"
            );
            halves[0]
        });
        Domain::leave(pin, outer);
        found
    }

    /// Returns true if a slot that was unlinked before the call can be reused.
    fn is_free(&self) -> bool {
        let epoch = self.domain.advance();
        self.domain.oldest() >= epoch
    }
}

#[test]
fn a_slot_is_not_reused_while_a_reader_may_see_it() {
    loom::model(|| {
        let small = Arc::new(Small::new(2));
        small.write(0, 1);
        let position = small.publish(0);
        let reader = small.clone();
        let thread = thread::spawn(move || {
            let found = reader.read().expect("the entry is replaced, never absent");
            assert!([1, 2, 3].contains(&found));
        });
        let guard = small.writer.lock().expect("no panic");
        small.write(1, 2);
        small.table.replace(position, 1);
        if small.is_free() {
            small.write(0, 3);
            small.table.replace(position, 0);
        }
        drop(guard);
        thread.join().expect("the reader does not panic");
    });
}

#[test]
fn a_removed_entry_is_absent_or_whole() {
    loom::model(|| {
        let small = Arc::new(Small::new(1));
        small.write(0, 1);
        let position = small.publish(0);
        let reader = small.clone();
        let thread = thread::spawn(move || {
            let found = reader.read();
            assert!(matches!(found, None | Some(1) | Some(2)));
        });
        small.table.vacate(position, Some(0));
        if small.is_free() {
            small.write(0, 2);
            small.publish(0);
        }
        thread.join().expect("the reader does not panic");
    });
}

#[test]
fn a_slot_that_another_writer_unlinked_is_freed_by_this_one() {
    loom::model(|| {
        let small = Arc::new(Small::new(2));
        small.write(0, 1);
        small.write(1, 2);
        let position = small.publish(0);
        let reader = small.clone();
        let read = thread::spawn(move || {
            reader.read();
        });
        let other = small.clone();
        let unlink = thread::spawn(move || {
            let _guard = other.writer.lock().expect("no panic");
            other.table.replace(position, 1);
        });
        {
            let _guard = small.writer.lock().expect("no panic");
            let is_unlinked = small.table.slot_at(position) == Some(1);
            if is_unlinked && small.is_free() {
                small.write(0, 3);
            }
        }
        unlink.join().expect("no panic");
        read.join().expect("no panic");
    });
}

#[test]
fn threads_claim_different_cells() {
    loom::model(|| {
        let domain = Arc::new(Domain::new());
        let other = domain.clone();
        let thread = thread::spawn(move || other.claim().1);
        let own = domain.claim().1;
        assert_ne!(own, thread.join().expect("no panic"));
    });
}

#[test]
fn an_entry_that_moves_to_a_larger_table_is_never_absent() {
    loom::model(|| {
        let tables = Arc::new([Table::new(1, 0), Table::new(2, 1)]);
        // Numbers of the older table (`u32::MAX` if there is none) and of the current one.
        let older = Arc::new(AtomicU32::new(u32::MAX));
        let current = Arc::new(AtomicU32::new(0));
        let (_, way, _) = tables[0].reserve(HASH);
        tables[0].bucket(0).publish(way, tag_of(HASH), 5);
        let position = tables[0].position(0, way);
        let thread = {
            let (tables, older, current) = (tables.clone(), older.clone(), current.clone());
            thread::spawn(move || {
                let look = |table: u32| {
                    let table = tables.get(table as usize)?;
                    let bucket = table.bucket(table.home(HASH));
                    let ways = bucket.matches(tag_of(HASH));
                    (ways != 0).then(|| bucket.slot(ways.trailing_zeros() as usize))
                };
                // The loads follow the order of `Map::find` and `Map::find_moving`.
                let table = current.load(Ordering::Acquire);
                let is_alone = older.load(Ordering::Acquire) == u32::MAX;
                let found = look(table).or_else(|| {
                    if is_alone && current.load(Ordering::Acquire) == table {
                        return None;
                    }
                    loop {
                        let table = current.load(Ordering::Acquire);
                        let first = look(older.load(Ordering::Acquire));
                        if let Some(found) = first.or_else(|| look(table)) {
                            return Some(found);
                        }
                        if current.load(Ordering::Acquire) == table {
                            return None;
                        }
                    }
                });
                assert_eq!(found, Some(5));
            })
        };
        older.store(0, Ordering::Release);
        current.store(1, Ordering::Release);
        let (at, way, _) = tables[1].reserve(HASH);
        tables[1].bucket(at).publish(way, tag_of(HASH), 5);
        tables[0].vacate(position, Some(0));
        older.store(u32::MAX, Ordering::Release);
        thread.join().expect("the reader does not panic");
    });
}

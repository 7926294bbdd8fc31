//! Loom's models of the hash table: readers find an object while its chain changes. `crate::model`
//! documents how to run them.

use super::chain::Chain;
use super::directory::Directory;
use super::heap::Heap;
use super::line::SlotWord;
use super::location::{Location, SegmentId};
use super::search::Search;
use super::table::Table;
use crate::sync::Ordering::AcqRel;
use crate::sync::explore;
use loom::thread;
use std::sync::Arc;

/// A table without storage, whose slots refer to no objects.
struct Bare {
    heap: Heap,
    directory: Directory<()>,
    table: Table,
}

fn hash(number: u32) -> u64 {
    u64::from(number + 1) << 52 | u64::from(number & 1)
}

fn word(number: u32) -> SlotWord {
    let location = Location {
        segment: SegmentId(number + 1),
        offset: 0,
    };
    SlotWord::object(hash(number), 0, location)
}

impl Bare {
    fn new(objects: u32) -> Arc<Self> {
        let heap = Heap::new(6, 8, false);
        let directory = Directory::new(6, 0, ());
        let table = Table::new(&heap, &directory).expect("there are segments");
        let bare = Bare {
            heap,
            directory,
            table,
        };
        for number in 0..objects {
            assert!(bare.lock(number).insert(word(number)));
        }
        Arc::new(bare)
    }

    fn lock(&self, number: u32) -> Chain<'_> {
        self.table.lock(&self.heap, &self.directory, hash(number))
    }

    fn remove(&self, number: u32) {
        let mut chain = self.lock(number);
        let slot = chain.find(hash(number), |_| true).expect("it is there");
        chain.remove(slot);
    }

    /// Returns the slot that a reader finds for a number.
    fn find(&self, number: u32) -> Option<SlotWord> {
        let mut search = Search::new(&self.table, &self.heap, hash(number));
        search.next().map(|slot| slot.word)
    }
}

/// Searches on another thread for numbers that are always present, while `change` runs.
fn search_during(
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
fn no_object_is_missed_while_a_chain_is_prolonged() {
    search_during(7, &[6], |bare| assert!(bare.lock(7).insert(word(7))));
}

#[test]
fn no_object_is_missed_while_a_chain_is_shortened() {
    search_during(8, &[7], |bare| {
        bare.remove(0);
        bare.remove(1);
    });
}

/// Number 7 has the highest frequency and moves to the first line, and number 0 moves from there to
/// another line.
#[test]
fn no_object_is_missed_while_another_moves_to_the_first_line() {
    search_during(8, &[7, 0], |bare| {
        let mut chain = bare.lock(7);
        let slot = chain.find(hash(7), |_| true).expect("it is there");
        let location = Location {
            segment: SegmentId(100),
            offset: 3,
        };
        chain.replace(slot, SlotWord::object(hash(7), 5, location), 5);
        chain.changed();
    });
}

#[test]
fn no_object_is_missed_while_a_chain_is_split() {
    search_during(4, &[1, 2], |bare| {
        let hash_at = |slot: SlotWord| hash(slot.location().segment.0 - 1);
        assert!(bare.table.grow(&bare.heap, &bare.directory, 0, hash_at));
    });
}

/// A reader counts a request in a slot while a writer stores another object there. The new object
/// must stay. The writer uses an exchange, because Loom, unlike the language, does not order an
/// exchange and a plain store of one word.
#[test]
fn a_counted_request_does_not_restore_a_replaced_slot() {
    explore(|| {
        let bare = Bare::new(1);
        let reader = {
            let bare = Arc::clone(&bare);
            thread::spawn(move || {
                let mut search = Search::new(&bare.table, &bare.heap, hash(0));
                if let Some(slot) = search.next() {
                    slot.count(5, |frequency| frequency.checked_add(1));
                }
            })
        };
        let chain = bare.lock(0);
        let slot = chain.find(hash(0), |_| true).expect("it is there");
        slot.line[slot.index].swap(word(2).0, AcqRel);
        drop(chain);
        reader.join().expect("no panic");
        assert_eq!(bare.find(0), None);
        assert_eq!(bare.find(2), Some(word(2)));
    });
}

#[test]
fn writers_of_a_chain_exclude_each_other_while_readers_count() {
    explore(|| {
        let bare = Bare::new(1);
        let insert = |bare: &Bare, number: u32| {
            let mut chain = bare.lock(number);
            assert!(chain.insert(word(number)));
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
                let slot = search.next().expect("it stays");
                slot.count(5, |frequency| frequency.checked_add(1));
            })
        };
        insert(&bare, 2);
        other.join().expect("no panic");
        reader.join().expect("no panic");
        let chain = bare.lock(0);
        assert_eq!((chain.extent(), chain.cas()), ((1, 3), 2));
    });
}

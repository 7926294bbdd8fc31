//! The conformance suite of expiry indexes: `index_suite!(Wheel)` generates the tests of one index.
//!
//! Random operations run against a list of the entries that must be in the index. The history is a
//! list of plain numbers, so that a failure shrinks. An index whose [`granularity`] is `Some(0)`
//! must be exact: deadline order, order of insertion within a millisecond for entries whose
//! deadline was set once and whose slot is used for the first time, and no delay. Any index must
//! never report an entry early or twice, must lose none, and must keep to its budget and memory.
//!
//! [`granularity`]: ExpiryIndex::granularity

mod history;

pub use history::{Step, run_history, run_long_history};

use super::host::Host;
use crate::{Budget, Cells, Due, ExpiryIndex, Facts, Slot, Tick};
use std::cell::Cell;

/// Time at which the tests start, in this century and not divisible by any unit of time.
const START: Tick = Tick(1_763_640_000_123);
const HOUR_MS: u64 = 3_600_000;
const DECADE_MS: u64 = 10 * 365 * 24 * HOUR_MS;

/// Generates the tests of an index: `index_suite!(Wheel)`, or `index_suite!(Sampled, config,
/// config)` with several configurations; `index_suite!(never reclaims Lazy)` for one that returns
/// no entries.
#[macro_export]
macro_rules! index_suite {
    ($index:ty) => { $crate::index_suite!($index, <$index as $crate::ExpiryIndex>::Config::default()); };
    (never reclaims $index:ty) => {
        $crate::index_suite!(@always $index, <$index as $crate::ExpiryIndex>::Config::default());
    };
    ($index:ty, $($config:expr),+) => {
        $crate::index_suite!(@always $index, $($config),+);

        mod reclaims {
            use super::*;

            #[test]
            fn every_dead_entry_is_returned() {
                $($crate::suite::expiry::every_dead_entry_is_returned::<$index>(&$config);)+
            }

            #[test]
            fn a_jump_of_the_clock_there_and_back_delays_nothing() {
                $($crate::suite::expiry::a_jump_there_and_back_delays_nothing::<$index>(&$config);)+
            }

            #[test]
            fn a_million_on_one_deadline() {
                $($crate::suite::expiry::a_million_on_one_deadline::<$index>(&$config);)+
            }
        }
    };
    (@always $index:ty, $($config:expr),+) => {
        mod conforms {
            use super::*;
            use proptest::prelude::*;

            proptest! {
                #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]
                #[test]
                fn random_histories(
                    steps in proptest::collection::vec((0..100_u8, any::<u64>(), any::<u64>()), 0..400),
                    crowd in 0..200_usize,
                ) {
                    $($crate::suite::expiry::run_history::<$index>(&$config, &steps, crowd);)+
                }
            }

            #[test]
            fn a_long_history_of_thousands_of_entries() {
                $($crate::suite::expiry::run_long_history::<$index>(&$config);)+
            }

            #[test]
            fn calls_keep_to_their_budget() {
                $($crate::suite::expiry::calls_keep_to_their_budget::<$index>(&$config);)+
            }

            #[test]
            fn memory_of_stale_references_is_bounded() {
                $($crate::suite::expiry::memory_of_stale_references_is_bounded::<$index>(&$config);)+
            }

            #[test]
            fn jumps_of_the_clock_are_handled() {
                $($crate::suite::expiry::jumps_of_the_clock_are_handled::<$index>(&$config);)+
            }
        }
    };
}

/// Maximum number of entries that a change may read, regardless of the data: the entries of the
/// largest node that is split.
const CHANGE_LOOKS_MAX: u32 = 72;

/// A host that counts the entries that an index reads.
struct Counting<M> {
    host: Host<M>,
    looks: Cell<u32>,
}

impl<M: Copy + Default> Facts for Counting<M> {
    crate::delegate_facts!(host: now requests is_live weight key_hash len sample);
    fn deadline(&self, slot: Slot) -> Option<Tick> {
        self.looks.set(self.looks.get() + 1);
        self.host.deadline(slot)
    }
}

impl<M: Copy + Default> Cells<M> for Counting<M> {
    fn get(&self, slot: Slot) -> M {
        self.host.get(slot)
    }
    fn set(&mut self, slot: Slot, meta: M) {
        self.host.set(slot, meta);
    }
}

/// Creates an index of `deadlines` over a counting host, and returns the entries' slots.
fn filled<I: ExpiryIndex>(
    config: &I::Config,
    deadlines: impl Iterator<Item = Tick>,
) -> (Counting<I::Link>, I, Vec<Slot>) {
    let mut host = Counting {
        host: Host::new(START),
        looks: Cell::new(0),
    };
    let mut index = I::new(START, config, 1);
    let slots = deadlines.map(|deadline| {
        let slot = host.host.add(0, 1, Some(deadline));
        host.host.hold(slot);
        index.insert(&mut host, slot);
        slot
    });
    let slots = slots.collect();
    (host, index, slots)
}

/// Checks that no call reads many more entries than its budget allows, regardless of the data.
pub fn calls_keep_to_their_budget<I: ExpiryIndex>(config: &I::Config) {
    const COUNT: u64 = 20_000;
    const STEPS: u32 = 50;
    for spread in [1, 10_000, 30 * 24 * HOUR_MS] {
        let deadlines = (0..COUNT).map(|number| Tick(START.0 + number * 7_919 % spread));
        let (mut host, mut index, slots) = filled::<I>(config, deadlines);
        for &slot in slots.iter().step_by(2) {
            host.looks.set(0);
            let old = host
                .host
                .set_deadline(slot, Some(START))
                .expect("it has one");
            index.update(&mut host, slot, old);
            assert!(
                host.looks.get() <= CHANGE_LOOKS_MAX,
                "an update looked at {}",
                host.looks.get()
            );
        }
        for &slot in slots.iter().step_by(3) {
            host.looks.set(0);
            index.remove(&mut host, slot);
            assert!(
                host.looks.get() <= CHANGE_LOOKS_MAX,
                "a removal looked at {}",
                host.looks.get()
            );
            host.host.free(slot);
        }
        let mut now = Tick(START.0 + 1);
        for _ in 0..4 * COUNT {
            host.host.set_now(now);
            host.looks.set(0);
            let due = index.pop_expired(&mut host, now, &mut Budget(STEPS));
            assert!(
                host.looks.get() <= 2 * STEPS + 16,
                "a call looked at {}",
                host.looks.get()
            );
            match due {
                Due::Slot(slot) => host.host.free(slot),
                Due::Again => {}
                Due::Nothing => match index.next_due() {
                    Some(next) => now = now.max(next),
                    None => break,
                },
            }
        }
    }
}

/// Checks that the index does not grow if deadlines keep moving earlier or entries are inserted and
/// removed, even if dead entries are never collected, and that it shrinks again when most entries
/// were removed.
pub fn memory_of_stale_references_is_bounded<I: ExpiryIndex>(config: &I::Config) {
    const COUNT: u64 = 4_000;
    const FLOOR_BYTES: usize = 16 << 10;
    let deadlines = (0..COUNT).map(|number| Tick(START.0 + 20 * HOUR_MS + number * 977));
    let (mut host, mut index, mut slots) = filled::<I>(config, deadlines);
    let before = index.heap_bytes();
    for round in 1..=30 {
        for &slot in &slots {
            let old = host.host.deadline(slot).expect("it has one");
            host.host
                .set_deadline(slot, Some(Tick(old.0 - round * 60_000)));
            index.update(&mut host, slot, old);
        }
        assert!(
            index.heap_bytes() <= 3 * before + FLOOR_BYTES,
            "re-expired earlier {round} times"
        );
    }
    for round in 0..30 {
        for slot in &mut slots {
            index.remove(&mut host, *slot);
            host.host.free(*slot);
            *slot = host.host.add(
                0,
                1,
                Some(Tick(START.0 + HOUR_MS + u64::from(slot.0) * 977)),
            );
            host.host.hold(*slot);
            index.insert(&mut host, *slot);
        }
        assert!(
            index.heap_bytes() <= 3 * before + FLOOR_BYTES,
            "replaced {} times",
            round + 1
        );
    }
    index.check(&host);
    for &slot in &slots[100..] {
        index.remove(&mut host, slot);
        host.host.free(slot);
    }
    let now = START;
    while index.next_due().is_some_and(|due| due <= now) {
        let due = index.pop_expired(&mut host, now, &mut Budget(100));
        assert!(!matches!(due, Due::Slot(_)), "nothing is dead yet");
    }
    index.check(&host);
    assert_eq!(index.len(), 100);
    assert!(
        index.heap_bytes() <= before / 2 + FLOOR_BYTES,
        "{} bytes left",
        index.heap_bytes()
    );
}

/// Checks that an index that is called at its `next_due` returns every entry some time after its
/// deadline.
pub fn every_dead_entry_is_returned<I: ExpiryIndex>(config: &I::Config) {
    const COUNT: u64 = 3_000;
    let deadlines = (0..COUNT).map(|number| Tick(START.0 + number * 31 % 10_007));
    let (mut host, mut index, slots) = filled::<I>(config, deadlines);
    let mut left = slots.len();
    let mut now = START;
    while left > 0 {
        now = now.max(index.next_due().expect("something is left"));
        assert!(now.0 < START.0 + HOUR_MS, "{left} are left after an hour");
        host.host.set_now(now);
        loop {
            match index.pop_expired(&mut host, now, &mut Budget(100)) {
                Due::Slot(slot) => {
                    let deadline = host
                        .host
                        .deadline(slot)
                        .expect("a popped entry is still live");
                    assert!(now > deadline);
                    if let Some(late) = index.granularity() {
                        assert!(now.0 <= deadline.0 + 1 + late);
                    }
                    host.host.free(slot);
                    left -= 1;
                }
                Due::Again => {}
                Due::Nothing => break,
            }
        }
    }
    assert!(index.is_empty());
    assert!(
        index.heap_bytes() <= 8 << 10,
        "an empty index is small: {}",
        index.heap_bytes()
    );
}

/// The clock jumps ten years forward and back, and nothing is inserted after that. The entries that
/// the index had no time to return in between must be returned as if there had been no jump.
pub fn a_jump_there_and_back_delays_nothing<I: ExpiryIndex>(config: &I::Config) {
    const COUNT: u64 = 3_000;
    let deadlines = (0..COUNT).map(|number| Tick(START.0 + 10_000 + number * 31 % 10_007));
    let (mut host, mut index, slots) = filled::<I>(config, deadlines);
    let mut left = slots.len();
    let mut now = Tick(START.0 + DECADE_MS);
    host.host.set_now(now);
    if let Due::Slot(slot) = index.pop_expired(&mut host, now, &mut Budget(10)) {
        host.host.free(slot);
        left -= 1;
    }
    now = START;
    host.host.set_now(now);
    index.clock_went_back(now);
    while left > 0 {
        now = now.max(index.next_due().expect("something is left"));
        assert!(now.0 < START.0 + HOUR_MS, "{left} are left after an hour");
        host.host.set_now(now);
        while let Due::Slot(slot) = index.pop_expired(&mut host, now, &mut Budget(u32::MAX)) {
            let deadline = host.host.deadline(slot);
            assert!(deadline.is_some_and(|deadline| now > deadline));
            host.host.free(slot);
            left -= 1;
        }
    }
    index.check(&host);
}

/// A million entries share one deadline, and some have later ones. No call may exceed its budget.
/// Only dead entries may be returned, all of them in the end, and their memory must be freed.
pub fn a_million_on_one_deadline<I: ExpiryIndex>(config: &I::Config) {
    const COUNT: u64 = 1_000_000;
    const STEPS: u32 = 500;
    let crowded = Tick(START.0 + 1_000);
    let deadlines = (0..COUNT + 1_000).map(|number| Tick(crowded.0 + number.saturating_sub(COUNT)));
    let (mut host, mut index, _) = filled::<I>(config, deadlines);
    assert!(index.backlog(Tick(crowded.0 + 1)) as u64 >= COUNT);
    let mut left = COUNT + 1_000;
    let mut now = START;
    while left > 0 {
        now = now.max(index.next_due().expect("something is left"));
        assert!(now.0 < START.0 + HOUR_MS, "{left} are left after an hour");
        host.host.set_now(now);
        host.looks.set(0);
        let due = index.pop_expired(&mut host, now, &mut Budget(STEPS));
        assert!(
            host.looks.get() <= 2 * STEPS + 16,
            "a call looked at {}",
            host.looks.get()
        );
        if let Due::Slot(slot) = due {
            assert!(host.host.deadline(slot).is_some_and(|dead| dead < now));
            host.host.free(slot);
            left -= 1;
        }
    }
    assert!(index.is_empty());
    assert!(
        index.heap_bytes() <= 8 << 10,
        "an empty index is small: {}",
        index.heap_bytes()
    );
}

/// The clock jumps an hour and ten years forward and back, with deadlines from the epoch to the
/// horizon. After each jump some entries are inserted. No entry may be returned early. Entries
/// overdue by more than the granularity must have been returned. At the latest time all entries
/// must have been returned, if the index returns any.
pub fn jumps_of_the_clock_are_handled<I: ExpiryIndex>(config: &I::Config) {
    const PER_KIND: u64 = 20;
    let (mut host, mut index, _) = filled::<I>(config, core::iter::empty());
    let mut held = Vec::new();
    let hour = HOUR_MS as i64;
    let decade = DECADE_MS as i64;
    let mut now = START;
    for jump in [
        0,
        1,
        hour,
        -hour,
        hour,
        decade,
        -decade,
        -decade,
        2 * decade,
        -hour,
        hour,
        decade,
    ] {
        now = now
            .0
            .checked_add_signed(jump)
            .map(Tick)
            .expect("the jumps stay after the epoch");
        host.host.set_now(now);
        for number in 0..PER_KIND {
            for deadline in [
                number,
                now.0 - number,
                now.0 + number,
                now.0 + 50 * number,
                now.0 + HOUR_MS + number,
                now.0 + DECADE_MS + number,
                Tick::MAX.0 - number,
            ] {
                let slot = host.host.add(0, 1, Some(Tick(deadline)));
                host.host.hold(slot);
                index.insert(&mut host, slot);
                held.push((slot, Tick(deadline)));
            }
        }
        // The index is called during two minutes, so that work at intervals is done.
        let end = now.0 + 120_000;
        while let Some(due) = index.next_due().filter(|due| due.0 <= end) {
            now = now.max(due);
            host.host.set_now(now);
            pop_all(&mut host, &mut index, &mut held, now);
        }
        now = Tick(end);
        host.host.set_now(now);
        if let Some(late) = index.granularity() {
            let overdue = held.iter().find(|held| held.1.0 + late + 1 < now.0);
            assert!(overdue.is_none(), "{overdue:?} is overdue at {now:?}");
        }
        index.check(&host);
    }
    now = Tick(Tick::MAX.0 + 1);
    while let Some(due) = index.next_due() {
        assert!(due.0 < Tick::MAX.0 + HOUR_MS, "{} are left", held.len());
        now = now.max(due);
        host.host.set_now(now);
        pop_all(&mut host, &mut index, &mut held, now);
    }
    assert_eq!(index.len(), held.len());
}

/// Calls until the result is `Nothing`, and removes the returned entries from the list.
fn pop_all<I: ExpiryIndex>(
    host: &mut Counting<I::Link>,
    index: &mut I,
    held: &mut Vec<(Slot, Tick)>,
    now: Tick,
) {
    loop {
        match index.pop_expired(host, now, &mut Budget(100)) {
            Due::Slot(slot) => {
                let position = held.iter().position(|held| held.0 == slot);
                let (_, deadline) = held.swap_remove(position.expect("it was inserted"));
                assert!(deadline < now, "{slot:?} is early: {deadline:?} at {now:?}");
                host.host.free(slot);
            }
            Due::Again => {}
            Due::Nothing => break,
        }
    }
}

//! Promises of the wheel beyond the suite of all indexes.

use super::era::{ERAS, LEVELS};
use super::*;
use crate::Facts;
use crate::suite::host::Host;

const START: Tick = Tick(1_763_640_000_123);

struct Trial {
    host: Host<Link>,
    index: Wheel,
}

impl Trial {
    fn new() -> Self {
        Trial {
            host: Host::new(START),
            index: Wheel::new(START, &(), 1),
        }
    }

    fn insert(&mut self, deadline: u64) -> Slot {
        let slot = self.host.add(0, 1, Some(Tick(deadline)));
        self.host.hold(slot);
        self.index.insert(&mut self.host, slot);
        slot
    }

    fn insert_all(&mut self, deadlines: impl IntoIterator<Item = u64>) {
        for deadline in deadlines {
            self.insert(deadline);
        }
    }

    fn remove(&mut self, slot: Slot) {
        self.index.remove(&mut self.host, slot);
        self.host.free(slot);
    }

    fn set_now(&mut self, now: u64) {
        self.host.set_now(Tick(now));
    }

    /// Calls the index once with this budget, and returns the deadline of the returned entry.
    fn pop(&mut self, steps: u32) -> Result<u64, Due> {
        let now = self.host.now();
        match self
            .index
            .pop_expired(&mut self.host, now, &mut Budget(steps))
        {
            Due::Slot(slot) => {
                let deadline = self
                    .host
                    .deadline(slot)
                    .expect("a popped entry is still live");
                self.host.free(slot);
                assert!(deadline < now, "early");
                Ok(deadline.0)
            }
            due => Err(due),
        }
    }

    /// Returns the deadlines of all due entries, in the order in which they are returned.
    fn drain(&mut self) -> Vec<u64> {
        let mut deadlines = Vec::new();
        loop {
            match self.pop(10) {
                Ok(deadline) => deadlines.push(deadline),
                Err(Due::Again) => {}
                Err(_) => return deadlines,
            }
        }
    }

    fn many(&self) -> &Many {
        match &self.index.entries {
            Entries::Many(many) => many,
            Entries::Few(_) => panic!("there are enough entries for a wheel"),
        }
    }

    fn is_few(&self) -> bool {
        matches!(self.index.entries, Entries::Few(_))
    }
}

#[test]
fn a_few_entries_are_an_array_before_and_after_they_are_many() {
    let mut trial = Trial::new();
    let slots: Vec<Slot> = (0..40)
        .map(|number| trial.insert(START.0 + 1_000 * number))
        .collect();
    assert!(trial.is_few());
    assert!(
        trial.index.heap_bytes() <= 40 * 16,
        "{}",
        trial.index.heap_bytes()
    );
    trial.insert_all((0..100).map(|number| START.0 + 50_000 + number));
    assert!(!trial.is_few());
    trial.index.check(&trial.host);
    slots[3..].iter().for_each(|&slot| trial.remove(slot));
    trial.set_now(START.0 + 49_000);
    assert_eq!(trial.drain(), [START.0, START.0 + 1_000, START.0 + 2_000]);
    trial.set_now(START.0 + 50_090);
    assert_eq!(trial.drain().len(), 90);
    assert!(trial.is_few(), "ten are left");
    trial.index.check(&trial.host);
    trial.set_now(START.0 + 60_000);
    assert_eq!(trial.drain().len(), 10);
    assert!(trial.index.heap_bytes() <= 256);
}

#[test]
fn every_deadline_has_a_bucket() {
    let mut trial = Trial::new();
    let mut deadlines: Vec<u64> = (0..48).map(|bit| START.0 ^ (1 << bit)).collect();
    deadlines.extend((0..40).map(|number| number * 7));
    deadlines.extend([0, START.0, Tick::MAX.0, Tick::MAX.0 - 1]);
    deadlines.retain(|&deadline| deadline <= Tick::MAX.0);
    trial.insert_all(deadlines.iter().copied());
    trial.index.check(&trial.host);
    trial.set_now(Tick::MAX.0 + 1);
    deadlines.sort_unstable();
    assert_eq!(trial.drain(), deadlines);
}

#[test]
fn empty_time_costs_no_steps() {
    let mut trial = Trial::new();
    trial.insert_all((0..100).map(|number| START.0 + number * 86_400_000));
    let mut calls = 0;
    while let Some(next) = trial.index.next_due() {
        trial.set_now(next.0.max(trial.host.now().0));
        while trial.pop(1_000) != Err(Due::Nothing) {}
        calls += 1;
    }
    assert!(calls <= 100 * LEVELS, "{calls} calls for 100 entries");
    assert_eq!(
        trial.host.now(),
        Tick(START.0 + 99 * 86_400_000 + 1),
        "each at its own millisecond"
    );
}

#[test]
fn a_refreshed_deadline_leaves_nothing_behind() {
    let mut trial = Trial::new();
    let slots: Vec<Slot> = (0..1_000)
        .map(|number| trial.insert(START.0 + 10_000 + number))
        .collect();
    for round in 1..50 {
        for &slot in &slots {
            let old = trial.host.deadline(slot).expect("it has one");
            trial
                .host
                .set_deadline(slot, Some(Tick(old.0 + 100 * round)));
            trial.index.update(&mut trial.host, slot, old);
        }
    }
    assert_eq!(trial.many().ref_count, 1_000);
    trial.set_now(START.0 + 11_001);
    assert_eq!(trial.drain(), []);
    assert_eq!(trial.many().ref_count, 1_000);
    trial.index.check(&trial.host);
}

#[test]
fn stale_references_stay_within_bounds_while_nothing_is_popped() {
    let mut trial = Trial::new();
    let mut slots: Vec<Slot> = (0..1_000)
        .map(|number| trial.insert(START.0 + number))
        .collect();
    for round in 0..100_000 {
        let slot = slots.swap_remove(round % 997);
        trial.remove(slot);
        slots.push(trial.insert(START.0 + 3_600_000 + round as u64 * 17 % 1_000_000));
        // One reference per entry, 64 more, and those that are added while a sixteenth of all is
        // read in each step.
        let bound = (2 * 1_000 + 64) * 17 / 16 + 1;
        assert!(
            trial.many().ref_count <= bound,
            "{} references",
            trial.many().ref_count
        );
    }
    trial.index.check(&trial.host);
}

#[test]
fn the_clock_may_jump_back_as_often_as_there_are_eras() {
    let mut trial = Trial::new();
    let hour = 3_600_000;
    let mut deadlines = Vec::new();
    for jump in 0..ERAS as u64 {
        trial.set_now(START.0 - jump * 10 * hour);
        for number in 0..70 {
            deadlines.push(START.0 - jump * 10 * hour + number * 1_000);
            trial.insert(*deadlines.last().expect("it was just pushed"));
        }
        trial.index.check(&trial.host);
    }
    assert_eq!(trial.many().above.len(), ERAS - 1);
    deadlines.sort_unstable();
    trial.set_now(START.0 + hour);
    assert_eq!(trial.drain(), deadlines);
}

#[test]
fn beyond_the_last_era_entries_are_late_but_not_early_or_lost() {
    let mut trial = Trial::new();
    let hour = 3_600_000;
    let mut count = 0;
    for jump in 0..2 * ERAS as u64 {
        trial.set_now(START.0 - jump * 10 * hour);
        trial.insert_all((0..70).map(|number| START.0 - jump * 10 * hour + number * 1_000));
        count += 70;
        trial.index.check(&trial.host);
    }
    // Earliest time that the last possible era covers: the start of its period of 64⁴ ms.
    let reached = START.0 - (ERAS as u64 - 1) * 10 * hour;
    trial.set_now(reached + 100_000);
    let late = trial.drain().len();
    assert_eq!(late, (ERAS + 1) * 70);
    trial.set_now(START.0 + hour);
    assert_eq!(late + trial.drain().len(), count);
    assert!(trial.index.is_empty());
}

#[test]
fn a_bucket_can_fall_due_while_its_chunks_are_being_moved() {
    // Long rings of one millisecond each, whose chunks alternate in the pages.
    let mut trial = Trial::new();
    for number in 0..20_000 {
        trial.insert(START.0 + 10 + number % 4 * 1_000);
    }
    // Ended a step at a time, the pass is in the middle of a ring when the clock advances.
    for now in [11, 1_011, 2_011, 3_011] {
        trial.set_now(START.0 + now);
        let mut count = 0;
        while count < 5_000 {
            let is_one = trial.pop(3).is_ok();
            count += u32::from(is_one);
            if is_one && count % 500 == 0 {
                trial.index.check(&trial.host);
            }
        }
        for _ in 0..20 {
            assert!(trial.pop(1).is_err());
            trial.index.check(&trial.host);
        }
    }
    assert!(trial.index.is_empty());
}

#[test]
fn a_bucket_whose_drain_waits_for_the_clock_is_sifted_too() {
    let mut trial = Trial::new();
    let mut slots: Vec<Slot> = (0..2_000).map(|_| trial.insert(START.0)).collect();
    trial.set_now(START.0 + 1);
    for &slot in &slots[..300] {
        assert_eq!(
            trial.pop(1),
            Ok(START.0),
            "the {slot:?} of one millisecond come in order"
        );
    }
    slots.drain(..300);
    trial.set_now(START.0 - 3_600_000);
    for round in 0..50_000 {
        let slot = slots.swap_remove(round % 1_699);
        trial.remove(slot);
        slots.push(trial.insert(START.0));
        assert!(trial.many().ref_count <= (2 * 1_700 + 64) * 17 / 16 + 1);
    }
    assert_eq!(trial.drain(), []);
    assert_eq!(trial.index.next_due(), Some(Tick(START.0 + 1)));
    trial.index.check(&trial.host);
    trial.set_now(START.0 + 1);
    assert_eq!(trial.drain().len(), 1_700);
}

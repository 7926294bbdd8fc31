//! Random histories of an index, against a list of the entries that must be in it.

use super::{DECADE_MS, HOUR_MS, START};
use crate::suite::host::Host;
use crate::{Budget, Due, ExpiryIndex, Slot, Tick};

/// Maximum number of backward jumps of the clock in a history.
const BACK_JUMPS_MAX: u32 = 3;
/// Maximum number of deadlines in the past that a history sets.
const PAST_DEADLINES_MAX: u32 = 4;

/// One step of a history: a kind and two numbers that choose its details.
pub type Step = (u8, u64, u64);

/// Runs a history that begins with `crowd` entries, and checks the index after every step.
pub fn run_history<I: ExpiryIndex>(config: &I::Config, steps: &[Step], crowd: usize) {
    let mut trial = Trial::<I>::new(config);
    for number in 0..crowd as u64 {
        trial.insert(number.wrapping_mul(0x9e37_79b9_7f4a_7c15), number);
    }
    for &step in steps {
        trial.step(step);
        trial.check();
    }
    trial.back_jumps = BACK_JUMPS_MAX;
    trial.set_now(Tick(Tick::MAX.0 + 1));
    trial.drain(7);
    trial.check();
    if trial.is_exact {
        assert!(
            trial.expected.is_empty(),
            "everything is dead at the end of time"
        );
        assert_eq!(trial.index.next_due(), None);
    }
}

/// Runs histories in which thousands of entries are inserted and removed, and checks the index at
/// intervals.
pub fn run_long_history<I: ExpiryIndex>(config: &I::Config) {
    for seed in 1..=4_u64 {
        let mut trial = Trial::<I>::new(config);
        let mut state = seed;
        let mut random = || {
            // xorshift64, G. Marsaglia, Journal of Statistical Software 8(14), 2003.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.wrapping_mul(0x2545_f491_4f6c_dd1d)
        };
        for round in 0..6_000_u32 {
            let (choice, number) = (random(), random());
            match round / 1_000 % 3 {
                // A crowd of entries is inserted; the index is called with small budgets; the crowd
                // is removed.
                0 => trial.insert(choice, number),
                1 => trial.step(((choice % 100) as u8, choice >> 7, number)),
                _ => trial.step((32 + (choice % 55) as u8, choice >> 7, number)),
            }
            trial.pop((number % 30) as u32);
            if round % 40 == 0 {
                trial.check();
            }
        }
        trial.drain(9);
        trial.check();
    }
}

/// Expected state of one entry.
#[derive(Clone, Copy, Debug)]
struct Expected {
    slot: Slot,
    deadline: Tick,
    /// Number of deadlines set before this one.
    order: u64,
    /// Whether entries with equal deadlines must be returned in the order in which this entry and
    /// the others were inserted. False once the entry was updated or relocated.
    is_plain: bool,
}

/// A host, an index, and the expected content of the index.
struct Trial<I: ExpiryIndex> {
    host: Host<I::Link>,
    index: I,
    expected: Vec<Expected>,
    /// Live entries without a deadline.
    persistent: Vec<Slot>,
    now: Tick,
    /// Deadline that was set last; other entries get the same one.
    recent: Tick,
    order: u64,
    slot_count: u32,
    back_jumps: u32,
    past_deadlines: u32,
    is_exact: bool,
    /// Whether `next_due` ever returned a time.
    has_asked: bool,
}

impl<I: ExpiryIndex> Trial<I> {
    fn new(config: &I::Config) -> Self {
        let index = I::new(START, config, 1);
        Trial {
            host: Host::new(START),
            is_exact: index.granularity() == Some(0),
            index,
            expected: Vec::new(),
            persistent: Vec::new(),
            now: START,
            recent: START,
            order: 0,
            slot_count: 0,
            back_jumps: 0,
            past_deadlines: 0,
            has_asked: false,
        }
    }

    fn step(&mut self, (kind, choice, number): Step) {
        match kind {
            0..25 => self.insert(choice, number),
            25..32 => self.remove(choice, number),
            32..39 => self.replace(choice, number),
            39..55 => self.update(choice, number),
            55..60 => self.relocate(choice),
            60..65 => self.persist_or_expire(choice, number),
            65..80 => {
                self.pop((choice % 24) as u32);
            }
            80..83 => self.drain((choice % 40) as u32 + 1),
            83..87 => self.churn(choice, number),
            _ => self.pass_time(choice, number),
        }
    }

    /// Returns a deadline, near or far depending on `choice`.
    fn deadline(&mut self, choice: u64, number: u64) -> Tick {
        let ahead = match choice >> 8 & 15 {
            0..4 => return self.bounded(self.recent.0),
            4 => number % 3,
            5..7 => number % 70,
            7..9 => number % 5_000,
            9 => number % 300_000,
            10 => number % (20 * HOUR_MS),
            11 => number % (2 * DECADE_MS),
            12 => number % (Tick::MAX.0 + 1 - self.now.0.min(Tick::MAX.0)),
            13 => return self.bounded(self.now.0.saturating_sub(number % 300)),
            14 => number % 100 * 64,
            _ => number % 1000,
        };
        self.recent = Tick((self.now.0 + ahead).min(Tick::MAX.0));
        self.recent
    }

    /// Returns this deadline. Returns the current time instead if the deadline has passed and
    /// enough past deadlines were set.
    fn bounded(&mut self, deadline: u64) -> Tick {
        let mut deadline = Tick(deadline.min(Tick::MAX.0));
        if deadline < self.now {
            if self.past_deadlines < PAST_DEADLINES_MAX {
                self.past_deadlines += 1;
            } else {
                deadline = self.now.min(Tick::MAX);
            }
        }
        deadline
    }

    fn insert(&mut self, choice: u64, number: u64) {
        let deadline = self.deadline(choice, number);
        let slot = self.host.add(number, 1, Some(deadline));
        self.expect_entry(slot, deadline, slot.0 >= self.slot_count);
    }

    fn expect_entry(&mut self, slot: Slot, deadline: Tick, is_plain: bool) {
        self.slot_count = self.slot_count.max(slot.0 + 1);
        self.host.hold(slot);
        self.index.insert(&mut self.host, slot);
        self.order += 1;
        self.expected.push(Expected {
            slot,
            deadline,
            order: self.order,
            is_plain,
        });
    }

    /// Removes one of the expected entries from the index, but not from the host.
    fn take(&mut self, choice: u64) -> Option<Slot> {
        if self.expected.is_empty() {
            return None;
        }
        let position = choice as usize % self.expected.len();
        let slot = self.expected.swap_remove(position).slot;
        self.index.remove(&mut self.host, slot);
        Some(slot)
    }

    fn remove(&mut self, choice: u64, _number: u64) {
        if let Some(slot) = self.take(choice) {
            self.host.free(slot);
        }
    }

    /// Removes an entry and adds another in its slot at once.
    fn replace(&mut self, choice: u64, number: u64) {
        let Some(slot) = self.take(choice) else {
            return;
        };
        self.host.free(slot);
        self.insert(choice >> 7, number);
    }

    fn update(&mut self, choice: u64, number: u64) {
        if self.expected.is_empty() {
            return;
        }
        let position = choice as usize % self.expected.len();
        let old = self.expected[position].deadline;
        let deadline = match choice >> 4 & 7 {
            0 => old,
            1 => self.bounded(old.0.saturating_sub(number % 100)),
            2 => self.bounded(old.0 + number % 100),
            _ => self.deadline(choice, number),
        };
        self.order += 1;
        let expected = &mut self.expected[position];
        expected.is_plain &= deadline == old;
        expected.deadline = deadline;
        let slot = expected.slot;
        self.host.set_deadline(slot, Some(deadline));
        let is_free = I::LATER_IS_FREE && deadline >= old;
        if !is_free || choice >> 7 & 1 == 0 {
            self.index.update(&mut self.host, slot, old);
        }
    }

    /// Makes many changes at once, so that stale state accumulates in the index.
    fn churn(&mut self, mut choice: u64, number: u64) {
        for round in 0..choice % 60 {
            choice = (choice ^ number)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(23);
            match choice >> 50 & 3 {
                0 => self.relocate(choice),
                1 => self.replace(choice, number.rotate_left(round as u32)),
                _ => self.update(choice, number.rotate_left(round as u32)),
            }
        }
    }

    fn relocate(&mut self, choice: u64) {
        if self.expected.is_empty() {
            return;
        }
        let position = choice as usize % self.expected.len();
        let old = self.expected[position].slot;
        let new = self.host.relocate(old);
        self.slot_count = self.slot_count.max(new.0 + 1);
        self.expected[position].slot = new;
        self.expected[position].is_plain = false;
        self.index.moved(&mut self.host, old, new);
    }

    fn persist_or_expire(&mut self, choice: u64, number: u64) {
        match self.persistent.pop() {
            Some(slot) if choice & 1 == 0 => {
                let deadline = self.deadline(choice, number);
                self.host.set_deadline(slot, Some(deadline));
                self.expect_entry(slot, deadline, false);
            }
            other => {
                self.persistent.extend(other);
                let Some(slot) = self.take(choice) else {
                    return;
                };
                self.host.release(slot);
                self.host.set_deadline(slot, None);
                self.persistent.push(slot);
            }
        }
    }

    /// Calls the index once. Returns whether another call may return an entry.
    fn pop(&mut self, steps: u32) -> bool {
        let mut budget = Budget(steps);
        let due = self
            .index
            .pop_expired(&mut self.host, self.now, &mut budget);
        assert!(budget.0 <= steps);
        let Due::Slot(slot) = due else {
            return due == Due::Again;
        };
        let position = self
            .expected
            .iter()
            .position(|expected| expected.slot == slot);
        let popped = self
            .expected
            .swap_remove(position.expect("only what was inserted comes out"));
        assert!(
            self.now > popped.deadline,
            "{slot:?} is early: {:?}",
            popped.deadline
        );
        if self.is_exact {
            for other in &self.expected {
                assert!(
                    popped.deadline <= other.deadline,
                    "{other:?} should precede {popped:?}"
                );
                let are_plain = popped.is_plain && other.is_plain;
                let is_later = other.deadline != popped.deadline || other.order > popped.order;
                assert!(
                    is_later || !are_plain,
                    "{other:?} was inserted before {popped:?}"
                );
            }
        }
        self.host.free(slot);
        true
    }

    /// Calls the index until nothing is due.
    fn drain(&mut self, steps: u32) {
        let calls_max = 200 + 20 * (self.expected.len() + self.slot_count as usize);
        let calls = (0..calls_max).take_while(|_| self.pop(steps)).count();
        assert!(calls < calls_max, "it calls for {calls_max} calls and more");
        let next = self.index.next_due();
        assert!(
            next.is_none_or(|next| next > self.now),
            "a call at {next:?} is due and has no effect"
        );
        if self.is_exact {
            let late = self
                .expected
                .iter()
                .find(|expected| expected.deadline < self.now);
            assert!(late.is_none(), "{late:?} is late at {:?}", self.now);
        }
    }

    fn pass_time(&mut self, choice: u64, number: u64) {
        let now = match choice >> 8 & 15 {
            0..4 => self.now.0 + number % 3,
            4..8 => self.now.0 + number % 100,
            8..10 => self.now.0 + number % 10_000,
            10 => self.now.0 + number % (2 * HOUR_MS),
            11 => self.now.0 + number % (2 * DECADE_MS),
            12 => self.now.0.saturating_sub(number % 100),
            13 => self
                .now
                .0
                .saturating_sub([HOUR_MS, DECADE_MS][number as usize % 2]),
            _ => self
                .index
                .next_due()
                .map_or(self.now.0, |due| due.0.max(self.now.0)),
        };
        self.set_now(Tick(now.min(Tick::MAX.0)));
    }

    fn set_now(&mut self, now: Tick) {
        if now < self.now {
            if self.back_jumps == BACK_JUMPS_MAX {
                return;
            }
            self.back_jumps += 1;
        }
        self.now = now;
        self.host.set_now(now);
    }

    fn check(&mut self) {
        self.index.check(&self.host);
        assert_eq!(self.index.len(), self.expected.len());
        assert_eq!(self.index.is_empty(), self.expected.is_empty());
        let dead = self
            .expected
            .iter()
            .filter(|expected| expected.deadline < self.now)
            .count();
        assert!(
            self.index.backlog(self.now) >= dead,
            "the backlog is an upper bound"
        );
        let Some(first) = self.expected.iter().map(|expected| expected.deadline).min() else {
            return;
        };
        // An index that holds entries but never has a time to wait for returns no entries.
        let Some(next) = self.index.next_due() else {
            assert!(!self.is_exact, "an exact index has something to wait for");
            assert!(!self.has_asked, "it asked to be called before");
            return;
        };
        self.has_asked = true;
        if self.is_exact {
            assert!(
                next.0 <= first.0 + 1,
                "next_due {next:?} is after {first:?}"
            );
        }
    }
}

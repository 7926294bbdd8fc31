//! The conformance suite of eviction policies: random operations in the test host, checked after
//! each.
//!
//! [`policy_suite!`](crate::policy_suite) generates the tests of one policy. They pass steps to
//! [`Trial`] that the test library draws and shrinks; equal steps give equal runs.
//! [`agrees_with_model`] compares every victim with that of a [`NaivePolicy`], the plainest
//! implementation of the policy.

use super::host::Host;
use crate::admit::{Admission, MissedKey};
use crate::parts::chance::scramble;
use crate::{Admit, Budget, Cells, Eviction, Facts, OnHit, Policy, Slot, Tick};
use core::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// One random step: a kind, a key, and an amount.
pub type Step = (u8, u16, u16);

/// Number of keys that steps choose from.
const KEYS: u64 = 96;
/// Initial capacity in units of weight; the average entry weighs about 5.
const CAPACITY: u64 = 200;

/// Generates the tests of one policy: `policy_suite!(fifo, Fifo);`, with a config as third argument
/// if it is not the default. Needs `proptest` among the caller's development dependencies.
#[macro_export]
macro_rules! policy_suite {
    ($module:ident, $policy:ty) => {
        $crate::policy_suite!($module, $policy, <$policy as $crate::Policy>::Config::default());
    };
    ($module:ident, $policy:ty, $config:expr) => {
        mod $module {
            use super::*;

            proptest::proptest! {
                #![proptest_config(proptest::prelude::ProptestConfig::with_cases(96))]

                #[test]
                fn keeps_the_contract_under_random_steps(
                    steps in proptest::collection::vec(proptest::prelude::any::<(u8, u16, u16)>(), 0..400),
                    seed in proptest::prelude::any::<u64>(),
                ) {
                    $crate::suite::policy::keeps_contract::<$policy>(&$config, seed, &steps);
                }
            }

            #[test]
            fn memory_stays_bounded_under_deletions_and_slot_reuse() {
                $crate::suite::policy::bounds_memory_under_churn::<$policy>(&$config);
            }
        }
    };
}

/// A host that counts the entries that `evict` reads.
struct Watched<'a, M> {
    host: &'a mut Host<M>,
    seen: RefCell<BTreeSet<Slot>>,
}

impl<M> Watched<'_, M> {
    fn see(&self, slot: Slot) {
        self.seen.borrow_mut().insert(slot);
    }
}

impl<M: Copy + Default> Facts for Watched<'_, M> {
    crate::delegate_facts!(host: now requests len sample);
    fn is_live(&self, slot: Slot) -> bool {
        self.see(slot);
        self.host.is_live(slot)
    }
    fn weight(&self, slot: Slot) -> u32 {
        self.see(slot);
        self.host.weight(slot)
    }
    fn key_hash(&self, slot: Slot) -> u64 {
        self.see(slot);
        self.host.key_hash(slot)
    }
    fn deadline(&self, slot: Slot) -> Option<Tick> {
        self.see(slot);
        self.host.deadline(slot)
    }
    fn next_access(&self, slot: Slot) -> Option<u64> {
        self.see(slot);
        self.host.next_access(slot)
    }
}

impl<M: Copy + Default> Cells<M> for Watched<'_, M> {
    fn get(&self, slot: Slot) -> M {
        self.see(slot);
        self.host.get(slot)
    }
    fn set(&mut self, slot: Slot, meta: M) {
        self.see(slot);
        self.host.set(slot, meta);
    }
}

/// A policy in the test host, and the table of keys around them.
pub struct Trial<P: Policy> {
    /// Policy under test.
    pub policy: P,
    /// Host of the policy's entries.
    pub host: Host<P::Meta>,
    /// Entries by key, including those that the host has but the policy does not hold.
    pub table: BTreeMap<u64, Slot>,
    capacity: u64,
    /// Keys that were evicted, in order.
    pub victims: Vec<u64>,
    keys: BTreeMap<Slot, u64>,
}

impl<P: Policy> Trial<P> {
    /// Creates an empty host of `capacity` around a new policy.
    pub fn new(capacity: u64, config: &P::Config, seed: u64) -> Self {
        Trial {
            policy: P::new(capacity, config, seed),
            host: Host::new(Tick(1_000_000)),
            table: BTreeMap::new(),
            capacity,
            victims: Vec::new(),
            keys: BTreeMap::new(),
        }
    }

    /// Handles a hit, by the call that the policy's `ON_HIT` requires.
    pub fn hit(&mut self, slot: Slot) {
        self.foretell(slot);
        match P::ON_HIT {
            OnHit::Ignore => {}
            OnHit::Mark => {
                let meta = self.host.get(slot);
                if let Some(meta) = self.policy.mark(&self.host, slot, meta) {
                    self.host.set(slot, meta);
                }
            }
            OnHit::Reorder => self.policy.reorder(&mut self.host, slot),
        }
    }

    /// Handles a request: a hit, or a miss that inserts the key if the policy admits it. Evictions
    /// get budgets of `budget` steps, as in [`Trial::make_room`].
    pub fn request(&mut self, key: u64, weight: u32, budget: u32) {
        self.host.count_request();
        self.host.set_now(Tick(self.host.now().0 + 7));
        if let Some(&slot) = self.table.get(&key) {
            if self.host.is_held(slot) {
                self.hit(slot);
            }
            return;
        }
        if u64::from(weight) > self.capacity {
            return;
        }
        if self.policy.miss(&self.host, scramble(key), weight) == Admit::No {
            return;
        }
        self.make_room(u64::from(weight), budget);
        self.insert(key, weight);
    }

    /// Handles a request with a filter before the policy. Returns whether it was a hit.
    pub fn request_through(
        &mut self,
        filter: &mut impl Admission,
        key: u64,
        weight: u32,
        budget: u32,
    ) -> bool {
        if let Some(&slot) = self.table.get(&key) {
            if self.host.is_held(slot) {
                filter.hit(&self.host, slot);
            }
            self.request(key, weight, budget);
            return true;
        }
        let missed = MissedKey {
            key_hash: scramble(key),
            weight,
            has_room: self.host.weight_sum() + u64::from(weight) <= self.capacity,
        };
        self.host.count_request();
        self.host.set_now(Tick(self.host.now().0 + 7));
        let is_admitted = u64::from(weight) <= self.capacity
            && filter.admit(&self.host, missed) == Admit::Yes
            && self.policy.miss(&self.host, missed.key_hash, weight) == Admit::Yes;
        if is_admitted {
            while self.host.weight_sum() + u64::from(weight) > self.capacity
                && let Some(victim) = self.choose_victim(budget)
            {
                filter.evicted(&self.host, victim);
                self.forget(victim);
            }
            self.insert(key, weight);
        }
        false
    }

    /// Sets an arbitrary next request, for policies that need the future.
    fn foretell(&mut self, slot: Slot) {
        let requests = self.host.requests();
        let next = scramble(requests) % 5 * (scramble(!requests) % 1000);
        let next = if next == 0 { u64::MAX } else { requests + next };
        self.host.set_next_access(slot, Some(next));
    }

    fn insert(&mut self, key: u64, weight: u32) {
        let slot = self.host.add(scramble(key), weight, None);
        self.host.hold(slot);
        self.foretell(slot);
        self.table.insert(key, slot);
        self.keys.insert(slot, key);
        self.policy.insert(&mut self.host, slot);
    }

    /// Evicts until `weight` fits or the policy holds no entry. In the second case the capacity is
    /// used by entries that it does not hold.
    pub fn make_room(&mut self, weight: u64, budget: u32) {
        while self.host.weight_sum() + weight > self.capacity && self.evict_one(budget) {}
    }

    /// Evicts one entry, in calls of at most `budget` steps (at least one; with 0, a call without a
    /// step is made first). Returns false if the policy holds none.
    pub fn evict_one(&mut self, budget: u32) -> bool {
        let Some(victim) = self.choose_victim(budget) else {
            return false;
        };
        let key = self.forget(victim);
        self.victims.push(key);
        true
    }

    /// Returns the policy's next victim. The policy no longer holds it, but it is still live in the
    /// host.
    fn choose_victim(&mut self, budget: u32) -> Option<Slot> {
        let held = self.host.held().len();
        if budget == 0 {
            let answer = self.policy.evict(&mut self.host, &mut Budget(0));
            let is_empty = answer == Eviction::Empty && held == 0;
            assert!(
                is_empty || answer == Eviction::Again,
                "without a budget: {answer:?}"
            );
        }
        let budget = budget.max(1);
        let mut steps_left = 100_000u32;
        loop {
            let mut host = Watched {
                host: &mut self.host,
                seen: RefCell::default(),
            };
            let mut left = Budget(budget);
            let answer = self.policy.evict(&mut host, &mut left);
            let seen = host.seen.borrow().len();
            assert!(left.0 <= budget, "a budget only shrinks");
            assert!(
                seen <= 4 * budget as usize + 8,
                "{seen} entries seen with budget {budget}"
            );
            match answer {
                Eviction::Victim(slot) => {
                    assert!(self.host.is_live(slot), "the victim {slot:?} is not live");
                    assert!(
                        self.host.is_held(slot),
                        "{slot:?} is not held by the policy"
                    );
                    return Some(slot);
                }
                Eviction::Again => {
                    assert_eq!(left.0, 0, "stopped with budget left");
                    steps_left = steps_left
                        .checked_sub(budget)
                        .expect("evictions make progress");
                }
                Eviction::Empty => {
                    assert_eq!(held, 0, "`Empty` was returned with {held} entries held");
                    return None;
                }
            }
        }
    }

    /// Frees an entry that the policy no longer holds.
    fn forget(&mut self, slot: Slot) -> u64 {
        let key = self.keys.remove(&slot).expect("every live entry has a key");
        self.table.remove(&key);
        self.host.free(slot);
        key
    }

    /// Deletes a key, for a reason other than eviction.
    pub fn remove(&mut self, key: u64) {
        if let Some(&slot) = self.table.get(&key) {
            if self.host.is_held(slot) {
                self.policy.remove(&mut self.host, slot);
            }
            self.forget(slot);
        }
    }

    /// Changes the weight of an entry in place and makes room for it.
    pub fn reweigh(&mut self, key: u64, weight: u32, budget: u32) {
        if let Some(&slot) = self.table.get(&key) {
            let old = self.host.set_weight(slot, weight);
            if self.host.is_held(slot) {
                self.policy.reweigh(&mut self.host, slot, old);
            }
            self.make_room(0, budget);
        }
    }

    /// Moves an entry to another slot.
    pub fn relocate(&mut self, key: u64) {
        if let Some(&old) = self.table.get(&key) {
            let new = self.host.relocate(old);
            self.keys.remove(&old);
            self.keys.insert(new, key);
            self.table.insert(key, new);
            if self.host.is_held(new) {
                self.policy.moved(&mut self.host, old, new);
            }
        }
    }

    /// Changes the weight and the slot of an entry, as for a value that outgrows its room: `moved`
    /// is called first, when the weight is already the new one.
    pub fn outgrow(&mut self, key: u64, weight: u32, budget: u32) {
        if let Some(&slot) = self.table.get(&key) {
            let old = self.host.set_weight(slot, weight);
            self.relocate(key);
            let new = self.table[&key];
            if self.host.is_held(new) {
                self.policy.reweigh(&mut self.host, new, old);
            }
            self.make_room(0, budget);
        }
    }

    /// Removes an entry that stays live from the policy, or inserts one that the policy does not
    /// hold, as for a `volatile-*` policy when a key loses or gets its deadline.
    pub fn toggle(&mut self, key: u64) {
        if let Some(&slot) = self.table.get(&key) {
            if self.host.is_held(slot) {
                self.policy.remove(&mut self.host, slot);
                self.host.release(slot);
            } else {
                self.host.hold(slot);
                self.policy.insert(&mut self.host, slot);
            }
        }
    }

    /// Sets the capacity and evicts the entries that no longer fit.
    pub fn resize(&mut self, capacity: u64, budget: u32) {
        self.capacity = capacity;
        self.policy.resize(capacity);
        self.make_room(0, budget);
    }

    /// Executes one step.
    pub fn step(&mut self, (kind, key, amount): Step) {
        let budget = u32::from(amount >> 12);
        let amount = u64::from(amount & 0xFFF);
        let key = u64::from(key) % KEYS;
        let weight = 1 + (amount % 9) as u32;
        match kind % 32 {
            0..=11 => self.request(key, weight, budget),
            12 | 13 => (0..8).for_each(|more| self.request((key + more) % KEYS, weight, budget)),
            14 => self.request(KEYS + amount, 1 + amount as u32 % 40, budget),
            15..=18 => self.remove(key),
            19 => (0..amount % 40).for_each(|more| self.remove((key + more) % KEYS)),
            20 => self.reweigh(key, weight + amount as u32 % 13, budget),
            21 => self.outgrow(key, weight + amount as u32 % 13, budget),
            22 | 23 => self.relocate(key),
            24 => (0..amount % 40).for_each(|more| self.relocate((key + more) % KEYS)),
            25 => self.toggle(key),
            26 => {
                self.evict_one(budget);
            }
            27 => {
                // A miss that no insertion follows.
                if !self.table.contains_key(&key) {
                    self.policy.miss(&self.host, scramble(key), weight);
                }
            }
            28 => (0..20).for_each(|_| {
                // The same slot is vacated and inserted again and again.
                self.remove(key);
                self.request(key, weight, budget);
            }),
            29 => self.resize(
                [0, 1, 10, 60, CAPACITY, 5 * CAPACITY][amount as usize % 6],
                budget,
            ),
            30 => self.resize(CAPACITY, budget),
            _ => self.host.set_now(Tick(amount * 1000)),
        }
    }
}

/// Runs random steps with `check` after each. Then every entry held must be evicted, and the same
/// steps must give the same victims again.
pub fn keeps_contract<P: Policy>(config: &P::Config, seed: u64, steps: &[Step]) {
    let run = || {
        let mut trial = Trial::<P>::new(CAPACITY, config, seed);
        for &step in steps {
            trial.step(step);
            trial.policy.check(&trial.host);
        }
        let held = trial.host.held().len();
        let before = trial.victims.len();
        while trial.evict_one(steps.len() as u32 % 4) {
            trial.policy.check(&trial.host);
        }
        assert_eq!(
            trial.victims.len() - before,
            held,
            "every entry is evictable in the end"
        );
        assert!(
            trial.policy.heap_bytes() < 1 << 18,
            "{} bytes",
            trial.policy.heap_bytes()
        );
        trial.victims
    };
    assert_eq!(run(), run(), "equal seeds give equal decisions");
}

/// Deletes, relocates and reuses slots hundreds of thousands of times: the memory left behind must
/// be bounded by the live entries.
pub fn bounds_memory_under_churn<P: Policy>(config: &P::Config) {
    let mut trial = Trial::<P>::new(100_000, config, 1);
    for round in 0..100_000u64 {
        let key = scramble(round) % 64;
        match round % 4 {
            0 => trial.remove(key),
            1 => trial.relocate(key),
            _ => trial.request(key, 1 + (round % 100) as u32, 3),
        }
    }
    trial.policy.check(&trial.host);
    let bytes = trial.policy.heap_bytes();
    assert!(
        bytes < 1 << 18,
        "{bytes} bytes for {} entries",
        trial.host.len()
    );
    while trial.evict_one(1000) {}
}

/// A policy in a simple implementation: keys in vectors, no budget, no slots.
pub trait NaivePolicy {
    /// Handles a request for a key that is held.
    fn hit(&mut self, key: u64);
    /// Handles a request for a key that is not held and is about to be inserted.
    fn miss(&mut self, _key: u64) {}
    /// Inserts a key.
    fn insert(&mut self, key: u64, weight: u32);
    /// Removes a key for a reason other than eviction.
    fn remove(&mut self, key: u64);
    /// Changes the weight of a key.
    fn reweigh(&mut self, _key: u64, _weight: u32) {}
    /// Removes and returns the victim; `None` if no key is held.
    fn evict(&mut self) -> Option<u64>;
}

/// Runs policy and model on the same requests and compares every victim. With `leave`, keys are
/// also deleted and entries relocated; policies that file references in epochs are exact only
/// without it.
pub fn agrees_with_model<P: Policy>(
    config: &P::Config,
    mut model: impl NaivePolicy,
    capacity: u64,
    steps: &[Step],
    leave: bool,
) {
    let mut trial = Trial::<P>::new(capacity, config, 1);
    for &(kind, key, amount) in steps {
        let key = u64::from(key) % KEYS;
        let weight = 1 + u32::from(amount % 3);
        let budget = u32::from(amount >> 12);
        let held = trial.table.contains_key(&key);
        match (kind % 8, held, leave) {
            (6, true, true) => {
                trial.remove(key);
                model.remove(key);
            }
            (7, true, true) => trial.relocate(key),
            (_, true, _) => {
                model.hit(key);
                trial.request(key, weight, budget);
            }
            (_, false, _) => {
                model.miss(key);
                let before = trial.victims.len();
                trial.request(key, weight, budget);
                for &victim in &trial.victims[before..] {
                    assert_eq!(model.evict(), Some(victim));
                }
                if trial.table.contains_key(&key) {
                    model.insert(key, weight);
                }
            }
        }
    }
    while let Some(victim) = model.evict() {
        assert!(trial.evict_one(2));
        assert_eq!(trial.victims.last(), Some(&victim));
    }
    assert!(!trial.evict_one(2));
}

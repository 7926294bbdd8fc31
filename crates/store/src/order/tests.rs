//! Tests that apply random operations to the order and to a sorted vector, with equal scores and
//! changing slots.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Op {
    Insert(i8, u16),
    /// Adds members in order: score, first member, number.
    Fill(i8, u16, u16),
    Push(u16),
    Remove(u16),
    /// Removes members by rank: first rank, number.
    RemoveRange(u16, u16),
    Relabel(u16),
    Look(i8, u16),
    Clone,
}

fn op() -> impl Strategy<Value = Op> {
    let score = || -3..4i8;
    prop_oneof![
        8 => (score(), any::<u16>()).prop_map(|(s, m)| Op::Insert(s, m)),
        2 => (score(), any::<u16>(), 1..900u16).prop_map(|(s, m, n)| Op::Fill(s, m, n)),
        1 => (1..900u16).prop_map(Op::Push),
        4 => any::<u16>().prop_map(Op::Remove),
        2 => (any::<u16>(), 1..900u16).prop_map(|(r, n)| Op::RemoveRange(r, n)),
        3 => any::<u16>().prop_map(Op::Relabel),
        3 => (score(), any::<u16>()).prop_map(|(s, m)| Op::Look(s, m)),
        1 => Just(Op::Clone),
    ]
}

/// The order, the model, and the members of the slots.
struct Run {
    order: Order,
    model: Vec<(f64, u32)>,
    members: BTreeMap<u32, u32>,
    slots: BTreeMap<u32, u32>,
    next_slot: u32,
}

/// Compares an entry with a score and a member.
fn compare(
    members: &BTreeMap<u32, u32>,
    (score, member): (f64, u32),
) -> impl FnMut(Entry) -> Ordering {
    move |entry| {
        let by_score = entry.score().total_cmp(&score);
        by_score.then_with(|| members[&entry.slot().0].cmp(&member))
    }
}

impl Run {
    fn new() -> Run {
        Run {
            order: Order::new(),
            model: Vec::new(),
            members: BTreeMap::new(),
            slots: BTreeMap::new(),
            next_slot: 0,
        }
    }

    /// Returns a slot for a new member and records the member's name.
    fn name(&mut self, member: u32) -> Slot {
        let slot = self.next_slot;
        self.next_slot += 1;
        self.members.insert(slot, member);
        self.slots.insert(member, slot);
        Slot(slot)
    }

    fn insert(&mut self, score: f64, member: u32) {
        if self.slots.contains_key(&member) {
            return;
        }
        let key = (score, member);
        let entry = Entry::new(score, self.name(member));
        self.order.insert(entry, compare(&self.members, key));
        let at = self.model.partition_point(|other| *other < key);
        self.model.insert(at, key);
    }

    fn push(&mut self, count: u16) {
        for _ in 0..count {
            let (score, member) = self.model.last().map_or((0.0, 0), |last| (last.0, last.1));
            let key = (score.max(9.0), member.max(100_000) + 1);
            let entry = Entry::new(key.0, self.name(key.1));
            self.order.push(entry);
            self.model.push(key);
        }
    }

    fn forget(&mut self, entry: Entry, key: (f64, u32)) {
        assert_eq!(entry.score(), key.0);
        assert_eq!(self.members.remove(&entry.slot().0), Some(key.1));
        assert_eq!(self.slots.remove(&key.1), Some(entry.slot().0));
    }

    fn apply(&mut self, op: &Op) {
        let pick = |n: u16, len: usize| n as usize % len.max(1);
        match *op {
            Op::Insert(score, member) => self.insert(f64::from(score), u32::from(member)),
            Op::Fill(score, first, count) => {
                (0..u32::from(count))
                    .for_each(|n| self.insert(f64::from(score), u32::from(first) + n));
            }
            Op::Push(count) => self.push(count),
            Op::Remove(n) if !self.model.is_empty() => {
                let key = self.model.remove(pick(n, self.model.len()));
                let entry = self.order.remove(compare(&self.members, key));
                self.forget(entry, key);
            }
            Op::RemoveRange(n, count) => {
                let rank = pick(n, self.model.len());
                for _ in 0..count.min((self.model.len() - rank) as u16) {
                    let key = self.model.remove(rank);
                    let entry = self.order.remove(compare(&self.members, key));
                    self.forget(entry, key);
                }
            }
            Op::Relabel(n) if !self.model.is_empty() => {
                let key = self.model[pick(n, self.model.len())];
                let old = self.slots[&key.1];
                let new = self.name(key.1);
                self.order.set_slot(new, compare(&self.members, key));
                self.members.remove(&old);
            }
            Op::Clone => self.order = self.order.clone(),
            Op::Look(score, member) => self.look(f64::from(score), u32::from(member)),
            _ => {}
        }
    }

    /// Compares ranks, ranges and single entries with the model.
    fn look(&self, score: f64, member: u32) {
        let key = (score, member);
        let mut compare = compare(&self.members, key);
        let rank = self.order.partition_point(|entry| compare(entry).is_lt());
        assert_eq!(rank, self.model.partition_point(|other| *other < key));
        assert_eq!(
            self.order.get(rank).map(Entry::score),
            self.model.get(rank).map(|key| key.0)
        );
        let ranks = rank..rank + member as usize % 200;
        let wanted = &self.model[rank..ranks.end.min(self.model.len())];
        let key = |entry: Entry| (entry.score(), self.members[&entry.slot().0]);
        let forward: Vec<_> = self.order.iter(ranks.clone()).map(key).collect();
        assert_eq!(forward, wanted);
        let mut backward: Vec<_> = self.order.iter(ranks.clone()).rev().map(key).collect();
        backward.reverse();
        assert_eq!(backward, wanted);
        let mut both = self.order.iter(ranks);
        let mut taken = Vec::new();
        while let Some(entry) = both.next() {
            taken.push(key(entry));
            let from = taken.len();
            taken.extend(both.next_back().map(key));
            assert!(taken.len() - from <= 1);
        }
        taken.sort_by(|a, b| a.partial_cmp(b).expect("no NaN"));
        assert_eq!(taken, wanted);
    }

    fn check(&self) {
        let key = |entry: Entry| (entry.score(), self.members[&entry.slot().0]);
        self.order
            .check(|a, b| key(a).partial_cmp(&key(b)).expect("no NaN"));
        assert_eq!(self.order.len(), self.model.len());
        let all: Vec<_> = self.order.iter(0..usize::MAX).map(key).collect();
        assert_eq!(all, self.model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn an_order_holds_what_a_sorted_vector_holds(ops in prop::collection::vec(op(), 1..80)) {
        let mut run = Run::new();
        for op in &ops {
            run.apply(op);
            run.check();
        }
        while !run.model.is_empty() {
            run.apply(&Op::RemoveRange(ops.len() as u16, 300));
            run.check();
        }
        prop_assert!(run.order.heap_bytes() <= 2 * LEAF_STEP * size_of::<Entry>());
    }
}

#[test]
fn a_tree_filled_in_order_has_no_unused_room() {
    let mut order = Order::new();
    let count = 100_000;
    (0..count).for_each(|n| order.push(Entry::new(f64::from(n), Slot(n))));
    order.check(|a, b| a.score().total_cmp(&b.score()));
    // 12 bytes per entry, and 48 per leaf of 64.
    assert!(order.heap_bytes() < count as usize * 13);
}

#[test]
fn a_tree_filled_at_random_costs_sixteen_bytes_per_entry() {
    let mut order = Order::new();
    let count = 100_000;
    let mut state = 1u64;
    for n in 0..count {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let score = (state >> 20) as f64;
        order.insert(Entry::new(score, Slot(n)), |e| e.score().total_cmp(&score));
    }
    order.check(|a, b| a.score().total_cmp(&b.score()));
    assert!(
        order.heap_bytes() < count as usize * 17,
        "{}",
        order.heap_bytes()
    );
}

#[test]
fn a_tree_is_freed_in_steps() {
    let mut order = Order::new();
    (0..10_000).for_each(|n| order.push(Entry::new(f64::from(n), Slot(n))));
    let mut calls = 0;
    loop {
        let mut steps = 10;
        calls += 1;
        if order.dismantle(&mut steps) {
            break;
        }
        assert_eq!(steps, 0);
    }
    assert_eq!(calls, 10_000usize.div_ceil(LEAF_MAX).div_ceil(10));
    assert_eq!((order.len(), order.heap_bytes()), (0, 0));
}

#[test]
fn every_score_is_returned_unchanged() {
    for score in [0.0, -0.0, 1.5, -1e300, f64::INFINITY, f64::NEG_INFINITY] {
        let entry = Entry::new(score, Slot(7));
        assert_eq!(entry.score().to_bits(), score.to_bits());
        assert_eq!(entry.slot(), Slot(7));
    }
}

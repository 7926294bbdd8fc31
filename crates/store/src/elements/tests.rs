//! Tests that apply random operations to the elements and to a plain map that follows each slot
//! through all moves.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

thread_local! {
    /// Number of deadlines examined since the last reset.
    pub(crate) static LOOKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[derive(Clone, Debug)]
enum Op {
    Insert(u16, usize),
    /// Adds many elements, so that pages split and merge.
    Fill(u16, u16),
    Clear(u16, u16),
    Remove(u16),
    SetValue(u16, usize),
    SetDeadline(u16, Option<u64>),
    SetLink(u16, u16),
    Sample(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let len = || prop_oneof![8 => 0..20usize, 2 => 90..140usize, 1 => 1000..3000usize];
    let key = || 0..2000u16;
    prop_oneof![
        6 => (key(), len()).prop_map(|(k, l)| Op::Insert(k, l)),
        1 => (key(), 0..400u16).prop_map(|(k, n)| Op::Fill(k, n)),
        1 => (key(), 0..400u16).prop_map(|(k, n)| Op::Clear(k, n)),
        4 => key().prop_map(Op::Remove),
        4 => (key(), len()).prop_map(|(k, l)| Op::SetValue(k, l)),
        4 => (key(), prop::option::of(1..1000u64)).prop_map(|(k, d)| Op::SetDeadline(k, d)),
        2 => (key(), any::<u16>()).prop_map(|(k, l)| Op::SetLink(k, l)),
        1 => any::<u64>().prop_map(Op::Sample),
    ]
}

#[derive(Clone, Debug, PartialEq)]
struct Plain {
    slot: Slot,
    value: Vec<u8>,
    deadline: Option<Tick>,
    link: u64,
}

struct Pair {
    elements: Elements,
    plain: BTreeMap<Vec<u8>, Plain>,
}

fn name(key: u16) -> Vec<u8> {
    format!("member:{key}").into_bytes()
}

fn value(tail: Tail, len: usize) -> Vec<u8> {
    match tail {
        Tail::Nothing => vec![],
        Tail::Score => (len as u64).to_le_bytes().to_vec(),
        Tail::Value => vec![len as u8; len],
    }
}

impl Pair {
    fn new(tail: Tail, link_bits: u32) -> Pair {
        Pair {
            elements: Elements::new(tail, [1, 2], link_bits),
            plain: BTreeMap::new(),
        }
    }

    fn follow(&mut self) {
        let mut slots: BTreeMap<Slot, &mut Plain> = BTreeMap::new();
        for entry in self.plain.values_mut() {
            slots.insert(entry.slot, entry);
        }
        while let Some((from, to)) = self.elements.take_move() {
            assert!(!self.elements.is_live(from) && self.elements.is_live(to));
            let entry = slots
                .remove(&from)
                .expect("the slot that moves must be known");
            entry.slot = to;
            assert!(slots.insert(to, entry).is_none());
        }
    }

    fn insert(&mut self, key: u16, len: usize) {
        let (member, value) = (name(key), value(self.elements.kind.tail, len));
        if let Some(entry) = self.plain.get_mut(&member) {
            self.elements.set_value(entry.slot, &value);
            entry.value = value;
            return;
        }
        let slot = self.elements.insert(&member, &value);
        let entry = Plain {
            slot,
            value,
            deadline: None,
            link: 0,
        };
        self.plain.insert(member, entry);
        self.follow();
    }

    fn remove(&mut self, key: u16) {
        let found = self.elements.find(&name(key));
        let entry = self.plain.remove(&name(key));
        assert_eq!(found, entry.map(|entry| entry.slot));
        if let Some(slot) = found {
            self.elements.remove(slot);
            self.elements.merge();
            self.follow();
        }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Insert(key, len) => self.insert(key, len),
            Op::Fill(key, count) => (key..key + count).for_each(|key| self.insert(key, 3)),
            Op::Clear(key, count) => (key..key + count).for_each(|key| self.remove(key)),
            Op::Remove(key) => self.remove(key),
            Op::SetValue(key, len) => {
                if self.plain.contains_key(&name(key)) {
                    self.insert(key, len);
                }
            }
            Op::SetDeadline(key, deadline) => {
                if let Some(entry) = self.plain.get_mut(&name(key)) {
                    entry.deadline = deadline.map(Tick);
                    entry.link = if deadline.is_some() { entry.link } else { 0 };
                    self.elements.set_deadline(entry.slot, entry.deadline);
                }
            }
            Op::SetLink(key, link) => {
                if let Some(entry) = self.plain.get_mut(&name(key))
                    && entry.deadline.is_some()
                {
                    let link = u64::from(link);
                    entry.link = link;
                    self.elements.set_link(entry.slot, link);
                }
            }
            Op::Sample(random) => {
                let found = self.elements.sample_where(random, |_| true);
                assert_eq!(found.is_some(), !self.plain.is_empty());
                assert!(found.is_none_or(|slot| self.elements.is_live(slot)));
            }
        }
    }

    fn compare(&self) {
        self.elements.check();
        assert_eq!(self.elements.len(), self.plain.len());
        for (member, entry) in &self.plain {
            let slot = entry.slot;
            assert_eq!(self.elements.find(member), Some(slot));
            assert_eq!(self.elements.member(slot), member);
            assert_eq!(self.elements.value(slot), entry.value);
            assert_eq!(self.elements.deadline(slot), entry.deadline);
            if entry.deadline.is_some() {
                assert_eq!(self.elements.link(slot), entry.link);
            }
        }
        let slots: BTreeSet<Slot> = self.elements.iter().collect();
        assert_eq!(slots, self.plain.values().map(|entry| entry.slot).collect());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn elements_hold_what_a_plain_map_holds(
        tail in prop_oneof![Just(Tail::Nothing), Just(Tail::Value), Just(Tail::Score)],
        link_bits in prop_oneof![Just(16), Just(32), Just(64)],
        ops in prop::collection::vec(op(), 1..80),
    ) {
        let mut pair = Pair::new(tail, link_bits);
        for op in ops {
            pair.apply(op);
        }
        pair.compare();
        let keys: Vec<Vec<u8>> = pair.plain.keys().cloned().collect();
        for member in keys {
            let slot = pair.elements.find(&member).expect("it is present");
            pair.elements.remove(slot);
            pair.elements.merge();
            pair.plain.remove(&member);
            pair.follow();
        }
        pair.compare();
        prop_assert!(pair.elements.pages.len() <= 1 + PAGES_LEFT);
    }

    #[test]
    fn a_scan_returns_every_element_that_stays(
        count in 1..2000u16,
        step in 1..200usize,
        changes in prop::collection::vec((any::<bool>(), 0..400u16), 1..40),
    ) {
        let mut pair = Pair::new(Tail::Nothing, 16);
        (0..count).for_each(|key| pair.insert(key, 0));
        let (mut reported, mut cursor) = (BTreeSet::new(), 0);
        let mut changes = changes.into_iter().cycle();
        for calls in 0.. {
            prop_assert!(calls < 100_000, "the scan does not end");
            let elements = &pair.elements;
            cursor = elements.scan(cursor, step, &mut |slot| {
                reported.insert(elements.member(slot).to_vec());
            });
            if cursor == 0 {
                break;
            }
            // Changes during the scan make pages split and merge.
            let (comes, many) = changes.next().expect("a cycle");
            for key in 10_000..10_000 + many {
                if comes { pair.insert(key, 0) } else { pair.remove(key) }
            }
        }
        prop_assert!((0..count).all(|key| reported.contains(&name(key))));
    }
}

/// Maximum number of excess pages that may remain when there are no elements, because each removal
/// merges one page.
const PAGES_LEFT: usize = 1;

#[test]
fn an_element_costs_few_bytes() {
    // Members of 14 bytes and values of 3, at counts between powers of two.
    let mut elements = Elements::new(Tail::Value, [3, 4], 16);
    let (mut count, mut worst) = (0u32, 0f64);
    for target in [100_000, 125_000, 150_000, 175_000, 200_000] {
        while count < target {
            elements.insert(format!("field:{count:08}").as_bytes(), b"abc");
            while elements.take_move().is_some() {}
            count += 1;
        }
        worst = worst.max(elements.heap_bytes() as f64 / f64::from(count));
    }
    println!("{worst} bytes an element at most");
    assert!(worst < 27.0, "{worst} bytes an element");
}

#[test]
fn every_element_is_sampled_about_equally_often() {
    let mut elements = Elements::new(Tail::Nothing, [5, 6], 16);
    for i in 0..100u32 {
        elements.insert(&i.to_le_bytes(), b"");
        while elements.take_move().is_some() {}
    }
    let mut counts = BTreeMap::new();
    let mut random = 1u64;
    for _ in 0..100_000 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let slot = elements
            .sample_where(random, |_| true)
            .expect("there are some");
        *counts.entry(slot).or_insert(0) += 1;
    }
    // 1,000 each are expected, with a standard deviation of about 32.
    assert!(
        counts.len() == 100 && counts.values().all(|n| (800..1200).contains(n)),
        "{counts:?}"
    );
}

#[test]
fn the_size_becomes_smaller_with_each_long_element_that_is_freed() {
    // Regression: elements outside the pages counted until the last page was freed.
    let mut elements = Elements::new(Tail::Nothing, [1, 2], 16);
    let member = |number: usize| format!("{number:03000}").into_bytes();
    for number in 0..200 {
        elements.insert(&member(number), &[]);
        while elements.take_move().is_some() {}
    }
    let before = elements.heap_bytes();
    assert!(elements.dismantle(100));
    assert!(elements.heap_bytes() <= before - 100 * 3000);
    while elements.dismantle(100) {}
    assert_eq!(elements.held_bytes, 0);
}

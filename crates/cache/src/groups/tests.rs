//! Groups against the plainest model: each entry with the names of its groups, and whether each
//! name was dissolved since.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap as Map;

#[derive(Clone, Debug)]
enum Op {
    /// Adds entries with a stride between their slots, to a group.
    Add(u32, u32, u32, u8),
    Join(usize, u8),
    Remove(usize),
    Move(usize, u32),
    Dissolve(u8),
    Sweep(u32),
    Save,
}

fn op() -> impl Strategy<Value = Op> {
    let slot = prop_oneof![0..200u32, 60_000..140_000u32];
    prop_oneof![
        4 => (slot.clone(), 1..6000u32, 1..9u32, 0..6u8).prop_map(|(a, n, s, g)| Op::Add(a, n, s, g)),
        6 => (slot.clone(), 1..4u32, 1..9u32, 0..6u8).prop_map(|(a, n, s, g)| Op::Add(a, n, s, g)),
        6 => (any::<usize>(), 0..6u8).prop_map(|(at, group)| Op::Join(at, group)),
        4 => any::<usize>().prop_map(Op::Remove),
        4 => (any::<usize>(), slot).prop_map(|(at, to)| Op::Move(at, to)),
        2 => (0..6u8).prop_map(Op::Dissolve),
        2 => (1..9000u32).prop_map(Op::Sweep),
        1 => Just(Op::Save),
    ]
}

/// Groups of an entry: the name, when it was dissolved (0: not), and the number in its block.
type Model = Map<u32, Vec<(u8, u64, u32)>>;

fn marks(of: &[(u8, u64, u32)]) -> Marks {
    let mut marks = Marks::default();
    for (.., number) in of {
        assert!(marks.push(*number));
    }
    marks
}

fn nth(model: &Model, at: usize) -> Option<u32> {
    let at = at.checked_rem(model.len())?;
    model.keys().nth(at).copied()
}

#[derive(Default)]
struct Both {
    groups: Groups,
    model: Model,
    dissolved: u64,
    saved: u64,
}

impl Both {
    fn join(&mut self, slot: u32, name: u8) {
        let held = self.model.entry(slot).or_default();
        if held.iter().any(|(of, ..)| *of == name) {
            return; // A member already, or of a dissolved group of this name.
        }
        let number = self.groups.number(&[name]);
        self.groups.add(number, Slot(slot));
        held.push((name, 0, number));
    }

    fn remove(&mut self, slot: u32) {
        for (.., number) in self.model.remove(&slot).expect("the model holds it") {
            self.groups.remove(number, Slot(slot));
        }
    }

    fn dissolve(&mut self, name: u8) {
        let mut count = 0;
        let at = self.dissolved + 1;
        for held in self.model.values_mut().flatten() {
            if held.0 == name && held.1 == 0 {
                (held.1, count) = (at, count + 1);
            }
        }
        assert_eq!(self.groups.dissolve(&[name]), count);
        self.dissolved += u64::from(count > 0);
    }

    fn sweep(&mut self, mut steps: u32) {
        while steps > 0
            && let Some(slot) = self.groups.next_stale(&mut steps)
        {
            let held = &self.model[&slot.0];
            assert!(held.iter().any(|(_, at, _)| *at > 0));
            self.remove(slot.0);
            steps -= 1;
        }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Add(first, count, stride, name) => {
                (0..count).for_each(|n| self.join(first + n * stride, name));
            }
            Op::Join(at, name) => {
                if let Some(slot) = nth(&self.model, at) {
                    self.join(slot, name);
                }
            }
            Op::Remove(at) => {
                if let Some(slot) = nth(&self.model, at) {
                    self.remove(slot);
                }
            }
            Op::Move(at, to) => {
                if let Some(slot) = nth(&self.model, at)
                    && !self.model.contains_key(&to)
                {
                    let held = self.model.remove(&slot).expect("it is there");
                    self.groups.moved(&marks(&held), Slot(slot), Slot(to));
                    self.model.insert(to, held);
                }
            }
            Op::Dissolve(name) => self.dissolve(name),
            Op::Sweep(steps) => self.sweep(steps),
            Op::Save => {
                self.groups.begin_saving();
                self.saved = self.dissolved;
            }
        }
    }

    fn compare(&self) {
        let entries = self.model.iter();
        self.groups
            .check(&mut entries.map(|(slot, held)| (Slot(*slot), marks(held))));
        for held in self.model.values() {
            let marks = marks(held);
            let stale = |until: u64| held.iter().any(|(_, at, _)| (1..=until).contains(at));
            assert_eq!(self.groups.is_stale(&marks), stale(u64::MAX));
            assert_eq!(self.groups.was_stale(&marks), stale(self.saved));
            for (name, _, number) in held {
                assert_eq!(self.groups.name(*number), [*name]);
            }
        }
        for name in 0..6u8 {
            let is_member = |held: &&Vec<_>| {
                held.iter()
                    .any(|of: &(u8, u64, u32)| of.0 == name && of.1 == 0)
            };
            let expected: Vec<u32> = self
                .model
                .iter()
                .filter(|(_, held)| is_member(held))
                .map(|(slot, _)| *slot)
                .collect();
            let mut found = Vec::new();
            self.groups
                .each_of(&[name], usize::MAX, &mut |slot| found.push(slot.0));
            found.sort_unstable();
            assert_eq!(found, expected);
            assert_eq!(self.groups.len_of(&[name]), expected.len());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn groups_behave_like_sets_of_entries(ops in prop::collection::vec(op(), 1..30)) {
        let mut both = Both::default();
        for op in ops {
            both.apply(op);
        }
        both.compare();
        (0..6).for_each(|name| both.dissolve(name));
        both.sweep(u32::MAX);
        both.compare();
        prop_assert!(both.groups.is_empty());
        prop_assert!(both.model.values().all(Vec::is_empty));
    }
}

#[test]
fn a_member_of_a_large_group_takes_at_most_two_bytes_and_a_quarter() {
    for stride in [2u32, 4, 6, 40, 300] {
        let mut groups = Groups::default();
        let number = groups.number(b"tag");
        let count = 100_000;
        (0..count).for_each(|n| groups.add(number, Slot(n * stride)));
        let each = groups.heap_bytes() as f64 / f64::from(count);
        assert!(each < 2.6, "{each} bytes at a stride of {stride}");
        (0..count).for_each(|n| groups.remove(number, Slot(n * stride)));
        assert!(groups.is_empty());
        assert!(groups.heap_bytes() < 1000, "{}", groups.heap_bytes());
    }
}

#[test]
fn the_groups_of_a_flushed_database_are_freed_in_steps() {
    let mut groups = Groups::default();
    for n in 0..1_000u32 {
        let number = groups.number(&n.to_le_bytes());
        groups.add(number, Slot(n));
    }
    let calls = (1..).find(|_| !groups.dismantle(100));
    assert_eq!(calls, Some(10));
}

//! Groups against the plainest model: each entry with the names of its groups, and whether each
//! name was dissolved or softened since.

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
    Soften(u8, u64),
    /// Ends softened groups, at most a number of them.
    End(u64, u32),
    EndOf(usize, u64),
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
        4 => (0..6u8, 0..9u64).prop_map(|(name, until)| Op::Soften(name, until)),
        1 => (0..9u64, 0..4u32).prop_map(|(now, steps)| Op::End(now, steps)),
        1 => (any::<usize>(), 0..9u64).prop_map(|(at, now)| Op::EndOf(at, now)),
        2 => (1..9000u32).prop_map(Op::Sweep),
        1 => Just(Op::Save),
    ]
}

/// A group of an entry.
#[derive(Clone, Copy)]
struct Held {
    name: u8,
    /// Number in the entry's block.
    number: u32,
    /// Number of the call that dissolved it; 0 for others.
    dissolved: u64,
    /// Number of the call that softened it; 0 for others.
    softened: u64,
    until: Option<u64>,
    has_ended: bool,
}

impl Held {
    fn has_passed(&self, now: u64) -> bool {
        self.dissolved == 0 && self.until.is_some_and(|until| now > until)
    }
}

/// Groups of each entry.
type Model = Map<u32, Vec<Held>>;

fn marks(of: &[Held]) -> Marks {
    let mut marks = Marks::default();
    for held in of {
        assert!(marks.push(held.number));
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
    saved: u64,
}

impl Both {
    fn join(&mut self, slot: u32, name: u8) {
        let held = self.model.entry(slot).or_default();
        if held.iter().any(|of| of.name == name && of.until.is_none()) {
            return; // A member already, or of a dissolved group of this name.
        }
        if held.len() == MARKS_MAX {
            return;
        }
        let number = self.groups.number(&[name]);
        self.groups.add(number, Slot(slot));
        held.push(Held {
            name,
            number,
            dissolved: 0,
            softened: 0,
            until: None,
            has_ended: false,
        });
    }

    fn remove(&mut self, slot: u32) {
        for held in self.model.remove(&slot).expect("the model holds it") {
            self.groups.remove(held.number, Slot(slot));
        }
    }

    fn dissolve(&mut self, name: u8) {
        let mut count = 0;
        let at = self.groups.dissolved + 1;
        for held in self.model.values_mut().flatten() {
            if held.name == name && held.dissolved == 0 {
                (held.dissolved, count) = (at, count + 1);
            }
        }
        assert_eq!(self.groups.dissolve(&[name]), count);
    }

    fn soften(&mut self, name: u8, until: u64) {
        let (mut count, mut are_shorter) = (0, false);
        let at = self.groups.dissolved + 1;
        for held in self.model.values_mut().flatten() {
            if held.name != name || held.dissolved > 0 {
                continue;
            }
            match held.until {
                None => {
                    (held.until, held.softened) = (Some(until), at);
                    count += 1;
                }
                Some(before) if before > until => {
                    held.until = Some(until);
                    are_shorter = true;
                }
                Some(_) => {}
            }
        }
        let softened = self.groups.soften(&[name], Tick(until));
        assert_eq!(softened, (count, are_shorter));
    }

    /// Dissolves the groups of the model that `Groups` has ended.
    fn end_in_model(&mut self, numbers: &[u32]) {
        for held in self.model.values_mut().flatten() {
            if numbers.contains(&held.number) {
                held.dissolved = self.groups.group(held.number).dissolved;
                held.has_ended = true;
            }
        }
    }

    fn passed<'h>(held: impl Iterator<Item = &'h Held>, now: u64) -> Vec<u32> {
        let passed = held.filter(|held| held.has_passed(now));
        let numbers: BTreeSet<_> = passed.map(|held| held.number).collect();
        numbers.into_iter().collect()
    }

    fn end(&mut self, now: u64, mut steps: u32) {
        let passed = Both::passed(self.model.values().flatten(), now);
        let has_more = passed.len() > steps as usize;
        assert_eq!(self.groups.end_soft(Tick(now), &mut steps), has_more);
        let ended = passed.into_iter();
        let ended = ended.filter(|number| self.groups.group(*number).dissolved > 0);
        self.end_in_model(&ended.collect::<Vec<_>>());
        let left = Both::passed(self.model.values().flatten(), now);
        assert_eq!(left.is_empty(), !has_more);
    }

    fn end_of(&mut self, slot: u32, now: u64) {
        let passed = Both::passed(self.model[&slot].iter(), now);
        let marks = marks(&self.model[&slot]);
        let has_ended = self.groups.end_soft_of(&marks, Tick(now));
        assert_eq!(has_ended, !passed.is_empty());
        self.end_in_model(&passed);
    }

    fn sweep(&mut self, mut steps: u32) {
        while steps > 0
            && let Some(slot) = self.groups.next_stale(&mut steps)
        {
            let held = &self.model[&slot.0];
            assert!(held.iter().any(|held| held.dissolved > 0));
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
            Op::Soften(name, until) => self.soften(name, until),
            Op::End(now, steps) => self.end(now, steps),
            Op::EndOf(at, now) => {
                if let Some(slot) = nth(&self.model, at) {
                    self.end_of(slot, now);
                }
            }
            Op::Sweep(steps) => self.sweep(steps),
            Op::Save => {
                self.groups.begin_saving();
                self.saved = self.groups.dissolved;
            }
        }
    }

    fn compare(&self) {
        let entries = self.model.iter();
        self.groups
            .check(&mut entries.map(|(slot, held)| (Slot(*slot), marks(held))));
        for held in self.model.values() {
            let marks = marks(held);
            let stale = |until: u64| held.iter().any(|of| (1..=until).contains(&of.dissolved));
            assert_eq!(self.groups.is_stale(&marks), stale(u64::MAX));
            assert_eq!(self.groups.was_stale(&marks), stale(self.saved));
            let soft_until = |until: u64| {
                let soft = held.iter().filter(|of| (1..=until).contains(&of.softened));
                soft.filter_map(|of| of.until.map(Tick)).min()
            };
            assert_eq!(self.groups.soft_until(&marks), soft_until(u64::MAX));
            assert_eq!(self.groups.was_soft_until(&marks), soft_until(self.saved));
            let mut dissolved = held.iter().filter(|of| of.dissolved > 0);
            let has_only_ended = dissolved.all(|of| of.has_ended);
            assert_eq!(self.groups.has_only_ended(&marks), has_only_ended);
            for of in held {
                assert_eq!(self.groups.name(of.number), [of.name]);
            }
        }
        for name in 0..6u8 {
            let of_name = |of: &&Held| of.name == name && of.dissolved == 0;
            let count = |held: &Vec<Held>| held.iter().filter(of_name).count();
            let members = self.model.iter();
            let expected: Vec<u32> = members
                .flat_map(|(slot, held)| std::iter::repeat_n(*slot, count(held)))
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

//! Random operations against a plain sorted vector, with a simulated clock.

use super::*;
use crate::limits::Limits;
use policy::Budget;
use policy::expire::any::ExpirySpec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Bound;

#[derive(Clone, Debug)]
enum Op {
    Set(u8, i8),
    /// Many at once, so that the form changes and pages split.
    Fill(u8, u8, i8),
    Remove(u8),
    RemoveRanks(u8, u8),
    SetDeadline(u8, Option<u64>),
    /// Many on one deadline.
    Crowd(u8, u8, u64),
    SetOwn(Option<u64>),
    Advance(u64),
    Back(u64),
    Purge(u32),
    Duplicate,
    Scan(usize),
    Scores(i8, i8, bool),
    TimedElements(u8, u8, bool),
}

fn op() -> impl Strategy<Value = Op> {
    let ttl = || prop_oneof![3 => 1..50u64, 1 => 1..5000u64];
    let score = || -4..4i8;
    prop_oneof![
        8 => (any::<u8>(), score()).prop_map(|(m, s)| Op::Set(m, s)),
        2 => (any::<u8>(), 0..150u8, score()).prop_map(|(m, n, s)| Op::Fill(m, n, s)),
        4 => any::<u8>().prop_map(Op::Remove),
        2 => (any::<u8>(), 0..100u8).prop_map(|(r, n)| Op::RemoveRanks(r, n)),
        6 => (any::<u8>(), prop::option::of(ttl())).prop_map(|(m, t)| Op::SetDeadline(m, t)),
        2 => (any::<u8>(), any::<u8>(), ttl()).prop_map(|(m, n, t)| Op::Crowd(m, n, t)),
        1 => prop::option::of(ttl()).prop_map(Op::SetOwn),
        6 => (0..30u64).prop_map(Op::Advance),
        1 => (0..300u64).prop_map(Op::Back),
        3 => (0..60u32).prop_map(Op::Purge),
        1 => Just(Op::Duplicate),
        1 => (0..40usize).prop_map(Op::Scan),
        3 => (score(), score(), any::<bool>()).prop_map(|(a, b, x)| Op::Scores(a, b, x)),
        2 => (any::<u8>(), any::<u8>(), any::<bool>()).prop_map(|(a, b, x)| Op::TimedElements(a, b, x)),
    ]
}

/// Score and deadline; dead ones stay until they are purged.
type Plain = BTreeMap<Vec<u8>, (f64, Option<Tick>)>;

struct Pair {
    set: SortedSet,
    plain: Plain,
    own: Option<Tick>,
    now: Tick,
    limits: Limits,
    expiry: ExpirySpec,
}

/// A few are too long to be packed.
fn name(key: u8) -> Vec<u8> {
    let mut name = format!("m{key}").into_bytes();
    if key.is_multiple_of(97) {
        name.resize(200, b'+');
    }
    name
}

impl Pair {
    fn new(entries: i64, expiry: &str) -> Pair {
        let limits = Limits::default();
        limits.set("zset_entries", entries);
        Pair {
            set: SortedSet::new(),
            plain: Plain::new(),
            own: None,
            now: Tick(1_000_000),
            limits,
            expiry: expiry.parse().expect("an index"),
        }
    }

    fn with<R>(&mut self, work: impl FnOnce(&mut SortedSet, &mut Plain, &Scene<'_>) -> R) -> R {
        let scene = Scene {
            now: self.now,
            limits: &self.limits,
            hash_key: [1, 2],
            expiry: &self.expiry,
            seed: 3,
        };
        work(&mut self.set, &mut self.plain, &scene)
    }

    fn is_live(&self, member: &[u8]) -> bool {
        let entry = self.plain.get(member);
        entry.is_some_and(|(_, deadline)| deadline.is_none_or(|deadline| self.now <= deadline))
    }

    /// The live members in order.
    fn live(&self) -> Vec<(Vec<u8>, f64)> {
        let live = self.plain.iter().filter(|(member, _)| self.is_live(member));
        let mut live: Vec<_> = live
            .map(|(member, entry)| (member.clone(), entry.0))
            .collect();
        live.sort_by(|(a, one), (b, other)| compare(*one, a, *other, b));
        live
    }

    fn set(&mut self, key: u8, score: i8) {
        let (member, score) = (name(key), f64::from(score) / 2.0);
        let is_live = self.is_live(&member);
        self.with(|set, plain, scene| {
            set.set(&member, score, scene);
            let entry = plain.entry(member).or_insert((score, None));
            entry.0 = score;
            if !is_live {
                entry.1 = None;
            }
        });
    }

    fn remove(&mut self, key: u8) {
        let member = name(key);
        let was_there = self.is_live(&member);
        if was_there {
            self.plain.remove(&member);
        }
        let removed = self.with(|set, _, scene| set.remove(&member, scene));
        assert_eq!(removed, was_there);
    }

    fn remove_ranks(&mut self, from: u8, count: u8) {
        let live = self.live();
        let start = from as usize % (live.len() + 1);
        let ranks = start..start + count as usize;
        let wanted = &live[start..ranks.end.min(live.len())];
        for (member, _) in wanted {
            self.plain.remove(member);
        }
        let removed = self.with(|set, _, scene| set.remove_ranks(ranks, scene));
        assert_eq!(removed, wanted.len());
    }

    fn set_deadline(&mut self, key: u8, ttl: Option<u64>) {
        let (member, deadline) = (name(key), ttl.map(|ttl| Tick(self.now.0 + ttl)));
        let was_there = self.is_live(&member);
        if was_there {
            self.plain
                .entry(member.clone())
                .and_modify(|entry| entry.1 = deadline);
        }
        let did = self.with(|set, _, scene| set.set_deadline(&member, deadline, scene));
        assert_eq!(did, was_there);
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Set(key, score) => self.set(key, score),
            Op::Fill(key, count, score) => {
                (0..count).for_each(|i| self.set(key.wrapping_add(i), score));
            }
            Op::Remove(key) => self.remove(key),
            Op::RemoveRanks(from, count) => self.remove_ranks(from, count),
            Op::SetDeadline(key, ttl) => self.set_deadline(key, ttl),
            Op::Crowd(key, count, ttl) => {
                (0..count).for_each(|i| self.set_deadline(key.wrapping_add(i), Some(ttl)));
            }
            Op::SetOwn(ttl) => {
                if self.set.deadlines().is_some() {
                    self.own = ttl.map(|ttl| Tick(self.now.0 + ttl));
                    self.set.set_own(self.own);
                }
            }
            Op::Advance(ms) => self.now.0 += ms,
            // What is dead stays dead in the model, so all of it goes before the jump.
            Op::Back(ms) => {
                self.purge(1_000_000);
                self.now.0 -= ms;
            }
            Op::Purge(steps) => self.purge(steps),
            Op::Duplicate => {
                self.set = self.with(|set, _, scene| set.duplicate(scene));
                if self.set.deadlines().is_some() {
                    self.set.set_own(self.own);
                }
            }
            Op::Scan(count) => self.scan(count),
            Op::Scores(min, max, is_open) => self.scores(min, max, is_open),
            Op::TimedElements(min, max, is_open) => self.members(min, max, is_open),
        }
        if self.set.deadlines().is_none() {
            self.own = None;
        }
        if self.set.is_void() {
            self.set = SortedSet::new();
            self.plain.clear();
        }
    }

    fn purge(&mut self, steps: u32) {
        let (now, mut told) = (self.now, 0);
        let mut budget = Budget(steps);
        self.set.purge(now, &mut budget, &mut |deadline, count| {
            assert!(deadline < now, "a member expired before its time");
            told += count as usize;
        });
        if self.set.is_void() {
            assert_eq!(told, self.plain.len());
            assert!(self.live().is_empty());
            return;
        }
        let held: Vec<Vec<u8>> = match &self.set.form {
            Form::Packed(packed) => packed.iter().map(|e| e.member.to_vec()).collect(),
            Form::Large(many) => {
                let elements = many.members.elements();
                let slots = elements.iter();
                slots.map(|slot| elements.member(slot).to_vec()).collect()
            }
        };
        let before = self.plain.len();
        self.plain.retain(|member, _| held.contains(member));
        assert_eq!(before - self.plain.len(), told, "each is told once");
    }

    fn scan(&mut self, count: usize) {
        let mut wanted = self.live();
        wanted.sort_by(|a, b| a.0.cmp(&b.0));
        let found = self.with(|set, _, scene| {
            let (mut found, mut cursor, mut calls) = (BTreeMap::new(), 0, 0);
            loop {
                cursor = set.scan(cursor, count, scene, |member, score| {
                    found.insert(member.to_vec(), score);
                });
                calls += 1;
                assert!(calls < 10_000, "it does not end");
                if cursor == 0 {
                    return found;
                }
            }
        });
        assert_eq!(found.into_iter().collect::<Vec<_>>(), wanted);
    }

    fn scores(&mut self, min: i8, max: i8, is_open: bool) {
        let (min, max) = (f64::from(min) / 2.0, f64::from(max) / 2.0);
        let live = self.live();
        let is_in = |score: f64| {
            if is_open {
                min < score && score <= max
            } else {
                min <= score && score < max
            }
        };
        let interval = if is_open {
            Interval::Scores(Bound::Excluded(min), Bound::Included(max))
        } else {
            Interval::Scores(Bound::Included(min), Bound::Excluded(max))
        };
        let ranks = self.with(|set, _, scene| set.ranks(&interval, scene));
        let wanted = live.iter().filter(|(_, score)| is_in(*score)).count();
        assert_eq!(ranks.len(), wanted);
        assert!(
            live.iter()
                .take(ranks.end)
                .skip(ranks.start)
                .all(|(_, score)| is_in(*score))
        );
    }

    /// Among members of one score: all are given it first.
    fn members(&mut self, min: u8, max: u8, is_open: bool) {
        let live: Vec<_> = self.live().into_iter().map(|(member, _)| member).collect();
        self.with(|set, plain, scene| {
            for member in &live {
                set.set(member, 1.0, scene);
                plain
                    .entry(member.clone())
                    .and_modify(|entry| entry.0 = 1.0);
            }
        });
        // The dead that are still there would be out of order with an interval of members.
        self.purge(1_000_000);
        if self.plain.len() != live.len() || live.is_empty() {
            return;
        }
        let (min, max) = (name(min), name(max));
        let interval = if is_open {
            Interval::Members(Bound::Excluded(&min), Bound::Unbounded)
        } else {
            Interval::Members(Bound::Included(&min), Bound::Included(&max))
        };
        let ranks = self.with(|set, _, scene| set.ranks(&interval, scene));
        let mut names: Vec<_> = self.live().into_iter().map(|(member, _)| member).collect();
        let found: Vec<_> = names
            .drain(..)
            .skip(ranks.start)
            .take(ranks.len())
            .collect();
        let is_in = |member: &Vec<u8>| {
            if is_open {
                *member > min
            } else {
                *member >= min && *member <= max
            }
        };
        let wanted: Vec<_> = self.live().into_iter().map(|e| e.0).filter(is_in).collect();
        assert_eq!(found, wanted);
    }

    fn compare(&mut self) {
        let (live, own) = (self.live(), self.own);
        self.set.check();
        assert_eq!(self.set.is_void(), self.plain.is_empty());
        self.with(|set, plain, scene| {
            assert_eq!(set.len(scene), live.len());
            assert_eq!(set.is_empty(scene), live.is_empty());
            let (mut all, mut back) = (Vec::new(), Vec::new());
            set.each(0..usize::MAX, false, scene, |m, s| {
                all.push((m.to_vec(), s))
            });
            assert_eq!(all, live);
            let part = live.len() / 3..live.len() / 2 + 1;
            set.each(part.clone(), true, scene, |m, s| back.push((m.to_vec(), s)));
            back.reverse();
            assert_eq!(back, &live[part.start..part.end.min(live.len())]);
            for key in 0..=255 {
                let member = name(key);
                let rank = live.iter().position(|entry| entry.0 == member);
                let score = rank.map(|rank| live[rank].1);
                assert_eq!(set.score(&member, scene), score);
                assert_eq!(set.rank(&member, scene), rank.zip(score));
                let deadline = rank.map(|_| plain[&member].1);
                assert_eq!(set.deadline(&member, scene), deadline);
            }
            let earliest = plain.values().filter_map(|entry| entry.1).min();
            assert_eq!(set.deadlines().is_some(), earliest.is_some());
            if let Some(deadlines) = set.deadlines() {
                assert_eq!(deadlines.own, own);
                let is_exact = matches!(scene.expiry.name(), "ranked" | "wheel" | "ordered");
                assert!(
                    !is_exact || deadlines.nearest <= earliest,
                    "it is met in time"
                );
            }
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn a_sorted_set_is_a_sorted_vector_with_times(
        entries in prop_oneof![Just(0i64), Just(8), Just(512)],
        expiry in prop::sample::select(vec!["ranked", "ranked", "wheel", "ordered", "sampled", "lazy"]),
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let mut pair = Pair::new(entries, expiry);
        for op in ops {
            pair.apply(op);
            pair.compare();
        }
    }
}

#[test]
fn a_member_that_went_alive_does_not_tell_when_the_others_died() {
    let mut pair = Pair::new(0, "ranked");
    for (key, ttl) in [(1, 10), (2, 20), (3, 1000)] {
        pair.apply(Op::Set(key, 0));
        pair.apply(Op::SetDeadline(key, Some(ttl)));
    }
    pair.apply(Op::Remove(3));
    pair.apply(Op::Advance(21));
    pair.apply(Op::Purge(100));
    assert!(pair.set.is_void());
}

#[test]
fn many_members_are_dismantled_in_steps() {
    let mut pair = Pair::new(0, "ranked");
    for number in 0..20_000u32 {
        let member = number.to_le_bytes();
        pair.with(|set, _, scene| set.set(&member, f64::from(number % 7), scene));
    }
    pair.set.check();
    let mut calls = 1;
    while pair.set.dismantle(50) {
        calls += 1;
    }
    // Pages of some 18 members, leaves of some 45.
    assert!((20..60).contains(&calls), "{calls}");
}

#[test]
fn what_a_member_costs() {
    let mut pair = Pair::new(128, "ranked");
    let count = 200_000u32;
    let name = |number: u32| format!("member:{number:07}").into_bytes();
    for number in 0..count {
        let score = f64::from(number.wrapping_mul(2_654_435_761) >> 8);
        pair.with(|set, _, scene| set.set(&name(number), score, scene));
    }
    let each = |set: &SortedSet| set.heap_bytes() as f64 / f64::from(count);
    let plain = each(&pair.set);
    for number in 0..count {
        let deadline = Some(Tick(2_000_000 + u64::from(number) * 11));
        pair.with(|set, _, scene| set.set_deadline(&name(number), deadline, scene));
    }
    let timed = each(&pair.set);
    // A member of 14 bytes and its score are 22, their place in the order 16.
    println!("{plain:.1} bytes a member, {timed:.1} with a deadline");
    assert!(plain < 50.0, "{plain} bytes a member");
    assert!(timed < 64.0, "{timed} bytes a member with a deadline");
}

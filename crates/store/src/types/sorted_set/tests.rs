//! Tests that compare sorted sets with a sorted vector.

use super::*;
use crate::collection::Representation;
use crate::types::tests::subject_methods;
use crate::types::tests::{Model, Op, Plain, Subject, Values, model_test, name, ops, setups};
use proptest::prelude::*;
use std::ops::Bound;

impl Subject for SortedSet {
    type Value = f64;
    const LIMITS: &'static [&'static str] = &["zset_entries"];

    subject_methods!();

    /// Returns one of few scores, so that many members have equal scores.
    fn value(seed: u8) -> f64 {
        f64::from(seed % 8) / 2.0 - 2.0
    }

    fn put(&mut self, member: &[u8], score: &f64, scene: &Scene<'_>) -> Option<bool> {
        self.set(member, *score, scene);
        None
    }

    fn all(&self, scene: &Scene<'_>) -> Values<f64> {
        let mut all = Values::new();
        self.each(0..usize::MAX, false, scene, |member, score| {
            all.insert(member.to_vec(), score);
        });
        all
    }

    fn scan(&self, from: u64, count: usize, scene: &Scene<'_>, to: &mut Values<f64>) -> u64 {
        self.scan(from, count, scene, |member, score| {
            to.insert(member.to_vec(), score);
        })
    }

    fn samples(
        &self,
        _count: usize,
        _scene: &Scene<'_>,
        _random: &mut dyn FnMut() -> u64,
    ) -> Option<[Vec<Vec<u8>>; 2]> {
        None
    }

    fn names(&self) -> Vec<Vec<u8>> {
        self.form.names()
    }

    fn apply_special(model: &mut Model<SortedSet>, a: u8, b: u8, flag: bool) {
        let score = |byte: u8| (byte % 8) as i8 - 4;
        match a % 7 {
            0 | 1 => model.remove_ranks(a, b % 100),
            2..=4 => model.scores(score(a / 7), score(b), flag),
            _ => model.members(a, b, flag),
        }
    }

    fn compare_special(model: &Model<SortedSet>, live: &Plain<f64>, scene: &Scene<'_>) {
        let (set, in_order) = (&model.subject, model.in_order());
        let (mut all, mut back) = (Vec::new(), Vec::new());
        set.each(0..usize::MAX, false, scene, |m, s| {
            all.push((m.to_vec(), s))
        });
        assert_eq!(all, in_order);
        let part = live.len() / 3..live.len() / 2 + 1;
        set.each(part.clone(), true, scene, |m, s| back.push((m.to_vec(), s)));
        back.reverse();
        assert_eq!(back, &in_order[part.start..part.end.min(live.len())]);
        for key in 0..=255 {
            let rank = in_order.iter().position(|entry| entry.0 == name(key));
            let score = rank.map(|rank| in_order[rank].1);
            assert_eq!(set.score(&name(key), scene), score);
            assert_eq!(set.rank(&name(key), scene), rank.zip(score));
        }
    }
}

impl Model<SortedSet> {
    /// Returns the live members and their scores in order.
    fn in_order(&self) -> Vec<(Vec<u8>, f64)> {
        let live = self.live().into_iter();
        let mut live: Vec<_> = live.map(|(member, entry)| (member, entry.0)).collect();
        live.sort_by(|(a, one), (b, other)| compare(*one, a, *other, b));
        live
    }

    fn remove_ranks(&mut self, from: u8, count: u8) {
        let live = self.in_order();
        let start = from as usize % (live.len() + 1);
        let ranks = start..start + count as usize;
        let wanted = &live[start..ranks.end.min(live.len())];
        for (member, _) in wanted {
            self.plain.remove(member);
        }
        let removed = self.with(|set, scene| set.remove_ranks(ranks, scene));
        assert_eq!(removed, wanted.len());
    }

    fn scores(&mut self, min: i8, max: i8, is_open: bool) {
        let (min, max) = (f64::from(min) / 2.0, f64::from(max) / 2.0);
        let live = self.in_order();
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
        let ranks = self.with(|set, scene| set.ranks(&interval, scene));
        let wanted = live.iter().filter(|(_, score)| is_in(*score)).count();
        assert_eq!(ranks.len(), wanted);
        assert!(
            live.iter()
                .take(ranks.end)
                .skip(ranks.start)
                .all(|(_, score)| is_in(*score))
        );
    }

    /// Compares intervals of members after all have been given one score.
    fn members(&mut self, min: u8, max: u8, is_open: bool) {
        let live: Vec<_> = self
            .in_order()
            .into_iter()
            .map(|(member, _)| member)
            .collect();
        self.with(|set, scene| {
            live.iter().for_each(|member| set.set(member, 1.0, scene));
        });
        for member in &live {
            let entry = self.plain.entry(member.clone());
            entry.and_modify(|entry| entry.0 = 1.0);
        }
        // Expired members would be out of order, because their scores differ.
        self.remove_expired(1_000_000);
        if self.plain.len() != live.len() || live.is_empty() {
            return;
        }
        let (min, max) = (self.name(min), self.name(max));
        let interval = if is_open {
            Interval::Members(Bound::Excluded(&min), Bound::Unbounded)
        } else {
            Interval::Members(Bound::Included(&min), Bound::Included(&max))
        };
        let ranks = self.with(|set, scene| set.ranks(&interval, scene));
        let mut names: Vec<_> = self
            .in_order()
            .into_iter()
            .map(|(member, _)| member)
            .collect();
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
        let wanted: Vec<_> = self
            .in_order()
            .into_iter()
            .map(|e| e.0)
            .filter(is_in)
            .collect();
        assert_eq!(found, wanted);
    }
}

model_test!(a_sorted_set_holds_what_a_sorted_vector_holds, SortedSet);

#[test]
fn the_deadline_of_a_removed_member_does_not_delay_the_expiry_of_the_others() {
    let mut model = Model::<SortedSet>::new((0, "ranked", 255));
    for (key, ttl) in [(1, 10), (2, 20), (3, 1000)] {
        model.apply(Op::Put(key, 0));
        model.apply(Op::SetDeadline(key, Some(ttl)));
    }
    model.apply(Op::Remove(3));
    model.apply(Op::Advance(21));
    model.apply(Op::RemoveExpired(100));
    assert!(model.plain.is_empty());
}

#[test]
fn a_large_sorted_set_is_freed_in_steps() {
    let mut model = Model::<SortedSet>::new((0, "ranked", 255));
    for number in 0..20_000u32 {
        let member = number.to_le_bytes();
        model.with(|set, scene| set.set(&member, f64::from(number % 7), scene));
    }
    model.subject.check();
    let mut calls = 1;
    while model.subject.dismantle(50) {
        calls += 1;
    }
    // Pages hold about 18 members, leaves about 45.
    assert!((20..60).contains(&calls), "{calls}");
}

#[test]
fn a_member_costs_few_bytes() {
    let mut model = Model::<SortedSet>::new((128, "ranked", 255));
    let count = 200_000u32;
    let name = |number: u32| format!("member:{number:07}").into_bytes();
    for number in 0..count {
        let score = f64::from(number.wrapping_mul(2_654_435_761) >> 8);
        model.with(|set, scene| set.set(&name(number), score, scene));
    }
    let each = |set: &SortedSet| set.heap_bytes() as f64 / f64::from(count);
    let plain = each(&model.subject);
    for number in 0..count {
        let deadline = Some(Tick(2_000_000 + u64::from(number) * 11));
        model.with(|set, scene| set.set_deadline(&name(number), deadline, scene));
    }
    let timed = each(&model.subject);
    // A member of 14 bytes and its score take 22 bytes, its entry in the order 16.
    println!("{plain:.1} bytes a member, {timed:.1} with a deadline");
    assert!(plain < 50.0, "{plain} bytes a member");
    assert!(timed < 64.0, "{timed} bytes a member with a deadline");
}

#[test]
fn members_that_expire_all_at_once_after_the_clock_went_back_are_removed() {
    let mut model = Model::<SortedSet>::new((0, "ranked", 255));
    for op in [
        Op::Fill(204, 6, 1),
        Op::Crowd(71, 134, 1),
        Op::Put(0, 4),
        Op::Put(129, 4),
        Op::Back(24),
        Op::Put(129, 4),
        Op::Remove(0),
        Op::Crowd(39, 171, 1),
        Op::Advance(2),
        Op::Special(5, 0, false),
    ] {
        model.apply(op);
        model.compare();
    }
}

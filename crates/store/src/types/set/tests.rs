//! Tests that compare sets with a plain map, and set operations with those on plain sets.

use super::*;
use crate::limits::Limits;
use crate::types::tests::subject_methods;
use crate::types::tests::{Model, Plain, Subject, Values, model_test, name, ops, setups};
use proptest::prelude::*;
use std::collections::BTreeSet;

impl Subject for Set {
    type Value = ();
    const LIMITS: &'static [&'static str] = &["set_entries", "set_intset_entries"];

    subject_methods!();

    fn value(_seed: u8) {}

    fn put(&mut self, member: &[u8], (): &(), scene: &Scene<'_>) -> Option<bool> {
        Some(self.add(member, scene))
    }

    fn all(&self, scene: &Scene<'_>) -> Values<()> {
        let all = collect(|each| self.each(scene, each));
        assert_eq!(all.len(), self.len(scene));
        all.into_iter().map(|member| (member, ())).collect()
    }

    fn scan(&self, from: u64, count: usize, scene: &Scene<'_>, to: &mut Values<()>) -> u64 {
        self.scan(from, count, scene, &mut |member| {
            to.insert(member.to_vec(), ());
        })
    }

    fn samples(
        &self,
        count: usize,
        scene: &Scene<'_>,
        random: &mut dyn FnMut() -> u64,
    ) -> Option<[Vec<Vec<u8>>; 2]> {
        let distinct = collect(|each| self.sample(count, scene, random, each));
        assert_eq!(distinct.len(), count.min(self.len(scene)));
        let repeated = collect(|each| self.sample_with_repeats(count, scene, random, each));
        Some([distinct, repeated])
    }

    fn names(&self) -> Vec<Vec<u8>> {
        match &self.form {
            Form::Integers(integers) => {
                let digits = integers.iter().map(Digits::of);
                digits.map(|digits| digits.as_bytes().to_vec()).collect()
            }
            Form::Strings(form) => form.names(),
        }
    }

    fn compare_special(model: &Model<Set>, live: &Plain<()>, scene: &Scene<'_>) {
        for key in 0..=255 {
            let is_live = live.contains_key(&name(key));
            assert_eq!(model.subject.contains(&name(key), scene), is_live);
        }
    }
}

model_test!(a_set_holds_what_a_plain_map_holds, Set);

fn member() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => (-20..60i64).prop_map(|n| n.to_string().into_bytes()),
        1 => any::<i64>().prop_map(|n| n.to_string().into_bytes()),
        3 => prop::collection::vec(97..100u8, 0..3),
        1 => prop::collection::vec(any::<u8>(), 0..300),
    ]
}

/// Returns a generator of random bits. Equal seeds give equal bits.
fn random(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state ^ state >> 29
    }
}

/// Collects the members that `visit` passes on.
fn collect(visit: impl FnOnce(&mut dyn FnMut(&[u8]))) -> Vec<Vec<u8>> {
    let mut members = Vec::new();
    visit(&mut |member| members.push(member.to_vec()));
    members
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]
    #[test]
    fn combined_sets_equal_combined_plain_sets(
        sets in prop::collection::vec(
            prop::option::of(prop::collection::btree_set(member(), 0..12)), 1..4),
    ) {
        let limits = Limits::default();
        let scene = Scene::of(Tick(5), &limits);
        let made: Vec<Option<Set>> = sets.iter().map(|set| {
            let set = set.as_ref()?;
            Some(Set::collect(&scene, |add| set.iter().for_each(|member| add(member))))
        }).collect();
        let lent: Vec<Option<&Set>> = made.iter().map(Option::as_ref).collect();
        let plain: Vec<_> = sets.into_iter().map(Option::unwrap_or_default).collect();
        let in_order = |mut members: Vec<Vec<u8>>| { members.sort(); members };
        let all = collect(|each| Set::intersect(&lent, &scene, |member| { each(member); true }));
        let any = collect(|each| Set::union(&lent, &scene).each(&scene, each));
        let rest = collect(|each| Set::subtract(&lent, &scene, each));
        let expected = plain[0].iter().filter(|m| plain.iter().all(|set| set.contains(*m)));
        prop_assert_eq!(in_order(all), expected.cloned().collect::<Vec<_>>());
        let expected: BTreeSet<Vec<u8>> = plain.iter().flatten().cloned().collect();
        prop_assert_eq!(in_order(any), expected.into_iter().collect::<Vec<_>>());
        let expected = plain[0].iter().filter(|m| !plain[1..].iter().any(|set| set.contains(*m)));
        prop_assert_eq!(in_order(rest), expected.cloned().collect::<Vec<_>>());
    }
}

#[test]
fn every_member_is_chosen_about_equally_often() {
    let limits = Limits::default();
    let scene = Scene::of(Tick(5), &limits);
    let set = Set::collect(&scene, |add| {
        for number in 0..10 {
            add(number.to_string().as_bytes());
        }
    });
    let (mut sampled, mut drawn) = ([0; 10], [0; 10]);
    let mut random = random(7);
    let count = |counts: &mut [i32; 10], member: &[u8]| counts[usize::from(member[0] - b'0')] += 1;
    for _ in 0..3000 {
        set.sample(3, &scene, &mut random, &mut |member| {
            count(&mut sampled, member)
        });
        set.sample_with_repeats(3, &scene, &mut random, &mut |member| {
            count(&mut drawn, member)
        });
    }
    // 900 each are expected; 150 off is five standard deviations, and the seed is fixed.
    assert!(
        sampled
            .iter()
            .chain(&drawn)
            .all(|count| (750..1050).contains(count))
    );
}

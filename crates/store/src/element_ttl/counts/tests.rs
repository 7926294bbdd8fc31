//! Tests of the bounds that the module text states, measured as the number of deadlines examined.

use super::*;
use crate::collection::Scene;
use crate::elements::packed::Tail;
use crate::elements::tests::LOOKS;
use crate::limits::Limits;
use policy::expire::any::ExpirySpec;
use std::collections::BTreeSet;

const NOW: Tick = Tick(1_000_000);
const LATER: Tick = Tick(NOW.0 + 1000);
const COUNT: u32 = 40_000;
/// Number of entries in a leaf of the index.
const LEAF: usize = 64;
/// Maximum cost of a random choice: tries, pages and one leaf.
const CHANCE: usize = 256 + 256 * 64 + LEAF;

/// Creates elements with the deadlines that `deadline_of` returns for their numbers.
fn members(limits: &Limits, deadline_of: impl Fn(u32) -> Option<Tick>) -> TimedElements {
    let scene = Scene::of(NOW, limits);
    let mut members = TimedElements::new(Tail::Nothing, &scene);
    for number in 0..COUNT {
        let name = format!("element:{number}");
        let slot = members.insert(name.as_bytes(), b"", &scene, &mut ());
        members.set_deadline(slot, deadline_of(number), &scene);
    }
    members
}

/// Returns the result of `work` and the number of deadlines that it examined.
fn looks<R>(work: impl FnOnce() -> R) -> (R, usize) {
    LOOKS.set(0);
    let result = work();
    (result, LOOKS.get())
}

fn number_of(members: &TimedElements, slot: Slot) -> u32 {
    let name = String::from_utf8(members.elements().member(slot).to_vec()).expect("text");
    name["element:".len()..].parse().expect("a number")
}

/// Returns a deadline soon after `NOW` for even numbers and a much later one for odd numbers.
fn half(number: u32) -> Option<Tick> {
    Some(Tick(NOW.0 + u64::from(number % 2) * 10_000 + 1))
}

#[test]
fn half_of_all_elements_expire_and_are_not_counted_one_by_one() {
    let limits = Limits::default();
    // Half of the deadlines equal, all distinct, and half of the elements without one.
    let few = |number: u32| Some(Tick(NOW.0 + 1 + u64::from(number)));
    let endless = |number: u32| half(number).filter(|at| *at < LATER);
    type DeadlineOf<'a> = &'a dyn Fn(u32) -> Option<Tick>;
    let cases: [(DeadlineOf<'_>, usize); 3] = [(&half, 20_000), (&few, 39_001), (&endless, 20_000)];
    for (deadline_of, live) in cases {
        let members = members(&limits, deadline_of);
        assert_eq!(members.len(NOW), COUNT as usize);
        let (len, count) = looks(|| members.len(LATER));
        assert_eq!(len, live);
        assert!(count <= LEAF, "{count}");
        let (is_over, count) = looks(|| (members.is_empty(LATER), members.is_dead(LATER)));
        assert_eq!(is_over, (false, false));
        assert!(count <= 2 * LEAF, "{count}");
        let mut state = 1u64;
        let random = &mut || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(7);
            state
        };
        let mut reported = BTreeSet::new();
        let (_, count) = looks(|| {
            members.sample(10, LATER, random, &mut |slot| {
                reported.insert(number_of(&members, slot));
            });
        });
        assert!(count <= LEAF + 10 * 256, "{count}");
        assert_eq!(reported.len(), 10);
        let lives = |number: &u32| deadline_of(*number).is_none_or(|at| at >= LATER);
        assert!(reported.iter().all(lives));
    }
}

/// Few live elements among many expired ones are all found by sampling.
#[test]
fn few_live_elements_among_many_expired_ones_are_sampled_by_rank() {
    let limits = Limits::default();
    let members = members(&limits, |number| match number % 10_000 {
        0 => Some(Tick(LATER.0 + u64::from(number))),
        _ => Some(Tick(NOW.0 + 1)),
    });
    assert_eq!(members.len(LATER), 4);
    let (mut state, mut drawn, mut most) = (0u64, BTreeSet::new(), 0);
    for _ in 0..100 {
        let random = &mut || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(7);
            state
        };
        let each = &mut |slot| {
            drawn.insert(number_of(&members, slot));
        };
        most = most.max(looks(|| members.sample_with_repeats(1, LATER, random, each)).1);
    }
    assert!(most <= CHANCE + 2 * LEAF, "{most}");
    assert_eq!(drawn, BTreeSet::from([0, 10_000, 20_000, 30_000]));
    for count in [1, 3, 4, 9] {
        let mut reported = BTreeSet::new();
        let random = &mut || 1 << 63;
        let each = &mut |slot| {
            reported.insert(slot);
        };
        members.sample(count, LATER, random, each);
        assert_eq!(reported.len(), count.min(4));
    }
    // Listing the live elements does not pass over the expired ones.
    let (_, count) = looks(|| members.each_live(LATER, &mut |_| ()));
    assert!(count <= 3 * LEAF, "{count}");
}

#[test]
fn the_cost_of_a_list_by_deadline_depends_on_its_length() {
    let limits = Limits::default();
    let members = members(&limits, |number| {
        Some(Tick(NOW.0 + 1 + u64::from(number * 7_919 % COUNT)))
    });
    for (first, offset) in [(NOW, 0), (LATER, 0), (LATER, 30_000), (Tick(0), 38_990)] {
        let mut reported = vec![];
        let (_, count) = looks(|| {
            let each = &mut |deadline, _| reported.push(deadline);
            members.each_by_deadline((first, Tick::MAX), (offset, 20), LATER, each);
        });
        let wanted = (LATER.0 + offset as u64..=NOW.0 + u64::from(COUNT)).take(20);
        assert_eq!(reported, wanted.map(Tick).collect::<Vec<_>>());
        assert!(count <= 3 * LEAF, "{count}");
    }
}

/// An index that cannot count returns the same elements, at a higher cost.
#[test]
fn all_indexes_return_the_same_elements() {
    let limits = Limits::default();
    let list = |members: &TimedElements, offset| {
        let mut reported = vec![];
        let each = &mut |deadline, slot| reported.push((deadline, number_of(members, slot)));
        let last = Tick(LATER.0 + 300);
        members.each_by_deadline((NOW, last), (offset, 50), LATER, each);
        reported
    };
    let mut answers = vec![];
    for expiry in [ExpirySpec::Ranked(()), ExpirySpec::Wheel(())] {
        let scene = Scene {
            expiry: &expiry,
            ..Scene::of(NOW, &limits)
        };
        let mut members = TimedElements::new(Tail::Nothing, &scene);
        for number in 0..2_000u32 {
            let name = format!("element:{number}");
            let slot = members.insert(name.as_bytes(), b"", &scene, &mut ());
            let deadline = Tick(NOW.0 + 1 + u64::from(number * 7_919 % 2_000));
            members.set_deadline(slot, Some(deadline), &scene);
        }
        let mut live = BTreeSet::new();
        members.each_live(LATER, &mut |slot| {
            live.insert(number_of(&members, slot));
        });
        answers.push((
            members.len(LATER),
            live,
            list(&members, 0),
            list(&members, 280),
        ));
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!((answers[0].0, answers[0].3.len()), (1001, 21));
}

#[test]
fn few_live_elements_without_a_deadline_are_equally_likely() {
    // Regression: the first one in the order of the pages was always returned.
    let limits = Limits::default();
    let members = members(&limits, |number| {
        (number % 10_000 != 5).then_some(Tick(NOW.0 + 1))
    });
    assert_eq!(members.len(LATER), 4);
    let mut counts = std::collections::BTreeMap::new();
    for number in 0..400u64 {
        let slot = members.pick_of_few(LATER, number * (u64::MAX / 400) + 1);
        let slot = slot.expect("four are live");
        assert_eq!(number_of(&members, slot) % 10_000, 5);
        *counts.entry(slot).or_insert(0) += 1;
    }
    assert!(counts.len() == 4 && counts.values().all(|count| (95..=105).contains(count)));
}

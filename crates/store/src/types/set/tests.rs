use super::*;
use crate::limits::Limits;
use policy::Budget;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

type Model = BTreeMap<Vec<u8>, Option<Tick>>;

#[derive(Clone, Debug)]
enum Op {
    Add(Vec<u8>),
    Remove(Vec<u8>),
    /// So many from a number on come, or go: pages split, and are merged.
    Fill(i64, i64),
    Clear(i64, i64),
    SetDeadline(Vec<u8>, Option<u64>),
    SetOwn(Option<u64>),
    /// So many milliseconds pass.
    Wait(u64),
    Purge(u32),
    Sample(usize, u64),
    Draw(usize, u64),
    /// As the keyspace does it: copied, or packed into an entry and out again.
    Copy,
    Repack,
}

fn member() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        6 => (-20..60i64).prop_map(|n| n.to_string().into_bytes()),
        1 => any::<i64>().prop_map(|n| n.to_string().into_bytes()),
        3 => prop::collection::vec(97..100u8, 0..3),
        1 => prop::collection::vec(any::<u8>(), 0..300),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let ttl = || prop::option::of(0..40u64);
    prop_oneof![
        12 => member().prop_map(Op::Add),
        5 => member().prop_map(Op::Remove),
        1 => (0..900i64, 1..150i64).prop_map(|(from, count)| Op::Fill(from, count)),
        1 => (0..900i64, 1..400i64).prop_map(|(from, count)| Op::Clear(from, count)),
        3 => (member(), ttl()).prop_map(|(member, ttl)| Op::SetDeadline(member, ttl)),
        1 => ttl().prop_map(Op::SetOwn),
        2 => (0..15u64).prop_map(Op::Wait),
        1 => (1..9u32).prop_map(Op::Purge),
        1 => (0..9usize, any::<u64>()).prop_map(|(count, seed)| Op::Sample(count, seed)),
        1 => (0..9usize, any::<u64>()).prop_map(|(count, seed)| Op::Draw(count, seed)),
        1 => Just(Op::Copy),
        1 => Just(Op::Repack),
    ]
}

/// Random bits, the same for equal seeds.
fn random(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state ^ state >> 29
    }
}

fn is_live(deadline: &Option<Tick>, now: Tick) -> bool {
    deadline.is_none_or(|deadline| now <= deadline)
}

fn told(tell: impl FnOnce(&mut dyn FnMut(&[u8]))) -> Vec<Vec<u8>> {
    let mut members = Vec::new();
    tell(&mut |member| members.push(member.to_vec()));
    members
}

fn apply(set: &mut Set, model: &mut Model, op: Op, scene: &Scene<'_>) {
    let now = scene.now;
    let mut live = model.clone();
    live.retain(|_, deadline| is_live(deadline, now));
    match op {
        Op::Add(member) => {
            let is_new = !live.contains_key(&member);
            assert_eq!(set.add(&member, scene), is_new);
            if is_new {
                model.insert(member, None);
            }
        }
        Op::Remove(member) => {
            let is_there = live.contains_key(&member);
            assert_eq!(set.remove(&member, scene), is_there);
            if is_there {
                model.remove(&member);
            }
        }
        Op::Fill(from, count) => {
            for number in from..from + count {
                let member = number.to_string().into_bytes();
                if set.add(&member, scene) {
                    model.insert(member, None);
                }
            }
        }
        Op::Clear(from, count) => {
            for number in from..from + count {
                let member = number.to_string().into_bytes();
                if set.remove(&member, scene) {
                    model.remove(&member);
                }
            }
        }
        Op::SetDeadline(member, ttl) => {
            let deadline = ttl.map(|ttl| Tick(now.0 + ttl));
            let is_there = live.contains_key(&member);
            assert_eq!(set.set_deadline(&member, deadline, scene), is_there);
            if is_there {
                model.insert(member, deadline);
            }
        }
        Op::SetOwn(ttl) => {
            if set.deadlines().is_some() {
                let own = ttl.map(|ttl| Tick(now.0 + ttl));
                set.set_own(own);
                assert_eq!(set.deadlines().and_then(|deadlines| deadlines.own), own);
            }
        }
        Op::Wait(_) => unreachable!("the caller does it"),
        Op::Purge(steps) => {
            let (mut gone, before) = (0, model.len());
            set.purge(now, &mut Budget(steps), &mut |deadline, count| {
                assert!(deadline < now);
                gone += count as usize;
            });
            // Which of the dead are gone is theirs to choose.
            model.retain(|member, deadline| is_live(deadline, now) || set.holds(member));
            assert_eq!(before - model.len(), gone);
        }
        Op::Sample(count, seed) => {
            let sample = told(|each| set.sample(count, scene, &mut random(seed), each));
            let distinct: BTreeSet<_> = sample.iter().cloned().collect();
            assert_eq!(sample.len(), count.min(live.len()));
            assert_eq!(distinct.len(), sample.len());
            assert!(sample.iter().all(|member| live.contains_key(member)));
        }
        Op::Draw(count, seed) => {
            let drawn = told(|each| set.sample_with_repeats(count, scene, &mut random(seed), each));
            assert_eq!(drawn.len(), if live.is_empty() { 0 } else { count });
            assert!(drawn.iter().all(|member| live.contains_key(member)));
        }
        Op::Copy => {
            let own = set.deadlines().and_then(|deadlines| deadlines.own);
            *set = set.duplicate(scene);
            if set.deadlines().is_some() {
                set.set_own(own);
            }
            // The dead may come along.
            model.retain(|member, deadline| is_live(deadline, now) || set.holds(member));
        }
        Op::Repack => {
            set.trim();
            if let Some((tag, bytes)) = set.inline() {
                *set = Set::unpack(tag, bytes.to_vec());
            }
        }
    }
}

fn compare(set: &Set, model: &Model, scene: &Scene<'_>) {
    let live: BTreeSet<&[u8]> = model
        .iter()
        .filter(|(_, deadline)| is_live(deadline, scene.now))
        .map(|(member, _)| member.as_slice())
        .collect();
    let members = told(|each| set.each(scene, each));
    assert_eq!(
        members.iter().map(Vec::as_slice).collect::<BTreeSet<_>>(),
        live
    );
    assert_eq!(members.len(), live.len());
    assert_eq!(set.len(scene), live.len());
    assert_eq!(set.is_empty(scene), live.is_empty());
    assert_eq!(set.is_void(), model.is_empty());
    for (member, deadline) in model {
        let expected = is_live(deadline, scene.now).then_some(*deadline);
        assert_eq!(set.deadline(member, scene), expected);
        assert_eq!(set.contains(member, scene), expected.is_some());
    }
    let (mut scanned, mut cursor) = (BTreeSet::new(), 0);
    loop {
        cursor = set.scan(cursor, 3, scene, &mut |member| {
            scanned.insert(member.to_vec());
        });
        if cursor == 0 {
            break;
        }
    }
    assert!(scanned.iter().map(Vec::as_slice).eq(live.iter().copied()));
    let nearest = model.values().flatten().min().copied();
    let told = set.deadlines().and_then(|deadlines| deadlines.nearest);
    // It may tell too early, never too late.
    assert!(nearest.is_none_or(|nearest| told.is_some_and(|told| told <= nearest)));
    set.check();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]
    #[test]
    fn members_are_those_of_a_plain_map(
        bounds in prop::sample::select(vec![(512, 128, 64), (4, 8, 5), (0, 3, 64), (9, 0, 0)]),
        ops in prop::collection::vec(op(), 1..200),
    ) {
        let limits = Limits::default();
        let (integers, entries, value) = bounds;
        limits.set("set_intset_entries", integers);
        limits.set("set_entries", entries);
        limits.set("set_value", value);
        let (mut set, mut model, mut now) = (Set::default(), Model::new(), Tick(1000));
        for op in ops {
            if let Op::Wait(ms) = op {
                now.0 += ms;
            } else {
                let limits = &limits;
                apply(&mut set, &mut model, op, &Scene::of(now, limits));
            }
            if set.is_void() {
                // Its key goes; what was given up is asked nothing any more.
                prop_assert!(model.is_empty());
                set = Set::default();
            }
            compare(&set, &model, &Scene::of(now, &limits));
        }
    }

    #[test]
    fn sets_together_come_to_what_plain_sets_do(
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
        let all = told(|each| Set::intersect(&lent, &scene, |member| { each(member); true }));
        let any = told(|each| Set::union(&lent, &scene).each(&scene, each));
        let rest = told(|each| Set::subtract(&lent, &scene, each));
        let expected = plain[0].iter().filter(|m| plain.iter().all(|set| set.contains(*m)));
        prop_assert_eq!(in_order(all), expected.cloned().collect::<Vec<_>>());
        let expected: BTreeSet<Vec<u8>> = plain.iter().flatten().cloned().collect();
        prop_assert_eq!(in_order(any), expected.into_iter().collect::<Vec<_>>());
        let expected = plain[0].iter().filter(|m| !plain[1..].iter().any(|set| set.contains(*m)));
        prop_assert_eq!(in_order(rest), expected.cloned().collect::<Vec<_>>());
    }
}

#[test]
fn every_choice_is_about_as_likely() {
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

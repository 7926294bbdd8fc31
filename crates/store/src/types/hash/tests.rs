//! Random operations against a plain map, with a simulated clock.

use super::*;
use crate::limits::Limits;
use policy::Budget;
use policy::expire::any::ExpirySpec;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Op {
    Set(u8, usize),
    SetKeeping(u8, usize),
    /// Many at once, so that the form changes and pages split.
    Fill(u8, usize),
    Remove(u8),
    RemoveAll(u8, u8),
    SetDeadline(u8, Option<u64>),
    /// Many on one deadline.
    Crowd(u8, u8, u64),
    SetOwn(Option<u64>),
    Advance(u64),
    Back(u64),
    Purge(u32),
    Duplicate,
    Scan(usize),
    Chance(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let len = || prop_oneof![20 => 0..30usize, 1 => 60..300usize];
    let ttl = || prop_oneof![3 => 1..50u64, 1 => 1..5000u64];
    prop_oneof![
        6 => (any::<u8>(), len()).prop_map(|(k, l)| Op::Set(k, l)),
        2 => (any::<u8>(), len()).prop_map(|(k, l)| Op::SetKeeping(k, l)),
        1 => (any::<u8>(), 0..100usize).prop_map(|(k, n)| Op::Fill(k, n)),
        4 => any::<u8>().prop_map(Op::Remove),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(k, n)| Op::RemoveAll(k, n)),
        6 => (any::<u8>(), prop::option::of(ttl())).prop_map(|(k, t)| Op::SetDeadline(k, t)),
        1 => (any::<u8>(), any::<u8>(), ttl()).prop_map(|(k, n, t)| Op::Crowd(k, n, t)),
        1 => prop::option::of(ttl()).prop_map(Op::SetOwn),
        6 => (0..30u64).prop_map(Op::Advance),
        1 => (0..300u64).prop_map(Op::Back),
        3 => (0..60u32).prop_map(Op::Purge),
        1 => Just(Op::Duplicate),
        1 => (0..40usize).prop_map(Op::Scan),
        1 => (0..300usize).prop_map(Op::Chance),
    ]
}

/// Value and deadline; dead ones stay until they are purged.
type Plain = BTreeMap<Vec<u8>, (Vec<u8>, Option<Tick>)>;

struct Pair {
    hash: Hash,
    plain: Plain,
    own: Option<Tick>,
    now: Tick,
    limits: Limits,
    expiry: ExpirySpec,
    random: u64,
}

fn name(key: u8) -> Vec<u8> {
    format!("field:{key}").into_bytes()
}

impl Pair {
    fn new(entries: i64, expiry: &str) -> Pair {
        let limits = Limits::default();
        limits.set("hash_entries", entries);
        Pair {
            hash: Hash::new(),
            plain: Plain::new(),
            own: None,
            now: Tick(1_000_000),
            limits,
            expiry: expiry.parse().expect("an index"),
            random: 1,
        }
    }

    fn with<R>(&mut self, work: impl FnOnce(&mut Hash, &mut Plain, &Scene<'_>) -> R) -> R {
        let scene = Scene {
            now: self.now,
            limits: &self.limits,
            hash_key: [1, 2],
            expiry: &self.expiry,
            seed: 3,
        };
        work(&mut self.hash, &mut self.plain, &scene)
    }

    fn live(&self) -> Plain {
        let live = self
            .plain
            .iter()
            .filter(|(_, (_, deadline))| deadline.is_none_or(|deadline| self.now <= deadline));
        live.map(|(field, entry)| (field.clone(), entry.clone()))
            .collect()
    }

    fn set(&mut self, key: u8, len: usize, keeps: bool) {
        let (field, value) = (name(key), vec![key; len]);
        let old = self.live().get(&field).cloned();
        let deadline = if keeps {
            old.as_ref().and_then(|old| old.1)
        } else {
            None
        };
        let is_new = self.with(|hash, plain, scene| {
            plain.insert(field.clone(), (value.clone(), deadline));
            if keeps {
                hash.set_keeping(&field, &value, scene)
            } else {
                hash.set(&field, &value, scene)
            }
        });
        assert_eq!(is_new, old.is_none());
    }

    fn remove(&mut self, key: u8) {
        let field = name(key);
        let was_there = self.live().contains_key(&field);
        if was_there {
            self.plain.remove(&field);
        }
        assert_eq!(
            self.with(|hash, _, scene| hash.remove(&field, scene)),
            was_there
        );
    }

    fn set_deadline(&mut self, key: u8, ttl: Option<u64>) {
        let (field, deadline) = (name(key), ttl.map(|ttl| Tick(self.now.0 + ttl)));
        let was_there = self.live().contains_key(&field);
        if was_there {
            self.plain
                .entry(field.clone())
                .and_modify(|entry| entry.1 = deadline);
        }
        let did = self.with(|hash, _, scene| hash.set_deadline(&field, deadline, scene));
        assert_eq!(did, was_there);
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Set(key, len) => self.set(key, len, false),
            Op::SetKeeping(key, len) => self.set(key, len, true),
            Op::Fill(key, count) => {
                (0..count).for_each(|i| self.set(key.wrapping_add(i as u8), 3, false));
            }
            Op::Remove(key) => self.remove(key),
            Op::RemoveAll(key, count) => {
                (0..count).for_each(|i| self.remove(key.wrapping_add(i)));
            }
            Op::SetDeadline(key, ttl) => self.set_deadline(key, ttl),
            Op::Crowd(key, count, ttl) => {
                (0..count).for_each(|i| self.set_deadline(key.wrapping_add(i), Some(ttl)));
            }
            Op::SetOwn(ttl) => {
                if self.hash.deadlines().is_some() {
                    self.own = ttl.map(|ttl| Tick(self.now.0 + ttl));
                    self.hash.set_own(self.own);
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
                self.hash = self.with(|hash, _, scene| hash.duplicate(scene));
                // Whoever asked for it gives the copy a deadline.
                if self.hash.deadlines().is_some() {
                    self.hash.set_own(self.own);
                }
            }
            Op::Scan(count) => self.scan(count),
            Op::Chance(count) => self.chance(count),
        }
        if self.hash.deadlines().is_none() {
            self.own = None;
        }
        if self.hash.is_void() {
            self.hash = Hash::new();
            self.plain.clear();
        }
    }

    fn purge(&mut self, steps: u32) {
        let mut told = Vec::new();
        let now = self.now;
        let mut budget = Budget(steps);
        self.hash.purge(now, &mut budget, &mut |deadline, count| {
            assert!(deadline < now, "an element expired before its time");
            told.push((deadline, count));
        });
        let count: u32 = told.iter().map(|(_, count)| count).sum();
        if self.hash.is_void() {
            assert_eq!(count as usize, self.plain.len());
            assert!(self.live().is_empty());
            return;
        }
        // What is still held, dead or alive.
        let held: Vec<Vec<u8>> = match &self.hash.form {
            Form::Packed(packed) => packed.iter().map(|e| e.member.to_vec()).collect(),
            Form::Large(members) => {
                let elements = members.elements();
                elements
                    .iter()
                    .map(|slot| elements.member(slot).to_vec())
                    .collect()
            }
        };
        let live = self.live();
        let before = self.plain.len();
        self.plain.retain(|field, _| held.contains(field));
        assert_eq!(
            before - self.plain.len(),
            count as usize,
            "each is told once"
        );
        assert!(live.keys().all(|field| self.plain.contains_key(field)));
        let is_exact = matches!(self.expiry.name(), "ranked" | "wheel" | "ordered");
        if steps > 1000 && is_exact {
            assert_eq!(self.plain, live, "all that is due goes");
        }
    }

    fn scan(&mut self, count: usize) {
        let live = self.live();
        let found = self.with(|hash, _, scene| {
            let (mut found, mut cursor, mut calls) = (BTreeMap::new(), 0, 0);
            loop {
                cursor = hash.scan(cursor, count, scene, &mut |field, value| {
                    found.insert(field.to_vec(), value.to_vec());
                });
                calls += 1;
                assert!(calls < 10_000, "it does not end");
                if cursor == 0 {
                    return found;
                }
            }
        });
        let wanted: BTreeMap<_, _> = live.into_iter().map(|(f, (v, _))| (f, v)).collect();
        assert_eq!(found, wanted);
    }

    fn chance(&mut self, count: usize) {
        let live = self.live();
        let mut state = self.random;
        let found = self.with(|hash, _, scene| {
            let random = &mut || {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(7);
                state
            };
            let mut found = BTreeMap::new();
            let each = &mut |field: &[u8], value: &[u8]| {
                assert!(found.insert(field.to_vec(), value.to_vec()).is_none());
            };
            hash.sample(count, scene, random, each);
            let mut drawn = 0;
            hash.sample_with_repeats(count, scene, random, &mut |field, _| {
                assert!(live.contains_key(field));
                drawn += 1;
            });
            assert_eq!(drawn, if live.is_empty() { 0 } else { count });
            found
        });
        self.random = state;
        assert_eq!(found.len(), count.min(live.len()));
        assert!(found.iter().all(|(field, value)| live[field].0 == *value));
    }

    fn compare(&mut self) {
        let live = self.live();
        let own = self.own;
        self.hash.check();
        assert_eq!(self.hash.is_void(), self.plain.is_empty());
        self.with(|hash, plain, scene| {
            assert_eq!(hash.len(scene), live.len());
            assert_eq!(hash.is_empty(scene), live.is_empty());
            let mut all = Plain::new();
            hash.each(scene, |field, value, deadline| {
                all.insert(field.to_vec(), (value.to_vec(), deadline));
            });
            assert_eq!(all, live);
            let (mut timed, mut told) = (vec![], vec![]);
            timed.extend(live.iter().filter_map(|(f, e)| Some((e.1?, f.clone()))));
            timed.sort_unstable();
            let offset = timed.len() / 3;
            let from = timed.get(offset).map_or(scene.now, |field| field.0);
            let each = &mut |field: &[u8], at| told.push((at, field.to_vec()));
            hash.each_by_deadline((from, Tick::MAX), (0, usize::MAX), scene, each);
            told.sort_unstable();
            timed.retain(|field| field.0 >= from);
            assert_eq!(told, timed);
            let mut page = vec![];
            let each = &mut |_: &[u8], at| page.push(at);
            hash.each_by_deadline((from, Tick::MAX), (1, 5), scene, each);
            let wanted = timed.iter().map(|field| field.0).skip(1).take(5);
            assert_eq!(page, wanted.collect::<Vec<_>>());
            for key in 0..=255 {
                let entry = live.get(&name(key));
                assert_eq!(hash.get(&name(key), scene), entry.map(|e| e.0.as_slice()));
                assert_eq!(hash.deadline(&name(key), scene), entry.map(|e| e.1));
            }
            let earliest = plain.values().filter_map(|entry| entry.1).min();
            assert!(hash.deadlines().is_some() || earliest.is_none());
            if let Some(deadlines) = hash.deadlines() {
                assert_eq!(deadlines.own, own);
                let nearest = deadlines.nearest.expect("some element has a deadline");
                let is_exact = matches!(scene.expiry.name(), "ranked" | "wheel" | "ordered");
                let is_early = earliest.is_none_or(|earliest| nearest <= earliest);
                assert!(!is_exact || is_early, "it is met in time");
            }
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]
    #[test]
    fn a_hash_is_a_plain_map_with_times(
        entries in prop_oneof![Just(0i64), Just(8), Just(512)],
        expiry in prop::sample::select(vec!["ranked", "ranked", "wheel", "ordered", "sampled", "ebuckets", "lazy"]),
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let mut pair = Pair::new(entries, expiry);
        for op in ops {
            pair.apply(op);
            pair.compare();
        }
    }
}

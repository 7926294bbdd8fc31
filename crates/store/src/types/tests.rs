//! Tests that apply random operations to hashes, sets and sorted sets and to a plain map, and
//! compare the results. The clock is simulated.
//!
//! [`Model`] has the operations that the types share. Each type's own tests implement [`Subject`]
//! and add the operations and comparisons that only that type has.

use crate::collection::{Collection, Representation, Scene};
use crate::limits::Limits;
use policy::expire::any::ExpirySpec;
use policy::{Budget, Tick};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Elements in a plain map that a type is compared with. Expired elements stay until the model's
/// expiry removes them.
pub(super) type Plain<V> = BTreeMap<Vec<u8>, (V, Option<Tick>)>;

/// Names and values without deadlines.
pub(super) type Values<V> = BTreeMap<Vec<u8>, V>;

/// A type under test.
pub(super) trait Subject: Collection {
    type Value: Clone + PartialEq + Debug;
    /// Settings of [`Limits`] that bound the packed form.
    const LIMITS: &'static [&'static str];

    fn value(seed: u8) -> Self::Value;
    /// Adds an element or sets its value, and keeps its deadline. Returns whether it is new, if the
    /// type reports that.
    fn put(&mut self, member: &[u8], value: &Self::Value, scene: &Scene<'_>) -> Option<bool>;
    fn remove(&mut self, member: &[u8], scene: &Scene<'_>) -> bool;
    fn set_deadline(&mut self, member: &[u8], at: Option<Tick>, scene: &Scene<'_>) -> bool;
    fn deadline(&self, member: &[u8], scene: &Scene<'_>) -> Option<Option<Tick>>;
    fn len(&self, scene: &Scene<'_>) -> usize;
    fn is_empty(&self, scene: &Scene<'_>) -> bool;
    /// Returns all live elements.
    fn all(&self, scene: &Scene<'_>) -> Values<Self::Value>;
    fn scan(&self, from: u64, count: usize, scene: &Scene<'_>, to: &mut Values<Self::Value>)
    -> u64;
    /// Returns a sample of elements without repetitions and one with repetitions; `None` if the
    /// type has no method for samples.
    fn samples(
        &self,
        count: usize,
        scene: &Scene<'_>,
        random: &mut dyn FnMut() -> u64,
    ) -> Option<[Vec<Vec<u8>>; 2]>;
    /// Returns the names of all elements, including expired ones.
    fn names(&self) -> Vec<Vec<u8>>;
    /// Applies an operation that only this type has.
    fn apply_special(_model: &mut Model<Self>, _a: u8, _b: u8, _flag: bool) {}
    /// Compares results of methods that only this type has.
    fn compare_special(_model: &Model<Self>, _live: &Plain<Self::Value>, _scene: &Scene<'_>) {}
}

/// Implements the methods of [`Subject`] that every type has under the same name.
macro_rules! subject_methods {
    () => {
        fn remove(&mut self, member: &[u8], scene: &Scene<'_>) -> bool {
            self.remove(member, scene)
        }
        fn set_deadline(&mut self, member: &[u8], at: Option<Tick>, scene: &Scene<'_>) -> bool {
            self.set_deadline(member, at, scene)
        }
        fn deadline(&self, member: &[u8], scene: &Scene<'_>) -> Option<Option<Tick>> {
            self.deadline(member, scene)
        }
        fn len(&self, scene: &Scene<'_>) -> usize {
            self.len(scene)
        }
        fn is_empty(&self, scene: &Scene<'_>) -> bool {
            self.is_empty(scene)
        }
    };
}
pub(super) use subject_methods;

#[derive(Clone, Debug)]
pub(super) enum Op {
    Put(u8, u8),
    /// Puts many elements, so that the form changes and pages split.
    Fill(u8, u8, u8),
    Remove(u8),
    Clear(u8, u8),
    SetDeadline(u8, Option<u64>),
    /// Sets the same deadline for many elements.
    Crowd(u8, u8, u64),
    SetOwn(Option<u64>),
    Advance(u64),
    Back(u64),
    RemoveExpired(u32),
    Duplicate,
    /// Packs the collection into an entry's bytes and unpacks it again.
    Repack,
    Scan(usize),
    Sample(usize),
    Special(u8, u8, bool),
}

pub(super) fn ops() -> impl Strategy<Value = Vec<Op>> {
    let ttl = || prop_oneof![3 => 1..50u64, 1 => 1..5000u64];
    let byte = any::<u8>;
    let op = prop_oneof![
        8 => (byte(), byte()).prop_map(|(k, s)| Op::Put(k, s)),
        2 => (byte(), 0..150u8, byte()).prop_map(|(k, n, s)| Op::Fill(k, n, s)),
        4 => byte().prop_map(Op::Remove),
        1 => (byte(), byte()).prop_map(|(k, n)| Op::Clear(k, n)),
        6 => (byte(), prop::option::of(ttl())).prop_map(|(k, t)| Op::SetDeadline(k, t)),
        2 => (byte(), byte(), ttl()).prop_map(|(k, n, t)| Op::Crowd(k, n, t)),
        1 => prop::option::of(ttl()).prop_map(Op::SetOwn),
        6 => (0..30u64).prop_map(Op::Advance),
        1 => (0..300u64).prop_map(Op::Back),
        3 => (0..60u32).prop_map(Op::RemoveExpired),
        1 => Just(Op::Duplicate),
        1 => Just(Op::Repack),
        1 => (0..40usize).prop_map(Op::Scan),
        1 => (0..300usize).prop_map(Op::Sample),
        5 => (byte(), byte(), any::<bool>()).prop_map(|(a, b, f)| Op::Special(a, b, f)),
    ];
    prop::collection::vec(op, 1..60)
}

/// Generates a bound of the packed form, the name of an expiry index, and a mask of the keys. A
/// mask that leaves few keys generates only integers.
pub(super) fn setups() -> impl Strategy<Value = (i64, &'static str, u8)> {
    let indexes = vec![
        "ranked", "ranked", "wheel", "ordered", "sampled", "ebuckets", "lazy",
    ];
    let entries = prop::sample::select(vec![0i64, 8, 512]);
    let mask = prop::sample::select(vec![255u8, 63]);
    (entries, prop::sample::select(indexes), mask)
}

/// Returns the name of an element: an integer or a text. Some names are too long for the packed
/// form.
pub(super) fn name(key: u8) -> Vec<u8> {
    let number = i64::from(key) - 20;
    let mut name = match key {
        0..100 if key.is_multiple_of(7) => (number << 40).to_string().into_bytes(),
        0..100 => number.to_string().into_bytes(),
        _ => format!("member:{key}").into_bytes(),
    };
    if key > 100 && key.is_multiple_of(97) {
        name.resize(200, b'+');
    }
    name
}

pub(super) struct Model<S: Subject> {
    pub subject: S,
    pub plain: Plain<S::Value>,
    own: Option<Tick>,
    pub now: Tick,
    limits: Limits,
    expiry: ExpirySpec,
    random: u64,
    mask: u8,
}

impl<S: Subject> Model<S> {
    pub fn new((entries, expiry, mask): (i64, &str, u8)) -> Model<S> {
        let limits = Limits::default();
        S::LIMITS.iter().for_each(|name| {
            limits.set(name, entries);
        });
        Model {
            subject: S::new(),
            plain: Plain::new(),
            own: None,
            now: Tick(1_000_000),
            limits,
            expiry: expiry.parse().expect("an index"),
            random: 1,
            mask,
        }
    }

    fn scene(&self) -> Scene<'_> {
        Scene {
            now: self.now,
            horizon: self.now,
            limits: &self.limits,
            hash_key: [1, 2],
            expiry: &self.expiry,
            seed: 3,
            changed: None,
        }
    }

    /// Runs `work` on the subject.
    pub fn with<R>(&mut self, work: impl FnOnce(&mut S, &Scene<'_>) -> R) -> R {
        let scene = Scene {
            now: self.now,
            horizon: self.now,
            limits: &self.limits,
            hash_key: [1, 2],
            expiry: &self.expiry,
            seed: 3,
            changed: None,
        };
        work(&mut self.subject, &scene)
    }

    pub fn live(&self) -> Plain<S::Value> {
        let is_live = |at: &Option<Tick>| at.is_none_or(|deadline| self.now <= deadline);
        let live = self.plain.iter().filter(|(_, (_, at))| is_live(at));
        live.map(|(name, entry)| (name.clone(), entry.clone()))
            .collect()
    }

    pub fn name(&self, key: u8) -> Vec<u8> {
        name(key & self.mask)
    }

    fn put(&mut self, key: u8, seed: u8) {
        let (member, value) = (self.name(key), S::value(seed));
        let old = self.live().get(&member).cloned();
        let is_new = self.with(|subject, scene| subject.put(&member, &value, scene));
        assert!(is_new.is_none_or(|is_new| is_new == old.is_none()));
        self.plain
            .insert(member, (value, old.and_then(|old| old.1)));
    }

    fn remove(&mut self, key: u8) {
        let member = self.name(key);
        let was_live = self.live().contains_key(&member);
        if was_live {
            self.plain.remove(&member);
        }
        let is_removed = self.with(|subject, scene| subject.remove(&member, scene));
        assert_eq!(is_removed, was_live);
    }

    fn set_deadline(&mut self, key: u8, ttl: Option<u64>) {
        let (member, at) = (self.name(key), ttl.map(|ttl| Tick(self.now.0 + ttl)));
        let is_live = self.live().contains_key(&member);
        let is_set = self.with(|subject, scene| subject.set_deadline(&member, at, scene));
        assert_eq!(is_set, is_live);
        if is_live {
            self.plain.entry(member).and_modify(|entry| entry.1 = at);
        }
    }

    pub fn apply(&mut self, op: Op) {
        let each = |key: u8, count: u8| (0..count).map(move |i| key.wrapping_add(i));
        match op {
            Op::Put(key, seed) => self.put(key, seed),
            Op::Fill(key, count, seed) => each(key, count).for_each(|key| self.put(key, seed)),
            Op::Remove(key) => self.remove(key),
            Op::Clear(key, count) => each(key, count).for_each(|key| self.remove(key)),
            Op::SetDeadline(key, ttl) => self.set_deadline(key, ttl),
            Op::Crowd(key, count, ttl) => {
                each(key, count).for_each(|key| self.set_deadline(key, Some(ttl)));
            }
            Op::SetOwn(ttl) => {
                self.own = ttl.map(|ttl| Tick(self.now.0 + ttl));
                self.restore_own();
            }
            Op::Advance(ms) => self.now.0 += ms,
            // The model keeps no expired element that would become live again.
            Op::Back(ms) => {
                self.remove_expired(1_000_000);
                self.now.0 -= ms;
            }
            Op::RemoveExpired(steps) => self.remove_expired(steps),
            Op::Duplicate => {
                self.subject = self.with(|subject, scene| subject.duplicate(scene));
                self.restore_own();
            }
            Op::Repack => {
                self.subject.trim();
                if let Some((tag, bytes)) = self.subject.inline() {
                    self.subject = S::unpack(tag, bytes.to_vec());
                }
            }
            Op::Scan(count) => self.scan(count),
            Op::Sample(count) => self.sample(count),
            Op::Special(a, b, flag) => S::apply_special(self, a, b, flag),
        }
        if self.subject.deadlines().is_none() {
            self.own = None;
        }
        if self.subject.is_void() {
            self.subject = S::new();
            self.plain.clear();
        }
    }

    /// Gives the subject the key's own deadline, as the keyspace does for a copy.
    fn restore_own(&mut self) {
        if self.subject.deadlines().is_some() {
            self.subject.set_own(self.own);
        }
    }

    pub fn remove_expired(&mut self, steps: u32) {
        let (now, mut removed) = (self.now, 0);
        let report = &mut |deadline, count| {
            assert!(deadline < now, "an element expired before its time");
            removed += count as usize;
        };
        self.subject.purge(now, &mut Budget(steps), report, None);
        if self.subject.is_void() {
            assert_eq!(removed, self.plain.len());
            assert!(self.live().is_empty());
            return;
        }
        let (live, before, names) = (self.live(), self.plain.len(), self.subject.names());
        self.plain.retain(|name, _| names.contains(name));
        let removed_here = before - self.plain.len();
        assert_eq!(removed_here, removed, "each is reported once");
        assert!(live.keys().all(|name| self.plain.contains_key(name)));
        if steps > 1000 && self.is_exact() {
            assert_eq!(self.plain, live, "all expired elements are removed");
        }
    }

    /// Returns whether the index reports each deadline in time.
    fn is_exact(&self) -> bool {
        matches!(self.expiry.name(), "ranked" | "wheel" | "ordered")
    }

    fn scan(&mut self, count: usize) {
        let (mut found, mut cursor, mut calls) = (BTreeMap::new(), 0, 0);
        loop {
            cursor = (self.subject).scan(cursor, count, &self.scene(), &mut found);
            calls += 1;
            assert!(calls < 10_000, "the scan does not end");
            if cursor == 0 {
                break;
            }
        }
        let live = self.live().into_iter();
        assert_eq!(found, live.map(|(name, entry)| (name, entry.0)).collect());
    }

    fn sample(&mut self, count: usize) {
        let (live, mut state) = (self.live(), self.random);
        let random = &mut || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(7);
            state
        };
        let Some([mut distinct, repeated]) = self.subject.samples(count, &self.scene(), random)
        else {
            return;
        };
        self.random = state;
        let mut all = distinct.iter().chain(&repeated);
        assert!(all.all(|name| live.contains_key(name)));
        assert_eq!(repeated.len(), if live.is_empty() { 0 } else { count });
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), count.min(live.len()));
    }

    pub fn compare(&self) {
        let (live, scene) = (self.live(), self.scene());
        self.subject.check();
        assert_eq!(self.subject.is_void(), self.plain.is_empty());
        assert_eq!(self.subject.len(&scene), live.len());
        assert_eq!(self.subject.is_empty(&scene), live.is_empty());
        let values = live.iter();
        let values = values.map(|(name, entry)| (name.clone(), entry.0.clone()));
        assert_eq!(self.subject.all(&scene), values.collect());
        for key in 0..=255 {
            let deadline = live.get(&name(key)).map(|entry| entry.1);
            assert_eq!(self.subject.deadline(&name(key), &scene), deadline);
        }
        let earliest = self.plain.values().filter_map(|entry| entry.1).min();
        assert!(self.subject.deadlines().is_some() || earliest.is_none());
        if let Some(deadlines) = self.subject.deadlines() {
            assert_eq!(deadlines.own, self.own);
            let nearest = deadlines.nearest.expect("some element has a deadline");
            let is_early = earliest.is_none_or(|earliest| nearest <= earliest);
            assert!(
                !self.is_exact() || is_early,
                "the deadline is found in time"
            );
        }
        S::compare_special(self, &live, &scene);
    }
}

/// Defines the test that runs random operations on a type.
macro_rules! model_test {
    ($name:ident, $type:ty) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(160))]
            #[test]
            fn $name(setup in setups(), ops in ops()) {
                let mut model = Model::<$type>::new(setup);
                for op in ops {
                    model.apply(op);
                    model.compare();
                }
            }
        }
    };
}
pub(super) use model_test;

//! Random commands on hashes of several keys against a plain model with a simulated clock:
//! deadlines of fields and keys, the expiry cycle cut at any step, changing eviction policies,
//! copies, renames and events. A failure is shrunk and prints its seed.
//!
//! Only exact indexes are used. With an index that finds expired elements at intervals, a key whose
//! fields have all expired may be visible until then.

use proptest::prelude::*;
use std::collections::BTreeMap;
use store::{Class, Event, Key, Keyspace, Kind, NewDeadline, Options, Tick};

const START: u64 = 1_700_000_000_000;

#[derive(Clone, Debug)]
enum Op {
    Set(u8, u8, usize),
    Fill(u8, u8, u8),
    SetString(u8),
    Remove(u8, u8),
    FieldDeadline(u8, u8, Option<u64>),
    Crowd(u8, u8, u8, u64),
    KeyDeadline(u8, Option<u64>),
    Delete(u8),
    Copy(u8, u8),
    Rename(u8, u8),
    Read(u8),
    Advance(u64),
    Expire(u32),
    Tend(u32),
    Policy(usize),
    Flush,
}

fn op() -> impl Strategy<Value = Op> {
    let key = || 0..4u8;
    let ttl = || prop_oneof![3 => 1..40u64, 1 => 1..3000u64];
    let len = || prop_oneof![12 => 0..10usize, 1 => 60..300usize, 1 => 1800..2500usize];
    prop_oneof![
        8 => (key(), any::<u8>(), len()).prop_map(|(k, f, l)| Op::Set(k, f, l)),
        2 => (key(), any::<u8>(), 0..120u8).prop_map(|(k, f, n)| Op::Fill(k, f, n)),
        1 => key().prop_map(Op::SetString),
        4 => (key(), any::<u8>()).prop_map(|(k, f)| Op::Remove(k, f)),
        6 => (key(), any::<u8>(), prop::option::of(ttl())).prop_map(|(k, f, t)| Op::FieldDeadline(k, f, t)),
        3 => (key(), any::<u8>(), any::<u8>(), ttl()).prop_map(|(k, f, n, t)| Op::Crowd(k, f, n, t)),
        3 => (key(), prop::option::of(ttl())).prop_map(|(k, t)| Op::KeyDeadline(k, t)),
        1 => key().prop_map(Op::Delete),
        2 => (key(), key()).prop_map(|(a, b)| Op::Copy(a, b)),
        2 => (key(), key()).prop_map(|(a, b)| Op::Rename(a, b)),
        4 => key().prop_map(Op::Read),
        8 => (0..25u64).prop_map(Op::Advance),
        4 => (0..60u32).prop_map(Op::Expire),
        2 => (1..30u32).prop_map(Op::Tend),
        1 => any::<usize>().prop_map(Op::Policy),
        1 => Just(Op::Flush),
    ]
}

type Fields = BTreeMap<Vec<u8>, (Vec<u8>, Option<Tick>)>;

#[derive(Clone, Debug, Default)]
struct Plain {
    /// `None` for a string.
    fields: Option<Fields>,
    deadline: Option<Tick>,
}

struct Pair {
    space: Keyspace,
    plain: BTreeMap<u8, Plain>,
    now: u64,
    /// Events since the last comparison.
    reported: Vec<Event>,
}

const NAMES: [&str; 4] = [
    "a",
    "key:b",
    "a key that is somewhat longer than the others",
    "d",
];

fn field(number: u8) -> Vec<u8> {
    format!("field:{number}").into_bytes()
}

impl Pair {
    fn new(expiry: &str, entries: i64) -> Pair {
        let options = Options {
            shards: 2,
            policy: "noeviction".into(),
            expiry: if expiry == "ordered" {
                "ordered"
            } else {
                "wheel"
            }
            .into(),
            maxmemory: 0,
            hash_key: [7, 8],
            seed: 9,
        };
        let space = Keyspace::new(&options, Tick(START)).expect("valid options");
        let space = space.with_element_expiry(expiry).expect("an index");
        space.set_notify(true);
        space.limits().set("hash_entries", entries);
        Pair {
            space,
            plain: BTreeMap::new(),
            now: START,
            reported: vec![],
        }
    }

    fn name(&self, key: u8) -> Key<'static> {
        // One key is too long for a block.
        static LONG: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| vec![b'k'; 300]);
        match key {
            3 => self.space.key(0, &LONG),
            key => self.space.key(0, NAMES[key as usize].as_bytes()),
        }
    }

    /// Removes from the model everything that has expired by now.
    fn forget_dead(&mut self) {
        let now = Tick(self.now);
        let is_dead = |deadline: &Option<Tick>| deadline.is_some_and(|deadline| now > deadline);
        self.plain.retain(|_, entry| {
            if is_dead(&entry.deadline) {
                return false;
            }
            match &mut entry.fields {
                Some(fields) => {
                    fields.retain(|_, (_, deadline)| !is_dead(deadline));
                    !fields.is_empty()
                }
                None => true,
            }
        });
    }

    fn view<R>(&mut self, work: impl FnOnce(&mut store::View<'_>) -> R) -> R {
        let mut view = self.space.lock_all(Tick(self.now));
        let result = work(&mut view);
        view.take_events(&mut self.reported);
        result
    }

    /// Returns the model's hash of a key that is absent or a hash.
    fn fields(&mut self, key: u8) -> Option<&mut Fields> {
        self.plain
            .entry(key)
            .or_insert_with(|| Plain {
                fields: Some(Fields::new()),
                deadline: None,
            })
            .fields
            .as_mut()
    }

    fn set(&mut self, key: u8, number: u8, len: usize) {
        let (name, value) = (self.name(key), vec![number; len]);
        let is_hash = self
            .plain
            .get(&key)
            .is_none_or(|entry| entry.fields.is_some());
        let was_there = self.plain.contains_key(&key);
        let did = self.view(|view| {
            view.edit_hash(&name, true, |hash, scene| {
                Some(hash.set(&field(number), &value, scene))
            })
        });
        assert_eq!(did.is_ok(), is_hash);
        if let Ok(edited) = did {
            let edited = edited.expect("a field was set");
            let fields = self.fields(key).expect("it is a hash");
            let old = fields.insert(field(number), (value, None));
            assert_eq!(edited.result, old.is_none());
            assert_eq!((edited.is_new, edited.is_deleted), (!was_there, false));
        }
    }

    fn remove(&mut self, key: u8, number: u8) {
        let name = self.name(key);
        let did = self.view(|view| {
            view.edit_hash(&name, false, |hash, scene| {
                hash.remove(&field(number), scene).then_some(())
            })
        });
        let Some(entry) = self.plain.get_mut(&key) else {
            assert_eq!(did, Ok(None));
            return;
        };
        let Some(fields) = &mut entry.fields else {
            assert!(did.is_err());
            return;
        };
        let was_there = fields.remove(&field(number)).is_some();
        let edited = did.expect("it is a hash");
        assert_eq!(edited.is_some(), was_there);
        assert_eq!(
            edited.is_some_and(|edited| edited.is_deleted),
            fields.is_empty()
        );
        if fields.is_empty() {
            self.plain.remove(&key);
        }
    }

    fn set_field_deadline(&mut self, key: u8, number: u8, ttl: Option<u64>) {
        let (name, deadline) = (self.name(key), ttl.map(|ttl| Tick(self.now + ttl)));
        let did = self.view(|view| {
            view.edit_hash(&name, false, |hash, scene| {
                hash.set_deadline(&field(number), deadline, scene)
                    .then_some(())
            })
        });
        let entry = self
            .plain
            .get_mut(&key)
            .and_then(|entry| entry.fields.as_mut());
        let found = entry.and_then(|fields| fields.get_mut(&field(number)));
        assert_eq!(matches!(did, Ok(Some(_))), found.is_some());
        if let Some(found) = found {
            found.1 = deadline;
        }
    }

    fn transfer(&mut self, from: u8, to: u8, moves: bool) {
        if from == to {
            return;
        }
        let (source, target) = (self.name(from), self.name(to));
        let did = self.view(|view| match moves {
            true => view.rename(&source, &target),
            false => view.copy(&source, &target),
        });
        let entry = self.plain.get(&from).cloned();
        assert_eq!(did, entry.is_some());
        if let Some(entry) = entry {
            self.plain.insert(to, entry);
            if moves {
                self.plain.remove(&from);
            }
        }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Set(key, number, len) => self.set(key, number, len),
            Op::Fill(key, number, count) => {
                (0..count).for_each(|i| self.set(key, number.wrapping_add(i), 3));
            }
            Op::SetString(key) => {
                let name = self.name(key);
                self.view(|view| view.set(&name, b"text", NewDeadline::Clear));
                self.plain.insert(key, Plain::default());
            }
            Op::Remove(key, number) => self.remove(key, number),
            Op::FieldDeadline(key, number, ttl) => self.set_field_deadline(key, number, ttl),
            Op::Crowd(key, number, count, ttl) => (0..count)
                .for_each(|i| self.set_field_deadline(key, number.wrapping_add(i), Some(ttl))),
            Op::KeyDeadline(key, ttl) => {
                let (name, deadline) = (self.name(key), ttl.map(|ttl| Tick(self.now + ttl)));
                let did = self.view(|view| view.set_deadline(&name, deadline));
                assert_eq!(did, self.plain.contains_key(&key));
                self.plain
                    .entry(key)
                    .and_modify(|entry| entry.deadline = deadline);
                if !did {
                    self.plain.remove(&key);
                }
            }
            Op::Delete(key) => {
                let name = self.name(key);
                let did = self.view(|view| view.delete(&name));
                assert_eq!(did, self.plain.remove(&key).is_some());
            }
            Op::Copy(from, to) => self.transfer(from, to, false),
            Op::Rename(from, to) => self.transfer(from, to, true),
            Op::Read(key) => self.compare(key),
            Op::Advance(ms) => {
                self.now += ms;
                self.forget_dead();
            }
            Op::Expire(steps) => {
                for shard in 0..self.space.shard_count() {
                    let now = Tick(self.now);
                    let late = &mut |deadline: Tick, _| assert!(deadline < now);
                    self.space
                        .expire(shard, now, steps, &mut self.reported, late);
                }
            }
            Op::Tend(steps) => {
                for shard in 0..self.space.shard_count() {
                    self.space
                        .background_step(shard, Tick(self.now), steps, &mut self.reported);
                }
            }
            Op::Policy(number) => {
                let names = [
                    "noeviction",
                    "volatile-s3fifo",
                    "allkeys-sieve",
                    "volatile-lhd",
                ];
                let set = self.space.set_policy(names[number % names.len()]);
                set.expect("a policy that is served");
            }
            Op::Flush => {
                self.view(|view| view.flush(0));
                self.plain.clear();
            }
        }
    }

    fn compare(&mut self, key: u8) {
        let (name, entry) = (self.name(key), self.plain.get(&key).cloned());
        let kind = self.view(|view| view.kind(&name));
        let wanted = entry.as_ref().map(|entry| match entry.fields {
            Some(_) => Kind::Hash,
            None => Kind::String,
        });
        assert_eq!(kind, wanted, "key {key}");
        let deadline = self.view(|view| view.deadline(&name));
        assert_eq!(deadline, entry.as_ref().map(|entry| entry.deadline));
        let Some(fields) = entry.and_then(|entry| entry.fields) else {
            return;
        };
        let held = self.view(|view| {
            view.read_hash(&name, |hash, scene| {
                let mut held = Fields::new();
                hash.each(scene, |field, value, deadline| {
                    held.insert(field.to_vec(), (value.to_vec(), deadline));
                });
                assert_eq!(hash.len(scene), held.len());
                held
            })
        });
        assert_eq!(held, Ok(Some(fields)));
    }

    /// Compares the events caused by time. The events of commands are compared elsewhere.
    fn check_events(&mut self) {
        for event in self.reported.drain(..) {
            let is_known = match event.class {
                Class::Expired => event.name == "expired",
                Class::Hash => event.name == "hexpired",
                Class::Generic => event.name == "del",
                _ => false,
            };
            assert!(is_known, "{event:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]
    #[test]
    fn hashes_by_key_hold_what_plain_maps_hold(
        expiry in prop::sample::select(vec!["ranked", "ranked", "wheel", "ordered"]),
        entries in prop_oneof![Just(4i64), Just(512)],
        ops in prop::collection::vec(op(), 1..80),
    ) {
        let mut pair = Pair::new(expiry, entries);
        for op in ops {
            pair.apply(op);
            pair.forget_dead();
            pair.check_events();
        }
        (0..4).for_each(|key| pair.compare(key));
        pair.space.check();
        let own = pair.plain.values().filter(|entry| entry.deadline.is_some());
        prop_assert_eq!(pair.space.db_facts(0, Tick(pair.now)).with_deadline, own.count() as u64);
        // After all deadlines have passed, nothing with a deadline may be left in memory.
        pair.now += 10_000;
        pair.forget_dead();
        for shard in 0..2 {
            for _ in 0..100 {
                pair.space.expire(shard, Tick(pair.now), 1000, &mut pair.reported, &mut |_, _| ());
                pair.space.background_step(shard, Tick(pair.now), 1000, &mut pair.reported);
            }
        }
        pair.space.check();
        let held = pair.view(|view| view.len(0));
        prop_assert_eq!(held, pair.plain.len());
        (0..4).for_each(|key| pair.compare(key));
    }
}

//! Random operations on fresh and stale values and on leases against the plainest model: of each
//! key its deadline, its stale time and its tags, and of each lease its token, its end and whether
//! something has ended it.

use proptest::prelude::*;
use std::collections::BTreeMap;
use store::{Freshness, Key, Keyspace, Leased, NewDeadline, Options, Soft, Tick, View};

const START: u64 = 1_700_000_000_000;
const DB: u8 = 0;
const KEYS: u8 = 12;

#[derive(Clone, Debug)]
enum Op {
    /// Key, TTL, stale time, tag.
    Set(u8, Option<u64>, u64, Option<u8>),
    /// Key, number of a token, TTL, stale time, tag.
    Redeem(u8, usize, u64, u64, Option<u8>),
    Negative(u8, u64),
    Append(u8),
    Deadline(u8, Option<u64>),
    Delete(u8),
    Copy(u8, u8),
    Rename(u8, u8),
    Lease(u8, u64),
    Unlease(u8, usize),
    Invalidate(u8),
    Advance(u64),
    Expire,
    Flush,
    Swap,
}

fn op() -> impl Strategy<Value = Op> {
    let key = || 0..KEYS;
    let tag = || prop::option::of(0..4u8);
    let ttl = || 1..200u64;
    let window = || prop_oneof![Just(0), 1..200u64];
    prop_oneof![
        6 => (key(), prop::option::of(ttl()), window(), tag()).prop_map(|(k, t, w, g)| Op::Set(k, t, w, g)),
        12 => (key(), any::<usize>(), ttl(), window(), tag()).prop_map(|(k, n, t, w, g)| Op::Redeem(k, n, t, w, g)),
        2 => (key(), ttl()).prop_map(|(k, t)| Op::Negative(k, t)),
        1 => key().prop_map(Op::Append),
        2 => (key(), prop::option::of(ttl())).prop_map(|(k, t)| Op::Deadline(k, t)),
        3 => key().prop_map(Op::Delete),
        1 => (key(), key()).prop_map(|(a, b)| Op::Copy(a, b)),
        1 => (key(), key()).prop_map(|(a, b)| Op::Rename(a, b)),
        14 => (key(), 1..150u64).prop_map(|(k, ms)| Op::Lease(k, ms)),
        2 => (key(), any::<usize>()).prop_map(|(k, n)| Op::Unlease(k, n)),
        3 => (0..4u8).prop_map(Op::Invalidate),
        8 => (0..60u64).prop_map(Op::Advance),
        2 => Just(Op::Expire),
        1 => Just(Op::Flush),
        1 => Just(Op::Swap),
    ]
}

#[derive(Clone, Debug, Default)]
struct Held {
    deadline: Option<u64>,
    window: u64,
    is_negative: bool,
    tag: Option<u8>,
}

impl Held {
    fn freshness(&self, now: u64) -> Freshness {
        let deadline = self.deadline.map(Tick);
        let fresh_until = self.deadline.map(|at| at.saturating_sub(self.window));
        match deadline {
            _ if self.is_negative => Freshness::Negative(deadline),
            Some(deadline) if fresh_until < Some(now) => Freshness::Stale(deadline),
            _ => Freshness::Fresh(fresh_until.map(Tick)),
        }
    }
}

struct Lease {
    token: u64,
    until: u64,
    /// Tags that were invalidated since it began.
    invalidated: [bool; 4],
}

struct Run {
    space: Keyspace,
    now: u64,
    keys: BTreeMap<u8, Held>,
    leases: BTreeMap<u8, Lease>,
    /// All tokens, with those that do not hold any more.
    tokens: Vec<u64>,
}

impl Run {
    fn new() -> Run {
        let options = Options {
            shards: 2,
            policy: "noeviction".into(),
            expiry: "wheel".into(),
            maxmemory: 0,
            hash_key: [3, 5],
            seed: 7,
        };
        Run {
            space: Keyspace::new(&options, Tick(START)).expect("valid"),
            now: START,
            keys: BTreeMap::new(),
            leases: BTreeMap::new(),
            tokens: vec![0],
        }
    }

    fn on<R>(&self, key: u8, work: impl FnOnce(&mut View<'_>, &Key<'_>) -> R) -> R {
        let name = format!("key:{key}");
        let mut view = self.space.lock_all(Tick(self.now));
        work(&mut view, &self.space.key(DB, name.as_bytes()))
    }

    fn bury(&mut self) {
        let now = self.now;
        self.keys
            .retain(|_, held| held.deadline.is_none_or(|at| at >= now));
        self.leases.retain(|_, lease| lease.until >= now);
    }

    fn store(&mut self, key: u8, held: Held) {
        let deadline = held
            .deadline
            .map_or(NewDeadline::Clear, |at| NewDeadline::At(Tick(at)));
        let soft = Soft {
            window_ms: held.window,
            is_negative: held.is_negative,
        };
        let tags: Vec<String> = held.tag.iter().map(|tag| format!("tag:{tag}")).collect();
        self.on(key, |view, key| {
            view.set(key, b"value", deadline);
            assert!(view.set_tags(key, &tags));
            assert!(view.set_soft(key, soft));
        });
        self.keys.insert(key, held);
        self.leases.remove(&key);
    }

    fn redeem(&mut self, key: u8, number: usize, held: Held) {
        let token = self.tokens[number % self.tokens.len()];
        // Half of the calls have the token of their key.
        let own = self.leases.get(&key).map(|lease| lease.token);
        let token = own.filter(|_| number.is_multiple_of(2)).unwrap_or(token);
        let name = held.tag.map(|tag| format!("tag:{tag}"));
        let tags: Vec<&[u8]> = name.iter().map(|name| name.as_bytes()).collect();
        let permitted = self.on(key, |view, key| view.permits(key, token, Some(&tags)));
        let old = self.keys.get(&key).and_then(|held| held.tag);
        let expected = self.leases.get(&key).is_some_and(|lease| {
            let mut tags = held.tag.into_iter().chain(old);
            lease.token == token && !tags.any(|tag| lease.invalidated[usize::from(tag)])
        });
        assert_eq!(permitted, expected);
        if permitted {
            self.store(key, held);
        } else if own == Some(token) {
            self.leases.remove(&key);
        }
    }

    fn lease(&mut self, key: u8, ms: u64) {
        let leased = self.on(key, |view, key| view.lease(key, ms));
        match (leased, self.leases.get(&key)) {
            (Leased::Another(until), Some(lease)) => assert_eq!(until.0, lease.until),
            (Leased::Yes(token), None) => {
                assert!(!self.tokens.contains(&token), "each token is new");
                self.tokens.push(token);
                let until = self.now + ms;
                let invalidated = [false; 4];
                self.leases.insert(
                    key,
                    Lease {
                        token,
                        until,
                        invalidated,
                    },
                );
            }
            _ => panic!("{leased:?} of key {key}"),
        }
    }

    fn invalidate(&mut self, tag: u8) {
        let name = format!("tag:{tag}");
        self.space
            .lock_all(Tick(self.now))
            .invalidate(DB, &[name.as_bytes()], None);
        let tagged = self.keys.iter().filter(|(_, held)| held.tag == Some(tag));
        let gone: Vec<u8> = tagged.map(|(key, _)| *key).collect();
        for key in gone {
            self.keys.remove(&key);
            // A look-up removes the key with its lease.
            self.on(key, |view, key| assert_eq!(view.kind(key), None));
            self.leases.remove(&key);
        }
        for lease in self.leases.values_mut() {
            lease.invalidated[usize::from(tag)] = true;
        }
    }

    fn step(&mut self, op: Op) {
        self.bury();
        let at = |ttl: u64| self.now + ttl;
        match op {
            Op::Set(key, ttl, window, tag) => {
                let deadline = ttl.map(at);
                self.store(
                    key,
                    Held {
                        deadline,
                        window,
                        tag,
                        is_negative: false,
                    },
                );
            }
            Op::Redeem(key, number, ttl, window, tag) => {
                let deadline = Some(at(ttl));
                self.redeem(
                    key,
                    number,
                    Held {
                        deadline,
                        window,
                        tag,
                        is_negative: false,
                    },
                );
            }
            Op::Negative(key, ttl) => {
                let deadline = Some(at(ttl));
                self.store(
                    key,
                    Held {
                        deadline,
                        is_negative: true,
                        ..Held::default()
                    },
                );
            }
            Op::Append(key) => {
                self.on(key, |view, key| view.edit(key, |bytes| bytes.push(b'+')))
                    .expect("a string");
                self.keys.entry(key).or_default().is_negative = false;
                self.leases.remove(&key);
            }
            Op::Deadline(key, ttl) => {
                let deadline = ttl.map(at);
                self.on(key, |view, key| view.set_deadline(key, deadline.map(Tick)));
                self.keys
                    .entry(key)
                    .and_modify(|held| held.deadline = deadline);
            }
            Op::Delete(key) => {
                let existed = self.on(key, |view, key| view.delete(key));
                assert_eq!(existed, self.keys.remove(&key).is_some());
                self.leases.remove(&key);
            }
            Op::Copy(from, to) | Op::Rename(from, to) if from == to => {}
            Op::Copy(from, to) | Op::Rename(from, to) => {
                let is_copy = matches!(op, Op::Copy(..));
                let name = format!("key:{to}");
                let target = self.space.key(DB, name.as_bytes());
                let is_done = self.on(from, |view, from| match is_copy {
                    true => view.copy(from, &target),
                    false => view.rename(from, &target),
                });
                let held = if is_copy {
                    self.keys.get(&from).cloned()
                } else {
                    self.keys.remove(&from)
                };
                assert_eq!(is_done, held.is_some());
                if let Some(held) = held {
                    self.keys.insert(to, held);
                    self.leases.remove(&to);
                    if !is_copy {
                        self.leases.remove(&from);
                    }
                }
            }
            Op::Lease(key, ms) => self.lease(key, ms),
            Op::Unlease(key, number) => {
                let token = self.tokens[number % self.tokens.len()];
                let holds = self
                    .leases
                    .get(&key)
                    .is_some_and(|lease| lease.token == token);
                assert_eq!(self.on(key, |view, key| view.end_lease(key, token)), holds);
                if holds {
                    self.leases.remove(&key);
                }
            }
            Op::Invalidate(tag) => self.invalidate(tag),
            Op::Advance(ms) => self.now += ms,
            Op::Expire => {
                for shard in 0..self.space.shard_count() {
                    let now = Tick(self.now);
                    self.space
                        .expire(shard, now, 1 << 20, &mut Vec::new(), &mut |_, _| {});
                }
            }
            Op::Flush => {
                self.space.lock_all(Tick(self.now)).flush(DB);
                self.keys.clear();
                self.leases.clear();
            }
            Op::Swap => {
                // The other database is empty.
                self.space.lock_all(Tick(self.now)).swap(DB, DB + 1);
                self.space.lock_all(Tick(self.now)).flush(DB + 1);
                self.keys.clear();
                self.leases.clear();
            }
        }
    }

    fn compare(&mut self) {
        self.bury();
        self.space.check();
        for key in 0..KEYS {
            let now = self.now;
            let held = self.keys.get(&key);
            let expected = held.map(|held| held.freshness(now));
            let is_stale = matches!(expected, Some(Freshness::Stale(_)));
            let until = self.leases.get(&key).map(|lease| Tick(lease.until));
            self.on(key, |view, key| {
                let found = view.fetch(key).expect("a string");
                assert_eq!(found.map(|(_, freshness)| freshness), expected);
                assert_eq!(view.is_stale(key), is_stale);
                assert_eq!(view.leased_until(key), until);
            });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]
    #[test]
    fn values_and_leases_behave_like_the_model(ops in prop::collection::vec(op(), 1..300)) {
        let mut run = Run::new();
        for op in ops {
            run.step(op);
            run.compare();
        }
        run.now += 10_000;
        run.step(Op::Expire);
        run.step(Op::Flush);
        prop_assert_eq!(run.space.tag_facts().soft_keys, 0);
        prop_assert_eq!(run.space.tag_facts().leases, 0);
    }
}

/// Locks a keyspace of one shard, and gives `count` leases of an hour.
fn with_leases(count: usize, work: impl FnOnce(&Keyspace, &[u64])) {
    let options = Options {
        shards: 1,
        policy: "noeviction".into(),
        expiry: "wheel".into(),
        maxmemory: 0,
        hash_key: [1, 2],
        seed: 3,
    };
    let space = Keyspace::new(&options, Tick(START)).expect("valid");
    let mut tokens = Vec::new();
    let mut view = space.lock_all(Tick(START));
    for number in 0..count {
        let name = format!("key:{number}");
        let leased = view.lease(&space.key(DB, name.as_bytes()), 3_600_000 + number as u64);
        let Leased::Yes(token) = leased else {
            panic!("{leased:?}")
        };
        tokens.push(token);
    }
    drop(view);
    work(&space, &tokens);
}

#[test]
fn the_lease_that_ends_first_makes_room_for_another_one() {
    with_leases(10_000, |space, tokens| {
        assert_eq!(space.tag_facts().leases, 8192);
        assert_eq!(space.counters().displaced_leases, 10_000 - 8192);
        let mut view = space.lock_all(Tick(START));
        for (number, is_held) in [(0, false), (1_807, false), (1_808, true), (9_999, true)] {
            let name = format!("key:{number}");
            let key = space.key(DB, name.as_bytes());
            assert_eq!(
                view.permits(&key, tokens[number], None),
                is_held,
                "{number}"
            );
        }
        drop(view);
        space.check();
    });
}

#[test]
fn a_token_permits_no_tag_of_which_too_many_were_invalidated_to_remember() {
    with_leases(4, |space, tokens| {
        let mut view = space.lock_all(Tick(START));
        let permits = |view: &mut View<'_>, number: usize, tags: &[&[u8]]| {
            let name = format!("key:{number}");
            let key = space.key(DB, name.as_bytes());
            view.permits(&key, tokens[number], Some(tags))
        };
        view.invalidate(DB, &[b"first"], None);
        assert!(!permits(&mut view, 0, &[b"first"]));
        assert!(!permits(&mut view, 0, &[]), "a refusal ends the lease");
        assert!(permits(&mut view, 1, &[b"other"]));
        for number in 0..5_000 {
            view.invalidate(DB, &[format!("tag:{number}").as_bytes()], None);
        }
        assert!(!permits(&mut view, 1, &[b"first"]));
        assert!(
            !permits(&mut view, 2, &[b"other"]),
            "it may have been one of those forgotten"
        );
        assert!(permits(&mut view, 3, &[]));
    });
}

#[test]
fn a_stale_time_takes_eight_bytes_and_a_key_without_one_nothing() {
    let bytes = |window: u64| {
        let mut used = 0;
        with_leases(0, |space, _| {
            let mut view = space.lock_all(Tick(START));
            for number in 0..50_000 {
                let name = format!("key:{number:012}");
                let key = space.key(DB, name.as_bytes());
                view.set(&key, b"value", NewDeadline::At(Tick(START + 1_000)));
                view.set_soft(&key, Soft::window(window));
            }
            drop(view);
            used = space.memory_facts().used_bytes;
            assert_eq!(
                space.tag_facts().soft_keys,
                if window > 0 { 50_000 } else { 0 }
            );
        });
        used as f64 / 50_000.0
    };
    let (plain, soft) = (bytes(0), bytes(500));
    println!("{plain:.1} bytes per key, {soft:.1} with a stale time");
    assert!(soft - plain <= 8.1, "{plain} {soft}");
}

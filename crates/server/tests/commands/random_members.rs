//! Random commands on sets whose members have deadlines, compared with a model under a manual
//! clock, while expiry removes members in steps of any size.

use crate::random::Random;
use crate::script::{Bench, START, words};
use std::collections::{BTreeMap, BTreeSet};
use store::Tick;
use wire::Protocol;

/// Number of commands per run.
const STEPS: usize = 4_000;
const KEYS: [&str; 3] = ["a", "b", "c"];

/// Deadline of a key and of each of its members.
#[derive(Default)]
struct ModelKey {
    deadline: Option<u64>,
    members: BTreeMap<String, Option<u64>>,
}

#[derive(Default)]
struct Model {
    sets: BTreeMap<&'static str, ModelKey>,
}

impl Model {
    /// Removes expired members.
    fn purge(&mut self, now: u64) {
        let is_live = |deadline: &Option<u64>| deadline.is_none_or(|deadline| now <= deadline);
        for set in self.sets.values_mut() {
            set.members.retain(|_, deadline| is_live(deadline));
        }
        self.sets
            .retain(|_, set| is_live(&set.deadline) && !set.members.is_empty());
    }

    fn members(&self, key: &str) -> BTreeSet<String> {
        let set = self.sets.get(key);
        set.map_or_else(BTreeSet::new, |set| set.members.keys().cloned().collect())
    }
}

struct Run {
    bench: Bench,
    model: Model,
    rng: Random,
}

fn member(rng: &mut Random) -> String {
    match rng.below(3) {
        0 => format!("m{}", rng.below(20)),
        _ => rng.below(60).to_string(),
    }
}

/// Returns the numbers of an array reply.
fn numbers(reply: &str) -> Vec<i64> {
    let inner = reply.trim_start_matches('[').trim_end_matches(']');
    let number = |word: &str| word.parse().expect("an integer");
    inner.split_whitespace().map(number).collect()
}

impl Run {
    fn run(&mut self, command: &str) -> String {
        let reply = self.bench.run(&words(command));
        let is_error = reply.starts_with("-ERR") || reply.starts_with("-WRONG");
        assert!(!is_error, "{command}: {reply}");
        reply
    }

    fn add(&mut self, key: &'static str) {
        let count = if self.rng.below(20) == 0 {
            60
        } else {
            1 + self.rng.below(3)
        };
        let members: Vec<String> = (0..count).map(|_| member(&mut self.rng)).collect();
        let reply = self.run(&format!("SADD {key} {}", members.join(" ")));
        let set = self.model.sets.entry(key).or_default();
        let before = set.members.len();
        for member in members {
            set.members.entry(member).or_default();
        }
        assert_eq!(reply, (set.members.len() - before).to_string());
    }

    fn remove(&mut self, key: &'static str) {
        let member = member(&mut self.rng);
        let reply = self.run(&format!("SREM {key} {member}"));
        let set = self.model.sets.get_mut(key);
        let removed = set.and_then(|set| set.members.remove(&member));
        assert_eq!(reply, i32::from(removed.is_some()).to_string());
    }

    /// Runs SPEXPIREAT on several members. Some deadlines are past.
    fn expire(&mut self, key: &'static str) {
        let now = self.bench.now.0;
        let when = now - 3 + self.rng.below(60) as u64;
        let condition = self.rng.of(&["", "NX", "XX", "GT", "LT", ""]);
        let count = if self.rng.below(10) == 0 {
            40
        } else {
            1 + self.rng.below(3)
        };
        let members: Vec<String> = (0..count).map(|_| member(&mut self.rng)).collect();
        let names = members.join(" ");
        let reply = self.run(&format!(
            "SPEXPIREAT {key} {when} {condition} MEMBERS {count} {names}"
        ));
        let mut codes = Vec::new();
        for member in &members {
            let set = self.model.sets.get_mut(key);
            let Some(old) = set.and_then(|set| set.members.get_mut(member)) else {
                codes.push(-2);
                continue;
            };
            let holds = match condition {
                "NX" => old.is_none(),
                "XX" => old.is_some(),
                "GT" => old.is_some_and(|old| when > old),
                "LT" => old.is_none_or(|old| when < old),
                _ => true,
            };
            codes.push(match holds {
                false => 0,
                true if when <= now => 2,
                true => 1,
            });
            if holds && when > now {
                *old = Some(when);
            } else if holds {
                self.model
                    .sets
                    .get_mut(key)
                    .map(|set| set.members.remove(member));
            }
        }
        assert_eq!(numbers(&reply), codes, "{condition} {names}");
    }

    fn persist(&mut self, key: &'static str) {
        let member = member(&mut self.rng);
        let reply = self.run(&format!("SPERSIST {key} MEMBERS 1 {member}"));
        let set = self.model.sets.get_mut(key);
        let code = match set.and_then(|set| set.members.get_mut(&member)) {
            None => -2,
            Some(None) => -1,
            Some(deadline) => {
                *deadline = None;
                1
            }
        };
        assert_eq!(numbers(&reply), [code]);
    }

    /// Sets the deadline of the key itself.
    fn expire_key(&mut self, key: &'static str) {
        let when = self.bench.now.0 + 1 + self.rng.below(80) as u64;
        let is_set = self.rng.below(3) > 0;
        let reply = match is_set {
            true => self.run(&format!("PEXPIREAT {key} {when}")),
            false => self.run(&format!("PERSIST {key}")),
        };
        let Some(set) = self.model.sets.get_mut(key) else {
            return assert_eq!(reply, "0");
        };
        assert_eq!(
            reply,
            i32::from(is_set || set.deadline.is_some()).to_string()
        );
        set.deadline = is_set.then_some(when);
    }

    fn copy(&mut self, from: &'static str) {
        let to = KEYS[self.rng.below(KEYS.len())];
        let is_move = self.rng.below(2) == 0;
        if from == to || !self.model.sets.contains_key(from) {
            return;
        }
        let command = if is_move { "RENAME" } else { "COPY" };
        let replace = if is_move { "" } else { "REPLACE" };
        self.run(&format!("{command} {from} {to} {replace}"));
        let set = self.model.sets.remove(from).expect("it is there");
        if !is_move {
            let (deadline, members) = (set.deadline, set.members.clone());
            self.model.sets.insert(from, ModelKey { deadline, members });
        }
        self.model.sets.insert(to, set);
    }

    fn pop(&mut self, key: &'static str) {
        let count = self.rng.below(4);
        let reply = self.run(&format!("SPOP {key} {count}"));
        let popped: BTreeSet<String> = listed(&reply);
        let members = self.model.members(key);
        assert_eq!(popped.len(), count.min(members.len()));
        assert!(popped.is_subset(&members));
        if let Some(set) = self.model.sets.get_mut(key) {
            set.members.retain(|member, _| !popped.contains(member));
        }
    }

    /// Runs expiry, not always to its end.
    fn expire_dead(&mut self) {
        let (steps, now) = (1 + self.rng.below(60) as u32, self.bench.now);
        let space = &self.bench.server.data.keyspace;
        for shard in 0..space.shard_count() {
            space.expire(shard, now, steps, &mut Vec::new(), &mut |deadline, _| {
                assert!(deadline < now);
            });
        }
    }

    fn compare(&mut self) {
        self.model.purge(self.bench.now.0);
        for key in KEYS {
            let members = self.model.members(key);
            assert_eq!(
                listed(&self.bench.run(&words(&format!("SMEMBERS {key}")))),
                members
            );
            assert_eq!(self.run(&format!("SCARD {key}")), members.len().to_string());
            let now = self.bench.now.0;
            let Some((deadline, times)) = self.model.sets.get(key).map(|set| {
                let times = set.members.clone().into_iter().collect::<Vec<_>>();
                (set.deadline, times)
            }) else {
                assert_eq!(self.run(&format!("EXISTS {key}")), "0");
                continue;
            };
            let own = deadline.map_or(-1, |deadline| (deadline - now) as i64);
            assert_eq!(self.run(&format!("PTTL {key}")), own.to_string());
            let (names, times): (Vec<_>, Vec<_>) = times.into_iter().unzip();
            let (count, names) = (names.len(), names.join(" "));
            let reply = self.run(&format!("SPEXPIRETIME {key} MEMBERS {count} {names}"));
            let times: Vec<i64> = times
                .into_iter()
                .map(|t| t.map_or(-1, |t| t as i64))
                .collect();
            assert_eq!(numbers(&reply), times);
        }
    }

    fn step(&mut self) {
        let key = KEYS[self.rng.below(KEYS.len())];
        match self.rng.below(24) {
            0..=5 => self.add(key),
            6..=7 => self.remove(key),
            8..=12 => self.expire(key),
            13 => self.persist(key),
            14 => self.expire_key(key),
            15 => self.copy(key),
            16 => self.pop(key),
            17..=19 => self.expire_dead(),
            _ => self.bench.now.0 += self.rng.below(12) as u64,
        }
        self.compare();
    }
}

/// Returns the members in a reply.
fn listed(reply: &str) -> BTreeSet<String> {
    let inner = reply.trim_start_matches('[').trim_end_matches(']');
    let plain = |word: &str| word.trim_matches('"').to_string();
    inner.split_whitespace().map(plain).collect()
}

#[test]
fn members_expire_when_the_model_says() {
    // Always packed, never packed, and across the change.
    for (seed, entries) in [(1, 1000), (2, 0), (3, 10), (4, 10)] {
        println!("seed {seed}");
        let (bench, rng) = (Bench::new(Protocol::Resp2, START, 1), Random::new(seed));
        let model = Model::default();
        let mut run = Run { bench, model, rng };
        run.run(&format!("CONFIG SET set-max-listpack-entries {entries}"));
        for _ in 0..STEPS {
            run.step();
        }
        run.bench.server.data.keyspace.check();
        // In the end no key is left.
        for key in KEYS {
            run.run(&format!("PEXPIREAT {key} {}", run.bench.now.0 + 1));
        }
        run.bench.now.0 += 2;
        let space = &run.bench.server.data.keyspace;
        for shard in 0..space.shard_count() {
            while space
                .expire(
                    shard,
                    run.bench.now,
                    100,
                    &mut Vec::new(),
                    &mut |_: Tick, _| {},
                )
                .more
            {}
        }
        assert_eq!(run.run("DBSIZE"), "0");
    }
}

//! Values of every type, dumped and restored, compared with a model under a manual clock. A payload
//! contains the elements that are not expired when it is made; a restored key contains those that
//! are not expired when it is restored.

use crate::random::Random;
use crate::script::{Bench, START, words};
use std::collections::BTreeMap;
use wire::Protocol;
use wire::dump::{Element, Sink, ValueType, read};

/// Number of values per run.
const ROUNDS: usize = 150;

/// Value or score, and deadline, by name. The names of a list's elements are their indexes.
type Elements = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

#[derive(Default)]
struct DumpedKey {
    kind: Option<ValueType>,
    elements: Elements,
}

impl Sink for DumpedKey {
    fn begin(&mut self, kind: ValueType) {
        self.kind = Some(kind);
    }

    fn element(&mut self, element: &Element<'_>) {
        let name = element.name.to_vec();
        let (name, value) = match self.kind {
            Some(ValueType::Hash) => (name, element.value.to_vec()),
            Some(ValueType::SortedSet) => (name, element.score.to_string().into_bytes()),
            Some(ValueType::List) => (format!("{:06}", self.elements.len()).into_bytes(), name),
            _ => (name, Vec::new()),
        };
        let before = self.elements.insert(name, (value, element.deadline));
        assert_eq!(before, None, "an element comes once");
    }
}

fn unexpired(elements: &Elements, now: u64) -> Elements {
    let mut elements = elements.clone();
    elements.retain(|_, (_, deadline)| deadline.is_none_or(|deadline| now <= deadline));
    elements
}

/// Quotes a word as commands and replies do.
fn quoted(text: &[u8]) -> String {
    let bytes: String = text.iter().map(|byte| format!("\\x{byte:02x}")).collect();
    format!("\"{bytes}\"")
}

fn name(rng: &mut Random) -> Vec<u8> {
    match rng.below(4) {
        0 => rng.below(70_000).to_string().into_bytes(),
        1 => vec![b'n'; 1 + rng.below(100)],
        _ => (0..rng.below(9)).map(|_| rng.next() as u8).collect(),
    }
}

struct Run {
    bench: Bench,
    rng: Random,
}

impl Run {
    fn run(&mut self, command: &str) -> String {
        let reply = self.bench.run(&words(command));
        let is_error = reply.starts_with('-') && reply.parse::<i64>().is_err();
        assert!(!is_error, "{command}: {reply}");
        reply
    }

    /// Creates the key `k` and returns its content.
    fn make(&mut self, kind: ValueType) -> Elements {
        self.run("DEL k r");
        let count = match self.rng.below(4) {
            0 => 1,
            1 => 200,
            _ => 1 + self.rng.below(20),
        };
        let mut elements = Elements::new();
        for _ in 0..count {
            let (name, value) = (name(&mut self.rng), name(&mut self.rng));
            let word = quoted(&name);
            let value = match kind {
                ValueType::Hash => {
                    self.run(&format!("HSET k {word} {}", quoted(&value)));
                    value
                }
                ValueType::SortedSet => {
                    let score = self.rng.below(1000) as f64 / 8.0;
                    self.run(&format!("ZADD k {score} {word}"));
                    score.to_string().into_bytes()
                }
                ValueType::Set => {
                    self.run(&format!("SADD k {word}"));
                    Vec::new()
                }
                _ => {
                    self.run(&format!("RPUSH k {word}"));
                    let index = format!("{:06}", elements.len());
                    elements.insert(index.into_bytes(), (name, None));
                    continue;
                }
            };
            elements.insert(name, (value, None));
        }
        elements
    }

    /// Sets deadlines on some elements, sometimes on all.
    fn limit(&mut self, kind: ValueType, elements: &mut Elements) {
        let command = match kind {
            ValueType::Hash => "HPEXPIREAT k {} FIELDS 1",
            ValueType::SortedSet => "ZPEXPIREAT k {} MEMBERS 1",
            ValueType::Set => "SPEXPIREAT k {} MEMBERS 1",
            _ => return,
        };
        let share = self.rng.below(3);
        for (name, (_, deadline)) in elements.iter_mut() {
            if share == 2 || share == 1 && self.rng.below(2) == 0 {
                let at = self.bench.now.0 + 1 + self.rng.below(1000) as u64;
                let command = command.replace("{}", &at.to_string());
                let reply = self
                    .bench
                    .run(&words(&format!("{command} {}", quoted(name))));
                assert_eq!(reply, "[1]");
                *deadline = Some(at);
            }
        }
    }

    /// Returns the payload of a key and its content; empty if there is no key.
    fn dumped(&mut self, key: &str) -> (String, DumpedKey) {
        let reply = self.run(&format!("DUMP {key}"));
        let mut dumped_key = DumpedKey::default();
        if reply != "nil" {
            let payload = words(&reply).remove(0);
            assert_eq!(read(&payload, 0, &mut dumped_key), Ok(()));
        }
        (reply, dumped_key)
    }

    fn round(&mut self) {
        let kind = match self.rng.below(4) {
            0 => ValueType::List,
            1 => ValueType::Set,
            2 => ValueType::SortedSet,
            _ => ValueType::Hash,
        };
        let protocol = self.rng.of(&["redis", "valkey"]);
        self.run(&format!("CONFIG SET dump-hash-ttl-format {protocol}"));
        let mut elements = self.make(kind);
        self.limit(kind, &mut elements);
        self.bench.now.0 += self.rng.below(600) as u64;
        let elements = unexpired(&elements, self.bench.now.0);
        let (payload, dumped_key) = self.dumped("k");
        assert_eq!(dumped_key.elements, elements);
        if elements.is_empty() {
            assert_eq!((payload.as_str(), dumped_key.kind), ("nil", None));
            return;
        }
        assert_eq!(dumped_key.kind, Some(kind));
        self.bench.now.0 += self.rng.below(600) as u64;
        let ttl = self.rng.below(2) * 5000;
        self.run(&format!("RESTORE r {ttl} {payload}"));
        let elements = unexpired(&elements, self.bench.now.0);
        assert_eq!(self.dumped("r").1.elements, elements);
        let is_there = !elements.is_empty();
        assert_eq!(self.run("EXISTS r"), i32::from(is_there).to_string());
        let left = match ttl {
            _ if !is_there => -2,
            0 => -1,
            ttl => ttl as i64,
        };
        assert_eq!(self.run("PTTL r"), left.to_string());
        // Elements restored from a payload expire like those set by commands.
        if let Some(last) = elements.values().filter_map(|element| element.1).max() {
            self.bench.now.0 = last + 1;
            let elements = unexpired(&elements, self.bench.now.0);
            assert_eq!(self.dumped("r").1.elements, elements);
        }
        self.bench.server.data.keyspace.check();
    }
}

#[test]
fn a_restored_value_equals_the_dumped_one() {
    for seed in 1..=4 {
        println!("seed {seed}");
        let mut run = Run {
            bench: Bench::new(Protocol::Resp2, START, 1),
            rng: Random::new(seed),
        };
        for _ in 0..ROUNDS {
            run.round();
        }
    }
}

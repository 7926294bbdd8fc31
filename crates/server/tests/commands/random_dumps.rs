//! Values of every type, dumped and restored, against a plain model under a simulated clock: a payload
//! holds what lives when it is made, a restored key what lives when it is restored.

use crate::random::Chance;
use crate::script::{Bench, START, words};
use std::collections::BTreeMap;
use wire::Protocol;
use wire::dump::{Element, Sink, ValueType, read};

/// Values of each run.
const ROUNDS: usize = 150;

/// Value or score, and deadline, by name. A list's names are its indexes.
type Elements = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

#[derive(Default)]
struct Told {
    kind: Option<ValueType>,
    elements: Elements,
}

impl Sink for Told {
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

fn lives(elements: &Elements, now: u64) -> Elements {
    let mut elements = elements.clone();
    elements.retain(|_, (_, deadline)| deadline.is_none_or(|deadline| now <= deadline));
    elements
}

/// A word as commands and replies spell it.
fn quoted(text: &[u8]) -> String {
    let bytes: String = text.iter().map(|byte| format!("\\x{byte:02x}")).collect();
    format!("\"{bytes}\"")
}

fn name(chance: &mut Chance) -> Vec<u8> {
    match chance.below(4) {
        0 => chance.below(70_000).to_string().into_bytes(),
        1 => vec![b'n'; 1 + chance.below(100)],
        _ => (0..chance.below(9)).map(|_| chance.next() as u8).collect(),
    }
}

struct Run {
    bench: Bench,
    chance: Chance,
}

impl Run {
    fn say(&mut self, command: &str) -> String {
        let reply = self.bench.say(&words(command));
        let is_error = reply.starts_with('-') && reply.parse::<i64>().is_err();
        assert!(!is_error, "{command}: {reply}");
        reply
    }

    /// Makes a key `k`; what it holds.
    fn make(&mut self, kind: ValueType) -> Elements {
        self.say("DEL k r");
        let count = match self.chance.below(4) {
            0 => 1,
            1 => 200,
            _ => 1 + self.chance.below(20),
        };
        let mut elements = Elements::new();
        for _ in 0..count {
            let (name, value) = (name(&mut self.chance), name(&mut self.chance));
            let word = quoted(&name);
            let value = match kind {
                ValueType::Hash => {
                    self.say(&format!("HSET k {word} {}", quoted(&value)));
                    value
                }
                ValueType::SortedSet => {
                    let score = self.chance.below(1000) as f64 / 8.0;
                    self.say(&format!("ZADD k {score} {word}"));
                    score.to_string().into_bytes()
                }
                ValueType::Set => {
                    self.say(&format!("SADD k {word}"));
                    Vec::new()
                }
                _ => {
                    self.say(&format!("RPUSH k {word}"));
                    let index = format!("{:06}", elements.len());
                    elements.insert(index.into_bytes(), (name, None));
                    continue;
                }
            };
            elements.insert(name, (value, None));
        }
        elements
    }

    /// Gives some elements deadlines, now and then all of them.
    fn limit(&mut self, kind: ValueType, elements: &mut Elements) {
        let command = match kind {
            ValueType::Hash => "HPEXPIREAT k {} FIELDS 1",
            ValueType::SortedSet => "ZPEXPIREAT k {} MEMBERS 1",
            ValueType::Set => "SPEXPIREAT k {} MEMBERS 1",
            _ => return,
        };
        let share = self.chance.below(3);
        for (name, (_, deadline)) in elements.iter_mut() {
            if share == 2 || share == 1 && self.chance.below(2) == 0 {
                let at = self.bench.now.0 + 1 + self.chance.below(1000) as u64;
                let command = command.replace("{}", &at.to_string());
                let reply = self
                    .bench
                    .say(&words(&format!("{command} {}", quoted(name))));
                assert_eq!(reply, "[1]");
                *deadline = Some(at);
            }
        }
    }

    /// What a key's payload holds; nothing for no key.
    fn dumped(&mut self, key: &str) -> (String, Told) {
        let reply = self.say(&format!("DUMP {key}"));
        let mut told = Told::default();
        if reply != "nil" {
            let payload = words(&reply).remove(0);
            assert_eq!(read(&payload, 0, &mut told), Ok(()));
        }
        (reply, told)
    }

    fn round(&mut self) {
        let kind = match self.chance.below(4) {
            0 => ValueType::List,
            1 => ValueType::Set,
            2 => ValueType::SortedSet,
            _ => ValueType::Hash,
        };
        let dialect = self.chance.of(&["redis", "valkey"]);
        self.say(&format!("CONFIG SET dump-hash-ttl-format {dialect}"));
        let mut elements = self.make(kind);
        self.limit(kind, &mut elements);
        self.bench.now.0 += self.chance.below(600) as u64;
        let elements = lives(&elements, self.bench.now.0);
        let (payload, told) = self.dumped("k");
        assert_eq!(told.elements, elements);
        if elements.is_empty() {
            assert_eq!((payload.as_str(), told.kind), ("nil", None));
            return;
        }
        assert_eq!(told.kind, Some(kind));
        self.bench.now.0 += self.chance.below(600) as u64;
        let ttl = self.chance.below(2) * 5000;
        self.say(&format!("RESTORE r {ttl} {payload}"));
        let elements = lives(&elements, self.bench.now.0);
        assert_eq!(self.dumped("r").1.elements, elements);
        let is_there = !elements.is_empty();
        assert_eq!(self.say("EXISTS r"), i32::from(is_there).to_string());
        let left = match ttl {
            _ if !is_there => -2,
            0 => -1,
            ttl => ttl as i64,
        };
        assert_eq!(self.say("PTTL r"), left.to_string());
        // What comes by way of a payload dies as what comes by commands.
        if let Some(last) = elements.values().filter_map(|element| element.1).max() {
            self.bench.now.0 = last + 1;
            let elements = lives(&elements, self.bench.now.0);
            assert_eq!(self.dumped("r").1.elements, elements);
        }
        self.bench.server.keyspace.check();
    }
}

#[test]
fn what_is_restored_is_what_was_dumped() {
    for seed in 1..=4 {
        println!("seed {seed}");
        let mut run = Run {
            bench: Bench::new(Protocol::Resp2, START, 1),
            chance: Chance::new(seed),
        };
        for _ in 0..ROUNDS {
            run.round();
        }
    }
}

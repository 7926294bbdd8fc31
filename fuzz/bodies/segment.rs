//! Fuzz target of the segment engine, compared with a simple model: a map of values and deadlines
//! that may lose any key. No dead, deleted or other value is ever read; no TTL becomes longer;
//! without eviction no key is lost early; the sums are consistent.

use policy::groups::Groups;
use policy::{Budget, Tick};
use segment::{Condition, Config, Eviction, Refused, Segcache, Unchanged, Value, Writer};
use std::collections::BTreeMap;

/// Maximum number of operations of one input.
const OPS_MAX: usize = 400;

#[derive(Clone, Debug)]
pub enum Op {
    Set(u8, u16, Option<u64>, Case),
    Get(u8),
    Delete(u8),
    Touch(u8, Option<u64>),
    Digits(u8, u32, Option<u64>),
    Add(u8, u8),
    Mark(u8, u8),
    Wait(u64),
    Maintain(u32),
    Other,
    Clear,
    Check,
}

#[derive(Clone, Copy, Debug)]
pub enum Case {
    Always,
    Absent,
    Present,
    Current,
    Stale,
}

/// Runs the target. The first four bytes select the engine, the rest are operations; missing bytes
/// are 0.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let eviction = Eviction::ALL[usize::from(input.byte()) % Eviction::ALL.len()];
    let segments = 10 + u64::from(input.byte() % 50);
    let writers = 1 + u16::from(input.byte() % 2);
    let seed = u64::from(input.byte());
    let ops: Vec<Op> = std::iter::from_fn(|| input.op()).take(OPS_MAX).collect();
    check(eviction, segments, writers, seed, &ops);
}

struct Input<'d>(&'d [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    fn number(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// Returns a TTL from one of the groups of TTL buckets.
    fn ttl(&mut self) -> Option<u64> {
        let kind = self.byte();
        let number = u64::from(self.number());
        match kind % 6 {
            0 | 1 => None,
            2 => Some(number % 600),
            3 => Some(500 + number % 8_500),
            4 => Some(8_000 + number),
            _ => Some(2_000_000 + number * 137_000),
        }
    }

    fn case(&mut self) -> Case {
        match self.byte() % 8 {
            0 => Case::Absent,
            1 => Case::Present,
            2 => Case::Current,
            3 => Case::Stale,
            _ => Case::Always,
        }
    }

    fn op(&mut self) -> Option<Op> {
        if self.0.is_empty() {
            return None;
        }
        let op = match self.byte() % 14 {
            0 | 1 => Op::Set(self.byte(), self.number() % 80, self.ttl(), self.case()),
            2 => Op::Set(self.byte(), self.number() % 4_200, self.ttl(), self.case()),
            3 => Op::Delete(self.byte()),
            4 => Op::Touch(self.byte(), self.ttl()),
            5 => Op::Digits(self.byte(), u32::from(self.number()), self.ttl()),
            6 => Op::Add(self.byte(), self.byte()),
            7 => Op::Mark(self.byte(), self.byte() % 64),
            8 => Op::Wait(u64::from(self.number())),
            9 => Op::Wait(u64::from(self.number()) * 300),
            10 => Op::Maintain(1 + u32::from(self.byte() % 50)),
            11 => Op::Other,
            12 => match self.byte() % 16 {
                0 => Op::Clear,
                _ => Op::Check,
            },
            _ => Op::Get(self.byte()),
        };
        Some(op)
    }
}

/// Runs operations on the engine and the model.
pub fn check(eviction: Eviction, segments: u64, writers: u16, seed: u64, ops: &[Op]) {
    let mut world = World::new(eviction, segments, writers, seed);
    for (number, op) in ops.iter().enumerate() {
        world.run(op);
        if number % 64 == 63 {
            world.cache.check();
        }
    }
    world.end();
}

#[derive(Clone, Debug)]
struct Known {
    value: Vec<u8>,
    deadline: Option<Tick>,
    client_flags: u32,
    marks: u8,
    cas: u32,
}

struct World {
    cache: Segcache,
    writers: Vec<Writer>,
    known: BTreeMap<u8, Known>,
    now: Tick,
    vanished: u64,
    count: u64,
    /// Whether no key is evicted and no merge shortens a TTL.
    is_exact: bool,
    /// Whether there are enough segments for all TTLs in use.
    is_roomy: bool,
}

fn name(key: u8) -> Vec<u8> {
    let filling = match key % 32 {
        31 => 255 - format!("key-{key}-").len(),
        few => usize::from(few),
    };
    format!("key-{key}-{}", "x".repeat(filling)).into_bytes()
}

impl World {
    fn new(eviction: Eviction, segments: u64, writers: u16, seed: u64) -> Self {
        let config = Config {
            memory_bytes: segments * 4_400 + 60_000,
            segment_bytes: 4 << 10,
            writers,
            eviction,
            merged: 2 + (seed % 3) as u8,
            seed,
            hash_key: [seed, !seed],
        };
        let cache = Segcache::new(&config).expect("large enough");
        let writers = (0..writers).map(|_| cache.writer().expect("one of those configured"));
        World {
            writers: writers.collect(),
            cache,
            known: BTreeMap::new(),
            now: Tick(1_700_000_000_000),
            vanished: 0,
            count: 0,
            is_exact: eviction == Eviction::None,
            is_roomy: segments >= 500,
        }
    }

    /// Checks that the deadline is not later than requested, and earlier by less than documented:
    /// by up to three quarters where segments are few.
    fn judge_deadline(&self, ttl: Option<u64>, deadline: Option<Tick>) {
        let Some(ttl) = ttl else {
            assert_eq!(deadline, None);
            return;
        };
        let asked = self.now.0 + ttl;
        let got = deadline.expect("it ends").0;
        assert!(got <= asked);
        let lost_percent = match ttl {
            0..25 => 100,
            25..200 => 57,
            200..2_048_000 => 23,
            // After the first eviction, a segment takes objects for an eighth of its TTL.
            2_048_000..8_388_608_000 if !self.is_exact => 19,
            2_048_000..8_388_608_000 => 12,
            _ => return,
        };
        let lost_percent = if self.is_roomy {
            lost_percent
        } else {
            75.max(lost_percent)
        };
        let most = 25 + ttl * lost_percent / 100;
        assert!(asked - got <= most, "{ttl}: {} early", asked - got);
    }

    fn is_known(&self, key: u8) -> bool {
        self.known
            .get(&key)
            .is_some_and(|known| known.deadline.is_none_or(|d| self.now <= d))
    }

    fn get(&mut self, key: u8) -> Option<u32> {
        let name = name(key);
        let mut out = b"before".to_vec();
        let mut framed = 0;
        let item =
            self.cache
                .get_framed(&self.cache.key(&name), self.now, &mut out, |out, item| {
                    out.push(b'>');
                    framed = item.len;
                    true
                });
        let Some(item) = item else {
            assert_eq!(out, b"before");
            if self.is_known(key) {
                assert!(!self.is_exact, "{key} is gone before its time");
                self.vanished += 1;
            }
            self.known.remove(&key);
            return None;
        };
        let known = self
            .known
            .get_mut(&key)
            .expect("what was never stored or is deleted is not read");
        assert!(
            known.deadline.is_none_or(|deadline| self.now <= deadline),
            "{key} is dead"
        );
        assert_eq!(out[..7], *b"before>");
        assert_eq!(out[7..], known.value);
        assert_eq!(framed, known.value.len());
        assert_eq!(item.len, framed);
        assert_eq!(item.client_flags, known.client_flags);
        assert_eq!(item.marks, known.marks);
        match (item.deadline, known.deadline) {
            (Some(got), Some(found)) => assert!(got <= found, "a TTL became longer"),
            (got, found) => assert_eq!(got, found),
        }
        known.deadline = item.deadline;
        known.cas = item.cas;
        Some(item.cas)
    }

    fn value(&mut self, len: u16) -> Vec<u8> {
        self.count += 1;
        let number = self.count;
        (0..u64::from(len))
            .map(|i| (number.wrapping_mul(31) + i * 7) as u8 | 0x80)
            .collect()
    }

    fn writer(&mut self) -> usize {
        self.count += 1;
        self.count as usize % self.writers.len()
    }

    fn set(&mut self, key: u8, len: u16, ttl: Option<u64>, case: Case) {
        let found = self.get(key);
        let condition = match case {
            Case::Always => Condition::Always,
            Case::Absent => Condition::Absent,
            Case::Present => Condition::Present,
            Case::Current => Condition::Unchanged(found.unwrap_or(7)),
            Case::Stale => Condition::Unchanged(found.unwrap_or(7).wrapping_sub(1)),
        };
        let bytes = self.value(len);
        let value = Value {
            bytes: &bytes,
            client_flags: u32::from(len % 3) * 70_000,
            marks: (len % 64) as u8,
        };
        let name = name(key);
        let index = self.writer();
        let (cache, now) = (&self.cache, self.now);
        let stored = cache.set(
            &mut self.writers[index],
            &cache.key(&name),
            value,
            ttl,
            condition,
            now,
        );
        // Memory is freed before the condition is finally evaluated, which may evict any key.
        let is_there = found.is_some();
        match stored {
            Ok(receipt) => {
                assert!(matches!(case, Case::Always) || is_there != matches!(case, Case::Absent));
                assert!(!matches!(case, Case::Stale));
                self.judge_deadline(ttl, receipt.deadline);
                let known = Known {
                    value: value.bytes.to_vec(),
                    deadline: receipt.deadline,
                    client_flags: value.client_flags,
                    marks: value.marks,
                    cas: receipt.cas,
                };
                self.known.insert(key, known);
                let is_over = receipt.deadline.is_some_and(|deadline| now > deadline);
                assert_eq!(self.get(key), (!is_over).then_some(receipt.cas));
            }
            Err(Refused::TooLarge) => {
                let size = Segcache::object_bytes(&name, value);
                assert!(size.is_none_or(|size| size > 4096));
                assert!(bytes.len() > cache.value_max(name.len()) || value.client_flags != 0);
            }
            Err(Refused::Full) => assert!(self.is_exact, "eviction makes room"),
            Err(Refused::IsPresent) => assert!(is_there && matches!(case, Case::Absent)),
            Err(Refused::IsAbsent) => {
                assert!(matches!(case, Case::Present | Case::Current | Case::Stale));
                assert!(!is_there || !self.is_exact);
            }
            Err(Refused::IsChanged) => assert!(is_there && matches!(case, Case::Stale)),
        }
    }

    fn digits(&mut self, key: u8, number: u32, ttl: Option<u64>) {
        let digits = number.to_string().into_bytes();
        let name = name(key);
        let (cache, now) = (&self.cache, self.now);
        let value = Value::plain(&digits);
        let always = Condition::Always;
        let stored = cache.set(
            &mut self.writers[0],
            &cache.key(&name),
            value,
            ttl,
            always,
            now,
        );
        if let Ok(receipt) = stored {
            let known = Known {
                value: digits,
                deadline: receipt.deadline,
                client_flags: 0,
                marks: 0,
                cas: receipt.cas,
            };
            self.known.insert(key, known);
        }
    }

    fn add(&mut self, key: u8, number: u8) {
        let was_there = self.get(key).is_some();
        let name = name(key);
        let index = self.writer();
        let (cache, now) = (&self.cache, self.now);
        let add = |old: u64| {
            old.checked_add(u64::from(number))
                .filter(|sum| sum % 7 != 0)
        };
        let key_of = cache.key(&name);
        let updated = cache.update_number(
            &mut self.writers[index],
            &key_of,
            now,
            |_, text| segment::decimal(text),
            add,
        );
        let known = self.known.get_mut(&key);
        let old = known
            .as_ref()
            .and_then(|known| std::str::from_utf8(&known.value).ok()?.parse::<u64>().ok());
        match updated {
            Ok((sum, receipt)) => {
                assert_eq!(Some(sum), old.and_then(add));
                let known = known.expect("only what is there has a number");
                known.value = sum.to_string().into_bytes();
                assert!(known.deadline.is_some() == receipt.deadline.is_some());
                assert!(receipt.deadline <= known.deadline || receipt.deadline.is_none());
                known.deadline = receipt.deadline;
                self.get(key);
            }
            // Freeing memory for the number may have evicted the key itself.
            Err(Unchanged::Absent) => assert!(!was_there || !self.is_exact),
            Err(Unchanged::NoNumber) => assert_eq!(old, None),
            Err(Unchanged::Declined) => assert!(old.is_some_and(|old| add(old).is_none())),
            Err(Unchanged::Refused(why)) => assert!(why == Refused::Full || !self.is_exact),
        }
    }

    /// Runs the steps of a learner, which have no effect that a client can see.
    fn learn(&mut self, random: u64) {
        let _is_sampled = self.cache.sample(random, self.now);
        if random.is_multiple_of(8) {
            let before = Tick(self.now.0.saturating_sub(2_000));
            let mut each = |_: &_, utility: f64| assert!(utility.is_finite());
            self.cache.take_samples(before, &mut each);
        }
        if self.cache.wants_ranking() {
            let mut names = vec![];
            self.cache
                .each_group(self.now, &mut |name, _| names.push(name));
            self.cache.rank(&names, 2);
        }
    }

    fn run(&mut self, op: &Op) {
        match *op {
            Op::Set(key, len, ttl, case) => self.set(key, len, ttl, case),
            Op::Get(key) => {
                self.get(key);
            }
            Op::Delete(key) => {
                let was_there = self.get(key).is_some();
                let name = name(key);
                let deleted =
                    self.cache
                        .delete(&self.cache.key(&name), Condition::Always, self.now);
                assert_eq!(deleted, Ok(was_there));
                self.known.remove(&key);
                assert_eq!(self.get(key), None);
            }
            Op::Touch(key, ttl) => {
                let was_there = self.get(key).is_some();
                let name = name(key);
                let index = self.writer();
                let (cache, now) = (&self.cache, self.now);
                let touched = cache.touch(&mut self.writers[index], &cache.key(&name), ttl, now);
                match touched {
                    Ok(receipt) => {
                        self.judge_deadline(ttl, receipt.deadline);
                        self.known.get_mut(&key).expect("it is there").deadline = receipt.deadline;
                    }
                    Err(Refused::IsAbsent) => assert!(!was_there || !self.is_exact),
                    Err(why) => assert!(why == Refused::Full || why == Refused::IsChanged),
                }
            }
            Op::Digits(key, number, ttl) => self.digits(key, number, ttl),
            Op::Add(key, number) => self.add(key, number),
            Op::Mark(key, marks) => {
                let was_there = self.get(key).is_some();
                let name = name(key);
                let key_of = self.cache.key(&name);
                let old = self
                    .cache
                    .update_marks(&key_of, self.now, marks % 2 == 0, |_, _| Some(marks));
                assert_eq!(old.is_some(), was_there);
                if let Some(known) = self.known.get_mut(&key) {
                    assert_eq!(old, Some(known.marks));
                    known.marks = marks;
                }
                self.get(key);
            }
            Op::Wait(ms) => self.now.0 += ms,
            Op::Maintain(steps) => {
                let index = self.writer();
                let mut budget = Budget(steps);
                self.cache
                    .maintain(&mut self.writers[index], self.now, &mut budget);
                self.learn(u64::from(steps));
            }
            Op::Other => {
                let writer = self.writers.pop().expect("there is one");
                self.cache.close(writer);
                self.writers
                    .push(self.cache.writer().expect("one was given back"));
            }
            Op::Clear => {
                self.cache.clear();
                self.known.clear();
            }
            Op::Check => self.cache.check(),
        }
    }

    /// Reads everything once more; then time passes, and all memory is freed.
    fn end(mut self) {
        self.cache.check();
        for key in 0..=u8::MAX {
            self.get(key);
        }
        let stats = self.cache.stats();
        assert!(self.vanished <= stats.evicted + stats.crowded_out + stats.expired);
        self.cache.clear();
        for index in 0..self.writers.len() {
            while self
                .cache
                .maintain(&mut self.writers[index], self.now, &mut Budget(100))
            {}
        }
        while let Some(writer) = self.writers.pop() {
            self.cache.close(writer);
        }
        self.cache.check();
        let stats = self.cache.stats();
        assert_eq!((stats.items, stats.segments_held), (0, 0));
    }
}

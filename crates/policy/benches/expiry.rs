//! Speed and memory of the expiry indexes: `cargo bench -p mayfly-cache-policy --bench
//! expiry -- [index] [keys…]`.
//!
//! Prints, for each number of keys, number of shards and spread of TTLs: bytes per key beyond the
//! deadline when filled, after a fifth were updated, and after a spread's time of expiry and
//! refill; mean nanoseconds per operation; and the longest call in microseconds. Every time is the
//! least of three equal runs, taken for each call or group of 256, which excludes other work of the
//! machine. Run as a test, it uses small sizes. (`sampled` is left out: it would run ten cycles a
//! second for 30 days.)

#![expect(
    clippy::disallowed_methods,
    reason = "a bench reads the clock and its arguments"
)]

use policy::expire::{ordered::Ordered, wheel::Wheel};
use policy::parts::chance::Chance;
use policy::{Budget, Cells, Due, ExpiryIndex, Facts, Meta, Slot, Tick};
use std::time::Instant;

const START: u64 = 1_763_640_000_123;
const STEPS: u32 = 500;
const RUNS: usize = 3;
const GROUP: usize = 256;
const SPREADS: [(&str, u64); 4] = [
    ("1 ms", 1),
    ("10 s", 10_000),
    ("1 h", 3_600_000),
    ("30 d", 2_592_000_000),
];

/// Deadlines and links in one array: entry `n` has slot `n`, and a word of 48 + 16 bits, or two.
struct Host<M> {
    deadlines: Vec<u64>,
    links: Vec<M>,
    now: u64,
}

const NONE: u64 = u64::MAX >> 16;

impl<M: Meta> Host<M> {
    const IS_PACKED: bool = M::BITS <= 16;

    fn new(count: usize) -> Self {
        let wide = if Self::IS_PACKED { 0 } else { count };
        Host {
            deadlines: vec![NONE; count],
            links: vec![M::default(); wide],
            now: START,
        }
    }

    fn set_deadline(&mut self, slot: Slot, deadline: u64) -> u64 {
        let word = &mut self.deadlines[slot.0 as usize];
        let old = *word & NONE;
        *word = *word & !NONE | deadline;
        old
    }

    fn free(&mut self, slot: Slot) {
        self.deadlines[slot.0 as usize] = NONE;
    }
}

impl<M: Meta> Facts for Host<M> {
    fn now(&self) -> Tick {
        Tick(self.now)
    }
    fn requests(&self) -> u64 {
        0
    }
    fn is_live(&self, slot: Slot) -> bool {
        self.deadlines[slot.0 as usize] & NONE != NONE
    }
    fn weight(&self, _slot: Slot) -> u32 {
        1
    }
    fn key_hash(&self, slot: Slot) -> u64 {
        u64::from(slot.0)
    }
    #[inline]
    fn deadline(&self, slot: Slot) -> Option<Tick> {
        let deadline = self.deadlines[slot.0 as usize] & NONE;
        (deadline != NONE).then_some(Tick(deadline))
    }
    fn len(&self) -> usize {
        self.deadlines.len()
    }
    fn sample(&self, random: u64) -> Option<Slot> {
        let slot = (u128::from(random) * self.deadlines.len() as u128) >> 64;
        Some(Slot(slot as u32))
    }
}

impl<M: Meta> Cells<M> for Host<M> {
    #[inline]
    fn get(&self, slot: Slot) -> M {
        if Self::IS_PACKED {
            M::unpack(self.deadlines[slot.0 as usize] >> 48)
        } else {
            self.links[slot.0 as usize]
        }
    }
    #[inline]
    fn set(&mut self, slot: Slot, meta: M) {
        if Self::IS_PACKED {
            let word = &mut self.deadlines[slot.0 as usize];
            *word = *word & NONE | meta.pack() << 48;
        } else {
            self.links[slot.0 as usize] = meta;
        }
    }
}

struct Shard<I: ExpiryIndex> {
    host: Host<I::Link>,
    index: I,
}

/// Times of calls or of groups of calls, in the same order in each run; the least of each.
#[derive(Default)]
struct Times {
    nanos: Vec<u32>,
    count: usize,
    /// Cost of reading the clock.
    clock: u32,
}

impl Times {
    fn new() -> Self {
        let mut times = Times::default();
        for _ in 0..1_000 {
            times.count = 0;
            times.time(|| ());
        }
        Times {
            clock: times.nanos[0],
            ..Times::default()
        }
    }

    fn time<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = call();
        let nanos = u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX);
        let nanos = nanos.saturating_sub(self.clock);
        if self.count == self.nanos.len() {
            self.nanos.push(nanos);
        }
        let least = &mut self.nanos[self.count];
        *least = nanos.min(*least);
        self.count += 1;
        result
    }

    fn sum(&self) -> f64 {
        self.nanos.iter().map(|&nanos| f64::from(nanos)).sum()
    }

    fn longest_micros(&self) -> f64 {
        f64::from(self.nanos.iter().max().copied().unwrap_or(0)) / 1000.0
    }
}

/// The times of a case.
struct Clocks {
    insert: Times,
    update: Times,
    remove: Times,
    refill: Times,
    pop: Times,
}

impl Clocks {
    fn each(&mut self) -> [&mut Times; 5] {
        [
            &mut self.insert,
            &mut self.update,
            &mut self.remove,
            &mut self.refill,
            &mut self.pop,
        ]
    }
}

/// Other results of a case: bytes per key at three moments, and entries returned.
struct Figures {
    filled: f64,
    updated: f64,
    steady: f64,
    refilled: f64,
    popped: f64,
}

struct Case<I: ExpiryIndex> {
    shards: Vec<Shard<I>>,
    per_shard: usize,
    spread: u64,
    random: Chance,
}

impl<I: ExpiryIndex> Case<I> {
    fn new(keys: usize, shards: usize, spread: u64) -> Self
    where
        I::Config: Default,
    {
        let per_shard = keys / shards;
        let shards = (0..shards).map(|shard| Shard {
            host: Host::new(per_shard),
            index: I::new(Tick(START), &I::Config::default(), shard as u64),
        });
        Case {
            shards: shards.collect(),
            per_shard,
            spread,
            random: Chance::new(1),
        }
    }

    fn keys(&self) -> usize {
        self.per_shard * self.shards.len()
    }

    fn bytes(&self) -> f64 {
        let bytes: usize = self
            .shards
            .iter()
            .map(|shard| shard.index.heap_bytes())
            .sum();
        let keys: usize = self.shards.iter().map(|shard| shard.index.len()).sum();
        let wide = if I::Link::BITS <= 16 {
            0
        } else {
            I::Link::BITS.div_ceil(32) * 4
        };
        bytes as f64 / keys as f64 + f64::from(wide)
    }

    /// Runs `verb` on `count` keys, in order or at random, with a fresh deadline for each.
    fn each(
        &mut self,
        count: usize,
        in_order: bool,
        times: &mut Times,
        mut verb: impl FnMut(&mut Shard<I>, Slot, u64),
    ) {
        let (shards, keys) = (self.shards.len() as u64, self.keys() as u64);
        let keys: Vec<(u32, u32, u64)> = (0..count as u64)
            .map(|number| {
                let key = if in_order {
                    number
                } else {
                    self.random.below(keys)
                };
                let deadline = START + self.random.below(self.spread);
                ((key % shards) as u32, (key / shards) as u32, deadline)
            })
            .collect();
        for group in keys.chunks(GROUP) {
            times.time(|| {
                for &(shard, slot, deadline) in group {
                    verb(&mut self.shards[shard as usize], Slot(slot), deadline);
                }
            });
        }
    }

    /// Lets time pass until nothing is left, or for a spread with every returned entry refilled.
    /// Returns the number of entries returned.
    fn expire(&mut self, refill: bool, times: &mut Times) -> f64 {
        let mut popped = 0;
        for shard in &mut self.shards {
            let end = shard.host.now + self.spread;
            while let Some(next) = shard.index.next_due() {
                let now = next.0.max(shard.host.now);
                if refill && now > end {
                    break;
                }
                shard.host.now = now;
                loop {
                    let mut budget = Budget(STEPS);
                    let (index, host) = (&mut shard.index, &mut shard.host);
                    match times.time(|| index.pop_expired(host, Tick(now), &mut budget)) {
                        Due::Slot(slot) => {
                            popped += 1;
                            host.free(slot);
                            if refill {
                                host.set_deadline(slot, now + self.random.below(self.spread));
                                times.time(|| index.insert(host, slot));
                            }
                        }
                        Due::Again => {}
                        Due::Nothing => break,
                    }
                }
            }
        }
        f64::from(popped)
    }

    fn run(keys: usize, shards: usize, spread: u64, clocks: &mut Clocks) -> Figures
    where
        I::Config: Default,
    {
        clocks.each().into_iter().for_each(|times| times.count = 0);
        let mut case = Case::<I>::new(keys, shards, spread);
        case.each(keys, true, &mut clocks.insert, |shard, slot, deadline| {
            shard.host.set_deadline(slot, deadline);
            shard.index.insert(&mut shard.host, slot);
        });
        let filled = case.bytes();
        case.each(
            keys / 5,
            false,
            &mut clocks.update,
            |shard, slot, deadline| {
                let old = shard.host.set_deadline(slot, deadline);
                shard.index.update(&mut shard.host, slot, Tick(old));
            },
        );
        let updated = case.bytes();
        let refilled = case.expire(true, &mut clocks.refill);
        let steady = case.bytes();
        case.each(keys / 5, false, &mut clocks.remove, |shard, slot, _| {
            if shard.host.deadline(slot).is_some() {
                shard.index.remove(&mut shard.host, slot);
                shard.host.free(slot);
            }
        });
        let popped = case.expire(false, &mut clocks.pop);
        assert!(case.shards.iter().all(|shard| shard.index.is_empty()));
        Figures {
            filled,
            updated,
            steady,
            refilled,
            popped,
        }
    }
}

fn measure<I: ExpiryIndex>(keys: usize, shards: usize, (name, spread): (&str, u64))
where
    I::Config: Default,
{
    let mut clocks = Clocks {
        insert: Times::new(),
        update: Times::new(),
        remove: Times::new(),
        refill: Times::new(),
        pop: Times::new(),
    };
    let figures = (0..RUNS)
        .map(|_| Case::<I>::run(keys, shards, spread, &mut clocks))
        .last();
    let figures = figures.expect("there is at least one run");
    let (all, fifth) = (keys as f64, (keys / 5) as f64);
    println!(
        "{:8} {keys:9} {shards:3} {name:>8} | {:6.2} {:6.2} {:6.2} | {:6.1} {:6.1} {:6.1} {:6.1} {:6.1} | {:7.1}",
        I::NAME,
        figures.filled,
        figures.updated,
        figures.steady,
        clocks.insert.sum() / all,
        clocks.update.sum() / fifth,
        clocks.remove.sum() / fifth,
        clocks.refill.sum() / figures.refilled,
        clocks.pop.sum() / figures.popped,
        clocks
            .refill
            .longest_micros()
            .max(clocks.pop.longest_micros()),
    );
}

fn main() {
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let mut sizes: Vec<usize> = asked
        .iter()
        .filter_map(|argument| argument.parse().ok())
        .collect();
    let names: Vec<&String> = asked
        .iter()
        .filter(|argument| argument.parse::<usize>().is_err())
        .collect();
    if sizes.is_empty() {
        sizes = if is_bench {
            vec![10_000, 100_000, 1_000_000, 5_000_000]
        } else {
            vec![2_000]
        };
    }
    println!(
        "{:8} {:>9} {:>3} {:>8} | {:>6} {:>6} {:>6} | {:>6} {:>6} {:>6} {:>6} {:>6} | {:>7}",
        "index",
        "keys",
        "cut",
        "spread",
        "filled",
        "updated",
        "steady",
        "insert",
        "update",
        "remove",
        "refill",
        "pop",
        "longest"
    );
    let is_asked = |name| names.is_empty() || names.iter().any(|asked| *asked == name);
    for &size in &sizes {
        let cuts: &[usize] = if size > 1_000_000 { &[16] } else { &[4, 8, 16] };
        for &shards in cuts {
            for spread in SPREADS {
                if is_asked("wheel") {
                    measure::<Wheel>(size, shards, spread);
                }
                // Only on request, because it takes long.
                if !names.is_empty() && is_asked("ordered") {
                    measure::<Ordered>(size, shards, spread);
                }
            }
        }
    }
}

//! A plain model of W-TinyLFU with two sets of rules: its source's, and the reference simulator's.
//!
//! The two differ in what they count. With the reference's rules this model has the reference's
//! miss ratios, and with the source's rules those of our policy. These figures, which anybody can
//! repeat, show which of the two follows the paper and what the other does instead.

use crate::traces::Trace;
use policy::parts::chance::scramble;
use std::collections::BTreeMap;

/// Rules in which implementations of W-TinyLFU differ.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Whether a hit in the window counts as a request.
    pub counts_window_hits: bool,
    /// Whether a candidate is counted once more when it leaves the window.
    pub counts_candidates: bool,
    /// Whether an eviction continues after a candidate has won, until one has lost.
    pub evicts_until_one_loses: bool,
    /// Whether candidates enter the protected segment while it has room and probation has none.
    pub fills_protected: bool,
    /// Whether probation is kept to its share by evicting what a hit moves down to it.
    pub evicts_on_hits: bool,
    /// Whether only a hit in main counts towards the halving.
    pub ages_by_main_hits: bool,
    /// Counters are halved once in this multiple of the number of entries.
    pub period: usize,
    /// Maximum count.
    pub most: u32,
    /// Whether only an addition that raises a counter counts towards the halving, and a period
    /// starts with half of the one before, less what halving rounds down.
    pub ages_by_raises: bool,
}

/// Rules of Einziger, Friedman and Manes; period and maximum as in Caffeine, their own
/// implementation.
pub const SOURCE: Rules = Rules {
    counts_window_hits: true,
    counts_candidates: false,
    evicts_until_one_loses: false,
    fills_protected: false,
    evicts_on_hits: false,
    ages_by_main_hits: false,
    period: 10,
    most: 15,
    ages_by_raises: false,
};

/// Rules of Caffeine's simulator 3.1.8.
pub const CAFFEINE: Rules = Rules {
    ages_by_raises: true,
    ..SOURCE
};

/// Rules of libCacheSim 0.3.5.
pub const REFERENCE: Rules = Rules {
    counts_window_hits: false,
    counts_candidates: true,
    evicts_until_one_loses: true,
    fills_protected: true,
    evicts_on_hits: true,
    ages_by_main_hits: true,
    period: 32,
    most: u32::MAX,
    ages_by_raises: false,
};

/// Objects from the oldest to the youngest.
#[derive(Default)]
struct Queue {
    order: BTreeMap<u64, u32>,
    stamps: BTreeMap<u32, u64>,
    clock: u64,
}

impl Queue {
    fn push(&mut self, id: u32) {
        self.clock += 1;
        self.order.insert(self.clock, id);
        self.stamps.insert(id, self.clock);
    }
    fn remove(&mut self, id: u32) -> bool {
        let stamp = self.stamps.remove(&id);
        stamp.is_some_and(|stamp| self.order.remove(&stamp).is_some())
    }
    fn oldest(&self) -> Option<u32> {
        self.order.values().next().copied()
    }
    fn pop(&mut self) -> Option<u32> {
        let oldest = self.oldest()?;
        self.remove(oldest);
        Some(oldest)
    }
    fn len(&self) -> usize {
        self.order.len()
    }
}

/// A counting Bloom filter with 0.1 % false positives: ten hashes, 14.4 counters per key.
struct Counters {
    counts: Vec<u32>,
    additions: usize,
    period: usize,
    most: u32,
    ages_by_raises: bool,
    has_raised: bool,
}

impl Counters {
    fn places(&self, id: u32) -> impl Iterator<Item = usize> + use<> {
        let (bits, width) = (scramble(u64::from(id) + 1), self.counts.len());
        let (first, step) = (bits as u32, (bits >> 32) as u32);
        (0..10u32).map(move |row| first.wrapping_add(row.wrapping_mul(step)) as usize % width)
    }
    fn add(&mut self, id: u32) {
        self.has_raised = false;
        for place in self.places(id) {
            self.has_raised |= self.counts[place] < self.most;
            self.counts[place] = (self.counts[place] + 1).min(self.most);
        }
    }
    fn frequency(&self, id: u32) -> u32 {
        let counts = self.places(id).map(|place| self.counts[place]);
        counts.min().expect("there are ten")
    }
    fn age(&mut self) {
        self.additions += usize::from(self.has_raised || !self.ages_by_raises);
        if self.additions >= self.period {
            let odd = self.counts.iter().filter(|count| *count % 2 == 1).count();
            self.additions = match self.ages_by_raises {
                true => (self.additions - odd / 10) / 2,
                false => 0,
            };
            self.counts.iter_mut().for_each(|count| *count /= 2);
        }
    }
}

/// The cache: a window, probation and the protected segment.
struct Plain {
    window: Queue,
    main: [Queue; 2],
    shares: [usize; 2],
    main_capacity: usize,
    counters: Counters,
    rules: Rules,
}

impl Plain {
    fn new(capacity: usize, rules: Rules) -> Self {
        let main_capacity = capacity - (capacity as f64 * 0.01) as usize;
        let width = (14.378 * main_capacity as f64).ceil() as usize;
        Plain {
            window: Queue::default(),
            main: Default::default(),
            shares: [0.2, 0.8].map(|share| (share * main_capacity as f64) as usize),
            main_capacity,
            counters: Counters {
                counts: vec![0; width.max(20)],
                additions: 0,
                period: rules.period * main_capacity,
                most: rules.most,
                ages_by_raises: rules.ages_by_raises,
                has_raised: false,
            },
            rules,
        }
    }

    fn len(&self) -> usize {
        self.window.len() + self.main[0].len() + self.main[1].len()
    }

    /// Handles a hit; returns false if the object is not here.
    fn hit(&mut self, id: u32) -> bool {
        if self.window.remove(id) {
            self.window.push(id);
            self.count(id, self.rules.counts_window_hits);
            return true;
        }
        if self.main[1].remove(id) {
            self.main[1].push(id);
        } else if self.main[0].remove(id) {
            self.main[1].push(id);
            while self.main[1].len() > self.shares[1] {
                let oldest = self.main[1].pop().expect("it is too long");
                self.main[0].push(oldest);
            }
            while self.rules.evicts_on_hits && self.main[0].len() > self.shares[0] {
                self.main[0].pop();
            }
        } else {
            return false;
        }
        self.count(id, true);
        true
    }

    fn count(&mut self, id: u32, counts: bool) {
        if counts {
            self.counters.add(id);
            self.counters.age();
        }
    }

    fn insert(&mut self, id: u32) {
        self.window.push(id);
        self.counters.add(id);
        if !self.rules.ages_by_main_hits {
            self.counters.age();
        }
    }

    fn enter_main(&mut self, id: u32) {
        let [probation, protected] = [0, 1].map(|at| self.main[at].len() < self.shares[at]);
        let skips = self.rules.fills_protected && protected && !probation;
        self.main[usize::from(skips)].push(id);
    }

    fn main_victim(&self) -> u32 {
        let victim = self.main[0].oldest().or(self.main[1].oldest());
        victim.expect("main is full")
    }

    fn leave_main(&mut self, id: u32) {
        let _ = self.main[0].remove(id) || self.main[1].remove(id);
    }

    fn evict(&mut self) {
        while let Some(candidate) = self.window.pop() {
            if self.main[0].len() + self.main[1].len() < self.main_capacity {
                self.enter_main(candidate);
                if self.rules.counts_candidates {
                    self.counters.add(candidate);
                }
                continue;
            }
            let victim = self.main_victim();
            let wins = self.counters.frequency(candidate) > self.counters.frequency(victim);
            if wins {
                self.leave_main(victim);
                self.enter_main(candidate);
            }
            if self.rules.counts_candidates {
                self.counters.add(candidate);
            }
            if !(wins && self.rules.evicts_until_one_loses) {
                return;
            }
        }
        self.leave_main(self.main_victim());
    }
}

/// Returns the miss ratio of a cache of `capacity` objects.
pub fn miss_ratio(trace: &Trace, capacity: usize, rules: Rules) -> f64 {
    let mut cache = Plain::new(capacity, rules);
    let mut misses = 0;
    for &id in &trace.requests {
        if !cache.hit(id) {
            misses += 1;
            while cache.len() >= capacity {
                cache.evict();
            }
            cache.insert(id);
        }
    }
    misses as f64 / trace.requests.len() as f64
}

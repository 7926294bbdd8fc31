//! AdaptSize on the trace of its authors: the values of `c`, and their effect.

use crate::traces::{self, Trace};
use policy::admit::adaptsize::{AdaptSize, AdaptSizeConfig};
use policy::admit::exp_size::{ExpSize, ExpSizeConfig};
use policy::admit::{Admission, MissedKey};
use policy::parts::chance::scramble;
use policy::{Admit, Facts, Slot, Tick};
use std::collections::BTreeMap;
use std::path::Path;

/// A plain LRU by bytes: an object's id is its slot.
struct Lru<'a> {
    trace: &'a Trace,
    capacity: u64,
    weights: Vec<u32>,
    /// Number of the last request for each object; 0 if it is not held.
    last: Vec<u64>,
    order: BTreeMap<u64, u32>,
    held: u64,
    requests: u64,
}

impl Facts for Lru<'_> {
    fn now(&self) -> Tick {
        Tick(self.requests)
    }
    fn requests(&self) -> u64 {
        self.requests
    }
    fn is_live(&self, slot: Slot) -> bool {
        self.last[slot.0 as usize] > 0
    }
    fn weight(&self, slot: Slot) -> u32 {
        self.weights[slot.0 as usize]
    }
    fn key_hash(&self, slot: Slot) -> u64 {
        scramble(u64::from(slot.0) + 1)
    }
    fn deadline(&self, _slot: Slot) -> Option<Tick> {
        None
    }
    fn len(&self) -> usize {
        self.order.len()
    }
    fn sample(&self, _random: u64) -> Option<Slot> {
        None
    }
}

impl<'a> Lru<'a> {
    fn new(trace: &'a Trace, capacity: u64) -> Self {
        Lru {
            trace,
            capacity,
            weights: vec![0; trace.objects],
            last: vec![0; trace.objects],
            order: BTreeMap::new(),
            held: 0,
            requests: 0,
        }
    }

    /// Handles a request and returns whether it was a hit.
    fn request(&mut self, filter: &mut impl Admission, id: u32, size: u32) -> bool {
        self.requests += 1;
        let at = id as usize;
        let is_hit = self.last[at] > 0;
        if is_hit {
            filter.hit(self, Slot(id));
            self.order.remove(&self.last[at]);
        } else {
            let needed = self.held + u64::from(size);
            let newcomer = MissedKey {
                key_hash: self.key_hash(Slot(id)),
                weight: size,
                has_room: needed <= self.capacity,
            };
            let fits = u64::from(size) <= self.capacity;
            if !fits || filter.admit(self, newcomer) == Admit::No {
                return false;
            }
            self.weights[at] = size;
            self.held += u64::from(size);
            while self.held > self.capacity
                && let Some((_, victim)) = self.order.pop_first()
            {
                filter.evicted(self, Slot(victim));
                self.held -= u64::from(self.weights[victim as usize]);
                self.last[victim as usize] = 0;
            }
        }
        self.last[at] = self.requests;
        self.order.insert(self.requests, id);
        is_hit
    }

    /// Returns the hit ratio over the trace's second half.
    fn hit_ratio(mut self, filter: &mut impl Admission) -> f64 {
        let trace = self.trace;
        let half = trace.requests.len() / 2;
        let mut hits = 0;
        for (number, (&id, &size)) in trace.requests.iter().zip(&trace.sizes).enumerate() {
            let is_hit = self.request(filter, id, size);
            hits += u64::from(is_hit && number >= half);
        }
        hits as f64 / (trace.requests.len() - half) as f64
    }
}

pub fn c_approaches_the_best_fixed_value(shared: &Path) {
    let trace = traces::read(&shared.join("traces/web_adaptsize.csv.zst"));
    // The trace is short: it fills 128 MiB twice, and then there is little left to learn for.
    for (capacity, least_share) in [(1 << 20, 0.9), (1 << 24, 0.6), (1 << 27, -0.05)] {
        let fixed = |log2_c: i32| {
            let c = f64::from(log2_c).exp2();
            let mut filter = ExpSize::new(capacity, &ExpSizeConfig { c }, 1);
            Lru::new(&trace, capacity).hit_ratio(&mut filter)
        };
        let tried = (4..36).map(|log2_c| (log2_c, fixed(log2_c)));
        let best = tried.reduce(|best, other| if other.1 > best.1 { other } else { best });
        let (best_c, best) = best.expect("some were tried");
        let all = fixed(49);
        let config = AdaptSizeConfig { interval: 5_000 };
        let mut filter = AdaptSize::new(capacity, &config, 1);
        let adapted = Lru::new(&trace, capacity).hit_ratio(&mut filter);
        let share = (adapted - all) / (best - all);
        println!(
            "{capacity} bytes: hit ratio {all:.4} without a filter, {best:.4} with the best fixed c, 2^{best_c}; \
             {adapted:.4} adapted, c 2^{:.1} at the end: {share:.2} of the way",
            filter.c().log2()
        );
        filter.check();
        assert!(share > least_share);
        let is_near = (filter.c().log2() - f64::from(best_c)).abs() < 4.0;
        assert!(is_near || least_share < 0.0, "c {}", filter.c());
    }
}

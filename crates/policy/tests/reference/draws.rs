//! Random eviction as the reference simulator draws: the first entry in the chain of a random
//! bucket that is not empty. Entries that share a bucket shield each other, and the draws are not
//! uniform.

use crate::traces::Trace;
use policy::parts::chance::{Chance, scramble};

/// Bits of a bucket's number.
const POWER: u32 = 12;
/// Number of buckets; a larger cache than this makes the reference's table grow, which is not
/// modelled.
pub const BUCKETS: u64 = 1 << POWER;

/// Mean miss ratio over a few seeds of a cache of `capacity` objects; the victim is the least
/// recently requested of `samples` drawn.
pub fn miss_ratio(trace: &Trace, capacity: usize, samples: usize, seeds: u64) -> f64 {
    let runs = (1..=seeds).map(|seed| misses(trace, capacity, samples, seed));
    runs.sum::<u64>() as f64 / (seeds * trace.requests.len() as u64) as f64
}

fn misses(trace: &Trace, capacity: usize, samples: usize, seed: u64) -> u64 {
    let mut chance = Chance::new(seed);
    let mut buckets: Vec<Vec<u32>> = vec![Vec::new(); 1 << POWER];
    let bucket_of = |id: u32| (scramble(u64::from(id) + 1) >> (64 - POWER)) as usize;
    let mut last = vec![0; trace.objects];
    let (mut live, mut misses, mut held) = (vec![false; trace.objects], 0, 0);
    for (now, &id) in trace.requests.iter().enumerate() {
        last[id as usize] = now;
        if live[id as usize] {
            continue;
        }
        misses += 1;
        if held == capacity {
            let mut draw = || loop {
                if let Some(&first) = buckets[chance.below(1 << POWER) as usize].last() {
                    return first;
                }
            };
            let drawn = (0..samples)
                .map(|_| draw())
                .min_by_key(|&id| last[id as usize]);
            let victim = drawn.expect("at least one is drawn");
            buckets[bucket_of(victim)].pop();
            live[victim as usize] = false;
            held -= 1;
        }
        live[id as usize] = true;
        buckets[bucket_of(id)].push(id);
        held += 1;
    }
    misses
}

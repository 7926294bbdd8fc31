//! A host over dense arrays: an object's id is its slot.

use crate::traces::Trace;
use policy::any::{PolicySpec, Visitor};
use policy::parts::chance::scramble;
use policy::{Admit, Budget, Cells, Eviction, Facts, OnHit, Policy, Slot, Tick};
use std::time::Instant;

/// Unit of a cache's capacity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Every object weighs 1.
    Objects,
    /// An object has the size of the request that inserted it.
    Bytes,
}

/// Result of a replay.
pub struct Run {
    /// Number of requests that missed.
    pub misses: u64,
    /// Sum of the sizes of these requests.
    pub missed_bytes: u64,
    /// Millions of requests per second, as an indication.
    pub million_per_second: f64,
}

#[expect(
    clippy::disallowed_methods,
    reason = "speed is printed for a glance, not asserted"
)]
/// Runs the whole trace through a cache of this capacity, which rejects objects above `largest`.
pub fn replay(trace: &Trace, spec: &PolicySpec, unit: Unit, capacity: u64, largest: u64) -> Run {
    let started = Instant::now();
    let (misses, missed_bytes) = match unit {
        Unit::Objects => spec.visit(Replay::<false> {
            trace,
            capacity,
            largest,
        }),
        Unit::Bytes => spec.visit(Replay::<true> {
            trace,
            capacity,
            largest,
        }),
    };
    let seconds = started.elapsed().as_secs_f64();
    Run {
        misses,
        missed_bytes,
        million_per_second: trace.requests.len() as f64 / seconds / 1e6,
    }
}

/// With `BYTES`, entries have weights.
struct Dense<'a, M, const BYTES: bool> {
    trace: &'a Trace,
    metas: Vec<M>,
    live: Vec<bool>,
    weights: Vec<u32>,
    weight_sum: u64,
    /// Live slots in no order, and the index of each, for `sample`.
    members: Vec<u32>,
    places: Vec<u32>,
    /// Number of the last request for each object.
    last: Vec<u32>,
    requests: u64,
}

impl<M: Copy + Default, const BYTES: bool> Facts for Dense<'_, M, BYTES> {
    fn now(&self) -> Tick {
        Tick(self.requests)
    }
    #[inline]
    fn requests(&self) -> u64 {
        self.requests
    }
    #[inline]
    fn is_live(&self, slot: Slot) -> bool {
        self.live[slot.0 as usize]
    }
    #[inline]
    fn weight(&self, slot: Slot) -> u32 {
        if BYTES {
            self.weights[slot.0 as usize]
        } else {
            1
        }
    }
    #[inline]
    fn key_hash(&self, slot: Slot) -> u64 {
        scramble(u64::from(slot.0) + 1)
    }
    fn deadline(&self, _slot: Slot) -> Option<Tick> {
        None
    }
    fn len(&self) -> usize {
        self.members.len()
    }
    fn sample(&self, random: u64) -> Option<Slot> {
        let index = (u128::from(random) * self.members.len() as u128) >> 64;
        self.members.get(index as usize).map(|&slot| Slot(slot))
    }
    fn next_access(&self, slot: Slot) -> Option<u64> {
        Some(self.trace.next[self.last[slot.0 as usize] as usize])
    }
}

impl<M: Copy + Default, const BYTES: bool> Cells<M> for Dense<'_, M, BYTES> {
    #[inline]
    fn get(&self, slot: Slot) -> M {
        self.metas[slot.0 as usize]
    }
    #[inline]
    fn set(&mut self, slot: Slot, meta: M) {
        self.metas[slot.0 as usize] = meta;
    }
}

struct Replay<'a, const BYTES: bool> {
    trace: &'a Trace,
    capacity: u64,
    largest: u64,
}

impl<const BYTES: bool> Visitor for Replay<'_, BYTES> {
    type Output = (u64, u64);

    fn visit<P: Policy>(self, config: &P::Config) -> (u64, u64) {
        let objects = self.trace.objects;
        let mut policy = P::new(self.capacity, config, 1);
        let mut host = Dense::<P::Meta, BYTES> {
            trace: self.trace,
            metas: vec![P::Meta::default(); objects],
            live: vec![false; objects],
            weights: vec![0; if BYTES { objects } else { 0 }],
            weight_sum: 0,
            members: Vec::new(),
            places: vec![0; objects],
            last: vec![0; objects],
            requests: 0,
        };
        let (mut misses, mut missed_bytes) = (0, 0);
        for (&id, &size) in self.trace.requests.iter().zip(&self.trace.sizes) {
            let slot = Slot(id);
            host.last[id as usize] = host.requests as u32;
            if host.live[id as usize] {
                hit(&mut policy, &mut host, slot);
            } else {
                misses += 1;
                missed_bytes += u64::from(size);
                let weight = if BYTES { size } else { 1 };
                if u64::from(weight) <= self.largest {
                    miss(&mut policy, &mut host, slot, weight, self.capacity);
                }
            }
            host.requests += 1;
        }
        (misses, missed_bytes)
    }
}

#[inline]
fn hit<P: Policy, const BYTES: bool>(
    policy: &mut P,
    host: &mut Dense<'_, P::Meta, BYTES>,
    slot: Slot,
) {
    match P::ON_HIT {
        OnHit::Ignore => {}
        OnHit::Mark => {
            if let Some(meta) = policy.mark(host, slot, host.get(slot)) {
                host.set(slot, meta);
            }
        }
        OnHit::Reorder => policy.reorder(host, slot),
    }
}

fn miss<P: Policy, const BYTES: bool>(
    policy: &mut P,
    host: &mut Dense<'_, P::Meta, BYTES>,
    slot: Slot,
    weight: u32,
    capacity: u64,
) {
    if policy.miss(host, host.key_hash(slot), weight) == Admit::No {
        return;
    }
    while host.weight_sum + u64::from(weight) > capacity {
        match policy.evict(host, &mut Budget(1000)) {
            Eviction::Victim(victim) => {
                host.live[victim.0 as usize] = false;
                host.weight_sum -= u64::from(host.weight(victim));
                let place = host.places[victim.0 as usize];
                host.members.swap_remove(place as usize);
                if let Some(&other) = host.members.get(place as usize) {
                    host.places[other as usize] = place;
                }
            }
            Eviction::Again => {}
            Eviction::Empty => panic!("a full cache, and nothing to evict"),
        }
    }
    host.metas[slot.0 as usize] = P::Meta::default();
    host.live[slot.0 as usize] = true;
    if BYTES {
        host.weights[slot.0 as usize] = weight;
    }
    host.weight_sum += u64::from(weight);
    host.places[slot.0 as usize] = host.members.len() as u32;
    host.members.push(slot.0);
    policy.insert(host, slot);
}

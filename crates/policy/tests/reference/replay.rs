//! A host over dense arrays: an object's id is its slot.

use crate::traces::Trace;
use policy::any::{PolicySpec, Visitor};
use policy::parts::chance::scramble;
use policy::{Admit, Budget, Cells, Eviction, Facts, OnHit, Policy, Slot, Tick};
use std::time::Instant;

/// What a replay found.
pub struct Run {
    /// Requests that found nothing.
    pub misses: u64,
    /// Millions of requests a second, for a glance.
    pub million_per_second: f64,
}

#[expect(
    clippy::disallowed_methods,
    reason = "speed is printed for a glance, not asserted"
)]
/// Runs the whole trace through a cache of `capacity` objects.
pub fn replay(trace: &Trace, spec: &PolicySpec, capacity: u64) -> Run {
    let started = Instant::now();
    let misses = spec.visit(Replay { trace, capacity });
    let seconds = started.elapsed().as_secs_f64();
    Run {
        misses,
        million_per_second: trace.requests.len() as f64 / seconds / 1e6,
    }
}

struct Dense<'a, M> {
    trace: &'a Trace,
    metas: Vec<M>,
    live: Vec<bool>,
    /// The live slots in no order, and where each is, for `sample`.
    members: Vec<u32>,
    places: Vec<u32>,
    /// The number of the last request for each object.
    last: Vec<u32>,
    requests: u64,
}

impl<M: Copy + Default> Facts for Dense<'_, M> {
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
    fn weight(&self, _slot: Slot) -> u32 {
        1
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

impl<M: Copy + Default> Cells<M> for Dense<'_, M> {
    #[inline]
    fn get(&self, slot: Slot) -> M {
        self.metas[slot.0 as usize]
    }
    #[inline]
    fn set(&mut self, slot: Slot, meta: M) {
        self.metas[slot.0 as usize] = meta;
    }
}

struct Replay<'a> {
    trace: &'a Trace,
    capacity: u64,
}

impl Visitor for Replay<'_> {
    type Output = u64;

    fn visit<P: Policy>(self, config: &P::Config) -> u64 {
        let objects = self.trace.objects;
        let mut policy = P::new(self.capacity, config, 1);
        let mut host = Dense {
            trace: self.trace,
            metas: vec![P::Meta::default(); objects],
            live: vec![false; objects],
            members: Vec::new(),
            places: vec![0; objects],
            last: vec![0; objects],
            requests: 0,
        };
        let mut misses = 0;
        for &id in &self.trace.requests {
            let slot = Slot(id);
            host.last[id as usize] = host.requests as u32;
            if host.live[id as usize] {
                hit(&mut policy, &mut host, slot);
            } else {
                misses += 1;
                miss(&mut policy, &mut host, slot, self.capacity);
            }
            host.requests += 1;
        }
        misses
    }
}

#[inline]
fn hit<P: Policy>(policy: &mut P, host: &mut Dense<'_, P::Meta>, slot: Slot) {
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

fn miss<P: Policy>(policy: &mut P, host: &mut Dense<'_, P::Meta>, slot: Slot, capacity: u64) {
    if policy.miss(host, host.key_hash(slot), 1) == Admit::No {
        return;
    }
    while host.members.len() as u64 >= capacity {
        match policy.evict(host, &mut Budget(1000)) {
            Eviction::Victim(victim) => {
                host.live[victim.0 as usize] = false;
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
    host.places[slot.0 as usize] = host.members.len() as u32;
    host.members.push(slot.0);
    policy.insert(host, slot);
}

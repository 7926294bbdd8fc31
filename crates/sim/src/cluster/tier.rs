//! One server's disk or memory: a cache shard under any policy, sized in bytes.
//!
//! It is used through a trait object, so that the cluster is compiled only once instead of once per
//! policy.

use crate::dense::{Dense, Fixed, OWNER, hash_of};
use crate::never::Never;
use cache::{Entries, Shape, Shard};
use policy::any::{PolicySpec, Visitor};
use policy::{Admit, Budget, Cells, Eviction, Facts, OnHit, Policy, Slot, Tick};

/// Maximum number of steps in one call of a policy. The policy is called again until it is done.
const STEPS: u32 = 1000;

/// Operations of a server's cache.
pub(super) trait Tier {
    /// Whether the object is held.
    fn holds(&self, slot: Slot) -> bool;
    /// Reads a held object. Returns false if the hit did not change the state of the policy.
    fn hit(&mut self, slot: Slot, now: Tick) -> bool;
    /// Inserts an object that is not held. Evicted objects are added to `evicted`. Returns false if
    /// the policy refuses the object or it is larger than the cache.
    fn insert(&mut self, slot: Slot, now: Tick, evicted: &mut Vec<Slot>) -> bool;
    /// Removes a held object.
    fn remove(&mut self, slot: Slot);
    /// The held objects.
    fn slots(&self) -> Vec<Slot>;
    /// Total weight of the held objects.
    fn held_bytes(&self) -> u64;
    /// Furthest hand known, if servers share positions: see `ring.rs`.
    fn furthest_hand(&self) -> Option<u64> {
        None
    }
    /// Receives the furthest hand known to another server.
    fn receive_hand(&mut self, _: u64) {}
    /// Panics if the state is inconsistent. Checks every object.
    #[cfg(any(test, debug_assertions))]
    fn check(&mut self);
}

struct ShardTier<'t, P: Policy> {
    shard: Shard<Dense<P::Meta, Fixed<'t>>, P, Never>,
    capacity: u64,
    held: u64,
}

/// Creates a cache for objects of these weights.
pub(super) fn tier<'t>(
    policy: &PolicySpec,
    weights: &'t [u32],
    capacity: u64,
    seed: u64,
) -> Box<dyn Tier + 't> {
    policy.visit(Build {
        weights,
        capacity,
        seed,
    })
}

struct Build<'t> {
    weights: &'t [u32],
    capacity: u64,
    seed: u64,
}

impl<'t> Visitor for Build<'t> {
    type Output = Box<dyn Tier + 't>;

    fn visit<P: Policy + 'static>(self, config: &P::Config) -> Self::Output {
        let weights = Fixed::by_object(self.weights);
        let entries = Dense::new(self.weights.len(), weights, false);
        let policy = P::new(self.capacity, config, self.seed);
        Box::new(ShardTier {
            shard: Shard::with_policy(entries, policy, Never),
            capacity: self.capacity,
            held: 0,
        })
    }
}

impl<P: Policy> Tier for ShardTier<'_, P> {
    fn holds(&self, slot: Slot) -> bool {
        self.shard.entries.contains(slot)
    }

    fn hit(&mut self, slot: Slot, now: Tick) -> bool {
        self.shard.entries.begin(now);
        let is_changed = match P::ON_HIT {
            OnHit::Ignore => false,
            OnHit::Reorder => true,
            OnHit::Mark => {
                let meta = self.shard.entries.policy_cells(OWNER).get(slot);
                let (policy, _) = self.shard.policy();
                let entries = &self.shard.entries;
                policy.is_some_and(|policy| policy.mark(entries, slot, meta).is_some())
            }
        };
        self.shard.hit(slot);
        is_changed
    }

    fn insert(&mut self, slot: Slot, now: Tick, evicted: &mut Vec<Slot>) -> bool {
        debug_assert!(!self.holds(slot));
        self.shard.entries.begin(now);
        let weight = self.shard.entries.weight(slot);
        if u64::from(weight) > self.capacity
            || self.shard.admit(hash_of(slot), weight, None) == Admit::No
        {
            return false;
        }
        let weight = u64::from(weight);
        while self.held + weight > self.capacity {
            match self.shard.evict(&mut Budget(STEPS)) {
                Eviction::Victim(victim) => {
                    self.held -= u64::from(self.shard.entries.weight(victim));
                    self.shard.entries.take(victim);
                    evicted.push(victim);
                }
                Eviction::Again => {}
                Eviction::Empty => panic!("the cache is full, but its policy returns no victim"),
            }
        }
        self.held += weight;
        self.shard.entries.add(slot);
        let shape = Shape {
            deadline: None,
            owner: OWNER,
        };
        self.shard.inserted(slot, shape);
        true
    }

    fn remove(&mut self, slot: Slot) {
        debug_assert!(self.holds(slot));
        self.shard.remove_from_policy(slot);
        self.held -= u64::from(self.shard.entries.weight(slot));
        self.shard.entries.take(slot);
    }

    fn held_bytes(&self) -> u64 {
        self.held
    }

    fn slots(&self) -> Vec<Slot> {
        self.shard.entries.slots().collect()
    }

    #[cfg(any(test, debug_assertions))]
    fn check(&mut self) {
        let entries = &self.shard.entries;
        let weights = entries.slots().map(|slot| entries.weight(slot));
        assert_eq!(weights.map(u64::from).sum::<u64>(), self.held);
        assert!(self.held <= self.capacity);
        self.shard.check_algorithms();
    }
}

//! Eviction by a replacement policy over segments, each of which is a slot of weight 1.
//!
//! The policy receives one hit for each time that a segment was hit as often as it has live
//! objects, because nearly every segment of ten thousand objects is hit all the time.

use crate::storage::SegmentId;
use policy::any::{AnyPolicy, PolicySpec};
use policy::parts::chance::scramble;
use policy::{Budget, Cells, Eviction, Facts, Policy, Slot, Tick};

/// Maximum number of hits of a segment that a policy receives at once. S3-FIFO counts up to three.
const HITS_MAX: u32 = 3;
/// Budget of one call of the policy. The policy is called again until it has chosen.
const STEPS: u32 = 1 << 16;

/// Entries on which the policy works, one per segment.
#[derive(Debug, Default)]
struct Entries {
    cells: Vec<u64>,
    /// Index in `members` plus one of each segment; 0 if the policy does not hold the segment.
    indexes: Vec<u32>,
    members: Vec<u32>,
    /// Number of each segment that changes whenever the segment is reused. The key hash is computed
    /// from it.
    identities: Vec<u64>,
    linked_count: u64,
}

impl Facts for Entries {
    fn now(&self) -> Tick {
        Tick(0)
    }
    fn requests(&self) -> u64 {
        self.linked_count
    }
    fn is_live(&self, slot: Slot) -> bool {
        self.indexes
            .get(slot.0 as usize)
            .is_some_and(|&index| index != 0)
    }
    fn weight(&self, _slot: Slot) -> u32 {
        1
    }
    fn key_hash(&self, slot: Slot) -> u64 {
        scramble(self.identities[slot.0 as usize])
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
}

impl Cells<u64> for Entries {
    fn get(&self, slot: Slot) -> u64 {
        self.cells[slot.0 as usize]
    }
    fn set(&mut self, slot: Slot, meta: u64) {
        self.cells[slot.0 as usize] = meta;
    }
}

impl Entries {
    fn add(&mut self, slot: Slot) {
        self.members.push(slot.0);
        let at = slot.0 as usize;
        self.indexes[at] = self.members.len() as u32;
        self.linked_count += 1;
        self.identities[at] = self.linked_count;
        self.cells[at] = 0;
    }

    fn take(&mut self, slot: Slot) {
        let index = std::mem::take(&mut self.indexes[slot.0 as usize]) as usize - 1;
        self.members.swap_remove(index);
        if let Some(&other) = self.members.get(index) {
            self.indexes[other as usize] = index as u32 + 1;
        }
    }
}

/// A replacement policy and the segments that it holds.
#[derive(Debug)]
pub(crate) struct Ranked {
    policy: AnyPolicy,
    entries: Entries,
}

impl Ranked {
    pub(crate) fn new(spec: &PolicySpec, segments: u32, seed: u64) -> Option<Self> {
        let by_segment = segments as usize + 1;
        Some(Ranked {
            policy: AnyPolicy::build(spec, u64::from(segments), seed)?,
            entries: Entries {
                cells: vec![0; by_segment],
                indexes: vec![0; by_segment],
                identities: vec![0; by_segment],
                ..Entries::default()
            },
        })
    }

    pub(crate) fn linked(&mut self, id: SegmentId) {
        let slot = Slot(id.0);
        let hash = scramble(self.entries.linked_count + 1);
        let _admitted = self.policy.miss(&self.entries, hash, 1);
        self.entries.add(slot);
        self.policy.insert(&mut self.entries, slot);
    }

    /// Removes a segment that was taken out of its list, unless the policy has chosen it itself.
    pub(crate) fn unlinked(&mut self, id: SegmentId) {
        let slot = Slot(id.0);
        if self.entries.is_live(slot) {
            self.policy.remove(&mut self.entries, slot);
            self.entries.take(slot);
        }
    }

    /// Passes the hits since the last call to the policy, and returns its victim. `hits` returns
    /// the counted hits and the live objects of a segment, and resets the former.
    pub(crate) fn choose(&mut self, hits: impl Fn(SegmentId) -> (u32, u32)) -> Option<SegmentId> {
        for index in 0..self.entries.members.len() {
            let slot = Slot(self.entries.members[index]);
            let (hits, live) = hits(SegmentId(slot.0));
            for _ in 0..HITS_MAX.min(hits / live.max(1)) {
                self.policy.reorder(&mut self.entries, slot);
            }
        }
        loop {
            match self.policy.evict(&mut self.entries, &mut Budget(STEPS)) {
                Eviction::Victim(slot) => {
                    self.entries.take(slot);
                    return Some(SegmentId(slot.0));
                }
                Eviction::Again => {}
                Eviction::Empty => return None,
            }
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let entries = &self.entries;
        self.policy.heap_bytes()
            + (entries.cells.capacity() + entries.identities.capacity()) * 8
            + (entries.indexes.capacity() + entries.members.capacity()) * 4
    }

    pub(crate) fn check(&self) {
        self.policy.check(&self.entries);
        let is_placed = |(index, &slot): (usize, &u32)| {
            self.entries.indexes[slot as usize] as usize == index + 1
        };
        assert!(self.entries.members.iter().enumerate().all(is_placed));
    }
}

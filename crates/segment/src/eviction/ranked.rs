//! A policy of `policy` that chooses segments instead of entries: a segment is a slot, its weight is 1.
//!
//! What a hit is to a policy is here as many counted requests as the segment has live objects: nearly
//! every segment of ten thousand objects is asked for something all the time.

use crate::storage::SegmentId;
use policy::any::{AnyPolicy, PolicySpec};
use policy::parts::chance::scramble;
use policy::{Budget, Cells, Eviction, Facts, Policy, Slot, Tick};

/// Hits that a policy is told of at once, at most: S3-FIFO counts to three.
const HITS_MAX: u32 = 3;
/// Steps of one call; it is called again until it has chosen.
const STEPS: u32 = 1 << 16;

/// What the policy keeps and asks of segments.
#[derive(Debug, Default)]
struct Entries {
    metas: Vec<u64>,
    /// By segment, its number among `members`, from 1.
    places: Vec<u32>,
    members: Vec<u32>,
    /// By segment, how many were linked before it: its identity.
    births: Vec<u64>,
    birth_count: u64,
}

impl Facts for Entries {
    fn now(&self) -> Tick {
        Tick(0)
    }
    fn requests(&self) -> u64 {
        self.birth_count
    }
    fn is_live(&self, slot: Slot) -> bool {
        self.places
            .get(slot.0 as usize)
            .is_some_and(|&place| place != 0)
    }
    fn weight(&self, _slot: Slot) -> u32 {
        1
    }
    fn key_hash(&self, slot: Slot) -> u64 {
        scramble(self.births[slot.0 as usize])
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
        self.metas[slot.0 as usize]
    }
    fn set(&mut self, slot: Slot, meta: u64) {
        self.metas[slot.0 as usize] = meta;
    }
}

impl Entries {
    fn add(&mut self, slot: Slot) {
        self.members.push(slot.0);
        let at = slot.0 as usize;
        self.places[at] = self.members.len() as u32;
        self.birth_count += 1;
        self.births[at] = self.birth_count;
        self.metas[at] = 0;
    }

    fn take(&mut self, slot: Slot) {
        let place = std::mem::take(&mut self.places[slot.0 as usize]) as usize - 1;
        self.members.swap_remove(place);
        if let Some(&other) = self.members.get(place) {
            self.places[other as usize] = place as u32 + 1;
        }
    }
}

/// See the module text.
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
                metas: vec![0; by_segment],
                places: vec![0; by_segment],
                births: vec![0; by_segment],
                ..Entries::default()
            },
        })
    }

    pub(crate) fn linked(&mut self, id: SegmentId) {
        let slot = Slot(id.0);
        let hash = scramble(self.entries.birth_count + 1);
        let _admitted = self.policy.miss(&self.entries, hash, 1);
        self.entries.add(slot);
        self.policy.insert(&mut self.entries, slot);
    }

    /// The segment left; the policy may have chosen it itself.
    pub(crate) fn unlinked(&mut self, id: SegmentId) {
        let slot = Slot(id.0);
        if self.entries.is_live(slot) {
            self.policy.remove(&mut self.entries, slot);
            self.entries.take(slot);
        }
    }

    /// The policy's victim, after it has heard of the requests since: `uses` and live objects by segment,
    /// of which the former start again.
    pub(crate) fn choose(&mut self, uses: impl Fn(SegmentId) -> (u32, u32)) -> Option<SegmentId> {
        for index in 0..self.entries.members.len() {
            let slot = Slot(self.entries.members[index]);
            let (uses, live) = uses(SegmentId(slot.0));
            for _ in 0..HITS_MAX.min(uses / live.max(1)) {
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
            + (entries.metas.capacity() + entries.births.capacity()) * 8
            + (entries.places.capacity() + entries.members.capacity()) * 4
    }

    pub(crate) fn check(&self) {
        self.policy.check(&self.entries);
        let is_placed = |(index, &slot): (usize, &u32)| {
            self.entries.places[slot as usize] as usize == index + 1
        };
        assert!(self.entries.members.iter().enumerate().all(is_placed));
    }
}

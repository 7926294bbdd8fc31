//! A small DRAM cache in front of a large flash cache: which objects are worth a write to flash?
//!
//! ```text
//! miss ──> DRAM (FIFO or LRU) ──evicted──> filter ──yes──> flash (FIFO)
//!   └─ found in the ghost queue: S3-FIFO ────────────────────^
//! ```
//!
//! An object is in at most one of the two. Flash is written once for each admission and never for a
//! hit. The filters are those of J. Yang, *Designing efficient and scalable key-value cache
//! management systems*, Carnegie Mellon University 2024, section 8.4.4. Both tiers are cache shards
//! over dense ids. Not modelled: TTLs, deletions and changes of size; the device's blocks and
//! erasures, and the writes of its garbage collection.
//!
//! Start with [`replay`].

mod learner;

use crate::columns::Columns;
use crate::cpu::thread_cpu_time;
use crate::dense::{Dense, Fixed, OWNER, hash_of};
use crate::never::Never;
use crate::{Counts, ReplayResult, Unit};
use cache::{Shape, Shard};
use learner::{DramAccesses, Learner};
use policy::evict::fifo::Fifo;
use policy::evict::lru::Lru;
use policy::parts::chance::Chance;
use policy::parts::ghost::Ghost;
use policy::{Budget, Eviction, Facts, Policy, Slot};

/// Maximum number of steps in one call of a policy. The policy is called again until it is done.
const STEPS: u32 = 1000;
/// Probability of admission under [`FlashAdmission::Probability`].
const PASS: f64 = 0.2;

/// Admission policies of the flash cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlashAdmission {
    /// Every object, at its miss; there is no DRAM cache.
    All,
    /// One in five objects evicted from an LRU in DRAM.
    Probability,
    /// Objects evicted from an LRU in DRAM for which a model predicts another request, similar to
    /// Flashield.
    Learned,
    /// Objects that are requested again while they are in a FIFO in DRAM, or shortly after:
    /// S3-FIFO.
    SmallFifo,
}

impl FlashAdmission {
    /// Every admission policy.
    pub const EVERY: [FlashAdmission; 4] = [
        FlashAdmission::All,
        FlashAdmission::Probability,
        FlashAdmission::Learned,
        FlashAdmission::SmallFifo,
    ];

    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            FlashAdmission::All => "flash-all",
            FlashAdmission::Probability => "flash-probability",
            FlashAdmission::Learned => "flash-learned",
            FlashAdmission::SmallFifo => "flash-s3fifo",
        }
    }
}

/// An admission policy and the sizes of the two tiers.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Admission policy of the flash tier.
    pub admission: FlashAdmission,
    /// Total capacity of both tiers, in units.
    pub capacity: u64,
    /// Capacity of the DRAM tier, ignored for [`FlashAdmission::All`].
    pub dram: u64,
}

/// One of the two tiers.
struct ShardTier<'t, P: Policy> {
    shard: Shard<Dense<P::Meta, Fixed<'t>>, P, Never>,
    capacity: u64,
    held: u64,
    /// Total weight inserted.
    inserted_weight: u64,
    /// Total weight evicted.
    evicted_weight: u64,
    evictions: u64,
}

impl<'t, P: Policy> ShardTier<'t, P> {
    fn new(objects: usize, weights: Fixed<'t>, capacity: u64, config: &P::Config) -> Self {
        let entries = Dense::new(objects, weights, false);
        ShardTier {
            shard: Shard::with_policy(entries, P::new(capacity, config, 1), Never),
            capacity,
            held: 0,
            inserted_weight: 0,
            evicted_weight: 0,
            evictions: 0,
        }
    }

    fn holds(&self, slot: Slot) -> bool {
        self.shard.entries.contains(slot)
    }

    /// Inserts an absent object that fits the tier, and calls `evicted` with each evicted object.
    fn insert(&mut self, slot: Slot, mut evicted: impl FnMut(Slot)) {
        let weight = u64::from(self.shard.entries.weight(slot));
        assert!(
            weight <= self.capacity,
            "the caller rejects objects that do not fit"
        );
        while self.held + weight > self.capacity {
            match self.shard.evict(&mut Budget(STEPS)) {
                Eviction::Victim(victim) => {
                    let freed = u64::from(self.shard.entries.weight(victim));
                    self.held -= freed;
                    self.evicted_weight += freed;
                    self.evictions += 1;
                    self.shard.entries.take(victim);
                    evicted(victim);
                }
                Eviction::Again => {}
                Eviction::Empty => panic!("the tier is full, but its policy returns no victim"),
            }
        }
        self.held += weight;
        self.inserted_weight += weight;
        self.shard.entries.add(slot);
        let shape = Shape {
            deadline: None,
            owner: OWNER,
        };
        self.shard.inserted(slot, shape);
    }

    fn check(&self) {
        assert_eq!(self.inserted_weight, self.evicted_weight + self.held);
        assert!(self.held <= self.capacity);
    }
}

/// Filter of objects that leave DRAM.
enum Filter {
    Open,
    Coin(Chance),
    Learner(Box<Learner>),
    Ghost(Ghost),
}

struct TwoTiers<'t, P: Policy> {
    dram: ShardTier<'t, P>,
    flash: ShardTier<'t, Fifo>,
    filter: Filter,
    /// For each object, its accesses while it was in DRAM.
    seen: Vec<DramAccesses>,
    /// Objects evicted from DRAM that wait for the filter's decision.
    leaving: Vec<Slot>,
    now: u32,
}

impl<P: Policy> TwoTiers<'_, P> {
    /// Serves a request. Returns true for a hit.
    fn request(&mut self, slot: Slot) -> bool {
        self.now += 1;
        if let Filter::Learner(learner) = &mut self.filter {
            learner.requested(slot, self.now);
        }
        if self.flash.holds(slot) {
            self.flash.shard.hit(slot);
            return true;
        }
        if self.dram.holds(slot) {
            self.dram.shard.hit(slot);
            self.seen[slot.0 as usize].record(self.now);
            return true;
        }
        let weight = self.flash.shard.entries.weight(slot);
        if let Filter::Ghost(ghost) = &mut self.filter
            && ghost.take(hash_of(slot), weight)
        {
            self.write(slot);
            return false;
        }
        self.seen[slot.0 as usize] = DramAccesses::at(self.now);
        if u64::from(weight) > self.dram.capacity {
            self.decide(slot);
            return false;
        }
        let leaving = &mut self.leaving;
        self.dram.insert(slot, |victim| leaving.push(victim));
        let mut leaving = std::mem::take(&mut self.leaving);
        leaving.drain(..).for_each(|victim| self.decide(victim));
        self.leaving = leaving;
        false
    }

    /// Decides whether an object that left DRAM, or did not fit it, is written to flash.
    fn decide(&mut self, slot: Slot) {
        let seen = self.seen[slot.0 as usize];
        let weight = self.flash.shard.entries.weight(slot);
        let is_wanted = match &mut self.filter {
            Filter::Open => true,
            Filter::Coin(chance) => chance.unit() < PASS,
            Filter::Learner(learner) => learner.is_wanted(slot, weight, seen, self.now),
            Filter::Ghost(ghost) => {
                let is_wanted = seen.reads > 0;
                if !is_wanted {
                    let held = self.flash.shard.entries.len() as u64;
                    ghost.file(hash_of(slot), weight, || held.max(1));
                }
                is_wanted
            }
        };
        if is_wanted {
            self.write(slot);
        }
    }

    fn write(&mut self, slot: Slot) {
        if u64::from(self.flash.shard.entries.weight(slot)) <= self.flash.capacity {
            self.flash.insert(slot, |_| ());
        }
    }
}

/// Replays the trace through DRAM and flash.
pub fn replay(columns: &Columns, unit: Unit, layout: Layout, seed: u64) -> ReplayResult {
    assert!(
        layout.dram < layout.capacity,
        "the DRAM tier leaves space for flash"
    );
    let flash = layout.capacity - layout.dram;
    match layout.admission {
        FlashAdmission::All => {
            let layout = Layout { dram: 0, ..layout };
            run::<Fifo>(columns, unit, layout, Filter::Open)
        }
        FlashAdmission::Probability => {
            let coin = Filter::Coin(Chance::new(seed));
            run::<Lru>(columns, unit, layout, coin)
        }
        FlashAdmission::Learned => {
            let learner = Learner::new(columns.objects(), flash);
            run::<Lru>(columns, unit, layout, Filter::Learner(Box::new(learner)))
        }
        FlashAdmission::SmallFifo => {
            let ghost = Filter::Ghost(Ghost::new(flash));
            run::<Fifo>(columns, unit, layout, ghost)
        }
    }
}

fn run<P: Policy>(columns: &Columns, unit: Unit, layout: Layout, filter: Filter) -> ReplayResult
where
    P::Config: Default,
{
    let before = thread_cpu_time();
    let objects = columns.objects();
    let weights = || match unit {
        Unit::Objects => Fixed::ones(),
        Unit::Bytes => Fixed::by_object(&columns.sizes),
    };
    let config = P::Config::default();
    let mut host = TwoTiers {
        dram: ShardTier::<P>::new(objects, weights(), layout.dram, &config),
        flash: ShardTier::<Fifo>::new(objects, weights(), layout.capacity - layout.dram, &()),
        filter,
        seen: vec![DramAccesses::default(); objects],
        leaving: Vec::new(),
        now: 0,
    };
    let mut counts = Counts::default();
    for &id in &columns.ids {
        let slot = Slot(id);
        let weight = u64::from(host.flash.shard.entries.weight(slot));
        counts.requests += 1;
        counts.requested_weight += weight;
        if !host.request(slot) {
            counts.misses += 1;
            counts.missed_weight += weight;
        }
    }
    host.dram.check();
    host.flash.check();
    counts.evictions = host.dram.evictions + host.flash.evictions;
    let (dram_bytes, _) = host.dram.shard.algorithm_bytes();
    let (flash_bytes, _) = host.flash.shard.algorithm_bytes();
    let filter_bytes = match &host.filter {
        Filter::Open | Filter::Coin(_) => 0,
        Filter::Learner(learner) => learner.heap_bytes(),
        Filter::Ghost(ghost) => ghost.heap_bytes(),
    };
    let metadata_bytes = dram_bytes + flash_bytes + filter_bytes as u64;
    let entries = host.dram.shard.entries.heap_bytes() + host.flash.shard.entries.heap_bytes();
    let seen_bytes = host.seen.capacity() * size_of::<DramAccesses>();
    ReplayResult {
        counts,
        promotions: 0,
        metadata_bytes,
        held: (host.dram.shard.entries.len() + host.flash.shard.entries.len()) as u64,
        replay_bytes: metadata_bytes + (entries + seen_bytes) as u64,
        expired_held: 0.0,
        replayed: columns.len() as u64,
        cpu_time: thread_cpu_time().saturating_sub(before),
        flash_written: Some(host.flash.inserted_weight),
        explained: None,
        learned: None,
    }
}

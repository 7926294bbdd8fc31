//! A small cache in DRAM before a large one on flash: who is worth a write?
//!
//! ```text
//! miss ──> DRAM (FIFO or LRU) ──leaves──> filter ──yes──> flash (FIFO)
//!   └─ its ghost is known: S3-FIFO ─────────────────────────^
//! ```
//! Every object is in one of the two or in none; flash is written once for each admission, and never
//! for a hit. The filters are those of J. Yang, *Designing efficient and scalable key-value cache
//! management systems*, Carnegie Mellon University 2024, section 8.4.4. Both tiers are the shard that
//! serves, over dense ids. Left out: lifetimes, deletions, changes of size; blocks and erasures of
//! the device, and what its garbage collection writes.
//!
//! Start with [`replay`].

mod learner;

use crate::columns::Columns;
use crate::cpu::thread_cpu_time;
use crate::dense::{Dense, Fixed, OWNER, hash_of};
use crate::never::Never;
use crate::{Counts, Found, Unit};
use cache::{Shape, Shard};
use learner::{Learner, Seen};
use policy::evict::fifo::Fifo;
use policy::evict::lru::Lru;
use policy::parts::chance::Chance;
use policy::parts::ghost::Ghost;
use policy::{Budget, Eviction, Facts, Policy, Slot};

/// Steps that one call of a policy may take; it is called again until it is done.
const STEPS: u32 = 1000;
/// How often a coin lets an object pass.
const PASS: f64 = 0.2;

/// Who is written to flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Everything, at its miss; there is no DRAM.
    All,
    /// One in five of those that leave an LRU in DRAM.
    Probability,
    /// Those that leave an LRU in DRAM and of which a model expects another request, after Flashield.
    Learned,
    /// Those that were asked for again while in a FIFO in DRAM, or shortly after: S3-FIFO.
    SmallFifo,
}

impl Scheme {
    /// All of them.
    pub const EVERY: [Scheme; 4] = [
        Scheme::All,
        Scheme::Probability,
        Scheme::Learned,
        Scheme::SmallFifo,
    ];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::All => "flash-all",
            Scheme::Probability => "flash-probability",
            Scheme::Learned => "flash-learned",
            Scheme::SmallFifo => "flash-s3fifo",
        }
    }
}

/// A scheme and its room.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Who is written.
    pub scheme: Scheme,
    /// The room of both together, in units.
    pub capacity: u64,
    /// How much of it is DRAM; nothing for [`Scheme::All`].
    pub dram: u64,
}

/// One of the two.
struct Tier<'t, P: Policy> {
    shard: Shard<Dense<P::Meta, Fixed<'t>>, P, Never>,
    capacity: u64,
    held: u64,
    /// Units that came in.
    taken_in: u64,
    /// Units that went out.
    given_up: u64,
    evictions: u64,
}

impl<'t, P: Policy> Tier<'t, P> {
    fn new(objects: usize, weights: Fixed<'t>, capacity: u64, config: &P::Config) -> Self {
        let entries = Dense::new(objects, weights, false);
        Tier {
            shard: Shard::with_policy(entries, P::new(capacity, config, 1), Never),
            capacity,
            held: 0,
            taken_in: 0,
            given_up: 0,
            evictions: 0,
        }
    }

    fn holds(&self, slot: Slot) -> bool {
        self.shard.entries.lives(slot)
    }

    /// Inserts an absent object that fits the tier; those that leave for it are handed to `left`.
    fn insert(&mut self, slot: Slot, mut left: impl FnMut(Slot)) {
        let weight = u64::from(self.shard.entries.weight(slot));
        assert!(weight <= self.capacity, "what does not fit is turned away");
        while self.held + weight > self.capacity {
            match self.shard.evict(&mut Budget(STEPS)) {
                Eviction::Victim(victim) => {
                    let freed = u64::from(self.shard.entries.weight(victim));
                    self.held -= freed;
                    self.given_up += freed;
                    self.evictions += 1;
                    self.shard.entries.take(victim);
                    left(victim);
                }
                Eviction::Again => {}
                Eviction::Empty => panic!("the tier is full, and its policy knows of no entry"),
            }
        }
        self.held += weight;
        self.taken_in += weight;
        self.shard.entries.add(slot);
        let shape = Shape {
            deadline: None,
            owner: OWNER,
        };
        self.shard.inserted(slot, shape);
    }

    fn check(&self) {
        assert_eq!(self.taken_in, self.given_up + self.held);
        assert!(self.held <= self.capacity);
    }
}

/// What decides about an object that leaves DRAM.
enum Filter {
    Open,
    Coin(Chance),
    Learner(Box<Learner>),
    Ghost(Ghost),
}

struct Host<'t, P: Policy> {
    dram: Tier<'t, P>,
    flash: Tier<'t, Fifo>,
    filter: Filter,
    /// By object: what happened to it in DRAM.
    seen: Vec<Seen>,
    /// Who has just left DRAM, until it is decided about.
    leaving: Vec<Slot>,
    now: u32,
}

impl<P: Policy> Host<'_, P> {
    /// A request; true for a hit.
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
            self.seen[slot.0 as usize].again(self.now);
            return true;
        }
        let weight = self.flash.shard.entries.weight(slot);
        if let Filter::Ghost(ghost) = &mut self.filter
            && ghost.take(hash_of(slot), weight)
        {
            self.write(slot);
            return false;
        }
        self.seen[slot.0 as usize] = Seen::at(self.now);
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

    /// An object has left DRAM, or never fitted it.
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
pub fn replay(columns: &Columns, unit: Unit, layout: Layout, seed: u64) -> Found {
    assert!(layout.dram < layout.capacity, "there is room on flash");
    let flash = layout.capacity - layout.dram;
    match layout.scheme {
        Scheme::All => {
            let layout = Layout { dram: 0, ..layout };
            run::<Fifo>(columns, unit, layout, Filter::Open)
        }
        Scheme::Probability => {
            let coin = Filter::Coin(Chance::new(seed));
            run::<Lru>(columns, unit, layout, coin)
        }
        Scheme::Learned => {
            let learner = Learner::new(columns.objects(), flash);
            run::<Lru>(columns, unit, layout, Filter::Learner(Box::new(learner)))
        }
        Scheme::SmallFifo => {
            let ghost = Filter::Ghost(Ghost::new(flash));
            run::<Fifo>(columns, unit, layout, ghost)
        }
    }
}

fn run<P: Policy>(columns: &Columns, unit: Unit, layout: Layout, filter: Filter) -> Found
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
    let mut host = Host {
        dram: Tier::<P>::new(objects, weights(), layout.dram, &config),
        flash: Tier::<Fifo>::new(objects, weights(), layout.capacity - layout.dram, &()),
        filter,
        seen: vec![Seen::default(); objects],
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
    let seen_bytes = host.seen.capacity() * size_of::<Seen>();
    Found {
        counts,
        promotions: 0,
        metadata_bytes,
        held: (host.dram.shard.entries.len() + host.flash.shard.entries.len()) as u64,
        replay_bytes: metadata_bytes + (entries + seen_bytes) as u64,
        expired_held: 0.0,
        replayed: columns.len() as u64,
        cpu_time: thread_cpu_time().saturating_sub(before),
        flash_written: Some(host.flash.taken_in),
        explained: None,
        learned: None,
    }
}

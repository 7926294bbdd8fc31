//! Eviction by whole slabs: slab-lru, slab-lrc and slab-random.
//!
//! # Idea
//! Entries are stored in *slabs*, each cut into chunks for one *class* of weights. To make room a
//! whole slab is emptied, which any class may then use: the one whose entries were requested least
//! recently (slab-lru), the one created first (slab-lrc), or any (slab-random). An entry needs no
//! place in any order, and no class can be left without room.
//!
//! # Source
//! Twemcache, <https://github.com/twitter/twemcache>, as described in J. Yang, Y. Yue, K. V.
//! Rashmi, *A large scale analysis of hundreds of in-memory cache clusters at Twitter*, OSDI 2020,
//! <https://www.usenix.org/conference/osdi20/presentation/yang>, sections 2.1 and 5.
//!
//! # State
//! Per entry: 8 bytes (slab and chunk), and 4 to 8 for the chunk. Per slab: 64 bytes.
//!
//! # Cost
//! hit: a few links between slabs for slab-lru, else nothing · insert, remove, relocate O(1) ·
//! evict: one step for each chunk of the slab.
//!
//! # Knobs
//! `slab` (1048576; 1 to 1073741824): the weight of a slab. `factor` (1.25; 1.05 to 4.0): from one
//! class to the next. `fewest` (100; 1 to 1000000): minimum number of slabs in a full cache, for
//! small caches.
//!
//! # Departures
//! A chosen slab is emptied entry by entry as room is needed, oldest chunk first, not at once;
//! until then its entries can be hit, which does not rescue them. The host counts weights: unfilled
//! chunks do not count against the capacity, as in the source's study. A slab is no larger than a
//! `fewest`th of the capacity. Classes begin at weight 1, not at 88 bytes. Counted by objects all
//! entries are in one class, and a slab is a hundredth of the cache.
//!
//! # Avoid when
//! Anything but a study: entries are evicted because of their neighbours. In a server whose arena
//! moves entries nothing is gained by it.

use crate::knobs::Knobs;
use crate::parts::chance::Chance;
#[cfg(not(any(test, feature = "std")))]
use crate::parts::float::Float as _;
use crate::{Budget, Cells, Eviction, OnHit, Policy, Slot};
use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;

crate::knobs! {
    /// Knobs of [`Slabs`].
    pub struct SlabConfig {
        /// Weight of a slab.
        slab: u32 = 1048576, 1 => 1073741824;
        /// Factor between the chunk sizes of two consecutive classes.
        factor: f64 = 1.25, 1.05 => 4.0;
        /// Minimum number of slabs in a full cache.
        fewest: u32 = 100, 1 => 1000000;
    }
}

/// The classes of weights.
#[derive(Clone, Debug)]
pub(super) struct Classes {
    /// Largest weight of each class, which is the size of its chunks.
    chunks: Vec<u32>,
}

impl Classes {
    pub(super) fn new(factor: f64) -> Self {
        let mut chunks = vec![1];
        let mut chunk = 1;
        while chunk < u32::MAX {
            chunk = (f64::from(chunk) * factor).ceil() as u32;
            chunks.push(chunk);
        }
        Classes { chunks }
    }

    pub(super) fn count(&self) -> usize {
        self.chunks.len()
    }

    #[inline]
    pub(super) fn of(&self, weight: u32) -> usize {
        self.chunks.partition_point(|&chunk| chunk < weight)
    }
}

/// Returns the weight of a slab in a cache of this capacity.
pub(super) fn slab_weight(slab: u32, fewest: u32, capacity: u64) -> u64 {
    u64::from(slab).min(capacity / u64::from(fewest)).max(1)
}

/// Rule that chooses the slab to be emptied.
pub trait Order: Send + 'static {
    /// Name of the policy.
    const NAME: &'static str;
    /// Whether a request for an entry makes its slab the last to be emptied.
    const IS_TOUCHED: bool = false;
    /// Whether the slab is chosen at random.
    const IS_DRAWN: bool = false;
}

/// Chooses the slab whose last request is the longest ago.
#[derive(Clone, Copy, Debug)]
pub struct Used;
/// Chooses the slab created first.
#[derive(Clone, Copy, Debug)]
pub struct Created;
/// Chooses a random slab.
#[derive(Clone, Copy, Debug)]
pub struct Drawn;

impl Order for Used {
    const NAME: &'static str = "slab-lru";
    const IS_TOUCHED: bool = true;
}
impl Order for Created {
    const NAME: &'static str = "slab-lrc";
}
impl Order for Drawn {
    const NAME: &'static str = "slab-random";
    const IS_DRAWN: bool = true;
}

/// Packs the place of an entry: the slab in the upper, the chunk in the lower 32 bits.
#[inline]
fn packed(slab: u32, chunk: u32) -> u64 {
    u64::from(slab) << 32 | u64::from(chunk)
}

#[inline]
fn unpacked(place: u64) -> (usize, usize) {
    ((place >> 32) as usize, place as u32 as usize)
}

/// Appends a number and returns by how much the vector's capacity grew.
#[inline]
fn push(numbers: &mut Vec<u32>, number: u32) -> usize {
    let before = numbers.capacity();
    numbers.push(number);
    numbers.capacity() - before
}

/// Bit that is set in the number of a vacant chunk. The lower bits then are the number of the
/// slab's next vacant chunk. An entry's slot never has this bit (see [`Slot::LIMIT`]).
const HOLE: u32 = 1 << 31;
/// Number that ends a list of vacant chunks or of slabs.
const NONE: u32 = HOLE - 1;

#[derive(Clone, Debug, Default)]
struct Slab {
    /// For each chunk the slot of its entry, or a [`HOLE`]. Chunks are in the order in which they
    /// were first filled.
    chunks: Vec<u32>,
    /// First vacant chunk.
    hole: u32,
    /// Total number of chunks.
    room: u32,
    live: u32,
    class: u32,
    /// Whether new entries of the slab's class may be written to it, in which case `open` lists it.
    is_open: bool,
    /// Neighbours in the order of eviction.
    older: u32,
    newer: u32,
    /// Index of the slab in `standing`.
    place: u32,
}

/// Eviction by whole slabs.
#[derive(Clone, Debug)]
pub struct Slabs<O> {
    slabs: Vec<Slab>,
    /// Numbers of freed slabs, which are reused.
    vacant: Vec<u32>,
    /// Slabs that hold entries and are not being emptied, in no order.
    standing: Vec<u32>,
    oldest: u32,
    newest: u32,
    /// For each class, its slabs with vacant chunks; the last one is filled first.
    open: Vec<Vec<u32>>,
    /// Slab that is being emptied, and the next chunk to evict from it.
    leaving: Option<(u32, usize)>,
    live: usize,
    /// Total capacity of the vectors `chunks` of all slabs and `open` of all classes, in elements.
    numbers: usize,
    classes: Classes,
    slab_weight: u64,
    config: SlabConfig,
    chance: Chance,
    order: PhantomData<O>,
}

impl<O: Order> Slabs<O> {
    fn slab(&mut self, id: u32) -> &mut Slab {
        &mut self.slabs[id as usize]
    }

    fn link_newest(&mut self, id: u32) {
        let newest = core::mem::replace(&mut self.newest, id);
        let slab = self.slab(id);
        (slab.older, slab.newer) = (newest, NONE);
        match newest {
            NONE => self.oldest = id,
            newest => self.slab(newest).newer = id,
        }
    }

    fn unlink(&mut self, id: u32) {
        let Slab { older, newer, .. } = *self.slab(id);
        match older {
            NONE => self.oldest = newer,
            older => self.slab(older).newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.slab(newer).older = older,
        }
    }

    /// Creates a slab for a class.
    fn create(&mut self, class: usize) -> u32 {
        let id = self.vacant.pop().unwrap_or_else(|| {
            self.slabs.push(Slab::default());
            self.slabs.len() as u32 - 1
        });
        let chunk = u64::from(self.classes.chunks[class]);
        let room = (self.slab_weight / chunk).max(1) as u32;
        let place = self.standing.len() as u32;
        *self.slab(id) = Slab {
            hole: NONE,
            room,
            class: class as u32,
            is_open: true,
            place,
            ..Slab::default()
        };
        self.standing.push(id);
        self.numbers += push(&mut self.open[class], id);
        self.link_newest(id);
        id
    }

    /// Removes a slab from the lists, so that it is no longer filled or chosen for eviction.
    fn withdraw(&mut self, id: u32) {
        self.unlink(id);
        let place = self.slab(id).place;
        self.standing.swap_remove(place as usize);
        if let Some(&moved) = self.standing.get(place as usize) {
            self.slab(moved).place = place;
        }
        if core::mem::take(&mut self.slab(id).is_open) {
            let class = self.slab(id).class as usize;
            self.open[class].retain(|&other| other != id);
        }
    }

    fn file(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
        let class = self.classes.of(cells.weight(slot));
        let id = match self.open[class].last() {
            Some(&id) => id,
            None => self.create(class),
        };
        let mut grown = 0;
        let slab = self.slab(id);
        let chunk = match slab.hole {
            NONE => {
                grown = push(&mut slab.chunks, slot.0);
                slab.chunks.len() as u32 - 1
            }
            hole => {
                slab.hole = slab.chunks[hole as usize] & NONE;
                slab.chunks[hole as usize] = slot.0;
                hole
            }
        };
        slab.live += 1;
        if slab.live == slab.room {
            slab.is_open = false;
            self.open[class].pop();
        }
        self.live += 1;
        self.numbers += grown;
        cells.set(slot, packed(id, chunk));
        self.touch(id);
    }

    /// Frees an entry's chunk; a slab without entries is freed.
    fn vacate(&mut self, place: u64) {
        let (id, chunk) = unpacked(place);
        self.live -= 1;
        let slab = &mut self.slabs[id];
        slab.chunks[chunk] = HOLE | slab.hole;
        slab.hole = chunk as u32;
        slab.live -= 1;
        let (class, is_open, is_empty) = (slab.class as usize, slab.is_open, slab.live == 0);
        let is_leaving = self
            .leaving
            .is_some_and(|(leaving, _)| leaving == id as u32);
        if is_empty {
            if is_leaving {
                self.leaving = None;
            } else {
                self.withdraw(id as u32);
            }
            let left = core::mem::take(&mut self.slabs[id]);
            self.numbers -= left.chunks.capacity();
            self.vacant.push(id as u32);
        } else if !is_open && !is_leaving {
            self.slabs[id].is_open = true;
            self.numbers += push(&mut self.open[class], id as u32);
        }
    }

    #[inline]
    fn touch(&mut self, id: u32) {
        if O::IS_TOUCHED && self.newest != id {
            self.unlink(id);
            self.link_newest(id);
        }
    }

    /// Returns the next slab to be emptied.
    fn choose(&mut self) -> u32 {
        if O::IS_DRAWN {
            let index = self.chance.below(self.standing.len() as u64);
            self.standing[index as usize]
        } else {
            self.oldest
        }
    }
}

impl<O: Order> Policy for Slabs<O> {
    type Meta = u64;
    type Config = SlabConfig;
    const NAME: &'static str = O::NAME;
    const ON_HIT: OnHit = if O::IS_TOUCHED {
        OnHit::Reorder
    } else {
        OnHit::Ignore
    };

    fn new(capacity: u64, config: &SlabConfig, seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        let classes = Classes::new(config.factor);
        Slabs {
            slabs: Vec::new(),
            vacant: Vec::new(),
            standing: Vec::new(),
            oldest: NONE,
            newest: NONE,
            open: vec![Vec::new(); classes.count()],
            leaving: None,
            live: 0,
            numbers: 0,
            classes,
            slab_weight: slab_weight(config.slab, config.fewest, capacity),
            config: config.clone(),
            chance: Chance::new(seed),
            order: PhantomData,
        }
    }

    fn resize(&mut self, capacity: u64) {
        self.slab_weight = slab_weight(self.config.slab, self.config.fewest, capacity);
    }

    #[inline]
    fn insert(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
        self.file(cells, slot);
    }

    #[inline]
    fn reorder(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
        let (id, _) = unpacked(cells.get(slot));
        let id = id as u32;
        if self.leaving.is_none_or(|(leaving, _)| leaving != id) {
            self.touch(id);
        }
    }

    fn reweigh(&mut self, cells: &mut impl Cells<u64>, slot: Slot, old_weight: u32) {
        if self.classes.of(old_weight) != self.classes.of(cells.weight(slot)) {
            self.vacate(cells.get(slot));
            self.file(cells, slot);
        }
    }

    fn moved(&mut self, cells: &mut impl Cells<u64>, _old: Slot, new: Slot) {
        let (id, chunk) = unpacked(cells.get(new));
        self.slabs[id].chunks[chunk] = new.0;
    }

    fn remove(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
        self.vacate(cells.get(slot));
    }

    fn evict(&mut self, cells: &mut impl Cells<u64>, budget: &mut Budget) -> Eviction {
        if self.live == 0 {
            return Eviction::Empty;
        }
        while budget.spend() {
            let (id, chunk) = match self.leaving {
                Some(leaving) => leaving,
                None => {
                    let id = self.choose();
                    self.withdraw(id);
                    (id, 0)
                }
            };
            self.leaving = Some((id, chunk + 1));
            let slot = self.slab(id).chunks[chunk];
            if slot & HOLE == 0 {
                self.vacate(packed(id, chunk as u32));
                cells.set(Slot(slot), 0);
                return Eviction::Victim(Slot(slot));
            }
        }
        Eviction::Again
    }

    fn heap_bytes(&self) -> usize {
        let numbers = self.vacant.capacity() + self.standing.capacity() + self.numbers;
        let open = self.open.capacity() * size_of::<Vec<u32>>();
        numbers * size_of::<u32>() + open + self.slabs.capacity() * size_of::<Slab>()
    }

    fn check(&self, cells: &impl Cells<u64>) {
        let mut live = 0;
        for (id, slab) in self.slabs.iter().enumerate() {
            let is_leaving = self
                .leaving
                .is_some_and(|(leaving, _)| leaving as usize == id);
            let filled = slab.chunks.iter().filter(|&&slot| slot & HOLE == 0).count();
            assert_eq!(filled, slab.live as usize);
            for (chunk, &slot) in slab.chunks.iter().enumerate() {
                if slot & HOLE == 0 {
                    assert!(cells.is_live(Slot(slot)));
                    assert_eq!(cells.get(Slot(slot)), packed(id as u32, chunk as u32));
                    assert_eq!(
                        self.classes.of(cells.weight(Slot(slot))),
                        slab.class as usize
                    );
                }
            }
            live += filled;
            let is_standing = filled > 0 && !is_leaving;
            assert_eq!(self.standing.contains(&(id as u32)), is_standing);
            assert_eq!(slab.is_open, is_standing && slab.live < slab.room);
            let listed = self
                .open
                .iter()
                .flatten()
                .filter(|&&open| open as usize == id);
            assert_eq!(listed.count(), usize::from(slab.is_open));
        }
        assert_eq!(live, self.live);
        let chunks = self.slabs.iter().map(|slab| slab.chunks.capacity());
        let open = self.open.iter().map(Vec::capacity);
        assert_eq!(chunks.chain(open).sum::<usize>(), self.numbers);
        let (mut at, mut before, mut count) = (self.oldest, NONE, 0);
        while at != NONE {
            assert_eq!(self.slabs[at as usize].older, before);
            (before, at) = (at, self.slabs[at as usize].newer);
            count += 1;
            assert!(count <= self.standing.len(), "more than stand, or a loop");
        }
        assert_eq!((self.newest, count), (before, self.standing.len()));
    }
}

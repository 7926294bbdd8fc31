//! Quick demotion before any other policy: `qd-lp-fifo`, `qd-lru`, `qd-arc`, `qd-lecar`,
//! `qd-cacheus`, `qd-lhd`, `qd-lirs`.
//!
//! # Idea
//! A small probationary FIFO queue in front of a main policy. An entry that is hit in it moves to
//! main at its end. One that is not is evicted at once and remembered, and moves to main if its key
//! returns soon. Thus keys requested once never reach main. QD-LP-FIFO has a 2-bit CLOCK as its
//! main policy.
//!
//! # Source
//! J. Yang, Z. Qiu, Y. Zhang, Y. Yue, K. V. Rashmi, *FIFO can be better than LRU: the power of lazy
//! promotion and quick demotion*, HotOS 2023, <https://doi.org/10.1145/3593856.3595887>; chapter
//! 7.4 in J. Yang, *Designing Efficient and Scalable Key-value Cache Management Systems*, CMU 2024.
//! Compared with libCacheSim 0.3.5 (`QDLP`).
//!
//! # State
//! Per entry: 8 bits (where it is, hits, epoch tag), a 4-byte reference while on probation, and
//! what main keeps. Besides: what main keeps, and about 0.9 ghosts an entry at 5 bytes.
//!
//! # Cost
//! hit: one write on probation, else main's · miss: a look-up in two cache lines of ghosts, and
//! main's own for a key that goes to main · insert, remove O(1) and main's · evict: one step per
//! entry passed.
//!
//! # Knobs
//! `small` (0.1; 0.001 to 0.9): the probationary queue's share of the capacity. `ghost` (0.9; 0 to
//! 10): the weight remembered, as a share of the capacity. Main runs with its defaults.
//!
//! # Departures
//! A returning key for which main has no room waits beside both queues until the next eviction
//! makes room; the authors' code evicts from main at once, and so for a moment keeps one entry
//! fewer. An entry larger than the probationary queue is accepted. Ghosts are fingerprints (see
//! [`ghost`](crate::parts::ghost)); stale references as in `fifo`.
//!
//! # Avoid when
//! The main policy demotes quickly on its own, or the cache holds most of the requested keys.

use super::arc::Arc;
use super::cacheus::Cacheus;
use super::clock::{Clock, ClockConfig};
use super::lecar::Lecar;
use super::lhd::Lhd;
use super::lirs::Lirs;
use super::lru::Lru;
use crate::knobs::Knobs;
use crate::marker::Count;
use crate::parts::chance::scramble;
use crate::parts::epochs::{TAG_BITS, TAG_MASK};
use crate::parts::ghost::Ghost;
use crate::parts::queue::{Filed, ONE_QUEUE, WeighedQueue};
use crate::{Admit, Budget, Cells, Eviction, Facts, Marker, Meta, OnHit, Policy, Slot};
use core::marker::PhantomData;

crate::knobs! {
    /// Knobs of [`Qd`].
    pub struct QdConfig {
        /// Share of the capacity for the probationary queue.
        small: f64 = 0.1, 0.001 => 0.9;
        /// Weight that the ghost queue remembers, as a share of the capacity.
        ghost: f64 = 0.9, 0.0 => 10.0;
    }
}

/// A policy that can be the main policy behind a probationary queue.
pub trait Main: Policy {
    /// Name of the combination.
    const QD_NAME: &'static str;
    /// Number of hits on probation that lead to main.
    const THRESHOLD: u8 = 1;
    /// Returns the policy's config in the combination.
    fn config() -> Self::Config {
        Self::Config::default()
    }
}

impl Main for Clock {
    const QD_NAME: &'static str = "qd-lp-fifo";
    fn config() -> ClockConfig {
        ClockConfig { bits: 2 }
    }
}
impl Main for Lru {
    const QD_NAME: &'static str = "qd-lru";
}
impl Main for Lirs {
    const QD_NAME: &'static str = "qd-lirs";
}
impl Main for Arc {
    const QD_NAME: &'static str = "qd-arc";
}
impl Main for Lecar {
    const QD_NAME: &'static str = "qd-lecar";
}
impl Main for Cacheus {
    const QD_NAME: &'static str = "qd-cacheus";
}
impl Main for Lhd {
    const QD_NAME: &'static str = "qd-lhd";
}

/// An entry's bits: the wrapper's byte and main's own.
///
/// ```text
/// bit 7  5  4   0
/// [ place ][ tag ]     tag 0 and place 0: not inserted
/// ```
/// The place is the number of hits, 0 to 3, while the entry is on probation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QdMeta<M> {
    own: u8,
    main: M,
}

const ONE_HIT: u8 = 1 << TAG_BITS;
const IN_MAIN: u8 = 4 << TAG_BITS;
const WAITING: u8 = 5 << TAG_BITS;

#[inline]
fn is_in_main(own: u8) -> bool {
    own & !TAG_MASK == IN_MAIN
}

#[inline]
fn is_waiting(own: u8) -> bool {
    own & !TAG_MASK == WAITING
}

impl<M: Meta> Meta for QdMeta<M> {
    const BITS: u32 = 8 + M::BITS;
    fn pack(self) -> u64 {
        const {
            assert!(
                8 + M::BITS <= 64,
                "served policies have 64 bits in an entry"
            )
        };
        self.main.pack() << 8 | u64::from(self.own)
    }
    fn unpack(bits: u64) -> Self {
        QdMeta {
            own: bits as u8,
            main: M::unpack(bits >> 8),
        }
    }
}

/// A probationary queue in front of `P`.
#[derive(Clone, Debug)]
pub struct Qd<P> {
    small: WeighedQueue<ONE_QUEUE>,
    small_capacity: u64,
    main: P,
    main_live: usize,
    main_weight: u64,
    main_capacity: u64,
    ghost: Ghost,
    returning: Option<u64>,
    /// Entry that is moved to main as soon as main has room.
    waiting: Option<Slot>,
    config: QdConfig,
}

impl<P: Main> Qd<P> {
    /// Rule for hits on probation, on the byte of the wrapper.
    fn on_probation() -> Count {
        Count {
            mask: u64::from(!TAG_MASK),
            max: u64::from(P::THRESHOLD) << TAG_BITS,
            one: u64::from(ONE_HIT),
        }
    }

    fn weigh(cells: &impl Facts, slot: Slot) -> u64 {
        u64::from(cells.weight(slot))
    }

    /// Whether main must evict before it can take an entry of this weight.
    fn is_main_full(&self, weight: u64) -> bool {
        self.main_live > 0 && self.main_weight + weight > self.main_capacity
    }

    /// Moves the waiting entry to main if main has room.
    fn settle(&mut self, cells: &mut impl Cells<QdMeta<P::Meta>>) {
        if let Some(slot) = self.waiting
            && !self.is_main_full(Self::weigh(cells, slot))
        {
            self.waiting = None;
            self.enter_main(cells, slot);
        }
    }

    fn enter_main(&mut self, cells: &mut impl Cells<QdMeta<P::Meta>>, slot: Slot) {
        cells.set(
            slot,
            QdMeta {
                own: IN_MAIN,
                main: P::Meta::default(),
            },
        );
        self.main_live += 1;
        self.main_weight += Self::weigh(cells, slot);
        self.main.insert(&mut MainCells(cells, PhantomData), slot);
    }

    /// Moves the entry to main, which sees it as a miss. Main's decision about admission is
    /// ignored.
    fn promote(&mut self, cells: &mut impl Cells<QdMeta<P::Meta>>, slot: Slot) {
        let weight = cells.weight(slot);
        self.main.miss(cells, cells.key_hash(slot), weight);
        if self.waiting.is_some() || !self.is_main_full(u64::from(weight)) {
            self.enter_main(cells, slot);
        } else {
            cells.set(
                slot,
                QdMeta {
                    own: WAITING,
                    main: P::Meta::default(),
                },
            );
            self.waiting = Some(slot);
        }
    }

    /// Handles the oldest entry on probation: it moves to main or is the victim.
    fn step_small(&mut self, cells: &mut impl Cells<QdMeta<P::Meta>>) -> Option<Slot> {
        let live = (self.small.len() + self.main_live) as f64;
        let all = (self.small.weight() + self.main_weight).max(1) as f64;
        let slot = self.small.pop(cells)?;
        if cells.get(slot).own >> TAG_BITS >= P::THRESHOLD {
            self.promote(cells, slot);
            return None;
        }
        let window = (self.small_capacity + self.main_capacity) as f64 * self.config.ghost;
        let expected = || (window * live / all) as u64;
        self.ghost
            .file(cells.key_hash(slot), cells.weight(slot), expected);
        Some(slot)
    }
}

impl<M: Copy + Default> Filed for QdMeta<M> {
    #[inline]
    fn filing(self) -> u8 {
        self.own
    }
    #[inline]
    fn with_filing(self, filing: u8, mask: u8) -> Self {
        QdMeta {
            own: self.own.with_filing(filing, mask),
            main: self.main,
        }
    }
}

impl<P: Main> Policy for Qd<P> {
    type Meta = QdMeta<P::Meta>;
    type Config = QdConfig;
    const NAME: &'static str = P::QD_NAME;
    const ON_HIT: OnHit = match P::ON_HIT {
        OnHit::Reorder => OnHit::Reorder,
        OnHit::Ignore | OnHit::Mark => OnHit::Mark,
    };

    fn new(capacity: u64, config: &QdConfig, seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        let small_capacity = (capacity as f64 * config.small) as u64;
        Qd {
            small: WeighedQueue::new(0, small_capacity),
            small_capacity,
            main: P::new(capacity - small_capacity, &P::config(), seed),
            main_live: 0,
            main_weight: 0,
            main_capacity: capacity - small_capacity,
            ghost: Ghost::new((capacity as f64 * config.ghost) as u64),
            returning: None,
            waiting: None,
            config: config.clone(),
        }
    }

    fn resize(&mut self, capacity: u64) {
        self.small_capacity = (capacity as f64 * self.config.small) as u64;
        self.small.resize(self.small_capacity);
        self.main_capacity = capacity - self.small_capacity;
        self.main.resize(self.main_capacity);
        self.ghost
            .resize((capacity as f64 * self.config.ghost) as u64);
    }

    fn miss(&mut self, _facts: &impl Facts, key_hash: u64, weight: u32) -> Admit {
        self.returning = self.ghost.take(key_hash, weight).then_some(key_hash);
        Admit::Yes
    }

    fn insert(&mut self, cells: &mut impl Cells<Self::Meta>, slot: Slot) {
        self.settle(cells);
        let returning = self.returning.take();
        if returning.is_some_and(|key_hash| key_hash == cells.key_hash(slot)) {
            self.promote(cells, slot);
            return;
        }
        self.small.push(cells, slot);
    }

    #[inline]
    fn marker(&self) -> Marker {
        let outside = Self::on_probation();
        match self.main.marker().shifted(8) {
            Some(inside) => Marker::Split {
                mask: u64::from(!TAG_MASK),
                value: u64::from(IN_MAIN),
                inside,
                outside,
            },
            None => Marker::Nothing,
        }
    }

    #[inline]
    fn mark(&self, facts: &impl Facts, slot: Slot, meta: Self::Meta) -> Option<Self::Meta> {
        if !is_in_main(meta.own) {
            let own = Marker::Count(Self::on_probation()).mark_meta(meta.own, facts.requests());
            return own.map(|own| QdMeta {
                own,
                main: meta.main,
            });
        }
        let main = self.main.mark(facts, slot, meta.main);
        main.map(|main| QdMeta {
            own: meta.own,
            main,
        })
    }

    #[inline]
    fn reorder(&mut self, cells: &mut impl Cells<Self::Meta>, slot: Slot) {
        let meta = cells.get(slot);
        if !is_in_main(meta.own) || P::ON_HIT != OnHit::Reorder {
            if let Some(meta) = self.mark(cells, slot, meta) {
                cells.set(slot, meta);
            }
        } else {
            self.main.reorder(&mut MainCells(cells, PhantomData), slot);
        }
    }

    fn reweigh(&mut self, cells: &mut impl Cells<Self::Meta>, slot: Slot, old_weight: u32) {
        let own = cells.get(slot).own;
        let (old, new) = (u64::from(old_weight), Self::weigh(cells, slot));
        if is_in_main(own) {
            self.main_weight = self.main_weight - old + new;
            self.main
                .reweigh(&mut MainCells(cells, PhantomData), slot, old_weight);
        } else if !is_waiting(own) {
            self.small.reweigh(cells, slot, old_weight);
        }
    }

    fn moved(&mut self, cells: &mut impl Cells<Self::Meta>, old: Slot, new: Slot) {
        let own = cells.get(new).own;
        if is_in_main(own) {
            self.main
                .moved(&mut MainCells(cells, PhantomData), old, new);
        } else if is_waiting(own) {
            self.waiting = Some(new);
        } else {
            self.small.moved(cells, new);
        }
    }

    fn remove(&mut self, cells: &mut impl Cells<Self::Meta>, slot: Slot) {
        let own = cells.get(slot).own;
        let weight = Self::weigh(cells, slot);
        if is_in_main(own) {
            self.main_live -= 1;
            self.main_weight -= weight;
            self.main.remove(&mut MainCells(cells, PhantomData), slot);
        } else if is_waiting(own) {
            self.waiting = None;
        } else {
            self.small.remove(cells, slot);
        }
        cells.set(slot, QdMeta::default());
    }

    fn evict(&mut self, cells: &mut impl Cells<Self::Meta>, budget: &mut Budget) -> Eviction {
        loop {
            self.settle(cells);
            if self.small.is_empty() && self.main_live == 0 {
                return Eviction::Empty;
            }
            if self.waiting.is_some() || self.small.is_empty() {
                let victim = self.main.evict(&mut MainCells(cells, PhantomData), budget);
                let Eviction::Victim(slot) = victim else {
                    return Eviction::Again;
                };
                self.main_live -= 1;
                self.main_weight -= Self::weigh(cells, slot);
                cells.set(slot, QdMeta::default());
                return victim;
            }
            if !budget.spend() {
                return Eviction::Again;
            }
            if let Some(slot) = self.step_small(cells) {
                cells.set(slot, QdMeta::default());
                return Eviction::Victim(slot);
            }
        }
    }

    fn heap_bytes(&self) -> usize {
        self.small.heap_bytes() + self.main.heap_bytes() + self.ghost.heap_bytes()
    }

    fn check(&self, cells: &impl Cells<Self::Meta>) {
        self.small.check(cells);
        self.ghost.check();
        if let Some(slot) = self.waiting {
            assert!(cells.is_live(slot));
            assert!(is_waiting(cells.get(slot).own));
        }
        self.main.check(&MainView(cells, PhantomData));
    }
}

/// Number of samples tried in one step of main in order to find one of main's entries.
const TRIES: u64 = 3;

/// The host as main uses it: with main's own bits, and only main's entries.
struct MainCells<'a, C, M>(&'a mut C, PhantomData<M>);

/// Like [`MainCells`], but read-only.
struct MainView<'a, C, M>(&'a C, PhantomData<M>);

macro_rules! main_sees {
    ($cells:ident) => {
        impl<M: Copy + Default, C: Cells<QdMeta<M>>> Facts for $cells<'_, C, M> {
            crate::delegate_facts!(0: now requests weight key_hash deadline len next_access);
            #[inline]
            fn is_live(&self, slot: Slot) -> bool {
                self.0.is_live(slot) && is_in_main(self.0.get(slot).own)
            }
            fn sample(&self, random: u64) -> Option<Slot> {
                let samples = (0..TRIES).map(|number| self.0.sample(scramble(random ^ number)));
                samples
                    .flatten()
                    .find(|&slot| is_in_main(self.0.get(slot).own))
            }
        }
    };
}
main_sees!(MainCells);
main_sees!(MainView);

impl<M: Copy + Default, C: Cells<QdMeta<M>>> Cells<M> for MainCells<'_, C, M> {
    #[inline]
    fn get(&self, slot: Slot) -> M {
        self.0.get(slot).main
    }
    #[inline]
    fn set(&mut self, slot: Slot, main: M) {
        let own = self.0.get(slot).own;
        self.0.set(slot, QdMeta { own, main });
    }
}

impl<M: Copy + Default, C: Cells<QdMeta<M>>> Cells<M> for MainView<'_, C, M> {
    fn get(&self, slot: Slot) -> M {
        self.0.get(slot).main
    }
    fn set(&mut self, _slot: Slot, _main: M) {
        unreachable!("a check only reads: it has the cells by shared reference");
    }
}

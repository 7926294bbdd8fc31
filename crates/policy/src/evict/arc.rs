//! ARC, an adaptive replacement cache: `arc`, `arc-sieve`, `arc-fifo-reinsertion`.
//!
//! # Idea
//! Two LRU lists: T1 holds entries seen once recently, T2 those seen again. Each has a ghost list
//! of the keys that it lost, B1 and B2. A miss whose key is in B1 shows that T1 was too short, one
//! in B2 that T2 was; the aim *p* for T1's length is moved accordingly.
//!
//! Quick demotion does not need T2 to be an LRU list: `arc-sieve` has a SIEVE there,
//! `arc-fifo-reinsertion` a FIFO that spares an entry once after a hit. (T1 is a FIFO in any case,
//! because a hit takes its entry out.)
//!
//! # Source
//! N. Megiddo, D. S. Modha, *ARC: a self-tuning, low overhead replacement cache*, FAST 2003,
//! <https://www.usenix.org/conference/fast-03/arc-self-tuning-low-overhead-replacement-cache>. The
//! other two: chapters 9.5.2 and 7.5 in J. Yang, *Designing Efficient and Scalable Key-value Cache
//! Management Systems*, CMU 2024. ARC compared with libCacheSim 0.3.5.
//!
//! # State
//! Per entry: 8 bytes (two links of 31 bits, which list, whether marked). Besides: up to one ghost
//! per entry at about 30 bytes (see [`history`](crate::parts::history)).
//!
//! # Cost
//! hit, insert, remove, evict O(1); without the LRU list one step per entry spared · miss: a
//! look-up in two hash tables.
//!
//! # Knobs
//! None.
//!
//! # Departures
//! All lengths are weights. The aim moves by the weight of the returning entry; the source, whose
//! pages are equal, moves it by one, which in steps of one byte would hardly move it. (Twitter
//! trace, a tenth of its bytes: 0.131 of all requests miss, 0.136 with steps of a byte; the
//! reference has such steps and 0.152, more than LRU's 0.137.) An eviction without a miss (the
//! cache shrinks) is the source's REPLACE, and drops a ghost for each that it adds beyond twice the
//! capacity. (Ghosts as fingerprints, at 5 bytes, were tried: the adaptation amplifies their small
//! errors, and miss ratios differed by up to 10 % either way.)
//!
//! # Avoid when
//! Memory per entry or hits on several threads matter; loops longer than the cache. The patent (US
//! 6,996,676) has expired.

use crate::parts::history::History;
use crate::parts::list::{List, Node};
use crate::parts::shelf::{LruShelf, ReinsertionShelf, Shelf, SieveShelf};
use crate::{Admit, Budget, Cells, Eviction, Facts, OnHit, Policy, Slot};

/// Index of T1 and B1.
const ONCE: usize = 0;
/// Index of T2 and B2.
const AGAIN: usize = 1;

/// The missed key that is about to be inserted.
#[derive(Clone, Copy, Debug)]
struct Incoming {
    key_hash: u64,
    weight: u64,
    /// Ghost list in which the key was found.
    found: Option<usize>,
}

/// A shelf that can be T2.
pub trait Again: Shelf {
    /// Name of ARC with this shelf.
    const ARC_NAME: &'static str;
}

impl Again for LruShelf {
    const ARC_NAME: &'static str = "arc";
}
impl Again for SieveShelf {
    const ARC_NAME: &'static str = "arc-sieve";
}
impl Again for ReinsertionShelf {
    const ARC_NAME: &'static str = "arc-fifo-reinsertion";
}

/// The ARC policy with the shelf `S` as T2.
#[derive(Clone, Debug)]
pub struct Arc<S = LruShelf> {
    once: List,
    again: S,
    weight: [u64; 2],
    ghosts: [History; 2],
    /// Target weight of T1.
    aim: f64,
    capacity: u64,
    incoming: Option<Incoming>,
    /// List from which the current eviction takes its victim, and whether the victim leaves a
    /// ghost.
    cutting: Option<(usize, bool)>,
}

/// Returns the index of the list that the entry is in.
#[inline]
fn list_of(node: Node) -> usize {
    usize::from(node.list()) & AGAIN
}

impl<S: Again> Arc<S> {
    #[inline]
    fn is_empty(&self, list: usize) -> bool {
        if list == ONCE {
            self.once.is_empty()
        } else {
            self.again.list().is_empty()
        }
    }

    #[inline]
    fn unlink(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        let list = list_of(cells.get(slot));
        if list == ONCE {
            self.once.unlink(cells, slot);
        } else {
            self.again.unlink(cells, slot);
        }
        self.weight[list] -= u64::from(cells.weight(slot));
    }

    #[inline]
    fn push(&mut self, cells: &mut impl Cells<Node>, slot: Slot, list: usize) {
        if list == ONCE {
            self.once.push(cells, slot);
        } else {
            self.again.push(cells, slot);
        }
        self.weight[list] += u64::from(cells.weight(slot));
    }

    /// Returns the list that must give up an entry: the source's REPLACE.
    fn list_to_cut(&self, found: Option<usize>) -> usize {
        let once = self.weight[ONCE] as f64;
        let is_over = once > self.aim || (once == self.aim && found == Some(AGAIN));
        let cuts_once = (!self.is_empty(ONCE) && is_over) || self.is_empty(AGAIN);
        if cuts_once { ONCE } else { AGAIN }
    }

    /// Drops a ghost if the directory would exceed its bounds: c for T1 and B1, and 2 c for all
    /// lists, in a cache of weight c. This is the source's case IV. Returns false if B1 is empty
    /// and T1 alone fills its share; then the victim leaves no ghost.
    fn make_room_in_directory(&mut self, incoming: Incoming) -> bool {
        let once = self.weight[ONCE] + self.ghosts[ONCE].weight();
        if once + incoming.weight > self.capacity {
            return self.ghosts[ONCE].pop().is_some();
        }
        if once + self.weight[AGAIN] + self.ghosts[AGAIN].weight()
            >= self.capacity.saturating_mul(2)
        {
            self.ghosts[AGAIN].pop();
        }
        true
    }

    /// Drops ghosts so that the directory stays within twice the capacity, when there is no missed
    /// key by which to choose the ghost.
    fn bound_directory(&mut self) {
        let ghosts = [self.ghosts[ONCE].weight(), self.ghosts[AGAIN].weight()];
        let all = self.weight[ONCE] + self.weight[AGAIN] + ghosts[ONCE] + ghosts[AGAIN];
        if all >= self.capacity.saturating_mul(2) {
            self.ghosts[usize::from(ghosts[AGAIN] > ghosts[ONCE])].pop();
        }
    }

    /// Returns the list that the next victim comes from, and whether the victim leaves a ghost.
    fn choose(&mut self) -> (usize, bool) {
        let (mut list, mut leaves_ghost) = (None, true);
        match self.incoming {
            Some(incoming) if incoming.found.is_none() => {
                leaves_ghost = self.make_room_in_directory(incoming);
                list = (!leaves_ghost && !self.is_empty(ONCE)).then_some(ONCE);
            }
            _ => self.bound_directory(),
        }
        let found = self.incoming.and_then(|incoming| incoming.found);
        (
            list.unwrap_or_else(|| self.list_to_cut(found)),
            leaves_ghost,
        )
    }
}

impl<S: Again> Policy for Arc<S> {
    type Meta = Node;
    type Config = ();
    const NAME: &'static str = S::ARC_NAME;
    const ON_HIT: OnHit = OnHit::Reorder;

    fn new(capacity: u64, _config: &(), _seed: u64) -> Self {
        Arc {
            once: List::new(ONCE as u8),
            again: S::new(AGAIN as u8),
            weight: [0, 0],
            ghosts: [History::new(), History::new()],
            aim: 0.0,
            capacity,
            incoming: None,
            cutting: None,
        }
    }

    fn resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.aim = self.aim.min(capacity as f64);
    }

    fn miss(&mut self, _facts: &impl Facts, key_hash: u64, weight: u32) -> Admit {
        let [once, again] = [ONCE, AGAIN].map(|list| self.ghosts[list].weight().max(1) as f64);
        let found = if self.ghosts[ONCE].take(key_hash).is_some() {
            let step = (again / once).max(1.0) * f64::from(weight);
            self.aim = (self.aim + step).min(self.capacity as f64);
            Some(ONCE)
        } else if self.ghosts[AGAIN].take(key_hash).is_some() {
            let step = (once / again).max(1.0) * f64::from(weight);
            self.aim = (self.aim - step).max(0.0);
            Some(AGAIN)
        } else {
            None
        };
        self.incoming = Some(Incoming {
            key_hash,
            weight: u64::from(weight),
            found,
        });
        Admit::Yes
    }

    fn insert(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        let incoming = self.incoming.take();
        let incoming = incoming.filter(|incoming| incoming.key_hash == cells.key_hash(slot));
        let is_back = incoming.is_some_and(|incoming| incoming.found.is_some());
        let list = if is_back { AGAIN } else { ONCE };
        self.push(cells, slot, list);
    }

    #[inline]
    fn reorder(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        if list_of(cells.get(slot)) == AGAIN {
            self.again.hit(cells, slot);
            return;
        }
        self.unlink(cells, slot);
        self.push(cells, slot, AGAIN);
    }

    fn reweigh(&mut self, cells: &mut impl Cells<Node>, slot: Slot, old_weight: u32) {
        let list = list_of(cells.get(slot));
        let weight = self.weight[list] - u64::from(old_weight);
        self.weight[list] = weight + u64::from(cells.weight(slot));
    }

    fn moved(&mut self, cells: &mut impl Cells<Node>, old: Slot, new: Slot) {
        if list_of(cells.get(new)) == ONCE {
            self.once.moved(cells, new);
        } else {
            self.again.moved(cells, old, new);
        }
    }

    fn remove(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        self.unlink(cells, slot);
    }

    fn evict(&mut self, cells: &mut impl Cells<Node>, budget: &mut Budget) -> Eviction {
        if self.is_empty(ONCE) && self.is_empty(AGAIN) {
            return Eviction::Empty;
        }
        while budget.spend() {
            let cutting = self.cutting.take().filter(|cut| !self.is_empty(cut.0));
            let (list, leaves_ghost) = cutting.unwrap_or_else(|| self.choose());
            let victim = if list == ONCE {
                self.once.pop(cells)
            } else {
                self.again.step(cells)
            };
            let Some(victim) = victim else {
                self.cutting = Some((list, leaves_ghost));
                continue;
            };
            let weight = cells.weight(victim);
            self.weight[list] -= u64::from(weight);
            if leaves_ghost {
                self.ghosts[list].push(cells.key_hash(victim), weight, ());
            }
            return Eviction::Victim(victim);
        }
        Eviction::Again
    }

    fn heap_bytes(&self) -> usize {
        self.ghosts.iter().map(History::heap_bytes).sum()
    }

    fn check(&self, cells: &impl Cells<Node>) {
        assert_eq!(self.once.check(cells), self.weight[ONCE]);
        assert_eq!(self.again.check(cells), self.weight[AGAIN]);
        self.ghosts.iter().for_each(History::check);
        assert!(self.aim >= 0.0);
        assert!(self.aim <= self.capacity as f64);
    }
}

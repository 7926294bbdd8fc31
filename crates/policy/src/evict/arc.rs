//! ARC: an adaptive replacement cache.
//!
//! # Idea
//! Two LRU lists: T1 holds what was seen once lately, T2 what was seen again. Each has a ghost list
//! of what it lost, B1 and B2. A miss that finds its key in B1 says that T1 was too short, one in B2
//! that T2 was: the aim *p* for T1's length follows.
//!
//! # Source
//! N. Megiddo, D. S. Modha, *ARC: a self-tuning, low overhead replacement cache*, FAST 2003,
//! <https://www.usenix.org/conference/fast-03/arc-self-tuning-low-overhead-replacement-cache>.
//! Compared with libCacheSim 0.3.5.
//!
//! # State
//! Per entry: 8 bytes (two links of 31 bits, which list). Besides: up to one ghost per entry at
//! about 30 bytes (see [`history`](crate::parts::history)).
//!
//! # Cost
//! hit, insert, remove, evict O(1) · miss: a look into two hash tables.
//!
//! # Knobs
//! None.
//!
//! # Departures
//! All lengths are weights, and the aim moves by the weight of what came back where the source, whose
//! pages are equal, moves it by one: in steps of one byte it would hardly move. (Twitter trace, a tenth
//! of its bytes: 0.131 of all requests miss, 0.136 with steps of a byte; the reference has such steps
//! and 0.152, more than LRU's 0.137.) An eviction that no miss asks for (the cache shrinks) is the source's
//! REPLACE, and drops a ghost for each that it adds beyond twice the capacity. (Ghosts as
//! fingerprints, at 5 bytes, were tried: the adaptation amplifies their small errors; miss ratios
//! differed by up to 10 % either way.)
//!
//! # Avoid when
//! Memory per entry or hits on several threads matter; loops longer than the cache. The patent
//! (US 6,996,676) has run out.

use crate::parts::history::History;
use crate::parts::list::{List, Node};
use crate::{Admit, Budget, Cells, Eviction, Facts, OnHit, Policy, Slot};

/// T1 and B1.
const ONCE: usize = 0;
/// T2 and B2.
const AGAIN: usize = 1;

/// The miss that is about to be inserted.
#[derive(Clone, Copy, Debug)]
struct Incoming {
    key_hash: u64,
    weight: u64,
    /// The ghost list that remembered it.
    found: Option<usize>,
}

/// ARC.
#[derive(Clone, Debug)]
pub struct Arc {
    lists: [List; 2],
    weight: [u64; 2],
    ghosts: [History; 2],
    /// The weight that T1 aims at.
    aim: f64,
    capacity: u64,
    incoming: Option<Incoming>,
}

impl Arc {
    /// The source's REPLACE: which list gives way.
    fn list_to_cut(&self, found: Option<usize>) -> usize {
        let once = self.weight[ONCE] as f64;
        let is_over = once > self.aim || (once == self.aim && found == Some(AGAIN));
        let cuts_once = (!self.lists[ONCE].is_empty() && is_over) || self.lists[AGAIN].is_empty();
        if cuts_once { ONCE } else { AGAIN }
    }

    /// The directory of a cache of weight c remembers c in T1 and B1, 2 c in all: the source's case
    /// IV drops a ghost. False when B1 is empty and T1 alone fills it: its victim leaves no ghost.
    fn make_room_in_directory(&mut self, incoming: Incoming) -> bool {
        let once = self.weight[ONCE] + self.ghosts[ONCE].weight();
        if once + incoming.weight > self.capacity {
            return self.ghosts[ONCE].pop().is_some();
        }
        if once + self.weight[AGAIN] + self.ghosts[AGAIN].weight() >= 2 * self.capacity {
            self.ghosts[AGAIN].pop();
        }
        true
    }
}

impl Arc {
    /// Without a miss that says what to drop: the directory stays within twice the capacity.
    fn bound_directory(&mut self) {
        let ghosts = [self.ghosts[ONCE].weight(), self.ghosts[AGAIN].weight()];
        let all = self.weight[ONCE] + self.weight[AGAIN] + ghosts[ONCE] + ghosts[AGAIN];
        if all >= 2 * self.capacity {
            self.ghosts[usize::from(ghosts[AGAIN] > ghosts[ONCE])].pop();
        }
    }
}

impl Policy for Arc {
    type Meta = Node;
    type Config = ();
    const NAME: &'static str = "arc";
    const ON_HIT: OnHit = OnHit::Reorder;

    fn new(capacity: u64, _config: &(), _seed: u64) -> Self {
        Arc {
            lists: [List::new(ONCE as u8), List::new(AGAIN as u8)],
            weight: [0, 0],
            ghosts: [History::new(), History::new()],
            aim: 0.0,
            capacity,
            incoming: None,
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
        self.lists[list].push(cells, slot);
        self.weight[list] += u64::from(cells.weight(slot));
    }

    #[inline]
    fn reorder(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        if usize::from(cells.get(slot).list()) == AGAIN {
            self.lists[AGAIN].promote(cells, slot);
            return;
        }
        let weight = u64::from(cells.weight(slot));
        self.lists[ONCE].unlink(cells, slot);
        self.weight[ONCE] -= weight;
        self.lists[AGAIN].push(cells, slot);
        self.weight[AGAIN] += weight;
    }

    fn reweigh(&mut self, cells: &mut impl Cells<Node>, slot: Slot, old_weight: u32) {
        let list = usize::from(cells.get(slot).list());
        let weight = self.weight[list] - u64::from(old_weight);
        self.weight[list] = weight + u64::from(cells.weight(slot));
    }

    fn moved(&mut self, cells: &mut impl Cells<Node>, _old: Slot, new: Slot) {
        let list = usize::from(cells.get(new).list());
        self.lists[list].moved(cells, new);
    }

    fn remove(&mut self, cells: &mut impl Cells<Node>, slot: Slot) {
        let list = usize::from(cells.get(slot).list());
        self.lists[list].unlink(cells, slot);
        self.weight[list] -= u64::from(cells.weight(slot));
    }

    fn evict(&mut self, cells: &mut impl Cells<Node>, budget: &mut Budget) -> Eviction {
        if self.lists.iter().all(List::is_empty) {
            return Eviction::Empty;
        }
        if !budget.spend() {
            return Eviction::Again;
        }
        let (mut list, mut leaves_ghost) = (None, true);
        match self.incoming {
            Some(incoming) if incoming.found.is_none() => {
                leaves_ghost = self.make_room_in_directory(incoming);
                list = (!leaves_ghost && !self.lists[ONCE].is_empty()).then_some(ONCE);
            }
            _ => self.bound_directory(),
        }
        let found = self.incoming.and_then(|incoming| incoming.found);
        let list = list.unwrap_or_else(|| self.list_to_cut(found));
        let victim = self.lists[list]
            .pop(cells)
            .expect("the list to cut has entries");
        let weight = cells.weight(victim);
        self.weight[list] -= u64::from(weight);
        if leaves_ghost {
            self.ghosts[list].push(cells.key_hash(victim), weight, ());
        }
        Eviction::Victim(victim)
    }

    fn heap_bytes(&self) -> usize {
        self.ghosts.iter().map(History::heap_bytes).sum()
    }

    fn check(&self, cells: &impl Cells<Node>) {
        for list in [ONCE, AGAIN] {
            assert_eq!(self.lists[list].check(cells), self.weight[list]);
            self.ghosts[list].check();
        }
        assert!(self.aim >= 0.0);
        assert!(self.aim <= self.capacity as f64);
    }
}

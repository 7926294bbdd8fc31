//! CLOCK-Pro: LIRS with marks instead of a stack.
//!
//! # Idea
//! All entries are in one clock, hot ones and cold ones, and only cold ones are evicted. A new
//! entry is cold and in its *test period*, which can outlast its eviction: if the key is requested
//! again before the period ends, the entry becomes hot. The period ends when the hand of the hot
//! entries passes, that is, when the entry has waited longer than a hot one. The weight reserved
//! for cold entries, *m_c*, grows with each that is requested again in its test period and shrinks
//! with each that is not.
//!
//! In CLOCK-Pro+ (`clock-pro-plus`) *m_c* follows what each kind of entry would have gained, as in
//! ARC: it grows when an evicted entry is requested again in its test period, and shrinks when an
//! entry that was hot before is requested. The scarcer of the two kinds moves it by as much more.
//!
//! # Source
//! S. Jiang, F. Chen, X. Zhang, *CLOCK-Pro: an effective improvement of the CLOCK replacement*,
//! USENIX ATC 2005,
//! <https://www.usenix.org/conference/2005-usenix-annual-technical-conference/clock-pro-effective-improvement-clock-replacement>.
//! On `lirs_multi3` at 745 objects this misses 0.524, and the authors' `clock-pro.c` about 0.518.
//! CLOCK-Pro+: C. Li, *CLOCK-Pro+: improving CLOCK-Pro cache replacement with utility-driven
//! adaptation*, SYSTOR 2019, <https://doi.org/10.1145/3319647.3325838>; the text was not available,
//! so that this follows its description and implementation in Caffeine's simulator, which names the
//! author's code as its reference.
//!
//! # State
//! Per entry: 4 bytes (a mark, the number of its node) and a node of 48 bytes; as much, and 4 bytes
//! in a table, for each evicted entry in its test period: these weigh up to the capacity.
//!
//! # Cost
//! hit 0 or one write of the entry's bits · miss: a look-up in a hash table · insert, remove O(1) ·
//! evict: one step per entry passed by a hand; all may be marked, and the budget can end the round
//! anywhere.
//!
//! # Knobs
//! None.
//!
//! # Departures
//! The clock is three lists in one order: hot entries, entries in their test period, and cold
//! entries held. Each hand is at the oldest of its list, and a number in each node shows which of
//! two was passed first. A cold entry that HAND_hot passes keeps its turn with HAND_cold, because
//! it is the farthest from the head of the clock.
//!
//! Until the first eviction new entries are hot, up to the capacity less m_c, and then cold, as in
//! the authors' code; the source does not say how the cache is filled.
//!
//! HAND_hot runs when room is made, not already when an entry becomes hot. The source does not say
//! what happens to a marked cold entry whose test is ended by another hand than HAND_cold; here the
//! test ends without a change of m_c. Nor does it say where m_c begins: here at a hundredth of the
//! capacity, as in LIRS. All lengths are weights, and m_c moves by the weight of the entry.
//!
//! In CLOCK-Pro+ m_c is at most half of the capacity, as in its reference. A request for an entry
//! that was hot before is noticed by HAND_cold; in the reference by HAND_hot, too, if that hand
//! passes first. Evicted entries weigh up to the capacity; in the reference up to twice that.
//!
//! # Avoid when
//! Memory per entry matters; one mark per round carries less information than LIRS has.

use crate::marker::Count;
use crate::parts::lookup::{Lookup, keyed};
use crate::parts::pool::{Chain, Links, Pool, chained};
use crate::{Admit, Budget, Cells, Eviction, Facts, Marker, OnHit, Policy, Slot};

/// List number of the list of hot entries, and of the list of entries in their test period.
const CLOCK: usize = 0;
/// List number of the list of cold entries that are held.
const QUEUE: usize = 1;
/// Maximum number of tests that one call ends to bound the evicted entries; each call begins at
/// most one.
const STEPS_MAX: usize = 4;
/// Divisor of the capacity that gives the initial and minimum m_c.
const COLD_SHARE: u64 = 100;

/// The entry's bits:
/// ```text
/// bit  31      30       0
///   [marked][node's number]
/// ```
const MARKED: u32 = 1 << 31;

#[inline]
fn index_of(meta: u32) -> u32 {
    meta & !MARKED
}

/// State of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Status {
    Hot,
    Cold,
    /// Evicted, in its test period.
    Gone,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    key_hash: u64,
    /// Position in the order in which nodes were put at the head of the clock.
    stamp: u64,
    slot: Slot,
    weight: u32,
    clock: Links,
    queue: Links,
    /// Next node in the same bucket of the hash table.
    chain: u32,
    status: Status,
    /// Whether the node is in the list of test periods; HAND_hot may have passed it already.
    is_tested: bool,
    /// Whether a cold entry was hot and has not been requested since. In CLOCK-Pro+ only.
    is_demoted: bool,
}

const _: () = assert!(size_of::<Node>() == 48);

chained!(Node, CLOCK => clock);
chained!(Node, QUEUE => queue);
keyed!(Node);

/// The CLOCK-Pro policy; CLOCK-Pro+ with `PLUS`.
#[derive(Clone, Debug)]
pub struct ClockPro<const PLUS: bool = false> {
    nodes: Pool<Node>,
    /// Index of the evicted entries by key.
    lookup: Lookup,
    /// Hot entries; HAND_hot is at the old end.
    hot: Chain<CLOCK>,
    /// Entries in their test period; HAND_test is at the old end.
    tested: Chain<CLOCK>,
    /// Cold entries held; HAND_cold is at the old end.
    cold: Chain<QUEUE>,
    hot_weight: u64,
    gone_weight: u64,
    /// Weight of the cold entries that were hot and have not been requested since. In CLOCK-Pro+
    /// only.
    demoted_weight: u64,
    /// m_c: target weight of the cold entries held.
    cold_aim: u64,
    capacity: u64,
    /// Number of nodes that were put at the head of the clock so far.
    now: u64,
    /// Key that was found in its test period and is about to be inserted.
    returning: Option<u64>,
    /// Whether an entry was evicted. Until then, new entries are hot while there is room.
    has_evicted: bool,
}

impl<const PLUS: bool> ClockPro<PLUS> {
    fn cold_aim_min(&self) -> u64 {
        (self.capacity / COLD_SHARE).max(1)
    }

    fn cold_aim_max(&self) -> u64 {
        let most = if PLUS {
            self.capacity / 2
        } else {
            self.capacity
        };
        most.max(self.cold_aim_min())
    }

    /// Raises m_c.
    fn widen(&mut self, weight: u64) {
        self.cold_aim = self
            .cold_aim
            .saturating_add(weight)
            .min(self.cold_aim_max());
    }

    /// Lowers m_c.
    fn narrow(&mut self, weight: u64) {
        let aim = self.cold_aim.saturating_sub(weight);
        self.cold_aim = aim.max(self.cold_aim_min());
    }

    /// Handles a request for an evicted entry in its test period.
    fn count_return(&mut self, weight: u32) {
        let times = if PLUS {
            self.demoted_weight / self.gone_weight.max(1)
        } else {
            1
        };
        self.widen(u64::from(weight).saturating_mul(times.max(1)));
    }

    /// Handles a request for a held entry in its test period.
    fn count_tested(&mut self, weight: u32) {
        if !PLUS {
            self.widen(u64::from(weight));
        }
    }

    /// Handles the end of a test period without another request.
    fn count_untested(&mut self, weight: u32) {
        if !PLUS {
            self.narrow(u64::from(weight));
        }
    }

    /// Handles a request for an entry that was hot before.
    fn count_demoted(&mut self, weight: u32) {
        let times = self.gone_weight / self.demoted_weight.max(1);
        self.narrow(u64::from(weight).saturating_mul(times.max(1)));
    }

    /// Removes the sign that a cold entry was hot. Returns whether there was one.
    fn clear_demoted(&mut self, index: u32) -> bool {
        let node = self.nodes.at_mut(index);
        let is_demoted = core::mem::take(&mut node.is_demoted);
        if is_demoted {
            self.demoted_weight -= u64::from(node.weight);
        }
        is_demoted
    }

    #[inline]
    fn stamp(&mut self, index: u32, status: Status) {
        self.now += 1;
        let node = self.nodes.at_mut(index);
        node.stamp = self.now;
        node.status = status;
    }

    /// Puts a node that is in no list at the head of the clock, as a hot entry.
    fn add_hot(&mut self, index: u32) {
        self.stamp(index, Status::Hot);
        self.hot_weight += u64::from(self.nodes.at(index).weight);
        self.hot.push(&mut self.nodes, index);
    }

    /// Puts a node that is in no list at the head of the clock, as a cold entry in its test period.
    fn add_tested(&mut self, index: u32) {
        self.stamp(index, Status::Cold);
        self.nodes.at_mut(index).is_tested = true;
        self.tested.push(&mut self.nodes, index);
        self.cold.push(&mut self.nodes, index);
    }

    fn leave_test(&mut self, index: u32) {
        self.nodes.at_mut(index).is_tested = false;
        self.tested.unlink(&mut self.nodes, index);
    }

    /// Takes the node of a held entry out of its lists.
    fn unlink(&mut self, index: u32) {
        let node = self.nodes.at(index);
        if node.status == Status::Hot {
            self.hot_weight -= u64::from(node.weight);
            self.hot.unlink(&mut self.nodes, index);
            return;
        }
        self.cold.unlink(&mut self.nodes, index);
        self.clear_demoted(index);
        if node.is_tested {
            self.leave_test(index);
        }
    }

    /// Drops an evicted entry.
    fn forget(&mut self, index: u32) {
        self.gone_weight -= u64::from(self.nodes.at(index).weight);
        self.leave_test(index);
        self.lookup.remove(&mut self.nodes, index);
        self.nodes.remove(index);
    }

    /// Ends the test period of a node.
    fn end_test(&mut self, cells: &impl Cells<u32>, index: u32) {
        let node = self.nodes.at(index);
        if node.status == Status::Gone {
            self.forget(index);
            self.count_untested(node.weight);
            return;
        }
        self.leave_test(index);
        if cells.get(node.slot) & MARKED == 0 {
            self.count_untested(node.weight);
        }
    }

    /// Whether HAND_hot has passed a node of the clock.
    #[inline]
    fn is_passed(&self, node: &Node) -> bool {
        let hand = self.hot.oldest();
        hand.is_some_and(|hand| node.stamp < self.nodes.at(hand).stamp)
    }

    /// Returns the oldest node in its test period, if HAND_hot has passed it.
    #[inline]
    fn passed(&self) -> Option<u32> {
        let oldest = self.tested.oldest()?;
        self.is_passed(&self.nodes.at(oldest)).then_some(oldest)
    }

    /// Advances HAND_hot: a marked hot entry stays hot, an unmarked one becomes cold.
    fn turn_hot(&mut self, cells: &mut impl Cells<u32>) {
        let oldest = self.hot.oldest();
        let index = oldest.expect("some entry is held, and none is cold or the hot weigh too much");
        let slot = self.nodes.at(index).slot;
        self.unlink(index);
        if cells.get(slot) & MARKED != 0 {
            cells.set(slot, index);
            self.add_hot(index);
        } else {
            self.stamp(index, Status::Cold);
            self.cold.push(&mut self.nodes, index);
            if PLUS {
                let node = self.nodes.at_mut(index);
                node.is_demoted = true;
                self.demoted_weight += u64::from(node.weight);
            }
        }
    }

    /// Advances HAND_cold: the cold entry there is evicted unless it is marked.
    fn turn_cold(&mut self, cells: &mut impl Cells<u32>) -> Option<Slot> {
        let index = self.cold.oldest()?;
        let node = self.nodes.at(index);
        if cells.get(node.slot) & MARKED != 0 {
            cells.set(node.slot, index);
            if node.is_demoted {
                self.count_demoted(node.weight);
            }
            self.unlink(index);
            if node.is_tested {
                self.count_tested(node.weight);
                self.add_hot(index);
            } else {
                self.add_tested(index);
            }
            return None;
        }
        self.cold.unlink(&mut self.nodes, index);
        self.clear_demoted(index);
        if node.is_tested {
            self.nodes.at_mut(index).status = Status::Gone;
            self.gone_weight += u64::from(node.weight);
            self.lookup.add(&mut self.nodes, index);
        } else {
            self.nodes.remove(index);
        }
        Some(node.slot)
    }

    /// Advances HAND_test: ends tests while the evicted entries weigh more than the capacity, a few
    /// per call.
    fn turn_test(&mut self, cells: &impl Cells<u32>) {
        for _ in 0..STEPS_MAX {
            if self.gone_weight <= self.capacity {
                return;
            }
            let oldest = self.tested.oldest();
            self.end_test(
                cells,
                oldest.expect("an evicted entry is in its test period"),
            );
        }
    }

    fn check_node(&self, cells: &impl Cells<u32>, index: u32, status: Status) -> Node {
        let node = self.nodes.at(index);
        assert_eq!(node.status, status);
        assert!(cells.is_live(node.slot));
        assert_eq!(index_of(cells.get(node.slot)), index);
        assert_eq!(cells.weight(node.slot), node.weight);
        assert_eq!(cells.key_hash(node.slot), node.key_hash);
        node
    }
}

impl<const PLUS: bool> Policy for ClockPro<PLUS> {
    type Meta = u32;
    type Config = ();
    const NAME: &'static str = if PLUS { "clock-pro-plus" } else { "clock-pro" };
    const ON_HIT: OnHit = OnHit::Mark;

    fn new(capacity: u64, _config: &(), _seed: u64) -> Self {
        let mut policy = ClockPro {
            nodes: Pool::new(),
            lookup: Lookup::new(),
            hot: Chain::new(),
            tested: Chain::new(),
            cold: Chain::new(),
            hot_weight: 0,
            gone_weight: 0,
            demoted_weight: 0,
            cold_aim: 0,
            capacity,
            now: 0,
            returning: None,
            has_evicted: false,
        };
        policy.cold_aim = policy.cold_aim_min();
        policy
    }

    fn resize(&mut self, capacity: u64) {
        self.capacity = capacity;
        self.cold_aim = self.cold_aim.min(self.cold_aim_max());
        self.cold_aim = self.cold_aim.max(self.cold_aim_min());
    }

    fn miss(&mut self, _facts: &impl Facts, key_hash: u64, _weight: u32) -> Admit {
        self.returning = None;
        if let Some(index) = self.lookup.find(&self.nodes, key_hash) {
            let node = self.nodes.at(index);
            if self.is_passed(&node) {
                self.count_untested(node.weight);
            } else {
                self.count_return(node.weight);
                self.returning = Some(key_hash);
            }
            self.forget(index);
        }
        Admit::Yes
    }

    fn insert(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        let key_hash = cells.key_hash(slot);
        // An entry that was removed, not evicted, and is inserted again without a miss may still
        // have a node.
        if let Some(known) = self.lookup.find(&self.nodes, key_hash) {
            self.forget(known);
        }
        let index = self.nodes.add(Node {
            key_hash,
            stamp: 0,
            slot,
            weight: cells.weight(slot),
            clock: Links::default(),
            queue: Links::default(),
            chain: 0,
            status: Status::Cold,
            is_tested: false,
            is_demoted: false,
        });
        assert!(index < MARKED, "a node's number takes 31 bits");
        cells.set(slot, index);
        let weight = self.hot_weight + u64::from(cells.weight(slot));
        let is_filling = !self.has_evicted && weight + self.cold_aim <= self.capacity;
        if self.returning.take() == Some(key_hash) || is_filling {
            self.add_hot(index);
        } else {
            self.add_tested(index);
        }
        self.turn_test(cells);
    }

    #[inline]
    fn marker(&self) -> Marker {
        Marker::Count(Count::bit(u64::from(MARKED)))
    }
    mark_by_marker!(u32);

    fn reweigh(&mut self, cells: &mut impl Cells<u32>, slot: Slot, old_weight: u32) {
        let node = self.nodes.at_mut(index_of(cells.get(slot)));
        node.weight = cells.weight(slot);
        if node.status == Status::Hot {
            let weight = self.hot_weight - u64::from(old_weight);
            self.hot_weight = weight + u64::from(node.weight);
        } else if node.is_demoted {
            let weight = self.demoted_weight - u64::from(old_weight);
            self.demoted_weight = weight + u64::from(node.weight);
        }
    }

    fn moved(&mut self, cells: &mut impl Cells<u32>, _old: Slot, new: Slot) {
        self.nodes.at_mut(index_of(cells.get(new))).slot = new;
    }

    fn remove(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        let index = index_of(cells.get(slot));
        self.unlink(index);
        self.nodes.remove(index);
        self.turn_test(cells);
    }

    fn evict(&mut self, cells: &mut impl Cells<u32>, budget: &mut Budget) -> Eviction {
        self.has_evicted = true;
        while !self.hot.is_empty() || !self.cold.is_empty() {
            if !budget.spend() {
                return Eviction::Again;
            }
            if let Some(index) = self.passed() {
                self.end_test(cells, index);
            } else if self.hot_weight > self.capacity.saturating_sub(self.cold_aim)
                || self.cold.is_empty()
            {
                self.turn_hot(cells);
            } else if let Some(slot) = self.turn_cold(cells) {
                self.turn_test(cells);
                return Eviction::Victim(slot);
            }
        }
        Eviction::Empty
    }

    fn heap_bytes(&self) -> usize {
        self.nodes.heap_bytes() + self.lookup.heap_bytes()
    }

    fn check(&self, cells: &impl Cells<u32>) {
        let (mut stamp, mut weight) = (0, 0);
        let hot = self.hot.members(&self.nodes);
        for &index in &hot {
            let node = self.check_node(cells, index, Status::Hot);
            assert!(!node.is_tested, "a list has it twice");
            assert!(node.stamp > stamp, "the clock is in order");
            stamp = node.stamp;
            weight += u64::from(node.weight);
        }
        assert_eq!(weight, self.hot_weight);
        let (mut stamp, mut weight) = (0, 0);
        let cold = self.cold.members(&self.nodes);
        for &index in &cold {
            let node = self.check_node(cells, index, Status::Cold);
            assert!(node.stamp > stamp, "the clock is in order");
            assert!(!node.is_demoted || !node.is_tested);
            stamp = node.stamp;
            weight += u64::from(node.weight) * u64::from(node.is_demoted);
        }
        assert_eq!(weight, self.demoted_weight);
        assert!(PLUS || weight == 0);
        let (mut stamp, mut weight, mut gone) = (0, 0, 0);
        for index in self.tested.members(&self.nodes) {
            let node = self.nodes.at(index);
            assert!(node.is_tested, "a member of the list says so");
            assert!(node.stamp > stamp, "the clock is in order");
            stamp = node.stamp;
            if node.status == Status::Gone {
                weight += u64::from(node.weight);
                gone += 1;
                assert_eq!(self.lookup.find(&self.nodes, node.key_hash), Some(index));
            }
        }
        assert_eq!(weight, self.gone_weight);
        assert_eq!(gone, self.lookup.len());
        assert_eq!(hot.len() + cold.len() + gone, self.nodes.len());
        assert!(self.cold_aim >= self.cold_aim_min());
        assert!(self.cold_aim <= self.cold_aim_max());
    }
}

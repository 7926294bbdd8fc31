//! `ranked`: every deadline in order and counted, about five bytes each. The default of elements.
//!
//! # Idea
//! A counted tree of two levels over leaves of up to 64 slots. Leaves are in full order, by
//! deadline and slot; a leaf has no order inside, so that an insertion writes one word. A query by
//! order sorts the leaf that it reaches: the first one when entries expire, those of the result
//! when they are listed. Each branch counts the entries below it, so *how many are dead* and *which
//! is the n-th to die* are answered by reading the entries of at most one leaf.
//!
//! Entries with the same deadline are returned in the order of their slots: a host that keeps
//! neighbours under neighbouring slots finds them close together.
//!
//! # Source
//! The counted B-tree, with unsorted leaves: R. Bayer, E. McCreight: Organization and Maintenance
//! of Large Ordered Indexes, Acta Informatica 1, 1972, <https://doi.org/10.1007/BF00288683>. Slots
//! without their keys in the leaves: P. Bohannon, P. McIlroy, R. Rastogi: Main-Memory Index
//! Structures with Fixed-Size Partial Keys, SIGMOD 2001, <https://doi.org/10.1145/375663.375681>,
//! with none of the key.
//!
//! # State
//! Per entry: nothing in the entry; 4 bytes in a leaf, which has room for up to 7 more, and its
//! share of the leaf's 40: 4.7 to 5.4 bytes. Besides: 48 bytes for each 256 leaves.
//!
//! # Cost
//! Insert and remove: two binary searches and a leaf's words. About every 32nd insertion reads the
//! 64 deadlines of a leaf that is split. An entry that moves or changes its deadline within its
//! leaf's bounds costs a search. Of many entries with one deadline only the last leaf is read.
//! `pop_expired` reads the first leaf's deadlines once, then returns its entries: a call reads up
//! to 64 entries more than its budget. In a hash of a million fields a first deadline costs some
//! 500 ns more than in the wheel, a changed one 900, and removing entries that died at one instant
//! a sixth (`cargo bench -p mayfly-store --bench elements -- 1000000 wheel`).
//!
//! # Knobs
//! None.
//!
//! # Departures
//! Two levels: with n entries a search, a rank and a backlog pass up to n/4,000 branches, some
//! hundred for a million, and 256 leaves. Where inserted entries are later than all others the last
//! leaf is not halved, but left full.
//!
//! # Avoid when
//! Deadlines are refreshed all the time and ranks are not needed: the wheel leaves such an entry
//! where it is.

use crate::{Budget, Cells, Due, ExpiryIndex, Facts, Slot, Tick};
use alloc::vec::Vec;

/// Maximum number of entries in a leaf.
const LEAF_MAX: usize = 64;
/// Number of entries below which a leaf is merged with a neighbour.
const LEAF_MIN: usize = 16;
/// Maximum number of entries in two leaves that are merged.
const LEAF_JOINED: usize = 48;
/// Maximum number of leaves in a branch.
const BRANCH_MAX: usize = 256;
/// Number of leaves below which a branch is merged with a neighbour.
const BRANCH_MIN: usize = 64;
/// Maximum number of leaves in two branches that are merged.
const BRANCH_JOINED: usize = 192;
/// Number of entries by which the allocation of a leaf grows. It fits the allocator's size classes.
const LEAF_STEP: usize = 8;
/// Number of leaves by which the allocation of a branch grows.
const BRANCH_STEP: usize = 16;

/// Sort key of an entry.
type Place = (Tick, Slot);

/// Entries whose places are at or after `low` and before the next leaf's.
struct Leaf {
    low: Place,
    slots: Vec<Slot>,
}

/// Leaves in order. There is at least one.
struct Branch {
    /// Value of `low` in the branch's first leaf.
    low: Place,
    /// Number of entries in the branch's leaves.
    count: usize,
    leaves: Vec<Leaf>,
}

/// Position of a leaf: the index of its branch, and its index in the branch.
type At = (usize, usize);

const FRONT: At = (0, 0);

/// The index; see the [module](self).
#[derive(Default)]
pub struct Ranked {
    branches: Vec<Branch>,
    len: usize,
    /// Lower bound of all deadlines.
    first: Tick,
    /// Whether the first leaf is sorted in descending order, so that the earliest entry is the
    /// last.
    is_front_sorted: bool,
    /// Bytes of the leaves and of the vectors that hold them.
    leaf_bytes: usize,
}

fn place_of(facts: &impl Facts, slot: Slot) -> Place {
    let deadline = facts.deadline(slot);
    (deadline.expect("an entry held has a deadline"), slot)
}

/// Grows the allocation by `step` items if it is full.
fn grow<T>(items: &mut Vec<T>, step: usize) {
    if items.len() == items.capacity() {
        items.reserve_exact(step);
    }
}

/// Shrinks the allocation if at least two steps of it are unused.
fn trim<T>(items: &mut Vec<T>, step: usize) {
    if items.capacity() - items.len() >= 2 * step {
        items.shrink_to(items.len().next_multiple_of(step));
    }
}

impl Ranked {
    fn leaf(&self, at: At) -> &Leaf {
        &self.branches[at.0].leaves[at.1]
    }

    /// Returns the leaf that a place is in, or would be in.
    #[inline]
    fn find(&self, place: Place) -> At {
        let branch = self.branches.partition_point(|branch| branch.low <= place);
        let branch = branch.saturating_sub(1);
        let leaves = &self.branches[branch].leaves;
        let leaf = leaves.partition_point(|leaf| leaf.low <= place);
        (branch, leaf.saturating_sub(1))
    }

    /// Returns the next leaf.
    fn next(&self, at: At) -> Option<At> {
        let (branch, leaf) = at;
        if leaf + 1 < self.branches[branch].leaves.len() {
            return Some((branch, leaf + 1));
        }
        (branch + 1 < self.branches.len()).then_some((branch + 1, 0))
    }

    /// Whether a place belongs to this leaf.
    fn is_within(&self, at: At, place: Place) -> bool {
        self.leaf(at).low <= place && self.next(at).is_none_or(|next| place < self.leaf(next).low)
    }

    /// Returns the places of a leaf's entries. If the next leaf begins at the same deadline, all
    /// have that deadline, and no entry is read.
    fn places(&self, facts: &impl Facts, at: At) -> Vec<Place> {
        let slots = self.leaf(at).slots.iter();
        let deadline = self.leaf(at).low.0;
        match self.next(at) {
            Some(next) if self.leaf(next).low.0 == deadline => {
                slots.map(|slot| (deadline, *slot)).collect()
            }
            _ => slots.map(|slot| place_of(facts, *slot)).collect(),
        }
    }

    fn sorted_places(&self, facts: &impl Facts, at: At) -> Vec<Place> {
        let mut places = self.places(facts, at);
        places.sort_unstable();
        places
    }

    /// Changes a leaf's entries and updates the counts.
    #[inline]
    fn change<R>(&mut self, at: At, change: impl FnOnce(&mut Vec<Slot>) -> R) -> R {
        let branch = &mut self.branches[at.0];
        let slots = &mut branch.leaves[at.1].slots;
        let (len, room) = (slots.len(), slots.capacity());
        let result = change(slots);
        branch.count = branch.count + slots.len() - len;
        self.len = self.len + slots.len() - len;
        self.leaf_bytes += slots.capacity() * size_of::<Slot>();
        self.leaf_bytes -= room * size_of::<Slot>();
        if at == FRONT {
            self.is_front_sorted = false;
        }
        result
    }

    /// Changes a branch's list of leaves and updates the count of bytes.
    fn change_branch<R>(&mut self, branch: usize, change: impl FnOnce(&mut Vec<Leaf>) -> R) -> R {
        if branch == 0 {
            self.is_front_sorted = false;
        }
        let leaves = &mut self.branches[branch].leaves;
        let room = leaves.capacity();
        let result = change(leaves);
        self.leaf_bytes += leaves.capacity() * size_of::<Leaf>();
        self.leaf_bytes -= room * size_of::<Leaf>();
        result
    }

    fn add(&mut self, facts: &impl Facts, place: Place) {
        self.first = match self.len {
            0 => place.0,
            _ => self.first.min(place.0),
        };
        if self.branches.is_empty() {
            self.push_branch(0, place, Vec::new());
            self.add_leaf((0, 0), place);
        }
        let mut at = self.find(place);
        if place < self.leaf(at).low {
            // The new entry becomes the first of all.
            assert_eq!(at, FRONT);
            self.branches[0].low = place;
            self.branches[0].leaves[0].low = place;
        }
        if self.leaf(at).slots.len() == LEAF_MAX {
            at = self.split(facts, at, place);
        }
        self.change(at, |slots| {
            grow(slots, LEAF_STEP);
            slots.push(place.1);
        });
    }

    fn push_branch(&mut self, at: usize, low: Place, leaves: Vec<Leaf>) {
        let count = leaves.iter().map(|leaf| leaf.slots.len()).sum();
        self.leaf_bytes += leaves.capacity() * size_of::<Leaf>();
        grow(&mut self.branches, BRANCH_STEP);
        self.branches.insert(at, Branch { low, count, leaves });
    }

    /// Adds an empty leaf, for which its branch may be split. Returns where the leaf is.
    fn add_leaf(&mut self, at: At, low: Place) -> At {
        let (branch, leaf) = at;
        self.change_branch(branch, |leaves| {
            grow(leaves, BRANCH_STEP);
            let slots = Vec::new();
            leaves.insert(leaf, Leaf { low, slots });
        });
        if self.branches[branch].leaves.len() <= BRANCH_MAX {
            return at;
        }
        let upper = self.change_branch(branch, |leaves| {
            let upper = leaves.split_off(BRANCH_MAX / 2);
            trim(leaves, BRANCH_STEP);
            upper
        });
        self.push_branch(branch + 1, upper[0].low, upper);
        self.branches[branch].count -= self.branches[branch + 1].count;
        if leaf < BRANCH_MAX / 2 {
            at
        } else {
            (branch + 1, leaf - BRANCH_MAX / 2)
        }
    }

    /// Makes room in a full leaf. Its later half moves to a new leaf after it; if the new place is
    /// the last of all, the new leaf stays empty. Returns the leaf that the place belongs to.
    #[inline(never)]
    fn split(&mut self, facts: &impl Facts, at: At, place: Place) -> At {
        let mut places = self.places(facts, at);
        let behind = (at.0, at.1 + 1);
        if self.next(at).is_none() && places.iter().all(|other| *other < place) {
            return self.add_leaf(behind, place);
        }
        let (lower, middle, upper) = places.select_nth_unstable(LEAF_MAX / 2);
        let (low, lower_len) = (*middle, lower.len());
        let upper: Vec<Slot> = upper.iter().map(|place| place.1).collect();
        self.change(at, |slots| {
            for (slot, place) in slots.iter_mut().zip(&places) {
                *slot = place.1;
            }
            slots.truncate(lower_len);
            trim(slots, LEAF_STEP);
        });
        let new = self.add_leaf(behind, low);
        self.change(new, |slots| {
            slots.reserve_exact((upper.len() + 1).next_multiple_of(LEAF_STEP));
            slots.push(low.1);
            slots.extend(upper);
        });
        self.find(place)
    }

    fn take(&mut self, place: Place) {
        let at = self.find(place);
        let is_sorted = at == FRONT && self.is_front_sorted;
        let len = self.change(at, |slots| {
            let index = slots.iter().position(|slot| *slot == place.1);
            let index = index.expect("an entry is in the leaf of its place");
            if is_sorted {
                slots.remove(index);
            } else {
                slots.swap_remove(index);
            }
            trim(slots, LEAF_STEP);
            slots.len()
        });
        self.is_front_sorted |= is_sorted;
        if len < LEAF_MIN {
            self.join(at);
        }
    }

    /// Moves the remaining entries of a leaf to a neighbour in its branch that has room; drops an
    /// empty leaf.
    fn join(&mut self, at: At) {
        let (branch, leaf) = at;
        let leaves = &self.branches[branch].leaves;
        let len = |leaf: usize| leaves.get(leaf).map_or(LEAF_MAX, |leaf| leaf.slots.len());
        let into = match leaf {
            0 => None,
            leaf => Some(leaf - 1).filter(|&before| len(before) + len(leaf) <= LEAF_JOINED),
        };
        let (into, from) = match into {
            Some(into) => (into, leaf),
            None if len(leaf) + len(leaf + 1) <= LEAF_JOINED => (leaf, leaf + 1),
            None if len(leaf) > 0 => return,
            // Later entries for the range of this leaf are added to the leaf before it, or become
            // the first of all.
            None => return self.drop_leaf(at),
        };
        let moved = self.change((branch, from), core::mem::take);
        self.change((branch, into), |slots| slots.extend(moved));
        self.drop_leaf((branch, from));
    }

    /// Removes an empty leaf, and joins or drops its branch.
    fn drop_leaf(&mut self, at: At) {
        let branch = at.0;
        self.change(at, |slots| slots.shrink_to_fit());
        self.change_branch(branch, |leaves| {
            leaves.remove(at.1);
            trim(leaves, BRANCH_STEP);
        });
        let len = |branch: usize| self.branches.get(branch).map(|branch| branch.leaves.len());
        match (len(branch), len(branch + 1)) {
            (Some(0), _) => {
                self.change_branch(branch, |leaves| leaves.shrink_to_fit());
                self.branches.remove(branch);
                trim(&mut self.branches, BRANCH_STEP);
                return;
            }
            (Some(one), Some(other)) if one < BRANCH_MIN && one + other <= BRANCH_JOINED => {
                let mut moved = self.change_branch(branch + 1, core::mem::take);
                let count = self.branches.remove(branch + 1).count;
                self.branches[branch].count += count;
                self.change_branch(branch, |leaves| leaves.append(&mut moved));
            }
            _ => {}
        }
        self.branches[branch].low = self.branches[branch].leaves[0].low;
    }

    /// Returns the number of entries that die before a deadline: exact, reading at most one leaf's
    /// entries.
    pub fn rank(&self, facts: &impl Facts, deadline: Tick) -> usize {
        if self.len == 0 || deadline <= self.first {
            return 0;
        }
        let at = self.find((deadline, Slot(0)));
        let leaf = self.leaf(at).slots.iter();
        let is_before = |slot: &&Slot| place_of(facts, **slot).0 < deadline;
        self.before(at) + leaf.filter(is_before).count()
    }

    /// Returns the number of entries in the leaves before this one.
    fn before(&self, at: At) -> usize {
        let branches = self.branches[..at.0].iter().map(|branch| branch.count);
        let leaves = self.branches[at.0].leaves[..at.1].iter();
        branches.sum::<usize>() + leaves.map(|leaf| leaf.slots.len()).sum::<usize>()
    }

    /// Calls `each` with the entries in order and their deadlines, beginning at `rank`, until it
    /// returns false. Entries with the same deadline are in the order of their slots. Reads the
    /// entries of the leaves that it visits.
    pub fn walk(&self, facts: &impl Facts, rank: usize, each: &mut dyn FnMut(Tick, Slot) -> bool) {
        let mut skip = rank;
        for (number, branch) in self.branches.iter().enumerate() {
            if skip >= branch.count {
                skip -= branch.count;
                continue;
            }
            for (index, leaf) in branch.leaves.iter().enumerate() {
                if skip >= leaf.slots.len() {
                    skip -= leaf.slots.len();
                    continue;
                }
                let places = self.sorted_places(facts, (number, index));
                for (deadline, slot) in places.into_iter().skip(skip) {
                    if !each(deadline, slot) {
                        return;
                    }
                }
                skip = 0;
            }
        }
    }
}

impl ExpiryIndex for Ranked {
    type Link = ();
    type Config = ();
    const NAME: &'static str = "ranked";

    fn new(_now: Tick, _config: &(), _seed: u64) -> Self {
        Ranked::default()
    }

    fn granularity(&self) -> Option<u64> {
        Some(0)
    }

    #[inline]
    fn insert(&mut self, cells: &mut impl Cells<()>, slot: Slot) {
        self.add(cells, place_of(cells, slot));
    }

    #[inline]
    fn remove(&mut self, cells: &mut impl Cells<()>, slot: Slot) {
        self.take(place_of(cells, slot));
    }

    fn update(&mut self, cells: &mut impl Cells<()>, slot: Slot, old: Tick) {
        let new = place_of(cells, slot);
        let at = self.find((old, slot));
        if self.is_within(at, new) {
            self.first = self.first.min(new.0);
            self.is_front_sorted &= at != FRONT;
            return;
        }
        self.take((old, slot));
        self.add(cells, new);
    }

    fn moved(&mut self, cells: &mut impl Cells<()>, old: Slot, new: Slot) {
        let place = place_of(cells, new);
        let at = self.find((place.0, old));
        if self.is_within(at, place) {
            return self.change(at, |slots| {
                let index = slots.iter().position(|slot| *slot == old);
                slots[index.expect("an entry is in the leaf of its place")] = new;
            });
        }
        self.take((place.0, old));
        self.add(cells, place);
    }

    fn pop_expired(&mut self, cells: &mut impl Cells<()>, now: Tick, budget: &mut Budget) -> Due {
        if self.len == 0 || now <= self.first {
            return Due::Nothing;
        }
        if budget.0 == 0 {
            return Due::Again;
        }
        if !self.is_front_sorted {
            let places = self.sorted_places(cells, FRONT);
            budget.0 = budget.0.saturating_sub(places.len() as u32).max(1);
            self.change(FRONT, |slots| {
                slots.clear();
                slots.extend(places.iter().rev().map(|place| place.1));
            });
            self.is_front_sorted = true;
        }
        let slots = &self.leaf(FRONT).slots;
        let is_last = slots.len() == 1;
        let (deadline, slot) = place_of(cells, *slots.last().expect("no leaf is empty"));
        self.first = deadline;
        if now <= deadline {
            return Due::Nothing;
        }
        budget.spend();
        self.change(FRONT, |slots| slots.pop());
        self.is_front_sorted = true;
        if is_last {
            self.drop_leaf(FRONT);
        }
        Due::Slot(slot)
    }

    fn next_due(&self) -> Option<Tick> {
        (self.len > 0).then(|| Tick(self.first.0 + 1))
    }

    fn backlog(&self, now: Tick) -> usize {
        if self.len == 0 || now <= self.first {
            return 0;
        }
        let at = self.find((now, Slot(0)));
        self.before(at) + self.leaf(at).slots.len()
    }

    fn len(&self) -> usize {
        self.len
    }

    fn heap_bytes(&self) -> usize {
        self.leaf_bytes + self.branches.capacity() * size_of::<Branch>()
    }

    fn check(&self, cells: &impl Cells<()>) {
        let (mut len, mut bytes, mut last) = (0, 0, None);
        for (number, branch) in self.branches.iter().enumerate() {
            assert!(!branch.leaves.is_empty());
            assert!(branch.leaves.len() <= BRANCH_MAX);
            assert_eq!(branch.low, branch.leaves[0].low);
            let before = len;
            bytes += branch.leaves.capacity() * size_of::<Leaf>();
            for (leaf, index) in branch.leaves.iter().zip(0..) {
                assert!(!leaf.slots.is_empty());
                assert!(leaf.slots.len() <= LEAF_MAX);
                assert!(last.is_none_or(|last| last < leaf.low));
                last = Some(leaf.low);
                bytes += leaf.slots.capacity() * size_of::<Slot>();
                len += leaf.slots.len();
                for &slot in &leaf.slots {
                    let place = place_of(cells, slot);
                    assert!(cells.is_live(slot));
                    assert!(self.first <= place.0);
                    assert!(self.is_within((number, index), place));
                }
            }
            assert_eq!(branch.count, len - before);
        }
        assert_eq!((len, bytes), (self.len, self.leaf_bytes));
        if self.is_front_sorted && len > 0 {
            let front = self.leaf(FRONT).slots.iter().rev();
            assert!(front.map(|slot| place_of(cells, *slot)).is_sorted());
        }
    }
}

#[cfg(test)]
mod tests;

//! The order of a large sorted set: a counted B+tree of scores and element slots.
//!
//! The members are not in the tree. If scores are equal, the caller's comparison looks at the
//! members of the slots. An entry therefore takes 12 bytes, regardless of the length of its member.
//! Inner nodes count the entries below each child, so that a rank takes one descent. They keep the
//! first entry of each child, so that a search takes one descent and compares members only if
//! scores are equal.
//!
//! ```text
//! leaf    entries: 16 to 64, with capacity in multiples of 16; fewer at the right edge
//! entry   score 8 │ slot 4
//! inner   children: 8 to 32; a child is its first entry, the number of entries below it, its node
//! ```
//!
//! A leaf that overflows at the right edge of the tree is left full, so a set filled in order has
//! no unused room. Every call moves at most two nodes of items on each level. A million entries
//! have four or five levels.

mod items;

use items::{accounted, capacity_bytes, insert_or_split, join, tighten};
use policy::Slot;
use std::cmp::Ordering;
use std::ops::Range;

const LEAF_MAX: usize = 64;
const LEAF_MIN: usize = LEAF_MAX / 4;
/// Number of entries by which the capacity of a leaf grows and shrinks.
const LEAF_STEP: usize = 16;
const INNER_MAX: usize = 32;
const INNER_MIN: usize = INNER_MAX / 4;
const INNER_STEP: usize = 8;

/// A score and the slot of its element. The score is never NaN.
///
/// It is three words instead of a double and a word, so that an entry takes 12 bytes in an array
/// instead of 16.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry([u32; 3]);

const _: () = assert!(size_of::<Entry>() == 12);

impl Entry {
    pub fn new(score: f64, slot: Slot) -> Entry {
        debug_assert!(!score.is_nan());
        let bits = score.to_bits();
        Entry([(bits >> 32) as u32, bits as u32, slot.0])
    }

    pub fn score(self) -> f64 {
        f64::from_bits(u64::from(self.0[0]) << 32 | u64::from(self.0[1]))
    }

    pub fn slot(self) -> Slot {
        Slot(self.0[2])
    }
}

/// Entries in order, their number, and the number of bytes of the nodes.
#[derive(Debug)]
pub(crate) struct Order {
    root: Node,
    len: usize,
    heap_bytes: usize,
}

impl Clone for Order {
    fn clone(&self) -> Order {
        let root = self.root.clone();
        Order {
            // The copy has no unused room, unlike the original.
            heap_bytes: root.heap_bytes(),
            len: self.len,
            root,
        }
    }
}

#[derive(Clone, Debug)]
enum Node {
    Leaf(Vec<Entry>),
    Inner(Vec<Child>),
}

#[derive(Clone, Debug)]
struct Child {
    first: Entry,
    count: u32,
    node: Node,
}

/// Rule by which a descent from the root chooses the child in each node.
trait Descent {
    /// Returns the child that contains the target.
    fn child(&mut self, children: &[Child]) -> usize;
    /// Returns the position in a leaf at which a new entry is inserted.
    fn place(&mut self, entries: &[Entry]) -> usize;
}

/// Descent to a rank. The number is the count of entries in the current node that precede the
/// target.
struct ByRank(usize);

impl Descent for ByRank {
    fn child(&mut self, children: &[Child]) -> usize {
        let mut at = 0;
        // A new entry behind all others belongs to the last child.
        while at + 1 < children.len() && self.0 >= children[at].count as usize {
            self.0 -= children[at].count as usize;
            at += 1;
        }
        at
    }

    fn place(&mut self, _: &[Entry]) -> usize {
        self.0
    }
}

/// Descent by a function that compares entries with the target.
struct BySearch<F>(F);

impl<F: FnMut(Entry) -> Ordering> Descent for BySearch<F> {
    fn child(&mut self, children: &[Child]) -> usize {
        // The first child needs no comparison, because an entry that precedes all others belongs to
        // it, too.
        children[1..].partition_point(|child| (self.0)(child.first).is_le())
    }

    fn place(&mut self, entries: &[Entry]) -> usize {
        entries.partition_point(|&entry| (self.0)(entry).is_lt())
    }
}

impl<F: FnMut(Entry) -> Ordering> BySearch<F> {
    /// Returns the position of the target, which must be present.
    fn entry(&mut self, entries: &[Entry]) -> usize {
        let found = entries.binary_search_by(|&entry| (self.0)(entry));
        found.expect("the entry must be present")
    }
}

impl Order {
    pub fn new() -> Order {
        Order {
            root: Node::Leaf(Vec::new()),
            len: 0,
            heap_bytes: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of bytes of all nodes.
    pub fn heap_bytes(&self) -> usize {
        self.heap_bytes
    }

    /// Inserts an entry. `compare` compares existing entries with the new one and must be equal for
    /// none.
    pub fn insert(&mut self, entry: Entry, compare: impl FnMut(Entry) -> Ordering) {
        self.insert_by(entry, &mut BySearch(compare));
    }

    /// Appends an entry. The caller guarantees that it is the last in order.
    pub fn push(&mut self, entry: Entry) {
        self.insert_by(entry, &mut ByRank(self.len));
    }

    fn insert_by(&mut self, entry: Entry, guide: &mut impl Descent) {
        let bytes = &mut self.heap_bytes;
        if let Some(right) = self.root.insert(entry, guide, true, bytes) {
            let left = std::mem::replace(&mut self.root, Node::Inner(Vec::new()));
            let Node::Inner(children) = &mut self.root else {
                unreachable!("the node was created above")
            };
            children.reserve_exact(INNER_STEP);
            self.heap_bytes += capacity_bytes(children);
            children.extend([left, right].map(Child::of));
        }
        self.len += 1;
    }

    /// Removes the entry for which `compare` is equal. It must be present.
    pub fn remove(&mut self, compare: impl FnMut(Entry) -> Ordering) -> Entry {
        let (guide, bytes) = (&mut BySearch(compare), &mut self.heap_bytes);
        let entry = self.root.remove(guide, bytes);
        self.len -= 1;
        while let Node::Inner(children) = &mut self.root
            && children.len() <= 1
        {
            self.heap_bytes -= capacity_bytes(children);
            let only = children.pop().map(|child| child.node);
            self.root = only.unwrap_or(Node::Leaf(Vec::new()));
        }
        entry
    }

    /// Sets the slot of the entry for which `compare` is equal, because its element has moved.
    pub fn set_slot(&mut self, slot: Slot, compare: impl FnMut(Entry) -> Ordering) {
        self.root.set_slot(slot, &mut BySearch(compare));
    }

    /// Returns the number of entries before the first for which `is_before` is false. It must be
    /// true for all entries up to some position and false from there on.
    pub fn partition_point(&self, mut is_before: impl FnMut(Entry) -> bool) -> usize {
        let (mut node, mut rank) = (&self.root, 0);
        loop {
            match node {
                Node::Leaf(entries) => {
                    return rank + entries.partition_point(|&entry| is_before(entry));
                }
                Node::Inner(children) => {
                    let at = children[1..].partition_point(|child| is_before(child.first));
                    rank += count(&children[..at]);
                    node = &children[at].node;
                }
            }
        }
    }

    /// Returns the entry of a rank; `None` past the end.
    pub fn get(&self, rank: usize) -> Option<Entry> {
        (rank < self.len).then(|| {
            let (leaf, at) = self.leaf(rank);
            leaf[at]
        })
    }

    /// Returns an iterator over the entries of a range of ranks, which can be read from either end.
    /// Ranks past the end are ignored.
    pub fn iter(&self, ranks: Range<usize>) -> Iter<'_> {
        let end = ranks.end.min(self.len);
        Iter {
            order: self,
            ranks: ranks.start.min(end)..end,
            front: &[],
            back: &[],
        }
    }

    /// Returns the leaf with the entry of a rank, and the entry's position in it.
    fn leaf(&self, rank: usize) -> (&[Entry], usize) {
        let mut guide = ByRank(rank);
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(entries) => return (entries, guide.0),
                Node::Inner(children) => node = &children[guide.child(children)].node,
            }
        }
    }

    /// Frees up to `steps` leaves and subtracts them from `steps`. Returns whether nothing is left.
    /// The tree must not be used for anything else afterwards.
    pub fn dismantle(&mut self, steps: &mut u32) -> bool {
        if self.len > 0 && self.root.dismantle(steps) {
            *self = Order::new();
        }
        self.len == 0
    }

    /// Panics if the tree is inconsistent or `compare` does not find its entries in order.
    pub fn check(&self, mut compare: impl FnMut(Entry, Entry) -> Ordering) {
        assert_eq!(self.root.check(true, true).0, self.len);
        assert_eq!(self.root.heap_bytes(), self.heap_bytes);
        let mut last = None;
        for entry in self.iter(0..self.len) {
            assert!(last.is_none_or(|last| compare(last, entry).is_lt()));
            last = Some(entry);
        }
    }
}

/// Iterator over entries in order, see [`Order::iter`].
pub(crate) struct Iter<'a> {
    order: &'a Order,
    ranks: Range<usize>,
    /// Remaining entries of the current leaf at the front. They may extend beyond `ranks`.
    front: &'a [Entry],
    back: &'a [Entry],
}

impl Iterator for Iter<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let rank = self.ranks.next()?;
        if self.front.is_empty() {
            let (leaf, at) = self.order.leaf(rank);
            self.front = &leaf[at..];
        }
        self.front.split_off_first().copied()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.ranks.size_hint()
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Entry> {
        let rank = self.ranks.next_back()?;
        if self.back.is_empty() {
            let (leaf, at) = self.order.leaf(rank);
            self.back = &leaf[..=at];
        }
        self.back.split_off_last().copied()
    }
}

impl ExactSizeIterator for Iter<'_> {}

fn count(children: &[Child]) -> usize {
    children.iter().map(|child| child.count as usize).sum()
}

impl Child {
    fn of(node: Node) -> Child {
        Child {
            first: node.first().expect("a child is never empty"),
            count: node.count() as u32,
            node,
        }
    }
}

impl Node {
    fn first(&self) -> Option<Entry> {
        match self {
            Node::Leaf(entries) => entries.first().copied(),
            Node::Inner(children) => children.first().map(|child| child.first),
        }
    }

    fn count(&self) -> usize {
        match self {
            Node::Leaf(entries) => entries.len(),
            Node::Inner(children) => count(children),
        }
    }

    fn is_sparse(&self) -> bool {
        match self {
            Node::Leaf(entries) => entries.len() < LEAF_MIN,
            Node::Inner(children) => children.len() < INNER_MIN,
        }
    }

    /// Inserts an entry below this node. Returns the new right neighbour if the node was split.
    fn insert(
        &mut self,
        entry: Entry,
        guide: &mut impl Descent,
        is_right_edge: bool,
        bytes: &mut usize,
    ) -> Option<Node> {
        match self {
            Node::Leaf(entries) => {
                let at = guide.place(entries);
                let bounds = (LEAF_STEP, LEAF_MAX);
                insert_or_split(entries, at, entry, bounds, is_right_edge, bytes).map(Node::Leaf)
            }
            Node::Inner(children) => {
                let at = guide.child(children);
                let is_last = is_right_edge && at + 1 == children.len();
                let child = &mut children[at];
                let right = child.node.insert(entry, guide, is_last, bytes);
                child.count += 1;
                child.first = child.node.first().expect("an entry was inserted");
                let right = Child::of(right?);
                child.count -= right.count;
                let bounds = (INNER_STEP, INNER_MAX);
                insert_or_split(children, at + 1, right, bounds, is_right_edge, bytes)
                    .map(Node::Inner)
            }
        }
    }

    /// Removes an entry below this node. Afterwards no child with a neighbour is sparse.
    fn remove(
        &mut self,
        guide: &mut BySearch<impl FnMut(Entry) -> Ordering>,
        bytes: &mut usize,
    ) -> Entry {
        match self {
            Node::Leaf(entries) => {
                let at = guide.entry(entries);
                accounted(entries, bytes, |entries| {
                    let entry = entries.remove(at);
                    tighten(entries, LEAF_STEP);
                    entry
                })
            }
            Node::Inner(children) => {
                let at = guide.child(children);
                let child = &mut children[at];
                let entry = child.node.remove(guide, bytes);
                child.count -= 1;
                match child.node.first() {
                    None => {
                        *bytes -= child.node.own_bytes();
                        children.remove(at);
                    }
                    Some(first) => {
                        child.first = first;
                        if child.node.is_sparse() && children.len() > 1 {
                            rebalance(children, at.saturating_sub(1), bytes);
                        }
                    }
                }
                accounted(children, bytes, |children| tighten(children, INNER_STEP));
                entry
            }
        }
    }

    /// Returns the bytes of this node's items.
    fn own_bytes(&self) -> usize {
        match self {
            Node::Leaf(entries) => capacity_bytes(entries),
            Node::Inner(children) => capacity_bytes(children),
        }
    }

    /// Returns the bytes of this node and all nodes below it.
    fn heap_bytes(&self) -> usize {
        let below = match self {
            Node::Leaf(_) => 0,
            Node::Inner(children) => children.iter().map(|child| child.node.heap_bytes()).sum(),
        };
        self.own_bytes() + below
    }

    fn set_slot(&mut self, slot: Slot, guide: &mut BySearch<impl FnMut(Entry) -> Ordering>) {
        match self {
            Node::Leaf(entries) => {
                let at = guide.entry(entries);
                entries[at] = Entry::new(entries[at].score(), slot);
            }
            Node::Inner(children) => {
                let at = guide.child(children);
                let child = &mut children[at];
                child.node.set_slot(slot, guide);
                child.first = child.node.first().expect("the child holds the entry");
            }
        }
    }

    fn dismantle(&mut self, steps: &mut u32) -> bool {
        if let Node::Inner(children) = self {
            while let Some(last) = children.last_mut() {
                if !last.node.dismantle(steps) {
                    return false;
                }
                children.pop();
            }
            return true;
        }
        if *steps == 0 {
            return false;
        }
        *steps -= 1;
        *self = Node::Leaf(Vec::new());
        true
    }

    /// Returns the number of entries and of levels.
    fn check(&self, is_root: bool, is_right_edge: bool) -> (usize, usize) {
        let may_be_sparse = is_root || is_right_edge;
        assert!(may_be_sparse || !self.is_sparse());
        assert!(is_root || self.count() > 0);
        match self {
            Node::Leaf(entries) => {
                assert!(entries.len() <= LEAF_MAX);
                assert!(entries.capacity() < entries.len() + 2 * LEAF_STEP);
                (entries.len(), 1)
            }
            Node::Inner(children) => {
                assert!(children.len() <= INNER_MAX);
                assert!(!is_root || children.len() > 1);
                let (mut sum, mut levels) = (0, None);
                for (at, child) in children.iter().enumerate() {
                    let is_last = is_right_edge && at + 1 == children.len();
                    let (below, depth) = child.node.check(false, is_last);
                    assert_eq!(below, child.count as usize);
                    assert_eq!(child.node.first(), Some(child.first));
                    assert_eq!(*levels.get_or_insert(depth), depth);
                    sum += below;
                }
                (sum, 1 + levels.unwrap_or(0))
            }
        }
    }
}

/// Merges or balances the child at `at` and the one after it.
fn rebalance(children: &mut Vec<Child>, at: usize, bytes: &mut usize) {
    let right = children.remove(at + 1);
    let left = &mut children[at];
    let right = match (&mut left.node, right.node) {
        (Node::Leaf(left), Node::Leaf(right)) => {
            join(left, right, (LEAF_STEP, LEAF_MAX), bytes).map(Node::Leaf)
        }
        (Node::Inner(left), Node::Inner(right)) => {
            join(left, right, (INNER_STEP, INNER_MAX), bytes).map(Node::Inner)
        }
        _ => unreachable!("all leaves are on one level"),
    };
    left.count = left.node.count() as u32;
    if let Some(right) = right {
        // There is room because one child was just removed.
        children.insert(at + 1, Child::of(right));
    }
}

#[cfg(test)]
mod tests;

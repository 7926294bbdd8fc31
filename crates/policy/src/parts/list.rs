//! Doubly linked lists through the entries' own bits: 8 bytes per entry, at most four lists.

use crate::{Cells, Meta, Slot};

/// No neighbour: the end of a list. Slots are below it (see [`Slot::LIMIT`]).
const NONE: u32 = Slot::LIMIT;

/// An entry's place in one of up to four lists.
///
/// ```text
/// bit 63      33 32       2 1   0
///     [ older  ][  newer   ][list]      31 + 31 + 2 bits; 2^31 - 1 in a link: the end
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Node(u64);

impl Node {
    #[inline]
    fn new(older: u32, newer: u32, list: u8) -> Self {
        debug_assert!(older <= NONE);
        debug_assert!(newer <= NONE);
        Node(u64::from(older) << 33 | u64::from(newer) << 2 | u64::from(list & 3))
    }

    /// Returns the older neighbour as a raw link.
    #[inline]
    fn older(self) -> u32 {
        (self.0 >> 33) as u32
    }

    /// Returns the newer neighbour as a raw link.
    #[inline]
    fn newer(self) -> u32 {
        (self.0 >> 2) as u32 & NONE
    }

    /// Returns the number of the list that the entry is in: 0 to 3.
    #[inline]
    pub fn list(self) -> u8 {
        (self.0 & 3) as u8
    }

    /// Returns the same neighbours with another list number.
    #[inline]
    pub fn with_list(self, list: u8) -> Self {
        Node(self.0 & !3 | u64::from(list & 3))
    }
}

impl Meta for Node {
    const BITS: u32 = 64;
    #[inline]
    fn pack(self) -> u64 {
        self.0
    }
    #[inline]
    fn unpack(bits: u64) -> Self {
        Node(bits)
    }
}

/// Bits that contain a [`Node`] among other things.
pub trait Linked: Copy {
    /// Returns the place in the lists.
    fn node(self) -> Node;
    /// Returns the same bits with another place in the lists.
    fn with_node(self, node: Node) -> Self;
}

impl Linked for Node {
    #[inline]
    fn node(self) -> Node {
        self
    }
    #[inline]
    fn with_node(self, node: Node) -> Self {
        node
    }
}

/// The ends of one list. The members' bits hold the links.
#[derive(Clone, Debug)]
pub struct List {
    oldest: u32,
    newest: u32,
    len: usize,
    id: u8,
    /// Bit of a member's list number that does not belong to the number but is used for something
    /// else.
    mark: u8,
}

impl List {
    /// Creates an empty list; `id`, 0 to 3, is the [`Node::list`] of its members.
    pub fn new(id: u8) -> Self {
        List::with_mark(id, 0)
    }

    /// Creates an empty list whose members may use the bit `mark` of their list number for
    /// something else.
    pub fn with_mark(id: u8, mark: u8) -> Self {
        assert!(id < 4, "two bits name a list");
        assert_eq!(id & mark, 0, "a new member is not marked");
        List {
            oldest: NONE,
            newest: NONE,
            len: 0,
            id,
            mark,
        }
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether a node is in this list.
    #[inline]
    pub fn has(&self, node: Node) -> bool {
        node.list() & !self.mark == self.id
    }

    /// Returns the entry at the old end.
    #[inline]
    pub fn oldest(&self) -> Option<Slot> {
        (self.oldest != NONE).then_some(Slot(self.oldest))
    }

    /// Returns the entry at the new end.
    #[inline]
    pub fn newest(&self) -> Option<Slot> {
        (self.newest != NONE).then_some(Slot(self.newest))
    }

    /// Returns the neighbour towards the new end.
    #[inline]
    pub fn newer<M: Linked>(&self, cells: &impl Cells<M>, slot: Slot) -> Option<Slot> {
        let newer = cells.get(slot).node().newer();
        (newer != NONE).then_some(Slot(newer))
    }

    /// Adds an entry that is in no list at the new end.
    #[inline]
    pub fn push<M: Linked>(&mut self, cells: &mut impl Cells<M>, slot: Slot) {
        assert!(slot.0 < NONE, "slots stay below Slot::LIMIT");
        let meta = cells.get(slot);
        cells.set(slot, meta.with_node(Node::new(self.newest, NONE, self.id)));
        match self.newest {
            NONE => self.oldest = slot.0,
            newest => set_newer(cells, newest, slot.0),
        }
        self.newest = slot.0;
        self.len += 1;
        debug_assert_ne!(self.oldest, NONE, "a list with a member has both ends");
    }

    /// Removes a member. Its bits keep a meaningless place.
    #[inline]
    pub fn unlink<M: Linked>(&mut self, cells: &mut impl Cells<M>, slot: Slot) {
        let node = cells.get(slot).node();
        debug_assert!(self.has(node), "the entry is in another list");
        debug_assert!(self.len > 0, "a list with a member is not empty");
        match node.older() {
            NONE => self.oldest = node.newer(),
            older => set_newer(cells, older, node.newer()),
        }
        match node.newer() {
            NONE => self.newest = node.older(),
            newer => set_older(cells, newer, node.older()),
        }
        self.len -= 1;
    }

    /// Moves a member to the new end.
    #[inline]
    pub fn promote<M: Linked>(&mut self, cells: &mut impl Cells<M>, slot: Slot) {
        if self.newest != slot.0 {
            self.unlink(cells, slot);
            self.push(cells, slot);
        }
    }

    /// Removes and returns the oldest member.
    #[inline]
    pub fn pop<M: Linked>(&mut self, cells: &mut impl Cells<M>) -> Option<Slot> {
        let slot = self.oldest()?;
        self.unlink(cells, slot);
        Some(slot)
    }

    /// Handles the relocation of a member; its bits are already at `new`.
    pub fn moved<M: Linked>(&mut self, cells: &mut impl Cells<M>, new: Slot) {
        assert!(new.0 < NONE, "slots stay below Slot::LIMIT");
        let node = cells.get(new).node();
        match node.older() {
            NONE => self.oldest = new.0,
            older => set_newer(cells, older, new.0),
        }
        match node.newer() {
            NONE => self.newest = new.0,
            newer => set_older(cells, newer, new.0),
        }
    }

    /// Panics unless links, ends, length and list number agree. Returns the members' weight.
    pub fn check<M: Linked>(&self, cells: &impl Cells<M>) -> u64 {
        let (mut before, mut at, mut count, mut weight) = (NONE, self.oldest, 0, 0u64);
        while at != NONE {
            assert!(cells.is_live(Slot(at)), "{at} is listed but not live");
            let node = cells.get(Slot(at)).node();
            assert_eq!(node.older(), before);
            assert!(self.has(node), "a member names another list");
            weight += u64::from(cells.weight(Slot(at)));
            (before, at, count) = (at, node.newer(), count + 1);
            assert!(count <= self.len, "more members than counted, or a loop");
        }
        assert_eq!(self.newest, before);
        assert_eq!(self.len, count);
        weight
    }
}

#[inline]
fn set_newer<M: Linked>(cells: &mut impl Cells<M>, at: u32, newer: u32) {
    let meta = cells.get(Slot(at));
    let node = meta.node();
    cells.set(
        Slot(at),
        meta.with_node(Node::new(node.older(), newer, node.list())),
    );
}

#[inline]
fn set_older<M: Linked>(cells: &mut impl Cells<M>, at: u32, older: u32) {
    let meta = cells.get(Slot(at));
    let node = meta.node();
    cells.set(
        Slot(at),
        meta.with_node(Node::new(older, node.newer(), node.list())),
    );
}

//! The entries of a stream: blocks in the order of their IDs.
//!
//! Blocks are kept in groups of up to 128, so that the removal of a block in the middle moves few
//! others and the index of a long stream grows by small allocations. Both levels are searched by
//! bisection. Entries are added at the end and mostly removed at the front, a block at a time.
//!
//! Blocks with entries that have their own deadlines are filed by the earliest of these deadlines.
//! An own deadline therefore costs six bytes in the entry, and a small fraction of a place in that
//! order.

use super::block::{Block, Entries, Entry, Keep, NEVER, NewFields};
use super::id::StreamId;
use policy::Tick;
use std::collections::{BTreeSet, VecDeque};

/// Maximum number of blocks in a group.
const GROUP_BLOCKS: usize = 128;
/// Maximum number of entries and bytes of a block, regardless of the configuration.
const ENTRIES_MAX: usize = 10_000;
const BYTES_MAX: usize = 1 << 20;
/// Bytes of a place in the order of deadlines, with the tree's share.
const FILED_BYTES: usize = 40;

/// Limits up to which a block takes another entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockLimit {
    entries: usize,
    bytes: usize,
}

impl BlockLimit {
    /// Creates the limits of configured numbers; 0 or less means the largest possible.
    pub fn new(entries: i64, bytes: i64) -> BlockLimit {
        let limit = |number: i64, max: usize| match usize::try_from(number) {
            Ok(0) | Err(_) => max,
            Ok(number) => number.min(max),
        };
        BlockLimit {
            entries: limit(entries, ENTRIES_MAX),
            bytes: limit(bytes, BYTES_MAX),
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Group {
    blocks: VecDeque<Block>,
}

/// Position of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    group: usize,
    block: usize,
}

/// Entries in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    groups: VecDeque<Group>,
    /// Number of entries, expired ones included.
    len: usize,
    block_count: usize,
    /// Number of bytes of all blocks' buffers.
    buffer_bytes: usize,
    /// Number of blocks for which all groups together have capacity.
    slots: usize,
    /// Earliest own deadline and first ID of each block with such a deadline.
    filed: BTreeSet<(u64, StreamId)>,
}

impl Log {
    /// Returns the number of entries, expired ones included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of blocks.
    pub fn block_count(&self) -> usize {
        self.block_count
    }

    /// Returns the number of groups of blocks.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// Returns the number of bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.buffer_bytes
            + self.slots * size_of::<Block>()
            + self.groups.capacity() * size_of::<Group>()
            + self.filed.len() * FILED_BYTES
    }

    /// Returns the first ID, expired or not.
    pub fn first(&self) -> Option<StreamId> {
        Some(self.front()?.first())
    }

    /// Returns the last ID, expired or not.
    pub fn last(&self) -> Option<StreamId> {
        Some(self.groups.back()?.blocks.back()?.last())
    }

    /// Returns the first block.
    pub fn front(&self) -> Option<&Block> {
        self.groups.front()?.blocks.front()
    }

    /// Returns the earliest own deadline of an entry.
    pub fn nearest(&self) -> Option<Tick> {
        self.filed.first().map(|(deadline, _)| Tick(*deadline))
    }

    /// Adds an entry after all others.
    pub fn push<'f>(
        &mut self,
        id: StreamId,
        deadline: Option<Tick>,
        fields: impl NewFields<'f>,
        limit: BlockLimit,
    ) {
        debug_assert!(self.last().is_none_or(|last| id > last));
        self.len += 1;
        if let Some(block) = self.groups.back_mut().and_then(|g| g.blocks.back_mut()) {
            let is_full = block.len() >= limit.entries || block.used_bytes() >= limit.bytes;
            let before = block.heap_bytes();
            if !is_full {
                let (nearest, first) = (block.nearest(), block.first());
                block.push(id, deadline, fields);
                let after = block.nearest();
                self.buffer_bytes += block.heap_bytes() - before;
                if after != nearest {
                    self.refile(first, nearest, after);
                }
                return;
            }
            block.trim();
            self.buffer_bytes = self.buffer_bytes + block.heap_bytes() - before;
        }
        self.push_block(Block::new(id, deadline, fields));
    }

    /// Adds a block after all others.
    fn push_block(&mut self, block: Block) {
        if self
            .groups
            .back()
            .is_none_or(|group| group.blocks.len() == GROUP_BLOCKS)
        {
            self.groups.push_back(Group::default());
        }
        self.buffer_bytes += block.heap_bytes();
        self.block_count += 1;
        self.refile(block.first(), NEVER, block.nearest());
        let blocks = &mut self.groups.back_mut().expect("it was added above").blocks;
        let before = blocks.capacity();
        blocks.push_back(block);
        self.slots += blocks.capacity() - before;
    }

    fn refile(&mut self, first: StreamId, before: u64, after: u64) {
        if before != NEVER {
            self.filed.remove(&(before, first));
        }
        if after != NEVER {
            self.filed.insert((after, first));
        }
    }

    /// Returns the position of the first block that ends at or after an ID.
    fn place(&self, id: StreamId) -> Option<Place> {
        let ends_before = |block: &Block| block.last() < id;
        let is_before = |group: &Group| group.blocks.back().is_some_and(ends_before);
        let group = self.groups.partition_point(is_before);
        let block = self.groups.get(group)?.blocks.partition_point(ends_before);
        Some(Place { group, block })
    }

    fn block(&self, place: Place) -> Option<&Block> {
        self.groups.get(place.group)?.blocks.get(place.block)
    }

    /// Changes a block with `work` and updates all counts. Removes the block if it is empty
    /// afterwards.
    fn change<R>(&mut self, place: Place, work: impl FnOnce(&mut Block) -> R) -> R {
        let block = &mut self.groups[place.group].blocks[place.block];
        let (bytes, first) = (block.heap_bytes(), block.first());
        let (nearest, len) = (block.nearest(), block.len());
        let result = work(block);
        let (after_bytes, after_len) = (block.heap_bytes(), block.len());
        let (after_first, after) = (block.first(), block.nearest());
        self.buffer_bytes = self.buffer_bytes + after_bytes - bytes;
        self.len = self.len + after_len - len;
        self.refile(first, nearest, NEVER);
        if after_len > 0 {
            self.refile(after_first, NEVER, after);
        } else {
            self.take(place);
        }
        result
    }

    /// Removes a block that is not filed.
    fn take(&mut self, place: Place) -> Option<Block> {
        let blocks = &mut self.groups.get_mut(place.group)?.blocks;
        let block = blocks.remove(place.block)?;
        self.buffer_bytes -= block.heap_bytes();
        self.block_count -= 1;
        if blocks.is_empty() {
            self.slots -= blocks.capacity();
            self.groups.remove(place.group);
        }
        Some(block)
    }

    /// Removes the first block.
    pub fn pop_block(&mut self) -> Option<Block> {
        let block = self.take(Place { group: 0, block: 0 })?;
        self.len -= block.len();
        self.refile(block.first(), block.nearest(), NEVER);
        Some(block)
    }

    /// Returns the entry with an ID, expired or not.
    pub fn get(&self, id: StreamId) -> Option<Entry<'_>> {
        self.block(self.place(id)?)?.get(id)
    }

    /// Removes the entry with an ID, expired or not. Returns whether there was one.
    pub fn remove(&mut self, id: StreamId) -> bool {
        match self.place(id) {
            Some(place) => self.change(place, |block| block.remove(id)),
            None => false,
        }
    }

    /// Sets or removes the own deadline of an entry. Returns whether there is such an entry.
    pub fn set_deadline(&mut self, id: StreamId, deadline: Option<Tick>) -> bool {
        let Some(place) = self.place(id) else {
            return false;
        };
        let mut is_found = false;
        self.change(place, |block| {
            block.rewrite(|entry| {
                is_found |= entry.id == id;
                Keep::As(if entry.id == id {
                    deadline
                } else {
                    entry.deadline
                })
            })
        });
        is_found
    }

    /// Removes entries of the first block as long as `is_waste` is true for them. Returns their
    /// number.
    pub fn trim_front(&mut self, is_waste: impl FnMut(&Entry<'_>) -> bool) -> usize {
        if self.groups.is_empty() {
            return 0;
        }
        self.change(Place { group: 0, block: 0 }, |block| {
            block.cut_front(is_waste)
        })
    }

    /// Removes those entries of the block that contains the first entry at or after an ID for which
    /// `is_waste` is true. It is called once for each entry of the block. Returns the ID after the
    /// block; `None` if there is no block.
    pub fn remove_from_block(
        &mut self,
        from: StreamId,
        mut is_waste: impl FnMut(&Entry<'_>) -> bool,
    ) -> Option<StreamId> {
        let place = self.place(from)?;
        let block = self.block(place)?;
        let last = block.last();
        let waste: Vec<bool> = block.entries().map(|entry| is_waste(&entry)).collect();
        if waste.contains(&true) {
            let mut waste = waste.into_iter();
            self.change(place, |block| {
                block.rewrite(|entry| match waste.next() {
                    Some(true) => Keep::No,
                    _ => Keep::As(entry.deadline),
                })
            });
        }
        last.next()
    }

    /// Removes the entries of one block whose own deadlines have passed, and appends their IDs and
    /// deadlines to `removed`. Returns false if there is no such block.
    pub fn expire_block(&mut self, now: Tick, removed: &mut Vec<(StreamId, Tick)>) -> bool {
        let Some(&(_, first)) = self.filed.first().filter(|(nearest, _)| *nearest < now.0) else {
            return false;
        };
        let place = self.place(first).expect("a filed block exists");
        self.change(place, |block| {
            block.rewrite(|entry| match entry.deadline {
                Some(deadline) if deadline < now => {
                    removed.push((entry.id, deadline));
                    Keep::No
                }
                deadline => Keep::As(deadline),
            })
        });
        true
    }

    /// Passes the entries whose own deadlines have passed to `each`. The work grows with the number
    /// of blocks that have such entries.
    pub fn each_overdue(&self, now: Tick, mut each: impl FnMut(StreamId)) {
        for (_, first) in self.filed.range(..(now.0, StreamId::MIN)) {
            let block = self.place(*first).and_then(|place| self.block(place));
            let entries = block.into_iter().flat_map(Block::entries);
            let due = entries.filter(|entry| entry.deadline.is_some_and(|at| at < now));
            due.for_each(|entry| each(entry.id));
        }
    }

    /// Returns the number of entries before an ID.
    pub fn count_before(&self, id: StreamId) -> usize {
        let Some(place) = self.place(id) else {
            return self.len;
        };
        let groups = self
            .groups
            .iter()
            .take(place.group)
            .flat_map(|group| &group.blocks);
        let blocks = self.groups[place.group].blocks.iter().take(place.block);
        let whole: usize = groups.chain(blocks).map(Block::len).sum();
        let block = self.block(place).map_or(0, |block| {
            block.entries().take_while(|entry| entry.id < id).count()
        });
        whole + block
    }

    /// Returns the approximate number of entries from an ID on: whole blocks are counted, until
    /// they have more than `enough` entries.
    pub fn count_from(&self, id: StreamId, enough: usize) -> usize {
        let (mut place, mut count) = (self.place(id), 0);
        while let Some(at) = place.filter(|_| count <= enough)
            && let Some(block) = self.block(at)
        {
            count += block.len();
            place = Some(self.behind(at));
        }
        count
    }

    /// Returns the entries from an ID on, in order.
    pub fn iter_from(&self, id: StreamId) -> Iter<'_> {
        let place = self.place(id).unwrap_or(Place {
            group: self.groups.len(),
            block: 0,
        });
        let entries = self.block(place).map(|block| block.entries().from(id));
        Iter {
            log: self,
            place,
            entries,
        }
    }

    /// Returns the entries up to an ID, in descending order.
    pub fn iter_back(&self, id: StreamId) -> IterBack<'_> {
        let place = self.place(id).or_else(|| {
            let group = self.groups.len().checked_sub(1)?;
            let block = self.groups[group].blocks.len() - 1;
            Some(Place { group, block })
        });
        IterBack {
            log: self,
            place,
            entries: Vec::new(),
            end: id,
        }
    }

    /// Returns the position of the next block.
    fn behind(&self, place: Place) -> Place {
        let len = self
            .groups
            .get(place.group)
            .map_or(0, |group| group.blocks.len());
        match place.block + 1 < len {
            true => Place {
                block: place.block + 1,
                ..place
            },
            false => Place {
                group: place.group + 1,
                block: 0,
            },
        }
    }

    /// Returns the position of the previous block.
    fn before(&self, place: Place) -> Option<Place> {
        if let Some(block) = place.block.checked_sub(1) {
            return Some(Place { block, ..place });
        }
        let group = place.group.checked_sub(1)?;
        let block = self.groups[group].blocks.len() - 1;
        Some(Place { group, block })
    }

    /// Frees blocks, one per step, and returns whether blocks are left.
    pub fn dismantle(&mut self, steps: &mut u32) -> bool {
        while *steps > 0 && self.pop_block().is_some() {
            *steps -= 1;
        }
        self.len > 0
    }

    /// Returns a copy without spare capacity.
    pub fn duplicate(&self) -> Log {
        let mut copy = Log::default();
        for block in self.groups.iter().flat_map(|group| &group.blocks) {
            copy.len += block.len();
            copy.push_block(block.clone());
        }
        copy
    }

    /// Panics if the structure is inconsistent.
    pub fn check(&self) {
        let blocks = || self.groups.iter().flat_map(|group| &group.blocks);
        blocks().for_each(Block::check);
        assert!(
            blocks()
                .map(Block::last)
                .zip(blocks().skip(1).map(Block::first))
                .all(|(a, b)| a < b)
        );
        assert!(self.groups.iter().all(|group| !group.blocks.is_empty()));
        assert_eq!(blocks().map(Block::len).sum::<usize>(), self.len);
        assert_eq!(blocks().count(), self.block_count);
        assert_eq!(
            blocks().map(Block::heap_bytes).sum::<usize>(),
            self.buffer_bytes
        );
        let slots = self.groups.iter().map(|group| group.blocks.capacity());
        assert_eq!(slots.sum::<usize>(), self.slots);
        let filed = blocks().filter(|block| block.nearest() != NEVER);
        let filed: BTreeSet<_> = filed
            .map(|block| (block.nearest(), block.first()))
            .collect();
        assert_eq!(filed, self.filed);
    }
}

/// Iterator over entries in order, expired ones included.
#[derive(Clone, Debug)]
pub(super) struct Iter<'l> {
    log: &'l Log,
    place: Place,
    entries: Option<Entries<'l>>,
}

impl<'l> Iterator for Iter<'l> {
    type Item = Entry<'l>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'l>> {
        loop {
            if let Some(entry) = self.entries.as_mut()?.next() {
                return Some(entry);
            }
            self.place = self.log.behind(self.place);
            self.entries = self.log.block(self.place).map(Block::entries);
        }
    }
}

/// Iterator over entries in descending order, expired ones included. It decodes one block at a
/// time.
#[derive(Clone, Debug)]
pub(super) struct IterBack<'l> {
    log: &'l Log,
    place: Option<Place>,
    entries: Vec<Entry<'l>>,
    end: StreamId,
}

impl<'l> Iterator for IterBack<'l> {
    type Item = Entry<'l>;

    fn next(&mut self) -> Option<Entry<'l>> {
        loop {
            if let Some(entry) = self.entries.pop() {
                return Some(entry);
            }
            let place = self.place?;
            let end = self.end;
            let entries = self.log.block(place)?.entries();
            self.entries
                .extend(entries.take_while(|entry| entry.id <= end));
            self.place = self.log.before(place);
        }
    }
}

//! A FIFO of slot references that can outlive their entries; epochs identify stale ones.
//!
//! An entry that leaves by deletion or expiry cannot find its reference in a ring; the reference
//! stays behind, and the slot may soon name another entry. So the ring is cut by position into at
//! most 31 *epochs*, and the entry keeps the 5-bit tag of the epoch in which its reference was
//! filed. A reference stands for the slot's entry only if the tags agree; otherwise it is stale and
//! dropped when it comes up. Tag 0 means "not filed", which is the state of a new entry's bits.
//!
//! In exchange, a slot that is vacated and refiled within one epoch has two references there, and
//! the earlier one represents the new entry, which leaves early by at most one epoch. A relocated
//! entry is refiled at the end of its own epoch: it leaves late by at most one epoch. Without
//! deletions and relocations, the order is exactly first in, first out.
//!
//! Epochs are cut by the weight filed ([`EPOCHS_AIMED`] per full queue), because the weight of a
//! full queue is known beforehand and its length is not. An epoch of a queue whose weight counts
//! bytes has at least 128 entries, because it takes some 150 bytes in addition to its references.
//! When tags run out, the youngest epoch grows.
//!
//! A ring can also distinguish its *young* entries, those filed within a window of weight: the tags
//! of the newest epochs are kept as a set, which is computed when an epoch opens. The age of an
//! entry thus costs no bits, and is known to within one epoch.
//!
//! When stale references outnumber live ones, [`EpochRing::compact`] rewrites the epochs one after
//! the other, a few references per call: the ring holds at most about three references per live
//! one.

use super::ring::SlotRing;
use crate::Slot;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The low bits of an entry's own byte that hold the tag.
pub const TAG_BITS: u32 = 5;
/// Mask of the tag.
pub const TAG_MASK: u8 = (1 << TAG_BITS) - 1;
/// Number of epochs of a queue of the expected weight; the other tags are slack.
pub const EPOCHS_AIMED: u64 = 24;
/// Minimum number of references in a closed epoch of a ring without a window, because a smaller
/// epoch takes more memory than its references. In a queue of so little weight that its epochs
/// cannot have as many entries, it is the weight of an epoch. A ring with a window has shorter
/// epochs in a small queue, so that the window has its length there too.
const EPOCH_MIN: u64 = 128;
/// Maximum bytes of the memory of a drained epoch that a ring without a window keeps for the next
/// one: a chunk of the smallest size.
const SPARE_BYTES_MAX: usize = 128;
/// Number of stale references below which there is no compaction.
const STALE_MIN: usize = 64;
/// Number of references that one call of [`EpochRing::compact`] examines.
const COMPACT_STEPS: usize = 4;

/// Tag of an epoch: 1 to 31.
pub type Tag = u8;

#[derive(Clone, Debug)]
struct Epoch {
    tag: Tag,
    refs: SlotRing,
    /// Total weight that was filed in the epoch, including entries that have left the queue.
    filed_weight: u64,
}

/// A FIFO of slot references in epochs.
#[derive(Clone, Debug)]
pub struct EpochRing {
    /// Epochs from the oldest to the youngest; only the youngest may be empty.
    epochs: VecDeque<Epoch>,
    /// Bit `t` is set while an epoch has tag `t`; bit 0 always.
    tags_used: u32,
    /// Bit `t` is set while the epoch with tag `t` is in the window.
    tags_young: u32,
    /// Weight of the entries filed last that are young.
    window: Option<u64>,
    /// Ring of an epoch that was dropped, for the next one. The epochs of a small queue with a
    /// window have few entries, and would otherwise allocate all the time.
    spare: SlotRing,
    refs: usize,
    /// Epoch being compacted, and the number of its references that remain to be examined.
    compacting: Option<(Tag, usize)>,
    /// Number of references at which the next compaction begins.
    compact_at: usize,
    /// Number of entries at which the next compaction begins even with fewer references, so that
    /// no stale references remain when most entries leave together.
    compact_below: usize,
}

impl Default for EpochRing {
    fn default() -> Self {
        EpochRing::new()
    }
}

impl EpochRing {
    /// Creates an empty ring; nothing is allocated before the first push.
    pub fn new() -> Self {
        EpochRing {
            epochs: VecDeque::new(),
            tags_used: 1,
            tags_young: 0,
            window: None,
            spare: SlotRing::new(),
            refs: 0,
            compacting: None,
            compact_at: 0,
            compact_below: 0,
        }
    }

    /// Sets the weight of the entries filed last that [`EpochRing::young_tags`] distinguishes. It
    /// holds from the next epoch on. Without this call no entry is young.
    pub fn set_window(&mut self, weight: u64) {
        self.window = Some(weight);
    }

    /// Returns the set of the tags of young entries, those after which less weight than the
    /// window's was filed. Entries up to one epoch older may count as young.
    #[inline]
    pub fn young_tags(&self) -> u32 {
        self.tags_young
    }

    /// Number of references, including stale ones.
    #[inline]
    pub fn refs(&self) -> usize {
        self.refs
    }

    /// Files a slot as the youngest and returns the tag that its entry must keep. `queue_weight` is
    /// the weight of the full queue.
    #[inline]
    pub fn push(&mut self, slot: Slot, weight: u32, queue_weight: u64) -> Tag {
        let quantum = queue_weight / EPOCHS_AIMED;
        let is_open = self.epochs.back().is_some_and(|epoch| match self.window {
            None => {
                epoch.filed_weight <= quantum || (epoch.refs.len() as u64) < quantum.min(EPOCH_MIN)
            }
            Some(_) => epoch.filed_weight < quantum.max(1),
        });
        if !is_open {
            self.open_epoch();
        }
        let epoch = self
            .epochs
            .back_mut()
            .expect("the youngest epoch was just seen to");
        epoch.refs.push(slot);
        epoch.filed_weight += u64::from(weight);
        self.refs += 1;
        epoch.tag
    }

    /// Files the new slot of a relocated entry at the end of the entry's own epoch.
    pub fn push_in(&mut self, tag: Tag, slot: Slot) {
        let epoch = self.epochs.iter_mut().find(|epoch| epoch.tag == tag);
        let epoch = epoch.expect("the epoch of a filed entry holds its old reference");
        epoch.refs.push(slot);
        self.refs += 1;
    }

    /// Removes and returns the oldest reference, with the tag that its entry has if the reference
    /// is not stale.
    #[inline]
    pub fn pop(&mut self) -> Option<(Slot, Tag)> {
        loop {
            let is_last = self.epochs.len() == 1;
            let epoch = self.epochs.front_mut()?;
            if let Some(slot) = epoch.refs.pop() {
                self.refs -= 1;
                return Some((slot, epoch.tag));
            }
            if is_last {
                return None;
            }
            self.drop_epoch(0);
        }
    }

    /// Examines a few references and drops stale ones, if there are too many for `live` entries.
    /// Must be called whenever an entry is filed or leaves. `is_live` returns whether a reference
    /// represents an entry.
    #[inline]
    pub fn compact(&mut self, live: usize, is_live: impl Fn(Slot, Tag) -> bool) {
        let is_stale = self.refs > 2 * live + STALE_MIN
            && (self.refs > self.compact_at || live <= self.compact_below);
        if is_stale || self.compacting.is_some() {
            self.compact_some(live, is_live);
        }
    }

    /// Removes all references, because no entry is left.
    pub fn clear(&mut self) {
        let window = self.window;
        *self = EpochRing::new();
        self.window = window;
    }

    /// Returns all references with their tags, from the oldest to the youngest.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, Tag)> + '_ {
        let epochs = self.epochs.iter();
        epochs.flat_map(|epoch| epoch.refs.iter().map(|slot| (slot, epoch.tag)))
    }

    /// Returns the slots with a reference that stands for an entry, sorted. For checks.
    pub fn live_slots(&self, is_live: impl Fn(Slot, Tag) -> bool) -> Vec<Slot> {
        let live = self.iter().filter(|&(slot, tag)| is_live(slot, tag));
        let mut slots: Vec<Slot> = live.map(|(slot, _)| slot).collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        let refs: usize = self
            .epochs
            .iter()
            .map(|epoch| epoch.refs.heap_bytes())
            .sum();
        refs + self.spare.heap_bytes() + self.epochs.capacity() * size_of::<Epoch>()
    }

    /// Panics if the structure contradicts itself.
    pub fn check(&self) {
        let mut tags = 1u32;
        for epoch in &self.epochs {
            assert!(epoch.tag > 0, "tag 0 means not filed");
            assert_eq!(tags & 1 << epoch.tag, 0, "a tag names one epoch");
            tags |= 1 << epoch.tag;
        }
        assert_eq!(self.tags_used, tags);
        assert!(self.window.is_some() || self.tags_young == 0);
        let refs: usize = self.epochs.iter().map(|epoch| epoch.refs.len()).sum();
        assert_eq!(self.refs, refs);
    }

    #[cold]
    fn open_epoch(&mut self) {
        let tag = self.tags_used.trailing_ones() as Tag;
        if tag > TAG_MASK {
            return;
        }
        if let Some(closed) = self.epochs.back_mut() {
            closed.refs.shrink();
        }
        self.tags_used |= 1 << tag;
        if self.epochs.len() == self.epochs.capacity() {
            // Capacity grows to one, two, four … and at last 31 epochs, because a small queue has
            // only one.
            let more = self
                .epochs
                .len()
                .max(1)
                .min(usize::from(TAG_MASK) - self.epochs.len());
            self.epochs.reserve_exact(more);
        }
        self.epochs.push_back(Epoch {
            tag,
            refs: core::mem::take(&mut self.spare),
            filed_weight: 0,
        });
        if let Some(window) = self.window {
            self.tags_young = self.tags_within(window);
        }
    }

    /// Returns the tags of the open epoch and of the epochs before it that begin within the window.
    fn tags_within(&self, window: u64) -> u32 {
        if window == 0 {
            return 0;
        }
        let mut filed = 0;
        let newest = self.epochs.iter().rev().take_while(|epoch| {
            filed += epoch.filed_weight;
            filed < window
        });
        newest.fold(0, |tags, epoch| tags | 1 << epoch.tag)
    }

    #[cold]
    fn drop_epoch(&mut self, position: usize) {
        let epoch = self
            .epochs
            .remove(position)
            .expect("the caller found the epoch there");
        debug_assert!(epoch.refs.is_empty());
        self.tags_used &= !(1 << epoch.tag);
        if self.window.is_some() || epoch.refs.heap_bytes() <= SPARE_BYTES_MAX {
            self.spare = epoch.refs;
        }
    }

    #[cold]
    fn compact_some(&mut self, live: usize, is_live: impl Fn(Slot, Tag) -> bool) {
        for _ in 0..COMPACT_STEPS {
            let (tag, left) = match self.compacting {
                Some(at) => at,
                None => match self.epochs.front() {
                    Some(oldest) => (oldest.tag, oldest.refs.len()),
                    None => return,
                },
            };
            let position = self.epochs.iter().position(|epoch| epoch.tag == tag);
            let position = position.unwrap_or(0);
            let epoch = &mut self.epochs[position];
            // Rotating the whole epoch once keeps its order. Evictions during the rotation have
            // only two effects: it ends early, or it continues with as many references too many.
            if left > 0
                && let Some(slot) = epoch.refs.pop()
            {
                if is_live(slot, epoch.tag) {
                    epoch.refs.push(slot);
                } else {
                    self.refs -= 1;
                }
                self.compacting = Some((epoch.tag, left - 1));
                continue;
            }
            let next = self
                .epochs
                .get(position + 1)
                .map(|next| (next.tag, next.refs.len()));
            if self.epochs[position].refs.is_empty() && next.is_some() {
                self.drop_epoch(position);
            }
            self.compacting = next;
            if next.is_none() {
                // Several references may stand for one entry, so the number left may exceed the
                // aim.
                self.compact_at = 2 * self.refs.max(live) + STALE_MIN;
                self.compact_below = live / 2;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_young(ring: &EpochRing, tag: Tag) -> bool {
        ring.young_tags() >> tag & 1 != 0
    }

    #[test]
    fn the_window_is_known_to_one_epoch() {
        for queue in [10u64, 100, 24_000] {
            let window = queue * 3 / 10;
            let mut ring = EpochRing::new();
            ring.set_window(window);
            let tags: Vec<Tag> = (0..5 * queue)
                .map(|slot| {
                    let tag = ring.push(Slot(slot as u32), 1, queue);
                    if slot >= queue {
                        ring.pop();
                    }
                    assert!(is_young(&ring, tag), "the newest entry is young");
                    tag
                })
                .collect();
            let ages = tags.iter().rev().take(queue as usize).enumerate();
            for (age, &tag) in ages {
                let age = age as u64;
                if age + queue / EPOCHS_AIMED + 1 < window {
                    assert!(is_young(&ring, tag), "age {age} of {queue}");
                }
                if age > window + queue / EPOCHS_AIMED {
                    assert!(!is_young(&ring, tag), "age {age} of {queue}");
                }
            }
        }
    }

    #[test]
    fn without_a_window_nothing_is_young() {
        let mut ring = EpochRing::new();
        let tag = ring.push(Slot(1), 1, 100);
        assert!(!is_young(&ring, tag));
        ring.set_window(0);
        ring.clear();
        let tag = ring.push(Slot(1), 1, 100);
        assert!(!is_young(&ring, tag));
    }
}

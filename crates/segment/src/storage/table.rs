//! The hash table: chains of cache lines, read without locks, growing by one chain at a time.
//!
//! ```text
//! directory      first lines, side by side        further lines, anywhere
//! piece 0 ─────▶ [ chain 0: info, slots 1..7 ]
//!                [ chain 1: info, slots 1..6, link ]──▶[ info, slots 1..6, link ]──▶[ info, … ]
//!                [ chain 2: info, slots 1..7 ]
//! piece 1 ─────▶ …
//! ```
//!
//! # Growth
//! Linear hashing: with `n` chains, and `p` the largest power of two up to `n`, a key's chain is
//! its hash modulo `2p`, or modulo `p` where that chain does not exist yet. When there are more
//! than [`LOAD`] objects a chain, chain `n - p` is split in two. So the table never doubles at
//! once. A split inserts the objects in the new chain, publishes `n + 1`, and then clears them in
//! the old one. A reader that has not found a key checks whether the key's chain is another by now.
//!
//! # Why a reader finds what is there
//! An object changes its slot in three cases only: a chain is prolonged (slot 7 of the last line
//! becomes a link to the next line, which already holds the object); a chain is split; the last
//! line is emptied into earlier ones (`chain.rs`). After the latter two, a reader that found
//! nothing sees that it must search again: the key belongs to another chain, or the chain's `cas`
//! has gone up. A line leaves a chain only from its end, and empty. A reader that is still in it
//! continues in whatever chain the line belongs to next, where it meets objects of other keys only.

use super::chain::{CHAIN_MAX, Chain};
use super::cursor::SavedWords;
use super::heap::Heap;
use super::hint::prefetch;
use super::line::{
    ACCESS_MASK, CAS_SHIFT, COUNT_ONE, LAST, LOCK, SLOTS, SlotRef, SlotWord, matching, slots_of,
};
use super::lines::{Lines, TakeSegment};
use super::lists::SegmentLists;
use super::location::Location;
use super::words::{LINE, Line};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU64, Mutex, spin_loop};
use std::collections::BTreeMap;
use std::sync::PoisonError;

/// Mean number of objects per chain at which the table grows. The table takes 64 / LOAD bytes per
/// object times the lines of a chain: 12.3 bytes at 10, and nearly the same around it. A hit reads
/// 1.4 lines.
const LOAD: u64 = 10;

/// Mean number of objects per chain at which a writer waits for another writer that is splitting a
/// chain. The system may have suspended that writer, and without growth the chains would fill up
/// and lose objects.
const LOAD_MAX: u64 = 4 * LOAD;

/// Hash table.
#[derive(Debug)]
pub(crate) struct Table {
    chain_count: AtomicU64,
    /// Number of the first word of each piece of first lines; 0 if the piece was not taken yet.
    pieces: Box<[AtomicU64]>,
    lines: Lines,
    /// Lock that is held while a chain is split.
    split: Mutex<()>,
    /// Number of times that a writer has waited for another writer's split.
    #[cfg(test)]
    pub(crate) waits: AtomicU64,
}

/// Returns the chain of a hash in a table of `chains` chains.
#[inline(always)]
fn chain_among(hash: u64, chains: u64) -> u64 {
    let mask = u64::MAX >> (chains | 1).leading_zeros();
    let chain = hash & mask;
    if chain < chains {
        chain
    } else {
        chain & (mask >> 1)
    }
}

/// Returns the `cas` of the chain that begins with this line.
#[inline(always)]
pub(super) fn cas_of(line: &Line) -> u32 {
    (line[0].load(Acquire) >> CAS_SHIFT) as u32
}

impl Table {
    /// Creates a table with as many chains as a piece has lines. Returns `None` if the heap has no
    /// segment for it.
    pub(super) fn new(heap: &Heap, source: &dyn TakeSegment) -> Option<Self> {
        let lines = Lines::new(heap);
        let pieces: Box<[AtomicU64]> = (0..lines.pieces_max()).map(|_| AtomicU64::new(0)).collect();
        let first = lines.take_piece(heap, source)?;
        pieces[0].store(lines.first_word(first), Relaxed);
        Some(Table {
            chain_count: AtomicU64::new(1 << lines.piece_bits()),
            pieces,
            lines,
            split: Mutex::new(()),
            #[cfg(test)]
            waits: AtomicU64::new(0),
        })
    }

    /// Appends the number of chains, and the pieces that contain their first lines.
    pub(super) fn save(&self, saved: &mut Vec<u64>) {
        self.lines.save(saved);
        saved.push(self.chain_count());
        let pieces = self.pieces.iter().map(|piece| piece.load(Relaxed));
        let pieces: Vec<u64> = pieces.take_while(|word| *word != 0).collect();
        saved.push(pieces.len() as u64);
        saved.extend(pieces);
    }

    /// Restores the table of an earlier engine, and removes its segments from the lists. The lines
    /// are used as they are in memory, so the caller must call [`Table::verify`] next. Returns
    /// `None` if the saved words are impossible.
    pub(super) fn restore(
        heap: &Heap,
        saved: &mut SavedWords<'_>,
        lists: &mut SegmentLists,
    ) -> Option<Self> {
        let lines = Lines::restore(heap, saved, lists)?;
        let (chain_count, piece_count) = (saved.next()?, saved.next()?);
        let pieces: Box<[AtomicU64]> = (0..lines.pieces_max()).map(|_| AtomicU64::new(0)).collect();
        let piece_count = usize::try_from(piece_count).ok()?;
        for piece in pieces.get(..piece_count)? {
            piece.store(saved.next()?, Relaxed);
        }
        let bits = lines.piece_bits();
        let can_be = 1 << bits..=(piece_count as u64) << bits;
        can_be.contains(&chain_count).then_some(Table {
            chain_count: AtomicU64::new(chain_count),
            pieces,
            lines,
            split: Mutex::new(()),
            #[cfg(test)]
            waits: AtomicU64::new(0),
        })
    }

    /// Checks the lines of a restored table: each belongs to one chain or to none, chains end,
    /// their counts are correct, and lines outside of chains are empty. `is_there` is called for
    /// the location of each object. Returns the number of objects, or `None` if something is wrong.
    pub(super) fn verify(
        &self,
        heap: &Heap,
        mut is_there: impl FnMut(Location) -> bool,
    ) -> Option<u64> {
        let (bits, taken) = (self.lines.piece_bits(), self.lines.taken_count());
        let firsts = (0..taken).step_by(1 << bits);
        let firsts: BTreeMap<u64, u32> = firsts
            .map(|line| (self.lines.first_word(line), line))
            .collect();
        let mut seen = vec![false; taken as usize];
        let mut mark = |line: u32| {
            let seen = seen.get_mut(line as usize)?;
            (!std::mem::replace(seen, true)).then_some(())
        };
        let mut room = 0;
        for piece in &self.pieces {
            let word = piece.load(Relaxed);
            if word != 0 {
                let first = *firsts.get(&word)?;
                (first..first + (1 << bits)).try_for_each(&mut mark)?;
                room += 1 << bits;
            }
        }
        let mut objects = 0;
        for number in 0..self.chain_count() {
            let first = self.first_line(heap, number);
            let (mut line, mut count) = (first, 0);
            let mut is_ended = false;
            for _ in 0..CHAIN_MAX {
                for index in SLOTS {
                    let slot = SlotWord(line[index].load(Relaxed));
                    let is_right = match slot {
                        SlotWord::VACANT => true,
                        slot if slot.is_object() => {
                            count += 1;
                            is_there(slot.location())
                        }
                        _ => index == LAST,
                    };
                    is_right.then_some(())?;
                }
                let Some(next) = SlotWord(line[LAST].load(Relaxed)).next_line() else {
                    is_ended = true;
                    break;
                };
                mark(next)?;
                line = self.lines.line(heap, next);
            }
            let info = first[0].load(Relaxed);
            let counted = info >> COUNT_ONE.trailing_zeros() & 0xff;
            (is_ended && info & LOCK == 0 && counted == count).then_some(())?;
            objects += count;
        }
        for number in self.chain_count()..room {
            // A split that was undone leaves the first word as it is.
            let slots = &self.first_line(heap, number)[SLOTS];
            slots
                .iter()
                .all(|word| word.load(Relaxed) == 0)
                .then_some(())?;
        }
        self.lines.mark_unused(heap, &mut seen)?;
        Some(objects)
    }

    /// Returns the size of the directories in bytes.
    pub(crate) fn directory_bytes(&self) -> usize {
        size_of_val(&*self.pieces) + self.lines.heap_bytes()
    }

    pub(crate) fn chain_count(&self) -> u64 {
        self.chain_count.load(Acquire)
    }

    /// Returns the number of segments that the table has taken.
    pub(crate) fn segment_count(&self) -> u32 {
        self.lines.segment_count()
    }

    /// Returns the number of lines in use.
    pub(crate) fn line_count(&self) -> u64 {
        self.lines.used_count()
    }

    /// Returns the chain of a hash.
    #[inline(always)]
    pub(super) fn chain_of(&self, hash: u64) -> u64 {
        chain_among(hash, self.chain_count.load(Acquire))
    }

    #[inline(always)]
    pub(super) fn line<'h>(&self, heap: &'h Heap, number: u32) -> &'h Line {
        self.lines.line(heap, number)
    }

    #[inline(always)]
    pub(super) fn first_line<'h>(&self, heap: &'h Heap, chain: u64) -> &'h Line {
        let bits = self.lines.piece_bits();
        let piece = self.pieces[(chain >> bits) as usize].load(Relaxed);
        let within = chain & ((1 << bits) - 1);
        heap.memory().line(piece + within * LINE as u64)
    }

    /// Returns the first line of a hash's chain, to be prefetched.
    #[inline(always)]
    pub(super) fn line_of<'h>(&self, heap: &'h Heap, hash: u64) -> &'h Line {
        self.first_line(heap, self.chain_of(hash))
    }

    /// Returns the location of the first object in a line with the tag of this hash, to be
    /// prefetched.
    #[inline(always)]
    pub(super) fn likely_in(line: &Line, hash: u64) -> Option<Location> {
        let mut slots =
            slots_of(matching(line, hash)).map(|index| SlotWord(line[index].load(Relaxed)));
        slots
            .find(|slot| slot.has_tag_of(hash))
            .map(SlotWord::location)
    }

    /// Returns the next line of a chain, to be prefetched.
    #[inline(always)]
    pub(super) fn line_after<'h>(&self, heap: &'h Heap, line: &Line) -> Option<&'h Line> {
        self.lines.after(heap, line)
    }

    /// Locks the chain of a hash against other writers.
    pub(super) fn lock<'t>(
        &'t self,
        heap: &'t Heap,
        source: &'t dyn TakeSegment,
        hash: u64,
    ) -> Chain<'t> {
        loop {
            let number = self.chain_of(hash);
            let chain = self.lock_chain(heap, source, number);
            if self.chain_of(hash) == number {
                return chain;
            }
        }
    }

    fn lock_chain<'t>(
        &'t self,
        heap: &'t Heap,
        source: &'t dyn TakeSegment,
        number: u64,
    ) -> Chain<'t> {
        let first = self.first_line(heap, number);
        loop {
            let info = first[0].load(Relaxed);
            let is_free = info & LOCK == 0;
            if is_free
                && first[0]
                    .compare_exchange_weak(info, info | LOCK, Acquire, Relaxed)
                    .is_ok()
            {
                break;
            }
            spin_loop();
        }
        Chain::locked(&self.lines, heap, source, first)
    }

    /// Returns true if there are more objects than the current number of chains should hold.
    #[inline]
    pub(super) fn is_crowded(&self, items: u64) -> bool {
        items > LOAD * self.chain_count.load(Relaxed)
    }

    /// Splits one chain. Returns false if another thread is splitting a chain, or if there is no
    /// memory for it. Waits for the other thread if the chains hold far too many objects. The
    /// caller must not have locked any chain.
    pub(super) fn grow(
        &self,
        heap: &Heap,
        source: &dyn TakeSegment,
        items: u64,
        hash_at: impl Fn(SlotWord) -> u64,
    ) -> bool {
        let _guard = match self.split.try_lock() {
            Ok(guard) => guard,
            Err(_) if items > LOAD_MAX * self.chain_count.load(Relaxed) => {
                #[cfg(test)]
                self.waits.fetch_add(1, Relaxed);
                self.split.lock().unwrap_or_else(PoisonError::into_inner)
            }
            Err(_) => return false,
        };
        let chains = self.chain_count.load(Acquire);
        let Some(new_first) = self.first_line_of_new(heap, source, chains) else {
            return false;
        };
        let old_number = chains - (1 << chains.ilog2());
        let mut old = self.lock_chain(heap, source, old_number);
        // This is later than any `cas` that was returned for the objects that move.
        let cas = u64::from(old.cas().wrapping_add(1));
        // Both chains get the time of the last access, because either may hold the object that was
        // last requested.
        let access = self.first_line(heap, old_number)[0].load(Relaxed) & ACCESS_MASK;
        new_first[0].store(cas << CAS_SHIFT | access | LOCK, Release);
        let mut new = Chain::locked(&self.lines, heap, source, new_first);
        // All objects are prefetched before the first key is hashed.
        let objects = old
            .slots()
            .filter_map(|slot| heap.words(slot.word.location()));
        objects.for_each(|words| prefetch(&words[0]));
        let mut moving = [None; CHAIN_MAX * LINE];
        let mut count = 0;
        let mut is_whole = true;
        for slot in old.slots() {
            if chain_among(hash_at(slot.word), chains + 1) == chains {
                is_whole &= new.insert(slot.word);
                moving[count] = Some(slot);
                count += 1;
            }
        }
        if !is_whole {
            // There is no further line for the new chain: the split is undone, before any reader
            // has seen the new chain.
            let slots: Vec<SlotRef<'_>> = new.slots().collect();
            slots.into_iter().for_each(|slot| new.clear(slot));
            new.shorten();
            return false;
        }
        drop(new);
        self.chain_count.store(chains + 1, Release);
        for slot in moving.into_iter().flatten() {
            old.clear(slot);
        }
        old.shorten();
        true
    }

    /// Returns the zeroed first line of a chain to be added, if memory is available.
    fn first_line_of_new<'h>(
        &self,
        heap: &'h Heap,
        source: &dyn TakeSegment,
        chain: u64,
    ) -> Option<&'h Line> {
        let piece = (chain >> self.lines.piece_bits()) as usize;
        let first_word = self.pieces.get(piece)?;
        if first_word.load(Relaxed) == 0 {
            let first = self.lines.take_piece(heap, source)?;
            first_word.store(self.lines.first_word(first), Relaxed);
        }
        Some(self.first_line(heap, chain))
    }

    /// Locks everything in the table but the chains. The caller holds the returned guard.
    #[cfg(test)]
    pub(super) fn held(&self) -> impl Sized + '_ {
        (self.split.lock(), self.lines.held())
    }

    /// Prevents all chains from being split, like a thread suspended in the middle of a split.
    #[cfg(test)]
    pub(crate) fn hold_split(&self) -> impl Sized + '_ {
        self.split.lock()
    }

    /// Returns the maximum number of objects that `writers` writers can store while no chain can be
    /// split.
    #[cfg(test)]
    pub(crate) fn items_without_split(&self, writers: u64) -> u64 {
        LOAD_MAX * self.chain_count() + writers
    }

    /// Locks every chain in turn, for checks.
    pub(super) fn locked_chains<'t>(
        &'t self,
        heap: &'t Heap,
        source: &'t dyn TakeSegment,
    ) -> impl Iterator<Item = Chain<'t>> {
        (0..self.chain_count()).map(move |number| self.lock_chain(heap, source, number))
    }
}

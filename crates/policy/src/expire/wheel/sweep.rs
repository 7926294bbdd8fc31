//! Passes over all buckets that keep the pool small, a budgeted number of steps at a time.
//!
//! *Sifting* drops stale references. It copies each bucket's references, in order, from its chunks
//! to new ones at the front of the same ring:
//!
//! ```text
//! (last chunk) → written → … → written, with holes → read, with holes → … → last chunk →
//! ```
//!
//! *Packing* moves chunks unchanged to lower pages, so that the last pages fall empty; it reads no
//! entries.
//!
//! New references go to the end of the ring as always. When a bucket is drained, which may be at
//! the same time, the pass starts again there: holes are skipped, and the chunks written so far are
//! complete.

use super::era::{BUCKETS, Link, Place, Tail};
use super::many::{Found, Many, look};
use super::pass::{Pass, Sifted};
use super::pool::{self, HOLE};
use crate::{Budget, Cells, Slot};

/// Number of stale references, in addition to one per entry, below which no pass is made.
const STALE_FREE: usize = 64;
/// Number of cells freed since the last packing, in addition to half of those in use, below which
/// no other packing is made.
const GIVEN_FREE: usize = 16;

impl Many {
    /// Whether there are more stale references than entries, or a pass that removes them is
    /// running.
    #[inline]
    pub(super) fn has_many_stale(&self) -> bool {
        matches!(self.sweep.pass, Pass::Sift(_)) || self.ref_count > 2 * self.len + STALE_FREE
    }

    /// Whether a pass should be started or is running. A pass that packs may not succeed, so it is
    /// tried again only when the pool has changed.
    pub(super) fn wants_sweep(&self) -> bool {
        if self.has_many_stale() || matches!(self.sweep.pass, Pass::Pack(_)) {
            return true;
        }
        let given = self.pool.given_count() - self.sweep.given_before;
        given > self.pool.cell_count() / 2 + GIVEN_FREE && self.pool.is_sparse()
    }

    /// Continues the pass, or starts one. Returns whether it is complete.
    pub(super) fn sweep(&mut self, cells: &mut impl Cells<Link>, budget: &mut Budget) -> bool {
        if self.has_many_stale() {
            if !matches!(self.sweep.pass, Pass::Sift(_)) {
                (self.sweep.pass, self.sweep.cursor) = (Pass::Sift(None), 0);
            }
        } else if matches!(self.sweep.pass, Pass::None) {
            (self.sweep.pass, self.sweep.cursor) = (Pass::Pack(None), 0);
        }
        while let Some(place) = self.sweep_place() {
            let is_done = match self.sweep.pass {
                Pass::Sift(sifted) => self.sift(cells, place, sifted, budget),
                Pass::Pack(before) => self.pack(place, before, budget),
                Pass::None => unreachable!("a pass was begun above"),
            };
            if !is_done {
                return false;
            }
        }
        self.sweep.pass = Pass::None;
        self.sweep.given_before = self.pool.given_count();
        true
    }

    /// Returns the bucket that the pass works on: the one begun, or the next that is occupied.
    fn sweep_place(&mut self) -> Option<Place> {
        while self.sweep.cursor < Place::COUNT {
            let place = Place(self.sweep.cursor);
            if place.era() > self.above.len() {
                return None;
            }
            let era = self.era(place.era());
            let rest = era.occupied(place.level()) >> place.bucket();
            if rest == 0 {
                // The first bucket of the next level.
                self.sweep.cursor = (self.sweep.cursor / BUCKETS as u16 + 1) * BUCKETS as u16;
            } else if rest & 1 == 0 {
                self.sweep.cursor += rest.trailing_zeros() as u16;
            } else {
                return Some(place);
            }
        }
        None
    }

    /// Copies the bucket's references up to the end of a chunk. Returns false if the budget ran
    /// out.
    fn sift(
        &mut self,
        cells: &mut impl Cells<Link>,
        place: Place,
        sifted: Option<Sifted>,
        budget: &mut Budget,
    ) -> bool {
        let tail = self.tail(place);
        let first = self.pool.next(tail.chunk());
        let mut sifted = sifted.unwrap_or_else(|| {
            self.undo_drain(place, first);
            Sifted {
                read: first,
                index: 0,
                written: None,
            }
        });
        let read = sifted.read;
        if sifted.index == 0 {
            sifted.index = pool::capacity(self.pool.ordinal(read));
        }
        let last = if read == tail.chunk() {
            tail.room() + 1
        } else {
            1
        };
        while sifted.index >= last {
            if !budget.spend() {
                self.sweep.pass = Pass::Sift(Some(sifted));
                return false;
            }
            let slot = self.pool.word(read, sifted.index);
            match look(cells, slot, place, sifted.index) {
                Found::Filed(_) => self.keep(cells, place, &mut sifted, slot),
                Found::Stale if slot != HOLE => self.forget_ref(place),
                Found::Stale => {}
            }
            self.pool.set_word(read, sifted.index, HOLE);
            sifted.index -= 1;
        }
        self.leave_chunk(place, sifted);
        true
    }

    /// Completes the bucket's first chunk with holes if a part of it was drained.
    fn undo_drain(&mut self, place: Place, first: u32) {
        let Some(drain) = self
            .era(place.era())
            .drain
            .filter(|drain| drain.place == place)
        else {
            return;
        };
        if drain.index > 0 {
            for index in drain.index + 1..=pool::capacity(self.pool.ordinal(first)) {
                self.pool.set_word(first, index, HOLE);
            }
            self.era_mut(place.era()).restart_drain(place);
        }
    }

    /// Appends a reference to the written part of the bucket.
    fn keep(&mut self, cells: &mut impl Cells<Link>, place: Place, sifted: &mut Sifted, slot: u32) {
        let (chunk, room) = match sifted.written {
            Some(written) if written.room() > 0 => (written.chunk(), written.room()),
            written => {
                let before = written.map_or(self.tail(place).chunk(), Tail::chunk);
                let ordinal = written.map_or(0, |_| {
                    (self.pool.ordinal(before) + 1).min(pool::ORDINAL_MAX)
                });
                let chunk = self.pool.take(ordinal);
                let room = pool::capacity(ordinal);
                for index in 1..=room {
                    self.pool.set_word(chunk, index, HOLE);
                }
                self.pool.set_next(chunk, sifted.read);
                self.pool.set_next(before, chunk);
                (chunk, room)
            }
        };
        self.pool.set_word(chunk, room, slot);
        sifted.written = Some(Tail::new(chunk, room - 1));
        cells.set(Slot(slot), place.link(room));
    }

    /// Frees the chunk that was read, and continues with the next one or the next bucket.
    fn leave_chunk(&mut self, place: Place, sifted: Sifted) {
        let tail = self.tail(place);
        let next = self.pool.next(sifted.read);
        let is_last = sifted.read == tail.chunk();
        if !is_last || sifted.written.is_some() {
            let before = sifted.written.map_or(tail.chunk(), Tail::chunk);
            self.pool.set_next(before, next);
        }
        self.pool.give(sifted.read);
        if !is_last {
            self.sweep.pass = Pass::Sift(Some(Sifted {
                read: next,
                index: 0,
                ..sifted
            }));
            return;
        }
        self.sweep.pass = Pass::Sift(None);
        self.sweep.cursor += 1;
        match sifted.written {
            Some(written) => self.era_mut(place.era()).set_tail(place, written),
            None => self.vacate(place),
        }
    }

    /// Moves the chunk after `before` to a lower page if there is room, one step per four
    /// references. Returns false if the budget ran out.
    fn pack(&mut self, place: Place, before: Option<u32>, budget: &mut Budget) -> bool {
        if budget.0 == 0 {
            return false;
        }
        let tail = self.tail(place);
        let before = before.unwrap_or(tail.chunk());
        let mut chunk = self.pool.next(before);
        let steps = pool::capacity(self.pool.ordinal(chunk)) / 4;
        budget.0 = budget.0.saturating_sub(steps);
        let is_last = chunk == tail.chunk();
        if let Some(lower) = self.pool.lower(chunk) {
            let is_only = chunk == before;
            self.pool
                .set_next(if is_only { lower } else { before }, lower);
            if is_last {
                self.era_mut(place.era())
                    .set_tail(place, Tail::new(lower, tail.room()));
            }
            chunk = lower;
        }
        self.sweep.pass = Pass::Pack(if is_last { None } else { Some(chunk) });
        self.sweep.cursor += u16::from(is_last);
        true
    }

    /// Panics if the chunk that the pass is at is not in the bucket at the cursor.
    pub(super) fn check_sweep(&self) {
        let Some(wanted) = (match self.sweep.pass {
            Pass::None => None,
            Pass::Sift(sifted) => sifted.map(|sifted| sifted.read),
            Pass::Pack(before) => before,
        }) else {
            return;
        };
        let last = self.tail(Place(self.sweep.cursor)).chunk();
        let mut chunk = self.pool.next(last);
        while chunk != wanted {
            assert_ne!(chunk, last, "the chunk at hand lies in the bucket");
            chunk = self.pool.next(chunk);
        }
    }
}

//! The wheel itself: files references, and takes them out again when their time comes.

use super::era::{Drain, ERAS, Era, LEVELS, Link, Place, Tail};
use super::pass::Sweep;
use super::pool::{self, HOLE, Pool};
use alloc::vec::Vec;

use crate::{Budget, Cells, Due, Slot, Tick};

/// Number of references read together, so that their cache misses overlap.
const GROUP: usize = 16;
/// Mask of the low bits of the time at which a new era starts. A deadline before every era creates
/// an era that starts at the beginning of the current period of 64⁴ ms (4.66 hours), so that other
/// deadlines shortly before it fit in the era as well.
const ANCHOR_MASK: u64 = (1 << 24) - 1;
/// Maximum lag of the era's start behind the clock before an insertion moves it.
const ANCHOR_LAG_MS: u64 = 4096;
/// With fewer references than this, the words of an empty level are freed.
const SMALL_REFS: usize = 4096;

/// Eras of references in one pool.
pub(super) struct Many {
    /// Era of deadlines to come.
    pub(super) base: Era,
    /// Eras for deadlines before the base era's start, created when the clock jumped back. Outside
    /// of a call none is empty.
    pub(super) above: Vec<Era>,
    pub(super) pool: Pool,
    /// Number of entries held.
    pub(super) len: usize,
    /// Number of references in the pool: one valid reference for each entry held, and the stale
    /// ones.
    pub(super) ref_count: usize,
    pub(super) sweep: Sweep,
}

/// State of a reference.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Stale: its slot is vacant, has no deadline, or is filed in another place.
    Stale,
    /// The reference's entry is filed here and has this deadline.
    Filed(u64),
}

/// Reads the entry of a reference in word `index` of `chunk`.
#[inline]
pub(super) fn look(cells: &impl Cells<Link>, slot: u32, place: Place, index: u32) -> Found {
    if slot == HOLE {
        return Found::Stale;
    }
    match cells.deadline(Slot(slot)) {
        Some(deadline) if cells.get(Slot(slot)) == place.link(index) => Found::Filed(deadline.0),
        _ => Found::Stale,
    }
}

impl Many {
    pub(super) fn new(elapsed: Tick) -> Self {
        Many {
            base: Era::new(elapsed.0),
            above: Vec::new(),
            pool: Pool::default(),
            len: 0,
            ref_count: 0,
            sweep: Sweep::default(),
        }
    }

    #[inline]
    pub(super) fn era(&self, era: usize) -> &Era {
        if era == 0 {
            &self.base
        } else {
            &self.above[era - 1]
        }
    }

    #[inline]
    pub(super) fn era_mut(&mut self, era: usize) -> &mut Era {
        if era == 0 {
            &mut self.base
        } else {
            &mut self.above[era - 1]
        }
    }

    pub(super) fn insert(&mut self, cells: &mut impl Cells<Link>, slot: Slot) {
        let deadline = cells
            .deadline(slot)
            .expect("an entry is inserted with its deadline");
        let now = cells.now().0;
        if now > self.base.elapsed + ANCHOR_LAG_MS {
            self.advance(now);
        }
        self.len += 1;
        self.file_new(cells, slot, deadline);
    }

    pub(super) fn update(&mut self, cells: &mut impl Cells<Link>, slot: Slot) {
        let deadline = cells
            .deadline(slot)
            .expect("an updated entry has a deadline");
        let place = cells.get(slot).place().expect("an updated entry is filed");
        // It will be read in time at its present place, and is filed again then.
        if deadline.0 < self.era(place.era()).start_of(place) {
            self.file_new(cells, slot, deadline);
        }
    }

    pub(super) fn moved(&mut self, cells: &mut impl Cells<Link>, new: Slot) {
        let deadline = cells
            .deadline(new)
            .expect("an entry that moved kept its deadline");
        self.file_new(cells, new, deadline);
    }

    /// Files an entry, and does as much of a sweep as the added reference may make necessary.
    #[inline]
    fn file_new(&mut self, cells: &mut impl Cells<Link>, slot: Slot, deadline: Tick) {
        self.file(cells, slot, deadline.0);
        if self.has_many_stale() {
            self.sweep(cells, &mut Budget(GROUP as u32));
        }
    }

    /// Files an entry where its deadline belongs.
    #[inline]
    pub(super) fn file(&mut self, cells: &mut impl Cells<Link>, slot: Slot, deadline: u64) {
        debug_assert!(slot.0 != HOLE, "this slot is reserved");
        let (era, deadline) = if self.above.is_empty() && deadline >= self.base.elapsed {
            (0, deadline)
        } else {
            self.era_for(cells.now().0, deadline)
        };
        let (level, bucket) = self.era(era).place_of(deadline, false);
        self.append(cells, slot, Place::new(era, level, bucket));
    }

    #[inline]
    fn append(&mut self, cells: &mut impl Cells<Link>, slot: Slot, place: Place) {
        let era = if place.era() == 0 {
            &mut self.base
        } else {
            &mut self.above[place.era() - 1]
        };
        let index = era.append(&mut self.pool, place, slot.0);
        self.ref_count += 1;
        cells.set(slot, place.link(index));
    }

    /// Returns the era for a deadline, and the deadline limited to that era.
    #[cold]
    fn era_for(&mut self, now: u64, deadline: u64) -> (usize, u64) {
        if self.above.is_empty() && self.base.is_empty() {
            self.base.elapsed = now.min(deadline);
            return (0, deadline);
        }
        let eras = 1 + self.above.len();
        if let Some(era) = (0..eras).find(|&era| self.era(era).elapsed <= deadline) {
            return (era, deadline);
        }
        if eras < ERAS {
            self.above.reserve_exact(1);
            self.above.push(Era::new(now.min(deadline) & !ANCHOR_MASK));
            return (eras, deadline);
        }
        (ERAS - 1, self.era(ERAS - 1).elapsed)
    }

    /// Returns the earliest occupied bucket.
    pub(super) fn front(&self) -> Option<Place> {
        let era = self.above.len();
        let (level, bucket) = self.era(era).front()?;
        Some(Place::new(era, level, bucket))
    }

    /// Returns the time at which a bucket is processed. At level 0 its entries are dead after their
    /// millisecond. Any other bucket is cascaded as soon as its period begins.
    pub(super) fn due_of(&self, place: Place) -> u64 {
        self.era(place.era()).start_of(place) + u64::from(place.level() == 0)
    }

    /// Moves the wheel's time to the clock's, without passing an occupied bucket, so that new
    /// deadlines are filed at low levels.
    pub(super) fn advance(&mut self, now: u64) {
        if !self.above.is_empty() || self.base.drain.is_some() {
            return;
        }
        if self
            .front()
            .is_none_or(|front| now < self.base.start_of(front))
        {
            self.base.elapsed = self.base.elapsed.max(now);
        }
    }

    pub(super) fn pop_expired(
        &mut self,
        cells: &mut impl Cells<Link>,
        now: Tick,
        budget: &mut Budget,
    ) -> Due {
        while let Some(place) = self.front() {
            if self.due_of(place) > now.0 {
                break;
            }
            let era = self.era_mut(place.era());
            if era.drain.is_none() {
                era.begin_drain(place);
            }
            if budget.0 == 0 {
                return Due::Again;
            }
            self.sweep.leave(place);
            if place.level() > 0 {
                self.cascade(cells, place, budget);
            } else if let Some(slot) = self.return_dead(cells, place, budget) {
                return Due::Slot(slot);
            }
        }
        if self.wants_sweep() && !self.sweep(cells, budget) {
            return Due::Again;
        }
        self.advance(now.0);
        Due::Nothing
    }

    /// Returns the front chunk of the bucket that is drained, its next word, and the last word to
    /// be read.
    fn drain_front(&self, place: Place) -> (u32, u32, u32) {
        let era = self.era(place.era());
        let drain = era.drain.expect("the front bucket is being drained");
        debug_assert_eq!(drain.place, place);
        let tail = era.tail(place);
        let chunk = self.pool.next(tail.chunk());
        let last = if chunk == tail.chunk() {
            tail.room() + 1
        } else {
            1
        };
        let index = if drain.index == 0 {
            pool::capacity(self.pool.ordinal(chunk))
        } else {
            drain.index
        };
        (chunk, index, last)
    }

    /// Records that the words of the front chunk before `index` were drained.
    #[inline]
    fn drain_to(&mut self, place: Place, chunk: u32, index: u32) {
        let tail = self.era(place.era()).tail(place);
        let (is_only, room) = (chunk == tail.chunk(), tail.room());
        if index > if is_only { room } else { 0 } {
            self.era_mut(place.era()).drain = Some(Drain { place, index });
            return;
        }
        if !is_only {
            let next = self.pool.next(chunk);
            self.pool.set_next(tail.chunk(), next);
            self.era_mut(place.era()).restart_drain(place);
        }
        self.pool.give(chunk);
        if is_only {
            self.vacate(place);
        }
    }

    /// Records that the last chunk of a bucket was freed.
    pub(super) fn vacate(&mut self, place: Place) {
        let is_small = self.ref_count < SMALL_REFS;
        self.era_mut(place.era()).vacate(place, is_small);
        if place.era() > 0 {
            self.drop_empty_eras();
        }
    }

    pub(super) fn drop_empty_eras(&mut self) {
        while self.above.pop_if(|era| era.is_empty()).is_some() {}
        if self.above.is_empty() {
            self.above = Vec::new();
        }
    }

    /// Whether the draining of a bucket was begun and is not finished.
    pub(super) fn is_draining(&self) -> bool {
        (0..=self.above.len()).any(|era| self.era(era).drain.is_some())
    }

    /// Subtracts one reference from the counts.
    #[inline]
    pub(super) fn forget_ref(&mut self, place: Place) {
        self.ref_count -= 1;
        self.era_mut(place.era()).ref_counts[place.level()] -= 1;
    }

    /// Files a group of the drained bucket's references at lower levels.
    fn cascade(&mut self, cells: &mut impl Cells<Link>, place: Place, budget: &mut Budget) {
        let (chunk, index, last) = self.drain_front(place);
        let count = (index + 1 - last).min(budget.0).min(GROUP as u32);
        budget.0 -= count;
        let mut found = [(HOLE, Found::Stale); GROUP];
        for (offset, item) in (0..count).zip(&mut found) {
            let slot = self.pool.word(chunk, index - offset);
            *item = (slot, look(cells, slot, place, index - offset));
        }
        for (slot, found) in found.into_iter().take(count as usize) {
            if slot != HOLE {
                self.forget_ref(place);
            }
            if let Found::Filed(deadline) = found {
                self.file_again(cells, Slot(slot), deadline, place);
            }
        }
        self.drain_to(place, chunk, index - count);
    }

    /// Refiles an entry whose reference was read at `place`, which is being drained.
    #[inline]
    fn file_again(
        &mut self,
        cells: &mut impl Cells<Link>,
        slot: Slot,
        deadline: u64,
        place: Place,
    ) {
        let era = self.era(place.era());
        let (level, bucket) = era.place_of(deadline.max(era.elapsed), true);
        // An entry of an earlier era with a deadline after that era's end belongs to a later era.
        if place.era() > 0 && deadline >= self.era(place.era() - 1).elapsed {
            self.file(cells, slot, deadline);
        } else {
            self.append(cells, slot, Place::new(place.era(), level, bucket));
        }
    }

    /// Returns the next dead entry of the drained millisecond, if the front group has one.
    fn return_dead(
        &mut self,
        cells: &mut impl Cells<Link>,
        place: Place,
        budget: &mut Budget,
    ) -> Option<Slot> {
        let (chunk, mut index, last) = self.drain_front(place);
        let millisecond = self.era(place.era()).elapsed;
        let mut dead = None;
        while dead.is_none() && index >= last && budget.spend() {
            let slot = self.pool.word(chunk, index);
            let found = look(cells, slot, place, index);
            index -= 1;
            if slot != HOLE {
                self.forget_ref(place);
            }
            match found {
                Found::Filed(deadline) if deadline <= millisecond => {
                    cells.set(Slot(slot), Link::default());
                    self.len -= 1;
                    dead = Some(Slot(slot));
                }
                Found::Filed(deadline) => self.file_again(cells, Slot(slot), deadline, place),
                Found::Stale => {}
            }
        }
        self.drain_to(place, chunk, index);
        dead
    }

    /// Returns an upper bound on the number of entries dead at `now`: the number of references at
    /// levels whose first bucket has begun.
    pub(super) fn backlog(&self, now: Tick) -> usize {
        let mut count = 0;
        for era in 0..=self.above.len() {
            for level in 0..LEVELS {
                let Some(bucket) = self.era(era).first_of(level) else {
                    continue;
                };
                if self.era(era).start_of(Place::new(era, level, bucket)) < now.0 {
                    count += self.era(era).ref_counts[level] as usize;
                }
            }
        }
        count.min(self.len)
    }

    /// Calls `see` with the place, the index and the value of each word that may hold a reference.
    /// Slow.
    pub(super) fn each_ref(&self, mut see: impl FnMut(Place, u32, u32)) {
        for era in 0..=self.above.len() {
            for level in 0..LEVELS {
                let mut occupied = self.era(era).occupied(level);
                while occupied != 0 {
                    let place = Place::new(era, level, occupied.trailing_zeros() as usize);
                    occupied &= occupied - 1;
                    self.each_ref_of(place, &mut see);
                }
            }
        }
    }

    fn each_ref_of(&self, place: Place, see: &mut impl FnMut(Place, u32, u32)) {
        let era = self.era(place.era());
        let tail = era.tail(place);
        let mut chunk = tail.chunk();
        let mut drained = era
            .drain
            .filter(|drain| drain.place == place)
            .map_or(0, |drain| drain.index);
        loop {
            chunk = self.pool.next(chunk);
            let capacity = pool::capacity(self.pool.ordinal(chunk));
            let first = if drained == 0 { capacity } else { drained };
            drained = 0;
            let last = if chunk == tail.chunk() {
                tail.room() + 1
            } else {
                1
            };
            for index in (last..=first).rev() {
                see(place, index, self.pool.word(chunk, index));
            }
            if chunk == tail.chunk() {
                break;
            }
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.pool.heap_bytes()
            + self.above.capacity() * size_of::<Era>()
            + (0..=self.above.len())
                .map(|era| self.era(era).heap_bytes())
                .sum::<usize>()
    }

    pub(super) fn check(&self, cells: &impl Cells<Link>) {
        self.pool.check();
        let mut filed = Vec::new();
        let mut ref_counts = [[0; LEVELS]; ERAS];
        self.each_ref(|place, index, slot| {
            if slot == HOLE {
                return;
            }
            ref_counts[place.era()][place.level()] += 1;
            if let Found::Filed(deadline) = look(cells, slot, place, index) {
                assert!(
                    self.era(place.era()).start_of(place) <= deadline || self.is_clamped(place),
                    "{slot} would be late"
                );
                filed.push(slot);
            }
        });
        for (era, ref_counts) in ref_counts.iter().enumerate().take(1 + self.above.len()) {
            self.era(era).check();
            assert_eq!(self.era(era).ref_counts, *ref_counts);
            if let Some(above) = self.above.get(era) {
                assert!(above.elapsed <= self.era(era).elapsed);
            }
        }
        assert!(
            !self.above.last().is_some_and(Era::is_empty),
            "an empty era on top is dropped"
        );
        assert_eq!(
            self.ref_count,
            ref_counts.as_flattened().iter().sum::<u32>() as usize
        );
        filed.sort_unstable();
        filed.dedup();
        assert_eq!(filed.len(), self.len, "each entry is filed");
        self.check_sweep();
    }

    /// Whether this bucket may hold deadlines before the start of every era.
    fn is_clamped(&self, place: Place) -> bool {
        place.era() == ERAS - 1
    }

    /// Returns the word of a bucket.
    pub(super) fn tail(&self, place: Place) -> Tail {
        self.era(place.era()).tail(place)
    }
}

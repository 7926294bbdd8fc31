//! Counting, listing and sampling of live elements while expired ones have not been removed yet.
//!
//! With the ranked index, the default, no cost grows with the number of expired elements:
//!
//! - Counting the expired elements adds up counts of branches of the index and examines at most 64
//!   elements.
//! - Choosing a random element takes at most 256 tries and examines at most 256 pages. If nearly
//!   all elements have expired, a live one with a deadline is found by its rank. All pages are
//!   searched only if the live elements have no deadline and are fewer than one in some thousands.
//! - Listing by deadline examines the listed elements and those of two more leaves of 64. The
//!   number of elements with earlier deadlines does not matter.
//!
//! Other indexes cannot count. With them, expired elements are counted one by one, and a list by
//! deadline examines all elements.

use super::{DeadlineCells, TimedElements};
use crate::collection::below;
use crate::elements::Elements;
use policy::expire::ranked::Ranked;
use policy::{ExpiryIndex, Slot, Tick};
use std::collections::{BinaryHeap, HashSet};

/// Random tries per requested element. The elements that are then still missing are taken in the
/// order of the pages.
const TRIES_EACH: usize = 16;

impl TimedElements {
    fn facts(&self, now: Tick) -> DeadlineCells<&Elements> {
        let elements = &self.elements;
        DeadlineCells { elements, now }
    }

    /// Returns the index of deadlines if it is the ranked one, which can count; otherwise `None`.
    fn ranks(&self) -> Option<&Ranked> {
        self.deadline_index.as_deref()?.index.ranked()
    }

    /// Returns the number of expired elements that have not been removed yet; `None` if they would
    /// have to be counted one by one.
    fn dead(&self, now: Tick) -> Option<usize> {
        let Some(deadline_index) = &self.deadline_index else {
            return Some(0);
        };
        match deadline_index.index.ranked() {
            Some(ranks) => Some(ranks.rank(&self.facts(now), now)),
            None => (deadline_index.index.backlog(now) == 0).then_some(0),
        }
    }

    /// Returns the exact number of live elements.
    pub fn len(&self, now: Tick) -> usize {
        match self.dead(now) {
            _ if self.is_void => 0,
            Some(dead) => self.elements.len() - dead,
            None => self.live(now).count(),
        }
    }

    /// Returns whether no element is live.
    pub fn is_empty(&self, now: Tick) -> bool {
        match self.dead(now) {
            _ if self.is_void => true,
            Some(dead) => self.elements.len() == dead,
            None => self.live(now).next().is_none(),
        }
    }

    /// Returns whether the collection may hold expired elements.
    pub fn may_hold_dead(&self, now: Tick) -> bool {
        self.is_void || self.dead(now) != Some(0)
    }

    /// Returns whether no element is live. The result may be a false negative, because only the
    /// ranked index can count expired elements.
    pub fn is_dead(&self, now: Tick) -> bool {
        let Some(deadline_index) = self.deadline_index.as_deref().filter(|_| !self.is_void())
        else {
            return self.is_void();
        };
        match self.ranks() {
            Some(_) => self.is_empty(now),
            None => {
                deadline_index.index.len() == self.elements.len() && now > deadline_index.latest
            }
        }
    }

    /// Returns the live elements, page by page.
    pub fn live(&self, now: Tick) -> impl Iterator<Item = Slot> {
        let slots = self.elements.iter();
        slots.filter(move |slot| !self.is_void && self.is_live(*slot, now))
    }

    /// Passes the live elements to `each`: page by page, or by deadline if most elements have
    /// expired.
    pub fn each_live(&self, now: Tick, each: &mut dyn FnMut(Slot)) {
        let all_die = self.elements.deadline_count() == self.elements.len();
        if let Some(ranks) = self.ranks().filter(|_| all_die && !self.is_void) {
            let facts = self.facts(now);
            let dead = ranks.rank(&facts, now);
            if dead > self.elements.len() / 2 {
                return ranks.walk(&facts, dead, &mut |_, slot| {
                    each(slot);
                    true
                });
            }
        }
        self.live(now).for_each(each);
    }

    /// Passes live elements with deadlines from `first` to `last` to `each` in order of deadline:
    /// skips the first `offset`, then passes up to `count`. Elements with equal deadlines are in an
    /// arbitrary order that does not change until something is written.
    pub fn each_by_deadline(
        &self,
        (first, last): (Tick, Tick),
        (offset, count): (usize, usize),
        now: Tick,
        each: &mut dyn FnMut(Tick, Slot),
    ) {
        let (first, mut left) = (first.max(now), count);
        if self.is_void || count == 0 || last < first {
            return;
        }
        if let Some(ranks) = self.ranks() {
            let facts = self.facts(now);
            let rank = ranks.rank(&facts, first).saturating_add(offset);
            return ranks.walk(&facts, rank, &mut |deadline, slot| {
                if deadline > last {
                    return false;
                }
                each(deadline, slot);
                left -= 1;
                left > 0
            });
        }
        // Keeps no more elements at once than can be passed.
        let (most, mut nearest) = (offset.saturating_add(count), BinaryHeap::new());
        for slot in self.elements.iter() {
            let deadline = self.elements.deadline(slot);
            let Some(deadline) = deadline.filter(|at| (first..=last).contains(at)) else {
                continue;
            };
            nearest.push((deadline, slot));
            if nearest.len() > most {
                nearest.pop();
            }
        }
        let reported = nearest.into_sorted_vec().into_iter().skip(offset);
        reported.for_each(|(deadline, slot)| each(deadline, slot));
    }

    /// Returns a random live element; `None` if there is none. All are equally likely, unless so
    /// few are live that [`TimedElements::pick_of_few`] must search.
    fn pick(&self, now: Tick, random: u64) -> Option<Slot> {
        let is_live = |slot| self.is_live(slot, now);
        let found = self.elements.sample_where(random, is_live);
        found.or_else(|| self.pick_of_few(now, random))
    }

    /// Returns a random live element when nearly all elements have expired; all are equally likely.
    /// An element with a deadline is found by its rank in the index. An element without one, or any
    /// element if the index cannot count, is counted off in page order.
    #[cold]
    fn pick_of_few(&self, now: Tick, random: u64) -> Option<Slot> {
        let len = self.len(now);
        let endless = self.elements.len() - self.elements.deadline_count();
        if len == 0 {
            return None;
        }
        let nth = below(random, len);
        if let Some(ranks) = self.ranks().filter(|_| nth + endless < len) {
            let (facts, mut found) = (self.facts(now), None);
            let rank = ranks.rank(&facts, now) + nth;
            ranks.walk(&facts, rank, &mut |_, slot| {
                found = Some(slot);
                false
            });
            return found;
        }
        if self.ranks().is_some() {
            let is_endless = |slot: &Slot| self.elements.deadline(*slot).is_none();
            return self.elements.iter().filter(is_endless).nth(len - 1 - nth);
        }
        self.live(now).nth(nth)
    }

    /// Passes up to `count` distinct live elements to `each`, chosen uniformly, or all if there are
    /// fewer.
    pub fn sample(
        &self,
        count: usize,
        now: Tick,
        random: &mut dyn FnMut() -> u64,
        each: &mut dyn FnMut(Slot),
    ) {
        let len = self.len(now);
        if count >= len {
            return self.each_live(now, each);
        }
        if count * 4 < len {
            let mut reported = HashSet::with_capacity(count);
            for _ in 0..TRIES_EACH * count {
                match self.pick(now, random()) {
                    _ if reported.len() == count => return,
                    Some(slot) if reported.insert(slot) => each(slot),
                    _ => {}
                }
            }
            return self.each_live(now, &mut |slot| {
                if reported.len() < count && reported.insert(slot) {
                    each(slot);
                }
            });
        }
        // The first steps of a Fisher-Yates shuffle.
        let mut slots = Vec::with_capacity(len);
        self.each_live(now, &mut |slot| slots.push(slot));
        for at in 0..count {
            slots.swap(at, at + below(random(), len - at));
            each(slots[at]);
        }
    }

    /// Passes `count` live elements to `each`, each chosen at random among all. Passes none if no
    /// element is live.
    pub fn sample_with_repeats(
        &self,
        count: usize,
        now: Tick,
        random: &mut dyn FnMut() -> u64,
        each: &mut dyn FnMut(Slot),
    ) {
        for _ in 0..count {
            match self.pick(now, random()) {
                Some(slot) => each(slot),
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests;

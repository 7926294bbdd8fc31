//! How many elements live, which they are, and in which order they die, while dead ones wait to be taken
//! out.
//!
//! Under the index that ranks, the default, nothing here grows with the dead:
//!
//! - How many are dead is a sum over its branches, and a look at 64 elements at most.
//! - An element by chance takes 256 looks and 256 pages at most; where nearly all are dead, one of
//!   those that still have time is found by its rank. Only where those that live have no deadline, and are
//!   fewer than one in some thousands, the pages are walked.
//! - Listed by deadline, elements are looked at in leaves of 64: those told, and two leaves more, however
//!   many come before them.
//!
//! Other indexes do not count: under them dead elements are counted one by one, and a list by
//! deadline looks at all.

use super::{DeadlineCells, TimedElements};
use crate::collection::below;
use crate::elements::Elements;
use policy::expire::ranked::Ranked;
use policy::{ExpiryIndex, Slot, Tick};
use std::collections::{BinaryHeap, HashSet};

/// Choices by chance for each element that is asked for, before the rest is taken as it comes.
const TRIES_EACH: usize = 16;

impl TimedElements {
    fn facts(&self, now: Tick) -> DeadlineCells<&Elements> {
        let elements = &self.elements;
        DeadlineCells { elements, now }
    }

    /// The index, if it is the one that ranks.
    fn ranks(&self) -> Option<&Ranked> {
        self.deadline_index.as_deref()?.index.ranked()
    }

    /// How many are dead and not yet gone, unless they would have to be counted.
    fn dead(&self, now: Tick) -> Option<usize> {
        let Some(deadline_index) = &self.deadline_index else {
            return Some(0);
        };
        match deadline_index.index.ranked() {
            Some(ranks) => Some(ranks.rank(&self.facts(now), now)),
            None => (deadline_index.index.backlog(now) == 0).then_some(0),
        }
    }

    /// How many live. Exact.
    pub fn len(&self, now: Tick) -> usize {
        match self.dead(now) {
            _ if self.is_void => 0,
            Some(dead) => self.elements.len() - dead,
            None => self.live(now).count(),
        }
    }

    /// Whether none lives.
    pub fn is_empty(&self, now: Tick) -> bool {
        match self.dead(now) {
            _ if self.is_void => true,
            Some(dead) => self.elements.len() == dead,
            None => self.live(now).next().is_none(),
        }
    }

    /// Whether some may be dead and not yet gone.
    pub fn may_hold_dead(&self, now: Tick) -> bool {
        self.is_void || self.dead(now) != Some(0)
    }

    /// Whether none lives, as far as a bounded look tells.
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

    /// The live elements, page by page.
    pub fn live(&self, now: Tick) -> impl Iterator<Item = Slot> {
        let slots = self.elements.iter();
        slots.filter(move |slot| !self.is_void && self.is_live(*slot, now))
    }

    /// Tells the live elements: page by page, or by their deadlines where most are dead.
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

    /// Tells live elements by their deadlines, from `first` to `last`, without the `offset` first of them, up to
    /// `count`. Those of one instant come in no order that means anything, but in the same one until
    /// something is written.
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
        // Of many, no more are kept at once than can be told.
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
        let told = nearest.into_sorted_vec().into_iter().skip(offset);
        told.for_each(|(deadline, slot)| each(deadline, slot));
    }

    /// A live element, uniformly by chance; `None` when there is none.
    fn pick(&self, now: Tick, random: u64) -> Option<Slot> {
        let is_live = |slot| self.is_live(slot, now);
        let found = self.elements.sample_where(random, is_live);
        found.or_else(|| self.pick_of_few(now, random))
    }

    /// The same where nearly all are dead: by rank one of those that have a deadline, or the first
    /// of the others.
    #[cold]
    fn pick_of_few(&self, now: Tick, random: u64) -> Option<Slot> {
        let len = self.len(now);
        let endless = self.elements.len() - self.elements.deadline_count();
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
        self.live(now).next()
    }

    /// Tells up to `count` different live elements, chosen uniformly by chance; all if there are no more.
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
            let mut told = HashSet::with_capacity(count);
            for _ in 0..TRIES_EACH * count {
                match self.pick(now, random()) {
                    _ if told.len() == count => return,
                    Some(slot) if told.insert(slot) => each(slot),
                    _ => {}
                }
            }
            return self.each_live(now, &mut |slot| {
                if told.len() < count && told.insert(slot) {
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

    /// Tells `count` live elements, each chosen uniformly by chance; none if there are none.
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

//! Large collections whose elements may have deadlines: hash fields, set members and members of
//! sorted sets.
//!
//! When the first element gets a deadline, the collection gets an index of deadlines, by default
//! the ranked one. The ranked index counts expired elements without examining each of them
//! (`counts.rs`), and lists elements in order of deadline.
//!
//! The keyspace's index holds the key's entry under the instant at which the collection's index
//! must run next. The keyspace's index is therefore an index of indexes: expired elements are found
//! on time, by the same cycle and within the same budget as expired keys. A command that accesses
//! the collection before the cycle does first removes the due elements itself.
//!
//! When all elements have expired, the collection is marked void and freed in the background. An
//! index that cannot count recognizes this case when the latest deadline ever set has passed.

mod counts;

use crate::collection::{
    ChangedElements, ChooseDeadline, Deadlines, NAMED_MAX, ReportExpired, Representation, Scene,
};
use crate::elements::Elements;
use crate::elements::packed::{PackedElements, Tail};
use policy::expire::any::AnyExpiry;
use policy::{Budget, Cells, Due, ExpiryIndex, Facts, Slot, Tick};
use std::borrow::Borrow;

/// Maximum number of elements in a collection that is searched for a live element if the index
/// cannot count.
const LOOK_MAX: usize = 4096;

/// A structure next to the elements that refers to them by slot, such as the order of a sorted set;
/// `()` if there is none.
pub(crate) trait SecondaryIndex {
    /// Prepares for the removal of a live element.
    fn before_removal(&mut self, elements: &Elements, slot: Slot);
    /// Records that an element has another slot.
    fn moved(&mut self, elements: &Elements, from: Slot, to: Slot);
}

impl SecondaryIndex for () {
    fn before_removal(&mut self, _elements: &Elements, _slot: Slot) {}
    fn moved(&mut self, _elements: &Elements, _from: Slot, _to: Slot) {}
}

/// Elements with an index of their deadlines, which exists only while some have one.
#[derive(Debug)]
pub(crate) struct TimedElements {
    elements: Elements,
    deadline_index: Option<Box<DeadlineIndex>>,
    /// Whether all elements count as removed, so that the collection must be freed.
    is_void: bool,
}

struct DeadlineIndex {
    index: AnyExpiry,
    /// The key's own deadline, as opposed to the deadlines of elements.
    own: Option<Tick>,
    /// Upper bound of the elements' deadlines. It is never lowered.
    latest: Tick,
    /// Instant at which the index last ran.
    last_seen: Tick,
}

impl std::fmt::Debug for DeadlineIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeadlineIndex")
            .field("index", &self.index.name())
            .field("own", &self.own)
            .field("latest", &self.latest)
            .finish_non_exhaustive()
    }
}

/// View through which the index of deadlines accesses the elements.
struct DeadlineCells<E> {
    elements: E,
    now: Tick,
}

impl<E: Borrow<Elements>> Facts for DeadlineCells<E> {
    fn now(&self) -> Tick {
        self.now
    }
    fn requests(&self) -> u64 {
        0
    }
    #[inline]
    fn is_live(&self, slot: Slot) -> bool {
        self.elements.borrow().is_live(slot)
    }
    fn weight(&self, _slot: Slot) -> u32 {
        1
    }
    fn key_hash(&self, slot: Slot) -> u64 {
        self.elements.borrow().hash_of(slot)
    }
    #[inline]
    fn deadline(&self, slot: Slot) -> Option<Tick> {
        let elements = self.elements.borrow();
        if !elements.is_live(slot) {
            return None;
        }
        elements.deadline(slot)
    }
    fn len(&self) -> usize {
        self.elements.borrow().deadline_count()
    }
    fn sample(&self, random: u64) -> Option<Slot> {
        let elements = self.elements.borrow();
        let has_deadline = |slot| elements.deadline(slot).is_some();
        elements.sample_where(random, has_deadline)
    }
}

impl Cells<u64> for DeadlineCells<&mut Elements> {
    #[inline]
    fn get(&self, slot: Slot) -> u64 {
        self.elements.link(slot)
    }
    #[inline]
    fn set(&mut self, slot: Slot, link: u64) {
        self.elements.set_link(slot, link);
    }
}

impl TimedElements {
    /// Creates a collection without elements.
    pub fn new(tail: Tail, scene: &Scene<'_>) -> TimedElements {
        TimedElements {
            elements: Elements::new(tail, scene.hash_key, scene.expiry.link_bits()),
            deadline_index: None,
            is_void: false,
        }
    }

    /// Creates a collection with the elements of a packed one.
    pub fn unpack(tail: Tail, packed: &PackedElements, scene: &Scene<'_>) -> TimedElements {
        let mut members = TimedElements::new(tail, scene);
        for element in packed.iter() {
            let slot = members.insert(element.member, element.tail, scene, &mut ());
            if element.deadline.is_some() {
                members.set_deadline(slot, element.deadline, scene);
            }
        }
        members.set_own(packed.own());
        members
    }

    /// Returns the elements, including expired ones.
    pub fn elements(&self) -> &Elements {
        &self.elements
    }

    /// Returns whether no element is stored, expired or not.
    pub fn is_void(&self) -> bool {
        self.is_void || self.elements.len() == 0
    }

    /// Marks all elements as removed. The caller must not access them afterwards. Background work
    /// frees them.
    pub fn mark_void(&mut self) {
        self.is_void = true;
    }

    /// Returns the number of bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        let deadline_index = self.deadline_index.as_ref().map_or(0, |deadline_index| {
            size_of::<DeadlineIndex>() + deadline_index.index.heap_bytes()
        });
        self.elements.heap_bytes() + deadline_index
    }

    /// Returns whether an element's deadline has not passed.
    #[inline]
    pub fn is_live(&self, slot: Slot, now: Tick) -> bool {
        self.deadline_index.is_none()
            || self
                .elements
                .deadline(slot)
                .is_none_or(|deadline| now <= deadline)
    }

    /// Returns the slot of a live member.
    #[inline]
    pub fn find_live(&self, member: &[u8], now: Tick) -> Option<Slot> {
        let slot = self.elements.find(member)?;
        self.is_live(slot, now).then_some(slot)
    }

    /// Adds an element for a member that is not stored, not even as an expired one.
    pub fn insert(
        &mut self,
        member: &[u8],
        value: &[u8],
        scene: &Scene<'_>,
        secondary: &mut impl SecondaryIndex,
    ) -> Slot {
        let slot = self.elements.insert(member, value);
        self.apply_moves(scene.horizon, Some(slot), secondary)
            .unwrap_or(slot)
    }

    /// Sets an element's value or score and keeps its deadline.
    pub fn set_value(&mut self, slot: Slot, value: &[u8]) {
        self.elements.set_value(slot, value);
    }

    /// Removes an element, expired or not.
    pub fn remove(&mut self, slot: Slot, now: Tick, secondary: &mut impl SecondaryIndex) {
        debug_assert!(!self.is_void);
        if self.elements.deadline(slot).is_some()
            && let Some(deadline_index) = &mut self.deadline_index
        {
            let elements = &mut self.elements;
            deadline_index
                .index
                .remove(&mut DeadlineCells { elements, now }, slot);
        }
        self.remove_unindexed(slot, secondary);
        self.elements.merge();
        self.apply_moves(now, None, secondary);
        self.settle();
    }

    /// Removes an element that is not in the index of deadlines.
    fn remove_unindexed(&mut self, slot: Slot, secondary: &mut impl SecondaryIndex) {
        secondary.before_removal(&self.elements, slot);
        self.elements.remove(slot);
    }

    /// Completes the pending moves and updates both indexes. `unknown` is an element that neither
    /// index contains yet. Returns its new slot if it moved.
    fn apply_moves(
        &mut self,
        now: Tick,
        unknown: Option<Slot>,
        secondary: &mut impl SecondaryIndex,
    ) -> Option<Slot> {
        let mut known = None;
        while let Some((from, to)) = self.elements.take_move() {
            if unknown == Some(from) {
                known = Some(to);
                continue;
            }
            secondary.moved(&self.elements, from, to);
            if self.elements.deadline(to).is_some()
                && let Some(deadline_index) = &mut self.deadline_index
            {
                let elements = &mut self.elements;
                deadline_index
                    .index
                    .moved(&mut DeadlineCells { elements, now }, from, to);
            }
        }
        known
    }

    /// Frees the index of deadlines if no element has a deadline and no pages must be merged.
    fn settle(&mut self) {
        let is_idle = self.elements.deadline_count() == 0 && !self.elements.is_sparse();
        if self.deadline_index.is_some() && is_idle {
            self.deadline_index = None;
        }
    }

    /// Passes a live member's deadline to `choose` and sets the deadline that it returns. Returns
    /// whether there is such a member.
    #[inline]
    pub fn update_deadline(
        &mut self,
        member: &[u8],
        scene: &Scene<'_>,
        choose: ChooseDeadline<'_>,
    ) -> bool {
        let Some(slot) = self.elements.find(member) else {
            return false;
        };
        let old = self.elements.deadline(slot);
        if old.is_some_and(|old| scene.horizon > old) {
            return false;
        }
        if let Some(deadline) = choose(old) {
            self.set_deadline(slot, deadline, scene);
        }
        true
    }

    /// Sets, changes or removes an element's deadline.
    pub fn set_deadline(&mut self, slot: Slot, deadline: Option<Tick>, scene: &Scene<'_>) {
        debug_assert!(!self.is_void);
        let old = self.elements.deadline(slot);
        if old == deadline {
            return;
        }
        let deadline_index = self
            .deadline_index
            .get_or_insert_with(|| DeadlineIndex::new(scene));
        let (elements, now) = (&mut self.elements, scene.horizon);
        let Some(deadline) = deadline else {
            deadline_index
                .index
                .remove(&mut DeadlineCells { elements, now }, slot);
            self.elements.set_deadline(slot, None);
            return self.settle();
        };
        deadline_index.latest = deadline_index.latest.max(deadline);
        elements.set_deadline(slot, Some(deadline));
        let cells = &mut DeadlineCells { elements, now };
        match old {
            Some(old) => deadline_index.index.update(cells, slot, old),
            None => deadline_index.index.insert(cells, slot),
        }
    }

    /// Returns the key's own deadline and a lower bound on the next instant at which the index must
    /// run; `None` if no element has a deadline.
    pub fn deadlines(&self) -> Option<Deadlines> {
        let deadline_index = self.deadline_index.as_deref()?;
        // The index returns the first instant after a deadline, or an instant of other work.
        // Whichever it is, the entry must be due when all elements have expired, because the key
        // must then not be found.
        let due = match deadline_index.index.next_due() {
            _ if self.elements.is_sparse() => Tick(0),
            due => due.unwrap_or(Tick::MAX),
        };
        let nearest = Tick(due.0.saturating_sub(1)).min(deadline_index.latest);
        Some(Deadlines {
            own: deadline_index.own,
            nearest: Some(nearest),
        })
    }

    /// Returns the key's own deadline; the outer `None` means that no element has a deadline.
    pub fn embedded_deadline(&self) -> Option<Option<Tick>> {
        self.deadline_index
            .as_deref()
            .map(|deadline_index| deadline_index.own)
    }

    /// Stores the key's own deadline. Must be called only while elements have deadlines.
    pub fn set_own(&mut self, own: Option<Tick>) {
        if let Some(deadline_index) = &mut self.deadline_index {
            deadline_index.own = own;
        }
    }

    /// Removes expired elements, one per step of the budget. If no element is live, removes all of
    /// them in one step.
    pub fn purge(
        &mut self,
        now: Tick,
        budget: &mut Budget,
        expired: ReportExpired<'_>,
        names: Option<&ChangedElements>,
        secondary: &mut impl SecondaryIndex,
    ) {
        if self.is_dead(now) {
            if let Some(deadline_index) = &self.deadline_index {
                // The upper bound `latest` may be the deadline of an element that was removed
                // before it expired.
                let latest = deadline_index.latest.min(Tick(now.0 - 1));
                expired(latest, self.elements.len() as u32);
                self.name_all(names);
            }
            self.is_void = true;
            return;
        }
        while let Some(deadline_index) = &mut self.deadline_index {
            if now < deadline_index.last_seen {
                deadline_index.index.clock_went_back(now);
            }
            deadline_index.last_seen = now;
            let elements = &mut self.elements;
            let cells = &mut DeadlineCells { elements, now };
            match deadline_index.index.pop_expired(cells, now, budget) {
                Due::Slot(slot) => {
                    expired(
                        self.elements
                            .deadline(slot)
                            .expect("an expired entry has a deadline"),
                        1,
                    );
                    if let Some(names) = names {
                        names.add(self.elements.member(slot));
                    }
                    self.remove_unindexed(slot, secondary);
                }
                Due::Again => return self.void_if_all_dead(now, expired, names),
                Due::Nothing => return self.merge_sparse(now, budget, secondary),
            }
        }
    }

    /// Merges pages that have become sparse by removals. Pages are not merged while elements are
    /// expiring, because the moved elements may be the next to expire.
    fn merge_sparse(
        &mut self,
        now: Tick,
        budget: &mut Budget,
        secondary: &mut impl SecondaryIndex,
    ) {
        while self.elements.is_sparse() && budget.spend() {
            self.elements.merge();
            self.apply_moves(now, None, secondary);
        }
        self.settle();
    }

    /// Marks a small collection as void if none of its elements is live. For indexes that cannot
    /// count. The upper bound `latest` is not enough for them, because it may be the deadline of a
    /// removed element.
    fn void_if_all_dead(
        &mut self,
        now: Tick,
        expired: ReportExpired<'_>,
        names: Option<&ChangedElements>,
    ) {
        if self.elements.len() > LOOK_MAX || self.live(now).next().is_some() {
            return;
        }
        for slot in self.elements.iter() {
            expired(
                self.elements
                    .deadline(slot)
                    .expect("an expired element has a deadline"),
                1,
            );
        }
        self.name_all(names);
        self.is_void = true;
    }

    /// Adds the names of the first elements to `names`, as many as an event may name. The journal
    /// needs none of them, because the key is removed.
    fn name_all(&self, names: Option<&ChangedElements>) {
        if let Some(names) = names {
            let slots = self.elements.iter().take(NAMED_MAX);
            slots.for_each(|slot| names.add(self.elements.member(slot)));
        }
    }

    /// Returns a copy with the same elements and deadlines, but without the key's own deadline.
    pub fn duplicate(&self, scene: &Scene<'_>) -> TimedElements {
        let mut elements = self.elements.clone();
        let deadline_index = self.deadline_index.as_deref().map(|old| {
            let mut deadline_index = DeadlineIndex::new(scene);
            deadline_index.latest = old.latest;
            let slots: Vec<Slot> = elements.iter().collect();
            for slot in slots {
                if elements.deadline(slot).is_some() {
                    elements.set_link(slot, 0);
                    let (elements, now) = (&mut elements, scene.horizon);
                    deadline_index
                        .index
                        .insert(&mut DeadlineCells { elements, now }, slot);
                }
            }
            deadline_index
        });
        TimedElements {
            elements,
            deadline_index,
            is_void: self.is_void,
        }
    }

    /// Frees about `steps` parts and returns whether any parts are left.
    pub fn dismantle(&mut self, steps: u32) -> bool {
        self.elements.dismantle(steps)
    }

    /// Panics if the structure is inconsistent.
    pub fn check(&self) {
        self.elements.check();
        let index_len = self
            .deadline_index
            .as_ref()
            .map_or(0, |deadline_index| deadline_index.index.len());
        assert_eq!(index_len, self.elements.deadline_count());
        assert!(index_len == 0 || self.deadline_index.is_some());
        if let Some(deadline_index) = self.deadline_index.as_ref().filter(|_| index_len > 0) {
            let latest = self
                .elements
                .iter()
                .filter_map(|slot| self.elements.deadline(slot))
                .max();
            assert!(latest.is_some_and(|latest| latest <= deadline_index.latest));
            let elements = &mut self.elements.clone();
            let now = deadline_index.last_seen;
            deadline_index.index.check(&DeadlineCells { elements, now });
        }
    }
}

/// This implementation serves collections without a secondary index: hashes and sets.
impl Representation for TimedElements {
    fn is_void(&self) -> bool {
        TimedElements::is_void(self)
    }

    fn is_dead(&self, now: Tick) -> bool {
        TimedElements::is_dead(self, now)
    }

    fn heap_bytes(&self) -> usize {
        size_of::<TimedElements>() + TimedElements::heap_bytes(self)
    }

    fn deadlines(&self) -> Option<Deadlines> {
        TimedElements::deadlines(self)
    }

    fn embedded_deadline(&self) -> Option<Option<Tick>> {
        TimedElements::embedded_deadline(self)
    }

    fn set_own(&mut self, own: Option<Tick>) {
        TimedElements::set_own(self, own);
    }

    fn purge(
        &mut self,
        now: Tick,
        budget: &mut Budget,
        expired: ReportExpired<'_>,
        names: Option<&ChangedElements>,
    ) {
        TimedElements::purge(self, now, budget, expired, names, &mut ());
    }

    fn dismantle(&mut self, steps: u32) -> bool {
        TimedElements::dismantle(self, steps)
    }

    fn check(&self) {
        TimedElements::check(self);
    }
}

impl DeadlineIndex {
    fn new(scene: &Scene<'_>) -> Box<DeadlineIndex> {
        Box::new(DeadlineIndex {
            index: AnyExpiry::new(scene.horizon, scene.expiry, scene.seed),
            own: None,
            latest: Tick(0),
            last_seen: scene.horizon,
        })
    }
}

//! The two forms of a collection: packed into one byte array while it is small, else a large
//! structure.

use crate::collection::{ChooseDeadline, Representation, Scene, below};
use crate::element_ttl::TimedElements;
use crate::elements::Elements;
use crate::elements::packed::{Element, PackedElements, Tail};
use policy::{Slot, Tick};

/// The packed form: one byte array, which can be stored inline in the block of an entry.
pub(crate) trait PackedForm: Representation {
    /// Returns the bytes of the packed form.
    fn bytes(&self) -> &[u8];
    /// Returns the buffer that held the bytes, for reuse.
    fn into_bytes(self) -> Vec<u8>;
    /// Returns a copy without spare capacity.
    fn duplicate(&self) -> Self;
}

/// The large form: a structure on the heap for many elements.
pub(crate) trait LargeForm: Representation {
    /// Returns a copy with the same elements and deadlines, but without the key's own deadline.
    fn duplicate(&self, scene: &Scene<'_>) -> Self;
}

/// A large form whose elements have a name (a field or member) and may have deadlines.
pub(crate) trait LargeElements: LargeForm {
    /// Builds the large form from a packed one.
    fn unpack(tail: Tail, packed: &PackedElements, scene: &Scene<'_>) -> Self;
    /// Returns the elements with their deadlines.
    fn members(&self) -> &TimedElements;
    /// Returns the elements for changes that do not affect a secondary index, such as changes of
    /// deadlines.
    fn members_mut(&mut self) -> &mut TimedElements;
    /// Removes the element in a slot, even if it has expired.
    fn remove_slot(&mut self, slot: Slot, now: Tick);
}

/// A collection in one of its two forms.
#[derive(Debug)]
pub(crate) enum Form<P, L> {
    /// One byte array, for few and short elements.
    Packed(P),
    /// A structure on the heap, for many or long elements.
    Large(Box<L>),
}

impl<P: PackedForm, L: LargeForm> Form<P, L> {
    /// Returns the packed form; `None` for a large form.
    pub fn packed(&self) -> Option<&P> {
        match self {
            Form::Packed(packed) => Some(packed),
            Form::Large(_) => None,
        }
    }

    /// Returns the buffer of a packed form, for reuse. Returns an empty buffer for a large form.
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Form::Packed(packed) => packed.into_bytes(),
            Form::Large(_) => Vec::new(),
        }
    }

    /// Returns a copy with the same elements and deadlines. The copy of a large form lacks the
    /// key's own deadline.
    pub fn duplicate(&self, scene: &Scene<'_>) -> Self {
        match self {
            Form::Packed(packed) => Form::Packed(packed.duplicate()),
            Form::Large(large) => Form::Large(Box::new(large.duplicate(scene))),
        }
    }

    pub fn representation(&self) -> &dyn Representation
    where
        P: 'static,
        L: 'static,
    {
        match self {
            Form::Packed(packed) => packed,
            Form::Large(large) => large.as_ref(),
        }
    }

    pub fn representation_mut(&mut self) -> &mut dyn Representation
    where
        P: 'static,
        L: 'static,
    {
        match self {
            Form::Packed(packed) => packed,
            Form::Large(large) => large.as_mut(),
        }
    }
}

impl PackedForm for PackedElements {
    fn bytes(&self) -> &[u8] {
        PackedElements::bytes(self)
    }
    fn into_bytes(self) -> Vec<u8> {
        PackedElements::into_bytes(self)
    }
    fn duplicate(&self) -> Self {
        self.clone()
    }
}

impl LargeForm for TimedElements {
    fn duplicate(&self, scene: &Scene<'_>) -> Self {
        TimedElements::duplicate(self, scene)
    }
}

impl LargeElements for TimedElements {
    fn unpack(tail: Tail, packed: &PackedElements, scene: &Scene<'_>) -> Self {
        TimedElements::unpack(tail, packed, scene)
    }
    fn members(&self) -> &TimedElements {
        self
    }
    fn members_mut(&mut self) -> &mut TimedElements {
        self
    }
    fn remove_slot(&mut self, slot: Slot, now: Tick) {
        self.remove(slot, now, &mut ());
    }
}

/// Elements of hashes, sets of strings or sorted sets, in one of the two forms.
pub(crate) type ElementForm<L> = Form<PackedElements, L>;

impl<L: LargeElements> ElementForm<L> {
    /// Returns the pages of a large form; `None` for a packed form.
    pub fn pages(&self) -> Option<&Elements> {
        match self {
            Form::Packed(_) => None,
            Form::Large(large) => Some(large.members().elements()),
        }
    }

    /// Returns the value of a live field, or the bytes of a live member's score.
    #[inline]
    pub fn get(&self, member: &[u8], now: Tick) -> Option<&[u8]> {
        match self {
            Form::Packed(packed) => Some(live(packed, member, now)?.tail),
            Form::Large(large) => {
                let slot = large.members().find_live(member, now)?;
                Some(large.members().elements().value(slot))
            }
        }
    }

    /// Returns whether there is a live element of this name.
    pub fn contains(&self, member: &[u8], now: Tick) -> bool {
        match self {
            Form::Packed(packed) => live(packed, member, now).is_some(),
            Form::Large(large) => large.members().find_live(member, now).is_some(),
        }
    }

    /// Returns the number of live elements.
    pub fn len(&self, now: Tick) -> usize {
        match self {
            Form::Packed(packed) => packed.len(now),
            Form::Large(large) => large.members().len(now),
        }
    }

    /// Returns whether no element is live.
    pub fn is_empty(&self, now: Tick) -> bool {
        match self {
            Form::Packed(packed) => packed.live(now).next().is_none(),
            Form::Large(large) => large.members().is_empty(now),
        }
    }

    /// Adds an element or replaces the value of an existing one. A packed form is kept only if
    /// `may_push` returns true for the number of elements before the addition; otherwise the form
    /// becomes large. Returns whether the element is new. The deadline of a live element is kept.
    /// An expired element that is still stored is replaced by a new one without a deadline.
    pub fn put(
        &mut self,
        (tail, member, value): (Tail, &[u8], &[u8]),
        scene: &Scene<'_>,
        may_push: impl FnOnce(usize) -> bool,
    ) -> bool {
        if let Form::Packed(packed) = self {
            match packed.find_or_count(member) {
                Ok(element) => {
                    let (at, is_expired) = (element.at, !element.is_live(scene.horizon));
                    packed.set_tail(at, value);
                    if is_expired {
                        packed.set_deadline(at, None);
                        packed.settle();
                    }
                    return is_expired;
                }
                Err(count) if may_push(count) => {
                    packed.push(member, value);
                    return true;
                }
                Err(_) => {}
            }
        }
        let members = self.make_large(tail, scene).members_mut();
        let Some(slot) = members.elements().find(member) else {
            members.insert(member, value, scene, &mut ());
            return true;
        };
        if tail != Tail::Nothing {
            members.set_value(slot, value);
        }
        let is_expired = !members.is_live(slot, scene.horizon);
        if is_expired {
            members.set_deadline(slot, None, scene);
        }
        is_expired
    }

    /// Adds an element that the collection does not have. `count` is the number of elements, and
    /// `is_packed` says whether the form may stay packed.
    pub fn push_new(
        &mut self,
        (tail, member, value): (Tail, &[u8], &[u8]),
        scene: &Scene<'_>,
        is_packed: bool,
    ) {
        match self {
            Form::Packed(packed) if is_packed => {
                debug_assert!(packed.find(member).is_none());
                packed.push(member, value);
            }
            _ => {
                let members = self.make_large(tail, scene).members_mut();
                debug_assert!(members.elements().find(member).is_none());
                members.insert(member, value, scene, &mut ());
            }
        }
    }

    /// Removes a live element. Returns whether there was one. An expired element stays until expiry
    /// removes it, so that its expiry is counted and published.
    pub fn remove(&mut self, member: &[u8], now: Tick) -> bool {
        match self {
            Form::Packed(packed) => {
                let found = live(packed, member, now).map(|element| element.at);
                if let Some(at) = found {
                    packed.remove(at);
                    packed.settle();
                }
                found.is_some()
            }
            Form::Large(large) => {
                let found = large.members().find_live(member, now);
                if let Some(slot) = found {
                    large.remove_slot(slot, now);
                }
                found.is_some()
            }
        }
    }

    /// Returns the deadline of a live element: `None` without such an element, `Some(None)` without
    /// a deadline.
    #[inline]
    pub fn deadline(&self, member: &[u8], now: Tick) -> Option<Option<Tick>> {
        match self {
            Form::Packed(packed) => Some(live(packed, member, now)?.deadline),
            Form::Large(large) => {
                let slot = large.members().find_live(member, now)?;
                Some(large.members().elements().deadline(slot))
            }
        }
    }

    /// Returns whether some element may have a deadline.
    pub fn has_deadlines(&self) -> bool {
        match self {
            Form::Packed(packed) => packed.has_deadlines(),
            Form::Large(large) => large.members().deadlines().is_some(),
        }
    }

    /// Passes a live element's deadline to `choose` and sets the deadline that it returns. Returns
    /// whether there is such an element.
    pub fn update_deadline(
        &mut self,
        member: &[u8],
        scene: &Scene<'_>,
        choose: ChooseDeadline<'_>,
    ) -> bool {
        let choose = &mut |old| {
            let new = choose(old)?.map(|deadline| deadline.min(Tick::MAX));
            scene.note_change(member);
            Some(new)
        };
        match self {
            Form::Packed(packed) => packed.update_deadline(member, scene.horizon, choose),
            Form::Large(large) => large.members_mut().update_deadline(member, scene, choose),
        }
    }

    /// Converts the collection to the large form and returns that.
    pub fn make_large(&mut self, tail: Tail, scene: &Scene<'_>) -> &mut L {
        if let Form::Packed(packed) = self {
            let large = L::unpack(tail, packed, scene);
            debug_assert_eq!(large.members().elements().len(), packed.iter().count());
            *self = Form::Large(Box::new(large));
        }
        match self {
            Form::Large(large) => large,
            Form::Packed(_) => unreachable!("the form was made large above"),
        }
    }

    /// Passes about `count` live elements, beginning at `cursor`, to `each`; a packed form passes
    /// all. Returns the next cursor, 0 at the end. An element that is present during the whole scan
    /// is passed at least once.
    pub fn scan(
        &self,
        cursor: u64,
        count: usize,
        now: Tick,
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> u64 {
        match self {
            Form::Packed(packed) => {
                packed.live(now).for_each(|e| each(e.member, e.tail));
                0
            }
            Form::Large(large) => {
                let (members, elements) = (large.members(), large.members().elements());
                elements.scan(cursor, count, &mut |slot| {
                    if members.is_live(slot, now) {
                        let (member, tail) = elements.element(slot);
                        each(member, tail);
                    }
                })
            }
        }
    }

    /// Passes `count` live elements to `each`, each chosen independently among all. Passes none if
    /// no element is live. All are equally likely, unless nearly all elements of a large form have
    /// expired.
    pub fn sample_with_repeats(
        &self,
        count: usize,
        now: Tick,
        random: &mut dyn FnMut() -> u64,
        mut each: impl FnMut(&[u8], &[u8]),
    ) {
        match self {
            Form::Packed(packed) => {
                let all: Vec<_> = packed.live(now).collect();
                for _ in 0..if all.is_empty() { 0 } else { count } {
                    let element = &all[below(random(), all.len())];
                    each(element.member, element.tail);
                }
            }
            Form::Large(large) => {
                let members = large.members();
                members.sample_with_repeats(count, now, random, &mut |slot| {
                    let (member, tail) = members.elements().element(slot);
                    each(member, tail);
                });
            }
        }
    }

    /// Returns the names of all elements, including expired ones.
    #[cfg(test)]
    pub fn names(&self) -> Vec<Vec<u8>> {
        match self {
            Form::Packed(packed) => packed.iter().map(|e| e.member.to_vec()).collect(),
            Form::Large(large) => {
                let elements = large.members().elements();
                let slots = elements.iter();
                slots.map(|slot| elements.member(slot).to_vec()).collect()
            }
        }
    }
}

/// Returns the live element of a packed form with this name.
#[inline]
fn live<'a>(packed: &'a PackedElements, member: &[u8], now: Tick) -> Option<Element<'a>> {
    packed.find(member).filter(|element| element.is_live(now))
}

/// Implements [`crate::collection::Collection`] for a type with a field `form`. The parameters are
/// the type's kind and event, a function that creates the packed form from a tag and bytes, a
/// function that returns the tag, and the bytes of the empty collection.
macro_rules! collection {
    ($type:ident, $expired:literal, $unpack:expr, $tag:expr, $empty:expr) => {
        impl crate::collection::Collection for $type {
            const KIND: crate::facts::Kind = crate::facts::Kind::$type;
            const EXPIRED: (crate::event::Class, &'static str) =
                (crate::event::Class::$type, $expired);

            fn new() -> Self {
                Self::unpack(0, $empty)
            }
            fn unpack(tag: u8, bytes: Vec<u8>) -> Self {
                let form = Form::Packed($unpack(tag, bytes));
                Self { form }
            }
            fn inline(&self) -> Option<(u8, &[u8])> {
                let packed = self.form.packed()?;
                Some(($tag(packed), packed.bytes()))
            }
            fn into_bytes(self) -> Vec<u8> {
                self.form.into_bytes()
            }
            fn duplicate(&self, scene: &Scene<'_>) -> Self {
                let form = self.form.duplicate(scene);
                Self { form }
            }
            fn body(&self) -> &dyn crate::collection::Representation {
                self.form.representation()
            }
            fn body_mut(&mut self) -> &mut dyn crate::collection::Representation {
                self.form.representation_mut()
            }
        }

        impl Default for $type {
            fn default() -> Self {
                crate::collection::Collection::new()
            }
        }
    };
}
pub(crate) use collection;

/// Implements the public methods that are the same for hashes and sorted sets.
macro_rules! element_methods {
    ($type:ident, $element:literal) => {
        impl $type {
            /// Returns the pages of a large collection.
            pub(crate) fn pages(&self) -> Option<&Elements> {
                self.form.pages()
            }

            #[doc = concat!("Returns the number of live ", $element, "s.")]
            pub fn len(&self, scene: &Scene<'_>) -> usize {
                self.form.len(scene.horizon)
            }

            #[doc = concat!("Returns whether no ", $element, " is live.")]
            pub fn is_empty(&self, scene: &Scene<'_>) -> bool {
                self.form.is_empty(scene.horizon)
            }

            #[doc = concat!("Removes a live ", $element, ". Returns whether there was one. An expired one stays until it is removed as such, so that its expiry is counted and notified.")]
            pub fn remove(&mut self, member: &[u8], scene: &Scene<'_>) -> bool {
                let is_removed = self.form.remove(member, scene.horizon);
                if is_removed {
                    scene.note_change(member);
                }
                is_removed
            }

            #[doc = concat!("Returns the deadline of a live ", $element, ": `None` without such a ", $element, ", `Some(None)` without a deadline.")]
            #[inline]
            pub fn deadline(&self, member: &[u8], scene: &Scene<'_>) -> Option<Option<Tick>> {
                self.form.deadline(member, scene.horizon)
            }

            #[doc = concat!("Returns whether some ", $element, " may have a deadline.")]
            pub fn has_deadlines(&self) -> bool {
                self.form.has_deadlines()
            }

            #[doc = concat!("Passes the deadline of a live ", $element, " to `choose` and sets the one that it returns; `None` changes nothing. Returns whether there is such a ", $element, ".")]
            pub fn update_deadline(
                &mut self,
                member: &[u8],
                scene: &Scene<'_>,
                mut choose: impl FnMut(Option<Tick>) -> Option<Option<Tick>>,
            ) -> bool {
                self.form.update_deadline(member, scene, &mut choose)
            }

            #[doc = concat!("Sets or removes the deadline of a live ", $element, ". Returns whether there is such a ", $element, ".")]
            pub fn set_deadline(
                &mut self,
                member: &[u8],
                deadline: Option<Tick>,
                scene: &Scene<'_>,
            ) -> bool {
                self.update_deadline(member, scene, |_| Some(deadline))
            }
        }
    };
}
pub(crate) use element_methods;

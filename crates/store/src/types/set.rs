//! Sets: members, each with or without a deadline.

mod algebra;
mod integers;

use super::form::ElementForm;
use crate::collection::{Collection, Representation, Scene, below};
use crate::element_ttl::TimedElements;
use crate::elements::Elements;
use crate::elements::packed::{PackedElements, Tail};
use crate::event::Class;
use crate::facts::Kind;
use crate::tags::{TAG_INTSET, TAG_SET, TAG_SET_TTL};
use integers::{Digits, Integers, integer};
use policy::Tick;

/// Distinct byte strings. Reading methods never return a member whose deadline has passed.
#[derive(Debug)]
pub struct Set {
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// Integers only. No member has a deadline.
    Integers(Integers),
    /// Any members; packed ones are in the order of insertion.
    Strings(ElementForm<TimedElements>),
}

impl Default for Set {
    fn default() -> Self {
        Collection::new()
    }
}

impl Set {
    /// Returns the pages of a large set.
    pub(crate) fn pages(&self) -> Option<&Elements> {
        match &self.form {
            Form::Integers(_) => None,
            Form::Strings(form) => form.pages(),
        }
    }

    /// Returns whether the set has a live member.
    pub fn contains(&self, member: &[u8], scene: &Scene<'_>) -> bool {
        match &self.form {
            Form::Integers(integers) => integers.position(member).is_some(),
            Form::Strings(form) => form.contains(member, scene.horizon),
        }
    }

    /// Adds a member. Returns false if it is present, and keeps its deadline. An expired member
    /// that is still present is replaced by a new one without a deadline.
    pub fn add(&mut self, member: &[u8], scene: &Scene<'_>) -> bool {
        if let Form::Integers(integers) = &mut self.form {
            match integer(member) {
                Some(number) if integers.find(number).is_ok() => return false,
                Some(number) if integers.has_room(scene) => {
                    let is_new = integers.insert(number);
                    if is_new {
                        scene.note_change(member);
                    }
                    return is_new;
                }
                _ => {}
            }
            // An integer that the packed form of integers has no room for makes the set large, as
            // in Redis, even if the packed form of strings had room.
            let is_large = integer(member).is_some() && integers.len() > 0;
            self.make_strings(is_large, scene);
        }
        let Form::Strings(form) = &mut self.form else {
            unreachable!("the form was changed above")
        };
        let may_push = |count| is_packable(count + 1, member.len(), scene);
        let is_new = form.put((Tail::Nothing, member, &[]), scene, may_push);
        if is_new {
            scene.note_change(member);
        }
        is_new
    }

    /// Converts the integers to strings. The result has the large form if `is_large` is true or if
    /// the members are too many or too long for the packed form.
    fn make_strings(&mut self, is_large: bool, scene: &Scene<'_>) {
        let Form::Integers(integers) = &self.form else {
            return;
        };
        let digits = integers.iter().map(|n| Digits::of(n).as_bytes().len());
        let is_packable = is_packable(integers.len(), digits.max().unwrap_or(0), scene);
        let mut packed = PackedElements::new(Tail::Nothing);
        for number in integers.iter() {
            packed.push(Digits::of(number).as_bytes(), &[]);
        }
        let mut form = ElementForm::Packed(packed);
        if is_large || !is_packable {
            form.make_large(Tail::Nothing, scene);
        }
        self.form = Form::Strings(form);
    }

    /// Removes a live member. Returns whether there was one. An expired member stays until expiry
    /// removes it, so that its expiry is counted and published.
    pub fn remove(&mut self, member: &[u8], scene: &Scene<'_>) -> bool {
        let is_removed = match &mut self.form {
            Form::Integers(integers) => {
                let found = integers.position(member);
                if let Some(index) = found {
                    integers.remove(index);
                }
                found.is_some()
            }
            Form::Strings(form) => form.remove(member, scene.horizon),
        };
        if is_removed {
            scene.note_change(member);
        }
        is_removed
    }

    /// Returns the number of live members.
    pub fn len(&self, scene: &Scene<'_>) -> usize {
        match &self.form {
            Form::Integers(integers) => integers.len(),
            Form::Strings(form) => form.len(scene.horizon),
        }
    }

    /// Returns whether no member is live.
    pub fn is_empty(&self, scene: &Scene<'_>) -> bool {
        match &self.form {
            Form::Integers(integers) => integers.len() == 0,
            Form::Strings(form) => form.is_empty(scene.horizon),
        }
    }

    /// Passes live members to `each` until it returns false. Returns true if `each` returned true
    /// for all of them.
    fn all(&self, scene: &Scene<'_>, mut each: impl FnMut(&[u8]) -> bool) -> bool {
        match &self.form {
            Form::Integers(integers) => integers.iter().all(|n| each(Digits::of(n).as_bytes())),
            Form::Strings(ElementForm::Packed(packed)) => packed
                .live(scene.horizon)
                .all(|element| each(element.member)),
            Form::Strings(ElementForm::Large(members)) => {
                let elements = members.elements();
                let mut live = members.live(scene.horizon);
                live.all(|slot| each(elements.member(slot)))
            }
        }
    }

    /// Passes all live members to `each`: integers in ascending order, others in the order of
    /// storage.
    pub fn each(&self, scene: &Scene<'_>, mut each: impl FnMut(&[u8])) {
        self.all(scene, |member| {
            each(member);
            true
        });
    }

    /// Passes about `count` live members, beginning at `cursor`, to `each`; all if the set is
    /// packed. Returns the next cursor, 0 at the end. A member that is present during the whole
    /// scan is passed at least once.
    pub fn scan(
        &self,
        cursor: u64,
        count: usize,
        scene: &Scene<'_>,
        each: &mut dyn FnMut(&[u8]),
    ) -> u64 {
        let Form::Strings(form) = &self.form else {
            self.each(scene, each);
            return 0;
        };
        form.scan(cursor, count, scene.horizon, |member, _| each(member))
    }

    /// Passes `count` distinct live members to `each`, or all if there are fewer. Every selection
    /// is equally likely. `random` returns 64 random bits.
    pub fn sample(
        &self,
        count: usize,
        scene: &Scene<'_>,
        random: &mut dyn FnMut() -> u64,
        each: &mut dyn FnMut(&[u8]),
    ) {
        if let Form::Strings(ElementForm::Large(members)) = &self.form {
            let pass = &mut |slot| each(members.elements().member(slot));
            return members.sample(count, scene.horizon, random, pass);
        }
        let mut left = self.len(scene);
        let mut wanted = count.min(left);
        // Chooses from the remaining members as many as are still wanted (Knuth's algorithm S).
        self.all(scene, |member| {
            if below(random(), left) < wanted {
                each(member);
                wanted -= 1;
            }
            left -= 1;
            wanted > 0
        });
    }

    /// Passes `count` live members to `each`, each chosen independently among all. Passes none if
    /// the set is empty. All are equally likely, unless nearly all members of a large set have
    /// expired.
    pub fn sample_with_repeats(
        &self,
        count: usize,
        scene: &Scene<'_>,
        random: &mut dyn FnMut() -> u64,
        each: &mut dyn FnMut(&[u8]),
    ) {
        match &self.form {
            Form::Integers(integers) if integers.len() > 0 => {
                for _ in 0..count {
                    let number = integers.get(below(random(), integers.len()));
                    each(Digits::of(number).as_bytes());
                }
            }
            Form::Integers(_) => {}
            Form::Strings(form) => {
                let each = |member: &[u8], _: &[u8]| each(member);
                form.sample_with_repeats(count, scene.horizon, random, each);
            }
        }
    }

    /// Returns the deadline of a live member: `None` without such a member, `Some(None)` without a
    /// deadline.
    pub fn deadline(&self, member: &[u8], scene: &Scene<'_>) -> Option<Option<Tick>> {
        match &self.form {
            Form::Integers(_) => self.contains(member, scene).then_some(None),
            Form::Strings(form) => form.deadline(member, scene.horizon),
        }
    }

    /// Returns whether some member may have a deadline.
    pub fn has_deadlines(&self) -> bool {
        match &self.form {
            Form::Integers(_) => false,
            Form::Strings(form) => form.has_deadlines(),
        }
    }

    /// Passes the deadline of a live member to `choose` and sets the deadline that it returns;
    /// `None` changes nothing. Returns whether there is such a member.
    pub fn update_deadline(
        &mut self,
        member: &[u8],
        scene: &Scene<'_>,
        mut choose: impl FnMut(Option<Tick>) -> Option<Option<Tick>>,
    ) -> bool {
        if matches!(self.form, Form::Integers(_))
            && self.contains(member, scene)
            && let Some(Some(deadline)) = choose(None)
        {
            self.make_strings(false, scene);
            return self.set_deadline(member, Some(deadline), scene);
        }
        match &mut self.form {
            Form::Integers(integers) => integers.position(member).is_some(),
            Form::Strings(form) => form.update_deadline(member, scene, &mut choose),
        }
    }

    /// Sets or removes the deadline of a live member. Returns whether there is such a member.
    pub fn set_deadline(
        &mut self,
        member: &[u8],
        deadline: Option<Tick>,
        scene: &Scene<'_>,
    ) -> bool {
        self.update_deadline(member, scene, |_| Some(deadline))
    }
}

/// Returns whether a set of `count` members may be packed, one of which has length `len`.
fn is_packable(count: usize, len: usize, scene: &Scene<'_>) -> bool {
    count as i64 <= scene.limits.set_entries() && len as i64 <= scene.limits.set_value()
}

impl Collection for Set {
    const KIND: Kind = Kind::Set;
    const EXPIRED: (Class, &'static str) = (Class::Set, "sexpired");

    fn new() -> Self {
        let form = Form::Integers(Integers::default());
        Set { form }
    }

    fn unpack(tag: u8, bytes: Vec<u8>) -> Self {
        let form = match tag {
            TAG_INTSET => Form::Integers(Integers::from_bytes(bytes)),
            _ => {
                let has_deadlines = tag == TAG_SET_TTL;
                let packed = PackedElements::from_bytes(Tail::Nothing, has_deadlines, bytes);
                Form::Strings(ElementForm::Packed(packed))
            }
        };
        Set { form }
    }

    fn inline(&self) -> Option<(u8, &[u8])> {
        match &self.form {
            Form::Integers(integers) => Some((TAG_INTSET, integers.bytes())),
            Form::Strings(form) => {
                let packed = form.packed()?;
                let tag = if packed.has_deadlines() {
                    TAG_SET_TTL
                } else {
                    TAG_SET
                };
                Some((tag, packed.bytes()))
            }
        }
    }

    fn into_bytes(self) -> Vec<u8> {
        match self.form {
            Form::Integers(integers) => integers.into_bytes(),
            Form::Strings(form) => form.into_bytes(),
        }
    }

    fn duplicate(&self, scene: &Scene<'_>) -> Self {
        let form = match &self.form {
            Form::Integers(integers) => Form::Integers(integers.clone()),
            Form::Strings(form) => Form::Strings(form.duplicate(scene)),
        };
        Set { form }
    }

    fn body(&self) -> &dyn Representation {
        match &self.form {
            Form::Integers(integers) => integers,
            Form::Strings(form) => form.representation(),
        }
    }

    fn body_mut(&mut self) -> &mut dyn Representation {
        match &mut self.form {
            Form::Integers(integers) => integers,
            Form::Strings(form) => form.representation_mut(),
        }
    }
}

#[cfg(test)]
mod tests;

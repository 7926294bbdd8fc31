//! Sets: members, each with or without a deadline.

mod algebra;
mod integers;

use crate::collection::{Collection, Representation, Scene};
use crate::element_ttl::TimedElements;
use crate::elements::Elements;
use crate::elements::packed::{Element, PackedElements, Tail};
use crate::event::Class;
use crate::facts::Kind;
use crate::tags::{TAG_INTSET, TAG_SET, TAG_SET_TTL};
use integers::{Digits, Integers, integer};
use policy::Tick;

/// A set of byte strings. No method that reads shows a member whose deadline has passed.
#[derive(Debug)]
pub struct Set {
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// Integers alone, none with a deadline.
    Integers(Integers),
    /// Few and short members, in the order of their coming.
    Packed(PackedElements),
    /// Many.
    Large(Box<TimedElements>),
}

impl Default for Set {
    fn default() -> Self {
        Collection::new()
    }
}

/// A number below `end` from 64 random bits.
fn below(random: u64, end: usize) -> usize {
    ((u128::from(random) * end as u128) >> 64) as usize
}

impl Set {
    /// Its pages, when it has many elements.
    pub(crate) fn pages(&self) -> Option<&Elements> {
        match &self.form {
            Form::Large(members) => Some(members.elements()),
            _ => None,
        }
    }

    /// Whether it has a member.
    pub fn contains(&self, member: &[u8], scene: &Scene<'_>) -> bool {
        match &self.form {
            Form::Integers(integers) => integer(member).is_some_and(|n| integers.find(n).is_ok()),
            Form::Packed(packed) => live(packed, member, scene).is_some(),
            Form::Large(members) => members.find_live(member, scene.now).is_some(),
        }
    }

    /// Adds a member; false when it was there, and then its deadline stays. One that has died but was
    /// not yet taken away comes anew, without a deadline.
    pub fn add(&mut self, member: &[u8], scene: &Scene<'_>) -> bool {
        if let Form::Integers(integers) = &mut self.form {
            match integer(member) {
                Some(number) if integers.find(number).is_ok() => return false,
                Some(number) if integers.has_room(scene) => return integers.insert(number),
                // More integers than may be packed are many.
                Some(_) if integers.len() > 0 => {
                    self.make_large(scene);
                }
                _ => self.make_packed(scene),
            }
        }
        if let Form::Packed(packed) = &mut self.form {
            match packed.find_or_count(member) {
                Ok(element) => {
                    let (at, is_dead) = (element.at, !element.is_live(scene.now));
                    if is_dead {
                        packed.set_deadline(at, None);
                        packed.settle();
                    }
                    return is_dead;
                }
                Err(count) if is_packable(count + 1, member.len(), scene) => {
                    packed.push(member, &[]);
                    return true;
                }
                Err(_) => {}
            }
        }
        let members = self.make_large(scene);
        let Some(slot) = members.elements().find(member) else {
            members.insert(member, &[], scene, &mut ());
            return true;
        };
        let is_dead = !members.is_live(slot, scene.now);
        if is_dead {
            members.set_deadline(slot, None, scene);
        }
        is_dead
    }

    /// Holds integers as members like others.
    fn make_packed(&mut self, scene: &Scene<'_>) {
        let Form::Integers(integers) = &self.form else {
            return;
        };
        let digits_max = integers
            .iter()
            .map(|n| Digits::of(n).as_bytes().len())
            .max();
        let mut packed = PackedElements::new(Tail::Nothing);
        for number in integers.iter() {
            packed.push(Digits::of(number).as_bytes(), &[]);
        }
        let is_packable = is_packable(integers.len(), digits_max.unwrap_or(0), scene);
        self.form = Form::Packed(packed);
        if !is_packable {
            self.make_large(scene);
        }
    }

    /// Gives it the form for many members.
    fn make_large(&mut self, scene: &Scene<'_>) -> &mut TimedElements {
        let members = match &self.form {
            Form::Large(_) => None,
            Form::Packed(packed) => Some(TimedElements::unpack(Tail::Nothing, packed, scene)),
            Form::Integers(integers) => {
                let mut members = TimedElements::new(Tail::Nothing, scene);
                for number in integers.iter() {
                    members.insert(Digits::of(number).as_bytes(), &[], scene, &mut ());
                }
                Some(members)
            }
        };
        if let Some(members) = members {
            self.form = Form::Large(Box::new(members));
        }
        match &mut self.form {
            Form::Large(members) => members,
            _ => unreachable!("it was made large above"),
        }
    }

    /// Whether it holds a member, dead or alive.
    #[cfg(test)]
    fn holds(&self, member: &[u8]) -> bool {
        match &self.form {
            Form::Integers(integers) => integer(member).is_some_and(|n| integers.find(n).is_ok()),
            Form::Packed(packed) => packed.find(member).is_some(),
            Form::Large(members) => !members.is_void() && members.elements().find(member).is_some(),
        }
    }

    /// Removes a member; whether it was there.
    pub fn remove(&mut self, member: &[u8], scene: &Scene<'_>) -> bool {
        match &mut self.form {
            Form::Integers(integers) => {
                let found = integer(member).and_then(|number| integers.find(number).ok());
                if let Some(index) = found {
                    integers.remove(index);
                }
                found.is_some()
            }
            Form::Packed(packed) => {
                // A dead one stays for those who take the dead away and tell of it.
                let found = live(packed, member, scene).map(|element| element.at);
                if let Some(at) = found {
                    packed.remove(at);
                    packed.settle();
                }
                found.is_some()
            }
            Form::Large(members) => {
                let found = members.find_live(member, scene.now);
                if let Some(slot) = found {
                    members.remove(slot, scene.now, &mut ());
                }
                found.is_some()
            }
        }
    }

    /// How many members there are.
    pub fn len(&self, scene: &Scene<'_>) -> usize {
        match &self.form {
            Form::Integers(integers) => integers.len(),
            Form::Packed(packed) => packed.len(scene.now),
            Form::Large(members) => members.len(scene.now),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self, scene: &Scene<'_>) -> bool {
        match &self.form {
            Form::Integers(integers) => integers.len() == 0,
            Form::Packed(packed) => packed.live(scene.now).next().is_none(),
            Form::Large(members) => members.is_empty(scene.now),
        }
    }

    /// Tells members until `each` says false; whether it never did.
    fn all(&self, scene: &Scene<'_>, mut each: impl FnMut(&[u8]) -> bool) -> bool {
        match &self.form {
            Form::Integers(integers) => integers.iter().all(|n| each(Digits::of(n).as_bytes())),
            Form::Packed(packed) => packed.live(scene.now).all(|element| each(element.member)),
            Form::Large(members) => {
                let elements = members.elements();
                members
                    .live(scene.now)
                    .all(|slot| each(elements.member(slot)))
            }
        }
    }

    /// Tells all members: integers in ascending order, others as they lie.
    pub fn each(&self, scene: &Scene<'_>, mut each: impl FnMut(&[u8])) {
        self.all(scene, |member| {
            each(member);
            true
        });
    }

    /// Tells about `count` members from `cursor` on, and all when they are packed; returns the next
    /// cursor, 0 at the end. A member that is there throughout is told at least once.
    pub fn scan(
        &self,
        cursor: u64,
        count: usize,
        scene: &Scene<'_>,
        each: &mut dyn FnMut(&[u8]),
    ) -> u64 {
        let Form::Large(members) = &self.form else {
            self.each(scene, each);
            return 0;
        };
        let elements = members.elements();
        elements.scan(cursor, count, &mut |slot| {
            if members.is_live(slot, scene.now) {
                each(elements.member(slot));
            }
        })
    }

    /// Tells `count` different members, or all if there are fewer; each choice is as likely as any other.
    /// `random` makes 64 random bits.
    pub fn sample(
        &self,
        count: usize,
        scene: &Scene<'_>,
        random: &mut dyn FnMut() -> u64,
        each: &mut dyn FnMut(&[u8]),
    ) {
        if let Form::Large(members) = &self.form {
            let tell = &mut |slot| each(members.elements().member(slot));
            return members.sample(count, scene.now, random, tell);
        }
        let mut left = self.len(scene);
        let mut wanted = count.min(left);
        // Of those still to come, as many are chosen as are still wanted (Knuth's algorithm S).
        self.all(scene, |member| {
            if below(random(), left) < wanted {
                each(member);
                wanted -= 1;
            }
            left -= 1;
            wanted > 0
        });
    }

    /// Tells `count` members, each chosen anew among all; none if the set is empty.
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
            Form::Packed(packed) => {
                let members: Vec<&[u8]> = packed.live(scene.now).map(|e| e.member).collect();
                for _ in 0..if members.is_empty() { 0 } else { count } {
                    each(members[below(random(), members.len())]);
                }
            }
            Form::Large(members) => {
                let tell = &mut |slot| each(members.elements().member(slot));
                members.sample_with_repeats(count, scene.now, random, tell);
            }
        }
    }

    /// When a member dies. `None`: there is none; `Some(None)`: it has no deadline.
    pub fn deadline(&self, member: &[u8], scene: &Scene<'_>) -> Option<Option<Tick>> {
        match &self.form {
            Form::Integers(_) => self.contains(member, scene).then_some(None),
            Form::Packed(packed) => live(packed, member, scene).map(|element| element.deadline),
            Form::Large(members) => {
                let slot = members.find_live(member, scene.now)?;
                Some(members.elements().deadline(slot))
            }
        }
    }

    /// Whether some member may have a deadline.
    pub fn has_deadlines(&self) -> bool {
        match &self.form {
            Form::Integers(_) => false,
            Form::Packed(packed) => packed.has_deadlines(),
            Form::Large(members) => members.deadlines().is_some(),
        }
    }

    /// Asks `choose`, which is told when a member dies, for another deadline or none; `None` leaves it as it is.
    /// False when there is no such member.
    pub fn update_deadline(
        &mut self,
        member: &[u8],
        scene: &Scene<'_>,
        mut choose: impl FnMut(Option<Tick>) -> Option<Option<Tick>>,
    ) -> bool {
        let choose = &mut |old| Some(choose(old)?.map(|deadline| deadline.min(Tick::MAX)));
        match &mut self.form {
            Form::Packed(packed) => packed.update_deadline(member, scene.now, choose),
            Form::Large(members) => members.update_deadline(member, scene, choose),
            Form::Integers(integers) => {
                let is_there = integer(member).is_some_and(|n| integers.find(n).is_ok());
                let chosen = if is_there { choose(None) } else { None };
                if let Some(Some(deadline)) = chosen {
                    self.make_packed(scene);
                    self.set_deadline(member, Some(deadline), scene);
                }
                is_there
            }
        }
    }

    /// Gives a member another deadline, or takes it; false when there is no such member.
    pub fn set_deadline(
        &mut self,
        member: &[u8],
        deadline: Option<Tick>,
        scene: &Scene<'_>,
    ) -> bool {
        self.update_deadline(member, scene, |_| Some(deadline))
    }
}

/// Whether so many members, one of them of such a length, may be packed.
fn is_packable(count: usize, len: usize, scene: &Scene<'_>) -> bool {
    count as i64 <= scene.limits.set_entries() && len as i64 <= scene.limits.set_value()
}

/// A member that lives.
fn live<'a>(packed: &'a PackedElements, member: &[u8], scene: &Scene<'_>) -> Option<Element<'a>> {
    packed
        .find(member)
        .filter(|element| element.is_live(scene.now))
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
            _ => Form::Packed(PackedElements::from_bytes(
                Tail::Nothing,
                tag == TAG_SET_TTL,
                bytes,
            )),
        };
        Set { form }
    }

    fn inline(&self) -> Option<(u8, &[u8])> {
        match &self.form {
            Form::Integers(integers) => Some((TAG_INTSET, integers.bytes())),
            Form::Packed(packed) if packed.has_deadlines() => Some((TAG_SET_TTL, packed.bytes())),
            Form::Packed(packed) => Some((TAG_SET, packed.bytes())),
            Form::Large(_) => None,
        }
    }

    fn into_bytes(self) -> Vec<u8> {
        match self.form {
            Form::Integers(integers) => integers.into_bytes(),
            Form::Packed(packed) => packed.into_bytes(),
            Form::Large(_) => Vec::new(),
        }
    }

    fn duplicate(&self, scene: &Scene<'_>) -> Self {
        let form = match &self.form {
            Form::Integers(integers) => Form::Integers(integers.clone()),
            Form::Packed(packed) => Form::Packed(packed.clone()),
            Form::Large(members) => Form::Large(Box::new(members.duplicate(scene))),
        };
        Set { form }
    }

    fn body(&self) -> &dyn Representation {
        match &self.form {
            Form::Integers(integers) => integers,
            Form::Packed(packed) => packed,
            Form::Large(members) => members.as_ref(),
        }
    }

    fn body_mut(&mut self) -> &mut dyn Representation {
        match &mut self.form {
            Form::Integers(integers) => integers,
            Form::Packed(packed) => packed,
            Form::Large(members) => members.as_mut(),
        }
    }
}

#[cfg(test)]
mod tests;

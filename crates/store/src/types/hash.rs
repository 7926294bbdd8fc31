//! Hashes: fields with values, each with or without a deadline.

use crate::collection::{Collection, Representation, Scene};
use crate::element_ttl::TimedElements;
use crate::elements::Elements;
use crate::elements::packed::{PackedElements, Tail};
use crate::event::Class;
use crate::facts::Kind;
use crate::tags::{TAG_HASH, TAG_HASH_TTL};
use policy::Tick;

/// A hash. No method that reads shows a field whose deadline has passed.
#[derive(Debug)]
pub struct Hash {
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// Few and short fields, in the order of their coming.
    Packed(PackedElements),
    /// Many.
    Large(Box<TimedElements>),
}

impl Default for Hash {
    fn default() -> Self {
        Collection::new()
    }
}

impl Hash {
    /// Its pages, when it has many elements.
    pub(crate) fn pages(&self) -> Option<&Elements> {
        match &self.form {
            Form::Large(members) => Some(members.elements()),
            _ => None,
        }
    }

    /// A field's value.
    #[inline]
    pub fn get(&self, field: &[u8], scene: &Scene<'_>) -> Option<&[u8]> {
        match &self.form {
            Form::Packed(packed) => {
                let element = packed.find(field)?;
                element.is_live(scene.now).then_some(element.tail)
            }
            Form::Large(members) => {
                let slot = members.find_live(field, scene.now)?;
                Some(members.elements().value(slot))
            }
        }
    }

    /// Gives a field a value and no deadline; whether the field is new.
    pub fn set(&mut self, field: &[u8], value: &[u8], scene: &Scene<'_>) -> bool {
        let is_new = self.put(field, value, scene);
        if !is_new {
            self.persist(field, scene);
        }
        is_new
    }

    /// Gives a field a value; whether the field is new. Its deadline stays.
    pub fn set_keeping(&mut self, field: &[u8], value: &[u8], scene: &Scene<'_>) -> bool {
        self.put(field, value, scene)
    }

    /// Gives a field a value; whether it is new. A dead one that is still there comes anew, without a
    /// deadline.
    fn put(&mut self, field: &[u8], value: &[u8], scene: &Scene<'_>) -> bool {
        let is_long = |bytes: &[u8]| bytes.len() as i64 > scene.limits.hash_value();
        if is_long(field) || is_long(value) {
            self.make_large(scene);
        }
        if let Form::Packed(packed) = &mut self.form {
            match packed.find_or_count(field) {
                Ok(element) => {
                    let (at, is_dead) = (element.at, !element.is_live(scene.now));
                    packed.set_tail(at, value);
                    if is_dead {
                        packed.set_deadline(at, None);
                        packed.settle();
                    }
                    return is_dead;
                }
                Err(count) if (count as i64) < scene.limits.hash_entries() => {
                    packed.push(field, value);
                    return true;
                }
                Err(_) => {}
            }
        }
        let members = self.make_large(scene);
        let Some(slot) = members.elements().find(field) else {
            members.insert(field, value, scene, &mut ());
            return true;
        };
        members.set_value(slot, value);
        let is_dead = !members.is_live(slot, scene.now);
        if is_dead {
            members.set_deadline(slot, None, scene);
        }
        is_dead
    }

    /// Gives it the form for many fields.
    fn make_large(&mut self, scene: &Scene<'_>) -> &mut TimedElements {
        if let Form::Packed(packed) = &self.form {
            let members = TimedElements::unpack(Tail::Value, packed, scene);
            self.form = Form::Large(Box::new(members));
        }
        match &mut self.form {
            Form::Large(members) => members,
            Form::Packed(_) => unreachable!("it was made large above"),
        }
    }

    /// Removes a field; whether it was there. A dead one stays for those who take the dead away and
    /// tell of it.
    pub fn remove(&mut self, field: &[u8], scene: &Scene<'_>) -> bool {
        match &mut self.form {
            Form::Packed(packed) => {
                let found = packed.find(field).filter(|e| e.is_live(scene.now));
                let Some(at) = found.map(|element| element.at) else {
                    return false;
                };
                packed.remove(at);
                packed.settle();
            }
            Form::Large(members) => {
                let Some(slot) = members.find_live(field, scene.now) else {
                    return false;
                };
                members.remove(slot, scene.now, &mut ());
            }
        }
        true
    }

    /// `None`: no such field; `Some(None)`: it has no deadline.
    #[inline]
    pub fn deadline(&self, field: &[u8], scene: &Scene<'_>) -> Option<Option<Tick>> {
        match &self.form {
            Form::Packed(packed) => {
                let element = packed.find(field)?;
                element.is_live(scene.now).then_some(element.deadline)
            }
            Form::Large(members) => {
                let slot = members.find_live(field, scene.now)?;
                Some(members.elements().deadline(slot))
            }
        }
    }

    /// Asks `choose`, which is told when a field dies, for another deadline or none; `None` leaves it as it is.
    /// False when there is no such field.
    pub fn update_deadline(
        &mut self,
        field: &[u8],
        scene: &Scene<'_>,
        mut choose: impl FnMut(Option<Tick>) -> Option<Option<Tick>>,
    ) -> bool {
        let choose = &mut |old| Some(choose(old)?.map(|deadline| deadline.min(Tick::MAX)));
        match &mut self.form {
            Form::Packed(packed) => packed.update_deadline(field, scene.now, choose),
            Form::Large(members) => members.update_deadline(field, scene, choose),
        }
    }

    /// Gives a field another deadline, or takes it; false when there is no such field.
    pub fn set_deadline(
        &mut self,
        field: &[u8],
        deadline: Option<Tick>,
        scene: &Scene<'_>,
    ) -> bool {
        self.update_deadline(field, scene, |_| Some(deadline))
    }

    /// Takes a live field's deadline, if it has one.
    fn persist(&mut self, field: &[u8], scene: &Scene<'_>) {
        let has_deadlines = match &self.form {
            Form::Packed(packed) => packed.has_deadlines(),
            Form::Large(members) => members.deadlines().is_some(),
        };
        if has_deadlines {
            self.set_deadline(field, None, scene);
        }
    }

    /// How many fields there are.
    pub fn len(&self, scene: &Scene<'_>) -> usize {
        match &self.form {
            Form::Packed(packed) => packed.len(scene.now),
            Form::Large(members) => members.len(scene.now),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self, scene: &Scene<'_>) -> bool {
        match &self.form {
            Form::Packed(packed) => packed.live(scene.now).next().is_none(),
            Form::Large(members) => members.is_empty(scene.now),
        }
    }

    /// Tells all fields, their values and deadlines.
    pub fn each<'h>(
        &'h self,
        scene: &Scene<'_>,
        mut each: impl FnMut(&'h [u8], &'h [u8], Option<Tick>),
    ) {
        match &self.form {
            Form::Packed(packed) => packed
                .live(scene.now)
                .for_each(|e| each(e.member, e.tail, e.deadline)),
            Form::Large(members) => {
                let elements = members.elements();
                members.each_live(scene.now, &mut |slot| {
                    let (field, value) = elements.element(slot);
                    each(field, value, elements.deadline(slot));
                });
            }
        }
    }

    /// Tells fields by their deadlines, from `first` to `last`, both included, without the `offset` first of
    /// them, up to `count`. Those of one instant come in no order that means anything, but in the same
    /// one until something is written. The work grows with `count`, not with the hash.
    pub fn each_by_deadline<'h>(
        &'h self,
        (first, last): (Tick, Tick),
        (offset, count): (usize, usize),
        scene: &Scene<'_>,
        each: &mut dyn FnMut(&'h [u8], Tick),
    ) {
        match &self.form {
            Form::Packed(packed) => {
                let timed = packed.live(scene.now);
                let timed = timed.filter_map(|e| Some((e.deadline?, e.member)));
                let is_meant = |(at, _): &(Tick, _)| (first..=last).contains(at);
                let mut fields: Vec<_> = timed.filter(is_meant).collect();
                fields.sort_by_key(|field| field.0);
                let told = fields.into_iter().skip(offset).take(count);
                told.for_each(|(deadline, field)| each(field, deadline));
            }
            Form::Large(members) => {
                let elements = members.elements();
                let each = &mut |deadline, slot| each(elements.member(slot), deadline);
                members.each_by_deadline((first, last), (offset, count), scene.now, each);
            }
        }
    }

    /// Tells some fields and values from a cursor on, about `count`, and all when they are few; the next
    /// cursor, 0 at the end. A field that is there throughout is told at least once.
    pub fn scan(
        &self,
        cursor: u64,
        count: usize,
        scene: &Scene<'_>,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> u64 {
        match &self.form {
            Form::Packed(packed) => {
                packed.live(scene.now).for_each(|e| each(e.member, e.tail));
                0
            }
            Form::Large(members) => {
                let elements = members.elements();
                elements.scan(cursor, count, &mut |slot| {
                    if members.is_live(slot, scene.now) {
                        let (field, value) = elements.element(slot);
                        each(field, value);
                    }
                })
            }
        }
    }

    /// Tells up to `count` different fields with their values, chosen uniformly by chance.
    pub fn sample(
        &self,
        count: usize,
        scene: &Scene<'_>,
        random: &mut dyn FnMut() -> u64,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) {
        match &self.form {
            Form::Packed(packed) => {
                let mut all: Vec<_> = packed.live(scene.now).collect();
                let count = count.min(all.len());
                // The first steps of a Fisher-Yates shuffle, where not all are asked for.
                for at in 0..count {
                    if count < all.len() {
                        let other = at + below(random(), all.len() - at);
                        all.swap(at, other);
                    }
                    each(all[at].member, all[at].tail);
                }
            }
            Form::Large(members) => {
                let tell = &mut |slot| {
                    let (field, value) = members.elements().element(slot);
                    each(field, value);
                };
                members.sample(count, scene.now, random, tell);
            }
        }
    }

    /// Tells `count` fields with their values, each chosen uniformly by chance; none if there are none.
    pub fn sample_with_repeats(
        &self,
        count: usize,
        scene: &Scene<'_>,
        random: &mut dyn FnMut() -> u64,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) {
        match &self.form {
            Form::Packed(packed) => {
                let all: Vec<_> = packed.live(scene.now).collect();
                for _ in 0..if all.is_empty() { 0 } else { count } {
                    let element = &all[below(random(), all.len())];
                    each(element.member, element.tail);
                }
            }
            Form::Large(members) => {
                let tell = &mut |slot| {
                    let (field, value) = members.elements().element(slot);
                    each(field, value);
                };
                members.sample_with_repeats(count, scene.now, random, tell);
            }
        }
    }
}

/// A number below `end` from 64 random bits.
fn below(random: u64, end: usize) -> usize {
    ((u128::from(random) * end as u128) >> 64) as usize
}

impl Collection for Hash {
    const KIND: Kind = Kind::Hash;
    const EXPIRED: (Class, &'static str) = (Class::Hash, "hexpired");

    fn new() -> Self {
        Hash {
            form: Form::Packed(PackedElements::new(Tail::Value)),
        }
    }

    fn unpack(tag: u8, bytes: Vec<u8>) -> Self {
        let packed = PackedElements::from_bytes(Tail::Value, tag == TAG_HASH_TTL, bytes);
        Hash {
            form: Form::Packed(packed),
        }
    }

    fn inline(&self) -> Option<(u8, &[u8])> {
        let Form::Packed(packed) = &self.form else {
            return None;
        };
        let tag = if packed.has_deadlines() {
            TAG_HASH_TTL
        } else {
            TAG_HASH
        };
        Some((tag, packed.bytes()))
    }

    fn into_bytes(self) -> Vec<u8> {
        match self.form {
            Form::Packed(packed) => packed.into_bytes(),
            Form::Large(_) => Vec::new(),
        }
    }

    fn duplicate(&self, scene: &Scene<'_>) -> Self {
        let form = match &self.form {
            Form::Packed(packed) => Form::Packed(packed.clone()),
            Form::Large(members) => Form::Large(Box::new(members.duplicate(scene))),
        };
        Hash { form }
    }

    fn body(&self) -> &dyn Representation {
        match &self.form {
            Form::Packed(packed) => packed,
            Form::Large(members) => members.as_ref(),
        }
    }

    fn body_mut(&mut self) -> &mut dyn Representation {
        match &mut self.form {
            Form::Packed(packed) => packed,
            Form::Large(members) => members.as_mut(),
        }
    }
}

#[cfg(test)]
mod tests;

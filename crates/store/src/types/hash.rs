//! Hashes: fields with values, each with or without a deadline.

use super::form::{ElementForm, Form, collection, element_methods};
use crate::collection::{Scene, below};
use crate::element_ttl::TimedElements;
use crate::elements::Elements;
use crate::elements::packed::{PackedElements, Tail};
use crate::tags::{TAG_HASH, TAG_HASH_TTL};
use policy::Tick;

/// A hash. No method that reads shows a field whose deadline has passed.
#[derive(Debug)]
pub struct Hash {
    /// Packed fields are in the order of insertion.
    form: ElementForm<TimedElements>,
}

collection!(
    Hash,
    "hexpired",
    |tag, bytes| PackedElements::from_bytes(Tail::Value, tag == TAG_HASH_TTL, bytes),
    |packed: &PackedElements| if packed.has_deadlines() {
        TAG_HASH_TTL
    } else {
        TAG_HASH
    },
    Vec::new()
);
element_methods!(Hash, "field");

impl Hash {
    /// A field's value.
    #[inline]
    pub fn get(&self, field: &[u8], scene: &Scene<'_>) -> Option<&[u8]> {
        self.form.get(field, scene.now)
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
            self.form.make_large(Tail::Value, scene);
        }
        let may_push = |count| (count as i64) < scene.limits.hash_entries();
        self.form.put((Tail::Value, field, value), scene, may_push)
    }

    /// Takes a live field's deadline, if it has one.
    fn persist(&mut self, field: &[u8], scene: &Scene<'_>) {
        if self.has_deadlines() {
            self.set_deadline(field, None, scene);
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
        self.form.scan(cursor, count, scene.now, each)
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
        let now = scene.now;
        self.form.sample_with_repeats(count, now, random, each);
    }
}

#[cfg(test)]
mod tests;

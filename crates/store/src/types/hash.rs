//! Hashes: fields with values, each with or without a deadline.

use super::form::{ElementForm, Form, collection, element_methods};
use crate::collection::{Scene, below};
use crate::element_ttl::TimedElements;
use crate::elements::Elements;
use crate::elements::packed::{PackedElements, Tail};
use crate::tags::{TAG_HASH, TAG_HASH_TTL};
use policy::Tick;

/// Fields with values. Reading methods never return a field whose deadline has passed.
#[derive(Debug)]
pub struct Hash {
    /// Packed or large form. Packed fields are in the order of insertion.
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
    /// Returns the value of a live field.
    #[inline]
    pub fn get(&self, field: &[u8], scene: &Scene<'_>) -> Option<&[u8]> {
        self.form.get(field, scene.horizon)
    }

    /// Sets the value of a field and removes the field's deadline. Returns whether the field is
    /// new.
    pub fn set(&mut self, field: &[u8], value: &[u8], scene: &Scene<'_>) -> bool {
        let is_new = self.put(field, value, scene);
        if !is_new {
            self.persist(field, scene);
        }
        is_new
    }

    /// Sets the value of a field and keeps its deadline. Returns whether the field is new.
    pub fn set_keeping(&mut self, field: &[u8], value: &[u8], scene: &Scene<'_>) -> bool {
        self.put(field, value, scene)
    }

    /// Sets the value of a field. Returns whether it is new. An expired field that is still present
    /// is replaced by a new one without a deadline.
    fn put(&mut self, field: &[u8], value: &[u8], scene: &Scene<'_>) -> bool {
        let is_long = |bytes: &[u8]| bytes.len() as i64 > scene.limits.hash_value();
        if is_long(field) || is_long(value) {
            self.form.make_large(Tail::Value, scene);
        }
        scene.note_change(field);
        let may_push = |count| (count as i64) < scene.limits.hash_entries();
        self.form.put((Tail::Value, field, value), scene, may_push)
    }

    /// Adds a field to the `count` fields that the hash has. The caller has made sure that it is
    /// not among them, so that they are not searched.
    pub fn push_new(&mut self, field: &[u8], value: &[u8], count: usize, scene: &Scene<'_>) {
        let is_short = |bytes: &[u8]| bytes.len() as i64 <= scene.limits.hash_value();
        let is_packed =
            is_short(field) && is_short(value) && (count as i64) < scene.limits.hash_entries();
        self.form
            .push_new((Tail::Value, field, value), scene, is_packed);
    }

    /// Removes the deadline of a live field.
    fn persist(&mut self, field: &[u8], scene: &Scene<'_>) {
        if self.has_deadlines() {
            self.set_deadline(field, None, scene);
        }
    }

    /// Passes all live fields with their values and deadlines to `each`.
    pub fn each<'h>(
        &'h self,
        scene: &Scene<'_>,
        mut each: impl FnMut(&'h [u8], &'h [u8], Option<Tick>),
    ) {
        match &self.form {
            Form::Packed(packed) => packed
                .live(scene.horizon)
                .for_each(|e| each(e.member, e.tail, e.deadline)),
            Form::Large(members) => {
                let elements = members.elements();
                members.each_live(scene.horizon, &mut |slot| {
                    let (field, value) = elements.element(slot);
                    each(field, value, elements.deadline(slot));
                });
            }
        }
    }

    /// Passes live fields with deadlines from `first` to `last` to `each` in order of deadline:
    /// skips the first `offset`, then passes up to `count`. Fields with equal deadlines are in an
    /// arbitrary order that does not change until something is written. The work grows with
    /// `count`, not with the hash.
    pub fn each_by_deadline<'h>(
        &'h self,
        (first, last): (Tick, Tick),
        (offset, count): (usize, usize),
        scene: &Scene<'_>,
        each: &mut dyn FnMut(&'h [u8], Tick),
    ) {
        match &self.form {
            Form::Packed(packed) => {
                let timed = packed.live(scene.horizon);
                let timed = timed.filter_map(|e| Some((e.deadline?, e.member)));
                let is_meant = |(at, _): &(Tick, _)| (first..=last).contains(at);
                let mut fields: Vec<_> = timed.filter(is_meant).collect();
                fields.sort_by_key(|field| field.0);
                let passed = fields.into_iter().skip(offset).take(count);
                passed.for_each(|(deadline, field)| each(field, deadline));
            }
            Form::Large(members) => {
                let elements = members.elements();
                let each = &mut |deadline, slot| each(elements.member(slot), deadline);
                members.each_by_deadline((first, last), (offset, count), scene.horizon, each);
            }
        }
    }

    /// Passes about `count` live fields and values, beginning at `cursor`, to `each`; all if the
    /// hash is packed. Returns the next cursor, 0 at the end. A field that is present during the
    /// whole scan is passed at least once.
    pub fn scan(
        &self,
        cursor: u64,
        count: usize,
        scene: &Scene<'_>,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> u64 {
        self.form.scan(cursor, count, scene.horizon, each)
    }

    /// Passes up to `count` distinct live fields with their values to `each`, chosen uniformly.
    pub fn sample(
        &self,
        count: usize,
        scene: &Scene<'_>,
        random: &mut dyn FnMut() -> u64,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) {
        match &self.form {
            Form::Packed(packed) => {
                let mut all: Vec<_> = packed.live(scene.horizon).collect();
                let count = count.min(all.len());
                // The first steps of a Fisher-Yates shuffle, unless all fields are wanted.
                for at in 0..count {
                    if count < all.len() {
                        let other = at + below(random(), all.len() - at);
                        all.swap(at, other);
                    }
                    each(all[at].member, all[at].tail);
                }
            }
            Form::Large(members) => {
                let pass = &mut |slot| {
                    let (field, value) = members.elements().element(slot);
                    each(field, value);
                };
                members.sample(count, scene.horizon, random, pass);
            }
        }
    }

    /// Passes `count` live fields with their values to `each`, each chosen independently among all.
    /// Passes none if no field is live. All are equally likely, unless nearly all fields of a large
    /// hash have expired.
    pub fn sample_with_repeats(
        &self,
        count: usize,
        scene: &Scene<'_>,
        random: &mut dyn FnMut() -> u64,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) {
        let now = scene.horizon;
        self.form.sample_with_repeats(count, now, random, each);
    }
}

#[cfg(test)]
mod tests;

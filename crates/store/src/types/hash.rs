//! Hashes: fields with values, each with or without a deadline.

use crate::collection::{Collection, Deadlines, Expired, Scene};
use crate::elements::packed::{Packed, Tail};
use crate::event::Class;
use crate::facts::Kind;
use crate::object::{Object, TAG_HASH, TAG_HASH_TTL};
use policy::{Budget, Tick};

/// A hash. Methods that read show no field whose deadline has passed.
#[derive(Debug)]
pub struct Hash {
    packed: Packed,
}

impl Hash {
    /// A field's value.
    pub fn get(&self, field: &[u8], scene: &Scene<'_>) -> Option<&[u8]> {
        let element = self.packed.find(field)?;
        element.is_live(scene.now).then_some(element.tail)
    }

    /// Gives a field a value and no deadline; whether the field is new.
    pub fn set(&mut self, field: &[u8], value: &[u8], scene: &Scene<'_>) -> bool {
        match self.packed.find(field) {
            Some(element) => {
                let (at, is_new) = (element.at, !element.is_live(scene.now));
                if element.deadline.is_some() {
                    self.packed.set_deadline(at, None);
                }
                self.packed.set_tail(at, value);
                self.packed.settle();
                is_new
            }
            None => {
                self.packed.push(field, value);
                true
            }
        }
    }

    /// Removes a field; whether it was there.
    pub fn remove(&mut self, field: &[u8], scene: &Scene<'_>) -> bool {
        // A dead one stays for those who take the dead away and tell of it.
        let found = self.packed.find(field).filter(|e| e.is_live(scene.now));
        let Some(at) = found.map(|element| element.at) else {
            return false;
        };
        self.packed.remove(at);
        self.packed.settle();
        true
    }

    /// How many fields there are.
    pub fn len(&self, scene: &Scene<'_>) -> usize {
        self.packed.len(scene.now)
    }

    /// Whether there is none.
    pub fn is_empty(&self, scene: &Scene<'_>) -> bool {
        self.packed.live(scene.now).next().is_none()
    }

    /// Tells all fields and their values.
    pub fn each(&self, scene: &Scene<'_>, mut each: impl FnMut(&[u8], &[u8])) {
        for element in self.packed.live(scene.now) {
            each(element.member, element.tail);
        }
    }

    /// Whether it is packed.
    pub fn is_packed(&self) -> bool {
        true
    }
}

impl Collection for Hash {
    const KIND: Kind = Kind::Hash;
    const EXPIRED: (Class, &'static str) = (Class::Hash, "hexpired");

    fn new() -> Self {
        Hash {
            packed: Packed::new(Tail::Value),
        }
    }

    fn of(object: &Object) -> Option<&Self> {
        match object {
            Object::Hash(hash) => Some(hash),
            _ => None,
        }
    }

    fn of_mut(object: &mut Object) -> Option<&mut Self> {
        match object {
            Object::Hash(hash) => Some(hash),
            _ => None,
        }
    }

    fn into_object(self) -> Object {
        Object::Hash(self)
    }

    fn unpack(tag: u8, bytes: Vec<u8>) -> Self {
        let packed = Packed::from_bytes(Tail::Value, tag == TAG_HASH_TTL, bytes);
        Hash { packed }
    }

    fn inline(&self) -> Option<(u8, &[u8])> {
        let tag = if self.packed.has_deadlines() {
            TAG_HASH_TTL
        } else {
            TAG_HASH
        };
        Some((tag, self.packed.bytes()))
    }

    fn into_bytes(self) -> Vec<u8> {
        self.packed.into_bytes()
    }

    fn duplicate(&self, _scene: &Scene<'_>) -> Self {
        Hash {
            packed: self.packed.clone(),
        }
    }

    fn trim(&mut self) {
        self.packed.trim();
    }

    fn is_void(&self) -> bool {
        self.packed.is_empty()
    }

    fn is_dead(&self, now: Tick) -> bool {
        self.packed.live(now).next().is_none()
    }

    fn heap_bytes(&self) -> usize {
        self.packed.heap_bytes()
    }

    fn deadlines(&self) -> Option<Deadlines> {
        self.packed.deadlines()
    }

    fn set_own(&mut self, own: Option<Tick>) {
        self.packed.set_own(own);
    }

    fn purge(&mut self, now: Tick, budget: &mut Budget, expired: Expired<'_>) {
        self.packed.purge(now, budget, expired);
    }
}

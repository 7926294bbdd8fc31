//! Sets.

use crate::collection::{Collection, Deadlines, Expired, Scene};
use crate::elements::packed::{Packed, Tail};
use crate::event::Class;
use crate::facts::Kind;
use crate::object::{Object, TAG_SET, TAG_SET_TTL};
use policy::{Budget, Tick};

/// A set of byte strings, each with or without a deadline.
#[derive(Debug)]
pub struct Set {
    packed: Packed,
}

impl Collection for Set {
    const KIND: Kind = Kind::Set;
    const EXPIRED: (Class, &'static str) = (Class::Set, "sexpired");

    fn new() -> Self {
        Set {
            packed: Packed::new(Tail::Nothing),
        }
    }

    fn of(object: &Object) -> Option<&Self> {
        match object {
            Object::Set(set) => Some(set),
            _ => None,
        }
    }

    fn of_mut(object: &mut Object) -> Option<&mut Self> {
        match object {
            Object::Set(set) => Some(set),
            _ => None,
        }
    }

    fn into_object(self) -> Object {
        Object::Set(self)
    }

    fn unpack(tag: u8, bytes: Vec<u8>) -> Self {
        let packed = Packed::from_bytes(Tail::Nothing, tag == TAG_SET_TTL, bytes);
        Set { packed }
    }

    fn inline(&self) -> Option<(u8, &[u8])> {
        Some((
            [TAG_SET, TAG_SET_TTL][usize::from(self.packed.has_deadlines())],
            self.packed.bytes(),
        ))
    }

    fn into_bytes(self) -> Vec<u8> {
        self.packed.into_bytes()
    }

    fn duplicate(&self, _scene: &Scene<'_>) -> Self {
        Set {
            packed: self.packed.clone(),
        }
    }

    fn trim(&mut self) {
        self.packed.trim();
    }

    fn is_void(&self) -> bool {
        self.packed.is_empty()
    }

    fn heap_bytes(&self) -> usize {
        self.packed.heap_bytes()
    }

    fn is_dead(&self, now: Tick) -> bool {
        self.packed.live(now).next().is_none()
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

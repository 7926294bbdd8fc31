//! Lists.

use crate::collection::{Collection, Scene};
use crate::elements::packed::{Packed, Tail};
use crate::event::Class;
use crate::facts::Kind;
use crate::object::{Object, TAG_LIST};

/// A list of byte strings.
#[derive(Debug)]
pub struct List {
    packed: Packed,
}

impl Collection for List {
    const KIND: Kind = Kind::List;
    const EXPIRED: (Class, &'static str) = (Class::List, "expired");

    fn new() -> Self {
        List {
            packed: Packed::new(Tail::Nothing),
        }
    }

    fn of(object: &Object) -> Option<&Self> {
        match object {
            Object::List(list) => Some(list),
            _ => None,
        }
    }

    fn of_mut(object: &mut Object) -> Option<&mut Self> {
        match object {
            Object::List(list) => Some(list),
            _ => None,
        }
    }

    fn into_object(self) -> Object {
        Object::List(self)
    }

    fn unpack(_tag: u8, bytes: Vec<u8>) -> Self {
        let packed = Packed::from_bytes(Tail::Nothing, false, bytes);
        List { packed }
    }

    fn inline(&self) -> Option<(u8, &[u8])> {
        Some((TAG_LIST, self.packed.bytes()))
    }

    fn into_bytes(self) -> Vec<u8> {
        self.packed.into_bytes()
    }

    fn duplicate(&self, _scene: &Scene<'_>) -> Self {
        List {
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
}

//! What an entry holds: the tags of what lies in its block, and the objects that live outside.

use crate::collection::{Collection, Deadlines, ReportExpired, Representation, Scene};
use crate::elements::Elements;
use crate::elements::packed::own_deadline;
use crate::event::Class;
use crate::facts::{Encoding, Kind};
use crate::tags::{
    TAG_HASH, TAG_HASH_TTL, TAG_INTSET, TAG_ITEM, TAG_LIST, TAG_SET, TAG_SET_TTL, TAG_SORTED_SET,
    TAG_SORTED_SET_TTL, TAG_STRING,
};
use crate::types::{Hash, List, Set, SortedSet};
use cache::{Outside, Value};
use policy::{Budget, Tick};

/// A value, where it is on the heap: too large for a block, or at work.
#[derive(Debug)]
pub(crate) enum Object {
    /// A string, with room to grow when it grows by APPEND or SETRANGE.
    String(Vec<u8>),
    /// A string with memcached's head before it.
    Item(Vec<u8>),
    /// A hash.
    Hash(Hash),
    /// A set.
    Set(Set),
    /// A sorted set.
    SortedSet(SortedSet),
    /// A list.
    List(List),
}

/// A collection that an [`Object`] can hold.
pub(crate) trait InObject: Collection {
    /// Returns the collection in an object; `None` when it holds another type.
    fn of(object: &Object) -> Option<&Self>;
    /// Returns the collection in an object, to be changed; `None` when it holds another type.
    fn of_mut(object: &mut Object) -> Option<&mut Self>;
    /// Wraps the collection into an object.
    fn into_object(self) -> Object;
}

macro_rules! in_object {
    ($($type:ident)*) => {$(
        impl InObject for $type {
            fn of(object: &Object) -> Option<&Self> {
                match object {
                    Object::$type(collection) => Some(collection),
                    _ => None,
                }
            }
            fn of_mut(object: &mut Object) -> Option<&mut Self> {
                match object {
                    Object::$type(collection) => Some(collection),
                    _ => None,
                }
            }
            fn into_object(self) -> Object {
                Object::$type(self)
            }
        }
    )*};
}

in_object! { Hash Set SortedSet List }

/// Asks the collection in an object; another answer for a string.
macro_rules! ask {
    ($object:expr, $bytes:ident => $plain:expr, $collection:ident => $answer:expr) => {
        match $object {
            Object::String($bytes) | Object::Item($bytes) => $plain,
            Object::Hash($collection) => $answer,
            Object::Set($collection) => $answer,
            Object::SortedSet($collection) => $answer,
            Object::List($collection) => $answer,
        }
    };
}

/// The type that a tag stands for.
fn kind_of_tag(tag: u8) -> Kind {
    match tag {
        TAG_STRING | TAG_ITEM => Kind::String,
        TAG_HASH | TAG_HASH_TTL => Kind::Hash,
        TAG_SET | TAG_SET_TTL | TAG_INTSET => Kind::Set,
        TAG_SORTED_SET | TAG_SORTED_SET_TTL => Kind::SortedSet,
        TAG_LIST => Kind::List,
        _ => unreachable!("no value has this tag"),
    }
}

/// The type of a value.
pub(crate) fn kind_of(value: &Value<'_, Object>) -> Kind {
    fn kind<C: Collection>(_: &C) -> Kind {
        C::KIND
    }
    match value {
        Value::Inline(tag, _) => kind_of_tag(*tag),
        Value::Outside(object) => ask!(object, _b => Kind::String, c => kind(c)),
    }
}

/// How a value is held.
pub(crate) fn encoding_of(value: &Value<'_, Object>) -> Encoding {
    let tag = match value {
        Value::Inline(tag, _) => Some(*tag),
        Value::Outside(object) => object.inline().map(|(tag, _)| tag),
    };
    match tag {
        None => Encoding::Large,
        Some(TAG_STRING | TAG_ITEM) => Encoding::Bytes,
        Some(TAG_INTSET) => Encoding::Integers,
        Some(_) => Encoding::Packed,
    }
}

/// Whether a value has elements with deadlines, and so keeps the key's own deadline itself.
pub(crate) fn has_deadlines(value: &Value<'_, Object>) -> bool {
    Object::embedded_deadline(value).is_some()
}

impl Object {
    /// The value that an entry holds inline, at work.
    pub fn unpack(tag: u8, bytes: Vec<u8>) -> Object {
        match kind_of_tag(tag) {
            Kind::String if tag == TAG_ITEM => Object::Item(bytes),
            Kind::String => Object::String(bytes),
            Kind::Hash => Object::Hash(Hash::unpack(tag, bytes)),
            Kind::Set => Object::Set(Set::unpack(tag, bytes)),
            Kind::SortedSet => Object::SortedSet(SortedSet::unpack(tag, bytes)),
            Kind::List => Object::List(List::unpack(tag, bytes)),
        }
    }

    /// Its bytes and their tag, when it is one run of bytes.
    pub fn inline(&self) -> Option<(u8, &[u8])> {
        let tag = match self {
            Object::Item(_) => TAG_ITEM,
            _ => TAG_STRING,
        };
        ask!(self, bytes => Some((tag, bytes)), c => c.inline())
    }

    /// Its pages, when it is a collection with many elements that are found by name.
    pub fn pages(&self) -> Option<&Elements> {
        match self {
            Object::Hash(hash) => hash.pages(),
            Object::Set(set) => set.pages(),
            Object::SortedSet(sorted_set) => sorted_set.pages(),
            _ => None,
        }
    }

    /// The buffer of its bytes, to be used again.
    pub fn into_bytes(self) -> Vec<u8> {
        ask!(self, bytes => bytes, c => c.into_bytes())
    }

    /// Gives back what it has to spare.
    pub fn trim(&mut self) {
        ask!(self, bytes => bytes.shrink_to_fit(), c => c.trim());
    }

    /// Another one with the same content, but for the key's own deadline.
    pub fn duplicate(&self, scene: &Scene<'_>) -> Object {
        if let Object::Item(bytes) = self {
            return Object::Item(bytes.clone());
        }
        ask!(self, bytes => Object::String(bytes.clone()), c => c.duplicate(scene).into_object())
    }

    /// Whether a collection has lost its last element.
    pub fn is_empty_collection(&self) -> bool {
        ask!(self, _b => false, c => c.is_void())
    }

    /// Whether all that it holds is dead.
    pub fn is_dead(&self, now: Tick) -> bool {
        ask!(self, _b => false, c => c.is_dead(now))
    }

    /// Its deadlines, when elements have some.
    pub fn deadlines(&self) -> Option<Deadlines> {
        ask!(self, _b => None, c => c.deadlines())
    }

    /// Keeps the key's own deadline; only while elements have some.
    pub fn set_own(&mut self, own: Option<Tick>) {
        ask!(self, _b => {}, c => c.set_own(own));
    }

    /// Removes dead elements, a step of the budget each.
    pub fn purge(&mut self, now: Tick, budget: &mut Budget, expired: ReportExpired<'_>) {
        ask!(self, _b => {}, c => c.purge(now, budget, expired));
    }

    /// The class and the name of the event that elements have expired.
    pub fn expired_event(&self) -> (Class, &'static str) {
        fn event<C: Collection>(_: &C) -> (Class, &'static str) {
            C::EXPIRED
        }
        ask!(self, _b => (Class::Expired, "expired"), c => event(c))
    }

    /// Panics when it contradicts itself.
    pub fn check(&self) {
        ask!(self, _b => {}, c => c.check());
    }
}

impl Outside for Object {
    fn heap_bytes(&self) -> usize {
        ask!(self, bytes => bytes.capacity(), c => c.heap_bytes())
    }

    #[inline]
    fn embedded_deadline(value: &Value<'_, Object>) -> Option<Option<Tick>> {
        match value {
            Value::Inline(TAG_HASH_TTL | TAG_SET_TTL | TAG_SORTED_SET_TTL, bytes) => {
                Some(own_deadline(bytes))
            }
            Value::Inline(..) => None,
            Value::Outside(object) => ask!(object, _b => None, c => c.embedded_deadline()),
        }
    }

    fn dismantle(&mut self, steps: u32) -> bool {
        ask!(self, _b => false, c => c.dismantle(steps))
    }
}

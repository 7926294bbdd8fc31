//! Values of entries: inline ones by their tags, and objects on the heap.

use crate::collection::{
    ChangedElements, Collection, Deadlines, ReportExpired, Representation, Scene,
};
use crate::elements::Elements;
use crate::elements::packed::own_deadline;
use crate::event::Class;
use crate::facts::{Encoding, Kind};
use crate::lent::Lent;
use crate::tags::{
    TAG_HASH, TAG_HASH_TTL, TAG_INTSET, TAG_ITEM, TAG_LIST, TAG_SET, TAG_SET_TTL, TAG_SORTED_SET,
    TAG_SORTED_SET_TTL, TAG_STRING,
};
use crate::types::{Hash, List, Set, SortedSet, Stream};
use cache::{Outside, Value};
use policy::{Budget, Tick};

/// A value that is stored on the heap because it is too large for a block, or that was unpacked for
/// a change.
#[derive(Debug)]
pub(crate) enum Object {
    /// A string with spare capacity after APPEND or SETRANGE.
    String(Vec<u8>),
    /// A memcached item: a head followed by the value.
    Item(Vec<u8>),
    /// Fields with values.
    Hash(Hash),
    /// Distinct members.
    Set(Set),
    /// Distinct members with scores.
    SortedSet(SortedSet),
    /// Sequence of elements.
    List(List),
    /// Entries in the order of their IDs.
    Stream(Stream),
    /// Stands for a value that was moved to another keyspace for a while.
    Lent(Lent),
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

in_object! { Hash Set SortedSet List Stream }

/// Evaluates one of two expressions: the first for strings, the second for the collection in an
/// object.
macro_rules! ask {
    ($object:expr, $bytes:ident => $plain:expr, $collection:ident => $answer:expr) => {
        match $object {
            Object::String($bytes) | Object::Item($bytes) => $plain,
            Object::Hash($collection) => $answer,
            Object::Set($collection) => $answer,
            Object::SortedSet($collection) => $answer,
            Object::List($collection) => $answer,
            Object::Stream($collection) => $answer,
            Object::Lent($collection) => $answer,
        }
    };
}

/// Returns the type of a tag.
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

/// Returns the type of a value.
pub(crate) fn kind_of(value: &Value<'_, Object>) -> Kind {
    match value {
        Value::Inline(tag, _) => kind_of_tag(*tag),
        Value::Outside(object) => match object {
            Object::String(_) | Object::Item(_) => Kind::String,
            Object::Hash(_) => Kind::Hash,
            Object::Set(_) => Kind::Set,
            Object::SortedSet(_) => Kind::SortedSet,
            Object::List(_) => Kind::List,
            Object::Stream(_) => Kind::Stream,
            Object::Lent(lent) => lent.kind,
        },
    }
}

/// Returns whether a value was moved to another keyspace for a while.
pub(crate) fn is_lent(value: &Value<'_, Object>) -> bool {
    matches!(value, Value::Outside(Object::Lent(_)))
}

/// Returns the form of a value.
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

/// Returns whether a value has elements with deadlines. Such a value also stores the key's own
/// deadline.
pub(crate) fn has_deadlines(value: &Value<'_, Object>) -> bool {
    Object::embedded_deadline(value).is_some()
}

impl Object {
    /// Restores an object from the tag and the bytes of an inline value.
    pub fn unpack(tag: u8, bytes: Vec<u8>) -> Object {
        match kind_of_tag(tag) {
            Kind::String if tag == TAG_ITEM => Object::Item(bytes),
            Kind::String => Object::String(bytes),
            Kind::Hash => Object::Hash(Hash::unpack(tag, bytes)),
            Kind::Set => Object::Set(Set::unpack(tag, bytes)),
            Kind::SortedSet => Object::SortedSet(SortedSet::unpack(tag, bytes)),
            Kind::List => Object::List(List::unpack(tag, bytes)),
            Kind::Stream => unreachable!("a stream is never inline"),
        }
    }

    /// Returns the tag and the bytes if the object is one byte array, which can be stored inline;
    /// `None` otherwise.
    pub fn inline(&self) -> Option<(u8, &[u8])> {
        let tag = match self {
            Object::Item(_) => TAG_ITEM,
            _ => TAG_STRING,
        };
        ask!(self, bytes => Some((tag, bytes)), c => c.inline())
    }

    /// Returns the pages of a large hash, set or sorted set; `None` for any other object.
    pub fn pages(&self) -> Option<&Elements> {
        match self {
            Object::Hash(hash) => hash.pages(),
            Object::Set(set) => set.pages(),
            Object::SortedSet(sorted_set) => sorted_set.pages(),
            _ => None,
        }
    }

    /// Returns the number of live elements in a large collection; 1 for any other value.
    pub fn len(&self, scene: &Scene<'_>) -> usize {
        match self {
            Object::Hash(hash) => hash.len(scene),
            Object::Set(set) => set.len(scene),
            Object::SortedSet(set) => set.len(scene),
            Object::List(list) => list.len(),
            Object::Stream(stream) => stream.len(scene),
            Object::String(_) | Object::Item(_) | Object::Lent(_) => 1,
        }
    }

    /// Returns the length of a string, or the number of bytes that a collection occupies.
    pub fn used_bytes(&self) -> usize {
        match self {
            Object::String(bytes) | Object::Item(bytes) => bytes.len(),
            other => other.heap_bytes(),
        }
    }

    /// Returns the buffer that held the bytes, for reuse.
    pub fn into_bytes(self) -> Vec<u8> {
        ask!(self, bytes => bytes, c => c.into_bytes())
    }

    /// Frees spare room.
    pub fn trim(&mut self) {
        ask!(self, bytes => bytes.shrink_to_fit(), c => c.trim());
    }

    /// Returns a copy with the same content. The copy of a large collection lacks the key's own
    /// deadline.
    pub fn duplicate(&self, scene: &Scene<'_>) -> Object {
        match self {
            Object::String(bytes) => Object::String(bytes.clone()),
            Object::Item(bytes) => Object::Item(bytes.clone()),
            Object::Hash(hash) => Object::Hash(hash.duplicate(scene)),
            Object::Set(set) => Object::Set(set.duplicate(scene)),
            Object::SortedSet(set) => Object::SortedSet(set.duplicate(scene)),
            Object::List(list) => Object::List(list.duplicate(scene)),
            Object::Stream(stream) => Object::Stream(stream.duplicate(scene)),
            Object::Lent(lent) => Object::Lent(lent.clone()),
        }
    }

    /// Returns whether the object is a collection without elements.
    pub fn is_empty_collection(&self) -> bool {
        ask!(self, _b => false, c => c.is_void())
    }

    /// Returns whether all elements of a collection have expired.
    pub fn is_dead(&self, now: Tick) -> bool {
        ask!(self, _b => false, c => c.is_dead(now))
    }

    /// Returns the deadlines of the key and its elements; `None` if no element has one.
    pub fn deadlines(&self) -> Option<Deadlines> {
        ask!(self, _b => None, c => c.deadlines())
    }

    /// Stores the key's own deadline. Must be called only while elements have deadlines.
    pub fn set_own(&mut self, own: Option<Tick>) {
        ask!(self, _b => {}, c => c.set_own(own));
    }

    /// Removes expired elements, one step of the budget each.
    /// Adds the names of the removed elements to `names`.
    pub fn purge(
        &mut self,
        now: Tick,
        budget: &mut Budget,
        expired: ReportExpired<'_>,
        names: Option<&ChangedElements>,
    ) {
        ask!(self, _b => {}, c => c.purge(now, budget, expired, names));
    }

    /// Returns the class and the name of the event that is notified when elements expire.
    pub fn expired_event(&self) -> (Class, &'static str) {
        match self {
            Object::Hash(_) => Hash::EXPIRED,
            Object::Set(_) => Set::EXPIRED,
            Object::SortedSet(_) => SortedSet::EXPIRED,
            Object::List(_) => List::EXPIRED,
            Object::Stream(_) => Stream::EXPIRED,
            Object::String(_) | Object::Item(_) | Object::Lent(_) => (Class::Expired, "expired"),
        }
    }

    /// Panics if the structure is inconsistent.
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

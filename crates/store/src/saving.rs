//! Entries on their way from a shard to the receiver of a snapshot: batches of copied entries, and
//! the state of a shard with entries that have not been passed on yet. `snapshot` describes the
//! whole.

use crate::elements::packed::{Tail, elements_of};
use crate::facts::Kind;
use crate::item::{ItemHead, value_of};
use crate::lent::Lent;
use crate::object::{Object, kind_of};
use crate::shared::{Db, Shared};
use crate::tagging::encode_labels;
use crate::tags::{TAG_HASH, TAG_ITEM, TAG_SET, TAG_SORTED_SET, TAG_STRING};
use crate::types::{Hash, List, Set, SortedSet, Stream};
use cache::{Outside, Value};
use policy::{Slot, Tick};
use std::sync::Arc;

/// Minimum size in bytes of a value that is not copied.
const LARGE_BYTES: usize = 64 << 10;
/// Size of a batch in bytes. A shard collects at most this much, and one entry.
const BATCH_BYTES: usize = 64 << 10;
/// Memory of a batch beyond its size, for its last entry.
const SPARE_BYTES: usize = 4 << 10;
/// Number of bytes that are copied in one step of the walk.
const BYTES_PER_STEP: usize = 512;
/// Tag of an entry whose value is an object of the batch.
const TAG_OBJECT: u8 = 0;
/// Bit in the tag of an entry that has the labels of its key after its value.
const HAS_LABELS: u8 = 1 << 7;
/// Bit in the tag of an entry that is protected from eviction.
const IS_PROTECTED: u8 = 1 << 6;
/// Length of the part of a batch before an entry's key.
const HEAD_BYTES: usize = 18;

/// Receiver of the entries of a snapshot.
pub trait SnapshotSink: Send + Sync {
    /// Receives entries. The shard they come from is locked, so an implementation that waits here
    /// delays commands. Returns an empty batch, if possible with the memory of a used one, because
    /// the allocator returns freed memory to the system immediately and each page of new memory
    /// costs a fault.
    fn put(&self, batch: Batch) -> Batch;
}

/// Entries of a snapshot, in no particular order.
///
/// ```text
/// entry   database 1 │ tag 1 │ deadline 8 │ key length 4 │ value length 4 │ key │ value │
///         length of the key's labels 4 │ its labels, both only if it has some
/// ```
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    /// Values of entries with the tag 0, in their order.
    objects: Vec<Object>,
    object_bytes: usize,
}

/// An entry of a snapshot.
#[derive(Debug)]
pub struct Record<'a> {
    /// Number of the database.
    pub db: u8,
    /// Bytes of the key.
    pub key: &'a [u8],
    /// The key's own deadline.
    pub deadline: Option<Tick>,
    /// Tags and freshness of the key, as [`crate::decode_labels`] reads them; empty for a plain
    /// key.
    pub labels: &'a [u8],
    /// Whether the key is protected from eviction.
    pub is_protected: bool,
    /// The value.
    pub value: RecordValue<'a>,
}

/// Value of an entry of a snapshot.
#[derive(Debug)]
pub enum RecordValue<'a> {
    /// A string.
    String(&'a [u8]),
    /// A memcached item: its attributes and its value.
    Item(ItemHead, &'a [u8]),
    /// A list.
    List(&'a List),
    /// A set.
    Set(&'a Set),
    /// A sorted set.
    SortedSet(&'a SortedSet),
    /// A hash.
    Hash(&'a Hash),
    /// A stream.
    Stream(&'a Stream),
    /// A small hash, set or sorted set whose elements have no deadlines.
    Packed(PackedRecord<'a>),
}

/// A hash, set or sorted set without deadlines of elements, in one byte array.
#[derive(Clone, Copy, Debug)]
pub struct PackedRecord<'a> {
    kind: Kind,
    tail: Tail,
    bytes: &'a [u8],
}

impl<'a> PackedRecord<'a> {
    fn of(tag: u8, bytes: &'a [u8]) -> Option<PackedRecord<'a>> {
        let (kind, tail) = match tag {
            TAG_HASH => (Kind::Hash, Tail::Value),
            TAG_SET => (Kind::Set, Tail::Nothing),
            TAG_SORTED_SET => (Kind::SortedSet, Tail::Score),
            _ => return None,
        };
        Some(PackedRecord { kind, tail, bytes })
    }

    /// Returns the type.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns an upper bound on the length of all elements.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns each field with its value, each member, or each member with the eight bytes of its
    /// score, the lowest first.
    #[inline(always)]
    pub fn elements(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        elements_of(self.bytes, self.tail)
    }
}

impl<'a> RecordValue<'a> {
    fn item(item: &'a [u8]) -> RecordValue<'a> {
        RecordValue::Item(ItemHead::read(item), value_of(item))
    }

    pub(crate) fn of(object: &'a Object) -> Option<RecordValue<'a>> {
        Some(match object {
            Object::String(bytes) => RecordValue::String(bytes),
            Object::Item(item) => RecordValue::item(item),
            Object::List(list) => RecordValue::List(list),
            Object::Set(set) => RecordValue::Set(set),
            Object::SortedSet(set) => RecordValue::SortedSet(set),
            Object::Hash(hash) => RecordValue::Hash(hash),
            Object::Stream(stream) => RecordValue::Stream(stream),
            Object::Lent(_) => return None,
        })
    }
}

impl Batch {
    /// Creates an empty batch with memory for its entries.
    pub fn with_memory() -> Batch {
        Batch {
            bytes: Vec::with_capacity(BATCH_BYTES + SPARE_BYTES),
            ..Batch::default()
        }
    }

    /// Empties the batch and keeps its memory. Returns `None` if it has more memory than usual.
    pub fn reused(mut self) -> Option<Batch> {
        self.bytes.clear();
        self.objects = Vec::new();
        self.object_bytes = 0;
        let capacity = self.bytes.capacity();
        ((BATCH_BYTES..4 * BATCH_BYTES).contains(&capacity)).then_some(self)
    }

    /// Returns the number of bytes that the entries occupy.
    pub fn bytes(&self) -> usize {
        self.bytes.len() + self.object_bytes
    }

    fn push(&mut self, (db, tag): (u8, u8), key: &[u8], head: &EntryHead, value: &[u8]) {
        let length = |bytes: &[u8]| (bytes.len() as u32).to_le_bytes();
        debug_assert!(key.len().max(value.len()) <= u32::MAX as usize);
        let deadline = head.deadline.map_or(u64::MAX, |deadline| deadline.0);
        let mut bytes = [db; HEAD_BYTES];
        bytes[1] = tag;
        bytes[2..10].copy_from_slice(&deadline.to_le_bytes());
        bytes[10..14].copy_from_slice(&length(key));
        bytes[14..].copy_from_slice(&length(value));
        if !head.labels.is_empty() {
            bytes[1] |= HAS_LABELS;
        }
        if head.is_protected {
            bytes[1] |= IS_PROTECTED;
        }
        self.bytes.reserve(HEAD_BYTES + key.len() + value.len());
        self.bytes.extend_from_slice(&bytes);
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        if !head.labels.is_empty() {
            self.bytes.extend_from_slice(&length(&head.labels));
            self.bytes.extend_from_slice(&head.labels);
        }
    }

    fn push_object(&mut self, db: u8, key: &[u8], head: &EntryHead, object: Object) {
        self.push((db, TAG_OBJECT), key, head, &[]);
        self.object_bytes += object.heap_bytes();
        self.objects.push(object);
    }

    /// Passes each entry to `each`.
    pub fn each(&self, each: &mut dyn FnMut(&Record<'_>)) {
        let (mut rest, mut objects) = (&self.bytes[..], self.objects.iter());
        let mut unpacked;
        while let Some((head, tail)) = rest.split_at_checked(HEAD_BYTES) {
            let word = |at: usize| {
                let bytes = head[at..at + 4].try_into().expect("four bytes");
                u32::from_le_bytes(bytes) as usize
            };
            let deadline = u64::from_le_bytes(head[2..10].try_into().expect("eight bytes"));
            let (key, tail) = tail.split_at(word(10));
            let (bytes, mut tail) = tail.split_at(word(14));
            let mut labels = &tail[..0];
            if head[1] & HAS_LABELS != 0 {
                let (len, after) = tail.split_at(4);
                let len = u32::from_le_bytes(len.try_into().expect("four bytes"));
                (labels, tail) = after.split_at(len as usize);
            }
            rest = tail;
            let value = match head[1] & !(HAS_LABELS | IS_PROTECTED) {
                TAG_STRING => Some(RecordValue::String(bytes)),
                TAG_ITEM => Some(RecordValue::item(bytes)),
                TAG_OBJECT => objects.next().and_then(RecordValue::of),
                tag => match PackedRecord::of(tag, bytes) {
                    Some(packed) => Some(RecordValue::Packed(packed)),
                    None => {
                        unpacked = Object::unpack(tag, bytes.to_vec());
                        RecordValue::of(&unpacked)
                    }
                },
            };
            if let Some(value) = value {
                each(&Record {
                    db: head[0],
                    key,
                    deadline: (deadline != u64::MAX).then_some(Tick(deadline)),
                    labels,
                    is_protected: head[1] & IS_PROTECTED != 0,
                    value,
                });
            }
        }
    }
}

/// Properties of a key other than its value.
struct EntryHead {
    deadline: Option<Tick>,
    labels: Vec<u8>,
    is_protected: bool,
}

/// State of a snapshot in a shard with entries that have not been passed on yet.
pub(crate) struct Saving {
    pub sink: Arc<dyn SnapshotSink>,
    /// Instant of the snapshot.
    pub now: Tick,
    pub out: Batch,
}

/// Whether a value is too large to be copied.
pub(crate) fn is_large(value: &Value<'_, Object>) -> bool {
    matches!(value, Value::Outside(object) if object.heap_bytes() >= LARGE_BYTES)
}

impl Saving {
    /// Passes an unsaved entry to the sink by copying it. Returns the number of bytes copied.
    pub fn copy(&mut self, data: &mut Db, slot: Slot, shared: &Shared) -> usize {
        let before = self.out.bytes();
        if let Some((label, head)) = self.begin(data, slot) {
            let key = data.entries.key(slot);
            let inline = match data.value(slot) {
                Value::Inline(tag, bytes) => Some((tag, bytes)),
                Value::Outside(object) => object.inline(),
            };
            match (inline, data.value(slot)) {
                (None, Value::Outside(object)) => {
                    let copy = object.duplicate(&shared.scene(self.now));
                    self.out.push_object(label, key, &head, copy);
                }
                (inline, _) => {
                    let (tag, bytes) = inline.expect("a value is inline or outside");
                    self.out.push((label, tag), key, &head, bytes);
                }
            }
        }
        let copied = self.out.bytes() - before;
        self.end(data, slot);
        copied
    }

    /// Passes an unsaved entry that will be removed or replaced to the sink. A value outside of its
    /// block is moved; a [`Lent`] one of equal weight replaces it.
    pub fn take(&mut self, data: &mut Db, slot: Slot, shared: &Shared) {
        let Value::Outside(object) = data.value(slot) else {
            self.copy(data, slot, shared);
            return;
        };
        let lent = Lent {
            kind: kind_of(&Value::Outside(object)),
            bytes: object.heap_bytes(),
        };
        let begun = self.begin(data, slot);
        data.entries.mark_saved(slot);
        let taken = data
            .entries
            .edit_outside(slot, |object| std::mem::replace(object, Object::Lent(lent)));
        if let Some((label, head)) = begun {
            let object = taken.expect("the value is outside");
            self.out
                .push_object(label, data.entries.key(slot), &head, object);
        }
        self.end(data, slot);
    }

    /// Returns the database and the head of an entry; `None` if the entry had expired, or one of
    /// its tags had been invalidated, at the instant of the snapshot.
    fn begin(&self, data: &Db, slot: Slot) -> Option<(u8, EntryHead)> {
        let label = data.entries.saving_label().expect("the entry is unsaved");
        let soft_until = data.was_soft_until(slot);
        let own = data.entries.own_deadline(slot);
        let deadline = own.into_iter().chain(soft_until).min();
        let has_expired = deadline.is_some_and(|own| self.now > own);
        let head = EntryHead {
            deadline,
            labels: encode_labels(data, slot, soft_until.is_some()),
            is_protected: data.is_protected(slot),
        };
        (!has_expired && !data.was_stale(slot)).then_some((label, head))
    }

    fn end(&mut self, data: &mut Db, slot: Slot) {
        data.entries.mark_saved(slot);
        if self.out.bytes() >= BATCH_BYTES {
            self.flush();
        }
    }

    pub fn flush(&mut self) {
        if self.out.bytes() > 0 {
            self.out = self.sink.put(std::mem::take(&mut self.out));
        }
    }

    /// Passes entries of a database until the steps are used up. Returns the result of the step if
    /// it ends here. `takes` means that the database was flushed, so that values may be moved.
    pub fn walk(
        &mut self,
        data: &mut Db,
        takes: bool,
        steps: &mut usize,
        shared: &Shared,
    ) -> Option<Stop> {
        while let Some(slot) = data.entries.next_unsaved() {
            if *steps == 0 {
                return Some(Stop::Budget);
            }
            *steps -= 1;
            if data.was_stale(slot) {
                data.entries.mark_saved(slot);
            } else if takes {
                self.take(data, slot, shared);
            } else if is_large(&data.value(slot)) {
                return Some(Stop::Large(slot));
            } else {
                let bytes = self.copy(data, slot, shared);
                *steps = steps.saturating_sub(bytes / BYTES_PER_STEP);
            }
        }
        None
    }
}

/// Reason why the walk stops.
pub(crate) enum Stop {
    Budget,
    Large(Slot),
}

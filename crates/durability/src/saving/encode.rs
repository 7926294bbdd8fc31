//! Entries of a snapshot in RDB format.

use crate::dump::{Visit, fields, members, named, scored, stream_writer};
use store::{End, Kind, PackedRecord, Record, RecordValue, Scene};
use wire::dump::{Element, Encoding};
use wire::rdb::{ITEM_FIELD, PROTECTED_FIELD, TAGS_FIELD, Writer};

/// Writes an entry. `is_valkey` selects the type for hashes with field deadlines. `spill` is called
/// between elements, to take bytes from the writer. Returns false if the entry was left out because
/// all its elements have expired.
pub fn entry(
    writer: &mut Writer,
    record: &Record<'_>,
    scene: &Scene<'_>,
    is_valkey: bool,
    spill: &mut dyn FnMut(&mut Writer),
) -> bool {
    let (key, deadline) = (record.key, record.deadline.map(|deadline| deadline.0));
    if !record.labels.is_empty() {
        writer.field(TAGS_FIELD, record.labels);
    }
    if record.is_protected {
        writer.field(PROTECTED_FIELD, b"");
    }
    let mut put =
        |forms: Forms, each: &dyn Fn(Visit<'_>)| value(writer, (key, deadline), forms, each, spill);
    match record.value {
        RecordValue::String(bytes) => {
            writer.string(key, deadline, bytes);
            true
        }
        RecordValue::Item(head, bytes) => {
            let (head, len) = head.encode();
            writer.field(ITEM_FIELD, &head[..len]);
            writer.string(key, deadline, bytes);
            true
        }
        RecordValue::Packed(packed) => elements(writer, (key, deadline), packed),
        RecordValue::List(list) => put(Forms::same(Encoding::List), &|visit| {
            list.iter(End::Left, 0).for_each(|e| visit(&named(e)));
        }),
        RecordValue::Set(set) => {
            let timed = |_| Encoding::SetWithDeadlines;
            put(Forms(Encoding::Set, timed), &|visit| {
                members(set, scene, visit);
            })
        }
        RecordValue::SortedSet(set) => {
            let timed = |_| Encoding::SortedSetWithDeadlines;
            put(Forms(Encoding::SortedSet, timed), &|visit| {
                scored(set, scene, visit);
            })
        }
        RecordValue::Hash(hash) => {
            let timed = match is_valkey {
                true => |_| Encoding::ValkeyHash,
                false => |first| Encoding::RedisHash { first },
            };
            put(Forms(Encoding::Hash, timed), &|visit| {
                fields(hash, scene, visit);
            })
        }
        RecordValue::Stream(stream) => {
            writer.stream(key, deadline, stream_writer(stream, scene));
            true
        }
    }
}

/// Types of a value without deadlines of elements, and with them, given the earliest one.
struct Forms(Encoding, fn(u64) -> Encoding);

impl Forms {
    fn same(form: Encoding) -> Forms {
        Forms(form, |_| Encoding::List)
    }
}

/// Writes a small collection whose elements have no deadlines.
fn elements(writer: &mut Writer, key: (&[u8], Option<u64>), packed: PackedRecord<'_>) -> bool {
    let count = packed.elements().count();
    let size = (count, packed.bytes());
    // Each call is compiled for one type of elements.
    match packed.kind() {
        _ if count == 0 => return false,
        Kind::Hash => writer.elements(key, Encoding::Hash, size, packed.elements()),
        Kind::Set => writer.elements(key, Encoding::Set, size, packed.elements()),
        _ => writer.elements(key, Encoding::SortedSet, size, packed.elements()),
    }
    true
}

/// Writes a collection. `each` runs twice: to count the elements and find their earliest deadline,
/// and to write them. Returns false if there is none.
fn value(
    writer: &mut Writer,
    (key, deadline): (&[u8], Option<u64>),
    Forms(plain, timed): Forms,
    each: &dyn Fn(Visit<'_>),
    spill: &mut dyn FnMut(&mut Writer),
) -> bool {
    let (mut count, mut first) = (0, None);
    each(&mut |element: &Element<'_>| {
        count += 1;
        first = first.into_iter().chain(element.deadline).min();
    });
    if count == 0 {
        return false;
    }
    writer.begin(key, deadline, first.map_or(plain, timed), count);
    each(&mut |element| {
        writer.put(element);
        spill(writer);
    });
    true
}

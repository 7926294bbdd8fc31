//! Values as payloads of DUMP and RESTORE, which snapshots contain, too.

mod stream;

use self::stream::RestoredStream;
pub use self::stream::stream_writer;
use store::{
    AnyCollection, End, Hash, Key, Kind, List, NewDeadline, Scene, Set, SortedSet, Tick, View,
    WrongType,
};
use wire::dump::{Element, Encoding, Sink, StreamPart, ValueType, Writer};

/// Returns the serialized value of a key. `is_valkey` selects the type of hashes whose fields have
/// deadlines.
///
/// # Errors
/// The value has another type than the key reports. The locks that the caller holds prevent this.
pub fn payload_of(
    view: &mut View<'_>,
    key: &Key<'_>,
    is_valkey: bool,
) -> Result<Option<Vec<u8>>, WrongType> {
    let hash_form = |first| match is_valkey {
        true => Encoding::ValkeyHash,
        false => Encoding::RedisHash { first },
    };
    let payload = match view.kind(key) {
        None => None,
        Some(Kind::String) => view.get(key)?.map(|bytes| {
            payload(
                Encoding::String,
                |_| Encoding::String,
                |visit| visit(&named(bytes)),
            )
        }),
        Some(Kind::List) => view.read_list(key, |list, _| {
            let each = |visit: Visit<'_>| list.iter(End::Left, 0).for_each(|e| visit(&named(e)));
            payload(Encoding::List, |_| Encoding::List, each)
        })?,
        Some(Kind::Set) => view.read_set(key, |set, scene| {
            payload(
                Encoding::Set,
                |_| Encoding::SetWithDeadlines,
                |visit| members(set, scene, visit),
            )
        })?,
        Some(Kind::SortedSet) => view.read_sorted_set(key, |set, scene| {
            let with_deadlines = |_| Encoding::SortedSetWithDeadlines;
            payload(Encoding::SortedSet, with_deadlines, |visit| {
                scored(set, scene, visit)
            })
        })?,
        Some(Kind::Stream) => {
            view.read_stream(key, |value, scene| Some(stream::payload(value, scene)))?
        }
        Some(Kind::Hash) => view.read_hash(key, |hash, scene| {
            payload(Encoding::Hash, hash_form, |visit| {
                fields(hash, scene, visit)
            })
        })?,
    };
    Ok(payload.flatten())
}

/// Callback for each element.
pub type Visit<'t> = &'t mut dyn FnMut(&Element<'_>);

/// Returns an element that has only a name.
pub(crate) fn named(name: &[u8]) -> Element<'_> {
    Element {
        name,
        ..Element::default()
    }
}

fn milliseconds(deadline: Option<Option<Tick>>) -> Option<u64> {
    deadline.flatten().map(|deadline| deadline.0)
}

/// Passes the live members of a set to `visit`.
pub(crate) fn members(set: &Set, scene: &Scene<'_>, visit: Visit<'_>) {
    let has_deadlines = set.has_deadlines();
    set.each(scene, |member| {
        let mut element = named(member);
        if has_deadlines {
            element.deadline = milliseconds(set.deadline(member, scene));
        }
        visit(&element);
    });
}

/// Passes the live members of a sorted set to `visit`.
pub(crate) fn scored(set: &SortedSet, scene: &Scene<'_>, visit: Visit<'_>) {
    let has_deadlines = set.has_deadlines();
    set.each(0..set.len(scene), false, scene, |member, score| {
        let mut element = named(member);
        element.score = score;
        if has_deadlines {
            element.deadline = milliseconds(set.deadline(member, scene));
        }
        visit(&element);
    });
}

/// Passes the live fields of a hash to `visit`.
pub(crate) fn fields(hash: &Hash, scene: &Scene<'_>, visit: Visit<'_>) {
    hash.each(scene, |name, value, deadline| {
        visit(&Element {
            name,
            value,
            score: 0.0,
            deadline: milliseconds(Some(deadline)),
        });
    });
}

/// Returns the payload of a value. `each` is run twice: to count the elements and find their
/// earliest deadline, and to write them. Returns `None` if all elements have expired.
fn payload(
    without_deadlines: Encoding,
    with_deadlines: impl FnOnce(u64) -> Encoding,
    each: impl Fn(Visit<'_>),
) -> Option<Vec<u8>> {
    let (mut count, mut first) = (0, None);
    each(&mut |element| {
        count += 1;
        first = first.into_iter().chain(element.deadline).min();
    });
    if count == 0 {
        return None;
    }
    let mut writer = Writer::new(first.map_or(without_deadlines, with_deadlines), count);
    each(&mut |element| writer.put(element));
    Some(writer.finish())
}

/// A value that was taken out of [`Restored`].
pub struct Built {
    value: Value,
    bytes: Vec<u8>,
}

/// A value that is being built from a payload.
enum Value {
    /// The bytes are in a buffer that is reused.
    String,
    List(List),
    Set(Set),
    SortedSet(SortedSet),
    Hash(Hash),
    Stream(Box<RestoredStream>),
}

/// Collects the elements of a payload or of a value in a file that have not expired.
pub struct Restored<'s> {
    value: Value,
    bytes: Vec<u8>,
    scene: Scene<'s>,
    /// Whether the payload has elements.
    has_elements: bool,
    /// Number of elements that have not expired.
    live: usize,
    /// Whether no field or set member has occurred twice.
    is_distinct: bool,
    fields: FieldFilter,
}

/// Set of fields that may have occurred. A field that certainly has not is appended to its hash
/// without a search.
struct FieldFilter(Box<[u64; 64]>);

impl FieldFilter {
    /// Adds a field. Returns whether it may already have been added.
    #[inline]
    fn add(&mut self, field: &[u8]) -> bool {
        let mut ends = [[0; 8]; 2];
        let len = field.len().min(8);
        ends[0][..len].copy_from_slice(&field[..len]);
        ends[1][..len].copy_from_slice(&field[field.len() - len..]);
        let [first, last] = ends.map(u64::from_le_bytes);
        // Multiplication by an odd number spreads the differences to the upper bits.
        let mixed =
            (first ^ last.rotate_left(29) ^ field.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let (word, bit) = ((mixed >> 58) as usize, mixed >> 52 & 63);
        let before = self.0[word] >> bit & 1 == 1;
        self.0[word] |= 1 << bit;
        before
    }
}

impl<'s> Restored<'s> {
    /// Creates an empty value.
    pub fn new(scene: Scene<'s>) -> Self {
        Restored {
            value: Value::String,
            bytes: Vec::new(),
            scene,
            has_elements: false,
            live: 0,
            is_distinct: true,
            fields: FieldFilter(Box::new([0; 64])),
        }
    }

    /// Sets the instant that decides which elements have expired.
    pub fn set_now(&mut self, now: Tick) {
        (self.scene.now, self.scene.horizon) = (now, now);
    }

    /// Whether no element occurs twice and, in a stream, each pending entry has a consumer.
    pub fn is_sound(&self) -> bool {
        let len = match &self.value {
            Value::String | Value::List(_) => return true,
            Value::Stream(restored) => return restored.is_whole(),
            Value::Set(_) | Value::Hash(_) => return self.is_distinct,
            Value::SortedSet(set) => set.len(&self.scene),
        };
        len == self.live
    }

    /// Whether the value is a collection without elements, which faults of earlier servers have
    /// written. A stream may have no entries.
    pub fn is_empty(&self) -> bool {
        !self.has_elements && !matches!(self.value, Value::Stream(_))
    }

    /// Returns the length of a string; 0 for other types.
    pub fn string_len(&self) -> usize {
        match self.value {
            Value::String => self.bytes.len(),
            _ => 0,
        }
    }

    /// Whether all elements have expired.
    pub fn has_expired(&self) -> bool {
        self.live == 0 && !matches!(self.value, Value::Stream(_))
    }

    /// Returns the bytes of a string; `None` for another type.
    pub fn string(&self) -> Option<&[u8]> {
        matches!(self.value, Value::String).then_some(&self.bytes)
    }

    /// Takes the value out, so that others can be built meanwhile. An empty value remains.
    pub fn take(&mut self) -> Built {
        Built {
            value: std::mem::replace(&mut self.value, Value::String),
            bytes: std::mem::take(&mut self.bytes),
        }
    }

    /// Puts back a value that was taken out.
    pub fn put_back(&mut self, built: Built) {
        (self.value, self.bytes) = (built.value, built.bytes);
    }

    /// Stores the value, which has not expired, under a key. An empty value remains.
    pub fn store(&mut self, view: &mut View<'_>, key: &Key<'_>, deadline: Option<Tick>) {
        let collection = match std::mem::replace(&mut self.value, Value::String) {
            Value::String => {
                let deadline = deadline.map_or(NewDeadline::Clear, NewDeadline::At);
                return view.set(key, &self.bytes, deadline);
            }
            Value::List(list) => AnyCollection::List(list),
            Value::Set(set) => AnyCollection::Set(set),
            Value::SortedSet(set) => AnyCollection::SortedSet(set),
            Value::Hash(hash) => AnyCollection::Hash(hash),
            Value::Stream(restored) => AnyCollection::Stream(restored.stream),
        };
        let is_stored = view.store(key, collection, deadline);
        assert!(is_stored, "some element has not expired");
    }
}

impl Sink for Restored<'_> {
    fn begin(&mut self, kind: ValueType) {
        (self.has_elements, self.live, self.is_distinct) = (false, 0, true);
        self.bytes.clear();
        self.fields.0.fill(0);
        self.value = match kind {
            ValueType::String => Value::String,
            ValueType::List => Value::List(List::default()),
            ValueType::Set => Value::Set(Set::default()),
            ValueType::SortedSet => Value::SortedSet(SortedSet::default()),
            ValueType::Hash => Value::Hash(Hash::default()),
            ValueType::Stream => Value::Stream(Box::default()),
        };
    }

    fn element(&mut self, element: &Element<'_>) {
        let (name, scene) = (element.name, &self.scene);
        let deadline = element.deadline.map(Tick);
        self.has_elements = true;
        if deadline.is_some_and(|deadline| scene.horizon > deadline) {
            return;
        }
        self.live += 1;
        match &mut self.value {
            Value::String => self.bytes.extend_from_slice(name),
            Value::List(list) => list.push(End::Right, name, scene),
            Value::Set(set) => {
                self.is_distinct &= set.add(name, scene);
                if deadline.is_some() {
                    set.set_deadline(name, deadline, scene);
                }
            }
            Value::SortedSet(set) => {
                set.set(name, element.score, scene);
                if deadline.is_some() {
                    set.set_deadline(name, deadline, scene);
                }
            }
            Value::Hash(hash) => {
                if self.fields.add(name) {
                    self.is_distinct &= hash.set(name, element.value, scene);
                } else {
                    hash.push_new(name, element.value, self.live - 1, scene);
                }
                if deadline.is_some() {
                    hash.set_deadline(name, deadline, scene);
                }
            }
            Value::Stream(_) => unreachable!("a stream has no such elements"),
        }
    }

    fn stream_part(&mut self, part: &StreamPart<'_>) -> bool {
        match &mut self.value {
            Value::Stream(restored) => restored.part(part, &self.scene),
            _ => false,
        }
    }
}

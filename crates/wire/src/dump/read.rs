//! Reads a payload and passes its elements to a sink.

use super::crc::crc64;
use super::format::{FOOTER_BYTES, NO_DEADLINE, code, version};
use super::input::{Body, Input, Read};
use super::packed::{Entries, Entry, Open, integers, listpack, ziplist, zipmap};
use super::stream;
use super::value::{DumpError, Element, Sink, ValueType};
use crate::number::parse_f64;

/// Reads the value in a payload and passes it to `sink`, element by element. After an error, the
/// sink has received an unusable part. A collection may be empty: earlier servers have written such
/// values because of bugs, and the receiver decides how to treat them. `room_bytes` limits the
/// total size to which compressed strings may expand.
///
/// ```
/// use wire::dump::{DumpError, Element, Encoding, Sink, ValueType, Writer, read};
/// struct Names(Vec<Vec<u8>>);
/// impl Sink for Names {
///     fn begin(&mut self, value_type: ValueType) {
///         assert_eq!(value_type, ValueType::List);
///     }
///     fn element(&mut self, element: &Element<'_>) {
///         self.0.push(element.name.to_vec());
///     }
/// }
/// let mut writer = Writer::new(Encoding::List, 2);
/// for name in [&b"a"[..], b"12"] {
///     writer.put(&Element { name, ..Element::default() });
/// }
/// let mut payload = writer.finish();
/// let mut names = Names(Vec::new());
/// assert_eq!(read(&payload, 1 << 20, &mut names), Ok(()));
/// assert_eq!(names.0, [&b"a"[..], b"12"]);
/// payload[3] ^= 1;
/// assert_eq!(read(&payload, 1 << 20, &mut names), Err(DumpError::Footer));
/// ```
///
/// # Errors
/// See [`DumpError`].
pub fn read(payload: &[u8], room_bytes: usize, sink: &mut impl Sink) -> Result<(), DumpError> {
    let (rest, sum) = payload.split_last_chunk().ok_or(DumpError::Footer)?;
    let (body, version) = rest.split_last_chunk().ok_or(DumpError::Footer)?;
    let version = u16::from_le_bytes(*version);
    if !(1..=version::MAX).contains(&version) || u64::from_le_bytes(*sum) != crc64(rest) {
        return Err(DumpError::Footer);
    }
    debug_assert_eq!(body.len() + FOOTER_BYTES, payload.len());
    let mut input = Input::new(body, room_bytes);
    let code = input.byte()?;
    read_value(&mut input, code, version, sink)?;
    input.is_at_end().then_some(()).ok_or(DumpError::Body)
}

/// Reads a value of a type from the beginning of `input` and passes it to `sink`.
pub(crate) fn read_value(
    input: &mut impl Body,
    code: u8,
    version: u16,
    sink: &mut impl Sink,
) -> Read<()> {
    Reader { input, sink }.value(code, version)
}

/// Returns the type of a value by its number; `None` if values of this type are not read.
pub(crate) fn type_of(code: u8, version: u16) -> Option<ValueType> {
    Some(match code {
        code::STRING => ValueType::String,
        code::LIST | code::LIST_ZIPLIST | code::LIST_ZIPLISTS | code::LIST_LISTPACKS => {
            ValueType::List
        }
        code::SET | code::SET_INTEGERS | code::SET_LISTPACK | code::SET_DEADLINES => ValueType::Set,
        code::SORTED_SET_TEXT
        | code::SORTED_SET
        | code::SORTED_SET_ZIPLIST
        | code::SORTED_SET_LISTPACK
        | code::SORTED_SET_DEADLINES => ValueType::SortedSet,
        code::HASH_CANDIDATE_LISTPACK if version >= version::VALKEY => return None,
        code::HASH
        | code::HASH_ZIPMAP
        | code::HASH_ZIPLIST
        | code::HASH_LISTPACK
        | code::HASH_VALKEY
        | code::HASH_CANDIDATE_LISTPACK
        | code::HASH_REDIS
        | code::HASH_REDIS_LISTPACK => ValueType::Hash,
        code::STREAM
        | code::STREAM_COUNTED
        | code::STREAM_TIMED
        | code::STREAM_MESSAGES
        | code::STREAM_DEADLINES => ValueType::Stream,
        _ => return None,
    })
}

/// Position of the deadlines in an unpacked collection.
#[derive(Clone, Copy)]
enum Deadlines {
    None,
    /// Before each element: 0 for none, or one more than the milliseconds since this time.
    Before(u64),
    /// After each element.
    Behind,
}

/// Encoding of scores.
#[derive(Clone, Copy)]
enum Scores {
    None,
    Text,
    Binary,
}

struct Reader<'r, B, S> {
    input: &'r mut B,
    sink: &'r mut S,
}

impl<B: Body, S: Sink> Reader<'_, B, S> {
    fn value(&mut self, code: u8, version: u16) -> Read<()> {
        use Deadlines::{Before, Behind};
        let none = Deadlines::None;
        match code {
            code::STRING => self.text(),
            code::STREAM
            | code::STREAM_COUNTED
            | code::STREAM_TIMED
            | code::STREAM_MESSAGES
            | code::STREAM_DEADLINES => {
                self.sink.begin(ValueType::Stream);
                let sink = &mut *self.sink;
                stream::read(self.input, code, &mut |part| sink.stream_part(part))
            }
            code::LIST => self.plain(ValueType::List, none, Scores::None),
            code::SET => self.plain(ValueType::Set, none, Scores::None),
            code::SET_DEADLINES => self.plain(ValueType::Set, Behind, Scores::None),
            code::SORTED_SET_TEXT => self.plain(ValueType::SortedSet, none, Scores::Text),
            code::SORTED_SET => self.plain(ValueType::SortedSet, none, Scores::Binary),
            code::SORTED_SET_DEADLINES => self.plain(ValueType::SortedSet, Behind, Scores::Binary),
            code::HASH => self.plain(ValueType::Hash, none, Scores::None),
            code::HASH_VALKEY if version >= version::VALKEY => {
                self.plain(ValueType::Hash, Behind, Scores::None)
            }
            // Release candidates of Redis 7.4 wrote whole deadlines, of which 0 is none.
            code::HASH_VALKEY => self.plain(ValueType::Hash, Before(1), Scores::None),
            code::HASH_REDIS => {
                let first = u64::from_le_bytes(self.input.array()?);
                self.plain(ValueType::Hash, Before(first), Scores::None)
            }
            code::LIST_ZIPLIST => self.packed(ValueType::List, false, ziplist),
            code::SORTED_SET_ZIPLIST => self.packed(ValueType::SortedSet, false, ziplist),
            code::HASH_ZIPMAP => self.packed(ValueType::Hash, false, zipmap),
            code::HASH_ZIPLIST => self.packed(ValueType::Hash, false, ziplist),
            code::SET_INTEGERS => self.packed(ValueType::Set, false, integers),
            code::SET_LISTPACK => self.packed(ValueType::Set, false, listpack),
            code::SORTED_SET_LISTPACK => self.packed(ValueType::SortedSet, false, listpack),
            code::HASH_LISTPACK => self.packed(ValueType::Hash, false, listpack),
            code::HASH_CANDIDATE_LISTPACK if version < version::VALKEY => {
                self.packed(ValueType::Hash, true, listpack)
            }
            code::HASH_REDIS_LISTPACK => {
                // The earliest deadline, which the entries contain again.
                self.input.array::<8>()?;
                self.packed(ValueType::Hash, true, listpack)
            }
            code::LIST_ZIPLISTS | code::LIST_LISTPACKS => self.pieces(code),
            _ => Err(DumpError::Body),
        }
    }

    fn text(&mut self) -> Read<()> {
        self.sink.begin(ValueType::String);
        let mut scratch = Vec::new();
        let name = self.input.string(&mut scratch)?;
        self.sink.element(&Element {
            name,
            ..Element::default()
        });
        Ok(())
    }

    /// Reads a count and that number of elements.
    fn plain(&mut self, kind: ValueType, deadlines: Deadlines, scores: Scores) -> Read<()> {
        let count = self.input.length()?;
        self.sink.begin(kind);
        let (mut names, mut values, mut scratch) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..count {
            let mut deadline = match deadlines {
                Deadlines::Before(first) => self.deadline_since(first)?,
                _ => None,
            };
            if matches!(
                (kind, deadlines),
                (ValueType::List | ValueType::Set, Deadlines::None)
            ) {
                let name = self.input.string(&mut scratch)?;
                self.sink.element(&Element {
                    name,
                    ..Element::default()
                });
                continue;
            }
            self.input.copy_string(&mut names, &mut scratch)?;
            if kind == ValueType::Hash && !matches!(deadlines, Deadlines::Behind) {
                let value = self.input.string(&mut scratch)?;
                self.sink.element(&Element {
                    name: &names,
                    value,
                    score: 0.0,
                    deadline,
                });
                continue;
            }
            if kind == ValueType::Hash {
                self.input.copy_string(&mut values, &mut scratch)?;
            }
            let score = self.score(scores)?;
            if let Deadlines::Behind = deadlines {
                deadline = self.deadline()?;
            }
            self.sink.element(&Element {
                name: &names,
                value: &values,
                score,
                deadline,
            });
        }
        Ok(())
    }

    fn deadline_since(&mut self, first: u64) -> Read<Option<u64>> {
        let more = self.input.length()?;
        let at = more.checked_sub(1).map(|more| first.checked_add(more));
        match at {
            None => Ok(None),
            Some(Some(at)) if i64::try_from(at).is_ok() => Ok(Some(at)),
            Some(_) => Err(DumpError::Body),
        }
    }

    fn deadline(&mut self) -> Read<Option<u64>> {
        match i64::from_le_bytes(self.input.array()?) {
            NO_DEADLINE => Ok(None),
            at => at.try_into().map(Some).map_err(|_| DumpError::Body),
        }
    }

    fn score(&mut self, scores: Scores) -> Read<f64> {
        let score = match scores {
            Scores::None => 0.0,
            Scores::Binary => f64::from_le_bytes(self.input.array()?),
            Scores::Text => match self.input.byte()? {
                255 => f64::NEG_INFINITY,
                254 => f64::INFINITY,
                count => {
                    let text = self.input.bytes(count.into())?;
                    parse_f64(text).ok_or(DumpError::Body)?
                }
            },
        };
        (!score.is_nan()).then_some(score).ok_or(DumpError::Body)
    }

    /// Reads a string that contains all elements.
    fn packed(&mut self, kind: ValueType, has_deadlines: bool, open: Open) -> Read<()> {
        self.sink.begin(kind);
        let mut scratch = Vec::new();
        let bytes = self.input.string(&mut scratch)?;
        entries(self.sink, kind, has_deadlines, open(bytes)?)
    }

    /// Reads a list in several parts: packed ones, or single elements.
    fn pieces(&mut self, code: u8) -> Read<()> {
        const SINGLE: u64 = 1;
        const PACKED: u64 = 2;
        let pieces = self.input.length()?;
        self.sink.begin(ValueType::List);
        let mut scratch = Vec::new();
        for _ in 0..pieces {
            let (container, open): (u64, Open) = match code {
                code::LIST_ZIPLISTS => (PACKED, ziplist),
                _ => (self.input.length()?, listpack),
            };
            let bytes = self.input.string(&mut scratch)?;
            match container {
                PACKED => entries(self.sink, ValueType::List, false, open(bytes)?)?,
                SINGLE if !bytes.is_empty() => {
                    let name = bytes;
                    let value = Element::default();
                    self.sink.element(&Element { name, ..value });
                }
                _ => return Err(DumpError::Body),
            }
        }
        Ok(())
    }
}

/// Passes the elements of packed entries to the sink.
fn entries(
    sink: &mut impl Sink,
    kind: ValueType,
    has_deadlines: bool,
    mut all: Entries<'_>,
) -> Read<()> {
    let (mut names, mut values) = (Vec::new(), Vec::new());
    while let Some(name) = all.next() {
        let mut element = Element {
            name: name?.text(&mut names),
            ..Element::default()
        };
        match kind {
            ValueType::Hash => element.value = all.more()?.text(&mut values),
            ValueType::SortedSet => element.score = all.more()?.score()?,
            _ => {}
        }
        if has_deadlines {
            element.deadline = match all.more()? {
                Entry::Number(0) => None,
                Entry::Number(at @ 1..) => Some(at as u64),
                _ => return Err(DumpError::Body),
            };
        }
        sink.element(&element);
    }
    Ok(())
}

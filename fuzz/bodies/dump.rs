//! Fuzz target of DUMP payloads. Reading ends, and returns no more than the payload contains and
//! compression may expand to. What was read can be written and read again. The first byte is the
//! version; the checksum is corrected.

use wire::dump::{
    DumpError, DumpId, Element, Encoding, Sink, StreamForm, StreamNumbers, StreamPart,
    StreamWriter, ValueType, Writer, read,
};

/// Maximum size to which compression may expand.
const ROOM: usize = 1 << 16;

/// Name, value, score, deadline.
pub type Own = (Vec<u8>, Vec<u8>, f64, Option<u64>);

#[derive(Debug, Default, PartialEq)]
pub struct Received {
    pub kind: Option<ValueType>,
    pub elements: Vec<Own>,
    pub parts: Vec<Part>,
}

/// A part of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    Entry(DumpId, Vec<(Vec<u8>, Vec<u8>)>),
    Numbers(StreamNumbers),
    Group(Vec<u8>, DumpId, Option<u64>),
    Pending(DumpId, u64, u64),
    Consumer(Vec<u8>, u64, Option<u64>),
    Owned(DumpId),
    Kept(u64, u64),
    Message(Vec<u8>, Vec<u8>, DumpId),
    Messages(u64, u64),
    MaxAge(u64),
    Deadline(DumpId, u64),
}

impl Sink for Received {
    fn begin(&mut self, kind: ValueType) {
        assert_eq!(self.kind.replace(kind), None);
    }

    fn element(&mut self, element: &Element<'_>) {
        let Element {
            name,
            value,
            score,
            deadline,
        } = *element;
        assert!(!score.is_nan());
        self.elements
            .push((name.to_vec(), value.to_vec(), score, deadline));
    }

    fn stream_part(&mut self, part: &StreamPart<'_>) -> bool {
        self.parts.push(match *part {
            StreamPart::Entry { id, names, values } => {
                assert_eq!(names.len(), values.len());
                Part::Entry(
                    id,
                    names.iter().cloned().zip(values.iter().cloned()).collect(),
                )
            }
            StreamPart::Numbers(numbers) => Part::Numbers(numbers),
            StreamPart::Group {
                name,
                last_id,
                entries_read,
            } => Part::Group(name.to_vec(), last_id, entries_read),
            StreamPart::Pending {
                id,
                delivered_ms,
                deliveries,
            } => Part::Pending(id, delivered_ms, deliveries),
            StreamPart::Consumer {
                name,
                seen_ms,
                active_ms,
            } => Part::Consumer(name.to_vec(), seen_ms, active_ms),
            StreamPart::Owned(id) => Part::Owned(id),
            StreamPart::Kept(seconds, size) => Part::Kept(seconds, size),
            StreamPart::Message {
                producer,
                message,
                id,
            } => Part::Message(producer.to_vec(), message.to_vec(), id),
            StreamPart::Messages(added, again) => Part::Messages(added, again),
            StreamPart::MaxAge(age) => Part::MaxAge(age),
            StreamPart::Deadline(id, deadline) => Part::Deadline(id, deadline),
        });
        true
    }
}

pub fn run(data: &[u8]) {
    // Without the correction the checksum is nearly always wrong.
    let _ = read(data, ROOM, &mut Received::default());
    let Some((&version, body)) = data.split_first() else {
        return;
    };
    let mut payload = body.to_vec();
    payload.extend_from_slice(&[version, 0]);
    let sum = crc64(&payload);
    payload.extend_from_slice(&sum.to_le_bytes());
    let mut received = Received::default();
    let outcome = read(&payload, ROOM, &mut received);
    // The text of a number is at most four times as long as its encoding, and a packed entry takes
    // a byte.
    let received_bytes: usize = received
        .elements
        .iter()
        .map(|e| e.0.len() + e.1.len())
        .sum();
    assert!(received_bytes <= 4 * (ROOM + data.len()));
    assert_eq!(outcome == Err(DumpError::Footer), version == 0);
    if outcome == Ok(()) {
        if received.kind == Some(ValueType::Stream) {
            let mut again = Received::default();
            let written = written_stream(&received.parts).finish();
            assert_eq!(read(&written, ROOM, &mut again), Ok(()));
            assert_eq!(again, received);
            return;
        }
        // A collection without elements can be read and is not written.
        if received.elements.is_empty() {
            return;
        }
        for is_valkey in [false, true] {
            let mut again = Received::default();
            assert_eq!(
                read(&written(&received, is_valkey), ROOM, &mut again),
                Ok(())
            );
            assert_eq!(again, received);
        }
    }
}

/// Returns the encoding of a value other than a stream.
pub fn encoding(received: &Received, is_valkey: bool) -> Encoding {
    let first = received
        .elements
        .iter()
        .filter_map(|element| element.3)
        .min();
    match (received.kind.expect("it began"), first) {
        (ValueType::String, _) => Encoding::String,
        (ValueType::List, _) => Encoding::List,
        (ValueType::Set, None) => Encoding::Set,
        (ValueType::Set, Some(_)) => Encoding::SetWithDeadlines,
        (ValueType::SortedSet, None) => Encoding::SortedSet,
        (ValueType::SortedSet, Some(_)) => Encoding::SortedSetWithDeadlines,
        (ValueType::Hash, None) => Encoding::Hash,
        (ValueType::Hash, Some(_)) if is_valkey => Encoding::ValkeyHash,
        (ValueType::Hash, Some(first)) => Encoding::RedisHash { first },
        (ValueType::Stream, _) => unreachable!("a stream has parts, not elements"),
    }
}

/// Returns the elements of a value.
pub fn elements(received: &Received) -> impl Iterator<Item = Element<'_>> {
    received
        .elements
        .iter()
        .map(|(name, value, score, deadline)| Element {
            name,
            value,
            score: *score,
            deadline: *deadline,
        })
}

fn written(received: &Received, is_valkey: bool) -> Vec<u8> {
    let form = encoding(received, is_valkey);
    let mut writer = Writer::new(form, received.elements.len());
    elements(received).for_each(|element| writer.put(&element));
    writer.finish()
}

/// Returns the length of the run of parts of one kind at the beginning.
fn run_of(parts: &[Part], is_meant: impl Fn(&Part) -> bool) -> usize {
    parts.iter().take_while(|part| is_meant(part)).count()
}

/// Returns a writer that has written the parts of a stream.
pub fn written_stream(parts: &[Part]) -> StreamWriter {
    let has = |is_meant: fn(&Part) -> bool| parts.iter().any(is_meant);
    let is_plain = |part: &Part| matches!(part, Part::Numbers(n) if n.entries_added.is_none());
    let form = if has(|part| matches!(part, Part::MaxAge(_))) {
        StreamForm::Deadlines
    } else if has(|part| matches!(part, Part::Kept(..))) {
        StreamForm::Messages
    } else if parts.iter().any(is_plain) {
        StreamForm::Plain
    } else {
        StreamForm::Timed
    };
    let mut writer = StreamWriter::new(form);
    let is_owned = |part: &Part| matches!(part, Part::Owned(_));
    let is_group_part =
        |part: &Part| is_owned(part) || matches!(part, Part::Pending(..) | Part::Consumer(..));
    for (index, part) in parts.iter().enumerate() {
        let rest = &parts[index + 1..];
        match part {
            Part::Entry(id, fields) => {
                writer.entry(
                    *id,
                    fields.iter().map(|(name, value)| (&name[..], &value[..])),
                );
            }
            Part::Numbers(numbers) => {
                let is_group = |part: &&Part| matches!(part, Part::Group(..));
                writer.numbers(numbers, parts.iter().filter(is_group).count());
            }
            Part::Group(name, last, entries_read) => {
                writer.group(name, *last, *entries_read);
                let pending = run_of(rest, |part| matches!(part, Part::Pending(..)));
                writer.count(pending);
                if pending == 0 {
                    writer.count(consumers(&rest[..run_of(rest, is_group_part)]));
                }
            }
            Part::Pending(id, delivered_ms, deliveries) => {
                writer.pending(*id, *delivered_ms, *deliveries);
                if !matches!(rest.first(), Some(Part::Pending(..))) {
                    writer.count(consumers(&rest[..run_of(rest, is_group_part)]));
                }
            }
            Part::Consumer(name, seen_ms, active_ms) => {
                writer.consumer(name, *seen_ms, *active_ms);
                writer.count(run_of(rest, is_owned));
            }
            Part::Owned(id) => writer.owned(*id),
            Part::Kept(seconds, size) => {
                writer.pair(*seconds, *size);
                let messages = run_of(rest, |part| matches!(part, Part::Message(..)));
                writer.count(messages);
            }
            Part::Message(producer, message, id) => {
                // Each message is written with its producer, which reads as the same parts.
                writer.producer(producer);
                writer.count(1);
                writer.message(message, *id);
            }
            Part::Messages(added, again) => writer.pair(*added, *again),
            Part::MaxAge(age) => {
                writer.max_age(*age);
                writer.count(rest.len());
            }
            Part::Deadline(id, deadline) => writer.deadline(*id, *deadline),
        }
    }
    writer
}

fn consumers(parts: &[Part]) -> usize {
    parts
        .iter()
        .filter(|part| matches!(part, Part::Consumer(..)))
        .count()
}

/// Computes the checksum bit by bit.
fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, &byte| {
        (0..8).fold(sum ^ u64::from(byte), |sum, _| {
            (sum >> 1) ^ (0x95AC_9329_AC4B_C9B5 * (sum & 1))
        })
    })
}

//! Streams in payloads of DUMP and RESTORE.

use store::stream::{
    ConsumerIndex, Entry, IDEMPOTENCE_SECONDS, IDEMPOTENCE_SIZE, IdempotenceFacts, Pending,
    StreamFacts, StreamId,
};
use store::{Scene, Stream, Tick};
use wire::dump::{DumpId, StreamForm, StreamNumbers, StreamPart, StreamWriter};

fn written(id: StreamId) -> DumpId {
    (id.ms, id.seq)
}

fn read(id: DumpId) -> StreamId {
    StreamId::new(id.0, id.1)
}

fn entries<'s>(stream: &'s Stream, scene: &Scene<'_>) -> impl Iterator<Item = Entry<'s>> {
    stream.range(StreamId::MIN, StreamId::MAX, scene)
}

/// Returns the oldest type that expresses a stream.
fn form_of(stream: &Stream, len: u64) -> StreamForm {
    let facts = stream.facts();
    let mut groups = stream.groups();
    if facts.max_age_ms > 0 || stream.has_own_deadlines() {
        StreamForm::Deadlines
    } else if stream.idempotence() != IdempotenceFacts::default() {
        StreamForm::Messages
    } else if groups.any(|(_, group)| group.consumer_count() > 0) {
        StreamForm::Timed
    } else if stream.group_count() > 0
        || facts.max_deleted_id > StreamId::MIN
        || facts.entries_added != len
    {
        StreamForm::Counted
    } else {
        StreamForm::Plain
    }
}

/// Returns the payload of a stream.
pub fn payload(stream: &Stream, scene: &Scene<'_>) -> Vec<u8> {
    stream_writer(stream, scene).finish()
}

/// Returns the writer of a stream after all its parts were written.
pub fn stream_writer(stream: &Stream, scene: &Scene<'_>) -> StreamWriter {
    let (facts, len) = (stream.facts(), stream.len(scene) as u64);
    let form = form_of(stream, len);
    let mut writer = StreamWriter::new(form);
    for entry in entries(stream, scene) {
        writer.entry(written(entry.id), entry.fields());
    }
    let numbers = StreamNumbers {
        len,
        last_id: written(facts.last_id),
        first_id: written(stream.first_id(scene)),
        max_deleted_id: written(facts.max_deleted_id),
        entries_added: Some(facts.entries_added),
    };
    writer.numbers(&numbers, stream.group_count());
    let expired = stream.expired(scene);
    for (name, group) in stream.groups() {
        writer.group(name, written(group.last_delivered), group.entries_read);
        writer.count(group.pending_count(&expired));
        for (id, pending) in group.pending(StreamId::MIN, StreamId::MAX, &expired) {
            writer.pending(written(id), pending.delivered_ms, pending.deliveries.into());
        }
        writer.count(group.consumer_count());
        for (index, consumer) in group.consumers() {
            writer.consumer(&consumer.name, consumer.seen_ms, consumer.active_ms);
            writer.count(group.pending_count_of(index, &expired));
            let own = group.pending_of(index, StreamId::MIN, StreamId::MAX, &expired);
            own.for_each(|(id, _)| writer.owned(written(id)));
        }
    }
    if matches!(form, StreamForm::Messages | StreamForm::Deadlines) {
        write_messages(&mut writer, stream);
    }
    if form == StreamForm::Deadlines {
        writer.max_age(facts.max_age_ms);
        let timed = || entries(stream, scene).filter_map(|e| Some((e.id, e.deadline?)));
        writer.count(timed().count());
        timed().for_each(|(id, deadline)| writer.deadline(written(id), deadline.0));
    }
    writer
}

fn write_messages(writer: &mut StreamWriter, stream: &Stream) {
    let facts = stream.idempotence();
    writer.pair(facts.seconds as u64, facts.size as u64);
    writer.count(facts.producers);
    stream.messages(&mut |producer, messages| {
        let messages: Vec<_> = messages.collect();
        writer.producer(producer);
        writer.count(messages.len());
        for (message, id) in messages {
            writer.message(message, written(id));
        }
    });
    writer.pair(facts.added, facts.duplicates);
}

/// A pending entry of a group that no consumer owns yet.
type Unowned = std::collections::BTreeMap<StreamId, (u64, u32)>;

/// A stream that is being built from a payload.
#[derive(Default)]
pub struct RestoredStream {
    pub stream: Stream,
    /// Number of entries read.
    len: u64,
    /// Whether the payload is of a Redis before 7.0, which has no counters.
    is_plain: bool,
    /// Name of the last group, and its pending entries that have no consumer yet.
    group: Vec<u8>,
    unowned: Unowned,
    consumer: Option<ConsumerIndex>,
}

impl RestoredStream {
    /// Receives a part. Returns false if it contradicts earlier parts.
    pub fn part(&mut self, part: &StreamPart<'_>, scene: &Scene<'_>) -> bool {
        match *part {
            StreamPart::Entry { id, names, values } => {
                let id = read(id);
                if id <= self.stream.facts().last_id || names.len() != values.len() {
                    return false;
                }
                let pair = |n: usize| (&names[n][..], &values[n][..]);
                self.stream.add(id, None, (0..names.len()).map(pair), scene);
                self.len += 1;
                true
            }
            StreamPart::Numbers(numbers) => {
                self.numbers(&numbers);
                true
            }
            StreamPart::Group {
                name,
                last_id,
                entries_read,
            } => {
                self.group = name.to_vec();
                self.consumer = None;
                let last_id = read(last_id);
                let entries_read = match self.is_plain {
                    true => self.stream.count_up_to(last_id, scene),
                    false => entries_read,
                };
                let is_whole = self.unowned.is_empty();
                is_whole && self.stream.create_group(name, last_id, entries_read)
            }
            StreamPart::Pending {
                id,
                delivered_ms,
                deliveries,
            } => {
                let deliveries = u32::try_from(deliveries).unwrap_or(u32::MAX);
                let before = self.unowned.insert(read(id), (delivered_ms, deliveries));
                before.is_none()
            }
            StreamPart::Consumer {
                name,
                seen_ms,
                active_ms,
            } => {
                let added = self.stream.add_consumer(&self.group, name, scene).flatten();
                self.consumer = added;
                let Some(consumer) = added else { return false };
                self.stream
                    .set_consumer_times(&self.group, consumer, seen_ms, active_ms);
                true
            }
            StreamPart::Owned(id) => self.owned(read(id)),
            ref part => self.own_part(part, scene),
        }
    }

    /// Receives the numbers. Where they contradict the entries, the entries count.
    fn numbers(&mut self, numbers: &StreamNumbers) {
        let last_id = self.stream.facts().last_id.max(read(numbers.last_id));
        self.is_plain = numbers.entries_added.is_none();
        self.stream.set_facts(StreamFacts {
            last_id,
            max_deleted_id: read(numbers.max_deleted_id).min(last_id),
            entries_added: numbers.entries_added.unwrap_or(0).max(self.len),
            max_age_ms: 0,
        });
    }

    fn owned(&mut self, id: StreamId) -> bool {
        let (Some(consumer), Some((delivered_ms, deliveries))) =
            (self.consumer, self.unowned.remove(&id))
        else {
            return false;
        };
        let pending = Pending {
            delivered_ms,
            deliveries,
            consumer,
        };
        self.stream.restore_pending(&self.group, id, pending)
    }

    /// Receives a part that only newer types have.
    fn own_part(&mut self, part: &StreamPart<'_>, scene: &Scene<'_>) -> bool {
        let is_within = |number: u64, range: (i64, i64, i64)| {
            (range.0 as u64..=range.1 as u64).contains(&number)
        };
        match *part {
            StreamPart::Kept(seconds, size) => {
                let is_sound =
                    is_within(seconds, IDEMPOTENCE_SECONDS) && is_within(size, IDEMPOTENCE_SIZE);
                if is_sound {
                    self.stream.set_idempotence(seconds as i64, size as i64);
                }
                is_sound
            }
            StreamPart::Message {
                producer,
                message,
                id,
            } => {
                self.stream.add_message(producer, message, read(id));
                true
            }
            StreamPart::Messages(added, duplicates) => {
                self.stream.set_idempotence_counts(added, duplicates);
                true
            }
            StreamPart::MaxAge(age) => {
                let is_sound = age <= Tick::MAX.0;
                if is_sound {
                    self.stream.set_max_age(age, scene);
                }
                is_sound
            }
            StreamPart::Deadline(id, deadline) => {
                // An entry that is too old has expired already.
                self.stream
                    .set_deadline(read(id), Some(Tick(deadline)), scene);
                true
            }
            _ => false,
        }
    }

    /// Returns whether all pending entries have a consumer.
    pub fn is_whole(&self) -> bool {
        self.unowned.is_empty()
    }
}

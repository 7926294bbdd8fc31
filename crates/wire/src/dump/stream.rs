//! Streams in payloads: entries in listpacks, groups with their pending entries, the messages of
//! producers, and this server's deadlines.
//!
//! ```text
//! stream    listpacks, (master ID 16, listpack) … │ numbers │ groups, group …
//!           type 26: │ messages of producers      type 130: │ messages │ maximum age │ deadlines
//! numbers   length, last ID │ since type 19: first ID, largest deleted ID, entries added
//! group     name, last ID │ since type 19: entries read │ pending, (ID 16, time 8, deliveries) …
//!           │ consumers, (name, time 8 │ since type 21: time 8 │ pending, ID 16 …) …
//! listpack  count, deleted, names, name …, 0 │ entry …
//! entry     flags, difference of the time, of the number │ [names] values │ number of parts
//! ```
//!
//! IDs of 16 bytes are big-endian; other IDs are two lengths. In an entry with flag 2, the names
//! are those of the listpack; an entry with flag 1 was deleted.

use super::format::{code, version};
use super::input::{Body, Input, Read};
use super::packed::{Entries, Entry, listpack};
use super::space::{push_length, push_string};
use super::value::{DumpError, DumpId, StreamNumbers, StreamPart};
use super::write::seal;
use crate::number::{Text, parse_i64};

const DELETED: i64 = 1;
const SAME_NAMES: i64 = 2;
/// Bytes and entries of a written listpack beyond which the next one begins.
const LISTPACK_BYTES: usize = 4096;
const LISTPACK_ENTRIES: usize = 100;
/// The names of a listpack count against the room, because each entry repeats them; a part of
/// them, because a receiver stores them once for many entries.
const NAMES_SHARE: usize = 16;
/// Value of the entries read by a group if their number is unknown.
const UNKNOWN: u64 = u64::MAX;

/// Receiver of the parts of a stream. It returns false if a part contradicts earlier ones.
pub(super) type Receive<'s> = &'s mut dyn FnMut(&StreamPart<'_>) -> bool;

fn ensure(is_sound: bool) -> Read<()> {
    is_sound.then_some(()).ok_or(DumpError::Body)
}

fn raw_id(input: &mut impl Body) -> Read<DumpId> {
    let (ms, seq) = (input.array()?, input.array()?);
    Ok((u64::from_be_bytes(ms), u64::from_be_bytes(seq)))
}

fn id(input: &mut impl Body) -> Read<DumpId> {
    Ok((input.length()?, input.length()?))
}

fn time(input: &mut impl Body) -> Read<i64> {
    Ok(i64::from_le_bytes(input.array()?))
}

/// Reads a stream of a type.
pub(super) fn read(input: &mut impl Body, kind: u8, receive: Receive<'_>) -> Read<()> {
    let (mut scratch, mut key, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    let listpacks = input.length()?;
    for _ in 0..listpacks {
        let master = raw_id(&mut Input::new(input.string(&mut key)?, 0))?;
        input.copy_string(&mut bytes, &mut scratch)?;
        read_listpack(input, master, &bytes, receive)?;
    }
    let mut numbers = StreamNumbers {
        len: input.length()?,
        last_id: id(input)?,
        ..StreamNumbers::default()
    };
    let has_numbers = kind != code::STREAM;
    if has_numbers {
        (numbers.first_id, numbers.max_deleted_id) = (id(input)?, id(input)?);
        numbers.entries_added = Some(input.length()?);
    }
    ensure(listpacks > 0 || numbers.len == 0)?;
    ensure(receive(&StreamPart::Numbers(numbers)))?;
    for _ in 0..input.length()? {
        read_group(input, kind, receive)?;
    }
    if matches!(kind, code::STREAM_MESSAGES | code::STREAM_DEADLINES) {
        read_messages(input, receive)?;
    }
    if kind == code::STREAM_DEADLINES {
        ensure(receive(&StreamPart::MaxAge(input.length()?)))?;
        for _ in 0..input.length()? {
            let (id, deadline) = (raw_id(input)?, time(input)?);
            let deadline = u64::try_from(deadline).map_err(|_| DumpError::Body)?;
            ensure(receive(&StreamPart::Deadline(id, deadline)))?;
        }
    }
    Ok(())
}

/// Returns an integer of a listpack.
fn integer(entries: &mut Entries<'_>) -> Read<i64> {
    match entries.more()? {
        Entry::Number(number) => Ok(number),
        Entry::Text(_) => Err(DumpError::Body),
    }
}

/// Returns a string of a listpack.
fn text(entries: &mut Entries<'_>) -> Read<Vec<u8>> {
    Ok(match entries.more()? {
        Entry::Text(text) => text.to_vec(),
        Entry::Number(number) => Text::integer(number).as_bytes().to_vec(),
    })
}

fn read_listpack(
    input: &mut impl Body,
    master: DumpId,
    bytes: &[u8],
    receive: Receive<'_>,
) -> Read<()> {
    let mut entries = listpack(bytes)?;
    let (count, deleted) = (integer(&mut entries)?, integer(&mut entries)?);
    ensure(count >= 0 && deleted >= 0)?;
    let (mut names, mut name_bytes) = (Vec::new(), 0);
    for _ in 0..integer(&mut entries)? {
        let name = text(&mut entries)?;
        name_bytes += name.len();
        names.push(name);
    }
    ensure(!names.is_empty() && integer(&mut entries)? == 0)?;
    let (mut live, mut dead) = (0, 0);
    for _ in 0..count.checked_add(deleted).ok_or(DumpError::Body)? {
        input.expand(0, name_bytes / NAMES_SHARE)?;
        let is_deleted = read_entry(&mut entries, master, &names, receive)?;
        live += i64::from(!is_deleted);
        dead += i64::from(is_deleted);
    }
    ensure(entries.next().is_none() && (live, dead) == (count, deleted))
}

/// Reads an entry of a listpack. Returns whether it is deleted.
fn read_entry(
    entries: &mut Entries<'_>,
    master: DumpId,
    shared: &[Vec<u8>],
    receive: Receive<'_>,
) -> Read<bool> {
    let flags = integer(entries)?;
    ensure((0..=DELETED | SAME_NAMES).contains(&flags))?;
    let (ms, seq) = (integer(entries)?, integer(entries)?);
    // A difference wraps around if both numbers are far apart. The receiver checks the order.
    let id = (
        master.0.wrapping_add_signed(ms),
        master.1.wrapping_add_signed(seq),
    );
    let mut own = Vec::new();
    let (mut values, mut parts) = (Vec::new(), 3);
    if flags & SAME_NAMES != 0 {
        for _ in shared {
            values.push(text(entries)?);
        }
        parts += values.len();
    } else {
        for _ in 0..integer(entries)? {
            own.push(text(entries)?);
            values.push(text(entries)?);
        }
        ensure(!own.is_empty())?;
        parts += 1 + 2 * values.len();
    }
    ensure(integer(entries)? == parts as i64)?;
    let is_deleted = flags & DELETED != 0;
    let names = if own.is_empty() { shared } else { &own };
    let values = &values;
    ensure(is_deleted || receive(&StreamPart::Entry { id, names, values }))?;
    Ok(is_deleted)
}

fn read_group(input: &mut impl Body, kind: u8, receive: Receive<'_>) -> Read<()> {
    let mut scratch = Vec::new();
    let name = input.string(&mut scratch)?.to_vec();
    let last_id = id(input)?;
    let entries_read = match kind {
        code::STREAM => None,
        _ => Some(input.length()?).filter(|read| *read != UNKNOWN),
    };
    let group = StreamPart::Group {
        name: &name,
        last_id,
        entries_read,
    };
    ensure(receive(&group))?;
    for _ in 0..input.length()? {
        let (id, delivered) = (raw_id(input)?, time(input)?);
        let pending = StreamPart::Pending {
            id,
            delivered_ms: delivered.max(0) as u64,
            deliveries: input.length()?,
        };
        ensure(receive(&pending))?;
    }
    for _ in 0..input.length()? {
        let name = input.string(&mut scratch)?.to_vec();
        let seen_ms = time(input)?.max(0) as u64;
        let active_ms = match kind {
            code::STREAM | code::STREAM_COUNTED => Some(seen_ms),
            _ => u64::try_from(time(input)?).ok(),
        };
        let consumer = StreamPart::Consumer {
            name: &name,
            seen_ms,
            active_ms,
        };
        ensure(receive(&consumer))?;
        for _ in 0..input.length()? {
            ensure(receive(&StreamPart::Owned(raw_id(input)?)))?;
        }
    }
    Ok(())
}

fn read_messages(input: &mut impl Body, receive: Receive<'_>) -> Read<()> {
    let (mut scratch, mut other) = (Vec::new(), Vec::new());
    let kept = StreamPart::Kept(input.length()?, input.length()?);
    ensure(receive(&kept))?;
    for _ in 0..input.length()? {
        let producer = input.string(&mut scratch)?.to_vec();
        for _ in 0..input.length()? {
            let message = input.string(&mut other)?.to_vec();
            let part = StreamPart::Message {
                producer: &producer,
                message: &message,
                id: id(input)?,
            };
            ensure(receive(&part))?;
        }
    }
    let counts = StreamPart::Messages(input.length()?, input.length()?);
    ensure(receive(&counts))
}

/// Type in which a stream is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamForm {
    /// The form read by Redis since 5.0: no groups, nothing deleted.
    Plain,
    /// The form read by Redis since 7.0: no consumers.
    Counted,
    /// The form read by Redis since 7.2.
    Timed,
    /// The form read by Redis since 8.6: with messages of producers.
    Messages,
    /// Deadlines and messages; only this server reads it.
    Deadlines,
}

impl StreamForm {
    /// Returns the type's number and the first version of the format that has it.
    pub(crate) fn code(self) -> (u8, u16) {
        match self {
            StreamForm::Plain => (code::STREAM, version::PLAIN),
            StreamForm::Counted => (code::STREAM_COUNTED, version::STREAM_COUNTED),
            StreamForm::Timed => (code::STREAM_TIMED, version::STREAM_TIMED),
            StreamForm::Messages => (code::STREAM_MESSAGES, version::STREAM_MESSAGES),
            StreamForm::Deadlines => (code::STREAM_DEADLINES, version::PLAIN),
        }
    }
}

/// Writer of a stream. The parts must be written in the order of the methods, each list after its
/// number of elements.
#[derive(Debug)]
pub struct StreamWriter {
    out: Vec<u8>,
    form: StreamForm,
    /// Finished listpacks with their master IDs, and their number.
    listpacks: Vec<u8>,
    count: u64,
    open: Option<Open>,
}

/// The listpack that is being written.
#[derive(Debug)]
struct Open {
    master: DumpId,
    names: Vec<Vec<u8>>,
    entries: Vec<u8>,
    parts: usize,
    count: usize,
}

impl StreamWriter {
    /// Creates a writer.
    pub fn new(form: StreamForm) -> StreamWriter {
        StreamWriter {
            out: vec![form.code().0],
            form,
            listpacks: Vec::new(),
            count: 0,
            open: None,
        }
    }

    /// Writes the next entry.
    pub fn entry<'f>(
        &mut self,
        id: DumpId,
        fields: impl ExactSizeIterator<Item = (&'f [u8], &'f [u8])> + Clone,
    ) {
        let is_full =
            |open: &Open| open.entries.len() >= LISTPACK_BYTES || open.count >= LISTPACK_ENTRIES;
        if self.open.as_ref().is_none_or(is_full) {
            self.close_listpack();
            self.open = Some(Open {
                master: id,
                names: fields.clone().map(|(name, _)| name.to_vec()).collect(),
                entries: Vec::new(),
                parts: 0,
                count: 0,
            });
        }
        let open = self.open.as_mut().expect("it was opened above");
        open.count += 1;
        let same = fields.len() == open.names.len()
            && fields
                .clone()
                .zip(&open.names)
                .all(|((name, _), of)| name == of);
        let mut parts = 3;
        let mut push = |part: Part<'_>| push_part(&mut open.entries, part);
        push(Part::Number(if same { SAME_NAMES } else { 0 }));
        push(Part::Number(id.0.wrapping_sub(open.master.0) as i64));
        push(Part::Number(id.1.wrapping_sub(open.master.1) as i64));
        if !same {
            push(Part::Number(fields.len() as i64));
            parts += 1;
        }
        for (name, value) in fields {
            if !same {
                push(Part::Text(name));
                parts += 1;
            }
            push(Part::Text(value));
            parts += 1;
        }
        push(Part::Number(parts));
        open.parts += parts as usize + 1;
    }

    fn close_listpack(&mut self) {
        let Some(open) = self.open.take() else { return };
        let mut body = Vec::new();
        for number in [open.count as i64, 0, open.names.len() as i64] {
            push_part(&mut body, Part::Number(number));
        }
        for name in &open.names {
            push_part(&mut body, Part::Text(name));
        }
        push_part(&mut body, Part::Number(0));
        body.extend_from_slice(&open.entries);
        let parts = open.parts + open.names.len() + 4;
        let bytes = body.len() + 7;
        push_length(&mut self.listpacks, 16);
        push_raw_id(&mut self.listpacks, open.master);
        push_length(&mut self.listpacks, bytes as u64);
        let bytes = u32::try_from(bytes).expect("a listpack is shorter than 4 GiB");
        self.listpacks.extend_from_slice(&bytes.to_le_bytes());
        let parts = u16::try_from(parts).unwrap_or(u16::MAX);
        self.listpacks.extend_from_slice(&parts.to_le_bytes());
        self.listpacks.extend_from_slice(&body);
        self.listpacks.push(0xFF);
        self.count += 1;
    }

    /// Writes the numbers, after all entries, and the number of groups.
    pub fn numbers(&mut self, numbers: &StreamNumbers, groups: usize) {
        self.close_listpack();
        push_length(&mut self.out, self.count);
        self.out.append(&mut self.listpacks);
        push_length(&mut self.out, numbers.len);
        self.id(numbers.last_id);
        if self.form != StreamForm::Plain {
            self.id(numbers.first_id);
            self.id(numbers.max_deleted_id);
            push_length(&mut self.out, numbers.entries_added.unwrap_or(numbers.len));
        }
        self.count(groups);
    }

    fn id(&mut self, id: DumpId) {
        push_length(&mut self.out, id.0);
        push_length(&mut self.out, id.1);
    }

    /// Writes the number of elements of a list: pending entries, consumers, pending entries of a
    /// consumer, producers, messages, or deadlines.
    pub fn count(&mut self, count: usize) {
        push_length(&mut self.out, count as u64);
    }

    /// Writes a group.
    pub fn group(&mut self, name: &[u8], last_id: DumpId, entries_read: Option<u64>) {
        push_string(&mut self.out, name);
        self.id(last_id);
        if self.form != StreamForm::Plain {
            push_length(&mut self.out, entries_read.unwrap_or(UNKNOWN));
        }
    }

    /// Writes a pending entry of a group.
    pub fn pending(&mut self, id: DumpId, delivered_ms: u64, deliveries: u64) {
        push_raw_id(&mut self.out, id);
        self.out.extend_from_slice(&delivered_ms.to_le_bytes());
        push_length(&mut self.out, deliveries);
    }

    /// Writes a consumer.
    pub fn consumer(&mut self, name: &[u8], seen_ms: u64, active_ms: Option<u64>) {
        push_string(&mut self.out, name);
        self.out.extend_from_slice(&seen_ms.to_le_bytes());
        if !matches!(self.form, StreamForm::Plain | StreamForm::Counted) {
            let active = active_ms.map_or(-1, |ms| ms as i64);
            self.out.extend_from_slice(&active.to_le_bytes());
        }
    }

    /// Writes a pending entry of a consumer.
    pub fn owned(&mut self, id: DumpId) {
        push_raw_id(&mut self.out, id);
    }

    /// Writes two numbers: seconds and number for which messages are kept, or numbers of messages
    /// recorded and sent again.
    pub fn pair(&mut self, first: u64, second: u64) {
        self.id((first, second));
    }

    /// Writes the name of a producer.
    pub fn producer(&mut self, name: &[u8]) {
        push_string(&mut self.out, name);
    }

    /// Writes a message of a producer.
    pub fn message(&mut self, message: &[u8], id: DumpId) {
        push_string(&mut self.out, message);
        self.id(id);
    }

    /// Writes the maximum age in milliseconds.
    pub fn max_age(&mut self, ms: u64) {
        push_length(&mut self.out, ms);
    }

    /// Writes an entry's own deadline.
    pub fn deadline(&mut self, id: DumpId, deadline: u64) {
        push_raw_id(&mut self.out, id);
        self.out.extend_from_slice(&deadline.to_le_bytes());
    }

    /// Returns the payload.
    pub fn finish(self) -> Vec<u8> {
        let form = self.form;
        seal(self.unsealed(), form.code().1)
    }

    /// Returns the type in which the stream is written.
    pub(crate) fn form(&self) -> StreamForm {
        self.form
    }

    /// Returns the payload without version and checksum: the type's number and the body.
    pub(crate) fn unsealed(self) -> Vec<u8> {
        assert!(self.open.is_none(), "the numbers are behind all entries");
        self.out
    }
}

fn push_raw_id(out: &mut Vec<u8>, id: DumpId) {
    out.extend_from_slice(&id.0.to_be_bytes());
    out.extend_from_slice(&id.1.to_be_bytes());
}

/// Part of a listpack.
#[derive(Clone, Copy)]
enum Part<'a> {
    Number(i64),
    Text(&'a [u8]),
}

/// Appends a part, followed by its length backwards. The decimal text of an integer is written as
/// an integer.
fn push_part(out: &mut Vec<u8>, part: Part<'_>) {
    let start = out.len();
    match part {
        Part::Number(number) => push_number(out, number),
        Part::Text(text) => match parse_i64(text) {
            Some(number) => push_number(out, number),
            None => push_text(out, text),
        },
    }
    let bytes = out.len() - start;
    let groups = super::packed::backward_bytes(bytes);
    for group in (0..groups).rev() {
        let bits = (bytes >> (7 * group)) as u8 & 0x7F;
        // The first written byte is read last: it has no high bit.
        out.push(if group + 1 == groups {
            bits
        } else {
            bits | 0x80
        });
    }
}

fn push_number(out: &mut Vec<u8>, number: i64) {
    let bytes = number.to_le_bytes();
    match number {
        0..=127 => out.push(number as u8),
        -4096..=4095 => out.extend_from_slice(&[0xC0 | (number >> 8) as u8 & 0x1F, number as u8]),
        -0x8000..=0x7FFF => {
            out.push(0xF1);
            out.extend_from_slice(&bytes[..2]);
        }
        -0x80_0000..=0x7F_FFFF => {
            out.push(0xF2);
            out.extend_from_slice(&bytes[..3]);
        }
        -0x8000_0000..=0x7FFF_FFFF => {
            out.push(0xF3);
            out.extend_from_slice(&bytes[..4]);
        }
        _ => {
            out.push(0xF4);
            out.extend_from_slice(&bytes);
        }
    }
}

fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    match text.len() {
        len @ 0..64 => out.push(0x80 | len as u8),
        len @ 64..4096 => out.extend_from_slice(&[0xE0 | (len >> 8) as u8, len as u8]),
        len => {
            out.push(0xF0);
            let len = u32::try_from(len).expect("a text is shorter than 4 GiB");
            out.extend_from_slice(&len.to_le_bytes());
        }
    }
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_listpack_are_read_as_they_were_written() {
        let numbers = [
            0,
            127,
            128,
            -1,
            4095,
            -4096,
            4096,
            1 << 20,
            -(1 << 30),
            i64::MAX,
            i64::MIN,
        ];
        let texts = [0, 1, 63, 64, 127, 128, 4095, 4096, 20_000].map(|len| vec![b'x'; len]);
        let mut body = Vec::new();
        for number in numbers {
            push_part(&mut body, Part::Number(number));
        }
        for text in &texts {
            push_part(&mut body, Part::Text(text));
        }
        let count = (numbers.len() + texts.len()) as u16;
        let mut bytes = (body.len() as u32 + 7).to_le_bytes().to_vec();
        bytes.extend_from_slice(&count.to_le_bytes());
        bytes.extend_from_slice(&body);
        bytes.push(0xFF);
        let mut entries = listpack(&bytes).expect("a sound listpack");
        for number in numbers {
            assert_eq!(integer(&mut entries), Ok(number));
        }
        for wanted in &texts {
            assert_eq!(text(&mut entries).as_ref(), Ok(wanted));
        }
        assert!(entries.next().is_none());
    }
}

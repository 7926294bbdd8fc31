//! Blocks of stream entries: up to about 100 entries packed into one byte array.
//!
//! ```text
//! block   fields │ entry …
//! fields  count │ (length, bytes) × count               the names that most entries share
//! entry   head 8 bits │ [ms] │ [seq] │ [deadline 48 bits] │ body
//! head    0: own names │ 1: a deadline │ 2: seq is stored │ 3–7: ms, 31: stored
//! body    (length, value) × count                       with the names of the block
//!         count │ (length, name, length, value) × count with its own names
//! ```
//!
//! Counts, lengths, `ms` and `seq` are numbers of 7 bits per byte, lowest first. `ms` is the
//! difference from the previous entry's time. If it is 0, `seq` is the difference of the sequence
//! numbers minus one, otherwise the sequence number itself; 0 is not stored. The entry before the
//! first one is the predecessor of the block's base, so that the first entry stores no difference.
//!
//! An entry of one value of three bytes under the names of its block takes five bytes. There are no
//! tombstones: a removed entry is cut out, and the next one stores its new difference.

use super::id::StreamId;
use policy::Tick;

const OWN_NAMES: u8 = 1;
const HAS_DEADLINE: u8 = 2;
const HAS_SEQ: u8 = 4;
/// Position of the time's difference in the head, and its value if the difference is stored.
const MS_SHIFT: u32 = 3;
const MS_STORED: u64 = 31;
/// Bytes of a deadline.
const DEADLINE: usize = 6;
/// Maximum length of an entry's head in bytes.
const HEAD_MAX: usize = 1 + 10 + 10 + DEADLINE;
/// Value of [`Block::nearest`] if no entry has a deadline.
pub(super) const NEVER: u64 = u64::MAX;

/// Appends a number.
fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reads the number at a position and advances the position past it.
#[inline]
fn take_number(bytes: &[u8], at: &mut usize) -> u64 {
    let first = bytes[*at];
    *at += 1;
    if first < 0x80 {
        return first.into();
    }
    let (mut number, mut shift) = (u64::from(first & 0x7F), 7);
    loop {
        let byte = bytes[*at];
        *at += 1;
        number |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return number;
        }
        shift += 7;
    }
}

/// Appends a string.
fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    push_number(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Reads the string at a position and advances the position past it.
#[inline]
fn take_text<'b>(bytes: &'b [u8], at: &mut usize) -> &'b [u8] {
    let len = take_number(bytes, at) as usize;
    let start = *at;
    *at += len;
    &bytes[start..start + len]
}

/// The head of an entry, relative to the entry before it.
struct Head {
    bytes: [u8; HEAD_MAX],
    len: usize,
}

impl Head {
    #[inline]
    fn new(before: StreamId, id: StreamId, deadline: Option<Tick>, own_names: bool) -> Head {
        let ms = id.ms - before.ms;
        let seq = match ms {
            0 => id.seq.wrapping_sub(before.seq).wrapping_sub(1),
            _ => id.seq,
        };
        let mut first = (ms.min(MS_STORED) as u8) << MS_SHIFT;
        first |= if own_names { OWN_NAMES } else { 0 };
        first |= if deadline.is_some() { HAS_DEADLINE } else { 0 };
        first |= if seq > 0 { HAS_SEQ } else { 0 };
        let mut head = Head {
            bytes: [0; HEAD_MAX],
            len: 1,
        };
        head.bytes[0] = first;
        if ms >= MS_STORED {
            head.push_number(ms);
        }
        if seq > 0 {
            head.push_number(seq);
        }
        if let Some(deadline) = deadline {
            let end = head.len + DEADLINE;
            head.bytes[head.len..end].copy_from_slice(&deadline.0.to_le_bytes()[..DEADLINE]);
            head.len = end;
        }
        head
    }

    fn push_number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes[self.len] = number as u8 | 0x80;
            self.len += 1;
            number >>= 7;
        }
        self.bytes[self.len] = number as u8;
        self.len += 1;
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// An entry of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// ID of the entry.
    pub id: StreamId,
    /// The entry's own deadline, as opposed to the stream's maximum age.
    pub deadline: Option<Tick>,
    /// Number of fields.
    len: usize,
    /// Names of the block, without their number, if the entry does not have its own names.
    names: Option<&'a [u8]>,
    /// Values, or names and values.
    body: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Returns the number of fields.
    pub fn field_count(&self) -> usize {
        self.len
    }

    /// Returns the fields with their values, in the order in which they were added.
    pub fn fields(&self) -> Fields<'a> {
        Fields {
            left: self.len,
            names: self.names,
            name_at: 0,
            body: self.body,
            at: 0,
        }
    }
}

/// Iterator over the fields and values of an entry.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    left: usize,
    names: Option<&'a [u8]>,
    name_at: usize,
    body: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Fields<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let name = match self.names {
            Some(names) => take_text(names, &mut self.name_at),
            None => take_text(self.body, &mut self.at),
        };
        Some((name, take_text(self.body, &mut self.at)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Fields<'_> {}

/// Fields and values of a new entry.
pub trait NewFields<'f>: ExactSizeIterator<Item = (&'f [u8], &'f [u8])> + Clone {}
impl<'f, I: ExactSizeIterator<Item = (&'f [u8], &'f [u8])> + Clone> NewFields<'f> for I {}

/// Position of an entry's head in a block.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: usize,
    /// End of the head.
    body: usize,
}

/// A block of at least one entry.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// ID of the first entry.
    base: StreamId,
    /// ID of the last entry.
    last: StreamId,
    bytes: Vec<u8>,
    len: u32,
    /// End of the shared names.
    names_end: u32,
    /// Position of the first entry. The bytes between the names and it are not used.
    front: u32,
    /// Earliest own deadline of an entry, or [`NEVER`].
    nearest: u64,
}

impl Block {
    /// Creates a block of one entry, whose names become the block's names.
    pub fn new<'f>(id: StreamId, deadline: Option<Tick>, fields: impl NewFields<'f>) -> Block {
        let mut bytes = Vec::new();
        push_number(&mut bytes, fields.len() as u64);
        for (name, _) in fields.clone() {
            push_text(&mut bytes, name);
        }
        let names_end = u32::try_from(bytes.len()).expect("a command is shorter than 4 GiB");
        let mut block = Block {
            base: id,
            last: before(id),
            bytes,
            len: 0,
            names_end,
            front: names_end,
            nearest: NEVER,
        };
        block.push(id, deadline, fields);
        block
    }

    /// Returns the ID of the first entry.
    pub fn first(&self) -> StreamId {
        self.base
    }

    /// Returns the ID of the last entry.
    pub fn last(&self) -> StreamId {
        self.last
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns the number of bytes in use.
    pub fn used_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the number of bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns the earliest own deadline of an entry, or [`NEVER`].
    pub fn nearest(&self) -> u64 {
        self.nearest
    }

    /// Frees spare capacity.
    pub fn trim(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// Adds an entry after all others.
    pub fn push<'f>(&mut self, id: StreamId, deadline: Option<Tick>, fields: impl NewFields<'f>) {
        debug_assert!(self.len == 0 || id > self.last);
        let shares = self.has_names_of(fields.clone());
        let head = Head::new(self.last, id, deadline, !shares);
        self.bytes.extend_from_slice(head.as_bytes());
        if !shares {
            push_number(&mut self.bytes, fields.len() as u64);
        }
        for (name, value) in fields {
            if !shares {
                push_text(&mut self.bytes, name);
            }
            push_text(&mut self.bytes, value);
        }
        self.last = id;
        self.len += 1;
        self.nearest = self
            .nearest
            .min(deadline.map_or(NEVER, |deadline| deadline.0));
    }

    /// Returns whether the names of the block are these.
    fn has_names_of<'f>(&self, fields: impl NewFields<'f>) -> bool {
        let (count, names) = self.names();
        let mut at = 0;
        count == fields.len()
            && fields
                .into_iter()
                .all(|(name, _)| take_text(names, &mut at) == name)
    }

    /// Returns the number of names of the block, and their bytes.
    fn names(&self) -> (usize, &[u8]) {
        let mut at = 0;
        let count = take_number(&self.bytes, &mut at) as usize;
        (count, &self.bytes[at..self.names_end as usize])
    }

    /// Returns the entries in order.
    pub fn entries(&self) -> Entries<'_> {
        let (count, names) = self.names();
        Entries {
            bytes: &self.bytes,
            at: self.front as usize,
            before: before(self.base),
            count,
            names,
        }
    }

    /// Returns the entry with this ID.
    pub fn get(&self, id: StreamId) -> Option<Entry<'_>> {
        self.entries()
            .from(id)
            .next()
            .filter(|entry| entry.id == id)
    }

    /// Removes the entry with this ID. Returns whether there was one. The block may be empty
    /// afterwards, and must then be dropped.
    pub fn remove(&mut self, id: StreamId) -> bool {
        if id == self.base {
            return self.cut_front(|entry| entry.id == id) == 1;
        }
        let mut entries = self.entries();
        let (mut prior, mut found) = (entries.before, None);
        while let Some((entry, span)) = entries.step() {
            if entry.id >= id {
                found = (entry.id == id).then_some((span, entry.deadline));
                break;
            }
            prior = entry.id;
        }
        let Some((span, deadline)) = found else {
            return false;
        };
        let next = entries.step().map(|(entry, at)| {
            let own_names = entry.names.is_none();
            (Head::new(prior, entry.id, entry.deadline, own_names), at)
        });
        match next {
            Some((head, at)) => {
                // The head may have become longer, but there is room: the removed entry.
                let start = at.body - head.len;
                self.bytes[start..at.body].copy_from_slice(head.as_bytes());
                self.bytes.drain(span.start..start);
            }
            None => {
                self.bytes.truncate(span.start);
                self.last = prior;
            }
        }
        self.len -= 1;
        if deadline.is_some() {
            self.refresh_nearest();
        }
        true
    }

    /// Removes entries from the front as long as `is_waste` is true for them. Returns their number.
    /// No bytes are moved; the block's room is reused when all its entries have been removed. The
    /// block may be empty afterwards, and must then be dropped.
    pub fn cut_front(&mut self, mut is_waste: impl FnMut(&Entry<'_>) -> bool) -> usize {
        let (mut removed, mut had_deadline) = (0, false);
        let mut entries = self.entries();
        let next = loop {
            match entries.step() {
                Some((entry, _)) if is_waste(&entry) => {
                    removed += 1;
                    had_deadline |= entry.deadline.is_some();
                }
                next => break next.map(|(entry, span)| (entry.id, entry.deadline, span)),
            }
        };
        if removed == 0 {
            return 0;
        }
        self.len -= removed;
        match next {
            Some((id, deadline, span)) => {
                // The first head stores no differences. It is at most as long as the present one,
                // whose deadline is already in place.
                let front = span.body - 1 - deadline.map_or(0, |_| DEADLINE);
                self.bytes[front] = self.bytes[span.start] & (OWN_NAMES | HAS_DEADLINE);
                (self.base, self.front) = (id, front as u32);
            }
            None => (self.last, self.front) = (before(self.base), self.bytes.len() as u32),
        }
        if had_deadline {
            self.refresh_nearest();
        }
        removed as usize
    }

    fn refresh_nearest(&mut self) {
        let deadlines = self.entries().filter_map(|entry| entry.deadline);
        self.nearest = deadlines.map(|deadline| deadline.0).min().unwrap_or(NEVER);
    }

    /// Passes each entry to `choose` and keeps it if that returns a deadline, which replaces the
    /// entry's own. Returns the number of removed entries. The block may be empty afterwards.
    pub fn rewrite(&mut self, mut choose: impl FnMut(&Entry<'_>) -> Keep) -> usize {
        let mut bytes = Vec::with_capacity(self.bytes.len());
        bytes.extend_from_slice(&self.bytes[..self.names_end as usize]);
        let (mut base, mut last, mut len, mut nearest) = (self.base, None, 0, NEVER);
        for entry in self.entries() {
            let deadline = match choose(&entry) {
                Keep::No => continue,
                Keep::As(deadline) => deadline,
            };
            if last.is_none() {
                base = entry.id;
            }
            let prior = last.unwrap_or(before(base));
            let head = Head::new(prior, entry.id, deadline, entry.names.is_none());
            bytes.extend_from_slice(head.as_bytes());
            if entry.names.is_none() {
                push_number(&mut bytes, entry.len as u64);
            }
            bytes.extend_from_slice(entry.body);
            last = Some(entry.id);
            len += 1;
            nearest = nearest.min(deadline.map_or(NEVER, |deadline| deadline.0));
        }
        let removed = self.len - len;
        (self.base, self.bytes, self.len, self.nearest) = (base, bytes, len, nearest);
        self.front = self.names_end;
        self.last = last.unwrap_or(before(base));
        removed as usize
    }

    /// Panics if the block is inconsistent.
    pub fn check(&self) {
        let mut entries = self.entries();
        let (mut len, mut last, mut nearest) = (0, None, NEVER);
        for entry in entries.by_ref() {
            assert!(last.is_none_or(|last| last < entry.id));
            assert!(last.is_some() || entry.id == self.base);
            assert_eq!(entry.fields().count(), entry.len);
            nearest = nearest.min(entry.deadline.map_or(NEVER, |deadline| deadline.0));
            last = Some(entry.id);
            len += 1;
        }
        assert_eq!(last, Some(self.last));
        assert_eq!((len, nearest), (self.len, self.nearest));
        assert_eq!(entries.at, self.bytes.len());
    }
}

/// Decision about an entry in [`Block::rewrite`].
pub(super) enum Keep {
    /// The entry is removed.
    No,
    /// The entry is kept, with this deadline.
    As(Option<Tick>),
}

/// Returns the ID relative to which the first entry of a block is stored. Its sequence number wraps
/// around for an ID with sequence number 0; decoding wraps it back.
fn before(base: StreamId) -> StreamId {
    StreamId::new(base.ms, base.seq.wrapping_sub(1))
}

/// Iterator over the entries of a block.
#[derive(Clone, Debug)]
pub(super) struct Entries<'b> {
    bytes: &'b [u8],
    at: usize,
    /// ID of the entry before the next one.
    before: StreamId,
    /// Number and bytes of the block's names.
    count: usize,
    names: &'b [u8],
}

impl<'b> Entries<'b> {
    /// Returns the entries from an ID on.
    pub fn from(mut self, id: StreamId) -> Entries<'b> {
        loop {
            let here = self.clone();
            match self.step() {
                Some((entry, _)) if entry.id < id => {}
                _ => return here,
            }
        }
    }

    #[inline]
    fn step(&mut self) -> Option<(Entry<'b>, Span)> {
        let (bytes, start) = (self.bytes, self.at);
        let head = *bytes.get(start)?;
        let mut at = start + 1;
        let mut ms = u64::from(head >> MS_SHIFT);
        if ms == MS_STORED {
            ms = take_number(bytes, &mut at);
        }
        let mut seq = 0;
        if head & HAS_SEQ != 0 {
            seq = take_number(bytes, &mut at);
        }
        let id = match ms {
            0 => StreamId::new(
                self.before.ms,
                self.before.seq.wrapping_add(1).wrapping_add(seq),
            ),
            _ => StreamId::new(self.before.ms + ms, seq),
        };
        let mut deadline = None;
        if head & HAS_DEADLINE != 0 {
            let mut word = [0; 8];
            word[..DEADLINE].copy_from_slice(&bytes[at..at + DEADLINE]);
            deadline = Some(Tick(u64::from_le_bytes(word)));
            at += DEADLINE;
        }
        let body = at;
        let has_own = head & OWN_NAMES != 0;
        let (len, texts) = match has_own {
            true => {
                let len = take_number(bytes, &mut at) as usize;
                (len, 2 * len)
            }
            false => (self.count, self.count),
        };
        let content = at;
        for _ in 0..texts {
            let len = take_number(bytes, &mut at) as usize;
            at += len;
        }
        (self.at, self.before) = (at, id);
        let entry = Entry {
            id,
            deadline,
            len,
            names: (!has_own).then_some(self.names),
            body: &bytes[content..at],
        };
        Some((entry, Span { start, body }))
    }
}

impl<'b> Iterator for Entries<'b> {
    type Item = Entry<'b>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'b>> {
        self.step().map(|(entry, _)| entry)
    }
}

#[cfg(test)]
mod tests;

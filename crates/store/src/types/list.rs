//! Lists: a short one in one byte array, a long one in chunks.

mod chunk;
mod large;

pub use self::large::Iter;

use super::form::{Form, PackedForm, collection};
use crate::collection::{Representation, Scene, trim_bytes};
use crate::tags::TAG_LIST;
use chunk::{Chunk, ChunkLimit, Entries, element_bytes, insert_element};
use large::Large;

/// End of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// End of the first element.
    Left,
    /// End of the last element.
    Right,
}

impl End {
    /// Returns the opposite end.
    pub fn other(self) -> End {
        match self {
            End::Left => End::Right,
            End::Right => End::Left,
        }
    }
}

/// A short list.
///
/// ```text
/// element … │ count 16 bits
/// ```
#[derive(Debug)]
struct Small(Vec<u8>);

/// Length of the count in bytes.
const COUNT: usize = 2;

impl Small {
    fn entries(&self) -> Entries<'_> {
        Entries::new(&self.0[..self.bytes_len()], self.len())
    }

    fn bytes_len(&self) -> usize {
        self.0.len() - COUNT
    }

    fn len(&self) -> usize {
        let at = self.bytes_len();
        u16::from_le_bytes([self.0[at], self.0[at + 1]]).into()
    }

    fn set_len(&mut self, len: usize) {
        let at = self.bytes_len();
        let len = u16::try_from(len).expect("the limit is below 2^16");
        self.0[at..].copy_from_slice(&len.to_le_bytes());
    }

    fn takes(&self, len: usize, limit: ChunkLimit) -> bool {
        limit.allows(self.len() + 1, self.bytes_len() + element_bytes(len))
    }

    fn insert(&mut self, index: usize, value: &[u8]) {
        debug_assert!(index <= self.len());
        let len = self.len();
        let at = self.entries().offset(index);
        insert_element(&mut self.0, at, value);
        self.set_len(len + 1);
    }

    fn remove(&mut self, index: usize, count: usize) {
        debug_assert!(index + count <= self.len());
        let (len, entries) = (self.len(), self.entries());
        let at = entries.offset(index);
        let end = at + entries.from(index).offset(count);
        self.0.drain(at..end);
        self.set_len(len - count);
    }
}

impl Representation for Small {
    fn trim(&mut self) {
        trim_bytes(&mut self.0);
    }

    fn is_void(&self) -> bool {
        self.len() == 0
    }

    fn heap_bytes(&self) -> usize {
        self.0.capacity()
    }

    fn check(&self) {
        Chunk::of(self.entries()).check();
    }
}

type ListForm = Form<Small, Large>;

/// A list of byte strings. Indexes count from the left, from 0.
#[derive(Debug)]
pub struct List {
    form: ListForm,
}

impl List {
    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        match &self.form {
            Form::Packed(small) => small.len(),
            Form::Large(large) => large.len(),
        }
    }

    /// Returns whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the list is one byte array.
    pub fn is_packed(&self) -> bool {
        matches!(self.form, Form::Packed(_))
    }

    /// Returns the elements from `index` on, in the direction away from the end `from`.
    pub fn iter(&self, from: End, index: usize) -> Iter<'_> {
        match &self.form {
            Form::Large(large) => large.iter(from, index),
            Form::Packed(small) => {
                let (entries, len) = (small.entries(), small.len());
                let entries = match from {
                    End::Left => entries.from(index.min(len)),
                    End::Right if index < len => entries.before(index + 1),
                    End::Right => entries.before(0),
                };
                Iter::of(entries, from)
            }
        }
    }

    /// Returns the element at an index.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.iter(End::Left, index).next()
    }

    /// Adds an element at an end.
    pub fn push(&mut self, end: End, value: &[u8], scene: &Scene<'_>) {
        let index = match end {
            End::Left => 0,
            End::Right => self.len(),
        };
        match self.form_for(value.len(), scene) {
            (Form::Packed(small), _) => small.insert(index, value),
            (Form::Large(large), limit) => large.push(end, value, limit),
        }
    }

    /// Passes the element at an end to `pass` and removes it. Returns false if the list is empty.
    pub fn pop(&mut self, end: End, scene: &Scene<'_>, pass: impl FnOnce(&[u8])) -> bool {
        let is_done = match &mut self.form {
            Form::Large(large) => large.pop(end, pass),
            Form::Packed(small) => {
                let mut entries = small.entries();
                let (element, index) = match end {
                    End::Left => (entries.next(), 0),
                    End::Right => (entries.next_back(), entries.len()),
                };
                let is_there = element.is_some();
                element.map(pass);
                if is_there {
                    small.remove(index, 1);
                }
                is_there
            }
        };
        self.settle(scene);
        is_done
    }

    /// Replaces the element at an index. Returns false if there is none.
    pub fn set(&mut self, index: usize, value: &[u8], scene: &Scene<'_>) -> bool {
        if index >= self.len() {
            return false;
        }
        match self.form_for(value.len(), scene) {
            (Form::Large(large), limit) => large.set(index, value, limit),
            (Form::Packed(small), _) => {
                small.remove(index, 1);
                small.insert(index, value);
            }
        }
        self.settle(scene);
        true
    }

    /// Inserts an element before the one at `index`, or at the end if `index` is the length.
    pub fn insert(&mut self, index: usize, value: &[u8], scene: &Scene<'_>) {
        assert!(index <= self.len());
        match self.form_for(value.len(), scene) {
            (Form::Packed(small), _) => small.insert(index, value),
            (Form::Large(large), limit) => large.insert(index, value, limit),
        }
    }

    /// Keeps `count` elements from `start` on and removes all others. Returns the removed ones,
    /// which should be freed in steps.
    pub fn keep(&mut self, start: usize, count: usize, scene: &Scene<'_>) -> List {
        let len = self.len();
        let start = start.min(len);
        let end = start.saturating_add(count).min(len);
        let mut waste = Large::default();
        match &mut self.form {
            Form::Large(large) => {
                large.cut(End::Right, len - end, &mut waste);
                large.cut(End::Left, start, &mut waste);
            }
            Form::Packed(small) => {
                small.remove(end, len - end);
                small.remove(0, start);
            }
        }
        self.settle(scene);
        List {
            form: Form::Large(Box::new(waste)),
        }
    }

    /// Removes up to `max` elements equal to `value`, beginning at an end. Returns their number.
    pub fn remove_equal(&mut self, value: &[u8], end: End, max: usize, scene: &Scene<'_>) -> usize {
        let limit = limit_of(scene);
        let removed = match &mut self.form {
            Form::Large(large) => large.remove_equal(value, end, max, limit),
            Form::Packed(small) => {
                let mut chunk = Chunk::of(small.entries());
                let removed = chunk.remove_equal(value, end, max);
                if removed > 0 {
                    *small = packed(chunk.entries());
                }
                removed
            }
        };
        self.settle(scene);
        removed
    }

    /// Returns the list in the form that has room for another element of length `len`, and the
    /// limit of a chunk. Converts a short list that would become too long.
    fn form_for(&mut self, len: usize, scene: &Scene<'_>) -> (&mut ListForm, ChunkLimit) {
        let limit = limit_of(scene);
        if let Form::Packed(small) = &self.form
            && !small.takes(len, limit)
        {
            let large = match small.len() {
                0 => Large::default(),
                _ => Large::of(Chunk::of(small.entries())),
            };
            self.form = Form::Large(Box::new(large));
        }
        (&mut self.form, limit)
    }

    /// Converts the list to the packed form if it has become short enough.
    fn settle(&mut self, scene: &Scene<'_>) {
        let Form::Large(large) = &self.form else {
            return;
        };
        if large.len() == 0 {
            self.form = Form::Packed(packed(Entries::new(&[], 0)));
        } else if let Some(chunk) = large.only()
            && limit_of(scene).half().allows(chunk.len(), chunk.bytes())
        {
            self.form = Form::Packed(packed(chunk.entries()));
        }
    }
}

fn limit_of(scene: &Scene<'_>) -> ChunkLimit {
    ChunkLimit::of(scene.limits.list_size())
}

fn packed(entries: Entries<'_>) -> Small {
    let mut bytes = Vec::with_capacity(entries.bytes().len() + COUNT);
    bytes.extend_from_slice(entries.bytes());
    bytes.extend_from_slice(&[0; COUNT]);
    let mut small = Small(bytes);
    small.set_len(entries.len());
    small
}

impl PackedForm for Small {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
    fn into_bytes(self) -> Vec<u8> {
        self.0
    }
    fn duplicate(&self) -> Small {
        packed(self.entries())
    }
}

collection!(
    List,
    "expired",
    |_tag, bytes| Small(bytes),
    |_: &Small| TAG_LIST,
    vec![0; COUNT]
);

#[cfg(test)]
mod tests;

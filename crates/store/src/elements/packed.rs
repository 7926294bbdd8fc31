//! A few elements in one byte array, which is searched from the start.
//!
//! ```text
//! plain         element …
//!               element   length │ member │ score 0|8 (sorted sets)
//!               length    7 bits per byte, the lowest first; the top bit: more bytes follow
//! of a hash     element   lengths 1 │ length │ length │ member │ value
//!               lengths   value 4 │ member 4; 15: a length of its own follows, the member's first
//! with TTLs     flags 1 │ the key's own deadline 0|6 │ element …
//!               flags     1: the key has a deadline of its own
//!               element   deadline 6 │ as above; deadline 0: none
//! ```
//!
//! The tag of the entry that holds the bytes identifies the layout, so that a collection of which
//! no element ever had a deadline has no bytes for deadlines.

use crate::collection::{
    ChangedElements, ChooseDeadline, Deadlines, ReportExpired, Representation, trim_bytes,
};
use policy::{Budget, Tick};

/// Length of a deadline in bytes.
const DEADLINE: usize = 6;
/// Value of the four length bits that marks a longer length, which is stored separately.
const LONG: usize = 15;
/// Flag that the key's own deadline is stored after the flags.
const HAS_OWN: u8 = 1;

/// Data stored after each member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Nothing: sets and lists.
    Nothing = 0,
    /// A value: hashes.
    Value = 1,
    /// A score of eight bytes: sorted sets.
    Score = 2,
}

/// Byte positions of the parts of an element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    pub member_at: usize,
    /// End of the member and start of its value or score.
    pub tail_at: usize,
    pub end: usize,
}

impl Parts {
    /// Returns the parts of the element at `at`, which is the position after its deadline if it has
    /// one.
    #[inline(always)]
    pub fn of(bytes: &[u8], at: usize, tail: Tail) -> Parts {
        let (member_len, tail_len, member_at) = match tail {
            Tail::Value => {
                let (mut member, mut value) = (bytes[at] as usize >> 4, bytes[at] as usize & 15);
                let mut at = at + 1;
                if member == LONG {
                    (member, at) = read_length(bytes, at);
                }
                if value == LONG {
                    (value, at) = read_length(bytes, at);
                }
                (member, value, at)
            }
            Tail::Nothing | Tail::Score => {
                let (len, at) = read_length(bytes, at);
                (len, if tail == Tail::Score { 8 } else { 0 }, at)
            }
        };
        Parts {
            member_at,
            tail_at: member_at + member_len,
            end: member_at + member_len + tail_len,
        }
    }
}

/// Returns the key's own deadline from the bytes of elements with deadlines.
pub(crate) fn own_deadline(bytes: &[u8]) -> Option<Tick> {
    match bytes[0] & HAS_OWN {
        0 => None,
        _ => read_deadline(bytes, 1),
    }
}

/// Returns the members and the data after them in bytes of elements without deadlines.
#[inline(always)]
pub(crate) fn elements_of(
    bytes: &[u8],
    tail: Tail,
) -> impl Iterator<Item = (&[u8], &[u8])> + use<'_> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= bytes.len() {
            return None;
        }
        let parts = Parts::of(bytes, at, tail);
        at = parts.end;
        let member = &bytes[parts.member_at..parts.tail_at];
        Some((member, &bytes[parts.tail_at..parts.end]))
    })
}

/// Returns the length of an element without a deadline.
fn element_bytes(member: &[u8], value: &[u8], tail: Tail) -> usize {
    let lengths = match tail {
        Tail::Value => {
            let own = |len: usize| if len < LONG { 0 } else { length_bytes(len) };
            1 + own(member.len()) + own(value.len())
        }
        Tail::Nothing | Tail::Score => length_bytes(member.len()),
    };
    lengths + member.len() + value.len()
}

/// Appends an element without a deadline.
pub(super) fn write_element(bytes: &mut Vec<u8>, member: &[u8], value: &[u8], tail: Tail) {
    if tail == Tail::Value {
        let short = |len: usize| len.min(LONG) as u8;
        bytes.push(short(member.len()) << 4 | short(value.len()));
        for len in [member.len(), value.len()] {
            if len >= LONG {
                write_length(bytes, len);
            }
        }
    } else {
        write_length(bytes, member.len());
    }
    bytes.extend_from_slice(member);
    bytes.extend_from_slice(value);
}

/// Elements in one byte array, with or without room for deadlines.
#[derive(Clone, Debug)]
pub(crate) struct PackedElements {
    bytes: Vec<u8>,
    tail: Tail,
    has_deadlines: bool,
}

/// One element of the byte array and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Element<'a> {
    /// Position of the element's first byte.
    pub at: usize,
    /// Position after its last byte.
    pub end: usize,
    /// Deadline of the element.
    pub deadline: Option<Tick>,
    /// Name of the element: a hash's field or a set's member.
    pub member: &'a [u8],
    /// Value or bytes of the score; empty in a set.
    pub tail: &'a [u8],
}

impl Element<'_> {
    /// Returns whether the element has not expired.
    #[inline]
    pub fn is_live(&self, now: Tick) -> bool {
        self.deadline.is_none_or(|deadline| now <= deadline)
    }
}

/// Returns the number of bytes that encode a length.
fn length_bytes(len: usize) -> usize {
    match len {
        0..=0x7f => 1,
        0x80..=0x3fff => 2,
        _ => (usize::BITS - len.leading_zeros()).div_ceil(7) as usize,
    }
}

fn write_length(bytes: &mut Vec<u8>, mut len: usize) {
    while len > 0x7f {
        bytes.push(len as u8 | 0x80);
        len >>= 7;
    }
    bytes.push(len as u8);
}

/// Reads a length. Returns it and the position after it.
#[inline(always)]
fn read_length(bytes: &[u8], at: usize) -> (usize, usize) {
    let first = bytes[at];
    if first < 0x80 {
        return (first as usize, at + 1);
    }
    let (mut len, mut shift, mut at) = (first as usize & 0x7f, 7, at + 1);
    while bytes[at] >= 0x80 {
        len |= (bytes[at] as usize & 0x7f) << shift;
        (shift, at) = (shift + 7, at + 1);
    }
    (len | (bytes[at] as usize) << shift, at + 1)
}

fn deadline_bytes(deadline: Option<Tick>) -> [u8; DEADLINE] {
    // 0 means no deadline; an instant of 0 is stored as 1, which has passed as well.
    let number = deadline.map_or(0, |deadline| deadline.min(Tick::MAX).0.max(1));
    let mut bytes = [0; DEADLINE];
    bytes.copy_from_slice(&number.to_le_bytes()[..DEADLINE]);
    bytes
}

#[inline(always)]
fn read_deadline(bytes: &[u8], at: usize) -> Option<Tick> {
    let mut word = [0; 8];
    word[..DEADLINE].copy_from_slice(&bytes[at..at + DEADLINE]);
    match u64::from_le_bytes(word) {
        0 => None,
        number => Some(Tick(number)),
    }
}

impl PackedElements {
    /// Creates a byte array without elements.
    pub fn new(tail: Tail) -> PackedElements {
        PackedElements::from_bytes(tail, false, Vec::new())
    }

    /// Restores the elements from their bytes.
    pub fn from_bytes(tail: Tail, has_deadlines: bool, bytes: Vec<u8>) -> PackedElements {
        debug_assert!(!has_deadlines || !bytes.is_empty());
        PackedElements {
            bytes,
            tail,
            has_deadlines,
        }
    }

    /// Returns the bytes. Together with [`PackedElements::has_deadlines`] they are enough to
    /// restore the elements.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the buffer that held the bytes, for reuse.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns whether the layout has a place for a deadline in every element.
    pub fn has_deadlines(&self) -> bool {
        self.has_deadlines
    }

    /// Returns the position of the first element.
    #[inline(always)]
    pub fn start(&self) -> usize {
        match (self.has_deadlines, self.bytes.first()) {
            (true, Some(&HAS_OWN)) => 1 + DEADLINE,
            (true, _) => 1,
            (false, _) => 0,
        }
    }

    /// Returns whether there is no element, not even an expired one.
    pub fn is_empty(&self) -> bool {
        self.start() >= self.bytes.len()
    }

    /// Returns the element at a position; `None` at the end.
    #[inline(always)]
    pub fn at(&self, at: usize) -> Option<Element<'_>> {
        if at >= self.bytes.len() {
            return None;
        }
        let (deadline, start) = if self.has_deadlines {
            (read_deadline(&self.bytes, at), at + DEADLINE)
        } else {
            (None, at)
        };
        let parts = Parts::of(&self.bytes, start, self.tail);
        Some(Element {
            at,
            end: parts.end,
            deadline,
            member: &self.bytes[parts.member_at..parts.tail_at],
            tail: &self.bytes[parts.tail_at..parts.end],
        })
    }

    /// Returns all elements in order, expired ones too.
    pub fn iter(&self) -> impl Iterator<Item = Element<'_>> {
        let mut at = self.start();
        std::iter::from_fn(move || {
            let element = self.at(at)?;
            at = element.end;
            Some(element)
        })
    }

    /// Returns the live elements in order.
    pub fn live(&self, now: Tick) -> impl Iterator<Item = Element<'_>> {
        self.iter().filter(move |element| element.is_live(now))
    }

    /// Returns the number of live elements.
    pub fn len(&self, now: Tick) -> usize {
        self.live(now).count()
    }

    /// Returns the element of a member, expired or not.
    #[inline]
    pub fn find(&self, member: &[u8]) -> Option<Element<'_>> {
        self.iter().find(|element| element.member == member)
    }

    /// Returns the element of a member, expired or not; the error is the number of elements.
    #[inline]
    pub fn find_or_count(&self, member: &[u8]) -> Result<Element<'_>, usize> {
        let mut count = 0;
        for element in self.iter() {
            if element.member == member {
                return Ok(element);
            }
            count += 1;
        }
        Err(count)
    }

    /// Passes a live element's deadline to `choose` and sets the deadline that it returns. Returns
    /// whether there is such an element.
    #[inline]
    pub fn update_deadline(
        &mut self,
        member: &[u8],
        now: Tick,
        choose: ChooseDeadline<'_>,
    ) -> bool {
        let found = self.find(member).filter(|element| element.is_live(now));
        let Some((at, old)) = found.map(|element| (element.at, element.deadline)) else {
            return false;
        };
        if let Some(deadline) = choose(old) {
            self.set_deadline(at, deadline);
            if old.is_some() && deadline.is_none() {
                self.settle();
            }
        }
        true
    }

    /// Inserts an element before the one at a position, or at [`PackedElements::end`].
    pub fn insert(&mut self, at: usize, member: &[u8], tail: &[u8]) {
        debug_assert!(at >= self.start() && at <= self.bytes.len());
        let deadline = if self.has_deadlines { DEADLINE } else { 0 };
        let room = deadline + element_bytes(member, tail, self.tail);
        let old_len = self.bytes.len();
        self.bytes.reserve(room);
        if self.has_deadlines {
            self.bytes.extend_from_slice(&[0; DEADLINE]);
        }
        write_element(&mut self.bytes, member, tail, self.tail);
        debug_assert_eq!(self.bytes.len(), old_len + room);
        self.bytes[at..].rotate_right(room);
    }

    /// Returns the position after the last element.
    pub fn end(&self) -> usize {
        self.bytes.len()
    }

    /// Appends an element.
    pub fn push(&mut self, member: &[u8], tail: &[u8]) {
        self.insert(self.end().max(self.start()), member, tail);
    }

    /// Sets the value or score of the element at a position.
    pub fn set_tail(&mut self, at: usize, tail: &[u8]) {
        let element = self.at(at).expect("an element begins here");
        let (end, old_len) = (element.end, element.tail.len());
        if old_len == tail.len() {
            self.bytes[end - old_len..end].copy_from_slice(tail);
            return;
        }
        let start = at + if self.has_deadlines { DEADLINE } else { 0 };
        let mut bytes = Vec::with_capacity(element.member.len() + tail.len() + 11);
        write_element(&mut bytes, element.member, tail, self.tail);
        self.bytes.splice(start..end, bytes);
        debug_assert_eq!(self.at(at).map(|element| element.tail), Some(tail));
    }

    /// Removes the element at a position. The element that followed it is at this position
    /// afterwards.
    pub fn remove(&mut self, at: usize) {
        debug_assert!(at >= self.start());
        let end = self.at(at).expect("an element begins here").end;
        self.bytes.drain(at..end);
    }

    /// Sets or removes the deadline of the element at a position. Returns the new position of the
    /// element, which changes when the first deadline is set, because that adds room for a deadline
    /// to every element.
    pub fn set_deadline(&mut self, at: usize, deadline: Option<Tick>) -> usize {
        let mut at = at;
        if !self.has_deadlines {
            if deadline.is_none() {
                return at;
            }
            at = self.make_deadlines(at);
        }
        self.bytes[at..at + DEADLINE].copy_from_slice(&deadline_bytes(deadline));
        at
    }

    /// Changes to the layout with room for deadlines. Returns the new position of the element at
    /// `at`.
    fn make_deadlines(&mut self, at: usize) -> usize {
        assert!(!self.has_deadlines);
        let mut bytes = Vec::with_capacity(self.bytes.len() * 3 / 2 + 8);
        bytes.push(0);
        let mut moved = at;
        for element in self.iter() {
            if element.at == at {
                moved = bytes.len();
            }
            bytes.extend_from_slice(&[0; DEADLINE]);
            bytes.extend_from_slice(&self.bytes[element.at..element.end]);
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(&bytes);
        self.has_deadlines = true;
        moved
    }

    /// Changes to the layout without room for deadlines if no element has one.
    pub fn settle(&mut self) {
        if !self.has_deadlines || self.iter().any(|element| element.deadline.is_some()) {
            return;
        }
        let (mut from, mut to) = (self.start(), 0);
        while let Some(element) = self.at(from) {
            let (start, end) = (element.at + DEADLINE, element.end);
            self.bytes.copy_within(start..end, to);
            (from, to) = (end, to + end - start);
        }
        self.bytes.truncate(to);
        self.has_deadlines = false;
    }

    /// Returns the key's own deadline if it is stored with the elements.
    pub fn own(&self) -> Option<Tick> {
        self.embedded_deadline().flatten()
    }
}

impl Representation for PackedElements {
    fn trim(&mut self) {
        trim_bytes(&mut self.bytes);
    }

    fn is_void(&self) -> bool {
        self.is_empty()
    }

    fn is_dead(&self, now: Tick) -> bool {
        self.live(now).next().is_none()
    }

    fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    fn deadlines(&self) -> Option<Deadlines> {
        self.has_deadlines.then(|| Deadlines {
            own: self.own(),
            nearest: self.iter().filter_map(|element| element.deadline).min(),
        })
    }

    fn embedded_deadline(&self) -> Option<Option<Tick>> {
        self.has_deadlines.then(|| own_deadline(&self.bytes))
    }

    fn set_own(&mut self, own: Option<Tick>) {
        assert!(self.has_deadlines);
        match (own, self.start() > 1) {
            (Some(_), true) => self.bytes[1..=DEADLINE].copy_from_slice(&deadline_bytes(own)),
            (Some(_), false) => {
                let start = [&[HAS_OWN], deadline_bytes(own).as_slice()].concat();
                self.bytes.splice(0..1, start);
            }
            (None, true) => {
                self.bytes.splice(0..=DEADLINE, [0]);
            }
            (None, false) => {}
        }
    }

    // Removes all expired elements in one pass, even if there are more of them than steps in the
    // budget, because a packed collection is small.
    fn purge(
        &mut self,
        now: Tick,
        budget: &mut Budget,
        expired: ReportExpired<'_>,
        names: Option<&ChangedElements>,
    ) {
        if !self.has_deadlines {
            return;
        }
        let (mut from, mut to) = (self.start(), self.start());
        while let Some(element) = self.at(from) {
            let (end, deadline) = (element.end, element.deadline);
            match deadline.filter(|deadline| now > *deadline) {
                Some(deadline) => {
                    budget.spend();
                    expired(deadline, 1);
                    if let Some(names) = names {
                        names.add(element.member);
                    }
                }
                None => {
                    self.bytes.copy_within(from..end, to);
                    to += end - from;
                }
            }
            from = end;
        }
        self.bytes.truncate(to);
        self.settle();
    }
}

#[cfg(test)]
mod tests;

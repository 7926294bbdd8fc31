//! Integers in one byte array, in ascending order.
//!
//! ```text
//! width 1: 2, 4 or 8 │ integers of that many bytes, little-endian, two's complement
//! ```
//!
//! All integers have the width of the widest one that was ever stored. Without integers there are
//! no bytes.

use crate::collection::{Representation, Scene, trim_bytes};
use std::ops::Range;

/// Integers in ascending order.
#[derive(Clone, Debug, Default)]
pub(super) struct Integers {
    bytes: Vec<u8>,
}

/// Decimal digits of an integer.
pub(super) struct Digits {
    text: [u8; 20],
    start: usize,
}

impl Digits {
    /// Returns the digits of an integer.
    pub fn of(number: i64) -> Digits {
        let (mut text, mut start) = ([0; 20], 20);
        let mut rest = number.unsigned_abs();
        loop {
            start -= 1;
            text[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            start -= 1;
            text[start] = b'-';
        }
        Digits { text, start }
    }

    /// Returns the digits as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text[self.start..]
    }
}

/// Parses an integer. Returns `None` unless the text is exactly the integer's decimal digits,
/// without leading zeros or a plus sign.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let number = std::str::from_utf8(text).ok()?.parse::<i64>().ok()?;
    (Digits::of(number).as_bytes() == text).then_some(number)
}

/// Returns the smallest width in bytes that can hold an integer: 2, 4 or 8.
fn width_of(number: i64) -> usize {
    match number {
        _ if i16::try_from(number).is_ok() => 2,
        _ if i32::try_from(number).is_ok() => 4,
        _ => 8,
    }
}

impl Integers {
    /// Restores the integers from what [`Integers::bytes`] returned.
    pub fn from_bytes(bytes: Vec<u8>) -> Integers {
        Integers { bytes }
    }

    /// Returns the encoded integers.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the buffer that held the bytes, for reuse.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    fn width(&self) -> usize {
        self.bytes.first().map_or(2, |&width| usize::from(width))
    }

    fn place(&self, index: usize) -> Range<usize> {
        let width = self.width();
        1 + index * width..1 + (index + 1) * width
    }

    /// Returns the number of integers.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.width()
    }

    /// Returns the integer at an index.
    pub fn get(&self, index: usize) -> i64 {
        debug_assert!(index < self.len());
        let bytes = &self.bytes[self.place(index)];
        let is_negative = bytes[bytes.len() - 1] >= 0x80;
        let mut word = [if is_negative { 0xff } else { 0 }; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        i64::from_le_bytes(word)
    }

    /// Returns all integers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = i64> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Returns the index of an integer; the error is the index at which it would be inserted.
    pub fn find(&self, number: i64) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            match self.get(middle).cmp(&number) {
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// Returns the index of a member given as text, if the member is an integer in the set.
    pub fn position(&self, member: &[u8]) -> Option<usize> {
        integer(member).and_then(|number| self.find(number).ok())
    }

    /// Returns whether one more integer may be packed.
    pub fn has_room(&self, scene: &Scene<'_>) -> bool {
        (self.len() as i64) < scene.limits.set_intset_entries()
    }

    /// Adds an integer. Returns false if it is present.
    pub fn insert(&mut self, number: i64) -> bool {
        let Err(index) = self.find(number) else {
            return false;
        };
        self.widen(width_of(number));
        let at = self.place(index).start;
        let word = number.to_le_bytes();
        let width = self.width();
        self.bytes.splice(at..at, word[..width].iter().copied());
        true
    }

    /// Widens all integers to at least `width` bytes.
    fn widen(&mut self, width: usize) {
        if self.bytes.is_empty() {
            self.bytes.push(width as u8);
        }
        if width <= self.width() {
            return;
        }
        let mut bytes = Vec::with_capacity(1 + (self.len() + 1) * width);
        bytes.push(width as u8);
        for number in self.iter() {
            bytes.extend_from_slice(&number.to_le_bytes()[..width]);
        }
        self.bytes = bytes;
    }

    /// Removes the integer at an index.
    pub fn remove(&mut self, index: usize) {
        debug_assert!(index < self.len());
        let place = self.place(index);
        self.bytes.drain(place);
        if self.bytes.len() == 1 {
            self.bytes.clear();
        }
    }
}

impl Representation for Integers {
    fn trim(&mut self) {
        trim_bytes(&mut self.bytes);
    }

    fn is_void(&self) -> bool {
        self.len() == 0
    }

    fn heap_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    fn check(&self) {
        assert!([2, 4, 8].contains(&self.width()));
        assert!(self.bytes.is_empty() || self.bytes.len() % self.width() == 1);
        assert!(self.iter().is_sorted_by(|a, b| a < b));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn only_canonical_digits_are_an_integer() {
        for number in [0, 1, -1, 42, i64::MAX, i64::MIN] {
            let text = number.to_string();
            assert_eq!(Digits::of(number).as_bytes(), text.as_bytes());
            assert_eq!(integer(text.as_bytes()), Some(number));
        }
        for text in [
            "",
            "-",
            "+1",
            "01",
            "-0",
            " 1",
            "1 ",
            "1.0",
            "9223372036854775808",
        ] {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
    }

    fn number() -> impl Strategy<Value = i64> {
        prop_oneof![
            -20..20i64,
            prop::sample::select(vec![
                i64::from(i16::MAX),
                i64::from(i16::MAX) + 1,
                i64::from(i16::MIN),
                i64::from(i32::MIN) - 1,
                i64::from(i32::MAX),
                i64::MIN,
                i64::MAX,
            ]),
            any::<i32>().prop_map(i64::from),
        ]
    }

    proptest! {
        #[test]
        fn integers_hold_what_an_ordered_set_holds(
            steps in prop::collection::vec((any::<bool>(), number()), 0..80),
        ) {
            let (mut integers, mut model) = (Integers::default(), BTreeSet::new());
            for (is_insert, number) in steps {
                if is_insert {
                    prop_assert_eq!(integers.insert(number), model.insert(number));
                } else {
                    let found = integers.find(number);
                    prop_assert_eq!(found.is_ok(), model.remove(&number));
                    if let Ok(index) = found {
                        integers.remove(index);
                    }
                }
                integers.check();
                prop_assert_eq!(integers.len(), model.len());
                prop_assert!(integers.iter().eq(model.iter().copied()));
                integers = Integers::from_bytes(integers.into_bytes());
            }
        }
    }
}

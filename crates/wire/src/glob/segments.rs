//! Matching of long patterns: each part between two `*` is searched in bounded time.
//!
//! The parts are searched from left to right, and each takes its first occurrence, because a later
//! one would leave less text for the parts after it. A part of literal bytes is searched in linear
//! time (Knuth, Morris and Pratt, SIAM J. Comput. 1977). A part with `?` or a class is tried at
//! each position if it is short, and otherwise searched with one bit per element (Baeza-Yates and
//! Gonnet, CACM 1992).

use super::{class, fold};

/// Maximum number of elements of a part that is tried at each position.
const SHORT: usize = 64;
/// Maximum number of 64-bit words that the search of one part may process.
const WORDS_MAX: usize = 1 << 24;

/// One element of a pattern, which matches one byte.
enum Element {
    /// A given byte.
    Byte(u8),
    /// Any byte.
    Any,
    /// A byte whose bit is set in the set of this index.
    Class(usize),
}

struct Pattern {
    elements: Vec<Element>,
    /// Sets of bytes, one bit per byte.
    sets: Vec<[u64; 4]>,
    /// For each `*` the number of elements before it, in ascending order.
    stars: Vec<usize>,
    ignore_case: bool,
}

/// Whether `text` ends with a match of `pattern` that begins at any position, as if a `*` preceded
/// the pattern.
pub(super) fn matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    let pattern = Pattern::parse(pattern, ignore_case);
    if pattern.elements.len() > text.len() {
        return false;
    }
    let (mut first, mut rest) = (0, text);
    for &star in &pattern.stars {
        match pattern.search(first..star, rest) {
            Some(end) => rest = &rest[end..],
            None => return false,
        }
        first = star;
    }
    // The last part must match at the end of the text.
    let last = first..pattern.elements.len();
    rest.len() >= last.len() && pattern.is_at(last.clone(), &rest[rest.len() - last.len()..])
}

impl Pattern {
    fn parse(pattern: &[u8], ignore_case: bool) -> Pattern {
        let mut parsed = Pattern {
            elements: Vec::new(),
            sets: Vec::new(),
            stars: Vec::new(),
            ignore_case,
        };
        let mut at = 0;
        while let Some(&byte) = pattern.get(at) {
            let (element, len) = match byte {
                b'*' => {
                    parsed.stars.push(parsed.elements.len());
                    at += 1;
                    continue;
                }
                b'?' => (Element::Any, 1),
                b'[' => parsed.parse_class(&pattern[at..]),
                b'\\' if at + 1 < pattern.len() => {
                    (Element::Byte(fold(pattern[at + 1], ignore_case)), 2)
                }
                other => (Element::Byte(fold(other, ignore_case)), 1),
            };
            parsed.elements.push(element);
            at += len;
        }
        parsed.stars.dedup();
        parsed
    }

    fn parse_class(&mut self, pattern: &[u8]) -> (Element, usize) {
        let ignore_case = self.ignore_case;
        let mut set = [0u64; 4];
        let (len, is_inverted) = class(pattern, |low, high| {
            let (low, high) = (fold(low, ignore_case), fold(high, ignore_case));
            for byte in low.min(high)..=low.max(high) {
                set[usize::from(byte) / 64] |= 1 << (byte % 64);
            }
        });
        if is_inverted {
            set = set.map(|word| !word);
        }
        self.sets.push(set);
        (Element::Class(self.sets.len() - 1), len)
    }

    /// Whether an element matches a byte that is folded already.
    fn is_match(&self, element: &Element, byte: u8) -> bool {
        match *element {
            Element::Byte(wanted) => wanted == byte,
            Element::Any => true,
            Element::Class(set) => self.sets[set][usize::from(byte) / 64] >> (byte % 64) & 1 == 1,
        }
    }

    /// Whether the elements of `part` match the first bytes of `text`.
    fn is_at(&self, part: std::ops::Range<usize>, text: &[u8]) -> bool {
        let mut pairs = self.elements[part].iter().zip(text);
        pairs.all(|(element, byte)| self.is_match(element, fold(*byte, self.ignore_case)))
    }

    /// Returns the end of the first occurrence of a part in `text`.
    fn search(&self, part: std::ops::Range<usize>, text: &[u8]) -> Option<usize> {
        let len = part.len();
        if len > text.len() {
            return None;
        }
        let elements = &self.elements[part.clone()];
        if len <= SHORT {
            let mut starts = 0..=text.len() - len;
            let start = starts.find(|start| self.is_at(part.clone(), &text[*start..]));
            return start.map(|start| start + len);
        }
        let bytes: Option<Vec<u8>> = elements
            .iter()
            .map(|element| match element {
                Element::Byte(byte) => Some(*byte),
                _ => None,
            })
            .collect();
        match bytes {
            Some(bytes) => self.search_literal(&bytes, text),
            None => self.search_bits(elements, text),
        }
    }

    fn search_literal(&self, wanted: &[u8], text: &[u8]) -> Option<usize> {
        // For each length matched so far, the length of the longest shorter match that the same
        // bytes end with.
        let mut shorter = vec![0u32; wanted.len() + 1];
        let mut matched = 0;
        for at in 1..wanted.len() {
            while matched > 0 && wanted[at] != wanted[matched] {
                matched = shorter[matched] as usize;
            }
            matched += usize::from(wanted[at] == wanted[matched]);
            shorter[at + 1] = matched as u32;
        }
        matched = 0;
        for (at, byte) in text.iter().enumerate() {
            let byte = fold(*byte, self.ignore_case);
            while matched > 0 && byte != wanted[matched] {
                matched = shorter[matched] as usize;
            }
            matched += usize::from(byte == wanted[matched]);
            if matched == wanted.len() {
                return Some(at + 1);
            }
        }
        None
    }

    fn search_bits(&self, elements: &[Element], text: &[u8]) -> Option<usize> {
        let words = elements.len().div_ceil(64);
        let rows_max = text.len().min(256) * elements.len() / 64;
        if words
            .saturating_mul(text.len())
            .saturating_add(rows_max * 16)
            > WORDS_MAX
        {
            return None;
        }
        // Row of a byte: one bit for each element that matches it.
        let mut rows: Vec<Vec<u64>> = vec![Vec::new(); 256];
        let mut state = vec![0u64; words];
        let last = elements.len() - 1;
        for (at, byte) in text.iter().enumerate() {
            let byte = fold(*byte, self.ignore_case);
            let row = &mut rows[usize::from(byte)];
            if row.is_empty() {
                row.resize(words, 0);
                for (i, element) in elements.iter().enumerate() {
                    row[i / 64] |= u64::from(self.is_match(element, byte)) << (i % 64);
                }
            }
            let mut carry = 1;
            for (word, row) in state.iter_mut().zip(row.iter()) {
                let next = *word >> 63;
                *word = (*word << 1 | carry) & row;
                carry = next;
            }
            if state[last / 64] >> (last % 64) & 1 == 1 {
                return Some(at + 1);
            }
        }
        None
    }
}

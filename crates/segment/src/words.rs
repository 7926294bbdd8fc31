//! Memory as words that any thread may read at any time, and bytes in them.
//!
//! A reader holds no lock and no count: while it copies a value, the segment may be given away and
//! written anew. In terms of the language that is a race unless every word is atomic; so every word is,
//! and is read and written relaxed, which on the processors of today is a plain load or store. What a
//! reader got is thrown away when the segment's generation has changed meanwhile (`heap.rs`).
//!
//! The cost against raw pointers: copies go eight bytes at a time instead of thirty-two, indices are compared
//! with the segment's length, and a segment's memory is zeroed when it is first taken. Small objects, for which
//! this engine is, wait for the caches far longer than for their few words. In return no line of this crate
//! can touch memory that is not its own.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes in a word: the unit in which segments are filled.
pub(crate) const WORD: usize = 8;
/// Words in a cache line.
pub(crate) const LINE: usize = 8;

/// Zeroed words that begin on a cache line.
#[derive(Debug)]
pub(crate) struct Words {
    cells: Box<[AtomicU64]>,
    start: u32,
    count: u32,
}

impl Words {
    pub(crate) fn zeroed(count: usize) -> Self {
        let cells: Box<[AtomicU64]> = (0..count + LINE - 1).map(|_| AtomicU64::new(0)).collect();
        // A number of words; where it cannot be told the lines are merely not aligned.
        let start = match cells.as_ptr().align_offset(LINE * WORD) {
            start @ 0..LINE => start as u32,
            _ => 0,
        };
        Words {
            cells,
            start,
            count: u32::try_from(count).expect("a segment has at most 2^20 words"),
        }
    }

    #[inline(always)]
    pub(crate) fn all(&self) -> &[AtomicU64] {
        &self.cells[self.start as usize..(self.start + self.count) as usize]
    }

    /// What they take of the heap.
    pub(crate) fn heap_bytes(count: usize) -> usize {
        (count + LINE - 1) * WORD
    }
}

/// The word of up to eight bytes, the first the lowest.
#[inline(always)]
pub(crate) fn word_of(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<WORD>() {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => {
            let mut chunk = [0; WORD];
            chunk[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(chunk)
        }
    }
}

/// Writes bytes one behind the other, whatever their boundaries.
pub(crate) struct Filler<'w> {
    words: std::slice::Iter<'w, AtomicU64>,
    /// Bytes that wait for their word to be full, and how many bits they are.
    pending: u64,
    bits: u32,
}

impl<'w> Filler<'w> {
    #[inline(always)]
    pub(crate) fn new(words: &'w [AtomicU64]) -> Self {
        Filler {
            words: words.iter(),
            pending: 0,
            bits: 0,
        }
    }

    /// Up to seven bytes.
    #[inline(always)]
    fn push_few(&mut self, word: u64, bits: u32) {
        debug_assert!(bits < 64);
        self.pending |= word << self.bits;
        self.bits += bits;
        if self.bits >= 64 {
            self.put(self.pending);
            self.bits -= 64;
            self.pending = match self.bits {
                0 => 0,
                rest => word >> (bits - rest),
            };
        }
    }

    #[inline(always)]
    fn put(&mut self, word: u64) {
        let cell = self.words.next().expect("the object was measured first");
        cell.store(word, Relaxed);
    }

    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let (chunks, rest) = bytes.as_chunks::<WORD>();
        match self.bits {
            0 => chunks
                .iter()
                .for_each(|chunk| self.put(u64::from_le_bytes(*chunk))),
            bits => chunks.iter().for_each(|chunk| {
                let word = u64::from_le_bytes(*chunk);
                self.put(self.pending | word << bits);
                self.pending = word >> (64 - bits);
            }),
        }
        self.push_few(word_of(rest), rest.len() as u32 * 8);
    }

    /// Ends the word that was begun.
    #[inline(always)]
    pub(crate) fn finish(mut self) {
        if self.bits > 0 {
            self.put(self.pending);
        }
    }

    /// Ends the word that was begun, and writes a whole one behind it.
    pub(crate) fn finish_with(mut self, word: u64) {
        if self.bits > 0 {
            self.put(self.pending);
        }
        self.put(word);
    }
}

/// Whether the bytes from number `from` on are these.
#[inline(always)]
pub(crate) fn equals(words: &[AtomicU64], from: usize, bytes: &[u8]) -> bool {
    let Some(words) = words.get(from / WORD..(from + bytes.len()).div_ceil(WORD)) else {
        return false;
    };
    let shift = (from % WORD) as u32 * 8;
    let head_len = bytes.len().min((WORD - from % WORD) % WORD);
    let (head, rest) = bytes.split_at(head_len);
    let words = if shift > 0 && head_len > 0 {
        let mask = low_mask(head_len) << shift;
        if (words[0].load(Relaxed) ^ word_of(head) << shift) & mask != 0 {
            return false;
        }
        &words[1..]
    } else {
        words
    };
    let (chunks, tail) = rest.as_chunks::<WORD>();
    let is_equal = chunks
        .iter()
        .zip(words)
        .all(|(chunk, word)| word.load(Relaxed) == u64::from_le_bytes(*chunk));
    if !is_equal || tail.is_empty() {
        return is_equal;
    }
    let last = words[chunks.len()].load(Relaxed);
    (last ^ word_of(tail)) & low_mask(tail.len()) == 0
}

/// The low `bytes` bytes of a word, of which there are fewer than eight.
#[inline(always)]
fn low_mask(bytes: usize) -> u64 {
    debug_assert!(bytes < WORD);
    (1 << (bytes * 8)) - 1
}

/// Appends `len` bytes from number `from` on; false, and nothing, where there are not so many.
#[inline]
pub(crate) fn append_to(out: &mut Vec<u8>, words: &[AtomicU64], from: usize, len: usize) -> bool {
    if words.len() * WORD < from + len {
        return false;
    }
    let begin = out.len();
    out.resize(begin + len, 0);
    read_to(&mut out[begin..], words, from).is_some()
}

/// Copies the bytes from number `from` on; `None` where there are not so many.
#[inline(always)]
pub(crate) fn read_to(out: &mut [u8], words: &[AtomicU64], from: usize) -> Option<()> {
    let words = words.get(from / WORD..(from + out.len()).div_ceil(WORD))?;
    let head_len = out.len().min((WORD - from % WORD) % WORD);
    let (head, rest) = out.split_at_mut(head_len);
    let words = if head_len > 0 {
        let word = words[0].load(Relaxed) >> (from % WORD * 8);
        head.copy_from_slice(&word.to_le_bytes()[..head_len]);
        &words[1..]
    } else {
        words
    };
    let (chunks, tail) = rest.as_chunks_mut::<WORD>();
    for (chunk, word) in chunks.iter_mut().zip(words) {
        *chunk = word.load(Relaxed).to_le_bytes();
    }
    if let Some(last) = words.get(chunks.len()) {
        let len = tail.len();
        tail.copy_from_slice(&last.load(Relaxed).to_le_bytes()[..len]);
    }
    Some(())
}

/// Copies words; both have the same length.
#[inline]
pub(crate) fn copy(from: &[AtomicU64], to: &[AtomicU64]) {
    debug_assert_eq!(from.len(), to.len());
    for (from, to) in from.iter().zip(to) {
        to.store(from.load(Relaxed), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_in_pieces_reads_as_one() {
        let source: Vec<u8> = (1..=200).collect();
        for first in 0..20 {
            for second in [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 64, 100] {
                let words = Words::zeroed(20);
                let mut filler = Filler::new(words.all());
                filler.push(&source[..first]);
                filler.push(&source[first..first + second]);
                filler.finish();
                let len = first + second;
                let mut out = vec![9];
                assert!(append_to(&mut out, words.all(), 0, len));
                assert_eq!(out[1..], source[..len]);
                out.clear();
                assert!(append_to(&mut out, words.all(), first, second));
                assert_eq!(out, source[first..len]);
                assert!(equals(words.all(), first, &out));
                if let Some(byte) = out.last_mut() {
                    *byte ^= 1;
                    assert!(!equals(words.all(), first, &out));
                }
                if let Some(byte) = out.first_mut() {
                    *byte ^= 2;
                    assert!(!equals(words.all(), first, &out));
                }
            }
        }
    }

    #[test]
    fn a_length_that_lies_reaches_no_further_than_the_segment() {
        let words = Words::zeroed(4);
        let mut out = vec![];
        assert!(!append_to(&mut out, words.all(), 0, 33));
        assert!(!append_to(&mut out, words.all(), 40, 1));
        assert!(!equals(words.all(), 30, b"abc"));
        assert!(out.is_empty());
    }
}

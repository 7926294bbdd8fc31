//! Memory as words that any thread may read at any time, and bytes in them.
//!
//! A reader holds no lock and no reference count: while it copies a value, the segment may be freed
//! and written again. To the language that is a data race unless every word is atomic. So every
//! word is, and is read and written relaxed, which on today's processors is a plain load or store.
//! The reader discards its copy if the segment was freed meanwhile (`heap.rs`).
//!
//! The cost compared with raw pointers: copies take eight bytes at a time instead of thirty-two,
//! indexes are checked against the memory's length, and a segment's memory is zeroed when it is
//! first taken. The small objects for which this engine is made wait far longer for the caches than
//! for their few words. In return no line of this crate can touch foreign memory.

use crate::sync::{AtomicU64, Ordering::Relaxed};

/// Size of a word in bytes. Segments are filled in words.
pub(crate) const WORD: usize = 8;
/// Number of words in a cache line.
pub(crate) const LINE: usize = 8;
/// A cache line, of memory or of the hash table.
pub(crate) type Line = [AtomicU64; LINE];
/// Number of words that are copied at once.
const BLOCK: usize = 4;

/// Returns up to eight bytes as a word, the first byte lowest. It uses loads that overlap instead
/// of a copy, because a copy of a length known only at run time is a function call.
#[inline(always)]
pub(crate) fn word_of(bytes: &[u8]) -> u64 {
    if let Some(chunk) = bytes.first_chunk::<WORD>() {
        return u64::from_le_bytes(*chunk);
    }
    if let (Some(low), Some(high)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let high = u64::from(u32::from_le_bytes(*high));
        return u64::from(u32::from_le_bytes(*low)) | high << ((bytes.len() - 4) * 8);
    }
    match *bytes {
        [a, b, c] => u64::from(a) | u64::from(b) << 8 | u64::from(c) << 16,
        [a, b] => u64::from(a) | u64::from(b) << 8,
        [a] => u64::from(a),
        _ => 0,
    }
}

/// Writer that appends bytes to words.
pub(crate) struct WordWriter<'w> {
    words: &'w [AtomicU64],
    /// Bytes that do not fill a word yet.
    pending: u64,
    /// Number of bits in `pending`, less than 64.
    bits: u32,
}

impl<'w> WordWriter<'w> {
    /// Creates a writer that begins with the first `len` bytes of `begin`, at most seven.
    #[inline(always)]
    pub(crate) fn new(words: &'w [AtomicU64], begin: u64, len: usize) -> Self {
        debug_assert!(len < WORD && begin >> (len * 8) == 0);
        WordWriter {
            words,
            pending: begin,
            bits: len as u32 * 8,
        }
    }

    #[inline(always)]
    fn put(&mut self, word: u64) {
        let (cell, rest) = self
            .words
            .split_first()
            .expect("the object was measured first");
        cell.store(word, Relaxed);
        self.words = rest;
    }

    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let mut bytes = bytes;
        if self.bits > 0 {
            let missing = WORD - self.bits as usize / 8;
            self.pending |= word_of(bytes) << self.bits;
            let Some(rest) = bytes.get(missing..) else {
                self.bits += bytes.len() as u32 * 8;
                return;
            };
            self.put(self.pending);
            bytes = rest;
        }
        let (chunks, tail) = bytes.as_chunks::<WORD>();
        let (cells, rest) = self.words.split_at(chunks.len());
        for (cell, chunk) in cells.iter().zip(chunks) {
            cell.store(u64::from_le_bytes(*chunk), Relaxed);
        }
        self.words = rest;
        self.bits = tail.len() as u32 * 8;
        self.pending = match bytes.last_chunk::<WORD>() {
            Some(_) if tail.is_empty() => 0,
            Some(last) => u64::from_le_bytes(*last) >> (64 - self.bits),
            None => word_of(tail),
        };
    }

    /// Writes the last word, which may be incomplete.
    #[inline(always)]
    pub(crate) fn finish(mut self) {
        if self.bits > 0 {
            self.put(self.pending);
        }
    }

    /// Writes the last word, which may be incomplete, and then a whole word.
    pub(crate) fn finish_with(mut self, word: u64) {
        if self.bits > 0 {
            self.put(self.pending);
        }
        self.put(word);
    }
}

/// Returns true if the bytes from index `FROM` on equal `bytes`. It is not inlined, because parts
/// of the key would occupy a reader's registers from the start.
#[inline(never)]
pub(crate) fn equals<const FROM: usize>(words: &[AtomicU64], bytes: &[u8]) -> bool {
    const { assert!(FROM < WORD) };
    let Some((head, rest)) = words.split_first() else {
        return false;
    };
    let (Some(first), Some(last)) = (bytes.first_chunk::<WORD>(), bytes.last_chunk::<WORD>())
    else {
        let words = words.get(..(FROM + bytes.len()).div_ceil(WORD));
        return words.is_some_and(|words| few(words, FROM, bytes.len()) == word_of(bytes));
    };
    // The first and the last word hold other bytes too. A loop with an early exit is not unrolled,
    // which would cost more than it saves for the few words of a key.
    let differs = head.load(Relaxed) ^ u64::from_le_bytes(*first) << (FROM * 8);
    let (chunks, tail) = bytes[WORD - FROM..].as_chunks::<WORD>();
    if differs >> (FROM * 8) != 0 || rest.len() < chunks.len() {
        return false;
    }
    let (body, rest) = rest.split_at(chunks.len());
    for (word, chunk) in body.iter().zip(chunks) {
        if word.load(Relaxed) != u64::from_le_bytes(*chunk) {
            return false;
        }
    }
    if tail.is_empty() {
        return true;
    }
    let above = (WORD - tail.len()) as u32 * 8;
    let differs = |word: &AtomicU64| word.load(Relaxed) ^ u64::from_le_bytes(*last) >> above;
    rest.first().is_some_and(|word| differs(word) << above == 0)
}

/// Returns fewer than eight bytes as a word. They may extend over two words.
#[inline(always)]
fn few(words: &[AtomicU64], from: usize, len: usize) -> u64 {
    debug_assert!(len < WORD);
    let shift = (from % WORD) as u32 * 8;
    let low = words.first().map_or(0, |word| word.load(Relaxed)) >> shift;
    let high = words.get(1).map_or(0, |word| word.load(Relaxed));
    // Two shifts, because a shift by all 64 bits would have no effect.
    (low | high << 1 << (63 - shift)) & ((1 << (len * 8)) - 1)
}

/// Appends `len` bytes beginning at index `from`. Returns false and appends nothing if there are
/// fewer.
///
/// Whole words are appended even where only a part is needed, and the excess is removed: this takes
/// a few stores instead of copies whose length is known only at run time, which are function calls.
/// Not inlined, because only then does it have enough registers.
#[inline(never)]
pub(crate) fn append_to(out: &mut Vec<u8>, words: &[AtomicU64], from: usize, len: usize) -> bool {
    let Some(words) = words.get(from / WORD..(from + len).div_ceil(WORD)) else {
        return false;
    };
    let Some((first, rest)) = words.split_first() else {
        return true;
    };
    let end = out.len() + len;
    out.reserve(len + WORD);
    let head_len = WORD - from % WORD;
    let head_end = out.len() + head_len;
    let head = first.load(Relaxed) >> (from % WORD * 8);
    out.extend_from_slice(&head.to_le_bytes());
    out.truncate(head_end);
    let (blocks, singles) = rest.as_chunks::<BLOCK>();
    for block in blocks {
        let mut bytes = [0; BLOCK * WORD];
        let (chunks, _) = bytes.as_chunks_mut::<WORD>();
        for (chunk, word) in chunks.iter_mut().zip(block) {
            *chunk = word.load(Relaxed).to_le_bytes();
        }
        out.extend_from_slice(&bytes);
    }
    for word in singles {
        out.extend_from_slice(&word.load(Relaxed).to_le_bytes());
    }
    out.truncate(end);
    true
}

/// Returns four bytes from index `from`; `None` if there are fewer.
#[inline(always)]
pub(crate) fn four_at(words: &[AtomicU64], from: usize) -> Option<u32> {
    let words = words.get(from / WORD..(from + 4).div_ceil(WORD))?;
    Some(few(words, from, 4) as u32)
}

/// Copies words to as many others.
#[inline]
pub(crate) fn copy(from: &[AtomicU64], to: &[AtomicU64]) {
    debug_assert_eq!(from.len(), to.len());
    for (from, to) in from.iter().zip(to) {
        to.store(from.load(Relaxed), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::stored::METADATA_BYTES;
    use super::*;
    use crate::sync::zeroed;

    #[test]
    fn bytes_written_in_pieces_are_read_as_one() {
        let source: Vec<u8> = (1..=200).collect();
        for first in 0..20 {
            for second in [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 64, 100] {
                let words = zeroed(20);
                let begin = first.min(second % WORD);
                let mut writer = WordWriter::new(&words, word_of(&source[..begin]), begin);
                writer.push(&source[begin..first]);
                writer.push(&source[first..first + second]);
                writer.finish();
                let len = first + second;
                let mut out = vec![9];
                assert!(append_to(&mut out, &words, 0, len));
                assert_eq!(out[1..], source[..len]);
                out.clear();
                assert!(append_to(&mut out, &words, first, second));
                assert_eq!(out, source[first..len]);
            }
        }
    }

    #[test]
    fn bytes_equal_only_themselves() {
        let source: Vec<u8> = (1..=if cfg!(miri) { 40 } else { 200 }).collect();
        for len in 0..=source.len() - METADATA_BYTES {
            let words = zeroed((METADATA_BYTES + len).div_ceil(WORD));
            let mut writer = WordWriter::new(&words, 0, 0);
            writer.push(&source[..METADATA_BYTES + len]);
            writer.finish();
            let mut key = source[METADATA_BYTES..METADATA_BYTES + len].to_vec();
            assert!(equals::<METADATA_BYTES>(&words, &key));
            for index in 0..len {
                key[index] ^= 0x80;
                assert!(!equals::<METADATA_BYTES>(&words, &key), "{index} of {len}");
                key[index] ^= 0x80;
            }
            let shorter = &words[..words.len() - 1];
            assert!(
                !equals::<METADATA_BYTES>(shorter, &key)
                    || METADATA_BYTES + len <= shorter.len() * WORD
            );
        }
    }

    #[test]
    fn a_wrong_length_does_not_read_past_the_segment() {
        let words = zeroed(4);
        let mut out = vec![];
        assert!(!append_to(&mut out, &words, 0, 33));
        assert!(!append_to(&mut out, &words, 40, 1));
        assert!(!equals::<METADATA_BYTES>(&words, &[0; 28]));
        assert!(!equals::<METADATA_BYTES>(&[], b""));
        assert!(out.is_empty());
    }
}

//! Sets of an object's chunks. Data chunks have the numbers 0 to K - 1, and parity chunks the
//! numbers K to K + P - 1.

use std::fmt;

/// Maximum number of chunks of an object: the number of bits in a word.
pub const CHUNKS_MAX: usize = 64;

/// A set of chunks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ChunkSet(u64);

impl ChunkSet {
    /// The empty set.
    pub const NONE: ChunkSet = ChunkSet(0);

    /// Returns the set of the chunks from `begin` to before `end`.
    pub fn between(begin: usize, end: usize) -> ChunkSet {
        assert!(end <= CHUNKS_MAX, "{end} is above {CHUNKS_MAX}");
        (begin..end).collect()
    }

    /// Returns true if `chunk` is in the set.
    pub fn has(self, chunk: usize) -> bool {
        chunk < CHUNKS_MAX && self.0 >> chunk & 1 == 1
    }

    /// Returns the number of chunks.
    pub fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns true if the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true if all chunks of `others` are in the set.
    pub fn has_all(self, others: ChunkSet) -> bool {
        others.0 & !self.0 == 0
    }

    /// Returns the union.
    #[must_use]
    pub fn or(self, others: ChunkSet) -> ChunkSet {
        ChunkSet(self.0 | others.0)
    }

    /// Returns the intersection.
    #[must_use]
    pub fn and(self, others: ChunkSet) -> ChunkSet {
        ChunkSet(self.0 & others.0)
    }

    /// Returns the set without the chunks of `others`.
    #[must_use]
    pub fn without(self, others: ChunkSet) -> ChunkSet {
        ChunkSet(self.0 & !others.0)
    }

    /// Adds a chunk.
    pub fn add(&mut self, chunk: usize) {
        assert!(chunk < CHUNKS_MAX, "{chunk} is not below {CHUNKS_MAX}");
        self.0 |= 1 << chunk;
    }

    /// Removes a chunk.
    pub fn remove(&mut self, chunk: usize) {
        assert!(chunk < CHUNKS_MAX, "{chunk} is not below {CHUNKS_MAX}");
        self.0 &= !(1 << chunk);
    }

    /// Returns the numbers of the chunks in ascending order.
    pub fn iter(self) -> impl Iterator<Item = usize> + Clone {
        (0..CHUNKS_MAX).filter(move |&chunk| self.has(chunk))
    }
}

impl FromIterator<usize> for ChunkSet {
    fn from_iter<I: IntoIterator<Item = usize>>(chunks: I) -> ChunkSet {
        let mut set = ChunkSet::NONE;
        chunks.into_iter().for_each(|chunk| set.add(chunk));
        set
    }
}

impl fmt::Debug for ChunkSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_operations_work_on_members() {
        let data = ChunkSet::between(0, 3);
        assert_eq!(format!("{data:?}"), "{0, 1, 2}");
        let mut some = ChunkSet::from_iter([1, 3, 63]);
        assert!(some.has(63));
        assert!(!some.has(64));
        assert_eq!(data.and(some), ChunkSet::from_iter([1]));
        assert_eq!(data.or(some).count(), 5);
        assert_eq!(data.without(some), ChunkSet::from_iter([0, 2]));
        assert!(data.has_all(ChunkSet::from_iter([0, 2])));
        assert!(!data.has_all(some));
        some.remove(63);
        assert_eq!(some.iter().collect::<Vec<_>>(), [1, 3]);
        assert!(ChunkSet::between(2, 2).is_empty());
        assert_eq!(ChunkSet::between(0, 64).count(), 64);
    }
}

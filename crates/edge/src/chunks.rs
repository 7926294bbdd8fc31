//! A set of an object's chunks, by their numbers: data chunks are 0 to K - 1, parity chunks K to K + P - 1.

use std::fmt;

/// The most chunks of an object: as many as a word has bits.
pub const CHUNKS_MAX: usize = 64;

/// A set of chunks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ChunkSet(u64);

impl ChunkSet {
    /// None.
    pub const NONE: ChunkSet = ChunkSet(0);

    /// Those from `begin` on and below `end`.
    pub fn between(begin: usize, end: usize) -> ChunkSet {
        assert!(end <= CHUNKS_MAX, "{end} is above {CHUNKS_MAX}");
        (begin..end).collect()
    }

    /// Whether `chunk` is one of them.
    pub fn has(self, chunk: usize) -> bool {
        chunk < CHUNKS_MAX && self.0 >> chunk & 1 == 1
    }

    /// How many they are.
    pub fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of `others` are among them.
    pub fn has_all(self, others: ChunkSet) -> bool {
        others.0 & !self.0 == 0
    }

    /// Those of either.
    #[must_use]
    pub fn or(self, others: ChunkSet) -> ChunkSet {
        ChunkSet(self.0 | others.0)
    }

    /// Those of both.
    #[must_use]
    pub fn and(self, others: ChunkSet) -> ChunkSet {
        ChunkSet(self.0 & others.0)
    }

    /// Those that are not among `others`.
    #[must_use]
    pub fn without(self, others: ChunkSet) -> ChunkSet {
        ChunkSet(self.0 & !others.0)
    }

    /// One more.
    pub fn add(&mut self, chunk: usize) {
        assert!(chunk < CHUNKS_MAX, "{chunk} is not below {CHUNKS_MAX}");
        self.0 |= 1 << chunk;
    }

    /// One less.
    pub fn remove(&mut self, chunk: usize) {
        assert!(chunk < CHUNKS_MAX, "{chunk} is not below {CHUNKS_MAX}");
        self.0 &= !(1 << chunk);
    }

    /// Their numbers, ascending.
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
    fn sets_are_sets() {
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

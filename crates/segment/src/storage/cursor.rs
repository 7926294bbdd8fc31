//! Reader of saved words, which come from a source that may be damaged.

/// Words that have not been read yet.
pub(super) struct SavedWords<'w>(&'w [u64]);

impl<'w> SavedWords<'w> {
    pub(super) fn new(words: &'w [u64]) -> Self {
        SavedWords(words)
    }

    /// Returns true if all words have been read.
    pub(super) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the next word.
    pub(super) fn next(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Returns the next word if it fits 32 bits.
    pub(super) fn small(&mut self) -> Option<u32> {
        u32::try_from(self.next()?).ok()
    }
}

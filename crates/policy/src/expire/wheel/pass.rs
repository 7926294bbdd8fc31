//! Progress of a [`sweep`](super::sweep) over the buckets.

use super::era::{Place, Tail};

/// Progress of the pass.
#[derive(Default)]
pub(super) struct Sweep {
    pub(super) pass: Pass,
    /// Bucket that the pass is working on, or the first that it has not processed yet.
    pub(super) cursor: u16,
    /// Value of `Pool::given_count` at the end of the last pass.
    pub(super) given_before: usize,
}

#[derive(Clone, Copy, Default)]
pub(super) enum Pass {
    #[default]
    None,
    Sift(Option<Sifted>),
    /// Packing. The value is the last chunk that was read in the bucket at the cursor.
    Pack(Option<u32>),
}

/// Progress of sifting within the bucket at the cursor.
#[derive(Clone, Copy)]
pub(super) struct Sifted {
    /// Chunk that is being read. The next field is its next word, or 0 if no word was read yet.
    pub(super) read: u32,
    pub(super) index: u32,
    /// Last chunk that was written, and the number of its free words.
    pub(super) written: Option<Tail>,
}

impl Sweep {
    /// Discards the pass's position within a bucket, because that bucket is being drained.
    #[inline]
    pub(super) fn leave(&mut self, place: Place) {
        if self.cursor != place.0 {
            return;
        }
        match &mut self.pass {
            Pass::None => {}
            Pass::Sift(sifted) => *sifted = None,
            Pass::Pack(before) => *before = None,
        }
    }
}

//! How far a [`sweep`](super::sweep) over the buckets has come.

use super::era::{Place, Tail};

/// How far the pass has come.
#[derive(Default)]
pub(super) struct Sweep {
    pub(super) pass: Pass,
    /// The bucket that is worked on, or the first that was not looked at yet.
    pub(super) cursor: u16,
    /// What `Pool::given_count` told at the end of the last pass.
    pub(super) given_before: usize,
}

#[derive(Clone, Copy, Default)]
pub(super) enum Pass {
    #[default]
    None,
    Sift(Option<Sifted>),
    /// With the last chunk that was looked at in the bucket at the cursor.
    Pack(Option<u32>),
}

/// How far sifting has come within the bucket at the cursor.
#[derive(Clone, Copy)]
pub(super) struct Sifted {
    /// The chunk that is read, and its next word; 0 when that chunk was not begun.
    pub(super) read: u32,
    pub(super) index: u32,
    /// The last chunk that was written, and the words it has left.
    pub(super) written: Option<Tail>,
}

impl Sweep {
    /// The bucket is being drained: what the pass knows of its chunks is void.
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

//! Reasons of recent removals in one shard, from which the cause of a miss is known.
//!
//! A table of fixed size, in which the hash of a key selects one cell. The cell holds 29 other bits
//! of the hash and the reason of the last removal. A later removal of another key may overwrite it.
//! So after `r` removals, a shard still knows the reason of a removal with a probability of about
//! e^(−r / 2,048); otherwise the miss counts as one of a key that was never stored. A key that was
//! never stored counts as removed with a probability of at most 2^−29.

/// Number of cells: a power of two.
const CELLS: usize = 2048;
/// Number of bits of a cell for the reason. A cell without one is empty.
const REASON_BITS: u32 = 3;

/// Reason why a key is absent. The values are indices of [`super::MISS_CAUSES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// It was never stored, or the reason is no longer known.
    Unknown,
    /// It has expired.
    Expired,
    /// It was evicted.
    Evicted,
    /// A command has deleted it.
    Deleted,
    /// One of its tags was invalidated.
    Invalidated,
}

const REASONS: [Gone; 5] = [
    Gone::Unknown,
    Gone::Expired,
    Gone::Evicted,
    Gone::Deleted,
    Gone::Invalidated,
];

/// Reasons of recent removals.
pub(super) struct Recent(Box<[u32; CELLS]>);

/// Returns the cell of a key, and its bits of the hash in their place. The bits are not those that
/// select the shard.
fn place(db: u8, hash: u64) -> (usize, u32) {
    let cell = (hash >> 20) as usize + usize::from(db);
    let bits = (hash >> 32) as u32 ^ u32::from(db) << REASON_BITS;
    (cell % CELLS, bits & (!0 << REASON_BITS))
}

impl Recent {
    pub fn new() -> Recent {
        Recent(Box::new([0; CELLS]))
    }

    /// Notes that a key was removed.
    pub fn note(&mut self, db: u8, hash: u64, gone: Gone) {
        let (cell, bits) = place(db, hash);
        self.0[cell] = bits | gone as u32;
    }

    /// Returns why an absent key is absent.
    pub fn reason(&self, db: u8, hash: u64) -> Gone {
        let (cell, bits) = place(db, hash);
        let held = self.0[cell];
        let reason = held & !(!0 << REASON_BITS);
        match held ^ reason == bits {
            true => REASONS[reason as usize],
            false => Gone::Unknown,
        }
    }

    /// Returns the number of bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> u64 {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    #[test]
    fn the_last_reason_of_a_key_is_returned() {
        let mut recent = Recent::new();
        assert_eq!(recent.reason(0, 0), Gone::Unknown);
        for gone in REASONS {
            recent.note(1, hash(7), gone);
            assert_eq!(recent.reason(1, hash(7)), gone);
        }
        assert_eq!(recent.reason(2, hash(7)), Gone::Unknown);
        assert_eq!(recent.bytes(), 8192);
    }

    #[test]
    fn reasons_are_forgotten_as_the_module_text_says_and_seldom_invented() {
        let mut recent = Recent::new();
        for number in 0..20_000 {
            recent.note(0, hash(number), Gone::Evicted);
        }
        // Of the last 2,048 removals, a share of 1 − 1/e is known: the mean of e^(−r / 2,048).
        let known = |range: std::ops::Range<u64>| {
            let known = range.filter(|number| recent.reason(0, hash(*number)) == Gone::Evicted);
            known.count()
        };
        assert!((1_200..1_400).contains(&known(20_000 - 2_048..20_000)));
        assert_eq!(known(100_000..200_000), 0);
    }
}

//! Bits that memcached commands store with an object.
//!
//! ```text
//! is stale 1 | has a winner 1 | is fetched 1 | has a chosen cas number after its value 1
//! ```

const IS_STALE: u8 = 1;
const HAS_WINNER: u8 = 1 << 1;
const IS_FETCHED: u8 = 1 << 2;
const HAS_CAS: u8 = 1 << 3;

const _: () = assert!(HAS_CAS <= segment::MARKS_MAX);

/// Marks of an object, decoded from its metadata bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The item is stale, and replies say so.
    pub is_stale: bool,
    /// A client has won the right to refill the item.
    pub has_winner: bool,
    /// The item was fetched since it was stored.
    pub is_fetched: bool,
    /// The stored bytes end with a CAS number chosen by a client.
    pub(super) has_cas: bool,
}

impl Marks {
    /// Creates marks without a client-chosen CAS number.
    #[inline]
    pub fn new(is_stale: bool, has_winner: bool, is_fetched: bool) -> Marks {
        Marks {
            is_stale,
            has_winner,
            is_fetched,
            has_cas: false,
        }
    }

    /// Whether a client has chosen the CAS number.
    pub fn has_cas(self) -> bool {
        self.has_cas
    }

    /// Decodes the marks from an object's metadata bits.
    #[inline]
    pub fn of(bits: u8) -> Marks {
        Marks {
            is_stale: bits & IS_STALE != 0,
            has_winner: bits & HAS_WINNER != 0,
            is_fetched: bits & IS_FETCHED != 0,
            has_cas: bits & HAS_CAS != 0,
        }
    }

    /// Encodes the marks as an object's metadata bits. `has_cas` is true if a client-chosen CAS
    /// number is stored after the value.
    #[inline]
    pub fn bits(self, has_cas: bool) -> u8 {
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        bit(self.is_stale, IS_STALE)
            | bit(self.has_winner, HAS_WINNER)
            | bit(self.is_fetched, IS_FETCHED)
            | bit(has_cas, HAS_CAS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_read_as_they_were_written() {
        for bits in 0..16 {
            let marks = Marks::of(bits);
            assert_eq!(marks.bits(marks.has_cas), bits);
        }
    }
}

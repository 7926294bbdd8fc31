//! The bits that memcached's protocol keeps with an object.
//!
//! ```text
//! is stale 1 | has a winner 1 | is fetched 1 | has a cas number of a client's choice behind its value 1
//! ```

const IS_STALE: u8 = 1;
const HAS_WINNER: u8 = 1 << 1;
const IS_FETCHED: u8 = 1 << 2;
const HAS_CAS: u8 = 1 << 3;

const _: () = assert!(HAS_CAS <= segment::MARKS_MAX);

/// See the module text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// It is out of date, and served as such.
    pub is_stale: bool,
    /// A client has been told to fetch it anew.
    pub has_winner: bool,
    /// It has been asked for since it was stored.
    pub is_fetched: bool,
    /// The last bytes of what is stored are its cas number.
    pub(super) has_cas: bool,
}

impl Marks {
    /// These, and no cas number.
    #[inline]
    pub fn new(is_stale: bool, has_winner: bool, is_fetched: bool) -> Marks {
        Marks {
            is_stale,
            has_winner,
            is_fetched,
            has_cas: false,
        }
    }

    /// Whether a client has chosen the cas number.
    pub fn has_cas(self) -> bool {
        self.has_cas
    }

    /// From an object's bits.
    #[inline]
    pub fn of(bits: u8) -> Marks {
        Marks {
            is_stale: bits & IS_STALE != 0,
            has_winner: bits & HAS_WINNER != 0,
            is_fetched: bits & IS_FETCHED != 0,
            has_cas: bits & HAS_CAS != 0,
        }
    }

    /// An object's bits; whether a cas number stands behind the value is told by who writes that.
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

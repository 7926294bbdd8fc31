//! Slots of keys in the cluster protocol: CRC16 of the key, or of its hash tag, modulo 16,384.

/// Number of slots.
pub const SLOTS: u16 = 16_384;

/// Generator of the checksum without its highest term (CRC-16/XMODEM).
const POLYNOMIAL: u16 = 0x1021;

/// Bytes of a word, in which the checksum is computed.
const WORD: usize = 8;

/// Checksums of each byte followed by a number of zero bytes, from 0 to 7, in the lower half. The
/// checksum is linear, so that the sum of a word is the sum (exclusive or) of its bytes, which do
/// not depend on each other: slicing by eight, by M. Kounavis and F. Berry, "A Systematic Approach
/// to Building High Performance Software-Based CRC Generators", ISCC 2005. The upper half of `{`
/// has a bit for each number of zero bytes, so that a sum shows whether a byte was `{`.
const TABLES: [[u32; 256]; WORD] = {
    let mut tables = [[0; 256]; WORD];
    let mut byte = 0;
    while byte < 256 {
        let (mut sum, mut zeros) = ((byte as u16) << 8, 0);
        while zeros < WORD {
            let mut bit = 0;
            while bit < 8 {
                let carry = if sum & 0x8000 != 0 { POLYNOMIAL } else { 0 };
                sum = (sum << 1) ^ carry;
                bit += 1;
            }
            let brace = (byte == b'{' as usize) as u32;
            tables[zeros][byte] = sum as u32 | brace << (16 + zeros);
            zeros += 1;
        }
        byte += 1;
    }
    tables
};

/// Returns the slot of a key.
///
/// ```
/// use wire::slot::slot;
/// assert_eq!(slot(b"{user:1}:name"), slot(b"user:1"));
/// ```
#[inline]
pub fn slot(key: &[u8]) -> u16 {
    let sum = match sum(key) {
        (sum, false) => sum,
        (_, true) => sum(tag(key)).0,
    };
    sum % SLOTS
}

/// Returns the checksum of a key, and whether the key contains `{`.
#[inline]
fn sum(key: &[u8]) -> (u16, bool) {
    let (head, words) = key.as_rchunks::<WORD>();
    let bytes = head.iter().rev().zip(&TABLES);
    let mut sum = bytes.fold(0, |sum, (byte, table)| sum ^ table[usize::from(*byte)]);
    let mut all = sum;
    for word in words {
        let own = (0..WORD).fold(0, |sum, at| sum ^ of_byte(at, word[at]));
        all |= own;
        // The sum before is the sum of a word that begins with its two bytes.
        let [first, second] = (sum as u16).to_be_bytes();
        sum = own ^ of_byte(0, first) ^ of_byte(1, second);
    }
    (sum as u16, all >> 16 != 0)
}

/// Returns the entry for a byte of a word.
#[inline]
fn of_byte(at: usize, byte: u8) -> u32 {
    TABLES[WORD - 1 - at][usize::from(byte)]
}

/// Returns the slot of all keys that a pattern of SORT forms; `None` if they may be in several: the
/// first `*` is not behind a hash tag.
pub fn slot_of_pattern(pattern: &[u8]) -> Option<u16> {
    let star = pattern.iter().position(|byte| *byte == b'*');
    let fixed = star.map_or(pattern, |star| &pattern[..star]);
    let has_tag = tag(fixed).len() < fixed.len();
    (star.is_none() || has_tag).then(|| slot(fixed))
}

/// Returns the part of a key that decides its slot: the text between the first `{` and the first
/// `}` behind it, or the whole key if there is none or it is empty.
fn tag(key: &[u8]) -> &[u8] {
    let position = |bytes: &[u8], wanted: u8| bytes.iter().position(|byte| *byte == wanted);
    let Some(open) = position(key, b'{') else {
        return key;
    };
    let rest = &key[open + 1..];
    match position(rest, b'}') {
        None | Some(0) => key,
        Some(close) => &rest[..close],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The checksum bit by bit, as its definition has it.
    fn plain_sum(bytes: &[u8]) -> u16 {
        bytes.iter().fold(0, |sum, byte| {
            (0..8).fold(sum ^ u16::from(*byte) << 8, |sum: u16, _| {
                let carry = if sum & 0x8000 != 0 { POLYNOMIAL } else { 0 };
                (sum << 1) ^ carry
            })
        })
    }

    proptest! {
        #[test]
        fn the_sum_by_words_is_the_sum_by_bits(key in prop::collection::vec(any::<u8>(), 0..60)) {
            prop_assert_eq!(sum(&key), (plain_sum(&key), key.contains(&b'{')));
        }

        #[test]
        fn the_slot_is_that_of_the_tag(key in "[az{}|]{0,20}") {
            prop_assert_eq!(slot(key.as_bytes()), plain_sum(tag(key.as_bytes())) % SLOTS);
        }
    }

    /// The first one is the check value of the checksum, the others are replies of redis-server.
    #[test]
    fn slots_are_those_of_redis() {
        for (key, expected) in [
            ("123456789", 0x31c3),
            ("", 0),
            ("a", 15_495),
            ("foo", 12_182),
            ("bar", 5_061),
        ] {
            assert_eq!(slot(key.as_bytes()), expected % SLOTS, "{key}");
        }
    }

    #[test]
    fn a_pattern_has_a_slot_if_its_tag_comes_before_the_star() {
        for (pattern, expected) in [
            ("weight:{a}:*", Some(slot(b"a"))),
            ("{a}*->field", Some(slot(b"a"))),
            ("key", Some(slot(b"key"))),
            ("weight:*", None),
            ("*{a}", None),
            ("{*}", None),
            ("{}*", None),
            ("{a*}", None),
        ] {
            assert_eq!(slot_of_pattern(pattern.as_bytes()), expected, "{pattern}");
        }
    }

    #[test]
    fn a_hash_tag_decides_the_slot() {
        for (key, tag) in [
            ("{a}b", "a"),
            ("b{a}", "a"),
            ("x{a}y{b}", "a"),
            ("x{{a}}", "{a"),
            ("{}a", "{}a"),
            ("x{}{a}", "x{}{a}"),
            ("{a", "{a"),
            ("}a{", "}a{"),
            ("}{a}", "a"),
        ] {
            assert_eq!(super::tag(key.as_bytes()), tag.as_bytes(), "{key}");
        }
    }
}

//! Slots of keys in the cluster protocol: CRC16 of the key, or of its hash tag, modulo 16,384.

/// Number of slots.
pub const SLOTS: u16 = 16_384;

/// Generator of the checksum without its highest term (CRC-16/XMODEM).
const POLYNOMIAL: u16 = 0x1021;

/// Checksum of each byte alone.
const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let mut sum = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            let carry = if sum & 0x8000 != 0 { POLYNOMIAL } else { 0 };
            sum = (sum << 1) ^ carry;
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
};

/// Returns the slot of a key.
///
/// ```
/// use wire::slot::slot;
/// assert_eq!(slot(b"{user:1}:name"), slot(b"user:1"));
/// ```
pub fn slot(key: &[u8]) -> u16 {
    let sum = tag(key).iter().fold(0u16, |sum, byte| {
        (sum << 8) ^ TABLE[usize::from((sum >> 8) as u8 ^ byte)]
    });
    sum % SLOTS
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

//! Hash of keys that are text: XXH64 with seed 0.
//!
//! Source: Yann Collet, "xxHash fast digest algorithm", version 0.1.1,
//! <https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md>. It is a published function, so
//! that other tools can compute the same keys.

const PRIMES: [u64; 5] = [
    0x9E37_79B1_85EB_CA87,
    0xC2B2_AE3D_27D4_EB4F,
    0x1656_67B1_9E37_79F9,
    0x85EB_CA77_C2B2_AE63,
    0x27D4_EB2F_1656_67C5,
];

/// Returns the key of an object whose trace has a text for it: XXH64 of the bytes, with seed 0.
///
/// Readers call it for anything but a decimal number below 2^64, which is its own key. Among n
/// texts two share a key with a probability of about n² / 2^65: 0.03 % for 100 million.
///
/// ```
/// assert_eq!(trace::key_of_text(b"abc"), 0x44BC_2CF5_AD77_0999);
/// ```
pub fn key_of_text(text: &[u8]) -> u64 {
    let (stripes, rest) = text.as_chunks::<32>();
    let mut hash = if stripes.is_empty() {
        PRIMES[4]
    } else {
        hash_stripes(stripes)
    };
    hash = hash.wrapping_add(text.len() as u64);
    let (words, rest) = rest.as_chunks::<8>();
    for word in words {
        hash ^= round(0, u64::from_le_bytes(*word));
        hash = hash.rotate_left(27).wrapping_mul(PRIMES[0]);
        hash = hash.wrapping_add(PRIMES[3]);
    }
    let (halves, rest) = rest.as_chunks::<4>();
    for half in halves {
        hash ^= u64::from(u32::from_le_bytes(*half)).wrapping_mul(PRIMES[0]);
        hash = hash.rotate_left(23).wrapping_mul(PRIMES[1]);
        hash = hash.wrapping_add(PRIMES[2]);
    }
    for byte in rest {
        hash ^= u64::from(*byte).wrapping_mul(PRIMES[4]);
        hash = hash.rotate_left(11).wrapping_mul(PRIMES[0]);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(PRIMES[1]);
    hash = (hash ^ (hash >> 29)).wrapping_mul(PRIMES[2]);
    hash ^ (hash >> 32)
}

/// Hashes stripes of 32 bytes: four sums, each over every fourth word, and their combination.
fn hash_stripes(stripes: &[[u8; 32]]) -> u64 {
    let mut sums = [
        PRIMES[0].wrapping_add(PRIMES[1]),
        PRIMES[1],
        0,
        0u64.wrapping_sub(PRIMES[0]),
    ];
    for stripe in stripes {
        for (sum, word) in sums.iter_mut().zip(stripe.as_chunks::<8>().0) {
            *sum = round(*sum, u64::from_le_bytes(*word));
        }
    }
    let turned = sums.iter().zip([1, 7, 12, 18]);
    let start = turned.fold(0u64, |all, (sum, turn)| {
        all.wrapping_add(sum.rotate_left(turn))
    });
    sums.iter().fold(start, |all, sum| {
        (all ^ round(0, *sum))
            .wrapping_mul(PRIMES[0])
            .wrapping_add(PRIMES[3])
    })
}

#[inline]
fn round(sum: u64, word: u64) -> u64 {
    let sum = sum.wrapping_add(word.wrapping_mul(PRIMES[1]));
    sum.rotate_left(31).wrapping_mul(PRIMES[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_hashes_are_reproduced() {
        let cases: [(&[u8], u64); 4] = [
            (b"", 0xEF46_DB37_51D8_E999),
            (b"a", 0xD24E_C4F1_A98C_6E5B),
            (b"abc", 0x44BC_2CF5_AD77_0999),
            (
                b"Nobody inspects the spammish repetition",
                0xFBCE_A83C_8A37_8BF1,
            ),
        ];
        for (text, hash) in cases {
            assert_eq!(key_of_text(text), hash, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn texts_of_different_lengths_have_different_keys() {
        let text = [7u8; 96];
        let mut keys: Vec<u64> = (0..=96).map(|len| key_of_text(&text[..len])).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 97);
    }
}

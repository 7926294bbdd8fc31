//! The hash of keys: 64 bits, by one multiplication for each sixteen bytes, under a secret.
//!
//! A product of 64 by 64 bits whose halves are combined by exclusive or is the core of several
//! well-known hashes. It is no cipher: it resists attackers without knowledge of the secret. They
//! see no hashes here and could detect collisions by timing alone. A collision gains them little,
//! because a chain has 16 lines at most, and an object that does not fit replaces another of the
//! same chain: no request becomes long, and a client that writes that much can evict other objects
//! anyway. So a hash for tables that may degrade to lists costs more than it gives: SipHash-1-3
//! takes 141 instructions for a key of 16 bytes, this one about 25, of some 500 of a whole get.

use super::words::{WORD, word_of};
use policy::parts::chance::Chance;

/// Number of bytes that one multiplication processes.
const BLOCK: usize = 2 * WORD;

/// A hash function with its secret.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyHash {
    secret: [u64; 4],
}

/// Returns the product of two words, its halves combined into 64 bits by exclusive or.
#[inline(always)]
fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Returns the two words of a block.
#[inline(always)]
fn halves(block: &[u8; BLOCK]) -> (u64, u64) {
    let all = u128::from_le_bytes(*block);
    (all as u64, (all >> 64) as u64)
}

impl KeyHash {
    pub(crate) fn new(secret: [u64; 2]) -> KeyHash {
        // Expands the secret to words of which about half the bits are set, even if the secret has
        // few.
        let [mut one, mut other] = secret.map(Chance::new);
        KeyHash {
            secret: [(); 4].map(|()| one.bits() ^ other.bits().rotate_left(32)),
        }
    }

    #[inline]
    pub(crate) fn of(&self, key: &[u8]) -> u64 {
        let [begin, mask, last_mask, last_factor] = self.secret;
        // The length distinguishes keys whose words are the same after padding or overlap.
        let mut state = begin ^ key.len() as u64;
        let (low, high) = match (key.first_chunk::<WORD>(), key.last_chunk::<WORD>()) {
            (Some(_), Some(_)) if key.len() > BLOCK => {
                let (blocks, _) = key[..key.len() - 1].as_chunks::<BLOCK>();
                for block in blocks {
                    let (low, high) = halves(block);
                    state = folded(low ^ mask, high ^ state);
                }
                key.last_chunk().map_or((0, 0), halves)
            }
            (Some(low), Some(high)) => (u64::from_le_bytes(*low), u64::from_le_bytes(*high)),
            _ => (word_of(key), 0),
        };
        state = folded(low ^ mask, high ^ state);
        folded(state ^ last_mask, last_factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::parts::chance::scramble;
    use std::collections::HashSet;

    const KEYS: u64 = if cfg!(miri) { 50 } else { 60_000 };

    /// Returns typical key names: numbers, decimal or binary, after a long or a short prefix.
    fn names() -> impl Iterator<Item = Vec<u8>> {
        (0..KEYS).flat_map(|number| {
            [
                number.to_string().into_bytes(),
                [b"key:0000".as_slice(), &number.to_be_bytes()].concat(),
                format!("user:{number:012}:profile").into_bytes(),
                format!("{number}/{}", "x".repeat(number as usize % 90)).into_bytes(),
            ]
        })
    }

    /// The lowest bits choose a chain and the highest are the tag: both must be distributed as
    /// evenly as random bits.
    #[test]
    fn hashes_of_names_are_evenly_distributed() {
        for secret in [[0, 0], [1, 0], [1, 2], [u64::MAX, 1 << 63]] {
            let hash = KeyHash::new(secret);
            let mut counts = [[0u32; 1024]; 4];
            let mut seen = HashSet::new();
            let mut all = 0u32;
            for name in names() {
                let hash = hash.of(&name);
                assert!(seen.insert(hash), "{} collides", name.escape_ascii());
                for (counts, shift) in counts.iter_mut().zip([0, 10, 42, 54]) {
                    counts[(hash >> shift) as usize % 1024] += 1;
                }
                all += 1;
            }
            let mean = f64::from(all) / 1024.0;
            for counts in counts {
                let chi: f64 = counts
                    .iter()
                    .map(|&count| (f64::from(count) - mean).powi(2) / mean)
                    .sum();
                // 1,023 degrees of freedom: six standard deviations of 45.
                assert!((chi - 1_023.0).abs() < 6.0 * 45.2, "{chi}");
            }
        }
    }

    /// A changed bit of a key changes half of the bits of the hash, wherever it stands.
    #[test]
    fn each_bit_of_a_key_changes_the_hash() {
        let hash = KeyHash::new([7, 8]);
        for len in [1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 100, 255] {
            let mut key: Vec<u8> = (0..len).map(|at| scramble(at) as u8).collect();
            let before = hash.of(&key);
            let mut changed = 0;
            for at in 0..key.len() {
                for bit in 0..8 {
                    key[at] ^= 1 << bit;
                    let bits = (hash.of(&key) ^ before).count_ones();
                    assert!(bits >= 8, "{bits} bits by {bit} of {at} of {len}");
                    changed += bits;
                    key[at] ^= 1 << bit;
                }
            }
            let mean = f64::from(changed) / (key.len() * 8) as f64;
            assert!(
                (mean - 32.0).abs() < 8.0 / (key.len() as f64).sqrt(),
                "{mean}"
            );
        }
    }

    #[test]
    fn keys_that_are_padded_to_the_same_words_have_different_hashes() {
        let hash = KeyHash::new([1, 2]);
        let zeros = [0; 255];
        let hashes: HashSet<u64> = (0..=255).map(|len| hash.of(&zeros[..len])).collect();
        assert_eq!(hashes.len(), 256);
        let other = KeyHash::new([1, 3]);
        assert_ne!(hash.of(b"name"), other.of(b"name"));
    }
}

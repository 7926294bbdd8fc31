//! Checksums of sub-chunks.
//!
//! The checksum is 64-bit XXH3, seeded with the position of the bytes. Changed bytes therefore pass
//! with a probability of 2^-64, and so do correct bytes at a wrong position. It does not protect
//! against deliberate forgery. The usual CRC-32 detects any three changed bits in a 64 KiB
//! sub-chunk, and passes other changes with a probability of 2^-32. Because a coded read computes
//! the checksum of all bytes, its speed matters: `cargo bench -p mayfly-cache-edge -- code`.
//!
//! Source: Y. Collet, *XXH3*, the xxHash library 0.8, 2020.

use crate::ring::mix;
use twox_hash::XxHash3_64;

/// Position of a sub-chunk in the cluster's data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SubChunkId {
    /// Hash of the object's name.
    pub object: u64,
    /// Number of the chunk.
    pub chunk: u32,
    /// Number of the stripe.
    pub stripe: u64,
}

/// Returns the checksum of a sub-chunk's bytes at their position. A sub-chunk with a different
/// checksum is corrupt.
pub fn checksum(place: SubChunkId, bytes: &[u8]) -> u64 {
    let seed = mix(mix(mix(place.object) ^ u64::from(place.chunk)) ^ place.stripe);
    XxHash3_64::oneshot_with_seed(seed, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_bit_and_any_other_position_changes_the_checksum() {
        let place = SubChunkId {
            object: 7,
            chunk: 1,
            stripe: 2,
        };
        let mut bytes = vec![3; 1_000];
        let right = checksum(place, &bytes);
        for bit in 0..8_000 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(checksum(place, &bytes), right);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(checksum(place, &bytes), right);
        assert_ne!(checksum(place, &bytes[..999]), right);
        for other in [
            SubChunkId { object: 8, ..place },
            SubChunkId { chunk: 2, ..place },
            SubChunkId { stripe: 1, ..place },
            SubChunkId {
                chunk: 2,
                stripe: 1,
                ..place
            },
        ] {
            assert_ne!(checksum(other, &bytes), right);
        }
        assert_ne!(
            checksum(place, &[]),
            checksum(SubChunkId { stripe: 3, ..place }, &[])
        );
    }

    #[test]
    fn the_checksum_does_not_change_between_versions() {
        let place = SubChunkId {
            object: 0x1234_5678_9abc_def0,
            chunk: 3,
            stripe: 508_626,
        };
        let bytes: Vec<u8> = (0..100_000u32).map(|at| ((at * 7) >> 3) as u8).collect();
        assert_eq!(checksum(place, &bytes), 6_118_153_175_625_199_137);
    }
}

//! Whether the bytes of a sub-chunk are the right ones.
//!
//! XXH3 of 64 bits, seeded with the place that the bytes belong to: of bytes that were changed, one in 2^64 would pass, and
//! bytes that are right but belong elsewhere are wrong. It is no protection against who wants to deceive. (The
//! usual CRC-32 tells any three changed bits of a sub-chunk of 64 KiB for certain, and lets pass one in 2^32 of other
//! changes; a coded read looks at all bytes, so that speed matters: `cargo bench -p mayfly-edge -- code`.)
//!
//! Source: Y. Collet, *XXH3*, the xxHash library 0.8, 2020.

use crate::ring::mix;
use twox_hash::XxHash3_64;

/// Where a sub-chunk belongs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SubChunkId {
    /// A hash of the object's name.
    pub object: u64,
    /// The chunk.
    pub chunk: u32,
    /// The stripe.
    pub stripe: u64,
}

/// The checksum of a sub-chunk's bytes at their place. A sub-chunk whose checksum is another is lost.
pub fn checksum(place: SubChunkId, bytes: &[u8]) -> u64 {
    let seed = mix(mix(mix(place.object) ^ u64::from(place.chunk)) ^ place.stripe);
    XxHash3_64::oneshot_with_seed(seed, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_bit_and_any_other_place_is_told() {
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
    fn what_was_stored_can_be_checked_by_later_versions() {
        let place = SubChunkId {
            object: 0x1234_5678_9abc_def0,
            chunk: 3,
            stripe: 508_626,
        };
        let bytes: Vec<u8> = (0..100_000u32).map(|at| ((at * 7) >> 3) as u8).collect();
        assert_eq!(checksum(place, &bytes), 6_118_153_175_625_199_137);
    }
}

//! Recently seen keys: a pair of Bloom filters of which the older is emptied block by block.
//!
//! All bits of a key are in one block, a cache line that holds a part of both filters. A hand moves
//! over the blocks and turns each one: the younger half becomes the older, and the older is
//! cleared. A key is therefore remembered for one to two rounds of the hand, and no call clears
//! more than a line. The table doubles when more keys are expected, by repeating itself: a key that
//! was seen stays seen.
//!
//! Sources: B. H. Bloom, *Space/time trade-offs in hash coding with allowable errors*, CACM 13(7),
//! 1970, <https://doi.org/10.1145/362686.362692>; one line per key after F. Putze, P. Sanders, J.
//! Singler, *Cache-, hash- and space-efficient Bloom filters*, WEA 2007,
//! <https://doi.org/10.1007/978-3-540-72845-0_9>.

use super::chance::scramble;
use alloc::vec;
use alloc::vec::Vec;

/// Words of one filter in a block.
const WORDS: usize = 4;
/// Number of bits that a key sets. Each is selected by 8 bits of the hash.
const BITS_PER_KEY: u32 = 5;
/// Keys per block up to which the filter is accurate: 16 bits per key in each half.
pub const KEYS_PER_BLOCK: usize = 16;

const _: () = assert!(WORDS * 64 == 1 << 8);
const _: () = assert!(size_of::<Block>() == 64);

type Half = [u64; WORDS];

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    young: Half,
    old: Half,
}

/// A Bloom filter that forgets old keys, made of a young and an old half.
#[derive(Clone, Debug)]
pub struct Bloom {
    blocks: Vec<Block>,
    hand: usize,
}

impl Default for Bloom {
    fn default() -> Self {
        Bloom::new()
    }
}

impl Bloom {
    /// Creates a filter for a few keys.
    pub fn new() -> Self {
        Bloom {
            blocks: vec![Block::default()],
            hand: 0,
        }
    }

    /// Doubles the table if it is too small for this number of keys per round of the hand.
    #[inline]
    pub fn expect(&mut self, keys: usize) {
        if keys > self.blocks.len() * KEYS_PER_BLOCK {
            self.blocks.extend_from_within(..);
        }
    }

    /// Records the key. Returns whether it was seen before, which is wrong for one key in a
    /// hundred.
    #[inline]
    pub fn see(&mut self, key_hash: u64) -> bool {
        let (index, bits) = self.place(key_hash);
        let block = &mut self.blocks[index];
        let was_seen = covers(&block.young, &bits) || covers(&block.old, &bits);
        for (word, bits) in block.young.iter_mut().zip(bits) {
            *word |= bits;
        }
        was_seen
    }

    /// Whether the key was seen, which is wrong for one key in a hundred.
    #[inline]
    pub fn has_seen(&self, key_hash: u64) -> bool {
        let (index, bits) = self.place(key_hash);
        let block = &self.blocks[index];
        covers(&block.young, &bits) || covers(&block.old, &bits)
    }

    /// Moves the hand by one block. A key that was not seen during [`Bloom::block_count`] calls is
    /// in the older half, and after as many again it is forgotten.
    #[inline]
    pub fn turn(&mut self) {
        let block = &mut self.blocks[self.hand];
        block.old = core::mem::take(&mut block.young);
        self.hand = (self.hand + 1) & (self.blocks.len() - 1);
    }

    /// Returns the number of blocks, which is the number of calls of [`Bloom::turn`] in a round of
    /// the hand. It is a power of two.
    pub fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>()
    }

    /// Returns the key's block, and its bits in either half.
    #[inline]
    fn place(&self, key_hash: u64) -> (usize, Half) {
        let index = key_hash as usize & (self.blocks.len() - 1);
        let mut places = scramble(key_hash);
        let mut bits = [0; WORDS];
        for _ in 0..BITS_PER_KEY {
            bits[(places >> 6) as usize % WORDS] |= 1 << (places & 63);
            places >>= 8;
        }
        (index, bits)
    }
}

#[inline]
fn covers(half: &Half, bits: &Half) -> bool {
    half.iter()
        .zip(bits)
        .all(|(word, bits)| word & bits == *bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn keys_seen_within_a_round_are_always_found(
            steps in proptest::collection::vec((0u8..8, 0u64..500), 0..2000),
        ) {
            let mut bloom = Bloom::new();
            // Turn until which a key is remembered: one round of the hand, with the length that it
            // had when the key was seen.
            let mut model = BTreeMap::new();
            let mut turns = 0;
            for (kind, key) in steps {
                match kind {
                    0 => {
                        bloom.turn();
                        turns += 1;
                    }
                    1 => bloom.expect(key as usize),
                    _ => {
                        let has_seen = bloom.has_seen(scramble(key));
                        let safe = model.insert(key, turns + bloom.block_count());
                        if safe.is_some_and(|safe| turns <= safe) {
                            prop_assert!(has_seen);
                        }
                        prop_assert_eq!(bloom.see(scramble(key)), has_seen);
                        prop_assert!(bloom.has_seen(scramble(key)));
                    }
                }
            }
        }
    }

    #[test]
    fn a_full_filter_has_one_percent_false_positives_and_is_cleared_after_two_rounds() {
        let keys = 16_384u64;
        let mut bloom = Bloom::new();
        (0..20).for_each(|_| bloom.expect(keys as usize));
        assert_eq!(bloom.heap_bytes() as u64, 4 * keys);
        for key in 0..2 * keys {
            bloom.see(scramble(key));
            if key % KEYS_PER_BLOCK as u64 == 0 {
                bloom.turn();
            }
        }
        let strangers = (1 << 32..(1 << 32) + 100_000).filter(|&key| bloom.has_seen(scramble(key)));
        let strangers = strangers.count();
        assert!(strangers < 1000, "{strangers} of 100,000");
        (0..2 * bloom.block_count()).for_each(|_| bloom.turn());
        assert!((0..2 * keys).all(|key| !bloom.has_seen(scramble(key))));
    }
}

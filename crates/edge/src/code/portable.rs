//! Sums of products on any machine.
//!
//! This is Horner's scheme over the bits of the factors. A sum is doubled eight times, once for all
//! sources together, and the sources whose factor has the current bit are added in between.
//! Doubling is a shift, a comparison and two bitwise operations, which the compiler vectorises.

use super::field::{Factor, double};

/// Number of bytes processed at a time.
const BLOCK: usize = 64;

/// Writes the sum of the products of the sources and the factors. All have the same length; there
/// is a factor for each source.
pub(super) fn combine(factors: &[Factor], sources: &[&[u8]], sum: &mut [u8]) {
    let len = sum.len();
    assert_eq!(factors.len(), sources.len());
    assert!(sources.iter().all(|source| source.len() == len));
    let used = factors.iter().fold(0, |used, factor| used | factor.number);
    let bits = u8::BITS - used.leading_zeros();
    let (blocks, rest) = sum.as_chunks_mut::<BLOCK>();
    for (number, sum) in blocks.iter_mut().enumerate() {
        *sum = [0; BLOCK];
        for bit in (0..bits).rev() {
            sum.iter_mut().for_each(|byte| *byte = double(*byte));
            for (factor, source) in factors.iter().zip(sources) {
                if factor.number >> bit & 1 == 1 {
                    let source = &source[number * BLOCK..][..BLOCK];
                    sum.iter_mut()
                        .zip(source)
                        .for_each(|(sum, byte)| *sum ^= byte);
                }
            }
        }
    }
    let begin = len - rest.len();
    for (at, sum) in rest.iter_mut().enumerate() {
        let terms = factors.iter().zip(sources);
        *sum = terms.fold(0, |sum, (factor, source)| {
            sum ^ factor.times(source[begin + at])
        });
    }
}

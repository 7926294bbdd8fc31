//! Sums of products with AVX2: the only file with unsafe code in this crate.
//!
//! The products of a factor with all four-bit numbers fit in two tables of sixteen bytes, and one
//! instruction looks up 32 bytes in such a table. A product thus costs two look-ups and an addition
//! (J. Plank, K. Greenan, E. Miller, *Screaming fast Galois field arithmetic using Intel SIMD
//! instructions*, FAST 2013). The compiler does not generate this instruction from safe code;
//! `cargo bench -p mayfly-cache-edge` measures both.
//!
//! Three things are unsafe: calling functions that need AVX2, after a check that the machine has
//! it; and loading and storing 32 bytes, from and to arrays of 32 bytes. All other accesses are
//! bounds-checked.
#![expect(
    unsafe_code,
    reason = "the instruction that looks up bytes in a table has no safe form"
)]

use super::field::Factor;
use crate::chunks::CHUNKS_MAX;
use core::arch::x86_64::{
    __m256i, _mm256_and_si256, _mm256_loadu_si256, _mm256_set1_epi8, _mm256_setzero_si256,
    _mm256_shuffle_epi8, _mm256_srli_epi64, _mm256_storeu_si256, _mm256_xor_si256,
};

/// Number of bytes processed at a time: two registers.
const BLOCK: usize = 64;

/// Number of sums computed at a time. Each takes two registers; together with the sources, they
/// fill most of the sixteen registers.
const SUMS: usize = 3;

/// Returns true if this machine has AVX2.
pub(super) fn is_there() -> bool {
    std::arch::is_x86_feature_detected!("avx2")
}

/// Writes the sums of the products of sources and factors for all complete blocks, and returns the
/// number of bytes written, which is 0 without AVX2. A row of factors belongs to one sum and has a
/// factor for each source. All slices have the same length.
pub(super) fn combine(factors: &[Factor], sources: &[&[u8]], sums: &mut [&mut [u8]]) -> usize {
    let Some(len) = sums.first().map(|sum| sum.len()) else {
        return 0;
    };
    assert_eq!(factors.len(), sources.len() * sums.len());
    assert!(sources.iter().all(|source| source.len() == len));
    assert!(sums.iter().all(|sum| sum.len() == len));
    if sources.is_empty() || !is_there() {
        return 0;
    }
    // SAFETY: `all` requires AVX2 and nothing else, and the line above checked that this machine
    // has it.
    unsafe { all(factors, sources, sums) }
    len / BLOCK * BLOCK
}

#[target_feature(enable = "avx2")]
fn all(factors: &[Factor], sources: &[&[u8]], sums: &mut [&mut [u8]]) {
    let rows = factors.chunks(SUMS * sources.len());
    for (factors, sums) in rows.zip(sums.chunks_mut(SUMS)) {
        match sums {
            [_] => some::<1>(factors, sources, sums),
            [_, _] => some::<2>(factors, sources, sums),
            _ => some::<SUMS>(factors, sources, sums),
        }
    }
}

/// Computes `N` sums in one pass over the sources.
#[target_feature(enable = "avx2")]
fn some<const N: usize>(factors: &[Factor], sources: &[&[u8]], sums: &mut [&mut [u8]]) {
    let k = sources.len();
    let mut columns = [[&factors[0]; N]; CHUNKS_MAX];
    for (at, column) in columns[..k].iter_mut().enumerate() {
        *column = std::array::from_fn(|row| &factors[row * k + at]);
    }
    // In the rows of parity the first factors are all 1, so that the sums begin with the first
    // source.
    let plain = usize::from(columns[0].iter().all(|factor| factor.number == 1));
    let (first, rest) = (sources[0], &sources[plain..]);
    for block in 0..first.len() / BLOCK {
        let mut made = [[_mm256_setzero_si256(); 2]; N];
        if plain == 1 {
            made = [pair(first, block); N];
        }
        for (source, column) in rest.iter().zip(&columns[plain..]) {
            let bytes = pair(source, block);
            let parts = [halves(bytes[0]), halves(bytes[1])];
            for (made, factor) in made.iter_mut().zip(column) {
                let (low, high) = (load(&factor.low), load(&factor.high));
                made[0] = _mm256_xor_si256(made[0], look_up(low, high, parts[0]));
                made[1] = _mm256_xor_si256(made[1], look_up(low, high, parts[1]));
            }
        }
        for (sum, made) in sums.iter_mut().zip(made) {
            let (halves, _) = sum.as_chunks_mut::<BLOCK>().0[block].as_chunks_mut::<32>();
            store(&mut halves[0], made[0]);
            store(&mut halves[1], made[1]);
        }
    }
}

#[target_feature(enable = "avx2")]
fn pair(bytes: &[u8], block: usize) -> [__m256i; 2] {
    let (halves, _) = bytes.as_chunks::<BLOCK>().0[block].as_chunks::<32>();
    [load(&halves[0]), load(&halves[1])]
}

/// Splits each byte into its lower and its upper four bits.
#[target_feature(enable = "avx2")]
fn halves(bytes: __m256i) -> (__m256i, __m256i) {
    let low = _mm256_set1_epi8(15);
    let upper = _mm256_srli_epi64::<4>(bytes);
    (_mm256_and_si256(bytes, low), _mm256_and_si256(upper, low))
}

/// Returns the products of bytes, given as halves, with the factor of these tables.
#[target_feature(enable = "avx2")]
fn look_up(low: __m256i, high: __m256i, halves: (__m256i, __m256i)) -> __m256i {
    let products = _mm256_shuffle_epi8(low, halves.0);
    _mm256_xor_si256(products, _mm256_shuffle_epi8(high, halves.1))
}

#[target_feature(enable = "avx2")]
fn load(bytes: &[u8; 32]) -> __m256i {
    // SAFETY: the reference covers the 32 bytes that are read; the instruction requires no
    // alignment.
    unsafe { _mm256_loadu_si256(std::ptr::from_ref(bytes).cast()) }
}

#[target_feature(enable = "avx2")]
fn store(bytes: &mut [u8; 32], from: __m256i) {
    // SAFETY: the reference is exclusive and covers the 32 bytes that are written; the instruction
    // requires no alignment.
    unsafe { _mm256_storeu_si256(std::ptr::from_mut(bytes).cast(), from) }
}

#[cfg(test)]
mod tests {
    use super::super::portable;
    use super::*;

    /// The cases are small enough for an interpreter that checks every memory access.
    #[test]
    fn avx2_and_portable_code_give_the_same_sums() {
        for (sources, sums, len, shift) in [
            (1, 1, 64, 1),
            (3, 2, 191, 7),
            (4, 5, 128, 31),
            (2, 4, 63, 0),
            (5, 3, 256, 33),
        ] {
            let factors: Vec<Factor> = (0..sources * sums)
                .map(|at| Factor::new((at * at * 37) as u8 ^ 1))
                .collect();
            let memory: Vec<Vec<u8>> = (0..sources)
                .map(|source| {
                    (0..shift + len)
                        .map(|at| ((at * 131) ^ (source * 77)) as u8)
                        .collect()
                })
                .collect();
            let sources: Vec<&[u8]> = memory.iter().map(|source| &source[shift..]).collect();
            let mut made = vec![vec![0; shift + len]; sums];
            let mut parts: Vec<&mut [u8]> =
                made.iter_mut().map(|made| &mut made[shift..]).collect();
            let done = combine(&factors, &sources, &mut parts);
            assert_eq!(done, if is_there() { len / BLOCK * BLOCK } else { 0 });
            for (factors, made) in factors.chunks(sources.len()).zip(&made) {
                let mut plain = vec![0; len];
                portable::combine(factors, &sources, &mut plain);
                assert_eq!(made[shift..][..done], plain[..done]);
                assert!(
                    made[..shift]
                        .iter()
                        .chain(&made[shift + done..])
                        .all(|&byte| byte == 0)
                );
            }
        }
        assert_eq!(combine(&[], &[&[1; 64]], &mut []), 0);
    }
}

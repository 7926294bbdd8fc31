//! Tests of the code: any K chunks reproduce the rest, for all lengths and alignments, with and
//! without AVX2.

use edge::{ChunkSet, Code, CodeError, Reconstruction, SchemeError, mix};
use proptest::prelude::*;

/// Runs a reconstruction with and without AVX2 on slices with any alignment, and returns the
/// result.
fn run(reconstruction: &Reconstruction, sources: &[&[u8]], shift: usize) -> Vec<Vec<u8>> {
    let len = sources[0].len();
    let moved: Vec<Vec<u8>> = sources
        .iter()
        .map(|source| [&vec![9; shift][..], *source].concat())
        .collect();
    let sources: Vec<&[u8]> = moved.iter().map(|source| &source[shift..]).collect();
    let mut out = vec![vec![77; len + 2 * shift]; reconstruction.makes().count()];
    let mut parts: Vec<&mut [u8]> = out
        .iter_mut()
        .map(|out| &mut out[shift..shift + len])
        .collect();
    reconstruction
        .run(&sources, &mut parts)
        .expect("equally long");
    let margins = |out: &Vec<u8>| {
        out[..shift]
            .iter()
            .chain(&out[shift + len..])
            .all(|&byte| byte == 77)
    };
    assert!(out.iter().all(margins), "nothing beside is written");
    let made: Vec<Vec<u8>> = out
        .iter()
        .map(|out| out[shift..shift + len].to_vec())
        .collect();

    let mut again = vec![vec![0; len]; made.len()];
    let mut parts: Vec<&mut [u8]> = again.iter_mut().map(|out| &mut out[..]).collect();
    reconstruction
        .run_portable(&sources, &mut parts)
        .expect("equally long");
    assert_eq!(made, again);
    made
}

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|at| mix(mix(seed) ^ at) as u8)
        .collect()
}

fn coded(code: &Code, k: usize, len: usize, seed: u64) -> Vec<Vec<u8>> {
    let mut chunks: Vec<Vec<u8>> = (0..k)
        .map(|chunk| bytes(seed + 1_000 * chunk as u64, len))
        .collect();
    let data: Vec<&[u8]> = chunks.iter().map(|chunk| &chunk[..]).collect();
    let parity = run(code.encoder(), &data, 0);
    chunks.extend(parity);
    chunks
}

#[test]
fn any_k_chunks_reproduce_every_other() {
    for (k, p) in [
        (1, 1),
        (1, 3),
        (2, 1),
        (3, 1),
        (3, 2),
        (3, 3),
        (4, 2),
        (5, 5),
        (10, 4),
    ] {
        let code = Code::new(k, p).expect("allowed");
        let (k, all) = (usize::from(k), usize::from(k + p));
        let chunks = coded(&code, k, 97, u64::from(p));
        for set in 0u64..1 << all {
            let present: ChunkSet = (0..all).filter(|chunk| set >> chunk & 1 == 1).collect();
            if present.count() != k {
                continue;
            }
            let lost = ChunkSet::between(0, all).without(present);
            let reconstruction = code.reconstruction(present, lost).expect("enough");
            assert_eq!(reconstruction.from(), present);
            let sources: Vec<&[u8]> = present.iter().map(|chunk| &chunks[chunk][..]).collect();
            let made = run(&reconstruction, &sources, 0);
            for (chunk, made) in lost.iter().zip(made) {
                assert_eq!(
                    made, chunks[chunk],
                    "({k}, {p}), chunk {chunk} from {present:?}"
                );
            }
        }
    }
}

#[test]
fn the_first_parity_is_the_xor_of_the_data() {
    let code = Code::new(4, 3).expect("allowed");
    let chunks = coded(&code, 4, 1_000, 5);
    let sum = |at: usize| chunks[..4].iter().fold(0, |sum, chunk| sum ^ chunk[at]);
    assert_eq!(chunks[4], (0..1_000).map(sum).collect::<Vec<u8>>());
}

#[test]
fn data_is_preferred_to_parity() {
    let code = Code::new(3, 3).expect("allowed");
    let reconstruction = code
        .reconstruction(
            ChunkSet::from_iter([0, 2, 3, 4, 5]),
            ChunkSet::from_iter([1]),
        )
        .expect("enough");
    assert_eq!(reconstruction.from(), ChunkSet::from_iter([0, 2, 3]));
    assert_eq!(reconstruction.makes(), ChunkSet::from_iter([1]));
    // A chunk that is present may be reconstructed, too.
    let reconstruction = code
        .reconstruction(ChunkSet::from_iter([3, 4, 5]), ChunkSet::from_iter([0, 4]))
        .expect("enough");
    let chunks = coded(&code, 3, 200, 8);
    let made = run(&reconstruction, &[&chunks[3], &chunks[4], &chunks[5]], 3);
    assert_eq!(made, [chunks[0].clone(), chunks[4].clone()]);
}

#[test]
fn impossible_reconstructions_are_refused() {
    let code = Code::new(3, 2).expect("allowed");
    let few = code
        .reconstruction(ChunkSet::from_iter([0, 4]), ChunkSet::from_iter([1]))
        .err();
    assert_eq!(few, Some(CodeError::TooFew { k: 3, present: 2 }));
    assert_eq!(
        few.map(|few| few.to_string()),
        Some("2 chunks are present: 3 are needed".into())
    );
    let none = code
        .reconstruction(ChunkSet::from_iter([0, 1, 5]), ChunkSet::NONE)
        .err();
    assert_eq!(none, Some(CodeError::NoSuchChunk(5)));
    let (a, b) = ([1; 10], [2; 9]);
    let mut c = [0; 10];
    let run = |sources: &[&[u8]], made: &mut [&mut [u8]]| code.encoder().run(sources, made);
    assert_eq!(
        run(&[&a, &a], &mut []),
        Err(CodeError::Count {
            wanted: 3,
            given: 2
        })
    );
    assert_eq!(
        run(&[&a, &a, &a], &mut [&mut c]),
        Err(CodeError::Count {
            wanted: 2,
            given: 1
        })
    );
    let mut d = [0; 10];
    assert_eq!(
        run(&[&a, &a, &b], &mut [&mut c, &mut d]),
        Err(CodeError::Lengths)
    );
    assert_eq!(
        run(&[&b, &b, &b], &mut [&mut c, &mut d]),
        Err(CodeError::Lengths)
    );
    assert_eq!(Code::new(0, 2).err(), Some(SchemeError::NoData));
    assert_eq!(Code::new(2, 0).err(), Some(SchemeError::NoParity));
    assert_eq!(
        Code::new(32, 33).err(),
        Some(SchemeError::TooManyChunks { chunks: 65 })
    );
}

#[test]
fn the_largest_code_reproduces_up_to_p_chunks() {
    let code = Code::new(32, 32).expect("allowed");
    let chunks = coded(&code, 32, 130, 2);
    let present = ChunkSet::between(32, 64);
    let reconstruction = code
        .reconstruction(present, ChunkSet::between(0, 32))
        .expect("enough");
    let sources: Vec<&[u8]> = chunks[32..].iter().map(|chunk| &chunk[..]).collect();
    assert_eq!(run(&reconstruction, &sources, 1), chunks[..32]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_length_and_alignment_works(
        k in 1u8..9, p in 1u8..6, len in prop_oneof![0usize..300, 4_000usize..9_000], shift in 0usize..70,
        seed in any::<u64>(), order in any::<u64>(),
    ) {
        let code = Code::new(k, p).expect("allowed");
        let (k, all) = (usize::from(k), usize::from(k + p));
        let chunks = coded(&code, k, len, seed % 1_000_000);
        // Any K chunks, chosen randomly.
        let mut numbers: Vec<usize> = (0..all).collect();
        numbers.sort_by_key(|&chunk| (order ^ chunk as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let present: ChunkSet = numbers[..k].iter().copied().collect();
        let lost = ChunkSet::between(0, all).without(present);
        let reconstruction = code.reconstruction(present, lost).expect("enough");
        let sources: Vec<&[u8]> = present.iter().map(|chunk| &chunks[chunk][..]).collect();
        for (chunk, made) in lost.iter().zip(run(&reconstruction, &sources, shift)) {
            prop_assert_eq!(&made, &chunks[chunk]);
        }
    }
}

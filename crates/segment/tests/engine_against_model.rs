//! The engine compared with the plainest model, by random operations, and by seeded bytes for the
//! fuzz target.

#[path = "../../../fuzz/bodies/segment.rs"]
mod model;
#[expect(
    clippy::disallowed_methods,
    reason = "a campaign runs for a time that its environment sets"
)]
#[path = "../../../fuzz/bodies/mutate.rs"]
mod mutate;

use model::{Case, Op, check};
use proptest::prelude::*;
use segment::Eviction;

fn ttl() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![
        3 => Just(None),
        2 => (0u64..600).prop_map(Some),
        2 => (500u64..9_000).prop_map(Some),
        3 => (8_000u64..60_000).prop_map(Some),
        1 => (2_000_000u64..9_000_000_000).prop_map(Some),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let case = prop_oneof![
        6 => Just(Case::Always),
        1 => Just(Case::Absent),
        1 => Just(Case::Present),
        1 => Just(Case::Current),
        1 => Just(Case::Stale),
    ];
    let len = prop_oneof![8 => 0u16..60, 2 => 60u16..700, 1 => 3_900u16..4_200];
    prop_oneof![
        12 => (any::<u8>(), len, ttl(), case).prop_map(|(k, l, t, c)| Op::Set(k, l, t, c)),
        8 => any::<u8>().prop_map(Op::Get),
        2 => any::<u8>().prop_map(Op::Delete),
        2 => (any::<u8>(), ttl()).prop_map(|(k, t)| Op::Touch(k, t)),
        2 => (any::<u8>(), any::<u32>(), ttl()).prop_map(|(k, n, t)| Op::Digits(k, n, t)),
        4 => (any::<u8>(), any::<u8>()).prop_map(|(k, n)| Op::Add(k, n)),
        1 => (any::<u8>(), 0u8..64).prop_map(|(k, n)| Op::Mark(k, n)),
        3 => (0u64..3_000).prop_map(Op::Wait),
        1 => (3_000u64..10_000_000).prop_map(Op::Wait),
        2 => (1u32..50).prop_map(Op::Maintain),
        1 => Just(Op::Other),
        1 => prop_oneof![1 => Just(Op::Clear), 20 => Just(Op::Check)],
    ]
}

/// Operations of a case, and bytes of one.
const OPS: usize = if cfg!(miri) { 30 } else { 400 };
const BYTES: usize = if cfg!(miri) { 30 } else { 1_500 };
/// Number of byte inputs, and of changes to each.
const SAMPLES: u8 = if cfg!(miri) { 4 } else { 16 };
const CHANGES: u64 = if cfg!(miri) { 4 } else { 200 };

/// Returns the usual number of cases or, under Miri, as many as it finishes in minutes, without
/// regression files.
fn cases() -> ProptestConfig {
    match cfg!(miri) {
        false => ProptestConfig::default(),
        true => ProptestConfig {
            cases: 2,
            failure_persistence: None,
            ..ProptestConfig::default()
        },
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn nothing_dead_and_nothing_wrong_is_read(
        eviction in (0..Eviction::ALL.len()).prop_map(|index| Eviction::ALL[index]),
        segments in 10u64..60,
        writers in 1u16..3,
        seed in any::<u64>(),
        ops in proptest::collection::vec(op(), 1..OPS),
    ) {
        check(eviction, segments, writers, seed, &ops);
    }

    #[test]
    fn without_eviction_nothing_goes_before_its_time(
        seed in any::<u64>(),
        ops in proptest::collection::vec(op(), 1..OPS),
    ) {
        check(Eviction::None, 700, 1, seed, &ops);
    }
}

#[test]
fn engine_and_model_agree_on_any_bytes() {
    let mut random = mutate::Random::new(0x5EED_0020);
    let sample: Vec<Vec<u8>> = (0..SAMPLES)
        .map(|number| {
            let bytes = (0..BYTES).map(|_| random.next() as u8);
            [number].into_iter().chain(bytes).collect()
        })
        .collect();
    let samples: Vec<&[u8]> = sample.iter().map(Vec::as_slice).collect();
    mutate::run(
        0x5EED_0021,
        CHANGES,
        &samples,
        &[&[0; 4], &[0xFF; 4]],
        model::run,
    );
}

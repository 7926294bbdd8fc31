//! Random operations on a stream against a model. The fuzz target `streams` is the larger version
//! of this test.

#[expect(
    clippy::disallowed_methods,
    reason = "a campaign runs for a time that its environment sets"
)]
#[path = "../../../fuzz/bodies/mutate.rs"]
mod mutate;
#[path = "../../../fuzz/bodies/streams.rs"]
mod streams;

#[test]
fn a_stream_in_a_keyspace_holds_what_the_model_holds() {
    let mut random = mutate::Random::new(0x5EED_0021);
    let samples: Vec<Vec<u8>> = (0..32)
        .map(|_| (0..300).map(|_| random.next() as u8).collect())
        .collect();
    let samples: Vec<&[u8]> = samples.iter().map(Vec::as_slice).collect();
    let words: &[&[u8]] = &[
        &[0, 63, 1],
        &[7, 50, 1],
        &[8, 0, 255],
        &[14, 50, 1],
        &[15, 1, 1],
    ];
    mutate::run(0x5EED_0022, 150, &samples, words, streams::run);
}

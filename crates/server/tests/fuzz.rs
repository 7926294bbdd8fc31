//! Random commands against a model under a manual clock. The fuzz target `commands` is the larger
//! version of this test.

#[path = "../../../fuzz/bodies/commands.rs"]
mod commands;
#[path = "../../../fuzz/bodies/model.rs"]
mod model;
#[path = "../../../fuzz/bodies/mutate.rs"]
mod mutate;

#[test]
fn random_commands_get_the_replies_of_the_model() {
    let mut random = mutate::Random::new(0x5EED_0004);
    let samples: Vec<Vec<u8>> = (0..64)
        .map(|_| (0..1200).map(|_| random.next() as u8).collect())
        .collect();
    let samples: Vec<&[u8]> = samples.iter().map(Vec::as_slice).collect();
    let words: &[&[u8]] = &[&[0, 1], &[40], &[60], &[100, 0, 0, 0, 0]];
    mutate::run(0x5EED_0005, 800, &samples, words, commands::run);
}

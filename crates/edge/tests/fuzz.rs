//! Runs the fuzz target on seeded mutations. `cargo fuzz` runs the same code guided by coverage;
//! this takes a second and is repeatable.

#[expect(
    clippy::disallowed_methods,
    reason = "a campaign runs for a time that its environment sets"
)]
#[path = "../../../fuzz/bodies/mutate.rs"]
mod mutate;
#[path = "../../../fuzz/bodies/stripes.rs"]
mod stripes;

#[test]
fn objects_with_lost_and_damaged_chunks_return_the_right_bytes_or_none() {
    let mut samples: Vec<Vec<u8>> = vec![];
    for (k, p, sub_chunk_bytes, robbed, damaged) in [
        (3, 1, 16, 0b0001, 0),
        (3, 3, 64, 0b00_0111, 0),
        (3, 2, 1, 0b1_0000, 0b0_0010),
        (8, 5, 7, 0b1_0000_0000_0001, 0b10),
        (1, 1, 100, 0, 0b01),
    ] {
        let head = [
            k,
            p,
            sub_chunk_bytes,
            0,
            3,
            0,
            200,
            0,
            robbed as u8,
            (robbed >> 8) as u8,
            damaged,
            0,
        ];
        let object = (0..300u16).map(|at| (at * 37) as u8);
        samples.push(head.into_iter().chain(object).collect());
    }
    let samples: Vec<&[u8]> = samples.iter().map(|sample| &sample[..]).collect();
    mutate::run(
        0x5EED_0007,
        5_000,
        &samples,
        &[b"\0\0\0\0", b"\xff\xff"],
        stripes::run,
    );
}

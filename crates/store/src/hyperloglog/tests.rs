use super::*;

/// Returns the next number of the SplitMix64 generator.
fn chance(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

fn registers(sketch: &[u8]) -> Registers {
    let mut registers = Registers::default();
    registers.merge(sketch).expect("a sketch");
    registers
}

#[test]
fn both_forms_hold_what_plain_registers_hold() {
    for seed in 1..=6u64 {
        let mut state = seed;
        let mut model = Registers::default();
        // Some sketches stay sparse, some become dense at once, some on the way.
        let sparse_bytes_max = [20, 3000, 100_000][seed as usize % 3];
        let mut sketch = empty();
        for step in 0..4000 {
            // Indexes are near each other and ranks small, so that runs meet, split and join.
            let element = (chance(&mut state) % 3000).to_le_bytes();
            let (index, rank) = place(&element);
            let is_higher = rank > model.0[index];
            model.0[index] = rank.max(model.0[index]);
            assert_eq!(
                would_change(&sketch, &element),
                Ok(is_higher),
                "seed {seed}"
            );
            let changed = add(&mut sketch, &element, sparse_bytes_max);
            assert_eq!(changed, Ok(is_higher), "seed {seed}, step {step}");
            assert!(encoding(&sketch) == Ok(DENSE) || sketch.len() <= sparse_bytes_max.max(18));
        }
        assert!(registers(&sketch).0 == model.0, "seed {seed}");
        for is_dense in [false, true] {
            let again = model.sketch(is_dense, sparse_bytes_max);
            assert!(registers(&again).0 == model.0, "seed {seed}");
            assert_eq!(known_count(&again), Ok(None));
        }
    }
}

#[test]
fn runs_of_neighbours_split_and_join() {
    for seed in 1..=20u64 {
        let mut state = seed;
        let mut model = Registers::default();
        let mut sketch = empty();
        for _ in 0..600 {
            let index = (chance(&mut state) % 40) as usize + COUNT - 40;
            let rank = (chance(&mut state) % 6) as u8 + 1;
            let changed = raise_sparse(&mut sketch, index, rank, 3000);
            assert_eq!(changed, Ok(rank > model.0[index]), "seed {seed}");
            model.0[index] = rank.max(model.0[index]);
            assert!(registers(&sketch).0 == model.0, "seed {seed}");
        }
    }
}

#[test]
fn a_rank_beyond_the_sparse_form_makes_it_dense() {
    let mut sketch = empty();
    assert_eq!(raise_sparse(&mut sketch, 5, 32, 3000), Ok(true));
    assert_eq!(encoding(&sketch), Ok(SPARSE));
    assert_eq!(raise_sparse(&mut sketch, 5, 51, 3000), Ok(true));
    assert_eq!(encoding(&sketch), Ok(DENSE));
    assert_eq!(dense_rank(&sketch, 5), 51);
}

#[test]
fn the_estimate_is_within_six_standard_errors() {
    let (mut sketch, mut state) = (empty(), 99);
    let mut next = 1u64;
    for count in 1..=200_000u64 {
        add(&mut sketch, &chance(&mut state).to_le_bytes(), 3000).expect("a sketch");
        if count == next {
            let reported = registers(&sketch).count();
            // Six standard errors.
            let allowed = (count as f64 * 0.0488).ceil() as u64;
            assert!(
                reported.abs_diff(count) <= allowed,
                "{reported} for {count}"
            );
            next = next * 3 / 2 + 1;
        }
    }
    assert_eq!(registers(&empty()).count(), 0);
}

#[test]
fn a_stored_count_is_valid_until_an_element_changes_the_sketch() {
    let mut sketch = empty();
    assert_eq!(add(&mut sketch, b"a", 3000), Ok(true));
    assert_eq!(known_count(&sketch), Ok(None));
    keep_count(&mut sketch, 1);
    assert_eq!(add(&mut sketch, b"a", 3000), Ok(false));
    assert_eq!(known_count(&sketch), Ok(Some(1)));
    assert_eq!(add(&mut sketch, b"b", 3000), Ok(true));
    assert_eq!(known_count(&sketch), Ok(None));
}

#[test]
fn corrupt_sketches_are_rejected() {
    assert_eq!(known_count(b""), Err(Flaw::NoSketch));
    assert_eq!(known_count(b"HYLL\x01"), Err(Flaw::NoSketch));
    let mut long = empty();
    long.push(0);
    assert_eq!(Registers::default().merge(&long), Err(Flaw::Corrupt));
    let mut other = empty();
    other[0] = b'h';
    assert_eq!(would_change(&other, b"a"), Err(Flaw::NoSketch));
    // Random bytes behind a sparse head must be handled without a panic.
    let mut state = 5;
    for len in 0..400usize {
        let mut sketch = empty();
        sketch.truncate(HEAD);
        sketch.extend((0..len).map(|_| chance(&mut state) as u8));
        let is_whole = Registers::default().merge(&sketch).is_ok();
        for element in [b"a", b"b", b"c"] {
            let changed = add(&mut sketch, element, 3000);
            assert!(changed.is_ok() || !is_whole);
        }
    }
}

//! DRAM in front of flash, compared with a simple model, and golden counts.

use proptest::prelude::*;
use sim::flash::{FlashAdmission, Layout, replay};
use sim::{Columns, Interner, Interning, ReplayResult, Unit};
use std::collections::HashMap;
use trace::Request;

fn intern(rows: &[(u64, u32)]) -> Columns {
    let requests = rows
        .iter()
        .map(|&(key, size)| Ok(Request::new(0, key, size)));
    Interner::all("generated", Interning::default(), requests).expect("a trace in memory")
}

fn run(columns: &Columns, admission: FlashAdmission, capacity: u64, dram: u64) -> ReplayResult {
    let layout = Layout {
        admission,
        capacity,
        dram,
    };
    replay(columns, Unit::Bytes, layout, 1)
}

/// Model: two lists, oldest first. Objects read in DRAM are written to flash when they leave it.
fn model(rows: &[(u64, u32)], capacity: u64, dram_capacity: u64) -> (u64, u64) {
    let mut dram: Vec<(u64, u64, bool)> = Vec::new();
    let mut flash: Vec<(u64, u64)> = Vec::new();
    let mut sizes = HashMap::new();
    let (mut misses, mut written) = (0, 0);
    let flash_capacity = capacity - dram_capacity;
    let mut write = |flash: &mut Vec<(u64, u64)>, key, size| {
        if size <= flash_capacity {
            flash.push((key, size));
            written += size;
        }
        while flash.iter().map(|entry| entry.1).sum::<u64>() > flash_capacity {
            flash.remove(0);
        }
    };
    for &(key, size) in rows {
        let size = u64::from(*sizes.entry(key).or_insert(size));
        if flash.iter().any(|entry| entry.0 == key) {
            continue;
        }
        if let Some(entry) = dram.iter_mut().find(|entry| entry.0 == key) {
            entry.2 = true;
            continue;
        }
        misses += 1;
        if dram_capacity == 0 {
            write(&mut flash, key, size);
            continue;
        }
        if size > dram_capacity {
            continue;
        }
        dram.push((key, size, false));
        while dram.iter().map(|entry| entry.1).sum::<u64>() > dram_capacity {
            let (key, size, was_read) = dram.remove(0);
            if was_read {
                write(&mut flash, key, size);
            }
        }
    }
    (misses, written)
}

proptest! {
    #[test]
    fn everything_is_written_once_at_its_miss(
        rows in proptest::collection::vec((0u64..40, 1u32..12), 1..300),
        capacity in 12u64..120,
    ) {
        let found = run(&intern(&rows), FlashAdmission::All, capacity, 0);
        let (misses, written) = model(&rows, capacity, 0);
        prop_assert_eq!((found.counts.misses, found.flash_written), (misses, Some(written)));
        prop_assert_eq!(found.counts.missed_weight, written);
    }

    /// Each object is requested in one run of requests with others in between, so that no object
    /// returns after its ghost was recorded and ghosts have no effect.
    #[test]
    fn a_small_fifo_lets_pass_what_was_read_in_it(
        runs in proptest::collection::vec((1u32..12, 1usize..4), 1..200),
        dram in 12u64..60,
    ) {
        let mut rows: Vec<(u64, u32)> = Vec::new();
        for (key, (size, reads)) in runs.into_iter().enumerate() {
            rows.extend(std::iter::repeat_n((key as u64, size), reads));
        }
        let capacity = dram + 100;
        let found = run(&intern(&rows), FlashAdmission::SmallFifo, capacity, dram);
        let (misses, written) = model(&rows, capacity, dram);
        prop_assert_eq!((found.counts.misses, found.flash_written), (misses, Some(written)));
    }

    /// The replay asserts conservation itself; this test checks that only missed objects are
    /// written.
    #[test]
    fn no_scheme_writes_more_than_was_missed(
        rows in proptest::collection::vec((0u64..40, 1u32..12), 1..300),
        capacity in 12u64..120,
        dram in 1u64..11,
    ) {
        let columns = intern(&rows);
        for admission in FlashAdmission::EVERY {
            let found = run(&columns, admission, capacity, dram);
            let written = found.flash_written.expect("there is flash");
            prop_assert!(written <= found.counts.missed_weight, "{:?}", admission);
            prop_assert!(found.counts.misses <= rows.len() as u64);
        }
    }
}

/// Half of the requests are for 2,000 popular objects, half for objects requested once.
fn popular_and_once() -> Vec<(u64, u32)> {
    let mut state = 1u64;
    let mut draw = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state >> 33
    };
    let row = |index: u64| match draw() % 2 {
        0 => (draw() % 2000, 1 + (draw() % 50) as u32),
        _ => (1_000_000 + index, 1 + (draw() % 50) as u32),
    };
    (0..100_000).map(row).collect()
}

#[test]
fn filters_write_less_than_none() {
    let columns = intern(&popular_and_once());
    let all = run(&columns, FlashAdmission::All, 50_000, 0);
    let written = |found: &ReplayResult| found.flash_written.expect("there is flash");
    for admission in [
        FlashAdmission::Probability,
        FlashAdmission::Learned,
        FlashAdmission::SmallFifo,
    ] {
        let found = run(&columns, admission, 50_000, 5_000);
        assert!(written(&found) * 2 < written(&all), "{admission:?}");
    }
    let small_fifo = run(&columns, FlashAdmission::SmallFifo, 50_000, 5_000);
    assert!(small_fifo.counts.misses < all.counts.misses);
}

#[test]
fn counts_are_unchanged() {
    let columns = intern(&popular_and_once());
    let golden = FlashAdmission::EVERY.map(|admission| {
        let found = run(&columns, admission, 50_000, 5_000);
        (found.counts.misses, found.flash_written)
    });
    assert_eq!(golden, GOLDEN);
}

/// Misses and bytes written, by admission policy.
const GOLDEN: [(u64, Option<u64>); 4] = [
    (81_277, Some(2_062_320)),
    (81_631, Some(414_925)),
    (81_533, Some(70_458)),
    (59_659, Some(93_668)),
];

//! Miss ratios of Caffeine's simulator 3.1.8 (`sketch.WindowTinyLfu`,
//! `sketch.HillClimberWindowTinyLfu` with `simple`, `adaptive.Cart`, `adaptive.Car`; its defaults).
//! Rows of traces that are not small run with `MAYFLY_TRACES`.
//!
//! CAR agrees within 1.7 %, in most rows within 1 %. CART misses up to 3 % more here, and 6 % in
//! two rows: that version guards the change of an entry from short to long otherwise than the
//! source, which a later one corrected, and truncates the ratios by which the target moves to whole
//! numbers. W-TinyLFU differs where most requests hit, because of the aging of the sketch (see the
//! test below): `gradle_build_cache` has its own limits.

use crate::replay::{Unit, replay};
use crate::{is_chosen, traces, w_tinylfu};
use policy::any::PolicySpec;
use std::path::Path;

/// Trace's file, whether it is small, capacity in objects, policy, its miss ratio there, and the
/// largest relative difference from ours.
const ROWS: &[(&str, bool, u64, &str, f64, f64)] = &[
    ("arc_oltp.lis.zst", false, 1_868, "car", 0.544869, 0.01),
    ("arc_oltp.lis.zst", false, 1_868, "cart", 0.532899, 0.03),
    (
        "arc_oltp.lis.zst",
        false,
        1_868,
        "w-tinylfu-adaptive",
        0.542259,
        0.05,
    ),
    (
        "arc_oltp.lis.zst",
        false,
        1_868,
        "w-tinylfu",
        0.585310,
        0.06,
    ),
    ("arc_oltp.lis.zst", false, 18_688, "car", 0.323382, 0.01),
    ("arc_oltp.lis.zst", false, 18_688, "cart", 0.315297, 0.03),
    (
        "arc_oltp.lis.zst",
        false,
        18_688,
        "w-tinylfu-adaptive",
        0.369146,
        0.05,
    ),
    (
        "arc_oltp.lis.zst",
        false,
        18_688,
        "w-tinylfu",
        0.387782,
        0.06,
    ),
    ("arc_p6.lis.zst", false, 7_737, "car", 0.942126, 0.01),
    ("arc_p6.lis.zst", false, 7_737, "cart", 0.942869, 0.03),
    (
        "arc_p6.lis.zst",
        false,
        7_737,
        "w-tinylfu-adaptive",
        0.941376,
        0.05,
    ),
    ("arc_p6.lis.zst", false, 7_737, "w-tinylfu", 0.938865, 0.06),
    ("arc_p6.lis.zst", false, 77_377, "car", 0.522431, 0.02),
    ("arc_p6.lis.zst", false, 77_377, "cart", 0.503342, 0.03),
    (
        "arc_p6.lis.zst",
        false,
        77_377,
        "w-tinylfu-adaptive",
        0.422819,
        0.05,
    ),
    ("arc_p6.lis.zst", false, 77_377, "w-tinylfu", 0.365633, 0.06),
    (
        "ecommerce_recs.txt.zst",
        false,
        2_583,
        "car",
        0.588748,
        0.01,
    ),
    (
        "ecommerce_recs.txt.zst",
        false,
        2_583,
        "cart",
        0.574874,
        0.03,
    ),
    (
        "ecommerce_recs.txt.zst",
        false,
        2_583,
        "w-tinylfu-adaptive",
        0.573962,
        0.05,
    ),
    (
        "ecommerce_recs.txt.zst",
        false,
        2_583,
        "w-tinylfu",
        0.587937,
        0.06,
    ),
    (
        "ecommerce_recs.txt.zst",
        false,
        25_836,
        "car",
        0.375474,
        0.01,
    ),
    (
        "ecommerce_recs.txt.zst",
        false,
        25_836,
        "cart",
        0.366379,
        0.03,
    ),
    (
        "ecommerce_recs.txt.zst",
        false,
        25_836,
        "w-tinylfu-adaptive",
        0.405061,
        0.05,
    ),
    (
        "ecommerce_recs.txt.zst",
        false,
        25_836,
        "w-tinylfu",
        0.399718,
        0.06,
    ),
    (
        "gradle_build_cache.txt.zst",
        false,
        1_548,
        "car",
        0.137194,
        0.01,
    ),
    (
        "gradle_build_cache.txt.zst",
        false,
        1_548,
        "cart",
        0.134754,
        0.03,
    ),
    (
        "gradle_build_cache.txt.zst",
        false,
        1_548,
        "w-tinylfu-adaptive",
        0.167749,
        0.05,
    ),
    (
        "gradle_build_cache.txt.zst",
        false,
        1_548,
        "w-tinylfu",
        0.233712,
        0.06,
    ),
    (
        "gradle_build_cache.txt.zst",
        false,
        15_482,
        "car",
        0.076456,
        0.01,
    ),
    (
        "gradle_build_cache.txt.zst",
        false,
        15_482,
        "cart",
        0.078811,
        0.03,
    ),
    (
        "gradle_build_cache.txt.zst",
        false,
        15_482,
        "w-tinylfu-adaptive",
        0.120072,
        0.12,
    ),
    (
        "gradle_build_cache.txt.zst",
        false,
        15_482,
        "w-tinylfu",
        0.213687,
        0.31,
    ),
    ("lirs_2pools.trc.zst", true, 99, "car", 0.528460, 0.01),
    ("lirs_2pools.trc.zst", true, 99, "cart", 0.531930, 0.03),
    (
        "lirs_2pools.trc.zst",
        true,
        99,
        "w-tinylfu-adaptive",
        0.518760,
        0.05,
    ),
    ("lirs_2pools.trc.zst", true, 99, "w-tinylfu", 0.518360, 0.06),
    ("lirs_2pools.trc.zst", true, 993, "car", 0.456710, 0.01),
    ("lirs_2pools.trc.zst", true, 993, "cart", 0.456710, 0.03),
    (
        "lirs_2pools.trc.zst",
        true,
        993,
        "w-tinylfu-adaptive",
        0.456340,
        0.05,
    ),
    (
        "lirs_2pools.trc.zst",
        true,
        993,
        "w-tinylfu",
        0.456690,
        0.06,
    ),
    ("lirs_multi3.trc.zst", true, 74, "car", 0.850501, 0.01),
    ("lirs_multi3.trc.zst", true, 74, "cart", 0.803380, 0.06),
    (
        "lirs_multi3.trc.zst",
        true,
        74,
        "w-tinylfu-adaptive",
        0.777124,
        0.06,
    ),
    ("lirs_multi3.trc.zst", true, 74, "w-tinylfu", 0.766145, 0.06),
    ("lirs_multi3.trc.zst", true, 745, "car", 0.610264, 0.01),
    ("lirs_multi3.trc.zst", true, 745, "cart", 0.547733, 0.03),
    (
        "lirs_multi3.trc.zst",
        true,
        745,
        "w-tinylfu-adaptive",
        0.536292,
        0.05,
    ),
    (
        "lirs_multi3.trc.zst",
        true,
        745,
        "w-tinylfu",
        0.540062,
        0.06,
    ),
    ("lirs_sprite.trc.zst", true, 70, "car", 0.802412, 0.01),
    ("lirs_sprite.trc.zst", true, 70, "cart", 0.804024, 0.03),
    (
        "lirs_sprite.trc.zst",
        true,
        70,
        "w-tinylfu-adaptive",
        0.782202,
        0.05,
    ),
    ("lirs_sprite.trc.zst", true, 70, "w-tinylfu", 0.753717, 0.06),
    ("lirs_sprite.trc.zst", true, 707, "car", 0.144818, 0.02),
    ("lirs_sprite.trc.zst", true, 707, "cart", 0.146803, 0.03),
    (
        "lirs_sprite.trc.zst",
        true,
        707,
        "w-tinylfu-adaptive",
        0.177990,
        0.05,
    ),
    (
        "lirs_sprite.trc.zst",
        true,
        707,
        "w-tinylfu",
        0.219223,
        0.06,
    ),
    ("orm_busy.txt.zst", false, 763, "car", 0.232721, 0.01),
    ("orm_busy.txt.zst", false, 763, "cart", 0.226825, 0.03),
    (
        "orm_busy.txt.zst",
        false,
        763,
        "w-tinylfu-adaptive",
        0.269895,
        0.05,
    ),
    ("orm_busy.txt.zst", false, 763, "w-tinylfu", 0.412784, 0.06),
    ("orm_busy.txt.zst", false, 7_634, "car", 0.117402, 0.01),
    ("orm_busy.txt.zst", false, 7_634, "cart", 0.107689, 0.07),
    (
        "orm_busy.txt.zst",
        false,
        7_634,
        "w-tinylfu-adaptive",
        0.117432,
        0.05,
    ),
    (
        "orm_busy.txt.zst",
        false,
        7_634,
        "w-tinylfu",
        0.142745,
        0.07,
    ),
    ("web07.txt.zst", true, 204, "car", 0.576552, 0.01),
    ("web07.txt.zst", true, 204, "cart", 0.562666, 0.03),
    (
        "web07.txt.zst",
        true,
        204,
        "w-tinylfu-adaptive",
        0.566778,
        0.05,
    ),
    ("web07.txt.zst", true, 204, "w-tinylfu", 0.594734, 0.06),
    ("web07.txt.zst", true, 2_048, "car", 0.419283, 0.01),
    ("web07.txt.zst", true, 2_048, "cart", 0.416682, 0.03),
    (
        "web07.txt.zst",
        true,
        2_048,
        "w-tinylfu-adaptive",
        0.464516,
        0.05,
    ),
    ("web07.txt.zst", true, 2_048, "w-tinylfu", 0.432775, 0.06),
    (
        "cloudphysics.oracleGeneral.bin.zst",
        true,
        489,
        "car",
        0.827851,
        0.01,
    ),
    (
        "cloudphysics.oracleGeneral.bin.zst",
        true,
        489,
        "cart",
        0.831117,
        0.03,
    ),
    (
        "cloudphysics.oracleGeneral.bin.zst",
        true,
        489,
        "w-tinylfu-adaptive",
        0.838933,
        0.05,
    ),
    (
        "cloudphysics.oracleGeneral.bin.zst",
        true,
        489,
        "w-tinylfu",
        0.833647,
        0.06,
    ),
    (
        "cloudphysics.oracleGeneral.bin.zst",
        true,
        4_897,
        "car",
        0.773500,
        0.01,
    ),
    (
        "cloudphysics.oracleGeneral.bin.zst",
        true,
        4_897,
        "cart",
        0.752178,
        0.03,
    ),
    (
        "cloudphysics.oracleGeneral.bin.zst",
        true,
        4_897,
        "w-tinylfu-adaptive",
        0.805492,
        0.05,
    ),
    (
        "cloudphysics.oracleGeneral.bin.zst",
        true,
        4_897,
        "w-tinylfu",
        0.799117,
        0.06,
    ),
];

pub fn miss_ratios_equal_those_of_caffeine(shared: &Path) {
    let mut failures = Vec::new();
    let mut read: Option<(&str, traces::Trace)> = None;
    for &(file, is_small, capacity, policy, theirs, allowed) in ROWS {
        if !is_chosen("MAYFLY_TRACES", file).unwrap_or(is_small) {
            continue;
        }
        if read.as_ref().is_none_or(|(name, _)| *name != file) {
            read = Some((file, traces::read(&shared.join("traces").join(file))));
        }
        let Some((_, trace)) = &read else { continue };
        let spec: PolicySpec = policy.parse().expect("a name");
        let run = replay(trace, &spec, Unit::Objects, capacity, capacity);
        let ours = run.misses as f64 / trace.requests.len() as f64;
        let difference = ours / theirs - 1.0;
        let line = format!("{file} {policy} {capacity} {ours:.6} {theirs:.6} {difference:+.4}");
        println!("{line}");
        if difference.abs() > allowed {
            failures.push(line);
        }
    }
    assert!(failures.is_empty(), "too far:\n{}", failures.join("\n"));
}

/// The reason why static W-TinyLFU differs on traces of recency: Caffeine's sketch is aged later.
pub fn caffeine_ages_by_additions_that_count(shared: &Path) {
    let trace = traces::read(&shared.join("traces/gradle_build_cache.txt.zst"));
    let model = w_tinylfu::miss_ratio(&trace, 15_482, w_tinylfu::CAFFEINE);
    let source = w_tinylfu::miss_ratio(&trace, 15_482, w_tinylfu::SOURCE);
    println!("Caffeine 0.2137, model {model:.4}, with the source's aging {source:.4}");
    assert!((model / 0.2137 - 1.0).abs() < 0.05, "{model:.4}");
    assert!(source < 0.85 * model, "{source:.4}");
}

//! Golden miss counts on generated traces, which a change of any decision of any policy changes.
//!
//! The test prints rows that are missing or differ. If the change is intended,
//! `UPDATE=1 cargo test -p mayfly-cache-policy --test reference golden` writes them into
//! [`MISSES`].

use crate::replay::{Unit, replay};
use crate::traces::{Trace, dense};
use policy::any::{About, POLICIES};
use policy::parts::chance::{Chance, scramble};

const REQUESTS: u64 = 30_000;
const OBJECTS: u64 = 3_000;

/// Requests whose popularity follows a power law and drifts: the ranks shift at intervals.
fn drifting(seed: u64) -> Trace {
    let mut chance = Chance::new(seed);
    let request = |number: u64| {
        let rank = (OBJECTS as f64).powf(chance.unit()) as u64;
        let id = scramble(rank + number / 5_000 * 40);
        (id, 10 + (id % 500) as u32)
    };
    dense(&(0..REQUESTS).map(request).collect::<Vec<_>>())
}

/// A popular set, loops longer than the cache, and scans of keys that come once.
fn looping(seed: u64) -> Trace {
    let mut chance = Chance::new(seed);
    let request = |number: u64| {
        let id = match number % 6_000 {
            0..2_000 => chance.below(200) * chance.below(3),
            2_000..4_500 if chance.below(3) > 0 => 1_000 + number % 450,
            2_000..4_500 => chance.below(400),
            _ => 10_000 + number,
        };
        (id, 10 + (scramble(id) % 500) as u32)
    };
    dense(&(0..REQUESTS).map(request).collect::<Vec<_>>())
}

/// The line before the rows of [`MISSES`].
const FIRST_LINE: &str = "const MISSES: &[Row] = &[\n";

/// Policy; misses of `drifting` at 200 objects, of `looping` at 300 objects, and of both at 60,000
/// bytes.
type Row = (&'static str, [u64; 4]);

const MISSES: &[Row] = &[
    ("fifo", [15307, 20450, 14636, 21357]),
    ("lru", [13738, 20362, 13102, 21210]),
    ("clock", [13373, 20298, 12748, 21151]),
    ("sieve", [12883, 17400, 12121, 19092]),
    ("s3fifo", [11761, 17774, 11193, 19333]),
    ("s3fifo-d", [11772, 17795, 11195, 19324]),
    ("s3fifo-w", [11723, 17518, 10801, 18170]),
    ("clock2q-plus", [11838, 17868, 11210, 19522]),
    ("s3-sieve", [12047, 17849, 11466, 19201]),
    ("random", [15272, 19478, 14761, 20869]),
    ("sampled-lru", [13756, 20246, 13151, 21213]),
    ("sampled", [13763, 20265, 13104, 21278]),
    ("sampled-ttl", [15363, 19579, 14672, 20862]),
    ("arc", [11787, 19234, 11126, 19375]),
    ("slru", [12117, 18132, 11443, 18742]),
    ("twoq", [12202, 18431, 11566, 19868]),
    ("w-tinylfu", [11741, 17829, 11176, 19262]),
    ("w-tinylfu-adaptive", [11884, 17902, 11194, 19495]),
    ("fifo-merge", [14482, 19331, 12751, 19431]),
    ("qd-lp-fifo", [11759, 17751, 11183, 19345]),
    ("hyperbolic", [13665, 20256, 13096, 21116]),
    ("lecar", [13569, 20026, 12932, 21139]),
    ("lecar-sieve", [12818, 17420, 12034, 19033]),
    ("lhd", [12668, 19157, 13573, 17911]),
    ("cacheus", [11554, 18256, 10967, 19119]),
    ("qd-lecar", [11876, 17788, 11221, 19351]),
    ("qd-cacheus", [11534, 17647, 10939, 19132]),
    ("lfu", [16728, 17316, 15023, 18949]),
    ("lirs", [11711, 18143, 11030, 18762]),
    ("lru-k", [11734, 17669, 11114, 19326]),
    ("slab-lru", [13861, 20030, 12613, 20373]),
    ("slab-lrc", [15307, 20450, 14808, 21449]),
    ("slab-random", [15484, 19461, 14705, 20869]),
    ("memcached-lru", [13738, 20362, 14721, 19463]),
    ("gdsf", [13694, 19530, 11909, 18646]),
    ("lfuda", [13694, 19530, 13120, 20613]),
    ("mq", [12816, 18458, 11906, 19874]),
    ("car", [11697, 17611, 11101, 19346]),
    ("cart", [11708, 19460, 11061, 19350]),
    ("clock-pro", [11612, 18285, 11016, 19512]),
    ("clock-pro-plus", [11975, 18651, 11329, 19592]),
    ("arc-sieve", [11879, 17497, 11284, 19080]),
    ("arc-fifo-reinsertion", [11714, 18489, 11091, 19312]),
    ("twoq-sieve", [12758, 18583, 11879, 19768]),
    ("qd-lirs", [11588, 17632, 10849, 19182]),
    ("belady", [8410, 13439, 7874, 14823]),
    ("lrm", [13738, 20362, 13102, 21210]),
    ("b-lru", [12172, 21021, 11511, 21877]),
    ("belady-size", [8457, 13486, 7299, 13782]),
    ("qd-arc", [11578, 17847, 10988, 19378]),
    ("qd-lru", [11932, 17848, 11296, 19491]),
    ("qd-lhd", [11853, 17752, 11229, 18567]),
];

/// Misses of every policy, in the order of the list.
fn measured() -> Vec<Row> {
    let traces = [drifting(1), looping(2)];
    let of_one = |about: &About| {
        let spec = about.name.parse().expect("a name is a specification");
        let run = |trace, unit, capacity| replay(trace, &spec, unit, capacity, capacity).misses;
        let misses = [
            run(&traces[0], Unit::Objects, 200),
            run(&traces[1], Unit::Objects, 300),
            run(&traces[0], Unit::Bytes, 60_000),
            run(&traces[1], Unit::Bytes, 60_000),
        ];
        (about.name, misses)
    };
    POLICIES.iter().map(of_one).collect()
}

fn written(rows: &[Row]) -> String {
    let line = |(name, misses): &Row| format!("    (\"{name}\", {misses:?}),\n");
    rows.iter().map(line).collect()
}

/// Replaces the rows of [`MISSES`] in this file.
fn write_rows(rows: &[Row]) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/reference/golden.rs");
    let text = std::fs::read_to_string(path).expect("this file is there");
    let (before, rest) = text
        .split_once(FIRST_LINE)
        .expect("the table has a first line");
    let (_, after) = rest
        .split_once("\n];\n")
        .expect("the table has a last line");
    let text = format!("{before}{FIRST_LINE}{}];\n{after}", written(rows));
    std::fs::write(path, text).expect("this file can be written");
}

/// Whether the caller wants the table to be written.
fn is_update() -> bool {
    std::env::var_os("UPDATE").is_some()
}

pub fn miss_counts_on_generated_traces_are_golden() {
    let rows = measured();
    if is_update() {
        write_rows(&rows);
        return;
    }
    let differ: Vec<Row> = rows
        .iter()
        .filter(|row| !MISSES.contains(row))
        .copied()
        .collect();
    assert!(
        differ.is_empty(),
        "rows that are missing or differ (UPDATE=1 writes them):\n{}",
        written(&differ)
    );
    let is_listed = |name: &str| POLICIES.iter().any(|about| about.name == name);
    assert!(MISSES.iter().all(|(name, _)| is_listed(name)));
}

pub fn no_policy_misses_less_often_than_belady_with_equal_weights() {
    let bound = |index: usize| {
        let belady = MISSES.iter().find(|(name, _)| *name == "belady");
        belady.expect("belady has a row").1[index]
    };
    for (name, misses) in MISSES {
        for index in [0, 1] {
            assert!(misses[index] >= bound(index), "{name} beats Belady");
        }
    }
}

//! Miss ratios on real traces compared with those of the reference simulator, through the trace's
//! readers. It runs the small traces and the policies that must agree exactly. The tests of the
//! policies show how close the others are, and why.

use sim::Spec;
use sim::{Columns, Configuration, Interner, Interning, Rules, Unit, sweep};
use std::fs::File;
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// Name in the reference, and file.
const TRACES: &[(&str, &str)] = &[
    ("lirs_sprite", "lirs_sprite.trc.zst"),
    ("lirs_multi3", "lirs_multi3.trc.zst"),
    ("lirs_2pools", "lirs_2pools.trc.zst"),
    ("web07", "web07.txt.zst"),
    ("web_adaptsize", "web_adaptsize.csv.zst"),
    ("cloudphysics", "cloudphysics.oracleGeneral.bin.zst"),
    ("cloudphysics", "cloudphysics.vscsi.zst"),
];

/// The reference's name of a policy, and ours.
const POLICIES: &[(&str, &str)] = &[
    ("fifo", "fifo"),
    ("lru", "lru"),
    ("clock", "clock"),
    ("clock-2bit", "clock:2"),
    ("sieve", "sieve"),
    ("lfu", "lfu"),
    ("belady", "belady"),
];

const ALLOWED: f64 = 1e-4;

struct Row {
    policy: &'static str,
    unit: Unit,
    capacity: u64,
    miss_ratio: f64,
    byte_miss_ratio: Option<f64>,
}

fn rows(shared: &Path, trace: &str) -> Vec<Row> {
    let text = std::fs::read_to_string(shared.join("reference/miss_ratio.csv"));
    let text = text.expect("the reference is beside the traces");
    let mut rows = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(',').collect();
        let [name, policy, unit, _, capacity, _, ratio, byte_ratio] = fields[..] else {
            panic!("the reference has a line that reads '{line}'");
        };
        let known = POLICIES.iter().find(|(theirs, _)| *theirs == policy);
        if let Some((_, policy)) = known
            && name == trace
        {
            rows.push(Row {
                policy,
                unit: if unit == "bytes" {
                    Unit::Bytes
                } else {
                    Unit::Objects
                },
                capacity: capacity.parse().expect("a size is a number"),
                miss_ratio: ratio.parse().expect("a miss ratio is a number"),
                byte_miss_ratio: byte_ratio.parse().ok(),
            });
        }
    }
    rows
}

fn read(path: &Path) -> Columns {
    let name = path.to_str().expect("the path is text");
    let file = File::open(path).expect("the trace can be opened");
    let requests = trace::read(name, file).expect("the format is known");
    Interner::all(name, Interning::default(), requests).expect("the trace is whole")
}

pub fn exact_policies_miss_as_often_as_in_the_reference(shared: &Path) {
    let mut far = Vec::new();
    let mut count = 0;
    for (name, file) in TRACES {
        let columns = read(&shared.join("traces").join(file));
        for row in rows(shared, name) {
            // The reference read the other of the two files, in which no object changes its size.
            if file.contains(".vscsi") && row.unit == Unit::Bytes {
                continue;
            }
            let configuration = Configuration {
                policy: row.policy.parse::<Spec>().expect("a policy of the list"),
                capacity: row.capacity,
            };
            let rules = Rules {
                unit: row.unit,
                ..Rules::default()
            };
            let found = sweep(&columns, &rules, &[configuration], 1, &AtomicU64::new(0));
            let counts = found.expect("the future is known").remove(0).counts;
            let ratio = counts.misses as f64 / counts.requests as f64;
            let byte_ratio = counts.missed_weight as f64 / counts.requested_weight as f64;
            let is_far = (ratio - row.miss_ratio).abs() > ALLOWED
                || row
                    .byte_miss_ratio
                    .is_some_and(|theirs| (byte_ratio - theirs).abs() > ALLOWED);
            count += 1;
            if is_far {
                far.push(format!(
                    "{file} {} {} {}: {ratio:.6} {byte_ratio:.6}, reference {:.6} {:?}",
                    row.policy,
                    row.unit.name(),
                    row.capacity,
                    row.miss_ratio,
                    row.byte_miss_ratio
                ));
            }
        }
    }
    assert!(
        far.is_empty(),
        "{} of {count} are far:\n{}",
        far.len(),
        far.join("\n")
    );
    assert!(count >= 100, "only {count} rows were compared");
}

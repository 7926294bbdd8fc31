//! Reads published traces, which are not part of the repository. The tests are ignored if the
//! folder does not exist.

use libtest_mimic::{Arguments, Completion, Trial};

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Cursor;
use std::path::PathBuf;
use trace::Spool;

/// Folder of the traces, next to the repository.
fn folder() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../shared/traces"
    ))
}

fn main() {
    let on_traces = |name, test: fn()| {
        Trial::ignorable_test(name, move || {
            if !folder().is_dir() {
                return Ok(Completion::ignored_with("there are no traces in ../shared"));
            }
            test();
            Ok(Completion::Completed)
        })
    };
    let tests = vec![
        on_traces(
            "numbers_of_requests_and_objects_match_the_readme",
            numbers_of_requests_and_objects_match_the_readme,
        ),
        on_traces(
            "both_formats_of_one_trace_have_the_same_requests",
            both_formats_of_one_trace_have_the_same_requests,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), tests).exit();
}

/// File, number of requests and number of objects, from the traces' README.
const TRACES: &[(&str, u64, usize)] = &[
    ("cloudphysics.vscsi.zst", 113_872, 48_974),
    ("cloudphysics.oracleGeneral.bin.zst", 113_872, 48_974),
    ("arc_oltp.lis.zst", 914_145, 186_880),
    ("arc_p3.lis.zst", 3_912_296, 762_543),
    ("arc_p6.lis.zst", 12_672_123, 773_770),
    ("ecommerce_recs.txt.zst", 1_245_184, 258_368),
    ("orm_busy.txt.zst", 5_000_000, 76_349),
    ("web07.txt.zst", 76_118, 20_484),
    ("lirs_sprite.trc.zst", 133_996, 7_075),
    ("lirs_multi3.trc.zst", 30_241, 7_454),
    ("lirs_2pools.trc.zst", 100_000, 9_939),
    ("web_adaptsize.csv.zst", 66_987, 36_815),
    ("twitter_cluster52.csv.zst", 10_000_000, 897_664),
];

fn numbers_of_requests_and_objects_match_the_readme() {
    for &(name, requests_wanted, objects_wanted) in TRACES {
        let path = folder().join(name);
        let file = File::open(&path).expect("the folder holds all traces");
        let (mut requests, mut objects) = (0, HashSet::new());
        for request in trace::read(name, file).expect("the format is known") {
            objects.insert(request.expect("the trace is whole").key);
            requests += 1;
        }
        assert_eq!(
            (requests, objects.len()),
            (requests_wanted, objects_wanted),
            "{name}"
        );
    }
}

fn both_formats_of_one_trace_have_the_same_requests() {
    let names = [
        "cloudphysics.vscsi.zst",
        "cloudphysics.oracleGeneral.bin.zst",
    ];
    let [first, second] =
        names.map(|name| File::open(folder().join(name)).expect("the folder holds all traces"));
    let first = trace::read(names[0], first).expect("the format is known");
    let second = trace::read(names[1], second).expect("the format is known");
    let mut spool = Spool::new(Cursor::new(Vec::new()));
    for request in first {
        spool
            .push(&request.expect("whole"))
            .expect("memory is there");
    }
    assert!(spool.annotate(1 << 13).expect("memory is there") > 1);
    let first = spool.requests().expect("memory is there");
    let mut sizes = HashMap::new();
    for (first, second) in first.zip(second) {
        let (first, second) = (first.expect("memory is there"), second.expect("whole"));
        assert_eq!(first.key, second.key);
        // oracleGeneral stores the size of an object's first request for all of its requests.
        let size = *sizes.entry(first.key).or_insert(first.size);
        assert_eq!(second.size, size);
        // It stores whole seconds.
        assert_eq!(first.time_ms / 1000, second.time_ms / 1000);
        assert_eq!(first.next_access, second.next_access);
    }
}

//! `mayfly edge simulate`: output and errors.

use super::{TemporaryFile, refusal, run, stdout};

fn simulate(words: &str) -> String {
    stdout(run(&format!("edge simulate {words}")))
}

#[test]
fn results_of_a_generated_trace_are_printed_as_text_json_and_a_page() {
    let page = TemporaryFile::new("page.html", "");
    let small = "web --requests 5k --size 20% --base-size 20% --report-window 12h";
    let text = simulate(&format!("{small} --html {page}"));
    assert!(text.contains("c2dn:3:3"), "{text}");
    assert!(
        text.contains("c2dn:3:1 misses fewer bytes than replicas:2, by: at least 8 %."),
        "{text}"
    );
    assert!(text.contains("Coordination of servers"), "{text}");
    let html = std::fs::read_to_string(&page.0).expect("it was written");
    for wanted in [
        "Table 5.2",
        "Table 5.3",
        "5.8",
        "5.9a",
        "5.9b",
        "5.10a",
        "5.10b",
        "5.11",
        "5.12d",
    ] {
        assert!(html.contains(wanted), "{wanted}");
    }
    let more = "--json --sweep-only --scheme c2dn:4:2,c2dn-flow:4:2 --no-peer-probe";
    let json = simulate(&format!("{small} {more}"));
    let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(json["sweep"][0]["scheme"], "c2dn:4:2");
    assert_eq!(json["sweep"][0]["coordination"], "none, no peer probe");
    assert_eq!(
        json["sweep"][0]["written_bytes"].as_array().map(Vec::len),
        Some(10)
    );
    // Both schemes place parity by load, with different algorithms.
    assert_eq!(json["sweep"][1]["scheme"], "c2dn-flow:4:2");
    assert_ne!(
        json["sweep"][0]["written_bytes"],
        json["sweep"][1]["written_bytes"]
    );
    assert_eq!(json["failures"].as_array().map(Vec::len), Some(0));
}

#[test]
fn equal_seeds_give_equal_results_for_any_number_of_jobs() {
    let reported = |seed: u32, jobs: u32| {
        let small = "--requests 3k --sweep-only --json --outages drawn";
        let text = simulate(&format!("{small} --seed {seed} --jobs {jobs}"));
        let mut json: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        json["requests_per_second"] = 0.into();
        json
    };
    assert_eq!(reported(1, 1), reported(1, 4));
    assert_ne!(reported(1, 1), reported(2, 1));
}

#[test]
fn outages_are_read_from_a_file_and_may_include_all_servers() {
    let trace: String = (0..40)
        .map(|at| format!("{},{},200000\n", at * 60, at % 4))
        .collect();
    let trace = TemporaryFile::new("t.csv", format!("time,key,size\n{trace}"));
    let down = TemporaryFile::new("down.txt", "\n\n0 1 2 3 4 5\n5 4 3 2 1 0\n");
    let sizes = "--size 100mb --base-size 100mb --warmup-share 20%";
    let text = simulate(&format!(
        "{trace} --servers 6 {sizes} --sweep-only --json --outages {down}"
    ));
    let json: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    for row in json["outages"].as_array().expect("it is there") {
        // Ten minutes with one request a minute, starting ten minutes after the eight of the
        // warm-up.
        assert_eq!(row["unserved"], 10, "{}", row["scheme"]);
        assert_eq!(row["total"]["requests"], 32);
    }
}

#[test]
fn invalid_arguments_are_refused() {
    let unsized_trace = TemporaryFile::new("ids.txt", "1\n2\n1\n");
    let huge = TemporaryFile::new("huge.csv", "time,key,size\n0,1,100000000000\n");
    let empty = TemporaryFile::new("empty.csv", "time,key,size\n0,1,0\n1,2,0\n");
    let down = TemporaryFile::new("bad.txt", "1\nx\n");
    let absent = TemporaryFile::new("absent.txt", "10 11\n12\n");
    let cases: &[(&str, &str)] = &[
        (
            "--scheme c2dn:0:1",
            "K, the number of data chunks, is at least 1",
        ),
        (
            "--scheme c2dn:3:0",
            "P, the number of parity chunks, is at least 1",
        ),
        ("--scheme replicas:0", "at least one copy"),
        ("--scheme none,none", "none is given twice"),
        ("--size 18%,18%", "18% is given twice"),
        ("--size 18%,18.0%", "18.0% is given twice"),
        ("--servers 10,10", "10 is given twice"),
        ("--scheme raid", "expected none, replicas:COUNT"),
        (
            "--servers 3",
            "spreads an object over 4 servers, but the cluster has 3",
        ),
        ("--servers 0 --scheme none", "0 servers"),
        ("--servers 5000", "at most 4096"),
        (
            "--server-weights 1,1,0,1,1,1,1",
            "server weight 0: expected at least 1",
        ),
        ("--policy belady", "needs future requests"),
        ("--buckets 0", "0 buckets"),
        ("--requests 10", "10 requests: expected from 1000"),
        ("--max-object-size 1kb", "largest object of"),
        (
            "--max-object-size 100gb",
            "--max-object-size: expected less than 4 GiB",
        ),
        ("--size 0", "expected more than 0"),
        ("--report-window 0", "--report-window"),
        (
            "--report-window 1ms",
            "at most 20000; give a longer --report-window",
        ),
        ("--coordinated-eviction --policy lru", "cannot be used with"),
        (
            "--no-coordination --coordination-policies lru",
            "cannot be used with",
        ),
        (
            "--servers 4096 --buckets 16384 --scheme c2dn-flow:3:1",
            "buckets × servers for a max-flow",
        ),
        ("--request-rate 0", "more than 0 requests a second"),
        (
            "--request-rate 1e-12 --outages drawn",
            "expected at most 95 years",
        ),
        ("--min-coded-size 5gb", "less than 4 GiB"),
        ("--memory-limit 20kb", "--memory-limit"),
        ("--outages /nonexistent/down", "is not the word drawn"),
        (&format!("--outages {down}"), "expected numbers of servers"),
        (
            &format!("--outages {absent}"),
            "names none of the servers 0 to 9",
        ),
        ("/nonexistent/trace.csv", "cannot open"),
        (
            &unsized_trace.to_string(),
            "has no object sizes above one byte",
        ),
        (&empty.to_string(), "above one byte"),
        (
            &huge.to_string(),
            "huge.csv:2: expected a whole number below 2^32 as size",
        ),
    ];
    for (words, wanted) in cases {
        let small = match words.contains("--requests") {
            true => "",
            false => "--requests 2k",
        };
        let error = refusal(run(&format!("edge simulate {words} {small}")));
        assert!(error.contains(wanted), "{words}: {error}");
    }
}

#[test]
fn a_failure_after_the_end_of_the_trace_is_reported() {
    let text = simulate("web --requests 2k --size 50% --scheme none --report-window 3d");
    assert!(text.contains("No results of failures"), "{text}");
    assert!(text.contains("the trace ends before"), "{text}");
}

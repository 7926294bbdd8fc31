//! `mayfly sim learned` and `mayfly sim segment-knobs` with small traces.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the JSON report of an experiment that must succeed.
fn report(arguments: &str) -> Value {
    let program = env!("CARGO_BIN_EXE_mayfly");
    let arguments = ["sim"].into_iter().chain(arguments.split(' '));
    let output = Command::new(program).args(arguments).arg("--json").output();
    let output = output.expect("the program was built for this test");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).expect("the report is JSON")
}

fn list(value: &Value, pointer: &str) -> Vec<Value> {
    let found = value.pointer(pointer).and_then(Value::as_array);
    found
        .unwrap_or_else(|| panic!("{pointer} is a list in {value}"))
        .clone()
}

fn number(row: &Value, field: &str) -> f64 {
    let value = row.pointer(field).and_then(Value::as_f64);
    value.unwrap_or_else(|| panic!("{field} is a number in {row}"))
}

/// Generates a trace of popular objects between scans.
fn scanned_trace_file(name: &str, requests: &str, seed: u64) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let recipe = "--objects 5k --pattern zipf:0.9@80+scan:1000@20 --size lognormal:200:1";
    let made = Command::new(env!("CARGO_BIN_EXE_mayfly"))
        .args(["trace", "generate"])
        .arg(&path)
        .args(recipe.split(' '))
        .args(["--requests", requests, "--seed", &seed.to_string()])
        .status();
    assert!(made.is_ok_and(|status| status.success()));
    path
}

/// The page has each figure of the source, the document each table.
#[test]
fn each_figure_of_learned_eviction_has_results() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("learned");
    std::fs::create_dir_all(&folder).expect("the folder can be made");
    let (html, markdown) = (folder.join("report.html"), folder.join("report.md"));
    let rounds = [
        "ceiling",
        "baselines",
        "table",
        "warm-up",
        "features",
        "engine",
        "knobs",
    ];
    let place =
        |round: &&str| format!("<!-- learned {round}: begin -->\n<!-- learned {round}: end -->\n");
    let places: String = rounds.iter().map(place).collect();
    std::fs::write(&markdown, places).expect("the folder is there");
    let knobs = "--group 5,60 --fraction 0.02,0.5 --merged 2,5 --interval 4,8 --samples 512,8192 --trees 2,16 --depth 1,6";
    let trace = scanned_trace_file("learned/made.csv", "30k", 1);
    let report = report(&format!(
        "learned {} --size 2%,10% --policy lru,lrb,gl-cache:e,gl-cache:e:group=5 --engine segcache,lru {knobs} \
         --jobs 2 --html {} --markdown {}",
        trace.display(),
        html.display(),
        markdown.display()
    ));
    assert_eq!(number(&report, "/traces/0/requests"), 30_000.0);
    let rows = list(&report, "/rows");
    let of = |study: &'static str| rows.iter().filter(move |row| row["study"] == study);
    // By objects and by bytes at two sizes, but for the engine, which counts bytes, and for knobs,
    // at the larger size.
    let counts = rounds[..6].iter().map(|study| of(study).count());
    assert_eq!(
        counts.collect::<Vec<_>>(),
        [8 * 4, 5 * 4, 4 * 4, 2 * 4 * 4, 5 * 4, 2 * 2]
    );
    assert_eq!(of("group").count(), 2 * 2 * 2);
    for knob in [
        "fraction", "merged", "interval", "samples", "trees", "depth",
    ] {
        assert_eq!(of(knob).count(), 2 * 2, "{knob}");
    }
    for row in of("baselines").filter(|row| row["name"] == "fifo") {
        assert_eq!(number(row, "/over_fifo"), 0.0);
        assert_eq!(number(row, "/relative_throughput"), 1.0);
    }
    let ceiling: Vec<_> = of("ceiling").map(|row| number(row, "/hit_ratio")).collect();
    for at in ceiling.chunks(8) {
        // The last two know the future: groups, and objects.
        assert!(at[..6].iter().all(|hits| *hits < at[6]), "{at:?}");
        assert!(at[6] < at[7], "{at:?}");
    }
    let learner = |row: &&&Value| row["name"] == "gl-cache:e:group=5" && row["size"] == "10%";
    for row in of("baselines").collect::<Vec<_>>().iter().filter(learner) {
        assert!(number(row, "/learned/trainings") > 1.0, "{row}");
        assert!(number(row, "/learned/model_age") < 30_000.0);
        assert!(number(row, "/learned/groups_evicted") > 100.0);
        assert!((-1.0..=1.0).contains(&number(row, "/learned/rank_correlation")));
        assert_eq!(list(row, "/learned/fifths").len(), 5);
        let shares = ["/learned/training_share", "/learned/inference_share"];
        let shares = shares.map(|share| number(row, share));
        assert!(
            shares[0] > 0.0 && shares[1] > 0.0 && shares[0] + shares[1] <= 1.0,
            "{row}"
        );
        let importances = list(row, "/learned/importances");
        let sum: f64 = importances.iter().map(|one| number(one, "/1")).sum();
        assert!(importances.len() == 9 && (sum - 1.0).abs() < 1e-3, "{row}");
    }
    let hits = |row: &Value| number(row, "/hit_ratio");
    let seen: Vec<f64> = of("features").map(hits).collect();
    assert!(seen.windows(2).any(|two| two[0] != two[1]), "{seen:?}");
    let page = std::fs::read_to_string(&html).expect("the page was written");
    let document = std::fs::read_to_string(&markdown).expect("the document is there");
    for figure in 6..=17 {
        let mentions = |text: &str| text.contains(&format!("6.{figure}"));
        // The spectrum is a plot of what the tables of others hold.
        assert!(
            mentions(&page) && (mentions(&document) || figure == 16),
            "figure 6.{figure}"
        );
    }
    for table in [
        "table 6.1",
        "table 6.4",
        "fifths of the predictions",
        "Training and predictions",
    ] {
        assert!(document.contains(table), "{table}");
    }
    for part in document.split("begin -->").skip(1) {
        assert!(part.contains("| made |"), "{part}");
    }
}

#[test]
fn a_week_is_generated_without_a_trace() {
    let report =
        report("learned --limit 20k --round warm-up --size 10% --unit objects --policy lru");
    let span_ms = number(&report, "/traces/0/span_ms");
    assert!((6.5..7.5).contains(&(span_ms / 86_400e3)), "{span_ms}");
    let rows = list(&report, "/rows");
    let found: Vec<_> = rows
        .iter()
        .map(|row| [row["name"].as_str(), row["value"].as_str()])
        .collect();
    let wanted = [
        ["fifo", "1/7"],
        ["lru", "1/7"],
        ["fifo", "3/7"],
        ["lru", "3/7"],
    ];
    assert_eq!(found, wanted.map(|two| two.map(Some)));
}

#[test]
fn replays_by_bytes_are_left_out_for_a_trace_without_sizes() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("learned-ids.txt");
    let ids: String = (0..2000u64).map(|i| format!("{}\n", i * i % 311)).collect();
    std::fs::write(&path, ids).expect("the folder is there");
    let report = report(&format!(
        "learned {} --round ceiling,engine --unit objects,bytes --size 10%",
        path.display()
    ));
    let rows = list(&report, "/rows");
    assert_eq!(rows.len(), 8);
    assert!(rows.iter().all(|row| row["unit"] == "objects"));
    let expected = ["bytes on learned-ids", "the round engine on learned-ids"];
    assert_eq!(list(&report, "/left_out"), expected);
}

#[test]
fn three_traces_are_shown_as_boxes() {
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join("learned-traces.html");
    let document = page.with_extension("md");
    let trace = |name, seed| {
        let path = scanned_trace_file(name, "4k", seed);
        path.display().to_string()
    };
    let traces = [
        trace("learned-a.csv", 1),
        trace("learned-b.csv", 2),
        trace("learned-c.csv", 3),
    ];
    let report = report(&format!(
        "learned {} --round ceiling,baselines,engine --unit bytes --size 20% --limit 3k --policy lru --engine segcache:segment=4mb \
         --html {} --markdown {}",
        traces.join(" "),
        page.display(),
        document.display()
    ));
    assert_eq!(list(&report, "/traces").len(), 3);
    let rows = list(&report, "/rows");
    assert_eq!(rows.len(), 3 * (8 + 2 + 1));
    let left_out = list(&report, "/left_out");
    assert_eq!(left_out.len(), 3);
    assert_eq!(
        left_out[0],
        "segcache:segment=4mb on learned-a at 20% of the bytes"
    );
    let page = std::fs::read_to_string(&page).expect("the page was written");
    assert!(page.contains("Left out, because the cache is too small"));
    // The ceiling, hit ratios, throughput, and what was learned: nothing; then the spectrum, trace
    // by trace.
    assert_eq!(page.matches("<figure>").count(), 1 + 2 + 3);
    let document = std::fs::read_to_string(&document).expect("the tables were written");
    assert!(document.contains("| bytes | 20% | 3 | "), "{document}");
}

#[test]
fn parts_and_parameters_of_the_segment_engine_are_compared() {
    let trace = scanned_trace_file("segment-knobs.csv", "10k", 1);
    let page = trace.with_extension("html");
    let report = report(&format!(
        "segment-knobs {} --size 1mb,2mb --ttl-mix none,2s:1 --merged 3,4 --segment-size 16kb,4mb --html {}",
        trace.display(),
        page.display()
    ));
    let rows = list(&report, "/rows");
    let of = |study: &str| rows.iter().filter(|row| row["study"] == study).count();
    assert_eq!([of("merged"), of("segment")], [2 * 2, 2 * 2]);
    assert_eq!([of("engines"), of("ablation")], [2 * 2 * 4, 2 * (4 + 6)]);
    for row in rows.iter().filter(|row| row["miss_ratio"].is_number()) {
        assert!((0.0..=1.0).contains(&number(row, "/miss_ratio")), "{row}");
    }
    let is_small = |row: &&Value| row["name"] == "4096 KiB";
    assert!(
        rows.iter()
            .filter(is_small)
            .all(|row| row["miss_ratio"].is_null())
    );
    let page = std::fs::read_to_string(&page).expect("the page was written");
    assert!(page.contains("no proactive expiry") && page.contains("too little memory"));
}

#[test]
fn bad_arguments_are_refused_before_a_replay() {
    let cases = [
        ("learned /nowhere.csv", "cannot read /nowhere.csv"),
        (
            "learned --round nonsense",
            "round 'nonsense': expected one of",
        ),
        ("learned --size nonsense", "size 'nonsense': expected"),
        ("learned --policy nonsense", "nonsense"),
        ("learned --depth 99", "gl-cache:e:way=model:depth=99"),
        ("learned --repeats 0", "repeats must be above 0"),
        ("learned --limit 0", "--limit must be above 0"),
        (
            "learned --unit nonsense",
            "unit 'nonsense': expected objects or bytes",
        ),
        ("segment-knobs /nowhere.csv", "cannot read /nowhere.csv"),
        ("segment-knobs --ttl-mix cluster99", "expected cluster4"),
        ("segment-knobs --segment-size 1q", "size '1q': expected"),
    ];
    for (arguments, expected) in cases {
        let program = env!("CARGO_BIN_EXE_mayfly");
        let arguments = ["sim"].into_iter().chain(arguments.split(' '));
        let output = Command::new(program).args(arguments.clone()).output();
        let output = output.expect("the program was built for this test");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && errors.contains(expected),
            "{expected}: {errors}"
        );
    }
}

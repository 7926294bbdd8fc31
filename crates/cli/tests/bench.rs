//! Runs every experiment of `mayfly bench`, with tiny sizes, with this program as the server.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn bench(arguments: &[&str]) -> std::process::Output {
    let program = env!("CARGO_BIN_EXE_mayfly");
    let output = Command::new(program).arg("bench").args(arguments).output();
    output.expect("the program was built for this test")
}

/// Returns the report of an experiment that must succeed.
fn report(arguments: &str) -> Value {
    let arguments: Vec<&str> = arguments.split(' ').chain(["--json"]).collect();
    let output = bench(&arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    serde_json::from_slice(&output.stdout).expect("the report is JSON")
}

/// Returns the rows of a report that is a list.
fn rows(arguments: &str) -> Vec<Value> {
    list(&report(arguments), "")
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

/// Returns `--peer redis` if redis-server is installed.
fn peer() -> &'static str {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut programs = std::env::split_paths(&path).map(|folder| folder.join("redis-server"));
    if programs.any(|program| program.is_file()) {
        " --peer redis"
    } else {
        ""
    }
}

#[test]
fn throughput_reports_cpu_time_of_every_test_and_pipeline() {
    let text = "throughput --keys 100 --clients 3 --rounds 2 --seconds 0.05 --pipeline 1,8 --tests get,set,setex,incr,ping";
    let rows = rows(&format!("{text}{}", peer()));
    let contestants = 1 + usize::from(!peer().is_empty());
    assert_eq!(rows.len(), 5 * 2 * contestants);
    for row in &rows {
        assert!(number(row, "/cpu_us_median") > 0.0);
        assert!(number(row, "/first_over_this") > 0.0);
    }
    assert_eq!(number(&rows[0], "/first_over_this"), 1.0);
}

#[test]
fn threads_compares_numbers_of_data_threads() {
    let rows = rows(
        "threads --keys 100 --clients 3 --rounds 1 --seconds 0.05 --pipeline 8 --tests get --threads 1,2",
    );
    let servers: Vec<_> = rows.iter().map(|row| row["server"].as_str()).collect();
    assert_eq!(
        servers,
        [Some("mayfly --threads 1"), Some("mayfly --threads 2")]
    );
}

#[test]
fn every_probe_reports_its_expiration_whatever_the_other_keys_do() {
    let shapes = ["hour", "next-ten-minutes", "same-second", "refreshed"];
    std::thread::scope(|scope| {
        for shape in shapes {
            scope.spawn(move || {
                let rows = rows(&format!(
                    "expiry-lag --others 500 --probes 50 --patience 20s --shape {shape}"
                ));
                assert_eq!(number(&rows[0], "/events/arrived"), 50.0, "{shape}");
                assert!(number(&rows[0], "/events/max_us") < 20e6);
                assert!(number(&rows[0], "/memory/p50_us") < 20e6);
            });
        }
    });
}

#[test]
fn keys_of_one_deadline_go() {
    // It looks no further than until they are gone: a second later, or much later on a busy
    // machine.
    let rows = rows("expiry-mixed --others 2k --dying 1k --after 1,5,20");
    let looks = rows[0]["looks"].as_array().expect("a list of looks");
    let last = looks.last().expect("it looked");
    assert_eq!(number(last, "/dead_keys"), 0.0);
}

#[test]
fn a_storm_passes_and_its_memory_comes_back() {
    let rows = rows("expiry-storm --others 1k --dying 20k --rate 200 --patience 20s");
    assert!(number(&rows[0], "/keys_gone_ms") < 20e3);
    assert!(number(&rows[0], "/storm/count") > 0.0);
    assert!(number(&rows[0], "/quiet/count") > 0.0);
}

#[test]
fn the_platform_compares_every_contestant_with_its_reference() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("platform");
    let html = folder.join("report.html");
    let text = "expiry platform --factor 100 --operations 2000 --group a-small-60-2,i-small-15+30-1 --target 20000";
    let indexes = "--index sampled:release=5:shards=8,buckets:120x1000,wheel";
    let (place, page) = (folder.display(), html.display());
    let report = report(&format!(
        "{text} {indexes} --svg {place} --html {page}{}",
        peer()
    ));
    let contestants = 3 + usize::from(!peer().is_empty());
    let runs = list(&report, "/runs");
    assert_eq!(runs.len(), 2 * contestants);
    for run in &runs {
        let looks = list(run, "/looks");
        let last = looks.last().expect("the monitor looks at least once");
        assert_eq!(number(last, "/operations"), 2000.0);
        assert!(number(run, "/summary/peak_bytes") >= number(run, "/summary/mean_bytes"));
        // On a busy machine most keys expire before others are written.
        assert!(number(run, "/summary/peak_floor_bytes") > 0.0);
        assert!((0.0..=1.0).contains(&number(run, "/summary/hit_ratio")));
        assert_eq!(number(run, "/latencies/count"), 2000.0);
        if run["contestant"] == report["reference"] {
            assert_eq!(number(run, "/change/peak_reduction"), 0.0);
        }
    }
    assert_eq!(runs[1]["index"], "buckets:120x10");
    assert_eq!(list(&report, "/overall").len(), contestants - 1);
    // None is named where none was fast enough, which on a busy machine happens.
    assert!(report["best_buckets"].is_null() || report["best_buckets"] == "buckets:120x1000");
    let page = std::fs::read_to_string(&html).expect("the page was written");
    // One comparison, and four plots for each of two groups.
    assert_eq!(page.matches("<figure>").count(), 9);
    let files = std::fs::read_dir(&folder)
        .expect("the folder was made")
        .count();
    assert_eq!(files, 9 + 1);
}

#[test]
fn indexes_are_compared_in_process_under_each_shape() {
    let page = Path::new(env!("CARGO_TARGET_TMPDIR")).join("in-process.html");
    let text = "expiry in-process --keys 500,1k --runs 1 --shape thousand --index wheel,buckets:120x1000,lazy";
    let groups = list(
        &report(&format!("{text} --html {}", page.display())),
        "/groups",
    );
    assert_eq!(groups.len(), 2);
    for group in &groups {
        let rows = list(group, "/rows");
        assert_eq!(rows.len(), 3);
        assert!(number(&rows[0], "/expired") > 0.0);
        assert_eq!(number(&rows[0], "/lag_ms_max"), 0.0);
        assert!(number(&rows[1], "/lag_ms_mean") > 0.0);
        assert_eq!(number(&rows[2], "/expired"), 0.0);
        let wins = list(group, "/wins");
        // Memory, lag, CPU, and CPU among those that are never later than a second.
        assert_eq!(wins.len(), 4);
        assert_eq!(list(&wins[1], "/by"), ["wheel"]);
    }
    let page = std::fs::read_to_string(&page).expect("the page was written");
    assert_eq!(page.matches("<figure>").count(), 3);
}

#[test]
fn the_index_that_reclaims_nothing_wins_nothing() {
    let text = "expiry in-process --keys 500 --runs 1 --shape thousand --index lazy";
    let output = bench(&text.split(' ').collect::<Vec<_>>());
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success());
    assert!(shown.contains("lazy"), "{shown}");
    assert!(!shown.contains("inf") && !shown.contains("-0"), "{shown}");
}

#[test]
fn keys_are_loaded_with_and_without_ttls_and_a_flood_comes_over_each() {
    let text = "expiry gist --keys 2k --span 50ms --flood 50ms --rounds 2 --index wheel,sampled";
    let rows = list(&report(&format!("{text}{}", peer())), "/rows");
    assert_eq!(rows.len(), 2 + usize::from(!peer().is_empty()));
    for row in &rows {
        assert_eq!(list(row, "/plain").len(), 2);
        assert!(number(row, "/memory_ratio") > 1.0);
        assert!(number(row, "/load_ratio") > 0.0);
        assert!(number(row, "/expires/1/ttl/operations_per_second") > 0.0);
        assert!(
            (1.0..=4000.0).contains(&number(row, "/flood/keys")),
            "{row}"
        );
    }
}

#[test]
fn elements_are_measured_in_every_round_type_and_layout() {
    std::thread::scope(|scope| {
        for (kind, commands) in [("hash", 10), ("set", 7), ("zset", 7)] {
            scope.spawn(move || elements_of(kind, commands));
        }
    });
}

fn elements_of(kind: &str, commands: usize) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("elements-{kind}"));
    let html = folder.join("report.html");
    let sizes = "--elements 2k --rounds 1 --clients 3 --probes 50 --rate 500";
    let (place, page) = (folder.display(), html.display());
    let report = report(&format!(
        "elements --type {kind} {sizes} --settle 100ms --patience 20s --svg {place} --html {page}"
    ));
    let layouts = 2;
    let memory = list(&report, "/memory");
    assert_eq!(memory.len(), layouts * 2);
    for row in &memory {
        let used = number(row, "/used_per_element");
        assert!((10.0..1000.0).contains(&used), "{row}");
    }
    let throughput = list(&report, "/throughput");
    assert_eq!(throughput.len(), commands * layouts);
    for row in &throughput {
        assert!(number(row, "/cpu_us_median") > 0.0);
        assert_eq!(number(row, "/over_first"), 1.0);
    }
    let drain = list(&report, "/drain");
    assert_eq!(drain.len(), layouts);
    for row in &drain {
        assert!(number(row, "/alone/gone_ms") < 20e3);
        assert!(number(row, "/alone/pings/count") > 0.0);
        assert!(number(row, "/loader_beside/gone_ms") < 20e3);
        assert!(number(row, "/loader/seconds") > 0.0);
        let looks = list(row, "/alone/looks");
        let last = looks.last().expect("it looked");
        assert_eq!(number(last, "/reclaimed"), 2000.0);
    }
    for row in list(&report, "/lag") {
        assert_eq!(number(&row, "/events/arrived"), 50.0);
        assert_eq!(number(&row, "/memory/arrived"), 50.0);
    }
    assert!(list(&report, "/left_out").is_empty());
    let page = std::fs::read_to_string(&html).expect("the page was written");
    // Memory, then a plot for each layout in two rounds.
    assert_eq!(page.matches("<figure>").count(), 1 + 2 * layouts);
}

/// Debian's Redis has no TTLs of fields.
#[test]
fn what_a_peer_cannot_do_is_left_out_with_a_line() {
    if peer().is_empty() {
        return;
    }
    let text = "elements --elements 1k --rounds 1 --settle 1s --layout one --type set --round memory,throughput,drain,lag --patience 20s --rate 500 --probes 20 --peers-only --peer redis";
    let report = report(text);
    assert_eq!(list(&report, "/memory").len(), 1);
    assert_eq!(list(&report, "/throughput").len(), 2);
    assert!(list(&report, "/drain").is_empty() && list(&report, "/lag").is_empty());
    let left_out = list(&report, "/left_out");
    assert_eq!(left_out.len(), 4);
    assert_eq!(left_out[0]["command"], "SPEXPIREAT");
}

#[test]
fn memory_is_reported_for_every_case() {
    let rows = rows("memory --keys 20k --case plain,ttl,policy,shrink --settle 1s");
    assert_eq!(rows.len(), 4);
    for row in &rows {
        let used = number(row, "/used_per_key");
        assert!((10.0..1000.0).contains(&used), "{row}");
    }
    assert!(number(&rows[3], "/over_fresh") > 0.0);
}

/// Returns a trace of 2,000 requests to 200 keys.
fn trace_file(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let line = |i: u64| format!("{},{},{}\n", i / 100, i * i % 200, i % 50);
    let text = String::from("time,key,size\n") + &(0..2000).map(line).collect::<String>();
    std::fs::write(&path, text).expect("the folder is there");
    path
}

#[test]
fn a_trace_is_replayed_in_closed_and_in_open_loop() {
    let path = trace_file("replay.csv");
    let distinct = (0..2000u64)
        .map(|i| i * i % 200)
        .collect::<std::collections::HashSet<_>>();
    for pace in ["", " --rate 10000", " --pipeline 8 --threads 2"] {
        let trace = path.display();
        let rows = rows(&format!(
            "replay --trace {trace} --ttl-mix cluster4 --clients 2{pace}{}",
            peer()
        ));
        for row in &rows {
            assert_eq!(number(row, "/requests"), 2000.0);
            // TTLs of a minute and more: each key is missed once, or twice by requests in flight.
            let misses = 2000.0 - number(row, "/hits");
            let least = distinct.len() as f64;
            assert!(
                (least..=least * 3.0).contains(&misses),
                "{misses} of {least}: {row}"
            );
            assert!(number(row, "/cpu_us_per_operation") > 0.0);
            assert!(number(row, "/memory/used/peak") > 0.0);
        }
    }
    let rows = rows(&format!(
        "replay --trace {} --ttl-mix none --limit 500 --maxmemory 100mb",
        path.display()
    ));
    assert_eq!(number(&rows[0], "/requests"), 500.0);
}

/// Returns the engines whose programs are installed; ours always are.
fn engines() -> Vec<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &str| std::env::split_paths(&path).any(|f| f.join(name).is_file());
    let mut all = vec!["segment", "slab"];
    if is_there("memcached") {
        all.extend(["memcached", "no-crawler"]);
    }
    if is_there("redis-server") {
        all.push("redis");
    }
    all
}

/// Returns 6,000 requests to 3,000 keys of some 4 kB in 60 s: more than the least that servers are
/// given.
fn large_trace_file(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let line = |i: u64| {
        format!(
            "{},{},{}\n",
            i / 100,
            i * i % 3001,
            4000 + i * i % 3001 % 100
        )
    };
    let text = String::from("time,key,size\n") + &(0..6000).map(line).collect::<String>();
    std::fs::write(&path, text).expect("the folder is there");
    path
}

#[test]
fn engines_are_compared_by_misses_and_speed() {
    let trace = large_trace_file("segment.csv");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("segment");
    let (html, markdown) = (folder.join("report.html"), folder.join("report.md"));
    let engines = engines();
    let text = format!(
        "segment --trace {} --engine {} --size 16mb --ttl-mix none,12s:1@2 --span 5s --keys 500 --connections 4 \
         --rounds 1 --seconds 0.02 --svg {} --html {} --markdown {}",
        trace.display(),
        engines.join(","),
        folder.display(),
        html.display(),
        markdown.display()
    );
    let report = report(&text);
    assert!(list(&report, "/left_out").is_empty());
    let misses = list(&report, "/misses");
    assert_eq!(misses.len(), 2 * engines.len());
    for row in &misses {
        assert_eq!(number(row, "/counts/reads"), 6000.0);
        // Each key is missed once at least, and the second half of them are hits where there is
        // room.
        assert!((0.1..0.9).contains(&number(row, "/miss_ratio")), "{row}");
        assert!(number(row, "/cpu_us_per_operation") > 0.0);
    }
    // What expires is missed more often than what does not.
    let (endless, ending) = misses.split_at(misses.len() / 2);
    for (endless, ending) in endless.iter().zip(ending) {
        assert_eq!(endless["engine"], ending["engine"]);
        assert!(
            number(ending, "/miss_ratio") > number(endless, "/miss_ratio"),
            "{ending}"
        );
    }
    let speed = list(&report, "/speed");
    assert_eq!(speed.len(), 2 * 2 * engines.len());
    for row in &speed {
        assert!(number(row, "/cpu_us_median") > 0.0);
    }
    let page = std::fs::read_to_string(&html).expect("the page was written");
    assert!(page.contains("mayfly slab"));
    let tables = std::fs::read_to_string(&markdown).expect("the tables were written");
    assert!(tables.contains("÷ memcached"), "{tables}");
}

#[test]
fn mistakes_in_arguments_are_reported_clearly() {
    let bad = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bad.csv");
    std::fs::write(&bad, "time,key,size\n1,2,3\n1,2\n").expect("the folder is there");
    let bad = bad.display().to_string();
    let cases: &[(&str, &str)] = &[
        ("replay --trace /nowhere.csv", "cannot read /nowhere.csv"),
        (
            "replay --trace BAD",
            "bad.csv:3: expected one column for each name",
        ),
        (
            "replay --trace BAD --ttl-mix cluster99",
            "expected cluster4",
        ),
        (
            "replay --trace BAD --ttl-scale 0",
            "--ttl-scale must be above 0",
        ),
        ("replay --trace BAD --rate 0", "--rate must be"),
        ("throughput --peer nobody", "\"nobody\" is no HOST:PORT"),
        ("throughput --peer memcached", "does not speak RESP"),
        ("throughput --peer redis=/nowhere", "cannot start /nowhere"),
        ("throughput --rounds 0", "--rounds"),
        (
            "throughput --keys 1x",
            "count '1x': expected a whole number",
        ),
        ("throughput --server-cpu x", "not a list of CPUs"),
        ("throughput --peers-only", "nobody to measure"),
        ("throughput --address 127.0.0.1:1", "cannot connect"),
        ("memory --keys 1", "--keys must be at least 2"),
        (
            "expiry-lag --patience 1y",
            "time '1y': expected a span of time",
        ),
        ("expiry platform --factor 0", "--factor must be"),
        ("expiry platform --factor 30", "no whole number"),
        ("expiry platform --group b-small-60-4", "is not a group"),
        ("expiry platform --index nonsense", "nonsense"),
        ("expiry platform --operations 0", "--operations"),
        ("expiry gist --keys 0", "--keys"),
        ("elements --elements 0", "--elements"),
        ("elements --rate 0", "--rate"),
        ("elements --type list", "list"),
        ("expiry in-process --keys 100 --runs 0", "--runs"),
        ("segment --trace /nowhere.csv", "cannot read /nowhere.csv"),
        (
            "segment --trace BAD",
            "bad.csv:3: expected one column for each name",
        ),
        ("segment --limit 1k", "too few for a server"),
        ("segment --ttl-mix cluster99", "expected cluster4"),
        ("segment --size 0%", "is no share"),
        ("segment --rounds 0", "--rounds"),
        ("segment --keys 0", "--keys"),
        (
            "segment --round misses --limit 100k --size 64mb --ttl-mix 1s:1",
            "memcached counts whole seconds",
        ),
        (
            "segment --round speed --engine redis --redis /nowhere",
            "cannot start /nowhere",
        ),
        ("expiry in-process --keys 100 --shape nonsense", "no shape"),
    ];
    for (text, wanted) in cases {
        let text = text.replace("BAD", &bad);
        let output = bench(&text.split(' ').collect::<Vec<_>>());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{text}");
        assert!(errors.contains(wanted), "{text}: {errors}");
        assert!(!errors.contains("panicked"), "{text}: {errors}");
    }
}

//! `mayfly sim`: output formats and errors.

use super::{TemporaryFile, mayfly, refusal, run, stdout};
#[cfg(feature = "parquet")]
use parquet::file::reader::{FileReader, SerializedFileReader};
#[cfg(feature = "parquet")]
use parquet::record::RowAccessor;
#[cfg(feature = "parquet")]
use std::fs::File;
use std::io::Write;
use std::process::{Output, Stdio};

/// Eight requests for four objects; the first object is requested four times.
const TRACE: &str =
    "time,key,size\n0,1,10\n1,2,20\n2,1,10\n3,3,30\n4,1,10\n5,4,40\n6,1,10\n7,2,20\n";

fn sim(words: &str) -> Output {
    run(&format!("sim {words}"))
}

#[test]
fn csv_starts_with_the_promised_columns_and_echoes_the_policy_as_given() {
    let file = TemporaryFile::new("a.csv", TRACE);
    let text = stdout(sim(&format!(
        "{file} --csv --ignore-size --policy lru,clock:2,s3fifo:small=0.5 --size 2,75%"
    )));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with(
        "trace,policy,unit,cache_size,requests,misses,miss_ratio,byte_miss_ratio,throughput,\
         evictions,promotions,metadata_bytes,expired_bytes,flash_write_bytes"
    ));
    assert_eq!(lines.len(), 1 + 3 * 2);
    let stem = file.0.file_stem().expect("a path has a last part");
    let name = stem.display();
    // LRU of two objects: 1, 2, 3 and 4 miss, and 2 again.
    assert!(lines[1].starts_with(&format!("{name},lru,objects,2,8,5,0.625,,")));
    assert!(lines[4].starts_with(&format!("{name},clock:2,objects,3,")));
    assert!(lines[5].starts_with(&format!("{name},s3fifo:small=0.5,objects,2,")));
}

#[test]
fn bytes_are_counted_unless_sizes_are_ignored() {
    let file = TemporaryFile::new("b.csv", TRACE);
    // 100 bytes in total. With 40 bytes, the object of 40 evicts all others.
    let text = stdout(sim(&format!("{file} --csv --policy fifo --size 100,40%")));
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[1].contains(",fifo,bytes,100,8,4,0.5,0.6666666666666666,"),
        "{text}"
    );
    assert!(lines[2].contains(",fifo,bytes,40,8,"), "{text}");
}

#[test]
fn json_is_json_with_the_same_columns() {
    let file = TemporaryFile::new("c.csv", TRACE);
    let arguments = format!("{file} --json --policy lru --size 60,1kb");
    let rows: serde_json::Value =
        serde_json::from_str(&stdout(sim(&arguments))).expect("it is JSON");
    assert_eq!(rows[1]["cache_size"], 1024);
    assert_eq!(rows[1]["misses"], 4);
    assert_eq!(rows[0]["unit"], "bytes");
    assert!(rows[0]["flash_write_bytes"].is_null());
}

#[cfg(feature = "parquet")]
#[test]
fn a_parquet_file_holds_the_same_columns() {
    let file = TemporaryFile::new("s.csv", TRACE);
    let table = TemporaryFile::new("s.parquet", "");
    let text = stdout(sim(&format!(
        "{file} --csv --explain --size 50%,100% --parquet {table}"
    )));
    let header = text.lines().next().expect("a header");
    let reader = File::open(&table.0).map(SerializedFileReader::new);
    let reader = reader.expect("it was written").expect("it is whole");
    let columns = reader
        .metadata()
        .file_metadata()
        .schema_descr()
        .columns()
        .to_vec();
    let names: Vec<&str> = columns.iter().map(|column| column.name()).collect();
    assert_eq!(names.join(","), header);
    let rows: Vec<_> = reader.get_row_iter(None).expect("it has rows").collect();
    assert_eq!(rows.len(), 10);
    let first = rows[0].as_ref().expect("a row");
    let cells: Vec<&str> = text.lines().nth(1).expect("a row").split(',').collect();
    let policy = first.get_string(1).expect("a text");
    let misses = first.get_ulong(5).expect("a whole number");
    let ratio = first.get_double(6).expect("a number");
    let values = [policy.clone(), misses.to_string(), ratio.to_string()];
    assert_eq!(values, [cells[1], cells[5], cells[6]]);
    let over_time = first.get_list(names.len() - 1).expect("a list");
    assert_eq!(over_time.len(), 20);
}

#[test]
fn a_table_is_printed_by_default() {
    let file = TemporaryFile::new("d.csv", TRACE);
    let text = stdout(sim(&format!("{file} --size 50%")));
    assert!(text.starts_with("trace"), "{text}");
    assert_eq!(
        text.lines().count(),
        2 + 5,
        "a header, a rule and the default policies"
    );
}

#[test]
fn the_warm_up_is_not_counted() {
    let file = TemporaryFile::new("e.csv", TRACE);
    let arguments = format!("{file} --csv --ignore-size --policy lru --size 2 --warmup-share 50%");
    // Requests 1, 4, 1, 2 are counted: 4 and 2 miss.
    assert!(stdout(sim(&arguments)).contains(",lru,objects,2,4,2,0.5,"));
}

#[test]
fn entries_expire_by_a_mix() {
    let rows: Vec<String> = (0..200).map(|i| format!("{i},{},10\n", i % 2)).collect();
    let file = TemporaryFile::new("f.csv", format!("time,key,size\n{}", rows.concat()));
    let with = |mix: &str| {
        let words = format!("{file} --csv --policy lru --size 1kb --ttl-mix {mix}");
        stdout(sim(&words))
    };
    // Times are in seconds: an object with a TTL of 10 s is requested every 2 s and misses every
    // sixth time.
    let text = with("10s:1");
    assert!(text.contains(",lru,bytes,1024,200,34,"), "{text}");
    let text = with("1h:1");
    assert!(text.contains(",lru,bytes,1024,200,2,"), "{text}");
}

#[test]
fn bad_sizes_are_refused() {
    let file = TemporaryFile::new("g.csv", TRACE);
    let with = |size| refusal(sim(&format!("{file} --size {size}")));
    assert!(with("0").contains("expected more than 0"));
    assert!(with("0%").contains("expected more than 0"));
    assert!(with("1e30gb").contains("size '1e30gb': expected"));
    assert!(with("99999999999999999999gb").contains("expected a number of objects"));
    assert!(with("200%").contains("at most 100 %"));
    assert!(with("ten").contains("size 'ten': expected"));
    assert!(with("0.5").contains("size '0.5': expected"));
    assert!(with("0.001%").contains("less than one"));
    let objects = refusal(sim(&format!("{file} --ignore-size --size 64mb")));
    assert!(objects.contains("objects are counted"));
}

#[test]
fn bad_traces_are_refused() {
    let empty = TemporaryFile::new("h.csv", "");
    assert!(refusal(sim(&format!("{empty}"))).contains(":1:"));
    let header = TemporaryFile::new("i.csv", "time,key,size\n");
    assert!(refusal(sim(&format!("{header}"))).contains("no request"));
    let broken = TemporaryFile::new("j.csv", "time,key,size\n1,2,3\n1,2\n");
    assert!(refusal(sim(&format!("{broken}"))).contains(":3:"));
    assert!(refusal(sim("/nowhere/at.csv")).contains("cannot open"));
    let unknown = TemporaryFile::new("k.dat", TRACE);
    assert!(refusal(sim(&format!("{unknown}"))).contains("must end in"));
    let text = stdout(sim(&format!("{unknown} --format csv --size 50%")));
    assert!(text.starts_with("trace"));
}

#[test]
fn bad_policies_are_refused() {
    let file = TemporaryFile::new("l.csv", TRACE);
    let with = |policy| refusal(sim(&format!("{file} --policy {policy}")));
    assert!(with("lruu").contains("no eviction policy is called 'lruu'"));
    assert!(with("clock:9").contains("expected 1 to 3"));
}

#[test]
fn a_policy_that_needs_future_requests_needs_the_whole_trace() {
    let file = TemporaryFile::new("o.csv", TRACE);
    let whole = stdout(sim(&format!("{file} --csv --policy belady --size 60")));
    assert!(whole.contains(",belady,bytes,60,8,"), "{whole}");
    let error = refusal(sim(&format!(
        "{file} --policy lru,belady --sample 50% --size 60"
    )));
    assert!(
        error.contains("a policy that needs future requests cannot"),
        "{error}"
    );
    // An annotated trace with request numbers of a longer trace that it was cut from.
    let annotated = "time,key,size,next\n0,1,10,2\n1,2,10,7\n2,1,10,-1\n";
    let part = TemporaryFile::new("p.csv", annotated);
    let error = refusal(sim(&format!("{part} --policy belady --size 60")));
    assert!(error.contains("needs future requests"), "{error}");
}

#[test]
fn an_oracle_removes_entries_that_will_not_be_hit() {
    // Only 1 and 2 are requested again. Without an oracle, 3 and 4 evict 2.
    let file = TemporaryFile::new("oracle.csv", TRACE);
    let misses = |more: &str| {
        let words = format!("{file} --csv --ignore-size --policy lru --size 2 {more}");
        let text = stdout(sim(&words));
        let row = text.lines().nth(1).expect("a header and a row");
        row.split(',').nth(5).map(str::to_owned)
    };
    assert_eq!(misses("").as_deref(), Some("5"));
    assert_eq!(misses("--foresight unrequested").as_deref(), Some("4"));
    let expiring = "--foresight expiring";
    assert_eq!(misses(expiring).as_deref(), Some("4"));
    // With TTLs 1 expires once before its next request, and so does 2.
    let mixed = format!("{expiring} --ttl-mix 3s:1");
    assert_eq!(misses(&mixed).as_deref(), Some("6"));
    let error = refusal(sim(&format!(
        "{file} --policy segcache --size 60 {expiring}"
    )));
    assert!(error.contains("--foresight"), "{error}");
}

#[test]
fn a_filter_rejects_missed_objects() {
    let file = TemporaryFile::new("q.csv", TRACE);
    let arguments = format!("{file} --csv --policy fifo --size 1kb --admission size:15");
    // Only the first object is small enough, so the other four requests miss.
    let text = stdout(sim(&arguments));
    assert!(text.contains(",fifo,bytes,1024,8,5,0.625,"), "{text}");
    // A quarter of 40 bytes is 10 bytes, which only the first object does not exceed.
    let arguments = format!("{file} --csv --policy fifo --size 40 --max-object-share 25%");
    let text = stdout(sim(&arguments));
    assert!(text.contains(",fifo,bytes,40,8,5,0.625,"), "{text}");
    let error = refusal(sim(&format!("{file} --admission nonsense")));
    assert!(error.contains("no admission filter is called"), "{error}");
}

#[test]
fn an_explanation_adds_columns() {
    let file = TemporaryFile::new("r.csv", TRACE);
    let with = |form: &str| {
        let words = format!("{file} {form} --ignore-size --policy fifo --size 2 --explain");
        stdout(sim(&words))
    };
    let text = with("--csv");
    let header = text.lines().next().expect("a header");
    assert!(
        header.contains("cpu_seconds,size,demotion_speed,demotion_precision,"),
        "{header}"
    );
    let rows: serde_json::Value = serde_json::from_str(&with("--json")).expect("it is JSON");
    let over_time = rows[0]["miss_ratio_over_time"].as_array().expect("a list");
    assert_eq!(over_time.len(), 20);
    assert_eq!(
        rows.as_array().map(Vec::len),
        Some(1),
        "the LRU replay for explanations is not in the results"
    );
}

#[test]
fn too_little_memory_is_reported_before_it_runs_out() {
    let rows: Vec<String> = (0..100_000).map(|i| format!("{i},{i},10\n")).collect();
    let file = TemporaryFile::new("m.csv", format!("time,key,size\n{}", rows.concat()));
    let error = refusal(sim(&format!("{file} --memory-limit 1mb")));
    assert!(error.contains("--memory-limit"), "{error}");
}

#[test]
fn every_policy_works_with_the_largest_cache_size() {
    let file = TemporaryFile::new("n.csv", TRACE);
    for about in policy::any::POLICIES {
        let words = format!("{file} --csv --policy {} --size 4000000tb", about.name);
        let text = stdout(sim(&words));
        // A policy that rejects new objects misses them again; nothing else may miss twice.
        let row: Vec<&str> = text
            .lines()
            .nth(1)
            .expect("there is a row")
            .split(',')
            .collect();
        let cell = |name: &str| {
            let at = text
                .lines()
                .next()
                .and_then(|header| header.split(',').position(|h| h == name));
            let cell = row[at.unwrap_or_else(|| panic!("there is a column {name}"))];
            cell.parse::<u64>().expect("it is a count")
        };
        assert_eq!(cell("evictions"), 0, "{}: {text}", about.name);
        let refused_again = cell("misses") - 4;
        assert!(refused_again <= cell("refusals"), "{}: {text}", about.name);
        assert!(
            refused_again == 0 || about.name == "b-lru",
            "{}: {text}",
            about.name
        );
    }
}

#[test]
fn a_curve_is_exact_if_the_sample_is_the_whole_trace() {
    let file = TemporaryFile::new("curve.csv", TRACE);
    let arguments = format!("curve {file} --policy lru --size 20,100% --csv");
    let text = stdout(sim(&arguments));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[0].starts_with("trace,policy,unit,cache_size,miss_ratio,low,high"));
    assert!(lines[1].contains(",lru,bytes,20,0.75,0.75,0.75,"), "{text}");
    assert!(lines[2].contains(",lru,bytes,100,0.5,"), "{text}");
    assert_eq!(text, stdout(sim(&format!("{arguments} --exact"))));
}

#[test]
fn odd_curves_are_refused() {
    let file = TemporaryFile::new("odd-curve.csv", TRACE);
    let refused = |more: &str| refusal(sim(&format!("curve {file} {more}")));
    assert!(refused("--points 1").contains("expected 2 to"));
    assert!(refused("--sample 0%").contains("above 0%"));
    assert!(refused("--sample-objects 0").contains("expected 1 to"));
    assert!(refused("--policy nonsense").contains("nonsense"));
    assert!(refused("--size 0").contains("size"));
}

#[test]
fn headlines_are_printed_as_markdown_and_written_as_a_page() {
    let rows = (0..4000u64).map(|n| format!("{n},{},1\n", (n * n) % 1999));
    let text = format!("time,key,size\n{}", rows.collect::<String>());
    let file = TemporaryFile::new("headlines.csv", &text);
    let page = TemporaryFile::new("headlines.html", "");
    let text = stdout(sim(&format!(
        "{file} --headlines --size 1%,20% --policy fifo,lru,clock --html {page}"
    )));
    assert!(text.contains("| clock over lru | 7.3 |"), "{text}");
    // 1 % of 1,000 objects is too few.
    assert!(!text.contains("1%, by objects"), "{text}");
    let html = std::fs::read_to_string(&page.0).expect("the page was written");
    assert!(html.starts_with("<!doctype html>"));
}

#[test]
fn flash_has_a_row_for_each_scheme_and_share_of_dram() {
    let file = TemporaryFile::new("flash.csv", TRACE);
    let text = stdout(sim(&format!(
        "{file} --csv --size 60 --flash-dram-shares 20%,50%"
    )));
    let policies: Vec<&str> = text
        .lines()
        .skip(1)
        .filter_map(|line| line.split(',').nth(1))
        .collect();
    assert_eq!(
        policies,
        [
            "flash-all",
            "flash-probability:dram=20%",
            "flash-probability:dram=50%",
            "flash-learned:dram=20%",
            "flash-learned:dram=50%",
            "flash-s3fifo:dram=20%",
            "flash-s3fifo:dram=50%",
        ]
    );
    // Without DRAM, the bytes written are the bytes missed: 100 bytes of first requests, and 20
    // again.
    let all: Vec<&str> = text.lines().nth(1).unwrap_or_default().split(',').collect();
    let at = text.lines().next().unwrap_or_default().split(',');
    let at = at.into_iter().position(|name| name == "flash_write_bytes");
    let written = at.and_then(|at| all.get(at)).copied();
    assert_eq!(written, Some("130"));
}

/// Regression: the deadline overflowed.
#[test]
fn a_trace_with_ttls_that_spans_too_many_years_is_refused() {
    let ages = "time_ms,key,size,ttl_ms\n0,1,5,5\n18446744073709551615,1,5,1\n";
    let file = TemporaryFile::new("ages.csv", ages);
    let error = refusal(sim(&format!("{file} --size 5")));
    assert!(error.contains("more than 4,400 years"), "{error}");
    for more in ["--request-rate 10", "--ignore-ttl --csv"] {
        stdout(sim(&format!("{file} --size 5 {more}")));
    }
    let slow = refusal(sim(&format!("{file} --size 5 --request-rate 1e-12")));
    assert!(
        slow.contains("--request-rate 0.000000000001: 2 requests"),
        "{slow}"
    );
}

#[test]
fn shares_are_given_in_percent() {
    let file = TemporaryFile::new("shares.csv", TRACE);
    for name in ["--warmup-share", "--sample", "--max-object-share"] {
        let error = refusal(sim(&format!("{file} {name} 0.2")));
        assert!(error.contains("write 20% or 0.2%"), "{error}");
    }
    let nothing = refusal(sim(&format!("{file} --sample 0")));
    assert!(nothing.contains("above 0%"), "{nothing}");
    stdout(sim(&format!("{file} --size 50% --warmup-share 0")));
}

fn start(words: &str) -> std::process::Child {
    let mut command = mayfly(&format!("sim {words}"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let started = command.stderr(Stdio::piped()).spawn();
    started.expect("the program was built for this test")
}

#[test]
fn a_trace_is_read_from_standard_input() {
    let mut child = start("- --format csv --csv --size 50%");
    let mut input = child.stdin.take().expect("it is a pipe");
    input.write_all(TRACE.as_bytes()).expect("it is read");
    drop(input);
    let text = stdout(child.wait_with_output().expect("it ends"));
    assert!(text.contains("\n-,lru,bytes,50,8,"), "{text}");
}

/// Regression: `mayfly sim … | head` failed with an error.
#[test]
fn a_closed_output_pipe_is_not_a_failure() {
    for subcommand in ["", "curve"] {
        let mut child = start(&format!("{subcommand} - --format csv --size 50%"));
        // The output pipe is closed before the input is written.
        drop(child.stdout.take());
        let mut input = child.stdin.take().expect("it is a pipe");
        input.write_all(TRACE.as_bytes()).expect("it is read");
        drop(input);
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success());
        assert!(output.stderr.is_empty());
    }
}

#[test]
fn results_of_the_traces_before_a_failing_one_are_printed() {
    let good = TemporaryFile::new("good.csv", TRACE);
    let bad = TemporaryFile::new("bad.csv", "time,key,size\n1,2\n");
    let output = sim(&format!("{good} {bad} --csv --size 50%"));
    assert!(!output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 6);
    assert!(String::from_utf8_lossy(&output.stderr).contains("bad.csv:2:"));
}

#[cfg(feature = "parquet")]
#[test]
fn a_parquet_file_that_cannot_be_written_is_reported_before_the_traces_are_read() {
    let error = refusal(sim("/nowhere/at.csv --parquet /nowhere/at.parquet"));
    assert!(
        error.contains("cannot write /nowhere/at.parquet"),
        "{error}"
    );
    // And what is there stays until there is something to write.
    let table = TemporaryFile::new("kept.parquet", "kept");
    refusal(sim(&format!("/nowhere/at.csv --parquet {table}")));
    let kept = std::fs::read_to_string(&table.0);
    assert_eq!(kept.expect("it is there"), "kept");
}

#[cfg(not(feature = "parquet"))]
#[test]
fn parquet_is_refused_by_a_program_built_without_it() {
    let trace = TemporaryFile::new("p.csv", TRACE);
    let error = refusal(sim(&format!("{trace} --parquet p.parquet")));
    assert!(error.contains("--features parquet"), "{error}");
}

/// Regression: the reason was in the error's own text and in the chain.
#[test]
fn an_error_names_its_cause_once() {
    let zst = TemporaryFile::new("cut.csv.zst", "");
    std::fs::write(&zst.0, [0x28, 0xb5, 0x2f, 0xfd, 0x04]).expect("it can be written");
    let error = refusal(sim(&format!("{zst}")));
    let (_, cause) = error.rsplit_once(": ").expect("a cause");
    assert_eq!(error.matches(cause.trim()).count(), 1, "{error}");
    assert_eq!(error.matches("cannot be read").count(), 1, "{error}");
}

/// Rows of the engine are in the order of the policies given, and unsupported options are refused.
#[test]
fn the_segment_engine_is_replayed_beside_policies() {
    let file = TemporaryFile::new("segments.csv", TRACE);
    let text = stdout(sim(&format!(
        "{file} --csv --policy fifo,segcache:segment=4kb,lru --size 200kb,1mb"
    )));
    let policies: Vec<&str> = text
        .lines()
        .skip(1)
        .filter_map(|row| row.split(',').nth(1))
        .collect();
    let engine = "segcache:segment=4kb";
    assert_eq!(policies, ["fifo", "fifo", engine, engine, "lru", "lru"]);
    let error = refusal(sim(&format!(
        "{file} --policy segcache:segments=4kb --size 1mb"
    )));
    assert!(
        error.contains("segcache has no parameter 'segments'"),
        "{error}"
    );
    let error = refusal(sim(&format!("{file} --policy segcache --size 1000")));
    assert!(error.contains("memory too small"), "{error}");
    let error = refusal(sim(&format!(
        "{file} --policy segcache --size 1000 --ignore-size"
    )));
    assert!(error.contains("objects are counted"), "{error}");
}

/// In a comparison with the engine, whose size includes its overhead, a policy's entry counts with
/// the overhead that it has in this server.
#[test]
fn curves_and_advice_compare_the_segment_engine_at_equal_memory() {
    let file = TemporaryFile::new("engine.csv", TRACE);
    let ratios = |more: &str| -> Vec<(String, String)> {
        let words = format!("curve {file} --exact --csv --size 100,1mb {more}");
        let text = stdout(sim(&words));
        let rows = text
            .lines()
            .skip(1)
            .map(|row| row.split(',').collect::<Vec<_>>());
        rows.map(|row| (row[1].to_owned(), row[4].to_owned()))
            .collect()
    };
    let row = |policy: &str, ratio: &str| (policy.to_owned(), ratio.to_owned());
    let alone = [row("lru", "0.5"), row("lru", "0.5")];
    assert_eq!(ratios("--policy lru"), alone);
    // A hundred bytes hold all four objects, but not with 17 bytes of overhead each.
    let charged = [row("lru", "0.625"), row("lru", "0.5")];
    assert_eq!(ratios("--policy lru --entry-overhead 17"), charged);
    // A hundred bytes are too small for the engine.
    let engine = [row("segcache", "1"), row("segcache", "0.5")];
    assert_eq!(
        ratios("--policy lru,segcache"),
        [charged, engine.clone()].concat()
    );
    assert_eq!(
        ratios("--policy segcache,lru --entry-overhead 0"),
        [engine, alone].concat()
    );
    let words = format!("advise {file} --policy lru,segcache --memory 1mb --json");
    let text = stdout(sim(&words));
    assert!(text.contains("Sizes include 17 bytes per entry"), "{text}");
    let error = refusal(sim(&format!(
        "curve {file} --policy segcache --ignore-size"
    )));
    assert!(error.contains("objects are counted"), "{error}");
}

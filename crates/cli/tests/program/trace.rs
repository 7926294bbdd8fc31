//! Every subcommand of `mayfly trace`, on small traces.

use super::{mayfly, refusal, run, stdout};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

/// A folder that is removed at the end of its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("mayfly-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("the temporary folder is writable");
        Folder(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("it is there");
        let names = entries.map(|entry| entry.expect("it is readable").file_name());
        let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn trace(words: &str) -> Output {
    run(&format!("trace {words}"))
}

/// Returns the standard output of a call that must succeed.
fn output_of(words: &str) -> String {
    stdout(trace(words))
}

/// Returns the standard error of a call that must fail.
fn refused(words: &str) -> String {
    refusal(trace(words))
}

const TEXT: &str = "time,key,size,op\n0,5,100,get\n1,6,50,set\n2,5,100,get\n4,7,1,delete\n";

fn small(folder: &Folder) -> String {
    let path = folder.path("small.csv");
    fs::write(&path, TEXT).expect("the folder is writable");
    path
}

#[test]
fn show_prints_the_first_requests_and_a_summary() {
    let folder = Folder::new("show");
    let text = output_of(&format!("show {} --head 1", small(&folder)));
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[1],
        [
            "0", "0.000", "5", "100", "0", "100", "get", "none", "0", "?"
        ]
    );
    for wanted in [
        &["requests", "4"][..],
        &["objects", "3"],
        &["bytes", "requested", "251"],
        &["bytes", "of", "objects", "151"],
        &["seconds", "4.000"],
        &["delete", "1"],
    ] {
        assert!(
            lines.iter().any(|line| line == wanted),
            "{wanted:?} in {text}"
        );
    }
}

#[test]
fn convert_writes_every_format_and_reads_it_back() {
    let folder = Folder::new("convert");
    let mut last = small(&folder);
    let mut names = vec!["a.lcs.zst", "b.oracleGeneral.bin.gz", "c.csv.xz"];
    if cfg!(feature = "parquet") {
        names.push("d.parquet");
    }
    names.push("e.txt");
    for name in &names {
        let next = folder.path(name);
        output_of(&format!("convert {last} {next}"));
        last = next;
    }
    assert_eq!(
        fs::read_to_string(&last).expect("it was written"),
        "5\n6\n5\n7\n"
    );
    let future = output_of(&format!(
        "convert {} --to-columns key,next",
        folder.path("b.oracleGeneral.bin.gz")
    ));
    assert_eq!(future, "key,next\n5,2\n6,-1\n5,-1\n7,-1\n");
    let lcs = output_of(&format!(
        "convert {} --to-columns time,key,size,op",
        folder.path("a.lcs.zst")
    ));
    assert_eq!(lcs, TEXT);
    // Nothing unfinished stays.
    names.push("small.csv");
    assert_eq!(folder.names(), names);
}

#[test]
fn cut_keeps_a_range_of_numbers_or_of_time() {
    let folder = Folder::new("cut");
    let small = small(&folder);
    let cut = |option, range| output_of(&format!("cut {small} {option} {range} --to txt"));
    assert_eq!(cut("--requests", "1..3"), "6\n5\n");
    assert_eq!(cut("--requests", "..1"), "5\n");
    assert_eq!(cut("--time", "1s..4s"), "6\n5\n");
    assert_eq!(cut("--time", "1500ms.."), "5\n7\n");
    assert!(refused(&format!("cut {small}")).contains("--requests FIRST..END"));
}

#[test]
fn generate_and_sample_keep_the_given_numbers() {
    let folder = Folder::new("sample");
    let made = folder.path("made.twitter.csv.zst");
    let mix = "zipf:0.8:2000@80+scan:50@20";
    let recipe = format!("--requests 20k --pattern {mix} --size pareto:64:1.5 --ttl-mix cluster4");
    output_of(&format!("generate {made} {recipe}"));
    let again = folder.path("again.twitter.csv.zst");
    output_of(&format!("generate {again} {recipe}"));
    let bytes = |path: &str| fs::read(path).expect("it was written");
    assert!(
        bytes(&made) == bytes(&again),
        "the same seed gives the same trace"
    );
    let keys = output_of(&format!("sample {made} --objects 300 --to txt"));
    let mut objects: Vec<&str> = keys.lines().collect();
    objects.sort_unstable();
    objects.dedup();
    assert_eq!(objects.len(), 300);
    assert_eq!(output_of(&format!("sample {made} --share 0 --to txt")), "");
    let all = output_of(&format!("sample {made} --share 1 --to txt"));
    assert_eq!(all.lines().count(), 20_000);
}

#[test]
fn a_stream_is_read_from_standard_input() {
    let mut command = mayfly("trace convert - --format csv --to txt");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command
        .spawn()
        .expect("the program was built for this test");
    let mut input = child.stdin.take().expect("it is piped");
    input.write_all(TEXT.as_bytes()).expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.stdout, b"5\n6\n5\n7\n");
}

#[test]
fn errors_name_their_place_and_leave_no_files() {
    let folder = Folder::new("wrong");
    let broken = folder.path("broken.csv");
    fs::write(&broken, "time,key,size\n1,2,3\n1,2\n4,5,6\n").expect("the folder is writable");
    let target = folder.path("out.txt");
    let error = refused(&format!("convert {broken} {target}"));
    assert!(
        error.contains("broken.csv:3: expected one column for each name"),
        "{error}"
    );
    assert_eq!(folder.names(), ["broken.csv"]);
    let output = trace(&format!("convert {broken} {target} --skip-bad"));
    assert!(output.status.success());
    let note = String::from_utf8_lossy(&output.stderr);
    assert!(
        note.contains("skipped 1 malformed records; the first: "),
        "{note}"
    );
    assert!(Path::new(&target).is_file());
    for (words, wanted) in [
        ("show absent.csv", "cannot read absent.csv"),
        (&format!("convert {broken} a.lis"), "lis is read only"),
        (&format!("convert {broken} a.polar"), "the name must end in"),
        (
            &format!("show {broken} --format polar"),
            "format \"polar\": expected",
        ),
        (&format!("sample {broken}"), "--share"),
        (
            &format!("sample {broken} --share 2"),
            "--share: expected 0 to 1",
        ),
        ("sample - --format csv --objects 5", "reads the trace twice"),
        ("generate - --pattern polar", "pattern \"polar\": expected"),
        (
            "generate - --size polar",
            "sizes \"polar\": expected a distribution",
        ),
        ("generate - --ttl-mix polar", "TTL mix \"polar\": expected"),
        ("generate - --request-rate 0", "--request-rate above 0"),
    ] {
        let error = refused(words);
        assert!(error.contains(wanted), "{words}: {error}");
    }
}

#[test]
fn a_workload_is_analyzed() {
    let folder = Folder::new("analyze");
    let path = folder.path("made.csv.zst");
    output_of(&format!("generate --requests 20k --objects 1000 {path}"));
    let text = output_of(&format!("analyze {path}"));
    for heading in [
        "The trace",
        "Over time",
        "Popularity",
        "Reuse",
        "One-hit wonders",
    ] {
        assert!(
            text.lines().any(|line| line == heading),
            "{heading}: {text}"
        );
    }
    assert!(!text.lines().any(|line| line == "TTLs"), "{text}");
    let mut command = mayfly(&format!("trace analyze {path} --json"));
    let output = command.args(["--ttl-mix", "60s:0.5 1h:0.5"]).output();
    let json = stdout(output.expect("the program was built for this test"));
    let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(json["requests"], 20_000);
    assert_eq!(json["ttls"]["distinct"], 2);
    let page = folder.path("page.html");
    output_of(&format!("analyze {path} --html {page}"));
    let page = fs::read_to_string(page).expect("it was written");
    assert!(page.contains("One-hit wonders") && page.contains("<svg"));
}

#[test]
fn a_trace_that_cannot_be_analyzed_is_refused() {
    let folder = Folder::new("analyze-bad");
    let path = folder.path("none.csv");
    fs::write(&path, "time,key,size\n").expect("the folder is writable");
    assert!(refused(&format!("analyze {path}")).contains("no request"));
    assert!(refused(&format!("analyze {path} --objects 0")).contains("expected 1 to"));
    let unknown = refused(&format!("analyze {path} --ttl-mix cluster999"));
    assert!(unknown.contains("cluster999"), "{unknown}");
}

/// Regression: the temporary file had the same name as one of the user's files.
#[test]
fn no_file_but_the_output_is_overwritten() {
    let folder = Folder::new("part");
    let input = small(&folder);
    let (output, own) = (folder.path("out.csv"), folder.path("out.csv.part"));
    fs::write(&own, "mine").expect("the folder is writable");
    output_of(&format!("convert {input} {output}"));
    assert_eq!(fs::read_to_string(&own).expect("it is there"), "mine");
    refused(&format!("convert {} {output}", folder.path("none.csv")));
    assert_eq!(folder.names(), ["out.csv", "out.csv.part", "small.csv"]);
}

/// A prepared trace is read by every command, and `prepare` names its output after the trace.
#[test]
fn a_prepared_trace_is_shown_converted_and_replayed() {
    let folder = Folder::new("prepare");
    let csv = folder.path("made.csv");
    let text = "time,key,size,op,ttl\n5,7,100,get,60\n6,900000000000,200,set,0\n8,7,100,delete,0\n";
    fs::write(&csv, text).expect("the folder is writable");
    output_of(&format!("prepare {csv}"));
    assert_eq!(folder.names(), ["made.csv", "made.prepared"]);
    let prepared = folder.path("made.prepared");
    let again = output_of(&format!(
        "convert {prepared} - --to-columns time,key,size,op,ttl"
    ));
    let wanted = text.replace("5,7,100,get", "5.000,7,100,get");
    let seconds = |text: &str| text.replace(".000,", ",");
    assert_eq!(seconds(&again), seconds(&wanted));
    let packed = folder.path("packed.prepared.zst");
    output_of(&format!("prepare {csv} {packed}"));
    assert_eq!(
        output_of(&format!("show {packed}")),
        output_of(&format!("show {prepared}"))
    );
    let replayed = |path: &str| {
        let text = stdout(run(&format!("sim {path} -p lru -s 150 --csv")));
        let row = text.lines().nth(1).expect("a result").to_owned();
        row.split(',').skip(1).take(6).collect::<Vec<_>>().join(",")
    };
    assert_eq!(replayed(&prepared), replayed(&csv));
    let other = refused(&format!("prepare {csv} {}", folder.path("made.txt")));
    assert!(other.contains("must end in .prepared"), "{other}");
    let bytes = fs::read(&prepared).expect("it was written");
    fs::write(folder.path("cut.prepared"), &bytes[..60]).expect("the folder is writable");
    let cut = refused(&format!("show {}", folder.path("cut.prepared")));
    assert!(cut.contains("cut.prepared: byte 48"), "{cut}");
}

//! Fuzz target of the readers of traces. Whatever the bytes, a reader ends with requests or an
//! error. What was read can be written and read again.

use std::io::Cursor;
use trace::{Error, Format, NextAccess, Options, Reader, Request, WriteOptions, Writer};

/// Maximum number of requests read, because one line of an ARC trace stands for up to 16 million.
const REQUESTS_MAX: usize = 10_000;

/// Names selected by the first byte of an input: every format uncompressed, and text in every
/// compression.
pub const NAMES: [&str; 22] = [
    "t.csv",
    "t.twitter.csv",
    "t.oracleGeneral.bin",
    "t.vscsi",
    "t.lcs",
    "t.lis",
    "t.trc",
    "t.txt",
    "t.parquet",
    "t.tsv",
    "t.cachebench.csv",
    "t.jsonl",
    "t.msr.csv",
    "t.tencent.csv",
    "t.alibaba.csv",
    "t.mqsim",
    "t.csv.zst",
    "t.csv.gz",
    "t.csv.xz",
    "t.vscsi.zst",
    "t.prepared",
    "t.prepared.zst",
];

/// Runs the target. The first byte selects the format.
pub fn run(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else {
        return;
    };
    let name = NAMES[usize::from(choice) % NAMES.len()];
    let Ok(strict) = open(name, bytes, false) else {
        // What cannot be opened cannot be opened by a reader that skips, either.
        assert!(open(name, bytes, true).is_err());
        return;
    };
    let mut strict = strict.take(REQUESTS_MAX);
    let mut good = Vec::new();
    let error = strict.find_map(|request| request.map(|request| good.push(request)).err());
    let mut patient = open(name, bytes, true).expect("it opened before");
    let taken = patient.by_ref().take(REQUESTS_MAX);
    let kept: Vec<Request> = taken.map_while(Result::ok).collect();
    assert!(kept.len() >= good.len());
    for (kept, good) in kept.iter().zip(&good) {
        let wanted = Request {
            next_access: NextAccess::Unknown,
            ..*good
        };
        assert_eq!(*kept, wanted);
    }
    match error {
        None => assert_eq!(patient.skipped(), 0),
        Some(Error::Malformed { .. }) => assert!(patient.skipped() > 0),
        Some(Error::Unreadable { .. }) => assert_eq!(kept.len(), good.len()),
        Some(other) => panic!("{other} while reading"),
    }
    write_and_read(&good);
}

fn open(name: &str, bytes: &[u8], skip_bad: bool) -> Result<Reader<'static>, Error> {
    let options = Options {
        skip_bad,
        ..Options::default()
    };
    trace::open_file(name, Cursor::new(bytes.to_vec()), &options)
}

fn write_and_read(requests: &[Request]) {
    let columns = "time_ms,key,size,key_size,value_size,op,ttl_ms,client,next";
    let csv = WriteOptions {
        format: Some(Format::CSV),
        columns: Some(columns.into()),
        statistics: None,
        memory_limit: None,
    };
    let mut writer = Writer::new("t.csv", Vec::new(), &csv).expect("the columns are known");
    for request in requests {
        writer.write(request).expect("csv takes every number");
    }
    let bytes = writer.finish().expect("memory is there");
    let again: Result<Vec<Request>, Error> =
        open("t.csv", &bytes, false).expect("a header").collect();
    assert_eq!(again.expect("well-formed"), requests);
}

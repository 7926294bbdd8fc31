//! Requests that are written are read back unchanged, in every writable format and every
//! compression.

use proptest::prelude::*;
use trace::{Error, NextAccess, Op, Options, Request, Statistics, Summary, WriteOptions, Writer};

const ENDINGS: [&str; 4] = ["", ".zst", ".gz", ".xz"];

fn write(name: &str, requests: &[Request], options: &WriteOptions) -> Result<Vec<u8>, Error> {
    let mut writer = Writer::new(name, Vec::new(), options)?;
    for request in requests {
        writer.write(request)?;
    }
    writer.finish()
}

fn read(name: &str, bytes: &[u8]) -> Result<Vec<Request>, Error> {
    trace::read(name, bytes)?.collect()
}

fn round(name: &str, requests: &[Request], options: &WriteOptions) -> Vec<Request> {
    let bytes = write(name, requests, options).expect("every number fits");
    read(name, &bytes).expect("what was written is well-formed")
}

/// Requests whose numbers fit every format, and whose sizes add up.
fn requests() -> impl Strategy<Value = Vec<Request>> {
    let numbers = (0..1u64 << 42, any::<u64>(), 0..1u64 << 40);
    let sizes = (0..1u32 << 31, 0..1u32 << 31, 0..1u32 << 24);
    let request = (numbers, sizes, 0..Op::ALL.len(), 0..4u64);
    let request = request.prop_map(|(numbers, sizes, op, next)| Request {
        time_ms: numbers.0.min(u64::from(u32::MAX) * 1000),
        key: numbers.1,
        ttl_ms: numbers.2,
        size: sizes.0 + sizes.1,
        key_size: sizes.0,
        value_size: sizes.1,
        client: sizes.2,
        op: Op::ALL[op],
        next_access: match next {
            0 => NextAccess::Unknown,
            1 => NextAccess::Never,
            // A later request than any of the generated ones.
            _ => NextAccess::At(1000 + next),
        },
    });
    proptest::collection::vec(request, 0..100)
}

/// The request with its times rounded to seconds.
fn in_seconds(request: &Request) -> Request {
    Request {
        time_ms: request.time_ms / 1000 * 1000,
        ttl_ms: request.ttl_ms.div_ceil(1000) * 1000,
        ..*request
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn csv_keeps_everything(requests in requests()) {
        let columns = "next,client,ttl_ms,op,value_size,key_size,size,key,time_ms";
        let options = WriteOptions { columns: Some(columns.into()), ..WriteOptions::default() };
        let units = WriteOptions { columns: Some("time,key,size,ttl".into()), ..WriteOptions::default() };
        for ending in ENDINGS {
            let name = format!("t.csv{ending}");
            prop_assert_eq!(&round(&name, &requests, &options), &requests);
            for (read, wanted) in round(&name, &requests, &units).iter().zip(&requests) {
                prop_assert_eq!((read.time_ms, read.ttl_ms), (wanted.time_ms, wanted.ttl_ms));
            }
        }
    }

    #[test]
    fn twitter_keeps_all_but_the_next_access_in_seconds(requests in requests()) {
        let wanted = requests.iter().map(|request| Request {
            next_access: NextAccess::Unknown,
            ..in_seconds(request)
        });
        let wanted: Vec<Request> = wanted.collect();
        for ending in ENDINGS {
            let name = format!("t.twitter.csv{ending}");
            prop_assert_eq!(&round(&name, &requests, &WriteOptions::default()), &wanted);
        }
    }

    #[test]
    fn oracle_general_keeps_time_key_size_and_next_access(requests in requests()) {
        let wanted = requests.iter().map(|request| Request {
            next_access: request.next_access,
            ..Request::new(in_seconds(request).time_ms, request.key, request.size)
        });
        let wanted: Vec<Request> = wanted.collect();
        for ending in ENDINGS {
            let name = format!("t.oracleGeneral.bin{ending}");
            prop_assert_eq!(&round(&name, &requests, &WriteOptions::default()), &wanted);
        }
    }

    #[test]
    fn lcs_keeps_all_but_the_key_size(requests in requests()) {
        let mut summary = Summary::default();
        requests.iter().for_each(|request| summary.add(request));
        let options = WriteOptions { statistics: Some(summary.statistics()), ..WriteOptions::default() };
        let wanted = requests.iter().map(|request| Request {
            key_size: 0,
            value_size: request.size,
            ..in_seconds(request)
        });
        let wanted: Vec<Request> = wanted.collect();
        for ending in ENDINGS {
            prop_assert_eq!(&round(&format!("t.lcs{ending}"), &requests, &options), &wanted);
        }
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn parquet_keeps_everything(requests in requests()) {
        let bytes = write("t.parquet", &requests, &WriteOptions::default()).expect("every number fits");
        let read = trace::open_file("t.parquet", std::io::Cursor::new(bytes), &Options::default());
        let read: Result<Vec<Request>, Error> = read.and_then(Iterator::collect);
        prop_assert_eq!(read.expect("what was written is well-formed"), requests);
    }

    #[test]
    fn lists_of_ids_keep_the_keys(requests in requests()) {
        for ending in ENDINGS {
            let name = format!("t.txt{ending}");
            let read = round(&name, &requests, &WriteOptions::default());
            prop_assert!(read.iter().map(|r| r.key).eq(requests.iter().map(|r| r.key)));
        }
    }
}

#[test]
fn a_wrong_count_in_the_header_is_found() {
    let statistics = Statistics {
        requests: 3,
        ..Statistics::default()
    };
    let options = WriteOptions {
        statistics: Some(statistics),
        ..WriteOptions::default()
    };
    let bytes = write("t.lcs", &[Request::default()], &options).expect("it fits");
    let error = read("t.lcs", &bytes)
        .expect_err("two are missing")
        .to_string();
    assert!(
        error.contains("expected 3 requests, as the header says, found 1"),
        "{error}"
    );
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    let late = Request::new(u64::from(u32::MAX) * 1000 + 1000, 1, 1);
    let crowded = Request {
        client: 1 << 24,
        ..Request::default()
    };
    let eternal = Request {
        ttl_ms: 1 << 42,
        ..Request::default()
    };
    let options = WriteOptions::default();
    for (name, request, wanted) in [
        (
            "t.oracleGeneral",
            late,
            "t.oracleGeneral: row 2: expected a time below 2^32 seconds, found 4294967296",
        ),
        (
            "t.lcs",
            late,
            "t.lcs: row 2: expected a time below 2^32 seconds",
        ),
        (
            "t.lcs",
            crowded,
            "t.lcs: row 2: expected a client below 2^24",
        ),
        (
            "t.lcs",
            eternal,
            "t.lcs: row 2: expected a TTL below 2^31 seconds",
        ),
    ] {
        let error = write(name, &[Request::default(), request], &options);
        let error = error.expect_err("it does not fit").to_string();
        assert!(error.starts_with(wanted), "{error}");
    }
    for name in ["t.lis", "t.trc", "t.vscsi.zst"] {
        let error = write(name, &[], &options).expect_err("it is read only");
        assert!(error.to_string().contains("is read only"), "{error}");
    }
    for columns in ["time,size", "key,colour", "key,id", ""] {
        let options = WriteOptions {
            columns: Some(columns.into()),
            ..WriteOptions::default()
        };
        assert!(write("t.csv", &[], &options).is_err(), "{columns}");
        assert!(write("t.txt", &[], &options).is_err(), "{columns}");
    }
}

#[test]
fn an_explicit_format_needs_no_ending() {
    let options = WriteOptions {
        format: Some("txt".parse().expect("a format")),
        ..WriteOptions::default()
    };
    let bytes = write("-", &[Request::new(0, 3, 1)], &options).expect("it fits");
    let options = Options {
        format: Some("txt".parse().expect("a format")),
        ..Options::default()
    };
    let mut read = trace::open("-", &bytes[..], &options).expect("the format is given");
    assert_eq!(
        read.next().and_then(Result::ok),
        Some(Request::new(0, 3, 1))
    );
}

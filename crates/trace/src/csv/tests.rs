use super::*;
use crate::{Error, Options};

fn read_with(text: &str, options: &Options) -> Result<Vec<Request>, String> {
    let requests = crate::open("test.csv", text.as_bytes(), options);
    let requests: Result<Vec<_>, Error> = requests.and_then(Iterator::collect);
    requests.map_err(|error| error.to_string())
}

fn read_all(text: &str) -> Result<Vec<Request>, String> {
    read_with(text, &Options::default())
}

#[test]
fn names_of_the_header_may_be_changed() {
    let options = Options {
        columns: Some("time_ms=when,key=object".into()),
        ..Options::default()
    };
    let requests = read_with("when,key,object,size\n5,1,7,3\n", &options);
    assert_eq!(requests, Ok(vec![Request::new(5, 7, 3)]));
    let error = read_with("time,key,size\n5,1,3\n", &options).expect_err("not there");
    assert!(error.starts_with("test.csv:1: expected a header with the column \"when\""));
    let unknown = Options {
        columns: Some("color=x".into()),
        ..Options::default()
    };
    let error = read_with("time,key,size\n", &unknown).expect_err("no such column");
    assert!(error.contains("column \"color\" is unknown"), "{error}");
}

#[test]
fn a_line_of_cachebench_stands_for_several_requests() {
    let text = "key,op,size,op_count,key_size\n7,GET,300,3,20\n8,SET_LEASE,1,1,2\n";
    let requests = crate::read("t.cachebench.csv", text.as_bytes()).expect("a header");
    let requests: Vec<Request> = requests.map(|r| r.expect("well formed")).collect();
    let sizes: Vec<u32> = requests.iter().map(|request| request.size).collect();
    assert_eq!(sizes, [320, 320, 320, 3]);
    assert_eq!(requests[3].op, Op::Set);
    for count in ["0", "16777217", "-1", ""] {
        let text = format!("key,op,size,op_count,key_size\n7,GET,300,{count},20\n");
        let mut requests = crate::read("t.cachebench.csv", text.as_bytes()).expect("a header");
        let error = requests.next().and_then(Result::err).map(|e| e.to_string());
        assert!(error.is_some_and(|e| e.contains("as op_count")), "{count}");
    }
}

#[test]
fn wikimedia_separates_by_tabs() {
    let text = "relative_unix\thashed_path_query\timage_type\tresponse_size\ttime_firstbyte\n\
                0\t833946053\tjpeg\t13012\t0.0012\n";
    let requests = crate::read("t.tsv", text.as_bytes()).expect("a header");
    let requests: Vec<Request> = requests.map(|r| r.expect("well formed")).collect();
    assert_eq!(requests, [Request::new(0, 833_946_053, 13_012)]);
}

#[test]
fn columns_may_have_any_order_and_unknown_ones_are_ignored() {
    let requests = read_all("\u{FEFF}size, position ,KEY,time\r\n5,x,7,1\r\n 6 ,,8,2.5");
    let wanted = [Request::new(1_000, 7, 5), Request::new(2_500, 8, 6)];
    assert_eq!(requests, Ok(wanted.into()));
}

#[test]
fn every_column_is_parsed() {
    let text = "time_ms,id,key_size,value_size,op,ttl,client,next\n\
                1500,\"a,\"\"b\",20,300,SET,60.5,7,9\n\
                1400,18446744073709551615,0,0,get,,,-1\n\
                0,3,1,2,read,0,\"web\",\n";
    let first = Request {
        time_ms: 1_500,
        key: key_of_text(b"a,\"b"),
        ttl_ms: 60_500,
        size: 320,
        key_size: 20,
        value_size: 300,
        client: 7,
        op: Op::Set,
        next_access: NextAccess::At(9),
    };
    let second = Request {
        next_access: NextAccess::Never,
        ..Request::new(1_400, u64::MAX, 0)
    };
    let third = Request {
        size: 3,
        key_size: 1,
        client: key_of_text(b"web") as u32,
        ..Request::new(0, 3, 2)
    };
    assert_eq!(read_all(text), Ok(vec![first, second, third]));
}

#[test]
fn a_missing_size_is_computed_from_the_others() {
    let both = read_all("time,key,size,key_size\n0,1,10,4\n0,1,3,4\n").expect("well-formed");
    assert_eq!((both[0].size, both[0].value_size), (10, 6));
    assert_eq!((both[1].size, both[1].value_size), (3, 0));
    let sum = read_all("time,key,key_size,value_size\n0,1,4294967295,1\n");
    assert!(sum.is_err_and(|error| error.contains("value size below 2^32")));
}

#[test]
fn the_twitter_format_needs_no_header() {
    let options = Options {
        format: Some("twitter".parse().expect("a format")),
        ..Options::default()
    };
    let requests = read_with("0,yDqF:3q,17,92,2,set,86400\n1,q,1,0,1,get,0\n", &options);
    let set = Request {
        time_ms: 0,
        key: key_of_text(b"yDqF:3q"),
        ttl_ms: 86_400_000,
        size: 109,
        key_size: 17,
        value_size: 92,
        client: 2,
        op: Op::Set,
        next_access: NextAccess::Unknown,
    };
    let get = Request {
        time_ms: 1_000,
        key: key_of_text(b"q"),
        size: 1,
        key_size: 1,
        value_size: 0,
        client: 1,
        ..Request::default()
    };
    assert_eq!(requests, Ok(vec![set, get]));
    let short = read_with("0,a,1,2,3,get\n", &options).expect_err("a column is missing");
    assert!(
        short.contains("test.csv:1: expected one column for each name"),
        "{short}"
    );
}

#[test]
fn columns_and_delimiter_can_be_given() {
    let options = Options {
        columns: Some("-,key,time".into()),
        delimiter: Some(b'\t'),
        skip_lines: 2,
        ..Options::default()
    };
    let requests = read_with("# by hand\n\nx\t5\t1\n", &options);
    let wanted = Request {
        time_ms: 1_000,
        key: 5,
        ..Request::default()
    };
    assert_eq!(requests, Ok(vec![wanted]));
    for (columns, problem) in [
        ("time,size", "no column key"),
        ("key,id", "key is given twice"),
    ] {
        let options = Options {
            columns: Some(columns.into()),
            ..Options::default()
        };
        let error = read_with("1,2\n", &options).expect_err(columns);
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn an_error_names_the_file_the_line_and_what_was_expected() {
    let cases = [
        ("", "test.csv:1: expected a header naming"),
        ("time,key\n", "there is no column size"),
        ("key,size\n", "there is no column time"),
        ("time,size\n", "there is no column key"),
        (
            "time,key,size,key\n",
            "test.csv:1: expected a header naming",
        ),
        ("time,key,size,obj_id\n", "the column key is given twice"),
        ("time,time_ms,key,size\n", "the column time is given twice"),
        ("time,\"key,size\n", "test.csv:1: expected a closing quote"),
        (
            "time,key,size\n1,2,3\n1,x,y\n",
            "test.csv:3: expected a whole number below 2^32 as size, found \"1,x,y\"",
        ),
        (
            "time,key,size\n1,2\n",
            "test.csv:2: expected one column for each name",
        ),
        (
            "time,key,size\n1,2,3,4\n",
            "test.csv:2: expected one column for each name",
        ),
        ("time,key,size\n\n", "test.csv:2: expected seconds"),
        ("time,key,size\n1,,3\n", "a number or a text as key"),
        (
            "time,key,size\n1,\"2,3\n",
            "test.csv:2: expected a closing quote",
        ),
        (
            "time,key,size\n1,\"2\"x,3\n",
            "test.csv:2: expected a closing quote",
        ),
        ("time,key,size\n1,2,4294967296\n", "below 2^32 as size"),
        ("time,key,size\n-1,2,3\n", "as time, found"),
        ("time,key,size,op\n1,2,3,touch\n", "get, gets, set"),
        ("time,key,size,ttl\n1,2,3,x\n", "as ttl, found"),
        ("time,key,size,next\n1,2,3,-2\n", "or -1 as next"),
    ];
    for (text, wanted) in cases {
        let error = read_all(text).expect_err(text);
        assert!(error.contains(wanted), "{text:?} gave {error}");
    }
}

//! Batches of memcached requests without sockets. `tests/e2e/memcached.py` compares single requests
//! with memcached itself.

use server::Server;
use server::dispatch::{Executor, exec};
use server::memcached::Progress;
use session::Session;
use session::clock::Clock;
use settings::Config;
use store::Tick;
use wire::memcached::{Complaint, Limits, Parsed, Parser};
use wire::{CutOff, Output};

const NOW: Tick = Tick(1_700_000_000_000);

fn server(threads: &str) -> Server {
    configured(&[("threads", threads)])
}

fn configured(settings: &[(&str, &str)]) -> Server {
    let config = Config::default();
    for (name, value) in settings {
        let param = settings::find(name).expect("a setting of this name");
        config.set(param, value).expect("a value that fits");
    }
    Server::new(config, Clock::manual(NOW.0)).expect("valid settings")
}

/// Returns a server with each engine.
fn engines() -> [Server; 2] {
    ["slab", "segment"].map(|engine| configured(&[("engine", engine), ("maxmemory", "32mb")]))
}

/// Returns the replies to requests that arrive in one batch.
fn answers(server: &Server, input: &[u8]) -> String {
    answers_at(server, input, NOW)
}

/// Returns the replies to requests that arrive in one batch at the given time.
pub fn answers_at(server: &Server, input: &[u8], now: Tick) -> String {
    let mut out = Output::default();
    answer_to(server, input, now, &mut out);
    String::from_utf8(out.to_vec()).expect("text")
}

/// Returns the replies to a batch as bytes.
fn bytes_of(server: &Server, input: &[u8]) -> Vec<u8> {
    let mut out = Output::default();
    answer_to(server, input, NOW, &mut out);
    out.to_vec()
}

/// Returns one packet of the binary protocol.
fn packet(magic: u8, code: (u8, u16), parts: [&[u8]; 3], cas: u64) -> Vec<u8> {
    let (opcode, status) = code;
    let [extras, key, value] = parts;
    let body = (extras.len() + key.len() + value.len()) as u32;
    let mut bytes = vec![magic, opcode];
    bytes.extend((key.len() as u16).to_be_bytes());
    bytes.extend([extras.len() as u8, 0]);
    bytes.extend(status.to_be_bytes());
    bytes.extend(body.to_be_bytes());
    bytes.extend([0, 0, 0, opcode]);
    bytes.extend(cas.to_be_bytes());
    bytes.extend([extras, key, value].concat());
    bytes
}

fn request(opcode: u8, extras: &[u8], key: &str, value: &[u8]) -> Vec<u8> {
    packet(0x80, (opcode, 0), [extras, key.as_bytes(), value], 0)
}

/// Returns the replies in a stream: operation, status, and the parts without the CAS number.
fn replies(mut stream: &[u8]) -> Vec<(u8, u16, Vec<u8>)> {
    let mut all = Vec::new();
    while let [0x81, opcode, _, _, _, _, high, low, rest @ ..] = stream {
        let len = u32::from_be_bytes(rest[..4].try_into().expect("four bytes")) as usize;
        assert_eq!(
            rest[4..8],
            [0, 0, 0, *opcode],
            "the opaque number is repeated"
        );
        let status = u16::from_be_bytes([*high, *low]);
        all.push((*opcode, status, rest[16..16 + len].to_vec()));
        stream = &rest[16 + len..];
    }
    assert!(stream.is_empty());
    all
}

/// Writes the replies to requests that arrive in one batch at the given time.
fn answer_to(server: &Server, input: &[u8], now: Tick, out: &mut Output) {
    let mut parser = Parser::new(Limits {
        value_bytes_max: 1 << 20,
    });
    let (mut spans, mut requests, mut at) = (vec![], vec![], 0);
    while let Parsed::Request { consumed, request } = parser.parse(&input[at..], &mut spans) {
        requests.push((at, request));
        at += consumed;
    }
    assert_eq!(at, input.len());
    let keys = requests.iter().flat_map(|(at, request)| {
        let here = &input[*at..];
        let keys = request.keys(&spans).iter();
        keys.map(|span| &here[span.range()])
    });
    let mut executor = Executor::new(server, 0, now);
    executor.prepare_keys(keys);
    let mut session = Session::new();
    for (at, request) in &requests {
        let mut progress = Progress::Partial(0);
        while let Progress::Partial(position) = progress {
            let request = match position {
                0 => *request,
                position => request.resumed(position),
            };
            let (keys, here) = (request.keys(&spans), &input[*at..]);
            progress = executor.run_memcached(&mut session, &request, keys, here, out);
        }
    }
    executor.finish();
}

/// The keys of a batch are hashed in advance as sent; a base64 key is another key.
#[test]
fn an_encoded_key_in_a_batch_is_the_decoded_key() {
    for threads in ["1", "2"] {
        let server = server(threads);
        let batch = b"set abc 0 0 1\r\n1\r\nset YWJj 0 0 1\r\n2\r\nmg YWJj b v\r\n\
            mg YWJj v\r\nget abc\r\nms YWJj 1 b\r\n3\r\nget abc YWJj\r\nmd YWJj b\r\nget abc YWJj\r\n";
        assert_eq!(
            answers(&server, batch),
            "STORED\r\nSTORED\r\nVA 1\r\n1\r\nVA 1\r\n2\r\nVALUE abc 0 1\r\n1\r\nEND\r\nHD\r\n\
            VALUE abc 0 1\r\n3\r\nVALUE YWJj 0 1\r\n2\r\nEND\r\nHD\r\nVALUE YWJj 0 1\r\n2\r\nEND\r\n"
        );
    }
}

/// The batch contains more keys than are hashed in advance.
#[test]
fn a_batch_may_contain_many_keys() {
    for threads in ["1", "2"] {
        let server = server(threads);
        let (mut sets, mut gets, mut values) = (String::new(), String::new(), String::new());
        for number in 0..300 {
            sets += &format!("set key{number} {number} 0 1\r\n1\r\n");
            gets += &format!(" key{number}");
            values += &format!("VALUE key{number} {number} 1\r\n1\r\n");
        }
        assert_eq!(answers(&server, sets.as_bytes()), "STORED\r\n".repeat(300));
        let gets = format!("get none\r\nget{gets}\r\nget{gets}\r\n");
        let both = format!("END\r\n{values}END\r\n{values}END\r\n");
        assert_eq!(answers(&server, gets.as_bytes()), both);
    }
}

/// Replies are bounded, regardless of how many keys a request names.
#[test]
fn a_get_of_many_keys_is_cut_off_at_the_outputs_maximum() {
    for engine in ["slab", "segment"] {
        let server = configured(&[("engine", engine), ("maxmemory", "32mb"), ("threads", "1")]);
        let value = "x".repeat(100_000);
        let stored = answers(
            &server,
            format!("set v 7 0 100000\r\n{value}\r\n").as_bytes(),
        );
        assert_eq!(stored, "STORED\r\n");
        let names = " v".repeat(5000);
        for request in ["get", "gets", "gat 0"] {
            let mut out = Output::new(1 << 20);
            let input = format!("{request}{names}\r\n");
            answer_to(&server, input.as_bytes(), NOW, &mut out);
            assert_eq!(out.cut_off(), Some(CutOff::Limit), "{engine} {request}");
            assert_eq!(out.capacity(), 0);
        }
        let short = format!("VALUE v 7 100000\r\n{value}\r\n");
        let two = answers(&server, b"get v v\r\n");
        assert_eq!(two, format!("{short}{short}END\r\n"), "{engine}");
    }
}

/// `append` and `prepend` extended an item without a bound, and copied all of it each time.
#[test]
fn an_item_does_not_grow_beyond_the_maximum() {
    let server = configured(&[("memcached-item-max", "4096"), ("threads", "1")]);
    let part = "x".repeat(3000);
    let too_large = "SERVER_ERROR object too large for cache\r\n";
    let set = format!("set k 0 0 3000\r\n{part}\r\n");
    assert_eq!(answers(&server, set.as_bytes()), "STORED\r\n");
    for verb in ["append", "prepend"] {
        let join = |len: usize| format!("{verb} k 0 0 {len}\r\n{}\r\n", &part[..len]);
        assert_eq!(answers(&server, join(3000).as_bytes()), too_large);
        assert_eq!(answers(&server, join(548).as_bytes()), "STORED\r\n");
    }
    let meta = |mode: &str| format!("ms k 1 M{mode}\r\nx\r\n");
    for mode in ["A", "P"] {
        assert_eq!(answers(&server, meta(mode).as_bytes()), too_large);
    }
    let binary = [request(0x0e, b"", "k", b"x"), request(0x0f, b"", "k", b"x")].concat();
    let statuses: Vec<u16> = replies(&bytes_of(&server, &binary))
        .iter()
        .map(|one| one.1)
        .collect();
    assert_eq!(statuses, [3, 3], "too large");
    let stored = answers(&server, b"mg k s\r\n");
    assert_eq!(stored, "HD s4096\r\n");
}

/// A string of Redis's protocol may be longer than any item. It was copied in one step.
#[test]
fn a_string_that_is_too_long_for_an_item_is_a_miss() {
    let server = configured(&[("threads", "1")]);
    let store = |len: usize| {
        let mut view = server.data.keyspace.lock_all(NOW);
        let key = server.data.keyspace.key(0, b"k");
        view.set(&key, &vec![b'x'; len], store::NewDeadline::Clear);
    };
    let len_of = |input: &[u8]| answers(&server, input).len();
    store(8 << 20);
    assert_eq!(
        len_of(b"get k\r\n"),
        "VALUE k 0 8388608\r\n\r\nEND\r\n".len() + (8 << 20)
    );
    assert_eq!(
        len_of(b"mg k v\r\n"),
        "VA 8388608\r\n\r\n".len() + (8 << 20)
    );
    store((8 << 20) + 1);
    assert_eq!(
        answers(&server, b"get k\r\ngat 0 k\r\nmg k v\r\n"),
        "END\r\nEND\r\nEN\r\n"
    );
    assert_eq!(answers(&server, b"mg k s\r\n"), "HD s8388609\r\n");
}

/// Clients send -1 as 4294967295. Such an item was kept until 2106.
#[test]
fn an_exptime_of_minus_one_in_32_bits_is_in_the_past() {
    for server in engines() {
        let batch = b"set a 0 4294967295 1\r\n1\r\nget a\r\nset b 0 0 1\r\n1\r\ntouch b 4294967295\r\n\
            get b\r\nms c 1 T4294967295\r\n1\r\nmg c\r\nset d 0 0 1\r\n1\r\ngat 2147483648 d\r\nget d\r\n";
        assert_eq!(
            answers(&server, batch),
            "STORED\r\nEND\r\nSTORED\r\nTOUCHED\r\nEND\r\nHD\r\nEN\r\nSTORED\r\n\
            VALUE d 0 1\r\n1\r\nEND\r\nEND\r\n"
        );
    }
}

/// Clients refuse a major version of 0.
#[test]
fn the_version_is_that_of_a_memcached_release() {
    // memcached ignores further words, and memccapable requires it of 1.6.
    for request in ["version\r\n", "version foo bar\r\n"] {
        let answer = answers(&server("1"), request.as_bytes());
        assert!(answer.starts_with("VERSION 1.6.18-mayfly"), "{answer}");
    }
}

/// A reply of any length is written in parts, between which the client may take it.
#[test]
fn a_long_reply_to_get_is_written_in_parts() {
    for server in engines() {
        let value = "x".repeat(100_000);
        answers(
            &server,
            format!("set v 7 0 100000\r\n{value}\r\n").as_bytes(),
        );
        let input = format!("get{} none\r\n", " v".repeat(30));
        let mut parser = Parser::new(Limits { value_bytes_max: 1 });
        let mut spans = vec![];
        let Parsed::Request { request, .. } = parser.parse(input.as_bytes(), &mut spans) else {
            panic!("a request");
        };
        let (mut position, mut parts, mut all) = (0, 0, vec![]);
        loop {
            let (mut out, mut session) = (Output::default(), Session::new());
            let mut executor = Executor::new(&server, 0, NOW);
            let now = request.resumed(position);
            let keys = now.keys(&spans);
            let progress =
                executor.run_memcached(&mut session, &now, keys, input.as_bytes(), &mut out);
            assert!(out.len() < 500_000);
            all.extend_from_slice(&out);
            match progress {
                Progress::Partial(next) => position = next,
                _ => break,
            }
            parts += 1;
        }
        assert!(parts > 5, "{parts}");
        let wanted = format!("VALUE v 7 100000\r\n{value}\r\n").repeat(30) + "END\r\n";
        assert!(String::from_utf8_lossy(&all) == wanted);
    }
}

#[test]
fn binary_and_text_requests_have_the_same_effects() {
    for server in engines() {
        let flags = [[0, 0, 0, 5], [0, 0, 0, 0]].concat();
        let count = [&1u64.to_be_bytes()[..], &10u64.to_be_bytes(), &[0; 4]].concat();
        let batch = [
            request(0x01, &flags, "k", b"v"),
            request(0x0e, b"", "k", b"w"),
            request(0x00, b"", "k", b""),
            request(0x0d, b"", "k", b""),
            request(0x09, b"", "none", b""),
            request(0x0c, b"", "none", b""),
            request(0x12, &flags, "k", b"x"),
            request(0x05, &count, "n", b""),
            request(0x15, &count, "n", b""),
            request(0x05, &count, "k", b""),
            request(0x23, &[0, 0, 0, 9], "k", b""),
            request(0x14, b"", "n", b""),
            request(0x04, b"", "n", b""),
            request(0x0a, b"", "", b""),
        ]
        .concat();
        let text = |text: &str| text.as_bytes().to_vec();
        let item = |rest: &[u8]| [&[0, 0, 0, 5], rest].concat();
        let wanted = [
            (0x01, 0, vec![]),
            (0x0e, 0, vec![]),
            (0x00, 0, item(b"vw")),
            (0x0d, 0, item(b"kvw")),
            (0x0c, 1, text("none")),
            (0x12, 2, text("Data exists for key.")),
            (0x05, 0, 10u64.to_be_bytes().to_vec()),
            (
                0x05,
                6,
                text("Non-numeric server-side value for incr or decr"),
            ),
            (0x23, 0, item(b"kvw")),
            (0x04, 1, text("Not found")),
            (0x0a, 0, vec![]),
        ];
        assert_eq!(replies(&bytes_of(&server, &batch)), wanted);
        assert_eq!(
            answers(&server, b"get k\r\nmg k t\r\n"),
            "VALUE k 5 2\r\nvw\r\nEND\r\nHD t9\r\n"
        );
    }
}

#[test]
fn a_binary_cas_number_is_the_condition_of_a_write() {
    for server in engines() {
        let flags = [0; 8];
        bytes_of(&server, &request(0x01, &flags, "k", b"1"));
        let read = bytes_of(&server, &request(0x00, b"", "k", b""));
        let cas = u64::from_be_bytes(read[16..24].try_into().expect("eight bytes"));
        let with = |opcode, cas| packet(0x80, (opcode, 0), [&flags, b"k", b"2"], cas);
        let batch = [
            with(0x01, cas + 9),
            with(0x02, cas),
            packet(0x80, (0x04, 0), [b"", b"k", b""], cas),
        ];
        let status = |(_, status, _): &(u8, u16, Vec<u8>)| *status;
        let statuses: Vec<u16> = replies(&bytes_of(&server, &batch.concat()))
            .iter()
            .map(status)
            .collect();
        assert_eq!(statuses, [2, 0, 2]);
    }
}

#[test]
fn a_client_authenticates_by_the_binary_protocol() {
    let server = configured(&[("requirepass", "secret")]);
    server.auth.apply_password(&server.config);
    let batch = [
        request(0x20, b"", "", b""),
        request(0x21, b"", "PLAIN", b"\0default\0wrong"),
        request(0x21, b"", "LOGIN", b"\0default\0secret"),
        request(0x21, b"", "PLAIN", b"\0default\0secret"),
    ];
    let bodies: Vec<_> = replies(&bytes_of(&server, &batch.concat()));
    let text = |text: &str| text.as_bytes().to_vec();
    assert_eq!(
        bodies,
        [
            (0x20, 0, text("PLAIN")),
            (0x21, 0x20, text("Auth failure.")),
            (0x21, 0x20, text("Auth failure.")),
            (0x21, 0, text("Authenticated")),
        ]
    );
}

#[test]
fn statistics_count_what_memcached_counts() {
    let server = server("1");
    answers(
        &server,
        b"set k 0 0 1\r\n1\r\nget k no\r\ngat 9 k\r\ngat 9 no\r\ntouch k 9\r\nincr k 1\r\ndecr k 1\r\n\
        incr no 1\r\ndecr no 1\r\ncas k 0 0 1 999999\r\n1\r\ncas no 0 0 1 9\r\n1\r\ndelete no\r\ndelete k\r\n",
    );
    let stats = answers(&server, b"stats\r\n");
    for row in [
        "cmd_get 2",
        "get_hits 1",
        "get_misses 1",
        "cmd_touch 3",
        "touch_hits 2",
        "touch_misses 1",
        "incr_hits 1",
        "incr_misses 1",
        "decr_hits 1",
        "decr_misses 1",
        "cas_badval 1",
        "cas_misses 1",
        "cas_hits 0",
        "cmd_set 3",
        "total_items 1",
        "delete_hits 1",
        "delete_misses 1",
        "curr_items 0",
    ] {
        assert!(
            stats.contains(&format!("STAT {row}\r\n")),
            "{row} of {stats}"
        );
    }
    assert_eq!(answers(&server, b"stats reset\r\n"), "RESET\r\n");
    assert!(answers(&server, b"stats\r\n").contains("STAT cmd_get 0\r\n"));
    let binary = replies(&bytes_of(&server, &request(0x10, b"", "settings", b"")));
    assert!(binary.len() > 20);
    assert_eq!(binary.last(), Some(&(0x10, 0, vec![])));
}

#[test]
fn prefixes_are_counted_on_request() {
    let server = server("1");
    let batch = b"stats detail on\r\nget a:b\r\nset a:b 0 0 1\r\nx\r\nget a:b k\r\ndelete a:b\r\n\
        delete a:absent\r\nstats detail dump\r\nstats detail x\r\nstats detail off\r\n";
    assert_eq!(
        answers(&server, batch),
        "OK\r\nEND\r\nSTORED\r\nVALUE a:b 0 1\r\nx\r\nEND\r\nDELETED\r\n\
        NOT_FOUND\r\nPREFIX a get 2 hit 1 set 1 del 2\r\nEND\r\n\
        CLIENT_ERROR usage: stats detail on|off|dump\r\nOK\r\n"
    );
}

#[test]
fn keys_with_line_breaks_add_no_lines_to_lists() {
    // Regression: a key that a binary request or another protocol had stored was written as it is,
    // so that what follows a line break in it looked like an item.
    let server = server("1");
    let key = "a\r\nITEM forged:b";
    answers(&server, b"stats detail on\r\nset plain:k 0 0 1\r\nx\r\n");
    bytes_of(&server, &request(0x01, &[0; 8], key, b"value"));
    let items = answers(&server, b"stats cachedump 1 0\r\n");
    assert_eq!(items, "ITEM plain:k [1 b; 0 s]\r\nEND\r\n");
    let prefixes = answers(&server, b"stats detail dump\r\n");
    assert_eq!(prefixes, "PREFIX plain get 0 hit 0 set 1 del 0\r\nEND\r\n");
    let keys = answers(&server, b"lru_crawler mgdump all\r\n");
    assert!(keys.contains("mg a%0D%0AITEM%20forged%3Ab\r\n"), "{keys}");
}

/// A list of many items is written in parts and contains each item.
#[test]
fn all_items_are_listed() {
    let server = server("1");
    let mut sets = String::new();
    for number in 0..3000 {
        sets += &format!("set key:{number} 0 100 2\r\nab\r\n");
    }
    answers(&server, sets.as_bytes());
    let facts = answers(&server, b"lru_crawler metadump all\r\n");
    let keys = answers(&server, b"lru_crawler mgdump hash\r\n");
    let items = answers(&server, b"stats cachedump 1 7\r\n");
    let ends = NOW.0 / 1000 + 100;
    for number in 0..3000 {
        assert!(facts.contains(&format!("key=key%3A{number} exp={ends} la=")));
        assert!(keys.contains(&format!("mg key%3A{number}\r\n")));
    }
    assert_eq!((facts.lines().count(), keys.lines().count()), (3001, 3001));
    assert!(facts.ends_with("size=32\nEND\r\n") || facts.ends_with("\nEND\r\n"));
    assert!(items.contains(&format!(" [2 b; {ends} s]\r\n")));
    assert_eq!(items.lines().count(), 8);
    let [_, segment] = engines();
    let refused = answers(&segment, b"lru_crawler metadump all\r\n");
    assert_eq!(
        refused,
        "SERVER_ERROR the segment engine cannot list its keys\r\n"
    );
}

#[test]
fn administration_gets_the_replies_of_memcached() {
    for (request, reply) in [
        ("cache_memlimit 64", "OK"),
        (
            "cache_memlimit 1",
            "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m",
        ),
        ("cache_memlimit x", "ERROR"),
        ("cache_memlimit", "ERROR"),
        ("shutdown", "ERROR: shutdown not enabled"),
        ("lru_crawler enable", "OK"),
        ("lru_crawler crawl all", "OK"),
        ("lru_crawler crawl x", "BADCLASS invalid class id"),
        ("lru_crawler metadump x", "BADCLASS invalid class id"),
        ("lru_crawler metadump", "ERROR"),
        ("lru_crawler", "ERROR"),
        ("lru mode flat", "OK"),
        ("slabs automove 1", "OK"),
        ("watch fetchers", "ERROR"),
        ("verbosity 1 2 3", "ERROR"),
    ] {
        let server = server("1");
        let got = answers_or_refusal(&server, &format!("{request}\r\n"));
        assert_eq!(got, format!("{reply}\r\n"), "{request}");
    }
    let server = server("1");
    assert_eq!(answers(&server, b"cache_memlimit 64 noreply\r\n"), "");
    assert!(answers(&server, b"stats\r\n").contains("STAT limit_maxbytes 67108864\r\n"));
}

/// Returns the reply to one request, also if the parser refuses it.
fn answers_or_refusal(server: &Server, input: &str) -> String {
    let limits = Limits { value_bytes_max: 1 };
    match Parser::new(limits).parse(input.as_bytes(), &mut vec![]) {
        Parsed::Refused { refusal, .. } => match refusal.complaint {
            Complaint::Line(line) => format!("{line}\r\n"),
            other => panic!("{other:?}"),
        },
        _ => answers(server, input.as_bytes()),
    }
}

/// Regression: the flag was ignored.
#[test]
fn a_meta_get_sends_no_value_that_the_client_has() {
    for server in engines() {
        let batch = b"ms k 2 E77\r\n12\r\nmg k C77 v c s\r\nmg k C76 v c\r\nmg k c C77\r\n\
            mg k v u C77\r\nmg none v C77\r\nmg new N30 E9 C9 v c\r\nma k C77 v E78\r\n\
            mg k C77 v t T30 c\r\nmg k C78 v t T60 c\r\nmn\r\n";
        assert_eq!(
            answers(&server, batch),
            "HD\r\nHD c77 s2\r\nVA 2 c77\r\n12\r\nHD c77\r\n\
            HD\r\nEN\r\nHD c9 W\r\nVA 2\r\n13\r\n\
            VA 2 t-1 c78\r\n13\r\nHD t30 c78\r\nMN\r\n"
        );
        let stale = b"md k I T30 E80\r\nmg k C80 v c\r\nmg k C80 v c\r\nmn\r\n";
        assert_eq!(
            answers(&server, stale),
            "HD\r\nHD c80 X W\r\nHD c80 Z X\r\nMN\r\n"
        );
    }
}

/// `E` names the number of an item that a read creates, and changes no other item.
#[test]
fn meta_flags_have_the_meaning_of_memcached() {
    for server in engines() {
        let batch = b"ms k 2 E77 c\r\n12\r\nmg k E5 c\r\nmg k c\r\nmg new N30 E9 c\r\nmg k u v\r\n\
            ms k 1 MA s c E78\r\n3\r\nms k 1 I v f\r\n4\r\nma k s f\r\n";
        assert_eq!(
            answers(&server, batch),
            "HD c77\r\nHD c77\r\nHD c77\r\nHD c9 W\r\nVA 2\r\n12\r\nHD s3 c78\r\nHD\r\nHD\r\n"
        );
        let reads = b"set h 0 0 1\r\n1\r\nmg h u h\r\nmg h u h\r\nmg h h\r\nmg h h\r\n\
            mg w N9 u\r\nmg w h u\r\n";
        assert_eq!(
            answers(&server, reads),
            "STORED\r\nHD h0\r\nHD h0\r\nHD h0\r\nHD h1\r\nHD W\r\nHD h0 Z\r\n"
        );
    }
}

#[test]
fn requests_that_write_are_refused_while_snapshots_fail() {
    // Regression: only commands of Redis's protocol were refused.
    let server = configured(&[("save", "3600 1"), ("dir", "/nonexistent")]);
    assert_eq!(answers(&server, b"set a 0 0 1\r\n1\r\n"), "STORED\r\n");
    let mut reply = Vec::new();
    let mut session = Session::new();
    exec(&server, &mut session, &[b"SAVE"], NOW, &mut reply);
    assert!(reply.starts_with(b"-ERR"), "the folder does not exist");
    for request in [
        "set a 0 0 1\r\n2\r\n",
        "delete a\r\n",
        "mg a T60\r\n",
        "flush_all\r\n",
    ] {
        let reply = answers(&server, request.as_bytes());
        assert!(reply.starts_with("SERVER_ERROR MISCONF"), "{request}");
    }
    assert_eq!(answers(&server, b"set a 0 0 1 noreply\r\n2\r\n"), "");
    assert_eq!(
        answers(&server, b"get a\r\n"),
        "VALUE a 0 1\r\n1\r\nEND\r\n"
    );
    assert_eq!(answers(&server, b"mg a v\r\n"), "VA 1\r\n1\r\n");
}

#[test]
fn a_replica_without_a_primary_serves_no_stale_items_if_that_is_disabled() {
    // Regression: `replica-serve-stale-data no` held for Redis's protocol only.
    let server = configured(&[
        ("replica-serve-stale-data", "no"),
        ("replica-read-only", "no"),
    ]);
    assert_eq!(answers(&server, b"set a 0 0 1\r\n1\r\n"), "STORED\r\n");
    server::replication::role::follow(&server, "127.0.0.1", 1);
    let text = "SERVER_ERROR MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n";
    for request in [
        "get a\r\n",
        "mg a v\r\n",
        "set a 0 0 1\r\n2\r\n",
        "flush_all\r\n",
    ] {
        assert_eq!(answers(&server, request.as_bytes()), text, "{request}");
    }
    assert!(answers(&server, b"version\r\n").starts_with("VERSION"));
    server::replication::role::promote(&server);
    assert_eq!(
        answers(&server, b"get a\r\n"),
        "VALUE a 0 1\r\n1\r\nEND\r\n"
    );
}

//! Batches of memcached requests without sockets. `tests/e2e/memcached.py` compares single requests
//! with memcached itself.

use server::Session;
use server::clock::Clock;
use server::config::Config;
use server::dispatch::Executor;
use server::{Server, config};
use store::Tick;
use wire::memcached::{Limits, Parsed, Parser};
use wire::{CutOff, Output};

const NOW: Tick = Tick(1_700_000_000_000);

fn server(threads: &str) -> Server {
    let config = Config::default();
    let param = config::find("threads").expect("a setting of this name");
    config.set(param, threads).expect("a value that fits");
    Server::new(config, Clock::manual(NOW.0)).expect("valid settings")
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
        let keys = request.keys(&spans);
        executor.run_memcached(&mut session, request, keys, &input[*at..], out);
    }
    executor.finish();
}

/// The keys of a batch are hashed in advance as they were sent; a base64 key is another key.
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

/// Replies are bounded, whatever number of keys a request names.
#[test]
fn a_get_of_many_keys_is_cut_off_at_the_outputs_maximum() {
    for engine in ["slab", "segment"] {
        let config = Config::default();
        for (name, value) in [("engine", engine), ("maxmemory", "32mb"), ("threads", "1")] {
            let param = config::find(name).expect("a setting of this name");
            config.set(param, value).expect("a value that fits");
        }
        let server = Server::new(config, Clock::manual(NOW.0)).expect("valid settings");
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

//! Batches of memcached requests without sockets. `tests/e2e/memcached.py` compares single requests
//! with memcached itself.

use server::Session;
use server::clock::Clock;
use server::config::Config;
use server::dispatch::Executor;
use server::{Server, config};
use store::Tick;
use wire::memcached::{Limits, Parsed, Parser};

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
    let (mut session, mut out) = (Session::new(), vec![]);
    for (at, request) in &requests {
        let keys = request.keys(&spans);
        executor.run_memcached(&mut session, request, keys, &input[*at..], &mut out);
    }
    executor.finish();
    String::from_utf8(out).expect("text")
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

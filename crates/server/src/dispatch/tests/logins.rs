//! Attempts to authenticate: delays in memcached's protocol, what ACL LOG says of them, and the
//! rights that a client has then.

use super::*;
use crate::memcached::Progress;
use session::acl::log::Context;
use wire::memcached::{Limits, Parsed, Parser};

/// Returns the packet of an authentication by SASL.
fn packet(password: &str) -> Vec<u8> {
    let data = format!("PLAIN\0default\0{password}");
    let mut bytes = vec![0; 24];
    (bytes[0], bytes[1], bytes[3]) = (0x80, 0x21, 5);
    bytes[8..12].copy_from_slice(&(data.len() as u32).to_be_bytes());
    bytes.extend_from_slice(data.as_bytes());
    bytes
}

fn send(bench: &mut Bench, password: &str) -> (Progress, Vec<u8>) {
    let input = packet(password);
    let limits = Limits {
        value_bytes_max: 1024,
    };
    let (mut parser, mut spans) = (Parser::new(limits), Vec::new());
    let Parsed::Request { request, .. } = parser.parse(&input, &mut spans) else {
        panic!("it is complete");
    };
    let (server, mut out) = (&bench.server, Output::default());
    let mut executor = Executor::new(server, 0, server.clock.now());
    let keys = request.keys(&spans);
    let progress = executor.run_memcached(&mut bench.session, &request, keys, &input, &mut out);
    executor.finish();
    (progress, out.take_bytes())
}

/// Attempts by SASL were counted, but not delayed.
#[test]
fn attempts_by_sasl_are_delayed_like_others() {
    let mut bench = Bench::new();
    bench.say("CONFIG SET requirepass secret");
    let status = |reply: &[u8]| reply[7];
    for _ in 0..6 {
        let (progress, reply) = send(&mut bench, "wrong");
        assert_eq!((progress, status(&reply)), (Progress::Done, 0x20));
    }
    let (progress, reply) = send(&mut bench, "secret");
    assert!(matches!(progress, Progress::Delayed(_)), "{progress:?}");
    assert!(reply.is_empty());
    bench.server.clock.pass_ms(49);
    assert!(send(&mut bench, "secret").1.is_empty());
    bench.server.clock.pass_ms(1);
    assert_eq!(status(&send(&mut bench, "secret").1), 0);
}

/// ACL LOG said `toplevel`, because EXEC had taken the transaction out of the session.
#[test]
fn a_failure_in_a_transaction_is_logged_with_its_context() {
    let mut bench = Bench::new();
    bench.say("CONFIG SET requirepass secret");
    let context = |bench: &Bench| bench.server.auth.acl.log.newest(1)[0].context;
    for line in ["MULTI", "AUTH wrong", "EXEC"] {
        bench.say(line);
    }
    assert_eq!(context(&bench), Context::Transaction);
    bench.say("AUTH wrong");
    assert_eq!(context(&bench), Context::TopLevel);
}

/// A session keeps the prefix of the last key that its user's patterns allowed.
#[test]
fn keys_are_compared_with_the_patterns_that_a_user_has_now() {
    let mut bench = Bench::new();
    let denied = "-NOPERM No permissions to access a key";
    bench.table(&[
        ("ACL SETUSER u on nopass +@all ~one:* ~two:*", "+OK"),
        ("ACL SETUSER v on nopass +@all ~two:*", "+OK"),
        ("AUTH u any", "+OK"),
        ("SET one:1234 a", "+OK"),
        ("SET two:1234 a", "+OK"),
        ("SET one:1234 a", "+OK"),
        ("SET six:1234 a", denied),
        ("ACL SETUSER u resetkeys ~two:*", "+OK"),
        ("SET one:1234 a", denied),
        ("SET two:1234 a", "+OK"),
        ("ACL SETUSER u resetkeys ~one:*", "+OK"),
        ("SET one:1234 a", "+OK"),
        ("AUTH v any", "+OK"),
        ("SET one:1234 a", denied),
        ("SET two:1234 a", "+OK"),
    ]);
}

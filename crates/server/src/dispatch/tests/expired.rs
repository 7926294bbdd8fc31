//! Large collections with many expired elements, while the feed records their removal.

use super::*;
use crate::memcached::Progress;
use durability::saving::HoldsWrites;
use wire::memcached::{Limits, Parsed, Parser};

const MEMBERS: usize = 10_000;
/// More than one step may remove.
const REMOVED_MAX: u64 = 1100;

/// Starts a server with a set of which all members but one have expired. Only commands remove them.
fn start() -> Bench {
    let mut bench = Bench::new();
    for first in (0..MEMBERS).step_by(1000) {
        let members: Vec<String> = (first..first + 1000).map(|i| format!("m{i}")).collect();
        let text = members.join(" ");
        let reply = bench.say(&format!("SADDEX s PXAT {} MEMBERS 1000 {text}", NOW + 100));
        assert_eq!(reply, ":1000\r\n");
    }
    bench.say("SADD s stays");
    let mut view = bench.server.data.keyspace.lock_all(Tick(NOW));
    effects::set_feed(&bench.server, &mut view, true);
    drop(view);
    bench.server.data.keyspace.set_active_expiry(false);
    bench.server.clock.set_ms(NOW + 200);
    bench
}

fn removed(server: &Server) -> u64 {
    server.data.keyspace.counters().expired_elements
}

#[test]
fn a_request_of_memcached_waits_while_expired_elements_are_removed_in_steps() {
    // Regression: it removed all of them in one step.
    let mut bench = start();
    let server = &bench.server;
    let input = b"delete s\r\n";
    let (mut parser, mut spans) = (Parser::new(Limits { value_bytes_max: 1 }), Vec::new());
    let Parsed::Request { request, .. } = parser.parse(input, &mut spans) else {
        panic!("it is complete");
    };
    let mut out = Output::default();
    let (mut before, mut waits) = (0, 0);
    loop {
        let mut executor = Executor::new(server, 0, server.clock.now());
        let keys = request.keys(&spans);
        let progress = executor.run_memcached(&mut bench.session, &request, keys, input, &mut out);
        executor.finish();
        let now = removed(server);
        assert!(now - before <= REMOVED_MAX, "{} in one step", now - before);
        before = now;
        if progress == Progress::Done {
            break;
        }
        assert_eq!(progress, Progress::Waits);
        assert!(out.is_empty());
        waits += 1;
        assert!(waits < MEMBERS, "the request is not served");
    }
    assert!(waits > 3, "it waited {waits} times");
    assert_eq!(removed(server), MEMBERS as u64);
    assert_eq!(&out[..], b"DELETED\r\n");
}

#[test]
fn a_script_can_be_ended_while_it_removes_expired_elements() {
    // Regression: the removal of all expired elements under a key that the script had not declared
    // was one step, in which neither time nor a stop was checked.
    let mut bench = start();
    bench.server.data.hold_for_stop(true);
    let script = "return\tredis.call('scard','s')";
    let reply = bench.say(&format!("EVAL {script} 0"));
    assert!(reply.contains("the server is stopping"), "{reply}");
    assert!(removed(&bench.server) <= REMOVED_MAX);
    bench.server.data.hold_for_stop(false);
    assert_eq!(bench.say(&format!("EVAL {script} 0")), ":1\r\n");
    assert_eq!(removed(&bench.server), MEMBERS as u64);
}

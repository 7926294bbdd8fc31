//! Tests of dispatch without sockets.

use super::*;
use crate::clock::Clock;
use crate::config::Config;

const NOW: u64 = 1_700_000_000_000;

/// A server with a manual clock, and one client.
struct Bench {
    server: Server,
    session: Session,
}

impl Bench {
    fn new() -> Bench {
        let server = Server::new(Config::default(), Clock::manual(NOW)).expect("valid options");
        Bench {
            server,
            session: Session::new(),
        }
    }

    fn say(&mut self, line: &str) -> String {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let mut out = Vec::new();
        exec(
            &self.server,
            &mut self.session,
            &args,
            self.server.clock.now(),
            &mut out,
        );
        String::from_utf8(out).expect("text")
    }

    /// Runs commands and compares their replies without line ends.
    fn table(&mut self, lines: &[(&str, &str)]) {
        for (line, expected) in lines {
            let reply = self.say(line);
            assert_eq!(reply.replace("\r\n", " ").trim_end(), *expected, "{line}");
        }
    }
}

#[test]
fn unknown_commands_and_wrong_arity_get_redis_errors() {
    Bench::new().table(&[
        ("PiNg", "+PONG"),
        ("echo hi", "$2 hi"),
        ("echo", "-ERR wrong number of arguments for 'echo' command"),
        (
            "nope a b",
            "-ERR unknown command 'nope', with args beginning with: 'a' 'b'",
        ),
        (
            "XADD s * f v",
            "-ERR unknown command 'XADD': streams are not served yet",
        ),
        (
            "geopos k m",
            "-ERR unknown command 'geopos': geographic indexes are not served yet",
        ),
    ]);
}

#[test]
fn a_transaction_queues_runs_and_aborts() {
    Bench::new().table(&[
        ("exec", "-ERR EXEC without MULTI"),
        ("discard", "-ERR DISCARD without MULTI"),
        ("multi", "+OK"),
        ("multi", "-ERR MULTI calls can not be nested"),
        ("watch k", "-ERR WATCH inside MULTI is not allowed"),
        ("ping", "+QUEUED"),
        ("echo x", "+QUEUED"),
        ("exec", "*2 +PONG $1 x"),
        ("multi", "+OK"),
        (
            "nope",
            "-ERR unknown command 'nope', with args beginning with:",
        ),
        (
            "exec",
            "-EXECABORT Transaction discarded because of previous errors.",
        ),
        ("multi", "+OK"),
        ("ping", "+QUEUED"),
        ("discard", "+OK"),
        ("ping", "+PONG"),
    ]);
}

#[test]
fn memory_is_checked_once_per_transaction() {
    // Regression: memory was checked for each command of a transaction. The check of other shards
    // released the locks, so that another client's write came between two commands and the second
    // was refused.
    let mut bench = Bench::new();
    let value = "v".repeat(100_000);
    bench.table(&[("config set maxmemory 40000", "+OK")]);
    for line in ["multi", &format!("set a {value}"), "set b 1"] {
        bench.say(line);
    }
    bench.table(&[
        ("exec", "*2 +OK +OK"),
        (
            "set c 1",
            "-OOM command not allowed when used memory > 'maxmemory'.",
        ),
    ]);
}

#[test]
fn info_reports_objects_that_wait_to_be_freed() {
    let mut bench = Bench::new();
    let value = "v".repeat(100_000);
    let elements: Vec<String> = (0..2000).map(|n| n.to_string()).collect();
    bench.say(&format!("set large {value}"));
    bench.say(&format!("rpush list {}", elements.join(" ")));
    bench.say("set small v");
    bench.say("del large list small");
    let reported = |bench: &mut Bench| {
        let text = bench.say("info memory");
        let number = |name: &str| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.expect("the field").parse().expect("a number")
        };
        (
            number("lazyfree_pending_objects:"),
            number("lazyfreed_objects:"),
        )
    };
    assert_eq!(reported(&mut bench), (2, 0));
    let space = &bench.server.keyspace;
    for shard in 0..space.shard_count() {
        while space.background_step(shard, Tick(NOW), 100, &mut Vec::new()) {}
    }
    assert_eq!(reported(&mut bench), (0, 2));
    bench.table(&[
        ("mset a 1 b 2", "+OK"),
        ("flushall", "+OK"),
        ("config resetstat", "+OK"),
    ]);
    assert_eq!(reported(&mut bench), (2, 0));
}

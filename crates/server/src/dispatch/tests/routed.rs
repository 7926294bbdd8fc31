//! Commands on a node of a cluster: which of them it executes, and the replies to the others.

use super::*;
use crate::cluster::install::{end_fence, hold, install, release};
use crate::cluster::sample::{THIRDS, name, routed, three};
use crate::memcached::Progress;
use ::cluster::{Instant, Owned};
use long::Begun;
use session::clients::{ClientInfo, Endpoint};
use session::clock::Moment;
use session::queue::OwnedCall;
use session::waiting::{BlockingState, NEVER};

const CROSS: &str = "-CROSSSLOT Keys in request don't hash to the same slot";
const DOWN: &str = "-CLUSTERDOWN The cluster is down";

impl Bench {
    /// Creates node 1 of three, a primary, with these settings.
    fn routed(settings: &[(&str, &str)]) -> Bench {
        let mut bench = Bench::without_topology(settings);
        bench.install("1", 1, &THIRDS);
        bench
    }

    fn without_topology(settings: &[(&str, &str)]) -> Bench {
        Bench {
            server: routed(settings, NOW),
            session: Session::new(),
        }
    }

    fn install(&mut self, me: &str, version: u64, ranges: &[Owned]) {
        install(&self.server, three(version, ranges), name(me)).expect("a newer topology");
    }

    /// Makes the server a replica that has just received something.
    fn follow(&mut self) {
        let server = &self.server;
        crate::replication::role::follow(server, "10.0.0.1", 7001);
        server.replication.is_connected.store(true, Relaxed);
        let mut state = server.replication.state();
        let primary = state.primary.as_mut().expect("it follows one");
        (primary.is_connected, primary.has_synced) = (true, true);
    }

    /// Runs a command that does not get a reply yet.
    fn outcome(&mut self, words: &[&str]) -> Outcome {
        let (input, spans) = joined(words);
        let args = Args::new(&input, &spans);
        let call = Call {
            start: 0,
            len: input.len(),
            first: 0,
            count: words.len(),
            index: command::table().lookup(args.name()),
            memo: None,
        };
        let mut executor = Executor::new(&self.server, 0, self.server.clock.now());
        let mut out = Output::default();
        let outcome = executor.run(&mut self.session, args, &call, &mut out);
        assert_eq!(outcome == Outcome::Done, !out.is_empty());
        outcome
    }
}

fn joined(words: &[&str]) -> (Vec<u8>, Vec<Span>) {
    let (mut input, mut spans) = (Vec::new(), Vec::new());
    for word in words {
        spans.push(Span {
            start: input.len() as u32,
            len: word.len() as u32,
        });
        input.extend_from_slice(word.as_bytes());
    }
    (input, spans)
}

#[test]
fn a_node_without_a_topology_executes_no_command_with_keys() {
    let mut bench = Bench::without_topology(&[]);
    bench.table(&[
        ("get b", DOWN),
        ("ping", "+PONG"),
        ("dbsize", ":0"),
        ("cluster keyslot b", ":3300"),
        ("cluster slots", "*0"),
        ("cluster shards", "*0"),
    ]);
    assert!(bench.say("cluster info").contains("cluster_state:fail\r\n"));
    let id = bench.say("cluster myid").replace("\r\n", " ");
    let id = id.split(' ').nth(1).expect("an identifier").to_owned();
    let nodes = bench.say("cluster nodes");
    assert!(
        nodes.contains(&format!("{id} :0@0 myself,master - 0 0 0 connected\n")),
        "{nodes}"
    );
}

#[test]
fn a_command_is_executed_by_the_owner_of_its_slot() {
    let mut bench = Bench::routed(&[]);
    bench.table(&[
        ("set b 1", "+OK"),
        ("get b", "$1 1"),
        ("get c", "-MOVED 7365 10.0.0.1:7002"),
        ("set a 1", "-MOVED 15495 10.0.0.1:7003"),
        ("mget b f", CROSS),
        ("mget {b}1 {b}2", "*2 $-1 $-1"),
        ("mget a {a}1", "-MOVED 15495 10.0.0.1:7003"),
        ("mset b 1 c 2", CROSS),
        ("rename b f", CROSS),
        ("copy b {b}x db 3", ":1"),
        ("move b 4", ":1"),
        ("object encoding a", "-MOVED 15495 10.0.0.1:7003"),
        ("object encoding {b}x", "$-1"),
        ("xread streams b c 0 0", CROSS),
        ("eval 'return1' 1 a", "-MOVED 15495 10.0.0.1:7003"),
        ("asking", "+OK"),
        ("get a", "-MOVED 15495 10.0.0.1:7003"),
        ("keys *", "*0"),
        ("flushall", "+OK"),
        ("select 3", "+OK"),
        ("get a", "-MOVED 15495 10.0.0.1:7003"),
    ]);
    let counts = &bench.server.cluster.counts;
    assert_eq!(counts.moved.load(Relaxed), 7);
    assert_eq!(counts.cross_slot.load(Relaxed), 4);
}

#[test]
fn a_slot_without_an_owner_is_not_served() {
    let mut bench = Bench::routed(&[]);
    bench.install("1", 2, &[(0..=5460, 0)]);
    bench.table(&[
        ("get a", "-CLUSTERDOWN Hash slot not served"),
        ("get b", "$-1"),
    ]);
    assert!(bench.say("cluster info").contains("cluster_state:fail\r\n"));
    assert_eq!(bench.server.cluster.counts.down.load(Relaxed), 1);
}

#[test]
fn the_address_of_an_owner_is_the_preferred_endpoint() {
    let mut bench = Bench::routed(&[("tls-port", "7443")]);
    let endpoint = settings::find("cluster-preferred-endpoint-type").expect("a setting");
    for (kind, expected) in [
        ("ip", "-MOVED 7365 10.0.0.1:7002\r\n"),
        ("hostname", "-MOVED 7365 n2.example:7002\r\n"),
        ("unknown-endpoint", "-MOVED 7365 :7002\r\n"),
    ] {
        bench.server.config.set(endpoint, kind).expect("a choice");
        assert_eq!(bench.say("get c"), expected);
    }
    let info = ClientInfo::new(
        1,
        Endpoint {
            local_address: "10.0.0.1:7443".to_owned(),
            ..Endpoint::default()
        },
        Moment::default(),
    );
    bench.session.info = Arc::new(info);
    assert_eq!(
        bench.say("get c"),
        "-MOVED 7365 :8002\r\n",
        "a client with TLS"
    );
}

#[test]
fn a_primary_serves_until_its_fence() {
    let mut bench = Bench::routed(&[]);
    bench.server.cluster.set_fence(Instant(10));
    assert_eq!(bench.say("get b"), "$-1\r\n");
    bench.server.clock.pass_ms(9);
    assert_eq!(bench.say("get b"), "$-1\r\n");
    bench.server.clock.pass_ms(1);
    bench.table(&[
        ("get b", DOWN),
        ("get a", "-MOVED 15495 10.0.0.1:7003"),
        ("ping", "+PONG"),
    ]);
    assert!(bench.say("cluster info").contains("cluster_state:fail\r\n"));
    bench.server.cluster.set_fence(Instant(20));
    assert_eq!(bench.say("get b"), "$-1\r\n");
    assert!(bench.say("cluster info").contains("cluster_state:ok\r\n"));
    end_fence(&bench.server);
    assert_eq!(bench.say("get b"), format!("{DOWN}\r\n"));
    // The record says that it is a primary, but it still follows another server.
    bench.server.cluster.set_fence(Instant(1000));
    bench.follow();
    assert_eq!(bench.say("get b"), format!("{DOWN}\r\n"));
}

#[test]
fn replies_are_withheld_only_after_commands_that_a_fence_should_have_stopped() {
    let server = routed(&[], NOW);
    install(&server, three(1, &THIRDS), name("1")).expect("the first one");
    server.cluster.set_fence(Instant(10));
    let mut bench = Bench {
        server,
        session: Session::new(),
    };
    let input = b"getb";
    let spans = [Span { start: 0, len: 3 }, Span { start: 3, len: 1 }];
    let args = Args::new(input, &spans);
    let call = Call {
        start: 0,
        len: 4,
        first: 0,
        count: 2,
        index: command::table().lookup(b"get"),
        memo: None,
    };
    let server = &bench.server;
    let mut executor = Executor::new(server, 0, server.clock.now());
    let mut out = Output::default();
    executor.begin_connection();
    assert_eq!(
        executor.run(&mut bench.session, args, &call, &mut out),
        Outcome::Done
    );
    assert!(!executor.is_beyond_fence());
    server.clock.pass_ms(10);
    assert!(
        executor.is_beyond_fence(),
        "the process was stopped in between"
    );
    assert!(executor.is_beyond_fence_late(b"$1\r\nv\r\n"));
    assert!(!executor.is_beyond_fence_late(b"-MOVED 1 a:1\r\n"));
    server.cluster.set_fence(Instant(20));
    assert!(!executor.is_beyond_fence(), "no other primary has served");
    server.clock.pass_ms(10);
    executor.set_now(server.clock.now());
    executor.begin_connection();
    assert_eq!(
        executor.run(&mut bench.session, args, &call, &mut out),
        Outcome::Done
    );
    assert!(!executor.is_beyond_fence(), "the command was refused");
    executor.finish();
    assert_eq!(server.cluster.counts.late.load(Relaxed), 2);
}

#[test]
fn a_replica_answers_reads_of_clients_that_have_sent_readonly() {
    let moved = "-MOVED 3300 10.0.0.1:7001";
    let mut bench = Bench::without_topology(&[]);
    bench.install("4", 1, &THIRDS);
    bench.table(&[("get b", moved), ("readonly", "+OK"), ("get b", moved)]);
    bench.follow();
    bench.table(&[
        ("get b", "$-1"),
        ("set b 1", moved),
        ("get a", "-MOVED 15495 10.0.0.1:7003"),
        ("eval_ro return(1) 1 b", ":1"),
        ("ssubscribe b", "*3 $10 ssubscribe $1 b :1"),
        ("sunsubscribe", "*3 $12 sunsubscribe $1 b :0"),
        ("spublish b m", moved),
        ("multi", "+OK"),
        ("get b", "+QUEUED"),
        ("exec", "*1 $-1"),
        ("multi", "+OK"),
        ("set b 1", moved),
        (
            "exec",
            "-EXECABORT Transaction discarded because of previous errors.",
        ),
        ("readwrite", "+OK"),
        ("get b", moved),
        ("readonly", "+OK"),
        ("reset", "+RESET"),
        ("get b", moved),
        ("readonly", "+OK"),
        ("get b", "$-1"),
    ]);
    {
        let mut state = bench.server.replication.state();
        let primary = state.primary.as_mut().expect("it follows one");
        primary.is_syncing = true;
    }
    assert_eq!(bench.say("get b"), format!("{moved}\r\n"));
    let staleness = settings::find("cluster-replica-max-staleness").expect("a setting");
    bench.follow();
    bench.server.config.set(staleness, "0").expect("a number");
    {
        let mut state = bench.server.replication.state();
        let primary = state.primary.as_mut().expect("it follows one");
        primary.last_byte -= std::time::Duration::from_millis(2);
    }
    assert_eq!(
        bench.say("get b"),
        format!("{moved}\r\n"),
        "its data is too old"
    );
}

#[test]
fn a_transaction_is_in_one_slot() {
    let mut bench = Bench::routed(&[]);
    let aborted = "-EXECABORT Transaction discarded because of previous errors.";
    bench.table(&[
        ("multi", "+OK"),
        ("set b 1", "+QUEUED"),
        ("incr b", "+QUEUED"),
        ("exec", "*2 +OK :2"),
        ("multi", "+OK"),
        ("set b 1", "+QUEUED"),
        ("set a 1", "-MOVED 15495 10.0.0.1:7003"),
        ("exec", aborted),
        ("multi", "+OK"),
        ("mset b 1 c 1", CROSS),
        ("exec", aborted),
        ("multi", "+OK"),
        ("set b 9", "+QUEUED"),
        ("set f 9", "+QUEUED"),
        ("exec", CROSS),
        ("exec", "-ERR EXEC without MULTI"),
        ("get b", "$1 2"),
        ("multi", "+OK"),
        ("ping", "+QUEUED"),
        ("exec", "*1 +PONG"),
        ("watch a", "-MOVED 15495 10.0.0.1:7003"),
        ("watch b f", CROSS),
        // The slot moves between the queue and EXEC.
        ("multi", "+OK"),
        ("incr b", "+QUEUED"),
    ]);
    bench.install("1", 2, &[(0..=16_383, 1)]);
    bench.table(&[
        ("exec", "-MOVED 3300 10.0.0.1:7002"),
        ("exec", "-ERR EXEC without MULTI"),
    ]);
}

#[test]
fn a_watched_key_has_changed_if_slots_were_lost() {
    let mut bench = Bench::routed(&[]);
    bench.table(&[("watch b", "+OK"), ("multi", "+OK"), ("set b 1", "+QUEUED")]);
    bench.install("1", 2, &[(0..=16_383, 1)]);
    bench.install("1", 3, &THIRDS);
    bench.table(&[
        ("exec", "*-1"),
        ("watch b", "+OK"),
        ("multi", "+OK"),
        ("set b 1", "+QUEUED"),
    ]);
    bench.install("1", 4, &THIRDS);
    assert_eq!(bench.say("exec"), "*1\r\n+OK\r\n");
}

#[test]
fn a_script_uses_keys_of_its_slot() {
    let mut bench = Bench::routed(&[]);
    let other = "ERR Script attempted to access keys that do not hash to the same slot";
    let not_local = "ERR Script attempted to access a non local key in a cluster node";
    let strict = "#!lua\n";
    let crossing = "#!lua flags=allow-cross-slot-keys\n";
    let two = "redis.call('set', KEYS[1], 1) return redis.call('get', ARGV[1])";
    let mut check = |words: &[&str], expected: &str| {
        let reply = bench.run(words);
        assert!(reply.contains(expected), "{words:?}: {reply}");
    };
    for head in ["", strict, crossing] {
        let code = format!("{head}{two}");
        check(&["EVAL", &code, "1", "b", "{b}x"], "$-1");
        check(&["EVAL", &code, "1", "b", "a"], not_local);
        check(&["EVAL", &code, "2", "b", "f"], CROSS);
        check(
            &["EVAL", &code, "1", "a", "a"],
            "-MOVED 15495 10.0.0.1:7003",
        );
        let expected = if head == strict { other } else { "$-1" };
        check(&["EVAL", &code, "1", "b", "f"], expected);
    }
    let undeclared = "#!lua\nredis.call('get', 'b') return redis.call('get', ARGV[1])";
    check(&["EVAL", undeclared, "0", "b"], "$1\r\n1");
    check(&["EVAL", undeclared, "0", "f"], other);
    check(&["EVAL", "return redis.call('mget', 'b', 'f')", "0"], other);
    let library = "#!lua name=lib\nredis.register_function('get', function(keys, args) return redis.call('get', args[1]) end)";
    check(&["FUNCTION", "LOAD", library], "lib");
    check(&["FCALL", "get", "1", "b", "b"], "$1\r\n1");
    check(&["FCALL", "get", "1", "b", "f"], other);
    check(&["FCALL", "get", "0", "a"], not_local);
}

#[test]
fn a_pattern_of_sort_names_keys_of_the_same_slot() {
    let mut bench = Bench::routed(&[]);
    let by = "-ERR BY option of SORT denied in cluster mode when keys formed by the pattern may be in different slots.";
    let get = "-ERR GET option of SORT denied in cluster mode when keys formed by the pattern may be in different slots.";
    bench.table(&[
        ("rpush b 2 1", ":2"),
        ("sort b", "*2 $1 1 $1 2"),
        ("sort b by w*", by),
        ("sort b by nosort", "*2 $1 2 $1 1"),
        ("sort b by {b}w*", "*2 $1 1 $1 2"),
        ("sort b get #", "*2 $1 1 $1 2"),
        ("sort b get v*", get),
        ("sort b get {b}*", "*2 $-1 $-1"),
        ("sort b store f", CROSS),
        ("sort b store {b}x", ":2"),
    ]);
}

#[test]
fn commands_on_held_slots_wait() {
    let mut bench = Bench::routed(&[]);
    hold(&bench.server, 0, &[3300..=3300]);
    assert_eq!(bench.outcome(&["GET", "b"]), Outcome::Waits);
    assert_eq!(bench.outcome(&["SET", "b", "1"]), Outcome::Waits);
    bench.table(&[("get f", "$-1"), ("get a", "-MOVED 15495 10.0.0.1:7003")]);
    bench.server.clock.pass_ms(999);
    assert_eq!(bench.outcome(&["GET", "b"]), Outcome::Waits);
    bench.server.clock.pass_ms(1);
    bench.table(&[
        (
            "get b",
            "-TRYAGAIN Slot 3300 is about to move to another node",
        ),
        ("multi", "+OK"),
        (
            "set b 1",
            "-TRYAGAIN Slot 3300 is about to move to another node",
        ),
        (
            "exec",
            "-EXECABORT Transaction discarded because of previous errors.",
        ),
    ]);
    assert_eq!(bench.server.cluster.counts.try_again.load(Relaxed), 2);
    release(&bench.server, 0, &[3300..=3300]);
    bench.table(&[("set b 1", "+OK"), ("multi", "+OK"), ("incr b", "+QUEUED")]);
    hold(&bench.server, 0, &[3300..=3300]);
    assert_eq!(bench.outcome(&["EXEC"]), Outcome::Waits);
    release(&bench.server, 0, &[3300..=3300]);
    assert_eq!(bench.say("exec"), "*1\r\n:2\r\n");
}

#[test]
fn keys_do_not_become_invalid_during_a_hold() {
    // Regression: a transaction or a script removed keys of held slots by their tags, which the new
    // owner then had.
    let mut bench = Bench::routed(&[]);
    bench.session.blocking_state = BlockingState::MayBlock;
    bench.table(&[("set b 1 tags 1 red", "+OK"), ("multi", "+OK")]);
    bench.table(&[("incr f", "+QUEUED"), ("invalidate 1 red", "+QUEUED")]);
    hold(&bench.server, 0, &[3300..=3300]);
    let script = "return redis.call('invalidate', 1, 'red')";
    for words in [
        &["EXEC"][..],
        &["INVALIDATE", "1", "red"],
        &["EVAL", script, "0"],
        &["FLUSHALL"],
    ] {
        let reply = bench.run(words);
        assert!(reply.starts_with("-TRYAGAIN"), "{words:?}: {reply}");
    }
    assert!(bench.session.transaction.is_none(), "it was discarded");
    release(&bench.server, 0, &[3300..=3300]);
    bench.table(&[
        ("get f", "$-1"),
        ("invalidate 1 red", ":1"),
        ("get b", "$-1"),
    ]);
}

#[test]
fn a_long_command_is_routed_again_when_it_begins() {
    // Regression: one that had waited took the values of its keys although their slot was held, or
    // had left.
    let mut bench = Bench::routed(&[("long-command-threshold", "0")]);
    bench.session.blocking_state = BlockingState::MayBlock;
    bench.say("rpush b 1 2 3");
    assert_eq!(bench.outcome(&["LRANGE", "b", "0", "-1"]), Outcome::IsLong);
    hold(&bench.server, 0, &[3300..=3300]);
    let begin = |bench: &mut Bench, out: &mut Output| {
        let (input, spans) = joined(&["LRANGE", "b", "0", "-1"]);
        let index = command::table().lookup(b"LRANGE").expect("a command");
        let call = OwnedCall::new(index, input, 0, spans);
        let mut executor = Executor::new(&bench.server, 0, Tick(NOW));
        executor.begin_long(&mut bench.session, call, out)
    };
    let mut out = Output::default();
    assert!(matches!(begin(&mut bench, &mut out), Begun::Waits(_)));
    assert!(!bench.server.workers.long.is_active(), "it blocks no other");
    release(&bench.server, 0, &[3300..=3300]);
    bench.install("1", 2, &[(0..=16_383, 1)]);
    assert!(matches!(begin(&mut bench, &mut out), Begun::Refused));
    assert_eq!(&out[..], b"-MOVED 3300 10.0.0.1:7002\r\n");
}

#[test]
fn a_stale_item_is_deleted_by_the_owner_of_its_slot_only() {
    // Regression: the item under a key whose new value was too large to be read was deleted during
    // a hold, so that the new owner had it.
    let mut bench = Bench::routed(&[]);
    bench.say("set b 1");
    let drop_stale =
        |server: &Server, key: &[u8]| Executor::new(server, 0, server.clock.now()).drop_stale(key);
    hold(&bench.server, 0, &[3300..=3300]);
    assert_eq!(drop_stale(&bench.server, b"b"), Progress::Waits);
    assert_eq!(drop_stale(&bench.server, b"a"), Progress::Done);
    release(&bench.server, 0, &[3300..=3300]);
    assert_eq!(bench.say("get b"), "$1\r\n1\r\n");
    assert_eq!(drop_stale(&bench.server, b"b"), Progress::Done);
    assert_eq!(bench.say("get b"), "$-1\r\n");
}

#[test]
fn a_blocked_client_is_not_served_from_a_held_slot() {
    // Regression: the end of a long command served clients that it had kept waiting, although a
    // hold had begun.
    let mut bench = Bench::routed(&[]);
    let info = ClientInfo::new(1, Endpoint::default(), Moment::default());
    bench.session = Session::of(Arc::new(info));
    bench.session.blocking_state = BlockingState::MayBlock;
    assert_eq!(bench.say("blpop b 0"), "");
    hold(&bench.server, 0, &[3300..=3300]);
    let blocked = std::mem::replace(&mut bench.session, Session::of_feed(0));
    bench.say("rpush b 1");
    assert_eq!(bench.server.clients.blocking.len(), 1);
    let waiter = blocked.waiter().expect("it is blocked");
    assert!(waiter.retry_at.load(Relaxed) < NEVER, "it is served later");
}

#[test]
fn a_command_is_routed_again_when_the_routes_have_changed_while_it_waited_for_its_shards() {
    let bench = Bench::routed(&[("threads", "2")]);
    let server = &bench.server;
    let shard = server
        .data
        .keyspace
        .shard_of(&server.data.keyspace.key(0, b"b"));
    let running = server.data.keyspace.lock_one(shard, server.clock.now());
    std::thread::scope(|scope| {
        let executed = scope.spawn(|| {
            let mut out = Vec::new();
            let (words, now): ([&[u8]; 3], _) = ([b"SET", b"b", b"1"], server.clock.now());
            exec(server, &mut Session::new(), &words, now, &mut out);
            String::from_utf8(out).expect("text")
        });
        // The command may be routed before or after this, and waits for its shard or not.
        let installed = scope.spawn(|| {
            install(server, three(2, &[(0..=16_383, 1)]), name("1")).expect("a newer one");
        });
        while server.cluster.routes().losses == 0 {
            std::thread::yield_now();
        }
        drop(running);
        installed.join().expect("no panic");
        let reply = executed.join().expect("no panic");
        assert_eq!(reply, "-MOVED 3300 10.0.0.1:7002\r\n");
    });
}

#[test]
fn shard_channels_belong_to_slots() {
    let mut bench = Bench::routed(&[]);
    bench.table(&[
        ("ssubscribe a", "-MOVED 15495 10.0.0.1:7003"),
        ("ssubscribe b f", CROSS),
        ("spublish a m", "-MOVED 15495 10.0.0.1:7003"),
        ("spublish b a", ":0"),
        ("subscribe a", "*3 $9 subscribe $1 a :1"),
        ("unsubscribe", "*3 $11 unsubscribe $1 a :0"),
        ("sunsubscribe a", "*3 $12 sunsubscribe $1 a :0"),
        ("publish a m", ":0"),
    ]);
}

#[test]
fn commands_that_would_change_one_node_only_are_refused() {
    let mut bench = Bench::routed(&[]);
    let roles = "is not allowed in cluster mode; the records of the cluster assign the roles";
    let etcd = "is not possible: etcd has the state of the cluster";
    let lines = [
        (
            "swapdb 0 1",
            "-ERR SWAPDB is not allowed in cluster mode, because it would change one node only"
                .to_owned(),
        ),
        ("replicaof no one", format!("-ERR REPLICAOF {roles}")),
        (
            "failover",
            format!("-ERR FAILOVER {roles}; use CLUSTER FAILOVER"),
        ),
        (
            "cluster addslots 1",
            format!("-ERR CLUSTER ADDSLOTS {etcd}; use mayfly cluster init"),
        ),
        (
            "cluster meet h 1",
            format!("-ERR CLUSTER MEET {etcd}; use mayfly serve --cluster"),
        ),
        (
            "cluster forget x",
            format!("-ERR CLUSTER FORGET {etcd}; use mayfly cluster forget"),
        ),
        (
            "cluster bumpepoch",
            format!("-ERR CLUSTER BUMPEPOCH {etcd}"),
        ),
        (
            "cluster failover",
            "-ERR You should send CLUSTER FAILOVER to a replica".to_owned(),
        ),
        (
            "cluster failover force",
            "-ERR You should send CLUSTER FAILOVER to a replica".to_owned(),
        ),
        ("cluster failover now", "-ERR syntax error".to_owned()),
        (
            "cluster nonsense",
            "-ERR unknown subcommand 'nonsense'. Try CLUSTER HELP.".to_owned(),
        ),
    ];
    for (line, expected) in lines {
        bench.table(&[(line, &expected)]);
    }
}

#[test]
fn a_replica_requests_to_become_the_primary() {
    let mut bench = Bench::without_topology(&[]);
    bench.install("4", 1, &THIRDS);
    let takeover = "-ERR CLUSTER FAILOVER accepts no TAKEOVER: it would make two primaries, or lose writes that an in-sync replica has; FORCE lets an in-sync replica take over as soon as the primary may not serve";
    bench.table(&[("cluster failover takeover", takeover)]);
    let seat = &bench.server.cluster.seat;
    assert!(!seat.wants_failover.load(Relaxed));
    assert!(!seat.is_forced.load(Relaxed));
    bench.table(&[
        ("cluster failover", "+OK"),
        ("cluster failover force", "+OK"),
    ]);
    let seat = &bench.server.cluster.seat;
    assert!(seat.wants_failover.load(Relaxed) && seat.is_forced.load(Relaxed));
}

#[test]
fn clients_see_all_shards_of_the_topology() {
    let mut bench = Bench::routed(&[]);
    bench.install("1", 2, &[(0..=4, 0), (5..=5, 1), (6..=9, 0)]);
    let node = |digit: &str, port: &str| {
        let id = digit.repeat(40);
        format!("*4 $8 10.0.0.1 :{port} $40 {id} *2 $8 hostname $10 n{digit}.example")
    };
    let range = |first: &str, last: &str, nodes: &[String]| {
        format!("*{} :{first} :{last} {}", 2 + nodes.len(), nodes.join(" "))
    };
    let first = [node("1", "7001"), node("4", "7004")];
    let slots = [
        range("0", "4", &first),
        range("5", "5", &[node("2", "7002")]),
        range("6", "9", &first),
    ];
    bench.table(&[("cluster slots", &format!("*3 {}", slots.join(" ")))]);
    let shards = bench.say("cluster shards").replace("\r\n", " ");
    assert!(
        shards.starts_with("*3 *4 $5 slots *4 :0 :4 :6 :9 $5 nodes *2 *18 $2 id $40 1"),
        "{shards}"
    );
    assert!(
        shards.contains("*4 $5 slots *2 :5 :5 $5 nodes *1 *18 $2 id $40 2"),
        "{shards}"
    );
    assert!(
        shards.contains("*4 $5 slots *0 $5 nodes *1 *18 $2 id $40 3"),
        "{shards}"
    );
    let (one, four) = ("1".repeat(40), "4".repeat(40));
    let nodes = bench.say("cluster nodes");
    for line in [
        format!("{one} 10.0.0.1:7001@0,n1.example myself,master - 0 0 7 connected 0-4 6-9\n"),
        format!("{four} 10.0.0.1:7004@0,n4.example slave {one} 0 0 7 connected\n"),
        format!(
            "{} 10.0.0.1:7003@0,n3.example master - 0 0 7 connected\n",
            "3".repeat(40)
        ),
    ] {
        assert!(nodes.contains(&line), "{nodes}");
    }
    let info = bench.say("cluster info");
    for line in [
        "state:fail",
        "slots_assigned:10",
        "slots_ok:10",
        "slots_fail:0",
        "known_nodes:4",
        "size:2",
        "current_epoch:7",
        "my_epoch:7",
    ] {
        assert!(
            info.contains(&format!("cluster_{line}\r\n")),
            "{line}: {info}"
        );
    }
    let shown = format!("$104 {four} 10.0.0.1:7004@0,n4.example slave {one} 0 0 7 connected");
    bench.table(&[
        ("cluster myid", &format!("$40 {one}")),
        ("cluster myshardid", &format!("$40 {}", "d".repeat(40))),
        (&format!("cluster replicas {}", "2".repeat(40)), "*0"),
        (
            &format!("cluster replicas {four}"),
            "-ERR The specified node is not a master",
        ),
        ("cluster replicas abc", "-ERR Unknown node abc"),
        (&format!("cluster count-failure-reports {four}"), ":0"),
        ("cluster count-failure-reports 4", "-ERR Unknown node 4"),
        ("cluster links", "*0"),
    ]);
    let replicas = bench
        .say(&format!("cluster replicas {one}"))
        .replace("\r\n", " ");
    assert!(
        replicas.starts_with("*1 $") && replicas.contains(&shown[5..]),
        "{replicas}"
    );
}

#[test]
fn keys_of_a_slot_are_counted_exactly() {
    let mut bench = Bench::routed(&[]);
    for number in 0..20 {
        assert_eq!(bench.say(&format!("set {{b}}{number} 1")), "+OK\r\n");
    }
    bench.table(&[
        ("set f 1", "+OK"),
        ("cluster countkeysinslot 3300", ":20"),
        ("cluster countkeysinslot 3168", ":1"),
        ("cluster countkeysinslot 3169", ":0"),
        ("cluster getkeysinslot 3168 10", "*1 $1 f"),
        ("cluster countkeysinslot 16384", "-ERR Invalid slot"),
    ]);
}

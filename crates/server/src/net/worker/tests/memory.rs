//! Memory of clients: what counts, eviction by `maxmemory-clients`, and `maxmemory` applied to the
//! sum.

use super::*;

const MIB: u64 = 1 << 20;

/// Returns the bytes that the server counts for all clients, after checking that they are the sum
/// of the clients' records.
fn counted(server: &Server) -> u64 {
    let records = server.clients.registry.list();
    let held = records.iter().map(|info| info.memory_bytes.load(Relaxed));
    assert_eq!(server.data.client_bytes(), held.sum::<u64>());
    server.data.client_bytes()
}

/// Returns a command whose last argument has `announced` bytes, of which `sent` follow.
fn unfinished(announced: usize, sent: usize) -> String {
    let head = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${announced}\r\n");
    head + &"x".repeat(sent)
}

/// Sends bytes and runs iterations until the worker has read them. Returns false if the connection
/// was closed meanwhile.
fn push(bench: &mut Bench<'_>, socket: &mut Socket, text: &str) -> bool {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        match socket.write(rest) {
            Ok(len) => rest = &rest[len..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
        bench.turn();
    }
    let mut before = u64::MAX;
    while before
        != bench
            .worker
            .server
            .observability
            .stats
            .sum(|worker| &worker.input_bytes)
    {
        before = bench
            .worker
            .server
            .observability
            .stats
            .sum(|worker| &worker.input_bytes);
        bench.turn();
    }
    true
}

#[test]
fn every_part_of_a_client_counts() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    let name = "n".repeat(10_000);
    bench.send(&mut client, "PING\r\n", "+PONG\r\n");
    let before = counted(&server);
    let pairs = [
        (format!("WATCH {name}\r\n"), "UNWATCH\r\n", "+OK\r\n"),
        (
            format!("MULTI\r\nECHO {name}\r\n"),
            "DISCARD\r\n",
            "+OK\r\n",
        ),
        (unfinished(20_003, 20_000), "xxx\r\n", "+OK\r\n"),
    ];
    for (begin, end, reply) in pairs {
        assert!(push(&mut bench, &mut client, &begin));
        let mut replies = [0; 1000];
        let _ = client.read(&mut replies);
        let growth = counted(&server) - before;
        assert!(
            (10_000..60_000).contains(&growth),
            "{growth} {}",
            &begin[..8]
        );
        bench.send(&mut client, end, reply);
        let end = counted(&server);
        assert!(end < before + 1000, "{end} after {before}");
    }
    for (space, kind) in [("SUBSCRIBE", ""), ("PSUBSCRIBE", "P"), ("SSUBSCRIBE", "S")] {
        assert!(push(
            &mut bench,
            &mut client,
            &format!("{space} {name}\r\n")
        ));
        let growth = counted(&server) - before;
        assert!((20_000..40_000).contains(&growth), "{growth} {space}");
        assert!(push(
            &mut bench,
            &mut client,
            &format!("{kind}UNSUBSCRIBE\r\n")
        ));
        assert!(counted(&server) < before + 1000);
    }
    let info = server.clients.registry.list().remove(0);
    let line = info.line(server.clock.moment(), |_| "");
    assert!(
        line.contains(&format!(" tot-mem={} ", counted(&server))),
        "{line}"
    );
    drop(client);
    bench.turn();
    bench.turn();
    assert_eq!(counted(&server), 0);
}

#[test]
fn the_clients_with_the_most_memory_are_evicted() {
    let (server, listeners) = server(&[("maxmemory-clients", "2mb")]);
    let mut bench = Bench::new(&server, listeners);
    let (mut small, mut spared) = (bench.client(), bench.client());
    bench.send(&mut small, "PING\r\n", "+PONG\r\n");
    bench.send(&mut spared, "CLIENT NO-EVICT on\r\n", "+OK\r\n");
    let mut others: Vec<_> = (0..4).map(|_| bench.client()).collect();
    assert!(push(
        &mut bench,
        &mut spared,
        &unfinished(100 << 20, 700_000)
    ));
    let mut evicted = 0;
    for _ in 0..10 {
        let bytes = unfinished(100 << 20, 300_000);
        for socket in &mut others {
            if !push(&mut bench, socket, &bytes) {
                evicted += 1;
                *socket = bench.client();
            }
            assert!(server.data.client_bytes() <= 2 * MIB + 100_000);
        }
    }
    assert!(evicted > 2, "{evicted}");
    let stats = &server.observability.stats;
    assert!(stats.evicted_clients.load(Relaxed) >= evicted);
    bench.send(&mut small, "PING\r\n", "+PONG\r\n");
    let rest = "x".repeat((100 << 20) - 700_000) + "\r\n";
    drop(others);
    bench.turn();
    // The client with NO-EVICT may exceed the limit.
    assert!(push(&mut bench, &mut spared, &rest[..4 << 20]));
    assert!(counted(&server) > 4 * MIB);
    bench.send(&mut small, "PING\r\n", "+PONG\r\n");
}

#[test]
fn the_limit_of_all_clients_may_be_a_percentage() {
    for (limit, maxmemory, expected) in [
        ("0", "100mb", None),
        ("5%", "0", None),
        ("5%", "100mb", Some(5 * MIB)),
        ("3mb", "0", Some(3 * MIB)),
        // With less no client could connect to change it.
        ("1", "0", Some(128 << 10)),
    ] {
        let (server, _) = server(&[("maxmemory-clients", limit), ("maxmemory", maxmemory)]);
        assert_eq!(
            server.config.client_bytes_max(),
            expected,
            "{limit} {maxmemory}"
        );
    }
}

#[test]
fn memory_of_clients_counts_against_maxmemory() {
    let refusal = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    for (policy, reply) in [("noeviction", refusal), ("allkeys-lru", "+OK\r\n")] {
        let (server, listeners) = server(&[("maxmemory", "4mb"), ("maxmemory-policy", policy)]);
        let mut bench = Bench::new(&server, listeners);
        let (mut client, mut large) = (bench.client(), bench.client());
        bench.send(&mut client, "SET a 1\r\n", "+OK\r\n");
        assert!(push(
            &mut bench,
            &mut large,
            &unfinished(100 << 20, 5 << 20)
        ));
        // Regression: with a policy all keys were evicted, which was not enough. Now they are
        // evicted for a quarter of the memory only.
        bench.send(&mut client, "SET a 2\r\n", reply);
        bench.send(&mut client, "DBSIZE\r\n", ":1\r\n");
        // Regression: what the server keeps for clients was not refused.
        for kept in [
            "SUBSCRIBE c",
            "PSUBSCRIBE c",
            "SSUBSCRIBE c",
            "WATCH a",
            "CLIENT TRACKING ON",
        ] {
            bench.send(&mut client, &format!("{kept}\r\n"), refusal);
        }
        bench.send(&mut client, "MULTI\r\n", "+OK\r\n");
        bench.send(&mut client, "GET a\r\n", refusal);
        bench.send(&mut client, "DISCARD\r\n", "+OK\r\n");
        drop(large);
        bench.turn();
        bench.turn();
        bench.send(&mut client, "SET b 2\r\n", "+OK\r\n");
    }
}

#[test]
fn a_value_that_does_not_fit_is_refused_before_it_evicts() {
    // Regression: a request of more than maxmemory evicted all keys, even if it was refused.
    let settings = [("maxmemory", "2mb"), ("maxmemory-policy", "allkeys-lru")];
    let (server, listeners) = server(&settings);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    for number in 0..100 {
        let set = format!("SET key:{number} {}\r\n", "x".repeat(1000));
        bench.send(&mut client, &set, "+OK\r\n");
    }
    let refusal = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    let bulk = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
    let large = "x".repeat(2 << 20);
    let half = &large[..1_100_000];
    let script = "return redis.pcall('SET', 'k', string.rep('x', 2500000)).err";
    let by_script = bulk(&refusal[1..].trim_end());
    for (words, reply) in [
        (&["GET", &large][..], "$-1\r\n"),
        (&["SET", "k", &large], refusal),
        (&["MSET", "k", half, "l", half, "m", half], refusal),
        (&["HSET", "k", "f", &large], refusal),
        (&["RPUSH", "k", half, half], refusal),
        (&["SETRANGE", "k", "2500000", "x"], refusal),
        (&["SETBIT", "k", "20000000", "1"], refusal),
        (&["BITFIELD", "k", "SET", "u8", "20000000", "1"], refusal),
        (&["EVAL", script, "0"], &by_script),
        (&["APPEND", "k", half], ":1100000\r\n"),
        (&["APPEND", "k", half], refusal),
        (&["UNLINK", "k"], ":1\r\n"),
    ] {
        let bulks: String = words.iter().map(bulk).collect();
        let text = format!("*{}\r\n{bulks}", words.len());
        assert!(push(&mut bench, &mut client, &text));
        bench.expect_output(&mut client, reply);
        for _ in 0..20 {
            bench.turn();
        }
        bench.send(&mut client, "EXISTS key:0 key:50 key:99\r\n", ":3\r\n");
    }
    bench.send(&mut client, "DBSIZE\r\n", ":100\r\n");
}

#[test]
fn a_value_does_not_count_beside_the_request_that_holds_it() {
    // Regression: the request was subtracted from maxmemory before the value was compared with the
    // rest, so that a value of more than half of maxmemory was refused by an empty server.
    let bulk = |word: &String| format!("${}\r\n{word}\r\n", word.len());
    for policy in ["noeviction", "allkeys-lru"] {
        for clients in ["0", "90%"] {
            let (server, listeners) = server(&[
                ("maxmemory", "1mb"),
                ("maxmemory-policy", policy),
                ("maxmemory-clients", clients),
            ]);
            let mut bench = Bench::new(&server, listeners);
            let mut client = bench.client();
            let mut write = |name: &str, len, reply| {
                let words = [name.to_owned(), "k".to_owned(), "x".repeat(len)];
                let bulks: String = words.iter().map(bulk).collect();
                let is_sent = push(&mut bench, &mut client, &format!("*3\r\n{bulks}"));
                assert!(is_sent, "{policy} {clients} {name}");
                bench.expect_output(&mut client, reply);
            };
            write("SET", 600_000, "+OK\r\n");
            let key = server.data.keyspace.key(0, b"k");
            server.data.keyspace.lock_all(Tick(NOW)).delete(&key);
            write("SET", 300_000, "+OK\r\n");
            write("APPEND", 400_000, ":700000\r\n");
        }
    }
}

#[test]
fn values_that_exceed_the_output_are_not_copied() {
    // Regression: they were copied up to the limit, in one step, before the client was cut off.
    let settings = [("client-output-buffer-limit", "normal 1mb 0 0")];
    let (server, listeners) = server(&settings);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    let set = format!("SET v {}\r\n", "x".repeat(1000));
    bench.send(&mut client, &set, "+OK\r\n");
    let hits = |bench: &Bench<'_>| bench.worker.server.data.keyspace.counters().hits;
    let gets = format!("MULTI\r\n{}EXEC\r\n", "GET v\r\n".repeat(1100));
    for request in [format!("MGET{}\r\n", " v".repeat(1100)), gets] {
        let mut reader = bench.client();
        let before = hits(&bench);
        push(&mut bench, &mut reader, &request);
        for _ in 0..100 {
            bench.turn();
            if server.clients.registry.len() == 1 {
                break;
            }
        }
        assert_eq!(hits(&bench), before);
        assert_eq!(
            server.clients.registry.len(),
            1,
            "the client was disconnected"
        );
    }
    // What the transaction does before may make the values shorter.
    let mut reader = bench.client();
    let request = format!("MULTI\r\nDEL v\r\n{}EXEC\r\n", "GET v\r\n".repeat(1100));
    let reply = format!(
        "+OK\r\n{}*1101\r\n:1\r\n{}",
        "+QUEUED\r\n".repeat(1101),
        "$-1\r\n".repeat(1100)
    );
    bench.send(&mut reader, &request, &reply);
}

#[test]
fn an_idle_worker_evicts_until_the_memory_is_within_its_limit() {
    // Regression: background work evicted from shards over their share only, so that the memory
    // stayed over its limit until keys of other shards were written.
    let (server, listeners) = server(&[
        ("maxmemory-policy", "volatile-lru"),
        ("notify-keyspace-events", "Ee"),
    ]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut subscriber) = (bench.client(), bench.client());
    let space = &server.data.keyspace;
    let mut view = space.lock_all(Tick(NOW));
    let mut set = |name: &str, size: usize, deadline| {
        view.set(&space.key(0, name.as_bytes()), &vec![0; size], deadline);
    };
    // Its shard is over its share, and the key cannot be evicted.
    set("kept", 400_000, store::NewDeadline::Clear);
    for number in 0..100 {
        let deadline = store::NewDeadline::At(Tick(NOW + HOUR_MS));
        set(&format!("key:{number}"), 1_000, deadline);
    }
    drop(view);
    let subscribed = "*3\r\n$9\r\nsubscribe\r\n$22\r\n__keyevent@0__:evicted\r\n:1\r\n";
    let subscribe = "SUBSCRIBE __keyevent@0__:evicted\r\n";
    bench.send(&mut subscriber, subscribe, subscribed);
    let limit = space.memory_facts().used_bytes + space.outside_bytes() - 30_000;
    bench.send(
        &mut client,
        &format!("CONFIG SET maxmemory {limit}\r\n"),
        "+OK\r\n",
    );
    let used = || space.memory_facts().used_bytes + space.outside_bytes();
    for _ in 0..TURNS_MAX {
        if used() <= limit {
            break;
        }
        let timeout = bench.worker.timeout(&mut bench.executor);
        assert!(timeout <= IDLE_SHARD_PAUSE, "it waits for {timeout:?}");
        bench.turn();
    }
    assert!(used() <= limit);
    bench.turn();
    let evicted = space.counters().evicted_keys;
    assert!((20..60).contains(&evicted), "{evicted}");
    let mut events = vec![0; 100 * evicted as usize];
    let len = subscriber.read(&mut events).expect("there are events");
    let text = String::from_utf8_lossy(&events[..len]);
    assert_eq!(text.matches("message").count() as u64, evicted, "{text}");
    bench.settle();
    let timeout = bench.worker.timeout(&mut bench.executor);
    assert!(timeout > IDLE_SHARD_PAUSE, "nothing is left to evict");
}

#[test]
fn the_names_of_a_client_are_part_of_its_memory() {
    // Regression: names were not counted, so that a client could fill the memory with them.
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    bench.send(&mut client, "PING\r\n", "+PONG\r\n");
    let before = counted(&server);
    let name = "n".repeat(50_000);
    bench.send(
        &mut client,
        &format!("CLIENT SETNAME {name}\r\n"),
        "+OK\r\n",
    );
    let set = format!("CLIENT SETINFO LIB-NAME {name}\r\n");
    bench.send(&mut client, &set, "+OK\r\n");
    bench.send(&mut client, "PING\r\n", "+PONG\r\n");
    let held = counted(&server) - before;
    assert!((100_000..140_000).contains(&held), "{held}");
    bench.send(&mut client, "RESET\r\n", "+RESET\r\n");
    bench.send(&mut client, "PING\r\n", "+PONG\r\n");
    assert!(counted(&server) < before + 60_000);
}

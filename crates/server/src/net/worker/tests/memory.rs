//! Memory of clients: what counts, eviction by `maxmemory-clients`, and `maxmemory` by the sum.

use super::*;

const MIB: u64 = 1 << 20;

/// Returns the bytes that the server counts for all clients, after checking that they are the sum
/// of the clients' records.
fn counted(server: &Server) -> u64 {
    let records = server.clients.list();
    let held = records.iter().map(|info| info.memory_bytes.load(Relaxed));
    assert_eq!(server.client_bytes(), held.sum::<u64>());
    server.client_bytes()
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
    while before != bench.worker.server.stats.sum(|worker| &worker.input_bytes) {
        before = bench.worker.server.stats.sum(|worker| &worker.input_bytes);
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
    let info = server.clients.list().remove(0);
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
            assert!(server.client_bytes() <= 2 * MIB + 100_000);
        }
    }
    assert!(evicted > 2, "{evicted}");
    let stats = &server.stats;
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
        assert_eq!(server.client_bytes_max(), expected, "{limit} {maxmemory}");
    }
}

#[test]
fn memory_of_clients_counts_against_maxmemory() {
    for (policy, keys) in [("noeviction", ":1\r\n"), ("allkeys-lru", ":0\r\n")] {
        let (server, listeners) = server(&[("maxmemory", "4mb"), ("maxmemory-policy", policy)]);
        let mut bench = Bench::new(&server, listeners);
        let (mut client, mut large) = (bench.client(), bench.client());
        bench.send(&mut client, "SET a 1\r\n", "+OK\r\n");
        assert!(push(
            &mut bench,
            &mut large,
            &unfinished(100 << 20, 5 << 20)
        ));
        let refusal = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
        // With a policy the keys are evicted first, which is not enough here.
        bench.send(&mut client, "SET a 2\r\n", refusal);
        bench.send(&mut client, "DBSIZE\r\n", keys);
        drop(large);
        bench.turn();
        bench.turn();
        bench.send(&mut client, "SET b 2\r\n", "+OK\r\n");
    }
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
    let space = &server.keyspace;
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

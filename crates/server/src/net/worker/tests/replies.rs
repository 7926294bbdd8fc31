//! Replies beyond the output limit: the client is disconnected, others are served.

use super::*;

/// Hard limit in the tests, in bytes.
const LIMIT: usize = 100_000;

fn limited() -> (Arc<Server>, Listeners) {
    server(&[
        ("client-output-buffer-limit", "normal 100000 0 0"),
        // The thread for long commands does not run in these tests.
        ("long-command-threshold", "-1"),
    ])
}

/// Encodes commands, one per line, because inline commands are limited to 64 KiB.
fn encoded(lines: &str) -> String {
    let mut bytes = Vec::new();
    for line in lines.lines() {
        wire::encode_command(&mut bytes, &line.split(' ').collect::<Vec<_>>());
    }
    String::from_utf8(bytes).expect("text")
}

/// Repeats a word, each time after a blank.
fn times(word: &str, count: usize) -> String {
    format!(" {word}").repeat(count)
}

/// Stores a string, a hash, a set, a sorted set and a list of large values.
fn fill(bench: &mut Bench<'_>, client: &mut Socket) {
    let value = "x".repeat(10_000);
    bench.send(client, &format!("SET v {value}\r\n"), "+OK\r\n");
    bench.send(client, &format!("HSET h f {value}\r\n"), ":1\r\n");
    bench.send(client, &format!("SADD s {value}\r\n"), ":1\r\n");
    bench.send(client, &format!("ZADD z 1 {value}\r\n"), ":1\r\n");
    bench.send(client, "RPUSH l 1 2 3 4 5 6 7 8 9\r\n", ":9\r\n");
    for letter in "abcdefghijklmno".chars() {
        let member = letter.to_string().repeat(10_000);
        bench.send(client, &format!("SADD many {member}\r\n"), ":1\r\n");
    }
}

#[test]
fn a_reply_beyond_the_hard_limit_closes_its_client() {
    let (server, listeners) = limited();
    let mut bench = Bench::new(&server, listeners);
    let mut other = bench.client();
    fill(&mut bench, &mut other);
    let commands = [
        format!("MGET{}\r\n", times("v", 500)),
        format!("MULTI\r\n{}EXEC\r\n", "GET v\r\n".repeat(11)),
        "HRANDFIELD h -16777216 WITHVALUES\r\n".into(),
        "SRANDMEMBER s -16777216\r\n".into(),
        "ZRANDMEMBER z -16777216 WITHSCORES\r\n".into(),
        "SMEMBERS many\r\n".into(),
        format!("SORT_RO l{}\r\n", times("GET #", 5000)),
        format!("SORT_RO l{}\r\n", times("GET v*", 10_000)),
    ];
    for (number, command) in commands.iter().enumerate() {
        let mut client = bench.client();
        client
            .write_all(encoded(command).as_bytes())
            .expect("there is room");
        bench.expect_output(&mut client, CLOSED);
        let count = server
            .observability
            .stats
            .output_limit_disconnections
            .load(Relaxed);
        assert_eq!(count as usize, number + 1, "{}", &command[..20]);
        bench.send(&mut other, "PING\r\n", "+PONG\r\n");
    }
    assert_eq!(bench.worker.scratch.traffic.held_bytes, 0);
    // The clients that were closed are not counted.
    let record = server.clients.registry.list().remove(0);
    let held = record.memory_bytes.load(Relaxed);
    assert_eq!(
        (server.clients.registry.len(), server.data.client_bytes()),
        (1, held)
    );
}

#[test]
fn a_reply_below_the_hard_limit_is_sent() {
    let (server, listeners) = limited();
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    let value = "x".repeat(LIMIT / 2);
    bench.send(&mut client, &format!("SET v {value}\r\n"), "+OK\r\n");
    let bulk = format!("${}\r\n{value}\r\n", LIMIT / 2);
    bench.send(&mut client, "MGET v\r\n", &format!("*1\r\n{bulk}"));
    // Each reply is within the limit, and they are sent one after the other.
    let all = bulk.repeat(10);
    bench.send(&mut client, &"GET v\r\n".repeat(10), &all);
    assert_eq!(
        server
            .observability
            .stats
            .output_limit_disconnections
            .load(Relaxed),
        0
    );
}

#[test]
fn a_large_reply_is_sent_in_parts_between_which_others_are_served() {
    // Regression: a worker served nobody else while a client read a large reply as fast as it was
    // sent.
    let (server, listeners) = server(&[("long-command-threshold", "-1")]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    let value = "x".repeat(600 << 10);
    for _ in 0..2 {
        bench.send(&mut other, "PING\r\n", "+PONG\r\n");
    }
    let space = &server.data.keyspace;
    let mut view = space.lock_all(server.clock.now());
    let key = space.key(0, b"v");
    view.set(&key, value.as_bytes(), store::NewDeadline::Clear);
    drop(view);
    client.write_all(b"GET v\r\n").expect("there is room");
    let sent = |bench: &Bench<'_>| {
        let connections = bench.worker.connections.iter().flatten();
        connections.map(|one| one.sent_bytes()).max().unwrap_or(0)
    };
    while sent(&bench) < 100 {
        bench.turn();
    }
    let limit = crate::net::connection::SENT_PER_TURN as u64;
    assert!(sent(&bench) <= limit, "{} bytes at once", sent(&bench));
    bench.send(&mut other, "PING\r\n", "+PONG\r\n");
    bench.expect_output(&mut client, &format!("${}\r\n{value}\r\n", value.len()));
}

#[test]
fn writes_are_completed_although_their_reply_is_cut_off() {
    let (server, listeners) = limited();
    let mut bench = Bench::new(&server, listeners);
    let mut other = bench.client();
    fill(&mut bench, &mut other);
    let commands = [
        ("SPOP many 14\r\n".to_owned(), "SCARD many\r\n", ":1\r\n"),
        (
            format!("MULTI\r\n{}INCR n\r\nEXEC\r\n", "GET v\r\n".repeat(20)),
            "GET n\r\n",
            "$1\r\n1\r\n",
        ),
        (
            format!("SORT l{} STORE to\r\n", times("GET #", 20_000)),
            "LLEN to\r\n",
            ":180000\r\n",
        ),
    ];
    for (command, question, answer) in commands {
        let mut client = bench.client();
        client
            .write_all(encoded(&command).as_bytes())
            .expect("there is room");
        for _ in 0..10 {
            bench.turn();
        }
        bench.send(&mut other, question, answer);
    }
}

#[test]
fn a_sorted_list_larger_than_maxmemory_is_not_stored() {
    let (server, listeners) = server(&[("maxmemory", "1mb"), ("maxmemory-policy", "allkeys-lru")]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    let value = "7".repeat(10_000);
    bench.send(&mut client, &format!("RPUSH l {value}\r\n"), ":1\r\n");
    let command = format!("SORT l ALPHA{} STORE to\r\n", times("GET #", 200));
    let refusal = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    bench.send(&mut client, &encoded(&command), refusal);
    bench.send(&mut client, "EXISTS to\r\n", ":0\r\n");
}

#[test]
fn the_segment_engine_serves_others_between_the_values_of_one_command() {
    // Regression: MGET and MSET of at most 1,024 keys were one step, whatever the size of the
    // values.
    const COUNT: usize = 30;
    let (server, listeners) = server(&[("engine", "segment")]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    let value = "x".repeat(200 << 10);
    let pairs: String = (0..COUNT).map(|n| format!(" k{n} {value}")).collect();
    let begin = |bench: &mut Bench<'_>, client: &mut Socket, command: &str| {
        let mut input = encoded(command);
        while !input.is_empty() {
            let sent = client.write(input.as_bytes()).unwrap_or(0);
            input.drain(..sent);
            bench.turn();
        }
        let has_aside = |bench: &Bench<'_>| {
            let mut connections = bench.worker.connections.iter().flatten();
            connections.any(|one| one.has_aside())
        };
        while !has_aside(bench) {
            bench.turn();
        }
    };
    begin(&mut bench, &mut client, &format!("MSET{pairs}"));
    bench.send(&mut other, "GET k29\r\n", "$-1\r\n");
    let names: String = (0..COUNT).map(|n| format!(" k{n}")).collect();
    bench.expect_output(&mut client, "+OK\r\n");
    begin(&mut bench, &mut client, &format!("MGET{names} none"));
    bench.send(&mut other, "DEL k29\r\n", ":1\r\n");
    let bulk = format!("${}\r\n{value}\r\n", value.len());
    let reply = format!("*31\r\n{}$-1\r\n$-1\r\n", bulk.repeat(COUNT - 1));
    let (mut got, mut chunk) = (Vec::new(), vec![0; 1 << 20]);
    while got.len() < reply.len() {
        match client.read(&mut chunk) {
            Ok(len) => got.extend_from_slice(&chunk[..len]),
            Err(_) => bench.turn(),
        }
    }
    assert!(got == reply.as_bytes());
}

#[test]
fn a_pipeline_of_commands_that_take_time_is_executed_in_turns() {
    // Regression: all commands that one read had received were executed before other clients were
    // served, which took seconds for a thousand commands of a millisecond.
    let (server, listeners) = server(&[("enable-debug-command", "yes")]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    bench.send(&mut other, "PING\r\n", "+PONG\r\n");
    bench.send(&mut client, "PING\r\n", "+PONG\r\n");
    let slow = "DEBUG SLEEP 0.003\r\n".repeat(5);
    client.write_all(slow.as_bytes()).expect("there is room");
    let executed = |bench: &Bench<'_>| {
        let connections = bench.worker.connections.iter().flatten();
        let counts = connections.map(|one| one.session.info.commands.load(Relaxed));
        counts.max().unwrap_or(0)
    };
    for count in 2..=6 {
        while executed(&bench) < count {
            bench.turn();
        }
        assert_eq!(executed(&bench), count, "one command in a turn");
        if count == 3 {
            other.write_all(b"PING\r\n").expect("there is room");
            bench.turn();
            bench.expect_output(&mut other, "+PONG\r\n");
        }
    }
    bench.expect_output(&mut client, &"+OK\r\n".repeat(5));
}

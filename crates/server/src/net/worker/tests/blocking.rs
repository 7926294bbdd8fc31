//! Tests of blocked clients on workers that are stepped by hand.

use super::*;

/// Returns the reply of BLPOP.
fn popped(key: &str, element: &str) -> String {
    let (k, e) = (key.len(), element.len());
    format!("*2\r\n${k}\r\n{key}\r\n${e}\r\n{element}\r\n")
}

const NOTHING: &str = "*-1\r\n";

#[test]
fn a_push_serves_blocked_clients_in_their_order() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut clients: Vec<Socket> = (0..4).map(|_| bench.client()).collect();
    for client in &mut clients[..3] {
        bench.send(client, "BLPOP none k 0\r\n", "");
    }
    let [a, b, c, pusher] = &mut clients[..] else {
        panic!("there are four");
    };
    // Elements that were passed to blocked clients are no longer in the list when the pusher's next
    // command runs.
    bench.send(pusher, "RPUSH k 1 2\r\nLLEN k\r\n", ":2\r\n:0\r\n");
    bench.expect_output(a, &popped("k", "1"));
    bench.expect_output(b, &popped("k", "2"));
    bench.expect_output(c, "");
    bench.send(b, "BRPOP k 0\r\n", "");
    bench.send(pusher, "RPUSH k 3 4 5\r\nLLEN k\r\n", ":3\r\n:1\r\n");
    bench.expect_output(c, &popped("k", "3"));
    bench.expect_output(b, &popped("k", "5"));
    assert!(server.clients.blocking.is_empty());
    assert_eq!(server.data.keyspace.waited_keys(), 0);
}

#[test]
fn a_timeout_is_measured_on_the_monotonic_clock() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    bench.send(&mut client, "BLPOP k 0.05\r\n", "");
    bench.jump(NOW + HOUR_MS);
    bench.expect_output(&mut client, "");
    bench.jump(NOW - HOUR_MS);
    bench.pass(50);
    bench.expect_output(&mut client, "");
    let limit = Duration::from_millis(1);
    assert!(
        bench.worker.timeout(&mut bench.executor) <= limit,
        "the worker wakes in time"
    );
    bench.pass(1);
    bench.expect_output(&mut client, NOTHING);
    // No trace of the blocked command is left: the element stays in the list.
    bench.send(&mut other, "RPUSH k 1\r\nLLEN k\r\n", ":1\r\n:1\r\n");
    assert!(bench.worker.waits.is_empty());
    bench.send(&mut client, "BLMOVE none x LEFT LEFT 0.001\r\n", "");
    bench.pass(2);
    bench.expect_output(&mut client, NOTHING);
}

#[test]
fn a_served_client_is_no_longer_blocked() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    bench.send(&mut client, "BLPOP k 10\r\n", "");
    bench.send(&mut other, "LPUSH k 1\r\n", ":1\r\n");
    bench.expect_output(&mut client, &popped("k", "1"));
    assert!(bench.worker.waits.is_empty());
    bench.send(&mut client, "BLPOP k 0\r\n", "");
    bench.pass(20_000);
    bench.expect_output(&mut client, "");
}

#[test]
fn commands_after_a_blocked_one_run_after_it() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    bench.send(
        &mut client,
        "SET a 1\r\nBLPOP k 0\r\nINCR a\r\nBLPOP k 0\r\nINCR a\r\n",
        "+OK\r\n",
    );
    bench.send(&mut client, "INCR a\r\n", "");
    bench.send(&mut other, "GET a\r\nRPUSH k x\r\n", "$1\r\n1\r\n:1\r\n");
    bench.expect_output(&mut client, &(popped("k", "x") + ":2\r\n"));
    bench.send(&mut other, "RPUSH k y\r\n", ":1\r\n");
    bench.expect_output(&mut client, &(popped("k", "y") + ":3\r\n:4\r\n"));
}

#[test]
fn a_transaction_does_not_block_and_serves_others_at_its_end() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    let queued = "+OK\r\n+QUEUED\r\n+QUEUED\r\n";
    bench.send(
        &mut client,
        "MULTI\r\nBLPOP k 0\r\nBLMOVE k l LEFT LEFT 0\r\nEXEC\r\n",
        &format!("{queued}*2\r\n{NOTHING}$-1\r\n"),
    );
    bench.send(&mut client, "BLPOP j k 0\r\n", "");
    bench.send(
        &mut other,
        "MULTI\r\nRPUSH k 1\r\nDEL k\r\nEXEC\r\n",
        &format!("{queued}*2\r\n:1\r\n:1\r\n"),
    );
    bench.expect_output(&mut client, "");
    // The first key that the blocked command names is served, whichever key was pushed to first.
    // INFO releases the locks.
    bench.send(
        &mut other,
        "MULTI\r\nRPUSH k 1\r\nRPUSH j 2\r\nINFO nothing\r\nLLEN j\r\nEXEC\r\n",
        &format!("{queued}+QUEUED\r\n+QUEUED\r\n*4\r\n:1\r\n:1\r\n$0\r\n\r\n:1\r\n"),
    );
    bench.expect_output(&mut client, &popped("j", "2"));
    bench.send(&mut client, "LRANGE k 0 -1\r\n", "*1\r\n$1\r\n1\r\n");
}

#[test]
fn any_command_that_creates_a_list_serves_blocked_clients() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    for (command, reply) in [
        ("RENAME from k\r\n", "+OK\r\n"),
        ("COPY from k\r\n", ":1\r\n"),
        ("LMOVE from k LEFT RIGHT\r\n", "$1\r\n1\r\n"),
        (
            "MULTI\r\nSET k x\r\nDEL k\r\nLPUSH k 1\r\nEXEC\r\n",
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n+OK\r\n:1\r\n:1\r\n",
        ),
    ] {
        bench.send(&mut client, "BLPOP k 0\r\n", "");
        bench.send(&mut other, "DEL from\r\nRPUSH from 1\r\n", ":0\r\n:1\r\n");
        bench.send(&mut other, command, reply);
        bench.expect_output(&mut client, &popped("k", "1"));
        bench.send(&mut other, "FLUSHALL\r\n", "+OK\r\n");
    }
    bench.send(&mut client, "BLPOP k 0\r\n", "");
    let commands = "SELECT 1\r\nRPUSH k 2\r\nSELECT 0\r\nSWAPDB 0 1\r\n";
    bench.send(&mut other, commands, "+OK\r\n:1\r\n+OK\r\n+OK\r\n");
    bench.expect_output(&mut client, &popped("k", "2"));
    bench.send(&mut client, "BLPOP k 0\r\n", "");
    let commands = "SADD set 7\r\nSORT set STORE k\r\n";
    bench.send(&mut other, commands, ":1\r\n:1\r\n");
    bench.expect_output(&mut client, &popped("k", "7"));
    bench.send(&mut client, "BLPOP k 0\r\n", "");
    let commands = "SELECT 1\r\nRPUSH k 3\r\nMOVE k 0\r\n";
    bench.send(&mut other, commands, "+OK\r\n:1\r\n:1\r\n");
    bench.expect_output(&mut client, &popped("k", "3"));
}

#[test]
fn a_value_of_another_type_does_not_end_a_wait() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    bench.send(&mut client, "BLPOP k 0\r\n", "");
    bench.send(&mut other, "SET k x\r\nHSET h f v\r\n", "+OK\r\n:1\r\n");
    bench.send(&mut other, "RENAME h k\r\nDEL k\r\n", "+OK\r\n:1\r\n");
    bench.expect_output(&mut client, "");
    bench.send(&mut other, "RPUSH k y\r\n", ":1\r\n");
    bench.expect_output(&mut client, &popped("k", "y"));
}

#[test]
fn the_push_of_a_served_client_serves_the_next() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut clients: Vec<Socket> = (0..5).map(|_| bench.client()).collect();
    let [a, b, c, d, pusher] = &mut clients[..] else {
        panic!("there are five");
    };
    bench.send(a, "BLPOP k3 0\r\n", "");
    bench.send(b, "BLMOVE k2 k3 LEFT LEFT 0\r\n", "");
    bench.send(c, "BRPOPLPUSH k1 k2 0\r\n", "");
    bench.send(d, "BLMOVE k1 string LEFT LEFT 0\r\n", "");
    bench.send(pusher, "SET string x\r\nRPUSH k1 1\r\n", "+OK\r\n:1\r\n");
    bench.expect_output(c, "$1\r\n1\r\n");
    bench.expect_output(b, "$1\r\n1\r\n");
    bench.expect_output(a, &popped("k3", "1"));
    bench.expect_output(d, "");
    // A blocked command that fails gets its error, and the element stays.
    bench.send(pusher, "RPUSH k1 2\r\n", ":1\r\n");
    let refused = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
    bench.expect_output(d, refused);
    bench.send(pusher, "LLEN k1\r\n", ":1\r\n");
    // An element that is moved to the same key serves no other client.
    bench.send(a, "BLMOVE k k LEFT RIGHT 0\r\n", "");
    bench.send(b, "BLMPOP 0 2 j k LEFT COUNT 5\r\n", "");
    bench.send(pusher, "RPUSH k x y\r\n", ":2\r\n");
    bench.expect_output(a, "$1\r\nx\r\n");
    bench.expect_output(b, "*2\r\n$1\r\nk\r\n*2\r\n$1\r\ny\r\n$1\r\nx\r\n");
}

#[test]
fn a_disconnected_client_is_no_longer_blocked() {
    let (server, listeners) = server(&[("timeout", "10")]);
    let mut bench = Bench::new(&server, listeners);
    let (mut gone, mut killed, mut client) = (bench.client(), bench.client(), bench.client());
    bench.send(&mut gone, "BLPOP k 0\r\n", "");
    bench.send(&mut killed, "BLPOP k 100\r\n", "");
    // A blocked client does not count as idle.
    bench.pass(20_000);
    bench.send(&mut client, "CLIENT KILL ID 2\r\n", CLOSED);
    let mut client = bench.client();
    bench.expect_output(&mut killed, "");
    assert_eq!(server.clients.blocking.len(), 2);
    gone.write_all(b"PING\r\n").expect("there is room");
    drop(gone);
    bench.send(&mut client, "CLIENT KILL ID 2\r\n", "");
    bench.expect_output(&mut killed, CLOSED);
    let reply = "*0\r\n:1\r\n:1\r\n";
    bench.expect_output(&mut client, ":1\r\n");
    bench.send(
        &mut client,
        "LRANGE k 0 -1\r\nRPUSH k 1\r\nLLEN k\r\n",
        reply,
    );
    assert!(server.clients.blocking.is_empty());
    assert!(bench.worker.waits.is_empty());
}

#[test]
fn a_blocked_client_is_listed_and_can_be_unblocked() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    bench.send(&mut client, "CLIENT ID\r\n", ":1\r\n");
    bench.send(&mut other, "CLIENT UNBLOCK 1\r\n", ":0\r\n");
    bench.send(&mut client, "BLPOP j k 5\r\nPING\r\n", "");
    let line = server.clients.registry.list()[0].line(server.clock.moment(), |index| {
        crate::command::table().name(index)
    });
    assert!(
        line.contains(" flags=b ") && line.contains(" cmd=blpop "),
        "{line}"
    );
    assert_eq!(
        (
            server.clients.blocking.len(),
            server.clients.blocking.with_deadline()
        ),
        (1, 1)
    );
    assert_eq!(server.data.keyspace.waited_keys(), 2);
    bench.send(&mut other, "CLIENT UNBLOCK 1\r\n", ":1\r\n");
    bench.expect_output(&mut client, "*-1\r\n+PONG\r\n");
    bench.send(&mut client, "BLMOVE k j LEFT LEFT 0\r\n", "");
    bench.send(&mut other, "CLIENT UNBLOCK 1 ERROR\r\n", ":1\r\n");
    bench.expect_output(
        &mut client,
        "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n",
    );
    let line = server.clients.registry.list()[0].line(server.clock.moment(), |index| {
        crate::command::table().name(index)
    });
    assert!(line.contains(" flags=N "), "{line}");
    bench.send(
        &mut other,
        "CLIENT UNBLOCK 1\r\nCLIENT UNBLOCK 77\r\n",
        ":0\r\n:0\r\n",
    );
    assert_eq!(server.data.keyspace.waited_keys(), 0);
}

#[test]
fn client_pause_holds_pushes_but_not_timeouts() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut short, mut long, mut other) = (bench.client(), bench.client(), bench.client());
    bench.send(&mut short, "BLPOP k 1\r\n", "");
    bench.send(&mut long, "BLPOP k 100\r\n", "");
    bench.send(
        &mut other,
        "CLIENT PAUSE 60000 WRITE\r\nRPUSH k 1\r\n",
        "+OK\r\n",
    );
    bench.pass(1001);
    bench.expect_output(&mut short, NOTHING);
    bench.send(&mut short, "BLPOP k 0\r\n", "");
    assert_eq!(
        bench.worker.held.len(),
        2,
        "a command that would block is held too"
    );
    bench.pass(60_000);
    bench.expect_output(&mut other, ":1\r\n");
    bench.expect_output(&mut long, &popped("k", "1"));
    bench.expect_output(&mut short, "");
    assert_eq!(server.clients.blocking.len(), 1);
}

#[test]
fn a_reply_that_the_client_turned_off_is_not_sent() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    bench.send(
        &mut client,
        "CLIENT REPLY SKIP\r\nBLPOP k 0\r\nPING\r\n",
        "",
    );
    bench.send(&mut other, "RPUSH k 1\r\n", ":1\r\n");
    bench.expect_output(&mut client, "+PONG\r\n");
}

/// Two workers that are stepped in turn.
struct Pair<'s> {
    benches: [Bench<'s>; 2],
}

impl<'s> Pair<'s> {
    fn new(server: &'s Arc<Server>, listeners: Listeners) -> Pair<'s> {
        let first = Bench::new(server, listeners);
        let address = first.address;
        let worker = Worker::new(Arc::clone(server), 1, Listeners::default()).expect("a poll");
        let second = Bench {
            worker,
            executor: Executor::new(server, 1, server.clock.now()),
            events: Events::with_capacity(EVENTS_MAX),
            address,
        };
        Pair {
            benches: [first, second],
        }
    }

    fn turn(&mut self) {
        (0..self.benches.len()).for_each(|worker| self.step(worker));
    }

    fn client(&mut self) -> Socket {
        let server = Arc::clone(&self.benches[0].worker.server);
        let newest = || server.clients.registry.list().last().map(|info| info.id);
        let before = newest();
        let socket = self.benches[0].client();
        while newest() == before {
            self.turn();
        }
        socket
    }

    /// Runs one iteration of one worker.
    fn step(&mut self, worker: usize) {
        let bench = &mut self.benches[worker];
        inbox::enter(worker);
        let stepped = bench.worker.step(&mut bench.events, &mut bench.executor);
        stepped.expect("a poll that works");
    }

    fn send(&mut self, socket: &mut Socket, commands: &str, reply: &str) {
        socket
            .write_all(commands.as_bytes())
            .expect("there is room");
        self.expect_output(socket, reply);
    }

    fn expect_output(&mut self, socket: &mut Socket, expected: &str) {
        let (mut got, mut chunk) = (Vec::new(), [0; 4096]);
        for _ in 0..TURNS_MAX {
            self.turn();
            match socket.read(&mut chunk) {
                Ok(0) => got.extend_from_slice(CLOSED.as_bytes()),
                Ok(len) => got.extend_from_slice(&chunk[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
            if got.len() >= expected.len() {
                break;
            }
        }
        assert_eq!(String::from_utf8_lossy(&got), expected);
    }
}

#[test]
fn workers_serve_the_blocked_clients_of_other_workers() {
    let (server, listeners) = server(&[("threads", "2")]);
    let mut pair = Pair::new(&server, listeners);
    let mut clients: Vec<Socket> = (0..6).map(|_| pair.client()).collect();
    let workers = server
        .clients
        .registry
        .list()
        .iter()
        .map(|info| info.worker)
        .collect::<Vec<_>>();
    assert_eq!(workers, [0, 1, 0, 1, 0, 1]);
    for client in &mut clients[..4] {
        pair.send(client, "BLPOP a b c d e f g 0\r\n", "");
    }
    let [a, b, c, d, pusher, mover] = &mut clients[..] else {
        panic!("there are six");
    };
    pair.send(pusher, "RPUSH e 1 2 3\r\nLLEN e\r\n", ":3\r\n:0\r\n");
    pair.expect_output(a, &popped("e", "1"));
    pair.expect_output(b, &popped("e", "2"));
    pair.expect_output(c, &popped("e", "3"));
    pair.expect_output(d, "");
    // The chains span shards that the pusher has not locked.
    for i in 0..16 {
        let (from, to) = (format!("from{i}"), format!("to{i}"));
        pair.send(mover, &format!("BLMOVE {from} {to} LEFT RIGHT 0\r\n"), "");
        pair.send(a, &format!("BLMPOP 0 2 none {to} LEFT\r\n"), "");
        pair.send(
            pusher,
            &format!("RPUSH {from} x\r\nEXISTS {from} {to}\r\n"),
            ":1\r\n:0\r\n",
        );
        pair.expect_output(mover, "$1\r\nx\r\n");
        let k = to.len();
        pair.expect_output(a, &format!("*2\r\n${k}\r\n{to}\r\n*1\r\n$1\r\nx\r\n"));
    }
    let id = server.clients.registry.list()[3].id;
    pair.send(pusher, &format!("CLIENT UNBLOCK {id}\r\n"), ":1\r\n");
    pair.expect_output(d, NOTHING);
    assert!(server.clients.blocking.is_empty());
    assert_eq!(server.data.keyspace.waited_keys(), 0);
}

/// Sends commands without waiting for their replies. Panics if the server does not read them.
fn flood(bench: &mut Bench<'_>, client: &mut Socket, bytes: &[u8]) {
    let (mut sent, mut turns) = (0, 0);
    while turns < TURNS_MAX {
        match client.write(&bytes[sent..]) {
            Ok(len) => {
                sent += len;
                turns = 0;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                bench.turn();
                turns += 1;
            }
            Err(error) => panic!("{error}"),
        }
        if sent == bytes.len() {
            return;
        }
    }
    panic!("the server read only {sent} of {} bytes", bytes.len());
}

#[test]
fn a_blocked_client_that_disconnects_is_noticed_behind_much_input() {
    // Regression: the socket of a blocked client was not read. More input than the socket buffers
    // hold kept the FIN away, and a push gave its element to the client that was gone.
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    bench.send(&mut client, "BLPOP q 0\r\n", "");
    assert_eq!(server.clients.blocking.len(), 1);
    flood(&mut bench, &mut client, &b"PING\r\n".repeat(1 << 20));
    drop(client);
    for _ in 0..TURNS_MAX {
        if server.clients.blocking.is_empty() {
            break;
        }
        bench.turn();
    }
    assert!(server.clients.blocking.is_empty());
    bench.send(&mut other, "RPUSH q job\r\nLLEN q\r\n", ":1\r\n:1\r\n");
}

#[test]
fn a_disconnection_is_noticed_before_a_push_that_arrived_with_it() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut other, mut client) = (bench.client(), bench.client());
    bench.send(&mut other, "PING\r\n", "+PONG\r\n");
    bench.send(&mut client, "BLPOP q 0\r\n", "");
    // Both events are in one iteration, that of the push first.
    other
        .write_all(b"RPUSH q job\r\nLLEN q\r\n")
        .expect("there is room");
    drop(client);
    bench.expect_output(&mut other, ":1\r\n:1\r\n");
}

/// Words with quotes are unescaped in place, and what follows a command that stops a batch is
/// parsed again: the words lost their quotes, or the line counted as malformed.
#[test]
fn quoted_words_behind_a_command_that_stops_are_parsed_again() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    let behind = "SET a \"x \\\"y\"\r\nECHO 'b c'\r\nSET \"q\" \"d\r\n";
    bench.send(&mut client, &format!("BLPOP q 0\r\n{behind}"), "");
    let replies = "+OK\r\n$3\r\nb c\r\n-ERR Protocol error: unbalanced quotes in request\r\n";
    bench.send(&mut other, "RPUSH q 1\r\n", ":1\r\n");
    bench.expect_output(&mut client, &format!("{}{replies}", popped("q", "1")));
    bench.send(&mut other, "GET a\r\n", "$4\r\nx \"y\r\n");
    // A command that is held is parsed again itself.
    let mut client = bench.client();
    bench.send(&mut other, "CLIENT PAUSE 60000 WRITE\r\n", "+OK\r\n");
    bench.send(&mut client, "SET \"a b\" \"c\"\r\nGET 'a b'\r\n", "");
    bench.send(&mut other, "CLIENT UNPAUSE\r\n", "+OK\r\n");
    bench.expect_output(&mut client, "+OK\r\n$1\r\nc\r\n");
}

#[test]
fn input_behind_a_blocked_command_is_bounded_and_runs_after_it() {
    let (server, listeners) = server(&[("client-query-buffer-limit", "1mb")]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    bench.send(&mut client, "BLPOP q 0\r\n", "");
    flood(&mut bench, &mut client, &b"INCR n\r\n".repeat(100_000));
    bench.send(&mut other, "GET n\r\nRPUSH q x\r\n", "$-1\r\n:1\r\n");
    let last = ":100000\r\n";
    let mut got = String::new();
    let mut chunk = [0; 65536];
    // A turn ends after a time, in which a slow machine executes few commands.
    let mut turns = 0;
    while turns < TURNS_MAX && !got.ends_with(last) {
        match client.read(&mut chunk) {
            Ok(len) => {
                got.push_str(&String::from_utf8_lossy(&chunk[..len]));
                turns = 0;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                bench.turn();
                turns += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(got.starts_with(&popped("q", "x")) && got.ends_with(last));
    // Beyond the limit the client is disconnected, as it is with an incomplete command.
    bench.send(&mut client, "BLPOP q 0\r\n", "");
    flood(&mut bench, &mut client, &b"INCR n\r\n".repeat(1 << 17));
    let _ = client.write_all(b"INCR n\r\n");
    for _ in 0..TURNS_MAX {
        if server.clients.blocking.is_empty() {
            break;
        }
        bench.turn();
    }
    assert!(server.clients.blocking.is_empty());
    assert_eq!(
        server
            .observability
            .stats
            .query_limit_disconnections
            .load(Relaxed),
        1
    );
}

/// Returns the reply of XREADGROUP with CLAIM to one entry.
fn claimed(idle_ms: u64, deliveries: u32) -> String {
    format!(
        "*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*4\r\n$3\r\n1-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n:{idle_ms}\r\n:{deliveries}\r\n"
    )
}

const READ: &str = "XREADGROUP GROUP g a STREAMS s >\r\n";
const CLAIM: &str = "XREADGROUP GROUP g b BLOCK 0 CLAIM 100 STREAMS s >\r\n";

#[test]
fn a_blocked_reader_claims_an_entry_when_it_has_been_idle_long_enough() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    bench.send(&mut other, "XGROUP CREATE s g $ MKSTREAM\r\n", "+OK\r\n");
    // Nothing is pending when the client blocks. The delivery to another consumer sets the timer.
    bench.send(&mut client, CLAIM, "");
    assert!(bench.worker.waits.is_empty());
    let reader = "XGROUP CREATE s h $\r\n";
    bench.send(&mut other, reader, "+OK\r\n");
    bench.send(
        &mut other,
        "MULTI\r\nXADD s 1-1 f v\r\n",
        "+OK\r\n+QUEUED\r\n",
    );
    bench.send(&mut other, READ, "+QUEUED\r\n");
    let read = "*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n";
    bench.send(
        &mut other,
        "EXEC\r\n",
        &format!("*2\r\n$3\r\n1-1\r\n{read}"),
    );
    bench.pass(100);
    bench.expect_output(&mut client, "");
    bench.pass(1);
    bench.expect_output(&mut client, &claimed(101, 1));
    assert!(bench.worker.waits.is_empty() && server.clients.blocking.is_empty());
    // A pending entry that is acknowledged is not claimed, and the client remains blocked until its
    // timeout.
    bench.send(&mut client, &CLAIM.replace("BLOCK 0", "BLOCK 300"), "");
    assert_eq!(bench.worker.waits.len(), 1);
    bench.send(&mut other, "XACK s g 1-1\r\n", ":1\r\n");
    bench.pass(101);
    bench.expect_output(&mut client, "");
    bench.pass(200);
    bench.expect_output(&mut client, NOTHING);
    assert!(bench.worker.waits.is_empty() && server.clients.blocking.is_empty());
}

/// Runs commands at an instant in the past, like a transaction or a script that takes long.
fn run_late(server: &Server, commands: &[&str], began: Tick) {
    let mut session = Session::new();
    for command in commands {
        let mut out = Vec::new();
        let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        crate::dispatch::exec(server, &mut session, &args, began, &mut out);
        assert_ne!(
            out.first(),
            Some(&b'-'),
            "{}",
            String::from_utf8_lossy(&out)
        );
    }
}

/// Regression: clients were served at the instant at which the command that wrote the key had
/// begun. If a transaction or a script took longer than the TTL that it had set, they received
/// expired elements.
#[test]
fn a_blocked_client_receives_nothing_that_has_expired_during_the_command() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut other = bench.client();
    let script = "EVAL redis.call('RPUSH','k','a')redis.call('PEXPIRE','k',50) 0";
    for (call, commands) in [
        (
            "BLPOP k 0",
            &["MULTI", "RPUSH k a", "PEXPIRE k 50", "EXEC"][..],
        ),
        (
            "BLMOVE k to LEFT LEFT 0",
            &["MULTI", "RPUSH k a", "PEXPIRE k 50", "EXEC"],
        ),
        ("BLMPOP 0 2 j k LEFT", &[script]),
        (
            "BRPOP k 0",
            &["RPUSH from a", "PEXPIRE from 50", "RENAME from k"],
        ),
        (
            "BRPOPLPUSH k to 0",
            &["RPUSH from a", "PEXPIRE from 50", "COPY from k"],
        ),
        (
            "BLPOP k 0",
            &["SELECT 1", "RPUSH k a", "PEXPIRE k 50", "MOVE k 0"],
        ),
        (
            "BLPOP k 0",
            &["SELECT 1", "RPUSH k a", "PEXPIRE k 50", "SWAPDB 0 1"],
        ),
        (
            "BZPOPMIN k 0",
            &["MULTI", "ZADD k 1 a", "PEXPIRE k 50", "EXEC"],
        ),
        (
            "BZMPOP 0 1 k MAX",
            &["MULTI", "ZADD k 1 a", "ZPEXPIRE k 50 MEMBERS 1 a", "EXEC"],
        ),
        (
            "XREAD BLOCK 0 STREAMS k 0",
            &["MULTI", "XADD k 1-1 f v", "PEXPIRE k 50", "EXEC"],
        ),
        (
            "XREAD BLOCK 0 STREAMS k 0",
            &["MULTI", "XADD k 1-1 f v", "XPEXPIRE k 50 IDS 1 1-1", "EXEC"],
        ),
    ] {
        let mut client = bench.client();
        bench.send(&mut client, &format!("{call}\r\n"), "");
        let began = server.clock.now();
        server.clock.pass_ms(300);
        run_late(&server, commands, began);
        assert_eq!(server.clients.blocking.len(), 1, "{call} {commands:?}");
        drop(client);
        while !server.clients.blocking.is_empty() {
            bench.turn();
        }
        bench.send(&mut other, "FLUSHALL\r\n", "+OK\r\n");
    }
    // What has not expired is served.
    bench.send(&mut other, "BLPOP k 0\r\n", "");
    let began = server.clock.now();
    server.clock.pass_ms(300);
    run_late(
        &server,
        &["MULTI", "RPUSH k a", "PEXPIRE k 500", "EXEC"],
        began,
    );
    bench.expect_output(&mut other, &popped("k", "a"));
}

#[test]
fn info_counts_the_keys_whose_removal_ends_a_wait() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut clients: Vec<Socket> = (0..4).map(|_| bench.client()).collect();
    let create = "XGROUP CREATE s g $ MKSTREAM\r\nXGROUP CREATE t g $ MKSTREAM\r\n";
    bench.send(&mut clients[0], create, "+OK\r\n+OK\r\n");
    bench.send(&mut clients[0], "BLPOP k 0\r\n", "");
    bench.send(&mut clients[1], "XREAD BLOCK 0 STREAMS s u $ $\r\n", "");
    let read = "XREADGROUP GROUP g c BLOCK 0 STREAMS s t > >\r\n";
    bench.send(&mut clients[2], read, "");
    bench.send(
        &mut clients[3],
        "XREADGROUP GROUP g d BLOCK 0 STREAMS t >\r\n",
        "",
    );
    assert_eq!(
        (
            server.data.keyspace.waited_keys(),
            server.clients.blocking.failing_keys()
        ),
        (4, 2)
    );
}

mod ends;

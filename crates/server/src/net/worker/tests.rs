//! Tests of one worker that is stepped by hand, with a manual clock and clients over loopback.

use super::*;
use durability::restart::handover::Handover;
use session::clock::Clock;
use session::message::PortProtocol;
use session::session::Session;
use settings::{Config, find};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream as Socket};

const NOW: u64 = 1_700_000_000_000;
/// Number of iterations after which expected output counts as missing. Each waits at most for the
/// next periodic tasks.
const TURNS_MAX: usize = 200;

/// Marker for a closed connection in expected output.
const CLOSED: &str = "(closed)";
const HOUR_MS: u64 = 3_600_000;

fn server(settings: &[(&str, &str)]) -> (Arc<Server>, Listeners) {
    let config = Config::default();
    let own = [("port", "0"), ("bind", "127.0.0.1"), ("threads", "1")];
    for (name, value) in own.iter().chain(settings) {
        let param = find(name).expect("a setting of this name");
        config.set(param, value).expect("a value that fits");
    }
    let listeners = Listeners::bind(&config, &mut Handover::default()).expect("a free port");
    let server = Server::new(config, Clock::manual(NOW)).expect("valid settings");
    (Arc::new(server), listeners)
}

struct Bench<'s> {
    worker: Worker,
    executor: Executor<'s>,
    events: Events,
    address: SocketAddr,
}

impl<'s> Bench<'s> {
    fn new(server: &'s Arc<Server>, listeners: Listeners) -> Bench<'s> {
        let address = listeners.addresses(PortProtocol::Resp, false)[0];
        inbox::enter(0);
        Bench {
            worker: Worker::new(Arc::clone(server), 0, listeners).expect("a poll"),
            executor: Executor::new(server, 0, server.clock.now()),
            events: Events::with_capacity(EVENTS_MAX),
            address,
        }
    }

    fn client(&self) -> Socket {
        let socket = Socket::connect(self.address).expect("it listens");
        socket.set_nonblocking(true).expect("a socket");
        socket
    }

    fn turn(&mut self) {
        let stepped = self.worker.step(&mut self.events, &mut self.executor);
        stepped.expect("a poll that works");
        let inbox = &self.worker.server.workers.inboxes[0];
        let sleeps_with_messages =
            inbox.is_filled() && !self.worker.timeout(&mut self.executor).is_zero();
        assert!(
            !sleeps_with_messages,
            "the worker sleeps although its inbox has messages"
        );
    }

    /// Ends background work, and moves the periodic tasks far ahead.
    fn settle(&mut self) {
        self.worker.periodic_at = Instant::now() + Duration::from_secs(3600);
        while self.worker.is_busy {
            self.turn();
        }
    }

    /// Sends commands and runs iterations until the expected number of reply bytes has arrived.
    fn send(&mut self, socket: &mut Socket, commands: &str, reply: &str) {
        socket
            .write_all(commands.as_bytes())
            .expect("there is room");
        self.expect_output(socket, reply);
    }

    fn expect_output(&mut self, socket: &mut Socket, expected: &str) {
        let mut got = Vec::new();
        let mut chunk = [0; 4096];
        for _ in 0..TURNS_MAX {
            match socket.read(&mut chunk) {
                Ok(0) => {
                    got.extend_from_slice(CLOSED.as_bytes());
                    break;
                }
                Ok(len) => got.extend_from_slice(&chunk[..len]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.turn(),
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
fn an_event_is_sent_before_the_worker_sleeps() {
    // Regression: with one worker, expiration events were added to the worker's own inbox after it
    // was emptied, and stayed there for up to 100 ms until the worker woke for another reason.
    let (server, listeners) = server(&[("notify-keyspace-events", "Ex")]);
    let mut bench = Bench::new(&server, listeners);
    let (mut listener, mut client) = (bench.client(), bench.client());
    bench.send(
        &mut listener,
        "SUBSCRIBE __keyevent@0__:expired\r\n",
        "*3\r\n$9\r\nsubscribe\r\n$22\r\n__keyevent@0__:expired\r\n:1\r\n",
    );
    bench.send(&mut client, "SET a 1 PX 50\r\n", "+OK\r\n");
    server.clock.set_ms(NOW + 51);
    let message = "*3\r\n$7\r\nmessage\r\n$22\r\n__keyevent@0__:expired\r\n$1\r\na\r\n";
    bench.expect_output(&mut listener, message);
}

#[test]
fn events_of_a_batch_under_one_lock_are_sent_before_the_worker_sleeps() {
    let (server, listeners) = server(&[("notify-keyspace-events", "E$")]);
    let mut bench = Bench::new(&server, listeners);
    let (mut listener, mut client) = (bench.client(), bench.client());
    bench.send(
        &mut listener,
        "SUBSCRIBE __keyevent@0__:set\r\n",
        "*3\r\n$9\r\nsubscribe\r\n$18\r\n__keyevent@0__:set\r\n:1\r\n",
    );
    bench.send(
        &mut client,
        &"SET a 1\r\n".repeat(20),
        &"+OK\r\n".repeat(20),
    );
    let message = "*3\r\n$7\r\nmessage\r\n$18\r\n__keyevent@0__:set\r\n$1\r\na\r\n";
    bench.expect_output(&mut listener, &message.repeat(20));
}

impl Bench<'_> {
    /// Sets the wall clock and runs the checks of clients.
    fn jump(&mut self, to_ms: u64) {
        self.worker.server.clock.set_ms(to_ms);
        self.check_clients();
    }

    /// Advances both clocks and runs the checks of clients.
    fn pass(&mut self, span_ms: u64) {
        self.worker.server.clock.pass_ms(span_ms);
        self.check_clients();
    }

    fn check_clients(&mut self) {
        self.executor.set_now(self.worker.server.clock.now());
        self.worker.check_clients(&mut self.executor);
        self.worker.release_held(&mut self.executor);
        self.executor.rest();
    }
}

#[test]
fn a_clock_jump_does_not_close_idle_clients() {
    let (server, listeners) = server(&[("timeout", "60")]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    bench.send(&mut client, "PING\r\n", "+PONG\r\n");
    bench.jump(NOW + HOUR_MS);
    bench.send(&mut client, "PING\r\n", "+PONG\r\n");
    // An idle client is not kept longer either.
    bench.jump(NOW - HOUR_MS);
    bench.pass(60_001);
    bench.expect_output(&mut client, CLOSED);
}

#[test]
fn a_clock_jump_does_not_change_a_pause() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    bench.send(&mut client, "CLIENT PAUSE 60000 WRITE\r\n", "+OK\r\n");
    bench.send(&mut other, "GET a\r\nSET a 1\r\n", "$-1\r\n");
    assert_eq!(bench.worker.held.len(), 1);
    bench.jump(NOW + HOUR_MS);
    assert_eq!(bench.worker.held.len(), 1, "the pause continues");
    bench.jump(NOW - HOUR_MS);
    bench.pass(60_000);
    bench.expect_output(&mut other, "+OK\r\n");
}

#[test]
fn a_clock_jump_does_not_count_towards_the_soft_limit() {
    let limit = "normal 0 1 60";
    let (server, listeners) = server(&[("client-output-buffer-limit", limit)]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    bench.send(&mut client, "PING\r\n", "+PONG\r\n");
    let mut message = session::message::Publication::default();
    message.push(session::message::Source::Channel, b"", b"");
    let connection = bench.worker.connection(0).expect("it is the first");
    connection.deliver(&Arc::new(message));
    for jumps in [NOW, NOW + HOUR_MS, NOW - HOUR_MS] {
        bench.jump(jumps);
        assert!(bench.worker.connection(0).is_some());
    }
    bench.pass(60_001);
    assert!(bench.worker.connection(0).is_none());
}

#[test]
fn many_held_clients_are_served_over_several_iterations() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut clients: Vec<Socket> = (0..100).map(|_| bench.client()).collect();
    bench.send(&mut clients[0], "CLIENT PAUSE 60000\r\n", "+OK\r\n");
    for client in &mut clients[1..] {
        client.write_all(b"INCR a\r\n").expect("there is room");
    }
    while bench.worker.held.len() < 99 {
        bench.turn();
    }
    server.clock.pass_ms(60_000);
    let timeout = bench.worker.timeout(&mut bench.executor);
    assert!(timeout.is_zero(), "the pause has ended");
    bench.turn();
    assert!(!bench.worker.held.is_empty());
    bench.turn();
    assert!(bench.worker.held.len() < 98);
    while !bench.worker.held.is_empty() {
        bench.turn();
    }
    bench.send(&mut clients[0], "GET a\r\n", "$2\r\n99\r\n");
}

#[test]
fn clients_that_leave_together_are_closed_over_several_iterations() {
    // Regression: 9,000 connections that closed at once delayed other clients by 85 ms.
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut other = bench.client();
    bench.send(&mut other, "PING\r\n", "+PONG\r\n");
    let mut clients: Vec<Socket> = (0..200).map(|_| bench.client()).collect();
    let connected = |bench: &Bench<'_>| bench.worker.connections.iter().flatten().count();
    while connected(&bench) < 201 {
        bench.turn();
    }
    for client in &mut clients {
        // Commands before the end are executed.
        client.write_all(b"INCR a\r\n").expect("there is room");
    }
    drop(clients);
    let mut last = connected(&bench);
    let mut turns = 0;
    while last > 1 {
        bench.turn();
        let left = connected(&bench);
        assert!(last - left <= 32, "{last} to {left} in one iteration");
        last = left;
        turns += 1;
        assert!(turns < 10_000);
    }
    bench.send(&mut other, "GET a\r\n", "$3\r\n200\r\n");
    assert_eq!(server.clients.registry.len(), 1);
}

#[test]
fn clients_that_are_killed_together_are_closed_over_several_iterations() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut killer = bench.client();
    bench.send(&mut killer, "PING\r\n", "+PONG\r\n");
    let mut clients: Vec<Socket> = (0..100).map(|_| bench.client()).collect();
    for client in &mut clients {
        bench.send(client, "PING\r\n", "+PONG\r\n");
    }
    bench.send(&mut killer, "CLIENT KILL TYPE normal\r\n", ":100\r\n");
    assert!(!bench.worker.leaving.is_empty());
    for client in &mut clients {
        bench.expect_output(client, CLOSED);
    }
    assert_eq!(server.clients.registry.len(), 1);
}

#[test]
fn a_subscriber_that_reads_late_receives_everything_in_order() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut late, mut publisher) = (bench.client(), bench.client());
    let hello = "HELLO 3\r\nSUBSCRIBE a\r\n";
    late.write_all(hello.as_bytes()).expect("there is room");
    let mut got = Vec::new();
    let mut chunk = vec![0; 1 << 20];
    while !got.ends_with(b"subscribe\r\n$1\r\na\r\n:1\r\n") {
        bench.turn();
        if let Ok(len) = late.read(&mut chunk) {
            got.extend_from_slice(&chunk[..len]);
        }
    }
    got.clear();
    let mut expected = String::new();
    for number in 0..3_000 {
        let payload = format!("{number} ").repeat(if number % 10 == 0 { 16_000 } else { 3 });
        let len = payload.len();
        let command = format!("*3\r\n$7\r\nPUBLISH\r\n$1\r\na\r\n${len}\r\n{payload}\r\n");
        bench.send(&mut publisher, &command, ":1\r\n");
        expected += &format!(">3\r\n$7\r\nmessage\r\n$1\r\na\r\n${len}\r\n{payload}\r\n");
        if number == 2_000 {
            // The reply to a command comes behind the messages before it.
            let pending = bench
                .worker
                .connection(0)
                .map(|first| first.pending_bytes());
            assert!(pending > Some(1 << 20), "{pending:?}");
            late.write_all(b"PING\r\n").expect("there is room");
        }
    }
    for _ in 0..TURNS_MAX * 10 {
        if got.len() >= expected.len() + "+PONG\r\n".len() {
            break;
        }
        match late.read(&mut chunk) {
            Ok(len) => got.extend_from_slice(&chunk[..len]),
            Err(_) => bench.turn(),
        }
    }
    let got = String::from_utf8_lossy(&got);
    assert_eq!(got.matches("+PONG\r\n").count(), 1);
    assert!(got.replace("+PONG\r\n", "") == expected);
    let connection = bench.worker.connection(0).expect("it is the first");
    assert_eq!(connection.pending_bytes(), 0);
}

mod blocking;
mod confirmed;
mod durable;
mod long;
mod memory;
mod replies;
mod slots;
mod tracking;
mod users;

#[test]
fn a_pause_is_not_weakened_and_holds_only_what_would_run() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut admin, mut reader, mut writer) = (bench.client(), bench.client(), bench.client());
    bench.send(&mut admin, "CLIENT PAUSE 60000 WRITE\r\n", "+OK\r\n");
    // A malformed write and a transaction that only reads pass.
    let arity = "-ERR wrong number of arguments for 'set' command\r\n";
    bench.send(&mut reader, "SET a\r\n", arity);
    bench.send(
        &mut reader,
        "MULTI\r\nGET a\r\nEXEC\r\n",
        "+OK\r\n+QUEUED\r\n*1\r\n$-1\r\n",
    );
    bench.send(&mut writer, "MULTI\r\nSET a 1\r\nEXEC\r\n", "+OK\r\n");
    bench.send(&mut admin, "INFO clients\r\n", "");
    assert_eq!(server.clients.held.load(Relaxed), 1);
    // A longer pause of everything replaces a pause of writes; a shorter or weaker one does not
    // replace it.
    let mut drain = [0; 65536];
    let _ = admin.read(&mut drain);
    bench.send(&mut admin, "CLIENT PAUSE 1000 ALL\r\n", "+OK\r\n");
    bench.send(&mut admin, "CLIENT PAUSE 90000 WRITE\r\n", "+OK\r\n");
    bench.send(&mut reader, "GET a\r\n", "");
    assert_eq!(server.clients.held.load(Relaxed), 2);
    bench.pass(60_001);
    bench.expect_output(&mut reader, "");
    bench.pass(30_000);
    // Held clients are served in the order of their connections.
    bench.expect_output(&mut reader, "$-1\r\n");
    bench.expect_output(&mut writer, "+QUEUED\r\n*1\r\n+OK\r\n");
    assert_eq!(server.clients.held.load(Relaxed), 0);
    assert!(!server.data.keyspace.is_frozen());
}

#[test]
fn a_held_client_that_disconnects_is_removed_and_its_command_does_not_run() {
    // Regression: the client stayed connected, and its write ran when the pause ended.
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut admin, mut writer) = (bench.client(), bench.client());
    bench.send(&mut admin, "CLIENT PAUSE 60000 WRITE\r\n", "+OK\r\n");
    bench.send(&mut writer, "SET a 1\r\n", "");
    assert_eq!(server.clients.held.load(Relaxed), 1);
    drop(writer);
    for _ in 0..TURNS_MAX {
        bench.turn();
        if server.clients.held.load(Relaxed) == 0 {
            break;
        }
    }
    assert_eq!(server.clients.held.load(Relaxed), 0);
    bench.send(
        &mut admin,
        "CLIENT UNPAUSE\r\nEXISTS a\r\n",
        "+OK\r\n:0\r\n",
    );
}

#[test]
fn confirmations_of_subscriptions_are_sent_although_replies_are_off() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    let subscribed = "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";
    let unsubscribed = "*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n";
    let commands =
        "CLIENT REPLY OFF\r\nPING\r\nSUBSCRIBE c\r\nSUBSCRIBE\r\nUNSUBSCRIBE c\r\nPING\r\n";
    bench.send(
        &mut client,
        commands,
        &format!("{subscribed}{unsubscribed}"),
    );
    bench.send(&mut client, "CLIENT REPLY ON\r\n", "+OK\r\n");
    let commands = "CLIENT REPLY SKIP\r\nSUBSCRIBE c\r\nPING\r\n";
    let pong = "*2\r\n$4\r\npong\r\n$0\r\n\r\n";
    bench.send(&mut client, commands, &format!("{subscribed}{pong}"));
}

#[test]
fn failed_authentications_delay_further_ones_from_the_address() {
    let (server, listeners) = server(&[("requirepass", "secret")]);
    let mut bench = Bench::new(&server, listeners);
    let (mut guesser, mut friend) = (bench.client(), bench.client());
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    for _ in 0..6 {
        bench.send(&mut guesser, "AUTH guess\r\n", wrong);
    }
    // The next attempt waits, also with the right password, while other commands are answered.
    bench.send(&mut guesser, "AUTH guess\r\nPING\r\n", "");
    let refused = "-NOAUTH Authentication required.\r\n";
    bench.send(&mut friend, "PING\r\n", refused);
    bench.send(&mut friend, "HELLO 2 AUTH default secret\r\n", "");
    bench.pass(49);
    bench.expect_output(&mut guesser, "");
    bench.pass(1);
    bench.expect_output(&mut guesser, &format!("{wrong}{refused}"));
    // The second attempt waits behind the first one.
    bench.expect_output(&mut friend, "");
    assert_eq!(bench.worker.delayed.len(), 1);
    bench.pass(50);
    while !bench.worker.delayed.is_empty() {
        bench.turn();
    }
    let mut hello = [0; 4096];
    let len = friend.read(&mut hello).expect("a reply");
    assert!(hello[..len].starts_with(b"*14\r\n"), "{:?}", &hello[..len]);
    bench.send(&mut friend, "PING\r\n", "+PONG\r\n");
    bench.send(&mut guesser, "AUTH guess\r\n", "");
    bench.pass(100);
    bench.expect_output(&mut guesser, wrong);
    // A client that disconnects while it waits leaves nothing behind.
    bench.send(&mut guesser, "AUTH guess\r\n", "");
    assert_eq!(bench.worker.delayed.len(), 1);
    bench.worker.close(0, &mut bench.executor);
    assert!(bench.worker.delayed.is_empty());
}

#[test]
fn a_blocked_command_is_recorded_when_it_is_done_without_its_wait() {
    let (server, listeners) = server(&[("slowlog-log-slower-than", "0")]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    let recorded = |name: &[u8]| {
        let entries = server.observability.slowlog.newest(100).into_iter();
        let named = entries.filter(|entry| entry.args[0] == name);
        named.collect::<Vec<_>>()
    };
    let calls = || {
        let index = crate::command::table().lookup(b"BLPOP").expect("a command");
        server
            .observability
            .stats
            .sum(|worker| &worker.commands[index as usize].calls)
    };
    bench.send(&mut client, "BLPOP q 0\r\n", "");
    assert_eq!((recorded(b"BLPOP").len(), calls()), (0, 0));
    bench.pass(3_600_000);
    bench.send(&mut other, "RPUSH q x\r\n", ":1\r\n");
    bench.expect_output(&mut client, "*2\r\n$1\r\nq\r\n$1\r\nx\r\n");
    let entries = recorded(b"BLPOP");
    assert_eq!((entries.len(), calls()), (1, 1));
    assert!(entries[0].micros < 60_000_000, "{:?}", entries[0]);
    assert_eq!(entries[0].args.join(&b' '), b"BLPOP q 0");
    bench.send(&mut client, "BLPOP q 0.001\r\n", "");
    bench.pass(10);
    bench.expect_output(&mut client, "*-1\r\n");
    assert_eq!((recorded(b"BLPOP").len(), calls()), (2, 2));
}

/// With one thread, a round of background work was ended after a slice, and the next one began
/// 100 ms later, so that a removed set of 30 MB kept its memory for seconds.
#[test]
fn a_removed_set_is_freed_in_successive_iterations() {
    let (server, listeners) = server(&[("script-time-limit", "0")]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    let fill = r#"EVAL "for i=1,100000 do redis.call('sadd','s',i) end" 0"#;
    bench.send(&mut client, &format!("{fill}\r\n"), "$-1\r\n");
    // The periodic tasks would request a round, which could free the set before it is observed.
    let pause = |bench: &mut Bench| {
        bench.worker.periodic_at = Instant::now() + Duration::from_secs(3600);
    };
    pause(&mut bench);
    while bench.worker.expiry_driver.has_background_work() {
        bench.turn();
    }
    bench.send(&mut client, "DEL s\r\n", ":1\r\n");
    let pending = || server.data.keyspace.memory_facts().pending_objects;
    assert_eq!(pending(), 1);
    bench.worker.expiry_driver.request_background_work();
    // The round was requested between two iterations, so that the next one must not wait for it.
    bench.worker.is_busy = true;
    while bench.worker.expiry_driver.has_background_work() {
        pause(&mut bench);
        bench.turn();
        let is_continued = bench.worker.is_busy || pending() == 0;
        assert!(
            is_continued,
            "the worker sleeps although the set is not freed"
        );
    }
    assert_eq!(pending(), 0);
}

/// Every script and every function was held as a write.
#[test]
fn a_pause_of_writes_does_not_hold_scripts_that_declare_to_write_nothing() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut admin, mut reader) = (bench.client(), bench.client());
    let library = "FUNCTION LOAD \"#!lua name=l\\nredis.register_function{function_name='f',callback=function() return 2 end,flags={'no-writes'}}\\nredis.register_function('g',function() return 3 end)\"\r\n";
    bench.send(&mut admin, library, "$1\r\nl\r\n");
    let load = "SCRIPT LOAD \"#!lua flags=no-writes\\nreturn 1\"\r\n";
    admin.write_all(load.as_bytes()).expect("there is room");
    let mut reply = [0; 64];
    let sha = loop {
        bench.turn();
        if let Ok(len) = admin.read(&mut reply) {
            let text = String::from_utf8_lossy(&reply[5..len - 2]).into_owned();
            assert_eq!(text.len(), 40);
            break text;
        }
    };
    bench.send(&mut admin, "CLIENT PAUSE 60000 WRITE\r\n", "+OK\r\n");
    let script = "\"#!lua flags=no-writes\\nreturn 1\"";
    for call in [
        format!("EVAL {script} 0"),
        format!("EVAL_RO {script} 0"),
        format!("EVALSHA {sha} 0"),
        format!("EVALSHA_RO {sha} 0"),
    ] {
        bench.send(&mut reader, &format!("{call}\r\n"), ":1\r\n");
    }
    bench.send(&mut reader, "FCALL F 0\r\nFCALL_RO f 0\r\n", ":2\r\n:2\r\n");
    let transaction = format!("MULTI\r\nEVAL {script} 0\r\nFCALL f 0\r\nEXEC\r\n");
    let replies = "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:1\r\n:2\r\n";
    bench.send(&mut reader, &transaction, replies);
    let mut writers = Vec::new();
    for call in [
        "EVAL \"return 1\" 0".to_owned(),
        "EVAL \"#!lua\\nreturn 1\" 0".to_owned(),
        format!("EVALSHA {} 0", "a".repeat(40)),
        "FCALL g 0".to_owned(),
        "FCALL absent 0".to_owned(),
    ] {
        let mut writer = bench.client();
        let before = server.clients.held.load(Relaxed);
        writer
            .write_all(format!("{call}\r\n").as_bytes())
            .expect("there is room");
        for _ in 0..TURNS_MAX {
            if server.clients.held.load(Relaxed) > before {
                break;
            }
            bench.turn();
        }
        assert_eq!(server.clients.held.load(Relaxed), before + 1, "{call}");
        writers.push(writer);
    }
}

/// Regression: timeouts above the maximum were accepted and meant no timeout.
#[test]
fn timeouts_that_are_out_of_range_are_refused() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    bench.send(&mut client, "XGROUP CREATE s g $ MKSTREAM\r\n", "+OK\r\n");
    for call in [
        "WAIT 1 9223372036854775807",
        "WAITAOF 0 1 9223372036854775807",
        "XREAD BLOCK 9223372036854775807 STREAMS s $",
        "XREADGROUP GROUP g c BLOCK 9223372036854775807 STREAMS s >",
        "CLIENT PAUSE 9223372036854775807",
        "BLPOP k 9223372036854775",
        "BRPOPLPUSH k to inf",
        "BZPOPMIN k 9223372036854775",
        "BLMPOP 9223372036854775 1 k LEFT",
        "BZMPOP 9223372036854775 1 k MIN",
        "BLMOVE k to LEFT LEFT 9223372036854775",
    ] {
        let refused = "-ERR timeout is out of range\r\n";
        bench.send(&mut client, &format!("{call}\r\n"), refused);
    }
    bench.send(
        &mut client,
        "WAIT 1 x\r\n",
        "-ERR timeout is not an integer or out of range\r\n",
    );
    bench.send(
        &mut client,
        "WAIT x 1\r\n",
        "-ERR value is not an integer or out of range\r\n",
    );
    for call in [
        "WAIT 1 -1",
        "WAITAOF 0 1 -1",
        "CLIENT PAUSE -1",
        "BLPOP k -1",
    ] {
        let refused = "-ERR timeout is negative\r\n";
        bench.send(&mut client, &format!("{call}\r\n"), refused);
    }
}

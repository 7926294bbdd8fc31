//! Tests of long commands on workers that are stepped by hand. The thread for long commands does
//! not run; the tests perform its tasks.

use super::*;
use crate::dispatch::long::perform;

mod feed;

/// With this threshold, commands that read the whole list are long; those with few arguments are
/// not.
const LONG: &[(&str, &str)] = &[("long-command-threshold", "6")];

impl Bench<'_> {
    /// Performs the next task of the thread for long commands.
    fn perform(&mut self) {
        let server = Arc::clone(&self.worker.server);
        let task = server
            .workers
            .long
            .try_next()
            .expect("a long command was begun");
        perform(&server, task);
    }

    /// Performs all tasks of the thread, including those of commands that begin meanwhile.
    fn perform_all(&mut self) {
        let server = Arc::clone(&self.worker.server);
        self.turn();
        while let Some(task) = server.workers.long.try_next() {
            perform(&server, task);
            self.turn();
        }
    }
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// Returns one of the three elements of the list.
fn element(letter: &str) -> String {
    letter.repeat(40)
}

/// Command that creates the list `l` of three elements, in descending order.
fn list() -> String {
    format!(
        "RPUSH l {} {} {}\r\n",
        element("c"),
        element("b"),
        element("a")
    )
}

/// Reply of SORT with ALPHA.
fn sorted() -> String {
    let elements = ["a", "b", "c"].map(|letter| bulk(&element(letter)));
    format!("*3\r\n{}", elements.concat())
}

const SORT: &str = "SORT l ALPHA\r\n";
const SORT_STORE: &str = "SORT l ALPHA STORE d\r\n";

/// Creates the list and four clients.
fn prepare<'s>(server: &'s Arc<Server>, listeners: Listeners) -> (Bench<'s>, [Socket; 4]) {
    let mut bench = Bench::new(server, listeners);
    let mut clients = [(); 4].map(|()| bench.client());
    bench.send(&mut clients[0], &list(), ":3\r\n");
    (bench, clients)
}

#[test]
fn other_keys_are_served_while_a_long_command_runs() {
    let (server, listeners) = server(LONG);
    let (mut bench, [mut client, mut other, mut third, _]) = prepare(&server, listeners);
    // The client's next command waits as well, even if it names another key.
    bench.send(&mut client, &format!("{SORT}GET x\r\n"), "");
    bench.send(&mut other, "SET x 1\r\nGET x\r\n", "+OK\r\n$1\r\n1\r\n");
    // Commands on the whole keyspace see the list.
    bench.send(&mut other, "DBSIZE\r\n", ":2\r\n");
    bench.send(
        &mut other,
        "SCAN 0 COUNT 100 TYPE list\r\n",
        &format!("*2\r\n{}*1\r\n{}", bulk("0"), bulk("l")),
    );
    // Commands on the list wait.
    bench.send(&mut other, "LLEN l\r\nGET x\r\n", "");
    bench.send(&mut third, "RPUSH l z\r\n", "");
    assert_eq!(server.workers.long.waiting(), 2);
    bench.perform();
    bench.expect_output(&mut client, &format!("{}$1\r\n1\r\n", sorted()));
    bench.expect_output(&mut other, ":3\r\n$1\r\n1\r\n");
    bench.expect_output(&mut third, ":4\r\n");
    assert!(!server.workers.long.is_running());
    assert_eq!(server.workers.long.waiting(), 0);
    bench.perform_all();
    assert!(!server.workers.long.is_active());
    server.data.keyspace.check();
}

#[test]
fn a_long_command_of_a_client_that_disconnects_still_changes_its_keys() {
    let (server, listeners) = server(LONG);
    let (mut bench, [mut client, mut other, ..]) = prepare(&server, listeners);
    bench.send(&mut client, SORT_STORE, "");
    drop(client);
    bench.send(&mut other, "LLEN d\r\n", "");
    bench.perform_all();
    bench.expect_output(&mut other, ":3\r\n");
    assert!(!server.workers.long.is_active());
}

#[test]
fn a_waiting_client_that_disconnects_leaves_no_trace() {
    let (server, listeners) = server(LONG);
    let (mut bench, [mut client, mut other, mut third, _]) = prepare(&server, listeners);
    bench.send(&mut client, SORT, "");
    bench.send(&mut other, SORT, "");
    bench.send(&mut third, SORT_STORE, "");
    assert_eq!(server.workers.long.waiting(), 2);
    drop(other);
    bench.expect_output(&mut third, "");
    bench.perform_all();
    bench.expect_output(&mut client, &sorted());
    bench.expect_output(&mut third, ":3\r\n");
    assert!(!server.workers.long.is_active());
}

#[test]
fn long_commands_run_in_the_order_of_their_arrival() {
    let (server, listeners) = server(LONG);
    let (mut bench, [mut a, mut b, mut c, mut d]) = prepare(&server, listeners);
    // A client that always sends the next long command does not delay the others.
    bench.send(&mut a, &SORT.repeat(3), "");
    bench.send(&mut b, "LPUSH l z\r\n", "");
    bench.send(&mut c, "SORT l ALPHA LIMIT 0 1\r\n", "");
    bench.send(&mut d, "LPOP l\r\n", "");
    bench.perform();
    bench.expect_output(&mut a, &sorted());
    bench.expect_output(&mut b, ":4\r\n");
    assert!(
        server.workers.long.is_running(),
        "the command of the third client"
    );
    bench.expect_output(&mut d, "");
    bench.perform_all();
    bench.expect_output(&mut c, &format!("*1\r\n{}", bulk(&element("a"))));
    bench.expect_output(&mut d, &bulk("z"));
    bench.expect_output(&mut a, &sorted().repeat(2));
    assert!(!server.workers.long.is_active());
}

#[test]
fn a_deadline_that_passes_meanwhile_expires_the_key_once() {
    let (server, listeners) = server(&[("notify-keyspace-events", "Ex"), LONG[0]]);
    let (mut bench, [mut client, mut other, mut listener, _]) = prepare(&server, listeners);
    bench.send(
        &mut listener,
        "SUBSCRIBE __keyevent@0__:expired\r\n",
        "*3\r\n$9\r\nsubscribe\r\n$22\r\n__keyevent@0__:expired\r\n:1\r\n",
    );
    let message = format!(
        "*3\r\n{}{}{}",
        bulk("message"),
        bulk("__keyevent@0__:expired"),
        bulk("l")
    );
    bench.send(&mut other, "PEXPIRE l 50\r\n", ":1\r\n");
    bench.send(&mut client, SORT, "");
    server.clock.set_ms(NOW + 51);
    bench.expect_output(&mut listener, &message);
    bench.send(&mut other, "EXISTS l\r\n", "");
    bench.perform_all();
    bench.expect_output(&mut client, &sorted());
    bench.expect_output(&mut other, ":0\r\n");
    bench.expect_output(&mut listener, "");
    server.data.keyspace.check();
    assert_eq!(server.data.keyspace.counters().expired_keys, 1);
}

#[test]
fn a_long_command_that_changed_an_expired_key_does_not_restore_it() {
    let (server, listeners) = server(LONG);
    let (mut bench, [mut client, mut other, ..]) = prepare(&server, listeners);
    bench.send(&mut other, "PEXPIRE l 50\r\n", ":1\r\n");
    bench.send(&mut client, "LREM l 0 x\r\n", "");
    bench.perform_all();
    bench.expect_output(&mut client, ":0\r\n");
    bench.send(&mut client, &format!("LREM l 0 {}\r\n", element("b")), "");
    server.clock.set_ms(NOW + 51);
    bench.perform_all();
    bench.expect_output(&mut client, ":1\r\n");
    bench.send(&mut other, "EXISTS l\r\nDBSIZE\r\n", ":0\r\n:0\r\n");
    assert_eq!(server.data.keyspace.counters().expired_keys, 1);
}

#[test]
fn databases_are_emptied_and_swapped_after_a_long_command() {
    let (server, listeners) = server(LONG);
    let (mut bench, [mut client, mut other, mut third, _]) = prepare(&server, listeners);
    bench.send(&mut client, SORT_STORE, "");
    bench.send(&mut other, "SWAPDB 0 1\r\nDBSIZE\r\n", "");
    bench.send(&mut third, "FLUSHALL\r\n", "");
    bench.perform_all();
    bench.expect_output(&mut client, ":3\r\n");
    bench.expect_output(&mut other, "+OK\r\n:0\r\n");
    bench.expect_output(&mut third, "+OK\r\n");
    // A database that is emptied in another way stays empty.
    bench.send(&mut third, &list(), ":3\r\n");
    bench.send(&mut client, SORT_STORE, "");
    server.data.engine().clear(0, server.clock.now());
    bench.perform_all();
    bench.expect_output(&mut client, ":3\r\n");
    bench.send(&mut third, "DBSIZE\r\n", ":0\r\n");
    server.data.keyspace.check();
}

#[test]
fn a_long_command_fails_a_transaction_that_watches_what_it_changes() {
    let (server, listeners) = server(LONG);
    let (mut bench, [mut client, mut other, mut third, _]) = prepare(&server, listeners);
    bench.send(
        &mut other,
        "WATCH d\r\nMULTI\r\nPING\r\n",
        "+OK\r\n+OK\r\n+QUEUED\r\n",
    );
    bench.send(
        &mut third,
        "WATCH l\r\nMULTI\r\nPING\r\n",
        "+OK\r\n+OK\r\n+QUEUED\r\n",
    );
    bench.send(&mut client, SORT_STORE, "");
    bench.perform_all();
    bench.expect_output(&mut client, ":3\r\n");
    bench.send(&mut other, "EXEC\r\n", "*-1\r\n");
    bench.send(&mut third, "EXEC\r\n", "*1\r\n+PONG\r\n");
}

#[test]
fn a_transaction_on_a_key_of_a_long_command_waits() {
    let (server, listeners) = server(LONG);
    let (mut bench, [mut client, mut other, ..]) = prepare(&server, listeners);
    bench.send(&mut other, "MULTI\r\nLLEN d\r\n", "+OK\r\n+QUEUED\r\n");
    bench.send(&mut client, SORT_STORE, "");
    bench.send(&mut other, "EXEC\r\n", "");
    bench.perform_all();
    bench.expect_output(&mut client, ":3\r\n");
    bench.expect_output(&mut other, "*1\r\n:3\r\n");
    // In a transaction every command runs at once.
    bench.send(
        &mut other,
        "MULTI\r\nSORT l ALPHA\r\n",
        "+OK\r\n+QUEUED\r\n",
    );
    bench.send(&mut other, "EXEC\r\n", &format!("*1\r\n{}", sorted()));
}

#[test]
fn blocked_clients_are_served_when_a_long_command_ends() {
    let (server, listeners) = server(LONG);
    let (mut bench, [mut client, mut other, mut third, mut fourth]) = prepare(&server, listeners);
    bench.send(&mut other, "BLPOP d 0\r\n", "");
    bench.send(&mut third, "BLMOVE s l LEFT LEFT 0\r\n", "");
    bench.send(&mut client, SORT_STORE, "");
    // The third client needs the list, which is in use.
    bench.send(&mut fourth, "RPUSH s x\r\nLLEN s\r\n", ":1\r\n:1\r\n");
    bench.expect_output(&mut third, "");
    bench.perform_all();
    bench.expect_output(&mut client, ":3\r\n");
    let popped = format!("*2\r\n{}{}", bulk("d"), bulk(&element("a")));
    bench.expect_output(&mut other, &popped);
    bench.expect_output(&mut third, &bulk("x"));
    bench.send(&mut fourth, "LLEN s\r\nLLEN d\r\n", ":0\r\n:2\r\n");
    bench.send(&mut fourth, "LINDEX l 0\r\n", &bulk("x"));
    assert!(server.clients.blocking.is_empty());
}

#[test]
fn a_long_command_is_counted_and_timed_once() {
    let (server, listeners) = server(&[("slowlog-log-slower-than", "0"), LONG[0]]);
    let (mut bench, [mut client, ..]) = prepare(&server, listeners);
    bench.send(&mut client, "SLOWLOG RESET\r\n", "+OK\r\n");
    bench.send(&mut client, SORT, "");
    bench.perform_all();
    bench.expect_output(&mut client, &sorted());
    let index = crate::command::table().lookup(b"sort").expect("it exists");
    let stats = &server.observability.stats.workers[0].commands[index as usize];
    assert_eq!(stats.calls.load(Relaxed), 1);
    assert_eq!(server.workers.long.count.load(Relaxed), 1);
    let entries = server.observability.slowlog.newest(10);
    let sorts = entries.iter().filter(|entry| entry.args[0] == b"SORT");
    assert_eq!(sorts.count(), 1);
}

#[test]
fn a_command_on_many_keys_runs_in_steps() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    let names: Vec<String> = (0..2500).map(|number| format!("k{number}")).collect();
    let mut stored = Vec::new();
    for name in &names {
        wire::encode_command(&mut stored, &["SET", name, "v"]);
    }
    client.write_all(&stored).expect("there is room");
    bench.expect_output(&mut client, &"+OK\r\n".repeat(names.len()));
    let mut deleted = Vec::new();
    let words: Vec<&str> = std::iter::once("DEL")
        .chain(names.iter().map(String::as_str))
        .collect();
    wire::encode_command(&mut deleted, &words);
    wire::encode_command(&mut deleted, &["DBSIZE"]);
    client.write_all(&deleted).expect("there is room");
    // Another client finds a part of the keys.
    let mut between = 0;
    for _ in 0..TURNS_MAX {
        bench.turn();
        let left = server.data.keyspace.db_facts(0, server.clock.now()).keys;
        between += usize::from((1..2500).contains(&left));
        if left == 0 {
            break;
        }
    }
    assert!(between >= 2, "there are three steps");
    bench.expect_output(&mut client, ":2500\r\n:0\r\n");
    bench.send(&mut other, "DBSIZE\r\n", ":0\r\n");
    let index = crate::command::table().lookup(b"del").expect("it exists");
    let stats = &server.observability.stats.workers[0].commands[index as usize];
    assert_eq!(stats.calls.load(Relaxed), 1);
}

#[test]
fn many_keys_are_watched_in_steps() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    bench.send(&mut other, "SET k7 v PX 500\r\n", "+OK\r\n");
    let names: Vec<String> = (0..2500).map(|number| format!("k{number}")).collect();
    let mut watched = Vec::new();
    let words: Vec<&str> = std::iter::once("WATCH")
        .chain(names.iter().map(String::as_str))
        .collect();
    wire::encode_command(&mut watched, &words);
    let count = |server: &Server| server.clients.registry.list()[0].watched.load(Relaxed);
    let exec = "MULTI\r\nPING\r\nEXEC\r\n";
    let failed = "+OK\r\n+QUEUED\r\n*-1\r\n";
    for change in ["SET k2400 v\r\n", "", "EXPIRE"] {
        client.write_all(&watched).expect("there is room");
        let mut between = 0;
        while count(&server) < 2500 {
            bench.turn();
            between += usize::from((1..2500).contains(&count(&server)));
        }
        assert!(between >= 2, "there are three steps");
        bench.expect_output(&mut client, "+OK\r\n");
        match change {
            "" => bench.send(&mut client, exec, "+OK\r\n+QUEUED\r\n*1\r\n+PONG\r\n"),
            "EXPIRE" => {
                // The key has expired, and nothing but EXEC looks it up.
                server.clock.set_ms(NOW + 501);
                bench.send(&mut client, exec, failed);
            }
            change => {
                bench.send(&mut other, change, "+OK\r\n");
                bench.send(&mut other, "SET k7 v PX 500\r\n", "+OK\r\n");
                bench.send(&mut client, exec, failed);
            }
        }
        assert_eq!(count(&server), 0);
    }
    bench.send(&mut client, "MULTI\r\n", "+OK\r\n");
    let error = "-ERR WATCH inside MULTI is not allowed\r\n";
    client.write_all(&watched).expect("there is room");
    bench.expect_output(&mut client, error);
}

#[test]
fn work_of_one_step_beyond_the_limit_is_refused() {
    let (server, listeners) = server(&[("atomic-work-limit", "5000")]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    let mut say = |words: &[&str], reply: &str| {
        let mut bytes = Vec::new();
        wire::encode_command(&mut bytes, words);
        client.write_all(&bytes).expect("there is room");
        bench.expect_output(&mut client, reply);
    };
    let refused = "-ERR the estimated work of the command exceeds atomic-work-limit\r\n";
    let aborted = "-EXECABORT Transaction discarded because of: its estimated work exceeds atomic-work-limit\r\n";
    let names: Vec<String> = (0..5001).map(|number| format!("k{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let on = |head: &[&'static str], count: usize| [head, &names[..count]].concat();
    // Each key counts.
    say(
        &on(&["MGET"], 5000),
        &format!("*5000\r\n{}", "$-1\r\n".repeat(5000)),
    );
    say(&on(&["MGET"], 5001), refused);
    // Elements count, in a command on many keys and in a transaction.
    say(&on(&["SADD", "set"], 3000), ":3000\r\n");
    say(&on(&["SUNIONSTORE", "to", "set"], 1500), ":3000\r\n");
    say(&on(&["SADD", "set"], 5001), ":2001\r\n");
    say(&on(&["SUNIONSTORE", "to", "set"], 1500), refused);
    say(&["SCARD", "to"], ":3000\r\n");
    say(&["SUNIONSTORE", "to", "set"], ":5001\r\n");
    say(&on(&["SREM", "set"], 1001), ":1001\r\n");
    let done = format!("*3\r\n{}", ":1\r\n".repeat(3));
    for (count, reply) in [(1, &done[..]), (2, aborted)] {
        say(&["MULTI"], "+OK\r\n");
        for _ in 0..count {
            say(&["COPY", "set", "copy", "REPLACE"], "+QUEUED\r\n");
        }
        say(&["INCR", "n"], "+QUEUED\r\n");
        say(&["DEL", "n"], "+QUEUED\r\n");
        say(&["EXEC"], reply);
    }
    // Regression: a number that a command refuses counted as its work.
    let errors = "*2\r\n-ERR value is out of range, must be positive\r\n-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n";
    say(&["MULTI"], "+OK\r\n");
    say(&["LPOP", "none", "-8476714915923963329"], "+QUEUED\r\n");
    say(
        &["SETRANGE", "none", "8476714915923963329", "x"],
        "+QUEUED\r\n",
    );
    say(&["EXEC"], errors);
}

#[test]
fn work_that_a_transaction_adds_itself_is_bounded() {
    // Regression: the work was estimated before the first command only, so that a transaction could
    // build a large value and process it any number of times.
    let (server, listeners) = server(&[("atomic-work-limit", "5000")]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    let members: String = (0..3000).map(|number| format!(" m{number}")).collect();
    let build = format!("MULTI\r\nSADD set{members}\r\n");
    bench.send(&mut client, &build, "+OK\r\n+QUEUED\r\n");
    let rest = "SORT set BY nosort STORE one\r\nSCARD set\r\nCOPY set two\r\nEXEC\r\n";
    let refused = "-ERR the estimated work of the command exceeds atomic-work-limit\r\n";
    let replies = format!(
        "{}*4\r\n:3000\r\n{refused}:3000\r\n{refused}",
        "+QUEUED\r\n".repeat(3)
    );
    bench.send(&mut client, rest, &replies);
    bench.send(&mut client, "EXISTS set one two\r\n", ":1\r\n");
}

/// Encodes a command, because inline commands are limited to 64 KiB.
fn framed(words: &[&str]) -> String {
    let mut bytes = Vec::new();
    wire::encode_command(&mut bytes, words);
    String::from_utf8(bytes).expect("text")
}

#[test]
fn a_few_large_values_make_a_command_long() {
    // Regression: many values of up to a mebibyte, or a few large elements, were read and written
    // in one step, because the estimates count keys and elements.
    let (server, listeners) = server(&[("long-command-threshold", "600")]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    let value = "x".repeat(100_000);
    let v = value.as_str();
    let array = |count: usize| format!("*{count}\r\n{}", bulk(v).repeat(count));
    let commands = [
        (
            framed(&["MSET", "a", v, "b", v, "c", v, "d", v]),
            "+OK\r\n".to_owned(),
        ),
        ("MGET a b c d\r\n".into(), array(4)),
        (
            framed(&["HSET", "h", "a", v, "b", v, "c", v, "d", v]),
            ":4\r\n".into(),
        ),
        ("HMGET h a b c d\r\n".into(), array(4)),
        (framed(&["RPUSH", "l", v, v, v, v]), ":4\r\n".into()),
        ("LRANGE l 0 -1\r\n".into(), array(4)),
        (
            framed(&["SETEX", "e", "100", &v.repeat(4)]),
            "+OK\r\n".into(),
        ),
        (framed(&["HSET", "h", "e", &v.repeat(4)]), ":1\r\n".into()),
        ("HGET h e\r\n".into(), bulk(&v.repeat(4))),
    ];
    for (command, reply) in commands {
        let name = command[..command.len().min(30)].to_owned();
        let mut input = command.as_bytes();
        while !input.is_empty() {
            let sent = client.write(input).unwrap_or(0);
            input = &input[sent..];
            bench.turn();
        }
        // The rest of the input is read in several turns.
        for _ in 0..20 {
            bench.turn();
        }
        bench.send(&mut other, "GET x\r\n", "$-1\r\n");
        assert!(server.workers.long.is_running(), "{name}");
        bench.perform_all();
        bench.expect_output(&mut client, &reply);
    }
    // What is shorter is not long.
    bench.send(
        &mut client,
        "MGET a b none\r\n",
        &format!("*3\r\n{}$-1\r\n", bulk(v).repeat(2)),
    );
    assert!(!server.workers.long.is_running());
}

#[test]
fn many_large_values_of_many_keys_are_refused() {
    let settings = &[
        ("long-command-threshold", "600"),
        ("atomic-work-limit", "2000"),
    ];
    let (server, listeners) = server(settings);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    let value = "x".repeat(100_000);
    bench.send(&mut client, &framed(&["SET", "a", &value]), "+OK\r\n");
    let names = [" none".repeat(1_020), " a".repeat(11)].concat();
    let refused = "-ERR the estimated work of the command exceeds atomic-work-limit\r\n";
    bench.send(&mut client, &format!("MGET{names}\r\n"), refused);
    bench.send(&mut client, "MULTI\r\n", "+OK\r\n");
}

#[test]
fn the_segment_engine_divides_commands_on_many_keys() {
    let settings = &[("engine", "segment"), ("atomic-work-limit", "2000")];
    let (server, listeners) = server(settings);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    let words = |from: usize, to: usize| -> String {
        let words = (from..to).map(|number| format!(" k{number}"));
        words.collect()
    };
    let nulls = |count: usize| format!("*{count}\r\n{}", "$-1\r\n".repeat(count));
    let mget = |count: usize| format!("MGET{}\r\n", words(0, count));
    bench.send(&mut client, &mget(2001), &nulls(2001));
    let mset = |count: usize| format!("MSET{}\r\n", words(0, 2 * count));
    bench.send(&mut client, &mset(2001), "+OK\r\n");
    bench.send(
        &mut client,
        "MGET k0 k2\r\n",
        &format!("*2\r\n{}{}", bulk("k1"), bulk("k3")),
    );
    let delete = format!("DEL{}\r\n", words(0, 4000));
    client.write_all(delete.as_bytes()).expect("there is room");
    while !bench
        .worker
        .connections
        .iter()
        .flatten()
        .any(|c| c.has_aside())
    {
        bench.turn();
    }
    bench.send(&mut other, "GET k3998\r\n", &bulk("k3999"));
    bench.expect_output(&mut client, ":2000\r\n");
}

#[test]
fn searches_of_large_geographic_indexes_are_long() {
    let (server, listeners) = server(&[
        ("long-command-threshold", "50"),
        ("zset-max-listpack-entries", "8"),
    ]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    for number in 0..60 {
        let add = format!("GEOADD g 13.{number:02} 38.1 m{number}\r\n");
        bench.send(&mut client, &add, ":1\r\n");
    }
    let long = [
        (
            "GEOSEARCH g FROMLONLAT 13 38 BYRADIUS 400 km ASC COUNT 1\r\n",
            "*1\r\n$2\r\nm0\r\n",
        ),
        (
            "GEOSEARCH g FROMMEMBER m0 BYBOX 800 800 km ASC COUNT 1\r\n",
            "*1\r\n$2\r\nm0\r\n",
        ),
        (
            "GEORADIUS_RO g 13 38 400 km COUNT 1\r\n",
            "*1\r\n$2\r\nm0\r\n",
        ),
        (
            "GEORADIUSBYMEMBER g m0 400 km COUNT 1\r\n",
            "*1\r\n$2\r\nm0\r\n",
        ),
        (
            "GEOSEARCHSTORE d g FROMLONLAT 13 38 BYRADIUS 400 km\r\n",
            ":60\r\n",
        ),
    ];
    for (command, reply) in long {
        bench.send(&mut client, command, "");
        bench.send(&mut other, "GET x\r\n", "$-1\r\n");
        assert!(server.workers.long.is_running(), "{command}");
        bench.perform_all();
        bench.expect_output(&mut client, reply);
    }
    // A small area of a large index is not long, and an invalid one is refused at once or later.
    for short in [
        "GEOSEARCH g FROMLONLAT 20 20 BYRADIUS 1 km\r\n",
        "GEORADIUS g 20 20 1 km\r\n",
    ] {
        bench.send(&mut client, short, "*0\r\n");
    }
    bench.send(
        &mut client,
        "GEOSEARCH g FROMMEMBER none BYRADIUS 1 km\r\n",
        "",
    );
    bench.perform_all();
    let error = "-ERR could not decode requested zset member\r\n";
    bench.expect_output(&mut client, error);
}

#[test]
fn reading_many_entries_of_streams_is_long() {
    let (server, listeners) = server(&[
        ("long-command-threshold", "20"),
        ("stream-node-max-entries", "5"),
    ]);
    let mut bench = Bench::new(&server, listeners);
    let (mut client, mut other) = (bench.client(), bench.client());
    let mut entries = String::new();
    for number in 1..=40 {
        bench.send(
            &mut client,
            &format!("XADD s {number}-1 f v\r\n"),
            &bulk(&format!("{number}-1")),
        );
        entries += &format!(
            "*2\r\n{}*2\r\n{}{}",
            bulk(&format!("{number}-1")),
            bulk("f"),
            bulk("v")
        );
    }
    bench.send(&mut client, "XGROUP CREATE s g 0\r\n", "+OK\r\n");
    let reply = format!("*1\r\n*2\r\n{}*40\r\n{entries}", bulk("s"));
    for command in [
        "XREAD STREAMS s 0\r\n",
        "XREAD BLOCK 0 STREAMS s 0\r\n",
        "XREAD COUNT 1000 STREAMS none s 0 0\r\n",
        "XREADGROUP GROUP g c STREAMS s >\r\n",
        "XREADGROUP GROUP g c STREAMS s 0\r\n",
    ] {
        bench.send(&mut client, command, "");
        bench.send(&mut other, "GET x\r\n", "$-1\r\n");
        assert!(server.workers.long.is_running(), "{command}");
        bench.perform_all();
        bench.expect_output(&mut client, &reply);
    }
    // Few entries, by their number or by COUNT.
    let last = format!(
        "*1\r\n*2\r\n{}*1\r\n*2\r\n{}*2\r\n{}{}",
        bulk("s"),
        bulk("40-1"),
        bulk("f"),
        bulk("v")
    );
    for command in [
        "XREAD STREAMS s 39-1\r\n",
        "XREAD COUNT 1 STREAMS s 39-1\r\n",
        "XREAD STREAMS s +\r\n",
    ] {
        bench.send(&mut client, command, &last);
    }
    bench.send(
        &mut client,
        "XREADGROUP GROUP g c STREAMS s >\r\n",
        "*-1\r\n",
    );
    // The name of a group is not an option.
    bench.send(&mut client, "XGROUP CREATE s COUNT 0\r\n", "+OK\r\n");
    bench.send(&mut client, "XREADGROUP GROUP COUNT 1 STREAMS s >\r\n", "");
    bench.perform_all();
    bench.expect_output(&mut client, &reply);
}

#[test]
fn missing_keys_of_a_long_get_line_are_looked_up_in_several_turns() {
    // Regression: only the length of the reply divided a line, so that a line of missing keys was
    // one turn.
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    let counts = || {
        server.observability.stats.workers[0]
            .memcached
            .gets
            .load(Relaxed)
    };
    while bench.worker.connections.iter().flatten().count() == 0 {
        bench.turn();
    }
    for connection in bench.worker.connections.iter_mut().flatten() {
        connection.use_memcached();
    }
    for (lines, keys) in [(1, 5000), (40, 900)] {
        let before = counts();
        let line = format!("get{}\r\n", " k".repeat(keys)).repeat(lines);
        client.write_all(line.as_bytes()).expect("there is room");
        let all = (lines * keys) as u64;
        let mut seen = vec![0];
        while counts() - before < all {
            bench.turn();
            seen.push(counts() - before);
        }
        assert!(
            seen.windows(2).all(|pair| pair[1] - pair[0] <= 8192 + 1024),
            "{seen:?}"
        );
        bench.expect_output(&mut client, &"END\r\n".repeat(lines));
    }
}

#[test]
fn keys_lists_many_names_in_steps() {
    let (server, listeners) = server(&[("long-command-threshold", "10")]);
    let mut bench = Bench::new(&server, listeners);
    let mut client = bench.client();
    for number in 0..40 {
        bench.send(&mut client, &format!("SET k{number} v\r\n"), "+OK\r\n");
    }
    let reply = format!("*1\r\n{}+PONG\r\n", bulk("k17"));
    bench.send(&mut client, "KEYS k17\r\nPING\r\n", &reply);
    bench.send(&mut client, "KEYS none\r\nPING\r\n", "*0\r\n+PONG\r\n");
}

#[test]
fn commands_on_large_groups_are_long() {
    let (server, listeners) = server(LONG);
    let (mut bench, [mut client, mut other, _, _]) = prepare(&server, listeners);
    bench.send(&mut client, "XGROUP CREATE s g $ MKSTREAM\r\n", "+OK\r\n");
    for number in 0..8 {
        let create = format!("XGROUP CREATECONSUMER s g c{number}\r\n");
        bench.send(&mut client, &create, ":1\r\n");
    }
    let commands = [
        ("XGROUP DELCONSUMER s g c0\r\n", ":0\r\n"),
        ("XPENDING s g\r\n", "*4\r\n:0\r\n$-1\r\n$-1\r\n*-1\r\n"),
    ];
    for (command, reply) in commands {
        bench.send(&mut client, command, "");
        bench.send(&mut other, "GET x\r\n", "$-1\r\n");
        bench.perform_all();
        bench.expect_output(&mut client, reply);
    }
    // Those that do not depend on the size of the group are not.
    bench.send(&mut client, "XPENDING s g - + 3\r\n", "*0\r\n");
    bench.send(&mut client, "XGROUP DESTROY s g\r\n", ":1\r\n");
}

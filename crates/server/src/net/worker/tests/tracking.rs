//! CLIENT TRACKING and MONITOR on a worker that is stepped by hand.

use super::*;

const HELLO: &str = "HELLO 3\r\n";

/// Switches a client to RESP3 and tracking with these options.
fn track(bench: &mut Bench<'_>, socket: &mut Socket, options: &str) {
    socket.write_all(HELLO.as_bytes()).expect("there is room");
    let mut greeting = [0; 4096];
    for _ in 0..TURNS_MAX {
        bench.turn();
        match socket.read(&mut greeting) {
            Ok(len) if greeting[..len].ends_with(b"*0\r\n") => break,
            Ok(_) => panic!("the greeting is one packet"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    bench.send(
        socket,
        &format!("CLIENT TRACKING ON {options}\r\n"),
        "+OK\r\n",
    );
}

fn invalidate(keys: &[&str]) -> String {
    let keys: String = keys
        .iter()
        .map(|key| format!("${}\r\n{key}\r\n", key.len()))
        .collect();
    let count = keys.matches('$').count();
    format!(">2\r\n$10\r\ninvalidate\r\n*{count}\r\n{keys}")
}

#[test]
fn a_reader_is_notified_once_of_a_change_and_again_after_another_read() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut reader, mut writer) = (bench.client(), bench.client());
    track(&mut bench, &mut reader, "");
    bench.send(&mut reader, "GET a\r\nGET b\r\n", "_\r\n_\r\n");
    bench.send(&mut writer, "SET a 1\r\nSET a 2\r\n", "+OK\r\n+OK\r\n");
    bench.expect_output(&mut reader, &invalidate(&["a"]));
    bench.send(&mut reader, "GET a\r\n", "$1\r\n2\r\n");
    bench.send(&mut writer, "DEL a\r\n", ":1\r\n");
    bench.expect_output(&mut reader, &invalidate(&["a"]));
    // Without NOLOOP a client is notified of its own change, after the reply.
    let own = format!("+OK\r\n{}", invalidate(&["b"]));
    bench.send(&mut reader, "SET b 1\r\n", &own);
    assert_eq!(server.data.keyspace.tracked_counts(), (0, 0));
}

#[test]
fn expired_keys_and_elements_are_invalidated_in_the_next_turn() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut reader, mut writer) = (bench.client(), bench.client());
    track(&mut bench, &mut reader, "NOLOOP");
    let setup = "SET k 1 PX 50\r\nHSET h f 1 g 2\r\nHPEXPIRE h 90 FIELDS 1 f\r\n";
    bench.send(&mut writer, setup, "+OK\r\n:2\r\n*1\r\n:1\r\n");
    bench.send(&mut reader, "GET k\r\nHLEN h\r\n", "$1\r\n1\r\n:2\r\n");
    server.clock.set_ms(NOW + 51);
    bench.expect_output(&mut reader, &invalidate(&["k"]));
    server.clock.set_ms(NOW + 91);
    bench.expect_output(&mut reader, &invalidate(&["h"]));
}

#[test]
fn an_evicted_key_is_invalidated() {
    let settings = [("maxmemory", "2mb"), ("maxmemory-policy", "allkeys-fifo")];
    let (server, listeners) = server(&settings);
    let mut bench = Bench::new(&server, listeners);
    let (mut reader, mut writer) = (bench.client(), bench.client());
    track(&mut bench, &mut reader, "");
    bench.send(
        &mut reader,
        "SET first 1\r\nGET first\r\n",
        "+OK\r\n$1\r\n1\r\n",
    );
    let value = "x".repeat(1000);
    for i in 0..4000 {
        bench.send(&mut writer, &format!("SET k{i} {value}\r\n"), "+OK\r\n");
    }
    bench.expect_output(&mut reader, &invalidate(&["first"]));
}

#[test]
fn a_broadcast_reports_keys_with_the_prefixes_that_were_not_read() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut reader, mut writer) = (bench.client(), bench.client());
    track(
        &mut bench,
        &mut reader,
        "BCAST PREFIX user: PREFIX job: NOLOOP",
    );
    bench.send(&mut writer, "MSET user:1 a other b job:2 c\r\n", "+OK\r\n");
    bench.expect_output(&mut reader, &invalidate(&["job:2", "user:1"]));
    bench.send(&mut reader, "SET user:3 1\r\nPING\r\n", "+OK\r\n+PONG\r\n");
    let overlap = "-ERR Prefix 'user:1' overlaps with an existing prefix 'user:'. Prefixes for a single client must not overlap.\r\n";
    bench.send(
        &mut reader,
        "CLIENT TRACKING ON BCAST PREFIX user:1\r\n",
        overlap,
    );
    bench.send(&mut reader, "CLIENT TRACKING OFF\r\n", "+OK\r\n");
    bench.send(&mut writer, "SET user:1 2\r\n", "+OK\r\n");
    bench.send(&mut reader, "PING\r\n", "+PONG\r\n");
}

#[test]
fn optin_tracks_the_command_or_the_transaction_after_caching_yes() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut reader, mut writer) = (bench.client(), bench.client());
    track(&mut bench, &mut reader, "OPTIN");
    bench.send(
        &mut reader,
        "GET a\r\nCLIENT CACHING YES\r\nGET b\r\nGET c\r\n",
        "_\r\n+OK\r\n_\r\n_\r\n",
    );
    let transaction = "CLIENT CACHING YES\r\nMULTI\r\nGET d\r\nGET e\r\nEXEC\r\n";
    let replies = "+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n_\r\n_\r\n";
    bench.send(&mut reader, transaction, replies);
    bench.send(&mut writer, "MSET a 1 b 1 c 1 d 1 e 1\r\n", "+OK\r\n");
    bench.expect_output(&mut reader, &invalidate(&["b", "d", "e"]));
}

#[test]
fn a_client_with_resp2_receives_redirected_invalidations_as_messages() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut receiver, mut reader, mut writer) = (bench.client(), bench.client(), bench.client());
    bench.send(&mut receiver, "CLIENT ID\r\n", ":1\r\n");
    let subscribed = "*3\r\n$9\r\nsubscribe\r\n$20\r\n__redis__:invalidate\r\n:1\r\n";
    bench.send(
        &mut receiver,
        "SUBSCRIBE __redis__:invalidate\r\n",
        subscribed,
    );
    track(&mut bench, &mut reader, "REDIRECT 1");
    bench.send(&mut reader, "CLIENT GETREDIR\r\nGET a\r\n", ":1\r\n_\r\n");
    bench.send(&mut writer, "SET a 1\r\n", "+OK\r\n");
    let message = "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*1\r\n$1\r\na\r\n";
    bench.expect_output(&mut receiver, message);
    bench.send(&mut writer, "FLUSHALL\r\n", "+OK\r\n");
    let flush = "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n$-1\r\n";
    bench.expect_output(&mut receiver, flush);
    // When the receiver is gone, the reader is informed.
    bench.send(&mut reader, "GET a\r\n", "_\r\n");
    drop(receiver);
    bench.send(&mut writer, "PING\r\nSET a 1\r\n", "+PONG\r\n+OK\r\n");
    bench.expect_output(&mut reader, ">2\r\n$21\r\ntracking-redir-broken\r\n:1\r\n");
}

#[test]
fn a_full_table_invalidates_other_keys_and_ends_with_its_clients() {
    let (server, listeners) = server(&[("tracking-table-max-keys", "8")]);
    let mut bench = Bench::new(&server, listeners);
    let mut reader = bench.client();
    track(&mut bench, &mut reader, "");
    let gets: String = (0..100).map(|i| format!("GET k{i}\r\n")).collect();
    reader.write_all(gets.as_bytes()).expect("there is room");
    let mut got = Vec::new();
    let mut chunk = [0; 4096];
    for _ in 0..TURNS_MAX {
        bench.turn();
        if let Ok(len) = reader.read(&mut chunk) {
            got.extend_from_slice(&chunk[..len]);
        }
        let text = String::from_utf8_lossy(&got);
        if text.matches("_\r\n").count() == 100 && text.matches("\r\nk").count() >= 92 {
            break;
        }
    }
    let (keys, items) = server.data.keyspace.tracked_counts();
    assert!((1..=8).contains(&keys), "{keys}");
    assert_eq!(keys, items);
    drop(reader);
    for _ in 0..TURNS_MAX {
        if !server.clients.tracking.is_on() {
            break;
        }
        bench.turn();
    }
    assert!(!server.clients.tracking.is_on());
    assert_eq!(server.data.keyspace.tracked_counts(), (0, 0));
}

#[test]
fn a_monitor_receives_executed_commands_without_those_for_administrators() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut monitor, mut client) = (bench.client(), bench.client());
    bench.send(&mut monitor, "MONITOR\r\n", "+OK\r\n");
    let address = client.local_addr().expect("it is connected");
    let commands = "SELECT 2\r\nMULTI\r\nSET \"a b\" 1\r\nCONFIG GET port\r\nEXEC\r\n\
                    EVAL \"redis.call('del','k')\" 0\r\n";
    client
        .write_all(commands.as_bytes())
        .expect("there is room");
    let start = format!("+{}.000000 ", NOW / 1000);
    let lines: String = [
        r#"[0 ADDR] "SELECT" "2""#,
        r#"[2 ADDR] "MULTI""#,
        r#"[2 ADDR] "SET" "a b" "1""#,
        // A transaction ends with EXEC, which was missing.
        r#"[2 ADDR] "EXEC""#,
        r#"[2 ADDR] "EVAL" "redis.call('del','k')" "0""#,
        r#"[2 lua] "del" "k""#,
    ]
    .iter()
    .map(|line| format!("{start}{}\r\n", line.replace("ADDR", &address.to_string())))
    .collect();
    bench.expect_output(&mut monitor, &lines);
    bench.send(&mut monitor, "RESET\r\n", "+RESET\r\n");
    assert!(!server.clients.monitors.is_on());
}

#[test]
fn a_monitor_receives_a_command_that_runs_in_steps_once() {
    // Regression: it received the command and each of its parts.
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut monitor, mut client) = (bench.client(), bench.client());
    bench.send(&mut monitor, "MONITOR\r\n", "+OK\r\n");
    let address = client.local_addr().expect("it is connected");
    let names: Vec<String> = (0..1500).map(|i| format!("k{i:04}")).collect();
    let command = format!("EXISTS {}\r\nPING\r\n", names.join(" "));
    client.write_all(command.as_bytes()).expect("there is room");
    let shown = names.iter().take(1023).map(|name| format!("\"{name}\" "));
    let shown: String = shown.collect();
    let start = format!("+{}.000000 [0 {address}]", NOW / 1000);
    let shown = format!("\"EXISTS\" {shown}... (477 more arguments)");
    let lines = format!("{start} {shown}\r\n{start} \"PING\"\r\n");
    bench.expect_output(&mut monitor, &lines);
}

/// An equal prefix was accepted and dropped.
#[test]
fn equal_prefixes_overlap() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let mut reader = bench.client();
    let overlap = "-ERR Prefix 'yyy' overlaps with an existing prefix 'yyy'. Prefixes for a single client must not overlap.\r\n";
    let twice = "CLIENT TRACKING ON BCAST PREFIX yyy PREFIX yyy\r\n";
    bench.send(&mut reader, twice, overlap);
    bench.send(&mut reader, "CLIENT GETREDIR\r\n", ":-1\r\n");
    let once = "CLIENT TRACKING ON BCAST PREFIX yyy\r\n";
    bench.send(&mut reader, once, "+OK\r\n");
    bench.send(&mut reader, once, overlap);
    // Without a prefix, all keys are included, also in addition to others.
    bench.send(&mut reader, "CLIENT TRACKING ON BCAST\r\n", "+OK\r\n");
    let all = "*6\r\n$5\r\nflags\r\n*2\r\n$2\r\non\r\n$5\r\nbcast\r\n$8\r\nredirect\r\n:0\r\n$8\r\nprefixes\r\n*1\r\n$0\r\n\r\n";
    bench.send(&mut reader, "CLIENT TRACKINGINFO\r\n", all);
}

/// The keys of a script that only reads were tracked although the script had not read them.
#[test]
fn a_script_that_only_reads_is_tracked_by_what_it_reads() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut reader, mut writer) = (bench.client(), bench.client());
    let library = "FUNCTION LOAD \"#!lua name=l\\nredis.register_function{function_name='f',callback=function() end,flags={'no-writes'}}\"\r\n";
    bench.send(&mut writer, library, "$1\r\nl\r\n");
    track(&mut bench, &mut reader, "");
    bench.send(&mut reader, "EVAL_RO \"return 1\" 1 a\r\n", ":1\r\n");
    bench.send(&mut reader, "FCALL_RO f 1 a\r\n", "_\r\n");
    assert_eq!(server.data.keyspace.tracked_counts(), (0, 0));
    let reading = "EVAL_RO \"return redis.call('get',KEYS[2])\" 2 a b\r\n";
    bench.send(&mut reader, reading, "_\r\n");
    assert_eq!(server.data.keyspace.tracked_counts(), (1, 1));
    bench.send(&mut writer, "MSET a 1 b 1\r\n", "+OK\r\n");
    bench.expect_output(&mut reader, &invalidate(&["b"]));
}

/// A smaller table took effect at the next read only.
#[test]
fn a_smaller_table_of_tracked_keys_takes_effect_without_a_read() {
    let (server, listeners) = server(&[]);
    let mut bench = Bench::new(&server, listeners);
    let (mut reader, mut admin) = (bench.client(), bench.client());
    track(&mut bench, &mut reader, "");
    for number in 0..64 {
        bench.send(&mut reader, &format!("GET k{number}\r\n"), "_\r\n");
    }
    let smaller = "CONFIG SET tracking-table-max-keys 1\r\n";
    bench.send(&mut admin, smaller, "+OK\r\n");
    let shards = server.data.keyspace.shard_count();
    for _ in 0..TURNS_MAX {
        if server.data.keyspace.tracked_counts().0 <= shards {
            break;
        }
        bench.turn();
    }
    assert!(server.data.keyspace.tracked_counts().0 <= shards);
    let mut got = [0; 8192];
    let len = reader.read(&mut got).expect("invalidations");
    assert!(got[..len].starts_with(b">2\r\n$10\r\ninvalidate\r\n"));
}

//! Tests of a single client's session.

use crate::client::Bench;

#[test]
fn a_command_may_arrive_in_pieces_of_any_size() {
    let bench = Bench::start(&[]);
    let mut client = bench.client();
    let frame = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n";
    for cut in 1..frame.len() {
        client.send(&frame[..cut]);
        client.send(&frame[cut..]);
        assert_eq!(client.reply(), "+OK");
        assert_eq!(client.reply(), "value");
    }
}

#[test]
fn a_deep_pipeline_is_answered_in_order() {
    let bench = Bench::start(&[]);
    let mut client = bench.client();
    let count = 20_000;
    let mut batch = Vec::new();
    for number in 0..count {
        batch.extend_from_slice(format!("*2\r\n$4\r\nECHO\r\n$5\r\n{number:05}\r\n").as_bytes());
    }
    let mut writer = client.stream.try_clone().expect("a socket");
    let thread = std::thread::spawn(move || {
        std::io::Write::write_all(&mut writer, &batch).expect("the server reads");
    });
    for number in 0..count {
        assert_eq!(client.reply(), format!("{number:05}"));
    }
    thread.join().expect("it wrote all");
}

#[test]
fn a_protocol_error_is_reported_and_closes_the_connection() {
    let bench = Bench::start(&[]);
    for (sent, expected) in [
        (
            &b"*1\r\n:3\r\n"[..],
            "-ERR Protocol error: expected '$', got ':'\r\n",
        ),
        (
            b"*x\r\n",
            "-ERR Protocol error: invalid multibulk length\r\n",
        ),
        (
            b"*1\r\n$-5\r\n",
            "-ERR Protocol error: invalid bulk length\r\n",
        ),
        (
            b"PING\r\nPING \"\r\n",
            "+PONG\r\n-ERR Protocol error: unbalanced quotes in request\r\n",
        ),
        (b"POST / HTTP/1.1\r\n", ""),
        (b"GET a\r\nHost: x\r\n", "$-1\r\n"),
        (b"QUIT\r\nPING\r\n", "+OK\r\n"),
    ] {
        let mut client = bench.client();
        client.send(sent);
        assert_eq!(client.rest(), expected);
    }
    bench.client().check("ping", "+PONG");
}

#[test]
fn hello_changes_the_protocol_version_and_reset_changes_it_back() {
    let bench = Bench::start(&[]);
    let mut client = bench.client();
    assert!(
        client
            .request("hello 3 setname me")
            .starts_with("%[server redis version 8.6.3 proto :3")
    );
    client.check("client getname", "me");
    client.check("get nothing", "_");
    client.check("hello 4", "-NOPROTO unsupported protocol version");
    client.check("reset", "+RESET");
    client.check("get nothing", "nil");
    client.check("client getname", "nil");
}

#[test]
fn commands_require_the_password() {
    let bench = Bench::start(&[("requirepass", "secret")]);
    let mut client = bench.client();
    client.check("ping", "-NOAUTH Authentication required.");
    client.check("multi", "-NOAUTH Authentication required.");
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.";
    client.check("auth wrong", wrong);
    client.check("auth other secret", wrong);
    client.check("auth default secret", "+OK");
    client.check("ping", "+PONG");
    client.check("reset", "+RESET");
    client.check("ping", "-NOAUTH Authentication required.");
    assert!(
        client
            .request("hello 3 auth default secret")
            .starts_with('%')
    );
}

#[test]
fn replies_can_be_turned_off_and_skipped() {
    let bench = Bench::start(&[]);
    let mut client = bench.client();
    client.send(b"client reply skip\r\nset a 1\r\nget a\r\n");
    assert_eq!(client.reply(), "1");
    client.send(b"client reply off\r\nset a 2\r\nget a\r\nclient reply on\r\nget a\r\n");
    assert_eq!(client.reply(), "+OK");
    assert_eq!(client.reply(), "2");
}

#[test]
fn config_set_changes_all_settings_or_none() {
    let bench = Bench::start(&[]);
    let mut client = bench.client();
    client.check("config set maxmemory 100mb timeout 7", "+OK");
    client.check(
        "config get maxmemory timeout",
        "*[timeout 7 maxmemory 104857600]",
    );
    let reply = client.request("config set timeout 8 maxmemory-policy nonsense");
    assert!(
        reply.starts_with(
            "-ERR CONFIG SET failed (possibly related to argument 'maxmemory-policy')"
        ),
        "{reply}"
    );
    client.check("config get timeout", "*[timeout 7]");
    client.check(
        "config set port 1",
        "-ERR CONFIG SET failed (possibly related to argument 'port') - can't set immutable config",
    );
    client.check(
        "config set nonsense 1",
        "-ERR Unknown option or number of arguments for CONFIG SET - 'nonsense'",
    );
    client.check("config get slave-read-only", "*[slave-read-only yes]");
    client.check("config get save", "*[save ]");
}

#[test]
fn client_pause_holds_writes_but_not_reads() {
    let bench = Bench::start(&[]);
    let (mut writer, mut other) = (bench.client(), bench.client());
    other.check("client pause 100000 write", "+OK");
    writer.send(b"get a\r\nset a 1\r\nget a\r\n");
    assert_eq!(writer.reply(), "nil");
    other.check("get a", "nil");
    other.check("client unpause", "+OK");
    assert_eq!(writer.reply(), "+OK");
    assert_eq!(writer.reply(), "1");
    other.check("client pause 50 all", "+OK");
    // The pause ends by itself.
    writer.check("set a 2", "+OK");
}

/// Regression: PFCOUNT was not held, although it stores the count in the sketch.
#[test]
fn client_pause_holds_pfcount_which_may_write() {
    let bench = Bench::start(&[]);
    let (mut counter, mut other) = (bench.client(), bench.client());
    counter.check("pfadd a 1 2", ":1");
    other.check("client pause 100000 write", "+OK");
    counter.send(b"get b\r\npfcount a\r\n");
    assert_eq!(counter.reply(), "nil");
    let run = other.request("info commandstats");
    assert!(!run.contains("cmdstat_pfcount"), "{run}");
    other.check("client unpause", "+OK");
    assert_eq!(counter.reply(), ":2");
}

/// Regression: `expired_subkeys` occurred twice, the first time with the value 0.
#[test]
fn info_contains_each_field_of_a_section_once() {
    let bench = Bench::start(&[]);
    let info = bench.client().request("info everything");
    for section in info.split("# ").skip(1) {
        let mut names: Vec<&str> = section
            .lines()
            .filter_map(|line| Some(line.split_once(':')?.0))
            .collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{section}");
    }
}

#[test]
fn commands_are_counted_and_slow_ones_are_recorded() {
    let bench = Bench::start(&[("slowlog-log-slower-than", "0"), ("slowlog-max-len", "3")]);
    let mut client = bench.client();
    client.send(b"set a 1\r\nget a\r\nget a\r\nnope\r\nset a\r\n");
    for _ in 0..5 {
        client.reply();
    }
    client.check("slowlog len", ":3");
    let newest = client.request("slowlog get 1");
    assert!(newest.contains("*[slowlog len]"), "{newest}");
    let info = client.request("info commandstats errorstats stats");
    assert!(info.contains("cmdstat_get:calls=2,"), "{info}");
    assert!(info.contains("cmdstat_set:calls=1,"), "{info}");
    assert!(info.contains("rejected_calls=1"), "{info}");
    assert!(info.contains("errorstat_ERR:count=2"), "{info}");
    client.check("config resetstat", "+OK");
    let info = client.request("info commandstats");
    assert!(!info.contains("cmdstat_get"), "{info}");
}

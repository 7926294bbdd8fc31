//! Tests of commands with many names: those that run in steps, and the bounds of the others.

use super::*;
use crate::dispatch::check::{BLOCKING_KEYS_MAX, KEYLESS_ARGUMENTS_MAX};
use session::pubsub::{AT_ONCE_MAX, QUEUED_MAX, Space};
use session::tracking::PREFIXES_MAX;

/// More subscriptions than a step adds or removes.
const MANY: usize = 3 * AT_ONCE_MAX + 5;

/// A command with numbered arguments.
fn line(command: &str, prefix: &str, count: usize) -> String {
    let names: Vec<String> = (0..count).map(|i| format!("{prefix}{i:05}")).collect();
    format!("{command} {}", names.join(" "))
}

/// The messages that confirm numbered names, with counts from `first` on.
fn confirmed(word: &str, count: usize, first: usize, step: isize) -> String {
    let one = |i: usize| {
        let left = first as isize + step * i as isize;
        let (len, name) = (word.len(), format!("c{i:05}"));
        format!("*3\r\n${len}\r\n{word}\r\n$6\r\n{name}\r\n:{left}\r\n")
    };
    (0..count).map(one).collect()
}

#[test]
fn subscriptions_of_many_channels_run_in_steps_with_the_same_messages() {
    let mut bench = Bench::new();
    let reply = bench.say(&line("SUBSCRIBE", "c", MANY));
    assert!(reply == confirmed("subscribe", MANY, 1, 1));
    let pubsub = &bench.server.clients.pubsub;
    assert_eq!(pubsub.counts(), (MANY, 0, 0));
    assert_eq!(bench.session.info.channels.load(Relaxed) as usize, MANY);
    // Without names, the order is that of the names.
    let reply = bench.say("UNSUBSCRIBE");
    assert!(reply == confirmed("unsubscribe", MANY, MANY - 1, -1));
    assert!(bench.server.clients.pubsub.is_idle() && bench.session.subscriptions.is_none());
    bench.say(&line("SSUBSCRIBE", "c", MANY));
    let reply = bench.say(&line("SUNSUBSCRIBE", "c", MANY));
    assert!(reply == confirmed("sunsubscribe", MANY, MANY - 1, -1));
    assert!(bench.server.clients.pubsub.is_idle() && bench.session.subscriptions.is_none());
}

#[test]
fn a_step_adds_a_bounded_number_of_subscriptions() {
    let mut bench = Bench::new();
    let server = &bench.server;
    let index = command::table().lookup(b"PSUBSCRIBE").expect("a command");
    let text = line("PSUBSCRIBE", "c", MANY);
    let (mut bytes, mut spans) = (Vec::new(), Vec::new());
    for word in text.split(' ') {
        let (start, len) = (bytes.len() as u32, word.len() as u32);
        spans.push(Span { start, len });
        bytes.extend_from_slice(word.as_bytes());
    }
    let call = session::queue::OwnedCall::new(index, bytes, 0, spans);
    let mut executor = Executor::new(server, 0, server.clock.now());
    let mut out = Output::default();
    let begun = executor.begin_long(&mut bench.session, call, &mut out);
    let long::Begun::InSteps(mut steps) = begun else {
        panic!("it runs in steps");
    };
    assert!(steps.is_push());
    for step in 1..=3 {
        let stepped = executor.step(&mut bench.session, &mut steps);
        assert!(matches!(stepped, steps::Stepped::Part(_)), "{stepped:?}");
        assert_eq!(server.clients.pubsub.counts(), (0, step * AT_ONCE_MAX, 0));
    }
    let stepped = executor.step(&mut bench.session, &mut steps);
    assert!(matches!(stepped, steps::Stepped::Done(..)), "{stepped:?}");
    assert_eq!(server.clients.pubsub.counts(), (0, MANY, 0));
}

#[test]
fn reset_ends_many_subscriptions_before_it_replies() {
    let mut bench = Bench::new();
    bench.say(&line("PSUBSCRIBE", "c", MANY));
    bench.say(&line("SUBSCRIBE", "c", MANY));
    assert_eq!(bench.say("RESET"), "+RESET\r\n");
    assert!(bench.server.clients.pubsub.is_idle() && bench.session.subscriptions.is_none());
}

#[test]
fn subscriptions_of_a_client_that_disconnects_are_removed_in_steps() {
    let mut bench = Bench::new();
    bench.say(&line("SUBSCRIBE", "c", MANY));
    bench.say("PSUBSCRIBE c*");
    let server = &bench.server;
    let mut executor = Executor::new(server, 0, server.clock.now());
    executor.forget(&mut bench.session);
    assert!(server.clients.pubsub.has_forgotten());
    assert_eq!(server.clients.pubsub.counts().0, MANY - AT_ONCE_MAX);
    for _ in 0..3 {
        assert!(server.clients.pubsub.has_forgotten());
        server.clients.pubsub.step();
    }
    assert!(!server.clients.pubsub.has_forgotten() && server.clients.pubsub.is_idle());
    server.clients.pubsub.step();
    // A client with few subscriptions leaves at once.
    let mut other = Session::new();
    let few = other.subscriptions.get_or_insert_default();
    few.insert(Space::Shard, b"s");
    server
        .clients
        .pubsub
        .subscribe(Space::Shard, b"s", other.subscriber());
    executor.forget(&mut other);
    assert!(!server.clients.pubsub.has_forgotten() && server.clients.pubsub.is_idle());
}

#[test]
fn commands_that_can_block_accept_a_bounded_number_of_keys() {
    let mut bench = Bench::new();
    bench.session.blocking_state = session::waiting::BlockingState::MayBlock;
    let refusal =
        |name: &str| format!("-ERR '{name}' accepts at most {BLOCKING_KEYS_MAX} keys\r\n");
    let beyond = BLOCKING_KEYS_MAX + 1;
    for name in ["blpop", "brpop", "bzpopmin", "bzpopmax"] {
        let reply = bench.say(&format!("{} 0", line(name, "k", beyond)));
        assert_eq!(reply, refusal(name));
    }
    for (name, tail) in [("blmpop", "LEFT"), ("bzmpop", "MIN")] {
        let head = format!("{name} 0 {beyond}");
        let reply = bench.say(&format!("{} {tail}", line(&head, "k", beyond)));
        assert_eq!(reply, refusal(name));
    }
    let ids = " $".repeat(beyond);
    let reply = bench.say(&format!(
        "{}{ids}",
        line("XREAD BLOCK 0 STREAMS", "k", beyond)
    ));
    assert_eq!(reply, refusal("xread"));
    let head = "XREADGROUP GROUP g c BLOCK 0 STREAMS";
    let reply = bench.say(&format!("{}{ids}", line(head, "k", beyond)));
    assert_eq!(reply, refusal("xreadgroup"));
    assert!(!bench.session.is_blocked());
    assert_eq!(bench.say("MULTI"), "+OK\r\n");
    let reply = bench.say(&format!("{} 0", line("blpop", "k", beyond)));
    assert_eq!(reply, refusal("blpop"));
    assert!(bench.say("EXEC").starts_with("-EXECABORT"));
    bench.say(&format!("{} 0", line("BLPOP", "k", BLOCKING_KEYS_MAX)));
    assert!(bench.session.is_blocked());
}

#[test]
fn commands_without_keys_accept_a_bounded_number_of_arguments() {
    let mut bench = Bench::new();
    // Regression: a pattern of CONFIG GET is compared with all settings, so that 16,000 took 400
    // ms.
    for (command, most) in [
        ("PUBSUB NUMSUB", KEYLESS_ARGUMENTS_MAX),
        ("SCRIPT EXISTS", KEYLESS_ARGUMENTS_MAX),
        ("COMMAND DOCS", 512),
        ("COMMAND INFO", 512),
        ("LATENCY HISTOGRAM", 512),
        ("CONFIG GET", 256),
        ("CLIENT KILL", 128),
    ] {
        let text = format!("accepts at most {most} arguments\r\n");
        let reply = bench.say(&line(command, "n", most - 1));
        assert!(reply.ends_with(&text), "{command}: {}", &reply[..80]);
        let reply = bench.say(&line(command, "n", most - 2));
        assert!(!reply.ends_with(&text), "{command}");
    }
    let reply = bench.say(&line("PUBSUB NUMSUB", "n", KEYLESS_ARGUMENTS_MAX - 2));
    assert!(reply.starts_with('*'));
    let reply = bench.say(&line("EXISTS", "n", KEYLESS_ARGUMENTS_MAX));
    assert_eq!(reply, ":0\r\n");
}

#[test]
fn a_client_has_a_bounded_number_of_prefixes() {
    let mut bench = Bench::new();
    let prefixes = |from: usize, count: usize| -> String {
        (from..from + count)
            .map(|i| format!(" PREFIX p{i:05}"))
            .collect()
    };
    let head = "CLIENT TRACKING on BCAST";
    let refusal = format!("-ERR A client can have at most {PREFIXES_MAX} prefixes\r\n");
    let reply = bench.say(&format!("{head}{}", prefixes(0, PREFIXES_MAX + 1)));
    assert_eq!(reply, refusal);
    assert!(bench.session.tracking.is_none());
    let reply = bench.say(&format!("{head}{}", prefixes(0, PREFIXES_MAX)));
    assert_eq!(reply, "+OK\r\n");
    let reply = bench.say(&format!("{head}{}", prefixes(PREFIXES_MAX, 1)));
    assert_eq!(reply, refusal);
}

/// Returns the number of long commands since the start.
fn long_commands(bench: &mut Bench) -> u64 {
    let text = bench.say("INFO stats");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("long_commands:"));
    line.expect("the field").parse().expect("a number")
}

#[test]
fn descriptions_of_streams_with_many_groups_are_long_commands() {
    let mut bench = Bench::new();
    bench.say("CONFIG SET long-command-threshold 20");
    bench.say("XADD x 1-1 f v");
    (0..30).for_each(|i| drop(bench.say(&format!("XGROUP CREATE x g{i} 0"))));
    for (command, count) in [
        ("XINFO STREAM x", 0),
        ("XINFO GROUPS x", 1),
        ("XINFO STREAM x FULL", 2),
    ] {
        bench.say(command);
        assert_eq!(long_commands(&mut bench), count, "{command}");
    }
}

#[test]
fn commands_on_streams_are_long_while_many_entries_have_expired() {
    let mut bench = Bench::new();
    bench.say("XADD x 1-1 f v");
    bench.say("XGROUP CREATE x g 0");
    for i in 2..12_000 {
        bench.say(&format!("XADD x PX 5 {i}-1 f v"));
    }
    bench.say("XREADGROUP GROUP g c STREAMS x >");
    bench.say("CONFIG SET long-command-threshold 2000");
    let before = long_commands(&mut bench);
    bench.server.clock.set_ms(NOW + 10);
    // Each access removes some of the entries.
    assert_eq!(bench.say("XLEN x"), ":1\r\n");
    assert_eq!(long_commands(&mut bench), before + 1);
}

#[test]
fn a_transaction_contains_a_bounded_number_of_subscriptions() {
    // Regression: SUBSCRIBE of a million channels was one step within MULTI.
    let mut bench = Bench::new();
    bench.say("MULTI");
    let reply = bench.say(&line("SUBSCRIBE", "c", QUEUED_MAX + 1));
    let text = format!("-ERR 'subscribe' accepts at most {QUEUED_MAX} names in a transaction\r\n");
    assert_eq!(reply, text);
    assert!(bench.say("EXEC").starts_with("-EXECABORT"));
    assert!(bench.server.clients.pubsub.is_idle());
    // Without names the subscriptions of the client count.
    bench.session.protocol = wire::Protocol::Resp3;
    bench.say(&line("SUBSCRIBE", "c", MANY));
    bench.say(&format!("CONFIG SET atomic-work-limit {MANY}"));
    bench.say("MULTI");
    assert_eq!(bench.say("UNSUBSCRIBE"), "+QUEUED\r\n");
    let reply = bench.say("EXEC");
    assert!(reply.contains("exceeds atomic-work-limit"), "{reply}");
    assert_eq!(bench.server.clients.pubsub.counts(), (MANY, 0, 0));
    bench.say("CONFIG SET atomic-work-limit 100000");
    bench.say("MULTI");
    bench.say("UNSUBSCRIBE");
    bench.say("EXEC");
    assert!(bench.server.clients.pubsub.is_idle());
}

#[test]
fn the_reply_of_a_transaction_counts_as_work() {
    // Regression: reads of values of less than 1 MB counted as little work, so that a transaction
    // replied with as much as the output limit allowed, in one step.
    let mut bench = Bench::new();
    bench.say(&format!("SET k {}", "v".repeat(100_000)));
    // 512 bytes of a value, or 128 of a reply, are a unit.
    bench.say("CONFIG SET atomic-work-limit 3500");
    bench.say("MULTI");
    for command in ["GET k", "MGET k k k", "GET k", "SET other v", "GETDEL k"] {
        assert_eq!(bench.say(command), "+QUEUED\r\n");
    }
    let reply = bench.say("EXEC");
    assert_eq!(reply.matches("$100000\r\n").count(), 5);
    assert_eq!(reply.matches("-ERR the estimated work").count(), 1);
    assert_eq!(reply.matches("+OK\r\n").count(), 1);
    bench.say("MULTI");
    (0..20).for_each(|_| drop(bench.say("GET other")));
    assert_eq!(bench.say("EXEC").matches("$1\r\nv").count(), 20);
}

#[test]
fn subscriptions_are_no_long_commands_whatever_the_threshold() {
    // Regression: a step was found to be a long command while another one ran, and got no reply.
    let mut bench = Bench::new();
    bench.say("CONFIG SET long-command-threshold 0");
    let ticket = bench.server.workers.long.wait(None);
    let reply = bench.say(&line("SUBSCRIBE", "c", 2));
    assert_eq!(reply, confirmed("subscribe", 2, 1, 1));
    bench.server.workers.long.leave(ticket);
}

#[test]
fn the_rights_to_many_names_are_checked_in_steps_before_the_first_is_used() {
    let mut bench = Bench::new();
    bench.say("ACL SETUSER u on nopass +@all resetchannels &c* ~c*");
    bench.say("AUTH u p");
    let denied = |line: &str, kind: &str, bench: &mut Bench| {
        let reply = bench.say(&format!("{line} denied"));
        let text = format!("-NOPERM No permissions to access a {kind}\r\n");
        assert_eq!(reply, text);
    };
    denied(&line("SUBSCRIBE", "c", MANY), "channel", &mut bench);
    assert!(bench.server.clients.pubsub.is_idle());
    bench.say("SET c00000 1");
    denied(
        &line("DEL", "c", 2 * steps::KEYS_PER_STEP),
        "key",
        &mut bench,
    );
    assert_eq!(bench.say("EXISTS c00000"), ":1\r\n");
    let many = line("DEL", "c", 2 * steps::KEYS_PER_STEP);
    assert_eq!(bench.say(&many), ":1\r\n");
    assert!(bench.say(&line("SUBSCRIBE", "c", MANY)) == confirmed("subscribe", MANY, 1, 1));
}

//! Events that name the fields and members that have changed or expired.

use crate::script::{Bench, START, words};
use std::fmt::Write as _;
use store::Event;
use wire::Protocol;

/// Returns the events with elements, as `event key: element …`, separated by `; `.
fn shown(events: &[Event]) -> String {
    let mut text = String::new();
    for event in events.iter().filter(|event| !event.elements.is_empty()) {
        let separator = if text.is_empty() { "" } else { "; " };
        let key = String::from_utf8_lossy(&event.key);
        let _ = write!(text, "{separator}{} {key}:", event.name);
        for element in &event.elements {
            let _ = write!(text, " {}", String::from_utf8_lossy(element));
        }
    }
    text
}

#[test]
fn events_name_the_elements_that_have_changed() {
    const ROWS: &[(&str, &str)] = &[
        ("HSET h a 1 b 2 a 3", "hset h: a b a"),
        ("HSETNX h a 1", ""),
        ("HSETNX h c 1", "hset h: c"),
        ("HINCRBY h c 1", "hincrby h: c"),
        ("HDEL h x c", "hdel h: c"),
        ("HEXPIRE h 100 FIELDS 2 a x", "hexpire h: a"),
        ("HPERSIST h FIELDS 2 a b", "hpersist h: a"),
        (
            "HSETEX h PX 50 FIELDS 2 d 1 e 2",
            "hset h: d e; hexpire h: d e",
        ),
        ("HGETEX h PERSIST FIELDS 1 d", "hpersist h: d"),
        ("HGETDEL h FIELDS 2 d x", "hdel h: d"),
        ("HGET h e", ""),
        ("SADD s a b", "sadd s: a b"),
        ("SADD s b c", "sadd s: c"),
        ("SREM s a x", "srem s: a"),
        ("SMOVE s t b", "srem s: b; sadd t: b"),
        ("SADD n 1 2 3", "sadd n: 1 2 3"),
        ("SREM n 2", "srem n: 2"),
        ("SPEXPIRE n 50 MEMBERS 1 3", "sexpire n: 3"),
        ("ZADD z 1 a 2 b 3 c", "zadd z: a b c"),
        ("ZINCRBY z 5 a", "zincr z: a"),
        ("ZREM z b x", "zrem z: b"),
        ("ZREMRANGEBYRANK z 0 0", "zremrangebyrank z: c"),
        ("ZPEXPIRE z 50 MEMBERS 1 a", "zexpire z: a"),
        ("SUNIONSTORE s n t", ""),
        ("SET string 1", ""),
        ("@pass", ""),
        ("HLEN h", "hexpired h: e"),
        ("SCARD n", "sexpired n: 3"),
        ("ZCARD z", "zexpired z: a"),
        ("HPEXPIRE h 0 FIELDS 1 a", "hexpired h: a"),
    ];
    for threads in [1, 3] {
        let mut bench = Bench::new(Protocol::Resp2, START, threads);
        bench.server.data.keyspace.set_names_elements(true);
        for (row, wanted) in ROWS {
            if *row == "@pass" {
                bench.now.0 += 1000;
                continue;
            }
            let reply = bench.run(&words(row));
            assert!(!reply.starts_with('-'), "{row}: {reply}");
            assert_eq!(shown(bench.last_full_events()), *wanted, "{row}");
        }
    }
}

#[test]
fn an_event_names_a_limited_number_of_elements() {
    const NAMED_MAX: usize = 4096;
    let mut bench = Bench::new(Protocol::Resp2, START, 1);
    bench.server.data.keyspace.set_names_elements(true);
    let mut add = words("SADD s");
    add.extend((0..2 * NAMED_MAX).map(|number| format!("m{number}").into_bytes()));
    bench.run(&add);
    assert_eq!(bench.last_full_events()[1].elements.len(), NAMED_MAX);
    let mut expire = words("SPEXPIRE s 10 MEMBERS 8192");
    expire.extend((0..2 * NAMED_MAX).map(|number| format!("m{number}").into_bytes()));
    assert!(!bench.run(&expire).starts_with('-'));
    bench.now.0 += 1000;
    bench.run(&words("EXISTS s"));
    let named: Vec<usize> = bench
        .last_full_events()
        .iter()
        .map(|event| event.elements.len())
        .collect();
    assert_eq!(named.iter().max(), Some(&NAMED_MAX), "{named:?}");
}

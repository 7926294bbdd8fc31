//! HOTKEYS on commands that arrive over sockets, also in pipelines and transactions.

use crate::client::Bench;

#[test]
fn the_keys_with_the_most_bytes_are_reported() {
    let bench = Bench::start(&[]);
    let mut client = bench.client();
    client.check("set before 1", "+OK");
    client.check("hotkeys start metrics 2 cpu net count 2", "+OK");
    let value = "x".repeat(1000);
    for _ in 0..10 {
        client.check(&format!("set large {value}"), "+OK");
        client.check("get small", "nil");
        client.check("mget small other", "*[nil nil]");
        client.check("ping", "+PONG");
    }
    client.check("multi", "+OK");
    client.check(&format!("append large {value}"), "+QUEUED");
    client.check("exec", "*[:2000]");
    client.check("hotkeys stop", "+OK");
    client.check("set after 1", "+OK");
    let results = client.request("hotkeys get");
    let (_, by_bytes) = results.split_once("by-net-bytes ").expect("the metric");
    let words: Vec<&str> = by_bytes.split(['[', ']', ' ']).collect();
    let words: Vec<&str> = words.into_iter().filter(|word| word.len() > 1).collect();
    let [large, bytes, small, _] = words[..] else {
        panic!("two keys are reported: {results}");
    };
    assert_eq!((large, small), ("large", "small"), "{results}");
    let bytes: u64 = bytes.trim_start_matches(':').parse().expect("a number");
    assert!((11_000..12_500).contains(&bytes), "{results}");
    assert!(results.contains("tracking-active :0"), "{results}");
    assert!(
        !results.contains("before") && !results.contains("after"),
        "{results}"
    );
    client.check("hotkeys reset", "+OK");
    client.check("hotkeys get", "nil");
}

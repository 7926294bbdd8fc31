//! Learning during requests: it starts, runs and stops while clients write and read.

use crate::client::{Bench, Client};

/// Returns a field of INFO.
fn field(client: &mut Client, name: &str) -> String {
    let info = client.request("info learning");
    let lines = info.split([' ', '\r', '\n']);
    let mut values = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    values
        .next()
        .unwrap_or_else(|| panic!("{name} in {info}"))
        .to_owned()
}

fn number(client: &mut Client, name: &str) -> u64 {
    field(client, name).parse().expect("a number")
}

/// Writes and reads: some keys often, others once.
struct Workload {
    client: Client,
    next: u64,
}

impl Workload {
    fn batch(&mut self) {
        let value = "v".repeat(200);
        let mut batch = String::new();
        for key in self.next..self.next + 300 {
            batch.push_str(&format!("set {key} {value}\r\nget {}\r\n", key % 300));
        }
        self.next += 300;
        self.client.send(batch.as_bytes());
        for _ in 0..600 {
            let reply = self.client.reply();
            assert!(!reply.starts_with('-'), "{reply}");
        }
    }
}

/// The expected states are reached while requests continue. Otherwise the test hangs until its
/// runner ends it.
#[test]
fn the_eviction_can_change_and_models_are_trained_under_load() {
    let bench = Bench::start(&[
        ("threads", "1"),
        ("engine", "segment"),
        ("maxmemory", "2mb"),
        ("segment-size", "8kb"),
        ("segment-eviction", "gl-cache"),
        ("learn-interval", "1"),
        ("learn-cpu", "100"),
    ]);
    let mut asker = bench.client();
    let mut flood = Workload {
        client: bench.client(),
        next: 300,
    };
    let tried = |asker: &mut Client| {
        number(asker, "learning_trainings") + number(asker, "learning_failures")
    };
    while tried(&mut asker) == 0 {
        flood.batch();
    }
    assert_ne!(field(&mut asker, "learning_state"), "off");
    assert!(number(&mut asker, "learning_training_samples") >= 128);
    assert!(number(&mut asker, "learning_bytes") > 0);
    for eviction in [
        "s3fifo", "merge", "gl-cache", "fifo", "rent", "gl-cache", "util",
    ] {
        asker.check(&format!("config set segment-eviction {eviction}"), "+OK");
        let info = asker.request("info engine");
        let wanted = format!("segment_eviction:{eviction}\r");
        assert!(info.contains(&wanted), "{info}");
        let before = number_of(&info, "segments_evicted");
        while number_of(&asker.request("info engine"), "segments_evicted") < before + 20 {
            flood.batch();
        }
    }
    // The learned model is discarded with the eviction that used it.
    while field(&mut asker, "learning_state") != "off" {
        flood.batch();
    }
    assert_eq!(number(&mut asker, "learning_trainings"), 0);
    asker.check("flushall", "+OK");
    asker.check("config set segment-eviction gl-cache", "+OK");
    while field(&mut asker, "learning_state") == "off" {
        flood.batch();
    }
}

fn number_of(info: &str, name: &str) -> u64 {
    let lines = info.split([' ', '\r', '\n']);
    let mut values = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let value = values.next().unwrap_or_else(|| panic!("{name} in {info}"));
    value.parse().expect("a number")
}

//! Tests of the page of metrics.

use super::*;
use crate::command;
use session::clock::Clock;
use settings::{Config, find};
use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;

const NOW: u64 = 1_700_000_000_000;

fn server(engine: &str) -> Server {
    let config = Config::default();
    for (name, value) in [("engine", engine), ("maxmemory", "64mb")] {
        let param = find(name).expect("a setting");
        config.set(param, value).expect("a value");
    }
    if engine == "slab" {
        let param = find("class").expect("a setting");
        config.set(param, "a prefix a:").expect("a value");
    }
    Server::new(config, Clock::manual(NOW)).expect("valid settings")
}

fn page(server: &Server, format: Format) -> String {
    let mut census = Census::default();
    let now = server.clock.now();
    while server.data.keyspace.census_step(&mut census, now) {}
    render(server, command::table(), &census, Duration::ZERO, format)
}

#[test]
fn names_are_unique_and_follow_the_conventions() {
    let mut names = HashSet::new();
    for row in info::rows() {
        let Export::Metric(metric) = &row.export else {
            continue;
        };
        assert!(names.insert(metric.name), "{} is used twice", metric.name);
        let is_word =
            |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        assert!(metric.name.chars().all(is_word), "{}", metric.name);
        assert!(!metric.name.ends_with("_total"), "{}", metric.name);
        assert!(metric.help.ends_with('.'), "{}", metric.name);
    }
}

/// Checks the lines of a page, and returns the names of its families with their types.
fn families(text: &str, format: Format) -> BTreeMap<String, String> {
    let mut types: BTreeMap<String, String> = BTreeMap::new();
    let mut current = String::new();
    let mut seen = HashSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name and a type");
            current = name.to_owned();
            let old = types.insert(current.clone(), kind.to_owned());
            assert!(old.is_none(), "{current} is described twice");
        } else if !line.starts_with('#') {
            let (series, value) = line.rsplit_once(' ').expect("a series and a value");
            assert!(value.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
            assert!(series.starts_with(&current), "{line} is not in {current}");
            assert!(seen.insert(series.to_owned()), "{series} occurs twice");
            let name = series.split('{').next().unwrap_or_default();
            let is_counter = types[&current] == "counter";
            if is_counter {
                assert!(name.ends_with("_total"), "{line}");
            }
        }
    }
    assert_eq!(text.ends_with("# EOF\n"), format == Format::OpenMetrics);
    types
}

#[test]
fn pages_of_both_formats_have_the_same_series() {
    for engine in ["slab", "segment"] {
        let server = server(engine);
        server.observability.stats.count_error(b"-WRONG \"x\"");
        server.observability.stats.workers[0].commands[3]
            .calls
            .store(5, Relaxed);
        server.observability.stats.workers[0].commands[3]
            .micros
            .record(100, 5);
        let plain = page(&server, Format::Prometheus);
        let open = page(&server, Format::OpenMetrics);
        let types = families(&plain, Format::Prometheus);
        assert!(types.len() > 100, "{}", types.len());
        assert_eq!(types.len(), families(&open, Format::OpenMetrics).len());
        let series = |text: &str| {
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            let names = lines.map(|line| line.split(' ').next().unwrap_or_default());
            let names =
                names.map(|name| name.replace("_gcount", "_count").replace("_gsum", "_sum"));
            names.collect::<Vec<_>>()
        };
        assert_eq!(series(&plain), series(&open));
        assert!(plain.contains("mayfly_errors_total{err=\"WRONG\"} 1"));
        assert!(plain.contains("mayfly_command_duration_seconds_count{family="));
        assert!(plain.contains(&format!("engine=\"{engine}\"")));
        let has_classes = plain.contains("mayfly_class_keys{class=\"a\"} 0")
            && plain.contains("mayfly_class_misses_total{class=\"other\",cause=\"expired\"} 0")
            && plain.contains("mayfly_class_ttl_at_write_seconds_count{class=\"a\"} 0");
        assert_eq!(has_classes, engine == "slab", "{plain}");
    }
}

#[test]
fn the_number_of_series_is_bounded() {
    let server = server("slab");
    let table = command::table();
    for (index, _) in table.names() {
        let stats = &server.observability.stats.workers[0].commands[index];
        stats.calls.store(1, Relaxed);
        stats.micros.record(1, 1);
    }
    for number in 0..1_000 {
        server
            .observability
            .stats
            .count_error(format!("-CODE{number} x").as_bytes());
    }
    let text = page(&server, Format::Prometheus);
    let commands = table.names().count();
    let lines = text.lines().filter(|line| !line.starts_with('#')).count();
    assert!(
        lines < 4 * commands + 128 + 1_000,
        "{lines} series for {commands} commands"
    );
    assert!(text.len() < 256 << 10, "{} bytes", text.len());
}

#[test]
fn buckets_grow_and_end_with_the_count() {
    let server = server("slab");
    for lag in [1_000, 1_500, 70_000, 5_000_000] {
        server.observability.stats.workers[0]
            .expiry_lag_us
            .record(lag, 1);
    }
    let text = page(&server, Format::Prometheus);
    let lines = text.lines().filter_map(|line| {
        line.strip_prefix("mayfly_expiry_lag_seconds_bucket{le=\"")?
            .split_once("\"} ")
    });
    let counts: Vec<(&str, u64)> = lines
        .map(|(bound, count)| (bound, count.parse().expect("a number")))
        .collect();
    assert!(counts.is_sorted_by_key(|(_, count)| *count));
    assert_eq!(counts.first(), Some(&("0.000001", 0)));
    assert_eq!(counts.last(), Some(&("+Inf", 4)));
    assert!(
        counts.contains(&("0.001024", 1)) && counts.contains(&("0.262144", 3)),
        "{counts:?}"
    );
    assert!(text.contains("mayfly_expiry_lag_seconds_count 4\n"));
}

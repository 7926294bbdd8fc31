//! The headlines over a small sweep, whose ratios were counted by hand.

use sim::Spec;
use sim::headlines::{Headlines, Measured, TraceKind};
use sim::report::Row;
use sim::{Configuration, Interner, Interning, Rules, Unit, sweep};
use std::sync::atomic::AtomicU64;
use trace::Request;

/// LRU keeps the repeated key and FIFO does not, or both keep nothing.
fn measured(trace: &str, kind: TraceKind, keys: &[u64]) -> Vec<Measured> {
    let requests = keys.iter().map(|&key| Ok(Request::new(0, key, 1)));
    let columns = Interner::all(trace, Interning::default(), requests).expect("a trace in memory");
    let names = ["fifo", "lru", "clock", "belady"];
    let of_name = |name: &&str| Configuration {
        policy: name.parse::<Spec>().expect("a policy of the list"),
        capacity: 2,
    };
    let configurations: Vec<Configuration> = names.iter().map(of_name).collect();
    let rules = Rules::default();
    let found = sweep(&columns, &rules, &configurations, 1, &AtomicU64::new(0));
    let found = found.expect("the future is known").into_iter();
    let row = |(name, found): (&&str, _)| Measured {
        row: Row {
            trace: trace.into(),
            policy: (*name).into(),
            unit: Unit::Objects,
            cache_size: 2,
            size: "50%".into(),
            found,
        },
        kind,
    };
    names.iter().zip(found).map(row).collect()
}

fn sweep_of_two() -> Vec<Measured> {
    // FIFO: 1 2 . 3 1 4: five misses of six. LRU: 1 2 . 3 . 4: four.
    let mut all = measured("there", TraceKind::Web, &[1, 2, 1, 3, 1, 4]);
    // A loop larger than the cache: six misses of six by both.
    all.extend(measured("here", TraceKind::Block, &[1, 2, 3, 1, 2, 3]));
    all
}

#[test]
fn reductions_are_listed_by_trace_with_their_mean() {
    let measured = sweep_of_two();
    let text = Headlines::of(&measured).markdown();
    let line = |start: &str| {
        let line = text.lines().find(|line| line.starts_with(start));
        line.unwrap_or_else(|| panic!("no line starts with {start}:\n{text}"))
    };
    assert_eq!(
        line("| fifo's miss ratio"),
        "| fifo's miss ratio | 83.3 % | 100.0 % | – | – | – | – | – | – |"
    );
    assert_eq!(
        line("| lru |"),
        "| lru | 20.0 % | 0.00 % | 10.0 % | 0.00 % | 5.00 % | 10.0 % | 15.0 % | 20.0 % |"
    );
    // The optimal bound is in a column of its own.
    assert!(line("| there (web) |").contains("| lru 66.67 % |"));
    assert!(line("| there (web) |").ends_with("| 66.7 % |"));
}

#[test]
fn verdicts_follow_the_traces_of_the_claim() {
    let measured = sweep_of_two();
    let text = Headlines::of(&measured).markdown();
    let about = |kind: &str| {
        let line = |line: &&str| {
            line.starts_with("| clock over lru ") && line.contains(&format!("| {kind} |"))
        };
        let found = text.lines().find(line);
        found.unwrap_or_else(|| panic!("no verdict on {kind}:\n{text}"))
    };
    // CLOCK keeps the accessed key, as LRU does.
    assert!(
        about("web").ends_with("| 0 : 0 of 1 | 0.00 % | +0.0 % there | +0.0 % there | undecided |")
    );
    assert!(about("block").contains("| 0 : 0 of 1 |"));
    // There is no verdict on policies that were not replayed.
    assert!(!text.contains("qd-arc over arc"));
}

#[test]
fn a_better_policy_is_confirmed_and_a_worse_one_refuted() {
    let mut measured = measured("there", TraceKind::Web, &[1, 2, 1, 3, 1, 4]);
    let rename = |measured: &mut Vec<Measured>, from: &str, to: &str| {
        let named = measured.iter_mut().filter(|m| m.row.policy == from);
        named.for_each(|m| m.row.policy = to.into());
    };
    rename(&mut measured, "lru", "s3fifo");
    let text = Headlines::of(&measured).markdown();
    let verdict = text
        .lines()
        .find(|line| line.starts_with("| s3fifo over fifo "));
    assert!(verdict.is_some_and(|line| line.ends_with("| +20.0 % there | in direction |")));
    rename(&mut measured, "fifo", "s3-sieve");
    let text = Headlines::of(&measured).markdown();
    let verdict = text
        .lines()
        .find(|line| line.starts_with("| s3-sieve over s3fifo "));
    assert!(verdict.is_some_and(|line| line.contains("| 0 : 1 of 1 | -20.0 % |")));
    assert!(verdict.is_some_and(|line| line.ends_with("| against |")));
}

#[test]
fn the_page_and_the_json_hold_the_same_tables() {
    let measured = sweep_of_two();
    let headlines = Headlines::of(&measured);
    let json: serde_json::Value =
        serde_json::to_value(headlines.titled()).expect("tables are data");
    let tables = headlines.tables();
    assert_eq!(json.as_array().map(Vec::len), Some(tables.len()));
    let html = headlines.page().to_html();
    assert_eq!(html.matches("<table>").count(), tables.len());
    assert!(html.contains("Each trace as a point, 50%, by objects"));
}

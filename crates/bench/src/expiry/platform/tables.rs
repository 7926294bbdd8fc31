//! The platform's results as tables of text.

use super::Report;
use super::summary::{Change, Spread};
use crate::table::{Table, mib, number};

/// Each with what it tells.
pub(super) fn tables(report: &Report) -> Vec<(String, Table)> {
    let mut all = vec![(
        "Every run. Above floor: peak above the empty server and what keys and values that are alive take. \
         Dead: share of the keys in memory, mean."
            .to_owned(),
        runs(report),
    )];
    if let (Some(reference), false) = (&report.reference, report.overall.is_empty()) {
        let best = report.best_buckets.as_ref().map_or(String::new(), |best| {
            format!(" Of the configurations of buckets, {best} saves most of the mean memory while it loses at most 10 % of the throughput.")
        });
        let caption = format!(
            "Optimal parameters: per cent of {reference}, the mean over the groups and the range.{best}"
        );
        all.push((caption, overall(report)));
    }
    if !report.beside_peers.is_empty() {
        let caption =
            "Beside a peer: ours divided by the peer's. User: CPU time in user mode an operation.";
        all.push((caption.to_owned(), beside_peers(report)));
    }
    all
}

fn overall(report: &Report) -> Table {
    let header = [
        "contestant",
        "groups",
        "peak memory",
        "mean memory",
        "throughput",
    ];
    let mut table = Table::new(1, &header);
    for overall in &report.overall {
        let spread = |spread: Spread, sign: f64| {
            let [mean, one, other] =
                [spread.mean, spread.min, spread.max].map(|share| sign * 100.0 * share);
            let (low, high) = (one.min(other), one.max(other));
            format!("{mean:+.1} % ({low:+.1} … {high:+.1})")
        };
        table.row(vec![
            overall.contestant.clone(),
            overall.groups.to_string(),
            spread(overall.peak_reduction, -1.0),
            spread(overall.mean_reduction, -1.0),
            spread(overall.throughput_improvement, 1.0),
        ]);
    }
    table
}

fn beside_peers(report: &Report) -> Table {
    let header = [
        "group",
        "ours",
        "peer",
        "peak above floor",
        "CPU",
        "user",
        "mean lag",
    ];
    let mut table = Table::new(3, &header);
    for beside in &report.beside_peers {
        table.row(vec![
            beside.group.clone(),
            beside.contestant.clone(),
            beside.peer.clone(),
            number(beside.peak_above_floor),
            number(beside.cpu_per_operation),
            beside.user_per_operation.map_or("–".into(), number),
            beside.mean_lag.map_or("–".into(), number),
        ]);
    }
    table
}

fn runs(report: &Report) -> Table {
    let header = [
        "group",
        "contestant",
        "kops/s",
        "CPU µs/op",
        "user",
        "peak",
        "mean",
        "above floor",
        "dead, mean",
        "lag, mean",
        "peak vs ref",
        "mean",
        "throughput",
    ];
    let mut table = Table::new(2, &header);
    for run in &report.runs {
        let summary = &run.summary;
        let percent = |value: fn(&Change) -> f64| {
            run.change.map_or("–".into(), |change| {
                format!("{:+.1} %", 100.0 * value(&change) + 0.0)
            })
        };
        table.row(vec![
            run.group.clone(),
            run.contestant.clone(),
            number(summary.operations_per_second / 1e3),
            number(summary.cpu_us_per_operation),
            summary.user_us_per_operation.map_or("–".into(), number),
            mib(summary.peak_bytes),
            mib(summary.mean_bytes),
            mib(summary.peak_above_floor_bytes),
            format!("{:.1} %", 100.0 * summary.mean_dead_share),
            summary.mean_lag_ms.map_or("–".into(), crate::table::span),
            percent(|change| 0.0 - change.peak_reduction),
            percent(|change| 0.0 - change.mean_reduction),
            percent(|change| change.throughput_improvement),
        ]);
    }
    table
}

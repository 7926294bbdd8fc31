//! The platform's results as a page: the figures and tables of the paper's section 4.5.

use super::monitor::Look;
use super::summary::{Change, Overall, Spread};
use super::{Report, Run};
use ::report::{Axis, Bars, Cell, Column, Line, Page, Plot, Section, Table};
use units::show::change;

const MIB: f64 = 1024.0 * 1024.0;
/// Number of parts of a run for which throughput is shown.
const WINDOWS: usize = 60;

pub(super) fn page(report: &Report) -> Page {
    let title = "Expiry indexes under YCSB with TTLs";
    let mut page = crate::machine::page(title, &report.command, &report.machine);
    let mut versions: Vec<&str> = report.runs.iter().map(|run| run.version.as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    page.fact("versions", &versions.join(", "));
    page.fact(
        "times and operations divided by",
        &report.factor.to_string(),
    );
    page.fact("cycles a second", &report.hz.to_string());
    page.fact("records", &report.records.to_string());
    page.fact("bytes of a value", &report.value_bytes.to_string());
    if let Some(seconds) = report.limit_seconds {
        page.fact("seconds of a run at most", &seconds.to_string());
    }
    what_was_done(page.section("What was done"), report);
    if !report.overall.is_empty() {
        compared(
            page.section("Against the reference").place("platform"),
            report,
        );
    }
    if !report.beside_peers.is_empty() {
        beside_peers(page.section("Beside peers").place("platform"), report);
    }
    for runs in report.runs.chunk_by(|a, b| a.group == b.group) {
        group(&mut page, runs);
    }
    page.section("All runs")
        .place("platform")
        .table(table(&report.runs));
    page
}

fn what_was_done(section: &mut Section, report: &Report) {
    section.text(
        "The experiments of Xie and Chung, “Bucket-Based Expiration Algorithm”, MEMSYS 2020, section 4. Each write of a \
         YCSB workload is followed by an EXPIRE whose TTL is drawn from a few; a monitor polls memory until one TTL after \
         the end. Names of indexes and TTLs have the paper's times; what servers were given is divided by the factor.",
    );
    section.text(
        "The floor is what keys and values that are alive take, as the client knows that set them. Keys in memory beyond \
         those are dead. Mean lag is Little's law: dead keys held on average over keys expired a second.",
    );
    let names: Vec<String> = report
        .reference
        .iter()
        .map(|name| format!("Reference: {name}."))
        .collect();
    let best = report.best_buckets.iter().map(|name| {
        format!("Of the configurations of buckets, {name} saves most of the mean memory while it loses at most 10 % of the throughput on average.")
    });
    section.list(names.into_iter().chain(best).collect());
}

fn percent(share: f64) -> f64 {
    share * 100.0
}

/// Adds a plot and a table of mean and range over all groups, which combine figures 4 to 7, 12 and
/// 15 to 18.
fn compared(section: &mut Section, report: &Report) {
    let names: Vec<String> = report
        .overall
        .iter()
        .map(|overall| overall.contestant.clone())
        .collect();
    let bars = |name: &str, value: fn(&Overall) -> Spread| {
        let spreads: Vec<Spread> = report.overall.iter().map(value).collect();
        let means = spreads.iter().map(|spread| Some(percent(spread.mean)));
        let ranges = spreads
            .iter()
            .map(|spread| Some((percent(spread.min), percent(spread.max))));
        Bars::new(name, means.collect()).with_ranges(ranges.collect())
    };
    let series = vec![
        bars("peak memory less", |overall| overall.peak_reduction),
        bars("mean memory less", |overall| overall.mean_reduction),
        bars("throughput more", |overall| overall.throughput_improvement),
    ];
    let axis = Axis::linear("per cent of the reference; line: least to greatest over the groups");
    section.plot(Plot::bars(
        "Memory and throughput against the reference",
        axis,
        names,
        series,
    ));
    let spread = |value: fn(&Overall) -> Spread, sign: f64| {
        move |overall: &Overall| {
            let spread = value(overall);
            let [mean, one, other] =
                [spread.mean, spread.min, spread.max].map(|share| sign * share);
            let (low, high) = (change(one.min(other)), change(one.max(other)));
            Cell::Shown(mean, format!("{} ({low} … {high})", change(mean)))
        }
    };
    let table = Table::of(&report.overall)
        .column(Column::text("contestant"), |overall| &overall.contestant)
        .column(Column::count("groups"), |overall| overall.groups)
        .column(
            Column::change("peak memory"),
            spread(|overall| overall.peak_reduction, -1.0),
        )
        .column(
            Column::change("mean memory"),
            spread(|overall| overall.mean_reduction, -1.0),
        )
        .column(
            Column::change("throughput"),
            spread(|overall| overall.throughput_improvement, 1.0),
        )
        .finish();
    let reference = report.reference.as_deref().unwrap_or_default();
    section.table(table.with_caption(&format!(
        "Optimal parameters: change against {reference}, the mean over the groups and the range"
    )));
}

fn beside_peers(section: &mut Section, report: &Report) {
    let table = Table::of(&report.beside_peers)
        .column(Column::text("group"), |beside| &beside.group)
        .column(Column::text("ours"), |beside| &beside.contestant)
        .column(Column::text("peer"), |beside| &beside.peer)
        .column(Column::number("peak above floor"), |beside| {
            beside.peak_above_floor
        })
        .column(Column::number("CPU"), |beside| beside.cpu_per_operation)
        .column(Column::number("user"), |beside| beside.user_per_operation)
        .column(Column::number("mean lag"), |beside| beside.mean_lag)
        .finish()
        .with_caption("Ours ÷ the peer's. User: CPU time in user mode per operation");
    section.table(table);
}

fn group(page: &mut Page, runs: &[Run]) {
    let Some(first) = runs.first() else {
        return;
    };
    let is_cut = runs.iter().any(|run| run.operations_done < run.operations);
    let ttls: Vec<String> = first.ttls_seconds.iter().map(u64::to_string).collect();
    let heading = format!(
        "Workload {}, {}{} operations, TTLs {{{}}} s, {} client{}",
        first.workload.name(),
        if is_cut { "at most " } else { "" },
        first.operations,
        ttls.join(", "),
        first.clients,
        if first.clients == 1 { "" } else { "s" }
    );
    let section = page.section(&heading);
    let lines = |value: &dyn Fn(&Look) -> f64| -> Vec<Line> {
        let line = |run: &Run| {
            let points = run.looks.iter().map(|look| (look.seconds, value(look)));
            Line::new(&run.contestant, points.collect())
        };
        runs.iter().map(line).collect()
    };
    let time = || Axis::linear("seconds");
    let memory = lines(&|look| look.used_bytes / MIB);
    section.plot(Plot::lines(
        "Memory as the server counts",
        time(),
        Axis::linear("MiB").from_zero(),
        memory,
    ));
    let rates = runs
        .iter()
        .map(|run| Line::new(&run.contestant, throughput(&run.looks)));
    let axis = Axis::linear("thousand operations a second").from_zero();
    section.plot(Plot::lines("Throughput", time(), axis, rates.collect()));
    let dead = lines(&|look| percent(look.dead() as f64 / look.keys.max(1) as f64));
    let axis = Axis::linear("per cent of the keys in memory").from_zero();
    section.plot(Plot::lines("Dead keys in memory", time(), axis, dead));
    let names = runs.iter().map(|run| run.contestant.clone()).collect();
    let peaks = |value: &dyn Fn(&Run) -> f64| runs.iter().map(|run| Some(value(run))).collect();
    let series = vec![
        Bars::new("peak", peaks(&|run| run.summary.peak_bytes / MIB)),
        Bars::new("mean", peaks(&|run| run.summary.mean_bytes / MIB)),
        Bars::new(
            "peak above the floor",
            peaks(&|run| run.summary.peak_above_floor_bytes / MIB),
        ),
    ];
    section.plot(Plot::bars("Memory", Axis::linear("MiB"), names, series));
}

/// Returns thousands of operations per second in each window, up to the last operation.
fn throughput(looks: &[Look]) -> Vec<(f64, f64)> {
    let last = looks.last().map_or(0, |look| look.operations);
    let end = looks
        .iter()
        .position(|look| look.operations == last)
        .unwrap_or(0);
    let step = (end + 1).div_ceil(WINDOWS).max(1);
    let ends: Vec<&Look> = looks.iter().take(end + 1).step_by(step).collect();
    let rate = |pair: &[&Look]| {
        let span = pair[1].seconds - pair[0].seconds;
        let count = pair[1].operations.saturating_sub(pair[0].operations);
        (
            pair[1].seconds,
            count as f64 / span.max(f64::MIN_POSITIVE) / 1e3,
        )
    };
    ends.windows(2).map(rate).collect()
}

fn table(runs: &[Run]) -> Table {
    let change = |value: fn(&Change) -> f64| move |run: &Run| run.change.as_ref().map(value);
    Table::of(runs)
        .column(Column::text("group"), |run| &run.group)
        .column(Column::text("contestant"), |run| &run.contestant)
        .column(Column::text("given as").detail(), |run| run.index.as_deref())
        .column(Column::number("kops/s"), |run| run.summary.operations_per_second / 1e3)
        .column(Column::number("CPU").unit("µs/op"), |run| run.summary.cpu_us_per_operation)
        .column(Column::number("user").unit("µs/op"), |run| run.summary.user_us_per_operation)
        .column(Column::number("CPU, s").detail(), |run| run.summary.cpu_seconds)
        .column(Column::mebibytes("peak"), |run| run.summary.peak_bytes)
        .column(Column::mebibytes("mean"), |run| run.summary.mean_bytes)
        .column(Column::mebibytes("above floor"), |run| run.summary.peak_above_floor_bytes)
        .column(Column::percent("dead, mean"), |run| run.summary.mean_dead_share)
        .column(Column::span("lag, mean"), |run| run.summary.mean_lag_ms)
        .column(Column::span("lag p99").detail(), |run| run.summary.lag_p99_us.map(|us| us / 1e3))
        .column(Column::span("operation p99").detail(), |run| run.latencies.p99_ms)
        .column(Column::change("peak vs reference"), change(|change| 0.0 - change.peak_reduction))
        .column(Column::change("mean vs reference"), change(|change| 0.0 - change.mean_reduction))
        .column(Column::change("throughput vs reference"), change(|change| change.throughput_improvement))
        .finish()
        .with_caption(
            "All runs. Above floor: peak above the empty server and unexpired keys and values. Dead: share of expired keys \
             among those in memory, mean. Lag p99: as the server reports.",
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_ends_with_the_operations() {
        let look = |i: u64| Look {
            seconds: i as f64 / 10.0,
            operations: i.min(100) * 50,
            ..Look::default()
        };
        let looks: Vec<Look> = (0..200).map(look).collect();
        let rates = throughput(&looks);
        assert!(rates.len() <= WINDOWS);
        assert!(
            rates
                .iter()
                .all(|(seconds, rate)| *seconds <= 10.1 && (*rate - 0.5).abs() < 1e-9),
            "{rates:?}"
        );
        assert_eq!(throughput(&[]), []);
    }
}

//! The results as tables, for a terminal and for documents.

use super::drain::Row as DrainRow;
use super::{Report, Round};
use crate::expiry_lag::lateness::Lateness;
use crate::latency::Percentiles;
use crate::table::{Table, median, number, span};

/// Tables under their titles, and what was left out.
pub(super) fn text(report: &Report) -> String {
    let tables = Round::ALL.iter().flat_map(|round| of(report, *round));
    let tables = tables.map(|(title, table)| format!("{title}\n\n{table}\n"));
    let lines = report
        .left_out
        .iter()
        .map(|left_out| left_out.line() + "\n");
    tables.chain(lines).collect()
}

/// A round's in Markdown.
pub(super) fn markdown(report: &Report, round: Round) -> String {
    let tables = of(report, round).into_iter();
    let tables = tables.map(|(title, table)| format!("\n{title}:\n\n{}", table.to_markdown()));
    let left_out = report
        .left_out
        .iter()
        .filter(|left_out| left_out.round == round);
    let lines = left_out.map(|left_out| format!("\n{}.\n", left_out.line()));
    tables.chain(lines).collect()
}

/// A round's tables that have rows.
fn of(report: &Report, round: Round) -> Vec<(String, Table)> {
    let count = report.elements;
    let tables = match round {
        Round::Memory => vec![(
            format!(
                "Bytes an element above the empty server, {count} elements of 14 bytes, fields with values of 3"
            ),
            memory(report),
        )],
        Round::Throughput => vec![(
            "The server's CPU time, µs per operation, medians".into(),
            throughput(report),
        )],
        Round::Drain => vec![
            (
                format!("{count} elements expire at one instant, medians"),
                drain(report),
            ),
            (
                "PINGs of another client, medians of the rounds".into(),
                pings(report),
            ),
        ],
        Round::Lag => vec![(
            format!("How late an element's event and memory are beside {count} others with TTLs"),
            lag(report),
        )],
    };
    let has_rows = |(_, table): &(String, Table)| !table.is_empty();
    tables.into_iter().filter(has_rows).collect()
}

fn memory(report: &Report) -> Table {
    let mut table = Table::new(
        4,
        &["elements", "TTLs", "server", "version", "used", "resident"],
    );
    for row in &report.memory {
        table.row(vec![
            row.data.name(),
            if row.has_ttls { "distinct" } else { "none" }.into(),
            row.server.clone(),
            row.version.clone(),
            number(row.used_per_element),
            number(row.resident_per_element),
        ]);
    }
    table
}

fn throughput(report: &Report) -> Table {
    let header = [
        "elements",
        "command",
        "server",
        "version",
        "CPU µs/op",
        "÷ first",
        "kops/s",
    ];
    let mut table = Table::new(4, &header);
    for row in &report.throughput {
        table.row(vec![
            row.data.name(),
            row.case.into(),
            row.server.clone(),
            row.version.clone(),
            number(row.cpu_us_median),
            row.over_first.map_or("–".into(), number),
            number(row.operations_per_second_median / 1e3),
        ]);
    }
    table
}

/// The rounds of each contestant with each kind of data, in the order of their first ones.
pub(super) fn rounds_of(rows: &[DrainRow]) -> Vec<Vec<&DrainRow>> {
    let mut groups: Vec<Vec<&DrainRow>> = Vec::new();
    for row in rows {
        let is_same = |group: &&mut Vec<&DrainRow>| {
            let first = group.first();
            first.is_some_and(|first| first.data == row.data && first.server == row.server)
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups
}

/// The median of a figure; none where a round had none.
pub(super) fn middle(rows: &[&DrainRow], value: impl Fn(&DrainRow) -> Option<f64>) -> Option<f64> {
    let values: Option<Vec<f64>> = rows.iter().map(|row| value(row)).collect();
    values.map(|values| median(&values))
}

/// How much longer the loader ran beside the dying elements: the median of the rounds' ratios.
pub(super) fn slowdown(rows: &[&DrainRow]) -> Option<f64> {
    middle(rows, |row| {
        Some(row.loader_beside.seconds / row.loader.seconds)
    })
}

fn drain(report: &Report) -> Table {
    let header = [
        "elements",
        "server",
        "version",
        "gone after",
        "memory back",
        "CPU s",
        "loader alone",
        "beside",
        "÷",
        "its CPU s",
        "beside",
        "gone after",
    ];
    let mut table = Table::new(3, &header);
    for rows in rounds_of(&report.drain) {
        let Some(first) = rows.first() else {
            continue;
        };
        let late = |value: &dyn Fn(&DrainRow) -> Option<u64>| {
            let ms = middle(&rows, |row| value(row).map(|ms| ms as f64));
            ms.map_or("not in time".into(), span)
        };
        let seconds = |value: &dyn Fn(&DrainRow) -> f64| {
            middle(&rows, |row| Some(value(row))).map_or("–".into(), number)
        };
        table.row(vec![
            first.data.name(),
            first.server.clone(),
            first.version.clone(),
            late(&|row| row.alone.gone_ms),
            late(&|row| row.alone.memory_back_ms),
            seconds(&|row| row.alone.cpu_seconds),
            seconds(&|row| row.loader.seconds) + " s",
            seconds(&|row| row.loader_beside.seconds) + " s",
            slowdown(&rows).map_or("–".into(), number),
            seconds(&|row| row.loader.cpu_seconds),
            seconds(&|row| row.loader_beside.cpu_seconds),
            late(&|row| row.loader_beside.gone_ms),
        ]);
    }
    table
}

fn pings(report: &Report) -> Table {
    let header = [
        "elements",
        "server",
        "when",
        "p50",
        "p99",
        "p99.9",
        "max",
        "machine p99.9",
        "max",
    ];
    let mut table = Table::new(3, &header);
    for rows in rounds_of(&report.drain) {
        let Some(first) = rows.first() else {
            continue;
        };
        let mut push = |when: &str,
                        pings: fn(&DrainRow) -> &Percentiles,
                        machine: fn(&DrainRow) -> &Percentiles| {
            let figure = |value: &dyn Fn(&DrainRow) -> f64| {
                middle(&rows, |row| Some(value(row))).map_or("–".into(), span)
            };
            table.row(vec![
                first.data.name(),
                first.server.clone(),
                when.into(),
                figure(&|row| pings(row).p50_ms),
                figure(&|row| pings(row).p99_ms),
                figure(&|row| pings(row).p999_ms),
                figure(&|row| pings(row).max_ms),
                figure(&|row| machine(row).p999_ms),
                figure(&|row| machine(row).max_ms),
            ]);
        };
        push("before", |row| &row.alone.quiet, |row| &row.alone.machine);
        push(
            "while elements die",
            |row| &row.alone.pings,
            |row| &row.alone.machine,
        );
        push(
            "beside the loader",
            |row| &row.loader.pings,
            |row| &row.loader.machine,
        );
        push(
            "beside both",
            |row| &row.loader_beside.pings,
            |row| &row.loader_beside.machine,
        );
    }
    table
}

/// A lateness, or that what was waited for did not come.
fn late(late_us: Option<u64>) -> String {
    late_us.map_or("not in time".into(), |us| span(us as f64 / 1e3))
}

fn lag(report: &Report) -> Table {
    let header = [
        "others",
        "server",
        "version",
        "events",
        "p50",
        "p99",
        "max",
        "memory p99",
        "max",
        "machine p99",
        "max",
    ];
    let mut table = Table::new(3, &header);
    for row in &report.lag {
        let Lateness {
            arrived, expected, ..
        } = row.events;
        table.row(vec![
            row.data.name(),
            row.server.clone(),
            row.version.clone(),
            format!("{arrived}/{expected}"),
            late(row.events.p50_us),
            late(row.events.p99_us),
            late(row.events.max_us),
            late(row.memory.p99_us),
            late(row.memory.max_us),
            span(row.machine.p99_ms),
            span(row.machine.max_ms),
        ]);
    }
    table
}

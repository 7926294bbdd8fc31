//! The report as a page: the source's figures, and tables of all results.

use super::drain::Row as DrainRow;
use super::{Report, Round, lag, memory, throughput};
use crate::latency::Percentiles;
use ::report::{Axis, Column, Line, Page, Plot, Section, Table, TableOf, distinct, median};

/// Text shown for a time that exceeds the experiment's limit.
const NOT_IN_TIME: &str = "not in time";

pub(super) fn page(report: &Report) -> Page {
    let title = "Elements with TTLs of their own";
    let mut page = crate::machine::page(title, &report.command, &report.machine);
    page.fact("versions", &versions(report));
    page.fact("elements", &report.elements.to_string());
    page.section("Method").text(
        "The rounds of “Hash field expiration – Architecture and Benchmarks” (Redis’s blog, on Redis 7.4): fields with TTLs of \
         their own, here of sets and sorted sets as well. “One” has all elements in one key, “many” one in each.",
    );
    for (round, heading) in Round::ALL {
        let section = page.section(heading).place(&round.place());
        match round {
            Round::Memory => of_memory(section, report),
            Round::Throughput => of_throughput(section, &report.throughput),
            Round::Drain => of_drain(section, report),
            Round::Lag => of_lag(section, report),
        }
        let left_out = report
            .left_out
            .iter()
            .filter(|left_out| left_out.round == round);
        section.list(left_out.map(super::LeftOut::line).collect());
    }
    page
}

fn versions(report: &Report) -> String {
    let memory = report.memory.iter().map(|row| row.version.as_str());
    let throughput = report.throughput.iter().map(|row| row.version.as_str());
    let drain = report.drain.iter().map(|row| row.version.as_str());
    let lag = report.lag.iter().map(|row| row.version.as_str());
    let mut all: Vec<&str> = memory.chain(throughput).chain(drain).chain(lag).collect();
    all.sort_unstable();
    all.dedup();
    all.join(", ")
}

fn of_memory(section: &mut Section, report: &Report) {
    let ttls = |row: &memory::Row| if row.has_ttls { "distinct" } else { "none" };
    let table = Table::of(&report.memory)
        .column(Column::text("elements"), |row| row.data.name())
        .column(Column::text("TTLs"), ttls)
        .column(Column::text("server"), |row| &row.server)
        .column(Column::text("version"), |row| &row.version)
        .column(Column::number("used").unit("bytes"), |row| row.used_per_element)
        .column(Column::number("resident").unit("bytes"), |row| row.resident_per_element)
        .finish()
        .with_caption(&format!(
            "Bytes per element above the empty server, {} elements of 14 bytes, fields with values of 3",
            report.elements
        ));
    if !table.is_empty() {
        let title = "Bytes per element, as the server counts";
        section.plot(table.bars(title, &["elements", "TTLs"], &["server"], "used"));
    }
    section.table(table);
}

fn of_throughput(section: &mut Section, rows: &[throughput::Row]) {
    let table = Table::of(rows)
        .column(Column::text("elements"), |row| row.data.name())
        .column(Column::text("command"), |row| row.case)
        .column(Column::text("server"), |row| &row.server)
        .column(Column::text("version"), |row| &row.version)
        .column(Column::number("CPU").unit("µs/op"), |row| {
            row.cpu_us_median
        })
        .column(Column::number("÷ first"), |row| row.over_first)
        .column(Column::number("kops/s"), |row| {
            row.operations_per_second_median / 1e3
        })
        .finish()
        .with_caption("The server's CPU time, µs per operation, medians");
    for (elements, part) in table.split(&["elements"]) {
        let title = format!("CPU time, {elements}");
        section.plot(part.bars(&title, &["command"], &["server"], "CPU"));
    }
    section.table(table);
}

/// Groups the rounds by server and kind of data, in order of first appearance.
pub(super) fn rounds_of(rows: &[DrainRow]) -> Vec<Vec<&DrainRow>> {
    let identity = |row: &DrainRow| (row.data, row.server.clone());
    let rounds = |group| rows.iter().filter(|row| identity(row) == group).collect();
    distinct(rows.iter().map(identity))
        .into_iter()
        .map(rounds)
        .collect()
}

/// Returns the median of a figure, or `None` if any round lacks it.
pub(super) fn middle(rows: &[&DrainRow], value: impl Fn(&DrainRow) -> Option<f64>) -> Option<f64> {
    let values: Option<Vec<f64>> = rows.iter().map(|row| value(row)).collect();
    values.map(|values| median(&values))
}

fn of_drain(section: &mut Section, report: &Report) {
    for data in distinct(report.drain.iter().map(|row| row.data)) {
        let of_data = || report.drain.iter().filter(|row| row.data == data);
        // The first round of each server. A server without a counter of expired elements has no
        // line.
        let servers = distinct(of_data().map(|row| row.server.as_str()));
        let lines = servers.iter().filter_map(|server| {
            let row = of_data().find(|row| row.server == *server)?;
            let points = row.alone.looks.iter().filter_map(|look| {
                let left = row.elements.saturating_sub(look.reclaimed?);
                Some((look.after_ms as f64 / 1e3, left as f64))
            });
            Some(Line::new(server, points.collect()))
        });
        section.plot(Plot::lines(
            &format!("Expired elements in memory, {}", data.name()),
            Axis::linear("seconds after the deadline"),
            Axis::linear("elements").from_zero(),
            lines.collect(),
        ));
    }
    let rounds = rounds_of(&report.drain);
    section.table(drain_table(&rounds, report.elements));
    section.table(pings_table(&rounds));
}

fn drain_table(rounds: &[Vec<&DrainRow>], elements: u64) -> Table {
    type Rounds<'a> = &'a Vec<&'a DrainRow>;
    fn ms(value: fn(&DrainRow) -> Option<u64>) -> impl Fn(Rounds<'_>) -> Option<f64> {
        move |rows| middle(rows, |row| value(row).map(|ms| ms as f64))
    }
    fn seconds(value: fn(&DrainRow) -> f64) -> impl Fn(Rounds<'_>) -> Option<f64> {
        move |rows| middle(rows, |row| Some(value(row)))
    }
    let late = |name: &str| Column::span(name).absent(NOT_IN_TIME);
    Table::of(rounds)
        .column(Column::text("elements"), |rows| rows[0].data.name())
        .column(Column::text("server"), |rows| &rows[0].server)
        .column(Column::text("version"), |rows| &rows[0].version)
        .column(late("removed after"), ms(|row| row.alone.gone_ms))
        .column(
            late("memory freed after"),
            ms(|row| row.alone.memory_back_ms),
        )
        .column(
            Column::number("CPU, s"),
            seconds(|row| row.alone.cpu_seconds),
        )
        .column(
            Column::number("loader alone, s"),
            seconds(|row| row.loader.seconds),
        )
        .column(
            Column::number("loader beside, s"),
            seconds(|row| row.loader_beside.seconds),
        )
        .column(Column::number("÷"), |rows| {
            middle(rows, |row| {
                Some(row.loader_beside.seconds / row.loader.seconds)
            })
        })
        .column(
            Column::number("CPU alone, s"),
            seconds(|row| row.loader.cpu_seconds),
        )
        .column(
            Column::number("CPU beside, s"),
            seconds(|row| row.loader_beside.cpu_seconds),
        )
        .column(
            late("removed beside after"),
            ms(|row| row.loader_beside.gone_ms),
        )
        .finish()
        .with_caption(&format!(
            "{elements} elements expire at one instant, medians"
        ))
}

fn pings_table(rounds: &[Vec<&DrainRow>]) -> Table {
    type Figures = fn(&DrainRow) -> (&Percentiles, &Percentiles);
    let phases: [(&str, Figures); 4] = [
        ("before", |row| (&row.alone.quiet, &row.alone.machine)),
        ("during expiry", |row| {
            (&row.alone.pings, &row.alone.machine)
        }),
        ("beside the loader", |row| {
            (&row.loader.pings, &row.loader.machine)
        }),
        ("beside both", |row| {
            (&row.loader_beside.pings, &row.loader_beside.machine)
        }),
    ];
    let all = rounds
        .iter()
        .flat_map(|rows| phases.map(|(when, figures)| (rows, when, figures)));
    fn figure<'a>(
        value: fn(&Percentiles, &Percentiles) -> f64,
    ) -> impl Fn((&'a Vec<&'a DrainRow>, &'static str, Figures)) -> Option<f64> {
        move |(rows, _, figures)| {
            middle(rows, |row| {
                let (pings, machine) = figures(row);
                Some(value(pings, machine))
            })
        }
    }
    Table::of(all)
        .column(Column::text("elements"), |(rows, ..)| rows[0].data.name())
        .column(Column::text("server"), |(rows, ..)| &rows[0].server)
        .column(Column::text("when"), |(_, when, _)| when)
        .column(Column::span("p50"), figure(|pings, _| pings.p50_ms))
        .column(Column::span("p99"), figure(|pings, _| pings.p99_ms))
        .column(Column::span("p99.9"), figure(|pings, _| pings.p999_ms))
        .column(Column::span("max"), figure(|pings, _| pings.max_ms))
        .column(
            Column::span("machine p99.9"),
            figure(|_, machine| machine.p999_ms),
        )
        .column(
            Column::span("machine max"),
            figure(|_, machine| machine.max_ms),
        )
        .finish()
        .with_caption("PINGs of another client, medians of the rounds")
}

fn of_lag(section: &mut Section, report: &Report) {
    let late = |name: &str| Column::span(name).absent(NOT_IN_TIME);
    let ms = |us: Option<u64>| us.map(|us| us as f64 / 1e3);
    let start: TableOf<&lag::Row> = Table::of(&report.lag);
    let table = start
        .column(Column::text("others"), |row| row.data.name())
        .column(Column::text("server"), |row| &row.server)
        .column(Column::text("version"), |row| &row.version)
        .column(Column::count("events"), |row| row.events.arrived)
        .column(Column::count("of"), |row| row.events.expected)
        .column(late("p50"), |row| ms(row.events.p50_us))
        .column(late("p99"), |row| ms(row.events.p99_us))
        .column(late("max"), |row| ms(row.events.max_us))
        .column(late("memory p99"), |row| ms(row.memory.p99_us))
        .column(late("memory max"), |row| ms(row.memory.max_us))
        .column(Column::span("machine p99"), |row| row.machine.p99_ms)
        .column(Column::span("machine max"), |row| row.machine.max_ms)
        .finish();
    section.table(table.with_caption(&format!(
        "Delay of an element's event and of freeing its memory, beside {} other elements with TTLs",
        report.elements
    )));
}

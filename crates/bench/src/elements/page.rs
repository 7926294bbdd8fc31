//! The results as a page: the figures of the source, and tables of everything.

use super::Report;
use super::data::Data;
use super::tables::{middle, rounds_of, slowdown};
use super::{drain, lag, memory, throughput};
use ::report::{Axis, Bars, Cell, Line, Page, Plot, Section, Table};

pub(super) fn page(report: &Report) -> Page {
    let mut page = Page::new("Elements with TTLs of their own");
    page.command(&report.command);
    page.fact("machine", &report.machine.line());
    page.fact("versions", &versions(report));
    page.fact("elements", &report.elements.to_string());
    let section = page.section("What was done");
    section.text(
        "The rounds of “Hash field expiration – Architecture and Benchmarks” (Redis’s blog, on Redis 7.4): fields with TTLs of \
         their own, here of sets and sorted sets as well; “one” has all elements in one key, “many” one in each.",
    );
    let left_out: Vec<String> = report.left_out.iter().map(super::LeftOut::line).collect();
    if !left_out.is_empty() {
        section.list(left_out);
    }
    if !report.memory.is_empty() {
        of_memory(page.section("Memory"), &report.memory);
    }
    if !report.throughput.is_empty() {
        of_throughput(page.section("CPU time per operation"), &report.throughput);
    }
    if !report.drain.is_empty() {
        of_drain(page.section("Active expiry"), &report.drain);
    }
    if !report.lag.is_empty() {
        of_lag(page.section("Lag of events"), &report.lag);
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

/// What differs, in the order of its first appearance.
fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

fn of_memory(section: &mut Section, rows: &[memory::Row]) {
    let cases = distinct(rows.iter().map(|row| (row.data, row.has_ttls)));
    let names = cases.iter().map(|(data, has_ttls)| match has_ttls {
        true => format!("{}, TTLs", data.name()),
        false => data.name(),
    });
    let servers = distinct(rows.iter().map(|row| row.server.as_str()));
    let bars = servers.iter().map(|server| {
        let value = |case: &(Data, bool)| {
            let mut found = rows
                .iter()
                .filter(|row| (row.data, row.has_ttls) == *case && row.server == *server);
            found.next().map(|row| row.used_per_element)
        };
        Bars::new(server, cases.iter().map(value).collect())
    });
    section.plot(Plot::bars(
        "Bytes an element, as the server counts",
        Axis::linear("bytes"),
        names.collect(),
        bars.collect(),
    ));
    let mut table = Table::new(&[
        "elements",
        "TTLs",
        "server",
        "version",
        "used, bytes",
        "resident, bytes",
    ])
    .with_caption("An element, above the empty server.");
    for row in rows {
        table.row(vec![
            row.data.name().into(),
            if row.has_ttls { "distinct" } else { "none" }.into(),
            row.server.as_str().into(),
            row.version.as_str().into(),
            row.used_per_element.into(),
            row.resident_per_element.into(),
        ]);
    }
    section.table(table);
}

fn of_throughput(section: &mut Section, rows: &[throughput::Row]) {
    let servers = distinct(rows.iter().map(|row| row.server.as_str()));
    for data in distinct(rows.iter().map(|row| row.data)) {
        let rows: Vec<&throughput::Row> = rows.iter().filter(|row| row.data == data).collect();
        let cases = distinct(rows.iter().map(|row| row.case));
        let bars = servers.iter().map(|server| {
            let value = |case: &&str| {
                let mut found = rows
                    .iter()
                    .filter(|row| row.case == *case && row.server == *server);
                found.next().map(|row| row.cpu_us_median)
            };
            Bars::new(server, cases.iter().map(value).collect())
        });
        section.plot(Plot::bars(
            &format!("CPU time, {}", data.name()),
            Axis::linear("µs an operation"),
            cases.iter().map(|case| case.to_string()).collect(),
            bars.collect(),
        ));
    }
    let mut table = Table::new(&[
        "elements",
        "command",
        "server",
        "version",
        "CPU, µs/op",
        "÷ first",
        "ops/s",
    ])
    .with_caption("Medians of the rounds.");
    for row in rows {
        table.row(vec![
            row.data.name().into(),
            row.case.into(),
            row.server.as_str().into(),
            row.version.as_str().into(),
            row.cpu_us_median.into(),
            row.over_first.into(),
            row.operations_per_second_median.into(),
        ]);
    }
    section.table(table);
}

fn of_drain(section: &mut Section, rows: &[drain::Row]) {
    for data in distinct(rows.iter().map(|row| row.data)) {
        let of_data = rows.iter().filter(|row| row.data == data);
        // The first round of each; a server that does not count what it expires has no line.
        let firsts = distinct(of_data.clone().map(|row| row.server.as_str()));
        let lines = firsts.iter().filter_map(|server| {
            let row = of_data.clone().find(|row| row.server == *server)?;
            let points = row.alone.looks.iter().filter_map(|look| {
                let left = row.elements.saturating_sub(look.reclaimed?);
                Some((look.after_ms as f64 / 1e3, left as f64))
            });
            Some(Line::new(server, points.collect()))
        });
        section.plot(Plot::lines(
            &format!("Dead elements in memory, {}", data.name()),
            Axis::linear("seconds after the deadline"),
            Axis::linear("elements").from_zero(),
            lines.collect(),
        ));
    }
    let mut table = Table::new(&[
        "elements",
        "server",
        "version",
        "gone after, ms",
        "memory back, ms",
        "CPU, s",
        "loader alone, s",
        "beside, s",
        "÷",
        "PING p99, ms",
        "p99.9, ms",
        "max, ms",
        "beside both: p99.9, ms",
        "max, ms",
    ])
    .with_caption("Medians of the rounds; an empty place: not within the patience.");
    for rows in rounds_of(rows) {
        let Some(first) = rows.first() else {
            continue;
        };
        let mut cells: Vec<Cell> = vec![
            first.data.name().into(),
            first.server.as_str().into(),
            first.version.as_str().into(),
            middle(&rows, |row| row.alone.gone_ms.map(|ms| ms as f64)).into(),
            middle(&rows, |row| row.alone.memory_back_ms.map(|ms| ms as f64)).into(),
        ];
        let figures: [fn(&drain::Row) -> f64; 3] = [
            |row| row.alone.cpu_seconds,
            |row| row.loader.seconds,
            |row| row.loader_beside.seconds,
        ];
        cells.extend(figures.map(|value| Cell::from(middle(&rows, |row| Some(value(row))))));
        cells.push(slowdown(&rows).into());
        let figures: [fn(&drain::Row) -> f64; 5] = [
            |row| row.alone.pings.p99_ms,
            |row| row.alone.pings.p999_ms,
            |row| row.alone.pings.max_ms,
            |row| row.loader_beside.pings.p999_ms,
            |row| row.loader_beside.pings.max_ms,
        ];
        cells.extend(figures.map(|value| Cell::from(middle(&rows, |row| Some(value(row))))));
        table.row(cells);
    }
    section.table(table);
}

fn of_lag(section: &mut Section, rows: &[lag::Row]) {
    let mut table = Table::new(&[
        "others",
        "server",
        "version",
        "events that came",
        "of",
        "p50, ms",
        "p99, ms",
        "max, ms",
        "memory p99, ms",
        "machine p99, ms",
    ])
    .with_caption(
        "Arrival of an event minus the deadline; an empty place: not within the patience.",
    );
    let ms = |us: Option<u64>| Cell::from(us.map(|us| us as f64 / 1e3));
    for row in rows {
        table.row(vec![
            row.data.name().into(),
            row.server.as_str().into(),
            row.version.as_str().into(),
            (row.events.arrived as f64).into(),
            (row.events.expected as f64).into(),
            ms(row.events.p50_us),
            ms(row.events.p99_us),
            ms(row.events.max_us),
            ms(row.memory.p99_us),
            row.machine.p99_ms.into(),
        ]);
    }
    section.table(table);
}

//! Results of replays as a page: bars by policy, curves over sizes, boxes over traces, every
//! column.

use super::{COLUMNS, Kind, LINES_MAX, Row, Value, distinct, learned};
use crate::{CLASSES, Unit};
use ::report::{Axis, Bars, Boxed, Cell, Cloud, Heat, Line, Page, Plot, Section, Table};

/// More sizes than this are lines over the size instead of bars.
const SIZES_AS_BARS: usize = 4;
/// Fewer traces than this have no distribution to show.
const TRACES_AS_BOXES: usize = 3;
/// Replays that are explained by plots: with more, a page would take too long to open.
const EXPLAINED_MAX: usize = 32;
/// Numbers of hits at eviction, as the classes have them.
const HITS: [&str; CLASSES] = [
    "0",
    "1",
    "2–3",
    "4–7",
    "8–15",
    "16–31",
    "32–63",
    "64 and more",
];

/// The page of a run over some traces.
pub fn page(rows: &[Row]) -> Page {
    let traces = distinct(rows.iter().map(|row| row.trace.as_str()));
    let title = match traces.as_slice() {
        [one] => format!("Miss ratios: {one}"),
        all => format!("Miss ratios of {} traces", all.len()),
    };
    let mut page = Page::new(&title);
    if traces.len() >= TRACES_AS_BOXES {
        over_traces(page.section("Over all traces"), rows);
    }
    let mut explained = 0;
    for trace in traces {
        let own: Vec<&Row> = rows.iter().filter(|row| row.trace == trace).collect();
        let section = page.section(trace);
        of_trace(section, &own, &mut explained);
    }
    page.section("All results").table(table(rows));
    page
}

fn miss_ratio(row: &Row) -> Option<f64> {
    let counts = row.found.counts;
    (counts.requests > 0).then(|| counts.misses as f64 / counts.requests as f64)
}

fn byte_miss_ratio(row: &Row) -> Option<f64> {
    let counts = row.found.counts;
    let has_bytes = row.unit == Unit::Bytes && counts.requested_weight > 0;
    has_bytes.then(|| counts.missed_weight as f64 / counts.requested_weight as f64)
}

/// What is measured of a row, and how the axis calls it.
type Measure = (&'static str, fn(&Row) -> Option<f64>);

const MEASURES: [Measure; 2] = [
    ("miss ratio", miss_ratio),
    ("miss ratio by bytes", byte_miss_ratio),
];

fn over_traces(section: &mut Section, rows: &[Row]) {
    let policies = distinct(rows.iter().map(|row| row.policy.as_str()));
    let base = ["fifo", "lru"]
        .into_iter()
        .find(|name| policies.contains(name));
    for size in distinct(rows.iter().map(|row| row.size.as_str())) {
        let of_size = || rows.iter().filter(|row| row.size == size);
        let boxes = policies.iter().filter_map(|policy| {
            let own = of_size().filter(|row| row.policy == *policy);
            Boxed::of_sample(policy, &own.filter_map(miss_ratio).collect::<Vec<_>>())
        });
        let title = format!("Miss ratios over the traces, {size}");
        section.plot(Plot::boxes(
            &title,
            Axis::linear("miss ratio"),
            boxes.collect(),
        ));
        let Some(base) = base else { continue };
        let saved = |row: &Row| {
            let of_base = of_size().find(|other| other.trace == row.trace && other.policy == base);
            Some(saving(miss_ratio(of_base?)?, miss_ratio(row)?) * 100.0)
        };
        let others = policies.iter().filter(|policy| **policy != base);
        let boxes = others.filter_map(|policy| {
            let own = of_size().filter(|row| row.policy == *policy);
            Boxed::of_sample(policy, &own.filter_map(saved).collect::<Vec<_>>())
        });
        let boxes: Vec<Boxed> = boxes.collect();
        if !boxes.is_empty() {
            let title = format!("Misses saved against {base}, {size}");
            section.plot(Plot::boxes(&title, Axis::linear("%"), boxes));
        }
    }
}

/// The share of misses that is saved; negative where there are more.
fn saving(from: f64, to: f64) -> f64 {
    match from > 0.0 {
        true => (from - to) / from,
        false => 0.0,
    }
}

fn of_trace(section: &mut Section, rows: &[&Row], explained: &mut usize) {
    let sizes = distinct(rows.iter().map(|row| (row.size.as_str(), row.cache_size)));
    let policies = distinct(rows.iter().map(|row| row.policy.as_str()));
    for (label, measure) in MEASURES {
        if !rows.iter().any(|row| measure(row).is_some()) {
            continue;
        }
        match sizes.len() <= SIZES_AS_BARS {
            true => section.plot(bars(rows, &policies, &sizes, (label, measure))),
            false => section.plot(lines(rows, &policies, (label, measure))),
        };
    }
    learned::section(section, rows);
    if rows.iter().any(|row| row.found.flash_written.is_some()) {
        section.plot(flash(rows));
    }
    if rows.iter().any(|row| row.found.explained.is_some()) {
        for (size, _) in sizes {
            let of_size: Vec<&Row> = rows
                .iter()
                .copied()
                .filter(|row| row.size == size)
                .collect();
            if *explained > 0 && *explained + of_size.len() > EXPLAINED_MAX {
                let told = "What explains the others is in the table alone: fewer traces, sizes or policies \
                            at a time are drawn.";
                section.text(told);
                return;
            }
            *explained += of_size.len();
            explain(section, &of_size, size);
        }
    }
}

fn bars(rows: &[&Row], policies: &[&str], sizes: &[(&str, u64)], measure: Measure) -> Plot {
    let (label, value) = measure;
    let series = sizes.iter().map(|(size, units)| {
        let of = |policy: &&str| {
            let mut own = rows.iter();
            let is_it = |row: &&&Row| row.policy == *policy && row.cache_size == *units;
            own.find(is_it).and_then(|row| value(row))
        };
        Bars::new(size, policies.iter().map(of).collect())
    });
    let names = policies.iter().map(|&policy| policy.to_owned()).collect();
    let title = format!("The {label} of each policy");
    Plot::bars(&title, Axis::linear(label), names, series.collect())
}

fn lines(rows: &[&Row], policies: &[&str], (label, value): Measure) -> Plot {
    let (unit, scale) = size_axis(rows.first().map_or(Unit::Objects, |row| row.unit));
    let line = |policy: &&str| {
        let own = rows.iter().filter(|row| row.policy == **policy);
        let points = own.filter_map(|row| Some((row.cache_size as f64 / scale, value(row)?)));
        let mut points: Vec<(f64, f64)> = points.collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Line::new(policy, points)
    };
    let lines = policies.iter().map(line).collect();
    let title = format!("The {label} over the size");
    Plot::lines(
        &title,
        Axis::log(unit),
        Axis::linear(label).from_zero(),
        lines,
    )
}

/// How an axis of sizes is called, and what its numbers are divided by.
pub(crate) fn size_axis(unit: Unit) -> (&'static str, f64) {
    match unit {
        Unit::Objects => ("cache size, objects", 1.0),
        Unit::Bytes => ("cache size, MiB", (1u64 << 20) as f64),
    }
}

fn flash(rows: &[&Row]) -> Plot {
    let (_, scale) = size_axis(rows[0].unit);
    let unit = match rows[0].unit {
        Unit::Objects => "objects written to flash",
        Unit::Bytes => "written to flash, MiB",
    };
    let clouds = distinct(rows.iter().map(|row| row.policy.split(':').next()));
    let clouds = clouds.into_iter().flatten().map(|scheme| {
        let own = rows
            .iter()
            .filter(|row| row.policy.split(':').next() == Some(scheme));
        let points = own.filter_map(|row| {
            let written = row.found.flash_written? as f64 / scale;
            Some((
                (written, miss_ratio(row)?),
                format!("{} {}", row.policy, row.size),
            ))
        });
        let (points, labels): (Vec<_>, Vec<_>) = points.unzip();
        Cloud::new(scheme, points).with_labels(labels)
    });
    Plot::scatter(
        "Misses and writes to flash",
        Axis::linear(unit).from_zero(),
        Axis::linear("miss ratio"),
        clouds.collect(),
    )
}

/// What explains the ratios at one size.
fn explain(section: &mut Section, rows: &[&Row], size: &str) {
    let explained = || {
        rows.iter()
            .filter_map(|row| Some((*row, row.found.explained.as_deref()?)))
    };
    let over_time = explained().take(LINES_MAX).map(|(row, explained)| {
        let points = explained.over_time.iter().enumerate();
        let parts = explained.over_time.len().max(1) as f64;
        let at = |(part, ratio): (usize, &f64)| ((part + 1) as f64 * 100.0 / parts, *ratio);
        Line::new(&row.policy, points.map(at).collect())
    });
    let title = format!("Miss ratio over time, {size}");
    let (x, y) = (
        Axis::linear("% of the requests"),
        Axis::linear("miss ratio").from_zero(),
    );
    section.plot(Plot::lines(&title, x, y, over_time.collect()));
    let clouds = explained().filter_map(|(row, explained)| {
        let point = (explained.demotion_speed?, explained.demotion_precision?);
        Some(Cloud::new(&row.policy, vec![point]))
    });
    let title = format!("Demotion, {size}");
    let (x, y) = (Axis::log("speed (LRU: 1)"), Axis::linear("precision"));
    section.plot(Plot::scatter(&title, x, y, clouds.collect()));
    let names = explained().map(|(row, _)| row.policy.clone()).collect();
    let shares = explained().flat_map(|(_, explained)| {
        let all: u64 = explained.evictions_by_hits.iter().sum();
        let share = move |count: u64| (count > 0).then(|| count as f64 * 100.0 / all as f64);
        explained.evictions_by_hits.map(share)
    });
    let shares: Vec<Option<f64>> = shares.collect();
    if shares.iter().any(Option::is_some) {
        let heat = Heat::new(
            HITS.map(str::to_owned).to_vec(),
            names,
            shares,
            "% of evictions",
        );
        let title = format!("Hits of what was evicted, {size}");
        section.plot(Plot::heat(&title, "hits since insertion", "policy", heat));
    }
}

/// Every column that says something, but lists.
fn table(rows: &[Row]) -> Table {
    let is_told = |value: Value| !matches!(value, Value::None | Value::Real(0.0, _));
    let columns = COLUMNS.iter().filter(|column| {
        column.kind != Kind::Reals && rows.iter().any(|row| is_told(column.value(row)))
    });
    let columns: Vec<_> = columns.collect();
    let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
    let mut table = Table::new(&names);
    for row in rows {
        let cells = columns.iter().map(|column| match column.value(row) {
            Value::Text(text) => Cell::Text(text),
            Value::Count(count) => Cell::Shown(count as f64, count.to_string()),
            Value::Real(real, decimals) => Cell::Shown(real, format!("{real:.*}", decimals.min(4))),
            Value::None | Value::Reals(..) => Cell::Empty,
        });
        table.row(cells.collect());
    }
    table
}

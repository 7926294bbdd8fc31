//! Results of replays as a page: bars by policy, curves over sizes, boxes over traces, every
//! column.

use super::{LINES_MAX, Row, learned, table};
use crate::{CLASSES, Unit};
use ::report::{Axis, Cloud, Column, Heat, Line, Page, Plot, Section, Table, distinct};

/// Maximum number of sizes that are shown as bars; more are lines over the size.
const SIZES_AS_BARS: usize = 4;
/// Minimum number of traces for box plots over traces.
const TRACES_AS_BOXES: usize = 3;
/// Maximum number of replays with plots of explanations; a page with more would open slowly.
const EXPLAINED_MAX: usize = 32;
/// Labels of the classes of hits before eviction.
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

/// Page of the results over some traces.
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
    page.section("All results")
        .table(table(rows).without_idle_columns());
    page
}

/// Names of the columns of miss ratios, with their labels on axes.
const MEASURES: [(&str, &str); 2] = [
    ("miss ratio", "miss_ratio"),
    ("miss ratio by bytes", "byte_miss_ratio"),
];

fn over_traces(section: &mut Section, rows: &[Row]) {
    let all = table(rows);
    let policies = distinct(rows.iter().map(|row| row.policy.as_str()));
    let base = ["fifo", "lru"]
        .into_iter()
        .find(|name| policies.contains(name));
    for (size, of_size) in all.split(&["size"]) {
        let title = format!("Miss ratios over the traces, {size}");
        section.plot(of_size.boxes(&title, &["policy"], "miss_ratio"));
        let Some(base) = base else { continue };
        let of_size = || rows.iter().filter(|row| row.size == size);
        let saved = |row: &Row| {
            let of_base = of_size().find(|other| other.trace == row.trace && other.policy == base);
            Some(saving(of_base?.miss_ratio()?, row.miss_ratio()?))
        };
        let by_trace = Table::of(of_size())
            .column(Column::text("policy"), |row| &row.policy)
            .column(Column::text("trace"), |row| &row.trace)
            .column(Column::change("saved"), saved)
            .finish()
            .pivot(&["policy"], "trace", "saved")
            .with_caption(&format!(
                "Misses saved against {base} on each trace, {size}"
            ));
        section.table(by_trace.coloured());
        let others = Table::of(of_size().filter(|row| row.policy != base))
            .column(Column::text("policy"), |row| &row.policy)
            .column(Column::change("saved"), saved)
            .finish()
            .with_number("saved");
        if !others.is_empty() {
            let title = format!("Misses saved against {base}, {size}");
            section.plot(others.boxes(&title, &["policy"], "saved"));
        }
    }
}

/// Relative reduction of misses; negative if there are more.
fn saving(from: f64, to: f64) -> f64 {
    match from > 0.0 {
        true => (from - to) / from,
        false => 0.0,
    }
}

fn of_trace(section: &mut Section, rows: &[&Row], explained: &mut usize) {
    let sizes = distinct(rows.iter().map(|row| (row.size.as_str(), row.cache_size)));
    let unit = rows.first().map_or(Unit::Objects, |row| row.unit);
    let all = table(rows.iter().copied());
    for (label, measure) in MEASURES {
        let known = all.with_number(measure);
        if known.is_empty() {
            continue;
        }
        match sizes.len() <= SIZES_AS_BARS {
            true => {
                let title = format!("The {label} of each policy");
                section.plot(known.bars(&title, &["policy"], &["size"], measure))
            }
            false => section.plot(lines(rows, unit, (label, measure))),
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
                section.text(
                    "Plots of explanations are limited: those of other replays are left out. The \
                     table has all; draw fewer traces, sizes or policies at a time.",
                );
                return;
            }
            *explained += of_size.len();
            explain(section, &of_size, size);
        }
    }
}

fn lines(rows: &[&Row], unit: Unit, (label, measure): (&str, &str)) -> Plot {
    let mut rows = rows.to_vec();
    rows.sort_by_key(|row| row.cache_size);
    let size = match unit {
        Unit::Objects => Column::count("size"),
        Unit::Bytes => Column::mebibytes("size"),
    };
    let table = Table::of(rows)
        .column(Column::text("policy"), |row| &row.policy)
        .column(size, |row| row.cache_size)
        .column(Column::number("miss_ratio"), Row::miss_ratio)
        .column(Column::number("byte_miss_ratio"), Row::byte_miss_ratio)
        .finish();
    let title = format!("The {label} over the size");
    let (size, _) = size_axis(unit);
    let (x, y) = (Axis::log(size), Axis::linear(label).from_zero());
    Plot::lines(&title, x, y, table.lines(&["policy"], "size", measure))
}

/// Label of an axis of cache sizes, and the divisor of its numbers.
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
                (written, row.miss_ratio()?),
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

/// Adds plots that explain the miss ratios at one size.
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

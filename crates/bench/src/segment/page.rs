//! The results as a page: the figures of the source, and tables of everything.

use super::cast::Engine;
use super::curve::Needed;
use super::knobs::Study;
use super::tables::{engines, over_baseline, paces, rows_of, title};
use super::{Report, misses, speed};
use ::report::{Axis, Bars, Cell, Line, Page, Plot, Section, Table};

const MIB: f64 = (1 << 20) as f64;

pub(super) fn page(report: &Report) -> Page {
    let mut page = Page::new("The segment engine");
    page.command(&report.command);
    page.fact("machine", &report.machine.line());
    page.fact("versions", &versions(report));
    if let Some(trace) = &report.trace {
        page.fact("trace", &trace.line());
    }
    let section = page.section("What was done");
    section.text(
        "The evaluation of Segcache (J. Yang, Y. Yue, R. Vinayak, NSDI 2021, section 5; chapter 4.3 of J. Yang’s thesis) on this \
         trace: each engine is looked aside at, a read and on a miss a write with the trace’s size and a life from a mix.",
    );
    section.list(
        report
            .left_out
            .iter()
            .map(|line| format!("Left out: {line}."))
            .collect(),
    );
    if !report.misses.is_empty() {
        of_misses(page.section("Misses at equal memory"), report);
        of_relative(page.section("Memory at equal misses"), report);
    }
    if !report.speed.is_empty() {
        of_speed(page.section("CPU time and operations a second"), report);
    }
    if !report.knobs.is_empty() {
        of_knobs(page.section("Parts and knobs"), report);
    }
    page
}

fn versions(report: &Report) -> String {
    let mut all: Vec<String> = Vec::new();
    for engine in engines(report) {
        let of_misses = report.misses.iter().find(|row| row.engine == engine);
        let of_speed = report.speed.iter().find(|row| row.engine == engine);
        let version = of_misses.map(|row| &row.version);
        let version = version.or(of_speed.map(|row| &row.version));
        all.extend(version.map(|version| format!("{} {version}", engine.name())));
    }
    all.join(", ")
}

/// The lives that were replayed or simulated, in their order.
fn lives(report: &Report) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    let of_misses = report.misses.iter().map(|row| row.lives.as_str());
    for lives in of_misses.chain(report.knobs.iter().map(|row| row.lives.as_str())) {
        if !found.contains(&lives) {
            found.push(lives);
        }
    }
    found
}

fn of_misses(section: &mut Section, report: &Report) {
    section.text(&format!(
        "{}. Given is what a server was told; resident what it took at the end, above what it took when empty.",
        paces(report)
    ));
    for lives in lives(report) {
        let line = |memory: fn(&misses::Row) -> f64| {
            move |engine: &Engine| {
                let own = report
                    .misses
                    .iter()
                    .filter(|row| row.lives == lives && row.engine == *engine);
                let points = own.map(|row| (memory(row) / MIB, row.miss_ratio));
                Line::new(engine.name(), points.collect())
            }
        };
        let engines = engines(report);
        section.plot(Plot::lines(
            &format!("Miss ratio by memory given, {lives}"),
            Axis::log("MiB given"),
            Axis::linear("miss ratio"),
            engines
                .iter()
                .map(line(|row| row.memory_bytes as f64))
                .collect(),
        ));
        section.plot(Plot::lines(
            &format!("Miss ratio by resident memory, {lives}"),
            Axis::log("MiB resident"),
            Axis::linear("miss ratio"),
            engines.iter().map(line(|row| row.resident_bytes)).collect(),
        ));
    }
    let mut table = Table::new(&[
        "lives",
        "engine",
        "version",
        "given, MiB",
        "resident, MiB",
        "reads",
        "miss ratio",
        "÷ memcached",
        "overtaken",
        "refused",
        "CPU, µs/op",
        "seconds",
        "late at most, ms",
    ])
    .with_caption("Overtaken: reads that count as hits because what they missed was on its way.");
    for row in &report.misses {
        let counts = row.counts;
        table.row(vec![
            row.lives.as_str().into(),
            row.engine.name().into(),
            row.version.as_str().into(),
            (row.memory_bytes as f64 / MIB).into(),
            (row.resident_bytes / MIB).into(),
            (counts.reads as f64).into(),
            Cell::Shown(row.miss_ratio, format!("{:.4}", row.miss_ratio)),
            over_baseline(report, row).into(),
            (counts.overtaken as f64).into(),
            (counts.refused as f64).into(),
            row.cpu_us_per_operation.into(),
            row.seconds.into(),
            counts.late_ms_max.into(),
        ]);
    }
    section.table(table);
}

fn of_relative(section: &mut Section, report: &Report) {
    let share = |needed: Option<Needed>| match needed {
        Some(needed) => Cell::Shown(needed.memory, needed.text()),
        None => "none of the sizes".into(),
    };
    for lives in lives(report) {
        let rows: Vec<_> = report
            .relative
            .iter()
            .filter(|row| row.lives == lives)
            .collect();
        let mut sizes: Vec<u64> = rows.iter().map(|row| row.memory_bytes).collect();
        sizes.dedup();
        sizes.sort_unstable();
        sizes.dedup();
        let of_engine = |engine: &Engine| {
            let value = |size: &u64| {
                let row = rows
                    .iter()
                    .find(|row| row.engine == *engine && row.memory_bytes == *size)?;
                row.given.map(|needed| needed.memory)
            };
            Bars::new(engine.name(), sizes.iter().map(value).collect())
        };
        let engines = engines(report);
        let others = engines
            .iter()
            .filter(|engine| rows.iter().any(|row| row.engine == **engine));
        let bars: Vec<Bars> = others.map(of_engine).collect();
        let names = sizes
            .iter()
            .map(|size| format!("{} MiB", size >> 20))
            .collect();
        if !bars.is_empty() {
            section.plot(Plot::bars(
                &format!("Memory for memcached’s miss ratio, {lives}"),
                Axis::linear("share of what memcached is given"),
                names,
                bars,
            ));
        }
    }
    let mut table = Table::new(&[
        "lives",
        "engine",
        "memcached is given, MiB",
        "its miss ratio",
        "given ÷",
        "resident ÷",
    ])
    .with_caption(
        "Between two sizes the miss ratio is taken to fall evenly with the logarithm of memory.",
    );
    for row in &report.relative {
        table.row(vec![
            row.lives.as_str().into(),
            row.engine.name().into(),
            (row.memory_bytes as f64 / MIB).into(),
            Cell::Shown(row.miss_ratio, format!("{:.4}", row.miss_ratio)),
            share(row.given),
            share(row.resident),
        ]);
    }
    section.table(table);
}

fn of_speed(section: &mut Section, report: &Report) {
    let rows = &report.speed;
    let is_single = |row: &&speed::Row| row.threads == 1;
    let mut cases: Vec<(speed::Test, usize)> = Vec::new();
    for row in rows.iter().filter(is_single) {
        if !cases.contains(&(row.test, row.pipeline)) {
            cases.push((row.test, row.pipeline));
        }
    }
    let bars = engines(report).into_iter().map(|engine| {
        let value = |case: &(speed::Test, usize)| {
            let mut own = rows.iter().filter(is_single);
            let row = own.find(|row| row.engine == engine && (row.test, row.pipeline) == *case)?;
            Some(row.cpu_us_median)
        };
        Bars::new(engine.name(), cases.iter().map(value).collect())
    });
    if !cases.is_empty() {
        section.plot(Plot::bars(
            "CPU time per operation, one data thread",
            Axis::linear("µs"),
            cases
                .iter()
                .map(|(test, depth)| format!("{test:?}, pipeline {depth}"))
                .collect(),
            bars.collect(),
        ));
    }
    if rows.iter().any(|row| row.threads > 1) {
        of_threads(section, report);
    }
    let mut table = Table::new(&[
        "test",
        "pipeline",
        "threads",
        "engine",
        "version",
        "CPU, µs/op",
        "min",
        "max",
        "÷ memcached",
        "ops/s",
    ])
    .with_caption("Medians of the rounds.");
    for row in rows {
        table.row(vec![
            format!("{:?}", row.test).into(),
            (row.pipeline as f64).into(),
            (row.threads as f64).into(),
            row.engine.name().into(),
            row.version.as_str().into(),
            row.cpu_us_median.into(),
            row.cpu_us_min.into(),
            row.cpu_us_max.into(),
            row.over_memcached.into(),
            row.operations_per_second_median.into(),
        ]);
    }
    section.table(table);
}

/// Operations a second over data threads, in the deepest pipeline.
fn of_threads(section: &mut Section, report: &Report) {
    let deepest = report.speed.iter().map(|row| row.pipeline).max();
    for test in [speed::Test::Get, speed::Test::Set] {
        let line = |engine: Engine| {
            let own = report.speed.iter().filter(|row| {
                row.engine == engine && row.test == test && Some(row.pipeline) == deepest
            });
            let points =
                own.map(|row| (row.threads as f64, row.operations_per_second_median / 1e3));
            Line::new(engine.name(), points.collect())
        };
        section.plot(Plot::lines(
            &format!("Thousand operations a second, {test:?}"),
            Axis::linear("data threads"),
            Axis::linear("thousand a second").from_zero(),
            engines(report).into_iter().map(line).collect(),
        ));
    }
}

fn of_knobs(section: &mut Section, report: &Report) {
    section.text(
        "Simulated in the trace’s own time: nothing is divided, and the engine’s clock counts as it would in \
         production. An object that nobody expires takes room until it is evicted, and is a miss all the same.",
    );
    for lives in lives(report) {
        for study in Study::ALL {
            let rows: Vec<_> = rows_of(report, study)
                .filter(|row| row.lives == lives)
                .collect();
            let mut names: Vec<&str> = Vec::new();
            let mut sizes: Vec<u64> = Vec::new();
            for row in &rows {
                if !names.contains(&row.name.as_str()) {
                    names.push(&row.name);
                }
                if !sizes.contains(&row.memory_bytes) {
                    sizes.push(row.memory_bytes);
                }
            }
            if rows.is_empty() {
                continue;
            }
            let of_size = |size: &u64| {
                let value = |name: &&str| {
                    let row = rows
                        .iter()
                        .find(|row| row.name == *name && row.memory_bytes == *size)?;
                    row.miss_ratio
                };
                let values = names.iter().map(value).collect();
                Bars::new(&format!("{} MiB", size >> 20), values)
            };
            section.plot(Plot::bars(
                &format!("{}, {lives}", title(study)),
                Axis::linear("miss ratio"),
                names.iter().map(|name| name.to_string()).collect(),
                sizes.iter().map(of_size).collect(),
            ));
        }
    }
    let mut table = Table::new(&[
        "study",
        "lives",
        "cache",
        "as the simulator was told",
        "memory, MiB",
        "miss ratio",
        "÷ first",
    ])
    .with_caption("An empty place: no such cache in so little memory.");
    for study in Study::ALL {
        for row in rows_of(report, study) {
            let ratio = |ratio: f64| Cell::Shown(ratio, format!("{ratio:.4}"));
            table.row(vec![
                format!("{study:?}").into(),
                row.lives.as_str().into(),
                row.name.as_str().into(),
                row.cache.as_str().into(),
                (row.memory_bytes as f64 / MIB).into(),
                row.miss_ratio.map_or(Cell::Empty, ratio),
                row.over_first.into(),
            ]);
        }
    }
    section.table(table);
}

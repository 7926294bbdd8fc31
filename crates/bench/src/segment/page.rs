//! The report as a page: the source's figures, and tables of all results.

use super::curve::Needed;
use super::{Report, Round, misses, speed};
use ::report::{Axis, Cell, Column, Page, Plot, Section, Table, distinct};
use units::show::{short, span};

pub(super) fn page(report: &Report) -> Page {
    let mut page = crate::machine::page("The segment engine", &report.command, &report.machine);
    page.fact("versions", &versions(report));
    if let Some(trace) = &report.trace {
        page.fact("trace", &trace.line());
    }
    let section = page.section("Method");
    section.text(
        "The evaluation of Segcache (J. Yang, Y. Yue, R. Vinayak, NSDI 2021, section 5; chapter 4.3 of J. Yang’s thesis) on this \
         trace. Each engine is a look-aside cache: a read, and on a miss a write with the size in the trace and a lifetime from \
         a mix.",
    );
    let left_out = report.left_out.iter();
    section.list(left_out.map(|line| format!("Left out: {line}.")).collect());
    if !report.misses.is_empty() {
        let section = page
            .section("Misses at equal memory")
            .place(&Round::Misses.place());
        of_misses(section, report);
    }
    if !report.relative.is_empty() {
        let section = page
            .section("Memory at equal misses")
            .place(&Round::Misses.place());
        of_relative(section, report);
    }
    if !report.speed.is_empty() {
        let section = page
            .section("CPU time and throughput")
            .place(&Round::Speed.place());
        of_speed(section, report);
    }
    page
}

fn versions(report: &Report) -> String {
    let of_misses = report.misses.iter().map(|row| (row.engine, &row.version));
    let of_speed = report.speed.iter().map(|row| (row.engine, &row.version));
    let all = of_misses.chain(of_speed);
    let all = all.map(|(engine, version)| format!("{} {version}", engine.name()));
    distinct(all).join(", ")
}

/// Describes the factors from trace time to real time.
fn paces(report: &Report) -> String {
    let pace = |replayed: &misses::Replayed| {
        let lifetimes = &replayed.lifetimes;
        let second = |scale: f64| {
            format!(
                "{lifetimes}: a second of the trace takes {}",
                span(scale * 1e3)
            )
        };
        match (replayed.scale, replayed.shortest_seconds) {
            (Some(scale), Some(shortest)) => {
                let shortest = span(shortest * scale * 1e3);
                format!("{}, the shortest lifetime {shortest}", second(scale))
            }
            (Some(scale), None) => second(scale),
            (None, _) => format!("{lifetimes}: nothing expires, as fast as replies come"),
        }
    };
    let paces: Vec<String> = report.replayed.iter().map(pace).collect();
    paces.join("; ")
}

/// Returns the miss ratio divided by the baseline's at the same size.
fn over_baseline(report: &Report, row: &misses::Row) -> Option<f64> {
    let baseline = misses::baseline(&report.misses)?;
    let is_base = |other: &&misses::Row| {
        let is_alike = other.lifetimes == row.lifetimes && other.memory_bytes == row.memory_bytes;
        is_alike && other.engine == baseline
    };
    let base = report.misses.iter().find(is_base)?;
    (base.miss_ratio > 0.0).then(|| row.miss_ratio / base.miss_ratio)
}

fn of_misses(section: &mut Section, report: &Report) {
    section.text(&format!(
        "{}. Given: the limit in the server's configuration. Resident: memory at the end, above that of the empty server.",
        paces(report)
    ));
    let table = Table::of(&report.misses)
        .column(Column::text("lifetimes"), |row| &row.lifetimes)
        .column(Column::text("engine"), |row| row.engine.name())
        .column(Column::text("version"), |row| &row.version)
        .column(Column::mebibytes("given"), |row| row.memory_bytes)
        .column(Column::mebibytes("resident"), |row| row.resident_bytes)
        .column(Column::count("reads").detail(), |row| row.counts.reads)
        .column(Column::decimals("miss ratio", 4), |row| row.miss_ratio)
        .column(Column::number("÷ memcached"), |row| over_baseline(report, row))
        .column(Column::count("overtaken").detail(), |row| row.counts.overtaken)
        .column(Column::count("refused").detail(), |row| row.counts.refused)
        .column(Column::number("CPU").unit("µs/op"), |row| row.cpu_us_per_operation)
        .column(Column::number("seconds").detail(), |row| row.seconds)
        .column(Column::number("late at most").unit("ms").detail(), |row| row.counts.late_ms_max)
        .finish()
        .with_caption("Miss ratios at equal memory. Overtaken: reads that count as hits because the write after an earlier miss was under way.");
    for (lifetimes, part) in table.split(&["lifetimes"]) {
        for memory in ["given", "resident"] {
            section.plot(Plot::lines(
                &format!("Miss ratio by memory {memory}, {lifetimes}"),
                Axis::log(&part.axis_label(memory)),
                Axis::linear("miss ratio"),
                part.lines(&["engine"], memory, "miss ratio"),
            ));
        }
    }
    section.table(table);
}

fn of_relative(section: &mut Section, report: &Report) {
    let needed = |needed: Option<Needed>| match needed {
        Some(needed) => Cell::Shown(needed.memory, needed.text()),
        None => Cell::Empty,
    };
    let table = Table::of(&report.relative)
        .column(Column::text("lifetimes"), |row| &row.lifetimes)
        .column(Column::text("engine"), |row| row.engine.name())
        .column(Column::mebibytes("memcached is given"), |row| row.memory_bytes)
        .column(Column::decimals("its miss ratio", 4), |row| row.miss_ratio)
        .column(Column::number("given ÷").absent("none of the sizes"), |row| needed(row.given))
        .column(Column::number("resident ÷").absent("none of the sizes"), |row| needed(row.resident))
        .finish()
        .with_caption(
            "Memory that each engine needs for memcached's miss ratio, as a share of memcached's. Between two sizes the miss \
             ratio is interpolated on the logarithm of memory.",
        );
    for (lifetimes, part) in table.with_number("given ÷").split(&["lifetimes"]) {
        let title = format!("Memory for memcached’s miss ratio, {lifetimes}");
        section.plot(part.bars(&title, &["memcached is given"], &["engine"], "given ÷"));
    }
    section.table(table);
}

fn of_speed(section: &mut Section, report: &Report) {
    let table = |rows: &mut dyn Iterator<Item = &speed::Row>| {
        let rows: Vec<&speed::Row> = rows.collect();
        Table::of(rows)
            .column(Column::text("test"), |row| {
                format!("{:?}", row.test).to_lowercase()
            })
            .column(Column::text("engine"), |row| row.engine.name())
            .column(Column::text("version"), |row| &row.version)
            .column(Column::count("pipeline"), |row| row.pipeline)
            .column(Column::count("threads"), |row| row.threads)
            .column(Column::number("CPU").unit("µs/op"), |row| {
                row.cpu_us_median
            })
            .column(Column::text("min–max"), |row| {
                format!("{}–{}", short(row.cpu_us_min), short(row.cpu_us_max))
            })
            .column(Column::number("÷ memcached"), |row| row.over_memcached)
            .column(Column::number("kops/s"), |row| {
                row.operations_per_second_median / 1e3
            })
            .finish()
            .with_caption(&format!(
                "CPU time of the server, {} keys of 16 bytes with values of {}, medians",
                report.keys, report.value_size
            ))
    };
    let single = table(&mut report.speed.iter().filter(|row| row.threads == 1));
    if !single.is_empty() {
        let title = "CPU time per operation, one data thread";
        section.plot(single.bars(title, &["test", "pipeline"], &["engine"], "CPU"));
    }
    if report.speed.iter().any(|row| row.threads > 1) {
        let deepest = report.speed.iter().map(|row| row.pipeline).max();
        let deep = table(
            &mut report
                .speed
                .iter()
                .filter(|row| Some(row.pipeline) == deepest),
        );
        for (test, part) in deep.split(&["test"]) {
            section.plot(Plot::lines(
                &format!("Thousand operations a second, {test}"),
                Axis::linear("data threads"),
                Axis::linear("thousand a second").from_zero(),
                part.lines(&["engine"], "threads", "kops/s"),
            ));
        }
    }
    section.table(table(&mut report.speed.iter()));
}

//! The results as tables, for a terminal and for documents.

use super::cast::Engine;
use super::knobs::{self, Study};
use super::misses;
use super::{Report, Round};
use crate::table::{Table, mib, number, span};

/// Tables under their titles, and who was left out.
pub(super) fn text(report: &Report) -> String {
    let tables = Round::ALL.iter().flat_map(|round| of(report, *round));
    let tables = tables.map(|(title, table)| format!("{title}\n\n{table}\n"));
    let lines = report
        .left_out
        .iter()
        .map(|line| format!("left out: {line}\n"));
    tables.chain(lines).collect()
}

/// A round's in Markdown.
pub(super) fn markdown(report: &Report, round: Round) -> String {
    let tables = of(report, round).into_iter();
    tables
        .map(|(title, table)| format!("\n{title}:\n\n{}", table.to_markdown()))
        .collect()
}

/// A round's tables that have rows.
fn of(report: &Report, round: Round) -> Vec<(String, Table)> {
    let trace = report
        .trace
        .as_ref()
        .map_or(String::new(), super::Told::line);
    let tables = match round {
        Round::Misses => vec![
            (format!("Miss ratios at equal memory, {trace}; {}", paces(report)), misses(report)),
            (
                "The memory that each takes to miss as much as memcached, as a share of memcached's".into(),
                relative(report),
            ),
        ],
        Round::Speed => vec![(
            format!(
                "CPU time of the server, {} keys of 16 bytes with values of {}, medians",
                report.keys, report.value_size
            ),
            speed(report),
        )],
        Round::Knobs => {
            let of_study = |study: Study| (format!("{}, {trace}", title(study)), knobs(report, study));
            Study::ALL.into_iter().map(of_study).collect()
        }
    };
    let has_rows = |(_, table): &(String, Table)| !table.is_empty();
    tables.into_iter().filter(has_rows).collect()
}

/// What a study shows.
pub(super) fn title(study: Study) -> &'static str {
    match study {
        Study::Engines => "Engines simulated in the trace's own time",
        Study::Ablation => "The segment engine without some of its parts, simulated",
        Study::Merged => "Segments merged into one, simulated",
        Study::Segment => "Size of a segment, simulated",
    }
}

/// How the replays went through the time of the trace.
pub(super) fn paces(report: &Report) -> String {
    let pace = |replayed: &misses::Replayed| match (replayed.scale, replayed.shortest_seconds) {
        (Some(scale), Some(shortest)) => format!(
            "{}: a second of the trace takes {}, the shortest life {}",
            replayed.lives,
            span(scale * 1e3),
            span(shortest * scale * 1e3)
        ),
        (Some(scale), None) => {
            format!(
                "{}: a second of the trace takes {}",
                replayed.lives,
                span(scale * 1e3)
            )
        }
        (None, _) => format!(
            "{}: nothing expires, as fast as replies come",
            replayed.lives
        ),
    };
    let paces: Vec<String> = report.replayed.iter().map(pace).collect();
    paces.join("; ")
}

/// This row's miss ratio over the baseline's in the same memory.
pub(super) fn over_baseline(report: &Report, row: &misses::Row) -> Option<f64> {
    let baseline = misses::baseline(&report.misses)?;
    let is_beside = |other: &&misses::Row| {
        let is_alike = other.lives == row.lives && other.memory_bytes == row.memory_bytes;
        is_alike && other.engine == baseline
    };
    let base = report.misses.iter().find(is_beside)?;
    (base.miss_ratio > 0.0).then(|| row.miss_ratio / base.miss_ratio)
}

fn misses(report: &Report) -> Table {
    let header = [
        "lives",
        "engine",
        "version",
        "given",
        "resident",
        "miss ratio",
        "÷ memcached",
        "CPU µs/op",
    ];
    let mut table = Table::new(3, &header);
    for row in &report.misses {
        table.row(vec![
            row.lives.clone(),
            row.engine.name().into(),
            row.version.clone(),
            mib(row.memory_bytes as f64),
            mib(row.resident_bytes),
            format!("{:.4}", row.miss_ratio),
            over_baseline(report, row).map_or("–".into(), number),
            number(row.cpu_us_per_operation),
        ]);
    }
    table
}

fn relative(report: &Report) -> Table {
    let header = [
        "lives",
        "engine",
        "memcached is given",
        "its miss ratio",
        "given ÷",
        "resident ÷",
    ];
    let mut table = Table::new(2, &header);
    for row in &report.relative {
        let share = |needed: Option<super::curve::Needed>| {
            needed.map_or("none of the sizes".into(), super::curve::Needed::text)
        };
        table.row(vec![
            row.lives.clone(),
            row.engine.name().into(),
            mib(row.memory_bytes as f64),
            format!("{:.4}", row.miss_ratio),
            share(row.given),
            share(row.resident),
        ]);
    }
    table
}

fn speed(report: &Report) -> Table {
    let header = [
        "test",
        "engine",
        "version",
        "pipeline",
        "threads",
        "CPU µs/op",
        "min–max",
        "÷ memcached",
        "kops/s",
    ];
    let mut table = Table::new(3, &header);
    for row in &report.speed {
        table.row(vec![
            format!("{:?}", row.test).to_lowercase(),
            row.engine.name().into(),
            row.version.clone(),
            row.pipeline.to_string(),
            row.threads.to_string(),
            number(row.cpu_us_median),
            format!("{}–{}", number(row.cpu_us_min), number(row.cpu_us_max)),
            row.over_memcached.map_or("–".into(), number),
            number(row.operations_per_second_median / 1e3),
        ]);
    }
    table
}

fn knobs(report: &Report, study: Study) -> Table {
    let header = ["lives", "cache", "memory", "miss ratio", "÷ first"];
    let mut table = Table::new(2, &header);
    let ratio =
        |ratio: Option<f64>| ratio.map_or("too little memory".into(), |r| format!("{r:.4}"));
    for row in rows_of(report, study) {
        table.row(vec![
            row.lives.clone(),
            row.name.clone(),
            mib(row.memory_bytes as f64),
            ratio(row.miss_ratio),
            row.over_first.map_or("–".into(), number),
        ]);
    }
    table
}

/// The rows of a study.
pub(super) fn rows_of(report: &Report, study: Study) -> impl Iterator<Item = &knobs::Row> {
    report.knobs.iter().filter(move |row| row.study == study)
}

/// Every engine that was replayed, in the order of the report.
pub(super) fn engines(report: &Report) -> Vec<Engine> {
    let mut engines = Vec::new();
    let all = report.misses.iter().map(|row| row.engine);
    for engine in all.chain(report.speed.iter().map(|row| row.engine)) {
        if !engines.contains(&engine) {
            engines.push(engine);
        }
    }
    engines
}

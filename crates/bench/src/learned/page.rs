//! The results as a page: the figures of the source, and tables of everything.

use super::Report;
use super::plan::{BASE, LEARNER, Study};
use super::row::{Row, Taught};
use super::tables::{TRACES_AS_SAMPLE, learners, shares, title};
use super::traces::Told;
use ::report::{Axis, Bars, Boxed, Cell, Cloud, Line, Page, Plot, Section, Table};

/// Series of one plot that can still be told apart.
const SERIES_MAX: usize = 8;

/// Something measured: what its axis says, and its value.
struct Measure {
    title: &'static str,
    axis: &'static str,
    is_log: bool,
    /// Whether it says something of FIFO, too.
    is_whole: bool,
    value: fn(&Row) -> Option<f64>,
}

const GAIN: Measure = Measure {
    title: "Hit ratio over FIFO’s",
    axis: "% over FIFO",
    is_log: false,
    is_whole: false,
    value: |row| row.over_fifo.map(|gain| gain * 100.0),
};
const THROUGHPUT: Measure = Measure {
    title: "Throughput ÷ FIFO’s",
    axis: "÷ FIFO",
    is_log: false,
    is_whole: false,
    value: |row| row.relative_throughput,
};
const HITS: Measure = Measure {
    title: "Hit ratio",
    axis: "hit ratio",
    is_log: false,
    is_whole: true,
    value: |row| row.hit_ratio,
};
const SPEED: Measure = Measure {
    title: "Throughput",
    axis: "million requests a second of CPU time",
    is_log: true,
    is_whole: true,
    value: |row| row.requests_per_second.map(|speed| speed / 1e6),
};

pub(super) fn page(report: &Report) -> Page {
    let mut page = Page::new("Eviction that learns");
    page.command(&report.command);
    page.fact("machine", &report.machine.line());
    let section = page.section("What was done");
    section.text(
        "The evaluation of GL-Cache (J. Yang and others, FAST 2023; chapter 6.3 of J. Yang’s thesis) on these traces, in the \
         simulator: a miss inserts, nothing expires. Sizes are shares of what all objects of a trace take. A model that was \
         trained fewer than three times tells nothing about learning.",
    );
    section.list(report.traces.iter().map(Told::line).collect());
    let line = |line: &String| format!("Left out, for which there is no room or no size: {line}.");
    section.list(report.left_out.iter().map(line).collect());
    if has(report, Study::Ceiling) {
        let section = page.section("What evicting groups costs (figure 6.6)");
        of_caches(section, report, Study::Ceiling, &GAIN);
    }
    if has(report, Study::Baselines) {
        let section = page.section("Hit ratios and throughput (figures 6.8 and 6.9)");
        of_caches(section, report, Study::Baselines, &GAIN);
        of_caches(section, report, Study::Baselines, &THROUGHPUT);
        if learners(report).any(|(_, taught)| taught.trainings > 0) {
            let section = page.section("What was learned (figures 6.10 and 6.11)");
            of_learning(section, report);
        }
    }
    if has(report, Study::Table) {
        let section = page.section("Learning by objects and by groups (table 6.4)");
        of_caches(section, report, Study::Table, &HITS);
        of_caches(section, report, Study::Table, &SPEED);
    }
    if has(report, Study::WarmUp) {
        let section =
            page.section("After one and three sevenths of the trace (figures 6.17 and 6.8)");
        of_caches(section, report, Study::WarmUp, &GAIN);
    }
    if has(report, Study::Features) {
        let section = page.section("What features are worth (figure 6.12)");
        of_caches(section, report, Study::Features, &GAIN);
    }
    if has(report, Study::Engine) {
        let section = page.section("At equal memory, metadata included (figure 6.7)");
        of_caches(section, report, Study::Engine, &HITS);
        of_caches(section, report, Study::Engine, &SPEED);
    }
    if Study::KNOBS.iter().any(|study| has(report, *study)) {
        of_knobs(page.section("Sensitivity (figures 6.13 to 6.15)"), report);
    }
    if has(report, Study::Baselines) {
        of_spectrum(page.section("The spectrum (figure 6.16)"), report);
    }
    all(page.section("All results"), report);
    page
}

fn has(report: &Report, study: Study) -> bool {
    report.of(study).next().is_some()
}

fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for one in all {
        if !distinct.contains(&one) {
            distinct.push(one);
        }
    }
    distinct
}

/// A row's name in a plot of all caches.
fn label(row: &Row) -> String {
    match (&row.value, row.study) {
        (Some(value), Study::WarmUp) => format!("{}, after {value}", row.name),
        _ => row.name.clone(),
    }
}

/// What is measured of each cache: at each size and unit boxes over the traces, or bars.
fn of_caches(section: &mut Section, report: &Report, study: Study, measure: &Measure) {
    for (unit, size) in distinct(report.of(study).map(|row| (row.unit, row.size.as_str()))) {
        let rows = || {
            report
                .of(study)
                .filter(move |row| row.unit == unit && row.size == size)
        };
        // Some traces tell no sizes.
        let traces = distinct(rows().map(|row| row.trace.as_str()));
        let is_base = |row: &Row| row.name == BASE && !measure.is_whole;
        let told = |row: &&Row| !is_base(row) && (measure.value)(row).is_some();
        let names = distinct(rows().filter(told).map(label));
        let title = format!("{}, {size} of the {}", measure.title, unit.name());
        let axis = match measure.is_log {
            true => Axis::log(measure.axis),
            false => Axis::linear(measure.axis),
        };
        if names.is_empty() {
            continue;
        }
        if traces.len() >= TRACES_AS_SAMPLE {
            let boxes = names.iter().filter_map(|name| {
                let own = rows().filter(|row| label(row) == *name);
                Boxed::of_sample(name, &own.filter_map(measure.value).collect::<Vec<_>>())
            });
            section.plot(Plot::boxes(&title, axis, boxes.collect()));
            continue;
        }
        let series = traces.iter().map(|trace| {
            let value = |name: &String| {
                let row = rows().find(|row| row.trace == *trace && label(row) == *name)?;
                (measure.value)(row)
            };
            Bars::new(trace, names.iter().map(value).collect())
        });
        section.plot(Plot::bars(
            &title,
            Axis::linear(measure.axis),
            names.clone(),
            series.collect(),
        ));
    }
}

fn of_learning(section: &mut Section, report: &Report) {
    section.text(
        "Importances are shares of the splits in the last model. Before each training but the first, the model that served so \
         far was asked about the groups that are about to be learned from, which it had not seen: what came of them is told by \
         fifths of what it said, the lowest first. A model that tells nothing has a flat line at one.",
    );
    let boxes = shares(report);
    let boxes = boxes
        .iter()
        .filter_map(|(feature, shares)| Boxed::of_sample(feature, shares));
    section.plot(Plot::boxes(
        &format!("Importance of features over all models of {LEARNER}"),
        Axis::linear("share of the splits"),
        boxes.collect(),
    ));
    let of_groups = || {
        learners(report)
            .filter(|(row, _)| row.name == LEARNER)
            .take(SERIES_MAX)
    };
    let features =
        distinct(of_groups().flat_map(|(_, taught)| taught.importances.iter().map(|one| one.0)));
    let series = of_groups().map(|(row, taught)| {
        let share = |feature: &&str| {
            let found = taught
                .importances
                .iter()
                .find(|(other, _)| other == feature);
            found.map(|(_, share)| f64::from(*share))
        };
        Bars::new(&row.place_line(), features.iter().map(share).collect())
    });
    section.plot(Plot::bars(
        "Importance of features, trace by trace",
        Axis::linear("share of the splits"),
        features.iter().map(|name| name.to_string()).collect(),
        series.collect(),
    ));
    let lines = learners(report)
        .filter(|(_, taught)| !taught.fifths.is_empty())
        .take(SERIES_MAX);
    let lines = lines.map(|(row, taught)| {
        let points = taught.fifths.iter().enumerate();
        let points = points.map(|(part, fifth)| ((part + 1) as f64, fifth.1));
        Line::new(
            &format!("{}, {}", row.name, row.place_line()),
            points.collect(),
        )
    });
    let lines: Vec<Line> = lines.collect();
    if !lines.is_empty() {
        section.plot(Plot::lines(
            "What came, by fifths of what was predicted",
            Axis::linear("fifth, the lowest predictions first"),
            Axis::linear("what came, ÷ mean of all").from_zero(),
            lines,
        ));
    }
    section.plot(processor_time(report));
}

fn processor_time(report: &Report) -> Plot {
    let trained = || learners(report).filter(|(_, taught)| taught.trainings > 0);
    let names = trained().map(|(row, _)| format!("{}, {}", row.name, row.place_line()));
    let share = |value: fn(&Taught) -> f64| {
        trained()
            .map(|(_, taught)| Some(value(taught) * 100.0))
            .collect()
    };
    Plot::bars(
        "CPU time of learning",
        Axis::linear("% of the replay"),
        names.collect(),
        vec![
            Bars::new("training", share(|taught| taught.training_share)),
            Bars::new("inference", share(|taught| taught.inference_share)),
        ],
    )
}

fn of_knobs(section: &mut Section, report: &Report) {
    for study in Study::KNOBS.into_iter().filter(|study| has(report, *study)) {
        let values = distinct(report.of(study).filter_map(|row| row.value.as_deref()));
        let series = |value_of: fn(&Row) -> Option<f64>| {
            let lines = distinct(
                report
                    .of(study)
                    .map(|row| (row.trace.as_str(), row.unit, row.name.as_str())),
            );
            let lines = lines
                .into_iter()
                .take(SERIES_MAX)
                .map(|(trace, unit, name)| {
                    let value = |value: &&str| {
                        let mut own = report.of(study);
                        let is_it = |row: &&Row| {
                            row.trace == trace
                                && row.unit == unit
                                && row.name == name
                                && row.value.as_deref() == Some(*value)
                        };
                        own.find(is_it).and_then(value_of)
                    };
                    Bars::new(
                        &format!("{name}, {trace} by {}", unit.name()),
                        values.iter().map(value).collect(),
                    )
                });
            lines.collect::<Vec<_>>()
        };
        for measure in [&GAIN, &SPEED] {
            let names = values.iter().map(|value| value.to_string()).collect();
            let title = format!("{}: {}", title(study), measure.title);
            section.plot(Plot::bars(
                &title,
                Axis::linear(measure.axis),
                names,
                series(measure.value),
            ));
        }
    }
}

/// Hit ratios and throughput of everybody, trace by trace.
fn of_spectrum(section: &mut Section, report: &Report) {
    let rows = || {
        let studies = [Study::Baselines].into_iter().chain(Study::KNOBS);
        studies
            .flat_map(|study| report.of(study))
            .filter(|row| row.name != "gl-oracle")
    };
    for (trace, unit, size) in
        distinct(rows().map(|row| (row.trace.as_str(), row.unit, row.size.as_str())))
    {
        let own = || {
            rows().filter(move |row| {
                (row.trace.as_str(), row.unit, row.size.as_str()) == (trace, unit, size)
            })
        };
        let cloud = |title: &str, is_learner: bool| {
            let points = own().filter(|row| row.cache.starts_with("gl-cache") == is_learner);
            let points = points.filter_map(|row| {
                Some((
                    (row.requests_per_second? / 1e6, row.hit_ratio?),
                    row.cache.clone(),
                ))
            });
            let (points, labels): (Vec<_>, Vec<_>) = points.unzip();
            Cloud::new(title, points).with_labels(labels)
        };
        section.plot(Plot::scatter(
            &format!("{trace}, {size} of the {}", unit.name()),
            Axis::log(SPEED.axis),
            Axis::linear("hit ratio"),
            vec![cloud("gl-cache", true), cloud("others", false)],
        ));
    }
}

fn all(section: &mut Section, report: &Report) {
    let mut table = Table::new(&[
        "study",
        "trace",
        "by",
        "size",
        "name",
        "as the simulator was told",
        "value",
        "hit ratio",
        "by bytes",
        "over FIFO, %",
        "million/s",
        "÷ FIFO",
        "bytes an entry",
        "trainings",
        "model age",
        "groups evicted",
        "training, %",
        "inference, %",
        "learning bytes an entry",
        "rank correlation",
    ])
    .with_caption("An empty place: no such cache in so little memory, nothing to compare with, or nothing learned.");
    let shown = |value: Option<f64>| {
        value.map_or(Cell::Empty, |value| {
            Cell::Shown(value, format!("{value:.4}"))
        })
    };
    for row in &report.rows {
        let learned = |value: fn(&Taught) -> Option<f64>| -> Cell {
            row.learned.as_ref().and_then(value).into()
        };
        table.row(vec![
            study_name(row.study).into(),
            row.trace.as_str().into(),
            row.unit.name().into(),
            row.size.as_str().into(),
            row.name.as_str().into(),
            row.cache.as_str().into(),
            row.value.as_deref().unwrap_or_default().into(),
            shown(row.hit_ratio),
            shown(row.byte_hit_ratio),
            row.over_fifo.map(|gain| gain * 100.0).into(),
            row.requests_per_second.map(|speed| speed / 1e6).into(),
            row.relative_throughput.into(),
            row.bytes_per_entry.into(),
            learned(|taught| Some(taught.trainings as f64)),
            learned(|taught| taught.model_age.map(|age| age as f64)),
            learned(|taught| Some(taught.groups_evicted as f64)),
            learned(|taught| Some(taught.training_share * 100.0)),
            learned(|taught| Some(taught.inference_share * 100.0)),
            learned(|taught| Some(taught.learning_bytes_per_entry)),
            learned(|taught| taught.rank_correlation),
        ]);
    }
    section.table(table);
}

fn study_name(study: Study) -> &'static str {
    match study {
        Study::Ceiling => "ceiling",
        Study::Baselines => "baselines",
        Study::Table => "table",
        Study::WarmUp => "warm-up",
        Study::Features => "features",
        Study::Engine => "engine",
        knob => knob.knob().unwrap_or_default(),
    }
}

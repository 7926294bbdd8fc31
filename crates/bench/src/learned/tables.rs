//! The results as tables, for a terminal and for documents.

use super::pivot::Pivot;
use super::plan::{BASE, FOLLOWER, LEARNER, Study};
use super::row::{Row, Taught};
use super::{Report, Round};
use crate::table::{Table, median, number};

/// A title and what stands under it.
type Titled = (String, Table);
/// What is measured, and how it is told.
type Measure = (&'static str, fn(&Row) -> Option<String>);

/// Tables under their titles, and who was left out.
pub(super) fn text(report: &Report) -> String {
    let tables = Round::ALL.iter().flat_map(|round| of(report, *round));
    let tables = tables.map(|(title, table)| format!("{title}\n\n{table}\n"));
    tables.chain(left_out(report)).collect()
}

/// A round's in Markdown.
pub(super) fn markdown(report: &Report, round: Round) -> String {
    let traces = report
        .traces
        .iter()
        .map(|told| format!("- {}\n", told.line()));
    let tables = of(report, round).into_iter();
    let tables = tables.map(|(title, table)| format!("\n{title}:\n\n{}", table.to_markdown()));
    std::iter::once("\n".into())
        .chain(traces)
        .chain(tables)
        .collect()
}

fn left_out(report: &Report) -> impl Iterator<Item = String> {
    let lines = report.left_out.iter();
    lines.map(|line| format!("left out, for which there is no room or no size: {line}\n"))
}

/// A round's tables that have rows.
fn of(report: &Report, round: Round) -> Vec<Titled> {
    let tables = match round {
        Round::Ceiling => vec![(
            "Hit ratio over FIFO's: evicting groups and objects, with an oracle and without (figure 6.6)".into(),
            by_cache(report, Study::Ceiling, hits_and_gain),
        )],
        Round::Baselines => baselines(report),
        Round::Table => vec![(
            "Misses, million requests a second of CPU time, trainings (table 6.4)".into(),
            compared(report),
        )],
        Round::WarmUp => vec![(
            "Hit ratio over FIFO's after so much of the trace (figures 6.17 and 6.8)".into(),
            warm_up(report),
        )],
        Round::Features => vec![(
            format!("Hit ratio over FIFO's of {FOLLOWER} whose models see some of the features (figure 6.12)"),
            by_cache(report, Study::Features, hits_and_gain),
        )],
        Round::Engine => vec![
            (
                "Hit ratio at equal memory, metadata included (figure 6.7a)".into(),
                by_cache(report, Study::Engine, |row| row.hit_ratio.map(ratio)),
            ),
            (
                "Million requests a second of CPU time (figure 6.7b)".into(),
                by_cache(report, Study::Engine, speed),
            ),
        ],
        Round::Knobs => Study::KNOBS.map(|study| (title(study), knob(report, study))).into(),
    };
    let has_rows = |(_, table): &Titled| !table.is_empty();
    tables.into_iter().filter(has_rows).collect()
}

fn baselines(report: &Report) -> Vec<Titled> {
    vec![
        (
            "Hit ratio over FIFO's (figure 6.8); of FIFO the hit ratio".into(),
            by_cache(report, Study::Baselines, hits_and_gain),
        ),
        (
            "The same over the traces: median (least to most)".into(),
            over_traces(report),
        ),
        (
            "Throughput ÷ FIFO's (figure 6.9); of FIFO million requests a second of CPU time".into(),
            by_cache(report, Study::Baselines, |row| match row.name == BASE {
                true => speed(row),
                false => row.relative_throughput.map(number),
            }),
        ),
        (
            "Bytes that the algorithm keeps for each entry (table 6.1)".into(),
            by_cache(report, Study::Baselines, |row| row.bytes_per_entry.map(number)),
        ),
        ("What was learned, at which cost".into(), taught(report)),
        (
            "Predicted and realised utility of groups that the model had not seen, by fifths of the predictions, ÷ \
             the mean"
                .into(),
            predictions(report),
        ),
        (
            "Share of the splits in the last model (figure 6.11)".into(),
            importances(report),
        ),
        (
            format!("The same of {LEARNER} over all rows above (figure 6.10)"),
            importance_ranges(report),
        ),
    ]
}

/// Fewer traces than this are told one by one alone.
pub(super) const TRACES_AS_SAMPLE: usize = 3;

/// Least, median and most over the traces, where these are some.
fn over_traces(report: &Report) -> Table {
    let mut pivot = Pivot::new(&["by", "size", "traces"]);
    let rows = || report.of(Study::Baselines).filter(|row| row.name != BASE);
    for row in rows() {
        let is_alike = |other: &&Row| (other.unit, &other.size) == (row.unit, &row.size);
        let own = rows().filter(|other| is_alike(other) && other.name == row.name);
        let mut gains: Vec<f64> = own.filter_map(|other| other.over_fifo).collect();
        gains.sort_by(f64::total_cmp);
        let (Some(least), Some(most)) = (gains.first(), gains.last()) else {
            continue;
        };
        if gains.len() < TRACES_AS_SAMPLE {
            continue;
        }
        let middle = percent(median(&gains));
        let text = format!("{middle} ({} to {})", percent(*least), percent(*most));
        let [_, unit, size] = row.place();
        pivot.put(
            vec![unit, size, gains.len().to_string()],
            &row.name,
            Some(text),
        );
    }
    pivot.table()
}

/// What a knob's table shows.
pub(super) fn title(study: Study) -> String {
    let told = match study {
        Study::Group => "Objects in a group (figure 6.13)",
        Study::Fraction => "Share of the groups that go before they are ranked anew (figure 6.14)",
        Study::Merged => "Groups that are merged (figure 6.15)",
        Study::Interval => "When models are trained",
        Study::Samples => "Groups learned from",
        Study::Trees => "Trees of a model",
        Study::Depth => "Depth of a model's trees",
        _ => "",
    };
    told.into()
}

pub(super) fn ratio(value: f64) -> String {
    format!("{value:.4}")
}

/// A change relative to FIFO, in percent.
pub(super) fn percent(value: f64) -> String {
    format!("{:+.1} %", value * 100.0)
}

/// FIFO's hit ratio, and what others add to it.
fn hits_and_gain(row: &Row) -> Option<String> {
    match row.name == BASE {
        true => row.hit_ratio.map(ratio),
        false => row.over_fifo.map(percent),
    }
}

fn speed(row: &Row) -> Option<String> {
    row.requests_per_second.map(|speed| number(speed / 1e6))
}

fn by_cache(report: &Report, study: Study, cell: fn(&Row) -> Option<String>) -> Table {
    let mut pivot = Pivot::new(&["trace", "by", "size"]);
    for row in report.of(study) {
        pivot.put(row.place().to_vec(), &row.name, cell(row));
    }
    pivot.table()
}

fn warm_up(report: &Report) -> Table {
    let mut pivot = Pivot::new(&["trace", "by", "size", "after"]);
    for row in report.of(Study::WarmUp) {
        let mut key = row.place().to_vec();
        key.extend(row.value.clone());
        pivot.put(key, &row.name, hits_and_gain(row));
    }
    pivot.table()
}

fn knob(report: &Report, study: Study) -> Table {
    let mut pivot = Pivot::new(&["trace", "by", "size", "cache", ""]);
    let measures: [Measure; 3] = [
        ("hit ratio over FIFO's", |row| row.over_fifo.map(percent)),
        ("million requests a second", speed),
        ("trainings", trainings),
    ];
    for row in report.of(study) {
        let value = row.value.as_deref().unwrap_or_default();
        for (label, cell) in measures {
            // The oracle's speed is that of looking into the future, and it is not trained.
            if row.learned.is_none() && label != measures[0].0 {
                continue;
            }
            let mut key = row.place().to_vec();
            key.extend([row.name.clone(), label.to_owned()]);
            pivot.put(key, value, cell(row));
        }
    }
    pivot.table()
}

fn compared(report: &Report) -> Table {
    let mut pivot = Pivot::new(&["trace", "by", "cache"]);
    let measures: [Measure; 3] = [
        ("misses", |row| row.hit_ratio.map(|hits| ratio(1.0 - hits))),
        ("million/s", speed),
        ("trainings", trainings),
    ];
    for (label, cell) in measures {
        for row in report.of(Study::Table) {
            let [trace, unit, size] = row.place();
            let key = vec![trace, unit, row.name.clone()];
            pivot.put(key, &format!("{label} at {size}"), cell(row));
        }
    }
    pivot.table()
}

fn trainings(row: &Row) -> Option<String> {
    Some(row.learned.as_ref()?.trainings.to_string())
}

/// The rows in which something was learned.
pub(super) fn learners(report: &Report) -> impl Iterator<Item = (&Row, &Taught)> {
    let rows = report.of(Study::Baselines);
    rows.filter_map(|row| Some((row, row.learned.as_ref()?)))
}

fn taught(report: &Report) -> Table {
    let header = [
        "trace",
        "by",
        "size",
        "cache",
        "trainings",
        "model age",
        "groups evicted",
        "training",
        "inference",
        "the rest",
        "ms a training",
        "ms an inference",
        "rows an inference",
        "learning bytes an entry",
    ];
    let mut table = Table::new(4, &header);
    for (row, taught) in learners(report) {
        let share = |share: f64| format!("{:.1} %", share * 100.0);
        let [trace, unit, size] = row.place();
        let rows = taught.inference_rows as f64 / taught.inferences.max(1) as f64;
        let dash = || "–".to_owned();
        table.row(vec![
            trace,
            unit,
            size,
            row.name.clone(),
            match taught.is_trained {
                true => taught.trainings.to_string(),
                false => format!("{} (untrained)", taught.trainings),
            },
            taught.model_age.map_or_else(dash, |age| age.to_string()),
            taught.groups_evicted.to_string(),
            share(taught.training_share),
            share(taught.inference_share),
            share((1.0 - taught.training_share - taught.inference_share).max(0.0)),
            taught.training_ms.map_or_else(dash, number),
            taught.inference_ms.map_or_else(dash, number),
            format!("{rows:.0}"),
            number(taught.learning_bytes_per_entry),
        ]);
    }
    table
}

fn predictions(report: &Report) -> Table {
    let mut pivot = Pivot::new(&["trace", "by", "size", "cache", ""]);
    for (row, taught) in learners(report).filter(|(_, taught)| !taught.fifths.is_empty()) {
        let mut key = row.place().to_vec();
        key.push(row.name.clone());
        let [predicted, realised] = ["predicted", "realised"].map(|label| {
            let mut key = key.clone();
            key.push(label.into());
            key
        });
        for (part, fifth) in taught.fifths.iter().enumerate() {
            let column = ["lowest", "2nd", "3rd", "4th", "highest"][part.min(4)];
            pivot.put(predicted.clone(), column, Some(number(fifth.0)));
            pivot.put(realised.clone(), column, Some(number(fifth.1)));
        }
        let correlation = taught.rank_correlation.map(number);
        pivot.put(realised, "rank correlation", correlation);
    }
    pivot.table()
}

/// Groups are told by their own features; LRB's are others, and many.
fn has_group_features(row: &Row) -> bool {
    row.name.starts_with("gl-cache")
}

fn importances(report: &Report) -> Table {
    let mut pivot = Pivot::new(&["trace", "by", "size", "cache"]);
    for (row, taught) in learners(report).filter(|(row, _)| has_group_features(row)) {
        let mut key = row.place().to_vec();
        key.push(row.name.clone());
        for (feature, share) in &taught.importances {
            pivot.put(key.clone(), feature, Some(format!("{share:.2}")));
        }
    }
    pivot.table()
}

/// Shares of a feature in all models of the learner, in the order of a row.
pub(super) fn shares(report: &Report) -> Vec<(&'static str, Vec<f64>)> {
    let mut all: Vec<(&'static str, Vec<f64>)> = Vec::new();
    for (_, taught) in learners(report).filter(|(row, _)| row.name == LEARNER) {
        for &(feature, share) in &taught.importances {
            match all.iter_mut().find(|(other, _)| *other == feature) {
                Some((_, shares)) => shares.push(share.into()),
                None => all.push((feature, vec![share.into()])),
            }
        }
    }
    all
}

fn importance_ranges(report: &Report) -> Table {
    let mut table = Table::new(1, &["feature", "least", "median", "most"]);
    for (feature, shares) in shares(report) {
        let ends = shares
            .iter()
            .fold((f64::INFINITY, 0.0f64), |(low, high), share| {
                (low.min(*share), high.max(*share))
            });
        let texts = [ends.0, median(&shares), ends.1].map(|share| format!("{share:.2}"));
        table.row(std::iter::once(feature.to_owned()).chain(texts).collect());
    }
    table
}

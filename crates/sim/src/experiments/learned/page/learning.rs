//! Tables and plots of what the policies have learned.

use super::super::plan::LEARNER;
use super::super::row::{Learning, Row};
use super::{SERIES_MAX, key, place_line, spread};
use report::{Axis, Bars, Boxed, Cell, Column, Line, Plot, Section, Table, distinct, median};

pub(super) fn learning_table(learners: &[(&Row, &Learning)]) -> Table {
    Table::of(learners)
        .column(Column::text("trace"), |(row, _)| &row.trace)
        .column(Column::text("by"), |(row, _)| row.unit.name())
        .column(Column::text("size"), |(row, _)| &row.size)
        .column(Column::text("policy"), |(row, _)| &row.name)
        .column(Column::count("trainings"), |(_, learned)| {
            match learned.is_trained {
                true => learned.trainings.into(),
                false => {
                    let text = format!("{} (untrained)", learned.trainings);
                    Cell::Shown(learned.trainings as f64, text)
                }
            }
        })
        .column(Column::count("model age"), |(_, learned)| learned.model_age)
        .column(Column::count("groups evicted"), |(_, learned)| {
            learned.groups_evicted
        })
        .column(Column::percent("training"), |(_, learned)| {
            learned.training_share
        })
        .column(Column::percent("inference"), |(_, learned)| {
            learned.inference_share
        })
        .column(Column::percent("the rest"), |(_, learned)| {
            (1.0 - learned.training_share - learned.inference_share).max(0.0)
        })
        .column(Column::number("ms a training"), |(_, learned)| {
            learned.training_ms
        })
        .column(Column::number("ms an inference"), |(_, learned)| {
            learned.inference_ms
        })
        .column(Column::decimals("rows an inference", 0), |(_, learned)| {
            learned.inference_rows as f64 / learned.inferences.max(1) as f64
        })
        .column(Column::number("learning bytes an entry"), |(_, learned)| {
            learned.learning_bytes_per_entry
        })
        .finish()
        .with_caption("Training and predictions, and their share of the CPU time")
}

pub(super) fn predictions(learners: &[(&Row, &Learning)]) -> Table {
    let mut entries = Vec::new();
    for (row, learned) in learners
        .iter()
        .filter(|(_, learned)| !learned.fifths.is_empty())
    {
        let [predicted, realised] =
            ["predicted", "realised"].map(|label| key(row, &[&row.name, label]));
        for (part, fifth) in learned.fifths.iter().enumerate() {
            let column = ["lowest", "2nd", "3rd", "4th", "highest"][part.min(4)];
            entries.push((predicted.clone(), column.into(), fifth.0.into()));
            entries.push((realised.clone(), column.into(), fifth.1.into()));
        }
        entries.push((
            realised,
            "rank correlation".into(),
            learned.rank_correlation.into(),
        ));
    }
    let keys = ["trace", "by", "size", "policy", "utility"];
    spread(&keys, Column::number("x"), entries).with_caption(
        "Predicted and realised utility of groups that the model had not seen, by fifths of the predictions, ÷ the mean",
    )
}

pub(super) fn importances(learners: &[(&Row, &Learning)]) -> Table {
    // Only features of groups are shown. LRB has different ones, and many.
    let of_groups = learners
        .iter()
        .filter(|(row, _)| row.name.starts_with("gl-cache"));
    let entries = of_groups.flat_map(|(row, learned)| {
        let shares = learned.importances.iter();
        shares.map(|(feature, share)| {
            (
                key(row, &[&row.name]),
                (*feature).to_owned(),
                (*share).into(),
            )
        })
    });
    let keys = ["trace", "by", "size", "policy"];
    spread(&keys, Column::decimals("x", 2), entries.collect())
        .with_caption("Share of the splits in the last model (figure 6.11)")
}

/// Returns the share of each feature in each model of [`LEARNER`].
fn shares(learners: &[(&Row, &Learning)]) -> Vec<(&'static str, Vec<f64>)> {
    let own = learners.iter().filter(|(row, _)| row.name == LEARNER);
    let all = own.flat_map(|(_, learned)| &learned.importances);
    let all: Vec<(&str, f64)> = all
        .map(|(feature, share)| (*feature, f64::from(*share)))
        .collect();
    let of = |feature: &'static str| {
        let own = all.iter().filter(|(other, _)| *other == feature);
        (feature, own.map(|(_, share)| *share).collect())
    };
    distinct(all.iter().map(|(feature, _)| *feature))
        .into_iter()
        .map(of)
        .collect()
}

pub(super) fn importance_ranges(learners: &[(&Row, &Learning)]) -> Table {
    let ends = |values: &[f64], choose: fn(f64, f64) -> f64| values.iter().copied().reduce(choose);
    let shares = shares(learners);
    Table::of(&shares)
        .column(Column::text("feature"), |(feature, _)| *feature)
        .column(Column::decimals("least", 2), |(_, shares)| {
            ends(shares, f64::min)
        })
        .column(Column::decimals("median", 2), |(_, shares)| median(shares))
        .column(Column::decimals("most", 2), |(_, shares)| {
            ends(shares, f64::max)
        })
        .finish()
        .with_caption(&format!(
            "The same of {LEARNER} over all rows above (figure 6.10)"
        ))
}

pub(super) fn plot_learning(section: &mut Section, learners: &[(&Row, &Learning)]) {
    let boxes = shares(learners);
    let boxes = boxes
        .iter()
        .filter_map(|(feature, shares)| Boxed::of_sample(feature, shares));
    section.plot(Plot::boxes(
        &format!("Importance of features over all models of {LEARNER}"),
        Axis::linear("share of the splits"),
        boxes.collect(),
    ));
    let of_groups = || {
        learners
            .iter()
            .filter(|(row, _)| row.name == LEARNER)
            .take(SERIES_MAX)
    };
    let features =
        distinct(of_groups().flat_map(|(_, learned)| learned.importances.iter().map(|one| one.0)));
    let series = of_groups().map(|(row, learned)| {
        let share = |feature: &&str| {
            let mut own = learned.importances.iter();
            own.find(|(other, _)| other == feature)
                .map(|(_, share)| f64::from(*share))
        };
        Bars::new(&place_line(row), features.iter().map(share).collect())
    });
    section.plot(Plot::bars(
        "Importance of features, trace by trace",
        Axis::linear("share of the splits"),
        features.iter().map(ToString::to_string).collect(),
        series.collect(),
    ));
    let lines = learners
        .iter()
        .filter(|(_, learned)| !learned.fifths.is_empty());
    let lines = lines.take(SERIES_MAX).map(|(row, learned)| {
        let points = learned.fifths.iter().enumerate();
        let points = points.map(|(part, fifth)| ((part + 1) as f64, fifth.1));
        Line::new(
            &format!("{}, {}", row.name, place_line(row)),
            points.collect(),
        )
    });
    let lines: Vec<Line> = lines.collect();
    if !lines.is_empty() {
        section.plot(Plot::lines(
            "Outcomes, by fifths of the predictions",
            Axis::linear("fifth, the lowest predictions first"),
            Axis::linear("outcome, ÷ mean of all").from_zero(),
            lines,
        ));
    }
    let trained = || learners.iter().filter(|(_, learned)| learned.trainings > 0);
    let share = |value: fn(&Learning) -> f64| {
        trained()
            .map(|(_, learned)| Some(value(learned) * 100.0))
            .collect()
    };
    section.plot(Plot::bars(
        "CPU time of learning",
        Axis::linear("% of the replay"),
        trained()
            .map(|(row, _)| format!("{}, {}", row.name, place_line(row)))
            .collect(),
        vec![
            Bars::new("training", share(|learned| learned.training_share)),
            Bars::new("inference", share(|learned| learned.inference_share)),
        ],
    ));
}

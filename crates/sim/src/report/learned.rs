//! Plots of what policies learned: the importance of features, and predictions compared with
//! targets.

use super::{LINES_MAX, Row};
use crate::Learned;
use ::report::{Axis, Bars, Line, Plot, Section, distinct};

/// Returns the replays with enough trainings and their names, at most as many as a plot can show.
fn trained<'a>(rows: &[&'a Row]) -> Vec<(String, &'a Learned)> {
    let trained = rows.iter().filter_map(|row| {
        let learned = row.found.learned.as_deref()?;
        let name = format!("{} {}", row.policy, row.size);
        (learned.learning_stats.trainings > 0).then_some((name, learned))
    });
    trained.take(LINES_MAX).collect()
}

/// Adds the plots of one trace, if a policy learned.
pub(super) fn section(section: &mut Section, rows: &[&Row]) {
    let trained = trained(rows);
    if trained.is_empty() {
        return;
    }
    section.plot(importances(&trained));
    if trained
        .iter()
        .any(|(_, learned)| !learned.held_out.is_empty())
    {
        section.plot(fifths(&trained)).plot(correlations(&trained));
    }
}

fn importances(trained: &[(String, &Learned)]) -> Plot {
    let of_row = |learned: &'_ Learned| learned.learning_stats.importances.clone();
    let names = distinct(
        trained
            .iter()
            .flat_map(|(_, learned)| of_row(learned).into_iter().map(|(feature, _)| feature)),
    );
    let series = trained.iter().map(|(name, learned)| {
        let shares = of_row(learned);
        let share = |feature: &&str| {
            let mut own = shares.iter();
            let found = own.find(|(other, _)| other == feature);
            found.map(|(_, share)| f64::from(*share))
        };
        Bars::new(name, names.iter().map(share).collect())
    });
    Plot::bars(
        "Importance of each feature in the last model",
        Axis::linear("share of the splits"),
        names.iter().map(|name| name.to_string()).collect(),
        series.collect(),
    )
}

/// Plots the mean targets of groups or objects, in fifths by prediction.
fn fifths(trained: &[(String, &Learned)]) -> Plot {
    let lines = trained.iter().filter_map(|(name, learned)| {
        let fifths = learned.fifths()?;
        let points = fifths.iter().enumerate();
        let points = points.map(|(part, (_, realised))| ((part + 1) as f64, *realised));
        Some(Line::new(name, points.collect()))
    });
    Plot::lines(
        "Targets by fifths of the predictions",
        Axis::linear("fifth, lowest predictions first"),
        Axis::linear("target ÷ mean target").from_zero(),
        lines.collect(),
    )
}

fn correlations(trained: &[(String, &Learned)]) -> Plot {
    let lines = trained.iter().map(|(name, learned)| {
        let points = learned.held_out.iter().enumerate();
        let points =
            points.filter_map(|(n, held_out)| Some(((n + 2) as f64, held_out.correlation?)));
        Line::new(name, points.collect())
    });
    Plot::lines(
        "Rank correlation of predictions and targets",
        Axis::linear("training"),
        Axis::linear("rank correlation").from_zero(),
        lines.collect(),
    )
}

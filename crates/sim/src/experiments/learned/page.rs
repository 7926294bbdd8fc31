//! The report as a page: the figures of the source, and tables of everything.

mod learning;

use super::plan::{BASE, FOLLOWER, KNOBS};
use super::row::{Learning, Row, Study};
use super::{Report, Round};
use learning::{importance_ranges, importances, learning_table, plot_learning, predictions};
use report::{Axis, Cell, Cloud, Column, Page, Plot, Section, Table, distinct, median};
use units::show::change;

/// Maximum number of series that can be distinguished in one plot.
const SERIES_MAX: usize = 8;
/// Minimum number of traces for plots of a distribution over traces.
const TRACES_AS_SAMPLE: usize = 3;
/// Columns that together with the policy identify a replay.
const PLACE: [&str; 3] = ["trace", "by", "size"];

impl Report {
    /// The page. Sections have places `learned ROUND` in documents.
    pub fn page(&self) -> Page {
        let mut page = Page::new("Learned eviction");
        let section = page.section("Method");
        section.text(
            "The evaluation of GL-Cache (J. Yang and others, FAST 2023; chapter 6.3 of J. Yang’s thesis) on these traces, in \
             the simulator: a miss inserts, nothing expires. Sizes are shares of all objects of a trace. A model that was \
             trained fewer than three times says nothing about learning.",
        );
        section.list(self.traces.iter().map(ToString::to_string).collect());
        let line = |line: &String| {
            format!("Left out, because the cache is too small or the trace has no sizes: {line}.")
        };
        section.list(self.left_out.iter().map(line).collect());
        let all = self.table();
        let mut sections = Sections {
            page: &mut page,
            report: self,
            all: &all,
        };
        sections.ceiling();
        sections.baselines();
        sections.learning_stats();
        sections.compared();
        sections.warm_up();
        sections.features();
        sections.engine();
        sections.knobs();
        sections.spectrum();
        page.section("All results").table(all);
        page
    }

    /// All rows.
    fn table(&self) -> Table {
        fn learning<C: Into<Cell>>(value: fn(&Learning) -> C) -> impl Fn(&Row) -> Cell {
            move |row| row.learned.as_ref().map(value).into()
        }
        let label = |row: &Row| match (&row.value, row.study) {
            (Some(value), Study::Round(Round::WarmUp)) => format!("{}, after {value}", row.name),
            _ => row.name.clone(),
        };
        Table::of(&self.rows)
            .column(Column::text("study").detail(), |row| row.study.name())
            .column(Column::text("trace"), |row| &row.trace)
            .column(Column::text("by"), |row| row.unit.name())
            .column(Column::text("size"), |row| &row.size)
            .column(Column::text("name"), |row| &row.name)
            .column(Column::text("label").data(), label)
            .column(Column::text("policy").detail(), |row| &row.cache)
            .column(Column::text("value"), |row| row.value.as_deref().unwrap_or_default())
            .column(Column::decimals("hit ratio", 4), |row| row.hit_ratio)
            .column(Column::decimals("by bytes", 4).detail(), |row| row.byte_hit_ratio)
            .column(Column::change("over FIFO"), |row| row.over_fifo)
            .column(Column::number("million/s"), million_per_second)
            .column(Column::number("÷ FIFO"), |row| row.relative_throughput)
            .column(Column::number("bytes an entry"), |row| row.bytes_per_entry)
            .column(Column::count("trainings"), learning(|learned| learned.trainings))
            .column(Column::count("model age").detail(), learning(|learned| learned.model_age))
            .column(Column::count("groups evicted").detail(), learning(|learned| learned.groups_evicted))
            .column(Column::percent("training").detail(), learning(|learned| learned.training_share))
            .column(Column::percent("inference").detail(), learning(|learned| learned.inference_share))
            .column(
                Column::number("learning bytes an entry").detail(),
                learning(|learned| learned.learning_bytes_per_entry),
            )
            .column(
                Column::number("rank correlation").detail(),
                learning(|learned| learned.rank_correlation),
            )
            .column(Column::change("hits and gain").data(), hits_and_gain)
            .column(Column::number("relative speed").data(), relative_speed)
            .finish()
            .with_caption(
                "All results. An empty cell: the cache is too small, or there is nothing to compare with, or the policy does \
                 not learn.",
            )
    }
}

fn million_per_second(row: &Row) -> Option<f64> {
    row.requests_per_second.map(|speed| speed / 1e6)
}

/// Formats FIFO's hit ratio; for other policies, its relative change.
fn hits_and_gain(row: &Row) -> Cell {
    match (row.name == BASE, row.hit_ratio) {
        (true, Some(ratio)) => Cell::Shown(ratio, format!("{ratio:.4}")),
        _ => row.over_fifo.into(),
    }
}

/// Formats FIFO's throughput in million requests a second; for other policies, the throughput
/// relative to it.
fn relative_speed(row: &Row) -> Option<f64> {
    match row.name == BASE {
        true => million_per_second(row),
        false => row.relative_throughput,
    }
}

/// Returns a table with a row for each first part of the entries and a column for each text of the
/// second part.
fn spread(keys: &[&str], column: Column, entries: Vec<(Vec<String>, String, Cell)>) -> Table {
    let mut columns: Vec<Column> = keys.iter().map(|key| Column::text(key)).collect();
    let value = column.name().to_owned();
    columns.extend([Column::text("across"), column]);
    let mut table = Table::with_columns(columns);
    for (key, across, cell) in entries {
        let key = key.into_iter().map(Cell::Text);
        table.row(key.chain([across.into(), cell]).collect());
    }
    table.pivot(keys, "across", &value)
}

fn key(row: &Row, more: &[&str]) -> Vec<String> {
    let place = [row.trace.as_str(), row.unit.name(), &row.size];
    place.iter().chain(more).map(ToString::to_string).collect()
}

fn place_line(row: &Row) -> String {
    format!("{} by {}, {}", row.trace, row.unit.name(), row.size)
}

/// The page that is being built.
struct Sections<'a> {
    page: &'a mut Page,
    report: &'a Report,
    /// All rows.
    all: &'a Table,
}

impl<'a> Sections<'a> {
    /// The section of a round, if the round has rows.
    fn section(&mut self, round: Round, heading: &str) -> Option<(&mut Section, Table)> {
        let own = self.all.only("study", Study::Round(round).name());
        let place = format!("learned {}", Study::Round(round).name());
        match own.is_empty() {
            true => None,
            false => Some((self.page.section(heading).place(&place), own)),
        }
    }

    fn learners(&self) -> Vec<(&'a Row, &'a Learning)> {
        let rows = self.report.of(Study::Round(Round::Baselines));
        rows.filter_map(|row| Some((row, row.learned.as_ref()?)))
            .collect()
    }

    fn ceiling(&mut self) {
        let heading = "Cost of evicting groups (figure 6.6)";
        if let Some((section, own)) = self.section(Round::Ceiling, heading) {
            plot_gain(section, &own);
            section.table(by_name(
                &own,
                "hits and gain",
                "Hit ratio over FIFO's: evicting groups and objects, with an oracle and without (figure 6.6)",
            ));
        }
    }

    fn baselines(&mut self) {
        let heading = "Hit ratios and throughput (figures 6.8 and 6.9)";
        let Some((section, own)) = self.section(Round::Baselines, heading) else {
            return;
        };
        plot_gain(section, &own);
        plot_by_size(
            section,
            &own.without("name", BASE),
            "Throughput ÷ FIFO’s",
            "÷ FIFO",
        );
        let caption = "Hit ratio over FIFO's (figure 6.8); for FIFO the hit ratio";
        section.table(by_name(&own, "hits and gain", caption));
        section.table(over_traces(&own));
        section.table(by_name(
            &own,
            "relative speed",
            "Throughput ÷ FIFO's (figure 6.9); for FIFO million requests per second of CPU time",
        ));
        let caption = "Bytes of metadata per entry (table 6.1)";
        section.table(by_name(&own, "bytes an entry", caption));
    }

    fn learning_stats(&mut self) {
        let learners = self.learners();
        if learners.is_empty() {
            return;
        }
        let heading = "Training and predictions (figures 6.10 and 6.11)";
        let section = self.page.section(heading).place("learned baselines");
        section.text(
            "Importances are shares of the splits in the last model. Before each training but the first, the previous model \
             predicts the utility of the groups of the new training data, which it has not seen. The outcomes are shown by \
             fifths of the predictions, the lowest first. A model without predictive power has a flat line at one.",
        );
        if learners.iter().any(|(_, learned)| learned.trainings > 0) {
            plot_learning(section, &learners);
        }
        section.table(learning_table(&learners));
        section.table(predictions(&learners));
        section.table(importances(&learners));
        section.table(importance_ranges(&learners));
    }

    fn compared(&mut self) {
        let rows: Vec<&Row> = self.report.of(Study::Round(Round::Table)).collect();
        let heading = "Learning by objects and by groups (table 6.4)";
        let Some((section, own)) = self.section(Round::Table, heading) else {
            return;
        };
        plot_by_size(section, &own, "Hit ratio", "hit ratio");
        plot_by_size(section, &own, "Throughput", "million/s");
        type Measure = (&'static str, fn(&Row) -> Cell);
        let measures: [Measure; 3] = [
            ("misses", |row| {
                decimals(row.hit_ratio.map(|hits| 1.0 - hits))
            }),
            ("million/s", |row| million_per_second(row).into()),
            ("trainings", trainings),
        ];
        let entries = measures.iter().flat_map(|(label, cell)| {
            rows.iter().map(move |row| {
                let key = vec![row.trace.clone(), row.unit.name().into(), row.name.clone()];
                (key, format!("{label} at {}", row.size), cell(row))
            })
        });
        let table = spread(
            &["trace", "by", "policy"],
            Column::number("x"),
            entries.collect(),
        );
        section.table(table.with_caption(
            "Miss ratios, million requests per second of CPU time, trainings (table 6.4)",
        ));
    }

    fn warm_up(&mut self) {
        let heading = "After one and three sevenths of the trace (figures 6.17 and 6.8)";
        if let Some((section, own)) = self.section(Round::WarmUp, heading) {
            plot_gain(section, &own);
            let keys = ["trace", "by", "size", "value"];
            let caption =
                "Hit ratio over FIFO's after this part of the trace (figures 6.17 and 6.8)";
            let table = own.pivot(&keys, "name", "hits and gain");
            section.table(table.with_caption(caption));
        }
    }

    fn features(&mut self) {
        let heading = "Worth of the features (figure 6.12)";
        if let Some((section, own)) = self.section(Round::Features, heading) {
            plot_gain(section, &own);
            let caption = format!(
                "Hit ratio over FIFO's of {FOLLOWER} whose models see some of the features (figure 6.12)"
            );
            section.table(by_name(&own, "hits and gain", &caption));
        }
    }

    fn engine(&mut self) {
        let heading = "At equal memory, metadata included (figure 6.7)";
        if let Some((section, own)) = self.section(Round::Engine, heading) {
            plot_by_size(section, &own, "Hit ratio", "hit ratio");
            plot_by_size(section, &own, "Throughput", "million/s");
            let caption = "Hit ratio at equal memory, metadata included (figure 6.7a)";
            section.table(by_name(&own, "hit ratio", caption));
            let caption = "Million requests per second of CPU time (figure 6.7b)";
            section.table(by_name(&own, "million/s", caption));
        }
    }

    fn knobs(&mut self) {
        let has_rows =
            |(knob, _): &&(&'static str, _)| self.report.of(Study::Knob(knob)).next().is_some();
        let studies: Vec<_> = KNOBS.iter().filter(has_rows).collect();
        if studies.is_empty() {
            return;
        }
        let heading = "Sensitivity (figures 6.13 to 6.15)";
        let section = self.page.section(heading).place("learned knobs");
        for (knob, title) in studies {
            let own = self.all.only("study", knob);
            let series = ["name", "trace", "by"];
            let shown = own.first_parts(&series, SERIES_MAX);
            for (measure, column) in [
                ("Hit ratio over FIFO’s", "over FIFO"),
                ("Throughput", "million/s"),
            ] {
                let title = format!("{title}: {measure}");
                section.plot(shown.bars(&title, &["value"], &series, column));
            }
            let rows = self.report.of(Study::Knob(knob));
            let entries = rows.flat_map(knob_entries).collect();
            let keys = ["trace", "by", "size", "policy", "measure"];
            let table = spread(&keys, Column::number("x"), entries);
            section.table(table.with_caption(title));
        }
    }

    /// Adds the hit ratios and the throughput of all policies, trace by trace.
    fn spectrum(&mut self) {
        let studies = std::iter::once(Study::Round(Round::Baselines));
        let studies = studies.chain(KNOBS.map(|(knob, _)| Study::Knob(knob)));
        let rows = studies.flat_map(|study| self.report.of(study));
        let rows: Vec<&Row> = rows.filter(|row| row.name != "gl-oracle").collect();
        if self
            .report
            .of(Study::Round(Round::Baselines))
            .next()
            .is_none()
        {
            return;
        }
        let section = self.page.section("The spectrum (figure 6.16)");
        let identity = |row: &&Row| (row.trace.clone(), row.unit, row.size.clone());
        for place in distinct(rows.iter().map(identity)) {
            let cloud = |title: &str, is_learner: bool| {
                let own = rows.iter().filter(|row| identity(row) == place);
                let own = own.filter(|row| row.cache.starts_with("gl-cache") == is_learner);
                let points = own.filter_map(|row| {
                    let point = (million_per_second(row)?, row.hit_ratio?);
                    Some((point, row.cache.clone()))
                });
                let (points, labels): (Vec<_>, Vec<_>) = points.unzip();
                Cloud::new(title, points).with_labels(labels)
            };
            let (trace, unit, size) = &place;
            section.plot(Plot::scatter(
                &format!("{trace}, {size} of the {}", unit.name()),
                Axis::log("million requests per second of CPU time"),
                Axis::linear("hit ratio"),
                vec![cloud("gl-cache", true), cloud("others", false)],
            ));
        }
    }
}

/// Plots the change of the hit ratio relative to FIFO's.
fn plot_gain(section: &mut Section, own: &Table) {
    let others = own.without("name", BASE);
    plot_by_size(section, &others, "Hit ratio over FIFO’s", "over FIFO");
}

/// Plots a measure of all policies for each size and unit: boxes over the traces, or bars.
fn plot_by_size(section: &mut Section, own: &Table, title: &str, measure: &str) {
    for (size, part) in own.with_number(measure).split(&["size", "by"]) {
        let title = format!("{title}, {size}");
        section.plot(match part.split(&["trace"]).len() >= TRACES_AS_SAMPLE {
            true => part.boxes(&title, &["label"], measure),
            false => part.bars(&title, &["label"], &["trace"], measure),
        });
    }
}

/// A table with a column for each policy.
fn by_name(own: &Table, value: &str, caption: &str) -> Table {
    own.pivot(&PLACE, "name", value).with_caption(caption)
}

/// Returns a table of the median, minimum and maximum of the change relative to FIFO's hit ratio,
/// if there are enough traces.
fn over_traces(own: &Table) -> Table {
    let mut entries = Vec::new();
    for (_, part) in own
        .without("name", BASE)
        .with_number("over FIFO")
        .split(&["by", "size", "name"])
    {
        let mut gains = part.numbers("over FIFO");
        gains.sort_by(f64::total_cmp);
        let (Some(least), Some(most)) = (gains.first(), gains.last()) else {
            continue;
        };
        if gains.len() >= TRACES_AS_SAMPLE {
            let middle = median(&gains);
            let text = format!(
                "{} ({} to {})",
                change(middle),
                change(*least),
                change(*most)
            );
            let [by, size, name] = ["by", "size", "name"].map(|column| part.text_of(0, column));
            let key = vec![by, size, gains.len().to_string()];
            entries.push((key, name, Cell::Shown(middle, text)));
        }
    }
    let table = spread(&["by", "size", "traces"], Column::change("x"), entries);
    table.with_caption("The same over the traces: median (least to most)")
}

fn decimals(value: Option<f64>) -> Cell {
    value
        .map(|value| Cell::Shown(value, format!("{value:.4}")))
        .into()
}

fn trainings(row: &Row) -> Cell {
    row.learned.as_ref().map(|learned| learned.trainings).into()
}

/// Returns the cells of a row in the table of a knob. The oracle has no meaningful speed and no
/// trainings.
fn knob_entries(row: &Row) -> Vec<(Vec<String>, String, Cell)> {
    let gain = row.over_fifo.map(|gain| Cell::Shown(gain, change(gain)));
    let mut measures = vec![("hit ratio over FIFO's", gain.into())];
    if row.learned.is_some() {
        let speed = million_per_second(row).into();
        measures.extend([
            ("million requests per second", speed),
            ("trainings", trainings(row)),
        ]);
    }
    let value = row.value.clone().unwrap_or_default();
    let entry = |(label, cell)| (key(row, &[&row.name, label]), value.clone(), cell);
    measures.into_iter().map(entry).collect()
}

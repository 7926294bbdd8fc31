//! Curves as a page: lines with error bands, savings against LRU, and a table of all points.

use super::{Curve, Point};
use crate::Unit;
use crate::report::size_axis;
use ::report::{Axis, Cell, Column, Line, Page, Plot, Section, Table};
use serde::Serialize;
use units::show::{bytes, count};

/// Maximum number of lines of a plot with bands, which hide each other.
const BANDS_MAX: usize = 2;

/// A curve with its policy.
#[derive(Clone, Debug, Serialize)]
pub struct Named {
    /// Name of the policy as given.
    pub policy: String,
    /// Whether the trace's TTLs were applied. Otherwise nothing expires.
    pub has_ttls: bool,
    /// The curve.
    pub curve: Curve,
}

impl Named {
    fn points(&self) -> impl Iterator<Item = &Point> {
        self.curve.points.iter()
    }
}

/// Page of some policies' curves over one trace. Curves with and without TTLs are compared.
pub fn page(trace: &str, unit: Unit, curves: &[Named]) -> Page {
    let mut page = Page::new(&format!("Miss ratio curves: {trace}"));
    add_sections(&mut page, (trace, unit), curves);
    page
}

/// Adds the curves as sections of a page.
pub(crate) fn add_sections(page: &mut Page, (trace, unit): (&str, Unit), curves: &[Named]) {
    let section = page.section("Miss ratios");
    section.text(&introduction(unit, curves));
    curve_plots(section, unit, curves);
    let both = |named: &&Named| curves.iter().any(|c| !c.has_ttls) && named.has_ttls;
    if curves.iter().any(|named| both(&named)) {
        let section = page.section("With and without TTLs");
        for with in curves.iter().filter(both) {
            let is_partner = |other: &&Named| !other.has_ttls && other.policy == with.policy;
            let Some(without) = curves.iter().find(is_partner) else {
                continue;
            };
            let lines = vec![
                line("with TTLs", unit, with, miss_ratio, true),
                line("nothing expires", unit, without, miss_ratio, true),
            ];
            let title = format!("{}, with and without TTLs", with.policy);
            section.plot(plot(&title, unit, "miss ratio", lines));
        }
    }
    page.section("All points").table(table(trace, unit, curves));
}

fn introduction(unit: Unit, curves: &[Named]) -> String {
    let points = || curves.iter().flat_map(Named::points);
    if curves.iter().all(|named| named.curve.is_exact) {
        return "Every point is a replay of the whole trace.".into();
    }
    let mut text = String::from(
        "Estimated from a sample of the objects. The result of a full simulation is within the band, or \
         within the bounds of the table, with a probability of 95 %. At most two bands share a plot.",
    );
    let doubtful = points().filter(|point| !point.is_trusted);
    if let Some(largest) = doubtful.map(|point| point.capacity).max() {
        let largest = match unit {
            Unit::Objects => format!("{} objects", count(largest as f64)),
            Unit::Bytes => bytes(largest as f64),
        };
        text += &format!(
            " Up to a size of {largest} too few objects of the sample fit, so that values and bands \
             are not reliable there."
        );
    }
    text
}

fn miss_ratio(point: &Point) -> Option<f64> {
    Some(point.miss_ratio)
}

fn byte_miss_ratio(point: &Point) -> Option<f64> {
    point.byte_miss_ratio
}

/// Adds plots of miss ratios and byte miss ratios, with and without TTLs.
fn curve_plots(section: &mut Section, unit: Unit, curves: &[Named]) {
    for has_ttls in [true, false] {
        let own: Vec<&Named> = curves.iter().filter(|c| c.has_ttls == has_ttls).collect();
        if own.is_empty() {
            continue;
        }
        let is_alone = curves.iter().all(|named| named.has_ttls == has_ttls);
        let note = match (is_alone, has_ttls) {
            (true, _) => "",
            (_, true) => ", with TTLs",
            (_, false) => ", nothing expires",
        };
        let has_bands = own.len() <= BANDS_MAX;
        let all = |value: fn(&Point) -> Option<f64>| {
            own.iter()
                .map(|named| line(&named.policy, unit, named, value, has_bands))
                .collect()
        };
        if !has_bands && own.iter().any(|named| !named.curve.is_exact) {
            let second = own.iter().skip(1).find(|named| named.policy == "lru");
            let pair = own.first().into_iter().chain(second.or(own.get(1)));
            let lines = pair.map(|named| line(&named.policy, unit, named, miss_ratio, true));
            let title = format!("Miss ratio with its bounds{note}");
            section.plot(plot(&title, unit, "miss ratio", lines.collect()));
        }
        section.plot(plot(
            &format!("Miss ratio{note}"),
            unit,
            "miss ratio",
            all(miss_ratio),
        ));
        if own
            .iter()
            .any(|named| named.points().any(|p| p.byte_miss_ratio.is_some()))
        {
            let title = format!("Miss ratio by bytes{note}");
            section.plot(plot(
                &title,
                unit,
                "share of bytes missed",
                all(byte_miss_ratio),
            ));
        }
        if let Some(plot) = savings(unit, &own, note) {
            section.plot(plot);
        }
    }
}

fn plot(title: &str, unit: Unit, label: &str, lines: Vec<Line>) -> Plot {
    let (size, _) = size_axis(unit);
    Plot::lines(title, Axis::log(size), Axis::linear(label), lines)
}

/// Line of one curve with its bounds, as a band if `has_band` is set.
fn line(
    name: &str,
    unit: Unit,
    named: &Named,
    value: fn(&Point) -> Option<f64>,
    has_band: bool,
) -> Line {
    let (_, scale) = size_axis(unit);
    let size = |point: &Point| point.capacity as f64 / scale;
    let points = named.points().filter_map(|p| Some((size(p), value(p)?)));
    let line = Line::new(name, points.collect());
    // Bounds exist only for the miss ratio by requests.
    let has_bounds = !named.curve.is_exact && named.points().all(|p| value(p) == miss_ratio(p));
    let bounds = || named.points().map(|p| (size(p), p.low, p.high)).collect();
    match (has_bounds, has_band) {
        (true, true) => line.with_band(bounds()),
        (true, false) => line.with_bounds(bounds()),
        (false, _) => line,
    }
}

/// Plots the relative reduction of LRU's misses by each policy.
fn savings(unit: Unit, curves: &[&Named], note: &str) -> Option<Plot> {
    let lru = curves.iter().find(|named| named.policy == "lru")?;
    let (size, scale) = size_axis(unit);
    let line = |named: &&&Named| {
        let pairs = named.points().zip(lru.points());
        let points = pairs
            .filter(|(_, lru)| lru.miss_ratio > 0.0)
            .map(|(own, lru)| {
                let saved = (lru.miss_ratio - own.miss_ratio) / lru.miss_ratio * 100.0;
                (own.capacity as f64 / scale, saved)
            });
        Line::new(&named.policy, points.collect())
    };
    // LRU is included, so that a policy has the same color in all plots.
    let lines: Vec<Line> = curves.iter().map(|named| line(&named)).collect();
    let title = format!("Misses saved against LRU{note}");
    let (x, y) = (Axis::log(size), Axis::linear("% of LRU's misses"));
    (lines.len() > 1).then(|| Plot::lines(&title, x, y, lines))
}

/// Table with a row for each point of some policies' curves over one trace.
pub fn table(trace: &str, unit: Unit, curves: &[Named]) -> Table {
    let flag = |is_true: bool| if is_true { "true" } else { "false" };
    let points: Vec<(&Named, &Point)> = curves
        .iter()
        .flat_map(|named| named.points().map(move |point| (named, point)))
        .collect();
    Table::of(points.iter().copied())
        .column(Column::text("trace").data(), |_| trace)
        .column(Column::text("policy"), |(named, _)| &named.policy)
        .column(Column::text("unit").data(), |_| unit.name())
        .column(Column::count("cache_size"), |(_, point)| point.capacity)
        .column(Column::decimals("miss_ratio", 4), |(named, point)| {
            Cell::Shown(point.miss_ratio, with_error(&named.curve, point))
        })
        .column(Column::decimals("low", 4), |(_, point)| point.low)
        .column(Column::decimals("high", 4), |(_, point)| point.high)
        .column(Column::decimals("byte_miss_ratio", 4), |(_, point)| {
            point.byte_miss_ratio
        })
        .column(Column::text("is_exact").labelled("exact"), |(named, _)| {
            flag(named.curve.is_exact)
        })
        .column(
            Column::text("is_trusted").labelled("trusted"),
            |(_, point)| flag(point.is_trusted),
        )
        .column(Column::text("has_ttls").labelled("TTLs"), |(named, _)| {
            flag(named.has_ttls)
        })
        .finish()
}

/// A miss ratio with its error; an asterisk marks a ratio that is not trusted.
fn with_error(curve: &Curve, point: &Point) -> String {
    if curve.is_exact {
        return format!("{:.4}", point.miss_ratio);
    }
    let error = (point.high - point.low) / 2.0;
    let mark = if point.is_trusted { "" } else { "*" };
    format!("{:.4} ±{error:.4}{mark}", point.miss_ratio)
}

/// Text tables of the curves, with a row for each size and a column for each policy; one with and
/// one without TTLs.
pub fn text(trace: &str, unit: Unit, curves: &[Named]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for kind in curves.chunk_by(|a, b| a.has_ttls == b.has_ttls) {
        let note = match kind.len() < curves.len() && !kind[0].has_ttls {
            true => ", nothing expires",
            false => "",
        };
        let pivot = table(trace, unit, kind).pivot(&["cache_size"], "policy", "miss_ratio");
        parts.push(format!(
            "{trace}, miss ratios of caches in {}{note}\n\n{}",
            unit.name(),
            pivot.to_text()
        ));
    }
    if curves.iter().any(|named| !named.curve.is_exact) {
        let mut note = String::from("±: error bound with a probability of 95 %.");
        let mut points = curves.iter().flat_map(Named::points);
        if points.any(|point| !point.is_trusted) {
            note += " *: not trusted, because too few objects of the sample fit; raise \
                     --sample-objects or use --exact.";
        }
        parts.push(note + "\n");
    }
    parts.join("\n")
}

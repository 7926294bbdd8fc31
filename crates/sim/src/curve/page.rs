//! Curves as a page: lines with their bands, what is saved against LRU, every point in a table.

use super::{Curve, Point};
use crate::Unit;
use crate::analyze::findings::{bytes, count};
use crate::report::size_axis;
use ::report::{Axis, Cell, Line, Page, Plot, Section, Table};
use serde::Serialize;

/// A curve and what it is of.
#[derive(Clone, Debug, Serialize)]
pub struct Named {
    /// The policy, as given.
    pub policy: String,
    /// Whether what the trace tells of lifetimes held; without it nothing expires.
    pub has_ttls: bool,
    /// Its points.
    pub curve: Curve,
}

impl Named {
    fn points(&self) -> impl Iterator<Item = &Point> {
        self.curve.points.iter()
    }
}

/// The page of some policies' curves over one trace. Where both kinds of lifetimes are there, they
/// are shown beside each other.
pub fn page(trace: &str, unit: Unit, curves: &[Named]) -> Page {
    let mut page = Page::new(&format!("Miss-ratio curves: {trace}"));
    add_sections(&mut page, unit, curves);
    page
}

/// The same as sections of a page.
pub(crate) fn add_sections(page: &mut Page, unit: Unit, curves: &[Named]) {
    let section = page.section("Miss ratios");
    section.text(&introduction(unit, curves));
    curve_plots(section, unit, curves);
    let both = |named: &&Named| curves.iter().any(|c| !c.has_ttls) && named.has_ttls;
    if curves.iter().any(|named| both(&named)) {
        let section = page.section("With and without lifetimes");
        for with in curves.iter().filter(both) {
            let is_partner = |other: &&Named| !other.has_ttls && other.policy == with.policy;
            let Some(without) = curves.iter().find(is_partner) else {
                continue;
            };
            let lines = vec![
                line("with lifetimes", unit, with, miss_ratio),
                line("nothing expires", unit, without, miss_ratio),
            ];
            let title = format!("{}, with and without lifetimes", with.policy);
            section.plot(plot(&title, unit, "miss ratio", lines));
        }
    }
    page.section("All points").table(table(curves));
}

fn introduction(unit: Unit, curves: &[Named]) -> String {
    let points = || curves.iter().flat_map(Named::points);
    if curves.iter().all(|named| named.curve.is_exact) {
        return "Every point is a replay of the whole trace.".into();
    }
    let mut text = String::from(
        "Estimated from a sample of the objects: a full simulation lies within the band with a \
         probability of 95 %.",
    );
    let doubtful = points().filter(|point| !point.is_trusted);
    if let Some(largest) = doubtful.map(|point| point.capacity).max() {
        let largest = match unit {
            Unit::Objects => format!("{} objects", count(largest as f64)),
            Unit::Bytes => bytes(largest as f64),
        };
        text += &format!(
            " Up to a size of {largest} too few objects of the sample fit: neither value nor band \
             mean much there."
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

/// One plot for each kind of lifetimes and of ratio.
fn curve_plots(section: &mut Section, unit: Unit, curves: &[Named]) {
    for has_ttls in [true, false] {
        let own: Vec<&Named> = curves.iter().filter(|c| c.has_ttls == has_ttls).collect();
        if own.is_empty() {
            continue;
        }
        let is_alone = curves.iter().all(|named| named.has_ttls == has_ttls);
        let note = match (is_alone, has_ttls) {
            (true, _) => "",
            (_, true) => ", with lifetimes",
            (_, false) => ", nothing expires",
        };
        let all = |value: fn(&Point) -> Option<f64>| {
            own.iter()
                .map(|named| line(&named.policy, unit, named, value))
                .collect()
        };
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

fn line(name: &str, unit: Unit, named: &Named, value: fn(&Point) -> Option<f64>) -> Line {
    let (_, scale) = size_axis(unit);
    let size = |point: &Point| point.capacity as f64 / scale;
    let points = named.points().filter_map(|p| Some((size(p), value(p)?)));
    let line = Line::new(name, points.collect());
    // The bounds are those of the miss ratio by requests.
    let has_band = !named.curve.is_exact && named.points().all(|p| value(p) == miss_ratio(p));
    match has_band {
        true => line.with_band(named.points().map(|p| (size(p), p.low, p.high)).collect()),
        false => line,
    }
}

/// What each policy saves of LRU's misses at each size.
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
    // LRU as well: a policy keeps its colour through all plots.
    let lines: Vec<Line> = curves.iter().map(|named| line(&named)).collect();
    let title = format!("Misses saved against LRU{note}");
    let (x, y) = (Axis::log(size), Axis::linear("% of LRU's misses"));
    (lines.len() > 1).then(|| Plot::lines(&title, x, y, lines))
}

fn table(curves: &[Named]) -> Table {
    let header = [
        "policy",
        "lifetimes",
        "cache size",
        "miss ratio",
        "low",
        "high",
        "by bytes",
        "trusted",
    ];
    let mut table = Table::new(&header);
    let ratio = |ratio: f64| Cell::Shown(ratio, format!("{ratio:.4}"));
    for named in curves {
        let lifetimes = if named.has_ttls { "as told" } else { "none" };
        for point in named.points() {
            table.row(vec![
                named.policy.as_str().into(),
                lifetimes.into(),
                Cell::Shown(point.capacity as f64, point.capacity.to_string()),
                ratio(point.miss_ratio),
                ratio(point.low),
                ratio(point.high),
                point.byte_miss_ratio.map_or(Cell::Empty, ratio),
                if point.is_trusted { "yes" } else { "no" }.into(),
            ]);
        }
    }
    table
}

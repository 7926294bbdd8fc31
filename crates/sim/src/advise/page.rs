//! Advice as a page.

use super::{Advice, Recommendation, statements};
use crate::curve;
use ::report::{Axis, Bars, Cell, Page, Plot, Table, distinct};
use units::show::{count, percent};

/// Maximum number of policies whose curves are drawn.
const LINES_MAX: usize = 6;
/// Maximum number of policies with a bar; the recommended one has one in any case.
const BARS_MAX: usize = 12;

impl Advice {
    /// Returns a page with the statements, the numbers behind them, the policies side by side and
    /// the curves.
    pub fn to_page(&self) -> Page {
        let mut page = Page::new(&format!("Advice: {}", self.trace));
        let unit = self.unit();
        page.fact("requests", &count(self.requests as f64));
        page.fact("footprint", &statements::size(unit, self.footprint));
        if let Some(memory) = self.memory {
            page.fact("available memory", &statements::size(unit, memory));
        }
        if let Some(target) = self.target_miss {
            page.fact("target miss ratio", &percent(target));
        }
        let section = page.section("Advice");
        let sentences = self.statements.iter().map(|s| s.text.clone());
        section.list(sentences.collect());
        section.plot(self.policies_at_size());
        section.plot(comparison(&self.recommendation));
        if !self.left_out.is_empty() {
            page.section("Not available").list(self.left_out.clone());
        }
        page.section("Numbers and their certainty")
            .table(self.figures());
        curve::add_sections(&mut page, (&self.trace, unit), &self.shown_curves());
        page
    }

    /// Curves of the recommended policy, of LRU, and of the best others.
    fn shown_curves(&self) -> Vec<curve::Named> {
        let policies = distinct(self.curves.iter().map(|named| named.policy.as_str()));
        let shown: Vec<&str> = policies.into_iter().take(LINES_MAX).collect();
        let is_shown = |named: &&curve::Named| shown.contains(&named.policy.as_str());
        self.curves.iter().filter(is_shown).cloned().collect()
    }

    /// Misses saved against LRU by the best policies, at the surveyed size that is nearest to the
    /// recommended one. Bars start at LRU, so that differences show.
    fn policies_at_size(&self) -> Plot {
        let wanted = self.recommendation.cache_size as f64;
        let own = self
            .curves
            .iter()
            .filter(|named| named.has_ttls == self.curves[0].has_ttls);
        let distance = |size: u64| (size.max(1) as f64 / wanted.max(1.0)).ln().abs();
        let nearest = |points: &[curve::Point]| {
            let by_distance = |a: &&curve::Point, b: &&curve::Point| {
                distance(a.capacity).total_cmp(&distance(b.capacity))
            };
            points.iter().min_by(by_distance).copied()
        };
        let mut found: Vec<(String, curve::Point)> = own
            .filter_map(|named| Some((named.policy.clone(), nearest(&named.curve.points)?)))
            .collect();
        let lru = found.iter().find(|(name, _)| name == "lru");
        let lru = lru
            .map_or(1.0, |(_, point)| point.miss_ratio)
            .max(f64::MIN_POSITIVE);
        found.sort_by(|a, b| a.1.miss_ratio.total_cmp(&b.1.miss_ratio));
        let is_own = |name: &str| name == self.recommendation.policy;
        let places = (0..found.len()).filter(|&at| at < BARS_MAX || is_own(&found[at].0));
        let found: Vec<(String, curve::Point)> = places.map(|at| found[at].clone()).collect();
        let size = found.first().map_or(0, |(_, point)| point.capacity);
        let saved = |ratio: f64| (lru - ratio) / lru * 100.0;
        let values = found.iter().map(|(_, point)| Some(saved(point.miss_ratio)));
        let ranges = found.iter().map(|(_, point)| {
            (point.low < point.high).then_some((saved(point.high), saved(point.low)))
        });
        let bars = Bars::new("", values.collect()).with_ranges(ranges.collect());
        let names = found.iter().map(|(name, _)| match is_own(name) {
            true => format!("{name} (recommended)"),
            false => name.clone(),
        });
        let is_exact = self.curves.iter().all(|named| named.curve.is_exact);
        let by = if is_exact { "" } else { ", from the sample" };
        let title = format!(
            "Misses saved against LRU with {}{by}",
            statements::size(self.unit(), size)
        );
        let axis = Axis::linear("% of LRU's misses");
        Plot::bars(&title, axis, names.collect(), vec![bars])
    }

    fn figures(&self) -> Table {
        let mut table = Table::new(&["topic", "number", "value", "certainty"]);
        for statement in &self.statements {
            for figure in &statement.figures {
                table.row(vec![
                    statement.topic.into(),
                    figure.name.into(),
                    Cell::Number(figure.value),
                    statement.certainty.as_str().into(),
                ]);
            }
        }
        table
    }
}

/// Miss ratios of the recommended policy and of LRU.
fn comparison(found: &Recommendation) -> Plot {
    let mut rows = vec![(found.policy.clone(), found.ratio)];
    if found.policy != "lru" {
        rows.push(("lru".into(), found.lru));
    }
    let values = rows
        .iter()
        .map(|(_, ratio)| Some(ratio.miss_ratio))
        .collect();
    let ranges = rows
        .iter()
        .map(|(_, ratio)| (ratio.low < ratio.high).then_some((ratio.low, ratio.high)));
    let bars = Bars::new("", values).with_ranges(ranges.collect());
    let names = rows.iter().map(|(name, _)| name.clone()).collect();
    let title = "The recommended policy and LRU at the same size";
    Plot::bars(title, Axis::linear("miss ratio"), names, vec![bars])
}

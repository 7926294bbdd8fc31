//! Lines, each with an optional band.

use super::frame::{Chart, Fault, Frame, Root, mark, series_ink};
use super::{Drawing, Hover, Plot};
use crate::escape::label;
use crate::scale::tick_text;
use plotters::element::{PathElement, Polygon};
use plotters::style::Color;

const HEIGHT: u32 = 300;
/// Minimum distance in pixels between points with hover texts, and between markers.
const HOVER_PAUSE: usize = 12;
const MARK_PAUSE: i32 = 70;

/// A named line.
#[derive(Clone, Debug)]
pub struct Line {
    name: String,
    points: Vec<(f64, f64)>,
    band: Vec<(f64, f64, f64)>,
    /// Whether the band is drawn, and not only shown as text at each point.
    is_band_drawn: bool,
}

impl Line {
    /// Creates a line of points in ascending order of x. Points that are not finite are omitted,
    /// and the line continues to the next point.
    pub fn new(name: &str, points: Vec<(f64, f64)>) -> Line {
        Line {
            name: name.into(),
            points,
            band: Vec::new(),
            is_band_drawn: false,
        }
    }

    /// Sets a band: lower and upper bound at each x.
    #[must_use]
    pub fn with_band(mut self, band: Vec<(f64, f64, f64)>) -> Line {
        self.band = band;
        self.is_band_drawn = true;
        self
    }

    /// Sets the bounds (x, low, high) that the text of each point shows. No band is drawn.
    #[must_use]
    pub fn with_bounds(mut self, bounds: Vec<(f64, f64, f64)>) -> Line {
        self.band = bounds;
        self
    }

    fn drawn_band(&self) -> &[(f64, f64, f64)] {
        match self.is_band_drawn {
            true => &self.band,
            false => &[],
        }
    }
}

/// Reduces a line to about `count_max` points that keep its shape: the first, last, lowest and
/// highest point of each run.
fn thin(points: Vec<(f64, f64)>, count_max: usize) -> Vec<(f64, f64)> {
    if points.len() <= count_max {
        return points;
    }
    let run = points.len().div_ceil((count_max / 4).max(1));
    let mut kept = Vec::new();
    for run in points.chunks(run) {
        let by_y = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let mut chosen: Vec<(f64, f64)> = [run.first(), run.iter().min_by(by_y)]
            .into_iter()
            .chain([run.iter().max_by(by_y), run.last()])
            .flatten()
            .copied()
            .collect();
        chosen.sort_by(|a, b| a.0.total_cmp(&b.0));
        chosen.dedup();
        kept.extend(chosen);
    }
    kept
}

/// Reduces a band to about `count_max` points: for each run the lowest lower bound and the highest
/// upper bound at its first x, and the last point of the band.
fn thin_band(band: Vec<(f64, f64, f64)>, count_max: usize) -> Vec<(f64, f64, f64)> {
    if band.len() <= count_max {
        return band;
    }
    let run = band.len().div_ceil(count_max.max(1));
    let outline = |run: &[(f64, f64, f64)]| {
        let low = run.iter().map(|at| at.1).fold(f64::INFINITY, f64::min);
        let high = run.iter().map(|at| at.2).fold(f64::NEG_INFINITY, f64::max);
        (run[0].0, low, high)
    };
    let mut kept: Vec<_> = band.chunks(run).map(outline).collect();
    kept.extend(band.last().copied());
    kept
}

pub(super) fn draw(plot: &Plot, lines: &[Line], width: u32) -> Result<Drawing, Fault> {
    let bands = || lines.iter().flat_map(Line::drawn_band);
    let points = || lines.iter().flat_map(|line| &line.points);
    let frame = Frame {
        width,
        height: HEIGHT,
        x: plot
            .x
            .scale(points().map(|point| point.0).chain(bands().map(|at| at.0))),
        y: plot.y.scale(
            points()
                .map(|point| point.1)
                .chain(bands().flat_map(|at| [at.1, at.2])),
        ),
        x_label: &plot.x.label,
        y_label: &plot.y.label,
        legend: lines.iter().map(|line| line.name.as_str()).collect(),
        has_lines: true,
        mesh: (true, true),
        room_below: 0,
    };
    frame.draw(|root, chart| {
        for (index, line) in lines.iter().enumerate() {
            draw_band(&frame, chart, index, line)?;
        }
        let mut hover = Vec::new();
        for (index, line) in lines.iter().enumerate() {
            hover.extend(draw_line(&frame, root, chart, index, line)?);
        }
        Ok(hover)
    })
}

fn draw_band(frame: &Frame, chart: &Chart, index: usize, line: &Line) -> Result<(), Fault> {
    let holds = |(x, low, high): &&(f64, f64, f64)| {
        frame.x.holds(*x) && frame.y.holds(*low) && frame.y.holds(*high)
    };
    let band: Vec<_> = line.drawn_band().iter().filter(holds).copied().collect();
    let band = thin_band(band, frame.width as usize / 2);
    let upper = band.iter().map(|(x, _, high)| (*x, *high));
    let lower = band.iter().rev().map(|(x, low, _)| (*x, *low));
    let outline: Vec<_> = upper.chain(lower).collect();
    if outline.len() < 4 {
        return Ok(());
    }
    let style = series_ink(index).colour().mix(0.18);
    chart.plotting_area().draw(&Polygon::new(outline, style))
}

fn draw_line(
    frame: &Frame,
    root: &Root,
    chart: &Chart,
    index: usize,
    line: &Line,
) -> Result<Hover, Fault> {
    let holds = |(x, y): &&(f64, f64)| frame.x.holds(*x) && frame.y.holds(*y);
    let shown: Vec<_> = line.points.iter().filter(holds).copied().collect();
    let shown = thin(shown, frame.width as usize / 2);
    let style = series_ink(index).colour().stroke_width(2);
    if shown.len() > 1 {
        let path = PathElement::new(shown.clone(), style);
        chart.plotting_area().draw(&path)?;
    }
    // Series place their markers at different distances, so that lines that coincide remain
    // visible.
    let mut mark_from = 20 + (index as i32 * 17) % MARK_PAUSE;
    let hover_step = (shown.len() * HOVER_PAUSE)
        .div_ceil(frame.width as usize)
        .max(1);
    let mut hover = Vec::new();
    for (at, point) in shown.iter().enumerate() {
        let (x, y) = chart.backend_coord(point);
        if x >= mark_from || shown.len() < 8 {
            mark(root, index, (x, y))?;
            mark_from = x + MARK_PAUSE;
        }
        if at % hover_step == 0 || at + 1 == shown.len() {
            let name = if line.name.is_empty() { "" } else { ": " };
            let (x_text, y_text) = (tick_text(point.0), tick_text(point.1));
            let band = line.band.iter().find(|(x, _, _)| *x == point.0);
            let band = band.map_or(String::new(), |(_, low, high)| {
                format!(" ({} to {})", tick_text(*low), tick_text(*high))
            });
            let text = format!("{}{name}{x_text}, {y_text}{band}", label(&line.name));
            hover.push((x, y, text));
        }
    }
    Ok(hover)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_ends_and_extremes() {
        let mut points: Vec<_> = (0..10_000).map(|i| (f64::from(i), 1.0)).collect();
        points[5_001].1 = 9.0;
        points[7_003].1 = -9.0;
        let thinned = thin(points.clone(), 400);
        assert!(thinned.len() <= 404, "{}", thinned.len());
        for wanted in [0, 5_001, 7_003, 9_999] {
            assert!(thinned.contains(&points[wanted]), "{wanted}");
        }
        assert!(thinned.is_sorted_by(|a, b| a.0 <= b.0));
        assert_eq!(thin(points[..10].to_vec(), 400), points[..10]);
    }

    #[test]
    fn a_thinned_band_hides_no_extreme() {
        let mut band: Vec<_> = (0..10_000).map(|i| (f64::from(i), 1.0, 2.0)).collect();
        (band[5_001].1, band[7_003].2) = (-9.0, 9.0);
        let thinned = thin_band(band.clone(), 400);
        assert!(thinned.len() <= 401, "{}", thinned.len());
        assert_eq!((thinned[0], thinned.last()), (band[0], band.last()));
        let low = thinned.iter().find(|at| at.1 == -9.0);
        assert!(low.is_some_and(|at| (4_975.0..=5_001.0).contains(&at.0)));
        assert!(thinned.iter().any(|at| at.2 == 9.0));
        assert!(thinned.is_sorted_by(|a, b| a.0 <= b.0));
        assert_eq!(thin_band(band[..10].to_vec(), 400), band[..10]);
    }

    #[test]
    fn a_page_with_long_bands_stays_small() {
        let band = (0..200_000).map(|i| (f64::from(i), 1.0, 2.0)).collect();
        let line = Line::new("a", vec![(0.0, 1.5), (200_000.0, 1.5)]).with_band(band);
        let axis = || crate::Axis::linear("x");
        let svg = Plot::lines("bands", axis(), axis(), vec![line])
            .draw(800)
            .svg;
        assert!(svg.len() < 60_000, "{} bytes", svg.len());
    }
}

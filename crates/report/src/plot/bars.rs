//! Horizontal bars in groups, with an optional range for each value.

use super::frame::{Chart, Fault, Frame, Root, filled, mark_in, series_ink};
use super::{Drawing, Plot};
use crate::escape::label;
use crate::palette::{PAPER, TEXT};
use crate::scale::{Scale, tick_text};
use plotters::element::{PathElement, Rectangle};
use plotters::style::Color;

/// Height of one bar, and distance between groups, in pixels.
const BAR_HEIGHT: u32 = 14;
const GROUP_GAP: u32 = 12;
/// Height of the axis and its label in pixels.
const FOOT: u32 = 48;

/// A named series with an optional value for each category.
#[derive(Clone, Debug)]
pub struct Bars {
    name: String,
    values: Vec<Option<f64>>,
    ranges: Vec<Option<(f64, f64)>>,
}

impl Bars {
    /// Creates a series with an optional value for each category.
    pub fn new(name: &str, values: Vec<Option<f64>>) -> Bars {
        Bars {
            name: name.into(),
            values,
            ranges: Vec::new(),
        }
    }

    /// Sets the range of each value, which is drawn as a line over its bar.
    #[must_use]
    pub fn with_ranges(mut self, ranges: Vec<Option<(f64, f64)>>) -> Bars {
        assert_eq!(ranges.len(), self.values.len(), "a range for each value");
        self.ranges = ranges;
        self
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }
}

pub(super) fn draw(
    plot: &Plot,
    categories: &[String],
    series: &[Bars],
    width: u32,
) -> Result<Drawing, Fault> {
    let values = series.iter().flat_map(|bars| bars.values.iter().flatten());
    let ranges = series.iter().flat_map(|bars| bars.ranges.iter().flatten());
    let ends = ranges.flat_map(|(low, high)| [*low, *high]);
    // The length of a bar shows its value, so that the axis must include zero.
    let axis = plot.x.clone().from_zero();
    let group = series.len() as u32 * BAR_HEIGHT + GROUP_GAP;
    let frame = Frame {
        width,
        height: categories.len().max(1) as u32 * group + FOOT,
        x: axis.scale(values.copied().chain(ends)),
        y: Scale::places(categories.to_vec()),
        x_label: &plot.x.label,
        y_label: "",
        legend: series.iter().map(|bars| bars.name.as_str()).collect(),
        has_lines: false,
        mesh: (true, false),
        room_below: 0,
    };
    frame.draw(|root, chart| {
        let mut hover = Vec::new();
        let thickness = f64::from(BAR_HEIGHT) / f64::from(group);
        for (index, bars) in series.iter().enumerate() {
            let above = index as f64 - series.len() as f64 / 2.0;
            for (place, category) in categories.iter().enumerate() {
                let top = place as f64 + above * thickness;
                let Some(value) = bars.values[place].filter(|value| frame.x.holds(*value)) else {
                    continue;
                };
                let at = draw_bar(&frame, root, chart, index, value, (top, top + thickness))?;
                let range = bars.ranges.get(place).copied().flatten();
                let range = range.filter(|(low, high)| frame.x.holds(*low) && frame.x.holds(*high));
                if let Some((low, high)) = range {
                    let middle = top + thickness / 2.0;
                    let path = vec![(low, middle), (high, middle)];
                    let style = TEXT.colour().stroke_width(2);
                    chart.plotting_area().draw(&PathElement::new(path, style))?;
                }
                let name = if bars.name.is_empty() { "" } else { ", " };
                let range = range.map_or(String::new(), |(low, high)| {
                    format!(" ({} to {})", tick_text(low), tick_text(high))
                });
                let (category, series) = (label(category), label(&bars.name));
                let value = tick_text(value);
                hover.push((
                    at.0,
                    at.1,
                    format!("{category}{name}{series}: {value}{range}"),
                ));
            }
        }
        Ok(hover)
    })
}

/// Draws one bar and returns the position of its end.
fn draw_bar(
    frame: &Frame,
    root: &Root,
    chart: &Chart,
    index: usize,
    value: f64,
    (top, bottom): (f64, f64),
) -> Result<(i32, i32), Fault> {
    let (x, y) = chart.backend_coord(&(value, (top + bottom) / 2.0));
    let (base, y_top) = chart.backend_coord(&(frame.x.base(), top));
    let (_, y_bottom) = chart.backend_coord(&(0.0, bottom));
    let corners = [(base.min(x), y_top + 1), (base.max(x), y_bottom - 1)];
    root.draw(&Rectangle::new(corners, filled(series_ink(index))))?;
    // The text is inside the bar if the bar is long enough.
    if (x - base).abs() > 16 {
        let towards = (x - base).signum();
        mark_in(PAPER, root, index, (base + 9 * towards, y))?;
    }
    Ok((x, y))
}

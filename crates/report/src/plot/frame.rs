//! Parts that all plots share: legend, axes, mesh, and the markers of series.

use super::{Drawing, Hover};
use crate::escape::label;
use crate::palette::{FAINT, GRID, Ink, SERIES, TEXT};
use crate::scale::Scale;
use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Polygon, Rectangle, Text};
use plotters::prelude::SVGBackend;
use plotters::style::{Color, IntoFont, ShapeStyle, TextStyle};

pub(super) type Fault = DrawingAreaErrorKind<std::io::Error>;
pub(super) type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Scale, Scale>>;
pub(super) type Root<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Size that makes `plotters` write text of 12 pixels, because it divides by 1.24.
const TEXT_SIZE: f64 = 12.0 * 1.24;
/// Approximate width of a letter in pixels.
const LETTER_WIDTH: f64 = 7.3;
const LINE_HEIGHT: i32 = 19;
/// Width in pixels of a marker in the legend.
const MARK_WIDTH: i32 = 26;
pub(super) const MARGIN: i32 = 10;
const MARK_RADIUS: i32 = 4;

/// Size, legend and axes of a plot.
pub(super) struct Frame<'a> {
    pub width: u32,
    /// Height in pixels of the part below the legend.
    pub height: u32,
    pub x: Scale,
    pub y: Scale,
    pub x_label: &'a str,
    pub y_label: &'a str,
    /// Names of the series. A single series without a name has no legend.
    pub legend: Vec<&'a str>,
    /// Whether the legend shows a line through each marker.
    pub has_lines: bool,
    /// Whether the mesh has vertical lines, and whether it has horizontal ones.
    pub mesh: (bool, bool),
    /// Pixels left free below the axes, for what `inside` draws there.
    pub room_below: u32,
}

/// Returns the approximate width of a text in pixels.
pub(super) fn text_width(text: &str) -> i32 {
    (text.chars().count() as f64 * LETTER_WIDTH).ceil() as i32
}

/// Truncates a text to a width.
fn cut(text: &str, width: i32) -> String {
    let room = (f64::from(width) / LETTER_WIDTH).max(2.0) as usize;
    if text.chars().count() <= room {
        return text.into();
    }
    let mut short: String = text.chars().take(room - 1).collect();
    short.push('…');
    short
}

pub(super) fn text_style(ink: Ink) -> TextStyle<'static> {
    ("sans-serif", TEXT_SIZE).into_font().color(&ink.colour())
}

/// Returns the colour of series number `index`.
pub(super) fn series_ink(index: usize) -> Ink {
    SERIES[index % SERIES.len()]
}

/// Returns the style of a filled shape in this colour.
pub(super) fn filled(ink: Ink) -> ShapeStyle {
    ink.colour().filled()
}

/// Draws the marker of series number `index`. Series differ in shape and colour.
pub(super) fn mark(root: &Root, index: usize, place: (i32, i32)) -> Result<(), Fault> {
    mark_in(series_ink(index), root, index, place)
}

/// Draws the marker in another colour.
pub(super) fn mark_in(
    ink: Ink,
    root: &Root,
    index: usize,
    (x, y): (i32, i32),
) -> Result<(), Fault> {
    let r = MARK_RADIUS;
    let style = filled(ink);
    let outline = ink.colour().stroke_width(2);
    let path = |points: &[(i32, i32)], style| {
        let shifted: Vec<_> = points.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
        root.draw(&PathElement::new(shifted, style))
    };
    let polygon = |points: &[(i32, i32)]| {
        let shifted: Vec<_> = points.iter().map(|(dx, dy)| (x + dx, y + dy)).collect();
        root.draw(&Polygon::new(shifted, style))
    };
    match (index + index / SERIES.len()) % 8 {
        0 => root.draw(&Circle::new((x, y), r, style)),
        1 => root.draw(&Rectangle::new(
            [(x - r + 1, y - r + 1), (x + r, y + r)],
            style,
        )),
        2 => polygon(&[(0, -r), (r, r), (-r, r)]),
        3 => polygon(&[(0, -r - 1), (r + 1, 0), (0, r + 1), (-r - 1, 0)]),
        4 => path(&[(-r, -r), (r, r)], outline).and_then(|()| path(&[(-r, r), (r, -r)], outline)),
        5 => path(&[(0, -r), (0, r)], outline).and_then(|()| path(&[(-r, 0), (r, 0)], outline)),
        6 => root.draw(&Circle::new((x, y), r, outline)),
        _ => polygon(&[(0, r), (r, -r), (-r, -r)]),
    }
}

/// Returns the position of each name of the legend, and the number of lines.
fn legend_places(names: &[&str], width: u32) -> (Vec<(i32, i32)>, i32) {
    let (mut x, mut line) = (MARGIN, 0);
    let mut places = Vec::new();
    for name in names {
        let wide = MARK_WIDTH + text_width(name) + 12;
        if x > MARGIN && x + wide > width as i32 - MARGIN {
            (x, line) = (MARGIN, line + 1);
        }
        places.push((x, line * LINE_HEIGHT + LINE_HEIGHT / 2));
        x += wide;
    }
    let is_empty = names.is_empty();
    (
        places,
        if is_empty {
            0
        } else {
            (line + 1) * LINE_HEIGHT
        },
    )
}

impl Frame<'_> {
    /// Draws the legend and the axes, then calls `inside`, which draws the data and returns the
    /// hover texts.
    pub(super) fn draw(
        &self,
        inside: impl FnOnce(&Root, &mut Chart) -> Result<Hover, Fault>,
    ) -> Result<Drawing, Fault> {
        let mut svg = String::new();
        let hover = self.fill(&mut svg, inside)?;
        Ok(Drawing { svg, hover })
    }

    fn fill(
        &self,
        svg: &mut String,
        inside: impl FnOnce(&Root, &mut Chart) -> Result<Hover, Fault>,
    ) -> Result<Hover, Fault> {
        let names: Vec<&str> = match self.legend[..] {
            [""] => vec![],
            _ => self.legend.clone(),
        };
        let (places, legend_height) = legend_places(&names, self.width);
        let heading = if self.y_label.is_empty() {
            6
        } else {
            LINE_HEIGHT + 5
        };
        let top = legend_height + heading;
        let height = self.height + top as u32 + self.room_below;
        let root = SVGBackend::with_string(svg, (self.width, height)).into_drawing_area();
        for (index, (name, (x, y))) in names.iter().zip(places).enumerate() {
            if self.has_lines {
                let style = series_ink(index).colour().stroke_width(2);
                root.draw(&PathElement::new(vec![(x, y), (x + 20, y)], style))?;
            }
            mark(&root, index, (x + 10, y))?;
            let place = (x + MARK_WIDTH, y - 6);
            let name = cut(&label(name), self.width as i32 - MARK_WIDTH - 2 * MARGIN);
            root.draw(&Text::new(name, place, text_style(TEXT)))?;
        }
        if !self.y_label.is_empty() {
            let place = (MARGIN, legend_height + 2);
            root.draw(&Text::new(label(self.y_label), place, text_style(FAINT)))?;
        }
        let (_, body) = root.split_vertically(top);
        let (body, _) = body.split_vertically(self.height);
        let mut chart = self.axes(&body)?;
        let hover = inside(&root, &mut chart)?;
        root.present()?;
        Ok(hover)
    }

    fn axes<'a, 'b>(&self, body: &'a Root<'b>) -> Result<Chart<'a, 'b>, Fault>
    where
        'b: 'a,
    {
        let x_count = (self.width / 90) as usize;
        let y_count = (self.height / 26).max(3) as usize;
        let y_labels = self.y.labels(y_count);
        let widest = y_labels.iter().map(|text| text_width(text)).max();
        let side = (widest.unwrap_or(0) + 14).clamp(30, self.width as i32 * 2 / 5);
        let foot = if self.x_label.is_empty() { 24 } else { 42 };
        let mut chart = ChartBuilder::on(body)
            .margin_right(MARGIN + 10)
            .margin_bottom(4)
            .x_label_area_size(foot)
            .y_label_area_size(side)
            .build_cartesian_2d(self.x.clone(), self.y.clone())?;
        let mut mesh = chart.configure_mesh();
        if !self.mesh.0 {
            mesh.disable_x_mesh();
        }
        if !self.mesh.1 {
            mesh.disable_y_mesh();
        }
        let short = |value: &f64| cut(&label(&self.y.text(*value)), side - 14);
        let x_width = self.width as i32 / x_count.max(1) as i32;
        let x_short = |value: &f64| cut(&label(&self.x.text(*value)), x_width);
        mesh.max_light_lines(0)
            .x_labels(x_count)
            .y_labels(y_count)
            .bold_line_style(GRID.colour())
            .axis_style(FAINT.colour())
            .label_style(text_style(FAINT))
            .axis_desc_style(text_style(FAINT))
            .x_label_formatter(&x_short)
            .y_label_formatter(&short)
            .x_desc(label(self.x_label))
            .draw()?;
        Ok(chart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legends_wrap_and_texts_are_cut() {
        let (places, height) = legend_places(&["one", "two", "three"], 120);
        assert_eq!(height, 3 * LINE_HEIGHT);
        assert!(places.iter().all(|(x, _)| *x == MARGIN));
        let (_, height) = legend_places(&["one", "two", "three"], 760);
        assert_eq!(height, LINE_HEIGHT);
        assert_eq!(cut("abcdef", 22), "ab…");
        assert_eq!(cut("abc", 22), "abc");
    }
}

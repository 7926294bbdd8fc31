//! Horizontal box plots. The box covers the middle half of a sample, a line is at the median, and
//! whiskers extend to minimum and maximum.

use super::frame::{Fault, Frame, series_ink};
use super::{Drawing, Plot};
use crate::escape::label;
use crate::palette::TEXT;
use crate::scale::{Scale, tick_text};
use plotters::element::{PathElement, Rectangle};
use plotters::style::Color;

const ROW_HEIGHT: u32 = 26;
const FOOT: u32 = 48;
/// Half of the height of a box; the distance between rows is 1.
const HALF: f64 = 0.3;

/// The five numbers of a sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Boxed {
    name: String,
    /// Minimum, first quartile, median, third quartile, maximum.
    five: [f64; 5],
}

impl Boxed {
    /// Creates a box from minimum, first quartile, median, third quartile and maximum. A box with a
    /// value that is not finite is not drawn.
    pub fn of_five(name: &str, five: [f64; 5]) -> Boxed {
        let is_number = five.iter().all(|value| !value.is_nan());
        assert!(!is_number || five.is_sorted(), "five numbers in order");
        Boxed {
            name: name.into(),
            five,
        }
    }

    /// Computes the five numbers of a sample. Quartiles are interpolated between values. Returns
    /// `None` if the sample has no finite values.
    pub fn of_sample(name: &str, values: &[f64]) -> Option<Boxed> {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = |quarter: usize| {
            let place = last as f64 * quarter as f64 / 4.0;
            let (below, share) = (place.floor() as usize, place.fract());
            let above = (below + 1).min(last);
            sorted[below] + (sorted[above] - sorted[below]) * share
        };
        Some(Boxed::of_five(name, [0, 1, 2, 3, 4].map(at)))
    }
}

pub(super) fn draw(plot: &Plot, boxes: &[Boxed], width: u32) -> Result<Drawing, Fault> {
    let names = boxes.iter().map(|boxed| boxed.name.clone()).collect();
    let frame = Frame {
        width,
        height: boxes.len().max(1) as u32 * ROW_HEIGHT + FOOT,
        x: plot.x.scale(boxes.iter().flat_map(|boxed| boxed.five)),
        y: Scale::places(names),
        x_label: &plot.x.label,
        y_label: "",
        legend: vec![],
        has_lines: false,
        mesh: (true, false),
        room_below: 0,
    };
    let ink = series_ink(0).colour();
    frame.draw(|_, chart| {
        let mut hover = Vec::new();
        for (row, boxed) in boxes.iter().enumerate() {
            if !boxed.five.iter().all(|value| frame.x.holds(*value)) {
                continue;
            }
            let [low, first, median, third, high] = boxed.five;
            let y = row as f64;
            let path = |points: Vec<(f64, f64)>, style| {
                chart.plotting_area().draw(&PathElement::new(points, style))
            };
            let corners = [(first, y - HALF), (third, y + HALF)];
            let middle_half = Rectangle::new(corners, ink.mix(0.3).filled());
            chart.plotting_area().draw(&middle_half)?;
            let thin = ink.stroke_width(1);
            path(vec![(low, y), (first, y)], thin)?;
            path(vec![(third, y), (high, y)], thin)?;
            for end in [low, high] {
                path(vec![(end, y - HALF / 2.0), (end, y + HALF / 2.0)], thin)?;
            }
            for quartile in [first, third] {
                path(vec![(quartile, y - HALF), (quartile, y + HALF)], thin)?;
            }
            let thick = TEXT.colour().stroke_width(3);
            path(vec![(median, y - HALF), (median, y + HALF)], thick)?;
            let [low, first, middle, third, high] = boxed.five.map(tick_text);
            let name = label(&boxed.name);
            let text = format!("{name}: {low} | {first} | {middle} | {third} | {high}");
            let (x, y) = chart.backend_coord(&(median, y));
            hover.push((x, y, text));
        }
        Ok(hover)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_interpolated() {
        let five = |values: &[f64]| Boxed::of_sample("", values).map(|boxed| boxed.five);
        assert_eq!(
            five(&[4.0, 1.0, 3.0, 2.0, 5.0]),
            Some([1.0, 2.0, 3.0, 4.0, 5.0])
        );
        assert_eq!(five(&[1.0, 2.0]), Some([1.0, 1.25, 1.5, 1.75, 2.0]));
        assert_eq!(five(&[7.0, f64::NAN]), Some([7.0; 5]));
        assert_eq!(five(&[f64::INFINITY]), None);
    }

    #[test]
    fn a_box_without_numbers_is_left_out() {
        let nothing = Boxed::of_five("nothing", [f64::NAN; 5]);
        let half = Boxed::of_five("half", [0.0, 1.0, f64::NAN, 3.0, 4.0]);
        let whole = Boxed::of_five("whole", [0.0, 1.0, 2.0, 3.0, 4.0]);
        let boxes = [nothing, half, whole];
        let plot = Plot::boxes("", crate::Axis::linear("ms"), boxes.to_vec());
        let drawing = draw(&plot, &boxes, 600);
        let hover = drawing.map(|drawing| drawing.hover.len()).ok();
        assert_eq!(hover, Some(1));
    }
}

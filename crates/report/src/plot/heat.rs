//! Heat-maps: a coloured cell for each pair of column and row.

use super::frame::{Fault, Frame, MARGIN, Root, filled, text_style, text_width};
use super::{Drawing, Plot};
use crate::escape::label;
use crate::palette::{RAMP, TEXT};
use crate::scale::{Scale, tick_text};
use plotters::element::{Rectangle, Text};

const ROW_HEIGHT: u32 = 20;
const ROWS_HEIGHT_MIN: u32 = 120;
const ROWS_HEIGHT_MAX: u32 = 420;
const FOOT: u32 = 66;
/// Height of the colour key, and width of one of its steps. A step is narrower if the texts would
/// not fit otherwise.
const KEY_HEIGHT: u32 = 24;
const KEY_WIDTH: i32 = 22;
const KEY_WIDTH_MIN: i32 = 6;

/// Values by column and row.
#[derive(Clone, Debug)]
pub struct Heat {
    columns: Vec<String>,
    rows: Vec<String>,
    values: Vec<Option<f64>>,
    unit: String,
    is_log: bool,
}

impl Heat {
    /// Creates a heat-map from values row by row; the first row is at the top. `unit` is the label
    /// of the colour key.
    pub fn new(
        columns: Vec<String>,
        rows: Vec<String>,
        values: Vec<Option<f64>>,
        unit: &str,
    ) -> Heat {
        assert_eq!(
            values.len(),
            columns.len() * rows.len(),
            "a value for each field"
        );
        Heat {
            columns,
            rows,
            values,
            unit: unit.into(),
            is_log: false,
        }
    }

    /// Chooses colours by the logarithm of the value. Zero and negative values have no colour.
    #[must_use]
    pub fn log(mut self) -> Heat {
        self.is_log = true;
        self
    }

    fn is_shown(&self, value: f64) -> bool {
        value.is_finite() && (!self.is_log || value > 0.0)
    }

    fn ends(&self) -> (f64, f64) {
        let shown = self.values.iter().flatten().filter(|v| self.is_shown(**v));
        shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(*value), high.max(*value))
        })
    }

    /// Returns the index of a value's colour.
    fn step(&self, value: f64, (low, high): (f64, f64)) -> usize {
        let share = match (self.is_log, low < high) {
            (_, false) => 1.0,
            (true, true) => (value / low).ln() / (high / low).ln(),
            (false, true) => (value - low) / (high - low),
        };
        ((share * RAMP.len() as f64) as usize).min(RAMP.len() - 1)
    }
}

pub(super) fn draw(plot: &Plot, heat: &Heat, width: u32) -> Result<Drawing, Fault> {
    let rows_height = heat.rows.len() as u32 * ROW_HEIGHT;
    let rows_height = rows_height.clamp(ROWS_HEIGHT_MIN, ROWS_HEIGHT_MAX);
    let frame = Frame {
        width,
        height: rows_height + FOOT,
        x: Scale::places(heat.columns.clone()),
        y: Scale::places(heat.rows.clone()),
        x_label: &plot.x.label,
        y_label: &plot.y.label,
        legend: vec![],
        has_lines: false,
        mesh: (false, false),
        room_below: KEY_HEIGHT,
    };
    let ends = heat.ends();
    frame.draw(|root, chart| {
        let mut hover = Vec::new();
        for (at, value) in heat.values.iter().enumerate() {
            let Some(value) = value.filter(|value| heat.is_shown(*value)) else {
                continue;
            };
            let (row, column) = (at / heat.columns.len(), at % heat.columns.len());
            let (x, y) = (column as f64, row as f64);
            let (left, top) = chart.backend_coord(&(x - 0.5, y - 0.5));
            let (right, bottom) = chart.backend_coord(&(x + 0.5, y + 0.5));
            let style = filled(RAMP[heat.step(value, ends)]);
            root.draw(&Rectangle::new([(left, top), (right, bottom)], style))?;
            let names = format!("{}, {}", heat.columns[column], heat.rows[row]);
            let text = format!(
                "{}: {} {}",
                label(&names),
                tick_text(value),
                label(&heat.unit)
            );
            hover.push(((left + right) / 2, (top + bottom) / 2, text));
        }
        if ends.0 <= ends.1 {
            draw_key(root, heat, ends)?;
        }
        Ok(hover)
    })
}

/// Draws the colour key, with the smallest and the largest value, below the map.
fn draw_key(root: &Root, heat: &Heat, ends: (f64, f64)) -> Result<(), Fault> {
    let (width, height) = root.dim_in_pixel();
    let top = height as i32 - KEY_HEIGHT as i32;
    let low = tick_text(ends.0);
    let high = format!("{} {}", tick_text(ends.1), label(&heat.unit));
    let left = MARGIN + text_width(&low) + 6;
    let steps = RAMP.len() as i32;
    let room = width as i32 - left - 6 - text_width(&high) - MARGIN;
    let key_width = (room / steps).clamp(KEY_WIDTH_MIN, KEY_WIDTH);
    root.draw(&Text::new(low, (MARGIN, top + 5), text_style(TEXT)))?;
    for (step, ink) in RAMP.into_iter().enumerate() {
        let x = left + step as i32 * key_width;
        let corners = [(x, top + 4), (x + key_width, top + 18)];
        root.draw(&Rectangle::new(corners, filled(ink)))?;
    }
    let right = left + steps * key_width + 6;
    root.draw(&Text::new(high, (right, top + 5), text_style(TEXT)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_run_from_the_least_to_the_greatest() {
        let values = [1.0, 10.0, 100.0, 0.0].map(Some).to_vec();
        let names = |count: usize| vec![String::new(); count];
        let heat = Heat::new(names(4), names(1), values, "").log();
        assert_eq!(heat.ends(), (1.0, 100.0));
        let steps = [1.0, 10.0, 100.0].map(|value| heat.step(value, heat.ends()));
        assert_eq!(steps, [0, 4, 8]);
        let flat = Heat::new(names(1), names(1), vec![Some(3.0)], "");
        assert_eq!(flat.step(3.0, flat.ends()), 8);
    }
    #[test]
    fn the_key_keeps_inside_a_narrow_drawing() {
        let heat = Heat::new(
            vec!["0".into()],
            vec!["1 KiB".into()],
            vec![Some(0.167)],
            "share of requests",
        );
        let plot = Plot::heat("", "", "", heat);
        let svg = plot.draw(360).svg;
        let end = svg.find("0.167 share").expect("the key names its end");
        let tag = &svg[svg[..end].rfind("<text").expect("it is a text")..end];
        let x = tag
            .split(" x=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        let x: i32 = x.and_then(|x| x.parse().ok()).expect("it has a place");
        assert!(x + text_width("0.167 share of requests") <= 360, "{tag}");
    }
}

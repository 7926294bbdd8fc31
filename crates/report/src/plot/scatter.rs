//! Scatter plots.

use super::frame::{Fault, Frame, mark};
use super::{Drawing, Plot};
use crate::escape::label;
use crate::scale::tick_text;

const HEIGHT: u32 = 300;
/// Maximum number of points drawn per cloud.
const POINTS_MAX: usize = 2_000;

/// A named cloud of points.
#[derive(Clone, Debug)]
pub struct Cloud {
    name: String,
    points: Vec<(f64, f64)>,
    labels: Vec<String>,
}

impl Cloud {
    /// Creates a cloud of points in any order. If there are more than 2,000, an evenly spaced
    /// selection is drawn.
    pub fn new(name: &str, points: Vec<(f64, f64)>) -> Cloud {
        Cloud {
            name: name.into(),
            points,
            labels: Vec::new(),
        }
    }

    /// Sets the name of each point, which is shown on hover.
    #[must_use]
    pub fn with_labels(mut self, labels: Vec<String>) -> Cloud {
        assert_eq!(labels.len(), self.points.len(), "a label for each point");
        self.labels = labels;
        self
    }
}

pub(super) fn draw(plot: &Plot, clouds: &[Cloud], width: u32) -> Result<Drawing, Fault> {
    let points = || clouds.iter().flat_map(|cloud| &cloud.points);
    let frame = Frame {
        width,
        height: HEIGHT,
        x: plot.x.scale(points().map(|point| point.0)),
        y: plot.y.scale(points().map(|point| point.1)),
        x_label: &plot.x.label,
        y_label: &plot.y.label,
        legend: clouds.iter().map(|cloud| cloud.name.as_str()).collect(),
        has_lines: false,
        mesh: (true, true),
        room_below: 0,
    };
    frame.draw(|root, chart| {
        let mut hover = Vec::new();
        for (index, cloud) in clouds.iter().enumerate() {
            let step = cloud.points.len().div_ceil(POINTS_MAX).max(1);
            for at in (0..cloud.points.len()).step_by(step) {
                let (x, y) = cloud.points[at];
                if !frame.x.holds(x) || !frame.y.holds(y) {
                    continue;
                }
                let place = chart.backend_coord(&(x, y));
                mark(root, index, place)?;
                let name = cloud.labels.get(at).unwrap_or(&cloud.name);
                let text = format!("{}: {}, {}", label(name), tick_text(x), tick_text(y));
                hover.push((place.0, place.1, text));
            }
        }
        Ok(hover)
    })
}

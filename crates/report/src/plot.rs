//! Kinds of plots, and the data that each shows.
//!
//! The crate `plotters` draws axes, meshes and shapes as SVG. Each plot is drawn twice, for wide
//! and for narrow windows, so that its text has the same size in both.

mod bars;
mod boxes;
mod frame;
mod heat;
mod lines;
mod scatter;

pub use bars::Bars;
pub use boxes::Boxed;
pub use heat::Heat;
pub use lines::Line;
pub use scatter::Cloud;

/// Label and scale of an axis.
#[derive(Clone, Debug)]
pub struct Axis {
    label: String,
    is_log: bool,
    has_zero: bool,
}

impl Axis {
    /// Creates a linear axis. The label names the unit.
    pub fn linear(label: &str) -> Axis {
        Axis {
            label: label.into(),
            is_log: false,
            has_zero: false,
        }
    }

    /// Creates a logarithmic axis. Zero and negative numbers are omitted.
    pub fn log(label: &str) -> Axis {
        Axis {
            label: label.into(),
            is_log: true,
            has_zero: false,
        }
    }

    /// Extends the axis to zero. It has no effect on a logarithmic axis.
    #[must_use]
    pub fn from_zero(mut self) -> Axis {
        self.has_zero = true;
        self
    }

    fn scale(&self, values: impl Iterator<Item = f64>) -> crate::scale::Scale {
        crate::scale::Scale::numbers(values, self.is_log, self.has_zero)
    }
}

#[derive(Clone, Debug)]
enum Kind {
    Lines(Vec<Line>),
    Scatter(Vec<Cloud>),
    Bars(Vec<String>, Vec<Bars>),
    Boxes(Vec<Boxed>),
    Heat(Heat),
}

/// One plot with its title.
#[derive(Clone, Debug)]
pub struct Plot {
    title: String,
    x: Axis,
    y: Axis,
    kind: Kind,
}

/// Text shown at each point of a plot, with the point's position in the drawing.
pub(crate) type Hover = Vec<(i32, i32, String)>;

/// A plot as SVG, and the texts of its points.
pub(crate) struct Drawing {
    pub svg: String,
    pub hover: Hover,
}

impl Plot {
    fn new(title: &str, x: Axis, y: Axis, kind: Kind) -> Plot {
        Plot {
            title: title.into(),
            x,
            y,
            kind,
        }
    }

    /// Creates a line plot. Lines may have bands.
    pub fn lines(title: &str, x: Axis, y: Axis, lines: Vec<Line>) -> Plot {
        Plot::new(title, x, y, Kind::Lines(lines))
    }

    /// Creates a plot of points.
    pub fn scatter(title: &str, x: Axis, y: Axis, clouds: Vec<Cloud>) -> Plot {
        Plot::new(title, x, y, Kind::Scatter(clouds))
    }

    /// Creates a plot of horizontal bars, with one group for each category, from top to bottom.
    /// Each series has a value per category.
    pub fn bars(title: &str, value: Axis, categories: Vec<String>, series: Vec<Bars>) -> Plot {
        for bars in &series {
            assert_eq!(bars.len(), categories.len(), "a value for each category");
        }
        let kind = Kind::Bars(categories, series);
        Plot::new(title, value, Axis::linear(""), kind)
    }

    /// Creates a plot of horizontal boxes, one for each sample, from top to bottom.
    pub fn boxes(title: &str, value: Axis, boxes: Vec<Boxed>) -> Plot {
        Plot::new(title, value, Axis::linear(""), Kind::Boxes(boxes))
    }

    /// Creates a heat-map.
    pub fn heat(title: &str, column_label: &str, row_label: &str, heat: Heat) -> Plot {
        let (x, y) = (Axis::linear(column_label), Axis::linear(row_label));
        Plot::new(title, x, y, Kind::Heat(heat))
    }

    /// Returns the title.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Draws the plot at a width in pixels.
    pub(crate) fn draw(&self, width: u32) -> Drawing {
        let drawn = match &self.kind {
            Kind::Lines(lines) => lines::draw(self, lines, width),
            Kind::Scatter(clouds) => scatter::draw(self, clouds, width),
            Kind::Bars(categories, series) => bars::draw(self, categories, series, width),
            Kind::Boxes(boxes) => boxes::draw(self, boxes, width),
            Kind::Heat(heat) => heat::draw(self, heat, width),
        };
        drawn.expect("a drawing into a string has nothing to fail at")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plots() -> Vec<Plot> {
        let (x, y) = (Axis::linear("s"), Axis::log("bytes"));
        let line = Line::new(
            "a<b",
            vec![(0.0, 1.0), (1.0, f64::NAN), (2.0, 100.0), (3.0, -1.0)],
        )
        .with_band(vec![(0.0, 0.5, 2.0), (2.0, 50.0, 200.0)]);
        let cloud = Cloud::new("c", vec![(1.0, 2.0), (f64::INFINITY, 1.0)]);
        let names = vec!["x&y".to_string(), "long ".repeat(30)];
        let bars = Bars::new("s", vec![Some(3.0), None]).with_ranges(vec![Some((2.0, 4.0)), None]);
        let boxed = Boxed::of_sample("b", &[1.0, 2.0, 3.0, 4.0, 100.0]);
        let heat = Heat::new(
            vec!["0".into(), "1".into()],
            vec!["small".into()],
            vec![Some(1.0), None],
            "objects",
        );
        vec![
            Plot::lines("l", x.clone(), y.clone(), vec![line]),
            Plot::scatter("s", x.clone(), y, vec![cloud]),
            Plot::bars("b", x.clone(), names, vec![bars]),
            Plot::boxes("x", x, vec![boxed.expect("it has values")]),
            Plot::heat("h", "time", "size", heat),
        ]
    }

    /// Whether every opened tag is closed, by counting.
    fn is_balanced(svg: &str) -> bool {
        let closed = svg.matches("/>").count() + svg.matches("</").count() * 2;
        svg.matches('<').count() == closed && !svg.contains("NaN") && !svg.contains("inf")
    }

    #[test]
    fn every_kind_is_drawn_wide_and_narrow_with_a_hover_text_for_each_point() {
        for (plot, points) in plots().iter().zip([2, 1, 1, 1, 1]) {
            for width in [320, 760] {
                let drawing = plot.draw(width);
                assert!(is_balanced(&drawing.svg), "{}", drawing.svg);
                assert_eq!(
                    drawing.hover.len(),
                    points,
                    "{}: {:?}",
                    plot.title,
                    drawing.hover
                );
                let is_inside = |(x, _, _): &(i32, i32, String)| (0..=width as i32).contains(x);
                assert!(drawing.hover.iter().all(is_inside), "{:?}", drawing.hover);
            }
        }
    }

    #[test]
    fn plots_of_nothing_are_drawn() {
        let axis = || Axis::log("x");
        let none = Heat::new(vec![], vec![], vec![], "");
        for plot in [
            Plot::lines("", axis(), axis(), vec![]),
            Plot::lines("", axis(), axis(), vec![Line::new("", vec![])]),
            Plot::scatter("", axis(), axis(), vec![]),
            Plot::bars("", axis(), vec![], vec![]),
            Plot::boxes("", axis(), vec![]),
            Plot::heat("", "", "", none),
        ] {
            assert!(is_balanced(&plot.draw(320).svg));
        }
    }

    #[test]
    fn labels_of_any_text_stay_text() {
        let line = Line::new("</svg><script>\u{0}\n", vec![(0.0, 1.0)]);
        let plot = Plot::lines("", Axis::linear("<"), Axis::linear("&"), vec![line]);
        let svg = plot.draw(760).svg;
        assert!(!svg.contains("<script>"), "{svg}");
        assert!(!svg.contains('\0'), "{svg}");
    }
}

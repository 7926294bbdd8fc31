//! A report as a page: its sections, and its output as text, Markdown and HTML.

use crate::escape::{html, stem};
use crate::palette::{self, FAINT, GRID, PAPER, TEXT};
use crate::plot::{Drawing, Plot};
use crate::table::Table;
use std::fmt::Write;

/// Widths in pixels that plots are drawn for. A plot in a separate file has the first.
const WIDE: u32 = 760;
const NARROW: u32 = 360;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    List(Vec<String>),
    Table(Table),
    Plot(Box<Plot>),
}

/// A part of the page under a heading.
#[derive(Clone, Debug)]
pub struct Section {
    heading: String,
    place: String,
    parts: Vec<Part>,
}

/// A report.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    command: String,
    facts: Vec<(String, String)>,
    sections: Vec<Section>,
}

/// A plot for a separate file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// File name without its ending, unique within a page.
    pub stem: String,
    /// The plot as SVG, in the colours of a light page.
    pub svg: String,
}

impl Figure {
    /// Renders the plot as a PNG on white, at two pixels per unit of the SVG.
    #[cfg(feature = "png")]
    pub fn to_png(&self) -> Vec<u8> {
        crate::png::of_svg(&self.svg)
    }
}

impl Section {
    /// Sets the place in a Markdown document for the section's text and tables.
    pub fn place(&mut self, place: &str) -> &mut Section {
        self.place = place.into();
        self
    }

    /// Appends a paragraph.
    pub fn text(&mut self, text: &str) -> &mut Section {
        self.parts.push(Part::Text(text.into()));
        self
    }

    /// Appends a list of sentences. An empty list is omitted.
    pub fn list(&mut self, items: Vec<String>) -> &mut Section {
        if !items.is_empty() {
            self.parts.push(Part::List(items));
        }
        self
    }

    /// Appends a table, which is sortable in HTML. A table without rows is omitted.
    pub fn table(&mut self, table: Table) -> &mut Section {
        if !table.is_empty() {
            self.parts.push(Part::Table(table));
        }
        self
    }

    /// Appends a plot. Consecutive plots are shown side by side if the window is wide enough.
    pub fn plot(&mut self, plot: Plot) -> &mut Section {
        self.parts.push(Part::Plot(Box::new(plot)));
        self
    }

    fn plots(&self) -> impl Iterator<Item = &Plot> {
        self.parts.iter().filter_map(|part| match part {
            Part::Plot(plot) => Some(&**plot),
            _ => None,
        })
    }
}

impl Page {
    /// Creates an empty report.
    pub fn new(title: &str) -> Page {
        Page {
            title: title.into(),
            command: String::new(),
            facts: Vec::new(),
            sections: Vec::new(),
        }
    }

    /// Sets the command that reproduces the report.
    pub fn command(&mut self, command: &str) -> &mut Page {
        self.command = command.into();
        self
    }

    /// Adds a fact about the whole page, such as the machine, a version or a date.
    pub fn fact(&mut self, name: &str, value: &str) -> &mut Page {
        self.facts.push((name.into(), value.into()));
        self
    }

    /// Appends a section. A section that stays empty is omitted.
    pub fn section(&mut self, heading: &str) -> &mut Section {
        self.sections.push(Section {
            heading: heading.into(),
            place: String::new(),
            parts: Vec::new(),
        });
        let last = self.sections.len() - 1;
        &mut self.sections[last]
    }

    /// Returns every plot as an SVG for a separate file, in the page's order.
    pub fn figures(&self) -> Vec<Figure> {
        let plots = self.sections.iter().flat_map(Section::plots);
        let figures = plots.enumerate().map(|(index, plot)| Figure {
            stem: format!("{:02}-{}", index + 1, stem(plot.title())),
            svg: plot.draw(WIDE).svg,
        });
        figures.collect()
    }

    /// Formats everything except plots as text for a terminal.
    pub fn to_text(&self) -> String {
        let sections = self.sections.iter().map(Section::to_text);
        let texts: Vec<String> = sections.filter(|text| !text.is_empty()).collect();
        texts.join("\n")
    }

    /// Returns the sections that have a place in a document, each with its text and tables in
    /// Markdown. Sections with the same place are joined. The command and the facts precede each
    /// part.
    pub fn to_markdown(&self) -> Vec<(String, String)> {
        let mut parts: Vec<(String, String)> = Vec::new();
        let placed = |section: &&Section| !section.place.is_empty() && !section.parts.is_empty();
        for section in self.sections.iter().filter(placed) {
            let text = section.to_markdown();
            match parts.iter_mut().find(|(place, _)| *place == section.place) {
                Some((_, part)) => *part += &text,
                None => parts.push((section.place.clone(), self.origin() + &text)),
            }
        }
        parts
    }

    /// Formats the command and the facts as a line of Markdown.
    fn origin(&self) -> String {
        let command = (!self.command.is_empty()).then(|| format!("`{}`", self.command));
        let facts = self
            .facts
            .iter()
            .map(|(name, value)| format!("{name} {value}"));
        let all: Vec<String> = command.into_iter().chain(facts).collect();
        match all.is_empty() {
            true => String::new(),
            false => format!("{}.\n", all.join("; ")),
        }
    }

    /// Formats the whole page as HTML. It loads no other file, because the style sheet, the script
    /// and the plots are embedded.
    pub fn to_html(&self) -> String {
        let title = html(&self.title);
        let mut out =
            String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
        out.push_str("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n");
        out.push_str("<meta name=\"color-scheme\" content=\"light dark\">\n");
        // This policy makes the browser refuse to load or send anything.
        out.push_str("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\">\n");
        out.push_str("<link rel=\"icon\" href=\"data:,\">\n");
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            out,
            "<title>{title}</title>\n<style>{}</style></head>",
            style()
        );
        let _ = writeln!(out, "<body><main><header><h1>{title}</h1>");
        if !self.command.is_empty() {
            let _ = writeln!(
                out,
                "<pre class=\"command\"><code>{}</code></pre>",
                html(&self.command)
            );
        }
        if !self.facts.is_empty() {
            out.push_str("<dl>");
            for (name, value) in &self.facts {
                let _ = write!(
                    out,
                    "<div><dt>{}</dt><dd>{}</dd></div>",
                    html(name),
                    html(value)
                );
            }
            out.push_str("</dl>\n");
        }
        out.push_str("</header>\n");
        let sections = self
            .sections
            .iter()
            .filter(|section| !section.parts.is_empty());
        for (index, section) in sections.enumerate() {
            section.to_html(index, &mut out);
        }
        let _ = write!(
            out,
            "<div id=\"tip\" role=\"status\" hidden></div></main>\n<script>{SCRIPT}</script></body></html>\n"
        );
        out
    }
}

impl Section {
    /// Formats the heading and the parts except plots, separated by blank lines. Returns an empty
    /// text if there are no such parts.
    fn to_text(&self) -> String {
        let body = self.written(Table::to_text);
        match body.is_empty() {
            true => body,
            false => format!("{}\n\n{body}", self.heading),
        }
    }

    /// Formats the parts except plots, each after a blank line, without the heading.
    fn to_markdown(&self) -> String {
        let body = self.written(Table::to_markdown);
        match body.is_empty() {
            true => body,
            false => format!("\n{body}"),
        }
    }

    fn written(&self, of_table: fn(&Table) -> String) -> String {
        let parts = self.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(format!("{text}\n")),
            Part::List(items) => Some(items.iter().map(|item| format!("- {item}\n")).collect()),
            Part::Table(table) if table.caption().is_empty() => Some(of_table(table)),
            Part::Table(table) => Some(format!("{}\n\n{}", table.caption(), of_table(table))),
            Part::Plot(_) => None,
        });
        parts.collect::<Vec<String>>().join("\n")
    }

    fn to_html(&self, index: usize, out: &mut String) {
        let id = format!("{}-{}", index + 1, stem(&self.heading));
        let _ = writeln!(out, "<section id=\"{id}\"><h2>{}</h2>", html(&self.heading));
        let mut is_among_plots = false;
        for part in &self.parts {
            let is_plot = matches!(part, Part::Plot(_));
            if is_plot != is_among_plots {
                out.push_str(if is_plot {
                    "<div class=\"plots\">\n"
                } else {
                    "</div>\n"
                });
                is_among_plots = is_plot;
            }
            match part {
                Part::Text(text) => {
                    let _ = writeln!(out, "<p>{}</p>", html(text));
                }
                Part::List(items) => {
                    out.push_str("<ul>");
                    for item in items {
                        let _ = write!(out, "<li>{}</li>", html(item));
                    }
                    out.push_str("</ul>\n");
                }
                Part::Table(table) => table.to_html(out),
                Part::Plot(plot) => figure(plot, out),
            }
        }
        out.push_str(if is_among_plots {
            "</div></section>\n"
        } else {
            "</section>\n"
        });
    }
}

/// Writes a plot twice, for wide and for narrow windows. The style sheet shows one of them.
fn figure(plot: &Plot, out: &mut String) {
    let _ = writeln!(
        out,
        "<figure><figcaption>{}</figcaption>",
        html(plot.title())
    );
    for (class, width) in [("wide", WIDE), ("narrow", NARROW)] {
        let Drawing { svg, hover } = plot.draw(width);
        let points = html(&serde_json::json!(hover).to_string());
        let opening = format!(
            "<svg class=\"{class}\" role=\"img\" tabindex=\"0\" aria-label=\"{}\" data-points=\"{points}\" ",
            html(plot.title())
        );
        out.push_str(&svg.replacen("<svg ", &opening, 1));
    }
    out.push_str("</figure>\n");
}

/// Returns the style sheet with the colours of the palette.
fn style() -> String {
    let colours = |choose: fn(palette::Ink) -> u32| {
        [
            ("paper", PAPER),
            ("text", TEXT),
            ("faint", FAINT),
            ("grid", GRID),
        ]
        .map(|(name, ink)| format!("--{name}:#{:06X};", choose(ink)))
        .concat()
    };
    format!(
        ":root{{{}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{}}}{}}}\n{STYLE}",
        colours(palette::Ink::light),
        colours(palette::Ink::dark),
        palette::dark_rules()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Line};

    fn page() -> Page {
        let mut page = Page::new("A <title> & more");
        page.command("mayfly bench \"x\" > y")
            .fact("machine", "2 <cores>");
        let line = |name: &str| vec![Line::new(name, vec![(0.0, 1.0), (1.0, 2.0)])];
        let axis = || Axis::linear("s");
        let section = page.section("First: \"one\"");
        section.text("a < b").list(vec!["<li>".into()]);
        section.plot(Plot::lines(
            "Same",
            axis(),
            axis(),
            line("<script>alert(1)</script>"),
        ));
        section.plot(Plot::lines("Same", axis(), axis(), line("b\0")));
        let mut table = Table::new(&["a"]);
        table.row(vec![1.0.into()]);
        section.table(table);
        page
    }

    #[test]
    fn a_page_is_whole_and_loads_nothing() {
        let html = page().to_html();
        assert!(html.starts_with("<!doctype html>"));
        assert!(html.contains("<title>A &lt;title&gt; &amp; more</title>"));
        assert!(html.contains("<h2>First: &quot;one&quot;</h2>"));
        for tag in [
            "html", "head", "body", "main", "section", "figure", "svg", "div", "table", "ul",
        ] {
            let (opened, closed) = (format!("<{tag}"), format!("</{tag}>"));
            let count = |text: &str| html.matches(text).count();
            let opened = count(&format!("{opened} ")) + count(&format!("{opened}>"));
            assert_eq!(opened, count(&closed), "{tag}");
        }
        // The page has one script, its own. The namespace of SVG is the only address.
        assert_eq!(html.matches("<script").count(), 1);
        assert_eq!(
            html.matches("://").count(),
            html.matches("http://www.w3.org/2000/svg").count()
        );
        assert!(!html.contains('\0'));
    }

    #[test]
    fn neighbouring_plots_share_a_row_and_figures_have_names_of_their_own() {
        let page = page();
        let html = page.to_html();
        assert_eq!(html.matches("<div class=\"plots\">").count(), 1);
        assert_eq!(html.matches("<figure>").count(), 2);
        assert_eq!(html.matches("data-points=\"[[").count(), 4);
        let stems: Vec<String> = page
            .figures()
            .into_iter()
            .map(|figure| figure.stem)
            .collect();
        assert_eq!(stems, ["01-same", "02-same"]);
        assert!(page.figures()[0].svg.starts_with("<svg width=\"760\""));
    }

    #[test]
    fn the_dark_page_exchanges_every_colour_that_plots_use() {
        let style = style();
        let html = page().to_html();
        for part in html.split("fill=\"#").skip(1) {
            let rule = format!("svg [fill=\"#{}\"]{{", &part[..6]);
            assert!(style.contains(&rule), "{rule}");
        }
    }
}

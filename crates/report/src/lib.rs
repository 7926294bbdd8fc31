//! Reports as one HTML page that needs no network: text, sortable tables, plots with hover values.
//!
//! A [`Page`] holds what a run found: the command that made it, facts about the machine, sections of text,
//! [`Table`]s and [`Plot`]s. [`Page::to_html`] writes the page, [`Page::figures`] the same plots as
//! SVG files of their own, which [`Figure::to_png`] turns into images. Pages follow the reader's choice of light or dark, fit narrow and wide
//! windows, and print.
//!
//! Everything handed in is text: whatever a label holds, quotes, tags or control characters, is shown
//! and never interpreted. Numbers that are not finite are left out of plots.
//!
//! Deliberately absent: knowledge of caches, servers and traces; files; statistics beyond the five numbers
//! of a box.
//!
//! ```
//! use report::{Axis, Line, Page, Plot, Table};
//! let mut page = Page::new("Memory while keys die");
//! page.command("mayfly bench …");
//! let section = page.section("Over time");
//! let wheel = Line::new("wheel", vec![(0.0, 10.0), (1.0, 12.0)]);
//! section.plot(Plot::lines("Memory", Axis::linear("seconds"), Axis::linear("MiB"), vec![wheel]));
//! let mut table = Table::new(&["index", "peak, MiB"]);
//! table.row(vec!["wheel".into(), 12.0.into()]);
//! section.table(table);
//! assert!(page.to_html().contains("<title>Memory while keys die</title>"));
//! ```
#![forbid(unsafe_code)]

mod escape;
mod page;
mod palette;
mod plot;
mod png;
mod scale;
mod table;

pub use page::{Figure, Page, Section};
pub use plot::{Axis, Bars, Boxed, Cloud, Heat, Line, Plot};
pub use scale::tick_text;
pub use table::{Cell, Table};

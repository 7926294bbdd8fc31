//! Reports: typed tables and plots, as text, Markdown, CSV, JSON or a single HTML page.
//!
//! A [`Page`] holds the results of a run: the command that made it, facts about the machine, and
//! sections of text, [`Table`]s and [`Plot`]s. [`Page::to_html`] writes a page that needs no
//! network, with sortable tables and hover values. [`Page::to_text`] writes the same for a terminal
//! and [`Page::to_markdown`] for documents, both without plots. [`Page::figures`] returns the plots
//! as SVG files, which the feature `png` converts to images. HTML pages follow the reader's choice
//! of light or dark, fit narrow and wide windows, and print well.
//!
//! All text is data: quotes, tags and control characters in a label are shown and never
//! interpreted. Numbers that are not finite are left out of plots.
//!
//! Deliberately absent: knowledge of caches, servers and traces; files; statistics beyond medians
//! and the five numbers of a box.
//!
//! ```
//! use report::{Axis, Column, Line, Page, Plot, Table};
//! let mut page = Page::new("Memory while keys expire");
//! page.command("mayfly bench …");
//! let section = page.section("Over time");
//! let wheel = Line::new("wheel", vec![(0.0, 10.0), (1.0, 12.0)]);
//! section.plot(Plot::lines("Memory", Axis::linear("seconds"), Axis::linear("MiB"), vec![wheel]));
//! let peaks = [("wheel", 12.0), ("radix", 13.5)];
//! let table = Table::of(&peaks)
//!     .column(Column::text("index"), |row| row.0)
//!     .column(Column::number("peak").unit("MiB"), |row| row.1);
//! section.table(table.finish().with_caption("Peak memory"));
//! assert!(page.to_text().contains("wheel       12.0\n"));
//! assert!(page.to_html().contains("<title>Memory while keys expire</title>"));
//! ```
#![forbid(unsafe_code)]

mod document;
mod escape;
mod page;
mod palette;
mod plot;
#[cfg(feature = "png")]
mod png;
mod scale;
mod table;

pub use document::fill;
pub use page::{Figure, Page, Section};
pub use plot::{Axis, Bars, Boxed, Cloud, Heat, Line, Plot};
pub use scale::tick_text;
pub use table::{Cell, Column, Format, Table, TableOf, distinct, median};

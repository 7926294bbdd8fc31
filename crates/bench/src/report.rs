//! Reports as JSON, pages, files of plots, and tables for documents.

use crate::error::{Error, Result};
use ::report::Page;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Prints a report as JSON to stdout.
pub(crate) fn json(report: &impl Serialize) -> Result<()> {
    let stdout = std::io::stdout().lock();
    serde_json::to_writer_pretty(stdout, report)
        .map_err(|error| Error::system("cannot print")(error.into()))?;
    println!();
    Ok(())
}

/// Where a report goes besides stdout.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Files {
    /// Write a page with plots to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write each plot as SVG into this folder
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Write the tables as Markdown: into their place in this file, if it has one, else over it
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

impl Files {
    /// Writes those that were asked for. `place` names the tables' place in a document.
    pub(crate) fn save(
        &self,
        place: &str,
        page: impl FnOnce() -> Page,
        tables: impl FnOnce() -> String,
    ) -> Result<()> {
        self.save_parts(page, || vec![(place.into(), tables())])
    }

    /// The same with tables for several places: those that a document lacks make it be written over.
    pub(crate) fn save_parts(
        &self,
        page: impl FnOnce() -> Page,
        parts: impl FnOnce() -> Vec<(String, String)>,
    ) -> Result<()> {
        if self.html.is_some() || self.svg.is_some() {
            save_page(&page(), self.html.as_deref(), self.svg.as_deref())?;
        }
        if let Some(path) = &self.markdown {
            let before = match std::fs::read_to_string(path) {
                Ok(text) => text,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
                Err(error) => {
                    return Err(Error::system(format!("cannot read {}", path.display()))(
                        error,
                    ));
                }
            };
            write(path, put_all_into(before, &parts()))?;
        }
        Ok(())
    }
}

fn write(path: &Path, text: String) -> Result<()> {
    let failed = Error::system(format!("cannot write {}", path.display()));
    std::fs::write(path, text).map_err(failed)
}

fn save_page(page: &Page, html: Option<&Path>, svg: Option<&Path>) -> Result<()> {
    if let Some(folder) = svg {
        let failed = Error::system(format!("cannot make {}", folder.display()));
        std::fs::create_dir_all(folder).map_err(failed)?;
        for figure in page.figures() {
            write(&folder.join(format!("{}.svg", figure.stem)), figure.svg)?;
        }
    }
    match html {
        Some(path) => write(path, page.to_html()),
        None => Ok(()),
    }
}

/// The document with all tables in their places; where one is missing, the tables alone.
fn put_all_into(document: String, parts: &[(String, String)]) -> String {
    let mut places = parts.iter();
    let filled = places.try_fold(document, |document, (place, tables)| {
        put_into(&document, place, tables)
    });
    filled.unwrap_or_else(|| parts.iter().map(|(_, tables)| tables.as_str()).collect())
}

/// The document with the tables between the marks of their place; none if it lacks them.
fn put_into(document: &str, place: &str, tables: &str) -> Option<String> {
    let (begin, end) = (
        format!("<!-- {place}: begin -->\n"),
        format!("<!-- {place}: end -->"),
    );
    let (before, rest) = document.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!(
        "{before}{begin}\n{}\n\n{end}{after}",
        tables.trim()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_go_between_their_marks_and_nowhere_else() {
        let document = "# Lab\n<!-- a: begin -->\nold\n<!-- a: end -->\nb\n<!-- c: begin -->\n<!-- c: end -->\n";
        let once = put_into(document, "a", "new\n").expect("the place is there");
        assert_eq!(
            once,
            "# Lab\n<!-- a: begin -->\n\nnew\n\n<!-- a: end -->\nb\n<!-- c: begin -->\n<!-- c: end -->\n"
        );
        assert_eq!(put_into(&once, "a", "new\n").as_ref(), Some(&once));
        assert_eq!(put_into(document, "b", "new"), None);
        let part = |place: &str, tables: &str| (place.to_owned(), tables.to_owned());
        let both = put_all_into(document.into(), &[part("a", "1\n"), part("c", "2\n")]);
        assert!(both.contains("\n1\n") && both.contains("\n2\n") && both.contains("\nb\n"));
        let alone = put_all_into(document.into(), &[part("a", "1\n"), part("d", "2\n")]);
        assert_eq!(alone, "1\n2\n");
    }
}

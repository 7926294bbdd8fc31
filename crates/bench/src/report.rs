//! Reports as text or JSON on standard output, and as files.

use crate::error::{Error, Result};
use ::report::Page;
use serde::Serialize;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Prints a report as JSON to standard output.
pub(crate) fn json(report: &impl Serialize) -> Result<()> {
    let stdout = std::io::stdout().lock();
    serde_json::to_writer_pretty(stdout, report)
        .map_err(|error| Error::system("cannot print")(error.into()))?;
    println!();
    Ok(())
}

/// Files that a report is written to.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Files {
    /// Write a page with plots to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write each plot as SVG into this folder
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Write the tables as Markdown to this file: between their marks if the file has them,
    /// otherwise in place of its content
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

impl Files {
    /// Writes the page to the requested files, and the report or the page's text to standard
    /// output.
    pub(crate) fn write_report(
        &self,
        report: &impl Serialize,
        page: Page,
        is_json: bool,
    ) -> Result<()> {
        if let Some(folder) = &self.svg {
            let failed = Error::system(format!("cannot make {}", folder.display()));
            std::fs::create_dir_all(folder).map_err(failed)?;
            for figure in page.figures() {
                write(&folder.join(format!("{}.svg", figure.stem)), &figure.svg)?;
            }
        }
        if let Some(path) = &self.html {
            write(path, &page.to_html())?;
        }
        if let Some(path) = &self.markdown {
            let before = match std::fs::read_to_string(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
                text => text.map_err(Error::system(format!("cannot read {}", path.display()))),
            };
            write(path, &::report::fill(&before?, &page.to_markdown()))?;
        }
        if is_json {
            return json(report);
        }
        print!("{}", page.to_text());
        Ok(())
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    let failed = Error::system(format!("cannot write {}", path.display()));
    std::fs::write(path, text).map_err(failed)
}

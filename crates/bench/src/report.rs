//! Reports as JSON, pages and files of plots.

use crate::error::{Error, Result};
use ::report::Page;
use serde::Serialize;
use std::path::Path;

/// Prints a report as JSON to stdout.
pub(crate) fn json(report: &impl Serialize) -> Result<()> {
    let stdout = std::io::stdout().lock();
    serde_json::to_writer_pretty(stdout, report)
        .map_err(|error| Error::system("cannot print")(error.into()))?;
    println!();
    Ok(())
}

/// Writes a page to a file, and its plots into a folder, which is made if it is missing.
pub(crate) fn save(page: &Page, html: Option<&Path>, svg: Option<&Path>) -> Result<()> {
    let write = |path: &Path, text: String| {
        let failed = Error::system(format!("cannot write {}", path.display()));
        std::fs::write(path, text).map_err(failed)
    };
    if let Some(folder) = svg {
        let failed = Error::system(format!("cannot make {}", folder.display()));
        std::fs::create_dir_all(folder).map_err(failed)?;
        for figure in page.figures() {
            write(&folder.join(format!("{}.svg", figure.stem)), figure.svg)?;
        }
    }
    if let Some(path) = html {
        write(path, page.to_html())?;
    }
    Ok(())
}

//! Machine-readable output.

use crate::error::{Error, Result};
use serde::Serialize;

/// Prints a report as JSON to stdout.
pub(crate) fn json(report: &impl Serialize) -> Result<()> {
    let stdout = std::io::stdout().lock();
    serde_json::to_writer_pretty(stdout, report)
        .map_err(|error| Error::system("cannot print")(error.into()))?;
    println!();
    Ok(())
}

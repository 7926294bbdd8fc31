//! Output traces: a file or standard output.

use crate::memory::memory_share;
use ::trace::{Error, Format, Request, Spool, Summary, WriteOptions, Writer};
use anyhow::{Context, Result};
use clap::Args;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Number of objects whose next access is found in one backward pass. They take about 512 MiB.
const OBJECTS_A_PASS: usize = 1 << 24;

/// Arguments that select the output file and its format.
#[derive(Args)]
pub struct Output {
    /// File to write; - for standard output, which is CSV unless --to is given
    #[arg(value_name = "OUTPUT", default_value = "-")]
    output: PathBuf,
    /// Output format: csv, twitter, oracleGeneral, lcs, parquet, prepared or txt [default: by file
    /// extension]
    #[arg(long, value_name = "NAME")]
    to: Option<Format>,
    /// Columns of a CSV output [default: time,key,size,key_size,value_size,op,ttl,client]
    #[arg(long, value_name = "NAMES")]
    to_columns: Option<String>,
}

impl Output {
    /// Returns the output of `mayfly trace prepare`.
    pub fn prepared(output: PathBuf) -> Result<Self> {
        let name = output.display().to_string();
        let to = match name.as_str() {
            "-" => "prepared".parse().ok(),
            _ => Some(Format::of_name(&name)?),
        };
        anyhow::ensure!(
            to == "prepared".parse().ok(),
            "{name}: the name of a prepared trace must end in .prepared, plain or followed by .zst, .gz \
             or .xz"
        );
        Ok(Output {
            output,
            to,
            to_columns: None,
        })
    }

    /// Writes all requests. A file is renamed to its final name when it is complete.
    pub fn write(&self, requests: impl Iterator<Item = Result<Request, Error>>) -> Result<()> {
        let name = self.output.display().to_string();
        if self.output.as_os_str() == "-" {
            let format = self.to.unwrap_or(Format::CSV);
            return self.pour(&name, format, io::stdout(), requests);
        }
        let format = self.to.map_or_else(|| Format::of_name(&name), Ok)?;
        let cannot = || format!("cannot write {name}");
        // An existing output that is not a regular file, such as a pipe, is written to directly.
        let is_special = fs::metadata(&self.output).is_ok_and(|metadata| !metadata.is_file());
        if is_special {
            let file = OpenOptions::new().write(true).open(&self.output);
            return self.pour(&name, format, file.with_context(cannot)?, requests);
        }
        // An existing file with the temporary name is not overwritten.
        let unfinished = PathBuf::from(format!("{name}.{}.part", std::process::id()));
        let file = File::create_new(&unfinished)
            .with_context(|| format!("cannot write {}", unfinished.display()))?;
        let poured = self.pour(&name, format, file, requests);
        let renamed =
            poured.and_then(|()| fs::rename(&unfinished, &self.output).with_context(cannot));
        if renamed.is_err() {
            // A failure to remove the temporary file is ignored, because the first error is the one
            // to report.
            let _ = fs::remove_file(&unfinished);
        }
        renamed
    }

    fn pour(
        &self,
        name: &str,
        format: Format,
        output: impl Write + Send,
        requests: impl Iterator<Item = Result<Request, Error>>,
    ) -> Result<()> {
        let mut options = WriteOptions {
            format: Some(format),
            columns: self.to_columns.clone(),
            statistics: None,
            memory_limit: Some(memory_share()),
        };
        let asks_for_next = self
            .to_columns
            .as_ref()
            .is_some_and(|columns| columns.split(',').any(|column| column.trim() == "next"));
        if !format.has_next_access() && !asks_for_next {
            let mut writer = Writer::new(name, output, &options)?;
            for request in requests {
                writer.write(&request?)?;
            }
            writer.finish()?;
            return Ok(());
        }
        let storage = self.storage().context("cannot make a temporary file")?;
        let failed = || "the temporary file failed";
        let mut spool = Spool::new(storage);
        let mut summary = Summary::default();
        for request in requests {
            let request = request?;
            summary.add(&request);
            spool.push(&request).with_context(failed)?;
        }
        spool.annotate(OBJECTS_A_PASS).with_context(failed)?;
        options.statistics = Some(summary.statistics());
        let mut writer = Writer::new(name, output, &options)?;
        for request in spool.requests().with_context(failed)? {
            writer.write(&request.with_context(failed)?)?;
        }
        writer.finish()?;
        Ok(())
    }

    /// Creates an unnamed temporary file in the output's folder, because a trace may be larger than
    /// the system's temporary folder.
    fn storage(&self) -> io::Result<File> {
        let folder = match self.output.parent() {
            Some(folder) if folder.is_dir() => folder.to_owned(),
            Some(folder) if folder == Path::new("") && self.output.as_os_str() != "-" => ".".into(),
            _ => std::env::temp_dir(),
        };
        let path = folder.join(format!(".mayfly-trace-{}", std::process::id()));
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        // The file is unlinked at once, so that its space is freed when the process ends, even
        // after a crash.
        fs::remove_file(&path)?;
        Ok(file)
    }
}

//! Input traces: a file or standard input, with a progress bar.

use super::arguments;
use crate::memory::memory_share;
use ::sim::{Columns, Interning};
use ::trace::{Error, Format, Options, Reader, Request};
use anyhow::{Context, Result};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

/// Arguments that select the input trace and its format.
#[derive(Args)]
pub struct Input {
    /// Trace to read; - for standard input
    trace: PathBuf,
    /// Input format: csv, tsv, twitter, cachebench, jsonl, oracleGeneral, lcs, vscsi, msr, tencent,
    /// alibaba, mqsim, lis, trc, txt, parquet or prepared [default: by file extension]
    #[arg(long, value_name = "NAME")]
    format: Option<Format>,
    /// Column names of a CSV file without a header, such as time,key,-,size; or the names that a
    /// header or JSON objects have for columns, such as time_ms=timestamp,key=hash_ids
    #[arg(long, value_name = "NAMES")]
    columns: Option<String>,
    /// Column delimiter of a CSV file, such as ; or tab [default: ,]
    #[arg(long, alias = "separator", value_name = "CHARACTER", value_parser = arguments::delimiter)]
    delimiter: Option<u8>,
    /// Lines to skip at the start of a CSV file
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    skip_lines: u64,
    /// Skip malformed lines and records, and report how many were skipped
    #[arg(long)]
    skip_bad: bool,
}

/// A trace that is being read.
pub struct Opened {
    reader: Reader<'static>,
    bar: ProgressBar,
}

impl Input {
    /// Returns the name of the trace for messages.
    pub fn name(&self) -> String {
        self.trace.display().to_string()
    }

    /// Returns true if the trace can be read only once.
    pub fn is_stream(&self) -> bool {
        self.trace.as_os_str() == "-"
    }

    /// Opens the trace.
    pub fn open(&self) -> Result<Opened> {
        let options = Options {
            format: self.format,
            columns: self.columns.clone(),
            delimiter: self.delimiter,
            skip_lines: self.skip_lines,
            skip_bad: self.skip_bad,
            memory_limit: Some(memory_share()),
        };
        let name = self.name();
        if self.is_stream() {
            let bar = ProgressBar::hidden();
            let reader = ::trace::open(&name, io::stdin().lock(), &options)?;
            return Ok(Opened { reader, bar });
        }
        let file = File::open(&self.trace).with_context(|| format!("cannot read {name}"))?;
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        let bar = ProgressBar::new(length);
        let style =
            ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} [{elapsed} < {eta}]");
        bar.set_style(style.expect("the template is well-formed"));
        let watched = Watched {
            file,
            bar: bar.clone(),
        };
        let reader = ::trace::open_file(&name, watched, &options)?;
        Ok(Opened { reader, bar })
    }
}

impl Opened {
    /// Returns an iterator over the remaining requests.
    pub fn requests(&mut self) -> impl Iterator<Item = Result<Request, Error>> + '_ {
        self.reader.by_ref()
    }

    /// Reads the rest of the trace for replays.
    pub fn columns(&mut self, name: &str, how: Interning) -> Result<Columns, sim::Error> {
        sim::read(name, how, &mut self.reader, |_| {})
    }

    /// Ends the progress bar and reports on standard error how many records were skipped.
    pub fn finish(self) {
        self.bar.finish_and_clear();
        if let Some(first) = self.reader.first_skipped() {
            let count = self.reader.skipped();
            eprintln!("mayfly: skipped {count} malformed records; the first: {first}");
        }
    }
}

/// Returns the file name without the endings of its format and compression.
pub fn stem(path: &str) -> &str {
    let (_, name) = ::trace::Compression::of_name(path.rsplit('/').next().unwrap_or(path));
    let name = name.strip_suffix(".bin").unwrap_or(name);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

/// File that advances the progress bar as it is read.
struct Watched {
    file: File,
    bar: ProgressBar,
}

impl Read for Watched {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.bar.inc(read as u64);
        Ok(read)
    }
}

impl Seek for Watched {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.file.seek(position)
    }
}

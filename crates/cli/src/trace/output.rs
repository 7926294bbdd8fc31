//! A trace to be written, to a file or to standard output.

use ::trace::{Error, Format, Request, Spool, Summary, WriteOptions, Writer};
use anyhow::{Context, Result};
use clap::Args;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Objects whose next access one backward pass finds: twice as many take about 1 GiB.
const OBJECTS_A_PASS: usize = 1 << 24;

/// Where to, and what the name does not tell.
#[derive(Args)]
pub struct Output {
    /// The file to write; - for standard output, which is csv unless --to says otherwise
    #[arg(value_name = "OUTPUT", default_value = "-")]
    output: PathBuf,
    /// The format to write: csv, twitter, oracleGeneral, lcs, parquet or txt [default: as the name ends]
    #[arg(long, value_name = "NAME")]
    to: Option<Format>,
    /// The columns of a csv to write [default: time,key,size,key_size,value_size,op,ttl,client]
    #[arg(long, value_name = "NAMES")]
    to_columns: Option<String>,
}

impl Output {
    /// Writes all requests. A file gets its name when it is whole.
    pub fn write(&self, requests: impl Iterator<Item = Result<Request, Error>>) -> Result<()> {
        let name = self.output.display().to_string();
        if self.output.as_os_str() == "-" {
            let format = self.to.unwrap_or(Format::Csv);
            return self.pour(&name, format, io::stdout(), requests);
        }
        let format = self.to.map_or_else(|| Format::of_name(&name), Ok)?;
        let cannot = || format!("cannot write {name}");
        // What is there and no plain file, such as a pipe, is written to as it is.
        let is_special = fs::metadata(&self.output).is_ok_and(|metadata| !metadata.is_file());
        if is_special {
            let file = OpenOptions::new().write(true).open(&self.output);
            return self.pour(&name, format, file.with_context(cannot)?, requests);
        }
        // A file of that name is somebody's: it is refused, not written over.
        let unfinished = PathBuf::from(format!("{name}.{}.part", std::process::id()));
        let file = File::create_new(&unfinished)
            .with_context(|| format!("cannot write {}", unfinished.display()))?;
        let poured = self.pour(&name, format, file, requests);
        let renamed =
            poured.and_then(|()| fs::rename(&unfinished, &self.output).with_context(cannot));
        if renamed.is_err() {
            // The first error is the one to tell.
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
            facts: None,
        };
        let asks_for_next = self
            .to_columns
            .as_ref()
            .is_some_and(|columns| columns.split(',').any(|column| column.trim() == "next"));
        if !format.tells_next_access() && !asks_for_next {
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
        options.facts = Some(summary.facts());
        let mut writer = Writer::new(name, output, &options)?;
        for request in spool.requests().with_context(failed)? {
            writer.write(&request.with_context(failed)?)?;
        }
        writer.finish()?;
        Ok(())
    }

    /// A file without a name, next to the output: traces may be larger than the temporary folder.
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
        // Its room comes back when the process ends, however it ends.
        fs::remove_file(&path)?;
        Ok(file)
    }
}

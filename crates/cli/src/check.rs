//! `mayfly check`: reports what a snapshot file contains and where it is damaged.

use anyhow::{Context, Result, bail};
use server::check::Contents;
use server::clock::Clock;
use std::fs::File;
use std::path::PathBuf;

/// Arguments of `mayfly check`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Snapshot file of Mayfly, Redis or Valkey
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write the part before the damage, which can be loaded, to this new file
    #[arg(long, value_name = "NEW FILE")]
    repair: Option<PathBuf>,
}

/// Reads the file and prints a report. Fails if the file is damaged and was not repaired.
pub fn run(arguments: &Arguments) -> Result<()> {
    let path = arguments.file.display();
    let mut file = File::open(&arguments.file).with_context(|| path.to_string())?;
    let (contents, damage) = Contents::read(&file, Clock::System.now().0);
    print!("{contents}");
    let Some(damage) = damage else {
        println!("the file is not damaged");
        return Ok(());
    };
    let Some(new) = &arguments.repair else {
        bail!("{path}: {damage}");
    };
    println!("damaged: {damage}");
    contents
        .repair(&mut file, new)
        .map_err(|error| anyhow::anyhow!(error))?;
    println!("{} contains what precedes the damage", new.display());
    Ok(())
}

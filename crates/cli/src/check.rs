//! `mayfly check`: reports the contents of a snapshot file or an append-only file and any damage.

mod page;

use crate::pages::Pages;
use anyhow::{Context, Result, bail};
use durability::aof::manifest::Manifest;
use durability::check::Contents;
use durability::check::commands::Commands;
use server::command::scripting::functions::load_library;
use server::loading::file::try_load;
use session::clock::Clock;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Arguments of `mayfly check`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Snapshot file, append-only file or its manifest, of Mayfly, Redis or Valkey
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write the part before the damage, which can be loaded, to this new file
    #[arg(long, value_name = "NEW FILE")]
    repair: Option<PathBuf>,
    /// Print JSON (snapshot files only)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pages: Pages,
}

/// Reads the file and prints a report.
///
/// # Errors
/// Returns an error if the file cannot be read, or is damaged and was not repaired.
pub fn run(arguments: &Arguments) -> Result<()> {
    let is_manifest = arguments
        .file
        .extension()
        .is_some_and(|end| end == "manifest");
    if is_manifest && arguments.repair.is_some() {
        bail!("--repair: expected one file, not a manifest");
    }
    if is_manifest && arguments.json {
        bail!("--json: expected a snapshot file, not a manifest; its base is one");
    }
    arguments.pages.prepare()?;
    match is_manifest {
        true => check_manifest(arguments),
        false => check_file(&arguments.file, arguments),
    }
}

/// Checks all files that a manifest lists. The page describes the base file.
fn check_manifest(arguments: &Arguments) -> Result<()> {
    let path = arguments.file.as_path();
    let manifest = Manifest::read(path).map_err(anyhow::Error::msg)?;
    let manifest =
        manifest.with_context(|| format!("{}: there is no such file", path.display()))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut has_damage = false;
    for part in manifest.base.iter().chain(&manifest.increments) {
        let path = folder.join(&part.name);
        print(format_args!("{}:\n", path.display()))?;
        if let Err(error) = check_file(&path, arguments) {
            print(format_args!("damaged: {error:#}\n"))?;
            has_damage = true;
        }
    }
    match has_damage {
        true => bail!("{}: a file is damaged", path.display()),
        false => Ok(()),
    }
}

fn check_file(path: &Path, arguments: &Arguments) -> Result<()> {
    let repaired = arguments.repair.as_deref();
    let shown = path.display();
    let mut file = File::open(path).with_context(|| shown.to_string())?;
    let mut first = Vec::new();
    (&mut file).take(1).read_to_end(&mut first)?;
    file.seek(SeekFrom::Start(0))?;
    let is_commands = first.is_empty() || matches!(first[0], b'*' | b'#');
    if is_commands && arguments.json {
        bail!("--json: {shown}: expected a snapshot file, found commands");
    }
    let (contents, commands, damage) = if is_commands {
        let (commands, damage) = Commands::read(&file);
        print(&commands)?;
        (
            None,
            Some(commands),
            damage.map(|damage| damage.to_string()),
        )
    } else {
        let (contents, damage) = Contents::read(&file, Clock::System.now().0);
        show(&contents, &shown.to_string(), arguments)?;
        (
            Some(contents),
            None,
            damage.map(|damage| damage.to_string()),
        )
    };
    let Some(damage) = damage else {
        if !is_commands {
            file.seek(SeekFrom::Start(0))?;
            if let Err(why) = try_load(io::BufReader::new(&file), load_library) {
                bail!("{shown}: the file is not damaged, but a server does not load it: {why}");
            }
        }
        if !arguments.json {
            print("the file is not damaged\n")?;
        }
        return Ok(());
    };
    let Some(new) = repaired else {
        bail!("{shown}: {damage}");
    };
    print(format_args!("damaged: {damage}\n"))?;
    if let Some(contents) = contents {
        let repaired = contents.repair(&mut file, new);
        repaired.map_err(|error| anyhow::anyhow!(error))?;
    }
    if let Some(commands) = commands {
        let mut copy = File::create_new(new).with_context(|| new.display().to_string())?;
        file.seek(SeekFrom::Start(0))?;
        io::copy(&mut file.take(commands.end), &mut copy)?;
        copy.sync_all()?;
    }
    let new = new.display();
    print(format_args!("{new} contains what precedes the damage\n"))
}

/// Prints a text. If the reader has closed the pipe, as `head` does, the exit code is unaffected,
/// because it says whether the file is damaged.
fn print(text: impl Display) -> Result<()> {
    match write!(io::stdout(), "{text}") {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("standard output")
        }
        _ => Ok(()),
    }
}

/// Prints the contents of a snapshot file, and writes the page.
fn show(contents: &Contents, name: &str, arguments: &Arguments) -> Result<()> {
    match arguments.json {
        true => {
            let text = serde_json::to_string_pretty(&page::json(contents))?;
            print(text + "\n")?;
        }
        false => print(contents)?,
    }
    arguments.pages.write(|| page::page(contents, name))
}

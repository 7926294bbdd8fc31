//! Options and output of HTML pages and plots, for every command that draws.

use anyhow::{Context, Result, bail};
use clap::Args;
use report::Page;
use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

/// Files and folders for the page and the plots.
#[derive(Args, Debug)]
pub struct Pages {
    /// Also write a page with plots: one HTML file that needs no network
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Also write each plot as an SVG file into this folder
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Also write each plot as a PNG file into this folder; needs a build with the feature png
    #[arg(long, value_name = "DIR")]
    png: Option<PathBuf>,
}

impl Pages {
    /// Checks that all requested output can be written, so that an error appears before hours of
    /// work. An existing page is not changed until the new one is written.
    pub fn prepare(&self) -> Result<()> {
        if let Some(path) = &self.html {
            let mut options = OpenOptions::new();
            let file = options.write(true).create(true).truncate(false).open(path);
            file.with_context(|| cannot_write(path))?;
        }
        if self.png.is_some() && !cfg!(feature = "png") {
            bail!(
                "--png: this program cannot draw images; build it with `--features png`, or use --svg"
            );
        }
        for folder in [&self.svg, &self.png].into_iter().flatten() {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot create {}", folder.display()))?;
        }
        Ok(())
    }

    /// Writes the requested output. The page is created only if it is needed, and includes the
    /// command line and the version.
    pub fn write(&self, page: impl FnOnce() -> Page) -> Result<()> {
        if self.html.is_none() && self.svg.is_none() && self.png.is_none() {
            return Ok(());
        }
        let page = completed(page());
        for figure in page.figures() {
            if let Some(folder) = &self.svg {
                write(&folder.join(format!("{}.svg", figure.stem)), &figure.svg)?;
            }
            #[cfg(feature = "png")]
            if let Some(folder) = &self.png {
                let path = folder.join(format!("{}.png", figure.stem));
                write(&path, &figure.to_png())?;
            }
        }
        if let Some(path) = &self.html {
            write(path, &page.to_html())?;
        }
        Ok(())
    }
}

/// Adds the command line and the version to a page.
pub fn completed(mut page: Page) -> Page {
    page.command(&command());
    page.fact("version", concat!("mayfly ", env!("CARGO_PKG_VERSION")));
    page
}

/// Returns the command line of this process, quoted for a shell.
pub fn command() -> String {
    command_line(std::env::args_os())
}

fn write(path: &Path, bytes: &(impl AsRef<[u8]> + ?Sized)) -> Result<()> {
    fs::write(path, bytes).with_context(|| cannot_write(path))
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// Quotes the arguments for a shell, and joins them.
fn command_line(arguments: impl Iterator<Item = OsString>) -> String {
    let words = arguments.skip(1).map(|argument| quoted(&argument));
    let words: Vec<String> = std::iter::once("mayfly".to_owned()).chain(words).collect();
    words.join(" ")
}

fn quoted(argument: &OsStr) -> String {
    let text = argument.to_string_lossy();
    let is_plain = |c: char| c.is_alphanumeric() || "-_./,:=%+@".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.into_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_quoted_for_a_shell() {
        let words = [
            "/bin/mayfly",
            "sim",
            "a b.csv",
            "it's",
            "--size=10%",
            "",
            "$x",
        ];
        let line = command_line(words.into_iter().map(OsString::from));
        assert_eq!(line, r"mayfly sim 'a b.csv' 'it'\''s' --size=10% '' '$x'");
    }
}

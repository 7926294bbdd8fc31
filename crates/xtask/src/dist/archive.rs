//! Archives, by `tar` and `gzip`.

use super::stage::Stage;
use super::{Result, tools};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Writes archives whose bytes depend only on names, modes and contents.
pub struct Packer {
    epoch: String,
}

impl Packer {
    /// `epoch` becomes the time of all files, in seconds since 1970.
    pub fn new(epoch: &str) -> Packer {
        Packer {
            epoch: epoch.to_owned(),
        }
    }

    /// Adds entries of a tree to an uncompressed archive, creating it if necessary. All entries
    /// belong to the user and group `owner`.
    pub fn add(&self, tree: &Stage, entries: &[String], owner: u32, archive: &Path) -> Result<()> {
        let mut tar = Command::new("tar");
        tar.args(["--sort=name", "--format=gnu", "--numeric-owner"])
            .arg(format!("--mtime=@{}", self.epoch))
            .args([format!("--owner={owner}"), format!("--group={owner}")])
            .args(["--append", "--file"])
            .arg(archive)
            .arg("--directory")
            .arg(tree.root())
            .args(entries);
        tools::run(&mut tar).map(|_| ())
    }

    /// Compresses a file in place and adds `.gz` to its name.
    pub fn gzip(&self, path: &Path) -> Result<()> {
        tools::run(
            Command::new("gzip")
                .args(["--no-name", "--force"])
                .arg(path),
        )
        .map(|_| ())
    }

    /// Writes a tree as a compressed archive. All files belong to root.
    pub fn tar_gz(&self, tree: &Stage, archive: &Path) -> Result<()> {
        let plain = archive.with_extension("");
        let _ = fs::remove_file(&plain);
        self.add(tree, &tree.entries()?, 0, &plain)?;
        self.gzip(&plain)
    }
}

//! A tree of files on disk that becomes an archive. Modes are set here, so that the umask of the
//! person who makes a package does not enter it.

use super::{Result, tools};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Modes of folders, of programs and scripts, and of other files.
const FOLDER: u32 = 0o755;
const PROGRAM: u32 = 0o755;
const FILE: u32 = 0o644;

/// A folder that is emptied when it is made.
pub struct Stage {
    root: PathBuf,
}

impl Stage {
    /// Creates an empty folder.
    pub fn new(root: &Path) -> Result<Stage> {
        if root.exists() {
            fs::remove_dir_all(root).map_err(|error| format!("{}: {error}", root.display()))?;
        }
        let stage = Stage {
            root: root.to_path_buf(),
        };
        stage.make(root)?;
        Ok(stage)
    }

    /// Creates an empty stage inside this one.
    pub fn below(&self, name: &str) -> Result<Stage> {
        Stage::new(&self.root.join(name))
    }

    /// Folder of the stage.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of a file in the stage.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Names in the top folder, in order.
    pub fn entries(&self) -> Result<Vec<String>> {
        let entries = fs::read_dir(&self.root).map_err(|error| error.to_string())?;
        let mut names: Vec<String> = entries
            .flatten()
            .map(|entry| tools::name(&entry.path()))
            .collect();
        names.sort();
        Ok(names)
    }

    /// Copies a program or script.
    pub fn program(&self, source: &Path, target: &str) -> Result<()> {
        self.place(source, target, PROGRAM)
    }

    /// Copies a file.
    pub fn file(&self, source: &Path, target: &str) -> Result<()> {
        self.place(source, target, FILE)
    }

    /// Writes a text file.
    pub fn text(&self, text: &str, target: &str) -> Result<PathBuf> {
        let path = self.ready(target)?;
        tools::write(&path, text)?;
        mode(&path, FILE)?;
        Ok(path)
    }

    /// Creates a folder with the given mode.
    pub fn folder(&self, target: &str, bits: u32) -> Result<()> {
        let path = self.path(target);
        self.make(&path)?;
        mode(&path, bits)
    }

    /// Removes the stage.
    pub fn remove(self) -> Result<()> {
        fs::remove_dir_all(&self.root).map_err(|error| format!("{}: {error}", self.root.display()))
    }

    fn place(&self, source: &Path, target: &str, bits: u32) -> Result<()> {
        let path = self.ready(target)?;
        tools::copy(source, &path)?;
        mode(&path, bits)
    }

    /// Creates the folders above a file.
    fn ready(&self, target: &str) -> Result<PathBuf> {
        let path = self.path(target);
        self.make(path.parent().unwrap_or(&self.root))?;
        Ok(path)
    }

    fn make(&self, folder: &Path) -> Result<()> {
        let above: Vec<&Path> = folder
            .ancestors()
            .take_while(|path| !path.exists())
            .collect();
        for path in above.iter().rev() {
            fs::create_dir(path).map_err(|error| format!("{}: {error}", path.display()))?;
            mode(path, FOLDER)?;
        }
        Ok(())
    }
}

fn mode(path: &Path, bits: u32) -> Result<()> {
    fs::set_permissions(path, Permissions::from_mode(bits))
        .map_err(|error| format!("{}: {error}", path.display()))
}

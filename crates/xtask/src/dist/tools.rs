//! Programs of the system that write archives, compress and compute checksums.
//!
//! They are part of every Debian installation used for building programs; libraries for the same
//! formats would be this crate's only dependencies.

use super::Result;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// The programs, with the Debian packages that contain them.
const NEEDED: [(&str, &str); 9] = [
    ("date", "coreutils"),
    ("dpkg-deb", "dpkg"),
    ("dpkg-shlibdeps", "dpkg-dev"),
    ("git", "git"),
    ("gzip", "gzip"),
    ("ldd", "libc-bin"),
    ("objcopy", "binutils"),
    ("sha256sum", "coreutils"),
    ("tar", "tar"),
];

/// Checks that all programs are installed.
///
/// # Errors
/// Names each that is not, and its package.
pub fn require() -> Result<()> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let is_here = |name: &str| std::env::split_paths(&paths).any(|path| path.join(name).exists());
    let mut absent = NEEDED.iter().filter(|(name, _)| !is_here(name)).peekable();
    if absent.peek().is_none() {
        return Ok(());
    }
    let absent = absent.map(|(name, package)| format!("{name} (Debian package {package})"));
    Err(format!(
        "not installed: {}",
        absent.collect::<Vec<_>>().join(", ")
    ))
}

/// Runs a program to its end and returns its standard output. Its errors are printed.
pub fn run(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("{name}: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "{name} failed: {}; command: {command:?}",
            output.status
        ));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("{name}: its output is not text"))
}

/// Writes a file.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}

/// Reads a text file.
pub fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Copies a file.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    let place = || format!("{} to {}", from.display(), to.display());
    fs::copy(from, to)
        .map(|_| ())
        .map_err(|error| format!("copy {}: {error}", place()))
}

/// Returns the last part of a path.
pub fn name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Returns the SHA-256 of a file in hexadecimal digits.
pub fn sha256(path: &Path) -> Result<String> {
    let line = run(Command::new("sha256sum").arg(path))?;
    // A leading backslash announces an escaped file name.
    let digits = line.trim_start_matches('\\').get(..64);
    digits
        .map(str::to_owned)
        .ok_or_else(|| format!("sha256sum printed {line:?}"))
}

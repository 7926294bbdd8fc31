//! Reads the files named by settings: certificates, users, passwords and included settings.
//!
//! Only regular files are read. Workers read some of these files, and a named pipe without a writer
//! would block a worker and all its clients.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a regular file for reading.
///
/// # Errors
/// The file cannot be opened, or it is a folder, a pipe or a device.
pub fn open(path: &Path) -> io::Result<File> {
    // Without this flag opening a pipe waits for a writer. It has no effect on regular files.
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("expected a regular file")),
    }
}

/// Reads a regular file with a size limit.
///
/// # Errors
/// The file cannot be opened or read, it is not a regular file, or it is too large.
pub fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>, String> {
    let file = open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    let read = file.take(bytes_max + 1).read_to_end(&mut bytes);
    match read.map_err(|error| error.to_string())? as u64 > bytes_max {
        true => Err(format!("expected at most {bytes_max} bytes")),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::fs;

    #[test]
    fn only_regular_files_of_a_bounded_size_are_read() {
        let folder = std::env::temp_dir().join(format!("mayfly-files-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder can be made");
        let (file, link, pipe) = (folder.join("a"), folder.join("b"), folder.join("c"));
        fs::write(&file, "abc").expect("a file can be written");
        std::os::unix::fs::symlink(&file, &link).expect("a link can be made");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        assert_eq!(read(&file, 3).as_deref(), Ok(&b"abc"[..]));
        assert_eq!(read(&link, 3).as_deref(), Ok(&b"abc"[..]));
        assert_eq!(read(&file, 2), Err("expected at most 2 bytes".to_owned()));
        for other in [&pipe, &folder, Path::new("/dev/zero")] {
            let error = read(other, 3).expect_err("it is not a regular file");
            assert_eq!(error, "expected a regular file");
        }
        assert!(read(&folder.join("d"), 3).is_err());
        let _ = fs::remove_dir_all(&folder);
    }
}

//! Temporary files for snapshots, users and settings: their names, their permissions, and the
//! removal of files left behind by a crash. A completed snapshot for a restart has another name,
//! because it may be the only copy of the keys.
//!
//! Several servers may share a folder, even from containers, where all may have the same process
//! id. The name therefore has 64 random bits, and an existing file of that name is never opened: it
//! could be another server's file or a link. The file is locked (`flock`) while it is written, so
//! that a starting server removes only files that no server is writing. On a file system without
//! locks, it removes none.
//!
//! Only the owner may read the file, because it contains all keys and values. The complete file
//! gets the permissions of the file that it replaces.

use crate::random::chance;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const PREFIX: &str = "temp-mayfly-";
/// Prefix of the name of a completed restart snapshot.
const RESTART_PREFIX: &str = "restart-mayfly-";
const SUFFIX: &str = ".rdb";
/// Length of a name's random part, a hexadecimal number.
const RANDOM_LEN: usize = 16;
/// Permissions of a new file.
pub const OWNER_ONLY: u32 = 0o600;
/// Permission bits that a new file takes over from the file it replaces.
const PERMISSION_BITS: u32 = 0o777;
/// Maximum number of attempts to find an unused name.
const ATTEMPTS_MAX: u64 = 8;

/// Returns the name of a temporary file with the first of these random hexadecimal digits.
pub fn name(random: &str) -> String {
    format!("{PREFIX}{:.RANDOM_LEN$}{SUFFIX}", random)
}

/// Creates and locks a file with a new name in a folder.
///
/// # Errors
/// The file system returned an error.
pub fn create(folder: &Path) -> io::Result<(PathBuf, File)> {
    let mut last = ErrorKind::AlreadyExists.into();
    for attempt in 0..ATTEMPTS_MAX {
        let path = folder.join(name(&format!("{:0RANDOM_LEN$x}", chance(attempt))));
        match create_at(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// Creates and locks a file. A server that starts at the same moment may remove it before it is
/// locked; the error is then the same as for a name in use.
fn create_at(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .create_new(true)
        .mode(OWNER_ONLY)
        .open(path)?;
    if try_lock(&file) == Lock::OfAnother || fs::symlink_metadata(path).is_err() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    Ok(file)
}

#[derive(PartialEq, Eq)]
enum Lock {
    Own,
    OfAnother,
    /// The file system has no locks.
    Unsupported,
}

fn try_lock(file: &File) -> Lock {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Lock::Own,
        Err(Errno::WOULDBLOCK) => Lock::OfAnother,
        Err(_) => Lock::Unsupported,
    }
}

/// Gives a new file the permissions of the file at `path` that it replaces, if any.
///
/// # Errors
/// The file system returned an error.
pub fn copy_permissions(path: &Path, file: &File) -> io::Result<()> {
    let mode = match fs::symlink_metadata(path) {
        Ok(replaced) if replaced.is_file() => replaced.permissions().mode() & PERMISSION_BITS,
        _ => OWNER_ONLY,
    };
    file.set_permissions(fs::Permissions::from_mode(mode))
}

/// Atomically replaces a file by one with this text, so that a crash leaves either the old or the
/// new file. Permissions are kept; a new file can be read by its owner only.
///
/// # Errors
/// The file system returned an error. The old file is unchanged.
pub fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let (temporary, mut file) = create(folder)?;
    let replaced = file
        .write_all(text)
        .and_then(|()| copy_permissions(path, &file))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&temporary, path));
    if replaced.is_err() {
        let _ = fs::remove_file(&temporary);
        return replaced;
    }
    File::open(folder)?.sync_all()
}

/// Removes the files in a folder that servers left behind when they crashed. Returns their number.
///
/// # Errors
/// The folder cannot be read.
pub fn remove_stale(folder: &Path) -> io::Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if is_temporary(&path) && is_unlocked_file(&path) {
            count += usize::from(fs::remove_file(&path).is_ok());
        }
    }
    Ok(count)
}

/// Renames a complete file from [`create`] so that [`remove_stale`] does not remove it. Returns its
/// absolute path, which the next process opens.
///
/// # Errors
/// The file system returned an error.
pub fn keep_for_restart(path: &Path) -> io::Result<PathBuf> {
    let random = random_of(path, PREFIX).unwrap_or_default();
    let kept = path.with_file_name(format!("{RESTART_PREFIX}{random}{SUFFIX}"));
    let kept = std::path::absolute(kept)?;
    fs::rename(path, &kept)?;
    Ok(kept)
}

/// Returns the restart snapshots in a folder, which no process has loaded.
///
/// # Errors
/// The folder cannot be read.
pub fn of_restarts(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if random_of(&path, RESTART_PREFIX).is_some() {
            paths.push(path);
        }
    }
    Ok(paths)
}

/// Whether a path ends in a name that [`create`] could have chosen.
fn is_temporary(path: &Path) -> bool {
    random_of(path, PREFIX).is_some()
}

/// Returns the random part of a file name that begins with a prefix.
fn random_of<'p>(path: &'p Path, prefix: &str) -> Option<&'p str> {
    let name = path.file_name().and_then(|name| name.to_str())?;
    let random = name.strip_prefix(prefix)?.strip_suffix(SUFFIX)?;
    let is_hexadecimal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_random = random.len() == RANDOM_LEN && random.bytes().all(is_hexadecimal);
    is_random.then_some(random)
}

fn is_unlocked_file(path: &Path) -> bool {
    let is_file = fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    is_file && File::open(path).is_ok_and(|file| try_lock(&file) == Lock::Own)
}

/// Checks that files can be created in a folder by creating and removing one.
///
/// # Errors
/// The file system returned an error.
pub fn check_folder(folder: &Path) -> io::Result<()> {
    let (path, _) = create(folder)?;
    fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A test's own folder, removed at the end of the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let name = format!("mayfly-temporary-{name}-{:x}", chance(0));
            let path = std::env::temp_dir().join(name);
            fs::create_dir_all(&path).expect("a temporary folder");
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn files_of_one_folder_have_different_names_and_are_readable_by_the_owner_only() {
        let folder = Folder::new("names");
        let (first, file) = create(&folder.0).expect("a file");
        let (second, _other) = create(&folder.0).expect("another file");
        assert_ne!(first, second);
        assert!(is_temporary(&first));
        let mode = file.metadata().expect("metadata").permissions().mode();
        assert_eq!(mode & PERMISSION_BITS, OWNER_ONLY);
    }

    #[test]
    fn a_file_or_link_that_exists_is_not_opened() {
        let folder = Folder::new("links");
        let target = folder.0.join("target");
        fs::write(&target, "content").expect("a file");
        let link = folder.0.join("link");
        symlink(&target, &link).expect("a link");
        for path in [&target, &link] {
            let error = create_at(path).expect_err("it exists");
            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        }
        assert_eq!(fs::read(&target).expect("a file"), b"content");
    }

    #[test]
    fn only_incomplete_files_that_no_server_writes_are_removed() {
        let folder = Folder::new("stale");
        let (stale, file) = create(&folder.0).expect("a file");
        drop(file);
        let (written, _file) = create(&folder.0).expect("another file");
        let others = ["temp-1.rdb", "dump.rdb", "temp-mayfly-1.rdb"];
        let others = others.map(|name| folder.0.join(name));
        for path in &others {
            fs::write(path, "content").expect("a file");
        }
        let (complete, _) = create(&folder.0).expect("a third file");
        let kept = keep_for_restart(&complete).expect("the folder is the owner's");
        assert_eq!(remove_stale(&folder.0).expect("a folder"), 1);
        assert!(kept.exists() && !complete.exists());
        assert_eq!(of_restarts(&folder.0).expect("a folder"), [kept]);
        assert!(!stale.exists());
        assert!(written.exists() && others.iter().all(|path| path.exists()));
    }

    #[test]
    fn a_new_file_gets_the_permissions_of_the_file_that_it_replaces() {
        let folder = Folder::new("permissions");
        let (_, file) = create(&folder.0).expect("a file");
        let mode = || file.metadata().expect("metadata").permissions().mode() & PERMISSION_BITS;
        let replaced = folder.0.join("dump.rdb");
        copy_permissions(&replaced, &file).expect("it is the owner's");
        assert_eq!(mode(), OWNER_ONLY);
        fs::write(&replaced, "content").expect("a file");
        fs::set_permissions(&replaced, fs::Permissions::from_mode(0o640)).expect("an owner");
        copy_permissions(&replaced, &file).expect("it is the owner's");
        assert_eq!(mode(), 0o640);
    }

    #[test]
    fn a_replaced_file_keeps_its_permissions_and_leaves_nothing_beside_it() {
        let folder = Folder::new("replace");
        let path = folder.0.join("users.acl");
        let mode = || fs::metadata(&path).expect("a file").permissions().mode() & PERMISSION_BITS;
        replace(&path, b"first").expect("the folder is the owner's");
        assert_eq!(mode(), OWNER_ONLY);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("the owner's");
        replace(&path, b"second").expect("the folder is the owner's");
        assert_eq!(mode(), 0o640);
        assert_eq!(fs::read(&path).expect("a file"), b"second");
        replace(&folder.0.join("missing/users.acl"), b"third").expect_err("no such folder");
        assert_eq!(fs::read_dir(&folder.0).expect("a folder").count(), 1);
    }
}

//! The file that holds the engine's segments (`segment-file`), so that a restart continues with
//! them.
//!
//! ```text
//! byte 0      header: 10 words, the lowest byte first
//!             mark | version | state | bytes of a segment | number of segments
//!             secret of the hash, two words | number of saved words | their checksum
//!             checksum of the words before
//! page 1      saved words, when the file is complete
//! then        segments, from a page on, up to the end
//! state       0 while an engine uses the file, 1 when it is complete
//! ```
//! The segments are memory-mapped, so that everything the engine writes is in the file at once. Its
//! other state is written when the server stops. If the process ends in any other way, the file
//! stays in state 0: its segments contain values that were deleted or replaced, with nothing to
//! identify them. The engine then starts empty and logs it, as it does after a change of the sizes
//! or after damage.
//!
//! At a stop, everything is synced to disk before the state becomes 1. A start syncs state 0 to
//! disk before the engine changes anything. A machine crash therefore cannot leave old segments in
//! a file that is marked as complete. In an in-memory file system, both cost nothing.
//!
//! The file is locked (`flock`) while it is in use. Its blocks are reserved at startup, because a
//! full disk under a mapped file would kill the process.

use rustix::fs::{FallocateFlags, FlockOperation, OFlags, fallocate, flock};
use rustix::io::Errno;
use segment::FileSizes;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use twox_hash::XxHash3_64;

const MARK: u64 = u64::from_le_bytes(*b"MAYFLYSG");
const VERSION: u64 = 1;
const IN_USE: u64 = 0;
const COMPLETE: u64 = 1;
/// Page size in bytes, to which all parts are aligned.
const PAGE: u64 = 4096;
const WORD: usize = size_of::<u64>();
/// Number of words of the header, without its checksum.
const HEADER_WORDS: usize = 9;
/// Permissions of a new file, which contains all keys and values.
const OWNER_ONLY: u32 = 0o600;

/// Contents of a file when it was opened.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing, because the file is new.
    Nothing,
    /// Segments of the same sizes.
    Segments {
        /// Hash secret.
        hash_key: [u64; 2],
        /// State saved by the engine.
        saved: Vec<u64>,
    },
    /// Contents that cannot be used. The text says why.
    Unusable(String),
}

/// An open file.
#[derive(Debug)]
pub struct SegmentFile {
    file: File,
    path: PathBuf,
    sizes: FileSizes,
    segment_bytes: u64,
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn words_of(bytes: &[u8]) -> Vec<u64> {
    let (words, _) = bytes.as_chunks::<WORD>();
    words.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

impl SegmentFile {
    /// Opens and locks a file, or creates it, and reserves its blocks.
    ///
    /// # Errors
    /// Another process uses the file, it is not a segment file, or the file system returns an
    /// error. The message is meant for users.
    pub fn open(
        path: &Path,
        sizes: FileSizes,
        segment_bytes: usize,
    ) -> Result<(SegmentFile, Found), String> {
        let named = |why: String| format!("segment-file {}: {why}", path.display());
        let failed = |error: io::Error| named(error.to_string());
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true);
        // Opening a pipe without this flag would wait.
        let flags = OFlags::NONBLOCK.bits() as i32;
        let options = options.mode(OWNER_ONLY).custom_flags(flags);
        let file = options.open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(named("expected a regular file".to_owned()));
        }
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(named("another process uses it".to_owned())),
            Err(error) => return Err(failed(error.into())),
        }
        let opened = SegmentFile {
            file,
            path: path.to_path_buf(),
            sizes,
            segment_bytes: segment_bytes as u64,
        };
        let found = match metadata.len() {
            0 => {
                // If the disk is too small, the next start knows whose file this is.
                opened.begin([0; 2])?;
                Found::Nothing
            }
            len => opened.read(len).map_err(named)?,
        };
        opened.reserve().map_err(failed)?;
        Ok((opened, found))
    }

    /// Returns the offset of the first segment in bytes.
    pub fn segments_at(&self) -> u64 {
        PAGE + (self.sizes.saved_words_max * WORD as u64).next_multiple_of(PAGE)
    }

    fn len(&self) -> u64 {
        self.segments_at() + self.sizes.segments_bytes
    }

    /// Returns the file for mapping.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Sets the file's length and reserves its blocks.
    fn reserve(&self) -> io::Result<()> {
        fallocate(&self.file, FallocateFlags::empty(), 0, self.len())?;
        self.file.set_len(self.len())
    }

    /// Reads the state that an engine left in a file of this length.
    fn read(&self, len: u64) -> Result<Found, String> {
        let unusable = |why: &str| Ok(Found::Unusable(why.to_owned()));
        let mut bytes = [0; (HEADER_WORDS + 1) * WORD];
        let read = self.file.read_exact_at(&mut bytes, 0);
        let header = words_of(&bytes);
        if read.is_err() || header[0] != MARK {
            return Err(
                "the file is not one of segments; expected none or an empty one".to_owned(),
            );
        }
        let (checked, checksum) = bytes.split_at(HEADER_WORDS * WORD);
        if XxHash3_64::oneshot(checked).to_le_bytes() != checksum {
            return unusable("its header is damaged");
        }
        if header[1] != VERSION {
            return unusable("it is of another version");
        }
        if header[2] != COMPLETE {
            return unusable("the server that used it has not stopped");
        }
        let sizes = [self.segment_bytes, u64::from(self.sizes.segment_count)];
        if header[3..5] != sizes || len != self.len() {
            return unusable("it has other sizes (maxmemory, segment-size, threads)");
        }
        let count = header[7].min(self.sizes.saved_words_max) as usize;
        let mut bytes = vec![0; count * WORD];
        let read = self.file.read_exact_at(&mut bytes, PAGE);
        let is_whole = count as u64 == header[7] && XxHash3_64::oneshot(&bytes) == header[8];
        if read.is_err() || !is_whole {
            return unusable("it is damaged");
        }
        Ok(Found::Segments {
            hash_key: [header[5], header[6]],
            saved: words_of(&bytes),
        })
    }

    fn write_header(&self, state: u64, hash_key: [u64; 2], saved: &[u8]) -> io::Result<()> {
        let words: [u64; HEADER_WORDS] = [
            MARK,
            VERSION,
            state,
            self.segment_bytes,
            u64::from(self.sizes.segment_count),
            hash_key[0],
            hash_key[1],
            (saved.len() / WORD) as u64,
            XxHash3_64::oneshot(saved),
        ];
        let mut bytes = bytes_of(&words);
        let checksum = XxHash3_64::oneshot(&bytes);
        bytes.extend(checksum.to_le_bytes());
        self.file.write_all_at(&bytes, 0)?;
        self.file.sync_data()
    }

    /// Marks the file as being in use by an engine with this secret, before the engine changes
    /// anything.
    ///
    /// # Errors
    /// The file system returned an error. The message is meant for users.
    pub fn begin(&self, hash_key: [u64; 2]) -> Result<(), String> {
        let written = self.write_header(IN_USE, hash_key, &[]);
        written.map_err(|error| format!("segment-file {}: {error}", self.path.display()))
    }

    /// Completes the file with the engine's saved state and unlocks it.
    ///
    /// # Errors
    /// The file system returned an error. The next start is then empty.
    pub fn complete(&self, hash_key: [u64; 2], saved: &[u64]) -> io::Result<()> {
        if saved.len() as u64 > self.sizes.saved_words_max {
            return Err(ErrorKind::FileTooLarge.into());
        }
        let bytes = bytes_of(saved);
        self.file.write_all_at(&bytes, PAGE)?;
        self.file.sync_all()?;
        self.write_header(COMPLETE, hash_key, &bytes)?;
        // The engine may exist longer than the server serves.
        flock(&self.file, FlockOperation::Unlock)?;
        Ok(())
    }
}

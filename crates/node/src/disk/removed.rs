//! Log of records that were removed before their deadline or whose freshness a purge ended, so that
//! a restart does not bring them back.
//!
//! A line has 24 bytes: number of the segment, offset, the instant at which freshness ended (0 for
//! a removal), and a checksum. Lines about segments that no longer exist are dropped at startup,
//! and whenever the log has doubled since it was last rewritten.

use super::record::checksum;
use super::segment::is_of_process;
use crate::object::Place;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

const LINE_BYTES: usize = 24;
/// Minimum number of lines at which the log is rewritten.
const LINES_MIN: u64 = 65_536;

/// Line of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// Number of the segment.
    pub segment: u32,
    /// Offset of the record.
    pub offset: u32,
    /// Instant at which the record's freshness ended; `None` if the record was removed.
    pub softened_ms: Option<u64>,
}

/// Log of removed and softened records.
pub struct Removed {
    path: PathBuf,
    file: File,
    line_count: u64,
    rewrite_count: u64,
}

impl Removed {
    /// Opens the log, drops the lines about segments for which `is_segment` is false, and returns
    /// the others.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or written.
    pub fn open(folder: &Path, is_segment: impl Fn(u32) -> bool) -> io::Result<(Self, Vec<Line>)> {
        let path = folder.join("removed");
        let lines = read(&path, is_segment)?;
        let file = write(&path, &lines)?;
        let line_count = lines.len() as u64;
        let removed = Removed {
            path,
            file,
            line_count,
            rewrite_count: (line_count * 2).max(LINES_MIN),
        };
        Ok((removed, lines))
    }

    /// Appends lines.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn add(&mut self, lines: &[Line], is_segment: impl Fn(u32) -> bool) -> io::Result<()> {
        let bytes: Vec<u8> = lines.iter().flat_map(Line::encode).collect();
        self.file.write_all(&bytes)?;
        self.line_count += lines.len() as u64;
        if self.line_count > self.rewrite_count {
            let kept = read(&self.path, is_segment).and_then(|kept| {
                self.file = write(&self.path, &kept)?;
                Ok(kept.len() as u64)
            });
            match kept {
                Ok(kept) => {
                    self.line_count = kept;
                    self.rewrite_count = (kept * 2).max(LINES_MIN);
                }
                // The lines are already in the log, which is rewritten later.
                Err(error) if is_of_process(&error) => self.rewrite_count += LINES_MIN,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes everything to the device.
    ///
    /// # Errors
    /// Returns an error if the device has failed.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

impl Line {
    /// Returns the line for a record that was removed.
    pub fn removal(place: Place) -> Self {
        Line {
            segment: place.segment,
            offset: place.offset,
            softened_ms: None,
        }
    }

    /// Returns the line for a record whose freshness a purge has ended.
    pub fn softening(place: Place, at_ms: u64) -> Self {
        Line {
            softened_ms: Some(at_ms),
            ..Line::removal(place)
        }
    }

    fn encode(&self) -> [u8; LINE_BYTES] {
        let mut bytes = [0; LINE_BYTES];
        bytes[..4].copy_from_slice(&self.segment.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.softened_ms.unwrap_or(0).to_le_bytes());
        let sum = checksum(&bytes[..16]);
        bytes[16..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let softened_ms = u64::from_le_bytes(bytes[8..16].try_into().ok()?);
        let line = Line {
            segment: u32::from_le_bytes(bytes[..4].try_into().ok()?),
            offset: u32::from_le_bytes(bytes[4..8].try_into().ok()?),
            softened_ms: (softened_ms > 0).then_some(softened_ms),
        };
        (line.encode() == *bytes).then_some(line)
    }
}

/// Reads the intact lines. Damaged lines and an incomplete last line are skipped.
fn read(path: &Path, is_segment: impl Fn(u32) -> bool) -> io::Result<Vec<Line>> {
    let mut bytes = vec![];
    match File::open(path) {
        Ok(mut file) => _ = file.read_to_end(&mut bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let lines = bytes.chunks_exact(LINE_BYTES).filter_map(Line::decode);
    Ok(lines.filter(|line| is_segment(line.segment)).collect())
}

/// Replaces the log with these lines, and returns the open file.
fn write(path: &Path, lines: &[Line]) -> io::Result<File> {
    let next = path.with_extension("next");
    let bytes: Vec<u8> = lines.iter().flat_map(Line::encode).collect();
    let mut file = File::create(&next)?;
    file.write_all(&bytes)?;
    file.sync_data()?;
    std::fs::rename(&next, path)?;
    // The file is not opened again, because that could fail when the old file no longer exists.
    Ok(file)
}

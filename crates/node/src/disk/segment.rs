//! Segments: files that are written once from beginning to end, and then read until they are
//! deleted.
//!
//! ```text
//! record, record, ..., record, footer
//! ```
//!
//! The footer has 24 bytes per record (hash, deadline, offset, length), 8 bytes for each of its
//! tags (`tags.rs`), and a trailer of 32 bytes (magic, number of records and of tags, offset of the
//! footer, checksum). A segment without an intact footer is unfinished or damaged. Its records are
//! found by their headers, up to the first one that is not intact.
//!
//! A footer of an earlier version has no tags, which are then unknown: a purge by tag reads the
//! descriptions of all records of such a segment. This is also so for an unfinished segment in
//! which a description is damaged.

use super::record::{HEADER_BYTES, Header, checksum, read_description};
use super::tags::Tags;
use crate::object::Place;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard};

/// Number of bytes of a segment for which one bit records whether any of them was read.
const HIT_BYTES: u64 = 512;
const ENTRY_BYTES: u64 = 24;
const TRAILER_BYTES: u64 = 32;
pub const TAG_BYTES: u64 = 8;
/// Magic of a footer without tags.
const UNTAGGED_MAGIC: u64 = 0x3166_746f_6f66_796d;
/// Magic of a footer with tags.
const FOOTER_MAGIC: u64 = 0x3266_746f_6f66_796d;

/// Row of the footer, which describes one record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Hash of the key.
    pub hash: u64,
    /// End of the usable time, in milliseconds since the Unix epoch.
    pub deadline_ms: u64,
    /// Offset in the segment.
    pub offset: u32,
    /// Size of the record in bytes.
    pub length: u32,
}

/// A segment.
pub struct Segment {
    /// Number of the segment. Later segments have higher numbers.
    pub number: u32,
    file: File,
    path: PathBuf,
    /// Bytes of the file.
    bytes: AtomicU64,
    /// Size of the segment's records that are in the index, in bytes.
    live_bytes: AtomicU64,
    is_sealed: AtomicBool,
    /// Records written so far, while the segment is being written.
    open: Mutex<Vec<Entry>>,
    /// Tags of the records; `None` if they are unknown.
    tags: Mutex<Option<Tags>>,
    hits: Box<[AtomicU64]>,
    /// Offsets of records whose freshness a purge has ended, with the instants at which it ended.
    softened: Mutex<HashMap<u32, u64>>,
}

/// Returns the path of a segment's file.
pub fn path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("{number:010}.segment"))
}

/// Returns the number of a segment from the name of its file.
pub fn number(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?.strip_suffix(".segment")?;
    (name.len() == 10).then(|| name.parse().ok())?
}

/// Returns true if an error concerns the process or the machine and not the device, such as a lack
/// of file descriptors.
pub(super) fn is_of_process(error: &io::Error) -> bool {
    let codes = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE];
    let code = error.raw_os_error();
    codes.iter().any(|known| Some(known.raw_os_error()) == code)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poison| poison.into_inner())
}

impl Segment {
    /// Creates an empty segment of at most `bytes_max` bytes.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created.
    pub fn create(folder: &Path, number: u32, bytes_max: u64) -> io::Result<Self> {
        let path = path(folder, number);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let file = options.open(&path)?;
        Ok(Segment::of(number, file, path, bytes_max))
    }

    fn of(number: u32, file: File, path: PathBuf, bytes_max: u64) -> Self {
        let words = bytes_max.div_ceil(HIT_BYTES * 64) + 1;
        Segment {
            number,
            file,
            path,
            bytes: AtomicU64::new(0),
            live_bytes: AtomicU64::new(0),
            is_sealed: AtomicBool::new(false),
            open: Mutex::default(),
            tags: Mutex::new(Some(Tags::default())),
            hits: (0..words).map(|_| AtomicU64::new(0)).collect(),
            softened: Mutex::default(),
        }
    }

    /// Opens a segment of an earlier run, and returns its records. If the segment is unfinished,
    /// bytes after its last intact record are removed and the footer is written.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or written.
    pub fn open(path: &Path, number: u32, bytes_max: u64) -> io::Result<(Self, Vec<Entry>)> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let length = file.metadata()?.len();
        let segment = Segment::of(number, file, path.to_owned(), bytes_max.max(length));
        segment.bytes.store(length, SeqCst);
        if let Some((entries, tags)) = segment.footer()? {
            *locked(&segment.tags) = tags;
            segment.is_sealed.store(true, SeqCst);
            return Ok((segment, entries));
        }
        let entries = segment.scan()?;
        let tags = segment.read_tags(&entries)?;
        *locked(&segment.tags) = tags;
        let end = entries.last().map_or(0, |last| last.end());
        segment.file.set_len(end)?;
        segment.bytes.store(end, SeqCst);
        locked(&segment.open).clone_from(&entries);
        segment.seal()?;
        Ok((segment, entries))
    }

    /// Returns the size of the file in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(SeqCst)
    }

    /// Returns the size that the file would have with another record, of this length and with this
    /// number of tags, and the footer.
    pub fn bytes_with(&self, length: u64, tag_count: usize) -> u64 {
        let count = locked(&self.open).len() as u64 + 1;
        let tags = locked(&self.tags).as_ref().map_or(0, Tags::len) + tag_count;
        self.bytes() + length + count * ENTRY_BYTES + tags as u64 * TAG_BYTES + TRAILER_BYTES
    }

    /// Appends a record with these tags. Only one thread may write.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn append(
        &self,
        entry: Entry,
        tags: impl Iterator<Item = u64>,
        parts: &[&[u8]],
    ) -> io::Result<()> {
        debug_assert_eq!(u64::from(entry.offset), self.bytes());
        let mut at = self.bytes();
        for part in parts {
            self.file.write_all_at(part, at)?;
            at += part.len() as u64;
        }
        debug_assert_eq!(at, entry.end());
        self.bytes.store(at, SeqCst);
        if let Some(known) = locked(&self.tags).as_mut() {
            tags.for_each(|tag| known.push(tag, entry.offset));
        }
        locked(&self.open).push(entry);
        Ok(())
    }

    /// Completes the segment by writing the footer.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn seal(&self) -> io::Result<()> {
        let mut open = locked(&self.open);
        let mut tags = locked(&self.tags);
        let tag_count = tags.as_ref().map_or(0, Tags::len);
        let start = self.bytes();
        let bytes = open.len() * ENTRY_BYTES as usize + tag_count * TAG_BYTES as usize + 32;
        let mut footer = Vec::with_capacity(bytes);
        for entry in open.iter() {
            footer.extend_from_slice(&entry.hash.to_le_bytes());
            footer.extend_from_slice(&entry.deadline_ms.to_le_bytes());
            footer.extend_from_slice(&entry.offset.to_le_bytes());
            footer.extend_from_slice(&entry.length.to_le_bytes());
        }
        let magic = match tags.as_mut() {
            None => UNTAGGED_MAGIC,
            Some(tags) => {
                tags.sort();
                tags.encode(&mut footer);
                FOOTER_MAGIC
            }
        };
        footer.extend_from_slice(&magic.to_le_bytes());
        let counts = (open.len() as u64) | ((tag_count as u64) << 32);
        footer.extend_from_slice(&counts.to_le_bytes());
        footer.extend_from_slice(&start.to_le_bytes());
        let sum = checksum(&footer);
        footer.extend_from_slice(&sum.to_le_bytes());
        self.file.write_all_at(&footer, start)?;
        self.bytes.store(start + footer.len() as u64, SeqCst);
        *open = vec![];
        self.is_sealed.store(true, SeqCst);
        Ok(())
    }

    /// Returns true if the segment is complete.
    pub fn is_sealed(&self) -> bool {
        self.is_sealed.load(SeqCst)
    }

    /// Returns all records, including those that have left the index.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn entries(&self) -> io::Result<Vec<Entry>> {
        {
            let open = locked(&self.open);
            if !self.is_sealed() {
                return Ok(open.clone());
            }
        }
        match self.footer()? {
            Some((entries, _)) => Ok(entries),
            None => self.scan(),
        }
    }

    /// Returns the offsets of the records that may have a tag, in ascending order, from an offset
    /// on; `None` if the tags are unknown.
    pub fn tagged(&self, tag: u64, from: u32) -> Option<Vec<u32>> {
        let tags = locked(&self.tags);
        tags.as_ref().map(|tags| tags.offsets(tag, from))
    }

    /// Returns the memory of the tags in bytes.
    pub fn tag_bytes(&self) -> u64 {
        locked(&self.tags).as_ref().map_or(0, Tags::bytes)
    }

    /// Returns the entry of the record at an offset; `None` if its header is damaged.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn entry_at(&self, offset: u32) -> io::Result<Option<Entry>> {
        let bytes = self.read(offset.into(), HEADER_BYTES)?;
        Ok(Header::decode(&bytes).and_then(|header| self.entry_of(&header, offset.into())))
    }

    fn entry_of(&self, header: &Header, at: u64) -> Option<Entry> {
        let is_here = header.segment == self.number && u64::from(header.offset) == at;
        let length = header.record_bytes().filter(|_| is_here)?;
        Some(Entry {
            hash: header.hash,
            deadline_ms: header.deadline_ms,
            offset: header.offset,
            length: u32::try_from(length).ok()?,
        })
    }

    /// Reads the tags of records from their descriptions; `None` if a description is damaged.
    fn read_tags(&self, entries: &[Entry]) -> io::Result<Option<Tags>> {
        let mut tags = Tags::default();
        for entry in entries {
            let at = u64::from(entry.offset);
            let Some(header) = Header::decode(&self.read(at, HEADER_BYTES)?) else {
                return Ok(None);
            };
            let length = header.description_bytes as usize;
            if HEADER_BYTES + length > entry.length as usize {
                return Ok(None);
            }
            let bytes = self.read(at + HEADER_BYTES as u64, length)?;
            let Some(described) = read_description(&header, &bytes) else {
                return Ok(None);
            };
            described
                .tags()
                .for_each(|tag| tags.push(tag, entry.offset));
        }
        Ok(Some(tags))
    }

    /// Reads the footer; `None` if there is none or it is damaged.
    fn footer(&self) -> io::Result<Option<(Vec<Entry>, Option<Tags>)>> {
        let length = self.file.metadata()?.len();
        if length < TRAILER_BYTES {
            return Ok(None);
        }
        let mut trailer = [0; TRAILER_BYTES as usize];
        self.file
            .read_exact_at(&mut trailer, length - TRAILER_BYTES)?;
        let number = |at: usize| {
            let bytes = trailer[at..at + 8].try_into();
            u64::from_le_bytes(bytes.expect("the length is 8"))
        };
        let has_tags = number(0) == FOOTER_MAGIC;
        let (count, tag_count, start) = match has_tags {
            true => (number(8) & 0xffff_ffff, number(8) >> 32, number(16)),
            false => (number(8), 0, number(16)),
        };
        let expected = count
            .checked_mul(ENTRY_BYTES)
            .and_then(|bytes| bytes.checked_add(tag_count.checked_mul(TAG_BYTES)?))
            .and_then(|bytes| bytes.checked_add(start)?.checked_add(TRAILER_BYTES));
        if !(has_tags || number(0) == UNTAGGED_MAGIC) || expected != Some(length) {
            return Ok(None);
        }
        let mut footer = vec![0; (length - start) as usize];
        self.file.read_exact_at(&mut footer, start)?;
        let (content, sum) = footer.split_at(footer.len() - 8);
        if checksum(content).to_le_bytes() != *sum {
            return Ok(None);
        }
        let rows = &content[..content.len() - 24];
        let (rows, tags) = rows.split_at((count * ENTRY_BYTES) as usize);
        let rows = rows.chunks_exact(ENTRY_BYTES as usize);
        let entries: Vec<Entry> = rows.map(entry).collect();
        let is_inside = |entry: &Entry| entry.end() <= start;
        let tags = has_tags.then(|| Tags::decode(tags));
        Ok(entries.iter().all(is_inside).then_some((entries, tags)))
    }

    /// Finds the records by their headers.
    fn scan(&self) -> io::Result<Vec<Entry>> {
        let length = self.file.metadata()?.len();
        let mut entries = vec![];
        let mut at = 0;
        let mut bytes = [0; HEADER_BYTES];
        while at + HEADER_BYTES as u64 <= length {
            self.file.read_exact_at(&mut bytes, at)?;
            let Some(header) = Header::decode(&bytes) else {
                break;
            };
            let entry = self.entry_of(&header, at);
            let Some(entry) = entry.filter(|entry| entry.end() <= length) else {
                break;
            };
            entries.push(entry);
            at = entry.end();
        }
        Ok(entries)
    }

    /// Adds the bytes of a record that has entered the index.
    pub fn revive(&self, bytes: u32) {
        self.live_bytes.fetch_add(u64::from(bytes), SeqCst);
    }

    /// Subtracts the bytes of a record that has left the index. Returns true if the segment is
    /// complete and none of its records is left.
    pub fn bury(&self, bytes: u32) -> bool {
        let before = self.live_bytes.fetch_sub(u64::from(bytes), SeqCst);
        before == u64::from(bytes) && self.is_sealed()
    }

    /// Returns the size of the segment's records that are in the index.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes.load(SeqCst)
    }

    /// Registers that a record was read.
    pub fn hit(&self, offset: u32) {
        let bit = u64::from(offset) / HIT_BYTES;
        if let Some(word) = self.hits.get((bit / 64) as usize) {
            let mask = 1 << (bit % 64);
            // If the bit is already set, the shared cache line is not written.
            if word.load(SeqCst) & mask == 0 {
                word.fetch_or(mask, SeqCst);
            }
        }
    }

    /// Returns true if a record, or a neighbour in the same 512 bytes, was read.
    pub fn is_hit(&self, offset: u32) -> bool {
        let bit = u64::from(offset) / HIT_BYTES;
        let word = self.hits.get((bit / 64) as usize);
        word.is_some_and(|word| word.load(SeqCst) & (1 << (bit % 64)) != 0)
    }

    /// Registers that a purge ended the freshness of a record at `at_ms`.
    pub fn soften(&self, offset: u32, at_ms: u64) {
        let mut softened = locked(&self.softened);
        let first = softened.entry(offset).or_insert(at_ms);
        *first = at_ms.min(*first);
    }

    /// Returns the instant at which a purge ended the freshness of a record.
    pub fn softened_ms(&self, offset: u32) -> Option<u64> {
        locked(&self.softened).get(&offset).copied()
    }

    /// Reads `length` bytes.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or ends earlier.
    pub fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.read_into(offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Fills a buffer.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or ends earlier.
    pub fn read_into(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)
    }

    /// Fills a buffer if all bytes are in the page cache, without waiting for the disk. Returns
    /// false if they are not.
    pub fn read_cached(&self, offset: u64, bytes: &mut [u8]) -> bool {
        let length = bytes.len();
        let mut slices = [io::IoSliceMut::new(bytes)];
        let flags = rustix::io::ReadWriteFlags::NOWAIT;
        let count = rustix::io::preadv2(&self.file, &mut slices, offset, flags);
        count == Ok(length)
    }

    /// Fills a buffer. If not all bytes were in the page cache, asks the kernel to remove them from
    /// there. Pages that the kernel has read ahead stay, so that a later call finds them cached,
    /// and so do pages at the ends that the bytes fill only in part.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or ends earlier.
    pub fn read_aside(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        if self.read_cached(offset, bytes) {
            return Ok(());
        }
        self.read_into(offset, bytes)?;
        let length = NonZeroU64::new(bytes.len() as u64);
        // This is only a hint. If it fails, the bytes stay in the page cache.
        let _ = rustix::fs::fadvise(&self.file, offset, length, rustix::fs::Advice::DontNeed);
        Ok(())
    }

    /// Writes everything to the device.
    ///
    /// # Errors
    /// Returns an error if the device has failed.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Deletes the file. Readers that have it open can still read.
    ///
    /// # Errors
    /// Returns an error if the file cannot be deleted.
    pub fn delete(&self) -> io::Result<()> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Entry {
    /// Returns the place of the record in a segment.
    pub fn place(&self, segment: u32) -> Place {
        Place {
            segment,
            offset: self.offset,
            length: self.length,
        }
    }

    fn end(&self) -> u64 {
        u64::from(self.offset) + u64::from(self.length)
    }
}

/// Reads a row of the footer.
fn entry(row: &[u8]) -> Entry {
    let u64_at = |at: usize| u64::from_le_bytes(row[at..at + 8].try_into().expect("8 bytes"));
    let u32_at = |at: usize| u32::from_le_bytes(row[at..at + 4].try_into().expect("4 bytes"));
    Entry {
        hash: u64_at(0),
        deadline_ms: u64_at(8),
        offset: u32_at(16),
        length: u32_at(20),
    }
}

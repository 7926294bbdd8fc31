//! Verification of records that are not read, so that damage is found while the rest of the cluster
//! can still restore a chunk.
//!
//! A pass visits the segments that exist when it begins, and reads every record of the index:
//! header, description, and content in pieces. A seed chooses the first segment. From there, the
//! pass continues to the oldest segment, and then from the newest back to the first one. In the
//! order from oldest to newest, a pass that is slower than the writes would only read segments that
//! are about to be deleted. The seed is random, so that passes interrupted by restarts do not read
//! the same segments each time.
//!
//! A pass asks the kernel to remove from the page cache the data that it had to read from the
//! device. Data that the kernel has read ahead, the lists of records, and pages at the ends of
//! records can stay there and displace other data. Data in the page cache is verified as it is
//! there, because clients receive the same bytes.
//!
//! If the list of records at the end of a segment is damaged, its records are found by their
//! headers, up to the first damaged one. Records after that are not verified, and the list is not
//! repaired. If a segment's list cannot be read at all, nothing in the segment is verified, and a
//! warning is logged.
//!
//! A record that cannot be read counts as damaged but not as a device failure, because unreadable
//! sectors are exactly what a pass looks for.

use super::buffers::BUFFER_BYTES;
use super::record::{self, Description, HEADER_BYTES, Header};
use super::segment::{Entry, Segment};
use super::{FIRST_BYTES, Shared};
use crate::rules::key::Key;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Position that a pass has reached.
pub struct Position {
    seed: u64,
    /// Numbers of the remaining segments, with the next one last; `None` before the first one.
    numbers: Option<Vec<u32>>,
    segment: Option<Arc<Segment>>,
    /// Records of the current segment that are not verified yet, the next one last: 24 bytes each.
    entries: Vec<Entry>,
}

impl Position {
    /// Returns the beginning of a pass. The seed chooses the first segment.
    pub fn new(seed: u64) -> Self {
        Position {
            seed,
            numbers: None,
            segment: None,
            entries: vec![],
        }
    }
}

/// Result of a step of a pass.
#[derive(Debug, Default)]
pub struct Step {
    /// Number of bytes read.
    pub bytes: u64,
    /// Records that were found damaged and have left the index.
    pub lost: Vec<Lost>,
    /// Whether the pass has ended, possibly because the tier is off. The position is then at the
    /// beginning of the next pass.
    pub is_last: bool,
}

/// Record that was found damaged.
#[derive(Debug)]
pub struct Lost {
    /// Hash of the key.
    pub hash: u64,
    /// Key and versions of the coded responses; `None` if the description is damaged as well.
    pub described: Option<(Key, Vec<u64>)>,
}

impl Shared {
    /// Verifies at least one record, and further ones until `bytes_max` bytes have been read.
    pub(super) fn scrub(&self, position: &mut Position, bytes_max: u64) -> Step {
        let mut step = Step::default();
        while step.bytes < bytes_max {
            if self.is_off() {
                // The pass ends here, but is incomplete.
                *position = Position::new(position.seed);
                step.is_last = true;
                break;
            }
            let Some((segment, entry)) = self.next(position) else {
                *position = Position::new(position.seed);
                step.is_last = true;
                self.counts.scrub_passes.fetch_add(1, Relaxed);
                break;
            };
            let place = entry.place(segment.number);
            if self.index.peek(&entry.hash) != Some(place) {
                continue;
            }
            let verified = self.verify(&segment, &entry);
            step.bytes += verified.bytes;
            // A record that has left the index meanwhile need not be reported.
            if !verified.is_intact && self.index.peek(&entry.hash) == Some(place) {
                self.corrupt(entry.hash, place);
                self.counts.scrub_corrupt.fetch_add(1, Relaxed);
                step.lost.push(Lost {
                    hash: entry.hash,
                    described: verified.described.map(described),
                });
            }
        }
        self.counts.scrubbed_bytes.fetch_add(step.bytes, Relaxed);
        step
    }

    /// Returns the next record of a pass; `None` at its end.
    fn next(&self, position: &mut Position) -> Option<(Arc<Segment>, Entry)> {
        loop {
            if let Some(entry) = position.entries.pop() {
                return Some((position.segment.clone()?, entry));
            }
            let seed = position.seed;
            let numbers = position.numbers.get_or_insert_with(|| self.order(seed));
            let Some(segment) = self.segments.get(numbers.pop()?) else {
                // The segment was deleted meanwhile.
                continue;
            };
            // The segment that is being written has no footer yet. In a segment without an intact
            // footer, the records are found by their headers.
            position.entries = segment.entries().unwrap_or_else(|error| {
                let number = segment.number;
                log::warn!("disk: segment {number} is not verified: {error}");
                vec![]
            });
            position.entries.reverse();
            position.segment = Some(segment);
        }
    }

    /// Returns the numbers of all segments in the order of a pass, the first one last.
    pub(super) fn order(&self, seed: u64) -> Vec<u32> {
        let mut numbers: Vec<u32> = self.segments.map().keys().copied().collect();
        if !numbers.is_empty() {
            let first = (seed % numbers.len() as u64) as usize;
            numbers.rotate_left(first + 1);
        }
        numbers
    }

    fn verify(&self, segment: &Segment, entry: &Entry) -> Verified {
        let mut verified = Verified::default();
        // An error of the device makes the record count as damaged.
        let _ = self.verify_parts(segment, entry, &mut verified);
        verified
    }

    fn verify_parts(
        &self,
        segment: &Segment,
        entry: &Entry,
        verified: &mut Verified,
    ) -> io::Result<()> {
        let at = u64::from(entry.offset);
        let mut read = |at: u64, bytes: &mut [u8]| {
            verified.bytes += bytes.len() as u64;
            segment.read_aside(at, bytes)
        };
        let mut bytes = vec![0; FIRST_BYTES.min(entry.length) as usize];
        read(at, &mut bytes)?;
        let header = Header::at(entry.hash, entry.place(segment.number), &bytes);
        let Some(header) = header else { return Ok(()) };
        let content_at = HEADER_BYTES + header.description_bytes as usize;
        if content_at > bytes.len() {
            let start = bytes.len();
            bytes.resize(content_at, 0);
            read(at + start as u64, &mut bytes[start..])?;
        }
        let described = record::read_description(&header, &bytes[HEADER_BYTES..content_at]);
        let Some(described) = described else {
            return Ok(());
        };
        let blocks = described.blocks.clone();
        verified.described = Some(described);
        let mut buffer = self.buffers.take(BUFFER_BYTES);
        let mut start = 0;
        while start < header.content_bytes {
            let length = (header.content_bytes - start).min(BUFFER_BYTES as u64);
            let bytes = buffer.first_mut(length as usize);
            verified.bytes += length;
            segment.read_aside(at + content_at as u64 + start, bytes)?;
            if !record::is_intact(&blocks, start, bytes) {
                return Ok(());
            }
            start += length;
        }
        verified.is_intact = true;
        Ok(())
    }
}

#[derive(Default)]
struct Verified {
    bytes: u64,
    is_intact: bool,
    described: Option<Description>,
}

fn described(description: Description) -> (Key, Vec<u64>) {
    let coded = description
        .variants
        .iter()
        .filter_map(|(head, _)| head.coded);
    let versions = coded.map(|coded| coded.version).collect();
    (description.key, versions)
}

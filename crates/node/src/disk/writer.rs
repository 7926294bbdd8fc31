//! Thread that writes segments and deletes the oldest ones.

use super::Shared;
use super::queue::{Job, Queue, Victim};
use super::record::{self, HEADER_BYTES, Header};
use super::removed::Line;
use super::segment::{Entry, Segment, is_of_process};
use crate::object::Place;
use library::Op;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Divisor of the segment size that limits how much of a deleted segment moves to the newest one.
/// Only records that were read are moved. Without a limit, a tier whose records are all read would
/// never stop writing.
const REINSERTED_PART: u64 = 4;

/// Function that returns true if responses that left memory have been replaced or purged since
/// then.
pub(super) type Superseded = Box<dyn Fn(&Victim) -> bool + Send>;

pub(super) struct Writer {
    pub shared: Arc<Shared>,
    pub queue: Arc<Queue>,
    pub is_superseded: Superseded,
    pub open: Option<Arc<Segment>>,
    pub next_number: u32,
    /// Number of URLs that could not be written for lack of file descriptors.
    pub unwritten_count: u64,
}

impl Writer {
    /// Processes jobs until it is stopped.
    pub fn run(mut self) {
        loop {
            let result = match self.queue.pop() {
                Job::Write(victim) => match self.write(&victim) {
                    Err(error) if is_of_process(&error) => {
                        self.note_unwritten(&error);
                        Ok(())
                    }
                    written => written,
                },
                Job::Free(number) => self.free(number),
                Job::Flush(is_last, done) => {
                    let result = if is_last { self.finish() } else { Ok(()) };
                    let _ = done.send(());
                    result
                }
                Job::Stop => return,
            };
            if let Err(error) = result {
                self.shared.fail(&error);
                self.open = None;
            }
        }
    }

    /// Counts a response that could not be written for lack of file descriptors. Only a new segment
    /// opens a file, so nothing else has failed.
    fn note_unwritten(&mut self, error: &io::Error) {
        self.queue.note_dropped();
        let count = self.unwritten_count + 1;
        self.unwritten_count = count;
        // Logging each of them would fill the log.
        if count.is_power_of_two() {
            let folder = self.shared.folder.display();
            log::warn!("disk {folder}: {error}: {count} URLs were not written since the start");
        }
    }

    fn write(&mut self, victim: &Victim) -> io::Result<()> {
        let shared = self.shared.clone();
        let usable_ms = victim.resource.usable_ms(shared.clock.now_ms());
        if shared.is_off() || usable_ms == 0 || (self.is_superseded)(victim) {
            return Ok(());
        }
        let hash = record::key_hash(&victim.key);
        let before = shared.index.peek(&hash);
        if victim.resource.place.is_some() && victim.resource.place == before {
            shared.counts.unchanged.fetch_add(1, Relaxed);
            return Ok(());
        }
        let description = record::describe(&victim.key, &victim.resource);
        let contents: Vec<_> = record::contents(&victim.resource).collect();
        let content_bytes = contents.iter().map(|chunk| chunk.len() as u64).sum();
        let mut header = Header {
            hash,
            deadline_ms: shared.clock.now_ms().saturating_add(usable_ms),
            segment: 0,
            offset: 0,
            description_bytes: u32::try_from(description.len()).unwrap_or(u32::MAX),
            content_bytes,
            description_checksum: record::checksum(&description),
        };
        let tag_count = victim.resource.tags().count();
        let fits = |bytes: &u64| shared.fits(*bytes, tag_count);
        let Some(length) = header.record_bytes().filter(fits) else {
            shared.counts.too_large.fetch_add(1, Relaxed);
            return Ok(());
        };
        let segment = self.room(length, tag_count)?;
        let place = place_in(&segment, length);
        (header.segment, header.offset) = (place.segment, place.offset);
        let mut head = header.encode().to_vec();
        head.extend_from_slice(&description);
        let is_small = content_bytes < record::BLOCK_BYTES as u64;
        if is_small {
            contents
                .iter()
                .for_each(|chunk| head.extend_from_slice(chunk));
        }
        let mut parts = vec![&head[..]];
        if !is_small {
            parts.extend(contents.iter().map(|chunk| &chunk[..]));
        }
        segment.append(entry(&header, place), victim.resource.tags(), &parts)?;
        shared.counts.written.fetch_add(1, Relaxed);
        shared.counts.written_bytes.fetch_add(length, Relaxed);
        segment.revive(place.length);
        let usable = Duration::from_millis(usable_ms);
        shared.index.insert_with_ttl(hash, place, usable);
        if let Some(before) = before {
            // The newer record may be deleted before the older one, which a restart would then
            // bring back.
            shared.log(&[Line::removal(before)])?;
        }
        if (self.is_superseded)(victim) {
            shared.remove(hash);
        }
        Ok(())
    }

    /// Returns a segment with room for a record and its tags. A new segment displaces the oldest
    /// one.
    fn room(&mut self, length: u64, tag_count: usize) -> io::Result<Arc<Segment>> {
        if let Some(open) = &self.open {
            if open.bytes_with(length, tag_count) <= self.shared.segment_bytes {
                return Ok(open.clone());
            }
            self.finish()?;
        }
        let shared = &self.shared;
        let new = Segment::create(&shared.folder, self.next_number, shared.segment_bytes)?;
        let new = Arc::new(new);
        self.next_number += 1;
        shared.segments.insert(new.clone());
        self.open = Some(new.clone());
        while let Some(oldest) = shared.segments.surplus(shared.segments_max - 1) {
            self.displace(&oldest, &new)?;
        }
        // The moved records may have filled it.
        if new.bytes_with(length, tag_count) <= shared.segment_bytes {
            return Ok(new);
        }
        self.room(length, tag_count)
    }

    /// Completes the segment that is being written.
    fn finish(&mut self) -> io::Result<()> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        open.seal()?;
        if open.live_bytes() == 0 {
            self.free(open.number)?;
        }
        Ok(())
    }

    fn free(&self, number: u32) -> io::Result<()> {
        let segment = self.shared.segments.get(number);
        let is_free = |segment: &Arc<Segment>| segment.is_sealed() && segment.live_bytes() == 0;
        let Some(segment) = segment.filter(is_free) else {
            return Ok(());
        };
        self.shared.segments.remove(number);
        segment.delete()
    }

    /// Deletes a segment. Records that were read move to another segment, up to a limit.
    fn displace(&self, oldest: &Arc<Segment>, open: &Arc<Segment>) -> io::Result<()> {
        let shared = &self.shared;
        let mut budget = shared.segment_bytes / REINSERTED_PART;
        for old in oldest.entries()? {
            let place = old.place(oldest.number);
            if shared.index.peek(&old.hash) != Some(place) {
                continue;
            }
            let length = u64::from(old.length);
            let is_moved = oldest.is_hit(old.offset)
                && length <= budget
                && self.relocate(oldest, open, &old)?;
            if is_moved {
                budget -= length;
                continue;
            }
            shared.counts.displaced.fetch_add(1, Relaxed);
            shared.index.compute(old.hash, |present| {
                if present == Some(&place) {
                    Op::Remove
                } else {
                    Op::Keep
                }
            });
        }
        shared.segments.remove(oldest.number);
        oldest.delete()
    }

    /// Copies a record to another segment. Its content is not verified, because its checksums move
    /// with it. Returns false if it was not copied, because it is damaged or there is no room.
    fn relocate(&self, from: &Segment, to: &Segment, old: &Entry) -> io::Result<bool> {
        let shared = &self.shared;
        let mut bytes = from.read(u64::from(old.offset), old.length as usize)?;
        let Some(mut header) = Header::decode(&bytes) else {
            return Ok(false);
        };
        let end = HEADER_BYTES + header.description_bytes as usize;
        let described = bytes.get(HEADER_BYTES..end);
        let described = described.and_then(|bytes| record::read_description(&header, bytes));
        let Some(described) = described else {
            return Ok(false);
        };
        if to.bytes_with(old.length.into(), described.tags().count()) > shared.segment_bytes {
            return Ok(false);
        }
        let before = old.place(from.number);
        let place = place_in(to, u64::from(old.length));
        (header.segment, header.offset) = (place.segment, place.offset);
        bytes[..HEADER_BYTES].copy_from_slice(&header.encode());
        to.append(entry(&header, place), described.tags(), &[&bytes])?;
        if let Some(at_ms) = from.softened_ms(old.offset) {
            to.soften(place.offset, at_ms);
            shared.log(&[Line::softening(place, at_ms)])?;
        }
        to.revive(place.length);
        // A purge may have changed the deadline.
        let left = shared.index.time_to_live(&old.hash);
        let is_moved = shared.index.compute(old.hash, |present| {
            if present == Some(&before) {
                Op::PutWithTtl(place, left.unwrap_or_default())
            } else {
                Op::Keep
            }
        });
        if is_moved {
            // A soft purge may have come after the check above.
            if from.softened_ms(old.offset) != to.softened_ms(place.offset) {
                let described = shared.describe(to, &entry(&header, place))?;
                shared.soften(to, old.hash, place, described)?;
            }
            let length = u64::from(old.length);
            shared.counts.reinserted_bytes.fetch_add(length, Relaxed);
        } else {
            // The record was removed or has expired meanwhile.
            to.bury(place.length);
            shared.log(&[Line::removal(place)])?;
        }
        Ok(true)
    }
}

/// Returns the place of the next record in a segment.
fn place_in(segment: &Segment, length: u64) -> Place {
    let number = |bytes: u64| u32::try_from(bytes).expect("segments are shorter than 4 GiB");
    Place {
        segment: segment.number,
        offset: number(segment.bytes()),
        length: number(length),
    }
}

fn entry(header: &Header, place: Place) -> Entry {
    Entry {
        hash: header.hash,
        deadline_ms: header.deadline_ms,
        offset: place.offset,
        length: place.length,
    }
}

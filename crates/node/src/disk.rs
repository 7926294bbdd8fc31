//! Disk tier: responses that were evicted from memory, in append-only files.
//!
//! `record.rs` is the encoding, `segment.rs` the files, `writer.rs` the thread that writes,
//! `extent.rs` content read in pieces, `buffers.rs` the memory for it, `removed.rs` the log of
//! records that a restart must not bring back, `open.rs` the start, `purge.rs` the purges,
//! `tags.rs` their index by tag, and `scrub.rs` the verification of records that are not read.
//! The index is a cache from the project's library, with 12 bytes per URL and a deadline, so that
//! records leave it on time.
//!
//! Reads of data in the page cache are made directly (`RWF_NOWAIT`); Tokio's threads for blocking
//! work make the others. io_uring would save the thread switch only for the latter, needs unsafe
//! code or its own runtime, and is disabled on many hosts.
//!
//! A failure of the device turns the tier off until the next start. Damaged records are misses.
//!
//! Data reaches the device when the kernel writes it, except for the log of removals, which a purge
//! writes immediately. After a power failure, the checksums show which data was not written.

mod buffers;
mod extent;
mod open;
mod purge;
mod queue;
mod record;
mod removed;
mod scrub;
mod segment;
mod tags;
#[cfg(test)]
mod tests;
mod writer;

pub use queue::{Job, Left, Queue, Victim};
pub use record::{Reader as HeadReader, key_hash, put_head};
pub use scrub::{Lost, Position, Step};

use crate::budget::{Budget, Charge};
use crate::clock::Clock;
use crate::config::{Config, DiskConfig, Invalid};
use crate::object::{Head, Object, Place, Resource};
use crate::purge::Target;
use crate::rules::key::Key;
use buffers::Buffers;
use bytes::Bytes;
use extent::DiskExtent;
use library::{Cache, Op};
use record::{Description, HEADER_BYTES, Header};
use removed::{Line, Removed};
use segment::{Entry, Segment};
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;
use writer::{Superseded, Writer};

/// Maximum size of a record that is read as a whole and returned to memory when it is requested.
/// The content of larger records is read in pieces and stays in the page cache.
const WHOLE_BYTES_MAX: u32 = 128 << 10;
/// Number of bytes of a larger record that are read first, for its description.
const FIRST_BYTES: u32 = 8 << 10;

/// The disk tier.
pub struct Disk {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
    writer: Option<JoinHandle<()>>,
}

/// Counters of the tier. All of them only grow, except for the first six.
#[derive(Clone, Debug, Default)]
pub struct DiskStats {
    /// Whether a failure has turned the tier off.
    pub is_off: bool,
    /// Number of URLs in the index.
    pub urls: u64,
    /// Memory of the index in bytes.
    pub index_bytes: u64,
    /// Memory of the index by tag in bytes.
    pub tag_bytes: u64,
    /// Size of all files in bytes.
    pub bytes: u64,
    /// Size of the records in the index, in bytes.
    pub live_bytes: u64,
    /// Number of records written.
    pub written: u64,
    /// Number of bytes written for responses that left memory.
    pub written_bytes: u64,
    /// Number of bytes moved from deleted segments to new ones.
    pub reinserted_bytes: u64,
    /// Number of URLs that left memory and were already on disk.
    pub unchanged: u64,
    /// Number of URLs that were not written because too many were waiting.
    pub dropped: u64,
    /// Number of URLs that were not written because they were too large.
    pub too_large: u64,
    /// Number of URLs that left because their segment was the oldest.
    pub displaced: u64,
    /// Number of records found damaged.
    pub corrupt: u64,
    /// Number of records found damaged by verification; they are included in `corrupt`.
    pub scrub_corrupt: u64,
    /// Number of bytes read by verification.
    pub scrubbed_bytes: u64,
    /// Number of completed verification passes.
    pub scrub_passes: u64,
    /// Number of records whose descriptions purges have read.
    pub purge_reads: u64,
    /// Number of device failures.
    pub errors: u64,
}

#[derive(Debug, Default)]
struct Counts {
    written: AtomicU64,
    written_bytes: AtomicU64,
    reinserted_bytes: AtomicU64,
    unchanged: AtomicU64,
    too_large: AtomicU64,
    displaced: AtomicU64,
    corrupt: AtomicU64,
    scrub_corrupt: AtomicU64,
    scrubbed_bytes: AtomicU64,
    scrub_passes: AtomicU64,
    purge_reads: AtomicU64,
    errors: AtomicU64,
}

/// Segments by number.
#[derive(Default)]
struct Segments(RwLock<BTreeMap<u32, Arc<Segment>>>);

struct Shared {
    folder: PathBuf,
    segment_bytes: u64,
    segments_max: usize,
    index: Cache<u64, Place>,
    segments: Arc<Segments>,
    buffers: Arc<Buffers>,
    /// Account of content outside the store.
    budget: Arc<Budget>,
    removed: Mutex<Removed>,
    counts: Counts,
    clock: Clock,
    is_off: AtomicBool,
    /// Locked file, so that no second process uses the folder.
    _lock: File,
}

impl Segments {
    fn map(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<u32, Arc<Segment>>> {
        self.0.read().unwrap_or_else(|poison| poison.into_inner())
    }

    fn map_mut(&self) -> std::sync::RwLockWriteGuard<'_, BTreeMap<u32, Arc<Segment>>> {
        self.0.write().unwrap_or_else(|poison| poison.into_inner())
    }

    fn get(&self, number: u32) -> Option<Arc<Segment>> {
        self.map().get(&number).cloned()
    }

    fn has(&self, number: u32) -> bool {
        self.map().contains_key(&number)
    }

    fn insert(&self, segment: Arc<Segment>) {
        self.map_mut().insert(segment.number, segment);
    }

    fn remove(&self, number: u32) {
        self.map_mut().remove(&number);
    }

    fn all(&self) -> Vec<Arc<Segment>> {
        self.map().values().cloned().collect()
    }

    /// Returns the oldest segment if there are more than `count`.
    fn surplus(&self, count: usize) -> Option<Arc<Segment>> {
        let map = self.map();
        let oldest = map.values().next().filter(|_| map.len() > count);
        oldest.cloned()
    }
}

impl Disk {
    /// Opens a folder, reads the index of its segments, and starts the thread that writes.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be used, or another process uses it.
    pub fn open(
        config: &Config,
        disk: &DiskConfig,
        budget: &Arc<Budget>,
        queue: Arc<Queue>,
        is_superseded: Superseded,
    ) -> Result<Self, Invalid> {
        let invalid =
            |error: io::Error| Invalid(format!("disk {}: {error}", disk.folder.display()));
        let (shared, next_number) = Shared::open(config, disk, budget, &queue).map_err(invalid)?;
        let shared = Arc::new(shared);
        let writer = Writer {
            shared: shared.clone(),
            queue: queue.clone(),
            is_superseded,
            open: None,
            next_number,
            unwritten_count: 0,
        };
        let thread = std::thread::Builder::new().name("disk".into());
        let thread = thread.spawn(move || writer.run()).map_err(invalid)?;
        Ok(Disk {
            shared,
            queue,
            writer: Some(thread),
        })
    }

    /// Returns the responses of a URL, without reading large content.
    pub async fn get(&self, key: &Key) -> Option<Resource> {
        let resource = self.shared.get(key).await?;
        let usable_ms = resource.usable_ms(self.shared.clock.now_ms());
        (usable_ms > 0).then_some(resource)
    }

    /// Returns true if a record is still in the index.
    pub fn has(&self, key: &Key, place: Place) -> bool {
        self.shared.index.peek(&key_hash(key)) == Some(place)
    }

    /// Removes the responses of a URL, because newer ones exist.
    pub fn remove(&self, key: &Key) -> bool {
        self.shared.remove(key_hash(key))
    }

    /// Purges the target. Returns the number of URLs, without those whose hashes are in `counted`.
    pub fn purge(&self, target: &Target, is_soft: bool, counted: &HashSet<u64>) -> usize {
        if self.shared.is_off() {
            return 0;
        }
        match self.shared.purge(target, is_soft, counted) {
            Ok(count) => count,
            Err(error) => {
                self.shared.fail(&error);
                0
            }
        }
    }

    /// Verifies records from a position until `bytes_max` bytes have been read.
    pub fn scrub(&self, position: &mut Position, bytes_max: u64) -> Step {
        self.shared.scrub(position, bytes_max)
    }

    /// Calls `see` with the key and the head of each coded object whose head is on disk, until it
    /// returns false.
    pub fn for_each_stub(&self, see: &mut dyn FnMut(Key, Arc<Head>) -> bool) {
        if !self.shared.is_off()
            && let Err(error) = self.shared.for_each_stub(see)
        {
            self.shared.fail(&error);
        }
    }

    /// Writes the log of removals to the device, so that removals survive a loss of power.
    pub fn sync_removals(&self) {
        if !self.shared.is_off()
            && let Err(error) = self.shared.removed().sync()
        {
            self.shared.fail(&error);
        }
    }

    /// Writes responses that are still in memory, and completes the segment.
    pub fn save(&self, all: impl Iterator<Item = Victim>) {
        all.for_each(|victim| self.queue.push(Job::Write(victim)));
        self.flush(true);
        for segment in self.shared.segments.all() {
            if let Err(error) = segment.sync() {
                self.shared.fail(&error);
            }
        }
    }

    /// Waits until everything in the queue is written.
    pub fn flush(&self, is_last: bool) {
        let (done, is_done) = sync_channel(1);
        self.queue.push(Job::Flush(is_last, done));
        let _ = is_done.recv();
    }

    /// Removes expired records from the index. Needed with manual clocks only.
    pub fn expire(&self) -> usize {
        self.shared.index.expire()
    }

    /// Returns the counters of the tier.
    pub fn stats(&self) -> DiskStats {
        let shared = &self.shared;
        let counts = &shared.counts;
        let index = shared.index.stats();
        let segments = shared.segments.all();
        DiskStats {
            is_off: shared.is_off(),
            urls: index.len,
            index_bytes: index.bytes,
            tag_bytes: segments.iter().map(|segment| segment.tag_bytes()).sum(),
            bytes: segments.iter().map(|segment| segment.bytes()).sum(),
            live_bytes: segments.iter().map(|segment| segment.live_bytes()).sum(),
            written: counts.written.load(Relaxed),
            written_bytes: counts.written_bytes.load(Relaxed),
            reinserted_bytes: counts.reinserted_bytes.load(Relaxed),
            unchanged: counts.unchanged.load(Relaxed),
            dropped: self.queue.dropped(),
            too_large: counts.too_large.load(Relaxed),
            displaced: counts.displaced.load(Relaxed),
            corrupt: counts.corrupt.load(Relaxed),
            scrub_corrupt: counts.scrub_corrupt.load(Relaxed),
            scrubbed_bytes: counts.scrubbed_bytes.load(Relaxed),
            scrub_passes: counts.scrub_passes.load(Relaxed),
            purge_reads: counts.purge_reads.load(Relaxed),
            errors: counts.errors.load(Relaxed),
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.queue.push(Job::Stop);
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

impl Shared {
    fn is_off(&self) -> bool {
        self.is_off.load(SeqCst)
    }

    fn removed(&self) -> std::sync::MutexGuard<'_, Removed> {
        self.removed
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Returns true if a record of this length with its tags fits in a segment.
    fn fits(&self, bytes: u64, tag_count: usize) -> bool {
        bytes + tag_count as u64 * segment::TAG_BYTES + 1_024 <= self.segment_bytes
    }

    /// Adds lines to the log of removals.
    fn log(&self, lines: &[Line]) -> io::Result<()> {
        self.removed()
            .add(lines, |number| self.segments.has(number))
    }

    /// Turns the tier off after a failure of the device. Its files are deleted, because removals
    /// can no longer be recorded.
    fn fail(&self, error: &io::Error) {
        self.counts.errors.fetch_add(1, Relaxed);
        if self.is_off.swap(true, SeqCst) {
            return;
        }
        let folder = self.folder.display();
        log::error!("disk {folder}: {error}: the disk tier is off until the next start");
        self.index.clear();
        for segment in self.segments.all() {
            self.segments.remove(segment.number);
            if let Err(error) = segment.delete() {
                log::error!("disk {folder}: segment {}: {error}", segment.number);
            }
        }
    }

    /// Removes a damaged record.
    fn corrupt(&self, hash: u64, place: Place) {
        let count = self.counts.corrupt.fetch_add(1, Relaxed) + 1;
        // Logging each of millions of records would fill the log.
        if count.is_power_of_two() {
            log::warn!(
                "disk: the record at {} of segment {} is damaged; {count} since the start",
                place.offset,
                place.segment
            );
        }
        if self.take(hash, place)
            && let Err(error) = self.log(&[Line::removal(place)])
        {
            self.fail(&error);
        }
    }

    /// Removes a record from the index if it is still there.
    fn take(&self, hash: u64, place: Place) -> bool {
        self.index.compute(hash, |present| {
            if present == Some(&place) {
                Op::Remove
            } else {
                Op::Keep
            }
        })
    }

    fn remove(&self, hash: u64) -> bool {
        let Some(place) = self.index.take(&hash) else {
            return false;
        };
        if let Err(error) = self.log(&[Line::removal(place)]) {
            self.fail(&error);
        }
        true
    }

    async fn get(self: &Arc<Self>, key: &Key) -> Option<Resource> {
        let hash = key_hash(key);
        let place = self.index.peek(&hash)?;
        let segment = self.segments.get(place.segment)?;
        let is_whole = place.length <= WHOLE_BYTES_MAX;
        let length = if is_whole { place.length } else { FIRST_BYTES } as usize;
        let bytes = self.read(&segment, place.offset.into(), length).await?;
        let Some(header) = Header::at(hash, place, &bytes) else {
            self.corrupt(hash, place);
            return None;
        };
        let content_at = HEADER_BYTES + header.description_bytes as usize;
        let bytes = if bytes.len() < content_at {
            self.read(&segment, place.offset.into(), content_at).await?
        } else {
            bytes
        };
        let described = record::read_description(&header, &bytes[HEADER_BYTES..content_at]);
        let Some(described) = described else {
            self.corrupt(hash, place);
            return None;
        };
        if described.key != *key {
            return None;
        }
        segment.hit(place.offset);
        if !is_whole {
            return Some(self.extents(hash, place, &segment, &header, described));
        }
        if !record::is_intact(&described.blocks, 0, &bytes[content_at..]) {
            self.corrupt(hash, place);
            return None;
        }
        let softened_ms = segment.softened_ms(place.offset);
        let content = Bytes::from(bytes).slice(content_at..);
        Some(resource(place, described, softened_ms, |range, head| {
            let part = content.slice(range.start as usize..range.end as usize);
            let charge = Charge::new(&self.budget);
            Object::charged(head, vec![charge.count_as_is(part)], &charge)
        }))
    }

    /// Returns responses whose content stays on disk.
    fn extents(
        self: &Arc<Self>,
        hash: u64,
        place: Place,
        segment: &Arc<Segment>,
        header: &Header,
        described: Description,
    ) -> Resource {
        let blocks = described.blocks.clone();
        let softened_ms = segment.softened_ms(place.offset);
        let head_bytes = HEADER_BYTES as u64 + u64::from(header.description_bytes);
        resource(place, described, softened_ms, |range, head| {
            let extent = DiskExtent {
                shared: self.clone(),
                segment: segment.clone(),
                hash,
                place,
                blocks: blocks.clone(),
                content_at: u64::from(place.offset) + head_bytes,
                content_bytes: header.content_bytes,
                start: range.start,
            };
            Object::on_disk(head, Arc::new(extent), range.len())
        })
    }

    async fn read(
        self: &Arc<Self>,
        segment: &Arc<Segment>,
        at: u64,
        length: usize,
    ) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        if segment.read_cached(at, &mut bytes) {
            return Some(bytes);
        }
        let segment = segment.clone();
        let read =
            tokio::task::spawn_blocking(move || segment.read_into(at, &mut bytes).map(|()| bytes));
        match read.await.ok()? {
            Ok(bytes) => Some(bytes),
            Err(error) => {
                self.fail(&error);
                None
            }
        }
    }

    /// Reads the description of a record of a segment.
    fn describe(&self, segment: &Segment, entry: &Entry) -> io::Result<Option<Description>> {
        let at = u64::from(entry.offset);
        let first = FIRST_BYTES.min(entry.length) as usize;
        let mut bytes = segment.read(at, first)?;
        let Some(header) = Header::decode(&bytes) else {
            return Ok(None);
        };
        let end = HEADER_BYTES + header.description_bytes as usize;
        if end > entry.length as usize {
            return Ok(None);
        }
        if end > bytes.len() {
            bytes = segment.read(at, end)?;
        }
        Ok(record::read_description(&header, &bytes[HEADER_BYTES..end]))
    }

    /// Stubs have no content, so longer records are not read.
    fn for_each_stub(&self, see: &mut dyn FnMut(Key, Arc<Head>) -> bool) -> io::Result<()> {
        for segment in self.segments.all() {
            let entries = segment.entries()?;
            for entry in entries.iter().filter(|entry| entry.length <= FIRST_BYTES) {
                let place = entry.place(segment.number);
                if self.index.peek(&entry.hash) != Some(place)
                    || segment.softened_ms(entry.offset).is_some()
                {
                    continue;
                }
                let Some(described) = self.describe(&segment, entry)? else {
                    continue;
                };
                for (head, length) in described.variants {
                    let is_stub = head.coded.is_some() && length == 0;
                    if is_stub && !see(described.key.clone(), head) {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }
}

/// Creates a resource from a description. A function creates each object from a head and the range
/// of its content.
fn resource(
    place: Place,
    described: Description,
    softened_ms: Option<u64>,
    mut object: impl FnMut(crate::rules::ranges::Range, Arc<Head>) -> Object,
) -> Resource {
    let mut start = 0;
    let variants = described.variants.into_iter().map(|(mut head, length)| {
        if let Some(at_ms) = softened_ms {
            Arc::make_mut(&mut head).terms.end_freshness(at_ms);
        }
        let end = start + length;
        let range = crate::rules::ranges::Range { start, end };
        start = end;
        object(range, head)
    });
    Resource {
        variants: variants.collect(),
        place: Some(place),
        tagged: None,
    }
}

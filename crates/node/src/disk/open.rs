//! Opening of a folder: its lock, and the index of the segments of an earlier run.

use super::purge::softened_usable_ms;
use super::removed::{Line, Removed};
use super::segment::{self, Entry, Segment};
use super::{Counts, Job, Queue, Segments, Shared};
use crate::budget::Budget;
use crate::clock::Clock;
use crate::config::{Config, DiskConfig};
use crate::object::Place;
use library::Cache;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Creates the index. Records that leave it are subtracted from their segments.
fn index(clock: &Clock, segments: Arc<Segments>, queue: Arc<Queue>) -> Cache<u64, Place> {
    // The size of the segments bounds the number of records.
    let index = Cache::builder(u64::MAX >> 8)
        .weigher(|_, _| 1)
        .policy_named("sieve")
        .statistics(false)
        .shards(16)
        .clock(clock.of_store())
        .listener(move |_, place: &Place, _| {
            let segment = segments.get(place.segment);
            if segment.is_some_and(|segment| segment.bury(place.length)) {
                queue.offer(Job::Free(place.segment));
            }
        });
    let index = match clock {
        Clock::System => index,
        Clock::Manual(_) => index.timer(library::Timer::Manual),
    };
    index.build().expect("the settings are constants")
}

fn lock(folder: &Path) -> io::Result<File> {
    std::fs::create_dir_all(folder)?;
    let lock = File::create(folder.join("lock"))?;
    let operation = rustix::fs::FlockOperation::NonBlockingLockExclusive;
    rustix::fs::flock(&lock, operation)
        .map_err(|_| io::Error::other("another process uses this folder"))?;
    Ok(lock)
}

impl Shared {
    /// Opens the folder. Also returns the number of the next segment.
    pub(super) fn open(
        config: &Config,
        disk: &DiskConfig,
        budget: &Arc<Budget>,
        queue: &Arc<Queue>,
    ) -> io::Result<(Self, u32)> {
        let folder = &disk.folder;
        let lock = lock(folder)?;
        let segment_bytes = disk.segment_bytes(config.object_bytes_max);
        let mut numbers = vec![];
        for file in std::fs::read_dir(folder)? {
            numbers.extend(segment::number(&file?.path()));
        }
        numbers.sort_unstable();
        let (removed, lines) =
            Removed::open(folder, |number| numbers.binary_search(&number).is_ok())?;
        let segments = Arc::<Segments>::default();
        let shared = Shared {
            folder: folder.clone(),
            segment_bytes,
            segments_max: usize::try_from(disk.bytes / segment_bytes).unwrap_or(usize::MAX),
            index: index(&config.clock, segments.clone(), queue.clone()),
            segments,
            buffers: Arc::default(),
            budget: budget.clone(),
            removed: Mutex::new(removed),
            counts: Counts::default(),
            clock: config.clock.clone(),
            is_off: AtomicBool::new(false),
            _lock: lock,
        };
        shared.restore(&numbers, &lines, disk.bytes)?;
        // The log may still have lines about segments that were just removed because they had no
        // record.
        let next_number = numbers.last().map_or(0, |newest| newest + 1);
        Ok((shared, next_number))
    }

    /// Fills the index from the segments of an earlier run, oldest first.
    fn restore(&self, numbers: &[u32], lines: &[Line], bytes_max: u64) -> io::Result<()> {
        let mut ends: HashMap<(u32, u32), Option<u64>> = HashMap::new();
        for line in lines {
            // The first of several softenings ended the freshness. A removal, which is lower than
            // any of them, is final.
            let end = ends.entry((line.segment, line.offset));
            let end = end.or_insert(line.softened_ms);
            *end = line.softened_ms.min(*end);
        }
        // Only the newest segments that fit are used, because the tier may have become smaller.
        let mut sum = 0;
        let mut kept = vec![];
        for &number in numbers.iter().rev() {
            let path = segment::path(&self.folder, number);
            sum += std::fs::metadata(&path)?.len();
            if sum <= bytes_max {
                kept.push(number);
            } else {
                std::fs::remove_file(&path)?;
            }
        }
        for number in kept.into_iter().rev() {
            let path = segment::path(&self.folder, number);
            let (segment, entries) = Segment::open(&path, number, self.segment_bytes)?;
            let segment = Arc::new(segment);
            self.segments.insert(segment.clone());
            for entry in &entries {
                self.restore_entry(&segment, entry, &ends)?;
            }
            if segment.live_bytes() == 0 {
                self.segments.remove(number);
                segment.delete()?;
            }
        }
        Ok(())
    }

    fn restore_entry(
        &self,
        segment: &Segment,
        entry: &Entry,
        lines: &HashMap<(u32, u32), Option<u64>>,
    ) -> io::Result<()> {
        match lines.get(&(segment.number, entry.offset)) {
            Some(None) => _ = self.index.remove(&entry.hash),
            softened => {
                let now_ms = self.clock.now_ms();
                let left_ms = if let Some(Some(at_ms)) = softened {
                    segment.soften(entry.offset, *at_ms);
                    let described = self.describe(segment, entry)?;
                    softened_usable_ms(described.as_ref(), *at_ms, now_ms)
                } else {
                    entry.deadline_ms.saturating_sub(now_ms)
                };
                if left_ms == 0 {
                    self.index.remove(&entry.hash);
                    return Ok(());
                }
                segment.revive(entry.length);
                let place = entry.place(segment.number);
                let left = Duration::from_millis(left_ms);
                self.index.insert_with_ttl(entry.hash, place, left);
            }
        }
        Ok(())
    }
}

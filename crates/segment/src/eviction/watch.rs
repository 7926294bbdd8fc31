//! Watched keys: they measure the utility of sampled segments, for the experimental eviction
//! `gl-cache`.
//!
//! Some keys of a sampled segment are entered into a table. The next request for each adds to the
//! segment's utility: one over the time since the sample and the object's size. A key is found by
//! its hash, wherever its object is by then: still in the segment, moved by a merge, or evicted.
//! Evicted objects therefore need no ghosts, and merges need not report anything. A key has one
//! entry for each sample that watches it. The request removes the entry, so that each object counts
//! once. A key that is overwritten or deleted before it was requested adds nothing.
//!
//! # Cost
//! Keys are selected by their hash, one in a power of two, so that a megabyte of small objects
//! needs a few dozen entries. Utilities are scaled by the number of objects that each watched key
//! stands for. The power depends on the sample's number of objects. Each request compares its hash
//! with a mask: that of the sample that watches the largest share. A request that the mask covers
//! reads one line of the table, and only if it was counted, once a second at most, or missed. So a
//! segment of a few dozen objects, all of which are watched, makes all counted requests read a line
//! while its sample lasts. Nothing here waits. A request that finds its key clears the entry and
//! adds to the sample's utility; any other writes nothing.
//!
//! ```text
//! entry   63 fingerprint 33 32 sample 20 19 words 0
//!         0: vacant; larger objects count as 2^20 - 1 words
//! ```
//! If an entry is removed while its sample ends and the sample's number is given to another, the
//! utility goes to the other sample. That is noise in a label, by a race of nanoseconds once an
//! hour.

use policy::Tick;
use policy::groups::Features;
use policy::parts::chance::scramble;
use std::collections::VecDeque;
// The table publishes nothing that a reader relies on, so Loom need not explore it.
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Number of entries in which a key may be stored: one cache line.
const WAYS: usize = 8;
/// Maximum number of concurrent samples, because an entry has 13 bits for a sample's number.
const SAMPLES_MAX: usize = 1 << SAMPLE_BITS;
const SAMPLE_BITS: u32 = 13;
const WORDS_BITS: u32 = 20;
const WORDS_MASK: u64 = (1 << WORDS_BITS) - 1;
const FINGERPRINT_SHIFT: u32 = WORDS_BITS + SAMPLE_BITS;
/// Divisor of the engine's memory that gives the size of the table, with the exceptions at
/// [`ENTRIES_WANTED`].
const PART: u64 = 1024;
const ENTRIES_MAX: u64 = 1 << 20;
/// Number of entries that enough samples for learning need. A smaller table is enlarged to this
/// number, if that takes no more than a sixteenth of the memory.
const ENTRIES_WANTED: u64 = 1 << 12;
const PART_MAX: u64 = 16;
/// Number of entries per sample, half of which are used. It is lower if there would be too few
/// samples otherwise.
const ENTRIES_PER_SAMPLE: usize = 64;
const ENTRIES_PER_SAMPLE_MIN: usize = 16;
const SAMPLES_WANTED: usize = 256;
/// Minimum memory of an engine with watched keys. With less memory there is not enough room for
/// samples, and none is taken.
const MEMORY_MIN: u64 = 256 << 10;
/// Position of the hash bits that select keys. Chains and tags are selected by other bits.
const SHARE_SHIFT: u32 = 24;
/// Maximum number of bits in a mask, so that at least one key in 2^16 is watched.
const SHARE_BITS_MAX: u32 = 16;
/// Minimum time to a key's next request in the calculation of utility. Requests are counted once a
/// second, so the next one is half a second away on average.
const TIME_MIN_MS: u64 = 500;

/// Fields of a sample that requests access.
#[derive(Debug)]
struct Sample {
    taken_at: AtomicU64,
    /// Deadline after which requests add nothing, however long the segment is kept.
    deadline: AtomicU64,
    /// Sum of the utilities, as the bits of an `f64`.
    utility: AtomicU64,
}

/// Fields of a sample that the learner accesses.
#[derive(Debug)]
struct SampleRecord {
    number: u16,
    at: Tick,
    features: Features,
    /// Number of bits of the hash, from [`SHARE_SHIFT`] on, that are 0 if a key is watched.
    share_bits: u8,
    /// Number of objects that each watched object represents.
    scale: f64,
}

#[derive(Debug, Default)]
struct Samples {
    /// Samples in the order in which they were taken.
    taken: VecDeque<SampleRecord>,
    vacant: Vec<u16>,
    /// Number of flushes when the samples were last checked. After another flush they are dropped.
    flushes: u32,
}

#[derive(Debug)]
struct KeyTable {
    entries: Box<[AtomicU64]>,
    samples: Box<[Sample]>,
    /// Maximum number of watched keys of a sample, before rounding.
    keys: usize,
    records: Mutex<Samples>,
}

/// The watched keys and the samples. [`Watch::prepare`] allocates the memory.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The mask of all samples: the bits that all masks have in common, so that it covers each key
    /// that any sample watches. All bits are set if there is no sample.
    mask: AtomicU64,
    flushes: AtomicU32,
    list: OnceLock<KeyTable>,
}

/// A sample that is being taken.
pub(crate) struct SampleBuilder<'w> {
    watch: &'w Watch,
    list: &'w KeyTable,
    samples: MutexGuard<'w, Samples>,
    taken: SampleRecord,
    watched: u32,
}

fn entry_count(memory_bytes: u64) -> usize {
    let part = |of: u64| 1u64 << (memory_bytes / of / 8).max(WAYS as u64).ilog2();
    let fair = part(PART).min(ENTRIES_MAX);
    fair.max(part(PART_MAX).min(ENTRIES_WANTED)) as usize
}

fn sample_count(entries: usize) -> usize {
    let fewest = (entries / ENTRIES_PER_SAMPLE_MIN).clamp(1, SAMPLES_WANTED);
    (entries / ENTRIES_PER_SAMPLE).clamp(fewest, SAMPLES_MAX)
}

fn is_of_share(hash: u64, mask: u64) -> bool {
    hash >> SHARE_SHIFT & mask == 0
}

impl SampleRecord {
    fn mask(&self) -> u64 {
        (1 << self.share_bits) - 1
    }
}

impl Samples {
    /// Ends the samples for which `is_over` returns true, and removes the entries of their keys.
    fn end_where(&mut self, list: &KeyTable, mut is_over: impl FnMut(&SampleRecord) -> bool) {
        let mut over = vec![false; list.samples.len()];
        self.taken.retain(|taken| {
            let is_over = is_over(taken);
            if is_over {
                over[usize::from(taken.number)] = true;
                self.vacant.push(taken.number);
            }
            !is_over
        });
        list.sweep(|number| over[usize::from(number)]);
    }
}

impl KeyTable {
    fn new(memory_bytes: u64) -> Self {
        let entries = entry_count(memory_bytes);
        let samples = sample_count(entries);
        let sample = |_| Sample {
            taken_at: AtomicU64::new(0),
            deadline: AtomicU64::new(0),
            utility: AtomicU64::new(0),
        };
        KeyTable {
            entries: (0..entries).map(|_| AtomicU64::new(0)).collect(),
            samples: (0..samples).map(sample).collect(),
            // If the table is half full, a key nearly always finds a vacant entry.
            keys: (entries / 2 / samples).max(1),
            records: Mutex::new(Samples {
                taken: VecDeque::with_capacity(samples),
                vacant: (0..samples as u16).rev().collect(),
                flushes: 0,
            }),
        }
    }

    fn records(&self) -> MutexGuard<'_, Samples> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the entries in which a key may be stored, and its fingerprint.
    fn entries_of(&self, hash: u64) -> (&[AtomicU64], u64) {
        let mixed = scramble(hash);
        let line = mixed as usize & (self.entries.len() / WAYS - 1);
        (
            &self.entries[line * WAYS..][..WAYS],
            mixed >> FINGERPRINT_SHIFT,
        )
    }

    /// Removes all entries of a key, and calls `each` with the sample and the entry of each.
    fn take(&self, hash: u64, mut each: impl FnMut(&Sample, u64)) {
        let (entries, fingerprint) = self.entries_of(hash);
        for entry in entries {
            let found = entry.load(Acquire);
            if found == 0 || found >> FINGERPRINT_SHIFT != fingerprint {
                continue;
            }
            if entry.compare_exchange(found, 0, Relaxed, Relaxed).is_ok() {
                let number = found >> WORDS_BITS & (SAMPLES_MAX as u64 - 1);
                each(&self.samples[number as usize], found & WORDS_MASK);
            }
        }
    }

    /// Removes all entries of the samples for which `is_over` returns true.
    fn sweep(&self, is_over: impl Fn(u16) -> bool) {
        for entry in &self.entries {
            let found = entry.load(Relaxed);
            let number = found >> WORDS_BITS & (SAMPLES_MAX as u64 - 1);
            if found != 0 && is_over(number as u16) {
                let _requested = entry.compare_exchange(found, 0, Relaxed, Relaxed);
            }
        }
    }
}

impl Watch {
    pub(crate) fn new() -> Self {
        Watch {
            mask: AtomicU64::new(u64::MAX),
            flushes: AtomicU32::new(0),
            list: OnceLock::new(),
        }
    }

    /// Returns the size of the table in bytes in an engine with this much memory.
    pub(crate) fn bytes_of(memory_bytes: u64) -> u64 {
        if memory_bytes < MEMORY_MIN {
            return 0;
        }
        let entries = entry_count(memory_bytes);
        let by_sample = size_of::<Sample>() + size_of::<SampleRecord>() + size_of::<u16>();
        (entries * 8 + sample_count(entries) * by_sample) as u64
    }

    /// Returns the current size of the table in bytes.
    pub(crate) fn bytes(&self, memory_bytes: u64) -> u64 {
        match self.list.get() {
            Some(_) => Watch::bytes_of(memory_bytes),
            None => 0,
        }
    }

    /// Allocates the table, if there is enough memory for it.
    pub(crate) fn prepare(&self, memory_bytes: u64) {
        if memory_bytes >= MEMORY_MIN {
            self.list.get_or_init(|| KeyTable::new(memory_bytes));
        }
    }

    pub(crate) fn samples_max(&self) -> usize {
        self.list.get().map_or(0, |list| list.samples.len())
    }

    /// Returns true if the table may contain this key. If not, a request need not search the table.
    #[inline(always)]
    pub(crate) fn covers(&self, hash: u64) -> bool {
        // The tag in a hash is never 0, so a mask of all bits covers no key.
        is_of_share(hash, self.mask.load(Relaxed))
    }

    /// Adds a request for a covered key, a hit or a miss, to the samples that watch it.
    #[cold]
    pub(crate) fn requested(&self, hash: u64, now: Tick) {
        let Some(list) = self.list.get() else { return };
        list.take(hash, |sample, words| {
            if now.0 > sample.deadline.load(Relaxed) {
                return;
            }
            let since_ms = now.0.saturating_sub(sample.taken_at.load(Relaxed));
            let seconds = since_ms.max(TIME_MIN_MS) as f64 / 1e3;
            let utility = 1.0 / (seconds * words.max(1) as f64 * 8.0);
            let add = |bits| Some((f64::from_bits(bits) + utility).to_bits());
            let _always = sample.utility.fetch_update(Relaxed, Relaxed, add);
        });
    }

    /// Removes a covered key that is overwritten or deleted from all samples.
    #[cold]
    pub(crate) fn forget(&self, hash: u64) {
        if let Some(list) = self.list.get() {
            list.take(hash, |_, _| ());
        }
    }

    /// Records a flush of all objects, so that all samples are dropped at their next use.
    pub(crate) fn flushed(&self) {
        self.flushes.fetch_add(1, Relaxed);
    }

    /// Stops watching and drops all samples.
    pub(crate) fn end(&self) {
        self.mask.store(u64::MAX, Relaxed);
        self.flushed();
    }

    /// Locks the samples, after dropping those that were taken before a flush.
    fn open(&self) -> Option<(&KeyTable, MutexGuard<'_, Samples>)> {
        let list = self.list.get()?;
        let mut samples = list.records();
        let flushes = self.flushes.load(Relaxed);
        if std::mem::replace(&mut samples.flushes, flushes) != flushes {
            list.sweep(|_| true);
            let Samples { taken, vacant, .. } = &mut *samples;
            vacant.extend(taken.drain(..).map(|taken| taken.number));
            self.update_mask(&samples);
        }
        Some((list, samples))
    }

    /// Begins a sample of a segment with this many objects. Returns `None` if there is already the
    /// maximum number of samples.
    pub(crate) fn begin(
        &self,
        features: Features,
        deadline: Tick,
        objects: u32,
        now: Tick,
    ) -> Option<SampleBuilder<'_>> {
        let (list, mut samples) = self.open()?;
        if samples.taken.back().is_some_and(|taken| taken.at > now) {
            // The clock went back: otherwise these samples would stay until it reaches their time
            // again.
            samples.end_where(list, |taken| taken.at > now);
            self.update_mask(&samples);
        }
        let number = samples.vacant.pop()?;
        let sample = &list.samples[usize::from(number)];
        sample.taken_at.store(now.0, Relaxed);
        sample.deadline.store(deadline.0, Relaxed);
        sample.utility.store(0f64.to_bits(), Relaxed);
        // Between one and nearly two times as many keys as a sample has entries for.
        let by_key = (objects as usize / list.keys).max(1);
        let taken = SampleRecord {
            number,
            at: now,
            features,
            share_bits: by_key.ilog2().min(SHARE_BITS_MAX) as u8,
            scale: 0.0,
        };
        self.mask.fetch_min(taken.mask(), Relaxed);
        Some(SampleBuilder {
            watch: self,
            list,
            samples,
            taken,
            watched: 0,
        })
    }

    /// Updates the mask after samples have ended. This only adds bits, so that a concurrent
    /// [`Watch::end`] is kept.
    fn update_mask(&self, samples: &Samples) {
        let least = samples.taken.iter().map(SampleRecord::mask).min();
        self.mask.fetch_max(least.unwrap_or(u64::MAX), Relaxed);
    }

    /// Returns the number of samples taken before this time.
    pub(crate) fn sampled_before(&self, before: Tick) -> usize {
        let Some((_, samples)) = self.open() else {
            return 0;
        };
        samples
            .taken
            .iter()
            .filter(|taken| taken.at < before)
            .count()
    }

    /// Ends the samples taken before this time, and passes on their features and utilities.
    pub(crate) fn take(&self, before: Tick, each: &mut dyn FnMut(&Features, f64)) {
        let Some((list, mut samples)) = self.open() else {
            return;
        };
        samples.end_where(list, |taken| {
            let is_over = taken.at < before;
            if is_over {
                let sample = &list.samples[usize::from(taken.number)];
                let sum = f64::from_bits(sample.utility.load(Relaxed));
                each(&taken.features, sum * taken.scale);
            }
            is_over
        });
        self.update_mask(&samples);
    }
}

impl SampleBuilder<'_> {
    /// Returns true if the sample watches this key, according to its hash.
    pub(crate) fn covers(&self, hash: u64) -> bool {
        is_of_share(hash, self.taken.mask())
    }

    /// Adds a key that the sample covers to the table.
    pub(crate) fn watch(&mut self, hash: u64, words: u32) {
        if self.watched as usize >= 2 * self.list.keys {
            return;
        }
        let (entries, fingerprint) = self.list.entries_of(hash);
        let words = u64::from(words).min(WORDS_MASK);
        let number = u64::from(self.taken.number);
        let entry = fingerprint << FINGERPRINT_SHIFT | number << WORDS_BITS | words;
        let is_entered = |vacant: &AtomicU64| {
            vacant.load(Relaxed) == 0 && vacant.compare_exchange(0, entry, Release, Relaxed).is_ok()
        };
        self.watched += u32::from(entries.iter().any(is_entered));
    }

    /// Ends the sample of a segment with this many objects. Returns false, and drops it, if no key
    /// could be watched.
    pub(crate) fn end(mut self, objects: u32) -> bool {
        let is_seen = self.watched > 0;
        if is_seen {
            self.taken.scale = f64::from(objects) / f64::from(self.watched);
            self.samples.taken.push_back(self.taken);
        } else {
            self.samples.vacant.push(self.taken.number);
            self.watch.update_mask(&self.samples);
        }
        is_seen
    }
}

#[cfg(test)]
mod tests;

//! Keys that are watched: what sampled segments turn out to be worth.
//!
//! A segment that is sampled has some of its objects' keys put on a list, and the next request of each adds to its
//! utility: one over the time until then and the object's size. A key is found by its hash, wherever its object is by
//! then: still there, moved by a merge, or evicted. So an object that was evicted needs no ghost of its own, and a
//! merge tells nobody. A key is on the list once for each sample and leaves it with the request that counts: so each
//! object counts once. What is written over or deleted before it was requested for was worth nothing.
//!
//! # What it costs
//! Keys are watched by their hash, one in a power of two of them, so that a megabyte of small objects needs a few
//! dozen places; the sum is scaled by the objects that each stands for. Which power is a matter of each sample's objects.
//! All requests compare the hash with a mask, that of the sample which watches the largest share; those of which it
//! covers the key look at one line, and only where they are counted anyway, once a second at most, or missed. So a
//! segment with a few dozen objects, of which all are watched, sends all counted requests to the list while its sample
//! lasts: a line of memory each. Nothing here waits. Who finds its key takes the place, and adds to the sample's utility;
//! who does not writes nothing.
//!
//! ```text
//! place   63 fingerprint 33 32 sample 20 19 words 0       0: vacant; more words than fit count as so many
//! ```
//! A place that is taken while its sample is handed over and its number given to another adds to that one: that is
//! noise in a label, by a race of nanoseconds once an hour.

use policy::Tick;
use policy::groups::Features;
use policy::parts::chance::scramble;
use std::collections::VecDeque;
// The list hints at what is worth keeping: it publishes nothing that a reader relies on. So Loom need not know of it.
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Places that a key may be in: a cache line.
const WAYS: usize = 8;
/// Samples at once; a place keeps a sample's number in 13 bits.
const SAMPLES_MAX: usize = 1 << SAMPLE_BITS;
const SAMPLE_BITS: u32 = 13;
const WORDS_BITS: u32 = 20;
const WORDS_MASK: u64 = (1 << WORDS_BITS) - 1;
const FINGERPRINT_SHIFT: u32 = WORDS_BITS + SAMPLE_BITS;
/// The list takes one part of the engine's memory in so many, if that is not very large or small.
const PART: u64 = 1024;
const PLACES_MAX: u64 = 1 << 20;
/// As many as samples that teach something need, if these take no more than one part in so many.
const PLACES_WANTED: u64 = 1 << 12;
const PART_MOST: u64 = 16;
/// Places for each sample, of which half are used; fewer where there would be few samples.
const PLACES_PER_SAMPLE: usize = 64;
const PLACES_PER_SAMPLE_MIN: usize = 16;
const SAMPLES_WANTED: usize = 256;
/// In less memory there is no room for as many samples as teach something: none is taken.
const MEMORY_MIN: u64 = 256 << 10;
/// Which bits of a hash choose the keys: neither those of the table's chains nor those of tags.
const SHARE_SHIFT: u32 = 24;
/// One key in 2^16 is watched at least.
const SHARE_BITS_MAX: u32 = 16;
/// Requests are counted once a second: on the average the next one is half of that away.
const TIME_MIN_MS: u64 = 500;

/// What readers need of a sample.
#[derive(Debug)]
struct Sample {
    taken_at: AtomicU64,
    /// Later requests find nothing, however long the segment is kept.
    deadline: AtomicU64,
    /// A sum, as the bits of an `f64`.
    utility: AtomicU64,
}

/// What the learner needs of it.
#[derive(Debug)]
struct SampleRecord {
    number: u16,
    at: Tick,
    features: Features,
    /// Keys are watched whose hash has none of so many bits, above the shift.
    share_bits: u8,
    /// Objects that each watched one stands for.
    scale: f64,
}

#[derive(Debug, Default)]
struct Samples {
    /// In the order in which they were taken, and so of their times.
    taken: VecDeque<SampleRecord>,
    vacant: Vec<u16>,
    /// Floods that it has heard of.
    flushes: u32,
}

#[derive(Debug)]
struct KeyTable {
    places: Box<[AtomicU64]>,
    samples: Box<[Sample]>,
    /// Keys of one sample.
    keys: usize,
    book: Mutex<Samples>,
}

/// See the module text.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The least mask of a sample that there is, so that what any of them watches is covered; all bits: there is none.
    mask: AtomicU64,
    flushes: AtomicU32,
    list: OnceLock<KeyTable>,
}

/// A sample that is being taken.
pub(crate) struct SampleBuilder<'w> {
    watch: &'w Watch,
    list: &'w KeyTable,
    book: MutexGuard<'w, Samples>,
    taken: SampleRecord,
    watched: u32,
}

fn place_count(memory_bytes: u64) -> usize {
    let part = |of: u64| 1u64 << (memory_bytes / of / 8).max(WAYS as u64).ilog2();
    let fair = part(PART).min(PLACES_MAX);
    fair.max(part(PART_MOST).min(PLACES_WANTED)) as usize
}

fn sample_count(places: usize) -> usize {
    let fewest = (places / PLACES_PER_SAMPLE_MIN).clamp(1, SAMPLES_WANTED);
    (places / PLACES_PER_SAMPLE).clamp(fewest, SAMPLES_MAX)
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
    /// Drops some samples, all of whose keys leave the list.
    fn drop_those(&mut self, list: &KeyTable, mut is_over: impl FnMut(&SampleRecord) -> bool) {
        let mut are_over = vec![false; list.samples.len()];
        self.taken.retain(|taken| {
            let is_over = is_over(taken);
            if is_over {
                are_over[usize::from(taken.number)] = true;
                self.vacant.push(taken.number);
            }
            !is_over
        });
        list.sweep(|number| are_over[usize::from(number)]);
    }
}

impl KeyTable {
    fn new(memory_bytes: u64) -> Self {
        let places = place_count(memory_bytes);
        let samples = sample_count(places);
        let sample = |_| Sample {
            taken_at: AtomicU64::new(0),
            deadline: AtomicU64::new(0),
            utility: AtomicU64::new(0),
        };
        KeyTable {
            places: (0..places).map(|_| AtomicU64::new(0)).collect(),
            samples: (0..samples).map(sample).collect(),
            // Half full, a key finds a place nearly always.
            keys: (places / 2 / samples).max(1),
            book: Mutex::new(Samples {
                taken: VecDeque::with_capacity(samples),
                vacant: (0..samples as u16).rev().collect(),
                flushes: 0,
            }),
        }
    }

    fn book(&self) -> MutexGuard<'_, Samples> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a key may be, and what tells it from others there.
    fn places_of(&self, hash: u64) -> (&[AtomicU64], u64) {
        let mixed = scramble(hash);
        let line = mixed as usize & (self.places.len() / WAYS - 1);
        (
            &self.places[line * WAYS..][..WAYS],
            mixed >> FINGERPRINT_SHIFT,
        )
    }

    /// Takes a key off the list, each time that it is on it.
    fn take(&self, hash: u64, mut each: impl FnMut(&Sample, u64)) {
        let (places, fingerprint) = self.places_of(hash);
        for place in places {
            let found = place.load(Acquire);
            if found == 0 || found >> FINGERPRINT_SHIFT != fingerprint {
                continue;
            }
            if place.compare_exchange(found, 0, Relaxed, Relaxed).is_ok() {
                let number = found >> WORDS_BITS & (SAMPLES_MAX as u64 - 1);
                each(&self.samples[number as usize], found & WORDS_MASK);
            }
        }
    }

    /// Takes off the list all keys of these samples.
    fn sweep(&self, is_taken: impl Fn(u16) -> bool) {
        for place in &self.places {
            let found = place.load(Relaxed);
            let number = found >> WORDS_BITS & (SAMPLES_MAX as u64 - 1);
            if found != 0 && is_taken(number as u16) {
                let _asked_for = place.compare_exchange(found, 0, Relaxed, Relaxed);
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

    /// Bytes that it will take in a cache of so many.
    pub(crate) fn bytes_of(memory_bytes: u64) -> u64 {
        if memory_bytes < MEMORY_MIN {
            return 0;
        }
        let places = place_count(memory_bytes);
        let by_sample = size_of::<Sample>() + size_of::<SampleRecord>() + size_of::<u16>();
        (places * 8 + sample_count(places) * by_sample) as u64
    }

    /// Bytes that it has taken.
    pub(crate) fn bytes(&self, memory_bytes: u64) -> u64 {
        match self.list.get() {
            Some(_) => Watch::bytes_of(memory_bytes),
            None => 0,
        }
    }

    /// Makes room for the list, from now on, where there is enough.
    pub(crate) fn prepare(&self, memory_bytes: u64) {
        if memory_bytes >= MEMORY_MIN {
            self.list.get_or_init(|| KeyTable::new(memory_bytes));
        }
    }

    pub(crate) fn samples_max(&self) -> usize {
        self.list.get().map_or(0, |list| list.samples.len())
    }

    /// Whether a request for this key may tell something.
    #[inline(always)]
    pub(crate) fn covers(&self, hash: u64) -> bool {
        // A hash's tag is not 0: with all bits in the mask none passes.
        is_of_share(hash, self.mask.load(Relaxed))
    }

    /// A covered key is requested for, whether it is there or not.
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

    /// A covered key is written over or deleted: what was sampled of it will not be requested for.
    #[cold]
    pub(crate) fn forget(&self, hash: u64) {
        if let Some(list) = self.list.get() {
            list.take(hash, |_, _| ());
        }
    }

    /// Everything is forget, and what is requested for from now on tells nothing of it.
    pub(crate) fn flushed(&self) {
        self.flushes.fetch_add(1, Relaxed);
    }

    /// Nothing is learned any more: all that was sampled is forgotten.
    pub(crate) fn end(&self) {
        self.mask.store(u64::MAX, Relaxed);
        self.flushed();
    }

    /// The book, after floods were heeded.
    fn open(&self) -> Option<(&KeyTable, MutexGuard<'_, Samples>)> {
        let list = self.list.get()?;
        let mut book = list.book();
        let flushes = self.flushes.load(Relaxed);
        if std::mem::replace(&mut book.flushes, flushes) != flushes {
            list.sweep(|_| true);
            let Samples { taken, vacant, .. } = &mut *book;
            vacant.extend(taken.drain(..).map(|taken| taken.number));
            self.cover_no_more(&book);
        }
        Some((list, book))
    }

    /// Begins a sample of a segment of so many objects; `None` where there are as many as there can be.
    pub(crate) fn begin(
        &self,
        features: Features,
        deadline: Tick,
        objects: u32,
        now: Tick,
    ) -> Option<SampleBuilder<'_>> {
        let (list, mut book) = self.open()?;
        if book.taken.back().is_some_and(|taken| taken.at > now) {
            // The clock went back: these would keep their numbers until it has caught up.
            book.drop_those(list, |taken| taken.at > now);
            self.cover_no_more(&book);
        }
        let number = book.vacant.pop()?;
        let sample = &list.samples[usize::from(number)];
        sample.taken_at.store(now.0, Relaxed);
        sample.deadline.store(deadline.0, Relaxed);
        sample.utility.store(0f64.to_bits(), Relaxed);
        // So many keys as a sample has places for, or nearly twice as many.
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
            book,
            taken,
            watched: 0,
        })
    }

    /// Samples have forget: what none of the others watches is no longer covered. This adds bits alone: where everything
    /// has ended meanwhile, it stays so.
    fn cover_no_more(&self, book: &Samples) {
        let least = book.taken.iter().map(SampleRecord::mask).min();
        self.mask.fetch_max(least.unwrap_or(u64::MAX), Relaxed);
    }

    /// How many samples were taken before this.
    pub(crate) fn sampled_before(&self, before: Tick) -> usize {
        let Some((_, book)) = self.open() else {
            return 0;
        };
        book.taken.iter().filter(|taken| taken.at < before).count()
    }

    /// Hands over these.
    pub(crate) fn take(&self, before: Tick, each: &mut dyn FnMut(&Features, f64)) {
        let Some((list, mut book)) = self.open() else {
            return;
        };
        book.drop_those(list, |taken| {
            let is_over = taken.at < before;
            if is_over {
                let sample = &list.samples[usize::from(taken.number)];
                let sum = f64::from_bits(sample.utility.load(Relaxed));
                each(&taken.features, sum * taken.scale);
            }
            is_over
        });
        self.cover_no_more(&book);
    }
}

impl SampleBuilder<'_> {
    /// Whether a key is of the sample's share.
    pub(crate) fn covers(&self, hash: u64) -> bool {
        is_of_share(hash, self.taken.mask())
    }

    /// One more object of the segment, whose key is of the share.
    pub(crate) fn watch(&mut self, hash: u64, words: u32) {
        if self.watched as usize >= 2 * self.list.keys {
            return;
        }
        let (places, fingerprint) = self.list.places_of(hash);
        let words = u64::from(words).min(WORDS_MASK);
        let number = u64::from(self.taken.number);
        let entry = fingerprint << FINGERPRINT_SHIFT | number << WORDS_BITS | words;
        let is_put = |place: &AtomicU64| {
            place.load(Relaxed) == 0 && place.compare_exchange(0, entry, Release, Relaxed).is_ok()
        };
        self.watched += u32::from(places.iter().any(is_put));
    }

    /// All of them were seen, of so many. One of which no key is watched would tell nothing.
    pub(crate) fn end(mut self, objects: u32) -> bool {
        let is_seen = self.watched > 0;
        if is_seen {
            self.taken.scale = f64::from(objects) / f64::from(self.watched);
            self.book.taken.push_back(self.taken);
        } else {
            self.book.vacant.push(self.taken.number);
            self.watch.cover_no_more(&self.book);
        }
        is_seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::parts::chance::Chance;
    use std::collections::BTreeMap;

    const MEMORY: u64 = 64 << 20;
    /// Of the model.
    const KEYS: u64 = 600;

    fn hash(number: u64) -> u64 {
        scramble(number) | 1 << 52
    }

    #[test]
    fn the_list_takes_what_the_docs_say() {
        // Below a byte an object as long as objects take less than these parts of a byte's cache.
        for (memory, part) in [(64 << 20, 700), (1 << 30, 800), (64 << 30, 7_000)] {
            assert!(Watch::bytes_of(memory) <= memory / part, "{memory}");
        }
        for (memory, most) in [(1 << 20, 52_000), (512 << 10, 52_000), (256 << 10, 26_000)] {
            assert!(Watch::bytes_of(memory) <= most, "{memory}");
        }
        for memory in [0, 1, 1_000, 100_000, u64::MAX] {
            let places = place_count(memory);
            assert!(places >= WAYS && places.is_power_of_two());
            assert!(sample_count(places) >= 1);
        }
        assert!(sample_count(place_count(1 << 20)) >= 256);
        // A learner wants 128 at least: who cannot have so many is not to look for any.
        assert_eq!(sample_count(place_count(MEMORY_MIN)), 128);
        let little = Watch::new();
        little.prepare(MEMORY_MIN - 1);
        assert_eq!((little.samples_max(), little.bytes(MEMORY_MIN - 1)), (0, 0));
    }

    #[test]
    fn nothing_is_covered_before_something_is_sampled() {
        let watch = Watch::new();
        assert!((0..1_000).all(|number| !watch.covers(hash(number))));
        watch.requested(hash(1), Tick(5));
        assert_eq!(watch.samples_max(), 0);
        assert!(watch.begin([0.0; 7], Tick(9), 10, Tick(5)).is_none());
    }

    /// Samples a segment of the keys from `first` on.
    fn sampled(watch: &Watch, first: u64, objects: u32, now: Tick) -> bool {
        let begun = watch.begin([first as f32; 7], Tick(u64::MAX), objects, now);
        let mut begun = begun.expect("there are fewer");
        for key in first..first + u64::from(objects) {
            if begun.covers(hash(key)) {
                begun.watch(hash(key), 2);
            }
        }
        begun.end(objects)
    }

    /// There was one share for all samples, fitted to whichever came last: the keys of others were on the list and
    /// their requests passed by.
    #[test]
    fn segments_of_few_objects_and_of_many_are_worth_what_they_are() {
        let watch = Watch::new();
        watch.prepare(MEMORY);
        let objects = [10_000, 2_000, 20, 10_000, 300, 10_000];
        let first = |index: usize| index as u64 * 100_000;
        for (index, &objects) in objects.iter().enumerate() {
            assert!(sampled(&watch, first(index), objects, Tick(1_000)));
        }
        let now = Tick(3_000);
        for (index, &objects) in objects.iter().enumerate() {
            let keys = first(index)..first(index) + u64::from(objects);
            let covered = keys.filter(|&key| watch.covers(hash(key)));
            covered.for_each(|key| watch.requested(hash(key), now));
        }
        let mut told = vec![];
        watch.take(now, &mut |_, utility| told.push(utility * 2.0 * 16.0));
        let is_near = |(told, objects): (&f64, u32)| (told - f64::from(objects)).abs() < 1e-6;
        assert!(told.iter().zip(objects).all(is_near), "{told:?}");
        assert!((0..1_000).all(|key| !watch.covers(hash(key))));
    }

    /// Samples of a time that had not come yet kept their numbers until it came.
    #[test]
    fn a_clock_that_goes_back_makes_room_for_samples() {
        let watch = Watch::new();
        watch.prepare(MEMORY);
        let day = 86_400_000;
        let most = watch.samples_max() as u64;
        for number in 0..most {
            assert!(sampled(&watch, number * 100, 20, Tick(2 * day + number)));
        }
        for number in 0..most {
            assert!(sampled(&watch, number * 100, 20, Tick(day + number)));
        }
        assert_eq!(watch.sampled_before(Tick(2 * day)), most as usize);
        watch.requested(hash(0), Tick(day + 1_000));
        let mut told = vec![];
        watch.take(Tick(day + 1), &mut |_, utility| told.push(utility));
        assert!(told.len() == 1 && told[0] > 0.0, "{told:?}");
    }

    /// One sample of the model: its utility so far, and which keys have not counted yet, with their words.
    #[derive(Default)]
    struct Known {
        number: f32,
        at: u64,
        deadline: u64,
        utility: f64,
        scale: f64,
        left: BTreeMap<u64, u32>,
    }

    /// Against the plainest model: maps of keys by sample.
    #[test]
    fn utilities_are_those_of_the_plainest_model() {
        let watch = Watch::new();
        watch.prepare(MEMORY);
        let mut chance = Chance::new(5);
        let mut samples: Vec<Known> = vec![];
        let mut now = 1_000_000;
        for turn in 0..20_000u32 {
            now += chance.below(400);
            match chance.below(40) {
                0 if samples.len() < 100 => {
                    let mut known = Known {
                        number: turn as f32,
                        at: now,
                        deadline: now + chance.below(1_000_000),
                        ..Known::default()
                    };
                    let deadline = Tick(known.deadline);
                    // All keys are watched, or half of them, or one in sixteen.
                    let objects = [12, 40, 300][chance.below(3) as usize];
                    let mut begun = watch
                        .begin([known.number; 7], deadline, objects, Tick(now))
                        .expect("there are fewer");
                    let first = chance.below(KEYS - u64::from(objects));
                    for key in first..first + u64::from(objects) {
                        let words = 1 + chance.below(100) as u32;
                        let before = begun.watched;
                        if begun.covers(hash(key)) {
                            begun.watch(hash(key), words);
                        }
                        if begun.watched > before {
                            known.left.insert(key, words);
                        }
                    }
                    known.scale = f64::from(objects) / known.left.len() as f64;
                    if begun.end(objects) {
                        samples.push(known);
                    }
                }
                1 => {
                    let key = chance.below(KEYS);
                    watch.forget(hash(key));
                    samples
                        .iter_mut()
                        .for_each(|one| one.left.retain(|other, _| *other != key));
                }
                2 if chance.below(30) == 0 => {
                    watch.flushed();
                    samples.clear();
                }
                3 if chance.below(5) == 0 => {
                    let before = now - chance.below(60_000);
                    let mut told = vec![];
                    watch.take(Tick(before), &mut |features, utility| {
                        told.push((features[0], utility));
                    });
                    let count = samples.iter().filter(|one| one.at < before).count();
                    assert_eq!(told.len(), count);
                    for (known, (number, utility)) in samples.drain(..count).zip(told) {
                        assert_eq!(known.number, number);
                        let expected = known.utility * known.scale;
                        assert!((utility - expected).abs() <= expected * 1e-9);
                    }
                }
                _ => {
                    let key = chance.below(KEYS);
                    let is_covered = watch.covers(hash(key));
                    if is_covered {
                        watch.requested(hash(key), Tick(now));
                    }
                    for one in &mut samples {
                        let words = one.left.remove(&key);
                        assert!(is_covered || words.is_none());
                        if let Some(words) = words.filter(|_| now <= one.deadline) {
                            let seconds = (now - one.at).max(500) as f64 / 1e3;
                            one.utility += 1.0 / (seconds * f64::from(words) * 8.0);
                        }
                    }
                }
            }
        }
        assert_eq!(watch.sampled_before(Tick(u64::MAX)), samples.len());
    }
}

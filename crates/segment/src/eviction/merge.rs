//! Selection of the objects that a merge keeps.
//!
//! The value of an object is its frequency, plus a small random part, divided by its size. Objects
//! with a value below the *threshold* are evicted. After every tenth of a segment the threshold is
//! multiplied by the ratio of the words kept to the words that should have been kept, or in merges
//! by age by the square root of that ratio. A source whose live objects all fit into its share of
//! the target is kept completely. If room is left at the end, the following segments of the list
//! are merged, too, as long as all their objects fit.
//!
//! Merges in turn work as in the source: N segments become one, each keeps the same number of
//! bytes, and the frequency of each kept object is reset to 0. In merges by age, objects pay rent;
//! see `rent.rs`.

use super::choice::Keep;
use crate::config::MERGED_MAX;
use crate::storage::{Age, ScannedObject, SegmentId, SlotRef, draw};

/// Number of parts into which a segment is divided. The threshold is adapted after each part.
const PARTS: u32 = 10;
/// Maximum factor of one change of the threshold, up or down.
const MOVE_MAX: f32 = 2.0;
/// Index of the threshold for merges that keep the most recent objects. The others are indexed by
/// age.
const MEASURE_RECENT: usize = 2;
/// Maximum duration of a merge in seconds.
const MERGE_SECONDS: u16 = 600;
/// Estimated words of the hash table per object, which are added to its size.
const TABLE_WORDS: f32 = 1.5;
/// Maximum number of segments in one merge, including segments that are added because all their
/// objects fit.
const SOURCES_MAX: u8 = 2 * MERGED_MAX;

/// Target, thresholds and progress of a merge.
#[derive(Debug)]
pub(super) struct Merge {
    pub(super) target: SegmentId,
    /// Number of used words in the target.
    pub(super) used: u32,
    /// Number of targets that may follow the current one. `targets` counts the targets taken so
    /// far.
    pub(super) targets_left: u8,
    pub(super) targets: u8,
    pub(super) bucket: usize,
    pub(super) age: Age,
    keep: Keep,
    /// Index of the threshold that the merge uses, among the thresholds of the bucket.
    pub(super) measure: usize,
    pub(super) threshold: f32,
    /// Second in which the merge began; `None` unless objects are kept by their last access.
    began: Option<u64>,
    /// Second in which the source being read was opened.
    source_opened: u64,
    /// Whether a kept object loses only the threshold from its frequency, and not all of it.
    pub(super) pays: bool,
    /// Whether the following segments of the list may be taken.
    takes_more: bool,
    /// Whether all live objects of the remaining sources fit into the remaining room.
    keeps_all: bool,
    /// Number of words of the current source that may still be kept. `part` is the share of its
    /// live words that should be kept.
    pub(super) room: u32,
    part: f32,
    /// Number of words scanned since the threshold last changed. `live` and `kept` count the words
    /// of live and of kept objects.
    scanned: u32,
    live: u32,
    kept: u32,
    /// Whether an object worth keeping found no room since the threshold last changed.
    is_full: bool,
    /// Seed of the random part of an object's value.
    salt: u64,
}

/// Returns the index of the threshold that a merge uses.
pub(super) fn measure(keep: Keep, age: Age) -> usize {
    match keep {
        Keep::MostRecent => MEASURE_RECENT,
        _ => age as usize,
    }
}

/// Returns the value of an object whose age is the geometric mean of one second and the age of its
/// segment. It is the initial threshold.
pub(super) fn worth_at_middle_age(opened_second: u64, second: u64) -> f32 {
    let age = second.saturating_sub(opened_second) as f32;
    1.0 / (0.5 + age.sqrt())
}

/// Parameters with which a merge begins.
pub(super) struct Beginning {
    pub(super) target: SegmentId,
    pub(super) bucket: usize,
    pub(super) age: Age,
    pub(super) keep: Keep,
    /// Whether the live objects of all sources fit into one segment.
    pub(super) fits: bool,
    pub(super) threshold: f32,
    pub(super) second: u64,
    /// Whether the current eviction merges in turn.
    pub(super) is_in_turn: bool,
    pub(super) salt: u64,
}

impl Merge {
    pub(super) fn new(begin: &Beginning) -> Self {
        let began = matches!(begin.keep, Keep::MostRecent).then_some(begin.second);
        Merge {
            target: begin.target,
            used: 0,
            targets_left: match begin.keep {
                Keep::Segments(targets) => targets - 1,
                _ => 0,
            },
            targets: 1,
            bucket: begin.bucket,
            age: begin.age,
            keep: if begin.fits { Keep::All } else { begin.keep },
            measure: measure(begin.keep, begin.age),
            threshold: begin.threshold,
            began,
            source_opened: 0,
            pays: began.is_none() && !begin.is_in_turn,
            takes_more: !matches!(begin.keep, Keep::All),
            keeps_all: false,
            room: 0,
            part: 0.0,
            scanned: 0,
            live: 0,
            kept: 0,
            is_full: false,
            salt: begin.salt,
        }
    }

    /// Returns true if a ranking chose the sources.
    pub(super) fn is_ranked(&self) -> bool {
        self.began.is_some()
    }

    /// Returns true if the merge may take more segments after `done` of them are finished.
    pub(super) fn may_take_more(&self, done: u8) -> bool {
        self.takes_more && done < SOURCES_MAX
    }

    /// Begins to read a source that was opened in the second `source_opened`. `ahead` contains the
    /// live words of each chosen source that is left, beginning with this one; it is empty for a
    /// source that was added because all its objects fit. `live` is this source's number of live
    /// words.
    pub(super) fn enter(
        &mut self,
        source_opened: u64,
        done: u8,
        ahead: &[u32],
        live: u32,
        capacity: u32,
    ) {
        let left = capacity - self.used;
        let (room, ahead) = match self.keep {
            Keep::PartOfEach(wanted) if !ahead.is_empty() => {
                // Room that earlier sources have not used is available to the later ones.
                let (done, wanted) = (u32::from(done), u32::from(wanted));
                let share = capacity / wanted * (done + 1).min(wanted);
                let share = share.max(capacity * u32::from(done + 1 >= wanted));
                (share.saturating_sub(self.used), live)
            }
            Keep::Segments(_) | Keep::MostRecent if !ahead.is_empty() => {
                let room = left + capacity * u32::from(self.targets_left);
                (room, ahead.iter().sum())
            }
            _ => (left, live),
        };
        self.source_opened = source_opened;
        self.room = room;
        self.part = room as f32 / ahead.max(1) as f32;
        self.keeps_all = ahead <= room;
        self.scanned = 0;
        self.live = 0;
        self.kept = 0;
    }

    /// Records that an object that should be kept found no room.
    pub(super) fn found_no_room(&mut self) {
        self.is_full = true;
    }

    /// Returns the frequency with which an object is kept, or `None` if it is worth less than the
    /// threshold.
    pub(super) fn judge(&self, slot: &SlotRef<'_>, object: &ScannedObject) -> Option<u8> {
        let frequency = slot.word.frequency();
        if self.keeps_all {
            return Some(if self.pays { frequency } else { 0 });
        }
        // A random part decides between objects of the same frequency and size.
        let chance = (draw(object.hash, 0, self.salt) >> 40) as f32 / (1u64 << 24) as f32;
        if let Some(second) = self.began {
            let age = self.age(second, slot.accessed()) as f32;
            // A random part decides between objects of the same age: an eighth of the age and less
            // than a second.
            let worth = 1.0 / (0.5 + age + chance * (1.0 + age / 8.0));
            return (worth >= self.threshold * object.words as f32).then_some(0);
        }
        let size = object.words as f32 + if self.pays { TABLE_WORDS } else { 0.0 };
        let rest = f32::from(frequency) + chance - self.threshold * size;
        // The same random part rounds what is left of the frequency.
        (rest >= 0.0).then_some(if self.pays { rest as u8 } else { 0 })
    }

    /// Returns the seconds since the last access in an object's line. Its 16 bits wrap around after
    /// 18 hours, and no object is older than its segment.
    fn age(&self, second: u64, accessed: u16) -> u64 {
        let since = (second as u16).wrapping_sub(accessed);
        // The object was accessed after the merge began.
        let since = if since > u16::MAX - MERGE_SECONDS {
            0
        } else {
            since
        };
        u64::from(since).min(second.saturating_sub(self.source_opened))
    }

    /// Counts an object, and moves the threshold after every tenth of a segment.
    pub(super) fn adjust(
        &mut self,
        object: &ScannedObject,
        is_live: bool,
        is_kept: bool,
        capacity: u32,
    ) {
        self.scanned += object.words;
        self.live += object.words * u32::from(is_live);
        self.kept += object.words * u32::from(is_kept);
        if self.scanned < capacity / PARTS || self.keeps_all {
            return;
        }
        let wanted = self.part * self.live as f32;
        let ratio = self.kept as f32 / wanted.max(1.0);
        // If an object found no room, too few were kept for want of room, not because the threshold
        // is too high.
        let least = if self.is_full { 1.0 } else { 1.0 / MOVE_MAX };
        let moved = ratio.clamp(least, MOVE_MAX);
        // The threshold of a rent changes slowly, because earlier merges have adapted it, and a
        // tenth of a segment is a smaller sample than theirs.
        self.threshold *= if self.pays { moved.sqrt() } else { moved };
        self.threshold = self.threshold.clamp(f32::MIN_POSITIVE, f32::MAX);
        self.scanned = 0;
        self.live = 0;
        self.kept = 0;
        self.is_full = false;
    }
}

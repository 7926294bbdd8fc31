//! The open segments of a writer, and which of them an object is written to: a choice by deadline.
//!
//! All objects of a segment expire together, so an object may go to any open segment that expires
//! no later than the object should, and not much earlier. The best fit is the one with the latest
//! such deadline. If there is none, the writer opens a segment for the object.
//!
//! ```text
//!                earliest                 latest
//!   time ──┬────────┼───────────────────────┼──────▶      the best fit is the open segment
//!         now       [ acceptable deadlines  ]             with the latest deadline in the brackets
//! ```
//!
//! How much earlier is acceptable:
//!
//! - For a new TTL: `earliest` is the deadline of a segment that the TTL's bucket opened one *span*
//!   ago ([`TtlBucket::span_ms`]). An object thus loses less than its TTL is rounded down by, plus
//!   a span.
//! - For a deadline that is kept while the object is rewritten: `earliest` is the deadline rounded
//!   down to a multiple of the bucket's width. Each width divides the next, so such a multiple
//!   remains one as the remaining TTL gets shorter: no matter how often an object is rewritten, it
//!   loses less than one width in total.
//!
//! # Pressure
//! If TTLs are spread widely and segments are few, one open segment for each TTL would leave memory
//! nearly empty and all of it taken. So a writer may have its share of half of all segments open
//! ([`Config`](crate::Config)). From half of its share on it rounds TTLs down in wider steps, the
//! more segments it has open; in the last eighth to powers of two. A segment that was unused for as
//! long as it takes objects is sealed when another is opened. If there are too many all the same,
//! the writer seals one that it would not open under the present pressure, or the least recently
//! used one.
//!
//! A few TTLs that are long compared with the widths have the same effect: a segment that is sealed
//! after its span may be a tenth full, and a long list of such segments takes all memory. So while
//! memory is short, a writer uses a segment for an eighth of its TTL; in the last eighth of its
//! share for a quarter, and for half of it if it may open no more, so that objects of many TTLs do
//! not make the writer seal segments in turn. Merges of nearly empty segments would shorten TTLs as
//! much, and they copy. Memory counts as short until a writer has opened as many segments as it may
//! have open, without any eviction in between.

use super::location::SegmentId;
use super::ttl::{NEVER, TtlBucket};
use policy::Tick;

/// Maximum number of open segments of a writer.
pub(crate) const OPEN_MAX: usize = 256;
/// Maximum pressure level. Level 0 is no pressure, 1 means that memory is short, and 2 to 5 depend
/// on the fraction of the writer's share that is open.
const PRESSURE_MAX: u8 = 5;
const PRESSURE_SHORT: u8 = 1;

/// Requested lifetime of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lifetime {
    /// No deadline.
    Endless,
    /// A TTL in milliseconds.
    For(u64),
    /// A deadline that the engine returned earlier and that should be kept.
    Until(Tick),
}

/// A segment that a writer fills.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenSegment {
    pub(crate) deadline: Tick,
    used: Tick,
    pub(crate) id: SegmentId,
    pub(crate) bucket: TtlBucket,
    /// Whether it was opened for an object that keeps its deadline.
    keeps_deadline: bool,
}

/// Range of segments that are acceptable for an object, and the segment to open if no open one is
/// acceptable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement {
    earliest: Tick,
    latest: Tick,
    /// Deadline of a segment that is opened for the object.
    pub(crate) deadline: Tick,
    /// TTL bucket of a segment that is opened for the object.
    pub(crate) bucket: TtlBucket,
    keeps_deadline: bool,
}

impl Placement {
    #[inline]
    pub(crate) fn new(lifetime: Lifetime, pressure: u8, now: Tick) -> Placement {
        match lifetime {
            Lifetime::For(ttl_ms) => Placement::beginning(ttl_ms, pressure, now),
            Lifetime::Until(deadline) => Placement::keeping(deadline, pressure, now),
            Lifetime::Endless => Placement {
                earliest: NEVER,
                latest: NEVER,
                deadline: NEVER,
                bucket: TtlBucket::FOREVER,
                keeps_deadline: false,
            },
        }
    }

    #[inline]
    fn beginning(ttl_ms: u64, pressure: u8, now: Tick) -> Placement {
        let bucket = TtlBucket::of(Some(rounded_ms(ttl_ms, pressure)));
        let deadline = bucket.deadline(now);
        let span_ms = span_ms(bucket, pressure);
        Placement {
            earliest: Tick((deadline.0 + 1).saturating_sub(span_ms)),
            latest: Tick(now.0.saturating_add(ttl_ms).min(Tick::MAX.0)),
            deadline,
            bucket,
            keeps_deadline: false,
        }
    }

    fn keeping(latest: Tick, pressure: u8, now: Tick) -> Placement {
        let left_ms = latest.0.saturating_sub(now.0);
        let grid_ms = TtlBucket::of(Some(left_ms)).grid_ms(slack_ms(left_ms, pressure));
        let deadline = Tick(latest.0 - latest.0 % grid_ms);
        Placement {
            earliest: deadline,
            latest,
            deadline,
            bucket: TtlBucket::of(Some(deadline.0.saturating_sub(now.0))),
            keeps_deadline: true,
        }
    }

    /// Returns the creation time that gives a segment of this bucket the wanted deadline.
    pub(crate) fn created(&self, now: Tick) -> Tick {
        match self.bucket.ttl_ms() {
            Some(ttl_ms) => Tick(self.deadline.0.saturating_sub(ttl_ms)),
            None => now,
        }
    }
}

/// Returns the number of milliseconds by which a remaining TTL may be shortened to reduce the
/// number of different deadlines.
fn slack_ms(left_ms: u64, pressure: u8) -> u64 {
    match pressure {
        ..=PRESSURE_SHORT => 0,
        2 => left_ms / 8,
        3 => left_ms / 4,
        _ => left_ms / 2,
    }
}

/// Rounds a TTL down, depending on the pressure: to one of eight values between a power of two and
/// the next, to one of four, or to the power of two.
#[inline]
fn rounded_ms(ttl_ms: u64, pressure: u8) -> u64 {
    let octave = ttl_ms.checked_ilog2().unwrap_or(0);
    match pressure {
        ..=PRESSURE_SHORT => ttl_ms,
        2 => ttl_ms & u64::MAX << octave.saturating_sub(3),
        3 => ttl_ms & u64::MAX << octave.saturating_sub(2),
        _ => ttl_ms & u64::MAX << octave,
    }
}

/// Returns true if new segments of this bucket are opened under this pressure.
fn is_opened(bucket: TtlBucket, pressure: u8) -> bool {
    let ttl_ms = bucket.ttl_ms();
    ttl_ms.is_none_or(|ttl_ms| TtlBucket::of(Some(rounded_ms(ttl_ms, pressure))) == bucket)
}

/// Returns the milliseconds during which a segment is used for new objects.
#[inline]
fn span_ms(bucket: TtlBucket, pressure: u8) -> u64 {
    let ttl_ms = bucket.ttl_ms().unwrap_or(0);
    bucket.span_ms().max(match pressure {
        0 => 0,
        PRESSURE_MAX => ttl_ms / 2,
        4 => ttl_ms / 4,
        _ => ttl_ms / 8,
    })
}

/// Segments that one writer fills. The module text says how one is chosen.
#[derive(Debug)]
pub(crate) struct OpenSegments {
    /// The open segments by ascending deadline. Those with the same deadline are in the order in
    /// which they were opened.
    list: Vec<OpenSegment>,
    open_max: usize,
    pressure: u8,
    /// Number of segments that the writer must open without an eviction in between until memory no
    /// longer counts as short.
    short_for: usize,
    /// Number of segments evicted when the writer last opened one.
    evicted: u64,
}

impl OpenSegments {
    /// Maximum heap memory in bytes. The calculation of the required memory uses this, so that the
    /// result does not depend on the available memory.
    pub(crate) const BYTES_MAX: usize = OPEN_MAX * size_of::<OpenSegment>();

    /// Creates the state of a writer that may have `open_max` open segments.
    pub(crate) fn new(open_max: usize) -> Self {
        OpenSegments {
            list: Vec::with_capacity(open_max),
            open_max,
            pressure: 0,
            short_for: 0,
            evicted: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn pressure(&self) -> u8 {
        self.pressure
    }

    /// Returns the index of the best open segment for an object, or `None` if none is acceptable.
    #[inline]
    pub(crate) fn best(&self, placement: &Placement) -> Option<usize> {
        let count = self
            .list
            .partition_point(|open| open.deadline <= placement.latest);
        let index = count.checked_sub(1)?;
        (self.list[index].deadline >= placement.earliest).then_some(index)
    }

    pub(crate) fn at(&self, index: usize) -> OpenSegment {
        self.list[index]
    }

    /// Records that an object was written to a segment.
    #[inline]
    pub(crate) fn mark_used(&mut self, index: usize, now: Tick) {
        self.list[index].used = now;
    }

    /// Adds a segment that was opened for an object. [`OpenSegments::to_seal`] must have returned
    /// `None` first.
    pub(crate) fn insert(&mut self, id: SegmentId, placement: &Placement, now: Tick) {
        debug_assert!(self.list.len() < self.open_max);
        // If the segment is listed already, it was taken from this writer meanwhile and has become
        // free.
        self.list.retain(|open| open.id != id);
        let index = self
            .list
            .partition_point(|open| open.deadline <= placement.deadline);
        let open = OpenSegment {
            deadline: placement.deadline,
            used: now,
            id,
            bucket: placement.bucket,
            keeps_deadline: placement.keeps_deadline,
        };
        self.list.insert(index, open);
        self.set_pressure();
    }

    pub(crate) fn remove(&mut self, index: usize) -> OpenSegment {
        let open = self.list.remove(index);
        self.set_pressure();
        open
    }

    /// Updates the pressure before a segment is opened. `segments` is the number of segments
    /// evicted so far.
    pub(crate) fn note_evictions(&mut self, segments: u64) {
        self.short_for = match segments == self.evicted {
            true => self.short_for.saturating_sub(1),
            false => self.open_max,
        };
        self.evicted = segments;
        self.set_pressure();
    }

    fn set_pressure(&mut self) {
        let eighths = self.list.len() * 8 / self.open_max;
        self.pressure = match eighths {
            ..4 => PRESSURE_SHORT * u8::from(self.short_for > 0),
            4..6 => 2,
            6 => 3,
            7 => 4,
            _ => PRESSURE_MAX,
        };
    }

    /// Returns the index of a segment that must be sealed before another is opened.
    pub(crate) fn to_seal(&self, placement: &Placement, now: Tick) -> Option<usize> {
        let is_useless = |open: &OpenSegment| {
            let is_replaced = open.bucket == placement.bucket
                && !open.keeps_deadline
                && !placement.keeps_deadline;
            is_replaced || open.deadline < now || self.is_idle(open, now)
        };
        let useless = self.list.iter().position(is_useless);
        if useless.is_some() || self.list.len() < self.open_max {
            return useless;
        }
        // Segments that would not be opened under this pressure are sealed first.
        let order = |&index: &usize| {
            let open = self.list[index];
            (
                !open.keeps_deadline && is_opened(open.bucket, self.pressure),
                open.used,
            )
        };
        (0..self.list.len()).min_by_key(order)
    }

    fn is_idle(&self, open: &OpenSegment, now: Tick) -> bool {
        now.0.saturating_sub(open.used.0) >= span_ms(open.bucket, self.pressure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Tick = Tick(1_700_000_000_123);

    fn spans() -> impl Iterator<Item = u64> {
        let step = if cfg!(miri) { 17_777_777 } else { 77_777 };
        let fine = if cfg!(miri) { 500 } else { 100_000 };
        (0..fine).chain((fine..8_388_608_000).step_by(step))
    }

    #[test]
    fn a_new_ttl_is_shortened_by_no_more_than_its_bucket_allows() {
        for ttl_ms in spans() {
            let placement = Placement::new(Lifetime::For(ttl_ms), 0, NOW);
            assert_eq!(placement.latest.0, NOW.0 + ttl_ms);
            assert!(
                placement.earliest <= placement.deadline && placement.deadline <= placement.latest
            );
            let lost = placement.latest.0 - placement.earliest.0;
            let most = match ttl_ms {
                ..25 => 50,
                25..200 => ttl_ms * 57 / 100,
                200..2_048_000 => ttl_ms * 23 / 100,
                _ => ttl_ms * 12 / 100,
            };
            assert!(lost <= most, "{ttl_ms} loses {lost}");
        }
    }

    #[test]
    fn a_kept_deadline_is_rounded_once() {
        for pressure in 0..=PRESSURE_MAX {
            for ttl_ms in spans().step_by(7) {
                let requested = Tick(NOW.0 + ttl_ms);
                let first = Placement::new(Lifetime::Until(requested), pressure, NOW).deadline;
                let most = TtlBucket::of(Some(ttl_ms)).width_ms();
                let most = most.max(slack_ms(ttl_ms, pressure) + 1);
                assert!(
                    first <= requested && requested.0 - first.0 < most,
                    "{ttl_ms}"
                );
                for part in 0..20 {
                    let later = Tick(NOW.0 + ttl_ms * part / 20);
                    if later > first {
                        break;
                    }
                    let again = Placement::new(Lifetime::Until(first), pressure, later);
                    assert_eq!(again.deadline, first, "{ttl_ms} after {part} parts");
                    assert!(again.bucket.deadline(again.created(later)) == first);
                }
            }
        }
    }

    #[test]
    fn the_best_fit_has_the_latest_deadline_that_is_not_too_late() {
        let mut open = OpenSegments::new(100);
        for (number, ttl_ms) in [100_000, 90_000, 70_000, 110_000].into_iter().enumerate() {
            let placement = Placement::new(Lifetime::For(ttl_ms), 0, NOW);
            open.insert(SegmentId(number as u32 + 1), &placement, NOW);
        }
        let best = |lifetime: Lifetime, now: Tick| {
            let index = open.best(&Placement::new(lifetime, 0, now))?;
            Some(open.at(index).id.0)
        };
        assert_eq!(best(Lifetime::For(100_000), NOW), Some(1));
        assert_eq!(best(Lifetime::For(103_999), NOW), Some(1));
        assert_eq!(best(Lifetime::For(95_999), NOW), Some(2));
        // This is as good as a segment of the TTL's own bucket that was opened seven seconds ago.
        assert_eq!(best(Lifetime::For(96_500), Tick(NOW.0 + 7_000)), Some(1));
        assert_eq!(best(Lifetime::For(97_000), Tick(NOW.0 + 7_000)), Some(4));
        assert_eq!(best(Lifetime::For(103_999), Tick(NOW.0 + 8_000)), Some(4));
        assert_eq!(best(Lifetime::For(60_000), NOW), None);
        assert_eq!(best(Lifetime::For(120_000), NOW), None);
        assert_eq!(best(Lifetime::Endless, NOW), None);
    }

    #[test]
    fn a_writer_with_many_open_segments_opens_fewer() {
        let mut open = OpenSegments::new(32);
        for number in 0..if cfg!(miri) { 500 } else { 5_000u64 } {
            let ttl_ms = 60_000 + number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 1_940_000;
            let placement = Placement::new(Lifetime::For(ttl_ms), open.pressure(), NOW);
            if open.best(&placement).is_none() {
                assert_eq!(open.to_seal(&placement, NOW), None, "{ttl_ms}");
                open.insert(SegmentId(number as u32 + 1), &placement, NOW);
            }
        }
        assert!(open.list.len() < 32, "{}", open.list.len());
    }

    #[test]
    fn while_memory_is_short_a_segment_takes_objects_for_an_eighth_of_its_ttl() {
        let mut open = OpenSegments::new(8);
        let begun =
            |open: &OpenSegments| Placement::new(Lifetime::For(800_000), open.pressure(), NOW);
        let later = |open: &OpenSegments, after_ms: u64| {
            let placement = Placement::new(
                Lifetime::For(800_000),
                open.pressure(),
                Tick(NOW.0 + after_ms),
            );
            open.best(&placement).is_some()
        };
        open.note_evictions(0);
        open.insert(SegmentId(1), &begun(&open), NOW);
        assert!(later(&open, 7_999) && !later(&open, 8_000));
        open.note_evictions(1);
        assert!(later(&open, 99_999) && !later(&open, 100_000));
        // Memory stays short until the writer has opened as many segments as it may have open,
        // without an eviction.
        for _ in 1..8 {
            open.note_evictions(1);
            assert!(later(&open, 8_000));
        }
        open.note_evictions(1);
        assert!(!later(&open, 8_000));
    }

    #[test]
    fn idle_expired_and_replaced_segments_are_sealed() {
        let mut open = OpenSegments::new(8);
        let begun = Placement::new(Lifetime::For(100_000), 0, NOW);
        open.insert(SegmentId(1), &begun, NOW);
        let other = Placement::new(Lifetime::For(200_000), 0, NOW);
        assert_eq!(open.to_seal(&other, NOW), None);
        assert_eq!(open.to_seal(&begun, NOW), Some(0));
        assert_eq!(open.to_seal(&other, Tick(NOW.0 + 7_999)), None);
        assert_eq!(open.to_seal(&other, Tick(NOW.0 + 8_000)), Some(0));
        open.mark_used(0, Tick(NOW.0 + 96_000));
        assert_eq!(open.to_seal(&other, Tick(NOW.0 + 96_000)), None);
        assert_eq!(open.to_seal(&other, Tick(NOW.0 + 96_001)), Some(0));
    }
}

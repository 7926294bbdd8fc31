//! The segments that a writer fills, and which of them an object goes to: by its deadline.
//!
//! It goes to the one that ends last of those that do not end after it, if that is not too early; else a segment is
//! opened for it. What is too early:
//!
//! - For a lifetime that begins: what ends before a segment of its TTL's bucket that was opened a span ago
//!   ([`TtlBucket::span_ms`]). So it loses less than what TTLs are rounded down by, and a span.
//! - For a deadline that is kept: what ends before the last multiple of the width of the bucket of what is left. Each
//!   width divides the next, so what ends at such a multiple does so for good: however often an object is
//!   written again, it loses less than one width in all.
//!
//! Where TTLs are spread wide and segments are few, a segment for each TTL would leave memory nearly empty and taken
//! at once. A writer may have its share of half of all segments open. From a half of that on, it rounds lives down to
//! wider steps the more it has; in the last eighth it knows powers of two alone, so that for any TTLs there are soon as
//! many as it needs, unless it may have a handful only. What nobody has used for as long as it would have taken objects is
//! sealed when another is opened; and where there are too many all the same, one that would not be opened any more, or
//! the one that was used longest ago.
//!
//! Few TTLs that are long beside the widths do the same: a segment that is sealed after its width may be a tenth full,
//! and a long chain of such segments takes all memory. So while memory is short, a writer goes on with a segment for an
//! eighth of its TTL; in the last eighth of its share for a quarter, and for half of it where not one more may be open, so
//! that objects of many TTLs do not seal each other's segments by turns. What merges of nearly empty segments would cut is no
//! less, and they copy. Memory is short as long as something was evicted since a writer opened as many segments as it
//! may have open.

use super::location::SegmentId;
use super::ttl::{NEVER, TtlBucket};
use policy::Tick;

/// The most segments that a writer has open.
pub(crate) const OPEN_MAX: usize = 256;
/// How crowded it can be: not at all; memory is short; and by how much of its share a writer has open, up to all of it.
const PRESSURE_MAX: u8 = 5;
const PRESSURE_SHORT: u8 = 1;

/// How long an object is to live.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lifetime {
    /// For ever.
    Endless,
    /// So many milliseconds.
    For(u64),
    /// Until then, as it was told before.
    Until(Tick),
}

/// A segment that takes objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenSegment {
    pub(crate) deadline: Tick,
    used: Tick,
    pub(crate) id: SegmentId,
    pub(crate) bucket: TtlBucket,
    /// Opened for a deadline that is kept.
    keeps_deadline: bool,
}

/// Which segments will do for an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placement {
    earliest: Tick,
    latest: Tick,
    /// When a segment that is opened for it ends; and in which bucket's chain.
    pub(crate) deadline: Tick,
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

    /// The moment at which a segment of its bucket's TTL would have been opened to end then.
    pub(crate) fn created(&self, now: Tick) -> Tick {
        match self.bucket.ttl_ms() {
            Some(ttl_ms) => Tick(self.deadline.0.saturating_sub(ttl_ms)),
            None => now,
        }
    }
}

/// The milliseconds of what is left of a lifetime that are given up for fewer deadlines.
fn slack_ms(left_ms: u64, pressure: u8) -> u64 {
    match pressure {
        ..=PRESSURE_SHORT => 0,
        2 => left_ms / 8,
        3 => left_ms / 4,
        _ => left_ms / 2,
    }
}

/// A TTL that lives are rounded down to, of eight between a power of two and the next, of four, or of one.
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

/// Whether segments of a bucket are opened when it is so crowded.
fn is_opened(bucket: TtlBucket, pressure: u8) -> bool {
    let ttl_ms = bucket.ttl_ms();
    ttl_ms.is_none_or(|ttl_ms| TtlBucket::of(Some(rounded_ms(ttl_ms, pressure))) == bucket)
}

/// For how long a segment takes objects.
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

/// The segments that one writer fills. See the module text.
#[derive(Debug)]
pub(crate) struct OpenSegments {
    /// By deadline; of equal ones the one opened last is the last.
    list: Vec<OpenSegment>,
    open_max: usize,
    pressure: u8,
    /// For how many more that it opens memory counts as short.
    short_for: usize,
    /// Segments that were evicted until it opened the last one.
    evicted: u64,
}

impl OpenSegments {
    /// The most bytes on the heap; what is told to be needed does not depend on what was given.
    pub(crate) const BYTES_MAX: usize = OPEN_MAX * size_of::<OpenSegment>();

    /// At most `most` of them.
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

    /// The best for an object, if any will do.
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

    /// An object has gone there.
    #[inline]
    pub(crate) fn mark_used(&mut self, index: usize, now: Tick) {
        self.list[index].used = now;
    }

    /// One more, which was opened for an object; there is room, after [`OpenSegments::to_seal`] has told none.
    pub(crate) fn insert(&mut self, id: SegmentId, placement: &Placement, now: Tick) {
        debug_assert!(self.list.len() < self.open_max);
        // What was this segment before was taken from this writer meanwhile.
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

    /// Another is about to be opened, and so many segments were ever evicted.
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

    /// One that is to be sealed before another is opened.
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
        // Those that would not be opened now are not missed.
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
    fn a_life_that_begins_loses_no_more_than_its_row_of_the_table_says() {
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
    fn a_deadline_that_is_kept_is_rounded_once() {
        for pressure in 0..=PRESSURE_MAX {
            for ttl_ms in spans().step_by(7) {
                let asked = Tick(NOW.0 + ttl_ms);
                let first = Placement::new(Lifetime::Until(asked), pressure, NOW).deadline;
                let most = TtlBucket::of(Some(ttl_ms)).width_ms();
                let most = most.max(slack_ms(ttl_ms, pressure) + 1);
                assert!(first <= asked && asked.0 - first.0 < most, "{ttl_ms}");
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
    fn the_best_ends_last_of_those_that_end_in_time() {
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
        // As good as one of its own bucket that was opened seven seconds ago.
        assert_eq!(best(Lifetime::For(96_500), Tick(NOW.0 + 7_000)), Some(1));
        assert_eq!(best(Lifetime::For(97_000), Tick(NOW.0 + 7_000)), Some(4));
        assert_eq!(best(Lifetime::For(103_999), Tick(NOW.0 + 8_000)), Some(4));
        assert_eq!(best(Lifetime::For(60_000), NOW), None);
        assert_eq!(best(Lifetime::For(120_000), NOW), None);
        assert_eq!(best(Lifetime::Endless, NOW), None);
    }

    #[test]
    fn the_more_are_open_the_fewer_are_opened() {
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
        // Until it has opened as many more as it may have open, and nothing was evicted meanwhile.
        for _ in 1..8 {
            open.note_evictions(1);
            assert!(later(&open, 8_000));
        }
        open.note_evictions(1);
        assert!(!later(&open, 8_000));
    }

    #[test]
    fn what_is_idle_over_or_replaced_is_left() {
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

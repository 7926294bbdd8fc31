//! TTL buckets: which spans of life share a chain of segments.
//!
//! ```text
//! bucket        width      of lives
//! 0..1024       8 s        64 s .. 2,048 s          four groups of 256, each 16 times as wide as the
//!               128 s      2,048 s .. 32,768 s      one before; the first eight or sixteen of a group
//!               2,048 s    32,768 s .. 524,288 s    belong to the finer one before it
//!               32,768 s   524,288 s .. 97 days, and whatever lives longer
//! 1024..1152    500 ms     4 s .. 64 s              the finer groups
//! 1152..1312    25 ms      below 4 s
//! 1312          –          for ever
//! ```
//! Every life in a bucket is taken for the shortest one: rounded down, so that nothing is served after
//! its deadline. A life below 25 ms is over at once, one of more than 97 days ends after 97 days.
//!
//! The finer groups, which the source does not have, begin where a width would be more than an eighth of a life.
//! Each width divides the next: see `open.rs`.

use policy::Tick;

/// How many buckets there are.
pub(crate) const BUCKETS: usize = 1313;
const GROUP: u64 = 256;
const GROUPS: u64 = 4;
const WIDTH_MS: u64 = 8_000;
/// Each group is this power of two times as wide as the one before.
const GROWTH_BITS: u64 = 4;
const FINE_FIRST: u64 = GROUP * GROUPS;
const FINE_MS: u64 = 500;
/// Lives below this are in a finer group.
const FINE_BELOW_MS: u64 = 64_000;
const FINEST_FIRST: u64 = FINE_FIRST + FINE_BELOW_MS / FINE_MS;
const FINEST_MS: u64 = 25;
const FINEST_BELOW_MS: u64 = 4_000;
const FOREVER: u64 = FINEST_FIRST + FINEST_BELOW_MS / FINEST_MS;
/// A segment takes objects for at most this part of its TTL.
const SPAN_PART: u64 = 8;

const _: () = assert!(FINE_MS.is_multiple_of(FINEST_MS) && WIDTH_MS.is_multiple_of(FINE_MS));

const _: () = assert!(FOREVER as usize + 1 == BUCKETS);
// The header of a segment keeps a bucket in 11 bits.
const _: () = assert!(BUCKETS <= 1 << 11);

/// One of the spans of life that are treated alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TtlBucket(pub(crate) u16);

impl TtlBucket {
    /// For what lives for ever.
    pub(crate) const FOREVER: TtlBucket = TtlBucket(FOREVER as u16);

    /// The bucket of a life of `ttl_ms`; `None`: for ever.
    #[inline]
    pub(crate) fn of(ttl_ms: Option<u64>) -> TtlBucket {
        let Some(ttl_ms) = ttl_ms else {
            return TtlBucket::FOREVER;
        };
        if ttl_ms < FINEST_BELOW_MS {
            return TtlBucket((FINEST_FIRST + ttl_ms / FINEST_MS) as u16);
        }
        if ttl_ms < FINE_BELOW_MS {
            return TtlBucket((FINE_FIRST + ttl_ms / FINE_MS) as u16);
        }
        let units = ttl_ms / WIDTH_MS;
        for group in 0..GROUPS {
            let index = units >> (group * GROWTH_BITS);
            if index < GROUP {
                return TtlBucket((group * GROUP + index) as u16);
            }
        }
        TtlBucket((GROUPS * GROUP - 1) as u16)
    }

    /// What every life in here is taken for; `None`: for ever.
    pub(crate) fn ttl_ms(self) -> Option<u64> {
        let bucket = u64::from(self.0);
        match bucket {
            FOREVER => None,
            FINEST_FIRST.. => Some((bucket - FINEST_FIRST) * FINEST_MS),
            FINE_FIRST.. => Some((bucket - FINE_FIRST) * FINE_MS),
            _ => Some(bucket % GROUP * self.width_ms()),
        }
    }

    /// For how long a segment takes objects.
    pub(crate) fn span_ms(self) -> u64 {
        match self.ttl_ms() {
            // What is over at once need not be so in a segment of its own.
            Some(ttl_ms) if ttl_ms > 0 => self.width_ms().min(ttl_ms / SPAN_PART),
            _ => self.width_ms(),
        }
    }

    /// How far apart the shortest and the longest life in here are.
    pub(crate) fn width_ms(self) -> u64 {
        let bucket = u64::from(self.0);
        match bucket {
            FOREVER => u64::MAX,
            FINEST_FIRST.. => FINEST_MS,
            FINE_FIRST.. => FINE_MS,
            _ => WIDTH_MS << (bucket / GROUP * GROWTH_BITS),
        }
    }

    /// The width, or the multiple of it within `slack_ms` that divides those of longer lives and greater slack.
    pub(crate) fn grid_ms(self, slack_ms: u64) -> u64 {
        let width_ms = self.width_ms();
        if width_ms == FINEST_MS && slack_ms >= FINE_MS {
            return FINE_MS << (slack_ms / FINE_MS).ilog2();
        }
        let doublings = (slack_ms / width_ms).max(1).ilog2();
        match width_ms {
            FINEST_MS => FINEST_MS << doublings.min((FINE_MS / FINEST_MS).trailing_zeros()),
            _ => width_ms << doublings,
        }
    }

    /// When what was created at `created` is over.
    pub(crate) fn deadline(self, created: Tick) -> Tick {
        match self.ttl_ms() {
            Some(ttl_ms) => Tick(created.0.saturating_add(ttl_ms).min(Tick::MAX.0)),
            None => NEVER,
        }
    }
}

/// The deadline of what lives for ever: later than any that a segment of a TTL bucket has.
pub(crate) const NEVER: Tick = Tick(u64::MAX);
/// The deadline of what was flushed.
pub(crate) const FLUSHED: Tick = Tick(0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_rounded_down_by_less_than_a_width() {
        let step = if cfg!(miri) { 77_777_777 } else { 777_777 };
        let fine = if cfg!(miri) { 1_000 } else { 200_000 };
        let spans = (0..fine).chain((fine..9_000_000_000).step_by(step));
        for ttl_ms in spans {
            let bucket = TtlBucket::of(Some(ttl_ms));
            let shortest = bucket.ttl_ms().expect("it ends");
            assert!(shortest <= ttl_ms, "{ttl_ms} becomes {shortest}");
            let is_longest = bucket.0 == 1023;
            assert!(
                is_longest || ttl_ms - shortest < bucket.width_ms(),
                "{ttl_ms}"
            );
            assert_eq!(TtlBucket::of(Some(shortest)), bucket, "{ttl_ms}");
        }
    }

    #[test]
    fn the_groups_meet_where_the_widths_change() {
        let width = |seconds: u64| TtlBucket::of(Some(seconds * 1000)).width_ms() / 1000;
        assert_eq!([width(64), width(2047)], [8, 8]);
        assert_eq!([width(2048), width(32_767)], [128, 128]);
        assert_eq!([width(32_768), width(524_287)], [2048, 2048]);
        assert_eq!([width(524_288), width(9_999_999)], [32_768, 32_768]);
        assert_eq!(TtlBucket::of(Some(63_999)).width_ms(), 500);
        assert_eq!(TtlBucket::of(Some(3_999)).width_ms(), 25);
        assert_eq!(TtlBucket::of(Some(24)).ttl_ms(), Some(0));
        assert_eq!(TtlBucket::of(None).ttl_ms(), None);
        assert_eq!(TtlBucket::FOREVER.deadline(Tick(5)), NEVER);
    }

    #[test]
    fn two_lives_that_differ_by_more_than_a_width_never_share_a_bucket() {
        let mut last = TtlBucket::of(Some(0));
        let step = if cfg!(miri) { 777_777 } else { 1_000 };
        for ttl_ms in (0..600_000_000).step_by(step) {
            let bucket = TtlBucket::of(Some(ttl_ms));
            assert!(bucket.ttl_ms() >= last.ttl_ms());
            last = bucket;
        }
    }
}

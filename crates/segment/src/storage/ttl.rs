//! TTL buckets: ranges of TTLs whose objects share segments.
//!
//! ```text
//! bucket        width      TTLs
//! 0..1024       8 s        64 s .. 2,048 s          four groups of 256, each 16 times as wide
//!               128 s      2,048 s .. 32,768 s      as the one before; the first 8 or 16 of a
//!               2,048 s    32,768 s .. 524,288 s    group are unused: the finer covers them
//!               32,768 s   524,288 s .. 97 days, and all longer ones
//! 1024..1152    500 ms     4 s .. 64 s              the finer groups
//! 1152..1312    25 ms      below 4 s
//! 1312          –          no deadline
//! ```
//! Each TTL is rounded down to the shortest in its bucket, so that nothing is returned after its
//! deadline. An object with a TTL below 25 ms expires immediately, and one with a TTL of more than
//! 97 days expires after 97 days.
//!
//! The finer groups are a departure from the source. They begin where a bucket's width would be
//! more than an eighth of the TTL.
//! Each width divides the next: `open.rs` relies on it.

use policy::Tick;

/// Number of TTL buckets.
pub(crate) const BUCKETS: usize = 1313;
const GROUP: u64 = 256;
const GROUPS: u64 = 4;
const WIDTH_MS: u64 = 8_000;
/// Binary logarithm of the factor by which each group is wider than the previous one.
const GROWTH_BITS: u64 = 4;
const FINE_FIRST: u64 = GROUP * GROUPS;
const FINE_MS: u64 = 500;
/// TTL in milliseconds below which buckets are in the finer groups.
const FINE_BELOW_MS: u64 = 64_000;
const FINEST_FIRST: u64 = FINE_FIRST + FINE_BELOW_MS / FINE_MS;
const FINEST_MS: u64 = 25;
const FINEST_BELOW_MS: u64 = 4_000;
const FOREVER: u64 = FINEST_FIRST + FINEST_BELOW_MS / FINEST_MS;
/// Divisor of the TTL, which gives the maximum time for which a segment takes objects.
const SPAN_PART: u64 = 8;

const _: () = assert!(FINE_MS.is_multiple_of(FINEST_MS) && WIDTH_MS.is_multiple_of(FINE_MS));

const _: () = assert!(FOREVER as usize + 1 == BUCKETS);
// The header of a segment keeps the bucket in 11 bits.
const _: () = assert!(BUCKETS <= 1 << 11);

/// Number of a TTL bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TtlBucket(pub(crate) u16);

impl TtlBucket {
    /// The bucket of objects without a deadline.
    pub(crate) const FOREVER: TtlBucket = TtlBucket(FOREVER as u16);

    /// Returns the bucket of a TTL; `None` means no deadline.
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

    /// Returns the TTL that all objects of this bucket get, the shortest in its range; `None` means
    /// no deadline.
    pub(crate) fn ttl_ms(self) -> Option<u64> {
        let bucket = u64::from(self.0);
        match bucket {
            FOREVER => None,
            FINEST_FIRST.. => Some((bucket - FINEST_FIRST) * FINEST_MS),
            FINE_FIRST.. => Some((bucket - FINE_FIRST) * FINE_MS),
            _ => Some(bucket % GROUP * self.width_ms()),
        }
    }

    /// Returns the maximum time in milliseconds during which a segment of this bucket is used for
    /// new objects.
    pub(crate) fn span_ms(self) -> u64 {
        match self.ttl_ms() {
            // TTL 0 keeps the width of its bucket, because otherwise a new segment would be opened
            // for each moment.
            Some(ttl_ms) if ttl_ms > 0 => self.width_ms().min(ttl_ms / SPAN_PART),
            _ => self.width_ms(),
        }
    }

    /// Returns the difference between the longest and the shortest TTL of this bucket.
    pub(crate) fn width_ms(self) -> u64 {
        let bucket = u64::from(self.0);
        match bucket {
            FOREVER => u64::MAX,
            FINEST_FIRST.. => FINEST_MS,
            FINE_FIRST.. => FINE_MS,
            _ => WIDTH_MS << (bucket / GROUP * GROWTH_BITS),
        }
    }

    /// Returns the interval to whose multiples a kept deadline is rounded down, if it may become
    /// `slack_ms` earlier: the width of the bucket or a multiple of it. Each interval divides the
    /// intervals for longer TTLs and greater slack.
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

    /// Returns the deadline of the objects in a segment created at `created`.
    pub(crate) fn deadline(self, created: Tick) -> Tick {
        match self.ttl_ms() {
            Some(ttl_ms) => Tick(created.0.saturating_add(ttl_ms).min(Tick::MAX.0)),
            None => NEVER,
        }
    }
}

/// Deadline of objects without one: later than the deadlines of all TTL buckets.
pub(crate) const NEVER: Tick = Tick(u64::MAX);
/// Deadline of flushed objects.
pub(crate) const FLUSHED: Tick = Tick(0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_rounded_down_by_less_than_a_width() {
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
    fn widths_change_where_groups_meet() {
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
    fn longer_ttls_have_buckets_of_longer_ttls() {
        let mut last = TtlBucket::of(Some(0));
        let step = if cfg!(miri) { 777_777 } else { 1_000 };
        for ttl_ms in (0..600_000_000).step_by(step) {
            let bucket = TtlBucket::of(Some(ttl_ms));
            assert!(bucket.ttl_ms() >= last.ttl_ms());
            last = bucket;
        }
    }
}

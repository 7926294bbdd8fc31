//! TTL buckets: which spans of life share a chain of segments.
//!
//! ```text
//! bucket        width      of lives
//! 0..1024       8 s        8 s .. 2,048 s           four groups of 256, each 16 times as wide as the
//!               128 s      2,048 s .. 32,768 s      one before; the first bucket or sixteen of a group
//!               2,048 s    32,768 s .. 524,288 s    belong to the finer one before it
//!               32,768 s   524,288 s .. 97 days, and whatever lives longer
//! 1024..1040    500 ms     500 ms .. 8 s            the finer group
//! 1040..1056    32 ms      below 500 ms
//! 1056          –          for ever
//! ```
//! Every life in a bucket is taken for the shortest one: rounded down, so that nothing is served after
//! its deadline. A life below 32 ms is over at once, one of more than 97 days ends after 97 days.

use policy::Tick;

/// How many buckets there are.
pub(crate) const BUCKETS: usize = 1057;
const GROUP: u64 = 256;
const GROUPS: u64 = 4;
const WIDTH_MS: u64 = 8_000;
/// Each group is this power of two times as wide as the one before.
const GROWTH_BITS: u64 = 4;
const FINE_FIRST: u64 = GROUP * GROUPS;
const FINE_MS: u64 = 500;
const FINEST_FIRST: u64 = FINE_FIRST + WIDTH_MS / FINE_MS;
const FINEST_MS: u64 = 32;
const FOREVER: u64 = FINEST_FIRST + FINE_MS.div_ceil(FINEST_MS);

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
        if ttl_ms < FINE_MS {
            return TtlBucket((FINEST_FIRST + ttl_ms / FINEST_MS) as u16);
        }
        if ttl_ms < WIDTH_MS {
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

    /// The bucket of the next longer lives; of the longest, the same.
    pub(crate) fn longer(self) -> TtlBucket {
        let ttl_ms = self.ttl_ms().map(|ttl_ms| ttl_ms + self.width_ms());
        TtlBucket::of(ttl_ms)
    }

    /// How far apart the shortest and the longest life in here are; a segment takes objects for as long.
    pub(crate) fn width_ms(self) -> u64 {
        let bucket = u64::from(self.0);
        match bucket {
            FOREVER => u64::MAX,
            FINEST_FIRST.. => FINEST_MS,
            FINE_FIRST.. => FINE_MS,
            _ => WIDTH_MS << (bucket / GROUP * GROWTH_BITS),
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
    fn the_next_longer_lives_begin_where_a_bucket_ends() {
        let mut bucket = TtlBucket::of(Some(0));
        let mut count = 1;
        while bucket.longer() != bucket {
            let longer = bucket.longer();
            assert!(longer.ttl_ms() > bucket.ttl_ms());
            let last = longer.ttl_ms().map(|ttl_ms| ttl_ms - 1);
            assert_eq!(TtlBucket::of(last), bucket);
            bucket = longer;
            count += 1;
        }
        assert!(count > 900, "{count}");
        assert_eq!(TtlBucket::FOREVER.longer(), TtlBucket::FOREVER);
    }

    #[test]
    fn the_groups_meet_where_the_widths_change() {
        let width = |seconds: u64| TtlBucket::of(Some(seconds * 1000)).width_ms() / 1000;
        assert_eq!([width(8), width(2047)], [8, 8]);
        assert_eq!([width(2048), width(32_767)], [128, 128]);
        assert_eq!([width(32_768), width(524_287)], [2048, 2048]);
        assert_eq!([width(524_288), width(9_999_999)], [32_768, 32_768]);
        assert_eq!(TtlBucket::of(Some(7_999)).width_ms(), 500);
        assert_eq!(TtlBucket::of(Some(499)).width_ms(), 32);
        assert_eq!(TtlBucket::of(Some(31)).ttl_ms(), Some(0));
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

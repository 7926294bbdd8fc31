//! What an engine is made with.

use crate::storage::{OPEN_MAX, SEGMENT_WORDS_MAX, SEGMENTS_MAX, WORD};
use policy::any::PolicySpec;
use std::fmt;
use std::str::FromStr;

/// The size of a segment unless another is given.
pub const SEGMENT_BYTES: usize = 1 << 20;
/// The smallest segment.
pub const SEGMENT_BYTES_MIN: usize = if cfg!(loom) { 64 } else { 4 << 10 };
/// The largest segment.
pub const SEGMENT_BYTES_MAX: usize = SEGMENT_WORDS_MAX as usize * WORD;
/// Segments merged into one unless another number is given.
pub const MERGED: u8 = 4;
/// The same for what is worth least by what was learned.
pub const MERGED_LEARNED: u8 = 5;
/// The most segments that are merged into one.
pub const MERGED_MAX: u8 = 16;

/// Which segments go when memory is short.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Eviction {
    /// Consecutive segments of one TTL bucket that wait longest become fewer, with the objects that are asked for most
    /// by size.
    #[default]
    Rent,
    /// As the source has it: consecutive segments of the TTL bucket whose turn it is become one, with the objects that
    /// are asked for most by size.
    Merge,
    /// The one that was opened first.
    Fifo,
    /// Any.
    Random,
    /// The one closest to expiry.
    Cte,
    /// The one with the fewest live bytes.
    Util,
    /// S3-FIFO over segments.
    S3Fifo,
    /// SIEVE over segments.
    Sieve,
    /// Those worth least by what is learned, merged with their neighbours; by rent as long as nothing is.
    GlCache,
    /// None: what finds no room is refused.
    None,
}

impl Eviction {
    /// All of them, in the order of the docs.
    pub const ALL: [Eviction; 10] = [
        Eviction::Rent,
        Eviction::Merge,
        Eviction::Fifo,
        Eviction::Random,
        Eviction::Cte,
        Eviction::Util,
        Eviction::S3Fifo,
        Eviction::Sieve,
        Eviction::GlCache,
        Eviction::None,
    ];

    /// Its name in options.
    pub fn name(self) -> &'static str {
        match self {
            Eviction::Rent => "rent",
            Eviction::Merge => "merge",
            Eviction::Fifo => "fifo",
            Eviction::Random => "random",
            Eviction::Cte => "cte",
            Eviction::Util => "util",
            Eviction::S3Fifo => "s3fifo",
            Eviction::Sieve => "sieve",
            Eviction::GlCache => "gl-cache",
            Eviction::None => "none",
        }
    }

    /// Whether segments are merged.
    pub(crate) fn merges(self) -> bool {
        matches!(self, Eviction::Rent | Eviction::Merge | Eviction::GlCache)
    }

    /// Whether it heeds what is learned about segments.
    pub fn learns(self) -> bool {
        self == Eviction::GlCache
    }

    /// How many segments it merges into one, unless another number is given.
    pub(crate) fn merged(self) -> u8 {
        match self {
            Eviction::GlCache => MERGED_LEARNED,
            _ => MERGED,
        }
    }

    /// The policy that chooses segments, where one does.
    pub(crate) fn policy(self) -> Option<PolicySpec> {
        match self {
            Eviction::Fifo | Eviction::Random | Eviction::S3Fifo | Eviction::Sieve => Some(
                self.name()
                    .parse()
                    .expect("the policies of these names exist"),
            ),
            _ => None,
        }
    }
}

/// A name that no eviction has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownEviction;

impl fmt::Display for UnknownEviction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Eviction::ALL.map(Eviction::name);
        write!(f, "expected one of {}", names.join(", "))
    }
}

impl std::error::Error for UnknownEviction {}

impl FromStr for Eviction {
    type Err = UnknownEviction;

    fn from_str(name: &str) -> Result<Self, UnknownEviction> {
        let found = Eviction::ALL.into_iter().find(|one| one.name() == name);
        found.ok_or(UnknownEviction)
    }
}

/// Sizes and choices of an engine.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Everything: segments, their headers, the table, which lives in segments too.
    pub memory_bytes: u64,
    /// A power of two from [`SEGMENT_BYTES_MIN`] to [`SEGMENT_BYTES_MAX`].
    pub segment_bytes: usize,
    /// Threads that write.
    pub writers: u16,
    /// Which segments go when memory is short.
    pub eviction: Eviction,
    /// Segments merged into one, from 2 to [`MERGED_MAX`]; 0: as many as the eviction takes by itself.
    pub merged: u8,
    /// Determines every decision by chance.
    pub seed: u64,
    /// The secret of the keys' hash.
    pub hash_key: [u64; 2],
}

impl Default for Config {
    fn default() -> Self {
        Config {
            memory_bytes: 64 << 20,
            segment_bytes: SEGMENT_BYTES,
            writers: 1,
            eviction: Eviction::Rent,
            merged: 0,
            seed: 1,
            hash_key: [1, 2],
        }
    }
}

/// Why there is no engine of a configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConfigError {
    /// The size of a segment is no power of two, or out of bounds.
    SegmentBytes,
    /// The number of segments to merge is out of bounds.
    Merged,
    /// There must be a writer.
    Writers,
    /// There is no room for the table and the segments that each writer needs.
    TooSmall {
        /// What would do.
        needed_bytes: u64,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::SegmentBytes => write!(
                f,
                "a segment is a power of two from {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX} bytes"
            ),
            ConfigError::Merged => write!(f, "2 to {MERGED_MAX} segments are merged into one"),
            ConfigError::Writers => f.write_str("at least one thread writes"),
            ConfigError::TooSmall { needed_bytes } => {
                write!(
                    f,
                    "too little memory: segments of this size need {needed_bytes} bytes"
                )
            }
        }
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Free segments that only a merge may take: each writer can always merge.
    pub(crate) fn reserve(&self) -> u32 {
        match self.eviction.merges() {
            true => u32::from(self.writers),
            false => 0,
        }
    }

    /// One for the table, one open for each writer, those kept for merges, and some to evict from.
    pub(crate) fn segments_least(&self) -> u64 {
        1 + u64::from(self.writers) + u64::from(self.reserve()) + 3
    }

    /// How many segments a writer may have open: its share of half of them.
    pub(crate) fn open_max(&self) -> usize {
        let writers = 2 * u64::from(self.writers.max(1));
        let share = self.memory_bytes / self.segment_bytes.max(1) as u64 / writers;
        share.clamp(2, OPEN_MAX as u64) as usize
    }

    /// Checks everything but the memory.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let is_in_bounds = (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&self.segment_bytes);
        if !is_in_bounds || !self.segment_bytes.is_power_of_two() {
            return Err(ConfigError::SegmentBytes);
        }
        if self.merged != 0 && !(2..=MERGED_MAX).contains(&self.merged) {
            return Err(ConfigError::Merged);
        }
        if self.writers == 0 {
            return Err(ConfigError::Writers);
        }
        Ok(())
    }

    /// Number of segments that the memory has room for. One takes `each_bytes`, all together take `fixed_bytes` besides.
    pub(crate) fn segments(&self, each_bytes: u64, fixed_bytes: u64) -> Result<u32, ConfigError> {
        let least = self.segments_least();
        let count = self.memory_bytes.saturating_sub(fixed_bytes) / each_bytes;
        if count < least {
            return Err(ConfigError::TooSmall {
                needed_bytes: fixed_bytes + least * each_bytes,
            });
        }
        Ok(u32::try_from(count).map_or(SEGMENTS_MAX, |count| count.min(SEGMENTS_MAX)))
    }

    /// Checks that an engine of this many segments has enough for the eviction.
    pub(crate) fn check_segments(&self, segments: u64) -> Result<(), ConfigError> {
        let missing = self.segments_least().saturating_sub(segments);
        match missing {
            0 => Ok(()),
            _ => Err(ConfigError::TooSmall {
                needed_bytes: self.memory_bytes + missing * self.segment_bytes as u64,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_eviction_has_its_name() {
        for eviction in Eviction::ALL {
            assert_eq!(eviction.name().parse(), Ok(eviction));
            let _policy = eviction.policy();
        }
        assert_eq!("lru".parse::<Eviction>(), Err(UnknownEviction));
    }

    #[test]
    fn sizes_out_of_bounds_are_errors() {
        let good = Config::default();
        let segments = |config: Config| {
            config.check()?;
            config.segments(1 << 20, 0)
        };
        assert_eq!(segments(good), Ok(64));
        let odd = Config {
            segment_bytes: 5000,
            ..good
        };
        assert_eq!(segments(odd), Err(ConfigError::SegmentBytes));
        let merged = Config { merged: 1, ..good };
        assert_eq!(segments(merged), Err(ConfigError::Merged));
        let writers = Config { writers: 0, ..good };
        assert_eq!(segments(writers), Err(ConfigError::Writers));
        let small = Config {
            memory_bytes: 5 << 20,
            ..good
        };
        let too_small = ConfigError::TooSmall {
            needed_bytes: 6 << 20,
        };
        assert_eq!(segments(small), Err(too_small));
    }
}

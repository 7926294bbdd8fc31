//! Configuration of a segment engine.

use crate::storage::{OPEN_MAX, SEGMENT_WORDS_MAX, SEGMENTS_MAX, WORD};
use policy::any::PolicySpec;
use std::fmt;
use std::str::FromStr;

/// Default size of a segment in bytes.
pub const SEGMENT_BYTES: usize = 1 << 20;
/// Minimum size of a segment in bytes.
pub const SEGMENT_BYTES_MIN: usize = if cfg!(loom) { 64 } else { 4 << 10 };
/// Maximum size of a segment in bytes.
pub const SEGMENT_BYTES_MAX: usize = SEGMENT_WORDS_MAX as usize * WORD;
/// Default number of segments per merge.
pub const MERGED: u8 = 4;
/// Default number of segments per merge of `gl-cache`.
pub const MERGED_LEARNED: u8 = 5;
/// Maximum number of segments per merge.
pub const MERGED_MAX: u8 = 16;

/// Rule that selects the segments to evict when memory is short.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Eviction {
    /// By age: the segments of one TTL bucket that were filled longest ago are merged into fewer,
    /// which keep the objects with the most requests per size.
    #[default]
    Rent,
    /// In turn, as in the source: consecutive segments of the next TTL bucket are merged into one,
    /// which keeps the objects with the most requests per size.
    Merge,
    /// The segment that was opened first.
    Fifo,
    /// A random segment.
    Random,
    /// The segment closest to its deadline.
    Cte,
    /// The segment with the fewest live bytes.
    Util,
    /// S3-FIFO over segments.
    S3Fifo,
    /// SIEVE over segments.
    Sieve,
    /// Experimental: the segments with the least learned utility, merged with their neighbours.
    /// Until a model is trained, it works like `Rent`.
    GlCache,
    /// No segment is evicted. Objects that do not fit are refused.
    None,
}

impl Eviction {
    /// All evictions, in the order of the docs.
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

    /// Returns the name in options.
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

    /// Returns true if this eviction merges segments.
    pub(crate) fn merges(self) -> bool {
        matches!(self, Eviction::Rent | Eviction::Merge | Eviction::GlCache)
    }

    /// Returns true if this eviction uses a learned ranking of segments. The host must then run a
    /// learner.
    pub fn learns(self) -> bool {
        self == Eviction::GlCache
    }

    /// Returns the default number of segments that it merges.
    pub(crate) fn merged(self) -> u8 {
        match self {
            Eviction::GlCache => MERGED_LEARNED,
            _ => MERGED,
        }
    }

    /// Returns the replacement policy over segments that it uses, if any.
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

/// Error for a name that no eviction has.
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

/// Configuration of an engine.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Maximum total memory in bytes: segments, headers, and the hash table, which is also stored
    /// in segments.
    pub memory_bytes: u64,
    /// Size of a segment in bytes: a power of two from [`SEGMENT_BYTES_MIN`] to
    /// [`SEGMENT_BYTES_MAX`].
    pub segment_bytes: usize,
    /// Maximum number of writing threads.
    pub writers: u16,
    /// Rule that selects the segments to evict when memory is short.
    pub eviction: Eviction,
    /// Number of segments per merge, from 2 to [`MERGED_MAX`]; 0 selects the eviction's default.
    pub merged: u8,
    /// Seed of all random decisions.
    pub seed: u64,
    /// Secret key of the hash function.
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

/// Reason why a configuration is rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConfigError {
    /// The size of a segment is not a power of two, or is out of bounds.
    SegmentBytes,
    /// The number of segments to merge is out of bounds.
    Merged,
    /// There is no writer.
    Writers,
    /// The memory is too small for the table and the segments that each writer needs.
    TooSmall {
        /// Sufficient memory in bytes.
        needed_bytes: u64,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::SegmentBytes => write!(
                f,
                "segment size: expected a power of two from {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX} bytes"
            ),
            ConfigError::Merged => write!(f, "segments in a merge: expected 2 to {MERGED_MAX}"),
            ConfigError::Writers => f.write_str("writing threads: expected at least 1"),
            ConfigError::TooSmall { needed_bytes } => write!(
                f,
                "memory too small: segments of this size need {needed_bytes} bytes"
            ),
        }
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Returns the number of free segments that only merges may take, so that each writer can
    /// always merge.
    pub(crate) fn reserve(&self) -> u32 {
        match self.eviction.merges() {
            true => u32::from(self.writers),
            false => 0,
        }
    }

    /// Returns the minimum number of segments: one for the table, an open one per writer, the
    /// reserve for merges, and three to evict from.
    pub(crate) fn segments_least(&self) -> u64 {
        1 + u64::from(self.writers) + u64::from(self.reserve()) + 3
    }

    /// Returns the maximum number of open segments per writer: its share of half of all segments.
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

    /// Returns the number of segments that fit into the memory. Each takes `each_bytes`, and the
    /// rest of the engine takes `fixed_bytes`.
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

    /// Checks that an engine with this many segments has as many as the eviction needs.
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
    fn every_eviction_is_parsed_from_its_name() {
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

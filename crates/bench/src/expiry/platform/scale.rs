//! Factor that divides all times and numbers of operations.
//!
//! Rates stay the same. The number of unexpired keys is rate × TTL and shrinks by the factor, but
//! the number of keys that expire per second does not. The expiry cycles per second of sampling
//! indexes are therefore *not* scaled, unless `--hz` says so. A cycle of 20 samples ends at random,
//! so that a server settles at the share of dead keys at which each cycle finds enough of them:
//! expired keys per second / cycles per second. With scaled cycles, the reference would settle
//! where the original settles at a fraction of its load.
//!
//! The ratio of cycle to TTL does change: a tenth of a second is no longer negligible, and an index
//! that works in cycles holds dead keys for a larger part of their TTL.

use crate::error::{Error, Result};
use std::time::Duration;

/// Maximum factor at which the paper's BASE of 100 ms is still a whole number of milliseconds.
const FACTOR_MAX: u32 = 100;
/// Interval between two polls of the monitor before scaling.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// Factor that divides times and counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scale(u32);

impl Scale {
    /// Creates a scale that divides all times and counts by this factor.
    pub(super) fn new(factor: u32) -> Result<Scale> {
        if (1..=FACTOR_MAX).contains(&factor) {
            return Ok(Scale(factor));
        }
        Err(Error::Usage(format!(
            "--factor must be from 1 to {FACTOR_MAX}"
        )))
    }

    pub(super) fn factor(self) -> u32 {
        self.0
    }

    /// Scales a number of operations or keys.
    pub(super) fn count(self, count: u64) -> u64 {
        (count / u64::from(self.0)).max(1)
    }

    /// Converts a TTL in seconds to milliseconds and divides it by the factor; at least 1 ms.
    pub(super) fn ttl_ms(self, seconds: u64) -> u64 {
        (seconds * 1000 / u64::from(self.0)).max(1)
    }

    /// Returns the interval between two polls of the monitor.
    pub(super) fn look_pause(self) -> Duration {
        LOOK_PAUSE / self.0
    }

    /// Converts an index to the form passed to `--expiry`: divides BASE by the factor, and gives a
    /// sampling index its cycles per second.
    pub(super) fn index(self, spec: &str, hz: u32) -> Result<String> {
        let mut parts = spec.split(':');
        let name = parts.next().unwrap_or_default();
        let mut scaled = vec![name.to_owned()];
        let mut has_hz = false;
        for part in parts {
            has_hz |= part.starts_with("hz=");
            scaled.push(if name == CRAWLER {
                self.interval(spec, part)?
            } else {
                self.knob(spec, part)?
            });
        }
        if name == CRAWLER && scaled.len() == 1 {
            scaled.push(self.interval(spec, CRAWLER_INTERVAL)?);
        }
        if SAMPLING.contains(&name) && !has_hz && hz != HZ {
            scaled.push(format!("hz={hz}"));
        }
        Ok(scaled.join(":"))
    }

    /// Scales the interval of a crawler, its only parameter, to whole seconds.
    fn interval(self, spec: &str, knob: &str) -> Result<String> {
        let value = knob.strip_prefix("interval=").unwrap_or(knob);
        match value.parse::<u32>() {
            Ok(seconds) if !seconds.is_multiple_of(self.0) => Err(Error::Usage(format!(
                "{spec}: an interval of {seconds} s divided by the factor {} is no whole number of seconds",
                self.0
            ))),
            Ok(seconds) => Ok((seconds / self.0).to_string()),
            // The server reports the error in this parameter.
            Err(_) => Ok(knob.into()),
        }
    }

    /// Scales a parameter. `120x1000`, optionally preceded by a name, is a number of buckets and
    /// their BASE.
    fn knob(self, spec: &str, knob: &str) -> Result<String> {
        let (name, value) = knob
            .rsplit_once('=')
            .map_or(("", knob), |(name, value)| (name, value));
        let product = value.split_once('x').and_then(|(buckets, base)| {
            Some((buckets.parse::<u64>().ok()?, base.parse::<u64>().ok()?))
        });
        let Some((buckets, base)) = product else {
            return Ok(knob.into());
        };
        let factor = u64::from(self.0);
        if base == 0 || !base.is_multiple_of(factor) {
            let text = format!(
                "{spec}: a BASE of {base} ms divided by the factor {factor} is no whole number of milliseconds"
            );
            return Err(Error::Usage(text));
        }
        let equals = if name.is_empty() { "" } else { "=" };
        Ok(format!("{name}{equals}{buckets}x{}", base / factor))
    }
}

/// Indexes that run `--hz` cycles per second.
const SAMPLING: [&str; 5] = [
    "sampled",
    "sampled-5",
    "buckets",
    "buckets-auto",
    "radix-capped",
];

/// Index that runs at an interval of seconds, and its default interval.
const CRAWLER: &str = "crawler";
const CRAWLER_INTERVAL: &str = "60";

/// Default cycles per second of servers.
pub(super) const HZ: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_counts_shrink() {
        let scale = Scale::new(20).expect("it is in range");
        assert_eq!(scale.count(30_000_000), 1_500_000);
        assert_eq!(
            [60, 30, 15, 45].map(|s| scale.ttl_ms(s)),
            [3000, 1500, 750, 2250]
        );
        assert_eq!(scale.look_pause(), Duration::from_millis(50));
        assert_eq!(
            Scale::new(1).map(|scale| scale.ttl_ms(60)).ok(),
            Some(60_000)
        );
        assert!(Scale::new(0).is_err());
        assert!(Scale::new(101).is_err());
    }

    #[test]
    fn indexes_are_scaled_by_their_times_alone() {
        let index = |factor, spec: &str, hz| {
            Scale::new(factor)
                .and_then(|scale| scale.index(spec, hz))
                .ok()
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(index(25, "wheel", 10), some("wheel"));
        assert_eq!(index(25, "buckets:120x1000", 10), some("buckets:120x40"));
        assert_eq!(
            index(20, "buckets:size=600x100:iterations=3", 10),
            some("buckets:size=600x5:iterations=3")
        );
        assert_eq!(
            index(25, "sampled:release=5", 10),
            some("sampled:release=5")
        );
        assert_eq!(
            index(25, "sampled:release=5", 250),
            some("sampled:release=5:hz=250")
        );
        assert_eq!(
            index(25, "buckets:120x1000:shards=8", 250),
            some("buckets:120x40:shards=8:hz=250")
        );
        assert_eq!(index(25, "radix-capped", 250), some("radix-capped:hz=250"));
        assert_eq!(index(25, "sampled:hz=4", 250), some("sampled:hz=4"));
        assert_eq!(
            index(20, "sampled-5:shards=8", 200),
            some("sampled-5:shards=8:hz=200")
        );
        assert_eq!(index(20, "crawler:60", 10), some("crawler:3"));
        assert_eq!(index(20, "crawler", 10), some("crawler:3"));
        assert_eq!(index(1, "crawler:interval=7", 10), some("crawler:7"));
        assert_eq!(index(25, "crawler:60", 10), None);
        assert_eq!(index(1, "buckets:2400x100", 10), some("buckets:2400x100"));
        assert_eq!(index(30, "buckets:120x1000", 10), None);
        assert_eq!(index(25, "buckets:0x0", 10), None);
    }
}

//! TTLs for traces that have none: mixes of TTLs as production caches use them.
//!
//! A mix is written as blank-separated `TTL:weight`, with a TTL as a decimal and a unit (`60s
//! 1.8h`). Weights are normalised to 1. Each key draws its TTL once, from the seed and the key
//! only, so that a key has the same TTL in every replay and under every policy.
//!
//! The built-in mixes are facts from the Twitter cache trace, licensed CC-BY 4.0: Juncheng Yang,
//! Yao Yue, K. V. Rashmi, "A large-scale analysis of hundreds of in-memory key-value cache clusters
//! at Twitter", OSDI 2020, <https://github.com/twitter/cache-trace>. They are the clusters with
//! short TTLs, and cluster 52, whose requests are the public sample.

use crate::number::decimal;
use crate::random::Random;
use std::fmt;

/// Published mixes, with weights rounded to two decimals as published.
const PUBLISHED: [(&str, &str); 7] = [
    (
        "cluster4",
        "60s:0.39 300s:0.24 1h:0.13 600s:0.12 4h:0.09 1d:0.03",
    ),
    ("cluster12", "300s:0.98 299s:0.02"),
    ("cluster21", "2.2h:0.62 10s:0.23 900s:0.14"),
    (
        "cluster26",
        "60s:0.67 120s:0.10 360s:0.09 600s:0.06 660s:0.03 180s:0.02",
    ),
    ("cluster37", "20s:0.91 300s:0.06 2h:0.02 600s:0.01"),
    ("cluster42", "600s:0.82 300s:0.16 6h:0.02"),
    ("cluster52", "1d:0.65 14d:0.27 12h:0.07"),
];

/// Maximum TTL in milliseconds: a thousand years.
const TTL_MS_MAX: f64 = 1000.0 * 365.25 * 86_400_000.0;

/// Distribution of TTLs.
#[derive(Clone, Debug, PartialEq)]
pub struct TtlMix {
    /// TTLs in milliseconds, each with the sum of the shares up to and including its own.
    choices: Vec<(u64, f64)>,
}

/// Reason why a mix cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TtlMixError {
    /// A part is not `TTL:weight`.
    BadPart(String),
    /// The mix has no part, or no weight above zero.
    Empty,
    /// The name is neither built in nor in the given table.
    UnknownCluster(String),
    /// The header of the table lacks the columns `cluster` and `ttl_mix`.
    BadTable,
}

impl fmt::Display for TtlMixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TtlMixError::BadPart(part) => write!(
                f,
                "TTL mix part {part:?}: expected TTL:weight such as 60s:0.39 (units: ms, s, m, h, d)"
            ),
            TtlMixError::Empty => write!(f, "the mix has no TTL with a weight above 0"),
            TtlMixError::UnknownCluster(name) => {
                let known = PUBLISHED.map(|(name, _)| name).join(", ");
                write!(f, "TTL mix {name:?}: expected {known}")
            }
            TtlMixError::BadTable => {
                write!(
                    f,
                    "the table's first line must name the columns cluster and ttl_mix"
                )
            }
        }
    }
}

impl std::error::Error for TtlMixError {}

impl TtlMix {
    /// Parses a mix such as `60s:0.9 1.8h:0.1`. Weights need not add up to 1.
    ///
    /// # Errors
    /// A part is malformed, or no weight is above zero.
    ///
    /// ```
    /// let mix = trace::TtlMix::parse("1s:3 1m:1").unwrap();
    /// assert_eq!(mix.shares(), [(1_000, 0.75), (60_000, 0.25)]);
    /// ```
    pub fn parse(text: &str) -> Result<Self, TtlMixError> {
        let mut parts = Vec::new();
        for part in text.split_whitespace() {
            parts.push(parse_part(part).ok_or_else(|| TtlMixError::BadPart(part.into()))?);
        }
        let total: f64 = parts.iter().map(|(_, weight)| weight).sum();
        if total <= 0.0 || !total.is_finite() {
            return Err(TtlMixError::Empty);
        }
        let mut sum = 0.0;
        let choices = parts.iter().filter(|(_, weight)| *weight > 0.0);
        let choices = choices
            .map(|&(ttl_ms, weight)| {
                sum += weight / total;
                (ttl_ms, sum)
            })
            .collect();
        Ok(TtlMix { choices })
    }

    /// Returns the published mix of a cluster.
    ///
    /// # Errors
    /// The name is not built in.
    pub fn published(cluster: &str) -> Result<Self, TtlMixError> {
        let found = PUBLISHED.iter().find(|(name, _)| *name == cluster);
        let (_, mix) = found.ok_or_else(|| TtlMixError::UnknownCluster(cluster.into()))?;
        TtlMix::parse(mix)
    }

    /// Returns the mix of a cluster from a comma-separated table with the columns `cluster` and
    /// `ttl_mix`.
    ///
    /// # Errors
    /// The header lacks these columns, the cluster is not in the table, or its mix is malformed.
    pub fn from_table(table: &str, cluster: &str) -> Result<Self, TtlMixError> {
        let mut lines = table.lines();
        let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let column = |name| header.iter().position(|column| column.trim() == name);
        let (Some(cluster_at), Some(mix_at)) = (column("cluster"), column("ttl_mix")) else {
            return Err(TtlMixError::BadTable);
        };
        let rows = lines.map(|line| line.split(',').collect::<Vec<_>>());
        let mut found = rows.filter(|row| row.get(cluster_at) == Some(&cluster));
        let row = found
            .next()
            .ok_or_else(|| TtlMixError::UnknownCluster(cluster.into()))?;
        TtlMix::parse(row.get(mix_at).copied().unwrap_or_default())
    }

    /// Returns the TTLs in milliseconds with their shares, which add up to 1.
    pub fn shares(&self) -> Vec<(u64, f64)> {
        let before = std::iter::once(0.0).chain(self.choices.iter().map(|(_, sum)| *sum));
        let pairs = self.choices.iter().zip(before);
        pairs
            .map(|((ttl_ms, sum), before)| (*ttl_ms, sum - before))
            .collect()
    }

    /// Returns the TTL of a key in milliseconds. It depends on the key and the seed only.
    pub fn ttl_ms(&self, key: u64, seed: u64) -> u64 {
        let fraction = Random::of_key(seed, key).fraction();
        // Rounding may leave the last sum just below 1.
        let last = self.choices.len() - 1;
        let chosen = self.choices.iter().position(|(_, sum)| fraction < *sum);
        self.choices[chosen.unwrap_or(last)].0
    }
}

/// Parses `TTL:weight` to milliseconds and a weight.
fn parse_part(part: &str) -> Option<(u64, f64)> {
    let (ttl, weight) = part.split_once(':')?;
    let unit_at = ttl.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = ttl.split_at(unit_at);
    let unit_ms = match unit {
        "ms" => 1.0,
        "s" => 1e3,
        "m" => 60e3,
        "h" => 3_600e3,
        "d" => 86_400e3,
        _ => return None,
    };
    let ttl_ms = (decimal(number)? * unit_ms).round();
    let is_in_range = (1.0..=TTL_MS_MAX).contains(&ttl_ms);
    is_in_range.then_some((ttl_ms as u64, decimal(weight)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_mix_is_normalised() {
        for (name, _) in PUBLISHED {
            let shares = TtlMix::published(name).expect("built in").shares();
            let total: f64 = shares.iter().map(|(_, share)| share).sum();
            assert!((total - 1.0).abs() < 1e-9, "{name}: {total}");
            assert!(shares.iter().all(|(_, share)| *share > 0.0));
        }
    }

    #[test]
    fn units_and_decimals_are_parsed() {
        let mix = TtlMix::parse("250ms:1 2s:1 1.5m:1 2.2h:1 92.6d:1").expect("well-formed");
        let ttls: Vec<u64> = mix.shares().iter().map(|(ttl, _)| *ttl).collect();
        assert_eq!(ttls, [250, 2_000, 90_000, 7_920_000, 8_000_640_000]);
    }

    #[test]
    fn malformed_mixes_are_refused() {
        for part in [
            "60s",
            "60:1",
            "s:1",
            "60s:x",
            "-1s:1",
            "0s:1",
            "1y:1",
            "1s:-1",
            "inf:1",
            "1s:nan",
            "9999999999d:1",
            "1e9s:1",
        ] {
            assert_eq!(TtlMix::parse(part), Err(TtlMixError::BadPart(part.into())));
        }
        for text in ["", "  ", "1s:0"] {
            assert_eq!(TtlMix::parse(text), Err(TtlMixError::Empty));
        }
        let error = TtlMix::published("cluster999").expect_err("there is none");
        assert!(error.to_string().contains("cluster4, cluster12"));
    }

    #[test]
    fn a_table_is_read_by_its_header() {
        let table = "ttl_mix,x,cluster\n1s:1,0,a\n2s:1 4s:3,0,b\n";
        let mix = TtlMix::from_table(table, "b").expect("it is there");
        assert_eq!(mix.shares(), [(2_000, 0.25), (4_000, 0.75)]);
        assert_eq!(TtlMix::from_table("a,b\n", "b"), Err(TtlMixError::BadTable));
        let missing = TtlMix::from_table(table, "c");
        assert_eq!(missing, Err(TtlMixError::UnknownCluster("c".into())));
    }

    #[test]
    fn keys_draw_ttls_by_the_shares_and_repeatably() {
        let mix = TtlMix::published("cluster4").expect("built in");
        let draws: Vec<u64> = (0..100_000).map(|key| mix.ttl_ms(key, 9)).collect();
        assert!((0..1000).all(|key| mix.ttl_ms(key, 9) == draws[key as usize]));
        assert!((0..1000).any(|key| mix.ttl_ms(key, 8) != draws[key as usize]));
        for (ttl_ms, share) in mix.shares() {
            let count = draws.iter().filter(|draw| **draw == ttl_ms).count() as f64;
            // Five standard deviations of a share are at most 0.008.
            assert!(
                (count / 100_000.0 - share).abs() < 0.008,
                "{ttl_ms}: {count}"
            );
        }
    }
}

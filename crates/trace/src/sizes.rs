//! Distributions of the sizes of objects. Every key draws its size once.

use crate::number::decimal;
use crate::random::Random;
use std::f64::consts::TAU;

/// Maximum size in bytes; the tails of the distributions end here.
const SIZE_MAX: f64 = (1u64 << 30) as f64;
/// Constant that separates the random stream for sizes from the one for TTLs.
const SALT: u64 = 0x512E;

/// Distribution of the sizes of keys and values.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// Constant sizes.
    Fixed {
        /// Bytes of each key.
        key: u32,
        /// Bytes of each value.
        value: u32,
    },
    /// Sizes of values from the first to the last, all equally likely.
    Uniform {
        /// Smallest size in bytes.
        first: u32,
        /// Largest size in bytes.
        last: u32,
    },
    /// Sizes whose logarithm is normally distributed.
    Lognormal {
        /// Median in bytes.
        median: f64,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
    },
    /// Sizes of values that exceed v with probability (smallest / v)^alpha.
    Pareto {
        /// Smallest size in bytes.
        smallest: f64,
        /// Shape; the smaller, the heavier the tail.
        alpha: f64,
    },
}

impl Sizes {
    /// Parses `fixed:BYTES`, `uniform:FIRST:LAST`, `lognormal:MEDIAN:SIGMA` or
    /// `pareto:SMALLEST:ALPHA`.
    ///
    /// # Errors
    /// The text is not one of these, or a number is out of range.
    ///
    /// ```
    /// use trace::Sizes;
    /// assert_eq!(Sizes::parse("fixed:100").unwrap().of_key(5, 1), (0, 100));
    /// assert!(Sizes::parse("uniform:9:1").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "sizes {text:?}: expected a distribution such as fixed:100, uniform:1:1000, \
                 lognormal:300:1.5 or pareto:64:1.2"
            )
        };
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let numbers: Option<Vec<f64>> = parts.map(decimal).collect();
        let numbers = numbers.ok_or_else(wrong)?;
        let is_size = |size: f64| (1.0..=SIZE_MAX).contains(&size);
        match (name, &numbers[..]) {
            ("fixed", &[bytes]) if is_size(bytes) => Ok(Sizes::Fixed {
                key: 0,
                value: bytes as u32,
            }),
            ("uniform", &[first, last]) if is_size(first) && is_size(last) && first <= last => {
                Ok(Sizes::Uniform {
                    first: first as u32,
                    last: last as u32,
                })
            }
            ("lognormal", &[median, sigma]) if is_size(median) && sigma <= 10.0 => {
                Ok(Sizes::Lognormal { median, sigma })
            }
            ("pareto", &[smallest, alpha])
                if is_size(smallest) && (0.1..=100.0).contains(&alpha) =>
            {
                Ok(Sizes::Pareto { smallest, alpha })
            }
            _ => Err(wrong()),
        }
    }

    /// Returns the mean sizes of a cluster from a comma-separated table with the columns `cluster`,
    /// `key_bytes` and `value_bytes`.
    ///
    /// # Errors
    /// The header lacks one of these columns, the cluster is not in the table, or its sizes are not
    /// numbers.
    pub fn from_table(table: &str, cluster: &str) -> Result<Self, String> {
        let mut lines = table.lines();
        let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let column = |name| header.iter().position(|column| column.trim() == name);
        let columns = [
            column("cluster"),
            column("key_bytes"),
            column("value_bytes"),
        ];
        let [Some(cluster_at), Some(key_at), Some(value_at)] = columns else {
            return Err(
                "the table's first line must name cluster, key_bytes and value_bytes".into(),
            );
        };
        let mut rows = lines.map(|line| line.split(',').collect::<Vec<_>>());
        let row = rows.find(|row| row.get(cluster_at) == Some(&cluster));
        let row = row.ok_or_else(|| format!("the table has no cluster {cluster:?}"))?;
        let bytes = |at: usize| row.get(at).and_then(|text| text.parse().ok());
        match (bytes(key_at), bytes(value_at)) {
            (Some(key), Some(value)) => Ok(Sizes::Fixed { key, value }),
            _ => Err(format!("the sizes of {cluster:?} are not numbers of bytes")),
        }
    }

    /// Returns the bytes of a key and of its value. They depend on the key and the seed only.
    pub fn of_key(&self, key: u64, seed: u64) -> (u32, u32) {
        let mut random = Random::of_key(seed ^ SALT, key);
        let bytes = |size: f64| size.clamp(1.0, SIZE_MAX) as u32;
        match *self {
            Sizes::Fixed { key, value } => (key, value),
            Sizes::Uniform { first, last } => {
                let spread = u64::from(last - first) + 1;
                (0, first + random.below(spread) as u32)
            }
            Sizes::Lognormal { median, sigma } => {
                (0, bytes(median * (sigma * normal(&mut random)).exp()))
            }
            Sizes::Pareto { smallest, alpha } => {
                let above = 1.0 - random.fraction();
                (0, bytes(smallest * above.powf(-1.0 / alpha)))
            }
        }
    }
}

/// Draws from the standard normal distribution, by the Box–Muller transform.
pub(crate) fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.fraction()).ln()).sqrt();
    radius * (TAU * random.fraction()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(text: &str) -> Vec<u32> {
        let sizes = Sizes::parse(text).expect("well-formed");
        let mut drawn: Vec<u32> = (0..100_000).map(|key| sizes.of_key(key, 3).1).collect();
        drawn.sort_unstable();
        drawn
    }

    #[test]
    fn distributions_have_their_quantiles() {
        let uniform = sorted("uniform:10:19");
        assert_eq!((uniform[0], uniform[99_999]), (10, 19));
        assert_eq!(uniform[55_000], 15);
        let lognormal = sorted("lognormal:1000:1");
        // One standard deviation is a factor of e; the error of these quantiles is below 3 %.
        for (at, wanted) in [(15_866, 368.0), (50_000, 1_000.0), (84_134, 2_718.0)] {
            let found = f64::from(lognormal[at]);
            assert!((found / wanted - 1.0).abs() < 0.03, "{at}: {found}");
        }
        let pareto = sorted("pareto:100:2");
        for (at, wanted) in [(0, 100.0), (75_000, 200.0), (99_000, 1_000.0)] {
            let found = f64::from(pareto[at]);
            assert!((found / wanted - 1.0).abs() < 0.1, "{at}: {found}");
        }
        assert_eq!(sorted("fixed:7")[99_999], 7);
    }

    #[test]
    fn a_key_always_has_the_same_size() {
        let sizes = Sizes::parse("lognormal:300:2").expect("well-formed");
        assert_eq!(sizes.of_key(5, 1), sizes.of_key(5, 1));
        assert!((0..100).any(|key| sizes.of_key(key, 1) != sizes.of_key(key, 2)));
    }

    #[test]
    fn malformed_distributions_are_refused() {
        for text in [
            "",
            "fixed",
            "fixed:0",
            "fixed:x",
            "fixed:1:2",
            "uniform:5",
            "uniform:5:4",
            "normal:1:1",
            "lognormal:0:1",
            "lognormal:5:-1",
            "pareto:5:0",
            "fixed:1e3",
            "fixed:nan",
            "fixed:9999999999",
        ] {
            assert!(Sizes::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_table_has_the_mean_sizes_of_a_cluster() {
        let table = "cluster,category,key_bytes,value_bytes\na,1,20,300\nb,1,x,300\n";
        let sizes = Sizes::from_table(table, "a").expect("it is there");
        assert_eq!(sizes.of_key(1, 1), (20, 300));
        assert!(Sizes::from_table(table, "b").is_err());
        assert!(Sizes::from_table(table, "c").is_err());
        assert!(Sizes::from_table("cluster\na\n", "a").is_err());
    }
}

//! Survey of a file's keys: their sizes, TTLs and prefixes, and the largest keys.
//!
//! Memory use is bounded: prefixes beyond a maximum number are counted together, and only the
//! largest keys are kept.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use units::show::bytes;
use wire::dump::ValueType;

/// Number of largest keys that are kept.
const LARGEST_MAX: usize = 20;
/// Maximum length in bytes of a stored key or prefix. Longer ones are truncated.
const NAME_BYTES_MAX: usize = 256;
/// Maximum number of prefixes that are counted by name.
const PREFIXES_MAX: usize = 4096;
/// Byte that ends a prefix.
const DELIMITER: u8 = b':';
/// Number of size ranges. Each is four times as wide as the previous one; the last is unbounded.
const SIZES: usize = 14;
/// Upper bound of the first size range in bytes.
const FIRST_SIZE: u64 = 16;

/// Upper bounds of the TTL ranges in milliseconds, with their names.
const TTLS: [(u64, &str); 8] = [
    (1_000, "up to a second"),
    (60_000, "up to a minute"),
    (3_600_000, "up to an hour"),
    (86_400_000, "up to a day"),
    (7 * 86_400_000, "up to a week"),
    (30 * 86_400_000, "up to 30 days"),
    (365 * 86_400_000, "up to a year"),
    (u64::MAX, "longer"),
];

/// Number of keys and their total size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Number of keys.
    pub keys: u64,
    /// Bytes of keys and values, without the overhead of the format or of a server.
    pub bytes: u64,
}

impl Share {
    fn add(&mut self, bytes: u64) {
        self.keys += 1;
        self.bytes += bytes;
    }
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Large {
    /// Bytes of the key and the value.
    pub bytes: u64,
    /// Number of elements; 1 for a string.
    pub elements: u64,
    /// Number of the database.
    pub database: u64,
    /// The key, truncated to 256 bytes.
    pub key: Vec<u8>,
    /// Name of the type.
    pub kind: &'static str,
    /// Remaining time in milliseconds; `None` without a deadline.
    pub ttl_ms: Option<u64>,
}

/// Distributions of the keys of a file.
#[derive(Debug, Default)]
pub struct Survey {
    ttls: [Share; TTLS.len()],
    without_ttl: Share,
    expired: Share,
    sizes: [Share; SIZES],
    prefixes: BTreeMap<Vec<u8>, Share>,
    without_prefix: Share,
    other_prefixes: Share,
    largest: BinaryHeap<Reverse<Large>>,
}

impl Survey {
    /// Adds a key. `deadline` contains the remaining time, or `Some(None)` if the key has expired.
    pub(super) fn add(&mut self, one: Large, deadline: Option<Option<u64>>) {
        let ttl = match deadline {
            None => &mut self.without_ttl,
            Some(None) => &mut self.expired,
            Some(Some(ttl_ms)) => {
                let place = TTLS.iter().position(|(bound, _)| ttl_ms <= *bound);
                &mut self.ttls[place.expect("the last bound is the largest")]
            }
        };
        ttl.add(one.bytes);
        self.sizes[size_index(one.bytes)].add(one.bytes);
        self.prefix(&one.key).add(one.bytes);
        if self.largest.len() < LARGEST_MAX {
            self.largest.push(Reverse(one));
        } else if let Some(mut least) = self.largest.peek_mut()
            && least.0 < one
        {
            *least = Reverse(one);
        }
    }

    fn prefix(&mut self, key: &[u8]) -> &mut Share {
        let Some(end) = key.iter().position(|byte| *byte == DELIMITER) else {
            return &mut self.without_prefix;
        };
        let name = &key[..=end];
        if self.prefixes.len() >= PREFIXES_MAX && !self.prefixes.contains_key(name) {
            return &mut self.other_prefixes;
        }
        self.prefixes.entry(name.to_vec()).or_default()
    }

    /// Returns the number and sizes of keys by TTL, without empty ranges.
    pub fn ttls(&self) -> Vec<(&'static str, Share)> {
        let ranges = TTLS.iter().map(|range| range.1).zip(self.ttls);
        let others = [("none", self.without_ttl), ("expired", self.expired)];
        ranges
            .chain(others)
            .filter(|(_, share)| share.keys > 0)
            .collect()
    }

    /// Returns the number and sizes of keys by size, without the empty ranges at both ends.
    pub fn sizes(&self) -> Vec<(String, Share)> {
        let is_used = |share: &Share| share.keys > 0;
        let first = self.sizes.iter().position(is_used).unwrap_or(0);
        let end = self.sizes.iter().rposition(is_used).map_or(0, |at| at + 1);
        let name = |index: usize| match index + 1 == SIZES {
            true => "larger".to_owned(),
            false => format!("up to {}", bytes(size_bound(index) as f64)),
        };
        (first..end.max(first))
            .map(|index| (name(index), self.sizes[index]))
            .collect()
    }

    /// Returns the number and total size of keys by prefix, the largest first. A prefix ends at a
    /// key's first colon.
    pub fn prefixes(&self) -> Vec<(String, Share)> {
        let named = self.prefixes.iter();
        let named = named.map(|(name, share)| (shown(name), *share));
        let others = [
            ("(without a colon)".to_owned(), self.without_prefix),
            ("(further prefixes)".to_owned(), self.other_prefixes),
        ];
        let others = others.into_iter().filter(|(_, share)| share.keys > 0);
        let mut all: Vec<_> = named.chain(others).collect();
        all.sort_by(|a, b| b.1.bytes.cmp(&a.1.bytes).then_with(|| a.0.cmp(&b.0)));
        all
    }

    /// Returns the largest keys, the largest first.
    pub fn largest(&self) -> Vec<Large> {
        let mut all: Vec<Large> = self.largest.iter().map(|one| one.0.clone()).collect();
        all.sort_by(|a, b| b.cmp(a));
        all
    }
}

/// Returns the part of a key that is kept.
pub(super) fn kept(key: &[u8]) -> Vec<u8> {
    key[..key.len().min(NAME_BYTES_MAX)].to_vec()
}

/// Returns a key as a single line of text.
pub fn shown(key: &[u8]) -> String {
    String::from_utf8_lossy(key).escape_debug().to_string()
}

/// Returns the name of a type, even if its values cannot be read.
pub(super) fn kind_name(kind: Option<ValueType>) -> &'static str {
    kind.map_or("module", ValueType::name)
}

fn size_bound(index: usize) -> u64 {
    FIRST_SIZE << (2 * index)
}

fn size_index(bytes: u64) -> usize {
    (0..SIZES - 1)
        .find(|index| bytes <= size_bound(*index))
        .unwrap_or(SIZES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, bytes: u64) -> Large {
        Large {
            bytes,
            elements: 1,
            database: 0,
            key: kept(name.as_bytes()),
            kind: "string",
            ttl_ms: None,
        }
    }

    #[test]
    fn keys_are_counted_by_ttl_size_and_prefix() {
        let mut survey = Survey::default();
        survey.add(key("user:1", 10), None);
        survey.add(key("user:2", 100), Some(Some(1_000)));
        survey.add(key("plain", 1 << 40), Some(None));
        let share = |keys, bytes| Share { keys, bytes };
        let expected = [("up to a second", 100), ("none", 10), ("expired", 1 << 40)];
        assert_eq!(
            survey.ttls(),
            expected.map(|(name, bytes)| (name, share(1, bytes)))
        );
        let sizes = survey.sizes();
        assert_eq!((sizes.len(), sizes[0].1), (SIZES, share(1, 10)));
        assert_eq!(sizes[SIZES - 1], ("larger".to_owned(), share(1, 1 << 40)));
        let prefixes = survey.prefixes();
        assert_eq!(
            prefixes[0],
            ("(without a colon)".to_owned(), share(1, 1 << 40))
        );
        assert_eq!(prefixes[1], ("user:".to_owned(), share(2, 110)));
    }

    #[test]
    fn the_memory_of_a_survey_is_bounded() {
        let mut survey = Survey::default();
        for number in 0..2 * PREFIXES_MAX as u64 {
            let bytes = number * 7919 % 10_007;
            survey.add(key(&format!("p{number}:{}", "x".repeat(1000)), bytes), None);
        }
        assert_eq!(survey.prefixes.len(), PREFIXES_MAX);
        assert_eq!(survey.other_prefixes.keys, PREFIXES_MAX as u64);
        let largest = survey.largest();
        assert_eq!(largest.len(), LARGEST_MAX);
        assert!(largest.iter().all(|one| one.key.len() == NAME_BYTES_MAX));
        assert!(largest.is_sorted_by(|a, b| a.bytes >= b.bytes));
        assert!(largest[0].bytes > 9_900);
    }
}

//! Counters of memcached requests by prefix of their keys, for `stats detail`.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Maximum number of prefixes that are counted. Requests with further prefixes are not counted.
const PREFIXES_MAX: usize = 1024;
/// Byte that ends a prefix.
const DELIMITER: u8 = b':';

/// Kind of a counted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixEvent {
    /// A read, which found a key or did not.
    Get(bool),
    /// A storage command.
    Set,
    /// A request to delete a key, which existed or did not.
    Delete,
}

/// Counters of one prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefixCounts {
    /// Number of reads.
    pub gets: u64,
    /// Number of reads that found a key.
    pub hits: u64,
    /// Number of storage commands.
    pub sets: u64,
    /// Number of requests to delete a key.
    pub deletes: u64,
}

/// Counters by prefix. They are off by default, because every request takes a lock while they are
/// on.
#[derive(Debug, Default)]
pub struct Prefixes {
    is_on: AtomicBool,
    counts: Mutex<BTreeMap<Vec<u8>, PrefixCounts>>,
}

impl Prefixes {
    /// Turns counting on or off. The counts stay.
    pub fn set_on(&self, is_on: bool) {
        self.is_on.store(is_on, Relaxed);
    }

    /// Whether requests are counted.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// Counts a request if counting is on and its key has a prefix.
    #[inline]
    pub fn count(&self, key: &[u8], event: PrefixEvent) {
        if self.is_on() {
            self.record(key, event);
        }
    }

    #[cold]
    fn record(&self, key: &[u8], event: PrefixEvent) {
        let Some(end) = key.iter().position(|&byte| byte == DELIMITER) else {
            return;
        };
        let mut all = self.counts.lock().expect("the lock is not poisoned");
        if !all.contains_key(&key[..end]) && all.len() >= PREFIXES_MAX {
            return;
        }
        let counts = all.entry(key[..end].to_vec()).or_default();
        match event {
            PrefixEvent::Get(is_there) => {
                counts.gets += 1;
                counts.hits += u64::from(is_there);
            }
            PrefixEvent::Set => counts.sets += 1,
            PrefixEvent::Delete => counts.deletes += 1,
        }
    }

    /// Returns all counts, ordered by prefix.
    pub fn all(&self) -> Vec<(Vec<u8>, PrefixCounts)> {
        let all = self.counts.lock().expect("the lock is not poisoned");
        all.iter()
            .map(|(prefix, counts)| (prefix.clone(), *counts))
            .collect()
    }

    /// Removes all counts.
    pub fn reset(&self) {
        self.counts
            .lock()
            .expect("the lock is not poisoned")
            .clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_prefixes_is_bounded() {
        let prefixes = Prefixes::default();
        prefixes.count(b"off:1", PrefixEvent::Set);
        prefixes.set_on(true);
        for number in 0..2 * PREFIXES_MAX {
            prefixes.count(
                format!("p{number}:x").as_bytes(),
                PrefixEvent::Get(number == 7),
            );
        }
        prefixes.count(b"p7:y", PrefixEvent::Set);
        prefixes.count(b"p7:y", PrefixEvent::Delete);
        prefixes.count(b"without", PrefixEvent::Set);
        let all = prefixes.all();
        assert_eq!(all.len(), PREFIXES_MAX);
        let wanted = PrefixCounts {
            gets: 1,
            hits: 1,
            sets: 1,
            deletes: 1,
        };
        assert!(all.contains(&(b"p7".to_vec(), wanted)));
        prefixes.reset();
        assert!(prefixes.all().is_empty());
    }
}

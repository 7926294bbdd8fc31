//! Lifetimes that depend on the entry.

use std::time::Duration;

/// Decides how long an entry stays, when it is inserted, replaced and read. Results are times from
/// now on; `None` means that the entry does not expire. The defaults keep what the builder or the
/// call said.
///
/// The methods are called without locks, before the change takes effect. They may use the cache.
///
/// ```
/// use mayfly::{Cache, Expiry};
/// use std::time::Duration;
///
/// struct BySize;
/// impl Expiry<String, Vec<u8>> for BySize {
/// fn after_insert(&self, _: &String, value: &Vec<u8>, _: Option<Duration>) -> Option<Duration> {
///         Some(if value.len() > 1_000 {
///             Duration::from_secs(60)
///         } else {
///             Duration::from_secs(3_600)
///         })
///     }
/// }
///
/// # fn main() -> Result<(), mayfly::BuildError> {
/// let cache = Cache::builder(10_000).expiry(BySize).build()?;
/// cache.insert("small".to_string(), vec![0; 10]);
/// assert!(cache.time_to_live("small") > Some(Duration::from_secs(3_500)));
/// # Ok(())
/// # }
/// ```
pub trait Expiry<K, V>: Send + Sync {
    /// Returns the time to live of a new entry. `ttl` is what the call or the builder says.
    fn after_insert(&self, _key: &K, _value: &V, ttl: Option<Duration>) -> Option<Duration> {
        ttl
    }

    /// Returns the time to live of an entry that replaces one with `remaining` time. `ttl` is what
    /// the call or the builder says.
    fn after_update(
        &self,
        _key: &K,
        _value: &V,
        ttl: Option<Duration>,
        _remaining: Option<Duration>,
    ) -> Option<Duration> {
        ttl
    }

    /// Whether [`Expiry::after_read`] does anything. Reads are faster if it does not.
    fn has_reads(&self) -> bool {
        false
    }

    /// Returns the time to live of an entry that was read with `remaining` time. A time that is not
    /// shorter than before costs no lock.
    fn after_read(&self, _key: &K, _value: &V, remaining: Option<Duration>) -> Option<Duration> {
        remaining
    }
}

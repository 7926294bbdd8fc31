//! Times to live that depend on the entry.

use std::time::Duration;

/// Hook that determines how long an entry stays, when the entry is inserted, replaced and read.
///
/// Each method returns a time that starts now; `None` means that the entry does not expire. The
/// default methods keep the time to live of the builder or the call.
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
    /// Returns the time to live of a new entry. `ttl` is the value from the call or the builder.
    fn after_insert(&self, _key: &K, _value: &V, ttl: Option<Duration>) -> Option<Duration> {
        ttl
    }

    /// Returns the time to live of an entry that replaces another one, which had `remaining` left.
    /// `ttl` is the value from the call or the builder.
    fn after_update(
        &self,
        _key: &K,
        _value: &V,
        ttl: Option<Duration>,
        _remaining: Option<Duration>,
    ) -> Option<Duration> {
        ttl
    }

    /// Returns true if [`Expiry::after_read`] must be called. Reads are faster otherwise.
    fn has_reads(&self) -> bool {
        false
    }

    /// Returns the new time to live of an entry that was just read and had `remaining` left. A time
    /// that is not shorter than before is stored without a lock.
    fn after_read(&self, _key: &K, _value: &V, remaining: Option<Duration>) -> Option<Duration> {
        remaining
    }
}

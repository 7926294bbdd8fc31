//! Saving and restoring a cache in any format of `serde`.

use crate::cache::Cache;
use crate::epoch::pin;
use serde::de::{Deserialize, Deserializer, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeSeq, Serializer};
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::time::Duration;

/// Serializable view of a cache, from [`Cache::saved`]: a sequence of (key, value, remaining TTL in
/// milliseconds, or none).
pub struct Saved<'a, K, V, S>(&'a Cache<K, V, S>);

impl<K, V, S> Cache<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    /// Returns a view of the entries for a serializer. Other threads may use the cache meanwhile.
    /// Memory of entries that leave any cache of the process is freed only after the serializer has
    /// finished.
    ///
    /// ```
    /// use mayfly::Cache;
    ///
    /// # fn main() -> Result<(), serde_json::Error> {
    /// let cache = Cache::new(100);
    /// cache.insert("key".to_string(), 7);
    /// let text = serde_json::to_string(&cache.saved())?;
    ///
    /// let other: Cache<String, i32> = Cache::new(100);
    /// other.load(&mut serde_json::Deserializer::from_str(&text))?;
    /// assert_eq!(other.get("key"), Some(7));
    /// # Ok(())
    /// # }
    /// ```
    pub fn saved(&self) -> Saved<'_, K, V, S> {
        Saved(self)
    }

    /// Inserts the entries of a saved cache, with their remaining times to live, and returns their
    /// number. See [`Cache::saved`] for an example.
    ///
    /// # Errors
    /// Returns the deserializer's error. Entries that were read before the error stay in the cache.
    pub fn load<'de, D>(&self, deserializer: D) -> Result<usize, D::Error>
    where
        D: Deserializer<'de>,
        K: Deserialize<'de>,
        V: Deserialize<'de>,
    {
        deserializer.deserialize_seq(Loader(self))
    }
}

impl<K, V, S> Serialize for Saved<'_, K, V, S>
where
    K: Serialize + Hash + Eq + Send + Sync + 'static,
    V: Serialize + Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    fn serialize<Out: Serializer>(&self, serializer: Out) -> Result<Out::Ok, Out::Error> {
        // Many formats need the number of entries first. While the thread is pinned, references to
        // entries that leave remain valid.
        let pinned = pin();
        let entries = self.0.live(&pinned);
        let mut sequence = serializer.serialize_seq(Some(entries.len()))?;
        for (key, value, remaining) in entries {
            let remaining = remaining.map(|ttl| ttl.as_millis() as u64);
            sequence.serialize_element(&(key, value, remaining))?;
        }
        sequence.end()
    }
}

struct Loader<'a, K, V, S>(&'a Cache<K, V, S>);

impl<'de, K, V, S> Visitor<'de> for Loader<'_, K, V, S>
where
    K: Deserialize<'de> + Hash + Eq + Send + Sync + 'static,
    V: Deserialize<'de> + Send + Sync + 'static,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence of (key, value, remaining milliseconds or none)")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<usize, A::Error> {
        let mut count = 0;
        while let Some((key, value, ms)) = entries.next_element::<(K, V, Option<u64>)>()? {
            self.0.restore(key, value, ms.map(Duration::from_millis));
            count += 1;
        }
        Ok(count)
    }
}

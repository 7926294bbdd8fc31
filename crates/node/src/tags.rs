//! Index of the responses in memory by tag, for purges by tag.
//!
//! Responses are registered before they enter the store, and leave the index when they are freed,
//! which is after their last reader has ended. A purge may therefore find URLs whose responses were
//! replaced, and compares their tags.
//!
//! # Bounds
//! A tag of a URL's responses takes about [`PAIR_BYTES`], and each URL with tags [`URL_BYTES`] and
//! its length. Both count within the weight of the responses, so that `--memory` bounds the index.
//! Responses without tags take nothing.

use crate::rules::key::Key;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// Estimated size of the tag of a URL in bytes: 24 in a B-tree whose nodes are two thirds full, and
/// 8 in the list of the URL's tags.
pub const PAIR_BYTES: usize = 48;
/// Estimated size of the record of a URL with tags in bytes, without the URL.
pub const URL_BYTES: usize = 112;

/// URLs by tag.
#[derive(Debug, Default)]
pub struct TagIndex(Mutex<Map>);

#[derive(Debug, Default)]
struct Map {
    /// URLs by tag and number of their registration.
    urls: BTreeMap<(u64, u64), Arc<Key>>,
    /// Number of registrations so far.
    count: u64,
}

/// Registration of a URL's responses, which ends when it is dropped.
#[derive(Debug)]
pub struct Tagged {
    index: Arc<TagIndex>,
    number: u64,
    tags: Box<[u64]>,
}

impl TagIndex {
    fn map(&self) -> MutexGuard<'_, Map> {
        self.0.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// Registers the tags of a URL's responses; `None` if there are none.
    pub fn register(
        self: &Arc<Self>,
        key: &Key,
        tags: impl Iterator<Item = u64>,
    ) -> Option<Arc<Tagged>> {
        let mut tags: Vec<u64> = tags.collect();
        if tags.is_empty() {
            return None;
        }
        tags.sort_unstable();
        tags.dedup();
        let key = Arc::new(key.clone());
        let mut map = self.map();
        map.count += 1;
        let number = map.count;
        for tag in &tags {
            map.urls.insert((*tag, number), key.clone());
        }
        Some(Arc::new(Tagged {
            index: self.clone(),
            number,
            tags: tags.into(),
        }))
    }

    /// Returns the URLs with a tag. A URL may occur more than once.
    pub fn urls(&self, tag: u64) -> Vec<Arc<Key>> {
        let map = self.map();
        let urls = map.urls.range((tag, 0)..=(tag, u64::MAX));
        urls.map(|(_, key)| key.clone()).collect()
    }

    /// Returns the number of pairs of a tag and a URL.
    pub fn len(&self) -> usize {
        self.map().urls.len()
    }
}

impl Drop for Tagged {
    fn drop(&mut self) {
        let mut map = self.index.map();
        for tag in &self.tags {
            map.urls.remove(&(*tag, self.number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn the_index_equals_a_list_of_registrations(
            steps in prop::collection::vec(
                (0_usize..8, prop::collection::vec(0_u64..5, 0..4)),
                0..60,
            ),
        ) {
            let index = Arc::<TagIndex>::default();
            let mut model: Vec<Option<(Arc<Tagged>, BTreeSet<u64>)>> = vec![None; 8];
            let key = |url: usize| Key::parse(&format!("http://a/{url}")).expect("a key");
            for (url, tags) in steps {
                // The newer responses are registered before the older ones leave.
                let tagged = index.register(&key(url), tags.iter().copied());
                prop_assert_eq!(tagged.is_some(), !tags.is_empty());
                model[url] = tagged.map(|tagged| (tagged, tags.into_iter().collect()));
                let pairs = model.iter().flatten().map(|(_, tags)| tags.len());
                prop_assert_eq!(index.len(), pairs.sum::<usize>());
                for tag in 0..5 {
                    let mut found = index.urls(tag);
                    found.sort_by_key(|key| key.to_string());
                    let has = |url: &usize| {
                        model[*url].as_ref().is_some_and(|(_, tags)| tags.contains(&tag))
                    };
                    let expected: Vec<_> = (0..8).filter(has).map(|url| Arc::new(key(url))).collect();
                    prop_assert_eq!(found, expected);
                }
            }
            drop(model);
            prop_assert_eq!(index.len(), 0);
        }
    }
}

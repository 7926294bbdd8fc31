//! Purges of the memory tier.

use super::Store;
use crate::disk::key_hash;
use crate::object::{Head, Object, Resource};
use crate::purge::Target;
use crate::rules::key::Key;
use std::collections::HashSet;
use std::sync::Arc;

impl Store {
    /// Purges the memory tier. Returns the hashes of the URLs concerned.
    pub(super) fn purge_memory(&self, target: &Target, is_soft: bool) -> HashSet<u64> {
        let mut concerned = HashSet::new();
        let mut concerns = |key: &Key, resource: &Arc<Resource>| {
            let mut variants = resource.variants.iter();
            let is_concerned = variants.any(|object| target.concerns(key, &object.head.tags));
            if is_concerned {
                concerned.insert(key_hash(key));
            }
            is_concerned
        };
        if let Target::Url(key) = target {
            let has_changed = match is_soft {
                true => self.soften(key, target),
                false => self.cache.remove(key),
            };
            concerned.extend(has_changed.then(|| key_hash(key)));
        } else if is_soft {
            let mut keys = vec![];
            self.cache.for_each(|key, resource| {
                if concerns(key, resource) {
                    keys.push(key.clone());
                }
            });
            keys.iter().for_each(|key| _ = self.soften(key, target));
        } else {
            self.cache.invalidate_if(concerns);
        }
        concerned
    }

    /// Ends the freshness of the responses under a URL that a purge concerns.
    fn soften(&self, key: &Key, target: &Target) -> bool {
        let now_ms = self.clock.now_ms();
        let mut has_changed = false;
        self.change(key, |resource| {
            has_changed = !resource.variants.is_empty();
            let soften = |object: &Object| {
                let mut object = object.clone();
                if target.concerns(key, &object.head.tags) {
                    let mut head = Head::clone(&object.head);
                    head.terms.end_freshness(now_ms);
                    object.head = Arc::new(head);
                }
                object
            };
            has_changed.then(|| Resource {
                variants: resource.variants.iter().map(soften).collect(),
                place: None,
            })
        });
        has_changed
    }
}

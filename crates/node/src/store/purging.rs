//! Purges of the memory tier.

use super::Store;
use crate::disk::key_hash;
use crate::object::{Head, Object, Resource};
use crate::purge::Target;
use crate::rules::key::Key;
use library::Op;
use std::collections::HashSet;
use std::sync::Arc;

impl Store {
    /// Purges the memory tier. Returns the hashes of the URLs concerned.
    pub(super) fn purge_memory(&self, target: &Target, is_soft: bool) -> HashSet<u64> {
        let mut concerned = HashSet::new();
        let mut concerns = |key: &Key, resource: &Arc<Resource>| {
            let is_concerned = is_concerned(target, key, resource);
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
        } else if let Target::Tag(tag) = target {
            for key in self.tags.urls(*tag) {
                let has_changed = match is_soft {
                    true => self.soften(&key, target),
                    false => self.remove_concerned(&key, target),
                };
                concerned.extend(has_changed.then(|| key_hash(&key)));
            }
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

    /// Removes the responses under a URL if a purge concerns one of them.
    fn remove_concerned(&self, key: &Key, target: &Target) -> bool {
        self.cache.compute(key.clone(), |present| match present {
            Some(resource) if is_concerned(target, key, resource) => Op::Remove,
            _ => Op::Keep,
        })
    }

    /// Ends the freshness of the responses under a URL that a purge concerns.
    fn soften(&self, key: &Key, target: &Target) -> bool {
        let now_ms = self.clock.now_ms();
        let mut has_changed = false;
        self.change(key, |resource| {
            has_changed = is_concerned(target, key, resource);
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
                tagged: None,
            })
        });
        has_changed
    }
}

/// Returns true if a purge concerns one of the responses under a URL.
fn is_concerned(target: &Target, key: &Key, resource: &Resource) -> bool {
    let mut variants = resource.variants.iter();
    variants.any(|object| target.concerns(key, &object.head.tags))
}

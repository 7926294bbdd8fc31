use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn a_key_is_invalidated_once_for_all_its_readers() {
    let mut tracked = Tracked::default();
    for reader in [1, 2, 1] {
        tracked.add(b"k", reader, 10, &|_| true);
    }
    tracked.invalidate(b"k", InvalidationCause::Command);
    tracked.invalidate(b"k", InvalidationCause::Command);
    tracked.invalidate(b"other", InvalidationCause::Command);
    let mut pending = Vec::new();
    tracked.take(&mut pending);
    assert_eq!(pending.len(), 1);
    assert_eq!(pending[0].readers, [1, 2]);
    assert!(!tracked.has_pending());
}

#[test]
fn broadcasting_reports_keys_without_readers() {
    let mut tracked = Tracked {
        is_broadcasting: true,
        ..Tracked::default()
    };
    tracked.invalidate(b"k", InvalidationCause::Server);
    let mut pending = Vec::new();
    tracked.take(&mut pending);
    assert_eq!(pending[0].key.as_deref(), Some(&b"k"[..]));
    assert!(pending[0].readers.is_empty());
}

#[test]
fn readers_that_are_gone_are_removed_when_the_list_grows() {
    let mut tracked = Tracked::default();
    for reader in 0..1000 {
        tracked.add(b"k", reader, 10, &|other| other + 4 > reader);
    }
    assert!(tracked.reader_count() < 2 * READERS_BEFORE_PRUNING);
}

#[test]
fn discarded_keys_are_freed_in_steps() {
    // Regression: a flush, and the end of the last client that caches keys, freed all at once.
    let mut tracked = Tracked::default();
    for number in 0..1_000u32 {
        tracked.add(&number.to_le_bytes(), 1, 1_000, &|_| true);
    }
    let mut discarded = tracked.clear(false);
    assert_eq!(tracked.key_count(), 0);
    tracked.check();
    for step in 1..10 {
        assert!(discarded.free(100));
        assert_eq!(discarded.index.len(), 1_000 - step * 100);
    }
    assert!(!discarded.free(100));
    assert!(discarded.index.is_empty());
}

proptest! {
    /// The table agrees with a map of sets; a key beyond the maximum invalidates another one.
    #[test]
    fn the_table_matches_a_map_of_sets(
        steps in prop::collection::vec((0u8..24, 0u64..4, 0u8..3), 1..200),
        keys_max in 1usize..12,
    ) {
        let mut tracked = Tracked::default();
        let mut model: BTreeMap<Vec<u8>, BTreeSet<u64>> = BTreeMap::new();
        for (key, reader, action) in steps {
            let key = vec![b'k', key];
            match action {
                0 => {
                    tracked.invalidate(&key, InvalidationCause::Command);
                }
                _ => {
                    tracked.add(&key, reader, keys_max, &|_| true);
                    model.entry(key).or_default().insert(reader);
                }
            }
            let mut pending = Vec::new();
            tracked.take(&mut pending);
            for invalidation in pending {
                let readers: BTreeSet<u64> = invalidation.readers.into_iter().collect();
                let key = invalidation.key.expect("nothing was flushed");
                prop_assert_eq!(model.remove(&*key), Some(readers));
            }
            tracked.check();
            prop_assert_eq!(tracked.key_count(), model.len());
            prop_assert!(tracked.key_count() <= keys_max);
            let readers: usize = model.values().map(BTreeSet::len).sum();
            prop_assert_eq!(tracked.reader_count(), readers);
        }
    }
}

//! Histograms of the sizes of values, by type (INFO keysizes).
//!
//! The sizes are not counted with each write. A histogram is taken from the first entries of each
//! shard in the order of their keyed hashes, which is a uniform sample, and scaled to the number of
//! keys. It is exact while a shard has no more keys than the sample.

use crate::facts::Kind;
use crate::object::{Object, kind_of};
use crate::shard::is_dead;
use crate::shared::{Db, Shared};
use cache::{TablePosition, Value};
use policy::{Facts, Slot, Tick};

/// Number of sizes that a histogram distinguishes.
pub const SIZE_BINS: usize = 64;
/// Number of keys of one shard and database that are examined.
pub(crate) const SAMPLE: usize = 512;

/// Types of values with their numbers of keys by size: bytes of a string, elements of others. Bin 0
/// counts sizes of 0, bin `i` those in [2^(i−1), 2^i).
pub type SizeHistograms = [(Kind, [u64; SIZE_BINS]); 5];

const KINDS: [Kind; 5] = [
    Kind::String,
    Kind::List,
    Kind::Set,
    Kind::SortedSet,
    Kind::Hash,
];

/// Estimated numbers of keys by type and size.
#[derive(Clone, Debug)]
pub(crate) struct SizeSums([[f64; SIZE_BINS]; KINDS.len()]);

impl Default for SizeSums {
    fn default() -> Self {
        SizeSums([[0.0; SIZE_BINS]; KINDS.len()])
    }
}

impl SizeSums {
    /// Adds the keys of one shard and database. Examines about `sample` of them.
    pub fn add(&mut self, data: &Db, shared: &Shared, now: Tick, sample: usize) {
        add_sample(data, shared, now, sample, &mut self.0);
    }

    pub fn rounded(&self) -> SizeHistograms {
        let mut kinds = KINDS.iter();
        self.0.map(|counts| {
            let kind = kinds.next().expect("there is one per histogram");
            (*kind, counts.map(|count| count.round() as u64))
        })
    }
}

/// Adds the keys of one shard, scaled to their number.
fn add_sample(
    data: &Db,
    shared: &Shared,
    now: Tick,
    sample: usize,
    sums: &mut [[f64; SIZE_BINS]; KINDS.len()],
) {
    let mut found: Vec<(usize, usize)> = Vec::with_capacity(sample);
    let mut at = Some(TablePosition::default());
    while let Some(from) = at.filter(|_| found.len() < sample) {
        let left = sample - found.len();
        at = data.entries.scan(from, left, |slot| {
            if !is_dead(data, slot, now) {
                found.extend(sized(data, shared, slot, now));
            }
        });
    }
    // The scan may end within a chain of keys with similar hashes, so that the sample may be a
    // little larger than requested.
    let keys = if at.is_none() {
        found.len()
    } else {
        data.entries.len()
    };
    let each = keys as f64 / found.len().max(1) as f64;
    for (kind, bin) in found {
        sums[kind][bin] += each;
    }
}

/// Returns the index of a value's type and the bin of its size; `None` for streams.
fn sized(data: &Db, shared: &Shared, slot: Slot, now: Tick) -> Option<(usize, usize)> {
    let value = data.value(slot);
    let kind = KINDS.iter().position(|kind| *kind == kind_of(&value))?;
    let scene = shared.scene(now);
    let size = |object: &Object| match object {
        Object::String(bytes) | Object::Item(bytes) => bytes.len(),
        other => other.len(&scene),
    };
    let size = match value {
        Value::Outside(object) => size(object),
        Value::Inline(_, bytes) if kind == 0 => bytes.len(),
        Value::Inline(tag, bytes) => size(&Object::unpack(tag, bytes.to_vec())),
    };
    Some((kind, (u64::BITS - (size as u64).leading_zeros()) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{End, Keyspace, NewDeadline, Options};

    fn bins(histograms: &SizeHistograms, kind: Kind) -> Vec<(usize, u64)> {
        let found = histograms.iter().find(|one| one.0 == kind);
        let counts = found.expect("the type has a histogram").1;
        let bins = counts.into_iter().enumerate();
        bins.filter(|(_, count)| *count > 0).collect()
    }

    fn keyspace() -> Keyspace {
        let options = Options {
            shards: 16,
            policy: "noeviction".into(),
            expiry: "wheel".into(),
            maxmemory: 0,
            hash_key: [1, 2],
            seed: 3,
        };
        Keyspace::new(&options, Tick(1)).expect("valid options")
    }

    #[test]
    fn few_keys_are_counted_exactly() {
        let space = keyspace();
        let mut view = space.lock_all(Tick(1));
        for len in [0, 1, 2, 3, 4, 5000] {
            let name = format!("s{len}");
            view.set(
                &space.key(0, name.as_bytes()),
                &vec![b'x'; len],
                NewDeadline::Clear,
            );
        }
        for len in [1u8, 3, 200] {
            let name = format!("l{len}");
            let key = space.key(0, name.as_bytes());
            let edited = view.edit_list(&key, true, |list, scene| {
                (0..len).for_each(|n| list.push(End::Right, &[n], scene));
                Some(())
            });
            assert!(edited.is_ok());
        }
        drop(view);
        let found = space.size_histograms(0, Tick(1));
        assert_eq!(
            bins(&found, Kind::String),
            [(0, 1), (1, 1), (2, 2), (3, 1), (13, 1)]
        );
        assert_eq!(bins(&found, Kind::List), [(1, 1), (2, 1), (8, 1)]);
        assert_eq!(bins(&found, Kind::Hash), []);
        assert_eq!(bins(&space.size_histograms(1, Tick(1)), Kind::String), []);
    }

    #[test]
    fn many_keys_are_estimated() {
        const KEYS: u64 = 100_000;
        let space = keyspace();
        let mut view = space.lock_all(Tick(1));
        for number in 0..KEYS {
            let len = if number % 4 == 0 { 100 } else { 10 };
            let key = format!("key{number}");
            view.set(
                &space.key(0, key.as_bytes()),
                &vec![b'x'; len],
                NewDeadline::Clear,
            );
        }
        drop(view);
        let found = bins(&space.size_histograms(0, Tick(1)), Kind::String);
        let [(4, short), (7, long)] = found[..] else {
            panic!("there are two sizes: {found:?}");
        };
        assert!(short.abs_diff(KEYS * 3 / 4) < KEYS / 40, "{found:?}");
        assert!(long.abs_diff(KEYS / 4) < KEYS / 40, "{found:?}");
    }
}

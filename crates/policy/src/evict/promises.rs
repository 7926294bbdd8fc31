//! Figures that the cards state.

use super::fifo::Fifo;
use super::s3fifo::S3Fifo;
use super::s3fifo_w::S3FifoW;
use crate::parts::chance::Chance;
use crate::suite::policy::Trial;
use crate::{Facts, Policy};

/// Bytes per entry of a policy with full ghosts, including its bits in the header.
fn bytes_per_entry<P: Policy<Meta = u8>>(entries: u64) -> f64 {
    let weight = 60;
    let mut trial = Trial::<P>::new(entries * u64::from(weight), &Default::default(), 1);
    let mut chance = Chance::new(2);
    for request in 0..4 * entries {
        // A fifth of the requests are for keys that are remembered or cached.
        let back = chance.below(entries).min(request);
        let key = if chance.below(5) == 0 {
            request - back
        } else {
            request
        };
        trial.request(key, weight, 100);
    }
    trial.policy.check(&trial.host);
    let header_bits = <u8 as crate::Meta>::BITS;
    trial.policy.heap_bytes() as f64 / trial.host.len() as f64 + f64::from(header_bits) / 8.0
}

#[test]
fn s3fifo_costs_ten_bytes_an_entry_and_little_more_in_small_shards() {
    for (entries, most) in [(2_000, 13.0), (5_000, 11.5), (20_000, 10.0), (50_000, 9.6)] {
        let bytes = bytes_per_entry::<S3Fifo>(entries);
        assert!(
            bytes <= most,
            "{bytes} bytes an entry with {entries} entries"
        );
    }
}

#[test]
fn s3fifo_w_costs_half_a_byte_more_than_s3fifo_in_large_shards() {
    for (entries, most) in [(2_000, 16.0), (5_000, 12.5), (20_000, 10.5), (50_000, 10.0)] {
        let bytes = bytes_per_entry::<S3FifoW>(entries);
        assert!(
            bytes <= most,
            "{bytes} bytes an entry with {entries} entries"
        );
    }
}

#[test]
fn a_small_shard_has_small_queues() {
    let mut trial = Trial::<S3Fifo>::new(1000, &Default::default(), 1);
    (0..10).for_each(|key| trial.request(key, 50, 1));
    let bytes = trial.policy.heap_bytes();
    assert!(bytes <= 800, "{bytes} bytes for ten entries");
}

/// Slots are vacated and reused all the time. The order of eviction may differ from that of
/// insertion by at most one epoch, a 24th of the queue's weight (and one entry).
#[test]
fn fifo_is_out_of_order_by_at_most_one_epoch() {
    for capacity in [10, 24, 100, 1_000, 24_000] {
        let mut trial = Trial::<Fifo>::new(capacity, &(), 1);
        let mut chance = Chance::new(3);
        let (mut checked, mut most) = (0, 0);
        for key in 0..200_000u64 {
            trial.request(key, 1, 100);
            if chance.below(3) == 0 {
                trial.remove(key - chance.below(capacity).min(key));
            }
            if chance.below(10) == 0 {
                trial.relocate(key - chance.below(capacity).min(key));
            }
            for victim in trial.victims.drain(..) {
                most = most.max(trial.table.range(..victim).count() as u64);
                checked += 1;
            }
        }
        let epochs = 2 * (capacity / 24 + 1);
        assert!(
            most <= epochs,
            "{most} older entries stay when one goes, of {capacity}"
        );
        assert!(checked > 50_000);
    }
}

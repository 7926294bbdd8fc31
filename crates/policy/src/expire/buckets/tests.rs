use super::*;
use crate::suite::host::Host;

fn config(num_buckets: u32, base: u64) -> BucketsConfig {
    BucketsConfig {
        num_buckets,
        base,
        ..BucketsConfig::default()
    }
}

crate::index_suite!(
    Buckets,
    BucketsConfig::default(),
    config(7, 64),
    config(1, 1)
);

/// The example of section 3.3: the host, the index, and the names of the keys.
struct Illustration {
    host: Host<u64>,
    index: Buckets,
}

impl Illustration {
    fn set_expire(&mut self, key: Option<Slot>, deadline: u64) -> Slot {
        let deadline = Tick(deadline);
        let Some(slot) = key else {
            let slot = self.host.add(0, 1, Some(deadline));
            self.host.hold(slot);
            self.index.insert(&mut self.host, slot);
            return slot;
        };
        let old = self.host.set_deadline(slot, Some(deadline));
        self.index
            .update(&mut self.host, slot, old.expect("it had one"));
        slot
    }

    /// Runs one activeExpiration and returns the entries that it evicts.
    fn active_expiration(&mut self, seconds: u64) -> Vec<Slot> {
        let now = Tick(seconds * 1_000);
        self.host.set_now(now);
        let mut evicted = vec![];
        while let Due::Slot(slot) = self
            .index
            .pop_expired(&mut self.host, now, &mut Budget(100))
        {
            self.host.free(slot);
            evicted.push(slot);
        }
        self.check();
        evicted
    }

    fn bucket(&self, id: usize) -> Vec<Slot> {
        let bucket = &self.index.ring.buckets[id];
        let mut slots: Vec<Slot> = (0..bucket.len()).map(|place| bucket.get(place)).collect();
        slots.sort_unstable();
        slots
    }

    fn check(&self) {
        self.index.check(&self.host);
    }
}

#[test]
fn the_illustration_of_section_3_3() {
    let mut host = Host::new(Tick(0));
    let mut config = config(3, 1_000);
    config.cycles.hz = 1;
    let mut index = Buckets::new(Tick(0), &config, 1);
    // The time limit is exceeded after the second key.
    index.rounds.limit_ns = 2 * EXPIRE_NS - 1;
    host.set_now(Tick(0));
    let mut it = Illustration { host, index };
    // 00:00
    let a = it.set_expire(None, 1_023);
    let b = it.set_expire(None, 2_100);
    let c = it.set_expire(None, 2_020);
    assert_eq!((it.bucket(1), it.bucket(2)), (vec![a], vec![b, c]));
    assert_eq!(it.index.ring.times[1..], [1, 2]);
    assert_eq!(it.index.expires.len(), 3);
    // 00:01: a is overwritten, d set, the expiration of c removed.
    assert_eq!(it.active_expiration(1), []);
    it.set_expire(Some(a), 2_023);
    assert_eq!(it.bucket(1), [], "a has left bucket 1, which is free again");
    let d = it.set_expire(None, 2_450);
    it.index.remove(&mut it.host, c);
    it.host.release(c);
    it.host.set_deadline(c, None);
    assert_eq!(it.bucket(2), [a, b, d]);
    // 00:02: bucket 2 is in use for time 2, so e is stored only in `expires`.
    assert_eq!(it.active_expiration(2), []);
    let e = it.set_expire(None, 5_015);
    assert_eq!(it.bucket(2), [a, b, d]);
    assert_eq!(it.index.expires.len(), 4);
    assert_eq!(place_of(&it.host, e), None);
    // 00:03: there is time for two of the three entries in bucket 2; current_bucket_id stays
    // there.
    let mut evicted = it.active_expiration(3);
    assert_eq!(evicted.len(), 2);
    assert_eq!(it.index.ring.current_bucket_id, 2);
    assert_eq!(it.index.next_due(), Some(Tick(4_000)), "its time is over");
    // 00:04: the last entry of bucket 2 expires.
    evicted.extend(it.active_expiration(4));
    evicted.sort_unstable();
    assert_eq!(evicted, [a, b, d]);
    assert_eq!(it.index.expires.len(), 1);
    assert_eq!(it.index.ring.len, 0);
    // Only the second part will find e.
    assert_eq!(it.active_expiration(5), []);
    assert_eq!(it.active_expiration(6), [e]);
}

#[test]
fn a_full_bucket_takes_several_rounds_and_the_second_part_gets_the_remaining_time() {
    let start = Tick(1_000_000);
    let mut host = Host::new(start);
    let mut index = Buckets::new(start, &config(120, 1_000), 1);
    let mut add = |index: &mut Buckets, deadline| {
        let slot = host.add(0, 1, Some(Tick(deadline)));
        host.hold(slot);
        index.insert(&mut host, slot);
    };
    // All entries are in one bucket. As many more find that their bucket is in use, so that
    // only sampling finds them.
    (0..40_000).for_each(|_| add(&mut index, start.0 + 500));
    (0..40_000).for_each(|_| add(&mut index, start.0 + 120_000));
    assert_eq!(index.ring.len, 40_000);
    let mut found = vec![];
    for now in (1..=4).map(|tenth| Tick(start.0 + 200_000 + 100 * tenth)) {
        host.set_now(now);
        let (mut in_ring, before) = (index.ring.len, index.len());
        while let Due::Slot(slot) = index.pop_expired(&mut host, now, &mut Budget(10)) {
            host.free(slot);
        }
        while index.next_due() == Some(Tick(0)) {
            if let Due::Slot(slot) = index.pop_expired(&mut host, now, &mut Budget(u32::MAX)) {
                host.free(slot);
            }
        }
        in_ring -= index.ring.len;
        found.push((in_ring, before - index.len() - in_ring));
        index.check(&host);
    }
    // 25 ms at 1 µs each. The second part also takes time to read entries, and reads the clock
    // in every 16th loop.
    assert_eq!(found[0], (25_001, 0));
    assert_eq!(found[1].0, 14_999);
    assert!((8_500..9_100).contains(&found[1].1), "{found:?}");
    assert!((21_000..22_500).contains(&found[2].1), "{found:?}");
}

#[test]
fn a_timestamp_leads_to_its_bucket() {
    // The example of section 3.2, whose quotient is the time 1590500917.
    let ring = Ring::new(60, 1_000);
    assert_eq!(
        ring.timestamp_to_bucket_id(Tick(1_590_500_917_012)),
        1_590_500_917 % 60
    );
}

#[test]
fn shards_take_turns_only_at_the_second_part() {
    let start = Tick(1_000_000);
    let mut host = Host::new(start);
    let mut config = config(120, 1_000);
    config.cycles.shards = 8;
    let mut index = Buckets::new(start, &config, 1);
    for number in 0..101 {
        let ttl = if number == 100 { 60_000 } else { 100 };
        let slot = host.add(number, 1, Some(Tick(start.0 + ttl)));
        host.hold(slot);
        index.insert(&mut host, slot);
    }
    // The bucket's second ends at 1,001,000. A round begins every 800 ms.
    let now = Tick(start.0 + 1_100);
    host.set_now(now);
    assert!(index.next_due().is_some_and(|due| due <= now));
    let mut found = 0;
    while let Due::Slot(slot) = index.pop_expired(&mut host, now, &mut Budget(1_000)) {
        host.free(slot);
        found += 1;
    }
    assert_eq!(found, 100);
    assert_eq!(index.rounds.next, Tick(start.0 + 1_200));
    assert_eq!(index.rounds.limit_ns, 25_000_000 / 8);
}

#[test]
fn with_a_ring_of_twice_the_ttl_every_entry_finds_its_bucket() {
    let mut host = Host::new(Tick(1_000_000));
    let mut index = Buckets::new(Tick(1_000_000), &config(120, 1_000), 1);
    let mut lag_ms_max = 0;
    for tick in 1_000_000..1_200_000 {
        host.set_now(Tick(tick));
        let slot = host.add(0, 1, Some(Tick(tick + 60_000)));
        host.hold(slot);
        index.insert(&mut host, slot);
        assert!(place_of(&host, slot).is_some());
        while index.next_due().is_some_and(|due| due.0 <= tick) {
            if let Due::Slot(slot) = index.pop_expired(&mut host, Tick(tick), &mut Budget(50)) {
                let deadline = host.deadline(slot).expect("it is still live");
                lag_ms_max = lag_ms_max.max(tick - deadline.0);
                host.free(slot);
            }
        }
    }
    // The lag is the rest of a second, and up to a tenth of a second until the next round.
    assert!((1_000..=1_100).contains(&lag_ms_max), "{lag_ms_max} ms");
    assert!((60_000..=61_200).contains(&index.len()), "{}", index.len());
}

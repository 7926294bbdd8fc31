//! `buckets-auto`: Bucket-Based Expiration whose ring follows the TTLs in use.
//!
//! # Idea
//! [`buckets`](super::buckets) with a choice of `NUM_BUCKETS` and `BASE`. Their product is two to
//! four times the TTL that 99 % of the recent ones do not exceed, because the authors found twice
//! the TTL to be enough and once to be too little. There is one bucket per 64 entries, so that
//! buckets are as fine as half a byte per entry allows. When the choice changes, a new ring takes
//! new entries, and the old one is carried over a few entries per call; dead entries in it are
//! returned on the way.
//!
//! # Source
//! The same as `buckets`, whose section 5 names the dynamic configuration of buckets as future
//! work. The rule is ours.
//!
//! # State
//! Per entry: 16 bytes as in `buckets`, and half a byte for buckets. Besides: 49 counters of 4
//! bytes, 64 buckets of 32 bytes, and while one is carried over two rings.
//!
//! # Cost
//! The same as in `buckets`. TTLs are counted by powers of two; the counters are read after every
//! 1,024 of them, and with each round. A change costs a step per entry.
//!
//! # Knobs
//! `hz` (10; 1 to 500) and `shards` (1; 1 to 4096): as for `sampled`, for both parts.
//!
//! # Departures
//! From `buckets`: the two numbers are powers of two, and change; and an entry that dies more than
//! a turn of the ring ahead gets no bucket, because it would block that bucket for several entries
//! that die sooner.
//!
//! # Avoid when
//! TTLs differ by orders of magnitude: a ring wide enough for the long ones has buckets too coarse
//! for the short ones. A wheel of several levels is the answer to that.

use super::buckets::{InExpires, InExpiresView, Ring, Rounds, high_half, set_high_half};
use super::sampled::{CyclesConfig, Sampled};
use crate::{Budget, Cells, Due, ExpiryIndex, Slot, Tick};
use alloc::boxed::Box;

const NUM_BUCKETS_MIN: usize = 64;
const NUM_BUCKETS_MAX: usize = 1 << 12;
/// Mean number of entries per bucket that the ring's size aims at.
const ENTRIES_PER_BUCKET: usize = 64;
/// Initial size of the ring in milliseconds, `NUM_BUCKETS` × `BASE`: about two minutes.
const SIZE_START: u64 = 1 << 17;
const SIZE_MAX: u64 = 1 << 48;
/// Number of recorded TTLs after which the counters are read and then halved.
const SEEN_EVERY: u32 = 1_024;
/// The ring must cover all TTLs except one in this number.
const UNCOVERED: u32 = 100;
/// Divisor of the number of entries that gives the minimum number of new deadlines between two
/// changes of the ring. Otherwise, if about one TTL in a hundred is long, the ring would change at
/// every reading.
const SETS_PER_CHANGE: usize = 4;
/// Bit of an entry's place that selects one of the two rings.
const RING_BIT: u32 = 1 << 31;

/// Counts of TTLs by powers of two.
struct Seen {
    /// At `i`, the number of TTLs below 2^i and not below 2^(i − 1).
    counts: [u32; 49],
    since: u32,
}

impl Seen {
    /// Counts a TTL. Returns whether the counters are due to be read.
    fn note(&mut self, ttl: u64) -> bool {
        let class = (u64::BITS - ttl.leading_zeros()).min(48);
        self.counts[class as usize] += 1;
        self.since += 1;
        self.since >= SEEN_EVERY
    }

    fn forget_half(&mut self) {
        self.since = 0;
        self.counts = self.counts.map(|count| count / 2);
    }

    /// Returns twice the smallest power of two that 99 % of the TTLs do not exceed; `None` while
    /// too few TTLs were counted.
    fn size(&self) -> Option<u64> {
        let sum: u32 = self.counts.iter().sum();
        if sum < SEEN_EVERY / 4 {
            return None;
        }
        let mut above = 0;
        let mut class = 48;
        while class > 0 && (above + self.counts[class]) * UNCOVERED <= sum {
            above += self.counts[class];
            class -= 1;
        }
        Some((2 << class).min(SIZE_MAX))
    }
}

/// Buckets whose number and length adapt to the TTLs; see the [module](self).
pub struct BucketsAuto {
    ring: Ring,
    /// Previous ring, while its entries are being moved to the new one.
    old: Option<Ring>,
    /// Value of [`RING_BIT`] in the places of entries of `ring`. Entries of `old` have the other
    /// value.
    ring_bit: u32,
    expires: Sampled,
    rounds: Rounds,
    /// Boxed, because every index would otherwise be as large as the largest.
    seen: Box<Seen>,
    /// Number of deadlines set since the ring was chosen, which must be large enough before the
    /// next change.
    set_since: usize,
}

fn place_in(half: u32) -> Option<usize> {
    (half & !RING_BIT)
        .checked_sub(1)
        .map(|place| place as usize)
}

fn ring_of_size(num_buckets: usize, size: u64) -> Ring {
    Ring::new(num_buckets as u32, (size / num_buckets as u64).max(1))
}

impl BucketsAuto {
    fn put(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
        let deadline = cells
            .deadline(slot)
            .expect("an entry is filed with its deadline");
        // An entry that expires more than one turn ahead would block its bucket for several entries
        // that expire sooner.
        self.rounds.clock_went_back(cells.now());
        let size = self.ring.num_buckets() as u64 * self.ring.base;
        let is_near = deadline.0.saturating_sub(cells.now().0) < size;
        let place = if is_near {
            self.ring.add(deadline, slot)
        } else {
            None
        };
        let half = place.map_or(0, |place| self.ring_bit | (place as u32 + 1));
        set_high_half(cells, slot, half);
    }

    fn take(&mut self, cells: &mut impl Cells<u64>, slot: Slot, deadline: Tick) {
        let half = high_half(cells, slot);
        let Some(place) = place_in(half) else {
            return;
        };
        let ring = if half & RING_BIT == self.ring_bit {
            &mut self.ring
        } else {
            self.old
                .as_mut()
                .expect("the entry lies in the ring before")
        };
        let id = ring.timestamp_to_bucket_id(deadline);
        if let Some(other) = ring.remove_from_bucket(id, place, slot) {
            set_high_half(cells, other, half);
        }
        set_high_half(cells, slot, 0);
    }

    /// Records the TTL of an entry that is about to be filed.
    fn see(&mut self, cells: &impl Cells<u64>, slot: Slot) {
        let deadline = cells.deadline(slot).map_or(0, |deadline| deadline.0);
        self.set_since += 1;
        if self.seen.note(deadline.saturating_sub(cells.now().0)) {
            self.choose();
            self.seen.forget_half();
        }
    }

    /// Starts a new ring if the size of the current one differs much from the right size.
    fn choose(&mut self) {
        if self.old.is_some() || self.set_since < self.expires.len() / SETS_PER_CHANGE {
            return;
        }
        let has = self.ring.num_buckets();
        let wanted = (self.expires.len() / ENTRIES_PER_BUCKET)
            .next_power_of_two()
            .clamp(NUM_BUCKETS_MIN, NUM_BUCKETS_MAX);
        let size = has as u64 * self.ring.base;
        let wanted_size = self.seen.size().unwrap_or(size).max(wanted as u64);
        let is_count_off = wanted > has || wanted * 4 <= has;
        let is_size_off = wanted_size > size || wanted_size * 4 <= size;
        if is_count_off || is_size_off {
            let ring = ring_of_size(wanted, wanted_size);
            let old = core::mem::replace(&mut self.ring, ring);
            self.old = (old.len > 0).then_some(old);
            self.ring_bit ^= RING_BIT;
            self.rounds.stop();
            self.set_since = 0;
        }
    }

    /// Moves entries from the previous ring to the new one, one step for each entry moved or bucket
    /// passed.
    fn carry_over(&mut self, cells: &mut impl Cells<u64>, now: Tick, budget: &mut Budget) -> Due {
        while let Some(old) = &mut self.old {
            if old.len == 0 {
                self.old = None;
                break;
            }
            if !budget.spend() {
                return Due::Again;
            }
            let id = old.current_bucket_id;
            let Some(slot) = old.empty_bucket(id) else {
                old.current_bucket_id = (id + 1) % old.num_buckets();
                continue;
            };
            set_high_half(cells, slot, 0);
            if cells.deadline(slot).is_some_and(|deadline| deadline < now) {
                return Due::Slot(slot);
            }
            self.put(cells, slot);
        }
        Due::Nothing
    }

    /// Runs the second part of activeExpiration.
    fn sample(&mut self, cells: &mut impl Cells<u64>, now: Tick, budget: &mut Budget) -> Due {
        let due = self.expires.pop_expired(&mut InExpires(cells), now, budget);
        if let Due::Slot(slot) = due {
            let deadline = cells.deadline(slot).expect("what is dead has a deadline");
            self.take(cells, slot, deadline);
        }
        due
    }
}

impl ExpiryIndex for BucketsAuto {
    /// The entry's places in `expires` and in its bucket, and the bit that selects the ring of the
    /// bucket.
    type Link = u64;
    type Config = CyclesConfig;
    const NAME: &'static str = "buckets-auto";

    fn new(now: Tick, config: &CyclesConfig, seed: u64) -> Self {
        let expires = Sampled::new(now, &config.release_5(0), seed);
        BucketsAuto {
            ring: ring_of_size(NUM_BUCKETS_MIN, SIZE_START),
            old: None,
            ring_bit: 0,
            rounds: Rounds::new(now, &expires),
            expires,
            seen: Box::new(Seen {
                counts: [0; 49],
                since: 0,
            }),
            set_since: 0,
        }
    }

    fn granularity(&self) -> Option<u64> {
        None
    }

    fn insert(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
        self.expires.insert(&mut InExpires(cells), slot);
        self.see(cells, slot);
        self.put(cells, slot);
    }

    fn remove(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
        let deadline = cells
            .deadline(slot)
            .expect("a removed entry still has its deadline");
        self.take(cells, slot, deadline);
        self.expires.remove(&mut InExpires(cells), slot);
    }

    fn update(&mut self, cells: &mut impl Cells<u64>, slot: Slot, old: Tick) {
        self.take(cells, slot, old);
        self.expires.update(&mut InExpires(cells), slot, old);
        self.see(cells, slot);
        self.put(cells, slot);
    }

    fn moved(&mut self, cells: &mut impl Cells<u64>, old: Slot, new: Slot) {
        let deadline = cells
            .deadline(new)
            .expect("an entry that moved kept its deadline");
        let half = high_half(cells, new);
        if let Some(place) = place_in(half) {
            let ring = if half & RING_BIT == self.ring_bit {
                &mut self.ring
            } else {
                self.old
                    .as_mut()
                    .expect("the entry lies in the ring before")
            };
            ring.rename(deadline, place, old, new);
        }
        self.expires.moved(&mut InExpires(cells), old, new);
    }

    fn pop_expired(&mut self, cells: &mut impl Cells<u64>, now: Tick, budget: &mut Budget) -> Due {
        if self.rounds.is_due(&self.expires, now) {
            self.choose();
        }
        let mut due = self.carry_over(cells, now, budget);
        if due == Due::Nothing {
            let Self {
                ring,
                expires,
                rounds,
                ..
            } = self;
            due = rounds.go(ring, expires, now, budget);
        }
        match due {
            Due::Slot(slot) => self.expires.remove(&mut InExpires(cells), slot),
            Due::Nothing => due = self.sample(cells, now, budget),
            Due::Again => {}
        }
        if self.expires.is_empty() {
            self.rounds.stop();
            self.old = None;
            if self.ring.num_buckets() > NUM_BUCKETS_MIN {
                let size = self.ring.num_buckets() as u64 * self.ring.base;
                self.ring = ring_of_size(NUM_BUCKETS_MIN, size);
            }
        }
        due
    }

    fn clock_went_back(&mut self, now: Tick) {
        self.expires.clock_went_back(now);
        self.rounds.clock_went_back(now);
    }

    fn next_due(&self) -> Option<Tick> {
        let second = self.expires.next_due()?;
        if self.old.is_some() {
            return Some(Tick(0));
        }
        Some(self.rounds.next_due(second))
    }

    fn backlog(&self, now: Tick) -> usize {
        self.expires.backlog(now)
    }

    fn len(&self) -> usize {
        self.expires.len()
    }

    fn heap_bytes(&self) -> usize {
        let old = self.old.as_ref().map_or(0, Ring::heap_bytes);
        self.expires.heap_bytes() + self.ring.heap_bytes() + old + size_of::<Seen>()
    }

    fn check(&self, cells: &impl Cells<u64>) {
        self.expires.check(&InExpiresView(cells));
        let place_of = |bit: u32| {
            move |slot| {
                let half = high_half(cells, slot);
                place_in(half).filter(|_| half & RING_BIT == bit)
            }
        };
        self.ring.check(cells, place_of(self.ring_bit));
        if let Some(old) = &self.old {
            old.check(cells, place_of(self.ring_bit ^ RING_BIT));
        }
        let in_rings = self.ring.len + self.old.as_ref().map_or(0, |old| old.len);
        assert!(in_rings <= self.expires.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Facts;
    use crate::suite::host::Host;

    crate::index_suite!(BucketsAuto);

    struct Traffic {
        host: Host<u64>,
        index: BucketsAuto,
        now: u64,
    }

    impl Traffic {
        /// Inserts ten entries of this TTL per tenth of a second, for `span`. Returns the
        /// percentage of those returned in the last half that were late by more than a bucket and
        /// two rounds.
        fn run(&mut self, ttl: u64, span: u64) -> u64 {
            let (start, mut late, mut sum) = (self.now, 0, 0);
            while self.now < start + span {
                self.now += 100;
                let now = Tick(self.now);
                self.host.set_now(now);
                for number in 0..10 {
                    let deadline = Tick(now.0 + ttl + 10 * number);
                    let slot = self.host.add(ttl, 1, Some(deadline));
                    self.host.hold(slot);
                    self.index.insert(&mut self.host, slot);
                }
                while self.index.next_due().is_some_and(|due| due <= now) {
                    let due = self
                        .index
                        .pop_expired(&mut self.host, now, &mut Budget(100));
                    if let Due::Slot(slot) = due {
                        let deadline = self.host.deadline(slot).expect("it is still live");
                        let is_of_these = self.host.key_hash(slot) == ttl;
                        if is_of_these && now.0 > start + span / 2 {
                            sum += 1;
                            late += u64::from(now.0 - deadline.0 > ttl / 8 + 200);
                        }
                        self.host.free(slot);
                    }
                }
            }
            self.index.check(&self.host);
            late * 100 / sum
        }

        fn size(&self) -> u64 {
            self.index.ring.num_buckets() as u64 * self.index.ring.base
        }
    }

    #[test]
    fn the_ring_follows_the_ttls() {
        let mut traffic = Traffic {
            host: Host::new(Tick(1_000_000)),
            index: BucketsAuto::new(Tick(1_000_000), &CyclesConfig::default(), 1),
            now: 1_000_000,
        };
        for ttl in [60_000, 600_000, 5_000, 60_000] {
            let late_percent = traffic.run(ttl, 4 * ttl + 200_000);
            let size = traffic.size();
            assert!(
                (2 * ttl..=8 * ttl).contains(&size),
                "{size} ms for {ttl} ms"
            );
            // Entries that were set before the ring had adapted must wait for a sample.
            assert!(late_percent <= 2, "{late_percent} % late, {ttl} ms");
            assert!(traffic.index.old.is_none());
        }
    }

    #[test]
    fn one_percent_of_long_ttls_does_not_keep_the_ring_changing() {
        let start = 1_000_000;
        let mut host = Host::new(Tick(start));
        let mut index = BucketsAuto::new(Tick(start), &CyclesConfig::default(), 1);
        let (mut changes, mut ring_bit) = (0, 0);
        let mut chance = crate::parts::chance::Chance::new(1);
        for number in 0..400_000 {
            let now = Tick(start + number);
            host.set_now(now);
            let is_long = chance.below(1_000) < 10;
            let ttl = if is_long { 3_600_000 } else { 60_000 };
            let slot = host.add(number, 1, Some(Tick(now.0 + ttl)));
            host.hold(slot);
            index.insert(&mut host, slot);
            while index.next_due().is_some_and(|due| due <= now) {
                if let Due::Slot(slot) = index.pop_expired(&mut host, now, &mut Budget(100)) {
                    host.free(slot);
                }
            }
            changes += u32::from(index.ring_bit != ring_bit);
            ring_bit = index.ring_bit;
        }
        // A change needs new deadlines of a quarter of the entries held. There are at most 16
        // changes until some 64,000 entries are held, and 21 after that.
        assert!(changes <= 37, "{changes} changes of the ring");
        index.check(&host);
    }

    #[test]
    fn more_entries_get_finer_buckets() {
        let mut host = Host::new(Tick(1_000_000));
        let mut index = BucketsAuto::new(Tick(1_000_000), &CyclesConfig::default(), 1);
        for number in 0..40_000 {
            let slot = host.add(0, 1, Some(Tick(1_060_000 + number)));
            host.hold(slot);
            index.insert(&mut host, slot);
            while index.old.is_some() {
                let due = index.pop_expired(&mut host, Tick(1_000_000), &mut Budget(100));
                assert!(!matches!(due, Due::Slot(_)), "nothing is dead");
            }
        }
        assert_eq!(index.ring.num_buckets(), 1_024);
        index.check(&host);
    }
}

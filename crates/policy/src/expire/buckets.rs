//! `buckets`: Bucket-Based Expiration, a ring of buckets by deadline in front of sampling.
//!
//! # Idea
//! A deadline divided by `BASE` is its *time*; the time modulo `NUM_BUCKETS` is its bucket. A
//! bucket is a set of entries that share one time, so that once the time has passed all of them are
//! dead and no live entry is read. An entry whose bucket is taken by another time is kept in
//! `expires` alone. Ten times a second *activeExpiration* passes once around the ring, beginning
//! where it stopped, and empties the buckets whose time has passed; after a full turn,
//! [`sampled`](super::sampled) searches for the entries that found no bucket.
//!
//! # Source
//! G. Xie, Y.-C. Chung: Bucket-Based Expiration Algorithm: Improving Eviction Efficiency for
//! In-Memory Key-Value Database, MEMSYS 2020, <https://doi.org/10.1145/3422575.3422797>, Algorithms
//! 3 and 4, sections 3.1 to 3.3. The second part is Redis 5.0's, on which the authors built.
//!
//! # State
//! Per entry: a 4-byte reference in `expires`, one in a bucket unless that was taken, and 8 bytes
//! for its places in both: 16 bytes, in buckets of less than a thousand up to 8 more. Besides: 32
//! bytes per bucket, and the state of `sampled`.
//!
//! # Cost
//! Every operation O(1). A bucket passed, an entry returned and an entry read are a step each; the
//! first part reads no live entry. The first part of one activeExpiration returns at most
//! `TIME_LIMIT`: 25,000 entries, with `hz` at 10.
//!
//! # Knobs
//! `size` (120x1000): `NUM_BUCKETS` × `BASE`, the latter in milliseconds. Their product should
//! exceed the longest TTL by far: the authors find twice the TTL best, and that with once the TTL
//! buckets are not free again in time. As for `sampled`: `iterations` (0), for the second part;
//! `hz` (10; 1 to 500) and `shards` (1; 1 to 4096), for both. Indexes that share one server take
//! turns at the second part; the first runs in each at every cycle, with its share of `TIME_LIMIT`,
//! as one ring of all would.
//!
//! # Departures
//! Time is counted as in `sampled`: an entry returned counts as 1 µs, `TIME_LIMIT` is that of
//! Redis's slow cycle, and the second part has what the first has left of it; when nothing is left,
//! it is skipped until the next activeExpiration. The host's budget also ends calls: the next call
//! continues in the same bucket. The set is an array, and an entry has its place there in its bits.
//! A bucket is free when its set is empty; the authors mark it by a time of 0, which a deadline of
//! 1970 has as well.
//!
//! # Avoid when
//! TTLs differ by orders of magnitude, or the longest is not known: entries that find no bucket
//! wait for a sample. `buckets-auto` chooses the two numbers itself.

mod ring;

use super::sampled::{CyclesConfig, EXPIRE_NS, Sampled};
use crate::knobs::{Knob, Knobs};
use crate::{Budget, Cells, Due, ExpiryIndex, Facts, Slot, Tick};
use alloc::format;
use alloc::string::String;
use alloc::string::ToString;
pub(super) use ring::{Ring, Status};

/// Maximum number of buckets of a ring.
pub(super) const BUCKETS_MAX: u32 = 1 << 16;

/// Knobs of [`Buckets`].
#[derive(Clone, Debug, PartialEq)]
pub struct BucketsConfig {
    /// `NUM_BUCKETS` of the source.
    pub num_buckets: u32,
    /// `BASE` of the source, in milliseconds.
    pub base: u64,
    /// Maximum number of loops in a cycle of the second part; 0 allows as many as its time allows.
    pub iterations: u32,
    /// Schedule of both parts.
    pub cycles: CyclesConfig,
}

impl Default for BucketsConfig {
    /// Returns the size that the authors found best for TTLs of up to a minute.
    fn default() -> Self {
        BucketsConfig {
            num_buckets: 120,
            base: 1_000,
            iterations: 0,
            cycles: CyclesConfig::default(),
        }
    }
}

impl Knobs for BucketsConfig {
    const KNOBS: &'static [Knob] = &[
        Knob {
            name: "size",
            default: "120x1000",
            range: "NUM_BUCKETSxBASE such as 120x1000: 1 to 65536 buckets of at least 1 ms, \
                    together at most 2^48 ms",
        },
        Knob {
            name: "iterations",
            default: "0",
            range: "0 to 1000000",
        },
        CyclesConfig::KNOBS[0],
        CyclesConfig::KNOBS[1],
    ];

    fn set(&mut self, name: &str, value: &str) -> bool {
        let mut config = self.clone();
        let is_read = match name {
            "size" => value.split_once('x').is_some_and(|(count, base)| {
                let (count, base) = (count.parse(), base.parse());
                config.num_buckets = count.clone().unwrap_or(0);
                config.base = base.clone().unwrap_or(0);
                count.is_ok() && base.is_ok()
            }),
            "iterations" => value.parse().is_ok_and(|iterations| {
                config.iterations = iterations;
                true
            }),
            _ => config.cycles.set(name, value),
        };
        let is_good = is_read && config.is_valid();
        if is_good {
            *self = config;
        }
        is_good
    }

    fn show(&self, name: &str) -> String {
        match name {
            "size" => format!("{}x{}", self.num_buckets, self.base),
            "iterations" => self.iterations.to_string(),
            _ => self.cycles.show(name),
        }
    }

    fn is_valid(&self) -> bool {
        let size = u64::from(self.num_buckets).checked_mul(self.base);
        (1..=BUCKETS_MAX).contains(&self.num_buckets)
            && self.base > 0
            && size.is_some_and(|size| size <= 1 << 48)
            && self.iterations <= 1_000_000
            && self.cycles.is_valid()
    }
}

/// Access to the low half of each entry's bits: its place in `expires`.
pub(super) struct InExpires<'a, C>(pub(super) &'a mut C);

impl<C: Cells<u64>> Facts for InExpires<'_, C> {
    crate::delegate_facts!(0);
}

impl<C: Cells<u64>> Cells<u32> for InExpires<'_, C> {
    fn get(&self, slot: Slot) -> u32 {
        self.0.get(slot) as u32
    }
    fn set(&mut self, slot: Slot, index: u32) {
        let link = self.0.get(slot);
        self.0
            .set(slot, link & !u64::from(u32::MAX) | u64::from(index));
    }
}

/// Like [`InExpires`], but read-only.
pub(super) struct InExpiresView<'a, C>(pub(super) &'a C);

impl<C: Cells<u64>> Facts for InExpiresView<'_, C> {
    crate::delegate_facts!(0);
}

impl<C: Cells<u64>> Cells<u32> for InExpiresView<'_, C> {
    fn get(&self, slot: Slot) -> u32 {
        self.0.get(slot) as u32
    }
    fn set(&mut self, _slot: Slot, _index: u32) {
        unreachable!("a check only reads: it has the cells by shared reference");
    }
}

/// Returns the high half of an entry's bits: its place in a bucket plus 1, or 0 if it is in none.
pub(super) fn high_half(cells: &impl Cells<u64>, slot: Slot) -> u32 {
    (cells.get(slot) >> 32) as u32
}

pub(super) fn set_high_half(cells: &mut impl Cells<u64>, slot: Slot, half: u32) {
    let link = cells.get(slot);
    cells.set(slot, u64::from(link as u32) | u64::from(half) << 32);
}

fn place_of(cells: &impl Cells<u64>, slot: Slot) -> Option<usize> {
    high_half(cells, slot)
        .checked_sub(1)
        .map(|place| place as usize)
}

/// A running first part of activeExpiration (Algorithm 3).
struct Round {
    /// Number of buckets that remain to be processed.
    left: usize,
    spent_ns: u64,
}

/// Schedule and state of the first parts of activeExpiration.
pub(super) struct Rounds {
    /// The first part that is running, if any.
    round: Option<Round>,
    next: Tick,
    pause_ms: u64,
    /// `TIME_LIMIT` of the source.
    limit_ns: u64,
}

impl Rounds {
    pub(super) fn new(now: Tick, expires: &Sampled) -> Rounds {
        let (limit_ns, pause_ms) = expires.share_ns_and_pause_ms();
        Rounds {
            round: None,
            next: Tick(now.0 + pause_ms),
            pause_ms,
            limit_ns,
        }
    }

    pub(super) fn clock_went_back(&mut self, now: Tick) {
        self.next = self.next.min(Tick(now.0 + self.pause_ms));
    }

    /// Ends the first part that is running.
    pub(super) fn stop(&mut self) {
        self.round = None;
    }

    /// Ends a round. The next one begins at its regular time, however long this one took.
    fn end(&mut self, now: Tick) {
        if let Some(late) = now.0.checked_sub(self.next.0) {
            self.next = Tick(self.next.0 + (late / self.pause_ms + 1) * self.pause_ms);
        }
        self.round = None;
    }

    /// Whether a new round may begin.
    pub(super) fn is_due(&self, expires: &Sampled, now: Tick) -> bool {
        self.round.is_none() && now >= self.next && !expires.is_empty()
    }

    /// Returns the next time at which a call is needed, given the second part's next time.
    pub(super) fn next_due(&self, second: Tick) -> Tick {
        match self.round {
            Some(_) => Tick(0),
            None => self.next.min(second),
        }
    }

    /// Continues a round, or begins one that is due. At its end, the second part begins with the
    /// remaining time, if it is its turn. If no time is left (`EXCEED_TIME_LIMIT`), the second part
    /// misses its turn, and the next round continues in the same bucket.
    pub(super) fn go(
        &mut self,
        ring: &mut Ring,
        expires: &mut Sampled,
        now: Tick,
        budget: &mut Budget,
    ) -> Due {
        if self.is_due(expires, now) {
            self.round = Some(Round {
                left: ring.num_buckets(),
                spent_ns: 0,
            });
        }
        while let Some(round) = &mut self.round {
            if round.spent_ns > self.limit_ns {
                if expires.is_slow_due(now) {
                    expires.pass_over_slow(now);
                }
                self.end(now);
            } else if round.left == 0 || ring.len == 0 {
                if expires.is_slow_due(now) {
                    expires.begin_slow(now, round.spent_ns);
                }
                self.end(now);
            } else if !budget.spend() {
                return Due::Again;
            } else {
                let id = ring.current_bucket_id;
                if let Status::Expired(slot) = ring.expire_bucket(id, now) {
                    round.spent_ns += EXPIRE_NS;
                    return Due::Slot(slot);
                }
                ring.current_bucket_id = (id + 1) % ring.num_buckets();
                round.left -= 1;
            }
        }
        Due::Nothing
    }
}

/// Bucket-Based Expiration; see the [module](self).
pub struct Buckets {
    ring: Ring,
    expires: Sampled,
    rounds: Rounds,
}

impl Buckets {
    /// The bucket's part of setExpire.
    fn put(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
        let deadline = cells
            .deadline(slot)
            .expect("an entry is filed with its deadline");
        self.rounds.clock_went_back(cells.now());
        let half = self.ring.add(deadline, slot).map_or(0, |place| place + 1);
        set_high_half(cells, slot, half as u32);
    }

    /// The bucket's part of removeExpire; `deadline` is the one under which the entry was filed.
    fn take(&mut self, cells: &mut impl Cells<u64>, slot: Slot, deadline: Tick) {
        let Some(place) = place_of(cells, slot) else {
            return;
        };
        let id = self.ring.timestamp_to_bucket_id(deadline);
        if let Some(other) = self.ring.remove_from_bucket(id, place, slot) {
            set_high_half(cells, other, place as u32 + 1);
        }
        set_high_half(cells, slot, 0);
    }
}

impl ExpiryIndex for Buckets {
    /// The entry's places in `expires` and in its bucket.
    type Link = u64;
    type Config = BucketsConfig;
    const NAME: &'static str = "buckets";

    fn new(now: Tick, config: &BucketsConfig, seed: u64) -> Self {
        assert!(config.is_valid());
        let expires = Sampled::new(now, &config.cycles.release_5(config.iterations), seed);
        Buckets {
            ring: Ring::new(config.num_buckets, config.base),
            rounds: Rounds::new(now, &expires),
            expires,
        }
    }

    fn granularity(&self) -> Option<u64> {
        None
    }

    fn insert(&mut self, cells: &mut impl Cells<u64>, slot: Slot) {
        self.expires.insert(&mut InExpires(cells), slot);
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
        self.put(cells, slot);
    }

    fn moved(&mut self, cells: &mut impl Cells<u64>, old: Slot, new: Slot) {
        let deadline = cells
            .deadline(new)
            .expect("an entry that moved kept its deadline");
        if let Some(place) = place_of(cells, new) {
            self.ring.rename(deadline, place, old, new);
        }
        self.expires.moved(&mut InExpires(cells), old, new);
    }

    fn pop_expired(&mut self, cells: &mut impl Cells<u64>, now: Tick, budget: &mut Budget) -> Due {
        let Self {
            ring,
            expires,
            rounds,
        } = self;
        let due = match rounds.go(ring, expires, now, budget) {
            Due::Slot(slot) => {
                self.expires.remove(&mut InExpires(cells), slot);
                Due::Slot(slot)
            }
            Due::Again => Due::Again,
            Due::Nothing => {
                let due = self.expires.pop_expired(&mut InExpires(cells), now, budget);
                if let Due::Slot(slot) = due {
                    let deadline = cells.deadline(slot).expect("what is dead has a deadline");
                    self.take(cells, slot, deadline);
                }
                due
            }
        };
        if self.expires.is_empty() {
            self.rounds.stop();
        }
        due
    }

    fn clock_went_back(&mut self, now: Tick) {
        self.expires.clock_went_back(now);
        self.rounds.clock_went_back(now);
    }

    fn next_due(&self) -> Option<Tick> {
        let second = self.expires.next_due()?;
        Some(self.rounds.next_due(second))
    }

    fn backlog(&self, now: Tick) -> usize {
        self.expires.backlog(now)
    }

    fn len(&self) -> usize {
        self.expires.len()
    }

    fn heap_bytes(&self) -> usize {
        self.expires.heap_bytes() + self.ring.heap_bytes()
    }

    fn check(&self, cells: &impl Cells<u64>) {
        self.expires.check(&InExpiresView(cells));
        self.ring.check(cells, |slot| place_of(cells, slot));
        assert!(self.ring.len <= self.expires.len());
    }
}

#[cfg(test)]
mod tests {
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
            while let Due::Slot(slot) =
                self.index
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
}

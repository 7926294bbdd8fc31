//! `sampled`: Redis's active expire cycle, which samples keys and bounds the rest statistically.
//!
//! # Idea
//! Ten times a second, read 20 entries that have a deadline; return the dead ones; repeat while
//! more than a tenth of them was dead and the cycle has time left. Between these *slow* cycles run
//! short *fast* ones as long as many entries are probably dead. No order is kept, so the delay of
//! an entry is unbounded.
//!
//! # Source
//! Redis, `expire.c`, `activeExpireCycle`, release 5.0 (2018) and from 6.0 (2020) on,
//! <https://github.com/redis/redis/blob/7.0/src/expire.c>. Described and improved upon in G. Xie,
//! Y.-C. Chung: Bucket-Based Expiration Algorithm: Improving Eviction Efficiency for In-Memory
//! Key-Value Database, MEMSYS 2020, <https://doi.org/10.1145/3422575.3422797>.
//!
//! # State
//! Per entry: a 4-byte reference in an array and 4 bytes for its place there. Besides: a page of
//! 4 KiB that is not full, 8 bytes a page.
//!
//! # Cost
//! Insert, update, remove and moved O(1); an insertion touches a second entry, at random. Reading
//! an entry is a step. Entries read per dead one: from 1, while most are dead, up to 10 at the
//! goal; below it the dead wait for 20 reads in each tenth of a second.
//!
//! # Knobs
//! `effort` (1; 1 to 10): `active-expire-effort`. Reads per loop 20 to 65, stale goal 10 % to 1 %,
//! time limit 25 % to 43 %. `hz` (10; 1 to 500): slow cycles per second. `release` (7; 5 to 7): 5
//! reads entries at random, with a goal of 25 %, and has no effort. `shards` (1; 1 to 4096): number
//! of indexes that share the cycles and the time limit of one server: each has its turn.
//! `iterations` (0; 0 to a million): maximum number of loops in a cycle; 0 is as many as its time
//! allows, as in Redis. In terms of Xie and Chung's Algorithm 2, `release=5` is N = 20 and δ = 25
//! %, and `release=5:iterations=10` bounds it by their n = 10 as well, which no release of Redis
//! does; the name `sampled-5` stands for that.
//!
//! # Departures
//! Redis limits a cycle by the clock. Here reading an entry counts as 0.15 µs and returning one as
//! 1 µs, as measured on Redis 7.0, so that equal seeds give equal behaviour. Redis walks its hash
//! table, whose order is random; here new entries take a random place in an array, which is walked.
//! Redis ends a loop early in a table that is nearly empty for its size; the array has no empty
//! places. Redis runs a fast cycle before it waits for its clients, if the last began 2 ms (twice
//! its length) ago; here one runs 2 ms after the last if an entry came, left or changed since:
//! traffic that only reads is not seen.
//!
//! # Avoid when
//! Clients wait for `expired` events or memory is expensive: with a million live keys around them,
//! dead ones wait for minutes. It exists for comparison.

use crate::parts::array::SlotArray;
use crate::{Budget, Cells, Due, ExpiryIndex, Slot, Tick};

crate::knobs! {
    /// Knobs of [`Sampled`].
    pub struct SampledConfig {
        /// Redis's `active-expire-effort`.
        effort: u32 = 1, 1 => 10;
        /// Number of slow cycles per second.
        hz: u32 = 10, 1 => 500;
        /// Release of Redis whose rules are used: 5, or 6 and 7 for the rules since 6.
        release: u32 = 7, 5 => 7;
        /// Number of indexes that share the cycles of one server.
        shards: u32 = 1, 1 => 4096;
        /// Maximum number of loops in a cycle; 0 allows as many as its time allows.
        iterations: u32 = 0, 0 => 1_000_000;
    }
}

crate::knobs! {
    /// Knobs of indexes that use sampling by the rules of Redis 5.0 for the entries that they do
    /// not index.
    pub struct CyclesConfig {
        /// Number of slow cycles per second.
        hz: u32 = 10, 1 => 500;
        /// Number of indexes that share the cycles of one server.
        shards: u32 = 1, 1 => 4096;
    }
}

impl CyclesConfig {
    /// Returns the full config.
    pub(super) fn release_5(&self, iterations: u32) -> SampledConfig {
        SampledConfig {
            hz: self.hz,
            release: 5,
            shards: self.shards,
            iterations,
            ..SampledConfig::default()
        }
    }
}

/// Time that is charged for reading an entry.
const LOOK_NS: u64 = 150;
/// Time that is charged for returning an entry.
pub(super) const EXPIRE_NS: u64 = 1_000;
/// Number of loops after which the clock is read, as in Redis.
const LOOPS_PER_CLOCK: u32 = 16;

/// A cycle that is running.
struct Cycle {
    limit_ns: u64,
    spent_ns: u64,
    loop_count: u32,
    looks_left: u32,
    /// Number of entries read in the current loop.
    looked: u32,
    dead: u32,
    /// Number of entries read in all loops of the cycle.
    looked_sum: u32,
    dead_sum: u32,
}

/// Redis's active expire cycle; see the [module](self).
pub struct Sampled {
    config: SampledConfig,
    items: SlotArray,
    /// Position in the array at which the next loop continues.
    cursor: usize,
    random: u64,
    cycle: Option<Cycle>,
    next_slow: Tick,
    next_fast: Tick,
    /// Whether the last cycle ended because its time ran out.
    was_cut: bool,
    /// Running average of the share of dead entries among those read, in percent.
    stale_percent: f64,
    /// Whether an entry was inserted, removed or changed since the last cycle.
    has_traffic: bool,
    /// Lower bound of all deadlines.
    earliest: Tick,
}

impl Sampled {
    fn is_release_5(&self) -> bool {
        self.config.release == 5
    }

    fn extra_effort(&self) -> u32 {
        if self.is_release_5() {
            0
        } else {
            self.config.effort - 1
        }
    }

    fn looks_per_loop(&self) -> u32 {
        20 + 20 / 4 * self.extra_effort()
    }

    /// Returns the acceptable share of dead entries, in percent.
    fn goal_percent(&self) -> u32 {
        if self.is_release_5() {
            25
        } else {
            10 - self.extra_effort()
        }
    }

    fn slow_limit_ns(&self) -> u64 {
        let percent = u64::from(25 + 2 * self.extra_effort());
        percent * 1_000_000_000 / u64::from(self.config.hz) / 100
    }

    /// Returns the share of each index in the time of a slow cycle and in the interval between two,
    /// if several indexes share the cycles.
    pub(super) fn share_ns_and_pause_ms(&self) -> (u64, u64) {
        let shards = u64::from(self.config.shards);
        (
            self.slow_limit_ns() / shards,
            self.slow_interval_ms() / shards,
        )
    }

    fn fast_limit_ns(&self) -> u64 {
        u64::from(1_000 + 1_000 / 4 * self.extra_effort()) * 1_000
    }

    fn slow_interval_ms(&self) -> u64 {
        u64::from(1_000 / self.config.hz).max(1) * u64::from(self.config.shards)
    }

    fn fast_interval_ms(&self) -> u64 {
        (2 * self.fast_limit_ns() / 1_000_000).max(1) * u64::from(self.config.shards)
    }

    /// Whether a fast cycle should run: the last cycle ran out of time, or, since release 6, too
    /// many of the entries read were dead.
    fn wants_fast(&self) -> bool {
        let is_stale = self.stale_percent >= f64::from(self.goal_percent());
        self.has_traffic && (self.was_cut || (is_stale && !self.is_release_5()))
    }

    /// xorshift64, G. Marsaglia, Journal of Statistical Software 8(14), 2003.
    fn below(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((u128::from(self.random) * bound as u128) >> 64) as usize
    }

    /// Records a deadline, and a backward jump of the clock if there was one.
    fn note(&mut self, cells: &impl Cells<u32>, slot: Slot) {
        let deadline = cells
            .deadline(slot)
            .expect("an entry in the index has a deadline");
        self.earliest = if self.items.is_empty() {
            deadline
        } else {
            self.earliest.min(deadline)
        };
        self.has_traffic = true;
        self.clock_went_back(cells.now());
    }

    /// Starts a cycle if one is due.
    fn begin(&mut self, now: Tick) -> bool {
        if now >= self.next_slow {
            self.begin_slow(now, 0);
            return true;
        }
        if !self.wants_fast() || now < self.next_fast {
            return false;
        }
        self.next_fast = Tick(now.0 + self.fast_interval_ms());
        self.begin_cycle(self.fast_limit_ns(), 0);
        true
    }

    /// Starts a slow cycle that has already spent this much of its time.
    pub(super) fn begin_slow(&mut self, now: Tick, spent_ns: u64) {
        self.end_turn(now);
        self.begin_cycle(self.slow_limit_ns(), spent_ns);
    }

    /// Skips the slow cycle that is due, because another index has used its time.
    pub(super) fn pass_over_slow(&mut self, now: Tick) {
        self.end_turn(now);
        self.was_cut = false;
    }

    /// Schedules the next slow cycle at a multiple of a tenth of a second, however late this one
    /// is.
    fn end_turn(&mut self, now: Tick) {
        if let Some(late) = now.0.checked_sub(self.next_slow.0) {
            let interval = self.slow_interval_ms();
            self.next_slow = Tick(self.next_slow.0 + (late / interval + 1) * interval);
        }
    }

    fn begin_cycle(&mut self, limit_ns: u64, spent_ns: u64) {
        assert!(self.cycle.is_none(), "one cycle ends before the next");
        self.was_cut = false;
        self.has_traffic = false;
        self.cycle = Some(Cycle {
            limit_ns,
            spent_ns,
            loop_count: 0,
            looks_left: self.looks_per_loop().min(self.items.len() as u32),
            looked: 0,
            dead: 0,
            looked_sum: 0,
            dead_sum: 0,
        });
    }

    /// Whether the time of a slow cycle has come and it has not begun.
    pub(super) fn is_slow_due(&self, now: Tick) -> bool {
        !self.items.is_empty() && self.cycle.is_none() && now >= self.next_slow
    }

    /// Whether this index holds the entry, if there is one: the entry's link is a place in the
    /// array, and that place refers to the entry.
    pub(super) fn holds(&self, cells: &impl Cells<u32>, slot: Slot) -> bool {
        if !cells.is_live(slot) || cells.deadline(slot).is_none() {
            return false;
        }
        let index = cells.get(slot) as usize;
        index < self.items.len() && self.items.get(index) == slot
    }

    /// Ends a loop: starts the next loop, or ends the cycle.
    fn end_loop(&mut self) {
        let looks = self.looks_per_loop().min(self.items.len() as u32);
        let (goal, dead_enough) = (self.goal_percent(), self.looks_per_loop() / 4);
        let is_release_5 = self.is_release_5();
        let cycle = self.cycle.as_mut().expect("a loop belongs to a cycle");
        cycle.loop_count += 1;
        cycle.looked_sum += cycle.looked;
        cycle.dead_sum += cycle.dead;
        let is_time = cycle.loop_count.is_multiple_of(LOOPS_PER_CLOCK);
        let is_cut = is_time && cycle.spent_ns > cycle.limit_ns;
        // Both are as in Redis: the percentage is a whole number, and release 5 compares a number
        // of entries, however few were read.
        let is_stale = if is_release_5 {
            cycle.dead > dead_enough
        } else {
            cycle.looked > 0 && cycle.dead * 100 / cycle.looked > goal
        };
        let is_last = cycle.loop_count == self.config.iterations;
        if is_stale && !is_cut && !is_last && looks > 0 {
            (cycle.looked, cycle.dead, cycle.looks_left) = (0, 0, looks);
            return;
        }
        if cycle.looked_sum > 0 {
            let percent = f64::from(cycle.dead_sum) * 100.0 / f64::from(cycle.looked_sum);
            self.stale_percent = percent * 0.05 + self.stale_percent * 0.95;
        }
        self.was_cut = is_cut;
        self.cycle = None;
    }

    /// Like [`ExpiryIndex::pop_expired`], but also reports each live entry that was read.
    pub(super) fn pop_seeing(
        &mut self,
        cells: &mut impl Cells<u32>,
        now: Tick,
        budget: &mut Budget,
        mut see: impl FnMut(Tick, Slot),
    ) -> Due {
        while self.cycle.is_some() || (!self.items.is_empty() && self.begin(now)) {
            let looks_left = self.cycle.as_ref().map_or(0, |cycle| cycle.looks_left);
            if looks_left == 0 || self.items.is_empty() {
                self.end_loop();
            } else if !budget.spend() {
                return Due::Again;
            } else {
                let (slot, deadline) = self.look(cells, now);
                if deadline < now {
                    return Due::Slot(slot);
                }
                see(deadline, slot);
            }
        }
        Due::Nothing
    }

    /// Reads one entry, and removes it if it is dead.
    fn look(&mut self, cells: &mut impl Cells<u32>, now: Tick) -> (Slot, Tick) {
        let len = self.items.len();
        let index = if self.is_release_5() {
            self.below(len)
        } else {
            self.cursor % len
        };
        let slot = self.items.get(index);
        let deadline = cells
            .deadline(slot)
            .expect("an entry in the array has a deadline");
        let cycle = self.cycle.as_mut().expect("a look belongs to a cycle");
        cycle.looks_left -= 1;
        cycle.looked += 1;
        cycle.spent_ns += LOOK_NS;
        if deadline >= now {
            self.cursor = index + 1;
            return (slot, deadline);
        }
        cycle.dead += 1;
        cycle.spent_ns += EXPIRE_NS;
        self.cursor = index;
        (self.items.take(cells, index), deadline)
    }
}

impl ExpiryIndex for Sampled {
    /// The entry's position in the array.
    type Link = u32;
    type Config = SampledConfig;
    const NAME: &'static str = "sampled";

    fn new(now: Tick, config: &SampledConfig, seed: u64) -> Self {
        use crate::knobs::Knobs;
        assert!(config.is_valid());
        let mut index = Sampled {
            config: config.clone(),
            items: SlotArray::default(),
            cursor: 0,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            cycle: None,
            next_slow: now,
            next_fast: now,
            was_cut: false,
            stale_percent: 0.0,
            has_traffic: false,
            earliest: Tick::MAX,
        };
        // Each index that shares the cycles has its own time.
        let turn = seed % u64::from(config.shards) + 1;
        let interval = index.slow_interval_ms() / u64::from(config.shards);
        index.next_slow = Tick(now.0 + turn * interval);
        index
    }

    fn granularity(&self) -> Option<u64> {
        None
    }

    fn insert(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        self.note(cells, slot);
        self.items.push(cells, slot);
        let index = self.below(self.items.len());
        self.items.swap(cells, index, self.items.len() - 1);
    }

    fn remove(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        self.items.remove(cells, slot);
        self.has_traffic = true;
    }

    fn update(&mut self, cells: &mut impl Cells<u32>, slot: Slot, _old: Tick) {
        self.note(cells, slot);
    }

    fn moved(&mut self, cells: &mut impl Cells<u32>, old: Slot, new: Slot) {
        self.items.moved(cells, old, new);
    }

    fn pop_expired(&mut self, cells: &mut impl Cells<u32>, now: Tick, budget: &mut Budget) -> Due {
        self.pop_seeing(cells, now, budget, |_, _| {})
    }

    fn clock_went_back(&mut self, now: Tick) {
        let latest = Tick(now.0 + self.slow_interval_ms());
        self.next_slow = self.next_slow.min(latest);
        self.next_fast = self.next_fast.min(latest);
    }

    /// Returns the start of the next cycle, or the current time if one is running.
    fn next_due(&self) -> Option<Tick> {
        if self.items.is_empty() {
            None
        } else if self.cycle.is_some() {
            Some(Tick(0))
        } else if self.wants_fast() {
            Some(self.next_slow.min(self.next_fast))
        } else {
            Some(self.next_slow)
        }
    }

    /// Returns the number of all entries once the earliest deadline may have passed; 0 before.
    fn backlog(&self, now: Tick) -> usize {
        if self.earliest < now {
            self.items.len()
        } else {
            0
        }
    }

    fn len(&self) -> usize {
        self.items.len()
    }

    fn heap_bytes(&self) -> usize {
        self.items.heap_bytes()
    }

    fn check(&self, cells: &impl Cells<u32>) {
        self.items.check(cells, self.earliest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::host::Host;

    crate::index_suite!(
        Sampled,
        SampledConfig::default(),
        SampledConfig {
            effort: 10,
            shards: 3,
            ..SampledConfig::default()
        },
        SampledConfig {
            release: 5,
            ..SampledConfig::default()
        }
    );

    const START: Tick = Tick(1_000_000);

    /// Returns the number of dead entries found in each tenth of a second among `live` entries with
    /// an hour to live and `dead` dead ones.
    fn found(config: &SampledConfig, live: u64, dead: u64, tenths: u64) -> Vec<u64> {
        let mut host = Host::new(START);
        let mut index = Sampled::new(START, config, 1);
        for number in 0..live + dead {
            let ttl = if number < live { 3_600_000 } else { 0 };
            let slot = host.add(number, 1, Some(Tick(START.0 + ttl)));
            host.hold(slot);
            index.insert(&mut host, slot);
        }
        let tenth = |tenth| {
            let mut count = 0;
            while let Some(due) = index
                .next_due()
                .filter(|due| due.0 < START.0 + 100 * (tenth + 1))
            {
                let now = Tick(due.0.max(START.0 + 100 * tenth).max(START.0 + 1));
                host.set_now(now);
                while let Due::Slot(slot) = index.pop_expired(&mut host, now, &mut Budget(u32::MAX))
                {
                    host.free(slot);
                    count += 1;
                }
            }
            count
        };
        (0..tenths).map(tenth).collect()
    }

    #[test]
    fn few_dead_among_many_get_twenty_reads_per_tenth_of_a_second() {
        let found = found(&SampledConfig::default(), 50_000, 500, 100);
        // 99 slow cycles read 20 of 50,500 each; 500 of them are dead.
        let sum: u64 = found.iter().sum();
        assert!((8..40).contains(&sum), "{sum} found");
    }

    #[test]
    fn one_dead_entry_in_six_is_found_as_slowly_as_measured_on_redis() {
        // A million live and 200,000 dead, both with deadlines: within 30 s Redis 8.6 found 2,686
        // of them after the first second, and Valkey 9.1 4,559.
        let found = found(&SampledConfig::default(), 250_000, 50_000, 310);
        let sum: u64 = found[10..].iter().sum();
        assert!((2_000..5_000).contains(&sum), "{sum} found");
    }

    #[test]
    fn half_of_the_dead_entries_are_found_in_one_walk() {
        let found = found(&SampledConfig::default(), 50_000, 50_000, 10);
        assert_eq!(found.iter().sum::<u64>(), 50_000);
    }

    #[test]
    fn a_cycle_ends_in_time() {
        // A slow cycle of 25 ms and 1.15 µs for each dead entry; after the insertions, a fast one.
        let found = found(&SampledConfig::default(), 0, 200_000, 4);
        assert_eq!(
            found[0], 0,
            "the first slow cycle comes after a tenth of a second"
        );
        assert!((21_000..24_000).contains(&found[2]), "{} found", found[2]);
        assert!((21_000..24_000).contains(&found[3]), "{} found", found[3]);
    }

    #[test]
    fn release_5_stops_at_a_quarter_of_dead_entries() {
        let config = SampledConfig {
            release: 5,
            ..SampledConfig::default()
        };
        let left = 5_000 - found(&config, 5_000, 5_000, 100).iter().sum::<u64>();
        let percent = left * 100 / (5_000 + left);
        assert!((15..30).contains(&percent), "{percent} % left");
    }

    #[test]
    fn ten_iterations_read_two_hundred_entries() {
        let config = SampledConfig {
            release: 5,
            iterations: 10,
            ..SampledConfig::default()
        };
        let found = found(&config, 0, 10_000, 10);
        assert_eq!(found[1..], [200; 9], "all dead: 10 loops of 20 a cycle");
    }
}

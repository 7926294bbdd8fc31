//! S3-FIFO-W: S3-FIFO with correlation windows, a moving border, and sizes.
//!
//! # Idea
//! Requests for one key that follow each other closely are one use of it and predict nothing. So a
//! hit does not count while its entry is among the newest of its queue: in a *correlation window*
//! of three tenths of small, or of a fiftieth of main. As only later hits count, one of them is
//! sufficient to lead to main.
//!
//! The border between small and main moves. Small's ghosts have an age: those evicted last would
//! still be held if small were a little longer. Main's last victims are remembered for the same
//! purpose. When the last victims of one queue return more than twice as often as the other's, that
//! queue grows by a hundredth of the cache. This is decided once per hundred returns, or once
//! per returns of a hundredth of the entries, whichever are more; a quarter of the keys is counted.
//! In caches of fewer than 1,000 entries, where a hundred returns take long, all keys are counted,
//! and the border moves by up to eight hundredths while no victim of the other queue returns. The
//! first decisions move it by more in caches of all sizes, because where it starts is arbitrary.
//!
//! An entry that weighs twice the mean takes the place of two others. So it needs one hit more to
//! lead to main, and to be spared there; above eight times the mean, two more. An entry that weighs
//! less than a third of the mean leads to main without a hit. If all weights are equal, this does
//! nothing.
//!
//! An entry that expires in main was requested repeatedly, and nothing is known against its key. So
//! these keys are remembered, and enter main when they are requested again. They say nothing about
//! the border. Without TTLs this does nothing.
//!
//! # Source
//! Our own, of known parts: S3-FIFO (J. Yang, Y. Zhang, Z. Qiu, Y. Yue, K. V. Rashmi, *FIFO queues
//! are all you need for cache eviction*, SOSP 2023) with its adaptive form S3-FIFO-D; the
//! correlated references of LRU-K (E. J. O'Neil, P. E. O'Neil, G. Weikum, SIGMOD 1993), applied to
//! the small queue by Clock2Q+ (Zhai et al., 2025, <https://arxiv.org/abs/2511.21958>). New are the
//! window of main, the windows without their own bits, ghosts that serve both purposes, ghosts of
//! expired entries, and hits needed by weight (that a large entry is worth less is known from
//! GreedyDual-Size-Frequency). `docs/lab/s3fifo-w.md` has the effect of each part.
//!
//! # State
//! Per entry: 8 bits and a 4-byte reference, as in [`s3fifo`](super::s3fifo). The windows take no
//! bits, because they are kept as a set of the queues' newest epochs. Besides S3-FIFO's ghosts, one
//! in four of main's last victims is remembered, 5 bytes per 80 entries; all of them in caches of
//! fewer than 1,000 entries, which takes some 3 KB. In all under 10 bytes per entry with 50,000
//! entries, under 16 with 2,000 (asserted in `promises.rs`, without expiry). Ghosts of expired
//! entries add to that; there are none before an entry expires in main.
//!
//! # Cost
//! The same as in S3-FIFO, one test of a bit at a hit, a second look-up of ghosts at a quarter of
//! the misses, and two multiplications for each entry that reaches the end of a queue.
//!
//! # Knobs
//! `small` (0.1; 0.01 to 0.95): the small queue's initial share of the capacity. `ghost` (0.9; 0 to
//! 10): the weight that the ghost queue remembers, as a share of the capacity. `threshold` (1; 1 to
//! 3): number of counted hits in the small queue that lead to main. `window` (0.3; 0 to 0.9): the
//! window of small, as a share of its capacity. `main_window` (0.02; 0 to 0.9): the window of main,
//! as a share of the capacity. `step` (0.01; 0 to 0.5): share of the capacity by which the border
//! moves; 0 keeps it. `expired` (0.25; 0 to 1): the weight of entries expired in main whose keys
//! are remembered, as a share of the capacity. `sizes` (1; 0 or 1): whether the number of hits that
//! an entry needs depends on its weight; with 0 fewer bytes miss.
//!
//! # Departures
//! None, because there is no source. A window is longer than stated by at most a 24th of its queue,
//! because it ends where an epoch begins.
//!
//! # Avoid when
//! The cache holds only a few dozen entries, so that the windows and the comparison of ghosts have
//! too few to work with.

use super::s3fifo::{S3Fifo, S3FifoConfig};
use crate::knobs::Knobs;
#[cfg(not(any(test, feature = "std")))]
use crate::parts::float::Float as _;
use crate::parts::ghost::Ghost;
use crate::{Admit, Budget, Cells, Eviction, Facts, Marker, OnHit, Policy, Slot};

/// Share of the capacity whose victims are compared: those that left small, and those that left
/// main, while victims of this weight followed.
const MARGIN: f64 = 0.05;
/// Number of counted returns from which on the two queues are compared: this many, and the number
/// of entries divided by `ENTRIES_PER_RETURN`, which is a hundredth of the entries in returns of
/// all keys. With fewer, the border of a large cache follows short phases.
const RETURNS_MIN: usize = 25;
const ENTRIES_PER_RETURN: usize = 400;
/// Bits of a key's hash that are 0 for the keys whose returns are counted, one in four. The ghosts'
/// tables use other bits.
const COUNTED: u64 = 3 << 24;
/// In a cache with fewer entries, the returns of all keys are counted, because a quarter of them
/// would be too few for a decision. Above twice as many entries, a quarter is counted again.
const ENTRIES_COUNTED: usize = 1000;
/// In these small caches the border moves by more than one step after this number of decisions in
/// the same direction, during which no victim of the other queue returned.
const CLEAR_MIN: i32 = 4;
/// Maximum number of steps by which the border moves at once, a power of two.
const STEPS_MAX: i32 = 8;
/// Number of steps of the first decision, in caches of all sizes, if no victim of the other queue
/// returned. It falls to a half after `EARLY_HALF` decisions, to a third after twice as many.
const EARLY_STEPS: u32 = 20;
const EARLY_HALF: u32 = 2;
/// A queue grows if its last victims return more than this many times as often as the other's.
const RETURNS_FACTOR: u32 = 2;
/// Smallest and largest share of the capacity for small.
const SMALL_MIN: f64 = 0.01;
const SMALL_MAX: f64 = 0.95;
/// Bytes per remembered victim or expired entry of main, including the free places of its table.
const BYTES_PER_GHOST: f64 = 5.4;

crate::knobs! {
    /// Knobs of [`S3FifoW`].
    pub struct S3FifoWConfig {
        /// Initial share of the capacity for the small queue.
        small: f64 = 0.1, 0.01 => 0.95;
        /// Weight that the ghost queue remembers, as a share of the capacity.
        ghost: f64 = 0.9, 0.0 => 10.0;
        /// Number of counted hits in the small queue that lead to main.
        threshold: u8 = 1, 1 => 3;
        /// Window of the small queue, as a share of its capacity.
        window: f64 = 0.3, 0.0 => 0.9;
        /// Window of the main queue, as a share of the capacity.
        main_window: f64 = 0.02, 0.0 => 0.9;
        /// Weight of entries expired in main that is remembered, as a share of the capacity.
        expired: f64 = 0.25, 0.0 => 1.0;
        /// Share of the capacity by which the border moves.
        step: f64 = 0.01, 0.0 => 0.5;
        /// 1 if large entries need more hits than others and small ones fewer, else 0.
        sizes: u8 = 1, 0 => 1;
    }
}

/// The S3-FIFO-W policy.
#[derive(Clone, Debug)]
pub struct S3FifoW {
    queues: S3Fifo,
    /// Last victims of main.
    lost: Ghost,
    /// Entries that expired in main.
    expired: Ghost,
    /// Number of the last victims of small and of main that were requested again.
    returns: [u32; 2],
    /// Bits of a key's hash that are 0 if its returns are counted: `COUNTED`, or 0 for all keys.
    uncounted: u64,
    /// Number of steps by which the border moved last, negative if small shrank.
    steps: i32,
    /// Number of consecutive decisions in the same direction during which no victim of the other
    /// queue returned, negative if small shrank.
    clear: i32,
    /// Number of decisions so far.
    decisions: u32,
    capacity: u64,
    config: S3FifoWConfig,
}

impl S3FifoW {
    fn margin(capacity: u64) -> u64 {
        ((capacity as f64 * MARGIN) as u64).max(1)
    }

    /// Weight of main's victims that are remembered, which are those whose returns are counted.
    fn counted_margin(&self) -> u64 {
        let all = Self::margin(self.capacity);
        let counted = if self.uncounted == 0 { all } else { all / 4 };
        counted.max(1)
    }

    /// Whether returns of the key with this hash are counted.
    #[inline]
    fn is_counted(&self, key_hash: u64) -> bool {
        key_hash & self.uncounted == 0
    }

    /// Chooses the keys whose returns are counted.
    #[cold]
    fn choose_counted(&mut self, live: usize) {
        let uncounted = match () {
            () if live < ENTRIES_COUNTED => 0,
            () if live > 2 * ENTRIES_COUNTED => COUNTED,
            () => self.uncounted,
        };
        if uncounted != self.uncounted {
            self.uncounted = uncounted;
            self.lost.resize(self.counted_margin());
        }
    }

    fn set_windows(&mut self) {
        let small = self.queues.small_capacity() as f64 * self.config.window;
        let main = self.capacity as f64 * self.config.main_window;
        self.queues.set_small_window(small.ceil() as u64);
        self.queues.set_main_window(main.ceil() as u64);
    }

    fn set_small_capacity(&mut self, small_capacity: f64) {
        let share = |share: f64| self.capacity as f64 * share;
        let least = share(SMALL_MIN).max(1.0);
        let small = small_capacity.min(share(SMALL_MAX)).max(least) as u64;
        self.queues.set_small_capacity(small.min(self.capacity));
        self.set_windows();
    }

    /// Counts a miss of a key that is a recent victim. `age` is the weight that left small since
    /// the key did, if the key is small's ghost.
    fn count_return(&mut self, age: Option<u64>, key_hash: u64, weight: u32, live: usize) {
        let margin = Self::margin(self.capacity);
        match age {
            Some(age) => self.returns[0] += u32::from(age <= margin),
            None => self.returns[1] += u32::from(self.lost.take(key_hash, weight)),
        }
        let returns = (self.returns[0] + self.returns[1]) as usize;
        if returns >= RETURNS_MIN.max(live / ENTRIES_PER_RETURN) {
            self.adapt();
            self.choose_counted(live);
        }
    }

    /// Remembers a victim of main.
    fn remember(&mut self, key_hash: u64, weight: u32, live: usize) {
        if self.lost.heap_bytes() == 0 {
            self.choose_counted(live);
        }
        let margin = u128::from(self.counted_margin());
        let expected = || (margin * live as u128 / u128::from(self.capacity.max(1))) as u64;
        self.lost.file(key_hash, weight, expected);
    }

    /// Weight of the expired entries that are remembered.
    fn expired_capacity(capacity: u64, config: &S3FifoWConfig) -> u64 {
        (capacity as f64 * config.expired) as u64
    }

    /// Remembers the key of an entry that is removed from main because it expired.
    #[cold]
    fn remember_expired(&mut self, cells: &impl Cells<u8>, slot: Slot) {
        let most = Self::expired_capacity(self.capacity, &self.config);
        if most == 0 {
            return;
        }
        let (live, capacity) = (cells.len() as u128, u128::from(self.capacity.max(1)));
        let expected = || (u128::from(most) * live / capacity) as u64;
        let (key_hash, weight) = (cells.key_hash(slot), cells.weight(slot));
        self.expired.file(key_hash, weight, expected);
    }

    /// Moves the border if one queue's last victims return much more often than the other's.
    #[cold]
    fn adapt(&mut self) {
        let [small, main] = self.returns;
        let direction = match () {
            () if small > RETURNS_FACTOR * main => 1,
            () if main > RETURNS_FACTOR * small => -1,
            () => 0,
        };
        let is_one_sided = small.min(main) == 0;
        let is_same = self.clear * direction >= 0 && is_one_sided;
        self.clear = if is_same { self.clear + direction } else { 0 };
        let is_fast = self.uncounted == 0 && self.clear.abs() > CLEAR_MIN;
        let factor = if is_fast {
            (2 * self.steps.abs()).clamp(1, STEPS_MAX)
        } else {
            1
        };
        self.steps = factor * direction;
        let early = EARLY_STEPS * EARLY_HALF / self.decisions.saturating_add(EARLY_HALF);
        self.decisions = self.decisions.saturating_add(1);
        let early = if is_one_sided { early as i32 } else { 0 };
        let steps = factor.max(early) * direction;
        if self.config.step > 0.0 && steps != 0 {
            let step = (self.capacity as f64 * self.config.step).max(1.0);
            let now = self.queues.small_capacity() as f64;
            self.set_small_capacity(now + step * f64::from(steps));
        }
        self.returns = self.returns.map(|returns| returns * 4 / 5);
    }
}

impl Policy for S3FifoW {
    type Meta = u8;
    type Config = S3FifoWConfig;
    const NAME: &'static str = "s3fifo-w";
    const ON_HIT: OnHit = OnHit::Mark;

    fn new(capacity: u64, config: &S3FifoWConfig, seed: u64) -> Self {
        assert!(config.is_valid(), "knobs are checked where they are read");
        let queues = S3FifoConfig {
            small: config.small.min(0.9),
            ghost: config.ghost,
            threshold: config.threshold,
        };
        let mut policy = S3FifoW {
            queues: S3Fifo::new(capacity, &queues, seed).with_sizes(config.sizes > 0),
            lost: Ghost::new(0),
            expired: Ghost::new(Self::expired_capacity(capacity, config)),
            returns: [0, 0],
            uncounted: COUNTED,
            steps: 0,
            clear: 0,
            decisions: 0,
            capacity,
            config: config.clone(),
        };
        policy.lost.resize(policy.counted_margin());
        policy.set_windows();
        policy
    }

    fn resize(&mut self, capacity: u64) {
        let share = self.queues.small_capacity() as f64 / self.capacity.max(1) as f64;
        self.queues.resize(capacity);
        let is_first = self.capacity == 0;
        self.capacity = capacity;
        let share = if is_first { self.config.small } else { share };
        self.set_small_capacity(capacity as f64 * share);
        self.lost.resize(self.counted_margin());
        let expired = Self::expired_capacity(capacity, &self.config);
        self.expired.resize(expired);
    }

    #[inline]
    fn miss(&mut self, facts: &impl Facts, key_hash: u64, weight: u32) -> Admit {
        let age = self.queues.miss_aged(key_hash, weight);
        if self.is_counted(key_hash) {
            self.count_return(age, key_hash, weight, facts.len());
        }
        if self.expired.take(key_hash, weight) {
            self.queues.return_to_main(key_hash);
        }
        Admit::Yes
    }

    forward!(queues: u8, insert reweigh moved usage);

    #[inline]
    fn marker(&self) -> Marker {
        self.queues.windowed_marker(3)
    }
    mark_by_marker!(u8);

    fn remove(&mut self, cells: &mut impl Cells<u8>, slot: Slot) {
        let deadline = cells.deadline(slot);
        let is_expired = deadline.is_some_and(|deadline| deadline < cells.now());
        if is_expired && self.queues.is_in_main(cells, slot) {
            self.remember_expired(cells, slot);
        }
        self.queues.remove(cells, slot);
    }

    #[inline]
    fn evict(&mut self, cells: &mut impl Cells<u8>, budget: &mut Budget) -> Eviction {
        let (eviction, was_small) = self.queues.evict_from(cells, budget);
        if let Eviction::Victim(slot) = eviction
            && !was_small
        {
            let key_hash = cells.key_hash(slot);
            if self.is_counted(key_hash) {
                self.remember(key_hash, cells.weight(slot), cells.len());
            }
        }
        eviction
    }

    fn heap_bytes(&self) -> usize {
        self.queues.heap_bytes() + self.lost.heap_bytes() + self.expired.heap_bytes()
    }

    fn heap_bytes_ahead(&self) -> usize {
        let counted = if self.uncounted == 0 { 1.0 } else { 0.25 };
        let lost = self.queues.len() as f64 * MARGIN * counted * BYTES_PER_GHOST;
        let lost = (lost as usize).saturating_sub(self.lost.heap_bytes());
        // Entries may never expire in main, so that nothing is reserved before the first one.
        let has_expired = self.expired.heap_bytes() > 0;
        let share = if has_expired {
            self.config.expired
        } else {
            0.0
        };
        let expired = self.queues.len() as f64 * share * BYTES_PER_GHOST;
        let expired = (expired as usize).saturating_sub(self.expired.heap_bytes());
        self.queues.heap_bytes_ahead() + lost + expired
    }

    fn check(&self, cells: &impl Cells<u8>) {
        self.queues.check(cells);
        self.lost.check();
        self.expired.check();
        assert!(self.queues.small_capacity() <= self.capacity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tick;
    use crate::suite::policy::Trial;

    fn misses(config: &S3FifoWConfig, capacity: u64, keys: &[u64]) -> (usize, Trial<S3FifoW>) {
        let mut trial = Trial::<S3FifoW>::new(capacity, config, 1);
        let mut misses = 0;
        for &key in keys {
            misses += usize::from(!trial.table.contains_key(&key));
            trial.request(key, 1, 1000);
        }
        trial.policy.check(&trial.host);
        (misses, trial)
    }

    #[test]
    fn a_burst_of_requests_does_not_lead_to_main() {
        // Each key is requested three times in a row and never again, beside 500 popular keys that
        // are requested at intervals longer than the window.
        let keys: Vec<u64> = (0..60_000u64)
            .flat_map(|step| {
                let burst = 1_000 + step;
                [burst, burst, burst, step % 500]
            })
            .collect();
        let with = S3FifoWConfig::default();
        let without = S3FifoWConfig {
            window: 0.0,
            main_window: 0.0,
            step: 0.0,
            ..with.clone()
        };
        let (with, _) = misses(&with, 1_000, &keys);
        let (without, _) = misses(&without, 1_000, &keys);
        assert!(with < 62_000, "{with}");
        assert!(without > with + 10_000, "{without} {with}");
    }

    #[test]
    fn a_key_that_expired_in_main_enters_main_again() {
        let keys: Vec<u64> = (0..3_000).flat_map(|key| [key, key / 3]).collect();
        let (_, mut trial) = misses(&S3FifoWConfig::default(), 1_000, &keys);
        let main: Vec<u64> = trial
            .table
            .iter()
            .filter_map(|(&key, &slot)| {
                let is_main = trial.policy.queues.is_in_main(&trial.host, slot);
                is_main.then_some(key)
            })
            .collect();
        let (expired, deleted) = (main[0], main[1]);
        trial
            .host
            .set_deadline(trial.table[&expired], Some(Tick(5)));
        trial.host.set_now(Tick(5));
        trial.policy.check(&trial.host);
        trial.host.set_now(Tick(6));
        trial.remove(expired);
        trial.remove(deleted);
        trial.request(expired, 1, 1000);
        trial.request(deleted, 1, 1000);
        let is_main = |key| {
            let slot = trial.table[key];
            trial.policy.queues.is_in_main(&trial.host, slot)
        };
        assert!(is_main(&expired));
        assert!(!is_main(&deleted), "a deleted key says nothing");
    }

    #[test]
    fn small_grows_when_its_victims_return_soon() {
        let config = S3FifoWConfig::default();
        let mut keys: Vec<u64> = (0..2_000).flat_map(|key| [key, key, key]).collect();
        keys.extend((0..40 * 130).map(|request| 10_000 + request));
        let (_, trial) = misses(&config, 1_000, &keys);
        assert_eq!(trial.policy.queues.small_capacity(), 100);
        // Each key returns once, after small has evicted it and 20 others.
        let returning = (0..20_000u64).flat_map(|step| [100_000 + step, 100_000 + step - 120]);
        keys.extend(returning);
        let (_, trial) = misses(&config, 1_000, &keys);
        assert!(trial.policy.queues.small_capacity() > 110);
    }

    #[test]
    fn the_border_follows_requests_that_go_up_and_down() {
        // The newest entries return first, so that the whole cache should be one queue. When a
        // quarter of the keys was counted and the border moved by one step at each decision, up to
        // 1.09 times as many requests missed as in a FIFO queue.
        let (objects, capacity) = (3_000u64, 300);
        let round = (0..objects).chain((0..objects).rev());
        let keys: Vec<u64> = round.cycle().take(50 * objects as usize).collect();
        let (misses, trial) = misses(&S3FifoWConfig::default(), capacity, &keys);
        let fifo = keys.len() as u64 / objects * (objects - capacity);
        assert!((misses as u64) < fifo * 104 / 100, "{misses} {fifo}");
        assert!(trial.policy.queues.small_capacity() > capacity / 2);
    }

    #[test]
    fn the_first_decisions_move_the_border_of_a_larger_cache_far() {
        // When each decision moved it by one step, 1.054 times as many requests missed as in a FIFO
        // queue.
        let (objects, capacity) = (20_000u64, 2_000);
        let round = (0..objects).chain((0..objects).rev());
        let keys: Vec<u64> = round.cycle().take(20 * objects as usize).collect();
        let (misses, trial) = misses(&S3FifoWConfig::default(), capacity, &keys);
        let fifo = 20 * (objects - capacity);
        assert!((misses as u64) < fifo * 103 / 100, "{misses} {fifo}");
        assert!(trial.policy.queues.small_capacity() > capacity / 2);
    }

    #[test]
    fn in_small_caches_returns_of_all_keys_are_counted() {
        let mut trial = Trial::<S3FifoW>::new(900, &S3FifoWConfig::default(), 1);
        // Each key is requested twice, so that main has victims.
        let keys = |count: u64| (0..count).flat_map(|key| [key, key.saturating_sub(90)]);
        for key in keys(5_000) {
            trial.request(key, 1, 1000);
        }
        assert_eq!(trial.policy.uncounted, 0);
        trial.policy.check(&trial.host);
        trial.resize(20_000, 1000);
        for key in keys(200_000) {
            trial.request(key, 1, 1000);
        }
        assert_eq!(trial.policy.uncounted, COUNTED);
        trial.policy.check(&trial.host);
    }

    #[test]
    fn a_large_entry_needs_more_hits_than_a_small_one() {
        // Among 900 entries of weight 10, one weighs 50 and one weighs 1. There are no windows.
        let config = S3FifoWConfig {
            window: 0.0,
            main_window: 0.0,
            step: 0.0,
            small: 0.95,
            ..Default::default()
        };
        let is_kept = |sizes, hits: &[u64]| {
            let config = S3FifoWConfig {
                sizes,
                ..config.clone()
            };
            let mut trial = Trial::<S3FifoW>::new(10_000, &config, 1);
            let weight = |key| match key {
                400 => 50,
                500 => 1,
                _ => 10,
            };
            let keys = (0..900).chain(hits.iter().copied()).chain(1_000..1_900);
            keys.for_each(|key| trial.request(key, weight(key), 1000));
            [400, 500].map(|key| trial.table.contains_key(&key))
        };
        assert_eq!(is_kept(0, &[400]), [true, false]);
        assert_eq!(is_kept(1, &[400]), [false, true]);
        assert_eq!(is_kept(1, &[400, 400]), [true, true]);
    }

    #[test]
    fn the_border_stays_within_its_bounds_at_any_capacity() {
        let mut policy = S3FifoW::new(0, &Default::default(), 1);
        for capacity in [0, 1, 2, 19, 20, 1_000, 7, u64::MAX / 2, 100] {
            policy.resize(capacity);
            for returns in [[25, 0], [0, 25]] {
                for _ in 0..300 {
                    policy.returns = returns;
                    policy.adapt();
                    let small = policy.queues.small_capacity();
                    assert!(small <= capacity);
                    assert!(small >= 1.min(capacity));
                    if capacity > 100 {
                        assert!(small < capacity / 100 * 96);
                    }
                }
            }
        }
    }
}

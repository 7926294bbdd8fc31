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
mod tests;

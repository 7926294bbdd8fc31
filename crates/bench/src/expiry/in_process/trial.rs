//! A trial: one index under one shape, with a fixed number of entries, on a simulated clock.
//!
//! The clock advances in milliseconds. The index is called at the times it requests, as if by a
//! server worker that is never late. The lag is therefore the index's own, without the machine's.
//! An expired entry that the index returns is replaced by a new one.
//!
//! A trial is run several times with the same sequence of timed steps. Each step counts with its
//! shortest time, which excludes most interruptions by other programs.

use super::host::{Host, link_bytes};
use super::shape::Shape;
use policy::expire::any::{AnyExpiry, ExpirySpec};
use policy::parts::chance::Chance;
use policy::{Budget, Due, ExpiryIndex, Facts, Slot, Tick};
use serde::Serialize;
use std::time::Instant;

/// Start of the clock. It is not at the beginning of a minute, so that work done once a minute does
/// not coincide with deadlines at whole minutes.
const START: u64 = 1_763_640_031_123;
/// Maximum number of steps per call, the same as the server's worker starts with.
const STEPS: u32 = 256;
/// Number of operations that are timed together.
const GROUP: usize = 256;
/// Minimum number of updates or deletions done at a time.
const BURST: f64 = 64.0;
/// Assumed size in bytes of a dead entry that is still held: that of a small entry.
pub(super) const ENTRY_BYTES: f64 = 64.0;
/// Number of memory measurements during the traffic.
const LOOKS: u64 = 8;

/// Results of a trial.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Figures {
    /// Bytes per entry for index and link, without the deadline, right after the entries were
    /// inserted. `bytes_per_item` is the mean during the traffic.
    pub bytes_filled: f64,
    pub bytes_per_item: f64,
    /// Bytes per entry for index and link, plus `ENTRY_BYTES` for each dead entry still held.
    pub memory_per_item: f64,
    /// Mean share of the entries that were dead.
    pub dead_share: f64,
    pub insert_ns: f64,
    pub update_ns: f64,
    pub remove_ns: f64,
    /// Total time of the calls that expire entries, per expired entry; `None` if no entry expired.
    pub pop_ns: Option<f64>,
    /// Total time per operation and expired entry.
    pub cpu_ns: f64,
    /// Number of steps per expired entry.
    pub scanned_per_expired: Option<f64>,
    pub expired: u64,
    /// Duration of the longest call of `STEPS` steps, in microseconds.
    pub pause_us_max: f64,
    /// Mean lateness of expired entries in milliseconds. An entry that did not expire counts with
    /// its lateness at the end.
    pub lag_ms_mean: f64,
    pub lag_ms_p99: f64,
    pub lag_ms_max: f64,
}

/// Times of a run's steps, which come in the same order in each run. Each step has its shortest
/// time.
#[derive(Default)]
struct Times {
    nanos: Vec<u32>,
    count: usize,
    /// Number of operations in all steps of one run.
    verbs: u64,
    /// Time to read the clock.
    clock: u32,
}

impl Times {
    fn new() -> Self {
        let mut times = Times::default();
        for _ in 0..1_000 {
            times.count = 0;
            times.time(0, || ());
        }
        Times {
            clock: times.nanos[0],
            ..Times::default()
        }
    }

    fn begin(&mut self) {
        (self.count, self.verbs) = (0, 0);
    }

    fn time<T>(&mut self, verbs: usize, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        let nanos = u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX);
        let nanos = nanos.saturating_sub(self.clock);
        if self.count == self.nanos.len() {
            self.nanos.push(nanos);
        }
        let least = &mut self.nanos[self.count];
        *least = nanos.min(*least);
        self.count += 1;
        self.verbs += verbs as u64;
        result
    }

    fn sum(&self) -> f64 {
        // The sum of an empty list is -0.
        self.nanos.iter().map(|&n| f64::from(n)).sum::<f64>() + 0.0
    }

    fn per_verb(&self) -> f64 {
        self.sum() / self.verbs.max(1) as f64
    }
}

/// Times of all runs of a trial.
struct Clocks {
    insert: Times,
    update: Times,
    remove: Times,
    pop: Times,
}

/// Counters of a run, which are the same in each run.
#[derive(Default)]
struct Counts {
    bytes_filled: f64,
    bytes: f64,
    dead: f64,
    looks: f64,
    steps: u64,
    lags_ms: Vec<u32>,
}

struct Trial<'a> {
    host: Host,
    index: AnyExpiry,
    shape: &'a Shape,
    count: usize,
    chance: Chance,
    clocks: &'a mut Clocks,
    counts: Counts,
    /// Entries returned by the last call.
    popped: Vec<Slot>,
}

/// Runs a trial several times.
pub(super) fn measure(spec: &ExpirySpec, shape: &Shape, count: usize, runs: usize) -> Figures {
    let mut clocks = Clocks {
        insert: Times::new(),
        update: Times::new(),
        remove: Times::new(),
        pop: Times::new(),
    };
    let mut counts = Counts::default();
    for _ in 0..runs.max(1) {
        for times in [
            &mut clocks.insert,
            &mut clocks.update,
            &mut clocks.remove,
            &mut clocks.pop,
        ] {
            times.begin();
        }
        let mut trial = Trial {
            host: Host::new(count, spec.link_bits(), START),
            index: AnyExpiry::new(Tick(START), spec, 1),
            shape,
            count,
            chance: Chance::new(1),
            clocks: &mut clocks,
            counts: Counts::default(),
            popped: Vec::new(),
        };
        trial.run();
        counts = trial.counts;
    }
    figures(spec, count, &clocks, counts)
}

fn figures(spec: &ExpirySpec, count: usize, clocks: &Clocks, mut counts: Counts) -> Figures {
    let link = f64::from(link_bytes(spec.link_bits()));
    let each = |bytes: f64| bytes / count as f64;
    let expired = clocks.pop.verbs;
    let per_expired = |sum: f64| (expired > 0).then(|| sum / expired as f64);
    let all = [&clocks.insert, &clocks.update, &clocks.remove, &clocks.pop];
    let verbs: u64 = all.iter().map(|times| times.verbs).sum();
    let bytes_per_item = link + each(counts.bytes / counts.looks);
    let dead_share = each(counts.dead / counts.looks);
    let pause = clocks.pop.nanos.iter().max().copied().unwrap_or(0);
    counts.lags_ms.sort_unstable();
    let lags = &counts.lags_ms;
    let lag_sum = lags.iter().map(|&lag| f64::from(lag)).sum::<f64>() + 0.0;
    let at = |share: f64| {
        let place = (lags.len() as f64 * share) as usize;
        f64::from(lags.get(place).or(lags.last()).copied().unwrap_or(0))
    };
    Figures {
        bytes_filled: link + each(counts.bytes_filled),
        bytes_per_item,
        memory_per_item: bytes_per_item + dead_share * ENTRY_BYTES,
        dead_share,
        insert_ns: clocks.insert.per_verb(),
        update_ns: clocks.update.per_verb(),
        remove_ns: clocks.remove.per_verb(),
        pop_ns: per_expired(clocks.pop.sum()),
        cpu_ns: all.iter().map(|times| times.sum()).sum::<f64>() / verbs as f64,
        scanned_per_expired: per_expired(counts.steps as f64),
        expired,
        pause_us_max: f64::from(pause) / 1_000.0,
        lag_ms_mean: lag_sum / lags.len().max(1) as f64,
        lag_ms_p99: at(0.99),
        lag_ms_max: at(1.0),
    }
}

impl Trial<'_> {
    fn run(&mut self) {
        let all: Vec<Slot> = (0..self.count as u32).map(Slot).collect();
        let mut residents = Vec::with_capacity(self.count);
        for _ in &all {
            residents.push(self.shape.deadline_of_resident(&mut self.chance, START));
        }
        for (slots, deadlines) in all.chunks(GROUP).zip(residents.chunks(GROUP)) {
            self.insert_at(slots, deadlines);
        }
        self.counts.bytes_filled = self.index.heap_bytes() as f64;
        for _ in 0..(self.count / 5).div_ceil(GROUP) {
            self.update(GROUP);
            self.replace(GROUP);
        }
        self.traffic();
        let left = self
            .host
            .dead_for()
            .map(|ms| ms.min(u64::from(u32::MAX)) as u32);
        self.counts.lags_ms.extend(left);
    }

    fn insert(&mut self, slots: &[Slot]) {
        let now = self.host.now;
        let mut deadlines = Vec::with_capacity(slots.len());
        for _ in slots {
            deadlines.push(self.shape.deadline(&mut self.chance, now));
        }
        self.insert_at(slots, &deadlines);
    }

    fn insert_at(&mut self, slots: &[Slot], deadlines: &[u64]) {
        let (host, index) = (&mut self.host, &mut self.index);
        self.clocks.insert.time(slots.len(), || {
            for (&slot, &deadline) in slots.iter().zip(deadlines) {
                host.set_deadline(slot, deadline);
                index.insert(host, slot);
            }
        });
    }

    fn any_slots(&mut self, count: usize) -> Vec<Slot> {
        let limit = self.count as u64;
        (0..count)
            .map(|_| Slot(self.chance.below(limit) as u32))
            .collect()
    }

    /// Updates the deadlines of `count` entries.
    fn update(&mut self, count: usize) {
        let slots = self.any_slots(count);
        let now = self.host.now;
        let mut changes = Vec::with_capacity(count);
        for slot in slots {
            changes.push((slot, self.shape.deadline(&mut self.chance, now)));
        }
        let (host, index) = (&mut self.host, &mut self.index);
        self.clocks.update.time(changes.len(), || {
            for &(slot, deadline) in &changes {
                if let Some(old) = host.set_deadline(slot, deadline) {
                    index.update(host, slot, Tick(old));
                }
            }
        });
    }

    /// Deletes `count` entries and inserts new ones.
    fn replace(&mut self, count: usize) {
        let mut slots = self.any_slots(count);
        slots.sort_unstable();
        slots.dedup();
        let (host, index) = (&mut self.host, &mut self.index);
        self.clocks.remove.time(slots.len(), || {
            for &slot in &slots {
                index.remove(host, slot);
                host.free(slot);
            }
        });
        self.insert(&slots);
    }

    /// Simulates the traffic of the shape.
    fn traffic(&mut self) {
        let rate = |per_ms: Option<u64>| per_ms.map_or(0.0, |ms| self.count as f64 / ms as f64);
        let (refreshes, deletions) = (rate(self.shape.refresh_ms), rate(self.shape.delete_ms));
        let (mut to_refresh, mut to_delete) = (0.0, 0.0);
        let look_every = self.shape.span_ms / LOOKS;
        for at in 1..=self.shape.span_ms {
            self.host.now = START + at;
            to_refresh += refreshes;
            if to_refresh >= BURST {
                self.update(to_refresh as usize);
                to_refresh = 0.0;
            }
            to_delete += deletions;
            if to_delete >= BURST {
                self.replace(to_delete as usize);
                to_delete = 0.0;
            }
            if self.index.next_due().is_some_and(|due| due.0 <= START + at) {
                self.expire();
            }
            if at % look_every == 0 {
                self.counts.bytes += self.index.heap_bytes() as f64;
                self.counts.dead += self.host.dead_for().count() as f64;
                self.counts.looks += 1.0;
            }
        }
    }

    /// Calls the index until no more entries are due now.
    fn expire(&mut self) {
        let now = self.host.now;
        loop {
            let mut popped = core::mem::take(&mut self.popped);
            popped.clear();
            // Memory is reserved before the time is taken, because each step may return an entry.
            popped.reserve(STEPS as usize);
            let lags = &mut self.counts.lags_ms;
            lags.reserve(STEPS as usize);
            let (host, index) = (&mut self.host, &mut self.index);
            let mut budget = Budget(STEPS);
            let has_more = self.clocks.pop.time(0, || {
                loop {
                    match index.pop_expired(host, Tick(now), &mut budget) {
                        Due::Slot(slot) => {
                            let deadline = host.deadline(slot).map_or(now, |deadline| deadline.0);
                            lags.push(
                                (now.saturating_sub(deadline + 1)).min(u64::from(u32::MAX)) as u32
                            );
                            host.free(slot);
                            popped.push(slot);
                        }
                        Due::Again => return true,
                        Due::Nothing => return false,
                    }
                }
            });
            self.clocks.pop.verbs += popped.len() as u64;
            self.counts.steps += u64::from(STEPS - budget.0);
            for slots in popped.chunks(GROUP) {
                self.insert(slots);
            }
            self.popped = popped;
            if !has_more {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::SHAPES;
    use super::*;

    fn figures(spec: &str, shape: &str) -> Figures {
        let shape = SHAPES.iter().find(|other| other.name == shape);
        let spec = spec.parse().expect("it is well formed");
        measure(&spec, shape.expect("there is one"), 1_000, 2)
    }

    #[test]
    fn the_wheel_is_never_late_and_looks_at_little() {
        for shape in SHAPES {
            let figures = figures("wheel", shape.name);
            assert_eq!(figures.lag_ms_max, 0.0, "{}", shape.name);
            assert_eq!(figures.dead_share, 0.0, "{}", shape.name);
        }
    }

    #[test]
    fn what_is_never_handed_out_is_counted_as_late() {
        let figures = figures("lazy", "thousand");
        assert_eq!((figures.expired, figures.pop_ns), (0, None));
        assert!(figures.dead_share > 0.2, "{}", figures.dead_share);
        assert!(figures.lag_ms_max > 100_000.0);
        assert!(figures.memory_per_item > 0.2 * ENTRY_BYTES);
        assert!(Times::default().sum().is_sign_positive());
    }

    #[test]
    fn a_crawl_is_late_by_half_its_interval_on_average() {
        let figures = figures("crawler:10", "thousand");
        let mean = figures.lag_ms_mean;
        assert!((4_500.0..5_500.0).contains(&mean), "{mean} ms");
    }
}

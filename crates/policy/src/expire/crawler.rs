//! `crawler`: memcached's crawl over all entries, at an interval.
//!
//! # Idea
//! No order is kept. Once per interval every entry that has a deadline is read, and the dead ones
//! are returned: none is missed, and nearly every read finds a live entry.
//!
//! # Source
//! memcached's LRU crawler, `crawler.c`, release 1.4.24 (2015) and later,
//! <https://github.com/memcached/memcached/blob/master/crawler.c>; *full cache scan* in J. Yang:
//! Designing Efficient and Scalable Key-value Cache Management Systems, PhD thesis, Carnegie Mellon
//! University 2024, Table 4.2.
//!
//! # State
//! Per entry: a 4-byte reference in an array and 4 bytes for its place there. Besides: a page of
//! 4 KiB that is not full, 8 bytes a page.
//!
//! # Cost
//! Insert, update, remove and moved O(1). A crawl takes a step for each entry held, whether or not
//! one of them is dead.
//!
//! # Knobs
//! `interval` (60; 1 to 86400): seconds from the start of one crawl to the start of the next.
//!
//! # Departures
//! memcached crawls its LRU lists by an item of its own in each, sleeps between the items so that a
//! crawl lasts, and stretches the interval up to an hour while crawls find little; here the
//! interval is fixed, and the budget divides a crawl. It also reads entries without a deadline;
//! here only entries in the index are read.
//!
//! # Avoid when
//! There are more than a few entries, or clients wait for them to be removed.

use crate::parts::array::SlotArray;
use crate::{Budget, Cells, Due, ExpiryIndex, Slot, Tick};

crate::knobs! {
    /// Knobs of [`Crawler`].
    pub struct CrawlerConfig {
        /// Seconds from the start of one crawl to the start of the next.
        interval: u32 = 60, 1 => 86_400;
    }
}

/// Index that scans all entries at an interval; see the [module](self).
pub struct Crawler {
    interval_ms: u64,
    items: SlotArray,
    /// During a crawl, the number of entries at the start of the array that are still to be read. A
    /// crawl reads from the end to the start, because the last entry takes the place of a removed
    /// one.
    cursor: Option<usize>,
    next_crawl: Tick,
    /// Lower bound of all deadlines.
    earliest: Tick,
}

impl Crawler {
    /// Records a deadline, and a backward jump of the clock if there was one.
    fn note(&mut self, cells: &impl Cells<u32>, slot: Slot) {
        let deadline = cells
            .deadline(slot)
            .expect("an entry in the index has a deadline");
        self.earliest = self.earliest.min(deadline);
        self.clock_went_back(cells.now());
    }

    /// Removes the entry at this place, which the last entry then takes.
    fn take(&mut self, cells: &mut impl Cells<u32>, index: usize) -> Slot {
        let slot = self.items.take(cells, index);
        if self.items.is_empty() {
            self.earliest = Tick(u64::MAX);
            self.cursor = None;
        }
        slot
    }

    /// Starts a crawl if one is due.
    fn begin(&mut self, now: Tick) {
        if self.cursor.is_some() || self.items.is_empty() || now < self.next_crawl {
            return;
        }
        let missed = (now.0 - self.next_crawl.0) / self.interval_ms;
        self.next_crawl = Tick(self.next_crawl.0 + (missed + 1) * self.interval_ms);
        self.cursor = Some(self.items.len());
    }
}

impl ExpiryIndex for Crawler {
    /// The entry's position in the array.
    type Link = u32;
    type Config = CrawlerConfig;
    const NAME: &'static str = "crawler";

    fn new(now: Tick, config: &CrawlerConfig, _seed: u64) -> Self {
        use crate::knobs::Knobs;
        assert!(config.is_valid());
        let interval_ms = u64::from(config.interval) * 1_000;
        Crawler {
            interval_ms,
            items: SlotArray::default(),
            cursor: None,
            next_crawl: Tick(now.0 + interval_ms),
            earliest: Tick(u64::MAX),
        }
    }

    /// Returns one interval, because an entry that expires right after it was read is found by the
    /// next crawl.
    fn granularity(&self) -> Option<u64> {
        Some(self.interval_ms)
    }

    fn insert(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        self.note(cells, slot);
        self.items.push(cells, slot);
    }

    fn remove(&mut self, cells: &mut impl Cells<u32>, slot: Slot) {
        let taken = self.take(cells, cells.get(slot) as usize);
        assert_eq!(taken, slot, "only what was inserted is removed");
    }

    fn update(&mut self, cells: &mut impl Cells<u32>, slot: Slot, _old: Tick) {
        self.note(cells, slot);
    }

    fn moved(&mut self, cells: &mut impl Cells<u32>, old: Slot, new: Slot) {
        self.items.moved(cells, old, new);
    }

    fn pop_expired(&mut self, cells: &mut impl Cells<u32>, now: Tick, budget: &mut Budget) -> Due {
        self.begin(now);
        while let Some(cursor) = self.cursor {
            // Removals may have left fewer entries.
            let Some(index) = cursor.min(self.items.len()).checked_sub(1) else {
                self.cursor = None;
                // The next crawl is already due if this one lasted for an interval.
                self.begin(now);
                continue;
            };
            if !budget.spend() {
                return Due::Again;
            }
            self.cursor = Some(index);
            let deadline = cells
                .deadline(self.items.get(index))
                .expect("an entry in the array has a deadline");
            if deadline < now {
                return Due::Slot(self.take(cells, index));
            }
        }
        Due::Nothing
    }

    fn clock_went_back(&mut self, now: Tick) {
        self.next_crawl = self.next_crawl.min(Tick(now.0 + self.interval_ms));
    }

    /// Returns the start of the next crawl, or the current time if one is running.
    fn next_due(&self) -> Option<Tick> {
        match self.cursor {
            _ if self.items.is_empty() => None,
            Some(_) => Some(Tick(0)),
            None => Some(self.next_crawl),
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
        Crawler,
        CrawlerConfig::default(),
        CrawlerConfig { interval: 1 }
    );

    #[test]
    fn each_crawl_reads_every_entry() {
        let start = Tick(1_000_000);
        let mut host = Host::new(start);
        let mut index = Crawler::new(start, &CrawlerConfig::default(), 1);
        for number in 0..1_000 {
            let deadline = if number % 100 == 0 { 10 } else { 3_600_000 };
            let slot = host.add(number, 1, Some(Tick(start.0 + deadline)));
            host.hold(slot);
            index.insert(&mut host, slot);
        }
        let now = index.next_due().expect("a crawl comes");
        assert_eq!(now.0, start.0 + 60_000);
        let mut budget = Budget(10_000);
        let mut found = 0;
        while let Due::Slot(slot) = index.pop_expired(&mut host, now, &mut budget) {
            host.free(slot);
            found += 1;
        }
        assert_eq!((found, budget.0), (10, 9_000));
        assert_eq!(index.next_due(), Some(Tick(start.0 + 120_000)));
    }
}

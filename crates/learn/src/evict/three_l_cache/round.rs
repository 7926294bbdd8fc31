//! A pass of the collection through the cache, beginning at the least recently used entry, and the
//! values that it adapts for the next pass.

use super::object::Object;

/// Number of entries just beyond the old end that are candidates without further conditions.
const ALWAYS_MORE: usize = 2;
/// Number of classes of victims, by the logarithm of their requests.
const CLASSES: usize = 16;
/// Quantile of the victims' requests that is the maximum number of requests of a candidate.
const SHARE_OF_VICTIMS: f64 = 0.99;
/// Maximum size of the old end and of the reserve, in hundredths of the cache.
const PERCENT_MAX: u64 = 100;

/// Number of entries examined in a part of the cache, and the number of victims from that part.
#[derive(Clone, Copy, Debug, Default)]
struct Yield {
    victims: u64,
    collected: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Round {
    /// Whether the collection adapts to its yield; false if the policy minimizes missed objects
    /// instead of missed bytes.
    is_adaptive: bool,
    /// Number of entries when the pass began.
    pub len: usize,
    /// Number of entries examined so far.
    examined: usize,
    /// Number of requests after the first at which an entry stops being a candidate.
    requests_max: u16,
    /// Size of the old end in which every entry is a candidate, in hundredths of the entries.
    always_percent: u64,
    /// Weight of new entries that are exempt from collection, in hundredths of the cache.
    pub reserve: u64,
    /// Yield of the old end; 0 until the pass has left it.
    old: Yield,
    /// Yield of all other entries.
    rest: Yield,
    /// Number of the last request of the youngest candidate.
    youngest: u64,
    victims_by_requests: [u32; CLASSES],
}

impl Round {
    pub fn new(is_adaptive: bool) -> Round {
        Round {
            is_adaptive,
            len: 0,
            examined: 0,
            requests_max: if is_adaptive { 1 } else { u16::MAX },
            always_percent: 1,
            reserve: 2,
            old: Yield::default(),
            rest: Yield::default(),
            youngest: 0,
            victims_by_requests: [0; CLASSES],
        }
    }

    fn always(&self) -> usize {
        (self.len as u64 * self.always_percent / 100) as usize
    }

    /// Examines the next entry. Returns true if it is a candidate.
    pub fn examine(&mut self, object: &Object) -> bool {
        let always = self.always();
        if self.old.collected == 0 && self.examined > always {
            self.old = std::mem::take(&mut self.rest);
        }
        let is_rare = object.requests.saturating_sub(1) < self.requests_max;
        let is_candidate = is_rare || self.examined <= always + ALWAYS_MORE;
        self.examined += 1;
        if is_candidate {
            self.youngest = object.last;
            self.rest.collected += 1;
        }
        is_candidate
    }

    /// Returns true once as many entries were examined as there were when the pass began.
    pub fn is_complete(&self) -> bool {
        self.examined >= self.len
    }

    /// Counts a victim of the ranking.
    pub fn count_victim(&mut self, object: &Object) {
        let class = object.requests.max(1).ilog2() as usize;
        self.victims_by_requests[class] += 1;
        self.rest.victims += u64::from(object.last <= self.youngest);
    }

    /// Begins the next pass through `len` entries, of which `fresh` are new and not collected yet.
    pub fn renew(&mut self, len: usize, fresh: usize) {
        self.len = len;
        self.examined = 0;
        if !self.is_adaptive {
            return;
        }
        self.requests_max = self.bound_of_requests();
        let (old, rest) = (self.old, self.rest);
        if old.victims * rest.collected > rest.victims * old.collected {
            self.always_percent = (self.always_percent + 1).min(PERCENT_MAX);
        } else {
            self.always_percent = (self.always_percent - 1).max(1);
        }
        if old.victims + rest.victims > fresh as u64 {
            self.reserve = (self.reserve + 1).min(PERCENT_MAX);
        } else {
            self.reserve = (self.reserve / 2).max(1);
        }
        (self.old, self.rest) = (Yield::default(), Yield::default());
        self.victims_by_requests = [0; CLASSES];
    }

    /// Returns the number of requests that 99 % of the victims did not exceed. It is interpolated
    /// within a class, because only the counts of the classes are known.
    fn bound_of_requests(&self) -> u16 {
        let victims = self.victims_by_requests;
        let wanted = SHARE_OF_VICTIMS * f64::from(victims.iter().sum::<u32>());
        let mut before = 0.0;
        for (class, &count) in victims.iter().enumerate() {
            let count = f64::from(count);
            if before + count < wanted {
                before += count;
                continue;
            }
            if class == 0 {
                return 1;
            }
            let low = f64::from(1u16 << (class - 1));
            return (low + (low * (wanted - before) / count).ceil()) as u16;
        }
        1
    }

    pub fn check(&self) {
        assert!(
            self.examined <= self.len,
            "a round ends when it is complete"
        );
        assert!((1..=PERCENT_MAX).contains(&self.always_percent));
        assert!((1..=PERCENT_MAX).contains(&self.reserve));
        assert!(self.requests_max > 0);
    }
}

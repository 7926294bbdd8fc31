//! Generator of requests with a daily rhythm, over any number of days of the trace's clock.
//!
//! It is a single pattern with all properties that studies of production traces report for long
//! ones. A knob controls each property, and a test measures its effect:
//! - The rate varies between day and night.
//! - The popularity of objects varies with the hour.
//! - Objects are born all the time, and their popularity fades.
//! - Some objects are requested once.
//! - Once a day, at the same hour, a job requests the same objects in order, at a higher rate than
//!   all other requests.
//!
//! It is written `days[:KNOB=VALUE…]`, and is a whole trace: it cannot be mixed with other
//! patterns.
//!
//! | knob | default | |
//! |---|---|---|
//! | `swing` | 0.5 | the rate is (1 − swing · cos) of its mean, lowest at midnight |
//! | `alpha` | 0.8 | the k-th permanent object is requested in proportion to k^−alpha |
//! | `turn` | 0.5 | a permanent object's popularity varies by ± turn around its own hour |
//! | `fading` | 0.35 | share of requests for fading objects |
//! | `half` | 1 | half-life of a fading object's popularity, in days |
//! | `births` | number of permanent objects | fading objects born in a day |
//! | `once` | 0.1 | share of requests for objects that are requested only once |
//! | `scan` | 0.15 | share of requests made by the daily scan |
//!
//! Each kind has its own keys: permanent objects 4·n, fading ones 4·n + 1, those requested once 4·n
//! + 2, scanned ones 4·n + 3.

use crate::number::decimal;
use crate::random::Random;
use crate::zipf::Zipf;
use std::f64::consts::TAU;

const DAY_MS: f64 = 86_400_000.0;
/// Fading objects are born in hourly groups, and ranked within their hour.
const HOURS: f64 = 24.0;
/// Zipf exponent of the ranks of fading objects.
const FADING_ALPHA: f64 = 0.9;
/// Start and duration of the scan: it begins at three and takes an hour.
const SCAN_BEGINS: f64 = 3.0 / HOURS;
const SCAN_TAKES: f64 = 1.0 / HOURS;
/// Number of hours before the trace in which fading objects may have been born: 54 half-lives of
/// the longest kind, because an age drawn from 53 bits is at most that.
const HOURS_BEFORE: u64 = 54 * HALF_DAYS_MAX * HOURS as u64;
const HALF_DAYS_MAX: u64 = 100;
const BIRTHS_MAX: f64 = 1e9;
const KINDS: u64 = 4;
/// Constant that separates the random stream for phases from those for sizes and TTLs.
const PHASES: u64 = 0xDA15;

/// Parameters of the pattern.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Days {
    swing: f64,
    alpha: f64,
    turn: f64,
    fading: f64,
    half_days: f64,
    births: f64,
    once: f64,
    scan: f64,
    objects: u64,
}

impl Days {
    /// Parses the pattern with the given number of permanent objects; `None` if it is malformed.
    pub(crate) fn parse(text: &str, objects: u64) -> Option<Days> {
        let mut days = Days {
            swing: 0.5,
            alpha: 0.8,
            turn: 0.5,
            fading: 0.35,
            half_days: 1.0,
            births: objects as f64,
            once: 0.1,
            scan: 0.15,
            objects,
        };
        for part in text.split(':').skip(1) {
            let (name, value) = part.split_once('=')?;
            let value = decimal(value)?;
            let (knob, range) = match name {
                "swing" => (&mut days.swing, 0.0..=0.95),
                "alpha" => (&mut days.alpha, 0.0..=100.0),
                "turn" => (&mut days.turn, 0.0..=1.0),
                "fading" => (&mut days.fading, 0.0..=1.0),
                "half" => (&mut days.half_days, 0.01..=HALF_DAYS_MAX as f64),
                "births" => (&mut days.births, 1.0..=BIRTHS_MAX),
                "once" => (&mut days.once, 0.0..=1.0),
                "scan" => (&mut days.scan, 0.0..=0.9),
                _ => return None,
            };
            *knob = range.contains(&value).then_some(value)?;
        }
        let taken = days.fading + days.once + days.scan;
        (text.split(':').next() == Some("days") && taken <= 1.0).then_some(days)
    }
}

/// Endless stream of times and keys.
pub(crate) struct DaysStream {
    days: Days,
    lasting: Zipf,
    /// Ranks among the objects born in one hour, and the number of these.
    ranks: Zipf,
    births_per_hour: u64,
    random: Random,
    /// Number of regular requests so far, and the number in a day.
    regular: u64,
    regular_per_day: f64,
    once: u64,
    /// Number of the scan's requests so far, and the number in a day.
    scanned: u64,
    scan_length: u64,
    seed: u64,
}

impl DaysStream {
    /// Creates a stream that begins at midnight, with a mean of `rate` requests a second.
    pub(crate) fn new(days: &Days, rate: f64, seed: u64) -> Self {
        assert!(rate > 0.0 && rate.is_finite());
        let per_day = rate * DAY_MS / 1000.0;
        let scan_length = (per_day * days.scan) as u64;
        let births_per_hour = ((days.births / HOURS) as u64).max(1);
        let mut random = Random::new(seed);
        DaysStream {
            lasting: Zipf::new(days.objects, days.alpha, random.bits()),
            ranks: Zipf::new(births_per_hour, FADING_ALPHA, random.bits()),
            births_per_hour,
            random,
            regular: 0,
            regular_per_day: per_day - scan_length as f64,
            once: 0,
            scanned: 0,
            scan_length,
            seed,
            days: days.clone(),
        }
    }

    /// Returns the time of the next regular request in days. The integral of the rate is the number
    /// of requests.
    fn regular_at(&self) -> f64 {
        let requests = self.regular as f64 / self.regular_per_day;
        let day = requests.floor();
        day + time_of_share(requests - day, self.days.swing)
    }

    /// Returns the time of the scan's next request in days.
    fn scan_at(&self) -> f64 {
        if self.scan_length == 0 {
            return f64::INFINITY;
        }
        let day = self.scanned / self.scan_length;
        let done = (self.scanned % self.scan_length) as f64 / self.scan_length as f64;
        day as f64 + SCAN_BEGINS + done * SCAN_TAKES
    }

    fn regular_key(&mut self, at: f64) -> u64 {
        let draw = self.random.fraction() * (1.0 - self.days.scan);
        if draw < self.days.once {
            self.once += 1;
            return (self.once - 1) * KINDS + 2;
        }
        if draw < self.days.once + self.days.fading {
            return self.fading_id(at) * KINDS + 1;
        }
        self.lasting_id(at) * KINDS
    }

    /// Draws a fading object. With a half-life, the ages of requested objects are exponentially
    /// distributed.
    fn fading_id(&mut self, at: f64) -> u64 {
        let age = -(1.0 - self.random.fraction()).log2() * self.days.half_days;
        let hour = ((at - age) * HOURS).floor() as i64;
        let hour = hour.saturating_add_unsigned(HOURS_BEFORE).max(0) as u64;
        let rank = self.ranks.next().expect("the stream is endless");
        hour * self.births_per_hour + rank
    }

    /// Draws a permanent object by rank, and rejects it in proportion to the distance from its
    /// hour.
    fn lasting_id(&mut self, at: f64) -> u64 {
        let turn = self.days.turn;
        loop {
            let id = self.lasting.next().expect("the stream is endless");
            let phase = Random::of_key(self.seed ^ PHASES, id).fraction();
            let popularity = 1.0 + turn * (TAU * (at - phase)).cos();
            if self.random.fraction() * (1.0 + turn) < popularity {
                return id;
            }
        }
    }
}

impl Iterator for DaysStream {
    /// Milliseconds since the beginning of the trace, and a key.
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        let (regular_at, scan_at) = (self.regular_at(), self.scan_at());
        let at = regular_at.min(scan_at);
        let key = match scan_at < regular_at {
            true => {
                let id = self.scanned % self.scan_length;
                self.scanned += 1;
                id * KINDS + 3
            }
            false => {
                self.regular += 1;
                self.regular_key(at)
            }
        };
        Some(((at * DAY_MS) as u64, key))
    }
}

/// Returns the time of day, from 0 to 1, by which a share of the day's requests has come. The share
/// is x − swing · sin(2πx) / 2π, which is Kepler's equation. Newton's method from noon converges
/// from one side, because the curve is convex before noon and concave after.
fn time_of_share(share: f64, swing: f64) -> f64 {
    let mean = share * TAU;
    let mut angle = TAU / 2.0;
    loop {
        let step = (angle - swing * angle.sin() - mean) / (1.0 - swing * angle.cos());
        angle -= step;
        if step.abs() < 1e-10 {
            return (angle / TAU).clamp(0.0, 1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    const REQUESTS_A_DAY: usize = 100_000;
    const OBJECTS: u64 = 2_000;

    /// Returns times in days and keys of six days.
    fn six_days(text: &str, seed: u64) -> Vec<(f64, u64)> {
        let days = Days::parse(text, OBJECTS).expect("well-formed");
        let rate = REQUESTS_A_DAY as f64 / 86_400.0;
        let stream = DaysStream::new(&days, rate, seed).take(6 * REQUESTS_A_DAY);
        stream
            .map(|(time_ms, key)| (time_ms as f64 / DAY_MS, key))
            .collect()
    }

    fn share(requests: &[(f64, u64)], is_counted: impl Fn(f64, u64) -> bool) -> f64 {
        let counted = requests.iter().filter(|(at, key)| is_counted(*at, *key));
        counted.count() as f64 / requests.len() as f64
    }

    /// Returns the share of the requests that fall into an hour of the day.
    fn at_hour(requests: &[(f64, u64)], hour: usize, is_counted: impl Fn(u64) -> bool) -> f64 {
        share(requests, |at, key| {
            (at.fract() * HOURS) as usize == hour && is_counted(key)
        })
    }

    #[test]
    fn each_kind_has_its_share_and_times_do_not_decrease() {
        let requests = six_days("days:fading=0.3:once=0.2:scan=0.1", 1);
        assert!(requests.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        assert!(
            requests
                .last()
                .is_some_and(|(at, _)| (5.99..6.01).contains(at))
        );
        for (kind, wanted) in [(0, 0.4), (1, 0.3), (2, 0.2), (3, 0.1)] {
            let found = share(&requests, |_, key| key % KINDS == kind);
            // Five standard deviations of 600,000 draws are at most 0.0033.
            assert!((found - wanted).abs() < 0.0035, "{kind}: {found}");
        }
    }

    #[test]
    fn the_rate_swings_between_midnight_and_noon() {
        let requests = six_days("days:swing=0.6:scan=0", 1);
        for hour in 0..24 {
            let angle = (hour as f64 + 0.5) / HOURS * TAU;
            let wanted = (1.0 - 0.6 * angle.cos()) / HOURS;
            let found = at_hour(&requests, hour, |_| true);
            // The mean over an hour is within 0.3 % of the value at its middle, and times are not
            // random.
            assert!(
                (found / wanted - 1.0).abs() < 0.01,
                "{hour}: {found} {wanted}"
            );
        }
        let even = six_days("days:swing=0:scan=0", 1);
        assert!((at_hour(&even, 0, |_| true) * HOURS - 1.0).abs() < 1e-3);
    }

    #[test]
    fn the_scan_requests_the_same_objects_at_the_same_hour() {
        let requests = six_days("days:scan=0.2", 1);
        let scans = requests.iter().filter(|(_, key)| key % KINDS == 3);
        let (times, keys): (Vec<f64>, Vec<u64>) = scans.copied().unzip();
        let length = REQUESTS_A_DAY / 5;
        assert_eq!(keys.len(), 6 * length);
        for day in 0..6 {
            let walk = &keys[day * length..(day + 1) * length];
            assert!(
                walk.iter()
                    .enumerate()
                    .all(|(at, key)| *key == at as u64 * 4 + 3)
            );
        }
        assert!(times.iter().all(|at| (at.fract() * HOURS) as u64 == 3));
        assert!(at_hour(&requests, 3, |_| true) > 4.0 * at_hour(&requests, 2, |_| true));
    }

    #[test]
    fn an_object_requested_once_does_not_return() {
        let mut seen = HashMap::new();
        for (_, key) in six_days("days:once=0.3", 1) {
            *seen.entry(key).or_insert(0) += 1;
        }
        let once = seen.iter().filter(|(key, _)| **key % KINDS == 2);
        let counts: Vec<i32> = once.map(|(_, count)| *count).collect();
        assert!(counts.len() > 170_000);
        assert!(counts.iter().all(|count| *count == 1));
    }

    #[test]
    fn fading_objects_lose_half_their_popularity_in_a_half_life() {
        let requests = six_days("days:half=0.5:fading=0.8:scan=0:swing=0:births=4800", 3);
        // Requests of objects born in the first two days, by age in half-lives.
        let mut by_age = [0.0; 6];
        let fading = requests.iter().filter(|(_, key)| key % KINDS == 1);
        for &(at, key) in fading {
            let hour = (key / KINDS / 200) as i64 - HOURS_BEFORE as i64;
            let age = at - hour as f64 / HOURS;
            assert!(age >= 0.0, "no object is requested before its birth");
            if (0..48).contains(&hour) && age < 3.0 {
                by_age[(age / 0.5) as usize] += 1.0;
            }
        }
        for pair in by_age.windows(2) {
            let ratio: f64 = pair[1] / pair[0];
            // The last pair consists of some 5,000 and 2,500 requests: five standard deviations are
            // 0.06.
            assert!((ratio - 0.5).abs() < 0.06, "{by_age:?}");
        }
        assert!(
            requests
                .iter()
                .any(|(_, key)| { key % KINDS == 1 && key / KINDS / 200 < HOURS_BEFORE })
        );
    }

    #[test]
    fn a_lasting_object_is_most_popular_at_its_hour() {
        let requests = six_days("days:turn=0.8:fading=0:once=0:scan=0:swing=0:alpha=0", 5);
        let phase_of = |key: u64| Random::of_key(5 ^ PHASES, key / KINDS).fraction();
        let near = |key: u64, phase: f64| (phase_of(key) - phase).abs() < 1.0 / 48.0;
        // Objects whose hour is around noon, at noon and at midnight.
        let noon = at_hour(&requests, 12, |key| near(key, 0.52));
        let night = at_hour(&requests, 0, |key| near(key, 0.52));
        let ratio = noon / night;
        // The ratio is 1.8 to 0.2, reduced by the width of both intervals.
        assert!((7.0..10.0).contains(&ratio), "{ratio}");
    }

    #[test]
    fn equal_seeds_give_equal_days_and_others_differ() {
        assert_eq!(six_days("days", 1), six_days("days", 1));
        assert_ne!(six_days("days", 1), six_days("days", 2));
    }

    #[test]
    fn a_share_of_the_day_converts_to_a_time_even_at_a_low_rate() {
        for swing in [0.0, 0.5, 0.95] {
            let mut last = 0.0;
            for share in (0..10_000).map(|step| f64::from(step) / 10_000.0) {
                let at = time_of_share(share, swing);
                let back = at - swing * (TAU * at).sin() / TAU;
                assert!((back - share).abs() < 1e-9, "{swing} {share}: {at}");
                assert!(at >= last);
                last = at;
            }
        }
    }

    #[test]
    fn malformed_days_are_refused() {
        for text in [
            "days:",
            "days:swing",
            "days:swing=1",
            "days:half=0",
            "days:noise=1",
            "days:scan=0.5:once=0.5:fading=0.1",
            "days:births=0",
            "dayss",
            "days:turn=-1",
        ] {
            assert_eq!(Days::parse(text, 10), None, "{text}");
        }
    }
}

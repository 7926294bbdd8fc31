//! Generator of traces: mixed patterns of requests, repeatable by their seed.
//!
//! A mix is written `PATTERN[@WEIGHT]`, several separated by `+`, such as
//! `zipf:0.9@80+scan:1000@20`. A weight is a share of the requests. Each pattern has its own keys:
//! of n patterns, the one with index i has the keys k·n + i. A run, such as a scan, is not
//! interrupted.
//!
//! | pattern | its requests |
//! |---|---|
//! | `zipf:ALPHA[:OBJECTS]` | object k (from 1) with probability proportional to k^−ALPHA |
//! | `uniform[:OBJECTS]` | all objects with the same probability |
//! | `decay:ALPHA:EVERY[:OBJECTS]` | Zipf by age; an object is born every EVERY requests |
//! | `scan[:LENGTH]` | runs of LENGTH objects, each requested only once |
//! | `loop:OBJECTS` | objects in order, repeatedly, one at a time |
//!
//! Alternatively the whole trace is `days[:KNOB=VALUE…]`, whose rate and popularity follow the time
//! of day: see `days.rs`.

use crate::days::{Days, DaysStream};
use crate::number::decimal;
use crate::random::Random;
use crate::request::{Op, Request};
use crate::sizes::Sizes;
use crate::ttl_mix::TtlMix;
use crate::zipf::Zipf;

/// Default number of objects of a pattern.
pub const OBJECTS_DEFAULT: u64 = 100_000;
/// Default length of a scan.
const SCAN_DEFAULT: u64 = 1_000;
/// Maximum number of objects of a pattern, and maximum length of a run.
const OBJECTS_MAX: u64 = 1 << 40;

/// Options of a generated trace.
#[derive(Clone, Debug)]
pub struct GeneratorOptions {
    /// Patterns and their weights.
    pub mix: PatternMix,
    /// Sizes of objects.
    pub sizes: Sizes,
    /// TTLs of objects [default: none].
    pub ttl_mix: Option<TtlMix>,
    /// Requests per second, evenly spaced; with `days` the mean.
    pub rate: f64,
    /// Share of requests that write.
    pub writes: f64,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Default for GeneratorOptions {
    fn default() -> Self {
        let zipf = (Pattern::Zipf(1.0, OBJECTS_DEFAULT), 1.0);
        GeneratorOptions {
            mix: PatternMix(MixParts::Patterns(vec![zipf])),
            sizes: Sizes::Fixed { key: 0, value: 1 },
            ttl_mix: None,
            rate: 1_000.0,
            writes: 0.0,
            seed: 1,
        }
    }
}

/// Patterns and their weights, or a pattern of days.
#[derive(Clone, Debug, PartialEq)]
pub struct PatternMix(MixParts);

#[derive(Clone, Debug, PartialEq)]
enum MixParts {
    Patterns(Vec<(Pattern, f64)>),
    Days(Days),
}

#[derive(Clone, Debug, PartialEq)]
enum Pattern {
    Zipf(f64, u64),
    Decay(f64, u64, u64),
    Scan(u64),
    Loop(u64),
}

impl PatternMix {
    /// Parses a mix. Patterns without a number of objects have `objects` ≥ 1.
    ///
    /// # Errors
    /// A part is malformed, or the weights are too large.
    ///
    /// ```
    /// assert!(trace::PatternMix::parse("zipf:0.9@3+loop:500", 10_000).is_ok());
    /// assert!(trace::PatternMix::parse("loop", 10_000).is_err());
    /// ```
    pub fn parse(text: &str, objects: u64) -> Result<PatternMix, String> {
        if text.starts_with("days") {
            let wrong = || {
                format!(
                    "pattern {text:?}: expected days with knobs, such as days:once=0.2:half=0.5; the \
                     knobs are swing, alpha, turn, fading, half, births, once and scan, and the shares \
                     fading, once and scan add up to at most 1"
                )
            };
            let days = Days::parse(text, objects).ok_or_else(wrong)?;
            return Ok(PatternMix(MixParts::Days(days)));
        }
        let parts = text.split('+').map(|part| {
            let wrong = || {
                format!(
                    "pattern {part:?}: expected zipf:0.9, uniform, decay:1:10, scan:1000 or loop:5000, \
                     for example, each with or without @WEIGHT; days cannot be mixed"
                )
            };
            let (pattern, weight) = part.split_once('@').unwrap_or((part, "1"));
            let weight = decimal(weight).filter(|weight| *weight > 0.0);
            let pattern = pattern_of(pattern, objects);
            pattern.zip(weight).ok_or_else(wrong)
        });
        let parts: Vec<_> = parts.collect::<Result<_, String>>()?;
        let total: f64 = parts.iter().map(|(_, weight)| weight).sum();
        if !total.is_finite() {
            return Err(format!("the weights of {text:?} are too large"));
        }
        Ok(PatternMix(MixParts::Patterns(parts)))
    }
}

fn pattern_of(text: &str, objects: u64) -> Option<Pattern> {
    let mut parts = text.split(':');
    let name = parts.next()?;
    let numbers: Vec<f64> = parts.map(decimal).collect::<Option<_>>()?;
    let count = |number: f64| {
        let is_count = number.fract() == 0.0 && (1.0..=OBJECTS_MAX as f64).contains(&number);
        is_count.then_some(number as u64)
    };
    let alpha = |number: f64| (number <= 100.0).then_some(number);
    Some(match (name, &numbers[..]) {
        ("zipf", &[skew]) => Pattern::Zipf(alpha(skew)?, objects),
        ("zipf", &[skew, objects]) => Pattern::Zipf(alpha(skew)?, count(objects)?),
        ("uniform", &[]) => Pattern::Zipf(0.0, objects),
        ("uniform", &[objects]) => Pattern::Zipf(0.0, count(objects)?),
        ("decay", &[skew, every]) => Pattern::Decay(alpha(skew)?, count(every)?, objects),
        ("decay", &[skew, every, objects]) => {
            Pattern::Decay(alpha(skew)?, count(every)?, count(objects)?)
        }
        ("scan", &[]) => Pattern::Scan(SCAN_DEFAULT),
        ("scan", &[length]) => Pattern::Scan(count(length)?),
        ("loop", &[objects]) => Pattern::Loop(count(objects)?),
        _ => return None,
    })
}

/// Endless stream of requests in order of time.
pub struct Generator {
    source: Source,
    options: GeneratorOptions,
    random: Random,
    number: u64,
}

enum Source {
    Patterns(Turns),
    Days(Box<DaysStream>),
}

/// Patterns that take turns.
struct Turns {
    parts: Vec<Part>,
    /// Index of the pattern whose run is not complete, and the number of requests left in the run.
    run: (usize, u64),
}

/// State of one pattern.
struct Part {
    stream: Stream,
    /// Sum of the probabilities of a turn, up to and including its own.
    turns: f64,
}

enum Stream {
    Zipf(Zipf),
    Decay {
        ages: Zipf,
        every: u64,
        objects: u64,
        count: u64,
    },
    Scan {
        length: u64,
        next: u64,
    },
    Loop {
        objects: u64,
        next: u64,
    },
}

impl Turns {
    fn new(patterns: &[(Pattern, f64)], random: &mut Random) -> Self {
        let mut turns = 0.0;
        let parts = patterns.iter().map(|(pattern, weight)| {
            let stream = Stream::new(pattern, random.bits());
            // A turn of a long run makes as many requests as the run is long, so its probability is
            // divided by that length.
            turns += weight / stream.run_length() as f64;
            Part { stream, turns }
        });
        let mut parts: Vec<Part> = parts.collect();
        for part in &mut parts {
            part.turns /= turns;
        }
        Turns { parts, run: (0, 0) }
    }

    fn key(&mut self, random: &mut Random) -> u64 {
        if self.run.1 == 0 {
            let turn = random.fraction();
            let chosen = self.parts.iter().position(|part| turn < part.turns);
            // Rounding may leave the last sum just below 1.
            let chosen = chosen.unwrap_or(self.parts.len() - 1);
            self.run = (chosen, self.parts[chosen].stream.run_length());
        }
        self.run.1 -= 1;
        let id = self.parts[self.run.0].stream.id();
        id * self.parts.len() as u64 + self.run.0 as u64
    }
}

impl Generator {
    /// Begins a trace. The rate must be above 0, and the share of writes from 0 to 1.
    pub fn new(options: GeneratorOptions) -> Self {
        assert!(options.rate > 0.0 && options.rate.is_finite());
        assert!((0.0..=1.0).contains(&options.writes));
        let mut random = Random::new(options.seed);
        let source = match &options.mix.0 {
            MixParts::Patterns(patterns) => Source::Patterns(Turns::new(patterns, &mut random)),
            MixParts::Days(days) => {
                let stream = DaysStream::new(days, options.rate, random.bits());
                Source::Days(Box::new(stream))
            }
        };
        Generator {
            source,
            random,
            options,
            number: 0,
        }
    }

    /// Returns the time in milliseconds and the key of the next request.
    fn time_and_key(&mut self) -> (u64, u64) {
        match &mut self.source {
            Source::Patterns(turns) => {
                let time_ms = self.number as f64 * 1000.0 / self.options.rate;
                (time_ms as u64, turns.key(&mut self.random))
            }
            Source::Days(stream) => stream.next().expect("the stream is endless"),
        }
    }
}

impl Iterator for Generator {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let (time_ms, key) = self.time_and_key();
        let seed = self.options.seed;
        let (key_size, value_size) = self.options.sizes.of_key(key, seed);
        let is_write = self.random.fraction() < self.options.writes;
        let ttl_mix = self.options.ttl_mix.as_ref();
        let request = Request {
            time_ms,
            key,
            ttl_ms: ttl_mix.map_or(0, |mix| mix.ttl_ms(key, seed)),
            size: key_size.saturating_add(value_size),
            key_size,
            value_size,
            op: if is_write { Op::Set } else { Op::Get },
            ..Request::default()
        };
        self.number += 1;
        Some(request)
    }
}

impl Stream {
    fn new(pattern: &Pattern, seed: u64) -> Stream {
        match *pattern {
            Pattern::Zipf(alpha, objects) => Stream::Zipf(Zipf::new(objects, alpha, seed)),
            Pattern::Decay(alpha, every, objects) => Stream::Decay {
                ages: Zipf::new(objects, alpha, seed),
                every,
                objects,
                count: 0,
            },
            Pattern::Scan(length) => Stream::Scan { length, next: 0 },
            Pattern::Loop(objects) => Stream::Loop { objects, next: 0 },
        }
    }

    /// Returns the number of requests that the pattern makes each time it is chosen.
    fn run_length(&self) -> u64 {
        match self {
            Stream::Scan { length, .. } => *length,
            _ => 1,
        }
    }

    /// Returns the number of the next object within the pattern.
    fn id(&mut self) -> u64 {
        match self {
            Stream::Zipf(zipf) => zipf.next().expect("the stream is endless"),
            Stream::Decay {
                ages,
                every,
                objects,
                count,
            } => {
                // The first OBJECTS exist from the beginning.
                let youngest = *objects - 1 + *count / *every;
                *count += 1;
                youngest - ages.next().expect("the stream is endless")
            }
            Stream::Scan { next, .. } => {
                *next += 1;
                *next - 1
            }
            Stream::Loop { objects, next } => {
                let id = *next;
                *next = (id + 1) % *objects;
                id
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn keys(mix: &str, count: usize, seed: u64) -> Vec<u64> {
        let options = GeneratorOptions {
            mix: PatternMix::parse(mix, 1_000).expect("well-formed"),
            seed,
            ..GeneratorOptions::default()
        };
        Generator::new(options)
            .take(count)
            .map(|request| request.key)
            .collect()
    }

    #[test]
    fn equal_seeds_give_equal_traces_and_others_differ() {
        let mix = "zipf:0.9@70+scan:50@20+loop:30@5+decay:1:10@5";
        assert_eq!(keys(mix, 5_000, 1), keys(mix, 5_000, 1));
        assert_ne!(keys(mix, 5_000, 1), keys(mix, 5_000, 2));
    }

    #[test]
    fn each_pattern_generates_its_sequence() {
        assert_eq!(keys("loop:3", 7, 1), [0, 1, 2, 0, 1, 2, 0]);
        assert_eq!(keys("scan:2", 5, 1), [0, 1, 2, 3, 4]);
        assert!(keys("uniform:5", 1_000, 1).iter().all(|key| *key < 5));
        let zipf = keys("zipf:1.2", 10_000, 1);
        let share = zipf.iter().filter(|key| **key == 0).count();
        assert!((2_000..3_000).contains(&share), "{share}");
    }

    #[test]
    fn requests_follow_the_weights_and_runs_are_not_interrupted() {
        let keys = keys("uniform@60+scan:100@30+loop:10@10", 1_000_000, 4);
        let share = |part: u64| keys.iter().filter(|key| *key % 3 == part).count() as f64 / 1e6;
        for (part, wanted) in [(0, 0.6), (1, 0.3), (2, 0.1)] {
            // There are some 3,000 runs of 100: five standard deviations are 0.03.
            assert!(
                (share(part) - wanted).abs() < 0.03,
                "{part}: {}",
                share(part)
            );
        }
        let scans: Vec<usize> = (0..keys.len()).filter(|at| keys[*at] % 300 == 1).collect();
        for start in &scans[..scans.len() - 1] {
            let run = &keys[*start..*start + 100];
            assert!(run.windows(2).all(|pair| pair[1] == pair[0] + 3));
        }
    }

    #[test]
    fn popularity_decays_with_age() {
        let keys = keys("decay:1:10:500", 100_000, 1);
        // Requests of object 1,000 by its age, in steps of 1,000 requests of the pattern.
        let mut ages = HashMap::new();
        for (at, _) in keys.iter().enumerate().filter(|(_, key)| **key == 1_000) {
            *ages.entry(at / 1_000).or_insert(0) += 1;
        }
        let born = (1_000 - 499) * 10 / 1_000;
        assert!(
            ages.keys().all(|age| (born..=born + 5).contains(age)),
            "{ages:?}"
        );
        let young = ages.get(&born).copied().unwrap_or(0);
        let old: u32 = (1..=5).filter_map(|age| ages.get(&(born + age))).sum();
        assert!(young > old, "{ages:?}");
    }

    #[test]
    fn requests_have_time_size_ttl_and_operation() {
        let options = GeneratorOptions {
            sizes: Sizes::Fixed {
                key: 20,
                value: 300,
            },
            ttl_mix: Some(TtlMix::parse("60s:1").expect("well-formed")),
            rate: 500.0,
            writes: 0.25,
            ..GeneratorOptions::default()
        };
        let requests: Vec<Request> = Generator::new(options).take(10_000).collect();
        assert_eq!(requests[3].time_ms, 6);
        assert!(
            requests
                .iter()
                .all(|r| (r.size, r.key_size, r.ttl_ms) == (320, 20, 60_000))
        );
        let writes = requests
            .iter()
            .filter(|request| request.op == Op::Set)
            .count();
        assert!((2_250..2_750).contains(&writes), "{writes}");
    }

    #[test]
    fn days_have_sizes_and_operations_like_other_patterns() {
        let options = GeneratorOptions {
            mix: PatternMix::parse("days:once=0.2", 500).expect("well-formed"),
            sizes: Sizes::Uniform { first: 5, last: 9 },
            rate: 0.1,
            writes: 0.5,
            ..GeneratorOptions::default()
        };
        let requests: Vec<Request> = Generator::new(options).take(8_640).collect();
        assert!(requests.iter().all(|r| (5..=9).contains(&r.size)));
        assert!(requests.iter().any(|r| r.op == Op::Set));
        let last = requests.last().map_or(0, |request| request.time_ms);
        assert!((86_000_000..86_400_000).contains(&last), "a day: {last}");
    }

    #[test]
    fn malformed_mixes_are_refused() {
        for mix in [
            "",
            "zipf",
            "zipf:x",
            "zipf:-1",
            "zipf:1:0",
            "zipf:1:1:1",
            "uniform:1.5",
            "loop",
            "loop:0",
            "scan:1:2",
            "decay:1",
            "zipf:1@",
            "zipf:1@0",
            "zipf:1@-1",
            "zipf:1++scan",
            "zipf:1,scan",
            "loop:99999999999999",
            "days@1+scan",
            "zipf:1+days",
            "days:scan=2",
        ] {
            assert!(PatternMix::parse(mix, 1_000).is_err(), "{mix}");
        }
    }
}

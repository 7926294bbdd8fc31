//! Shapes of traffic: the TTLs of entries, and the updates and deletions before they expire.

use policy::parts::chance::Chance;

const SECOND_MS: u64 = 1_000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;

/// Distribution of TTLs.
#[derive(Clone, Copy, Debug)]
enum Ttls {
    /// Uniform between the two bounds, inclusive.
    Between(u64, u64),
    /// The deadline is the next multiple of this time.
    Shared(u64),
    /// One of these values, with weights in percent.
    Mix(&'static [(u64, u64)]),
    /// A random multiple of the first number; the second is the maximum factor.
    Multiples(u64, u64),
}

/// A shape of traffic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub name: &'static str,
    pub about: &'static str,
    ttls: Ttls,
    /// Duration of the traffic in simulated milliseconds.
    pub span_ms: u64,
    /// Time in which the number of updated deadlines equals the number of entries.
    pub refresh_ms: Option<u64>,
    /// Time in which the number of deleted and replaced entries equals the number of entries.
    pub delete_ms: Option<u64>,
}

const fn plain(name: &'static str, about: &'static str, ttls: Ttls, span_ms: u64) -> Shape {
    Shape {
        name,
        about,
        ttls,
        span_ms,
        refresh_ms: None,
        delete_ms: None,
    }
}

/// All shapes. The shapes of published traces are the rows of Table 4.3 in J. Yang's thesis. The
/// shares given there for `c` and `mix` add up to 99 and 98, and are used as weights.
pub(super) const SHAPES: [Shape; 12] = [
    plain(
        "uniform",
        "TTLs of 1 ms to 1 h",
        Ttls::Between(1, HOUR_MS),
        10 * MINUTE_MS,
    ),
    plain(
        "shared",
        "all on one deadline, a minute apart",
        Ttls::Shared(MINUTE_MS),
        130 * SECOND_MS,
    ),
    plain(
        "two-groups",
        "half of 10 s, half of 30 d",
        Ttls::Mix(&[(10 * SECOND_MS, 50), (30 * DAY_MS, 50)]),
        40 * SECOND_MS,
    ),
    plain(
        "twitter-c",
        "content: 1 d 65 %, 14 d 27 %, 12 h 7 %",
        Ttls::Mix(&[(DAY_MS, 65), (14 * DAY_MS, 27), (12 * HOUR_MS, 7)]),
        HOUR_MS,
    ),
    plain(
        "twitter-u1",
        "user: 5 d",
        Ttls::Mix(&[(5 * DAY_MS, 1)]),
        HOUR_MS,
    ),
    plain(
        "twitter-u2",
        "user: 12 h",
        Ttls::Mix(&[(12 * HOUR_MS, 1)]),
        HOUR_MS,
    ),
    plain(
        "twitter-n",
        "negative cache: 30 d",
        Ttls::Mix(&[(30 * DAY_MS, 1)]),
        HOUR_MS,
    ),
    plain(
        "twitter-mix",
        "30 d 14 %, 14 d 11 %, 1 d 23 %, 12 h 38 %, 2 min 12 %",
        Ttls::Mix(&[
            (30 * DAY_MS, 14),
            (14 * DAY_MS, 11),
            (DAY_MS, 23),
            (12 * HOUR_MS, 38),
            (2 * MINUTE_MS, 12),
        ]),
        10 * MINUTE_MS,
    ),
    Shape {
        refresh_ms: Some(MINUTE_MS),
        ..plain(
            "sessions",
            "2 min, reset by a request a minute on average",
            Ttls::Between(2 * MINUTE_MS, 2 * MINUTE_MS),
            3 * MINUTE_MS,
        )
    },
    Shape {
        delete_ms: Some(MINUTE_MS),
        ..plain(
            "deleted-early",
            "1 h, deleted and replaced after a minute on average",
            Ttls::Between(HOUR_MS, HOUR_MS),
            2 * MINUTE_MS,
        )
    },
    plain(
        "thousand",
        "1,000 TTLs: 1 s to 1,000 s",
        Ttls::Multiples(SECOND_MS, 1_000),
        10 * MINUTE_MS,
    ),
    plain(
        "jittered",
        "10 min, 10 % more or less",
        Ttls::Between(9 * MINUTE_MS, 11 * MINUTE_MS),
        10 * MINUTE_MS,
    ),
];

impl Shape {
    /// Returns the deadline of an entry that is inserted at `now`.
    pub fn deadline(&self, chance: &mut Chance, now: u64) -> u64 {
        match self.ttls {
            Ttls::Between(low, high) => now + low + chance.below(high - low + 1),
            Ttls::Shared(every) => (now / every + 1) * every,
            Ttls::Multiples(unit, count) => now + unit * (1 + chance.below(count)),
            Ttls::Mix(choices) => {
                let sum: u64 = choices.iter().map(|choice| choice.1).sum();
                let mut left = chance.below(sum);
                for &(ttl, weight) in choices {
                    if left < weight {
                        return now + ttl;
                    }
                    left -= weight;
                }
                unreachable!("the weights add up to their sum");
            }
        }
    }

    /// Returns the deadline of an unexpired entry that was inserted at a random time before `now`.
    pub fn deadline_of_resident(&self, chance: &mut Chance, now: u64) -> u64 {
        let deadline = self.deadline(chance, now);
        if matches!(self.ttls, Ttls::Shared(_)) {
            return deadline;
        }
        now + chance.below(deadline - now + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_are_as_the_shape_says() {
        let mut chance = Chance::new(1);
        for shape in SHAPES {
            for now in [1_763_640_000_123, 1_763_640_060_000] {
                for _ in 0..1_000 {
                    let deadline = shape.deadline(&mut chance, now);
                    assert!(deadline > now, "{}", shape.name);
                    assert!(deadline <= now + 30 * DAY_MS);
                    assert!(shape.deadline_of_resident(&mut chance, now) <= now + 30 * DAY_MS);
                }
            }
        }
    }
}
